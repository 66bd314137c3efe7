//! Two instances of one transport, each opened as a process opens it, and the handshake between them.

use super::memory::{LIMIT, ME, Mem, Seen, YOU};
use super::{Factory, handshake};
use crate::registry::{Allowed, AnyLane, Registry, Settings};
use crate::stream::ByteStream;
use crate::transport::{About, Attempt, Env, Incoming, Said, Step, Target, Transport};
use nix::poll::{PollFd, PollFlags, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};
use trust::{Dialling, Encrypt, Key, Protocol, Ring, Trust};
use wire::lane::{Event, Lane};
use wire::{Hello, HelloAck, Place, Status};

/// The keys of the two sides' pairs.
pub const KEYS: [u32; 2] = [3, 50];
pub const GENERATION: u16 = 1;

/// One process, as the transport sees it.
pub struct Side {
    pub registry: Registry,
    pub process: [u8; 16],
    pub trust: Arc<Trust>,
    pub eventfd: EventFd,
    about: &'static About,
}

impl Side {
    fn open(about: &'static About, set: &dyn Fn(&mut Settings), key: &Key, encrypt: Encrypt) -> Side {
        let allowed = Allowed::parse(about.word).expect("it is registered");
        let mut settings = Settings { allowed, ..Settings::default() };
        set(&mut settings);
        let trust = trusting(key, encrypt);
        let process = trust.identity().process();
        let eventfd = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK).unwrap();
        let registry = Registry::open(&settings, &Env { trust: &trust, doorbell: eventfd.as_fd() }).unwrap();
        assert_eq!(registry.opened().count(), 1, "it cannot be had here");
        Side { registry, process, trust, eventfd, about }
    }

    pub fn transport(&mut self) -> &mut dyn Transport {
        self.registry.get(self.about.id).expect("it is open")
    }

    /// The numbers and descriptors of its listeners.
    pub fn listeners(&mut self) -> Vec<(u32, RawFd)> {
        let mut all = Vec::new();
        self.transport().listeners(&mut |n, fd| all.push((n, fd.as_raw_fd())));
        all
    }

    /// A connection that waits at any of its listeners.
    pub fn visitor(&mut self) -> Option<Box<dyn Incoming>> {
        for (n, _) in self.listeners() {
            match self.transport().accept(n) {
                Ok(incoming) => return Some(incoming),
                Err(e) => assert_eq!(e.kind(), io::ErrorKind::WouldBlock),
            }
        }
        None
    }
}

/// What a process trusts that has this key.
pub fn trusting(key: &Key, encrypt: Encrypt) -> Arc<Trust> {
    Arc::new(Trust::new(Ring::new(key.clone(), []), encrypt))
}

/// Connects to a place, as a process with this trust.
type Connect = Box<dyn Fn(&Place, &Arc<Trust>) -> io::Result<Box<dyn ByteStream>>>;

/// The first side dials, the second answers.
pub struct Rig {
    pub sides: [Side; 2],
    pub about: &'static About,
    /// What further processes trust.
    others: (Key, Encrypt),
    connect: Connect,
}

/// Whether one of these descriptors becomes readable, or writable if it is watched for that, within `millis` milliseconds.
pub fn wakes(fds: &[(RawFd, bool)], millis: u16) -> bool {
    let flags = |write: bool| if write { PollFlags::POLLIN | PollFlags::POLLOUT } else { PollFlags::POLLIN };
    // SAFETY: the owner of a descriptor keeps it open meanwhile.
    let watched = |&(fd, write): &(RawFd, bool)| unsafe { PollFd::new(BorrowedFd::borrow_raw(fd), flags(write)) };
    let mut fds: Vec<_> = fds.iter().map(watched).collect();
    poll(&mut fds, millis).unwrap() > 0
}

/// The descriptors that are to be watched for a lane.
pub fn interests(lane: &mut AnyLane) -> Vec<(RawFd, bool)> {
    let mut all = Vec::new();
    lane.interests(&mut |_, fd, write| all.push((fd.as_raw_fd(), write)));
    all
}

