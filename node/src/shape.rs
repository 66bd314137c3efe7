//! The shape of a datatype: where its bytes lie in memory.
//!
//! A shape is a tree, about as small as the constructor calls that made the datatype: a part that repeats is stored
//! once.

use std::sync::Arc;

/// Where bytes lie, as offsets from an address, in the order in which they are packed: the displacements of MPI's type
/// map (MPI 4.1, section 5.1).
#[derive(Debug, Clone)]
pub struct Shape {
    at: isize,
    body: Body,
}

/// A shape without its offset. Only the shape of no bytes at all contains an empty part: it is a `Run` of 0 bytes.
#[derive(Debug, Clone)]
pub(crate) enum Body {
    /// Contiguous bytes.
    Run(usize),
    Repeat(Arc<Repeat>),
    List(Arc<List>),
}

/// A body several times, at a constant stride.
#[derive(Debug)]
pub(crate) struct Repeat {
    pub count: usize,
    /// Bytes from the beginning of one element to that of the next.
    pub stride: isize,
    /// Packed bytes of one element.
    pub each: usize,
    /// Packed bytes of all elements.
    size: usize,
    pub body: Body,
}

/// Several bodies at any offsets.
#[derive(Debug)]
pub(crate) struct List {
    parts: Box<[Part]>,
    size: usize,
    /// All parts are runs.
    flat: bool,
}

#[derive(Debug)]
struct Part {
    /// The packed offset of its first byte.
    start: usize,
    at: isize,
    body: Body,
}

impl List {
    fn new(parts: Vec<Part>, size: usize) -> List {
        let flat = parts.iter().all(|part| matches!(part.body, Body::Run(_)));
        List { parts: parts.into(), size, flat }
    }

    /// The runs that it consists of, each with its offset in memory. `None`: there is something else in it.
    pub(crate) fn runs(&self) -> Option<impl Iterator<Item = (isize, usize)> + Clone> {
        self.flat.then(|| self.parts.iter().map(|part| (part.at, part.body.size())))
    }

    /// The part that holds the packed byte at `at`, and the offset of that byte in it.
    pub(crate) fn find(&self, at: usize) -> (usize, usize) {
        let first = self.parts.partition_point(|p| p.start <= at) - 1;
        (first, at - self.parts[first].start)
    }

    /// The parts from the `first` on, with their offsets in memory from the beginning of the list.
    pub(crate) fn parts_from(&self, first: usize) -> impl Iterator<Item = (isize, &Body)> {
        self.parts[first..].iter().map(|p| (p.at, &p.body))
    }
}

impl Shape {
    /// Contiguous bytes, from the address on.
    pub const fn run(bytes: usize) -> Shape {
        Shape { at: 0, body: Body::Run(bytes) }
    }

    /// The number of bytes, without gaps: `MPI_Type_size`.
    pub fn size(&self) -> usize {
        self.body.size()
    }

    /// The same shape, `by` bytes further on in memory.
    pub fn moved(mut self, by: isize) -> Shape {
        self.at = self.at.wrapping_add(by);
        self
    }

    /// `count` of this shape, each `stride` bytes after the one before. `None`: more bytes than an address space has.
    pub fn repeat(&self, count: usize, stride: isize) -> Option<Shape> {
        let each = self.size();
        let size = each.checked_mul(count).filter(|s| isize::try_from(*s).is_ok())?;
        let body = match &self.body {
            _ if size == 0 => return Some(Shape::run(0)),
            body if count == 1 => body.clone(),
            Body::Run(len) if *len as isize == stride => Body::Run(size),
            // Repetitions that continue each other are one longer repetition.
            Body::Repeat(r) if r.stride.checked_mul(r.count as isize) == Some(stride) => {
                Body::Repeat(Arc::new(Repeat { count: r.count * count, size, body: r.body.clone(), ..**r }))
            }
            body => Body::Repeat(Arc::new(Repeat { count, stride, each, size, body: body.clone() })),
        };
        Some(Shape { at: self.at, body })
    }

