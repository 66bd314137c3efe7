//! Single copy: reading and writing another process's memory by process_vm_readv(2) and process_vm_writev(2), where the kernel permits it.
//!
//! Used by lanes. Invariant: what was read counts only if it was that process's memory. Its pid may be another process's by now, or the process
//! may have another program. Where the process says that it lives ([`Liveness`]), that is asked after every read and before every write. Else every
//! call that reads also reads a word whose value is known, since one call reads from one memory alone, and it is read right before
//! every call that writes.

use super::liveness::Liveness;
use base::ident::random;
use libc::{c_void, iovec, process_vm_readv, process_vm_writev};
use nix::errno::Errno;
use std::io::{self, IoSlice, IoSliceMut};
use std::sync::OnceLock;

const WORD: usize = 8;

/// The address and the value of a word in a process's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    pub address: u64,
    pub value: u64,
}

/// This process's token.
pub(super) fn own_token() -> Token {
    static WORD: OnceLock<u64> = OnceLock::new();
    let word = WORD.get_or_init(|| u64::from_le_bytes(random()));
    Token { address: std::ptr::from_ref(word) as u64, value: *word }
}

/// The memory of another process, which we can read as long as that process lives, and mostly write.
#[derive(Clone)]
pub struct RemoteMemory {
    pid: i32,
    token: Token,
    lives: Option<Liveness>,
}

impl RemoteMemory {
    /// The process with this pid, if its memory can be read and holds the token. `lives`: what it says of itself.
    pub(super) fn find(pid: i32, token: Token, lives: Option<Liveness>) -> Option<RemoteMemory> {
        let process = RemoteMemory { pid, token, lives: None };
        (pid > 0 && process.read(&[], &mut []).is_ok()).then_some(RemoteMemory { lives, ..process })
    }

    /// Whether that process says that it lives.
    pub fn is_seen_alive(&self) -> bool {
        self.lives.as_ref().is_some_and(Liveness::is_alive)
    }

    /// Copies (address, length) pieces of that process's memory to ours, in order. Returns the number of bytes, which is smaller
    /// than asked for if a piece cannot be read. An error if the process has ended, or if nothing can be read.
    pub fn read(&self, from: &[(u64, u64)], to: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let ours = |piece: &mut IoSliceMut<'_>| (piece.as_mut_ptr(), piece.len());
        if let [to] = to {
            // SAFETY: an exclusive slice.
            return unsafe { self.read_into(from, &[ours(to)]) };
        }
        let to: Vec<_> = to.iter_mut().map(ours).collect();
        // SAFETY: exclusive slices.
        unsafe { self.read_into(from, &to) }
    }

    /// As [`RemoteMemory::read`], into (address, length) pieces of our memory.
    ///
    /// # Safety
    /// The pieces are writable during the call, and nothing else reads or writes them.
    pub unsafe fn read_into(&self, from: &[(u64, u64)], to: &[(*mut u8, usize)]) -> io::Result<usize> {
        // The token comes first, where it is read.
        let first = usize::from(self.lives.is_some());
        let mut word = [0u8; WORD];
        let ours = |&(at, len): &(*mut u8, usize)| iovec { iov_base: at.cast(), iov_len: len };
        let (token, own) = (theirs(&(self.token.address, WORD as u64)), ours(&(word.as_mut_ptr(), WORD)));
        let n = if let ([from], [to]) = (from, to) {
            let (ours, theirs) = ([own, ours(to)], [token, theirs(from)]);
            // SAFETY: the word is ours; for the rest, the caller's promise. Their addresses are only looked at by the kernel.
            unsafe { self.readv(&ours[first..], &theirs[first..]) }
        } else {
            let theirs: Vec<_> = std::iter::once(token).chain(from.iter().map(theirs)).collect();
            let ours: Vec<_> = std::iter::once(own).chain(to.iter().map(ours)).collect();
            // SAFETY: as above.
            unsafe { self.readv(&ours[first..], &theirs[first..]) }
        };
        let n = usize::try_from(n).map_err(|_| io::Error::last_os_error())?;
        let read = match &self.lives {
            Some(lives) => lives.is_alive().then_some(n),
            None => n.checked_sub(WORD).filter(|_| u64::from_ne_bytes(word) == self.token.value),
        };
        read.ok_or(Errno::ESRCH.into())
    }

