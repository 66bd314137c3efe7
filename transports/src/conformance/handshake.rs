//! The cases for the handshake of a transport.

use super::Factory;
use super::memory::*;
use super::rig::{GENERATION, KEYS, Rig, hello, interests, wakes};
use crate::registry::AnyLane;
use crate::stream::ByteStream;
use crate::transport::{Attempt, Incoming, Said, Step};
use nix::sys::socket::{SockType, getsockopt, sockopt};
use std::io::{ErrorKind, IoSlice, IoSliceMut};
use std::os::fd::AsRawFd;
use std::time::Instant;
use wire::contact::MAX_ENTRY;
use wire::frame::Kind;
use wire::hello::VERSION;
use wire::lane::{Lane, Payload};
use wire::{Hello, HelloAck, Scope, Status};

/// Steps an incoming connection when its descriptor is ready, until it has brought something.
fn said(incoming: &mut dyn Incoming) -> Said {
    let start = Instant::now();
    loop {
        match incoming.step() {
            Said::Nothing => assert!(start.elapsed() < LIMIT, "nothing is said"),
            said => return said,
        }
        wakes(&[(incoming.fd().as_raw_fd(), false)], 1000);
    }
}

/// The HELLO of an incoming connection.
pub fn heard(incoming: &mut dyn Incoming) -> Hello {
    match said(incoming) {
        Said::Hello(hello) => *hello,
        _ => panic!("no HELLO"),
    }
}

/// Steps an attempt when its descriptor is ready, until it is over.
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
pub fn agree(rig: &Rig, mut attempt: Box<dyn Attempt>, mut incoming: Box<dyn Incoming>) -> (AnyLane, AnyLane) {
    let ack = rig.ack(Status::Good);
    let at_once = incoming.answer(&ack, KEYS[1]).unwrap();
    assert_eq!(answer(&mut *attempt), ack);
    let a = attempt.finish(GENERATION).unwrap().into();
    if !at_once {
        assert!(matches!(said(&mut *incoming), Said::Ready));
    }
    (a, incoming.finish(YOU, ME, GENERATION).unwrap().into())
}

/// An entry in a contact record is of bounded length, and every place is one of the transport's.
pub fn a_record_leads_to_places(rig: &mut Rig) {
    let entry = rig.sides[1].transport().entry();
    assert!(entry.len() <= MAX_ENTRY);
    let places = rig.places(Some(true), None);
    assert!(!places.is_empty());
    for place in &places {
        assert_eq!(place.transport, rig.about.id);
        assert!(usize::from(place.host_part) <= place.address.len() && !place.text.is_empty());
    }
    // The place at which it answered last comes first.
    let last = places.last().unwrap();
    assert_eq!(rig.places(Some(true), Some(last)).first(), Some(last));
    assert_eq!(rig.places(Some(false), None).is_empty(), rig.about.scope == Scope::Host);
    // An entry comes from another process, and may be anything.
    let nonsense = vec![0xff; MAX_ENTRY];
    for entry in [&nonsense[..], &nonsense[..1], &entry[..entry.len() / 2]] {
        let target = crate::transport::Target { entry, process: [9; 16], same_host: None, worked: None };
        rig.sides[0].transport().places(&target);
    }
}

/// HELLO and HELLO-ACK arrive as they were sent, with their proofs, and the frames on the lane are of these two processes.
pub fn a_good_answer(rig: &mut Rig) {
    assert!(rig.sides[1].visitor().is_none() && !rig.has_incoming(0), "nobody is there yet");
    let (mut a, mut b) = rig.pair();
    assert!(a.about() == rig.about && b.about() == rig.about);
    // No byte of the handshake gets into the lane.
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
    // Each number is there once, and below 16.
    let mut numbers = Vec::new();
    a.interests(&mut |n, _, _| numbers.push(n));
    numbers.sort_unstable();
    numbers.dedup();
    assert!(numbers.len() == interests(&mut a).len() && numbers.iter().all(|n| *n < 16), "{numbers:?}");
}

