//! Checkpoints and restarts of this process: cuts, what is told to other processes, and images that are written in a thread of
//! their own.
//!
//! Part of the core. Invariants: nothing is written under the lock; a line that cannot be written here stays incomplete, and the
//! last complete one stays as it is.

use crate::memory::Layout;
use crate::shared::Shared;
use crate::state::Core;
use crate::state::checkpoints::{BeginWriter, Besides, Opened, Tracked, Wanted, Work};
use crate::thread::begin;
use base::ProcId;
use checkpoint::{
    Choice, Done, Head, Image, Known, Leader, LineId, Member, Message, OfPair, Recorder, Remote, Row, Rows, Snapshot,
    Store, Whole, choose,
};
use engine::{ContextId, Kept, Resume};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

/// The most numbers in one message: they take 10 bytes each at most.
const MOST_NUMBERS: usize = 50_000;
/// The most rows in one message, without their numbers.
const MOST_ROWS: usize = 10_000;

/// The rows of a job's cut: for each process of another job, those of the own processes by rank.
pub type AllRows = BTreeMap<ProcId, Rows>;

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
                            shared.with(|core| core.image_written(own, id, written));
                        }
                    }
                    Work::Commit { own, store, serial, id } => {
                        let done = store.commit(serial, id).map_err(|e| e.to_string());
                        if let Some(shared) = weak.upgrade() {
                            shared.with(|core| core.line_complete(own, serial, done));
                        }
                    }
                }
            }
        };
        Ok((to, begin("mpi_connect img", run)?))
    })
}

impl Core {
    /// From now on checkpoints of this group of ours may be made.
    pub fn track(&mut self, own: ProcId, name: &str, size: u32) {
        self.session.engine.track();
        let leader = (own.rank == 0).then(|| Leader::new(own.incarnation));
        let tracked = Tracked {
            name: name.to_owned(),
            own,
            size,
            member: Member::new(own),
            leader,
            store: None,
            serial: 0,
            reports_to: BTreeMap::new(),
            wanted: BTreeMap::new(),
            of: BTreeMap::new(),
            opened: BTreeMap::new(),
            leaving: BTreeMap::new(),
            replay: None,
            tells_replayed: Vec::new(),
            trouble: None,
        };
        self.checkpoints.jobs.entry(own.incarnation).or_insert(tracked);
    }

    /// Whether [`Core::track`] was called for this group.
    pub fn is_tracked(&self, own: ProcId) -> bool {
        self.checkpoints.jobs.contains_key(&own.incarnation)
    }

    /// The last cut had this number: the next one is newer, also where there is no pair to resume.
    pub fn number_cuts_from(&mut self, own: ProcId, serial: u64) {
        if let Some(tracked) = self.checkpoints.jobs.get_mut(&own.incarnation) {
            tracked.serial = serial;
        }
    }

    /// The remote group of an inter-communicator, if it is one of this group of ours.
    pub fn members_of(&self, own: ProcId, inter: session::InterId) -> Option<Vec<ProcId>> {
        self.session.members(inter).filter(|(ours, _)| *ours == own.incarnation).map(|(_, members)| members)
    }

    /// The number of ranks of another job.
    pub fn size_of(&self, own: ProcId, job: u64) -> Option<u32> {
        self.session.size_of(own.incarnation, job)
    }

    /// Whether this group of ours was joined with another one.
    pub fn has_joined(&self, own: ProcId) -> bool {
        !self.session.joined(own.incarnation).is_empty()
    }

    /// Forgets a cut that is to be in no line.
    pub fn drop_cut(&mut self, own: ProcId, serial: u64) {
        if let Some(tracked) = self.checkpoints.jobs.get_mut(&own.incarnation) {
            tracked.member.drop_cut(serial);
        }
        self.log_as_needed();
    }

    /// The numbers of contexts up to that of `last` are taken, at the leader of another job.
    pub fn skip_contexts(&mut self, own: ProcId, leader: ProcId, last: ContextId) {
        self.session.skip_contexts(own, leader, last);
    }

