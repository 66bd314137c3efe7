//! A job on another host: `ssh` starts this command there, for that job alone, and the two speak by the connection.
//!
//! What goes there: a manifest of one job as a JSON text on a line, then a line for each signal. What comes back: the events of
//! `--json`. Invariant: the end of the connection is an order to end, so nothing outlives it there.

use super::manifest::{Job, Manifest};
use super::place::Place;
use crate::run::quote;
use nix::sys::signal::Signal;
use serde_json::Value;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::process::ChildStdin;

/// Bytes of a manifest of one job, as it comes by a connection.
const MAX_MANIFEST: usize = 1 << 20;

/// How a job is started elsewhere.
#[derive(Debug, Clone, PartialEq)]
pub struct There {
    pub host: String,
    pub words: Vec<String>,
    /// What is started there.
    pub manifest: String,
}

impl There {
    /// `ssh`: the words that reach the host.
    pub fn of(job: &Job, manifest: &Manifest, host: &str, (ssh, place): (&[String], &Place<'_>)) -> There {
        let mut words = ssh.to_vec();
        // A shell takes them apart once more.
        words.extend([host.to_owned(), quote(&place.command), "launch".into(), "--there".into()]);
        There { host: host.to_owned(), words, manifest: text(job, manifest, place) }
    }
}

/// The manifest of one job. A text of JSON is one of TOML too.
fn text(job: &Job, manifest: &Manifest, place: &Place<'_>) -> String {
    let quoted = |text: &str| Value::from(text).to_string();
    let list = |all: &[String]| format!("[{}]", all.iter().map(|one| quoted(one)).collect::<Vec<_>>().join(", "));
    let directory = place.folder.join(job.directory.as_deref().unwrap_or("."));
    let directory: std::path::PathBuf = directory.components().collect();
    let mut text = format!("run = {}\nnaming = {}\n", quoted(&place.run), quoted(&place.naming));
    if let Some(key) = &place.key {
        let _ = writeln!(text, "key = {}", quoted(key));
    }
    let _ = writeln!(text, "grace = {}\n[job.{}]", manifest.grace, quoted(&job.name));
    let _ = writeln!(text, "launcher = {}\nranks = {}", quoted(&joined(&job.launcher)), job.ranks);
    let _ = writeln!(text, "program = {}\ndirectory = {}", list(&job.program), quoted(&directory.to_string_lossy()));
    let env: Vec<_> = job.env.iter().map(|(name, value)| format!("{} = {}", quoted(name), quoted(value))).collect();
    let _ = writeln!(text, "env = {{ {} }}", env.join(", "));
    if let Some(super::cores::Cores::These(cores)) = &job.cores {
        let _ = writeln!(text, "cores = {}", quoted(&super::cores::text(cores)));
    }
    text
}

/// Words as one line that is taken apart the same.
fn joined(words: &[String]) -> String {
    let quoted = |word: &String| format!("'{}'", word.replace('\'', "'\\''"));
    words.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

/// The near end of a connection.
pub struct Near {
    stdin: ChildStdin,
    /// How many ranks have begun, and the exit status of the job, as far as they were told.
    pub begun: usize,
    pub status: Option<u8>,
    is_ending: bool,
    /// The exit status of the launch there, if all of it was ended.
    pub stopped: Option<u8>,
}

impl Near {
    pub fn begin(mut stdin: ChildStdin, there: &There) -> io::Result<Near> {
        writeln!(stdin, "{}", Value::from(there.manifest.as_str()))?;
        Ok(Near { stdin, begun: 0, status: None, is_ending: false, stopped: None })
    }

    /// Whether the signal could be sent.
    pub fn signal(&self, signal: Signal) -> bool {
        (&self.stdin).write_all(format!("{}\n", signal as i32).as_bytes()).is_ok()
    }

    /// An event; a line of the job's output is given back: its rank, whether it is of stdout, and the text.
    pub fn heard(&mut self, line: &[u8]) -> Option<(Option<usize>, bool, String)> {
        let event: Value = serde_json::from_slice(line).ok()?;
        match event["event"].as_str()? {
            "output" => {
                let rank = event["rank"].as_u64().map(|rank| rank as usize);
                return Some((rank, event["stream"] == "stdout", event["line"].as_str()?.to_owned()));
            }
            "begun" => self.begun = event["ranks"].as_u64()? as usize,
            "exited" => self.status = Some(event["status"].as_u64()? as u8),
            "ending" => self.is_ending = true,
            "ended" if self.is_ending => self.stopped = Some(event["status"].as_u64()? as u8),
            _ => {}
        }
        None
    }
}

/// The far end. Not by `Stdin`, which keeps in a buffer what nobody is woken for.
pub fn far() -> io::Result<File> {
    Ok(File::from(io::stdin().as_fd().try_clone_to_owned()?))
}

/// What comes first.
pub fn manifest(from: &File) -> io::Result<String> {
    let (mut line, mut byte) = (Vec::new(), [0]);
    while line.len() < MAX_MANIFEST && (&mut &*from).read(&mut byte)? == 1 && byte[0] != b'\n' {
        line.push(byte[0]);
    }
    serde_json::from_slice(&line).map_err(io::Error::from)
}

/// The signals that have come since; `None` at the end of the connection.
pub fn orders(from: &File) -> Option<Vec<Signal>> {
    let mut text = [0; 256];
    let n = (&mut &*from).read(&mut text).ok().filter(|n| *n > 0)?;
    let text = String::from_utf8_lossy(&text[..n]);
    Some(text.lines().filter_map(|line| Signal::try_from(line.parse::<i32>().ok()?).ok()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::manifest;

    #[test]
    fn what_is_sent_says_the_same() {
        let said = "naming = 'tcp://a:1'\n[job.'sea ice']\nhost = 'n1'\nlauncher = \"mpirun -x 'a b' {program}\"\nranks = 2\n\
                    program = ['./ice', '\"x\"\\']\nenv = { A = \"b\\tc\" }\ncores = '0-1'\n";
        let whole = manifest::read(said).unwrap();
        let place = Place {
            folder: std::path::Path::new("/home"),
            command: "/bin/mpi-connect".into(),
            naming: "tcp://a:1".into(),
            private: String::new(),
            key: Some("file:/k".into()),
            run: "r".into(),
            cores: Default::default(),
            allocation: None,
            variables: Vec::new(),
            recognise: |_, _| Ok(crate::launcher::Kind::Plain),
        };
        let there = There::of(&whole.jobs[0], &whole, "n1", (&whole.ssh, &place));
        assert_eq!(there.words, ["ssh", "-o", "BatchMode=yes", "n1", "/bin/mpi-connect", "launch", "--there"]);
        let sent = manifest::read(&there.manifest).unwrap();
        let mut job = whole.jobs[0].clone();
        (job.host, job.at, job.directory) = (None, sent.jobs[0].at.clone(), Some("/home".into()));
        assert_eq!(sent.jobs, [job]);
        assert_eq!((sent.run.as_deref(), sent.key.as_deref(), sent.grace), (Some("r"), Some("file:/k"), 10.0));
    }
}
