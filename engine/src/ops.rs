//! The table of operations, in which the number of an operation contains its slot. Used by the engine only.
//!
//! Invariant: a number is given out once in 2^35 operations. Before and after the life of its operation, it leads to
//! none.

use crate::state::{Op, State};
use crate::types::{Envelope, OpId, Outcome};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Ops {
    slots: Vec<Slot>,
    vacant: Vec<u32>,
    /// The last number that was given out, without its slot.
    last: u64,
}

/// One operation. It fills a cache line.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[repr(align(64))]
struct Slot {
    /// 0 if the slot is vacant.
    id: u64,
    op: Op,
}

impl Slot {
    fn is(&self, id: u64) -> bool {
        self.id == id && id != 0
    }

    fn vacate(&mut self) {
        self.id = 0;
        // Field by field: replacing the whole operation would drop all fields.
        self.op.state = State::Reserved;
        self.op.forgotten = false;
        if self.op.more.is_some() {
            self.op.more = None;
        }
    }
}

impl Ops {
    /// A number for an operation that is about to start.
    #[inline(always)]
    pub fn reserve(&mut self) -> u64 {
        let slot = match self.vacant.pop() {
            Some(slot) => slot as usize,
            None => self.one_more(),
        };
        self.last = (self.last + 1) & OpId::LAST;
        // Never 0, so that no operation has the number 0.
        self.last = self.last.max(1);
        let id = self.last << OpId::SLOT_BITS | slot as u64;
        self.slots[slot].id = id;
        id
    }

    #[cold]
    fn one_more(&mut self) -> usize {
        assert!(self.slots.len() < OpId::SLOTS, "mpi_connect: too many operations at once");
        self.slots.push(Slot { id: 0, op: Op::new(State::Reserved) });
        self.slots.len() - 1
    }

    /// Whether a table that was read from bytes keeps the invariant: each number leads to its slot, and the vacant slots
    /// are those that are listed.
    pub fn is_sound(&self) -> bool {
        let mut listed = vec![false; self.slots.len()];
        let once =
            self.vacant.iter().all(|&at| listed.get_mut(at as usize).is_some_and(|l| !std::mem::replace(l, true)));
        let fits = |(at, slot): (usize, &Slot)| match slot.id {
            0 => listed[at] && matches!(slot.op.state, State::Reserved) && !slot.op.forgotten && slot.op.more.is_none(),
            id => !listed[at] && OpId(id).slot() == at && id >> OpId::SLOT_BITS > 0,
        };
        let last = self.last <= OpId::LAST;
        last && once && self.slots.len() <= OpId::SLOTS && self.slots.iter().enumerate().all(fits)
    }

    /// Whether there is no operation, nor a number of one.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.slots.len() == self.vacant.len()
    }

    pub fn get(&self, id: u64) -> Option<&Op> {
        self.slots.get(OpId(id).slot()).filter(|s| s.is(id)).map(|s| &s.op)
    }

    #[inline(always)]
    pub fn get_mut(&mut self, id: u64) -> Option<&mut Op> {
        self.slots.get_mut(OpId(id).slot()).filter(|s| s.is(id)).map(|s| &mut s.op)
    }

    /// Starts an operation whose number was reserved. What it has more is set in what this returns.
    // Inlined, and only the state, so that it is made where it stays: bytes that are copied at once after they were written cost more
    // than all the rest of it.
    #[inline(always)]
    pub fn set(&mut self, id: u64, state: impl FnOnce() -> State) -> Option<&mut Op> {
        let found = self.get_mut(id);
        debug_assert!(found.as_ref().is_some_and(|op| matches!(op.state, State::Reserved)));
        let found = found?;
        found.state.replace(state());
        Some(found)
    }

    /// The state of a receive that waits for its message, and whose outcome will be asked for.
    #[inline(always)]
    pub fn posted(&mut self, id: u64) -> Option<&mut State> {
        let op = self.get_mut(id)?;
        (!op.forgotten && matches!(op.state, State::Posted { .. })).then_some(&mut op.state)
    }

    /// The envelope of a receive that has got its whole message, which is removed. `None`: nothing has changed.
    #[inline(always)]
    pub fn take_received(&mut self, id: u64) -> Option<Envelope> {
        let at = OpId(id).slot();
        let slot = self.slots.get_mut(at).filter(|s| s.is(id))?;
        let State::Over(Outcome::Received(envelope)) = slot.op.state else { return None };
        slot.id = 0;
        slot.op.state.replace(State::Reserved);
        debug_assert!(!slot.op.forgotten && slot.op.more.is_none());
        self.vacant.push(at as u32);
        Some(envelope)
    }

    /// The outcome of an operation that is over, which is removed. `None` if it is not over.
    #[inline]
    pub fn finish(&mut self, id: u64) -> Option<Outcome> {
        let at = OpId(id).slot();
        let slot = self.slots.get_mut(at).filter(|s| s.is(id))?;
        let State::Over(outcome) = slot.op.state else { return None };
        slot.vacate();
        self.vacant.push(at as u32);
        Some(outcome)
    }

    #[inline]
    pub fn remove(&mut self, id: u64) {
        let at = OpId(id).slot();
        if let Some(slot) = self.slots.get_mut(at).filter(|s| s.is(id)) {
            slot.vacate();
            self.vacant.push(at as u32);
        }
    }

    /// All operations that have started and are not removed. It goes through all slots, so it is for rare events.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &Op)> {
        let lives = |s: &&Slot| s.id != 0 && !matches!(s.op.state, State::Reserved);
        self.slots.iter().filter(lives).map(|s| (s.id, &s.op))
    }

    /// As [`Ops::iter`].
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (u64, &mut Op)> {
        let lives = |s: &&mut Slot| s.id != 0 && !matches!(s.op.state, State::Reserved);
        self.slots.iter_mut().filter(lives).map(|s| (s.id, &mut s.op))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_is_one_cache_line() {
        assert_eq!(size_of::<Slot>(), 64);
    }

    #[test]
    fn numbers_are_not_used_twice_and_slots_are() {
        let mut ops = Ops::default();
        let mut seen = std::collections::BTreeSet::new();
        let mut live = Vec::new();
        for i in 0..1000u64 {
            let id = ops.reserve();
            assert!(seen.insert(id) && ops.get(id).is_some());
            live.push(id);
            if i % 3 != 0 {
                let id = live.remove((i * 7) as usize % live.len());
                ops.remove(id);
                ops.remove(id);
                assert!(ops.get(id).is_none() && ops.get_mut(id).is_none());
            }
            assert!(live.iter().all(|id| ops.get(*id).is_some()));
        }
        assert!(ops.slots.len() <= live.len() + 1);
        // Numbers wrap around, and none is 0.
        ops.last = (1 << 36) - 1;
        let id = ops.reserve();
        assert!(id >> OpId::SLOT_BITS == 1 && seen.insert(id | 1 << 63));
        assert!(ops.get(0).is_none() && ops.get(u64::MAX).is_none());
    }
}
