//! Connections: cut, raced, refused, abused. Nothing is lost and nobody gets in unasked.

use crate::common::raw::*;
use crate::common::*;
use node::{ContextId, Fault, Gone, Outcome, RemoteGroup};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};
use trust::GREETING;
use wire::frame::Kind;

fn cut_at_random_times_with_nothing_lost() {
    for seed in [11, 12, 13] {
        let (a, b) = (Job::new(), Job::new());
        let (to_b, to_a) = couple(&a, &b);
        let data = Rng(seed + 100).messages(400);
        swap_while_cut([(a, to_b), (b, to_a)], &data, seed);
    }
}

fn both_dial_at_once() {
    for round in 0..50 {
        let (a, b) = (Job::new(), Job::new());
        let (to_b, to_a) = couple(&a, &b);
        let data = pattern(20_000, round);
        let (mut x, mut y) = (vec![0; 20_000], vec![0; 20_000]);
        let barrier = std::sync::Barrier::new(2);
        std::thread::scope(|s| {
            let (barrier, data) = (&barrier, &data);
            for (job, inter, space) in [(&a, to_b, &mut x), (&b, to_a, &mut y)] {
                s.spawn(move || {
                    barrier.wait();
                    let send = job.send(inter, 1, data);
                    let recv = job.recv(inter, 1, space);
                    assert_eq!(job.wait(recv), got(20_000, 1));
                    assert_eq!(job.wait(send), Outcome::Sent);
                });
            }
        });
        assert!(x == data && y == data);
        // Neither has undone what the other did.
        assert_eq!(a.node.inspect(|core| core.lanes_had(a.id(), b.id())), 1);
    }
}

fn leaders_speak_before_and_after_they_know_each_other() {
    let (a, b) = (Job::new(), Job::new());
    let there = a.node.open_control(a.id(), b.id(), b.group.cookie, &b.node.contact());
    a.node.send_control(there, b"offer");
    a.node.send_control(there, b"");
    // The other leader has not asked for the path yet.
    std::thread::sleep(Duration::from_millis(100));
    let back = b.node.open_control(b.id(), a.id(), a.group.cookie, &a.node.contact());
    let deadline = Some(Instant::now() + LONG);
    let next = |job: &Job, path| job.node.wait_until(&mut || false, |core| core.recv_control(path), deadline).unwrap();
    assert_eq!(next(&b, back), b"offer");
    assert_eq!(next(&b, back), b"");
    b.node.send_control(back, &vec![5; 1_000_000]);
    assert_eq!(next(&a, there).len(), 1_000_000);
    assert_eq!(a.node.drain(LONG), 0);
    let gone = b.node.wait_until(&mut || false, |core| core.path_gone(back), deadline);
    assert_eq!(gone, Some(Gone::Finished));
}

fn a_wrong_cookie_is_refused() {
    let (a, b) = (Job::new(), Job::new());
    let lie = RemoteGroup { cookie: [99; 16], ..b.as_remote() };
    // The other side expects nothing, or it would come by itself.
    let (to_b, _to_a) = (a.node.open(a.id(), &lie, ContextId::root(1)), b.open(&a, 1));
    let data = pattern(10, 1);
    let send = a.node.isend(to_b, 0, 1, view(&data), node::Mode::Synchronous);
    assert!(matches!(a.wait_for(send, Duration::from_secs(5)), Some(Outcome::Failed(_))));
    assert_eq!(b.node.inspect(|core| core.lanes_had(b.id(), a.id())), 0);
}

fn no_one_gets_to_a_removed_group() {
    let (a, b) = (Job::new(), Job::new());
    b.node.remove_group(b.group.incarnation);
    let to_b = a.open(&b, 1);
    let data = pattern(10, 1);
    let send = a.node.isend(to_b, 0, 1, view(&data), node::Mode::Synchronous);
    assert!(matches!(a.wait_for(send, Duration::from_secs(5)), Some(Outcome::Failed(_))));
}

