//! The only place that calls the MPI below: finds it, forwards the program's calls, and makes our own.
//!
//! A program's `MPI_X` goes to the next `MPI_X` in symbol order, so that PMPI tools work above and below us. Our own
//! calls go straight to `PMPI_X`: no tool counts them. A `PMPI_X` from above passes a tool below us once; one that comes
//! from that tool goes to the MPI. It is told by its return address, or, where a tail call hides that, by the thread
//! being inside the tool.

mod own;

use crate::entry::FUNCTIONS;
use crate::{abi, entry, exports};
use base::families;
use libloading::os::unix::Library as Object;
pub use own::*;
use std::cell::Cell;
use std::ffi::{CStr, CString, OsStr, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// Through which of a function's two names the program came: the index of the slot.
#[derive(Clone, Copy)]
pub struct Face(pub usize);

/// The MPI library that the program uses.
pub struct Library {
    object: Object,
    base: usize,
    pub path: String,
}

impl Library {
    /// The address of a symbol in this library.
    pub fn symbol(&self, name: &CStr) -> Option<*const ()> {
        address(&self.object, name)
    }

    /// The address of a variable as the program sees it: an executable may hold its own copy.
    pub fn variable(&self, name: &CStr) -> Option<*const ()> {
        // SAFETY: a terminated name.
        let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
        if found.is_null() { self.symbol(name) } else { Some(found as *const ()) }
    }
}

/// The MPI below, once there is one.
pub fn library() -> Option<&'static Library> {
    library_for(std::ptr::null())
}

/// The same, found for the code at this address when it was not known before.
pub fn library_for(caller: *const c_void) -> Option<&'static Library> {
    static LIBRARY: OnceLock<Library> = OnceLock::new();
    if let Some(found) = LIBRARY.get() {
        return Some(found);
    }
    let found = find_library(caller)?;
    base::log!(Info, "MPI below: {}", found.path);
    Some(LIBRARY.get_or_init(|| found))
}

/// Every MPI has it, and we do not export it.
pub const PROBE: &CStr = c"PMPI_Wtick";

fn find_library(caller: *const c_void) -> Option<Library> {
    // SAFETY: a terminated name; RTLD_NEXT counts from this library.
    let next = unsafe { libc::dlsym(libc::RTLD_NEXT, PROBE.as_ptr()) };
    if !next.is_null() {
        return library_of(next);
    }
    // Loaded out of our sight (dlopen in local scope). There may be several: the caller's own comes first.
    if let Some(library) = origin(caller).and_then(|(path, _)| library_within(&path)) {
        return Some(library);
    }
    let mut paths: Vec<CString> = Vec::new();
    // SAFETY: `note_mpi` matches the callback's type and `paths` outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(note_mpi), (&raw mut paths).cast()) };
    paths.iter().find_map(|path| library_within(path))
}

/// The MPI that a loaded object is, or depends on.
fn library_within(path: &CStr) -> Option<Library> {
    library_of(address(&loaded(path)?, PROBE)?.cast())
}

/// An object that is loaded, kept so while this lives.
fn loaded(path: &CStr) -> Option<Object> {
    // SAFETY: NOLOAD only finds what is loaded, so nothing of it is run.
    unsafe { Object::open(Some(OsStr::from_bytes(path.to_bytes())), libc::RTLD_LAZY | libc::RTLD_NOLOAD) }.ok()
}

/// The address of a name in an object, or in what it was linked with.
fn address(object: &Object, name: &CStr) -> Option<*const ()> {
    // SAFETY: only the address is taken.
    let found = unsafe { object.get::<*const ()>(name) }.ok()?;
    Some(found.into_raw().cast_const().cast())
}

/// Whether MPI is linked into the executable itself: it exports what its libraries also define.
pub fn is_static() -> bool {
    exports::in_program(c"PMPI_Init")
}

unsafe extern "C" fn note_mpi(info: *mut libc::dl_phdr_info, _size: usize, paths: *mut c_void) -> c_int {
    // SAFETY: the linker gives a valid record; `paths` is the vector given to dl_iterate_phdr.
    let (name, paths) = unsafe { ((*info).dlpi_name, &mut *paths.cast::<Vec<CString>>()) };
    if !name.is_null() {
        // SAFETY: a terminated name of the linker's.
        let name = unsafe { CStr::from_ptr(name) };
        let file = name.to_bytes().rsplit(|&b| b == b'/').next().unwrap_or_default();
        if std::str::from_utf8(file).is_ok_and(families::is_library) {
            paths.push(name.to_owned());
        }
    }
    0
}

fn library_of(address: *const c_void) -> Option<Library> {
    let (path, base) = origin(address)?;
    Some(Library { object: loaded(&path)?, base: base as usize, path: path.to_string_lossy().into_owned() })
}

/// The loaded object that an address lies in: its path and base.
pub fn origin(address: *const c_void) -> Option<(CString, *const c_void)> {
    let mut info = libc::Dl_info {
        dli_fname: std::ptr::null(),
        dli_fbase: std::ptr::null_mut(),
        dli_sname: std::ptr::null(),
        dli_saddr: std::ptr::null_mut(),
    };
    // SAFETY: `info` is valid for writing; any address may be asked about.
    if unsafe { libc::dladdr(address, &mut info) } == 0 || info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: dladdr gave a terminated name.
    Some((unsafe { CStr::from_ptr(info.dli_fname) }.to_owned(), info.dli_fbase))
}

// ---------------------------------------------------------------------------------------------- the program's calls

pub static NATIVE: [AtomicPtr<()>; 2 * FUNCTIONS] = [const { AtomicPtr::new(std::ptr::null_mut()) }; 2 * FUNCTIONS];

