//! Sends that the caller gives to the lane itself (`start_eager`, `start_announced`).

use super::*;
use crate::state::Hold;
use crate::wire::{EagerHead, Message};
use base::Memory;
use base::protocol::message::READ_FROM;
use std::io::{IoSlice, IoSliceMut};

/// A message by `start_eager`, as it would come from a lane.
fn direct(a: &mut Side, tag: i64, data: &[u8]) -> Option<Output> {
    let (peer, head) = a.engine.start_eager(a.ctx, 0, tag, data.len() as u64, Mode::Standard)?;
    let mut bytes = head.with_room(data.len());
    assert_eq!(bytes[..], head.bytes()[..]);
    bytes.extend_from_slice(data);
    Some(Output::Message { peer, bytes })
}

fn refused(a: &mut Side) {
    let before = postcard::to_allocvec(&a.engine).unwrap();
    assert_eq!(direct(a, 0, &[1]), None);
    assert_eq!(postcard::to_allocvec(&a.engine).unwrap(), before);
}

#[test]
fn what_goes_directly_is_received_like_any_other() {
    let (mut a, mut b) = pair(small());
    for size in [0usize, 5, 16] {
        let data = vec![3; size];
        let r = b.recv(Source::Rank(0), Tag::Is(7), size);
        let output = direct(&mut a, 7, &data).expect("there is room");
        a.wire.push_back(output);
        settle(&mut a, &mut b);
        assert_eq!(b.engine.finish(r), got(7, size as u64));
        assert_eq!(b.data(r), data);
    }
    assert!(a.engine.ops.is_empty());
    // Only small sends in standard mode go directly.
    for (size, mode) in [(17, Mode::Standard), (1, Mode::Synchronous), (1, Mode::Partitioned(1))] {
        assert_eq!(a.engine.start_eager(a.ctx, 0, 7, size, mode), None);
    }
    assert_eq!(a.engine.start_eager(Ctx(9), 0, 7, 1, Mode::Standard), None);
    assert_eq!(a.engine.start_eager(a.ctx, 1, 7, 1, Mode::Standard), None);
}

#[test]
fn nothing_is_overtaken() {
    let (mut a, mut b) = pair(small());
    // Neither outputs that were not fetched nor sends that wait for the path are overtaken.
    a.send(0, &[1], Mode::Standard);
    refused(&mut a);
    settle(&mut a, &mut b);
    a.engine.set_backlogged(&a.mem, a.peer, true);
    refused(&mut a);
    a.send(0, &[2], Mode::Standard);
    a.engine.set_backlogged(&a.mem, a.peer, false);
    refused(&mut a);
    settle(&mut a, &mut b);
    // Two envelopes are left.
    assert!((0..2).all(|_| direct(&mut a, 0, &[3]).map(|o| a.wire.push_back(o)).is_some()));
    refused(&mut a);
    a.send(0, &[4], Mode::Standard);
    refused(&mut a);
    for n in [1, 2, 3, 3, 4] {
        settle(&mut a, &mut b);
        let r = b.recv(ANY.0, ANY.1, 1);
        settle(&mut a, &mut b);
        assert_eq!(b.data(r), [n]);
    }
    settle(&mut a, &mut b);
    assert!(direct(&mut a, 0, &[5]).is_some());
}

#[test]
fn a_flood_is_bounded_by_bytes_too() {
    let (mut a, mut b) = pair(Config { envelopes: 100, eager_bytes: 64, ..small() });
    assert_eq!((0..10).filter(|_| direct(&mut a, 0, &[0; 16]).is_some()).count(), 4);
    // A message without data takes no credit for bytes.
    assert!(direct(&mut a, 0, &[]).is_some());
    let overdrawn = EagerHead::new(false, crate::wire::Head { tag: 0, source: 0, context: ContextId::root(1), op: 0 });
    let body = [&overdrawn.bytes()[..], &[0; 16][..]].concat();
    let fine = (0..5).filter(|_| b.engine.on_message(&mut b.mem, b.peer, &body).is_ok()).count();
    assert_eq!(fine, 4);
}

#[test]
fn whoever_is_gone_or_has_closed_gets_nothing() {
    for gone in [Gone::Dead, Gone::Finished] {
        let (mut a, _) = pair(small());
        a.engine.on_gone(a.peer, gone);
        refused(&mut a);
    }
    let (mut a, _) = pair(small());
    let word = Message::Revoked { context: ContextId::root(1), op: 0 }.encode();
    a.engine.on_message(&mut a.mem, a.peer, &word).unwrap();
    refused(&mut a);
    let (mut a, _) = pair(small());
    a.engine.close(a.ctx);
    refused(&mut a);
}

#[test]
fn frames_of_bulk_are_as_large_as_the_peer_takes() {
    let (mut a, mut b) = pair(small());
    a.engine.set_chunk(a.peer, 33);
    let r = b.recv(ANY.0, ANY.1, 70);
    a.send(0, &[9; 70], Mode::Standard);
    b.take_all(&mut a);
    a.take_all(&mut b);
    a.collect();
    let sizes: Vec<u64> =
        a.wire.iter().map(|o| if let Output::Bulk { len, .. } = o { *len } else { panic!("{o:?}") }).collect();
    assert_eq!(sizes, [33, 33, 4]);
    settle(&mut a, &mut b);
    assert_eq!(b.engine.finish(r), got(0, 70));
}

