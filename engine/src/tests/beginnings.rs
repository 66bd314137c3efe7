//! The beginning of a message that follows its RTS at once.

use super::*;
use crate::wire::{Head, Message};
use base::protocol::frame::OF_SENDER;

const SIZE: usize = 40;
const BEGINNING: u64 = 12;

fn begun() -> (Side, Side) {
    let (mut a, mut b) = pair(Config { beginning: BEGINNING, envelopes: 1000, eager_bytes: 1 << 20, ..small() });
    for side in [&mut a, &mut b] {
        side.engine.set_begins(side.peer, true);
    }
    (a, b)
}

fn data(seed: u8) -> Vec<u8> {
    (0..SIZE as u8).map(|i| i.wrapping_mul(7) ^ seed).collect()
}

/// A long message follows at once only where the other side has said something since the last one.
fn answer(a: &mut Side, b: &mut Side) {
    let r = a.recv(Source::Any, Tag::Is(99), 1);
    b.send(99, &[1], Mode::Standard);
    settle(a, b);
    assert_eq!(a.engine.outcome(r), got(99, 1));
}

/// The offsets and lengths of bulk that is on its way, and whether it follows its RTS.
fn on_the_way(side: &Side) -> Vec<(u64, u64, bool)> {
    let bulk = |output: &Output| match output {
        Output::Bulk { offset, len, receiver_op, .. } => Some((*offset, *len, receiver_op & OF_SENDER != 0)),
        _ => None,
    };
    side.wire.iter().filter_map(bulk).collect()
}

#[test]
fn a_posted_receive_takes_it_and_asks_for_the_rest() {
    let (mut a, mut b) = begun();
    answer(&mut a, &mut b);
    let r = b.recv(ANY.0, ANY.1, SIZE);
    let s = a.send(0, &data(1), Mode::Standard);
    a.collect();
    assert_eq!(on_the_way(&a), [(0, 8, true), (8, 4, true)], "by frames of 8 bytes, behind the RTS");
    b.take_all(&mut a);
    assert!(b.engine.has_arrived(r, 0, BEGINNING) && !b.engine.has_arrived(r, 0, BEGINNING + 1));
    a.take_all(&mut b);
    a.collect();
    assert_eq!(on_the_way(&a).iter().map(|(at, len, _)| (*at, *len)).next(), Some((BEGINNING, 8)));
    assert_eq!(on_the_way(&a).iter().map(|(_, len, _)| len).sum::<u64>(), SIZE as u64 - BEGINNING);
    settle(&mut a, &mut b);
    assert_eq!((a.engine.outcome(s), b.engine.outcome(r)), (Some(Outcome::Sent), got(0, SIZE as u64)));
    assert_eq!(b.data(r), data(1));
}

/// Messages in a row keep the lane busy without it.
#[test]
fn of_several_in_a_row_only_the_first_has_one() {
    let (mut a, mut b) = pair(Config::default());
    a.engine.set_begins(a.peer, true);
    answer(&mut a, &mut b);
    let long = vec![1; 300 << 10];
    let sent = [(); 2].map(|()| {
        a.send(0, &long, Mode::Standard);
        a.collect();
        on_the_way(&a)
    });
    assert_eq!(sent, [vec![(0, 128 << 10, true)], vec![(0, 128 << 10, true)]], "one for both");
}

#[test]
fn it_is_dropped_where_no_receive_waits_and_some_messages_go_without() {
    let (mut a, mut b) = begun();
    let mut with = 0;
    for i in 0..20 {
        answer(&mut a, &mut b);
        let is_late = i < 3;
        let early = (!is_late).then(|| b.recv(ANY.0, ANY.1, SIZE));
        a.send(0, &data(i), Mode::Standard);
        a.collect();
        let begins = !on_the_way(&a).is_empty();
        with += u32::from(begins);
        assert_eq!(begins, i == 0 || i > 8, "{i}: after one that was dropped eight go without");
        b.take_all(&mut a);
        let r = early.unwrap_or_else(|| b.recv(ANY.0, ANY.1, SIZE));
        settle(&mut a, &mut b);
        assert_eq!((b.engine.outcome(r), b.data(r)), (got(0, SIZE as u64), &data(i)[..]));
    }
    assert_eq!(with, 12);
}

