//! How a process with many incoming lanes finds those on which something is, and how it is woken.
//!
//! Every process has one board, in memory that all who send to it share: a bit for each incoming lane (several lanes may
//! have the same), and a word that says it sleeps. A sender publishes, then sets its lane's bit (unless the receiver looks
//! at that lane anyway), then, where it finds the receiver asleep, wakes it. Nobody else makes a system call.
//!
//! Invariant: between publishing and looking at the word there is a full fence, and so there is between setting the word
//! and the last look at bits and lanes. So either the sender sees the word or the receiver sees the message. Where both
//! sides can, the sleeper's fence is the sender's too ([`super::fence`]).

use super::ground::Ground;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, SeqCst};

// The two words are apart from each other, since they are written by different processes at different times.
use base::protocol::shared::{ASLEEP, BITS_AT};
/// Bits of a board, and its bytes.
pub use base::protocol::shared::{BOARD_BITS as BITS, BOARD_END as BOARD};

const WORDS: usize = BITS as usize / 64;
/// All that is ever touched lies before this.
#[cfg(test)]
pub const END: usize = BITS_AT + 8 * WORDS;

/// A frame has been published on a lane with this bit, whose receiver says in the word at `direct` of the lane's `ground`
/// whether it looks there by itself. `light`: it has agreed to fence for both. Whether it must be woken.
#[inline]
pub fn ring<G: Ground>(board: &G, bit: u32, lane: &G, direct: usize, light: bool) -> bool {
    let is_direct = || lane.load(direct, Relaxed) != 0;
    let seen = if light {
        lane.light_fence();
        is_direct()
    } else {
        // It may have changed its mind before it could see the frame.
        is_direct() && {
            lane.fence();
            is_direct()
        }
    };
    if !seen {
        set(board, bit);
    }
    board.load(ASLEEP, SeqCst) != 0 && board.swap(ASLEEP, 0, AcqRel) != 0
}

/// Sets a bit, one's own too.
pub fn set<G: Ground>(board: &G, bit: u32) {
    let bit = bit % BITS;
    board.or_fenced(BITS_AT + (bit / 64) as usize * 8, 1 << (bit % 64));
}

/// Whether any bit is set.
pub fn any<G: Ground>(board: &G) -> bool {
    (0..WORDS).fold(0, |all, w| all | board.load(BITS_AT + w * 8, Acquire)) != 0
}

/// Takes all bits.
pub fn take<G: Ground>(board: &G, mut f: impl FnMut(u32)) {
    for w in 0..WORDS {
        let at = BITS_AT + w * 8;
        if board.load(at, Relaxed) == 0 {
            continue;
        }
        let mut bits = board.swap(at, 0, AcqRel);
        while bits != 0 {
            f(w as u32 * 64 + bits.trailing_zeros());
            bits &= bits - 1;
        }
    }
}

/// From now on, senders wake us: one of them, the first. Look once more at all lanes before sleeping.
pub fn doze<G: Ground>(board: &G) {
    // If it still says so, all who have sent since know it.
    if !dozes(board) {
        board.swap(ASLEEP, 1, SeqCst);
        board.fence_everywhere();
    }
}

/// Whether senders wake us.
pub fn dozes<G: Ground>(board: &G) -> bool {
    board.load(ASLEEP, Relaxed) != 0
}

/// Says whether the receiver looks at a lane by itself. When it no longer does, something may just have come without a
/// bit: look once more.
pub fn set_direct<G: Ground>(lane: &G, direct: usize, yes: bool) {
    lane.swap(direct, u64::from(yes), SeqCst);
    if !yes {
        lane.fence_everywhere();
    }
}
