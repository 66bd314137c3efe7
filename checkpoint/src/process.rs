//! The checkpoints of a process, of all its jobs. The node has them carried out over a session, and the simulator over engines.
//!
//! Without I/O, clock and threads: it is stepped by events, and asks for everything through [`Around`]. Invariant: after each
//! event, all that it leads to has been asked for.

use crate::around::{AllRows, Around, Besides, Opened, Place, With};
use crate::board::MOST_BOARD;
use crate::image::OfPair;
use crate::line::{Job, LineId};
use crate::member::Held;
use crate::message::Message;
use crate::outcomes::{Call, Chosen, Next, Outcomes};
use crate::restart::{Choice, Known};
use crate::store::Store;
use crate::tracked::{Made, Tracked};
use base::ProcId;
use engine::Kept;
use std::collections::{BTreeMap, BTreeSet};

/// The checkpoints of a process. `I`: how an inter-communicator is known.
#[derive(Clone, Debug)]
pub struct Process<I> {
    /// By incarnation.
    jobs: BTreeMap<Job, Tracked<I>>,
}

impl<I> Default for Process<I> {
    fn default() -> Process<I> {
        Process { jobs: BTreeMap::new() }
    }
}

impl<I: Copy> Process<I> {
    /// From now on checkpoints of this job, in which this process is `own`, may be made.
    pub fn track(&mut self, own: ProcId, name: &str, size: u32) {
        self.jobs.entry(own.incarnation).or_insert_with(|| Tracked::new(own, name, size));
    }

    /// Whether [`Process::track`] was called for this job.
    pub fn is_tracked(&self, own: ProcId) -> bool {
        self.jobs.contains_key(&own.incarnation)
    }

    fn of(&self, own: ProcId) -> Option<&Tracked<I>> {
        self.jobs.get(&own.incarnation)
    }

    /// Does something with a job, and with what is to be watched then.
    fn with<A: Around<Inter = I>, R>(
        &mut self,
        around: &mut A,
        own: ProcId,
        event: impl FnOnce(&mut Tracked<I>, &mut A) -> R,
    ) -> Option<R> {
        let done = event(self.jobs.get_mut(&own.incarnation)?, around);
        self.watch(around);
        Some(done)
    }

    fn watch(&self, around: &mut impl Around<Inter = I>) {
        let messages = self.jobs.values().any(Tracked::is_logging);
        around.watch(messages, self.jobs.values().any(Tracked::cares_for_outcomes));
    }

    // ---- a checkpoint

    /// Makes a cut. Returns its number, the jobs that it is joined with, and the rows for their processes.
    pub fn cut(
        &mut self,
        around: &mut impl Around<Inter = I>,
        own: ProcId,
        store: Store,
        besides: Besides,
    ) -> Option<Made> {
        self.with(around, own, |tracked, around| tracked.cut(around, store, besides))
    }

    /// The last cut had this number: the next one is newer, also where there is no pair to resume.
    pub fn number_cuts_from(&mut self, own: ProcId, serial: u64) {
        if let Some(tracked) = self.jobs.get_mut(&own.incarnation) {
            tracked.number_cuts_from(serial);
        }
    }

    /// Forgets a cut that is to be in no line.
    pub fn drop_cut(&mut self, around: &mut impl Around<Inter = I>, own: ProcId, serial: u64) {
        self.with(around, own, |tracked, _| tracked.drop_cut(serial));
    }

    /// The leader has the rows of all processes of its job: the other jobs are told of the cut.
    pub fn announce(
        &mut self,
        around: &mut impl Around<Inter = I>,
        own: ProcId,
        serial: u64,
        joined: BTreeMap<Job, With>,
        rows: AllRows,
    ) {
        self.with(around, own, |tracked, around| tracked.announce(around, serial, joined, rows));
    }

    /// A message has come whole while messages are logged.
    pub fn log(&mut self, around: &mut impl Around<Inter = I>, own: ProcId, remote: ProcId, kept: Kept) {
        self.with(around, own, |tracked, around| tracked.log(around, remote, kept));
    }

