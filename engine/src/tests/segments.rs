//! Data that the receiver reads from the sender's memory.

use super::*;
use crate::wire::{Head, Message, Pieces};
use base::protocol::message::{CAME_EARLY, READ_FROM};

/// Two sides that can read each other's memory.
fn reach() -> (Side, Side) {
    let (mut a, mut b) = pair(Config { envelopes: 100, ..small() });
    for side in [&mut a, &mut b] {
        side.engine.set_max_segments(side.peer, 3);
        side.engine.set_pull(side.peer, true);
    }
    (a, b)
}

/// An `Output::Get`: the receive, the pieces, and their length together.
type Get = (OpId, Vec<(u64, u64)>, u64);

/// The first `Output::Get` of `b`.
fn first_get(b: &mut Side) -> Option<Get> {
    b.collect();
    match b.gets.pop_front()? {
        Output::Get { peer, op, pieces, size, .. } => {
            assert_eq!((peer, pieces.iter().map(|p| p.1).sum::<u64>()), (b.peer, size));
            Some((op, pieces, size))
        }
        other => panic!("{other:?}"),
    }
}

/// Reads `from..to` of a message, as a process that can read the other's memory does.
fn read(b: &mut Side, a: &Side, (op, pieces): (OpId, &[(u64, u64)]), from: u64, to: u64) {
    let mut all = Vec::new();
    for (at, len) in pieces {
        let buffer = a.mem.0.values().find(|v| (v.as_ptr() as u64..v.as_ptr() as u64 + v.len() as u64).contains(at));
        let buffer = buffer.expect("a buffer of a");
        let start = (at - buffer.as_ptr() as u64) as usize;
        all.extend_from_slice(&buffer[start..start + *len as usize]);
    }
    if b.engine.bulk_wanted(b.peer, op.0, from, to - from) {
        base::Memory::write(&mut b.mem, op.0, from, &all[from as usize..to as usize]);
        b.engine.on_bulk(b.peer, op.0, from, to - from);
    }
}

fn data(size: usize) -> Vec<u8> {
    (0..size).map(|i| i as u8).collect()
}

fn only(side: &mut Side, kind: u8) {
    side.collect();
    let kinds: Vec<_> =
        side.wire.iter().map(|o| matches!(o, Output::Message { bytes, .. } if bytes[0] == kind)).collect();
    assert_eq!(kinds, [true], "{:?}", side.wire);
}

#[test]
fn it_is_read_and_nothing_is_asked_for() {
    for (size, capacity, count) in [(40usize, 40usize, 1), (1200, 1200, 3), (1200, 700, 2), (1200, 500, 1)] {
        for posted in [true, false] {
            let (mut a, mut b) = reach();
            let early = posted.then(|| b.recv(ANY.0, ANY.1, capacity));
            let s = a.send(4, &data(size), Mode::Standard);
            b.take_all(&mut a);
            let r = early.unwrap_or_else(|| b.recv(ANY.0, ANY.1, capacity));
            let (op, pieces, length) = first_get(&mut b).expect("it is told where the data is");
            assert_eq!((op, pieces.len(), length, b.wire.len()), (r, count, capacity as u64, 0));
            read(&mut b, &a, (r, &pieces), 10, length);
            assert_eq!(b.engine.outcome(r), None);
            read(&mut b, &a, (r, &pieces), 0, 10);
            only(&mut b, 4);
            assert_eq!(b.data(r), &data(size)[..capacity]);
            settle(&mut a, &mut b);
            let right =
                if capacity < size { truncated(4, capacity as u64, size as u64) } else { got(4, capacity as u64) };
            assert_eq!((a.engine.finish(s), b.engine.finish(r)), (Some(Outcome::Sent), right));
            assert!(a.engine.ops.is_empty() && b.engine.ops.is_empty() && a.engine.next_output().is_none());
        }
    }
}

