//! The resolvers of names that became indirect functions, since no object that was loaded at the start had them.

use super::object::Object;
use crate::functions::{FUNCTIONS, name_of};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The functions of the names before they became indirect.
pub static ENTRY: [AtomicUsize; 2 * FUNCTIONS] = [const { AtomicUsize::new(0) }; 2 * FUNCTIONS];

/// Divides the loaded objects into our own and all others.
pub fn divide(mut all: Vec<Object>) -> Option<(Object, Vec<Object>)> {
    let here = all.iter().position(|o| o.contains(resolve as *const ()))?;
    let ours = all.swap_remove(here);
    Some((ours, all))
}

/// The resolver, which the linker calls: our entry, or null while no other object has the name.
pub extern "C" fn resolve(slot: usize) -> *const () {
    let name = name_of(slot);
    if divide(Object::loaded()).is_some_and(|(_, others)| others.iter().any(|o| o.has(name))) {
        return ENTRY[slot].load(Ordering::Relaxed) as *const ();
    }
    // Leaves the linker's error behind: callers of dlsym ask for its text when they are given nothing.
    // SAFETY: a terminated name.
    let none = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    none as *const ()
}
