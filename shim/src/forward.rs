//! The only place that calls the MPI below: finds it, forwards the program's calls, and makes our own.
//!
//! A program's `MPI_X` goes to the next `MPI_X` in symbol order, so that PMPI tools work above and below us. Our own
//! calls go straight to `PMPI_X`: no tool counts them. A `PMPI_X` from above passes a tool below us once; one that comes
//! from that tool goes to the MPI. It is told by its return address, or, where a tail call hides that, by the thread
//! being inside the tool.

mod found;
mod guarded;
mod library;
mod native;
mod own;
mod tool;
pub mod types;

pub use found::Own;
pub use library::{Handle, Library, PROBE, absent, is_static, library, library_for, note_unsupported, origin};
pub use native::{Face, NATIVE, comm_from_fortran, comm_to_fortran, find_native, found, native, settle_native};
pub use own::*;
