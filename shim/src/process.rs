//! The node of this process.

use crate::failure::{Class, Failure};
use node::Node;

/// The node of this process, or a failure that says why there is none.
pub fn node() -> Result<&'static Node, Failure> {
    Node::get().map_err(|e| Failure::new(Class::Other, e.to_string()))
}
