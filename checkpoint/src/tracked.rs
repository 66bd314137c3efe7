//! The checkpoints of one process of one job: its cuts, what it tells other processes, its images, and its restart.
//!
//! Invariant: a line that cannot be written here stays incomplete, and the last complete one stays as it is.

use crate::around::{AllRows, Around, Besides, Opened, Place, With};
use crate::image::{Head, Image, OfPair, Remote};
use crate::leader::Leader;
use crate::line::{Done, Job, LineId, Row};
use crate::member::{Held, Member, Snapshot, Whole};
use crate::message::Message;
use crate::outcomes::{Call, Chosen, Next, Outcomes, Recorder, Replay};
use crate::parts;
use crate::restart::{Choice, Known, choose};
use crate::resuming::Resuming;
use crate::store::Store;
use base::ProcId;
use engine::Kept;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The last lines of one report that are looked at: those of some leaders that plan, one after the other.
const MOST_REPORTED: usize = 64;

/// What a cut tells: its number, the jobs that it is joined with, and the rows for their processes.
pub type Made = (u64, BTreeSet<Job>, BTreeMap<ProcId, Row>);

/// A process of a job.
#[derive(Clone, Debug)]
pub(crate) struct Tracked<I> {
    name: String,
    own: ProcId,
    size: u32,
    member: Member<Arc<Besides>>,
    /// On the leader.
    leader: Option<Leader>,
    /// Where images go, once there is a checkpoint.
    store: Option<Store>,
    /// The number of the last cut.
    serial: u64,
    /// Leaders that are told which lines are written here.
    reports_to: BTreeMap<LineId, ProcId>,
    resuming: Resuming<I>,
    /// What the program is to find again after a restart.
    replay: Option<Replay>,
    /// Leaders that are told when it has done again what it must.
    tells_replayed: Vec<ProcId>,
    /// The other jobs of its image: their leaders say when all have.
    replays_with: BTreeSet<Job>,
    /// An image could not be written, for this reason.
    trouble: Option<String>,
}

impl<I: Copy> Tracked<I> {
    pub fn new(own: ProcId, name: &str, size: u32) -> Tracked<I> {
        Tracked {
            name: name.to_owned(),
            own,
            size,
            member: Member::new(own),
            leader: (own.rank == 0).then(|| Leader::new(own.incarnation)),
            store: None,
            serial: 0,
            reports_to: BTreeMap::new(),
            resuming: Resuming::new(),
            replay: None,
            tells_replayed: Vec::new(),
            replays_with: BTreeSet::new(),
            trouble: None,
        }
    }

    pub fn is_logging(&self) -> bool {
        self.member.is_logging()
    }

    /// Whether outcomes are noted, or found again.
    pub fn cares_for_outcomes(&self) -> bool {
        self.member.is_noting() || self.replay.is_some()
    }

    pub fn held(&self) -> Held {
        self.member.held()
    }

    pub fn take_trouble(&mut self) -> Option<String> {
        self.trouble.take()
    }

    // ---- a checkpoint

    pub fn cut(&mut self, around: &mut impl Around<Inter = I>, store: Store, besides: Besides) -> Made {
        let of = around.cut(self.own);
        let joined = around.joined(self.own);
        let rows = of.iter().filter(|(_, of)| (of.sent, of.arrived) != (0, 0)).map(|(peer, of)| {
            let leaving = of.leaving.iter().map(|kept| kept.number).collect();
            (*peer, Row { sent: of.sent, arrived: of.arrived, leaving })
        });
        let rows = rows.collect();
        let outcomes = Recorder::new(around.wildcards(self.own));
        self.serial += 1;
        self.store = Some(store);
        self.member.cut(self.serial, Snapshot { of, joined: joined.clone(), outcomes, rest: Arc::new(besides) });
        (self.serial, joined, rows)
    }

