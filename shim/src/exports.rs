//! The symbols of this library that other objects can see.
//!
//! Invariant: a name is visible only if another loaded object has it too. Programs detect features by looking for names
//! (`dlsym`, weak references), so a function that the MPI below lacks must not be found here either.
//!
//! The dynamic linker reads the symbol table at every look-up. So the table is edited once, when all libraries of the
//! start are loaded. If an MPI is among them, the names that it lacks lose their value, and the linker passes over
//! them. If not, all names become indirect functions: when an object that is loaded later binds to one, its resolver
//! looks whether an MPI with that name has been loaded. References that were bound before the edit, those of the
//! program itself, reach `forward::absent`.

mod late;
pub mod object;

pub use late::resolve;

use crate::entry::resolver;
use crate::forward::PROBE;
use crate::functions::name_of;
use crate::heap;
use late::{ENTRY, divide};
use object::Object;
use std::ffi::CStr;
use std::sync::atomic::Ordering;

const STT_GNU_IFUNC: u8 = 10;
/// A function of LAM's allocator alone.
const LAMS_ALLOCATOR: &CStr = c"lam_ptmalloc2_sbrk";

// Safe before main: it uses the linker's tables and the allocator, which are there by then.
ctor::declarative::ctor! {
    #[ctor(unsafe)]
    fn start() {
        edit_names();
    }
}

/// Edits the symbol table. It runs in every process into which the library is loaded, so it does little and prints
/// nothing.
fn edit_names() {
    let Some((ours, others)) = divide(Object::loaded()) else { return };
    if let Some(lam) = others.iter().find(|o| o.has(LAMS_ALLOCATOR)) {
        // SAFETY: constructors run in one thread, and these are LAM's own variables.
        let at = |name: &CStr| Some(lam.base + unsafe { &*lam.symbol(name)? }.st_value as usize);
        // SAFETY: as above.
        unsafe { heap::leave_lams(at) };
    }
    let has_mpi = others.iter().any(|o| o.has(PROBE));
    // A program that is linked with this library and finds no MPI gets an error from MPI_Init, so it has to reach it.
    if !has_mpi && ours.soname().is_some_and(|name| others.iter().any(|o| o.needs(name))) {
        return;
    }
    let edit = || {
        for (slot, entry) in ENTRY.iter().enumerate() {
            let name = name_of(slot);
            let Some(symbol) = ours.symbol(name) else { continue };
            // SAFETY: our own symbol table, made writable; no other thread looks names up while constructors run.
            let symbol = unsafe { &mut *symbol };
            if !has_mpi {
                entry.store(ours.base + symbol.st_value as usize, Ordering::Relaxed);
                symbol.st_value = (resolver(slot) as usize - ours.base) as u64;
                symbol.st_info = symbol.st_info & 0xf0 | STT_GNU_IFUNC;
            } else if !others.iter().any(|o| o.has(name)) {
                symbol.st_value = 0;
            }
        }
    };
    ours.with_writable_symbols(edit);
}
