//! Calls whose outcome could have been another one: tests, probes, and waits for any of several requests. While a
//! checkpoint may need it, what they find is noted; after a restart they find it again (`docs/checkpoints.md`).
//!
//! Invariant: where no checkpoint needs it, a call costs one load more.

use crate::wait::{self, wait};
use node::images::{Call, Next};
use node::{About, Core, Node, outcomes_matter};

/// What a call of this kind is to find.
#[inline]
pub fn next(node: &Node, call: Call) -> Next {
    if outcomes_matter() { node.with(|core| core.next_outcome(call)) } else { Next::Free }
}

/// A call has found this, or nothing.
#[inline]
pub fn note(node: &Node, call: Call, found: Option<&[u32]>) {
    if outcomes_matter() {
        node.with(|core| core.note_outcome(call, found));
    }
}

/// A call has found the request or requests at these indices.
pub fn note_indices(node: &Node, call: Call, found: impl Iterator<Item = usize>) {
    if outcomes_matter() {
        let found: Vec<u32> = found.map(|index| index as u32).collect();
        node.with(|core| core.note_outcome(call, Some(&found)));
    }
}

/// Waits for what was found before. `None`: all processes have done again what they must, so the call finds what there is.
pub fn wait_again<T>(
    node: &Node,
    about: &dyn Fn(&mut Core) -> Option<About>,
    mut done: impl FnMut(&mut Core) -> Option<T>,
) -> Option<T> {
    wait(node, about, |core| match done(core) {
        None if core.is_replaying() => None,
        found => Some(found),
    })
}

/// As [`wait::look`], for a call that finds what it looks for or nothing.
#[inline]
pub fn look<T>(
    node: &Node,
    call: Call,
    about: &dyn Fn(&mut Core) -> Option<About>,
    done: impl FnMut(&mut Core) -> Option<T>,
) -> Option<T> {
    if outcomes_matter() { look_noted(node, call, about, done) } else { wait::look(node, done) }
}

#[cold]
fn look_noted<T>(
    node: &Node,
    call: Call,
    about: &dyn Fn(&mut Core) -> Option<About>,
    mut done: impl FnMut(&mut Core) -> Option<T>,
) -> Option<T> {
    let found = match next(node, call) {
        Next::Nothing => look_for_nothing(node),
        Next::Found(_) => wait_again(node, about, &mut done).or_else(|| wait::look(node, done)),
        Next::Free => wait::look(node, done),
    };
    note(node, call, found.is_some().then_some(&[]));
    found
}

/// Makes progress, and finds nothing.
pub fn look_for_nothing<T>(node: &Node) -> Option<T> {
    wait::look(node, |_| None)
}
