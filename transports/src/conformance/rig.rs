//! Two instances of one transport, each opened as a process opens it, and the handshake between them.

use super::memory::{LIMIT, ME, Mem, Seen, YOU};
use super::{Factory, handshake};
use crate::registry::{Allowed, AnyLane, Registry, Settings};
use crate::stream::ByteStream;
use crate::transport::{About, Attempt, Env, Guest, Said, Step, Target, Transport};
use base::ident::random;
use nix::poll::{PollFd, PollFlags, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::time::Instant;
use wire::lane::Lane;
use wire::{Hello, HelloAck, Place, Status};

/// The keys of the two sides' pairs.
pub const KEYS: [u32; 2] = [3, 50];
pub const GENERATION: u16 = 1;

/// One process, as far as the transport knows.
pub struct Side {
    pub registry: Registry,
    pub process: [u8; 16],
    pub bell: EventFd,
    about: &'static About,
}

impl Side {
    fn open(about: &'static About, set: &dyn Fn(&mut Settings)) -> Side {
        let allowed = Allowed::parse(about.word).expect("it is registered");
        let mut settings = Settings { allowed, ..Settings::default() };
        set(&mut settings);
        let process = random();
        let bell = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK).unwrap();
        let registry = Registry::open(&settings, &Env { process, doorbell: bell.as_fd() }).unwrap();
        assert_eq!(registry.opened().count(), 1, "it cannot be had here");
        Side { registry, process, bell, about }
    }

    pub fn transport(&mut self) -> &mut dyn Transport {
        self.registry.get(self.about.id).expect("it is open")
    }

    /// Numbers and descriptors of its doors.
    pub fn doors(&mut self) -> Vec<(u32, RawFd)> {
        let mut all = Vec::new();
        self.transport().doors(&mut |n, fd| all.push((n, fd.as_raw_fd())));
        all
    }

    /// Who waits, at whatever door.
    pub fn visitor(&mut self) -> Option<Box<dyn Guest>> {
        for (n, _) in self.doors() {
            match self.transport().accept(n) {
                Ok(guest) => return Some(guest),
                Err(e) => assert_eq!(e.kind(), io::ErrorKind::WouldBlock),
            }
        }
        None
    }
}

type Knock = Box<dyn Fn(&Place) -> io::Result<Box<dyn ByteStream>>>;

/// The first side dials, the second answers.
pub struct Rig {
    pub sides: [Side; 2],
    pub about: &'static About,
    knock: Knock,
}

/// Whether one of these becomes readable, or what is watched for writing writable, in so many milliseconds.
pub fn wakes(fds: &[(RawFd, bool)], millis: u16) -> bool {
    let flags = |write: bool| if write { PollFlags::POLLIN | PollFlags::POLLOUT } else { PollFlags::POLLIN };
    // SAFETY: who owns a descriptor that is asked about keeps it open meanwhile.
    let watched = |&(fd, write): &(RawFd, bool)| unsafe { PollFd::new(BorrowedFd::borrow_raw(fd), flags(write)) };
    let mut fds: Vec<_> = fds.iter().map(watched).collect();
    poll(&mut fds, millis).unwrap() > 0
}

/// What is to be watched for a lane.
pub fn signs(lane: &mut AnyLane) -> Vec<(RawFd, bool)> {
    let mut all = Vec::new();
    lane.signs(&mut |_, fd, write| all.push((fd.as_raw_fd(), write)));
    all
}

pub fn hello() -> Hello {
    let (cookie, process, proof) = ([3; 16], [4; 16], (0..300).map(|i| i as u8).collect());
    Hello { source: ME, dest: YOU, cookie, process, generation: GENERATION, stripe: 0, received: 5, proof }
}

