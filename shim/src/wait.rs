//! Waiting for another job, while the MPI below makes progress too.

use crate::{flush, progress};
use node::{About, Core, Node};
use std::time::Instant;

/// Lets the MPI below make progress. Returns whether data has moved there.
fn poke() -> bool {
    flush::poll();
    progress::poke()
}

fn poke_and(ask: &mut dyn FnMut()) -> impl FnMut() -> bool {
    move || {
        let moved = poke();
        ask();
        moved
    }
}

/// Waits until `done` returns a value. `None`: the deadline has passed.
pub fn wait_until<T>(node: &Node, deadline: Option<Instant>, done: impl FnMut(&mut Core) -> Option<T>) -> Option<T> {
    node.wait_until(&mut poke, done, deadline)
}

/// Waits until `done` returns a value. `about` says what the call waits for; it is called under the lock, if the wait
/// gets long.
pub fn wait<T>(node: &Node, about: &dyn Fn(&mut Core) -> Option<About>, done: impl FnMut(&mut Core) -> Option<T>) -> T {
    node.wait_about(&mut poke, about, done)
}

/// As [`wait`], and calls `ask` now and then, without the lock.
pub fn wait_asking<T>(
    node: &Node,
    ask: &mut dyn FnMut(),
    about: &dyn Fn(&mut Core) -> Option<About>,
    done: impl FnMut(&mut Core) -> Option<T>,
) -> T {
    node.wait_about(&mut poke_and(ask), about, done)
}

/// As [`wait_until`], of what has not come soon, or will not: it sleeps from the beginning. It calls `ask` now and then, without the lock.
pub fn sleep_until<T>(
    node: &Node,
    ask: &mut dyn FnMut(),
    deadline: Option<Instant>,
    done: impl FnMut(&mut Core) -> Option<T>,
) -> Option<T> {
    node.sleep_until(&mut poke_and(ask), done, deadline)
}

/// Makes some progress and calls `done` once, as MPI's Test calls do. The MPI below makes progress too, now and then.
pub fn look<T>(node: &Node, done: impl FnOnce(&mut Core) -> Option<T>) -> Option<T> {
    node.look(&mut poke, done)
}
