//! Messages of all kinds. The receive comes first, or the message.

use super::*;

#[test]
fn all_sizes_and_modes_in_both_orders() {
    for size in [0usize, 1, 15, 16, 17, 8 * 9 + 3] {
        for mode in [Mode::Standard, Mode::Synchronous] {
            for first in [true, false] {
                let (mut a, mut b) = pair(small());
                let data: Vec<u8> = (0..size as u8).collect();
                let mut r = None;
                if first {
                    r = Some(b.recv(Source::Rank(0), Tag::Is(3), size));
                }
                let s = a.send(3, &data, mode);
                let eager = size <= 16;
                assert_eq!(a.engine.outcome(s).is_some(), eager && mode == Mode::Standard);
                settle(&mut a, &mut b);
                if !first {
                    assert_eq!(a.engine.outcome(s).is_some(), eager && mode == Mode::Standard);
                    let seen = b.engine.probe(b.ctx, ANY.0, ANY.1);
                    assert_eq!(seen, Probe::Found(Envelope { source: 0, tag: 3, size: size as u64 }));
                }
                let r = r.unwrap_or_else(|| b.recv(ANY.0, ANY.1, size));
                settle(&mut a, &mut b);
                assert_eq!(a.engine.finish(s), Some(Outcome::Sent));
                assert_eq!(b.data(r), &data[..]);
                assert_eq!(b.engine.finish(r), got(3, size as u64));
                assert_eq!((a.engine.finish(s), b.engine.finish(r)), (None, None));
                assert!(a.engine.ops.is_empty() && b.engine.ops.is_empty());
            }
        }
    }
}

#[test]
fn truncation_delivers_what_fits() {
    for (size, capacity) in [(10usize, 4usize), (10, 0), (60, 20), (60, 0), (60, 59)] {
        let (mut a, mut b) = pair(small());
        let data: Vec<u8> = (1..=size as u8).collect();
        let r = b.recv(ANY.0, ANY.1, capacity);
        let s = a.send(0, &data, Mode::Synchronous);
        settle(&mut a, &mut b);
        assert_eq!(b.engine.finish(r), truncated(0, capacity as u64, size as u64));
        assert_eq!(b.data(r), &data[..capacity]);
        assert_eq!(a.engine.finish(s), Some(Outcome::Sent));
    }
}

