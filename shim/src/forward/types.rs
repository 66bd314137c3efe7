//! The types of the functions that this library calls, by MPI's names. The build generates them from
//! `api/functions.txt`.
#![allow(non_camel_case_types)]

use super::library::Handle;
use std::ffi::{c_char, c_int, c_void};

macro_rules! own {
    ($(fn $name:ident $Type:ident = $symbol:literal ($($arg:ident: $of:ty),*);)*) => {
        $( pub type $Type = unsafe extern "C" fn($($of),*) -> c_int; )*
    };
}

include!(concat!(env!("OUT_DIR"), "/own_calls.rs"));
