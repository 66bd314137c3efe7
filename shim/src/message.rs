//! Messages that a matched probe took out of matching, as the program holds them: tokens.

use crate::abi;
use crate::error::Place;
use crate::inter::Inter;
use crate::token::{self, Behind, Tokens, has_prefix};
use node::{MessageId, Representation};
use std::ffi::c_int;
use std::sync::{Arc, LazyLock};

/// One message that waits for its receive. It keeps its inter-communicator alive.
pub struct Matched {
    pub inter: Arc<Inter>,
    pub id: MessageId,
    pub source: u32,
}

static LIVE: LazyLock<Tokens<Matched>> = LazyLock::new(Tokens::new);

/// A handle for the program; fails when 2^24 messages wait.
pub fn insert(message: Matched) -> Option<u64> {
    LIVE.insert(abi::get().family.message_token, Behind::Nothing, false, message)
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
    LIVE.remove(token, Behind::Nothing)
}

/// # Safety
/// `at` is null or the address of a message.
#[inline(always)]
pub unsafe fn is_token_at(at: usize) -> bool {
    // SAFETY: the caller's promise.
    at != 0 && abi::known().is_some_and(|abi| has_prefix(unsafe { abi::load_handle(at) }, abi.family.message_token))
}

/// As an INTEGER of Fortran, for an MPI that asks.
pub fn to_int(token: u64) -> Option<c_int> {
    token::to_int(token, abi::asks_for_integers()?.message_token, abi::INTEGER_MESSAGE)
}

pub fn from_int(int: c_int) -> Option<u64> {
    token::from_int(int, abi::asks_for_integers()?.message_token, abi::INTEGER_MESSAGE)
}
