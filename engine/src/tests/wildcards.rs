//! Receives from any source after a restart: whatever comes first then, each gets the message that it had got.

use super::*;
use std::collections::BTreeMap;

/// A small generator of random numbers.
struct Rng(u64);

impl Rng {
    fn roll(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % below
    }
}

const SENDERS: usize = 2;

/// A receiver, and processes that send to it, one inter-communicator.
struct World {
    engine: Engine,
    mem: VecMemory,
    peers: Vec<PeerId>,
    ctx: Ctx,
    senders: Vec<Side>,
    receives: Vec<OpId>,
    chosen: BTreeMap<u64, (u32, u64)>,
    /// Messages that have come.
    taken: [u64; SENDERS],
}

/// What a receive asks for.
type Pattern = (Source, Tag);

impl World {
    /// Each sender has sent messages of these tags: its rank and a count from 1 are the data.
    fn new(tags: &[Vec<i64>], limits: Option<Limits>) -> World {
        let mut engine = Engine::new(small());
        engine.track();
        engine.log(true);
        let peers: Vec<PeerId> = (0..SENDERS).map(|_| engine.add_peer(1)).collect();
        let ctx = engine.open(ContextId::root(1), 0, peers.clone());
        if let Some(limits) = limits {
            engine.limit(ctx, limits);
        }
        let sender = |(rank, tags): (usize, &Vec<i64>)| {
            let mut side = Side::new(&small());
            side.engine = Engine::new(small());
            side.peer = side.engine.add_peer(1);
            side.ctx = side.engine.open(ContextId::root(1), rank as u32, vec![side.peer]);
            for (tag, count) in tags.iter().zip(1..) {
                side.send(*tag, &[rank as u8, count], Mode::Standard);
            }
            side
        };
        let senders = tags.iter().enumerate().map(sender).collect();
        let (receives, chosen) = (Vec::new(), BTreeMap::new());
        World { engine, mem: VecMemory::default(), peers, ctx, senders, receives, chosen, taken: [0; SENDERS] }
    }

    fn post(&mut self, (source, tag): Pattern) {
        let op = self.engine.next_op();
        self.mem.0.insert(op.0, vec![0; 2]);
        self.engine.recv(&mut self.mem, op, self.ctx, source, tag, 2);
        self.receives.push(op);
    }

    /// Takes the next message of a sender.
    fn take(&mut self, from: usize) -> bool {
        let sender = &mut self.senders[from];
        sender.collect();
        let Some(Output::Message { bytes, .. }) = sender.wire.pop_front() else { return false };
        self.engine.on_message(&mut self.mem, self.peers[from], &bytes).expect("well formed");
        self.taken[from] += 1;
        true
    }

    /// Hands on what the receiver says: credit, and what receives have got.
    fn settle(&mut self) {
        while let Some(output) = self.engine.next_output() {
            match output {
                Output::Message { peer, bytes } | Output::Credit { peer, bytes } => {
                    let at = self.peers.iter().position(|known| *known == peer).expect("a peer");
                    let sender = &mut self.senders[at];
                    sender.engine.on_message(&mut sender.mem, sender.peer, &bytes).expect("well formed");
                }
                Output::Chosen { ordinal, source, number, .. } => {
                    self.chosen.insert(ordinal, (source, number));
                }
                _ => {}
            }
        }
    }

    /// By receive: the sender and the count of its message.
    fn got(&self) -> Vec<Option<(u8, u8)>> {
        let of = |op: &OpId| self.engine.outcome(*op).map(|_| (self.mem.0[&op.0][0], self.mem.0[&op.0][1]));
        self.receives.iter().map(of).collect()
    }

    /// Posts and takes in an order by chance, so often or until all is done.
    fn run(&mut self, patterns: &[Pattern], rng: &mut Rng, mut steps: u64) {
        let bias = rng.roll(5);
        let mut idle = 0;
        while steps > 0 && idle < 50 {
            let did = match rng.roll(4 + bias) {
                n if n < SENDERS as u64 => self.take(n as usize),
                _ => patterns.get(self.receives.len()).map(|pattern| self.post(*pattern)).is_some(),
            };
            self.settle();
            (idle, steps) = if did { (0, steps - 1) } else { (idle + 1, steps) };
        }
    }
}

#[test]
fn each_gets_the_message_that_it_had_got() {
    let (mut recorded, mut later) = (0, 0);
    for seed in 0..2000 {
        let mut rng = Rng(seed);
        let tags: Vec<Vec<i64>> = (0..SENDERS).map(|_| (0..8).map(|_| rng.roll(2) as i64).collect()).collect();
        let patterns: Vec<Pattern> = (0..12)
            .map(|_| {
                let source = if rng.roll(3) > 0 { Source::Any } else { Source::Rank(rng.roll(2) as u32) };
                (source, if rng.roll(2) > 0 { Tag::Any } else { Tag::Is(rng.roll(2) as i64) })
            })
            .collect();
        let mut first = World::new(&tags, None);
        let steps = 5 + rng.roll(20);
        first.run(&patterns, &mut rng, steps);
        let had = first.got();
        let floors = first.taken;
        let limits = Limits { chosen: first.chosen.clone() };
        for again in 0..3 {
            let mut second = World::new(&tags, Some(limits.clone()));
            let mut rng = Rng(seed * 10 + again + 1_000_000);
            second.run(&patterns, &mut rng, u64::MAX);
            for (at, had) in had.iter().enumerate() {
                let got = second.got()[at];
                match had {
                    Some(_) => assert_eq!(got, *had, "seed {seed}.{again}: receive {at}, {:?}", patterns[at]),
                    None => assert!(
                        got.is_none_or(|(source, count)| u64::from(count) > floors[usize::from(source)]),
                        "seed {seed}.{again}: receive {at} had none, and has {got:?}"
                    ),
                }
                recorded += usize::from(had.is_some());
                later += usize::from(had.is_none() && got.is_some());
            }
            // Without limits everything is matched that fits.
            let ctx = second.ctx;
            second.engine.unlimit(&mut second.mem, ctx);
            second.settle();
            let context = second.engine.contexts[ctx.0 as usize].as_ref().expect("open");
            let fits = |message: &crate::arrived::Arrived| {
                let may =
                    |r: &crate::matching::Receive| crate::matching::fits(r.source, r.tag, message.source, message.tag);
                context.posted.iter().any(may)
            };
            assert!(!context.unexpected.iter().any(fits), "seed {seed}.{again}");
        }
    }
    assert!(recorded > 10_000 && later > 1_000, "{recorded} {later}");
}
