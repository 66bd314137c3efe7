//! Random calls and messages, compared with plain lists that are searched in order.

use super::*;
use crate::matching::fits;
use crate::wire::Eager;
use crate::wire::{Head, Message};

const SOURCES: u64 = 3;

struct Rng(u64);

impl Rng {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((self.0 >> 33) ^ (self.0 >> 52)) % n
    }

    fn tag(&mut self) -> i64 {
        let tag = self.below(6) as i64;
        if tag == 5 { -3 } else { tag }
    }

    fn pattern(&mut self) -> (Source, Tag) {
        let source = if self.below(3) == 0 { Source::Any } else { Source::Rank(self.below(SOURCES) as u32) };
        (source, if self.below(3) == 0 { Tag::Any } else { Tag::Is(self.tag()) })
    }
}

#[derive(Clone, Copy)]
struct Sent {
    id: u64,
    source: u32,
    tag: i64,
    whole: bool,
}

/// One inter-communicator as it should be.
#[derive(Default)]
struct Plain {
    posted: Vec<(OpId, Source, Tag)>,
    unexpected: Vec<Sent>,
}

struct Run {
    rng: Rng,
    engine: Engine,
    mem: VecMemory,
    peers: Vec<PeerId>,
    inters: Vec<(Ctx, ContextId, Plain)>,
    claimed: Vec<(MessageId, Sent)>,
    sent: u64,
    opened: u64,
}

impl Run {
    fn new(seed: u64) -> Run {
        let mut engine = Engine::new(Config { envelopes: 1 << 40, eager_bytes: 1 << 40, ..small() });
        let peers = (0..SOURCES).map(|_| engine.add_peer(1)).collect();
        let mut run = Run {
            rng: Rng(seed),
            engine,
            mem: VecMemory::default(),
            peers,
            inters: Vec::new(),
            claimed: Vec::new(),
            sent: 0,
            opened: 0,
        };
        run.open();
        run.open();
        run
    }

    fn open(&mut self) {
        self.opened += 1;
        let name = ContextId::root(self.opened);
        let ctx = self.engine.open(name, 0, self.peers.clone());
        self.inters.push((ctx, name, Plain::default()));
    }

    fn post(&mut self) -> OpId {
        let op = self.engine.next_op();
        self.mem.0.insert(op.0, vec![0; 20]);
        op
    }

    /// A receive has got this message, and only its data may be missing.
    fn got(&mut self, op: OpId, sent: Sent) {
        let size = if sent.whole { 8 } else { 20 };
        if !sent.whole {
            let peer = self.peers[sent.source as usize];
            assert_eq!(self.engine.awaited(op), Some(Awaited::Data(peer, 0, size)));
            base::Memory::write(&mut self.mem, op.0, 0, &sent.id.to_le_bytes());
            self.engine.on_bulk(peer, op.0, 0, size);
        }
        let envelope = Envelope { source: sent.source, tag: sent.tag, size };
        assert_eq!(self.engine.finish(op), Some(Outcome::Received(envelope)));
        let data = self.mem.0.remove(&op.0).expect("its buffer");
        assert_eq!(data[..8], sent.id.to_le_bytes());
        // The outputs do not matter here.
        while self.engine.next_output().is_some() {}
    }

    /// A message comes. It is returned if no posted receive matches it.
    fn message(&mut self, at: usize) -> Option<Sent> {
        self.sent += 1;
        let (id, source) = (self.sent, self.rng.below(SOURCES) as u32);
        let sent = Sent { id, source, tag: self.rng.tag(), whole: self.rng.below(2) == 0 };
        let head = Head { tag: sent.tag, source, context: self.inters[at].1, op: sent.id };
        let message = match sent.whole {
            true => Message::Eager(Eager { notify: false, head, data: &sent.id.to_le_bytes() }),
            false => {
                Message::Rts { head, size: 20, begun: 0, note: b"", pieces: Default::default(), may_buffer: false }
            }
        };
        let (peer, body) = (self.peers[source as usize], message.encode());
        // Parts of it may come before, which change nothing.
        for _ in 0..self.rng.below(3) {
            let part = self.rng.below(body.len() as u64 + 1) as usize;
            self.engine.on_part(&mut self.mem, peer, &body[..part], body.len() as u64);
        }
        self.engine.on_message(&mut self.mem, peer, &body).expect("well formed");
        let plain = &mut self.inters[at].2;
        match plain.posted.iter().position(|(_, s, t)| fits(*s, *t, source, sent.tag)) {
            Some(first) => {
                let (op, ..) = plain.posted.remove(first);
                self.got(op, sent);
                None
            }
            None => {
                plain.unexpected.push(sent);
                Some(sent)
            }
        }
    }

