//! What `session` reads: the messages of leaders, snapshots; and a whole session whose peers dial and send what they like.

use crate::Target;
use crate::input::{Script, put_bytes};
use crate::text::party;
use crate::wire::{digest, headers, record, said};
use base::bytes::Take;
use base::memory::VecMemory;
use base::{ProcId, Time};
use engine::fuzzing::samples;
use engine::{ContextId, Engine, Source, Tag};
use session::fuzzing::{Negotiation, Standing, still_missing};
use session::leaders::{Looking, looking, who_offers};
use session::{
    Action, Agreed, Directory, Group, IncomingId, NewLane, Own, Proofs, RemoteGroup, Session, SnapshotError,
};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use wire::frame::Header;
use wire::lane::{Caps, Death, Event, Fill, Lane, Payload, Sent, Sink};
use wire::{About, Contact, Contacts, Hello, Move, Place, Scope, TransportId, Why};

/// The messages of a script that is nothing else.
fn messages(mut s: Script<'_>) -> Vec<&[u8]> {
    let mut all = Vec::new();
    while !s.0.is_empty() {
        all.push(s.bytes());
    }
    all
}

fn leaders(input: &[u8]) {
    let mut s = Script(input);
    let how = s.byte();
    let heard = messages(Script(s.0));
    // What is said of messages that nobody has read yet.
    if let Some(party) = who_offers(heard.iter().copied()) {
        assert!(party.name.len() <= 255 && !party.name.contains(char::is_control));
    }
    let mut missing = None;
    for message in &heard {
        missing = still_missing(missing, message);
        let mut t = Take(message);
        if let Ok(proofs) = Proofs::decode(&mut t) {
            let mut out = Vec::new();
            proofs.encode(&mut out);
            assert_eq!(out, message[..message.len() - t.0.len()]);
        }
    }
    // A leader that hears them.
    let mut ours = if how & 1 == 0 { Negotiation::new(how & 2 == 0) } else { Negotiation::with_stranger() };
    let own = party("air", 1);
    let (mut held, mut said) = (0, 0);
    for (n, message) in heard.iter().enumerate() {
        if how & 4 != 0 && n == usize::from(how >> 4) && !ours.is_open() && ours.standing() == Standing::Waiting {
            ours.offer(&own);
        }
        if how & 8 != 0 && n == usize::from(how >> 5) {
            ours.withdraw();
        }
        held += message.len();
        if ours.on_message(message).is_err() {
            return;
        }
        assert!(ours.held() <= held);
        if let Some(Looking { wanted, .. }) = ours.looking() {
            assert!(wanted.len() <= 255 && !wanted.contains(char::is_control));
        }
        if let Some(party) = ours.offered() {
            let all = session::leaders::contacts(&party.records, party.size);
            assert!(all.is_err() || !party.records.is_empty());
        }
        ours.decide();
        if let Standing::Agreed(agreement) = ours.standing() {
            assert!(agreement.remote.records.len() <= held);
        }
        while let Some(out) = ours.next_output() {
            said += 1;
            // Another leader reads it.
            let _ = Negotiation::new(false).on_message(&out);
            assert!(said <= 3 * heard.len() + 4);
        }
        assert!(ours.take_orphans().len() <= 1);
    }
}

/// The CONTROL messages by which two leaders agree.
pub const CONTROL: Target = Target {
    run: leaders,
    seeds: || {
        let said = |how: u8, all: &[Vec<u8>]| {
            let mut out = vec![how];
            all.iter().for_each(|one| put_bytes(&mut out, one));
            out
        };
        let offer = |wanted: &str| {
            let mut theirs = Negotiation::new(false);
            theirs.offer(&session::leaders::Party { wanted: wanted.into(), ..party("ocean", 1) });
            let offer = theirs.next_output().expect("an offer");
            theirs.withdraw();
            (offer, theirs.next_output().expect("a withdrawal"))
        };
        let (one, withdraw) = offer("air");
        // The rest of an offer that was cut.
        let cut = one.len() - 20;
        let part = [&[base::protocol::control::PART][..], &one[1..9], &one[cut..]].concat();
        let numbers = |kind: u8, all: &[u64]| [vec![kind], all.iter().flat_map(|n| n.to_le_bytes()).collect()].concat();
        let accept = numbers(base::protocol::control::ACCEPT, &[1, 1, 1]);
        let withdrawn = numbers(base::protocol::control::WITHDRAWN, &[1]);
        vec![
            said(0, &[one.clone(), looking("land", true)]),
            said(1, std::slice::from_ref(&one)),
            said(4, &[one.clone(), withdraw]),
            said(2 | 4, &[one.clone(), accept]),
            said(2 | 4 | 8, &[one[..cut].to_vec(), part, withdrawn]),
        ]
    },
    longest: 1024,
    memory: 64 << 10,
};

