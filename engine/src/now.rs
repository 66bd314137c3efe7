//! Receives whose caller looks for the message itself, before it posts anything: most blocking receives of a program whose
//! partner is quick. Part of the engine.
//!
//! Such a receive has no operation, and no entry in the posted queue. Invariants: there is one at most, and only while its
//! caller reads lanes under the lock; it is younger than all posted receives; it gets a whole message or none. A message that
//! it matches and that is no EAGER is kept as unexpected, and no later one matches it.

use crate::arrived::{Arrived, Body};
use crate::state::{Now, NowState};
use crate::{Ctx, Engine, Envelope, NOW, Outcome, Source, Tag};

impl Engine {
    /// Receives the message that waits for such a receive, of up to `capacity` packed bytes: `write` gets its data. `None`: nothing
    /// has changed. There is none, or it is too long or no EAGER, and only [`Engine::recv`] can receive it.
    #[inline(always)]
    pub fn take_waiting(
        &mut self,
        (ctx, source, tag): (Ctx, Source, Tag),
        capacity: u64,
        write: impl FnOnce(&[u8]),
    ) -> Option<Envelope> {
        let context = self.contexts.get_mut(ctx.0 as usize)?.as_mut()?;
        if self.tracking.is_some() {
            return None;
        }
        let place = context.unexpected.find_place(source, tag)?;
        let Arrived { peer, source, tag, op, free, ref mut body, .. } = *context.unexpected.at(place)?;
        let Body::Eager { notify, ref mut data } = *body else { return None };
        let size = data.len() as u64;
        if size > capacity {
            return None;
        }
        write(data);
        self.spare.give(data);
        context.unexpected.discard(place);
        // Of a free one the sender waits for nothing, and there may be room for another one.
        if free {
            self.to_buffer = true;
        } else {
            self.free_credit(peer, size);
            if notify {
                self.say_done(peer, op);
            }
        }
        Some(Envelope { source, tag, size })
    }

    /// Begins a receive of up to `capacity` packed bytes into the buffer that the memory knows as [`NOW`]. The caller hands in what
    /// lanes bring until [`Engine::is_over_now`], or as long as it likes, and then calls [`Engine::end_now`]. It does
    /// nothing else with the engine meanwhile. False: nothing has changed. A message waits, which [`Engine::take_waiting`] or
    /// [`Engine::recv`] receives, or only the latter can receive.
    #[inline]
    pub fn recv_now(&mut self, ctx: Ctx, source: Source, tag: Tag, capacity: u64) -> bool {
        debug_assert!(self.now.is_none());
        let Some(Some(context)) = self.contexts.get_mut(ctx.0 as usize) else { return false };
        if self.tracking.is_some() || self.troubled || self.at_end > 0 {
            return false;
        }
        if !context.unexpected.is_empty() && context.unexpected.find(source, tag).is_some() {
            return false;
        }
        self.now = Some(Now { ctx, source, tag, capacity, state: NowState::Waiting });
        true
    }

    /// Whether such a receive is over, or cannot end without an operation.
    #[inline(always)]
    pub fn is_over_now(&self) -> bool {
        self.now.is_none_or(|now| !matches!(now.state, NowState::Waiting))
    }

    /// Whether such a receive has its message, and no operation is under way: nothing else that comes is waited for.
    #[inline(always)]
    pub fn is_content(&self) -> bool {
        matches!(self.now, Some(Now { state: NowState::Over(_), .. })) && self.ops.is_empty()
    }

    /// Ends such a receive, and returns its outcome. `None`: it has no message, and it was as if it had never been.
    #[inline(always)]
    pub fn end_now(&mut self) -> Option<Outcome> {
        if self.ahead.is_some() {
            self.forget_part_of(NOW);
        }
        match self.now.take()?.state {
            NowState::Over(outcome) => Some(outcome),
            NowState::Missed => {
                self.missed_now = true;
                None
            }
            NowState::Waiting => None,
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
