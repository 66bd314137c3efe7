//! The metadata of a record: pairs of a key and a value, which other jobs and people can see. The leader of a job reads its own
//! from the environment.
//!
//! Invariant: a pair that passes [`check`] can be shown on a line of its own as `key=value`, and read again.

use base::settings::METADATA;
use std::fmt::{Display, Formatter, Result as Formatted};

/// The most pairs that a record may have.
pub const MAX_PAIRS: usize = 32;
/// The separators of a list in a setting: a comma or, for launchers that do not pass one on, a semicolon.
pub(crate) const LIST: [char; 2] = [',', ';'];
const MAX_KEY: usize = 255;
const MAX_VALUE: usize = 1024;

/// What is wrong with metadata.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MetadataError {
    /// This number of pairs is larger than [`MAX_PAIRS`].
    TooMany(usize),
    /// This part has no `=`.
    NoValue(String),
    /// A key is empty.
    EmptyKey,
    /// A key has this number of bytes, more than 255.
    LongKey(usize),
    /// This key contains a control character or `=`.
    BadKey(String),
    /// The value of this key has this number of bytes, more than 1024.
    LongValue(String, usize),
    /// The value of this key contains a control character.
    BadValue(String),
    /// This key is there twice.
    Twice(String),
    /// The setting is not UTF-8.
    NotUtf8,
}

impl Display for MetadataError {
    fn fmt(&self, f: &mut Formatter<'_>) -> Formatted {
        match self {
            MetadataError::TooMany(n) => write!(f, "{n} pairs of key and value are more than {MAX_PAIRS}"),
            MetadataError::NoValue(part) => write!(f, "'{}' is not of the form key=value", part.escape_debug()),
            MetadataError::EmptyKey => f.write_str("a key is empty"),
            MetadataError::LongKey(n) => write!(f, "a key has {n} bytes; at most {MAX_KEY} are allowed"),
            MetadataError::BadKey(key) => {
                write!(f, "the key '{}' contains a control character or '='", key.escape_debug())
            }
            MetadataError::LongValue(key, n) => {
                write!(f, "the value of '{key}' has {n} bytes; at most {MAX_VALUE} are allowed")
            }
            MetadataError::BadValue(key) => write!(f, "the value of '{key}' contains a control character"),
            MetadataError::Twice(key) => write!(f, "the key '{key}' is there twice"),
            MetadataError::NotUtf8 => f.write_str("this is not valid UTF-8"),
        }
    }
}

impl std::error::Error for MetadataError {}

/// Checks the pairs of a record: their number, their lengths, the characters, and that no key is there twice.
pub fn check(pairs: &[(String, String)]) -> Result<(), MetadataError> {
    if pairs.len() > MAX_PAIRS {
        return Err(MetadataError::TooMany(pairs.len()));
    }
    for (i, (key, value)) in pairs.iter().enumerate() {
        if key.is_empty() {
            return Err(MetadataError::EmptyKey);
        }
        if key.len() > MAX_KEY {
            return Err(MetadataError::LongKey(key.len()));
        }
        if key.chars().any(|c| c.is_control() || c == '=') {
            return Err(MetadataError::BadKey(key.clone()));
        }
        if value.len() > MAX_VALUE {
            return Err(MetadataError::LongValue(key.clone(), value.len()));
        }
        if value.chars().any(char::is_control) {
            return Err(MetadataError::BadValue(key.clone()));
        }
        if pairs[..i].iter().any(|(before, _)| before == key) {
            return Err(MetadataError::Twice(key.clone()));
        }
    }
    Ok(())
}

/// The pairs of `MPI_CONNECT_METADATA`: `key=value`, with commas or semicolons between. Blanks around a pair are not part of it.
pub fn from_env() -> Result<Vec<(String, String)>, MetadataError> {
    match std::env::var(METADATA) {
        Ok(text) => parse(&text),
        Err(std::env::VarError::NotPresent) => Ok(Vec::new()),
        Err(std::env::VarError::NotUnicode(_)) => Err(MetadataError::NotUtf8),
    }
}

/// The pairs of a setting.
pub(crate) fn parse(text: &str) -> Result<Vec<(String, String)>, MetadataError> {
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    let pair = |part: &str| match part.trim().split_once('=') {
        Some((key, value)) => Ok((key.into(), value.into())),
        None => Err(MetadataError::NoValue(part.trim().into())),
    };
    let pairs = text.split(LIST).map(pair).collect::<Result<Vec<_>, _>>()?;
    check(&pairs).map(|()| pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_read() {
        let pairs = |text| parse(text).unwrap().into_iter().map(|(k, v)| format!("{k}:{v}")).collect::<Vec<_>>();
        assert_eq!(pairs("grid=t63, run=a=b ;empty="), ["grid:t63", "run:a=b", "empty:"]);
        assert!(pairs("").is_empty() && pairs("  ").is_empty());
    }

    #[test]
    fn what_is_wrong_is_said() {
        let long = |n| "x".repeat(n);
        let many = (0..33).map(|i| format!("k{i}=")).collect::<Vec<_>>().join(",");
        for (text, said) in [
            ("grid", "'grid' is not of the form key=value"),
            ("a=1,,b=2", "'' is not of the form"),
            ("=1", "a key is empty"),
            ("a\u{7}=1", "control character"),
            ("a=\u{1b}[2J", "the value of 'a' contains a control character"),
            ("a=1,a=2", "'a' is there twice"),
            (&format!("{}=1", long(256)), "256 bytes"),
            (&format!("a={}", long(1025)), "1025 bytes"),
            (&many, "33 pairs"),
        ] {
            let got = parse(text).unwrap_err().to_string();
            assert!(got.contains(said), "{text}: {got}");
        }
        assert!(parse(&format!("{}={}", long(255), long(1024))).is_ok());
        assert_eq!(check(&[("a=b".into(), "".into())]), Err(MetadataError::BadKey("a=b".into())));
    }
}
