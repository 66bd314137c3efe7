//! The conformance suite over a fake of a device, or over a real one if `MPI_CONNECT_TEST_RDMA` is set; and what only a fake
//! can do: calls that fail, work that completes late, queue pairs that break.

use super::address::unplace;
use super::fake;
use crate::conformance::handshake::agree;
use crate::conformance::memory::{LIMIT, Mem, Seen, bytes, header};
use crate::conformance::{Factory, Rig, lane};
use crate::ip::start_connect;
use crate::registry::AnyLane;
use std::time::Instant;
use trust::Encrypt;
use wire::frame::{Kind, MAX_PAYLOAD};
use wire::lane::{Death, Event, Lane, Payload, Sent};

/// Where a device is, it is tested by the same cases.
fn settings() -> super::Settings {
    let is_real = std::env::var_os("MPI_CONNECT_TEST_RDMA").is_some();
    let plugin = std::env::var(base::settings::VERBS).ok();
    super::Settings { plugin, table: (!is_real).then_some(&fake::TABLE), ..Default::default() }
}

/// The same, but no memory is read: what is large is written.
fn settings_without_reads() -> super::Settings {
    super::Settings { reads: Some(0), ..settings() }
}

crate::conformance::suite!(verbs, verbs, |place, _| start_connect(unplace(place).unwrap().0), |s| s.verbs = settings());
crate::conformance::suite!(verbs_written, verbs, |place, _| start_connect(unplace(place).unwrap().0), |s| s.verbs =
    settings_without_reads());

#[test]
fn the_seeds_of_the_fuzz_target_are_read() {
    use super::fuzzing::{holds, seeds};
    for seed in seeds() {
        assert!((0..=seed.len()).all(|end| holds(&seed[..end])), "{seed:?}");
    }
}

/// Two sides over the fake.
fn rig() -> Rig {
    rig_of(None)
}

/// Two sides over the fake, with so many reads at a time.
fn rig_of(reads: Option<u8>) -> Rig {
    let faked = super::Settings { table: Some(&fake::TABLE), reads, ..Default::default() };
    Rig::open(
        &super::ABOUT,
        move |s| s.verbs = faked.clone(),
        Encrypt::Network,
        |place, _| start_connect(unplace(place).unwrap().0),
    )
}

fn is_dead(lane: &AnyLane) -> bool {
    Lane::<Mem>::death(lane).is_some()
}

fn own(lane: &AnyLane) -> &super::VerbsLane {
    match lane {
        AnyLane::Verbs(lane) => lane,
        _ => unreachable!("all are of this transport"),
    }
}

fn lent(lane: &AnyLane) -> u64 {
    own(lane).lent()
}

/// Sends messages and bulk from one to the other. Returns whether all came; otherwise a lane is dead.
fn carries(a: &mut AnyLane, b: &mut AnyLane) -> bool {
    let (mut mem, mut seen) = (Mem::new(1 << 30), Seen::new(1 << 30));
    mem.buffers.insert(5, bytes(MAX_PAYLOAD, 5));
    seen.mem.buffers.insert(9, vec![0; MAX_PAYLOAD]);
    let small = bytes(3000, 1);
    let mut left: Vec<_> = (1..=40).rev().map(|i| (header(Kind::Msg, i, 0, small.len()), None)).collect();
    left.insert(20, (header(Kind::Bulk, 9, 0, MAX_PAYLOAD), Some(5)));
    let (start, mut at_a) = (Instant::now(), Seen::new(1));
    while seen.frames.len() < 40 || seen.bulk_bytes < MAX_PAYLOAD {
        assert!(start.elapsed() < LIMIT, "nothing moves");
        if let Some((header, buf)) = left.last() {
            let payload = buf.map_or(Payload::Bytes(&small), |buf| Payload::User { buf, offset: 0 });
            if a.try_send(&mem, header, payload) == Sent::Taken {
                left.pop();
            }
        }
        a.flush(&mem);
        Lane::<Mem>::poll(a, &mut at_a, 1 << 16);
        Lane::<Mem>::poll(b, &mut seen, 1 << 16);
        for lane in [&mut *a, b] {
            Lane::<Mem>::event(lane);
            if is_dead(lane) {
                return false;
            }
        }
    }
    assert!(seen.mem.buffers[&9] == mem.buffers[&5] && seen.frames.iter().all(|(_, body)| *body == small));
    true
}

