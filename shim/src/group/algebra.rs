//! MPI's operations on groups, for members of any kind. A group is an ordered list in which no member is twice. This
//! file knows no MPI.

use std::collections::{HashMap, HashSet};
use std::ffi::c_int;
use std::hash::Hash;

pub trait Member: Copy + Eq + Hash {}
impl<M: Copy + Eq + Hash> Member for M {}

fn set<M: Member>(group: &[M]) -> HashSet<M> {
    group.iter().copied().collect()
}

fn those<M: Member>(group: &[M], wanted: impl Fn(&M) -> bool) -> Vec<M> {
    group.iter().copied().filter(wanted).collect()
}

/// All members of the first group, and then those of the second that are not in the first.
pub fn union<M: Member>(a: &[M], b: &[M]) -> Vec<M> {
    [a, &difference(b, a)].concat()
}

/// The members of the first group that are also in the second.
pub fn intersection<M: Member>(a: &[M], b: &[M]) -> Vec<M> {
    let b = set(b);
    those(a, |m| b.contains(m))
}

/// The members of the first group that are not in the second.
pub fn difference<M: Member>(a: &[M], b: &[M]) -> Vec<M> {
    let b = set(b);
    those(a, |m| !b.contains(m))
}

#[derive(Debug, PartialEq)]
pub enum Likeness {
    /// The same members in the same order.
    Ident,
    /// The same members.
    Similar,
    Unequal,
}

pub fn compare<M: Member>(a: &[M], b: &[M]) -> Likeness {
    if a == b {
        Likeness::Ident
    } else if a.len() == b.len() && difference(a, b).is_empty() {
        Likeness::Similar
    } else {
        Likeness::Unequal
    }
}

/// The rank of each member in another group. `None`: it is not there.
pub fn translate<M: Member>(members: impl Iterator<Item = M>, to: &[M]) -> impl Iterator<Item = Option<usize>> {
    let ranks: HashMap<M, usize> = to.iter().enumerate().map(|(rank, m)| (*m, rank)).collect();
    members.map(move |m| ranks.get(&m).copied())
}

/// The members of these ranks, in the order of the ranks.
pub fn incl<M: Member>(group: &[M], ranks: &[usize]) -> Vec<M> {
    ranks.iter().map(|rank| group[*rank]).collect()
}

/// The members that do not have these ranks, in the order of the group.
pub fn excl<M: Member>(group: &[M], ranks: &[usize]) -> Vec<M> {
    difference(group, &incl(group, ranks))
}

/// What is wrong with a list of ranks.
#[derive(Debug, PartialEq)]
pub enum Wrong {
    NoRank(c_int),
    Twice(usize),
    /// More than one range has this rank.
    Overlap(usize),
    /// The stride of a range is zero, or leads away from its last rank.
    Endless([c_int; 3]),
    /// A range has a rank beyond the group.
    Beyond([c_int; 3]),
}

/// Checks a rank of a group of this size.
pub fn rank(rank: c_int, size: usize) -> Result<usize, Wrong> {
    usize::try_from(rank).ok().filter(|r| *r < size).ok_or(Wrong::NoRank(rank))
}

/// Checks a list of ranks of a group of this size, in which no rank may be twice.
pub fn ranks(list: &[c_int], size: usize) -> Result<Vec<usize>, Wrong> {
    distinct(list.iter().map(|r| rank(*r, size)), size, Wrong::Twice)
}

/// As [`ranks`], for ranges: first rank, last rank, stride.
pub fn ranges(list: &[[c_int; 3]], size: usize) -> Result<Vec<usize>, Wrong> {
    distinct(list.iter().flat_map(|range| expand(*range, size)), size, Wrong::Overlap)
}

fn expand(range: [c_int; 3], size: usize) -> impl Iterator<Item = Result<usize, Wrong>> {
    let [first, last, stride] = range.map(i64::from);
    let steps = if stride == 0 || (last - first) * stride < 0 { None } else { Some((last - first) / stride) };
    let fault = match steps {
        None => Some(Wrong::Endless(range)),
        Some(steps) => [first, first + steps * stride]
            .iter()
            .any(|end| !(0..size as i64).contains(end))
            .then_some(Wrong::Beyond(range)),
    };
    let steps = if fault.is_some() { 0..0 } else { 0..steps.unwrap_or(0) + 1 };
    fault.map(Err).into_iter().chain(steps.map(move |k| Ok((first + k * stride) as usize)))
}

