//! A device of software for tests: queue pairs of this process, connected by copies.
//!
//! It is driven by the calls of its table, under one lock. What a test wants of it, it says to its own thread: [`fail`] lets
//! a call fail, [`shuffle`] lets work complete late and completions of different queues come in any order, [`break_pairs`] breaks queue
//! pairs, [`cut_off`] lets messages end in the middle, [`move_to`] gives the ports other addresses. Invariant: as with a device, what one side sends comes whole, once and in order, or the queue pair fails.

use base::protocol::rdma::BY_GID;
use base::rdma::*;
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::ffi::{c_char, c_int};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

const FLUSHED: u32 = 5;
const NO_ACCESS: u32 = 10;
const NO_ANSWER: u32 = 12;

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

struct Channel {
    fd: EventFd,
    pending: u32,
}

struct Queue {
    done: VecDeque<Done>,
    armed: bool,
    channel: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    New,
    Begun,
    Connected,
    Failed,
}

struct FakePair {
    state: State,
    /// The number of the pair that it is connected to.
    peer: u64,
    sends: u64,
    receives: u64,
    shared: u64,
    /// Work that is posted, with the bytes of a send.
    work: VecDeque<(Work, Vec<u8>)>,
    /// Completions of sends that are on their way back.
    acks: VecDeque<Done>,
    device: u64,
}

/// What a device tells after a while.
struct Later {
    /// So many times it is asked before.
    rests: u32,
    pair: u64,
    /// The queue, and the slot that comes with a failure then.
    half: Option<(u64, u64)>,
    tells: bool,
}

struct Slot {
    id: u64,
    address: u64,
    len: u32,
}

struct Memory {
    address: u64,
    len: u64,
    /// The content when it was registered, if no device may write it: a device keeps the pages too.
    content: Option<Vec<u8>>,
    /// What the other side may do.
    access: c_int,
}

impl Memory {
    fn has(&self, address: u64, len: u32) -> bool {
        let end = address.checked_add(len.into());
        self.address <= address && end.is_some_and(|end| end <= self.address + self.len)
    }
}

#[derive(Default)]
struct World {
    last: u64,
    devices: BTreeMap<u64, Vec<Later>>,
    channels: BTreeMap<u64, Channel>,
    queues: BTreeMap<u64, Queue>,
    shared: BTreeMap<u64, VecDeque<Slot>>,
    pairs: BTreeMap<u64, FakePair>,
    memory: BTreeMap<u64, Memory>,
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

fn world() -> MutexGuard<'static, World> {
    WORLD.lock().unwrap_or_else(PoisonError::into_inner)
}

fn handle(id: u64) -> Handle {
    std::ptr::without_provenance_mut(id as usize)
}

fn id(handle: Handle) -> u64 {
    handle.addr() as u64
}

/// What a call returns.
fn returned(result: Result<(), c_int>) -> c_int {
    result.err().unwrap_or(0)
}

impl World {
    fn new_id(&mut self) -> u64 {
        self.last += 1;
        MADE.with_borrow_mut(|made| made.push(self.last));
        self.last
    }

