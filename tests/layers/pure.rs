//! The engine, the wire and the session touch no socket, file, thread, process or clock.
//!
//! Three things together show it. Their sources, those of tests too, name of `std` and of `base` only what stands here,
//! and `std::net` is not even named for its address types: a place is bytes. They call nothing foreign, since `unsafe`
//! and `extern` are not named either. They are built with no other crates than those listed here, so no crate can do it
//! for them.
//!
//! Two exceptions are known. `base::log!` writes to stderr, and `base::log_seldom!` asks a clock when it has written last;
//! neither changes the state of the room. And `HashMap` takes the keys of its hashes from the system; only the order of
//! its iteration depends on them.

use crate::source::Crate;
use crate::words::{Word, words};
use crate::{Member, read, root, short};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The rooms, and all crates that their code may be built with.
const ROOMS: [(&str, &[&str]); 3] = [
    ("engine", &["mpi-connect-base", "serde"]),
    ("wire", &["mpi-connect-base", "serde"]),
    ("session", &["crc32fast", "mpi-connect-base", "mpi-connect-engine", "mpi-connect-wire", "postcard", "serde"]),
];

/// What may be named of these two, with all below it. What is not here may not be named: among it are `std::net`,
/// `std::thread`, `std::fs`, `std::os`, `std::process`, `std::env`, `std::time::Instant`, `std::time::SystemTime`, and of
/// `base` the settings, the file, and the numbers that the system draws.
const NAMED: [&str; 35] = [
    "std::borrow",
    "std::cmp",
    "std::collections",
    "std::fmt",
    // Of `std::hash`, what is given its keys.
    "std::hash::BuildHasherDefault",
    "std::hash::Hasher",
    "std::iter",
    "std::mem",
    "std::ops",
    "std::slice",
    "std::str",
    "std::sync::Arc",
    "std::time::Duration",
    // Of `std::io`, the words for what others have done.
    "std::io::Error",
    "std::io::ErrorKind",
    "std::io::IoSlice",
    "std::io::IoSliceMut",
    "std::io::Result",
    "io::Error",
    "io::ErrorKind",
    "io::IoSlice",
    "io::IoSliceMut",
    "io::Result",
    "base::BufId",
    "base::Memory",
    "base::ProcId",
    "base::Time",
    "base::bytes",
    "base::log",
    "base::log_seldom",
    "base::memory",
    "base::protocol",
    "base::queue",
    "base::Sorted",
    "base::tight",
];

/// Of these only what [`NAMED`] has may be named. `io` is `std::io`, which may be brought into scope by that name alone.
const ROOTS: [&str; 5] = ["std", "core", "alloc", "base", "io"];

/// Of the log, a room has its macros, and how a list is written.
const OF_THE_LOG: [&str; 2] = ["base::log", "base::log::list"];

/// Never named, wherever they come from.
const NEVER: [&str; 19] = [
    "Instant",
    "RandomState",
    "SystemTime",
    "asm",
    "extern",
    // Numbers of the system's errors: the last one is the system's state, and what one means is the system's to say.
    "from_raw_os_error",
    "global_asm",
    "include",
    // A file, or the environment, of the build.
    "include_bytes",
    "include_str",
    "last_os_error",
    "libc",
    "nix",
    "option_env",
    "raw_os_error",
    "stderr",
    "stdin",
    "stdout",
    "unsafe",
];

/// Called by tests at most.
const PRINTS: [&str; 5] = ["dbg", "eprint", "eprintln", "print", "println"];

/// A path as it is written, or the paths of a tree in braces. Returns where it ends.
fn paths(words: &[Word], mut at: usize, mut path: Vec<String>, found: &mut Vec<String>) -> usize {
    let text = |at: usize| words.get(at).map_or("", |word| word.text.as_str());
    loop {
        match text(at) {
            "{" => {
                at += 1;
                while !matches!(text(at), "}" | "") {
                    at = paths(words, at, path.clone(), found);
                    at += usize::from(text(at) == ",");
                }
                return at + 1;
            }
            "self" if !path.is_empty() => (),
            name => path.push(name.to_owned()),
        }
        at += 1;
        let leads_on = words.get(at + 1).is_some_and(|next| next.is_name() || matches!(next.text.as_str(), "{" | "*"));
        if text(at) != "::" || !leads_on {
            break;
        }
        at += 1;
    }
    // Another name would hide what it is.
    if text(at) == "as" && path.len() <= 2 {
        path.push("as".to_owned());
    }
    found.push(path.join("::"));
    if text(at) == "as" { at + 2 } else { at }
}

