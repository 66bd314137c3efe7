//! Tokens: handles of ours from ranges that no MPI below produces, so that a look at the value tells whose it is.

use crate::abi;
use std::collections::HashMap;
use std::ffi::c_int;
use std::sync::Mutex;

const COUNT_BITS: u64 = 24;
const COUNT_MASK: u64 = (1 << COUNT_BITS) - 1;

/// The live tokens of one kind and what they stand for.
pub struct Tokens<T> {
    state: Mutex<State<T>>,
}

struct State<T> {
    live: HashMap<u32, T>,
    next: u32,
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
        Tokens { state: Mutex::new(State { live: HashMap::new(), next: 0 }) }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// A token for `item`; `None` when 2^24 are live. Numbers go round, so a stale token is seldom a live one.
    pub fn insert(&self, prefix: u64, item: T) -> Option<u64> {
        let mut state = self.lock();
        if state.live.len() as u64 > COUNT_MASK {
            return None;
        }
        while state.live.contains_key(&state.next) {
            state.next = (state.next + 1) & COUNT_MASK as u32;
        }
        let n = state.next;
        state.next = (n + 1) & COUNT_MASK as u32;
        state.live.insert(n, item);
        Some(prefix | u64::from(n))
    }

    pub fn with<R>(&self, token: u64, f: impl FnOnce(&mut T) -> R) -> Option<R> {
        self.lock().live.get_mut(&((token & COUNT_MASK) as u32)).map(f)
    }

    pub fn remove(&self, token: u64) -> Option<T> {
        self.lock().live.remove(&((token & COUNT_MASK) as u32))
    }
}
