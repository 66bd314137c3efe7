use super::*;

const A: ProcId = ProcId { incarnation: 1, rank: 0 };
const B: ProcId = ProcId { incarnation: 2, rank: 3 };

fn pair() -> (Path, Path) {
    let (mut a, mut b) = (Path::new(A, B), Path::new(B, A));
    a.attach(1, Caps::STREAM, 0).unwrap();
    b.attach(1, Caps::STREAM, 0).unwrap();
    (a, b)
}

type Frame = (Header, Vec<u8>);

/// The frames that a path puts on a lane now.
fn drain(p: &mut Path, generation: u16) -> Vec<Frame> {
    let mut frames = Vec::new();
    while let Some(tx) = p.next_tx(generation) {
        let payload = match tx.payload {
            Payload::Bytes(bytes) => bytes.to_vec(),
            Payload::Joined(head, rest) => [head, rest].concat(),
            Payload::User { .. } => Vec::new(),
        };
        frames.push((tx.header, payload));
        p.taken(generation);
    }
    frames
}

fn feed(p: &mut Path, frames: &[Frame]) -> Result<Vec<Vec<u8>>, Malformed> {
    let mut out = Vec::new();
    for (header, payload) in frames {
        p.on_frame(header, payload, |body| {
            out.push(body.to_vec());
            Ok(())
        })?;
    }
    Ok(out)
}

/// A lane that takes all that is written in place.
#[derive(Default)]
struct Taker {
    frames: Vec<Frame>,
}

impl<M: Memory> Lane<M> for Taker {
    fn caps(&self) -> Caps {
        Caps::STREAM
    }
    fn wants_write(&self) -> bool {
        false
    }
    fn try_send(&mut self, _: &M, _: &Header, _: Payload<'_>) -> Sent {
        Sent::NoRoom
    }
    fn try_send_with(&mut self, header: &Header, fill: &mut wire::lane::Fill<'_>) -> Sent {
        let mut body = vec![0; header.len as usize];
        fill(0, &mut body);
        self.frames.push((*header, body));
        Sent::Taken
    }
    fn flush(&mut self, _: &M) -> bool {
        true
    }
    fn poll(&mut self, _: &mut dyn wire::lane::Sink, _: usize) -> usize {
        0
    }
    fn event(&mut self) -> Option<wire::lane::Event> {
        None
    }
    fn quiesce(&mut self) {}
    fn resume(&mut self) {}
    fn death(&self) -> Option<&wire::lane::Death> {
        None
    }
    fn cut(&mut self) {}
    fn written(&self) -> u64 {
        0
    }
}

fn bodies(range: std::ops::Range<u8>) -> Vec<Vec<u8>> {
    range.map(|i| vec![i]).collect()
}

#[test]
fn once_each_and_in_order() {
    let (mut a, mut b) = (Path::new(A, B), Path::new(B, A));
    a.attach(1, Caps::DATAGRAM, 0).unwrap();
    b.attach(1, Caps::DATAGRAM, 0).unwrap();
    bodies(0..6).into_iter().for_each(|m| a.send(m));
    let mut frames = drain(&mut a, 1);
    frames.swap(1, 4);
    frames.insert(3, frames[0].clone());
    frames.push(frames[2].clone());
    assert_eq!(feed(&mut b, &frames), Ok(bodies(0..6)));
    assert_eq!((b.received(), b.repeated()), (6, 2));
}

#[test]
fn acknowledgements_free_what_is_retained() {
    let (mut a, mut b) = pair();
    bodies(0..63).into_iter().for_each(|m| a.send(m));
    feed(&mut b, &drain(&mut a, 1)).unwrap();
    assert_eq!((drain(&mut b, 1).len(), a.retained_bytes()), (0, 63));
    a.send(vec![63]);
    feed(&mut b, &drain(&mut a, 1)).unwrap();
    let acks = drain(&mut b, 1);
    assert_eq!((acks.len(), acks[0].0.kind, acks[0].0.b), (1, Kind::Ack, 64));
    feed(&mut a, &acks).unwrap();
    assert!(a.all_acknowledged() && a.retained_bytes() == 0);
    // A message of its own carries the acknowledgement, too.
    a.send(vec![1]);
    feed(&mut b, &drain(&mut a, 1)).unwrap();
    b.send(vec![2]);
    feed(&mut a, &drain(&mut b, 1)).unwrap();
    assert!(a.all_acknowledged());
}

