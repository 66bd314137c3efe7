//! What a manifest says: from the text to [`Manifest`], or to everything that is wrong with it, each with its line.
//!
//! Invariant: nothing is read but the text, and a manifest that is given back obeys all rules that need no look at the machine.

use super::choice::Program;
use super::cores::{self, Cores};
use reader::Reader;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Deref, DerefMut, Range};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

mod reader;
mod slurm;

pub use reader::{Lines, Problem};
pub use slurm::{Needs, Request};

const KEYS: [&str; 9] = ["run", "naming", "key", "ssh", "on-death", "grace", "restarts", "slurm", "job"];
const KEYS_OF_JOB: [&str; 12] = [
    "launcher",
    "ranks",
    "program",
    "host",
    "directory",
    "env",
    "cores",
    "slurm",
    "after",
    "on-death",
    "restart",
    "restarts",
];

/// It never asks for a password.
const SSH: [&str; 3] = ["ssh", "-o", "BatchMode=yes"];
/// How long jobs are given to end before they are killed.
const GRACE: f64 = 10.0;
/// How often a job is started again.
const RESTARTS: u32 = 3;

#[derive(Debug, Clone, PartialEq)]
pub struct Manifest {
    pub run: Option<String>,
    pub naming: Option<String>,
    pub key: Option<String>,
    pub at: Lines,
    /// What reaches other hosts.
    pub ssh: Vec<String>,
    /// In seconds.
    pub grace: f64,
    pub slurm: Request,
    /// In the order of the text.
    pub jobs: Vec<Job>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    pub name: String,
    pub at: Lines,
    pub launcher: Vec<String>,
    pub ranks: usize,
    pub program: Vec<String>,
    /// Further programs of the same job, of which manifests have none.
    pub more: Vec<Program>,
    /// Another than that of the command.
    pub host: Option<String>,
    pub directory: Option<String>,
    pub env: BTreeMap<String, String>,
    pub cores: Option<Cores>,
    pub slurm: Option<Needs>,
    pub after: Vec<String>,
    pub on_death: OnDeath,
    pub restart: Option<Restart>,
    pub restarts: u32,
}

/// What becomes of the other jobs when one dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnDeath {
    /// They are ended.
    End,
    /// They go on.
    Keep,
}

/// How a job that has died is started again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restart {
    /// Together with all others of this kind: they have to go on from one line.
    Checkpoint,
    /// By itself.
    Alone,
}

/// All that is wrong, in the order of lines.
pub fn read(text: &str) -> Result<Manifest, Vec<Problem>> {
    let mut reader = Whole(Reader { text, problems: Vec::new() });
    let (document, errors) = DeTable::parse_recoverable(text);
    let mut headers = Vec::new();
    for e in &errors {
        let at = e.span().unwrap_or(0..0);
        let line = reader.line(at.start);
        // The keys of a second table of one name are there twice because the table is.
        let header = text.lines().take(line).enumerate().filter(|(_, l)| l.trim_start().starts_with('[')).last();
        let header = header.map(|(number, _)| number + 1);
        if header.is_some_and(|header| header != line && headers.contains(&header)) {
            continue;
        }
        headers.extend(header.filter(|header| *header == line));
        let what = reader.syntax(&at, e.message());
        reader.problem(at, what);
    }
    // What a broken text seems to say is no help.
    let manifest = if errors.is_empty() { reader.manifest(document.get_ref()) } else { None };
    reader.problems.sort();
    reader.problems.dedup();
    match manifest {
        Some(manifest) if reader.problems.is_empty() => Ok(manifest),
        _ => Err(reader.0.problems),
    }
}

/// Words as a shell takes them apart: blanks, quotes of both kinds, backslashes. `None`: a quote is not closed.
pub fn words(line: &str) -> Option<Vec<String>> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    let mut letters = line.chars();
    while let Some(c) = letters.next() {
        match (quote, c) {
            (Some(q), c) if c == q => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (None | Some('"'), '\\') => word.get_or_insert_default().push(letters.next()?),
            _ => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    quote.is_none().then_some(words)
}

/// The reader of the keys that are here.
struct Whole<'t>(Reader<'t>);

