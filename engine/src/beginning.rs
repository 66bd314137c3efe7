//! The beginning of a long message: where a lane is a stream, it follows the RTS at once, so that the lane is not idle until the receiver
//! has asked for the data. Part of the engine.
//!
//! A receive that is posted when the RTS comes takes the beginning, and asks for the rest alone. Otherwise the beginning is dropped when it comes,
//! and the whole is asked for. The sender keeps no copy. Invariant: nothing relies on the beginning to come. A receive that has all but
//! that asks for it, since it may have been on a lane that died, or have come by a newer lane before its RTS.

use crate::state::{Beginning, Op, State};
use crate::{Engine, OpId, Output, PeerId};
use base::protocol::frame::OF_SENDER;

/// Receives that take beginnings of one peer at a time. It sends one, and no other before we have answered: more are not taken, and asked for.
const MOST_TAKEN: usize = 16;

impl Engine {
    /// Whether beginnings are sent to this peer, and come from it, as on a lane that is a byte stream.
    pub fn set_begins(&mut self, peer: PeerId, yes: bool) {
        self.peers[peer.0 as usize].beginning = Beginning { is_of_use: yes, ..Beginning::default() };
    }

    /// The beginning of a message leaves, whose RTS has just been put out.
    pub(crate) fn begin(&mut self, peer: PeerId, id: u64, begun: u64) {
        let chunk = self.peers[peer.0 as usize].chunk;
        let mut offset = 0;
        while offset < begun {
            let len = chunk.min(begun - offset);
            self.out.push_back(Output::Bulk { peer, receiver_op: id | OF_SENDER, op: OpId(id), offset, len });
            offset += len;
        }
    }

    /// A receive takes the beginning of this message, if it may.
    pub(crate) fn take_beginning(&mut self, peer: PeerId, sender_op: u64, receiver_op: u64) -> bool {
        let ops = &self.ops;
        let taken = &mut self.peers[peer.0 as usize].beginning.taken;
        taken.retain(|&(sent, op)| is_pulling(ops.get(op), peer, sent));
        let may = taken.len() < MOST_TAKEN;
        if may {
            taken.push((sender_op, receiver_op));
        }
        may
    }

    /// The receive that a BULK frame of this peer is for, which has this operation in its header. `None`: for none.
    #[inline]
    pub fn bulk_op(&self, peer: PeerId, op: u64) -> Option<u64> {
        if op & OF_SENDER == 0 { Some(op) } else { self.receive_of(peer, op ^ OF_SENDER) }
    }

    fn receive_of(&self, peer: PeerId, sender_op: u64) -> Option<u64> {
        let taken = &self.peers[peer.0 as usize].beginning.taken;
        let &(_, op) = taken.iter().rev().find(|(sent, _)| *sent == sender_op)?;
        is_pulling(self.ops.get(op), peer, sender_op).then_some(op)
    }
}

/// Whether a receive waits for the data of this message.
fn is_pulling(op: Option<&Op>, peer: PeerId, sender_op: u64) -> bool {
    matches!(op.map(|op| &op.state), Some(State::Pulling(p)) if (p.peer, p.sender_op) == (peer, sender_op))
}