#[test]
fn memory_of_acknowledged_bodies_is_used_again() {
    let (mut a, mut b) = pair();
    let body = vec![1; 100];
    let at = body.as_ptr();
    a.send(body);
    feed(&mut b, &drain(&mut a, 1)).unwrap();
    let other = a.spare(100);
    assert_ne!(other.as_ptr(), at);
    b.send(vec![2]);
    feed(&mut a, &drain(&mut b, 1)).unwrap();
    let spare = a.spare(100);
    assert_eq!((spare.as_ptr(), spare.len()), (at, 0));
    // The memory that is kept is bounded.
    for _ in 0..100 {
        let mut body = a.spare(16 << 10);
        body.resize(16 << 10, 1);
        a.send(body);
    }
    feed(&mut b, &drain(&mut a, 1)).unwrap();
    b.send(vec![2]);
    feed(&mut a, &drain(&mut b, 1)).unwrap();
    assert!(a.all_acknowledged());
    assert_eq!((0..100).filter(|_| a.spare(1).capacity() == 16 << 10).count(), 16);
}

#[test]
fn memory_that_nobody_asks_for_is_not_kept() {
    let (mut a, mut b) = pair();
    for _ in 0..10 {
        a.send(vec![1; 1000]);
        feed(&mut b, &drain(&mut a, 1)).unwrap();
        b.send(vec![2]);
        feed(&mut a, &drain(&mut b, 1)).unwrap();
        assert!(a.all_acknowledged());
    }
    assert!(a.spare(1).capacity() < 1000, "it was the first that was asked for");
}

#[test]
fn flush_asks_for_it() {
    for sent_before in [true, false] {
        let (mut a, mut b) = pair();
        a.send(vec![1]);
        if sent_before {
            feed(&mut b, &drain(&mut a, 1)).unwrap();
        }
        a.flush();
        feed(&mut b, &drain(&mut a, 1)).unwrap();
        feed(&mut a, &drain(&mut b, 1)).unwrap();
        assert!(a.all_acknowledged());
        assert!(drain(&mut a, 1).is_empty() && drain(&mut b, 1).is_empty());
    }
}

#[test]
fn first_class_goes_before_bulk() {
    let (mut a, _) = pair();
    let bulk = BulkTx { receiver_op: 5, buf: 6, offset: 7, len: 8 };
    a.queue_bulk(bulk);
    a.send(vec![1]);
    let frames = drain(&mut a, 1);
    assert_eq!((frames[0].0.kind, frames[1].0.kind), (Kind::Msg, Kind::Bulk));
    assert_eq!((frames[1].0.a, frames[1].0.b, frames[1].0.len), (5, 7, 8));
    let limits = Limits { bulk_queue: 1, ..Limits::default() };
    let mut a = Path::with_limits(A, B, limits);
    a.attach(1, Caps::STREAM, 0).unwrap();
    a.queue_bulk(bulk);
    assert!(a.backlogged());
    a.lane_lost(1);
    assert!(!a.backlogged() && a.bulk_queued() == 0, "what nobody will ask for holds nothing up");
    a.attach(2, Caps::STREAM, 0).unwrap();
    assert!(drain(&mut a, 2).is_empty(), "bulk is asked for again, not kept");
}

#[test]
fn a_new_lane_carries_what_the_old_one_lost() {
    let (mut a, mut b) = pair();
    bodies(0..5).into_iter().for_each(|m| a.send(m));
    let frames = drain(&mut a, 1);
    assert_eq!(feed(&mut b, &frames[..2]), Ok(bodies(0..2)));
    a.lane_lost(1);
    a.send(vec![5]);
    assert!(drain(&mut a, 1).is_empty());
    let generation = a.offered_generation().max(b.offered_generation());
    a.attach(generation, Caps::STREAM, b.received()).unwrap();
    b.attach(generation, Caps::STREAM, a.received()).unwrap();
    // What was still under way on the old lane is of an older generation.
    assert_eq!(feed(&mut b, &frames[2..]), Ok(vec![]));
    assert_eq!(feed(&mut b, &drain(&mut a, generation)), Ok(bodies(2..6)));
}