/// A lane whose frames come from a script.
struct Said(Rc<RefCell<Saying>>);

#[derive(Default)]
struct Saying {
    frames: VecDeque<(Header, Vec<u8>)>,
    caps: Option<Caps>,
    dead: bool,
    told: bool,
    full: bool,
    sent: Vec<(Header, usize)>,
}

impl Lane<VecMemory> for Said {
    fn caps(&self) -> Caps {
        self.0.borrow().caps.unwrap_or(Caps::STREAM)
    }
    fn wants_write(&self) -> bool {
        false
    }
    fn try_send(&mut self, mem: &VecMemory, header: &Header, payload: Payload<'_>) -> Sent {
        let mut lane = self.0.borrow_mut();
        if lane.dead || lane.full {
            return Sent::NoRoom;
        }
        assert!(header.is_sound(), "it sends what it would not read");
        if let Payload::User { buf, offset } = payload
            && let Some(buffer) = mem.0.get(&buf)
        {
            assert!(offset + u64::from(header.len) <= buffer.len() as u64, "it reads beyond a buffer");
        }
        lane.sent.push((*header, 0));
        Sent::Taken
    }
    fn try_send_with(&mut self, header: &Header, fill: &mut Fill<'_>) -> Sent {
        let mut lane = self.0.borrow_mut();
        if lane.dead || lane.full {
            return Sent::NoRoom;
        }
        fill(0, &mut vec![0; header.len as usize]);
        lane.sent.push((*header, 0));
        Sent::Taken
    }
    fn flush(&mut self, _: &VecMemory) -> bool {
        !self.0.borrow().dead
    }
    fn poll(&mut self, sink: &mut dyn Sink, _: usize) -> usize {
        let mut read = 0;
        loop {
            let next = self.0.borrow_mut().frames.pop_front();
            let Some((header, body)) = next else { return read };
            read += body.len() + 1;
            let done = if header.kind == wire::frame::Kind::Bulk {
                sink.on_bulk_bytes(&header, 0, &body);
                Ok(())
            } else {
                sink.on_frame(&header, &body)
            };
            if done.is_err() {
                self.0.borrow_mut().dead = true;
                return read;
            }
        }
    }
    fn event(&mut self) -> Option<Event> {
        let mut lane = self.0.borrow_mut();
        let lane = &mut *lane;
        (lane.dead && !std::mem::replace(&mut lane.told, true)).then_some(Event::Dead)
    }
    fn quiesce(&mut self) {}
    fn resume(&mut self) {}
    fn death(&self) -> Option<&Death> {
        self.0.borrow().dead.then_some(&Death::Malformed)
    }
    fn cut(&mut self) {
        self.0.borrow_mut().dead = true;
    }
    fn written(&self) -> u64 {
        self.0.borrow().sent.len() as u64
    }
    fn takes_stream(&self, number: u16) -> bool {
        number < 16
    }
}

/// The process of ours, a port of its, and a member of another job.
const US: ProcId = ProcId { incarnation: 1, rank: 0 };
const PORT: ProcId = ProcId { incarnation: 5, rank: 0 };
const COOKIE: [u8; 16] = [9; 16];
const ABOUT: About =
    About { id: TransportId::registered(1), word: "fuzz", title: "fuzz", scope: Scope::Anywhere, limit: 1000 };

fn own() -> Own {
    Own { process: [1; 16], host: [2; 16], transports: vec![(ABOUT, Ok(()))], descriptors: 64, digest }
}

/// A member of the other job, by rank.
fn member(rank: u32) -> ProcId {
    ProcId { incarnation: 2, rank }
}

fn member_contact(rank: u32) -> Contact {
    Contact::new([20 + rank as u8; 16], [3; 16], record().entries())
}

