//! The table of user buffers. The program's memory is read and written here and nowhere else.
//!
//! Used by the core under its lock. Invariants: an entry lives exactly as long as its operation, and no memory outside
//! the pieces of a layout is touched.

use crate::convert::{Converted, Representation, Signature};
use crate::copy::{Way, copy};
use crate::shape::{Body, Shape};
use crate::types::Signed;
use base::{BufId, Memory};
use engine::{NOW, OpId};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;

/// The user buffer of one operation: its address, and where its bytes lie from there.
#[derive(Debug, Clone)]
pub struct Layout {
    base: *mut u8,
    body: Body,
    own: Option<Arc<Own>>,
}

/// The parts that few layouts have: memory that the library has allocated, which lives as long as a layout refers to
/// it, and what is known of its contents.
#[derive(Debug)]
struct Own {
    _bytes: Vec<u8>,
    arrival: Option<Arrival>,
    types: Option<Signed>,
}

/// How a message is converted when all of it has come, and the layout that it is written to.
#[derive(Debug)]
struct Arrival {
    into: Layout,
    signature: Signature,
    from: Representation,
    to: Representation,
}

// SAFETY: the pointer is followed only within what the constructors' callers promised, and that holds for every thread
// of the process: under the core's lock, or without it by the one thread that pulls or converts for an operation that
// is pending.
unsafe impl Send for Layout {}
// SAFETY: a layout itself is never changed after it was made; for the memory that it names, see above.
unsafe impl Sync for Layout {}

impl Layout {
    /// The `bytes` bytes at `ptr`.
    ///
    /// # Safety
    /// The bytes stay readable (and writable, for a receive) until the operation has completed, and until then the
    /// program accesses them only as MPI allows.
    pub unsafe fn contiguous(ptr: *mut u8, bytes: usize) -> Layout {
        Layout { base: ptr, body: Body::Run(bytes), own: None }
    }

    /// The bytes of a shape, whose offsets count from `ptr`.
    ///
    /// # Safety
    /// As for [`Layout::contiguous`], for all bytes of the shape.
    pub unsafe fn shaped(ptr: *mut u8, shape: Shape) -> Layout {
        let (at, body) = shape.into_parts();
        Layout { base: ptr.wrapping_offset(at), body, own: None }
    }

    /// The number of bytes, without gaps.
    pub fn bytes(&self) -> u64 {
        self.body.size() as u64
    }

    /// Its memory, if that is contiguous.
    pub(crate) fn run(&self) -> Option<&[u8]> {
        match self.body {
            // An empty buffer may be a null pointer.
            Body::Run(0) => Some(&[]),
            // SAFETY: the constructors' callers promise that the bytes are readable as long as the layout is used.
            Body::Run(bytes) => Some(unsafe { std::slice::from_raw_parts(self.base, bytes) }),
            _ => None,
        }
    }

    /// These bytes.
    pub(crate) fn of_bytes(bytes: Vec<u8>) -> Layout {
        Layout::of_own(bytes, None, None)
    }

    /// A packed copy of the present contents, in memory of the library that lives as long as the returned layout.
    pub fn packed(&self) -> Layout {
        let size = self.body.size();
        let mut bytes = Vec::new();
        self.read(0, size, &mut bytes);
        Layout::of_own(bytes, None, self.types().cloned())
    }

    /// The same buffer with the types of its data (`MPI_CONNECT_CHECK=types`). They travel with a message that is sent
    /// from it, and are compared with those of a message that is received into it.
    pub fn signed(self, types: Signed) -> Layout {
        debug_assert!(self.own.is_none());
        Layout { own: Some(Arc::new(Own { _bytes: Vec::new(), arrival: None, types: Some(types) })), ..self }
    }

    pub(crate) fn types(&self) -> Option<&Signed> {
        self.own.as_ref()?.types.as_ref()
    }

    fn of_own(mut bytes: Vec<u8>, arrival: Option<Arrival>, types: Option<Signed>) -> Layout {
        let (base, body) = (bytes.as_mut_ptr(), Body::Run(bytes.len()));
        Layout { base, body, own: Some(Arc::new(Own { _bytes: bytes, arrival, types })) }
    }

    /// A buffer of the library for a message of this signature from a job with representation `from`. When all of the
    /// message has come, it is converted to `to` and written into `self`. `None`: the message is larger than an address
    /// space.
    pub fn receiving(self, signature: Signature, from: Representation, to: Representation) -> Option<Layout> {
        let bytes = vec![0; signature.size(from)?];
        let types = self.types().map(|types| types.seen_by(from));
        Some(Layout::of_own(bytes, Some(Arrival { into: self, signature, from, to }), types))
    }

    fn arrival(&self) -> Option<&Arrival> {
        self.own.as_ref()?.arrival.as_ref()
    }

