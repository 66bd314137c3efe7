//! One simulated process: an engine, a path and lanes to each process of the other group, and the program it runs.

use crate::program::{Program, Record, UNREADY, content};
use base::bytes::Malformed;
use base::memory::VecMemory;
use base::{Memory, ProcId};
use engine::{
    Awaited, Config, ContextId, Ctx, Engine, Envelope, Fault, Mode, OpId, Outcome, Output, PeerId, Probe, Source, Tag,
};
use std::collections::VecDeque;
use std::io;
use transports::frame::{Header, Kind};
use transports::lane::{Event, Lane, Sink};
use transports::path::{BulkTx, Limits, Path};
use transports::sim::Rng;

pub struct Link {
    pub other: usize,
    pub peer: PeerId,
    pub path: Path,
    pub lanes: Vec<(u16, Box<dyn Lane<VecMemory>>)>,
    pub attached_once: bool,
    pub asked_at: u64,
    /// Bulk that was missing when time was last taken.
    pub missing: u64,
    pub life: Life,
}

/// Signs of life that are asked for and given.
#[derive(Default)]
pub struct Life {
    pub asked_at: u64,
    /// The last question of the other side that has come.
    pub heard: u64,
    /// The question of ours that was answered last, until somebody looks; and how many were.
    pub answered: Option<u64>,
    pub answers: u64,
}

/// A receive that takes its data out of another process's memory.
pub struct Pull {
    pub from: usize,
    pub peer: PeerId,
    pub op: OpId,
    /// (address, length), without what has been read.
    pub pieces: VecDeque<(u64, u64)>,
    pub done: u64,
}

pub struct Proc {
    pub id: usize,
    pub engine: Engine,
    pub mem: VecMemory,
    pub links: Vec<Link>,
    pub ctxs: Vec<Option<Ctx>>,
    next_send: usize,
    next_recv: usize,
    sending: Vec<OpId>,
    marking: Vec<Marking>,
    /// Parts of receives that were said to have arrived: operation, offset, what was there.
    glimpses: Vec<(OpId, u64, Vec<u8>)>,
    /// Operation and its place in `records`.
    receiving: Vec<(OpId, usize)>,
    pub records: Vec<Record>,
    pub fault: Option<String>,
    pub pulls: Vec<Pull>,
    /// The process that it has been told is dead.
    pub bereaved: Option<usize>,
    /// Counts ends of receives.
    ended: u64,
}

/// A partitioned send, and its partitions that are not ready, in the order in which they will be.
struct Marking {
    op: OpId,
    message: usize,
    each: u64,
    left: Vec<u32>,
}

/// Guard bytes after each receive buffer.
const GUARD: usize = 4;

struct To<'a> {
    engine: &'a mut Engine,
    mem: &'a mut VecMemory,
    path: &'a mut Path,
    life: &'a mut Life,
    peer: PeerId,
    fault: &'a mut Option<String>,
}

