//! Tokens: handles of ours from ranges that no MPI below uses, so that the value alone tells whether a handle is ours.
//!
//! Some Fortran layers read the INTEGER of a handle from the object behind the handle. For them, a token is the address
//! of memory of ours, in which that INTEGER has its place.

use crate::abi::{INTEGER_GROUP, INTEGER_MESSAGE, INTEGER_REQUEST, Integers, Traits, WIDE_TOKEN};
use crate::{abi, compat_lam};
use std::arch::x86_64::{
    __m128i, _mm_cmpeq_epi8, _mm_cmpeq_epi16, _mm_loadu_si128, _mm_movemask_epi8, _mm_or_si128, _mm_set1_epi8,
    _mm_set1_epi16, _mm_setzero_si128,
};
use std::ffi::c_int;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

const COUNT_BITS: u64 = 24;
const COUNT_MASK: u64 = (1 << COUNT_BITS) - 1;

/// The bytes from one token's address to the next one's. The MPI's own objects have their INTEGER at a smaller offset.
const STEP: u64 = 128;

/// How many numbers with memory behind them are given out at first, before the range grows.
const RING: u64 = 1 << 16;

/// The number of live tokens for which there is room at first, a power of two.
const FIRST: usize = 16;

/// The memory behind a token, which a Fortran layer accesses. The number is the offset in bytes from the token's
/// address.
#[derive(Clone, Copy)]
pub enum Backing {
    /// No memory.
    Nothing,
    /// An INTEGER that the layer itself writes there: LAM.
    Theirs(usize),
    /// The token as an INTEGER with these high bits, which the layer sometimes reads: Open MPI.
    Ours(usize, u32),
}

/// Where the layer of this family looks for the INTEGER of a kind of handle.
pub fn backing(place: fn(&Integers) -> usize, int_prefix: u32) -> Backing {
    let family = abi::get().family;
    match (&family.integers, &family.also_backing) {
        (Some(integers), _) => Backing::Theirs(place(integers)),
        (None, Some(integers)) => Backing::Ours(place(integers), int_prefix),
        (None, None) => Backing::Nothing,
    }
}

impl Backing {
    /// The distance from one token to the next, a power of two.
    fn step(self) -> u32 {
        match self {
            Backing::Nothing => 1,
            Backing::Ours(..) => size_of::<c_int>() as u32,
            Backing::Theirs(_) => STEP as u32,
        }
    }
}

/// The live tokens of one kind and what they stand for, under a lock of their own.
pub struct Tokens<T> {
    live: Mutex<Live<T>>,
}

/// The live tokens of one kind and what they stand for. A token's number gives its place in the table. A place has
/// another number each time that it is used, so that a stale token is rarely taken for a live one.
pub struct Live<T> {
    /// Their number is a power of two, or 0 at first.
    places: Vec<Place<T>>,
    /// The place that is used next. It is the one that was freed last, since it is still in the cache. `NONE`: all are
    /// in use.
    free: u32,
    /// Only numbers below this power of two are given out, so that no more memory than needed is touched behind them.
    ring: u64,
    backing: Backing,
    step_log: u32,
    prefix: u64,
}

struct Place<T> {
    /// The number of the token that lives here, or of the next one. In steps, it equals the index modulo the number of
    /// places.
    number: u32,
    /// The next free place.
    next: u32,
    item: Option<T>,
}

const NONE: u32 = u32::MAX;

/// Tells one kind of token from native handles. `INT` is the high bits of its INTEGER of Fortran. The low half of a
/// token has the same bits in every family, so a look at that half is mostly enough, whatever the width of a handle.
pub struct Mark<const INT: u32> {
    /// The high bits of the token, once the ABI is known.
    prefix: AtomicU64,
}

pub static REQUEST: Mark<INTEGER_REQUEST> = Mark::new();
pub static GROUP: Mark<INTEGER_GROUP> = Mark::new();
pub static MESSAGE: Mark<INTEGER_MESSAGE> = Mark::new();

