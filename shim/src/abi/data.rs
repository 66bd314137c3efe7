//! The description of an ABI, and the constants of all families, which the build generates from `api/constants.txt`.

use crate::forward::Handle;
use base::Family;
use node::Kind;
use std::ffi::{CStr, c_int};

include!(concat!(env!("OUT_DIR"), "/abi.rs"));

/// A constant of an `mpi.h`: a number, or the address of a variable of the MPI library.
#[derive(Clone, Copy, Debug)]
pub enum Const {
    Int(i64),
    Address(&'static CStr),
}

/// The layout of an `MPI_Status`: offsets in bytes.
#[derive(Clone, Copy, Debug)]
pub struct StatusLayout {
    pub size: usize,
    pub source: usize,
    pub tag: usize,
    pub error: usize,
    pub count: Count,
}

/// How a status holds the number of bytes received, and the flag of a cancelled request.
#[derive(Clone, Copy, Debug)]
pub enum Count {
    /// Two ints: the low half, and the high half shifted by one bit, with the flag in bit 0.
    SplitInts { low: usize, high: usize },
    /// An int for the flag, and a size_t.
    Long { cancelled: usize, count: usize },
    /// Only an int; a cancelled request has a special source.
    Int { count: usize, cancelled: c_int },
}

/// Where a Fortran layer reads the INTEGER of a handle from the object behind the handle: offsets in bytes from the
/// handle's address. Then tokens are addresses of memory of ours.
#[derive(Clone, Copy, Debug)]
pub struct Integers {
    pub request: usize,
    pub group: usize,
}

/// The properties of the ABI of a family of MPIs.
pub struct Traits {
    pub which: Family,
    pub handle_bytes: usize,
    pub status: StatusLayout,
    /// The high bits of tokens, which no handle of this family has. The low 24 bits count.
    pub request_token: u64,
    pub group_token: u64,
    pub message_token: u64,
    pub integers: Option<Integers>,
    /// Where a layer that asks for INTEGERs by a call sometimes reads them too: for a request that is not null after
    /// its completion, and for a group that a group call has made.
    pub also_backing: Option<Integers>,
    /// The MPI implements collective calls by its public names, which this library intercepts.
    pub calls_itself: bool,
    pub(super) constants: [Const; CONSTANTS],
    /// The predefined datatypes: handle, name, and the basic types of their values.
    pub(super) kinds: &'static [(Const, &'static str, &'static [Kind])],
}

/// The high bits of tokens as INTEGERs of Fortran, if the Fortran layer asks for them by a call. A token of four bytes
/// is the same number, and so is the lower half of a token of eight bytes.
pub const INTEGER_REQUEST: u32 = 0x2d00_0000;
pub const INTEGER_GROUP: u32 = 0x0900_0000;
pub const INTEGER_MESSAGE: u32 = 0x2e00_0000;

/// The third pair of bytes of tokens if handles are as wide as a pointer. It is part of an address at which memory can
/// be mapped.
pub const WIDE_TOKEN: u64 = 0x4d43;

/// The high bits of tokens without memory behind them. No address and no small number has these bits.
const BARE: u64 = WIDE_TOKEN << 48 | WIDE_TOKEN << 32;
pub(super) const BARE_REQUEST_TOKEN: u64 = BARE | INTEGER_REQUEST as u64;
pub(super) const BARE_GROUP_TOKEN: u64 = BARE | INTEGER_GROUP as u64;
pub(super) const BARE_MESSAGE_TOKEN: u64 = BARE | INTEGER_MESSAGE as u64;

/// The high bits of tokens that are addresses.
pub(super) const ADDRESS_REQUEST_TOKEN: u64 = WIDE_TOKEN << 32 | INTEGER_REQUEST as u64;
pub(super) const ADDRESS_GROUP_TOKEN: u64 = WIDE_TOKEN << 32 | INTEGER_GROUP as u64;

/// Converts a constant to the type in which it is used.
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