    /// Another process has told something.
    pub fn told(&mut self, around: &mut impl Around<Inter = I>, own: ProcId, remote: ProcId, bytes: &[u8]) {
        if let Some(message) = self.read(own, remote, bytes) {
            self.with(around, own, |tracked, around| tracked.told(around, remote, message));
        }
    }

    /// The same of one that may be another process than it says. What counts is told again once it is known.
    pub fn told_by_stranger(&mut self, around: &mut impl Around<Inter = I>, own: ProcId, remote: ProcId, bytes: &[u8]) {
        // Only leaders are answered, who have few boards to tell when they restart: no more is read on the word of a stranger.
        let may_read = own.rank == 0 && remote.rank == 0 && bytes.len() <= MOST_BOARD;
        if may_read && let Some(message) = self.read(own, remote, bytes) {
            self.with(around, own, |tracked, around| tracked.told_by_stranger(around, remote, &message));
        }
    }

    fn read(&self, own: ProcId, remote: ProcId, bytes: &[u8]) -> Option<Message> {
        let message = self.is_tracked(own).then(|| Message::decode(bytes))?;
        if message.is_none() {
            base::log_seldom!(Error, "{remote} tells of checkpoints what cannot be read: is it of another release?");
        }
        message
    }

    /// The image of this process in a line is on the disk, or cannot be written.
    pub fn image_written(
        &mut self,
        around: &mut impl Around<Inter = I>,
        own: ProcId,
        id: LineId,
        written: Result<(), String>,
    ) {
        self.with(around, own, |tracked, around| tracked.image_written(around, id, written));
    }

    /// A line has its final name, or cannot get it.
    pub fn line_complete(&mut self, own: ProcId, serial: u64, done: Result<(), String>) {
        if let Some(tracked) = self.jobs.get_mut(&own.incarnation) {
            tracked.line_complete(serial, done);
        }
    }

    /// What is kept for a job.
    pub fn held(&self, own: ProcId) -> Held {
        self.of(own).map(Tracked::held).unwrap_or_default()
    }

    /// Why the last image could not be written, if so.
    pub fn take_trouble(&mut self, own: ProcId) -> Option<String> {
        self.jobs.get_mut(&own.incarnation)?.take_trouble()
    }

    // ---- a restart

    /// The leader tells what its job has to restart from, and talks of it to these leaders.
    pub fn tell_known(&mut self, around: &mut impl Around<Inter = I>, own: ProcId, known: Known, with: &[ProcId]) {
        self.with(around, own, |tracked, around| tracked.tell_known(around, known, with));
    }

    /// Tells other leaders again what is known: one that has just begun may not have listened.
    pub fn tell_again(&mut self, around: &mut impl Around<Inter = I>, own: ProcId) {
        self.with(around, own, |tracked, around| tracked.tell_again(around));
    }

    /// From which line the leader's job restarts, as far as others have told.
    pub fn choice(&self, own: ProcId, known: &Known) -> Option<Choice> {
        self.of(own).map(|tracked| tracked.choice(known))
    }

    /// Begins where an image was, with one other job: tells its processes what is wanted of them. The
    /// inter-communicators with it are open.
    pub fn begin_resume(
        &mut self,
        around: &mut impl Around<Inter = I>,
        own: ProcId,
        job: Job,
        of: Vec<(u32, OfPair)>,
        opened: Vec<Opened<I>>,
    ) {
        self.with(around, own, |tracked, around| tracked.begin_resume(around, job, of, opened));
    }

    /// The processes that have not told all that they want of this one, or that they take messages.
    pub fn untold(&self, own: ProcId) -> BTreeSet<ProcId> {
        self.of(own).map(Tracked::untold).unwrap_or_default()
    }

    /// After a restart, before the program goes on: it is to find again what it has found. `others` are the jobs by their
    /// place in the image.
    pub fn begin_replay(
        &mut self,
        around: &mut impl Around<Inter = I>,
        own: ProcId,
        jobs: &BTreeSet<String>,
        outcomes: Outcomes,
        others: &[Job],
        places: &[Place<I>],
    ) {
        self.with(around, own, |tracked, around| tracked.begin_replay(around, jobs, outcomes, others, places));
    }

