//! Finds the MPI below, forwards the program's calls to it, and makes the library's own calls. No other module calls
//! the MPI.
//!
//! A program's `MPI_X` goes to the next `MPI_X` in symbol order, so PMPI tools work above and below this library. The
//! library's own calls go straight to `PMPI_X`, so tools do not count them. A `PMPI_X` from above passes a tool below
//! this library once; a `PMPI_X` from that tool goes to the MPI. Such a call is recognised by its return address or, if
//! a tail call hides that, by the fact that the thread is inside the tool.

mod found;
mod guarded;
mod library;
mod native;
mod own;
mod tool;
pub mod types;

pub use found::Own;
pub use library::{Handle, Library, PROBE, absent, is_static, library, library_for, note_unsupported, origin};
pub use native::{CalledAs, NATIVE, comm_from_fortran, comm_to_fortran, find_native, found, native, settle_native};
pub use own::*;
