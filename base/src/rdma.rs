//! The table of functions between the transport over RDMA devices and the plug-in that calls libibverbs: the layouts that
//! both are built with.
//!
//! `verbs/` fills the table, `transports/` calls it, and a fake of a device fills one for tests. The functions decide nothing.
//! Those that can fail return 0, or an error number of the system below 0; what they make is written to the last argument.
//! Invariant: another layout or meaning is another [`VERSION`].

use std::ffi::{c_char, c_int, c_void};

/// The version of the table.
pub const VERSION: u32 = 3;
/// The one symbol of the plug-in: a [`Symbol`].
pub const SYMBOL: &str = "mpi_connect_verbs";
/// The type of the plug-in's symbol: returns the table, or null if libibverbs cannot be loaded.
pub type Symbol = unsafe extern "C" fn() -> *const Table;

/// An object of libibverbs.
pub type Handle = *mut c_void;

/// A port of a device that is up, and the GID that others should use.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Port {
    /// The name of the device, zeros behind.
    pub device: [c_char; 64],
    /// The GID that it is reached by.
    pub gid: [u8; 16],
    /// Its LID; 0 if it has none.
    pub lid: u16,
    /// The number of the port.
    pub port: u8,
    /// The index of that GID.
    pub gid_index: u8,
    /// How it is addressed: a number of [`crate::protocol::rdma::KINDS`].
    pub kind: u8,
    /// The longest packet: 1 to 5.
    pub mtu: u8,
}

/// What a device allows.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    /// Work requests of a queue.
    pub work: u32,
    /// Entries of a completion queue.
    pub completions: u32,
    /// Receives of a shared receive queue.
    pub shared_receives: u32,
    /// RDMA reads at a time, that it begins or answers.
    pub reads: u32,
}

/// Registered memory.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Region {
    /// The registration.
    pub handle: Handle,
    /// The key in own work requests.
    pub local: u32,
    /// The key for the other side.
    pub remote: u32,
}

/// A queue pair.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Pair {
    /// The queue pair.
    pub handle: Handle,
    /// Its number.
    pub number: u32,
    /// The most bytes of an inline send.
    pub inline: u32,
}

/// What a new queue pair is to have.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// The completion queue of sends and reads.
    pub sends: Handle,
    /// The completion queue of receives.
    pub receives: Handle,
    /// The shared receive queue.
    pub shared: Handle,
    /// Sends and reads that may be under way.
    pub work: u32,
    /// Bytes of inline sends. A device that has less gets less.
    pub inline: u32,
}

/// Where a queue pair leads, and how patient it is.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Route {
    /// The other side's GID.
    pub gid: [u8; 16],
    /// The other side's queue pair.
    pub number: u32,
    /// The number of its first packet.
    pub their_sequence: u32,
    /// The number of our first packet.
    pub own_sequence: u32,
    /// The other side's LID.
    pub lid: u16,
    /// The number of our port.
    pub port: u8,
    /// The index of our GID.
    pub gid_index: u8,
    /// The longest packet: 1 to 5.
    pub mtu: u8,
    /// 1: by its GID; 0: by its LID.
    pub by_gid: u8,
    /// RDMA reads that we begin at a time.
    pub reads: u8,
    /// RDMA reads that we answer at a time.
    pub answers: u8,
    /// The time until a packet is sent again, as the standard codes it.
    pub timeout: u8,
    /// How often it is sent again.
    pub retries: u8,
    /// How often it is sent again if nothing was posted to receive it; 7: always.
    pub unready_retries: u8,
    /// How long the other side then waits, as the standard codes it.
    pub unready_timer: u8,
}

/// Access to registered memory: the device may write it for own work requests.
pub const LOCAL_WRITE: c_int = 1;
/// The other side may write it.
pub const REMOTE_WRITE: c_int = 2;
/// The other side may read it.
pub const REMOTE_READ: c_int = 4;

/// Kinds of work and of completions.
pub const SEND: u32 = 0;
/// An RDMA read.
pub const READ: u32 = 1;
/// An RDMA write.
pub const WRITE: u32 = 2;
/// A receive.
pub const RECEIVE: u32 = 3;

