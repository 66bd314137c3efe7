//! All jobs, in one life after the other, and the judge.

use crate::disk::{Disk, Doing, End, Work};
use crate::net::{Net, Parcel};
use crate::plan::{Plan, Scope, When};
use crate::plant::Plant;
use crate::proc::{Life, Phase, Proc};
use crate::program::{self, Program, State, Turn};
use crate::rng::{Rng, hash};
use crate::side::Seen;
use base::ProcId;
use checkpoint::{AllRows, Besides, Inter, Job, LineId, Store, With};
use engine::ContextId;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Events in one life, after which it does not end.
const MOST: u64 = 3_000_000;

/// What happened in a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    pub lives: u64,
    pub kills: u64,
    pub restarts: u64,
    pub lines: u64,
    pub committed: u64,
    pub messages: u64,
    pub events: u64,
    pub most_cuts: u64,
    pub most_logged: u64,
    pub unwritten: u64,
    pub seen: Seen,
}

impl Figures {
    pub fn add(&mut self, other: Figures) {
        self.lives += other.lives;
        self.kills += other.kills;
        self.restarts += other.restarts;
        self.lines += other.lines;
        self.committed += other.committed;
        self.messages += other.messages;
        self.events += other.events;
        self.most_cuts = self.most_cuts.max(other.most_cuts);
        self.most_logged = self.most_logged.max(other.most_logged);
        self.unwritten += other.unwritten;
        self.see(other.seen);
    }

    fn see(&mut self, seen: Seen) {
        self.seen.cuts += seen.cuts;
        self.seen.late += seen.late;
        self.seen.wanted += seen.wanted;
        self.seen.early += seen.early;
        self.seen.again += seen.again;
        self.seen.calls += seen.calls;
        self.seen.choices += seen.choices;
        self.seen.limited += seen.limited;
    }
}

pub struct World {
    pub(crate) plan: Plan,
    pub(crate) plant: Plant,
    pub(crate) rng: Rng,
    pub(crate) procs: Vec<Proc>,
    pub(crate) lives: Vec<Life>,
    net: Net,
    pub(crate) disks: Vec<Disk>,
    /// The programs' own files, by job, rank and step.
    pub(crate) saved: BTreeMap<(usize, u32, u32), State>,
    /// Who has written an image of a line, and the cut of the first job in it.
    written: BTreeMap<LineId, (BTreeSet<usize>, BTreeMap<usize, u64>)>,
    /// The newest line that all have written, and its cut of the first job.
    pub(crate) whole: Option<(u64, LineId)>,
    pub(crate) figures: Figures,
    /// Counted in this life.
    acts: u64,
    restarting: u64,
    written_steps: u64,
}

impl World {
    pub fn new(seed: u64, plant: Plant) -> World {
        let plan = Plan::new(seed);
        let disks = plan.jobs.iter().map(|_| Disk::new(plant == Plant::NoSync)).collect();
        World {
            rng: Rng::new(hash(&[seed, 1])),
            plan,
            plant,
            procs: Vec::new(),
            lives: Vec::new(),
            net: Net::new(0, &[], 1),
            disks,
            saved: BTreeMap::new(),
            written: BTreeMap::new(),
            whole: None,
            figures: Figures::default(),
            acts: 0,
            restarting: 0,
            written_steps: 0,
        }
    }

    pub fn run(mut self) -> Result<Figures, String> {
        for life in 0.. {
            self.begin(life);
            let kill = self.plan.kills.get(life as usize).copied();
            let has_ended = self.live(kill).map_err(|e| format!("life {life}: {e}"))?;
            for proc in &self.procs {
                self.figures.see(proc.side.seen);
            }
            if has_ended {
                break;
            }
        }
        self.judge()?;
        Ok(self.figures)
    }

    fn begin(&mut self, life: u64) {
        self.figures.lives += 1;
        (self.acts, self.restarting, self.written_steps) = (0, 0, 0);
        self.written.clear();
        self.procs.clear();
        self.lives.clear();
        for (job, of) in self.plan.jobs.iter().enumerate() {
            let incarnation = self.rng.next();
            self.lives.push(Life::new(incarnation, of.size));
            for rank in 0..of.size {
                let own = ProcId { incarnation, rank };
                self.procs.push(Proc::new(&self.plan, self.procs.len(), job, own, life, self.plant));
            }
        }
        self.net = Net::new(self.procs.len(), &self.plan.slow, self.plan.batch);
    }

