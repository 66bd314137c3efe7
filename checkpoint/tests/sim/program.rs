//! The program of a process: what it sends depends on all that it has found, and what it has got in all does not.
//!
//! A message has the sender's number, a hash of all that it has found, and that of its last message to the same receiver. So a
//! receiver sees whether a sender that was restarted has found something else than what it had told of.

use crate::plan::{Act, HEAD, How, LAG, Plan, View, Way};
use crate::plant::Plant;
use crate::rng::{Rng, hash, mix};
use crate::side::Side;
use checkpoint::{Call, Next, Process};
use engine::{Ctx, Envelope, Mode, OpId, Outcome, Probe, Source, Tag};
use std::collections::{BTreeMap, VecDeque};

/// Messages that are remembered of each link, to see whether one was overtaken.
const REMEMBERED: usize = 12;

/// The messages to and from one process in one inter-communicator.
#[derive(Clone, Debug, Default)]
struct Link {
    /// The number in the last message to it.
    told: u64,
    /// So many came in their order, and the number in the last of them.
    heard: u32,
    last: u64,
    /// Those that were found before older ones.
    ahead: BTreeMap<u32, (u64, u64)>,
    /// The last receives: the place in the order of posting, the tag, and the message.
    order: VecDeque<(u64, i64, u32)>,
}

/// A receive that is pending.
#[derive(Clone, Debug)]
struct Posted {
    view: usize,
    source: Option<u32>,
    tag: Option<i64>,
    place: u64,
}

/// What a program writes at a checkpoint.
#[derive(Clone, Debug, Default)]
pub struct State {
    pub step: u32,
    found: u64,
    links: Vec<Link>,
    posted: Vec<Posted>,
    /// Receives that were posted, in all.
    places: u64,
    pub received: u64,
    pub sum: u64,
}

/// Where a call of several parts is.
#[derive(Clone, Debug)]
enum Part {
    Begin,
    /// The receive of this place is waited for.
    Await(u64),
    /// A message was probed from here.
    Probed(usize, u32, i64),
    /// The receive of a matched message.
    Matched(usize, OpId, u64),
}

pub struct Program {
    pub state: State,
    views: Vec<View>,
    script: Vec<Act>,
    at: usize,
    part: Part,
    ctxs: Vec<Ctx>,
    /// The pending receives.
    ops: Vec<OpId>,
    sends: Vec<OpId>,
    /// The last send of this step, unless it was seen to be over. `None` in it: it was over at once.
    last_send: Option<Option<OpId>>,
    /// What a call has found, and not told yet.
    untold: Option<(Call, Option<Vec<u32>>)>,
    who: (usize, u32),
}

/// What came of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    Waits,
    Goes,
    /// A step is over.
    Step,
}

/// Messages of the own job, by the MPI below: from and to.
pub type Native = BTreeMap<(u32, u32), VecDeque<u64>>;

/// What a program works with.
pub struct World<'a> {
    pub plan: &'a Plan,
    pub side: &'a mut Side,
    pub process: &'a mut Process<Ctx>,
    pub native: &'a mut Native,
    pub rng: &'a mut Rng,
    pub plant: Plant,
}

impl Program {
    /// A program that goes on from a state, over these inter-communicators.
    pub fn new(plan: &Plan, who: (usize, u32), state: Option<State>, ctxs: Vec<Ctx>, side: &mut Side) -> Program {
        let views = plan.views(who.0, who.1);
        let links = views.last().map_or(0, |last| last.first + last.members.len());
        let first = || State { links: vec![Link::default(); links], ..State::default() };
        let mut program = Program {
            state: state.unwrap_or_else(first),
            views,
            script: Vec::new(),
            at: 0,
            part: Part::Begin,
            ctxs,
            ops: Vec::new(),
            sends: Vec::new(),
            last_send: None,
            untold: None,
            who,
        };
        let posted = program.state.posted.clone();
        program.ops = posted.iter().map(|posted| program.post(side, posted)).collect();
        program.begin_step(plan);
        program
    }

