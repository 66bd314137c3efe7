//! Striped lanes under the cases of all lanes, and the loss of a stripe.

use super::{ByteStream, StreamLane, StripedLane};
use crate::conformance::memory::*;
use crate::conformance::{Factory, Mem, lanes};
use crate::sim::{Rng, pipe};
use base::bytes::Malformed;
use base::protocol::frame::OF_SENDER;
use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut, Read};
use std::time::Instant;
use wire::frame::{HEADER, Header, Kind};
use wire::lane::{Death, Event, Lane, Payload, Sent, Sink};

lanes!(striped, Stripes(Rng::new(2)));

/// Makes lanes of three stripes.
struct Stripes(Rng);

impl Factory for Stripes {
    type Lane = StripedLane<pipe::PipeEnd>;

    fn pair(&mut self) -> (Self::Lane, Self::Lane) {
        let mut next = || pipe::pair(&mut self.0, 64 << 10);
        let (a, b) = next();
        let mut a = StripedLane::new(a, ME, YOU, 1);
        let mut b = StripedLane::new(b, YOU, ME, 1);
        for n in 1..3 {
            let (x, y) = next();
            assert!(a.add(n, x).is_ok() && b.add(n, y).is_ok());
        }
        (a, b)
    }

    fn cut(&mut self, lane: &mut Self::Lane) {
        let knives: Vec<_> = lane.streams().map(|(_, stream)| stream.knife(&mut self.0)).collect();
        knives.into_iter().for_each(|mut knife| knife.cut());
    }

    fn inject(&mut self, lane: &mut Self::Lane, bytes: &[u8]) -> bool {
        lane.streams().next().is_some_and(|(_, stream)| stream.write_all(bytes))
    }
}

/// With a lost stripe the bulk on it is lost, and nothing else.
#[test]
fn a_lost_stripe_is_told_and_the_others_go_on() {
    let mut stripes = Stripes(Rng::new(3));
    let (mut a, mut b) = stripes.pair();
    let (mut mem, mut seen) = (Mem::new(1 << 30), Seen::new(1 << 30));
    mem.buffers.insert(5, bytes(100_000, 5));
    seen.mem.buffers.insert(9, vec![0; 100_000]);
    let knife = a.streams().nth(1).map(|(_, stream)| stream.knife(&mut stripes.0));
    knife.unwrap().cut();
    let mut told = [false; 2];
    let mut back = Seen::new(1);
    until(&mut a, &mut b, &mem, &mut seen, |a, _| {
        Lane::<Mem>::poll(a, &mut back, 1 << 16);
        told[0] |= Lane::<Mem>::event(a) == Some(Event::BulkLost);
        told[0]
    });
    for i in 0..10 {
        let user = Payload::User { buf: 5, offset: i * 10_000 };
        send(&mut a, &mut b, &mem, &mut seen, &header(Kind::Bulk, 9, i * 10_000, 10_000), user);
    }
    send(&mut a, &mut b, &mem, &mut seen, &header(Kind::Msg, 1, 0, 3), Payload::Bytes(b"end"));
    until(&mut a, &mut b, &mem, &mut seen, |_, seen| seen.frames.len() == 1 && seen.bulk_bytes == 100_000);
    assert!(seen.mem.buffers[&9] == mem.buffers[&5]);
    told[1] |= Lane::<Mem>::event(&mut b) == Some(Event::BulkLost);
    assert_eq!(told, [true; 2]);
    assert_eq!(Lane::<Mem>::event(&mut b), None);
}

/// A stream whose end one side (`true`) does not notice: the bytes that it writes are lost.
struct Unnoticed(pipe::PipeEnd, bool);

impl ByteStream for Unnoticed {
    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        match self.0.write_vectored(bufs) {
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe && self.1 => Ok(bufs.iter().map(|b| b.len()).sum()),
            other => other,
        }
    }
    fn cut(&mut self) {
        self.0.cut();
    }
    fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        match self.0.read_vectored(bufs) {
            Ok(0) if self.1 => Err(io::ErrorKind::WouldBlock.into()),
            other => other,
        }
    }
}

