//! The list of the transports: the one place outside a transport's folder that names it.
//!
//! The node opens the [`Registry`] and drives it; the session knows of a transport only its [`About`]. A new transport needs
//! its folder, a module in `lib.rs`, and its line in `transports!`. Invariant: a lane's type is known at compile time, so that
//! no virtual call is on a message's way.

use crate::transport::{Env, Incoming, NewLane, OpenError, Transport, Watched};
use crate::{shm, tcp};
use base::{Memory, settings};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;
use trust::Trust;
use wire::frame::Header;
use wire::lane::{Body, Caps, Death, Event, Fill, InKernel, Lane, Payload, Sent, Sink, Unread};
use wire::{About, Contact, HelloAck, Place, TransportId};

/// The transports that `MPI_CONNECT_LANES` allows: one bit for each index in [`ALL`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowed(u16);

impl Allowed {
    /// All but those that are on trial: what is allowed when `MPI_CONNECT_LANES` is not set.
    pub const ALL: Allowed = {
        let (mut bits, mut n) = (0, 0);
        while n < ALL.len() {
            bits |= (!ALL[n].id.is_on_trial() as u16) << n;
            n += 1;
        }
        Allowed(bits)
    };

    /// Parses a value of `MPI_CONNECT_LANES`: one or more words of [`ALL`] with commas between. `None` if a word is unknown.
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

/// The words of all transports that are not on trial, the best first.
pub fn words() -> impl Iterator<Item = &'static str> {
    ALL.iter().filter(|about| !about.id.is_on_trial()).map(|about| about.word)
}

/// A transport of the registry.
pub struct Entry {
    /// Its identifier, its names and its reach.
    pub about: About,
    /// The open transport, or the reason why it is not used.
    pub opened: Result<Box<dyn Transport>, &'static str>,
    /// It is being taken out of use: others are not told of it any more.
    pub withdrawn: bool,
}

/// The transports of this process, the best first.
pub struct Registry {
    all: Vec<Entry>,
    /// The doorbells of the transport whose lanes are polled, if it is open.
    pub polling: Option<Polling>,
    settings: Settings,
    host: [u8; 16],
    process: [u8; 16],
}

const NOT_ALLOWED: &str = "this side's MPI_CONNECT_LANES does not allow it";
const NOT_HERE: &str = "this side cannot have it";
/// Why a transport is not used that an operator has taken out of use.
pub const TAKEN_OUT: &str = "this side has taken it out of use";

impl Registry {
    /// Opens the transports that the settings allow. A transport that others can replace is left out with a message in the log;
    /// any other failure is returned.
    pub fn open(settings: &Settings, env: &Env<'_>) -> Result<Registry, OpenError> {
        let mut registry = Registry {
            all: Vec::new(),
            polling: None,
            settings: settings.clone(),
            host: crate::host::id(),
            process: env.trust.identity().process(),
        };
        for (n, about) in ALL.iter().enumerate() {
            let opened = match settings.allowed.has(n) {
                false => Err(NOT_ALLOWED),
                true => match open(n, settings, env) {
                    Ok(transport) => {
                        if let Some(doorbells) = transport.doorbells() {
                            registry.polling = doorbells.downcast().ok().map(|polling| *polling);
                        }
                        Ok(transport)
                    }
                    Err(OpenError::Without(e)) => {
                        base::log!(Error, "no {}: {e}", about.title);
                        Err(NOT_HERE)
                    }
                    Err(OpenError::NotHere(why)) => {
                        base::log!(Debug, "no {}: {why}", about.title);
                        Err(NOT_HERE)
                    }
                    Err(e) => return Err(e),
                },
            };
            registry.all.push(Entry { about: **about, opened, withdrawn: false });
        }
        Ok(registry)
    }