impl Rig {
    pub fn open<S: ByteStream + 'static>(
        about: &'static About,
        set: impl Fn(&mut Settings),
        encrypt: Encrypt,
        connect: impl Fn(&Place, &Arc<Trust>) -> io::Result<S> + 'static,
    ) -> Rig {
        let key = Key::new();
        let sides = [0; 2].map(|_| Side::open(about, &set, &key, encrypt));
        Rig {
            sides,
            about,
            others: (key, encrypt),
            connect: Box::new(move |place, trust| Ok(Box::new(connect(place, trust)?))),
        }
    }

    /// The HELLO of the first side.
    pub fn hello(&self) -> Hello {
        let (cookie, process) = ([3; 16], self.sides[0].process);
        Hello { source: ME, dest: YOU, cookie, process, generation: GENERATION, stripe: 0, received: 5, moves: None }
    }

    /// A handshake that the first side has begun, and its greeting, to be carried by hand.
    pub fn begun(&self) -> (Dialling, Vec<u8>) {
        Dialling::begin(&self.sides[0].trust, Protocol::Jobs, true)
    }

    pub fn ack(&self, status: Status) -> HelloAck {
        HelloAck { status, generation: GENERATION, process: self.sides[1].process, received: 7 }
    }

    /// The places at which the first side can dial the second.
    pub fn places(&mut self, same_host: Option<bool>, worked: Option<&Place>) -> Vec<Place> {
        let record = self.sides[1].registry.contact();
        let entry = record.entry(self.about.id).expect("its record says where it is");
        let target = Target { entry, process: record.process, same_host, worked };
        self.sides[0].transport().places(&target)
    }

    pub fn place(&mut self) -> Place {
        self.places(Some(true), None).into_iter().next().expect("it can be dialled")
    }

    /// Dials until the greeting has been sent.
    pub fn dial(&mut self, hello: &Hello) -> Box<dyn Attempt> {
        let place = self.place();
        let mut attempt = self.sides[0].transport().dial(&place, hello, KEYS[0]).unwrap();
        let start = Instant::now();
        loop {
            assert!(matches!(attempt.step(), Step::NotYet), "nobody has answered");
            if attempt.is_greeted() {
                return attempt;
            }
            assert!(start.elapsed() < LIMIT);
        }
    }

    /// A plain connection of another process to the second side, without the transport.
    pub fn connect(&mut self) -> Box<dyn ByteStream> {
        let place = self.place();
        (self.connect)(&place, &trusting(&self.others.0, self.others.1)).unwrap()
    }

    /// Whether a listener of the second side is readable.
    pub fn has_incoming(&mut self, millis: u16) -> bool {
        let listeners: Vec<_> = self.sides[1].listeners().into_iter().map(|(_, fd)| (fd, false)).collect();
        wakes(&listeners, millis)
    }

    /// The connection that waits at the second side; a listener must be readable.
    pub fn incoming(&mut self) -> Box<dyn Incoming> {
        assert!(self.has_incoming(2000), "no listener tells");
        self.sides[1].visitor().expect("one who waits at a listener that tells")
    }

    /// Both ends once the HELLO is read.
    pub fn greeted(&mut self) -> (Box<dyn Attempt>, Box<dyn Incoming>) {
        let mut attempt = self.dial(&self.hello());
        let mut incoming = self.incoming();
        assert_eq!(handshake::heard(&mut *attempt, &mut *incoming), self.hello());
        assert!(matches!(incoming.step(), Said::Nothing), "a HELLO is said once");
        (attempt, incoming)
    }

    /// Accepts further connections as stripes of this lane; those in `pending` have not sent their HELLO yet.
    fn serve(&mut self, pending: &mut Vec<Box<dyn Incoming>>, lane: &mut AnyLane) {
        while let Some(incoming) = self.sides[1].visitor() {
            pending.push(incoming);
        }
        for mut incoming in std::mem::take(pending) {
            let hello = match incoming.step() {
                Said::Nothing => {
                    pending.push(incoming);
                    continue;
                }
                Said::Hello(hello) => hello,
                _ => panic!("no HELLO"),
            };
            assert!(hello.stripe > 0 && hello.generation == GENERATION);
            assert!(Lane::<Mem>::takes_stream(lane, hello.stripe));
            assert!(lane.join(incoming, &self.ack(Status::Good), hello.stripe));
            assert!(!Lane::<Mem>::takes_stream(lane, hello.stripe));
        }
    }
}

