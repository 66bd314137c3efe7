//! What leaders tell each other: all that is known of cuts and lines, by job.
//!
//! Invariants: what a board knows only grows, in whatever order and however often it is told; all that others have told stays below
//! [`MOST_BOARD`], and what one of them tells takes no room of what the others do.

use crate::line::{Done, Job, LineId, NUMBERS, Planned, cost_of_names as names};
use crate::restart::Known;
use base::shares::share;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The last lines that a leader remembers of each that plans.
pub(crate) const MOST_LINES: usize = 4;
/// Bytes of what others have told. With the lines that are planned from it, a board fits a message.
pub(crate) const MOST_BOARD: usize = 256 << 10;
/// What a job counts for besides its names and numbers, so that there are few: some steps look at any two of them.
const JOB: usize = 512;

/// What the leader of a job tells of its newest cut.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Newest {
    /// Its serial number.
    pub serial: u64,
    /// The jobs that its job was joined with, and a digest of the inter-communicators that were open between both.
    pub joined: BTreeMap<Job, u64>,
    /// The number of processes of its job.
    pub size: u32,
    /// Its name.
    pub name: String,
}

/// What one leader has planned.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Plan {
    /// The newest cuts that it knew; later lines have these or newer ones.
    pub seen: BTreeMap<Job, u64>,
    /// The last lines.
    pub lines: Vec<Planned>,
}

impl Plan {
    fn merge(&mut self, theirs: Plan) {
        for (job, serial) in theirs.seen {
            let seen = self.seen.entry(job).or_default();
            *seen = serial.max(*seen);
        }
        self.lines.extend(theirs.lines);
        self.lines.sort_by_key(|line| line.id.count);
        self.lines.dedup_by_key(|line| line.id.count);
        self.keep_last();
    }

    /// Forgets all but the last lines.
    pub(crate) fn keep_last(&mut self) {
        let surplus = self.lines.len().saturating_sub(MOST_LINES);
        self.lines.drain(..surplus);
    }
}

/// All that a leader knows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Board {
    pub(crate) newest: BTreeMap<Job, Newest>,
    pub(crate) plans: BTreeMap<Job, Plan>,
    /// What each process of a job has done.
    pub(crate) done: BTreeSet<(LineId, Job, Done)>,
    /// What jobs have to restart from.
    pub(crate) known: BTreeMap<Job, Known>,
    /// Jobs of which each process has done again what it must, after a restart.
    pub(crate) replayed: BTreeSet<Job>,
}

/// What a board has of one job, and of the lines that its leader has planned.
#[derive(Clone, Debug, Default, PartialEq)]
struct Of {
    newest: Option<Newest>,
    plan: Option<Plan>,
    known: Option<Known>,
    done: BTreeSet<(LineId, Job, Done)>,
    replayed: bool,
}

impl Of {
    fn merge(&mut self, theirs: Of) {
        if let Some(newest) = theirs.newest
            && self.newest.as_ref().is_none_or(|ours| newest.serial > ours.serial)
        {
            self.newest = Some(newest);
        }
        if let Some(plan) = theirs.plan {
            self.plan.get_or_insert_default().merge(plan);
        }
        if let Some(known) = theirs.known
            && self.known.as_ref().is_none_or(|ours| known.version > ours.version)
        {
            self.known = Some(known);
        }
        self.done.extend(theirs.done);
        let plan = &self.plan;
        self.done.retain(|done| plan.as_ref().is_some_and(|plan| is_of_line(plan, done)));
        self.replayed |= theirs.replayed;
    }

    /// Bytes that it takes in a message, at most, and what a job counts for.
    fn cost(&self) -> usize {
        let newest = self.newest.as_ref().map_or(0, |newest| NUMBERS * newest.joined.len() + names([&newest.name]));
        let plan = self
            .plan
            .as_ref()
            .map_or(0, |plan| NUMBERS * plan.seen.len() + plan.lines.iter().map(Planned::cost).sum::<usize>());
        let known = self.known.as_ref().map_or(0, |known| {
            names([&known.name]) + known.lines.iter().map(|line| NUMBERS + names(&line.jobs)).sum::<usize>()
        });
        JOB + newest + plan + known + 2 * NUMBERS * self.done.len()
    }
}

