//! What the jobs print, line by line, and what happens to them: for people, or as one JSON object a line.
//!
//! Invariants: a line is written by one call, so lines never mix; what a job has printed behind its last line end is written too.
//! Whoever puts something out never waits for its reader: threads write. That something cannot be written is told at once.

use serde_json::{Value, json};
use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The longest line. Of a longer one each part of this length is a line.
const MAX_LINE: usize = 1 << 20;

/// One of the two that a process writes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    Out,
    Err,
}

/// While so many bytes wait for their reader, nothing more is read of what the jobs print.
const MOST_WAITING: usize = 8 << 20;

/// What waits to be written to stdout, or to stderr.
#[derive(Default)]
struct Waiting {
    text: Vec<u8>,
    /// Bytes, with those that are being written.
    bytes: usize,
}

struct Writer {
    waiting: Mutex<Waiting>,
    /// There is something to be written, or something was written.
    news: Condvar,
}

static WRITERS: [Writer; 2] = [const { Writer::new() }; 2];

impl Writer {
    const fn new() -> Writer {
        Writer { waiting: Mutex::new(Waiting { text: Vec::new(), bytes: 0 }), news: Condvar::new() }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, text: &[u8]) {
        let mut waiting = self.waiting();
        waiting.text.extend_from_slice(text);
        waiting.bytes += text.len();
        self.news.notify_all();
    }

    /// The jobs go on when nobody reads any more, and when the disk is full.
    fn write(&self, to: &mut impl Write) {
        loop {
            let waiting = self.news.wait_while(self.waiting(), |waiting| waiting.text.is_empty());
            let text = std::mem::take(&mut waiting.unwrap_or_else(PoisonError::into_inner).text);
            crate::output::wrote(to.write_all(&text).and_then(|()| to.flush()));
            if let Some(trouble) = crate::output::untold() {
                say(&trouble);
            }
            self.waiting().bytes -= text.len();
            self.news.notify_all();
        }
    }

    /// Waits until all is written, or as long as is given.
    fn end(&self, until: Option<Instant>) {
        let mut waiting = self.waiting();
        while waiting.bytes > 0 {
            let left = until.map_or(Duration::from_secs(1), |until| until.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return;
            }
            waiting = self.news.wait_timeout(waiting, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// Starts what writes. Before that, what is put out waits.
pub fn begin() -> io::Result<()> {
    let [out, err] = &WRITERS;
    thread::Builder::new().name("stdout".into()).spawn(|| out.write(&mut io::stdout()))?;
    thread::Builder::new().name("stderr".into()).spawn(|| err.write(&mut io::stderr()))?;
    Ok(())
}

/// Puts out what the command says besides events, for people.
pub fn say(text: &str) {
    WRITERS[1].put(format!("mpi-connect: {text}\n").as_bytes());
}

/// Whether so much waits for its reader that no more should be put out.
pub fn is_full() -> bool {
    WRITERS.iter().any(|writer| writer.waiting().bytes >= MOST_WAITING)
}

/// Waits until all is written. `limit`: no longer than that.
pub fn end(limit: Option<Duration>) {
    let until = limit.map(|limit| Instant::now() + limit);
    WRITERS.iter().for_each(|writer| writer.end(until));
}

/// The longest event that comes from another host: such a line with every byte of it escaped.
const MAX_EVENT: usize = 8 << 20;

/// Makes lines of what is read of a stream.
pub struct Lines {
    kept: Vec<u8>,
    most: usize,
}

impl Default for Lines {
    fn default() -> Lines {
        Lines { kept: Vec::new(), most: MAX_LINE }
    }
}

impl Lines {
    pub fn of_events() -> Lines {
        Lines { kept: Vec::new(), most: MAX_EVENT }
    }

    pub fn push(&mut self, bytes: &[u8], mut line: impl FnMut(&[u8])) {
        // Looked at once: what is kept has no line end.
        let from = self.kept.len();
        self.kept.extend_from_slice(bytes);
        let (mut begin, mut at) = (0, from);
        while at < self.kept.len() {
            let is_end = self.kept[at] == b'\n';
            if is_end || at - begin + 1 >= self.most {
                line(&self.kept[begin..if is_end { at } else { at + 1 }]);
                begin = at + 1;
            }
            at += 1;
        }
        self.kept.drain(..begin);
    }

    /// What stands behind the last line end.
    pub fn end(&mut self, mut line: impl FnMut(&[u8])) {
        if !self.kept.is_empty() {
            line(&std::mem::take(&mut self.kept));
        }
    }
}

/// What happens.
#[derive(Debug)]
pub enum Event<'a> {
    Started {
        job: &'a str,
        attempt: u32,
        ranks: usize,
        cores: Option<String>,
        process: u32,
        command: &'a str,
    },
    /// How many ranks have begun: for the other end of a connection.
    Begun {
        ranks: usize,
    },
    Registered {
        job: &'a str,
        name: &'a str,
        mpi: &'a str,
        awaited: &'a [&'a str],
    },
    Joined {
        jobs: [&'a str; 2],
    },
    Exited {
        job: &'a str,
        status: u8,
        signal: Option<&'a str>,
        why: &'a str,
    },
    Restarting {
        jobs: &'a [&'a str],
        attempt: u32,
        most: u32,
    },
    Signal {
        name: &'a str,
        ranks: usize,
    },
    Ending {
        why: &'a str,
    },
    NotStarted {
        job: &'a str,
    },
    Killing {
        job: &'a str,
        processes: usize,
    },
    Ended {
        status: u8,
        why: &'a str,
    },
}

/// Who reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Text,
    /// Nothing but what the jobs print, as it is: for whoever has the output of a job of MPI_Comm_spawn.
    Bare,
    Json,
}

impl Format {
    /// A line of a job: of one of its ranks, or of its launcher.
    pub fn line(self, job: &str, rank: Option<usize>, stream: Stream, line: &[u8]) {
        if self == Format::Json {
            let name = if stream == Stream::Out { "stdout" } else { "stderr" };
            let line = String::from_utf8_lossy(line);
            return put(&json!({"event": "output", "job": job, "rank": rank, "stream": name, "line": line}));
        }
        let text = if self == Format::Bare { [line, b"\n"].concat() } else { prefixed(job, rank, line) };
        if self == Format::Bare && (rank.is_none() || stream == Stream::Err) {
            keep(line);
        }
        let [out, err] = &WRITERS;
        if stream == Stream::Out { out.put(&text) } else { err.put(&text) }
    }

