//! What `engine` reads: messages; and a whole engine that a hostile member of a joined job writes to.

use crate::Target;
use crate::input::{Script, put_bytes};
use base::memory::VecMemory;
use base::protocol::frame::OF_SENDER;
use engine::fuzzing::{Numbers, again, made, samples};
use engine::{
    Awaited, Config, ContextId, Ctx, Engine, Gone, MAX_NOTE, MessageId, Mode, OpId, Outcome, Output, PeerId, Source,
    Tag,
};

fn message(input: &[u8]) {
    if let Some(bytes) = again(input) {
        assert_eq!(bytes, input, "a message has one form");
    }
    // Another message, or the same without addresses.
    if let Some(plain) = engine::without_addresses(input) {
        assert!(plain.len() < input.len());
        assert!(again(&plain).is_some() && engine::without_addresses(&plain).is_none());
    }
}

/// The decoder of messages, and `engine::without_addresses`.
pub const MESSAGE: Target =
    Target { run: message, seeds: || samples(ContextId::root(1), 1 << 28), longest: 2048, memory: 16 << 10 };

/// The most operations that the program has at a time.
const MOST: usize = 12;
/// The largest buffer of the program.
const LARGE: u64 = 64;

/// One process of ours, with two peers that may send anything.
struct Scene {
    engine: Engine,
    mem: VecMemory,
    peers: [PeerId; 2],
    open: Vec<(Ctx, ContextId)>,
    opened: u64,
    ops: Vec<(OpId, Doing)>,
    claims: Vec<MessageId>,
}

/// What an operation of the program is.
#[derive(Clone, Copy, PartialEq)]
enum Doing {
    Send,
    Receive { capacity: u64 },
}

/// Limits that short messages come to.
pub(crate) fn small() -> Config {
    Config {
        eager_max: 16,
        long_eager_max: 24,
        envelopes: 6,
        eager_bytes: 64,
        extra_envelopes: 2,
        chunk: 8,
        beginning: 12,
    }
}

impl Scene {
    fn new() -> Scene {
        let mut engine = Engine::new(small());
        let peers = [engine.add_peer(1), engine.add_peer(1)];
        let (open, ops, claims) = (Vec::new(), Vec::new(), Vec::new());
        let mut scene = Scene { engine, mem: VecMemory::default(), peers, open, opened: 0, ops, claims };
        scene.open_next();
        scene
    }

    fn open_next(&mut self) {
        self.opened += 1;
        let id = ContextId::root(self.opened);
        let ctx = self.engine.open(id, 0, self.peers.to_vec());
        self.open.push((ctx, id));
    }

    fn peer(&self, n: u8) -> PeerId {
        self.peers[usize::from(n & 1)]
    }

    /// An inter-communicator that is open; one that is not.
    fn ctx(&self, n: u8) -> Ctx {
        self.open.get(usize::from(n) % (self.open.len() + 1)).map_or(Ctx(99), |(ctx, _)| *ctx)
    }

    fn op(&self, n: u8) -> OpId {
        self.ops.get(usize::from(n) % (self.ops.len() + 1)).map_or(OpId(u64::from(n)), |(op, _)| *op)
    }

    /// A new operation with a buffer of this many bytes.
    fn begin(&mut self, doing: Doing, bytes: u64) -> OpId {
        let op = self.engine.next_op();
        self.mem.0.insert(op.0, vec![7; bytes as usize]);
        self.ops.push((op, doing));
        op
    }

    /// The other side: a message, which may be malformed. Then its lane is dropped, and it comes again over another.
    fn hears(&mut self, peer: PeerId, bytes: &[u8]) {
        if self.engine.on_message(&mut self.mem, peer, bytes).is_err() {
            self.engine.on_lane_lost(peer);
        }
    }

    /// A message with numbers that mean something, mostly.
    fn crafted(&mut self, s: &mut Script<'_>, peer: PeerId) {
        let (kind, which, op, other) = (s.byte(), s.byte(), s.byte(), s.byte());
        let context = match which % 4 {
            0 => ContextId::root(self.opened + 1),
            1 => ContextId::root(u64::from(which)).child(1),
            _ => self.open.get(usize::from(which >> 2)).map_or(ContextId::root(1), |(_, id)| *id),
        };
        let (op, other) = (self.op(op).0, self.op(other).0);
        let (at, len) = (s.number(), s.number());
        let source = u32::from(peer == self.peers[1]) ^ u32::from(which == 255);
        let with = Numbers { context, source, tag: i64::from(s.byte() % 4) - 1, op, other, at, len };
        let note: Vec<u8> = s.bytes().to_vec();
        let bytes = s.bytes();
        self.hears(peer, &made(kind, with, &note, bytes));
    }

