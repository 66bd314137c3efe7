//! What a router is made of: its connections, and what it knows of processes and other routers.

use super::super::conn::{Conn, Id};
use super::super::departed::Departed;
use super::super::into::Into;
use super::super::local::Listener;
use crate::ip::Kept;
use nix::sys::epoll::Epoll;
use nix::sys::eventfd::EventFd;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use trust::Trust;

/// How long a connection may take until it carries frames.
pub(super) const LIMIT: Duration = Duration::from_secs(5);
/// How long a channel waits for its other end: a process whose router has died comes to the new one sooner.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);
/// How often time limits are looked at, in milliseconds, while there are any.
pub(in crate::router) const TICK: u16 = 50;
/// Bytes that are read from one connection before others have their turn.
pub(super) const BUFFER: usize = 256 << 10;
/// Connections that have a turn before others may turn the router.
pub(in crate::router) const AT_ONCE: usize = 16;
/// Data that is kept for a channel whose other end is waited for: the begin of a handshake.
pub(super) const MOST_PARKED: usize = 4 << 10;
/// Connections that have not proved themselves; the oldest gives way.
pub(super) const MOST_NEW: usize = 64;
/// The most connections that are accepted at one listener before others have their turn.
pub(super) const MOST_AT_ONCE: usize = 50;
/// What is watched: a nudge, the local name, listeners; connections have their number behind [`CONNS`].
pub(in crate::router) const NUDGE: u64 = 0;
pub(super) const LOCAL: u64 = 1;
pub(super) const LISTENERS: u64 = 2;
pub(super) const CONNS: u64 = 1 << 16;

/// A router.
pub(in crate::router) struct Switch {
    pub(super) trust: Arc<Trust>,
    pub(super) local: Listener,
    pub(super) listeners: Vec<Kept>,
    pub(super) epoll: Arc<Epoll>,
    /// The process that has this router, once it has connected.
    pub(super) own: Option<OwnProcess>,
    pub(super) conns: BTreeMap<Id, Conn>,
    pub(super) last: Id,
    pub(super) processes: HashMap<[u8; 16], Id>,
    pub(super) departed: Departed,
    /// The connection to each other router that new channels go over, and those to addresses, which may not stand yet.
    pub(super) routers: HashMap<[u8; 16], Id>,
    pub(super) dials: HashMap<SocketAddr, Id>,
    /// Connections that carry no frames yet, and channels whose other end is waited for. Some of these may be over.
    pub(super) fresh: BTreeSet<Id>,
    pub(super) waiting: BTreeSet<(Id, u32)>,
    pub(super) buffer: Vec<u8>,
    /// Connections with something to be written.
    pub(super) touched: Vec<Id>,
    /// Lines at which the thread looks by itself.
    pub(super) looked_at: Vec<Id>,
    /// A connection could not be accepted. Its listener goes on telling, so the thread is to rest: others may be closed meanwhile.
    pub has_no_descriptors: bool,
}

/// What the router knows of its own process.
pub(super) struct OwnProcess {
    pub id: Id,
    /// The connections that it watches, and the bell.
    pub epoll: Arc<Epoll>,
    /// Rung while frames wait for it, or it has not been told of room.
    pub bell: EventFd,
    pub is_rung: bool,
    /// A connection takes more that took no more before.
    pub has_room: bool,
    /// It does not look at its connections any more.
    pub has_left: bool,
}

impl OwnProcess {
    pub fn ring(&mut self) {
        if !std::mem::replace(&mut self.is_rung, true) {
            // An error would mean that it is rung already.
            let _ = self.bell.write(1);
        }
    }

    /// No frames wait any more.
    pub fn silence(&mut self) {
        if self.is_rung && !self.has_room {
            self.is_rung = false;
            let _ = self.bell.read();
        }
    }
}

/// Where bytes of one channel go at once: those that come on this connection, under this number.
pub(super) struct Wanted<'a, 'b, 'c> {
    pub on: Id,
    pub number: u32,
    pub into: &'a mut Into<'b, 'c>,
}