/// Sets the prefixes of the tokens. Called when the ABI has been found.
pub fn note(family: &Traits) {
    REQUEST.prefix.store(family.request_token, Ordering::Relaxed);
    GROUP.prefix.store(family.group_token, Ordering::Relaxed);
    MESSAGE.prefix.store(family.message_token, Ordering::Relaxed);
}

impl<const INT: u32> Mark<INT> {
    const fn new() -> Mark<INT> {
        Mark { prefix: AtomicU64::new(u64::MAX) }
    }

    fn prefix(&self) -> u64 {
        self.prefix.load(Ordering::Relaxed)
    }

    /// Whether a value in a register may be such a token; false is certain. Every native call asks this, or one of the
    /// next two.
    #[inline(always)]
    pub fn maybe(&self, value: usize) -> bool {
        (value as u32 ^ INT) as u64 <= COUNT_MASK
    }

    /// The same for a handle in memory.
    ///
    /// # Safety
    /// `at` is null or the address of a handle.
    #[inline(always)]
    pub unsafe fn maybe_at(&self, at: usize) -> bool {
        // SAFETY: the caller's promise; a handle has four bytes at least.
        at != 0 && self.maybe(unsafe { (at as *const u32).read() } as usize)
    }

    /// The same for an array of handles.
    ///
    /// # Safety
    /// `array` is null or the address of `count` handles.
    #[inline(always)]
    pub unsafe fn maybe_among(&self, array: usize, count: i32) -> bool {
        // SAFETY: the caller's promise.
        array != 0 && count > 0 && unsafe { self.maybe_among_some(array, count, abi::is_wide()) }
    }

    /// # Safety
    /// `array` is the address of `count` handles, of eight bytes or of four.
    #[inline(always)]
    unsafe fn maybe_among_some(&self, array: usize, count: i32, is_wide: bool) -> bool {
        // In a handle of four bytes the last byte is compared, and in one of eight bytes the third pair, which few
        // addresses share. SAFETY: the caller's promise; SSE2 is part of the architecture.
        unsafe {
            if is_wide {
                let wanted = _mm_set1_epi16(WIDE_TOKEN as i16);
                any_block::<0x3030>(array, count as usize * 8, |block| _mm_cmpeq_epi16(block, wanted))
                    || (count % 2 != 0 && self.maybe_at(array + (count as usize - 1) * 8))
            } else {
                let wanted = _mm_set1_epi8((INT >> COUNT_BITS) as i8);
                any_block::<0x8888>(array, count as usize * 4, |block| _mm_cmpeq_epi8(block, wanted))
                    || (count as usize / 4 * 4..count as usize).any(|i| self.maybe_at(array + i * 4))
            }
        }
    }

    /// Whether a value in a register is such a token, once the ABI is known.
    pub fn is_on(&self, value: usize) -> bool {
        self.are_on(std::iter::once(value as u64))
    }

    /// The same for several handles.
    #[inline(always)]
    pub fn are_on(&self, mut values: impl Iterator<Item = u64>) -> bool {
        let telling = if abi::is_wide() { u64::MAX } else { u64::from(u32::MAX) };
        let prefix = self.prefix();
        values.all(|value| (value ^ prefix) & telling <= COUNT_MASK)
    }

    /// The same for a handle in memory.
    ///
    /// # Safety
    /// `at` is null or the address of a handle.
    pub unsafe fn is_at(&self, at: usize) -> bool {
        // SAFETY: the caller's promise.
        at != 0 && self.is_on(unsafe { abi::load_handle(at) } as usize)
    }
}

/// The lowest of the high bits of requests of four bytes. MPICH's, null too, have it from their seventeenth pool on only.
pub static ODD: [u32; 8] = [INTEGER_REQUEST & 1 << COUNT_BITS; 8];
/// The third pairs of bytes of handles of eight bytes; a token's one; and the one below that.
pub static THIRD: [u64; 4] = [0xffff << 32; 4];
pub static TOKEN: [u16; 16] = [WIDE_TOKEN as u16; 16];
pub static BELOW: [u16; 16] = [WIDE_TOKEN as u16 - 1; 16];
// They are compared as signed numbers.
const _: () = assert!(ODD[0] != 0 && WIDE_TOKEN < 1 << 15);