    /// The program: one of its calls.
    fn calls(&mut self, call: u8, s: &mut Script<'_>) {
        let a = s.byte();
        let ctx = self.ctx(a >> 4);
        let source = match a & 3 {
            0 => Source::Any,
            n => Source::Rank(u32::from(n & 1)),
        };
        let tag = if a & 4 == 0 { Tag::Any } else { Tag::Is(i64::from(a >> 3 & 1)) };
        match call % 22 {
            0 | 1 if self.ops.len() < MOST => {
                let capacity = s.number() % LARGE;
                let op = self.begin(Doing::Receive { capacity }, capacity);
                self.engine.recv(&mut self.mem, op, ctx, source, tag, capacity);
            }
            2 | 3 if self.ops.len() < MOST => {
                let (how, size) = (s.byte(), s.number() % LARGE);
                let mode = match how & 7 {
                    0 => Mode::Synchronous,
                    1 => Mode::Partitioned(u32::from(how >> 4)),
                    _ => Mode::Standard,
                };
                // Partitions are of equal size.
                let size =
                    if let Mode::Partitioned(n) = mode { size / u64::from(n).max(1) * u64::from(n) } else { size };
                let op = self.begin(Doing::Send, size);
                let (dest, tag) = (u32::from(a & 1), i64::from(a >> 3 & 1));
                if how & 8 == 0 {
                    self.engine.send(&self.mem, op, ctx, dest, tag, size, mode);
                } else {
                    let note = s.some(MAX_NOTE.min(40)).to_vec();
                    self.engine.send_noted(&self.mem, op, ctx, dest, tag, size, (mode, note));
                }
            }
            4 => drop(self.engine.probe(ctx, source, tag)),
            5 if self.claims.len() < MOST => self.claims.extend(self.engine.claim(ctx, source, tag)),
            6 if self.ops.len() < MOST && !self.claims.is_empty() => {
                let claim = self.claims.swap_remove(usize::from(a) % self.claims.len());
                let capacity = s.number() % LARGE;
                let op = self.begin(Doing::Receive { capacity }, capacity);
                self.engine.recv_claimed(&mut self.mem, op, claim, capacity);
            }
            7 => drop(self.engine.cancel_recv(self.op(a))),
            8 => {
                let op = self.op(a);
                self.engine.forget(op);
            }
            9 if !self.open.is_empty() => {
                let (ctx, _) = self.open.swap_remove(usize::from(a) % self.open.len());
                self.engine.close(ctx);
            }
            10 if self.open.len() < 4 => self.open_next(),
            11 => {
                let (start, end) = (u32::from(a & 15), u32::from(a >> 4));
                let op = self.op(s.byte());
                let _ = self.engine.ready(&self.mem, op, &[(start, end)]);
            }
            12 => self.engine.set_backlogged(&self.mem, self.peer(a), a & 2 != 0),
            13 => self.engine.set_pull(self.peer(a), a & 2 != 0),
            14 => self.engine.set_max_segments(self.peer(a), usize::from(a >> 1)),
            15 => self.engine.on_gone(self.peer(a), if a & 2 == 0 { Gone::Dead } else { Gone::Finished }),
            16 => self.engine.on_lane_lost(self.peer(a)),
            17 => {
                self.opened += 1;
                self.engine.refuse(1, ContextId::root(self.opened));
            }
            18 => self.engine.ask_for_rest(self.op(a)),
            19 => self.engine.set_begins(self.peer(a), a & 2 != 0),
            20 => {
                let sent = OpId(self.op(a).0 | OF_SENDER);
                self.bulk(self.peer(a), sent, u64::from(a & 7), 8);
            }
            _ => self.engine.set_chunk(self.peer(a), u64::from(a >> 1)),
        }
    }

    /// Data of the other side for an operation, which a lane writes where the engine allows it.
    fn bulk(&mut self, peer: PeerId, op: OpId, offset: u64, len: u64) {
        if let Some(op) = self.engine.bulk_op(peer, op.0)
            && self.engine.bulk_wanted(peer, op, offset, len)
        {
            let data = vec![9; len as usize];
            base::Memory::write(&mut self.mem, op, offset, &data);
            self.engine.on_bulk(peer, op, offset, len);
        }
    }

