//! Messages of which a part is here before the whole, on lanes whose other side is still writing it: the part goes to the buffer of the
//! receive that will match, so both sides copy at once. Part of the engine.
//!
//! Nothing else is done with a part. When the whole message comes, it is matched as any other, and what its receive has got
//! already is not copied again. Of a lane that is a stream the rest may come to that buffer too, and nothing be left to copy; it is matched then. Invariants: only a receive that names its source gets a part, so the message that it gets is this one
//! or none; that receive cannot be cancelled any more, since its buffer has changed: it has matched, as one whose data is being pulled; a message that would not fit has no part.

use crate::state::{Ahead, State};
use crate::types::PeerId;
use crate::wire::Eager;
use crate::{Engine, Envelope, NOW, OpId, Outcome, Source};
use base::Memory;
use base::bytes::Malformed;

impl Engine {
    /// A first part of the body of this peer's next message came. The whole, of `total` bytes, comes by [`Engine::on_message`].
    /// Or the rest comes by [`Engine::on_rest`], where [`Engine::rest_wanted`] says so.
    pub fn on_part<M: Memory>(&mut self, mem: &mut M, peer: PeerId, part: &[u8], total: u64) {
        let Some((head, data)) = Eager::decode_plain(part) else { return };
        let Some(p) = self.peers.get(peer.0 as usize) else { return };
        let Some(Some(context)) = self.contexts.get(p.latest.0 as usize) else { return };
        if !context.is_meant((peer, p), head.context, head.source) || self.tracking.is_some() {
            return;
        }
        let found = match context.posted.first_of_few(head.source, head.tag) {
            Some(receive) => Some((receive.op, receive.source, receive.capacity)),
            None if context.posted.is_empty() => {
                let fitting = self.now.filter(|now| now.takes(p.latest, head.source, head.tag));
                fitting.map(|now| (NOW.0, now.source, now.capacity))
            }
            None => None,
        };
        let size = total.saturating_sub((part.len() - data.len()) as u64);
        let Some((op, Source::Rank(_), capacity)) = found else { return };
        if size > capacity.min(self.cfg.most_eager()) || data.len() as u64 > size {
            return;
        }
        let got = match self.ahead {
            Some(a) if (a.peer, a.op) == (peer, op) => a.bytes,
            // One at a time: what another receive has got may not be forgotten.
            Some(a) if a.peer != peer && (a.op == NOW.0 || self.is_posted(a.op)) => return,
            _ => 0,
        };
        if let Some(more) = data.get(got as usize..) {
            mem.write(op, got, more);
            self.ahead = Some(Ahead { peer, op, bytes: data.len() as u64, head, size });
        }
    }

    /// Where the bytes from `offset` on of this peer's message belong, whose first ones [`Engine::on_part`] has taken. `None`: they are not wanted there,
    /// or not any more. A receive without an operation may end at any look, before they are there.
    pub fn rest_wanted(&self, peer: PeerId, offset: u64, len: u64) -> Option<OpId> {
        let a = self.ahead.filter(|a| a.peer == peer && a.bytes == offset && len <= a.size - offset)?;
        self.is_posted(a.op).then_some(OpId(a.op))
    }

    /// So many bytes more have been written there.
    pub fn on_rest(&mut self, peer: PeerId, bytes: u64) {
        if let Some(a) = self.ahead.as_mut().filter(|a| a.peer == peer) {
            a.bytes += bytes;
        }
    }

    /// All that was wanted of this peer's message has come so. It is received, unless its receive has ended before it was whole: then this
    /// returns false, and the message is to come again.
    pub fn on_placed<M: Memory>(&mut self, mem: &mut M, peer: PeerId) -> Result<bool, Malformed> {
        if self.peers[peer.0 as usize].gone.is_some() {
            return Ok(true);
        }
        let Some(a) = self.ahead.take_if(|a| a.peer == peer) else { return Ok(false) };
        let is_there = a.bytes == a.size && self.is_posted(a.op);
        if is_there && self.tracking.is_none() {
            let matched = self.arrived(peer, &a.head, a.size)?;
            debug_assert!(matched.is_some_and(|(op, _)| op == a.op), "no other receive can get it");
            self.end(a.op, Outcome::Received(Envelope { source: a.head.source, tag: a.head.tag, size: a.size }));
            self.free_credit(peer, a.size);
            return Ok(true);
        }
        if !is_there && self.context_of(peer, a.head.context).is_some() {
            return Ok(false);
        }
        // What is logged is the whole; and of an inter-communicator that is closed nothing is kept but the credit.
        let mut data = Vec::new();
        if is_there {
            mem.read(a.op, 0, a.size as usize, &mut data);
        } else {
            data.resize(a.size as usize, 0);
        }
        self.on_eager(mem, peer, Eager { notify: false, head: a.head, data: &data })?;
        if self.is_limited() {
            self.match_all_held(mem);
        }
        Ok(true)
    }

    /// Whether a receive waits for its message, also if nobody will ask for its outcome.
    fn is_posted(&self, op: u64) -> bool {
        self.ops.get(op).is_some_and(|op| matches!(op.state, State::Posted { .. }))
    }

    /// Whether a receive that is still posted has a part of its message.
    pub(crate) fn has_part(&self, op: OpId) -> bool {
        self.ahead.is_some_and(|a| a.op == op.0)
    }

    /// The receive ends without a message.
    #[cold]
    pub(crate) fn forget_part_of(&mut self, op: OpId) {
        self.ahead.take_if(|a| a.op == op.0);
    }
}
