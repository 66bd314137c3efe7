//! The only place that calls the MPI below: finds it, forwards the program's calls, and makes our own.
//!
//! A program's `MPI_X` goes to the next `MPI_X` in symbol order, so that PMPI tools work above and below us. Our own
//! calls go straight to `PMPI_X`: no tool counts them. A `PMPI_X` from above passes a tool below us once; one that comes
//! from that tool goes to the MPI. It is told by its return address, or, where a tail call hides that, by the thread
//! being inside the tool.
#![allow(clippy::too_many_arguments)] // MPI's own.

use crate::entry::FUNCTIONS;
use crate::{abi, entry, exports, gaps};
use std::cell::Cell;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// Through which of a function's two names the program came: the index of the slot.
#[derive(Clone, Copy)]
pub struct Face(pub usize);

/// The MPI library that the program uses.
pub struct Library {
    handle: *mut c_void,
    base: *const c_void,
    pub path: String,
}

// SAFETY: a handle of the dynamic linker, which may be used from any thread.
unsafe impl Send for Library {}
// SAFETY: as above.
unsafe impl Sync for Library {}

impl Library {
    /// The address of a symbol in this library.
    pub fn symbol(&self, name: &CStr) -> Option<*const ()> {
        // SAFETY: a live handle and a terminated name.
        let found = unsafe { libc::dlsym(self.handle, name.as_ptr()) };
        (!found.is_null()).then_some(found as *const ())
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
    // SAFETY: a terminated name; NOLOAD only finds what is loaded.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
    if handle.is_null() {
        return None;
    }
    // SAFETY: a live handle and a terminated name.
    let probe = unsafe { libc::dlsym(handle, PROBE.as_ptr()) };
    if probe.is_null() { None } else { library_of(probe) }
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
        if [&b"libmpi.so"[..], b"libmpich.so", b"libmpi_abi.so", b"liblam.so"].iter().any(|p| file.starts_with(p)) {
            paths.push(name.to_owned());
        }
    }
    0
}

fn library_of(address: *mut c_void) -> Option<Library> {
    let (path, base) = origin(address)?;
    // SAFETY: the linker's own path of a loaded library.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
    (!handle.is_null()).then(|| Library { handle, base, path: path.to_string_lossy().into_owned() })
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
    if base == library.base {
        return false;
    }
    TOOL[function].store(next.cast_mut(), Ordering::Relaxed);
    TOOL_START[function].store(base as usize, Ordering::Relaxed);
    TOOL_LEN[function].store(size_of_object(base), Ordering::Relaxed);
    if MPI_START.swap(library.base as usize, Ordering::Relaxed) == 0 {
        MPI_LEN.store(size_of_object(library.base), Ordering::Relaxed);
    }
    PMPI[function].store(pmpi.cast_mut(), Ordering::Relaxed);
    true
}

