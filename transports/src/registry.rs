//! Which transports there are: the one place outside a transport's folder that names it.
//!
//! The node opens the [`Registry`] and drives it; the session knows transports as [`About`] tells. To add one: its folder, a
//! module in `lib.rs`, and its line in `transports!`. Invariant: a lane's kind is known when this is compiled, so that a
//! message's way has no virtual call.

use crate::transport::{Env, Guest, NewLane, OpenError, Transport, Watched};
use crate::{shm, tcp};
use base::protocol::transport::ON_TRIAL;
use base::{Memory, settings};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::BorrowedFd;
use wire::frame::Header;
use wire::lane::{Caps, Death, Event, InKernel, Lane, Payload, Sent, Sink, Unread};
use wire::{About, Contact, HelloAck, Place, TransportId};

/// The transports that `MPI_CONNECT_LANES` allows, as bits by their order here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowed(u16);

impl Allowed {
    pub const ALL: Allowed = {
        let (mut bits, mut n) = (0, 0);
        while n < ALL.len() {
            bits |= ((ALL[n].id.0 < ON_TRIAL) as u16) << n;
            n += 1;
        }
        Allowed(bits)
    };

    /// The one at this place in [`ALL`] alone.
    pub const fn only(n: usize) -> Allowed {
        Allowed(1 << n)
    }

    /// Words with commas between, at least one.
    pub fn parse(s: &str) -> Option<Allowed> {
        let mut bits = 0;
        for word in s.split(',') {
            bits |= 1 << ALL.iter().position(|t| t.word == word.trim())?;
        }
        Some(Allowed(bits))
    }

    fn has(self, n: usize) -> bool {
        self.0 & 1 << n != 0
    }
}

/// A transport that is registered, and why it is not used, if so.
pub struct Entry {
    pub about: About,
    pub opened: Result<Box<dyn Transport>, &'static str>,
}

/// All transports, the best first.
pub struct Registry {
    all: Vec<Entry>,
    /// Of the transport whose lanes are looked at instead of slept on.
    pub looked: Option<Looked>,
    host: [u8; 16],
    process: [u8; 16],
}

const NOT_ALLOWED: &str = "not allowed by MPI_CONNECT_LANES";
const NOT_HERE: &str = "not to be had here";

impl Registry {
    /// Opens what is allowed.
    pub fn open(settings: &Settings, env: &Env<'_>) -> Result<Registry, OpenError> {
        let mut registry = Registry { all: Vec::new(), looked: None, host: crate::host::id(), process: env.process };
        for (n, about) in ALL.iter().enumerate() {
            let opened = match settings.allowed.has(n) {
                false => Err(NOT_ALLOWED),
                true => match open(n, settings, env) {
                    Ok(transport) => {
                        if let Some(board) = transport.board() {
                            registry.looked = board.downcast().ok().map(|looked| *looked);
                        }
                        Ok(transport)
                    }
                    Err(OpenError::Without(e)) => {
                        base::log!(Error, "no {}: {e}", about.title);
                        Err(NOT_HERE)
                    }
                    Err(e) => return Err(e),
                },
            };
            registry.all.push(Entry { about: **about, opened });
        }
        Ok(registry)
    }

    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.all.iter()
    }

    pub fn get(&mut self, id: TransportId) -> Option<&mut (dyn Transport + 'static)> {
        self.all.iter_mut().find(|e| e.about.id == id)?.opened.as_deref_mut().ok()
    }

    /// Those that are open, with their places in the registry.
    pub fn opened(&self) -> impl Iterator<Item = (usize, &dyn Transport)> {
        self.all.iter().enumerate().filter_map(|(n, e)| Some((n, &**e.opened.as_ref().ok()?)))
    }

    pub fn at(&mut self, n: usize) -> Option<&mut (dyn Transport + 'static)> {
        self.all.get_mut(n)?.opened.as_deref_mut().ok()
    }

    /// Nobody comes or is dialled any more.
    pub fn close(&mut self) {
        self.all.iter_mut().for_each(|e| e.opened = Err(NOT_HERE));
    }

    /// This process's record.
    pub fn contact(&self) -> Contact {
        let entries = self.all.iter().filter_map(|e| Some((e.about.id, e.opened.as_ref().ok()?.entry())));
        let entries: Vec<_> = entries.collect();
        Contact::new(self.process, self.host, entries.iter().map(|(id, entry)| (*id, &entry[..])))
    }

    /// Where this process is, for people.
    pub fn own_places(&self) -> Vec<Place> {
        self.opened().flat_map(|(_, t)| t.own_places()).collect()
    }

    /// Listens where a program wants a port to be: by the first transport that has such places.
    pub fn listen_at(&mut self, ip: Option<IpAddr>, port: Option<u16>) -> io::Result<Vec<SocketAddr>> {
        let mut last = io::ErrorKind::Unsupported.into();
        for e in &mut self.all {
            let Ok(transport) = &mut e.opened else { continue };
            match transport.listen_at(ip, port) {
                Ok(addresses) => return Ok(addresses),
                Err(e) if e.kind() == io::ErrorKind::Unsupported => (),
                Err(e) => last = e,
            }
        }
        Err(last)
    }

    /// These are not needed any more by one of those who asked; `closing` sees each descriptor before it is closed.
    pub fn stop_listening(&mut self, addresses: &[SocketAddr], closing: &mut dyn FnMut(BorrowedFd<'_>)) {
        for e in &mut self.all {
            if let Ok(transport) = &mut e.opened {
                transport.stop_listening(addresses, closing);
            }
        }
    }
}

