//! A few processes, the network between them, and what goes wrong. One seed makes one run.

use crate::lanes::SimLane;
use crate::leaders::Leaders;
use crate::network::{Connection, NOBODY, Network, Stage, number};
use crate::proc::{Proc, cookie};
use crate::program::{CONTEXTS, Program};
use base::memory::VecMemory;
use base::{ProcId, Time};
use engine::{Config, Gone, PeerId};
use session::path::Limits;
use session::{Action, AttemptId, Hold, NewLane, Ordered, Pair, Session, SnapshotError};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::rc::Rc;
use transports::sim::Rng;
use wire::lane::Lane;
use wire::{Hello, Status};

/// Far more than a run that ends needs.
const MOST_STEPS: u64 = 6_000_000;
/// After this many steps without progress, receives that took each other's messages are loosened.
const STUCK: u64 = 12_000;
/// How many runs of a hundred have leaders that negotiate.
const LED: u64 = 25;
/// How many milliseconds the others go on after a death: longer than a process may be silent that has closed its
/// connection.
const AFTERLIFE: u64 = 100_000;

/// How often each thing has happened in a run, or in all runs. It is one list of counters, so that a test can ask that
/// each of them is reached.
macro_rules! figures {
    ($($name:ident)*) => {
        #[derive(Clone, Copy, Debug, Default)]
        pub struct Figures {
            $(pub $name: u64,)*
        }

        impl Figures {
            pub fn add(&mut self, f: Figures) {
                $(self.$name += f.$name;)*
            }

            pub fn all(&self) -> Vec<u64> {
                vec![$(self.$name),*]
            }
        }
    };
}

figures! {
    seeds messages dials refused never_answered half_open simultaneous firewalls strangers crowds
    cuts dark swaps ordered moved stopped held absent closed snapshots lost doubled repeated deaths
    heirs pulls failed_pulls puts failed_puts joined met_at_port timed_out gone orphans called_back chilled led
}

/// The fault that a test has planted.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Fault {
    None,
    Order,
    Match,
    Loss,
    Duplicate,
    /// One of the session.
    Session(session::Plant),
    /// A restored session lacks a value.
    Forgotten(session::Forgotten),
    /// As before, and it is not compared with its snapshot.
    Missed(session::Forgotten),
}

/// One run: the processes, the network between them, and what is still to go wrong.
pub struct World {
    rng: Rng,
    net: Network,
    procs: Vec<Proc>,
    program: Program,
    rank: Vec<u32>,
    pairs: Vec<(usize, usize)>,
    figures: Figures,
    /// How much may still go wrong.
    trouble: u64,
    /// Who dies at which step.
    doom: Option<(usize, u64)>,
    /// The step at which all go on from a snapshot, whatever else happens.
    frost: u64,
    /// Who is dead, and since when.
    dead: Option<(usize, u64)>,
    /// Another process listens where the dead one did.
    heir: Option<Session<SimLane, VecMemory>>,
    leaders: Leaders,
    /// Decides what leaders do.
    whim: Rng,
    /// An operator that orders moves all the time.
    operator: Option<Rng>,
    /// The process that is held, until when, and whether it is gone meanwhile, as one that is frozen and restored.
    held: Option<(usize, u64, bool)>,
    /// The process that is stopped, and until when: its host takes what comes, and nothing answers.
    stopped: Option<(usize, u64)>,
    /// After which step of leaders a process is frozen, whatever else happens.
    snap: Option<u64>,
    /// How often a process may still be frozen right after a step of a leader.
    chill: u64,
    /// The processes that were connected to the dead one and must notice. A process that never reached its host cannot.
    bereaved: Vec<usize>,
}

