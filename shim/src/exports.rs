//! Which of our names other objects can see.
//!
//! Invariant: no name of the table is offered that no other loaded object has. Programs detect features by looking for
//! names (`dlsym`, weak references), so what the MPI below lacks must look lacking through us too.
//!
//! The dynamic linker reads our symbol table afresh at every look-up, so the table is edited once, when all libraries of
//! the start are loaded. With an MPI among them, the names that it lacks lose their value: the linker passes over them.
//! With none, all names become indirect functions: whenever an object that is loaded later binds to one, its resolver
//! looks whether an MPI has come that has it. References bound before the edit, those of the program itself, reach
//! `forward::absent`.

mod object;

use crate::entry::{self, FUNCTIONS};
use crate::forward::PROBE;
use crate::heap;
use base::Family;
use object::Object;
use std::ffi::CStr;
use std::sync::atomic::{AtomicUsize, Ordering};

const SLOTS: usize = 2 * FUNCTIONS;
const STT_GNU_IFUNC: u8 = 10;

/// What the names stood for before they became indirect.
static ENTRY: [AtomicUsize; SLOTS] = [const { AtomicUsize::new(0) }; SLOTS];

// Safe before main: it uses the linker's tables and the allocator, which are there by then.
ctor::declarative::ctor! {
    #[ctor(unsafe)]
    fn start() {
        edit_names();
    }
}

/// Runs in every process that the library is loaded into, so it does little and says nothing.
fn edit_names() {
    let Some((ours, others)) = divide(Object::loaded()) else { return };
    if others.iter().any(|o| Family::Lam.marks(|mark| o.has(mark))) {
        heap::take_large_blocks_from_kernel();
    }
    let has_mpi = others.iter().any(|o| o.has(PROBE));
    // A program that is linked with us and lost its MPI is told so by MPI_Init, which it must reach.
    if !has_mpi && ours.soname().is_some_and(|name| others.iter().any(|o| o.needs(name))) {
        return;
    }
    let edit = || {
        for (slot, entry) in ENTRY.iter().enumerate() {
            let name = entry::name_of(slot);
            let Some(symbol) = ours.symbol(name) else { continue };
            // SAFETY: our own symbol table, made writable; nobody looks a name up while constructors run.
            let symbol = unsafe { &mut *symbol };
            if !has_mpi {
                entry.store(ours.base + symbol.st_value as usize, Ordering::Relaxed);
                symbol.st_value = (entry::resolver(slot) as usize - ours.base) as u64;
                symbol.st_info = symbol.st_info & 0xf0 | STT_GNU_IFUNC;
            } else if !others.iter().any(|o| o.has(name)) {
                symbol.st_value = 0;
            }
        }
    };
    ours.with_writable_symbols(edit);
}

/// Our own object and all others.
fn divide(mut all: Vec<Object>) -> Option<(Object, Vec<Object>)> {
    let here = all.iter().position(|o| o.contains(edit_names as *const ()))?;
    let ours = all.swap_remove(here);
    Some((ours, all))
}

/// Whether the executable itself defines a name, rather than only naming it.
pub fn in_program(name: &CStr) -> bool {
    // SAFETY: allowed at any time.
    let entry = unsafe { libc::getauxval(libc::AT_ENTRY) } as *const ();
    Object::loaded().iter().any(|o| o.contains(entry) && o.has(name))
}

/// What a name stands for, asked by the linker: our entry, or nothing while no other object has the name.
pub extern "C" fn resolve(slot: usize) -> *const () {
    let name = entry::name_of(slot);
    if divide(Object::loaded()).is_some_and(|(_, others)| others.iter().any(|o| o.has(name))) {
        return ENTRY[slot].load(Ordering::Relaxed) as *const ();
    }
    // Leaves the linker's error behind: callers of dlsym ask for its text when they are given nothing.
    // SAFETY: a terminated name.
    let none = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    none as *const ()
}
