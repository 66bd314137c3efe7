//! What pages promise of the sources: why nothing panics (scripts/panics.txt), which limits there are (docs/limits.md),
//! which messages come (docs/troubleshooting.md). One that says something else than the sources fails here.

#[path = "kit/rust.rs"]
mod rust;

use base::protocol::Table;
use rust::{strings, walk};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

const ROOMS: [&str; 15] = [
    "base",
    "trust",
    "engine",
    "checkpoint",
    "wire",
    "session",
    "transports",
    "files",
    "node",
    "naming-server",
    "relay",
    "store",
    "etcd",
    "shim",
    "src",
];

fn sources() -> BTreeMap<String, String> {
    rust::sources(&ROOMS)
}

/// What may end the program, with all it says: `expect("known")`.
fn panics(text: &str) -> Vec<String> {
    let words = [".unwrap()", ".unwrap_err()", ".expect(", ".expect_err(", "panic!(", "unreachable!(", "todo!("];
    let asserts = ["assert!(", "assert_eq!(", "assert_ne!(", "unimplemented!("];
    let mut found = Vec::new();
    for word in words.iter().chain(&asserts) {
        for (at, _) in text.match_indices(word) {
            let is_part = text[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
            if is_part && !word.starts_with('.') {
                // debug_assert!, const_panic!
                continue;
            }
            let open = at + word.find('(').expect("a parenthesis");
            let said = text[at..close(text, open)].split_whitespace().collect::<Vec<_>>().join(" ");
            found.push(said.trim_start_matches('.').to_owned());
        }
    }
    found
}

/// Behind the parenthesis that closes this one.
fn close(text: &str, open: usize) -> usize {
    let (mut depth, mut in_string, mut escaped) = (0, false, false);
    for (at, b) in text.bytes().enumerate().skip(open) {
        match b {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'(' if !in_string => depth += 1,
            b')' if !in_string => {
                depth -= 1;
                if depth == 0 {
                    return at + 1;
                }
            }
            _ => (),
        }
    }
    text.len()
}

#[test]
fn every_panic_has_a_reason() {
    let found: Vec<(String, String)> =
        sources().iter().flat_map(|(file, text)| panics(text).into_iter().map(|p| (file.clone(), p))).collect();
    let table = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/panics.txt")).expect("the table");
    let mut listed = Vec::new();
    for line in table.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let parts: Vec<&str> = line.split(" | ").map(str::trim).collect();
        let [file, said, why] = parts[..] else { panic!("not of three parts: {line}") };
        assert!(why.split(' ').count() >= 4, "a reason is a sentence: {line}");
        listed.push((file.to_owned(), said.to_owned()));
    }
    let mut wrong = Vec::new();
    let mut left = listed;
    for one in found {
        match left.iter().position(|l| *l == one) {
            Some(at) => drop(left.swap_remove(at)),
            None => wrong.push(format!("no reason in scripts/panics.txt: {} | {} |", one.0, one.1)),
        }
    }
    wrong.extend(left.iter().map(|l| format!("in scripts/panics.txt, but not in the sources: {} | {}", l.0, l.1)));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The constants that are limits: (file, name) and what they are set to.
fn limits() -> BTreeMap<(String, String), String> {
    let mut found = BTreeMap::new();
    for (file, text) in sources() {
        for line in text.lines().map(str::trim) {
            let visible = ["pub ", "pub(crate) ", "pub(super) "].iter().find_map(|word| line.strip_prefix(word));
            let line = visible.unwrap_or(line);
            let parts = line.strip_prefix("const ").and_then(|l| l.strip_suffix(';')).and_then(|l| l.split_once(" = "));
            let Some((name, value)) = parts.and_then(|(name, value)| Some((name.split_once(':')?.0, value))) else {
                continue;
            };
            found.insert((file.clone(), name.to_owned()), value.to_owned());
        }
    }
    found
}

/// `a << b`, `a * b`, `a + b`, numbers, names of constants of the same file, and what a layout of the protocol takes.
fn value(all: &BTreeMap<(String, String), String>, file: &str, text: &str) -> Option<u64> {
    let text = text.trim();
    type Operation = fn(u64, u64) -> u64;
    let operations: [(&str, Operation); 3] = [(" << ", |a, b| a << b), (" + ", |a, b| a + b), (" * ", |a, b| a * b)];
    for (sign, operation) in operations {
        if let Some((a, b)) = text.rsplit_once(sign) {
            return Some(operation(value(all, file, a)?, value(all, file, b)?));
        }
    }
    if let Some(seconds) = text.strip_prefix("Duration::from_secs(") {
        return seconds.strip_suffix(')')?.parse().ok();
    }
    if let Some(layout) = text.strip_suffix("::BYTES") {
        let named = |(name, _): &&(&str, Table)| name.rsplit("::").next() == Some(layout);
        return base::protocol::TABLES.iter().find(named)?.1.rows.last()?[0].parse().ok();
    }
    match all.get(&(file.to_owned(), text.to_owned())) {
        Some(named) => value(all, file, named),
        None => text.replace('_', "").parse().ok().or_else(|| {
            // Of another file, where only one has that name.
            let mut same = all.iter().filter(|((_, name), _)| name == text);
            let ((file, _), named) = same.next().filter(|_| same.next().is_none())?;
            value(all, file, named)
        }),
    }
}

/// `1,024`, `64 KiB`, `10 s`.
fn documented(text: &str) -> Option<u64> {
    let (number, unit) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
    let number: u64 = number.replace(',', "").parse().ok()?;
    Some(match unit {
        "" | "s" => number,
        "KiB" => number << 10,
        "MiB" => number << 20,
        _ => return None,
    })
}

#[test]
fn the_table_of_limits_is_true() {
    let all = limits();
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/limits.md")).expect("the page");
    let mut listed = Vec::new();
    let mut wrong = Vec::new();
    for line in page.lines().filter(|line| line.starts_with("| `")) {
        let parts: Vec<&str> = line.split('|').map(|part| part.trim().trim_matches('`')).collect();
        let [_, name, file, said, why, _] = parts[..] else { panic!("not of four columns: {line}") };
        assert!(why.split(' ').count() >= 4, "a reason is a sentence: {line}");
        let key = (file.to_owned(), name.to_owned());
        let is = all.get(&key).and_then(|text| value(&all, file, text));
        if is.is_none() || is != documented(said) {
            wrong.push(format!("{file}: {name} is {is:?}, not {said}"));
        }
        listed.push(key);
    }
    let is_limit = |name: &str| ["MAX_", "MOST_"].iter().any(|p| name.starts_with(p));
    let unlisted = all.keys().filter(|key| is_limit(&key.1) && !listed.contains(key));
    wrong.extend(unlisted.map(|(file, name)| format!("not in docs/limits.md: {file}: {name}")));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// By what families of MPIs are known is said in one place.
#[test]
fn families_are_in_one_file() {
    const TABLE: &str = "base/src/families.rs";
    let mut all = sources();
    let mut api = Vec::new();
    walk(&Path::new(env!("CARGO_MANIFEST_DIR")).join("shim/api"), &mut api);
    all.extend(api.iter().map(|file| (file.display().to_string(), fs::read_to_string(file).expect("a source"))));
    let words = strings(&all.remove(TABLE).expect("the table"));
    assert!(
        ["LAM", "libmpi.so", "ompi_mpi_comm_world"].iter().all(|word| words.iter().any(|w| w == word)),
        "{words:?}"
    );
    // Names are words of sentences too; those of files and variables are not.
    let repeats =
        |said: &String| words.iter().any(|word| said == word || word.contains(['.', '_']) && said.contains(word));
    let found = all.iter().flat_map(|(file, text)| strings(text).into_iter().map(move |said| (file, said)));
    let wrong: Vec<_> = found.filter(|(_, said)| repeats(said)).collect();
    assert!(wrong.is_empty(), "of families of MPIs only {TABLE} knows: {wrong:?}");
}

/// What a format string says between its placeholders.
fn pieces(format: &str) -> Vec<String> {
    let mut rest = format;
    let mut all = Vec::new();
    while let Some((before, after)) = rest.split_once('{') {
        all.push(before.to_owned());
        rest = after.split_once('}').map_or("", |(_, rest)| rest);
    }
    all.push(rest.to_owned());
    all
}

/// All that the code can say.
struct Speech {
    templates: std::rc::Rc<[Vec<String>]>,
    known: std::collections::HashMap<String, bool>,
}

impl Speech {
    fn new(texts: impl IntoIterator<Item = String>) -> Speech {
        let all = texts.into_iter().flat_map(|text| strings(&text)).map(|format| pieces(&format));
        // What is mostly placeholders would match anything.
        let words = |template: &Vec<String>| template.concat().chars().filter(|c| c.is_alphabetic()).count() >= 6;
        Speech { templates: all.filter(words).collect(), known: Default::default() }
    }

    /// Whether the whole text is of one template, what stands for a placeholder being so too, or a value.
    fn says(&mut self, text: &str) -> bool {
        if let Some(known) = self.known.get(text) {
            return *known;
        }
        // While it is being looked at, it is no part of itself.
        self.known.insert(text.to_owned(), false);
        let found = self.templates.clone().iter().any(|template| {
            template.iter().all(|piece| text.contains(piece.as_str()))
                && text.strip_prefix(template[0].as_str()).is_some_and(|rest| self.fills(rest, &template[1..]))
        });
        // What was tried, and where.
        let tried = |t: &Vec<String>| {
            t.len() == 1 && text.strip_prefix(&t[0]).is_some_and(|at| at.starts_with(" /") && self.is_value(at.trim()))
        };
        let found = found || self.templates.iter().any(tried) || self.in_parts(text);
        self.known.insert(text.to_owned(), found);
        found
    }

    /// Several, one after the other: a call and its fault, a fault and its mend.
    fn in_parts(&mut self, text: &str) -> bool {
        [": ", "; ", ", ", " ("].iter().any(|sign| {
            text.match_indices(sign).any(|(at, _)| {
                // Some begin with the sign.
                let (one, other, with_sign) = (&text[..at], &text[at + sign.len()..], &text[at..]);
                (self.is_part(one) && self.says(with_sign))
                    || (self.is_value(one) && self.says(other))
                    || (self.says(one) && self.is_part(other))
            })
        })
    }

    /// The text behind a placeholder's beginning: a part for it, the next piece, and so on to the end.
    fn fills(&mut self, text: &str, pieces: &[String]) -> bool {
        let Some((piece, rest)) = pieces.split_first() else { return text.is_empty() };
        if rest.is_empty() {
            return text.strip_suffix(piece.as_str()).is_some_and(|part| self.is_part(part));
        }
        let places: Vec<usize> = if piece.is_empty() {
            text.char_indices().map(|(at, _)| at).collect()
        } else {
            text.match_indices(piece.as_str()).map(|(at, _)| at).collect()
        };
        places.iter().any(|at| self.fills(&text[at + piece.len()..], rest) && self.is_part(&text[..*at]))
    }

    fn is_part(&mut self, text: &str) -> bool {
        text.split(", ").all(|one| self.is_value(one)) || self.says(text)
    }

    /// A name, a number, a place, an error of the system's: nothing that the sources word.
    fn is_value(&self, text: &str) -> bool {
        let of_system = text
            .strip_suffix(')')
            .and_then(|text| text.rsplit_once(" (os error "))
            .is_some_and(|(e, number)| e.split(' ').count() < 5 && number.bytes().all(|b| b.is_ascii_digit()));
        of_system || text.contains(" x ") || text.split(' ').count() <= 2
    }
}

/// A page's messages: each an indented block.
fn quoted(page: &str) -> Vec<String> {
    let mut all: Vec<String> = vec![String::new()];
    for line in page.lines() {
        match line.strip_prefix("    ") {
            Some(said) => {
                let one = all.last_mut().expect("there is one");
                if !one.is_empty() {
                    one.push(' ');
                }
                one.push_str(said);
            }
            None => all.push(String::new()),
        }
    }
    all.retain(|one| !one.is_empty());
    all
}

/// A message in the page about what goes wrong is one that the code can say.
#[test]
fn every_quoted_message_can_be_said() {
    let mut speech = Speech::new(sources().into_values());
    for never in ["the name 'air' is held by a dead job, and nothing can be done about it", "a b c d e f"] {
        assert!(!speech.says(never), "{never}");
    }
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/troubleshooting.md")).expect("the page");
    let all = quoted(&page);
    assert!(all.len() >= 25, "{all:#?}");
    let wrong: Vec<_> = all.iter().filter(|text| !speech.says(text)).collect();
    assert!(wrong.is_empty(), "the code says nothing like: {wrong:#?}");
    // Words that differ are found.
    let changed: Vec<_> = all.iter().map(|text| text.replace(" not ", " scarcely ").replace(" is ", " was ")).collect();
    let passed: Vec<_> = all.iter().zip(&changed).filter(|(one, other)| one != other && speech.says(other)).collect();
    assert!(passed.is_empty(), "changed, and yet said: {passed:#?}");
}
