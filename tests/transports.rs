//! What a transport is called is known to its folder and to the registry alone: nobody else has to be told of a new one.

#[path = "kit/rust.rs"]
mod rust;

use rust::strings;
use std::collections::{BTreeMap, BTreeSet};

const ROOMS: [&str; 5] = ["wire", "session", "transports", "node", "shim"];
const REGISTRY: &str = "transports/src/registry.rs";
/// Files that may name a transport, and why. `base` is none of the rooms: it lists what the environment may say, and the numbers
/// on the wire; nor is `naming-server`, which has servers of its own over TCP.
const MAY: [(&str, &str); 2] = [
    ("transports/src/lib.rs", "declares the folders"),
    ("shim/src/port/open.rs", "tells people how a port without an address is reached"),
];

/// One line of `transports!`, and what its folder says that it is called.
#[derive(Debug)]
struct Named {
    folder: String,
    /// Words of identifiers, in small letters.
    room: String,
    /// What strings may not say: the word of `MPI_CONNECT_LANES`, and the title for people.
    said: BTreeSet<String>,
}

/// The lines of `transports! { ... }`: `Kind(Lane), room;`
fn registered(all: &BTreeMap<String, String>) -> Vec<Named> {
    let text = &all[REGISTRY];
    let (_, block) = text.split_once("\ntransports! {").expect("the registry");
    let (block, _) = block.split_once("\n}").expect("its end");
    let lines = block.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("#["));
    let named = lines.map(|line| {
        let room = line.strip_suffix(';').and_then(|l| l.rsplit_once(", ")).expect("Kind(Lane), room;").1;
        let folder = format!("transports/src/{room}/");
        let about = all.iter().find_map(|(file, text)| {
            let (_, about) = text.split_once("pub const ABOUT: About =").filter(|_| file.starts_with(&folder))?;
            about.split_once("};").map(|(about, _)| strings(about))
        });
        Named { folder, room: room.to_owned(), said: about.expect("what it is called").into_iter().collect() }
    });
    named.collect()
}

/// The words of an identifier: `TcpLane`, `only_shm`, `SHM`.
fn words(identifier: &str) -> Vec<String> {
    let mut all = vec![String::new()];
    let mut was_small = false;
    for c in identifier.chars() {
        if c == '_' || c.is_uppercase() && was_small {
            all.push(String::new());
        }
        was_small = c.is_lowercase() || c.is_ascii_digit();
        if c != '_' {
            all.last_mut().expect("there is one").extend(c.to_lowercase());
        }
    }
    all
}

/// Identifiers and numbers, without what is said in strings.
fn identifiers(text: &str) -> BTreeSet<String> {
    let mut code = String::new();
    let (mut in_string, mut escaped) = (false, false);
    let bytes = text.as_bytes();
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if in_string => escaped = true,
            '"' if in_string || at == 0 || !matches!(bytes[at - 1], b'\'' | b'\\') => in_string = !in_string,
            _ if !in_string => code.push(c),
            _ => (),
        }
    }
    code.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|w| !w.is_empty()).map(str::to_owned).collect()
}

/// Whether a sentence has these words.
fn says(sentence: &str, words: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    sentence.match_indices(words).any(|(at, _)| {
        let (before, after) = (&sentence[..at], &sentence[at + words.len()..]);
        !before.ends_with(is_part) && !after.starts_with(is_part)
    })
}

/// What a source says of a transport that is not its own.
fn found(text: &str, named: &Named) -> Vec<String> {
    let code = identifiers(text).into_iter().filter(|i| words(i).contains(&named.room));
    let said = strings(text).into_iter().filter(|one| {
        let small = one.to_lowercase();
        named.said.iter().any(|word| says(&small, &word.to_lowercase()))
    });
    code.chain(said.map(|one| format!("\"{one}\""))).collect()
}

/// `TransportId(1)`: a number instead of the name.
fn numbers(text: &str) -> usize {
    text.match_indices("TransportId(")
        .filter(|(at, m)| text[at + m.len()..].starts_with(|c: char| c.is_ascii_digit()))
        .count()
}

#[test]
fn a_transport_is_named_in_its_folder_and_the_registry_alone() {
    let all = rust::sources(&ROOMS);
    let named = registered(&all);
    assert!(named.len() >= 3 && named.iter().any(|n| n.said.contains("shared memory")), "{named:?}");
    let mut wrong = Vec::new();
    let mut used = BTreeSet::new();
    for (file, text) in all.iter().filter(|(file, _)| *file != REGISTRY) {
        let of_others = || named.iter().filter(|n| !file.starts_with(&n.folder));
        let mut here: Vec<_> = of_others().flat_map(|n| found(text, n)).collect();
        if of_others().count() == named.len() && numbers(text) > 0 {
            here.push("TransportId of a number".to_owned());
        }
        match MAY.iter().find(|(may, _)| may == file) {
            Some((may, _)) if !here.is_empty() => drop(used.insert(*may)),
            _ => wrong.extend(here.into_iter().map(|what| format!("{file}: {what}"))),
        }
    }
    wrong
        .extend(MAY.iter().filter(|(may, _)| !used.contains(may)).map(|(may, _)| format!("{may} names none any more")));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn names_are_found_wherever_they_stand() {
    let said = ["shm", "shared memory"].map(str::to_owned).into();
    let shm = Named { folder: "transports/src/shm/".into(), room: "shm".into(), said };
    let bad = [
        "use crate::shm::Own;",
        "AnyLane::Shm(lane) => lane,",
        "let only_shm = 1;",
        "fn f(x: ShmLane) {}",
        "config.shm.fast = 2;",
        "const SHM: u8 = 1;",
        "let x = \"not 'shm', that is\";",
        "log(\"over shared memory, \\\"fast\\\"\");",
    ];
    for text in bad {
        assert_eq!(found(text, &shm).len(), 1, "{text}");
    }
    for text in ["let shmem = rush_me;", "f(\"the shmup\")", "let c = '\"'; let d = \"shmoo\";", "Shared::memory()"] {
        assert!(found(text, &shm).is_empty(), "{text}");
    }
    assert_eq!((numbers("TransportId(3)"), numbers("pub struct TransportId(pub u8); TransportId(n)")), (1, 0));
}
