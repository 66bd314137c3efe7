//! What is too long for one message, in parts.

use crate::line::{Row, Rows};
use crate::message::Message;
use std::collections::BTreeSet;

/// The most numbers in one message: they take 10 bytes each at most.
const MOST_NUMBERS: usize = 50_000;
/// The most rows in one message, without their numbers.
const MOST_ROWS: usize = 10_000;

/// Rows as messages that fit a frame each.
pub(crate) fn of_rows(serial: u64, rows: Rows) -> Vec<Message> {
    let (mut parts, mut part) = (Vec::new(), Rows::new());
    let (mut rows_left, mut numbers_left) = (MOST_ROWS, MOST_NUMBERS);
    for (rank, row) in rows {
        let numbers: Vec<u64> = row.leaving.iter().copied().collect();
        let mut left = numbers.as_slice();
        loop {
            if rows_left.min(numbers_left) == 0 {
                parts.push(std::mem::take(&mut part));
                (rows_left, numbers_left) = (MOST_ROWS, MOST_NUMBERS);
            }
            let (now, later) = left.split_at(left.len().min(numbers_left));
            part.insert(rank, Row { leaving: now.iter().copied().collect(), ..row.clone() });
            (rows_left, numbers_left) = (rows_left - 1, numbers_left - now.len());
            left = later;
            if left.is_empty() {
                break;
            }
        }
    }
    parts.push(part);
    let last = parts.len() - 1;
    parts.into_iter().enumerate().map(|(at, rows)| Message::Rows(serial, rows, at == last)).collect()
}

/// What is wanted of another process, as messages that fit a frame each.
pub(crate) fn of_again(wanted: &[u64], once_more: &[u64]) -> Vec<Message> {
    let most = wanted.len().max(once_more.len()).div_ceil(MOST_NUMBERS).max(1);
    let part = |all: &[u64], at: usize| -> BTreeSet<u64> {
        all.iter().skip(at * MOST_NUMBERS).take(MOST_NUMBERS).copied().collect()
    };
    (0..most).map(|at| Message::Again(part(wanted, at), part(once_more, at), at + 1 == most)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_have_all() {
        let rows: Rows = (0..3)
            .map(|rank| {
                (rank, Row { sent: 9, arrived: 5, leaving: (0..70_000).map(|n| n + u64::from(rank)).collect() })
            })
            .collect();
        let mut back = Rows::new();
        let parts = of_rows(7, rows.clone());
        assert_eq!(parts.len(), 5);
        let last = parts.len() - 1;
        for (at, part) in parts.into_iter().enumerate() {
            assert!(part.encode().len() < 1 << 20);
            let Message::Rows(7, part, is_last) = part else { panic!("{part:?}") };
            assert_eq!(is_last, at == last);
            for (rank, row) in part {
                let all = back.entry(rank).or_default();
                (all.sent, all.arrived) = (row.sent, row.arrived);
                all.leaving.extend(row.leaving);
            }
        }
        assert_eq!(back, rows);
        let (wanted, once_more): (Vec<u64>, Vec<u64>) = ((0..120_000).collect(), vec![3]);
        let (mut all, mut more) = (Vec::new(), Vec::new());
        for part in of_again(&wanted, &once_more) {
            let Message::Again(one, other, is_last) = part else { panic!("{part:?}") };
            all.extend(one);
            more.extend(other);
            assert_eq!(is_last, all.len() == wanted.len());
        }
        assert_eq!((all, more), (wanted, once_more));
        assert_eq!(of_again(&[], &[]), [Message::Again(BTreeSet::new(), BTreeSet::new(), true)]);
    }
}
