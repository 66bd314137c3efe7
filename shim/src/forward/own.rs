//! The library's own calls of the MPI below. They go straight to `PMPI_X`, so that tools do not count them. There is
//! one for each row with `()` in `api/functions.txt`, with the types that the table gives.
#![allow(clippy::too_many_arguments)] // MPI's own.

use super::found::Own;
use super::library::Handle;
use super::types;
use crate::compat_lam;
use std::ffi::{c_char, c_int, c_void};

macro_rules! own {
    ($(fn $name:ident $Type:ident = $symbol:literal ($($arg:ident: $of:ty),*);)*) => {
        $(
        /// # Safety
        /// The arguments must be as MPI asks for them.
        #[allow(dead_code)] // Of some, `compat_lam` needs the type alone.
        pub unsafe fn $name($($arg: $of),*) -> c_int {
            static OWN: Own = Own::new($symbol);
            let function = OWN.get(|l, name| compat_lam::stand_in(l, name).or_else(|| l.symbol(name)));
            // SAFETY: a test compares the type with the header of every MPI; handles are register-wide.
            let function = unsafe { std::mem::transmute::<*const (), types::$Type>(function) };
            // SAFETY: the caller's promise.
            unsafe { function($($arg),*) }
        }
        )*
    };
}

include!(concat!(env!("OUT_DIR"), "/own_calls.rs"));