impl World {
    pub fn new(seed: u64, fault: Fault) -> World {
        let mut rng = Rng::new(seed);
        let n = 2 + rng.below(2) as usize;
        let first_alone = rng.percent(50);
        let group: Vec<usize> =
            (0..n).map(|i| if first_alone { usize::from(i > 0) } else { usize::from(i == n - 1) }).collect();
        let rank: Vec<u32> = (0..n).map(|i| group[..i].iter().filter(|g| **g == group[i]).count() as u32).collect();
        let ids: Vec<ProcId> = (0..n).map(|i| ProcId { incarnation: 100 + group[i] as u64, rank: rank[i] }).collect();
        let largest = 20 + rng.below(2000);
        let cfg = Config {
            eager_max: [0, 16, 64, 300][rng.below(4) as usize],
            long_eager_max: [16, 300][rng.below(2) as usize],
            envelopes: 1 + rng.below(8),
            eager_bytes: rng.below(1000),
            extra_envelopes: 1 + rng.below(4),
            chunk: 40 + rng.below(300),
            beginning: [1, 30, 300][rng.below(3) as usize],
            plant: match fault {
                Fault::Order => engine::Plant::Order,
                Fault::Match => engine::Plant::Match,
                _ => engine::Plant::None,
            },
        };
        let limits = Limits {
            retained_bytes: 100 + rng.below(4000) as usize,
            retained_frames: 2 + rng.below(20) as usize,
            bulk_queue: 1 + rng.below(3) as usize,
            held_bytes: 64 << 10,
            held_frames: 1000,
            resend_after: 20,
            plant: match fault {
                Fault::Loss => session::path::Plant::Loss,
                Fault::Duplicate => session::path::Plant::Duplicate,
                _ => session::path::Plant::None,
            },
        };
        let program = Program::random(&mut rng, &group, &rank, largest);
        let others = |i: usize| (0..n).filter(|&j| group[j] != group[i]).collect::<Vec<_>>();
        let hosts: Vec<u8> = (0..n).map(|_| rng.below(2) as u8).collect();
        let firewall = rng.percent(30).then(|| {
            let from = rng.below(2) as u8;
            (from, 1 - from, rng.percent(50))
        });
        let mut net = Network {
            absent: None,
            closed: None,
            rng: rng.fork(),
            clock: Rc::new(Cell::new(1)),
            injected: Rc::default(),
            hosts,
            owners: ids.iter().copied().zip(0..).collect(),
            lives: vec![0; n],
            firewall,
            connections: Vec::new(),
            cables: Vec::new(),
            dark: Vec::new(),
            half_open: Vec::new(),
            hung_up: Vec::new(),
            at_once: if seed.is_multiple_of(2) { 64 } else { 0 },
            descriptors: if rng.percent(20) { 24 } else { 1024 },
            trouble: rng.below(12),
            lossy: rng.percent(60),
        };
        let mut procs: Vec<Proc> = (0..n).map(|i| Proc::new(i, cfg.clone(), &limits, &ids, &others(i), &net)).collect();
        if let Fault::Session(plant) = fault {
            for p in &mut procs {
                p.session.plant(plant);
                p.plant = plant;
            }
        }
        for p in &mut procs {
            if let Fault::Forgotten(what) | Fault::Missed(what) = fault {
                p.forgets = Some(what);
            }
            p.is_lenient = matches!(fault, Fault::Missed(_));
        }
        let pairs: Vec<_> =
            (0..n).flat_map(|i| (i + 1..n).map(move |j| (i, j))).filter(|&(i, j)| group[i] != group[j]).collect();
        let trouble = rng.below(12);
        let doom = rng.percent(12).then(|| (rng.below(n as u64) as usize, 200 + rng.below(6000)));
        let frost = 50 + rng.below(1500);
        // Beside the rest, so that the runs without leaders stay what they were.
        let mut whim = Rng::new(seed ^ 0x6c65_6164);
        let leaders = match whim.percent(LED) {
            true => Leaders::random(&mut whim, &ids, &mut net, doom.is_some()),
            false => Leaders::default(),
        };
        let chill = whim.below(4);
        let mut operator = Rng::new(seed ^ 0x6d6f_7665);
        let operator = operator.percent(15).then_some(operator);
        let figures = Figures { firewalls: u64::from(net.firewall.is_some()), ..Figures::default() };
        World {
            rng,
            net,
            procs,
            program,
            rank,
            pairs,
            figures,
            trouble,
            doom,
            frost,
            dead: None,
            heir: None,
            leaders,
            whim,
            operator,
            held: None,
            stopped: None,
            snap: None,
            chill,
            bereaved: Vec::new(),
        }
    }

    /// The time by the clock of a process.
    fn now(&self, process: usize) -> Time {
        self.procs[process].now(&self.net)
    }

    /// The same run, in which a process is frozen and thawed after this step of leaders.
    pub fn frozen_after(seed: u64, step: u64) -> World {
        World { snap: Some(step), ..World::new(seed, Fault::None) }
    }

    /// Runs to the end. Returns the figures of the run, or what was wrong.
    pub fn run(mut self) -> Result<Figures, String> {
        let mut idle_since = 0;
        let mut progress = 0;
        for step in 0..MOST_STEPS {
            self.step();
            if self.doom.is_some_and(|(_, at)| at == step) {
                self.die();
            }
            if step == self.frost {
                self.freeze(None);
            }
            if let Some(fault) = self.procs.iter_mut().find_map(|p| p.fault.take()) {
                self.describe();
                return Err(fault);
            }
            if step % 64 != 0 {
                continue;
            }
            self.look_at_deaths()?;
            self.look_at_crowds()?;
            self.leaders.look(&self.procs, &self.net, self.dead.map(|(dead, _)| dead))?;
            if self.dead.is_some_and(|(_, since)| self.net.clock.get() > since + AFTERLIFE) {
                self.judge(false)?;
                self.leaders.judge(self.dead.map(|(dead, _)| dead))?;
                self.count();
                return Ok(self.figures);
            }
            let done = self.leaders.is_over() && self.procs.iter().all(|p| p.done(&self.program));
            if self.dead.is_none() && step > self.frost && done {
                self.doom = None;
                self.judge(true)?;
                self.leaders.judge(None)?;
                self.count();
                self.goodbye()?;
                return Ok(self.figures);
            }
            let now = self.procs.iter().map(|p| p.records.len() * 2 - p.pending_receives()).sum();
            if now != progress {
                (progress, idle_since) = (now, step);
            } else if step - idle_since > STUCK {
                idle_since = step;
                for proc in &mut self.procs {
                    proc.loosen(&self.program);
                }
            }
        }
        self.describe();
        Err("does not end".into())
    }

    fn describe(&self) {
        if std::env::var_os("MPI_CONNECT_SIM_SEED").is_some() {
            println!("hosts {:?}, firewall {:?}, dead {:?}", self.net.hosts, self.net.firewall, self.dead);
            for c in &self.net.connections {
                println!("{} dials {}: {:?}, near {:?}, incoming {:?}", c.from, c.to, c.stage, c.near, c.incoming);
            }
            for cable in &self.net.cables {
                println!("a cable {:?}, dark {}", cable.pair, cable.is_dark);
            }
            for (holder, _) in &self.net.half_open {
                println!("{holder} has half a lane");
            }
            println!("{}", self.leaders.describe(self.net.clock.get()));
            for p in &self.procs {
                println!("{}", p.describe());
            }
        }
    }

