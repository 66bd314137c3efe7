//! The objects of the fake device, and how work is done: by copies from one queue pair's memory to the other's.

use super::{CUT_OFF, MADE, MUTE, is_late};
use base::rdma::*;
use nix::sys::eventfd::EventFd;
use std::collections::{BTreeMap, VecDeque};
use std::ffi::c_int;
use std::sync::{Mutex, MutexGuard, PoisonError};

pub(super) const FLUSHED: u32 = 5;
const NO_ACCESS: u32 = 10;
const NO_ANSWER: u32 = 12;

pub(super) struct Channel {
    pub fd: EventFd,
    pub pending: u32,
}

pub(super) struct Queue {
    pub done: VecDeque<Done>,
    pub armed: bool,
    pub channel: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    New,
    Begun,
    Connected,
    Failed,
}

pub(super) struct FakePair {
    pub state: State,
    /// The number of the pair that it is connected to.
    pub peer: u64,
    pub sends: u64,
    pub receives: u64,
    pub shared: u64,
    /// Work that is posted, with the bytes of a send.
    pub work: VecDeque<(Work, Vec<u8>)>,
    /// Completions of sends that are on their way back.
    pub acks: VecDeque<Done>,
    pub device: u64,
}

/// What a device tells after a while.
pub(super) struct Later {
    /// So many times it is asked before.
    pub rests: u32,
    pub pair: u64,
    /// The queue, and the slot that comes with a failure then.
    pub half: Option<(u64, u64)>,
    pub tells: bool,
}

pub(super) struct Slot {
    pub id: u64,
    pub address: u64,
    pub len: u32,
}

pub(super) struct Memory {
    pub address: u64,
    pub len: u64,
    /// The content when it was registered, if no device may write it: a device keeps the pages too.
    pub content: Option<Vec<u8>>,
    /// What the other side may do.
    pub access: c_int,
}

impl Memory {
    pub(super) fn has(&self, address: u64, len: u32) -> bool {
        let end = address.checked_add(len.into());
        self.address <= address && end.is_some_and(|end| end <= self.address + self.len)
    }
}

#[derive(Default)]
pub(super) struct World {
    pub last: u64,
    pub devices: BTreeMap<u64, Vec<Later>>,
    pub channels: BTreeMap<u64, Channel>,
    pub queues: BTreeMap<u64, Queue>,
    pub shared: BTreeMap<u64, VecDeque<Slot>>,
    pub pairs: BTreeMap<u64, FakePair>,
    pub memory: BTreeMap<u64, Memory>,
}

static WORLD: Mutex<World> = Mutex::new(World {
    last: 0,
    devices: BTreeMap::new(),
    channels: BTreeMap::new(),
    queues: BTreeMap::new(),
    shared: BTreeMap::new(),
    pairs: BTreeMap::new(),
    memory: BTreeMap::new(),
});

pub(super) fn world() -> MutexGuard<'static, World> {
    WORLD.lock().unwrap_or_else(PoisonError::into_inner)
}

impl World {
    pub(super) fn new_id(&mut self) -> u64 {
        self.last += 1;
        MADE.with_borrow_mut(|made| made.push(self.last));
        self.last
    }

    pub(super) fn complete(&mut self, queue: u64, done: Done) {
        let Some(queue) = self.queues.get_mut(&queue) else { return };
        queue.done.push_back(done);
        if std::mem::take(&mut queue.armed)
            && let Some(channel) = self.channels.get_mut(&queue.channel)
        {
            channel.pending += 1;
            channel.fd.write(1).expect("it has room");
        }
    }

