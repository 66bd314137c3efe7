//! A small cache by handle that is read without a lock.
//!
//! The cache stands in front of a complete table. It has few places, and of handles that share one, the last that was used has
//! it: on a miss, the reader asks the table and puts the handle back. Invariant: a handle is put into the cache under the lock of the table,
//! while it is in the table, and is taken out of the cache before it leaves the table.

use crate::forward::Handle;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::hint::spin_loop;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// A factor for hashing. Handles are small numbers or aligned addresses, and the product spreads both over the top
/// bits.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// A complete table. Handles come from the MPI below, so a hash that an attacker cannot predict is not needed.
pub type ByHandle<V> = HashMap<Handle, V, BuildHasherDefault<HandleHasher>>;

#[derive(Default)]
pub struct HandleHasher(u64);

impl Hasher for HandleHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(self.0 ^ u64::from(*byte)));
    }
    fn write_u64(&mut self, handle: u64) {
        // The hash table uses the top bits and the bottom bits.
        self.0 = handle.wrapping_mul(SPREAD).swap_bytes();
    }
}

/// Of ten that are used by turns, two share a place with a chance of one in 23; both are slower then.
const PLACES_LOG: u32 = 10;

#[inline(always)]
const fn place_of(handle: Handle) -> usize {
    (handle.wrapping_mul(SPREAD) >> (u64::BITS - PLACES_LOG)) as usize
}

/// A free place holds the handle 0, but the place of 0 itself holds this number, whose place is another one.
const ELSEWHERE: u64 = 1;
const _: () = assert!(place_of(ELSEWHERE) != place_of(0));

/// A cache with this number of words for each handle.
pub struct HandleCache<const WORDS: usize> {
    places: [Place<WORDS>; 1 << PLACES_LOG],
}

#[repr(align(32))]
struct Place<const WORDS: usize> {
    /// Odd while the place is being written, and different after each change (a sequence lock). If a reader sees the
    /// same even version before and after, the words that it has read belong together.
    version: AtomicU32,
    /// The handle whose words these are. The place is free if the handle's own place is another one.
    handle: AtomicU64,
    words: [AtomicU64; WORDS],
}

impl<const WORDS: usize> HandleCache<WORDS> {
    pub const fn new() -> HandleCache<WORDS> {
        let mut places = [const { Place::new() }; 1 << PLACES_LOG];
        places[place_of(0)].handle = AtomicU64::new(ELSEWHERE);
        HandleCache { places }
    }

    #[inline(always)]
    fn place(&self, handle: Handle) -> &Place<WORDS> {
        &self.places[place_of(handle)]
    }

    #[inline(always)]
    pub fn get(&self, handle: Handle) -> Option<[u64; WORDS]> {
        let place = self.place(handle);
        let version = place.version.load(Ordering::Acquire);
        if place.handle.load(Ordering::Relaxed) != handle {
            return None;
        }
        let words = std::array::from_fn(|i| place.words[i].load(Ordering::Relaxed));
        fence(Ordering::Acquire);
        // An odd version is never seen again with its lowest bit cleared: it goes on to the next even one.
        if place.version.load(Ordering::Relaxed) != version & !1 {
            return None;
        }
        Some(words)
    }

    pub fn put(&self, handle: Handle, words: [u64; WORDS]) {
        let place = self.place(handle);
        place.write(|| {
            place.handle.store(handle, Ordering::Relaxed);
            place.words.iter().zip(words).for_each(|(to, word)| to.store(word, Ordering::Relaxed));
        });
    }

    /// For a reader that has found it in the table, under the lock of that: it is likely to be asked for again. Nothing is written if
    /// it is there.
    pub fn put_back(&self, handle: Handle, words: impl FnOnce() -> [u64; WORDS]) {
        if self.get(handle).is_none() {
            self.put(handle, words());
        }
    }

    pub fn forget(&self, handle: Handle) {
        let place = self.place(handle);
        place.write(|| {
            if place.handle.load(Ordering::Relaxed) == handle {
                let none = if place_of(handle) == place_of(0) { ELSEWHERE } else { 0 };
                place.handle.store(none, Ordering::Relaxed);
            }
        });
    }
}

impl<const WORDS: usize> Place<WORDS> {
    const fn new() -> Place<WORDS> {
        let words = [const { AtomicU64::new(0) }; WORDS];
        Place { version: AtomicU32::new(0), handle: AtomicU64::new(0), words }
    }

    /// Writes to the place. Writers are rare and fast, so they spin for each other.
    fn write(&self, change: impl FnOnce()) {
        let mut version = self.version.load(Ordering::Relaxed);
        while version & 1 != 0
            || self.version.compare_exchange_weak(version, version | 1, Ordering::Acquire, Ordering::Relaxed).is_err()
        {
            spin_loop();
            version = self.version.load(Ordering::Relaxed);
        }
        // No reader sees a new word before it sees the odd version.
        fence(Ordering::Release);
        change();
        self.version.store(version.wrapping_add(2), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn a_place_has_the_last_handle_that_was_put_there() {
        static CACHE: HandleCache<2> = HandleCache::new();
        assert_eq!([0, ELSEWHERE, 7, u64::MAX].map(|handle| CACHE.get(handle)), [None; 4]);
        for handle in 0..10_000 {
            CACHE.put(handle, [handle, handle + 1]);
            assert_eq!(CACHE.get(handle), Some([handle, handle + 1]));
        }
        CACHE.put_back(0, || [0, 1]);
        CACHE.put_back(0, || unreachable!("it is there"));
        let known = (0..10_000).filter(|handle| CACHE.get(*handle).is_some()).count();
        assert!((800..=1024).contains(&known), "{known}");
        assert!((0..10_000).all(|h| CACHE.get(h).is_none_or(|words| words == [h, h + 1])));
        (0..10_000).for_each(|handle| CACHE.forget(handle));
        assert!((0..10_000).all(|handle| CACHE.get(handle).is_none()));
    }

    /// Words of one handle are never seen as another's, nor half of them.
    #[test]
    fn readers_see_what_belongs_together() {
        static CACHE: HandleCache<3> = HandleCache::new();
        static OVER: AtomicBool = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for writer in 0..2u64 {
                scope.spawn(move || {
                    for n in 0..200_000 {
                        let handle = (n * 2 + writer) % 2400;
                        CACHE.put(handle, [handle, handle * 3, n]);
                        if n % 5 == 0 {
                            CACHE.forget(handle);
                        }
                    }
                    OVER.store(true, Ordering::Relaxed);
                });
            }
            let mut seen = 0;
            while seen < 1000 || !OVER.load(Ordering::Relaxed) {
                for handle in 0..2400 {
                    if let Some([first, second, _]) = CACHE.get(handle) {
                        assert_eq!((first, second), (handle, handle * 3));
                        seen += 1;
                    }
                }
            }
        });
    }
}
