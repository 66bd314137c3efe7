//! Checkpoints and restarts of this process: `checkpoint` says what is to be done, the session and a thread for files do it.
//!
//! Part of the core. Invariants: nothing is written under the lock; a call asks what it is to find before it looks, and tells what
//! it has found before it returns.

use crate::memory::Layout;
use crate::shared::Shared;
use crate::state::Core;
use crate::state::checkpoints::{BeginWriter, Opened, Place, Work};
use crate::thread::begin;
use base::ProcId;
use checkpoint::{
    AllRows, Around, Besides, Call, Choice, Chosen, Image, Job, Known, LineId, Made, Next, OfPair, Outcomes, Process,
    Store, With,
};
use engine::{ContextId, CutOf, Kept, Limits, Resume, Wildcards};
use session::InterId;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};

/// Whether some outcomes are noted, or are to be found again.
static MATTER: AtomicBool = AtomicBool::new(false);

/// Whether calls have to ask for outcomes, and to tell them. It changes only under the lock, or in calls for checkpoints.
#[inline]
pub fn outcomes_matter() -> bool {
    MATTER.load(Ordering::Relaxed)
}

/// How the thread for files is begun.
pub(crate) fn writer(shared: &Arc<Shared>) -> BeginWriter {
    let weak = Arc::downgrade(shared);
    Box::new(move || {
        let (to, from) = channel();
        let weak = weak.clone();
        let run = move || {
            let from: Receiver<Work> = from;
            for work in from {
                match work {
                    Work::Write { own, store, image } => {
                        let id = image.head.line;
                        let written = store.write(&image).map_err(|e| e.to_string());
                        if let Some(shared) = weak.upgrade() {
                            shared.with(|core| core.step(|all, core| all.image_written(core, own, id, written)));
                        }
                    }
                    Work::Commit { own, store, serial, id } => {
                        let done = store.commit(serial, id).map_err(|e| e.to_string());
                        if let Some(shared) = weak.upgrade() {
                            shared.with(|core| core.checkpoints.all.line_complete(own, serial, done));
                        }
                    }
                }
            }
        };
        Ok((to, begin("mpi_connect img", run)?))
    })
}

impl Around for Core {
    type Inter = InterId;

    fn tell(&mut self, own: ProcId, to: ProcId, bytes: &[u8]) {
        self.session.tell_of_checkpoints(own, to, bytes);
    }

    fn processes_of(&self, own: ProcId, job: Job) -> Vec<ProcId> {
        self.session.processes_of(own, job)
    }

    fn joined(&self, own: ProcId) -> BTreeSet<Job> {
        self.session.joined(own.incarnation)
    }

    fn size_of(&self, own: ProcId, job: Job) -> Option<u32> {
        self.session.size_of(own.incarnation, job)
    }

    fn cut(&mut self, own: ProcId) -> BTreeMap<ProcId, CutOf> {
        self.session.cut(own.incarnation)
    }

    fn wildcards(&self, own: ProcId) -> Vec<(Job, Wildcards)> {
        self.session.wildcards(own.incarnation)
    }

    fn watch(&mut self, messages: bool, outcomes: bool) {
        self.session.engine.log(messages);
        MATTER.store(outcomes, Ordering::Relaxed);
    }

    fn resume(&mut self, own: ProcId, peer: ProcId, resume: Resume) {
        self.session.resume_messages(own, peer, resume);
    }

    fn send_again(&mut self, inter: InterId, dest: u32, kept: &Kept) {
        let op = self.session.engine.next_op();
        self.session.mem.insert(op, Layout::of_bytes(kept.data.clone()));
        self.session.send_again(op, inter, dest, kept);
        self.forget(op);
    }

    fn limit(&mut self, inter: InterId, limits: Limits) {
        self.session.limit(inter, limits);
    }

    fn unlimit(&mut self) {
        self.session.unlimit();
    }

    fn write(&mut self, own: ProcId, store: &Store, image: Image) {
        self.give_to_writer(Work::Write { own, store: store.clone(), image: Box::new(image) });
    }

    fn commit(&mut self, own: ProcId, store: &Store, serial: u64, id: LineId) {
        self.give_to_writer(Work::Commit { own, store: store.clone(), serial, id });
    }
}

impl Core {
    /// Has a step of checkpoints made. It asks this core for what it needs, and for no other step.
    fn step<R>(&mut self, step: impl FnOnce(&mut Process<InterId>, &mut Core) -> R) -> R {
        let mut all = std::mem::take(&mut self.checkpoints.all);
        let done = step(&mut all, self);
        self.checkpoints.all = all;
        done
    }

    /// From now on checkpoints of this group of ours may be made.
    pub fn track(&mut self, own: ProcId, name: &str, size: u32) {
        self.session.engine.track();
        self.checkpoints.all.track(own, name, size);
    }

    /// Whether [`Core::track`] was called for this group.
    pub fn is_tracked(&self, own: ProcId) -> bool {
        self.checkpoints.all.is_tracked(own)
    }

    /// The last cut had this number: the next one is newer.
    pub fn number_cuts_from(&mut self, own: ProcId, serial: u64) {
        self.checkpoints.all.number_cuts_from(own, serial);
    }

    /// The remote group of an inter-communicator, if it is one of this group of ours.
    pub fn members_of(&self, own: ProcId, inter: InterId) -> Option<Vec<ProcId>> {
        self.session.members(inter).filter(|(ours, _)| *ours == own.incarnation).map(|(_, members)| members)
    }

    /// The number of ranks of another job.
    pub fn size_of(&self, own: ProcId, job: Job) -> Option<u32> {
        self.session.size_of(own.incarnation, job)
    }

