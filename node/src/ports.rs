//! Ports: places to which strangers may come, and where the process listens for them.
//!
//! Part of the core. Invariant: what a caller leaves behind ends with it, and an address that was opened for a port is
//! listened at as long as some port needs it.

use crate::core::{Core, Known};
use crate::watch::Owner;
use crate::{Group, PathRef};
use base::ProcId;
use engine::Gone;
use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};

/// An address that some ports have asked for, the number of its listener, and how many ports.
pub(crate) struct Extra {
    address: SocketAddr,
    listener: usize,
    users: usize,
}

impl Core {
    pub(crate) fn add_port(&mut self, port: ProcId, cookie: [u8; 16]) {
        let group = Group { incarnation: port.incarnation, cookie, rank: port.rank, size: 1 };
        let callers = Some(VecDeque::new());
        self.groups.insert(group.incarnation, Known { group, removed: false, callers, pairs: 0 });
    }

    /// The next one who has come to a port.
    pub fn next_caller(&mut self, port: ProcId) -> Option<PathRef> {
        self.groups.get_mut(&port.incarnation)?.callers.as_mut()?.pop_front()
    }

    /// Whoever refuses at that leader's addresses is believed to know that it is not there.
    pub(crate) fn believe_refusals(&mut self, path: PathRef) {
        if let Some(i) = self.of_path(path) {
            self.pairs[i].believes_refusals = true;
        }
    }

    /// Has nothing more to do with whoever came on this path.
    pub fn send_away(&mut self, path: PathRef) {
        if let Some(i) = self.of_path(path) {
            self.bury(i, Gone::Dead, "it does not keep to the protocol");
        }
    }

    /// Nothing can carry messages to that leader, as both are set: nobody waits for it any more.
    pub fn give_up(&mut self, path: PathRef) {
        if let Some(i) = self.of_path(path) {
            self.bury(i, Gone::Dead, "nothing can carry messages between the two");
        }
    }

    /// Listens at this address and this port too, where `None` is each address where it listens already, and any port, until
    /// each who asked has said [`Core::stop_listening`]. The addresses.
    pub(crate) fn listen_at(&mut self, ip: Option<IpAddr>, port: Option<u16>) -> io::Result<Vec<SocketAddr>> {
        let mut ips: Vec<IpAddr> = match ip {
            Some(ip) => vec![ip],
            None => self.contact.addresses.iter().map(SocketAddr::ip).collect(),
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

    fn listen_at_one(&mut self, ip: IpAddr, port: Option<u16>) -> io::Result<SocketAddr> {
        let fits = |a: &SocketAddr| a.ip() == ip && port.is_none_or(|port| a.port() == port);
        if let Some(extra) = self.extra.iter_mut().find(|e| fits(&e.address)) {
            extra.users += 1;
            return Ok(extra.address);
        }
        if let Some(address) = self.contact.addresses.iter().find(|a| fits(a)) {
            return Ok(*address);
        }
        let Some(listeners) = &mut self.listeners else { return Err(ErrorKind::NotConnected.into()) };
        let listener = listeners.add(SocketAddr::new(ip, port.unwrap_or(0)), self.ports)?;
        let socket = listeners.get(listener).expect("it was just added");
        let address = socket.local_addr()?;
        self.watch.set(socket, Owner::Listener(listener as u32), false);
        self.extra.push(Extra { address, listener, users: 1 });
        // Others who join may come there too.
        self.contact.addresses.push(address);
        Ok(address)
    }

    /// These are not needed any more by one of those who asked for them.
    pub(crate) fn stop_listening(&mut self, addresses: &[SocketAddr]) {
        for address in addresses {
            let Some(at) = self.extra.iter().position(|e| e.address == *address) else { continue };
            self.extra[at].users -= 1;
            if self.extra[at].users > 0 {
                continue;
            }
            let Extra { listener, .. } = self.extra.swap_remove(at);
            self.contact.addresses.retain(|a| a != address);
            if let Some(listeners) = &mut self.listeners {
                listeners.get(listener).into_iter().for_each(|socket| self.watch.unset(socket));
                listeners.close(listener);
            }
        }
    }
}
