//! How leaders agree on lines. Each tells those of the jobs joined with its own all that it knows, so all know all; one
//! of them, that of the smallest incarnation, plans the lines.
//!
//! A line gets the newest cut of each job that is joined with another of them, directly or not, once each has one that
//! no earlier line has, and few lines are still being written. Invariant: ranks are counted for lines that are remembered alone.

use crate::board::{Board, Newest, Tellers};
use crate::line::{Done, Job, LineId, Planned, Report};
use crate::restart::Known;
use std::collections::{BTreeMap, BTreeSet};

/// The lines that are being written at a time. Further cuts wait, and are replaced by later ones, so that lines are complete at
/// whatever rate cuts are made.
const MOST_OPEN: usize = 2;

/// Cuts without a line after which people are told, and again after as many.
const MOST_UNPAIRED: u64 = 8;

/// The leader of a job.
#[derive(Clone, Debug)]
pub struct Leader {
    job: Job,
    board: Board,
    tellers: Tellers,
    /// The leaders that it talks to.
    talks: BTreeSet<Job>,
    /// Those of them that are to be told.
    untold: BTreeSet<Job>,
    /// What was told to the processes of another job.
    reported: BTreeMap<Job, Report>,
    /// Ranks of another job that have done something for a line.
    ranks: BTreeMap<(LineId, Job, Done), BTreeSet<u32>>,
    /// The last lines that were found complete.
    complete: BTreeSet<LineId>,
    /// The number of the cut that the job was restarted from, or 0: no line that is known here has it.
    restarted_from: u64,
    /// The names of the jobs that were restarted with this one, until all have done again what they must.
    restarted: BTreeSet<String>,
    /// Ranks of another job that have.
    replayed: BTreeMap<Job, BTreeSet<u32>>,
}

impl Leader {
    /// The leader of this job.
    pub fn new(job: Job) -> Leader {
        Leader {
            job,
            board: Board::default(),
            tellers: Tellers::default(),
            talks: BTreeSet::new(),
            untold: BTreeSet::new(),
            reported: BTreeMap::new(),
            ranks: BTreeMap::new(),
            complete: BTreeSet::new(),
            restarted_from: 0,
            restarted: BTreeSet::new(),
            replayed: BTreeMap::new(),
        }
    }

    /// All that it knows.
    pub fn board(&self) -> &Board {
        &self.board
    }

    /// The job has made a cut, joined with these; and digests of the inter-communicators that were open with each.
    pub fn cut(&mut self, serial: u64, name: &str, size: u32, joined: BTreeMap<Job, u64>) {
        self.talks.extend(joined.keys());
        self.runs();
        self.board.newest.insert(self.job, Newest { serial, joined, size, name: name.to_owned() });
        self.changed();
    }

    /// If it is to be told that the last cuts are in no line: how many, for which job, and whether that one has made any.
    pub fn unpaired(&self) -> Option<(u64, Job, bool)> {
        let own = self.board.newest.get(&self.job)?;
        let paired = self.last_in_line(self.job).map_or(self.restarted_from, |last| last.max(self.restarted_from));
        let count = own.serial.saturating_sub(paired);
        if count == 0 || !count.is_multiple_of(MOST_UNPAIRED) {
            return None;
        }
        let differs = |job: &&Job| self.board.open(self.job, **job) != self.board.open(**job, self.job);
        let job = *own.joined.keys().find(differs)?;
        Some((count, job, self.board.newest.contains_key(&job)))
    }

    /// The job goes on from this cut, which is in a line of leaders that are gone.
    pub fn number_cuts_from(&mut self, serial: u64) {
        self.restarted_from = serial;
    }

    /// The newest cut of a job that is in a line. Whatever leader has planned it, a cut is in one line.
    fn last_in_line(&self, job: Job) -> Option<u64> {
        self.board.lines_of(job).filter_map(|line| line.cuts.get(&job)).max().copied()
    }

