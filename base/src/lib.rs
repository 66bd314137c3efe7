//! The vocabulary that all crates share: process identity, byte layouts, access to user memory, settings and the log.
//! Every crate may use this one. It uses no other crate of the workspace, and does no I/O of its own beyond the log, a
//! look at a file, the kernel's random source, threads, and what a forked child has to close.

#![warn(missing_docs)]

pub mod bytes;
pub mod families;
pub mod fence;
pub mod file;
pub mod fork;
pub mod hash;
pub mod ident;
pub mod log;
pub mod looks;
pub mod memory;
pub mod protocol;
pub mod queue;
pub mod rdma;
pub mod settings;
pub mod shares;
pub mod sorted;
pub mod spawn;
pub mod spelling;
pub mod thread;
pub mod tight;
pub mod time;

pub use families::Family;
pub use ident::ProcId;
pub use memory::{BufId, Memory};
pub use sorted::Sorted;
pub use time::Time;

/// What a user can do about an error of the system, as a text to append to the message. Empty if nothing is known.
pub fn mend(e: &std::io::Error) -> &'static str {
    match e.raw_os_error() {
        Some(libc::EMFILE) => {
            ": this process has no file descriptor left; close some, or raise its limit by 'ulimit -n'"
        }
        Some(libc::ENFILE) => {
            ": this host has no file descriptor left; end what holds many (each by its 'ulimit -n'), or raise fs.file-max"
        }
        _ => "",
    }
}

/// The message for a program that is not linked with an MPI library: the library says it at start, the command
/// beforehand.
pub const NO_LIBRARY: &str = "this program has no MPI library. The linker drops one that seems unused: include \
    mpi_connect.h, or link with -lmpi_connect -Wl,--no-as-needed. An MPI that is linked statically cannot work: link with \
    its shared library";