    /// A pair fails: the first of its work for this reason, the rest because of that.
    pub(super) fn break_pair(&mut self, pair: u64, mut status: u32) {
        let Some(one) = self.pairs.get_mut(&pair) else { return };
        let was_connected = std::mem::replace(&mut one.state, State::Failed) == State::Connected;
        if was_connected && let Some(device) = self.devices.get_mut(&one.device) {
            let slots = self.shared.get_mut(&one.shared).filter(|_| CUT_OFF.get());
            let half = slots.and_then(VecDeque::pop_front).map(|slot| (one.receives, slot.id));
            device.push(Later { rests: 3 * u32::from(half.is_some()), pair, half, tells: !MUTE.get() });
        }
        let (queue, work, acks) = (one.sends, std::mem::take(&mut one.work), std::mem::take(&mut one.acks));
        acks.into_iter().for_each(|done| self.complete(queue, done));
        for (work, _) in work {
            self.complete(queue, Done { id: work.id, status, kind: work.kind, bytes: 0 });
            status = FLUSHED;
        }
    }

    /// What is under way is lost, and the device gives up.
    pub(super) fn lose(&mut self, pair: u64) {
        let Some(one) = self.pairs.get_mut(&pair) else { return };
        let lost = Work { id: 0, kind: SEND, inline: 1, address: 0, len: 0, key: 0, remote: 0, remote_key: 0 };
        one.work.push_back((lost, Vec::new()));
        self.break_pair(pair, NO_ANSWER);
    }

    /// Does what can be done.
    pub(super) fn drive(&mut self) {
        let all: Vec<u64> = self.pairs.keys().copied().collect();
        for pair in all {
            while self.step(pair) {}
        }
    }

    /// Does one piece of a pair's work. Returns whether it did.
    fn step(&mut self, pair: u64) -> bool {
        let one = &self.pairs[&pair];
        if one.state != State::Connected || is_late() {
            return false;
        }
        let (queue, peer) = (one.sends, one.peer);
        if one.work.is_empty() || !one.acks.is_empty() && is_late() {
            let acks = std::mem::take(&mut self.pairs.get_mut(&pair).expect("it is there").acks);
            acks.into_iter().for_each(|done| self.complete(queue, done));
            return false;
        }
        let (work, bytes) = one.work[0].clone();
        let there = match self.pairs.get(&peer) {
            Some(there) if there.state == State::Connected && there.peer == pair => there,
            Some(there) if matches!(there.state, State::New | State::Begun) => return false,
            _ => {
                self.break_pair(pair, NO_ANSWER);
                return false;
            }
        };
        let mut done = Done { id: work.id, status: 0, kind: work.kind, bytes: 0 };
        if work.kind == SEND {
            let (shared, receives) = (there.shared, there.receives);
            let Some(slot) = self.shared.get_mut(&shared).and_then(VecDeque::pop_front) else { return false };
            assert!(bytes.len() <= slot.len as usize, "a message is longer than the slot");
            // SAFETY: the slot is registered and posted, so nobody else uses it.
            unsafe { std::slice::from_raw_parts_mut(slot.address as *mut u8, bytes.len()) }.copy_from_slice(&bytes);
            let came = Done { id: slot.id, status: 0, kind: RECEIVE, bytes: bytes.len() as u32 };
            self.complete(receives, came);
        } else {
            let memory = self.memory.get(&u64::from(work.remote_key));
            let (needs, is_read) = if work.kind == READ { (REMOTE_READ, true) } else { (REMOTE_WRITE, false) };
            let Some(memory) = memory.filter(|m| m.access & needs != 0 && m.has(work.remote, work.len)) else {
                self.break_pair(pair, NO_ACCESS);
                return false;
            };
            let own = &self.memory[&u64::from(work.key)];
            assert!(own.has(work.address, work.len));
            let (from, at, to) =
                if is_read { (memory, work.remote, work.address) } else { (own, work.address, work.remote) };
            let bytes = &from.content.as_ref().expect("it is not written")[(at - from.address) as usize..];
            // SAFETY: registered memory that the work names, so nobody else uses it.
            unsafe { std::slice::from_raw_parts_mut(to as *mut u8, work.len as usize) }
                .copy_from_slice(&bytes[..work.len as usize]);
            done.bytes = work.len;
        }
        let one = self.pairs.get_mut(&pair).expect("it is there");
        one.work.pop_front();
        one.acks.push_back(done);
        if !is_late() {
            let acks = std::mem::take(&mut one.acks);
            acks.into_iter().for_each(|done| self.complete(queue, done));
        }
        true
    }
}
