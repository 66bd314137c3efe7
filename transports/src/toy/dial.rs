//! The transport, and both sides of its handshake.

use super::{Listener, Pipes, connect};
use crate::stream::StreamLane;
use crate::stream::greeting::{self, Greeting};
use crate::transport::{About, Attempt, Env, Incoming, NewLane, OpenError, Said, Scope, Step, Target, Transport};
use base::ProcId;
use base::protocol::transport::TOY;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};
use wire::hello::HelloError;
use wire::{Hello, HelloAck, Place, TransportId};

/// What others know of this transport.
pub const ABOUT: About =
    About { id: TransportId::registered(TOY), word: "toy", title: "pipes", scope: Scope::Host, limit: 1000 };

/// This transport has no settings.
#[derive(Debug, Clone, Default)]
pub struct Settings;

impl Settings {
    pub(crate) fn read(_: &dyn Fn(&str) -> Option<String>) -> Result<Settings, (&'static str, String)> {
        Ok(Settings)
    }
}

pub(crate) fn open(_: &Settings, env: &Env<'_>) -> Result<Box<dyn Transport>, OpenError> {
    Ok(Box::new(Toy(Listener::open(env.process).map_err(OpenError::Without)?)))
}

struct Toy(Listener);

impl Transport for Toy {
    /// Empty, since the process number in the contact record is the address.
    fn entry(&self) -> Vec<u8> {
        Vec::new()
    }

    fn places(&mut self, target: &Target<'_>) -> Vec<Place> {
        let address = target.process.into();
        let place = Place { transport: ABOUT.id, address, host_part: 0, text: "pipes".into() };
        (target.same_host == Some(true)).then_some(place).into_iter().collect()
    }

    fn dial(&mut self, place: &Place, hello: &Hello, _key: u32) -> io::Result<Box<dyn Attempt>> {
        let mut pipes = connect(&place.address)?;
        greeting::say(&mut pipes, &hello.encode())?;
        Ok(Box::new(Dial { pipes, heard: Greeting::default() }))
    }

    fn listeners(&self, f: &mut dyn FnMut(u32, BorrowedFd<'_>)) {
        f(0, self.0.as_fd());
    }

    fn accept(&mut self, _listener: u32) -> io::Result<Box<dyn Incoming>> {
        Ok(Box::new(Accept { pipes: self.0.accept()?, heard: Greeting::default() }))
    }
}

struct Dial {
    pipes: Pipes,
    heard: Greeting,
}

impl Attempt for Dial {
    fn fd(&self) -> Option<(BorrowedFd<'_>, bool)> {
        Some((self.pipes.as_fd(), false))
    }

    fn step(&mut self) -> Step {
        match self.heard.ack(&mut self.pipes) {
            Ok(ack) => Step::Answered(ack),
            Err(e) if e.kind() == ErrorKind::WouldBlock => Step::NotYet,
            Err(e) => Step::Failed(e),
        }
    }

    fn is_greeted(&self) -> bool {
        true
    }

    fn finish(self: Box<Self>, _generation: u16) -> io::Result<NewLane> {
        Ok(NewLane::new(StreamLane::new(self.pipes)))
    }
}

struct Accept {
    pipes: Pipes,
    heard: Greeting,
}

impl Incoming for Accept {
    fn fd(&self) -> BorrowedFd<'_> {
        self.pipes.as_fd()
    }

    fn step(&mut self) -> Said {
        match self.heard.hello(&mut self.pipes) {
            Ok(Ok(hello)) => Said::Hello(Box::new(hello)),
            Err(e) if e.kind() == ErrorKind::WouldBlock => Said::Nothing,
            Ok(Err(HelloError::OtherVersion)) => {
                self.refuse(&HelloAck::other_version());
                Said::Foreign
            }
            Ok(Err(HelloError::Foreign)) | Err(_) => Said::Foreign,
        }
    }

    fn has_hung_up(&self) -> bool {
        self.pipes.is_closed()
    }

    fn from(&self) -> Option<Place> {
        None
    }

    fn refuse(&mut self, ack: &HelloAck) {
        let _ = greeting::say(&mut self.pipes, &ack.encode());
    }

    fn answer(&mut self, ack: &HelloAck, _key: u32) -> io::Result<bool> {
        greeting::say(&mut self.pipes, &ack.encode()).map(|()| true)
    }

    fn finish(self: Box<Self>, _: ProcId, _: ProcId, _generation: u16) -> io::Result<NewLane> {
        Ok(NewLane::new(StreamLane::new(self.pipes)))
    }
}
