//! Which names `mpi-connect names` shows.

use crate::rows::Row;
use naming::Record;
use std::str::FromStr;

/// `key=value`, as a record has to tell it.
#[derive(Clone, Debug)]
pub struct Pair(String, String);

impl FromStr for Pair {
    type Err = String;
    fn from_str(text: &str) -> Result<Pair, String> {
        match text.split_once('=') {
            Some((key, value)) if !key.is_empty() => Ok(Pair(key.into(), value.into())),
            _ => Err("key=value is expected".into()),
        }
    }
}

pub struct Selection<'a> {
    pattern: Option<&'a str>,
    pairs: &'a [Pair],
    run: Option<&'a str>,
}

impl<'a> Selection<'a> {
    pub fn new(pattern: Option<&'a str>, pairs: &'a [Pair], run: Option<&'a str>) -> Selection<'a> {
        // As `mpi-connect run --run` takes it.
        Selection { pattern, pairs, run: run.map(str::trim) }
    }

    pub fn is_all(&self) -> bool {
        self.pattern.is_none() && self.pairs.is_empty() && self.run.is_none()
    }

    pub fn of(&self, mut all: Vec<Row>) -> Vec<Row> {
        all.retain(|row| row.records().any(|record| self.has(record)));
        all
    }

    fn has(&self, record: &Record) -> bool {
        let tells = |Pair(key, value): &Pair| record.metadata.iter().any(|(k, v)| k == key && v == value);
        self.run.is_none_or(|run| run == record.run)
            && self.pattern.is_none_or(|p| matches(p, &record.name))
            && self.pairs.iter().all(tells)
    }
}

/// Whether a name begins like the pattern or, if that has a `*`, is like it from end to end.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((head, tail)) = pattern.split_once('*') else { return name.starts_with(pattern) };
    let Some(mut rest) = name.strip_prefix(head) else { return false };
    let (middle, end) = tail.rsplit_once('*').unwrap_or(("", tail));
    // The first place of each part is as good as any later one.
    for part in middle.split('*').filter(|p| !p.is_empty()) {
        match rest.split_once(part) {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    rest.ends_with(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (pattern, name) in [
            ("", "ocean"),
            ("urn:site", "urn:site:ocean"),
            ("urn:site:*", "urn:site:"),
            ("urn:*:ocean", "urn:site:ocean"),
            ("*ocean", "ocean"),
            ("*", ""),
            ("**", "x"),
            ("a*b*c", "a-b-b-c"),
            ("*é*", "mer é"),
        ] {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [
            ("ocean", "urn:site:ocean"),
            ("urn:*:ocean", "urn:site:ocean2"),
            ("a*a", "a"),
            ("a*b*c", "acb"),
            ("*b*b*", "ab"),
            ("x*", ""),
        ] {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
    }

    #[test]
    fn pairs_are_read() {
        let Pair(key, value) = "a=b=c".parse().unwrap();
        assert_eq!((key.as_str(), value.as_str()), ("a", "b=c"));
        assert!("a".parse::<Pair>().is_err() && "=a".parse::<Pair>().is_err());
    }
}