/// An entry that looks at an array of requests of four or of eight bytes where the processor has AVX2. The array is the
/// second argument, and the first one says how many there are. The entry jumps to the function at `$native + $at` if none is
/// ours, to `$served` if one may be, and to `$checked` if it did not look.
// In assembly: the compiler makes several instructions of each of these comparisons, and calls the function that they are in.
macro_rules! glance {
    (4, $checked:path, $served:path, $native:path, $at:expr) => {
        std::arch::naked_asm!(
            "cmp edi, 64", "jl 5f", $crate::token::glance!(@four 64: 1 2 3 4 5 6 7),
            "5:", "cmp edi, 8", "jl {checked}", $crate::token::glance!(@four 8:),
            odd = sym $crate::token::ODD, checked = sym $checked, native = sym $native, at = const $at,
        )
    };
    (8, $checked:path, $served:path, $native:path, $at:expr) => {
        std::arch::naked_asm!(
            "cmp edi, 64", "jl 5f", $crate::token::glance!(@eight 64: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15),
            "5:", "cmp edi, 4", "jl {checked}", $crate::token::glance!(@eight 4:),
            high = const $crate::abi::WIDE_TOKEN >> 8, third = sym $crate::token::THIRD,
            token = sym $crate::token::TOKEN, below = sym $crate::token::BELOW,
            checked = sym $checked, served = sym $served, native = sym $native, at = const $at,
        )
    };
    // None is odd. It is not known here whether an odd one is ours.
    (@four $stride:literal: $($block:literal)*) => {
        concat!(
            "test rsi, rsi\nje {checked}\n",
            $crate::token::glance!(@join $stride of 4, "vmovdqu ymm0,", "vpor ymm0, ymm0,", "": $($block)*),
            "vptest ymm0, [rip + {odd}]\nvzeroupper\njnz {checked}\njmp qword ptr [rip + {native} + {at}]\n",
        )
    };
    // All are above the tokens, as addresses on the heap and in libraries are, or all are below, as small numbers of either
    // sign are. If there are both, each is compared with a token.
    (@eight $stride:literal: $($block:literal)*) => {
        concat!(
            "test rsi, rsi\nje {checked}\ncmp byte ptr [rsi + 5], {high}\njle 4f\n",
            $crate::token::glance!(@join $stride of 8, "vmovdqu ymm0,", "vpminsw ymm0, ymm0,", "": $($block)*),
            "vpcmpgtw ymm0, ymm0, [rip + {token}]\n",
            "vptest ymm0, [rip + {third}]\nvzeroupper\njnc 6f\njmp qword ptr [rip + {native} + {at}]\n",
            "4:\n",
            $crate::token::glance!(@join $stride of 8, "vmovdqu ymm0,", "vpmaxsw ymm0, ymm0,", "": $($block)*),
            "vpcmpgtw ymm0, ymm0, [rip + {below}]\n",
            "vptest ymm0, [rip + {third}]\nvzeroupper\njnz 6f\njmp qword ptr [rip + {native} + {at}]\n",
            "6:\nvmovdqu ymm1, [rip + {token}]\n",
            $crate::token::glance!(@join $stride of 8, "vpcmpeqw ymm0, ymm1,", "vpcmpeqw ymm2, ymm1,", "vpor ymm0, ymm0, ymm2": $($block)*),
            "vptest ymm0, [rip + {third}]\nvzeroupper\njnz {served}\njmp qword ptr [rip + {native} + {at}]\n",
        )
    };
    // Joins all blocks of 32 bytes in ymm0, stride by stride from the last one on. The first one may overlap the second one.
    (@join $stride:literal of $bytes:literal, $first:literal, $each:literal, $then:literal: $($block:literal)*) => {
        concat!(
            "mov eax, edi\nlea rax, [rsi + ", $bytes, " * rax - ", $bytes, " * ", $stride, "]\n", $first, " [rax]\n",
            "2:\n", $($each, " [rax + 32 * ", $block, "]\n", $then, "\n",)*
            "cmp rax, rsi\nje 3f\nsub rax, ", $bytes, " * ", $stride, "\ncmp rax, rsi\ncmovb rax, rsi\n",
            $each, " [rax]\n", $then, "\njmp 2b\n3:\n",
        )
    };
}
pub(crate) use glance;

