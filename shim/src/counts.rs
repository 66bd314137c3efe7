//! How many partitioned operations were made.

use node::partitioned_tag;
use std::collections::HashMap;
use std::ffi::c_int;
use std::sync::Mutex;

/// How many partitioned operations of an inter-communicator were made, by whether they send, peer and tag. The k-th of one
/// side belongs to the k-th of the other: each has a tag of its own.
#[derive(Default)]
pub struct Counts(Mutex<HashMap<(bool, u32, c_int), u32>>);

impl Counts {
    /// The tag of the next one.
    pub fn next(&self, sends: bool, peer: u32, tag: c_int) -> i64 {
        let mut counts = self.0.lock().unwrap_or_else(|e| e.into_inner());
        let count = counts.entry((sends, peer, tag)).or_default();
        let own = partitioned_tag(tag as u32, *count);
        *count = count.wrapping_add(1);
        own
    }
}