    fn is_dead(&self, process: usize) -> bool {
        self.dead.is_some_and(|(dead, _)| dead == process)
    }

    /// Checks that no living process was given up for dead.
    fn look_at_deaths(&self) -> Result<(), String> {
        for p in self.procs.iter().filter(|p| !self.is_dead(p.id)) {
            for (i, pair) in p.session.pairs() {
                if pair.gone() == Some(Gone::Dead)
                    && let Some(other) = p.other(i, &self.net)
                    && !self.is_dead(other)
                    && !self.leaders.may_be_given_up((pair.local(), pair.remote()), &self.net)
                {
                    return Err(format!("death: {} gives up {other}, which lives", p.id));
                }
            }
        }
        Ok(())
    }

    /// Checks that those who are not known yet take no more than their part.
    fn look_at_crowds(&self) -> Result<(), String> {
        for p in self.procs.iter().filter(|p| !self.is_dead(p.id)) {
            let incoming = self.net.incoming(p.id);
            let mut strangers = BTreeMap::new();
            for (_, pair) in p.session.pairs().filter(|(_, pair)| pair.is_stranger()) {
                *strangers.entry(pair.local()).or_insert(0) += 1;
            }
            let most = |group: &ProcId| if *group == p.me { 64 } else { 256 };
            if incoming > (self.net.descriptors / 8).min(64) || strangers.iter().any(|(group, n)| *n > most(group)) {
                return Err(format!("crowd: {} keeps {incoming} connections and {strangers:?} strangers", p.id));
            }
        }
        Ok(())
    }

    fn count(&mut self) {
        let injected = *self.net.injected.borrow();
        (self.figures.lost, self.figures.doubled) = (injected.lost, injected.doubled);
        for proc in &self.procs {
            self.figures.repeated += proc.session.pairs().map(|(_, pair)| pair.path().repeated()).sum::<u64>();
        }
        self.figures.seeds = 1;
        let count = &self.leaders.count;
        (self.figures.joined, self.figures.met_at_port) = (count.joined, count.met_at_port);
        (self.figures.timed_out, self.figures.gone) = (count.timed_out, count.gone);
        (self.figures.orphans, self.figures.called_back) = (count.orphans, count.called_back);
        self.figures.messages = self.program.messages.len() as u64;
    }

    /// A process is gone with all its lanes. What it had put on them may still arrive.
    fn die(&mut self) {
        let Some((dead, _)) = self.doom else { return };
        self.dead = Some((dead, self.net.clock.get()));
        self.figures.deaths = 1;
        self.heir = self.rng.percent(30).then(|| Proc::stranger([0xee; 16], self.net.hosts[dead]));
        self.figures.heirs = u64::from(self.heir.is_some());
        let knew = |p: &&Proc| p.pair(dead).is_some_and(|i| p.session.pair(i).lane().is_some());
        // On a dark link a death is not heard either.
        let cables = || self.net.cables.iter().chain(&self.net.dark);
        let dark = |p: &Proc| cables().any(|c| c.is_dark && c.pair == (p.id.min(dead), p.id.max(dead)));
        self.bereaved = self
            .procs
            .iter()
            .filter(|p| p.others.contains(&dead))
            .filter(knew)
            .filter(|p| !dark(p))
            .map(|p| p.id)
            .collect();
        self.procs[dead].session.shut();
        let now = self.now(dead);
        self.procs[dead].act(&mut self.net, now);
        self.end_connections(dead);
        self.pairs.retain(|p| p.0 != dead && p.1 != dead);
        self.net.cables.retain(|c| c.pair.0 != dead && c.pair.1 != dead);
    }

    /// Handshakes with a process that has gone from where it was: its kernel ends them.
    fn end_connections(&mut self, process: usize) {
        self.net.half_open.retain(|(holder, _)| *holder != process);
        for c in &mut self.net.connections {
            if c.to == process {
                c.incoming = None;
                if c.stage != Stage::Lost {
                    c.stage = Stage::Closed;
                }
            }
        }
        for c in self.net.connections.extract_if(.., |c| c.from == process) {
            self.net.hung_up.extend(c.incoming.map(|incoming| (c.to, incoming)));
        }
    }

    fn step(&mut self) {
        let at = self.rng.below(self.procs.len() as u64) as usize;
        if self.is_dead(at) || self.is_stopped(at) {
            return;
        }
        self.lead(at);
        if self.stays_held(at) {
            return;
        }
        let now = self.now(at);
        match self.rng.below(100) {
            0..10 => {
                self.procs[at].send(&self.program, &self.rank, &mut self.rng);
                self.procs[at].mark(&mut self.rng);
            }
            10..20 => self.procs[at].recv(&self.program),
            20..45 => self.procs[at].pump(&mut self.rng),
            45..50 => {
                self.pull(at);
                self.put(at);
            }
            50..75 => self.procs[at].poll(&mut self.rng, now),
            75..83 => self.procs[at].reap(&self.program, &self.rank),
            83..88 => {
                let long = self.rng.percent(if self.is_any_stopped() { 30 } else { 2 });
                let ms = 1 + self.rng.below(if long { 1000 } else { 6 });
                self.net.clock.set(self.net.clock.get() + ms);
                let now = self.now(at);
                self.procs[at].tick(&mut self.rng, now);
            }
            88..90 => {
                let ctx = self.rng.below(CONTEXTS as u64) as usize;
                let lives: Vec<u8> = self.procs.iter().map(|p| p.life).collect();
                self.procs[at].open(ctx, &self.net, &lives);
            }
            90..98 => self.connect(),
            _ => self.harm(at),
        }
        self.act(at);
    }

