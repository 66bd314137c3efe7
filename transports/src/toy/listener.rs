//! The listeners of this process's nodes: a table, by process number, of the connections that wait, and a pipe that tells of
//! each.

use super::Pipes;
use nix::fcntl::OFlag;
use nix::unistd::{pipe2, read, write};
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

static LISTENERS: Mutex<BTreeMap<[u8; 16], Waiting>> = Mutex::new(BTreeMap::new());

struct Waiting {
    all: VecDeque<Pipes>,
    /// A byte is written here for each connection.
    wakeup: OwnedFd,
}

fn listeners() -> MutexGuard<'static, BTreeMap<[u8; 16], Waiting>> {
    LISTENERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes pipes to a node, and leaves the other ends at its listener.
pub(super) fn connect(process: &[u8]) -> io::Result<Pipes> {
    let mut listeners = listeners();
    let there = <[u8; 16]>::try_from(process).ok().and_then(|process| listeners.get_mut(&process));
    let there = there.ok_or(ErrorKind::ConnectionRefused)?;
    let [ours, theirs] = Pipes::pair()?;
    write(&there.wakeup, &[1])?;
    there.all.push_back(theirs);
    Ok(ours)
}

/// The listener of one node.
pub(super) struct Listener {
    process: [u8; 16],
    wakeup: OwnedFd,
}

impl Listener {
    pub(super) fn open(process: [u8; 16]) -> io::Result<Listener> {
        let (wakeup, their_end) = pipe2(OFlag::O_NONBLOCK | OFlag::O_CLOEXEC)?;
        listeners().insert(process, Waiting { all: VecDeque::new(), wakeup: their_end });
        Ok(Listener { process, wakeup })
    }

    pub(super) fn accept(&self) -> io::Result<Pipes> {
        read(&self.wakeup, &mut [0])?;
        let next = listeners().get_mut(&self.process).and_then(|waiting| waiting.all.pop_front());
        next.ok_or(ErrorKind::WouldBlock.into())
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wakeup.as_fd()
    }
}

/// Closes the connections that still wait.
impl Drop for Listener {
    fn drop(&mut self) {
        let gone = listeners().remove(&self.process);
        drop(gone);
    }
}
