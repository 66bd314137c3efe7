//! Lanes that are looked at instead of slept on.

use transports::registry::{BOARD_KEYS, Looked};

#[derive(Default)]
pub(crate) struct PolledLanes {
    /// `None`: no transport has such lanes here.
    pub(crate) looked: Option<Looked>,
    /// Pairs that have such a lane.
    pub(crate) lanes: Vec<usize>,
    /// Those that are looked at without being told.
    pub(crate) direct: Vec<usize>,
    /// Those whose lanes had no room for all there was.
    pub(crate) stuck: Vec<usize>,
    /// Memory for bits.
    pub(crate) bits: Vec<u32>,
}

/// The bit of a pair's lane on our board.
fn bit_of(i: usize) -> u32 {
    i as u32 % BOARD_KEYS
}

impl PolledLanes {
    pub fn new(looked: Option<Looked>) -> PolledLanes {
        PolledLanes { looked, ..PolledLanes::default() }
    }

    /// Whether there are no lanes that cost next to nothing to look at.
    pub fn is_empty(&self) -> bool {
        self.lanes.is_empty()
    }

    /// As if something had come for a pair.
    pub fn tell(&self, i: usize) {
        self.looked.iter().for_each(|looked| looked.board.set(bit_of(i)));
    }

    pub fn has_word(&self) -> bool {
        self.looked.as_ref().is_some_and(|looked| looked.board.any())
    }

    /// From now on, the first that sends wakes us.
    pub fn arm(&self) {
        self.looked.iter().for_each(|looked| looked.board.arm());
    }

    /// A pair has got such a lane.
    pub fn add(&mut self, i: usize) {
        if !self.lanes.contains(&i) {
            self.lanes.push(i);
        }
        // What came before we were there.
        self.tell(i);
    }

    /// It has none any more.
    pub fn remove(&mut self, i: usize) {
        self.lanes.retain(|k| *k != i);
        self.direct.retain(|k| *k != i);
        self.stuck.retain(|k| *k != i);
    }

    /// Whether a pair's lane had no room for all there was, so that somebody has to come back for it.
    pub fn set_stuck(&mut self, i: usize, yes: bool) {
        match self.stuck.iter().position(|k| *k == i) {
            None if yes => self.stuck.push(i),
            Some(at) if !yes => {
                self.stuck.swap_remove(at);
            }
            _ => (),
        }
    }

    pub fn is_direct(&self, i: usize) -> bool {
        self.direct.contains(&i)
    }
}
