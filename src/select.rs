//! Which names `mpi-connect names` shows.

use naming::{Record, Row, matches};
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
        all.retain(|row| self.wants(row));
        all
    }

    pub fn wants(&self, row: &Row) -> bool {
        row.records().any(|record| self.has(record))
    }

    fn has(&self, record: &Record) -> bool {
        let tells = |Pair(key, value): &Pair| record.metadata.iter().any(|(k, v)| k == key && v == value);
        self.run.is_none_or(|run| run == record.run)
            && self.pattern.is_none_or(|p| matches(p, &record.name))
            && self.pairs.iter().all(tells)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_read() {
        let Pair(key, value) = "a=b=c".parse().unwrap();
        assert_eq!((key.as_str(), value.as_str()), ("a", "b=c"));
        assert!("a".parse::<Pair>().is_err() && "=a".parse::<Pair>().is_err());
    }
}