    pub fn event(self, event: &Event<'_>) {
        match self {
            Format::Text => say(&told(event)),
            Format::Bare => {}
            Format::Json => {
                let mut line = object(event);
                line["time"] = crate::time::utc(naming::now()).into();
                put(&line);
            }
        }
    }
}

/// Lines that are kept of what launchers and programs have complained of last.
const MOST_LAST: usize = 12;

static LAST: Mutex<VecDeque<String>> = Mutex::new(VecDeque::new());

fn keep(line: &[u8]) {
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    if last.len() == MOST_LAST {
        last.pop_front();
    }
    let text: String = String::from_utf8_lossy(line).chars().take(MOST_SAID).collect();
    if !text.trim().is_empty() {
        last.push_back(text);
    }
}

/// Characters of each of these lines.
const MOST_SAID: usize = 300;

/// This, and behind it the lines that were printed last.
pub fn with_last(text: &str) -> String {
    let last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    if last.is_empty() {
        return text.to_owned();
    }
    let lines: Vec<&str> = last.iter().map(String::as_str).collect();
    format!("{text}; it has said:\n{}", lines.join("\n"))
}

fn put(line: &Value) {
    WRITERS[0].put(format!("{line}\n").as_bytes());
}

fn counted(number: usize, what: &str) -> String {
    if number == 1 {
        format!("1 {what}")
    } else {
        format!("{number} {what}{}", if what.ends_with('s') { "es" } else { "s" })
    }
}

fn prefixed(job: &str, rank: Option<usize>, line: &[u8]) -> Vec<u8> {
    let who = rank.map_or_else(|| format!("[{job}] "), |rank| format!("[{job} {rank}] "));
    [who.as_bytes(), line, b"\n"].concat()
}

fn list(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [one] => (*one).into(),
        [all @ .., last] => format!("{} and {last}", all.join(", ")),
    }
}

