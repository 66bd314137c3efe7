//! MPI's own ways for jobs to meet: ports, accept and connect, published names, joining over a socket. For programs that
//! know nothing of this library.
//!
//! A port is a place in one process to which leaders of other jobs come, known by its name alone (`name`). Whoever accepts
//! or connects does so as a group that is made for this one inter-communicator, and gone with it (`meeting`). The entries
//! call in here; nothing here is called before MPI has started through us.

mod call;
mod info;
pub mod join;
mod meeting;
pub mod name;
mod open;
pub mod publish;

pub use meeting::{Side, meet};
pub use open::{close, open, text};