thread_local! {
    /// What a rank of a large group knows of the other one, made once: it costs as much as what most inputs do.
    static LARGE: Contacts = {
        let all = Contacts::from((0..40).map(member_contact).collect::<Vec<_>>());
        wire::ranges::rooted(&all, 0, digest).expect("a member")
    };
}

fn scene() -> Session<Said, VecMemory> {
    let mut session = Session::new(own(), Engine::new(crate::engine::small()), VecMemory::default());
    session.add_group(Group { incarnation: US.incarnation, cookie: COOKIE, rank: 0, size: 1 });
    session.add_port(PORT, COOKIE);
    let remote =
        RemoteGroup { incarnation: 2, cookie: COOKIE, contacts: vec![member_contact(0), member_contact(1)].into() };
    let inter = session.open(US, &remote, ContextId::root(1));
    let ctx = session.ctx(inter);
    // A large group, of which it asks another one of its own for records; its ranks have no pair before they are needed.
    session.set_directory(US.incarnation, Directory::below(Some((0, member_contact(7)))));
    session.set_directory(US.incarnation, Directory::of(vec![member_contact(3), member_contact(4)].into()));
    session.set_most_at_once(8);
    let contacts = LARGE.with(Contacts::clone);
    session.open(US, &RemoteGroup { incarnation: 3, cookie: COOKIE, contacts }, ContextId::root(2));
    for n in 0..2u64 {
        let op = session.engine.next_op();
        session.mem.0.insert(op.0, vec![0; 40]);
        session.engine.recv(&mut session.mem, op, ctx, Source::Any, Tag::Any, 40);
        let op = session.engine.next_op();
        session.mem.0.insert(op.0, vec![1; 40]);
        session.engine.send(&session.mem, op, ctx, n as u32, 1, 20 + 10 * n, engine::Mode::Synchronous);
    }
    session
}

/// Who dials: a member, also of the large group or of our own, one who claims to be, a caller of the port, or a stranger.
fn dials(s: &mut Script<'_>) -> Hello {
    let (who, what) = (s.byte(), s.byte());
    let rank = u32::from(who >> 4 & 1);
    let (source, dest) = match who & 7 {
        0..=3 => (member(rank), US),
        4 | 5 => (ProcId { incarnation: 100 + u64::from(rank), rank: 0 }, PORT),
        6 => (ProcId { incarnation: 1 + u64::from(what % 3), rank: u32::from(what) }, US),
        _ => (ProcId { incarnation: u64::from(what), rank }, ProcId { incarnation: s.number(), rank: 0 }),
    };
    let mut hello =
        Hello { source, dest, cookie: COOKIE, process: [20 + rank as u8; 16], stripe: 0, received: 0, ..said([0; 16]) };
    if what & 1 != 0 {
        hello.process = [what; 16];
    }
    if what & 8 != 0 {
        let why = [Why::Better, Why::Ordered, Why::Freed, Why::Ordered][usize::from(what >> 6)];
        hello.moves = Some(Move { leaves: u16::from(what >> 4 & 3), why });
    }
    if what & 2 != 0 {
        hello.cookie[usize::from(what >> 4)] ^= 1;
    }
    if what & 4 != 0 {
        (hello.generation, hello.received) = (s.short(), s.number());
    }
    if what & 8 != 0 {
        hello.stripe = s.short();
    }
    hello
}

/// One session, its connections, and what the driver has to know.
struct Driver {
    session: Session<Said, VecMemory>,
    now: Time,
    lanes: Vec<(ProcId, Rc<RefCell<Saying>>, u16)>,
}

impl Driver {
    fn obey(&mut self, s: &mut Script<'_>) {
        let mut most = 200;
        while let Some(action) = self.session.next_action() {
            most -= 1;
            assert!(most > 0, "actions without end");
            match action {
                Action::Answer { incoming, .. } => self.made(incoming, s),
                Action::Ask { incoming, mute } => self.session.incoming_stands(incoming, mute, self.now),
                Action::Died { pair } => self.session.lane_died(pair, self.now),
                Action::Resolve { pair, transport, entry, .. } => {
                    let places: Vec<Place> = transports::fuzzing::addresses(&entry).1;
                    self.session.places(pair, transport, places, self.now);
                }
                Action::Dial { attempt, .. } => {
                    let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
                    self.session.dial_failed(attempt, &refused, self.now);
                }
                Action::Probe { probe, .. } => self.session.probed(probe, None),
                Action::Get { op, .. } => self.session.engine.ask_for_rest(op),
                Action::Put { peer, receiver_op, .. } => self.session.engine.put_over(peer, receiver_op, false),
                Action::Asked { peer } => self.session.engine.tell(peer, b"fuzz"),
                Action::Dropped { .. } | Action::Left { .. } | Action::Unused { .. } => {}
                _ => {}
            }
        }
    }