    /// The last cut had this number: the next one is newer, also where there is no pair to resume.
    pub fn number_cuts_from(&mut self, serial: u64) {
        self.serial = serial;
        if let Some(leader) = &mut self.leader {
            leader.number_cuts_from(serial);
        }
    }

    pub fn drop_cut(&mut self, serial: u64) {
        self.member.drop_cut(serial);
    }

    pub fn announce(
        &mut self,
        around: &mut impl Around<Inter = I>,
        serial: u64,
        joined: BTreeMap<Job, With>,
        mut rows: AllRows,
    ) {
        for (job, With { size, .. }) in &joined {
            for rank in 0..*size {
                let to = ProcId { incarnation: *job, rank };
                for message in parts::of_rows(serial, rows.remove(&to).unwrap_or_default()) {
                    around.tell(self.own, to, &message.encode());
                }
            }
        }
        if let Some(leader) = &mut self.leader {
            let joined = joined.into_iter().map(|(job, with)| (job, with.digest())).collect();
            leader.cut(serial, &self.name, self.size, joined);
            if let Some((count, job, has_cuts)) = leader.unpaired() {
                let job = ProcId { incarnation: job, rank: 0 };
                let why = if has_cuts { "had other inter-communicators open at its last one" } else { "has made none" };
                base::log!(
                    Notice,
                    "the last {count} checkpoints of '{}' are not complete: the job of {job} {why}",
                    self.name
                );
            }
        }
        self.go_on(around);
    }

    pub fn log(&mut self, around: &mut impl Around<Inter = I>, from: ProcId, kept: Kept) {
        if self.member.log(from, kept) {
            self.go_on(around);
        }
    }

    pub fn told(&mut self, around: &mut impl Around<Inter = I>, remote: ProcId, message: Message) {
        let (job, leads) = (remote.incarnation, remote.rank == 0);
        match message {
            Message::Rows(serial, rows, is_last) if leads => {
                let size = around.size_of(self.own, job).unwrap_or(u32::MAX);
                if rows.keys().all(|rank| *rank < size) {
                    self.member.rows(job, serial, rows, is_last);
                }
            }
            Message::Board(board) if leads => {
                if let Some(leader) = &mut self.leader {
                    leader.hear(job, *board);
                }
            }
            Message::Lines(mut report) if leads => {
                report.lines.retain(|line| line.cuts.contains_key(&self.own.incarnation));
                let surplus = report.lines.len().saturating_sub(MOST_REPORTED);
                report.lines.drain(..surplus);
                // Those of which another leader has told are none of its business.
                self.reports_to.retain(|id, to| *to != remote || report.lines.iter().any(|line| line.id == *id));
                for line in &report.lines {
                    self.reports_to.entry(line.id).or_insert(remote);
                }
                for (id, done) in self.member.lines(*report) {
                    around.tell(self.own, remote, &Message::Done(id, done).encode());
                }
                self.member.close(self.replay.as_ref());
            }
            Message::Done(id, done) => {
                if let Some(leader) = &mut self.leader {
                    leader.done(id, job, remote.rank, done);
                }
            }
            Message::Replayed => {
                if let Some(leader) = &mut self.leader {
                    leader.replayed(job, remote.rank);
                }
            }
            Message::AllReplayed if leads && self.replays_with.contains(&job) => self.end_replay(around),
            Message::Again(from_image, once_more, is_all) => {
                self.resuming.wants(around, (self.own, remote), from_image, once_more, is_all);
            }
            Message::Resumed => self.resuming.send_image(around, remote),
            Message::Rows(..) | Message::Board(_) | Message::Lines(_) | Message::AllReplayed => (),
        }
        self.go_on(around);
    }

    /// A process of which it is not known whether it is that one has told something. A leader that restarts may have come sooner
    /// than this one looks for it: it is answered. Nothing that a stranger tells is kept.
    pub fn told_by_stranger(&mut self, around: &mut impl Around<Inter = I>, remote: ProcId, message: &Message) {
        if let (Message::Board(board), Some(leader), 0) = (message, &mut self.leader, remote.rank) {
            leader.hear_stranger(remote.incarnation, board);
            self.go_on(around);
        }
    }