/// Whichever call fails, and when: a lane ends with a reason, or works; none hangs, and nothing is left behind.
#[test]
fn any_call_may_fail() {
    let calls = [
        "open", "domain", "shared", "channel", "queue", "pair", "begin", "connect", "register", "receive", "arm",
        "poll", "post",
    ];
    let mut died = 0;
    for (reads, call) in [None, Some(0)].into_iter().flat_map(|reads| calls.map(|call| (reads, call))) {
        for after in [0, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89] {
            let mut rig = rig_of(reads);
            let (attempt, incoming) = rig.greeted();
            let (mut a, mut b) = agree(&rig, attempt, incoming);
            fake::fail(call, after);
            let worked = carries(&mut a, &mut b);
            let met = fake::has_failed();
            // What cannot be registered goes over the stream.
            assert!(worked || met, "{call} {after}: it has not failed");
            died += u32::from(!worked);
            fake::fail("nothing", 0);
            drop((a, b));
            // Both can go on with another lane.
            let (mut a, mut b) = rig.pair();
            assert!(carries(&mut a, &mut b), "{call} {after}");
            drop((a, b, rig));
            assert_eq!(fake::left(), 0, "{call} {after}");
        }
    }
    assert!(died > 80, "{died}");
}

/// Work is done late, and completions of different queues come in any order.
#[test]
fn late_work_changes_nothing() {
    for seed in 1..=20 {
        fake::shuffle(seed * 0x9e37_79b9);
        let rig = || rig_of((seed % 2 == 0).then_some(0));
        lane::order_and_sizes(&mut rig());
        lane::bulk_among_frames(&mut rig());
        lane::unwanted_and_vanished(&mut rig());
        lane::no_room_then_writable(&mut rig());
        lane::last_words(&mut rig());
        assert_eq!(fake::left(), 0);
    }
}

/// A queue pair that breaks ends its lane on both sides, whenever it is; no slot is lost by that.
#[test]
fn a_broken_queue_pair_ends_its_lane() {
    let mut rigs = [rig(), rig_of(Some(0))];
    for round in 0..120 {
        let rig = &mut rigs[round as usize % 2];
        let (mut a, mut b) = rig.pair();
        let round = round / 2;
        let (mut mem, mut seen, mut at_a) = (Mem::new(1 << 30), Seen::new(1 << 30), Seen::new(1));
        mem.buffers.insert(5, bytes(MAX_PAYLOAD, 5));
        seen.mem.buffers.insert(9, vec![0; MAX_PAYLOAD]);
        for i in 0..round {
            let user = Payload::User { buf: 5, offset: 0 };
            let _ = a.try_send(&mem, &header(Kind::Bulk, 9, 0, MAX_PAYLOAD), user);
            let _ = a.try_send(&mem, &header(Kind::Msg, i + 1, 0, 3), Payload::Bytes(b"abc"));
            if round % 3 == 0 {
                Lane::<Mem>::poll(&mut b, &mut seen, 1 << 16);
                Lane::<Mem>::poll(&mut a, &mut at_a, 1 << 16);
            }
        }
        fake::break_pairs();
        let start = Instant::now();
        while !is_dead(&a) || !is_dead(&b) {
            assert!(start.elapsed() < LIMIT, "the death is not seen");
            a.flush(&mem);
            Lane::<Mem>::poll(&mut a, &mut at_a, 1 << 16);
            Lane::<Mem>::poll(&mut b, &mut seen, 1 << 16);
        }
        assert!(matches!(Lane::<Mem>::death(&a), Some(Death::Io(_) | Death::Closed)), "the path replays what was lost");
        assert_eq!(Lane::<Mem>::event(&mut a), Some(Event::Dead));
    }
    for rig in &mut rigs {
        let (mut a, mut b) = rig.pair();
        assert!(carries(&mut a, &mut b));
    }
}

