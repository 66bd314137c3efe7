//! What became of a command, and why a pair is carried as it is, in words.

use crate::shown::printable;
use std::fmt::Display;
use wire::control::What;

/// The most characters of a reason in a table; JSON has all of it.
const MOST_WHY: usize = 72;

/// What became of a command at one process, in a word and a reason.
pub fn word(what: &What) -> (&'static str, &str) {
    match what {
        What::Done(how) => ("done", how),
        What::Report(_) => ("done", ""),
        What::UnderWay(how) if how.is_empty() => ("under way", "it has begun, and goes on"),
        What::UnderWay(how) => ("under way", how),
        What::Refused(why) => ("refused", why),
        What::NotAnswering => ("not answering", ""),
        What::Dead(why) => ("dead", why),
        What::Left(how) => ("left", how),
        What::NoPair(which) if which.is_empty() => ("no pair", "it has none of those that were meant"),
        What::NoPair(which) => ("no pair", which),
        What::Overtaken => ("overtaken", "a later command came first"),
    }
}

/// A leader is silent.
pub fn silence(name: &str, seconds: impl Display) -> String {
    format!("the leader of '{name}' has not answered for {seconds} s: it may be stopped")
}

/// A reason, as a table has room for it: cut after a word.
pub fn brief(why: &str) -> String {
    let text = printable(why);
    let Some((end, _)) = text.char_indices().nth(MOST_WHY) else { return text };
    let head = &text[..end];
    let whole = head.rfind(' ').filter(|at| *at > end / 2).map_or(head, |at| &head[..at]);
    format!("{} …", whole.trim_end_matches([' ', ',', ';', ':']))
}

/// An outcome as [`word`] tells it, and the ranks that have it.
pub type Kind<'a> = ((&'a str, &'a str), Vec<u32>);

/// Equal outcomes together, in the order of their first ranks.
pub fn together<'a>(all: impl Iterator<Item = (u32, &'a What)>) -> Vec<Kind<'a>> {
    let mut kinds: Vec<Kind<'a>> = Vec::new();
    for (rank, what) in all {
        let kind = word(what);
        match kinds.iter_mut().find(|(one, _)| *one == kind) {
            Some((_, ranks)) => ranks.push(rank),
            None => kinds.push((kind, vec![rank])),
        }
    }
    kinds
}

/// `rank 3`, `ranks 0-4, 7`.
pub fn ranks_in_words(ranks: &[u32]) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for rank in ranks {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == *rank => *last = *rank,
            _ => runs.push((*rank, *rank)),
        }
    }
    let run = |(first, last): &(u32, u32)| if first == last { format!("{first}") } else { format!("{first}-{last}") };
    let plural = if ranks.len() == 1 { "rank" } else { "ranks" };
    format!("{plural} {}", runs.iter().map(run).collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_reason_is_cut_after_a_word() {
        assert_eq!(brief("other host"), "other host");
        let long = "no TCP: 10.0.0.1:7000: refused; ".repeat(10);
        let cut = brief(&long);
        assert_eq!(cut, "no TCP: 10.0.0.1:7000: refused; no TCP: 10.0.0.1:7000: refused; no TCP …");
        assert!(brief(&"x".repeat(300)).chars().count() <= MOST_WHY + 2);
        assert!(brief(&"µ".repeat(300)).chars().count() <= MOST_WHY + 2);
        assert_eq!(brief(&"x".repeat(MOST_WHY)).len(), MOST_WHY);
    }
}
