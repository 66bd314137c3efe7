//! Processes meet through relays, and strangers learn nothing.

mod common;
use base::ProcId;
use common::*;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Instant;
use transports::transport::{Step, Target};
use trust::{Dialling, Key, Protocol};
use wire::Hello;

#[test]
fn two_processes_meet_through_one_relay() {
    let key = Key::new();
    let relay = Running::start(&key, "127.0.0.1:0", &[]);
    let [mut a, mut b] = [0; 2].map(|_| Process::waiting_at(&relay.at.to_string(), &key));
    let one = meet(&mut a, &mut b);
    let other = meet(&mut b, &mut a);
    assert!(one.finish(1).is_ok() && other.finish(1).is_ok());
}

#[test]
fn two_processes_meet_through_relays_in_a_row() {
    let key = Key::new();
    let last = Running::start(&key, "127.0.0.1:0", &[]);
    let middle = Running::start(&key, "127.0.0.2:0", &[last.at.to_string()]);
    let first = Running::start(&key, "127.0.0.3:0", &[middle.at.to_string()]);
    let mut a = Process::waiting_at(&first.at.to_string(), &key);
    let mut b = Process::waiting_at(&last.at.to_string(), &key);
    let attempt = meet(&mut a, &mut b);
    assert!(attempt.finish(1).is_ok());
}

/// An address at which nobody listens yet.
fn free_at(host: &str) -> SocketAddr {
    TcpListener::bind((host, 0)).unwrap().local_addr().unwrap()
}

/// Two relays that name each other ask each other once.
#[test]
fn a_call_does_not_go_round() {
    let key = Key::new();
    let later = free_at("127.0.0.4");
    let one = Running::start(&key, "127.0.0.5:0", &[later.to_string()]);
    let _other = Running::start(&key, &later.to_string(), &[one.at.to_string()]);
    let mut a = Process::waiting_at(&one.at.to_string(), &key);
    let mut nowhere = Process::waiting_at("127.0.0.1:1", &key);
    let why = outcome(&mut a, &mut nowhere).err().expect("it waits nowhere");
    assert!(why.contains("does not know it"), "{why}");
}

/// However many calls find it so.
#[test]
fn that_another_relay_cannot_be_used_is_told_once_until_that_changes() {
    let key = Key::new();
    let later = free_at("127.0.0.6");
    let one = Running::start(&key, "127.0.0.7:0", &[later.to_string()]);
    let mut a = Process::waiting_at(&one.at.to_string(), &key);
    let mut nowhere = Process::waiting_at("127.0.0.1:1", &key);
    let mut call = || outcome(&mut a, &mut nowhere).err().expect("it waits nowhere");
    for turn in 1..=2 {
        (0..3).for_each(|_| drop(call()));
        let other = Running::start(&key, &later.to_string(), &[]);
        let why = call();
        assert!(why.contains("does not know it"), "{why}");
        call();
        drop(other);
        let lines = one.lines.lock().unwrap();
        assert_eq!(lines.len(), 2 * turn, "{lines:?}");
        assert!(lines[2 * turn - 2].contains(&format!("the relay at {later} cannot be used: ")), "{lines:?}");
        assert_eq!(lines[2 * turn - 1], format!("the relay at {later} can be used again"));
    }
}

#[test]
fn only_who_has_closed_its_connection_has_gone() {
    let key = Key::new();
    let relay = Running::start(&key, "127.0.0.1:0", &[]);
    let at = relay.at.to_string();
    let mut a = Process::waiting_at(&at, &key);
    let mut b = Process::waiting_at(&at, &key);
    let _ = meet(&mut a, &mut b);
    let (record, id) = (b.registry.contact(), b.id);
    let entry = record.entry(id).unwrap().to_vec();
    // It is killed: its kernel closes what it has.
    drop(b);
    let mut other = Process::waiting_at(&at, &key);
    let dial = |from: &mut Process| {
        let target = Target { entry: &entry, process: record.process, same_host: Some(false), worked: None };
        let place = from.registry.get(id).unwrap().places(&target).remove(0);
        let [source, dest] = [1, 2].map(|incarnation| ProcId { incarnation, rank: 0 });
        let (cookie, process) = ([3; 16], from.number());
        let hello = Hello { source, dest, cookie, process, generation: 1, stripe: 0, received: 0, moves: None };
        let mut attempt = from.registry.get(id).unwrap().dial(&place, &hello, 0).unwrap();
        let start = Instant::now();
        loop {
            from.step();
            match attempt.step() {
                Step::NotYet => assert!(start.elapsed() < LIMIT),
                Step::Failed(e) => return e,
                Step::Answered(_) => panic!("it is dead"),
            }
            std::thread::yield_now();
        }
    };
    assert_eq!(dial(&mut a).kind(), ErrorKind::ConnectionRefused);
    // Another relay, or this one after its restart, knows nothing: that says nothing of the process.
    drop(relay);
    assert_eq!(dial(&mut a).kind(), ErrorKind::Other, "no relay");
    let relay = Running::start(&key, &at, &[]);
    assert_eq!(dial(&mut other).kind(), ErrorKind::AddrNotAvailable, "a new relay");
    drop(relay);
}

/// All that a connection gets that says this, until it is closed.
fn answer_to(relay: &Running, said: &[u8]) -> usize {
    let mut stream = TcpStream::connect(relay.at).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream.write_all(said).unwrap();
    let mut came = Vec::new();
    // A reset is an end too.
    let _ = stream.read_to_end(&mut came);
    came.len()
}

#[test]
fn strangers_learn_nothing_and_do_no_harm() {
    let key = Key::new();
    let relay = Running::start(&key, "127.0.0.1:0", &[]);
    assert_eq!(answer_to(&relay, b"GET / HTTP/1.1\r\nHost: relay.example.org\r\n\r\n"), 0);
    // Another key: the identifier of the right one, and no more.
    let (_, greeting) = Dialling::begin(&trusting(&Key::new()), Protocol::Relay, true);
    assert_eq!(answer_to(&relay, &greeting), 32);
    // The greeting of another kind of connection.
    let (_, greeting) = Dialling::begin(&trusting(&key), Protocol::Jobs, true);
    assert_eq!(answer_to(&relay, &greeting), 0);
    // So many that say nothing, and those with the key still meet.
    let silent: Vec<_> = (0..400).map(|_| TcpStream::connect(relay.at).unwrap()).collect();
    let [mut a, mut b] = [0; 2].map(|_| Process::waiting_at(&relay.at.to_string(), &key));
    let _ = meet(&mut a, &mut b);
    drop(silent);
}
