//! Messages of which parts come first.

use super::*;

const DATA: [u8; 16] = [7; 16];

/// The body of a message of `a`.
fn body(a: &mut Side, tag: i64) -> Vec<u8> {
    a.send(tag, &DATA, Mode::Standard);
    a.collect();
    let Some(Output::Message { bytes, .. }) = a.wire.pop_front() else { panic!("an EAGER") };
    bytes
}

impl Side {
    /// All but the last `missing` bytes of a body come.
    fn part(&mut self, body: &[u8], missing: usize) {
        self.engine.on_part(&mut self.mem, self.peer, &body[..body.len() - missing], body.len() as u64);
    }

    fn whole(&mut self, body: &[u8]) {
        self.engine.on_message(&mut self.mem, self.peer, body).expect("well formed");
    }

    /// How many bytes of a receive's buffer are written.
    fn written(&self, op: OpId) -> usize {
        self.data(op).iter().take_while(|b| **b == 7).count()
    }
}

#[test]
fn a_part_goes_to_the_buffer_and_is_not_copied_again() {
    let (mut a, mut b) = pair(small());
    let other = b.recv(Source::Rank(0), Tag::Is(1), 16);
    let r = b.recv(Source::Rank(0), Tag::Any, 20);
    let body = body(&mut a, 2);
    for (missing, written) in [(12, 4), (14, 4), (1, 15)] {
        b.part(&body, missing);
        assert_eq!((b.written(r), b.written(other)), (written, 0));
        assert!(b.engine.pending(r));
    }
    // Would it be copied again, this would be overwritten.
    b.mem.0.get_mut(&r.0).unwrap()[3] = 8;
    b.whole(&body);
    assert_eq!(b.engine.finish(r), got(2, 16));
    assert_eq!(b.data(r), [&[7, 7, 7, 8][..], &[7; 12], &[0; 4]].concat());
    assert!(b.engine.pending(other));
}

#[test]
fn what_has_got_a_part_is_not_cancelled() {
    let (mut a, mut b) = pair(small());
    let (r, next) = (b.recv(Source::Rank(0), Tag::Is(2), 16), b.recv(Source::Rank(0), Tag::Is(2), 16));
    let body = body(&mut a, 2);
    b.part(&body, 3);
    assert!(!b.engine.cancel_recv(r));
    assert!(b.engine.cancel_recv(next));
    b.whole(&body);
    assert_eq!(b.engine.finish(r), got(2, 16));
    assert_eq!(b.data(r), DATA);
}

#[test]
fn receives_that_may_get_another_message_have_no_part() {
    let (mut a, mut b) = pair(small());
    let body = body(&mut a, 2);
    let receives: [(Source, Tag, usize); 3] =
        [(Source::Any, Tag::Is(2), 16), (Source::Rank(0), Tag::Is(3), 16), (Source::Rank(0), Tag::Is(2), 15)];
    for (source, tag, capacity) in receives {
        let r = b.recv(source, tag, capacity);
        b.part(&body, 3);
        assert_eq!(b.written(r), 0);
        assert!(b.engine.cancel_recv(r));
    }
    // The oldest that matches is meant, not another one that would do.
    let (any, named) = (b.recv(Source::Any, Tag::Any, 16), b.recv(Source::Rank(0), Tag::Is(2), 16));
    b.part(&body, 3);
    assert_eq!((b.written(any), b.written(named)), (0, 0));
    b.whole(&body);
    assert_eq!(b.engine.finish(any), got(2, 16));
    assert_eq!(b.data(any), DATA);
}

#[test]
fn a_part_of_a_receive_without_an_operation_is_forgotten_with_it() {
    let (mut a, mut b) = pair(small());
    let now = (b.ctx, Source::Rank(0), Tag::Is(2), 16);
    let body = body(&mut a, 2);
    for whole in [false, true] {
        b.mem.0.insert(NOW.0, vec![0; 16]);
        assert!(b.engine.recv_now(now.0, now.1, now.2, now.3));
        b.part(&body, 3);
        assert_eq!(b.written(NOW), 13);
        if whole {
            b.whole(&body);
        }
        assert_eq!(b.engine.end_now(), got(2, 16).filter(|_| whole));
        if !whole {
            // Another buffer has the same number.
            b.mem.0.insert(NOW.0, vec![0; 16]);
            assert!(b.engine.recv_now(now.0, now.1, now.2, now.3));
            b.whole(&body);
            assert_eq!(b.engine.end_now(), got(2, 16));
        }
        assert_eq!(b.data(NOW), DATA);
    }
}

