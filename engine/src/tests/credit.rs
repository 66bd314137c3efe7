//! Credit bounds a flood of messages, and a receive still finds its message behind one.

use super::*;
use crate::arrived::Body;
use crate::wire::Eager;
use crate::wire::{Head, Message};
use base::bytes::Malformed;

/// Envelopes and bytes of the unexpected messages.
fn held(side: &Side) -> (usize, u64) {
    let context = side.engine.contexts[side.ctx.0 as usize].as_ref().unwrap();
    let bytes = |b: &Body| b.eager_bytes();
    (context.unexpected.iter().count(), context.unexpected.iter().map(|m| bytes(&m.body)).sum())
}

#[test]
fn a_flood_is_bounded_and_arrives_whole() {
    let cfg = Config::default();
    let (mut a, mut b) = pair(cfg.clone());
    let n = 100_000usize;
    let mut ops = Vec::new();
    for i in 0..n {
        ops.push(a.send(0, &[i as u8; 1500], Mode::Standard));
        if i % 512 == 0 {
            settle(&mut a, &mut b);
        }
        let (envelopes, bytes) = held(&b);
        assert!(envelopes as u64 <= cfg.envelopes && bytes <= cfg.eager_bytes);
    }
    assert!(ops.iter().filter(|op| a.engine.outcome(**op).is_some()).count() < 1024);
    for i in 0..n {
        let r = b.recv(ANY.0, ANY.1, 1500);
        settle(&mut a, &mut b);
        assert_eq!(b.engine.finish(r), got(0, 1500), "message {i}");
        assert_eq!(b.mem.0.remove(&r.0).unwrap()[0], i as u8);
        let (envelopes, bytes) = held(&b);
        assert!(envelopes as u64 <= cfg.envelopes && bytes <= cfg.eager_bytes);
    }
    assert!(ops.iter().all(|op| a.engine.outcome(*op) == Some(Outcome::Sent)));
}

#[test]
fn a_receive_finds_its_message_behind_a_flood() {
    for posted_first in [true, false] {
        let (mut a, mut b) = pair(small());
        let early = posted_first.then(|| b.recv(ANY.0, Tag::Is(7), 1));
        for _ in 0..50 {
            a.send(0, &[1; 12], Mode::Standard);
        }
        a.send(7, &[9], Mode::Standard);
        settle(&mut a, &mut b);
        let r = early.unwrap_or_else(|| b.recv(ANY.0, Tag::Is(7), 1));
        settle(&mut a, &mut b);
        assert_eq!(b.engine.outcome(r), got(7, 1));
        let (_, bytes) = held(&b);
        assert!(bytes <= 64, "only envelopes are given beyond the budget");
        for _ in 0..50 {
            let r = b.recv(ANY.0, Tag::Is(0), 12);
            settle(&mut a, &mut b);
            assert_eq!(b.engine.outcome(r), got(0, 12));
        }
        // The extra envelopes are not permanent.
        for _ in 0..50 {
            a.send(0, &[1], Mode::Standard);
        }
        settle(&mut a, &mut b);
        assert!(held(&b).0 <= 4 + 2);
    }
}

/// A message takes the last envelope, and matches; the next receive was posted long before. All numbers of messages before it
/// and of envelopes: it takes one of the budget, or one beyond it.
#[test]
fn receives_that_were_posted_before_a_flood_all_find_theirs() {
    for (envelopes, flood) in [4, 9, 16].into_iter().flat_map(|n| (0..3 * n).map(move |flood| (n, flood))) {
        let (mut a, mut b) = pair(Config { envelopes, eager_bytes: 10_000, ..small() });
        let early: Vec<_> = (0..20).map(|_| b.recv(ANY.0, Tag::Is(7), 40)).collect();
        for _ in 0..flood {
            a.send(0, &[1; 12], Mode::Standard);
        }
        for i in 0..20 {
            a.send(7, &vec![9; [1, 40][i % 2]], Mode::Standard);
        }
        settle(&mut a, &mut b);
        for (i, r) in early.into_iter().enumerate() {
            let want = got(7, [1, 40][i % 2]);
            assert_eq!(b.engine.outcome(r), want, "receive {i} behind {flood}, {envelopes} envelopes");
        }
        assert_eq!(held(&b).0 as u64, flood);
    }
}

#[test]
fn repeated_probes_find_it_too() {
    let (mut a, mut b) = pair(small());
    for _ in 0..30 {
        a.send(0, &[1; 12], Mode::Standard);
    }
    a.send(7, &[9], Mode::Standard);
    let found = (0..40).any(|_| {
        settle(&mut a, &mut b);
        matches!(b.engine.probe(b.ctx, Source::Rank(0), Tag::Is(7)), Probe::Found(_))
    });
    assert!(found);
}

#[test]
fn who_overdraws_is_malformed() {
    let (_, mut b) = pair(small());
    let head = Head { tag: 0, source: 0, context: ContextId::root(1), op: 1 };
    let rts =
        Message::Rts { head, size: 5, begun: 0, note: b"", pieces: Default::default(), may_buffer: false }.encode();
    for _ in 0..4 {
        assert_eq!(b.engine.on_message(&mut b.mem, b.peer, &rts), Ok(()));
    }
    assert_eq!(b.engine.on_message(&mut b.mem, b.peer, &rts), Err(Malformed));
    let (_, mut b) = pair(small());
    let too_long = Message::Eager(Eager { notify: false, head, data: &[0; 25] }).encode();
    assert_eq!(b.engine.on_message(&mut b.mem, b.peer, &too_long), Err(Malformed));
    let stranger = Message::Rts {
        head: Head { source: 1, ..head },
        size: 5,
        begun: 0,
        note: b"",
        pieces: Default::default(),
        may_buffer: false,
    }
    .encode();
    assert_eq!(b.engine.on_message(&mut b.mem, b.peer, &stranger), Err(Malformed));
    let (mut a, _) = pair(small());
    let s = a.send(0, &[1; 20], Mode::Standard);
    for (offset, len) in [(0, 21), (20, 1), (u64::MAX, 2), (0, 0)] {
        let cts = Message::Cts { sender_op: s.0, receiver_op: 1, offset, len }.encode();
        assert_eq!(a.engine.on_message(&mut a.mem, a.peer, &cts), Err(Malformed));
    }
}

#[test]
fn whoever_came_to_a_port_says_control_and_bye_alone() {
    let mut e = Engine::new(Config::default());
    let (mut mem, peer) = (base::memory::VecMemory::default(), e.add_peer(1));
    e.only_control(peer);
    let sizes = [(3u8, 32), (4, 8), (5, 16), (6, 24), (9, 0), (10, 5)];
    for (kind, size) in sizes {
        let message = [&[kind][..], &vec![0; size]].concat();
        assert_eq!(e.on_message(&mut mem, peer, &message), Err(Malformed), "kind {kind}");
        assert!(e.next_output().is_none());
    }
    assert_eq!(e.on_message(&mut mem, peer, &[7, 1]), Ok(()));
    assert!(matches!(e.next_output(), Some(Output::Control { .. })));
    assert_eq!(e.on_message(&mut mem, peer, &[8]), Ok(()));
}
