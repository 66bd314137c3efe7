//! Imports that close a circle, and why each is still there. The list only gets shorter.

/// Of each: the file, the one that it imports from, and the reason.
pub const KNOWN: &[(&str, &str, &str)] = &[];
