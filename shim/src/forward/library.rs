//! Finds the MPI below.

use crate::exports::object::in_program;
use base::families;
use libloading::os::unix::Library as Object;
use std::ffi::{CStr, CString, OsStr, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, Ordering};

/// A native handle in a register. Only as many bytes as the ABI's handles have are significant.
pub type Handle = u64;

/// The MPI library that the program uses.
pub struct Library {
    object: Object,
    pub(super) base: usize,
    pub path: String,
}

impl Library {
    /// The address of a symbol in this library.
    pub fn symbol(&self, name: &CStr) -> Option<*const ()> {
        address(&self.object, name)
    }

    /// The address of a variable as the program sees it, since an executable may have its own copy.
    pub fn variable(&self, name: &CStr) -> Option<*const ()> {
        // SAFETY: a terminated name.
        let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
        if found.is_null() { self.symbol(name) } else { Some(found as *const ()) }
    }
}

/// The MPI below. `None`: no MPI has been loaded yet.
pub fn library() -> Option<&'static Library> {
    library_for(std::ptr::null())
}

/// The MPI below. If it was not known before, it is the one that the code at this address is bound to.
pub fn library_for(caller: *const c_void) -> Option<&'static Library> {
    static LIBRARY: OnceLock<Library> = OnceLock::new();
    if let Some(found) = LIBRARY.get() {
        return Some(found);
    }
    let found = find_library(caller)?;
    base::log!(Info, "MPI below: {}", found.path);
    Some(LIBRARY.get_or_init(|| found))
}

/// A function that every MPI has, and that this library does not export.
pub const PROBE: &CStr = c"PMPI_Wtick";

fn find_library(caller: *const c_void) -> Option<Library> {
    // SAFETY: a terminated name; RTLD_NEXT counts from this library.
    let next = unsafe { libc::dlsym(libc::RTLD_NEXT, PROBE.as_ptr()) };
    if !next.is_null() {
        return library_of(next);
    }
    // The MPI was loaded by dlopen in local scope. There may be several, and the one of the caller is preferred.
    if let Some(library) = origin(caller).and_then(|(path, _)| library_within(&path)) {
        return Some(library);
    }
    let mut paths: Vec<CString> = Vec::new();
    // SAFETY: `note_mpi` matches the callback's type and `paths` outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(note_mpi), (&raw mut paths).cast()) };
    paths.iter().find_map(|path| library_within(path))
}

/// The MPI library, if a loaded object is one or depends on one.
fn library_within(path: &CStr) -> Option<Library> {
    library_of(address(&loaded(path)?, PROBE)?.cast())
}

/// A handle of a loaded object, which stays loaded while the handle lives.
fn loaded(path: &CStr) -> Option<Object> {
    // SAFETY: NOLOAD only finds what is loaded, so nothing of it is run.
    unsafe { Object::open(Some(OsStr::from_bytes(path.to_bytes())), libc::RTLD_LAZY | libc::RTLD_NOLOAD) }.ok()
}

/// The address of a name in an object, or in the libraries that it was linked with.
fn address(object: &Object, name: &CStr) -> Option<*const ()> {
    // SAFETY: only the address is taken.
    let found = unsafe { object.get::<*const ()>(name) }.ok()?.into_raw();
    // An indirect function may have no address.
    (!found.is_null()).then(|| found.cast_const().cast())
}

/// Whether MPI is linked statically into the executable, which then defines MPI's names itself.
pub fn is_static() -> bool {
    in_program(c"PMPI_Init")
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

/// The path and base address of the loaded object that contains an address.
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

/// The function that stands in for one that the MPI below does not have.
pub fn absent() -> *const () {
    extern "C" fn unsupported() -> c_int {
        UNSUPPORTED.load(Ordering::Relaxed)
    }
    unsupported as *const ()
}

/// The error code that it returns. Until the ABI is known, it is any code but success.
static UNSUPPORTED: AtomicI32 = AtomicI32::new(1);

/// Sets that error code. Called when the ABI has been found.
pub fn note_unsupported(class: c_int) {
    UNSUPPORTED.store(class, Ordering::Relaxed);
}
