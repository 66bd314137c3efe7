//! State that stands alone: nothing in it refers to a lane or to any process's memory. Part of the engine.
//!
//! Invariant: a message whose data was announced by where it lies is, afterwards, one whose data has to be asked for.

use crate::arrived::{Arrived, Body};
use crate::state::State;
use crate::wire::{Message, Pieces};
use crate::{Engine, Output, PeerId};

impl Engine {
    /// For a snapshot: lanes are gone, and addresses mean nothing any more, of this process or of others. Transfers that were
    /// under way are asked for again by [`Engine::on_lane_lost`].
    pub fn detach(&mut self) {
        self.out.retain(|output| !matches!(output, Output::Get { .. }));
        for output in &mut self.out {
            if let Output::Message { bytes, .. } = output
                && let Some(plain) = without_addresses(bytes)
            {
                *bytes = plain;
            }
        }
        for peer in 0..self.peers.len() {
            (self.peers[peer].grips, self.peers[peer].pull) = (0, false);
            self.forget_memory(PeerId(peer as u32));
        }
        for (_, op) in self.ops.iter_mut() {
            if let State::Pulling(pulling) = &mut op.state {
                pulling.reads = None;
            }
        }
    }

    /// This peer's memory is another's now: where data lies in it is forgotten.
    pub fn forget_memory(&mut self, peer: PeerId) {
        let mut forget = |message: &mut Arrived| {
            if message.peer == peer
                && let Body::Rts { pieces, .. } = message.body.plain_mut()
            {
                pieces.clear();
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

/// A message without the addresses of its data; `None`: it has none.
pub fn without_addresses(body: &[u8]) -> Option<Vec<u8>> {
    match Message::decode(body) {
        Ok(Message::Rts { head, size, note, pieces }) if pieces.iter().next().is_some() => {
            Some(Message::Rts { head, size, note, pieces: Pieces::default() }.encode())
        }
        _ => None,
    }
}