    /// What the job has to restart from.
    pub fn knows(&mut self, known: Known) {
        self.board.known.insert(self.job, known);
        self.changed();
    }

    /// Talks to the leader of this job from now on.
    pub fn meet(&mut self, job: Job) {
        if self.talks.insert(job) {
            self.untold.insert(job);
        }
    }

    /// Tells all leaders once more: one of them may not have listened yet.
    pub fn repeat(&mut self) {
        self.untold.extend(&self.talks);
    }

    /// The job runs from now on: it restarts no more.
    fn runs(&mut self) {
        if let Some(known) = self.board.known.get_mut(&self.job).filter(|known| !known.runs) {
            (known.runs, known.version) = (true, known.version + 1);
        }
    }

    /// Another leader has told all that it knows.
    pub fn hear(&mut self, from: Job, board: Board) {
        self.talks.insert(from);
        if board.is_too_large() {
            base::log_seldom!(Info, "the leader of job {from:x} tells more of checkpoints than there is room for");
            return;
        }
        let theirs = board.clone();
        if self.board.hear(self.job, from, board, &mut self.tellers) {
            self.changed();
        }
        // A line may have been planned just now.
        self.answer(from, &theirs);
    }

    /// Somebody who claims to be the leader of that job has told this: it is answered if it lacks something, and nothing of it is
    /// kept.
    pub fn hear_stranger(&mut self, from: Job, theirs: &Board) {
        if !theirs.is_too_large() {
            self.answer(from, theirs);
        }
    }

    /// Tells another leader what is known here, if it lacks something.
    fn answer(&mut self, to: Job, theirs: &Board) {
        if self.board.is_news_to(to, theirs) {
            self.untold.insert(to);
        } else {
            self.untold.remove(&to);
        }
    }

    /// A process of a job that this leader reports to has done something for a line.
    pub fn done(&mut self, id: LineId, job: Job, rank: u32, done: Done) {
        let Some(newest) = self.board.newest.get(&job) else { return };
        if rank >= newest.size || !self.board.lines_of(job).any(|line| line.id == id) {
            return;
        }
        let size = newest.size as usize;
        let ranks = self.ranks.entry((id, job, done)).or_default();
        ranks.insert(rank);
        if done == Done::Failed || ranks.len() == size {
            self.ranks.remove(&(id, job, done));
            if self.board.done.insert((id, job, done)) {
                self.changed();
            }
        }
    }

    /// The job restarts from a line of these jobs.
    pub fn restarts(&mut self, jobs: BTreeSet<String>) {
        self.restarted = jobs;
    }

    /// A process of another job has done again what it must, after the restart.
    pub fn replayed(&mut self, job: Job, rank: u32) {
        let Some(size) = self.board.known.get(&job).map(|known| known.size) else { return };
        if rank >= size || self.board.replayed.contains(&job) {
            return;
        }
        let ranks = self.replayed.entry(job).or_default();
        ranks.insert(rank);
        if ranks.len() == size as usize {
            self.replayed.remove(&job);
            self.board.replayed.insert(job);
            self.changed();
        }
    }

    /// The other jobs whose processes are to be told that all have done again what they must: once.
    pub fn next_all_replayed(&mut self) -> Option<Vec<Job>> {
        let has = |name: &String| {
            let mut of = self.board.known.iter().filter(|(_, known)| known.name == *name);
            of.any(|(job, _)| self.board.replayed.contains(job))
        };
        if self.restarted.is_empty() || !self.restarted.iter().all(has) {
            return None;
        }
        self.restarted.clear();
        // All have chosen their line long ago, so none takes this for a reason to wait no more.
        self.runs();
        self.changed();
        Some(self.talks.iter().copied().collect())
    }

    fn changed(&mut self) {
        self.plan();
        self.board.forget();
        let board = &self.board;
        self.ranks.retain(|(id, job, _), _| board.lines_of(*job).any(|line| line.id == *id));
        self.untold.extend(&self.talks);
    }

