//! Contact records: which transports reach a process, and what each needs to know to dial it.
//!
//! Used by naming records, set-up messages and the session. Only a transport reads what it wrote. Invariant: a record never
//! holds more than [`MAX_ENTRIES`] entries of at most [`MAX_ENTRY`] bytes.

use crate::TransportId;
use base::bytes::{Malformed, Put, Take};
use base::protocol::contact::RECORD;
use serde::{Deserialize, Serialize};

pub use base::protocol::contact::{MAX_ENTRIES, MAX_ENTRY};

/// What others need to know to dial a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contact {
    /// Random, one per process: who answers elsewhere is somebody else. Zero: not known.
    pub process: [u8; 16],
    /// Equal for processes that share a kernel and a network namespace; zero if unknown.
    pub host: [u8; 16],
    /// (transport u8, length u16, bytes) each: records are many, so they stay as they came.
    entries: Box<[u8]>,
}

impl Contact {
    /// # Panics
    /// More or longer entries than a record holds.
    pub fn new<'a>(
        process: [u8; 16],
        host: [u8; 16],
        entries: impl IntoIterator<Item = (TransportId, &'a [u8])>,
    ) -> Contact {
        let mut bytes = Vec::new();
        for (n, (transport, entry)) in entries.into_iter().enumerate() {
            assert!(n < MAX_ENTRIES && entry.len() <= MAX_ENTRY, "a record holds what transports may say");
            bytes.put_u8(transport.0);
            bytes.put_u16(entry.len() as u16);
            bytes.extend_from_slice(entry);
        }
        Contact { process, host, entries: bytes.into() }
    }

    /// What each transport says, in the order of the process's own preference.
    pub fn entries(&self) -> impl Iterator<Item = (TransportId, &[u8])> {
        let mut rest = Take(&self.entries);
        std::iter::from_fn(move || entry(&mut rest).ok())
    }

    /// What this transport says; `None`: the process does not use it.
    pub fn entry(&self, transport: TransportId) -> Option<&[u8]> {
        self.entries().find(|(t, _)| *t == transport).map(|(_, bytes)| bytes)
    }

    /// The same process with another entry for one transport, behind the others if it had none.
    pub fn with_entry(&self, transport: TransportId, bytes: &[u8]) -> Contact {
        let mut entries: Vec<_> = self.entries().collect();
        match entries.iter_mut().find(|(t, _)| *t == transport) {
            Some((_, old)) => *old = bytes,
            None => entries.push((transport, bytes)),
        }
        Contact::new(self.process, self.host, entries)
    }

    /// The same process with this transport's entry alone.
    pub fn only(&self, transport: TransportId) -> Contact {
        Contact::new(self.process, self.host, self.entries().filter(|(t, _)| *t == transport))
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        out.put_u8(RECORD);
        out.extend_from_slice(&self.process);
        out.extend_from_slice(&self.host);
        out.put_u8(self.entries().count() as u8);
        out.extend_from_slice(&self.entries);
    }

    pub fn decode(from: &mut Take<'_>) -> Result<Contact, Malformed> {
        if from.u8()? != RECORD {
            return Err(Malformed);
        }
        let (process, host, n) = (from.array()?, from.array()?, from.u8()?);
        if usize::from(n) > MAX_ENTRIES {
            return Err(Malformed);
        }
        let all = from.0;
        for _ in 0..n {
            entry(from)?;
        }
        Ok(Contact { process, host, entries: all[..all.len() - from.0.len()].into() })
    }
}

fn entry<'a>(from: &mut Take<'a>) -> Result<(TransportId, &'a [u8]), Malformed> {
    let (transport, len) = (from.u8()?, usize::from(from.u16()?));
    if len > MAX_ENTRY {
        return Err(Malformed);
    }
    let (bytes, rest) = from.0.split_at_checked(len).ok_or(Malformed)?;
    from.0 = rest;
    Ok((TransportId(transport), bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::protocol::contact::{entry, head};

    fn sample() -> Contact {
        Contact::new([7; 16], [9; 16], [(TransportId(1), &b"abc"[..]), (TransportId(4), b"")])
    }

    #[test]
    fn a_record_survives_the_wire() {
        let mut bytes = Vec::new();
        sample().encode(&mut bytes);
        assert_eq!((bytes[head::PROCESS], bytes[head::HOST], bytes[head::COUNT]), (7, 9, 2));
        assert_eq!((bytes[head::BYTES + entry::TRANSPORT], bytes[head::BYTES + entry::LEN]), (1, 3));
        assert_eq!(bytes.len(), head::BYTES + 2 * entry::BYTES + 3);
        bytes.push(1);
        let mut take = Take(&bytes);
        assert_eq!(Contact::decode(&mut take), Ok(sample()));
        assert_eq!(take.0, [1]);
        assert_eq!(sample().entries().collect::<Vec<_>>(), [(TransportId(1), &b"abc"[..]), (TransportId(4), b"")]);
        assert_eq!(sample().entry(TransportId(4)), Some(&b""[..]));
        assert_eq!(sample().entry(TransportId(2)), None);
        let other = sample().with_entry(TransportId(1), b"x").with_entry(TransportId(2), b"yz");
        let all = [(TransportId(1), &b"x"[..]), (TransportId(4), b""), (TransportId(2), b"yz")];
        assert_eq!(other.entries().collect::<Vec<_>>(), all);
        assert_eq!(other.only(TransportId(2)).entries().collect::<Vec<_>>(), [(TransportId(2), &b"yz"[..])]);
    }

    #[test]
    fn a_cut_or_bent_record_is_refused() {
        let mut bytes = Vec::new();
        sample().encode(&mut bytes);
        for n in 0..bytes.len() {
            assert!(Contact::decode(&mut Take(&bytes[..n])).is_err());
        }
        for (at, value) in [(0, 0), (0, 2), (33, 255), (36, 255)] {
            let mut bad = bytes.clone();
            bad[at] = value;
            assert!(Contact::decode(&mut Take(&bad)).is_err(), "byte {at} = {value}");
        }
    }
}
