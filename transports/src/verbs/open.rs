//! The transport: it listens for set-ups, and dials them.

use super::READS;
use super::address::{self, parse, place, routes, unplace};
use super::fabric::Fabric;
use super::lane::{VerbsLane, Who};
use super::plugin::Plugin;
use super::setup::Setup;
use crate::ip::{Dial, Dialling, Listeners, PortRange, Socket, Touch, Ways, choose};
use crate::stream::handshake::Accepted;
use crate::transport::{Attempt, Env, Incoming, NewLane, OpenError, Probe, Said, Target, Transport};
use base::ProcId;
use base::settings::{IFACE, PORTRANGE, VERBS, VERBS_READS};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use trust::{Encrypt, Trust};
use wire::{Hello, HelloAck, Place};

/// The settings of this transport.
#[derive(Clone, Default)]
pub struct Settings {
    /// `MPI_CONNECT_VERBS`: the file of the plug-in.
    pub plugin: Option<String>,
    /// `MPI_CONNECT_TUNE_VERBS_READS`: the RDMA reads of one lane at a time.
    pub reads: Option<u8>,
    /// `MPI_CONNECT_IFACE`: where to listen for set-ups.
    pub iface: Option<String>,
    /// `MPI_CONNECT_PORTRANGE`: the ports to listen on.
    pub ports: Option<PortRange>,
    /// For tests: the device is this one.
    #[cfg(test)]
    pub table: Option<&'static base::rdma::Table>,
}

impl std::fmt::Debug for Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Settings").field("plugin", &self.plugin).finish_non_exhaustive()
    }
}

impl Settings {
    pub(crate) fn read(get: &dyn Fn(&str) -> Option<String>) -> Result<Settings, (&'static str, String)> {
        // What is wrong with the ports, the transport says that they are for first of all.
        let ports = get(PORTRANGE).and_then(|v| PortRange::parse(&v));
        let wrong = |v: &str| (VERBS_READS, format!("'{v}' is not a number from 0 to {READS}"));
        let reads = |v: String| v.trim().parse().ok().filter(|n| *n <= READS).ok_or_else(|| wrong(&v));
        Ok(Settings {
            plugin: get(VERBS),
            reads: get(VERBS_READS).map(reads).transpose()?,
            iface: get(IFACE),
            ports,
            #[cfg(test)]
            table: None,
        })
    }

    fn load(&self) -> Result<Plugin, String> {
        #[cfg(test)]
        if let Some(table) = self.table {
            return Ok(Plugin::of(table));
        }
        Plugin::load(self.plugin.as_deref())
    }
}

/// Opens it where there is a device. Most hosts have none, so no error is told of then.
pub(crate) fn open(settings: &Settings, env: &Env<'_>) -> Result<Box<dyn Transport>, OpenError> {
    if env.trust.encrypt() == Encrypt::Always {
        return Err(OpenError::NotHere("what it carries cannot be encrypted, as is demanded".into()));
    }
    let plugin = settings.load().map_err(OpenError::NotHere)?;
    let fabric = Arc::new(Fabric::new(plugin, settings.reads.unwrap_or(READS)));
    if fabric.ports().is_empty() {
        return Err(OpenError::NotHere("no port of an RDMA device is up".into()));
    }
    let addresses = choose(settings.iface.as_deref()).map_err(|e| OpenError::Setting(IFACE, e.to_string()))?;
    let listeners = Listeners::open(&addresses, settings.ports).map_err(|e| OpenError::NotHere(e.to_string()))?;
    let addresses = listeners.addresses();
    base::log!(Info, "listening for set-ups of verbs on {}", base::log::list(&addresses, "no address"));
    let (settings, trust) = (settings.clone(), env.trust.clone());
    Ok(Box::new(Verbs { settings, fabric, trust, listeners, addresses, ways: Ways::default() }))
}

struct Verbs {
    settings: Settings,
    fabric: Arc<Fabric>,
    trust: Arc<Trust>,
    listeners: Listeners,
    addresses: Vec<SocketAddr>,
    ways: Ways,
}

impl Transport for Verbs {
    fn entry(&self) -> Vec<u8> {
        address::entry(&self.fabric.ports(), &self.addresses)
    }

