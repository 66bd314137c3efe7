//! The basic types, and the representation of a job: how it lays them out.
//!
//! Only this file reads and makes the bits of a [`Representation`]; `base/src/protocol.rs` defines them.

use base::protocol::representation::{
    ADDRESS, BIG_ENDIAN, BOOL, DOUBLE, INTEGER, LONG, LONG_DOUBLE, PAIR, QUAD, REAL, WCHAR, WCHAR_UNSIGNED, X87_IN_12,
    X87_IN_16,
};

/// A basic type. The types with a number in their names have that many bits in every job; the sizes of the others
/// depend on the [`Representation`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// One byte, which is never converted: `MPI_BYTE`, characters, 8-bit integers, `MPI_PACKED`.
    Byte,
    /// A signed integer of 16 bits.
    I16,
    /// A signed integer of 32 bits.
    I32,
    /// A signed integer of 64 bits.
    I64,
    /// A signed integer of 128 bits.
    I128,
    /// An unsigned integer of 16 bits.
    U16,
    /// An unsigned integer of 32 bits.
    U32,
    /// An unsigned integer of 64 bits.
    U64,
    /// A floating-point number of 16 bits.
    F16,
    /// A floating-point number of 32 bits.
    F32,
    /// A floating-point number of 64 bits.
    F64,
    /// A floating-point number of 128 bits, taken for IEEE 754's binary128.
    F128,
    /// C's `long`.
    Long,
    /// C's `unsigned long`.
    UnsignedLong,
    /// An integer as large as a pointer: `MPI_AINT`.
    Address,
    /// C's `wchar_t`.
    Wchar,
    /// C's `bool`.
    Bool,
    /// Fortran's default INTEGER and LOGICAL.
    Integer,
    /// Fortran's default REAL.
    Real,
    /// C's `long double`.
    LongDouble,
}

/// How the bits of a value are interpreted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    Raw,
    Signed,
    Unsigned,
    Float,
    LongDouble,
}

/// The formats of C's `long double`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LongDouble {
    /// The format of `double`.
    Double,
    /// x87's 80 bits, in the first 10 of this number of bytes.
    X87(usize),
    /// IEEE 754's binary128, 16 bytes.
    Quad,
    /// The sum of two doubles, as on POWER.
    Pair,
}

const FLAGS: u32 = BIG_ENDIAN | WCHAR_UNSIGNED;

/// The fields of a representation with the sizes, in bytes, that each may have.
const SIZES: [(u32, &[usize]); 6] = [
    (LONG, &[4, 8]),
    (ADDRESS, &[4, 8]),
    (WCHAR, &[1, 2, 4]),
    (BOOL, &[1, 2, 4, 8]),
    (INTEGER, &[2, 4, 8]),
    (REAL, &[4, 8]),
];

/// The formats of `long double` by their numbers in a representation.
const FORMATS: [LongDouble; 5] =
    [LongDouble::Double, LongDouble::X87(12), LongDouble::X87(16), LongDouble::Quad, LongDouble::Pair];

/// How a job lays out the basic types: the byte order, and the sizes and formats that differ between machines and
/// compilers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Representation(u32);

impl Representation {
    /// The representation of this process's C compiler. Fortran's default types are taken to have 4 bytes.
    pub const fn here() -> Representation {
        let wchar_unsigned = libc::wchar_t::MIN == 0;
        let long_double = if cfg!(target_arch = "x86_64") {
            LongDouble::X87(16)
        } else if cfg!(target_arch = "x86") {
            LongDouble::X87(12)
        } else if cfg!(target_arch = "arm") {
            LongDouble::Double
        } else if cfg!(any(target_arch = "powerpc", target_arch = "powerpc64")) {
            LongDouble::Pair
        } else {
            LongDouble::Quad
        };
        let flags = if cfg!(target_endian = "big") { BIG_ENDIAN } else { 0 };
        Representation(flags | if wchar_unsigned { WCHAR_UNSIGNED } else { 0 })
            .with(LONG, size_of::<std::ffi::c_long>())
            .with(ADDRESS, size_of::<usize>())
            .with(WCHAR, size_of::<libc::wchar_t>())
            .with(BOOL, size_of::<bool>())
            .with_fortran(4, 4)
            .with_long_double(long_double)
    }

    /// The same with Fortran's default INTEGER and REAL of these sizes in bytes.
    pub const fn with_fortran(self, integer: usize, real: usize) -> Representation {
        self.with(INTEGER, integer).with(REAL, real)
    }

    /// The same with the other byte order.
    #[cfg(test)]
    pub(crate) const fn swapped(self) -> Representation {
        Representation(self.0 ^ BIG_ENDIAN)
    }

    /// The same with a `long` and addresses of these sizes.
    #[cfg(test)]
    pub(crate) const fn with_words(self, long: usize, address: usize) -> Representation {
        self.with(LONG, long).with(ADDRESS, address)
    }

