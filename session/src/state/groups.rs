//! The groups that this process is in, and what the pairs of two groups share.

use crate::state::pair::PathRef;
use base::ProcId;
use engine::{Engine, Gone};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap, VecDeque};
use wire::Contact;

/// How many groups that have left are known to have, of those that one group of ours met. The calls that could still name
/// one are collective over ours, so it is the last or the one before.
const MOST_LEFT: usize = 4;

/// Our identity in one registered group. Others may connect to it while it is known.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Group {
    pub incarnation: u64,
    pub cookie: [u8; 16],
    pub rank: u32,
    pub size: u32,
}

/// What the naming service and the other leader told about a group.
#[derive(Debug, Clone)]
pub struct RemoteGroup {
    pub incarnation: u64,
    pub cookie: [u8; 16],
    /// By rank; never empty.
    pub contacts: Vec<Contact>,
}

/// A registered group of ours; kept after it was removed, for those who came before.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Registered {
    pub group: Group,
    pub removed: bool,
    /// Of a port: those who have come and whom nobody has asked for yet, in order.
    pub callers: Option<VecDeque<PathRef>>,
    /// How many pairs have it as their local side.
    pub(crate) pairs: usize,
}

/// What the pairs of two incarnations share.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Between {
    /// The engine's number for all peers reached through these.
    pub number: u64,
    pub pairs: usize,
    /// How many ranks the remote group has, once that is known.
    pub size: Option<u32>,
    /// Remote ranks whose pair has ended while our group stands: they may still be named.
    pub over: BTreeMap<u32, Gone>,
}

#[derive(Default, Clone, Serialize, Deserialize)]
pub(crate) struct Groups {
    pub(crate) own: HashMap<u64, Registered>,
    /// By (our incarnation, theirs).
    pub(crate) between: HashMap<(u64, u64), Between>,
    pub(crate) last_number: u64,
}

impl Groups {
    pub fn get(&self, incarnation: u64) -> Option<&Registered> {
        self.own.get(&incarnation)
    }

    pub fn is_removed(&self, incarnation: u64) -> bool {
        self.own.get(&incarnation).is_none_or(|known| known.removed)
    }

    pub fn is_port(&self, incarnation: u64) -> bool {
        self.own.get(&incarnation).is_some_and(|known| known.callers.is_some())
    }

    pub fn between(&self, ours: u64, theirs: u64) -> Option<&Between> {
        self.between.get(&(ours, theirs))
    }

    pub fn between_mut(&mut self, ours: u64, theirs: u64) -> Option<&mut Between> {
        self.between.get_mut(&(ours, theirs))
    }

    /// The same, made if need be.
    pub fn meet(&mut self, ours: u64, theirs: u64) -> &mut Between {
        let last = &mut self.last_number;
        self.between.entry((ours, theirs)).or_insert_with(|| {
            *last += 1;
            Between::new(*last)
        })
    }

    /// A pair has this group as its local side. Whether the group is a port.
    pub fn admit_pair(&mut self, incarnation: u64, path: PathRef) -> bool {
        let Some(known) = self.own.get_mut(&incarnation) else { return false };
        known.pairs += 1;
        let Some(callers) = &mut known.callers else { return false };
        callers.push_back(path);
        true
    }

    /// Those who have come to a port and were not answered yet, in order.
    pub fn callers(&self, incarnation: u64) -> Vec<PathRef> {
        let callers = self.own.get(&incarnation).and_then(|known| known.callers.as_ref());
        callers.map_or_else(Vec::new, |callers| callers.iter().copied().collect())
    }

    /// One of them was answered.
    pub fn answered(&mut self, incarnation: u64, path: PathRef) {
        if let Some(callers) = self.own.get_mut(&incarnation).and_then(|known| known.callers.as_mut()) {
            callers.retain(|caller| *caller != path);
        }
    }

    /// A pair has ended. `gone`: how, if that is to be remembered.
    pub fn end_pair(&mut self, engine: &mut Engine, local: ProcId, remote: ProcId, serial: u64, gone: Option<Gone>) {
        let key = (local.incarnation, remote.incarnation);
        if let Some(between) = self.between.get_mut(&key) {
            between.pairs -= 1;
            if let Some(gone) = gone {
                between.over.insert(remote.rank, gone);
                self.forget_oldest(engine, local.incarnation);
            } else if between.pairs == 0 {
                engine.remove_group(between.number);
                self.between.remove(&key);
            }
        }
        if let Some(known) = self.own.get_mut(&local.incarnation) {
            known.pairs -= 1;
            if let Some(callers) = &mut known.callers {
                callers.retain(|caller| caller.serial != serial);
            }
            if known.removed && known.pairs == 0 {
                self.own.remove(&local.incarnation);
            }
        }
    }

    /// Forgets the group that left first, if there are too many. Those that were given up for dead are not forgotten: they
    /// might come back.
    fn forget_oldest(&mut self, engine: &mut Engine, ours: u64) {
        let has_left = |b: &Between| b.pairs == 0 && b.over.values().all(|gone| *gone == Gone::Finished);
        let left = self.between.iter().filter(|((o, _), b)| *o == ours && has_left(b));
        let left: Vec<_> = left.map(|(key, b)| (b.number, *key)).collect();
        if left.len() > MOST_LEFT
            && let Some((number, key)) = left.into_iter().min()
        {
            engine.remove_group(number);
            self.between.remove(&key);
        }
    }
}

impl Between {
    pub fn new(number: u64) -> Between {
        Between { number, pairs: 0, size: None, over: BTreeMap::new() }
    }
}

impl Group {
    /// A group of one, for a port.
    pub(crate) fn of_port(port: ProcId, cookie: [u8; 16]) -> Group {
        Group { incarnation: port.incarnation, cookie, rank: port.rank, size: 1 }
    }
}
