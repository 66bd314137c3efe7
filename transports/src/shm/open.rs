//! Shared memory as a transport: a listener for processes of this host, and the doorbells that they ring.

use super::dial::Dial;
use super::{Doorbells, Listener, accept};
use crate::transport::{About, Attempt, Env, Incoming, OpenError, Scope, Target, Transport};
use base::protocol::transport::SHM;
use base::settings::{FAST_AFTER, FAST_MAX};
use std::any::Any;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use trust::Trust;
use wire::{Hello, Place, TransportId};

/// What others know of this transport.
pub const ABOUT: About =
    About { id: TransportId::registered(SHM), word: "shm", title: "shared memory", scope: Scope::Host, limit: 1000 };

/// When a lane becomes direct: the receiver polls it, and its sender sets no bit.
#[derive(Debug, Clone)]
pub struct Settings {
    /// `MPI_CONNECT_TUNE_SHM_FAST_AFTER`: after this number of polls that found input.
    pub fast_after: u32,
    /// `MPI_CONNECT_TUNE_SHM_FAST_MAX`: the most lanes that are direct at a time.
    pub fast_max: u32,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { fast_after: 16, fast_max: 16 }
    }
}

impl Settings {
    pub(crate) fn read(get: &dyn Fn(&str) -> Option<String>) -> Result<Settings, (&'static str, String)> {
        let mut settings = Settings::default();
        for (name, to) in [(FAST_AFTER, &mut settings.fast_after), (FAST_MAX, &mut settings.fast_max)] {
            if let Some(v) = get(name) {
                let wrong = |_| (name, format!("'{v}' is not a number from 0 to {}", u32::MAX));
                *to = v.trim().parse().map_err(wrong)?;
            }
        }
        Ok(settings)
    }
}

pub(crate) fn open(settings: &Settings, env: &Env<'_>) -> Result<Box<dyn Transport>, OpenError> {
    let process = env.trust.identity().process();
    let opened = Doorbells::new(env.doorbell).and_then(|own| Ok((own, Listener::open(&process)?)));
    let (own, listener) = opened.map_err(OpenError::Without)?;
    Ok(Box::new(Shm { own, listener, trust: env.trust.clone(), settings: settings.clone() }))
}

/// How the lanes of shared memory are polled.
pub struct Polling {
    /// The doorbells of this process.
    pub doorbells: Doorbells,
    /// A lane becomes direct after it has brought input this number of times.
    pub after: u32,
    /// The most lanes that are direct at a time.
    pub most: usize,
}

struct Shm {
    own: Doorbells,
    listener: Listener,
    trust: Arc<Trust>,
    settings: Settings,
}

impl Transport for Shm {
    /// Empty, since the process number in the contact record is the address.
    fn entry(&self) -> Vec<u8> {
        Vec::new()
    }

    fn places(&mut self, target: &Target<'_>) -> Vec<Place> {
        let known = target.same_host == Some(true) && target.process != [0; 16];
        let place =
            Place { transport: ABOUT.id, address: target.process.into(), host_part: 0, text: "shared memory".into() };
        known.then_some(place).into_iter().collect()
    }

    fn dial(&mut self, place: &Place, hello: &Hello, key: u32) -> io::Result<Box<dyn Attempt>> {
        let process = <[u8; 16]>::try_from(&*place.address).map_err(|_| io::ErrorKind::InvalidInput)?;
        Ok(Box::new(Dial::new(hello.clone(), process, key, &self.own, &self.trust)?))
    }

    fn doorbells(&self) -> Option<Box<dyn Any>> {
        let Settings { fast_after, fast_max } = self.settings;
        Some(Box::new(Polling { doorbells: self.own.clone(), after: fast_after, most: fast_max as usize }))
    }

    fn listeners(&self, f: &mut dyn FnMut(u32, BorrowedFd<'_>)) {
        f(0, self.listener.as_fd());
    }

    fn accept(&mut self, _listener: u32) -> io::Result<Box<dyn Incoming>> {
        match self.listener.accept() {
            Ok(connection) => Ok(Box::new(accept::Accept::new(connection, &self.own, &self.trust))),
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
                base::log_seldom!(Info, "another user's process has come to our listener: refused");
                Err(io::ErrorKind::ConnectionAborted.into())
            }
            Err(e) => Err(e),
        }
    }
}
