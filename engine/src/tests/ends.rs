//! Close, death and BYE in every state of an operation.

use super::*;
use crate::wire::Eager;

/// Pending operations of both sides, one in each state. `b` is the side that stays.
struct Mixed {
    a: Side,
    b: Side,
    queued: Vec<OpId>,
    rts_sent: OpId,
    half_sent: OpId,
    awaiting_done: OpId,
    eager_sent: OpId,
    posted: OpId,
    posted_any: OpId,
    half_received: OpId,
    /// The tag of a message that has arrived whole and is not received.
    waiting_tag: i64,
}

fn mixed() -> Mixed {
    let (mut a, mut b) = pair(small());
    // b receives the first half of this.
    let half_received = b.recv(Source::Rank(0), Tag::Is(1), 40);
    a.send(1, &[1; 40], Mode::Standard);
    b.take_all(&mut a);
    a.take_all(&mut b);
    b.take(&mut a);
    b.take(&mut a);
    a.wire.clear();
    // a receives the first half of this.
    a.recv(Source::Rank(0), Tag::Is(2), 40);
    let half_sent = b.send(2, &[2; 40], Mode::Standard);
    a.take_all(&mut b);
    b.take_all(&mut a);
    a.take(&mut b);
    let eager_sent = b.send(3, &[3], Mode::Standard);
    let awaiting_done = b.send(3, &[3], Mode::Synchronous);
    let rts_sent = b.send(3, &[3; 40], Mode::Standard);
    let mut queued: Vec<OpId> = (0..5).map(|_| b.send(3, &[3], Mode::Standard)).collect();
    queued.retain(|op| b.engine.outcome(*op).is_none());
    let posted = b.recv(Source::Rank(0), Tag::Is(4), 1);
    let posted_any = b.recv(Source::Any, Tag::Is(4), 1);
    a.send(5, &[5], Mode::Standard);
    a.send(6, &[6; 40], Mode::Standard);
    b.take_all(&mut a);
    assert!(!queued.is_empty());
    assert_eq!(b.engine.outcome(eager_sent), Some(Outcome::Sent));
    Mixed {
        a,
        b,
        queued,
        rts_sent,
        half_sent,
        awaiting_done,
        eager_sent,
        posted,
        posted_any,
        half_received,
        waiting_tag: 5,
    }
}

#[test]
fn death_ends_what_depends_on_it() {
    for (gone, fault) in [(Gone::Dead, Fault::PeerDead), (Gone::Finished, Fault::PeerFinished)] {
        let mut m = mixed();
        let b = &mut m.b;
        assert_eq!(b.engine.watching().collect::<Vec<_>>(), vec![b.peer]);
        b.engine.on_gone(b.peer, gone);
        let all = [m.rts_sent, m.half_sent, m.awaiting_done, m.posted, m.posted_any, m.half_received];
        for op in all.into_iter().chain(m.queued.iter().copied()) {
            assert_eq!(b.engine.outcome(op), failed(fault), "{op:?}");
        }
        assert_eq!(b.engine.outcome(m.eager_sent), Some(Outcome::Sent));
        assert_eq!(b.engine.watching().next(), None);
        // A message that had arrived whole is still received. One of which only the RTS had arrived is not.
        let r = b.recv(ANY.0, ANY.1, 1);
        assert_eq!(b.engine.outcome(r), got(m.waiting_tag, 1));
        for (source, tag) in [(Source::Rank(0), Tag::Is(6)), ANY] {
            let r = b.recv(source, tag, 1);
            assert_eq!(b.engine.outcome(r), failed(fault));
            assert_eq!(b.engine.probe(b.ctx, source, tag), Probe::Failed(fault));
        }
        let s = b.send(0, &[1], Mode::Standard);
        assert_eq!(b.engine.outcome(s), failed(fault));
        while b.engine.next_output().is_some() {}
        assert!(!b.engine.bulk_wanted(b.peer, m.half_received.0, 0, 40));
    }
}

