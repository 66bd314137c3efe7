//! What only tests ask of the core.

use crate::memory::Buffers;
use crate::state::Core;
use base::ProcId;
use wire::lane::Lane;

#[doc(hidden)]
impl Core {
    /// How many pieces of bulk wait for room in a path's lane.
    pub fn bulk_queued(&self, local: ProcId, remote: ProcId) -> usize {
        self.find(local, remote).map_or(0, |i| self.session.pair(i).path().bulk_queued())
    }

    /// How many lanes two processes have had, as far as this process knows.
    pub fn lanes_had(&self, local: ProcId, remote: ProcId) -> u16 {
        self.find(local, remote).map_or(0, |i| self.session.pair(i).path().offered_generation() - 1)
    }

    /// Whether two processes move to another lane, or still read one that they have left.
    pub fn is_moving(&self, local: ProcId, remote: ProcId) -> bool {
        self.find(local, remote).is_some_and(|i| self.session.is_moving(i))
    }

    /// Cuts the lane between two processes as a broken network would. False: there is no lane.
    pub fn cut(&mut self, local: ProcId, remote: ProcId) -> bool {
        let Some(i) = self.find(local, remote) else { return false };
        let Some(up) = self.session.pair_mut(i).lane_mut() else { return false };
        Lane::<Buffers>::cut(&mut up.lane);
        true
    }

    /// Cuts one stripe of the lane between two processes. False: there is no such stripe.
    pub fn cut_stream(&mut self, local: ProcId, remote: ProcId, number: u16) -> bool {
        let i = self.find(local, remote);
        i.and_then(|i| self.session.pair_mut(i).lane_mut()).is_some_and(|up| up.lane.cut_stream(number))
    }

    /// How many stripes the lane between two processes has.
    pub fn streams(&mut self, local: ProcId, remote: ProcId) -> usize {
        let i = self.find(local, remote);
        i.and_then(|i| self.session.pair(i).lane()).map_or(0, |up| up.lane.streams())
    }

    /// Whether two processes have a lane in shared memory.
    pub fn is_shared(&self, local: ProcId, remote: ProcId) -> bool {
        self.find(local, remote).is_some_and(|i| self.polled_lane(i).is_some())
    }

    /// Whether the remote process says over that lane that it lives, so that its memory is read and written at the least cost.
    pub fn is_seen_alive(&self, local: ProcId, remote: ProcId) -> bool {
        self.find(local, remote).and_then(|i| self.remote_memory(i)).is_some_and(|memory| memory.is_seen_alive())
    }

    /// Whether the lane between two processes is polled directly, without the doorbell.
    pub fn is_direct(&self, local: ProcId, remote: ProcId) -> bool {
        self.find(local, remote).is_some_and(|i| self.polled.is_direct(i))
    }

    /// The bytes that all lanes have brought.
    pub fn bytes_read(&self) -> u64 {
        self.session.bytes_in()
    }

    /// The number of pairs.
    pub fn pairs_in_use(&self) -> usize {
        self.session.pairs_in_use()
    }

    /// The number of remote groups that are known, or were known.
    pub fn groups_known(&self) -> usize {
        self.session.groups_known()
    }

    /// The number of strangers.
    pub fn strangers(&self) -> usize {
        self.session.strangers()
    }

    /// The bytes of CONTROL messages of strangers that were not asked for yet.
    pub fn strangers_control(&self) -> usize {
        self.session.strangers_control()
    }

    pub(crate) fn find(&self, local: ProcId, remote: ProcId) -> Option<usize> {
        self.session.find_pair(local, remote)
    }
}
