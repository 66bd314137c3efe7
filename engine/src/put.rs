//! Puts: the sender writes a part of a message to the receiver's memory, while the receiver reads the rest from the sender's. Both processors
//! copy so.
//!
//! Part of the engine, for both sides. Invariants: a receive is over only when its sender has answered, or is gone: until then its buffer
//! may be written to. Each request is answered once, unless one of the two has gone.

use crate::state::{Hold, State, To};
use crate::wire::{MOST_DESCRIBED, Message, Pieces};
use crate::{Engine, OpId, Output, PeerId};
use base::bytes::Malformed;

impl Engine {
    // ---- the receiver

    /// Asks the sender to write what an [`Output::Get`] for `op` brings from `offset` on to these pieces of our memory, (address, length) in
    /// packed order. The caller reads what lies before. False: nothing was asked, and all of it is to be read.
    pub fn ask_to_put(&mut self, op: OpId, offset: u64, pieces: &[(u64, u64)]) -> bool {
        let Some(State::Pulling(pulling)) = self.ops.get_mut(op.0).map(|op| &mut op.state) else { return false };
        let len = pieces.iter().map(|(_, len)| len).sum::<u64>();
        let fits = len > 0 && pieces.len() <= MOST_DESCRIBED && offset.checked_add(len) == Some(pulling.envelope.size);
        if !fits || pulling.put.is_some() || pulling.reads.is_none() {
            return false;
        }
        pulling.put = Some((offset, offset + len));
        let (peer, sender_op) = (pulling.peer, pulling.sender_op);
        let mut bytes = std::mem::take(&mut self.spare.described);
        bytes.clear();
        Pieces::encode(pieces.iter().copied(), &mut bytes);
        let pieces = Pieces::new(&bytes);
        self.say(peer, &Message::Rtr { sender_op, receiver_op: op.0, offset, len, pieces });
        self.spare.described = bytes;
        true
    }

    /// The sender has written what it was asked to write, or will not.
    pub(crate) fn on_atp(&mut self, peer: PeerId, receiver_op: u64, done: bool) {
        let Some(State::Pulling(pulling)) = self.ops.get_mut(receiver_op).map(|op| &mut op.state) else { return };
        if pulling.peer != peer {
            return;
        }
        let Some((start, end)) = pulling.put.take() else { return };
        let is_asked = pulling.reads.is_none();
        if done && self.bulk_wanted(peer, receiver_op, start, end - start) {
            self.on_bulk(peer, receiver_op, start, end - start);
        } else if !self.end_if_whole(receiver_op) && !is_asked {
            self.ask_for_rest(OpId(receiver_op));
        }
    }

    // ---- the sender

    /// The receiver asks us to write a range of a send to its memory: once at most, and before all else that it says of this send.
    pub(crate) fn on_rtr(
        &mut self,
        peer: PeerId,
        (id, receiver_op): (u64, u64),
        (offset, len): (u64, u64),
        pieces: Pieces<'_>,
    ) -> Result<(), Malformed> {
        let end = offset.checked_add(len).ok_or(Malformed)?;
        let (to, size, is_put) = match self.ops.get_mut(id).map(|op| &mut op.state) {
            Some(State::Announced(To { peer, size, is_put, described: true, .. })) => (*peer, *size, is_put),
            Some(State::Exposed { peer, size, is_put, .. }) => (*peer, *size, is_put),
            _ => return Err(Malformed),
        };
        if to != peer || end > size || std::mem::replace(is_put, true) {
            return Err(Malformed);
        }
        let pieces: Vec<_> = pieces.iter().collect();
        match pieces.is_empty() {
            true => self.put_over(peer, receiver_op, false),
            false => self.put_out(Output::Put { peer, op: OpId(id), receiver_op, offset, pieces }),
        }
        Ok(())
    }

    /// Whether an [`Output::Put`] is still to be written: the receiver may have asked for its data through the lane, or was told BYE.
    pub fn may_put(&self, peer: PeerId, op: OpId) -> bool {
        if self.peers.get(peer.0 as usize).is_none_or(|p| p.hold.has(Hold::LEFT)) {
            return false;
        }
        match self.ops.get(op.0).map(|op| &op.state) {
            Some(State::Announced(To { peer: to, .. }) | State::Exposed { peer: to, .. }) => *to == peer,
            _ => false,
        }
    }

    /// An [`Output::Put`] for this receive of the peer is over: all of it is written, or nobody writes any more.
    pub fn put_over(&mut self, peer: PeerId, receiver_op: u64, done: bool) {
        if !self.peers[peer.0 as usize].hold.has(Hold::LEFT) {
            self.say(peer, &Message::Atp { receiver_op, done });
        }
    }

    /// Answers what was not put out yet, of this peer or of all.
    pub(crate) fn refuse_puts(&mut self, of: Option<PeerId>) {
        let mut refused = Vec::new();
        self.out.retain(|output| match output {
            Output::Put { peer, receiver_op, .. } if of.is_none_or(|of| of == *peer) => {
                refused.push((*peer, *receiver_op));
                false
            }
            _ => true,
        });
        refused.into_iter().for_each(|(peer, receiver_op)| self.put_over(peer, receiver_op, false));
    }
}
