//! What the two sides of a local handshake tell each other beyond HELLO and HELLO-ACK, and what they end up with.
//!
//! Used by both ends. Invariant: fixed lengths; what comes from the other side is checked before it is used.

use super::peek::{Readable, Token, own_token};
use super::rights::Connection;
use super::segment::Segment;
use super::{board, fence};
use base::bytes::{Malformed, Put, Take};
use base::protocol::shared::{FENCES, LAYOUT, READS, tail};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use wire::hello::{HELLO_ACK_LEN, HELLO_LEN, MAX_PROOF};

/// Bytes of a tail, and the longest HELLO and HELLO-ACK with theirs.
pub const TAIL: usize = tail::BYTES;
pub const MAX_HELLO: usize = HELLO_LEN + MAX_PROOF + TAIL;
pub const MAX_ACK: usize = HELLO_ACK_LEN + MAX_PROOF + TAIL;
/// The last word, and what it says with it: the sender can read the receiver's memory.
pub use base::protocol::shared::{READY, READY_READS};

/// What this process shows to all who send to it.
#[derive(Clone)]
pub struct Own(Arc<Shown>);

struct Shown {
    board: Segment,
    board_fd: OwnedFd,
    bell: OwnedFd,
}

impl Own {
    /// `bell`: an eventfd, written to when we sleep and something has come.
    pub fn new(bell: BorrowedFd<'_>) -> io::Result<Own> {
        let (board, board_fd) = Segment::create(board::BOARD)?;
        Ok(Own(Arc::new(Shown { board, board_fd, bell: bell.try_clone_to_owned()? })))
    }

    /// Whether some lane that is not looked at by itself has something.
    pub fn any(&self) -> bool {
        board::any(&self.0.board)
    }

    /// The bits of lanes that have something.
    pub fn take(&self, f: impl FnMut(u32)) {
        board::take(&self.0.board, f);
    }

    /// As if something had come on a lane with this bit.
    pub fn set(&self, bit: u32) {
        board::set(&self.0.board, bit);
    }

    /// From now on, the first who sends wakes us. Look once more at all lanes before sleeping.
    pub fn arm(&self) {
        board::doze(&self.0.board);
    }

    pub fn dozes(&self) -> bool {
        board::dozes(&self.0.board)
    }

    pub(super) fn fds(&self) -> [BorrowedFd<'_>; 2] {
        [self.0.board_fd.as_fd(), self.0.bell.as_fd()]
    }
}

/// What follows HELLO and HELLO-ACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tail {
    /// The bit of this lane on the board of whoever says this.
    pub bit: u32,
    pub token: Token,
    pub reads: bool,
    pub fences: bool,
}

impl Tail {
    /// `key`: the pair's; the bit is what the board tells apart of it.
    pub fn own(key: u32, reads: bool) -> Tail {
        Tail { bit: key % board::BITS, token: own_token(), reads, fences: fence::takes_part() }
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        out.put_u16(LAYOUT);
        out.put_u16(if self.reads { READS } else { 0 } | if self.fences { FENCES } else { 0 });
        out.put_u32(self.bit);
        out.put_u64(self.token.address);
        out.put_u64(self.token.value);
    }

    /// `None`: another layout.
    pub fn decode(bytes: &[u8]) -> Result<Option<Tail>, Malformed> {
        let mut t = Take(bytes);
        if t.u16()? != LAYOUT {
            return Ok(None);
        }
        let flags = t.u16()?;
        let bit = t.u32()?;
        let token = Token { address: t.u64()?, value: t.u64()? };
        t.end()?;
        let tail = Tail { bit, token, reads: flags & READS != 0, fences: flags & FENCES != 0 };
        if bit < board::BITS { Ok(Some(tail)) } else { Err(Malformed) }
    }
}

/// What the other side has shown us of itself.
pub struct Theirs {
    pub board: Segment,
    pub bell: OwnedFd,
    pub bit: u32,
    /// If we can read its memory.
    pub readable: Option<Readable>,
    /// Its fences are ours too.
    pub fences: bool,
}

impl Theirs {
    pub fn new(connection: &Connection, tail: &Tail, board: OwnedFd, bell: OwnedFd) -> io::Result<Theirs> {
        // Whatever it is, writing to it must not block.
        fcntl(&bell, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        let pid = connection.peer()?;
        let readable = Readable::find(pid, tail.token);
        let fences = tail.fences && fence::takes_part();
        Ok(Theirs { board: Segment::adopt(board, board::BOARD)?, bell, bit: tail.bit, readable, fences })
    }
}

/// All that a lane is made of.
pub struct Parts {
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
        other[0] = 2;
        assert_eq!(Tail::decode(&other), Ok(None));
        bytes[5] = 9;
        assert_eq!(Tail::decode(&bytes), Err(Malformed));
    }
}
