//! The file names of records. The file store alone calls this.
//!
//! Invariant: two names share a file name only by a collision of a 128-bit hash; no file name begins with a dot or
//! holds a slash, and none exceeds 255 bytes.

use crate::record::{Key, Kind};
use base::hash::fnv128;

// Each kind has an ending of its own, so that names of different kinds are apart.
const JOB: &str = ".job";
const PORT: &str = ".port";
const COUPLING: &str = ".coupling";
const TMP: &str = ".tmp-";
/// The most bytes of an encoded name. Longer ones are cut to [`CUT`] bytes and get a hash.
const MAX_ENCODED: usize = 200;
const CUT: usize = 100;

/// The name of the file that holds the record with this key: the encoded name; behind the run and '@', if there is a run.
pub(crate) fn file_name(key: &Key) -> String {
    let mut out = String::new();
    let whole = if key.run.is_empty() { key.name.clone() } else { format!("{}@{}", key.run, key.name) };
    // An '@' in a run or a name is encoded, so a plain one is only between the two.
    let at = key.run.len();
    for (i, b) in whole.bytes().enumerate() {
        match b {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'-' => out.push(char::from(b)),
            b'.' if i > 0 => out.push('.'),
            b'@' if i == at && at > 0 => out.push('@'),
            _ => out.push_str(&format!("%{b:02X}")),
        }
    }
    if out.len() > MAX_ENCODED {
        // '~' is always encoded, so a cut name equals no whole one. The hash is of the encoded text, which tells run and name
        // apart.
        out = format!("{}~{:032x}", &out[..CUT], fnv128(out.as_bytes()));
    }
    match key.kind {
        Kind::Job => out + JOB,
        Kind::Port => out + PORT,
        Kind::Coupling => format!("{out}.{:016x}{COUPLING}", key.id),
    }
}

pub(crate) fn is_record(file: &str) -> bool {
    (file.ends_with(JOB) || file.ends_with(PORT) || is_coupling(file)) && !file.starts_with('.')
}

pub(super) fn is_coupling(file: &str) -> bool {
    file.ends_with(COUPLING)
}

/// The key in a record's file name. If the name was cut, the key holds the part that is left.
pub(crate) fn key(file: &str) -> Key {
    let (text, kind, id) = match (file.strip_suffix(JOB), file.strip_suffix(PORT), file.strip_suffix(COUPLING)) {
        (Some(text), ..) => (text, Kind::Job, 0),
        (_, Some(text), _) => (text, Kind::Port, 0),
        (.., text) => {
            let text = text.unwrap_or(file);
            let (text, id) = text.rsplit_once('.').unwrap_or((text, "0"));
            (text, Kind::Coupling, u64::from_str_radix(id, 16).unwrap_or(0))
        }
    };
    let (run, name) = text.split_once('@').unwrap_or(("", text));
    Key { id, ..Key::of(&decoded(run), kind, &decoded(name)) }
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, more @ ..] = rest {
        rest = more;
        let code = (*first == b'%').then(|| std::str::from_utf8(more.get(..2)?).ok()).flatten();
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &more[2..];
            }
            None => bytes.push(*first),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A file name that no other process uses.
pub(super) fn temporary() -> String {
    format!("{TMP}{:032x}", u128::from_le_bytes(base::ident::random()))
}

pub(super) fn is_temporary(file: &str) -> bool {
    file.starts_with(TMP)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(run: &str, name: &str, kind: Kind) -> Key {
        Key::of(run, kind, name)
    }

    fn file_name(name: &str) -> String {
        super::file_name(&key("", name, Kind::Job))
    }

    #[test]
    fn keys_are_read_from_file_names() {
        for key in [
            key("", "ocean", Kind::Job),
            key("case7", "a@b/c é", Kind::Port),
            Key { id: 0xabc, ..key("a.b", "ocean.job", Kind::Coupling) },
        ] {
            assert_eq!(super::key(&super::file_name(&key)), key);
        }
        assert_eq!(super::key("%zz%4.job"), key("", "%zz%4", Kind::Job));
    }

    #[test]
    fn runs_are_apart() {
        let file_name = |run: &str, name: &str| super::file_name(&key(run, name, Kind::Job));
        assert_eq!(file_name("case7", "ocean"), "case7@ocean.job");
        assert_eq!(file_name("a@b", "c@d"), "a%40b@c%40d.job");
        assert_eq!(file_name("", "a@b"), "a%40b.job");
        assert_eq!(file_name(".x", "y"), "%2Ex@y.job");
        let long = "x".repeat(150);
        assert_ne!(file_name(&long, &(long.clone() + "y")), file_name(&(long.clone() + "y"), &long));
        assert!(file_name(&long, &long).len() < 200);
        // The text that is hashed for one key is that of no other.
        let name = "y".repeat(50);
        assert_ne!(file_name(&long, &name), file_name("", &format!("{long}@{name}")));
    }

    #[test]
    fn plain_names_stay_readable() {
        assert_eq!(file_name("ocean-v2.1_b"), "ocean-v2.1_b.job");
        assert_eq!(file_name("a b/c"), "a%20b%2Fc.job");
        assert_eq!(file_name("."), "%2E.job");
        assert_eq!(super::file_name(&key("", "ocean", Kind::Port)), "ocean.port");
        let coupling = Key { id: 0xabc, ..key("case7", "ocean", Kind::Coupling) };
        assert_eq!(super::file_name(&coupling), "case7@ocean.0000000000000abc.coupling");
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
        assert!(is_record(&super::file_name(&key("", "x", Kind::Port))));
        assert!(is_record(&file_name(".tmp-1")) && !is_temporary(&file_name(".tmp-1")));
        assert!(is_temporary(&temporary()) && !is_record(&temporary()));
    }
}