    fn places(&mut self, target: &Target<'_>) -> Vec<Place> {
        let (theirs, addresses) = parse(target.entry);
        let worked = target.worked.and_then(unplace);
        let turn = target.process[15].into();
        let ways = self.ways.to(&addresses, target.same_host, worked.map(|(at, _)| at));
        // Lanes to different processes begin at different ports. All addresses of one process lead to the same ports, so a
        // route over which nothing came at one of them is left out, and the next one has its turn.
        let routes = routes(&self.fabric.ports(), &theirs, turn);
        let worked = worked.map(|(_, route)| route).filter(|route| routes.contains(route));
        let is_useless = |route| ways.iter().any(|at| self.fabric.is_useless(&place(*at, route).address));
        let route = worked.into_iter().chain(routes).find(|route| !is_useless(*route));
        route.map_or_else(Vec::new, |route| ways.iter().map(|at| place(*at, route)).collect())
    }

    fn rebind(&mut self) {
        let Ok(addresses) = choose(self.settings.iface.as_deref()) else { return };
        self.listeners.follow(&addresses, self.settings.ports, &[]);
        self.addresses = self.listeners.addresses();
        self.ways = Ways::default();
        self.fabric.look_again();
    }

    fn dial(&mut self, place: &Place, hello: &Hello, _key: u32) -> io::Result<Box<dyn Attempt>> {
        let (address, route) = unplace(place).ok_or(ErrorKind::InvalidInput)?;
        let dial = Dial::start(address, &self.trust, hello.clone())?;
        let (place, fabric) = (place.clone(), self.fabric.clone());
        let make = move |dial: Dial, generation| {
            let (link, hello) = dial.into_link().ok_or(ErrorKind::NotConnected)?;
            let setup = Setup::dialled(&fabric, route);
            let who = Who { local: hello.source, remote: hello.dest, generation, dialled: true };
            Ok(NewLane::new(VerbsLane::new(link, setup, &fabric, Some(place), &who)))
        };
        Ok(Box::new(Dialling { dial, make }))
    }

    fn probe(&mut self, entry: &[u8], seen: &Place) -> Option<(Place, Box<dyn Probe>)> {
        let (seen, route) = unplace(seen)?;
        let (at, touch) = Touch::begin(&parse(entry).1, seen)?;
        Some((place(at, route), Box::new(touch)))
    }

    fn listeners(&self, f: &mut dyn FnMut(u32, BorrowedFd<'_>)) {
        self.listeners.fds().for_each(|(n, fd)| f(n as u32, fd));
    }

    fn accept(&mut self, listener: u32) -> io::Result<Box<dyn Incoming>> {
        let socket = self.listeners.accept(listener as usize)?;
        let near = socket.is_near();
        let accepted = Accepted::begin(socket, &self.trust, near);
        Ok(Box::new(Answering { accepted, fabric: self.fabric.clone() }))
    }
}

/// An accepted connection whose HELLO is awaited.
struct Answering {
    accepted: Accepted<Socket>,
    fabric: Arc<Fabric>,
}

impl Answering {
    /// The port by which it will come is not known yet.
    fn place(&self) -> Option<Place> {
        self.accepted.stream().peer().map(|address| place(address, (0, 0)))
    }
}

impl Incoming for Answering {
    fn fd(&self) -> BorrowedFd<'_> {
        self.accepted.stream().as_fd()
    }

    fn step(&mut self) -> Said {
        let from = self.accepted.stream().peer();
        self.accepted.step(&|| from.map_or("an address that is not known".into(), |from| from.to_string()))
    }

    fn is_answered(&self) -> bool {
        self.accepted.is_answered()
    }

    fn has_hung_up(&self) -> bool {
        self.accepted.stream().is_closed()
    }

    fn from(&self) -> Option<Place> {
        self.place()
    }

    fn refuse(&mut self, ack: &HelloAck) {
        let _ = self.accepted.answer(ack);
    }

    fn answer(&mut self, ack: &HelloAck, _key: u32) -> io::Result<bool> {
        self.accepted.answer(ack).map(|()| true)
    }

    fn finish(self: Box<Self>, local: ProcId, remote: ProcId, generation: u16) -> io::Result<NewLane> {
        let place = self.place();
        let Answering { accepted, fabric } = *self;
        let setup = Setup::answered(&fabric);
        let who = Who { local, remote, generation, dialled: false };
        Ok(NewLane::new(VerbsLane::new(accepted.into_link(), setup, &fabric, place, &who)))
    }
}

// The longest entry: eight ports, and addresses of 23 bytes.
const _: () = {
    use base::protocol::rdma::{MAX_PORTS, port};
    assert!(1 + MAX_PORTS * port::BYTES + crate::ip::MAX_ADDRESSES * 23 <= wire::contact::MAX_ENTRY);
};