fn may_be_named(path: &str) -> bool {
    if path == "std::io" {
        return true;
    }
    if path == "base::log" || path.starts_with("base::log::") {
        return OF_THE_LOG.contains(&path);
    }
    NAMED.iter().any(|named| path == *named || path.strip_prefix(named).is_some_and(|rest| rest.starts_with("::")))
}

/// What a source names and may not: the line, and the name.
fn forbidden(text: &str) -> Vec<(usize, String)> {
    let words = words(text);
    let (mut all, mut end) = (Vec::new(), 0);
    for (at, word) in words.iter().enumerate() {
        let before = at.checked_sub(1).map_or("", |at| words[at].text.as_str());
        let after = words.get(at + 1).map_or("", |word| word.text.as_str());
        if NEVER.contains(&word.text.as_str()) {
            all.push((word.line, word.text.clone()));
        }
        if word.text == "env" && after == "!" {
            all.push((word.line, "env!".to_owned()));
        }
        // A source elsewhere would not be looked at.
        if word.text == "path" && before == "[" && after == "=" {
            all.push((word.line, "#[path]".to_owned()));
        }
        let leads_on = matches!(after, "::" | "as") || before == "use";
        let is_root = ROOTS.contains(&word.text.as_str()) && before != "." && leads_on;
        if is_root && at >= end {
            let mut found = Vec::new();
            end = paths(&words, at, Vec::new(), &mut found);
            all.extend(found.into_iter().filter(|path| !may_be_named(path)).map(|path| (word.line, path)));
        }
    }
    all
}

/// All sources below a folder, whoever declares them.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display())) {
        let path = entry.expect("a file").path();
        if path.is_dir() {
            all.extend(sources(&path));
        } else if path.extension().is_some_and(|end| end == "rs") {
            all.push(path);
        }
    }
    all.sort();
    all
}

/// What is wrong with a room's sources.
fn wrong_in(folder: &Path) -> Vec<String> {
    let mut wrong = Vec::new();
    for file in sources(folder) {
        let text = fs::read_to_string(&file).expect("a source");
        wrong.extend(forbidden(&text).iter().map(|(line, what)| format!("{}:{line} names {what}", short(&file))));
    }
    for file in Crate::read(&folder.join("lib.rs")).files {
        let prints = file.calls.iter().filter(|(name, _)| PRINTS.contains(&name.as_str()));
        wrong.extend(prints.map(|(name, line)| format!("{}:{line} calls {name}!", short(&file.path))));
    }
    wrong
}

/// What is wrong with a room's manifest.
fn wrong_with(room: &Member, allowed: &[&str]) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut section = "";
    for line in room.manifest.lines() {
        if line.starts_with('[') {
            section = line;
            if line.contains("dependencies") && !matches!(line, "[dependencies]" | "[dev-dependencies]") {
                wrong.push(format!("{}/Cargo.toml has {line}", room.name));
            }
        } else if section == "[dependencies]" && line.contains('=') {
            let name = line.split([' ', '.', '=']).next().expect("a name");
            // A crate under another's name would not be seen in the sources.
            if !allowed.contains(&name) || line.contains("package") {
                wrong.push(format!("{}/Cargo.toml: {line}", room.name));
            }
        } else if section == "[package]" && line.starts_with("build") {
            wrong.push(format!("{}/Cargo.toml: {line}", room.name));
        }
    }
    wrong
}