/// The memory of a send whose data lies in one piece, and only where it lies is asked.
struct InOnePiece(Vec<u8>);

impl Memory for InOnePiece {
    fn read(&self, _: u64, _: u64, _: usize, _: &mut Vec<u8>) {
        unreachable!("nothing goes eager");
    }

    fn fill(&self, _: u64, _: u64, _: &mut [u8]) -> usize {
        unreachable!("nothing is bulk");
    }

    fn write(&mut self, _: u64, _: u64, _: &[u8]) {
        unreachable!("nothing is received");
    }

    fn with_slices<R>(&self, _: u64, at: u64, len: usize, _: usize, f: impl FnOnce(&[IoSlice<'_>]) -> R) -> R {
        f(&[IoSlice::new(&self.0[at as usize..][..len])])
    }

    fn with_slices_mut<R>(
        &mut self,
        _: u64,
        _: u64,
        _: usize,
        _: usize,
        _: impl FnOnce(&mut [IoSliceMut<'_>]) -> R,
    ) -> R {
        unreachable!("nothing is received");
    }
}

/// A side whose memory the other can read, and that announces to it what it may; and a send with its data.
fn announcing(size: u64) -> (Side, OpId, InOnePiece) {
    let (mut a, _) = pair(Config { envelopes: 3, eager_max: READ_FROM, eager_bytes: READ_FROM, ..small() });
    a.engine.set_max_segments(a.peer, 3);
    a.engine.set_polls(a.peer, true);
    let op = a.engine.next_op();
    (a, op, InOnePiece(vec![1; size as usize]))
}

#[test]
fn what_is_announced_directly_is_as_any_other() {
    for (size, mode) in [
        (READ_FROM, Mode::Standard),
        (READ_FROM, Mode::Synchronous),
        (READ_FROM + 1, Mode::Standard),
        (READ_FROM + 1, Mode::Synchronous),
    ] {
        let (mut a, op, mem) = announcing(size);
        let mut general = a.engine.clone();
        general.send(&mem, op, a.ctx, 0, 7, size, mode);
        let at = mem.0.as_ptr() as u64;
        let (peer, rts) = a.engine.start_announced(op, (a.ctx, 0, 7), (at, size), mode).expect("it can leave");
        assert_eq!(general.next_output(), Some(Output::Message { peer, bytes: rts.into() }));
        assert!(general.next_output().is_none() && !a.engine.has_output());
        assert_eq!(postcard::to_allocvec(&a.engine).unwrap(), postcard::to_allocvec(&general).unwrap());
        let skipped = |engine: &Engine| format!("{:?}", engine.peers);
        assert_eq!(skipped(&a.engine), skipped(&general));
    }
}

#[test]
fn what_cannot_be_announced_directly_is_not() {
    type Change = fn(&mut Side);
    let changes: [Change; 11] = [
        |a| a.engine.set_max_segments(a.peer, 0),
        |a| {
            a.send(0, &[1], Mode::Standard);
        },
        |a| a.engine.set_backlogged(&a.mem, a.peer, true),
        |a| a.engine.track(),
        |a| a.engine.on_gone(a.peer, Gone::Dead),
        |a| a.engine.close(a.ctx),
        |a| {
            let word = Message::Revoked { context: ContextId::root(1), op: 0 }.encode();
            a.engine.on_message(&mut a.mem, a.peer, &word).unwrap();
        },
        |a| {
            for _ in 0..3 {
                a.send(0, &[], Mode::Standard);
            }
            while a.engine.next_output().is_some() {}
            assert!(a.engine.peers[a.peer.0 as usize].is_free(&a.engine.out), "only envelopes are missing");
        },
        |a| a.engine.peers[a.peer.0 as usize].hold.set(Hold::SKIPPING, true),
        |a| a.engine.peers[a.peer.0 as usize].hold.set(Hold::LEFT, true),
        // It waits for another reason, and what waits is not overtaken.
        |a| {
            a.engine.set_backlogged(&a.mem, a.peer, true);
            a.send(0, &[], Mode::Standard);
            a.engine.peers[a.peer.0 as usize].hold.set(Hold::BACKLOGGED, false);
        },
    ];
    let refused = |a: &mut Side, op, (at, size), mode, what: &str| {
        let before = postcard::to_allocvec(&a.engine).unwrap();
        assert!(a.engine.start_announced(op, (a.ctx, 0, 7), (at, size), mode).is_none(), "{what}");
        assert_eq!(postcard::to_allocvec(&a.engine).unwrap(), before, "{what}");
    };
    for (n, change) in changes.into_iter().enumerate() {
        let (mut a, op, _) = announcing(READ_FROM + 1);
        change(&mut a);
        refused(&mut a, op, (4096, READ_FROM + 1), Mode::Standard, &n.to_string());
    }
    let (mut a, op, _) = announcing(READ_FROM);
    refused(&mut a, op, (4096, READ_FROM), Mode::Partitioned(2), "partitions");
    refused(&mut a, op, (4096, READ_FROM - 1), Mode::Standard, "too short");
    refused(&mut a, op, (4096, 0), Mode::Standard, "no data");
    a.engine.set_polls(a.peer, false);
    refused(&mut a, op, (4096, READ_FROM), Mode::Standard, "nobody polls");
    assert!(
        a.engine.start_announced(op, (a.ctx, 1, 7), (4096, READ_FROM + 1), Mode::Standard).is_none(),
        "no such rank"
    );
}
