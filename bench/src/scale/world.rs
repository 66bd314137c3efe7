//! Two jobs in one process: the session of each rank, as the library runs it, and the network between them, which is memory.
//!
//! Nothing is looked at that has nothing to do: lanes tell who has to read, sessions tell whom they dial, and time passes only
//! when both are still. So what is measured is what sessions do.

use crate::wire::{Post, Wire, lane};
use base::memory::VecMemory;
use base::{ProcId, Time};
use engine::{Config, Ctx, Engine, Mode, OpId, Outcome, Source, Tag};
use session::leaders::{Party, Turn, contacts};
use session::{
    Action, Agreed, AttemptId, Directory, IncomingId, InterId, NewLane, Own, PathRef, RemoteGroup, Session, TICK,
};
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::io::{Error, ErrorKind};
use std::rc::Rc;
use std::time::Duration;
use wire::hello::{HELLO_ACK_LEN, HELLO_LEN};
use wire::ranges::{above, rooted};
use wire::{About, Contact, Contacts, Hello, HelloAck, Place, Scope, TransportId};

/// As TCP is: it reaches all hosts.
const FAR: About =
    About { id: TransportId::registered(2), word: "far", title: "far", scope: Scope::Anywhere, limit: 10_000 };
/// So many ranks of a job share a host. No two jobs do.
const ON_HOST: u32 = 64;
/// What one rank says to another one.
const SIZE: u64 = 8;
/// So long after the last event nothing more is awaited.
const STILL: u64 = 30_000_000_000;

/// Of a job with more ranks than this, leaders tell the root over its contact records, as the library's do.
pub const MOST_TOLD: u32 = 1024;

/// The session of a rank.
pub type Rank = Session<Wire, VecMemory>;

/// A dial that waits for its turn.
struct Dialled {
    from: u32,
    attempt: AttemptId,
    place: Place,
    hello: Box<Hello>,
}

/// An operation of a rank, with what it is to say at its end.
pub struct Begun {
    pub rank: u32,
    pub other: u32,
    op: OpId,
    receives: bool,
}

pub struct World {
    /// How many ranks each of the two jobs has. The ranks of the second one follow those of the first.
    pub half: u32,
    /// `None`: it was killed.
    ranks: Vec<Option<Rank>>,
    contacts: [Contacts; 2],
    /// What the leader of each job tells the other one.
    offered: [Contacts; 2],
    inters: Vec<Option<InterId>>,
    pub post: Rc<Post>,
    /// HELLOs and their answers.
    pub handshakes: u64,
    dialled: VecDeque<Dialled>,
    /// Which of them are still wanted.
    wanted: HashSet<(u32, AttemptId)>,
    /// Connections whose HELLO was told and not answered.
    asked: HashMap<(u32, IncomingId), (u32, AttemptId)>,
    touched: VecDeque<u32>,
    timed: BTreeSet<u32>,
    now: Time,
}

fn me(half: u32, rank: u32) -> ProcId {
    ProcId { incarnation: 100 + u64::from(rank / half), rank: rank % half }
}

pub fn cookie(job: u32) -> [u8; 16] {
    [job as u8 + 1; 16]
}

/// As long as the library's, and cheaper.
fn digest(bytes: &[u8]) -> [u8; 16] {
    base::hash::fnv128(bytes).to_le_bytes()
}