/// Where senders leave word for a process that sleeps, or that does not look at their lanes by themselves.
pub type Board = shm::Own;
/// A lane that is looked at instead of slept on, and over which memory may be read.
pub type Polled = shm::ShmLane;
/// A process whose memory can be read, as long as it lives.
pub type Reader = shm::Readable;
pub use shm::Looked;

/// Numbers that a board tells apart.
pub const BOARD_KEYS: u32 = shm::BITS;

/// Where a contact record says that its process listens, as IP addresses: what the name of an MPI port may hold.
pub fn ip_addresses(contact: &Contact) -> Vec<SocketAddr> {
    contact.entry(tcp::ABOUT.id).map(tcp::addresses).unwrap_or_default()
}

/// A record that says so and no more.
pub fn at_addresses(process: [u8; 16], host: [u8; 16], addresses: &[SocketAddr]) -> Contact {
    let entry = tcp::entry(addresses);
    // A process of this host may come by way of its number, if that is known.
    let near = (process != [0; 16]).then_some((shm::ABOUT.id, &[][..]));
    Contact::new(process, host, near.into_iter().chain([(tcp::ABOUT.id, &entry[..])]))
}

macro_rules! transports {
    ($($(#[$when:meta])* $kind:ident($lane:ident), $room:ident;)*) => {
        /// All of them, the best first.
        pub const ALL: &[&About] = &[$($(#[$when])* &crate::$room::ABOUT),*];

        /// What the environment says of each.
        #[derive(Debug, Clone)]
        pub struct Settings {
            pub allowed: Allowed,
            $($(#[$when])* pub $room: crate::$room::Settings,)*
        }

        impl Default for Settings {
            fn default() -> Settings {
                Settings { allowed: Allowed::ALL, $($(#[$when])* $room: Default::default(),)* }
            }
        }

        impl Settings {
            /// As `get` answers for the name of a variable; an error names it.
            pub fn read(get: &dyn Fn(&str) -> Option<String>) -> Result<Settings, (&'static str, String)> {
                let mut allowed = Allowed::ALL;
                if let Some(v) = get(settings::LANES) {
                    let all: Vec<_> = ALL.iter().map(|about| about.word).collect();
                    let wrong = || (settings::LANES, format!("'{v}' is none of {}, or several of them", all.join(", ")));
                    allowed = Allowed::parse(&v).ok_or_else(wrong)?;
                }
                Ok(Settings { allowed, $($(#[$when])* $room: crate::$room::Settings::read(get)?,)* })
            }
        }

        fn open(n: usize, settings: &Settings, env: &Env<'_>) -> Result<Box<dyn Transport>, OpenError> {
            $($(#[$when])* if *ALL[n] == crate::$room::ABOUT {
                return crate::$room::open(&settings.$room, env);
            })*
            unreachable!("each has its lines")
        }

        /// A lane of any transport: an enum, so that the way of a message is known when this is compiled.
        // There is one for each pair, in place: nobody gains from another hop.
        #[allow(clippy::large_enum_variant)]
        pub enum AnyLane {
            $($(#[$when])* $kind(crate::$room::$lane),)*
        }

        macro_rules! each {
            ($any:expr, $one:ident => $e:expr) => {
                match $any { $($(#[$when])* AnyLane::$kind($one) => $e,)* }
            };
        }

        impl From<NewLane> for AnyLane {
            fn from(NewLane(lane): NewLane) -> AnyLane {
                $($(#[$when])* let lane = match lane.downcast() {
                    Ok(lane) => return AnyLane::$kind(*lane),
                    Err(lane) => lane,
                };)*
                let _ = lane;
                unreachable!("each transport makes the lanes of its line")
            }
        }

        impl AnyLane {
            pub fn about(&self) -> &'static About {
                match self { $($(#[$when])* AnyLane::$kind(_) => &crate::$room::ABOUT,)* }
            }
        }
    };
}

transports! {
    Shm(ShmLane), shm;
    Tcp(TcpLane), tcp;
    #[cfg(feature = "toy")]
    Toy(ToyLane), toy;
}

impl AnyLane {
    /// The lane, if it is looked at instead of slept on.
    #[inline]
    pub fn polled(&self) -> Option<&Polled> {
        match self {
            AnyLane::Shm(lane) => Some(lane),
            _ => None,
        }
    }

    /// Becomes one more stream of this lane.
    pub fn join(&mut self, guest: Box<dyn Guest>, ack: &HelloAck, number: u16) -> bool {
        each!(self, lane => guest.join(ack, number, lane))
    }

    pub fn signs(&mut self, f: &mut dyn FnMut(u16, BorrowedFd<'_>, bool)) {
        each!(self, lane => lane.signs(f))
    }

    pub fn changed(&mut self, closing: &mut dyn FnMut(BorrowedFd<'_>)) -> bool {
        each!(self, lane => lane.changed(closing))
    }

    pub fn peer_place(&self) -> Option<Place> {
        each!(self, lane => lane.peer_place())
    }

    /// The other side's process, if we can read its memory.
    pub fn reader(&self) -> Option<Reader> {
        self.polled()?.reader()
    }

    pub fn cut_stream(&mut self, number: u16) -> bool {
        each!(self, lane => lane.cut_stream(number))
    }

    pub fn streams(&self) -> usize {
        each!(self, lane => lane.streams())
    }
}

impl<M: Memory> Lane<M> for AnyLane {
    fn caps(&self) -> Caps {
        each!(self, lane => Lane::<M>::caps(lane))
    }

    fn wants_write(&self) -> bool {
        each!(self, lane => Lane::<M>::wants_write(lane))
    }

    #[inline(always)]
    fn try_send(&mut self, mem: &M, header: &Header, payload: Payload<'_>) -> Sent {
        each!(self, lane => lane.try_send(mem, header, payload))
    }

    #[inline(always)]
    fn try_send_with(&mut self, header: &Header, fill: &mut dyn FnMut(&mut [u8])) -> Sent {
        each!(self, lane => Lane::<M>::try_send_with(lane, header, fill))
    }

    #[inline(always)]
    fn flush(&mut self, mem: &M) -> bool {
        each!(self, lane => lane.flush(mem))
    }

    #[inline(always)]
    fn poll(&mut self, sink: &mut dyn Sink, budget: usize) -> usize {
        each!(self, lane => Lane::<M>::poll(lane, sink, budget))
    }

    #[inline(always)]
    fn event(&mut self) -> Option<Event> {
        each!(self, lane => Lane::<M>::event(lane))
    }

    fn quiesce(&mut self) {
        each!(self, lane => Lane::<M>::quiesce(lane));
    }

    fn resume(&mut self) {
        each!(self, lane => Lane::<M>::resume(lane));
    }

    fn death(&self) -> Option<&Death> {
        each!(self, lane => Lane::<M>::death(lane))
    }

    fn cut(&mut self) {
        each!(self, lane => Lane::<M>::cut(lane))
    }

    fn limit_frames(&mut self, most: usize) {
        each!(self, lane => Lane::<M>::limit_frames(lane, most))
    }

    #[inline(always)]
    fn written(&self) -> u64 {
        each!(self, lane => Lane::<M>::written(lane))
    }

    fn is_open(&self) -> Option<bool> {
        each!(self, lane => Lane::<M>::is_open(lane))
    }

    fn is_read(&self) -> bool {
        each!(self, lane => Lane::<M>::is_read(lane))
    }

    fn in_kernel(&mut self) -> Option<InKernel> {
        each!(self, lane => Lane::<M>::in_kernel(lane))
    }

    #[inline(always)]
    fn waiting(&self) -> u16 {
        each!(self, lane => Lane::<M>::waiting(lane))
    }

    fn descriptors(&self) -> usize {
        each!(self, lane => Lane::<M>::descriptors(lane))
    }

    fn takes_stream(&self, number: u16) -> bool {
        each!(self, lane => Lane::<M>::takes_stream(lane, number))
    }

    fn unread(&mut self) -> Unread {
        each!(self, lane => Lane::<M>::unread(lane))
    }
}
