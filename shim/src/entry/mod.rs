//! The entry points: generated ones for every exported function, hand-written ones for what we do ourselves.
//!
//! Each exported symbol is one jump through the slots in `table`. A slot holds a resolver at first, then the function below, and,
//! once the first inter-communicator lives, our checked entry. Nothing but the program and PMPI tools calls in here.

/// Calls the function of this face in the MPI below.
macro_rules! forward {
    ($face:expr, $($arg:expr),*) => {{
        type Call = unsafe extern "C" fn($(forward!(@usize $arg)),*) -> c_int;
        // SAFETY: the function of this face takes these arguments.
        unsafe { std::mem::transmute::<*const (), Call>(crate::forward::native($face.0))($($arg),*) }
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
mod status;
mod table;

pub use table::resolver;
