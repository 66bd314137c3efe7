//! Schedules that have gone wrong before, reported to a session event by event: what it asks for, and when.
//!
//! Each test has one session and plays the other side itself.

use base::memory::VecMemory;
use base::protocol::control::{CHECKPOINT, RANGE};
use base::protocol::message::{ASK, BYE, CONTROL, CREDIT, EAGER, IN_ONE, RTS};
use base::{ProcId, Time};
use engine::{ContextId, Engine, Gone, Source, Tag};
use session::leaders::{Party, Turn};
use session::{
    Action, Agreed, AttemptId, Became, Directory, Group, Hold, IncomingId, InterId, NewLane, Ordered, Own, PathRef,
    Plant, Refusal, RemoteGroup, Session,
};
use std::io::ErrorKind;
use std::time::Duration;
use transports::sim::{Rng, pipe, shared};
use transports::stream::StreamLane;
use wire::frame::{Header, Kind};
use wire::lane::{Lane, Payload, Sent};
use wire::ranges::{Range, Tree};
use wire::{About, Contact, Hello, HelloAck, Move, Place, Scope, Status, TransportId, Why};

const NEAR: About =
    About { id: TransportId::registered(1), word: "near", title: "near", scope: Scope::Host, limit: 1000 };
const FAR: About =
    About { id: TransportId::registered(2), word: "far", title: "far", scope: Scope::Anywhere, limit: 10_000 };
const COOKIE: [u8; 16] = [7; 16];

/// A hash that tells other records apart.
fn digest(bytes: &[u8]) -> [u8; 16] {
    base::hash::fnv128(bytes).to_le_bytes()
}

const US: [u8; 16] = [1; 16];
const THEM: [u8; 16] = [2; 16];
const HERE: [u8; 16] = [8; 16];
const THERE: [u8; 16] = [9; 16];
/// Ours, between a smaller and a greater one.
const ME: ProcId = ProcId { incarnation: 50, rank: 0 };
const SMALL: ProcId = ProcId { incarnation: 10, rank: 0 };
const GREAT: ProcId = ProcId { incarnation: 90, rank: 0 };

const fn after(millis: u64) -> Time {
    Time(1_000_000_000 + millis * 1_000_000)
}

type Lanes = Box<dyn Lane<VecMemory>>;

/// One session, and the actions that it has asked for and that were not done yet.
struct Desk {
    session: Session<Boxed, VecMemory>,
    asked: Vec<Action<Boxed>>,
    now: Time,
}

/// A lane of any kind.
struct Boxed(Lanes);

impl Lane<VecMemory> for Boxed {
    fn caps(&self) -> wire::lane::Caps {
        self.0.caps()
    }
    fn wants_write(&self) -> bool {
        self.0.wants_write()
    }
    fn try_send(
        &mut self,
        mem: &VecMemory,
        header: &wire::frame::Header,
        body: wire::lane::Payload<'_>,
    ) -> wire::lane::Sent {
        self.0.try_send(mem, header, body)
    }
    fn try_send_with(&mut self, header: &wire::frame::Header, fill: &mut wire::lane::Fill<'_>) -> wire::lane::Sent {
        self.0.try_send_with(header, fill)
    }
    fn flush(&mut self, mem: &VecMemory) -> bool {
        self.0.flush(mem)
    }
    fn poll(&mut self, sink: &mut dyn wire::lane::Sink, budget: usize) -> usize {
        self.0.poll(sink, budget)
    }
    fn event(&mut self) -> Option<wire::lane::Event> {
        self.0.event()
    }
    fn quiesce(&mut self) {
        self.0.quiesce();
    }
    fn resume(&mut self) {
        self.0.resume();
    }
    fn death(&self) -> Option<&wire::lane::Death> {
        self.0.death()
    }
    fn cut(&mut self) {
        self.0.cut();
    }
    fn written(&self) -> u64 {
        self.0.written()
    }
    fn is_open(&self) -> Option<bool> {
        self.0.is_open()
    }
    fn unread(&mut self) -> wire::lane::Unread {
        self.0.unread()
    }
    fn is_read(&self) -> bool {
        self.0.is_read()
    }
    fn in_kernel(&mut self) -> Option<wire::lane::InKernel> {
        self.0.in_kernel()
    }
    fn waiting(&self) -> u16 {
        self.0.waiting()
    }
}

/// Both ends of a lane for other hosts: ours, and what the other side reads and writes.
fn far_lane(seed: u64) -> (Boxed, pipe::PipeEnd) {
    let (ours, theirs) = pipe::pair(&mut Rng::new(seed), 64 << 10);
    (Boxed(Box::new(StreamLane::new(ours))), theirs)
}

/// Reads what the other side is sent, and keeps the last question for a sign of life and the types of the messages.
#[derive(Default)]
struct Reader {
    question: Option<Header>,
    types: Vec<u8>,
}

