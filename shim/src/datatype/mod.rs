//! Datatypes: where their bytes lie and of which types they are, as found once from their constructors.
//!
//! `contents` asks the MPI below for the constructor, `constructors` knows the constructors, and `map` has the parts of
//! a type map. The results are cached by handle. Handles are reused, so a derived datatype gets an attribute whose
//! delete callback removes it from the caches.

mod constructors;
mod contents;
mod map;

use crate::abi::Abi;
use crate::failure::{Class, Failure};
use crate::forward::{self as pmpi, Handle};
use crate::handle_cache::{ByHandle, HandleCache};
use crate::{abi, attr, progress};
use contents::{Contents, Envelope, measure};
pub use map::representation;
use map::{Element, Map};
use node::{Layout, Representation, Shape, Signature, Signed, Types};
use std::ffi::{c_int, c_void};
use std::sync::{Arc, LazyLock, OnceLock, RwLock};

static CACHE: LazyLock<RwLock<ByHandle<Element<Shape>>>> = LazyLock::new(Default::default);

/// The size in bytes of each datatype whose elements follow each other without a gap. Written under the lock of the
/// cache.
static PLAIN: HandleCache<1> = HandleCache::new();

/// The signatures of datatypes in receives from a job with another representation. Each datatype is in the first cache
/// too.
static SIGNATURES: LazyLock<RwLock<ByHandle<Signature>>> = LazyLock::new(Default::default);

/// The types for `MPI_CONNECT_CHECK=types`, and empty without that.
static TYPES: LazyLock<RwLock<ByHandle<Arc<node::Element>>>> = LazyLock::new(Default::default);

/// Whether the types of messages are checked. Then no datatype is plain, so that every buffer goes through [`layout`].
static CHECKS: LazyLock<bool> = LazyLock::new(base::settings::check_types);

/// The deepest nesting of datatypes. Deeper ones are refused, since each level takes some of the stack.
const DEPTH: u32 = 1 << 10;

/// How many numbers and datatypes the constructors of a datatype may have on all levels. A datatype that contains
/// another one twice, which contains another one twice, and so on, has few handles and exponentially many parts.
const PARTS: usize = 1 << 26;

/// No program has memory below this address.
const LOWEST: usize = 1 << 12;

/// Why a datatype cannot be used between jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    /// The MPI below does not give its constructor, or gives an unknown one.
    Undescribed,
    /// Its constructor leads to another size than the MPI below gives.
    Contradiction,
    Deep,
    Large,
    /// The types of its values are not known.
    Unknown,
}

impl Trouble {
    fn text(self) -> String {
        match self {
            Trouble::Undescribed => "this MPI does not say what the datatype is made of".into(),
            Trouble::Contradiction => "what this MPI says of the datatype does not agree with its size".into(),
            Trouble::Deep => format!("the datatype is nested more than {DEPTH} deep"),
            Trouble::Unknown => "the datatype has values that this version cannot convert".into(),
            Trouble::Large => format!("the datatype has more than {PARTS} parts"),
        }
    }
}

/// The size of a buffer in bytes, if it is contiguous, not large, and of a cached datatype. `None`: [`layout`] has to
/// look at it.
#[inline(always)]
pub fn plain(abi: &Abi, buf: usize, count: i64, datatype: usize) -> Option<usize> {
    let [each] = PLAIN.get(datatype as Handle & abi.mask)?;
    let size = each as usize * u32::try_from(count).ok()? as usize;
    (buf != 0 || size == 0).then_some(size)
}