    /// The same with a `wchar_t` of this size and signedness.
    #[cfg(test)]
    pub(crate) const fn with_wchar(self, bytes: usize, signed: bool) -> Representation {
        let flags = if signed { self.0 & !WCHAR_UNSIGNED } else { self.0 | WCHAR_UNSIGNED };
        Representation(flags).with(WCHAR, bytes)
    }

    /// The same with a `bool` of this size.
    #[cfg(test)]
    pub(crate) const fn with_bool(self, bytes: usize) -> Representation {
        self.with(BOOL, bytes)
    }

    pub(super) const fn with_long_double(self, format: LongDouble) -> Representation {
        let number = match format {
            LongDouble::Double => DOUBLE,
            LongDouble::X87(12) => X87_IN_12,
            LongDouble::X87(_) => X87_IN_16,
            LongDouble::Quad => QUAD,
            LongDouble::Pair => PAIR,
        };
        self.with(LONG_DOUBLE, number as usize)
    }

    const fn with(self, at: u32, value: usize) -> Representation {
        Representation(self.0 & !(15 << at) | (value as u32 & 15) << at)
    }

    const fn field(self, at: u32) -> usize {
        (self.0 >> at & 15) as usize
    }

    /// The number by which the wire protocol describes this representation.
    pub const fn number(self) -> u32 {
        self.0
    }

    /// The representation with this number. `None`: this version does not know it.
    pub fn from_number(number: u32) -> Option<Representation> {
        let it = Representation(number);
        let known = number & 15 & !FLAGS == 0
            && SIZES.iter().all(|(at, sizes)| sizes.contains(&it.field(*at)))
            && it.field(LONG_DOUBLE) < FORMATS.len();
        known.then_some(it)
    }

    pub(crate) fn is_big_endian(self) -> bool {
        self.0 & BIG_ENDIAN != 0
    }

    pub(super) fn long_double(self) -> LongDouble {
        FORMATS[self.field(LONG_DOUBLE)]
    }
}

impl Kind {
    /// The number of basic types.
    pub(super) const COUNT: usize = Kind::LongDouble as usize + 1;

    pub(super) const ALL: [Kind; Kind::COUNT] = [
        Kind::Byte,
        Kind::I16,
        Kind::I32,
        Kind::I64,
        Kind::I128,
        Kind::U16,
        Kind::U32,
        Kind::U64,
        Kind::F16,
        Kind::F32,
        Kind::F64,
        Kind::F128,
        Kind::Long,
        Kind::UnsignedLong,
        Kind::Address,
        Kind::Wchar,
        Kind::Bool,
        Kind::Integer,
        Kind::Real,
        Kind::LongDouble,
    ];

    /// The size in bytes in a job with this representation.
    pub fn size(self, of: Representation) -> usize {
        match self {
            Kind::Byte => 1,
            Kind::I16 | Kind::U16 | Kind::F16 => 2,
            Kind::I32 | Kind::U32 | Kind::F32 => 4,
            Kind::I64 | Kind::U64 | Kind::F64 => 8,
            Kind::I128 | Kind::F128 => 16,
            Kind::Long | Kind::UnsignedLong => of.field(LONG),
            Kind::Address => of.field(ADDRESS),
            Kind::Wchar => of.field(WCHAR),
            Kind::Bool => of.field(BOOL),
            Kind::Integer => of.field(INTEGER),
            Kind::Real => of.field(REAL),
            Kind::LongDouble => match of.long_double() {
                LongDouble::Double => 8,
                LongDouble::X87(bytes) => bytes,
                LongDouble::Quad | LongDouble::Pair => 16,
            },
        }
    }

    pub(super) fn meaning(self, of: Representation) -> Meaning {
        match self {
            Kind::Byte => Meaning::Raw,
            Kind::I16 | Kind::I32 | Kind::I64 | Kind::I128 | Kind::Long | Kind::Address | Kind::Integer => {
                Meaning::Signed
            }
            Kind::U16 | Kind::U32 | Kind::U64 | Kind::UnsignedLong | Kind::Bool => Meaning::Unsigned,
            Kind::Wchar if of.0 & WCHAR_UNSIGNED != 0 => Meaning::Unsigned,
            Kind::Wchar => Meaning::Signed,
            Kind::F16 | Kind::F32 | Kind::F64 | Kind::F128 | Kind::Real => Meaning::Float,
            Kind::LongDouble => Meaning::LongDouble,
        }
    }

    /// Whether values of this type can be converted between these representations.
    pub(super) fn converts(self, from: Representation, to: Representation) -> bool {
        // There is no big-endian machine with x87's format.
        let odd = |of: Representation| of.is_big_endian() && matches!(of.long_double(), LongDouble::X87(_));
        let pairs = [from, to].map(|of| of.long_double() == LongDouble::Pair);
        self != Kind::LongDouble || !odd(from) && !odd(to) && pairs[0] == pairs[1]
    }
}