#[test]
fn who_cannot_read_asks() {
    let set: [fn(&mut Side, &mut Side); 4] = [
        |a, _| a.engine.set_max_segments(a.peer, 0),
        |_, b| b.engine.set_pull(b.peer, false),
        // 1200 bytes of test memory are three pieces.
        |a, _| a.engine.set_max_segments(a.peer, 2),
        |_, _| {},
    ];
    for (i, set) in set.into_iter().enumerate() {
        let (mut a, mut b) = reach();
        set(&mut a, &mut b);
        let r = b.recv(ANY.0, ANY.1, 1200);
        let partitioned = partitioned_tag(1, 0);
        let p = b.recv(Source::Rank(0), Tag::Is(partitioned), 1200);
        let s = if i < 3 { a.send(4, &data(1200), Mode::Synchronous) } else { r };
        // The data of a partitioned send is not described: it is not ready when the envelope leaves.
        let parted = a.send(partitioned, &data(1200), Mode::Partitioned(2));
        assert!(a.engine.ready(&a.mem, parted, &[(0, 2)]));
        settle(&mut a, &mut b);
        assert!(b.gets.is_empty());
        assert_eq!(b.engine.finish(p), got(partitioned, 1200));
        if i < 3 {
            assert_eq!((a.engine.finish(s), b.engine.finish(r)), (Some(Outcome::Sent), got(4, 1200)));
            assert_eq!(b.data(r), data(1200));
        }
    }
}

#[test]
fn what_cannot_be_read_is_asked_for() {
    for so_far in [0, 15] {
        let (mut a, mut b) = reach();
        let r = b.recv(ANY.0, ANY.1, 40);
        let s = a.send(4, &data(40), Mode::Standard);
        b.take_all(&mut a);
        let (_, pieces, _) = first_get(&mut b).unwrap();
        read(&mut b, &a, (r, &pieces), 0, so_far);
        b.engine.ask_for_rest(r);
        // A read that was under way may still complete.
        read(&mut b, &a, (r, &pieces), 30, 35);
        settle(&mut a, &mut b);
        assert_eq!((a.engine.finish(s), b.engine.finish(r)), (Some(Outcome::Sent), got(4, 40)));
        assert_eq!(b.data(r), data(40));
        // A failure after the end changes nothing.
        b.engine.ask_for_rest(r);
        assert!(b.engine.next_output().is_none());
    }
}

#[test]
fn a_lost_lane_asks_for_it_all() {
    for fetched in [true, false] {
        let (mut a, mut b) = reach();
        let r = b.recv(ANY.0, ANY.1, 40);
        a.send(4, &data(40), Mode::Standard);
        b.take_all(&mut a);
        let got_it = if fetched { first_get(&mut b) } else { None };
        let bytes = postcard::to_allocvec(&b.engine).unwrap();
        b.engine = postcard::from_bytes(&bytes).unwrap();
        b.engine.on_lane_lost(b.peer);
        only(&mut b, 3);
        assert!(b.gets.is_empty());
        if let Some((_, pieces, size)) = got_it {
            read(&mut b, &a, (r, &pieces), 0, size);
        }
        settle(&mut a, &mut b);
        assert_eq!(b.engine.finish(r), got(4, 40));
        assert_eq!(b.data(r), data(40));
        assert!(a.engine.watching().next().is_none());
    }
}

#[test]
fn nothing_is_read_of_who_is_gone() {
    for (gone, fault) in [(Gone::Dead, Fault::PeerDead), (Gone::Finished, Fault::PeerFinished)] {
        for fetched in [true, false] {
            let (mut a, mut b) = reach();
            let r = b.recv(ANY.0, ANY.1, 40);
            a.send(4, &data(40), Mode::Standard);
            b.take_all(&mut a);
            if fetched {
                first_get(&mut b).unwrap();
            }
            b.engine.on_gone(b.peer, gone);
            assert_eq!(b.engine.next_output(), None);
            assert!(!b.engine.bulk_wanted(b.peer, r.0, 0, 40));
            assert_eq!(b.engine.finish(r), failed(fault));
            b.engine.ask_for_rest(r);
        }
    }
}