#[test]
fn garbage_silence_and_half_a_hello_disturb_nobody() {
    over(TCP);
    let (a, b) = (Job::new(), Job::new());
    let address = addresses(&b.node)[0];
    let mut garbage = TcpStream::connect(address).unwrap();
    garbage.write_all(&[b'x'; 5000]).unwrap();
    let mut half = TcpStream::connect(address).unwrap();
    half.write_all(b"MPICONN1").unwrap();
    let _silent: Vec<_> = (0..50).map(|_| TcpStream::connect(address).unwrap()).collect();
    let (to_b, to_a) = couple(&a, &b);
    let data = pattern(100_000, 1);
    let mut space = vec![0; 100_000];
    let send = a.send(to_b, 1, &data);
    let recv = b.recv(to_a, 1, &mut space);
    assert_eq!(b.wait(recv), got(100_000, 1));
    assert_eq!(a.wait(send), Outcome::Sent);
    assert!(space == data);
    // Closed at once, or with what it sent unread.
    let end = garbage.read(&mut [0; 10]);
    assert!(matches!(end, Ok(0) | Err(_)));
    // Those who only wait are closed after a while.
    half.set_read_timeout(Some(Duration::from_secs(15))).unwrap();
    assert!(matches!(half.read(&mut [0; 10]), Ok(0)));
}

#[test]
fn a_contact_with_wrong_addresses_first() {
    over(TCP);
    let (a, b, c) = (Job::new(), Job::new(), Job::new());
    let mut there = b.as_remote();
    // Another process, a closed port, an address that never answers, then the right one.
    let mut all = vec![addresses(&c.node)[0], "127.0.0.1:1".parse().unwrap(), "192.0.2.99:9".parse().unwrap()];
    all.extend(addresses(&b.node));
    place_first(&mut there, &all);
    let (to_b, to_a) = (a.node.open(a.id(), &there, ContextId::root(1)), b.open(&a, 1));
    let mut space = vec![0; 3];
    let start = Instant::now();
    let send = a.send(to_b, 1, b"abc");
    let recv = b.recv(to_a, 1, &mut space);
    assert_eq!(b.wait(recv), got(3, 1));
    a.wait(send);
    assert!(start.elapsed() < Duration::from_secs(2));
}

fn three_jobs_in_a_ring() {
    let jobs: Vec<_> = (0..3).map(|_| Job::new()).collect();
    let open = |i: usize, j: usize| jobs[i].open(&jobs[j], 1);
    let inters: Vec<_> = (0..3).map(|i| (open(i, (i + 1) % 3), open((i + 1) % 3, i))).collect();
    let data = pattern(300_000, 4);
    let mut spaces = vec![vec![0; 300_000]; 3];
    let sends: Vec<_> = (0..3).map(|i| jobs[i].send(inters[i].0, 1, &data)).collect();
    let recvs: Vec<_> = spaces.iter_mut().enumerate().map(|(i, s)| jobs[(i + 1) % 3].recv(inters[i].1, 1, s)).collect();
    for i in 0..3 {
        assert_eq!(jobs[(i + 1) % 3].wait(recvs[i]), got(300_000, 1));
        assert_eq!(jobs[i].wait(sends[i]), Outcome::Sent);
    }
    assert!(spaces.iter().all(|s| *s == data));
}

#[test]
fn over_every_address_of_this_machine() {
    over(TCP);
    let mut all = config();
    all.transports.tcp.iface = Some("all".into());
    let (a, b) = (Job::with(all.clone()), Job::with(all));
    let mut tried = 0;
    for address in addresses(&b.node) {
        let there = Job::with(config());
        let mut remote = b.as_remote();
        place_first(&mut remote, &[address]);
        let inter = there.node.open(there.id(), &remote, ContextId::root(1));
        let back = b.open(&there, 1);
        let mut space = vec![0; 3];
        let send = there.send(inter, 1, b"abc");
        let recv = b.recv(back, 1, &mut space);
        assert_eq!(b.wait_for(recv, Duration::from_secs(5)), Some(got(3, 1)), "over {address}");
        there.wait(send);
        tried += 1;
    }
    assert!(tried > 0 && !addresses(&a.node).is_empty());
}