    fn begin_step(&mut self, plan: &Plan) {
        self.script = plan.script(self.who.0, self.who.1, &self.views, self.state.step);
        self.at = 0;
        self.last_send = None;
    }

    pub fn is_over(&self, plan: &Plan) -> bool {
        self.state.step == plan.steps + LAG
    }

    /// Whether all sends are over.
    pub fn has_sent(&mut self, side: &mut Side) -> bool {
        self.sends.retain(|op| {
            let done = side.engine.finish(*op).is_some();
            if done {
                side.mem.0.remove(&op.0);
            }
            !done
        });
        self.sends.is_empty()
    }

    pub fn where_it_is(&self) -> String {
        let act = self.script.get(self.at);
        format!("step {} act {} {act:?} {:?} pending {:?}", self.state.step, self.at, self.part, self.state.posted)
    }

    /// The last numbers, sent and received, of each link.
    pub fn ends(&self) -> impl Iterator<Item = (usize, u32, u64, u64, u32)> {
        self.views.iter().flat_map(move |view| {
            (0..view.members.len()).map(move |to| {
                let link = &self.state.links[view.first + to];
                (view.inter, view.members[to], link.told, link.last, link.heard)
            })
        })
    }

    fn find(&mut self, what: u64) {
        self.state.found = mix(self.state.found, what);
    }

    fn post(&self, side: &mut Side, posted: &Posted) -> OpId {
        let source = posted.source.map_or(Source::Any, Source::Rank);
        side.receive(self.ctxs[posted.view], source, posted.tag.map_or(Tag::Any, Tag::Is), 1024)
    }

    fn begin_receive(&mut self, side: &mut Side, view: usize, source: Option<u32>, tag: Option<i64>) -> u64 {
        let place = self.state.places;
        self.state.places += 1;
        let posted = Posted { view, source, tag, place };
        self.ops.push(self.post(side, &posted));
        self.state.posted.push(posted);
        place
    }

    /// Has a call tell what it has found, now or a little later.
    fn note(&mut self, world: &mut World, call: Call, found: Option<&[u32]>) -> Result<(), String> {
        self.untold = Some((call, found.map(<[u32]>::to_vec)));
        if world.rng.one_in(4) { Ok(()) } else { self.tell(world) }
    }

    fn tell(&mut self, world: &mut World) -> Result<(), String> {
        let Some((call, found)) = self.untold.take() else { return Ok(()) };
        let was_replaying = world.process.is_replaying();
        world.side.seen.calls += u64::from(world.process.next_outcome(call) != Next::Free);
        world.process.note(world.side, call, found.as_deref());
        if was_replaying && !world.process.is_replaying() {
            return Err(format!("astray: it does not do again what it did, at MPI_{call:?}"));
        }
        Ok(())
    }

    /// Makes a turn, if it can be made now.
    pub fn turn(&mut self, world: &mut World) -> Result<Turn, String> {
        if self.untold.is_some() {
            self.tell(world)?;
            return Ok(Turn::Goes);
        }
        let Some(act) = self.script.get(self.at).copied() else { return Ok(Turn::Waits) };
        let is_done = match act {
            Act::Send { view, to } => self.send(world, view, to),
            Act::TestSend => self.test_send(world)?,
            Act::Receive { view, source, tag, how } => self.receive(world, view, source, tag, how)?,
            Act::Peek { view } => self.peek(world, view)?,
            Act::Complete(_) if self.ops.is_empty() => true,
            Act::Complete(way) => self.complete(world, way)?,
            Act::Drain(left) if self.ops.len() <= left => true,
            Act::Drain(left) => {
                let way = [Way::Wait, Way::Waitany, Way::Waitsome, Way::Testany, Way::Testsome]
                    [self.state.found as usize % 5];
                let way = if left > 0 && way == Way::Waitsome { Way::Waitany } else { way };
                return Ok(if self.complete(world, way)? { Turn::Goes } else { Turn::Waits });
            }
            Act::Tell(to) => {
                world.native.entry((self.who.1, to)).or_default().push_back(self.state.found);
                true
            }
            Act::Hear(from) => match world.native.get_mut(&(from, self.who.1)).and_then(VecDeque::pop_front) {
                None => false,
                Some(found) => {
                    self.find(found);
                    true
                }
            },
        };
        if !is_done {
            return Ok(Turn::Waits);
        }
        if matches!(self.part, Part::Begin) {
            self.at += 1;
        }
        if self.at < self.script.len() {
            return Ok(Turn::Goes);
        }
        self.tell(world)?;
        self.state.step += 1;
        self.begin_step(world.plan);
        Ok(Turn::Step)
    }