/// Whether this was done for a line that is remembered, by a job in it.
fn is_of_line(plan: &Plan, (id, job, _): &(LineId, Job, Done)) -> bool {
    plan.lines.iter().any(|line| line.id == *id && line.cuts.contains_key(job))
}

/// Who has told of which job first, unless that has told of itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tellers(BTreeMap<Job, Job>);

impl Board {
    fn take(&mut self, job: Job) -> Of {
        let its = (LineId { by: job, count: 0 }, 0, Done::Heard)
            ..=(LineId { by: job, count: u64::MAX }, u64::MAX, Done::Failed);
        let done: BTreeSet<_> = self.done.range(its).copied().collect();
        for one in &done {
            self.done.remove(one);
        }
        let (newest, plan, known) = (self.newest.remove(&job), self.plans.remove(&job), self.known.remove(&job));
        Of { newest, plan, known, done, replayed: self.replayed.remove(&job) }
    }

    fn put(&mut self, job: Job, of: Of) {
        of.newest.into_iter().for_each(|newest| drop(self.newest.insert(job, newest)));
        of.plan.into_iter().for_each(|plan| drop(self.plans.insert(job, plan)));
        of.known.into_iter().for_each(|known| drop(self.known.insert(job, known)));
        self.done.extend(of.done);
        if of.replayed {
            self.replayed.insert(job);
        }
    }

    /// Whether it has more than a board may. The sender's own job, and what was done for its lines, is counted nowhere.
    pub(crate) fn is_too_large(&self) -> bool {
        let jobs = [self.newest.len(), self.plans.len(), self.known.len(), self.replayed.len()];
        jobs.into_iter().any(|jobs| jobs > MOST_BOARD / JOB + 1) || self.done.len() > MOST_BOARD / NUMBERS
    }

    /// The jobs of which it knows something.
    fn jobs(&self) -> BTreeSet<Job> {
        let planned = self.done.iter().map(|(id, ..)| id.by);
        let all = self.newest.keys().chain(self.plans.keys()).chain(self.known.keys()).chain(&self.replayed);
        all.copied().chain(planned).collect()
    }

    /// Leaves out what the leader of this job says best itself.
    fn without_own(mut self, job: Job) -> Board {
        self.newest.remove(&job);
        self.plans.remove(&job);
        self.known.remove(&job);
        self
    }

    /// Takes in what another leader knows, for the leader of `own`. Returns whether something was new.
    pub(crate) fn hear(&mut self, own: Job, from: Job, other: Board, tellers: &mut Tellers) -> bool {
        let mut other = other.without_own(own);
        let mut costs: BTreeMap<Job, usize> = tellers.0.keys().map(|job| (*job, self.cost_of(*job))).collect();
        let mut jobs = other.jobs();
        jobs.remove(&from);
        let (mut is_new, mut has_tidied, mut is_full) = (false, false, false);
        for job in std::iter::once(from).chain(jobs) {
            let before = self.take(job);
            if is_full && before == Of::default() {
                continue;
            }
            let mut after = before.clone();
            after.merge(other.take(job));
            if after == before {
                self.put(job, before);
                continue;
            }
            let teller = if job == from { from } else { tellers.0.get(&job).copied().unwrap_or(from) };
            let cost = after.cost();
            let mut fits = job == own || tellers.fits(&costs, job, teller, cost);
            if !fits && !std::mem::replace(&mut has_tidied, true) {
                self.forget_others(own, tellers);
                costs.retain(|job, _| tellers.0.contains_key(job));
                fits = tellers.fits(&costs, job, teller, cost);
            }
            if !fits {
                base::log_seldom!(
                    Info,
                    "the leader of job {teller:x} tells more of checkpoints than there is room for"
                );
                self.put(job, before);
                is_full = true;
                continue;
            }
            is_new = true;
            if job != own {
                tellers.0.insert(job, teller);
                costs.insert(job, cost);
            }
            self.put(job, after);
        }
        is_new
    }

    fn cost_of(&mut self, job: Job) -> usize {
        let of = self.take(job);
        let cost = of.cost();
        self.put(job, of);
        cost
    }

