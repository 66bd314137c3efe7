//! The layers hold: of which other rooms a room knows is what docs/design.md says, and no two files of a crate import from
//! each other, directly or through others.
//!
//! An import is a name of another file, in a `use` or in a path in the code. It counts for the file that defines the
//! name, by whichever re-exports it comes: so a parent that declares its children and hands their names on imports
//! nothing, but one that uses them in its own code does, and then no child may use what the parent defines. What only
//! tests use is left out. Not seen are calls of methods that a file gives to another file's type (`methods` lists these
//! types), and code that the build makes.

mod imports;
mod known;
mod methods;
mod pure;
mod source;
mod words;

use imports::{Imports, circles};
use source::Crate;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(file: impl AsRef<Path>) -> String {
    let file = root().join(file);
    fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()))
}

/// A folder with a manifest, or `src`, whose manifest is the root's.
struct Member {
    name: String,
    manifest: String,
}

impl Member {
    fn all() -> Vec<Member> {
        let manifest = read("Cargo.toml");
        let members = manifest.lines().find_map(|line| line.strip_prefix("members = ")).expect("a workspace");
        let names = members.trim_matches(['[', ']']).split(", ").map(|name| name.trim_matches('"').to_owned());
        let rooms = names.map(|name| Member { manifest: read(format!("{name}/Cargo.toml")), name });
        let mut all: Vec<Member> = rooms.collect();
        // No member: it is built otherwise.
        all.push(Member { name: "fuzz".to_owned(), manifest: read("fuzz/Cargo.toml") });
        all.push(Member { name: "src".to_owned(), manifest });
        all
    }

    /// The value of a key in a section.
    fn value(&self, section: &str, key: &str) -> Option<&str> {
        let lines = self.manifest.lines().skip_while(|line| *line != section).skip(1);
        let mut lines = lines.take_while(|line| !line.starts_with('['));
        lines.find_map(|line| line.strip_prefix(key)?.strip_prefix(" = ")).map(|value| value.trim_matches('"'))
    }

    /// By which name its code is known to others.
    fn crate_name(&self) -> String {
        let package = self.value("[package]", "name").expect("a package");
        self.value("[lib]", "name").unwrap_or(package).replace('-', "_")
    }

    /// The packages of this workspace that its code is built with, by their names.
    fn dependencies(&self) -> BTreeSet<String> {
        let lines = self.manifest.lines().skip_while(|line| *line != "[dependencies]").skip(1);
        let names =
            lines.take_while(|line| !line.starts_with('[')).filter_map(|line| line.split([' ', '.', '=']).next());
        names.filter(|name| name.starts_with("mpi-connect")).map(str::to_owned).collect()
    }

    /// Its crates: the library or program, further programs, and what the build runs.
    fn crates(&self) -> Vec<Crate> {
        let folder = if self.name == "src" { root().to_owned() } else { root().join(&self.name) };
        let bins =
            fs::read_dir(folder.join("src/bin")).into_iter().flatten().map(|entry| entry.expect("a file").path());
        let roots = ["src/lib.rs", "src/main.rs", "build.rs"].map(|file| folder.join(file)).into_iter().chain(bins);
        roots.filter(|file| file.exists()).map(|file| Crate::read(&file)).collect()
    }
}

fn short(path: &Path) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.strip_prefix(root()).expect("below the root").iter().map(|part| part.to_str().expect("a name")) {
        if part == ".." {
            parts.pop();
        } else {
            parts.push(part);
        }
    }
    parts.join("/")
}

/// The rows of the table in docs/design.md that are about rooms with code of their own: of whom each knows.
fn table(rooms: &[Member]) -> BTreeMap<String, BTreeSet<String>> {
    let page = read("docs/design.md");
    let lines = page.lines().skip_while(|line| !line.starts_with("| room | what lives there | knows of |")).skip(2);
    let mut all = BTreeMap::new();
    for line in lines.take_while(|line| line.starts_with('|')) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [room, _, knows] = cells[..] else { panic!("not of three columns: {line}") };
        let room = room.trim_matches('`').trim_end_matches('/');
        if rooms.iter().any(|one| one.name == room) {
            let knows = knows.split(", ").filter(|one| !one.is_empty() && *one != "nothing");
            all.insert(room.to_owned(), knows.map(str::to_owned).collect());
        } else {
            assert_eq!(knows, "", "what a part of a room knows of is in the room's row: {room}");
        }
    }
    all
}

