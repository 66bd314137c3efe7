//! Groups of the other job, as the program holds them: tokens. Their members are no processes of the MPI below.

use crate::abi;
use crate::token::{self, Behind, Tokens, has_prefix};
use std::ffi::c_int;
use std::sync::LazyLock;

/// The remote group of an inter-communicator.
#[derive(Clone, Copy, Debug)]
pub struct RemoteGroup {
    pub size: u32,
}

static LIVE: LazyLock<Tokens<RemoteGroup>> = LazyLock::new(Tokens::new);

pub fn insert(group: RemoteGroup) -> Option<u64> {
    LIVE.insert(abi::get().family.group_token, behind(), false, group)
}

pub fn find(token: u64) -> Option<RemoteGroup> {
    LIVE.with(token, |g| *g)
}

pub fn remove(token: u64) -> Option<RemoteGroup> {
    LIVE.remove(token, behind())
}

/// # Safety
/// None needed; the mark functions share one form.
#[inline(always)]
pub unsafe fn is_token(value: usize) -> bool {
    abi::known().is_some_and(|abi| has_prefix(value as u64, abi.family.group_token))
}

/// # Safety
/// `at` is null or the address of a group.
#[inline(always)]
pub unsafe fn is_token_at(at: usize) -> bool {
    // SAFETY: the caller's promise.
    at != 0 && abi::known().is_some() && unsafe { is_token(abi::load_handle(at) as usize) }
}

/// Where the INTEGER of Fortran is kept, if it is kept with the object.
fn behind() -> Behind {
    abi::get().family.integers.map_or(Behind::Nothing, |integers| Behind::Theirs(integers.group))
}

/// As an INTEGER of Fortran, for an MPI that asks.
pub fn to_int(token: u64) -> Option<c_int> {
    token::to_int(token, abi::asks_for_integers()?.group_token, abi::INTEGER_GROUP)
}

pub fn from_int(int: c_int) -> Option<u64> {
    token::from_int(int, abi::asks_for_integers()?.group_token, abi::INTEGER_GROUP)
}