    /// One life. Whether it ended by itself.
    fn live(&mut self, kill: Option<(When, Scope, u64)>) -> Result<bool, String> {
        let mut lingers = None;
        let weights = self.plan.weights;
        let all: u64 = weights.iter().sum();
        for event in 0..MOST {
            self.figures.events += 1;
            if let Some(left) = &mut lingers {
                if *left == 0 {
                    return Ok(false);
                }
                *left -= 1;
            } else if let Some((when, scope, linger)) = kill
                && self.is_time(when)
            {
                self.kill(scope);
                lingers = Some(linger);
            }
            let roll = self.rng.below(all);
            if roll < weights[0] {
                let at = self.rng.index(self.procs.len());
                self.advance(at)?;
            } else if roll < weights[0] + weights[1] {
                self.bring()?;
            } else {
                let at = self.rng.index(self.procs.len());
                self.write(at)?;
            }
            if event % 64 == 0 && lingers.is_none() && self.is_over() {
                return Ok(true);
            }
        }
        let state: Vec<String> = self.procs.iter().map(Self::state).collect();
        Err(format!("it does not end\n  {}", state.join("\n  ")))
    }

    fn state(proc: &Proc) -> String {
        let at = proc.program.as_ref().map(Program::where_it_is).unwrap_or_default();
        let replays = proc.process.is_replaying();
        let waits = proc.side.waits();
        format!("job {} rank {}: {:?} replays {replays} {at}; waits {waits}", proc.job, proc.rank, proc.phase)
    }

    fn is_over(&self) -> bool {
        let is_done = |proc: &Proc| proc.phase == Phase::Over && proc.side.works.is_empty() && proc.doing.is_none();
        self.procs.iter().all(is_done) && self.net.is_empty()
    }

    fn is_time(&self, when: When) -> bool {
        match when {
            When::Acts(n) => self.acts >= n,
            When::Disk(n) => self.written_steps >= n,
            When::Restart(n) => self.restarting >= n,
        }
    }

    fn kill(&mut self, scope: Scope) {
        self.figures.kills += 1;
        let plan = &self.plan;
        let machine = |job: usize| match scope {
            Scope::Machine(host) => plan.jobs[job].host == host,
            Scope::Power => true,
            _ => false,
        };
        for proc in &mut self.procs {
            let killed = match scope {
                Scope::Process(place) => proc.place == place,
                Scope::Job(job) => proc.job == job,
                Scope::All => true,
                Scope::Machine(_) | Scope::Power => machine(proc.job),
            };
            if killed {
                proc.is_alive = false;
                self.net.killed(proc.place, &mut self.rng);
            }
        }
        for (job, disk) in self.disks.iter_mut().enumerate() {
            if machine(job) {
                disk.crash(&mut self.rng);
            }
        }
    }

    fn settle(&mut self, at: usize) {
        let proc = &mut self.procs[at];
        proc.side.put_out(&mut proc.process, &mut self.net, proc.place);
        let held = proc.process.held(proc.own);
        self.figures.most_cuts = self.figures.most_cuts.max(held.cuts as u64);
        self.figures.most_logged = self.figures.most_logged.max(held.logged as u64);
    }

    fn bring(&mut self) -> Result<(), String> {
        let Some((from, to, parcel)) = self.net.bring(&mut self.rng) else { return Ok(()) };
        let (remote, place) = (self.procs[from].own, from);
        let proc = &mut self.procs[to];
        if !proc.is_alive {
            return Ok(());
        }
        let peer = proc.side.peer(remote, place);
        match parcel {
            Parcel::Messages(all) => all.iter().try_for_each(|bytes| proc.side.take(peer, bytes))?,
            Parcel::Bulk(bulk) => proc.side.take_bulk(peer, &bulk),
        }
        self.settle(to);
        Ok(())
    }

    // ---- files

    fn write(&mut self, at: usize) -> Result<(), String> {
        let proc = &mut self.procs[at];
        if !proc.is_alive {
            return Ok(());
        }
        if proc.doing.is_none() {
            let Some(work) = proc.side.works.pop_front() else { return Ok(()) };
            let full =
                matches!(work, Work::Write(_)) && self.plan.full_disk > 0 && self.rng.one_in(self.plan.full_disk);
            proc.doing = Some(Doing::new(work, full));
            if self.plant == Plant::ToldBeforeSync {
                self.told_written(at);
            }
        }
        let proc = &mut self.procs[at];
        let Some(doing) = &mut proc.doing else { return Ok(()) };
        self.written_steps += 1;
        let Some(done) = self.disks[proc.job].step(doing) else { return Ok(()) };
        match (doing.work.clone(), done) {
            (Work::Write(_), Ok(())) if self.plant == Plant::ToldBeforeSync => (),
            (Work::Write(_), Ok(())) => self.told_written(at),
            (Work::Write(image), Err(why)) if doing.full => {
                self.figures.unwritten += 1;
                let Proc { process, side, own, .. } = proc;
                process.image_written(side, *own, image.head.line, Err(why));
            }
            (Work::Commit(serial, _), Ok(())) => {
                self.figures.committed += 1;
                proc.process.line_complete(proc.own, serial, Ok(()));
            }
            (work, Err(why)) => return Err(format!("{why}: {work:?}")),
        }
        self.procs[at].doing = None;
        self.settle(at);
        Ok(())
    }

