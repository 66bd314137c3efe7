//! State that the node's lock protects. A thread that has the core may access it, without a further lock.

use node::Core;
use std::cell::RefCell;

/// A value that is accessed under the node's lock only.
pub struct Locked<T>(RefCell<T>);

// SAFETY: access needs an exclusive borrow of the core of this process's only node, and only the thread that holds the
// node's lock has one.
unsafe impl<T: Send> Sync for Locked<T> {}

impl<T> Locked<T> {
    pub const fn new(value: T) -> Locked<T> {
        Locked(RefCell::new(value))
    }

    /// Runs `f` with the value. `f` must not call this again for the same value.
    #[inline(always)]
    pub fn with<R>(&self, core: &mut Core, f: impl FnOnce(&mut Core, &mut T) -> R) -> R {
        f(core, &mut self.0.borrow_mut())
    }
}