pub fn no_is_said_with_its_reason(rig: &mut Rig) {
    let all = [Status::BadCookie, Status::NoSuchProcess, Status::OtherVersion, Status::BetterConnection, Status::Later];
    for status in all {
        let (mut attempt, mut incoming) = rig.greeted();
        let no = rig.ack(status);
        incoming.refuse(&no);
        // The connection is dropped at once, and the answer still arrives.
        drop(incoming);
        let own = |no: HelloAck| HelloAck { generation: no.generation, ..HelloAck::other_version() };
        // Of another version nothing but its number is taken.
        assert_eq!(answer(&mut *attempt), if status == Status::OtherVersion { own(no) } else { no });
    }
}

/// Writes all bytes.
fn write(to: &mut dyn ByteStream, mut bytes: &[u8]) {
    let start = Instant::now();
    while !bytes.is_empty() {
        match to.write_vectored(&[IoSlice::new(bytes)]) {
            Ok(n) => bytes = &bytes[n..],
            Err(e) => assert!(e.kind() == ErrorKind::WouldBlock && start.elapsed() < LIMIT, "{e}"),
        }
    }
}

/// The bytes that come until the connection is closed or reset.
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

/// A connection of another version is told ours.
pub fn another_version_is_told_ours(rig: &mut Rig) {
    for (longer, length) in [(0, 300), (0, u32::MAX), (100, 300), (2000, 2300)] {
        let mut bytes = wire::Hello { proof: vec![7; 300], ..hello() }.encode();
        bytes[8] ^= 0x40;
        // What a later version has there is not known.
        let at = wire::hello::HELLO_LEN - 4;
        bytes[at..at + 4].copy_from_slice(&u32::to_le_bytes(length));
        bytes.resize(bytes.len() + longer, 7);
        let mut stranger = rig.connect();
        write(&mut *stranger, &bytes);
        let mut incoming = rig.incoming();
        assert!(matches!(said(&mut *incoming), Said::Foreign));
        drop(incoming);
        let ack = HelloAck::decode(&read(&mut *stranger)).unwrap();
        assert_eq!((ack.status, ack.generation), (Status::OtherVersion, VERSION));
    }
}

/// A connection of another protocol is closed without an answer, and so is one with less than a HELLO, or with a proof that is
/// too long.
pub fn foreign_bytes_get_no_answer(rig: &mut Rig) {
    let mut too_much = hello().encode();
    let at = wire::hello::HELLO_LEN - 4;
    too_much[at..at + 4].copy_from_slice(&u32::MAX.to_le_bytes());
    for bytes in [b"GET / HTTP/1.1\r\n\r\n".repeat(8), vec![0; 200], vec![0xff; 2000], too_much] {
        let mut stranger = rig.connect();
        write(&mut *stranger, &bytes);
        let mut incoming = rig.incoming();
        assert!(matches!(said(&mut *incoming), Said::Foreign), "{bytes:?}");
        drop(incoming);
        assert_eq!(read(&mut *stranger), b"");
    }
    let mut stranger = rig.connect();
    write(&mut *stranger, &hello().encode()[..40]);
    let mut incoming = rig.incoming();
    drop(stranger);
    assert!(matches!(said(&mut *incoming), Said::Foreign));
}

/// Over a stream, a HELLO may come in pieces. A connection that keeps the bounds of messages brings it whole, or it is none.
pub fn a_greeting_in_pieces(rig: &mut Rig) {
    let bytes = hello().encode();
    let mut one = rig.connect();
    let mut incoming = rig.incoming();
    assert!(matches!(incoming.step(), Said::Nothing));
    write(&mut *one, &bytes[..1]);
    // A descriptor that is no socket is a stream too.
    let keeps_bounds = getsockopt(&incoming.fd(), sockopt::SockType).is_ok_and(|t| t != SockType::Stream);
    if keeps_bounds {
        return assert!(matches!(said(&mut *incoming), Said::Foreign));
    }
    for byte in &bytes[1..] {
        wakes(&[(incoming.fd().as_raw_fd(), false)], 1000);
        assert!(matches!(incoming.step(), Said::Nothing));
        write(&mut *one, &[*byte]);
    }
    assert_eq!(heard(&mut *incoming), hello());
    incoming.answer(&rig.ack(Status::Good), KEYS[1]).unwrap();
    incoming.finish(YOU, ME, GENERATION).unwrap();
    assert_eq!(HelloAck::decode(&read(&mut *one)), Ok(rig.ack(Status::Good)));
}