/// The side that notices the loss of a stripe asks for the bulk on it again. The other side, which has not noticed the loss,
/// has been told of it by then.
#[test]
fn what_is_sent_after_a_stripe_was_lost_is_not_lost() {
    let mut rng = Rng::new(4);
    let (x, y) = pipe::pair(&mut rng, 64 << 10);
    let mut a = StripedLane::new(Unnoticed(x, false), ME, YOU, 1);
    let mut b = StripedLane::new(Unnoticed(y, true), YOU, ME, 1);
    let (x, y) = pipe::pair(&mut rng, 64 << 10);
    let mut knife = x.knife(&mut rng);
    assert!(a.add(1, Unnoticed(x, false)).is_ok() && b.add(1, Unnoticed(y, true)).is_ok());
    let (mut mem, mut at_a, mut at_b) = (Mem::new(1 << 30), Seen::new(1 << 30), Seen::new(1));
    mem.buffers.insert(5, bytes(100_000, 5));
    at_a.mem.buffers.insert(9, vec![0; 100_000]);
    knife.cut();
    while Lane::<Mem>::event(&mut a) != Some(Event::BulkLost) {
        Lane::<Mem>::poll(&mut a, &mut at_a, 1 << 16);
    }
    // A message that is sent after the loss comes after LOST.
    send(&mut a, &mut b, &mem, &mut at_b, &header(Kind::Msg, 1, 0, 3), Payload::Bytes(b"cts"));
    until(&mut a, &mut b, &mem, &mut at_b, |_, seen| seen.frames.len() == 1);
    for i in 0..10 {
        let user = Payload::User { buf: 5, offset: i * 10_000 };
        send(&mut b, &mut a, &mem, &mut at_a, &header(Kind::Bulk, 9, i * 10_000, 10_000), user);
    }
    until(&mut b, &mut a, &mem, &mut at_a, |_, seen| seen.bulk_bytes == 100_000);
    assert!(at_a.mem.buffers[&9] == mem.buffers[&5]);
    assert_eq!(Lane::<Mem>::event(&mut b), Some(Event::BulkLost));
    // A connection for the lost stripe that comes now is not taken.
    let (x, _) = pipe::pair(&mut rng, 64 << 10);
    assert!(b.add(1, Unnoticed(x, false)).is_err());
}

/// A lane of one stream on each side, whose sinks are told of parts of messages from 100 bytes on.
fn with_parts(seed: u64) -> [StreamLane<pipe::PipeEnd>; 2] {
    let (a, b) = pipe::pair(&mut Rng::new(seed), 3000);
    [a, b].map(|end| {
        let mut lane = StreamLane::new(end);
        lane.set_long(100);
        lane
    })
}

/// Messages of which a part is here go where they belong, among others and bulk, in memory of one piece and of many.
#[test]
fn parts_are_brought_where_they_belong() {
    for (block, least) in [(1 << 30, 100), (700, 100), (1 << 30, 40_000)] {
        let [mut a, mut b] = with_parts(block as u64);
        let (mut mem, mut seen) = (Mem::new(1 << 30), Seen::new(block));
        seen.places = usize::MAX;
        mem.buffers.insert(5, bytes(50_000, 5));
        seen.mem.buffers.insert(9, vec![0; 50_000]);
        let lengths = [1, 99, 100, 5000, 3, 40_000, 20_000, 1, 60_000];
        for (n, len) in (1..).zip(lengths) {
            let body = bytes(len.max(least), n);
            send(&mut a, &mut b, &mem, &mut seen, &header(Kind::Msg, n, 0, body.len()), Payload::Bytes(&body));
            let user = Payload::User { buf: 5, offset: (n - 1) * 5000 };
            send(&mut a, &mut b, &mem, &mut seen, &header(Kind::Bulk, 9, (n - 1) * 5000, 5000), user);
        }
        until(&mut a, &mut b, &mem, &mut seen, |_, seen| seen.bulk_bytes == 45_000);
        assert!(seen.frames.len() == lengths.len() && seen.places < usize::MAX);
        for ((n, len), (header, body)) in (1..).zip(lengths).zip(&seen.frames) {
            assert!(header.a == n && *body == bytes(len.max(least), n), "{n}: {} bytes", body.len());
        }
        assert_eq!(seen.mem.buffers[&9][..45_000], mem.buffers[&5][..45_000]);
        assert!(Lane::<Mem>::death(&b).is_none());
    }
}

