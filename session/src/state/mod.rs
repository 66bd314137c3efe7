//! What a session holds, as data: no file here knows what is done to it.

pub mod agenda;
pub mod dials;
pub mod evidence;
pub mod groups;
pub mod hosts;
pub mod inters;
pub mod life;
pub mod lossy;
pub mod pair;
pub mod pairs;
pub mod race;
pub mod talk;
pub mod visitors;
pub mod wanted;

use crate::action::Action;
use crate::path::Limits;
#[cfg(feature = "plant")]
use crate::plant::Plant;
use agenda::Agenda;
use base::Memory;
use dials::Dials;
use engine::Engine;
use groups::Groups;
use hosts::Hosts;
use inters::Inters;
use life::Vigil;
use pairs::Pairs;
use std::collections::VecDeque;
use visitors::Visitors;
use wanted::Wanted;
use wire::About;
use wire::lane::Lane;

/// What a process knows of itself.
#[derive(Debug, Clone)]
pub struct Own {
    /// Its process number, random.
    pub process: [u8; 16],
    /// Its host's number.
    pub host: [u8; 16],
    /// All transports, the best first, and why one is not used.
    pub transports: Vec<(About, Result<(), &'static str>)>,
    /// How many descriptors the program may have open.
    pub descriptors: usize,
}

/// One process's connections. `L`: lanes; `M`: where user memory is found.
pub struct Session<L, M> {
    /// Matching and protocols. Whoever begins an operation asks it, and settles the session then.
    pub engine: Engine,
    pub mem: M,
    pub(crate) own: Own,
    pub(crate) pairs: Pairs<L>,
    pub(crate) groups: Groups,
    pub(crate) inters: Inters,
    pub(crate) visitors: Visitors,
    pub(crate) dials: Dials,
    pub(crate) hosts: Hosts,
    pub(crate) wanted: Wanted,
    pub(crate) vigil: Vigil,
    pub(crate) agenda: Agenda,
    pub(crate) actions: VecDeque<Action<L>>,
    /// Bytes that lanes have brought, and taken, in all.
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
    /// Of new paths.
    pub(crate) limits: Limits,
    #[cfg(feature = "plant")]
    pub(crate) plant: Plant,
}

impl<L: Lane<M>, M: Memory> Session<L, M> {
    pub fn new(own: Own, engine: Engine, mem: M) -> Session<L, M> {
        Session {
            engine,
            mem,
            own,
            pairs: Pairs::default(),
            groups: Groups::default(),
            inters: Inters::default(),
            visitors: Visitors::default(),
            dials: Dials::default(),
            hosts: Hosts::default(),
            wanted: Wanted::default(),
            vigil: Vigil::default(),
            agenda: Agenda::default(),
            actions: VecDeque::new(),
            bytes_in: 0,
            bytes_out: 0,
            limits: Limits::default(),
            #[cfg(feature = "plant")]
            plant: Plant::None,
        }
    }

    /// What is to be done, in this order. To be asked after every call.
    #[inline]
    pub fn next_action(&mut self) -> Option<Action<L>> {
        self.actions.pop_front()
    }

    #[inline]
    pub fn has_actions(&self) -> bool {
        !self.actions.is_empty()
    }

    pub fn own(&self) -> &Own {
        &self.own
    }

    #[cfg(feature = "plant")]
    #[doc(hidden)]
    pub fn plant(&mut self, plant: Plant) {
        self.plant = plant;
    }

    /// For tests: what paths that are made from now on may keep.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// How many descriptors the program may have open now.
    pub fn set_descriptors(&mut self, n: usize) {
        self.own.descriptors = n;
    }

    pub(crate) fn act(&mut self, action: Action<L>) {
        self.actions.push_back(action);
    }
}
