//! A message that waits for a receive. Plain data.

use crate::spare::Data;
use crate::types::PeerId;
use serde::{Deserialize, Deserializer, Serialize};

/// A message that has arrived.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Arrived {
    pub peer: PeerId,
    pub source: u32,
    pub tag: i64,
    /// The sender's operation.
    pub op: u64,
    /// Which of the sender's messages to this process it is.
    pub number: u64,
    /// It has cost no credit, or that was given back: an image has brought it, or its data was read before its receive.
    pub free: bool,
    pub body: Body,
}

/// What a message has besides its envelope.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Body {
    Eager {
        notify: bool,
        data: Data,
    },
    Rts {
        size: u64,
        /// Where the data lies in the sender's memory.
        pieces: Described,
        /// The data may be read before a receive matches.
        #[serde(skip)]
        may_buffer: bool,
    },
    /// A note, and a body of another kind.
    Noted(#[serde(deserialize_with = "noted")] Box<(Vec<u8>, Body)>),
}

/// Where data lies in a process's memory: address and length of each piece, in packed order. No piece if that is unknown.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(from = "Vec<(u64, u64)>", into = "Vec<(u64, u64)>")]
pub(crate) enum Described {
    /// Most do. It needs no memory of its own.
    One([(u64, u64); 1]),
    Several(Vec<(u64, u64)>),
}

impl Described {
    pub fn pieces(&self) -> &[(u64, u64)] {
        match self {
            Described::One(piece) => piece,
            Described::Several(pieces) => pieces,
        }
    }
}

impl Default for Described {
    fn default() -> Self {
        Described::Several(Vec::new())
    }
}

impl From<Vec<(u64, u64)>> for Described {
    fn from(pieces: Vec<(u64, u64)>) -> Described {
        match pieces[..] {
            [piece] => Described::One([piece]),
            _ => Described::Several(pieces),
        }
    }
}

impl From<Described> for Vec<(u64, u64)> {
    fn from(described: Described) -> Self {
        match described {
            Described::One(piece) => piece.to_vec(),
            Described::Several(pieces) => pieces,
        }
    }
}

/// Reads a note and its body, which has no further note: else reading would go as deep as the input says.
fn noted<'de, D: Deserializer<'de>>(from: D) -> Result<Box<(Vec<u8>, Body)>, D::Error> {
    /// As the first kinds of [`Body`].
    #[derive(Deserialize)]
    enum Plain {
        Eager { notify: bool, data: Data },
        Rts { size: u64, pieces: Described },
    }
    let (note, plain) = <(Vec<u8>, Plain)>::deserialize(from)?;
    let body = match plain {
        Plain::Eager { notify, data } => Body::Eager { notify, data },
        Plain::Rts { size, pieces } => Body::Rts { size, pieces, may_buffer: false },
    };
    Ok(Box::new((note, body)))
}

impl Default for Body {
    fn default() -> Self {
        Body::Rts { size: 0, pieces: Described::default(), may_buffer: false }
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

    /// Bytes of credit that it cost.
    pub fn eager_bytes(&self) -> u64 {
        match self {
            Body::Eager { data, .. } => data.len() as u64,
            Body::Rts { .. } => 0,
            Body::Noted(noted) => noted.1.eager_bytes(),
        }
    }

    /// Whether the sender waits for an answer to this message.
    pub fn awaited(&self) -> bool {
        !matches!(self.plain(), Body::Eager { notify: false, .. })
    }

    /// Forgets where the data of an announced message lies: its sender goes on elsewhere, or waits for it no more.
    pub fn forget_pieces(&mut self) {
        if let Body::Rts { pieces, may_buffer, .. } = self.plain_mut() {
            (*pieces, *may_buffer) = (Described::default(), false);
        }
    }

    /// The body with a note, unless that is empty.
    pub fn with_note(self, note: &[u8]) -> Body {
        if note.is_empty() { self } else { Body::Noted(Box::new((note.to_vec(), self))) }
    }

    /// The body without its note.
    pub fn plain(&self) -> &Body {
        if let Body::Noted(noted) = self { &noted.1 } else { self }
    }

    /// As [`Body::plain`].
    pub fn plain_mut(&mut self) -> &mut Body {
        if let Body::Noted(noted) = self { &mut noted.1 } else { self }
    }
}
