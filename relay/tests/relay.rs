//! Processes meet through relays, and strangers learn nothing.

use base::ProcId;
use nix::sys::eventfd::EventFd;
use relay::Relay;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use transports::registry::{Allowed, Registry, Settings};
use transports::transport::{Attempt, Env, Incoming, Said, Step, Target};
use trust::{Dialling, Encrypt, Key, Protocol, Ring, Trust};
use wire::{Hello, HelloAck, Status, TransportId};

const LIMIT: Duration = Duration::from_secs(20);

fn trusting(key: &Key) -> Arc<Trust> {
    Arc::new(Trust::new(Ring::new(key.clone(), []), Encrypt::Network))
}

/// A relay in a thread of its own, which ends when this is dropped.
struct Running {
    at: SocketAddr,
    stop: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    fn start(key: &Key, at: &str, next: &[String]) -> Running {
        let (stop, stopped) = UnixStream::pair().unwrap();
        let (tell, told) = std::sync::mpsc::channel();
        let (trust, at, next) = (trusting(key), at.to_owned(), next.to_vec());
        let thread = std::thread::spawn(move || {
            let mut relay = Relay::listen(&[at], &next, trust).unwrap();
            tell.send(relay.addresses()[0]).unwrap();
            relay.run(stopped.as_fd()).unwrap();
        });
        Running { at: told.recv().unwrap(), stop: Some(stop), thread: Some(thread) }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.stop.take());
        self.thread.take().into_iter().for_each(|thread| thread.join().unwrap());
    }
}

/// A process, as far as this transport goes.
struct Process {
    registry: Registry,
    trust: Arc<Trust>,
    id: TransportId,
    pending: Vec<Box<dyn Incoming>>,
}

impl Process {
    fn waiting_at(relays: &str, key: &Key) -> Process {
        let allowed = Allowed::parse("relay").unwrap();
        let mut settings = Settings { allowed, ..Settings::default() };
        settings.relay.relays = Some(relays.into());
        let trust = trusting(key);
        let doorbell = EventFd::new().unwrap();
        let registry = Registry::open(&settings, &Env { trust: &trust, doorbell: doorbell.as_fd() }).unwrap();
        let id = registry.entries().find(|entry| entry.opened.is_ok()).expect("it is open").about.id;
        Process { registry, trust, id, pending: Vec::new() }
    }

    fn number(&self) -> [u8; 16] {
        self.trust.identity().process()
    }

    /// Goes on with what comes from the relays.
    fn step(&mut self) {
        let transport = self.registry.get(self.id).unwrap();
        loop {
            match transport.accept(0) {
                Ok(incoming) => self.pending.push(incoming),
                Err(e) => {
                    assert_eq!(e.kind(), ErrorKind::WouldBlock);
                    return;
                }
            }
        }
    }

    fn dial(&mut self, to: &mut Process) -> Box<dyn Attempt> {
        let record = to.registry.contact();
        let entry = record.entry(self.id).unwrap().to_vec();
        let target = Target { entry: &entry, process: record.process, same_host: Some(false), worked: None };
        let transport = self.registry.get(self.id).unwrap();
        let place = transport.places(&target).into_iter().next().expect("a place");
        let process = self.trust.identity().process();
        let [source, dest] = [1, 2].map(|incarnation| ProcId { incarnation, rank: 0 });
        let cookie = [3; 16];
        let hello = Hello { source, dest, cookie, process, generation: 1, stripe: 0, received: 0, moves: None };
        transport.dial(&place, &hello, 0).unwrap()
    }
}

/// The end of a dial to `to`, which goes on meanwhile and answers well.
fn outcome(from: &mut Process, to: &mut Process) -> Result<Box<dyn Attempt>, String> {
    let mut attempt = from.dial(to);
    let start = Instant::now();
    while start.elapsed() < LIMIT {
        from.step();
        to.step();
        let ack = HelloAck { status: Status::Good, generation: 1, process: to.number(), received: 0 };
        for incoming in &mut to.pending {
            if let Said::Hello(_) = incoming.step() {
                incoming.answer(&ack, 0).unwrap();
            }
        }
        match attempt.step() {
            Step::NotYet => (),
            Step::Answered(answer) if answer == ack => return Ok(attempt),
            Step::Answered(other) => panic!("{other:?}"),
            Step::Failed(e) => return Err(format!("{:?}: {e}", e.kind())),
        }
        std::thread::yield_now();
    }
    panic!("no outcome");
}

/// Dials until the relay knows the other one.
fn meet(from: &mut Process, to: &mut Process) -> Box<dyn Attempt> {
    let start = Instant::now();
    loop {
        match outcome(from, to) {
            Ok(attempt) => return attempt,
            Err(why) => assert!(start.elapsed() < LIMIT && why.contains("does not know it"), "{why}"),
        }
    }
}

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

/// Two relays that name each other ask each other once.
#[test]
fn a_call_does_not_go_round() {
    let key = Key::new();
    let free = std::net::TcpListener::bind("127.0.0.4:0").unwrap();
    let later = free.local_addr().unwrap();
    drop(free);
    let one = Running::start(&key, "127.0.0.5:0", &[later.to_string()]);
    let _other = Running::start(&key, &later.to_string(), &[one.at.to_string()]);
    let mut a = Process::waiting_at(&one.at.to_string(), &key);
    let mut nowhere = Process::waiting_at("127.0.0.1:1", &key);
    let why = outcome(&mut a, &mut nowhere).err().expect("it waits nowhere");
    assert!(why.contains("does not know it"), "{why}");
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
    assert_eq!(dial(&mut other).kind(), ErrorKind::Other, "a new relay");
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