#[test]
fn receives_from_any_source_need_all_to_finish_but_one_to_die() {
    let mut e = Engine::new(small());
    let mut mem = VecMemory::default();
    let peers = vec![e.add_peer(1), e.add_peer(1)];
    let ctx = e.open(ContextId::root(1), 0, peers.clone());
    let post = |e: &mut Engine, mem: &mut VecMemory| {
        let op = e.next_op();
        e.recv(mem, op, ctx, Source::Any, Tag::Any, 0);
        op
    };
    let mut other = e.clone();
    let r = post(&mut e, &mut mem);
    e.on_message(&mut mem, peers[0], &[8]).unwrap();
    assert_eq!(e.outcome(r), None);
    assert_eq!(e.watching().collect::<Vec<_>>(), vec![peers[1]]);
    e.on_message(&mut mem, peers[1], &[8]).unwrap();
    assert_eq!(e.outcome(r), failed(Fault::PeerFinished));
    let r = post(&mut other, &mut mem);
    other.on_gone(peers[1], Gone::Dead);
    assert_eq!(other.outcome(r), failed(Fault::PeerDead));
}

#[test]
fn close_ends_what_is_not_matched_and_lets_the_rest_finish() {
    let mut m = mixed();
    m.b.engine.close(m.b.ctx);
    let unmatched = [m.rts_sent, m.awaiting_done, m.posted, m.posted_any];
    for op in unmatched.into_iter().chain(m.queued.iter().copied()) {
        assert_eq!(m.b.engine.outcome(op), failed(Fault::Revoked), "{op:?}");
    }
    assert_eq!((m.b.engine.outcome(m.half_sent), m.b.engine.outcome(m.half_received)), (None, None));
    settle(&mut m.a, &mut m.b);
    assert_eq!(m.b.engine.outcome(m.half_sent), Some(Outcome::Sent));
    // Its second half was lost above.
    m.b.engine.on_lane_lost(m.b.peer);
    settle(&mut m.a, &mut m.b);
    assert_eq!(m.b.engine.outcome(m.half_received), got(1, 40));
    assert!(m.b.engine.watching().next().is_none());
}

#[test]
fn the_other_side_hears_of_a_close() {
    let (mut a, mut b) = pair(small());
    let waiting = a.send(0, &[1; 40], Mode::Standard);
    settle(&mut a, &mut b);
    let posted = a.recv(ANY.0, ANY.1, 4);
    b.engine.close(b.ctx);
    settle(&mut a, &mut b);
    assert_eq!(a.engine.outcome(waiting), failed(Fault::Revoked));
    assert_eq!(a.engine.outcome(posted), failed(Fault::Revoked));
    let later = a.send(0, &[1], Mode::Standard);
    assert_eq!(a.engine.outcome(later), failed(Fault::Revoked));
}

#[test]
fn later_messages_are_refused_and_cost_no_credit() {
    let (mut a, mut b) = pair(small());
    b.engine.close(b.ctx);
    let mut kept = VecDeque::new();
    for _ in 0..40 {
        let s = a.send(0, &[1; 12], Mode::Standard);
        // REVOKED is held back, so that `a` goes on sending.
        b.take_all(&mut a);
        b.collect();
        let word = |o: &Output| matches!(o, Output::Message { bytes, .. } if bytes[0] == 6);
        kept.extend(b.wire.iter().filter(|o| word(o)).cloned());
        b.wire.retain(|o| !word(o));
        a.take_all(&mut b);
        assert_eq!(a.engine.outcome(s), Some(Outcome::Sent));
    }
    let s = a.send(0, &[1; 12], Mode::Synchronous);
    settle(&mut a, &mut b);
    assert_eq!(kept.len(), 1, "it is said once");
    b.wire = kept;
    settle(&mut a, &mut b);
    assert_eq!(a.engine.outcome(s), failed(Fault::Revoked));
    // The slot is used again.
    let (x, y) =
        (b.engine.open(ContextId::root(2), 0, vec![b.peer]), a.engine.open(ContextId::root(2), 0, vec![a.peer]));
    assert_eq!(x, b.ctx);
    a.ctx = y;
    let r = b.recv(ANY.0, ANY.1, 1);
    a.send(0, &[1], Mode::Standard);
    settle(&mut a, &mut b);
    assert_eq!(b.engine.outcome(r), got(0, 1));
}

