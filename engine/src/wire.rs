//! The messages of docs/protocol.md, to bytes and back. Only the engine uses it. Decoding is strict.

use crate::ContextId;
use base::bytes::{Malformed, Put, Take};

const NOTIFY: u8 = 1;
/// What stands before the data of an EAGER.
const HEAD: usize = 2 + 8 + 4 + ContextId::BYTES + 8;

/// What EAGER and RTS have in common: the envelope and who sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub tag: i64,
    pub source: u32,
    pub context: ContextId,
    pub op: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Message<'a> {
    Eager { notify: bool, head: Head, data: &'a [u8] },
    Rts { head: Head, size: u64 },
    Cts { sender_op: u64, receiver_op: u64, offset: u64, len: u64 },
    Done { op: u64 },
    Credit { envelopes: u64, bytes: u64 },
    Revoked { context: ContextId, op: u64 },
    Control(&'a [u8]),
    Bye,
}

/// The start of an EAGER, with room for `size` bytes of data that the caller appends.
pub(crate) fn eager(notify: bool, head: Head, size: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEAD + size);
    put_head(&mut out, 1, if notify { NOTIFY } else { 0 }, head);
    out
}

fn put_head(out: &mut Vec<u8>, kind: u8, flags: u8, head: Head) {
    out.put_u8(kind);
    out.put_u8(flags);
    out.put_i64(head.tag);
    out.put_u32(head.source);
    head.context.put(out);
    out.put_u64(head.op);
}

impl Message<'_> {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(40);
        match *self {
            Message::Eager { notify, head, data } => {
                out = eager(notify, head, data.len());
                out.extend_from_slice(data);
            }
            Message::Rts { head, size } => {
                put_head(&mut out, 2, 0, head);
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
                context.put(&mut out);
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
        let mut t = Take(body);
        let message = match t.u8()? {
            1 => {
                let (flags, head) = take_head(&mut t)?;
                if flags & !NOTIFY != 0 {
                    return Err(Malformed);
                }
                return Ok(Message::Eager { notify: flags != 0, head, data: t.rest() });
            }
            2 => {
                let (flags, head) = take_head(&mut t)?;
                if flags != 0 {
                    return Err(Malformed);
                }
                Message::Rts { head, size: t.u64()? }
            }
            3 => Message::Cts { sender_op: t.u64()?, receiver_op: t.u64()?, offset: t.u64()?, len: t.u64()? },
            4 => Message::Done { op: t.u64()? },
            5 => Message::Credit { envelopes: t.u64()?, bytes: t.u64()? },
            6 => Message::Revoked { context: ContextId::take(&mut t)?, op: t.u64()? },
            7 => return Ok(Message::Control(t.rest())),
            8 => Message::Bye,
            _ => return Err(Malformed),
        };
        t.end()?;
        Ok(message)
    }
}

fn take_head(t: &mut Take<'_>) -> Result<(u8, Head), Malformed> {
    let flags = t.u8()?;
    Ok((flags, Head { tag: t.i64()?, source: t.u32()?, context: ContextId::take(t)?, op: t.u64()? }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips_and_refusals() {
        let head = Head { tag: -5, source: 2, context: ContextId::root(3).child(9), op: 4 };
        let all = [
            Message::Eager { notify: true, head, data: b"abc" },
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
            let open_ended = matches!(message, Message::Eager { .. } | Message::Control(_));
            if !open_ended {
                assert_eq!(Message::decode(&bytes[..bytes.len() - 1]), Err(Malformed));
                assert_eq!(Message::decode(&[&bytes[..], &[0]].concat()), Err(Malformed));
            }
        }
        assert_eq!(Message::decode(&[]), Err(Malformed));
        assert_eq!(Message::decode(&[9]), Err(Malformed));
    }
}
