//! The threads that speak with the shared store: one asks, the other hears of changes. The server's loop gives them requests and
//! takes answers, and never waits.
//!
//! Invariant: requests that come while a transaction is under way go together with the next; a request is answered or refused within
//! [`PATIENCE`] and what the transaction before it took.

use super::store::{Event, Op, Outcome, SharedError, SharedStore, SharedWatch, Txn};
use super::table::{News, Table};
use super::task::{Next, Step, Task, Then, What};
use crate::server::names::By;
use crate::wire::{Answer, Refusal};
use std::collections::{HashSet, VecDeque};
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long a transaction may take, at all nodes of the store together. A client that has several servers waits for one as long as for two
/// of these: the one under way, and its own.
pub(super) const PATIENCE: Duration = Duration::from_millis(700);
/// The store is asked at least so often, and so often while it is away.
const HEARTBEAT: Duration = Duration::from_millis(300);
const AGAIN: Duration = Duration::from_millis(100);
/// A longer time without the store does not count for leases.
const GAP: Duration = Duration::from_millis(800);
/// The most requests of a transaction, and the most bytes that it writes.
const MOST: usize = 48;
const MOST_BYTES: usize = 512 << 10;
/// How often a request is tried whose name others change meanwhile.
const TRIES: u32 = 20;

/// What the worker is told.
pub(super) enum Told {
    Asked(By, What),
    /// A client has gone that has claimed or renewed.
    Gone(By),
    /// Changes of whole revisions.
    Changes(Vec<Event>),
    /// The watch cannot go on where it was.
    Lost,
}

/// What the server's loop is told.
pub(super) enum Reply {
    Answer(By, Answer),
    News(Vec<News>, [u64; 3]),
    /// For the person that runs the server.
    Note(String),
}

/// What the threads and the loop share.
#[derive(Default)]
pub(super) struct Common {
    /// The store is not reached.
    pub away: AtomicBool,
    /// The server has ended.
    pub ended: AtomicBool,
    /// The last revision that a transaction here has made, for the watch.
    reached: AtomicU64,
}

pub(super) struct Worker {
    pub store: Box<dyn SharedStore>,
    pub table: Table,
    pub lease: Duration,
    pub told: Receiver<Told>,
    pub replies: Sender<Reply>,
    pub wake: UnixStream,
    pub common: Arc<Common>,
    /// Where the watch goes on after it was lost.
    pub resume: SyncSender<u64>,
    /// Clients that have gone while something that they asked was still to be done.
    pub gone: HashSet<By>,
}

/// A transaction under way: what was asked, and what the outcome means.
type Running = (Task, Txn, Then);

