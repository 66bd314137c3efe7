//! A wait that others are told of, entered for as long as somebody keeps it.

use crate::node::Node;
use crate::state::waits::About;
use std::time::Instant;

/// A call that waits for something else than data, for as long as this is kept: others who ask are told of it.
pub struct Waits<'a>(&'a Node, u64);

impl<'a> Waits<'a> {
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
