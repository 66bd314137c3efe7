//! Our own calls of the MPI below: straight to `PMPI_X`, so that no tool counts them. One for each row with `()` in
//! `api/functions.txt`, of the types that the table gives it.
#![allow(clippy::too_many_arguments)] // MPI's own.

use super::{Handle, Library, absent, library};
use crate::gaps;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

/// A function of the MPI below, found once.
pub struct Own {
    name: &'static CStr,
    found: AtomicPtr<()>,
}

impl Own {
    pub const fn new(name: &'static CStr) -> Own {
        Own { name, found: AtomicPtr::new(std::ptr::null_mut()) }
    }

    /// Its address; at first, what `find` says that it is.
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

macro_rules! own {
    ($(fn $name:ident $Type:ident = $symbol:literal ($($arg:ident: $of:ty),*);)*) => {
        /// What is called, by MPI's names.
        #[allow(non_camel_case_types)]
        pub mod types {
            use super::*;
            $( pub type $Type = unsafe extern "C" fn($($of),*) -> c_int; )*
        }
        $(
        /// # Safety
        /// The arguments must be as MPI asks for them.
        pub unsafe fn $name($($arg: $of),*) -> c_int {
            static OWN: Own = Own::new($symbol);
            let function = OWN.get(|l, name| gaps::stand_in(l, name).or_else(|| l.symbol(name)));
            // SAFETY: a test compares the type with the header of every MPI; handles are register-wide.
            let function = unsafe { std::mem::transmute::<*const (), types::$Type>(function) };
            // SAFETY: the caller's promise.
            unsafe { function($($arg),*) }
        }
        )*
    };
}

include!(concat!(env!("OUT_DIR"), "/own_calls.rs"));
