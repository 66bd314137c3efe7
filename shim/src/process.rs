//! This process as others meet it.

use crate::failure::{Class, Failure};
use node::Node;

/// The node of this process.
pub fn node() -> Result<&'static Node, Failure> {
    Node::get().map_err(|e| Failure::new(Class::Other, e.to_string()))
}
