//! Tokens: handles of ours from ranges that no MPI below produces, so that a look at the value tells whose it is.
//!
//! Some Fortran layers look for the INTEGER of a handle in the object behind the handle. There, a token is the address of
//! some memory of ours, in which that INTEGER has its place.

use crate::{abi, forward};
use std::collections::HashMap;
use std::ffi::c_int;
use std::sync::Mutex;

const COUNT_BITS: u64 = 24;
const COUNT_MASK: u64 = (1 << COUNT_BITS) - 1;

/// From one address to the next: more than the MPI's own objects have up to their INTEGER.
const STEP: u64 = 128;

/// The first ring of numbers with memory behind them.
const RING: u64 = 1 << 16;

/// What a Fortran layer finds behind a token, so many bytes from its address.
#[derive(Clone, Copy)]
pub enum Behind {
    Nothing,
    /// An INTEGER that the layer itself puts there: LAM.
    Theirs(usize),
    /// The token as an INTEGER with these high bits, which the layer reads for requests that stay: Open MPI.
    Ours(usize, u64),
}

/// From one token with an INTEGER of ours behind it to the next, at least.
const INT: u32 = size_of::<c_int>() as u32;

/// The live tokens of one kind and what they stand for.
pub struct Tokens<T> {
    state: Mutex<State<T>>,
}

struct State<T> {
    live: HashMap<u32, T>,
    next: u32,
    /// Numbers below it are given out, a power of two: where there is memory behind them, only as much of it as is needed
    /// is ever touched.
    ring: u64,
    /// Whether there is memory at the addresses.
    mapped: bool,
}

/// Whether a value is a token with these high bits. `Some` only for a whole match.
#[inline(always)]
pub fn has_prefix(value: u64, prefix: u64) -> bool {
    match abi::known() {
        Some(abi) => value & abi.mask & !COUNT_MASK == prefix,
        None => false,
    }
}

/// A token as an INTEGER of Fortran, which no native conversion gives: `None` when the value is no token.
pub fn to_int(value: u64, prefix: u64, int_prefix: u64) -> Option<c_int> {
    has_prefix(value, prefix).then_some((int_prefix | value & COUNT_MASK) as c_int)
}

/// The token of such an INTEGER.
pub fn from_int(int: c_int, prefix: u64, int_prefix: u64) -> Option<u64> {
    let int = u64::from(int as u32);
    (int & !COUNT_MASK == int_prefix).then_some(prefix | int & COUNT_MASK)
}

impl<T> Tokens<T> {
    pub fn new() -> Tokens<T> {
        Tokens { state: Mutex::new(State { live: HashMap::new(), next: 0, ring: RING, mapped: false }) }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// A token for `item`; `None` when too many are live. Numbers go round, so a stale token is seldom a live one.
    /// Only one that `stays` has an INTEGER of ours behind it: others are null when a layer could look.
    pub fn insert(&self, prefix: u64, behind: Behind, stays: bool, item: T) -> Option<u64> {
        let step = match behind {
            Behind::Theirs(_) => STEP as u32,
            Behind::Ours(..) if stays => INT,
            _ => 1,
        };
        let mut state = self.lock();
        if state.live.len() as u64 > COUNT_MASK / u64::from(step) {
            return None;
        }
        if !matches!(behind, Behind::Nothing) && !state.mapped {
            map(prefix, behind)?;
            state.mapped = true;
        }
        let taken = state.live.len() as u64 * u64::from(step);
        while state.ring <= COUNT_MASK && (matches!(behind, Behind::Nothing) || taken > state.ring / 2) {
            state.ring *= 2;
        }
        let mask = (state.ring - 1) as u32;
        let after = |n: u32| (n + step) & mask;
        let mut n = state.next.next_multiple_of(step) & mask;
        while state.live.contains_key(&n) {
            n = after(n);
        }
        state.next = after(n);
        state.live.insert(n, item);
        let token = prefix | u64::from(n);
        // SAFETY: within the memory that was mapped for this kind, at a multiple of an int's size.
        let put = |at: usize, integer: c_int| unsafe { ((token as usize + at) as *mut c_int).write(integer) };
        match behind {
            Behind::Theirs(at) => put(at, NO_INTEGER),
            Behind::Ours(at, int_prefix) if stays => put(at, (int_prefix | u64::from(n)) as c_int),
            _ => {}
        }
        Some(token)
    }

    pub fn with<R>(&self, token: u64, f: impl FnOnce(&mut T) -> R) -> Option<R> {
        self.lock().live.get_mut(&((token & COUNT_MASK) as u32)).map(f)
    }

    pub fn all(&self, f: impl FnMut(&T) -> bool) -> bool {
        self.lock().live.values().all(f)
    }

    /// Ends a token, and gives its INTEGER back if it got one.
    pub fn remove(&self, token: u64, behind: Behind) -> Option<T> {
        let item = self.lock().live.remove(&((token & COUNT_MASK) as u32))?;
        if let Behind::Theirs(at) = behind {
            // SAFETY: `insert` gave this live token, so there is memory.
            let integer = unsafe { ((token as usize + at) as *const c_int).read() };
            if integer != NO_INTEGER {
                // SAFETY: the Fortran layer's own number, given up once.
                unsafe { forward::lam_free_integer(integer) };
            }
        }
        Some(item)
    }
}

const NO_INTEGER: c_int = -1;

/// Memory at the addresses with this prefix; nothing that is there already is touched.
fn map(prefix: u64, behind: Behind) -> Option<()> {
    // Theirs end with the last step: another kind's may begin there.
    let beyond = if matches!(behind, Behind::Ours(..)) { STEP as usize } else { 0 };
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
    // SAFETY: fresh memory, at a place where there is none.
    let found = unsafe { libc::mmap(prefix as *mut _, COUNT_MASK as usize + 1 + beyond, protection, flags, -1, 0) };
    (found as u64 == prefix).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PREFIX: u64 = 0x4d43_0500_0000;
    const BEHIND: Behind = Behind::Ours(0x68, 0);

    #[test]
    fn tokens_that_come_and_go_touch_little_memory() {
        let tokens = Tokens::new();
        let new = |n: u32| tokens.insert(PREFIX, BEHIND, true, n).expect("room");
        let brief = (0..100_000).map(|n| {
            let token = new(n);
            assert_eq!(tokens.remove(token, BEHIND), Some(n));
            token - PREFIX
        });
        assert!(brief.max() < Some(RING));
        // Numbers are not given out again at once.
        assert_ne!(new(0), new(0));
        // As many as one wants at the same time, all their own.
        let many: Vec<_> = (0..50_000).map(new).collect();
        assert!((0..).zip(&many).all(|(n, token)| tokens.remove(*token, BEHIND) == Some(n)));
    }
}
