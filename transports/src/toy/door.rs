//! Where nodes of this process come to: by the number of a node, who waits there, and a pipe that tells of each.

use super::Pipes;
use nix::fcntl::OFlag;
use nix::unistd::{pipe2, read, write};
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

static DOORS: Mutex<BTreeMap<[u8; 16], Waiting>> = Mutex::new(BTreeMap::new());

struct Waiting {
    all: VecDeque<Pipes>,
    /// A byte for each.
    bell: OwnedFd,
}

fn doors() -> MutexGuard<'static, BTreeMap<[u8; 16], Waiting>> {
    DOORS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Pipes to a node, the other ends of which are at its door.
pub fn knock(process: &[u8]) -> io::Result<Pipes> {
    let mut doors = doors();
    let there = <[u8; 16]>::try_from(process).ok().and_then(|process| doors.get_mut(&process));
    let there = there.ok_or(ErrorKind::ConnectionRefused)?;
    let [ours, theirs] = Pipes::pair()?;
    write(&there.bell, &[1])?;
    there.all.push_back(theirs);
    Ok(ours)
}

/// A node's.
pub struct Door {
    process: [u8; 16],
    bell: OwnedFd,
}

impl Door {
    pub fn open(process: [u8; 16]) -> io::Result<Door> {
        let (bell, their_end) = pipe2(OFlag::O_NONBLOCK | OFlag::O_CLOEXEC)?;
        doors().insert(process, Waiting { all: VecDeque::new(), bell: their_end });
        Ok(Door { process, bell })
    }

    pub fn accept(&self) -> io::Result<Pipes> {
        read(&self.bell, &mut [0])?;
        let next = doors().get_mut(&self.process).and_then(|waiting| waiting.all.pop_front());
        next.ok_or(ErrorKind::WouldBlock.into())
    }
}

impl AsFd for Door {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

/// Who still waits there sees the end.
impl Drop for Door {
    fn drop(&mut self) {
        let gone = doors().remove(&self.process);
        drop(gone);
    }
}
