//! The messages of docs/protocol.md, to bytes and back. Only the engine uses it. Decoding is strict.

use crate::ContextId;
use base::bytes::{Malformed, Put, Take};
use std::io::IoSlice;

const EAGER: u8 = 1;
const RTS: u8 = 2;
const NOTIFY: u8 = 1;
/// What EAGER and RTS begin with: type, flags, and [`Head`] from these places on.
const HEAD: usize = 38;
const TAG: usize = 2;
const SOURCE: usize = 10;
const CONTEXT: usize = 14;
const OP: usize = CONTEXT + ContextId::BYTES;

/// What EAGER and RTS have in common: the envelope and who sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub tag: i64,
    pub source: u32,
    pub context: ContextId,
    pub op: u64,
}

/// A message with its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Eager<'a> {
    /// The sender is told when it is matched.
    pub notify: bool,
    pub head: Head,
    pub data: &'a [u8],
}

/// More pieces than this are not described.
pub(crate) const MOST_DESCRIBED: usize = 64;
const PIECE: usize = 16;

/// Where the data of an RTS lies in the sender's memory, as it is on the wire: (address, length) of each piece, or nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pieces<'a>(&'a [u8]);

impl<'a> Pieces<'a> {
    /// What follows the size in an RTS: the pieces are the whole message, and none is empty.
    fn decode(bytes: &'a [u8], size: u64) -> Result<Pieces<'a>, Malformed> {
        let pieces = Pieces(bytes);
        let whole = pieces.iter().try_fold(0u64, |sum, (at, len)| {
            at.checked_add(len).ok_or(Malformed)?;
            if len == 0 { Err(Malformed) } else { sum.checked_add(len).ok_or(Malformed) }
        })?;
        let good = bytes.len().is_multiple_of(PIECE) && bytes.len() <= MOST_DESCRIBED * PIECE && whole == size;
        if bytes.is_empty() || good { Ok(pieces) } else { Err(Malformed) }
    }

    pub fn iter(self) -> impl Iterator<Item = (u64, u64)> {
        self.0.chunks_exact(PIECE).map(|piece| {
            let (at, len) = piece.split_at(PIECE / 2);
            let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
            (number(at), number(len))
        })
    }

    /// The pieces as they are on the wire.
    pub fn encode(pieces: &[IoSlice<'_>]) -> Vec<u8> {
        let mut out = Vec::with_capacity(pieces.len() * PIECE);
        for piece in pieces {
            out.put_u64(piece.as_ptr() as u64);
            out.put_u64(piece.len() as u64);
        }
        out
    }

    pub fn new(bytes: &'a [u8]) -> Pieces<'a> {
        Pieces(bytes)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Message<'a> {
    Eager(Eager<'a>),
    Rts { head: Head, size: u64, pieces: Pieces<'a> },
    Cts { sender_op: u64, receiver_op: u64, offset: u64, len: u64 },
    Done { op: u64 },
    Credit { envelopes: u64, bytes: u64 },
    Revoked { context: ContextId, op: u64 },
    Control(&'a [u8]),
    Bye,
}

/// What stands before the data of an EAGER.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EagerHead([u8; EagerHead::BYTES]);

impl EagerHead {
    pub const BYTES: usize = HEAD;

    pub(crate) fn new(notify: bool, head: Head) -> EagerHead {
        EagerHead(head.encode(EAGER, if notify { NOTIFY } else { 0 }))
    }

    pub fn bytes(&self) -> &[u8; EagerHead::BYTES] {
        &self.0
    }

    /// The start of the whole body, with room for `size` bytes of data that the caller appends.
    pub fn with_room(&self, size: usize) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEAD + size);
        out.extend_from_slice(&self.0);
        out
    }
}

impl Head {
    fn encode(self, kind: u8, flags: u8) -> [u8; HEAD] {
        let mut out = [0; HEAD];
        (out[0], out[1]) = (kind, flags);
        out[TAG..SOURCE].copy_from_slice(&self.tag.to_le_bytes());
        out[SOURCE..CONTEXT].copy_from_slice(&self.source.to_le_bytes());
        out[CONTEXT..OP].copy_from_slice(&self.context.to_bytes());
        out[OP..].copy_from_slice(&self.op.to_le_bytes());
        out
    }

    /// The flags, the head, and what follows it.
    #[inline]
    fn decode(body: &[u8]) -> Result<(u8, Head, &[u8]), Malformed> {
        let (head, rest) = body.split_first_chunk::<HEAD>().ok_or(Malformed)?;
        let found = Head {
            tag: i64::from_le_bytes(field(head, TAG)),
            source: u32::from_le_bytes(field(head, SOURCE)),
            context: ContextId::from_bytes(field(head, CONTEXT)),
            op: u64::from_le_bytes(field(head, OP)),
        };
        Ok((head[1], found, rest))
    }
}

impl Eager<'_> {
    /// `None`: it is another message.
    #[inline]
    pub fn decode(body: &[u8]) -> Result<Option<Eager<'_>>, Malformed> {
        if body.first() != Some(&EAGER) {
            return Ok(None);
        }
        let (flags, head, data) = Head::decode(body)?;
        if flags & !NOTIFY != 0 {
            return Err(Malformed);
        }
        Ok(Some(Eager { notify: flags != 0, head, data }))
    }
}

#[inline]
fn field<const N: usize>(head: &[u8; HEAD], at: usize) -> [u8; N] {
    head[at..at + N].try_into().expect("N bytes")
}

impl Message<'_> {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(match *self {
            Message::Eager(eager) => HEAD + eager.data.len(),
            Message::Rts { pieces, .. } => HEAD + 8 + pieces.0.len(),
            _ => 40,
        });
        match *self {
            Message::Eager(Eager { notify, head, data }) => {
                out.extend_from_slice(EagerHead::new(notify, head).bytes());
                out.extend_from_slice(data);
            }
            Message::Rts { head, size, pieces } => {
                out.extend_from_slice(&head.encode(RTS, 0));
                out.put_u64(size);
                out.extend_from_slice(pieces.0);
            }
            Message::Cts { sender_op, receiver_op, offset, len } => {
                out.put_u8(3);
                for field in [sender_op, receiver_op, offset, len] {
                    out.put_u64(field);
                }
            }
            Message::Done { op } => {
                out.put_u8(4);
                out.put_u64(op);
            }
            Message::Credit { envelopes, bytes } => {
                out.put_u8(5);
                out.put_u64(envelopes);
                out.put_u64(bytes);
            }
            Message::Revoked { context, op } => {
                out.put_u8(6);
                out.extend_from_slice(&context.to_bytes());
                out.put_u64(op);
            }
            Message::Control(bytes) => {
                out.put_u8(7);
                out.extend_from_slice(bytes);
            }
            Message::Bye => out.put_u8(8),
        }
        out
    }

    pub fn decode(body: &[u8]) -> Result<Message<'_>, Malformed> {
        if let Some(eager) = Eager::decode(body)? {
            return Ok(Message::Eager(eager));
        }
        let mut t = Take(body);
        let message = match t.u8()? {
            RTS => {
                let (flags, head, rest) = Head::decode(body)?;
                if flags != 0 {
                    return Err(Malformed);
                }
                t = Take(rest);
                let size = t.u64()?;
                let pieces = Pieces::decode(t.rest(), size)?;
                return Ok(Message::Rts { head, size, pieces });
            }
            3 => Message::Cts { sender_op: t.u64()?, receiver_op: t.u64()?, offset: t.u64()?, len: t.u64()? },
            4 => Message::Done { op: t.u64()? },
            5 => Message::Credit { envelopes: t.u64()?, bytes: t.u64()? },
            6 => Message::Revoked { context: ContextId::from_bytes(t.array()?), op: t.u64()? },
            7 => return Ok(Message::Control(t.rest())),
            8 => Message::Bye,
            _ => return Err(Malformed),
        };
        t.end()?;
        Ok(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips_and_refusals() {
        let head = Head { tag: -5, source: 2, context: ContextId::root(3).child(9), op: 4 };
        let two: Vec<u8> = [77u64, 4, u64::MAX - 5, 5].into_iter().flat_map(u64::to_le_bytes).collect();
        let all = [
            Message::Eager(Eager { notify: true, head, data: b"abc" }),
            Message::Rts { head, size: 1 << 40, pieces: Pieces::default() },
            Message::Rts { head, size: 9, pieces: Pieces(&two) },
            Message::Cts { sender_op: 1, receiver_op: 2, offset: 3, len: 4 },
            Message::Done { op: 9 },
            Message::Credit { envelopes: 5, bytes: 6 },
            Message::Revoked { context: ContextId::root(7), op: 8 },
            Message::Control(b"xy"),
            Message::Bye,
        ];
        for message in all {
            let bytes = message.encode();
            assert_eq!(Message::decode(&bytes), Ok(message));
            let open_ended = matches!(message, Message::Eager(_) | Message::Control(_));
            if !open_ended {
                assert_eq!(Message::decode(&bytes[..bytes.len() - 1]), Err(Malformed));
                assert_eq!(Message::decode(&[&bytes[..], &[0]].concat()), Err(Malformed));
            }
        }
        for (numbers, size) in [
            (vec![1u64, 4], 5),
            (vec![1, 0, 1, 5], 5),
            (vec![u64::MAX, 5], 5),
            (vec![1, u64::MAX - 1, 1, 6], 4),
            ([1, 1].repeat(65), 65),
        ] {
            let bytes: Vec<u8> = numbers.into_iter().flat_map(u64::to_le_bytes).collect();
            let message = Message::Rts { head, size, pieces: Pieces(&bytes) };
            assert_eq!(Message::decode(&message.encode()), Err(Malformed), "{message:?}");
        }
        assert_eq!(Message::decode(&[]), Err(Malformed));
        assert_eq!(Message::decode(&[9]), Err(Malformed));
    }
}