    // ---- outcomes

    /// What the next call of this kind is to find.
    pub fn next_outcome(&self, call: Call) -> Next {
        let all = self.jobs.values().map(|tracked| tracked.next_outcome(call));
        all.into_iter().find(|next| *next != Next::Free).unwrap_or(Next::Free)
    }

    /// Whether a restarted program still does again what it did before.
    pub fn is_replaying(&self) -> bool {
        self.jobs.values().any(Tracked::is_replaying)
    }

    /// A call has found this, or nothing.
    pub fn note(&mut self, around: &mut impl Around<Inter = I>, call: Call, found: Option<&[u32]>) {
        let mut as_before = true;
        for tracked in self.jobs.values_mut() {
            as_before &= tracked.note(around, call, found);
        }
        if !as_before {
            self.stop_replay(around, &format!("it calls MPI_{call:?} more often"));
        }
        self.watch(around);
    }

    /// A receive from any source has got a message of a process of another job.
    pub fn chose(&mut self, around: &mut impl Around<Inter = I>, own: ProcId, job: Job, chosen: Chosen) {
        self.with(around, own, |tracked, around| tracked.chose(around, job, chosen));
    }

    /// The program does something else than before its restart, so what it found then is of no use. Returns whether all was done again
    /// that must be: what comes behind that may differ, since another process may be past its record.
    pub fn stop_replay(&mut self, around: &mut impl Around<Inter = I>, why: &str) -> bool {
        let mut had_done_all = true;
        self.jobs.values_mut().for_each(|tracked| had_done_all &= tracked.stop_replay(around, why));
        self.watch(around);
        had_done_all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leader::Leader;
    use engine::{CutOf, Limits, Resume, Wildcards};

    /// Whom it has told something.
    #[derive(Default)]
    struct Told(Vec<ProcId>);

    impl Around for Told {
        type Inter = ();

        fn tell(&mut self, _: ProcId, to: ProcId, _: &[u8]) {
            self.0.push(to);
        }
        fn processes_of(&self, _: ProcId, _: Job) -> Vec<ProcId> {
            Vec::new()
        }
        fn joined(&self, _: ProcId) -> BTreeSet<Job> {
            BTreeSet::new()
        }
        fn size_of(&self, _: ProcId, _: Job) -> Option<u32> {
            None
        }
        fn cut(&mut self, _: ProcId) -> BTreeMap<ProcId, CutOf> {
            BTreeMap::new()
        }
        fn wildcards(&self, _: ProcId) -> Vec<(Job, Wildcards)> {
            Vec::new()
        }
        fn watch(&mut self, _: bool, _: bool) {}
        fn resume(&mut self, _: ProcId, _: ProcId, _: Resume) {}
        fn send_again(&mut self, (): (), _: u32, _: &Kept) {}
        fn limit(&mut self, (): (), _: Limits) {}
        fn unlimit(&mut self) {}
        fn write(&mut self, _: ProcId, _: &Store, _: crate::image::Image) {}
        fn commit(&mut self, _: ProcId, _: &Store, _: u64, _: LineId) {}
    }

    #[test]
    fn of_strangers_leaders_alone_are_answered_that_tell_little() {
        let [own, stranger] = [1, 2].map(|incarnation| ProcId { incarnation, rank: 0 });
        let (mut process, mut told) = (Process::default(), Told::default());
        process.track(own, "air", 2);
        process.tell_known(&mut told, own, Known { version: 1, name: "air".into(), ..Known::default() }, &[]);
        let mut is_answered = |rank, len| {
            let mut theirs = Leader::new(stranger.incarnation);
            theirs.knows(Known { version: 1, name: "x".repeat(len), ..Known::default() });
            let board = Message::Board(Box::new(theirs.board().clone())).encode();
            process.told_by_stranger(&mut told, own, ProcId { rank, ..stranger }, &board);
            !std::mem::take(&mut told.0).is_empty()
        };
        assert!(is_answered(0, 1000));
        assert!(!is_answered(1, 1000));
        assert!(!is_answered(0, MOST_BOARD), "it is not read");
    }
}