    fn send(&mut self, world: &mut World, view: usize, to: u32) -> bool {
        let of = &self.views[view];
        let step = self.state.step;
        let kind = world.plan.kind(of.inter, self.who.0, of.rank, to, step);
        let link = &mut self.state.links[of.first + to as usize];
        let number = hash(&[self.state.found, of.inter as u64, u64::from(to)]);
        let mut data = Vec::with_capacity(kind.len);
        for word in [u64::from(step), number, link.told, content(world.plan, of.inter, self.who.0, of.rank, to, step)] {
            data.extend_from_slice(&word.to_le_bytes());
        }
        data.resize(kind.len, step as u8);
        link.told = number;
        let mode = if kind.sync { Mode::Synchronous } else { Mode::Standard };
        let op = world.side.send(self.ctxs[view], to, kind.tag, data, mode);
        // As the library does: what completes a send in standard mode need not come again.
        let at_once = world.process.is_replaying() && !kind.sync && world.plant != Plant::SendsWait;
        self.last_send = Some((!at_once).then_some(op));
        if at_once {
            world.side.forget(op);
        } else {
            self.sends.push(op);
        }
        true
    }

    fn test_send(&mut self, world: &mut World) -> Result<bool, String> {
        let Some(op) = self.last_send else { return Ok(true) };
        let is_over = op.is_none_or(|op| world.side.engine.outcome(op).is_some());
        let found = match world.process.next_outcome(Call::Test) {
            Next::Nothing => false,
            Next::Found(_) if !is_over => return Ok(false),
            Next::Found(_) => true,
            Next::Free => is_over,
        };
        self.find(2 + u64::from(found));
        if found {
            self.last_send = None;
        }
        self.note(world, Call::Test, found.then_some(&[]))?;
        Ok(true)
    }

    fn receive(
        &mut self,
        world: &mut World,
        view: usize,
        source: Option<u32>,
        tag: Option<i64>,
        how: How,
    ) -> Result<bool, String> {
        match (self.part.clone(), how) {
            (Part::Begin, How::Post) => drop(self.begin_receive(world.side, view, source, tag)),
            (Part::Begin, How::Recv) => {
                self.part = Part::Await(self.begin_receive(world.side, view, source, tag));
            }
            (Part::Begin, _) => {
                let call = match how {
                    How::Probe => Call::Probe,
                    How::Iprobe => Call::Iprobe,
                    How::Mprobe => Call::Mprobe,
                    _ => Call::Improbe,
                };
                let waits = matches!(how, How::Probe | How::Mprobe);
                let Some(found) = self.probe(world, call, waits, view, tag) else { return Ok(false) };
                let Some(found) = found else {
                    self.find(0);
                    self.note(world, call, None)?;
                    return Ok(false);
                };
                self.find(u64::from(found.source));
                self.part = Part::Probed(view, found.source, found.tag);
                if matches!(how, How::Mprobe | How::Improbe) {
                    let claim =
                        world.side.engine.claim(self.ctxs[view], Source::Rank(found.source), Tag::Is(found.tag));
                    let op = world.side.engine.next_op();
                    world.side.mem.0.insert(op.0, vec![0; 1024]);
                    let claim = claim.ok_or("a probed message is gone")?;
                    world.side.engine.recv_claimed(&mut world.side.mem, op, claim, 1024);
                    self.part = Part::Matched(view, op, self.state.places);
                    self.state.places += 1;
                }
                self.note(world, call, Some(&[found.source]))?;
            }
            (Part::Probed(view, source, tag), _) => {
                self.part = Part::Await(self.begin_receive(world.side, view, Some(source), Some(tag)));
            }
            (Part::Await(place), _) => {
                let at = self.state.posted.iter().position(|posted| posted.place == place).expect("it is pending");
                if world.side.engine.outcome(self.ops[at]).is_none() {
                    return Ok(false);
                }
                self.end(world, at)?;
                self.part = Part::Begin;
            }
            (Part::Matched(view, op, place), _) => {
                if world.side.engine.outcome(op).is_none() {
                    return Ok(false);
                }
                self.take(world, view, op, place)?;
                self.part = Part::Begin;
            }
        }
        Ok(true)
    }