impl Factory for Rig {
    type Lane = AnyLane;

    /// Lanes of as many stripes as the settings say.
    fn pair(&mut self) -> (AnyLane, AnyLane) {
        let (attempt, incoming) = self.greeted();
        let (mut a, mut b) = handshake::agree(self, attempt, incoming);
        let (start, mut seen, mut pending) = (Instant::now(), Seen::new(1), Vec::new());
        while interests(&mut a).len() != interests(&mut b).len() {
            assert!(start.elapsed() < LIMIT, "its streams do not come");
            self.serve(&mut pending, &mut b);
            assert_eq!(Lane::<Mem>::poll(&mut a, &mut seen, 1 << 16), 0);
        }
        // A stripe may have been accepted before its dial has ended.
        while a.changed(&mut |_| ()) || b.changed(&mut |_| ()) {
            assert!(start.elapsed() < LIMIT, "its streams do not come");
            Lane::<Mem>::poll(&mut a, &mut seen, 1 << 16);
        }
        while !a.is_set_up() || !b.is_set_up() {
            assert!(start.elapsed() < LIMIT, "they do not get ready");
            for lane in [&mut a, &mut b] {
                assert_eq!(Lane::<Mem>::poll(lane, &mut seen, 1 << 16), 0);
                assert_ne!(Lane::<Mem>::event(lane), Some(Event::Dead), "{:?}", Lane::<Mem>::death(lane));
            }
        }
        // What was waiting for that may go on.
        for lane in [&mut a, &mut b] {
            lane.changed(&mut |_| ());
        }
        assert_eq!((a.streams(), interests(&mut a).len()), (b.streams(), interests(&mut b).len()));
        (a, b)
    }

    fn readable(&mut self, lane: &mut AnyLane, millis: u16) -> Option<bool> {
        let Side { registry, eventfd, .. } = &self.sides[1];
        if let (Some(polling), Some(polled)) = (&registry.polling, lane.polled()) {
            polling.doorbells.arm();
            if polled.has_input() {
                let _ = eventfd.read();
                return Some(true);
            }
            polling.doorbells.take(|_| ());
        }
        let mut fds = interests(lane);
        fds.push((eventfd.as_raw_fd(), false));
        let start = Instant::now();
        let awake = loop {
            if wakes(&fds, 0) {
                break true;
            }
            let left = Duration::from_millis(millis.into()).saturating_sub(start.elapsed());
            let listeners = self.sides[1].listeners();
            let all: Vec<_> = fds.iter().copied().chain(listeners.iter().map(|(_, fd)| (*fd, false))).collect();
            if !wakes(&all, left.as_millis() as u16) {
                break false;
            }
            // What a listener tells of may be for a lane.
            assert!(self.sides[1].visitor().is_none(), "nobody has come");
        };
        let _ = self.sides[1].eventfd.read();
        Some(awake)
    }

    /// Writes to the first of the lane's descriptors.
    fn inject(&mut self, lane: &mut AnyLane, bytes: &[u8]) -> bool {
        let fd = interests(lane)[0].0;
        // SAFETY: the lane keeps the descriptor open as long as it lives.
        let fd = unsafe { BorrowedFd::borrow_raw(fd) };
        nix::unistd::write(fd.as_fd(), bytes) == Ok(bytes.len())
    }
}