/// The receiver may be reading. So the send keeps its buffer until the receiver has ended it.
#[test]
fn a_close_waits_for_who_may_be_reading() {
    type End = fn(&mut Side, &mut Side, OpId) -> Option<Outcome>;
    let ends: [End; 5] = [
        |a, b, r| {
            let (_, pieces, size) = first_get(b).unwrap();
            read(b, a, (r, &pieces), 0, size);
            assert_eq!(b.engine.outcome(r), got(4, 40));
            Some(Outcome::Sent)
        },
        |a, b, r| {
            first_get(b).unwrap();
            b.engine.ask_for_rest(r);
            settle(a, b);
            assert_eq!(b.engine.outcome(r), got(4, 40));
            Some(Outcome::Sent)
        },
        |a, b, r| {
            // A transfer that is being read goes on to its end, as one whose data was asked for.
            first_get(b).unwrap();
            b.engine.close(b.ctx);
            settle(a, b);
            assert_eq!(b.engine.outcome(r), got(4, 40));
            Some(Outcome::Sent)
        },
        |a, _, _| {
            a.engine.on_gone(a.peer, Gone::Dead);
            failed(Fault::PeerDead)
        },
        |a, _, _| {
            a.engine.on_gone(a.peer, Gone::Finished);
            failed(Fault::PeerFinished)
        },
    ];
    for end in ends {
        let (mut a, mut b) = reach();
        let s = a.send(4, &data(40), Mode::Standard);
        let untaken = a.send(5, &data(40), Mode::Standard);
        b.take_all(&mut a);
        a.engine.close(a.ctx);
        // Another inter-communicator takes the slot and is closed. The send is not affected.
        a.ctx = a.engine.open(ContextId::root(2), 0, vec![a.peer]);
        let word = Message::Revoked { context: ContextId::root(2), op: 0 }.encode();
        a.engine.on_message(&mut a.mem, a.peer, &word).unwrap();
        assert_eq!((a.engine.outcome(s), a.engine.awaited(s)), (None, Some(Awaited::Taken(a.peer))));
        assert!(a.engine.depends_on(a.peer));
        let r = b.recv(ANY.0, Tag::Is(4), 40);
        let right = end(&mut a, &mut b, r);
        settle(&mut a, &mut b);
        assert_eq!(a.engine.outcome(s), right);
        if a.engine.gone(a.peer).is_none() {
            b.engine.close(b.ctx);
            settle(&mut a, &mut b);
            assert_eq!(a.engine.outcome(untaken), failed(Fault::Revoked));
        }
    }
}

#[test]
fn the_receiver_closes_while_it_reads() {
    let (mut a, mut b) = reach();
    let r = b.recv(ANY.0, Tag::Is(4), 40);
    let sends = [4, 5, 6].map(|tag| a.send(tag, &data(40), Mode::Standard));
    b.take_all(&mut a);
    let (_, pieces, _) = first_get(&mut b).unwrap();
    read(&mut b, &a, (r, &pieces), 0, 30);
    let claim = b.engine.claim(b.ctx, ANY.0, Tag::Is(5)).unwrap();
    b.engine.close(b.ctx);
    settle(&mut a, &mut b);
    assert_eq!((a.engine.outcome(sends[0]), b.engine.outcome(r)), (Some(Outcome::Sent), got(4, 40)));
    assert_eq!(
        sends[1..].iter().filter_map(|s| a.engine.outcome(*s)).collect::<Vec<_>>(),
        [Outcome::Failed(Fault::Revoked); 2]
    );
    // The claimed message's send has ended, so there is nothing to read any more.
    let op = b.engine.next_op();
    b.mem.0.insert(op.0, vec![0; 40]);
    b.engine.recv_claimed(&mut b.mem, op, claim, 40);
    assert_eq!(first_get(&mut b), None);
}