#[test]
fn a_switch_keeps_order_and_the_old_lane_until_it_is_empty() {
    let (mut a, mut b) = pair();
    bodies(0..3).into_iter().for_each(|m| a.send(m));
    let before = drain(&mut a, 1);
    a.switch(2, Caps::STREAM).unwrap();
    a.send(vec![3]);
    let (old, new) = (drain(&mut a, 1), drain(&mut a, 2));
    assert_eq!((old.len(), old[0].0.kind, old[0].0.a), (1, Kind::Switch, 2));
    b.switch(2, Caps::STREAM).unwrap();
    // The new lane is faster.
    assert_eq!(feed(&mut b, &new), Ok(vec![]));
    assert_eq!(feed(&mut b, &before), Ok(bodies(0..4)));
    feed(&mut b, &old).unwrap();
    assert_eq!((a.retired(|_| true), b.retired(|_| true)), (None, None));
    let (old, new) = (drain(&mut b, 1), drain(&mut b, 2));
    assert_eq!(b.retired(|_| true), Some(1));
    feed(&mut a, &old).unwrap();
    assert_eq!(a.retired(|_| true), None);
    feed(&mut a, &new).unwrap();
    assert_eq!(a.retired(|_| true), Some(1));
    assert!(a.all_acknowledged());
}

#[test]
fn an_old_lane_that_dies_while_it_is_left_is_made_good() {
    let (mut a, mut b) = pair();
    bodies(0..3).into_iter().for_each(|m| a.send(m));
    let before = drain(&mut a, 1);
    a.switch(2, Caps::STREAM).unwrap();
    b.switch(2, Caps::STREAM).unwrap();
    assert_eq!(feed(&mut b, &before[..1]), Ok(bodies(0..1)));
    a.lane_lost(1);
    assert_eq!(feed(&mut b, &drain(&mut a, 2)), Ok(bodies(1..3)));
}

#[test]
fn lossy_lanes_send_again_after_a_while() {
    let (mut a, mut b) = (Path::new(A, B), Path::new(B, A));
    a.attach(1, Caps::DATAGRAM, 0).unwrap();
    b.attach(1, Caps::DATAGRAM, 0).unwrap();
    bodies(0..3).into_iter().for_each(|m| a.send(m));
    a.on_tick(1);
    let frames = drain(&mut a, 1);
    assert!(frames[2].0.ack_now);
    feed(&mut b, &[frames[0].clone(), frames[2].clone()]).unwrap();
    a.on_tick(40);
    assert!(drain(&mut a, 1).is_empty());
    a.on_tick(51);
    assert_eq!(feed(&mut b, &drain(&mut a, 1)), Ok(bodies(1..3)));
    feed(&mut a, &drain(&mut b, 1)).unwrap();
    assert!(a.all_acknowledged());
    a.on_tick(10_000);
    assert!(drain(&mut a, 1).is_empty());
}

#[test]
fn nonsense_is_malformed() {
    let (mut a, mut b) = pair();
    a.send(vec![1]);
    let frame = drain(&mut a, 1).remove(0);
    let ack = Header { kind: Kind::Ack, len: 0, a: 0, b: 1, ..frame.0 };
    assert_eq!(feed(&mut b, &[(ack, vec![])]), Err(Malformed), "acknowledges what was never sent");
    assert_eq!(b.attach(1, Caps::STREAM, 0), Err(Malformed), "an old generation");
    assert_eq!(b.attach(2, Caps::STREAM, 1), Err(Malformed), "received what was never sent");
    let back = Header { kind: Kind::Switch, len: 0, a: 0, b: 0, ..frame.0 };
    assert_eq!(feed(&mut b, &[(back, vec![])]), Err(Malformed), "a switch to an older lane");
    let limits = Limits { held_frames: 1, ..Limits::default() };
    let mut c = Path::with_limits(B, A, limits);
    c.attach(1, Caps::STREAM, 0).unwrap();
    let far = |sequence| (Header { a: sequence, ..frame.0 }, frame.1.clone());
    assert_eq!(feed(&mut c, &[far(2)]), Err(Malformed), "a gap on a lane that keeps order");
    c.switch(2, Caps::STREAM).unwrap();
    assert_eq!(feed(&mut c, &[far(5)]), Ok(vec![]));
    assert_eq!(feed(&mut c, &[far(6)]), Err(Malformed), "more ahead than is held");
}

