//! libibverbs' structures and functions, as far as they are used here: the binary interface of its versions 1.1 and later,
//! in which fields are only ever added behind others.
//!
//! A test compares sizes and offsets with the C header where there is one. Invariant: nothing is read or written behind what
//! is declared here, and what is handed over is as long as any version's.

use libc::{c_char, c_int, c_uint, c_void};
use libloading::Library;

/// A structure that only libibverbs looks into.
pub(crate) type Opaque = c_void;

#[repr(C)]
pub(crate) struct Context {
    device: *mut Opaque,
    /// Entries that later versions call by exported functions.
    _before: [usize; 11],
    pub poll_cq: unsafe extern "C" fn(*mut Cq, c_int, *mut Wc) -> c_int,
    pub req_notify_cq: unsafe extern "C" fn(*mut Cq, c_int) -> c_int,
    _between: [usize; 7],
    pub post_srq_recv: unsafe extern "C" fn(*mut Srq, *mut RecvWr, *mut *mut RecvWr) -> c_int,
    _more: [usize; 4],
    pub post_send: unsafe extern "C" fn(*mut Qp, *mut SendWr, *mut *mut SendWr) -> c_int,
    _post_recv: usize,
    _behind: [usize; 5],
    _cmd_fd: c_int,
    pub async_fd: c_int,
}

#[repr(C)]
pub(crate) struct Cq {
    pub context: *mut Context,
}

#[repr(C)]
pub(crate) struct Srq {
    pub context: *mut Context,
}

#[repr(C)]
pub(crate) struct Qp {
    pub context: *mut Context,
    _some: [usize; 5],
    _handle: u32,
    pub number: u32,
}

#[repr(C)]
pub(crate) struct Mr {
    _some: [usize; 4],
    _handle: u32,
    pub lkey: u32,
    pub rkey: u32,
}

#[repr(C)]
pub(crate) struct Channel {
    _context: *mut Context,
    pub fd: c_int,
}

#[repr(C)]
pub(crate) struct Sge {
    pub address: u64,
    pub len: u32,
    pub key: u32,
}

#[repr(C)]
pub(crate) struct SendWr {
    pub id: u64,
    pub next: *mut SendWr,
    pub list: *mut Sge,
    pub count: c_int,
    pub opcode: c_uint,
    pub flags: c_uint,
    pub immediate: u32,
    pub remote: u64,
    pub remote_key: u32,
    pub rest: [u64; 9],
}

#[repr(C)]
pub(crate) struct RecvWr {
    pub id: u64,
    pub next: *mut RecvWr,
    pub list: *mut Sge,
    pub count: c_int,
}

#[repr(C)]
pub(crate) struct Wc {
    pub id: u64,
    pub status: c_uint,
    pub opcode: c_uint,
    pub vendor: u32,
    pub bytes: u32,
    pub immediate: u32,
    pub number: u32,
    pub source: u32,
    pub flags: c_uint,
    pub rest: [u16; 4],
}

#[repr(C)]
#[derive(Default)]
pub(crate) struct Cap {
    pub send_wr: u32,
    pub recv_wr: u32,
    pub send_sge: u32,
    pub recv_sge: u32,
    pub inline: u32,
}

#[repr(C)]
pub(crate) struct QpInit {
    pub context: *mut c_void,
    pub send_cq: *mut Cq,
    pub recv_cq: *mut Cq,
    pub srq: *mut Srq,
    pub cap: Cap,
    pub kind: c_uint,
    pub all_signaled: c_int,
}

#[repr(C)]
#[derive(Default)]
pub(crate) struct Ah {
    pub gid: [u64; 2],
    pub flow: u32,
    pub gid_index: u8,
    pub hops: u8,
    pub class: u8,
    pub lid: u16,
    pub sl: u8,
    pub path_bits: u8,
    pub rate: u8,
    pub is_global: u8,
    pub port: u8,
}