    /// These shapes one after the other, in packing order. `None`: one of them is `None`, or they have more bytes than
    /// an address space.
    pub fn list(shapes: impl IntoIterator<Item = Option<Shape>>) -> Option<Shape> {
        let mut parts: Vec<Part> = Vec::new();
        let mut size = 0usize;
        for shape in shapes {
            let Shape { at, body } = shape?;
            let (start, len) = (size, body.size());
            size = size.checked_add(len).filter(|s| isize::try_from(*s).is_ok())?;
            match (parts.last_mut(), &body) {
                _ if len == 0 => {}
                // A run that continues the one before, in memory and in packing order, is joined with it.
                (Some(Part { at: before, body: Body::Run(run), .. }), Body::Run(_))
                    if before.wrapping_add(*run as isize) == at =>
                {
                    *run += len;
                }
                _ => parts.push(Part { start, at, body }),
            }
        }
        if let Some((len, stride)) = regular(&parts) {
            return Shape::run(len).moved(parts[0].at).repeat(parts.len(), stride);
        }
        Some(match parts.len() {
            0 => Shape::run(0),
            1 => parts.pop().map_or(Shape::run(0), |p| Shape { at: p.at, body: p.body }),
            _ => Shape { at: 0, body: Body::List(Arc::new(List::new(parts, size))) },
        })
    }

    /// The number of bytes, if they are contiguous and begin at the address.
    pub fn as_run(&self) -> Option<usize> {
        match self.body {
            Body::Run(len) if self.at == 0 => Some(len),
            _ => None,
        }
    }

    /// The offset of the first packed byte from the address.
    pub fn first(&self) -> isize {
        let (mut at, mut body) = (self.at, &self.body);
        loop {
            match body {
                Body::Run(_) => return at,
                Body::Repeat(r) => body = &r.body,
                Body::List(l) => (at, body) = (at.wrapping_add(l.parts[0].at), &l.parts[0].body),
            }
        }
    }

    pub(crate) fn into_parts(self) -> (isize, Body) {
        (self.at, self.body)
    }
}

/// If the parts are at least two runs of equal length at a constant stride: this length, and the stride.
fn regular(parts: &[Part]) -> Option<(usize, isize)> {
    let [Part { at: first, body: Body::Run(len), .. }, Part { at: second, .. }, ..] = parts else { return None };
    let stride = second.wrapping_sub(*first);
    let alike = |(i, p): (usize, &Part)| {
        matches!(p.body, Body::Run(l) if l == *len) && p.at == first.wrapping_add(stride.wrapping_mul(i as isize))
    };
    parts.iter().enumerate().all(alike).then_some((*len, stride))
}

impl Body {
    pub(crate) fn size(&self) -> usize {
        match self {
            Body::Run(len) => *len,
            Body::Repeat(r) => r.size,
            Body::List(l) => l.size,
        }
    }

