//! Figures for people: what has gone to a peer and come from it, and how long the queues are.
//!
//! Read when an operator asks, under the lock. Invariant: messages pay for nothing here. The counts are those of credit, and a
//! rendezvous adds its size to one number.

use crate::Engine;
use crate::types::{PeerId, Source};
use std::collections::BTreeMap;

/// The most receives, and the most messages, of one inter-communicator that are counted: more are as good as this many.
const MOST_COUNTED: usize = 1 << 16;

/// Messages of one direction, and the bytes of their data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    /// Messages; a large one counts when it is announced.
    pub messages: u64,
    /// Bytes of their data.
    pub bytes: u64,
}

/// What two processes have sent each other since their path began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// From this process to the peer.
    pub sent: Flow,
    /// From the peer to this process.
    pub received: Flow,
}

/// How long the queues are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Queues {
    /// By peer: its messages that no receive has matched, and the receives that wait for a message from it alone.
    pub of: BTreeMap<PeerId, (u32, u32)>,
    /// Receives that wait for a message from anyone, by one peer of the inter-communicator.
    pub from_any: BTreeMap<PeerId, u32>,
}

impl Engine {
    /// What has gone to a peer, and come from it.
    pub fn traffic(&self, peer: PeerId) -> Traffic {
        let Some(p) = self.peers.get(peer.0 as usize) else { return Traffic::default() };
        let flow =
            |(messages, eager): (u64, u64), announced: u64| Flow { messages, bytes: eager.saturating_add(announced) };
        let ((messages, bytes), before) = (p.granting.arrived(), p.arrived_before);
        let arrived = (messages + before.0, bytes + before.1);
        Traffic { sent: flow(p.spending.spent(), p.announced.0), received: flow(arrived, p.announced.1) }
    }

    /// The lengths of all queues.
    pub fn queues(&self) -> Queues {
        let mut queues = Queues::default();
        for context in self.contexts.iter().flatten() {
            for message in context.unexpected.iter().take(MOST_COUNTED) {
                queues.of.entry(message.peer).or_default().0 += 1;
            }
            for receive in context.posted.iter().take(MOST_COUNTED) {
                match receive.source {
                    Source::Rank(rank) => {
                        if let Some(peer) = context.members.get(rank) {
                            queues.of.entry(peer).or_default().1 += 1;
                        }
                    }
                    Source::Any => {
                        if let Some((_, peer)) = context.members.iter().next() {
                            *queues.from_any.entry(peer).or_default() += 1;
                        }
                    }
                }
            }
        }
        queues
    }
}
