//! Messages that a matched probe took out of matching, as the program holds them: tokens.

use crate::abi;
use crate::error::Place;
use crate::inter::Inter;
use crate::token::{self, Behind, Tokens};
use node::{MessageId, Representation};
use std::ffi::c_int;
use std::sync::{Arc, LazyLock};

/// One message that waits for its receive. It keeps its inter-communicator alive.
pub struct Matched {
    pub inter: Arc<Inter>,
    pub id: MessageId,
    pub source: u32,
}

static LIVE: LazyLock<Tokens<Matched>> =
    LazyLock::new(|| Tokens::new(abi::get().family.message_token, Behind::Nothing));

/// A handle for the program; fails when 2^24 messages wait.
pub fn insert(message: Matched) -> Option<u64> {
    LIVE.insert(false, message)
}

/// Where failures of a message's receive are raised. One that has been received has no place of its own.
pub fn errors(token: u64) -> Place {
    LIVE.with(token, |m| m.inter.errors()).unwrap_or_else(Place::world)
}

/// How the job that a message came from lays out data, if otherwise than we do.
pub fn foreign(token: u64) -> Option<Representation> {
    LIVE.with(token, |m| m.inter.remote.foreign).flatten()
}

/// A message is received once.
pub fn remove(token: u64) -> Option<Matched> {
    LIVE.remove(token)
}

/// # Safety
/// `at` is null or the address of a message.
#[inline(always)]
pub unsafe fn is_token_at(at: usize) -> bool {
    // SAFETY: the caller's promise.
    unsafe { token::MESSAGE.is_at(at) }
}

/// As an INTEGER of Fortran, for an MPI that asks.
pub fn to_int(token: u64) -> Option<c_int> {
    token::to_int(token, &token::MESSAGE)
}

pub fn from_int(int: c_int) -> Option<u64> {
    token::from_int(int, &token::MESSAGE)
}