    /// A receive without an operation, during which a few messages come: it is younger than all posted ones, and gets only a
    /// whole message. The first other one that it matches ends it.
    fn now(&mut self, at: usize) {
        let ((source, tag), ctx) = (self.rng.pattern(), self.inters[at].0);
        let fits = |m: &Sent| fits(source, tag, m.source, m.tag);
        self.mem.0.insert(NOW.0, vec![0; 20]);
        let received = |m: Sent| Envelope { source: m.source, tag: m.tag, size: 8 };
        let first = self.inters[at].2.unexpected.iter().position(fits);
        let waiting = first.map(|i| self.inters[at].2.unexpected[i]);
        let began = self.engine.recv_now(ctx, source, tag, 20);
        assert_eq!(began, waiting.is_none());
        if let (Some(i), Some(waiting)) = (first, waiting) {
            let short = self.engine.take_waiting((ctx, source, tag), 7, |_| panic!("it is too long"));
            assert_eq!(short, None);
            let mut data = Vec::new();
            let taken = self.engine.take_waiting((ctx, source, tag), 20, |bytes| data = bytes.to_vec());
            assert_eq!(taken, waiting.whole.then(|| received(waiting)));
            if waiting.whole {
                assert_eq!(data, waiting.id.to_le_bytes());
                self.inters[at].2.unexpected.remove(i);
            }
            while self.engine.next_output().is_some() {}
            return;
        }
        let mut wanted = None::<Sent>;
        for _ in 0..self.rng.below(4) {
            if self.engine.is_over_now() {
                break;
            }
            let to = self.rng.below(self.inters.len() as u64) as usize;
            wanted = self.message(to).filter(|m| to == at && fits(m));
            assert_eq!(self.engine.is_over_now(), wanted.is_some());
            if wanted.is_some_and(|m| m.whole) {
                self.inters[at].2.unexpected.pop();
            }
        }
        let wanted = wanted.filter(|m| m.whole);
        assert_eq!(self.engine.end_now(), wanted.map(|m| Outcome::Received(received(m))));
        let data = self.mem.0.remove(&NOW.0).expect("its buffer");
        assert_eq!(data[..8], wanted.map_or(0, |m| m.id).to_le_bytes());
        while self.engine.next_output().is_some() {}
    }

    fn look(&mut self, at: usize) {
        let (source, tag) = self.rng.pattern();
        let (ctx, _, plain) = &mut self.inters[at];
        let first = plain.unexpected.iter().position(|m| fits(source, tag, m.source, m.tag));
        match self.rng.below(9) {
            0 => {
                let right = first.map(|i| &plain.unexpected[i]).map(|m| (m.source, m.tag));
                match self.engine.probe(*ctx, source, tag) {
                    Probe::Found(e) => assert_eq!(Some((e.source, e.tag)), right),
                    other => assert_eq!((other, right), (Probe::None, None)),
                }
            }
            1 => {
                let claim = self.engine.claim(*ctx, source, tag);
                assert_eq!(claim.is_some(), first.is_some());
                self.claimed.extend(claim.map(|c| (c, plain.unexpected.remove(first.expect("as seen")))));
            }
            2 => self.now(at),
            _ => {
                let ctx = *ctx;
                let message = first.map(|i| plain.unexpected.remove(i));
                let op = self.post();
                self.engine.recv(&mut self.mem, op, ctx, source, tag, 20);
                match message {
                    Some(message) => self.got(op, message),
                    None => self.inters[at].2.posted.push((op, source, tag)),
                }
            }
        }
    }

    fn step(&mut self) {
        let at = self.rng.below(self.inters.len() as u64) as usize;
        match self.rng.below(100) {
            0 => {
                let (ctx, _, plain) = self.inters.remove(at);
                self.engine.close(ctx);
                for (op, ..) in plain.posted {
                    assert_eq!(self.engine.finish(op), failed(Fault::Revoked));
                }
                self.open();
            }
            1..10 => {
                let plain = &mut self.inters[at].2;
                if !plain.posted.is_empty() {
                    let (op, ..) = plain.posted.remove(self.rng.below(plain.posted.len() as u64) as usize);
                    assert!(self.engine.cancel_recv(op));
                    assert_eq!(self.engine.finish(op), Some(Outcome::Cancelled));
                }
            }
            10..15 if !self.claimed.is_empty() => {
                let (claim, sent) = self.claimed.swap_remove(self.rng.below(self.claimed.len() as u64) as usize);
                let op = self.post();
                self.engine.recv_claimed(&mut self.mem, op, claim, 20);
                self.got(op, sent);
            }
            15 => {
                let bytes = postcard::to_allocvec(&self.engine).unwrap();
                self.engine = postcard::from_bytes(&bytes).unwrap();
            }
            // Phases of messages and of receives, so that each of the two queues grows.
            n if (n < 80) == (self.sent / 40).is_multiple_of(2) => {
                self.message(at);
            }
            _ => self.look(at),
        }
    }
}

