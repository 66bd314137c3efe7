//! Datatypes, flattened once: from the envelope and contents that MPI keeps to the blocks of memory of one element.
//!
//! Cached by handle. Handles are reused, so a derived type carries an attribute whose delete callback drops the
//! cached form.

use crate::error::{Class, Failure};
use crate::forward::{self as pmpi, Handle};
use crate::{abi, attr, house};
use node::{Flat, Layout};
use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::sync::{Arc, LazyLock, OnceLock, RwLock};

static CACHE: LazyLock<RwLock<HashMap<Handle, Arc<Flat>>>> = LazyLock::new(Default::default);

/// More blocks than this in one element are refused rather than held in memory.
const MAX_BLOCKS: usize = 1 << 24;

/// The user's buffer as the engine sees it, after the checks that MPI makes.
///
/// # Safety
/// `buf` is the program's buffer for `count` elements of `datatype`.
pub unsafe fn layout(call: &str, buf: usize, count: i64, datatype: usize) -> Result<Layout, Failure> {
    if count < 0 {
        return Err(Failure::new(Class::Count, format!("{call}: negative count {count}")));
    }
    let flat = flatten(call, datatype as Handle & abi::get().mask)?;
    let bytes = (count as u64).checked_mul(flat.size() as u64).filter(|b| *b <= isize::MAX as u64);
    if bytes.is_none() {
        return Err(Failure::new(Class::Count, format!("{call}: {count} elements of {} bytes", flat.size())));
    }
    if buf == 0 && bytes != Some(0) {
        return Err(Failure::new(Class::Buffer, format!("{call}: the buffer is a null pointer")));
    }
    // SAFETY: the program promises `count` elements at `buf` by making the call.
    Ok(unsafe { Layout::strided(buf as *mut u8, &flat, count as usize) })
}

fn flatten(call: &str, datatype: Handle) -> Result<Arc<Flat>, Failure> {
    if let Some(flat) = CACHE.read().unwrap_or_else(|e| e.into_inner()).get(&datatype) {
        return Ok(flat.clone());
    }
    let abi = abi::get();
    if datatype == abi.datatype_null {
        return Err(Failure::new(Class::Type, format!("{call}: MPI_DATATYPE_NULL")));
    }
    // The MPI itself knows best whether a type is valid and committed.
    if !house::accepts_datatype(datatype) {
        return Err(Failure::new(Class::Type, format!("{call}: the datatype is not valid or not committed")));
    }
    let unsupported =
        || Failure::new(Class::Type, format!("{call}: this kind of datatype is not available between jobs yet"));
    let (blocks, named) = blocks_of(datatype, 0).ok_or_else(unsupported)?;
    let (_, extent) = extent_of(datatype).ok_or_else(unsupported)?;
    let flat = Flat::new(blocks, extent as isize);
    if !named {
        drop_with_type(datatype)
            .ok_or_else(|| Failure::new(Class::Intern, format!("{call}: no attribute on the datatype")))?;
    }
    CACHE.write().unwrap_or_else(|e| e.into_inner()).insert(datatype, flat.clone());
    Ok(flat)
}

fn extent_of(datatype: Handle) -> Option<(i64, i64)> {
    let (mut lb, mut extent) = (0, 0);
    // SAFETY: plain out-arguments.
    (unsafe { pmpi::type_get_extent_x(datatype, &mut lb, &mut extent) } == 0).then_some((lb, extent))
}

type Blocks = Vec<(isize, usize)>;

/// How many things of each kind a datatype was made of, and how.
struct Envelope {
    ints: i64,
    addresses: i64,
    large: i64,
    types: i64,
    combiner: c_int,
}

fn envelope(datatype: Handle) -> Option<Envelope> {
    let mut e = Envelope { ints: 0, addresses: 0, large: 0, types: 0, combiner: 0 };
    // SAFETY: plain out-arguments.
    if unsafe {
        pmpi::type_get_envelope_c(datatype, &mut e.ints, &mut e.addresses, &mut e.large, &mut e.types, &mut e.combiner)
    } == 0
    {
        return Some(e);
    }
    let (mut ni, mut na, mut nd, mut combiner) = (0, 0, 0, 0);
    // SAFETY: plain out-arguments.
    let code = unsafe { pmpi::type_get_envelope(datatype, &mut ni, &mut na, &mut nd, &mut combiner) };
    (code == 0).then_some(Envelope { ints: ni.into(), addresses: na.into(), large: 0, types: nd.into(), combiner })
}

