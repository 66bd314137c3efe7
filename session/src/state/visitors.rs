//! The table of pending handshakes.

use crate::action::VisitorId;
use base::Time;
use std::collections::BTreeMap;
use std::time::Duration;
use wire::Hello;

/// How long either side of a handshake may take.
const LIMIT: Duration = Duration::from_secs(10);

pub(crate) struct Visitor {
    pub(crate) since: Time,
    pub state: State,
}

pub(crate) enum State {
    /// It has not said its HELLO.
    Silent,
    /// It has come for a pair that has a lane, while that is asked.
    Parked(Parked),
    /// It was answered, and is to say the last word.
    Answered(Answered),
}

#[derive(Clone)]
pub(crate) struct Parked {
    pub pair: usize,
    pub serial: u64,
    /// Of the lane that is asked.
    pub generation: u16,
    pub hello: Hello,
}

#[derive(Clone, Copy)]
pub(crate) struct Answered {
    pub pair: usize,
    pub serial: u64,
    pub generation: u16,
    pub received: u64,
    /// The generation of the lane that the pair had then.
    pub instead_of: Option<u16>,
}

#[derive(Default)]
pub(crate) struct Visitors {
    pub(crate) table: BTreeMap<VisitorId, Visitor>,
    pub(crate) last: u32,
}

impl Visitors {
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    pub fn len(&self) -> usize {
        self.table.len()
    }

    pub fn get_mut(&mut self, id: VisitorId) -> Option<&mut Visitor> {
        self.table.get_mut(&id)
    }

    pub fn take(&mut self, id: VisitorId) -> Option<Visitor> {
        self.table.remove(&id)
    }

    pub fn is_answered(&self, id: VisitorId) -> bool {
        self.table.get(&id).is_some_and(|v| matches!(v.state, State::Answered(_)))
    }

    /// Takes those that have had their time.
    pub fn expired(&mut self, now: Time) -> Vec<VisitorId> {
        let late: Vec<_> = self.table.iter().filter(|(_, v)| now.since(v.since) >= LIMIT).map(|(id, _)| *id).collect();
        late.iter().for_each(|id| drop(self.table.remove(id)));
        late
    }

    pub fn drain(&mut self) -> Vec<VisitorId> {
        std::mem::take(&mut self.table).into_keys().collect()
    }

    pub fn parked(&self) -> Vec<(VisitorId, Parked)> {
        let parked = |(id, v): (&VisitorId, &Visitor)| match &v.state {
            State::Parked(parked) => Some((*id, parked.clone())),
            _ => None,
        };
        self.table.iter().filter_map(parked).collect()
    }
}