    /// Copies pieces of our memory to (address, length) pieces of that process's, in order. Returns the number of bytes, which is smaller
    /// than there are if a piece cannot be written. An error if the process has ended, or cannot be written to.
    ///
    /// The caller knows that nothing else uses these pieces. A process that ends before the system call here, but after it was found to live, and
    /// whose pid is given to another one in between, would be taken for that one, and so would the next program of a process that calls execve(2) there.
    pub fn write(&self, from: &[IoSlice<'_>], to: &[(u64, u64)]) -> io::Result<usize> {
        match &self.lives {
            Some(lives) if lives.is_alive() => (),
            Some(_) => return Err(Errno::ESRCH.into()),
            None => drop(self.read(&[], &mut [])?),
        }
        let ours = |piece: &IoSlice<'_>| iovec { iov_base: piece.as_ptr() as *mut c_void, iov_len: piece.len() };
        let n = if let ([from], [to]) = (from, to) {
            self.writev(&[ours(from)], &[theirs(to)])
        } else {
            let (ours, theirs): (Vec<_>, Vec<_>) = (from.iter().map(ours).collect(), to.iter().map(theirs).collect());
            self.writev(&ours, &theirs)
        };
        usize::try_from(n).map_err(|_| io::Error::last_os_error())
    }

    /// `ours` is readable memory.
    fn writev(&self, ours: &[iovec], theirs: &[iovec]) -> isize {
        // SAFETY: the kernel only reads our pieces, which are slices of the caller's, and looks at the addresses of the others.
        unsafe { process_vm_writev(self.pid, ours.as_ptr(), ours.len() as _, theirs.as_ptr(), theirs.len() as _, 0) }
    }

    /// # Safety
    /// `ours` is writable memory, which nothing else reads or writes during the call.
    unsafe fn readv(&self, ours: &[iovec], theirs: &[iovec]) -> isize {
        // SAFETY: the caller's promise.
        unsafe { process_vm_readv(self.pid, ours.as_ptr(), ours.len() as _, theirs.as_ptr(), theirs.len() as _, 0) }
    }
}

fn theirs(&(at, len): &(u64, u64)) -> iovec {
    iovec { iov_base: at as *mut c_void, iov_len: len as usize }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Segment;
    use crate::shm::doorbells;
    use crate::shm::liveness::Held;
    use std::sync::Arc;

    #[test]
    fn a_process_that_says_no_more_that_it_lives_is_neither_read_nor_written() {
        let pid = std::process::id() as i32;
        let memory = Arc::new(Segment::create(doorbells::BYTES).unwrap().0);
        let held = Held::new(&memory).expect("this kernel and this library can");
        let lives = Liveness::of(&memory);
        assert!(lives.is_some());
        let own = RemoteMemory::find(pid, own_token(), lives).unwrap();
        // The token is not read any more.
        let own = RemoteMemory { token: Token { address: 8, value: 0 }, ..own };
        let (from, mut to, mut there) = ([7u8; 100], [0u8; 30], [0u8; 30]);
        let (at, into) = (from.as_ptr() as u64, there.as_mut_ptr() as u64);
        let mut read = |pieces: &[(u64, u64)]| own.read(pieces, &mut [IoSliceMut::new(&mut to)]).ok();
        let all = [(at, 10), (at + 50, 20)];
        assert_eq!([read(&all[..1]), read(&all), read(&[(8, 10)])], [Some(10), Some(30), None]);
        let write = || own.write(&[IoSlice::new(&from[..30])], &[(into, 30)]).ok();
        assert_eq!(write(), Some(30));
        assert_eq!(to, [7; 30]);
        drop(held);
        let mut read = |pieces: &[(u64, u64)]| own.read(pieces, &mut [IoSliceMut::new(&mut to)]).ok();
        assert_eq!([read(&all[..1]), read(&all)], [None, None]);
        there.fill(0);
        assert_eq!(write(), None);
        assert_eq!(there, [0; 30]);
    }

    #[test]
    fn a_process_can_read_itself_if_anything() {
        let pid = std::process::id() as i32;
        let own = RemoteMemory::find(pid, own_token(), None).unwrap();
        assert!(RemoteMemory::find(pid, Token { value: own_token().value ^ 1, ..own_token() }, None).is_none());
        assert!(RemoteMemory::find(pid, Token { address: 8, value: 0 }, None).is_none());
        assert!(RemoteMemory::find(0, own_token(), None).is_none());
        let from: Vec<u8> = (0..100).collect();
        let mut to = [0; 30];
        let (a, b) = to.split_at_mut(7);
        let at = from.as_ptr() as u64;
        let pieces = [(at + 5, 10), (at + 50, 20)];
        assert_eq!(own.read(&pieces, &mut [IoSliceMut::new(a), IoSliceMut::new(b)]).unwrap(), 30);
        let expected: Vec<u8> = (5..15).chain(50..70).collect();
        assert_eq!(to[..], expected);
        // As far as it can be read.
        let pieces = [(at, 10), (8, 20)];
        assert_eq!(own.read(&pieces, &mut [IoSliceMut::new(&mut to)]).unwrap(), 10);
        // Written, and as far as it can be.
        let mut there = [0u8; 20];
        let at = there.as_mut_ptr() as u64;
        let (a, b) = from[60..72].split_at(5);
        let from = [IoSlice::new(a), IoSlice::new(b)];
        assert_eq!(own.write(&from, &[(at + 1, 2), (at + 4, 10)]).unwrap(), 12);
        assert_eq!(own.write(&from[..1], &[(at + 15, 5)]).unwrap(), 5);
        assert_eq!(there, [0, 60, 61, 0, 62, 63, 64, 65, 66, 67, 68, 69, 70, 71, 0, 60, 61, 62, 63, 64]);
        assert_eq!(own.write(&from, &[(at, 5), (8, 7)]).unwrap(), 5);
        assert!(own.write(&from, &[(8, 12)]).is_err());
        // Its number is another's now.
        let other = RemoteMemory { token: Token { value: 1, ..own.token }, ..own.clone() };
        assert!(other.read(&pieces[..1], &mut [IoSliceMut::new(&mut to)]).is_err());
        assert!(other.write(&from, &[(at, 12)]).is_err());
    }
}
