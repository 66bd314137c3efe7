//! The tail that follows HELLO and HELLO-ACK in a local handshake, and the parts of a lane that come out of it.
//!
//! Used by both ends. Invariant: lengths are fixed; what comes from the other side is checked before it is used.

use super::doorbells;
use super::liveness::{Held, Liveness};
use super::peek::{RemoteMemory, Token, own_token};
use super::rights::Connection;
use crate::memory::Segment;
use crate::memory::fence;
use base::bytes::{Malformed, Put, Take};
use base::protocol::greeting::{CONFIRMATION, MAX_PROOF};
use base::protocol::shared::{FENCES, LAYOUT, READS, tail};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::stat::{SFlag, fstat};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use trust::{GREETING, Progress};
use wire::hello::{HELLO_ACK_LEN, HELLO_LEN};

/// The bytes of a tail.
pub(super) const TAIL: usize = tail::BYTES;
/// The bytes of the longest message of a handshake: a greeting with its proof.
pub(super) const MAX_MESSAGE: usize = 544;
const _: () = assert!(MAX_MESSAGE == GREETING + MAX_PROOF);
// So HELLO and HELLO-ACK fit too.
const _: () = assert!(HELLO_LEN + HELLO_ACK_LEN + TAIL + CONFIRMATION < MAX_MESSAGE);

/// Hands the parts of one message of the proof to `side`, which wants them one by one. An error if the message is longer than
/// that.
pub(super) fn in_parts<S, E>(
    mut bytes: &[u8],
    side: &mut S,
    wants: impl Fn(&S) -> usize,
    mut hear: impl FnMut(&mut S, &[u8]) -> Result<Progress, E>,
) -> io::Result<Result<Progress, E>> {
    loop {
        let (part, rest) = bytes.split_at_checked(wants(side)).ok_or(io::ErrorKind::InvalidData)?;
        bytes = rest;
        match hear(side, part) {
            Ok(Progress::More) if !rest.is_empty() => (),
            Ok(_) if !rest.is_empty() => return Err(io::ErrorKind::InvalidData.into()),
            done => return Ok(done),
        }
    }
}
/// The last message of the handshake, and the flag in it that says that its sender can read the receiver's memory.
pub(super) use base::protocol::shared::{READY, READY_READS};

/// The doorbells of this process, which all its senders share: the doorbell bitmap, and the eventfd that wakes it.
#[derive(Clone)]
pub struct Doorbells {
    memory: Arc<Segment>,
    own: Arc<Own>,
}

/// What others do not see of them.
struct Own {
    /// Of the memory, and the eventfd.
    fds: [OwnedFd; 2],
    is_held: AtomicBool,
}

impl Doorbells {
    /// New doorbells. A sender writes to `eventfd` when a frame has come while we sleep.
    pub(crate) fn new(eventfd: BorrowedFd<'_>) -> io::Result<Doorbells> {
        let (memory, memory_fd) = Segment::create(doorbells::BYTES)?;
        let own = Own { fds: [memory_fd, eventfd.try_clone_to_owned()?], is_held: AtomicBool::new(false) };
        Ok(Doorbells { memory: Arc::new(memory), own: Arc::new(own) })
    }

    /// Says that this process lives, for as long as this thread keeps what is returned. It is asked for once: `None` later, or if that cannot
    /// be said. The thread begins no other program.
    pub fn hold(&self) -> Option<Held> {
        let is_held = &self.own.is_held;
        if is_held.load(Ordering::Relaxed) || is_held.swap(true, Ordering::Relaxed) {
            None
        } else {
            Held::new(&self.memory)
        }
    }

    /// Whether a bit is set: a lane that is not direct has input.
    #[inline]
    pub fn any(&self) -> bool {
        doorbells::any(&*self.memory)
    }

    /// Clears all bits, and calls `f` with each that was set: lanes with this bit may have input.
    pub fn take(&self, f: impl FnMut(u32)) {
        doorbells::take(&*self.memory, f);
    }

    /// Sets a bit of ours, as if a frame had come on a lane with this bit.
    pub fn set(&self, bit: u32) {
        doorbells::set(&*self.memory, bit);
    }

    /// Says that we are about to sleep: from now on, the first sender wakes us. All lanes have to be looked at once more before
    /// sleeping.
    pub fn arm(&self) {
        doorbells::arm(&*self.memory);
    }

    /// Whether a sender would wake us.
    #[cfg(test)]
    pub(crate) fn is_armed(&self) -> bool {
        doorbells::is_armed(&*self.memory)
    }

    pub(super) fn fds(&self) -> [BorrowedFd<'_>; 2] {
        self.own.fds.each_ref().map(AsFd::as_fd)
    }
}