/// Of the messages that could go eager the first are announced, so that the receiver finds out whether to read them is sooner. It is, and
/// tells so: then all are. Those whose data cannot be described go eager all the same, and those to a process that does not wait.
#[test]
fn what_is_read_sooner_is_announced() {
    let (mut a, mut b) = pair(Config { envelopes: 1 << 30, eager_bytes: 1 << 40, ..Config::default() });
    a.engine.set_max_segments(a.peer, 1000);
    a.engine.set_polls(a.peer, true);
    b.engine.set_pull(b.peer, true);
    a.engine.set_eager_max(a.peer, 256 << 10, 0);
    let announced = |a: &mut Side, b: &mut Side, size: usize, count: usize| {
        let is_announced = |_: &usize| {
            let r = b.recv(ANY.0, ANY.1, size);
            let s = a.send(4, &data(size), Mode::Standard);
            b.take_all(a);
            let get = first_get(b);
            if let Some((op, pieces, length)) = &get {
                read(b, a, (*op, pieces), 0, *length);
            }
            assert_eq!(b.data(r), data(size));
            settle(a, b);
            assert_eq!((a.engine.finish(s), b.engine.finish(r)), (Some(Outcome::Sent), got(4, size as u64)));
            get.is_some()
        };
        (0..count).filter(is_announced).count()
    };
    const SIZE: usize = READ_FROM as usize;
    assert_eq!(announced(&mut a, &mut b, SIZE - 1, 100), 0, "too short");
    assert_eq!(announced(&mut a, &mut b, SIZE, 100), 14, "it has found nothing yet");
    b.engine.set_read_sooner(b.peer, 1);
    assert_eq!(announced(&mut a, &mut b, SIZE, 200), 44, "it is asked again after 256");
    assert!(a.engine.start_eager(a.ctx, 0, 4, SIZE as u64, Mode::Standard).is_none());
    b.engine.set_read_sooner(b.peer, 0);
    assert_eq!(announced(&mut a, &mut b, SIZE, 100), 1, "it is not sooner any more");
    b.engine.set_read_sooner(b.peer, 1);
    a.engine.set_max_segments(a.peer, 2);
    assert_eq!(announced(&mut a, &mut b, 2 * SIZE, 100), 0, "it is not told where they lie");
    a.engine.set_max_segments(a.peer, 1000);
    b.engine.set_read_sooner(b.peer, 4);
    assert_eq!(announced(&mut a, &mut b, 4 * SIZE, 100), 100);
    a.engine.set_polls(a.peer, false);
    assert_eq!(announced(&mut a, &mut b, 4 * SIZE, 100), 0, "it would have to wait");
    a.engine.set_polls(a.peer, true);
    // Some come before their receives.
    for _ in 0..4 {
        let s = a.send(4, &data(4 * SIZE), Mode::Standard);
        b.take_all(&mut a);
        let r = b.recv(ANY.0, ANY.1, 4 * SIZE);
        let (op, pieces, length) = first_get(&mut b).expect("it was announced");
        read(&mut b, &a, (op, &pieces), 0, length);
        settle(&mut a, &mut b);
        assert_eq!((a.engine.finish(s), b.engine.finish(r)), (Some(Outcome::Sent), got(4, length)));
    }
    assert_eq!(announced(&mut a, &mut b, 4 * SIZE, 50), 0, "its sender is not to wait");
    // The next lane begins anew.
    for side in [&mut a, &mut b] {
        side.engine.set_eager_max(side.peer, 256 << 10, 0);
    }
    assert_eq!(announced(&mut a, &mut b, 4 * SIZE, 100), 14);
}

/// `b` takes what waits there before its receive, if it can. Returns how many of these sends of `a` are over.
fn buffered(a: &mut Side, b: &mut Side, sends: &[OpId], can: bool) -> usize {
    b.engine.buffer_unexpected(|_, _, size| can.then(|| data(size as usize)));
    settle(a, b);
    sends.iter().filter(|s| a.engine.outcome(**s) == Some(Outcome::Sent)).count()
}