/// Whether `alike` marks one of the bytes `BYTES` in any whole block of sixteen bytes.
///
/// # Safety
/// `bytes` bytes at `at` are readable.
#[inline(always)]
unsafe fn any_block<const BYTES: i32>(at: usize, bytes: usize, alike: impl Fn(__m128i) -> __m128i) -> bool {
    // SAFETY: the caller's promise; SSE2 is part of the architecture.
    unsafe {
        let blocks = at as *const __m128i;
        let found = (0..bytes / 16)
            .fold(_mm_setzero_si128(), |found, i| _mm_or_si128(found, alike(_mm_loadu_si128(blocks.add(i)))));
        _mm_movemask_epi8(found) & BYTES != 0
    }
}

/// A token as an INTEGER of Fortran, which no native conversion returns. `None`: the value is no token, or the Fortran
/// layer does not ask for INTEGERs by a call.
pub fn to_int<const INT: u32>(token: u64, mark: &Mark<INT>) -> Option<c_int> {
    let known = mark.is_on(token as usize) && abi::asks_for_integers();
    known.then_some((INT | token as u32 & COUNT_MASK as u32) as c_int)
}

/// The token of such an INTEGER.
pub fn from_int<const INT: u32>(int: c_int, mark: &Mark<INT>) -> Option<u64> {
    let known = mark.maybe(int as usize) && abi::asks_for_integers();
    known.then_some(mark.prefix() | int as u64 & COUNT_MASK)
}

impl<T> Tokens<T> {
    /// A table of tokens with these high bits.
    pub fn new(prefix: u64, backing: Backing) -> Tokens<T> {
        Tokens { live: Mutex::new(Live::new(prefix, backing)) }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Live<T>> {
        self.live.lock().unwrap_or_else(|e| e.into_inner())
    }

    pub fn insert(&self, stays: bool, item: T) -> Option<u64> {
        self.lock().insert(stays, item)
    }

    pub fn with<R>(&self, token: u64, f: impl FnOnce(&mut T) -> R) -> Option<R> {
        self.lock().get(token).map(f)
    }

    pub fn remove(&self, token: u64) -> Option<T> {
        self.lock().remove(token)
    }
}

impl<T> Live<T> {
    pub fn new(prefix: u64, backing: Backing) -> Live<T> {
        Live { places: Vec::new(), free: NONE, ring: RING, backing, step_log: backing.step().ilog2(), prefix }
    }

    /// Whether there is room for one more item, which is made if there is none.
    #[inline(always)]
    pub fn has_room(&mut self) -> bool {
        self.free != NONE || self.grow().is_some()
    }

    /// A token for `item`. `None`: too many are live. Only a token that `stays` gets an INTEGER of ours behind it: any
    /// other one is null by the time that a Fortran layer could read it.
    pub fn insert(&mut self, stays: bool, item: T) -> Option<u64> {
        if self.has_room() { Some(self.put(stays, item)) } else { None }
    }

    /// As [`Live::insert`], where [`Live::has_room`] says that there is room.
    // Inlined, so that the item is made where it stays: what is written in pieces and copied at once as a whole costs more than all
    // the rest.
    #[inline(always)]
    pub fn put(&mut self, stays: bool, item: T) -> u64 {
        let place = &mut self.places[self.free as usize];
        self.free = place.next;
        debug_assert!(place.item.is_none());
        // There is none, so nothing has to be dropped.
        std::mem::forget(place.item.replace(item));
        let token = self.prefix | u64::from(place.number);
        // SAFETY: within the memory that was mapped for this kind, at a multiple of an int's size.
        let put = |at: usize, integer: c_int| unsafe { ((token as usize + at) as *mut c_int).write(integer) };
        match self.backing {
            Backing::Theirs(at) => put(at, NO_INTEGER),
            Backing::Ours(at, int_prefix) if stays => put(at, (int_prefix | place.number) as c_int),
            _ => {}
        }
        token
    }

