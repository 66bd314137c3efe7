// Reads `functions.txt`. Used by build.rs, which makes the entry points and our own calls from it, and by the tests that
// compare the table with the headers and with docs/coverage.md.
// Invariant: the result of `parse` has each function once, with a reason and the C type of each argument. Every handle is
// marked, and no token goes to a function that does not look for one.
#![allow(dead_code)] // Each user of this file uses a part of it.

#[path = "types.rs"]
pub mod types;

use types::{Names, Type, in_full};

#[derive(PartialEq, Clone, Copy, Debug)]
pub enum Way {
    Always,
    Ours,
    Native,
    Refuse,
    Convert,
    Below,
    Own,
}

impl Way {
    pub fn is_exported(self) -> bool {
        !matches!(self, Way::Below | Way::Own)
    }
}

pub struct Section {
    pub way: Way,
    pub title: String,
    pub why: String,
    pub functions: Vec<Function>,
}

pub struct Function {
    pub name: String,
    /// Whether the library calls it itself.
    pub is_called: bool,
    pub args: Vec<Arg>,
    pub result: Type,
    /// A reason for this function, beside the one of its section.
    pub why: String,
}

pub struct Arg {
    pub name: String,
    /// "" when there is none.
    pub mark: String,
    pub of: Type,
}

/// The marks of arguments with handles that are checked, and what the handles are.
pub const HANDLES: [(&str, &str); 9] = [
    ("Comm", "Comm"),
    ("Comm*", "Comm"),
    ("Request", "Request"),
    ("Request*", "Request"),
    ("Request[]", "Request"),
    ("Message", "Message"),
    ("Message*", "Message"),
    ("Group", "Group"),
    ("Group*", "Group"),
];

impl Arg {
    /// The kind of handle that the argument passes in.
    pub fn handle(&self) -> Option<&'static str> {
        HANDLES.iter().find(|(mark, _)| *mark == self.mark).map(|(_, kind)| *kind)
    }

    pub fn is_out(&self) -> bool {
        self.mark == "Out"
    }
}

impl Function {
    /// The name in C.
    pub fn c_name(&self) -> String {
        in_full(&self.name)
    }
}

/// Parses the table into sections. The error says what is wrong with it.
pub fn parse(table: &str) -> Result<Vec<Section>, String> {
    let mut sections: Vec<Section> = Vec::new();
    let mut types = Names::default();
    let mut names = std::collections::HashSet::new();
    for line in table.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#')) {
        if let Some(head) = line.strip_prefix("==") {
            sections.push(section(head)?);
            continue;
        }
        if let Some(said) = line.strip_prefix("type ") {
            types.add(said)?;
            continue;
        }
        let section = sections.last_mut().ok_or_else(|| format!("{line}: in no section"))?;
        let function = function(line, &mut types)?;
        check(section.way, &function).map_err(|e| format!("{}: {e}", function.name))?;
        if !names.insert(function.name.clone()) {
            return Err(format!("{}: twice", function.name));
        }
        section.functions.push(function);
    }
    if let Some(empty) = sections.iter().find(|s| s.functions.is_empty()) {
        return Err(format!("{}: a section without functions", empty.title));
    }
    types.all_used().map(|()| sections)
}

fn section(head: &str) -> Result<Section, String> {
    let parts: Vec<_> = head.split('|').map(str::trim).collect();
    let [way, title, why] = parts[..] else { return Err(format!("=={head}: not `== WAY | what | why`")) };
    let way = match way {
        "always" => Way::Always,
        "ours" => Way::Ours,
        "native" => Way::Native,
        "refuse" => Way::Refuse,
        "convert" => Way::Convert,
        "below" => Way::Below,
        "own" => Way::Own,
        other => return Err(format!("{title}: no way {other:?}")),
    };
    if title.is_empty() || why.is_empty() {
        return Err(format!("=={head}: what, and why?"));
    }
    Ok(Section { way, title: title.to_owned(), why: why.to_owned(), functions: Vec::new() })
}

fn function(line: &str, types: &mut Names) -> Result<Function, String> {
    let (row, why) = line.split_once("--").unwrap_or((line, ""));
    let (row, result) = row.split_once("->").unwrap_or((row, "int"));
    let mut words = row.split_whitespace();
    let name = words.next().unwrap_or_default();
    let (name, is_called) = name.strip_suffix("()").map_or((name, false), |name| (name, true));
    let mut args = Vec::new();
    let mut is_const = false;
    for word in words {
        if word == "const" {
            is_const = true;
            continue;
        }
        let arg = arg(word, std::mem::take(&mut is_const), types, name.ends_with("_c"));
        args.push(arg.map_err(|e| format!("{name}: {e}"))?);
    }
    if is_const {
        return Err(format!("{name}: what is const?"));
    }
    Ok(Function { name: name.to_owned(), is_called, args, result: Type::short(result)?, why: why.trim().to_owned() })
}

/// `NAME`, `NAME=TYPE` and either with `:MARK`.
fn arg(word: &str, is_const: bool, types: &mut Names, is_large: bool) -> Result<Arg, String> {
    let (word, mark) = word.split_once(':').unwrap_or((word, ""));
    let (name, own) = word.split_once('=').map_or((word, None), |(name, own)| (name, Some(own)));
    let mut arg = Arg { name: name.to_owned(), mark: mark.to_owned(), of: Type::default() };
    if !mark.is_empty() && !arg.is_out() && arg.handle().is_none() {
        return Err(format!("no mark {mark:?}"));
    }
    arg.of = match own {
        Some(_) if arg.handle().is_some() => return Err(format!("{name}: its mark tells the type")),
        None if arg.handle().is_some() => Type::short(mark)?,
        None => types.of(name, is_large).ok_or_else(|| format!("no type of {name}"))?,
        Some(own) => Type::short(own)?,
    };
    if is_const && arg.of.is_const {
        return Err(format!("{name} is const without saying so"));
    }
    arg.of.is_const |= is_const;
    Ok(arg)
}

fn check(way: Way, function: &Function) -> Result<(), String> {
    for arg in &function.args {
        let kind = arg.of.of.strip_prefix("MPI_").filter(|of| HANDLES.iter().any(|(_, kind)| kind == of));
        let right = if arg.is_out() { arg.of.depth > 0 } else { arg.handle() == kind };
        if !right {
            return Err(format!("{} is {}, marked {:?}", arg.name, arg.of, arg.mark));
        }
    }
    let mut handles = function.args.iter().filter_map(Arg::handle);
    match way {
        Way::Ours | Way::Refuse if handles.next().is_none() => Err("no argument that could be ours".to_owned()),
        // A shadow is a communicator of the MPI below, but the MPI below does not know tokens.
        Way::Native | Way::Below if handles.any(|kind| kind != "Comm") => {
            Err("a token would reach the MPI below".to_owned())
        }
        Way::Own if !function.is_called => Err("nobody calls it".to_owned()),
        Way::Own if handles.next().is_some() => Err("a program calls it with what could be ours".to_owned()),
        _ => Ok(()),
    }
}
