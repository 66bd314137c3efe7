//! Packing and unpacking: copies the bytes of a shape, in order, to or from contiguous memory.
//!
//! Used by `memory` alone. Invariant: exactly the pieces that [`Body::each`] gives are touched. Small pieces at a
//! constant stride, such as a column of a matrix, are copied by loops for a fixed size: a call of memcpy would cost
//! several times the copy.

use crate::shape::{Body, Repeat};
use std::ops::RangeInclusive;

/// The direction of a copy: from the shape to contiguous memory, or back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Pack,
    Unpack,
}

/// A line of the caches.
const LINE: usize = 64;
/// So many bytes are copied by [`copy_lines`].
const MANY: usize = 4 << 10;

/// So many bytes are copied as two words, which may overlap: a call would take longer.
const WORDS: RangeInclusive<usize> = WORD..=2 * WORD;
const WORD: usize = size_of::<u64>();

/// Copies a number of bytes that is among [`WORDS`].
///
/// # Safety
/// As many bytes at `from` may be read, and as many at `to` written.
#[inline(always)]
unsafe fn copy_words(from: *const u8, to: *mut u8, len: usize) {
    let last = len - WORD;
    // SAFETY: the caller's promise; both words are read before one is written.
    unsafe {
        let words = (from.cast::<u64>().read_unaligned(), from.add(last).cast::<u64>().read_unaligned());
        to.cast::<u64>().write_unaligned(words.0);
        to.add(last).cast::<u64>().write_unaligned(words.1);
    }
}

/// Copies to memory that another processor reads next, with stores past the caches for all whole lines: that processor has the lines in
/// its cache, so to own them first would take as long as to have them read.
///
/// # Safety
/// As many bytes at `from` as `to` has may be read, and no other thread writes to them.
pub(crate) unsafe fn copy_past_caches(from: *const u8, to: &mut [u8]) {
    let at = to.as_mut_ptr();
    let first = at.align_offset(LINE).min(to.len());
    let (lines, last) = ((to.len() - first) / LINE, (to.len() - first) % LINE);
    // SAFETY: all within `to`, which is exclusive, and the caller's bytes.
    unsafe {
        std::ptr::copy_nonoverlapping(from, at, first);
        store_lines(from.add(first), at.add(first), lines);
        let done = first + lines * LINE;
        std::ptr::copy_nonoverlapping(from.add(done), at.add(done), last);
    }
}

/// # Safety
/// There are as many lines at both addresses, `to` is at the begin of one, and nobody else touches those.
#[cfg(target_arch = "x86_64")]
unsafe fn store_lines(from: *const u8, to: *mut u8, lines: usize) {
    use std::arch::x86_64::{_mm_sfence, _mm_stream_si128};
    // SAFETY: the caller's promise; every x86-64 processor has these instructions.
    unsafe {
        each_line(from, to, lines, |to, part| _mm_stream_si128(to, part));
        // Such stores are not ordered with others: whoever is told of the bytes has to see them.
        _mm_sfence();
    }
}

/// Copies lines out of a ring, or into it. The C library takes `rep movsb` for many bytes, which is half as fast as this where they come
/// from memory.
///
/// # Safety
/// There are as many lines at both addresses, which do not overlap, and nobody else touches those at `to`.
#[cfg(target_arch = "x86_64")]
unsafe fn copy_lines(from: *const u8, to: *mut u8, lines: usize) {
    use std::arch::x86_64::_mm_storeu_si128;
    // SAFETY: the caller's promise.
    unsafe { each_line(from, to, lines, |to, part| _mm_storeu_si128(to, part)) };
}

/// Loads line after line, and has the four parts of each stored one after the other.
///
/// # Safety
/// As many lines may be read at `from`, and stored at `to`.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn each_line(
    from: *const u8,
    to: *mut u8,
    lines: usize,
    store: impl Fn(*mut std::arch::x86_64::__m128i, std::arch::x86_64::__m128i),
) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128};
    let (from, to) = (from.cast::<__m128i>(), to.cast::<__m128i>());
    for n in 0..lines {
        // SAFETY: the caller's promise; every x86-64 processor has these instructions.
        unsafe {
            let (from, to) = (from.add(4 * n), to.add(4 * n));
            let (a, b) = (_mm_loadu_si128(from), _mm_loadu_si128(from.add(1)));
            let (c, d) = (_mm_loadu_si128(from.add(2)), _mm_loadu_si128(from.add(3)));
            store(to, a);
            store(to.add(1), b);
            store(to.add(2), c);
            store(to.add(3), d);
        }
    }
}

/// # Safety
/// There are as many lines at both addresses, which do not overlap, and nobody else touches those at `to`.
#[cfg(not(target_arch = "x86_64"))]
unsafe fn store_lines(from: *const u8, to: *mut u8, lines: usize) {
    // SAFETY: the caller's promise.
    unsafe { std::ptr::copy_nonoverlapping(from, to, lines * LINE) };
}

#[cfg(not(target_arch = "x86_64"))]
use store_lines as copy_lines;