impl Worker {
    pub(super) fn run(mut self) {
        let mut queue: VecDeque<Task> = VecDeque::new();
        let (mut contact, mut look, mut beat) = (Instant::now(), Instant::now(), Instant::now());
        while !self.common.ended.load(Ordering::Relaxed) {
            let limit = if queue.is_empty() {
                look.min(beat).saturating_duration_since(Instant::now())
            } else {
                Duration::ZERO
            };
            let mut next = match self.told.recv_timeout(limit) {
                Ok(told) => Some(told),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            while let Some(told) = next {
                self.hear(told, &mut queue);
                next = self.told.try_recv().ok();
            }
            let now = Instant::now();
            let away = self.common.away.load(Ordering::Relaxed);
            if now >= look && queue.is_empty() && !away {
                let (due, later) = self.table.due(now, 2 * self.lease);
                queue.extend(due.into_iter().take(MOST).map(|due| Task::new(0, What::Due(due))));
                // What is due now is looked at again, since others may have been faster.
                look = later.clamp(now + AGAIN, now + HEARTBEAT);
            }
            self.gone.retain(|by| queue.iter().any(|task| task.by == *by));
            let running = self.batch(&mut queue);
            if running.is_empty() && now < beat {
                continue;
            }
            let txns: Vec<Txn> = running.iter().map(|(_, txn, _)| txn.clone()).collect();
            match self.store.transact(&txns, PATIENCE) {
                Ok((revision, outcomes)) => {
                    let now = Instant::now();
                    self.reached(now.saturating_duration_since(contact), now);
                    contact = now;
                    beat = now + HEARTBEAT;
                    if txns.iter().any(|txn| txn.then.iter().any(|op| !matches!(op, Op::Get(_) | Op::Range(..)))) {
                        self.common.reached.fetch_max(revision, Ordering::Relaxed);
                    }
                    for ((task, _, then), outcome) in running.into_iter().zip(outcomes) {
                        self.done(task, then, revision, outcome, &mut queue, now);
                    }
                }
                // Together they may be too much, and what only reads may still be done.
                Err(SharedError::Full(_) | SharedError::Refused(_)) if running.len() > 1 => {
                    self.one_by_one(running, &mut queue)
                }
                Err(why) => {
                    self.failed(&why, running, &mut queue);
                    beat = Instant::now() + AGAIN;
                }
            }
        }
    }

    fn hear(&mut self, told: Told, queue: &mut VecDeque<Task>) {
        let now = Instant::now();
        match told {
            Told::Asked(by, what) => queue.push_back(Task::new(by, what)),
            Told::Gone(by) => {
                self.table.doubt(by);
                if queue.iter().any(|task| task.by == by) {
                    self.gone.insert(by);
                }
            }
            Told::Changes(events) => {
                let (mut news, mut at, mut nth) = (Vec::new(), 0, 0);
                for event in events {
                    if event.modified != at {
                        (at, nth) = (event.modified, 0);
                        self.table.revision = self.table.revision.max(at - 1);
                    }
                    match self.table.hear(&event, &mut nth, now) {
                        Ok(told) => news.extend(told),
                        Err(why) => self.note(format!("the store cannot be read: {why}")),
                    }
                }
                self.table.revision = self.table.revision.max(at);
                if !news.is_empty() {
                    self.reply(Reply::News(news, self.table.kinds));
                }
            }
            Told::Lost => {
                let filled = self.store.snapshot().and_then(|(at, cells)| self.table.fill(at, cells, now));
                match filled {
                    Ok(news) => self.reply(Reply::News(news, self.table.kinds)),
                    Err(why) => self.note(format!("the store cannot be read: {why}")),
                }
                let _ = self.resume.try_send(self.table.revision + 1);
            }
        }
    }

    /// What of the queue goes into the next transaction. No row is written twice in one.
    fn batch(&mut self, queue: &mut VecDeque<Task>) -> Vec<Running> {
        let (mut running, mut later, mut written, mut bytes) = (Vec::new(), VecDeque::new(), HashSet::new(), 0);
        let lease = u32::try_from(self.lease.as_millis()).unwrap_or(u32::MAX);
        while let Some(task) = queue.pop_front() {
            if running.len() >= MOST || bytes >= MOST_BYTES {
                later.push_back(task);
                break;
            }
            match task.step(&self.table, lease) {
                Step::Answer(answer) => self.reply(Reply::Answer(task.by, answer)),
                Step::Run(txn, then) => {
                    let writes = || {
                        txn.then.iter().filter_map(|op| match op {
                            Op::Put(key, value) => Some((key, value.len())),
                            Op::Delete(key) => Some((key, 0)),
                            _ => None,
                        })
                    };
                    if writes().any(|(key, _)| written.contains(key)) {
                        later.push_back(task);
                        continue;
                    }
                    // A list may read much: few of them go together.
                    bytes += if matches!(task.what, What::List { .. }) { MOST_BYTES / 8 } else { 0 };
                    bytes += writes().map(|(key, length)| key.len() + length).sum::<usize>();
                    written.extend(writes().map(|(key, _)| key.clone()));
                    running.push((task, txn, then));
                }
            }
        }
        later.append(queue);
        *queue = later;
        running
    }

    fn done(
        &mut self,
        task: Task,
        then: Then,
        revision: u64,
        outcome: Outcome,
        queue: &mut VecDeque<Task>,
        now: Instant,
    ) {
        let (by, is_asked) = (task.by, task.is_asked());
        let done = task.done(then, revision, outcome, &mut self.table, now);
        // It did not live to hear of this.
        if self.gone.contains(&by) {
            self.table.doubt(by);
        }
        match done {
            Ok(Next::Answer(answer)) => self.reply(Reply::Answer(by, answer)),
            Ok(Next::Done) => {}
            Ok(Next::Again(task)) if task.tries < TRIES => queue.push_back(task),
            Ok(Next::Again(_)) => self.reply(Reply::Answer(by, Answer::Refused(Refusal::StoreAway))),
            Err(why) => {
                self.note(format!("the store cannot be read: {why}"));
                if is_asked {
                    self.reply(Reply::Answer(by, Answer::Refused(Refusal::Disk)));
                }
            }
        }
    }

    fn one_by_one(&mut self, running: Vec<Running>, queue: &mut VecDeque<Task>) {
        let mut rest = running.into_iter();
        while let Some((task, txn, then)) = rest.next() {
            match self.store.transact(std::slice::from_ref(&txn), PATIENCE) {
                Ok((revision, outcomes)) => {
                    for outcome in outcomes {
                        self.done(task.clone(), then.clone(), revision, outcome, queue, Instant::now());
                    }
                }
                Err(why @ SharedError::Away(_)) => {
                    return self.failed(&why, [(task, txn, then)].into_iter().chain(rest).collect(), queue);
                }
                Err(why) => self.failed(&why, vec![(task, txn, then)], queue),
            }
        }
    }

    /// Nothing of this was done, as far as is known. While the store is away, nobody waits for it.
    fn failed(&mut self, why: &SharedError, running: Vec<Running>, queue: &mut VecDeque<Task>) {
        let refusal = match why {
            SharedError::Away(_) => Refusal::StoreAway,
            SharedError::Full(_) => Refusal::DiskFull,
            _ => Refusal::Disk,
        };
        let mut refused: Vec<Task> = running.into_iter().map(|(task, ..)| task).collect();
        if refusal == Refusal::StoreAway {
            if !self.common.away.swap(true, Ordering::Relaxed) {
                self.note(format!("the store is away, so everybody is refused: {why}"));
            }
            refused.extend(queue.drain(..));
        } else {
            self.note(format!("a request is refused, since the store does: {why}"));
        }
        for task in refused.into_iter().filter(Task::is_asked) {
            self.reply(Reply::Answer(task.by, Answer::Refused(refusal)));
        }
    }

    /// The store has answered, so long after it last did.
    fn reached(&mut self, gap: Duration, now: Instant) {
        if gap > GAP {
            base::log!(Info, "{:.1} s without the store: all leases last so much longer", gap.as_secs_f32());
            self.table.excuse(gap, now);
        }
        if self.common.away.swap(false, Ordering::Relaxed) {
            self.note("the store is reached again".into());
        }
    }

    fn note(&self, text: String) {
        self.reply(Reply::Note(text));
    }

    fn reply(&self, reply: Reply) {
        if self.replies.send(reply).is_ok() {
            // A byte that finds no room is not needed: others wait there already.
            let _ = (&self.wake).write(&[1]);
        }
    }
}

/// The thread that hears of changes, from this revision on.
pub(super) fn listen(
    mut watch: Box<dyn SharedWatch>,
    mut from: u64,
    told: &Sender<Told>,
    resume: &Receiver<u64>,
    common: &Common,
) {
    while !common.ended.load(Ordering::Relaxed) {
        let lags = common.reached.load(Ordering::Relaxed) >= from;
        let heard = watch.changes(from, lags, &mut |events| {
            from = from.max(events.last().map_or(0, |event| event.modified + 1));
            told.send(Told::Changes(events)).is_ok()
        });
        match heard {
            Ok(()) => {}
            Err(SharedError::Compacted(_)) => {
                if told.send(Told::Lost).is_err() {
                    return;
                }
                let Ok(next) = resume.recv() else { return };
                from = next;
            }
            Err(why) => {
                base::log!(Debug, "the watch of the store goes on elsewhere: {why}");
                sleep(AGAIN);
            }
        }
    }
}