    /// Looks for a message from any source, as before a restart if it was done then. `None`: it waits. `Some(None)`: none.
    fn probe(
        &self,
        world: &mut World,
        call: Call,
        waits: bool,
        view: usize,
        tag: Option<i64>,
    ) -> Option<Option<Envelope>> {
        let (source, must) = match world.process.next_outcome(call) {
            Next::Nothing => return Some(None),
            Next::Found(from) => (from.first().map_or(Source::Any, |from| Source::Rank(*from)), true),
            Next::Free => (Source::Any, false),
        };
        match world.side.engine.probe(self.ctxs[view], source, tag.map_or(Tag::Any, Tag::Is)) {
            Probe::Found(envelope) => Some(Some(envelope)),
            _ if waits || must => None,
            _ => Some(None),
        }
    }

    fn peek(&mut self, world: &mut World, view: usize) -> Result<bool, String> {
        let Some(found) = self.probe(world, Call::Iprobe, false, view, None) else { return Ok(false) };
        self.find(found.map_or(99, |found| u64::from(found.source)));
        let source = found.map(|found| [found.source]);
        self.note(world, Call::Iprobe, source.as_ref().map(|source| &source[..]))?;
        Ok(true)
    }

    /// Looks at the pending receives.
    fn complete(&mut self, world: &mut World, way: Way) -> Result<bool, String> {
        let ready: Vec<usize> =
            (0..self.ops.len()).filter(|at| world.side.engine.outcome(self.ops[*at]).is_some()).collect();
        let call = match way {
            Way::Wait => {
                let is_ready = ready.first() == Some(&0);
                if is_ready {
                    self.end(world, 0)?;
                }
                return Ok(is_ready);
            }
            Way::Test => Call::Test,
            Way::Testany => Call::Testany,
            Way::Testsome => Call::Testsome,
            Way::Testall => Call::Testall,
            Way::Waitany => Call::Waitany,
            Way::Waitsome => Call::Waitsome,
            Way::Status => Call::Status,
        };
        // Of which request a test asks depends on what was found before.
        let one = self.state.found as usize % self.ops.len();
        let all: Vec<usize> = (0..self.ops.len()).collect();
        let free = match way {
            Way::Test | Way::Status => ready.contains(&one).then(|| vec![one]),
            Way::Testall => (ready.len() == all.len()).then(|| all.clone()),
            Way::Testany | Way::Waitany => (!ready.is_empty()).then(|| vec![world.rng.pick(&ready)]),
            _ => {
                let mut some = ready.clone();
                some.retain(|_| some_of(world.rng, ready.len()));
                Some(if some.is_empty() { ready.clone() } else { some }).filter(|some| !some.is_empty())
            }
        };
        let waits = matches!(way, Way::Waitany | Way::Waitsome);
        let found = match world.process.next_outcome(call) {
            Next::Nothing => None,
            Next::Found(which) => {
                let which: Vec<usize> = match way {
                    Way::Test | Way::Status => vec![one],
                    Way::Testall => all,
                    _ => which.iter().map(|at| *at as usize).collect(),
                };
                if let Some(at) = which.iter().find(|at| **at >= self.ops.len()) {
                    // As the library does: behind what must be done again the program may be elsewhere.
                    let why = format!("request {at} of {} was found by MPI_{call:?}", self.ops.len());
                    let may = world.process.stop_replay(world.side, &why);
                    return if may { Ok(false) } else { Err(format!("astray: {why}")) };
                }
                if which.iter().any(|at| !ready.contains(at)) {
                    return Ok(false);
                }
                Some(which)
            }
            Next::Free if waits && free.is_none() => return Ok(false),
            Next::Free => free,
        };
        self.find(found.as_ref().map_or(1, |found| 100 + found.len() as u64));
        let indices: Option<Vec<u32>> = found.as_ref().map(|found| found.iter().map(|at| *at as u32).collect());
        if way != Way::Status {
            let mut found = found.unwrap_or_default();
            found.iter().for_each(|at| self.find(*at as u64));
            // In the order of the indices, each of which counts those before that were pending too.
            found.sort_unstable();
            for (ended, at) in found.into_iter().enumerate() {
                self.end(world, at - ended)?;
            }
        }
        let plain = matches!(way, Way::Test | Way::Testall | Way::Status);
        let noted = indices.as_ref().map(|indices| if plain { &[][..] } else { &indices[..] });
        self.note(world, call, noted)?;
        Ok(true)
    }

