//! Tables that a process has for each of very many others, or that most processes keep small.

/// Appends to a table. It grows by an eighth, and at least by one, so it is never much larger than what is in it. A vector's own way
/// doubles it, and begins with four.
pub fn push<T>(table: &mut Vec<T>, value: T) {
    make_room(table);
    table.push(value);
}

/// As [`push`], at a place before others.
pub fn insert<T>(table: &mut Vec<T>, at: usize, value: T) {
    make_room(table);
    table.insert(at, value);
}

fn make_room<T>(table: &mut Vec<T>) {
    if table.len() == table.capacity() {
        table.reserve_exact((table.len() / 8).max(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_hardly_larger_than_what_is_in_it_and_seldom_moved() {
        let (mut table, mut moves) = (Vec::new(), 0);
        for n in 0..10_000u64 {
            moves += usize::from(table.len() == table.capacity());
            push(&mut table, n);
            assert!(table.capacity() <= table.len() + table.len() / 8 + 1);
        }
        assert_eq!(table, (0..10_000).collect::<Vec<_>>());
        assert!(moves < 90, "{moves}");
    }
}
