//! A function of the MPI below, for the library's own calls.

use super::library::{Library, absent, library};
use std::ffi::CStr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A function of the MPI below, which is looked up once.
pub struct Own {
    name: &'static CStr,
    found: AtomicPtr<()>,
}

impl Own {
    pub const fn new(name: &'static CStr) -> Own {
        Own { name, found: AtomicPtr::new(std::ptr::null_mut()) }
    }

    /// The address of the function. The first call finds it by `find`.
    #[inline(always)]
    pub fn get(&self, find: impl FnOnce(&Library, &CStr) -> Option<*const ()>) -> *const () {
        let mut function = self.found.load(Ordering::Relaxed).cast_const();
        if function.is_null() {
            function = library().and_then(|l| find(l, self.name)).unwrap_or(absent());
            self.found.store(function.cast_mut(), Ordering::Relaxed);
        }
        function
    }
}
