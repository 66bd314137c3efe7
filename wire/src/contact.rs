//! Contact records: which transports reach a process, and what each of them needs to know to dial it.
//!
//! Naming records, set-up messages and the session carry them. An entry is read only by the transport that wrote it.
//! Invariant: a record never holds more than [`MAX_ENTRIES`] entries of at most [`MAX_ENTRY`] bytes.

use crate::TransportId;
use base::bytes::{Malformed, Put, Take};
use base::protocol::contact::{RECORD, entry as head_of_entry};
use serde::{Deserialize, Serialize};

pub use base::protocol::contact::{MAX_ENTRIES, MAX_ENTRY};

/// What other processes need to know to dial a process (docs/protocol.md, "Contact records").
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contact {
    /// The process number: random, one per process. A process that answers with another number is another process.
    /// All zero if unknown.
    pub process: [u8; 16],
    /// The host number: equal for processes that share a kernel and a network namespace. All zero if unknown.
    pub host: [u8; 16],
    /// The entries as they are on the wire: transport (u8), length (u16) and bytes of each. There are many records, so
    /// entries are not parsed before they are used.
    entries: Box<[u8]>,
}

impl Contact {
    /// A record with these entries, in the order of the process's own preference.
    ///
    /// # Panics
    /// If there are more than [`MAX_ENTRIES`] entries, or if one is longer than [`MAX_ENTRY`] bytes.
    pub fn new<'a>(
        process: [u8; 16],
        host: [u8; 16],
        entries: impl IntoIterator<Item = (TransportId, &'a [u8])>,
    ) -> Contact {
        let mut bytes = Vec::new();
        for (n, (transport, entry)) in entries.into_iter().enumerate() {
            assert!(n < MAX_ENTRIES && entry.len() <= MAX_ENTRY, "a record holds what transports may say");
            transport.put(&mut bytes);
            bytes.put_u16(entry.len() as u16);
            bytes.extend_from_slice(entry);
        }
        Contact { process, host, entries: bytes.into() }
    }

    /// Whether the entries of a record that was read from bytes are whole and within the limits.
    pub fn is_sound(&self) -> bool {
        let read: usize = self.entries().map(|(_, bytes)| head_of_entry::BYTES + bytes.len()).sum();
        read == self.entries.len() && self.entries().count() <= MAX_ENTRIES
    }

    /// The entry of each transport, in the order of the process's own preference.
    pub fn entries(&self) -> impl Iterator<Item = (TransportId, &[u8])> {
        let mut rest = Take(&self.entries);
        std::iter::from_fn(move || entry(&mut rest).ok())
    }

    /// The entry of this transport. `None` if the process does not use the transport.
    pub fn entry(&self, transport: TransportId) -> Option<&[u8]> {
        self.entries().find(|(t, _)| *t == transport).map(|(_, bytes)| bytes)
    }

    /// The bytes that it takes on the wire.
    pub fn size(&self) -> usize {
        1 + self.process.len() + self.host.len() + 1 + self.entries.len()
    }

    /// Appends the record to `out`, as it is on the wire.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.put_u8(RECORD);
        out.extend_from_slice(&self.process);
        out.extend_from_slice(&self.host);
        out.put_u8(self.entries().count() as u8);
        out.extend_from_slice(&self.entries);
    }

    /// Takes a record off the front of `from`. [`Malformed`] if it is cut short, of another version, or beyond the
    /// limits of a record.
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

/// Takes one entry off the front.
fn entry<'a>(from: &mut Take<'a>) -> Result<(TransportId, &'a [u8]), Malformed> {
    let (transport, len) = (TransportId::take(from)?, usize::from(from.u16()?));
    if len > MAX_ENTRY {
        return Err(Malformed);
    }
    let (bytes, rest) = from.0.split_at_checked(len).ok_or(Malformed)?;
    from.0 = rest;
    Ok((transport, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::protocol::contact::{entry, head};

    fn sample() -> Contact {
        Contact::new([7; 16], [9; 16], [(TransportId::registered(1), &b"abc"[..]), (TransportId::registered(4), b"")])
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
        assert_eq!(
            sample().entries().collect::<Vec<_>>(),
            [(TransportId::registered(1), &b"abc"[..]), (TransportId::registered(4), b"")]
        );
        assert_eq!(sample().entry(TransportId::registered(4)), Some(&b""[..]));
        assert_eq!(sample().entry(TransportId::registered(2)), None);
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
