//! Messages that a matched probe took out of matching. The program has tokens for them.

use crate::abi;
use crate::error::Place;
use crate::inter::Inter;
use crate::token::{self, Backing, Tokens};
use node::{MessageId, Representation};
use std::ffi::c_int;
use std::sync::{Arc, LazyLock};

/// A message that waits for its receive. It keeps its inter-communicator alive.
pub struct Matched {
    pub inter: Arc<Inter>,
    pub id: MessageId,
    pub source: u32,
}

static LIVE: LazyLock<Tokens<Matched>> =
    LazyLock::new(|| Tokens::new(abi::get().family.message_token, Backing::Nothing));

/// A handle for the program. `None`: 2^24 messages wait already.
pub fn insert(message: Matched) -> Option<u64> {
    LIVE.insert(false, message)
}

/// Where failures of a message's receive are raised. For a message that was received, this is [`Place::world`].
pub fn errors(token: u64) -> Place {
    LIVE.with(token, |m| m.inter.errors()).unwrap_or_else(Place::world)
}

/// The representation of the job that a message came from, if it is not ours.
pub fn foreign(token: u64) -> Option<Representation> {
    LIVE.with(token, |m| m.inter.remote.foreign).flatten()
}

/// Takes a message out, since it can be received only once.
pub fn remove(token: u64) -> Option<Matched> {
    LIVE.remove(token)
}

/// Whether the handle at an address is one of ours.
///
/// # Safety
/// `at` is null or the address of a message.
#[inline(always)]
pub unsafe fn is_token_at(at: usize) -> bool {
    // SAFETY: the caller's promise.
    unsafe { token::MESSAGE.is_at(at) }
}

/// A token as an INTEGER of Fortran, for an MPI whose Fortran layer asks for it by a call.
pub fn to_int(token: u64) -> Option<c_int> {
    token::to_int(token, &token::MESSAGE)
}

/// The token of such an INTEGER.
pub fn from_int(int: c_int) -> Option<u64> {
    token::from_int(int, &token::MESSAGE)
}
