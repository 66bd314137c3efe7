//! What `fuzz/` needs of decoders that are private: the state machine of two leaders, which reads their messages.

pub use crate::leaders::negotiation::{Negotiation, Standing, still_missing};
