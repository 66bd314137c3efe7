//! One simulated process: a session, and the program that it runs; and what carries out what the session asks for.

use crate::lanes::SimLane;
use crate::network::{Connection, FAR, NEAR, NOBODY, Network, Stage, near_place, number};
use crate::program::{Program, Record, UNREADY, content};
use base::memory::VecMemory;
use base::{Memory, ProcId, Time};
use engine::{
    Awaited, Config, ContextId, Engine, Envelope, Fault, Gone, Mode, OpId, Outcome, PeerId, Probe, Source, Tag,
};
use session::path::Limits;
use session::{Action, Agreed, Forgotten, Group, InterId, NewLane, Own, Plant, RemoteGroup, Session, SnapshotError};
use std::collections::VecDeque;
use transports::sim::Rng;
use wire::Place;
use wire::lane::Lane;

/// A receive that takes its data out of another process's memory.
pub struct Pull {
    pub from: usize,
    pub peer: PeerId,
    pub op: OpId,
    /// (address, length), without what has been read.
    pub pieces: VecDeque<(u64, u64)>,
    pub done: u64,
}

/// Data of a send that goes into the receiver's memory.
pub struct Put {
    pub to: usize,
    /// How often that process had been thawed.
    pub life: u8,
    pub peer: PeerId,
    pub op: OpId,
    pub receiver_op: u64,
    /// Where the rest of it begins in the message, and (address, length) of where it goes.
    pub offset: u64,
    pub pieces: VecDeque<(u64, u64)>,
}

/// One process. It is one thing as a process is: its session, and beside it what the program has begun, has got and
/// still has to do.
pub struct Proc {
    pub id: usize,
    pub me: ProcId,
    /// How often it was frozen and thawed elsewhere.
    pub life: u8,
    /// What its clock is ahead of that of the run, in nanoseconds.
    ahead: u64,
    pub session: Session<SimLane, VecMemory>,
    limits: Limits,
    pub plant: Plant,
    /// A value that is forgotten when its snapshot is read.
    pub forgets: Option<Forgotten>,
    /// A restored session is not compared with its snapshot.
    pub is_lenient: bool,
    pub inters: Vec<Option<InterId>>,
    /// The processes of the other group, by rank, and their names.
    pub others: Vec<usize>,
    ids: Vec<ProcId>,
    next_send: usize,
    next_recv: usize,
    sending: Vec<OpId>,
    marking: Vec<Marking>,
    /// Parts of receives that were reported as arrived: operation, offset, and the bytes seen there.
    glimpses: Vec<(OpId, u64, Vec<u8>)>,
    /// Operation and its place in `records`.
    receiving: Vec<(OpId, usize)>,
    pub records: Vec<Record>,
    pub fault: Option<String>,
    pub pulls: Vec<Pull>,
    pub puts: Vec<Put>,
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

/// The cookie of a group.
pub fn cookie(incarnation: u64) -> [u8; 16] {
    [incarnation as u8; 16]
}

/// A hash that tells other records apart.
pub fn digest(bytes: &[u8]) -> [u8; 16] {
    base::hash::fnv128(bytes).to_le_bytes()
}

fn own(process: [u8; 16], host: [u8; 16], descriptors: usize) -> Own {
    Own { process, host, transports: vec![(NEAR, Ok(())), (FAR, Ok(()))], descriptors, digest }
}

impl Proc {
    pub fn new(id: usize, cfg: Config, limits: &Limits, ids: &[ProcId], others: &[usize], net: &Network) -> Proc {
        let host = [net.hosts[id] + 1; 16];
        let mut session =
            Session::new(own(number(id, 0), host, net.descriptors), Engine::new(cfg), VecMemory::default());
        session.set_limits(limits.clone());
        session.set_most_at_once(net.at_once);
        let ProcId { incarnation, rank } = ids[id];
        let size = (ids.len() - others.len()) as u32;
        session.add_group(Group { incarnation, cookie: cookie(incarnation), rank, size });
        Proc {
            id,
            me: ids[id],
            life: 0,
            ahead: 0,
            session,
            limits: limits.clone(),
            plant: Plant::None,
            forgets: None,
            is_lenient: false,
            inters: vec![None; crate::program::CONTEXTS],
            others: others.to_vec(),
            ids: ids.to_vec(),
            next_send: 0,
            next_recv: 0,
            sending: Vec::new(),
            marking: Vec::new(),
            glimpses: Vec::new(),
            receiving: Vec::new(),
            records: Vec::new(),
            fault: None,
            pulls: Vec::new(),
            puts: Vec::new(),
            ended: 0,
        }
    }

