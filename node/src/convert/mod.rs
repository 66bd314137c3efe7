//! Conversion of data between jobs with different representations: byte orders, sizes, and formats of numbers.
//!
//! `kind` has the basic types and how a job describes its representation. `signature` is the sequence of basic types in
//! a message. `values` and `float` convert. The receiver converts, once, when all of the message has come. Invariants:
//! data that cannot be converted is found before the receive is started ([`Signature::obstacle`]); a value that does
//! not fit is reported.

mod float;
mod kind;
mod order;
mod signature;
#[cfg(test)]
mod tests;
mod values;

#[cfg(test)]
use kind::LongDouble;
pub use kind::{Kind, Representation};
pub use signature::Signature;

use signature::Body;

/// The bytes that are converted in one step, before they are written to the user buffer.
const PIECE: usize = 64 << 10;

/// The result of a conversion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Converted {
    /// The size of the converted data in bytes.
    pub bytes: u64,
    /// False: a number is beyond the range of its type in this job. The nearest number in the range stands in its
    /// place.
    pub fits: bool,
}

impl Signature {
    /// Converts `data`, the beginning of a message with this signature, and passes the result to `put` in order. A last
    /// value that is not complete is left out.
    pub(crate) fn convert(
        &self,
        from: Representation,
        to: Representation,
        data: &[u8],
        put: impl FnMut(&[u8]),
    ) -> Converted {
        let out = Vec::with_capacity(PIECE);
        let mut pass = Pass { from, to, data, out, put, done: Converted { bytes: 0, fits: true } };
        pass.walk(self.body());
        pass.flush();
        pass.done
    }
}

/// A conversion under way.
struct Pass<'a, F> {
    from: Representation,
    to: Representation,
    /// The data that is not converted yet.
    data: &'a [u8],
    out: Vec<u8>,
    put: F,
    done: Converted,
}

impl<F: FnMut(&[u8])> Pass<'_, F> {
    /// Converts a body. False: the data ended before it.
    fn walk(&mut self, body: &Body) -> bool {
        match body {
            Body::Run(kind, count) => self.run(*kind, *count),
            Body::Repeat(r) => (0..r.count).all(|_| self.walk(&r.body)),
            Body::List(parts) => parts.iter().all(|part| self.walk(part)),
        }
    }

    fn run(&mut self, kind: Kind, count: usize) -> bool {
        let size = kind.size(self.from);
        let mut left = count.min(self.data.len() / size);
        let whole = left == count;
        while left > 0 {
            let n = left.min(PIECE / size);
            let (head, rest) = self.data.split_at(n * size);
            self.done.fits &= values::convert(kind, self.from, self.to, head, &mut self.out);
            self.data = rest;
            left -= n;
            if self.out.len() >= PIECE {
                self.flush();
            }
        }
        whole
    }

    fn flush(&mut self) {
        if !self.out.is_empty() {
            self.done.bytes += self.out.len() as u64;
            (self.put)(&self.out);
            self.out.clear();
        }
    }
}
