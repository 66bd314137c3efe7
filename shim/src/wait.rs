//! Waiting without starving the MPI below: while we wait for the other job, our own job's transfers move on.

use crate::{flush, house};
use node::{About, Core, Node};
use std::time::Instant;

/// The MPI below gets its turn; whether something moved there.
fn poke() -> bool {
    flush::poll();
    house::poke()
}

/// Waits until `done` gives something; `None` when the deadline passes first.
pub fn wait_until<T>(node: &Node, deadline: Option<Instant>, done: impl FnMut(&mut Core) -> Option<T>) -> Option<T> {
    node.wait_until(&mut poke, done, deadline)
}

/// Waits as long as it takes. `about` is asked, under the lock, what is waited for, if that takes long.
pub fn wait<T>(node: &Node, about: &dyn Fn(&mut Core) -> Option<About>, done: impl FnMut(&mut Core) -> Option<T>) -> T {
    node.wait_about(&mut poke, about, done)
}

/// The same; `ask` is called now and then, without the lock, beside the poke.
pub fn wait_asking<T>(
    node: &Node,
    ask: &mut dyn FnMut(),
    about: &dyn Fn(&mut Core) -> Option<About>,
    done: impl FnMut(&mut Core) -> Option<T>,
) -> T {
    let mut poke_and_ask = || {
        let moved = poke();
        ask();
        moved
    };
    node.wait_about(&mut poke_and_ask, about, done)
}

/// Looks once, as the Test calls do: a round of ours, and one of the MPI below when there is nothing yet.
pub fn look<T>(node: &Node, done: impl FnOnce(&mut Core) -> Option<T>) -> Option<T> {
    node.look(&mut poke, done)
}
