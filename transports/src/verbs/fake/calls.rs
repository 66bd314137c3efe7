//! The calls of the fake device's table.

use super::world::{Channel, FLUSHED, FakePair, Later, Memory, Queue, Slot, State, world};
use super::{NETWORK, READS, checked};
use base::protocol::rdma::BY_GID;
use base::rdma::*;
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::collections::VecDeque;
use std::ffi::{c_char, c_int};
use std::os::fd::{AsFd, AsRawFd};

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

/// The table of the device.
pub(in crate::verbs) static TABLE: Table = Table {
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
