//! Which hosts are known to be reached.

use crate::action::ProbeId;
use crate::state::pair::PathRef;
use base::bytes::{Malformed, Put, Take};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashSet};
use wire::{Place, TransportId};

/// (host number, transport, what the places of that host have in common).
type Reached = ([u8; 16], TransportId, Box<[u8]>);

/// Most bytes of a place's host part.
const MAX_PART: usize = 256;

#[derive(Default, Clone, Serialize, Deserialize)]
pub(crate) struct Hosts {
    pub(crate) proven: HashSet<Reached>,
    /// Those that were asked about it; and the questions that are open.
    #[serde(skip)]
    pub(crate) asked: HashSet<Reached>,
    #[serde(skip)]
    pub(crate) probes: BTreeMap<ProbeId, PathRef>,
    pub(crate) last_probe: u32,
}

/// What processes of one host have proven, for the others of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Proofs {
    /// The number of that host.
    pub(crate) from: [u8; 16],
    pub(crate) reached: Vec<Reached>,
}

impl Proofs {
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.from);
        out.put_u32(self.reached.len() as u32);
        for (host, transport, part) in &self.reached {
            out.extend_from_slice(host);
            out.put_u8(transport.0);
            out.put_bytes(part);
        }
    }

    pub fn decode(from: &mut Take<'_>) -> Result<Proofs, Malformed> {
        let mut proofs = Proofs { from: from.array()?, reached: Vec::new() };
        for _ in 0..from.u32()? {
            let (host, transport) = (from.array()?, TransportId(from.u8()?));
            proofs.reached.push((host, transport, from.bytes(MAX_PART)?.into()));
        }
        Ok(proofs)
    }
}

impl Hosts {
    pub fn is_probing(&self) -> bool {
        !self.probes.is_empty()
    }

    pub fn drop_probes(&mut self) {
        self.probes.clear();
    }

    pub fn is_proven(&self, host: [u8; 16], place: &Place) -> bool {
        // Mostly there are few, and the key is made of parts.
        self.proven
            .iter()
            .any(|(h, transport, part)| *h == host && *transport == place.transport && **part == *place.host())
    }
}
