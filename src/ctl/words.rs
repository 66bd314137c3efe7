//! What became of a command, in words.

use wire::control::What;

/// What became of a command at one process, in a word and a reason.
pub fn word(what: &What) -> (&'static str, &str) {
    match what {
        What::Done(how) => ("done", how),
        What::Report(_) => ("done", ""),
        What::UnderWay => ("under way", "it has begun, and goes on"),
        What::Refused(why) => ("refused", why),
        What::NotAnswering => ("not answering", ""),
        What::Dead(why) => ("dead", why),
        What::NoPair => ("no pair", "it has none of those that were meant"),
        What::Overtaken => ("overtaken", "a later command came first"),
    }
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
