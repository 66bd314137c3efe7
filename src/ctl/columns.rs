//! Which columns of a table fit on a screen, and how wide they are.
//!
//! Used by `top`. Pure. Invariants: a column is shown with all of its text, or not at all; only names of peers are shortened, and
//! then their ranks stay, and they can still be told apart.

use ratatui::layout::Constraint;
use std::collections::BTreeMap;

/// The columns of a table.
pub struct Columns<'a> {
    pub heads: &'a [&'a str],
    /// The fewest cells of each.
    pub least: &'a [usize],
    /// The most important first; those of one list are shown together.
    pub order: &'a [&'a [usize]],
    /// The column that gets what is left, and whose text may be cut.
    pub last: Option<usize>,
}

impl Columns<'_> {
    /// The columns that fit, from left to right, with their widths.
    pub fn fit(&self, rows: &[Vec<String>], width: usize) -> Vec<(usize, Constraint)> {
        let longest = |at: usize| rows.iter().map(|row| cells(&row[at])).max().unwrap_or(0);
        let wanted = |at: usize| match self.last == Some(at) {
            true => self.least[at].max(cells(self.heads[at])),
            false => longest(at).max(self.least[at]).max(cells(self.heads[at])),
        };
        let (mut used, mut kept) = (0, Vec::new());
        for group in self.order {
            let needs: usize = group.iter().map(|at| wanted(*at) + 1).sum();
            // The blank behind the last column need not be there.
            if kept.is_empty() || used + needs <= width + 1 {
                used += needs;
                kept.extend_from_slice(group);
            }
        }
        kept.sort_unstable();
        let constraint = |at: usize| match self.last == Some(at) {
            true => Constraint::Fill(1),
            false => Constraint::Length(wanted(at) as u16),
        };
        kept.into_iter().map(|at| (at, constraint(at))).collect()
    }
}

fn cells(text: &str) -> usize {
    text.chars().count()
}

/// Names of peers, each with its rank behind it, of at most so many cells if they can be told apart then; otherwise of up to `most`.
pub fn peers(all: &[String], enough: usize, most: usize) -> Vec<String> {
    let cut = |limit: usize| all.iter().map(|peer| shortened(peer, limit)).collect::<Vec<_>>();
    let few = cut(enough);
    let mut long: BTreeMap<&str, &str> = BTreeMap::new();
    let is_one = few.iter().zip(all).all(|(short, peer)| *long.entry(short).or_insert(peer) == peer);
    if is_one { few } else { cut(most) }
}

/// `a-long-na…me 12`
fn shortened(peer: &str, limit: usize) -> String {
    let (name, rank) = peer.rsplit_once(' ').unwrap_or((peer, ""));
    if cells(peer) <= limit {
        return peer.into();
    }
    let room = limit.saturating_sub(cells(rank) + 2).max(2);
    let (behind, all): (usize, Vec<char>) = (room / 3, name.chars().collect());
    let head: String = all[..(room - behind).min(all.len())].iter().collect();
    let tail: String = all[all.len() - behind.min(all.len())..].iter().collect();
    format!("{head}…{tail} {rank}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_less_important_goes_first() {
        let columns = Columns {
            heads: &["A", "BB", "C", "WHY"],
            least: &[1, 2, 4, 5],
            order: &[&[0], &[3], &[1, 2]],
            last: Some(3),
        };
        let rows = [["abc", "b", "c", "a long text"].map(String::from).to_vec()];
        let shown = |width| columns.fit(&rows, width).into_iter().map(|(at, _)| at).collect::<Vec<_>>();
        assert_eq!(shown(3 + 1 + 2 + 1 + 4 + 1 + 5), [0, 1, 2, 3]);
        assert_eq!(shown(3 + 1 + 2 + 1 + 4 + 1 + 4), [0, 3], "columns of one list go together");
        assert_eq!(shown(3 + 1 + 4), [0]);
        assert_eq!(shown(1), [0], "the first one stays");
        assert_eq!(columns.fit(&rows, 80)[0].1, Constraint::Length(3), "all of its text");
    }

    #[test]
    fn peers_can_be_told_apart() {
        let all = ["ocean 1", "ocean 12"].map(String::from);
        assert_eq!(peers(&all, 20, 60), all);
        let long = ["atmosphere-of-the-north 1", "atmosphere-of-the-south 1", "atmosphere-of-the-south 112"];
        let long = long.map(String::from);
        let cut = peers(&long, 20, 60);
        assert_eq!(cut[2], "atmosphere…south 112", "{cut:?}");
        assert!(cut[0] != cut[1] && cut.iter().all(|peer| cells(peer) <= 20), "{cut:?}");
        assert_eq!(peers(&long, 10, 60), long, "so few do not tell them apart");
        assert_eq!(shortened("ocean 1", 0), "oc… 1");
    }
}