/// Both sides send what could go eager before they receive: each takes the other's data, and the sends end. A synchronous send
/// waits for its receive all the same.
#[test]
fn what_could_go_eager_is_taken_before_its_receive() {
    const SIZE: usize = READ_FROM as usize;
    let (mut a, mut b) = pair(Config::default());
    for side in [&mut a, &mut b] {
        side.engine.set_max_segments(side.peer, 1000);
        side.engine.set_pull(side.peer, true);
        side.engine.set_eager_max(side.peer, 256 << 10, 0);
        side.engine.set_polls(side.peer, true);
    }
    let waits = a.send(4, &data(SIZE), Mode::Synchronous);
    let sends: Vec<_> = (0..3).map(|tag| a.send(tag, &data(SIZE), Mode::Standard)).collect();
    let back = b.send(5, &data(SIZE), Mode::Standard);
    settle(&mut a, &mut b);
    for side in [&mut a, &mut b] {
        assert!(side.engine.has_to_buffer());
        side.engine.buffer_unexpected(|_, pieces, size| {
            assert_eq!(pieces.iter().map(|p| p.1).sum::<u64>(), size);
            Some(data(size as usize))
        });
        assert!(!side.engine.has_to_buffer());
    }
    settle(&mut a, &mut b);
    assert!(sends.iter().all(|s| a.engine.finish(*s) == Some(Outcome::Sent)));
    assert_eq!((b.engine.finish(back), a.engine.outcome(waits)), (Some(Outcome::Sent), None));
    let r = a.recv(ANY.0, ANY.1, SIZE);
    assert_eq!(a.data(r), data(SIZE));
    assert_eq!(a.engine.finish(r), got(5, SIZE as u64));
    for tag in [2, 0, 1] {
        let r = b.recv(ANY.0, Tag::Is(tag), SIZE);
        assert_eq!(b.data(r), data(SIZE));
        assert_eq!(b.engine.finish(r), got(tag, SIZE as u64));
    }
    let r = b.recv(ANY.0, ANY.1, SIZE);
    let (op, pieces, length) = first_get(&mut b).expect("it was announced");
    read(&mut b, &a, (op, &pieces), 0, length);
    settle(&mut a, &mut b);
    assert_eq!((a.engine.finish(waits), b.engine.finish(r)), (Some(Outcome::Sent), got(4, length)));
    // The credit of each envelope was given back, and of no bytes.
    let granted = |side: &mut Side| side.engine.peers[side.peer.0 as usize].granting.tell();
    let Config { envelopes, eager_bytes, .. } = Config::default();
    assert_eq!([granted(&mut a), granted(&mut b)], [1, 4].map(|n| (envelopes + n, eager_bytes)));
}

/// No more is taken so than could have come eager, and what cannot be read is left where it is.
#[test]
fn no_more_is_taken_before_its_receive_than_comes_eager() {
    const SIZE: usize = READ_FROM as usize;
    let (mut a, mut b) = pair(Config { eager_bytes: 3 * SIZE as u64, ..Config::default() });
    a.engine.set_max_segments(a.peer, 1000);
    a.engine.set_polls(a.peer, true);
    b.engine.set_pull(b.peer, true);
    let sends: Vec<_> = (0..5).map(|tag| a.send(tag, &data(SIZE), Mode::Standard)).collect();
    b.take_all(&mut a);
    assert_eq!(buffered(&mut a, &mut b, &sends, true), 3);
    assert!(!b.engine.has_to_buffer());
    assert_eq!(buffered(&mut a, &mut b, &sends, true), 3);
    for (tag, can) in [(1, true), (2, false)] {
        let r = b.recv(ANY.0, Tag::Is(tag), SIZE);
        assert_eq!(b.data(r), data(SIZE));
        assert_eq!(b.engine.finish(r), got(tag, SIZE as u64));
        assert!(b.engine.has_to_buffer(), "there is room again");
        assert_eq!(buffered(&mut a, &mut b, &sends, can), 4);
    }
    assert_eq!(buffered(&mut a, &mut b, &sends, true), 4, "it is not tried again");
}

