//! A relay in a thread, and processes that meet at it, for the tests.
#![allow(dead_code, reason = "each test file uses a part")]

use base::ProcId;
use nix::sys::eventfd::EventFd;
use relay::Relay;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use transports::registry::{Allowed, Registry, Settings};
use transports::transport::{Attempt, Env, Incoming, Said, Step, Target};
use trust::{Encrypt, Key, Ring, Trust};
use wire::{Hello, HelloAck, Status, TransportId};

pub const LIMIT: Duration = Duration::from_secs(20);

pub fn trusting(key: &Key) -> Arc<Trust> {
    Arc::new(Trust::new(Ring::new(key.clone(), []), Encrypt::Network))
}

/// A relay in a thread of its own, which ends when this is dropped.
pub struct Running {
    pub at: SocketAddr,
    /// What it has told.
    pub lines: Arc<Mutex<Vec<String>>>,
    stop: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    pub fn start(key: &Key, at: &str, next: &[String]) -> Running {
        let (stop, stopped) = UnixStream::pair().unwrap();
        let (tell, told) = std::sync::mpsc::channel();
        let (trust, at, next) = (trusting(key), at.to_owned(), next.to_vec());
        let lines = Arc::<Mutex<Vec<String>>>::default();
        let line = lines.clone();
        let thread = std::thread::spawn(move || {
            let relay = Relay::listen(&[at], &next, trust).unwrap();
            let mut relay = relay.telling(move |text| line.lock().unwrap().push(text.to_owned()));
            tell.send(relay.addresses()[0]).unwrap();
            relay.run(stopped.as_fd()).unwrap();
        });
        Running { at: told.recv().unwrap(), lines, stop: Some(stop), thread: Some(thread) }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.stop.take());
        self.thread.take().into_iter().for_each(|thread| thread.join().unwrap());
    }
}

/// A process, as far as this transport goes.
pub struct Process {
    pub registry: Registry,
    pub trust: Arc<Trust>,
    pub id: TransportId,
    pending: Vec<Box<dyn Incoming>>,
}

impl Process {
    pub fn waiting_at(relays: &str, key: &Key) -> Process {
        let allowed = Allowed::parse("relay").unwrap();
        let mut settings = Settings { allowed, ..Settings::default() };
        settings.relay.relays = Some(relays.into());
        let trust = trusting(key);
        let doorbell = EventFd::new().unwrap();
        let registry = Registry::open(&settings, &Env { trust: &trust, doorbell: doorbell.as_fd() }).unwrap();
        let id = registry.entries().find(|entry| entry.opened.is_ok()).expect("it is open").about.id;
        Process { registry, trust, id, pending: Vec::new() }
    }

    pub fn number(&self) -> [u8; 16] {
        self.trust.identity().process()
    }

    /// Goes on with what comes from the relays.
    pub fn step(&mut self) {
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

    pub fn dial(&mut self, to: &mut Process) -> Box<dyn Attempt> {
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
pub fn outcome(from: &mut Process, to: &mut Process) -> Result<Box<dyn Attempt>, String> {
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
pub fn meet(from: &mut Process, to: &mut Process) -> Box<dyn Attempt> {
    let start = Instant::now();
    loop {
        match outcome(from, to) {
            Ok(attempt) => return attempt,
            Err(why) => assert!(start.elapsed() < LIMIT && why.contains("does not know it"), "{why}"),
        }
    }
}

/// The same, where calls may also find no room, or no answer.
pub fn meet_anyhow(from: &mut Process, to: &mut Process) -> Box<dyn Attempt> {
    let start = Instant::now();
    loop {
        match outcome(from, to) {
            Ok(attempt) => return attempt,
            Err(why) => assert!(start.elapsed() < LIMIT, "{why}"),
        }
    }
}

/// Sets this when it is dropped.
pub struct Ending<'a>(pub &'a AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