    /// A leader goes on, and may go on elsewhere.
    fn lead(&mut self, at: usize) {
        if self.leaders.is_idle() || !self.whim.percent(30) {
            return;
        }
        let dead = self.dead.map(|(dead, _)| dead);
        match self.leaders.step(&mut self.whim, at, &mut self.procs, &self.net, dead) {
            Ok(false) => return,
            Ok(true) => self.figures.led += 1,
            Err(fault) => self.procs[at].fault = Some(fault),
        }
        self.act(at);
        let is_chosen = self.snap.is_some_and(|at| at == self.figures.led);
        if is_chosen || self.chill > 0 && self.whim.percent(10) {
            self.chill = self.chill.saturating_sub(1);
            self.figures.chilled += 1;
            let one = self.whim.percent(70).then_some(at);
            self.freeze(one);
        }
    }

    /// Does what a process asks for, and tells it of incoming connections that have hung up.
    fn act(&mut self, at: usize) {
        let now = self.now(at);
        let before = self.net.connections.len();
        self.procs[at].act(&mut self.net, now);
        let new = self.net.connections.len().saturating_sub(before) as u64;
        self.figures.dials += new;
        if let Some(last) = self.net.connections.last()
            && new > 0
            && self.net.connections.iter().any(|c| c.from == last.to && c.to == last.from)
        {
            self.figures.simultaneous += 1;
        }
        for (process, incoming) in std::mem::take(&mut self.net.hung_up) {
            if !self.is_dead(process) {
                self.procs[process].session.incoming_left(incoming);
            }
        }
    }

    /// Whether a process lives whose memory another one can reach as this peer.
    fn reaches(&self, at: usize, peer: PeerId, other: usize) -> bool {
        let up = self.procs[at].session.pair(peer.0 as usize).lane();
        !self.is_dead(other) && up.is_some_and(|up| Lane::<VecMemory>::caps(&up.lane).get)
    }

    /// A process reads some of what it wants in another's memory, or fails to.
    fn pull(&mut self, at: usize) {
        if self.procs[at].pulls.is_empty() {
            return;
        }
        let i = self.rng.below(self.procs[at].pulls.len() as u64) as usize;
        let mut pull = self.procs[at].pulls.swap_remove(i);
        let from = pull.from;
        let fails = !self.reaches(at, pull.peer, from) || self.rng.percent(3);
        let most = 1 + self.rng.below(600);
        let mut seen = None;
        // The data must be there: its memory may not have been used for anything else.
        let mut gone = false;
        let (reader, owner) = match self.procs.get_disjoint_mut([at, from]) {
            Ok([reader, owner]) => (reader, owner),
            Err(_) => unreachable!("nobody reads its own memory"),
        };
        let goes_on = reader.pull(&mut pull, most, |address, len| {
            seen = (!fails).then(|| owner.look(address, len)).flatten();
            gone = !fails && seen.is_none();
            seen.clone()
        });
        if gone {
            reader.fault.get_or_insert(format!("bytes: {at} reads memory of {from} that is no buffer any more"));
        }
        self.figures.pulls += u64::from(seen.is_some());
        self.figures.failed_pulls += u64::from(fails);
        if goes_on {
            self.procs[at].pulls.push(pull);
        }
    }

    /// A process writes some of what another wants of it to that one's memory, or fails to.
    fn put(&mut self, at: usize) {
        if self.procs[at].puts.is_empty() {
            return;
        }
        let i = self.rng.below(self.procs[at].puts.len() as u64) as usize;
        let mut put = self.procs[at].puts.swap_remove(i);
        let to = put.to;
        let fails = self.net.lives[to] != put.life || !self.reaches(at, put.peer, to) || self.rng.percent(3);
        let most = 1 + self.rng.below(600);
        let (writer, owner) = match self.procs.get_disjoint_mut([at, to]) {
            Ok([writer, owner]) => (writer, owner),
            Err(_) => unreachable!("nobody writes its own memory"),
        };
        let mut gone = false;
        let goes_on = writer.put(&mut put, most, |op, address, data| {
            gone = !fails && !owner.written(op, address, &data);
            !fails && !gone
        });
        if gone {
            writer.fault.get_or_insert(format!("bytes: {at} writes memory of {to} that is no buffer any more"));
        }
        self.figures.puts += u64::from(!fails);
        self.figures.failed_puts += u64::from(fails);
        if goes_on {
            self.procs[at].puts.push(put);
        }
    }

    // ---- handshakes

    /// Some dial goes on a little.
    fn connect(&mut self) {
        if self.net.connections.is_empty() {
            return;
        }
        let at = self.rng.below(self.net.connections.len() as u64) as usize;
        let c = &self.net.connections[at];
        let (from, to) = (c.from, c.to);
        let next = if matches!(c.stage, Stage::Answered) { from } else { to };
        if !matches!(c.stage, Stage::Syn) && self.is_stopped(next) {
            return;
        }
        match c.stage {
            Stage::Syn => self.go_through(at),
            Stage::Hello => self.deliver_hello(at),
            Stage::Answered => self.deliver_answer(at),
            Stage::Ready => self.deliver_last_word(at),
            Stage::Closed => {
                let c = self.net.connections.remove(at);
                self.fail(c, ErrorKind::UnexpectedEof);
            }
            Stage::Heard | Stage::Lost => {}
        }
        for process in [from, to] {
            if process != NOBODY && !self.is_dead(process) {
                self.act(process);
            }
        }
    }