#[test]
fn a_receive_without_an_operation_is_content_only_where_nothing_else_is_waited_for() {
    let (mut a, mut b) = pair(small());
    let body = body(&mut a, 2);
    for others in [false, true] {
        let other = others.then(|| b.recv(Source::Rank(0), Tag::Is(3), 16));
        b.mem.0.insert(NOW.0, vec![0; 16]);
        assert!(b.engine.recv_now(b.ctx, Source::Rank(0), Tag::Is(2), 16));
        assert!(!b.engine.is_content());
        b.whole(&body);
        assert_eq!(b.engine.is_content(), !others);
        assert_eq!(b.engine.end_now(), got(2, 16));
        assert!(!b.engine.is_content());
        assert!(other.is_none_or(|op| b.engine.finish(op).is_none()));
    }
}

#[test]
fn the_whole_never_comes() {
    let (mut a, mut b) = pair(small());
    let r = b.recv(Source::Rank(0), Tag::Is(2), 16);
    let body = body(&mut a, 2);
    b.part(&body, 3);
    b.engine.on_gone(b.peer, Gone::Dead);
    assert_eq!(b.engine.finish(r), failed(Fault::PeerDead));
    b.part(&body, 2);
}

/// Two peers write at a time, and one receive at a time gets parts: what it has got is not forgotten.
#[test]
fn parts_of_two_peers() {
    let (_, mut b) = pair(small());
    let peers = [b.engine.add_peer(7), b.engine.add_peer(7)];
    let context = ContextId::root(2);
    let ctx = b.engine.open(context, 0, peers.to_vec());
    let body = |source: u32| {
        let head = wire::Head { tag: 2, source, context, op: 5 };
        wire::Message::Eager(wire::Eager { notify: false, head, data: &DATA }).encode()
    };
    let bodies = [body(0), body(1)];
    let recv = |b: &mut Side, source: u32| {
        let op = b.engine.next_op();
        b.mem.0.insert(op.0, vec![0; 16]);
        b.engine.recv(&mut b.mem, op, ctx, Source::Rank(source), Tag::Is(2), 16);
        op
    };
    // A first one of each: their inter-communicator is known then.
    for (source, peer) in (0..).zip(peers) {
        let r = recv(&mut b, source);
        b.engine.on_message(&mut b.mem, peer, &bodies[source as usize]).expect("well formed");
        assert_eq!(b.engine.finish(r), Some(Outcome::Received(Envelope { source, tag: 2, size: 16 })));
    }
    let receives = [recv(&mut b, 0), recv(&mut b, 1)];
    for (peer, body) in peers.iter().zip(&bodies) {
        b.engine.on_part(&mut b.mem, *peer, &body[..body.len() - 3], body.len() as u64);
    }
    assert_eq!(receives.map(|r| b.written(r)), [13, 0]);
    assert_eq!(receives.map(|r| b.engine.cancel_recv(r)), [false, true]);
    b.engine.on_message(&mut b.mem, peers[0], &bodies[0]).expect("well formed");
    assert_eq!(b.data(receives[0]), DATA);
    // Now it is another one's turn.
    let next = recv(&mut b, 1);
    let part = |b: &mut Side, n: usize| {
        b.engine.on_part(&mut b.mem, peers[n], &bodies[n][..bodies[n].len() - 3], bodies[n].len() as u64);
        b.engine.rest_wanted(peers[n], 13, 3).is_some()
    };
    assert!(part(&mut b, 1));
    assert_eq!(b.written(next), 13);
    // Also where nobody asks for the outcome of the one that has a part.
    let other = recv(&mut b, 0);
    b.engine.forget(next);
    assert!(!part(&mut b, 0));
    assert_eq!(b.written(other), 0);
    assert!(b.engine.rest_wanted(peers[1], 13, 3).is_some());
}