/// The layout of the user's buffer, after the checks that MPI makes.
///
/// # Safety
/// `buf` is the program's buffer for `count` elements of `datatype`.
pub unsafe fn layout(call: &str, buf: usize, count: i64, datatype: usize) -> Result<Layout, Failure> {
    let count =
        usize::try_from(count).map_err(|_| Failure::new(Class::Count, format!("{call}: negative count {count}")))?;
    let element = element(call, datatype as Handle & abi::get().mask)?;
    let shape = element.map.repeat(count, element.extent).ok_or_else(|| too_many(call, count, element.map.size()))?;
    // MPI_BOTTOM is a null pointer too, and then the datatype contains absolute addresses.
    if buf == 0 && shape.size() > 0 && (shape.first() as usize) < LOWEST {
        return Err(Failure::new(Class::Buffer, format!("{call}: the buffer is a null pointer")));
    }
    // SAFETY: the program promises `count` elements at `buf` by making the call.
    let layout = unsafe { Layout::shaped(buf as *mut u8, shape) };
    if !*CHECKS {
        return Ok(layout);
    }
    Ok(layout.signed(Signed::new(types(call, datatype as Handle & abi::get().mask)?, count)))
}

/// The types of the values of one element, for the check of types. The datatype was checked before.
fn types(call: &str, datatype: Handle) -> Result<Arc<node::Element>, Failure> {
    if let Some(types) = TYPES.read().unwrap_or_else(|e| e.into_inner()).get(&datatype) {
        return Ok(types.clone());
    }
    let types = Arc::new(node::Element::new(find_out::<Types>(call, datatype)?.map, representation()));
    TYPES.write().unwrap_or_else(|e| e.into_inner()).insert(datatype, types.clone());
    Ok(types)
}

fn too_many(call: &str, count: usize, bytes: usize) -> Failure {
    Failure::new(Class::Count, format!("{call}: {count} elements of {bytes} bytes are more than memory can be"))
}

/// The layout of the user's buffer for a message from a job with the representation `theirs`. `None`: it has ours.
///
/// # Safety
/// As for [`layout`].
pub unsafe fn layout_from(
    theirs: Option<Representation>,
    call: &str,
    buf: usize,
    count: i64,
    datatype: usize,
) -> Result<Layout, Failure> {
    // SAFETY: the caller's promise.
    let layout = unsafe { layout(call, buf, count, datatype) }?;
    let Some(theirs) = theirs else { return Ok(layout) };
    let one = signature(call, datatype as Handle & abi::get().mask)?;
    let ours = representation();
    if let Some(kind) = one.obstacle(theirs, ours) {
        let text = format!("{call}: the datatype has values of the other job that cannot be converted ({kind:?})");
        return Err(Failure::new(Class::Type, text));
    }
    let count = count as usize;
    let all = one.repeat(count).and_then(|all| layout.receiving(all, theirs, ours));
    all.ok_or_else(|| too_many(call, count, one.size(theirs).unwrap_or(usize::MAX)))
}

/// The signature of one element. The datatype was checked before.
fn signature(call: &str, datatype: Handle) -> Result<Signature, Failure> {
    if let Some(signature) = SIGNATURES.read().unwrap_or_else(|e| e.into_inner()).get(&datatype) {
        return Ok(signature.clone());
    }
    let signature = find_out::<Signature>(call, datatype)?.map;
    SIGNATURES.write().unwrap_or_else(|e| e.into_inner()).insert(datatype, signature.clone());
    Ok(signature)
}

fn find_out<M: Map>(call: &str, datatype: Handle) -> Result<Element<M>, Failure> {
    Envelope::of(datatype)
        .ok_or(Trouble::Undescribed)
        .and_then(|envelope| flatten(datatype, &envelope, DEPTH, &mut { PARTS }))
        .map_err(|trouble| Failure::new(Class::Type, format!("{call}: {}", trouble.text())))
}

fn element(call: &str, datatype: Handle) -> Result<Element<Shape>, Failure> {
    {
        let cache = CACHE.read().unwrap_or_else(|e| e.into_inner());
        if let Some(element) = cache.get(&datatype) {
            note_plain(datatype, element);
            return Ok(element.clone());
        }
    }
    let abi = abi::get();
    if datatype == abi.datatype_null {
        return Err(Failure::new(Class::Type, format!("{call}: the datatype is MPI_DATATYPE_NULL")));
    }
    // Only the MPI below knows whether a datatype is valid and committed.
    if !progress::accepts_datatype(datatype) {
        return Err(Failure::new(
            Class::Type,
            format!("{call}: the datatype is no valid handle, or not committed (MPI_Type_commit)"),
        ));
    }
    let element = find_out::<Shape>(call, datatype)?;
    if !element.predefined {
        drop_with_type(datatype)
            .ok_or_else(|| Failure::new(Class::Intern, format!("{call}: no attribute on the datatype")))?;
    }
    let mut cache = CACHE.write().unwrap_or_else(|e| e.into_inner());
    note_plain(datatype, &element);
    cache.insert(datatype, element.clone());
    Ok(element)
}