/// Large bulk in one piece is read from where it lies, or written; what lies in many pieces goes over the stream. SWITCH waits for
/// either.
#[test]
fn large_bulk_goes_from_where_it_lies() {
    let blocks = [(1 << 30, true), (MAX_PAYLOAD / 4, true), (1000, false)];
    for (reads, (block, is_lent)) in [None, Some(0)].into_iter().flat_map(|reads| blocks.map(|block| (reads, block))) {
        let (mut a, mut b) = rig_of(reads).pair();
        let (mut mem, mut seen) = (Mem::new(block), Seen::new(1 << 30));
        mem.buffers.insert(5, bytes(MAX_PAYLOAD, 5));
        seen.mem.buffers.insert(9, vec![0; MAX_PAYLOAD]);
        let user = Payload::User { buf: 5, offset: 0 };
        let (start, mut at_a) = (Instant::now(), Seen::new(1));
        // Before the first write, the other side makes room.
        while a.try_send(&mem, &header(Kind::Bulk, 9, 0, MAX_PAYLOAD), user) == Sent::NoRoom {
            assert!(start.elapsed() < LIMIT && reads == Some(0));
            Lane::<Mem>::poll(&mut b, &mut seen, 1 << 16);
            Lane::<Mem>::poll(&mut a, &mut at_a, 1 << 16);
            while Lane::<Mem>::event(&mut a).is_some() {}
        }
        assert_eq!(lent(&a), if is_lent { MAX_PAYLOAD as u64 } else { 0 });
        let switch = header(Kind::Switch, 2, 0, 0);
        let early = a.try_send(&mem, &switch, Payload::Bytes(b""));
        assert_eq!(early, Sent::NoRoom);
        assert_eq!(Lane::<Mem>::waiting(&a), 1);
        let mut sent = false;
        while !sent {
            assert!(start.elapsed() < LIMIT);
            a.flush(&mem);
            Lane::<Mem>::poll(&mut b, &mut seen, 1 << 16);
            Lane::<Mem>::poll(&mut a, &mut at_a, 1 << 16);
            sent = Lane::<Mem>::event(&mut a) == Some(Event::Writable)
                && a.try_send(&mem, &switch, Payload::Bytes(b"")) == Sent::Taken;
        }
        if is_lent && reads.is_none() {
            assert_eq!(seen.bulk_bytes, MAX_PAYLOAD, "the other side has all when there is room for SWITCH");
        }
        while seen.frames.is_empty() {
            assert!(start.elapsed() < LIMIT);
            a.flush(&mem);
            Lane::<Mem>::poll(&mut b, &mut seen, 1 << 16);
        }
        assert_eq!((seen.frames[0].0.kind, seen.bulk_bytes), (Kind::Switch, MAX_PAYLOAD));
        assert!(seen.mem.buffers[&9] == mem.buffers[&5]);
    }
}

