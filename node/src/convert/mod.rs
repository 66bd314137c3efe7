//! Data of jobs that lay it out otherwise: byte orders, sizes and formats, without any MPI.
//!
//! `kind` has the basic types and how a job says how it lays them out, `signature` what a message consists of, `values`
//! and `float` convert. The receiver converts, once, when all is there. Invariant: what cannot be converted is found
//! before a message is waited for ([`Signature::obstacle`]), and what does not fit is said, never silently wrong.

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

/// So many bytes are converted before they are passed on.
const PIECE: usize = 64 << 10;

/// What came out of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Converted {
    /// Bytes that were passed on.
    pub bytes: u64,
    /// False: some number is beyond what its type holds here. Then the nearest that it does hold stands there.
    pub fits: bool,
}

impl Signature {
    /// Converts `data`, the beginning of a message with this signature, and passes it on in order. A value of which only
    /// a part is there is left out.
    pub fn convert(&self, from: Representation, to: Representation, data: &[u8], put: impl FnMut(&[u8])) -> Converted {
        let out = Vec::with_capacity(PIECE);
        let mut pass = Pass { from, to, data, out, put, done: Converted { bytes: 0, fits: true } };
        pass.walk(self.body());
        pass.flush();
        pass.done
    }
}

struct Pass<'a, F> {
    from: Representation,
    to: Representation,
    /// What is left.
    data: &'a [u8],
    out: Vec<u8>,
    put: F,
    done: Converted,
}

impl<F: FnMut(&[u8])> Pass<'_, F> {
    /// Whether all of it was there.
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