/// The numbers that a datatype was made of, in the order of the call, and the one datatype: for constructors with at
/// most three numbers.
fn contents(datatype: Handle, e: &Envelope) -> Option<([i64; 3], Handle)> {
    if e.types != 1 || e.ints + e.addresses + e.large > 3 {
        return None;
    }
    let (mut ints, mut aints, mut large, mut inner): ([c_int; 3], [isize; 3], [i64; 3], Handle) = Default::default();
    let type_at = (&raw mut inner).cast();
    // SAFETY: the arrays are as long as the envelope said, at least; one handle fits in `inner`, whose unused upper
    // half stays zero (little-endian).
    let code = unsafe {
        let (ints, aints) = (ints.as_mut_ptr(), aints.as_mut_ptr());
        if e.large == 0 {
            let (ni, na, nd) = (e.ints as c_int, e.addresses as c_int, e.types as c_int);
            pmpi::type_get_contents(datatype, ni, na, nd, ints, aints, type_at)
        } else {
            let counts = large.as_mut_ptr();
            pmpi::type_get_contents_c(datatype, e.ints, e.addresses, e.large, e.types, ints, aints, counts, type_at)
        }
    };
    if code != 0 {
        return None;
    }
    // Small counts come before the address of a call, large ones instead of both.
    let small = ints[..e.ints as usize].iter().map(|&n| n.into()).chain(aints.map(|n| n as i64));
    let mut numbers = [0; 3];
    numbers.iter_mut().zip(small).for_each(|(n, given)| *n = given);
    Some((if e.large == 0 { numbers } else { large }, inner))
}

/// The blocks of one element, and whether the type is a predefined one. `None`: a constructor not served yet.
fn blocks_of(datatype: Handle, depth: u32) -> Option<(Blocks, bool)> {
    let abi = abi::get();
    let envelope = envelope(datatype).filter(|_| depth <= 64)?;
    let combiner = envelope.combiner;
    if combiner == abi.combiner_named {
        return named_blocks(datatype).map(|b| (b, true));
    }
    if ![abi.combiner_dup, abi.combiner_contiguous, abi.combiner_vector, abi.combiner_hvector].contains(&combiner) {
        return None;
    }
    let (numbers, mut inner) = contents(datatype, &envelope)?;
    let below = blocks_of(inner, depth + 1).and_then(|(b, named)| {
        let (_, extent) = extent_of(inner)?;
        if !named {
            // Contents gives a new reference to a derived type.
            // SAFETY: `inner` is that reference, given up once.
            unsafe { pmpi::type_free(&mut inner) };
        }
        Some((b, extent as isize))
    });
    let (element, extent) = below?;
    let blocks = if combiner == abi.combiner_dup {
        element
    } else if combiner == abi.combiner_contiguous {
        repeat(&element, numbers[0], extent)?
    } else {
        let stride = numbers[2] as isize;
        let stride = if combiner == abi.combiner_vector { stride.checked_mul(extent)? } else { stride };
        let run = repeat(&element, numbers[1], extent)?;
        repeat(&run, numbers[0], stride)?
    };
    Some((blocks, false))
}

fn repeat(element: &Blocks, count: i64, stride: isize) -> Option<Blocks> {
    let count = usize::try_from(count).ok()?;
    if let [(0, len)] = element[..]
        && len as isize == stride
    {
        return Some(vec![(0, len.checked_mul(count)?)]);
    }
    if element.len().checked_mul(count)? > MAX_BLOCKS {
        return None;
    }
    Some((0..count).flat_map(|i| element.iter().map(move |&(at, len)| (at + i as isize * stride, len))).collect())
}

/// A predefined type is one block, but for the pairs of MAXLOC: a value, then an int at its own alignment.
fn named_blocks(datatype: Handle) -> Option<Blocks> {
    let mut size = 0;
    // SAFETY: plain out-argument.
    if unsafe { pmpi::type_size_x(datatype, &mut size) } != 0 {
        return None;
    }
    let (_, extent) = extent_of(datatype)?;
    let int = size_of::<c_int>();
    let size = usize::try_from(size).ok()?;
    if size as i64 == extent {
        return Some(vec![(0, size)]);
    }
    let value = size.checked_sub(int)?;
    Some(vec![(0, value), (value.next_multiple_of(int) as isize, int)])
}

/// Has the cached form dropped when the program frees the type.
fn drop_with_type(datatype: Handle) -> Option<()> {
    unsafe extern "C" fn dropped(datatype: Handle, _keyval: c_int, _value: *mut c_void, _extra: *mut c_void) -> c_int {
        CACHE.write().unwrap_or_else(|e| e.into_inner()).remove(&(datatype & abi::get().mask));
        0
    }
    static KEYVAL: OnceLock<Option<c_int>> = OnceLock::new();
    let keyval = (*KEYVAL.get_or_init(|| attr::type_keyval(dropped)))?;
    // SAFETY: a live datatype and our own keyval.
    (unsafe { pmpi::type_set_attr(datatype, keyval, std::ptr::null_mut()) } == 0).then_some(())
}
