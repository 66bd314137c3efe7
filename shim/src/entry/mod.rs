//! The entry points: generated ones for every exported function, and hand-written ones for the calls that this library
//! serves.
//!
//! Each exported symbol is one jump through the slots in `table`. A slot holds a resolver at first, then the function
//! below, and from the first inter-communicator on a checking entry. Only the program and PMPI tools call the entries.

/// Calls the function in the MPI below by the name that the program used.
macro_rules! forward {
    ($called_as:expr, $($arg:expr),*) => {{
        type Call = unsafe extern "C" fn($(forward!(@usize $arg)),*) -> c_int;
        // SAFETY: the function that was called takes these arguments.
        unsafe { std::mem::transmute::<*const (), Call>(crate::forward::native($called_as.0))($($arg),*) }
    }};
    (@usize $arg:expr) => { usize };
}

mod buffers;
mod collective;
mod comm;
mod complete;
mod create;
mod fortran;
mod group;
pub mod init;
pub mod instead;
pub mod joined;
mod p2p;
mod partitioned;
mod persistent;
mod ports;
mod probe;
mod quick;
mod requests;
mod some;
mod spawn;
mod status;
mod table;

pub use table::resolver;