fn told(event: &Event<'_>) -> String {
    match event {
        Event::Started { job, attempt, ranks, cores, .. } => {
            let again = if *attempt > 0 { " again" } else { "" };
            let ranks = counted(*ranks, "rank");
            let cores = cores.as_ref().map(|cores| format!(" on cores {cores}")).unwrap_or_default();
            format!("{job} is started{again}: {ranks}{cores}")
        }
        Event::Registered { job, name, mpi, awaited } => {
            let as_name = if job == name { String::new() } else { format!(" '{name}'") };
            let awaited =
                if awaited.is_empty() { "all are there".into() } else { format!("awaited: {}", awaited.join(", ")) };
            format!("{job} has registered{as_name} under {mpi}; {awaited}")
        }
        Event::Begun { ranks } => format!("{} begun", counted(*ranks, "rank")),
        Event::Joined { jobs: [a, b] } => format!("{a} and {b} are joined"),
        Event::Exited { job, why, .. } => format!("{job} {why}"),
        Event::Restarting { jobs, attempt, most } => {
            format!(
                "{} to be started again, {attempt} of {most} times",
                list(jobs) + if jobs.len() == 1 { " is" } else { " are" }
            )
        }
        Event::Signal { name, ranks } => format!("{name} goes to {}", counted(*ranks, "rank")),
        Event::Ending { why } => format!("all jobs are ended: {why}"),
        Event::NotStarted { job } => format!("{job} was not started"),
        Event::Killing { job, processes } => {
            format!("{job} has not ended in time: killing {}", counted(*processes, "process"))
        }
        Event::Ended { why, .. } => (*why).to_owned(),
    }
}

fn object(event: &Event<'_>) -> Value {
    match event {
        Event::Started { job, attempt, ranks, cores, process, command } => {
            let (name, pid) = (if *attempt > 0 { "restarted" } else { "started" }, process);
            json!({"event": name, "job": job, "attempt": attempt, "ranks": ranks, "cores": cores, "pid": pid, "command": command})
        }
        Event::Registered { job, name, mpi, awaited } => {
            json!({"event": "registered", "job": job, "name": name, "mpi": mpi, "awaited": awaited})
        }
        Event::Begun { ranks } => json!({"event": "begun", "ranks": ranks}),
        Event::Joined { jobs } => json!({"event": "joined", "jobs": jobs}),
        Event::Exited { job, status, signal, .. } => {
            json!({"event": "exited", "job": job, "status": status, "signal": signal})
        }
        Event::Restarting { jobs, attempt, most } => {
            json!({"event": "restarting", "jobs": jobs, "attempt": attempt, "most": most})
        }
        Event::Signal { name, ranks } => json!({"event": "signal", "signal": name, "ranks": ranks}),
        Event::Ending { why } => json!({"event": "ending", "why": why}),
        Event::NotStarted { job } => json!({"event": "not-started", "job": job}),
        Event::Killing { job, processes } => json!({"event": "killing", "job": job, "processes": processes}),
        Event::Ended { status, .. } => json!({"event": "ended", "status": status}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(parts: &[&[u8]]) -> Vec<String> {
        let (mut lines, mut all) = (Lines::default(), Vec::new());
        let mut keep = |line: &[u8]| all.push(String::from_utf8_lossy(line).into_owned());
        for part in parts {
            lines.push(part, &mut keep);
        }
        lines.end(&mut keep);
        all
    }

    #[test]
    fn lines_are_whole_and_the_last_one_is_kept() {
        assert_eq!(lines(&[b"a", b"b\n\nc", b"d\ne"]), ["ab", "", "cd", "e"]);
        assert_eq!(lines(&[b"a\n"]), ["a"]);
        assert_eq!(lines(&[]), [""; 0]);
        let long = vec![b'x'; MAX_LINE + 5];
        let got = lines(&[&long, b"\ny"]);
        assert_eq!(got.iter().map(String::len).collect::<Vec<_>>(), [MAX_LINE, 5, 1]);
    }

    #[test]
    fn lines_say_whose_they_are() {
        assert_eq!(prefixed("air", Some(3), b"x"), b"[air 3] x\n");
        assert_eq!(prefixed("air", None, b""), b"[air] \n");
    }

    #[test]
    fn events_are_told() {
        let said = told(&Event::Registered { job: "air", name: "air", mpi: "LAM 7.1", awaited: &["ocean", "ice"] });
        assert_eq!(said, "air has registered under LAM 7.1; awaited: ocean, ice");
        let said = told(&Event::Restarting { jobs: &["air", "ocean"], attempt: 1, most: 3 });
        assert_eq!(said, "air and ocean are to be started again, 1 of 3 times");
    }
}
