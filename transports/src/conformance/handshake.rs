//! How two processes come to a lane, or do not.

use super::Factory;
use super::memory::*;
use super::rig::{GENERATION, KEYS, Rig, hello, signs, wakes};
use crate::registry::AnyLane;
use crate::stream::ByteStream;
use crate::transport::{Attempt, Guest, Said, Step};
use nix::sys::socket::{SockType, getsockopt, sockopt};
use std::io::{ErrorKind, IoSlice, IoSliceMut};
use std::os::fd::AsRawFd;
use std::time::Instant;
use wire::contact::MAX_ENTRY;
use wire::frame::Kind;
use wire::hello::VERSION;
use wire::lane::{Lane, Payload};
use wire::{Hello, HelloAck, Scope, Status};

/// Steps a guest as its descriptor tells until it says something.
fn said(guest: &mut dyn Guest) -> Said {
    let start = Instant::now();
    loop {
        match guest.step() {
            Said::Nothing => assert!(start.elapsed() < LIMIT, "nothing is said"),
            said => return said,
        }
        wakes(&[(guest.fd().as_raw_fd(), false)], 1000);
    }
}

/// The guest's HELLO.
pub fn heard(guest: &mut dyn Guest) -> Hello {
    match said(guest) {
        Said::Hello(hello) => *hello,
        _ => panic!("no HELLO"),
    }
}

/// Steps an attempt as its descriptor tells until it is over.
fn outcome(attempt: &mut dyn Attempt) -> Step {
    let start = Instant::now();
    loop {
        match attempt.step() {
            Step::NotYet => assert!(start.elapsed() < LIMIT, "it goes on for ever"),
            over => return over,
        }
        if let Some((fd, write)) = attempt.fd() {
            wakes(&[(fd.as_raw_fd(), write)], 1000);
        }
    }
}

fn answer(attempt: &mut dyn Attempt) -> HelloAck {
    match outcome(attempt) {
        Step::Answered(ack) => ack,
        Step::Failed(e) => panic!("it has failed: {e}"),
        Step::NotYet => unreachable!("it is over"),
    }
}

/// Both ends of the lane after a good answer.
pub fn agree(rig: &Rig, mut attempt: Box<dyn Attempt>, mut guest: Box<dyn Guest>) -> (AnyLane, AnyLane) {
    let ack = rig.ack(Status::Good);
    let at_once = guest.answer(&ack, KEYS[1]).unwrap();
    assert_eq!(answer(&mut *attempt), ack);
    let a = attempt.finish(GENERATION).unwrap().into();
    if !at_once {
        assert!(matches!(said(&mut *guest), Said::Ready));
    }
    (a, guest.finish(YOU, ME, GENERATION).unwrap().into())
}

/// What the record says is of bounded length, and every place is one of the transport's.
pub fn a_record_leads_to_places(rig: &mut Rig) {
    let entry = rig.sides[1].transport().entry();
    assert!(entry.len() <= MAX_ENTRY);
    let places = rig.places(Some(true), None);
    assert!(!places.is_empty());
    for place in places.iter().chain(&rig.sides[1].transport().own_places()) {
        assert_eq!(place.transport, rig.about.id);
        assert!(usize::from(place.host_part) <= place.address.len() && !place.text.is_empty());
    }
    // Where it answered last comes first.
    let last = places.last().unwrap();
    assert_eq!(rig.places(Some(true), Some(last)).first(), Some(last));
    assert_eq!(rig.places(Some(false), None).is_empty(), rig.about.scope == Scope::Host);
    // An entry is another process's word, and may be anything.
    let nonsense = vec![0xff; MAX_ENTRY];
    for entry in [&nonsense[..], &nonsense[..1], &entry[..entry.len() / 2]] {
        let target = crate::transport::Target { entry, process: [9; 16], same_host: None, worked: None };
        rig.sides[0].transport().places(&target);
    }
}

/// HELLO and HELLO-ACK arrive as they were said, proofs and all, and what is said on the lane is of those two.
pub fn a_good_answer(rig: &mut Rig) {
    assert!(rig.sides[1].visitor().is_none() && !rig.is_knocked(0), "nobody is there yet");
    let (mut a, mut b) = rig.pair();
    assert!(a.about() == rig.about && b.about() == rig.about);
    // The last of the handshake is no part of what the lane says.
    let (mem, mut seen) = (Mem::new(1), Seen::new(1));
    let there = header(Kind::Msg, 1, 0, 3);
    send(&mut a, &mut b, &mem, &mut seen, &there, Payload::Bytes(b"abc"));
    let back = wire::frame::Header { source: YOU, dest: ME, ..header(Kind::Msg, 1, 0, 4) };
    send(&mut b, &mut a, &mem, &mut seen, &back, Payload::Bytes(b"back"));
    until(&mut a, &mut b, &mem, &mut seen, |_, seen| !seen.frames.is_empty());
    let mut at_a = Seen::new(1);
    until(&mut b, &mut a, &mem, &mut at_a, |_, seen| !seen.frames.is_empty());
    assert_eq!((&seen.frames[0], &at_a.frames[0]), (&(there, b"abc".to_vec()), &(back, b"back".to_vec())));
    let (x, y) = (a.peer_place().is_none(), b.peer_place().is_none());
    assert_eq!((x, y), (rig.about.scope == Scope::Host, x));
    // Each number once, of those that the bits have.
    let mut numbers = Vec::new();
    a.signs(&mut |n, _, _| numbers.push(n));
    numbers.sort_unstable();
    numbers.dedup();
    assert!(numbers.len() == signs(&mut a).len() && numbers.iter().all(|n| *n < 16), "{numbers:?}");
}