    /// Forgets jobs that are not joined with this one any more, as far as the newest cuts tell.
    fn forget_others(&mut self, own: Job, tellers: &mut Tellers) {
        if self.newest.contains_key(&own) {
            let joined = self.joined(own);
            tellers.0.retain(|job, _| joined.contains(job));
            self.jobs().difference(&joined).for_each(|job| drop(self.take(*job)));
        }
    }

    /// Whether another leader, that of `to`, lacks something of what is known here, if this is all that it knows.
    pub(crate) fn is_news_to(&self, to: Job, theirs: &Board) -> bool {
        let mut ours = self.clone().without_own(to);
        let mut theirs = theirs.clone();
        ours.jobs().into_iter().any(|job| {
            let before = theirs.take(job);
            let mut after = before.clone();
            after.merge(ours.take(job));
            after != before
        })
    }

    /// Forgets what was done for lines that are no longer remembered.
    pub(crate) fn forget(&mut self) {
        let plans = &self.plans;
        self.done.retain(|done| plans.get(&done.0.by).is_some_and(|plan| is_of_line(plan, done)));
    }

    /// Whether each process of each job of a line has done this.
    pub(crate) fn have_all(&self, line: &Planned, done: Done) -> bool {
        line.cuts.keys().all(|job| self.done.contains(&(line.id, *job, done)))
    }

    /// What jobs have told to restart from.
    pub fn known(&self) -> &BTreeMap<Job, Known> {
        &self.known
    }

    /// The jobs that are joined with this one, directly or not, as far as their newest cuts tell.
    pub(crate) fn joined(&self, job: Job) -> BTreeSet<Job> {
        let (mut all, mut next) = (BTreeSet::new(), vec![job]);
        while let Some(job) = next.pop() {
            if !all.insert(job) {
                continue;
            }
            match self.newest.get(&job) {
                Some(newest) => next.extend(newest.joined.keys()),
                // It has no cut, and others have that are joined with it.
                None => next
                    .extend(self.newest.iter().filter(|(_, of)| of.joined.contains_key(&job)).map(|(other, _)| other)),
            }
        }
        all
    }

    /// The newest cuts of these jobs, if each has one, and for any two of them both cuts have the same inter-communicators: none was
    /// made or freed between the two.
    pub(crate) fn fitting(&self, jobs: &BTreeSet<Job>) -> Option<BTreeMap<Job, u64>> {
        let newest = |job: &Job| Some((*job, self.newest.get(job)?.serial));
        let all: BTreeMap<Job, u64> = jobs.iter().map(newest).collect::<Option<_>>()?;
        let fits = |job: &Job, other: &Job| self.open(*job, *other) == self.open(*other, *job);
        jobs.iter().all(|job| jobs.iter().all(|other| fits(job, other))).then_some(all)
    }

    /// The digest of the inter-communicators that a job had open with another one at its newest cut.
    pub(crate) fn open(&self, job: Job, with: Job) -> Option<u64> {
        self.newest.get(&job)?.joined.get(&with).copied()
    }

    /// Whether some process of a line will not write its image.
    pub(crate) fn has_failed(&self, line: &Planned) -> bool {
        line.cuts.keys().any(|job| self.done.contains(&(line.id, *job, Done::Failed)))
    }

    /// The lines in which this job is, the oldest first.
    pub(crate) fn lines_of(&self, job: Job) -> impl Iterator<Item = &Planned> {
        self.plans.values().flat_map(|plan| &plan.lines).filter(move |line| line.cuts.contains_key(&job))
    }
}