    /// Why the last image could not be written, if so.
    pub fn image_trouble(&mut self, own: ProcId) -> Option<String> {
        self.checkpoints.jobs.get_mut(&own.incarnation)?.trouble.take()
    }

    // ---- a checkpoint

    /// Makes a cut of this process. Returns its number, the jobs that it is joined with, and the rows for their processes.
    pub fn make_cut(
        &mut self,
        own: ProcId,
        store: Store,
        besides: Besides,
    ) -> (u64, BTreeSet<u64>, BTreeMap<ProcId, Row>) {
        let of = self.session.cut(own.incarnation);
        let joined = self.session.joined(own.incarnation);
        let rows = of.iter().filter(|(_, of)| (of.sent, of.arrived) != (0, 0)).map(|(peer, of)| {
            let leaving = of.leaving.iter().map(|kept| kept.number).collect();
            (*peer, Row { sent: of.sent, arrived: of.arrived, leaving })
        });
        let rows = rows.collect();
        let outcomes = Recorder::new(self.session.wildcards(own.incarnation));
        let Some(tracked) = self.checkpoints.jobs.get_mut(&own.incarnation) else { return (0, joined, rows) };
        tracked.serial += 1;
        tracked.store = Some(store);
        tracked.member.cut(tracked.serial, Snapshot { of, joined: joined.clone(), outcomes, rest: Arc::new(besides) });
        let serial = tracked.serial;
        self.log_as_needed();
        (serial, joined, rows)
    }

    /// The leader has the rows of all processes of its job: the other jobs are told of the cut.
    pub fn announce(&mut self, own: ProcId, serial: u64, joined: BTreeMap<u64, u32>, mut rows: AllRows) {
        for (job, size) in &joined {
            for rank in 0..*size {
                let to = ProcId { incarnation: *job, rank };
                for message in in_parts(serial, rows.remove(&to).unwrap_or_default()) {
                    self.session.tell_of_checkpoints(own, to, &message.encode());
                }
            }
        }
        if let Some(tracked) = self.checkpoints.jobs.get_mut(&own.incarnation)
            && let Some(leader) = &mut tracked.leader
        {
            leader.cut(serial, &tracked.name, tracked.size, joined.into_keys().collect());
        }
        self.go_on_with(own.incarnation);
    }

    pub(crate) fn log_as_needed(&mut self) {
        let is_logging = self.checkpoints.jobs.values().any(|tracked| tracked.member.is_logging());
        self.session.engine.log(is_logging);
        self.note_as_needed();
    }

    /// A message has come while messages are logged.
    pub(crate) fn log_message(&mut self, local: ProcId, remote: ProcId, kept: Kept) {
        if let Some(tracked) = self.checkpoints.jobs.get_mut(&local.incarnation)
            && tracked.member.log(remote, kept)
        {
            self.go_on_with(local.incarnation);
        }
    }

    /// Another process has told something of checkpoints.
    pub(crate) fn told_of_checkpoints(&mut self, local: ProcId, remote: ProcId, bytes: &[u8]) {
        let Some(tracked) = self.checkpoints.jobs.get_mut(&local.incarnation) else { return };
        let Some(message) = Message::decode(bytes) else {
            base::log_seldom!(Error, "{remote} tells of checkpoints what cannot be read: is it of another release?");
            return;
        };
        let (job, leads) = (remote.incarnation, remote.rank == 0);
        match message {
            Message::Rows(serial, rows, is_last) if leads => tracked.member.rows(job, serial, rows, is_last),
            Message::Board(board) if leads => {
                if let Some(leader) = &mut tracked.leader {
                    leader.hear(job, *board);
                }
            }
            Message::Lines(report) if leads => {
                tracked.reports_to.retain(|id, _| report.lines.iter().any(|line| line.id == *id));
                tracked.reports_to.extend(report.lines.iter().map(|line| (line.id, remote)));
                for id in tracked.member.lines(*report) {
                    self.session.tell_of_checkpoints(local, remote, &Message::Done(id, Done::Heard).encode());
                }
                self.close_records(local);
            }
            Message::Done(id, done) => {
                if let Some(leader) = &mut tracked.leader {
                    leader.done(id, job, remote.rank, done);
                }
            }
            Message::Replayed => {
                if let Some(leader) = &mut tracked.leader {
                    leader.replayed(job, remote.rank);
                }
            }
            Message::AllReplayed if leads => self.end_replay(local),
            Message::Again(from_image, once_more, is_all) => {
                let wanted = tracked.wanted.entry(remote).or_default();
                wanted.from_image.extend(from_image);
                wanted.once_more.extend(once_more);
                wanted.is_all |= is_all;
                self.resume_pair(local, remote);
            }
            Message::Resumed => self.send_image(local, remote),
            Message::Rows(..) | Message::Board(_) | Message::Lines(_) | Message::AllReplayed => (),
        }
        self.go_on_with(local.incarnation);
    }