#[test]
fn data_that_went_with_its_sender_is_refused() {
    let (mut a, mut b) = pair(small());
    a.send(0, &[1; 40], Mode::Standard);
    settle(&mut a, &mut b);
    a.engine.close(a.ctx);
    let r = b.recv(ANY.0, ANY.1, 40);
    settle(&mut a, &mut b);
    assert_eq!(b.engine.outcome(r), failed(Fault::Revoked));
    assert!(a.engine.withdrawn.is_empty());
}

/// Numbers of operations can be guessed, so what a third process says of them counts for its own alone.
#[test]
fn nobody_else_says_that_a_send_is_done_with() {
    let (mut a, mut b) = pair(small());
    let s = a.send(0, &[1; 40], Mode::Standard);
    settle(&mut a, &mut b);
    a.engine.close(a.ctx);
    let third = a.engine.add_peer(2);
    let mut done = vec![4];
    done.extend_from_slice(&s.0.to_le_bytes());
    done.push(0);
    a.engine.on_message(&mut a.mem, third, &done).unwrap();
    let r = b.recv(ANY.0, ANY.1, 40);
    settle(&mut a, &mut b);
    assert_eq!(b.engine.outcome(r), failed(Fault::Revoked));
}

#[test]
fn a_context_that_is_never_opened_is_refused() {
    let (mut a, mut b) = pair(small());
    a.ctx = a.engine.open(ContextId::root(2), 0, vec![a.peer]);
    let s = a.send(0, &[1; 40], Mode::Standard);
    settle(&mut a, &mut b);
    b.engine.refuse(1, ContextId::root(2));
    settle(&mut a, &mut b);
    assert_eq!(a.engine.outcome(s), failed(Fault::Revoked));
}

#[test]
fn control_passes_through() {
    let (mut a, mut b) = pair(small());
    a.engine.control(a.peer, b"hello");
    b.take(&mut a);
    assert_eq!(b.engine.next_output(), Some(Output::Control { peer: b.peer, bytes: b"hello".to_vec() }));
    a.engine.bye(a.peer);
    b.take(&mut a);
    assert_eq!(b.engine.gone(b.peer), Some(Gone::Finished));
}

#[test]
fn a_removed_peer_leaves_nothing_and_its_number_serves_again() {
    let (mut a, mut b) = pair(small());
    // State of each kind that outlives a close: a withdrawn send, an early message, and credit that was used.
    a.send(0, &[1; 40], Mode::Standard);
    a.ctx = a.engine.open(ContextId::root(2), 0, vec![a.peer]);
    a.send(0, &[1], Mode::Standard);
    settle(&mut a, &mut b);
    assert!(b.engine.keeps_early(b.peer));
    let r = b.recv(ANY.0, ANY.1, 40);
    b.collect();
    assert!(b.engine.depends_on(b.peer));
    b.engine.on_gone(b.peer, Gone::Dead);
    assert_eq!(b.engine.finish(r), failed(Fault::PeerDead));
    for side in [&mut a, &mut b] {
        side.engine.close(Ctx(0));
        side.engine.close(Ctx(1));
        side.collect();
        assert!(!side.engine.depends_on(side.peer));
        side.engine.remove_peer(side.peer);
        side.engine.remove_group(1);
        side.engine.ops = Default::default();
        assert!(side.engine.withdrawn.is_empty() && side.engine.groups.is_empty());
        side.wire.clear();
        assert_eq!(side.engine.add_peer(7), side.peer);
        side.ctx = side.engine.open(ContextId::root(1), 0, vec![side.peer]);
    }
    let r = b.recv(ANY.0, ANY.1, 40);
    a.send(3, &[7; 40], Mode::Standard);
    settle(&mut a, &mut b);
    assert_eq!(b.engine.outcome(r), got(3, 40));
}

#[test]
fn an_early_message_in_anothers_name_is_dropped() {
    let mut e = Engine::new(small());
    let mut mem = VecMemory::default();
    let (p, q) = (e.add_peer(1), e.add_peer(1));
    let head = wire::Head { tag: 1, source: 0, context: ContextId::root(1), op: 5 };
    let message = Message::Eager(Eager { notify: false, head, data: &[1; 16] }).encode();
    for _ in 0..4 {
        e.on_message(&mut mem, q, &message).unwrap();
    }
    let ctx = e.open(ContextId::root(1), 0, vec![p, q]);
    assert_eq!(e.probe(ctx, Source::Any, Tag::Any), Probe::None);
    // The credit is given back, so the peer may send again.
    assert!(
        e.on_message(
            &mut mem,
            q,
            &Message::Eager(Eager { notify: false, head: wire::Head { source: 1, ..head }, data: &[1; 16] }).encode()
        )
        .is_ok()
    );
    assert!(matches!(e.probe(ctx, Source::Any, Tag::Any), Probe::Found(found) if found.source == 1));
}

