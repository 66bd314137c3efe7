//! What an ABI is, and the constants of all families, which the build makes of `api/constants.txt`.

use crate::forward::Handle;
use base::Family;
use node::Kind;
use std::ffi::{CStr, c_int};

include!(concat!(env!("OUT_DIR"), "/abi.rs"));

/// A constant as its header has it: a number, or the address of a variable of the MPI library.
#[derive(Clone, Copy, Debug)]
pub enum Const {
    Int(i64),
    Address(&'static CStr),
}

/// Where things are in an `MPI_Status`.
#[derive(Clone, Copy, Debug)]
pub struct StatusLayout {
    pub size: usize,
    pub source: usize,
    pub tag: usize,
    pub error: usize,
    pub count: Count,
}

/// How a status holds the number of bytes received, and the mark of a cancelled request.
#[derive(Clone, Copy, Debug)]
pub enum Count {
    /// Two ints: low half; high half shifted by one, with the mark in bit 0.
    SplitInts { low: usize, high: usize },
    /// An int mark and a size_t.
    Long { cancelled: usize, count: usize },
    /// An int, and no more; the mark is a source of its own.
    Int { count: usize, cancelled: c_int },
}

/// Where a Fortran layer keeps a handle's INTEGER when it looks for it in the object behind the handle: bytes from the
/// handle's address. Then tokens are addresses of memory of ours.
#[derive(Clone, Copy, Debug)]
pub struct Integers {
    pub request: usize,
    pub group: usize,
}

/// What the ABI of a family of MPIs is like.
pub struct Traits {
    pub which: Family,
    pub handle_bytes: usize,
    pub status: StatusLayout,
    /// Tokens: high bits that no handle of this family has. The low 24 bits count.
    pub request_token: u64,
    pub group_token: u64,
    pub message_token: u64,
    pub integers: Option<Integers>,
    /// Where a layer that asks for INTEGERs also looks: for that of a request which is not null after its completion, and
    /// of a group which is the result of a call on groups.
    pub also_behind: Option<Integers>,
    /// It makes collective calls out of others by their public names, which are ours.
    pub calls_itself: bool,
    pub(super) constants: [Const; CONSTANTS],
    /// What predefined datatypes consist of.
    pub(super) kinds: &'static [(Const, &'static str, &'static [Kind])],
}

/// Tokens as INTEGERs of Fortran, where a Fortran layer asks for them by a call. Where handles are ints, tokens are the
/// same; where they are wider, the lower half is.
pub const INTEGER_REQUEST: u32 = 0x2d00_0000;
pub const INTEGER_GROUP: u32 = 0x0900_0000;
pub const INTEGER_MESSAGE: u32 = 0x2e00_0000;

/// The third pair of bytes of tokens where handles are as wide as a pointer: that of an address where there must be memory.
pub const WIDE_TOKEN: u64 = 0x4d43;

/// Tokens behind which there is no memory: no address has these bits, and no small number.
const BARE: u64 = WIDE_TOKEN << 48 | WIDE_TOKEN << 32;
pub(super) const BARE_REQUEST_TOKEN: u64 = BARE | INTEGER_REQUEST as u64;
pub(super) const BARE_GROUP_TOKEN: u64 = BARE | INTEGER_GROUP as u64;
pub(super) const BARE_MESSAGE_TOKEN: u64 = BARE | INTEGER_MESSAGE as u64;

/// Tokens that are addresses.
pub(super) const ADDRESS_REQUEST_TOKEN: u64 = WIDE_TOKEN << 32 | INTEGER_REQUEST as u64;
pub(super) const ADDRESS_GROUP_TOKEN: u64 = WIDE_TOKEN << 32 | INTEGER_GROUP as u64;

/// From the number in a header to the type in which it is used.
trait FromConst {
    fn from_const(value: i64, mask: u64) -> Self;
}

impl FromConst for c_int {
    fn from_const(value: i64, _mask: u64) -> c_int {
        value as c_int
    }
}

impl FromConst for Handle {
    fn from_const(value: i64, mask: u64) -> Handle {
        value as u64 & mask
    }
}

/// An address with a meaning of its own (`MPI_STATUS_IGNORE`, …).
impl FromConst for usize {
    fn from_const(value: i64, _mask: u64) -> usize {
        value as usize
    }
}
