//! Memory that two processes map (memfd_create(2)). It has no name, so it is gone when both have ended.
//!
//! Made by one side of a lane and handed to the other as a descriptor. Invariant: as long as a [`Segment`] lives, all of
//! its bytes are mapped; it is sealed against shrinking and growing, so touching it never raises SIGBUS.

use super::view::SegmentView;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::mman::{MapFlags, MmapAdvise, ProtFlags, madvise, mmap, munmap};
use nix::sys::stat::fstat;
use nix::unistd::ftruncate;
use std::io;
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering, compiler_fence, fence};

const SEALS: SealFlag = SealFlag::F_SEAL_SHRINK.union(SealFlag::F_SEAL_GROW).union(SealFlag::F_SEAL_SEAL);

/// The bytes of a word.
const WORD: usize = size_of::<u64>();

pub(crate) struct Segment {
    at: NonNull<u8>,
    len: usize,
    words: usize,
}

// SAFETY: the mapping belongs to no thread, and all access to it goes through `SegmentView`.
unsafe impl Send for Segment {}
// SAFETY: words are atomic, and callers of `read` and `write` promise that nothing else touches those bytes.
unsafe impl Sync for Segment {}

impl Segment {
    /// New memory, all zeros, and the descriptor by which another process can map it. Its pages are provided when they are
    /// touched.
    pub(crate) fn create(len: usize) -> io::Result<(Segment, OwnedFd)> {
        let fd = memfd_create("mpi_connect", MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING)?;
        ftruncate(&fd, len as i64)?;
        fcntl(&fd, FcntlArg::F_ADD_SEALS(SEALS))?;
        Ok((Segment::map(&fd, len)?, fd))
    }

    /// Maps memory that another process has made. An error if it is not sealed, or of another length.
    pub(crate) fn adopt(fd: OwnedFd, len: usize) -> io::Result<Segment> {
        // Only memory files can be sealed, so this refuses any other descriptor.
        let seals = SealFlag::from_bits_truncate(fcntl(&fd, FcntlArg::F_GET_SEALS)?);
        if !seals.contains(SEALS) || fstat(&fd)?.st_size != len as i64 {
            return Err(Errno::EBADMSG.into());
        }
        Segment::map(&fd, len)
    }

    fn map(fd: impl AsFd, len: usize) -> io::Result<Segment> {
        let size = NonZeroUsize::new(len).ok_or(Errno::EINVAL)?;
        // SAFETY: a new mapping, at an address that the kernel chooses.
        let at =
            unsafe { mmap(None, size, ProtFlags::PROT_READ | ProtFlags::PROT_WRITE, MapFlags::MAP_SHARED, fd, 0)? };
        let segment = Segment { at: at.cast(), len, words: len / WORD };
        // SAFETY: the mapping is ours. A forked child does not get it, and nothing of this library runs there.
        unsafe { madvise(at, len, MmapAdvise::MADV_DONTFORK)? };
        Ok(segment)
    }

    #[inline(always)]
    fn word(&self, at: usize) -> &AtomicU64 {
        // One comparison: what is no multiple of 8 has its lowest bits on top.
        assert!(at.rotate_right(WORD.trailing_zeros()) < self.words);
        // SAFETY: mapped as long as `self` lives, aligned, and a word is only ever touched as one; only a mutex of the C library is there in halves.
        unsafe { AtomicU64::from_ptr(self.at.as_ptr().add(at).cast()) }
    }

    /// Where this byte is mapped, if it is: for hints.
    #[inline(always)]
    fn place(&self, at: usize) -> *const i8 {
        self.at.as_ptr().wrapping_add(at).cast_const().cast()
    }

    /// Where these bytes are mapped.
    #[inline(always)]
    pub(crate) fn bytes(&self, at: usize, len: usize) -> *mut u8 {
        assert!(at <= self.len && len <= self.len - at);
        // SAFETY: within the mapping.
        unsafe { self.at.as_ptr().add(at) }
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        // SAFETY: mapped by `map`, and references into it do not outlive `self`.
        let _ = unsafe { munmap(self.at.cast(), self.len) };
    }
}

