//! The plug-in for RDMA devices: libibverbs behind the table of [`base::rdma`].
//!
//! The transport loads it where a device is, so the library itself never needs libibverbs. It has no protocol and keeps no
//! state but libibverbs itself, which stays loaded. Invariant: no function here blocks, but for those that make and end
//! things.

mod ffi;
#[cfg(test)]
mod tests;

use base::protocol::rdma::{BY_GID, BY_LID};
use base::rdma::{
    Done, Handle, Limits, Pair, Port, READ, RECEIVE, REMOTE_READ, REMOTE_WRITE, Region, Route, SEND, Table, VERSION,
    WRITE, Wanted, Work,
};
use ffi::*;
use libc::{c_char, c_int, c_void};
use std::ffi::CStr;
use std::fs;
use std::mem::MaybeUninit;
use std::ptr::{null, null_mut};
use std::sync::OnceLock;

/// How many completions are taken from libibverbs at a time.
const AT_ONCE: usize = 16;
/// The most GIDs of a port that are looked at.
const GIDS: u8 = 64;

static FUNCTIONS: OnceLock<Option<Functions>> = OnceLock::new();

fn functions() -> Option<&'static Functions> {
    FUNCTIONS.get_or_init(Functions::load).as_ref()
}

/// libibverbs, in functions that are called only through the table.
fn verbs() -> &'static Functions {
    functions().expect("the table is given only if libibverbs is loaded")
}

/// The table; null if libibverbs cannot be loaded.
#[unsafe(no_mangle)]
pub extern "C" fn mpi_connect_verbs() -> *const Table {
    if functions().is_some() { &raw const TABLE } else { null() }
}

static TABLE: Table = Table {
    version: VERSION,
    size: size_of::<Table>() as u32,
    fork,
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
    fail,
    post,
    register,
    unregister,
    trouble,
};

/// The error number of the last call, below 0.
fn error() -> c_int {
    match std::io::Error::last_os_error().raw_os_error() {
        Some(e) if e > 0 => -e,
        _ => -libc::EIO,
    }
}

/// What a call of libibverbs that returns an error number means: some versions return -1 and set `errno`.
fn result(returned: c_int) -> c_int {
    match returned {
        0 => 0,
        e if e > 0 => -e,
        _ => error(),
    }
}

/// Writes what was made to `out`, or returns why it was not.
///
/// # Safety
/// `out` can be written.
unsafe fn made<T>(object: *mut T, out: *mut Handle) -> c_int {
    if object.is_null() {
        return error();
    }
    // SAFETY: the caller's promise.
    unsafe { *out = object.cast() };
    0
}

unsafe extern "C" fn fork() -> c_int {
    // Versions without it do not protect themselves.
    // SAFETY: it takes nothing.
    verbs().ibv_fork_init.map_or(-libc::ENOSYS, |init| result(unsafe { init() }))
}

unsafe extern "C" fn list(out: *mut Port, most: c_int) -> c_int {
    let v = verbs();
    let mut count = 0;
    // SAFETY: the list ends at its count, and is freed when it is used no more.
    unsafe {
        let devices = (v.ibv_get_device_list)(&raw mut count);
        if devices.is_null() {
            return 0;
        }
        let mut found = 0;
        for n in 0..count as usize {
            let context = (v.ibv_open_device)(*devices.add(n));
            if context.is_null() {
                continue;
            }
            let name = CStr::from_ptr((v.ibv_get_device_name)(*devices.add(n)));
            let mut attr = DeviceAttr([0; 80]);
            let known = (v.ibv_query_device)(context, &raw mut attr) == 0;
            let ports = if known { (attr.0[DeviceAttr::PORTS / 4] >> (8 * (DeviceAttr::PORTS % 4))) as u8 } else { 0 };
            for port in (1..=ports).filter_map(|n| look_at(context, name, n)) {
                if found < most {
                    out.add(found as usize).write(port);
                }
                found += 1;
            }
            (v.ibv_close_device)(context);
        }
        (v.ibv_free_device_list)(devices);
        found
    }
}

