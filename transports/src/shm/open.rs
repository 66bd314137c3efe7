//! Shared memory as a transport: a door for processes of this host, and the board on which they leave word.

use super::dial::Dial;
use super::{Door, Own, accept};
use crate::transport::{About, Attempt, Env, Guest, OpenError, Scope, Target, Transport};
use base::protocol::transport::SHM;
use base::settings::{FAST_AFTER, FAST_MAX};
use std::any::Any;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use wire::{Hello, Place, TransportId};

pub const ABOUT: About =
    About { id: TransportId(SHM), word: "shm", title: "shared memory", scope: Scope::Host, limit: 1000 };

/// Lanes that are looked at without being told.
#[derive(Debug, Clone)]
pub struct Settings {
    /// `MPI_CONNECT_TUNE_SHM_FAST_AFTER`: after so many messages.
    pub fast_after: u32,
    /// `MPI_CONNECT_TUNE_SHM_FAST_MAX`: so many lanes.
    pub fast_max: u32,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { fast_after: 16, fast_max: 16 }
    }
}

impl Settings {
    pub fn read(get: &dyn Fn(&str) -> Option<String>) -> Result<Settings, (&'static str, String)> {
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

pub fn open(settings: &Settings, env: &Env<'_>) -> Result<Box<dyn Transport>, OpenError> {
    let opened = Own::new(env.doorbell).and_then(|own| Ok((own, Door::open(&env.process)?)));
    let (own, door) = opened.map_err(OpenError::Without)?;
    Ok(Box::new(Shm { own, door, settings: settings.clone() }))
}

/// A board, and which lanes need leave no word on it: those looked at by themselves.
pub struct Looked {
    pub board: Own,
    /// A lane that has brought something so often is one of them,
    pub after: u32,
    /// but no more than so many.
    pub most: usize,
}

struct Shm {
    own: Own,
    door: Door,
    settings: Settings,
}

impl Transport for Shm {
    /// The process number in the record is the address.
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
        Ok(Box::new(Dial::new(hello.clone(), process, key, &self.own)?))
    }

    fn board(&self) -> Option<Box<dyn Any>> {
        let Settings { fast_after, fast_max } = self.settings;
        Some(Box::new(Looked { board: self.own.clone(), after: fast_after, most: fast_max as usize }))
    }

    fn doors(&self, f: &mut dyn FnMut(u32, BorrowedFd<'_>)) {
        f(0, self.door.as_fd());
    }

    fn accept(&mut self, _door: u32) -> io::Result<Box<dyn Guest>> {
        match self.door.accept() {
            Ok(connection) => Ok(Box::new(accept::Guest::new(connection, &self.own))),
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
                base::log_seldom!(Info, "another user's process has come to our door: refused");
                Err(io::ErrorKind::ConnectionAborted.into())
            }
            Err(e) => Err(e),
        }
    }
}
