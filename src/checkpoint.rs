//! `mpi-connect checkpoint`: what is in a folder with checkpoints, whether it is whole, and what can go.

use crate::output;
use crate::shown::printable;
use checkpoint::{Found, Head, LineId, Store, StoreError, jobs};
use clap::{Args as ClapArgs, Subcommand};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

#[derive(ClapArgs)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// List the checkpoints of all jobs in a folder, the newest first
    Ls {
        /// The folder that the programs pass to MPI_Conn_checkpoint
        folder: PathBuf,
    },
    /// Read every image whole: is it all there, and unchanged?
    Verify {
        /// The folder that the programs pass to MPI_Conn_checkpoint
        folder: PathBuf,
    },
    /// Remove checkpoints that are older than the newest one that all of its jobs have whole
    Rm {
        /// The folder that the programs pass to MPI_Conn_checkpoint
        folder: PathBuf,
        /// Remove all
        #[arg(long)]
        all: bool,
    },
}

/// What one line of a job has.
struct Line {
    found: Found,
    head: Option<Head>,
    bytes: u64,
    /// Why it cannot be used, or what is missing.
    faults: Vec<String>,
    /// Something is there, and is not what was written.
    is_damaged: bool,
}

impl Line {
    fn damaged(&mut self, what: String) {
        self.is_damaged = true;
        self.faults.push(what);
    }

    /// The job: the folder has its name, also where no image can be read.
    fn job(&self) -> String {
        let folder =
            self.found.folder.parent().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
        self.head.as_ref().map(|head| head.job.clone()).or(folder).unwrap_or_default()
    }

    /// It is complete on all sides, and whole here.
    fn is_good(&self) -> bool {
        self.found.complete && self.faults.is_empty()
    }

    fn state(&self) -> &'static str {
        match (self.faults.is_empty(), self.found.complete) {
            (true, true) => "complete",
            // Whether the other jobs have theirs is known to them alone.
            (true, false) => "written",
            (false, false) if !self.is_damaged => "unfinished",
            _ => "damaged",
        }
    }
}

/// Does it. `false`: something is missing or damaged.
pub fn checkpoint(args: &Args) -> Result<bool, StoreError> {
    match &args.what {
        What::Ls { folder } => show(&all(folder, false)?),
        What::Verify { folder } => show(&all(folder, true)?),
        What::Rm { folder, all: every } => remove(folder, *every),
    }
}

/// The lines of all jobs in a folder.
fn all(folder: &Path, whole: bool) -> Result<Vec<Line>, StoreError> {
    let mut lines = Vec::new();
    for store in jobs(folder)? {
        lines.extend(of_store(&store, whole)?);
    }
    Ok(lines)
}

/// A job that runs may have renamed or removed a line before all of it was looked at: that is no fault, and another look shows
/// what there is.
fn of_store(store: &Store, whole: bool) -> Result<Vec<Line>, StoreError> {
    let lines = store.lines()?.into_iter().map(|found| look(found, whole));
    Ok(lines.filter(|line| line.faults.is_empty() || line.found.folder.is_dir()).collect())
}

/// Looks at the images of a line: at the head of each, or at all of it.
fn look(found: Found, whole: bool) -> Line {
    let mut line = Line { head: None, bytes: 0, faults: Vec::new(), is_damaged: false, found };
    let (ranks, halves) = match line.found.ranks() {
        Ok(both) => both,
        Err(e) => {
            line.damaged(e.to_string());
            return line;
        }
    };
    for rank in &ranks {
        // What cannot be read at its head is told once.
        match line.found.head(*rank) {
            Ok(Some((head, bytes))) => {
                line.bytes += bytes;
                if head.rank != *rank || line.head.as_ref().is_some_and(|first| !first.is_beside(&head)) {
                    line.damaged(format!("rank {rank}: an image of something else"));
                }
                line.head.get_or_insert(head);
                if whole && let Err(e) = line.found.image(*rank) {
                    line.damaged(e.to_string());
                }
            }
            Ok(None) => line.damaged(format!("rank {rank} is missing")),
            Err(e) => line.damaged(e.to_string()),
        }
    }
    for rank in &halves {
        line.faults.push(format!("rank {rank} is half-written: its process writes still, or died meanwhile"));
    }
    let size = line.head.as_ref().map_or(0, |head| head.size);
    let missing: Vec<u32> = (0..size).filter(|rank| !ranks.contains(rank) && !halves.contains(rank)).collect();
    if let Some(first) = missing.first() {
        line.faults.push(format!("{} of {size} ranks are missing, the first is {first}", missing.len()));
    }
    if ranks.is_empty() && halves.is_empty() {
        line.faults.push("there is no image".into());
    }
    line
}