    /// A dial has failed.
    fn fail(&mut self, c: Connection, why: ErrorKind) {
        if c.from != NOBODY && !self.is_dead(c.from) {
            let now = self.now(c.from);
            self.procs[c.from].session.dial_failed(c.attempt, &why.into(), now);
        }
    }

    fn go_through(&mut self, at: usize) {
        let c = &self.net.connections[at];
        let (from, to, near) = (c.from, c.to, c.near);
        let blocked = if from == NOBODY || near.is_some() { None } else { self.net.blocks(from, to) };
        let nobody = near.is_some_and(|first| first != self.procs[to].life + 1) || near.is_some() && self.is_dead(to);
        let nobody = nobody || near.is_some() && self.net.closed == Some(to);
        let nobody = nobody || self.net.absent == Some(to) && self.all_know(to);
        if blocked == Some(true) || nobody || blocked.is_none() && self.is_dead(to) && self.heir.is_none() {
            self.figures.refused += 1;
            let c = self.net.connections.remove(at);
            self.fail(c, ErrorKind::ConnectionRefused);
        } else if blocked == Some(false) || self.net.goes_wrong(5) {
            self.figures.never_answered += 1;
            self.net.connections[at].stage = Stage::Lost;
        } else {
            self.net.connections[at].stage = Stage::Hello;
        }
    }

    fn deliver_hello(&mut self, at: usize) {
        let lost = self.net.goes_wrong(5);
        let c = &mut self.net.connections[at];
        let (from, to, attempt) = (c.from, c.to, c.attempt);
        if from != NOBODY {
            let now = self.now(from);
            self.procs[from].session.dial_greeted(attempt, !lost, now);
        }
        if lost {
            self.figures.never_answered += 1;
            self.net.connections[at].stage = Stage::Lost;
            return;
        }
        if self.is_dead(to) {
            let (Some(heir), c) = (&mut self.heir, &mut self.net.connections[at]) else { return };
            let now = Time(self.net.clock.get() * 1_000_000);
            let incoming = heir.arrived(now);
            heir.hello(incoming, &c.hello, now);
            let answer = std::iter::from_fn(|| heir.next_action()).find_map(|action| match action {
                Action::Refuse { incoming: i, ack } if i == incoming => Some(ack),
                _ => None,
            });
            c.stage = if answer.is_some() { Stage::Answered } else { Stage::Closed };
            c.ack = answer;
            return;
        }
        let now = self.now(to);
        let incoming = self.procs[to].session.arrived(now);
        let c = &mut self.net.connections[at];
        (c.incoming, c.stage) = (Some(incoming), Stage::Heard);
        if c.silent {
            return;
        }
        let hello = c.hello.clone();
        self.procs[to].session.hello(incoming, &hello, now);
    }

    fn deliver_answer(&mut self, at: usize) {
        let c = self.net.connections.remove(at);
        if c.from == NOBODY {
            if c.near.is_some() && c.ack.as_ref().is_some_and(|ack| ack.status == Status::Good) {
                self.net.connections.push(Connection { stage: Stage::Ready, ..c });
            }
            // Others say nothing more, and hang up.
            return;
        }
        if self.net.goes_wrong(6) {
            self.figures.half_open += 1;
            let mut c = c;
            self.net.half_open.extend(c.ends[0].take().map(|end| (c.from, end)));
            c.stage = Stage::Lost;
            self.net.connections.push(c);
            return;
        }
        let Connection { from, to, attempt, mut ends, near, incoming, .. } = c;
        let now = self.now(from);
        let ack = c.ack.expect("answered");
        let Some(agreed) = self.procs[from].session.dial_answered(attempt, &ack, now) else {
            self.net.hung_up.extend(incoming.map(|incoming| (to, incoming)));
            return;
        };
        let lane = ends[0].take().expect("a good answer comes with a lane");
        if near.is_some() && self.net.goes_wrong(10) {
            self.procs[from].session.lane_not_made(agreed.pair, &ErrorKind::OutOfMemory.into(), now);
            self.net.hung_up.extend(incoming.map(|incoming| (to, incoming)));
            return;
        }
        self.figures.moved += u64::from(agreed.moves.is_some());
        self.procs[from].take_up(&self.net, agreed, lane, true, now);
        if near.is_some() {
            let (hello, ack) = (c.hello, Some(ack));
            let stage = Stage::Ready;
            let c =
                Connection { from, attempt, to, near, stage, hello, ack, incoming, mute: c.mute, silent: false, ends };
            self.net.connections.push(c);
        }
    }

    fn deliver_last_word(&mut self, at: usize) {
        let mut c = self.net.connections.remove(at);
        let (Some(incoming), to) = (c.incoming, c.to) else { return };
        if self.net.goes_wrong(10) {
            self.figures.half_open += 1;
            self.net.hung_up.push((to, incoming));
            return;
        }
        let now = self.now(to);
        if let Some(agreed) = self.procs[to].session.incoming_ready(incoming) {
            let known = self.procs[to].session.pair(agreed.pair).known_process();
            if c.from == NOBODY && known.is_some_and(|known| known != c.hello.process) {
                self.procs[to].fault.get_or_insert("slot: a lane for a pair that has ended".into());
            }
            let lane = c.ends[1].take().expect("the other end");
            self.procs[to].take_up(&self.net, agreed, lane, false, now);
        }
    }

