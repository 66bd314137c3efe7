//! The basic types, and how a job says how it lays them out.
//!
//! The one place that reads and makes a [`Representation`]; `base/src/protocol.rs` has its numbers.

use base::protocol::representation::{
    ADDRESS, BIG_ENDIAN, BOOL, DOUBLE, INTEGER, LONG, LONG_DOUBLE, PAIR, QUAD, REAL, WCHAR, WCHAR_UNSIGNED, X87_IN_12,
    X87_IN_16,
};

/// A basic type. Those named by a number have that many bits everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Means the same everywhere: bytes, characters, small numbers, what a program has packed.
    Byte,
    I16,
    I32,
    I64,
    I128,
    U16,
    U32,
    U64,
    F16,
    F32,
    F64,
    /// Taken for IEEE's, wherever it comes from.
    F128,
    Long,
    UnsignedLong,
    /// As large as a pointer.
    Address,
    Wchar,
    /// C's.
    Bool,
    /// Fortran's default INTEGER and LOGICAL.
    Integer,
    /// Fortran's default REAL.
    Real,
    LongDouble,
}

/// What the bits of a value mean.
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
pub enum LongDouble {
    /// As `double`.
    Double,
    /// 80 bits, at the front of so many bytes.
    X87(usize),
    /// IEEE's, of 16 bytes.
    Quad,
    /// The sum of two doubles.
    Pair,
}

const FLAGS: u32 = BIG_ENDIAN | WCHAR_UNSIGNED;

/// The sizes that each field may have.
const SIZES: [(u32, &[usize]); 6] = [
    (LONG, &[4, 8]),
    (ADDRESS, &[4, 8]),
    (WCHAR, &[1, 2, 4]),
    (BOOL, &[1, 2, 4, 8]),
    (INTEGER, &[2, 4, 8]),
    (REAL, &[4, 8]),
];

/// By their numbers.
const FORMATS: [LongDouble; 5] =
    [LongDouble::Double, LongDouble::X87(12), LongDouble::X87(16), LongDouble::Quad, LongDouble::Pair];

/// How a job lays out data: byte order, and all that differs between machines and compilers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Representation(u32);

impl Representation {
    /// That of this process, as far as its C goes; Fortran's types as most have them.
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

    /// With default INTEGERs and REALs of these sizes.
    pub const fn with_fortran(self, integer: usize, real: usize) -> Representation {
        self.with(INTEGER, integer).with(REAL, real)
    }

    /// With the other byte order.
    #[cfg(test)]
    pub const fn swapped(self) -> Representation {
        Representation(self.0 ^ BIG_ENDIAN)
    }

    /// With a `long` and addresses of these sizes.
    #[cfg(test)]
    pub const fn with_words(self, long: usize, address: usize) -> Representation {
        self.with(LONG, long).with(ADDRESS, address)
    }

    /// With a `wchar_t` of this size and kind.
    #[cfg(test)]
    pub const fn with_wchar(self, bytes: usize, signed: bool) -> Representation {
        let flags = if signed { self.0 & !WCHAR_UNSIGNED } else { self.0 | WCHAR_UNSIGNED };
        Representation(flags).with(WCHAR, bytes)
    }

    /// With a C `bool` of this size.
    #[cfg(test)]
    pub const fn with_bool(self, bytes: usize) -> Representation {
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

    /// As it goes over the wire.
    pub const fn number(self) -> u32 {
        self.0
    }

    /// From the wire. `None`: no machine that this version knows.
    pub fn from_number(number: u32) -> Option<Representation> {
        let it = Representation(number);
        let known = number & 15 & !FLAGS == 0
            && SIZES.iter().all(|(at, sizes)| sizes.contains(&it.field(*at)))
            && it.field(LONG_DOUBLE) < FORMATS.len();
        known.then_some(it)
    }

    pub fn is_big_endian(self) -> bool {
        self.0 & BIG_ENDIAN != 0
    }

    pub(super) fn long_double(self) -> LongDouble {
        FORMATS[self.field(LONG_DOUBLE)]
    }
}

impl Kind {
    /// How many there are.
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

    /// Bytes of one, as a job has them.
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

    /// Whether values of one job can be those of another.
    pub(super) fn converts(self, from: Representation, to: Representation) -> bool {
        // No machine is known that has this format the other way round.
        let odd = |of: Representation| of.is_big_endian() && matches!(of.long_double(), LongDouble::X87(_));
        let pairs = [from, to].map(|of| of.long_double() == LongDouble::Pair);
        self != Kind::LongDouble || !odd(from) && !odd(to) && pairs[0] == pairs[1]
    }
}
