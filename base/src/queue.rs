//! A short queue. Its push is inlined, so that an entry is made where it stays: what is copied right after it was written in pieces takes
//! several times as long.
//!
//! Invariant: the first entries, `gone` of them, are no longer in the queue, and fewer than there are, unless it is empty.

/// Entries in the order in which they were pushed.
#[derive(Clone, Debug)]
pub struct Queue<T> {
    entries: Vec<T>,
    gone: usize,
}

impl<T> Default for Queue<T> {
    fn default() -> Queue<T> {
        Queue { entries: Vec::new(), gone: 0 }
    }
}

impl<T> From<Vec<T>> for Queue<T> {
    fn from(entries: Vec<T>) -> Queue<T> {
        Queue { entries, gone: 0 }
    }
}

impl<T> Queue<T> {
    /// How many there are.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.entries.len() - self.gone
    }

    /// Whether there are none.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The first.
    #[inline(always)]
    pub fn front(&self) -> Option<&T> {
        self.entries.get(self.gone)
    }

    /// All, the first first.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.entries[self.gone..].iter()
    }

    /// Appends one.
    #[inline(always)]
    pub fn push(&mut self, entry: T) {
        if self.entries.len() == self.entries.capacity() {
            return self.push_to_more(entry);
        }
        self.entries.push(entry);
    }

    /// Lets go of what has gone, if that is at least half of it, and so takes no more time than the pushes before. Else there will be more room.
    #[cold]
    #[inline(never)]
    fn push_to_more(&mut self, entry: T) {
        if self.gone * 2 >= self.entries.len() {
            self.tidy();
        }
        self.entries.push(entry);
    }

    fn tidy(&mut self) {
        self.entries.drain(..self.gone);
        self.gone = 0;
    }

    /// Removes the first, if there is one.
    #[inline(always)]
    pub fn pop_front(&mut self) {
        self.gone += 1;
        if self.gone >= self.entries.len() {
            self.entries.clear();
            self.gone = 0;
        }
    }

    /// Removes the entry at an index of [`Queue::iter`].
    pub fn remove(&mut self, at: usize) -> T {
        self.tidy();
        self.entries.remove(at)
    }

    /// Removes those that `keeps` says no of.
    pub fn retain(&mut self, keeps: impl FnMut(&T) -> bool) {
        self.tidy();
        self.entries.retain(keeps);
    }

    /// Removes all, the first first.
    pub fn drain(&mut self) -> impl Iterator<Item = T> {
        let gone = std::mem::take(&mut self.gone);
        self.entries.drain(..).skip(gone)
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
