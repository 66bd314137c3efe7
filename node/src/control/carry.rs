//! A connection that carries files for another job: it is served in a thread of its own, which ends with it.
//!
//! Invariant: the thread reads and writes files without the node's lock, and takes that for moments only.

use super::desk::Desk;
use super::visit::Place;
use crate::shared::Shared;
use crate::thread::begin;
use std::sync::{Arc, Weak};
use transports::control::ControlStream;

/// Begins the thread.
pub(super) fn carry(shared: &Arc<Shared>, desk: &Arc<Desk>, stream: ControlStream) {
    let (weak, of_thread) = (Arc::downgrade(shared), desk.clone());
    let serve = move || {
        let is_over = || of_thread.is_closing();
        let is_cut = || of_thread.is_closing() || is_held(&weak);
        files::serve(stream, &of_thread.shelf, &of_thread.folders, &is_cut, &is_over);
    };
    match begin("mpi_connect fs", serve) {
        Ok(thread) => desk.keep(thread),
        Err(e) => base::log_seldom!(Error, "no thread for a file of another job: {e}"),
    }
}

/// Whether this process gives up its connections, or has.
fn is_held(shared: &Weak<Shared>) -> bool {
    shared.upgrade().is_none_or(|shared| shared.lock().is_to_be_held())
}
