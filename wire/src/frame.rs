//! The header of 48 bytes in front of each frame on a lane (docs/protocol.md, "Frames").
//!
//! Paths fill headers, and lanes write and read them. Decoding is strict: what the protocol does not allow is
//! [`Malformed`], and the lane that carried it is dropped.

use base::ProcId;
use base::bytes::Malformed;
use base::protocol::frame::{ACK, ACK_NOW, BULK, LOST, MSG, PING, PONG, SWITCH, header as at};

pub use base::protocol::frame::{AWAY, HEARD, MAX_PAYLOAD, MAX_STRIPES};

/// Bytes of a header.
pub const HEADER: usize = at::BYTES;

/// The kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// First class: one message body with a sequence. It is delivered once and in order, whatever lane carries it.
    Msg = MSG,
    /// An acknowledgement alone.
    Ack = ACK,
    /// Second class: data of a rendezvous, addressed by the receiver's operation and an offset. It has no sequence and
    /// is not retained.
    Bulk = BULK,
    /// The sender's last frame on this lane: it goes on with a newer one.
    Switch = SWITCH,
    /// One stream of a lane of several has died. The two ends of such a lane exchange it; no path sees it.
    Lost = LOST,
    /// Asks for a sign of life. The answer is PONG.
    Ping = PING,
    /// The answer to PING, with its number.
    Pong = PONG,
}

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Bytes of payload that follow the header, at most [`MAX_PAYLOAD`].
    pub len: u32,
    /// What the frame is.
    pub kind: Kind,
    /// The sender asks for an acknowledgement at once.
    pub ack_now: bool,
    /// The generation of the lane. A path drops frames of older generations than it accepts.
    pub generation: u16,
    /// The process that the frame comes from.
    pub source: ProcId,
    /// The process that the frame is for.
    pub dest: ProcId,
    /// MSG: sequence, from 1. BULK: the receiver's operation. SWITCH: the generation of the next lane, [`AWAY`] or [`HEARD`]. LOST: the number
    /// of the stream. PING, PONG: the number of the question, from 1. ACK: 0.
    pub a: u64,
    /// MSG, ACK, PING, PONG: the highest sequence up to which all have arrived. BULK: offset in the packed message, in
    /// bytes. Otherwise 0.
    pub b: u64,
}

impl Header {
    /// The header as it is on the wire. It is not checked: see [`Header::is_sound`].
    pub fn encode(&self) -> [u8; HEADER] {
        let mut out = [0; HEADER];
        out[at::LEN..at::KIND].copy_from_slice(&self.len.to_le_bytes());
        out[at::KIND] = self.kind as u8;
        out[at::FLAGS] = if self.ack_now { ACK_NOW } else { 0 };
        out[at::GENERATION..at::SOURCE].copy_from_slice(&self.generation.to_le_bytes());
        out[at::SOURCE..at::DEST].copy_from_slice(&self.source.incarnation.to_le_bytes());
        out[at::DEST..at::SOURCE_RANK].copy_from_slice(&self.dest.incarnation.to_le_bytes());
        out[at::SOURCE_RANK..at::DEST_RANK].copy_from_slice(&self.source.rank.to_le_bytes());
        out[at::DEST_RANK..at::A].copy_from_slice(&self.dest.rank.to_le_bytes());
        out[at::A..at::B].copy_from_slice(&self.a.to_le_bytes());
        out[at::B..].copy_from_slice(&self.b.to_le_bytes());
        out
    }

