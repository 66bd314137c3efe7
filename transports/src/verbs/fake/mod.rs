//! A device of software for tests: queue pairs of this process, connected by copies.
//!
//! It is driven by the calls of its table ([`calls`]), under one lock ([`world`]). What a test wants of it, it says to its own thread: [`fail`] lets
//! a call fail, [`shuffle`] lets work complete late and completions of different queues come in any order, [`break_pairs`] breaks queue
//! pairs, [`cut_off`] lets messages end in the middle, [`move_to`] gives the ports other addresses. Invariant: as with a device, what one side sends comes whole, once and in order, or the queue pair fails.

mod calls;
mod world;

use base::rdma::RECEIVE;
pub(super) use calls::TABLE;
use std::cell::{Cell, RefCell};
use std::ffi::c_int;
use world::{FLUSHED, Slot, world};

thread_local! {
    /// The call that is to fail, and after how many good ones.
    static FAILING: Cell<Option<(&'static str, u32)>> = const { Cell::new(None) };
    /// The state of a generator of numbers, if work is to be late.
    static LATE: Cell<Option<u64>> = const { Cell::new(None) };
    /// The third byte of the addresses of ports.
    static NETWORK: Cell<u8> = const { Cell::new(0) };
    /// Whether queue pairs that fail have a message that ends in the middle.
    static CUT_OFF: Cell<bool> = const { Cell::new(false) };
    /// Whether the device does not tell that a queue pair takes no more receives.
    static MUTE: Cell<bool> = const { Cell::new(false) };
    /// RDMA reads at a time.
    static READS: Cell<u32> = const { Cell::new(4) };
    /// The objects that this thread has made.
    static MADE: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

/// From now on, this call of this thread fails, after so many that do not: once.
pub(super) fn fail(call: &'static str, after: u32) {
    FAILING.set(Some((call, after)));
}

/// Whether the failure was met.
pub(super) fn has_failed() -> bool {
    FAILING.get().is_none()
}

/// From now on, work that this thread drives is done late and in any order that a device may choose.
pub(super) fn shuffle(seed: u64) {
    LATE.set(Some(seed | 1));
}

/// Breaks the queue pairs of this thread: the packets of all that is under way are lost.
pub(super) fn break_pairs() {
    let mut world = world();
    MADE.with_borrow(|made| made.iter().for_each(|id| world.lose(*id)));
}

/// From now on, a queue pair of this thread that fails has taken a slot for a message that never ends. The slot completes a while
/// after the failure; then the device tells that it was the last one, unless it is `mute`.
pub(super) fn cut_off(cuts: bool, mute: bool) {
    CUT_OFF.set(cuts);
    MUTE.set(mute);
}

/// The next message that this thread takes completes in error, in each of its queues that has one.
pub(super) fn fail_receives() {
    let mut world = world();
    world.drive();
    let all = MADE.with_borrow(|made| made.clone());
    for id in all {
        let waiting = world.queues.get_mut(&id).into_iter().flat_map(|queue| &mut queue.done);
        if let Some(done) = waiting.into_iter().find(|done| done.kind == RECEIVE) {
            done.status = FLUSHED;
        }
    }
}

/// From now on, the ports have addresses in this network.
pub(super) fn move_to(network: u8) {
    NETWORK.set(network);
}

/// From now on, devices that this thread opens have no RDMA reads.
pub(super) fn without_reads() {
    READS.set(0);
}

/// How many slots are posted in the queues of this thread, and how many of them lie in no registered memory.
pub(super) fn posted() -> (usize, usize) {
    let world = world();
    let is_lost = |slot: &&Slot| !world.memory.values().any(|m| m.has(slot.address, slot.len));
    MADE.with_borrow(|made| {
        let slots = || made.iter().filter_map(|id| world.shared.get(id)).flatten();
        (slots().count(), slots().filter(is_lost).count())
    })
}

/// How many of the objects that this thread has made are still there.
pub(super) fn left() -> usize {
    let w = world();
    let is_there = |id: &&u64| {
        let keys = [w.devices.contains_key(id), w.channels.contains_key(id), w.queues.contains_key(id)];
        let more = [w.shared.contains_key(id), w.pairs.contains_key(id), w.memory.contains_key(id)];
        keys.into_iter().chain(more).any(|there| there)
    };
    MADE.with_borrow(|made| made.iter().filter(is_there).count())
}

fn is_late() -> bool {
    LATE.get().is_some_and(|mut x| {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        LATE.set(Some(x));
        x >> 32 & 1 == 0
    })
}

/// An error if this call is to fail now.
fn checked(call: &'static str) -> Result<(), c_int> {
    match FAILING.get() {
        Some((name, 0)) if name == call => {
            FAILING.set(None);
            Err(-libc::ENOMEM)
        }
        Some((name, n)) if name == call => {
            FAILING.set(Some((name, n - 1)));
            Ok(())
        }
        _ => Ok(()),
    }
}
