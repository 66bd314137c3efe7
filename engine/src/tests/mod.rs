//! Tests of two engines without paths. Outputs of one are given to the other when the test says so.

mod ahead;
mod beginnings;
mod claims;
mod credit;
mod cuts;
mod direct;
mod ends;
mod figures;
mod matching;
mod notes;
mod partitions;
mod puts;
mod segments;
mod transfers;
mod wildcards;

use crate::*;
use base::memory::VecMemory;
use std::collections::VecDeque;

pub(crate) struct Side {
    pub engine: Engine,
    pub mem: VecMemory,
    pub peer: PeerId,
    pub ctx: Ctx,
    /// Outputs on their way to the other side.
    pub wire: VecDeque<Output>,
    /// Outputs that ask for a read of the other side's memory.
    pub gets: VecDeque<Output>,
    /// Outputs that ask for a write to it.
    pub puts: VecDeque<Output>,
    /// Notes of messages that were matched.
    pub notes: Vec<(OpId, Vec<u8>)>,
}

impl Side {
    fn new(cfg: &Config) -> Side {
        let mut engine = Engine::new(cfg.clone());
        let peer = engine.add_peer(1);
        let ctx = engine.open(ContextId::root(1), 0, vec![peer]);
        Side {
            engine,
            mem: VecMemory::default(),
            peer,
            ctx,
            wire: VecDeque::new(),
            gets: VecDeque::new(),
            puts: VecDeque::new(),
            notes: Vec::new(),
        }
    }

    pub fn send(&mut self, tag: i64, data: &[u8], mode: Mode) -> OpId {
        let op = self.engine.next_op();
        self.mem.0.insert(op.0, data.to_vec());
        self.engine.send(&self.mem, op, self.ctx, 0, tag, data.len() as u64, mode);
        op
    }

    pub fn recv(&mut self, source: Source, tag: Tag, capacity: usize) -> OpId {
        let op = self.engine.next_op();
        self.mem.0.insert(op.0, vec![0; capacity]);
        self.engine.recv(&mut self.mem, op, self.ctx, source, tag, capacity as u64);
        op
    }

    pub fn data(&self, op: OpId) -> &[u8] {
        &self.mem.0[&op.0]
    }

    pub fn collect(&mut self) {
        while let Some(output) = self.engine.next_output() {
            match output {
                Output::Noted { op, note, .. } => self.notes.push((op, note)),
                Output::Get { .. } => self.gets.push_back(output),
                Output::Put { .. } => self.puts.push_back(output),
                _ => self.wire.push_back(output),
            }
        }
    }

    /// Takes the next output of `from`.
    pub fn take(&mut self, from: &mut Side) -> bool {
        from.collect();
        match from.wire.pop_front() {
            None => return false,
            Some(Output::Message { bytes, .. } | Output::Credit { bytes, .. }) => {
                self.engine.on_message(&mut self.mem, self.peer, &bytes).expect("well formed");
            }
            Some(Output::Bulk { receiver_op, op, offset, len, .. }) => {
                if let Some(receiver_op) = self.engine.bulk_op(self.peer, receiver_op)
                    && self.engine.bulk_wanted(self.peer, receiver_op, offset, len)
                {
                    let data = &from.mem.0[&op.0][offset as usize..(offset + len) as usize];
                    base::Memory::write(&mut self.mem, receiver_op, offset, data);
                    self.engine.on_bulk(self.peer, receiver_op, offset, len);
                }
            }
            Some(_) => {}
        }
        true
    }

    pub fn take_all(&mut self, from: &mut Side) {
        while self.take(from) {}
    }
}

pub(crate) fn pair(cfg: Config) -> (Side, Side) {
    (Side::new(&cfg), Side::new(&cfg))
}

/// Exchanges outputs until there are none.
pub(crate) fn settle(a: &mut Side, b: &mut Side) {
    while a.take(b) || b.take(a) {}
}

pub(crate) fn small() -> Config {
    // With the feature `plant` there is one more field.
    #[allow(clippy::needless_update)]
    let config = Config {
        eager_max: 16,
        long_eager_max: 24,
        envelopes: 4,
        eager_bytes: 64,
        extra_envelopes: 2,
        chunk: 8,
        ..Config::default()
    };
    config
}

pub(crate) const ANY: (Source, Tag) = (Source::Any, Tag::Any);

pub(crate) fn got(tag: i64, size: u64) -> Option<Outcome> {
    Some(Outcome::Received(Envelope { source: 0, tag, size }))
}

/// The outcome of a receive that was too short for a message of `whole` bytes.
pub(crate) fn truncated(tag: i64, size: u64, whole: u64) -> Option<Outcome> {
    Some(Outcome::Truncated { source: 0, tag, size, whole })
}

pub(crate) fn failed(fault: Fault) -> Option<Outcome> {
    Some(Outcome::Failed(fault))
}
