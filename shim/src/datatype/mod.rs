//! Datatypes: where their bytes lie, found once from what MPI keeps of how they were made.
//!
//! `contents` asks the MPI below, `constructors` knows what each constructor means. Cached by handle. Handles are
//! reused, so a derived type carries an attribute whose delete callback drops the cached form.

mod constructors;
mod contents;

use crate::error::{Class, Failure};
use crate::forward::{self as pmpi, Handle};
use crate::{abi, attr, house};
use contents::{Contents, Envelope};
use node::{Layout, Shape};
use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::sync::{LazyLock, OnceLock, RwLock};

static CACHE: LazyLock<RwLock<HashMap<Handle, Element>>> = LazyLock::new(Default::default);

/// Types nested deeper are refused: each level takes some of the stack.
const DEPTH: u32 = 1 << 10;

/// How many numbers and types a datatype may be made of, on all levels: a type that holds one twice that holds one
/// twice, and so on, has few handles and no end.
const PARTS: usize = 1 << 26;

/// Below it there is no memory of a program's.
const LOWEST: usize = 1 << 12;

/// One element of a datatype.
#[derive(Clone)]
pub struct Element {
    pub shape: Shape,
    pub extent: isize,
    /// The program cannot free it, and its parts are nobody's.
    predefined: bool,
}

/// Why a datatype cannot be used between jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    /// The MPI below does not say what it is made of, or in a way of its own.
    Undescribed,
    /// What it says does not have the size that it says.
    Contradiction,
    Deep,
    Large,
}

impl Trouble {
    fn text(self) -> String {
        match self {
            Trouble::Undescribed => "this MPI does not say what the datatype is made of".into(),
            Trouble::Contradiction => "what this MPI says of the datatype does not agree with its size".into(),
            Trouble::Deep => format!("the datatype is nested more than {DEPTH} deep"),
            Trouble::Large => format!("the datatype has more than {PARTS} parts"),
        }
    }
}

/// The user's buffer as the engine sees it, after the checks that MPI makes.
///
/// # Safety
/// `buf` is the program's buffer for `count` elements of `datatype`.
pub unsafe fn layout(call: &str, buf: usize, count: i64, datatype: usize) -> Result<Layout, Failure> {
    let count =
        usize::try_from(count).map_err(|_| Failure::new(Class::Count, format!("{call}: negative count {count}")))?;
    let element = element(call, datatype as Handle & abi::get().mask)?;
    let shape = element.shape.repeat(count, element.extent).ok_or_else(|| {
        Failure::new(Class::Count, format!("{call}: {count} elements of {} bytes", element.shape.size()))
    })?;
    // MPI_BOTTOM is a null pointer too: then the datatype holds addresses.
    if buf == 0 && shape.size() > 0 && (shape.first() as usize) < LOWEST {
        return Err(Failure::new(Class::Buffer, format!("{call}: the buffer is a null pointer")));
    }
    // SAFETY: the program promises `count` elements at `buf` by making the call.
    Ok(unsafe { Layout::shaped(buf as *mut u8, shape) })
}

fn element(call: &str, datatype: Handle) -> Result<Element, Failure> {
    if let Some(element) = CACHE.read().unwrap_or_else(|e| e.into_inner()).get(&datatype) {
        return Ok(element.clone());
    }
    let abi = abi::get();
    if datatype == abi.datatype_null {
        return Err(Failure::new(Class::Type, format!("{call}: MPI_DATATYPE_NULL")));
    }
    // The MPI itself knows best whether a type is valid and committed.
    if !house::accepts_datatype(datatype) {
        return Err(Failure::new(Class::Type, format!("{call}: the datatype is not valid or not committed")));
    }
    let element = Envelope::of(datatype)
        .ok_or(Trouble::Undescribed)
        .and_then(|envelope| flatten(datatype, &envelope, DEPTH, &mut { PARTS }))
        .map_err(|trouble| Failure::new(Class::Type, format!("{call}: {}", trouble.text())))?;
    if !element.predefined {
        drop_with_type(datatype)
            .ok_or_else(|| Failure::new(Class::Intern, format!("{call}: no attribute on the datatype")))?;
    }
    CACHE.write().unwrap_or_else(|e| e.into_inner()).insert(datatype, element.clone());
    Ok(element)
}

/// Finds out where the bytes of a type lie. What is nested may be so deep, and have so many parts.
fn flatten(datatype: Handle, envelope: &Envelope, depth: u32, parts: &mut usize) -> Result<Element, Trouble> {
    let (size, extent) = measure(datatype).ok_or(Trouble::Undescribed)?;
    let predefined = envelope.is_predefined();
    let shape = if predefined {
        predefined_shape(size, extent)
    } else if size == 0 {
        Shape::run(0)
    } else {
        let depth = depth.checked_sub(1).ok_or(Trouble::Deep)?;
        *parts = parts.checked_sub(envelope.len()).ok_or(Trouble::Large)?;
        let contents = Contents::of(datatype, envelope).ok_or(Trouble::Undescribed)?;
        // All of them, whatever comes: each is ours to give back.
        let inner: Vec<_> = contents.types.iter().map(|&t| flatten_part(t, depth, parts)).collect();
        let inner = inner.into_iter().collect::<Result<Vec<_>, _>>()?;
        constructors::shape(envelope.combiner, &contents, &inner).ok_or(Trouble::Undescribed)?
    };
    if shape.size() != size {
        return Err(Trouble::Contradiction);
    }
    Ok(Element { shape, extent, predefined })
}

/// The same for a type that `contents` gave, which is given back.
fn flatten_part(mut datatype: Handle, depth: u32, parts: &mut usize) -> Result<Element, Trouble> {
    let envelope = Envelope::of(datatype).ok_or(Trouble::Undescribed)?;
    let element = flatten(datatype, &envelope, depth, parts);
    // Predefined ones are no new references.
    if !envelope.is_predefined() {
        // SAFETY: a reference of our own, given up once.
        unsafe { pmpi::type_free(&mut datatype) };
    }
    element
}

/// Size and extent.
fn measure(datatype: Handle) -> Option<(usize, isize)> {
    let (mut size, mut lower, mut extent) = (0, 0, 0);
    // SAFETY: plain out-arguments.
    let code = unsafe {
        match pmpi::type_size_x(datatype, &mut size) {
            0 => pmpi::type_get_extent_x(datatype, &mut lower, &mut extent),
            code => code,
        }
    };
    (code == 0).then(|| usize::try_from(size).ok().zip(isize::try_from(extent).ok()))?
}

/// A predefined type is one block, but for the pairs of MAXLOC: a value, then an int at its own alignment.
fn predefined_shape(size: usize, extent: isize) -> Shape {
    let int = size_of::<c_int>();
    let pair = |value: usize| {
        let index = Shape::run(int).moved(value.next_multiple_of(int) as isize);
        Shape::list([Some(Shape::run(value)), Some(index)])
    };
    let holes = size > 0 && size as isize != extent;
    holes.then(|| size.checked_sub(int).and_then(pair)).flatten().unwrap_or(Shape::run(size))
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
