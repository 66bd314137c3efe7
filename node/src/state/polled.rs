//! The state of the polled lanes.

use transports::registry::{DOORBELLS, Polling};

#[derive(Default)]
pub(crate) struct PolledLanes {
    /// The doorbell bitmap of this process. `None`: no open transport has polled lanes.
    pub(crate) polling: Option<Polling>,
    /// The pair of each polled lane, of those that were left too.
    pub(crate) lanes: Vec<usize>,
    /// The pairs among them whose lane is direct: it is read at each look, and its sender does not ring.
    pub(crate) direct: Vec<usize>,
    /// The pairs among them whose lane had no room for all that was to be written.
    pub(crate) stuck: Vec<usize>,
    /// Scratch memory for the bits that are set.
    pub(crate) bits: Vec<u32>,
}

/// The bit of a pair's lane in the doorbell bitmap.
fn bit_of(i: usize) -> u32 {
    i as u32 % DOORBELLS
}

impl PolledLanes {
    pub(crate) fn new(polling: Option<Polling>) -> PolledLanes {
        PolledLanes { polling, ..PolledLanes::default() }
    }

    /// Whether no pair has a polled lane.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.lanes.is_empty()
    }

    /// Sets the doorbell bit of a pair, so that its lane is read at the next look.
    pub(crate) fn ring(&self, i: usize) {
        self.polling.iter().for_each(|polling| polling.doorbells.set(bit_of(i)));
    }

    /// Whether a doorbell bit is set.
    #[inline]
    pub(crate) fn is_rung(&self) -> bool {
        self.polling.as_ref().is_some_and(|polling| polling.doorbells.any())
    }

    /// From now on, the first sender that rings also wakes this process.
    pub(crate) fn arm(&self) {
        self.polling.iter().for_each(|polling| polling.doorbells.arm());
    }

    /// A pair has got a polled lane.
    pub(crate) fn add(&mut self, i: usize) {
        self.lanes.push(i);
        // Messages may have come before the lane was listed here.
        self.ring(i);
    }

    /// One of a pair's polled lanes is closed.
    pub(crate) fn remove(&mut self, i: usize) {
        if let Some(at) = self.lanes.iter().position(|k| *k == i) {
            self.lanes.swap_remove(at);
        }
    }

    /// A pair has left its lane, or has lost it: what is known of the lane holds no longer.
    pub(crate) fn leave(&mut self, i: usize) {
        self.ring(i);
        self.direct.retain(|k| *k != i);
        self.stuck.retain(|k| *k != i);
    }

    /// Says whether a pair's lane had no room for all that was to be written, so that writing has to be tried again.
    pub(crate) fn set_stuck(&mut self, i: usize, yes: bool) {
        match self.stuck.iter().position(|k| *k == i) {
            None if yes => self.stuck.push(i),
            Some(at) if !yes => {
                self.stuck.swap_remove(at);
            }
            _ => (),
        }
    }

    pub(crate) fn is_direct(&self, i: usize) -> bool {
        self.direct.contains(&i)
    }
}