    /// Plans the next line, if it is for this leader to do and each job has a cut for it.
    fn plan(&mut self) {
        let jobs = self.board.joined(self.job);
        if jobs.first() != Some(&self.job) || jobs.len() < 2 {
            return;
        }
        let newest = self.board.fitting(&jobs);
        let is_new = |(job, serial): (&Job, &u64)| self.last_in_line(*job).is_none_or(|last| last < *serial);
        let is_open = |line: &&Planned| {
            let is_over = self.board.have_all(line, Done::Written) || self.board.has_failed(line);
            !is_over && line.cuts.keys().all(|job| jobs.contains(job))
        };
        let has_room = self.board.lines_of(self.job).filter(is_open).count() < MOST_OPEN;
        let cuts = newest.filter(|newest| has_room && newest.iter().all(is_new));
        let names = jobs.iter().filter_map(|job| Some(self.board.newest.get(job)?.name.clone())).collect();
        let seen: Vec<_> = jobs.iter().filter_map(|job| Some((*job, self.board.newest.get(job)?.serial))).collect();
        let plan = self.board.plans.entry(self.job).or_default();
        plan.seen.extend(seen);
        if let Some(cuts) = cuts {
            let count = plan.lines.last().map_or(0, |line| line.id.count) + 1;
            plan.lines.push(Planned { id: LineId { by: self.job, count }, cuts, names });
            plan.keep_last();
        }
    }

    /// The next leader that is to be told [`Leader::board`].
    pub fn next_told(&mut self) -> Option<Job> {
        self.untold.pop_first()
    }

    /// The next job whose processes are to be told of lines: [`crate::Message::Lines`].
    pub fn next_report(&mut self) -> Option<(Job, Report)> {
        for (job, newest) in &self.board.newest {
            // One leader reports to each job: the first of those that it is joined with.
            if newest.joined.keys().next() != Some(&self.job) {
                continue;
            }
            let lines: Vec<Planned> = self.board.lines_of(*job).cloned().collect();
            let plans = self.board.plans.values().flat_map(|plan| &plan.seen);
            let mut seen = BTreeMap::new();
            for (job, serial) in plans.filter(|(other, _)| *other == job || newest.joined.contains_key(other)) {
                let most = seen.entry(*job).or_default();
                *most = (*serial).max(*most);
            }
            let heard =
                lines.iter().filter(|line| self.board.have_all(line, Done::Heard)).map(|line| line.id).collect();
            let failed = lines.iter().filter(|line| self.board.has_failed(line)).map(|line| line.id).collect();
            let report = Report { lines, heard, failed, seen };
            if self.reported.get(job) != Some(&report) {
                self.reported.insert(*job, report.clone());
                return Some((*job, report));
            }
        }
        None
    }

