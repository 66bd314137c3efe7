//! Notes travel with messages of all kinds, and change nothing else.

use super::*;

fn send(side: &mut Side, tag: i64, data: &[u8], mode: Mode, note: &[u8]) -> OpId {
    let op = side.engine.next_op();
    side.mem.0.insert(op.0, data.to_vec());
    let size = data.len() as u64;
    side.engine.send_noted(&side.mem, op, side.ctx, 0, tag, size, (mode, note.to_vec()));
    op
}

#[test]
fn a_note_comes_with_its_message() {
    for size in [0usize, 3, 16, 17, 60] {
        for mode in [Mode::Standard, Mode::Synchronous, Mode::Partitioned(1)] {
            for (posted, claimed) in [(true, false), (false, false), (false, true)] {
                let (mut a, mut b) = pair(small());
                let data = vec![7; size];
                let early = posted.then(|| b.recv(ANY.0, Tag::Is(2), 60));
                let s = send(&mut a, 2, &data, mode, b"types");
                if let Mode::Partitioned(count) = mode {
                    assert!(a.engine.ready(&a.mem, s, &[(0, count)]));
                }
                // A message without a note follows.
                let plain = a.send(3, &[1], Mode::Standard);
                settle(&mut a, &mut b);
                let r = early.unwrap_or_else(|| match claimed {
                    false => b.recv(ANY.0, Tag::Is(2), 60),
                    true => {
                        let claim = b.engine.claim(b.ctx, ANY.0, Tag::Is(2)).expect("it has come");
                        let op = b.engine.next_op();
                        b.mem.0.insert(op.0, vec![0; 60]);
                        b.engine.recv_claimed(&mut b.mem, op, claim, 60);
                        op
                    }
                });
                b.collect();
                assert_eq!(b.notes, [(r, b"types".to_vec())], "{size} {mode:?} {posted} {claimed}");
                settle(&mut a, &mut b);
                assert_eq!((a.engine.outcome(s), b.engine.outcome(r)), (Some(Outcome::Sent), got(2, size as u64)));
                assert_eq!(b.data(r)[..size], data);
                let other = b.recv(ANY.0, ANY.1, 1);
                settle(&mut a, &mut b);
                assert_eq!((a.engine.outcome(plain), b.engine.outcome(other)), (Some(Outcome::Sent), got(3, 1)));
                assert_eq!(b.notes.len(), 1);
            }
        }
    }
}

#[test]
fn a_message_with_a_note_waits_for_credit_and_for_its_inter_communicator() {
    let (mut a, mut b) = pair(small());
    let sends: Vec<OpId> = (0..20u8).map(|n| send(&mut a, 1, &[n; 8], Mode::Standard, &[b'0' + n; 5])).collect();
    settle(&mut a, &mut b);
    let receives: Vec<OpId> = (0..20)
        .map(|_| {
            let r = b.recv(ANY.0, ANY.1, 8);
            settle(&mut a, &mut b);
            r
        })
        .collect();
    for (n, (s, r)) in (0..).zip(sends.into_iter().zip(receives)) {
        assert_eq!((a.engine.finish(s), b.engine.finish(r)), (Some(Outcome::Sent), got(1, 8)));
        assert_eq!(b.notes[n as usize], (r, vec![b'0' + n; 5]));
    }
    // A message for an inter-communicator that the other side opens later.
    a.engine.close(a.ctx);
    a.ctx = a.engine.open(ContextId::root(2), 0, vec![a.peer]);
    send(&mut a, 1, &[9; 40], Mode::Standard, b"early");
    settle(&mut a, &mut b);
    b.ctx = b.engine.open(ContextId::root(2), 0, vec![b.peer]);
    let r = b.recv(ANY.0, ANY.1, 40);
    settle(&mut a, &mut b);
    assert_eq!((b.engine.finish(r), b.notes.last()), (got(1, 40), Some(&(r, b"early".to_vec()))));
}

/// Its data will never come, so it must not match.
#[test]
fn an_announced_message_with_a_note_is_lost_with_its_sender() {
    for early in [false, true] {
        for gone in [Gone::Dead, Gone::Finished] {
            let (mut a, mut b) = pair(small());
            if early {
                a.ctx = a.engine.open(ContextId::root(2), 0, vec![a.peer]);
            }
            send(&mut a, 1, &[9; 40], Mode::Standard, b"types");
            settle(&mut a, &mut b);
            b.engine.on_gone(b.peer, gone);
            if early {
                b.ctx = b.engine.open(ContextId::root(2), 0, vec![b.peer]);
            }
            let r = b.recv(ANY.0, ANY.1, 40);
            let fault = if gone == Gone::Dead { Fault::PeerDead } else { Fault::PeerFinished };
            assert_eq!(b.engine.outcome(r), failed(fault), "{early}");
        }
    }
}
