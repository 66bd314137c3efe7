//! The transport: it waits at relays, and dials through them.

use super::accept::Accept;
use super::address::{self, Named, parse, place, unplace};
use super::dial::Dial;
use super::posts::Posts;
use crate::transport::{Attempt, Env, Incoming, OpenError, Target, Transport};
use base::protocol::relay::MAX_RELAYS;
use base::settings::RELAY;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use trust::Trust;
use wire::{Hello, Place};

/// The settings of this transport.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// `MPI_CONNECT_RELAY`: the relays; `None`: none.
    pub relays: Option<String>,
}

impl Settings {
    pub(crate) fn read(get: &dyn Fn(&str) -> Option<String>) -> Result<Settings, (&'static str, String)> {
        Ok(Settings { relays: get(RELAY) })
    }
}

/// Opens it where the user has named relays.
pub(crate) fn open(settings: &Settings, env: &Env<'_>) -> Result<Box<dyn Transport>, OpenError> {
    let Some(value) = &settings.relays else { return Err(OpenError::NotHere(format!("{RELAY} is not set"))) };
    let named = parse(value).map_err(|why| OpenError::Setting(RELAY, why))?;
    let relays: Vec<SocketAddr> = named.iter().flat_map(|one: &Named| one.addresses.clone()).take(MAX_RELAYS).collect();
    let posts = Posts::open(named, env.trust).map_err(OpenError::Without)?;
    Ok(Box::new(Relays { trust: env.trust.clone(), relays, posts }))
}

struct Relays {
    trust: Arc<Trust>,
    /// The addresses of all relays.
    relays: Vec<SocketAddr>,
    posts: Posts,
}

impl Transport for Relays {
    fn entry(&self) -> Vec<u8> {
        address::entry(&self.relays)
    }

    /// Through this side's own relays first: the other side's may be known here by other addresses.
    fn places(&mut self, target: &Target<'_>) -> Vec<Place> {
        if target.process == [0; 16] {
            return Vec::new();
        }
        let (mut standing, mut others) = self.posts.addresses();
        others.extend(address::relays(target.entry));
        standing.extend(others);
        let mut seen = Vec::new();
        standing.retain(|relay| {
            !seen.contains(relay) && {
                seen.push(*relay);
                true
            }
        });
        standing.into_iter().map(|relay| place(relay, &target.process)).collect()
    }

    fn rebind(&mut self) {
        self.posts.begin_again();
    }

    fn dial(&mut self, place: &Place, hello: &Hello, _key: u32) -> io::Result<Box<dyn Attempt>> {
        let (relay, process) = unplace(place).ok_or(ErrorKind::InvalidInput)?;
        Ok(Box::new(Dial::begin(relay, process, &self.trust, hello.clone())?))
    }

    fn listeners(&self, f: &mut dyn FnMut(u32, BorrowedFd<'_>)) {
        f(0, self.posts.fd());
    }

    fn accept(&mut self, _listener: u32) -> io::Result<Box<dyn Incoming>> {
        let socket = self.posts.step().ok_or(ErrorKind::WouldBlock)?;
        Ok(Box::new(Accept::new(socket, &self.trust)))
    }
}