    /// The session of a process that knows none of the others.
    pub fn stranger(process: [u8; 16], host: u8) -> Session<SimLane, VecMemory> {
        Session::new(own(process, [host + 1; 16], 1024), Engine::new(Config::default()), VecMemory::default())
    }

    /// `lives`: how often each process was restarted.
    pub fn open(&mut self, ctx: usize, net: &Network, lives: &[u8]) {
        if self.inters[ctx].is_none() {
            let incarnation = self.ids[self.others[0]].incarnation;
            let contacts: Vec<_> = self.others.iter().map(|o| net.contact(*o, lives[*o])).collect();
            let remote = RemoteGroup { incarnation, cookie: cookie(incarnation), contacts: contacts.into() };
            self.inters[ctx] = Some(self.session.open(self.me, &remote, context(ctx)));
        }
    }

    /// The time by its own clock.
    pub fn now(&self, net: &Network) -> Time {
        Time(net.clock.get() * 1_000_000 + self.ahead)
    }

    /// The number of its pair with another process, once there is one.
    pub fn pair(&self, other: usize) -> Option<usize> {
        self.session.find_pair(self.me, self.ids[other])
    }

    /// Which process a pair's other side is.
    pub fn other(&self, pair: usize, net: &Network) -> Option<usize> {
        net.owners.get(&self.session.pair(pair).remote()).copied()
    }

    /// Whether it has given up any process for dead.
    fn has_lost(&self) -> bool {
        self.session.pairs().any(|(_, pair)| pair.gone() == Some(Gone::Dead))
    }

    /// Starts the next send of the program.
    pub fn send(&mut self, program: &Program, rank: &[u32], rng: &mut Rng) {
        let Some(&id) = program.sends[self.id].get(self.next_send) else { return };
        let m = &program.messages[id];
        let Some(inter) = self.inters[m.ctx] else { return };
        let ctx = self.session.ctx_with(inter, Source::Rank(rank[m.to]));
        self.next_send += 1;
        let op = self.session.engine.next_op();
        if let Mode::Partitioned(count) = m.mode {
            let mut left: Vec<_> = (0..count).collect();
            crate::program::shuffle(rng, &mut left);
            self.marking.push(Marking { op, message: id, each: m.size / u64::from(count), left });
            self.session.mem.0.insert(op.0, vec![UNREADY; m.size as usize]);
        } else {
            self.session.mem.0.insert(op.0, (0..m.size).map(|at| content(id, at)).collect());
        }
        let mem = &self.session.mem;
        let at = mem.with_slices(op.0, 0, m.size as usize, 2, |pieces| match pieces {
            [whole] => Some(whole.as_ptr() as u64),
            _ => None,
        });
        let to = (ctx, rank[m.to], m.tag);
        if !at.is_some_and(|at| self.session.announce_now(op, to, (at, m.size), m.mode)) {
            self.session.engine.send(&self.session.mem, op, ctx, rank[m.to], m.tag, m.size, m.mode);
        }
        self.sending.push(op);
    }

    /// Some partitions of a send become ready, and parts of a receive are looked at.
    pub fn mark(&mut self, rng: &mut Rng) {
        if !self.marking.is_empty() {
            let at = rng.below(self.marking.len() as u64) as usize;
            let m = &mut self.marking[at];
            let mut now = m.left.split_off(m.left.len().saturating_sub(1 + rng.below(3) as usize));
            now.sort_unstable();
            let buffer = self.session.mem.0.get_mut(&m.op.0).expect("its buffer is there");
            for i in now.iter().flat_map(|p| u64::from(*p) * m.each..u64::from(p + 1) * m.each) {
                buffer[i as usize] = content(m.message, i);
            }
            let runs: Vec<_> = now.iter().map(|p| (*p, p + 1)).collect();
            let (op, over) = (m.op, m.left.is_empty());
            let fine = self.session.engine.ready(&self.session.mem, op, &runs)
                && !self.session.engine.ready(&self.session.mem, op, &runs);
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
            if self.session.engine.pending(op) && self.session.engine.has_arrived(op, offset, len) {
                let seen = self.session.mem.0[&op.0][offset as usize..(offset + len) as usize].to_vec();
                self.glimpses.push((op, offset, seen));
            }
        }
    }

