//! Operations that fail when a peer is gone or has closed an inter-communicator. Part of the engine. Invariant: a
//! message that had arrived whole is still matched first, unless the data of one before it is lost. Afterwards no operation waits for a process that cannot serve
//! it.

use crate::ContextId;
use crate::credit::Granting;
use crate::state::State;
use crate::{Ctx, Engine, Fault, Gone, Outcome, Output, PeerId, Source};

impl Engine {
    /// A peer is dead, or has finalized. The caller first hands in all messages that have come from it.
    ///
    /// Sends to it, and receives that only it could serve, fail. Receives from any source fail once a peer is dead, or
    /// once all have finished.
    pub fn on_gone(&mut self, peer: PeerId, gone: Gone) {
        let p = &mut self.peers[peer.0 as usize];
        if p.gone.is_some() {
            return;
        }
        p.gone = Some(gone);
        p.waiting.clear();
        p.bulk.clear();
        self.out
            .retain(|o| !matches!(o, Output::Get { peer: with, .. } | Output::Put { peer: with, .. } if *with == peer));
        self.ahead.take_if(|a| a.peer == peer);
        self.troubled = true;
        // It sends nothing more, so it is not counted as one that lacks credit.
        self.at_end -= usize::from(p.granting.at_end());
        let (envelopes, bytes) = p.granting.arrived();
        p.arrived_before = (p.arrived_before.0 + envelopes, p.arrived_before.1 + bytes);
        p.granting = Granting::new(&self.cfg);
        self.at_end += usize::from(p.granting.at_end());
        self.withdrawn.retain(|_, (to, _)| *to != peer);
        // An envelope whose data will never come stays: its receive fails, and does not get the message behind it.
        let fault = gone.fault();
        self.fail_where(fault, |state| state.needs() == Some(peer));
        let affected: Vec<Ctx> = (0..self.contexts.len())
            .filter(|&i| self.contexts[i].as_ref().is_some_and(|c| c.members.rank_of(peer).is_some()))
            .map(|i| Ctx(i as u32))
            .collect();
        for ctx in affected {
            self.fail_posted(ctx);
        }
    }

    /// Why nothing more comes from a peer. `None` if it is not gone.
    pub fn gone(&self, peer: PeerId) -> Option<Gone> {
        self.peers[peer.0 as usize].gone
    }

    /// The peer has closed an inter-communicator; if `op` is a receive of ours, its message went with it.
    pub(crate) fn on_revoked(&mut self, peer: PeerId, context: ContextId, op: u64) {
        if let Some(State::Pulling(pulling)) = self.ops.get(op).map(|o| &o.state)
            && pulling.peer == peer
        {
            self.end(op, Outcome::Failed(Fault::Revoked));
        }
        self.withdrawn.retain(|_, at| *at != (peer, context));
        self.fail_where(Fault::Revoked, |state| match state {
            State::Exposed { peer: to, context: of, .. } => (*to, *of) == (peer, context),
            _ => false,
        });
        let group = &self.groups[&self.peers[peer.0 as usize].group];
        let Some(&ctx) = group.open.get(&context) else {
            return;
        };
        let open = self.contexts[ctx.0 as usize].as_mut().expect("open contexts have their slot");
        let Some(rank) = open.members.rank_of(peer) else {
            return;
        };
        open.revoked.insert(rank);
        self.troubled = true;
        // The peer has told of all matches before it closed, so what is unmatched here was never matched.
        self.fail_where(Fault::Revoked, |state| match state {
            State::Queued(to) | State::Awaiting(to) | State::Announced(to) => to.peer == peer && to.ctx == ctx,
            _ => false,
        });
        self.tidy_waiting(peer);
        self.fail_posted(ctx);
    }

    /// Fails all operations in a state of which `which` is true.
    fn fail_where(&mut self, fault: Fault, which: impl Fn(&State) -> bool) {
        let hit: Vec<u64> = self.ops.iter().filter(|(_, op)| which(&op.state)).map(|(id, _)| id).collect();
        for id in hit {
            self.end(id, Outcome::Failed(fault));
        }
    }

    /// Fails the posted receives that no process can serve any more.
    fn fail_posted(&mut self, ctx: Ctx) {
        let any = self.fault(ctx, Source::Any);
        let context = self.contexts[ctx.0 as usize].as_ref().expect("the caller has seen it");
        let mut hit = Vec::new();
        for posted in context.posted.iter() {
            let fault = if posted.source == Source::Any { any } else { self.fault(ctx, posted.source) };
            hit.extend(fault.map(|f| (posted.op, f)));
        }
        for (op, fault) in hit {
            self.unpost(op);
            self.end(op, Outcome::Failed(fault));
        }
    }
}
