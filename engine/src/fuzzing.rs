//! The decoder of messages, for `fuzz/` and tests: it is private, since only the engine reads messages.

use crate::ContextId;
use crate::wire::{Eager, Head, MAX_NOTE, MAX_TOLD, Message, Pieces};
use base::protocol::message::READ_FROM;

/// The message that these bytes are, encoded again. `None`: they are none.
pub fn again(body: &[u8]) -> Option<Vec<u8>> {
    Message::decode(body).ok().map(|message| message.encode())
}

/// Messages of every type, as they are on the wire. `context` and `op` stand where one is named.
pub fn samples(context: ContextId, op: u64) -> Vec<Vec<u8>> {
    let head = Head { tag: 5, source: 0, context, op };
    let two: Vec<u8> = [77u64, 4, u64::MAX - 5, 5].into_iter().flat_map(u64::to_le_bytes).collect();
    let pieces = Pieces::new(&two);
    let long: Vec<u8> = [77u64, READ_FROM].into_iter().flat_map(u64::to_le_bytes).collect();
    let all = [
        Message::Eager(Eager { notify: true, head, data: b"abc" }),
        Message::Eager(Eager { notify: false, head: Head { tag: -5, ..head }, data: b"" }),
        Message::NotedEager { note: b"note", eager: Eager { notify: true, head, data: b"abc" } },
        Message::NotedEager { note: &[1; MAX_NOTE], eager: Eager { notify: false, head, data: b"" } },
        Message::Rts { head, size: 1 << 40, begun: 0, note: b"", pieces: Pieces::default(), may_buffer: false },
        Message::Rts { head, size: 9, begun: 0, note: b"", pieces, may_buffer: false },
        Message::Rts { head, size: READ_FROM, begun: 0, note: b"", pieces: Pieces::new(&long), may_buffer: true },
        Message::Rts { head, size: 9, begun: 0, note: b"note", pieces, may_buffer: false },
        Message::Rts { head, size: READ_FROM, begun: 0, note: b"note", pieces: Pieces::new(&long), may_buffer: true },
        Message::Rts { head, size: 9, begun: 4, note: b"", pieces: Pieces::default(), may_buffer: false },
        Message::Rts { head, size: 9, begun: 8, note: b"note", pieces: Pieces::default(), may_buffer: false },
        Message::Cts { sender_op: op, receiver_op: 2, offset: 3, len: 4 },
        Message::Rtr { sender_op: op, receiver_op: 2, offset: 3, len: 9, pieces },
        Message::Atp { receiver_op: op, done: true },
        Message::Done { op, sooner: 5 },
        Message::Credit { envelopes: 500, bytes: 1 << 22 },
        Message::Revoked { context, op },
        Message::Control(b"xy"),
        Message::Bye,
        Message::Ask,
        Message::Tell(&[b'x'; MAX_TOLD]),
    ];
    all.iter().map(Message::encode).collect()
}

/// The numbers of a message that need not be a good one.
#[derive(Clone, Copy, Debug)]
pub struct Numbers {
    /// The inter-communicator that it names.
    pub context: ContextId,
    /// The rank that it says it is of.
    pub source: u32,
    /// Its tag.
    pub tag: i64,
    /// The operation that it names first.
    pub op: u64,
    /// The one that it names second.
    pub other: u64,
    /// The offset of a CTS or an RTR; the size of an RTS; the envelopes of a CREDIT.
    pub at: u64,
    /// The length of a CTS or an RTR; the bytes of a CREDIT.
    pub len: u64,
}

/// A message of the `kind`-th type with these numbers, this note, and these bytes where it has any.
pub fn made(kind: u8, with: Numbers, note: &[u8], bytes: &[u8]) -> Vec<u8> {
    let Numbers { context, source, tag, op, other, at, len } = with;
    let head = Head { tag, source, context, op };
    let eager = Eager { notify: kind & 16 != 0, head, data: bytes };
    let note = &note[..note.len().min(MAX_NOTE)];
    let message = match kind % 14 {
        0 => Message::Eager(eager),
        1 => Message::NotedEager { note, eager },
        2 => Message::Rts { head, size: at, begun: 0, note, pieces: Pieces::default(), may_buffer: false },
        3 => Message::Rts { head, size: at, begun: 0, note, pieces: Pieces::new(bytes), may_buffer: kind & 16 != 0 },
        4 => Message::Cts { sender_op: op, receiver_op: other, offset: at, len },
        5 => Message::Done { op, sooner: at as u8 },
        6 => Message::Credit { envelopes: at, bytes: len },
        7 => Message::Revoked { context, op },
        8 => Message::Control(bytes),
        9 => Message::Bye,
        10 => Message::Ask,
        11 => Message::Rtr { sender_op: op, receiver_op: other, offset: at, len, pieces: Pieces::new(bytes) },
        12 => Message::Atp { receiver_op: op, done: kind & 16 != 0 },
        _ => Message::Tell(bytes),
    };
    message.encode()
}
