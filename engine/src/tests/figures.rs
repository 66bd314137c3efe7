//! Figures: messages and bytes of both kinds count once on each side, and the queues are as long as they are.

use super::*;
use crate::figures::Flow;

#[test]
fn small_and_large_messages_are_counted_with_their_bytes() {
    let (mut a, mut b) = pair(small());
    a.send(1, &[1; 4], Mode::Standard);
    a.send(2, &[2; 40], Mode::Standard);
    a.take_all(&mut b);
    b.take_all(&mut a);
    let flow = Flow { messages: 2, bytes: 44 };
    assert_eq!((a.engine.traffic(a.peer).sent, b.engine.traffic(b.peer).received), (flow, flow));
    assert_eq!((a.engine.traffic(a.peer).received, b.engine.traffic(b.peer).sent), Default::default());
    assert_eq!(a.engine.traffic(PeerId(77)), Default::default(), "nobody");
    b.engine.on_gone(b.peer, Gone::Finished);
    assert_eq!(b.engine.traffic(b.peer).received, flow, "also of one that is gone");
}

#[test]
fn queues_are_counted_by_peer() {
    let (mut a, mut b) = pair(small());
    a.send(1, &[1; 4], Mode::Standard);
    a.send(2, &[2; 40], Mode::Standard);
    a.take_all(&mut b);
    b.take_all(&mut a);
    b.recv(Source::Rank(0), Tag::Is(7), 4);
    b.recv(Source::Any, Tag::Is(8), 4);
    let queues = b.engine.queues();
    assert_eq!(queues.of.get(&b.peer), Some(&(2, 1)));
    assert_eq!(queues.from_any.get(&b.peer), Some(&1));
    b.recv(Source::Rank(0), Tag::Is(1), 4);
    assert_eq!(b.engine.queues().of.get(&b.peer), Some(&(1, 1)), "one was matched");
}
