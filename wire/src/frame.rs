//! The 48 bytes in front of everything that travels on a lane (docs/protocol.md, "Frames").
//!
//! Used by paths, which fill headers, and by lanes, which write and read them. Decoding is strict: whatever the
//! protocol does not allow is [`Malformed`], and the lane that said it is dropped.

use base::ProcId;
use base::bytes::{Malformed, Take};
use base::protocol::frame::{ACK, ACK_NOW, BULK, LOST, MSG, PING, PONG, SWITCH, header as at};

pub use base::protocol::frame::{MAX_PAYLOAD, MAX_STRIPES};

/// Length of a header.
pub const HEADER: usize = at::BYTES;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    Msg = MSG,
    Ack = ACK,
    Bulk = BULK,
    Switch = SWITCH,
    /// Of a lane of several streams: between its two ends alone.
    Lost = LOST,
    /// Asks for a sign of life, which PONG is.
    Ping = PING,
    Pong = PONG,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    pub len: u32,
    pub kind: Kind,
    /// The sender asks for an acknowledgement at once.
    pub ack_now: bool,
    pub generation: u16,
    pub source: ProcId,
    pub dest: ProcId,
    /// MSG: sequence. BULK: the receiver's operation. SWITCH: first generation that follows. LOST: number of a stream. PING, PONG:
    /// number of the question.
    pub a: u64,
    /// MSG, ACK, PING, PONG: acknowledged up to. BULK: offset.
    pub b: u64,
}

impl Header {
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

    pub fn decode(bytes: &[u8; HEADER]) -> Result<Header, Malformed> {
        let mut t = Take(bytes);
        let len = t.u32()?;
        let kind = match t.u8()? {
            MSG => Kind::Msg,
            ACK => Kind::Ack,
            BULK => Kind::Bulk,
            SWITCH => Kind::Switch,
            LOST => Kind::Lost,
            PING => Kind::Ping,
            PONG => Kind::Pong,
            _ => return Err(Malformed),
        };
        let flags = t.u8()?;
        let generation = t.u16()?;
        let (from, to) = (t.u64()?, t.u64()?);
        let (source_rank, dest_rank) = (t.u32()?, t.u32()?);
        let (a, b) = (t.u64()?, t.u64()?);
        t.end()?;
        if flags & !ACK_NOW != 0 {
            return Err(Malformed);
        }
        let header = Header {
            len,
            kind,
            ack_now: flags & ACK_NOW != 0,
            generation,
            source: ProcId { incarnation: from, rank: source_rank },
            dest: ProcId { incarnation: to, rank: dest_rank },
            a,
            b,
        };
        if header.is_sound() { Ok(header) } else { Err(Malformed) }
    }

    /// Whether the protocol knows such a frame.
    pub fn is_sound(&self) -> bool {
        let (len, a, b) = (self.len, self.a, self.b);
        let fields_good = match self.kind {
            Kind::Msg => a > 0 && len > 0,
            Kind::Ack => a == 0 && len == 0,
            Kind::Bulk => len > 0 && b.checked_add(u64::from(len)).is_some(),
            Kind::Lost => (1..u64::from(MAX_STRIPES)).contains(&a) && b == 0 && len == 0,
            Kind::Ping | Kind::Pong => a > 0 && len == 0,
            Kind::Switch => a <= u64::from(u16::MAX) && b == 0 && len == 0,
        };
        fields_good && len as usize <= MAX_PAYLOAD
    }
}

/// Whether generation `a` comes before `b`. They wrap around; a path never spans half their range at once.
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