    /// The next line that each process of each of its jobs has written, with the serial number of the own cut.
    pub fn next_complete(&mut self) -> Option<(LineId, u64)> {
        let board = &self.board;
        let is_complete = |line: &&Planned| board.have_all(line, Done::Written);
        let next = board.lines_of(self.job).filter(is_complete).find(|line| !self.complete.contains(&line.id))?;
        let next = (next.id, next.cuts[&self.job]);
        let lines: BTreeSet<LineId> = board.lines_of(self.job).map(|line| line.id).collect();
        self.complete.retain(|id| lines.contains(id));
        self.complete.insert(next.0);
        Some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::board::MOST_LINES;

    /// Leaders of jobs 1, 2, 3, of which 2 is joined with both others; boards go to and fro in an order by chance, some twice.
    struct World {
        leaders: Vec<Leader>,
        boards: Vec<(Job, Job, Board)>,
        chance: u64,
    }

    impl World {
        fn new() -> World {
            World { leaders: (1..=3).map(Leader::new).collect(), boards: Vec::new(), chance: 7 }
        }

        fn roll(&mut self, below: usize) -> usize {
            self.chance = self.chance.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (self.chance >> 33) as usize % below
        }

        fn cut(&mut self, job: Job, serial: u64) {
            let joined = if job == 2 { [(1, 0), (3, 0)].into() } else { [(2, 0)].into() };
            self.leaders[job as usize - 1].cut(serial, &format!("job-{job}"), 1, joined);
        }

        /// Carries some boards, or all.
        fn carry(&mut self, mut some: usize) {
            loop {
                for leader in &mut self.leaders {
                    while let Some(to) = leader.next_told() {
                        self.boards.push((leader.job, to, leader.board.clone()));
                    }
                }
                if self.boards.is_empty() || some == 0 {
                    return;
                }
                some -= 1;
                let at = self.roll(self.boards.len());
                let twice = self.roll(4) == 0;
                let (from, to, board) = if twice { self.boards[at].clone() } else { self.boards.remove(at) };
                self.leaders[to as usize - 1].hear(from, board);
            }
        }

        /// The processes of all jobs have done this for all lines that they were told of.
        fn have(&mut self, done: Done) {
            for leader in &mut self.leaders {
                while let Some((job, report)) = leader.next_report() {
                    report.lines.iter().for_each(|line| leader.done(line.id, job, 0, done));
                }
            }
        }

        fn lines(&mut self, of: usize) -> Vec<Planned> {
            let job = self.leaders[of].job;
            self.leaders[of].board.lines_of(job).cloned().collect()
        }
    }

    #[test]
    fn lines_have_a_cut_of_each_job_and_no_cut_is_in_two() {
        let mut world = World::new();
        let mut serials = [0; 3];
        for _ in 0..300 {
            let job = world.roll(3);
            serials[job] += 1;
            world.cut(job as Job + 1, serials[job]);
            let some = world.roll(6);
            world.carry(some);
            world.have(Done::Written);
        }
        world.carry(100_000);
        let all = world.lines(0);
        assert!(all.len() == MOST_LINES, "{all:?}");
        for of in 0..3 {
            assert_eq!(world.lines(of), all, "all know the same");
        }
        for lines in all.windows(2) {
            for job in 1..=3 {
                assert!(lines[0].cuts[&job] < lines[1].cuts[&job]);
            }
        }
        assert!(all.iter().all(|line| line.names.len() == 3));
    }

    #[test]
    fn a_line_has_cuts_with_the_same_inter_communicators() {
        let mut world = World::new();
        let cut = |world: &mut World, serial, [a, b]: [u64; 2]| {
            world.cut(3, serial);
            world.leaders[0].cut(serial, "job-1", 1, [(2, a)].into());
            world.leaders[1].cut(serial, "job-2", 1, [(1, b), (3, 0)].into());
            world.carry(100_000);
            world.lines(0).len()
        };
        assert_eq!(cut(&mut world, 1, [5, 6]), 0);
        world.leaders[0].cut(2, "job-1", 1, [(2, 6)].into());
        world.carry(100_000);
        let cuts = world.lines(2).last().expect("now they have").cuts.clone();
        assert_eq!(cuts, [(1, 2), (2, 1), (3, 1)].into());
        assert_eq!(cut(&mut world, 3, [6, 7]), 1);
    }

    #[test]
    fn cuts_without_a_line_are_told() {
        let mut leader = Leader::new(1);
        let mut told = Vec::new();
        for serial in 1..20 {
            leader.cut(serial, "air", 1, [(2, 5)].into());
            told.extend(leader.unpaired());
        }
        assert_eq!(told, [(8, 2, false), (16, 2, false)]);
        let mut other = Leader::new(2);
        other.cut(1, "ocean", 1, [(1, 6)].into());
        leader.hear(2, other.board().clone());
        leader.cut(24, "air", 1, [(2, 5)].into());
        assert_eq!(leader.unpaired(), Some((24, 2, true)));
        leader.cut(25, "air", 1, [(2, 6)].into());
        leader.cut(32, "air", 1, [(2, 5)].into());
        assert_eq!(leader.unpaired(), None, "there was a line");

        let mut leader = Leader::new(3);
        leader.number_cuts_from(7);
        let told = |leader: &mut Leader, serial| {
            leader.cut(serial, "air", 1, [(2, 5)].into());
            leader.unpaired()
        };
        assert_eq!(told(&mut leader, 8), None, "the first after a restart");
        assert_eq!(told(&mut leader, 15), Some((8, 2, false)));
    }

    #[test]
    fn cuts_wait_for_lines_that_are_being_written() {
        let mut world = World::new();
        let cut = |world: &mut World, serials: std::ops::Range<u64>| {
            for serial in serials {
                (1..=3).for_each(|job| world.cut(job, serial));
                world.carry(100_000);
            }
        };
        let cuts = |world: &mut World| world.lines(2).iter().map(|line| line.cuts[&3]).collect::<Vec<_>>();
        cut(&mut world, 1..20);
        // Three jobs may have been in the middle of their cuts.
        let before = cuts(&mut world);
        assert_eq!(before.len(), MOST_OPEN, "{before:?}");
        // The newest cuts are in the next lines, whether those before were written or not.
        for (done, next) in [(Done::Written, 30), (Done::Failed, 40)] {
            world.have(done);
            cut(&mut world, next..next + 5);
            world.have(done);
            world.carry(100_000);
            assert_eq!(cuts(&mut world).last(), Some(&(next + 4)));
            assert_eq!(world.leaders[0].board.plans[&1].seen[&3], next + 4);
        }
        // Whoever makes no cut keeps no others from dropping theirs.
        let mut world = World::new();
        (2..=3).for_each(|job| world.cut(job, 7));
        world.carry(100_000);
        let reports: Vec<_> = std::iter::from_fn(|| world.leaders[0].next_report()).collect();
        let [(2, report)] = &reports[..] else { panic!("{reports:?}") };
        assert_eq!((report.lines.len(), report.seen[&2], report.seen[&3]), (0, 7, 7));
    }

    #[test]
    fn a_line_is_complete_when_each_process_of_each_job_has_written() {
        let mut world = World::new();
        (1..=3).for_each(|job| world.cut(job, 1));
        world.carry(1000);
        let [line] = &world.lines(1)[..] else { panic!("one line") };
        let id = line.id;
        // Leader 2 reports to jobs 1 and 3; job 2 is reported to by leader 1.
        let reports = |leader: &mut Leader| std::iter::from_fn(|| leader.next_report()).map(|(job, _)| job).collect();
        let all: Vec<Vec<Job>> = world.leaders.iter_mut().map(reports).collect();
        assert_eq!(all, [vec![2], vec![1, 3], vec![]]);
        for done in [Done::Heard, Done::Written] {
            world.leaders[1].done(id, 1, 0, done);
            world.leaders[1].done(id, 3, 0, done);
        }
        world.carry(1000);
        assert!(world.leaders.iter_mut().all(|leader| leader.next_complete().is_none()));
        let heard =
            |world: &mut World| world.leaders[1].next_report().is_some_and(|(_, report)| report.heard == [id].into());
        assert!(!heard(&mut world));
        world.leaders[0].done(id, 2, 0, Done::Heard);
        world.carry(1000);
        assert!(heard(&mut world), "all have heard");
        assert!(world.leaders.iter_mut().all(|leader| leader.next_complete().is_none()));
        world.leaders[0].done(id, 2, 0, Done::Written);
        world.carry(1000);
        for leader in &mut world.leaders {
            assert_eq!(leader.next_complete(), Some((id, 1)));
            assert_eq!(leader.next_complete(), None, "it is told once");
        }
    }
}
