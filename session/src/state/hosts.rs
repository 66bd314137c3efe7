//! The hosts that dials of ours have reached.

use crate::action::ProbeId;
use crate::state::moves::Again;
use crate::state::pair::PathRef;
use base::bytes::{Malformed, Put, Take};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use wire::{Contacts, Place, TransportId};

/// Host number, transport, and the part of an address that all places of that host share.
type Reached = ([u8; 16], TransportId, Box<[u8]>);

/// The greatest length of that part, in bytes.
const MAX_PART: usize = 256;

/// Processes that were reached before it was known which host theirs is; of more the last ones are remembered.
const MAX_UNNAMED: usize = 16;

/// The hosts that can be reached, and the probes that find out.
#[derive(Default, Clone, Serialize, Deserialize)]
pub(crate) struct Hosts {
    /// The hosts that a dial has reached, and where.
    pub(crate) proven: BTreeSet<Reached>,
    /// Processes whose host is not known yet, and where they were reached: those of ports, whose paths may end before their contact
    /// records come.
    #[serde(skip)]
    unnamed: VecDeque<([u8; 16], Place)>,
    /// The hosts that are reached by a transport that passes on, and by no other as far as is known; when a new pair tries
    /// others first.
    #[serde(skip)]
    pub(crate) passed: BTreeMap<[u8; 16], Again>,
    /// The hosts that were probed already.
    #[serde(skip)]
    pub(crate) asked: BTreeSet<Reached>,
    /// The open probes, with the path that each is for.
    #[serde(skip)]
    pub(crate) probes: BTreeMap<ProbeId, PathRef>,
    /// The last number that was given to a probe.
    pub(crate) last_probe: u32,
}

/// The hosts that a process has reached, to be shared with the other processes of its own host.
///
/// A refusal proves the death of a process only at an address at which its host was reached before.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Proofs {
    /// The number of the host that the dials came from.
    pub(crate) from: [u8; 16],
    pub(crate) reached: Vec<Reached>,
}

impl Proofs {
    /// Appends it to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.from);
        out.put_u32(self.reached.len() as u32);
        for (host, transport, part) in &self.reached {
            out.extend_from_slice(host);
            transport.put(out);
            out.put_bytes(part);
        }
    }

    /// Reads what [`Proofs::encode`] has written.
    pub fn decode(from: &mut Take<'_>) -> Result<Proofs, Malformed> {
        let mut proofs = Proofs { from: from.array()?, reached: Vec::new() };
        for _ in 0..from.u32()? {
            let (host, transport) = (from.array()?, TransportId::take(from)?);
            proofs.reached.push((host, transport, from.bytes(MAX_PART)?.into()));
        }
        Ok(proofs)
    }
}

impl Hosts {
    /// Whether what was read from bytes is within its limits.
    pub fn is_sound(&self) -> bool {
        self.proven.iter().all(|(_, _, part)| part.len() <= MAX_PART)
    }

    /// A dial has reached this process at a place of that host. Zeros: it is not known which host that is.
    pub fn prove(&mut self, host: [u8; 16], process: Option<[u8; 16]>, place: &Place) {
        if host != [0; 16] {
            self.proven.insert((host, place.transport, place.host().into()));
        } else if let Some(process) = process {
            self.unnamed.truncate(MAX_UNNAMED - 1);
            self.unnamed.push_front((process, place.clone()));
        }
    }

    /// These contact records are known now, also of processes that were reached before.
    pub fn name(&mut self, contacts: &Contacts) {
        for (process, place) in std::mem::take(&mut self.unnamed) {
            match contacts.iter().find(|contact| contact.process == process) {
                Some(contact) => self.prove(contact.host, None, &place),
                None => self.unnamed.push_back((process, place)),
            }
        }
    }

    pub fn is_probing(&self) -> bool {
        !self.probes.is_empty()
    }

    pub fn drop_probes(&mut self) {
        self.probes.clear();
    }

    pub fn is_proven(&self, host: [u8; 16], place: &Place) -> bool {
        // There are few, and a key for a lookup would have to be copied together.
        self.proven
            .iter()
            .any(|(h, transport, part)| *h == host && *transport == place.transport && **part == *place.host())
    }
}
