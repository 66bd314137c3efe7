//! Channels to single processes, and what carries them.
//!
//! A [`path`] is the channel of one pair: sequences, acknowledgement, retention. A [`lane`] carries [`frame`]s and may
//! come and go under a path. The node uses this room; it knows nothing of matching.

pub mod frame;
pub mod lane;
pub mod path;
pub mod shm;
pub mod sim;
pub mod stream;
pub mod tcp;