    /// A process dials that is not the one it claims to be.
    fn send_stranger(&mut self, at: usize) {
        let to = &self.procs[at];
        let other = to.others[self.rng.below(to.others.len() as u64) as usize];
        if self.is_dead(other) {
            return;
        }
        self.figures.strangers += 1;
        let knows = self.rng.percent(50);
        // One whom no record is known of may come with a number of its own, and get the place until the record comes.
        let early = self.doom.is_none() && to.pair(other).is_none() && self.rng.percent(70);
        let process = if early { [0x99; 16] } else { number(other, self.procs[other].life) };
        let mut hello = self.hello_of(self.procs[other].me, at, process);
        hello.cookie[3] ^= u8::from(!knows);
        let to = &self.procs[at];
        // An impostor that knows everything comes only where the true process is connected: elsewhere the two look alike.
        let has_lane = to.pair(other).is_some_and(|i| to.session.pair(i).lane().is_some());
        if knows && !has_lane && !early {
            return;
        }
        let near = early && self.rng.percent(70);
        self.connect_stranger(at, hello, near, false);
    }

    /// A HELLO of some process for this one, with the right cookie.
    fn hello_of(&mut self, source: ProcId, at: usize, process: [u8; 16]) -> Hello {
        let dest = self.procs[at].me;
        let generation = 1 + self.rng.below(30) as u16;
        let (stripe, received) = (0, 0);
        let cookie = cookie(dest.incarnation);
        Hello { source, dest, cookie, process, generation, stripe, received, moves: None }
    }

    fn connect_stranger(&mut self, to: usize, hello: Hello, near: bool, silent: bool) {
        self.net.connections.push(Connection {
            from: NOBODY,
            attempt: AttemptId(0),
            to,
            near: near.then(|| self.procs[to].life + 1),
            stage: Stage::Syn,
            hello,
            ack: None,
            incoming: None,
            mute: false,
            silent,
            ends: [None, None],
        });
    }

    /// Many dial a process at once. Some say nothing, and the others are of groups that it may yet meet.
    fn crowd(&mut self, at: usize) {
        self.figures.crowds += 1;
        let size = if self.rng.percent(20) { 60 + self.rng.below(40) } else { self.rng.below(12) };
        let silent = self.rng.below(100);
        for rank in 0..size as u32 {
            let source = ProcId { incarnation: 7000 + self.figures.crowds, rank };
            let hello = self.hello_of(source, at, [0x77; 16]);
            let silent = self.rng.percent(silent);
            self.connect_stranger(at, hello, false, silent);
        }
    }

    // ---- harm

    /// Something goes wrong, or a lane is swapped.
    fn harm(&mut self, at: usize) {
        if self.trouble > 0
            && let Some(rng) = &mut self.operator
            && !self.pairs.is_empty()
            && rng.percent(60)
        {
            let pair = self.pairs[rng.below(self.pairs.len() as u64) as usize];
            let (a, b) = pair;
            let stops = rng.percent(10).then(|| ([a, b][rng.below(2) as usize], 1 + rng.below(15_000)));
            self.order_move(pair);
            return stops.into_iter().for_each(|(at, long)| self.stop(at, long));
        }
        if self.trouble == 0 || self.pairs.is_empty() || self.rng.percent(70) {
            return;
        }
        self.trouble -= 1;
        let pair = self.pairs[self.rng.below(self.pairs.len() as u64) as usize];
        match self.rng.below(12) {
            0 | 7 => self.swap(pair),
            11 => self.hold(at),
            8.. => self.order_move(pair),
            6 => self.crowd(at),
            1 => self.send_stranger(at),
            2 | 3 => {
                let dark = self.rng.percent(40);
                if let Some(i) = self.net.cables.iter().position(|c| c.pair == pair) {
                    if dark && self.net.cables[i].knife.darken() {
                        self.net.cables[i].is_dark = true;
                        self.figures.dark += 1;
                    } else {
                        self.net.cables.swap_remove(i).knife.cut();
                        self.figures.cuts += 1;
                    }
                }
            }
            _ => {
                let one = self.rng.percent(50).then_some(at);
                self.freeze(one);
            }
        }
    }

    /// One process, or all, go on elsewhere from a snapshot.
    fn freeze(&mut self, one: Option<usize>) {
        let moved: Vec<usize> =
            (0..self.procs.len()).filter(|i| one.is_none_or(|one| *i == one) && !self.is_dead(*i)).collect();
        for &i in &moved {
            // It will not see that the other side has closed its lane, and where nothing gets through that was all.
            if let Some((dead, _)) = self.dead
                && self.net.blocks(i, dead).is_some()
                && self.procs[i].pair(dead).is_some_and(|pair| self.procs[i].session.pair(pair).lane().is_some())
            {
                self.bereaved.retain(|other| *other != i);
            }
            let now = self.now(i);
            self.procs[i].freeze_and_thaw(&mut self.net, now);
            self.figures.snapshots += 1;
        }
        self.moved(&moved);
    }

    /// These processes have gone on elsewhere: all others are told.
    fn moved(&mut self, moved: &[usize]) {
        for &i in moved {
            self.end_connections(i);
        }
        for i in 0..self.procs.len() {
            if self.is_dead(i) {
                continue;
            }
            let others = self.procs[i].others.clone();
            for &other in moved.iter().filter(|m| others.contains(m)) {
                let (id, contact) = (self.procs[other].me, self.net.contact(other, self.procs[other].life));
                let now = self.now(i);
                for id in self.leaders.names(other).into_iter().chain([id]) {
                    self.procs[i].session.relocated(id, &contact, now);
                }
            }
            self.act(i);
        }
    }

