//! The words that all rooms share: who a process is, how bytes are laid out, where user memory is read and
//! written, how a choice is logged. Everything may use this room; it uses none of the others and does no I/O
//! of its own beyond the log and a look at a file.

pub mod bytes;
pub mod families;
pub mod file;
pub mod hash;
pub mod ident;
pub mod log;
pub mod memory;
pub mod protocol;
pub mod settings;
pub mod spelling;
pub mod time;

pub use families::Family;
pub use ident::ProcId;
pub use memory::{BufId, Memory};
pub use time::Time;

/// What to do about an error of the system, where that is known: to be said after it.
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

/// What to say of a program that has no MPI below, when it starts and before.
pub const NO_LIBRARY: &str = "this program has no MPI library. The linker drops one that seems unused: include \
    mpi_connect.h, or link with -lmpi_connect -Wl,--no-as-needed. An MPI that is linked statically cannot work: link with \
    its shared library";