#[test]
fn rooms_know_of_whom_the_table_says() {
    let rooms = Member::all();
    let table = table(&rooms);
    let mut wrong = Vec::new();
    for room in &rooms {
        let Some(said) = table.get(&room.name) else {
            wrong.push(format!("docs/design.md has no row for {}", room.name));
            continue;
        };
        let names = |packages: BTreeSet<String>| -> BTreeSet<String> {
            let of = |package: &String| rooms.iter().find(|one| one.value("[package]", "name") == Some(package));
            packages.iter().map(|package| of(package).expect("a room").name.clone()).collect()
        };
        let needed = names(room.dependencies());
        if needed != *said {
            wrong.push(format!("{} is built with {needed:?}, and docs/design.md says {said:?}", room.name));
        }
        let mut imported = BTreeSet::new();
        for code in room.crates() {
            for (file, line, name) in code.imports().1 {
                let Some(other) = rooms.iter().find(|one| one.crate_name() == name && one.name != room.name) else {
                    continue;
                };
                if !said.contains(&other.name) {
                    wrong.push(format!("{}:{line} imports from {}", short(&code.files[file].path), other.name));
                }
                imported.insert(other.name.clone());
            }
        }
        let idle: Vec<&String> = said.difference(&imported).collect();
        if !idle.is_empty() {
            wrong.push(format!("{} imports nothing from {idle:?}", room.name));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What is told of a group of files that import from each other.
fn told(code: &Crate, imports: &Imports, group: &[usize]) -> String {
    let mut text = format!("{} files import from each other:", group.len());
    for ((from, to), places) in imports.iter().filter(|((from, to), _)| group.contains(from) && group.contains(to)) {
        let places: Vec<String> = places.iter().map(|(line, what)| format!("{what} (line {line})")).collect();
        let [from, to] = [from, to].map(|file| short(&code.files[*file].path));
        text += &format!("\n    {from} from {to}: {}", places.join(", "));
    }
    text
}

#[test]
fn no_files_import_in_circles() {
    let mut wrong = Vec::new();
    let mut left: Vec<_> = known::KNOWN.iter().collect();
    let mut rows = vec![["", "files", "lines", "circles", "files in them", "known"].map(str::to_owned)];
    for room in Member::all() {
        let (mut files, mut groups, mut within, mut known) = (BTreeMap::new(), 0, 0, 0);
        for code in room.crates() {
            let (imports, _) = code.imports();
            let name = |file: usize| short(&code.files[file].path);
            let path = |file: &source::File| PathBuf::from(short(&file.path));
            files
                .extend(code.files.iter().map(|file| (path(file), file.lines)).filter(|f| f.0.starts_with(&room.name)));
            let all = circles(imports.keys());
            groups += all.len();
            within += all.iter().map(Vec::len).sum::<usize>();
            // Without those that are known there is none.
            let mut kept: BTreeSet<(usize, usize)> = imports.keys().copied().collect();
            let excused = kept.iter().copied().filter(|(from, to)| {
                let at = left.iter().position(|(one, other, _)| *one == name(*from) && *other == name(*to));
                at.map(|at| left.remove(at)).is_some()
            });
            let excused = excused.collect::<Vec<_>>();
            known += excused.len();
            kept.retain(|one| !excused.contains(one));
            let rest = circles(&kept);
            wrong.extend(rest.iter().map(|group| {
                let kept = imports.iter().filter(|(one, _)| kept.contains(one)).map(|(k, v)| (*k, v.clone())).collect();
                told(&code, &kept, group)
            }));
            // Each of them is needed.
            for one in excused {
                let with = kept.iter().chain([&one]);
                if circles(with).len() == rest.len() {
                    wrong.push(format!("known, and in no circle any more: {} from {}", name(one.0), name(one.1)));
                }
            }
        }
        let lines: usize = files.values().sum();
        let numbers = [files.len(), lines, groups, within, known].map(|n| n.to_string());
        rows.push([vec![room.name.clone()], numbers.to_vec()].concat().try_into().expect("six cells"));
    }
    wrong.extend(left.iter().map(|(from, to, _)| format!("known, and no import any more: {from} from {to}")));
    figure(&rows);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A crate of these files in which these import in circles.
fn is_found(name: &str, files: &[(&str, &str)], circle: &[&str]) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("layers").join(name);
    fs::create_dir_all(&folder).expect("a folder");
    for (file, text) in files {
        fs::write(folder.join(file), text).expect("a file");
    }
    let code = Crate::read(&folder.join("lib.rs"));
    assert_eq!(code.files.len(), files.len(), "{name}");
    let (imports, _) = code.imports();
    let of = |file: &usize| code.files[*file].path.file_name().expect("a name").to_string_lossy().into_owned();
    let mut found: Vec<String> = circles(imports.keys()).iter().flatten().map(of).collect();
    found.sort();
    assert_eq!(found, circle, "{name}: {imports:?}");
}

#[test]
fn circles_are_found() {
    let both = ["a.rs", "b.rs"];
    let parents = "mod a;\nmod b;\npub use a::{A, f};\npub use b::*;\n";
    is_found(
        "by_what_the_parent_hands_on",
        &[
            ("lib.rs", parents),
            ("a.rs", "pub struct A(crate::B);\npub fn f() {}"),
            ("b.rs", "pub struct B;\nuse crate::f as g;"),
        ],
        &both,
    );
    is_found(
        "in_one_direction",
        &[
            ("lib.rs", parents),
            ("a.rs", "pub struct A(crate::B);\npub fn f() {}"),
            ("b.rs", "pub struct B; // crate::f()\n"),
        ],
        &[],
    );
    is_found(
        "by_a_module",
        &[
            ("lib.rs", parents),
            ("a.rs", "use super::b::*;\npub struct A(B);\npub fn f() {}"),
            ("b.rs", "use crate::a::{self as other};\npub struct B;\nfn g() { other::f() }"),
        ],
        &both,
    );
    is_found(
        "for_tests",
        &[
            ("lib.rs", parents),
            ("a.rs", "pub struct A(super::B);\npub fn f() { \"crate::b::B\"; }"),
            ("b.rs", "pub struct B;\n#[cfg(test)]\nmod tests {\n    use crate::A;\n}\n#[cfg(test)]\nuse crate::f;\n"),
        ],
        &[],
    );
    // It is the graph of imports, and not that of calls: see `methods`.
    is_found(
        "by_methods",
        &[
            ("lib.rs", "mod a;\nmod b;\nmod whole;"),
            ("a.rs", "use crate::whole::Whole;\nimpl Whole {\n    pub fn f(&self) { self.g() }\n}\n"),
            ("b.rs", "use crate::whole::Whole;\nimpl Whole {\n    pub fn g(&self) { self.f() }\n}\n"),
            ("whole.rs", "pub struct Whole;"),
        ],
        &[],
    );
    let child = ("a.rs", "pub fn f(_: &super::Whole) {}");
    is_found(
        "of_a_parent",
        &[("lib.rs", "mod a;\npub struct Whole;\nfn g() { a::f(&Whole) }"), child],
        &["a.rs", "lib.rs"],
    );
    is_found("of_no_parent", &[("lib.rs", "mod a;\npub use a::f;\npub struct Whole;"), child], &[]);
    let table = "mod a;\npub struct Whole;\nmod table {\n    pub use crate::a::*;\n}\n";
    is_found("by_a_table", &[("lib.rs", table), child], &["a.rs", "lib.rs"]);
    is_found(
        "by_a_macro",
        &[
            ("lib.rs", "#[macro_use]\nmod a;\nmod b;"),
            ("a.rs", "macro_rules! m { () => {} }\nfn f(_: crate::b::B) {}"),
            ("b.rs", "m!();\npub struct B;"),
        ],
        &both,
    );
    // A function has the name of a crate.
    is_found(
        "of_a_crate",
        &[
            ("lib.rs", "mod a;\nmod b;"),
            ("a.rs", "pub fn node() { crate::b::f() }"),
            ("b.rs", "pub fn f() -> node::Node { todo!() }"),
        ],
        &[],
    );
}

fn figure(rows: &[[String; 6]]) {
    let mut text = "sources by room, and the circles of files that import from each other\n".to_owned();
    for row in rows {
        text += &format!("  {:<14}", row[0]);
        text += &row[1..].iter().map(|cell| format!("{cell:>15}")).collect::<String>();
        text.push('\n');
    }
    print!("{text}");
    let folder = root().join("target/figures");
    fs::create_dir_all(&folder).expect("target/figures");
    fs::write(folder.join("03-layers.txt"), text).expect("target/figures");
}
