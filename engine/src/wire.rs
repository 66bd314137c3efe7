//! The messages of docs/protocol.md, to bytes and back. Only the engine uses it. Decoding is strict.

use crate::ContextId;
use base::bytes::{Malformed, Put, Take};

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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Message<'a> {
    Eager(Eager<'a>),
    Rts { head: Head, size: u64 },
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
        let mut out = Vec::with_capacity(40);
        match *self {
            Message::Eager(Eager { notify, head, data }) => {
                out = EagerHead::new(notify, head).with_room(data.len());
                out.extend_from_slice(data);
            }
            Message::Rts { head, size } => {
                out.extend_from_slice(&head.encode(RTS, 0));
                out.put_u64(size);
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
                Message::Rts { head, size: t.u64()? }
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
        let all = [
            Message::Eager(Eager { notify: true, head, data: b"abc" }),
            Message::Rts { head, size: 1 << 40 },
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
        assert_eq!(Message::decode(&[]), Err(Malformed));
        assert_eq!(Message::decode(&[9]), Err(Malformed));
    }
}