#[test]
fn shared_memory_where_both_sides_have_it() {
    let only_shm = "shm";
    for (one, other, shared) in
        [(SHM, SHM, true), (SHM, TCP, false), (TCP, SHM, false), (SHM, only_shm, true), (only_shm, only_shm, true)]
    {
        let with = |allowed| {
            over(allowed);
            Job::new()
        };
        let (a, b) = (with(one), with(other));
        let (to_b, to_a) = couple(&a, &b);
        // Only one of them dials.
        for (from, to, way, back) in [(&a, &b, to_b, to_a), (&b, &a, to_a, to_b)] {
            let mut space = vec![0; 100_000];
            let data = pattern(100_000, 1);
            let (send, recv) = (from.send(way, 1, &data), to.recv(back, 1, &mut space));
            assert_eq!(to.wait(recv), got(100_000, 1));
            from.wait(send);
            assert!(space == data);
        }
        assert_eq!(a.node.inspect(|core| core.is_shared(a.id(), b.id())), shared, "{one:?} {other:?}");
        assert_eq!(b.node.inspect(|core| core.is_shared(b.id(), a.id())), shared);
        // Whatever there is tells of a death.
        let mut space = vec![0; 3];
        let recv = b.recv(to_a, 2, &mut space);
        a.node.kill();
        assert_eq!(b.wait_for(recv, NOTICED), Some(Outcome::Failed(Fault::PeerDead)), "{one:?} {other:?}");
    }
}

/// Where no more may be looked at by itself, the busier goes before the one that has fallen silent.
#[test]
fn the_busy_lane_is_looked_at_by_itself() {
    let mut few = config();
    (few.transports.shm.fast_after, few.transports.shm.fast_max) = (2, 1);
    let a = Job::with(few);
    let others = [Job::new(), Job::new()];
    let inters = others.each_ref().map(|job| (a.open(job, 1), job.open(&a, 1)));
    let talk = |n: usize, times: usize| {
        for i in 0..times {
            let mut space = vec![0; 100];
            let recv = a.recv(inters[n].0, 1, &mut space);
            let data = pattern(100, i as u64);
            let send = others[n].send(inters[n].1, 1, &data);
            assert_eq!(a.wait(recv), got(100, 1));
            others[n].wait(send);
            assert!(space == data);
        }
    };
    let direct = |n: usize| a.node.inspect(|core| core.is_direct(a.id(), others[n].id()));
    for (n, times) in [(0, 10), (1, 50), (0, 200), (1, 1000)] {
        talk(n, times);
        assert_eq!([direct(0), direct(1)], [n == 0, n == 1]);
    }
}

#[test]
fn one_who_speaks_nonsense_is_given_up() {
    // It takes connections, says nothing on them, and comes itself with a good HELLO.
    let port = TcpListener::bind("127.0.0.1:0").unwrap();
    let b = Job::new();
    let inter = Raw::known_to(&b, LOW, &[port.local_addr().unwrap()]);
    let mut space = vec![0; 3];
    let recv = b.recv(inter, 1, &mut space);
    let mut lanes = 0;
    for generation in 1..10 {
        let (status, mut raw) = Raw::dial(&b, LOW, generation, 0);
        if status != Some(0) {
            break;
        }
        lanes += 1;
        raw.stream.write_all(&[0xff; 100]).unwrap();
        // Until it is closed.
        let _ = raw.stream.read_to_end(&mut Vec::new());
    }
    assert_eq!(lanes, 3);
    assert!(matches!(b.wait_for(recv, NOTICED), Some(Outcome::Failed(_))));
}

