//! The two parts of a type map: where the bytes lie (shape), and of which types they are (signature, types).
//!
//! All of them come from the same traversal of a datatype's constructors; `constructors` makes each.

use super::contents::measure;
use crate::abi;
use crate::forward::Handle;
use node::{F90_COMPLEX, F90_INTEGER, F90_REAL, Kind, Representation, Shape, Signature, Types};
use std::ffi::c_int;
use std::sync::OnceLock;

/// One element of a datatype.
#[derive(Clone)]
pub struct Element<M> {
    pub map: M,
    pub extent: isize,
    /// A predefined datatype, which the program cannot free, and whose parts need not be freed.
    pub predefined: bool,
}

pub trait Map: Clone {
    fn nothing() -> Self;
    /// The map of a predefined datatype. `None`: it is not known.
    fn predefined(datatype: Handle, combiner: c_int, size: usize, extent: isize) -> Option<Self>;
    /// `count` of this map, each `stride` bytes after the one before.
    fn repeat(&self, count: usize, stride: isize) -> Option<Self>;
    /// The same map, `by` bytes further on in memory.
    fn moved(self, by: isize) -> Self;
    /// These maps one after the other.
    fn list(maps: impl IntoIterator<Item = Option<Self>>) -> Option<Self>;
    /// The number of bytes, without gaps.
    fn size(&self) -> Option<usize>;
}

impl Map for Shape {
    fn nothing() -> Shape {
        Shape::run(0)
    }

    /// One block, except for the pairs of MPI_MAXLOC: a value, and an int at its own alignment.
    fn predefined(_datatype: Handle, _combiner: c_int, size: usize, extent: isize) -> Option<Shape> {
        let int = size_of::<c_int>();
        let pair = |value: usize| {
            let index = Shape::run(int).moved(value.next_multiple_of(int) as isize);
            Shape::list([Some(Shape::run(value)), Some(index)])
        };
        let holes = size > 0 && size as isize != extent;
        Some(holes.then(|| size.checked_sub(int).and_then(pair)).flatten().unwrap_or(Shape::run(size)))
    }

    fn repeat(&self, count: usize, stride: isize) -> Option<Shape> {
        Shape::repeat(self, count, stride)
    }

    fn moved(self, by: isize) -> Shape {
        Shape::moved(self, by)
    }

    fn list(maps: impl IntoIterator<Item = Option<Shape>>) -> Option<Shape> {
        Shape::list(maps)
    }

    fn size(&self) -> Option<usize> {
        Some(Shape::size(self))
    }
}

impl Map for Signature {
    fn nothing() -> Signature {
        Signature::nothing()
    }

    fn predefined(datatype: Handle, combiner: c_int, size: usize, _extent: isize) -> Option<Signature> {
        if size == 0 {
            return Some(Signature::nothing());
        }
        if let Some((_, kinds)) = abi::predefined(datatype) {
            return Signature::list(kinds.iter().map(|kind| Some(Signature::one(*kind))));
        }
        // Types that MPI_Type_create_f90_integer and its kin have made.
        let abi = abi::get();
        if combiner == abi.combiner_f90_integer {
            by_size(size, &INTEGERS)
        } else if combiner == abi.combiner_f90_real {
            by_size(size, &FLOATS)
        } else if combiner == abi.combiner_f90_complex {
            by_size(size / 2, &FLOATS)?.repeat(2)
        } else {
            None
        }
    }

    fn repeat(&self, count: usize, _stride: isize) -> Option<Signature> {
        Signature::repeat(self, count)
    }

    fn moved(self, _by: isize) -> Signature {
        self
    }

    fn list(maps: impl IntoIterator<Item = Option<Signature>>) -> Option<Signature> {
        Signature::list(maps)
    }

    fn size(&self) -> Option<usize> {
        Signature::size(self, representation())
    }
}

impl Map for Types {
    fn nothing() -> Types {
        Types::nothing()
    }

    /// A type without a known name matches all types, so that there are no false alarms.
    fn predefined(datatype: Handle, combiner: c_int, size: usize, _extent: isize) -> Option<Types> {
        if size == 0 {
            return Some(Types::nothing());
        }
        if let Some((name, kinds)) = abi::predefined(datatype) {
            return Some(Types::named(name, kinds, representation()));
        }
        let abi = abi::get();
        let named =
            |name, kind: Option<Kind>, times| Some(Types::named(name, &[kind?, kind?][..times], representation()));
        let made = if combiner == abi.combiner_f90_integer {
            named(F90_INTEGER, kind_of(size, &INTEGERS), 1)
        } else if combiner == abi.combiner_f90_real {
            named(F90_REAL, kind_of(size, &FLOATS), 1)
        } else if combiner == abi.combiner_f90_complex {
            named(F90_COMPLEX, kind_of(size / 2, &FLOATS), 2)
        } else {
            None
        };
        Some(made.unwrap_or_else(|| Types::unknown(size)))
    }

    fn repeat(&self, count: usize, _stride: isize) -> Option<Types> {
        Types::repeat(self, count)
    }

    fn moved(self, _by: isize) -> Types {
        self
    }

    fn list(maps: impl IntoIterator<Item = Option<Types>>) -> Option<Types> {
        Types::list(maps)
    }

    fn size(&self) -> Option<usize> {
        Some(Types::size(self))
    }
}

const INTEGERS: [Kind; 5] = [Kind::Byte, Kind::I16, Kind::I32, Kind::I64, Kind::I128];
const FLOATS: [Kind; 4] = [Kind::F16, Kind::F32, Kind::F64, Kind::F128];

/// The signature of the type of this size.
fn by_size(size: usize, kinds: &[Kind]) -> Option<Signature> {
    kind_of(size, kinds).map(Signature::one)
}

fn kind_of(size: usize, kinds: &[Kind]) -> Option<Kind> {
    kinds.iter().copied().find(|kind| kind.size(representation()) == size)
}

/// The representation of this job: that of this process, with the sizes of Fortran's types that the MPI below gives.
pub fn representation() -> Representation {
    static REPRESENTATION: OnceLock<Representation> = OnceLock::new();
    *REPRESENTATION.get_or_init(|| {
        let abi = abi::get();
        // An MPI without Fortran gives no size, or 0.
        let size = |datatype| measure(datatype).map(|(size, _)| size).filter(|size| *size > 0).unwrap_or(4);
        Representation::here().with_fortran(size(abi.integer), size(abi.real))
    })
}
