//! Operations that go on though the program has no request for them: freed requests and buffered sends. What they need
//! is kept until they are over. Locks are taken in this order: the node's, then the one here.

use crate::inter::Inter;
use crate::process::node;
use crate::request::Request;
use crate::wait::wait;
use node::{About, Core, InterId};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// Which attached buffer: that of an inter-communicator, or the process's.
pub type BufferOf = Option<InterId>;

struct Left {
    request: Request,
    /// What it takes of an attached buffer.
    room: Option<(BufferOf, u64)>,
}

static LEFT: Mutex<Vec<Left>> = Mutex::new(Vec::new());
static ANY: AtomicBool = AtomicBool::new(false);

fn left() -> MutexGuard<'static, Vec<Left>> {
    LEFT.lock().unwrap_or_else(|e| e.into_inner())
}

pub fn keep(request: Request, room: Option<(BufferOf, u64)>) {
    left().push(Left { request, room });
    ANY.store(true, Ordering::Relaxed);
    sweep();
}

/// Lets go of what is over.
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
        let mut left = left();
        let over = left.extract_if(.., |l| l.request.take(core).is_some()).collect();
        ANY.store(!left.is_empty(), Ordering::Relaxed);
        over
    });
    // With the last operation an inter-communicator may end, which asks the node.
    drop::<Vec<Left>>(over);
}

/// Whether nothing of an inter-communicator goes on. Under the node's lock.
pub fn all_complete(inter: &Arc<Inter>, core: &Core) -> bool {
    left().iter().all(|l| !l.request.is_of(inter) || l.request.is_complete(core))
}

/// How many bytes of an attached buffer are taken.
pub fn taken(buffer: BufferOf) -> u64 {
    sweep();
    left().iter().filter_map(|l| l.room).filter(|(of, _)| *of == buffer).map(|(_, room)| room).sum()
}

/// The sends that take room of a buffer now.
pub fn sends_in(buffer: BufferOf) -> Vec<Request> {
    sweep();
    left().iter().filter(|l| l.room.is_some_and(|(of, _)| of == buffer)).map(|l| l.request.clone()).collect()
}

/// Waits until nothing takes any room of a buffer.
pub fn flush(buffer: BufferOf) {
    if !ANY.load(Ordering::Relaxed) {
        return;
    }
    let takes = |l: &&Left| l.room.is_some_and(|(of, _)| of == buffer);
    let Ok(node) = node() else { return };
    let about = |_: &mut Core| {
        let ops = left().iter().filter(takes).filter_map(|l| l.request.op()).collect();
        Some(About::ops("MPI_Buffer_detach or MPI_Buffer_flush", ops))
    };
    wait(node, &about, |core| left().iter().filter(takes).all(|l| l.request.is_complete(core)).then_some(()));
    sweep();
}
