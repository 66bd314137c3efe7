//! Which file imports from which, and the circles among them.

use crate::source::{Crate, ModulePath};
use std::collections::{BTreeMap, BTreeSet};

/// What a path leads to.
#[derive(Clone, Debug, PartialEq)]
pub enum Found {
    Module(ModulePath),
    /// What is defined in this file.
    Item(usize),
    /// What is in another crate, of this name.
    Other(String),
    Nothing,
}

/// From one file to another of the same crate: the lines, and what is imported there.
pub type Imports = BTreeMap<(usize, usize), Vec<(usize, String)>>;

impl Crate {
    /// Where a path leads that is written in this module. If it leads on, what is asked for is no value. Deep only where
    /// re-exports go in circles.
    fn follow(&self, module: &[String], path: &[String], leads_on: bool, depth: usize) -> Found {
        if depth > 16 {
            return Found::Nothing;
        }
        let (mut here, mut rest) = (module.to_vec(), path);
        match rest[0].as_str() {
            "crate" => (here, rest) = (Vec::new(), &rest[1..]),
            "self" => rest = &rest[1..],
            "super" => {
                while rest.first().is_some_and(|name| name == "super") {
                    here.pop();
                    rest = &rest[1..];
                }
            }
            first => match self.look(&here, first, leads_on || path.len() > 1, depth, Some(path)) {
                Found::Module(below) => (here, rest) = (below, &rest[1..]),
                Found::Nothing => return Found::Other(first.to_owned()),
                found => return found,
            },
        }
        while let Some(name) = rest.first() {
            match self.look(&here, name, leads_on || rest.len() > 1, depth, None) {
                Found::Module(below) => here = below,
                // Made by a macro, or by the build: it is of the file that has the module. Unless it is a value.
                Found::Nothing => {
                    let module = self.modules.get(&here).filter(|module| !module.defined.contains_key(name));
                    return module.map_or(Found::Nothing, |module| Found::Item(module.file));
                }
                found => return found,
            }
            rest = &rest[1..];
        }
        Found::Module(here)
    }

    /// A name in a module. A path that ends with it means rather an item than a module of the same name. A line `use` with
    /// the path that is being followed is not asked about itself.
    fn look(&self, at: &[String], name: &str, leads_on: bool, depth: usize, not: Option<&[String]>) -> Found {
        let Some(module) = self.modules.get(at).filter(|_| depth <= 16) else { return Found::Nothing };
        let child = module.children.contains(name).then(|| Found::Module([at, &[name.to_owned()]].concat()));
        if leads_on && let Some(child) = child {
            return child;
        }
        if module.defined.get(name).is_some_and(|is_value| !(leads_on && *is_value)) {
            return Found::Item(module.file);
        }
        let others = || module.uses.iter().filter(|one| Some(&one.path[..]) != not);
        let named = others().filter(|one| one.name.as_deref() == Some(name));
        let named = named.map(|one| self.follow(at, &one.path, leads_on, depth + 1));
        let all = others().filter(|one| one.name.is_none());
        let all = all.map(|one| match self.follow(at, &one.path, true, depth + 1) {
            Found::Module(from) => self.look(&from, name, leads_on, depth + 1, None),
            _ => Found::Nothing,
        });
        named.chain(child).chain(all).find(|found| *found != Found::Nothing).unwrap_or(Found::Nothing)
    }

    /// The file that has a macro which this file calls: itself before others.
    fn made_by(&self, name: &str, file: usize) -> Found {
        let Some(files) = self.macros.get(name) else { return Found::Nothing };
        files.get(&file).or(files.first()).map_or(Found::Nothing, |file| Found::Item(*file))
    }

    /// What each file imports from others of the crate. Of other crates: the file, the line, and the crate's name.
    pub fn imports(&self) -> (Imports, BTreeSet<(usize, usize, String)>) {
        let (mut inside, mut outside) = (Imports::new(), BTreeSet::new());
        let mut add = |file: usize, line: usize, what: String, found: Found| match found {
            Found::Item(other) if other != file => inside.entry((file, other)).or_default().push((line, what)),
            Found::Other(name) => drop(outside.insert((file, line, name))),
            _ => (),
        };
        for (at, module) in &self.modules {
            let file = &self.files[module.file];
            for one in &module.uses {
                let found = self.follow(at, &one.path, one.name.is_none(), 0);
                match (&one.name, found) {
                    (None, Found::Module(from)) if one.is_inline => {
                        add(module.file, one.line, one.path.join("::"), Found::Item(self.modules[&from].file));
                    }
                    (None, Found::Module(from)) => {
                        for (name, line) in file.names.iter().filter(|(name, _)| !module.defined.contains_key(*name)) {
                            add(module.file, *line, name.clone(), self.look(&from, name, false, 0, None));
                        }
                    }
                    (Some(name), Found::Item(_)) if one.is_handed_on && !file.names.contains_key(name) => (),
                    (_, found) => add(module.file, one.line, one.path.join("::"), found),
                }
            }
        }
        for one in &self.named {
            let file = self.modules[&one.module].file;
            let name = one.path.last().expect("two names");
            let found = match one.is_macro && one.path[0] == "crate" {
                true => self.made_by(name, file),
                false => self.follow(&one.module, &one.path, false, 0),
            };
            add(file, one.line, one.path.join("::"), found);
        }
        for (n, file) in self.files.iter().enumerate() {
            for (name, line) in &file.calls {
                add(n, *line, format!("{name}!"), self.made_by(name, n));
            }
        }
        for lines in inside.values_mut() {
            lines.sort();
            lines.dedup();
        }
        (inside, outside)
    }
}

/// The files that import from each other, directly or through others, each group for itself.
pub fn circles<'a>(imports: impl IntoIterator<Item = &'a (usize, usize)>) -> Vec<Vec<usize>> {
    let mut reached: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
    for (from, to) in imports {
        reached.entry(*from).or_default().insert(*to);
    }
    loop {
        let mut is_done = true;
        for from in reached.keys().copied().collect::<Vec<_>>() {
            let next = reached[&from].iter().filter_map(|to| reached.get(to)).flatten().copied();
            let next: BTreeSet<usize> = next.collect();
            let known = reached.get_mut(&from).expect("a key");
            is_done &= next.is_subset(known);
            known.extend(next);
        }
        if is_done {
            break;
        }
    }
    let leads = |from: &usize, to: &usize| reached.get(from).is_some_and(|all| all.contains(to));
    let together = reached.keys().filter(|one| leads(one, one));
    let groups: BTreeSet<Vec<usize>> =
        together.map(|one| reached[one].iter().copied().filter(|other| leads(other, one)).collect()).collect();
    groups.into_iter().collect()
}
