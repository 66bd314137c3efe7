//! The differences between MPIs as data, with one file for each ABI family. Handles are register-wide values here,
//! masked to the family's width.
//!
//! `bind` finds the family by the library that the program is bound to, not by what is installed; `base::families` says
//! how it is recognised. No other module knows a constant of an MPI.

mod data;
mod lam;
mod mpich;
mod openmpi;
mod soname;
mod standard;

use crate::forward::{Handle, Library, library};
use base::Family;
use data::CONSTANTS;
pub use data::{
    Abi, Const, Count, INTEGER_GROUP, INTEGER_MESSAGE, INTEGER_REQUEST, Integers, StatusLayout, Traits, WIDE_TOKEN,
};
use node::Kind;
use std::collections::HashMap;
use std::ffi::c_int;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// All families, in the order of the columns of `api/constants.txt`.
pub static FAMILIES: [&Traits; Family::ALL.len()] = [&mpich::TRAITS, &openmpi::TRAITS, &standard::TRAITS, &lam::TRAITS];

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

impl Abi {
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
            // A larger count is this prime: no datatype's size divides it, so MPI_Get_count returns MPI_UNDEFINED.
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
    #[inline(always)]
    pub fn status_at(&self, array: usize, i: usize) -> usize {
        if array == self.statuses_ignore || array == 0 {
            self.status_ignore
        } else {
            array + i * self.family.status.size
        }
    }

    /// MPI's status of an operation that did nothing (`MPI_PROC_NULL`, null requests).
    #[inline(always)]
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

/// Why this library does not support the MPI below.
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

/// The ABI, for calls that are made only after it was found: those on an inter-communicator of ours.
#[inline(always)]
pub fn get() -> &'static Abi {
    ABI.get().expect("bound before the first inter-communicator")
}

/// The name and the basic types of a predefined datatype, if it has this handle in every member of the family. Of
/// several names the first one is used.
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

/// Whether handles are as wide as a pointer. False until the ABI is known.
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
    unsafe { load_handle_of(is_wide(), at) }
}

/// The same for one of many, where [`is_wide`] was asked before.
///
/// # Safety
/// `at` is the address of a handle of this ABI.
#[inline(always)]
pub unsafe fn load_handle_of(is_wide: bool, at: usize) -> Handle {
    // SAFETY: the caller's promise.
    unsafe { if is_wide { (at as *const u64).read() } else { u64::from((at as *const u32).read()) } }
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