impl Tellers {
    /// Whether what this one has told of a job has room, when it takes so much.
    fn fits(&self, costs: &BTreeMap<Job, usize>, job: Job, teller: Job, cost: usize) -> bool {
        let (mut its, mut others) = (cost, 0);
        for (other, other_cost) in costs.iter().filter(|(other, _)| **other != job) {
            let sum = if self.0.get(other) == Some(&teller) { &mut its } else { &mut others };
            *sum += other_cost;
        }
        its <= share(MOST_BOARD, others)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leader::Leader;
    use crate::message::Message;
    use crate::restart::Old;

    /// What one message may have.
    const MAX: usize = 1 << 20;

    /// Jobs without end, with as many names and numbers as a message has room for.
    fn flood(from: Job) -> Board {
        let mut board = Board::default();
        for n in 0..400 {
            let job = (from << 32) + n;
            let joined = (0..4).map(|other| ((from << 32) + (n + other) % 400, 7)).chain([(1, 7)]).collect();
            board.newest.insert(job, Newest { serial: 1, joined, size: 3, name: format!("{from}-{n}").repeat(9) });
            let id = LineId { by: job, count: 3 };
            let names = [format!("{n}").repeat(20)].into();
            let line = Planned { id, cuts: [(job, 3), (1, u64::MAX)].into(), names };
            board.plans.insert(job, Plan { seen: [(1, u64::MAX)].into(), lines: vec![line] });
            board.done.extend([Done::Heard, Done::Written].map(|done| (id, 1, done)));
            let lines = vec![Old { id, jobs: ["x".repeat(40)].into(), complete: true }];
            board.known.insert(job, Known { version: 9, name: "x".into(), size: 1, runs: false, lines });
        }
        board
    }

    #[test]
    fn what_one_leader_tells_is_bounded_and_others_are_heard() {
        let mut leader = Leader::new(1);
        leader.cut(1, "air", 2, [(2, 7), (3, 7)].into());
        for from in 10..40 {
            leader.hear(3, flood(from));
        }
        let bytes = |leader: &Leader| Message::Board(Box::new(leader.board().clone())).encode().len();
        assert!(leader.board().jobs().len() > 50, "some of it is known");
        assert!(bytes(&leader) < MOST_BOARD, "{}", bytes(&leader));
        let mut friend = Leader::new(2);
        friend.cut(1, "ocean", 1, [(1, 7)].into());
        leader.hear(2, friend.board().clone());
        assert_eq!(leader.board().newest[&2].serial, 1);
        // Also where its name was used before it came.
        let mut board = Board::default();
        board.newest.insert(4, Newest { serial: 1, name: "x".repeat(1000), ..Newest::default() });
        leader.hear(3, board);
        let mut friend = Leader::new(4);
        friend.cut(2, "ice", 1, [(1, 7)].into());
        leader.hear(4, friend.board().clone());
        assert_eq!(leader.board().newest[&4].name, "ice");
        // Several that do so take what one does, and what it leads to fits a message.
        for from in 50..60 {
            leader.hear(from, flood(from));
        }
        assert!(bytes(&leader) < MAX, "{}", bytes(&leader));
    }

    #[test]
    fn a_board_of_more_jobs_than_there_is_room_for_is_not_read() {
        let heard = |jobs: u64| {
            let mut leader = Leader::new(1);
            leader.cut(1, "air", 2, [(2, 7)].into());
            let mut board = Board { replayed: (10..10 + jobs).collect(), ..Board::default() };
            board.newest.insert(2, Newest { serial: 1, size: 1, ..Newest::default() });
            assert_eq!(leader.next_told(), Some(2));
            leader.hear(2, board.clone());
            let heard = (leader.board().jobs().len() - 1, leader.next_told());
            leader.hear_stranger(3, &board);
            (heard, leader.next_told())
        };
        assert!(heard(100).0.0 > 100 && heard(100).1.is_some());
        let most = (MOST_BOARD / JOB) as u64;
        assert!(heard(most).0.0 > 100 && heard(most).1.is_some(), "as many as all others may tell of");
        assert_eq!(heard(240_000), ((0, None), None));
    }

    #[test]
    fn nobody_else_speaks_for_the_own_job() {
        let mut leader = Leader::new(1);
        leader.cut(5, "air", 2, [(2, 7)].into());
        let before = leader.board().clone();
        let mut board = Board::default();
        board.newest.insert(1, Newest { serial: u64::MAX, ..Newest::default() });
        let id = LineId { by: 1, count: u64::MAX };
        let line = Planned { id, cuts: [(1, u64::MAX)].into(), names: BTreeSet::new() };
        board.plans.insert(1, Plan { seen: [(1, u64::MAX)].into(), lines: vec![line] });
        board.known.insert(1, Known { version: u32::MAX, ..Known::default() });
        board.done.insert((id, 2, Done::Failed));
        leader.hear(2, board);
        assert_eq!(*leader.board(), before);
        leader.cut(6, "air", 2, [(2, 7)].into());
        assert_eq!(leader.board().newest[&1].serial, 6);
    }
}
