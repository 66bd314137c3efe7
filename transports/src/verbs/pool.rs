//! A device's shared receive queue and its slots, which all its lanes use.
//!
//! Invariant: at any time at least as many slots are posted, or hold messages that a lane has not consumed, as all lanes have
//! allowed their other sides to fill: so no message finds none.

use super::device::{Device, Memory};
use base::protocol::rdma::SLOT;
use base::rdma::Handle;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Slots of one block: those of one lane.
pub(super) const BLOCK: usize = super::CREDITS as usize + super::RESERVE as usize;
/// The most receives of a shared receive queue.
const RECEIVES: u32 = 1 << 15;

/// All slots, and how many blocks no lane uses.
#[derive(Default)]
struct Slots {
    blocks: Vec<Memory>,
    spare: usize,
}

pub(super) struct Pool {
    pub device: Arc<Device>,
    pub shared: Handle,
    slots: Mutex<Slots>,
}

// SAFETY: libibverbs' objects may be used by any thread.
unsafe impl Send for Pool {}
// SAFETY: as above.
unsafe impl Sync for Pool {}

impl Pool {
    pub(super) fn new(device: Arc<Device>) -> io::Result<Pool> {
        let shared = device.shared(device.limits.shared_receives.min(RECEIVES))?;
        Ok(Pool { device, shared, slots: Mutex::default() })
    }

    fn slots(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes sure that one more lane's messages find slots.
    pub(super) fn join(&self) -> io::Result<()> {
        let mut slots = self.slots();
        if slots.spare > 0 {
            slots.spare -= 1;
            return Ok(());
        }
        if (slots.blocks.len() + 1) * BLOCK > self.device.limits.shared_receives.min(RECEIVES) as usize {
            return Err(io::Error::other("the device's shared receive queue has no room for another lane"));
        }
        let first = slots.blocks.len() * BLOCK;
        let memory = Memory::new(&self.device, BLOCK * SLOT)?;
        let post = |id: usize| self.give(&memory, id as u32);
        (first..first + BLOCK).try_for_each(post)?;
        slots.blocks.push(memory);
        Ok(())
    }

    /// A lane is gone. All its slots are posted again.
    pub(super) fn leave(&self) {
        self.slots().spare += 1;
    }

    /// Posts a slot again.
    pub(super) fn post(&self, id: u32) -> io::Result<()> {
        let slots = self.slots();
        let memory = slots.blocks.get(id as usize / BLOCK).ok_or(io::ErrorKind::InvalidInput)?;
        self.give(memory, id)
    }

    fn give(&self, memory: &Memory, id: u32) -> io::Result<()> {
        self.device.receive(self.shared, id, memory.at(id as usize % BLOCK * SLOT), SLOT, &memory.region)
    }

    /// The memory of a slot; null if there is no such slot.
    pub(super) fn slot(&self, id: u32) -> *mut u8 {
        let slots = self.slots();
        let memory = slots.blocks.get(id as usize / BLOCK);
        memory.map_or(std::ptr::null_mut(), |memory| memory.at(id as usize % BLOCK * SLOT))
    }
}

/// The queue ends before the memory that it may fill.
impl Drop for Pool {
    fn drop(&mut self) {
        self.device.drop_shared(self.shared);
    }
}
