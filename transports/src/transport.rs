//! What a transport is.
//!
//! Each folder beside this file implements these traits; the [registry](crate::registry) opens the transports and hands them to
//! the node. Invariant: nothing here or below blocks.

use base::ProcId;
use std::any::Any;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::BorrowedFd;
pub use wire::{About, Scope};
use wire::{Hello, HelloAck, Place};

/// Whom to dial, as far as a transport needs to know.
#[derive(Debug, Clone, Copy)]
pub struct Target<'a> {
    pub entry: &'a [u8],
    pub process: [u8; 16],
    /// `None`: nobody knows.
    pub same_host: Option<bool>,
    /// Where it answered last.
    pub worked: Option<&'a Place>,
}

/// One transport of this process, open.
pub trait Transport: Send {
    /// What others need to know to dial this process, at most [`wire::contact::MAX_ENTRY`] bytes.
    fn entry(&self) -> Vec<u8>;
    /// Where this process is, for people.
    fn own_places(&self) -> Vec<Place> {
        Vec::new()
    }
    /// At which places a process can be dialled from here, the best first.
    fn places(&mut self, target: &Target<'_>) -> Vec<Place>;
    /// Begins to dial. `key`: a number of the pair's, below 2^32, that the other side may use to leave word.
    fn dial(&mut self, place: &Place, hello: &Hello, key: u32) -> io::Result<Box<dyn Attempt>>;
    /// A connection to the place of this entry's process that lies on the host where a lane of its has come from: whether one
    /// gets through to that host. `None`: there is no such place, or nothing to be learnt.
    fn probe(&mut self, _entry: &[u8], _seen: &Place) -> Option<(Place, Box<dyn Probe>)> {
        None
    }
    /// Calls `f` with every descriptor to which others come, and its number.
    fn doors(&self, f: &mut dyn FnMut(u32, BorrowedFd<'_>));
    /// Who waits at this door. `WouldBlock`: nobody.
    fn accept(&mut self, door: u32) -> io::Result<Box<dyn Guest>>;
    /// Listens at this address and port too, where `None` is any: for ports that a program wants at a place of its own.
    fn listen_at(&mut self, _ip: Option<IpAddr>, _port: Option<u16>) -> io::Result<Vec<SocketAddr>> {
        Err(io::ErrorKind::Unsupported.into())
    }
    /// The board of a transport whose lanes are looked at instead of slept on; the registry knows its type.
    fn board(&self) -> Option<Box<dyn Any>> {
        None
    }
    /// These are not needed any more by one of those who asked; `closing` sees each descriptor before it is closed.
    fn stop_listening(&mut self, _addresses: &[SocketAddr], _closing: &mut dyn FnMut(BorrowedFd<'_>)) {}
}

/// A lane as its transport has made it; the registry knows its type.
pub struct NewLane(pub Box<dyn Any>);

impl NewLane {
    pub fn new(lane: impl Any) -> NewLane {
        NewLane(Box::new(lane))
    }
}

/// How far one that was dialled has come.
pub enum Step {
    NotYet,
    /// Its HELLO-ACK is whole.
    Answered(HelloAck),
    /// What the system, or the other side's kernel, said.
    Failed(io::Error),
}

/// One place being dialled.
pub trait Attempt: Send {
    /// To be watched for reading, and for writing if so.
    fn fd(&self) -> Option<(BorrowedFd<'_>, bool)>;
    fn step(&mut self) -> Step;
    /// Whether the HELLO has left.
    fn is_greeted(&self) -> bool;
    /// Whether the other side's host has given a sign since it was last told something.
    fn is_heard(&self) -> bool {
        true
    }
    /// After a good answer: a lane of this generation.
    fn finish(self: Box<Self>, generation: u16) -> io::Result<NewLane>;
}

/// A connection that shows whether one gets through.
pub trait Probe: Send {
    fn fd(&self) -> BorrowedFd<'_>;
    /// `WouldBlock`: not known yet.
    fn result(&self) -> io::Result<()>;
}

/// What one who has come does next.
pub enum Said {
    Nothing,
    Hello(Box<Hello>),
    /// It was answered, and its end of the lane is up.
    Ready,
    /// Nothing that could be answered, or gone: to be closed.
    Foreign,
}

/// One who has come and has no lane yet.
pub trait Guest: Send {
    fn fd(&self) -> BorrowedFd<'_>;
    fn step(&mut self) -> Said;
    /// Whether the other side has given up.
    fn has_hung_up(&self) -> bool;
    /// Where it has come from; `None`: from this host.
    fn from(&self) -> Option<Place>;
    /// Says no. One that does not take the answer is of no use anyway.
    fn refuse(&mut self, ack: &HelloAck);
    /// Says yes; `key` as for [`Transport::dial`]. Whether the lane can be made at once; if not, [`Said::Ready`] tells when.
    fn answer(&mut self, ack: &HelloAck, key: u32) -> io::Result<bool>;
    /// The lane between these two, answered with this generation.
    fn finish(self: Box<Self>, local: ProcId, remote: ProcId, generation: u16) -> io::Result<NewLane>;
    /// Answers, and becomes one more stream of a lane that stands, if `lane` is one of this transport's.
    fn join(self: Box<Self>, _ack: &HelloAck, _number: u16, _lane: &mut dyn Any) -> bool {
        false
    }
}

/// What the lane of a transport is besides a [`Lane`]: what tells of it, and where it leads.
pub trait Watched {
    /// Calls `f` with what is to be watched: numbers below 16, descriptors, and whether for writing too.
    fn signs(&mut self, f: &mut dyn FnMut(u16, BorrowedFd<'_>, bool));
    /// Whether what is to be watched has changed since this was last asked; `closing` sees each descriptor that is about to
    /// be closed.
    fn changed(&mut self, _closing: &mut dyn FnMut(BorrowedFd<'_>)) -> bool {
        false
    }
    /// Where its other end is; `None`: on this host.
    fn peer_place(&self) -> Option<Place> {
        None
    }
    /// For tests: cuts one of its streams, if it is there.
    fn cut_stream(&mut self, _number: u16) -> bool {
        false
    }
    /// For tests: how many streams it has.
    fn streams(&self) -> usize {
        0
    }
}

/// Why a transport cannot be had though it is allowed.
#[derive(Debug)]
pub enum OpenError {
    /// A setting that makes no sense: which, and why.
    Setting(&'static str, String),
    /// Without it this process should not go on.
    System(String),
    /// Others do in its place.
    Without(io::Error),
}

/// What opening needs besides the settings.
pub struct Env<'a> {
    pub process: [u8; 16],
    /// An eventfd that ends the sleep of this process.
    pub doorbell: BorrowedFd<'a>,
}