    /// Tells what is to be told, and has written what is whole.
    pub(crate) fn go_on_with(&mut self, incarnation: u64) {
        while let Some(tracked) = self.checkpoints.jobs.get_mut(&incarnation) {
            let own = tracked.own;
            if let Some(whole) = tracked.member.next_whole() {
                let image = image_of(tracked, whole);
                if let Some(store) = tracked.store.clone() {
                    self.give_to_writer(Work::Write { own, store, image: Box::new(image) });
                }
                self.log_as_needed();
                continue;
            }
            let Some(leader) = &mut tracked.leader else { break };
            if let Some(job) = leader.next_told() {
                let board = Message::Board(Box::new(leader.board().clone())).encode();
                self.session.tell_of_checkpoints(own, ProcId { incarnation: job, rank: 0 }, &board);
            } else if let Some((job, report)) = leader.next_report() {
                let told = Message::Lines(Box::new(report)).encode();
                for to in self.session.processes_of(own, job) {
                    self.session.tell_of_checkpoints(own, to, &told);
                }
            } else if let Some((id, serial)) = leader.next_complete() {
                if let Some(store) = tracked.store.clone() {
                    self.give_to_writer(Work::Commit { own, store, serial, id });
                }
            } else if let Some(jobs) = leader.next_all_replayed() {
                for to in jobs.into_iter().flat_map(|job| self.session.processes_of(own, job)).collect::<Vec<_>>() {
                    self.session.tell_of_checkpoints(own, to, &Message::AllReplayed.encode());
                }
            } else {
                break;
            }
        }
    }

    fn give_to_writer(&mut self, work: Work) {
        let all = &mut self.checkpoints;
        if all.writer.is_none()
            && let Some(begin) = &all.begin_writer
        {
            match begin() {
                Ok(writer) => all.writer = Some(writer),
                Err(e) => base::log!(Error, "no thread that writes checkpoints: {e}"),
            }
        }
        if let Some((to, _)) = &all.writer {
            let _ = to.send(work);
        }
    }

    /// The image of this process in a line is on the disk, or cannot be written.
    fn image_written(&mut self, own: ProcId, id: LineId, written: Result<(), String>) {
        let Some(tracked) = self.checkpoints.jobs.get_mut(&own.incarnation) else { return };
        match written {
            Ok(()) => {
                if let Some(to) = tracked.reports_to.get(&id).copied() {
                    self.session.tell_of_checkpoints(own, to, &Message::Done(id, Done::Written).encode());
                }
            }
            Err(why) => {
                base::log!(Error, "a checkpoint of '{}' cannot be written: {why}", tracked.name);
                tracked.trouble = Some(why);
            }
        }
    }

    fn line_complete(&mut self, own: ProcId, serial: u64, done: Result<(), String>) {
        let Some(tracked) = self.checkpoints.jobs.get_mut(&own.incarnation) else { return };
        match done {
            Ok(()) => base::log!(Info, "checkpoint {serial} of '{}' is complete", tracked.name),
            Err(why) => {
                base::log!(Error, "a checkpoint of '{}' is complete, and cannot be named so: {why}", tracked.name);
                tracked.trouble = Some(why);
            }
        }
    }

    // ---- a restart

