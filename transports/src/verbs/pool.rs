//! A device's shared receive queue and its slots, which all its lanes use.
//!
//! Invariants: at any time at least as many slots are posted, or with a lane that has given no credit for them yet, as all lanes have
//! allowed their other sides to fill: so no message finds none. It is known of each slot where it is, and none is posted twice. The memory
//! of slots stays until the queue has ended.

use super::device::{Device, Memory};
use base::protocol::rdma::SLOT;
use base::rdma::{Handle, LOCAL_WRITE};
use std::io;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Slots of one block: those of one lane.
pub(super) const BLOCK: usize = super::CREDITS as usize + super::RESERVE as usize;
/// The most receives of a shared receive queue.
const RECEIVES: u32 = 1 << 15;

/// A slot that has come out of the queue. There is one for each at a time, so its bytes have one owner.
pub(super) struct Slot {
    id: u32,
    at: NonNull<u8>,
}

// SAFETY: its bytes are plain memory.
unsafe impl Send for Slot {}

/// Where a slot is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum At {
    /// In the queue.
    Posted,
    /// With a lane, whose message it holds.
    Taken,
    /// In no queue, since the device has refused it.
    Missing,
}

struct Block {
    memory: Memory,
    slots: [At; BLOCK],
}

/// All slots.
#[derive(Default)]
struct Slots {
    blocks: Vec<Block>,
    /// Blocks that no lane uses.
    spare: usize,
    /// Slots that are missing.
    missing: usize,
}

impl Slots {
    fn get(&mut self, id: u32) -> Option<(&Memory, &mut At)> {
        let block = self.blocks.get_mut(id as usize / BLOCK)?;
        Some((&block.memory, &mut block.slots[id as usize % BLOCK]))
    }
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
        self.mend(&mut slots)?;
        if slots.spare == 0 {
            if (slots.blocks.len() + 1) * BLOCK > self.device.limits.shared_receives.min(RECEIVES) as usize {
                return Err(io::Error::other("the device's shared receive queue has no room for another lane"));
            }
            let memory = Memory::new(&self.device, BLOCK * SLOT, LOCAL_WRITE)?;
            // It stays, also if the device takes only some of its slots.
            slots.blocks.push(Block { memory, slots: [At::Missing; BLOCK] });
            (slots.spare, slots.missing) = (1, slots.missing + BLOCK);
            self.mend(&mut slots)?;
        }
        slots.spare -= 1;
        Ok(())
    }

    /// A lane is gone, and has posted its slots again. `all`: no slot may have been lost with its queue pair. Otherwise as many as it was allowed may be, and none is
    /// counted on any more.
    pub(super) fn leave(&self, all: bool) {
        let mut slots = self.slots();
        slots.spare += usize::from(all);
        // What fails now is tried again for the next lane.
        let _ = self.mend(&mut slots);
    }

    /// Posts the slots that are missing.
    fn mend(&self, slots: &mut Slots) -> io::Result<()> {
        for id in 0..(slots.blocks.len() * BLOCK) as u32 {
            if slots.missing == 0 {
                break;
            }
            if slots.get(id).is_some_and(|(_, at)| *at == At::Missing) {
                self.give(slots, id)?;
                slots.missing -= 1;
            }
        }
        Ok(())
    }

    /// A slot that has come out of the queue. `None`: no such slot was in it.
    pub(super) fn taken(&self, id: u32) -> Option<Slot> {
        let mut slots = self.slots();
        let (memory, at) = slots.get(id).filter(|(_, at)| **at == At::Posted)?;
        *at = At::Taken;
        Some(Slot { id, at: NonNull::new(memory.at(id as usize % BLOCK * SLOT))? })
    }

    /// The bytes of a slot of this pool.
    pub(super) fn bytes<'a>(&'a self, slot: &'a Slot) -> &'a [u8] {
        // SAFETY: the memory stays as long as the pool, and the slot is the device's again only when it is posted again.
        unsafe { std::slice::from_raw_parts(slot.at.as_ptr(), SLOT) }
    }

    /// As [`Pool::bytes`], to be changed.
    pub(super) fn bytes_mut<'a>(&'a self, slot: &'a mut Slot) -> &'a mut [u8] {
        // SAFETY: as above, and nobody else has this slot.
        unsafe { std::slice::from_raw_parts_mut(slot.at.as_ptr(), SLOT) }
    }

    /// Posts a slot again.
    pub(super) fn post(&self, Slot { id, .. }: Slot) -> io::Result<()> {
        let mut slots = self.slots();
        slots.get(id).map(|(_, at)| *at = At::Missing).ok_or(io::ErrorKind::InvalidInput)?;
        self.give(&mut slots, id).inspect_err(|_| slots.missing += 1)
    }

    /// Posts a slot that is missing.
    fn give(&self, slots: &mut Slots, id: u32) -> io::Result<()> {
        let (memory, at) = slots.get(id).ok_or(io::ErrorKind::InvalidInput)?;
        self.device.receive(self.shared, id, memory.at(id as usize % BLOCK * SLOT), SLOT, &memory.region)?;
        *at = At::Posted;
        Ok(())
    }
}

/// The queue ends before the memory that it may fill.
impl Drop for Pool {
    fn drop(&mut self) {
        self.device.drop_shared(self.shared);
    }
}
