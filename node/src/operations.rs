//! What is asked of the core for one message: to send it, to receive it, to look for it, and how it ended.
//!
//! Part of the core. Invariant: an operation's buffer stays in the table until the operation is over, whoever still asks
//! for it.

use crate::memory::Layout;
use crate::state::Core;
use crate::state::operations::Judging;
use engine::{Envelope, MessageId, Mode, OpId, Outcome, Probe, Source, Tag};
use session::InterId;
use std::sync::Once;

/// Types are compared where both jobs want it: told once, by whoever finds that only one does.
fn tell_of_one_side(came: &str, which: &str) {
    static TOLD: Once = Once::new();
    TOLD.call_once(|| {
        base::log!(
            Notice,
            "a message came {came} its types: they are compared where both jobs have MPI_CONNECT_CHECK=types, and {which} has not"
        );
    });
}

impl Core {
    /// A send in standard mode, if it can leave now, or be copied, and is complete with that. `false`: nothing has changed,
    /// and [`Core::isend`] is the way.
    pub fn send_now(&mut self, inter: InterId, dest: u32, tag: i64, data: &Layout) -> bool {
        let to = (self.session.ctx(inter), dest, tag);
        let pack = |to: &mut [u8]| {
            data.pack(0, to);
        };
        let sent = self.session.send_now(to, data.bytes(), pack, |len, body| data.read(0, len, body));
        if self.session.has_actions() {
            self.act();
        }
        sent
    }

    pub fn isend(&mut self, inter: InterId, dest: u32, tag: i64, data: Layout, mode: Mode) -> OpId {
        let ctx = self.session.ctx(inter);
        let op = self.session.engine.next_op();
        let size = data.bytes();
        self.session.mem.insert(op, data);
        self.session.engine.send(&self.session.mem, op, ctx, dest, tag, size, mode);
        self.settle();
        op
    }

    /// The same for data whose types travel with the message.
    pub fn isend_signed(&mut self, inter: InterId, dest: u32, tag: i64, data: Layout, mode: Mode) -> OpId {
        let Some(note) = data.types().map(|types| types.note()) else {
            return self.isend(inter, dest, tag, data, mode);
        };
        let ctx = self.session.ctx(inter);
        let op = self.session.engine.next_op();
        let size = data.bytes();
        self.session.mem.insert(op, data);
        self.session.engine.send_noted(&self.session.mem, op, ctx, dest, tag, size, (mode, note));
        self.settle();
        op
    }

    /// The message of a receive says what its types are.
    pub(crate) fn note(&mut self, op: OpId, note: Vec<u8>) {
        match (self.operations.judging.get_mut(&op.0), self.session.mem.get(op.0).and_then(Layout::types)) {
            (Some(judging), Some(_)) => judging.note = Some(note),
            _ => tell_of_one_side("with", "this one"),
        }
    }

    pub fn irecv(&mut self, inter: InterId, source: Source, tag: Tag, data: Layout) -> OpId {
        let ctx = self.session.ctx(inter);
        let op = self.session.engine.next_op();
        let capacity = self.make_room(op, data);
        self.session.engine.recv(&mut self.session.mem, op, ctx, source, tag, capacity);
        self.settle();
        op
    }

    /// Makes the buffer of a receive known: how much it takes.
    fn make_room(&mut self, op: OpId, data: Layout) -> u64 {
        let capacity = data.bytes();
        if data.judges() {
            self.operations.judging.insert(op.0, Judging::default());
        }
        self.session.mem.insert(op, data);
        capacity
    }

    pub fn probe(&mut self, inter: InterId, source: Source, tag: Tag) -> Probe {
        let ctx = self.session.ctx(inter);
        let found = self.session.engine.probe(ctx, source, tag);
        if found == Probe::None {
            self.session.note_probe(inter, source);
            // Looking may have given credit.
            self.settle();
        }
        found
    }

    /// Takes the message that a probe would find out of matching, for [`Core::irecv_claimed`].
    pub fn claim(&mut self, inter: InterId, source: Source, tag: Tag) -> Option<MessageId> {
        let ctx = self.session.ctx(inter);
        self.session.engine.claim(ctx, source, tag)
    }

    pub fn irecv_claimed(&mut self, message: MessageId, data: Layout) -> OpId {
        let op = self.session.engine.next_op();
        let capacity = self.make_room(op, data);
        self.session.engine.recv_claimed(&mut self.session.mem, op, message, capacity);
        self.settle();
        op
    }

    /// Connects whoever could send what a probe looks for, since no operation stands for it.
    pub fn watch_source(&mut self, inter: InterId, source: Source) {
        for i in self.session.sources(inter, source) {
            self.session.want(i);
        }
    }

    /// The outcome, once; then the operation is over and its number forgotten.
    pub fn test(&mut self, op: OpId) -> Option<Outcome> {
        if self.pulls.is_running(op) {
            return None;
        }
        let mut outcome = self.session.engine.finish(op)?;
        if !self.operations.judging.is_empty() {
            outcome = self.judge_outcome(op, outcome);
            self.operations.judging.remove(&op.0);
        }
        self.session.mem.remove(op);
        Some(outcome)
    }

