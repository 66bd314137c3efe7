//! The entries that pass a call through a tool below us, which the build makes of `api/functions.txt`.

use super::tool;
use crate::functions::{Code, FUNCTIONS};
use std::arch::naked_asm;
use std::ffi::c_int;

include!(concat!(env!("OUT_DIR"), "/guarded.rs"));

/// The entry that passes a call through the tools below us.
pub fn guarded(slot: usize) -> *const () {
    GUARDED[slot].0
}
