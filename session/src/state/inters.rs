//! Open inter-communicators.

use engine::Ctx;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The number of an inter-communicator. It is never used again, so after [`crate::Session::close`] it names nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct InterId {
    pub(crate) slot: u32,
    pub(crate) serial: u32,
}

impl InterId {
    /// The same as one number, which fits an atomic word.
    pub fn to_bits(self) -> u64 {
        u64::from(self.slot) | u64::from(self.serial) << 32
    }

    /// Grows in the order in which inter-communicators are opened.
    pub fn order(self) -> u32 {
        self.serial
    }

    /// The inverse of [`InterId::to_bits`].
    pub fn from_bits(bits: u64) -> InterId {
        InterId { slot: bits as u32, serial: (bits >> 32) as u32 }
    }
}

/// One open inter-communicator.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Inter {
    pub(crate) serial: u32,
    /// The engine's context for it.
    pub(crate) ctx: Ctx,
    /// The pairs of the remote group, by rank.
    pub(crate) members: Arc<[usize]>,
}

/// The table of open inter-communicators.
#[derive(Default, Clone, Serialize, Deserialize)]
pub(crate) struct Inters {
    pub(crate) slots: Vec<Option<Inter>>,
    pub(crate) last_serial: u32,
}

impl Inters {
    #[inline]
    pub fn get(&self, id: InterId) -> Option<&Inter> {
        self.slots.get(id.slot as usize)?.as_ref().filter(|inter| inter.serial == id.serial)
    }
}