/// A send, a read or a write, of one piece of memory. It always completes visibly.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// Comes back with the completion.
    pub id: u64,
    /// [`SEND`], [`READ`] or [`WRITE`].
    pub kind: u32,
    /// 1: the bytes are taken at once, and need no key.
    pub inline: u32,
    /// The memory here.
    pub address: u64,
    /// Its bytes.
    pub len: u32,
    /// Its key.
    pub key: u32,
    /// The memory there.
    pub remote: u64,
    /// Its key.
    pub remote_key: u32,
}

/// A completion. If it has failed, only `id` and `status` count.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Done {
    /// What the work had.
    pub id: u64,
    /// 0, or why it failed: `enum ibv_wc_status`.
    pub status: u32,
    /// [`SEND`], [`READ`], [`WRITE`] or [`RECEIVE`].
    pub kind: u32,
    /// Of a receive: the bytes that came.
    pub bytes: u32,
}

/// The event of a device that a queue pair in error takes nothing more of its shared receive queue.
pub const LAST_RECEIVE: c_int = 16;

/// The functions.
#[repr(C)]
#[allow(missing_docs)]
pub struct Table {
    /// [`VERSION`].
    pub version: u32,
    /// The bytes of this table.
    pub size: u32,
    /// Has what devices use stay with this process if it forks, also where the kernel does not see to it. To be called before
    /// all others.
    pub fork: unsafe extern "C" fn() -> c_int,
    /// Lists ports that are up: how many there are, of which the first `most` are written.
    pub list: unsafe extern "C" fn(out: *mut Port, most: c_int) -> c_int,
    pub open: unsafe extern "C" fn(device: *const c_char, limits: *mut Limits, out: *mut Handle) -> c_int,
    pub close: unsafe extern "C" fn(device: Handle),
    pub domain: unsafe extern "C" fn(device: Handle, out: *mut Handle) -> c_int,
    pub drop_domain: unsafe extern "C" fn(domain: Handle),
    /// A descriptor that is readable when a completion queue that was armed has got a completion.
    pub channel: unsafe extern "C" fn(device: Handle, fd: *mut c_int, out: *mut Handle) -> c_int,
    pub drop_channel: unsafe extern "C" fn(channel: Handle),
    /// Takes one event off the channel: 1 if there was one, else 0.
    pub event: unsafe extern "C" fn(channel: Handle) -> c_int,
    pub queue: unsafe extern "C" fn(device: Handle, entries: c_int, channel: Handle, out: *mut Handle) -> c_int,
    pub drop_queue: unsafe extern "C" fn(queue: Handle),
    /// The next completion makes an event.
    pub arm: unsafe extern "C" fn(queue: Handle) -> c_int,
    /// Takes completions: how many.
    pub poll: unsafe extern "C" fn(queue: Handle, out: *mut Done, most: c_int) -> c_int,
    pub shared: unsafe extern "C" fn(domain: Handle, receives: u32, out: *mut Handle) -> c_int,
    pub drop_shared: unsafe extern "C" fn(shared: Handle),
    pub receive: unsafe extern "C" fn(shared: Handle, id: u64, address: u64, len: u32, key: u32) -> c_int,
    pub pair: unsafe extern "C" fn(domain: Handle, wanted: *const Wanted, out: *mut Pair) -> c_int,
    pub drop_pair: unsafe extern "C" fn(pair: Handle),
    /// From the new state to the one in which it is given a route. The other side may then read and write our memory, as far as
    /// it is registered for that.
    pub begin: unsafe extern "C" fn(pair: Handle, port: u8) -> c_int,
    /// Connects it: it can receive and send.
    pub connect: unsafe extern "C" fn(pair: Handle, route: *const Route) -> c_int,
    /// Ends it: all that is posted fails.
    pub fail: unsafe extern "C" fn(pair: Handle) -> c_int,
    pub post: unsafe extern "C" fn(pair: Handle, work: *const Work) -> c_int,
    pub register:
        unsafe extern "C" fn(domain: Handle, address: u64, len: u64, access: c_int, out: *mut Region) -> c_int,
    pub unregister: unsafe extern "C" fn(region: Handle) -> c_int,
    /// Takes an asynchronous event of the device: its number (`enum ibv_event_type`), or -1 if there is none. What it is of, a queue
    /// pair say, is written to `of`.
    pub trouble: unsafe extern "C" fn(device: Handle, of: *mut Handle) -> c_int,
}

// SAFETY: a table is constant, and its functions may be called by any thread.
unsafe impl Sync for Table {}
