//! `mpi-connect checkpoint`: what is in a folder with checkpoints, whether it is whole, and what can go.

use checkpoint::{Found, Head, Store, StoreError, jobs};
use clap::{Args as ClapArgs, Subcommand};
use std::collections::BTreeSet;
use std::path::PathBuf;

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
    /// Remove checkpoints but for the newest complete one of each job
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
fn all(folder: &std::path::Path, whole: bool) -> Result<Vec<Line>, StoreError> {
    let mut lines = Vec::new();
    for store in jobs(folder)? {
        lines.extend(of_store(&store, whole)?);
    }
    Ok(lines)
}

fn of_store(store: &Store, whole: bool) -> Result<Vec<Line>, StoreError> {
    Ok(store.lines()?.into_iter().map(|found| look(found, whole)).collect())
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
    if lines.is_empty() {
        println!("no checkpoints");
        return Ok(true);
    }
    println!("{:<16} {:>6} {:<20} {:>6} {:>12}  {:<10} WITH", "JOB", "NUMBER", "LABEL", "RANKS", "BYTES", "STATE");
    let mut is_whole = true;
    for line in lines {
        let none = BTreeSet::new();
        let (job, label, size, jobs) = match &line.head {
            Some(head) => (head.job.as_str(), head.label.as_str(), head.size, &head.jobs),
            None => ("?", "?", 0, &none),
        };
        let state = line.state();
        is_whole &= state != "damaged";
        let with: Vec<&str> = jobs.iter().map(String::as_str).filter(|other| *other != job).collect();
        let number = line.found.serial;
        println!("{job:<16} {number:>6} {label:<20} {size:>6} {:>12}  {state:<10} {}", line.bytes, with.join(", "));
        for fault in &line.faults {
            println!("    {fault}");
        }
    }
    Ok(is_whole)
}

fn remove(folder: &std::path::Path, every: bool) -> Result<bool, StoreError> {
    let mut removed = 0;
    for store in jobs(folder)? {
        // A job that still writes there keeps its lines.
        let mut held = None;
        if every {
            store.hold(&mut held)?;
        }
        let lines = of_store(&store, true)?;
        let newest = lines.iter().position(|line| line.found.complete && line.faults.is_empty());
        for (at, line) in lines.iter().enumerate() {
            // What is newer than the newest complete one may become complete at a restart.
            if every || newest.is_some_and(|newest| at > newest) {
                line.found.remove()?;
                removed += 1;
            }
        }
    }
    println!("{removed} removed");
    Ok(true)
}
