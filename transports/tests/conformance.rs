//! What every lane must do, whatever carries it: one suite, instantiated per lane.
//!
//! A new lane adds a [`Factory`] and a line at the end. Nothing here knows what is under a lane.

use base::bytes::Malformed;
use base::ident::random;
use base::{Memory, ProcId};
use nix::poll::{PollFd, PollFlags, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::collections::BTreeMap;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};
use transports::frame::{Header, Kind, MAX_PAYLOAD};
use transports::lane::{Event, Lane, Payload, Sent, Sink, Unread};
use transports::shm::{self, Attempt, Door, Guest, Own, Parts, ShmLane};
use transports::sim::{Rng, pipe};
use transports::stream::{ByteStream, StreamLane, StripedLane};
use transports::tcp::{Arrived, Halfway, Hello, HelloAck, Listeners, Outcome, Race, Socket, Status, choose};

const LIMIT: Duration = Duration::from_secs(20);

/// Makes connected lanes of one kind.
trait Factory {
    type Lane: Lane<Mem>;
    fn pair(&mut self) -> (Self::Lane, Self::Lane);
    /// Breaks the connection under a lane.
    fn cut(&mut self, lane: &mut Self::Lane);
    /// Whether a sleeper would be woken for this lane within so many milliseconds; `None`: it cannot be slept on.
    fn readable(&mut self, lane: &mut Self::Lane, millis: u16) -> Option<bool> {
        // SAFETY: the lane keeps the descriptor open as long as it lives.
        let fd = unsafe { BorrowedFd::borrow_raw(lane.fd()?) };
        Some(poll(&mut [PollFd::new(fd, PollFlags::POLLIN)], millis).unwrap() == 1)
    }
    /// Puts bytes on the wire that no lane would write; false if this kind has no such thing.
    fn inject(&mut self, lane: &mut Self::Lane, bytes: &[u8]) -> bool;
}

/// User memory in blocks of `block` bytes, so that pieces are many when it is small.
struct Mem {
    buffers: BTreeMap<u64, Vec<u8>>,
    block: usize,
}

impl Mem {
    fn new(block: usize) -> Mem {
        Mem { buffers: BTreeMap::new(), block }
    }
}