pub fn no_is_said_with_its_reason(rig: &mut Rig) {
    let all = [Status::BadCookie, Status::NoSuchProcess, Status::OtherVersion, Status::BetterConnection, Status::Later];
    for status in all {
        let (mut attempt, mut guest) = rig.greeted();
        let no = rig.ack(status);
        guest.refuse(&no);
        // It is not awaited whether that is read.
        drop(guest);
        assert_eq!(answer(&mut *attempt), no);
    }
}

/// Says all of it.
fn write(to: &mut dyn ByteStream, mut bytes: &[u8]) {
    let start = Instant::now();
    while !bytes.is_empty() {
        match to.write_vectored(&[IoSlice::new(bytes)]) {
            Ok(n) => bytes = &bytes[n..],
            Err(e) => assert!(e.kind() == ErrorKind::WouldBlock && start.elapsed() < LIMIT, "{e}"),
        }
    }
}

/// What is said to it until it is closed, however that ends.
fn read(from: &mut dyn ByteStream) -> Vec<u8> {
    let (mut all, start) = (Vec::new(), Instant::now());
    let mut some = [0; 1000];
    loop {
        match from.read_vectored(&mut [IoSliceMut::new(&mut some)]) {
            Ok(0) => return all,
            Ok(n) => all.extend_from_slice(&some[..n]),
            Err(e) if e.kind() == ErrorKind::WouldBlock => assert!(start.elapsed() < LIMIT, "it is not closed"),
            Err(_) => return all,
        }
    }
}

/// One who speaks another version is told which is spoken here.
pub fn another_version_is_told_ours(rig: &mut Rig) {
    let mut bytes = hello().encode();
    bytes[8] ^= 0x40;
    let mut stranger = rig.knock();
    write(&mut *stranger, &bytes);
    let mut guest = rig.guest();
    assert!(matches!(said(&mut *guest), Said::Foreign));
    drop(guest);
    let ack = HelloAck::decode(&read(&mut *stranger)).unwrap();
    assert_eq!((ack.status, ack.generation), (Status::OtherVersion, VERSION));
}

/// What is not this protocol is closed without a word, and so is one who says less than a HELLO or more than a proof.
pub fn foreign_bytes_get_no_answer(rig: &mut Rig) {
    let mut too_much = hello().encode();
    let at = wire::hello::HELLO_LEN - 4;
    too_much[at..at + 4].copy_from_slice(&u32::MAX.to_le_bytes());
    for bytes in [b"GET / HTTP/1.1\r\n\r\n".repeat(8), vec![0; 200], vec![0xff; 2000], too_much] {
        let mut stranger = rig.knock();
        write(&mut *stranger, &bytes);
        let mut guest = rig.guest();
        assert!(matches!(said(&mut *guest), Said::Foreign), "{bytes:?}");
        drop(guest);
        assert_eq!(read(&mut *stranger), b"");
    }
    let mut stranger = rig.knock();
    write(&mut *stranger, &hello().encode()[..40]);
    let mut guest = rig.guest();
    drop(stranger);
    assert!(matches!(said(&mut *guest), Said::Foreign));
}

/// A stream may bring a HELLO in any pieces; what keeps the bounds of messages brings it whole, or it is none.
pub fn a_greeting_in_pieces(rig: &mut Rig) {
    let bytes = hello().encode();
    let mut one = rig.knock();
    let mut guest = rig.guest();
    assert!(matches!(guest.step(), Said::Nothing));
    write(&mut *one, &bytes[..1]);
    // What is no socket is a stream too.
    let keeps_bounds = getsockopt(&guest.fd(), sockopt::SockType).is_ok_and(|t| t != SockType::Stream);
    if keeps_bounds {
        return assert!(matches!(said(&mut *guest), Said::Foreign));
    }
    for byte in &bytes[1..] {
        wakes(&[(guest.fd().as_raw_fd(), false)], 1000);
        assert!(matches!(guest.step(), Said::Nothing));
        write(&mut *one, &[*byte]);
    }
    assert_eq!(heard(&mut *guest), hello());
    guest.answer(&rig.ack(Status::Good), KEYS[1]).unwrap();
    guest.finish(YOU, ME, GENERATION).unwrap();
    assert_eq!(HelloAck::decode(&read(&mut *one)), Ok(rig.ack(Status::Good)));
}