/// A place without a listener refuses the dial. So a death can be told from silence.
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

/// The dialling side closes the connection, before the answer or after it.
pub fn one_who_gives_up(rig: &mut Rig) {
    let (attempt, mut incoming) = rig.greeted();
    assert!(!incoming.has_hung_up());
    drop(attempt);
    let start = Instant::now();
    while !incoming.has_hung_up() {
        assert!(start.elapsed() < LIMIT);
    }
    // The descriptor is readable then.
    assert!(wakes(&[(incoming.fd().as_raw_fd(), false)], 2000));
    assert!(matches!(said(&mut *incoming), Said::Foreign));

    let (attempt, mut incoming) = rig.greeted();
    let at_once = incoming.answer(&rig.ack(Status::Good), KEYS[1]).unwrap();
    drop(attempt);
    if at_once {
        let mut lane = AnyLane::from(incoming.finish(YOU, ME, GENERATION).unwrap());
        let (mut seen, start) = (Seen::new(1), Instant::now());
        while Lane::<Mem>::death(&lane).is_none() {
            assert!(start.elapsed() < LIMIT);
            Lane::<Mem>::poll(&mut lane, &mut seen, 1 << 16);
        }
    } else {
        assert!(matches!(said(&mut *incoming), Said::Foreign));
    }
}

/// An incoming connection is closed without an answer. The dial fails, but not as refused, which would mean that nothing listens.
pub fn one_who_is_given_up(rig: &mut Rig) {
    for is_heard in [false, true] {
        let attempt = rig.dial(&hello());
        let mut incoming = rig.incoming();
        if is_heard {
            heard(&mut *incoming);
        }
        drop(incoming);
        closed(attempt);
    }
}

fn closed(mut attempt: Box<dyn Attempt>) {
    match outcome(&mut *attempt) {
        Step::Failed(e) => assert_ne!(e.kind(), ErrorKind::ConnectionRefused),
        _ => panic!("somebody has answered"),
    }
}

/// The answer is of another protocol.
pub fn foreign_bytes_for_an_answer(rig: &mut Rig) {
    let (attempt, incoming) = rig.greeted();
    if nix::unistd::write(incoming.fd(), &[b'x'; 600]).is_err() {
        // The descriptor is the reading end of a pipe.
        assert!(getsockopt(&incoming.fd(), sockopt::SockType).is_err());
        println!("NOT TESTED: the descriptor of one who has come is only for reading");
    }
    drop(incoming);
    closed(attempt);
}

/// Connections are accepted in the order in which they were dialled, and each gets its own answer.
pub fn many_at_once(rig: &mut Rig) {
    let greetings: Vec<_> = (1..=20).map(|generation| Hello { generation, ..hello() }).collect();
    let mut attempts: Vec<_> = greetings.iter().map(|hello| rig.dial(hello)).collect();
    let mut pending: Vec<_> = (0..20).map(|_| rig.incoming()).collect();
    assert!(rig.sides[1].visitor().is_none() && !rig.has_incoming(0), "all are in");
    for incoming in &mut pending {
        let generation = heard(&mut **incoming).generation;
        let ack = HelloAck { generation, ..rig.ack(Status::Later) };
        incoming.refuse(&ack);
    }
    for (attempt, hello) in attempts.iter_mut().zip(&greetings) {
        assert_eq!(answer(&mut **attempt).generation, hello.generation);
    }
}

/// A probe reaches the host of a place that can be dialled. A transport within one host makes no probe.
pub fn a_probe_gets_through(rig: &mut Rig) {
    let (entry, seen) = (rig.sides[1].transport().entry(), rig.place());
    let Some((place, probe)) = rig.sides[0].transport().probe(&entry, &seen) else {
        return assert_eq!(rig.about.scope, Scope::Host, "one gets through to this host anyway");
    };
    assert_eq!(place.host(), seen.host());
    assert!(wakes(&[(probe.fd().as_raw_fd(), true)], 2000));
    probe.result().unwrap();
}
