//! Tokens: handles of ours from ranges that no MPI below produces, so that a look at the value tells whose it is.
//!
//! Some Fortran layers look for the INTEGER of a handle in the object behind the handle. There, a token is the address of
//! some memory of ours, in which that INTEGER has its place.

use crate::abi::{Family, Integers};
use crate::forward::Handle;
use crate::{abi, forward};
use std::ffi::c_int;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

const COUNT_BITS: u64 = 24;
const COUNT_MASK: u64 = (1 << COUNT_BITS) - 1;

/// From one address to the next: more than the MPI's own objects have up to their INTEGER.
const STEP: u64 = 128;

/// The first ring of numbers with memory behind them.
const RING: u64 = 1 << 16;

/// How many live tokens there is room for at first, a power of two.
const FIRST: usize = 16;

/// What a Fortran layer finds behind a token, so many bytes from its address.
#[derive(Clone, Copy)]
pub enum Behind {
    Nothing,
    /// An INTEGER that the layer itself puts there: LAM.
    Theirs(usize),
    /// The token as an INTEGER with these high bits, which the layer reads now and then: Open MPI.
    Ours(usize, u64),
}

/// Where the layer of this family looks for the INTEGER of a kind of handle.
pub fn behind(place: fn(&Integers) -> usize, int_prefix: u64) -> Behind {
    let family = abi::get().family;
    match (&family.integers, &family.also_behind) {
        (Some(integers), _) => Behind::Theirs(place(integers)),
        (None, Some(integers)) => Behind::Ours(place(integers), int_prefix),
        (None, None) => Behind::Nothing,
    }
}

impl Behind {
    /// From one token to the next, a power of two.
    fn step(self) -> u32 {
        match self {
            Behind::Nothing => 1,
            Behind::Ours(..) => size_of::<c_int>() as u32,
            Behind::Theirs(_) => STEP as u32,
        }
    }
}

/// The live tokens of one kind and what they stand for, under a lock of their own.
pub struct Tokens<T> {
    live: Mutex<Live<T>>,
}

/// The live tokens of one kind and what they stand for. A token's number tells its place; each time that the place serves
/// it has another number, so that a stale token is seldom a live one.
pub struct Live<T> {
    /// A power of two, or none yet.
    places: Vec<Place<T>>,
    /// The place that serves next: the one that was given up last, since that is still near. `NONE`: all serve.
    free: u32,
    /// Numbers below it are given out, a power of two: where there is memory behind them, only as much of it as is needed
    /// is ever touched.
    ring: u64,
    behind: Behind,
    step_log: u32,
    prefix: u64,
}

struct Place<T> {
    /// Of the token that lives here, or of the next one. As many steps as the index, but for multiples of all places.
    number: u32,
    /// The free one after this.
    next: u32,
    item: Option<T>,
}

const NONE: u32 = u32::MAX;

/// The high bits of one kind of token, where entries find them without asking for the ABI; they look once it is known.
pub struct Mark(AtomicU64);

pub static REQUEST: Mark = Mark(AtomicU64::new(u64::MAX));
pub static GROUP: Mark = Mark(AtomicU64::new(u64::MAX));
pub static MESSAGE: Mark = Mark(AtomicU64::new(u64::MAX));

/// The bits of a value in a register that tell a token.
static TELLING: AtomicU64 = AtomicU64::new(!COUNT_MASK);

/// Called when the ABI has been found.
pub fn note(family: &Family) {
    if family.handle_bytes == 4 {
        TELLING.store(!COUNT_MASK & u64::from(u32::MAX), Ordering::Relaxed);
    }
    REQUEST.0.store(family.request_token, Ordering::Relaxed);
    GROUP.0.store(family.group_token, Ordering::Relaxed);
    MESSAGE.0.store(family.message_token, Ordering::Relaxed);
}

impl Mark {
    #[inline(always)]
    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Whether a value in a register is such a token.
    #[inline(always)]
    pub fn is_on(&self, value: usize) -> bool {
        (value as u64 ^ self.get()) & TELLING.load(Ordering::Relaxed) == 0
    }