fn show(lines: &[Line]) -> Result<bool, StoreError> {
    let is_whole = lines.iter().all(|line| line.state() != "damaged");
    output::wrote(write(&mut std::io::stdout().lock(), lines));
    Ok(is_whole)
}

fn write(to: &mut dyn Write, lines: &[Line]) -> std::io::Result<()> {
    if lines.is_empty() {
        return writeln!(to, "no checkpoints");
    }
    writeln!(to, "{:<16} {:>6} {:<20} {:>6} {:>12}  {:<10} WITH", "JOB", "NUMBER", "LABEL", "RANKS", "BYTES", "STATE")?;
    for line in lines {
        let none = BTreeSet::new();
        let (label, size, jobs) = match &line.head {
            Some(head) => (printable(&head.label), head.size, &head.jobs),
            None => ("?".into(), 0, &none),
        };
        let (job, state, number) = (line.job(), line.state(), line.found.serial);
        let with: Vec<&str> = jobs.iter().map(String::as_str).filter(|other| *other != job).collect();
        writeln!(
            to,
            "{job:<16} {number:>6} {label:<20} {size:>6} {:>12}  {state:<10} {}",
            line.bytes,
            with.join(", ")
        )?;
        for fault in &line.faults {
            writeln!(to, "    {fault}")?;
        }
    }
    Ok(())
}

fn remove(folder: &Path, every: bool) -> Result<bool, StoreError> {
    let stores = jobs(folder)?;
    let removed = if every { clear(&stores)? } else { remove_old(&stores)? };
    output::write(&format!("{removed} removed\n"));
    Ok(true)
}

/// Removes all lines. A job that still writes there keeps its own.
fn clear(stores: &[Store]) -> Result<usize, StoreError> {
    let mut removed = 0;
    for store in stores {
        let mut held = None;
        store.hold(&mut held)?;
        removed += store.clear()?;
    }
    Ok(removed)
}

/// Removes the lines of each job that are older than the newest one that all of its jobs have whole.
fn remove_old(stores: &[Store]) -> Result<usize, StoreError> {
    let all: Vec<Vec<Line>> = stores.iter().map(|store| of_store(store, true)).collect::<Result<_, _>>()?;
    // By line: the jobs that have it whole.
    let mut whole: BTreeMap<LineId, BTreeSet<&str>> = BTreeMap::new();
    for head in all.iter().flatten().filter(|line| line.is_good()).filter_map(|line| line.head.as_ref()) {
        whole.entry(head.line).or_default().insert(&head.job);
    }
    let here: BTreeSet<String> = all.iter().flatten().map(Line::job).collect();
    // One of whose jobs nothing is here is kept as if that had it.
    let is_common =
        |head: &Head| head.jobs.iter().all(|job| whole[&head.line].contains(job.as_str()) || !here.contains(job));
    let mut removed = 0;
    for lines in &all {
        let newest = lines.iter().position(|line| line.is_good() && line.head.as_ref().is_some_and(is_common));
        // What is newer than the newest one that all have may become complete at a restart.
        for line in lines.iter().skip(newest.map_or(lines.len(), |newest| newest + 1)) {
            match line.found.remove() {
                Err(StoreError::System(_, e)) if e.kind() == ErrorKind::NotFound => (),
                done => done.map(|()| removed += 1)?,
            }
        }
    }
    Ok(removed)
}
