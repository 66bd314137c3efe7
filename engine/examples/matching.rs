//! Measures the cost of a message while many receives or many messages wait: one JSON line for each case, in
//! nanoseconds per message. In a case, a number of receives are posted and as many messages come, or the other way
//! round. The times of receives, messages and outcomes are counted. Buffers are not: all have the same 8 bytes.
//!
//! `cargo run --release -p mpi-connect-engine --example matching [most waiting]`

use base::memory::OneBuffer;
use engine::{Config, ContextId, Ctx, Engine, Mode, OpId, Output, PeerId, Source, Tag};
use std::time::{Duration, Instant};

const SOURCES: usize = 16;
const SIZE: u64 = 8;
/// The least number of messages of each case.
const MESSAGES: usize = 200_000;

/// What receives ask for.
#[derive(Clone, Copy)]
enum Asked {
    Exact,
    AnySource,
    AnyTag,
    Anything,
    /// Each of the others in turn.
    Mixed,
}

const ASKED: [(Asked, &str); 5] = [
    (Asked::Exact, "exact"),
    (Asked::AnySource, "any source"),
    (Asked::AnyTag, "any tag"),
    (Asked::Anything, "anything"),
    (Asked::Mixed, "mixed"),
];

/// The source and the tag of the n-th message of a case.
fn envelope(n: usize) -> (u32, i64) {
    ((n % SOURCES) as u32, (n / SOURCES) as i64)
}

fn pattern(asked: Asked, n: usize) -> (Source, Tag) {
    let (source, tag) = envelope(n);
    match (asked, n / SOURCES % 4) {
        (Asked::Exact, _) | (Asked::Mixed, 0) => (Source::Rank(source), Tag::Is(tag)),
        (Asked::AnySource, _) | (Asked::Mixed, 1) => (Source::Any, Tag::Is(tag)),
        (Asked::AnyTag, _) | (Asked::Mixed, 2) => (Source::Rank(source), Tag::Any),
        _ => (Source::Any, Tag::Any),
    }
}

struct Bench {
    engine: Engine,
    mem: OneBuffer<{ SIZE as usize }>,
    peers: Vec<PeerId>,
    ctx: Ctx,
    /// The bodies of messages, as a lane hands them in.
    bodies: Vec<Vec<u8>>,
    ops: Vec<OpId>,
}

impl Bench {
    fn new(most: usize) -> Bench {
        let cfg = Config { envelopes: 1 << 40, eager_bytes: 1 << 40, ..Config::default() };
        let mut engine = Engine::new(cfg.clone());
        let peers: Vec<PeerId> = (0..SOURCES).map(|_| engine.add_peer(1)).collect();
        let ctx = engine.open(ContextId::root(1), 0, peers.clone());
        let mut senders: Vec<Engine> = (0..SOURCES).map(|_| Engine::new(cfg.clone())).collect();
        let bodies = (0..most)
            .map(|n| {
                let (source, tag) = envelope(n);
                let sender = &mut senders[source as usize];
                let to = sender.add_peer(1);
                let ctx = sender.open(ContextId::root(1), source, vec![to]);
                let (_, head) = sender.start_eager(ctx, 0, tag, SIZE, Mode::Standard).expect("there is room");
                *sender = Engine::new(cfg.clone());
                let mut body = head.with_room(SIZE as usize);
                body.extend_from_slice(&[0; SIZE as usize]);
                body
            })
            .collect();
        Bench { engine, mem: OneBuffer([0; SIZE as usize]), peers, ctx, bodies, ops: Vec::with_capacity(most) }
    }

    fn post(&mut self, asked: Asked, n: usize) {
        let (source, tag) = pattern(asked, n);
        let op = self.engine.next_op();
        self.engine.recv(&mut self.mem, op, self.ctx, source, tag, SIZE);
        self.ops.push(op);
    }

    fn message(&mut self, n: usize) {
        let peer = self.peers[envelope(n).0 as usize];
        self.engine.on_message(&mut self.mem, peer, &self.bodies[n]).expect("well formed");
    }

    /// Ends a round. Wildcards may match others' messages, so what is left unmatched is removed.
    fn finish(&mut self) -> Duration {
        let start = Instant::now();
        let mut left = 0;
        for i in 0..self.ops.len() {
            if self.engine.finish(self.ops[i]).is_none() {
                self.ops[left] = self.ops[i];
                left += 1;
            }
        }
        let spent = start.elapsed();
        for op in self.ops.drain(..left) {
            self.engine.cancel_recv(op);
            self.engine.finish(op);
        }
        self.ops.clear();
        while self.engine.claim(self.ctx, Source::Any, Tag::Any).is_some_and(|claim| {
            let op = self.engine.next_op();
            self.engine.recv_claimed(&mut self.mem, op, claim, SIZE);
            self.engine.finish(op).is_some()
        }) {}
        while let Some(output) = self.engine.next_output() {
            assert!(matches!(output, Output::Message { .. } | Output::Credit { .. }));
        }
        spent
    }

    fn round(&mut self, posted: bool, asked: Asked, order: &[usize]) -> Duration {
        let start = Instant::now();
        if posted {
            (0..order.len()).for_each(|n| self.post(asked, n));
            order.iter().for_each(|n| self.message(*n));
        } else {
            (0..order.len()).for_each(|n| self.message(n));
            order.iter().for_each(|n| self.post(asked, *n));
        }
        start.elapsed() + self.finish()
    }
}

fn orders(n: usize) -> [(&'static str, Vec<usize>); 3] {
    let mut random: Vec<usize> = (0..n).collect();
    let mut x = 1u64;
    for i in (1..n).rev() {
        x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        random.swap(i, (x >> 33) as usize % (i + 1));
    }
    [("in order", (0..n).collect()), ("reversed", (0..n).rev().collect()), ("random", random)]
}

fn main() {
    let most = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(100_000);
    let mut bench = Bench::new(most);
    for waiting in [1, 10, 1000, 100_000].into_iter().filter(|n| *n <= most) {
        for posted in [true, false] {
            let waits = if posted { "receives" } else { "messages" };
            for (asked, name) in ASKED {
                for (order, indexes) in &orders(waiting) {
                    let rounds = (MESSAGES / waiting).max(3);
                    let best = (0..rounds).map(|_| bench.round(posted, asked, indexes)).min().expect("some rounds");
                    let ns = best.as_nanos() as f64 / waiting as f64;
                    println!(
                        "{{\"bench\":\"matching\",\"waiting\":{waiting},\"wait\":\"{waits}\",\"asked\":\"{name}\",\
                         \"order\":\"{order}\",\"ns\":{ns:.1}}}"
                    );
                }
            }
        }
    }
}
