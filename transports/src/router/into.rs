//! Where a read of a channel puts its bytes.

use std::io::{self, IoSliceMut};

/// The most pieces of one read.
const PIECES: usize = 32;

/// Where the bytes of a read go.
pub(super) struct Into<'a, 'b> {
    bufs: &'a mut [IoSliceMut<'b>],
    /// The piece that is filled next, and how much of it is.
    at: usize,
    filled: usize,
    got: usize,
}

impl<'a, 'b> Into<'a, 'b> {
    pub fn new(bufs: &'a mut [IoSliceMut<'b>]) -> Into<'a, 'b> {
        Into { bufs, at: 0, filled: 0, got: 0 }
    }

    pub fn got(&self) -> usize {
        self.got
    }

    /// The next place; `None` if all is full.
    pub fn next(&mut self) -> Option<&mut [u8]> {
        while self.bufs.get(self.at)?.len() == self.filled {
            (self.at, self.filled) = (self.at + 1, 0);
        }
        Some(&mut self.bufs[self.at][self.filled..])
    }

    /// So many bytes were put to the next place.
    pub fn advance(&mut self, n: usize) {
        (self.filled, self.got) = (self.filled + n, self.got + n);
    }

    /// Puts as many of these bytes as fit, and returns how many.
    pub fn put(&mut self, mut bytes: &[u8]) -> usize {
        let before = self.got;
        while !bytes.is_empty()
            && let Some(to) = self.next()
        {
            let n = to.len().min(bytes.len());
            to[..n].copy_from_slice(&bytes[..n]);
            bytes = &bytes[n..];
            self.advance(n);
        }
        self.got - before
    }

    /// Reads once, at most `left` bytes to here and, if these fit, more into `behind`. Returns how many in all. Nothing was put
    /// here before.
    pub fn read(
        &mut self,
        left: usize,
        behind: &mut [u8],
        read: impl FnOnce(&mut [IoSliceMut<'_>]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let mut all: [IoSliceMut<'_>; PIECES + 1] = std::array::from_fn(|_| IoSliceMut::new(&mut []));
        let (mut count, mut there) = (0, 0);
        for piece in self.bufs.iter_mut() {
            if count == PIECES || there == left {
                break;
            }
            let n = piece.len().min(left - there);
            all[count] = IoSliceMut::new(&mut piece[..n]);
            (count, there) = (count + 1, there + n);
        }
        if there == left {
            all[count] = IoSliceMut::new(behind);
            count += 1;
        }
        let n = read(&mut all[..count])?;
        let mut here = n.min(there);
        while here > 0
            && let Some(to) = self.next()
        {
            let filled = to.len().min(here);
            self.advance(filled);
            here -= filled;
        }
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is put behind a read comes behind what was read.
    #[test]
    fn a_read_and_what_follows_fill_one_place() {
        let (mut a, mut b, mut behind) = ([0; 4], [0; 6], [0; 8]);
        let mut bufs = [IoSliceMut::new(&mut a), IoSliceMut::new(&mut b)];
        let mut into = Into::new(&mut bufs);
        let n = into.read(6, &mut behind, |all| {
            let lengths: Vec<_> = all.iter().map(|piece| piece.len()).collect();
            assert_eq!(lengths, [4, 2, 8]);
            all.iter_mut().for_each(|piece| piece.fill(1));
            Ok(14)
        });
        assert_eq!((n.unwrap(), into.got()), (14, 6));
        assert_eq!((into.put(&[2; 9]), into.got()), (4, 10));
        assert!(into.next().is_none());
        assert_eq!((a, b, behind), ([1; 4], [1, 1, 2, 2, 2, 2], [1; 8]));
        // More belongs here than there is room for: nothing may come behind.
        let mut bufs = [IoSliceMut::new(&mut a)];
        let mut into = Into::new(&mut bufs);
        let n = into.read(6, &mut behind, |all| {
            assert_eq!(all.len(), 1);
            Ok(4)
        });
        assert_eq!((n.unwrap(), into.got()), (4, 4));
    }
}