/// What a native call of this slot goes to. Null until it has been looked for.
#[inline(always)]
pub fn found(slot: usize) -> *const () {
    NATIVE[slot].load(Ordering::Relaxed)
}

/// What a native call of this slot goes to.
pub fn native(slot: usize) -> *const () {
    let found = found(slot);
    if found.is_null() { find_native(slot).unwrap_or(absent()) } else { found }
}

/// The same, found for good: if there is nothing, there never will be.
pub fn settle_native(slot: usize) {
    if found(slot).is_null() && find_native(slot).is_none() {
        NATIVE[slot].store(absent().cast_mut(), Ordering::Relaxed);
    }
}

/// Finds what a native call of this slot goes to; `None` while there is nothing.
pub fn find_native(slot: usize) -> Option<*const ()> {
    let name = entry::pmpi_name(slot);
    let next = next(mpi_name(name));
    // Serial programs come with stubs of MPI that are no MPI: theirs are the calls then.
    let Some(library) = library() else { return if slot.is_multiple_of(2) { next } else { None } };
    let native = if next.is_some_and(|next| note_tool(slot / 2, next, library)) {
        entry::guarded(slot)
    } else if slot.is_multiple_of(2) {
        next.or_else(|| library.symbol(name)).or_else(|| conversion(name, library))?
    } else {
        library.symbol(name).or_else(|| conversion(name, library))?
    };
    NATIVE[slot].store(native.cast_mut(), Ordering::Relaxed);
    Some(native)
}

/// What stands in for a conversion between handle and INTEGER that the MPI below does not have: the same by its other
/// name, or nothing to be done, where a handle is an int and C has the conversion as a macro.
fn conversion(pmpi: &CStr, library: &Library) -> Option<*const ()> {
    extern "C" fn the_same(value: usize) -> usize {
        value
    }
    const NAMES: [(&str, &str); 4] =
        [("_c2f", "_toint"), ("_toint", "_c2f"), ("_f2c", "_fromint"), ("_fromint", "_f2c")];
    let name = pmpi.to_str().ok()?;
    let other = NAMES.iter().find_map(|(end, other)| name.strip_suffix(end).map(|kind| format!("{kind}{other}")))?;
    Some(library.symbol(&CString::new(other).ok()?).unwrap_or(the_same as *const ()))
}

/// `MPI_X` of `PMPI_X`.
pub fn mpi_name(pmpi: &'static CStr) -> &'static CStr {
    // SAFETY: the name is longer than its P, and stays terminated.
    unsafe { CStr::from_ptr(pmpi.as_ptr().add(1)) }
}

fn next(name: &CStr) -> Option<*const ()> {
    // SAFETY: a terminated name.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    (!found.is_null()).then_some(found as *const ())
}

/// By function: `MPI_X` of a PMPI tool between us and the MPI, where that tool lies, and the MPI's own `PMPI_X`.
static TOOL: [AtomicPtr<()>; FUNCTIONS] = [const { AtomicPtr::new(std::ptr::null_mut()) }; FUNCTIONS];
pub static TOOL_START: [AtomicUsize; FUNCTIONS] = [const { AtomicUsize::new(0) }; FUNCTIONS];
pub static TOOL_LEN: [AtomicUsize; FUNCTIONS] = [const { AtomicUsize::new(0) }; FUNCTIONS];
/// Where the MPI lies: LAM calls itself by PMPI names.
pub static MPI_START: AtomicUsize = AtomicUsize::new(0);
pub static MPI_LEN: AtomicUsize = AtomicUsize::new(0);
pub static PMPI: [AtomicPtr<()>; FUNCTIONS] = [const { AtomicPtr::new(std::ptr::null_mut()) }; FUNCTIONS];

/// Whether the next `MPI_X` is a tool's; then it is noted. Called before the function's guarded entry is put in place.
fn note_tool(function: usize, next: *const (), library: &Library) -> bool {
    let Some((_, base)) = origin(next.cast()) else { return false };
    let Some(pmpi) = library.symbol(entry::pmpi_name(2 * function)) else { return false };
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

/// How many bytes a loaded object spans from its base.
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
    /// How many calls of this thread are inside a tool below us.
    static IN_TOOL: Cell<u32> = const { Cell::new(0) };
}

/// Stands around a call that passes a tool below us.
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

/// Stands in for a function that the MPI below does not have.
pub fn absent() -> *const () {
    extern "C" fn unsupported() -> c_int {
        match abi::known() {
            Some(abi) => abi.class(crate::error::Class::Unsupported),
            None => 1,
        }
    }
    unsupported as *const ()
}

/// The C handle of a Fortran communicator.
pub fn comm_from_fortran(comm: c_int) -> Handle {
    match library().and_then(|l| l.symbol(c"PMPI_Comm_f2c").or_else(|| conversion(c"PMPI_Comm_f2c", l))) {
        // SAFETY: every conversion takes and gives a register; an int below the ABI's width stays one.
        Some(f) => unsafe { std::mem::transmute::<*const (), unsafe extern "C" fn(c_int) -> Handle>(f)(comm) },
        None => 0,
    }
}

/// The Fortran INTEGER of a communicator.
pub fn comm_to_fortran(comm: Handle) -> c_int {
    match library().and_then(|l| l.symbol(c"PMPI_Comm_c2f").or_else(|| conversion(c"PMPI_Comm_c2f", l))) {
        // SAFETY: as above.
        Some(f) => unsafe { std::mem::transmute::<*const (), unsafe extern "C" fn(Handle) -> c_int>(f)(comm) },
        None => 0,
    }
}

/// A native handle, as wide as a register; only the ABI's width counts.
pub type Handle = u64;
