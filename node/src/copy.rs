//! Packing and unpacking: copies the bytes of a shape, in order, to or from contiguous memory.
//!
//! Used by `memory` alone. Invariant: exactly the pieces that [`Body::each`] gives are touched. Small pieces at a
//! constant stride, such as a column of a matrix, are copied by loops for a fixed size: a call of memcpy would cost
//! several times the copy.

use crate::shape::{Body, Repeat};
use std::ops::{Range, RangeInclusive};

/// The direction of a copy: from the shape to contiguous memory, or back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Pack,
    Unpack,
}

/// So many bytes are copied as two words, which may overlap: a call would take longer.
const WORDS: RangeInclusive<usize> = WORD..=2 * WORD;
const WORD: usize = size_of::<u64>();

/// Copies a number of bytes that is often small.
///
/// # Safety
/// As many bytes at `from` may be read, and as many at `to` written.
#[inline(always)]
unsafe fn copy_few(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's promise; what is a part of `len` is within it.
    unsafe {
        match len {
            _ if WORDS.contains(&len) => copy_words(from, to, len),
            1 => to.write(from.read()),
            4 => to.cast::<[u8; 4]>().write(from.cast::<[u8; 4]>().read()),
            _ => std::ptr::copy_nonoverlapping(from, to, len),
        }
    }
}

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

/// Bodies of this many bytes are stored by the processor's string instruction. It takes lines as a whole, where single stores to lines that
/// the receiver has had before fetch each of them first, and a receiver that waits may take them away in between. memcpy begins
/// with it at 4 KiB or later, and to begin it takes longer than to copy less.
const STRING: Range<usize> = 512..4096;

/// Stores bytes where another processor will read them.
///
/// # Safety
/// As many bytes at `from` may be read, and as many at `to` written.
#[inline(always)]
unsafe fn store(from: *const u8, to: *mut u8, len: usize) {
    #[cfg(target_arch = "x86_64")]
    if STRING.contains(&len) && is_x86_feature_detected!("ermsb") {
        // SAFETY: the caller's promise; the direction flag is clear, as the ABI says.
        return unsafe {
            std::arch::asm!("rep movsb", inout("rcx") len => _, inout("rsi") from => _, inout("rdi") to => _, options(nostack, preserves_flags))
        };
    }
    // SAFETY: the caller's promise.
    unsafe { copy_few(from, to, len) }
}

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
        // SAFETY: the promises of the caller, and of `copy`.
        unsafe {
            match self.way {
                Way::Pack => store(at, self.packed, len),
                Way::Unpack => copy_few(self.packed, at, len),
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
        if skip > 0 {
            // SAFETY: the rest of one element, in which the shape has a byte.
            unsafe { self.body(&r.body, place(next), skip) };
            (next, skip) = (next + 1, 0);
        }
        let whole = (r.count - next).min(self.left / r.each);
        let first = place(next);
        // SAFETY: whole elements that the shape has, and that are left.
        let is_done = unsafe {
            match &r.body {
                Body::Run(len) => {
                    match *len {
                        2 => self.elements::<2>(first, r.stride, whole),
                        4 => self.elements::<4>(first, r.stride, whole),
                        8 => self.elements::<8>(first, r.stride, whole),
                        12 => self.elements::<12>(first, r.stride, whole),
                        16 => self.elements::<16>(first, r.stride, whole),
                        24 => self.elements::<24>(first, r.stride, whole),
                        32 => self.elements::<32>(first, r.stride, whole),
                        len => (next..next + whole).for_each(|n| self.run(place(n), len)),
                    }
                    true
                }
                Body::List(list) => {
                    let copied = list.runs().map(|runs| match self.way {
                        Way::Pack => self.structs::<true>(runs, first, r.stride, whole),
                        Way::Unpack => self.structs::<false>(runs, first, r.stride, whole),
                    });
                    copied.is_some()
                }
                Body::Repeat(_) => false,
            }
        };
        if is_done {
            next += whole;
        }
        // If the elements are runs, or lists of runs, only a part of one element is left now.
        while next < r.count && self.left > 0 {
            // SAFETY: an element of the shape.
            unsafe { self.body(&r.body, place(next), skip) };
            (next, skip) = (next + 1, 0);
        }
    }

    /// Elements that are a few runs each, as those of a struct are.
    ///
    /// # Safety
    /// The shape has `count` elements of these runs from `at` on, `stride` bytes apart, and at least as many bytes are left.
    unsafe fn structs<const PACK: bool>(
        &mut self,
        runs: impl Iterator<Item = (isize, usize)> + Clone,
        mut at: *mut u8,
        stride: isize,
        count: usize,
    ) {
        let mut packed = self.packed;
        for _ in 0..count {
            for (offset, len) in runs.clone() {
                let run = at.wrapping_offset(offset);
                let (from, to) = if PACK { (run, packed) } else { (packed, run) };
                // SAFETY: a run of the shape, and as many packed bytes.
                unsafe { copy_few(from, to, len) };
                packed = packed.wrapping_add(len);
            }
            at = at.wrapping_offset(stride);
        }
        self.left -= packed as usize - self.packed as usize;
        self.packed = packed;
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