    /// All transports, open or not.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.all.iter()
    }

    /// The transport with this identifier, if it is open.
    pub fn get(&mut self, id: TransportId) -> Option<&mut (dyn Transport + 'static)> {
        self.all.iter_mut().find(|e| e.about.id == id)?.opened.as_deref_mut().ok()
    }

    /// The open transports, with their indices in [`ALL`].
    pub fn opened(&self) -> impl Iterator<Item = (usize, &dyn Transport)> {
        self.all.iter().enumerate().filter_map(|(n, e)| Some((n, &**e.opened.as_ref().ok()?)))
    }

    /// A thread is about to sleep on descriptors; see [`Transport::arm`].
    pub fn arm(&self) {
        self.opened().for_each(|(_, transport)| transport.arm());
    }

    /// The transport at this index in [`ALL`], if it is open.
    pub fn at(&mut self, n: usize) -> Option<&mut (dyn Transport + 'static)> {
        self.all.get_mut(n)?.opened.as_deref_mut().ok()
    }

    /// Opens the transport at this index in [`ALL`], also if `MPI_CONNECT_LANES` does not have it. Nothing happens if it is open.
    pub fn open_again(&mut self, n: usize, env: &Env<'_>) -> Result<(), OpenError> {
        if self.all[n].opened.is_err() {
            let transport = open(n, &self.settings, env)?;
            if let Some(doorbells) = transport.doorbells() {
                self.polling = doorbells.downcast().ok().map(|polling| *polling);
            }
            self.all[n].opened = Ok(transport);
        }
        self.all[n].withdrawn = false;
        Ok(())
    }

    /// Tells others no more of the transport at this index in [`ALL`].
    pub fn withdraw(&mut self, n: usize) {
        self.all[n].withdrawn = true;
    }

    /// Closes the transport at this index in [`ALL`]. Its lanes stay.
    pub fn close_one(&mut self, n: usize) {
        self.all[n].opened = Err(TAKEN_OUT);
    }

    /// Closes all transports: nothing is dialled or accepted any more. Lanes stay.
    pub fn close(&mut self) {
        self.all.iter_mut().for_each(|e| e.opened = Err(NOT_HERE));
    }

    /// This process may be on another host now, or its host may have other addresses. Returns the number of the host.
    pub fn rebind(&mut self) -> [u8; 16] {
        self.all.iter_mut().filter_map(|e| e.opened.as_mut().ok()).for_each(|transport| transport.rebind());
        self.host = crate::host::id();
        self.host
    }

    /// This process's contact record.
    pub fn contact(&self) -> Contact {
        let told = self.all.iter().filter(|e| !e.withdrawn);
        let entries = told.filter_map(|e| Some((e.about.id, e.opened.as_ref().ok()?.entry())));
        let entries: Vec<_> = entries.collect();
        Contact::new(self.process, self.host, entries.iter().map(|(id, entry)| (*id, &entry[..])))
    }

    /// Listens at an address that a program has chosen for an MPI port, by the first transport that has IP addresses; `None`
    /// is any. Returns the addresses that are listened at, or the last error.
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

    /// Gives back what one call of [`Registry::listen_at`] returned; see [`Transport::stop_listening`].
    pub fn stop_listening(&mut self, addresses: &[SocketAddr], closing: &mut dyn FnMut(BorrowedFd<'_>)) {
        for e in &mut self.all {
            if let Ok(transport) = &mut e.opened {
                transport.stop_listening(addresses, closing);
            }
        }
    }
}

pub use shm::{Doorbells, Held};
/// A lane that is polled: it has no descriptor that tells of frames.
pub type Polled = shm::ShmLane;
pub use crate::ip::{IfaceError, PortRange, choose as listen_addresses};
pub use crate::relay::{Answer, Asked, Asking, DEFAULT_PORT, Request, Standing, Visit, Visitor};
pub use shm::Polling;
pub use shm::RemoteMemory;
pub use tcp::{Commanding, Heard, Unheard};

/// The number of bits of a doorbell bitmap. Lanes whose keys are equal modulo this number share a bit.
pub const DOORBELLS: u32 = shm::BITS;