#[repr(C)]
#[derive(Default)]
pub(crate) struct QpAttr {
    pub state: c_uint,
    pub cur_state: c_uint,
    pub path_mtu: c_uint,
    pub mig_state: c_uint,
    pub qkey: u32,
    pub rq_psn: u32,
    pub sq_psn: u32,
    pub dest_qp_num: u32,
    pub access: c_uint,
    pub cap: Cap,
    pub ah: Ah,
    pub alt_ah: Ah,
    pub pkey_index: u16,
    pub alt_pkey_index: u16,
    pub notify: u8,
    pub draining: u8,
    pub max_rd_atomic: u8,
    pub max_dest_rd_atomic: u8,
    pub min_rnr_timer: u8,
    pub port: u8,
    pub timeout: u8,
    pub retry_cnt: u8,
    pub rnr_retry: u8,
    pub alt_port: u8,
    pub alt_timeout: u8,
    pub rate_limit: u32,
}

#[repr(C)]
pub(crate) struct SrqInit {
    pub context: *mut c_void,
    pub receives: u32,
    pub pieces: u32,
    pub limit: u32,
}

/// `struct ibv_device_attr`, with some room behind it.
#[repr(C, align(8))]
pub(crate) struct DeviceAttr(pub [u32; 80]);

impl DeviceAttr {
    pub(crate) const WORK: usize = 112 / 4;
    pub(crate) const COMPLETIONS: usize = 132 / 4;
    pub(crate) const READS_ANSWERED: usize = 144 / 4;
    pub(crate) const READS_BEGUN: usize = 156 / 4;
    pub(crate) const SHARED_RECEIVES: usize = 216 / 4;
    /// A byte.
    pub(crate) const PORTS: usize = 227;
}

/// `struct ibv_port_attr`, with some room behind it.
#[repr(C, align(8))]
pub(crate) struct PortAttr(pub [u8; 128]);

impl PortAttr {
    pub(crate) const STATE: usize = 0;
    pub(crate) const MTU: usize = 8;
    pub(crate) const LID: usize = 34;
    pub(crate) const LINK_LAYER: usize = 46;
}

#[repr(C)]
pub(crate) struct AsyncEvent {
    pub element: *mut c_void,
    pub kind: c_uint,
}

pub(crate) const ACTIVE: u32 = 4;
pub(crate) const ETHERNET: u8 = 2;
pub(crate) const RC: c_uint = 2;
pub(crate) const SIGNALED: c_uint = 1 << 1;
pub(crate) const INLINE: c_uint = 1 << 3;
pub(crate) const OP_WRITE: c_uint = 0;
pub(crate) const OP_SEND: c_uint = 2;
pub(crate) const OP_READ: c_uint = 4;
pub(crate) const DONE_WRITE: c_uint = 1;
pub(crate) const DONE_READ: c_uint = 2;
pub(crate) const DONE_RECEIVE: c_uint = 1 << 7;

/// States of a queue pair.
pub(crate) const INIT: c_uint = 1;
pub(crate) const RTR: c_uint = 2;
pub(crate) const RTS: c_uint = 3;
pub(crate) const ERROR: c_uint = 6;

/// Which fields of [`QpAttr`] are set.
pub(crate) mod mask {
    use libc::c_int;
    pub(crate) const STATE: c_int = 1 << 0;
    pub(crate) const ACCESS: c_int = 1 << 3;
    pub(crate) const PKEY_INDEX: c_int = 1 << 4;
    pub(crate) const PORT: c_int = 1 << 5;
    pub(crate) const AV: c_int = 1 << 7;
    pub(crate) const PATH_MTU: c_int = 1 << 8;
    pub(crate) const TIMEOUT: c_int = 1 << 9;
    pub(crate) const RETRY_CNT: c_int = 1 << 10;
    pub(crate) const RNR_RETRY: c_int = 1 << 11;
    pub(crate) const RQ_PSN: c_int = 1 << 12;
    pub(crate) const MAX_RD_ATOMIC: c_int = 1 << 13;
    pub(crate) const MIN_RNR_TIMER: c_int = 1 << 15;
    pub(crate) const SQ_PSN: c_int = 1 << 16;
    pub(crate) const MAX_DEST_RD_ATOMIC: c_int = 1 << 17;
    pub(crate) const DEST_QPN: c_int = 1 << 20;
}