    /// A process tells that its image is on the disk.
    fn told_written(&mut self, at: usize) {
        let proc = &mut self.procs[at];
        let Some(Work::Write(image)) = proc.doing.as_ref().map(|doing| doing.work.clone()) else { return };
        let Proc { process, side, own, job, .. } = proc;
        process.image_written(side, *own, image.head.line, Ok(()));
        let (who, cuts) = self.written.entry(image.head.line).or_default();
        who.insert(at);
        cuts.insert(*job, image.head.serial);
        if who.len() == self.procs.len() {
            self.figures.lines += 1;
            self.whole = self.whole.max(Some((cuts[&0], image.head.line)));
        }
        self.settle(at);
    }

    // ---- processes

    fn advance(&mut self, at: usize) -> Result<(), String> {
        if !self.procs[at].is_alive {
            return Ok(());
        }
        match self.procs[at].phase {
            Phase::Begun => self.find(at),
            Phase::Choosing => {
                let job = self.procs[at].job;
                if self.lives[job].has_met {
                    self.procs[at].phase = Phase::Opening;
                } else if self.procs[at].rank == 0 {
                    self.lead(at)?;
                }
            }
            Phase::Opening => self.open(at)?,
            Phase::Resuming => self.resume(at)?,
            Phase::Ready => self.go_on(at)?,
            Phase::Running => self.turn(at)?,
            Phase::Called => self.cut(at),
            Phase::Cut => self.leave_call(at),
            Phase::Over => return Ok(()),
        }
        if !matches!(self.procs[at].phase, Phase::Running | Phase::Called | Phase::Cut | Phase::Over) {
            self.restarting += 1;
        }
        self.settle(at);
        Ok(())
    }

    fn turn(&mut self, at: usize) -> Result<(), String> {
        self.acts += 1;
        let proc = &mut self.procs[at];
        let (job, rank, own) = (proc.job, proc.rank, proc.own);
        let Proc { side, process, program: Some(program), .. } = &mut *proc else { return Ok(()) };
        if program.is_over(&self.plan) {
            if program.has_sent(side) {
                proc.phase = Phase::Over;
            }
            return Ok(());
        }
        let native = &mut self.lives[job].native;
        let (plan, rng, plant) = (&self.plan, &mut self.rng, self.plant);
        let turn = program.turn(&mut program::World { plan, side, process, native, rng, plant })?;
        if turn == Turn::Waits {
            self.acts -= 1;
        }
        let step = program.state.step;
        if turn == Turn::Step && step.is_multiple_of(self.plan.jobs[job].every) && !program.is_over(&self.plan) {
            // The program's own file, and then the call.
            self.saved.insert((job, rank, step), program.state.clone());
            let life = &mut self.lives[job];
            let call = &mut life.calls[rank as usize];
            *call += 1;
            if process.take_trouble(own).is_some() {
                life.troubled.insert(*call);
            }
            proc.phase = Phase::Called;
        }
        Ok(())
    }

    /// All have called: the process makes its cut, unless an earlier image could not be written.
    fn cut(&mut self, at: usize) {
        let proc = &mut self.procs[at];
        let life = &mut self.lives[proc.job];
        let call = life.calls[proc.rank as usize];
        if life.calls.iter().any(|other| *other < call) {
            return;
        }
        if life.troubled.contains(&call) {
            life.cuts[proc.rank as usize] += 1;
            proc.phase = Phase::Running;
            return;
        }
        let mut jobs: Vec<(Job, String, u32)> = Vec::new();
        let (mut inters, mut open) = (Vec::new(), BTreeMap::<Job, BTreeSet<ContextId>>::new());
        let of_life: Vec<Job> = self.lives.iter().map(|life| life.incarnation).collect();
        for view in &proc.views {
            let (other, of) = (of_life[view.job], &self.plan.jobs[view.job]);
            let remote = jobs.iter().position(|(known, ..)| *known == other).unwrap_or_else(|| {
                jobs.push((other, of.name.to_owned(), of.size));
                jobs.len() - 1
            });
            let (remote, members) = (remote as u32, view.members.clone());
            let (context, rank) = (view.context, proc.rank);
            inters.push(Inter { remote, context, children: 0, rank, members, name: Vec::new() });
            open.entry(other).or_default().insert(context);
        }
        let step = proc.program.as_ref().map_or(0, |program| program.state.step);
        let besides = Besides { label: format!("step-{step}"), jobs, contexts: BTreeMap::new(), inters };
        let store = Store::new(Path::new("/"), self.plan.jobs[proc.job].name);
        let Proc { process, side, own, .. } = &mut *proc;
        let (serial, joined, rows) = process.cut(side, *own, store, besides).expect("it is tracked");
        proc.serial = serial;
        let life = &mut self.lives[proc.job];
        let joined = joined.into_iter().map(|job| (job, open.remove(&job).unwrap_or_default())).collect();
        life.told[proc.rank as usize] = Some((joined, rows));
        life.cuts[proc.rank as usize] += 1;
        proc.phase = Phase::Cut;
    }

