//! TCP as a transport: it listens at the addresses that the settings choose, and dials addresses.

use super::{Accept, TcpLane, address, place};
use crate::ip::{Dial, Dialling, ListenError, Listeners, MAX_ADDRESSES, PortRange, Touch, Ways, choose};
use crate::transport::{Attempt, Env, Incoming, NewLane, OpenError, Probe, Target, Transport};
use base::settings::{IFACE, TCP_SOCKETS};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use trust::Trust;
use wire::frame::MAX_STRIPES;
use wire::{Hello, Place};

/// The settings of TCP.
#[derive(Debug, Clone)]
pub struct Settings {
    /// `MPI_CONNECT_IFACE`: the interfaces and addresses to listen on; `None` is loopback and
    /// what may lead to other hosts.
    pub iface: Option<String>,
    /// `MPI_CONNECT_PORTRANGE`: the ports to listen on; `None` is any.
    pub ports: Option<PortRange>,
    /// `MPI_CONNECT_TUNE_TCP_SOCKETS`: the number of connections of a lane that we dial.
    pub sockets: u16,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { iface: None, ports: None, sockets: 1 }
    }
}

impl Settings {
    pub(crate) fn read(get: &dyn Fn(&str) -> Option<String>) -> Result<Settings, (&'static str, String)> {
        let mut settings = Settings { iface: get(IFACE), ports: PortRange::read(get)?, ..Settings::default() };
        if let Some(v) = get(TCP_SOCKETS) {
            let sockets = v.trim().parse().ok().filter(|n| (1..=MAX_STRIPES).contains(n));
            let wrong = || (TCP_SOCKETS, format!("'{v}' is not a number from 1 to {MAX_STRIPES}"));
            settings.sockets = sockets.ok_or_else(wrong)?;
        }
        Ok(settings)
    }
}

pub(crate) fn open(settings: &Settings, env: &Env<'_>) -> Result<Box<dyn Transport>, OpenError> {
    let addresses = choose(settings.iface.as_deref()).map_err(|e| OpenError::Setting(IFACE, e.to_string()))?;
    let listeners =
        Listeners::open(&addresses, settings.ports).map_err(|e: ListenError| OpenError::System(e.to_string()))?;
    let addresses = listeners.addresses();
    base::log!(Info, "listening on {}", base::log::list(&addresses, "no address"));
    let (settings, trust) = (settings.clone(), env.trust.clone());
    Ok(Box::new(Tcp { settings, trust, listeners, addresses, extra: Vec::new(), ways: Ways::default() }))
}

struct Tcp {
    settings: Settings,
    trust: Arc<Trust>,
    listeners: Listeners,
    /// The addresses of all listeners, those of MPI ports last.
    addresses: Vec<SocketAddr>,
    extra: Vec<Extra>,
    ways: Ways,
}

/// An address that MPI ports have asked for, the number of its listener, and the number of these ports.
struct Extra {
    address: SocketAddr,
    listener: usize,
    users: usize,
}

impl Tcp {
    fn listen_at_one(&mut self, ip: IpAddr, port: Option<u16>) -> io::Result<SocketAddr> {
        let fits = |a: &SocketAddr| a.ip() == ip && port.is_none_or(|port| a.port() == port);
        if let Some(extra) = self.extra.iter_mut().find(|e| fits(&e.address)) {
            extra.users += 1;
            return Ok(extra.address);
        }
        if let Some(address) = self.addresses.iter().find(|a| fits(a)) {
            return Ok(*address);
        }
        let listener = self.listeners.add(SocketAddr::new(ip, port.unwrap_or(0)), self.settings.ports)?;
        let address = self.listeners.get(listener).expect("it was just added").local_addr()?;
        self.extra.push(Extra { address, listener, users: 1 });
        // Any process may connect there, so the address belongs in the contact record too.
        self.addresses.push(address);
        Ok(address)
    }
}

impl Transport for Tcp {
    fn entry(&self) -> Vec<u8> {
        address::entry(&self.addresses)
    }

    fn places(&mut self, target: &Target<'_>) -> Vec<Place> {
        let worked = target.worked.and_then(address::address);
        let all = address::addresses(target.entry);
        self.ways.to(&all, target.same_host, worked).into_iter().map(place).collect()
    }

    fn rebind(&mut self) {
        let Ok(addresses) = choose(self.settings.iface.as_deref()) else { return };
        let extra: Vec<_> = self.extra.iter().map(|e| e.address).collect();
        self.listeners.follow(&addresses, self.settings.ports, &extra);
        self.addresses = self.listeners.addresses();
        self.ways = Ways::default();
    }

    fn dial(&mut self, place: &Place, hello: &Hello, _key: u32) -> io::Result<Box<dyn Attempt>> {
        let address = address::address(place).ok_or(ErrorKind::InvalidInput)?;
        let dial = Dial::start(address, &self.trust, hello.clone())?;
        let sockets = self.settings.sockets;
        let make = move |dial: Dial, generation| {
            let (address, trust) = (dial.address, dial.trust.clone());
            let (link, hello) = dial.into_link().ok_or(ErrorKind::NotConnected)?;
            let mut lane = TcpLane::dialled(link, hello.source, hello.dest, generation);
            lane.dial_more(address, &trust, &Hello { generation, received: 0, moves: None, ..hello }, sockets);
            Ok(NewLane::new(lane))
        };
        Ok(Box::new(Dialling { dial, make }))
    }

    fn probe(&mut self, entry: &[u8], seen: &Place) -> Option<(Place, Box<dyn Probe>)> {
        let (address, touch) = Touch::begin(&address::addresses(entry), address::address(seen)?)?;
        Some((place(address), Box::new(touch)))
    }

    fn listeners(&self, f: &mut dyn FnMut(u32, BorrowedFd<'_>)) {
        self.listeners.fds().for_each(|(n, fd)| f(n as u32, fd));
    }

    fn accept(&mut self, listener: u32) -> io::Result<Box<dyn Incoming>> {
        Ok(Box::new(Accept::new(self.listeners.accept(listener as usize)?, &self.trust)))
    }

    fn listen_at(&mut self, ip: Option<IpAddr>, port: Option<u16>) -> io::Result<Vec<SocketAddr>> {
        let mut ips: Vec<IpAddr> = match ip {
            Some(ip) => vec![ip],
            None => self.addresses.iter().map(SocketAddr::ip).collect(),
        };
        ips.sort_unstable();
        ips.dedup();
        let mut found = Vec::new();
        let mut last = io::Error::from(ErrorKind::AddrNotAvailable);
        for ip in ips {
            match self.listen_at_one(ip, port.filter(|port| *port != 0)) {
                Ok(address) => found.push(address),
                Err(e) => last = e,
            }
        }
        if found.is_empty() { Err(last) } else { Ok(found) }
    }

    fn stop_listening(&mut self, addresses: &[SocketAddr], closing: &mut dyn FnMut(BorrowedFd<'_>)) {
        for address in addresses {
            let Some(at) = self.extra.iter().position(|e| e.address == *address) else { continue };
            self.extra[at].users -= 1;
            if self.extra[at].users > 0 {
                continue;
            }
            let Extra { listener, .. } = self.extra.swap_remove(at);
            self.addresses.retain(|a| a != address);
            self.listeners.get(listener).into_iter().for_each(|socket| closing(socket.as_fd()));
            self.listeners.close(listener);
        }
    }
}

// The addresses of all listeners fit in an entry: 23 bytes each at most.
const _: () = assert!(MAX_ADDRESSES * 23 <= wire::contact::MAX_ENTRY);
