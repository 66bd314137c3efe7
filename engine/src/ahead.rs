//! Messages of which a part is here before the whole, on lanes whose other side is still writing it: the part goes to the buffer of the
//! receive that will match, so both sides copy at once. Part of the engine.
//!
//! Nothing else is done with a part. When the whole message comes, it is matched as any other, and what its receive has got
//! already is not copied again. Invariants: only a receive that names its source gets a part, so the message that it gets is this one
//! or none; that receive cannot be cancelled any more, since its buffer has changed: it has matched, as one whose data is being pulled; a message that would not fit has no part.

use crate::state::Ahead;
use crate::types::PeerId;
use crate::wire::Eager;
use crate::{Engine, NOW, OpId, Source};
use base::Memory;

impl Engine {
    /// A first part of the body of this peer's next message came. The whole, of `total` bytes, comes by [`Engine::on_message`].
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
            Some(a) if a.peer != peer && (a.op == NOW.0 || self.ops.posted(a.op).is_some()) => return,
            _ => 0,
        };
        if let Some(more) = data.get(got as usize..) {
            mem.write(op, got, more);
            self.ahead = Some(Ahead { peer, op, bytes: data.len() as u64 });
        }
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
