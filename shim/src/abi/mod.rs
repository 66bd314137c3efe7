//! What differs between MPIs, as data: one file per ABI family. Handles cross this boundary as register-wide values,
//! masked to the family's width.
//!
//! `bind` picks the family by the library that the program is bound to, not by what is installed: `base::families` has
//! how it is known. Nothing else in the tree knows a constant of an MPI.

mod lam;
mod mpich;
mod openmpi;
mod soname;
mod standard;

use crate::error::Class;
use crate::forward::{Handle, Library, library};
use crate::token;
use base::Family;
use node::Kind;
use std::collections::HashMap;
use std::ffi::{CStr, c_int};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

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
    constants: [Const; CONSTANTS],
    /// What predefined datatypes consist of.
    kinds: &'static [(Const, &'static str, &'static [Kind])],
}

/// All families, in the order of the columns of `api/constants.txt`.
pub static FAMILIES: [&Traits; Family::ALL.len()] = [&mpich::TRAITS, &openmpi::TRAITS, &standard::TRAITS, &lam::TRAITS];

/// Tokens as INTEGERs of Fortran, where a Fortran layer asks for them by a call. Where handles are ints, tokens are the
/// same; where they are wider, the lower half is.
pub const INTEGER_REQUEST: u32 = 0x2d00_0000;
pub const INTEGER_GROUP: u32 = 0x0900_0000;
pub const INTEGER_MESSAGE: u32 = 0x2e00_0000;

/// The third pair of bytes of tokens where handles are as wide as a pointer: that of an address where there must be memory.
pub const WIDE_TOKEN: u64 = 0x4d43;

/// Tokens behind which there is no memory: no address has these bits, and no small number.
const BARE: u64 = WIDE_TOKEN << 48 | WIDE_TOKEN << 32;
const BARE_REQUEST_TOKEN: u64 = BARE | INTEGER_REQUEST as u64;
const BARE_GROUP_TOKEN: u64 = BARE | INTEGER_GROUP as u64;
const BARE_MESSAGE_TOKEN: u64 = BARE | INTEGER_MESSAGE as u64;

/// Tokens that are addresses.
const ADDRESS_REQUEST_TOKEN: u64 = WIDE_TOKEN << 32 | INTEGER_REQUEST as u64;
const ADDRESS_GROUP_TOKEN: u64 = WIDE_TOKEN << 32 | INTEGER_GROUP as u64;

impl Const {
    /// `None`: this library has no such variable.
    fn value(self, library: &Library) -> Option<i64> {
        match self {
            Const::Int(number) => Some(number),
            Const::Address(symbol) => library.variable(symbol).map(|at| at as i64),
        }
    }
}

impl Abi {
    fn resolve(family: &'static Traits, library: &Library) -> Option<Abi> {
        let mask = if family.handle_bytes == 4 { u64::from(u32::MAX) } else { u64::MAX };
        let mut values = [0; CONSTANTS];
        for (value, constant) in values.iter_mut().zip(family.constants) {
            *value = constant.value(library)?;
        }
        Some(Abi::of(family, mask, values))
    }
}

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

impl Abi {
    /// The MPI error class of one of our kinds of failure.
    pub fn class(&self, class: Class) -> c_int {
        match class {
            Class::Arg => self.err_arg,
            Class::Buffer => self.err_buffer,
            Class::Comm => self.err_comm,
            Class::Count => self.err_count,
            Class::Group => self.err_group,
            Class::Intern => self.err_intern,
            Class::Name => self.err_name,
            Class::Other => self.err_other,
            Class::Port => self.err_port,
            Class::Rank => self.err_rank,
            Class::Request => self.err_request,
            Class::Root => self.err_root,
            Class::Service => self.err_service,
            Class::Tag => self.err_tag,
            Class::Truncate => self.err_truncate,
            Class::Type => self.err_type,
            Class::Unsupported => self.err_unsupported,
            Class::PeerGone => crate::error::own_class(Class::PeerGone).unwrap_or(self.err_other),
            Class::Timeout => crate::error::own_class(Class::Timeout).unwrap_or(self.err_other),
        }
    }

    /// Writes the status of a message that has been received, unless the caller ignores it.
    ///
    /// # Safety
    /// As for [`Abi::write_status`].
    #[inline(always)]
    pub unsafe fn write_received(&self, at: usize, source: c_int, tag: c_int, bytes: u64) {
        // SAFETY: the caller's promise.
        unsafe { self.write_status(at, &Status { source, tag, bytes, cancelled: false, error: None }) }
    }

