//! Names that several servers share, in a store that all of them reach. The server's loop alone uses this, when it was told to share.
//!
//! Invariant: each answer is of a transaction of the store, so it does not matter which server is asked; a server that does not reach
//! the store refuses, and knows nothing better than the others.

mod rows;
mod store;
mod table;
mod task;
#[cfg(test)]
mod tests;
mod worker;

pub use store::{Cell, Compare, Event, Op, Outcome, SharedError, SharedStore, SharedWatch, Txn};

use super::names::By;
use super::owner::Owner;
use crate::fate::Fate;
use crate::record::{Record, RecordError, check_name};
use crate::wire::{Answer, Refusal, Request};
use std::collections::HashSet;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::thread;
use std::time::{Duration, Instant};
use table::{News, Table};
use task::What;
use worker::{Common, Reply, Told, Worker};

/// A server that begins tells clients that watch of so many revisions before, if the store has them: a client that comes from another
/// server goes on where it was.
const BEFORE: u64 = 10_000;

/// The shared names, as the server's loop sees them.
pub(super) struct Shared {
    told: Sender<Told>,
    replies: Receiver<Reply>,
    wake: UnixStream,
    common: Arc<Common>,
    /// The names of each kind.
    pub kinds: [u64; 3],
}

/// What the worker has done since the last call.
#[derive(Default)]
pub(super) struct Done {
    pub answers: Vec<(By, Answer)>,
    pub news: Vec<(u64, Fate, Box<[u8]>)>,
    pub notes: Vec<String>,
}

impl Shared {
    /// Reads the store, and starts the threads. Returns the number of the first change that is told, too.
    pub(super) fn start(mut store: Box<dyn SharedStore>, lease: Duration) -> Result<(Shared, u64), SharedError> {
        let failed = |e: io::Error| SharedError::Refused(format!("this server cannot begin: {e}"));
        let mut table = Table::new();
        let (at, cells) = store.snapshot()?;
        table.fill(at, cells, Instant::now())?;
        let kinds = table.kinds;
        let (wake, waking) = UnixStream::pair().map_err(failed)?;
        wake.set_nonblocking(true).map_err(failed)?;
        waking.set_nonblocking(true).map_err(failed)?;
        let ((told, hears), (says, replies), (resume, resumed)) = (channel(), channel(), sync_channel(1));
        let common = Arc::new(Common::default());
        let watch = store.watcher();
        let (of_worker, tells) = (common.clone(), told.clone());
        let gone = HashSet::new();
        let worker =
            Worker { store, table, lease, told: hears, replies: says, wake: waking, common: of_worker, resume, gone };
        thread::Builder::new().name("store".into()).spawn(move || worker.run()).map_err(failed)?;
        let of_watch = common.clone();
        let from = at.saturating_sub(BEFORE) + 1;
        thread::Builder::new()
            .name("changes".into())
            .spawn(move || worker::listen(watch, from, &tells, &resumed, &of_watch))
            .map_err(failed)?;
        Ok((Shared { told, replies, wake, common, kinds }, table::number(at + 1, 0)))
    }

    /// Readable when there is something to take.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// The number of names that are held.
    pub(super) fn names(&self) -> u64 {
        self.kinds.iter().sum()
    }

    /// Asks. Without an answer, [`Shared::take`] gives it later.
    pub(super) fn ask(&self, by: By, owner: Owner, request: Request) -> Option<Answer> {
        if self.common.away.load(Ordering::Relaxed) {
            return Some(Answer::Refused(Refusal::StoreAway));
        }
        let what = match what(owner, request) {
            Ok(what) => what,
            Err(refusal) => return Some(Answer::Refused(refusal)),
        };
        // The worker ends only with the server.
        self.told.send(Told::Asked(by, what)).err().map(|_| Answer::Refused(Refusal::StoreAway))
    }

    /// A client has gone that has claimed or renewed.
    pub(super) fn gone(&self, by: By) {
        let _ = self.told.send(Told::Gone(by));
    }

    pub(super) fn take(&mut self) -> Done {
        while matches!((&self.wake).read(&mut [0; 256]), Ok(256)) {}
        let mut done = Done::default();
        for reply in self.replies.try_iter() {
            match reply {
                Reply::Answer(by, answer) => done.answers.push((by, answer)),
                Reply::News(news, kinds) => {
                    done.news.extend::<Vec<News>>(news);
                    self.kinds = kinds;
                }
                Reply::Note(text) => done.notes.push(text),
            }
        }
        done
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.common.ended.store(true, Ordering::Relaxed);
    }
}

fn what(owner: Owner, request: Request) -> Result<What, Refusal> {
    let take = |token, number, record: Vec<u8>| match Record::decode(&record) {
        Ok(read) => Ok(What::Take { token, number, place: task::place(&read.key()), record, owner }),
        Err(RecordError::OtherVersion(_)) => Err(Refusal::RecordVersion(crate::record::VERSION)),
        Err(_) => Err(Refusal::Malformed),
    };
    let place = |key: crate::Key| {
        let good = check_name(&key.name).is_ok() && (key.run.is_empty() || check_name(&key.run).is_ok());
        if good { Ok(task::place(&key)) } else { Err(Refusal::Malformed) }
    };
    match request {
        Request::Claim { token, record } => take(token, 0, record),
        Request::Renew { token, number, record } => take(token, number, record),
        Request::Release { token, key } => Ok(What::Release { token, place: place(key)? }),
        Request::Lookup { key } => Ok(What::Lookup { place: place(key)? }),
        Request::List { after } => {
            Ok(What::List { after: after.map(place).transpose()?, records: Vec::new(), size: 0 })
        }
        // The caller has answered it from the journal.
        Request::Changes { .. } => Err(Refusal::Malformed),
    }
}