    /// Tells what is to be told, and has written what is whole.
    fn go_on(&mut self, around: &mut impl Around<Inter = I>) {
        let own = self.own;
        loop {
            let whole = self.member.next_whole();
            for id in self.member.given_up() {
                self.tell_done(around, id, Done::Failed);
            }
            if let Some(whole) = whole {
                let image = self.image_of(whole);
                if let Some(store) = &self.store {
                    around.write(own, store, image);
                }
                continue;
            }
            let Some(leader) = &mut self.leader else { break };
            if let Some(job) = leader.next_told() {
                let board = Message::Board(Box::new(leader.board().clone())).encode();
                around.tell(own, ProcId { incarnation: job, rank: 0 }, &board);
            } else if let Some((job, report)) = leader.next_report() {
                let told = Message::Lines(Box::new(report)).encode();
                for to in around.processes_of(own, job) {
                    around.tell(own, to, &told);
                }
            } else if let Some((id, serial)) = leader.next_complete() {
                if let Some(store) = &self.store {
                    around.commit(own, store, serial, id);
                }
            } else if let Some(jobs) = leader.next_all_replayed() {
                for to in jobs.into_iter().flat_map(|job| around.processes_of(own, job)).collect::<Vec<_>>() {
                    around.tell(own, to, &Message::AllReplayed.encode());
                }
            } else {
                break;
            }
        }
    }

    fn image_of(&self, whole: Whole<Arc<Besides>>) -> Image {
        let Whole { line, serial, of, outcomes, rest: besides } = whole;
        let head = Head {
            job: self.name.clone(),
            rank: self.own.rank,
            size: self.size,
            serial,
            label: besides.label.clone(),
            line: line.id,
            jobs: line.names,
        };
        let remote = |(job, name, size): &(Job, String, u32)| {
            let contexts = besides.contexts.get(job).copied().unwrap_or(0);
            Remote { name: name.clone(), size: *size, contexts, of: Vec::new() }
        };
        let mut remotes: Vec<Remote> = besides.jobs.iter().map(remote).collect();
        for (peer, of) in of {
            let at = besides.jobs.iter().position(|(job, ..)| *job == peer.incarnation);
            if let Some(remote) = at.and_then(|at| remotes.get_mut(at)) {
                remote.of.push((peer.rank, of));
            }
        }
        let place_of = |job| besides.jobs.iter().position(|(known, ..)| *known == job).map(|at| at as u32);
        Image { head, remotes, inters: besides.inters.clone(), outcomes: outcomes.outcomes(place_of) }
    }

    /// Tells the leader that has told of a line.
    fn tell_done(&self, around: &mut impl Around<Inter = I>, id: LineId, done: Done) {
        if let Some(to) = self.reports_to.get(&id) {
            around.tell(self.own, *to, &Message::Done(id, done).encode());
        }
    }

    pub fn image_written(&mut self, around: &mut impl Around<Inter = I>, id: LineId, written: Result<(), String>) {
        match written {
            Ok(()) => self.tell_done(around, id, Done::Written),
            Err(why) => {
                base::log!(Error, "a checkpoint of '{}' cannot be written: {why}", self.name);
                self.tell_done(around, id, Done::Failed);
                self.trouble = Some(why);
            }
        }
    }

    pub fn line_complete(&mut self, serial: u64, done: Result<(), String>) {
        match done {
            Ok(()) => base::log!(Info, "checkpoint {serial} of '{}' is complete", self.name),
            Err(why) => {
                base::log!(Error, "a checkpoint of '{}' is complete, and cannot be named so: {why}", self.name);
                self.trouble = Some(why);
            }
        }
    }

    // ---- a restart

    pub fn tell_known(&mut self, around: &mut impl Around<Inter = I>, known: Known, with: &[ProcId]) {
        if let Some(leader) = &mut self.leader {
            with.iter().for_each(|other| leader.meet(other.incarnation));
            leader.knows(known);
        }
        self.go_on(around);
    }

