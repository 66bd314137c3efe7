//! Which names and couplings of the run come and go: a thread looks, and the supervisor is woken.
//!
//! Invariant: the jobs do not depend on it; where names cannot be seen, that is told, and they run all the same.

use super::output;
use crate::key::KeyOption;
use crate::select::Selection;
use crate::watch::Following;
use naming::{Fate, Kind, Record, Row, follow};
use std::io::{self, PipeReader, PipeWriter, Read, Write, pipe};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

/// What has come or gone.
#[derive(Debug)]
pub enum Seen {
    Job { came: bool, by: Holder, mpi: String },
    Coupling { came: bool, jobs: [Holder; 2] },
}

/// Who holds a name: its leader's process, if that is on this host.
#[derive(Debug)]
pub struct Holder {
    pub name: String,
    pub process: Option<u32>,
}

pub struct Names {
    seen: Receiver<Seen>,
    wake: PipeReader,
}

impl Names {
    /// From now on.
    pub fn watch(url: &str, run: &str, key: &KeyOption) -> io::Result<Names> {
        let (wake, writer) = pipe()?;
        let (tell, seen) = channel();
        let (url, run, key) = (url.to_owned(), run.to_owned(), key.clone());
        thread::Builder::new().name("names".into()).spawn(move || {
            if let Err(e) = look(&url, &run, &key, &tell, &writer) {
                output::say(&format!("who has joined is not shown: {e}"));
            }
            // An end of the pipe would wake for ever.
            std::mem::forget(writer);
        })?;
        Ok(Names { seen, wake })
    }

    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// What has been seen since the last call.
    pub fn seen(&self) -> Vec<Seen> {
        let all: Vec<Seen> = self.seen.try_iter().collect();
        if !all.is_empty() {
            // One byte was written for each, after it was sent.
            let _ = (&self.wake).read_exact(&mut vec![0; all.len()]);
        }
        all
    }
}

/// Goes on for ever, unless it cannot begin.
fn look(url: &str, run: &str, key: &KeyOption, tell: &Sender<Seen>, wake: &PipeWriter) -> Result<(), String> {
    let store = key.open(url).map_err(|e| e.to_string())?;
    let wanted = Selection::new(None, &[], Some(run));
    // A folder that is not there yet is made: what comes into it could not be watched.
    store.make_ready().map_err(|e| e.to_string())?;
    let changes = store.watch();
    let here = naming::host();
    let told = |fate, row: &Row, _| {
        let seen = seen(fate == Fate::Claimed, row, &here);
        let Some(seen) = seen else { return Ok(()) };
        tell.send(seen).map_err(|_| io::ErrorKind::BrokenPipe)?;
        (&mut &*wake).write_all(&[0])
    };
    let mut following = Following { wanted: &wanted, tell: told };
    follow(store.as_ref(), changes, Vec::new(), &mut following).map_err(|e| e.to_string())
}

fn seen(came: bool, row: &Row, here: &str) -> Option<Seen> {
    let record = &row.record;
    let holder =
        |of: &Record| Holder { name: of.name.clone(), process: (of.host == here && of.pid != 0).then_some(of.pid) };
    match (record.kind(), &row.other) {
        (Kind::Job, _) => Some(Seen::Job { came, by: holder(record), mpi: record.mpi.clone() }),
        (Kind::Coupling, Some(other)) => Some(Seen::Coupling { came, jobs: [holder(record), holder(other)] }),
        _ => None,
    }
}