    /// The header that these bytes are. [`Malformed`] if its kind or a flag is not known, or if it is not sound.
    #[inline]
    pub fn decode(bytes: &[u8; HEADER]) -> Result<Header, Malformed> {
        // All places are constants, so nothing is left to be checked.
        fn number<const N: usize>(bytes: &[u8; HEADER], at: usize) -> [u8; N] {
            *bytes[at..].first_chunk().expect("a field is within the header")
        }
        let u32_at = |at| u32::from_le_bytes(number(bytes, at));
        let u64_at = |at| u64::from_le_bytes(number(bytes, at));
        let kind = match bytes[at::KIND] {
            MSG => Kind::Msg,
            ACK => Kind::Ack,
            BULK => Kind::Bulk,
            SWITCH => Kind::Switch,
            LOST => Kind::Lost,
            PING => Kind::Ping,
            PONG => Kind::Pong,
            _ => return Err(Malformed),
        };
        let flags = bytes[at::FLAGS];
        if flags & !ACK_NOW != 0 {
            return Err(Malformed);
        }
        let header = Header {
            len: u32_at(at::LEN),
            kind,
            ack_now: flags & ACK_NOW != 0,
            generation: u16::from_le_bytes(number(bytes, at::GENERATION)),
            source: ProcId { incarnation: u64_at(at::SOURCE), rank: u32_at(at::SOURCE_RANK) },
            dest: ProcId { incarnation: u64_at(at::DEST), rank: u32_at(at::DEST_RANK) },
            a: u64_at(at::A),
            b: u64_at(at::B),
        };
        if header.is_sound() { Ok(header) } else { Err(Malformed) }
    }

    /// Whether the protocol allows this length and these values of `a` and `b` for the kind.
    #[inline]
    pub fn is_sound(&self) -> bool {
        let (len, a, b) = (self.len, self.a, self.b);
        let fields_good = match self.kind {
            Kind::Msg => a > 0 && len > 0,
            Kind::Ack => a == 0 && len == 0,
            Kind::Bulk => len > 0 && b.checked_add(u64::from(len)).is_some(),
            Kind::Lost => (1..u64::from(MAX_STRIPES)).contains(&a) && b == 0 && len == 0,
            Kind::Ping | Kind::Pong => a > 0 && len == 0,
            Kind::Switch => a <= HEARD && b == 0 && len == 0,
        };
        fields_good && len as usize <= MAX_PAYLOAD
    }
}

/// Whether generation `a` comes before `b`. Generations wrap around; a path never uses more than half of their range at
/// once.
pub fn older(a: u16, b: u16) -> bool {
    (a.wrapping_sub(b) as i16) < 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(kind: Kind) -> Header {
        Header {
            len: 100,
            kind,
            ack_now: true,
            generation: 0x0102,
            source: ProcId { incarnation: 3, rank: 4 },
            dest: ProcId { incarnation: 5, rank: 6 },
            a: 7,
            b: 8,
        }
    }

    #[test]
    fn layout_and_round_trip() {
        let bytes = sample(Kind::Bulk).encode();
        assert_eq!(bytes[..8], [100, 0, 0, 0, 3, 1, 2, 1]);
        assert_eq!((bytes[8], bytes[16], bytes[24], bytes[28]), (3, 5, 4, 6));
        assert_eq!((bytes[32], bytes[40]), (7, 8));
        assert_eq!(Header::decode(&bytes), Ok(sample(Kind::Bulk)));
    }

    #[test]
    fn nonsense_is_refused() {
        let good = sample(Kind::Msg).encode();
        for (at, value) in [(4, 0), (4, 5), (5, 2), (2, 0x11), (4, 2), (4, 4), (4, 6), (4, 7), (4, 9)] {
            let mut bad = good;
            bad[at] = value;
            assert_eq!(Header::decode(&bad), Err(Malformed), "byte {at} = {value}");
        }
        let zero_sequence = Header { a: 0, ..sample(Kind::Msg) };
        assert_eq!(Header::decode(&zero_sequence.encode()), Err(Malformed));
        let past_the_end = Header { b: u64::MAX, ..sample(Kind::Bulk) };
        assert_eq!(Header::decode(&past_the_end.encode()), Err(Malformed));
    }

    #[test]
    fn generations_wrap() {
        assert!(older(1, 2) && !older(2, 1) && !older(2, 2) && older(u16::MAX, 0));
    }
}
