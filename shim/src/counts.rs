//! The counts of partitioned operations, which give them their tags.

use node::partitioned_tag;
use std::collections::HashMap;
use std::ffi::c_int;
use std::sync::Mutex;

/// The number of partitioned operations that were made on an inter-communicator, by direction (true: sends), peer and
/// tag. The k-th operation of one side matches the k-th of the other, since both have the same tag of their own.
#[derive(Default)]
pub struct Counts(Mutex<HashMap<(bool, u32, c_int), u32>>);

impl Counts {
    /// Counts an operation, and returns the tag of its messages.
    pub fn next(&self, sends: bool, peer: u32, tag: c_int) -> i64 {
        let mut counts = self.0.lock().unwrap_or_else(|e| e.into_inner());
        let count = counts.entry((sends, peer, tag)).or_default();
        let own = partitioned_tag(tag as u32, *count);
        *count = count.wrapping_add(1);
        own
    }
}