    fn index(&self, number: u32) -> usize {
        (number >> self.step_log) as usize & self.places.len().wrapping_sub(1)
    }

    /// The index of a token's place. The token is live if there is an item.
    #[inline(always)]
    pub fn find(&self, token: u64) -> Option<usize> {
        let number = (token & COUNT_MASK) as u32;
        let index = self.index(number);
        self.places.get(index).filter(|place| place.number == number).map(|_| index)
    }

    #[inline]
    pub fn get(&mut self, token: u64) -> Option<&mut T> {
        let index = self.find(token)?;
        self.at(index)
    }

    /// The item at the index of a token's place.
    #[inline(always)]
    pub fn at(&mut self, index: usize) -> Option<&mut T> {
        self.places[index].item.as_mut()
    }

    /// Whether a token is live.
    #[inline]
    pub fn has(&self, token: u64) -> bool {
        self.find(token).is_some_and(|index| self.places[index].item.is_some())
    }

    pub fn all(&self) -> impl Iterator<Item = &T> {
        self.places.iter().filter_map(|place| place.item.as_ref())
    }

    /// Ends a token.
    pub fn remove(&mut self, token: u64) -> Option<T> {
        let index = self.find(token)?;
        let item = self.places[index].item.take()?;
        self.vacate(index, token);
        Some(item)
    }

    /// As [`Live::remove`], for an item at the index of its place, that holds nothing that must be dropped.
    #[inline(always)]
    pub fn forget(&mut self, index: usize, token: u64) {
        if let Some(item) = self.places[index].item.take() {
            std::mem::forget(item);
            self.vacate(index, token);
        }
    }

    /// Frees a place, which gets its next number. The INTEGER that the Fortran layer has given to its token is freed.
    #[inline(always)]
    fn vacate(&mut self, index: usize, token: u64) {
        let turn = (self.places.len() as u32) << self.step_log;
        let place = &mut self.places[index];
        place.number = (place.number + turn) & (self.ring - 1) as u32;
        place.next = std::mem::replace(&mut self.free, index as u32);
        if let Backing::Theirs(at) = self.backing {
            give_back(token, at);
        }
    }

