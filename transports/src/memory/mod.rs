//! Memory that two processes share: as algorithms see it (`view`), mapped (`segment`), and a fence in both at once (`fence`).
//!
//! Used by lanes in shared memory, and by a process and the router of its host. What lies where is said by these.

pub(crate) mod fence;
#[cfg(test)]
pub(crate) mod modelled;
mod segment;
mod view;

pub(crate) use segment::Segment;
pub(crate) use view::SegmentView;
