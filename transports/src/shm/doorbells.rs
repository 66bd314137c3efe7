//! Doorbells: how a receiver finds the lanes that have input among many, and how it is woken.
//!
//! Every process has one doorbell bitmap, in memory that all its senders share: a bit for each incoming lane (several lanes
//! may share one), and a word that says that the process sleeps. A sender publishes a frame, then sets its lane's bit (unless
//! the receiver polls that lane), then wakes the receiver if that is asleep. Only this wake-up is a system call.
//!
//! Invariant: a full fence lies between publishing a frame and reading the word, and another between setting the word and the
//! last look at bits and lanes. So either the sender sees the word or the receiver sees the frame. Where both sides support
//! it, the receiver's fence serves the sender too ([`super::fence`]).

use crate::memory::SegmentView;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, SeqCst};

// The word and the bits are on cache lines of their own, since different processes write them at different times.
use base::protocol::shared::{ASLEEP, BITS_AT};
/// The number of bits of a doorbell bitmap, and the bytes of its memory.
pub(crate) use base::protocol::shared::{DOORBELLS as BITS, DOORBELLS_END as BYTES};

const WORDS: usize = BITS as usize / 64;
/// The end of the bytes that are ever touched.
#[cfg(test)]
pub const END: usize = BITS_AT + 8 * WORDS;

/// Rings for a frame that has been published on `lane`, and returns whether the receiver must be woken. `bit` is the lane's;
/// the word at `direct` of the lane says whether the receiver polls it, so that no bit is needed. With `light`, the receiver's
/// fences serve us too.
#[inline(always)]
pub(super) fn ring<G: SegmentView>(doorbells: &G, bit: u32, lane: &G, direct: usize, light: bool) -> bool {
    let is_direct = || is_direct(lane, direct);
    let seen = if light {
        lane.light_fence();
        is_direct()
    } else {
        // The receiver may have stopped polling before it could see the frame, so the word is read again behind a fence.
        is_direct() && {
            lane.fence();
            is_direct()
        }
    };
    if !seen {
        set(doorbells, bit);
    }
    doorbells.load(ASLEEP, SeqCst) != 0 && doorbells.swap(ASLEEP, 0, AcqRel) != 0
}

/// Sets a bit, in another process's bitmap or our own.
#[inline(never)]
pub(super) fn set<G: SegmentView>(doorbells: &G, bit: u32) {
    let bit = bit % BITS;
    doorbells.or_fenced(BITS_AT + (bit / 64) as usize * 8, 1 << (bit % 64));
}

/// Whether any bit is set.
#[inline]
pub(super) fn any<G: SegmentView>(doorbells: &G) -> bool {
    (0..WORDS).fold(0, |all, w| all | doorbells.load(BITS_AT + w * 8, Acquire)) != 0
}

/// Clears all bits, and calls `f` with each that was set.
pub(super) fn take<G: SegmentView>(doorbells: &G, mut f: impl FnMut(u32)) {
    for w in 0..WORDS {
        let at = BITS_AT + w * 8;
        if doorbells.load(at, Relaxed) == 0 {
            continue;
        }
        let mut bits = doorbells.swap(at, 0, AcqRel);
        while bits != 0 {
            f(w as u32 * 64 + bits.trailing_zeros());
            bits &= bits - 1;
        }
    }
}

/// Says that we are about to sleep: from now on, the first sender wakes us. All lanes have to be looked at once more before
/// sleeping.
pub(super) fn arm<G: SegmentView>(doorbells: &G) {
    // If the word is still set, no sender has missed it.
    if !is_armed(doorbells) {
        doorbells.swap(ASLEEP, 1, SeqCst);
        doorbells.fence_everywhere();
    }
}

/// Whether the word says that we sleep.
pub(super) fn is_armed<G: SegmentView>(doorbells: &G) -> bool {
    doorbells.load(ASLEEP, Relaxed) != 0
}

/// Whether the receiver polls a lane.
#[inline(always)]
pub(super) fn is_direct<G: SegmentView>(lane: &G, direct: usize) -> bool {
    lane.load(direct, Relaxed) != 0
}

/// Says whether we poll a lane, so that its sender need not set a bit. When we stop, a frame may just have come without a
/// bit: the lane has to be looked at once more.
pub(super) fn set_direct<G: SegmentView>(lane: &G, direct: usize, yes: bool) {
    lane.swap(direct, u64::from(yes), SeqCst);
    if !yes {
        lane.fence_everywhere();
    }
}
