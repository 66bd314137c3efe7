//! Which types have methods in files that do not define them.
//!
//! Methods of one type may call each other from file to file, and no import shows it, so [`crate::imports`] sees no circle
//! there. So that this stays the exception, these types are listed, here and in docs/design.md.

use crate::source::Crate;
use crate::words::{Word, after_bracket, without_tests, words};
use crate::{Member, read};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

/// The room, and the type.
const SPREAD: &[(&str, &str)] = &[
    ("engine", "Engine"),
    ("engine", "Pulling"),
    ("node", "Core"),
    ("node", "Signature"),
    ("session", "Session"),
    ("shim", "Abi"),
    ("shim", "Const"),
    ("shim", "Element"),
    ("shim", "Mixed"),
    ("transports", "Inner"),
    ("transports", "Messages"),
    ("transports", "Switch"),
];

/// The types that a source defines, and those that it gives methods of their own, not of a trait.
fn of_source(words: &[Word]) -> (BTreeSet<String>, BTreeSet<String>) {
    let text = |at: usize| words.get(at).map_or("", |word| word.text.as_str());
    let (mut defined, mut given) = (BTreeSet::new(), BTreeSet::new());
    for at in 0..words.len() {
        let before = at.checked_sub(1).map_or("", text);
        match text(at) {
            "struct" | "enum" | "union" | "trait" if words.get(at + 1).is_some_and(Word::is_name) => {
                defined.insert(text(at + 1).to_owned());
            }
            // Not the type of an argument or of a result.
            "impl" if matches!(before, "" | ";" | "}" | "]" | "{" | "unsafe") => {
                let head = words[at + 1..].iter().position(|w| w.text == "{").map_or(words.len(), |n| at + 1 + n);
                let mut first = at + 1;
                if text(first) == "<" {
                    first = behind_angles(words, first);
                }
                let end = (first..head).find(|at| text(*at) == "where").unwrap_or(head);
                if words[first..end].iter().any(|w| w.text == "for") {
                    continue;
                }
                // The last name of the path; its parameters are left out.
                let path = words[first..end].iter().take_while(|w| w.is_name() || w.text == "::");
                given.extend(path.last().filter(|w| w.is_name()).map(|w| w.text.clone()));
            }
            _ => (),
        }
    }
    (defined, given)
}

/// Behind the `>` that closes the `<` here.
fn behind_angles(words: &[Word], open: usize) -> usize {
    let (mut depth, mut at) = (0, open);
    while at < words.len() {
        match words[at].text.as_str() {
            "<" => depth += 1,
            ">" if words[at - 1].text != "-" => depth -= 1,
            "(" | "[" | "{" => {
                at = after_bracket(words, at);
                continue;
            }
            _ => (),
        }
        at += 1;
        if depth == 0 {
            break;
        }
    }
    at
}

/// The types of a crate that have methods in files that do not define them, and how many such files.
fn spread(texts: &BTreeMap<PathBuf, String>) -> BTreeMap<String, usize> {
    let mut all = BTreeMap::new();
    for text in texts.values() {
        let (defined, given) = of_source(&without_tests(&words(text)));
        given.difference(&defined).for_each(|name| *all.entry(name.clone()).or_default() += 1);
    }
    all
}

#[test]
fn types_with_methods_in_several_files_are_listed() {
    let mut found = BTreeSet::new();
    for room in Member::all() {
        let files = room.crates().into_iter().flat_map(|code: Crate| code.files).map(|file| file.path);
        let texts = files.map(|file| (file.clone(), fs::read_to_string(&file).expect("a source"))).collect();
        found.extend(spread(&texts).into_iter().map(|(name, files)| {
            println!("{}: {name} has methods in {files} files besides its own", room.name);
            (room.name.clone(), name)
        }));
    }
    let listed: BTreeSet<_> = SPREAD.iter().map(|(room, name)| (room.to_string(), name.to_string())).collect();
    assert_eq!(found, listed);
    let page = read("docs/design.md");
    let said =
        page.split("\n\n").find(|part| part.contains("`tests/layers/methods.rs`")).expect("what is said of them");
    for (room, name) in SPREAD {
        assert!(
            said.contains(&format!("`{name}`")),
            "docs/design.md does not say that {name} of {room} is such a type"
        );
    }
}

#[test]
fn methods_in_other_files_are_found() {
    let files = |other: &str| {
        let own = "pub struct One<T>(T);\nimpl<T> One<T> {\n    fn f(&self) { self.g() }\n}\n";
        [("one.rs", own), ("other.rs", other)].map(|(file, text)| (PathBuf::from(file), text.to_owned())).into()
    };
    let bad = [
        "impl<T> One<T> { fn g(&self) { self.f() } }",
        "impl<T: Fn() -> u8> crate::one::One<T> { fn g(&self) {} }",
        "use crate::one::One;\n#[allow(unused)]\nimpl One<u8> where u8: for<'a> Into<u16> { fn g(&self) {} }",
    ];
    for other in bad {
        assert_eq!(spread(&files(other)), [("One".to_owned(), 1)].into(), "{other}");
    }
    let good = [
        "impl<T> Drop for One<T> { fn drop(&mut self) {} }",
        "fn f(x: impl Fn(One<u8>)) -> impl Fn() { || () }",
        "pub struct Two;\nimpl Two { fn g(&self) {} }",
        "#[cfg(test)]\nimpl One<u8> { fn g(&self) {} }",
    ];
    for other in good {
        assert_eq!(spread(&files(other)), BTreeMap::new(), "{other}");
    }
}