fn process(rank: u32) -> [u8; 16] {
    // As unlike each other as hashes are.
    let mix = |n: u64| (n ^ (n >> 29)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let (first, second) = (mix(u64::from(rank) + 1), mix(u64::from(rank) + (1 << 40)));
    ((u128::from(mix(first)) << 64) | u128::from(mix(second))).to_le_bytes()
}

fn host(rank: u32) -> [u8; 16] {
    process((1 << 31) | (rank / ON_HOST))
}

/// Where a rank listens: as long as TCP's for one address of IPv4, the port last.
fn address(rank: u32) -> [u8; 7] {
    let [a, b, c, d] = (0x0a00_0000 + rank / ON_HOST).to_be_bytes();
    let [low, high] = (40_000 + (rank % ON_HOST) as u16).to_le_bytes();
    [4, a, b, c, d, low, high]
}

fn place(rank: u32) -> Place {
    Place { transport: FAR.id, address: address(rank).into(), host_part: 5, text: "".into() }
}

fn rank_at(address: &[u8]) -> u32 {
    let host = u32::from_be_bytes([address[1], address[2], address[3], address[4]]) - 0x0a00_0000;
    host * ON_HOST + u32::from(u16::from_le_bytes([address[5], address[6]]) - 40_000)
}

impl World {
    /// Both jobs, of ranks that know nothing but their own group.
    pub fn new(half: u32) -> World {
        World::with(half, MOST_TOLD)
    }

    /// As [`World::new`]. Of jobs with more ranks than `most_told` the root over their contact records is told.
    pub fn with(half: u32, most_told: u32) -> World {
        let own = |rank| Own {
            process: process(rank),
            host: host(rank),
            transports: vec![(FAR, Ok(()))],
            descriptors: 1024,
            digest,
        };
        let new = |rank| Some(Session::new(own(rank), Engine::new(Config::default()), VecMemory::default()));
        let ranks: Vec<Option<Rank>> = (0..2 * half).map(new).collect();
        let contacts = [0, 1].map(|job| {
            let contact = |rank| Contact::new(process(rank), host(rank), [(FAR.id, &address(rank)[..])]);
            Contacts::from((job * half..(job + 1) * half).map(contact).collect::<Vec<_>>())
        });
        let told = |whole: &Contacts| if half > most_told { rooted(whole, 0, digest) } else { None };
        let offered = [0, 1].map(|job| told(&contacts[job]).unwrap_or_else(|| contacts[job].clone()));
        World {
            half,
            offered,
            inters: vec![None; ranks.len()],
            ranks,
            contacts,
            post: Rc::default(),
            handshakes: 0,
            dialled: VecDeque::new(),
            wanted: HashSet::new(),
            asked: HashMap::new(),
            touched: VecDeque::new(),
            timed: BTreeSet::new(),
            now: Time(1),
        }
    }

    pub fn size(&self) -> u32 {
        2 * self.half
    }

    pub fn lives(&self, rank: u32) -> bool {
        self.ranks[rank as usize].is_some()
    }

    /// The contact records of a job.
    pub fn records(&self, job: usize) -> &Contacts {
        &self.contacts[job]
    }

    /// What its leader tells the other one: these, or the root over them.
    pub fn offered(&self, job: usize) -> &Contacts {
        &self.offered[job]
    }

    pub fn now(&self) -> Time {
        self.now
    }

    fn rank(&mut self, rank: u32) -> &mut Rank {
        self.ranks[rank as usize].as_mut().expect("it lives")
    }

    /// Something was done with a rank's session, which may now ask for something.
    pub fn act<R>(&mut self, rank: u32, f: impl FnOnce(&mut Rank, Time) -> R) -> R {
        let now = self.now;
        let done = f(self.rank(rank), now);
        self.rank(rank).settle();
        self.touched.push_back(rank);
        done
    }

    // ---- joining

    /// The group of a rank is registered.
    pub fn register(&mut self, rank: u32) {
        let (half, ProcId { incarnation, rank: its }) = (self.half, me(self.half, rank));
        let group = session::Group { incarnation, cookie: cookie(rank / half), rank: its, size: half };
        self.act(rank, |session, _| session.add_group(group));
    }

    /// The path from the leader of a job to that of the other one.
    pub fn lead(&mut self, job: u32) -> PathRef {
        let (ours, theirs) = (me(self.half, job * self.half), me(self.half, (1 - job) * self.half));
        let contact = self.contacts[1 - job as usize].get(0).expect("a leader");
        self.act(job * self.half, |session, _| session.open_control(ours, theirs, cookie(1 - job), &contact))
    }

    /// The leader of a job offers an inter-communicator to that of the other one.
    pub fn offer(&mut self, job: u32) -> PathRef {
        let path = self.lead(job);
        let party = Party {
            incarnation: me(self.half, job * self.half).incarnation,
            cookie: cookie(job),
            size: self.half,
            tag_ub: 1 << 20,
            representation: 1,
            registered: None,
            name: format!("job{job}"),
            wanted: format!("job{}", 1 - job),
            records: self.offered(job as usize).bytes().to_vec(),
        };
        self.act(job * self.half, |session, _| session.offer(path, job == 0, &party, None));
        path
    }

    /// The leaders agree. Returns the number of the context of the inter-communicator.
    pub fn agree(&mut self) -> Result<u64, String> {
        let paths = [0, 1].map(|job| self.offer(job));
        self.agree_over(paths)
    }

    /// The same, after both have offered.
    pub fn agree_over(&mut self, paths: [PathRef; 2]) -> Result<u64, String> {
        let mut agreed = [None, None];
        for _ in 0..100 {
            self.settle();
            for job in [0, 1] {
                let turn = self.act(job as u32 * self.half, |session, now| session.talk(paths[job], now));
                match turn {
                    Turn::Agreed(agreement) => agreed[job] = Some(agreement),
                    Turn::Waiting => {}
                    other => return Err(format!("the leaders do not agree: {other:?}")),
                }
            }
            if agreed.iter().all(Option::is_some) {
                break;
            }
        }
        let [Some(first), Some(second)] = agreed else { return Err("the leaders do not agree".into()) };
        for (job, agreement) in [(1, &first), (0, &second)] {
            let remote = &agreement.remote;
            let members = contacts(&remote.records, remote.size).map_err(|_| "damaged records")?;
            if members != *self.offered(job) {
                return Err("other records than were offered".into());
            }
        }
        Ok(first.context)
    }

    /// The inter-communicator is opened on a rank.
    pub fn open(&mut self, rank: u32, context: u64) {
        let (ours, other) = (me(self.half, rank), 1 - rank / self.half);
        let incarnation = me(self.half, other * self.half).incarnation;
        let remote = RemoteGroup { incarnation, cookie: cookie(other), contacts: self.offered[other as usize].clone() };
        if remote.contacts.root().is_some() {
            let own = self.records(1 - other as usize).clone();
            let directory = match above(ours.rank) {
                Some(above) => Directory::below(own.get(above).map(|contact| (above, contact))),
                None => Directory::of(own),
            };
            self.act(rank, |session, _| session.set_directory(ours.incarnation, directory));
        }
        let inter = self.act(rank, |session, _| session.open(ours, &remote, engine::ContextId::root(context)));
        self.inters[rank as usize] = Some(inter);
    }

    // ---- using it, and leaving

    /// A rank sends to another one, and posts a receive from it. Nothing if it is dead.
    pub fn exchange(&mut self, rank: u32, other: u32, begun: &mut Vec<Begun>) {
        let (Some(inter), true) = (self.inters[rank as usize], self.lives(rank)) else { return };
        let theirs = other % self.half;
        let ops = self.act(rank, |session, _| {
            let ctx: Ctx = session.ctx_with(inter, Source::Rank(theirs));
            let ops = [session.engine.next_op(), session.engine.next_op()];
            session.mem.0.insert(ops[0].0, vec![0; SIZE as usize]);
            session.mem.0.insert(ops[1].0, u64::from(rank).to_le_bytes().to_vec());
            session.engine.recv(&mut session.mem, ops[0], ctx, Source::Rank(theirs), Tag::Is(1), SIZE);
            session.engine.send(&session.mem, ops[1], ctx, theirs, 1, SIZE, Mode::Standard);
            ops
        });
        begun.extend([(ops[0], true), (ops[1], false)].map(|(op, receives)| Begun { rank, other, op, receives }));
    }

    /// How an operation has ended: well, or since the other rank is dead. `Err`: not so.
    pub fn end(&mut self, begun: &Begun) -> Result<bool, String> {
        let Some(session) = self.ranks[begun.rank as usize].as_mut() else { return Ok(false) };
        let outcome = session.engine.finish(begun.op);
        let data = session.mem.0.remove(&begun.op.0);
        let is_right = || data.as_deref() == Some(&u64::from(begun.other).to_le_bytes()[..]);
        match outcome {
            Some(Outcome::Sent) if !begun.receives => Ok(true),
            Some(Outcome::Received(_)) if begun.receives && is_right() => Ok(true),
            Some(Outcome::Failed(engine::Fault::PeerDead)) if !self.lives(begun.other) => Ok(false),
            other => Err(format!("rank {} and rank {}: {other:?}, {}", begun.rank, begun.other, begun.receives)),
        }
    }

    /// A rank is killed: its kernel closes its connections.
    pub fn kill(&mut self, rank: u32) {
        self.ranks[rank as usize] = None;
        self.timed.remove(&rank);
    }

    /// A rank leaves: its inter-communicator is closed, and its group removed.
    pub fn leave(&mut self, rank: u32) {
        if let (Some(inter), true) = (self.inters[rank as usize].take(), self.lives(rank)) {
            let incarnation = me(self.half, rank).incarnation;
            self.act(rank, |session, _| {
                session.close(inter);
                session.remove_group(incarnation);
            });
        }
    }

    /// All ranks of a job are at their end: none asks another one for records any more.
    pub fn finish(&mut self, rank: u32) {
        if self.lives(rank) {
            self.act(rank, |session, _| session.end_directories());
        }
    }

    /// How many lanes a rank has.
    pub fn lanes(&self, rank: u32) -> usize {
        let lanes = |session: &Rank| session.pairs().filter(|(_, pair)| pair.lane().is_some()).count();
        self.ranks[rank as usize].as_ref().map_or(0, lanes)
    }

    /// How many pairs a rank has.
    pub fn pairs(&self, rank: u32) -> usize {
        self.ranks[rank as usize].as_ref().map_or(0, Rank::pairs_in_use)
    }

    // ---- what happens

    /// Goes on until nothing has anything more to do.
    pub fn settle(&mut self) {
        self.settle_within(Duration::MAX);
    }

    /// The same, for so much time at most.
    pub fn settle_within(&mut self, limit: Duration) {
        let (begun, mut last) = (self.now, self.now);
        while self.now.since(begun) < limit {
            if self.step() {
                last = self.now;
            } else if self.timed.is_empty() || self.now.since(last).as_nanos() as u64 > STILL {
                return;
            } else {
                self.now = self.now + TICK;
                for rank in std::mem::take(&mut self.timed) {
                    self.act(rank, |session, now| {
                        session.tick(now);
                        session.leave_all();
                    });
                    self.turn_all();
                }
            }
        }
    }

    /// Whether something happened.
    fn step(&mut self) -> bool {
        self.turn_all();
        let ready = self.post.ready.borrow_mut().pop_front();
        if let Some((rank, pair)) = ready {
            if self.lives(rank) {
                self.act(rank, |session, now| {
                    if session.receive(pair as usize).dead {
                        session.lane_died(pair as usize, now);
                    }
                    session.leave_all();
                });
            }
            return true;
        }
        let Some(dialled) = self.dialled.pop_front() else { return false };
        self.connect(dialled);
        true
    }

    fn turn_all(&mut self) {
        while let Some(rank) = self.touched.pop_front() {
            if self.lives(rank) {
                self.turn(rank);
            }
        }
    }

    /// Carries out what a session asks for.
    fn turn(&mut self, rank: u32) {
        let now = self.now;
        loop {
            let session = self.rank(rank);
            if session.is_timed() {
                session.tick(now);
            }
            let Some(action) = session.next_action() else { break };
            match action {
                Action::Resolve { pair, transport, entry, .. } => {
                    let to = Place { address: entry.into(), ..place(rank) };
                    session.places(pair, transport, vec![to], now);
                }
                Action::Dial { attempt, place, hello, .. } => {
                    self.wanted.insert((rank, attempt));
                    self.dialled.push_back(Dialled { from: rank, attempt, place, hello });
                }
                Action::Abandon { attempt } => drop(self.wanted.remove(&(rank, attempt))),
                Action::Answer { incoming, pair, ack } => self.answer(rank, incoming, pair, &ack),
                Action::Refuse { incoming, ack } => {
                    if let Some((from, attempt)) = self.asked.remove(&(rank, incoming)) {
                        self.handshakes += 1;
                        self.act(from, |session, now| session.dial_answered(attempt, &ack, now));
                    }
                }
                Action::Dismiss { incoming } => {
                    if let Some((from, attempt)) = self.asked.remove(&(rank, incoming)) {
                        self.act(from, |session, now| {
                            session.dial_failed(attempt, &Error::from(ErrorKind::UnexpectedEof), now);
                        });
                    }
                }
                Action::Ask { incoming, mute } => session.incoming_stands(incoming, mute, now),
                Action::Probe { probe, seen, .. } => {
                    let through = self.lives(rank_at(&seen.address)).then_some(seen);
                    self.rank(rank).probed(probe, through);
                }
                Action::Died { pair } => session.lane_died(pair, now),
                // A lane that is dropped is closed by that; the rest needs nothing here.
                _ => (),
            }
        }
        if self.rank(rank).is_timed() {
            self.timed.insert(rank);
        }
    }

    /// A dial comes to where it is meant for.
    fn connect(&mut self, Dialled { from, attempt, place: at, hello }: Dialled) {
        let to = rank_at(&at.address);
        if !self.wanted.remove(&(from, attempt)) || !self.lives(from) {
            return;
        }
        if !self.lives(to) {
            return self.act(from, |session, now| {
                session.dial_failed(attempt, &Error::from(ErrorKind::ConnectionRefused), now);
            });
        }
        self.handshakes += 1;
        self.act(from, |session, now| session.dial_greeted(attempt, true, now));
        let incoming = self.act(to, |session, now| {
            let incoming = session.arrived_from(now, Some(&place(from)));
            session.incoming_answered(incoming);
            incoming
        });
        self.asked.insert((to, incoming), (from, attempt));
        self.act(to, |session, now| session.hello(incoming, &hello, now));
    }

    /// A HELLO is answered well: both sides get their ends.
    fn answer(&mut self, to: u32, incoming: IncomingId, pair: usize, ack: &HelloAck) {
        let Some((from, attempt)) = self.asked.remove(&(to, incoming)) else { return };
        self.handshakes += 1;
        let theirs = self.rank(to).incoming_ready(incoming);
        let ours = self.lives(from).then(|| self.act(from, |session, now| session.dial_answered(attempt, ack, now)));
        let ours: Option<Agreed> = ours.flatten();
        let [near, far] = lane(&self.post, [(from, ours.map_or(0, |agreed| agreed.pair as u32)), (to, pair as u32)]);
        for (rank, other, agreed, lane, dialled) in [(to, from, theirs, far, false), (from, to, ours, near, true)] {
            let Some(Agreed { pair, generation, received, moves }) = agreed else { continue };
            let at = Some(place(other));
            let new = NewLane { lane, generation, received, transport: FAR.id, at, dialled, moves };
            self.act(rank, |session, now| session.attach(pair, new, now));
        }
    }
}

/// Bytes of all HELLOs and answers, half of each.
pub fn handshake_bytes(handshakes: u64) -> u64 {
    handshakes * (HELLO_LEN + HELLO_ACK_LEN) as u64 / 2
}