    /// Runs of partitions of a partitioned send are ready: see [`Engine::ready`].
    #[must_use]
    pub fn ready(&mut self, op: OpId, runs: &[(u32, u32)]) -> bool {
        let fine = self.session.engine.ready(&self.session.mem, op, runs);
        self.settle();
        fine
    }

    /// Whether no partition of a partitioned send is still to be marked.
    pub fn all_ready(&self, op: OpId) -> bool {
        self.session.engine.all_ready(op)
    }

    /// Whether these packed bytes are in the buffer of a receive, or it is over. What is converted comes as a whole.
    pub fn has_arrived(&self, op: OpId, offset: u64, len: u64) -> bool {
        let converts = !self.operations.judging.is_empty() && self.session.mem.get(op.0).is_some_and(Layout::converts);
        if converts { self.has_outcome(op) } else { self.session.engine.has_arrived(op, offset, len) }
    }

    /// Whether an operation goes on, asked for or not.
    pub fn pending(&self, op: OpId) -> bool {
        self.session.engine.pending(op)
    }

    /// The outcome, left in place.
    pub fn peek(&mut self, op: OpId) -> Option<Outcome> {
        if self.pulls.is_running(op) {
            return None;
        }
        let outcome = self.session.engine.outcome(op)?;
        Some(if self.operations.judging.is_empty() { outcome } else { self.judge_outcome(op, outcome) })
    }

    pub fn has_outcome(&self, op: OpId) -> bool {
        !self.pulls.is_running(op) && self.session.engine.outcome(op).is_some()
    }

    /// Compares the types of a message with those of its receive, and converts what a job with another representation sent,
    /// the first time that somebody sees the outcome: it tells of bytes as they are here.
    fn judge_outcome(&mut self, op: OpId, outcome: Outcome) -> Outcome {
        let Some(judging) = self.operations.judging.get_mut(&op.0) else { return outcome };
        if let Some(judged) = judging.outcome {
            return judged;
        }
        let (e, whole) = match outcome {
            Outcome::Received(e) => (e, None),
            Outcome::Truncated { source, tag, size, whole } => (Envelope { source, tag, size }, Some(whole)),
            _ => return outcome,
        };
        let Some(layout) = self.session.mem.get(op.0) else { return outcome };
        let is_unsigned = judging.note.is_none() && e.size > 0 && layout.types().is_some();
        let wrong = judging.note.as_ref().zip(layout.types()).and_then(|(note, types)| types.judge(note, whole));
        // What is no value of these types is not converted.
        let differ = wrong.as_ref().is_some_and(|wrong| wrong.differ);
        let converted = if differ { None } else { layout.convert(e.size) };
        let size = converted.map_or(e.size, |done| done.bytes);
        let fits = converted.is_none_or(|done| done.fits);
        let (source, tag) = (e.source, e.tag);
        let judged = match (wrong, whole) {
            (Some(wrong), _) => Outcome::Wrong { source, tag, size, why: wrong.keep() },
            (None, Some(whole)) => Outcome::Truncated { source, tag, size, whole },
            (None, None) if fits => Outcome::Received(Envelope { size, ..e }),
            (None, None) => Outcome::OutOfRange(Envelope { size, ..e }),
        };
        judging.outcome = Some(judged);
        if is_unsigned {
            tell_of_one_side("without", "the other one");
        }
        judged
    }

    pub fn forget(&mut self, op: OpId) {
        // What has to be judged is asked for its outcome all the same.
        if !self.operations.judging.contains_key(&op.0) {
            self.session.engine.forget(op);
        }
        self.operations.forgotten.push(op);
        self.sweep();
    }

    /// Takes back a receive that has no message yet: then its outcome says so.
    pub fn cancel(&mut self, op: OpId) -> bool {
        self.session.engine.cancel_recv(op)
    }

    /// Finalize: nobody will ask for anything any more. Receives without a message are taken back; what is matched, or
    /// sent and may still be matched, goes on to its end.
    pub(crate) fn forget_all(&mut self) {
        let mut ops = self.session.engine.going_on();
        ops.extend(self.operations.judging.keys().map(|op| OpId(*op)).filter(|op| self.has_outcome(*op)));
        for op in ops {
            self.cancel(op);
            if !self.operations.forgotten.contains(&op) {
                self.forget(op);
            }
        }
    }

    /// Lets go of the buffers of forgotten operations that are over.
    pub(crate) fn sweep(&mut self) {
        if !self.operations.judging.is_empty() {
            let judging = &self.operations.judging;
            let ops: Vec<_> =
                self.operations.forgotten.iter().filter(|op| judging.contains_key(&op.0)).copied().collect();
            for op in ops {
                self.test(op);
            }
        }
        let (engine, mem, pulls) = (&self.session.engine, &mut self.session.mem, &self.pulls);
        self.operations.forgotten.retain(|op| {
            let pending = engine.pending(*op) || pulls.is_running(*op);
            if !pending {
                mem.remove(*op);
            }
            pending
        });
    }

    /// Operations that go on though nobody will ask for them.
    pub(crate) fn forgotten(&self) -> usize {
        self.operations.forgotten.len()
    }
}
