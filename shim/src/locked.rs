//! State that belongs to the node's lock: whoever has the core has it too, and no lock of its own is taken.

use node::Core;
use std::cell::RefCell;

pub struct Locked<T>(RefCell<T>);

// SAFETY: what is inside is only reached with the core of this process's one node, exclusively borrowed: that is what the
// thread has that holds the node's lock.
unsafe impl<T: Send> Sync for Locked<T> {}

impl<T> Locked<T> {
    pub const fn new(value: T) -> Locked<T> {
        Locked(RefCell::new(value))
    }

    /// One at a time: `f` does not come back here.
    #[inline(always)]
    pub fn with<R>(&self, core: &mut Core, f: impl FnOnce(&mut Core, &mut T) -> R) -> R {
        f(core, &mut self.0.borrow_mut())
    }
}