impl Rig {
    pub fn open<S: ByteStream + 'static>(
        about: &'static About,
        set: impl Fn(&mut Settings),
        knock: impl Fn(&Place) -> io::Result<S> + 'static,
    ) -> Rig {
        let sides = [Side::open(about, &set), Side::open(about, &set)];
        Rig { sides, about, knock: Box::new(move |place| Ok(Box::new(knock(place)?))) }
    }

    pub fn ack(&self, status: Status) -> HelloAck {
        let proof = (0..400).map(|i| i as u8 ^ 0x55).collect();
        HelloAck { status, generation: GENERATION, process: self.sides[1].process, received: 7, proof }
    }

    /// Where the second side can be dialled, as the first sees it.
    pub fn places(&mut self, same_host: Option<bool>, worked: Option<&Place>) -> Vec<Place> {
        let record = self.sides[1].registry.contact();
        let entry = record.entry(self.about.id).expect("its record says where it is");
        let target = Target { entry, process: record.process, same_host, worked };
        self.sides[0].transport().places(&target)
    }

    pub fn place(&mut self) -> Place {
        self.places(Some(true), None).into_iter().next().expect("it can be dialled")
    }

    /// Dials until the HELLO has left.
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

    /// One who comes without a transport, with bytes of its own.
    pub fn knock(&mut self) -> Box<dyn ByteStream> {
        let place = self.place();
        (self.knock)(&place).unwrap()
    }

    /// Whether a door of the second side tells of somebody.
    pub fn is_knocked(&mut self, millis: u16) -> bool {
        let doors: Vec<_> = self.sides[1].doors().into_iter().map(|(_, fd)| (fd, false)).collect();
        wakes(&doors, millis)
    }

    /// Who has come to the second side; a door tells of it.
    pub fn guest(&mut self) -> Box<dyn Guest> {
        assert!(self.is_knocked(2000), "no door tells");
        self.sides[1].visitor().expect("one who waits at a door that tells")
    }

    /// Both ends when the HELLO is there.
    pub fn greeted(&mut self) -> (Box<dyn Attempt>, Box<dyn Guest>) {
        let attempt = self.dial(&hello());
        let mut guest = self.guest();
        assert_eq!(handshake::heard(&mut *guest), hello());
        assert!(matches!(guest.step(), Said::Nothing), "a HELLO is said once");
        (attempt, guest)
    }

    /// Whoever else comes is one more stream of this lane; `guests`: who has come and said nothing yet.
    fn serve(&mut self, guests: &mut Vec<Box<dyn Guest>>, lane: &mut AnyLane) {
        while let Some(guest) = self.sides[1].visitor() {
            guests.push(guest);
        }
        for mut guest in std::mem::take(guests) {
            let hello = match guest.step() {
                Said::Nothing => {
                    guests.push(guest);
                    continue;
                }
                Said::Hello(hello) => hello,
                _ => panic!("no HELLO"),
            };
            assert!(hello.stripe > 0 && hello.generation == GENERATION);
            assert!(Lane::<Mem>::takes_stream(lane, hello.stripe));
            assert!(lane.join(guest, &self.ack(Status::Good), hello.stripe));
            assert!(!Lane::<Mem>::takes_stream(lane, hello.stripe));
        }
    }
}

impl Factory for Rig {
    type Lane = AnyLane;

    /// Of as many streams as the settings say.
    fn pair(&mut self) -> (AnyLane, AnyLane) {
        let (attempt, guest) = self.greeted();
        let (mut a, mut b) = handshake::agree(self, attempt, guest);
        let (start, mut seen, mut guests) = (Instant::now(), Seen::new(1), Vec::new());
        while signs(&mut a).len() != signs(&mut b).len() {
            assert!(start.elapsed() < LIMIT, "its streams do not come");
            self.serve(&mut guests, &mut b);
            assert_eq!(Lane::<Mem>::poll(&mut a, &mut seen, 1 << 16), 0);
        }
        // Those that are there may still be awaited.
        while a.changed(&mut |_| ()) || b.changed(&mut |_| ()) {
            assert!(start.elapsed() < LIMIT, "its streams do not come");
            Lane::<Mem>::poll(&mut a, &mut seen, 1 << 16);
        }
        assert_eq!((a.streams(), signs(&mut a).len()), (b.streams(), signs(&mut b).len()));
        (a, b)
    }

    fn readable(&mut self, lane: &mut AnyLane, millis: u16) -> Option<bool> {
        let Side { registry, bell, .. } = &self.sides[1];
        if let (Some(looked), Some(polled)) = (&registry.looked, lane.polled()) {
            looked.board.arm();
            if polled.has_input() {
                let _ = bell.read();
                return Some(true);
            }
            looked.board.take(|_| ());
        }
        let mut fds = signs(lane);
        fds.push((bell.as_raw_fd(), false));
        let awake = wakes(&fds, millis);
        let _ = bell.read();
        Some(awake)
    }

    /// Past the lane, on the first of its descriptors.
    fn inject(&mut self, lane: &mut AnyLane, bytes: &[u8]) -> bool {
        let fd = signs(lane)[0].0;
        // SAFETY: the lane keeps the descriptor open as long as it lives.
        let fd = unsafe { BorrowedFd::borrow_raw(fd) };
        nix::unistd::write(fd.as_fd(), bytes) == Ok(bytes.len())
    }
}
