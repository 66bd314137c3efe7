//! What a transport is called is known to its folder and to the registry alone: nobody else has to be told of a new one.

#[path = "kit/rust.rs"]
mod rust;

use rust::strings;
use std::collections::{BTreeMap, BTreeSet};

const ROOMS: [&str; 5] = ["wire", "session", "transports", "node", "shim"];
const REGISTRY: &str = "transports/src/registry.rs";
/// Files that may name a transport, and why. `base` is none of the rooms: it lists what the environment may say, and the numbers
/// on the wire; nor is `naming-server`, which has servers of its own over TCP.
const MAY: [(&str, &str); 5] = [
    ("transports/src/ip/listen.rs", "the system's own names for listeners, which several transports have"),
    ("transports/src/ip/socket.rs", "the system's own names for sockets and their options"),
    ("transports/src/lib.rs", "declares the folders"),
    ("shim/src/port/open.rs", "tells people how a port without an address is reached"),
    ("transports/src/fuzzing.rs", "the doors of each folder to its decoders, for fuzz targets and tests alone"),
];

/// Macros that compare.
const COMPARING: [&str; 5] = ["matches", "assert_eq", "assert_ne", "debug_assert_eq", "debug_assert_ne"];
/// Where `TransportId` is defined.
const DEFINED: &str = "wire/src/transport.rs";
/// Places that compare a first field, and why: the file, the code, and the reason. No other code may, or it could tell a
/// transport by its number. The number is private to `wire`; to make one is for the folders of transports alone.
const NUMBERS: [(&str, &str, &str); 7] = [
    ("transports/src/sim/datagram.rs", "key.0 <= self.clock.get()", "a moment"),
    ("node/src/node.rs", "now.0 == 0", "a moment"),
    ("node/src/state/pulls.rs", "pull.peer.0 as usize != pair", "a process"),
    ("node/src/memory.rs", "buf == NOW.0", "an operation"),
    ("shim/src/group/native.rs", "self.0 != abi.group_empty && self.0 != abi.group_null", "an MPI handle"),
    ("shim/src/entry/create.rs", "p.0 == color", "a color of MPI_Comm_split"),
    ("shim/src/datatype/constructors.rs", "length != last.0", "the length of a block"),
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

/// The words of an identifier, in small letters: `TcpLane`, `TCPLane`, `only_shm`, `SHM`, `tcp4`. A word begins at a capital
/// behind a small letter or before one, and where digits begin or end.
fn words(identifier: &str) -> Vec<String> {
    let all: Vec<char> = identifier.chars().collect();
    let mut found = vec![String::new()];
    for (at, &c) in all.iter().enumerate() {
        let before = at.checked_sub(1).map(|at| all[at]);
        let is_small = |c: Option<&char>| c.is_some_and(|c| c.is_lowercase());
        let is_capital = c.is_uppercase() && (is_small(before.as_ref()) || is_small(all.get(at + 1)));
        let at_digits = before.is_some_and(|b| b.is_ascii_digit() != c.is_ascii_digit());
        if c == '_' || is_capital || at_digits {
            found.push(String::new());
        }
        if c != '_' {
            found.last_mut().expect("there is one").extend(c.to_lowercase());
        }
    }
    found.retain(|word| !word.is_empty());
    found
}

/// Whether an identifier has the words of another, one after the other.
fn has_words(identifier: &str, of: &str) -> bool {
    let of = words(of);
    words(identifier).windows(of.len()).any(|some| some == of)
}

/// The code of a source without what is said in strings.
fn code(text: &str) -> String {
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
    code
}

/// Identifiers, numbers, and single signs.
fn tokens(code: &str) -> Vec<&str> {
    let (mut all, mut at) = (Vec::new(), 0);
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    while let Some(c) = code[at..].chars().next() {
        let rest = &code[at..];
        let length = if is_part(c) { rest.find(|c| !is_part(c)).unwrap_or(rest.len()) } else { c.len_utf8() };
        all.extend(Some(&rest[..length]).filter(|token| !token.trim().is_empty()));
        at += length;
    }
    all
}

/// Identifiers and numbers.
fn identifiers(text: &str) -> BTreeSet<String> {
    let code = code(text);
    tokens(&code)
        .into_iter()
        .filter(|t| t.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
        .map(str::to_owned)
        .collect()
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
    let code = identifiers(text).into_iter().filter(|i| has_words(i, &named.room));
    let said = strings(text).into_iter().filter(|one| {
        let small = one.to_lowercase();
        named.said.iter().any(|word| says(&small, &word.to_lowercase()))
    });
    code.chain(said.map(|one| format!("\"{one}\""))).collect()
}

/// Code that goes from a number to a `TransportId` or back, or that compares a first field: `TransportId(n)`, in a pattern too,
/// `TransportId::registered(n)`,
/// `map(TransportId)`, another name for it, `transport.0`, `id.0 == NEAR`, `match id.0 {`.
fn numbers(text: &str) -> Vec<String> {
    let code = code(text);
    let all = tokens(&code);
    let is =
        |at: Option<usize>, signs: &[&str]| at.and_then(|at| all.get(at)).is_some_and(|token| signs.contains(token));
    let mut found = Vec::new();
    for (at, &token) in all.iter().enumerate() {
        let before = |n: usize| at.checked_sub(n);
        let after = |n: usize| Some(at + n);
        if token == "TransportId" {
            let makes = is(after(1), &["(", "{"]) && !is(before(1), &[">"]);
            let is_function = is(before(1), &["("]) && is(after(1), &[")"]);
            // The path before it.
            let mut first = at;
            while first >= 3 && all[first - 1] == ":" && all[first - 2] == ":" {
                first -= 3;
            }
            let is_alias = is(after(1), &["as"]) || is(first.checked_sub(1), &["="]) && is(after(1), &[";"]);
            let registers = is(after(1), &[":"]) && is(after(2), &[":"]) && is(after(3), &["registered"]);
            if makes || registers || is_function || is_alias {
                found.push(shown(&all, at));
            }
        } else if token == "0" && is(before(1), &["."]) {
            let is_transport = is(before(2), &["transport"]) || is(before(2), &["id"]) && is(before(4), &["about"]);
            // Behind the conversion of the number and its parentheses.
            let mut next = at + 1;
            while is(Some(next), &[")"]) || is(Some(next), &["as"]) {
                next += if all[next] == "as" { 2 } else { 1 };
            }
            let sign =
                |one: usize, two: usize| match [all.get(one), all.get(two)].map(|t| t.copied().unwrap_or_default()) {
                    ["=" | "!", "="] => true,
                    ["<", other] => other != "<",
                    [">", other] => other != ">",
                    _ => false,
                };
            let compared =
                sign(next, next + 1) || is(Some(at + 1), &["."]) && is(after(2), &["eq", "ne", "cmp", "partial_cmp"]);
            // Where the expression begins: behind the parenthesis of a call, but before one of its own.
            let mut first = at;
            while let Some(last) = first.checked_sub(1) {
                let own = all[last] == "(" && !last.checked_sub(1).is_some_and(|name| is_operand(all[name]));
                if !own && !matches!(all[last], "." | "&" | "*") && !is_operand(all[last]) {
                    break;
                }
                first = last;
            }
            let [opens, before_it] = [1, 2].map(|n| first.checked_sub(n));
            let is_second = is(opens, &["="]) && is(before_it, &["=", "!", "<", ">"]);
            let in_macro = is(opens, &["!"]) && is(before_it, &COMPARING);
            let in_call = is(opens, &["("]) && is(before_it, &["contains", "eq", "ne"]);
            let leads_on = is(after(1), &["."]);
            let is_with = is_second || in_macro || in_call || is(opens, &["match"]);
            if is_transport || compared || is_with && !leads_on {
                found.push(shown(&all, at));
            }
        }
    }
    found
}

/// A name, and no word of the language.
fn is_operand(token: &str) -> bool {
    let is_name = token.starts_with(|c: char| c.is_alphanumeric() || c == '_');
    is_name && !["match", "if", "while", "return", "let", "in", "as"].contains(&token)
}

/// The code around a token.
fn shown(all: &[&str], at: usize) -> String {
    all[at.saturating_sub(4)..all.len().min(at + 5)].join(" ")
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
        let here: Vec<_> = of_others().flat_map(|n| found(text, n)).collect();
        if of_others().count() == named.len() && file != DEFINED {
            let mut text = text.clone();
            for (_, code, _) in NUMBERS.iter().filter(|(may, ..)| may == file) {
                if !text.contains(code) {
                    wrong.push(format!("{file} has no {code} any more"));
                }
                text = text.replacen(code, "", 1);
            }
            wrong.extend(numbers(&text).into_iter().map(|what| format!("{file}: a transport by its number: {what}")));
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
        "fn f(x: SHMLane) {}",
        "fn f(x: MySHMLane) {}",
        "let shm0 = 1;",
        "let x = SHM2;",
        "let x = is2shm;",
        "let x = \"not 'shm', that is\";",
        "log(\"over shared memory, \\\"fast\\\"\");",
    ];
    for text in bad {
        assert_eq!(found(text, &shm).len(), 1, "{text}");
    }
    for text in ["let shmem = rush_me;", "f(\"the shmup\")", "let c = '\"'; let d = \"shmoo\";", "Shared::memory()"] {
        assert!(found(text, &shm).is_empty(), "{text}");
    }
    let two = Named { folder: "transports/src/new_shm/".into(), room: "new_shm".into(), said: BTreeSet::new() };
    assert_eq!(found("NewShmLane { a: NewLane, shm }", &two), ["NewShmLane"]);
}

#[test]
fn a_transport_is_told_by_its_number_nowhere() {
    let bad = [
        "f(TransportId(3))",
        "f(TransportId(NEAR))",
        "f(wire::TransportId(n + 1))",
        "f(TransportId::registered(2))",
        "numbers.map(wire::TransportId::registered)",
        "let TransportId(n) = id;",
        "match id { TransportId(1) => 2, _ => 3 }",
        "let x = TransportId { 0: 1 };",
        "numbers.map(TransportId)",
        "use wire::TransportId as Number;",
        "type Number = wire::TransportId;",
        "if id.0 == 1 {}",
        "if id.0 != NEAR {}",
        "if id.0 < 3 {}",
        "if id.0 >= 3 {}",
        "if (place.id.0 as usize) == 1 {}",
        "if 1 == id.0 {}",
        "if NEAR != (place.id.0) {}",
        "if 3 <= place.id.0 {}",
        "match place.id.0 { 1 => 2, _ => 3 }",
        "if matches!(id.0, 1 | 2) {}",
        "assert_eq!(id.0, 1);",
        "if id.0.eq(&1) {}",
        "if [1, 2].contains(&id.0) {}",
        "let n = place.transport.0;",
        "let n = about.id.0;",
    ];
    for text in bad {
        assert_eq!(numbers(text).len(), 1, "{text}");
    }
    let good = [
        "fn f(id: TransportId) -> TransportId { id }",
        "fn f(&self) -> Option<wire::TransportId> { None }",
        "type Reached = ([u8; 16], TransportId, Box<[u8]>);",
        "if place.transport == other.transport {}",
        "let x = \"id.0 == 1\";",
        "f(peer.0 as usize, self.0 << 3, self.0 >> 3)",
        "let x = pair.0; let y = 1;",
        "if x >= self.0.len() || known.contains(all.get(op.0)) {}",
        "match (known.get(&op.0), self.0.get(n)) { _ => 1 }",
        "if 1.0 * x == y {}",
    ];
    for text in good {
        assert_eq!(numbers(text), [""; 0], "{text}");
    }
}