    /// A process is stopped for so long.
    fn stop(&mut self, at: usize, long: u64) {
        if self.is_quiet() && !self.is_any_stopped() {
            self.figures.stopped += 1;
            self.stopped = Some((at, self.net.clock.get() + long));
        }
    }

    fn is_stopped(&self, at: usize) -> bool {
        self.stopped.is_some_and(|(stopped, until)| stopped == at && self.net.clock.get() < until)
    }

    fn is_any_stopped(&self) -> bool {
        self.stopped.is_some_and(|(stopped, _)| self.is_stopped(stopped))
    }

    /// Whether nobody dies, and nobody's time runs out.
    fn is_quiet(&self) -> bool {
        self.held.is_none() && self.doom.is_none() && self.leaders.is_idle()
    }

    /// A process gives up all its lanes for a while.
    fn hold(&mut self, at: usize) {
        // Who is held is found dead later, and who negotiates runs out of time.
        if !self.is_quiet() || self.is_any_stopped() {
            return;
        }
        self.figures.held += 1;
        let now = self.now(at);
        self.procs[at].session.hold(now);
        let until = self.net.clock.get() + 1 + self.rng.below(3000);
        self.held = Some((at, until, self.rng.percent(50)));
        let other = self.rng.below(self.procs.len() as u64) as usize;
        if let Some(closed) = self.net.closed {
            self.use_near(closed, true);
        } else if other != at && self.rng.percent(50) {
            self.figures.closed += 1;
            self.use_near(other, false);
        }
    }

    /// A process takes the transport for one host out of use, or uses it again. Lanes stay.
    fn use_near(&mut self, at: usize, used: bool) {
        self.net.closed = (!used).then_some(at);
        let contact = self.net.contact(at, self.procs[at].life);
        let session = &mut self.procs[at].session;
        session.set_transport(crate::network::NEAR.id, if used { Ok(()) } else { Err("taken out of use") });
        session.set_contact(&contact);
        self.act(at);
    }

    /// Whether this process is held and gone at present. It comes back when its time is over.
    fn stays_held(&mut self, at: usize) -> bool {
        let Some((held, until, goes)) = self.held.filter(|(held, ..)| *held == at) else { return false };
        if self.net.clock.get() >= until {
            self.come_back();
            return false;
        }
        let is_held = self.procs[held].session.is_held() == (Hold::Held { untold: 0 });
        let is_gone = goes && is_held && self.all_know(held);
        if is_gone && self.net.absent.is_none() {
            self.figures.absent += 1;
        }
        self.net.absent = is_gone.then_some(held);
        is_gone
    }

    /// Whether all that have met this process know that it comes back. Who meets it only now does not.
    fn all_know(&self, held: usize) -> bool {
        let know = |p: &Proc| {
            let with_it = p.session.pairs().filter(|(i, _)| p.other(*i, &self.net) == Some(held));
            with_it.into_iter().all(|(_, pair)| pair.is_away() || pair.gone().is_some())
        };
        self.procs.iter().all(know)
    }

    fn come_back(&mut self) {
        if let Some((held, ..)) = self.held.take() {
            self.net.absent = None;
            let now = self.now(held);
            self.procs[held].session.resume(now);
            self.act(held);
        }
    }

    /// An operator wants a transport for a pair, of one side or of both.
    fn order_move(&mut self, (a, b): (usize, usize)) {
        let both = self.rng.percent(20);
        for (x, y) in [(a, b), (b, a)].into_iter().take(if both { 2 } else { 1 }) {
            let Some(i) = self.procs[x].pair(y) else { continue };
            let to = match self.rng.below(3) {
                0 => Some(crate::network::NEAR.id),
                1 => Some(crate::network::FAR.id),
                _ => None,
            };
            let now = self.now(x);
            if self.procs[x].session.move_to(i, to, now) == Ok(Ordered::Moves) {
                self.figures.ordered += 1;
            }
            self.act(x);
        }
    }

    /// Both sides of a pair move to another lane, each in its own time.
    fn swap(&mut self, (a, b): (usize, usize)) {
        let up =
            |w: &World, x: usize, y: usize| w.procs[x].pair(y).filter(|i| w.procs[x].session.pair(*i).lane().is_some());
        let (Some(i), Some(j)) = (up(self, a, b), up(self, b, a)) else { return };
        let offered = |w: &World, x: usize, i: usize| w.procs[x].session.pair(i).path().offered_generation();
        let generation = offered(self, a, i).max(offered(self, b, j));
        self.figures.swaps += 1;
        // Nobody reads meanwhile, so that much is left on the lane.
        let unread = self.rng.percent(50);
        if unread {
            for _ in 0..self.rng.below(20) {
                let x = if self.rng.percent(50) { a } else { b };
                self.procs[x].send(&self.program, &self.rank, &mut self.rng);
                self.procs[x].pump(&mut self.rng);
            }
        }
        // One that is dark may be another path's, which waits for what it brings: it is remembered.
        let bright = self.net.cables.iter().position(|c| c.pair == (a, b) && !c.is_dark);
        let old = bright.map(|at| self.net.cables.swap_remove(at));
        // What is left goes on before the rest where frames may overtake each other.
        let lossy = self.net.lossy && (unread || self.rng.percent(50));
        let [x, y] = self.net.lane_that(a, b, false, lossy);
        for (process, pair, lane) in [(a, i, x), (b, j, y)] {
            let lane = lane.expect("a new lane");
            let transport = crate::network::FAR.id;
            let new = NewLane { lane, generation, received: 0, transport, at: None, dialled: true, moves: None };
            let now = self.now(process);
            self.procs[process].session.swap(pair, new, now);
            // The other side may be late.
            for _ in 0..if unread { 0 } else { self.rng.below(20) } {
                let (now, then) = (self.now(a), self.now(b));
                self.procs[a].poll(&mut self.rng, now);
                self.procs[b].poll(&mut self.rng, then);
            }
            self.act(a);
            self.act(b);
        }
        // The lane that is left may be cut while it is being left.
        if self.rng.percent(if unread { 60 } else { 30 })
            && let Some(mut old) = old
        {
            old.knife.cut();
        }
        // One side may read what has overtaken the rest, and the other may move before it has looked at that.
        if unread && self.rng.percent(50) {
            let (reads, moves) = if self.rng.percent(50) { (a, b) } else { (b, a) };
            for _ in 0..self.rng.below(20) {
                self.net.clock.set(self.net.clock.get() + 1);
                self.procs[moves].pump(&mut self.rng);
                let now = self.now(reads);
                self.procs[reads].poll(&mut self.rng, now);
            }
            self.act(reads);
            self.freeze(Some(moves));
        }
    }