impl wire::lane::Sink for Reader {
    fn on_frame(&mut self, header: &Header, payload: &[u8]) -> Result<(), base::bytes::Malformed> {
        match header.kind {
            Kind::Ping => self.question = Some(*header),
            Kind::Msg => self.types.push(payload[0]),
            _ => (),
        }
        Ok(())
    }
    fn on_bulk(
        &mut self,
        _: &Header,
        _: usize,
        _: &mut dyn FnMut(&mut [std::io::IoSliceMut<'_>]) -> std::io::Result<usize>,
    ) -> Option<std::io::Result<usize>> {
        None
    }
    fn on_bulk_bytes(&mut self, _: &Header, _: usize, _: &[u8]) {}
}

/// The process of [`GREAT`] sends us the message with this body, at its end of a lane.
fn say(lane: &mut impl Lane<VecMemory>, generation: u16, sequence: u64, body: &[u8]) {
    let (len, kind) = (body.len() as u32, Kind::Msg);
    let header = Header { len, kind, ack_now: false, generation, source: GREAT, dest: ME, a: sequence, b: 0 };
    assert_eq!(lane.try_send(&VecMemory::default(), &header, Payload::Bytes(body)), Sent::Taken);
}

/// An EAGER with tag 2, from rank 0, in the first context.
fn eager(data: &[u8]) -> Vec<u8> {
    [&[EAGER, 0, 2][..], &[0; 7], &[0; 4], &[0; 8], &[1], &[0; 7], &[0; 8], data].concat()
}

/// A lane that takes the place of the first one.
fn replacement() -> (NewLane<Boxed>, pipe::PipeEnd) {
    let (lane, theirs) = far_lane(77);
    let at = Some(place("a5"));
    (NewLane { lane, generation: 2, received: 0, transport: FAR.id, at, dialled: true, moves: None }, theirs)
}

fn place(address: &str) -> Place {
    Place { transport: FAR.id, address: address.as_bytes().into(), host_part: 1, text: address.into() }
}

fn contact(process: [u8; 16], host: [u8; 16]) -> Contact {
    Contact::new(process, host, [(NEAR.id, &b""[..]), (FAR.id, b"a1")])
}

fn hello(source: ProcId, generation: u16) -> Hello {
    let (cookie, process) = (COOKIE, THEM);
    Hello { source, dest: ME, cookie, process, generation, stripe: 0, received: 0, moves: None }
}

fn ack(status: Status, generation: u16, process: [u8; 16]) -> HelloAck {
    HelloAck { status, generation, process, received: 0 }
}

/// An offer of this group.
fn party(leader: ProcId) -> Party {
    let mut records = Vec::new();
    contact(US, HERE).encode(&mut records);
    let (name, wanted) = (String::new(), String::new());
    let ProcId { incarnation, .. } = leader;
    Party {
        incarnation,
        cookie: COOKIE,
        size: 1,
        tag_ub: 1,
        representation: 1,
        registered: None,
        name,
        wanted,
        records,
    }
}

impl Desk {
    fn new() -> Desk {
        Desk::with(FAR)
    }

    fn with(far: About) -> Desk {
        let own =
            Own { process: US, host: HERE, transports: vec![(NEAR, Ok(())), (far, Ok(()))], descriptors: 1024, digest };
        let mut session = Session::new(own, Engine::new(engine::Config::default()), VecMemory::default());
        session.add_group(Group { incarnation: ME.incarnation, cookie: COOKIE, rank: 0, size: 1 });
        Desk { session, asked: Vec::new(), now: after(0) }
    }

    /// What it has asked for since.
    fn asked(&mut self) -> Vec<Action<Boxed>> {
        let mut all = std::mem::take(&mut self.asked);
        all.extend(std::iter::from_fn(|| self.session.next_action()));
        all
    }

    fn open(&mut self, remote: ProcId, host: [u8; 16]) -> (InterId, usize) {
        let contacts = vec![contact(THEM, host)].into();
        let remote_group = RemoteGroup { incarnation: remote.incarnation, cookie: COOKIE, contacts };
        let inter = self.session.open(ME, &remote_group, ContextId::root(1));
        (inter, self.session.find_pair(ME, remote).expect("a pair"))
    }

    /// Makes a call wait for this pair, which is dialled at these places until an answer is needed.
    fn dial(&mut self, pair: usize, places: &[&str]) -> Vec<(AttemptId, Place)> {
        self.session.want(pair);
        self.tick(5);
        let mut dials = Vec::new();
        loop {
            let asked = self.asked();
            if asked.is_empty() {
                return dials;
            }
            for action in asked {
                match action {
                    Action::Resolve { pair, transport, .. } => {
                        let near =
                            Place { transport: NEAR.id, address: THEM.into(), host_part: 0, text: "near".into() };
                        let places = match transport == NEAR.id {
                            true => vec![near],
                            false => places.iter().map(|p| place(p)).collect(),
                        };
                        self.session.places(pair, transport, places, self.now);
                    }
                    Action::Dial { attempt, place, .. } => dials.push((attempt, place)),
                    other => self.asked.push(other),
                }
            }
            if self.session.has_actions() {
                continue;
            }
            return dials;
        }
    }

    fn tick(&mut self, millis: u64) {
        self.now = self.now + Duration::from_millis(millis);
        self.session.tick(self.now);
    }

    fn fail(&mut self, attempt: AttemptId, why: ErrorKind) {
        self.session.dial_failed(attempt, &why.into(), self.now);
    }

    /// Gives the pair a lane for other hosts, dialled by our side or not. Returns the other end.
    fn lane(&mut self, pair: usize, generation: u16, dialled: bool) -> pipe::PipeEnd {
        let (lane, theirs) = far_lane(u64::from(generation));
        let at = Some(place("a5"));
        let new = NewLane { lane, generation, received: 0, transport: FAR.id, at, dialled, moves: None };
        self.session.attach(pair, new, self.now);
        theirs
    }

    /// A process dials with this HELLO. Returns the answer, if there is one at once.
    fn come(&mut self, hello: &Hello) -> (IncomingId, Option<Status>) {
        let incoming = self.session.arrived(self.now);
        self.session.hello(incoming, hello, self.now);
        (incoming, self.answer_to(incoming))
    }

    fn answer_to(&mut self, incoming: IncomingId) -> Option<Status> {
        let asked = self.asked();
        let status = asked.iter().find_map(|action| match action {
            Action::Answer { incoming: v, ack, .. } | Action::Refuse { incoming: v, ack } if *v == incoming => {
                Some(ack.status)
            }
            _ => None,
        });
        self.asked = asked;
        status
    }

    /// It goes on in another process.
    fn restore(&mut self) {
        self.session.detach();
        self.asked();
        let bytes = self.session.freeze(self.now);
        self.read(&bytes);
    }

    fn read(&mut self, bytes: &[u8]) {
        let own = self.session.own().clone();
        self.session = Session::thaw(bytes, own, VecMemory::default(), self.now).expect("a snapshot");
    }

    fn gone(&self, pair: usize) -> Option<Gone> {
        self.session.pair(pair).gone()
    }
}

#[test]
fn of_two_dials_that_of_the_smaller_stands() {
    for (other, stands) in [(GREAT, true), (SMALL, false)] {
        let mut desk = Desk::new();
        let (_, pair) = desk.open(other, THERE);
        let dials = desk.dial(pair, &["a1"]);
        desk.session.dial_greeted(dials[0].0, true, desk.now);
        let (_, status) = desk.come(&hello(other, 1));
        assert_eq!(status, Some(if stands { Status::BetterConnection } else { Status::Good }));
        // A HELLO of ours that is older than 2 s makes no other give way.
        desk.tick(2100);
        let (_, status) = desk.come(&hello(other, 1));
        assert_eq!(status, Some(Status::Good));
    }
}

#[test]
fn a_refusal_counts_only_where_a_dial_got_through_to_that_host() {
    let mut desk = Desk::new();
    let (_, pair) = desk.open(GREAT, THERE);
    for _ in 0..20 {
        for (attempt, _) in desk.dial(pair, &["a1"]) {
            desk.fail(attempt, ErrorKind::ConnectionRefused);
        }
        desk.tick(1000);
        assert_eq!(desk.gone(pair), None, "a firewall refuses like that");
    }
    // It has answered there once.
    let dials = desk.dial(pair, &["a1"]);
    let good = desk.session.dial_answered(dials[0].0, &ack(Status::Good, 1, THEM), desk.now);
    assert_eq!(good, Some(Agreed { pair, generation: 1, received: 0, moves: None }));
    drop(desk.lane(pair, 1, true));
    assert!(desk.session.receive(pair).dead);
    desk.session.lane_died(pair, desk.now);
    desk.tick(1100);
    for (attempt, _) in desk.dial(pair, &["a1"]) {
        desk.fail(attempt, ErrorKind::ConnectionRefused);
    }
    assert_eq!(desk.gone(pair), Some(Gone::Dead));
}

/// The version is told before a key is proved: somebody on the way may tell another one.
#[test]
fn another_version_than_before_is_no_death_yet() {
    let mut desk = Desk::new();
    let (_, pair) = desk.open(GREAT, THERE);
    let dials = desk.dial(pair, &["a1"]);
    assert!(desk.session.dial_answered(dials[0].0, &ack(Status::Good, 1, THEM), desk.now).is_some());
    drop(desk.lane(pair, 1, true));
    assert!(desk.session.receive(pair).dead);
    desk.session.lane_died(pair, desk.now);
    let mut waited = 0;
    while desk.gone(pair).is_none() {
        for (attempt, _) in desk.dial(pair, &["a1"]) {
            desk.session.dial_answered(attempt, &ack(Status::OtherVersion, 9, THEM), desk.now);
        }
        desk.tick(500);
        waited += 500;
        assert!(waited < 30_000, "another program has its address for long");
    }
    assert!(waited >= 20_000, "{waited} ms");
}

#[test]
fn another_process_at_a_misleading_address_is_no_death() {
    let mut desk = Desk::new();
    let (_, pair) = desk.open(GREAT, THERE);
    let dials = desk.dial(pair, &["b1", "a1"]);
    assert_eq!(dials.len(), 1, "the next place waits a moment");
    assert_eq!(desk.session.dial_answered(dials[0].0, &ack(Status::NoSuchProcess, 0, [5; 16]), desk.now), None);
    let next = desk.dial(pair, &[]);
    assert_eq!((next.len(), desk.gone(pair)), (1, None));
    // The right process says itself that it has left.
    desk.session.dial_answered(next[0].0, &ack(Status::NoSuchProcess, 0, THEM), desk.now);
    for _ in 0..4 {
        desk.tick(1100);
        for (attempt, _) in desk.dial(pair, &["a1"]) {
            desk.session.dial_answered(attempt, &ack(Status::NoSuchProcess, 0, THEM), desk.now);
        }
    }
    assert_eq!(desk.gone(pair), Some(Gone::Finished));
}

#[test]
fn one_that_hangs_up_behind_a_firewall_is_dead_after_a_minute() {
    let mut desk = Desk::new();
    let (_, pair) = desk.open(GREAT, THERE);
    drop(desk.lane(pair, 1, false));
    assert!(desk.session.receive(pair).dead);
    desk.session.lane_died(pair, desk.now);
    let mut waited = 0;
    while desk.gone(pair).is_none() {
        for (attempt, _) in desk.dial(pair, &["a1"]) {
            desk.fail(attempt, ErrorKind::TimedOut);
        }
        desk.tick(500);
        waited += 500;
        assert!(waited < 70_000, "it is given up");
    }
    assert!(waited >= 60_000, "silence is suspect, not dead: {waited} ms");
}

/// A relay forgets who had come when it begins anew, and may never hear of the death of one behind another relay.
#[test]
fn one_whose_connection_by_a_relay_was_closed_and_that_the_relay_knows_no_more_is_dead_after_a_minute() {
    let mut desk = Desk::with(About { scope: Scope::Passed, ..FAR });
    let (_, pair) = desk.open(GREAT, THERE);
    drop(desk.lane(pair, 1, true));
    assert!(desk.session.receive(pair).dead);
    desk.session.lane_died(pair, desk.now);
    let mut fail_for = |limit: u64, why: &dyn Fn() -> std::io::Error| {
        let mut waited = 0;
        while waited < limit && desk.gone(pair).is_none() {
            for (attempt, _) in desk.dial(pair, &["a1"]) {
                desk.session.dial_failed(attempt, &why(), desk.now);
            }
            desk.tick(500);
            waited += 500;
        }
        (waited, desk.gone(pair))
    };
    let unknown = || std::io::Error::new(ErrorKind::AddrNotAvailable, "does not know it");
    assert_eq!(fail_for(50_000, &unknown).1, None);
    let (waited, gone) = fail_for(600_000, &|| std::io::Error::other("cannot be used"));
    assert_eq!((waited, gone), (600_000, None), "a relay that cannot be used says nothing");
    let (waited, gone) = fail_for(70_000, &unknown);
    assert!(waited >= 60_000 && gone == Some(Gone::Dead), "{waited} ms: {gone:?}");
}

#[test]
fn a_claim_that_cannot_be_leaves_the_lane() {
    let mut desk = Desk::new();
    let (_, pair) = desk.open(GREAT, THERE);
    let _theirs = desk.lane(pair, 1, true);
    let claim = Hello { received: 5, ..hello(GREAT, 9) };
    let (incoming, status) = desk.come(&claim);
    assert_eq!(status, None);
    assert!(desk.asked().iter().any(|a| matches!(a, Action::Dismiss { incoming: v } if *v == incoming)));
    assert_eq!(desk.session.pair(pair).lane().map(|up| up.generation), Some(1));
}

/// Another job cannot put its own process in the place of one that is known.
#[test]
fn a_record_that_names_another_process_is_told_from_the_one_that_is_known() {
    let mut desk = Desk::new();
    assert!(!desk.session.contradicts(ME, GREAT, &contact([9; 16], THERE)), "it is not known yet");
    desk.open(GREAT, THERE);
    assert!(!desk.session.contradicts(ME, GREAT, &contact(THEM, THERE)));
    assert!(desk.session.contradicts(ME, GREAT, &contact([9; 16], THERE)));
    assert!(!desk.session.contradicts(ME, GREAT, &contact([0; 16], THERE)), "the name of a port does not say");
}

/// Whoever comes from one host, with however many connections that have known the key, keeps nobody from another one out.
#[test]
fn no_host_takes_all_places_of_connections_without_a_lane() {
    let mut desk = Desk::new();
    let come = |desk: &mut Desk, from: &str| {
        let incoming = desk.session.arrived_from(desk.now, Some(&place(from)));
        desk.session.incoming_answered(incoming);
        incoming
    };
    for _ in 0..100 {
        come(&mut desk, "b1");
    }
    let friend = come(&mut desk, "a5");
    for _ in 0..100 {
        come(&mut desk, "b1");
    }
    let asked = desk.asked();
    assert_eq!(asked.iter().filter(|a| matches!(a, Action::Dismiss { .. })).count(), 201 - 64);
    assert!(!asked.iter().any(|a| matches!(a, Action::Dismiss { incoming } if *incoming == friend)), "it gave way");
}

#[test]
fn a_lane_is_asked_before_it_gives_way() {
    let mut desk = Desk::new();
    let (_, pair) = desk.open(GREAT, THERE);
    let _theirs = desk.lane(pair, 1, true);
    let (incoming, status) = desk.come(&hello(GREAT, 9));
    assert_eq!(status, None, "it waits");
    desk.tick(500);
    assert!(!desk.asked().iter().any(|a| matches!(a, Action::Ask { .. })));
    desk.tick(600);
    let mute = desk.asked().iter().any(|a| matches!(a, Action::Ask { incoming: v, mute: true } if *v == incoming));
    assert!(mute, "nothing came for a second");
    desk.session.incoming_stands(incoming, true, desk.now);
    assert_eq!(desk.answer_to(incoming), Some(Status::Good));
    assert_eq!(desk.session.incoming_ready(incoming), Some(Agreed { pair, generation: 9, received: 0, moves: None }));
}

/// Two connections came while the lane was asked, and it was lost: the second would have taken the place of the first
/// unasked.
#[test]
fn of_two_that_were_answered_the_first_has_the_lane() {
    let mut desk = Desk::new();
    let (_, pair) = desk.open(GREAT, THERE);
    let (first, status) = desk.come(&hello(GREAT, 3));
    assert_eq!(status, Some(Status::Good));
    let (second, status) = desk.come(&hello(GREAT, 4));
    assert_eq!(status, Some(Status::Good));
    assert_eq!(desk.session.incoming_ready(first), Some(Agreed { pair, generation: 3, received: 0, moves: None }));
    let _theirs = desk.lane(pair, 3, false);
    assert_eq!(desk.session.incoming_ready(second), None);
}

#[test]
fn whoever_was_answered_is_not_dialled() {
    let mut desk = Desk::new();
    let (_, pair) = desk.open(GREAT, THERE);
    let (incoming, status) = desk.come(&hello(GREAT, 1));
    assert_eq!(status, Some(Status::Good));
    assert_eq!(desk.dial(pair, &["a1"]), []);
    desk.session.incoming_left(incoming);
    assert_eq!(desk.dial(pair, &["a1"]).len(), 1);
}

#[test]
fn nonsense_is_forgiven_where_something_gets_through() {
    let mut desk = Desk::new();
    let (_, pair) = desk.open(GREAT, THERE);
    for generation in 1..=3 {
        let mut theirs = desk.lane(pair, generation, true);
        use transports::stream::ByteStream as _;
        let mut left: &[u8] = &[0xff; 64];
        while !left.is_empty() {
            let n = theirs.write_vectored(&[std::io::IoSlice::new(left)]).unwrap_or(0);
            left = &left[n..];
        }
        while !desk.session.receive(pair).dead {}
        assert_eq!(desk.gone(pair), None);
        desk.session.lane_died(pair, desk.now);
        desk.asked();
    }
    assert_eq!(desk.gone(pair), Some(Gone::Dead), "three in a row, and nothing else");
}

/// Gives the pair a lane on this host, which is lost again.
fn meet_near(desk: &mut Desk, pair: usize) {
    let (ours, theirs) = shared::pair(8, false);
    let lane = Boxed(Box::new(ours));
    let new = NewLane { lane, generation: 1, received: 0, transport: NEAR.id, at: None, dialled: true, moves: None };
    desk.session.attach(pair, new, desk.now);
    drop(theirs);
    assert!(desk.session.receive(pair).dead);
    desk.session.lane_died(pair, desk.now);
}

/// Dials a pair on this host, whose one transport refuses and the other one fails for this reason.
fn refused_near(desk: &mut Desk, pair: usize, far: ErrorKind) {
    for _ in 0..2 {
        for (attempt, place) in desk.dial(pair, &["a1"]) {
            desk.fail(attempt, if place.transport == NEAR.id { ErrorKind::ConnectionRefused } else { far });
        }
    }
}

#[test]
fn nobody_at_any_door_of_one_that_was_here_is_a_death() {
    for met in [false, true] {
        let mut desk = Desk::new();
        let (_, pair) = desk.open(GREAT, HERE);
        if met {
            meet_near(&mut desk, pair);
        }
        let dials = desk.dial(pair, &["a1"]);
        assert_eq!(dials[0].1.transport, NEAR.id, "the best first");
        desk.fail(dials[0].0, ErrorKind::ConnectionRefused);
        // It may only use no such transport, or no more: the next one is tried.
        assert_eq!(desk.gone(pair), None);
        let dials = desk.dial(pair, &["a1"]);
        assert_eq!(dials.iter().map(|(_, place)| place.transport).collect::<Vec<_>>(), [FAR.id]);
        desk.fail(dials[0].0, ErrorKind::ConnectionRefused);
        assert_eq!(desk.gone(pair), met.then_some(Gone::Dead));
    }
}

/// It may have taken one transport out of use, and a firewall may stop the other.
#[test]
fn a_refusal_of_one_transport_and_silence_of_another_are_no_death_yet() {
    let mut desk = Desk::new();
    let (_, pair) = desk.open(GREAT, HERE);
    meet_near(&mut desk, pair);
    let mut waited = 0;
    while desk.gone(pair).is_none() {
        refused_near(&mut desk, pair, ErrorKind::TimedOut);
        desk.tick(500);
        waited += 500;
        assert!(waited < 30_000, "it is given up");
    }
    assert!(waited >= 20_000, "{waited} ms");
}

/// Also if the operator has ordered that transport, so that it is dialled first.
#[test]
fn a_refusal_of_the_ordered_transport_is_no_death_while_another_answers() {
    for first in [FAR, NEAR] {
        let mut desk = Desk::new();
        let (_, pair) = desk.open(GREAT, HERE);
        meet_near(&mut desk, pair);
        assert_eq!(desk.session.move_to(pair, Some(first.id), desk.now), Ok(Ordered::NotConnected));
        let dials = desk.dial(pair, &["a1"]);
        assert_eq!(dials[0].1.transport, first.id);
        desk.fail(dials[0].0, ErrorKind::ConnectionRefused);
        assert_eq!(desk.gone(pair), None);
        let dials = desk.dial(pair, &["a1"]);
        assert_eq!(desk.session.dial_answered(dials[0].0, &ack(Status::Later, 0, THEM), desk.now), None);
        assert_eq!(desk.gone(pair), None, "somebody answers there");
    }
}

/// A pair whose other side was told of a hold, which is over.
fn held_and_back() -> (Desk, InterId, usize) {
    let mut desk = Desk::new();
    let (inter, pair) = desk.open(GREAT, HERE);
    meet_near(&mut desk, pair);
    desk.session.hold(desk.now);
    desk.tick(11_000);
    assert!(matches!(desk.session.is_held(), Hold::Held { .. }));
    desk.session.resume(desk.now);
    (desk, inter, pair)
}

/// While a process is held, others may close listeners that it knows and open some that it does not: they dial it then.
#[test]
fn refusals_after_a_hold_are_no_death_yet() {
    let (mut desk, _, pair) = held_and_back();
    let mut waited = 0;
    while waited < 10_000 {
        refused_near(&mut desk, pair, ErrorKind::ConnectionRefused);
        desk.tick(500);
        waited += 500;
        assert_eq!(desk.gone(pair), None, "after {waited} ms");
    }
    let (incoming, status) = desk.come(&hello(GREAT, 9));
    assert_eq!(status, Some(Status::Good), "it comes");
    assert!(desk.session.incoming_ready(incoming).is_some());
    let theirs = desk.lane(pair, 9, false);
    drop(theirs);
    assert!(desk.session.receive(pair).dead);
    desk.session.lane_died(pair, desk.now);
    desk.tick(1100);
    refused_near(&mut desk, pair, ErrorKind::ConnectionRefused);
    assert_eq!(desk.gone(pair), Some(Gone::Dead), "what was learnt since counts");
}

/// The same, where nothing else is to be done.
fn back_and_done() -> (Desk, usize) {
    let (mut desk, inter, pair) = held_and_back();
    desk.session.close(inter);
    desk.session.remove_group(ME.incarnation);
    desk.tick(100);
    desk.session.leave_all();
    assert_eq!(desk.session.find_pair(ME, GREAT), Some(pair), "it is not left without a word");
    (desk, pair)
}

/// Who was told that this process comes back by itself waits for it, whatever its host says. So it comes back once more before it ends what
/// it has to do with it, and takes its leave there.
#[test]
fn who_waits_for_a_held_process_is_told_that_it_leaves() {
    let (mut desk, pair) = back_and_done();
    let (incoming, status) = desk.come(&hello(GREAT, 9));
    assert_eq!(status, Some(Status::Good), "it comes");
    assert!(desk.session.incoming_ready(incoming).is_some());
    let theirs = desk.lane(pair, 9, false);
    desk.session.leave_all();
    assert_eq!(desk.session.unacknowledged(), 1, "BYE");
    drop(theirs);
    assert!(desk.session.receive(pair).dead);
    desk.session.lane_died(pair, desk.now);
    desk.session.leave_all();
    assert_eq!(desk.session.find_pair(ME, GREAT), Some(pair), "the other side may never have had that lane");
    desk.tick(1100);
    let dials = desk.dial(pair, &["a1"]);
    assert_eq!(desk.session.dial_answered(dials[0].0, &ack(Status::NoSuchProcess, 0, THEM), desk.now), None);
    desk.tick(5);
    desk.session.leave_all();
    assert_eq!(desk.session.find_pair(ME, GREAT), None, "it has left, too");
}

/// The other side takes its leave while this process goes away: it waits until that is acknowledged, so this process comes back for it.
#[test]
fn who_leaves_during_a_hold_is_answered_after_it() {
    let mut desk = Desk::new();
    let (inter, pair) = desk.open(GREAT, HERE);
    let mut theirs = StreamLane::new(desk.lane(pair, 1, true));
    desk.session.hold(desk.now);
    say(&mut theirs, 1, 1, &[BYE]);
    while desk.gone(pair).is_none() {
        Lane::flush(&mut theirs, &VecMemory::default());
        assert!(!desk.session.receive(pair).dead);
        desk.session.settle();
    }
    assert_eq!(desk.gone(pair), Some(Gone::Finished));
    desk.tick(11_000);
    desk.session.resume(desk.now);
    desk.session.close(inter);
    desk.session.remove_group(ME.incarnation);
    desk.session.leave_all();
    assert_eq!(desk.session.unacknowledged(), 1, "MPI_Finalize waits for it");
    desk.tick(5);
    assert!(
        desk.asked().iter().any(|action| matches!(action, Action::Resolve { .. } | Action::Dial { .. })),
        "dialled"
    );
    let (incoming, status) = desk.come(&hello(GREAT, 9));
    assert_eq!(status, Some(Status::Good), "it comes");
    let agreed = desk.session.incoming_ready(incoming).expect("a lane");
    assert_eq!(agreed.pair, pair);
    drop(desk.lane(pair, 9, false));
    assert_eq!(desk.session.unacknowledged(), 0, "HELLO has said what was received");
}

/// It may have ended during the hold, with nothing to say: if it lived, it would come.
#[test]
fn who_is_refused_after_a_hold_and_has_nothing_to_say_leaves() {
    let (mut desk, pair) = back_and_done();
    let mut waited = 0;
    while desk.session.find_pair(ME, GREAT).is_some() {
        assert!(waited < 6_000, "it is left in the end");
        refused_near(&mut desk, pair, ErrorKind::ConnectionRefused);
        desk.tick(500);
        waited += 500;
        desk.session.leave_all();
    }
    assert!(waited >= 3_000, "{waited} ms");
}

/// The process lives: it has answered.
#[test]
fn a_lane_that_cannot_be_made_is_no_death() {
    let mut desk = Desk::new();
    let (_, pair) = desk.open(GREAT, HERE);
    meet_near(&mut desk, pair);
    for _ in 0..50 {
        for (attempt, place) in desk.dial(pair, &["a1"]) {
            if place.transport == NEAR.id {
                desk.fail(attempt, ErrorKind::ConnectionRefused);
            } else if desk.session.dial_answered(attempt, &ack(Status::Good, 1, THEM), desk.now).is_some() {
                desk.session.lane_not_made(pair, &ErrorKind::OutOfMemory.into(), desk.now);
            }
        }
        desk.tick(1000);
        assert_eq!(desk.gone(pair), None);
    }
}

#[test]
fn a_lane_that_cannot_be_made_is_made_another_way() {
    let mut desk = Desk::new();
    let (_, pair) = desk.open(GREAT, HERE);
    let dials = desk.dial(pair, &["a1"]);
    assert!(desk.session.dial_answered(dials[0].0, &ack(Status::Good, 1, THEM), desk.now).is_some());
    desk.session.lane_not_made(pair, &ErrorKind::OutOfMemory.into(), desk.now);
    assert!(desk.dial(pair, &["a1"]).iter().any(|(_, place)| place.transport == FAR.id));
}

#[test]
fn a_caller_that_does_not_come_again_is_forgotten() {
    let mut desk = Desk::new();
    let port = ProcId { incarnation: 77, rank: 0 };
    desk.session.add_port(port, COOKIE);
    let (incoming, status) = desk.come(&Hello { dest: port, ..hello(GREAT, 1) });
    assert_eq!(status, Some(Status::Good));
    let Agreed { pair, .. } = desk.session.incoming_ready(incoming).expect("a lane");
    drop(desk.lane(pair, 1, false));
    let path: PathRef = desk.session.next_caller(port).expect("a caller");
    assert!(desk.session.receive(pair).dead);
    desk.session.lane_died(pair, desk.now);
    desk.tick(4900);
    assert_eq!(desk.session.path_gone(path), None, "it may come again");
    desk.tick(200);
    desk.session.leave_all();
    assert!(desk.session.path_gone(path).is_some());
    assert_eq!(desk.session.pairs_in_use(), 0);
}

#[test]
fn no_one_gets_to_a_removed_group_or_a_rank_that_cannot_be() {
    let mut desk = Desk::new();
    desk.open(GREAT, THERE);
    let (_, status) = desk.come(&hello(ProcId { rank: 1, ..GREAT }, 1));
    assert_eq!(status, Some(Status::NoSuchProcess), "the other job has one rank");
    let (_, status) = desk.come(&Hello { cookie: [0; 16], ..hello(GREAT, 1) });
    assert_eq!(status, Some(Status::BadCookie));
    desk.session.remove_group(ME.incarnation);
    let (_, status) = desk.come(&hello(SMALL, 1));
    assert_eq!(status, Some(Status::NoSuchProcess));
}

#[test]
fn a_host_is_asked_once_whether_one_gets_through() {
    let mut desk = Desk::new();
    let (_, pair) = desk.open(GREAT, THERE);
    let probes = |desk: &mut Desk| desk.asked().iter().filter(|a| matches!(a, Action::Probe { .. })).count();
    let _first = desk.lane(pair, 1, false);
    assert_eq!(probes(&mut desk), 1);
    let _second = desk.lane(pair, 2, false);
    assert_eq!(probes(&mut desk), 0);
}

#[test]
fn refusals_say_what_they_are() {
    assert_eq!(Refusal::Better(3).to_string(), "dialling itself");
    assert_eq!(Refusal::OtherVersion(7).to_string(), "another version of the protocol, 7");
}

/// A newcomer waits for the new lane as long as for any.
#[test]
fn a_lane_that_replaces_an_asked_one_is_asked_too() {
    let mut desk = Desk::new();
    let (_, pair) = desk.open(GREAT, THERE);
    let _theirs = desk.lane(pair, 1, true);
    let (_, status) = desk.come(&hello(GREAT, 9));
    assert_eq!(status, None, "it waits");
    desk.tick(500);
    desk.asked();
    let (new, _other) = replacement();
    assert!(desk.session.swap(pair, new, desk.now));
    desk.tick(5);
    for a in desk.asked() {
        if let Action::Ask { incoming, mute } = a {
            desk.session.incoming_stands(incoming, mute, desk.now);
        }
    }
    desk.tick(5);
    let asked = desk.asked();
    let mute = asked.iter().any(|a| matches!(a, Action::Ask { mute: true, .. }));
    assert!(!mute, "the new lane had no second: 5 ms after the swap the newcomer gets its place");
}

/// The last word of a handshake comes after its process was found dead.
#[test]
fn an_answered_connection_is_no_lane_of_the_dead() {
    let mut desk = Desk::new();
    let (_, pair) = desk.open(GREAT, HERE);
    meet_near(&mut desk, pair);
    let near = desk.dial(pair, &["a1"]);
    desk.fail(near[0].0, ErrorKind::ConnectionRefused);
    let far = desk.dial(pair, &["a1"]);
    let (incoming, _) = desk.come(&hello(GREAT, 5));
    desk.fail(far[0].0, ErrorKind::ConnectionRefused);
    assert_eq!(desk.gone(pair), Some(Gone::Dead));
    let ready = desk.session.incoming_ready(incoming);
    assert_eq!(ready, None, "a dead process gets a lane");
}

/// A caller that never comes again to a restored port.
#[test]
fn a_caller_is_given_up_after_a_snapshot_too() {
    let mut desk = Desk::new();
    let port = ProcId { incarnation: 77, rank: 0 };
    desk.session.add_port(port, COOKIE);
    let (incoming, _) = desk.come(&Hello { dest: port, ..hello(GREAT, 1) });
    let Agreed { pair, .. } = desk.session.incoming_ready(incoming).expect("a lane");
    let _theirs = desk.lane(pair, 1, false);
    let path: PathRef = desk.session.next_caller(port).expect("a caller");
    desk.session.detach();
    desk.asked();
    let bytes = desk.session.freeze(desk.now);
    let own = desk.session.own().clone();
    desk.session = Session::thaw(&bytes, own, VecMemory::default(), desk.now).expect("read");
    for _ in 0..600 {
        desk.tick(1000);
        desk.session.leave_all();
    }
    assert!(
        desk.session.path_gone(path).is_some(),
        "ten minutes later the caller that never came again is still awaited"
    );
}

/// A process that refuses is dead, also for one that was restored meanwhile.
#[test]
fn a_loss_is_known_after_a_snapshot() {
    for thaw in [false, true] {
        let mut desk = Desk::new();
        let (_, pair) = desk.open(GREAT, THERE);
        let t = desk.lane(pair, 1, false);
        if thaw {
            drop(t);
            desk.session.detach();
            desk.asked();
            let bytes = desk.session.freeze(desk.now);
            let own = desk.session.own().clone();
            desk.session = Session::thaw(&bytes, own, VecMemory::default(), desk.now).expect("read");
        } else {
            drop(t);
            assert!(desk.session.receive(pair).dead);
            desk.session.lane_died(pair, desk.now);
        }
        for _ in 0..400 {
            for (attempt, _) in desk.dial(pair, &["a5"]) {
                desk.fail(attempt, ErrorKind::ConnectionRefused);
            }
            desk.tick(1000);
        }
        assert_eq!(desk.gone(pair), Some(Gone::Dead), "thaw {thaw}: refused for 400 s");
    }
}

/// A contact record that is reported makes a stranger known.
#[test]
fn who_is_restored_elsewhere_is_no_stranger() {
    let mut desk = Desk::new();
    let (incoming, status) = desk.come(&hello(GREAT, 1));
    assert_eq!(status, Some(Status::Good));
    let Agreed { pair, .. } = desk.session.incoming_ready(incoming).expect("a lane");
    let _t = desk.lane(pair, 1, false);
    assert_eq!(desk.session.strangers(), 1);
    desk.session.relocated(GREAT, &contact([3; 16], THERE), desk.now);
    assert!(!desk.session.pair(pair).is_stranger());
    assert_eq!(desk.session.strangers(), 0, "known, and still in the list of strangers");
}

/// Each time that a stranger told the same of checkpoints it was handed on, and read.
#[test]
fn what_a_stranger_tells_again_of_checkpoints_is_seldom_handed_on() {
    let mut desk = Desk::new();
    let (incoming, _) = desk.come(&hello(GREAT, 1));
    let Agreed { pair, .. } = desk.session.incoming_ready(incoming).expect("a lane");
    let (ours, theirs) = pipe::pair(&mut Rng::new(1), 4 << 20);
    let mut theirs: Lanes = Box::new(StreamLane::new(theirs));
    let (lane, at) = (Boxed(Box::new(StreamLane::new(ours))), Some(place("a5")));
    let new = NewLane { lane, generation: 1, received: 0, transport: FAR.id, at, dialled: false, moves: None };
    desk.session.attach(pair, new, desk.now);
    let mut sequence = 0;
    // Tells something of this length, and returns how often something is handed on.
    let mut tell = |desk: &mut Desk, first: u8, len: usize, times: usize| {
        let body = [&[CONTROL, CHECKPOINT][..], &vec![first; len]].concat();
        let mut handed_on = 0;
        for _ in 0..times {
            sequence += 1;
            let (len, kind, a) = (body.len() as u32, Kind::Msg, sequence);
            let header = Header { len, kind, ack_now: false, generation: 1, source: GREAT, dest: ME, a, b: 0 };
            assert_eq!(theirs.try_send(&VecMemory::default(), &header, Payload::Bytes(&body)), Sent::Taken);
            while theirs.wants_write() {
                theirs.flush(&VecMemory::default());
                assert!(!desk.session.receive(pair).dead);
            }
            for _ in 0..100 {
                assert!(!desk.session.receive(pair).dead);
            }
            desk.session.settle();
            let is_handed_on =
                |action: &Action<Boxed>| matches!(action, Action::OfCheckpoints { is_stranger: true, .. });
            handed_on += desk.asked().iter().filter(|action| is_handed_on(action)).count();
        }
        handed_on
    };
    assert_eq!(tell(&mut desk, 1, 1000, 5), 1, "it says the same");
    assert_eq!(tell(&mut desk, 2, 1000, 5), 1, "a leader that restarts knows something new");
    desk.tick(600);
    assert_eq!(tell(&mut desk, 1, 1000, 5), 1, "it asks again");
    // New ones that are large.
    desk.tick(600);
    let large: usize = (3..10).map(|first| tell(&mut desk, first, 200_000, 1)).sum();
    assert_eq!(large, 1);
    assert_eq!(desk.session.strangers_control(), 2 * 1000 + 7 * 200_000, "all are kept");
}

/// Bytes behind the value are damage.
#[test]
fn nothing_may_follow_a_snapshot() {
    let mut desk = Desk::new();
    desk.session.detach();
    let mut bytes = desk.session.freeze(desk.now);
    bytes.extend([1, 2, 3]);
    let own = desk.session.own().clone();
    assert!(Session::<Boxed, VecMemory>::thaw(&bytes, own, VecMemory::default(), desk.now).is_err(), "bytes behind it");
}

/// The tick after a restore gave up every caller: a caller that is missed has 5 s to come again, also then.
#[test]
fn a_caller_may_come_again_after_a_snapshot() {
    let mut desk = Desk::new();
    let port = ProcId { incarnation: 77, rank: 0 };
    desk.session.add_port(port, COOKIE);
    let (incoming, _) = desk.come(&Hello { dest: port, ..hello(GREAT, 1) });
    let Agreed { pair, .. } = desk.session.incoming_ready(incoming).expect("a lane");
    let _theirs = desk.lane(pair, 1, false);
    desk.restore();
    let path: PathRef = desk.session.next_caller(port).expect("a caller");
    desk.tick(4900);
    assert_eq!(desk.session.path_gone(path), None, "it may come again");
    desk.tick(200);
    assert!(desk.session.path_gone(path).is_some());
}

/// A caller that is restored elsewhere and does not come again was awaited for ever.
#[test]
fn a_caller_that_is_restored_elsewhere_has_no_longer() {
    let mut desk = Desk::new();
    let port = ProcId { incarnation: 77, rank: 0 };
    desk.session.add_port(port, COOKIE);
    let (incoming, _) = desk.come(&Hello { dest: port, ..hello(GREAT, 1) });
    let Agreed { pair, .. } = desk.session.incoming_ready(incoming).expect("a lane");
    let _theirs = desk.lane(pair, 1, false);
    let path: PathRef = desk.session.next_caller(port).expect("a caller");
    desk.session.relocated(GREAT, &contact([3; 16], THERE), desk.now);
    desk.tick(4900);
    assert_eq!(desk.session.path_gone(path), None, "it may come again");
    desk.tick(200);
    assert!(desk.session.path_gone(path).is_some());
}

/// What is left of an offer's time limit goes on after a restore, whatever the clock shows there.
#[test]
fn an_offer_ends_in_its_time_after_a_snapshot() {
    for sooner in [false, true] {
        let mut desk = Desk::new();
        let (_, pair) = desk.open(GREAT, THERE);
        let path = desk.session.open_control(ME, GREAT, COOKIE, &contact(THEM, THERE));
        assert_eq!(desk.session.pair_of(path), Some(pair));
        desk.session.offer(path, true, &party(ME), Some(desk.now + Duration::from_secs(10)));
        desk.tick(4000);
        desk.session.detach();
        let bytes = desk.session.freeze(desk.now);
        // The clock of the new process.
        desk.now = if sooner { Time(5) } else { after(1_000_000) };
        desk.read(&bytes);
        desk.tick(5900);
        assert_eq!(desk.session.talk(path, desk.now), Turn::Waiting);
        desk.tick(200);
        assert_eq!(desk.session.talk(path, desk.now), Turn::Waiting, "it is withdrawn now");
        assert!(desk.session.is_withdrawn(path));
        assert_eq!(desk.session.talk(path, desk.now), Turn::TimedOut);
    }
}

/// The same of a name that leads nowhere.
#[test]
fn a_lost_name_is_lost_after_a_snapshot_too() {
    let mut desk = Desk::new();
    let path = desk.session.open_control(ME, GREAT, COOKIE, &contact(THEM, THERE));
    desk.session.offer(path, true, &party(ME), None);
    desk.session.is_found(path, false, desk.now);
    desk.tick(1000);
    desk.restore();
    desk.tick(900);
    assert_eq!(desk.session.talk(path, desk.now), Turn::Waiting);
    assert!(!desk.session.is_withdrawn(path));
    desk.tick(200);
    assert_eq!(desk.session.talk(path, desk.now), Turn::Waiting, "it is withdrawn now");
    desk.restore();
    assert_eq!(desk.session.talk(path, desk.now), Turn::Gone);
}

/// A restored session writes what it has read.
#[test]
fn a_snapshot_of_a_snapshot_is_the_same() {
    let mut desk = Desk::new();
    for incarnation in 60..80 {
        desk.session.add_group(Group { incarnation, cookie: COOKIE, rank: 0, size: 1 });
        desk.open(ProcId { incarnation, rank: 0 }, THERE);
    }
    desk.session.detach();
    let bytes = desk.session.freeze(desk.now);
    for _ in 0..4 {
        desk.read(&bytes);
        assert_eq!(desk.session.freeze(desk.now), bytes);
    }
}

/// The report that a caller was restored elsewhere ended the time that it had to come again.
#[test]
fn a_restored_port_awaits_a_restored_caller() {
    let mut desk = Desk::new();
    let port = ProcId { incarnation: 77, rank: 0 };
    desk.session.add_port(port, COOKIE);
    let (incoming, _) = desk.come(&Hello { dest: port, ..hello(GREAT, 1) });
    let Agreed { pair, .. } = desk.session.incoming_ready(incoming).expect("a lane");
    let _theirs = desk.lane(pair, 1, false);
    desk.restore();
    desk.session.relocated(GREAT, &contact([3; 16], THERE), desk.now);
    let path: PathRef = desk.session.next_caller(port).expect("a caller");
    desk.tick(4900);
    assert_eq!(desk.session.path_gone(path), None, "it may come again");
    desk.tick(200);
    assert!(desk.session.path_gone(path).is_some());
}

/// Calls a port as the shim does, and gets a lane there. Returns the pair and the path.
fn call(desk: &mut Desk, limit: Duration) -> (usize, PathRef) {
    let nobody = Contact::new([0; 16], [0; 16], [(FAR.id, &b"a1"[..])]);
    let path = desk.session.open_control(ME, GREAT, COOKIE, &nobody);
    desk.session.believe_refusals(path);
    desk.session.offer(path, false, &party(ME), Some(desk.now + limit));
    assert_eq!(desk.session.talk(path, desk.now), Turn::Waiting);
    (desk.session.pair_of(path).expect("a pair"), path)
}

/// A caller whose offer had arrived did not notice that the way was dark: it had nothing to send.
#[test]
fn whoever_waits_for_an_answer_asks_for_a_sign_of_life() {
    use transports::stream::ByteStream as _;
    let mut desk = Desk::new();
    let (pair, path) = call(&mut desk, Duration::from_secs(100));
    drop(desk.lane(pair, 1, true));
    desk.session.settle();
    // The other side has the offer, and says nothing more.
    let (lane, mut theirs) = far_lane(2);
    let at = Some(place("a5"));
    let new = NewLane { lane, generation: 2, received: 1, transport: FAR.id, at, dialled: true, moves: None };
    desk.session.attach(pair, new, desk.now);
    assert_eq!(desk.session.unacknowledged(), 0);
    let mut came = 0;
    for _ in 0..100 {
        desk.tick(100);
        desk.session.watch_lingering(desk.now);
        // The lane may take more.
        desk.session.mark(pair);
        desk.session.settle();
        assert_eq!(desk.session.talk(path, desk.now), Turn::Waiting);
        came += theirs.read_vectored(&mut [std::io::IoSliceMut::new(&mut [0; 64])]).unwrap_or(0);
    }
    assert!(came > 0, "in ten seconds");
}

/// A port that had answered was given up at the first handshake that was cut off.
#[test]
fn a_port_that_answered_is_not_given_up_for_a_refusal() {
    let mut desk = Desk::new();
    let (pair, _) = call(&mut desk, Duration::from_secs(100));
    drop(desk.lane(pair, 1, true));
    assert!(desk.session.receive(pair).dead);
    desk.session.lane_died(pair, desk.now);
    for _ in 0..10 {
        for (attempt, _) in desk.dial(pair, &["a1"]) {
            desk.fail(attempt, ErrorKind::UnexpectedEof);
        }
        desk.tick(1000);
        assert_eq!(desk.gone(pair), None);
    }
}

/// The server died right after it had accepted: the path to its port had ended before the client said who its job was, and what its dial
/// had proven of that host was lost with it. So the death of the others there was never certain.
#[test]
fn what_a_call_to_a_port_proves_of_a_host_outlives_it() {
    let mut desk = Desk::new();
    let (pair, path) = call(&mut desk, Duration::from_secs(100));
    let (attempt, at) = desk.dial(pair, &["a1"]).remove(0);
    desk.session.dial_greeted(attempt, true, desk.now);
    let agreed = desk.session.dial_answered(attempt, &ack(Status::Good, 1, THEM), desk.now).expect("a lane");
    let (lane, theirs) = far_lane(1);
    let new = NewLane {
        lane,
        generation: agreed.generation,
        received: 0,
        transport: FAR.id,
        at: Some(at),
        dialled: true,
        moves: None,
    };
    desk.session.attach(pair, new, desk.now);
    desk.session.abandon(path);
    drop(theirs);
    desk.session.leave_all();
    assert_eq!(desk.session.pair_of(path), None, "it has ended");
    desk.session.introduce(path, &vec![contact(THEM, THERE)].into());
    let (_, pair) = desk.open(SMALL, THERE);
    for _ in 0..30 {
        for (attempt, _) in desk.dial(pair, &["a1"]) {
            desk.fail(attempt, ErrorKind::ConnectionRefused);
        }
        desk.tick(100);
    }
    assert_eq!(desk.gone(pair), Some(Gone::Dead), "its host is known to be reached there");
}

/// A call to a port that no dial reaches has ended, and the port was dialled as long as the process lived.
#[test]
fn a_port_is_not_dialled_for_a_call_that_has_ended() {
    let mut desk = Desk::new();
    let (pair, path) = call(&mut desk, Duration::from_secs(5));
    for turn in [Turn::Waiting, Turn::Waiting, Turn::TimedOut] {
        for (attempt, _) in desk.dial(pair, &["a1"]) {
            desk.fail(attempt, ErrorKind::TimedOut);
        }
        assert_eq!(desk.session.talk(path, desk.now), turn);
        desk.tick(5100);
    }
    desk.session.remove_group(ME.incarnation);
    desk.session.leave_all();
    assert_eq!(desk.session.pairs_in_use(), 0);
    desk.tick(10);
    assert!(!desk.session.is_timed());
}

/// What the other side had not read of a lane in shared memory was lost, if it then lost its end: a snapshot, or the next
/// lane's death.
#[test]
fn a_lane_is_left_when_all_of_it_was_read() {
    let mut desk = Desk::new();
    let (_, pair) = desk.open(GREAT, HERE);
    let (ours, mut theirs) = shared::pair(8, false);
    let lane = Boxed(Box::new(ours));
    let new = NewLane { lane, generation: 1, received: 0, transport: NEAR.id, at: None, dialled: true, moves: None };
    desk.session.attach(pair, new, desk.now);
    let path = desk.session.open_control(ME, GREAT, COOKIE, &contact(THEM, HERE));
    desk.session.send_control(path, b"a message");
    let (new, _other) = replacement();
    assert!(desk.session.swap(pair, new, desk.now));
    let (kind, source, dest) = (Kind::Switch, GREAT, ME);
    let switch = Header { len: 0, kind, ack_now: false, generation: 1, source, dest, a: 2, b: 0 };
    let payload = wire::lane::Payload::Bytes(&[]);
    assert_eq!(theirs.try_send(&VecMemory::default(), &switch, payload), wire::lane::Sent::Taken);
    let is_left = |desk: &mut Desk| {
        for _ in 0..3 {
            assert!(!desk.session.receive(pair).dead);
            desk.session.mark(pair);
            desk.session.settle();
            desk.tick(10);
        }
        desk.asked().iter().any(|a| matches!(a, Action::Dropped { .. }))
    };
    assert!(!is_left(&mut desk), "the message was not read");
    while Lane::<VecMemory>::poll(&mut theirs, &mut Reader::default(), 1 << 20) > 0 {}
    assert!(is_left(&mut desk));
}

/// A lane that is found full, and has room again before the session looks for what has happened on it.
struct Sudden {
    lane: StreamLane<pipe::PipeEnd>,
    is_full: bool,
}

impl Lane<VecMemory> for Sudden {
    fn caps(&self) -> wire::lane::Caps {
        Lane::<VecMemory>::caps(&self.lane)
    }
    fn wants_write(&self) -> bool {
        self.is_full || Lane::<VecMemory>::wants_write(&self.lane)
    }
    fn try_send(&mut self, mem: &VecMemory, header: &Header, body: Payload<'_>) -> Sent {
        self.lane.try_send(mem, header, body)
    }
    fn try_send_with(&mut self, header: &Header, fill: &mut wire::lane::Fill<'_>) -> Sent {
        Lane::<VecMemory>::try_send_with(&mut self.lane, header, fill)
    }
    fn flush(&mut self, mem: &VecMemory) -> bool {
        !self.is_full && self.lane.flush(mem)
    }
    fn poll(&mut self, sink: &mut dyn wire::lane::Sink, budget: usize) -> usize {
        Lane::<VecMemory>::poll(&mut self.lane, sink, budget)
    }
    fn event(&mut self) -> Option<wire::lane::Event> {
        std::mem::take(&mut self.is_full).then_some(wire::lane::Event::Writable)
    }
    fn quiesce(&mut self) {}
    fn resume(&mut self) {}
    fn death(&self) -> Option<&wire::lane::Death> {
        None
    }
    fn cut(&mut self) {}
    fn written(&self) -> u64 {
        self.lane.written()
    }
    fn waiting(&self) -> u16 {
        Lane::<VecMemory>::wants_write(self).into()
    }
}

/// Nothing tells of that room again.
#[test]
fn a_lane_that_has_room_at_once_is_written_to_at_once() {
    use transports::stream::ByteStream;
    let mut desk = Desk::new();
    let (_, pair) = desk.open(GREAT, THERE);
    let (ours, mut theirs) = pipe::pair(&mut Rng::new(1), 64 << 10);
    let lane = Boxed(Box::new(Sudden { lane: StreamLane::new(ours), is_full: true }));
    let new = NewLane { lane, generation: 1, received: 0, transport: FAR.id, at: None, dialled: true, moves: None };
    desk.session.attach(pair, new, desk.now);
    let path = desk.session.open_control(ME, GREAT, COOKIE, &contact(THEM, THERE));
    desk.session.send_control(path, b"a message");
    for _ in 0..3 {
        desk.session.settle();
    }
    let mut buffer = [0; 100];
    let came = (0..100).any(|_| {
        let read = theirs.read_vectored(&mut [std::io::IoSliceMut::new(&mut buffer)]);
        read.is_ok_and(|n| n > 0)
    });
    assert!(came, "what the lane had no room for is not written");
}

/// A message that waits behind a missing one says where its data lies, and its process moves: the data is asked for. Found to
/// be otherwise where the fault is planted.
#[test]
fn what_is_held_does_not_lead_into_the_memory_of_before() {
    for (plant, reads) in [(Plant::None, false), (Plant::OldHeld, true)] {
        let mut desk = Desk::new();
        desk.session.plant(plant);
        let (inter, pair) = desk.open(GREAT, HERE);
        let ctx = desk.session.ctx(inter);
        let op = desk.session.engine.next_op();
        desk.session.mem.0.insert(op.0, vec![0; 8]);
        desk.session.engine.recv(&mut desk.session.mem, op, ctx, Source::Any, Tag::Is(2), 8);
        let near = |generation| {
            let (lane, theirs) = shared::pair(64, true);
            let (lane, transport) = (Boxed(Box::new(lane)), NEAR.id);
            (NewLane { lane, generation, received: 0, transport, at: None, dialled: false, moves: None }, theirs)
        };
        // Tag 2, from rank 0, in the first context: 8 bytes, which lie at 4096.
        let head = [&[RTS, IN_ONE, 2][..], &[0; 7], &[0; 4], &[0; 8], &[1], &[0; 7], &[5], &[0; 7]].concat();
        let message: Vec<u8> = [head, [8u64, 4096].into_iter().flat_map(u64::to_le_bytes).collect()].concat();

        let (first, _t) = near(1);
        desk.session.attach(pair, first, desk.now);
        // Only behind a swap may a message come before its turn.
        let (second, mut theirs) = near(2);
        assert!(desk.session.swap(pair, second, desk.now));
        say(&mut theirs, 2, 2, &message);
        let _ = desk.session.receive(pair);
        desk.session.relocated(GREAT, &contact([3; 16], HERE), desk.now);
        let (third, mut theirs) = near(3);
        desk.session.attach(pair, third, desk.now);
        desk.asked();
        say(&mut theirs, 3, 1, &[ASK]);
        let _ = desk.session.receive(pair);
        desk.session.settle();
        let asked = desk.asked();
        assert_eq!(asked.iter().any(|action| matches!(action, Action::Get { .. })), reads, "{plant:?}");
        assert!(desk.session.engine.pending(op));
    }
}

/// Whoever had agreed to an offer that was given up meanwhile sent in vain until the other side's next call.
#[test]
fn an_agreement_that_comes_too_late_is_refused() {
    let mut desk = Desk::new();
    let own = Own { process: THEM, ..desk.session.own().clone() };
    let mut other = Session::<Boxed, VecMemory>::new(own, Engine::new(engine::Config::default()), VecMemory::default());
    other.add_group(Group { incarnation: SMALL.incarnation, cookie: COOKIE, rank: 0, size: 1 });
    let ours = desk.session.open_control(ME, SMALL, COOKIE, &contact(THEM, HERE));
    let theirs = other.open_control(SMALL, ME, COOKIE, &contact(US, HERE));
    let (a, b) = shared::pair(64, false);
    let new = |lane, dialled| NewLane {
        lane,
        generation: 1,
        received: 0,
        transport: NEAR.id,
        at: None,
        dialled,
        moves: None,
    };
    desk.session.attach(0, new(Boxed(Box::new(a)), true), desk.now);
    other.attach(0, new(Boxed(Box::new(b)), false), desk.now);
    desk.session.offer(ours, false, &party(ME), Some(desk.now + Duration::from_secs(1)));
    assert_eq!(desk.session.talk(ours, desk.now), Turn::Waiting);
    other.offer(theirs, true, &party(SMALL), None);
    assert!(!other.receive(0).dead);
    other.settle();
    let Turn::Agreed(agreement) = other.talk(theirs, desk.now) else { panic!("both have offered") };
    // Our side hears nothing of it in time.
    desk.tick(1100);
    assert_eq!(desk.session.talk(ours, desk.now), Turn::Waiting);
    desk.tick(2100);
    assert_eq!(desk.session.talk(ours, desk.now), Turn::TimedOut);
    let remote = RemoteGroup { incarnation: ME.incarnation, cookie: COOKIE, contacts: vec![contact(US, HERE)].into() };
    let inter = other.open(SMALL, &remote, ContextId::root(agreement.context));
    let (op, ctx) = (other.engine.next_op(), other.ctx(inter));
    other.mem.0.insert(op.0, vec![1; 8]);
    other.engine.send(&other.mem, op, ctx, 0, 7, 8, engine::Mode::Synchronous);
    for _ in 0..4 {
        other.settle();
        assert!(!desk.session.receive(0).dead && !other.receive(0).dead);
        desk.session.settle();
    }
    assert_eq!(other.engine.finish(op), Some(engine::Outcome::Failed(engine::Fault::Revoked)));
}

/// A program may receive a message that it has claimed when its sender has gone and the inter-communicator is closed. Before
/// that the pair ended, and its slot could serve another process.
#[test]
fn a_claimed_message_keeps_the_pair_of_its_sender() {
    let mut desk = Desk::new();
    let (inter, pair) = desk.open(GREAT, HERE);
    let ctx = desk.session.ctx(inter);
    let (lane, mut theirs) = shared::pair(64, true);
    let (lane, transport) = (Boxed(Box::new(lane)), NEAR.id);
    let new = NewLane { lane, generation: 1, received: 0, transport, at: None, dialled: false, moves: None };
    desk.session.attach(pair, new, desk.now);
    let mut claimed = None;
    for (sequence, body) in [(1, eager(&[7; 3])), (2, vec![BYE])] {
        say(&mut theirs, 1, sequence, &body);
        let _ = desk.session.receive(pair);
        desk.session.settle();
        if sequence == 1 {
            let claim = desk.session.engine.claim(ctx, Source::Any, Tag::Any).expect("it has come");
            desk.session.close(inter);
            claimed = Some(claim);
        }
    }
    assert_eq!(desk.gone(pair), Some(Gone::Finished));
    drop(theirs);
    if desk.session.receive(pair).dead {
        desk.session.lane_died(pair, desk.now);
    }
    desk.session.remove_group(ME.incarnation);
    desk.tick(100);
    desk.session.leave_all();
    assert_eq!(desk.session.pairs_in_use(), 1, "the claim needs its sender's pair");
    let op = desk.session.engine.next_op();
    desk.session.mem.0.insert(op.0, vec![0; 3]);
    let claim = claimed.expect("it was claimed");
    desk.session.engine.recv_claimed(&mut desk.session.mem, op, claim, 3);
    assert_eq!(desk.session.mem.0[&op.0], [7; 3]);
    desk.session.engine.finish(op);
    desk.tick(100);
    desk.session.leave_all();
    assert_eq!(desk.session.pairs_in_use(), 0);
}

// ---- credit

/// Over a byte stream, credit goes with the next message if the program sends one before the lanes are read again, and else alone.
#[test]
fn credit_goes_with_a_message() {
    const SIZE: usize = 64 << 10;
    let mut desk = Desk::new();
    let (inter, pair) = desk.open(GREAT, THERE);
    let ctx = desk.session.ctx(inter);
    let mut theirs = StreamLane::new(desk.lane(pair, 1, true));
    let mem = VecMemory::default();
    let read = |theirs: &mut StreamLane<pipe::PipeEnd>| {
        let mut reader = Reader::default();
        // The pipe seems empty now and then.
        (0..100).for_each(|_| _ = Lane::<VecMemory>::poll(theirs, &mut reader, 1 << 20));
        reader.types
    };
    let body = eager(&[7; SIZE]);
    let mut sequence = 0;
    for answers in [true, false] {
        // A quarter of what a sender has at first.
        for _ in 0..4 {
            let op = desk.session.engine.next_op();
            desk.session.mem.0.insert(op.0, vec![0; SIZE]);
            desk.session.engine.recv(&mut desk.session.mem, op, ctx, Source::Any, Tag::Is(2), SIZE as u64);
            sequence += 1;
            say(&mut theirs, 1, sequence, &body);
            while desk.session.engine.pending(op) {
                theirs.flush(&mem);
                assert!(!desk.session.receive(pair).dead);
                desk.session.settle();
            }
        }
        assert_eq!((desk.session.has_credit(), read(&mut theirs)), (true, vec![]));
        if answers {
            let data = [3; 5000];
            let pack = |at: u64, to: &mut [u8]| to.copy_from_slice(&data[at as usize..][..to.len()]);
            let copy = |len: usize, to: &mut Vec<u8>| to.extend_from_slice(&data[..len]);
            let sent = desk.session.send_now((ctx, 0, 2), 5000, pack, copy, || Some(&data));
            assert_eq!(sent, session::SentNow::Kept);
            assert_eq!(read(&mut theirs), [CREDIT, EAGER]);
        }
        desk.session.send_credit();
        desk.session.settle();
        assert!(!desk.session.has_credit());
        assert_eq!(read(&mut theirs), if answers { vec![] } else { vec![CREDIT] });
    }
}

// ---- moves

#[test]
fn a_hello_that_moves_a_pair_names_the_lane_that_it_leaves() {
    let moving = |generation, leaves, why| Hello { moves: Some(Move { leaves, why }), ..hello(GREAT, generation) };
    let mut desk = Desk::new();
    let (_, pair) = desk.open(GREAT, HERE);
    let (_, status) = desk.come(&moving(1, 0, Why::Ordered));
    assert_eq!(status, Some(Status::BetterConnection), "there is no lane to leave");
    let _first = desk.lane(pair, 3, true);
    desk.asked();
    for (generation, leaves) in [(4, 2), (4, 4), (3, 3)] {
        let (_, status) = desk.come(&moving(generation, leaves, Why::Ordered));
        assert_eq!(status, Some(Status::BetterConnection), "{generation} for {leaves}");
    }
    let (_, status) = desk.come(&Hello { process: [9; 16], ..moving(4, 3, Why::Ordered) });
    assert_eq!(status, Some(Status::NoSuchProcess), "another process");
    // The lane is not asked first: it lives on.
    let (incoming, status) = desk.come(&moving(4, 3, Why::Ordered));
    assert_eq!(status, Some(Status::Good));
    let Agreed { pair: i, generation, received, moves } = desk.session.incoming_ready(incoming).unwrap();
    let (ours, _theirs) = shared::pair(8, false);
    let (lane, transport) = (Boxed(Box::new(ours)), NEAR.id);
    desk.session.attach(
        i,
        NewLane { lane, generation, received, transport, at: None, dialled: false, moves },
        desk.now,
    );
    let up = desk.session.pair(pair).lane().unwrap();
    assert_eq!((up.generation, up.transport, desk.session.pair(pair).is_leaving()), (4, NEAR.id, true));
    // An operator there wanted this transport, and does so no longer if that side dials for a better one.
    let (_, status) = desk.come(&moving(5, 4, Why::Better));
    assert_eq!(status, Some(Status::Good));
    // What an operator here wants is left by an order alone.
    assert_eq!(desk.session.move_to(pair, Some(NEAR.id), desk.now), Ok(Ordered::There));
    let (_, status) = desk.come(&moving(5, 4, Why::Better));
    assert_eq!(status, Some(Status::BetterConnection));
    let (_, status) = desk.come(&moving(5, 4, Why::Freed));
    assert_eq!(status, Some(Status::Good));
}

#[test]
fn a_move_that_is_refused_leaves_all_as_it_was() {
    let mut desk = Desk::new();
    let (_, pair) = desk.open(GREAT, HERE);
    let _theirs = desk.lane(pair, 1, true);
    assert_eq!(desk.session.move_to(pair, Some(NEAR.id), desk.now), Ok(Ordered::Moves));
    let dials = desk.dial(pair, &["a1"]);
    assert_eq!((dials.len(), dials[0].1.transport), (1, NEAR.id));
    // Nobody is at the door of a process that was met: without a lane, that would be its death.
    desk.fail(dials[0].0, ErrorKind::ConnectionRefused);
    assert_eq!((desk.gone(pair), desk.session.is_moving(pair)), (None, false));
    assert_eq!(desk.session.became(pair), Became::Stays("refused".into()));
    assert_eq!(desk.session.why_not_better(pair), "no near: refused", "it is not ordered any more");
    assert_eq!(desk.session.pair(pair).lane().unwrap().generation, 1);
    desk.tick(5);
    assert!(desk.dial(pair, &["a1"]).is_empty(), "it is left alone at first");
}

/// A process was stopped or held when it was dialled by the better transport, and goes on when another one is tried.
#[test]
fn a_pair_says_what_it_misses_and_returns_when_the_process_answers() {
    let later = "held, or without a place yet for those that it does not know";
    returns("no answer in time", |desk, attempt| desk.fail(attempt, ErrorKind::TimedOut));
    returns(later, |desk, attempt| {
        assert!(desk.session.dial_answered(attempt, &ack(Status::Later, 0, THEM), desk.now).is_none());
    });
}

fn returns(why: &str, refuse: impl Fn(&mut Desk, AttemptId)) {
    let mut desk = Desk::new();
    let (_, pair) = desk.open(GREAT, HERE);
    let near = desk.dial(pair, &["a1"]);
    refuse(&mut desk, near[0].0);
    let far = desk.dial(pair, &["a1"]);
    assert_eq!((near[0].1.transport, far[0].1.transport), (NEAR.id, FAR.id));
    assert!(desk.session.dial_answered(far[0].0, &ack(Status::Good, 1, THEM), desk.now).is_some());
    let _theirs = desk.lane(pair, 1, true);
    assert_eq!(desk.session.why_not_better(pair), format!("no near: {why}"));
    let again = desk.dial(pair, &["a1"]);
    assert_eq!((again.len(), again[0].1.transport), (1, NEAR.id), "it answers now");
    // It is no more than one try.
    desk.fail(again[0].0, ErrorKind::ConnectionRefused);
    assert_eq!(desk.session.why_not_better(pair), "no near: refused");
    for _ in 0..5 {
        desk.tick(1000);
        assert!(desk.dial(pair, &["a1"]).is_empty());
    }
}

/// A process that is stopped: its kernel takes connections, and nothing answers.
#[test]
fn an_order_waits_for_a_process_that_does_not_answer() {
    waits_for_a_stopped_process(false);
}

/// A receive waits for the process, so its lane is taken for dark. When the process goes on it answers on that lane, and refuses one beside it.
#[test]
fn an_order_does_not_wait_for_the_next_look_at_a_lane_that_answers_again() {
    waits_for_a_stopped_process(true);
}

fn waits_for_a_stopped_process(watched: bool) {
    let mut desk = Desk::new();
    let (inter, pair) = desk.open(GREAT, HERE);
    if watched {
        let ctx = desk.session.ctx_with(inter, Source::Any);
        let op = desk.session.engine.next_op();
        desk.session.engine.recv(&mut desk.session.mem, op, ctx, Source::Any, Tag::Is(2), 8);
    }
    let (ours, theirs) = far_lane(1);
    let mut theirs: Lanes = Box::new(StreamLane::new(theirs));
    let new = |lane, generation, transport| NewLane {
        lane,
        generation,
        received: 0,
        transport,
        at: None,
        dialled: true,
        moves: None,
    };
    desk.session.attach(pair, new(ours, 1, FAR.id), desk.now);
    assert_eq!(desk.session.move_to(pair, Some(NEAR.id), desk.now), Ok(Ordered::Moves));
    let begun = desk.now;
    while desk.session.became(pair) == Became::Moving {
        assert!(desk.now.since(begun) < Duration::from_secs(11), "it has an end");
        desk.tick(100);
        if watched && desk.session.watch_lingering(desk.now) && desk.now.since(begun) > Duration::from_secs(9) {
            // The next look comes late.
            desk.session.look_took(Duration::from_secs(1));
            desk.session.look_took(Duration::from_secs(1));
        }
        desk.dial(pair, &["a1"]);
    }
    let waits = "it does not answer; the pair moves when it does";
    assert_eq!(desk.session.became(pair), Became::Waits(waits));
    assert_eq!(desk.session.why_not_better(pair), format!("near is ordered; no near: {waits}"));
    for _ in 0..5 {
        desk.tick(1000);
        assert!(watched || desk.dial(pair, &["a1"]).is_empty(), "it is left alone");
    }
    // It goes on, and answers what it was asked.
    let mut reader = Reader::default();
    for _ in 0..100 {
        // The lane may take more.
        desk.session.mark(pair);
        desk.session.settle();
        theirs.poll(&mut reader, 1 << 16);
    }
    let question = reader.question.expect("a question");
    let header = Header { kind: Kind::Pong, source: question.dest, dest: question.source, ..question };
    assert_eq!(theirs.try_send(&VecMemory::default(), &header, Payload::Bytes(&[])), Sent::Taken);
    for _ in 0..100 {
        theirs.flush(&VecMemory::default());
        assert!(!desk.session.receive(pair).dead);
    }
    desk.tick(5);
    let dials = desk.dial(pair, &["a1"]);
    assert_eq!((dials.len(), dials[0].1.transport), (1, NEAR.id), "it is dialled at once");
    let agreed = desk.session.dial_answered(dials[0].0, &ack(Status::Good, 2, THEM), desk.now).expect("a lane");
    assert!(agreed.moves.is_some(), "it moves, since the lane works");
    let (lane, _theirs) = shared::pair(8, false);
    let lane = NewLane { moves: agreed.moves, ..new(Boxed(Box::new(lane)), agreed.generation, NEAR.id) };
    desk.session.attach(pair, lane, desk.now);
    assert_eq!((desk.session.became(pair), desk.session.why_not_better(pair).as_str()), (Became::Moving, "ordered"));
}

#[test]
fn a_pair_returns_to_a_better_transport_now_and_then() {
    let mut desk = Desk::new();
    let (_, pair) = desk.open(GREAT, HERE);
    let _theirs = desk.lane(pair, 1, true);
    let mut tries = Vec::new();
    for second in 0..200 {
        desk.tick(1000);
        desk.session.watch_lingering(desk.now);
        for (attempt, place) in desk.dial(pair, &["a1"]) {
            assert_eq!(place.transport, NEAR.id);
            desk.fail(attempt, ErrorKind::ConnectionRefused);
            tries.push(second);
        }
    }
    let rests: Vec<u64> = tries.windows(2).map(|two| two[1] - two[0]).collect();
    assert!(
        (9..=11).contains(&tries[0]) && rests.iter().zip([20, 40, 80]).all(|(rest, least)| *rest >= least),
        "{tries:?}"
    );
    assert_eq!((tries.len(), desk.gone(pair)), (4, None));
}

// ---- large groups

/// The records of a large group, by rank.
fn large() -> wire::Contacts {
    (0..40).map(|rank| contact([100 + rank; 16], THERE)).collect::<Vec<_>>().into()
}

fn of_large(rank: u32) -> ProcId {
    ProcId { rank, ..GREAT }
}

fn rooted() -> RemoteGroup {
    let contacts = wire::ranges::rooted(&large(), 0, digest).expect("a leader");
    RemoteGroup { incarnation: GREAT.incarnation, cookie: COOKIE, contacts }
}

/// What tells a range of its records.
fn told(number: u32) -> Vec<u8> {
    let tree = Tree::over(&large(), digest);
    let mut body = vec![CONTROL, RANGE];
    body.extend(GREAT.incarnation.to_le_bytes());
    body.extend(number.to_le_bytes());
    Range::of(&large(), &tree, number).expect("a range").encode(&mut body);
    body
}

/// A process gets a lane of this generation, and says this as the word of this number.
fn says(desk: &mut Desk, remote: ProcId, (generation, number): (u16, u64), body: &[u8]) {
    let pair = desk.session.find_pair(ME, remote).expect("it is asked");
    let (ours, theirs) = pipe::pair(&mut Rng::new(1), 1 << 20);
    let mut theirs: Lanes = Box::new(StreamLane::new(theirs));
    let (lane, at) = (Boxed(Box::new(StreamLane::new(ours))), Some(place("a5")));
    let new = NewLane { lane, generation, received: 0, transport: FAR.id, at, dialled: true, moves: None };
    desk.session.attach(pair, new, desk.now);
    let (len, kind) = (body.len() as u32, Kind::Msg);
    let header = Header { len, kind, ack_now: false, generation, source: remote, dest: ME, a: number, b: 0 };
    assert_eq!(theirs.try_send(&VecMemory::default(), &header, Payload::Bytes(body)), Sent::Taken);
    for _ in 0..1000 {
        theirs.flush(&VecMemory::default());
        assert!(!desk.session.receive(pair).dead);
    }
    desk.session.settle();
}

#[test]
fn who_came_before_its_large_group_was_known_is_looked_at() {
    let mut desk = Desk::new();
    for (rank, process) in [(5, [105; 16]), (6, THEM)] {
        let (incoming, status) = desk.come(&Hello { process, ..hello(of_large(rank), 1) });
        assert_eq!(status, Some(Status::Good));
        let agreed = desk.session.incoming_ready(incoming).expect("a lane");
        drop(desk.lane(agreed.pair, 1, false));
    }
    assert!(!desk.session.acquaint(ME, &rooted()), "who they are is asked");
    says(&mut desk, GREAT, (1, 1), &told(0));
    assert!(desk.session.acquaint(ME, &rooted()));
    assert_eq!(desk.session.strangers(), 0);
    let of = |desk: &Desk, rank| {
        let pair = desk.session.pair(desk.session.find_pair(ME, of_large(rank)).expect("a pair"));
        (pair.lane().is_some(), pair.known_process())
    };
    assert_eq!(of(&desk, 5), (true, Some([105; 16])));
    assert_eq!(of(&desk, 6), (false, Some([106; 16])), "the liar is forgotten");
    desk.session.open(ME, &rooted(), ContextId::root(1));
    // One that comes now waits until its record is there.
    let (incoming, status) = desk.come(&Hello { process: [139; 16], ..hello(of_large(39), 1) });
    assert_eq!(status, None);
    desk.asked();
    let leader = desk.session.find_pair(ME, GREAT).expect("the leader");
    desk.session.lane_died(leader, desk.now);
    says(&mut desk, GREAT, (2, 2), &told(1));
    desk.tick(5);
    let asks = desk.asked().into_iter().find_map(|action| match action {
        Action::Ask { incoming: of, mute } if of == incoming => Some(mute),
        _ => None,
    });
    desk.session.incoming_stands(incoming, asks.expect("it is looked at again"), desk.now);
    assert_eq!(desk.answer_to(incoming), Some(Status::Good));
}

#[test]
fn a_range_that_does_not_lead_to_the_root_is_not_used() {
    for restored in [false, true] {
        let mut desk = Desk::new();
        let above = ProcId { rank: 1, ..ME };
        desk.session.set_directory(ME.incarnation, Directory::below(Some((1, contact(THEM, HERE)))));
        desk.session.open(ME, &rooted(), ContextId::root(1));
        let wanted = desk.session.find_pair(ME, of_large(33)).expect("a pair, without a record");
        desk.session.want(wanted);
        desk.tick(5);
        let mut bent = told(1);
        *bent.last_mut().expect("bytes") ^= 1;
        says(&mut desk, above, (1, 1), &bent);
        assert!(desk.session.pair(wanted).contact().is_none());
        if restored {
            desk.restore();
            desk.session.detach();
            let bytes = desk.session.freeze(desk.now);
            desk.read(&bytes);
            assert_eq!(desk.session.freeze(desk.now), bytes);
        }
        says(&mut desk, GREAT, (1, 1), &told(1));
        assert_eq!(desk.session.pair(wanted).contact(), Some(&contact([133; 16], THERE)));
    }
}