/// A port, if it is up and has an address.
///
/// # Safety
/// The context is open.
unsafe fn look_at(context: *mut Context, name: &CStr, number: u8) -> Option<Port> {
    let v = verbs();
    let mut attr = PortAttr([0; 128]);
    // SAFETY: the caller's promise; `attr` is longer than what is written.
    let known = unsafe { (v.ibv_query_port)(context, number, &raw mut attr) } == 0;
    let word = |at: usize| u32::from_ne_bytes([attr.0[at], attr.0[at + 1], attr.0[at + 2], attr.0[at + 3]]);
    if !known || word(PortAttr::STATE) != ACTIVE {
        return None;
    }
    let is_ethernet = attr.0[PortAttr::LINK_LAYER] == ETHERNET;
    let mut best: Option<(u8, u8, [u8; 16])> = None;
    for index in 0..GIDS {
        let mut gid = [0; 16];
        // SAFETY: as above.
        let known = unsafe { (v.ibv_query_gid)(context, number, c_int::from(index), &raw mut gid) } == 0;
        if !known || gid[8..] == [0; 8] {
            continue;
        }
        let grade = if is_ethernet { grade(&gid, &kind_of(name, number, index)) } else { 0 };
        if best.is_none_or(|(other, ..)| grade < other) {
            best = Some((grade, index, gid));
        }
    }
    let (_, gid_index, gid) = best?;
    let mut device = [0; 64];
    for (to, from) in device[..63].iter_mut().zip(name.to_bytes()) {
        *to = *from as c_char;
    }
    let lid = u16::from_ne_bytes([attr.0[PortAttr::LID], attr.0[PortAttr::LID + 1]]);
    let (kind, mtu) = (if is_ethernet { BY_GID } else { BY_LID }, word(PortAttr::MTU) as u8);
    Some(Port { device, gid, lid, port: number, gid_index, kind, mtu })
}

/// Which kind of GID the kernel says that this is.
fn kind_of(name: &CStr, port: u8, index: u8) -> String {
    let name = name.to_string_lossy();
    fs::read_to_string(format!("/sys/class/infiniband/{name}/ports/{port}/gid_attrs/types/{index}")).unwrap_or_default()
}

/// How good a GID of an Ethernet port is, the lowest first: of the second version, which is routed, and of an address that
/// was given to the interface rather than one of the link alone.
fn grade(gid: &[u8; 16], kind: &str) -> u8 {
    let is_v4 = gid[..10] == [0; 10] && gid[10..12] == [0xff; 2];
    let is_link_local = gid[0] == 0xfe && gid[1] & 0xc0 == 0x80;
    let address = if is_v4 { 0 } else { 1 + u8::from(is_link_local) };
    address + if kind.trim() == "RoCE v2" { 0 } else { 4 }
}

unsafe extern "C" fn open(device: *const c_char, limits: *mut Limits, out: *mut Handle) -> c_int {
    let v = verbs();
    let mut count = 0;
    // SAFETY: the list ends at its count; the caller's name ends with a zero, and what is written can be.
    unsafe {
        let devices = (v.ibv_get_device_list)(&raw mut count);
        if devices.is_null() {
            return error();
        }
        let all = std::slice::from_raw_parts(devices, count as usize);
        let wanted = CStr::from_ptr(device);
        let one = all.iter().find(|one| CStr::from_ptr((v.ibv_get_device_name)(**one)) == wanted);
        let context = one.map_or(null_mut(), |one| (v.ibv_open_device)(*one));
        let why = error();
        (v.ibv_free_device_list)(devices);
        if context.is_null() {
            return if one.is_some() { why } else { -libc::ENODEV };
        }
        let mut attr = DeviceAttr([0; 80]);
        let known = result((v.ibv_query_device)(context, &raw mut attr));
        if known < 0 || !is_nonblocking((*context).async_fd) {
            (v.ibv_close_device)(context);
            return known.min(-1);
        }
        *limits = Limits {
            work: attr.0[DeviceAttr::WORK],
            completions: attr.0[DeviceAttr::COMPLETIONS],
            shared_receives: attr.0[DeviceAttr::SHARED_RECEIVES],
            reads: attr.0[DeviceAttr::READS_ANSWERED].min(attr.0[DeviceAttr::READS_BEGUN]),
        };
        *out = context.cast();
    }
    0
}

/// Makes a descriptor so.
fn is_nonblocking(fd: c_int) -> bool {
    // SAFETY: a call on a number; a wrong one is an error.
    unsafe {
        let flags = libc::fcntl(fd, libc::F_GETFL);
        flags >= 0 && libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK) == 0
    }
}

// Of all that follows: the objects are those that this table has made and that were not dropped, and pointers lead to what
// can be read or written. The caller promises both.

unsafe extern "C" fn close(device: Handle) {
    // SAFETY: see above.
    unsafe { (verbs().ibv_close_device)(device.cast()) };
}

unsafe extern "C" fn domain(device: Handle, out: *mut Handle) -> c_int {
    // SAFETY: see above.
    unsafe { made((verbs().ibv_alloc_pd)(device.cast()), out) }
}

unsafe extern "C" fn drop_domain(domain: Handle) {
    // SAFETY: see above.
    unsafe { (verbs().ibv_dealloc_pd)(domain) };
}

unsafe extern "C" fn channel(device: Handle, fd: *mut c_int, out: *mut Handle) -> c_int {
    // SAFETY: see above.
    unsafe {
        let channel = (verbs().ibv_create_comp_channel)(device.cast());
        if channel.is_null() {
            return error();
        }
        if !is_nonblocking((*channel).fd) {
            let why = error();
            (verbs().ibv_destroy_comp_channel)(channel);
            return why;
        }
        *fd = (*channel).fd;
        made(channel, out)
    }
}