#[test]
fn a_hello_that_cannot_be_leaves_the_lane() {
    let b = Job::new();
    let inter = Raw::known_to(&b, LOW, &[dark()]);
    let (status, mut raw) = Raw::dial(&b, LOW, 1, 0);
    assert_eq!(status, Some(0));
    // Nobody has sent it that much.
    assert_eq!(Raw::dial(&b, LOW, 2, 1 << 40).0, None);
    raw.envelope(1, 5, b"abc");
    let mut space = vec![0; 3];
    let recv = b.recv(inter, 5, &mut space);
    assert_eq!(b.wait_for(recv, NOTICED), Some(got(3, 5)));
}

#[test]
fn what_a_lane_took_with_it_is_asked_for_once() {
    let b = Job::new();
    let inter = Raw::known_to(&b, LOW, &[dark()]);
    let (_, mut raw) = Raw::dial(&b, LOW, 1, 0);
    let data = pattern(100_000, 1);
    raw.envelope(2, 5, &100_000u64.to_le_bytes());
    let mut space = vec![0; 100_000];
    let recv = b.recv(inter, 5, &mut space);
    let cts = raw.hear_one_of(&[CTS]);
    let op = number(&cts, 9);
    assert_eq!((number(&cts, 1), number(&cts, 17), number(&cts, 25)), (77, 0, 100_000));
    raw.frame(Kind::Bulk, op, 0, &data[..40_000]);
    let here = |core: &mut node::Core| core.has_arrived(recv, 0, 40_000).then_some(());
    assert!(b.node.wait_until(&mut || false, here, Some(Instant::now() + LONG)).is_some());
    let (sent, received) = (raw.sent, raw.received);
    drop(raw);
    let (status, mut raw) = Raw::dial(&b, LOW, 2, received);
    assert_eq!(status, Some(0));
    raw.sent = sent;
    let cts = raw.hear_one_of(&[CTS]);
    assert_eq!((number(&cts, 17), number(&cts, 25)), (40_000, 60_000));
    raw.frame(Kind::Bulk, op, 40_000, &data[40_000..]);
    assert_eq!(raw.hear_one_of(&[CTS, DONE])[0], DONE);
    assert_eq!(b.wait_for(recv, NOTICED), Some(got(100_000, 5)));
    assert!(space == data);
}

#[test]
fn of_two_dials_that_of_the_smaller_stands() {
    for (it, expected) in [(LOW, 0), (HIGH, 4)] {
        let b = Job::new();
        let port = TcpListener::bind("127.0.0.1:0").unwrap();
        b.node.open_control(b.id(), it, [0; 16], &Raw::contact(&[port.local_addr().unwrap()]));
        let mut theirs = port.accept().unwrap().0;
        theirs.read_exact(&mut [0; GREETING]).unwrap();
        assert_eq!(Raw::dial(&b, it, 1, 0).0, Some(expected), "{it:?}");
    }
}

#[test]
fn bulk_waits_where_it_is_while_the_way_is_full() {
    let b = Job::new();
    let inter = Raw::known_to(&b, LOW, &[dark()]);
    let (_, mut raw) = Raw::dial(&b, LOW, 1, 0);
    let data = vec![1; 64 << 20];
    let send = b.send(inter, 5, &data);
    let rts = loop {
        let (header, payload) = raw.hear();
        if header.kind == Kind::Msg && payload[0] == 2 {
            break payload;
        }
    };
    let mut cts = vec![CTS];
    for field in [number(&rts, 30), 5, 0, 64 << 20] {
        cts.extend_from_slice(&field.to_le_bytes());
    }
    raw.say(&cts);
    // Its first piece says that the question has come.
    while raw.hear().0.kind != Kind::Bulk {}
    assert_eq!(b.wait_for(send, Duration::from_millis(300)), None);
    let queued = b.node.inspect(|core| core.bulk_queued(b.id(), LOW));
    assert!((1..=8).contains(&queued), "{queued} pieces");
    b.node.kill();
}