    /// Whether this group of ours was joined with another one.
    pub fn has_joined(&self, own: ProcId) -> bool {
        !self.session.joined(own.incarnation).is_empty()
    }

    /// Forgets a cut that is to be in no line.
    pub fn drop_cut(&mut self, own: ProcId, serial: u64) {
        self.step(|all, core| all.drop_cut(core, own, serial));
    }

    /// The numbers of contexts up to that of `last` are taken, at the leader of another job.
    pub fn skip_contexts(&mut self, own: ProcId, leader: ProcId, last: ContextId) {
        self.session.skip_contexts(own, leader, last);
    }

    /// Why the last image could not be written, if so.
    pub fn image_trouble(&mut self, own: ProcId) -> Option<String> {
        self.checkpoints.all.take_trouble(own)
    }

    // ---- a checkpoint

    /// Makes a cut of this process: see [`Process::cut`].
    pub fn make_cut(&mut self, own: ProcId, store: Store, besides: Besides) -> Made {
        self.step(|all, core| all.cut(core, own, store, besides)).unwrap_or_default()
    }

    /// See [`Process::announce`].
    pub fn announce(&mut self, own: ProcId, serial: u64, joined: BTreeMap<Job, With>, rows: AllRows) {
        self.step(|all, core| all.announce(core, own, serial, joined, rows));
    }

    /// A message has come while messages are logged.
    pub(crate) fn log_message(&mut self, local: ProcId, remote: ProcId, kept: Kept) {
        self.step(|all, core| all.log(core, local, remote, kept));
    }

    /// Another process has told something of checkpoints.
    pub(crate) fn told_of_checkpoints(&mut self, local: ProcId, remote: ProcId, bytes: &[u8], is_stranger: bool) {
        self.step(|all, core| match is_stranger {
            true => all.told_by_stranger(core, local, remote, bytes),
            false => all.told(core, local, remote, bytes),
        });
    }

    fn give_to_writer(&mut self, work: Work) {
        let files = &mut self.checkpoints;
        if files.writer.is_none()
            && let Some(begin) = &files.begin_writer
        {
            match begin() {
                Ok(writer) => files.writer = Some(writer),
                Err(e) => base::log!(Error, "no thread that writes checkpoints: {e}"),
            }
        }
        if let Some((to, _)) = &files.writer {
            let _ = to.send(work);
        }
    }

    /// Ends the thread that writes images, when it has written all.
    pub(crate) fn end_writer(&mut self) -> Option<std::thread::JoinHandle<()>> {
        self.checkpoints.begin_writer = None;
        self.checkpoints.writer.take().map(|(_, thread)| thread)
    }

    // ---- a restart

    /// See [`Process::tell_known`].
    pub fn tell_known(&mut self, own: ProcId, known: Known, with: &[ProcId]) {
        self.step(|all, core| all.tell_known(core, own, known, with));
    }

    /// See [`Process::tell_again`].
    pub fn tell_again(&mut self, own: ProcId) {
        self.step(|all, core| all.tell_again(core, own));
    }

    /// See [`Process::choice`].
    pub fn choice(&self, own: ProcId, known: &Known) -> Choice {
        self.checkpoints.all.choice(own, known).unwrap_or(Choice::Anew)
    }

    /// See [`Process::begin_resume`].
    pub fn begin_resume(&mut self, own: ProcId, job: Job, of: Vec<(u32, OfPair)>, opened: Vec<Opened>) {
        self.step(|all, core| all.begin_resume(core, own, job, of, opened));
    }

    /// The processes from which something of the images is still to come; whether each has told what it wants; and
    /// whether one is gone. None: the program may go on.
    pub fn awaited(&self, own: ProcId) -> Vec<(ProcId, bool, bool)> {
        let untold = self.checkpoints.all.untold(own);
        let all = untold.iter().copied().chain(self.session.not_resumed(own)).collect::<BTreeSet<_>>();
        let is_gone = |peer: ProcId| {
            self.session.find_pair(own, peer).is_none_or(|pair| self.session.pair(pair).gone().is_some())
        };
        all.into_iter().map(|peer| (peer, !untold.contains(&peer), is_gone(peer))).collect()
    }

    /// See [`Process::begin_replay`].
    pub fn begin_replay(
        &mut self,
        own: ProcId,
        jobs: &BTreeSet<String>,
        outcomes: Outcomes,
        others: &[Job],
        places: &[Place],
    ) {
        self.step(|all, core| all.begin_replay(core, own, jobs, outcomes, others, places));
    }

    // ---- outcomes

    /// What the next call of this kind is to find.
    pub fn next_outcome(&self, call: Call) -> Next {
        self.checkpoints.all.next_outcome(call)
    }

    /// Whether a restarted program still does again what it did before.
    pub fn is_replaying(&self) -> bool {
        self.checkpoints.all.is_replaying()
    }

    /// Whether sends in standard mode complete at once. Before a restart they may have found credit, which need not be there again
    /// before their receivers have come further, and those may wait for what is sent later.
    #[inline]
    pub(crate) fn copies_sends(&self) -> bool {
        outcomes_matter() && self.is_replaying()
    }

    /// A call has found this, or nothing.
    pub fn note_outcome(&mut self, call: Call, found: Option<&[u32]>) {
        self.step(|all, core| all.note(core, call, found));
    }

    /// A receive from any source has got a message.
    pub(crate) fn note_choice(&mut self, own: ProcId, job: Job, chosen: Chosen) {
        self.step(|all, core| all.chose(core, own, job, chosen));
    }

    /// See [`Process::stop_replay`].
    pub fn stop_replay(&mut self, why: &str) {
        self.step(|all, core| all.stop_replay(core, why));
    }
}