/// Where nobody listens any more, the dial is refused: that is how a death is told from silence.
pub fn nobody_there(rig: &mut Rig) {
    let place = rig.place();
    rig.sides[1].registry.close();
    let why = match rig.sides[0].transport().dial(&place, &hello(), KEYS[0]) {
        Err(e) => e,
        Ok(mut attempt) => match outcome(&mut *attempt) {
            Step::Failed(e) => e,
            _ => panic!("somebody has answered"),
        },
    };
    assert_eq!(why.kind(), ErrorKind::ConnectionRefused, "{why}");
}

/// The one who dialled goes, before the answer or after it.
pub fn one_who_gives_up(rig: &mut Rig) {
    let (attempt, mut guest) = rig.greeted();
    assert!(!guest.has_hung_up());
    drop(attempt);
    let start = Instant::now();
    while !guest.has_hung_up() {
        assert!(start.elapsed() < LIMIT);
    }
    // Its descriptor tells too.
    assert!(wakes(&[(guest.fd().as_raw_fd(), false)], 2000));
    assert!(matches!(said(&mut *guest), Said::Foreign));

    let (attempt, mut guest) = rig.greeted();
    let at_once = guest.answer(&rig.ack(Status::Good), KEYS[1]).unwrap();
    drop(attempt);
    if at_once {
        let mut lane = AnyLane::from(guest.finish(YOU, ME, GENERATION).unwrap());
        let (mut seen, start) = (Seen::new(1), Instant::now());
        while Lane::<Mem>::death(&lane).is_none() {
            assert!(start.elapsed() < LIMIT);
            Lane::<Mem>::poll(&mut lane, &mut seen, 1 << 16);
        }
    } else {
        assert!(matches!(said(&mut *guest), Said::Foreign));
    }
}

/// The one who came is closed unanswered. That is no refusal, which would say that nobody is there.
pub fn one_who_is_given_up(rig: &mut Rig) {
    for is_heard in [false, true] {
        let attempt = rig.dial(&hello());
        let mut guest = rig.guest();
        if is_heard {
            heard(&mut *guest);
        }
        drop(guest);
        closed(attempt);
    }
}

fn closed(mut attempt: Box<dyn Attempt>) {
    match outcome(&mut *attempt) {
        Step::Failed(e) => assert_ne!(e.kind(), ErrorKind::ConnectionRefused),
        _ => panic!("somebody has answered"),
    }
}

/// What answers is not ours.
pub fn foreign_bytes_for_an_answer(rig: &mut Rig) {
    let (attempt, guest) = rig.greeted();
    if nix::unistd::write(guest.fd(), &[b'x'; 600]).is_err() {
        // One way only: there is nothing to write on.
        assert!(getsockopt(&guest.fd(), sockopt::SockType).is_err());
        println!("NOT TESTED: the descriptor of one who has come is only for reading");
    }
    drop(guest);
    closed(attempt);
}

/// They come in the order in which they are accepted, and each is answered for itself.
pub fn many_at_once(rig: &mut Rig) {
    let greetings: Vec<_> = (1..=20).map(|generation| Hello { generation, ..hello() }).collect();
    let mut attempts: Vec<_> = greetings.iter().map(|hello| rig.dial(hello)).collect();
    let mut guests: Vec<_> = (0..20).map(|_| rig.guest()).collect();
    assert!(rig.sides[1].visitor().is_none() && !rig.is_knocked(0), "all are in");
    for guest in &mut guests {
        let generation = heard(&mut **guest).generation;
        let ack = HelloAck { generation, ..rig.ack(Status::Later) };
        guest.refuse(&ack);
    }
    for (attempt, hello) in attempts.iter_mut().zip(&greetings) {
        assert_eq!(answer(&mut **attempt).generation, hello.generation);
    }
}

/// Where a lane has come from, another gets through too; who has no use for that makes none.
pub fn a_probe_gets_through(rig: &mut Rig) {
    let (entry, seen) = (rig.sides[1].transport().entry(), rig.place());
    let Some((place, probe)) = rig.sides[0].transport().probe(&entry, &seen) else {
        return assert_eq!(rig.about.scope, Scope::Host, "one gets through to this host anyway");
    };
    assert_eq!(place.host(), seen.host());
    assert!(wakes(&[(probe.fd().as_raw_fd(), true)], 2000));
    probe.result().unwrap();
}