fn distinct(
    ranks: impl Iterator<Item = Result<usize, Wrong>>,
    size: usize,
    again: fn(usize) -> Wrong,
) -> Result<Vec<usize>, Wrong> {
    let mut seen = vec![false; size];
    ranks
        .map(|rank| {
            let rank = rank?;
            if std::mem::replace(&mut seen[rank], true) { Err(again(rank)) } else { Ok(rank) }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &[char] = &['a', 'b', 'c', 'd'];

    #[test]
    fn order_is_that_of_the_first() {
        let b = &['e', 'c', 'f', 'a'];
        assert_eq!(union(A, b), ['a', 'b', 'c', 'd', 'e', 'f']);
        assert_eq!(union(b, A), ['e', 'c', 'f', 'a', 'b', 'd']);
        assert_eq!(intersection(A, b), ['a', 'c']);
        assert_eq!(intersection(b, A), ['c', 'a']);
        assert_eq!(difference(A, b), ['b', 'd']);
        assert_eq!(difference(b, A), ['e', 'f']);
    }

    #[test]
    fn empty_groups() {
        let none: &[char] = &[];
        assert_eq!(union(none, A), A);
        assert_eq!(union(A, none), A);
        assert_eq!(intersection(A, none), none);
        assert_eq!(difference(none, A), none);
        assert_eq!(compare(none, none), Likeness::Ident);
        assert_eq!(compare(A, none), Likeness::Unequal);
    }

    #[test]
    fn likeness() {
        assert_eq!(compare(A, A), Likeness::Ident);
        assert_eq!(compare(A, &['d', 'c', 'b', 'a']), Likeness::Similar);
        assert_eq!(compare(A, &['a', 'b', 'c', 'e']), Likeness::Unequal);
        assert_eq!(compare(A, &['a', 'b', 'c']), Likeness::Unequal);
    }

    #[test]
    fn ranks_elsewhere() {
        let found: Vec<_> = translate(['d', 'x', 'a', 'd'].into_iter(), A).collect();
        assert_eq!(found, [Some(3), None, Some(0), Some(3)]);
    }

    #[test]
    fn parts() {
        assert_eq!(incl(A, &[2, 0]), ['c', 'a']);
        assert_eq!(excl(A, &[2, 0]), ['b', 'd']);
        assert_eq!(excl(A, &[]), A);
    }

    #[test]
    fn lists_of_ranks() {
        assert_eq!(ranks(&[3, 0, 1], 4), Ok(vec![3, 0, 1]));
        assert_eq!(ranks(&[0, 4], 4), Err(Wrong::NoRank(4)));
        assert_eq!(ranks(&[-1], 4), Err(Wrong::NoRank(-1)));
        assert_eq!(ranks(&[1, 2, 1], 4), Err(Wrong::Twice(1)));
        assert_eq!(ranks(&[], 0), Ok(vec![]));
    }

    #[test]
    fn lists_of_ranges() {
        assert_eq!(ranges(&[[1, 7, 3], [9, 3, -3], [5, 5, -1]], 10), Ok(vec![1, 4, 7, 9, 6, 3, 5]));
        // A range need not meet its last rank, which may even be beyond the group.
        assert_eq!(ranges(&[[0, 5, 2]], 5), Ok(vec![0, 2, 4]));
        assert_eq!(ranges(&[[3, 0, -2]], 5), Ok(vec![3, 1]));
        assert_eq!(ranges(&[[0, 0, c_int::MAX], [4, 1, c_int::MIN]], 5), Ok(vec![0, 4]));
        for bad in [[0, 3, 0], [2, 2, 0], [3, 0, 1], [0, 3, -1]] {
            assert_eq!(ranges(&[bad], 5), Err(Wrong::Endless(bad)));
        }
        for bad in [[0, 5, 1], [-1, 3, 1], [5, 0, -1], [0, c_int::MAX, 1], [c_int::MIN, c_int::MAX, 1]] {
            assert_eq!(ranges(&[bad], 5), Err(Wrong::Beyond(bad)));
        }
        assert_eq!(ranges(&[[0, 2, 1], [4, 2, -1]], 5), Err(Wrong::Overlap(2)));
        assert_eq!(ranges(&[], 0), Ok(vec![]));
    }
}
