// Reads `functions.txt`. Used by build.rs, which makes the entry points from it, and by the tests that compare the table
// with the headers and with docs/coverage.md.
// Invariant: what `parse` gives has each function once, with a reason, and no token goes where none is looked for.
#![allow(dead_code)] // Each of them uses a part.

#[derive(PartialEq, Clone, Copy, Debug)]
pub enum Way {
    Always,
    Ours,
    Native,
    Refuse,
    Convert,
    Below,
}

pub struct Section {
    pub way: Way,
    pub title: String,
    pub why: String,
    pub functions: Vec<Function>,
}

pub struct Function {
    pub name: String,
    pub args: Vec<Arg>,
    /// A reason of its own, beside the section's.
    pub why: String,
}

pub struct Arg {
    pub name: String,
    /// "" when there is none.
    pub mark: String,
}

/// The marks of handles, and what they hold: all that is looked at.
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
    /// What kind of handle the argument brings in.
    pub fn handle(&self) -> Option<&'static str> {
        HANDLES.iter().find(|(mark, _)| *mark == self.mark).map(|(_, kind)| *kind)
    }

    pub fn is_out(&self) -> bool {
        self.mark == "Out"
    }
}

impl Function {
    /// The name in C. Extensions stand in the table by what follows `MPI`.
    pub fn c_name(&self) -> String {
        let extension = ["X_", "L_", "O_", "R_"].iter().any(|prefix| self.name.starts_with(prefix));
        format!("MPI{}{}", if extension { "" } else { "_" }, self.name)
    }
}

/// The table by sections, or what is wrong with it.
pub fn parse(table: &str) -> Result<Vec<Section>, String> {
    let mut sections: Vec<Section> = Vec::new();
    let mut names = std::collections::HashSet::new();
    for line in table.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#')) {
        if let Some(head) = line.strip_prefix("==") {
            sections.push(section(head)?);
            continue;
        }
        let section = sections.last_mut().ok_or_else(|| format!("{line}: in no section"))?;
        let function = function(line);
        check(section.way, &function).map_err(|e| format!("{}: {e}", function.name))?;
        if !names.insert(function.name.clone()) {
            return Err(format!("{}: twice", function.name));
        }
        section.functions.push(function);
    }
    match sections.iter().find(|s| s.functions.is_empty()) {
        Some(empty) => Err(format!("{}: a section without functions", empty.title)),
        None => Ok(sections),
    }
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
        other => return Err(format!("{title}: no way {other:?}")),
    };
    if title.is_empty() || why.is_empty() {
        return Err(format!("=={head}: what, and why?"));
    }
    Ok(Section { way, title: title.to_owned(), why: why.to_owned(), functions: Vec::new() })
}

fn function(line: &str) -> Function {
    let (row, why) = line.split_once("--").unwrap_or((line, ""));
    let mut words = row.split_whitespace();
    let name = words.next().unwrap_or_default().to_owned();
    let arg = |word: &str| {
        let (name, mark) = word.split_once(':').unwrap_or((word, ""));
        Arg { name: name.to_owned(), mark: mark.to_owned() }
    };
    Function { name, args: words.map(arg).collect(), why: why.trim().to_owned() }
}

fn check(way: Way, function: &Function) -> Result<(), String> {
    for arg in &function.args {
        if !arg.mark.is_empty() && !arg.is_out() && arg.handle().is_none() {
            return Err(format!("no mark {:?}", arg.mark));
        }
    }
    let mut handles = function.args.iter().filter_map(Arg::handle);
    match way {
        Way::Ours | Way::Refuse if handles.next().is_none() => Err("no argument that could be ours".to_owned()),
        // A carrier is a communicator of the MPI below. Tokens are nothing that it knows.
        Way::Native | Way::Below if handles.any(|kind| kind != "Comm") => {
            Err("a token would reach the MPI below".to_owned())
        }
        _ => Ok(()),
    }
}
