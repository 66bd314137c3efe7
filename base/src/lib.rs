//! The words that all rooms share: who a process is, how bytes are laid out, where user memory is read and
//! written, how a choice is logged. Everything may use this room; it uses none of the others and does no I/O
//! of its own beyond the log.

pub mod bytes;
pub mod hash;
pub mod ident;
pub mod log;
pub mod memory;
pub mod settings;
pub mod spelling;

pub use ident::ProcId;
pub use memory::{BufId, Memory};

/// What to say of a program that has no MPI below, when it starts and before.
pub const NO_LIBRARY: &str = "this program has no MPI library. The linker drops one that seems unused: include \
    mpi_connect.h, or link with -lmpi_connect -Wl,--no-as-needed. An MPI that is linked statically cannot work: link with \
    its shared library";
