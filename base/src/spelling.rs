//! Suggestions for misspelt words.

/// Words that differ in more letters than this are not related.
const MOST: usize = 3;

/// The candidate that differs least from `word`, if it is near enough: at most 3 letters, and at most half of the
/// word. A difference of small and capital letters alone counts as none. `None` if `word` is itself the nearest
/// candidate.
pub fn nearest<'a>(word: &str, among: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let small = word.to_lowercase();
    let distances = among.into_iter().map(|other| (edits(&small, &other.to_lowercase()), other));
    let (distance, found) = distances.min_by_key(|(d, other)| (*d, *other != word))?;
    // A short word must not match by chance.
    (found != word && distance <= MOST.min(word.chars().count() / 2)).then_some(found)
}

/// The number of letters that must be changed, added, removed, or swapped with the next, to make `b` of `a`.
fn edits(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    // Row i is for the first i letters of `a`.
    let mut rows = vec![(0..=b.len()).collect::<Vec<_>>()];
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let mut least = (rows[i][j] + usize::from(x != y)).min(rows[i][j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *x == b[j - 1] && a[i - 1] == *y {
                least = least.min(rows[i - 1][j - 1] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_is_meant() {
        let names = ["air", "ocean", "océan-été", "land"];
        let meant = |word| nearest(word, names);
        assert_eq!(meant("ocaen"), Some("ocean"));
        assert_eq!(meant("Ocean"), Some("ocean"));
        assert_eq!(meant("océan-ete"), Some("océan-été"));
        assert_eq!(meant("aire"), Some("air"));
        assert_eq!((meant("OCEAN"), meant("iar")), (Some("ocean"), Some("air")));
        assert_eq!((meant("ice"), meant("x"), meant(""), meant("sea")), (None, None, None, None));
        assert_eq!(nearest("ocean", []), None);
    }
}
