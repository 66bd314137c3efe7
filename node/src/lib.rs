//! One process's end: the engine, a path to every process it talks to, the lanes under them, and the thread that
//! moves them while the program computes. The MPI face uses this room and no other below it; nothing here knows
//! MPI. All state sits in one [`Core`] behind one lock, which is never held across a sleep.
//!
//! `core` is all its state, `operations` what is asked of it for a message, `ports` what strangers may come to, `round` how
//! data moves, `connect` how lanes come about and how deaths are noticed, `arrivals` who comes, `reach` where processes are
//! dialled, `near` and `local` the same for shared memory, `leave` how pairs end, `life` whether lanes are alive, `wait` how a caller blocks, `thread` what
//! runs outside of calls, `convert` what is done to data of machines that lay it out otherwise.

mod arrivals;
mod carrier;
mod config;
mod connect;
mod convert;
mod copy;
mod core;
mod crowd;
mod direct;
mod leave;
mod life;
mod local;
mod memory;
mod near;
mod node;
mod operations;
mod pair;
mod ports;
mod pull;
mod reach;
mod round;
mod shape;
mod strangers;
mod stripes;
mod sys;
mod thread;
mod types;
mod wait;
mod waits;
mod watch;

pub use base::ProcId;
pub use config::{Config, StartError};
pub use convert::{Kind, Representation, Signature};
pub use core::Core;
pub use engine::{
    ContextId, Envelope, Fault, Gone, MessageId, Mode, OpId, Outcome, Probe, Source, Tag, partitioned_tag, user_tag,
};
pub use memory::Layout;
pub use node::Node;
pub use reach::{Obstacle, Proofs};
pub use shape::Shape;
pub use strangers::Called;
pub use transports::lane::Lanes;
pub use transports::tcp::{Contact, PortRange};
pub use types::{Element, F90_COMPLEX, F90_INTEGER, F90_REAL, Signed, Types, Wrong};
/// For the check of types.
pub use waits::{About, Waits, with_tag};

/// Our identity in one registered group. Others may connect to it while it is known.
#[derive(Debug, Clone, Copy)]
pub struct Group {
    pub incarnation: u64,
    pub cookie: [u8; 16],
    pub rank: u32,
    pub size: u32,
}

/// What the naming service and the other leader told about a group.
#[derive(Debug, Clone)]
pub struct RemoteGroup {
    pub incarnation: u64,
    pub cookie: [u8; 16],
    /// By rank; never empty.
    pub contacts: Vec<Contact>,
}

/// The path to another leader. Slots serve again, so it also says which of their tenants is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PathRef {
    pub(crate) slot: usize,
    pub(crate) serial: u64,
}

/// An open inter-communicator; never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct InterId {
    pub(crate) slot: u32,
    pub(crate) serial: u32,
}

impl InterId {
    /// As one number, for whoever keeps it in an atomic word.
    pub fn to_bits(self) -> u64 {
        u64::from(self.slot) | u64::from(self.serial) << 32
    }

    pub fn from_bits(bits: u64) -> InterId {
        InterId { slot: bits as u32, serial: (bits >> 32) as u32 }
    }
}