#[test]
fn transfers_take_turns_and_cost_nothing_ahead() {
    let (mut a, mut b) = pair(Config { chunk: 1 << 18, ..Config::default() });
    // There are no buffers of this size: only ranges are kept.
    let mut sends = Vec::new();
    for _ in 0..2 {
        let op = a.engine.next_op();
        sends.push(op);
        a.engine.send(&a.mem, op, a.ctx, 0, 0, 5 << 30, Mode::Standard);
        let r = b.engine.next_op();
        b.engine.recv(&mut b.mem, r, b.ctx, ANY.0, ANY.1, 6 << 30);
    }
    while let Some(output) = a.engine.next_output() {
        let Output::Message { bytes, .. } = output else { panic!("nothing was asked for") };
        b.engine.on_message(&mut b.mem, b.peer, &bytes).unwrap();
    }
    while let Some(Output::Message { bytes, .. }) = b.engine.next_output() {
        a.engine.on_message(&mut a.mem, a.peer, &bytes).unwrap();
    }
    let mut seen = Vec::new();
    for _ in 0..8 {
        match a.engine.next_output() {
            Some(Output::Bulk { op, offset, len, .. }) => seen.push((op, offset, len)),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(seen[0], (sends[0], 0, 1 << 18));
    assert_eq!(seen[1], (sends[1], 0, 1 << 18));
    assert_eq!(seen[6], (sends[0], 3 << 18, 1 << 18));
    assert!(a.engine.out.is_empty());
}

#[test]
fn backlog_holds_sends_and_bulk_back() {
    let (mut a, mut b) = pair(small());
    a.engine.set_backlogged(&a.mem, a.peer, true);
    let s = a.send(0, &[1], Mode::Standard);
    let t = a.send(0, &[2; 40], Mode::Standard);
    assert_eq!((a.engine.outcome(s), a.engine.awaited(s)), (None, Some(Awaited::Room(a.peer, 0))));
    let r = b.recv(ANY.0, ANY.1, 40);
    let q = b.recv(ANY.0, ANY.1, 40);
    settle(&mut a, &mut b);
    assert_eq!(b.engine.outcome(r), None);
    a.engine.set_backlogged(&a.mem, a.peer, false);
    assert_eq!(a.engine.outcome(s), Some(Outcome::Sent));
    b.take(&mut a);
    b.take(&mut a);
    b.collect();
    a.engine.set_backlogged(&a.mem, a.peer, true);
    settle(&mut a, &mut b);
    assert_eq!(b.engine.awaited(q), Some(Awaited::Data(b.peer, 0, 40)));
    a.engine.set_backlogged(&a.mem, a.peer, false);
    settle(&mut a, &mut b);
    assert_eq!((a.engine.outcome(t), b.engine.outcome(q)), (Some(Outcome::Sent), got(0, 40)));
}

#[test]
fn bulk_is_wanted_only_where_it_belongs() {
    let (mut a, mut b) = pair(small());
    let r = b.recv(ANY.0, ANY.1, 20);
    a.send(0, &[7; 30], Mode::Standard);
    b.take(&mut a);
    let (op, peer) = (r.0, b.peer);
    assert!(b.engine.bulk_wanted(peer, op, 0, 20) && b.engine.bulk_wanted(peer, op, 19, 1));
    assert!(!b.engine.bulk_wanted(peer, op, 19, 2) && !b.engine.bulk_wanted(peer, op, u64::MAX, 2));
    assert!(!b.engine.bulk_wanted(peer, op + 1, 0, 1) && !b.engine.bulk_wanted(PeerId(9), op, 0, 1));
    b.engine.on_bulk(peer, op, 5, 15);
    b.engine.on_bulk(peer, op, 5, 15);
    assert_eq!(b.engine.outcome(r), None);
    b.engine.on_bulk(peer, op, 0, 5);
    assert!(b.engine.outcome(r).is_some() && !b.engine.bulk_wanted(peer, op, 0, 20));
}

#[test]
fn a_lost_lane_is_made_good() {
    let (mut a, mut b) = pair(small());
    let data: Vec<u8> = (0..90).collect();
    let r = b.recv(ANY.0, ANY.1, 90);
    let s = a.send(0, &data, Mode::Standard);
    b.take_all(&mut a);
    a.take_all(&mut b);
    a.collect();
    // Every other piece is lost.
    let pieces: Vec<Output> = a.wire.drain(..).collect();
    a.wire.extend(pieces.into_iter().step_by(2));
    settle(&mut a, &mut b);
    assert_eq!((a.engine.outcome(s), b.engine.outcome(r)), (None, None));
    b.engine.on_lane_lost(b.peer);
    settle(&mut a, &mut b);
    assert_eq!((a.engine.outcome(s), b.engine.outcome(r)), (Some(Outcome::Sent), got(0, 90)));
    assert_eq!(b.data(r), &data[..]);
}

#[test]
fn receives_can_be_taken_back_and_forgotten() {
    let (mut a, mut b) = pair(small());
    let r = b.recv(ANY.0, ANY.1, 8);
    assert!(b.engine.cancel_recv(r) && !b.engine.cancel_recv(r));
    let s = a.send(0, &[1, 2], Mode::Synchronous);
    a.engine.forget(s);
    settle(&mut a, &mut b);
    assert!(a.engine.pending(s));
    let r = b.recv(ANY.0, ANY.1, 8);
    assert!(!b.engine.cancel_recv(r));
    settle(&mut a, &mut b);
    assert!(!a.engine.pending(s) && a.engine.ops.is_empty());
    assert_eq!(b.engine.finish(r), got(0, 2));
}

#[test]
fn what_comes_before_the_context_is_kept() {
    let (mut a, mut b) = pair(small());
    a.ctx = a.engine.open(ContextId::root(2), 0, vec![a.peer]);
    a.send(1, &[5], Mode::Standard);
    let s = a.send(2, &[6; 30], Mode::Standard);
    settle(&mut a, &mut b);
    b.ctx = b.engine.open(ContextId::root(2), 0, vec![b.peer]);
    let q = b.recv(ANY.0, Tag::Is(2), 30);
    let r = b.recv(ANY.0, ANY.1, 30);
    settle(&mut a, &mut b);
    assert_eq!((b.engine.outcome(r), b.engine.outcome(q)), (got(1, 1), got(2, 30)));
    assert_eq!(a.engine.outcome(s), Some(Outcome::Sent));
}

/// A send of 40 bytes to the first of two peers.
fn one_of_two() -> (Engine, VecMemory, PeerId, PeerId, OpId) {
    let mut e = Engine::new(small());
    let mut mem = VecMemory::default();
    let (p, q) = (e.add_peer(1), e.add_peer(1));
    let ctx = e.open(ContextId::root(1), 0, vec![p, q]);
    let op = e.next_op();
    mem.0.insert(op.0, vec![1; 40]);
    e.send(&mem, op, ctx, 0, 1, 40, Mode::Standard);
    (e, mem, p, q, op)
}

fn cts(op: OpId, receiver_op: u64, offset: u64, len: u64) -> Vec<u8> {
    Message::Cts { sender_op: op.0, receiver_op, offset, len }.encode()
}

#[test]
fn a_wrong_question_changes_nothing() {
    let (mut e, mut mem, p, q, op) = one_of_two();
    for (from, wrong) in [(q, cts(op, 7, 0, 10)), (p, cts(op, 7, 0, 41)), (p, cts(op, 7, 0, 0))] {
        assert_eq!(e.on_message(&mut mem, from, &wrong), Err(Malformed));
        assert_eq!(e.awaited(op), Some(Awaited::Matched(p, 1)));
    }
    e.on_message(&mut mem, p, &cts(op, 5, 0, 40)).unwrap();
    assert_eq!(e.awaited(op), Some(Awaited::Taken(p)));
}

#[test]
fn only_the_receiver_says_done() {
    let (mut e, mut mem, p, q, op) = one_of_two();
    let done = Message::Done { op: op.0, sooner: 0 }.encode();
    e.on_message(&mut mem, q, &done).unwrap();
    assert_eq!(e.outcome(op), None);
    e.on_message(&mut mem, p, &cts(op, 5, 0, 40)).unwrap();
    e.on_message(&mut mem, q, &done).unwrap();
    assert_eq!(e.outcome(op), None);
    e.on_message(&mut mem, p, &done).unwrap();
    assert_eq!(e.outcome(op), Some(Outcome::Sent));
}

#[test]
fn questions_and_pieces_by_the_thousand_take_little() {
    let mut e = Engine::new(small());
    let mut mem = VecMemory::default();
    let p = e.add_peer(1);
    let ctx = e.open(ContextId::root(1), 0, vec![p]);
    let op = e.next_op();
    let size = 1u64 << 20;
    e.send(&mem, op, ctx, 0, 1, size, Mode::Standard);
    e.set_backlogged(&mem, p, true);
    for at in (0..size).step_by(2) {
        e.on_message(&mut mem, p, &cts(op, 5, at, 1)).unwrap();
    }
    let State::Sending(sending) = &e.ops.get(op.0).unwrap().state else { panic!() };
    assert!(sending.ranges.missing(size).len() < 2000);
    // The same for a receiver, to which every other byte comes.
    let r = e.next_op();
    e.recv(&mut mem, r, ctx, Source::Any, Tag::Any, size);
    let head = wire::Head { tag: 1, source: 0, context: ContextId::root(1), op: 9 };
    e.on_message(
        &mut mem,
        p,
        &Message::Rts { head, size, begun: 0, note: b"", pieces: Default::default(), may_buffer: false }.encode(),
    )
    .unwrap();
    for at in (0..size).step_by(2) {
        e.on_bulk(p, r.0, at, 1);
    }
    let State::Pulling(pulling) = &e.ops.get(r.0).unwrap().state else { panic!() };
    assert!(pulling.got.missing(size).len() < 20_000);
    // The missing bytes are still taken, in order.
    for at in 0..size {
        e.on_bulk(p, r.0, at, 1);
    }
    assert!(e.outcome(r).is_some());
}

#[test]
fn any_tag_finds_none_of_the_librarys_own() {
    let (mut a, mut b) = pair(small());
    a.send(-7, b"own", Mode::Standard);
    a.send(7, b"user", Mode::Standard);
    settle(&mut a, &mut b);
    let (user, own) = (b.recv(ANY.0, ANY.1, 4), b.recv(Source::Any, Tag::Is(-7), 4));
    assert_eq!(b.data(user), b"user");
    assert_eq!(b.engine.finish(user), got(7, 4));
    assert_eq!(b.engine.finish(own), got(-7, 3));
}

#[test]
fn while_memory_is_read_the_sender_keeps_it() {
    for parts in [&[(0, 40)][..], &[(0, 10), (10, 30)]] {
        let mut e = Engine::new(small());
        let mut mem = VecMemory::default();
        let p = e.add_peer(1);
        e.set_pull(p, true);
        let ctx = e.open(ContextId::root(1), 0, vec![p]);
        let op = e.next_op();
        e.recv(&mut mem, op, ctx, Source::Any, Tag::Any, 40);
        let head = wire::Head { tag: 1, source: 0, context: ContextId::root(1), op: 9 };
        let rts = Message::Rts { head, size: 40, begun: 0, note: b"", pieces: Default::default(), may_buffer: false }
            .encode();
        e.on_message(&mut mem, p, &rts).unwrap();
        let says_done = |e: &mut Engine| {
            std::iter::from_fn(|| e.out.pop_front())
                .any(|out| matches!(out, Output::Message { bytes, .. } if bytes == Message::Done { op: 9, sooner: 0 }.encode()))
        };
        // A slice is being read when the lane changes, and the new one brings all bytes.
        e.begin_read(op);
        e.on_lane_lost(p);
        parts.iter().for_each(|(at, len)| e.on_bulk(p, op.0, *at, *len));
        assert!(e.outcome(op).is_none() && !says_done(&mut e));
        // The same bytes once more change nothing.
        e.on_bulk(p, op.0, 0, 40);
        assert!(e.outcome(op).is_none() && !says_done(&mut e));
        e.end_read(op);
        assert!(e.outcome(op).is_some() && says_done(&mut e));
    }
}

#[test]
fn a_longer_message_goes_eager_to_a_peer_for_which_that_is_said() {
    let most = [(0, 16), (15, 16), (20, 20), (24, 24), (100, 24)];
    for (said, size, eager) in most.into_iter().flat_map(|(said, most)| [(said, most, true), (said, most + 1, false)]) {
        let (mut a, mut b) = pair(small());
        a.engine.set_eager_max(a.peer, 100, 0);
        a.engine.set_eager_max(a.peer, said, 0);
        let r = b.recv(ANY.0, ANY.1, 32);
        let s = a.send(0, &vec![5; size], Mode::Standard);
        assert_eq!(a.engine.finish(s), eager.then_some(Outcome::Sent));
        settle(&mut a, &mut b);
        assert_eq!(b.engine.finish(r), got(0, size as u64));
        assert_eq!(a.engine.start_eager(a.ctx, 0, 1, size as u64, Mode::Standard).is_some(), eager);
    }
}

/// A message that follows one of the peer's may be longer; the next one is announced, until another has come from there.
#[test]
fn a_longer_message_goes_eager_after_one_of_the_peer() {
    const SIZE: usize = 200 << 10;
    let (mut a, mut b) = pair(Config::default());
    a.engine.set_eager_max(a.peer, 128 << 10, 256 << 10);
    let mut is_eager = |answers: bool| {
        if answers {
            let (r, s) = (a.recv(ANY.0, ANY.1, 8), b.send(1, &[1; 8], Mode::Standard));
            settle(&mut a, &mut b);
            assert_eq!((a.engine.finish(r), b.engine.finish(s)), (got(1, 8), Some(Outcome::Sent)));
        }
        let s = a.send(2, &vec![2; SIZE], Mode::Standard);
        let eager = a.engine.outcome(s) == Some(Outcome::Sent);
        let r = b.recv(ANY.0, ANY.1, SIZE);
        settle(&mut a, &mut b);
        assert_eq!((a.engine.finish(s), b.engine.finish(r)), (Some(Outcome::Sent), got(2, SIZE as u64)));
        eager
    };
    let seen = [false, true, false, false, true, true].map(&mut is_eager);
    assert_eq!(seen, [false, true, false, false, true, true]);
}
