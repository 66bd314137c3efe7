//! MPI's own calls for connecting jobs: ports, accept and connect, published names, joining over a socket. They serve
//! programs that know nothing of this library.
//!
//! A port is opened by one process, and leaders of other jobs connect to it by its name alone (`name`). The processes
//! that accept or connect form a group that exists for this one inter-communicator (`meeting`). The entries call this
//! module, and only after MPI_Init has come through this library.

mod dial_requests;
pub mod info;
pub mod join;
mod meeting;
pub mod name;
mod open;
pub mod publish;

pub use meeting::{Awaited, Plan, Side, meet, meet_by, to_port};
pub use open::{close, find, open, open_within, text};