    /// The same for a handle in memory.
    ///
    /// # Safety
    /// `at` is null or the address of a handle.
    #[inline(always)]
    pub unsafe fn is_at(&self, at: usize) -> bool {
        // SAFETY: the caller's promise.
        at != 0 && self.is(unsafe { abi::load_handle(at) })
    }

    #[inline(always)]
    fn is(&self, handle: Handle) -> bool {
        handle ^ self.get() <= COUNT_MASK
    }

    /// Whether any handle of an array is such a token. All are looked at, several at once.
    ///
    /// # Safety
    /// `array` is null or the address of `count` handles.
    #[inline(always)]
    pub unsafe fn is_among(&self, array: usize, count: i32) -> bool {
        if array == 0 || count <= 0 {
            return false;
        }
        // SAFETY: the caller's promise.
        unsafe {
            if abi::is_wide() {
                self.is_among_wide(std::slice::from_raw_parts(array as *const u64, count as usize))
            } else {
                let prefix = self.get() as u32;
                let handles = std::slice::from_raw_parts(array as *const u32, count as usize);
                handles.iter().fold(false, |any, handle| any | ((handle ^ prefix) & !(COUNT_MASK as u32) == 0))
            }
        }
    }

    #[inline(always)]
    fn is_among_wide(&self, handles: &[u64]) -> bool {
        let high = (self.get() >> 32) as u32;
        // The upper halves are seldom alike by chance: then there is a closer look.
        handles.iter().fold(false, |any, handle| any | ((handle >> 32) as u32 == high))
            && handles.iter().any(|handle| self.is(*handle))
    }
}

/// A token as an INTEGER of Fortran, which no native conversion gives: `None` when the value is no token, or the Fortran
/// layer does not ask.
#[inline(always)]
pub fn to_int(value: u64, mark: &Mark, int_prefix: u64) -> Option<c_int> {
    let token = mark.is_on(value as usize) && abi::asks_for_integers();
    token.then_some((int_prefix | value & COUNT_MASK) as c_int)
}

/// The token of such an INTEGER.
#[inline(always)]
pub fn from_int(int: c_int, mark: &Mark, int_prefix: u64) -> Option<u64> {
    let int = u64::from(int as u32);
    let token = int & !COUNT_MASK == int_prefix && abi::asks_for_integers();
    token.then_some(mark.get() | int & COUNT_MASK)
}