/// What follows HELLO and HELLO-ACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tail {
    /// The bit of this lane in its sender's doorbell bitmap.
    pub bit: u32,
    /// A word in its sender's memory, for the other side to try whether it can read there.
    pub token: Token,
    /// In an answer: its sender can read the other side's memory.
    pub reads: bool,
    /// Its sender takes part in [`fence::everywhere`].
    pub fences: bool,
}

impl Tail {
    /// Our own tail. The bit is the pair's key modulo the number of doorbells.
    pub(super) fn own(key: u32, reads: bool) -> Tail {
        Tail { bit: key % doorbells::BITS, token: own_token(), reads, fences: fence::takes_part() }
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.put_u16(LAYOUT);
        out.put_u16(if self.reads { READS } else { 0 } | if self.fences { FENCES } else { 0 });
        out.put_u32(self.bit);
        out.put_u64(self.token.address);
        out.put_u64(self.token.value);
    }

    /// `None` if the memory has another layout, that of another version.
    pub(super) fn decode(bytes: &[u8]) -> Result<Option<Tail>, Malformed> {
        let mut t = Take(bytes);
        if t.u16()? != LAYOUT {
            return Ok(None);
        }
        let flags = t.u16()?;
        let bit = t.u32()?;
        let token = Token { address: t.u64()?, value: t.u64()? };
        t.end()?;
        let tail = Tail { bit, token, reads: flags & READS != 0, fences: flags & FENCES != 0 };
        if bit < doorbells::BITS { Ok(Some(tail)) } else { Err(Malformed) }
    }
}

/// What the other side has sent of itself.
pub(super) struct Theirs {
    pub doorbells: Arc<Segment>,
    pub eventfd: OwnedFd,
    pub bit: u32,
    /// Its memory, if we can read it.
    pub remote: Option<RemoteMemory>,
    /// Its fences serve us too: both sides take part in [`fence::everywhere`].
    pub fences: bool,
}

impl Theirs {
    pub(super) fn new(
        connection: &Connection,
        tail: &Tail,
        doorbells: OwnedFd,
        eventfd: OwnedFd,
    ) -> io::Result<Theirs> {
        // Writing to a pipe or a socket that nobody reads, or to a file that is too long, would send a signal.
        if SFlag::from_bits_truncate(fstat(&eventfd)?.st_mode) & SFlag::S_IFMT != SFlag::empty() {
            return Err(Errno::EBADMSG.into());
        }
        // It may still be any that has no file, and writing to it must not block.
        fcntl(&eventfd, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        let pid = connection.peer()?;
        let doorbells = Arc::new(Segment::adopt(doorbells, doorbells::BYTES)?);
        let lives = Liveness::of(&doorbells);
        let remote = RemoteMemory::find(pid, tail.token, lives);
        let fences = tail.fences && fence::takes_part();
        Ok(Theirs { doorbells, eventfd, bit: tail.bit, remote, fences })
    }
}

/// What a lane is made of: what a handshake leaves.
pub(crate) struct Parts {
    pub(super) connection: Connection,
    pub(super) memory: Segment,
    pub(super) theirs: Theirs,
    /// Whether we have dialled.
    pub(super) dialled: bool,
    /// The other side can read our memory.
    pub(super) read_by: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::eventfd::{EfdFlags, EventFd};

    /// A write to the other end of a pipe that nobody reads would end the program.
    #[test]
    fn a_bell_that_raises_a_signal_is_refused() {
        let theirs = |bell: OwnedFd| {
            let (connection, _other) = Connection::pair().unwrap();
            let (_, doorbells) = Segment::create(doorbells::BYTES).unwrap();
            let tail = Tail { bit: 0, token: own_token(), reads: false, fences: false };
            Theirs::new(&connection, &tail, doorbells, bell).map(drop)
        };
        let bell = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK).unwrap();
        theirs(bell.into()).expect("an eventfd");
        let (_, pipe) = nix::unistd::pipe().unwrap();
        let (_, socket) = Connection::pair().unwrap();
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        for other in [pipe, socket, file.into()] {
            let mode = fstat(&other).unwrap().st_mode;
            assert!(theirs(other).is_err(), "{mode:o}");
        }
    }

    #[test]
    fn a_tail_survives_the_way() {
        let tail = Tail { bit: 5, token: Token { address: 6, value: 7 }, reads: true, fences: true };
        let mut bytes = Vec::new();
        tail.encode(&mut bytes);
        assert_eq!(bytes.len(), TAIL);
        assert_eq!(Tail::decode(&bytes), Ok(Some(tail)));
        assert_eq!(Tail::decode(&bytes[1..]), Ok(None));
        assert_eq!(Tail::decode(&bytes[..TAIL - 1]), Err(Malformed));
        let mut other = bytes.clone();
        other[0] = LAYOUT as u8 + 1;
        assert_eq!(Tail::decode(&other), Ok(None));
        bytes[5] = 9;
        assert_eq!(Tail::decode(&bytes), Err(Malformed));
    }
}