#[test]
fn what_leaders_say_is_bounded() {
    let b = Job::new();
    let path = b.node.open_control(b.id(), LOW, [0; 16], &Raw::contact(&[dark()]));
    let (_, mut raw) = Raw::dial(&b, LOW, 1, 0);
    let mut body = vec![7];
    body.resize(1 << 20, 5);
    for _ in 0..100 {
        raw.say(&body);
    }
    // What is acknowledged has been queued, or dropped.
    while raw.hear().0.b < 100 {}
    let mut bytes = 0;
    while let Some(message) = b.node.recv_control(path) {
        bytes += message.len();
    }
    assert!((64 << 20..66 << 20).contains(&bytes), "{bytes}");
}

#[test]
fn a_way_that_is_dark_is_not_a_death() {
    let b = Job::new();
    let inter = Raw::known_to(&b, LOW, &[dark()]);
    let (_, raw) = Raw::dial(&b, LOW, 1, 0);
    let mut space = vec![0; 3];
    let recv = b.recv(inter, 5, &mut space);
    // Something in between has reset the connection, and nothing goes through for a while.
    drop(raw);
    assert_eq!(b.wait_for(recv, Duration::from_secs(4)), None);
    let (status, mut raw) = Raw::dial(&b, LOW, 2, 0);
    assert_eq!(status, Some(0));
    raw.envelope(1, 5, b"abc");
    assert_eq!(b.wait_for(recv, NOTICED), Some(got(3, 5)));
}

/// Its kernel acknowledges and it never answers: something between has lost a part of a frame, of which it awaits the rest.
#[test]
fn a_lane_that_is_mute_is_dialled_beside() {
    let b = Job::new();
    let port = TcpListener::bind("127.0.0.1:0").unwrap();
    port.set_nonblocking(true).unwrap();
    let inter = Raw::known_to(&b, LOW, &[port.local_addr().unwrap()]);
    let (status, _mute) = Raw::dial(&b, LOW, 1, 0);
    assert_eq!(status, Some(0));
    let mut space = vec![0; 3];
    let recv = b.recv(inter, 5, &mut space);
    let since = Instant::now();
    // It may have dialled at once, before it was dialled itself, but not again while it has a lane that it trusts.
    while port.accept().is_err() || since.elapsed() < Duration::from_secs(4) {
        assert!(since.elapsed() < Duration::from_secs(20), "nobody dials");
        assert_eq!(b.wait_for(recv, Duration::from_millis(100)), None, "silence is no death");
    }
}

#[test]
fn a_refusal_where_it_came_from_is_a_death() {
    // Another host, or an unknown one, and never dialled: but it came from the address that it gave.
    for host in [[9; 16], [0; 16]] {
        let b = Job::new();
        let port = TcpListener::bind("127.0.0.1:0").unwrap();
        let contact = node::at_addresses(Raw::process(), host, &[port.local_addr().unwrap()]);
        let there = RemoteGroup { incarnation: LOW.incarnation, cookie: [0; 16], contacts: vec![contact].into() };
        let inter = b.node.open(b.id(), &there, ContextId::root(1));
        let (_, raw) = Raw::dial(&b, LOW, 1, 0);
        let mut space = vec![0; 3];
        let recv = b.recv(inter, 5, &mut space);
        assert_eq!(b.wait_for(recv, Duration::from_millis(100)), None);
        drop((port, raw));
        assert_eq!(b.wait_for(recv, NOTICED), Some(Outcome::Failed(Fault::PeerDead)));
    }
}

over_both!(
    cut_at_random_times_with_nothing_lost,
    both_dial_at_once,
    leaders_speak_before_and_after_they_know_each_other,
    a_wrong_cookie_is_refused,
    no_one_gets_to_a_removed_group,
    three_jobs_in_a_ring,
);