macro_rules! functions {
    ($($name:ident: fn($($arg:ty),*) $(-> $ret:ty)?;)* ; $($other:ident: fn() -> $result:ty;)*) => {
        /// The functions of libibverbs.
        pub(crate) struct Functions {
            $(pub $name: unsafe extern "C" fn($($arg),*) $(-> $ret)?,)*
            $(pub $other: Option<unsafe extern "C" fn() -> $result>,)*
            _library: Library,
        }

        impl Functions {
            /// Loads libibverbs. `None` if it is not there, or lacks a function.
            pub(crate) fn load() -> Option<Functions> {
                // SAFETY: its initialisers only read the files of providers.
                let library = unsafe { Library::new("libibverbs.so.1") }.ok()?;
                Some(Functions {
                    // SAFETY: the types are those of its header.
                    $($name: *unsafe { library.get(stringify!($name).as_bytes()) }.ok()?,)*
                    // SAFETY: as above.
                    $($other: unsafe { library.get(stringify!($other).as_bytes()) }.ok().map(|f| *f),)*
                    _library: library,
                })
            }
        }
    };
}

functions! {
    ibv_get_device_list: fn(*mut c_int) -> *mut *mut Opaque;
    ibv_free_device_list: fn(*mut *mut Opaque);
    ibv_get_device_name: fn(*mut Opaque) -> *const c_char;
    ibv_open_device: fn(*mut Opaque) -> *mut Context;
    ibv_close_device: fn(*mut Context) -> c_int;
    ibv_query_device: fn(*mut Context, *mut DeviceAttr) -> c_int;
    ibv_query_port: fn(*mut Context, u8, *mut PortAttr) -> c_int;
    ibv_query_gid: fn(*mut Context, u8, c_int, *mut [u8; 16]) -> c_int;
    ibv_alloc_pd: fn(*mut Context) -> *mut Opaque;
    ibv_dealloc_pd: fn(*mut Opaque) -> c_int;
    ibv_create_comp_channel: fn(*mut Context) -> *mut Channel;
    ibv_destroy_comp_channel: fn(*mut Channel) -> c_int;
    ibv_create_cq: fn(*mut Context, c_int, *mut c_void, *mut Channel, c_int) -> *mut Cq;
    ibv_destroy_cq: fn(*mut Cq) -> c_int;
    ibv_get_cq_event: fn(*mut Channel, *mut *mut Cq, *mut *mut c_void) -> c_int;
    ibv_ack_cq_events: fn(*mut Cq, c_uint);
    ibv_create_srq: fn(*mut Opaque, *mut SrqInit) -> *mut Srq;
    ibv_destroy_srq: fn(*mut Srq) -> c_int;
    ibv_create_qp: fn(*mut Opaque, *mut QpInit) -> *mut Qp;
    ibv_modify_qp: fn(*mut Qp, *mut QpAttr, c_int) -> c_int;
    ibv_destroy_qp: fn(*mut Qp) -> c_int;
    ibv_reg_mr: fn(*mut Opaque, *mut c_void, usize, c_int) -> *mut Mr;
    ibv_dereg_mr: fn(*mut Mr) -> c_int;
    ibv_get_async_event: fn(*mut Context, *mut AsyncEvent) -> c_int;
    ibv_ack_async_event: fn(*mut AsyncEvent);
    ; // Perhaps not there.
    ibv_fork_init: fn() -> c_int;
}
