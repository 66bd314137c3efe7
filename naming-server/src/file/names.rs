//! From names to file names. The file store alone calls this.
//!
//! Invariant: two names share a file name only by a collision of a 128-bit hash; no file name begins with a dot or
//! holds a slash, and none exceeds 255 bytes.

use crate::record::Kind;
use base::hash::fnv128;

/// One ending for each kind: their names are apart.
const JOB: &str = ".job";
const PORT: &str = ".port";
const TMP: &str = ".tmp-";
/// Encoded names may be so long; longer ones are cut and carry a hash.
const MAX_ENCODED: usize = 200;
const CUT: usize = 100;

/// The file that holds the record of `name`.
pub fn file_name(kind: Kind, name: &str) -> String {
    let mut out = String::new();
    for (i, b) in name.bytes().enumerate() {
        match b {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'-' => out.push(char::from(b)),
            b'.' if i > 0 => out.push('.'),
            _ => out.push_str(&format!("%{b:02X}")),
        }
    }
    if out.len() > MAX_ENCODED {
        // '~' is always encoded, so a cut name equals no whole one.
        out = format!("{}~{:032x}", &out[..CUT], fnv128(name.as_bytes()));
    }
    out + match kind {
        Kind::Job => JOB,
        Kind::Port => PORT,
    }
}

pub fn is_record(file: &str) -> bool {
    (file.ends_with(JOB) || file.ends_with(PORT)) && !file.starts_with('.')
}

/// A file name that nobody else uses.
pub fn temporary() -> String {
    format!("{TMP}{:032x}", u128::from_le_bytes(base::ident::random()))
}

pub fn is_temporary(file: &str) -> bool {
    file.starts_with(TMP)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file_name(name: &str) -> String {
        super::file_name(Kind::Job, name)
    }

    #[test]
    fn plain_names_stay_readable() {
        assert_eq!(file_name("ocean-v2.1_b"), "ocean-v2.1_b.job");
        assert_eq!(file_name("a b/c"), "a%20b%2Fc.job");
        assert_eq!(file_name("."), "%2E.job");
        assert_eq!(super::file_name(Kind::Port, "ocean"), "ocean.port");
        assert_eq!(file_name(".tmp-x"), "%2Etmp-x.job");
        assert_eq!(file_name("é~%"), "%C3%A9%7E%25.job");
    }

    #[test]
    fn long_names_are_cut_and_stay_apart() {
        let a = "é".repeat(127);
        let b = "é".repeat(126) + "è";
        assert!(file_name(&a).len() < 200);
        assert_ne!(file_name(&a), file_name(&b));
        assert_eq!(file_name(&a), file_name(&a));
        assert_eq!(file_name(&"x".repeat(200)).len(), 204);
        assert!(file_name(&"x".repeat(201)).contains('~'));
    }

    #[test]
    fn kinds_are_told_apart() {
        assert!(is_record(&super::file_name(Kind::Port, "x")));
        assert!(is_record(&file_name(".tmp-1")) && !is_temporary(&file_name(".tmp-1")));
        assert!(is_temporary(&temporary()) && !is_record(&temporary()));
    }
}
