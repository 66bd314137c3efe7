//! What a crate's sources declare and name: its modules, from the root on, the names in each, and the paths in its code.

use crate::words::{Word, after_bracket, without_tests, words};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// From the root; the root's own is empty.
pub type ModulePath = Vec<String>;

/// A line `use`, or one of the names in it.
#[derive(Debug)]
pub struct Use {
    /// By what name it is known here; none for `*`.
    pub name: Option<String>,
    pub path: Vec<String>,
    pub line: usize,
    /// Handed on, and used here only if the name is in the code: a `pub use`, unless it is in a module within a file,
    /// which is there for the file.
    pub is_handed_on: bool,
    pub is_inline: bool,
}

#[derive(Debug, Default)]
pub struct Module {
    pub file: usize,
    pub children: BTreeSet<String>,
    pub uses: Vec<Use>,
    /// Whether it is a value, such as a function: a path does not lead on from one, and a crate may have the same name.
    pub defined: BTreeMap<String, bool>,
}

/// Two names and more with `::` between, in code.
#[derive(Debug)]
pub struct Named {
    pub module: ModulePath,
    pub path: Vec<String>,
    pub line: usize,
    pub is_macro: bool,
}

#[derive(Debug)]
pub struct File {
    pub path: PathBuf,
    pub lines: usize,
    /// Those that are no part of a path but its first, and where first. Names in `use` are not among them.
    pub names: BTreeMap<String, usize>,
    /// `name!`
    pub calls: BTreeMap<String, usize>,
}

#[derive(Debug, Default)]
pub struct Crate {
    pub files: Vec<File>,
    pub modules: BTreeMap<ModulePath, Module>,
    pub named: Vec<Named>,
    /// Which files have a `macro_rules!` of this name.
    pub macros: BTreeMap<String, BTreeSet<usize>>,
}

impl Crate {
    /// The crate with this file as its root.
    pub fn read(root: &Path) -> Crate {
        let mut all = Crate::default();
        let folder = root.parent().expect("a folder").to_owned();
        all.add(root.to_owned(), folder, Vec::new());
        all
    }

    /// A file and those of the modules it declares. `folder` is where theirs are.
    fn add(&mut self, path: PathBuf, folder: PathBuf, module: ModulePath) {
        let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let file = self.files.len();
        let (names, calls) = Default::default();
        self.files.push(File { path: path.clone(), lines: text.lines().count(), names, calls });
        self.modules.insert(module.clone(), Module { file, ..Module::default() });
        // The text of strings is gone from the words.
        let declared = paths_of_modules(&text);
        for name in self.parse(file, &module, &without_tests(&words(&text))) {
            let below = [&module[..], std::slice::from_ref(&name)].concat();
            let beside = path.parent().expect("a folder");
            let (plain, own) = (folder.join(format!("{name}.rs")), folder.join(&name).join("mod.rs"));
            match declared.get(&name) {
                Some(given) => self.add(beside.join(given), beside.to_owned(), below),
                None if plain.exists() => self.add(plain, folder.join(&name), below),
                None => self.add(own, folder.join(&name), below),
            }
        }
    }

