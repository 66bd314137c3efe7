//! The calls for one message: send, receive, probe, and the outcome.
//!
//! Part of the core. Invariant: an operation's buffer stays in the table until the operation has completed, even if its
//! outcome will not be asked for.

use crate::judge::tell_of_one_side;
use crate::memory::Layout;
use crate::state::Core;
use crate::state::operations::Judging;
use base::protocol::message::READ_FROM;
use engine::{Ctx, Envelope, MessageId, Mode, OpId, Outcome, Probe, Source, Tag};
use session::{InterId, SentNow};
use transports::registry::Polled;

impl Core {
    /// A send in standard mode that completes at once, since its data can leave or be copied now. If that is not possible, use
    /// [`Core::isend`].
    // Inlined with all that it calls, down to the lane's memory: nothing in between has to be a value of its own.
    #[inline(always)]
    pub(crate) fn send_now(&mut self, inter: InterId, dest: u32, tag: i64, data: &Layout) -> SentNow {
        let to = (self.session.ctx_with(inter, Source::Rank(dest)), dest, tag);
        self.note_polls(to.0, dest, data.bytes());
        let pack = |at: u64, to: &mut [u8]| {
            data.pack(at, to);
        };
        self.session.send_now(to, data.bytes(), pack, |len, body| data.read(0, len, body), || data.run())
    }

    /// As [`Core::send_now`], for a message of [`READ_FROM`] bytes or more: of these many are announced, so the lock is kept, under which
    /// [`Core::isend`] follows for these. Whether it is sent.
    #[inline(never)]
    #[must_use]
    pub fn send_long_now(&mut self, inter: InterId, dest: u32, tag: i64, data: &Layout) -> bool {
        debug_assert!(data.types().is_none(), "they travel with an operation's message");
        self.send_now(inter, dest, tag, data) != SentNow::No
    }

    /// Starts a send. `dest` is a rank in the remote group. On an inter-communicator that was closed, the outcome is
    /// [`crate::Fault::Revoked`].
    pub fn isend(&mut self, inter: InterId, dest: u32, tag: i64, data: Layout, mode: Mode) -> OpId {
        if mode == Mode::Standard && self.copies_sends() {
            return self.isend_copied(inter, dest, tag, data, Vec::new());
        }
        let ctx = self.session.ctx_with(inter, Source::Rank(dest));
        let op = self.session.engine.next_op();
        let size = data.bytes();
        let at = if size >= READ_FROM { data.run().map(|run| run.as_ptr() as u64) } else { None };
        self.session.mem.insert(op, data);
        self.note_polls(ctx, dest, size);
        if !at.is_some_and(|at| self.session.announce_now(op, (ctx, dest, tag), (at, size), mode)) {
            self.session.engine.send(&self.session.mem, op, ctx, dest, tag, size, mode);
        }
        self.settle();
        op
    }

    /// Starts a send whose types, if its layout has any, travel with the message.
    pub(crate) fn isend_signed(&mut self, inter: InterId, dest: u32, tag: i64, data: Layout, mode: Mode) -> OpId {
        let Some(note) = data.types().map(|types| types.note()) else {
            return self.isend(inter, dest, tag, data, mode);
        };
        if mode == Mode::Standard && self.copies_sends() {
            return self.isend_copied(inter, dest, tag, data, note);
        }
        self.isend_noted(inter, dest, tag, data, (mode, note))
    }

    fn isend_noted(&mut self, inter: InterId, dest: u32, tag: i64, data: Layout, how: (Mode, Vec<u8>)) -> OpId {
        let ctx = self.session.ctx_with(inter, Source::Rank(dest));
        let op = self.session.engine.next_op();
        let size = data.bytes();
        self.session.mem.insert(op, data);
        self.note_polls(ctx, dest, size);
        self.session.engine.send_noted(&self.session.mem, op, ctx, dest, tag, size, how);
        self.settle();
        op
    }

    /// Tells the engine whether the process that this message goes to polls, if that decides whether it is announced.
    #[inline(always)]
    fn note_polls(&mut self, ctx: Ctx, dest: u32, size: u64) {
        if size >= READ_FROM
            && let Some(peer) = self.session.engine.members(ctx).and_then(|members| members.get(dest))
        {
            let polls = self.polled_lane(peer.0 as usize).is_some_and(Polled::is_other_awake);
            self.session.engine.set_polls(peer, polls);
        }
    }

    /// A send in standard mode that completes at once: its message goes from a copy.
    #[cold]
    fn isend_copied(&mut self, inter: InterId, dest: u32, tag: i64, data: Layout, note: Vec<u8>) -> OpId {
        let op = self.isend_noted(inter, dest, tag, data.packed(), (Mode::Standard, note));
        if self.session.engine.outcome(op).is_some() {
            return op;
        }
        self.forget(op);
        self.session.engine.sent_as_copy()
    }

