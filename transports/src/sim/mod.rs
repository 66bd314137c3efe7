//! Simulated lanes for tests: the same seed gives the same run. Nothing in the library uses this room.
//!
//! [`datagram`] delays, reorders, loses and doubles frames; [`pipe`] is a byte stream that moves odd amounts and breaks
//! at any byte; [`shared`] is memory that both ends see. Time is a number that the test moves.

pub mod datagram;
pub mod pipe;
pub mod shared;

use std::cell::Cell;
use std::rc::Rc;

/// Milliseconds, moved by the test, seen by all lanes.
pub type Clock = Rc<Cell<u64>>;

/// The splitmix64 generator.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`, which is not 0.
    pub fn below(&mut self, n: u64) -> u64 {
        self.bits() % n
    }

    pub fn percent(&mut self, p: u64) -> bool {
        self.below(100) < p
    }

    /// A generator of its own for some part.
    pub fn fork(&mut self) -> Rng {
        Rng(self.bits())
    }
}
