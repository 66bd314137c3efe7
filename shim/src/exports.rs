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

mod late;
pub mod object;

pub use late::resolve;

use crate::entry::resolver;
use crate::forward::PROBE;
use crate::functions::name_of;
use crate::heap;
use base::Family;
use late::{ENTRY, divide};
use object::Object;
use std::sync::atomic::Ordering;

const STT_GNU_IFUNC: u8 = 10;

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
            let name = name_of(slot);
            let Some(symbol) = ours.symbol(name) else { continue };
            // SAFETY: our own symbol table, made writable; nobody looks a name up while constructors run.
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
