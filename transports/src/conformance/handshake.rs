//! The cases for the handshake of a transport.

use super::Factory;
use super::memory::*;
use super::rig::{GENERATION, KEYS, Rig, interests, trusting, wakes};
use crate::registry::AnyLane;
use crate::stream::ByteStream;
use crate::transport::{Attempt, Incoming, Said, Step};
use base::protocol::greeting::{WRONG_PROOF, head};
use nix::sys::socket::{SockType, getsockopt, sockopt};
use std::io::{ErrorKind, IoSlice, IoSliceMut};
use std::os::fd::AsRawFd;
use std::time::Instant;
use trust::{Dialling, Encrypt, GREETING, Key, Progress, Protocol, Refused};
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

/// The HELLO of an incoming connection, to which this attempt leads.
pub fn heard(attempt: &mut dyn Attempt, incoming: &mut dyn Incoming) -> Hello {
    let start = Instant::now();
    loop {
        match incoming.step() {
            Said::Nothing => assert!(start.elapsed() < LIMIT, "nothing is said"),
            Said::Hello(hello) => return *hello,
            _ => panic!("no HELLO"),
        }
        assert!(matches!(attempt.step(), Step::NotYet), "nobody has answered");
        let mut fds = vec![(incoming.fd().as_raw_fd(), false)];
        fds.extend(attempt.fd().map(|(fd, write)| (fd.as_raw_fd(), write)));
        wakes(&fds, 1000);
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

/// HELLO and HELLO-ACK arrive as they were sent, and the frames on the lane are of these two processes.
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

/// The next bytes that come; none if the connection is closed or reset.
fn next(from: &mut dyn ByteStream) -> Vec<u8> {
    let start = Instant::now();
    let mut some = [0; 1000];
    loop {
        match from.read_vectored(&mut [IoSliceMut::new(&mut some)]) {
            Ok(n) => return some[..n].to_vec(),
            Err(e) if e.kind() == ErrorKind::WouldBlock => assert!(start.elapsed() < LIMIT, "it is not closed"),
            Err(_) => return Vec::new(),
        }
    }
}

/// What an incoming connection says to what has been written to it: it may take a while until that has come.
fn reply(from: &mut dyn ByteStream, incoming: &mut dyn Incoming) -> Vec<u8> {
    let start = Instant::now();
    let mut some = [0; 1000];
    loop {
        assert!(matches!(incoming.step(), Said::Nothing), "more is to follow");
        match from.read_vectored(&mut [IoSliceMut::new(&mut some)]) {
            Ok(n) => return some[..n].to_vec(),
            Err(e) => assert!(e.kind() == ErrorKind::WouldBlock && start.elapsed() < LIMIT, "nothing is said: {e}"),
        }
    }
}

/// The bytes that come until the connection is closed or reset.
fn read(from: &mut dyn ByteStream) -> Vec<u8> {
    let mut all = Vec::new();
    loop {
        let some = next(from);
        if some.is_empty() {
            return all;
        }
        all.extend_from_slice(&some);
    }
}

/// Steps a connection that says nothing good until it is to be dropped, and drops it.
fn shown_out(mut incoming: Box<dyn Incoming>) {
    assert!(matches!(said(&mut *incoming), Said::Foreign));
}

/// A connection of another version is told ours.
pub fn another_version_is_told_ours(rig: &mut Rig) {
    let (mut dialling, mut bytes) = rig.begun();
    bytes[8] ^= 0x40;
    let mut stranger = rig.connect();
    write(&mut *stranger, &bytes[..GREETING]);
    shown_out(rig.incoming());
    let answer = read(&mut *stranger);
    assert_eq!(dialling.hear(&answer), Err(Refused::OtherVersion(VERSION)));
}

/// A connection of another protocol is closed without an answer, and so is one with less than a greeting, or with a proof that
/// is too long.
pub fn foreign_bytes_get_no_answer(rig: &mut Rig) {
    let mut too_much = rig.begun().1;
    too_much[head::PROOF..head::KEY].copy_from_slice(&u32::MAX.to_le_bytes());
    for bytes in [b"GET / HTTP/1.1\r\n\r\n".repeat(8), vec![0; 200], vec![0xff; 500], too_much, rig.hello().encode()] {
        let mut stranger = rig.connect();
        write(&mut *stranger, &bytes);
        shown_out(rig.incoming());
        assert_eq!(read(&mut *stranger), b"", "{bytes:?}");
    }
    let mut stranger = rig.connect();
    write(&mut *stranger, &rig.begun().1[..20]);
    let incoming = rig.incoming();
    drop(stranger);
    shown_out(incoming);
}

/// Without the key, nothing is learnt but the identifier of the right one, and nothing is heard.
pub fn without_the_key_nothing_is_heard(rig: &mut Rig) {
    let (key, right) = (Key::new(), rig.sides[1].trust.ring().own().id());
    let (mut dialling, bytes) = Dialling::begin(&trusting(&key, Encrypt::Network), Protocol::Jobs, true);
    let mut stranger = rig.connect();
    write(&mut *stranger, &bytes);
    let mut incoming = rig.incoming();
    let answer = reply(&mut *stranger, &mut *incoming);
    assert_eq!(dialling.hear(&answer), Err(Refused::OtherKey { ours: key.id(), theirs: right }));
    // With the identifier of the right key, and a proof of the wrong one.
    let mut forged = bytes;
    forged[head::KEY..head::RESERVED].copy_from_slice(&right.0);
    write(&mut *stranger, &forged);
    shown_out(incoming);
    let answer = read(&mut *stranger);
    assert_eq!((answer.len(), answer[head::STATUS]), (GREETING, WRONG_PROOF as u8));
}

/// All that one has said who was let in, said once more.
pub fn what_was_recorded_gets_nobody_in(rig: &mut Rig) {
    let (mut dialling, greeting) = rig.begun();
    let mut friend = rig.connect();
    write(&mut *friend, &greeting);
    let mut incoming = rig.incoming();
    let answer = reply(&mut *friend, &mut *incoming);
    let (head, proof) = answer.split_at(dialling.wants());
    assert_eq!(dialling.hear(head), Ok(Progress::More));
    assert!(matches!(dialling.hear(proof), Ok(Progress::Done(_))), "it is not let in");

    let mut stranger = rig.connect();
    write(&mut *stranger, &greeting);
    let incoming = rig.incoming();
    shown_out(incoming);
    let answer = read(&mut *stranger);
    assert_eq!((answer.len(), answer[head::STATUS]), (GREETING, WRONG_PROOF as u8), "nobody is answered twice");
}

/// A member cannot come as another process.
pub fn a_name_needs_its_key(rig: &mut Rig) {
    let hello = Hello { process: [9; 16], ..rig.hello() };
    let mut attempt = rig.dial(&hello);
    let mut incoming = rig.incoming();
    let start = Instant::now();
    loop {
        match incoming.step() {
            Said::Nothing => assert!(start.elapsed() < LIMIT, "nothing is said"),
            Said::Foreign => break,
            _ => panic!("it is believed"),
        }
        assert!(matches!(attempt.step(), Step::NotYet), "nobody has answered");
    }
    drop(incoming);
    closed(attempt);
}

/// Over a stream, a greeting may come in pieces. A connection that keeps the bounds of messages brings it whole, or it is none.
pub fn a_greeting_in_pieces(rig: &mut Rig) {
    let (mut dialling, bytes) = rig.begun();
    let mut one = rig.connect();
    let mut incoming = rig.incoming();
    assert!(matches!(incoming.step(), Said::Nothing));
    write(&mut *one, &bytes[..1]);
    // A descriptor that is no socket is a stream too.
    let keeps_bounds = getsockopt(&incoming.fd(), sockopt::SockType).is_ok_and(|t| t != SockType::Stream);
    if keeps_bounds {
        return assert!(matches!(said(&mut *incoming), Said::Foreign));
    }
    let pieces = |one: &mut dyn ByteStream, incoming: &mut dyn Incoming, bytes: &[u8]| {
        for byte in bytes {
            assert!(matches!(incoming.step(), Said::Nothing));
            write(one, &[*byte]);
            wakes(&[(incoming.fd().as_raw_fd(), false)], 1000);
        }
    };
    pieces(&mut *one, &mut *incoming, &bytes[1..]);
    let answer = reply(&mut *one, &mut *incoming);
    let (head, proof) = answer.split_at(dialling.wants());
    assert_eq!(dialling.hear(head), Ok(Progress::More));
    let Ok(Progress::Done(confirmation)) = dialling.hear(proof) else { panic!("it is not let in") };
    pieces(&mut *one, &mut *incoming, &confirmation);
    assert!(matches!(incoming.step(), Said::Nothing));
    let mut bytes = rig.hello().encode();
    let channel = dialling.finish().expect("it is done");
    let records = channel.into_records();
    let mut inbox = None;
    if let Some((mut outbox, theirs)) = records {
        outbox.add(&[IoSlice::new(&bytes)]);
        (bytes, inbox) = (outbox.waiting().to_vec(), Some(theirs));
    }
    let (last, first) = bytes.split_last().expect("it is not empty");
    pieces(&mut *one, &mut *incoming, first);
    write(&mut *one, &[*last]);
    let Said::Hello(hello) = said(&mut *incoming) else { panic!("no HELLO") };
    assert_eq!(*hello, rig.hello());
    incoming.answer(&rig.ack(Status::Good), KEYS[1]).unwrap();
    incoming.finish(YOU, ME, GENERATION).unwrap();
    let mut answer = read(&mut *one);
    if let Some(mut inbox) = inbox {
        let mut bytes = &answer[..];
        while !bytes.is_empty() {
            let space = inbox.space().unwrap();
            let n = space.len();
            space.copy_from_slice(&bytes[..n]);
            inbox.filled(n);
            bytes = &bytes[n..];
        }
        let mut content = [0; 100];
        let n = inbox.take(&mut [IoSliceMut::new(&mut content)]).unwrap();
        answer = content[..n].to_vec();
    }
    assert_eq!(HelloAck::decode(&answer), Ok(rig.ack(Status::Good)));
}

/// A place without a listener refuses the dial. So a death can be told from silence.
pub fn nobody_there(rig: &mut Rig) {
    let (place, hello) = (rig.place(), rig.hello());
    rig.sides[1].registry.close();
    let why = match rig.sides[0].transport().dial(&place, &hello, KEYS[0]) {
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
        let mut attempt = rig.dial(&rig.hello());
        let mut incoming = rig.incoming();
        if is_heard {
            heard(&mut *attempt, &mut *incoming);
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
    let greetings: Vec<_> = (1..=20).map(|generation| Hello { generation, ..rig.hello() }).collect();
    let mut attempts: Vec<_> = greetings.iter().map(|hello| rig.dial(hello)).collect();
    let mut pending: Vec<_> = (0..20).map(|_| rig.incoming()).collect();
    assert!(rig.sides[1].visitor().is_none() && !rig.has_incoming(0), "all are in");
    for (incoming, attempt) in pending.iter_mut().zip(&mut attempts) {
        let generation = heard(&mut **attempt, &mut **incoming).generation;
        let ack = HelloAck { generation, ..rig.ack(Status::Later) };
        incoming.refuse(&ack);
    }
    for (attempt, hello) in attempts.iter_mut().zip(&greetings) {
        assert_eq!(answer(&mut **attempt).generation, hello.generation);
    }
}

/// A probe reaches the host of a place that can be dialled. Only a transport that dials other hosts itself makes one.
pub fn a_probe_gets_through(rig: &mut Rig) {
    let (entry, seen) = (rig.sides[1].transport().entry(), rig.place());
    let Some((place, probe)) = rig.sides[0].transport().probe(&entry, &seen) else {
        return assert_ne!(
            rig.about.scope,
            Scope::Anywhere,
            "one gets through to this host, and to who passes on, anyway"
        );
    };
    assert_eq!(place.host(), seen.host());
    assert!(wakes(&[(probe.fd().as_raw_fd(), true)], 2000));
    probe.result().unwrap();
}
