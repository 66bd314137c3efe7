//! Advice for calls that this library does not serve.

use crate::failure::{Class, Failure};

/// What a program can do instead of a call that is refused. The whole text of the failure fits into LAM's 256 bytes.
pub fn instead(name: &str) -> String {
    let is = |words: &[&str]| words.iter().any(|word| name.to_lowercase().contains(word));
    let way = if is(&["neighbor", "cart", "graph", "topo", "win_", "file_", "scan"]) {
        "use this job's own communicator for it"
    } else if is(&["bcast", "barrier"]) {
        "MPI_Bcast and MPI_Barrier work"
    } else if is(&["reduce", "gather", "scatter", "alltoall"]) {
        "do it in each job, let ranks 0 swap results by MPI_Sendrecv, and spread them"
    } else if is(&["merge", "create", "spawn"]) {
        "MPI_Comm_dup, _split and _create work"
    } else {
        "there is no other way"
    };
    format!("{way}. What works: docs/coverage.md")
}

/// The failure of a call that is served on some inter-communicators only.
pub fn unavailable(call: &str) -> Failure {
    Failure::new(
        Class::Comm,
        format!("{call} is not available on an inter-communicator between jobs; {}", instead(call)),
    )
}
