//! The transport, and both sides of its handshake.

use super::{Listener, Pipes, connect};
use crate::stream::StreamLane;
use crate::stream::handshake::{Accepted, Dialled};
use crate::transport::{About, Attempt, Env, Incoming, NewLane, OpenError, Said, Scope, Step, Target, Transport};
use base::ProcId;
use base::protocol::transport::TOY;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use trust::Trust;
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
    let listener = Listener::open(env.trust.identity().process()).map_err(OpenError::Without)?;
    Ok(Box::new(Toy { listener, trust: env.trust.clone() }))
}

struct Toy {
    listener: Listener,
    trust: Arc<Trust>,
}

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
        let dialled = Dialled::begin(connect(&place.address)?, &self.trust, true, hello.clone())?;
        Ok(Box::new(Dial(dialled)))
    }

    fn listeners(&self, f: &mut dyn FnMut(u32, BorrowedFd<'_>)) {
        f(0, self.listener.as_fd());
    }

    fn accept(&mut self, _listener: u32) -> io::Result<Box<dyn Incoming>> {
        Ok(Box::new(Accept(Accepted::begin(self.listener.accept()?, &self.trust, true))))
    }
}

struct Dial(Dialled<Pipes>);

impl Attempt for Dial {
    fn fd(&self) -> Option<(BorrowedFd<'_>, bool)> {
        Some((self.0.stream().as_fd(), false))
    }

    fn step(&mut self) -> Step {
        Step::of(self.0.talk())
    }

    fn is_greeted(&self) -> bool {
        true
    }

    fn finish(self: Box<Self>, _generation: u16) -> io::Result<NewLane> {
        Ok(NewLane::new(StreamLane::new(self.0.into_parts().0)))
    }
}

struct Accept(Accepted<Pipes>);

impl Incoming for Accept {
    fn fd(&self) -> BorrowedFd<'_> {
        self.0.stream().as_fd()
    }

    fn step(&mut self) -> Said {
        self.0.step(&|| "this process".into())
    }

    fn is_answered(&self) -> bool {
        self.0.is_answered()
    }

    fn has_hung_up(&self) -> bool {
        self.0.stream().is_closed()
    }

    fn from(&self) -> Option<Place> {
        None
    }

    fn refuse(&mut self, ack: &HelloAck) {
        let _ = self.0.answer(ack);
    }

    fn answer(&mut self, ack: &HelloAck, _key: u32) -> io::Result<bool> {
        self.0.answer(ack).map(|()| true)
    }

    fn finish(self: Box<Self>, _: ProcId, _: ProcId, _generation: u16) -> io::Result<NewLane> {
        Ok(NewLane::new(StreamLane::new(self.0.into_link())))
    }
}