/// So is one that a matched probe has taken. Nothing is read over a lane that cannot, nor of a sender that is gone; a lane that can read
/// brings another try.
#[test]
fn what_a_probe_has_taken_is_read_too() {
    const SIZE: usize = READ_FROM as usize;
    let (mut a, mut b) = pair(Config { eager_bytes: 2 * SIZE as u64, ..Config::default() });
    a.engine.set_max_segments(a.peer, 1000);
    a.engine.set_polls(a.peer, true);
    let sends: Vec<_> = (0..2).map(|tag| a.send(tag, &data(SIZE), Mode::Standard)).collect();
    b.take_all(&mut a);
    let claim = b.engine.claim(b.ctx, ANY.0, Tag::Is(1)).expect("it is there");
    assert_eq!(buffered(&mut a, &mut b, &sends, true), 0, "it cannot read");
    b.engine.set_pull(b.peer, true);
    assert!(b.engine.has_to_buffer());
    assert_eq!(buffered(&mut a, &mut b, &sends, true), 2);
    let r = b.engine.next_op();
    b.mem.0.insert(r.0, vec![0; SIZE]);
    b.engine.recv_claimed(&mut b.mem, r, claim, SIZE as u64);
    assert_eq!(b.data(r), data(SIZE));
    a.send(4, &data(SIZE), Mode::Standard);
    b.take_all(&mut a);
    b.engine.on_gone(b.peer, Gone::Dead);
    b.engine.buffer_unexpected(|_, _, _| panic!("its memory is another's by now"));
}

#[test]
fn without_a_description_a_close_ends_it_at_once() {
    let (mut a, mut b) = reach();
    a.engine.set_max_segments(a.peer, 0);
    let s = a.send(4, &data(40), Mode::Standard);
    b.take_all(&mut a);
    a.engine.close(a.ctx);
    assert_eq!(a.engine.outcome(s), failed(Fault::Revoked));
}

#[test]
fn an_empty_message_and_an_empty_buffer_are_not_read() {
    let (mut a, mut b) = reach();
    let r = b.recv(ANY.0, ANY.1, 0);
    let s = a.send(4, &data(40), Mode::Standard);
    settle(&mut a, &mut b);
    assert!(b.gets.is_empty());
    assert_eq!((a.engine.finish(s), b.engine.finish(r)), (Some(Outcome::Sent), truncated(4, 0, 40)));
}

#[test]
fn a_wrong_description_is_malformed() {
    let (_, mut b) = reach();
    let head = Head { tag: 0, source: 0, context: ContextId::root(1), op: 1 };
    let short: Vec<u8> = [64u64, 20, 128, 19].into_iter().flat_map(u64::to_le_bytes).collect();
    let message =
        Message::Rts { head, size: 40, begun: 0, note: b"", pieces: Pieces::new(&short), may_buffer: false }.encode();
    assert_eq!(b.engine.on_message(&mut b.mem, b.peer, &message), Err(base::bytes::Malformed));
}

/// A message that comes right behind the DONE of ours is not early: the program could not have received it before. The next one is.
#[test]
fn an_answer_behind_a_done_is_not_early() {
    let (mut a, mut b) = reach();
    let ours = b.send(4, &data(40), Mode::Standard);
    a.take_all(&mut b);
    let r = a.recv(ANY.0, ANY.1, 40);
    let (_, pieces, _) = first_get(&mut a).unwrap();
    read(&mut a, &b, (r, &pieces), 0, 40);
    let answers = [5, 6].map(|tag| a.send(tag, &data(40), Mode::Standard));
    b.take_all(&mut a);
    assert_eq!(b.engine.outcome(ours), Some(Outcome::Sent));
    for (answer, is_early) in answers.into_iter().zip([false, true]) {
        let r = b.recv(ANY.0, ANY.1, 40);
        let (_, pieces, _) = first_get(&mut b).unwrap();
        read(&mut b, &a, (r, &pieces), 0, 40);
        b.collect();
        let said = Message::Done { op: answer.0, sooner: if is_early { CAME_EARLY } else { 0 } };
        assert_eq!(b.wire.pop_back(), Some(Output::Message { peer: b.peer, bytes: said.encode() }));
    }
}