impl<T> Tokens<T> {
    /// Of tokens with these high bits.
    pub fn new(prefix: u64, behind: Behind) -> Tokens<T> {
        Tokens { live: Mutex::new(Live::new(prefix, behind)) }
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
    pub fn new(prefix: u64, behind: Behind) -> Live<T> {
        Live { places: Vec::new(), free: NONE, ring: RING, behind, step_log: behind.step().ilog2(), prefix }
    }

    /// A token for `item`; `None` when too many are live.
    /// Only one that `stays` has an INTEGER of ours behind it: others are null when a layer could look.
    #[inline]
    pub fn insert(&mut self, stays: bool, item: T) -> Option<u64> {
        if self.free == NONE {
            self.grow()?;
        }
        let place = &mut self.places[self.free as usize];
        self.free = place.next;
        place.item = Some(item);
        let token = self.prefix | u64::from(place.number);
        // SAFETY: within the memory that was mapped for this kind, at a multiple of an int's size.
        let put = |at: usize, integer: c_int| unsafe { ((token as usize + at) as *mut c_int).write(integer) };
        match self.behind {
            Behind::Theirs(at) => put(at, NO_INTEGER),
            Behind::Ours(at, int_prefix) if stays => put(at, (int_prefix | token & COUNT_MASK) as c_int),
            _ => {}
        }
        Some(token)
    }

    fn index(&self, number: u32) -> usize {
        (number >> self.step_log) as usize & self.places.len().wrapping_sub(1)
    }

    #[inline]
    fn get_place(&mut self, token: u64) -> Option<&mut Place<T>> {
        let number = (token & COUNT_MASK) as u32;
        let index = self.index(number);
        self.places.get_mut(index).filter(|place| place.number == number)
    }

    #[inline]
    pub fn get(&mut self, token: u64) -> Option<&mut T> {
        self.get_place(token)?.item.as_mut()
    }

    pub fn all(&self) -> impl Iterator<Item = &T> {
        self.places.iter().filter_map(|place| place.item.as_ref())
    }

    /// Ends a token.
    pub fn remove(&mut self, token: u64) -> Option<T> {
        let item = self.get_place(token)?.item.take()?;
        self.give_up(token);
        Some(item)
    }

    /// The same; the item is dropped where it lies.
    #[inline]
    pub fn clear(&mut self, token: u64) {
        if let Some(place) = self.get_place(token)
            && place.item.is_some()
        {
            place.item = None;
            self.give_up(token);
        }
    }

    /// The place of a token serves another now. Its INTEGER is given back if it got one.
    #[inline]
    fn give_up(&mut self, token: u64) {
        let number = (token & COUNT_MASK) as u32;
        let (index, turn) = (self.index(number), (self.places.len() as u32) << self.step_log);
        let place = &mut self.places[index];
        place.number = (number + turn) & (self.ring - 1) as u32;
        place.next = std::mem::replace(&mut self.free, index as u32);
        if let Behind::Theirs(at) = self.behind {
            // SAFETY: `insert` gave this live token, so there is memory.
            let integer = unsafe { ((token as usize + at) as *const c_int).read() };
            if integer != NO_INTEGER {
                // SAFETY: the Fortran layer's own number, given up once.
                unsafe { forward::lam_free_integer(integer) };
            }
        }
    }

    /// Twice as many places, when all serve. Each token finds its own at one of two indices; the other is free.
    #[cold]
    fn grow(&mut self) -> Option<()> {
        let old = self.places.len();
        let new = if old == 0 { FIRST } else { 2 * old };
        let numbers = (new as u64) << self.step_log;
        if numbers > COUNT_MASK + 1 {
            return None;
        }
        if old == 0 && !matches!(self.behind, Behind::Nothing) {
            map(self.prefix, self.behind)?;
        }
        // Each place is to have several numbers in turn.
        while self.ring <= COUNT_MASK && (matches!(self.behind, Behind::Nothing) || numbers > self.ring / 2) {
            self.ring *= 2;
        }
        let tenants = std::mem::take(&mut self.places);
        let vacant = |index: usize| Place { number: (index as u32) << self.step_log, next: NONE, item: None };
        self.places.extend((0..new).map(vacant));
        for mut tenant in tenants {
            let index = self.index(tenant.number);
            // What would have been the next number is the other place's.
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

/// Memory at the addresses with this prefix; nothing that is there already is touched.
fn map(prefix: u64, behind: Behind) -> Option<()> {
    // Theirs end with the last step: another kind's may begin there.
    let beyond = if matches!(behind, Behind::Ours(..)) { STEP as usize } else { 0 };
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
    // SAFETY: fresh memory, at a place where there is none.
    let found = unsafe { libc::mmap(prefix as *mut _, COUNT_MASK as usize + 1 + beyond, protection, flags, -1, 0) };
    (found as u64 == prefix).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PREFIX: u64 = 0x4d43_0500_0000;
    const BEHIND: Behind = Behind::Ours(0x68, 0);

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

    #[test]
    fn a_number_comes_back_late() {
        let mut live = Live::new(0x2d00_0000, Behind::Nothing);
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
        let mut live = Live::new(0, Behind::Nothing);
        let tokens: Vec<_> = (0..1 << COUNT_BITS).map_while(|_| live.insert(false, ())).collect();
        assert_eq!((tokens.len(), live.insert(false, ())), (1 << COUNT_BITS, None));
        assert_eq!(live.remove(tokens[77]), Some(()));
        assert_eq!(live.insert(false, ()), Some(77));
    }
}