    /// A pending receive is over.
    fn end(&mut self, world: &mut World, at: usize) -> Result<(), String> {
        let Posted { view, place, .. } = self.state.posted.remove(at);
        let op = self.ops.remove(at);
        self.take(world, view, op, place)
    }

    /// Takes a message, and looks whether it is one that is to come now.
    fn take(&mut self, world: &mut World, view: usize, op: OpId, place: u64) -> Result<(), String> {
        let outcome = world.side.engine.finish(op);
        let data = world.side.mem.0.remove(&op.0).unwrap_or_default();
        let Some(Outcome::Received(Envelope { source, tag, size })) = outcome else {
            return Err(format!("{outcome:?}"));
        };
        let of = &self.views[view];
        let word = |at: usize| u64::from_le_bytes(data[8 * at..8 * at + 8].try_into().expect("eight bytes"));
        let (step, number, before) = (word(0) as u32, word(1), word(2));
        let kind = world.plan.kind(of.inter, of.job, source, of.rank, step);
        let told = format!("{:?}, from {source} of inter {}, message {step}", self.who, of.inter);
        let want = content(world.plan, of.inter, of.job, source, of.rank, step);
        if (kind.tag, kind.len as u64, want) != (tag, size, word(3))
            || data[HEAD..kind.len].iter().any(|b| *b != step as u8)
        {
            return Err(format!("{told}: it is another message"));
        }
        let link = &mut self.state.links[of.first + source as usize];
        if step < link.heard || link.ahead.insert(step, (number, before)).is_some() {
            return Err(format!("{told}: it has come twice"));
        }
        for (other, its_tag, its_step) in &link.order {
            if *its_tag == tag && (*other < place) != (*its_step < step) {
                return Err(format!("{told}: overtaken by {its_step}"));
            }
        }
        link.order.push_back((place, tag, step));
        if link.order.len() > REMEMBERED {
            link.order.pop_front();
        }
        while let Some((number, before)) = link.ahead.remove(&link.heard) {
            if before != link.last {
                return Err(format!("{told}: its sender has found something else before message {}", link.heard));
            }
            (link.last, link.heard) = (number, link.heard + 1);
        }
        self.state.sum = self.state.sum.wrapping_add(want);
        self.state.received += 1;
        self.find(number ^ u64::from(source));
        Ok(())
    }
}

fn some_of(rng: &mut Rng, all: usize) -> bool {
    !rng.one_in(all as u64 + 1)
}

/// What a message has that does not depend on what was found.
pub fn content(plan: &Plan, inter: usize, from_job: usize, from: u32, to: u32, step: u32) -> u64 {
    hash(&[plan.seed, 9, inter as u64, from_job as u64, u64::from(from), u64::from(to), u64::from(step)])
}