    /// Whether a message that is received is converted, or its types compared.
    pub(crate) fn judges(&self) -> bool {
        self.own.as_ref().is_some_and(|own| own.arrival.is_some() || own.types.is_some())
    }

    /// Whether a message that is received is converted.
    pub(crate) fn converts(&self) -> bool {
        self.arrival().is_some()
    }

    /// Converts the first `bytes` bytes that were received, and writes them to the program's buffer. `None`: this
    /// layout does not convert.
    pub(crate) fn convert(&self, bytes: u64) -> Option<Converted> {
        let arrival = self.arrival()?;
        let len = usize::try_from(bytes).unwrap_or(usize::MAX).min(self.body.size());
        // SAFETY: the library's own memory, of as many bytes as the body has; nothing writes to it after the whole
        // message came.
        let data = unsafe { std::slice::from_raw_parts(self.base, len) };
        let mut at = 0;
        Some(arrival.signature.convert(arrival.from, arrival.to, data, |piece| {
            arrival.into.write(at, piece);
            at += piece.len() as u64;
        }))
    }

    /// Writes packed bytes from `offset` on. Bytes beyond the end of the layout are dropped.
    #[inline(always)]
    pub(crate) fn write(&self, offset: u64, data: &[u8]) {
        let (offset, len) = self.clip(offset, data.len());
        // SAFETY: within the layout, which its creator keeps writable; `data` is the library's own memory, so it does
        // not overlap the layout, and it is only read.
        unsafe { copy(Way::Unpack, &self.body, self.base, offset, len, data.as_ptr().cast_mut()) };
    }

    /// Fills `to` with packed bytes from `offset` on. Returns their number, which is less if the layout ends before.
    #[inline(always)]
    pub(crate) fn pack(&self, offset: u64, to: &mut [u8]) -> usize {
        let (offset, len) = self.clip(offset, to.len());
        // SAFETY: within the layout, which its creator keeps readable; `to` is the library's own memory.
        unsafe { copy(Way::Pack, &self.body, self.base, offset, len, to.as_mut_ptr()) };
        len
    }

    /// Appends packed bytes from `offset` on.
    pub(crate) fn read(&self, offset: u64, len: usize, out: &mut Vec<u8>) {
        let (offset, len) = self.clip(offset, len);
        out.reserve(len);
        // SAFETY: within the layout, which its creator keeps readable; `len` bytes were reserved, and are initialized
        // here.
        unsafe {
            copy(Way::Pack, &self.body, self.base, offset, len, out.spare_capacity_mut().as_mut_ptr().cast());
            out.set_len(out.len() + len);
        }
    }

    /// The part of a range that is within the layout.
    #[inline(always)]
    fn clip(&self, offset: u64, len: usize) -> (usize, usize) {
        let bytes = self.body.size();
        let offset = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes);
        (offset, len.min(bytes - offset))
    }

    /// Calls `f` with (address, length) of each piece of `[offset, offset+len)`, in order, until it returns `false`.
    #[inline]
    fn each(&self, offset: u64, len: usize, mut f: impl FnMut(*mut u8, usize) -> bool) {
        let (offset, mut left) = self.clip(offset, len);
        if left == 0 {
            return;
        }
        if let Body::Run(_) = self.body {
            f(self.base.wrapping_add(offset), left);
        } else {
            self.body.each(0, offset, &mut left, &mut |at, n| f(self.base.wrapping_offset(at), n));
        }
    }
}

/// A cheap hasher for operation numbers, which are counted.
#[derive(Default)]
pub(crate) struct CountHasher(u64);