impl<'t> Deref for Whole<'t> {
    type Target = Reader<'t>;
    fn deref(&self) -> &Reader<'t> {
        &self.0
    }
}

impl DerefMut for Whole<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl Whole<'_> {
    /// An error of the format, in our words where they say more.
    fn syntax(&self, at: &Range<usize>, said: &str) -> String {
        let line = self.text.lines().nth(self.line(at.start) - 1).unwrap_or_default().trim();
        match line.strip_prefix("[job.").and_then(|rest| rest.split(']').next()) {
            Some(name) if said.contains("duplicate") => {
                format!("two jobs are called {name}; every job needs a name of its own")
            }
            _ if said.contains("duplicate") => format!("this key is there already: {line}"),
            _ => format!("{said}: {line}"),
        }
    }

    fn manifest(&mut self, root: &DeTable<'_>) -> Option<Manifest> {
        self.keys(root, &KEYS, "");
        let on_death = self.on_death(root, "").unwrap_or(OnDeath::End);
        let restarts = self.number(root, "restarts", "", 0..=1_000_000).map_or(RESTARTS, |n| n as u32);
        let manifest = Manifest {
            run: self.string(root, "run", ""),
            naming: self.string(root, "naming", ""),
            key: self.string(root, "key", ""),
            at: self.lines(0, root),
            ssh: self.ssh(root),
            grace: self.seconds(root, "grace").unwrap_or(GRACE),
            slurm: slurm::request(self, root),
            jobs: self.jobs(root, on_death, restarts),
        };
        if let Some(key) = &manifest.key
            && !key.starts_with("file:")
        {
            let at = root.get("key").map_or(0..0, Spanned::span);
            self.problem(at, format!("key = \"{key}\": file:PATH is expected"));
        }
        if let Some(Err(e)) = manifest.run.as_deref().map(naming::run_of) {
            self.problem(root.get("run").map_or(0..0, Spanned::span), format!("run: {e}"));
        }
        if let Some(Err(e)) = manifest.naming.as_deref().map(naming::check_url) {
            self.problem(root.get("naming").map_or(0..0, Spanned::span), format!("naming: {e}"));
        }
        Some(manifest)
    }

    fn jobs(&mut self, root: &DeTable<'_>, on_death: OnDeath, restarts: u32) -> Vec<Job> {
        let Some(all) = root.get("job") else {
            self.problems.push(Problem { line: 0, what: "there is no job: each is a table, [job.air]".into() });
            return Vec::new();
        };
        let Some(tables) = all.get_ref().as_table() else {
            self.problem(all.span(), "job: tables are expected, such as [job.air]".into());
            return Vec::new();
        };
        let mut jobs = Vec::new();
        let names: BTreeSet<&str> = tables.keys().map(|key| key.get_ref().as_ref()).collect();
        // The table is sorted by names.
        let mut entries: Vec<_> = tables.iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        for (key, value) in entries {
            let Some(table) = value.get_ref().as_table() else {
                self.problem(value.span(), format!("job.{}: a table is expected, [job.{0}]", key.get_ref()));
                continue;
            };
            jobs.extend(self.job(key, table, &names, (on_death, restarts)));
        }
        self.circles(&jobs);
        jobs
    }

    fn job(
        &mut self,
        key: &Spanned<toml::de::DeString<'_>>,
        table: &DeTable<'_>,
        names: &BTreeSet<&str>,
        (on_death, restarts): (OnDeath, u32),
    ) -> Option<Job> {
        let name: &str = key.get_ref();
        let whose = format!("job '{}': ", name.escape_debug());
        if let Err(e) = naming::check_name(name) {
            self.problem(key.span(), format!("{whose}{e}"));
        }
        if name.contains(['/', '[', ']']) || name.starts_with('.') || name.ends_with(' ') {
            self.problem(
                key.span(),
                format!("{whose}a job's name here has no '/', '[' or ']', begins with no dot, and ends with no blank"),
            );
        }
        self.keys(table, &KEYS_OF_JOB, &whose);
        for needed in ["launcher", "ranks", "program"] {
            if !table.contains_key(needed) {
                let example = match needed {
                    "launcher" => "\"mpirun.openmpi\"",
                    "ranks" => "2",
                    _ => "[\"./air\", \"namelist\"]",
                };
                self.problem(key.span(), format!("{whose}'{needed}' is missing, such as {needed} = {example}"));
            }
        }
        let launcher = self.string(table, "launcher", &whose).and_then(|line| self.launcher(table, &line, &whose));
        let ranks = self.number(table, "ranks", &whose, 1..=1_000_000);
        let program = self.program(table, &whose);
        let after = self.strings(table, "after", &whose).unwrap_or_default();
        for other in after.iter().filter(|other| !names.contains(other.as_str()) || *other == name) {
            let span = table.get("after").map_or(0..0, Spanned::span);
            let which = if other == name { "that is this job itself" } else { "there is no such job" };
            self.problem(span, format!("{whose}after = \"{other}\": {which}"));
        }
        let job = Job {
            name: name.to_owned(),
            at: self.lines(self.line(key.span().start), table),
            host: self.host(table, &whose),
            directory: self.string(table, "directory", &whose),
            env: self.env(table, &whose),
            cores: self.cores(table, &whose),
            slurm: slurm::needs(self, table, &whose),
            on_death: self.on_death(table, &whose).unwrap_or(on_death),
            restart: self.restart(table, &whose),
            restarts: self.number(table, "restarts", &whose, 0..=1_000_000).map_or(restarts, |n| n as u32),
            after,
            launcher: launcher?,
            ranks: ranks? as usize,
            program: program?,
            more: Vec::new(),
        };
        Some(job)
    }

    /// The words of a launcher: with its program at the end, unless it says where the program goes.
    fn launcher(&mut self, table: &DeTable<'_>, line: &str, whose: &str) -> Option<Vec<String>> {
        let span = table.get("launcher").map_or(0..0, Spanned::span);
        let words = match words(line) {
            Some(words) if !words.is_empty() => words,
            Some(_) => {
                self.problem(span, format!("{whose}the launcher is empty; a launcher is expected, such as mpirun"));
                return None;
            }
            None => {
                self.problem(span, format!("{whose}launcher: a quote is not closed: {line}"));
                return None;
            }
        };
        for word in &words {
            let mut rest = word.as_str();
            while let Some((_, after)) = rest.split_once('{') {
                let Some((inner, behind)) = after.split_once('}') else { break };
                if !["ranks", "nodes", "program"].contains(&inner) || (inner == "program" && word != "{program}") {
                    let text = format!(
                        "{whose}launcher: {word}: only {{ranks}}, {{nodes}}, and {{program}} as a word, are filled in"
                    );
                    self.problem(span.clone(), text);
                }
                rest = behind;
            }
        }
        if words.iter().any(|w| w.contains("{ranks}")) && !words.iter().any(|w| w == "{program}") {
            self.problem(span, format!("{whose}launcher: it has {{ranks}} and no {{program}}"));
        }
        Some(words)
    }

    fn ssh(&mut self, root: &DeTable<'_>) -> Vec<String> {
        let Some(line) = self.string(root, "ssh", "") else { return SSH.map(str::to_owned).to_vec() };
        match words(&line) {
            Some(words) if !words.is_empty() => words,
            _ => {
                self.problem(
                    root.get("ssh").map_or(0..0, Spanned::span),
                    format!("ssh = {line:?}: a command is expected"),
                );
                Vec::new()
            }
        }
    }

    fn host(&mut self, table: &DeTable<'_>, whose: &str) -> Option<String> {
        let host = self.string(table, "host", whose)?;
        let span = table.get("host").map_or(0..0, Spanned::span);
        if host.is_empty() || host.starts_with('-') || host.contains(char::is_whitespace) {
            self.problem(span, format!("{whose}host = {host:?}: the name of a host is expected"));
        } else if table.get("cores").is_some_and(|cores| cores.get_ref().is_integer()) {
            self.problem(span, format!("{whose}cores: on another host a list is needed, such as \"0-3\""));
        }
        Some(host)
    }

    fn program(&mut self, table: &DeTable<'_>, whose: &str) -> Option<Vec<String>> {
        let value = table.get("program")?;
        let all = self.strings(table, "program", whose)?;
        if all.first().is_none_or(String::is_empty) {
            self.problem(value.span(), format!("{whose}program: a program is expected, such as [\"./air\"]"));
            return None;
        }
        Some(all)
    }

    fn on_death(&mut self, table: &DeTable<'_>, whose: &str) -> Option<OnDeath> {
        let said = self.word(table, "on-death", whose, &["end", "keep"])?;
        Some(if said == "keep" { OnDeath::Keep } else { OnDeath::End })
    }

    fn restart(&mut self, table: &DeTable<'_>, whose: &str) -> Option<Restart> {
        let said = self.word(table, "restart", whose, &["checkpoint", "alone"])?;
        Some(if said == "alone" { Restart::Alone } else { Restart::Checkpoint })
    }

    fn cores(&mut self, table: &DeTable<'_>, whose: &str) -> Option<Cores> {
        let value = table.get("cores")?;
        let read = match value.get_ref() {
            DeValue::Integer(_) => {
                return self.number(table, "cores", whose, 1..=1_000_000).map(|n| Cores::Some(n as usize));
            }
            DeValue::String(text) => cores::list(text),
            _ => None,
        };
        if read.is_none() {
            let text = format!("{whose}cores: a number of cores or a list of them is expected, such as 2 or \"0-3,8\"");
            self.problem(value.span(), text);
        }
        read.map(Cores::These)
    }

    fn env(&mut self, table: &DeTable<'_>, whose: &str) -> BTreeMap<String, String> {
        let mut env = BTreeMap::new();
        let Some(value) = table.get("env") else { return env };
        let Some(variables) = value.get_ref().as_table() else {
            self.problem(
                value.span(),
                format!("{whose}env: a table is expected, such as {{ OMP_NUM_THREADS = \"4\" }}"),
            );
            return env;
        };
        for (name, value) in variables {
            let text = match value.get_ref() {
                DeValue::String(text) => text.to_string(),
                DeValue::Integer(n) => n.to_string(),
                _ => {
                    self.problem(value.span(), format!("{whose}env.{}: a text is expected", name.get_ref()));
                    continue;
                }
            };
            if name.get_ref().is_empty() || name.get_ref().contains(['=', '\0']) {
                self.problem(name.span(), format!("{whose}env: {:?} is no name of a variable", name.get_ref()));
            }
            if text.contains('\0') {
                self.problem(value.span(), format!("{whose}env.{}: no value of a variable has a NUL", name.get_ref()));
            }
            if let Some(complaint) = base::settings::complaint(name.get_ref(), &text) {
                self.problem(name.span(), format!("{whose}{complaint}"));
            }
            let ours = [base::settings::NAMING, base::settings::RUN, base::settings::KEY];
            if ours.contains(&name.get_ref().as_ref()) {
                let text =
                    format!("{whose}{} is the same for all jobs: it stands above them, not in env", name.get_ref());
                self.problem(name.span(), text);
            }
            env.insert(name.get_ref().to_string(), text);
        }
        env
    }

    /// Jobs that wait for each other.
    fn circles(&mut self, jobs: &[Job]) {
        let mut startable = BTreeSet::new();
        while let Some(next) = jobs.iter().find(|job| {
            !startable.contains(job.name.as_str()) && job.after.iter().all(|other| startable.contains(other.as_str()))
        }) {
            startable.insert(next.name.as_str());
        }
        let known = |name: &String| jobs.iter().any(|job| job.name == *name);
        let stuck: Vec<_> = jobs.iter().filter(|job| !startable.contains(job.name.as_str())).collect();
        if let [first, _, ..] = stuck[..]
            && stuck.iter().all(|job| job.after.iter().all(known))
        {
            let names: Vec<_> = stuck.iter().map(|job| job.name.as_str()).collect();
            let what = format!("these jobs wait for each other (after), and none can begin: {}", names.join(", "));
            self.problems.push(Problem { line: first.at.begin, what });
        }
    }
}

#[cfg(test)]
#[path = "manifest_tests.rs"]
mod tests;