    /// All have made their cuts: the leader tells the other jobs, and the program goes on.
    fn leave_call(&mut self, at: usize) {
        let proc = &mut self.procs[at];
        let life = &mut self.lives[proc.job];
        let call = life.calls[proc.rank as usize];
        if life.cuts.iter().any(|other| *other < call) {
            return;
        }
        proc.phase = Phase::Running;
        if proc.rank > 0 {
            return;
        }
        life.made += 1;
        let (mut of_all, mut joined) = (AllRows::new(), BTreeMap::<Job, BTreeSet<ContextId>>::new());
        for (rank, told) in (0u32..).zip(&life.told) {
            let Some((jobs, rows)) = told else { continue };
            for (job, contexts) in jobs {
                joined.entry(*job).or_default().extend(contexts);
            }
            for (peer, row) in rows {
                of_all.entry(*peer).or_default().insert(rank, row.clone());
            }
        }
        let with = |(job, contexts)| {
            let at = self.lives.iter().position(|life| life.incarnation == job).expect("a job of this life");
            (job, With { size: self.plan.jobs[at].size, contexts })
        };
        let others: BTreeMap<Job, With> = joined.into_iter().map(with).collect();
        let (serial, Proc { process, side, own, .. }) = (proc.serial, proc);
        process.announce(side, *own, serial, others, of_all);
    }

    // ---- the end

    fn judge(&mut self) -> Result<(), String> {
        for proc in &self.procs {
            let Some(program) = &proc.program else { return Err("it has not run".into()) };
            let who = format!("job {} rank {}", proc.job, proc.rank);
            let mut sum = 0_u64;
            for view in &proc.views {
                for from in 0..view.members.len() as u32 {
                    for step in 0..self.plan.steps {
                        sum =
                            sum.wrapping_add(program::content(&self.plan, view.inter, view.job, from, view.rank, step));
                    }
                }
            }
            if sum != program.state.sum {
                return Err(format!("{who}: the result is another one"));
            }
            self.figures.messages += program.state.received;
            // What was told last was heard last.
            for (inter, member, told, ..) in program.ends() {
                let job = proc.views.iter().find(|view| view.inter == inter).map(|view| view.job);
                let other = self.procs.iter().find(|other| Some(other.job) == job && other.rank == member);
                let mut ends = other.and_then(|other| other.program.as_ref()).into_iter().flat_map(Program::ends);
                let heard = ends.find(|end| end.0 == inter && end.1 == proc.rank).map(|end| end.3);
                if heard != Some(told) {
                    return Err(format!("{who}: the last message was told otherwise"));
                }
            }
            let held = proc.process.held(proc.own);
            let has_cut = self.lives[proc.job].made > 0;
            let most_rows = if has_cut { 2 } else { 8 } * (self.plan.jobs.len() - 1);
            if held.cuts > 1 || held.lines > 0 || held.rows > most_rows {
                let made: Vec<u64> = self.lives.iter().map(|life| life.made).collect();
                return Err(format!("{who} keeps {held:?}; cuts were made {made:?}"));
            }
            if proc.process.is_replaying() {
                return Err(format!("{who} still does again what it did"));
            }
        }
        let all_cut = self.lives.iter().all(|life| life.made > 0);
        if all_cut && self.plan.full_disk == 0 && !self.written.values().any(|(who, _)| who.len() == self.procs.len()) {
            return Err("all have made cuts, and there is no line".into());
        }
        for disk in &self.disks {
            let lines = disk.lines();
            let complete = lines.iter().filter(|line| line.2 == End::Complete).count();
            if complete > 2 && self.plan.full_disk == 0 && all_cut {
                return Err(format!("{complete} complete lines are kept"));
            }
        }
        Ok(())
    }
}
