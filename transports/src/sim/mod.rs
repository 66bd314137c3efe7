//! Simulated lanes for tests: the same seed gives the same run. Nothing in the library uses them.
//!
//! [`datagram`] delays, reorders, loses and doubles frames; [`pipe`] is a byte stream that moves odd amounts and breaks
//! at any byte; [`shared`] is memory that both ends see. Time is a number that the test moves.

pub mod datagram;
pub mod pipe;
pub mod shared;

use std::cell::Cell;
use std::rc::Rc;

/// The time in milliseconds. The test moves it, and all lanes see it.
pub type Clock = Rc<Cell<u64>>;

/// The random number generator splitmix64.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// A generator that gives the same numbers for the same seed.
    pub fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    pub(crate) fn bits(&mut self) -> u64 {
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

    /// True in `p` of 100 cases.
    pub fn percent(&mut self, p: u64) -> bool {
        self.below(100) < p
    }

    /// A generator of its own for a part of the test, so that what the part draws does not change the numbers of others.
    pub fn fork(&mut self) -> Rng {
        Rng(self.bits())
    }
}
