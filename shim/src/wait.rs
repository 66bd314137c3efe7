//! Waiting without starving the MPI below: while we wait for the other job, our own job's transfers move on.

use crate::abi;
use crate::forward::{self as pmpi, Handle};
use node::{Core, Node};
use std::ffi::c_void;
use std::time::Instant;

/// One cheap native call that lets the MPI below make progress. On a communicator that carries no native messages,
/// so it never finds one.
pub fn poke(carrier: Handle) {
    let abi = abi::get();
    let mut flag = 0;
    // SAFETY: a live native communicator; the status is ignored.
    unsafe { pmpi::iprobe(abi.any_source, abi.any_tag, carrier, &mut flag, abi.status_ignore as *mut c_void) };
}

/// Waits until `done` gives something; `None` when the deadline passes first.
pub fn wait_until<T>(
    node: &Node,
    carrier: Handle,
    deadline: Option<Instant>,
    done: impl FnMut(&mut Core) -> Option<T>,
) -> Option<T> {
    node.wait_until(&mut || poke(carrier), done, deadline)
}

/// Waits as long as it takes.
pub fn wait<T>(node: &Node, carrier: Handle, done: impl FnMut(&mut Core) -> Option<T>) -> T {
    wait_poking(node, &mut || poke(carrier), done)
}

/// The same, with a poke of the caller's own.
pub fn wait_poking<T>(node: &Node, poke: &mut dyn FnMut(), done: impl FnMut(&mut Core) -> Option<T>) -> T {
    match node.wait_until(poke, done, None) {
        Some(value) => value,
        None => unreachable!("a wait without a deadline ends with a value"),
    }
}