    /// Posts the next receive of the program.
    pub fn recv(&mut self, program: &Program) {
        let Some(want) = program.receives[self.id].get(self.next_recv) else { return };
        let Some(inter) = self.inters[want.ctx] else { return };
        let ctx = self.session.ctx_with(inter, want.source);
        let (mut source, mut tag, mut found) = (want.source, want.tag, None);
        if want.probe {
            match self.session.engine.probe(ctx, source, tag) {
                Probe::Found(envelope) => {
                    (source, tag) = (Source::Rank(envelope.source), Tag::Is(envelope.tag));
                    found = Some(envelope.size);
                }
                Probe::None => {
                    return self.session.note_probe(inter, source);
                }
                Probe::Failed(Fault::PeerDead) if self.has_lost() => {
                    self.next_recv += 1;
                    return;
                }
                Probe::Failed(fault) => return self.fail(format!("probe: {fault:?}")),
            }
        }
        self.next_recv += 1;
        self.post(want.ctx, source, tag, want.capacity);
        let got = self.session.engine.outcome(self.receiving[self.receiving.len() - 1].0);
        let (op, capacity) = (self.receiving[self.receiving.len() - 1].0, want.capacity);
        if let Some(size) = found
            && self
                .session
                .engine
                .awaited(op)
                .is_some_and(|a| !matches!(a, Awaited::Data(_, _, s) if s == size.min(capacity)))
        {
            self.fail(format!("probe: the message of {size} bytes that was seen is not there: {got:?}"));
        }
    }

    pub fn post(&mut self, ctx: usize, source: Source, tag: Tag, capacity: u64) {
        let op = self.session.engine.next_op();
        self.session.mem.0.insert(op.0, vec![0xee; capacity as usize + GUARD]);
        let inter = self.inters[ctx].expect("open");
        let slot = self.session.ctx_with(inter, source);
        self.session.engine.recv(&mut self.session.mem, op, slot, source, tag, capacity);
        self.records.push(Record { ctx, source, tag, capacity, message: None, ended: 0 });
        self.receiving.push((op, self.records.len() - 1));
    }

