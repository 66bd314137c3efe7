//! Partitions of a send that become ready (MPI_Pready). Part of the engine.

use crate::state::{Op, State};
use crate::{Engine, OpId, Outcome};
use base::Memory;

impl Engine {
    /// Partitions `start..end` of each of `runs` are ready, and their data may leave. The runs are in ascending order.
    ///
    /// False, and nothing has changed, if there is no such partitioned send, if it has no such partition, or if one of
    /// them is ready already.
    #[must_use]
    pub fn ready<M: Memory>(&mut self, mem: &M, op: OpId, runs: &[(u32, u32)]) -> bool {
        let Some(Op { state, more: Some(more), .. }) = self.ops.get_mut(op.0) else {
            return false;
        };
        let Some(parts) = &mut more.parts else { return false };
        if !parts.make_ready(runs) {
            return false;
        }
        match state {
            State::Sending(sending) => {
                parts.release_now(runs, &mut sending.ranges);
                if !sending.queued && !sending.ranges.is_empty() {
                    sending.queued = true;
                    let peer = sending.peer;
                    self.queue_bulk(peer, op.0);
                }
            }
            State::Queued(to) if parts.is_empty() && parts.all_ready() => {
                let peer = to.peer;
                self.line_up(mem, peer, op.0);
            }
            State::Delivered if parts.all_ready() => self.end(op.0, Outcome::Sent),
            _ => {}
        }
        true
    }

    /// Whether all partitions of a partitioned send are ready. True for every other operation.
    pub fn all_ready(&self, op: OpId) -> bool {
        self.ops.get(op.0).and_then(Op::parts).is_none_or(|parts| parts.all_ready())
    }
}