#[test]
fn frames_of_others_are_stale() {
    let (mut a, mut b) = pair();
    a.send(vec![1]);
    let (header, payload) = drain(&mut a, 1).remove(0);
    for wrong in [
        Header { source: B, ..header },
        Header { dest: A, ..header },
        Header { source: ProcId { incarnation: 9, ..A }, ..header },
        Header { generation: 0, ..header },
    ] {
        assert_eq!(b.on_frame(&wrong, &payload, |_| panic!()), Ok(Seen::Stale));
    }
    assert_eq!(b.received(), 0);
}

#[test]
fn a_backlogged_path_asks_for_acknowledgement() {
    let limits = Limits { retained_bytes: 4, bulk_queue: 1, ..Limits::default() };
    let (mut a, mut b) = (Path::with_limits(A, B, limits), Path::new(B, A));
    a.attach(1, Caps::STREAM, 0).unwrap();
    b.attach(1, Caps::STREAM, 0).unwrap();
    a.send(vec![0; 5]);
    assert!(a.backlogged());
    feed(&mut b, &drain(&mut a, 1)).unwrap();
    feed(&mut a, &drain(&mut b, 1)).unwrap();
    assert!(!a.backlogged());
    a.queue_bulk(BulkTx { receiver_op: 1, buf: 1, offset: 0, len: 1 });
    assert!(a.backlogged());
}

fn lossless() -> (Path, Path) {
    let (mut a, mut b) = (Path::new(A, B), Path::new(B, A));
    a.attach(1, Caps::SHARED, 0).unwrap();
    b.attach(1, Caps::SHARED, 0).unwrap();
    (a, b)
}

#[test]
fn what_a_lane_without_retention_takes_is_not_kept() {
    let (mut a, mut b) = lossless();
    bodies(0..200).into_iter().for_each(|m| a.send(m));
    assert_eq!(a.unacknowledged(), 200);
    a.flush();
    let frames = drain(&mut a, 1);
    assert!(a.all_acknowledged() && a.retained_bytes() == 0);
    assert_eq!(feed(&mut b, &frames), Ok(bodies(0..200)));
    // No acknowledgement is asked for.
    assert!(frames.iter().all(|(h, _)| !h.ack_now));
    assert_eq!(drain(&mut b, 1), []);
}

#[test]
fn what_was_taken_and_not_read_goes_over_the_next_lane() {
    for caps in [Caps::SHARED, Caps::STREAM] {
        let (mut a, mut b) = lossless();
        bodies(0..10).into_iter().for_each(|m| a.send(m));
        let frames = drain(&mut a, 1);
        a.send(vec![10]);
        // The other side reads one more than the lane knew when it was asked.
        assert_eq!(feed(&mut b, &frames[..7]), Ok(bodies(0..7)));
        a.take_back(Unread { first: 7, bodies: bodies(6..10) });
        a.lane_lost(1);
        b.lane_lost(1);
        assert_eq!(a.unacknowledged(), 5);
        a.attach(2, caps, b.received()).unwrap();
        b.attach(2, caps, a.received()).unwrap();
        assert_eq!(feed_all(&mut b, &mut a, 2), bodies(7..11));
        assert_eq!((b.received(), b.repeated(), a.received()), (11, 0, 0));
    }
}

/// All that `from` has for a lane, delivered to `to`.
fn feed_all(to: &mut Path, from: &mut Path, generation: u16) -> Vec<Vec<u8>> {
    let frames = drain(from, generation);
    feed(to, &frames).unwrap()
}