    /// The leader tells what its job has to restart from, and talks of it to these leaders.
    pub fn tell_known(&mut self, own: ProcId, known: Known, with: &[ProcId]) {
        if let Some(leader) =
            self.checkpoints.jobs.get_mut(&own.incarnation).and_then(|tracked| tracked.leader.as_mut())
        {
            with.iter().for_each(|other| leader.meet(other.incarnation));
            leader.knows(known);
        }
        self.go_on_with(own.incarnation);
    }

    /// Tells other leaders again what is known: one that has just begun may not have listened.
    pub fn tell_again(&mut self, own: ProcId) {
        if let Some(leader) =
            self.checkpoints.jobs.get_mut(&own.incarnation).and_then(|tracked| tracked.leader.as_mut())
        {
            leader.repeat();
        }
        self.go_on_with(own.incarnation);
    }

    /// From which line the leader's job restarts, as far as others have told.
    pub fn choice(&self, own: ProcId, known: &Known) -> Choice {
        let leader = self.checkpoints.jobs.get(&own.incarnation).and_then(|tracked| tracked.leader.as_ref());
        let others = leader.into_iter().flat_map(|leader| leader.board().known());
        choose(known, others.filter(|(job, _)| **job != own.incarnation).map(|(_, known)| known))
    }

    /// Begins where an image was, with one other job: tells its processes what is wanted of them. The
    /// inter-communicators with it are open.
    pub fn begin_resume(&mut self, own: ProcId, job: u64, of: Vec<(u32, OfPair)>, opened: Vec<Opened>) {
        if let Some(tracked) = self.checkpoints.jobs.get_mut(&own.incarnation) {
            tracked.opened.insert(job, opened);
        }
        for (rank, of) in of {
            let peer = ProcId { incarnation: job, rank };
            let wanted: Vec<u64> = of.line.wanted.iter().copied().collect();
            let once_more: Vec<u64> = of.line.lacking.iter().copied().collect();
            let most = wanted.len().max(once_more.len()).div_ceil(MOST_NUMBERS).max(1);
            for at in 0..most {
                let part = |all: &[u64]| all.iter().skip(at * MOST_NUMBERS).take(MOST_NUMBERS).copied().collect();
                let message = Message::Again(part(&wanted), part(&once_more), at + 1 == most);
                self.session.tell_of_checkpoints(own, peer, &message.encode());
            }
            let Some(tracked) = self.checkpoints.jobs.get_mut(&own.incarnation) else { return };
            tracked.of.insert(peer, of);
            self.resume_pair(own, peer);
        }
    }

    /// Begins where the images were, with one process, if both sides know what the other wants. Neither sends a message
    /// before the other has said that it has begun.
    fn resume_pair(&mut self, own: ProcId, peer: ProcId) {
        let Some(tracked) = self.checkpoints.jobs.get_mut(&own.incarnation) else { return };
        let is_told = tracked.wanted.get(&peer).is_some_and(|wanted| wanted.is_all);
        let Some(of) = is_told.then(|| tracked.of.remove(&peer)).flatten() else { return };
        let Wanted { from_image, once_more, .. } = tracked.wanted.remove(&peer).unwrap_or_default();
        base::log!(
            Debug,
            "{own} goes on with {peer}: has {} messages of it, awaits {} and sends {}; of those to come, {} and {} are sent once more",
            of.line.kept.len(),
            of.line.wanted.len(),
            from_image.len(),
            of.line.lacking.len(),
            once_more.len()
        );
        let again = (once_more, from_image.len() as u64);
        let mut leaving = of.leaving;
        leaving.retain(|kept| from_image.contains(&kept.number));
        tracked.leaving.insert(peer, leaving);
        self.session.resume_messages(own, peer, Resume { sent: of.sent, again, arrived: of.arrived, line: of.line });
        self.session.tell_of_checkpoints(own, peer, &Message::Resumed.encode());
    }

