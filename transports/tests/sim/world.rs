//! A few processes, what connects them, and what goes wrong. One seed, one run.

use crate::proc::{Link, Proc};
use crate::program::{CONTEXTS, Program};
use base::ProcId;
use base::memory::VecMemory;
use engine::{Config, Gone};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use transports::lane::{Caps, Lane};
use transports::path::Limits;
use transports::sim::datagram::{self, Faults, Injected};
use transports::sim::{Clock, Rng, pipe};
use transports::stream::StreamLane;

/// Far more than a run that ends needs.
const MOST_STEPS: u64 = 1_000_000;
/// Without progress for so long, receives that took each other's messages are loosened.
const STUCK: u64 = 8_000;
/// How long the others go on after a death.
const AFTERLIFE: u64 = 20_000;

#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    pub seeds: u64,
    pub messages: u64,
    pub cuts: u64,
    pub swaps: u64,
    pub snapshots: u64,
    pub lost: u64,
    pub doubled: u64,
    pub repeated: u64,
    pub deaths: u64,
    pub pulls: u64,
    pub failed_pulls: u64,
    pub answers: u64,
}

impl Figures {
    pub fn add(&mut self, f: Figures) {
        self.seeds += f.seeds;
        self.messages += f.messages;
        self.cuts += f.cuts;
        self.swaps += f.swaps;
        self.snapshots += f.snapshots;
        self.lost += f.lost;
        self.doubled += f.doubled;
        self.repeated += f.repeated;
        self.deaths += f.deaths;
        self.pulls += f.pulls;
        self.failed_pulls += f.failed_pulls;
        self.answers += f.answers;
    }
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Fault {
    None,
    Order,
    Match,
    Loss,
    Duplicate,
}

/// A lane that was dialled: each side takes its end up in its own time.
struct Dialled {
    pair: (usize, usize),
    generation: u16,
    graceful: bool,
    caps: Caps,
    received: (u64, u64),
    ends: Ends,
}

type Cut = Box<dyn FnMut()>;
type Ends = [Option<Box<dyn Lane<VecMemory>>>; 2];

pub struct World {
    rng: Rng,
    clock: Clock,
    procs: Vec<Proc>,
    program: Program,
    rank: Vec<u32>,
    pairs: Vec<(usize, usize)>,
    dialled: Vec<Dialled>,
    /// How to break the newest lane of each pair.
    cutters: Vec<Option<Cut>>,
    injected: Rc<RefCell<Injected>>,
    figures: Figures,
    /// How much may still go wrong.
    trouble: u64,
    /// Who dies at which step.
    doom: Option<(usize, u64)>,
    dead: Option<usize>,
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
            envelopes: 1 + rng.below(8),
            eager_bytes: rng.below(1000),
            extra_envelopes: 1 + rng.below(4),
            chunk: 40 + rng.below(300),
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
                Fault::Loss => transports::path::Plant::Loss,
                Fault::Duplicate => transports::path::Plant::Duplicate,
                _ => transports::path::Plant::None,
            },
        };
        let program = Program::random(&mut rng, &group, &rank, largest);
        let others = |i: usize| (0..n).filter(|&j| group[j] != group[i]).collect::<Vec<_>>();
        let procs: Vec<Proc> = (0..n).map(|i| Proc::new(i, cfg.clone(), &limits, &ids, &others(i))).collect();
        let pairs: Vec<_> =
            (0..n).flat_map(|i| (i + 1..n).map(move |j| (i, j))).filter(|&(i, j)| group[i] != group[j]).collect();
        let trouble = rng.below(12);
        let doom = rng.percent(10).then(|| (rng.below(n as u64) as usize, 200 + rng.below(4000)));
        World {
            rng,
            clock: Rc::new(Cell::new(1)),
            procs,
            program,
            rank,
            cutters: pairs.iter().map(|_| None).collect(),
            pairs,
            dialled: Vec::new(),
            injected: Rc::default(),
            figures: Figures::default(),
            trouble,
            doom,
            dead: None,
        }
    }

    /// Runs to the end; the figures of the run, or what was wrong.
    pub fn run(mut self) -> Result<Figures, String> {
        let mut idle_since = 0;
        let mut progress = 0;
        for step in 0..MOST_STEPS {
            self.step();
            if self.doom.is_some_and(|(_, at)| at == step) {
                self.die();
            }
            if let Some(fault) = self.procs.iter_mut().find_map(|p| p.fault.take()) {
                return Err(fault);
            }
            if step % 64 != 0 {
                continue;
            }
            if let Some((_, at)) = self.doom
                && step > at + AFTERLIFE
            {
                self.judge(false)?;
                self.count();
                return Ok(self.figures);
            }
            if self.dead.is_none() && self.procs.iter().all(|p| p.done(&self.program)) {
                self.doom = None;
                self.judge(true)?;
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
        if std::env::var_os("MPI_CONNECT_SIM_SEED").is_some() {
            for p in &self.procs {
                println!("{}", p.describe());
            }
        }
        Err("does not end".into())
    }

    fn count(&mut self) {
        let injected = *self.injected.borrow();
        (self.figures.lost, self.figures.doubled) = (injected.lost, injected.doubled);
        for proc in &self.procs {
            self.figures.repeated += proc.links.iter().map(|l| l.path.repeated()).sum::<u64>();
            self.figures.answers += proc.links.iter().map(|l| l.life.answers).sum::<u64>();
        }
        self.figures.seeds = 1;
        self.figures.messages = self.program.messages.len() as u64;
    }

    /// A process is gone with all its lanes. What it had put on them may still arrive.
    fn die(&mut self) {
        let Some((dead, _)) = self.doom else { return };
        self.dead = Some(dead);
        self.figures.deaths = 1;
        self.dialled.retain(|d| d.pair.0 != dead && d.pair.1 != dead);
        self.procs[dead].links.iter_mut().for_each(|l| l.lanes.clear());
        let alive: Vec<_> = self.pairs.iter().map(|p| p.0 != dead && p.1 != dead).collect();
        let mut keep = alive.iter();
        self.pairs.retain(|_| *keep.next().expect("as long"));
        let mut keep = alive.iter();
        self.cutters.retain(|_| *keep.next().expect("as long"));
    }

    fn step(&mut self) {
        let at = self.rng.below(self.procs.len() as u64) as usize;
        if let Some(dead) = self.dead {
            if at == dead {
                return;
            }
            if self.rng.percent(1) {
                self.procs[at].mourn(dead);
            }
        }
        match self.rng.below(100) {
            0..10 => {
                self.procs[at].send(&self.program, &self.rank, &mut self.rng);
                self.procs[at].mark(&mut self.rng);
            }
            10..20 => self.procs[at].recv(&self.program),
            20..45 => self.procs[at].pump(),
            45..50 => self.pull(at),
            50..75 => {
                self.procs[at].poll(&mut self.rng);
                self.check_answers(at);
            }
            75..85 => self.procs[at].reap(&self.program, &self.rank),
            85..90 => {
                self.clock.set(self.clock.get() + 1 + self.rng.below(5));
                self.procs[at].tick(self.clock.get());
            }
            90..92 => {
                let ctx = self.rng.below(CONTEXTS as u64) as usize;
                self.procs[at].open(ctx, self.rank[at]);
            }
            92..98 => self.connect(),
            _ => self.harm(at),
        }
    }

    /// Whoever is answered has been heard.
    fn check_answers(&mut self, at: usize) {
        for k in 0..self.procs[at].links.len() {
            let link = &mut self.procs[at].links[k];
            let Some(question) = link.life.answered.take() else { continue };
            let other = link.other;
            if self.procs[other].link(at).life.heard < question {
                let fault = format!("life: {other} answers {question} of {at}, which has not come");
                self.procs[at].fault.get_or_insert(fault);
            }
        }
    }

    /// A process reads some of what it wants in another's memory, or fails to.
    fn pull(&mut self, at: usize) {
        if self.procs[at].pulls.is_empty() {
            return;
        }
        let i = self.rng.below(self.procs[at].pulls.len() as u64) as usize;
        let mut pull = self.procs[at].pulls.swap_remove(i);
        let from = pull.from;
        let fails = Some(from) == self.dead || self.rng.percent(3);
        let most = 1 + self.rng.below(600);
        let mut seen = None;
        // What is wanted must be there: nobody may have given the memory to something else.
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

    /// Dials where a lane is wanted, or lets one side take up its end.
    fn connect(&mut self) {
        if self.pairs.is_empty() {
            return;
        }
        let at = self.rng.below(self.pairs.len() as u64) as usize;
        let pair = self.pairs[at];
        if let Some(i) = self.dialled.iter().position(|d| d.pair == pair) {
            let side = self.rng.below(2) as usize;
            let d = &mut self.dialled[i];
            let (me, other) = if side == 0 { pair } else { (pair.1, pair.0) };
            if let Some(lane) = d.ends[side].take() {
                let peer_received = if side == 0 { d.received.1 } else { d.received.0 };
                let (generation, caps, graceful) = (d.generation, d.caps, d.graceful);
                self.take_up(me, other, lane, generation, caps, graceful, peer_received);
            }
            self.dialled.retain(|d| d.ends.iter().any(Option::is_some));
            return;
        }
        let up = |w: &mut World, a: usize, b: usize| w.procs[a].link(b).path.active().is_some();
        if !up(self, pair.0, pair.1) || !up(self, pair.1, pair.0) {
            self.dial(at, false);
        }
    }

    #[allow(clippy::too_many_arguments)]
    fn take_up(
        &mut self,
        me: usize,
        other: usize,
        lane: Box<dyn Lane<VecMemory>>,
        generation: u16,
        caps: Caps,
        graceful: bool,
        peer_received: u64,
    ) {
        let link = self.procs[me].link(other);
        if graceful {
            link.path.switch(generation, caps).expect("a newer generation");
        } else {
            link.path.attach(generation, caps, peer_received).expect("a newer generation");
            link.lanes.clear();
        }
        link.lanes.push((generation, lane));
        let again = std::mem::replace(&mut link.attached_once, true) && !graceful;
        let peer = link.peer;
        self.procs[me].reach(other, &mut self.rng, caps.get);
        if again {
            self.procs[me].engine.on_lane_lost(peer);
        }
    }

    fn dial(&mut self, at: usize, graceful: bool) {
        let pair = self.pairs[at];
        let a = self.procs[pair.0].link(pair.1);
        let (offer_a, received_a) = (a.path.offered_generation(), a.path.received());
        let b = self.procs[pair.1].link(pair.0);
        let (offer_b, received_b) = (b.path.offered_generation(), b.path.received());
        let rng = &mut self.rng;
        let (ends, caps, cut): (Ends, Caps, Cut) = if rng.percent(60) {
            let capacity = 30 + rng.below(3000) as usize;
            let (x, y) = pipe::pair(rng, capacity);
            let mut knife = x.knife(rng);
            (
                [Some(Box::new(StreamLane::new(x))), Some(Box::new(StreamLane::new(y)))],
                Caps { get: rng.percent(50), ..Caps::STREAM },
                Box::new(move || knife.cut()),
            )
        } else {
            let faults =
                Faults { loss_percent: rng.below(25), double_percent: rng.below(25), max_delay: rng.below(30) };
            let capacity = 1 + rng.below(40) as usize;
            let (x, y) = datagram::pair(rng, &self.clock, faults, capacity, &self.injected);
            let knife = x.knife();
            ([Some(Box::new(x)), Some(Box::new(y))], Caps::DATAGRAM, Box::new(move || knife.cut()))
        };
        self.cutters[at] = Some(cut);
        self.dialled.push(Dialled {
            pair,
            generation: offer_a.max(offer_b),
            graceful,
            caps,
            received: (received_a, received_b),
            ends,
        });
    }

    /// Something goes wrong, or a lane is swapped.
    fn harm(&mut self, at: usize) {
        if self.trouble == 0 || self.pairs.is_empty() || self.rng.percent(70) {
            return;
        }
        self.trouble -= 1;
        let pair = self.rng.below(self.pairs.len() as u64) as usize;
        match self.rng.below(4) {
            0 | 1 => {
                let (a, b) = self.pairs[pair];
                let up = self.procs[a].link(b).path.active().is_some() && self.procs[b].link(a).path.active().is_some();
                if up && self.dialled.iter().all(|d| d.pair != (a, b)) {
                    // The lane that is left may be cut while it is being left.
                    let old = self.cutters[pair].take();
                    self.dial(pair, true);
                    self.figures.swaps += 1;
                    if self.rng.percent(30) {
                        self.cutters[pair] = old;
                    }
                }
            }
            2 => {
                if let Some(mut cut) = self.cutters[pair].take() {
                    cut();
                    self.figures.cuts += 1;
                }
            }
            _ => {
                let all = self.rng.percent(50);
                for i in 0..self.procs.len() {
                    if all || i == at {
                        self.dialled.retain(|d| d.pair.0 != i && d.pair.1 != i);
                        self.procs[i].freeze_and_thaw();
                        self.figures.snapshots += 1;
                    }
                }
            }
        }
    }

    fn judge(&self, all: bool) -> Result<(), String> {
        let mut order = vec![0; self.program.messages.len()];
        for list in &self.program.sends {
            for (place, &id) in list.iter().enumerate() {
                order[id] = place;
            }
        }
        for proc in self.procs.iter().filter(|p| Some(p.id) != self.dead) {
            self.program.judge(proc.id, &proc.records, &self.rank, &order, all)?;
            if let Some(awaited) = proc.waits_for_the_dead() {
                return Err(format!("process {} waits for the dead: {awaited:?}", proc.id));
            }
            if self.dead.is_some_and(|d| proc.links.iter().any(|l| l.other == d)) && proc.bereaved.is_none() {
                return Err("a lane of the dead does not end".into());
            }
        }
        Ok(())
    }

    /// All say BYE and see that everything is with the other side and that it lives, as at the end of a job.
    fn goodbye(&mut self) -> Result<(), String> {
        self.trouble = 0;
        for proc in &mut self.procs {
            if proc.engine.watching().next().is_some() {
                return Err("a peer is watched though nothing is pending".into());
            }
            for link in &mut proc.links {
                proc.engine.bye(link.peer);
                link.life.answers = 0;
            }
        }
        for step in 0..MOST_STEPS {
            let at = self.rng.below(self.procs.len() as u64) as usize;
            self.step();
            for link in &mut self.procs[at].links {
                link.path.flush();
            }
            let over = |p: &Proc| {
                let heard = |l: &Link| l.path.all_acknowledged() && l.life.answers > 0;
                p.links.iter().all(|l| p.engine.gone(l.peer) == Some(Gone::Finished) && heard(l))
            };
            if step % 16 == 0 && self.procs.iter().all(over) {
                return Ok(());
            }
        }
        Err("the end does not come".into())
    }
}