#[test]
fn what_is_remembered_does_not_grow_with_the_rounds() {
    let (mut a, mut b) = pair(small());
    let (mut early, mut late) = (0, 0);
    for context in 2..10_000 {
        for side in [&mut a, &mut b] {
            side.engine.close(side.ctx);
            side.ctx = side.engine.open(ContextId::root(context), 0, vec![side.peer]);
        }
        settle(&mut a, &mut b);
        let mut ops = (Vec::new(), Vec::new());
        for size in [1, 40] {
            ops.1.push(b.recv(ANY.0, ANY.1, 40));
            ops.0.push(a.send(1, &vec![1; size], Mode::Standard));
        }
        settle(&mut a, &mut b);
        let cancelled = b.recv(ANY.0, ANY.1, 40);
        assert!(b.engine.cancel_recv(cancelled));
        ops.1.push(cancelled);
        // In every other round, the sides close while sends are not matched.
        if context % 2 == 0 {
            ops.0.push(a.send(1, &[2], Mode::Synchronous));
            ops.1.push(b.send(1, &[3; 40], Mode::Standard));
            settle(&mut a, &mut b);
        }
        for side in [&mut a, &mut b] {
            side.engine.close(side.ctx);
        }
        settle(&mut a, &mut b);
        for (side, ops) in [(&mut a, ops.0), (&mut b, ops.1)] {
            for op in ops {
                assert!(side.engine.finish(op).is_some(), "{op:?} of context {context} is not over");
                side.mem.0.remove(&op.0);
            }
        }
        if context == 500 || context == 9_999 {
            (early, late) = (late, [&a, &b].map(|s| postcard::to_allocvec(&s.engine).unwrap().len()).iter().sum());
        }
    }
    // Larger numbers take more bytes.
    assert!(late < early + 400, "{early} bytes after 500 rounds, {late} after 10,000");
    println!("{early} bytes, {late} bytes");
}

#[test]
fn a_receive_that_nobody_can_serve_any_more_is_taken_back() {
    for left in [true, false] {
        let (mut a, mut b) = pair(small());
        let recv = b.recv(ANY.0, ANY.1, 4);
        let gone = if left { Gone::Finished } else { Gone::Dead };
        b.engine.on_gone(b.peer, gone);
        settle(&mut a, &mut b);
        assert!(b.engine.outcome(recv).is_some());
        assert_eq!(b.engine.cancel_recv(recv), left);
        let want = if left { Some(Outcome::Cancelled) } else { failed(Fault::PeerDead) };
        assert_eq!(b.engine.finish(recv), want);
    }
}

/// The second of two messages is here whole when the sender dies, the data of the first is not: MPI's order holds.
#[test]
fn a_lost_message_is_not_overtaken() {
    for (gone, fault) in [(Gone::Dead, Fault::PeerDead), (Gone::Finished, Fault::PeerFinished)] {
        let (mut a, mut b) = pair(small());
        a.send(3, &[1; 40], Mode::Standard);
        a.send(3, &[2; 4], Mode::Standard);
        a.send(4, &[3; 40], Mode::Standard);
        settle(&mut a, &mut b);
        b.engine.on_gone(b.peer, gone);
        assert_eq!(b.engine.probe(b.ctx, Source::Rank(0), Tag::Is(3)), Probe::Failed(fault));
        let lost = b.recv(Source::Rank(0), Tag::Is(3), 40);
        assert_eq!(b.engine.outcome(lost), failed(fault));
        let whole = b.recv(Source::Rank(0), Tag::Any, 40);
        assert_eq!(b.engine.outcome(whole), got(3, 4));
        let claim = b.engine.claim(b.ctx, Source::Any, Tag::Any).expect("it is there");
        let op = b.engine.next_op();
        b.engine.recv_claimed(&mut b.mem, op, claim, 40);
        assert_eq!(b.engine.outcome(op), failed(fault));
    }
}
