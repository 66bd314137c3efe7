//! Writes `docs/ports.md`: what becomes of every server with every client at MPI's own ports, with the library and as the
//! MPIs were found. `make ports-table` runs it.

use c_tests::ports::{self, By, HELP, Outcome, try_helped, try_pair};
use c_tests::{Library, MPIS, Mpi, root};
use std::time::Duration;

/// With the library nothing is expected to fail; a cell takes a second or two.
const PATIENCE: Duration = Duration::from_secs(60);
/// Without it much waits for ever.
const LIMIT: Duration = Duration::from_secs(15);
/// A cell that passes as found is tried so many times: some do not always.
const TRIES: usize = 5;

/// What a cell says, and the reason below the table, if there is one.
struct Cell {
    sign: String,
    reason: Option<String>,
}

fn reason(outcome: &Outcome) -> Option<String> {
    match outcome {
        Outcome::Passed(_) => None,
        Outcome::Failed { who, step, said } => Some(format!("the {who}, in {step}: `{}`", without_numbers(said))),
        Outcome::Hung(all) => {
            let each = all.iter().map(|(who, step)| format!("the {who} hangs in {step}"));
            Some(each.collect::<Vec<_>>().join(", "))
        }
    }
}

/// Numbers of processes, ports and source lines differ from run to run: equal reasons look equal without them.
fn without_numbers(text: &str) -> String {
    let mut out = String::new();
    let here = root().display().to_string();
    for word in text.replace('`', "'").replace(&here, "").split_whitespace() {
        let digits = word.chars().filter(char::is_ascii_digit).count();
        let word = if digits > 2 { word.replace(|c: char| c.is_ascii_digit(), "#") } else { word.into() };
        out += if out.is_empty() { "" } else { " " };
        out += &word;
    }
    let end = out.char_indices().nth(150).map_or(out.len(), |(at, _)| at);
    if end < out.len() { format!("{}...", &out[..end]) } else { out }
}

fn with_library(server: &Mpi, client: &Mpi, by: By) -> Cell {
    let outcome = try_pair(server, client, by, Library::Preloaded, PATIENCE);
    Cell { sign: if let Outcome::Passed(_) = outcome { "yes".into() } else { String::new() }, reason: reason(&outcome) }
}

fn as_found(server: &Mpi, client: &Mpi, by: By) -> Cell {
    let mut passed = 0;
    let mut worst = None;
    let lost = ["`nothing", "application called MPI_Abort"];
    for _ in 0..TRIES {
        let outcome = try_pair(server, client, by, Library::None, LIMIT);
        match reason(&outcome) {
            None => passed += 1,
            // The launcher sometimes loses what was printed last.
            Some(said) if lost.iter().any(|word| said.contains(word)) && worst.is_none() => worst = Some(said),
            Some(said) => {
                worst = Some(said);
                break;
            }
        }
    }
    let sign = match passed {
        0 => String::new(),
        TRIES => "yes".into(),
        some => format!("{some}x, then"),
    };
    Cell { sign, reason: worst }
}

/// Signs of reasons, in the order in which they were met: a, b, … z, aa, ab, ….
#[derive(Default)]
struct Reasons(Vec<String>);

impl Reasons {
    fn sign(&mut self, reason: String) -> String {
        let known = self.0.iter().position(|r| *r == reason);
        let at = known.unwrap_or_else(|| {
            self.0.push(reason);
            self.0.len() - 1
        });
        let letter = |n: usize| char::from(b'a' + n as u8);
        if at < 26 { letter(at).into() } else { format!("{}{}", letter(at / 26 - 1), letter(at % 26)) }
    }

    fn cell(&mut self, cell: Cell) -> String {
        let reason = cell.reason.map(|r| self.sign(r)).unwrap_or_default();
        format!("{} {reason}", cell.sign).trim().to_owned()
    }

    fn list(&self) -> String {
        let mut copy = Reasons(self.0.clone());
        let line = |reason: &String| format!("- {}: {reason}\n", copy.sign(reason.clone()));
        self.0.iter().map(line).collect()
    }
}

/// A table of all pairs, and the cells by name below it.
fn table(run: impl Fn(&Mpi, &Mpi, By) -> Cell) -> String {
    let mut reasons = Reasons::default();
    let mut row = |name: &str, by: By, clients: &mut dyn Iterator<Item = &&'static Mpi>, server: Option<&Mpi>| {
        let cells = clients.map(|client| reasons.cell(run(server.unwrap_or(client), client, by)));
        format!("| {name} | {} |\n", cells.collect::<Vec<_>>().join(" | "))
    };
    let mut rows = String::new();
    for server in MPIS.iter() {
        rows += &row(&format!("{} {}", server.sign, server.name), By::File, &mut MPIS.iter(), Some(server));
    }
    rows += &row("by name, with itself", By::Name, &mut MPIS.iter(), None);
    let head: Vec<_> = MPIS.iter().map(|m| m.sign).collect();
    format!("| | {} |\n|---|{}\n{rows}\n{}", head.join(" | "), "---|".repeat(head.len()), reasons.list())
}

/// What the MPIs offer for it by themselves, each with itself.
fn helped() -> String {
    let named = |name| MPIS.iter().any(|m| m.name == name);
    let line = |help: &ports::Help| {
        let outcome = try_helped(help, LIMIT);
        let how = reason(&outcome).unwrap_or_else(|| "passes".into());
        format!("- {}, {}: {how}\n", help.mpi, help.what)
    };
    HELP.iter().filter(|help| named(help.mpi)).map(line).collect()
}

fn main() {
    let versions: String = MPIS.iter().map(|m| format!("- {} {}: {}\n", m.sign, m.name, ports::version(m))).collect();
    let with = table(with_library);
    let found = table(as_found);
    let page = include_str!("../ports_page.md")
        .replace("{{versions}}", versions.trim_end())
        .replace("{{with}}", with.trim_end())
        .replace("{{found}}", found.trim_end())
        .replace("{{helped}}", helped().trim_end());
    let path = root().join("docs/ports.md");
    std::fs::write(&path, page).expect("docs/ports.md");
    println!("{} is written", path.display());
}