/// How many bytes a loaded object spans from its base.
fn size_of_object(base: *const c_void) -> usize {
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
    let mut asked = Asked { base: base as usize, size: 0 };
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

// --------------------------------------------------------------------------------------------------- our own calls

/// Declares our own calls: straight to `PMPI_X`, found once.
macro_rules! pmpi {
    ($($(#[$doc:meta])* fn $name:ident = $symbol:literal ($($arg:ident: $type:ty),*);)*) => { $(
        $(#[$doc])*
        ///
        /// # Safety
        /// The arguments must be as MPI asks for them.
        pub unsafe fn $name($($arg: $type),*) -> c_int {
            static FOUND: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());
            let mut function = FOUND.load(Ordering::Relaxed).cast_const();
            if function.is_null() {
                function = library()
                    .and_then(|l| gaps::stand_in(l, $symbol).or_else(|| l.symbol($symbol)))
                    .unwrap_or(absent());
                FOUND.store(function.cast_mut(), Ordering::Relaxed);
            }
            // SAFETY: the symbol has this type in every MPI, handles being register-wide.
            let function = unsafe { std::mem::transmute::<*const (), unsafe extern "C" fn($($type),*) -> c_int>(function) };
            // SAFETY: the caller's promise.
            unsafe { function($($arg),*) }
        }
    )* };
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

pmpi! {
    fn initialized = c"PMPI_Initialized" (flag: *mut c_int);
    fn finalized = c"PMPI_Finalized" (flag: *mut c_int);
    fn comm_rank = c"PMPI_Comm_rank" (comm: Handle, rank: *mut c_int);
    fn comm_size = c"PMPI_Comm_size" (comm: Handle, size: *mut c_int);
    fn comm_test_inter = c"PMPI_Comm_test_inter" (comm: Handle, flag: *mut c_int);
    fn comm_split = c"PMPI_Comm_split" (comm: Handle, color: c_int, key: c_int, new: *mut Handle);
    fn comm_dup = c"PMPI_Comm_dup" (comm: Handle, new: *mut Handle);
    fn comm_dup_with_info = c"PMPI_Comm_dup_with_info" (comm: Handle, info: Handle, new: *mut Handle);
    fn comm_idup = c"PMPI_Comm_idup" (comm: Handle, new: *mut Handle, request: *mut c_void);
    fn comm_idup_with_info = c"PMPI_Comm_idup_with_info" (comm: Handle, info: Handle, new: *mut Handle, request: *mut c_void);
    fn intercomm_create = c"PMPI_Intercomm_create" (local: Handle, leader: c_int, peer: Handle, remote_leader: c_int, tag: c_int, new: *mut Handle);
    fn intercomm_merge = c"PMPI_Intercomm_merge" (comm: Handle, high: c_int, new: *mut Handle);
    fn comm_group = c"PMPI_Comm_group" (comm: Handle, group: *mut Handle);
    fn comm_remote_group = c"PMPI_Comm_remote_group" (comm: Handle, group: *mut Handle);
    fn sendrecv = c"PMPI_Sendrecv" (out: *const c_void, sent: c_int, sendtype: Handle, dest: c_int, sendtag: c_int, back: *mut c_void, room: c_int, recvtype: Handle, source: c_int, recvtag: c_int, comm: Handle, status: *mut c_void);
    fn group_compare = c"PMPI_Group_compare" (a: Handle, b: Handle, result: *mut c_int);
    fn group_size = c"PMPI_Group_size" (group: Handle, size: *mut c_int);
    fn group_rank = c"PMPI_Group_rank" (group: Handle, rank: *mut c_int);
    fn group_translate_ranks = c"PMPI_Group_translate_ranks" (from: Handle, count: c_int, ranks: *const c_int, to: Handle, out: *mut c_int);
    fn group_incl = c"PMPI_Group_incl" (group: Handle, count: c_int, ranks: *const c_int, new: *mut Handle);
    fn group_union = c"PMPI_Group_union" (a: Handle, b: Handle, new: *mut Handle);
    fn group_free = c"PMPI_Group_free" (group: *mut Handle);
    fn comm_free = c"PMPI_Comm_free" (comm: *mut Handle);
    fn comm_compare = c"PMPI_Comm_compare" (a: Handle, b: Handle, result: *mut c_int);
    fn comm_create_errhandler = c"PMPI_Comm_create_errhandler" (function: *const (), handler: *mut Handle);
    fn comm_get_errhandler = c"PMPI_Comm_get_errhandler" (comm: Handle, handler: *mut Handle);
    fn comm_set_errhandler = c"PMPI_Comm_set_errhandler" (comm: Handle, handler: Handle);
    fn comm_call_errhandler = c"PMPI_Comm_call_errhandler" (comm: Handle, code: c_int);
    fn comm_get_attr = c"PMPI_Comm_get_attr" (comm: Handle, keyval: c_int, value: *mut *mut c_void, flag: *mut c_int);
    fn comm_set_attr = c"PMPI_Comm_set_attr" (comm: Handle, keyval: c_int, value: *mut c_void);
    fn comm_create_keyval = c"PMPI_Comm_create_keyval" (copy: *const (), delete: *const (), keyval: *mut c_int, extra: *mut c_void);
    fn errhandler_free = c"PMPI_Errhandler_free" (handler: *mut Handle);
    fn info_get = c"PMPI_Info_get" (info: Handle, key: *const c_char, room: c_int, value: *mut c_char, flag: *mut c_int);
    fn info_get_nkeys = c"PMPI_Info_get_nkeys" (info: Handle, count: *mut c_int);
    fn info_get_nthkey = c"PMPI_Info_get_nthkey" (info: Handle, n: c_int, key: *mut c_char);
    fn add_error_class = c"PMPI_Add_error_class" (class: *mut c_int);
    fn add_error_string = c"PMPI_Add_error_string" (code: c_int, text: *const c_char);
    fn allreduce = c"PMPI_Allreduce" (send: *const c_void, recv: *mut c_void, count: c_int, datatype: Handle, op: Handle, comm: Handle);
    fn ibcast = c"PMPI_Ibcast" (buffer: *mut c_void, count: c_int, datatype: Handle, root: c_int, comm: Handle, request: *mut Handle);
    fn barrier = c"PMPI_Barrier" (comm: Handle);
    fn bcast = c"PMPI_Bcast" (buffer: *mut c_void, count: c_int, datatype: Handle, root: c_int, comm: Handle);
    fn bcast_c = c"PMPI_Bcast_c" (buffer: *mut c_void, count: i64, datatype: Handle, root: c_int, comm: Handle);
    fn gather = c"PMPI_Gather" (send: *const c_void, sendcount: c_int, sendtype: Handle, recv: *mut c_void, recvcount: c_int, recvtype: Handle, root: c_int, comm: Handle);
    fn gatherv = c"PMPI_Gatherv" (send: *const c_void, sendcount: c_int, sendtype: Handle, recv: *mut c_void, counts: *const c_int, displs: *const c_int, recvtype: Handle, root: c_int, comm: Handle);
    fn send_init = c"PMPI_Send_init" (buf: *const c_void, count: c_int, datatype: Handle, dest: c_int, tag: c_int, comm: Handle, request: *mut Handle);
    fn request_free = c"PMPI_Request_free" (request: *mut Handle);
    fn irecv = c"PMPI_Irecv" (buf: *mut c_void, count: c_int, datatype: Handle, source: c_int, tag: c_int, comm: Handle, request: *mut Handle);
    fn cancel = c"PMPI_Cancel" (request: *mut Handle);
    fn wait = c"PMPI_Wait" (request: *mut Handle, status: *mut c_void);
    fn test = c"PMPI_Test" (request: *mut Handle, flag: *mut c_int, status: *mut c_void);
    fn waitall = c"PMPI_Waitall" (count: c_int, requests: *mut c_void, statuses: *mut c_void);
    fn testall = c"PMPI_Testall" (count: c_int, requests: *mut c_void, flag: *mut c_int, statuses: *mut c_void);
    fn waitany = c"PMPI_Waitany" (count: c_int, requests: *mut c_void, index: *mut c_int, status: *mut c_void);
    fn waitsome = c"PMPI_Waitsome" (count: c_int, requests: *mut c_void, outcount: *mut c_int, indices: *mut c_int, statuses: *mut c_void);
    fn request_get_status_all = c"PMPI_Request_get_status_all" (count: c_int, requests: *const c_void, flag: *mut c_int, statuses: *mut c_void);
    fn request_get_status_any = c"PMPI_Request_get_status_any" (count: c_int, requests: *const c_void, index: *mut c_int, flag: *mut c_int, status: *mut c_void);
    fn request_get_status_some = c"PMPI_Request_get_status_some" (count: c_int, requests: *const c_void, outcount: *mut c_int, indices: *mut c_int, statuses: *mut c_void);
    fn startall = c"PMPI_Startall" (count: c_int, requests: *mut c_void);
    fn testany = c"PMPI_Testany" (count: c_int, requests: *mut c_void, index: *mut c_int, flag: *mut c_int, status: *mut c_void);
    fn testsome = c"PMPI_Testsome" (count: c_int, requests: *mut c_void, outcount: *mut c_int, indices: *mut c_int, statuses: *mut c_void);
    fn type_size_x = c"PMPI_Type_size_x" (datatype: Handle, size: *mut i64);
    fn type_get_extent_x = c"PMPI_Type_get_extent_x" (datatype: Handle, lb: *mut i64, extent: *mut i64);
    fn type_get_envelope = c"PMPI_Type_get_envelope" (datatype: Handle, integers: *mut c_int, addresses: *mut c_int, datatypes: *mut c_int, combiner: *mut c_int);
    fn type_get_contents = c"PMPI_Type_get_contents" (datatype: Handle, integers: c_int, addresses: c_int, datatypes: c_int, ints: *mut c_int, aints: *mut isize, types: *mut c_void);
    /// These two also tell of types that were made with large counts; MPIs before version 4 lack them.
    fn type_get_envelope_c = c"PMPI_Type_get_envelope_c" (datatype: Handle, integers: *mut i64, addresses: *mut i64, large: *mut i64, datatypes: *mut i64, combiner: *mut c_int);
    fn type_get_contents_c = c"PMPI_Type_get_contents_c" (datatype: Handle, integers: i64, addresses: i64, large: i64, datatypes: i64, ints: *mut c_int, aints: *mut isize, counts: *mut i64, types: *mut c_void);
    fn type_size = c"PMPI_Type_size" (datatype: Handle, size: *mut c_int);
    fn type_get_extent = c"PMPI_Type_get_extent" (datatype: Handle, lb: *mut i64, extent: *mut i64);
    fn type_free = c"PMPI_Type_free" (datatype: *mut Handle);
    fn type_create_keyval = c"PMPI_Type_create_keyval" (copy: *const (), delete: *const (), keyval: *mut c_int, extra: *mut c_void);
    fn type_set_attr = c"PMPI_Type_set_attr" (datatype: Handle, keyval: c_int, value: *mut c_void);
    fn lam_setfunc = c"lam_setfunc" (function: c_int);
    /// LAM's own way to a communicator's error handler.
    fn lam_err_comm = c"lam_err_comm" (comm: Handle, class: c_int, error: c_int, text: *const c_char);
    /// Gives up the INTEGER that stands for a handle in LAM's Fortran.
    fn lam_free_integer = c"lam_F_free_hdl" (integer: c_int);
    /// The same as the call without `lam_`, where that is stood in for.
    fn lam_errhandler_free = c"MPI_Errhandler_free" (handler: *mut Handle);
    fn lam_type_get_envelope = c"MPI_Type_get_envelope" (datatype: Handle, integers: *mut c_int, addresses: *mut c_int, datatypes: *mut c_int, combiner: *mut c_int);
    fn lam_type_get_contents = c"MPI_Type_get_contents" (datatype: Handle, integers: c_int, addresses: c_int, datatypes: c_int, ints: *mut c_int, aints: *mut isize, types: *mut c_void);
    fn type_dup = c"PMPI_Type_dup" (datatype: Handle, new: *mut Handle);
    fn send = c"PMPI_Send" (buf: *const c_void, count: c_int, datatype: Handle, dest: c_int, tag: c_int, comm: Handle);
}
