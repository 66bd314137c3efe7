//! Messages that are announced though they could go eager, and that meet no receive. The process reads them into memory of its own while it
//! waits, so that their senders go on as if the messages had come eager: two sides may send to each other before they receive.
//!
//! Part of the engine, for the receiving side. Invariant: of one peer no more bytes are kept so than could have come eager.

use crate::arrived::{Arrived, Body};
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

    /// Takes the data of messages that meet no receive, where their senders allow that, and releases the senders. `read` returns so many
    /// bytes that lie in these pieces of the peer's memory, (address, length) in order; `None`: they cannot be read.
    pub fn buffer_unexpected(&mut self, mut read: impl FnMut(PeerId, &[(u64, u64)], u64) -> Option<Vec<u8>>) {
        self.to_buffer = false;
        // What has come must be known to an image as what it was.
        if self.tracking.is_some() {
            return;
        }
        let most = self.cfg.eager_bytes;
        let mut kept: BTreeMap<PeerId, u64> = BTreeMap::new();
        let mut released = Vec::new();
        for context in self.contexts.iter_mut().flatten() {
            context.unexpected.for_each(&mut |message| {
                let Arrived { peer, op, free, body, .. } = message;
                let kept = kept.entry(*peer).or_default();
                let body = body.plain_mut();
                let data = match body {
                    Body::Eager { data, .. } => {
                        *kept += if *free { data.len() as u64 } else { 0 };
                        return;
                    }
                    Body::Rts { size, pieces, may_buffer: true } if *kept + *size <= most => read(*peer, pieces, *size),
                    _ => return,
                };
                if let Some(data) = data {
                    *kept += data.len() as u64;
                    *free = true;
                    released.push((*peer, *op));
                    *body = Body::Eager { notify: false, data: data.into() };
                }
            });
        }
        for (peer, op) in released {
            self.free_credit(peer, 0);
            self.say(peer, &Message::Done { op, sooner: CAME_EARLY });
        }
    }
}
