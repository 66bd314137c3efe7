//! A short queue. An entry is written where it stays, part by part: what is read as a whole right after it was written in parts makes
//! the processor wait until all parts have left for the cache.
//!
//! Invariant: the entries from `first` to `end` are in the queue, and where it is empty, both are 0.

use std::ops::Range;

/// Entries in the order in which they were pushed.
#[derive(Clone, Debug)]
pub struct Queue<T> {
    /// As many as there is room for.
    entries: Vec<T>,
    first: usize,
    end: usize,
}

impl<T> Default for Queue<T> {
    fn default() -> Queue<T> {
        Queue { entries: Vec::new(), first: 0, end: 0 }
    }
}

impl<T> From<Vec<T>> for Queue<T> {
    fn from(entries: Vec<T>) -> Queue<T> {
        Queue { end: entries.len(), entries, first: 0 }
    }
}

impl<T: Copy + Default> Queue<T> {
    /// How many there are.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.end - self.first
    }

    /// Whether there are none.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.end == 0
    }

    /// The first.
    #[inline(always)]
    pub fn front(&self) -> Option<&T> {
        if self.is_empty() { None } else { self.entries.get(self.first) }
    }

    /// All, the first first.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.entries[self.first..self.end].iter()
    }

    /// Appends one.
    #[inline(always)]
    pub fn push(&mut self, entry: T) {
        self.push_with(|place| *place = entry);
    }

    /// Appends one that `write` writes.
    #[inline(always)]
    pub fn push_with(&mut self, write: impl FnOnce(&mut T)) {
        if self.end == self.entries.len() {
            self.make_room();
        }
        write(&mut self.entries[self.end]);
        self.end += 1;
    }

    /// Uses the places of what has gone, if that is at least half of all, and so takes no more time than the pushes before. Else there
    /// will be more places.
    #[cold]
    #[inline(never)]
    fn make_room(&mut self) {
        if self.first * 2 >= self.end && self.first > 0 {
            let all = self.all();
            self.end = all.len();
            self.entries.copy_within(all, 0);
        } else {
            self.entries.resize((2 * self.end).max(4), T::default());
        }
    }

    /// Where the entries are, the first from now on in the first place.
    fn all(&mut self) -> Range<usize> {
        std::mem::take(&mut self.first)..self.end
    }

    /// Removes the first, if there is one.
    #[inline(always)]
    pub fn pop_front(&mut self) {
        self.first += 1;
        if self.first >= self.end {
            (self.first, self.end) = (0, 0);
        }
    }

    /// Removes the entry at an index of [`Queue::iter`].
    pub fn remove(&mut self, at: usize) -> T {
        let mut index = 0;
        let entry = self.entries[self.first..self.end][at];
        self.retain(|_| {
            index += 1;
            index - 1 != at
        });
        entry
    }

    /// Removes those that `keeps` says no of.
    pub fn retain(&mut self, mut keeps: impl FnMut(&T) -> bool) {
        let mut kept = 0;
        for at in self.all() {
            if keeps(&self.entries[at]) {
                self.entries[kept] = self.entries[at];
                kept += 1;
            }
        }
        self.end = kept;
    }

    /// Removes all, the first first.
    pub fn drain(&mut self) -> impl Iterator<Item = T> {
        let all = self.all();
        self.end = 0;
        self.entries[all].iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::Queue;
    use std::collections::VecDeque;

    #[test]
    fn it_is_a_queue() {
        let (mut queue, mut plain) = (Queue::default(), VecDeque::new());
        let mut random = 1u64;
        for n in 0..200_000u64 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            // Grows for a while, and shrinks for a while.
            match random >> 60 {
                0..8 if n / 500 % 2 == 0 => (0..2).for_each(|_| {
                    queue.push(n);
                    plain.push_back(n);
                }),
                0..13 => {
                    queue.pop_front();
                    plain.pop_front();
                }
                13 if !plain.is_empty() => {
                    let at = n as usize % plain.len();
                    assert_eq!(Some(queue.remove(at)), plain.remove(at));
                }
                14 => {
                    queue.retain(|entry| entry % 7 != 0);
                    plain.retain(|entry| entry % 7 != 0);
                }
                15 if n % 100 == 0 => assert!(queue.drain().eq(plain.drain(..))),
                _ => {
                    queue.push(n);
                    plain.push_back(n);
                }
            }
            assert_eq!((queue.len(), queue.is_empty(), queue.front()), (plain.len(), plain.is_empty(), plain.front()));
            if n % 97 == 0 {
                assert!(queue.iter().eq(plain.iter()));
            }
        }
    }
}