/// Nothing is known of a later receive's operation, nor of who else sends under that number.
#[test]
fn it_goes_to_no_other_receive() {
    let (mut a, mut b) = begun();
    answer(&mut a, &mut b);
    let r = b.recv(ANY.0, ANY.1, SIZE);
    let s = a.send(0, &data(1), Mode::Standard);
    b.take(&mut a);
    assert_eq!(b.engine.bulk_op(b.peer, r.0), Some(r.0));
    assert_eq!(b.engine.bulk_op(b.peer, s.0 | OF_SENDER), Some(r.0));
    assert_eq!(b.engine.bulk_op(b.peer, (s.0 + 1) | OF_SENDER), None);
    let stranger = b.engine.add_peer(1);
    assert_eq!(b.engine.bulk_op(stranger, s.0 | OF_SENDER), None);
    settle(&mut a, &mut b);
    assert_eq!(b.engine.outcome(r), got(0, SIZE as u64));
    assert_eq!(b.engine.bulk_op(b.peer, s.0 | OF_SENDER), None, "it has all");
}

/// A peer that says of each message that it has begun does not make each dearer than the one before.
#[test]
fn few_are_taken_at_a_time() {
    let (_, mut b) = begun();
    for op in 1..=40 {
        b.recv(ANY.0, ANY.1, SIZE);
        let head = Head { tag: 0, source: 0, context: ContextId::root(1), op };
        let (pieces, note) = (Default::default(), &b""[..]);
        let rts = Message::Rts { head, size: SIZE as u64, begun: BEGINNING, note, pieces, may_buffer: false };
        b.engine.on_message(&mut b.mem, b.peer, &rts.encode()).unwrap();
        b.collect();
        let Some(Output::Message { bytes, .. }) = b.wire.pop_back() else { panic!("it asks") };
        let Ok(Message::Cts { offset, .. }) = Message::decode(&bytes) else { panic!("{bytes:?}") };
        let is_taken = b.engine.bulk_op(b.peer, op | OF_SENDER).is_some();
        assert_eq!((offset, is_taken), if op <= 16 { (BEGINNING, true) } else { (0, false) });
    }
}

/// It was on a lane that died, or came by a newer lane before its RTS.
#[test]
fn what_has_not_come_is_asked_for() {
    for (lost, died) in [(0..1, false), (1..2, false), (0..2, false), (0..2, true)] {
        let (mut a, mut b) = begun();
        answer(&mut a, &mut b);
        let r = b.recv(ANY.0, ANY.1, SIZE);
        let s = a.send(0, &data(3), Mode::Synchronous);
        a.collect();
        for n in lost.clone().rev() {
            a.wire.remove(1 + n);
        }
        if died {
            b.take_all(&mut a);
            b.engine.on_lane_lost(b.peer);
        }
        settle(&mut a, &mut b);
        assert_eq!((a.engine.outcome(s), b.engine.outcome(r)), (Some(Outcome::Sent), got(0, SIZE as u64)), "{lost:?}");
        assert_eq!(b.data(r), data(3));
    }
}

#[test]
fn a_short_receive_asks_for_all_that_it_has_room_for() {
    for room in [1, BEGINNING as usize, BEGINNING as usize + 1] {
        let (mut a, mut b) = begun();
        answer(&mut a, &mut b);
        let r = b.recv(ANY.0, ANY.1, room);
        a.send(0, &data(4), Mode::Standard);
        settle(&mut a, &mut b);
        assert_eq!(b.engine.outcome(r), truncated(0, room as u64, SIZE as u64));
        assert_eq!(b.data(r), &data(4)[..room]);
    }
}

/// It has no place where a beginning could go when it comes. But most receives with much room are for short messages.
#[test]
fn after_a_long_message_some_receives_have_an_operation() {
    let (mut a, mut b) = begun();
    let now = |b: &mut Side, capacity: u64| {
        let is_begun = b.engine.recv_now(b.ctx, Source::Rank(0), Tag::Any, capacity);
        b.engine.end_now();
        is_begun
    };
    assert!(now(&mut b, SIZE as u64), "there was no long message yet");
    let r = b.recv(ANY.0, ANY.1, SIZE);
    a.send(0, &data(1), Mode::Standard);
    settle(&mut a, &mut b);
    assert_eq!(b.engine.outcome(r), got(0, SIZE as u64));
    let posted = (0..20).filter(|_| now(&mut b, BEGINNING) && !now(&mut b, BEGINNING + 1)).count();
    assert_eq!(posted, 8);
    assert!(now(&mut b, BEGINNING + 1));
}

#[test]
fn neither_partitions_nor_what_can_be_read_have_one() {
    let (mut a, mut b) = begun();
    answer(&mut a, &mut b);
    let op = a.send(0, &data(5), Mode::Partitioned(1));
    assert!(a.engine.ready(&a.mem, op, &[(0, 1)]));
    a.collect();
    assert_eq!(on_the_way(&a), []);
    let (mut a, mut b) = begun();
    answer(&mut a, &mut b);
    a.engine.set_max_segments(a.peer, 4);
    a.send(0, &data(6), Mode::Standard);
    a.collect();
    assert_eq!(on_the_way(&a), [], "it can be read");
}