    fn complete(&mut self, queue: u64, done: Done) {
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
    fn break_pair(&mut self, pair: u64, mut status: u32) {
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
    fn lose(&mut self, pair: u64) {
        let Some(one) = self.pairs.get_mut(&pair) else { return };
        let lost = Work { id: 0, kind: SEND, inline: 1, address: 0, len: 0, key: 0, remote: 0, remote_key: 0 };
        one.work.push_back((lost, Vec::new()));
        self.break_pair(pair, NO_ANSWER);
    }

    /// Does what can be done.
    fn drive(&mut self) {
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

/// The table of the device.
pub(super) static TABLE: Table = Table {
    version: VERSION,
    size: size_of::<Table>() as u32,
    list,
    open,
    close,
    domain,
    drop_domain,
    channel,
    drop_channel,
    event,
    queue,
    drop_queue,
    arm,
    poll,
    shared,
    drop_shared,
    receive,
    pair,
    drop_pair,
    begin,
    connect,
    fork,
    fail: fail_pair,
    post,
    register,
    unregister,
    trouble,
};

// Of all that follows: pointers lead to what can be read or written, as the table promises.

unsafe extern "C" fn fork() -> c_int {
    0
}

unsafe extern "C" fn list(out: *mut Port, most: c_int) -> c_int {
    for n in 0..most.min(2) {
        let mut gid = [0; 16];
        gid[10..].copy_from_slice(&[0xff, 0xff, 10, 0, NETWORK.get(), n as u8 + 1]);
        let mut device = [0; 64];
        device[0] = b'f' as c_char;
        let port = Port { device, gid, lid: 0, port: n as u8 + 1, gid_index: 1, kind: BY_GID, mtu: 3 };
        // SAFETY: see above.
        unsafe { out.add(n as usize).write(port) };
    }
    most.min(2)
}

unsafe extern "C" fn open(_: *const c_char, limits: *mut Limits, out: *mut Handle) -> c_int {
    if let Err(e) = checked("open") {
        return e;
    }
    let mut world = world();
    let new = world.new_id();
    world.devices.insert(new, Vec::new());
    // SAFETY: see above.
    unsafe {
        *limits = Limits { work: 1000, completions: 1000, shared_receives: 4000, reads: READS.get() };
        *out = handle(new);
    }
    0
}

unsafe extern "C" fn close(device: Handle) {
    world().devices.remove(&id(device)).expect("it is open");
}

unsafe extern "C" fn domain(device: Handle, out: *mut Handle) -> c_int {
    // SAFETY: see above.
    returned(checked("domain").map(|()| unsafe { *out = device }))
}

unsafe extern "C" fn drop_domain(_: Handle) {}

unsafe extern "C" fn channel(_: Handle, fd: *mut c_int, out: *mut Handle) -> c_int {
    if let Err(e) = checked("channel") {
        return e;
    }
    let new = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_SEMAPHORE).unwrap();
    let mut world = world();
    let n = world.new_id();
    // SAFETY: see above.
    unsafe {
        *fd = new.as_fd().as_raw_fd();
        *out = handle(n);
    }
    world.channels.insert(n, Channel { fd: new, pending: 0 });
    0
}

unsafe extern "C" fn drop_channel(channel: Handle) {
    world().channels.remove(&id(channel)).expect("it is there");
}

unsafe extern "C" fn event(channel: Handle) -> c_int {
    let mut world = world();
    let channel = world.channels.get_mut(&id(channel)).expect("it is there");
    if channel.pending == 0 {
        return 0;
    }
    channel.pending -= 1;
    channel.fd.read().expect("it was written");
    1
}

unsafe extern "C" fn queue(_: Handle, _: c_int, channel: Handle, out: *mut Handle) -> c_int {
    if let Err(e) = checked("queue") {
        return e;
    }
    let mut world = world();
    let new = world.new_id();
    world.queues.insert(new, Queue { done: VecDeque::new(), armed: false, channel: id(channel) });
    // SAFETY: see above.
    unsafe { *out = handle(new) };
    0
}

unsafe extern "C" fn drop_queue(queue: Handle) {
    world().queues.remove(&id(queue)).expect("it is there");
}

unsafe extern "C" fn arm(queue: Handle) -> c_int {
    returned(checked("arm").map(|()| {
        let mut world = world();
        world.queues.get_mut(&id(queue)).expect("it is there").armed = true;
        world.drive();
    }))
}

unsafe extern "C" fn poll(queue: Handle, out: *mut Done, most: c_int) -> c_int {
    if let Err(e) = checked("poll") {
        return e;
    }
    let mut world = world();
    world.drive();
    let queue = world.queues.get_mut(&id(queue)).expect("it is there");
    let n = queue.done.len().min(most as usize);
    for (at, done) in queue.done.drain(..n).enumerate() {
        // SAFETY: see above.
        unsafe { out.add(at).write(done) };
    }
    n as c_int
}

unsafe extern "C" fn shared(_: Handle, _: u32, out: *mut Handle) -> c_int {
    if let Err(e) = checked("shared") {
        return e;
    }
    let mut world = world();
    let new = world.new_id();
    world.shared.insert(new, VecDeque::new());
    // SAFETY: see above.
    unsafe { *out = handle(new) };
    0
}

unsafe extern "C" fn drop_shared(shared: Handle) {
    world().shared.remove(&id(shared)).expect("it is there");
}

unsafe extern "C" fn receive(shared: Handle, slot: u64, address: u64, len: u32, key: u32) -> c_int {
    returned(checked("receive").map(|()| {
        let mut world = world();
        let memory = &world.memory[&u64::from(key)];
        assert!(memory.has(address, len));
        let slots = world.shared.get_mut(&id(shared)).expect("it is there");
        assert!(slots.iter().all(|other| other.id != slot), "a slot is posted twice");
        slots.push_back(Slot { id: slot, address, len });
    }))
}

unsafe extern "C" fn pair(domain: Handle, wanted: *const Wanted, out: *mut Pair) -> c_int {
    if let Err(e) = checked("pair") {
        return e;
    }
    // SAFETY: see above.
    let wanted = unsafe { &*wanted };
    let mut world = world();
    let new = world.new_id();
    let [sends, receives, shared] = [wanted.sends, wanted.receives, wanted.shared].map(id);
    let (state, work, acks) = (State::New, VecDeque::new(), VecDeque::new());
    world.pairs.insert(new, FakePair { state, peer: 0, sends, receives, shared, work, acks, device: id(domain) });
    // SAFETY: see above.
    unsafe { *out = Pair { handle: handle(new), number: new as u32, inline: 100 } };
    0
}

unsafe extern "C" fn drop_pair(pair: Handle) {
    world().pairs.remove(&id(pair)).expect("it is there");
}

unsafe extern "C" fn begin(pair: Handle, port: u8) -> c_int {
    returned(checked("begin").map(|()| {
        assert!((1..=2).contains(&port));
        world().pairs.get_mut(&id(pair)).expect("it is there").state = State::Begun;
    }))
}

unsafe extern "C" fn connect(pair: Handle, route: *const Route) -> c_int {
    returned(checked("connect").map(|()| {
        let mut world = world();
        let pair = world.pairs.get_mut(&id(pair)).expect("it is there");
        assert_eq!(pair.state, State::Begun);
        // SAFETY: see above.
        (pair.state, pair.peer) = (State::Connected, unsafe { (*route).number }.into());
    }))
}

unsafe extern "C" fn fail_pair(pair: Handle) -> c_int {
    world().break_pair(id(pair), FLUSHED);
    0
}

unsafe extern "C" fn post(pair: Handle, work: *const Work) -> c_int {
    if let Err(e) = checked("post") {
        return e;
    }
    // SAFETY: see above.
    let work = unsafe { *work };
    let mut world = world();
    let mut bytes = Vec::new();
    if work.kind == SEND {
        assert!(work.inline == 0 || work.len <= 100);
        // SAFETY: the work names this memory.
        bytes.extend_from_slice(unsafe { std::slice::from_raw_parts(work.address as *const u8, work.len as usize) });
    }
    let one = world.pairs.get_mut(&id(pair)).expect("it is there");
    one.work.push_back((work, bytes));
    if one.state == State::Failed {
        world.break_pair(id(pair), FLUSHED);
    }
    world.drive();
    0
}

unsafe extern "C" fn register(_: Handle, address: u64, len: u64, access: c_int, out: *mut Region) -> c_int {
    if let Err(e) = checked("register") {
        return e;
    }
    let mut world = world();
    let new = world.new_id();
    // SAFETY: see above.
    let content = || unsafe { std::slice::from_raw_parts(address as *const u8, len as usize) }.to_vec();
    let content = (access & LOCAL_WRITE == 0).then(content);
    world.memory.insert(new, Memory { address, len, content, access });
    // SAFETY: see above.
    unsafe { *out = Region { handle: handle(new), local: new as u32, remote: new as u32 } };
    0
}

unsafe extern "C" fn unregister(region: Handle) -> c_int {
    world().memory.remove(&id(region)).expect("it is registered");
    0
}

unsafe extern "C" fn trouble(device: Handle, of: *mut Handle) -> c_int {
    let mut world = world();
    let later = world.devices.get_mut(&id(device)).expect("it is open");
    later.iter_mut().for_each(|one| one.rests = one.rests.saturating_sub(1));
    let Some(at) = later.iter().position(|one| one.rests == 0) else { return -1 };
    let Later { pair, half, tells, .. } = later.swap_remove(at);
    if let Some((queue, slot)) = half {
        world.complete(queue, Done { id: slot, status: FLUSHED, kind: RECEIVE, bytes: 0 });
    }
    if !tells {
        return -1;
    }
    // SAFETY: see above.
    unsafe { *of = handle(pair) };
    LAST_RECEIVE
}
