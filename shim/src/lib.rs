//! The preloaded library, between a program and the MPI that the program was built for.
//!
//! Native calls go straight to the MPI below. Calls on an inter-communicator between jobs go to the crate `node`, which
//! knows no MPI; this crate knows no sockets. Only `forward` calls the MPI below, only `abi` knows its constants, and
//! only `error` makes its error codes.
#![allow(non_snake_case)]

pub mod abi;
mod attr;
mod bind;
mod buffer;
mod compat_lam;
pub mod conn;
mod counts;
mod datatype;
mod detached;
mod entry;
mod error;
mod exports;
mod failure;
mod flush;
mod forward;
mod functions;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod group;
mod handle_cache;
mod heap;
mod inter;
mod life;
mod locked;
mod message;
pub mod outcomes;
mod port;
mod process;
mod progress;
mod request;
mod shadow;
mod spawn;
mod token;
mod wait;
