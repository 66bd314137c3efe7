//! What docs/design.md says of the crates that this is built on: those in use, in which rooms, in which release, and
//! those that are not used. One that says something else than the Cargo.toml files and Cargo.lock fails here.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// By crate of others: the rooms whose manifests have it in this section.
type Uses = BTreeMap<String, BTreeSet<String>>;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(file: impl Into<PathBuf>) -> String {
    let file = root().join(file.into());
    fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()))
}

/// The rooms with a manifest: the command's, which is at the root, those it lists, and the one that is no member.
fn rooms() -> Vec<(String, String)> {
    let root = read("Cargo.toml");
    let members = root.lines().find_map(|line| line.strip_prefix("members = ")).expect("a workspace");
    let names = members.trim_matches(['[', ']']).split(", ").map(|name| name.trim_matches('"').to_owned());
    let others = names.map(|name| (read(format!("{name}/Cargo.toml")), name)).map(|(text, name)| (name, text));
    let fuzz = ("fuzz".to_owned(), read("fuzz/Cargo.toml"));
    others.chain([("src".to_owned(), root.clone()), fuzz]).collect()
}

/// The crates of others in a section of the manifests, which begins with its name alone on a line.
fn used(section: &str) -> Uses {
    let mut all = Uses::new();
    for (room, manifest) in rooms() {
        assert!(!manifest.contains("[target."), "crates for some machines only are not looked at: {room}");
        let lines = manifest.lines().skip_while(|line| *line != section).skip(1);
        for line in lines.take_while(|line| !line.starts_with('[')).filter(|line| line.contains('=')) {
            let name = line.split([' ', '.', '=']).next().expect("a name");
            if !name.starts_with("mpi-connect") {
                all.entry(name.to_owned()).or_default().insert(room.clone());
            }
        }
    }
    all
}

/// The page's section, and in it the rows of the table whose head begins so.
fn section() -> String {
    let page = read("docs/design.md");
    let (_, section) = page.split_once("\n## Dependencies\n").expect("a section");
    section.split("\n## ").next().expect("its text").to_owned()
}

fn table(head: &str) -> Vec<Vec<String>> {
    let section = section();
    let lines = section.lines().skip_while(|line| !line.starts_with(head)).skip(2);
    let rows = lines.take_while(|line| line.starts_with('|'));
    rows.map(|row| row.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect()).collect()
}

fn name(cell: &str) -> String {
    cell.trim_matches('`').to_owned()
}

#[test]
fn the_table_of_crates_is_true() {
    let mut listed = Uses::new();
    let locked = read("Cargo.lock") + &read("fuzz/Cargo.lock");
    for row in table("| crate | in |") {
        let [crate_, rooms, does, by_hand, release] = &row[..] else { panic!("not of five columns: {row:?}") };
        assert!(!does.is_empty() && !by_hand.is_empty(), "{row:?}");
        listed.insert(name(crate_), rooms.split(", ").map(str::to_owned).collect());
        let version = release.split(", ").next().expect("a version");
        let entry = format!("name = \"{}\"\nversion = \"{version}\"\n", name(crate_));
        assert!(locked.contains(&entry), "Cargo.lock has another release of {crate_} than {version}");
    }
    assert!(listed.len() > 10, "{listed:?}");
    assert_eq!(listed, used("[dependencies]"), "docs/design.md (left) and the Cargo.toml files");
}

/// The crates of the tests are named; some of them are in the table too.
#[test]
fn the_crates_of_tests_are_named() {
    let section = section();
    let (_, text) = section.split_once("For tests alone: ").expect("what is for tests alone");
    let text = text.split("\n\n").next().expect("a paragraph");
    let named: BTreeSet<String> = text.split('`').skip(1).step_by(2).map(str::to_owned).collect();
    assert_eq!(named, used("[dev-dependencies]").into_keys().collect());
}

#[test]
fn what_is_not_used_is_not_there() {
    let refused = table("| crate | why not |");
    assert!(refused.len() >= 5, "{refused:?}");
    let (normal, dev, build) = (used("[dependencies]"), used("[dev-dependencies]"), used("[build-dependencies]"));
    assert!(build.is_empty(), "no table has these: {build:?}");
    for row in refused {
        let (name, why) = (name(&row[0]), &row[1]);
        assert!(why.split(' ').count() >= 4, "a reason is a sentence: {row:?}");
        assert!(!normal.contains_key(&name) && !dev.contains_key(&name), "{name} is used after all");
    }
}