    /// What the engine puts out.
    fn takes_out(&mut self) {
        while let Some(output) = self.engine.next_output() {
            match output {
                Output::Message { bytes, .. } | Output::Credit { bytes, .. } => {
                    assert!(again(&bytes).is_some(), "it says what it would not read")
                }
                Output::Bulk { op, offset, len, .. } => {
                    let buffer = &self.mem.0[&op.0];
                    assert!(offset + len <= buffer.len() as u64 && len > 0, "data beyond the buffer");
                }
                Output::Get { peer, op, pieces, size, .. } => {
                    let capacity = self.mem.0[&op.0].len() as u64;
                    assert!(size <= capacity && pieces.iter().map(|(_, len)| len).sum::<u64>() == size);
                    let asked = size % 3 == 0 && self.engine.ask_to_put(op, size / 2, &[(1, size - size / 2)]);
                    self.bulk(peer, op, 0, size / 2);
                    if asked {
                        // The other side answers, or does not.
                    } else if size % 2 == 0 {
                        self.engine.ask_for_rest(op)
                    } else {
                        self.bulk(peer, op, size / 2, size - size / 2)
                    }
                }
                Output::Put { peer, op, receiver_op, offset, pieces } => {
                    let buffer = &self.mem.0[&op.0];
                    assert!(offset + pieces.iter().map(|(_, len)| len).sum::<u64>() <= buffer.len() as u64);
                    self.engine.put_over(peer, receiver_op, self.engine.may_put(peer, op));
                }
                Output::Noted { note, .. } => assert!((1..=MAX_NOTE).contains(&note.len())),
                Output::Told { bytes, .. } => assert!(bytes.len() <= engine::MAX_TOLD),
                Output::Asked { .. }
                | Output::Chosen { .. }
                | Output::Control { .. }
                | Output::Logged { .. }
                | Output::Whole { .. } => {}
            }
        }
    }

    /// No operation waits for a process that is gone, and none has more than its buffer. The buffer of one that is over is
    /// gone: whoever touches it panics.
    fn holds(&mut self) {
        let (engine, mem) = (&mut self.engine, &mut self.mem);
        self.ops.retain(|(op, doing)| {
            match engine.awaited(*op) {
                Some(
                    Awaited::Room(peer, _) | Awaited::Matched(peer, _) | Awaited::Taken(peer) | Awaited::Data(peer, ..),
                ) => assert_eq!(engine.gone(peer), None, "it waits for ever"),
                Some(Awaited::Message(ctx, source, _)) => {
                    let mut live = engine.sources(ctx, source).filter(|peer| engine.gone(*peer).is_none());
                    assert!(live.next().is_some(), "it waits for ever");
                }
                Some(Awaited::Partitions) => {}
                None => assert!(!engine.pending(*op)),
            }
            if engine.pending(*op) {
                return true;
            }
            match (engine.finish(*op), doing) {
                (Some(Outcome::Received(e)), Doing::Receive { capacity }) => assert!(e.size <= *capacity),
                (Some(Outcome::Truncated { size, whole, .. }), Doing::Receive { capacity }) => {
                    assert!(size == *capacity && whole > size);
                }
                (Some(Outcome::Received(_) | Outcome::Truncated { .. }), Doing::Send) => panic!("a send has received"),
                (Some(Outcome::Sent), Doing::Receive { .. }) => panic!("a receive was sent"),
                _ => {}
            }
            mem.0.remove(&op.0);
            false
        });
    }
}

fn hostile(input: &[u8]) {
    let mut scene = Scene::new();
    crate::forget_branches();
    let mut s = Script(input);
    while let Some(step) = s.step() {
        let peer = scene.peer(step);
        match step >> 1 {
            0..=7 => scene.hears(peer, s.bytes()),
            8..=47 => scene.crafted(&mut s, peer),
            48..=63 => {
                let op = scene.op(s.byte());
                let (offset, len) = (s.number(), s.number());
                scene.bulk(peer, op, offset, len);
            }
            call => scene.calls(call, &mut s),
        }
        scene.takes_out();
        scene.holds();
    }
    // What a snapshot would hold is sound.
    scene.engine.detach();
    scene.takes_out();
    assert!(scene.engine.is_sound(), "the state breaks its own rules");
}

/// A receive, and a message for it; the same the other way round.
fn played() -> Vec<Vec<u8>> {
    let of = |kind: u8| {
        // The other side's message: kind, context, operation, another, two numbers, tag, note, bytes.
        let mut message = vec![16, kind, 2, 0, 0, 9, 9, 1];
        put_bytes(&mut message, b"note");
        put_bytes(&mut message, if kind == 3 { &[] } else { b"nine bytes" });
        message
    };
    let receive = vec![128 + 2 * 16, 0, 40];
    let send = vec![128 + 2 * 18, 0, 2, 40];
    let mut all: Vec<Vec<u8>> = (0..12)
        .flat_map(|kind| {
            [
                [of(kind), receive.clone()].concat(),
                [receive.clone(), of(kind)].concat(),
                [send.clone(), of(kind)].concat(),
            ]
        })
        .collect();
    all.extend(samples(ContextId::root(1), 1 << 28).iter().filter(|one| one.len() < 200).map(|one| {
        let mut script = [receive.clone(), send.clone(), vec![0]].concat();
        put_bytes(&mut script, one);
        script
    }));
    all
}

/// An [`Engine`] whose peers send anything in any order, while the program makes any calls.
pub const HOSTILE: Target = Target { run: hostile, seeds: played, longest: 512, memory: 256 << 10 };
