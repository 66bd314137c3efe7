//! The heap under LAM, which brings an allocator for the whole process. That one is not safe where there are threads: threads of
//! glibc share one entry of its table of arenas, into which it puts a new arena before it initializes the arena's lock. So its hooks send all calls
//! to the C library's allocator, which serves every process without LAM.
//!
//! Invariants: the hooks are set by the library's constructor, before there are threads. The blocks that LAM's allocator had given out
//! by then lie below [`LAMS_END`]. They are few, and are never given back.

use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};

unsafe extern "C" {
    fn __libc_malloc(size: usize) -> *mut c_void;
    fn __libc_memalign(align: usize, size: usize) -> *mut c_void;
    fn __libc_realloc(at: *mut c_void, size: usize) -> *mut c_void;
    fn __libc_free(at: *mut c_void);
}

/// The end of the heap when the hooks were set.
static LAMS_END: AtomicUsize = AtomicUsize::new(0);

/// The flags in a block's size.
const FLAGS: usize = 7;

/// Has the C library's allocator serve the process. `hook` gives the address of a variable of LAM's with this name; without all of them
/// nothing is changed.
///
/// # Safety
/// There are no other threads, and the variables are those of LAM's allocator.
pub unsafe fn leave_lams(hook: impl Fn(&CStr) -> Option<usize>) {
    let hooks: [(&CStr, *const ()); 4] = [
        (c"__malloc_hook", malloc as *const ()),
        (c"__memalign_hook", memalign as *const ()),
        (c"__realloc_hook", realloc as *const ()),
        (c"__free_hook", free as *const ()),
    ];
    let places = hooks.map(|(name, own)| hook(name).map(|at| (at as *mut *const (), own)));
    if places.iter().all(Option::is_some) {
        // SAFETY: it is only asked for.
        LAMS_END.store(unsafe { libc::sbrk(0) } as usize, Ordering::Relaxed);
        for (at, own) in places.into_iter().flatten() {
            // SAFETY: the caller's promise.
            unsafe { at.write(own) };
        }
    }
}

fn is_lams(at: *mut c_void) -> bool {
    (at as usize) < LAMS_END.load(Ordering::Relaxed)
}

unsafe extern "C" fn malloc(size: usize, _caller: *const c_void) -> *mut c_void {
    // SAFETY: the caller's call.
    unsafe { __libc_malloc(size) }
}

unsafe extern "C" fn memalign(align: usize, size: usize, _caller: *const c_void) -> *mut c_void {
    // SAFETY: the caller's call.
    unsafe { __libc_memalign(align, size) }
}

unsafe extern "C" fn realloc(at: *mut c_void, size: usize, _caller: *const c_void) -> *mut c_void {
    if at.is_null() || !is_lams(at) {
        // SAFETY: the caller's call, for a block of the C library's.
        return unsafe { __libc_realloc(at, size) };
    }
    if size == 0 {
        return std::ptr::null_mut();
    }
    // SAFETY: LAM's allocator has the size of a block, this word included, in front of it; the new block is another one.
    unsafe {
        let had = (at.cast::<usize>().sub(1).read() & !FLAGS) - size_of::<usize>();
        let to = __libc_malloc(size);
        if !to.is_null() {
            std::ptr::copy_nonoverlapping(at.cast::<u8>(), to.cast(), had.min(size));
        }
        to
    }
}

unsafe extern "C" fn free(at: *mut c_void, _caller: *const c_void) {
    if !is_lams(at) {
        // SAFETY: the caller's call, for a block of the C library's.
        unsafe { __libc_free(at) };
    }
}
