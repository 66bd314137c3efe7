//! Runs user programs as users do: compiled by the MPI's own compiler, started by its own launcher, two or three
//! jobs beside each other, each under a hard time limit.
//!
//! The tests are modules of one program: a new file of theirs is `c-tests/tests/system/NAME.rs` with a line `mod NAME;` in
//! `main.rs` beside it. `cargo test -p mpi-connect-c-tests --test system -- --nocapture NAME::` runs the tests of one
//! file, `make system TEST=NAME:: MPIS=mpich4,openmpi4` too, after the library has been built.

pub mod everyone;
pub mod faults;
mod figure;
mod job;
mod marked;
mod mpi;
pub mod net;
mod places;
pub mod ports;
mod program;
pub mod python;
pub mod rounds;
mod scene;
mod times;
pub mod user;
pub mod width;

pub use figure::Figure;
pub use job::{Done, Job, Launch};
pub use marked::{Marked, await_some, wait_until};
pub use mpi::{MPIS, Mpi};
pub use places::{command, figures, library, make, release, root, target};
pub use program::{Library, WAYS, Way, compile, compile_fortran, compile_tool, compile_with, try_build};
pub use scene::Scene;