#[test]
fn agrees_with_a_plain_scan() {
    let (mut posted, mut unexpected) = (0, 0);
    for seed in 0..2000 {
        let mut run = Run::new(seed);
        for _ in 0..400 {
            run.step();
            posted = posted.max(run.inters[0].2.posted.len());
            unexpected = unexpected.max(run.inters[0].2.unexpected.len());
        }
    }
    assert!(
        posted > 30 && unexpected > 30,
        "{posted} posted, {unexpected} unexpected at most: too few to be found by key"
    );
}

/// The usual message, and the usual end of a receive, go a short way: it leads where the general one does.
#[test]
fn the_short_way_leads_where_the_general_one_does() {
    let mut rng = Rng(1);
    let mut roll = |below: u64| rng.below(below);
    let (mut took_short, mut took_long, mut ended, mut at_once, mut waited) = (0, 0, 0, 0, 0);
    for case in 0..300 {
        let (mut a, mut b) = pair(Config { envelopes: 12, eager_bytes: 128, ..small() });
        let (tracks, wild) = (case % 10 == 0, case % 3 == 0);
        if tracks {
            b.engine.track();
        }
        let mut receives = Vec::new();
        for _ in 0..60 {
            let (source, capacity) = (if wild { Source::Any } else { Source::Rank(0) }, 2 + roll(15) as usize);
            let tag = if wild && roll(2) == 0 { Tag::Any } else { Tag::Is(roll(2) as i64) };
            let mut waits = false;
            match roll(6) {
                0 | 1 => {
                    let op = b.recv(source, tag, capacity);
                    if roll(8) == 0 { b.engine.forget(op) } else { receives.push(op) }
                }
                2 | 3 => drop(a.send(roll(2) as i64, &vec![roll(200) as u8; 1 + roll(20) as usize], Mode::Standard)),
                4 => {
                    b.mem.0.insert(NOW.0, vec![0; capacity]);
                    let (mut short, mut general) = (b.engine.clone(), (b.engine.clone(), b.mem.clone()));
                    let mut data = Vec::new();
                    let what = (b.ctx, source, tag);
                    let taken = short.take_waiting(what, capacity as u64, |bytes| data = bytes.to_vec());
                    if let Some(envelope) = taken {
                        // The general way takes an operation for it.
                        let (engine, mem) = &mut general;
                        let op = engine.next_op();
                        mem.0.insert(op.0, vec![0; capacity]);
                        engine.recv(mem, op, b.ctx, source, tag, capacity as u64);
                        assert_eq!(engine.finish(op), Some(Outcome::Received(envelope)));
                        assert_eq!(mem.0[&op.0][..data.len()], data);
                        let op = short.next_op();
                        short.ops.remove(op.0);
                        assert_eq!(format!("{short:?}"), format!("{engine:?}"));
                        b.engine = short;
                        waited += 1;
                    }
                    waits = taken.is_none() && b.engine.recv_now(b.ctx, source, tag, capacity as u64);
                    if waits {
                        a.send(roll(2) as i64, &vec![roll(200) as u8; 1 + roll(20) as usize], Mode::Standard);
                    }
                }
                _ if !receives.is_empty() => {
                    let op = receives[roll(receives.len() as u64) as usize];
                    let (mut short, mut general) = (b.engine.clone(), b.engine.clone());
                    if let Some(envelope) = short.take_received(op) {
                        assert_eq!(general.finish(op), Some(Outcome::Received(envelope)));
                        assert_eq!(b.engine.take_received(op), Some(envelope));
                        receives.retain(|other| *other != op);
                        ended += 1;
                    } else {
                        assert!(!matches!(general.outcome(op), Some(Outcome::Received(_))));
                    }
                    assert_eq!(format!("{short:?}"), format!("{general:?}"));
                }
                _ => (),
            }
            // Answers, credit above all, go back one by one, so that it runs short now and then.
            if !waits {
                a.take(&mut b);
            }
            a.collect();
            while let Some(output) = a.wire.pop_front() {
                let Output::Message { bytes, .. } = output else { continue };
                // Clones of clones: those of what has spare memory have less of it.
                let before = b.engine.clone();
                let (mut short, mut general) = ((before.clone(), b.mem.clone()), (before.clone(), b.mem.clone()));
                if short.0.take_at_once(&mut short.1, b.peer, &bytes) {
                    assert_eq!(general.0.on_any(&mut general.1, b.peer, &bytes), Ok(()));
                    assert_eq!(short.1.0, general.1.0);
                    assert_eq!(format!("{:?}", short.0), format!("{:?}", general.0));
                    took_short += 1;
                } else {
                    assert_eq!(format!("{:?}", short.0), format!("{before:?}"));
                    took_long += 1;
                }
                b.engine.on_message(&mut b.mem, b.peer, &bytes).expect("well formed");
            }
            at_once += usize::from(waits && b.engine.end_now().is_some());
        }
    }
    assert!(at_once > 100 && waited > 200, "{at_once} {waited}");
    assert!(took_short > 500 && took_long > 500 && ended > 500, "{took_short} {took_long} {ended}");
}
