//! The table of pending handshakes.

use crate::action::IncomingId;
use base::Time;
use std::collections::BTreeMap;
use std::time::Duration;
use wire::{Hello, Move, Place};

/// How long either side of a handshake may take.
const LIMIT: Duration = Duration::from_secs(10);

/// One accepted connection that has no lane yet.
pub(crate) struct Incoming {
    /// When it was accepted.
    pub(crate) since: Time,
    /// Where its other end is; `None` within this host.
    pub(crate) from: Option<Place>,
    /// Its other side has known the key, or repeats who has.
    pub(crate) answered: bool,
    pub state: State,
}

impl Incoming {
    /// The host of its other end.
    pub(crate) fn host(&self) -> Option<&[u8]> {
        self.from.as_ref().map(Place::host)
    }

    /// Whether it goes before those that have said nothing of the key.
    pub(crate) fn is_answered(&self) -> bool {
        self.answered || !matches!(self.state, State::Silent)
    }
}

/// How far its handshake is.
pub(crate) enum State {
    /// Its HELLO has not come.
    Silent,
    /// Its HELLO is for a pair that has a lane, and that lane is asked for a sign of life first; or the contact record of its process
    /// is asked for.
    Parked(Parked),
    /// Its HELLO was answered, and the last word of the other side is awaited.
    Answered(Answered),
}

/// A connection that waits while the pair's lane is asked, or for a contact record.
#[derive(Clone)]
pub(crate) struct Parked {
    pub pair: usize,
    /// The pair's serial number.
    pub serial: u64,
    /// The generation of the lane that is asked. `None`: the contact record is awaited.
    pub generation: Option<u16>,
    pub hello: Hello,
}

/// A connection whose HELLO was answered.
#[derive(Clone, Copy)]
pub(crate) struct Answered {
    pub pair: usize,
    /// The pair's serial number.
    pub serial: u64,
    /// The generation of the lane to be.
    pub generation: u16,
    /// First-class bodies that the other side has.
    pub received: u64,
    /// The generation of the lane that the pair had when its HELLO was answered.
    pub instead_of: Option<u16>,
    /// The pair moves to it from that lane.
    pub moves: Option<Move>,
}

/// The table of pending handshakes.
#[derive(Default)]
pub(crate) struct Handshaking {
    pub(crate) table: BTreeMap<IncomingId, Box<Incoming>>,
    /// The last number that was given to an incoming connection.
    pub(crate) last: u32,
}

impl Handshaking {
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    pub fn len(&self) -> usize {
        self.table.len()
    }

    pub fn get_mut(&mut self, id: IncomingId) -> Option<&mut Incoming> {
        self.table.get_mut(&id).map(|incoming| &mut **incoming)
    }

    pub fn take(&mut self, id: IncomingId) -> Option<Incoming> {
        self.table.remove(&id).map(|incoming| *incoming)
    }

    pub fn is_answered(&self, id: IncomingId) -> bool {
        self.table.get(&id).is_some_and(|v| matches!(v.state, State::Answered(_)))
    }

    /// Removes those whose time is up, and returns their numbers.
    pub fn expired(&mut self, now: Time) -> Vec<IncomingId> {
        let late: Vec<_> = self.table.iter().filter(|(_, v)| now.since(v.since) >= LIMIT).map(|(id, _)| *id).collect();
        for id in &late {
            self.table.remove(id);
        }
        late
    }

    pub fn drain(&mut self) -> Vec<IncomingId> {
        std::mem::take(&mut self.table).into_keys().collect()
    }

    /// Removes those that have said which process they come from, and returns their numbers.
    pub fn drain_known(&mut self) -> Vec<IncomingId> {
        let is_known = |v: &Incoming| !matches!(v.state, State::Silent);
        let known: Vec<_> = self.table.iter().filter(|(_, v)| is_known(v)).map(|(id, _)| *id).collect();
        for id in &known {
            self.table.remove(id);
        }
        known
    }

    pub fn parked(&self) -> Vec<(IncomingId, Parked)> {
        let parked = |id: IncomingId, state: &State| match state {
            State::Parked(parked) => Some((id, parked.clone())),
            _ => None,
        };
        self.table.iter().filter_map(|(id, v)| parked(*id, &v.state)).collect()
    }
}