impl SegmentView for Segment {
    #[inline]
    fn load(&self, at: usize, order: Ordering) -> u64 {
        self.word(at).load(order)
    }

    #[inline]
    fn store(&self, at: usize, value: u64, order: Ordering) {
        self.word(at).store(value, order);
    }

    fn swap(&self, at: usize, value: u64, order: Ordering) -> u64 {
        self.word(at).swap(value, order)
    }

    fn or_fenced(&self, at: usize, bits: u64) {
        self.word(at).fetch_or(bits, Ordering::SeqCst);
        // On x86-64 the locked instruction is a full fence already.
        #[cfg(not(target_arch = "x86_64"))]
        fence(Ordering::SeqCst);
    }

    fn fence(&self) {
        fence(Ordering::SeqCst);
    }

    fn fence_everywhere(&self) {
        super::fence::everywhere();
    }

    #[inline]
    fn light_fence(&self) {
        compiler_fence(Ordering::SeqCst);
    }

    fn populate(&self, at: usize, len: usize) {
        // SAFETY: within the mapping, whose contents stay. A kernel that does not know this advice (before Linux 5.14) says so, and
        // provides the pages one by one.
        let _ = unsafe { libc::madvise(self.bytes(at, len).cast(), len, libc::MADV_POPULATE_WRITE) };
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn expect_load(&self, at: usize) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: only a hint, which an address that is not mapped makes a hint for nothing.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(self.place(at)) };
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn expect_store(&self, at: usize) {
        // SAFETY: as above. A processor that does not know this instruction does nothing.
        unsafe { std::arch::asm!("prefetchw [{}]", in(reg) self.place(at), options(nostack, preserves_flags)) };
    }

    #[inline(always)]
    unsafe fn read<R>(&self, at: usize, len: usize, f: impl FnOnce(&[u8]) -> R) -> R {
        // SAFETY: mapped, and the caller promises that nothing writes there.
        f(unsafe { std::slice::from_raw_parts(self.bytes(at, len), len) })
    }

    #[inline(always)]
    unsafe fn write<R>(&self, at: usize, len: usize, f: impl FnOnce(&mut [u8]) -> R) -> R {
        // SAFETY: mapped, and the caller promises that nothing else touches it.
        f(unsafe { std::slice::from_raw_parts_mut(self.bytes(at, len), len) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_see_the_same() {
        let (a, fd) = Segment::create(8192).unwrap();
        let b = Segment::adopt(fd, 8192).unwrap();
        a.store(4096, 7, Ordering::Release);
        assert_eq!(b.load(4096, Ordering::Acquire), 7);
        assert_eq!(b.load(0, Ordering::Acquire), 0);
    }

    #[test]
    fn only_whole_words_within_are_touched() {
        let (memory, _) = Segment::create(4096).unwrap();
        let is_refused = |at: usize| std::panic::catch_unwind(|| memory.load(at, Ordering::Relaxed)).is_err();
        assert!((0..4096).step_by(8).all(|at| !is_refused(at)));
        assert!([1, 4, 7, 4089, 4095, 4096, 4104, usize::MAX, usize::MAX - 7, 1 << 63].into_iter().all(is_refused));
    }

    #[test]
    fn what_could_shrink_is_refused() {
        let fd = memfd_create("mpi_connect", MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING).unwrap();
        ftruncate(&fd, 8192).unwrap();
        assert!(Segment::adopt(fd, 8192).is_err());
        let (_, fd) = Segment::create(8192).unwrap();
        assert!(ftruncate(&fd, 4096).is_err());
        assert!(Segment::adopt(fd, 16_384).is_err());
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        assert!(Segment::adopt(file.into(), 8192).is_err());
    }
}
