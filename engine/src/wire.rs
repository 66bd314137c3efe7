//! The messages of docs/protocol.md, to bytes and back. Used by the engine only. Decoding is strict.

use crate::ContextId;
use crate::arrived::Described;
use base::bytes::{Malformed, Put, Take};
use base::protocol::message::head::{CONTEXT, OP, SOURCE, TAG};
use base::protocol::message::{
    ASK, ATP, BEGUN, BYE, CAME_EARLY, CONTROL, CREDIT, CTS, DONE, EAGER, IN_ONE, MAY_BUFFER, NOTED, NOTIFY, PIECE,
    READ_FROM, READ_SIZES, READ_UP_TO, REVOKED, RTR, RTS, TELL, head as at,
};

pub(crate) use base::protocol::message::MOST_DESCRIBED;
pub use base::protocol::message::{MAX_NOTE, MAX_TOLD};

/// Bytes of the head of EAGER and RTS: type, flags, and [`Head`].
const HEAD: usize = at::BYTES;

/// What EAGER and RTS have in common: the envelope, and the sender's operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub tag: i64,
    pub source: u32,
    pub context: ContextId,
    pub op: u64,
}

/// An EAGER without a note.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Eager<'a> {
    /// The sender is to be told of the match.
    pub notify: bool,
    pub head: Head,
    pub data: &'a [u8],
}

/// Where data lies in a process's memory: address and length of each piece. No piece in an RTS whose sender does not tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pieces<'a> {
    One(u64, u64),
    /// No piece, or several, as they are on the wire.
    Listed(&'a [u8]),
}

impl Default for Pieces<'_> {
    fn default() -> Self {
        Pieces::Listed(&[])
    }
}

impl<'a> Pieces<'a> {
    /// [`Malformed`] unless there are no pieces, or they are as long as the message and none is empty.
    fn checked(self, size: u64) -> Result<Pieces<'a>, Malformed> {
        let whole = self.iter().try_fold(0u64, |sum, (at, len)| {
            at.checked_add(len).ok_or(Malformed)?;
            if len == 0 { Err(Malformed) } else { sum.checked_add(len).ok_or(Malformed) }
        })?;
        let bytes = self.bytes();
        let good = bytes.is_multiple_of(PIECE) && bytes <= MOST_DESCRIBED * PIECE && whole == size;
        if bytes == 0 || good { Ok(self) } else { Err(Malformed) }
    }

    /// Pieces as they are on the wire.
    pub fn new(bytes: &'a [u8]) -> Pieces<'a> {
        let number = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        match (number(0), number(8)) {
            (Some(at), Some(len)) if bytes.len() == PIECE => Pieces::One(at, len),
            _ => Pieces::Listed(bytes),
        }
    }

    pub fn iter(self) -> impl Iterator<Item = (u64, u64)> {
        let (one, listed) = match self {
            Pieces::One(at, len) => (Some((at, len)), &[][..]),
            Pieces::Listed(bytes) => (None, bytes),
        };
        let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
        let listed = listed.chunks_exact(PIECE).map(move |piece| {
            let (at, len) = piece.split_at(PIECE / 2);
            (number(at), number(len))
        });
        one.into_iter().chain(listed)
    }

    fn bytes(self) -> usize {
        if let Pieces::Listed(bytes) = self { bytes.len() } else { PIECE }
    }

    /// As they are kept.
    pub fn described(self) -> Described {
        match self {
            Pieces::One(at, len) => Described::One([(at, len)]),
            Pieces::Listed(_) => Described::Several(self.iter().collect()),
        }
    }

    /// Appends the pieces as they are on the wire.
    pub fn encode(pieces: impl Iterator<Item = (u64, u64)>, out: &mut impl Put) {
        for (at, len) in pieces {
            out.put_u64(at);
            out.put_u64(len);
        }
    }
}

