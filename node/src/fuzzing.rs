//! What `fuzz/` needs of decoders that are private: notes of types, and data of other machines.

use crate::convert::{Representation, Signature};
use crate::types::{Element, Signed, Types, Wrong};
use std::sync::Arc;

/// What is wrong with a message of this note, for a receive of `count` of these types.
pub fn judge(types: &Types, count: usize, sender: Representation, note: &[u8], whole: Option<u64>) -> Option<Wrong> {
    let element = Arc::new(Element::new(types.clone(), Representation::here()));
    Signed::new(element, count).seen_by(sender).judge(note, whole)
}

/// The note of `count` of these types.
pub fn note(types: &Types, count: usize) -> Vec<u8> {
    Signed::new(Arc::new(Element::new(types.clone(), Representation::here())), count).note()
}

/// Converts `data`, and hands the result to `put` in pieces. Returns their bytes.
pub fn convert(
    signature: &Signature,
    from: Representation,
    to: Representation,
    data: &[u8],
    put: impl FnMut(&[u8]),
) -> u64 {
    signature.convert(from, to, data, put).bytes
}
