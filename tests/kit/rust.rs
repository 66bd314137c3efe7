//! The sources of this repository, as tests read them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The sources of these rooms that are no tests, without what is: file and text.
pub fn sources(rooms: &[&str]) -> BTreeMap<String, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    for &room in rooms {
        let folder = if room == "src" { root.join(room) } else { root.join(room).join("src") };
        walk(&folder, &mut files);
    }
    let read = |file: &PathBuf| fs::read_to_string(file).expect("a source");
    let texts: BTreeMap<PathBuf, String> = files.iter().map(|file| (file.clone(), read(file))).collect();
    let tests: Vec<PathBuf> = texts.iter().flat_map(|(file, text)| modules_of_tests(file, text)).collect();
    let is_test = |file: &Path| tests.iter().any(|test| file == test || file.starts_with(test.with_extension("")));
    let kept = texts.iter().filter(|(file, _)| !is_test(file));
    let name = |file: &Path| file.strip_prefix(root).expect("below the root").to_string_lossy().into_owned();
    kept.map(|(file, text)| (name(file), without_tests(&without_comments(text)))).collect()
}

pub fn walk(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("a source").path();
        if path.is_dir() {
            walk(&path, files);
        } else if path.extension().is_some_and(|e| e == "rs") {
            files.push(path);
        }
    }
}

/// The files of modules that are declared for tests alone; what lies in folders of the same name is theirs.
fn modules_of_tests(file: &Path, text: &str) -> Vec<PathBuf> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let declared = lines.windows(2).filter(|w| w[0].starts_with("#[cfg(") && w[0].contains("test"));
    let names = declared.flat_map(|w| {
        let path = w[1].strip_prefix("#[path = \"").and_then(|p| p.strip_suffix("\"]"));
        let name = |line: &str| {
            Some(line.strip_prefix("pub(crate) ").unwrap_or(line).strip_prefix("mod ")?.strip_suffix(';')?.to_owned())
        };
        match path {
            Some(path) => Some(path.to_owned()),
            None => name(w[1]).map(|name| name + ".rs"),
        }
    });
    let folder = file.parent().expect("a folder");
    let stem = file.file_stem().expect("a name").to_string_lossy();
    let beside = if matches!(&*stem, "mod" | "lib" | "main") { folder.to_owned() } else { folder.join(&*stem) };
    names.flat_map(|name| [folder.join(&name), beside.join(&name)]).collect()
}

/// Comments become blanks.
fn without_comments(text: &str) -> String {
    let lines = text.lines().map(|line| match comment(line) {
        Some(at) => &line[..at],
        None => line,
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Where a comment begins, outside of strings.
fn comment(line: &str) -> Option<usize> {
    let (mut in_string, mut escaped) = (false, false);
    let bytes = line.as_bytes();
    for (at, b) in bytes.iter().enumerate() {
        match b {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' if at == 0 || bytes[at - 1] != b'\'' => in_string = !in_string,
            b'/' if !in_string && bytes.get(at + 1) == Some(&b'/') => return Some(at),
            _ => (),
        }
    }
    None
}

/// Blocks for tests alone go: an attribute, a line that opens, and all up to the line that closes at the same depth.
fn without_tests(text: &str) -> String {
    let mut kept = String::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let depth = line.len() - line.trim_start().len();
        let is_test = line.trim() == "#[cfg(test)]" || line.trim().starts_with("#[cfg(all(test");
        if !is_test {
            kept += line;
            kept.push('\n');
            continue;
        }
        let opens = lines.next().unwrap_or_default();
        if opens.trim_end().ends_with('{') {
            let end = format!("{}}}", " ".repeat(depth));
            lines.by_ref().find(|line| *line == end);
        }
    }
    kept
}

/// The strings of a source, as they are in memory.
pub fn strings(text: &str) -> Vec<String> {
    let (mut all, mut at) = (Vec::new(), 0);
    let bytes = text.as_bytes();
    while at < bytes.len() {
        // A character is none: '"', '\"'.
        if bytes[at] == b'\'' && (bytes[at..].starts_with(b"'\"'") || bytes[at..].starts_with(b"'\\\"'")) {
            at += 3;
        } else if bytes[at] == b'"' {
            let mut one = Vec::new();
            at += 1;
            while at < bytes.len() && bytes[at] != b'"' {
                if bytes[at] == b'\\' {
                    at += 1;
                    match bytes.get(at) {
                        // A line that goes on.
                        Some(b'\n') => {
                            while bytes.get(at + 1).is_some_and(u8::is_ascii_whitespace) {
                                at += 1
                            }
                        }
                        Some(b) => one.push(*b),
                        None => (),
                    }
                } else {
                    one.push(bytes[at]);
                }
                at += 1;
            }
            all.push(String::from_utf8(one).expect("cut between characters"));
        }
        at += 1;
    }
    all
}
