//! Data that the sender writes to the receiver's memory, while the receiver reads the rest.

use super::*;
use crate::Gone;
use crate::wire::{Message, Pieces};

const SIZE: usize = 40;

/// What `a` is to write: its send, the receive, the offset and the pieces.
type Asked = (OpId, u64, u64, Vec<(u64, u64)>);

fn data(size: usize) -> Vec<u8> {
    (1..=size as u8).collect()
}

/// A message of `a` that `b` receives: it reads the first bytes, and has asked for those from `offset` on.
fn shared(offset: u64) -> (Side, Side, OpId, OpId, Option<Asked>) {
    let (mut a, mut b) = pair(Config { eager_max: 8, ..Config::default() });
    a.engine.set_max_segments(a.peer, 8);
    b.engine.set_pull(b.peer, true);
    let r = b.recv(ANY.0, ANY.1, SIZE);
    let s = a.send(4, &data(SIZE), Mode::Standard);
    b.take_all(&mut a);
    b.collect();
    assert!(matches!(b.gets.pop_front(), Some(Output::Get { size: 40, .. })));
    let half = SIZE as u64 - offset;
    assert!(!b.engine.ask_to_put(r, offset, &[(5, half - 1)]) && !b.engine.ask_to_put(r, offset, &[]));
    assert!(b.engine.ask_to_put(r, offset, &[(1000, 3), (2000, half - 3)]));
    assert!(!b.engine.ask_to_put(r, offset, &[(1000, half)]), "it was asked already");
    let asked = asked(&mut a, &mut b);
    (a, b, s, r, asked)
}

fn asked(a: &mut Side, b: &mut Side) -> Option<Asked> {
    a.take_all(b);
    a.collect();
    a.puts.pop_front().map(|output| match output {
        Output::Put { op, receiver_op, offset, pieces, .. } => (op, receiver_op, offset, pieces),
        other => panic!("{other:?}"),
    })
}

/// `b` gets bytes from its own reading, from a put, or by a lane.
fn bytes(b: &mut Side, r: OpId, from: usize, to: usize) {
    b.mem.0.get_mut(&r.0).unwrap()[from..to].copy_from_slice(&data(SIZE)[from..to]);
}

fn read(b: &mut Side, r: OpId, from: usize, to: usize) {
    bytes(b, r, from, to);
    b.engine.on_bulk(b.peer, r.0, from as u64, (to - from) as u64);
}

/// Exchanges outputs until there are none: the send and the receive are over then.
#[track_caller]
fn end(a: &mut Side, b: &mut Side, s: OpId, r: OpId) {
    settle(a, b);
    assert_eq!((a.engine.outcome(s), b.engine.outcome(r)), (Some(Outcome::Sent), got(4, 40)));
}

#[test]
fn both_copy() {
    for is_read_first in [true, false] {
        let (mut a, mut b, s, r, asked) = shared(10);
        assert_eq!(asked, Some((s, r.0, 10, vec![(1000, 3), (2000, 27)])));
        assert!(a.engine.may_put(a.peer, s) && !a.engine.may_put(PeerId(9), s));
        if is_read_first {
            read(&mut b, r, 0, 10);
        }
        bytes(&mut b, r, 10, SIZE);
        a.engine.put_over(a.peer, r.0, true);
        settle(&mut a, &mut b);
        assert_eq!(b.engine.outcome(r).is_some(), is_read_first);
        if !is_read_first {
            read(&mut b, r, 0, 10);
            settle(&mut a, &mut b);
        }
        assert_eq!((a.engine.outcome(s), b.engine.outcome(r)), (Some(Outcome::Sent), got(4, 40)));
        assert_eq!(b.data(r), data(SIZE));
        assert!(!a.engine.may_put(a.peer, s));
    }
}

/// The receive is not over before the sender has answered, even if all bytes have come by another way: they may be written once more.
#[test]
fn a_buffer_that_may_be_written_to_is_not_given_back() {
    for done in [true, false] {
        let (mut a, mut b, s, r, asked) = shared(0);
        assert!(asked.is_some());
        b.engine.on_lane_lost(b.peer);
        read(&mut b, r, 0, SIZE);
        assert_eq!(b.engine.outcome(r), None);
        a.engine.put_over(a.peer, r.0, done);
        end(&mut a, &mut b, s, r);
    }
}

/// What is not written is asked for, and a sender that was asked by CTS writes nothing any more.
#[test]
fn what_is_not_written_comes_by_the_lane() {
    let (mut a, mut b, s, r, _) = shared(10);
    a.engine.put_over(a.peer, r.0, false);
    end(&mut a, &mut b, s, r);
    assert_eq!(b.data(r), data(SIZE));

    let (mut a, mut b, s, r, asked) = shared(10);
    assert!(asked.is_some());
    b.engine.ask_for_rest(r);
    a.take_all(&mut b);
    assert!(!a.engine.may_put(a.peer, s));
    settle(&mut a, &mut b);
    assert_eq!((a.engine.outcome(s), b.engine.outcome(r)), (None, None), "it has not answered");
    a.engine.put_over(a.peer, r.0, false);
    end(&mut a, &mut b, s, r);
}

