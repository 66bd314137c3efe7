//! Conversion of C's `long double` between its formats. A value is taken apart into sign, exponent and significand, and
//! put together in the other format, rounded to the nearest value, ties to even.

use super::kind::{Kind, LongDouble, Representation};
use super::order::reorder;

/// The layout of a floating-point format.
struct Format {
    /// The bits of the significand, with the leading one, be it stored or not.
    digits: u32,
    exponent_bits: u32,
    /// Whether the leading one is stored.
    explicit: bool,
}

const DOUBLE: Format = Format { digits: 53, exponent_bits: 11, explicit: false };
const X87: Format = Format { digits: 64, exponent_bits: 15, explicit: true };
const QUAD: Format = Format { digits: 113, exponent_bits: 15, explicit: false };

/// The absolute value of a number in any format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value {
    Zero,
    /// `significand` times 2 to the power of `exponent - 127`. The highest bit of the significand is set.
    Finite {
        exponent: i32,
        significand: u128,
    },
    Infinite,
    NotANumber,
}

/// Converts whole values and appends them. False: a value is beyond the range of the other format.
pub(super) fn convert_long_doubles(from: Representation, to: Representation, data: &[u8], out: &mut Vec<u8>) -> bool {
    let swap = from.is_big_endian() != to.is_big_endian();
    let (size, here) = (Kind::LongDouble.size(from), Kind::LongDouble.size(to));
    let (theirs, ours) = (from.long_double(), to.long_double());
    match (theirs, ours) {
        (LongDouble::Pair, LongDouble::Pair) => {
            reorder(8, swap, data, out);
            return true;
        }
        (LongDouble::X87(_), LongDouble::X87(_)) => {
            for value in data.chunks_exact(size) {
                out.extend_from_slice(&value[..10]);
                out.resize(out.len() + here - 10, 0);
            }
            return true;
        }
        _ if theirs == ours => {
            reorder(size, swap, data, out);
            return true;
        }
        _ => {}
    }
    let mut fits = true;
    for value in data.chunks_exact(size) {
        let mut bytes = [0; 16];
        bytes[..size].copy_from_slice(value);
        if from.is_big_endian() {
            bytes[..size].reverse();
        }
        let (negative, value) = format(theirs).take(u128::from_le_bytes(bytes));
        let (bits, fit) = format(ours).put(negative, value);
        fits &= fit;
        let mut bytes = bits.to_le_bytes();
        if to.is_big_endian() {
            bytes[..here].reverse();
        }
        out.extend_from_slice(&bytes[..here]);
    }
    fits
}

/// The layout of a format. It is never asked for pairs of doubles, which are only converted to pairs.
fn format(of: LongDouble) -> &'static Format {
    match of {
        LongDouble::Double => &DOUBLE,
        LongDouble::X87(_) => &X87,
        LongDouble::Quad | LongDouble::Pair => &QUAD,
    }
}

impl Format {
    /// The bits of the significand that are stored.
    fn kept(&self) -> u32 {
        if self.explicit { self.digits } else { self.digits - 1 }
    }

    fn bias(&self) -> i32 {
        (1 << (self.exponent_bits - 1)) - 1
    }

    /// The exponent field with all its bits set: infinities and NaNs.
    fn top(&self) -> i32 {
        (1 << self.exponent_bits) - 1
    }

    /// Takes a number apart: whether it is negative, and its absolute value.
    fn take(&self, bits: u128) -> (bool, Value) {
        let kept = bits & ((1 << self.kept()) - 1);
        let field = (bits >> self.kept()) as i32 & self.top();
        let negative = bits >> (self.kept() + self.exponent_bits) & 1 == 1;
        let leading = 1 << (self.digits - 1);
        // The significand without its leading one.
        let fraction = kept & (leading - 1);
        let value = if field == self.top() {
            if fraction == 0 { Value::Infinite } else { Value::NotANumber }
        } else {
            let hidden = if self.explicit || field == 0 { 0 } else { leading };
            let significand = kept | hidden;
            let empty = significand.leading_zeros();
            let above = 128 - self.digits;
            match significand {
                0 if field == 0 => Value::Zero,
                // In the x87 format, a normal number without its leading one is invalid.
                _ if field > 0 && significand & leading == 0 => Value::NotANumber,
                _ => Value::Finite {
                    exponent: field.max(1) - self.bias() - (empty - above) as i32,
                    significand: significand << empty,
                },
            }
        };
        (negative, value)
    }

    /// The bits of a value, and whether it is in the range of this format. If not, they are those of the largest
    /// number.
    fn put(&self, negative: bool, value: Value) -> (u128, bool) {
        let leading = 1u128 << (self.digits - 1);
        let (field, significand, fits) = match value {
            Value::Zero => (0, 0, true),
            Value::Infinite => (self.top(), leading, true),
            // A quiet NaN.
            Value::NotANumber => (self.top(), leading | leading >> 1, true),
            Value::Finite { exponent, significand } => self.round(exponent, significand),
        };
        let kept = significand & ((1 << self.kept()) - 1);
        let sign = u128::from(negative) << (self.kept() + self.exponent_bits);
        (sign | (field as u128) << self.kept() | kept, fits)
    }

    /// Rounds to this format: the exponent field, the significand, and whether the value is in the format's range.
    fn round(&self, exponent: i32, significand: u128) -> (i32, u128, bool) {
        let least = 1 - self.bias();
        // Below the least exponent, the number is subnormal: it has fewer digits.
        let lost = least.saturating_sub(exponent).max(0) as u32;
        let mut rounded = shift_right(significand, (128 - self.digits).saturating_add(lost));
        let mut exponent = exponent.max(least);
        if rounded >> self.digits != 0 {
            rounded >>= 1;
            exponent += 1;
        }
        let field = exponent + self.bias();
        if field >= self.top() {
            return (self.top() - 1, (1 << self.digits) - 1, false);
        }
        let small = rounded >> (self.digits - 1) == 0;
        (if small { 0 } else { field }, rounded, true)
    }
}

/// Shifts right and rounds to the nearest, ties to even.
fn shift_right(value: u128, by: u32) -> u128 {
    let (kept, rest, half) = match by {
        0 => return value,
        1..128 => (value >> by, value & ((1 << by) - 1), 1 << (by - 1)),
        128 => (0, value, 1 << 127),
        _ => return 0,
    };
    let up = rest > half || rest == half && kept & 1 == 1;
    kept + u128::from(up)
}
