//! Reading another process's memory, where the kernel lets us: one copy, and the other side need do nothing.
//!
//! Used by lanes. Invariant: nothing is read before a word of known value has been read from the same process, and what
//! was read only counts if the process still lives afterwards: its number might be another's by then.

use base::ident::random;
use nix::errno::Errno;
use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid;
use std::io::{self, IoSliceMut};
use std::sync::OnceLock;

/// Where a word of ours lies, and its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    pub address: u64,
    pub value: u64,
}

/// This process's.
pub fn own_token() -> Token {
    static WORD: OnceLock<u64> = OnceLock::new();
    let word = WORD.get_or_init(|| u64::from_le_bytes(random()));
    Token { address: std::ptr::from_ref(word) as u64, value: *word }
}

/// Whether we can read this process's memory.
pub fn can_read(pid: i32, token: Token) -> bool {
    let mut word = [0; 8];
    let got = read(pid, &[(token.address, 8)], &mut [IoSliceMut::new(&mut word)]);
    pid > 0 && matches!(got, Ok(8)) && u64::from_ne_bytes(word) == token.value
}

/// Copies from (address, length) pieces of that process to memory of ours, in order; gives how many bytes, which is less
/// where a piece cannot be read.
pub fn read(pid: i32, from: &[(u64, u64)], to: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
    // The kernel takes no more pieces at a time.
    const MOST: usize = 1024;
    if from.len() > MOST || to.len() > MOST {
        return Err(Errno::EINVAL.into());
    }
    let mut pieces = [RemoteIoVec { base: 0, len: 0 }; 16];
    let mut many = Vec::new();
    let pieces = if from.len() <= pieces.len() {
        &mut pieces[..from.len()]
    } else {
        many.resize(from.len(), pieces[0]);
        &mut many[..]
    };
    for (piece, (at, len)) in pieces.iter_mut().zip(from) {
        *piece = RemoteIoVec { base: *at as usize, len: *len as usize };
    }
    Ok(process_vm_readv(Pid::from_raw(pid), to, pieces)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_can_read_itself_if_anything() {
        let pid = std::process::id() as i32;
        assert!(can_read(pid, own_token()));
        assert!(!can_read(pid, Token { value: own_token().value ^ 1, ..own_token() }));
        assert!(!can_read(pid, Token { address: 8, value: 0 }));
        let from: Vec<u8> = (0..100).collect();
        let mut to = [0; 30];
        let (a, b) = to.split_at_mut(7);
        let at = from.as_ptr() as u64;
        let got = read(pid, &[(at + 5, 10), (at + 50, 20)], &mut [IoSliceMut::new(a), IoSliceMut::new(b)]);
        assert_eq!(got.unwrap(), 30);
        let expected: Vec<u8> = (5..15).chain(50..70).collect();
        assert_eq!(to[..], expected);
    }
}