/// A copy under way.
struct Walk {
    way: Way,
    /// The next byte of the contiguous memory.
    packed: *mut u8,
    /// Bytes still to be copied.
    left: usize,
}

/// Copies `len` packed bytes from offset `skip` on, of the shape that begins at `at`.
///
/// # Safety
/// The shape has at least `skip + len` bytes. Its pieces that hold these bytes, and the `len` bytes at `packed`, may be
/// read and written as `way` asks. Both do not overlap, and no other thread writes to them.
#[inline(always)]
pub(crate) unsafe fn copy(way: Way, body: &Body, at: *mut u8, skip: usize, len: usize, packed: *mut u8) {
    let mut walk = Walk { way, packed, left: len };
    match body {
        _ if len == 0 => {}
        // SAFETY: the caller's promise.
        Body::Run(_) => unsafe { walk.run(at.wrapping_add(skip), len) },
        // SAFETY: the caller's promise.
        _ => unsafe { walk.body(body, at, skip) },
    }
}

impl Walk {
    /// # Safety
    /// As for [`copy`], of the bytes that are left. The body has a byte at `skip`.
    unsafe fn body(&mut self, body: &Body, at: *mut u8, skip: usize) {
        match body {
            // SAFETY: within the run, and no more than is left.
            Body::Run(len) => unsafe { self.run(at.wrapping_add(skip), (len - skip).min(self.left)) },
            // SAFETY: the caller's promise.
            Body::Repeat(r) => unsafe { self.repeat(r, at, skip) },
            Body::List(l) => {
                let (first, mut skip) = l.find(skip);
                for (offset, body) in l.parts_from(first) {
                    if self.left == 0 {
                        return;
                    }
                    // SAFETY: a part of the shape, at its offset from the shape's beginning.
                    unsafe { self.body(body, at.wrapping_offset(offset), skip) };
                    skip = 0;
                }
            }
        }
    }

    /// # Safety
    /// The `len` bytes at `at` belong to the shape, and are at most those that are left.
    #[inline(always)]
    unsafe fn run(&mut self, at: *mut u8, len: usize) {
        let (from, to) = match self.way {
            Way::Pack => (at, self.packed),
            Way::Unpack => (self.packed, at),
        };
        // SAFETY: the promises of the caller, and of `copy`.
        unsafe {
            if WORDS.contains(&len) {
                copy_words(from, to, len);
            } else {
                let lines = if len >= MANY { len / LINE } else { 0 };
                let done = lines * LINE;
                copy_lines(from, to, lines);
                std::ptr::copy_nonoverlapping(from.add(done), to.add(done), len - done);
            }
        }
        self.packed = self.packed.wrapping_add(len);
        self.left -= len;
    }

    /// # Safety
    /// As for [`Walk::body`].
    unsafe fn repeat(&mut self, r: &Repeat, at: *mut u8, skip: usize) {
        let (mut next, mut skip) = (skip / r.each, skip % r.each);
        let place = |n: usize| at.wrapping_offset(r.stride.wrapping_mul(n as isize));
        if let Body::Run(len) = r.body {
            if skip > 0 {
                // SAFETY: the rest of one element.
                unsafe { self.run(place(next).wrapping_add(skip), (len - skip).min(self.left)) };
                (next, skip) = (next + 1, 0);
            }
            let whole = (r.count - next).min(self.left / len);
            // SAFETY: whole elements that the shape has, and that are left.
            unsafe {
                match len {
                    2 => self.elements::<2>(place(next), r.stride, whole),
                    4 => self.elements::<4>(place(next), r.stride, whole),
                    8 => self.elements::<8>(place(next), r.stride, whole),
                    12 => self.elements::<12>(place(next), r.stride, whole),
                    16 => self.elements::<16>(place(next), r.stride, whole),
                    24 => self.elements::<24>(place(next), r.stride, whole),
                    32 => self.elements::<32>(place(next), r.stride, whole),
                    _ => (next..next + whole).for_each(|n| self.run(place(n), len)),
                }
            }
            next += whole;
        }
        // If the elements are runs, only a part of one element is left now.
        while next < r.count && self.left > 0 {
            // SAFETY: an element of the shape.
            unsafe { self.body(&r.body, place(next), skip) };
            (next, skip) = (next + 1, 0);
        }
    }

    /// # Safety
    /// The shape has `count` elements of `N` bytes from `at` on, `stride` bytes apart, and at least as many bytes are
    /// left.
    unsafe fn elements<const N: usize>(&mut self, at: *mut u8, stride: isize, count: usize) {
        let (mut at, mut packed) = (at.cast::<[u8; N]>(), self.packed.cast::<[u8; N]>());
        for _ in 0..count {
            // SAFETY: the caller's promise; arrays of bytes need no alignment.
            unsafe {
                match self.way {
                    Way::Pack => *packed = *at,
                    Way::Unpack => *at = *packed,
                }
            }
            (at, packed) = (at.wrapping_byte_offset(stride), packed.wrapping_add(1));
        }
        self.packed = packed.cast();
        self.left -= count * N;
    }
}