/// A message: the body of a MSG frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Message<'a> {
    Eager(Eager<'a>),
    NotedEager {
        note: &'a [u8],
        eager: Eager<'a>,
    },
    /// An empty note stands for none.
    Rts {
        head: Head,
        size: u64,
        /// So many first bytes follow at once. 0: none.
        begun: u64,
        note: &'a [u8],
        pieces: Pieces<'a>,
        /// The receiver may read the data before a receive matches.
        may_buffer: bool,
    },
    Cts {
        sender_op: u64,
        receiver_op: u64,
        offset: u64,
        len: u64,
    },
    /// The receiver would have this range written to its memory, at these pieces. Without pieces it cannot be.
    Rtr {
        sender_op: u64,
        receiver_op: u64,
        offset: u64,
        len: u64,
        pieces: Pieces<'a>,
    },
    /// The answer.
    Atp {
        receiver_op: u64,
        done: bool,
    },
    /// `sooner`: the sizes of messages that the receiver reads sooner from the sender's memory, or CAME_EARLY.
    Done {
        op: u64,
        sooner: u8,
    },
    Credit {
        envelopes: u64,
        bytes: u64,
    },
    Revoked {
        context: ContextId,
        op: u64,
    },
    Control(&'a [u8]),
    Bye,
    Ask,
    Tell(&'a [u8]),
}

/// The head of an EAGER, in front of the data.
// Its bytes are made where they stay: bytes that are copied at once after they were written cost more than all else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EagerHead {
    flags: u8,
    head: Head,
}

impl EagerHead {
    /// Bytes of the head.
    pub const BYTES: usize = HEAD;

    pub(crate) fn new(notify: bool, head: Head) -> EagerHead {
        EagerHead { flags: if notify { NOTIFY } else { 0 }, head }
    }

    /// The head as it is on the wire.
    pub fn bytes(&self) -> [u8; EagerHead::BYTES] {
        self.head.encode(EAGER, self.flags)
    }

    /// Writes the head as it is on the wire.
    #[inline(always)]
    pub fn write(&self, out: &mut [u8; EagerHead::BYTES]) {
        self.head.write(EAGER, self.flags, out);
    }

    /// The head, as the beginning of a body with capacity for `size` bytes of data. The caller appends them.
    pub fn with_room(&self, size: usize) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEAD + size);
        out.extend_from_slice(&self.bytes());
        out
    }

    /// As [`EagerHead::with_room`], with a note behind the head.
    pub(crate) fn noted(&self, note: &[u8], size: usize) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEAD + 2 + note.len() + size);
        self.put_noted(note, &mut out);
        out
    }

    fn put_noted(&self, note: &[u8], out: &mut impl Put) {
        out.put_raw(&self.head.encode(EAGER, self.flags | NOTED));
        put_note(out, note);
    }
}

fn put_note(out: &mut impl Put, note: &[u8]) {
    out.put_u16(note.len() as u16);
    out.put_raw(note);
}

/// A message of at most [`Short::MOST`] bytes, in place.
#[derive(Clone, Copy, Debug)]
pub struct Short {
    bytes: [u8; Short::MOST],
    len: usize,
}

impl Short {
    /// An RTS without a note, of data in one piece. It fits into a cache line with what a lane over shared memory writes beside it.
    const MOST: usize = HEAD + 16;

    /// A message that is known to be short.
    #[inline(always)]
    pub(crate) fn new(message: &Message<'_>) -> Short {
        let mut short = Short { bytes: [0; Short::MOST], len: 0 };
        message.encode_to(&mut short);
        short
    }
}

impl Put for Short {
    #[inline(always)]
    fn put_raw(&mut self, v: &[u8]) {
        self.bytes[self.len..][..v.len()].copy_from_slice(v);
        self.len += v.len();
    }
}

impl AsRef<[u8]> for Short {
    #[inline(always)]
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl From<Short> for Vec<u8> {
    fn from(short: Short) -> Vec<u8> {
        short.as_ref().to_vec()
    }
}

/// A note, and what follows it. An empty note is malformed.
fn split_note(rest: &[u8]) -> Result<(&[u8], &[u8]), Malformed> {
    let (len, rest) = rest.split_first_chunk::<2>().ok_or(Malformed)?;
    let len = u16::from_le_bytes(*len) as usize;
    if (1..=MAX_NOTE).contains(&len) { rest.split_at_checked(len).ok_or(Malformed) } else { Err(Malformed) }
}

impl Head {
    fn encode(self, kind: u8, flags: u8) -> [u8; HEAD] {
        let mut out = [0; HEAD];
        self.write(kind, flags, &mut out);
        out
    }

