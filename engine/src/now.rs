//! Receives whose caller looks for the message itself, before it posts anything: most blocking receives of a program whose
//! partner is quick. Part of the engine.
//!
//! Such a receive has no operation, and no entry in the posted queue. Invariants: there is one at most, and only while its
//! caller reads lanes under the lock; it is younger than all posted receives; it gets a whole message or none. A message that
//! it matches and that is no EAGER is kept as unexpected, and no later one matches it.

use crate::arrived::Body;
use crate::state::{Now, NowState};
use crate::{Ctx, Engine, NOW, Outcome, Source, Tag};
use base::Memory;

impl Engine {
    /// Begins a receive of up to `capacity` packed bytes into the buffer that the memory knows as [`NOW`]. The caller hands in what
    /// lanes bring until [`Engine::is_over_now`], or as long as it likes, and then calls [`Engine::end_now`]. It does
    /// nothing else with the engine meanwhile. False: nothing has changed, and only [`Engine::recv`] can receive.
    #[inline]
    pub fn recv_now<M: Memory>(&mut self, mem: &mut M, ctx: Ctx, source: Source, tag: Tag, capacity: u64) -> bool {
        debug_assert!(self.now.is_none());
        let Some(Some(context)) = self.contexts.get_mut(ctx.0 as usize) else { return false };
        if self.tracking.is_some() || self.troubled || self.at_end > 0 {
            return false;
        }
        let found = context.unexpected.find(source, tag);
        if let Some(at) = found
            && !matches!(context.unexpected.get(at).body, Body::Eager { .. })
        {
            return false;
        }
        self.now = Some(Now { ctx, source, tag, capacity, state: NowState::Waiting });
        if let Some(message) = found.map(|at| context.unexpected.remove(at)) {
            self.deliver(mem, ctx, NOW.0, capacity, message);
        }
        true
    }

    /// Whether such a receive is over, or cannot end without an operation.
    #[inline(always)]
    pub fn is_over_now(&self) -> bool {
        self.now.is_none_or(|now| !matches!(now.state, NowState::Waiting))
    }

    /// Ends such a receive, and returns its outcome. `None`: it has no message, and it was as if it had never been.
    #[inline(always)]
    pub fn end_now(&mut self) -> Option<Outcome> {
        match self.now.take()?.state {
            NowState::Over(outcome) => Some(outcome),
            NowState::Waiting | NowState::Missed => None,
        }
    }

    /// It has its message.
    #[inline(always)]
    pub(crate) fn complete_now(&mut self, outcome: Outcome) {
        if let Some(now) = &mut self.now {
            now.state = NowState::Over(outcome);
        }
    }

    /// It has matched a message that is kept as unexpected: no later one may match it.
    #[cold]
    pub(crate) fn miss_now(&mut self) {
        if let Some(now) = &mut self.now {
            now.state = NowState::Missed;
        }
    }
}