#[test]
fn engine_wire_and_session_touch_nothing_outside() {
    let members = Member::all();
    let mut wrong = Vec::new();
    let mut files = 0;
    for (name, allowed) in ROOMS {
        let room = members.iter().find(|room| room.name == name).expect("a room");
        wrong.extend(wrong_with(room, allowed));
        let folder = root().join(name);
        let found = sources(&folder.join("src"));
        assert!(found.len() > 4, "{name}: {found:?}");
        files += found.len();
        wrong.extend(wrong_in(&folder.join("src")));
        assert!(!folder.join("build.rs").exists(), "{name} runs code when it is built");
        let forbids = read(format!("{name}/src/lib.rs")).contains("#![forbid(unsafe_code)]");
        assert!(forbids, "{name} may have code that the compiler does not check");
    }
    println!("{files} files name no socket, file, thread, process or clock");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What is planted is found, in each of the ways in which it can be written.
#[test]
fn what_touches_the_outside_is_found() {
    let planted = [
        ("use std::net::TcpStream;", "std::net::TcpStream"),
        ("use std::{fmt, net::{IpAddr, SocketAddr}};", "std::net::IpAddr"),
        ("fn f() { std::thread::spawn(|| ()); }", "std::thread::spawn"),
        ("use ::std::fs;", "std::fs"),
        ("use std::os::fd::AsRawFd as Number;", "std::os::fd::AsRawFd"),
        ("fn f() { ::std::process::exit(1) }", "std::process::exit"),
        ("fn f(at: std::time::SystemTime) {}", "std::time::SystemTime"),
        ("use std::time::{Duration, Instant};", "std::time::Instant"),
        ("use std::time as t;", "std::time::as"),
        ("use std::time::*;", "std::time::*"),
        ("use std as s;", "std::as"),
        ("use {std as s};", "std::as"),
        ("use std::io as other;", "std::io::as"),
        ("use std::io::{self as other};", "std::io::as"),
        ("use std::io;\nfn f() { io::stdin(); }", "io::stdin"),
        ("use std::io::prelude::*;", "std::io::prelude::*"),
        ("use core::net::Ipv4Addr;", "core::net::Ipv4Addr"),
        ("fn f() { Instant::now(); }", "Instant"),
        ("extern crate std as s;", "extern"),
        ("#[path = \"../../elsewhere.rs\"]\nmod elsewhere;", "#[path]"),
        ("fn f() { unsafe { () } }", "unsafe"),
        ("fn f() -> [u8; 16] { base::ident::random() }", "base::ident::random"),
        ("use base::{Time, settings};", "base::settings"),
        ("use base::log::Patience;", "base::log::Patience"),
        ("fn f() { std::io::Error::last_os_error(); }", "last_os_error"),
        ("use std::io::Error;\nfn f() { Error::last_os_error(); }", "last_os_error"),
        ("fn f(e: &std::io::Error) { e.raw_os_error(); }", "raw_os_error"),
        ("fn f() { std::io::Error::from_raw_os_error(2); }", "from_raw_os_error"),
        ("fn f() { std::hash::RandomState::new(); }", "std::hash::RandomState::new"),
        ("fn f() { std::collections::hash_map::RandomState::new(); }", "RandomState"),
        ("use std::hash::*;", "std::hash::*"),
        ("use std::hash::{self as other};", "std::hash::as"),
        ("const HOME: Option<&str> = option_env!(\"HOME\");", "option_env"),
        ("const HOME: &str = env!(\"HOME\");", "env!"),
        ("const HOME: &str = std::env!(\"HOME\");", "std::env"),
        ("const HOST: &str = include_str!(\"/etc/hostname\");", "include_str"),
        ("const HOST: &[u8] = include_bytes!(\"/etc/hostname\");", "include_bytes"),
        ("#[cfg(test)]\nmod tests {\n    use std::fs;\n}", "std::fs"),
    ];
    for (text, name) in planted {
        let found = forbidden(text);
        assert!(found.iter().any(|(_, what)| what == name), "{text}: {found:?}");
    }
    let good = "//! std::fs\nuse std::io::{self, ErrorKind};\nuse std::{fmt, sync::Arc};\nfn f(process: u8, x: X) -> \
                io::Result<()> { base::log!(Info, \"std::fs::read\"); x.base.core::<u8>(); std::mem::take::<u8>(&mut 1); }";
    assert_eq!(forbidden(good), []);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("layers").join("prints");
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(folder.join("lib.rs"), "fn f() { println!(); }\n#[cfg(test)]\nfn g() { dbg!(1); }\n").expect("a file");
    let found = Crate::read(&folder.join("lib.rs")).files.remove(0).calls;
    assert_eq!(found.keys().filter(|name| PRINTS.contains(&name.as_str())).collect::<BTreeSet<_>>().len(), 1);
    let mut room = Member { name: "session".to_owned(), manifest: read("session/Cargo.toml") };
    assert!(wrong_with(&room, ROOMS[2].1).is_empty());
    for line in ["[dependencies]\nmio = \"1\"\n", "[target.'cfg(unix)'.dependencies]\n", "[build-dependencies]\n"] {
        room.manifest = line.to_owned();
        assert_eq!(wrong_with(&room, ROOMS[2].1).len(), 1, "{line}");
    }
}