    /// Runs up to where all go on from a snapshot, and gives that of one process.
    pub fn frozen(&mut self) -> (usize, Vec<u8>) {
        self.doom = None;
        self.steps(self.frost);
        let at = self.rng.below(self.procs.len() as u64) as usize;
        let now = self.now(at);
        (at, self.procs[at].freeze(&mut self.net, now))
    }

    /// A process goes on with what `bytes` say of it. `Err`: they are no snapshot.
    pub fn go_on(&mut self, at: usize, bytes: &[u8]) -> Result<(), SnapshotError> {
        self.procs[at].thaw(bytes, &mut self.net)?;
        self.moved(&[at]);
        Ok(())
    }

    pub fn steps(&mut self, n: u64) {
        (0..n).for_each(|_| self.step());
    }

    fn judge(&self, all: bool) -> Result<(), String> {
        let mut order = vec![0; self.program.messages.len()];
        for list in &self.program.sends {
            for (place, &id) in list.iter().enumerate() {
                order[id] = place;
            }
        }
        for proc in self.procs.iter().filter(|p| !self.is_dead(p.id)) {
            self.program.judge(proc.id, &proc.records, &self.rank, &order, all)?;
            if let Some((dead, _)) = self.dead
                && (self.net.hosts[proc.id] == self.net.hosts[dead] || self.bereaved.contains(&proc.id))
                && let Some(awaited) = proc.waits_for_the_dead(dead)
            {
                self.describe();
                return Err(format!("process {} waits for the dead: {awaited:?}", proc.id));
            }
        }
        Ok(())
    }

    /// All say BYE and see that everything is with the other side; then nothing is left of any pair.
    fn goodbye(&mut self) -> Result<(), String> {
        self.come_back();
        (self.trouble, self.net.trouble) = (0, 0);
        // Whoever dialled in vain closes its end.
        self.net.half_open.clear();
        if !self.leaders.is_idle() {
            // One side of a negotiation may forget it first. Then the other side gets no acknowledgement unless it can
            // dial and its kernel gives up lanes that are dark.
            self.net.firewall = None;
            let newest = self.net.cables.extract_if(.., |cable| cable.is_dark);
            newest.chain(self.net.dark.drain(..)).for_each(|mut cable| cable.knife.cut());
        }
        for proc in &mut self.procs {
            if proc.session.engine.watching().next().is_some() {
                return Err("a peer is watched though nothing is pending".into());
            }
            proc.session.say_goodbye();
        }
        // Who is no process of the program does not come again, and Finalize waits for it no longer than its limit.
        let gone = |p: &Proc, net: &Network| {
            let is_guest =
                |(i, pair): &(usize, &Pair<_>)| pair.path().unacknowledged() > 0 && p.other(*i, net).is_none();
            p.session.pairs().filter(is_guest).count()
        };
        self.until(|p, net| p.session.unacknowledged() <= gone(p, net), "the end does not come")?;
        for proc in &mut self.procs {
            for inter in proc.inters.iter_mut().filter_map(Option::take) {
                proc.session.close(inter);
            }
            proc.session.remove_group(proc.me.incarnation);
        }
        self.until(|p, _| p.session.pairs_in_use() == 0, "pairs are left at the end")?;
        self.until(|p, _| !p.session.is_timed(), "something is timed at the end")?;
        self.leaders.left_over(&mut self.procs, &self.net).map_or(Ok(()), Err)
    }

    fn until(&mut self, done: impl Fn(&Proc, &Network) -> bool, otherwise: &str) -> Result<(), String> {
        for step in 0..MOST_STEPS / 4 {
            self.quiet_step();
            if step % 16 == 0 {
                if let Some(fault) = self.procs.iter_mut().find_map(|p| p.fault.take()) {
                    return Err(fault);
                }
                if self.procs.iter().all(|p| done(p, &self.net)) {
                    return Ok(());
                }
            }
        }
        self.describe();
        Err(otherwise.into())
    }

    /// A step in which the program does nothing more.
    fn quiet_step(&mut self) {
        let at = self.rng.below(self.procs.len() as u64) as usize;
        let now = self.now(at);
        match self.rng.below(10) {
            0..3 => self.procs[at].pump(&mut self.rng),
            3..7 => self.procs[at].poll(&mut self.rng, now),
            7 => {
                let ms = 1 + self.rng.below(20);
                self.net.clock.set(self.net.clock.get() + ms);
                let now = self.now(at);
                self.procs[at].tick(&mut self.rng, now);
            }
            _ => self.connect(),
        }
        self.act(at);
    }
}