/// What is not wanted where a part of it is has to come again, by another lane.
#[test]
fn a_part_whose_rest_is_unwanted_ends_the_lane() {
    let [mut a, mut b] = with_parts(4);
    let (mem, mut seen) = (Mem::new(1 << 30), Seen::new(1 << 30));
    seen.places = 10_000;
    let body = bytes(30_000, 1);
    send(&mut a, &mut b, &mem, &mut seen, &header(Kind::Msg, 1, 0, body.len()), Payload::Bytes(&body));
    until(&mut a, &mut b, &mem, &mut seen, |a, _| !Lane::<Mem>::wants_write(a));
    let start = Instant::now();
    while Lane::<Mem>::death(&b).is_none() {
        assert!(start.elapsed() < LIMIT);
        Lane::<Mem>::poll(&mut b, &mut seen, 1 << 16);
    }
    assert!(matches!(Lane::<Mem>::death(&b), Some(Death::Unplaced)) && seen.frames.is_empty());
}

/// A stream that takes all that is written, notes the writes, and brings what it was given.
#[derive(Default)]
struct Noted {
    writes: Vec<usize>,
    input: VecDeque<u8>,
}

impl ByteStream for Noted {
    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        self.writes.push(bufs.iter().map(|b| b.len()).sum());
        Ok(*self.writes.last().unwrap())
    }
    fn cut(&mut self) {}
    fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        if self.input.is_empty() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.input.read_vectored(bufs)
    }
}

/// The other side can answer an RTS while the beginning of its message is written, which is never there before it.
#[test]
fn a_beginning_goes_behind_its_rts_on_the_same_stripe() {
    let mut lane = StripedLane::new(Noted::default(), ME, YOU, 1);
    assert!(lane.add(1, Noted::default()).is_ok());
    let mut mem = Mem::new(1 << 30);
    mem.buffers.insert(5, bytes(1000, 5));
    for n in 1..=3 {
        assert_eq!(lane.try_send(&mem, &header(Kind::Msg, n, 0, 3), Payload::Bytes(b"rts")), Sent::Taken);
        let mut header = header(Kind::Bulk, 9, 0, 1000);
        header.a |= OF_SENDER;
        assert_eq!(lane.try_send(&mem, &header, Payload::User { buf: 5, offset: 0 }), Sent::Taken);
        assert!(lane.flush(&mem));
    }
    let writes: Vec<_> = lane.streams().map(|(_, stream)| std::mem::take(&mut stream.writes)).collect();
    assert_eq!(writes, [[HEADER + 3, HEADER + 1000].repeat(3), vec![]]);
}

/// Has something to say to the first message.
struct Answering<'a>(&'a mut Seen);

impl Sink for Answering<'_> {
    fn on_frame(&mut self, header: &Header, payload: &[u8]) -> Result<(), Malformed> {
        self.0.on_frame(header, payload)
    }
    fn on_bulk(
        &mut self,
        header: &Header,
        at: usize,
        read: &mut dyn FnMut(&mut [IoSliceMut<'_>]) -> io::Result<usize>,
    ) -> Option<io::Result<usize>> {
        self.0.on_bulk(header, at, read)
    }
    fn has_answer(&self) -> bool {
        self.0.frames.len() == 1
    }
}

/// What is to be answered is not kept waiting by what comes behind it, which is there at the next poll.
#[test]
fn nothing_more_is_read_while_there_is_an_answer() {
    const BULK: usize = 100_000;
    let mut lane = StreamLane::new(Noted::default());
    let mut seen = Seen::new(1 << 30);
    seen.mem.buffers.insert(9, vec![0; BULK]);
    for (header, payload) in [
        (header(Kind::Msg, 1, 0, 3), b"rts".to_vec()),
        (header(Kind::Bulk, 9, 0, BULK), bytes(BULK, 5)),
        (header(Kind::Msg, 2, 0, 3), b"end".to_vec()),
    ] {
        lane.stream().input.extend([&header.encode()[..], &payload].concat());
    }
    let mut poll = |seen: &mut Seen| Lane::<Mem>::poll(&mut lane, &mut Answering(seen), 1 << 20);
    let first = poll(&mut seen);
    assert!(seen.frames.len() == 1 && seen.bulk_bytes < BULK, "{first} bytes at first");
    // One read each time, until all is there.
    let mut polls = 1;
    while poll(&mut seen) > 0 {
        polls += 1;
    }
    assert!(seen.frames.len() == 2 && seen.bulk_bytes == BULK && polls > 2, "{polls} polls");
    assert_eq!(seen.mem.buffers[&9], bytes(BULK, 5));
}