/// The IP addresses at which a process listens, as its contact record says: what the name of an MPI port may hold.
pub fn ip_addresses(contact: &Contact) -> Vec<SocketAddr> {
    contact.entry(tcp::ABOUT.id).map(tcp::addresses).unwrap_or_default()
}

/// Begins to connect to the process of this contact record, to give it a command. `host` is this process's host number, zeros if
/// it is not known.
pub fn command(contact: &Contact, host: [u8; 16], trust: &Arc<Trust>) -> Commanding {
    let near = (host != [0; 16] && contact.host != [0; 16]).then_some(host == contact.host);
    Commanding::new(contact.process, contact.entry(tcp::ABOUT.id).unwrap_or_default(), near, trust)
}

/// The number of this host, as in contact records.
pub fn host() -> [u8; 16] {
    crate::host::id()
}

/// A contact record of a process of which no more is known than the addresses of its port; `process` is zeros if its number
/// is not known.
pub fn at_addresses(process: [u8; 16], host: [u8; 16], addresses: &[SocketAddr]) -> Contact {
    let entry = tcp::entry(addresses);
    // The process number is the address in shared memory, so a process of this host can be reached that way too.
    let near = (process != [0; 16]).then_some((shm::ABOUT.id, &[][..]));
    Contact::new(process, host, near.into_iter().chain([(tcp::ABOUT.id, &entry[..])]))
}

