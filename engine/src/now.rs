//! Receives whose caller looks for the message itself, before it posts anything: most blocking receives of a program whose
//! partner is quick. Part of the engine.
//!
//! Such a receive has no operation, and no entry in the posted queue. Invariants: there is one at most, and only while its
//! caller reads lanes under the lock; it is younger than all posted receives; it gets a whole message or none. A message that
//! it matches and that is no EAGER is kept as unexpected, and no later one matches it. If it is a short one whose data can be read, the
//! caller reads it at once ([`Engine::readable`]).

use crate::arrived::{Arrived, Body};
use crate::matching::Place;
use crate::state::{Now, NowState};
use crate::wire::Short;
use crate::{Ctx, Engine, Envelope, NOW, Outcome, PeerId, Source, Tag};

/// An announced message that waits, and its data in its sender's memory.
#[derive(Clone, Copy, Debug)]
pub struct Readable {
    /// The sender.
    pub peer: PeerId,
    /// The address of the data there.
    pub at: u64,
    /// The bytes of the data.
    pub size: u64,
    ctx: Ctx,
    place: Place,
}

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

    /// The message that waits for such a receive, if it is announced and our caller can read all of it from one piece of the sender's memory.
    /// Nothing has changed.
    #[inline]
    pub fn readable(&mut self, (ctx, source, tag): (Ctx, Source, Tag), capacity: u64) -> Option<Readable> {
        let context = self.contexts.get_mut(ctx.0 as usize)?.as_mut()?;
        if self.tracking.is_some() {
            return None;
        }
        let place = context.unexpected.find_place(source, tag)?;
        let Arrived { peer, free: false, body: Body::Rts { size, ref pieces, .. }, .. } =
            *context.unexpected.at(place)?
        else {
            return None;
        };
        let &[(at, len)] = pieces.pieces() else { return None };
        let p = &self.peers[peer.0 as usize];
        (p.pull && p.gone.is_none() && len == size && size <= capacity).then_some(Readable {
            peer,
            at,
            size,
            ctx,
            place,
        })
    }

    /// Such a message is received: our caller has read it since [`Engine::readable`], and has done nothing else with the engine. It sends
    /// the DONE to the peer, which may come before what the engine has put out. `None`: nothing has changed, since it is not there.
    pub fn take_read(&mut self, message: Readable) -> Option<(Envelope, Short)> {
        let Readable { peer, size, ctx, place, .. } = message;
        let context = self.contexts.get_mut(ctx.0 as usize)?.as_mut()?;
        let &mut Arrived { source, tag, op, ref mut body, .. } = context.unexpected.at(place)?;
        // So that there is nothing to be dropped.
        *body = Body::default();
        context.unexpected.discard(place);
        let is_late = self.is_late(peer, op);
        self.free_credit(peer, 0);
        let done = Short::new(&self.done(peer, op, is_late));
        Some((Envelope { source, tag, size }, done))
    }

    /// Begins a receive of up to `capacity` packed bytes into the buffer that the memory knows as [`NOW`]. The caller hands in what
    /// lanes bring until [`Engine::is_over_now`], or as long as it likes, and then calls [`Engine::end_now`]. It does
    /// nothing else with the engine meanwhile. False: nothing has changed. A message waits, which [`Engine::take_waiting`],
    /// [`Engine::take_read`] or [`Engine::recv`] receives, or only the last can receive; or the data of a long message may come right behind its RTS.
    #[inline]
    pub fn recv_now(&mut self, ctx: Ctx, source: Source, tag: Tag, capacity: u64) -> bool {
        debug_assert!(self.now.is_none());
        let Some(Some(context)) = self.contexts.get_mut(ctx.0 as usize) else { return false };
        if self.tracking.is_some() || self.troubled || self.at_end > 0 {
            return false;
        }
        if let Source::Rank(rank) = source
            && capacity > self.cfg.beginning
            && let Some(peer) = context.members.get(rank)
            && let Some(left) = self.peers[peer.0 as usize].beginning.expected.checked_sub(1)
        {
            self.peers[peer.0 as usize].beginning.expected = left;
            return false;
        }
        if !context.unexpected.is_empty() && context.unexpected.find_place(source, tag).is_some() {
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

    /// Whether such a receive ended because it has matched a message that is no EAGER, and that still waits.
    #[inline(always)]
    pub fn has_missed(&self) -> bool {
        self.missed_now
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