#[test]
fn a_lane_that_is_lost_between_takes_nothing_with_it() {
    // Retained on a stream, unread there, then over shared memory, unread there too.
    let (mut a, mut b) = pair();
    bodies(0..4).into_iter().for_each(|m| a.send(m));
    let frames = drain(&mut a, 1);
    feed(&mut b, &frames[..2]).unwrap();
    for p in [&mut a, &mut b] {
        p.lane_lost(1);
    }
    a.attach(2, Caps::SHARED, b.received()).unwrap();
    b.attach(2, Caps::SHARED, 0).unwrap();
    a.send(vec![4]);
    let frames = drain(&mut a, 2);
    assert!(a.all_acknowledged());
    assert_eq!(feed(&mut b, &frames[..1]), Ok(bodies(2..3)));
    a.take_back(Unread { first: 4, bodies: bodies(3..5) });
    a.lane_lost(2);
    b.lane_lost(2);
    a.attach(3, Caps::STREAM, b.received()).unwrap();
    b.attach(3, Caps::STREAM, 0).unwrap();
    assert_eq!(feed_all(&mut b, &mut a, 3), bodies(3..5));
}

/// A pair that moves to shared memory, and what the one has sent before.
fn moving() -> (Path, Path, Vec<Frame>) {
    let (mut a, mut b) = pair();
    a.send(vec![0]);
    let old = drain(&mut a, 1);
    a.switch(2, Caps::SHARED).unwrap();
    b.switch(2, Caps::SHARED).unwrap();
    (a, b, old)
}

#[test]
fn after_a_switch_to_a_lane_without_retention_all_is_kept_for_a_while() {
    let (mut a, mut b, old) = moving();
    a.send(vec![1]);
    let marked = drain(&mut a, 1);
    let new = drain(&mut a, 2);
    assert_eq!(a.unacknowledged(), 2);
    assert_eq!(feed(&mut b, &new), Ok(vec![]));
    assert_eq!(feed(&mut b, &old), Ok(bodies(0..2)));
    feed(&mut b, &marked).unwrap();
    let acks = drain(&mut b, 2);
    feed(&mut a, &acks).unwrap();
    assert!(a.all_acknowledged());
}

/// What a lane of shared memory delivers: a MSG without an acknowledgement.
fn shared(mut frames: Vec<Frame>) -> Vec<Frame> {
    frames.iter_mut().filter(|(header, _)| header.kind == Kind::Msg).for_each(|(header, _)| header.b = 0);
    frames
}

/// Programs that send something for each message that comes.
#[test]
fn a_move_to_a_lane_that_carries_no_acknowledgement_in_a_msg_ends() {
    let (mut a, mut b, old) = moving();
    feed(&mut b, &old).unwrap();
    feed(&mut b, &drain(&mut a, 1)).unwrap();
    feed(&mut a, &drain(&mut b, 1)).unwrap();
    // The other side has sent something before it answers.
    let mut sent = 0;
    while sent < 200 && !a.all_acknowledged() {
        a.send(vec![1]);
        feed(&mut b, &shared(drain(&mut a, 2))).unwrap();
        b.send(vec![2]);
        feed(&mut a, &shared(drain(&mut b, 2))).unwrap();
        sent += 1;
    }
    assert!(sent < 10, "{} are not acknowledged", a.unacknowledged());
}

/// One frame alone.
fn only(mut frames: Vec<Frame>) -> Frame {
    assert_eq!(frames.len(), 1, "{frames:?}");
    frames.remove(0)
}

#[test]
fn whoever_is_asked_answers_and_acknowledges() {
    let (mut a, mut b) = pair();
    a.send(vec![1]);
    feed(&mut b, &drain(&mut a, 1)).unwrap();
    a.ask();
    assert!(a.is_asking());
    let question = only(drain(&mut a, 1));
    assert_eq!((question.0.kind, question.0.a), (Kind::Ping, 1));
    feed(&mut b, std::slice::from_ref(&question)).unwrap();
    let answer = only(drain(&mut b, 1));
    assert_eq!((answer.0.kind, answer.0.a, answer.0.b), (Kind::Pong, 1, 1));
    feed(&mut a, std::slice::from_ref(&answer)).unwrap();
    assert!(!a.is_asking() && a.all_acknowledged());
    assert!(drain(&mut a, 1).is_empty() && drain(&mut b, 1).is_empty());
    // An old answer does not close the next question. Asked once more, it is the same question.
    a.ask();
    drain(&mut a, 1);
    feed(&mut a, &[answer]).unwrap();
    assert!(a.is_asking());
    a.ask();
    let question = only(drain(&mut a, 1));
    assert_eq!(question.0.a, 2);
    feed(&mut b, &[question]).unwrap();
    feed(&mut a, &drain(&mut b, 1)).unwrap();
    assert!(!a.is_asking());
}