/// A request that cannot be, or comes twice, is malformed, and so is one for a message whose place was not told. An answer that nobody waits for
/// changes nothing.
#[test]
fn a_request_is_answered_or_malformed() {
    let (mut a, mut b, s, r, _) = shared(10);
    let pieces: Vec<u8> = [7u64, 4].into_iter().flat_map(u64::to_le_bytes).collect();
    let request = |sender_op: u64, offset: u64| {
        let pieces = Pieces::new(&pieces);
        Message::Rtr { sender_op, receiver_op: 77, offset, len: 4, pieces }.encode()
    };
    let is_malformed = |a: &mut Side, body: &[u8]| a.engine.on_message(&mut a.mem, a.peer, body).is_err();
    assert!(is_malformed(&mut a, &request(s.0 ^ 1 << 40, 0)), "of no send");
    assert!(is_malformed(&mut a, &request(s.0, 0)), "it has asked already");
    let other = a.send(8, &data(SIZE), Mode::Standard);
    for offset in [37, u64::MAX - 1] {
        assert!(is_malformed(&mut a, &request(other.0, offset)), "{offset}");
    }
    a.engine.set_max_segments(a.peer, 0);
    let plain = a.send(9, &data(SIZE), Mode::Standard);
    b.take_all(&mut a);
    assert!(is_malformed(&mut a, &request(plain.0, 0)), "not described");
    let answer = |op: u64| Message::Atp { receiver_op: op, done: true }.encode();
    for op in [r.0 ^ 1 << 40, u64::MAX, 0] {
        b.engine.on_message(&mut b.mem, b.peer, &answer(op)).unwrap();
    }
    b.engine.on_message(&mut b.mem, b.peer, &answer(r.0)).unwrap();
    b.engine.on_message(&mut b.mem, b.peer, &answer(r.0)).unwrap();
    assert_eq!(b.engine.outcome(r), None, "the first half is not here");
}

/// Who was told BYE may have given its receives up: nothing is written to it any more, and nothing said.
#[test]
fn nothing_is_written_after_bye() {
    let (mut a, _, s, _, asked) = shared(10);
    assert!(asked.is_some() && a.engine.may_put(a.peer, s));
    a.engine.bye(a.peer);
    a.collect();
    assert!(matches!(a.wire.pop_back(), Some(Output::Message { .. })));
    assert!(!a.engine.may_put(a.peer, s));
    a.engine.put_over(a.peer, 77, false);
    assert_eq!(a.engine.next_output(), None);
}

/// Whoever goes on from a snapshot waits for no put into the memory that was, and refuses what it was asked.
#[test]
fn a_snapshot_knows_no_addresses() {
    let (mut a, mut b, s, r, asked) = shared(10);
    assert!(asked.is_some());
    b.engine.detach();
    b.engine.on_lane_lost(b.peer);
    a.engine.put_over(a.peer, r.0, true);
    end(&mut a, &mut b, s, r);
    assert_eq!(b.data(r), data(SIZE), "nothing counts as written");

    let (mut a, mut b, s, r, _) = shared(10);
    let pieces = [7u64, 30].map(u64::to_le_bytes).concat();
    let rtr = Message::Rtr { sender_op: s.0, receiver_op: r.0, offset: 10, len: 30, pieces: Pieces::new(&pieces) };
    let bare = Message::Rtr { sender_op: s.0, receiver_op: r.0, offset: 10, len: 30, pieces: Pieces::default() };
    assert_eq!(crate::without_addresses(&rtr.encode()), Some(bare.encode()));
    assert_eq!(crate::without_addresses(&bare.encode()), None);
    a.engine.put_over(a.peer, r.0, false);
    end(&mut a, &mut b, s, r);
}

/// The sender goes on from a snapshot before it has begun: with a request that it has put out, or with one that was held, and has no place any more.
#[test]
fn a_sender_that_goes_on_elsewhere_refuses() {
    for is_held in [false, true] {
        let (mut a, mut b) = pair(Config { eager_max: 8, ..Config::default() });
        a.engine.set_max_segments(a.peer, 8);
        b.engine.set_pull(b.peer, true);
        let r = b.recv(ANY.0, ANY.1, SIZE);
        let s = a.send(4, &data(SIZE), Mode::Standard);
        b.take_all(&mut a);
        b.collect();
        assert!(b.engine.ask_to_put(r, 10, &[(1000, 30)]));
        b.collect();
        let Some(Output::Message { bytes, .. }) = b.wire.pop_front() else { panic!("a request") };
        let bytes = if is_held { crate::without_addresses(&bytes).expect("it has addresses") } else { bytes };
        a.engine.on_message(&mut a.mem, a.peer, &bytes).unwrap();
        a.engine.detach();
        assert_eq!(a.engine.next_output().map(|output| matches!(output, Output::Message { .. })), Some(true));
        assert_eq!(a.engine.next_output(), None);
        b.engine.on_lane_lost(b.peer);
        a.engine.put_over(a.peer, r.0, false);
        end(&mut a, &mut b, s, r);
        assert_eq!(b.data(r), data(SIZE));
    }
}

/// A sender that is gone writes nothing any more.
#[test]
fn nothing_waits_for_a_sender_that_is_gone() {
    let (mut a, mut b, s, r, _) = shared(10);
    read(&mut b, r, 0, 10);
    b.engine.on_gone(b.peer, Gone::Dead);
    assert_eq!(b.engine.outcome(r), failed(Fault::PeerDead));
    // It closes the inter-communicator, and goes on to write.
    a.engine.close(a.ctx);
    assert!(a.engine.may_put(a.peer, s));
    a.engine.on_gone(a.peer, Gone::Dead);
    assert!(!a.engine.may_put(a.peer, s));
}
