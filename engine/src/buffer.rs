//! Messages that are announced though they could go eager, and that meet no receive. The process reads them into memory of its own, so that
//! their senders go on as if the messages had come eager: two sides may send to each other before they receive.
//!
//! Part of the engine, for the receiving side. Invariant: of one peer no more bytes are kept so than it may send eager ahead of its receives. That is
//! beside what has come eager.

use crate::arrived::{Arrived, Body};
use crate::state::Peer;
use crate::wire::Message;
use crate::{Engine, PeerId};
use base::protocol::message::CAME_EARLY;
use std::collections::BTreeMap;

impl Engine {
    /// Whether [`Engine::buffer_unexpected`] may find something.
    #[inline]
    pub fn has_to_buffer(&self) -> bool {
        self.to_buffer
    }

    /// Takes the data of messages that meet no receive, where their senders allow that, and releases the senders; not of too many in one
    /// call. `read` returns so many bytes that lie in these pieces of the peer's memory, (address, length) in order; `None`: they cannot be read.
    pub fn buffer_unexpected(&mut self, mut read: impl FnMut(PeerId, &[(u64, u64)], u64) -> Option<Vec<u8>>) {
        self.to_buffer = false;
        // A message that is received while checkpoints are made is logged as what it was when it came.
        if self.tracking.is_some() {
            return;
        }
        let most = self.cfg.eager_bytes;
        let mut kept = self.kept_by_peer();
        let (mut released, mut taken, mut left) = (Vec::new(), 0, false);
        let peers = &self.peers;
        let mut take = |message: &mut Arrived| {
            let Arrived { peer, op, free, body, .. } = message;
            let body = body.plain_mut();
            let Body::Rts { size, pieces, may_buffer } = body else { return };
            let kept = kept.entry(*peer).or_default();
            if !*may_buffer || !is_readable(&peers[peer.0 as usize]) || *kept + *size > most {
                return;
            }
            if taken + *size > most {
                left = true;
                return;
            }
            let Some(data) = read(*peer, pieces.pieces(), *size) else {
                *may_buffer = false;
                return;
            };
            *kept += *size;
            taken += *size;
            *free = true;
            released.push((*peer, *op));
            *body = Body::Eager { notify: false, data: data.into() };
        };
        self.contexts.iter_mut().flatten().for_each(|context| context.unexpected.for_each(&mut take));
        self.claimed.values_mut().for_each(|claim| take(&mut claim.message));
        self.to_buffer = left;
        for (peer, op) in released {
            self.free_credit(peer, 0);
            self.say(peer, &Message::Done { op, sooner: CAME_EARLY });
        }
    }

    /// The bytes of each peer's messages that are kept without credit.
    fn kept_by_peer(&self) -> BTreeMap<PeerId, u64> {
        let waiting = self.contexts.iter().flatten().flat_map(|context| context.unexpected.iter());
        let mut kept = BTreeMap::new();
        for message in waiting.chain(self.claimed.values().map(|claim| &claim.message)).filter(|m| m.free) {
            *kept.entry(message.peer).or_default() += message.body.eager_bytes();
        }
        kept
    }
}

fn is_readable(peer: &Peer) -> bool {
    peer.pull && peer.gone.is_none()
}