impl Hasher for CountHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for b in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*b);
        }
    }
    fn write_u64(&mut self, v: u64) {
        // The hash table uses the top bits too.
        self.0 = v.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

/// A map by operation number.
pub(crate) type Counted<V> = HashMap<u64, V, BuildHasherDefault<CountHasher>>;

/// The user buffers of all pending operations. Each is in the slot that its operation's number names.
#[derive(Default)]
pub(crate) struct Buffers {
    slots: Vec<Slot>,
    /// The buffer of a receive without an operation ([`engine::NOW`]).
    now: Option<Layout>,
}

struct Slot {
    /// The operation; [`NOW`], which has no slot, if there is none. Then nothing in the layout is to be dropped.
    op: OpId,
    layout: Layout,
}

impl Slot {
    fn vacant() -> Slot {
        Slot { op: NOW, layout: Layout { base: std::ptr::null_mut(), body: Body::Run(0), own: None } }
    }

    /// Drops what the layout has, unless it is a run of the program's bytes, as most are.
    #[inline(always)]
    fn vacate(&mut self) {
        self.op = NOW;
        if !matches!(self.layout, Layout { body: Body::Run(_), own: None, .. }) {
            *self = Slot::vacant();
        }
    }
}

impl Buffers {
    // Inlined, and part by part: see `base::queue`.
    #[inline(always)]
    pub(crate) fn insert(&mut self, op: OpId, layout: Layout) {
        let Some(slot) = self.slots.get_mut(op.slot()) else { return self.insert_later(op, layout) };
        if slot.op != NOW {
            slot.vacate();
        }
        slot.op = op;
        let Layout { base, body, own } = layout;
        slot.layout.base = base;
        // What was there is not to be dropped.
        std::mem::forget(std::mem::replace(&mut slot.layout.body, body));
        std::mem::forget(std::mem::replace(&mut slot.layout.own, own));
    }

    #[cold]
    #[inline(never)]
    fn insert_later(&mut self, op: OpId, layout: Layout) {
        self.slots.resize_with(op.slot(), Slot::vacant);
        self.slots.push(Slot { op, layout });
    }

    /// Sets the buffer of a receive without an operation, or removes it.
    #[inline]
    pub(crate) fn set_now(&mut self, layout: Option<Layout>) {
        self.now = layout;
    }

    #[inline(always)]
    pub(crate) fn get(&self, buf: BufId) -> Option<&Layout> {
        if buf == NOW.0 {
            return self.now.as_ref();
        }
        self.slots.get(OpId(buf).slot()).filter(|slot| slot.op == OpId(buf)).map(|slot| &slot.layout)
    }

    /// Removes the buffer of an operation, if there is one.
    #[inline(always)]
    pub(crate) fn remove(&mut self, op: OpId) {
        if let Some(slot) = self.slots.get_mut(op.slot())
            && slot.op == op
        {
            slot.vacate();
        }
    }
}

impl Memory for Buffers {
    fn read(&self, buf: BufId, offset: u64, len: usize, out: &mut Vec<u8>) {
        if let Some(layout) = self.get(buf) {
            layout.read(offset, len, out);
        }
    }

    fn fill(&self, buf: BufId, offset: u64, to: &mut [u8]) -> usize {
        self.get(buf).map_or(0, |layout| layout.pack(offset, to))
    }

    #[inline(always)]
    fn write(&mut self, buf: BufId, offset: u64, data: &[u8]) {
        if let Some(layout) = self.get(buf) {
            layout.write(offset, data);
        }
    }

    fn with_slices<R>(
        &self,
        buf: BufId,
        offset: u64,
        len: usize,
        max: usize,
        f: impl FnOnce(&[IoSlice<'_>]) -> R,
    ) -> R {
        let Some(layout) = self.get(buf) else { return f(&[]) };
        let mut out = Pieces::default();
        layout.each(offset, len, |at, n| {
            // SAFETY: within the layout; `f` cannot reach the table, so the slice is gone before the entry can be
            // removed.
            out.push(IoSlice::new(unsafe { std::slice::from_raw_parts(at, n) }));
            out.len() < max
        });
        f(out.as_slice())
    }

    fn with_slices_mut<R>(
        &mut self,
        buf: BufId,
        offset: u64,
        len: usize,
        max: usize,
        f: impl FnOnce(&mut [IoSliceMut<'_>]) -> R,
    ) -> R {
        let Some(layout) = self.get(buf) else { return f(&mut []) };
        if let Body::Run(_) = layout.body {
            let (offset, len) = layout.clip(offset, len);
            if len == 0 {
                return f(&mut []);
            }
            // SAFETY: as for the slices below.
            let run = unsafe { std::slice::from_raw_parts_mut(layout.base.wrapping_add(offset), len) };
            return f(&mut [IoSliceMut::new(run)]);
        }
        let mut out = Vec::new();
        layout.each(offset, len, |at, n| {
            // SAFETY: as in `with_slices`, and the memory is writable; MPI forbids overlapping blocks in the datatype
            // of a receive, and the slices are only handed to the kernel.
            out.push(IoSliceMut::new(unsafe { std::slice::from_raw_parts_mut(at, n) }));
            out.len() < max
        });
        f(&mut out)
    }
}

/// A vector of slices that does not allocate for the usual case, a single one.
#[derive(Default)]
struct Pieces<'a> {
    first: Option<IoSlice<'a>>,
    many: Vec<IoSlice<'a>>,
}

impl<'a> Pieces<'a> {
    fn push(&mut self, s: IoSlice<'a>) {
        match self.first {
            None => self.first = Some(s),
            Some(first) => {
                if self.many.is_empty() {
                    self.many.push(first);
                }
                self.many.push(s);
            }
        }
    }
    fn len(&self) -> usize {
        if self.many.is_empty() { usize::from(self.first.is_some()) } else { self.many.len() }
    }
    fn as_slice(&self) -> &[IoSlice<'a>] {
        if self.many.is_empty() { self.first.as_slice() } else { &self.many }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_buffer_may_be_a_null_pointer() {
        // SAFETY: it has no bytes.
        let empty = unsafe { Layout::contiguous(std::ptr::null_mut(), 0) };
        assert_eq!(empty.run(), Some(&[][..]));
    }
}
