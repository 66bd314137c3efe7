//! The data of a session. The files here hold it and answer small questions; other files act on it.

pub mod agenda;
pub mod dials;
pub mod directory;
pub mod evidence;
pub mod figures;
pub mod groups;
pub mod hold;
pub mod hosts;
pub mod incoming;
pub mod inters;
pub mod life;
pub mod lossy;
pub mod moves;
pub mod pair;
pub mod pairs;
pub mod race;
pub mod talk;
pub mod wanted;

use crate::action::Action;
use crate::path::Limits;
#[cfg(feature = "plant")]
use crate::plant::Plant;
use agenda::Agenda;
use base::Memory;
use dials::Dials;
use directory::Ranges;
use engine::Engine;
use figures::Tally;
use groups::Groups;
use hold::Holding;
use hosts::Hosts;
use incoming::Handshaking;
use inters::{Inters, MOST_AT_ONCE};
use life::DeathWatch;
use pairs::Pairs;
use std::collections::VecDeque;
use wanted::Wanted;
use wire::About;
use wire::lane::Lane;
use wire::ranges::Digest;

/// What the driver tells a session of this process.
#[derive(Debug, Clone)]
pub struct Own {
    /// The process number, random.
    pub process: [u8; 16],
    /// The number of its host; zeros if it is not known.
    pub host: [u8; 16],
    /// All transports, the best first, each with the reason if it is not used.
    pub transports: Vec<(About, Result<(), &'static str>)>,
    /// How many descriptors the program may have open.
    pub descriptors: usize,
    /// The hash of trees over contact records.
    pub digest: Digest,
}

/// The connections of one process. `L` is the type of the lanes, `M` gives access to the user's memory.
///
/// It is one thing, since one event passes through most of it: a HELLO, for example, asks the groups, the pairs, the
/// pending handshakes and the dials, and its lane then moves messages between paths and engine. Each field is a table
/// with a file of its own in `state`, or a counter.
pub struct Session<L, M> {
    /// Matching and the protocols of messages. After an operation was begun here, call [`Session::settle`].
    pub engine: Engine,
    /// The user's memory.
    pub mem: M,
    pub(crate) own: Own,
    pub(crate) pairs: Pairs<L>,
    pub(crate) groups: Groups,
    pub(crate) ranges: Ranges,
    pub(crate) inters: Inters,
    pub(crate) incoming: Handshaking,
    pub(crate) dials: Dials,
    pub(crate) hosts: Hosts,
    pub(crate) wanted: Wanted,
    pub(crate) watch: DeathWatch,
    pub(crate) agenda: Agenda,
    /// The process is held.
    pub(crate) held: Option<Holding>,
    /// The message that tells how this process is reached, if that has changed.
    pub(crate) moved: Option<Vec<u8>>,
    /// How often it has changed.
    pub(crate) contact_serial: u32,
    /// What the driver is to do, in order.
    pub(crate) actions: VecDeque<Action<L>>,
    /// Bytes that lanes have brought, in all.
    pub(crate) bytes_in: u64,
    /// Bytes that lanes have taken, in all.
    pub(crate) bytes_out: u64,
    /// What went over which transport, as far as lanes were left.
    pub(crate) tally: Tally,
    /// The limits of paths that are made from now on.
    pub(crate) limits: Limits,
    /// How large a remote group may be whose ranks have their pairs from the beginning.
    pub(crate) most_at_once: u32,
    #[cfg(feature = "plant")]
    pub(crate) plant: Plant,
}

impl<L: Lane<M>, M: Memory> Session<L, M> {
    /// A session without groups and pairs.
    pub fn new(own: Own, engine: Engine, mem: M) -> Session<L, M> {
        Session {
            engine,
            mem,
            own,
            pairs: Pairs::default(),
            groups: Groups::default(),
            ranges: Ranges::default(),
            inters: Inters::default(),
            incoming: Handshaking::default(),
            dials: Dials::default(),
            hosts: Hosts::default(),
            wanted: Wanted::default(),
            watch: DeathWatch::default(),
            agenda: Agenda::default(),
            held: None,
            moved: None,
            contact_serial: 0,
            actions: VecDeque::new(),
            bytes_in: 0,
            bytes_out: 0,
            tally: Tally::new(),
            limits: Limits::default(),
            most_at_once: MOST_AT_ONCE,
            #[cfg(feature = "plant")]
            plant: Plant::None,
        }
    }

    /// The next action, if there is one. The driver takes all of them, in this order, after every call.
    #[inline]
    pub fn next_action(&mut self) -> Option<Action<L>> {
        self.actions.pop_front()
    }

    /// Whether [`Session::next_action`] would give one.
    #[inline]
    pub fn has_actions(&self) -> bool {
        !self.actions.is_empty()
    }

    /// What this process knows of itself.
    pub fn own(&self) -> &Own {
        &self.own
    }

    #[cfg(feature = "plant")]
    #[doc(hidden)]
    pub fn plant(&mut self, plant: Plant) {
        self.plant = plant;
    }

    /// Sets what paths that are made from now on may keep; for tests.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Sets how many descriptors the program may have open now, since it may change its limit.
    pub fn set_descriptors(&mut self, n: usize) {
        self.own.descriptors = n;
    }

    pub(crate) fn act(&mut self, action: Action<L>) {
        if self.actions.capacity() == 0 {
            // A process that talks to nobody has one at a time.
            self.actions.reserve_exact(1);
        }
        self.actions.push_back(action);
    }
}
