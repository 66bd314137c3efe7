//! A guard for waits that are not for messages: other processes that ask are told of them.

use crate::node::Node;
use crate::state::waits::About;
use std::time::Instant;

/// A call that waits for something else than a message, such as another job. While this guard lives, other processes
/// that ask why this process does not answer are told of the wait.
pub struct Waits<'a>(&'a Node, u64);

impl<'a> Waits<'a> {
    /// Enters the wait. `call` is the MPI function, and `what` says what it waits for in words: `for job 'ocean'`.
    pub fn begin(node: &'a Node, call: &'static str, what: String) -> Waits<'a> {
        let about = About { else_for: Some(what), ..About::ops(call, Vec::new()) };
        Waits(node, node.with(|core| core.enter_wait(about, Instant::now())))
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.with(|core| core.waits.entered.remove(&self.1));
    }
}
