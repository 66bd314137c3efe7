//! Processes that were connected to the router and are no longer, and which of them have ended, as the kernel says.
//!
//! Invariant: a process counts as ended only if a descriptor of it says so that was opened while it was known to live. That its connection
//! has ended says nothing: it may have given up this transport, or come back.

use base::fork::{keep_from_children, let_go};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, FromRawFd, OwnedFd, RawFd};

/// Processes that are remembered after they have gone.
const MOST_GONE: usize = 1024;
/// Those among them that are not known to have ended, and that are still watched: the oldest give way.
const MOST_WATCHED: usize = 64;

/// A descriptor of a process (pidfd_open(2)), which is readable when that has ended.
#[derive(Debug)]
pub(super) struct Pid(OwnedFd);

impl Pid {
    /// That of the process with this number, as seen from here. Whoever opens it has to hear from the process afterwards: until then it may be
    /// another one that has got the number.
    pub fn open(pid: i32) -> io::Result<Pid> {
        // SAFETY: no memory is passed.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call has just made this descriptor, for us alone; it is closed on exec.
        let fd = unsafe { OwnedFd::from_raw_fd(fd as RawFd) };
        keep_from_children(&fd);
        Ok(Pid(fd))
    }

    fn has_ended(&self) -> bool {
        let mut fds = [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)];
        poll(&mut fds, PollTimeout::ZERO).is_ok_and(|n| n > 0)
    }
}

impl Drop for Pid {
    fn drop(&mut self) {
        let_go(&self.0);
    }
}

enum State {
    Watched(Pid),
    Ended,
    Unknown,
}

/// The processes that have gone, the latest last.
#[derive(Default)]
pub(super) struct Departed(VecDeque<([u8; 16], State)>);

/// What is known of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Known {
    /// Its connection has ended.
    Gone,
    /// The process has ended.
    Ended,
}

impl Departed {
    pub fn add(&mut self, process: [u8; 16], pid: Option<Pid>) {
        self.remove(&process);
        self.0.push_back((process, pid.map_or(State::Unknown, State::Watched)));
        if self.0.len() > MOST_GONE {
            self.0.pop_front();
        }
        let watched = |(_, state): &&mut ([u8; 16], State)| matches!(state, State::Watched(_));
        self.0.iter_mut().rev().filter(watched).skip(MOST_WATCHED).for_each(|(_, state)| *state = State::Unknown);
    }

    /// It has come back.
    pub fn remove(&mut self, process: &[u8; 16]) {
        self.0.retain(|(gone, _)| gone != process);
    }

    pub fn get(&mut self, process: &[u8; 16]) -> Option<Known> {
        let (_, state) = self.0.iter_mut().find(|(gone, _)| gone == process)?;
        if matches!(state, State::Watched(pid) if pid.has_ended()) {
            *state = State::Ended;
        }
        Some(if matches!(state, State::Ended) { Known::Ended } else { Known::Gone })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command, Stdio};

    fn sleeper() -> (Child, Pid) {
        let child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let pid = Pid::open(child.id() as i32).unwrap();
        (child, pid)
    }

    #[test]
    fn only_who_has_ended_counts_as_ended() {
        let mut departed = Departed::default();
        let (mut child, pid) = sleeper();
        departed.add([1; 16], Some(pid));
        departed.add([2; 16], None);
        assert_eq!(departed.get(&[1; 16]), Some(Known::Gone));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(departed.get(&[1; 16]), Some(Known::Ended));
        assert_eq!((departed.get(&[2; 16]), departed.get(&[3; 16])), (Some(Known::Gone), None));
        departed.remove(&[1; 16]);
        assert_eq!(departed.get(&[1; 16]), None);
    }

    #[test]
    fn few_are_watched_and_not_many_more_remembered() {
        let mut departed = Departed::default();
        let me = || Pid::open(std::process::id() as i32).unwrap();
        (0..2000u16).for_each(|n| departed.add([n.to_le_bytes(); 8].concat().try_into().unwrap(), Some(me())));
        let watched = departed.0.iter().filter(|(_, state)| matches!(state, State::Watched(_))).count();
        assert_eq!((departed.0.len(), watched), (MOST_GONE, MOST_WATCHED));
    }
}
