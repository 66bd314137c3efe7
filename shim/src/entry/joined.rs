//! Gives the program its inter-communicators. From the first on, arguments are looked at.

use crate::abi;
use crate::inter::{self, Inter};
use std::sync::{Mutex, MutexGuard};

struct State {
    /// An inter-communicator: from then on arguments are looked at.
    has_lived: bool,
    /// Puts the entries that look in place of functions below.
    look: Option<fn()>,
}

fn state() -> MutexGuard<'static, State> {
    static STATE: Mutex<State> = Mutex::new(State { has_lived: false, look: None });
    STATE.lock().unwrap_or_else(|e| e.into_inner())
}

/// Whether arguments are looked at. If not yet, `look` is called when they are to be.
pub fn looks(look: fn()) -> bool {
    let mut state = state();
    state.look = Some(look);
    state.has_lived
}

/// Gives the program an inter-communicator.
///
/// # Safety
/// `at` is the address of a communicator of the program's.
pub unsafe fn hand_out(inter: Inter, at: usize) {
    let handle = inter.carrier;
    inter::insert(inter);
    let look = {
        let mut state = state();
        state.has_lived = true;
        state.look
    };
    if let Some(look) = look {
        look();
    }
    // SAFETY: the caller's promise.
    unsafe { abi::store_handle(at, handle) };
}
