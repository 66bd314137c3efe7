//! The info key `soft`: numbers of processes that will do, such as `1:4,8` or `0:10:2`.

/// The most processes of these numbers, and no more than `most`. `None`: that is no list of numbers, or none fits.
pub fn best(list: &str, most: u32) -> Option<u32> {
    let mut best = None;
    for triplet in list.split(',') {
        let numbers: Vec<i64> = triplet.split(':').map(|n| n.trim().parse().ok()).collect::<Option<_>>()?;
        let (from, to, step) = match numbers[..] {
            [one] => (one, one, 1),
            [from, to] => (from, to, if to < from { -1 } else { 1 }),
            [from, to, step] if step != 0 => (from, to, step),
            _ => return None,
        };
        let (low, high, step) = if step > 0 { (from, to, step) } else { (to, from, -step) };
        // Counted from its first number.
        let top = i64::from(most).min(high);
        let fits =
            if from == low { top - (top - low).rem_euclid(step) } else { high - (high - top + step - 1) / step * step };
        if fits >= low && fits > 0 && low <= high {
            best = best.max(u32::try_from(fits).ok());
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::best;

    #[test]
    fn the_largest_number_that_fits() {
        for (list, most, found) in [
            ("4", 4, Some(4)),
            ("4", 3, None),
            ("1:4", 3, Some(3)),
            ("1:4,8", 9, Some(8)),
            ("0:10:3", 10, Some(9)),
            ("0:10:3", 8, Some(6)),
            ("10:1:-4", 9, Some(6)),
            ("10:1:-4", 10, Some(10)),
            ("4:1", 2, Some(2)),
            ("2, 3", 5, Some(3)),
            ("0", 5, None),
            ("", 5, None),
            ("x", 5, None),
            ("1:2:0", 5, None),
        ] {
            assert_eq!(best(list, most), found, "{list} {most}");
        }
    }
}