/// A receive without an operation that the caller reads for: as the general way, down to what the sender is told.
#[test]
fn what_waits_is_read_without_an_operation() {
    for (late, prompt) in [(true, false), (false, false), (true, true)] {
        let (mut a, mut b) = reach();
        b.engine.set_read_sooner(b.peer, 0b101);
        a.send(1, &[1], Mode::Standard);
        let first = a.send(2, &data(40), Mode::Standard);
        let second = a.send(2, &data(50), Mode::Standard);
        let what = (b.ctx, Source::Rank(0), Tag::Is(2));
        if prompt {
            b.engine.peers[b.peer.0 as usize].is_answering = true;
        }
        if !late {
            assert!(b.engine.recv_now(what.0, what.1, what.2, 40) && b.engine.readable(what, 40).is_none());
        }
        while b.take(&mut a) {}
        if !late {
            assert!(b.engine.is_over_now() && b.engine.end_now().is_none());
        }
        assert_eq!(b.engine.has_missed(), !late);
        // The general way.
        let mut general = b.engine.clone();
        let op = general.next_op();
        general.recv(&mut b.mem, op, what.0, what.1, what.2, 40);
        assert!(matches!(general.next_output(), Some(Output::Get { size: 40, .. })));
        general.on_bulk(b.peer, op.0, 0, 40);
        // The short one, for which the first message is too long or of another tag.
        assert!(b.engine.readable(what, 39).is_none());
        assert!(b.engine.readable((what.0, what.1, Tag::Is(1)), 40).is_none(), "an eager one is here");
        assert!(b.engine.readable((what.0, what.1, Tag::Is(3)), 40).is_none());
        let message = b.engine.readable(what, 40).expect("it waits, and is announced");
        let buffer = &a.mem.0[&first.0];
        assert_eq!((message.peer, message.at, message.size), (b.peer, buffer.as_ptr() as u64, 40));
        let (envelope, done) = b.engine.take_read(message).expect("it is there");
        assert_eq!(general.finish(op), Some(Outcome::Received(envelope)));
        assert!(!b.engine.has_output());
        let told = if late && !prompt { CAME_EARLY } else { 0b101 };
        assert_eq!(done.as_ref(), Message::Done { op: first.0, sooner: told }.encode());
        let says: Vec<_> = std::iter::from_fn(|| general.next_output()).collect();
        assert_eq!(says, [Output::Message { peer: b.peer, bytes: done.into() }]);
        let op = b.engine.next_op();
        b.engine.ops.remove(op.0);
        assert_eq!(format!("{:?}", b.engine), format!("{general:?}"));
        // The next one waits still.
        let next = b.engine.readable(what, 50).expect("it waits");
        assert_eq!((next.at, next.size), (a.mem.0[&second.0].as_ptr() as u64, 50));
        assert!(b.engine.take_read(next).is_some());
        assert!(b.engine.readable(what, 50).is_none());
    }
}

#[test]
fn what_cannot_be_read_in_one_piece_is_not_readable() {
    type Change = fn(&mut Side, &mut Side);
    let changes: [Change; 5] = [
        |a, _| a.engine.set_max_segments(a.peer, 0),
        |_, b| b.engine.set_pull(b.peer, false),
        |_, b| b.engine.on_gone(b.peer, Gone::Dead),
        |_, b| b.engine.track(),
        |_, b| b.engine.forget_memory(b.peer),
    ];
    for (n, change) in changes.into_iter().enumerate() {
        let (mut a, mut b) = reach();
        if n == 0 {
            change(&mut a, &mut b);
        }
        a.send(2, &data(40), Mode::Standard);
        while b.take(&mut a) {}
        let what = (b.ctx, Source::Rank(0), Tag::Is(2));
        assert_eq!(b.engine.readable(what, 40).is_some(), n > 0);
        if n > 0 {
            change(&mut a, &mut b);
            assert!(b.engine.readable(what, 40).is_none(), "{n}");
        }
    }
    // Three pieces.
    let (mut a, mut b) = reach();
    a.send(2, &data(1200), Mode::Standard);
    while b.take(&mut a) {}
    assert!(b.engine.readable((b.ctx, Source::Rank(0), Tag::Is(2)), 1200).is_none());
}
