//! Conversion of values of one basic type between two representations.

use super::float;
use super::kind::{Kind, Meaning, Representation};
use super::order::reorder;

/// Converts whole values and appends them. False: a value is beyond the range of its type in `to`.
pub(super) fn convert(kind: Kind, from: Representation, to: Representation, data: &[u8], out: &mut Vec<u8>) -> bool {
    let (size, here) = (kind.size(from), kind.size(to));
    let meaning = kind.meaning(from);
    match meaning {
        Meaning::LongDouble => float::convert_long_doubles(from, to, data, out),
        _ if size == here => {
            reorder(size, from.is_big_endian() != to.is_big_endian(), data, out);
            true
        }
        Meaning::Float => {
            // Only Fortran's REAL has two sizes, 4 and 8 bytes.
            if size < here { widen(from, to, data, out) } else { narrow(from, to, data, out) }
        }
        Meaning::Raw | Meaning::Signed | Meaning::Unsigned => {
            let signed = meaning == Meaning::Signed;
            let (least, most) = limits(here, kind.meaning(to) == Meaning::Signed);
            let mut fits = true;
            for value in data.chunks_exact(size) {
                let value = load(value, from.is_big_endian(), signed);
                let held = value.clamp(least, most);
                fits &= held == value;
                store(held, here, to.is_big_endian(), out);
            }
            fits
        }
    }
}

/// The least and the greatest integer of this size, which is at most 8 bytes.
fn limits(size: usize, signed: bool) -> (i128, i128) {
    let bits = 8 * size as u32;
    if signed { (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) } else { (0, (1 << bits) - 1) }
}

/// Reads an integer of at most 8 bytes.
fn load(bytes: &[u8], big: bool, signed: bool) -> i128 {
    let negative = signed && bytes[if big { 0 } else { bytes.len() - 1 }] >= 0x80;
    let mut value = if negative { -1i128 } else { 0 };
    let mut add = |byte: &u8| value = value << 8 | i128::from(*byte);
    if big {
        bytes.iter().for_each(&mut add)
    } else {
        bytes.iter().rev().for_each(&mut add)
    }
    value
}

/// Appends an integer of `size` bytes.
fn store(value: i128, size: usize, big: bool, out: &mut Vec<u8>) {
    if big {
        out.extend_from_slice(&value.to_be_bytes()[16 - size..]);
    } else {
        out.extend_from_slice(&value.to_le_bytes()[..size]);
    }
}

/// Converts `float` to `double`.
fn widen(from: Representation, to: Representation, data: &[u8], out: &mut Vec<u8>) -> bool {
    for value in data.as_chunks::<4>().0 {
        let value =
            f64::from(if from.is_big_endian() { f32::from_be_bytes(*value) } else { f32::from_le_bytes(*value) });
        out.extend(if to.is_big_endian() { value.to_be_bytes() } else { value.to_le_bytes() });
    }
    true
}

/// Converts `double` to `float`. False: a value is beyond the range of `float`, and is the largest `float` now.
fn narrow(from: Representation, to: Representation, data: &[u8], out: &mut Vec<u8>) -> bool {
    let mut fits = true;
    for value in data.as_chunks::<8>().0 {
        let value = if from.is_big_endian() { f64::from_be_bytes(*value) } else { f64::from_le_bytes(*value) };
        let near = value as f32;
        let beyond = value.is_finite() && near.is_infinite();
        fits &= !beyond;
        let near = if beyond { f32::MAX.copysign(near) } else { near };
        out.extend(if to.is_big_endian() { near.to_be_bytes() } else { near.to_le_bytes() });
    }
    fits
}
