//! Matched probes: only a receive of the claim gets a claimed message.

use super::*;

fn receive(side: &mut Side, claim: MessageId, capacity: usize) -> OpId {
    let op = side.engine.next_op();
    side.mem.0.insert(op.0, vec![0; capacity]);
    side.engine.recv_claimed(&mut side.mem, op, claim, capacity as u64);
    op
}

#[test]
fn claimed_messages_are_out_of_matching() {
    for size in [0usize, 5, 16, 17, 50] {
        for capacity in [size, size / 2] {
            let (mut a, mut b) = pair(small());
            let [one, two] = [1u8, 2].map(|n| vec![n; size]);
            let sends = [a.send(3, &one, Mode::Synchronous), a.send(3, &two, Mode::Synchronous)];
            settle(&mut a, &mut b);
            assert_eq!(b.engine.claim(b.ctx, Source::Any, Tag::Is(4)), None);
            let claim = b.engine.claim(b.ctx, Source::Rank(0), Tag::Is(3)).expect("it has come");
            // The sender is told only of the receive. Until then, the claim depends on the peer.
            settle(&mut a, &mut b);
            assert_eq!(a.engine.outcome(sends[0]), None);
            assert!(b.engine.depends_on(b.peer));
            // An ordinary receive gets the second message.
            let second = b.recv(ANY.0, ANY.1, size);
            let first = receive(&mut b, claim, capacity);
            settle(&mut a, &mut b);
            assert_eq!((b.data(first), b.data(second)), (&one[..capacity], &two[..]));
            let right =
                if capacity < size { truncated(3, capacity as u64, size as u64) } else { got(3, capacity as u64) };
            assert_eq!(b.engine.finish(first), right);
            assert_eq!(b.engine.finish(second), got(3, size as u64));
            assert_eq!(sends.map(|s| a.engine.finish(s)), [Some(Outcome::Sent); 2]);
            assert!(b.engine.claimed.is_empty() && b.engine.ops.is_empty() && !b.engine.depends_on(b.peer));
        }
    }
}

#[test]
fn what_had_come_whole_outlives_its_sender() {
    for (gone, fault) in [(Gone::Dead, Fault::PeerDead), (Gone::Finished, Fault::PeerFinished)] {
        let (mut a, mut b) = pair(small());
        a.send(1, &[7; 10], Mode::Standard);
        a.send(2, &[8; 40], Mode::Standard);
        settle(&mut a, &mut b);
        let [whole, announced] = [1, 2].map(|tag| b.engine.claim(b.ctx, ANY.0, Tag::Is(tag)).expect("it has come"));
        b.engine.on_gone(b.peer, gone);
        let (whole, announced) = (receive(&mut b, whole, 10), receive(&mut b, announced, 40));
        assert_eq!(b.engine.finish(whole), got(1, 10));
        assert_eq!(b.data(whole), &[7; 10]);
        assert_eq!(b.engine.finish(announced), failed(fault));
    }
}

/// More messages than credit allows at once. The receives give it back.
#[test]
fn claims_give_their_credit_back() {
    let (mut a, mut b) = pair(small());
    let sends: Vec<OpId> = (0..20).map(|n| a.send(0, &[n; 8], Mode::Synchronous)).collect();
    for n in 0..20 {
        settle(&mut a, &mut b);
        let claim = b.engine.claim(b.ctx, ANY.0, ANY.1).expect("credit has come back");
        let op = receive(&mut b, claim, 8);
        assert_eq!(b.data(op), &[n; 8]);
        assert_eq!(b.engine.finish(op), got(0, 8));
    }
    settle(&mut a, &mut b);
    assert!(sends.into_iter().all(|s| a.engine.finish(s) == Some(Outcome::Sent)));
}