macro_rules! transports {
    ($($(#[$when:meta])* $kind:ident($lane:ident), $folder:ident;)*) => {
        /// What is known of each transport, the best first.
        pub const ALL: &[&About] = &[$($(#[$when])* &crate::$folder::ABOUT),*];

        /// The settings of all transports, from environment variables.
        #[derive(Debug, Clone)]
        pub struct Settings {
            /// `MPI_CONNECT_LANES`
            pub allowed: Allowed,
            $(
                #[doc = concat!("The settings of `", stringify!($folder), "`.")]
                $(#[$when])*
                pub $folder: crate::$folder::Settings,
            )*
        }

        impl Default for Settings {
            fn default() -> Settings {
                Settings { allowed: Allowed::ALL, $($(#[$when])* $folder: Default::default(),)* }
            }
        }

        impl Settings {
            /// Reads all variables by `get`, which returns the value of a variable by its name. An error is the name of a
            /// variable and what is wrong with its value.
            pub fn read(get: &dyn Fn(&str) -> Option<String>) -> Result<Settings, (&'static str, String)> {
                let mut allowed = Allowed::ALL;
                if let Some(v) = get(settings::LANES) {
                    let all: Vec<_> = ALL.iter().map(|about| about.word).collect();
                    let wrong = || (settings::LANES, format!("'{v}' is none of {}, or several of them", all.join(", ")));
                    allowed = Allowed::parse(&v).ok_or_else(wrong)?;
                }
                Ok(Settings { allowed, $($(#[$when])* $folder: crate::$folder::Settings::read(get)?,)* })
            }
        }

        fn open(n: usize, settings: &Settings, env: &Env<'_>) -> Result<Box<dyn Transport>, OpenError> {
            $($(#[$when])* if *ALL[n] == crate::$folder::ABOUT {
                return crate::$folder::open(&settings.$folder, env);
            })*
            unreachable!("each has its lines")
        }

        /// A lane of any transport: an enum, so that no virtual call is on a message's way.
        // A pair holds its lane in place: a box would add a memory access to every message.
        #[allow(clippy::large_enum_variant)]
        pub enum AnyLane {
            $(
                #[doc = concat!("A lane of `", stringify!($folder), "`.")]
                $(#[$when])*
                $kind(crate::$folder::$lane),
            )*
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
            /// What is known of the transport that made this lane.
            pub fn about(&self) -> &'static About {
                match self { $($(#[$when])* AnyLane::$kind(_) => &crate::$folder::ABOUT,)* }
            }
        }
    };
}

transports! {
    Shm(ShmLane), shm;
    Verbs(VerbsLane), verbs;
    Router(RouterLane), router;
    Tcp(TcpLane), tcp;
    Relay(RelayLane), relay;
    #[cfg(feature = "toy")]
    Toy(ToyLane), toy;
}

/// As `each`, for what is on the way of each message: one comparison leads to shared memory, and no jump by a table.
macro_rules! shm_first {
    ($any:expr, $one:ident => $e:expr) => {
        match $any {
            AnyLane::Shm($one) => $e,
            other => each!(other, $one => $e),
        }
    };
}

impl AnyLane {
    /// The lane, if it is polled.
    #[inline(always)]
    pub fn polled(&self) -> Option<&Polled> {
        match self {
            AnyLane::Shm(lane) => Some(lane),
            _ => None,
        }
    }

    /// Whether what has come is seen in the queues of a device, without a system call.
    #[inline]
    pub fn is_queue(&self) -> bool {
        matches!(self, AnyLane::Verbs(_))
    }

    /// Adds an incoming connection to this lane as its stripe `number`; see [`Incoming::join`].
    pub fn join(&mut self, incoming: Box<dyn Incoming>, ack: &HelloAck, number: u16) -> bool {
        each!(self, lane => incoming.join(ack, number, lane))
    }

    /// See [`Watched::interests`].
    pub fn interests(&mut self, f: &mut dyn FnMut(u16, BorrowedFd<'_>, bool)) {
        each!(self, lane => lane.interests(f))
    }

    /// See [`Watched::changed`].
    pub fn changed(&mut self, closing: &mut dyn FnMut(BorrowedFd<'_>)) -> bool {
        each!(self, lane => lane.changed(closing))
    }

    /// See [`Watched::peer_place`].
    pub fn peer_place(&self) -> Option<Place> {
        each!(self, lane => lane.peer_place())
    }

    /// The memory of the other side's process, if we can read it.
    pub fn remote_memory(&self) -> Option<&RemoteMemory> {
        self.polled()?.remote_memory()
    }

    /// See [`Watched::cut_stream`].
    pub fn cut_stream(&mut self, number: u16) -> bool {
        each!(self, lane => lane.cut_stream(number))
    }

    #[cfg(test)]
    pub(crate) fn is_set_up(&self) -> bool {
        each!(self, lane => lane.is_set_up())
    }

    /// See [`Watched::streams`].
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

    #[inline]
    fn try_send_with(&mut self, header: &Header, fill: &mut Fill<'_>) -> Sent {
        each!(self, lane => Lane::<M>::try_send_with(lane, header, fill))
    }

    #[inline(always)]
    fn try_send_by(&mut self, header: impl FnOnce() -> Header, mut body: impl Body) -> Sent {
        match self {
            AnyLane::Shm(lane) => Lane::<M>::try_send_by(lane, header, body),
            // Once for all others, so that what `body` does is not written out for each.
            other => Lane::<M>::try_send_with(other, &header(), &mut |at, to| body.fill(at, to)),
        }
    }

    #[inline(always)]
    fn flush(&mut self, mem: &M) -> bool {
        shm_first!(self, lane => lane.flush(mem))
    }

    fn poll(&mut self, sink: &mut dyn Sink, budget: usize) -> usize {
        each!(self, lane => Lane::<M>::poll(lane, sink, budget))
    }

    #[inline(always)]
    fn poll_to(&mut self, sink: &mut impl Sink, budget: usize) -> usize {
        match self {
            AnyLane::Shm(lane) => Lane::<M>::poll_to(lane, sink, budget),
            other => Lane::<M>::poll(other, sink, budget),
        }
    }

    #[inline(always)]
    fn is_quiet(&mut self) -> bool {
        each!(self, lane => Lane::<M>::is_quiet(lane))
    }

    #[inline(always)]
    fn event(&mut self) -> Option<Event> {
        shm_first!(self, lane => Lane::<M>::event(lane))
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

    fn round_trip(&mut self) -> Option<Duration> {
        each!(self, lane => Lane::<M>::round_trip(lane))
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