impl Memory for Mem {
    fn read(&self, buf: u64, offset: u64, len: usize, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.buffers[&buf][offset as usize..][..len]);
    }
    fn fill(&self, buf: u64, offset: u64, to: &mut [u8]) -> usize {
        let Some(v) = self.buffers.get(&buf) else { return 0 };
        to.copy_from_slice(&v[offset as usize..][..to.len()]);
        to.len()
    }
    fn write(&mut self, buf: u64, offset: u64, data: &[u8]) {
        self.buffers.get_mut(&buf).unwrap()[offset as usize..][..data.len()].copy_from_slice(data);
    }
    fn with_slices<R>(&self, buf: u64, offset: u64, len: usize, max: usize, f: impl FnOnce(&[IoSlice<'_>]) -> R) -> R {
        let Some(v) = self.buffers.get(&buf) else { return f(&[]) };
        let pieces: Vec<_> = v[offset as usize..][..len].chunks(self.block).take(max).map(IoSlice::new).collect();
        f(&pieces)
    }
    fn with_slices_mut<R>(
        &mut self,
        buf: u64,
        offset: u64,
        len: usize,
        max: usize,
        f: impl FnOnce(&mut [IoSliceMut<'_>]) -> R,
    ) -> R {
        let Some(v) = self.buffers.get_mut(&buf) else { return f(&mut []) };
        let part = &mut v[offset as usize..][..len];
        let mut pieces: Vec<_> = part.chunks_mut(self.block).take(max).map(IoSliceMut::new).collect();
        f(&mut pieces)
    }
}

/// Takes note of what arrives.
struct Seen {
    mem: Mem,
    frames: Vec<(Header, Vec<u8>)>,
    bulk_bytes: usize,
    unwanted: bool,
}

impl Seen {
    fn new(block: usize) -> Seen {
        Seen { mem: Mem::new(block), frames: Vec::new(), bulk_bytes: 0, unwanted: false }
    }
}

impl Sink for Seen {
    fn on_frame(&mut self, header: &Header, payload: &[u8]) -> Result<(), Malformed> {
        assert_eq!(payload.len(), header.len as usize);
        self.frames.push((*header, payload.to_vec()));
        Ok(())
    }
    fn on_bulk(
        &mut self,
        header: &Header,
        at: usize,
        read: &mut dyn FnMut(&mut [IoSliceMut<'_>]) -> io::Result<usize>,
    ) -> Option<io::Result<usize>> {
        if self.unwanted {
            return None;
        }
        let (offset, len) = (header.b + at as u64, header.len as usize - at);
        let done = self.mem.with_slices_mut(header.a, offset, len, 16, |pieces| read(pieces));
        self.bulk_bytes += done.as_ref().copied().unwrap_or(0);
        Some(done)
    }
}

const ME: ProcId = ProcId { incarnation: 1, rank: 2 };
const YOU: ProcId = ProcId { incarnation: 3, rank: 4 };

fn header(kind: Kind, a: u64, b: u64, len: usize) -> Header {
    Header { len: len as u32, kind, ack_now: false, generation: 1, source: ME, dest: YOU, a, b }
}

fn bytes(len: usize, seed: u64) -> Vec<u8> {
    (0..len as u64).map(|i| ((i + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

/// Turns both sides until `done`.
fn until<L: Lane<Mem>>(a: &mut L, b: &mut L, mem: &Mem, seen: &mut Seen, mut done: impl FnMut(&mut L, &Seen) -> bool) {
    let start = Instant::now();
    while !done(a, seen) {
        assert!(start.elapsed() < LIMIT, "nothing moves");
        a.flush(mem);
        b.poll(seen, 1 << 16);
    }
}

fn send<L: Lane<Mem>>(a: &mut L, b: &mut L, mem: &Mem, seen: &mut Seen, header: &Header, payload: Payload<'_>) {
    until(a, b, mem, seen, |a, _| a.try_send(mem, header, payload) == Sent::Taken);
}

fn order_and_sizes<F: Factory>(f: &mut F) {
    let (mut a, mut b) = f.pair();
    let (mem, mut seen) = (Mem::new(1), Seen::new(1));
    let sizes = [1, 10, 4000, 65_487, 65_488, 65_536, 65_537, 300_000, MAX_PAYLOAD, 3, MAX_PAYLOAD, 2];
    let mut sent = Vec::new();
    for (i, size) in (1..).zip(sizes.iter().cycle().take(60)) {
        let h = if i % 7 == 0 { header(Kind::Ack, 0, i, 0) } else { header(Kind::Msg, i, 0, *size) };
        let payload = bytes(h.len as usize, i);
        send(&mut a, &mut b, &mem, &mut seen, &h, Payload::Bytes(&payload));
        sent.push((h, payload));
    }
    until(&mut a, &mut b, &mem, &mut seen, |_, seen| seen.frames.len() == sent.len());
    assert!(seen.frames == sent);
    assert!(a.flush(&mem) && !a.wants_write());
}

fn bulk_among_frames<F: Factory>(f: &mut F) {
    for (from_block, to_block) in [(1 << 30, 1 << 30), (100, 1 << 30), (1 << 30, 100), (7, 30_000), (30_000, 7)] {
        let (mut a, mut b) = f.pair();
        let (mut mem, mut seen) = (Mem::new(from_block), Seen::new(to_block));
        let total = 3_000_000;
        mem.buffers.insert(5, bytes(total, 5));
        seen.mem.buffers.insert(9, vec![0; total]);
        let (mut at, mut i) = (0, 0);
        let sizes = [MAX_PAYLOAD, 1, 1000, 65_536, 200_000, 70_001];
        while at < total {
            i += 1;
            let n = sizes[i % sizes.len()].min(total - at);
            let user = Payload::User { buf: 5, offset: at as u64 };
            send(&mut a, &mut b, &mem, &mut seen, &header(Kind::Bulk, 9, at as u64, n), user);
            let note = bytes(i * 11, 1);
            send(&mut a, &mut b, &mem, &mut seen, &header(Kind::Msg, i as u64, 0, note.len()), Payload::Bytes(&note));
            at += n;
        }
        // Bulk has no order among frames.
        until(&mut a, &mut b, &mem, &mut seen, |_, seen| seen.frames.len() == i && seen.bulk_bytes >= total);
        assert_eq!(seen.bulk_bytes, total);
        assert!(seen.mem.buffers[&9] == mem.buffers[&5], "{from_block} to {to_block}");
    }
}

/// Data that nobody wants, or whose source is gone, does not disturb what follows.
fn unwanted_and_vanished<F: Factory>(f: &mut F) {
    for vanished in [false, true] {
        let (mut a, mut b) = f.pair();
        let (mut mem, mut seen) = (Mem::new(1 << 30), Seen::new(1 << 30));
        seen.unwanted = true;
        mem.buffers.insert(5, bytes(MAX_PAYLOAD, 5));
        for i in 1..=4 {
            let user = Payload::User { buf: 5, offset: 0 };
            send(&mut a, &mut b, &mem, &mut seen, &header(Kind::Bulk, 9, 0, MAX_PAYLOAD), user);
            if vanished {
                mem.buffers.clear();
            }
            send(&mut a, &mut b, &mem, &mut seen, &header(Kind::Msg, i, 0, 3), Payload::Bytes(b"abc"));
        }
        until(&mut a, &mut b, &mem, &mut seen, |_, seen| seen.frames.len() == 4);
        assert!(seen.frames.iter().all(|(_, payload)| payload == b"abc"));
    }
}

fn no_room_then_writable<F: Factory>(f: &mut F) {
    let (mut a, mut b) = f.pair();
    let (mem, mut seen) = (Mem::new(1), Seen::new(1));
    let payload = bytes(60_000, 1);
    let mut taken = 0;
    let start = Instant::now();
    // Nobody reads: at some point there is no room.
    while a.try_send(&mem, &header(Kind::Msg, taken + 1, 0, payload.len()), Payload::Bytes(&payload)) == Sent::Taken {
        taken += 1;
        assert!(start.elapsed() < LIMIT && taken < 10_000, "takes without end");
    }
    assert!(a.wants_write());
    assert_eq!(a.event(), None);
    until(&mut a, &mut b, &mem, &mut seen, |a, _| a.event() == Some(Event::Writable));
    send(&mut a, &mut b, &mem, &mut seen, &header(Kind::Msg, taken + 1, 0, 1), Payload::Bytes(b"x"));
    until(&mut a, &mut b, &mem, &mut seen, |_, seen| seen.frames.len() as u64 == taken + 1);
    assert!((1..).zip(&seen.frames).all(|(i, (h, _))| h.a == i));
}

fn quiesce_and_resume<F: Factory>(f: &mut F) {
    let (mut a, mut b) = f.pair();
    let (mem, mut seen) = (Mem::new(1), Seen::new(1));
    let h = header(Kind::Msg, 1, 0, 3);
    send(&mut a, &mut b, &mem, &mut seen, &h, Payload::Bytes(b"abc"));
    a.quiesce();
    assert_eq!(a.try_send(&mem, &h, Payload::Bytes(b"abc")), Sent::NoRoom);
    until(&mut a, &mut b, &mem, &mut seen, |_, seen| seen.frames.len() == 1);
    a.resume();
    assert_eq!(a.event(), Some(Event::Writable));
    send(&mut a, &mut b, &mem, &mut seen, &h, Payload::Bytes(b"abc"));
    until(&mut a, &mut b, &mem, &mut seen, |_, seen| seen.frames.len() == 2);
}

fn dies<L: Lane<Mem>>(lane: &mut L) {
    let (start, mut seen) = (Instant::now(), Seen::new(1));
    loop {
        lane.poll(&mut seen, 1 << 16);
        match lane.event() {
            Some(Event::Dead) => break,
            _ => assert!(start.elapsed() < LIMIT, "the death is not seen"),
        }
    }
    let mem = Mem::new(1);
    assert_eq!(lane.event(), None, "nothing follows a death");
    assert_eq!(lane.try_send(&mem, &header(Kind::Msg, 1, 0, 1), Payload::Bytes(b"x")), Sent::NoRoom);
    assert!(!lane.flush(&mem) && !lane.wants_write());
    assert_eq!(lane.poll(&mut seen, 1), 0);
}

fn death_on_both_sides<F: Factory>(f: &mut F) {
    let (mut a, mut b) = f.pair();
    f.cut(&mut a);
    dies(&mut a);
    dies(&mut b);
    let (mut a, b) = f.pair();
    drop(b);
    dies(&mut a);
}

/// What was written before the end is read before it.
fn last_words<F: Factory>(f: &mut F) {
    let (mut a, mut b) = f.pair();
    let (mem, mut seen) = (Mem::new(1), Seen::new(1));
    let h = header(Kind::Msg, 1, 0, 3);
    assert_eq!(a.try_send(&mem, &h, Payload::Bytes(b"bye")), Sent::Taken);
    let start = Instant::now();
    while !a.flush(&mem) {
        assert!(start.elapsed() < LIMIT);
    }
    drop(a);
    while seen.frames.is_empty() {
        assert!(start.elapsed() < LIMIT && b.event() != Some(Event::Dead));
        b.poll(&mut seen, 1 << 16);
    }
    dies(&mut b);
}

fn nonsense_kills<F: Factory>(f: &mut F) {
    let good = header(Kind::Msg, 1, 0, 3).encode();
    for (at, value) in [(4, 99), (3, 255), (5, 128)] {
        let (mut a, mut b) = f.pair();
        let mut bad = good;
        bad[at] = value;
        if !f.inject(&mut a, &bad) {
            return;
        }
        dies(&mut b);
    }
}

fn a_sink_that_objects_kills<F: Factory>(f: &mut F) {
    struct Objects;
    impl Sink for Objects {
        fn on_frame(&mut self, _: &Header, _: &[u8]) -> Result<(), Malformed> {
            Err(Malformed)
        }
        fn on_bulk(
            &mut self,
            _: &Header,
            _: usize,
            _: &mut dyn FnMut(&mut [IoSliceMut<'_>]) -> io::Result<usize>,
        ) -> Option<io::Result<usize>> {
            None
        }
    }
    let (mut a, mut b) = f.pair();
    let mem = Mem::new(1);
    assert_eq!(a.try_send(&mem, &header(Kind::Msg, 1, 0, 3), Payload::Bytes(b"abc")), Sent::Taken);
    let start = Instant::now();
    while b.event() != Some(Event::Dead) {
        assert!(start.elapsed() < LIMIT);
        a.flush(&mem);
        b.poll(&mut Objects, 1 << 16);
    }
}

/// A sleeper is woken when and only when something is there.
fn pollable<F: Factory>(f: &mut F) {
    let (mut a, mut b) = f.pair();
    let Some(early) = f.readable(&mut b, 0) else { return };
    assert!(!early);
    let (mem, mut seen) = (Mem::new(1), Seen::new(1));
    assert_eq!(a.try_send(&mem, &header(Kind::Msg, 1, 0, 3), Payload::Bytes(b"abc")), Sent::Taken);
    assert!(a.flush(&mem));
    assert_eq!(f.readable(&mut b, 2000), Some(true));
    until(&mut a, &mut b, &mem, &mut seen, |_, seen| seen.frames.len() == 1);
    assert_eq!(f.readable(&mut b, 0), Some(false));
    drop(a);
    assert_eq!(f.readable(&mut b, 2000), Some(true));
}

/// A body that is written in place arrives like any other.
fn written_in_place<F: Factory>(f: &mut F) {
    let (mut a, mut b) = f.pair();
    let (mem, mut seen) = (Mem::new(1), Seen::new(1));
    let sizes = [1, 48, 56, 57, 4000, 70_000, MAX_PAYLOAD, 2];
    let mut sent = Vec::new();
    for (i, size) in (1..).zip(sizes.iter().cycle().take(40)) {
        let (h, body) = (header(Kind::Msg, i, 0, *size), bytes(*size, i));
        let mut calls = 0;
        until(&mut a, &mut b, &mem, &mut seen, |a, _| {
            let taken = Lane::<Mem>::try_send_with(a, &h, &mut |to| {
                calls += 1;
                to.copy_from_slice(&body);
            });
            assert_eq!(calls, u32::from(taken == Sent::Taken));
            taken == Sent::Taken
        });
        sent.push((h, body));
    }
    until(&mut a, &mut b, &mem, &mut seen, |_, seen| seen.frames.len() == sent.len());
    assert!(seen.frames == sent);
}

/// What the other side had not read when a lane without retention died can be had again, and nothing else.
fn unread_is_given_back<F: Factory>(f: &mut F) {
    let (mut a, mut b) = f.pair();
    assert!(!Lane::<Mem>::caps(&a).needs_retention);
    let (mut mem, mut seen) = (Mem::new(1 << 30), Seen::new(1 << 30));
    mem.buffers.insert(5, bytes(100, 5));
    seen.mem.buffers.insert(9, vec![0; 100]);
    let sent: Vec<_> = (1..=20).map(|i| bytes((i * i * 7) as usize, i)).collect();
    for (i, body) in (1..).zip(&sent) {
        assert_eq!(a.try_send(&mem, &header(Kind::Msg, i, 0, body.len()), Payload::Bytes(body)), Sent::Taken);
        let user = Payload::User { buf: 5, offset: 0 };
        assert_eq!(a.try_send(&mem, &header(Kind::Bulk, 9, 0, 100), user), Sent::Taken);
    }
    assert_eq!(Lane::<Mem>::unread(&mut a), Unread { first: 1, bodies: sent.clone() });
    a.flush(&mem);
    // A little at a time.
    while seen.frames.len() < 8 {
        b.poll(&mut seen, 1);
    }
    f.cut(&mut a);
    assert_eq!(Lane::<Mem>::unread(&mut a), Unread { first: 9, bodies: sent[8..].to_vec() });
    // It is still there for the other side too.
    let start = Instant::now();
    while b.event() != Some(Event::Dead) {
        assert!(start.elapsed() < LIMIT);
        b.poll(&mut seen, 1 << 16);
    }
    assert_eq!(seen.frames.len(), 20);
    let none = Lane::<Mem>::unread(&mut a);
    assert_eq!((none.first, none.bodies.len()), (21, 0));
}

/// TCP, through a real listener and the real handshake.
struct Tcp(Listeners);

impl Tcp {
    fn new() -> Tcp {
        Tcp(Listeners::open(&choose(None).unwrap(), None).unwrap())
    }
}

impl Factory for Tcp {
    type Lane = StreamLane<Socket>;

    fn pair(&mut self) -> (Self::Lane, Self::Lane) {
        let id = |incarnation| ProcId { incarnation, rank: 0 };
        let hello = Hello {
            source: id(1),
            dest: id(2),
            cookie: [3; 16],
            process: [4; 16],
            generation: 1,
            stripe: 0,
            received: 0,
        };
        let addresses = self.0.addresses();
        let mut race = Race::new(hello.clone(), Some([5; 16]), &addresses[..1]);
        let mut halfway = None;
        let mut theirs = None;
        loop {
            let now = Instant::now();
            if let Outcome::Won { socket, ack, .. } = race.step(now, |_| ()) {
                assert_eq!((ack.generation, ack.received), (1, 7));
                return (StreamLane::new(socket), StreamLane::new(theirs.unwrap()));
            }
            if let Ok(stream) = self.0.accept(0) {
                halfway = Some(Halfway::new(stream, now).unwrap());
            }
            if let Some(mut h) = halfway.take() {
                match h.step() {
                    Arrived::NotYet => halfway = Some(h),
                    Arrived::Foreign => panic!("not ours"),
                    Arrived::Hello(got) => {
                        assert_eq!(*got, hello);
                        let ack = HelloAck { status: Status::Good, generation: 1, process: [5; 16], received: 7 };
                        theirs = h.answer(&ack);
                    }
                }
            }
        }
    }

    fn cut(&mut self, lane: &mut Self::Lane) {
        lane.stream().cut();
    }

    fn inject(&mut self, lane: &mut Self::Lane, bytes: &[u8]) -> bool {
        lane.stream().write_vectored(&[IoSlice::new(bytes)]).is_ok_and(|n| n == bytes.len())
    }
}

/// The simulator's pipe: writes and reads that take any part.
struct Pipe(Rng);

impl Factory for Pipe {
    type Lane = StreamLane<pipe::PipeEnd>;

    fn pair(&mut self) -> (Self::Lane, Self::Lane) {
        let (a, b) = pipe::pair(&mut self.0, 100_000);
        (StreamLane::new(a), StreamLane::new(b))
    }

    fn cut(&mut self, lane: &mut Self::Lane) {
        lane.stream().knife(&mut self.0).cut();
    }

    fn inject(&mut self, lane: &mut Self::Lane, bytes: &[u8]) -> bool {
        write_all(lane.stream(), bytes)
    }
}

/// Three streams that are one lane.
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
        write_all(lane.stream(), bytes)
    }
}

fn write_all(stream: &mut impl ByteStream, mut bytes: &[u8]) -> bool {
    while !bytes.is_empty() {
        let n = stream.write_vectored(&[IoSlice::new(bytes)]).unwrap_or(0);
        bytes = &bytes[n..];
    }
    true
}

/// Shared memory, through a real listener and the real handshake.
struct Shm {
    door: Door,
    process: [u8; 16],
    /// Of the dialling side and of the other, with what wakes them.
    own: [(Own, EventFd); 2],
}

impl Shm {
    fn new() -> Shm {
        let process = random();
        let own = || {
            let bell = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK).unwrap();
            (Own::new(bell.as_fd()).unwrap(), bell)
        };
        Shm { door: Door::open(&process).unwrap(), process, own: [own(), own()] }
    }
}

impl Factory for Shm {
    type Lane = ShmLane;

    fn pair(&mut self) -> (Self::Lane, Self::Lane) {
        let (a, b) = (ME, YOU);
        let hello =
            Hello { source: a, dest: b, cookie: [3; 16], process: [4; 16], generation: 1, stripe: 0, received: 0 };
        let now = Instant::now();
        let mut attempt = Attempt::new(hello.clone(), self.process, 3, now).unwrap();
        assert!(matches!(attempt.step(&self.own[0].0, now), shm::Step::NotYet));
        let mut guest = Guest::new(self.door.accept().unwrap(), now);
        let shm::Arrived::Hello(got) = guest.step() else { panic!("no hello") };
        assert_eq!(*got, hello);
        assert!(matches!(guest.step(), shm::Arrived::NotYet));
        let ack = HelloAck { status: Status::Good, generation: 1, process: self.process, received: 7 };
        guest.answer(&ack, &self.own[1].0, 50).unwrap();
        let shm::Step::Good(got) = attempt.step(&self.own[0].0, now) else { panic!("no ack") };
        assert_eq!(got, ack);
        assert!(matches!(guest.step(), shm::Arrived::Ready));
        let lane = |parts: Option<Parts>, local, remote| ShmLane::new(parts.unwrap(), local, remote, 1);
        (lane(attempt.into_parts(), a, b), lane(guest.into_parts(), b, a))
    }

    fn readable(&mut self, lane: &mut Self::Lane, millis: u16) -> Option<bool> {
        let (own, bell) = &self.own[1];
        own.doze();
        if lane.has_input() {
            let _ = bell.read();
            return Some(true);
        }
        own.take(|_| ());
        let mut fds = [PollFd::new(lane.sign(), PollFlags::POLLIN), PollFd::new(bell.as_fd(), PollFlags::POLLIN)];
        let awake = poll(&mut fds, millis).unwrap() > 0;
        let _ = bell.read();
        Some(awake)
    }

    fn cut(&mut self, lane: &mut Self::Lane) {
        lane.cut();
    }

    fn inject(&mut self, _: &mut Self::Lane, _: &[u8]) -> bool {
        false
    }
}

macro_rules! conformance {
    ($name:ident, $make:expr, [$($case:ident),* $(,)?]) => {
        mod $name {
            use super::*;
            $(#[test] fn $case() { super::$case(&mut $make); })*
        }
    };
    ($name:ident, $make:expr) => {
        conformance!($name, $make, [
            order_and_sizes, written_in_place, bulk_among_frames, unwanted_and_vanished, no_room_then_writable,
            quiesce_and_resume, death_on_both_sides, last_words, nonsense_kills, a_sink_that_objects_kills, pollable,
        ]);
    };
}

conformance!(tcp, Tcp::new());
conformance!(sim_pipe, Pipe(Rng::new(1)));
conformance!(striped, Stripes(Rng::new(2)));

/// One stream of several is lost: so is bulk that was on it, and no more.
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

/// A stream of which one side does not notice that it is broken: what it writes goes nowhere.
struct Unnoticed(pipe::PipeEnd, bool);

impl ByteStream for Unnoticed {
    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        match self.0.write_vectored(bufs) {
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe && self.1 => Ok(bufs.iter().map(|b| b.len()).sum()),
            other => other,
        }
    }
    fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        match self.0.read_vectored(bufs) {
            Ok(0) if self.1 => Err(io::ErrorKind::WouldBlock.into()),
            other => other,
        }
    }
}

/// Whoever notices the loss of a stripe asks again for what was on it; the other side has not noticed, but it has been
/// told by then.
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
    // As soon as it has what follows the loss, it may be asked.
    send(&mut a, &mut b, &mem, &mut at_b, &header(Kind::Msg, 1, 0, 3), Payload::Bytes(b"cts"));
    until(&mut a, &mut b, &mem, &mut at_b, |_, seen| seen.frames.len() == 1);
    for i in 0..10 {
        let user = Payload::User { buf: 5, offset: i * 10_000 };
        send(&mut b, &mut a, &mem, &mut at_a, &header(Kind::Bulk, 9, i * 10_000, 10_000), user);
    }
    until(&mut b, &mut a, &mem, &mut at_a, |_, seen| seen.bulk_bytes == 100_000);
    assert!(at_a.mem.buffers[&9] == mem.buffers[&5]);
    assert_eq!(Lane::<Mem>::event(&mut b), Some(Event::BulkLost));
    // A connection that comes too late for it is not taken.
    let (x, _) = pipe::pair(&mut rng, 64 << 10);
    assert!(b.add(1, Unnoticed(x, false)).is_err());
}

// Without nonsense: what is in shared memory has no bytes of a wire; its own tests do that.
conformance!(
    shm_lane,
    Shm::new(),
    [
        order_and_sizes,
        written_in_place,
        bulk_among_frames,
        unwanted_and_vanished,
        no_room_then_writable,
        quiesce_and_resume,
        death_on_both_sides,
        last_words,
        a_sink_that_objects_kills,
        pollable,
        unread_is_given_back,
    ]
);

/// Nobody makes a system call for one who is awake, and one is enough for a sleeper, whatever comes.
#[test]
fn a_sleeper_over_shared_memory_is_woken_once() {
    let mut f = Shm::new();
    let (mut a, b) = f.pair();
    let mem = Mem::new(1);
    let mut i = 0;
    let mut send = |a: &mut ShmLane| {
        i += 1;
        assert_eq!(a.try_send(&mem, &header(Kind::Msg, i, 0, 3), Payload::Bytes(b"abc")), Sent::Taken);
        a.flush(&mem);
    };
    for direct in [false, true] {
        let (own, bell) = &f.own[1];
        b.set_direct(direct);
        send(&mut a);
        assert!(bell.read().is_err() && own.any() != direct);
        own.take(|bit| assert_eq!(bit, 50));
        own.doze();
        send(&mut a);
        send(&mut a);
        assert_eq!(bell.read(), Ok(1));
        assert!(!own.dozes() && own.any() != direct);
        own.take(|bit| assert_eq!(bit, 50));
    }
    assert!(b.has_input());
}

/// What is published just before the end is read, however close the two are.
#[test]
fn last_words_over_shared_memory_are_heard() {
    let mut f = Shm::new();
    for _ in 0..500 {
        let (mut a, mut b) = f.pair();
        let speaker = std::thread::spawn(move || {
            let taken = a.try_send(&Mem::new(1), &header(Kind::Msg, 1, 0, 3), Payload::Bytes(b"bye"));
            assert_eq!(taken, Sent::Taken);
        });
        let mut seen = Seen::new(1);
        while Lane::<Mem>::event(&mut b) != Some(Event::Dead) {
            Lane::<Mem>::poll(&mut b, &mut seen, 1 << 16);
        }
        assert_eq!(seen.frames.len(), 1);
        speaker.join().unwrap();
    }
}
