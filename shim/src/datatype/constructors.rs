//! The type maps of MPI's datatype constructors (MPI 4.1, section 5.1).

use super::contents::Contents;
use super::map::{Element, Map};
use crate::abi;
use std::ffi::c_int;

/// The map of a datatype that was made by this constructor of these contents. `None`: the constructor is not known, or
/// its numbers make no sense.
pub fn map<M: Map>(combiner: c_int, made_of: &Contents, inner: &[Element<M>]) -> Option<M> {
    let abi = abi::get();
    let is = |combiners: &[c_int]| combiners.contains(&combiner);
    if is(&[abi.combiner_struct, abi.combiner_struct_integer]) {
        return structure(&made_of.numbers(), inner);
    }
    let [one] = inner else { return None };
    if is(&[abi.combiner_dup, abi.combiner_resized]) {
        return Some(one.map.clone());
    }
    if combiner == abi.combiner_subarray {
        return subarray(made_of, one);
    }
    if combiner == abi.combiner_darray {
        return darray(made_of, one);
    }
    let n = made_of.numbers();
    let bytes = 1;
    if combiner == abi.combiner_contiguous {
        one.several(*n.first()?)
    } else if combiner == abi.combiner_vector {
        vector(&n, one, one.extent)
    } else if is(&[abi.combiner_hvector, abi.combiner_hvector_integer]) {
        vector(&n, one, bytes)
    } else if combiner == abi.combiner_indexed {
        indexed(&n, one, one.extent)
    } else if is(&[abi.combiner_hindexed, abi.combiner_hindexed_integer]) {
        indexed(&n, one, bytes)
    } else if combiner == abi.combiner_indexed_block {
        indexed_block(&n, one, one.extent)
    } else if combiner == abi.combiner_hindexed_block {
        indexed_block(&n, one, bytes)
    } else {
        None
    }
}

impl<M: Map> Element<M> {
    /// `count` elements side by side.
    fn several(&self, count: i64) -> Option<M> {
        self.map.repeat(usize::try_from(count).ok()?, self.extent)
    }
}

/// The bytes of `number` steps of `unit` bytes each.
fn distance(number: i64, unit: isize) -> isize {
    (number as isize).wrapping_mul(unit)
}

fn vector<M: Map>(n: &[i64], one: &Element<M>, unit: isize) -> Option<M> {
    let [count, length, stride] = *n else { return None };
    one.several(length)?.repeat(usize::try_from(count).ok()?, distance(stride, unit))
}

/// Splits numbers that begin with a count into two arrays of that length.
fn arrays(n: &[i64]) -> Option<(&[i64], &[i64])> {
    let (count, rest) = n.split_first()?;
    let count = usize::try_from(*count).ok()?;
    (rest.len() == count.checked_mul(2)?).then(|| rest.split_at(count))
}

fn indexed<M: Map>(n: &[i64], one: &Element<M>, unit: isize) -> Option<M> {
    let (lengths, places) = arrays(n)?;
    // Blocks of equal length share their map.
    let mut last = (0, M::nothing());
    M::list(lengths.iter().zip(places).map(|(&length, &place)| {
        if length != last.0 {
            last = (length, one.several(length)?);
        }
        Some(last.1.clone().moved(distance(place, unit)))
    }))
}

fn indexed_block<M: Map>(n: &[i64], one: &Element<M>, unit: isize) -> Option<M> {
    let [count, length, places @ ..] = n else { return None };
    let block = one.several(*length).filter(|_| places.len() as i64 == *count)?;
    M::list(places.iter().map(|&place| Some(block.clone().moved(distance(place, unit)))))
}

fn structure<M: Map>(n: &[i64], inner: &[Element<M>]) -> Option<M> {
    let (lengths, places) = arrays(n).filter(|(lengths, _)| lengths.len() == inner.len())?;
    let fields = inner.iter().zip(lengths).zip(places);
    M::list(fields.map(|((of, &length), &place)| Some(of.several(length)?.moved(place as isize))))
}

/// The dimensions of an array from the one that varies fastest in memory to the slowest.
fn inwards(dimensions: usize, order: i64) -> Box<dyn Iterator<Item = usize>> {
    if order == abi::get().order_fortran.into() { Box::new(0..dimensions) } else { Box::new((0..dimensions).rev()) }
}

fn subarray<M: Map>(made_of: &Contents, one: &Element<M>) -> Option<M> {
    let dimensions = usize::try_from(*made_of.ints.first()?).ok()?;
    let order = *made_of.ints.last()?;
    let numbers = if made_of.large.is_empty() { made_of.ints.get(1..)? } else { &made_of.large };
    let at = |array: usize, i: usize| numbers.get(array * dimensions + i).copied();
    let (mut map, mut step) = (one.map.clone(), one.extent);
    for i in inwards(dimensions, order) {
        let (whole, part, start) = (at(0, i)?, at(1, i)?, at(2, i)?);
        map = map.repeat(usize::try_from(part).ok()?, step)?.moved(distance(start, step));
        step = distance(whole, step);
    }
    Some(map)
}

/// The part of one process in an array that is distributed over a grid of processes: MPI_Type_create_darray.
fn darray<M: Map>(made_of: &Contents, one: &Element<M>) -> Option<M> {
    let abi = abi::get();
    let (head, rest) = made_of.ints.split_at_checked(3)?;
    let [processes, rank, dimensions] = *head else { return None };
    let dimensions = usize::try_from(dimensions).ok()?;
    let order = *rest.last()?;
    let (sizes, rest) =
        if made_of.large.is_empty() { rest.split_at_checked(dimensions)? } else { (&made_of.large[..], rest) };
    let at = |array: usize, i: usize| rest.get(array * dimensions + i).copied();
    // The coordinates of the process in the grid, which is always in C's order.
    let (mut place, mut below, mut beyond) = (vec![0; dimensions], processes, rank);
    for (i, place) in place.iter_mut().enumerate() {
        below = below.checked_div(at(2, i)?)?;
        *place = beyond.checked_div(below)?;
        beyond -= *place * below;
    }
    let (mut map, mut step) = (one.map.clone(), one.extent);
    for i in inwards(dimensions, order) {
        let (size, kind, argument, over) = (*sizes.get(i)?, at(0, i)? as c_int, at(1, i)?, at(2, i)?);
        let default = argument == abi.distribute_dflt_darg.into();
        let length = if kind == abi.distribute_none {
            size
        } else if !default {
            argument
        } else if kind == abi.distribute_block {
            (size + over - 1).checked_div(over)?
        } else {
            1
        };
        map = cyclic(&Element { map, extent: step, ..*one }, size, length, place[i], over)?;
        step = distance(size, step);
    }
    Some(map)
}

/// The elements of the process at `place`, if `size` elements are dealt out to `over` processes in blocks of `length`.
fn cyclic<M: Map>(one: &Element<M>, size: i64, length: i64, place: i64, over: i64) -> Option<M> {
    let (first, round) = (place.checked_mul(length)?, over.checked_mul(length).filter(|r| *r > 0)?);
    let rounds = size / round;
    // The elements of the last round, which may not be complete.
    let rest = (size - rounds * round - first).clamp(0, length);
    let stride = distance(round, one.extent);
    let full = one.several(length)?.repeat(usize::try_from(rounds).ok()?, stride)?;
    let last = one.several(rest)?.moved(distance(rounds, stride));
    Some(M::list([Some(full), Some(last)])?.moved(distance(first, one.extent)))
}