    /// Files the words; returns the modules that have files of their own.
    fn parse(&mut self, file: usize, root: &[String], words: &[Word]) -> Vec<String> {
        let text = |at: usize| words.get(at).map_or("", |w| w.text.as_str());
        let mut declared = Vec::new();
        // The modules that the place is in, and at which depth of braces each began.
        let (mut within, mut depth) = (vec![(root.to_vec(), 0)], 0);
        let mut at = 0;
        while at < words.len() {
            let (module, base) = within.last().expect("the file's").clone();
            let line = words[at].line;
            match text(at) {
                "{" => depth += 1,
                "}" => {
                    depth -= 1;
                    if depth < base {
                        within.pop();
                    }
                }
                "mod" if text(at + 2) == ";" => {
                    self.module(&module).children.insert(text(at + 1).to_owned());
                    assert_eq!(module, root, "a module in a module within a file");
                    declared.push(text(at + 1).to_owned());
                    at += 2;
                }
                "mod" if text(at + 2) == "{" => {
                    self.module(&module).children.insert(text(at + 1).to_owned());
                    let below = [&module[..], &[text(at + 1).to_owned()]].concat();
                    self.modules.insert(below.clone(), Module { file, ..Module::default() });
                    depth += 1;
                    within.push((below, depth));
                    at += 2;
                }
                "use" if text(at + 1) != "<" => {
                    let is_pub = at > 0 && matches!(text(at - 1), "pub" | ")");
                    let end = at + words[at..].iter().position(|w| w.text == ";").expect("its end");
                    let is_inline = module != root;
                    let mut tree = Tree { words: &words[at + 1..end], at: 0, found: Vec::new() };
                    tree.read(&[]);
                    let uses = tree.found.into_iter().map(|(name, path)| {
                        let is_handed_on = is_pub && !is_inline;
                        Use { name, path, line, is_handed_on, is_inline: is_pub && is_inline }
                    });
                    self.module(&module).uses.extend(uses);
                    at = end;
                }
                "macro_rules" if text(at + 1) == "!" => {
                    self.macros.entry(text(at + 2).to_owned()).or_default().insert(file);
                    at += 2;
                }
                "fn" | "struct" | "enum" | "trait" | "type" | "const" | "static" | "union" if depth == base => {
                    let name = if matches!(text(at + 1), "mut" | "unsafe" | "extern") { at + 2 } else { at + 1 };
                    if words.get(name).is_some_and(Word::is_name) {
                        let is_value = matches!(text(at), "fn" | "const" | "static");
                        self.module(&module).defined.insert(text(name).to_owned(), is_value);
                    }
                }
                // The place that a visibility names is no import.
                "pub" if text(at + 1) == "(" => at = after_bracket(words, at + 1) - 1,
                _ if words[at].is_name() && (at == 0 || !matches!(text(at - 1), "::" | ".")) => {
                    let mut path = vec![text(at).to_owned()];
                    while text(at + 1) == "::" && words.get(at + 2).is_some_and(Word::is_name) {
                        path.push(text(at + 2).to_owned());
                        at += 2;
                    }
                    let is_macro = text(at + 1) == "!";
                    self.files[file].names.entry(path[0].clone()).or_insert(line);
                    if path.len() > 1 {
                        self.named.push(Named { module, path, line, is_macro });
                    } else if is_macro {
                        self.files[file].calls.entry(path.remove(0)).or_insert(line);
                    }
                }
                _ => (),
            }
            at += 1;
        }
        declared
    }

    fn module(&mut self, path: &[String]) -> &mut Module {
        self.modules.get_mut(path).expect("filed when it began")
    }
}

/// `#[path = "..."] mod NAME;`
fn paths_of_modules(text: &str) -> BTreeMap<String, String> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let pairs = lines.windows(2).filter_map(|w| {
        let path = w[0].strip_prefix("#[path = \"")?.strip_suffix("\"]")?;
        let (_, name) = w[1].strip_suffix(';')?.split_once("mod ")?;
        Some((name.to_owned(), path.to_owned()))
    });
    pairs.collect()
}

/// What stands between `use` and its end.
struct Tree<'a> {
    words: &'a [Word],
    at: usize,
    found: Vec<(Option<String>, Vec<String>)>,
}

impl Tree<'_> {
    fn read(&mut self, prefix: &[String]) {
        let mut path = prefix.to_vec();
        while let Some(word) = self.words.get(self.at) {
            self.at += 1;
            match word.text.as_str() {
                "::" => (),
                "{" => {
                    while self.words.get(self.at).is_some_and(|w| w.text != "}") {
                        self.read(&path);
                        self.at += usize::from(self.words.get(self.at).is_some_and(|w| w.text == ","));
                    }
                    self.at += 1;
                    return;
                }
                "*" => return self.found.push((None, path)),
                "as" => {
                    self.found.push((Some(self.words[self.at].text.clone()), path));
                    self.at += 1;
                    return;
                }
                "self" if !path.is_empty() => (),
                "," | "}" => {
                    self.at -= 1;
                    break;
                }
                "$" => (),
                name => path.push(name.to_owned()),
            }
        }
        self.found.push((path.last().cloned(), path));
    }
}