unsafe extern "C" fn drop_channel(channel: Handle) {
    // SAFETY: see above.
    unsafe { (verbs().ibv_destroy_comp_channel)(channel.cast()) };
}

unsafe extern "C" fn event(channel: Handle) -> c_int {
    let (mut cq, mut context) = (null_mut(), null_mut());
    // SAFETY: see above.
    unsafe {
        if (verbs().ibv_get_cq_event)(channel.cast(), &raw mut cq, &raw mut context) != 0 {
            return 0;
        }
        (verbs().ibv_ack_cq_events)(cq, 1);
    }
    1
}

unsafe extern "C" fn queue(device: Handle, entries: c_int, channel: Handle, out: *mut Handle) -> c_int {
    // SAFETY: see above.
    unsafe { made((verbs().ibv_create_cq)(device.cast(), entries, null_mut(), channel.cast(), 0), out) }
}

unsafe extern "C" fn drop_queue(queue: Handle) {
    // SAFETY: see above.
    unsafe { (verbs().ibv_destroy_cq)(queue.cast()) };
}

unsafe extern "C" fn arm(queue: Handle) -> c_int {
    let cq: *mut Cq = queue.cast();
    // SAFETY: see above.
    result(unsafe { ((*(*cq).context).req_notify_cq)(cq, 0) })
}

unsafe extern "C" fn poll(queue: Handle, out: *mut Done, most: c_int) -> c_int {
    let cq: *mut Cq = queue.cast();
    // Most often there is nothing, so nothing is written before it is known.
    let mut some = [const { MaybeUninit::<Wc>::uninit() }; AT_ONCE];
    // SAFETY: see above.
    let n = unsafe { ((*(*cq).context).poll_cq)(cq, most.min(AT_ONCE as c_int), some.as_mut_ptr().cast()) };
    for (at, wc) in some.iter().take(n.max(0) as usize).enumerate() {
        // SAFETY: libibverbs has written this number of them.
        let wc = unsafe { wc.assume_init_ref() };
        let kind = match wc.opcode {
            DONE_WRITE => WRITE,
            DONE_READ => READ,
            opcode if opcode & DONE_RECEIVE != 0 => RECEIVE,
            _ => SEND,
        };
        // SAFETY: see above.
        unsafe { out.add(at).write(Done { id: wc.id, status: wc.status, kind, bytes: wc.bytes }) };
    }
    n
}

unsafe extern "C" fn shared(domain: Handle, receives: u32, out: *mut Handle) -> c_int {
    let mut init = SrqInit { context: null_mut(), receives, pieces: 1, limit: 0 };
    // SAFETY: see above.
    unsafe { made((verbs().ibv_create_srq)(domain, &raw mut init), out) }
}

unsafe extern "C" fn drop_shared(shared: Handle) {
    // SAFETY: see above.
    unsafe { (verbs().ibv_destroy_srq)(shared.cast()) };
}

unsafe extern "C" fn receive(shared: Handle, id: u64, address: u64, len: u32, key: u32) -> c_int {
    let srq: *mut Srq = shared.cast();
    let mut piece = Sge { address, len, key };
    let mut wr = RecvWr { id, next: null_mut(), list: &raw mut piece, count: 1 };
    let mut bad = null_mut();
    // SAFETY: see above.
    result(unsafe { ((*(*srq).context).post_srq_recv)(srq, &raw mut wr, &raw mut bad) })
}

unsafe extern "C" fn pair(domain: Handle, wanted: *const Wanted, out: *mut Pair) -> c_int {
    // SAFETY: see above.
    let wanted = unsafe { &*wanted };
    let mut inline = wanted.inline;
    loop {
        let cap = Cap { send_wr: wanted.work, recv_wr: 0, send_sge: 1, recv_sge: 0, inline };
        let (send_cq, recv_cq, srq) = (wanted.sends.cast(), wanted.receives.cast(), wanted.shared.cast());
        let mut init = QpInit { context: null_mut(), send_cq, recv_cq, srq, cap, kind: RC, all_signaled: 0 };
        // SAFETY: see above.
        let qp = unsafe { (verbs().ibv_create_qp)(domain, &raw mut init) };
        if !qp.is_null() {
            // SAFETY: it was just made; see above for `out`.
            unsafe { *out = Pair { handle: qp.cast(), number: (*qp).number, inline: init.cap.inline.max(inline) } };
            return 0;
        }
        let why = error();
        if inline == 0 {
            return why;
        }
        inline /= 2;
    }
}

unsafe extern "C" fn drop_pair(pair: Handle) {
    // SAFETY: see above.
    unsafe { (verbs().ibv_destroy_qp)(pair.cast()) };
}