    /// The lane of an answered connection.
    fn made(&mut self, incoming: IncomingId, s: &mut Script<'_>) {
        let Some(agreed) = self.session.incoming_ready(incoming) else { return };
        let Agreed { pair, generation, received, moves } = agreed;
        let caps = match s.byte() & 3 {
            0 => Caps::SHARED,
            1 => Caps::DATAGRAM,
            _ => Caps::STREAM,
        };
        let saying = Rc::new(RefCell::new(Saying { caps: Some(caps), ..Saying::default() }));
        let remote = self.session.pair(pair).remote();
        self.lanes.push((remote, saying.clone(), generation));
        let at = Some(Place { transport: ABOUT.id, address: [4; 5].into(), host_part: 3, text: "there".into() });
        let lane = NewLane { lane: Said(saying), generation, received, transport: ABOUT.id, at, dialled: false, moves };
        self.session.attach(pair, lane, self.now);
    }

    /// A frame of the one behind a lane.
    fn says(&mut self, s: &mut Script<'_>) {
        let which = usize::from(s.byte());
        let Some((from, saying, generation)) = self.lanes.get(which % self.lanes.len().max(1)) else { return };
        let (kind, flags) = (s.byte(), s.byte());
        let all = headers();
        let header = all[usize::from(kind) % all.len()];
        let body = s.bytes().to_vec();
        let (a, b) = (s.number(), s.number());
        let dest = if from.incarnation <= 3 { US } else { PORT };
        let mut header =
            Header { len: body.len() as u32, source: *from, dest, generation: *generation, a, b, ..header };
        header.ack_now = flags & 1 != 0;
        if flags & 2 != 0 {
            header.generation = generation.wrapping_add(u16::from(flags >> 2));
        }
        if flags & 128 != 0 {
            header.source.rank ^= 1;
        }
        // A lane lets no other through.
        if header.is_sound() && header.kind != wire::frame::Kind::Lost {
            saying.borrow_mut().frames.push_back((header, body));
        }
    }
}

fn hostile(input: &[u8]) {
    let mut s = Script(input);
    let mut driver = Driver { session: scene(), now: Time(1), lanes: Vec::new() };
    driver.session.settle();
    let offer = party("air", 1);
    crate::forget_branches();
    driver.obey(&mut s);
    while let Some(step) = s.step() {
        match step % 16 {
            0..=2 => {
                let hello = dials(&mut s);
                let incoming = driver.session.arrived(driver.now);
                driver.session.hello(incoming, &hello, driver.now);
            }
            3..=9 => driver.says(&mut s),
            10 => driver.now = Time(driver.now.0 + (1 << (s.byte() % 40))),
            11 => {
                let n = usize::from(s.byte());
                if let Some((_, saying, _)) = driver.lanes.get(n % driver.lanes.len().max(1)) {
                    let mut lane = saying.borrow_mut();
                    if step & 16 == 0 { lane.dead = true } else { lane.full = !lane.full }
                }
            }
            12 => {
                driver.session.accept(PORT, &offer, driver.now);
            }
            13 => {
                if let Some(path) = driver.session.next_caller(PORT) {
                    driver.session.call_off(path);
                }
            }
            14 => driver.session.tick(driver.now),
            _ => {
                let incoming = driver.session.arrived(driver.now);
                driver.session.incoming_left(incoming);
            }
        }
        for i in 0..driver.session.pairs_made() {
            if driver.session.receive(i).dead {
                driver.session.lane_died(i, driver.now);
            }
        }
        driver.session.tick(driver.now);
        driver.session.settle();
        driver.obey(&mut s);
        driver.session.leave_all();
        driver.session.settle();
        driver.obey(&mut s);
        assert!(driver.session.pairs_in_use() <= 2 + 1024, "strangers take pairs without end");
    }
    // What is left is sound: another process reads it, and writes the same. That costs as much as all else, so the length of an
    // input says whether it is tried.
    if input.len() % 16 != 3 {
        return;
    }
    driver.session.detach();
    driver.obey(&mut s);
    let bytes = driver.session.freeze(driver.now);
    let again = Session::<Said, VecMemory>::thaw(&bytes, own(), VecMemory::default(), driver.now);
    match again {
        Ok(again) => assert_eq!(again.freeze(driver.now), bytes),
        Err(e) => panic!("the state breaks its own rules: {e}"),
    }
}