/// A MSG that is written in place is a message of its own, if it fits and nothing waits before it; all keep their order.
#[test]
fn a_msg_with_nothing_before_it_is_a_message_of_its_own() {
    let (mut a, mut b) = rig().pair();
    assert!(carries(&mut a, &mut b));
    let (mem, mut seen) = (Mem::new(1), Seen::new(1));
    let h = |i, len| header(Kind::Msg, i, i, len);
    let write = |a: &mut AnyLane, i, len| {
        let before = own(a).direct();
        let taken = Lane::<Mem>::try_send_with(a, &h(i, len), &mut |_, to| to.fill(i as u8));
        assert_eq!(taken, Sent::Taken);
        own(a).direct() > before
    };
    assert!(write(&mut a, 1, 3) && write(&mut a, 2, 8000));
    assert!(!write(&mut a, 3, 8192), "it does not fit, so it waits in the stream");
    assert!(!write(&mut a, 4, 3), "one waits before it");
    assert!(a.flush(&mem) && write(&mut a, 5, 3));
    let asking = wire::frame::Header { ack_now: true, ..h(6, 1) };
    let before = own(&a).direct();
    assert_eq!(Lane::<Mem>::try_send_with(&mut a, &asking, &mut |_, to| to.fill(6)), Sent::Taken);
    assert_eq!(own(&a).direct(), before, "it asks for something");
    let start = Instant::now();
    while seen.frames.len() < 6 {
        assert!(start.elapsed() < LIMIT);
        a.flush(&mem);
        Lane::<Mem>::poll(&mut b, &mut seen, 1 << 16);
    }
    for (i, (header, body)) in (1..).zip(&seen.frames) {
        assert!(header.a == i && header.b == i && body.iter().all(|byte| *byte == i as u8), "{i}");
    }
}

/// A device that cannot read: what is large is written, to one room. No memory for that: it goes over the stream.
#[test]
fn without_reads_it_is_written_and_without_room_it_is_sent() {
    fake::without_reads();
    for has_room in [true, false] {
        let mut rig = rig();
        let (mut a, mut b) = rig.pair();
        if !has_room {
            fake::fail("register", 0);
        }
        for n in 1..=3 {
            assert!(carries(&mut a, &mut b));
            assert_eq!(lent(&a), if has_room { n * MAX_PAYLOAD as u64 } else { 0 });
        }
        assert!(has_room || fake::has_failed());
        drop((a, b, rig));
        assert_eq!(fake::left(), 0);
    }
}

/// A place over which no packet came is not dialled again for a while, so that another transport has its turn.
#[test]
fn a_place_of_no_use_is_not_tried_again() {
    let mut rig = rig();
    let place = rig.place();
    let (attempt, incoming) = rig.greeted();
    let (mut a, mut b) = agree(&rig, attempt, incoming);
    fake::fail("connect", 1);
    assert!(!carries(&mut a, &mut b));
    Lane::<Mem>::event(&mut a);
    assert!(!rig.places(Some(true), None).contains(&place), "it leads nowhere");
}

/// The device takes only some slots of a new block: what it has taken stays where it is, and the rest is posted later.
#[test]
fn a_half_posted_block_stays() {
    let mut met = 0;
    for after in 0..30 {
        let mut rig = rig();
        let first = rig.pair();
        let (attempt, incoming) = rig.greeted();
        let (mut a, mut b) = agree(&rig, attempt, incoming);
        fake::fail("receive", after);
        carries(&mut a, &mut b);
        met += u32::from(fake::has_failed());
        fake::fail("nothing", 0);
        assert_eq!(fake::posted().1, 0, "slots are posted whose memory is gone");
        drop((a, b));
        assert_eq!(fake::posted().1, 0, "slots are posted whose memory is gone");
        for (mut a, mut b) in [first, rig.pair()] {
            assert!(carries(&mut a, &mut b), "{after}");
        }
    }
    assert!(met > 20, "{met}");
}

/// Breaks lanes beside one that stays, which carries on. Returns how many slots are posted, before and then.
fn broken_beside(rounds: u32, breaks: fn()) -> (usize, usize) {
    let mut rig = rig();
    let (mut a, mut b) = rig.pair();
    drop(rig.pair());
    let before = fake::posted().0;
    for _ in 0..rounds {
        let (mut c, mut d) = rig.pair();
        let (mem, mut seen) = (Mem::new(1 << 30), Seen::new(1 << 30));
        let body = bytes(7000, 1);
        for i in 0..8 {
            let _ = c.try_send(&mem, &header(Kind::Msg, i + 1, 0, body.len()), Payload::Bytes(&body));
        }
        c.flush(&mem);
        breaks();
        let start = Instant::now();
        while !is_dead(&d) {
            assert!(start.elapsed() < LIMIT, "the death is not seen");
            Lane::<Mem>::poll(&mut d, &mut seen, 1 << 16);
            Lane::<Mem>::event(&mut d);
        }
    }
    let now = fake::posted();
    assert_eq!(now.1, 0, "slots are posted whose memory is gone");
    assert!(carries(&mut a, &mut b), "a lane that was there all the time");
    (before, now.0)
}