    pub fn tell_again(&mut self, around: &mut impl Around<Inter = I>) {
        if let Some(leader) = &mut self.leader {
            leader.repeat();
        }
        self.go_on(around);
    }

    pub fn choice(&self, known: &Known) -> Choice {
        let others = self.leader.iter().flat_map(|leader| leader.board().known());
        choose(known, others.filter(|(job, _)| **job != self.own.incarnation).map(|(_, known)| known))
    }

    pub fn begin_resume(
        &mut self,
        around: &mut impl Around<Inter = I>,
        job: Job,
        of: Vec<(u32, OfPair)>,
        opened: Vec<Opened<I>>,
    ) {
        self.resuming.begin(around, self.own, job, of, opened);
    }

    pub fn untold(&self) -> BTreeSet<ProcId> {
        self.resuming.untold()
    }

    pub fn begin_replay(
        &mut self,
        around: &mut impl Around<Inter = I>,
        jobs: &BTreeSet<String>,
        outcomes: Outcomes,
        others: &[Job],
        places: &[Place<I>],
    ) {
        for (place, context, inter, _) in places {
            around.limit(*inter, outcomes.limits(*place, *context));
        }
        self.replay = Some(Replay::new(outcomes, |at| others.get(at as usize).copied()));
        self.replays_with = others.iter().copied().collect();
        self.tells_replayed = others.iter().map(|job| ProcId { incarnation: *job, rank: 0 }).collect();
        if let Some(leader) = &mut self.leader {
            leader.restarts(jobs.clone());
        }
        self.tell_replayed(around);
    }

    // ---- outcomes

    pub fn next_outcome(&self, call: Call) -> Next {
        self.replay.as_ref().map_or(Next::Free, |replay| replay.next(call))
    }

    pub fn is_replaying(&self) -> bool {
        self.replay.is_some()
    }

    /// A call has found this, or nothing. `false`: the program does not do again what it did.
    pub fn note(&mut self, around: &mut impl Around<Inter = I>, call: Call, found: Option<&[u32]>) -> bool {
        self.member.note(call, found);
        let Some(replay) = &mut self.replay else { return true };
        if replay.next(call) == Next::Free {
            return replay.is_past_calls();
        }
        replay.done(call);
        self.tell_replayed(around);
        true
    }

    /// A receive from any source has got a message.
    pub fn chose(&mut self, around: &mut impl Around<Inter = I>, job: Job, chosen: Chosen) {
        self.member.chose(job, chosen);
        if let Some(replay) = &mut self.replay {
            replay.chose(job, &chosen);
            self.tell_replayed(around);
        }
    }

    /// Tells other leaders that this process has done again what it must, once it has, or never will.
    fn tell_replayed(&mut self, around: &mut impl Around<Inter = I>) {
        if self.tells_replayed.is_empty() || !self.replay.as_ref().is_none_or(Replay::has_done_all) {
            return;
        }
        for leader in std::mem::take(&mut self.tells_replayed) {
            around.tell(self.own, leader, &Message::Replayed.encode());
        }
        self.go_on(around);
    }

    /// All processes have done again what they must: from now on each finds what there is.
    fn end_replay(&mut self, around: &mut impl Around<Inter = I>) {
        if self.replay.take().is_some() {
            base::log!(Debug, "{} has done again what it must", self.own);
            around.unlimit();
        }
    }

    /// See [`crate::Process::stop_replay`].
    pub fn stop_replay(&mut self, around: &mut impl Around<Inter = I>, why: &str) -> bool {
        let Some(replay) = &self.replay else { return true };
        let had_done_all = replay.has_done_all();
        if !had_done_all {
            base::log!(Error, "after the restart the program does not do again what it did: {why}");
        }
        self.end_replay(around);
        self.tell_replayed(around);
        had_done_all
    }
}
