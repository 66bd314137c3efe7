//! The bounds of joining two jobs: the largest tag, and the time limit.

use crate::abi::Abi;
use crate::failure::{Class, Failure};
use crate::forward as pmpi;
use base::settings;
use std::ffi::{c_int, c_void};
use std::time::Duration;

/// MPI_TAG_UB of the MPI below. It is asked of MPI_COMM_WORLD, since some MPIs have it for no other communicator.
pub fn largest_tag(abi: &Abi) -> c_int {
    let (mut value, mut flag): (*mut c_void, c_int) = (std::ptr::null_mut(), 0);
    // SAFETY: a live communicator; when the flag is set, the value points to an int of the MPI's.
    unsafe {
        if pmpi::comm_get_attr(abi.comm_world, abi.tag_ub, (&raw mut value).cast(), &mut flag) == 0 && flag != 0 {
            value.cast::<c_int>().read()
        } else {
            32767
        }
    }
}

/// How long joining two jobs may take: `MPI_CONNECT_TIMEOUT`.
pub fn timeout() -> Result<Duration, Failure> {
    settings::timeout().map_err(|e| Failure::new(Class::Arg, format!("{}: {e}", settings::TIMEOUT)))
}
