//! Operations for which the program has no request: freed requests and buffered sends. They are kept until they have
//! completed.
//!
//! Locks are taken in this order: the node's, then the one here.

use crate::inter::Inter;
use crate::process::node;
use crate::request::Request;
use crate::wait::wait;
use node::{About, Core, InterId};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// Names an attached buffer: that of an inter-communicator, or with `None` that of the process.
pub type BufferOf = Option<InterId>;

struct Detached {
    request: Request,
    /// The bytes that a buffered send takes of an attached buffer.
    room: Option<(BufferOf, u64)>,
}

static DETACHED: Mutex<Vec<Detached>> = Mutex::new(Vec::new());
static ANY: AtomicBool = AtomicBool::new(false);

fn detached() -> MutexGuard<'static, Vec<Detached>> {
    DETACHED.lock().unwrap_or_else(|e| e.into_inner())
}

/// Keeps an operation until it has completed.
pub fn keep(request: Request, room: Option<(BufferOf, u64)>) {
    detached().push(Detached { request, room });
    ANY.store(true, Ordering::Relaxed);
    sweep();
}

/// Drops the operations that have completed.
#[inline(always)]
pub fn sweep() {
    if ANY.load(Ordering::Relaxed) {
        sweep_now();
    }
}

#[cold]
fn sweep_now() {
    let Ok(node) = node() else { return };
    let over: Vec<_> = node.with(|core| {
        let mut detached = detached();
        let over = detached.extract_if(.., |l| l.request.take(core).is_some()).collect();
        ANY.store(!detached.is_empty(), Ordering::Relaxed);
        over
    });
    // An inter-communicator may end with its last operation. That calls the node, so it must not happen under the
    // locks.
    drop::<Vec<Detached>>(over);
}

/// Whether all freed operations on an inter-communicator have completed. Called under the node's lock.
pub fn all_complete(inter: &Arc<Inter>, core: &Core) -> bool {
    detached().iter().all(|l| !l.request.is_of(inter) || l.request.is_complete(core))
}

/// The bytes of an attached buffer that buffered sends take now.
pub fn taken(buffer: BufferOf) -> u64 {
    sweep();
    detached().iter().filter_map(|l| l.room).filter(|(of, _)| *of == buffer).map(|(_, room)| room).sum()
}

/// The buffered sends that take bytes of a buffer now.
pub fn sends_in(buffer: BufferOf) -> Vec<Request> {
    sweep();
    detached().iter().filter(|l| l.room.is_some_and(|(of, _)| of == buffer)).map(|l| l.request.clone()).collect()
}

/// Waits until no buffered send takes bytes of a buffer.
pub fn flush(buffer: BufferOf) {
    if !ANY.load(Ordering::Relaxed) {
        return;
    }
    let takes = |l: &&Detached| l.room.is_some_and(|(of, _)| of == buffer);
    let Ok(node) = node() else { return };
    let about = |_: &mut Core| {
        let ops = detached().iter().filter(takes).filter_map(|l| l.request.op()).collect();
        Some(About::ops("MPI_Buffer_detach or MPI_Buffer_flush", ops))
    };
    wait(node, &about, |core| detached().iter().filter(takes).all(|l| l.request.is_complete(core)).then_some(()));
    sweep();
}
