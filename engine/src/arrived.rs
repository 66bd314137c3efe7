//! A message that has come, as it waits for a receive: data alone.

use crate::types::PeerId;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Arrived {
    pub peer: PeerId,
    pub source: u32,
    pub tag: i64,
    /// The sender's operation.
    pub op: u64,
    pub body: Body,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Body {
    Eager {
        notify: bool,
        data: Vec<u8>,
    },
    /// With what is known of where the data lies.
    Rts {
        size: u64,
        pieces: Vec<(u64, u64)>,
    },
    /// With a note of the sender's.
    Noted(Box<(Vec<u8>, Body)>),
}

impl Default for Body {
    fn default() -> Self {
        Body::Rts { size: 0, pieces: Vec::new() }
    }
}

impl Body {
    pub fn size(&self) -> u64 {
        match self {
            Body::Eager { data, .. } => data.len() as u64,
            Body::Rts { size, .. } => *size,
            Body::Noted(noted) => noted.1.size(),
        }
    }

    /// What it cost of the credit for bytes.
    pub fn eager_bytes(&self) -> u64 {
        match self {
            Body::Eager { data, .. } => data.len() as u64,
            Body::Rts { .. } => 0,
            Body::Noted(noted) => noted.1.eager_bytes(),
        }
    }

    /// Whether the sender waits for a word.
    pub fn awaited(&self) -> bool {
        !matches!(self.plain(), Body::Eager { notify: false, .. })
    }

    /// Without the note, if there is one.
    pub fn plain(&self) -> &Body {
        if let Body::Noted(noted) = self { &noted.1 } else { self }
    }

    pub fn plain_mut(&mut self) -> &mut Body {
        if let Body::Noted(noted) = self { &mut noted.1 } else { self }
    }
}
