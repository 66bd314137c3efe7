//! Makes the state independent of lanes and of every process's memory, for a snapshot. Part of the engine.
//!
//! Invariant: afterwards no message says where its data lies; the receiver has to ask for the data (CTS).

use crate::arrived::Arrived;
use crate::state::State;
use crate::wire::{Message, Pieces};
use crate::{Engine, OpId, Output, PeerId};

impl Engine {
    /// Forgets all lanes and all addresses, of this process and of others, for a snapshot. The caller has answered every [`Output::Put`]
    /// that it has fetched ([`Engine::put_over`]). Transfers that are under way
    /// go on after [`Engine::on_lane_lost`].
    pub fn detach(&mut self) {
        self.out.retain(|output| !matches!(output, Output::Get { .. }));
        self.refuse_puts(None);
        for output in &mut self.out {
            if let Output::Message { bytes, .. } = output
                && let Some(plain) = without_addresses(bytes)
            {
                *bytes = plain;
            }
        }
        for peer in 0..self.peers.len() {
            let p = &mut self.peers[peer];
            (p.max_segments, p.pull, p.more_eager) = (0, false, 0);
            (p.announce, p.polls, p.read_sooner) = Default::default();
            self.forget_memory(PeerId(peer as u32));
        }
        let mut read = Vec::new();
        for (id, op) in self.ops.iter_mut() {
            if let State::Pulling(pulling) = &mut op.state {
                pulling.reads = None;
                // What is written goes to the memory of the process that was.
                let was_put = pulling.put.take().is_some();
                if pulling.is_read || was_put {
                    read.push(OpId(id));
                }
            }
        }
        // Who goes on from the snapshot reads nothing.
        read.into_iter().for_each(|op| self.end_read(op));
    }

    /// Forgets where data lies in the memory of this peer, which goes on in another process.
    pub fn forget_memory(&mut self, peer: PeerId) {
        let mut forget = |message: &mut Arrived| {
            if message.peer == peer {
                message.body.forget_pieces();
            }
        };
        for context in self.contexts.iter_mut().flatten() {
            context.unexpected.for_each(&mut forget);
        }
        for group in self.groups.values_mut() {
            group.early.values_mut().flatten().for_each(&mut forget);
        }
        self.claimed.values_mut().for_each(|claimed| forget(&mut claimed.message));
    }
}

/// The message without addresses: an RTS does not tell where its data lies, and an RTR not where the data goes. `None` if it has no addresses.
pub fn without_addresses(body: &[u8]) -> Option<Vec<u8>> {
    match Message::decode(body) {
        Ok(Message::Rts { head, size, note, pieces, .. }) if pieces.iter().next().is_some() => {
            Some(Message::Rts { head, size, begun: 0, note, pieces: Pieces::default(), may_buffer: false }.encode())
        }
        Ok(Message::Rtr { sender_op, receiver_op, offset, len, pieces }) if pieces.iter().next().is_some() => {
            Some(Message::Rtr { sender_op, receiver_op, offset, len, pieces: Pieces::default() }.encode())
        }
        _ => None,
    }
}
