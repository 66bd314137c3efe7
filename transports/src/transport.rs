//! The traits that a transport implements.
//!
//! Each folder beside this file implements them; the [registry](crate::registry) opens the transports and hands them to the
//! node. Invariant: nothing here or below blocks. What is not there yet is said by [`io::ErrorKind::WouldBlock`] or by a
//! variant of its own, and the node comes back when a descriptor is ready.

use crate::control::ControlStream;
use base::ProcId;
use std::any::Any;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use trust::Trust;
pub use wire::{About, Scope};
use wire::{Hello, HelloAck, Place};

/// The process that is to be dialled, as far as a transport needs to know it.
#[derive(Debug, Clone, Copy)]
pub struct Target<'a> {
    /// This transport's entry in the process's contact record.
    pub entry: &'a [u8],
    /// The process number; zeros if it is not known.
    pub process: [u8; 16],
    /// Whether it runs on this host; `None` if that is not known.
    pub same_host: Option<bool>,
    /// The place at which it answered last.
    pub worked: Option<&'a Place>,
}

/// One transport of this process, open.
pub trait Transport: Send {
    /// This transport's entry in our contact record: what others need to dial this process, at most
    /// [`wire::contact::MAX_ENTRY`] bytes.
    fn entry(&self) -> Vec<u8>;
    /// The places at which a process can be dialled from here, the best first. Empty if it cannot be reached this way.
    fn places(&mut self, target: &Target<'_>) -> Vec<Place>;
    /// The addresses of this host may be others than before: listens where the settings say now, and no longer where it cannot.
    fn rebind(&mut self) {}
    /// Begins to dial. `key` is a number of the pair, below 2^32; a transport with doorbells has the other side ring the bell
    /// of this number.
    fn dial(&mut self, place: &Place, hello: &Hello, key: u32) -> io::Result<Box<dyn Attempt>>;
    /// Begins to connect to the process of this entry, at its address on the host where a lane of its has come from (`seen`),
    /// to learn whether a firewall lets connections of ours through. `None` if the entry has no such address, or if nothing
    /// can be learnt.
    fn probe(&mut self, _entry: &[u8], _seen: &Place) -> Option<(Place, Box<dyn Probe>)> {
        None
    }
    /// Calls `f` with the number and the descriptor of every listener.
    fn listeners(&self, f: &mut dyn FnMut(u32, BorrowedFd<'_>));
    /// Whether there is something to be accepted, or read, of which no descriptor may tell as long as this is asked again and again; `silence`:
    /// no thread sleeps on descriptors.
    fn has_news(&self, _silence: bool) -> bool {
        false
    }
    /// A thread is about to sleep on descriptors: they tell of everything from now on, and of what is there already.
    fn arm(&self) {}
    /// Accepts a connection at the listener of this number. `WouldBlock` if none waits.
    fn accept(&mut self, listener: u32) -> io::Result<Box<dyn Incoming>>;
    /// Listens at this address and port too, for an MPI port that a program wants at a place of its own; `None` is any.
    /// Returns the addresses that are listened at, or `Unsupported` if the transport has no IP addresses.
    fn listen_at(&mut self, _ip: Option<IpAddr>, _port: Option<u16>) -> io::Result<Vec<SocketAddr>> {
        Err(io::ErrorKind::Unsupported.into())
    }
    /// The doorbells of a transport whose lanes are polled: a [`Polling`](crate::registry::Polling) in a box.
    fn doorbells(&self) -> Option<Box<dyn Any>> {
        None
    }
    /// Gives back what one call of [`Transport::listen_at`] returned. An address that no other call has asked for is closed;
    /// `closing` sees its descriptor before.
    fn stop_listening(&mut self, _addresses: &[SocketAddr], _closing: &mut dyn FnMut(BorrowedFd<'_>)) {}
}

/// A lane as its transport has made it. The registry makes an [`AnyLane`](crate::registry::AnyLane) of it.
pub struct NewLane(pub Box<dyn Any>);

impl NewLane {
    pub(crate) fn new(lane: impl Any) -> NewLane {
        NewLane(Box::new(lane))
    }
}

/// How far an [`Attempt`] has come.
pub enum Step {
    /// There is no answer yet.
    NotYet,
    /// Its HELLO-ACK is whole.
    Answered(HelloAck),
    /// The attempt is over, for this reason of our kernel's or the other side's.
    Failed(io::Error),
}

impl Step {
    /// What it is that trying for the answer has led to.
    pub(crate) fn of(tried: io::Result<HelloAck>) -> Step {
        match tried {
            Ok(ack) => Step::Answered(ack),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Step::NotYet,
            Err(e) => Step::Failed(e),
        }
    }
}

/// One place that is being dialled.
pub trait Attempt: Send {
    /// The descriptor to be watched for reading, and whether for writing too. `None` if only time can help.
    fn fd(&self) -> Option<(BorrowedFd<'_>, bool)>;
    /// Goes on as far as it can without waiting.
    fn step(&mut self) -> Step;
    /// Whether the greeting has been sent.
    fn is_greeted(&self) -> bool;
    /// Whether the other host has acknowledged all that was sent to it.
    fn is_heard(&self) -> bool {
        true
    }
    /// Makes a lane of this generation, after a good answer.
    fn finish(self: Box<Self>, generation: u16) -> io::Result<NewLane>;
}

/// A connection that only shows whether a host can be reached.
pub trait Probe: Send {
    /// The descriptor to be watched for writing.
    fn fd(&self) -> BorrowedFd<'_>;
    /// Whether the connection stands. `WouldBlock` if that is not known yet.
    fn result(&self) -> io::Result<()>;
}

/// What an [`Incoming`] connection has brought.
pub enum Said {
    /// Nothing that is whole yet.
    Nothing,
    /// A HELLO, which is to be answered or refused.
    Hello(Box<Hello>),
    /// After a good answer: the other side has its end of the lane.
    Ready,
    /// The other side has proved a key of the user, and has a command: see [`Incoming::into_control`].
    Control,
    /// Something that cannot be answered, or the end of the connection. It is to be dropped.
    Foreign,
}

/// An accepted connection that is no lane yet.
pub trait Incoming: Send {
    /// The descriptor to be watched for reading.
    fn fd(&self) -> BorrowedFd<'_>;
    /// Reads what is there.
    fn step(&mut self) -> Said;
    /// Whether the other side has known the key, or repeats who has: its handshake was answered.
    fn is_answered(&self) -> bool;
    /// Whether the other side has closed the connection.
    fn has_hung_up(&self) -> bool;
    /// The place where it comes from; `None` if that is this host.
    fn from(&self) -> Option<Place>;
    /// Sends an answer that is not good. Errors are ignored, since the connection is dropped next.
    fn refuse(&mut self, ack: &HelloAck);
    /// Sends a good answer; `key` as for [`Transport::dial`]. Returns whether the lane can be made at once. If not,
    /// [`Said::Ready`] says when.
    fn answer(&mut self, ack: &HelloAck, key: u32) -> io::Result<bool>;
    /// Makes the lane between these two processes, of the generation that was answered.
    fn finish(self: Box<Self>, local: ProcId, remote: ProcId, generation: u16) -> io::Result<NewLane>;
    /// The connection of who has a command, after [`Said::Control`].
    fn into_control(self: Box<Self>) -> Option<ControlStream> {
        None
    }
    /// Answers, and becomes the stripe `number` of a lane that stands. Returns false, and drops the connection, if `lane` is
    /// not of this transport or the answer cannot be sent.
    fn join(self: Box<Self>, _ack: &HelloAck, _number: u16, _lane: &mut dyn Any) -> bool {
        false
    }
}

/// What every transport's lane is besides a [`Lane`](wire::lane::Lane): the descriptors that the node watches for it, and the
/// place to which it leads.
pub trait Watched {
    /// Calls `f` with each descriptor that is to be watched: its number, below 16, and whether for writing too.
    fn interests(&mut self, f: &mut dyn FnMut(u16, BorrowedFd<'_>, bool));
    /// Whether the set of descriptors has changed since the last call; `closing` sees each descriptor that is about to be
    /// closed.
    fn changed(&mut self, _closing: &mut dyn FnMut(BorrowedFd<'_>)) -> bool {
        false
    }
    /// The place of the other end; `None` if it is on this host.
    fn peer_place(&self) -> Option<Place> {
        None
    }
    /// For tests: cuts the stripe of this number. Returns whether there is one.
    fn cut_stream(&mut self, _number: u16) -> bool {
        false
    }
    /// For tests: whether all is arranged that the two ends arrange once the lane stands.
    #[cfg(test)]
    fn is_set_up(&self) -> bool {
        true
    }
    /// For tests: how many stripes it has; 0 if it has no streams.
    fn streams(&self) -> usize {
        0
    }
}

/// Why an allowed transport could not be opened.
#[derive(Debug)]
pub enum OpenError {
    /// A setting makes no sense: the name of its variable, and what is wrong with the value.
    Setting(&'static str, String),
    /// The system refused something without which this process cannot be reached. It should not go on.
    System(String),
    /// The system refused something, and other transports can do without this one.
    Without(io::Error),
    /// This host has nothing that it would use, as most hosts: the reason.
    NotHere(String),
}

/// What a transport needs to open besides its settings.
pub struct Env<'a> {
    /// What this process trusts and proves; its process number too.
    pub trust: &'a Arc<Trust>,
    /// An eventfd that ends the sleep of this process when it is written to.
    pub doorbell: BorrowedFd<'a>,
}