impl Side {
    /// The rest of a body comes where it belongs, in pieces of 5 bytes, up to the last `missing` bytes of the data. Returns whether all of it was wanted.
    fn rest(&mut self, missing: usize) -> bool {
        let (mut at, end) = (self.engine.ahead.map_or(0, |a| a.bytes), 16 - missing as u64);
        while at < end {
            let n = 5.min(end - at);
            let Some(op) = self.engine.rest_wanted(self.peer, at, n) else { return false };
            self.mem.write(op.0, at, &DATA[..n as usize]);
            self.engine.on_rest(self.peer, n);
            at += n;
        }
        true
    }

    fn placed(&mut self) -> bool {
        self.engine.on_placed(&mut self.mem, self.peer).expect("well formed")
    }

    fn takes_part(&mut self, body: &[u8], missing: usize) -> bool {
        self.part(body, missing);
        self.engine.rest_wanted(self.peer, 16 - missing as u64, missing as u64).is_some()
    }
}

#[test]
fn the_rest_comes_where_it_belongs() {
    // Also where checkpoints may be made, and to a receive whose outcome nobody asks for.
    for (tracks, freed) in [(false, false), (true, false), (false, true)] {
        let (mut a, mut b) = pair(small());
        let (r, next) = (b.recv(Source::Rank(0), Tag::Is(2), 20), b.recv(Source::Rank(0), Tag::Is(2), 16));
        let (first, second) = (body(&mut a, 2), body(&mut a, 2));
        assert!(b.takes_part(&first, 11) && b.rest(4));
        assert!(!b.engine.cancel_recv(r) && b.engine.pending(r));
        assert_eq!(b.engine.rest_wanted(b.peer, 11, 1), None, "only what comes next");
        assert_eq!(b.engine.rest_wanted(b.peer, 12, 5), None, "longer than the message");
        if freed {
            b.engine.forget(r);
        }
        if tracks {
            b.engine.track();
        }
        assert!(b.rest(0) && b.placed());
        if !freed {
            assert_eq!(b.engine.finish(r), got(2, 16));
            assert_eq!(b.data(r), [&DATA[..], &[0; 4]].concat());
        }
        assert!(b.engine.pending(next) && !b.placed());
        b.whole(&second);
        assert_eq!(b.engine.finish(next), got(2, 16));
    }
}

#[test]
fn a_message_of_which_a_part_is_placed_may_come_whole() {
    let (mut a, mut b) = pair(small());
    let r = b.recv(Source::Rank(0), Tag::Is(2), 16);
    let body = body(&mut a, 2);
    assert!(b.takes_part(&body, 11) && b.rest(3));
    assert!(!b.takes_part(&body, 9), "less than there is already");
    b.whole(&body);
    assert_eq!(b.engine.finish(r), got(2, 16));
    assert_eq!(b.data(r), DATA);
    assert!(!b.rest(0) && !b.placed());
}

#[test]
fn who_receives_without_an_operation_has_no_rest_placed() {
    let (mut a, mut b) = pair(small());
    let body = body(&mut a, 2);
    b.mem.0.insert(NOW.0, vec![0; 16]);
    assert!(b.engine.recv_now(b.ctx, Source::Rank(0), Tag::Is(2), 16));
    assert!(!b.takes_part(&body, 3) && !b.rest(0));
    b.whole(&body);
    assert_eq!(b.engine.end_now(), got(2, 16));
}

#[test]
fn the_rest_is_unwanted_when_the_receive_is_over() {
    let (mut a, mut b) = pair(small());
    let r = b.recv(Source::Rank(0), Tag::Is(2), 16);
    let body = body(&mut a, 2);
    assert!(b.takes_part(&body, 3));
    b.engine.close(b.ctx);
    assert!(b.engine.finish(r).is_some());
    assert!(!b.rest(0) && b.placed(), "nobody is to get it, and it need not come again");
    // Another receive may be the next one's, so of a message whose receive is over nothing counts.
    assert!(!b.placed());
}
