//! The few group calls that answer for the other job's group.

use crate::error::{Class, Failure, Place, raise};
use crate::{abi, group};
use std::ffi::c_int;

type Answer = Option<c_int>;

fn stale(call: &str) -> c_int {
    raise(Place::world(), &Failure::new(Class::Group, format!("{call}: this group has been freed")))
}

unsafe fn answer(call: &str, token: usize, at: usize, value: impl FnOnce(group::RemoteGroup) -> c_int) -> Answer {
    // SAFETY: both marks look at the value only.
    if !unsafe { group::is_token(token) } {
        return None;
    }
    let Some(found) = group::find(token as u64) else { return Some(stale(call)) };
    // SAFETY: the program's int.
    unsafe { (at as *mut c_int).write(value(found)) };
    Some(0)
}

pub unsafe fn Group_size(group: usize, size: usize) -> Answer {
    // SAFETY: the caller's arguments.
    unsafe { answer("MPI_Group_size", group, size, |g| g.size as c_int) }
}

/// No process of this job is in the other job's group.
pub unsafe fn Group_rank(group: usize, rank: usize) -> Answer {
    // SAFETY: the caller's arguments.
    unsafe { answer("MPI_Group_rank", group, rank, |_| abi::get().undefined) }
}

pub unsafe fn Group_free(at: usize) -> Answer {
    // SAFETY: the check found a token there.
    let token = unsafe { abi::load_handle(at) };
    if group::remove(token).is_none() {
        return Some(stale("MPI_Group_free"));
    }
    // SAFETY: the program's handle.
    unsafe { abi::store_handle(at, abi::get().group_null) };
    Some(0)
}
