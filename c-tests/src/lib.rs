//! Runs user programs as users do: compiled by the MPI's own compiler, started by its own launcher, two or three
//! jobs beside each other, each under a hard time limit.

mod figure;
mod job;
mod mpi;
pub mod net;
mod places;
pub mod ports;
mod program;
pub mod python;
pub mod rounds;
mod scene;
pub mod user;

pub use figure::Figure;
pub use job::{Done, Job, Launch};
pub use mpi::{MPIS, Mpi};
pub use places::{command, figures, library, root, target};
pub use program::{Library, WAYS, Way, compile, compile_fortran, compile_tool, compile_with, try_build};
pub use scene::{Scene, wait_until};
