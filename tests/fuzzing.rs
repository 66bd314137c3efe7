//! docs/fuzzing.md lists every fuzz target, and each has what `make fuzz` needs.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(file: &str) -> String {
    fs::read_to_string(root().join(file)).unwrap_or_else(|e| panic!("{file}: {e}"))
}

/// The names of the files in a folder, without this ending.
fn names(folder: &str, ending: &str) -> BTreeSet<String> {
    let entries = fs::read_dir(root().join(folder)).unwrap_or_else(|e| panic!("{folder}: {e}"));
    let name = |entry: fs::DirEntry| entry.file_name().to_str().and_then(|n| n.strip_suffix(ending)).map(str::to_owned);
    entries.filter_map(|entry| name(entry.expect("an entry"))).collect()
}

#[test]
fn the_table_has_every_target() {
    let page = read("docs/fuzzing.md");
    let rows = page.lines().skip_while(|line| !line.starts_with("| target |")).skip(2);
    let mut listed = BTreeSet::new();
    for row in rows.take_while(|line| line.starts_with('|')) {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [targets, reads, _] = cells[..] else { panic!("not of three columns: {row}") };
        assert!(!reads.is_empty(), "{row}");
        listed.extend(targets.split(", ").map(|name| name.trim_matches('`').to_owned()));
    }
    assert!(listed.len() > 20, "{listed:?}");
    assert_eq!(listed, names("fuzz/src/bin", ".rs"), "docs/fuzzing.md (left) and fuzz/src/bin");
}

/// Two programs of one target would be one target less.
#[test]
fn each_program_has_a_target_of_its_own() {
    let mut targets = BTreeSet::new();
    for name in names("fuzz/src/bin", ".rs") {
        let text = read(&format!("fuzz/src/bin/{name}.rs"));
        let target = text.lines().find_map(|line| line.strip_prefix("fuzz::program!(")?.strip_suffix(");"));
        let target = target.unwrap_or_else(|| panic!("{name} has no target"));
        assert!(targets.insert(target.to_owned()), "{name} is a second program of {target}");
    }
}

#[test]
fn every_target_has_a_corpus_of_inputs() {
    let all = names("fuzz/corpus", ".txt");
    assert_eq!(all, names("fuzz/src/bin", ".rs"), "fuzz/corpus (left) and fuzz/src/bin");
    let mut bytes = 0;
    for name in all {
        let text = read(&format!("fuzz/corpus/{name}.txt"));
        bytes += text.len();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let digits = line.len().is_multiple_of(2) && line.bytes().all(|b| b.is_ascii_hexdigit());
            assert!(digits && !line.is_empty(), "{name}: no input: {line}");
        }
    }
    assert!(bytes < 512 << 10, "a corpus is small: {bytes} bytes");
}

/// With the feature `fuzzing` a thread can have handshakes that prove nothing, so nothing that is used is built with it.
#[test]
fn the_library_is_built_without_the_doors() {
    let mut folders = 0;
    for folder in fs::read_dir(root()).expect("the folder of the workspace") {
        let folder = folder.expect("an entry").file_name().into_string().expect("a name");
        let Ok(text) = fs::read_to_string(root().join(&folder).join("Cargo.toml")) else { continue };
        let asks = text.lines().any(|line| line.contains("\"fuzzing\"") || line.contains("/fuzzing\""));
        assert_eq!(asks, folder == "fuzz", "{folder}/Cargo.toml");
        folders += 1;
    }
    assert!(folders > 10, "{folders}");
    assert!(!read("Cargo.toml").contains("\"fuzzing\""));
    let guard = "#[cfg(all(feature = \"fuzzing\", not(debug_assertions)))]\ncompile_error!";
    assert!(read("trust/src/lib.rs").contains(guard), "no build without debug assertions has it");
}

/// What both workspaces are built with is of one release, so that what is tried is what is used.
#[test]
fn both_workspaces_use_the_same_releases() {
    let packages = |lock: &str| -> BTreeSet<(String, String)> {
        let text = read(lock);
        let field = |part: &str, key: &str| {
            Some(part.lines().find_map(|line| line.strip_prefix(key))?.trim_matches(['"', ' ', '=']).to_owned())
        };
        text.split("[[package]]")
            .skip(1)
            .filter_map(|part| Some((field(part, "name")?, field(part, "version")?)))
            .collect()
    };
    let (ours, fuzz) = (packages("Cargo.lock"), packages("fuzz/Cargo.lock"));
    let names: BTreeSet<&String> = ours.iter().map(|(name, _)| name).collect();
    let other: Vec<_> = fuzz.iter().filter(|one| names.contains(&one.0) && !ours.contains(*one)).collect();
    assert!(other.is_empty(), "fuzz/Cargo.lock has others than Cargo.lock: {other:?}");
}
