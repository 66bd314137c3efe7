//! What the reading of every part of a manifest needs: values of keys, and what is wrong with them.

use std::collections::BTreeMap;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

/// One thing that is wrong. Line 0: the whole.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    pub line: usize,
    pub what: String,
}

/// The lines of a table: where it begins, and where its keys are. 0: the whole.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Lines {
    pub begin: usize,
    keys: BTreeMap<String, usize>,
}

impl Lines {
    /// That of a key, or where the table begins if it does not have that one.
    pub fn of(&self, key: &str) -> usize {
        self.keys.get(key).copied().unwrap_or(self.begin)
    }
}

pub(super) struct Reader<'t> {
    pub(super) text: &'t str,
    pub(super) problems: Vec<Problem>,
}

type Value<'i> = Spanned<DeValue<'i>>;

impl Reader<'_> {
    pub(super) fn line(&self, at: usize) -> usize {
        1 + self.text.bytes().take(at).filter(|b| *b == b'\n').count()
    }

    pub(super) fn problem(&mut self, at: Range<usize>, what: String) {
        self.problems.push(Problem { line: self.line(at.start), what });
    }

    pub(super) fn lines(&self, begin: usize, table: &DeTable<'_>) -> Lines {
        let line = |key: &Spanned<DeString<'_>>| (key.get_ref().to_string(), self.line(key.span().start));
        Lines { begin, keys: table.keys().map(line).collect() }
    }

    /// Tells of keys that mean nothing.
    pub(super) fn keys(&mut self, table: &DeTable<'_>, known: &[&str], whose: &str) {
        for key in table.keys() {
            let name: &str = key.get_ref();
            if known.contains(&name) {
                continue;
            }
            let what = if let Some(meant) = base::spelling::nearest(name, known.iter().copied()) {
                format!("{whose}there is no key '{name}'; '{meant}' was perhaps meant")
            } else {
                format!("{whose}there is no key '{name}', only {}", known.join(", "))
            };
            self.problem(key.span(), what);
        }
    }

    pub(super) fn string(&mut self, table: &DeTable<'_>, key: &str, whose: &str) -> Option<String> {
        let value = table.get(key)?;
        let text = value.get_ref().as_str().filter(|text| !text.contains('\0')).map(str::to_owned);
        if text.is_none() {
            self.expected(value, key, whose, "a text");
        }
        text
    }

    /// A list of texts, or one.
    pub(super) fn strings(&mut self, table: &DeTable<'_>, key: &str, whose: &str) -> Option<Vec<String>> {
        let value = table.get(key)?;
        let clean = |text: &str| (!text.contains('\0')).then(|| text.to_owned());
        let found = match value.get_ref() {
            DeValue::String(text) => clean(text).map(|text| vec![text]),
            DeValue::Array(all) => all.iter().map(|one| one.get_ref().as_str().and_then(clean)).collect(),
            _ => None,
        };
        if found.is_none() {
            self.expected(value, key, whose, "a list of texts");
        }
        found
    }

    pub(super) fn word(
        &mut self,
        table: &DeTable<'_>,
        key: &str,
        whose: &str,
        words: &[&'static str],
    ) -> Option<&'static str> {
        let value = table.get(key)?;
        let said = value.get_ref().as_str().unwrap_or_default();
        let found = words.iter().find(|word| **word == said).copied();
        if found.is_none() {
            let expected: Vec<_> = words.iter().map(|word| format!("\"{word}\"")).collect();
            self.expected(value, key, whose, &expected.join(" or "));
        }
        found
    }

    pub(super) fn number(
        &mut self,
        table: &DeTable<'_>,
        key: &str,
        whose: &str,
        range: std::ops::RangeInclusive<u64>,
    ) -> Option<u64> {
        let value = table.get(key)?;
        let number = value.get_ref().as_integer().and_then(|n| u64::from_str_radix(n.as_str(), n.radix()).ok());
        let found = number.filter(|n| range.contains(n));
        if found.is_none() {
            self.expected(value, key, whose, &format!("a number from {} to {}", range.start(), range.end()));
        }
        found
    }

    pub(super) fn seconds(&mut self, table: &DeTable<'_>, key: &str) -> Option<f64> {
        let value = table.get(key)?;
        let text = match value.get_ref() {
            DeValue::Integer(n) => n.as_str(),
            DeValue::Float(n) => n.as_str(),
            _ => "",
        };
        let found = text.parse().ok().filter(|s: &f64| (0.0..1e6).contains(s));
        if found.is_none() {
            self.expected(value, key, "", "a number of seconds");
        }
        found
    }

    pub(super) fn expected(&mut self, value: &Value<'_>, key: &str, whose: &str, what: &str) {
        let said = self.text.get(value.span()).unwrap_or_default().lines().next().unwrap_or_default();
        self.problem(value.span(), format!("{whose}{key} = {said}: {what} is expected"));
    }
}