    /// Keeps the types that came with the message of a receive, to compare them when the receive completes.
    pub(crate) fn note(&mut self, op: OpId, note: Vec<u8>) {
        match (self.operations.judging.get_mut(&op.0), self.session.mem.get(op.0).and_then(Layout::types)) {
            (Some(judging), Some(_)) => judging.note = Some(note),
            _ => tell_of_one_side("with", "this one"),
        }
    }

    /// Starts a receive. On an inter-communicator that was closed, the outcome is [`crate::Fault::Revoked`].
    // Inlined, so that the layout is made where it stays, and nothing is asked that its maker knows.
    #[inline(always)]
    pub fn irecv(&mut self, inter: InterId, source: Source, tag: Tag, data: Layout) -> OpId {
        let ctx = self.session.ctx_with(inter, source);
        let op = self.session.engine.next_op();
        let capacity = self.register_buffer(op, data);
        self.session.engine.recv(&mut self.session.mem, op, ctx, source, tag, capacity);
        self.settle();
        op
    }

    /// A receive whose message waits. `None`: nothing has changed, use [`Core::recv_now`]. Credit that was given back is still to be
    /// told.
    #[inline(always)]
    pub(crate) fn take_waiting(
        &mut self,
        inter: InterId,
        source: Source,
        tag: Tag,
        data: impl Fn() -> Layout,
    ) -> Option<Envelope> {
        let ctx = self.session.ctx_with(inter, source);
        debug_assert!(!data().judges());
        self.session.engine.take_waiting((ctx, source, tag), data().bytes(), |bytes| data().write(0, bytes))
    }

    /// A receive whose message comes while the busy lanes are looked at a few times. It takes no operation. `None`: nothing has
    /// changed, use [`Core::irecv`]. The second value says whether lanes have brought something.
    #[inline(always)]
    pub(crate) fn recv_now(
        &mut self,
        inter: InterId,
        source: Source,
        tag: Tag,
        data: Layout,
    ) -> (Option<Outcome>, bool) {
        let from = (self.session.ctx_with(inter, source), source, tag);
        let (capacity, mut found) = (data.bytes(), false);
        self.session.mem.set_now(Some(data));
        let outcome = if self.session.engine.recv_now(from.0, source, tag, capacity) {
            let all = self.looks();
            let may = self.pace.crowd.looks(all, true);
            for _ in 0..may {
                if self.session.engine.is_over_now() {
                    break;
                }
                if self.read_busy() {
                    found = true;
                } else {
                    self.pause_between_looks();
                }
            }
            // Where they were in vain, a wait follows, which tells.
            if found {
                self.pace.crowd.has_looked(true, may < all);
            }
            match self.session.engine.end_now() {
                None if self.session.engine.has_missed() => self.read_now(from, capacity),
                outcome => outcome,
            }
        } else {
            self.read_now(from, capacity)
        };
        self.session.mem.set_now(None);
        // The message may have given credit back.
        if !self.session.is_settled() || self.session.has_actions() {
            self.settle();
        }
        (outcome, found)
    }

    /// Registers the buffer of a receive, and returns its size in bytes.
    #[inline(always)]
    fn register_buffer(&mut self, op: OpId, data: Layout) -> u64 {
        let capacity = data.bytes();
        if data.judges() {
            self.operations.judging.insert(op.0, Judging::default());
        }
        self.session.mem.insert(op, data);
        capacity
    }

    /// Looks for a message that a receive would match, without taking it: `MPI_Iprobe`.
    pub fn probe(&mut self, inter: InterId, source: Source, tag: Tag) -> Probe {
        let ctx = self.session.ctx(inter);
        let found = self.session.engine.probe(ctx, source, tag);
        if found == Probe::None {
            self.session.note_probe(inter, source);
            // A probe that finds nothing may give credit to the senders.
            self.settle();
        }
        found
    }

    /// Takes the message that a probe would find out of matching, for [`crate::Node::irecv_claimed`]: `MPI_Improbe`.
    /// `None`: there is none.
    pub fn claim(&mut self, inter: InterId, source: Source, tag: Tag) -> Option<MessageId> {
        let ctx = self.session.ctx(inter);
        self.session.engine.claim(ctx, source, tag)
    }

    pub(crate) fn irecv_claimed(&mut self, message: MessageId, data: Layout) -> OpId {
        let op = self.session.engine.next_op();
        let capacity = self.register_buffer(op, data);
        self.session.engine.recv_claimed(&mut self.session.mem, op, message, capacity);
        self.settle();
        op
    }

    /// Connects the processes that could send the message of a probe. For a receive the engine does this; a probe is no
    /// operation.
    pub fn watch_source(&mut self, inter: InterId, source: Source) {
        self.session.watch_source(inter, source);
    }

    /// The outcome of an operation that is complete, which is then forgotten with its number. `None`: it is pending.
    pub fn test(&mut self, op: OpId) -> Option<Outcome> {
        if !self.operations.judging.is_empty() && self.is_to_be_converted(op) {
            return None;
        }
        self.finish(op)
    }