impl Sink for To<'_> {
    fn on_frame(&mut self, header: &Header, payload: &[u8]) -> Result<(), Malformed> {
        let (engine, mem, peer) = (&mut *self.engine, &mut *self.mem, self.peer);
        let (asking, accepted) = (self.path.is_asking(), self.path.accepts(header));
        let result = self.path.on_frame(header, payload, |body| engine.on_message(mem, peer, body));
        match header.kind {
            Kind::Ping if accepted => self.life.heard = self.life.heard.max(header.a),
            Kind::Pong if asking && !self.path.is_asking() => {
                self.life.answered = Some(header.a);
                self.life.answers += 1;
            }
            _ => (),
        }
        if result.is_err() {
            self.fault.get_or_insert(format!("malformed: {header:?}"));
        }
        result.map(|_| ())
    }

    fn on_bulk(
        &mut self,
        header: &Header,
        at: usize,
        read: &mut dyn FnMut(&mut [io::IoSliceMut<'_>]) -> io::Result<usize>,
    ) -> Option<io::Result<usize>> {
        debug_assert_eq!(header.kind, Kind::Bulk);
        let (offset, len) = (header.b + at as u64, header.len as usize - at);
        if !self.path.accepts(header) || !self.engine.bulk_wanted(self.peer, header.a, offset, len as u64) {
            return None;
        }
        let result = self.mem.with_slices_mut(header.a, offset, len, 64, read);
        if let Ok(n) = result {
            self.engine.on_bulk(self.peer, header.a, offset, n as u64);
        }
        Some(result)
    }
}

impl Proc {
    pub fn new(id: usize, cfg: Config, limits: &Limits, ids: &[ProcId], others: &[usize]) -> Proc {
        let mut engine = Engine::new(cfg);
        let links = others
            .iter()
            .map(|&other| Link {
                other,
                peer: engine.add_peer(1),
                path: Path::with_limits(ids[id], ids[other], limits.clone()),
                lanes: Vec::new(),
                attached_once: false,
                asked_at: 0,
                missing: 0,
                life: Life::default(),
            })
            .collect();
        Proc {
            id,
            engine,
            mem: VecMemory::default(),
            links,
            ctxs: vec![None; crate::program::CONTEXTS],
            next_send: 0,
            next_recv: 0,
            sending: Vec::new(),
            marking: Vec::new(),
            glimpses: Vec::new(),
            receiving: Vec::new(),
            records: Vec::new(),
            fault: None,
            pulls: Vec::new(),
            bereaved: None,
            ended: 0,
        }
    }

    pub fn open(&mut self, ctx: usize, rank: u32) {
        if self.ctxs[ctx].is_none() {
            let peers = self.links.iter().map(|l| l.peer).collect();
            self.ctxs[ctx] = Some(self.engine.open(context(ctx), rank, peers));
        }
    }

    /// Starts the next send of the program.
    pub fn send(&mut self, program: &Program, rank: &[u32], rng: &mut Rng) {
        let Some(&id) = program.sends[self.id].get(self.next_send) else { return };
        let m = &program.messages[id];
        let Some(ctx) = self.ctxs[m.ctx] else { return };
        self.next_send += 1;
        let op = self.engine.next_op();
        if let Mode::Partitioned(count) = m.mode {
            let mut left: Vec<_> = (0..count).collect();
            crate::program::shuffle(rng, &mut left);
            self.marking.push(Marking { op, message: id, each: m.size / u64::from(count), left });
            self.mem.0.insert(op.0, vec![UNREADY; m.size as usize]);
        } else {
            self.mem.0.insert(op.0, (0..m.size).map(|at| content(id, at)).collect());
        }
        self.engine.send(&self.mem, op, ctx, rank[m.to], m.tag, m.size, m.mode);
        self.sending.push(op);
    }

    /// Some partitions of a send become ready, and parts of a receive are looked at.
    pub fn mark(&mut self, rng: &mut Rng) {
        if !self.marking.is_empty() {
            let at = rng.below(self.marking.len() as u64) as usize;
            let m = &mut self.marking[at];
            let mut now = m.left.split_off(m.left.len().saturating_sub(1 + rng.below(3) as usize));
            now.sort_unstable();
            let buffer = self.mem.0.get_mut(&m.op.0).expect("its buffer is there");
            for i in now.iter().flat_map(|p| u64::from(*p) * m.each..u64::from(p + 1) * m.each) {
                buffer[i as usize] = content(m.message, i);
            }
            let runs: Vec<_> = now.iter().map(|p| (*p, p + 1)).collect();
            let (op, over) = (m.op, m.left.is_empty());
            let fine = self.engine.ready(&self.mem, op, &runs) && !self.engine.ready(&self.mem, op, &runs);
            if over {
                self.marking.swap_remove(at);
            }
            if !fine {
                self.fail(format!("partitions {runs:?} are not ready once"));
            }
        }
        if !self.receiving.is_empty() {
            let (op, at) = self.receiving[rng.below(self.receiving.len() as u64) as usize];
            let offset = rng.below(self.records[at].capacity + 1);
            let len = rng.below((self.records[at].capacity - offset).min(100) + 1);
            if self.engine.pending(op) && self.engine.has_arrived(op, offset, len) {
                let seen = self.mem.0[&op.0][offset as usize..(offset + len) as usize].to_vec();
                self.glimpses.push((op, offset, seen));
            }
        }
    }

    /// Posts the next receive of the program.
    pub fn recv(&mut self, program: &Program) {
        let Some(want) = program.receives[self.id].get(self.next_recv) else { return };
        let Some(ctx) = self.ctxs[want.ctx] else { return };
        let (mut source, mut tag, mut found) = (want.source, want.tag, None);
        if want.probe {
            match self.engine.probe(ctx, source, tag) {
                Probe::Found(envelope) => {
                    (source, tag) = (Source::Rank(envelope.source), Tag::Is(envelope.tag));
                    found = Some(envelope.size);
                }
                Probe::None => return,
                Probe::Failed(Fault::PeerDead) if self.bereaved.is_some() => {
                    self.next_recv += 1;
                    return;
                }
                Probe::Failed(fault) => return self.fail(format!("probe: {fault:?}")),
            }
        }
        self.next_recv += 1;
        self.post(want.ctx, source, tag, want.capacity);
        let got = self.engine.outcome(self.receiving[self.receiving.len() - 1].0);
        let (op, capacity) = (self.receiving[self.receiving.len() - 1].0, want.capacity);
        if let Some(size) = found
            && self.engine.awaited(op).is_some_and(|a| !matches!(a, Awaited::Data(_, _, s) if s == size.min(capacity)))
        {
            self.fail(format!("probe: the message of {size} bytes that was seen is not there: {got:?}"));
        }
    }

    pub fn post(&mut self, ctx: usize, source: Source, tag: Tag, capacity: u64) {
        let op = self.engine.next_op();
        self.mem.0.insert(op.0, vec![0xee; capacity as usize + GUARD]);
        let slot = self.ctxs[ctx].expect("open");
        self.engine.recv(&mut self.mem, op, slot, source, tag, capacity);
        self.records.push(Record { ctx, source, tag, capacity, message: None, ended: 0 });
        self.receiving.push((op, self.records.len() - 1));
    }

    /// Takes what is complete.
    pub fn reap(&mut self, program: &Program, rank: &[u32]) {
        let mut i = 0;
        while i < self.sending.len() {
            match self.engine.finish(self.sending[i]) {
                Some(Outcome::Sent) if self.marking.iter().any(|m| m.op == self.sending[i]) => {
                    return self.fail("a send ended before its partitions were ready".into());
                }
                Some(Outcome::Sent) => {
                    self.mem.0.remove(&self.sending.swap_remove(i).0);
                }
                Some(Outcome::Failed(Fault::PeerDead)) if self.bereaved.is_some() => {
                    let op = self.sending.swap_remove(i);
                    self.mem.0.remove(&op.0);
                    self.marking.retain(|m| m.op != op);
                }
                Some(other) => return self.fail(format!("send: {other:?}")),
                None => i += 1,
            }
        }
        let mut i = 0;
        while i < self.receiving.len() {
            let (op, at) = self.receiving[i];
            let Some(outcome) = self.engine.finish(op) else {
                i += 1;
                continue;
            };
            self.receiving.swap_remove(i);
            let data = self.mem.0.remove(&op.0).expect("its buffer is there");
            let seen: Vec<_> = self.glimpses.extract_if(.., |(of, ..)| *of == op).collect();
            if seen.iter().any(|(_, at, bytes)| !data[*at as usize..].starts_with(bytes)) {
                return self.fail("bytes: what had arrived changed".into());
            }
            if let Err(fault) = self.received(program, rank, at, outcome, &data) {
                return self.fail(fault);
            }
        }
    }

    fn received(
        &mut self,
        program: &Program,
        rank: &[u32],
        at: usize,
        outcome: Outcome,
        data: &[u8],
    ) -> Result<(), String> {
        if outcome == Outcome::Failed(Fault::PeerDead) && self.bereaved.is_some() {
            self.ended += 1;
            self.records[at].ended = self.ended;
            return Ok(());
        }
        let envelope = match outcome {
            Outcome::Received(envelope) => envelope,
            Outcome::Truncated { source, tag, size, .. } => Envelope { source, tag, size },
            _ => return Err(format!("receive: {outcome:?}")),
        };
        let from = self.links[envelope.source as usize].other;
        let record = &mut self.records[at];
        self.ended += 1;
        record.ended = self.ended;
        record.message = Some(program.identify(self.id, from, record.ctx, envelope, data)?);
        program.check(record, outcome, data, rank[from])
    }

    fn fail(&mut self, fault: String) {
        self.fault.get_or_insert(format!("process {}: {fault}", self.id));
    }

    pub fn pending_receives(&self) -> usize {
        self.receiving.len()
    }

    pub fn started_all(&self, program: &Program) -> bool {
        self.next_send == program.sends[self.id].len() && self.next_recv == program.receives[self.id].len()
    }

    pub fn done(&self, program: &Program) -> bool {
        self.started_all(program) && self.sending.is_empty() && self.receiving.is_empty()
    }

    /// Loose receives took each other's messages and some wait for ever: they go, and receives for anything take their
    /// place.
    pub fn loosen(&mut self, program: &Program) {
        for want in &program.receives[self.id][self.next_recv..] {
            if program.loose[self.id][want.ctx] && want.probe && self.ctxs[want.ctx].is_some() {
                self.next_recv += 1;
                self.post(want.ctx, Source::Any, Tag::Any, want.capacity);
            } else {
                break;
            }
        }
        for (op, at) in std::mem::take(&mut self.receiving) {
            let Record { ctx, capacity, .. } = self.records[at];
            let wild = !matches!(self.records[at].tag, Tag::Is(tag) if tag < 0);
            if wild && program.loose[self.id][ctx] && self.engine.cancel_recv(op) {
                self.mem.0.remove(&op.0);
                self.ended += 1;
                self.records[at].ended = self.ended;
                self.post(ctx, Source::Any, Tag::Any, capacity);
            } else {
                self.receiving.push((op, at));
            }
        }
    }

    /// Engine to paths, paths to lanes.
    pub fn pump(&mut self) {
        for link in &mut self.links {
            self.engine.set_backlogged(&self.mem, link.peer, link.path.backlogged());
        }
        for _ in 0..8 {
            let Some(output) = self.engine.next_output() else { break };
            match output {
                Output::Message { peer, bytes } => self.links[peer.0 as usize].path.send(bytes),
                Output::Bulk { peer, receiver_op, op, offset, len } => {
                    let link = &mut self.links[peer.0 as usize];
                    link.path.queue_bulk(BulkTx { receiver_op, buf: op.0, offset, len: len as u32 });
                    self.engine.set_backlogged(&self.mem, peer, link.path.backlogged());
                }
                Output::Get { peer, op, pieces, .. } => {
                    let from = self.links[peer.0 as usize].other;
                    self.pulls.push(Pull { from, peer, op, pieces: pieces.into(), done: 0 });
                }
                // Nobody here is a leader, notes types or asks who waits for whom.
                Output::Control { .. } | Output::Noted { .. } | Output::Asked { .. } | Output::Told { .. } => {}
            }
        }
        for link in &mut self.links {
            for (generation, lane) in &mut link.lanes {
                link.path.pump(*generation, &mut **lane, &self.mem);
                lane.flush(&self.mem);
            }
            while let Some(generation) = link.path.retired() {
                link.lanes.retain(|(g, _)| *g != generation);
            }
        }
    }

    /// Whether the lane to this process lets each side read the other's memory.
    pub fn reach(&mut self, other: usize, rng: &mut Rng, can: bool) {
        let peer = self.link(other).peer;
        self.engine.set_grips(peer, if can { 1 + rng.below(4) as usize } else { 0 });
        self.engine.set_pull(peer, can);
    }

    /// What lies at an address, if that is a buffer of an operation.
    pub fn look(&self, at: u64, len: u64) -> Option<Vec<u8>> {
        self.mem.0.values().find_map(|v| {
            let start = at.checked_sub(v.as_ptr() as u64)? as usize;
            v.get(start..start + len as usize).map(<[u8]>::to_vec)
        })
    }

    /// Goes on with a pull: `read` gives what lies in the other's memory, or nothing if it cannot be read. Whether it goes
    /// on after that.
    pub fn pull(&mut self, pull: &mut Pull, most: u64, read: impl FnOnce(u64, u64) -> Option<Vec<u8>>) -> bool {
        let (at, len) = pull.pieces[0];
        let now = len.min(most);
        if !self.engine.bulk_wanted(pull.peer, pull.op.0, pull.done, now) {
            return false;
        }
        let Some(data) = read(at, now) else {
            self.engine.pull_failed(pull.op);
            return false;
        };
        self.mem.write(pull.op.0, pull.done, &data);
        self.engine.on_bulk(pull.peer, pull.op.0, pull.done, now);
        pull.done += now;
        pull.pieces[0] = (at + now, len - now);
        if now == len {
            pull.pieces.pop_front();
        }
        !pull.pieces.is_empty()
    }

    /// Reads a lane of some link.
    pub fn poll(&mut self, rng: &mut Rng) {
        let at = rng.below(self.links.len() as u64) as usize;
        let link = &mut self.links[at];
        if link.lanes.is_empty() {
            return;
        }
        let i = rng.below(link.lanes.len() as u64) as usize;
        let (generation, lane) = &mut link.lanes[i];
        let generation = *generation;
        let mut sink = To {
            engine: &mut self.engine,
            mem: &mut self.mem,
            path: &mut link.path,
            life: &mut link.life,
            peer: link.peer,
            fault: &mut self.fault,
        };
        lane.poll(&mut sink, 1 + rng.below(5000) as usize);
        while let Some(event) = lane.event() {
            if event == Event::Dead {
                link.lanes.remove(i);
                link.path.lane_lost(generation);
                self.engine.set_pull(link.peer, false);
                self.engine.on_lane_lost(link.peer);
                break;
            }
        }
    }

    pub fn tick(&mut self, now: u64) {
        for link in &mut self.links {
            link.path.on_tick(now);
            if now >= link.life.asked_at + 40 {
                link.life.asked_at = now;
                link.path.ask();
            }
            if !link.path.lossy() || now < link.asked_at + 100 {
                continue;
            }
            link.asked_at = now;
            let missing = self.engine.bulk_missing(link.peer);
            if missing > 0 && missing == link.missing {
                if link.path.all_acknowledged() {
                    self.engine.on_lane_lost(link.peer);
                } else {
                    link.path.flush();
                }
            }
            link.missing = missing;
        }
    }

    /// State to bytes and back; lanes do not survive it.
    pub fn freeze_and_thaw(&mut self) {
        let bytes = postcard::to_allocvec(&self.engine).expect("an engine can be written");
        self.engine = postcard::from_bytes(&bytes).expect("an engine can be read");
        self.pulls.clear();
        for link in &mut self.links {
            link.lanes.clear();
            let bytes = postcard::to_allocvec(&link.path).expect("a path can be written");
            link.path = postcard::from_bytes(&bytes).expect("a path can be read");
            link.path.lanes_lost();
            self.engine.on_lane_lost(link.peer);
        }
    }

    pub fn link(&mut self, other: usize) -> &mut Link {
        self.links.iter_mut().find(|l| l.other == other).expect("linked")
    }

    /// Told of a death once nothing of the dead process is left to be read.
    pub fn mourn(&mut self, dead: usize) {
        if let Some(link) = self.links.iter().find(|l| l.other == dead)
            && link.lanes.is_empty()
            && self.bereaved.is_none()
        {
            self.engine.on_gone(link.peer, engine::Gone::Dead);
            self.bereaved = Some(dead);
        }
    }

    /// Nothing may wait for the dead.
    pub fn waits_for_the_dead(&self) -> Option<Awaited> {
        let dead = self.links.iter().find(|l| Some(l.other) == self.bereaved)?;
        let ops = self.sending.iter().chain(self.receiving.iter().map(|(op, _)| op));
        ops.filter_map(|op| self.engine.awaited(*op)).find(|awaited| match *awaited {
            Awaited::Room(p, _) | Awaited::Matched(p, _) | Awaited::Taken(p) | Awaited::Data(p, ..) => p == dead.peer,
            Awaited::Message(_, Source::Any, _) => true,
            Awaited::Partitions => false,
            Awaited::Message(_, Source::Rank(r), _) => self.links[r as usize].peer == dead.peer,
        })
    }

    /// For a run that hangs.
    pub fn describe(&self) -> String {
        let waits: Vec<_> = self.sending.iter().chain(self.receiving.iter().map(|(op, _)| op)).collect();
        let waits: Vec<_> = waits.iter().map(|op| (op.0, self.engine.awaited(**op))).collect();
        let mut out = format!(
            "process {}: sent {}, receiving {} {:?}, {:?} open",
            self.id, self.next_send, self.next_recv, waits, self.ctxs
        );
        for link in &self.links {
            let lanes: Vec<u16> = link.lanes.iter().map(|(g, _)| *g).collect();
            out += &format!("\n  to {}, lanes {lanes:?}: {:?}", link.other, link.path);
        }
        out
    }
}

/// Some join the jobs, some are made from another.
fn context(ctx: usize) -> ContextId {
    let number = ctx as u64 / 2 + 1;
    if ctx.is_multiple_of(2) { ContextId::root(number) } else { ContextId::root(1).child(number) }
}