/// A message that fails gives its slot back, and those behind it theirs.
#[test]
fn slots_of_failed_receives_are_posted_again() {
    let (before, now) = broken_beside(100, fake::fail_receives);
    assert_eq!(now, before);
}

/// A message that ends in the middle has a slot, which comes some time after the queue pair has failed.
#[test]
fn slots_of_messages_that_were_cut_off_are_posted_again() {
    fake::cut_off(true, false);
    let (before, now) = broken_beside(100, fake::fail_receives);
    fake::cut_off(false, false);
    assert_eq!(now, before);
}

/// A device that never tells that no more come: as many slots as may be lost are not counted on.
#[test]
fn slots_that_may_be_lost_are_not_counted_on() {
    fake::cut_off(true, true);
    let (before, now) = broken_beside(20, fake::fail_receives);
    fake::cut_off(false, false);
    assert!(now >= before, "{before} slots are posted before, {now} then");
}

/// A place over which nothing came is not dialled again for a while, but other ports of the same process are.
#[test]
fn all_routes_have_their_turn() {
    let mut rig = rig();
    let mut routes = Vec::new();
    loop {
        let places = rig.places(Some(true), None);
        let Some(first) = places.first() else { break };
        let (_, route) = unplace(first).unwrap();
        assert!(places.iter().all(|place| unplace(place).unwrap().1 == route), "{places:?}");
        routes.push(route);
        assert!(routes.len() <= 4, "{routes:?}");
        let (attempt, incoming) = rig.greeted();
        let (mut a, mut b) = agree(&rig, attempt, incoming);
        fake::fail("connect", 1);
        assert!(!carries(&mut a, &mut b));
        Lane::<Mem>::event(&mut a);
    }
    routes.sort();
    assert_eq!(routes, [(0, 0), (0, 1), (1, 0), (1, 1)]);
}

/// A host that has got other addresses tells those of its devices too.
#[test]
fn addresses_are_looked_up_again() {
    let mut rig = rig();
    let entry = |rig: &mut Rig| super::address::parse(&rig.sides[1].transport().entry()).0;
    let before = entry(&mut rig);
    fake::move_to(7);
    rig.sides.iter_mut().for_each(|side| side.transport().rebind());
    let after = entry(&mut rig);
    assert_eq!((before[0].gid[14], after[0].gid[14]), (0, 7));
    let (mut a, mut b) = rig.pair();
    assert!(carries(&mut a, &mut b));
}

/// Encryption that is demanded cannot be had, so the transport is not used.
#[test]
fn it_is_not_used_where_encryption_is_demanded() {
    use crate::conformance::rig::trusting;
    use crate::registry::{Allowed, Registry, Settings};
    use crate::transport::Env;
    use nix::sys::eventfd::EventFd;
    use std::os::fd::AsFd;
    let doorbell = EventFd::new().unwrap();
    for (encrypt, opened) in [(Encrypt::Always, 0), (Encrypt::Network, 1), (Encrypt::Never, 1)] {
        let trust = trusting(&trust::Key::new(), encrypt);
        let allowed = Allowed::parse(super::ABOUT.word).unwrap();
        let verbs = super::Settings { table: Some(&fake::TABLE), ..Default::default() };
        let settings = Settings { allowed, verbs, ..Settings::default() };
        let registry = Registry::open(&settings, &Env { trust: &trust, doorbell: doorbell.as_fd() }).unwrap();
        assert_eq!(registry.opened().count(), opened, "{encrypt:?}");
    }
}
