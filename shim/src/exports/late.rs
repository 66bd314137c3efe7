//! Names that became indirect functions, as nothing that was loaded had them: what each stands for, asked by the linker.

use super::object::Object;
use crate::functions::{FUNCTIONS, name_of};
use std::sync::atomic::{AtomicUsize, Ordering};

/// What the names stood for before they became indirect.
pub static ENTRY: [AtomicUsize; 2 * FUNCTIONS] = [const { AtomicUsize::new(0) }; 2 * FUNCTIONS];

/// Our own object and all others.
pub fn divide(mut all: Vec<Object>) -> Option<(Object, Vec<Object>)> {
    let here = all.iter().position(|o| o.contains(resolve as *const ()))?;
    let ours = all.swap_remove(here);
    Some((ours, all))
}

/// What a name stands for, asked by the linker: our entry, or nothing while no other object has the name.
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