    /// Writes a status, unless the caller ignores it.
    ///
    /// # Safety
    /// `at` is an `MPI_Status` of this ABI or the ignoring value.
    #[inline(always)]
    pub unsafe fn write_status(&self, at: usize, status: &Status) {
        if at == self.status_ignore || at == 0 {
            return;
        }
        let layout = &self.family.status;
        let put = |offset: usize, value: c_int| {
            // SAFETY: the layout's fields lie within the caller's status, which is aligned for its ints.
            unsafe { ((at + offset) as *mut c_int).write(value) }
        };
        let mut source = status.source;
        match layout.count {
            Count::SplitInts { low, high } => {
                put(low, status.bytes as c_int);
                put(high, ((status.bytes >> 32) << 1) as c_int | c_int::from(status.cancelled));
            }
            Count::Long { cancelled, count } => {
                put(cancelled, status.cancelled.into());
                // SAFETY: as above; the field is a size_t.
                unsafe { ((at + count) as *mut u64).write(status.bytes) }
            }
            // Of more than that, MPI_Get_count makes MPI_UNDEFINED: no size divides this prime.
            Count::Int { count, cancelled } => {
                put(count, status.bytes.min(c_int::MAX as u64) as c_int);
                if status.cancelled {
                    source = cancelled;
                }
            }
        }
        put(layout.source, source);
        put(layout.tag, status.tag);
        if let Some(error) = status.error {
            put(layout.error, error);
        }
    }

    /// The status of index `i` in an array, or the ignoring value.
    pub fn status_at(&self, array: usize, i: usize) -> usize {
        if array == self.statuses_ignore || array == 0 {
            self.status_ignore
        } else {
            array + i * self.family.status.size
        }
    }

    /// MPI's status of an operation that did nothing (`MPI_PROC_NULL`, null requests).
    pub fn empty_status(&self) -> Status {
        Status { source: self.any_source, tag: self.any_tag, bytes: 0, cancelled: false, error: None }
    }
}

/// What the program reads from an `MPI_Status`.
#[derive(Clone, Copy, Debug)]
pub struct Status {
    pub source: c_int,
    pub tag: c_int,
    pub bytes: u64,
    pub cancelled: bool,
    /// Only written where MPI says so: in the array calls.
    pub error: Option<c_int>,
}

static ABI: OnceLock<Abi> = OnceLock::new();

/// Why the MPI below cannot be served.
#[derive(Debug)]
pub enum BindError {
    NoMpi,
    Unknown(String),
}

/// Finds out which MPI the program is bound to.
pub fn bind() -> Result<&'static Abi, BindError> {
    if let Some(abi) = ABI.get() {
        return Ok(abi);
    }
    let library = library().ok_or(BindError::NoMpi)?;
    let family = family_of(library).ok_or_else(|| BindError::Unknown(library.path.clone()))?;
    let abi = Abi::resolve(family, library).ok_or_else(|| BindError::Unknown(library.path.clone()))?;
    base::log!(Info, "ABI: {} ({})", family.which, library.path);
    WIDE.store(family.handle_bytes == 8, Ordering::Relaxed);
    token::note(family);
    Ok(ABI.get_or_init(|| abi))
}

fn family_of(library: &Library) -> Option<&'static Traits> {
    let which = Family::of(|symbol| library.symbol(symbol).is_some(), || soname::soname(&library.path))?;
    FAMILIES.into_iter().find(|family| family.which == which)
}

/// The ABI, if it has been found.
pub fn known() -> Option<&'static Abi> {
    ABI.get()
}

/// The ABI, in calls that only exist once it has been found: those on an inter-communicator of ours.
pub fn get() -> &'static Abi {
    ABI.get().expect("bound before the first inter-communicator")
}

/// The name of a predefined datatype and what it consists of, if it is one that every member of the family has by this
/// handle. One that has several names is called by the first.
pub fn predefined(datatype: Handle) -> Option<Predefined> {
    static KINDS: OnceLock<HashMap<Handle, Predefined>> = OnceLock::new();
    let of = |abi: &Abi| {
        let library = library()?;
        let mut found = HashMap::new();
        for (c, name, kinds) in abi.family.kinds {
            if let Some(value) = c.value(library) {
                found.entry(value as u64 & abi.mask).or_insert((*name, *kinds));
            }
        }
        Some(found)
    };
    KINDS.get_or_init(|| of(get()).unwrap_or_default()).get(&datatype).copied()
}

pub type Predefined = (&'static str, &'static [Kind]);

/// Whether the Fortran layer asks for the INTEGERs of handles by a call.
pub fn asks_for_integers() -> bool {
    known().is_some_and(|abi| abi.family.integers.is_none())
}

/// Whether handles are as wide as a pointer. Not before the ABI is known.
static WIDE: AtomicBool = AtomicBool::new(false);

#[inline(always)]
pub fn is_wide() -> bool {
    WIDE.load(Ordering::Relaxed)
}

/// Reads a handle from memory.
///
/// # Safety
/// `at` is the address of a handle of this ABI.
#[inline(always)]
pub unsafe fn load_handle(at: usize) -> Handle {
    // SAFETY: the caller's promise.
    unsafe { if is_wide() { (at as *const u64).read() } else { u64::from((at as *const u32).read()) } }
}

/// Writes a handle to memory.
///
/// # Safety
/// `at` is the address of a handle of this ABI.
#[inline(always)]
pub unsafe fn store_handle(at: usize, handle: Handle) {
    // SAFETY: the caller's promise.
    unsafe { if is_wide() { (at as *mut u64).write(handle) } else { (at as *mut u32).write(handle as u32) } }
}
