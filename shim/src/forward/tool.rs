//! PMPI tools between this library and the MPI: which functions they have, and which calls come from them.

use super::library::{Library, origin};
use crate::functions::{FUNCTIONS, pmpi_name};
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// For each function: `MPI_X` of a PMPI tool below this library, the address range of that tool, and the MPI's own
/// `PMPI_X`.
static TOOL: [AtomicPtr<()>; FUNCTIONS] = [const { AtomicPtr::new(std::ptr::null_mut()) }; FUNCTIONS];
pub static TOOL_START: [AtomicUsize; FUNCTIONS] = [const { AtomicUsize::new(0) }; FUNCTIONS];
pub static TOOL_LEN: [AtomicUsize; FUNCTIONS] = [const { AtomicUsize::new(0) }; FUNCTIONS];

/// The address range of the MPI, since LAM calls itself by PMPI names.
pub static MPI_START: AtomicUsize = AtomicUsize::new(0);
pub static MPI_LEN: AtomicUsize = AtomicUsize::new(0);
pub static PMPI: [AtomicPtr<()>; FUNCTIONS] = [const { AtomicPtr::new(std::ptr::null_mut()) }; FUNCTIONS];

/// Whether the next `MPI_X` belongs to a tool, which is then kept. Called before the function's guarded entry is put in
/// place.
pub fn note_tool(function: usize, next: *const (), library: &Library) -> bool {
    let Some((_, base)) = origin(next.cast()) else { return false };
    let Some(pmpi) = library.symbol(pmpi_name(2 * function)) else { return false };
    if base as usize == library.base {
        return false;
    }
    TOOL[function].store(next.cast_mut(), Ordering::Relaxed);
    TOOL_START[function].store(base as usize, Ordering::Relaxed);
    TOOL_LEN[function].store(size_of_object(base as usize), Ordering::Relaxed);
    if MPI_START.swap(library.base, Ordering::Relaxed) == 0 {
        MPI_LEN.store(size_of_object(library.base), Ordering::Relaxed);
    }
    PMPI[function].store(pmpi.cast_mut(), Ordering::Relaxed);
    true
}

/// The number of bytes from the base of a loaded object to its end.
fn size_of_object(base: usize) -> usize {
    struct Asked {
        base: usize,
        size: usize,
    }
    unsafe extern "C" fn measure(info: *mut libc::dl_phdr_info, _size: usize, asked: *mut c_void) -> c_int {
        // SAFETY: the linker gives a valid record; `asked` is the struct given to dl_iterate_phdr.
        let (info, asked) = unsafe { (&*info, &mut *asked.cast::<Asked>()) };
        if info.dlpi_addr as usize != asked.base {
            return 0;
        }
        // SAFETY: the object's own program headers.
        let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
        let ends = headers.iter().filter(|h| h.p_type == libc::PT_LOAD).map(|h| (h.p_vaddr + h.p_memsz) as usize);
        asked.size = ends.max().unwrap_or(0);
        1
    }
    let mut asked = Asked { base, size: 0 };
    // SAFETY: `measure` matches the callback's type and `asked` outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(measure), (&raw mut asked).cast()) };
    asked.size
}

thread_local! {
    /// How many calls of this thread are inside a tool below this library.
    static IN_TOOL: Cell<u32> = const { Cell::new(0) };
}

/// A guard that lives during a call that passes a tool below this library.
pub struct Guard {
    function: *const (),
}

impl Guard {
    pub fn enter(slot: usize) -> Guard {
        let from_tool = !slot.is_multiple_of(2) && IN_TOOL.get() > 0;
        IN_TOOL.set(IN_TOOL.get() + 1);
        let table = if from_tool { &PMPI } else { &TOOL };
        Guard { function: table[slot / 2].load(Ordering::Relaxed) }
    }

    pub fn function(&self) -> *const () {
        self.function
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        IN_TOOL.set(IN_TOOL.get() - 1);
    }
}
