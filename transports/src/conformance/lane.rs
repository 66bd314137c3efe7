//! The cases for every lane. Nothing here knows the transport under a lane.

use super::Factory;
use super::memory::*;
use crate::sim::Rng;
use base::bytes::Malformed;
use std::io::{self, IoSliceMut};
use std::time::Instant;
use wire::frame::{Header, Kind, MAX_PAYLOAD};
use wire::lane::{Event, Lane, Payload, Sent, Sink, Unread};

pub fn order_and_sizes<F: Factory>(f: &mut F) {
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

pub fn bulk_among_frames<F: Factory>(f: &mut F) {
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

/// Bulk that the sink does not want, or whose user buffer is gone, does not disturb the frames behind it.
pub fn unwanted_and_vanished<F: Factory>(f: &mut F) {
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

pub fn no_room_then_writable<F: Factory>(f: &mut F) {
    let (mut a, mut b) = f.pair();
    let (mem, mut seen) = (Mem::new(1), Seen::new(1));
    let payload = bytes(60_000, 1);
    let mut taken = 0;
    let start = Instant::now();
    // The other side does not read, so at some point there is no room.
    while a.try_send(&mem, &header(Kind::Msg, taken + 1, 0, payload.len()), Payload::Bytes(&payload)) == Sent::Taken {
        taken += 1;
        assert!(start.elapsed() < LIMIT && taken < 10_000, "takes without end");
    }
    // A reliable lane still has frames to write.
    assert!(a.wants_write() || !a.caps().reliable);
    assert_eq!(a.event(), None);
    until(&mut a, &mut b, &mem, &mut seen, |a, _| a.event() == Some(Event::Writable));
    send(&mut a, &mut b, &mem, &mut seen, &header(Kind::Msg, taken + 1, 0, 1), Payload::Bytes(b"x"));
    until(&mut a, &mut b, &mem, &mut seen, |_, seen| seen.frames.len() as u64 == taken + 1);
    assert!((1..).zip(&seen.frames).all(|(i, (h, _))| h.a == i));
}

pub fn quiesce_and_resume<F: Factory>(f: &mut F) {
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

pub fn death_on_both_sides<F: Factory>(f: &mut F) {
    let (mut a, mut b) = f.pair();
    f.cut(&mut a);
    dies(&mut a);
    dies(&mut b);
    let (mut a, b) = f.pair();
    drop(b);
    dies(&mut a);
}

/// Frames that were written before the end are read before it, and the end is one by the other side.
pub fn last_words<F: Factory>(f: &mut F) {
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

pub fn nonsense_kills<F: Factory>(f: &mut F) {
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

pub fn a_sink_that_objects_kills<F: Factory>(f: &mut F) {
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

/// A sleeping process is woken when and only when there is something to read.
pub fn pollable<F: Factory>(f: &mut F) {
    let (mut a, mut b) = f.pair();
    let Some(early) = f.readable(&mut b, 0) else { return };
    assert!(!early);
    let (mem, mut seen) = (Mem::new(1), Seen::new(1));
    assert_eq!(a.try_send(&mem, &header(Kind::Msg, 1, 0, 3), Payload::Bytes(b"abc")), Sent::Taken);
    assert!(a.flush(&mem));
    assert_eq!(f.readable(&mut b, 2000), Some(true));
    until(&mut a, &mut b, &mem, &mut seen, |_, seen| seen.frames.len() == 1);
    // A lane may go on telling for some looks, since most often more comes at once.
    let start = Instant::now();
    while f.readable(&mut b, 0) != Some(false) {
        assert!(start.elapsed() < LIMIT, "it tells of nothing, without end");
        b.poll(&mut seen, 1 << 16);
    }
    drop(a);
    assert_eq!(f.readable(&mut b, 2000), Some(true));
}

/// A body that is written in place arrives like any other.
pub fn written_in_place<F: Factory>(f: &mut F) {
    let (mut a, mut b) = f.pair();
    let (mem, mut seen) = (Mem::new(1), Seen::new(1));
    let sizes = [1, 48, 56, 57, 102, 103, 4000, 70_000, MAX_PAYLOAD, 2];
    let mut sent = Vec::new();
    for (i, size) in (1..).zip(sizes.iter().cycle().take(40)) {
        let (h, body) = (header(Kind::Msg, i, 0, *size), bytes(*size, i));
        let mut asked = Vec::new();
        until(&mut a, &mut b, &mem, &mut seen, |a, _| {
            let taken = Lane::<Mem>::try_send_with(a, &h, &mut |at, to| {
                asked.push(at..at + to.len());
                to.copy_from_slice(&body[at..][..to.len()]);
            });
            assert!(is_asked_once(&asked, if taken == Sent::Taken { body.len() } else { 0 }), "{asked:?}");
            taken == Sent::Taken
        });
        sent.push((h, body));
    }
    until(&mut a, &mut b, &mem, &mut seen, |_, seen| seen.frames.len() == sent.len());
    assert!(seen.frames == sent);
}

/// Bodies that are written in place keep their order with others and with frames of other kinds, whichever are flushed, and whatever
/// they acknowledge and whichever sequences are left out.
pub fn written_in_place_or_not<F: Factory>(f: &mut F) {
    let (mut a, mut b) = f.pair();
    let (mem, mut seen, mut sent) = (Mem::new(1), Seen::new(1), Vec::new());
    let (mut sequence, mut acknowledged, mut rng) = (0, 0, Rng::new(7));
    let sizes = [1, 8, 46, 47, 130, 131, 230, 240, 248, 300, 3000, 8151, 8168, 8169, 8192, 9000];
    // Few values, so that most of a body is that of the one before.
    let value = rng.below(3) as u8;
    for _ in 0..600 {
        if sequence > 0 && rng.below(12) == 0 {
            acknowledged += [0, 1, 0xffff, 0x1_0000, 1 << 40][rng.below(5) as usize];
        }
        sequence += if rng.below(12) == 0 { 1 + rng.below(1 << 40) } else { 1 };
        let size = sizes[rng.below(sizes.len() as u64) as usize];
        // The acknowledgement in the header of a MSG is known to lanes that need it.
        let told = if a.caps().needs_retention { acknowledged } else { 0 };
        let mut h = header(Kind::Msg, sequence, told, size);
        let mut body = vec![value; size];
        body[rng.below(size as u64) as usize] = rng.below(3) as u8;
        let in_place = rng.below(3) > 0;
        match rng.below(16) {
            0 => (h, body) = (header(Kind::Ack, 0, acknowledged, 0), Vec::new()),
            1 => h.ack_now = true,
            _ => {}
        }
        let keeps = rng.below(2) == 0;
        let start = Instant::now();
        loop {
            let mut fill = |at: usize, to: &mut [u8]| to.copy_from_slice(&body[at..][..to.len()]);
            let taken = match in_place && h.kind == Kind::Msg {
                true => Lane::<Mem>::try_send_with(&mut a, &h, &mut fill),
                false => a.try_send(&mem, &h, Payload::Bytes(&body)),
            };
            if taken == Sent::NoRoom || !keeps {
                a.flush(&mem);
                b.poll(&mut seen, 1 << 16);
            }
            if taken == Sent::Taken {
                break;
            }
            assert!(start.elapsed() < LIMIT);
        }
        sent.push((h, body));
    }
    until(&mut a, &mut b, &mem, &mut seen, |_, seen| seen.frames.len() == sent.len());
    assert!(seen.frames == sent);
}

/// A lane without retention that has died gives back the bodies that the other side has not read, and nothing else. A lane with
/// retention gives none, since the path retains them.
pub fn unread_is_given_back<F: Factory>(f: &mut F) {
    let (mut a, mut b) = f.pair();
    if a.caps().needs_retention {
        assert_eq!(a.try_send(&Mem::new(1), &header(Kind::Msg, 1, 0, 3), Payload::Bytes(b"abc")), Sent::Taken);
        f.cut(&mut a);
        dies(&mut a);
        return assert_eq!(a.unread(), Unread::default());
    }
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
    // The other side can still read it too.
    let start = Instant::now();
    while b.event() != Some(Event::Dead) {
        assert!(start.elapsed() < LIMIT);
        b.poll(&mut seen, 1 << 16);
    }
    assert_eq!(seen.frames.len(), 20);
    let none = Lane::<Mem>::unread(&mut a);
    assert_eq!((none.first, none.bodies.len()), (21, 0));
}
