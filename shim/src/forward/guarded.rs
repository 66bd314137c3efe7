//! The entries that pass a call through a PMPI tool below this library. The build generates them from
//! `api/functions.txt`.

use super::tool;
use crate::functions::{Code, FUNCTIONS};
use std::arch::naked_asm;
use std::ffi::c_int;

include!(concat!(env!("OUT_DIR"), "/guarded.rs"));

/// The entry of a slot that passes a call through the tools below this library.
pub fn guarded(slot: usize) -> *const () {
    GUARDED[slot].0
}