/// Caches the size of a datatype without gaps. Called under the lock of the cache.
fn note_plain(datatype: Handle, element: &Element<Shape>) {
    // So small that 2^32 elements still fit into an address space.
    if !*CHECKS
        && let Some(each) = element.map.as_run().and_then(|each| i32::try_from(each).ok())
        && each as isize == element.extent
    {
        PLAIN.put_back(datatype, || [each as u64]);
    }
}

/// Finds out the map of a datatype. `depth` and `parts` are what nesting and number of arguments are left.
fn flatten<M: Map>(
    datatype: Handle,
    envelope: &Envelope,
    depth: u32,
    parts: &mut usize,
) -> Result<Element<M>, Trouble> {
    let (size, extent) = measure(datatype).ok_or(Trouble::Undescribed)?;
    let predefined = envelope.is_predefined();
    let map = if predefined {
        M::predefined(datatype, envelope.combiner, size, extent).ok_or(Trouble::Unknown)?
    } else if size == 0 {
        M::nothing()
    } else {
        let depth = depth.checked_sub(1).ok_or(Trouble::Deep)?;
        *parts = parts.checked_sub(envelope.len()).ok_or(Trouble::Large)?;
        let contents = Contents::of(datatype, envelope).ok_or(Trouble::Undescribed)?;
        // All of them are visited, whatever fails, since each is a reference that has to be freed.
        let inner: Vec<_> = contents.types.iter().map(|&t| flatten_part(t, depth, parts)).collect();
        let inner = inner.into_iter().collect::<Result<Vec<_>, _>>()?;
        constructors::map(envelope.combiner, &contents, &inner).ok_or(Trouble::Undescribed)?
    };
    if map.size() != Some(size) {
        return Err(Trouble::Contradiction);
    }
    Ok(Element { map, extent, predefined })
}

/// As [`flatten`], for a datatype that `contents` gave, whose reference is freed.
fn flatten_part<M: Map>(mut datatype: Handle, depth: u32, parts: &mut usize) -> Result<Element<M>, Trouble> {
    let envelope = Envelope::of(datatype).ok_or(Trouble::Undescribed)?;
    let element = flatten(datatype, &envelope, depth, parts);
    // A predefined datatype is no new reference.
    if !envelope.is_predefined() {
        // SAFETY: a reference of our own, given up once.
        unsafe { pmpi::type_free(&mut datatype) };
    }
    element
}

/// Has a datatype removed from the caches when the program frees it.
fn drop_with_type(datatype: Handle) -> Option<()> {
    unsafe extern "C" fn dropped(datatype: Handle, _keyval: c_int, _value: *mut c_void, _extra: *mut c_void) -> c_int {
        let datatype = datatype & abi::get().mask;
        SIGNATURES.write().unwrap_or_else(|e| e.into_inner()).remove(&datatype);
        TYPES.write().unwrap_or_else(|e| e.into_inner()).remove(&datatype);
        let mut cache = CACHE.write().unwrap_or_else(|e| e.into_inner());
        PLAIN.forget(datatype);
        cache.remove(&datatype);
        0
    }
    static KEYVAL: OnceLock<Option<c_int>> = OnceLock::new();
    let keyval = (*KEYVAL.get_or_init(|| attr::type_keyval(dropped)))?;
    // SAFETY: a live datatype and our own keyval.
    (unsafe { pmpi::type_set_attr(datatype, keyval, std::ptr::null_mut()) } == 0).then_some(())
}