#[test]
fn a_question_goes_with_its_lane() {
    let (mut a, mut b) = pair();
    a.ask();
    let question = only(drain(&mut a, 1));
    feed(&mut b, &[question]).unwrap();
    for p in [&mut a, &mut b] {
        p.lane_lost(1);
        p.attach(2, Caps::STREAM, 0).unwrap();
    }
    assert!(!a.is_asking() && drain(&mut a, 2).is_empty() && drain(&mut b, 2).is_empty());
    // Before what is bulk, after what is first class.
    a.queue_bulk(BulkTx { receiver_op: 5, buf: 6, offset: 7, len: 8 });
    a.ask();
    a.send(vec![1]);
    let kinds: Vec<_> = drain(&mut a, 2).iter().map(|(h, _)| h.kind).collect();
    assert_eq!(kinds, [Kind::Msg, Kind::Ping, Kind::Bulk]);
}

/// Bodies that had gone on an earlier lane too were taken back under other sequences.
#[test]
fn what_is_acknowledged_is_not_taken_back() {
    let mut out = super::tx::TxHalf::new();
    (1..=5).for_each(|n| out.push(vec![n]));
    out.acknowledged(5).unwrap();
    out.take_back(3, vec![vec![3], vec![4]]);
    assert_eq!((out.acked, out.retained.len()), (5, 0));
    out.take_back(4, vec![vec![4], vec![5]]);
    assert_eq!((out.acked, out.retained.len()), (3, 2));
}

/// A process of another job talks and talks, each message of it is answered, and it acknowledges nothing.
#[test]
fn who_never_acknowledges_is_not_answered_without_end() {
    let (mut a, mut b) = pair();
    b.send(vec![1]);
    let (mut header, payload) = drain(&mut b, 1).remove(0);
    let refused = (1..=2 * MOST_RETAINED as u64).find(|sequence| {
        (header.a, header.b) = (*sequence, 0);
        let seen = a.on_frame(&header, &payload, |_| Ok(()));
        a.send(vec![2; 33]);
        while a.next_tx(1).is_some() {
            a.taken(1);
        }
        seen.is_err()
    });
    assert_eq!(refused, Some(MOST_RETAINED as u64 + 2));
    // Whoever acknowledges may go on.
    (header.a, header.b) = (MOST_RETAINED as u64 + 2, 1000);
    assert!(a.on_frame(&header, &payload, |_| Ok(())).is_ok());
}

#[test]
fn a_body_that_is_sent_ahead_is_kept() {
    use base::memory::VecMemory;
    let (mut a, mut b) = pair();
    let mut lane = Taker::default();
    let mut hand = |header: &Header| Lane::<VecMemory>::try_send_with(&mut lane, header, &mut |_, to| to.fill(7));
    assert!(a.send_ahead(3, &mut hand));
    a.keep(vec![7; 3]);
    assert_eq!((a.unacknowledged(), a.next_tx(1).is_none()), (1, true));
    assert_eq!(feed(&mut b, &lane.frames), Ok(vec![vec![7; 3]]));
    // The lane is lost: it goes again, and is taken once.
    a.lane_lost(1);
    assert!(!a.send_ahead(3, |_| unreachable!()), "there is no lane");
    a.attach(2, Caps::STREAM, 0).unwrap();
    b.attach(2, Caps::STREAM, 0).unwrap();
    assert!(!a.send_ahead(3, |_| unreachable!()), "one is to go before it");
    let again = drain(&mut a, 2);
    assert_eq!((again.len(), feed(&mut b, &again)), (1, Ok(vec![])));
    // One that asks for an acknowledgement, and one of a lane that keeps what it takes, go in another way.
    a.flush();
    assert!(!a.send_ahead(3, |_| unreachable!()));
    let (mut c, _) = pair();
    c.attach(2, Caps::SHARED, 0).unwrap();
    assert!(!c.send_ahead(3, |_| unreachable!()));
}