    /// Takes what is complete.
    pub fn reap(&mut self, program: &Program, rank: &[u32]) {
        let mut i = 0;
        while i < self.sending.len() {
            match self.session.engine.finish(self.sending[i]) {
                Some(Outcome::Sent) if self.marking.iter().any(|m| m.op == self.sending[i]) => {
                    return self.fail("a send ended before its partitions were ready".into());
                }
                Some(Outcome::Sent) => {
                    self.session.mem.0.remove(&self.sending.swap_remove(i).0);
                }
                Some(Outcome::Failed(Fault::PeerDead)) if self.has_lost() => {
                    let op = self.sending.swap_remove(i);
                    self.session.mem.0.remove(&op.0);
                    self.marking.retain(|m| m.op != op);
                }
                Some(other) => return self.fail(format!("send: {other:?}")),
                None => i += 1,
            }
        }
        let mut i = 0;
        while i < self.receiving.len() {
            let (op, at) = self.receiving[i];
            let Some(outcome) = self.session.engine.finish(op) else {
                i += 1;
                continue;
            };
            self.receiving.swap_remove(i);
            let data = self.session.mem.0.remove(&op.0).expect("its buffer is there");
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
        if outcome == Outcome::Failed(Fault::PeerDead) && self.has_lost() {
            self.ended += 1;
            self.records[at].ended = self.ended;
            return Ok(());
        }
        let envelope = match outcome {
            Outcome::Received(envelope) => envelope,
            Outcome::Truncated { source, tag, size, .. } => Envelope { source, tag, size },
            _ => return Err(format!("receive: {outcome:?}")),
        };
        let from = self.others[envelope.source as usize];
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

    /// Replaces the loose receives that wait for ever, since others took their messages, by receives for anything.
    pub fn loosen(&mut self, program: &Program) {
        for want in &program.receives[self.id][self.next_recv..] {
            if program.loose[self.id][want.ctx] && want.probe && self.inters[want.ctx].is_some() {
                self.next_recv += 1;
                self.post(want.ctx, Source::Any, Tag::Any, want.capacity);
            } else {
                break;
            }
        }
        for (op, at) in std::mem::take(&mut self.receiving) {
            let Record { ctx, capacity, .. } = self.records[at];
            let wild = !matches!(self.records[at].tag, Tag::Is(tag) if tag < 0);
            if wild && program.loose[self.id][ctx] && self.session.engine.cancel_recv(op) {
                self.session.mem.0.remove(&op.0);
                self.ended += 1;
                self.records[at].ended = self.ended;
                self.post(ctx, Source::Any, Tag::Any, capacity);
            } else {
                self.receiving.push((op, at));
            }
        }
    }

    /// Engine to paths, paths to lanes.
    pub fn pump(&mut self, rng: &mut Rng) {
        for i in 0..self.session.pairs_made() {
            if rng.percent(60) {
                self.session.mark(i);
            }
        }
        self.session.settle();
    }

    /// The memory at an address, if it is in a buffer of an operation.
    pub fn look(&self, at: u64, len: u64) -> Option<Vec<u8>> {
        self.session.mem.0.values().find_map(|v| {
            let start = at.checked_sub(v.as_ptr() as u64)? as usize;
            v.get(start..start + len as usize).map(<[u8]>::to_vec)
        })
    }

    /// Goes on with a pull: `read` gives what lies in the other's memory, or nothing if it cannot be read. Whether it goes
    /// on after that.
    pub fn pull(&mut self, pull: &mut Pull, most: u64, read: impl FnOnce(u64, u64) -> Option<Vec<u8>>) -> bool {
        let (at, len) = pull.pieces[0];
        let now = len.min(most);
        if !self.session.engine.bulk_wanted(pull.peer, pull.op.0, pull.done, now) {
            return false;
        }
        let Some(data) = read(at, now) else {
            self.session.engine.ask_for_rest(pull.op);
            return false;
        };
        self.session.mem.write(pull.op.0, pull.done, &data);
        self.session.engine.on_bulk(pull.peer, pull.op.0, pull.done, now);
        pull.done += now;
        pull.pieces[0] = (at + now, len - now);
        if now == len {
            pull.pieces.pop_front();
        }
        !pull.pieces.is_empty()
    }

    /// Has the sender write the second half of some messages. Returns what is left to be read.
    fn share(&mut self, op: OpId, mut pieces: VecDeque<(u64, u64)>, size: u64) -> VecDeque<(u64, u64)> {
        let offset = size / 2;
        let at = self.session.mem.0[&op.0].as_ptr() as u64 + offset;
        let (first, all) = ((size - offset) / 3, size - offset);
        let halves: Vec<_> = [(at, first), (at + first, all - first)].into_iter().filter(|(_, len)| *len > 0).collect();
        if size.is_multiple_of(4) || !self.session.engine.ask_to_put(op, offset, &halves) {
            return pieces;
        }
        let mut left = offset;
        for (_, len) in &mut pieces {
            *len = (*len).min(left);
            left -= *len;
        }
        pieces.retain(|(_, len)| *len > 0);
        pieces
    }

    /// Goes on with a put: `write` is given the receive, an address and what goes there, and says whether it could be written. Whether the
    /// put goes on after that.
    pub fn put(&mut self, put: &mut Put, most: u64, write: impl FnOnce(u64, u64, Vec<u8>) -> bool) -> bool {
        let (at, len) = put.pieces[0];
        let now = len.min(most);
        let mut data = Vec::new();
        let is_wanted = self.session.engine.may_put(put.peer, put.op);
        if is_wanted {
            self.session.mem.read(put.op.0, put.offset, now as usize, &mut data);
        }
        if !is_wanted || !write(put.receiver_op, at, data) {
            self.session.engine.put_over(put.peer, put.receiver_op, false);
            return false;
        }
        put.offset += now;
        put.pieces[0] = (at + now, len - now);
        if now == len {
            put.pieces.pop_front();
        }
        if put.pieces.is_empty() {
            self.session.engine.put_over(put.peer, put.receiver_op, true);
        }
        !put.pieces.is_empty()
    }

    /// Writes to the buffer of a receive, if it is there and has this address.
    pub fn written(&mut self, op: u64, at: u64, data: &[u8]) -> bool {
        if !self.session.engine.pending(OpId(op)) {
            return false;
        }
        let Some(buffer) = self.session.mem.0.get_mut(&op) else { return false };
        let Some(start) = at.checked_sub(buffer.as_ptr() as u64) else { return false };
        let place = buffer.get_mut(start as usize..).and_then(|rest| rest.get_mut(..data.len()));
        place.map(|place| place.copy_from_slice(data)).is_some()
    }

    /// Answers that the puts to a pair, or all, will not be.
    fn give_up_puts(&mut self, pair: Option<usize>) {
        for put in self.puts.extract_if(.., |put| pair.is_none_or(|pair| put.peer.0 as usize == pair)) {
            self.session.engine.put_over(put.peer, put.receiver_op, false);
        }
    }

    /// Reads the lanes of some pair.
    pub fn poll(&mut self, rng: &mut Rng, now: Time) {
        let pairs = self.session.pairs_made();
        if pairs == 0 {
            return;
        }
        let i = rng.below(pairs as u64) as usize;
        self.session.send_credit();
        if self.session.receive(i).dead {
            self.session.lane_died(i, now);
        }
    }

    pub fn tick(&mut self, rng: &mut Rng, now: Time) {
        if rng.percent(20) {
            self.session.watch_awaited();
        }
        self.session.watch_lingering(now);
        self.session.tick(now);
        self.session.leave_all();
    }

    // ---- what the session asks for

    pub fn act(&mut self, net: &mut Network, now: Time) {
        while let Some(action) = self.session.next_action() {
            match action {
                Action::Resolve { pair, transport, entry, process, same_host, .. } => {
                    let mut places = Vec::new();
                    if transport == NEAR.id {
                        places.extend((same_host == Some(true)).then(|| near_place(process)));
                    } else if entry.len() == net.place(0).address.len() {
                        let place = Place { address: entry.into(), ..net.place(0) };
                        // An address may lead to another host here than on the other side.
                        let wrong = net.rng.below(net.hosts.len() as u64) as usize;
                        let wrong = net.place(wrong);
                        let misleads = same_host == Some(false) && wrong.host() != place.host();
                        places.extend(Some(wrong).filter(|_| misleads && net.rng.percent(30)));
                        places.push(Place { text: format!("p{}", place.address[1]).into(), ..place });
                    }
                    self.session.places(pair, transport, places, now);
                }
                Action::Dial { attempt, place, hello, .. } => {
                    let near = place.transport == NEAR.id;
                    let to = if near { place.address[1] as usize - 1 } else { place.address[1] as usize };
                    // The process that the kernel finds under that number.
                    let hello = *hello;
                    net.connections.push(Connection {
                        from: self.id,
                        attempt,
                        to,
                        near: near.then(|| place.address[0]),
                        stage: Stage::Syn,
                        hello,
                        ack: None,
                        incoming: None,
                        mute: false,
                        silent: false,
                        ends: [None, None],
                    });
                }
                Action::Abandon { attempt } => {
                    let id = self.id;
                    for c in net.connections.extract_if(.., |c| c.from == id && c.attempt == attempt) {
                        net.hung_up.extend(c.incoming.map(|incoming| (c.to, incoming)));
                    }
                }
                Action::Answer { incoming, pair, ack } => self.answer(net, incoming, pair, ack, now),
                Action::Refuse { incoming, ack } => {
                    if let Some(c) = connection(net, self.id, incoming) {
                        (c.ack, c.stage, c.incoming) = (Some(ack), Stage::Answered, None);
                    }
                }
                Action::Dismiss { incoming } => {
                    if let Some(c) = connection(net, self.id, incoming) {
                        let lost = c.stage == Stage::Lost;
                        (c.stage, c.incoming) = (if lost { Stage::Lost } else { Stage::Closed }, None);
                    }
                }
                Action::Ask { incoming, mute } => match connection(net, self.id, incoming) {
                    Some(c) => {
                        c.mute = mute;
                        self.session.incoming_stands(incoming, mute, now);
                    }
                    None => self.session.incoming_left(incoming),
                },
                Action::Probe { probe, seen, .. } => {
                    let to = seen.address[1] as usize;
                    let through = net.blocks(self.id, to).is_none().then(|| net.place(to));
                    self.session.probed(probe, through);
                }
                Action::Left { pair } | Action::Dropped { pair, left: false, .. } => {
                    self.pulls.retain(|pull| pull.peer.0 as usize != pair);
                    self.give_up_puts(Some(pair));
                }
                Action::Died { pair } => self.session.lane_died(pair, now),
                Action::Get { peer, op, pieces, size } => {
                    let from = self.other(peer.0 as usize, net).expect("a peer is a process");
                    let pieces = self.share(op, pieces.into(), size);
                    if !pieces.is_empty() {
                        self.pulls.push(Pull { from, peer, op, pieces, done: 0 });
                    }
                }
                Action::Put { peer, op, receiver_op, offset, pieces } => {
                    let to = self.other(peer.0 as usize, net).expect("a peer is a process");
                    let (life, pieces) = (net.lives[to], pieces.into());
                    self.puts.push(Put { to, life, peer, op, receiver_op, offset, pieces });
                }
                Action::Unused { .. }
                | Action::Dropped { .. }
                | Action::Join { .. }
                | Action::Pause { .. }
                | Action::Attached { .. }
                | Action::Rearm { .. }
                | Action::Note { .. }
                | Action::Log { .. }
                | Action::Chosen { .. }
                | Action::OfCheckpoints { .. }
                | Action::Asked { .. }
                | Action::Told { .. } => {}
            }
        }
    }

    fn answer(
        &mut self,
        net: &mut Network,
        incoming: session::IncomingId,
        pair: usize,
        ack: wire::HelloAck,
        now: Time,
    ) {
        // A lane that its kernel reports as closed need not be asked.
        let had_lane = self.session.pair(pair).lane().is_some_and(|up| Lane::<VecMemory>::is_open(&up.lane).is_none());
        let Some(c) = connection(net, self.id, incoming) else { return self.session.incoming_left(incoming) };
        if c.hello.cookie != cookie(c.hello.dest.incarnation) {
            return self.fail("cookie: somebody without it is let in".into());
        }
        let (from, near, unasked) = (c.from, c.near.is_some(), c.from == NOBODY && had_lane && !c.mute);
        let mut ends = net.lane(if from == NOBODY { self.id } else { from }, self.id, near);
        if !near && let Some(agreed) = self.session.incoming_ready(incoming) {
            if unasked {
                return self.fail("impostor: it takes the place of a lane that was not asked".into());
            }
            let lane = ends[1].take().expect("a new lane");
            self.take_up(net, agreed, lane, false, now);
        }
        if let Some(c) = connection(net, self.id, incoming) {
            (c.ack, c.stage, c.ends) = (Some(ack), Stage::Answered, ends);
        }
    }

    /// A handshake has made a lane.
    pub fn take_up(&mut self, net: &Network, agreed: Agreed, lane: SimLane, dialled: bool, now: Time) {
        let Agreed { pair, generation, received, moves } = agreed;
        let (near, at) = match (&lane, self.other(pair, net)) {
            (SimLane::Shared(_), _) | (_, None) => (true, None),
            (_, Some(other)) => (false, Some(net.place(other))),
        };
        let transport = if near { NEAR.id } else { FAR.id };
        self.session.attach(pair, NewLane { lane, generation, received, transport, at, dialled, moves }, now);
    }

    /// State to bytes and back, in a process of another number, with its buffers elsewhere.
    pub fn freeze_and_thaw(&mut self, net: &mut Network, now: Time) {
        let bytes = self.freeze(net, now);
        let read =
            self.forgets.map_or_else(|| bytes.clone(), |what| session::forget(&bytes, what).expect("a snapshot"));
        if !self.is_lenient {
            let own = self.session.own().clone();
            let same = Session::<SimLane, VecMemory>::thaw(&read, own, VecMemory::default(), now);
            if !same.is_ok_and(|same| same.freeze(now) == bytes) {
                self.fail("snapshot: what is read is not what was written".into());
            }
        }
        if let Err(why) = self.thaw(&read, net) {
            self.fail(format!("snapshot: {why}"));
        }
    }

    /// Its state as bytes.
    pub fn freeze(&mut self, net: &mut Network, now: Time) -> Vec<u8> {
        self.give_up_puts(None);
        self.session.detach();
        self.act(net, now);
        self.session.freeze(now)
    }

    /// It goes on with the state of these bytes, by another clock. `Err`: they are no snapshot, and it goes on as it was.
    pub fn thaw(&mut self, bytes: &[u8], net: &mut Network) -> Result<(), SnapshotError> {
        let before = self.session.own();
        let moved = VecMemory(self.session.mem.0.iter().map(|(buffer, bytes)| (*buffer, bytes.clone())).collect());
        let own = own(number(self.id, self.life + 1), before.host, before.descriptors);
        let ahead = net.rng.below(1_000_000_000_000_000);
        let old = std::mem::replace(&mut self.ahead, ahead);
        match Session::thaw(bytes, own, moved, self.now(net)) {
            Ok(session) => self.session = session,
            Err(why) => {
                self.ahead = old;
                return Err(why);
            }
        }
        self.life += 1;
        net.lives[self.id] = self.life;
        self.session.set_limits(self.limits.clone());
        self.session.set_most_at_once(net.at_once);
        self.session.plant(self.plant);
        self.pulls.clear();
        Ok(())
    }

    /// Nothing may wait for the dead.
    pub fn waits_for_the_dead(&self, dead: usize) -> Option<Awaited> {
        let peer = PeerId(self.pair(dead)? as u32);
        let rank = self.others.iter().position(|o| *o == dead)? as u32;
        let ops = self.sending.iter().chain(self.receiving.iter().map(|(op, _)| op));
        ops.filter_map(|op| self.session.engine.awaited(*op)).find(|awaited| match *awaited {
            Awaited::Room(p, _) | Awaited::Matched(p, _) | Awaited::Taken(p) | Awaited::Data(p, ..) => p == peer,
            Awaited::Message(_, Source::Any, _) => true,
            Awaited::Partitions => false,
            Awaited::Message(_, Source::Rank(r), _) => r == rank,
        })
    }

    /// A description of its state, for a run that hangs.
    pub fn describe(&self) -> String {
        let waits: Vec<_> = self.sending.iter().chain(self.receiving.iter().map(|(op, _)| op)).collect();
        let waits: Vec<_> = waits.iter().map(|op| (op.0, self.session.engine.awaited(**op))).collect();
        let mut out = format!(
            "process {}: sent {}, receiving {} {:?}, {:?} open",
            self.id, self.next_send, self.next_recv, waits, self.inters
        );
        for (i, pair) in self.session.pairs().filter(|(_, pair)| pair.remote().incarnation != 0) {
            let lane = pair.lane().map(|up| (up.generation, up.transport));
            let (gone, trouble) = (pair.gone(), self.session.describe_trouble(i));
            out += &format!("\n  to {}, lane {lane:?}, {gone:?}, {trouble:?}: {:?}", pair.remote(), pair.path());
        }
        out
    }
}

/// The connection by which an incoming connection has come.
fn connection(net: &mut Network, to: usize, incoming: session::IncomingId) -> Option<&mut Connection> {
    net.connections.iter_mut().find(|c| c.to == to && c.incoming == Some(incoming))
}

/// Some contexts join the jobs, others are made from a parent.
fn context(ctx: usize) -> ContextId {
    let number = ctx as u64 / 2 + 1000;
    if ctx.is_multiple_of(2) { ContextId::root(number) } else { ContextId::root(1000).child(number) }
}