/// # Safety
/// As for all functions here.
unsafe fn modify(pair: Handle, mut attr: QpAttr, fields: c_int) -> c_int {
    // SAFETY: the caller's promise.
    result(unsafe { (verbs().ibv_modify_qp)(pair.cast(), &raw mut attr, fields | mask::STATE) })
}

unsafe extern "C" fn begin(pair: Handle, port: u8) -> c_int {
    let access = (REMOTE_READ | REMOTE_WRITE) as u32;
    let attr = QpAttr { state: INIT, port, access, ..QpAttr::default() };
    // SAFETY: see above.
    unsafe { modify(pair, attr, mask::PKEY_INDEX | mask::PORT | mask::ACCESS) }
}

unsafe extern "C" fn connect(pair: Handle, route: *const Route) -> c_int {
    // SAFETY: see above.
    let r = unsafe { &*route };
    let (high, low) = r.gid.split_at(8);
    let gid = [high, low].map(|half| u64::from_ne_bytes(half.try_into().unwrap_or_default()));
    let (gid_index, is_global, port) = (r.gid_index, r.by_gid, r.port);
    let ah = Ah { gid, gid_index, hops: 64, lid: r.lid, is_global, port, ..Ah::default() };
    let ready = QpAttr {
        state: RTR,
        ah,
        path_mtu: r.mtu.into(),
        dest_qp_num: r.number,
        rq_psn: r.their_sequence,
        max_dest_rd_atomic: r.answers,
        min_rnr_timer: r.unready_timer,
        ..QpAttr::default()
    };
    let fields =
        mask::AV | mask::PATH_MTU | mask::DEST_QPN | mask::RQ_PSN | mask::MAX_DEST_RD_ATOMIC | mask::MIN_RNR_TIMER;
    // SAFETY: see above.
    let done = unsafe { modify(pair, ready, fields) };
    if done != 0 {
        return done;
    }
    let send = QpAttr {
        state: RTS,
        sq_psn: r.own_sequence,
        timeout: r.timeout,
        retry_cnt: r.retries,
        rnr_retry: r.unready_retries,
        max_rd_atomic: r.reads,
        ..QpAttr::default()
    };
    let fields = mask::SQ_PSN | mask::TIMEOUT | mask::RETRY_CNT | mask::RNR_RETRY | mask::MAX_RD_ATOMIC;
    // SAFETY: see above.
    unsafe { modify(pair, send, fields) }
}

unsafe extern "C" fn fail(pair: Handle) -> c_int {
    // SAFETY: see above.
    unsafe { modify(pair, QpAttr { state: ERROR, ..QpAttr::default() }, 0) }
}

unsafe extern "C" fn post(pair: Handle, work: *const Work) -> c_int {
    // SAFETY: see above.
    let work = unsafe { &*work };
    let qp: *mut Qp = pair.cast();
    let mut piece = Sge { address: work.address, len: work.len, key: work.key };
    let opcode = match work.kind {
        SEND => OP_SEND,
        READ => OP_READ,
        WRITE => OP_WRITE,
        _ => return -libc::EINVAL,
    };
    let flags = if work.inline != 0 { SIGNALED | INLINE } else { SIGNALED };
    let mut wr = SendWr {
        id: work.id,
        next: null_mut(),
        list: &raw mut piece,
        count: 1,
        opcode,
        flags,
        immediate: 0,
        remote: work.remote,
        remote_key: work.remote_key,
        rest: [0; 9],
    };
    let mut bad = null_mut();
    // SAFETY: see above; the lists end here.
    result(unsafe { ((*(*qp).context).post_send)(qp, &raw mut wr, &raw mut bad) })
}

unsafe extern "C" fn register(domain: Handle, address: u64, len: u64, access: c_int, out: *mut Region) -> c_int {
    // SAFETY: see above.
    unsafe {
        let mr = (verbs().ibv_reg_mr)(domain, address as *mut c_void, len as usize, access);
        if mr.is_null() {
            return error();
        }
        *out = Region { handle: mr.cast(), local: (*mr).lkey, remote: (*mr).rkey };
    }
    0
}

unsafe extern "C" fn unregister(region: Handle) -> c_int {
    // SAFETY: see above.
    result(unsafe { (verbs().ibv_dereg_mr)(region.cast()) })
}

unsafe extern "C" fn trouble(device: Handle, of: *mut Handle) -> c_int {
    let mut event = AsyncEvent { element: null_mut(), kind: 0 };
    // SAFETY: see above.
    unsafe {
        if (verbs().ibv_get_async_event)(device.cast(), &raw mut event) != 0 {
            return -1;
        }
        (verbs().ibv_ack_async_event)(&raw mut event);
        *of = event.element;
    }
    event.kind as c_int
}
