//! Operators: commands to this job, which come over connections of their own and are passed on to its processes.
//!
//! `serve` answers one connection in a thread of its own, `tree` reaches the processes to which a command is passed on, `late`
//! goes on with those that did not answer, `obey` does a command here, and `report` is what this process tells of itself. `carry`
//! has a connection carry files; `desk` is what the threads share, `turns` which commands wait at a leader, `visitors` which connections are served and which give way, `visit`
//! one that is served, `budget` the memory of all. Invariants: these threads block all signals, call no MPI, and take the node's lock for moments
//! only; without an operator there are none.

mod budget;
mod carry;
mod desk;
mod late;
mod obey;
mod report;
mod serve;
mod tree;
mod turns;
mod visit;
mod visitors;

pub(crate) use desk::Desk;
pub(crate) use serve::{open, tell_leader};