    /// The envelope of a receive that has its whole message, which is then forgotten with its number. `None`: nothing has changed, and
    /// [`Core::test`] says more.
    #[inline(always)]
    pub fn take_received(&mut self, op: OpId) -> Option<Envelope> {
        if !self.operations.judging.is_empty() || !self.pulls.is_idle() {
            return None;
        }
        let envelope = self.session.engine.take_received(op)?;
        self.session.mem.remove(op);
        Some(envelope)
    }

    /// As [`Core::test`], but a message that has to be converted is converted under the lock.
    #[inline]
    fn finish(&mut self, op: OpId) -> Option<Outcome> {
        if self.pulls.is_running(op) {
            return None;
        }
        let mut outcome = self.session.engine.finish(op)?;
        if let Some(pair) = self.pulls.ways.end(op) {
            self.note_sooner(pair);
        }
        if !self.operations.judging.is_empty() {
            outcome = self.judge_outcome(op, outcome);
            self.operations.judging.remove(&op.0);
        }
        self.session.mem.remove(op);
        Some(outcome)
    }

    /// Marks partitions of a partitioned send as ready: `start..end` for each of `runs`. False, and nothing has
    /// changed: there is no such send or partition, or a partition was marked before.
    #[must_use]
    pub fn ready(&mut self, op: OpId, runs: &[(u32, u32)]) -> bool {
        let fine = self.session.engine.ready(&self.session.mem, op, runs);
        self.settle();
        fine
    }

    /// Whether all partitions of a partitioned send are marked as ready. True also if there is no such send.
    pub fn all_ready(&self, op: OpId) -> bool {
        self.session.engine.all_ready(op)
    }

    /// Whether these packed bytes are in the buffer of a receive, or the receive has completed. A message that is
    /// converted arrives only as a whole.
    pub fn has_arrived(&self, op: OpId, offset: u64, len: u64) -> bool {
        let converts = !self.operations.judging.is_empty() && self.session.mem.get(op.0).is_some_and(Layout::converts);
        if converts { self.has_outcome(op) } else { self.session.engine.has_arrived(op, offset, len) }
    }

    /// Whether an operation has not completed, be its outcome asked for or not.
    pub fn pending(&self, op: OpId) -> bool {
        self.session.engine.pending(op)
    }

    /// The outcome of an operation that is complete. The operation stays.
    pub fn peek(&mut self, op: OpId) -> Option<Outcome> {
        if self.is_worked_on(op) {
            return None;
        }
        let outcome = self.session.engine.outcome(op)?;
        Some(if self.operations.judging.is_empty() { outcome } else { self.judge_outcome(op, outcome) })
    }

    /// Whether an operation is complete, so that [`Core::test`] would return its outcome.
    pub fn has_outcome(&self, op: OpId) -> bool {
        !self.is_worked_on(op) && self.session.engine.outcome(op).is_some()
    }

    pub(crate) fn forget(&mut self, op: OpId) {
        // The message of such a receive is compared or converted all the same, and `sweep` asks for its outcome.
        if !self.operations.judging.contains_key(&op.0) {
            self.session.engine.forget(op);
        }
        self.operations.forgotten.push(op);
        self.sweep();
    }

    /// See [`crate::Node::cancel`].
    pub(crate) fn cancel(&mut self, op: OpId) -> bool {
        self.session.engine.cancel_recv(op)
    }

    /// Forgets all operations, for `MPI_Finalize`. Receives without a message are cancelled. Receives that have
    /// matched, and all sends, go on to their end.
    pub(crate) fn forget_all(&mut self) {
        let mut ops = self.session.engine.going_on();
        ops.extend(
            self.operations.judging.keys().map(|op| OpId(*op)).filter(|op| self.session.engine.outcome(*op).is_some()),
        );
        for op in ops {
            self.cancel(op);
            if !self.operations.forgotten.contains(&op) {
                self.forget(op);
            }
        }
    }

    /// Removes the buffers of forgotten operations that have completed.
    pub(crate) fn sweep(&mut self) {
        if !self.operations.judging.is_empty() {
            let judging = &self.operations.judging;
            let ops: Vec<_> =
                self.operations.forgotten.iter().filter(|op| judging.contains_key(&op.0)).copied().collect();
            for op in ops {
                // A large message is converted by whoever makes progress next, without the lock.
                self.test(op);
            }
        }
        let (engine, mem, pulls) = (&self.session.engine, &mut self.session.mem, &self.pulls);
        let judging = &self.operations.judging;
        self.operations.forgotten.retain(|op| {
            let pending = engine.pending(*op)
                || pulls.is_running(*op)
                || judging.contains_key(&op.0) && engine.outcome(*op).is_some();
            if !pending {
                mem.remove(*op);
            }
            pending
        });
    }

    /// The number of forgotten operations that are still pending.
    pub(crate) fn forgotten(&self) -> usize {
        self.operations.forgotten.len()
    }
}