    /// Calls `f` with the offset and length of each piece of the `left` packed bytes from `skip` on, in order, until
    /// `f` returns `false` or no byte is left. Returns `false` in these two cases. The body must have a byte at `skip`,
    /// and `left` must not be
    /// 0.
    pub(crate) fn each(
        &self,
        at: isize,
        skip: usize,
        left: &mut usize,
        f: &mut impl FnMut(isize, usize) -> bool,
    ) -> bool {
        match self {
            Body::Run(len) => {
                let n = (len - skip).min(*left);
                *left -= n;
                f(at.wrapping_add(skip as isize), n) && *left > 0
            }
            Body::Repeat(r) => {
                let (first, mut skip) = (skip / r.each, skip % r.each);
                let mut at = at.wrapping_add(r.stride.wrapping_mul(first as isize));
                (first..r.count).all(|_| {
                    let go_on = r.body.each(at, skip, left, f);
                    at = at.wrapping_add(r.stride);
                    skip = 0;
                    go_on
                })
            }
            Body::List(l) => {
                let (first, mut skip) = l.find(skip);
                l.parts_from(first).all(|(offset, body)| {
                    let go_on = body.each(at.wrapping_add(offset), skip, left, f);
                    skip = 0;
                    go_on
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All pieces from a packed offset on.
    fn pieces(shape: &Shape, skip: usize, len: usize) -> Vec<(isize, usize)> {
        let mut out = Vec::new();
        let mut left = len;
        shape.body.each(shape.at, skip, &mut left, &mut |at, n| {
            out.push((at, n));
            true
        });
        assert_eq!(left, 0);
        out
    }

    fn runs(of: &[(isize, usize)]) -> Shape {
        Shape::list(of.iter().map(|(at, n)| Some(Shape::run(*n).moved(*at)))).unwrap()
    }

    #[test]
    fn neighbours_are_joined_and_nothing_is_dropped() {
        let shape = runs(&[(8, 4), (0, 0), (12, 4), (40, 1), (3, 0), (0, 2)]);
        assert_eq!(pieces(&shape, 0, 11), [(8, 8), (40, 1), (0, 2)]);
        assert_eq!(shape.first(), 8);
        assert!(matches!(runs(&[(0, 4), (4, 4), (8, 8)]).body, Body::Run(16)));
        assert_eq!(runs(&[(5, 0), (7, 0)]).size(), 0);
        assert!(matches!(runs(&[(6, 2)]), Shape { at: 6, body: Body::Run(2) }));
    }

    #[test]
    fn what_is_regular_is_held_once() {
        let column = Shape::run(8).repeat(1000, 24).unwrap();
        let long = column.repeat(1000, 24_000).unwrap();
        assert!(matches!(&long.body, Body::Repeat(r) if r.count == 1_000_000 && matches!(r.body, Body::Run(8))));
        let listed = runs(&[(90, 3), (60, 3), (30, 3), (0, 3)]);
        assert!(matches!(&listed.body, Body::Repeat(r) if (r.count, r.stride) == (4, -30)));
        assert_eq!(pieces(&listed, 4, 4), [(61, 2), (30, 2)]);
        assert!(matches!(runs(&[(0, 3), (30, 3), (61, 3)]).body, Body::List(_)));
    }

    /// Every range of a nested shape is as the same range of its pieces, byte by byte.
    #[test]
    fn any_part_of_a_shape_is_found() {
        let inner = runs(&[(4, 3), (0, 1), (20, 2)]).moved(-2).repeat(3, -32).unwrap();
        let shape = Shape::list([Some(inner.clone()), Some(Shape::run(5).moved(100)), inner.repeat(2, 200)]);
        let shape = shape.unwrap().repeat(2, 1000).unwrap();
        let bytes = |pieces: Vec<(isize, usize)>| -> Vec<isize> {
            pieces.into_iter().flat_map(|(at, n)| at..at + n as isize).collect()
        };
        let all = bytes(pieces(&shape, 0, shape.size()));
        assert_eq!(all.len(), shape.size());
        for from in 0..all.len() {
            for to in from + 1..=all.len() {
                assert_eq!(bytes(pieces(&shape, from, to - from)), all[from..to]);
            }
        }
    }

    /// Packing any range gives what its pieces hold, and unpacking it changes these and nothing else.
    #[test]
    fn any_part_is_packed_and_unpacked() {
        use crate::copy::{Way, copy};
        let column = |len| Shape::run(len).repeat(5, 2 * len as isize + 3);
        let shapes = [2, 3, 4, 8, 12, 16, 24, 32].map(column).into_iter().chain([
            Some(runs(&[(4, 3), (0, 1), (20, 2)]).repeat(3, 32).unwrap()),
            Some(runs(&[(0, 1), (8, 12), (30, 4), (40, 20)]).repeat(4, 64).unwrap()),
            Shape::run(8).repeat(3, -16).map(|s| s.moved(40)),
        ]);
        let placed = shapes.enumerate().map(|(i, s)| s.map(|s| s.moved(500 * i as isize)));
        let shape = Shape::list(placed).unwrap().repeat(2, 6000).unwrap();
        let mut memory: Vec<u8> = (0..12_000u32).map(|i| (i * 7 + i / 256) as u8).collect();
        let all: Vec<usize> =
            pieces(&shape, 0, shape.size()).into_iter().flat_map(|(at, n)| at as usize..at as usize + n).collect();
        let base = memory.as_mut_ptr();
        for from in (0..all.len()).step_by(3) {
            for to in (from..=all.len()).step_by(5) {
                let mut packed = vec![0u8; to - from];
                // SAFETY: the shape lies within the memory; the vector has as many bytes.
                unsafe {
                    copy(Way::Pack, &shape.body, base.wrapping_offset(shape.at), from, to - from, packed.as_mut_ptr())
                };
                assert!(packed.iter().zip(&all[from..to]).all(|(byte, at)| *byte == memory[*at]), "{from}..{to}");
            }
            let to = all.len().min(from + 77);
            let mut fresh = vec![0u8; memory.len()];
            let mut ones = vec![1u8; to - from];
            let at = fresh.as_mut_ptr().wrapping_offset(shape.at);
            // SAFETY: as above.
            unsafe { copy(Way::Unpack, &shape.body, at, from, to - from, ones.as_mut_ptr()) };
            let mut wanted = vec![0u8; memory.len()];
            all[from..to].iter().for_each(|at| wanted[*at] = 1);
            assert!(fresh == wanted, "{from}..{to}");
        }
    }

    #[test]
    fn more_than_an_address_space_has_is_refused() {
        let huge = Shape::run(1 << 40).repeat(1 << 22, 1 << 41).unwrap();
        assert!(huge.repeat(4, 0).is_none());
        assert!(Shape::list([Some(huge.clone()), Some(huge)]).is_none());
        assert_eq!(Shape::run(0).repeat(usize::MAX, 1).unwrap().size(), 0);
    }
}