    /// Doubles the number of places when all are in use. A token's place is at one of two indices then, and the other
    /// one is free.
    #[cold]
    fn grow(&mut self) -> Option<()> {
        let old = self.places.len();
        let new = if old == 0 { FIRST } else { 2 * old };
        let numbers = (new as u64) << self.step_log;
        if numbers > COUNT_MASK + 1 {
            return None;
        }
        if old == 0 && !matches!(self.backing, Backing::Nothing) {
            map(self.prefix, self.backing)?;
        }
        // Each place has to have several numbers in turn.
        while self.ring <= COUNT_MASK && (matches!(self.backing, Backing::Nothing) || numbers > self.ring / 2) {
            self.ring *= 2;
        }
        let tenants = std::mem::take(&mut self.places);
        let vacant = |index: usize| Place { number: (index as u32) << self.step_log, next: NONE, item: None };
        self.places.extend((0..new).map(vacant));
        for mut tenant in tenants {
            let index = self.index(tenant.number);
            // The tenant's next number belongs to the other place now.
            self.places[index ^ old].number =
                (tenant.number + ((old as u32) << self.step_log)) & (self.ring - 1) as u32;
            tenant.next = NONE;
            self.places[index] = tenant;
        }
        for (index, place) in self.places.iter_mut().enumerate().rev() {
            if place.item.is_none() {
                place.next = std::mem::replace(&mut self.free, index as u32);
            }
        }
        Some(())
    }
}

const NO_INTEGER: c_int = -1;

/// Frees the INTEGER that the Fortran layer may have put behind a token, at this offset in bytes.
fn give_back(token: u64, at: usize) {
    // SAFETY: a token that was live, so there is memory.
    let integer = unsafe { ((token as usize + at) as *const c_int).read() };
    if integer != NO_INTEGER {
        // SAFETY: the Fortran layer's own number, given up once.
        unsafe { compat_lam::free_integer(integer) };
    }
}

/// Maps memory at the addresses with this prefix. `None`: something is mapped there already, or the kernel refuses.
fn map(prefix: u64, backing: Backing) -> Option<()> {
    // Memory of LAM's ends with the last step, since the next kind's may begin there.
    let beyond = if matches!(backing, Backing::Ours(..)) { STEP as usize } else { 0 };
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
    // SAFETY: fresh memory, at a place where there is none.
    let found = unsafe { libc::mmap(prefix as *mut _, COUNT_MASK as usize + 1 + beyond, protection, flags, -1, 0) };
    (found as u64 == prefix).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::Code;

    const PREFIX: u64 = 0x4d43_0500_0000;
    const BEHIND: Backing = Backing::Ours(0x68, 0);

    #[test]
    fn tokens_that_come_and_go_touch_little_memory() {
        let tokens = Tokens::new(PREFIX, BEHIND);
        let new = |n: u32| tokens.insert(true, n).expect("room");
        let brief = (0..100_000).map(|n| {
            let token = new(n);
            assert_eq!(tokens.remove(token), Some(n));
            assert_eq!(tokens.remove(token), None);
            token - PREFIX
        });
        assert!(brief.max() < Some(RING));
        // Numbers are not given out again at once.
        assert_ne!(new(0), new(0));
        // As many as one wants at the same time, all their own.
        let many: Vec<_> = (0..50_000).map(new).collect();
        assert!((0..).zip(&many).all(|(n, token)| tokens.with(*token, |item| *item) == Some(n)));
        assert!((0..).zip(&many).all(|(n, token)| tokens.remove(*token) == Some(n)));
        assert!(many.iter().all(|token| tokens.with(*token, |_| ()).is_none()));
    }

    extern "C" fn native() -> usize {
        0
    }

    extern "C" fn served() -> usize {
        1
    }

    unsafe extern "C" fn checked<const WIDE: bool>(count: usize, array: usize) -> usize {
        // SAFETY: the test's handles.
        usize::from(array != 0 && unsafe { REQUEST.maybe_among_some(array, count as i32, WIDE) })
    }

    static NATIVE: [Code; 2] = [Code(std::ptr::null()), Code(native as *const ())];

    #[unsafe(naked)]
    unsafe extern "C" fn glance4(_count: usize, _array: usize) -> usize {
        glance!(4, checked::<false>, served, NATIVE, 8)
    }

    #[unsafe(naked)]
    unsafe extern "C" fn glance8(_count: usize, _array: usize) -> usize {
        glance!(8, checked::<true>, served, NATIVE, 8)
    }

    type Look = unsafe extern "C" fn(usize, usize) -> usize;

    /// Looks by `looks` at up to 131 native handles, and at as many of which one is a token. Those on both sides are tokens.
    fn one_is_found<T: Copy>(looks: &[Look], tokens: &[T], native: impl Fn(usize) -> T) {
        for count in 0..=131 {
            // Mostly not where a block of 32 bytes would begin.
            let before = 1 + count % 3;
            let mut handles = vec![tokens[0]; before + count + 1];
            let array = handles[before..].as_ptr() as usize;
            // What is above the count in its register means nothing.
            // SAFETY: as many handles as there are.
            let is_found = |look: &Look| unsafe { look(count | 0x5a << 32, array) } != 0;
            (0..count).for_each(|n| handles[before + n] = native(n));
            assert!(!looks.iter().any(is_found), "none of {count}");
            for (at, token) in (0..count).flat_map(|at| tokens.iter().map(move |token| (at, token))) {
                handles[before + at] = *token;
                assert!(looks.iter().all(is_found), "{at} of {count}");
                handles[before + at] = native(at);
            }
        }
    }

    #[test]
    fn one_token_among_native_handles_is_found() {
        let by_avx2 = usize::from(is_x86_feature_detected!("avx2"));
        let (four, eight): ([Look; 2], [Look; 2]) = ([checked::<false>, glance4], [checked::<true>, glance8]);
        let (four, eight) = (&four[..1 + by_avx2], &eight[..1 + by_avx2]);
        let last = COUNT_MASK as u32;
        let tokens = [INTEGER_REQUEST, INTEGER_REQUEST | 77, INTEGER_REQUEST | last];
        let null = 0x2c00_0000;
        one_is_found(four, &tokens, |n| 0x6c00_0000 | n as u32);
        one_is_found(four, &tokens, |n| [null, 0x6c00_0000, 0xac00_0000, 0xec00_0000 | last][n % 4]);
        // Some of the seventeenth pool.
        one_is_found(four, &tokens, |n| [null, 0xad00_0000, 0x6d00_0000 | last][n % 3]);

        let prefixes =
            abi::FAMILIES.iter().filter(|family| family.handle_bytes == 8).map(|family| family.request_token);
        let tokens: Vec<_> = prefixes.flat_map(|prefix| [prefix, prefix | COUNT_MASK]).collect();
        let heap = |n: usize| 0x5555_6c00_0000 + 64 * n as u64;
        let library = |n: usize| 0x7fff_1c00_0000 + 64 * n as u64;
        let small = |n: usize| n as u64;
        let negative = |n: usize| !small(n);
        let sides: [&dyn Fn(usize) -> u64; 4] = [&heap, &library, &small, &negative];
        sides.iter().for_each(|native| one_is_found(eight, &tokens, native));
        // On one side, and on both, beginning with either.
        for (one, other) in [(0, 1), (2, 3), (0, 2), (2, 0), (3, 1)] {
            one_is_found(eight, &tokens, |n| sides[if n % 5 == 0 { one } else { other }](n));
        }
        // Nothing but the first one is on the other side.
        one_is_found(eight, &tokens, |n| sides[if n == 0 { 0 } else { 2 }](n));
        // As near as can be, and what differs is no handle's own part.
        one_is_found(eight, &tokens, |n| [WIDE_TOKEN + 1, WIDE_TOKEN - 1][n % 2] << 32 | small(n));
        one_is_found(eight, &tokens, |n| WIDE_TOKEN << 48 | small(n));
    }

    #[test]
    fn no_array_is_looked_at() {
        if is_x86_feature_detected!("avx2") {
            // SAFETY: there is no array.
            assert!([glance4, glance8].iter().all(|look| unsafe { look(64, 0) | look(5, 0) | look(9, 0) } == 0));
        }
    }

    #[test]
    fn tokens_of_all_families_are_told_by_their_lower_half() {
        for family in abi::FAMILIES {
            let tokens = [family.request_token, family.group_token, family.message_token];
            for (token, int) in tokens.into_iter().zip([INTEGER_REQUEST, INTEGER_GROUP, INTEGER_MESSAGE]) {
                assert_eq!((token as u32, token & COUNT_MASK), (int, 0));
                let third = (token >> 32) as u16;
                assert_eq!(third, if family.handle_bytes == 8 { WIDE_TOKEN as u16 } else { 0 });
            }
        }
    }

    #[test]
    fn a_number_comes_back_late() {
        let mut live = Live::new(0x2d00_0000, Backing::Nothing);
        let kept: Vec<_> = (0..100).map(|n| live.insert(false, n).expect("room")).collect();
        let first = live.insert(false, 100).expect("room");
        assert_eq!(live.remove(first), Some(100));
        for n in 0..100_000 {
            let token = live.insert(false, n).expect("room");
            assert_ne!(token, first);
            assert_eq!(live.remove(token), Some(n));
        }
        assert!((0..).zip(&kept).all(|(n, token)| live.get(*token).copied() == Some(n)));
        assert_eq!(live.all().count(), 100);
    }

    #[test]
    fn there_are_so_many_and_no_more() {
        let mut live = Live::new(0, Backing::Nothing);
        let tokens: Vec<_> = (0..1 << COUNT_BITS).map_while(|_| live.insert(false, ())).collect();
        assert_eq!((tokens.len(), live.insert(false, ())), (1 << COUNT_BITS, None));
        assert_eq!(live.remove(tokens[77]), Some(()));
        assert_eq!(live.insert(false, ()), Some(77));
    }
}