    /// The other side of a restarted pair takes messages: those of the own image are sent.
    fn send_image(&mut self, own: ProcId, peer: ProcId) {
        let Some(tracked) = self.checkpoints.jobs.get_mut(&own.incarnation) else { return };
        let Some(leaving) = tracked.leaving.remove(&peer) else { return };
        let opened = tracked.opened.get(&peer.incarnation).cloned().unwrap_or_default();
        for kept in leaving {
            let inter = opened.iter().find(|(context, ..)| *context == kept.context);
            let to = inter.and_then(|(_, inter, ranks)| Some((*inter, ranks.iter().position(|r| *r == peer.rank)?)));
            let Some((inter, dest)) = to else { continue };
            let op = self.session.engine.next_op();
            self.session.mem.insert(op, Layout::of_bytes(kept.data.clone()));
            self.session.send_again(op, inter, dest as u32, &kept);
            self.forget(op);
        }
    }

    /// The processes from which something of the images is still to come; whether each has told what it wants; and
    /// whether one is gone. None: the program may go on.
    pub fn awaited(&self, own: ProcId) -> Vec<(ProcId, bool, bool)> {
        let tracked = self.checkpoints.jobs.get(&own.incarnation);
        let untold = tracked.into_iter().flat_map(|tracked| tracked.of.keys().chain(tracked.leaving.keys()));
        let untold: BTreeSet<ProcId> = untold.copied().collect();
        let all = untold.iter().copied().chain(self.session.not_resumed(own)).collect::<BTreeSet<_>>();
        let is_gone = |peer: ProcId| {
            self.session.find_pair(own, peer).is_none_or(|pair| self.session.pair(pair).gone().is_some())
        };
        all.into_iter().map(|peer| (peer, !untold.contains(&peer), is_gone(peer))).collect()
    }

    /// Ends the thread that writes images, when it has written all.
    pub(crate) fn end_writer(&mut self) -> Option<std::thread::JoinHandle<()>> {
        self.checkpoints.begin_writer = None;
        self.checkpoints.writer.take().map(|(_, thread)| thread)
    }
}

fn image_of(tracked: &Tracked, whole: Whole<Arc<Besides>>) -> Image {
    let Whole { line, serial, of, outcomes, rest: besides } = whole;
    let head = Head {
        job: tracked.name.clone(),
        rank: tracked.own.rank,
        size: tracked.size,
        serial,
        label: besides.label.clone(),
        line: line.id,
        jobs: line.names,
    };
    let mut remotes: Vec<Remote> =
        besides.jobs.iter().map(|(_, name, size)| Remote { name: name.clone(), size: *size, of: Vec::new() }).collect();
    for (peer, of) in of {
        let at = besides.jobs.iter().position(|(job, ..)| *job == peer.incarnation);
        if let Some(remote) = at.and_then(|at| remotes.get_mut(at)) {
            remote.of.push((peer.rank, of));
        }
    }
    let place_of = |job| besides.jobs.iter().position(|(known, ..)| *known == job).map(|at| at as u32);
    Image { head, remotes, inters: besides.inters.clone(), outcomes: outcomes.outcomes(place_of) }
}

/// Rows as messages that fit a frame each.
fn in_parts(serial: u64, rows: Rows) -> Vec<Message> {
    let (mut parts, mut part) = (Vec::new(), Rows::new());
    let (mut rows_left, mut numbers_left) = (MOST_ROWS, MOST_NUMBERS);
    for (rank, row) in rows {
        let numbers: Vec<u64> = row.leaving.iter().copied().collect();
        let mut left = numbers.as_slice();
        loop {
            if rows_left.min(numbers_left) == 0 {
                parts.push(std::mem::take(&mut part));
                (rows_left, numbers_left) = (MOST_ROWS, MOST_NUMBERS);
            }
            let (now, later) = left.split_at(left.len().min(numbers_left));
            part.insert(rank, Row { leaving: now.iter().copied().collect(), ..row.clone() });
            (rows_left, numbers_left) = (rows_left - 1, numbers_left - now.len());
            left = later;
            if left.is_empty() {
                break;
            }
        }
    }
    parts.push(part);
    let last = parts.len() - 1;
    parts.into_iter().enumerate().map(|(at, rows)| Message::Rows(serial, rows, at == last)).collect()
}
