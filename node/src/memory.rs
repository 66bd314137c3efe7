//! The table of user buffers: where the raw memory of the program is read and written, and nowhere else.
//!
//! Used by the core under its lock. Invariant: an entry lives exactly as long as its operation, and no piece of
//! memory outside the layout's pieces is ever touched.

use crate::convert::{Converted, Representation, Signature};
use crate::copy::{Way, copy};
use crate::shape::{Body, Shape};
use crate::types::Signed;
use base::{BufId, Memory};
use engine::OpId;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;

/// User memory of one operation.
#[derive(Debug, Clone)]
pub struct Layout {
    base: *mut u8,
    body: Body,
    own: Option<Arc<Own>>,
}

/// What few layouts have: memory of the library's own, which lasts as long as somebody has a layout of it, and what is
/// known of what lies there.
#[derive(Debug)]
struct Own {
    _bytes: Vec<u8>,
    arrival: Option<Arrival>,
    types: Option<Signed>,
}

/// Where a message goes once it is there, and what is done to it on the way.
#[derive(Debug)]
struct Arrival {
    into: Layout,
    signature: Signature,
    from: Representation,
    to: Representation,
}

// SAFETY: the pointer is only followed by the core under its lock, within what the constructors' callers promised,
// which holds for every thread of the process.
unsafe impl Send for Layout {}
// SAFETY: a shared layout is copied or read, no more.
unsafe impl Sync for Layout {}

impl Layout {
    /// # Safety
    /// `bytes` bytes from `ptr` stay readable (writable, for a receive) until the operation is over, and the program
    /// leaves them alone as MPI demands.
    pub unsafe fn contiguous(ptr: *mut u8, bytes: usize) -> Layout {
        Layout { base: ptr, body: Body::Run(bytes), own: None }
    }

    /// # Safety
    /// As for [`Layout::contiguous`], for all pieces of a shape seen from `ptr`.
    pub unsafe fn shaped(ptr: *mut u8, shape: Shape) -> Layout {
        let (at, body) = shape.into_parts();
        Layout { base: ptr.wrapping_offset(at), body, own: None }
    }

    /// Packed bytes.
    pub fn bytes(&self) -> u64 {
        self.body.size() as u64
    }

    /// A copy of what is there now, in memory of the library's own that lasts as long as somebody has the layout.
    pub fn packed(&self) -> Layout {
        let size = self.body.size();
        let mut bytes = Vec::new();
        self.read(0, size, &mut bytes);
        Layout::of_own(bytes, None, self.types().cloned())
    }

    /// The same with its types, which travel with a message, and are compared when one is received.
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

    /// Room for a message of this signature from a job with another representation. When it is there, it is converted
    /// into this layout. `None`: more bytes than an address space has.
    pub fn receiving(self, signature: Signature, from: Representation, to: Representation) -> Option<Layout> {
        let bytes = vec![0; signature.size(from)?];
        let types = self.types().map(|types| types.seen_by(from));
        Some(Layout::of_own(bytes, Some(Arrival { into: self, signature, from, to }), types))
    }

    fn arrival(&self) -> Option<&Arrival> {
        self.own.as_ref()?.arrival.as_ref()
    }

    /// Whether there is more to be done with what comes than to receive it: it is converted, or its types are compared.
    pub(crate) fn judges(&self) -> bool {
        self.own.as_ref().is_some_and(|own| own.arrival.is_some() || own.types.is_some())
    }

    /// Whether what comes is to be converted.
    pub(crate) fn converts(&self) -> bool {
        self.arrival().is_some()
    }

    /// Converts the first `bytes` that came to where the program wants them.
    pub(crate) fn convert(&self, bytes: u64) -> Option<Converted> {
        let arrival = self.arrival()?;
        let len = usize::try_from(bytes).unwrap_or(usize::MAX).min(self.body.size());
        // SAFETY: memory of our own, as long as the body says, which nobody writes to once the operation is over.
        let data = unsafe { std::slice::from_raw_parts(self.base, len) };
        let mut at = 0;
        Some(arrival.signature.convert(arrival.from, arrival.to, data, |piece| {
            arrival.into.write(at, piece);
            at += piece.len() as u64;
        }))
    }

    /// Writes packed bytes from `offset` on; what goes beyond the layout is dropped.
    pub(crate) fn write(&self, offset: u64, data: &[u8]) {
        let (offset, len) = self.clip(offset, data.len());
        // SAFETY: within the layout, which its creator keeps writable; `data` is the library's own memory and cannot overlap
        // it, and is only read.
        unsafe { copy(Way::Unpack, &self.body, self.base, offset, len, data.as_ptr().cast_mut()) };
    }

    /// Fills `to` with packed bytes from `offset` on; says how many there were.
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
        // SAFETY: within the layout, which its creator keeps readable; there is room for as many, which are then filled.
        unsafe {
            copy(Way::Pack, &self.body, self.base, offset, len, out.spare_capacity_mut().as_mut_ptr().cast());
            out.set_len(out.len() + len);
        }
    }

    /// The part of a range that the layout has.
    fn clip(&self, offset: u64, len: usize) -> (usize, usize) {
        let bytes = self.body.size();
        let offset = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes);
        (offset, len.min(bytes - offset))
    }

    /// Calls `f` with (address, length) of each piece of `[offset, offset+len)`, in order, until it answers `false`.
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

/// Operation numbers are counted, so they are their own hash.
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
        // The table looks at the top bits too.
        self.0 = v.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

pub(crate) type Counted<V> = HashMap<u64, V, BuildHasherDefault<CountHasher>>;

/// All user buffers in use, by operation: each in the slot that its number names.
#[derive(Default)]
pub(crate) struct Buffers(Vec<Option<(BufId, Layout)>>);

impl Buffers {
    pub fn insert(&mut self, op: OpId, layout: Layout) {
        let slot = op.slot();
        if slot >= self.0.len() {
            self.0.resize_with(slot + 1, || None);
        }
        self.0[slot] = Some((op.0, layout));
    }

    pub fn get(&self, buf: BufId) -> Option<&Layout> {
        match self.0.get(OpId(buf).slot()) {
            Some(Some((id, layout))) if *id == buf => Some(layout),
            _ => None,
        }
    }

    /// Nothing if it is not there.
    pub fn remove(&mut self, op: OpId) {
        if let Some(slot) = self.0.get_mut(op.slot())
            && slot.as_ref().is_some_and(|(id, _)| *id == op.0)
        {
            *slot = None;
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
            // SAFETY: within the layout; the slice ends before the entry can, as `f` cannot reach the table.
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
            // SAFETY: as below.
            let run = unsafe { std::slice::from_raw_parts_mut(layout.base.wrapping_add(offset), len) };
            return f(&mut [IoSliceMut::new(run)]);
        }
        let mut out = Vec::new();
        layout.each(offset, len, |at, n| {
            // SAFETY: as above, writable; MPI forbids overlapping blocks in a receive's datatype, and the slices are
            // only handed to the kernel.
            out.push(IoSliceMut::new(unsafe { std::slice::from_raw_parts_mut(at, n) }));
            out.len() < max
        });
        f(&mut out)
    }
}

/// A vector that does not allocate for the usual single piece.
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