/// A [`Session`] that is dialled, and told anything over the lanes that it gives.
pub const HOSTILE: Target = Target {
    run: hostile,
    seeds: || {
        let mut all = Vec::new();
        for message in samples(ContextId::root(1), 1 << 28).into_iter().filter(|one| one.len() < 200) {
            // A member dials; its lane; a message; another.
            let mut one = vec![0, 0, 0, 2, 3, 0, 0, 0];
            put_bytes(&mut one, &message);
            one.extend([1, 0, 14, 3, 0, 5, 0, 0, 1, 0]);
            all.push(one);
        }
        let mut offered = Negotiation::new(false);
        offered.offer(&party("ocean", 1));
        let control = [&[base::protocol::message::CONTROL][..], &offered.next_output().expect("an offer")].concat();
        let mut caller = vec![0, 4, 0, 2, 3, 0, 0, 0];
        put_bytes(&mut caller, &control);
        caller.extend([1, 0, 12, 10, 30, 12, 11, 0, 14]);
        all.push(caller);
        all
    },
    longest: 512,
    memory: 4 << 20,
};

/// The checksum of a snapshot, put right.
fn summed(mut bytes: Vec<u8>) -> Vec<u8> {
    if bytes.len() >= 5 {
        let sum = crc32fast::hash(&bytes[5..]);
        bytes[1..5].copy_from_slice(&sum.to_le_bytes());
    }
    bytes
}

fn thawed(input: &[u8]) {
    let read = |bytes: &[u8]| Session::<Said, VecMemory>::thaw(bytes, own(), memory(), Time(1));
    // As it is: damage is found by the checksum, unless the fuzzer has found the sum.
    match read(input) {
        Err(SnapshotError::Version(version)) => assert_eq!(Some(&version), input.first()),
        Err(SnapshotError::Damaged) | Ok(_) => {}
    }
    let Ok(mut session) = read(&summed(input.to_vec())) else { return };
    // It goes on without a panic: time passes, its operations end, its peers are found dead.
    let bytes = session.freeze(Time(1));
    assert!(read(&bytes).is_ok_and(|again| again.freeze(Time(1)) == bytes), "it is not what was read");
    for (n, at) in [1u64 << 30, 1 << 34, 1 << 36].into_iter().enumerate() {
        session.tick(Time(at));
        session.settle();
        let mut most = 10_000;
        while let Some(action) = session.next_action() {
            most -= 1;
            assert!(most > 0, "actions without end");
            if let Action::Dial { attempt, .. } = action {
                let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
                session.dial_failed(attempt, &refused, Time(at));
            }
        }
        if n == 1 {
            session.say_goodbye();
        }
        session.leave_all();
    }
}

/// Buffers for any operation that a snapshot may name: none is there, and none is needed before a lane is.
fn memory() -> VecMemory {
    VecMemory::default()
}

/// [`Session::thaw`]: bytes with the right checksum, and any.
pub const SNAPSHOT: Target = Target {
    run: thawed,
    seeds: || {
        let mut one = scene();
        one.detach();
        let fresh = one.freeze(Time(1));
        (HOSTILE.seeds)()
            .iter()
            .map(|script| {
                let mut s = Script(script);
                let mut driver = Driver { session: scene(), now: Time(1), lanes: Vec::new() };
                s.step();
                let hello = dials(&mut s);
                let incoming = driver.session.arrived(driver.now);
                driver.session.hello(incoming, &hello, driver.now);
                driver.obey(&mut s);
                s.step();
                driver.says(&mut s);
                for i in 0..driver.session.pairs_made() {
                    let _ = driver.session.receive(i);
                }
                driver.session.settle();
                driver.session.detach();
                driver.session.freeze(driver.now)
            })
            .chain([fresh])
            .collect()
    },
    longest: 4096,
    memory: 4 << 20,
};