    #[inline(always)]
    fn write(self, kind: u8, flags: u8, out: &mut [u8; HEAD]) {
        (out[at::TYPE], out[at::FLAGS]) = (kind, flags);
        out[TAG..SOURCE].copy_from_slice(&self.tag.to_le_bytes());
        out[SOURCE..CONTEXT].copy_from_slice(&self.source.to_le_bytes());
        out[CONTEXT..OP].copy_from_slice(&self.context.to_bytes());
        out[OP..].copy_from_slice(&self.op.to_le_bytes());
    }

    /// The flags, the head, and the bytes that follow it.
    #[inline(always)]
    fn decode(body: &[u8]) -> Result<(u8, Head, &[u8]), Malformed> {
        let (head, rest) = body.split_first_chunk::<HEAD>().ok_or(Malformed)?;
        let found = Head {
            tag: i64::from_le_bytes(field(head, TAG)),
            source: u32::from_le_bytes(field(head, SOURCE)),
            context: ContextId::from_bytes(field(head, CONTEXT)),
            op: u64::from_le_bytes(field(head, OP)),
        };
        Ok((head[at::FLAGS], found, rest))
    }
}

impl Eager<'_> {
    /// `None` if it is another message, or has a note.
    #[inline]
    pub fn decode(body: &[u8]) -> Result<Option<Eager<'_>>, Malformed> {
        if body.first() != Some(&EAGER) {
            return Ok(None);
        }
        let (flags, head, data) = Head::decode(body)?;
        if flags & !NOTIFY != 0 {
            return if flags & !(NOTIFY | NOTED) == 0 { Ok(None) } else { Err(Malformed) };
        }
        Ok(Some(Eager { notify: flags != 0, head, data }))
    }

    /// The head and the data of an EAGER without flags; `None` if it is another message.
    #[inline(always)]
    pub fn decode_plain(body: &[u8]) -> Option<(Head, &[u8])> {
        match Head::decode(body) {
            Ok((0, head, data)) if body[at::TYPE] == EAGER => Some((head, data)),
            _ => None,
        }
    }

    /// An EAGER with a note.
    fn decode_noted(body: &[u8]) -> Result<Message<'_>, Malformed> {
        let (flags, head, rest) = Head::decode(body)?;
        let (note, data) = split_note(rest)?;
        Ok(Message::NotedEager { note, eager: Eager { notify: flags & NOTIFY != 0, head, data } })
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
            Message::NotedEager { note, eager } => HEAD + 2 + note.len() + eager.data.len(),
            Message::Rts { note, pieces, .. } => HEAD + 18 + note.len() + pieces.bytes(),
            Message::Rtr { pieces, .. } => 40 + pieces.bytes(),
            _ => 40,
        });
        self.encode_to(&mut out);
        out
    }

    // Inlined, so that of a known message nothing is left but its stores.
    #[inline(always)]
    fn encode_to(&self, out: &mut impl Put) {
        match *self {
            Message::Eager(Eager { notify, head, data }) => {
                out.put_raw(&EagerHead::new(notify, head).bytes());
                out.put_raw(data);
            }
            Message::NotedEager { note, eager: Eager { notify, head, data } } => {
                EagerHead::new(notify, head).put_noted(note, out);
                out.put_raw(data);
            }
            Message::Rts { head, size, begun, note, pieces, may_buffer } => {
                let in_one = matches!(pieces, Pieces::One(..));
                let flags = [(!note.is_empty(), NOTED), (may_buffer, MAY_BUFFER), (in_one, IN_ONE), (begun > 0, BEGUN)];
                let flags = flags.into_iter().fold(0, |all, (on, flag)| if on { all | flag } else { all });
                out.put_raw(&head.encode(RTS, flags));
                out.put_u64(size);
                if begun > 0 {
                    out.put_u64(begun);
                }
                if !note.is_empty() {
                    put_note(out, note);
                }
                match pieces {
                    Pieces::One(at, _) => out.put_u64(at),
                    Pieces::Listed(bytes) => out.put_raw(bytes),
                }
            }
            Message::Cts { sender_op, receiver_op, offset, len } => {
                out.put_u8(CTS);
                for field in [sender_op, receiver_op, offset, len] {
                    out.put_u64(field);
                }
            }
            Message::Rtr { sender_op, receiver_op, offset, len, pieces } => {
                out.put_u8(RTR);
                for field in [sender_op, receiver_op, offset, len] {
                    out.put_u64(field);
                }
                Pieces::encode(pieces.iter(), out);
            }
            Message::Atp { receiver_op, done } => {
                out.put_u8(ATP);
                out.put_u64(receiver_op);
                out.put_u8(done.into());
            }
            Message::Done { op, sooner } => {
                out.put_u8(DONE);
                out.put_u64(op);
                out.put_u8(sooner);
            }
            Message::Credit { envelopes, bytes } => {
                out.put_u8(CREDIT);
                out.put_u64(envelopes);
                out.put_u64(bytes);
            }
            Message::Revoked { context, op } => {
                out.put_u8(REVOKED);
                out.put_raw(&context.to_bytes());
                out.put_u64(op);
            }
            Message::Control(bytes) => {
                out.put_u8(CONTROL);
                out.put_raw(bytes);
            }
            Message::Bye => out.put_u8(BYE),
            Message::Ask => out.put_u8(ASK),
            Message::Tell(bytes) => {
                out.put_u8(TELL);
                out.put_raw(bytes);
            }
        }
    }

    pub fn decode(body: &[u8]) -> Result<Message<'_>, Malformed> {
        if let Some(eager) = Eager::decode(body)? {
            return Ok(Message::Eager(eager));
        }
        let mut t = Take(body);
        let message = match t.u8()? {
            EAGER => return Eager::decode_noted(body),
            RTS => {
                let (flags, head, rest) = Head::decode(body)?;
                if flags & !(NOTED | MAY_BUFFER | IN_ONE | BEGUN) != 0 {
                    return Err(Malformed);
                }
                t = Take(rest);
                let size = t.u64()?;
                let is_begun = flags & BEGUN != 0;
                let begun = if is_begun { t.u64()? } else { 0 };
                let (note, rest) = if flags & NOTED == 0 { (&[][..], t.rest()) } else { split_note(t.rest())? };
                let pieces = match rest.try_into() {
                    Ok(at) if flags & IN_ONE != 0 => Pieces::One(u64::from_le_bytes(at), size).checked(size)?,
                    // One piece that is listed would be the same in other words.
                    _ if flags & IN_ONE != 0 || rest.len() == PIECE => return Err(Malformed),
                    _ => Pieces::new(rest).checked(size)?,
                };
                let may_buffer = flags & MAY_BUFFER != 0;
                if may_buffer && (rest.is_empty() || !(READ_FROM..=READ_UP_TO).contains(&size)) {
                    return Err(Malformed);
                }
                if is_begun && !(rest.is_empty() && (1..size).contains(&begun)) {
                    return Err(Malformed);
                }
                return Ok(Message::Rts { head, size, begun, note, pieces, may_buffer });
            }
            CTS => Message::Cts { sender_op: t.u64()?, receiver_op: t.u64()?, offset: t.u64()?, len: t.u64()? },
            RTR => {
                let (sender_op, receiver_op, offset, len) = (t.u64()?, t.u64()?, t.u64()?, t.u64()?);
                let pieces = Pieces::new(t.rest()).checked(len)?;
                return Ok(Message::Rtr { sender_op, receiver_op, offset, len, pieces });
            }
            ATP => {
                let (receiver_op, done) = (t.u64()?, t.u8()?);
                if done > 1 {
                    return Err(Malformed);
                }
                Message::Atp { receiver_op, done: done == 1 }
            }
            DONE => {
                let (op, sooner) = (t.u64()?, t.u8()?);
                if sooner >> READ_SIZES != 0 && sooner != CAME_EARLY {
                    return Err(Malformed);
                }
                Message::Done { op, sooner }
            }
            CREDIT => Message::Credit { envelopes: t.u64()?, bytes: t.u64()? },
            REVOKED => Message::Revoked { context: ContextId::from_bytes(t.array()?), op: t.u64()? },
            CONTROL => return Ok(Message::Control(t.rest())),
            BYE => Message::Bye,
            ASK => Message::Ask,
            TELL => {
                let bytes = t.rest();
                return if bytes.len() <= MAX_TOLD { Ok(Message::Tell(bytes)) } else { Err(Malformed) };
            }
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
        for bytes in crate::fuzzing::samples(head.context, 4) {
            let message = Message::decode(&bytes).unwrap();
            assert_eq!(message.encode(), bytes);
            let open_ended = matches!(
                message,
                Message::Eager(_) | Message::NotedEager { .. } | Message::Control(_) | Message::Tell(_)
            );
            if !open_ended {
                assert_eq!(Message::decode(&bytes[..bytes.len() - 1]), Err(Malformed));
                assert_eq!(Message::decode(&[&bytes[..], &[0]].concat()), Err(Malformed));
            }
        }
        for (numbers, size) in [
            (vec![1u64, 2, 9, 2], 5),
            (vec![1, 0], 0),
            (vec![1, 0, 1, 5], 5),
            (vec![u64::MAX, 5], 5),
            (vec![1, u64::MAX - 1, 1, 6], 4),
            ([1, 1].repeat(65), 65),
        ] {
            let bytes: Vec<u8> = numbers.into_iter().flat_map(u64::to_le_bytes).collect();
            let message =
                Message::Rts { head, size, begun: 0, note: b"", pieces: Pieces::new(&bytes), may_buffer: false };
            assert_eq!(Message::decode(&message.encode()), Err(Malformed), "{message:?}");
        }
        // One piece is not listed.
        let mut listed =
            Message::Rts { head, size: 5, begun: 0, note: b"", pieces: Pieces::One(1, 5), may_buffer: false }.encode();
        listed[at::FLAGS] = 0;
        listed.put_u64(5);
        assert_eq!(Message::decode(&listed), Err(Malformed));
        // What may be buffered lies somewhere, and could go eager.
        let at = |size: u64| [1, size].map(u64::to_le_bytes).concat();
        for (size, bytes, fine) in [
            (READ_FROM, at(READ_FROM), true),
            (READ_FROM - 1, at(READ_FROM - 1), false),
            (READ_UP_TO, at(READ_UP_TO), true),
            (READ_UP_TO + 1, at(READ_UP_TO + 1), false),
            (READ_UP_TO, Vec::new(), false),
        ] {
            let message =
                Message::Rts { head, size, begun: 0, note: b"", pieces: Pieces::new(&bytes), may_buffer: true };
            assert_eq!(Message::decode(&message.encode()).is_ok(), fine, "{size}");
        }
        // Not the whole follows at once, and only of what lies nowhere that is told.
        for (size, begun, pieces, fine) in
            [(9, 8, Pieces::default(), true), (9, 9, Pieces::default(), false), (9, 1, Pieces::One(1, 9), false)]
        {
            let mut bytes = Message::Rts { head, size, begun, note: b"", pieces, may_buffer: false }.encode();
            assert_eq!(Message::decode(&bytes).is_ok(), fine, "{begun} of {size}");
            bytes[HEAD + 8..HEAD + 16].fill(0);
            assert_eq!(Message::decode(&bytes), Err(Malformed), "none");
        }
        // A note that is empty, too long or cut short, and an unknown flag.
        let eager =
            Message::NotedEager { note: &[1; MAX_NOTE], eager: Eager { notify: true, head, data: b"" } }.encode();
        for len in [0, MAX_NOTE as u16 + 1] {
            let mut wrong = [&eager[..], b"more"].concat();
            wrong[HEAD..HEAD + 2].copy_from_slice(&len.to_le_bytes());
            assert_eq!(Message::decode(&wrong), Err(Malformed), "{len}");
        }
        assert_eq!(Message::decode(&eager[..eager.len() - 1]), Err(Malformed));
        let mut wrong = eager;
        wrong[1] = 8;
        assert_eq!(Message::decode(&wrong), Err(Malformed));
        assert_eq!(Message::decode(&[]), Err(Malformed));
        assert_eq!(Message::decode(&[11]), Err(Malformed));
        assert_eq!(Message::decode(&[10; MAX_TOLD + 2]), Err(Malformed));
    }
}
