//! The folder with the images of a job: one folder for each line, one file in it for each process, or for each host.
//!
//! A process writes its file aside, and renames it when it is on the disk, or appends to that of its host. When the line is complete on all sides, the leader renames
//! the line's folder. Invariants: what has its final name is whole; the two newest complete lines are never removed.

use crate::disk::{Disk, Output, Watch};
use crate::error::StoreError;
use crate::found::{Found, GONE, PART, at, half, renamed, shared, whole};
use crate::image::{Head, Image};
use crate::line::LineId;
use crate::lock::Lock;
use crate::packing::Packing;
use crate::progress::Progress;
use crate::shared::append;
use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// How the name of a line's folder begins that a restart has left behind: it goes when the next line is complete.
const LEFT: &str = "left-";
/// The file that is locked by the job that writes here.
const LOCK: &str = "lock";
/// A file that is made to see that it can be.
const PROBE: &str = ".writable";
/// Complete lines that are kept.
const KEPT: usize = 2;
/// The longest name of a job that is a folder's name as it is.
const MAX_PLAIN: usize = 200;

/// The images of one job.
#[derive(Clone, Debug)]
pub struct Store {
    folder: PathBuf,
    packing: Packing,
    /// The images of the processes of this host are one file.
    host: Option<String>,
    disk: Disk,
}

/// The name of a folder for a job of this name.
fn escaped(job: &str) -> String {
    let mut out = String::new();
    for byte in job.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => out.push(byte as char),
            b'.' if !out.is_empty() => out.push('.'),
            _ => out.push_str(&format!("%{byte:02x}")),
        }
    }
    if out.len() > MAX_PLAIN {
        out.truncate(MAX_PLAIN);
        out.push_str(&format!("~{:032x}", base::hash::fnv128(job.as_bytes())));
    }
    out
}

/// The stores in a folder.
pub fn jobs(directory: &Path) -> Result<Vec<Store>, StoreError> {
    let mut all = Vec::new();
    for entry in fs::read_dir(directory).map_err(at(directory))? {
        let folder = entry.map_err(at(directory))?.path();
        let store = Store::at(folder);
        if store.folder.is_dir() && !store.lines()?.is_empty() {
            all.push(store);
        }
    }
    all.sort_by(|a, b| a.folder.cmp(&b.folder));
    Ok(all)
}

impl Store {
    /// The store of a job in this folder. Nothing is made yet.
    pub fn new(directory: &Path, job: &str) -> Store {
        Store::at(directory.join(escaped(job)))
    }

    fn at(folder: PathBuf) -> Store {
        Store { folder, packing: Packing::default(), host: None, disk: Disk::default() }
    }

    /// For tests: with somebody who is asked before each change of a file.
    pub fn watched(self, watch: Arc<dyn Watch>) -> Store {
        Store { disk: Disk { watch: Some(watch) }, ..self }
    }

    /// Images that are written are packed in this way.
    pub fn packed(self, packing: Packing) -> Store {
        Store { packing, ..self }
    }

    /// Images that are written go to one file for each host.
    pub fn per_node(self) -> Store {
        Store { host: Some(escaped(base::ident::host())), ..self }
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Makes the folder, locks it for this job, and shows that files can be made in it. `held`: the lock that this job has already,
    /// if any, and then the one that it has. A folder that was there and is gone is not made again.
    pub fn open(&self, held: &mut Option<Lock>) -> Result<(), StoreError> {
        let path = self.folder.join(LOCK);
        let directory = self.folder.parent().unwrap_or(Path::new("/"));
        match held.as_ref().filter(|held| held.is_of(&path)) {
            Some(_) if !directory.is_dir() => return Err(StoreError::Gone(directory.into())),
            Some(held) if held.is_there() => (),
            _ => {
                self.disk.make_folders(&self.folder)?;
                *held = Some(Lock::take(&self.disk, &path)?);
            }
        }
        let probe = self.folder.join(PROBE);
        self.disk.create(&probe)?;
        self.disk.remove_file(&probe)
    }

    /// Locks the folder, if there is one, for a job that reads there. Where nothing can be written, nobody else writes either.
    pub fn hold(&self, held: &mut Option<Lock>) -> Result<(), StoreError> {
        let path = self.folder.join(LOCK);
        if !self.folder.is_dir() || held.as_ref().is_some_and(|held| held.is_of(&path)) {
            return Ok(());
        }
        match Lock::take(&self.disk, &path) {
            Ok(lock) => *held = Some(lock),
            Err(e @ StoreError::Busy(..)) => return Err(e),
            Err(e) => base::log!(Info, "checkpoints are read without a lock: {e}"),
        }
        Ok(())
    }

    fn line(&self, serial: u64, id: LineId, end: &str) -> PathBuf {
        self.folder.join(format!("line-{serial:08}-{id}{end}"))
    }

    /// Writes the image of a process. It is on the disk when this returns.
    pub fn write(&self, image: &Image) -> Result<(), StoreError> {
        let Head { serial, line, rank, .. } = image.head;
        let folder = self.line(serial, line, PART);
        self.disk.make_folder(&folder).map_err(|e| match e {
            StoreError::System(_, e) if e.kind() == ErrorKind::NotFound => StoreError::Gone(self.folder.clone()),
            e => e,
        })?;
        if let Some(host) = &self.host
            && append(&self.disk, &folder.join(shared(host)), rank, |output| self.fill(image, output))?
        {
            return Ok(());
        }
        let (aside, file) = (folder.join(half(rank)), folder.join(whole(rank)));
        let mut output = self.disk.create(&aside)?;
        if let Err(e) = self.fill(image, &mut output) {
            // It takes room, perhaps the last.
            let _ = self.disk.remove_file(&aside);
            return Err(e);
        }
        self.disk.rename(&aside, &file)?;
        self.disk.sync_folder(&folder)
    }

    /// Writes an image, and has it written to the disk.
    fn fill(&self, image: &Image, output: &mut Output<'_>) -> Result<(), StoreError> {
        let Head { serial, rank, ref job, .. } = image.head;
        let what = format!("checkpoint {serial} of '{job}', rank {rank}");
        let progress = Progress::new(what, image.bytes(), Instant::now());
        let path = output.path().to_owned();
        let mut told = Told { output, progress };
        image.write(self.packing, &mut told).map_err(at(&path))?;
        told.output.sync()?;
        if let Some(text) = told.progress.done(Instant::now()) {
            base::log!(Info, "{text}");
        }
        Ok(())
    }

    /// A line is complete on all sides: its folder gets its final name, and older ones go.
    pub fn commit(&self, serial: u64, id: LineId) -> Result<(), StoreError> {
        let lines = self.complete(serial, id)?;
        let oldest = oldest_kept(&lines);
        self.remove(lines.iter().filter(|line| line.serial < oldest))
    }

    /// The same of a line of the own job alone. The last ones with other jobs stay: those may have nothing newer.
    pub fn commit_alone(&self, serial: u64, id: LineId) -> Result<(), StoreError> {
        let lines = self.complete(serial, id)?;
        let oldest = oldest_kept(&lines);
        let is_shared = |line: &&Found| matches!(line.head(0), Ok(Some((head, _))) if head.jobs.len() > 1);
        let shared: Vec<u64> =
            lines.iter().filter(|line| line.complete).filter(is_shared).map(|line| line.serial).take(KEPT).collect();
        self.remove(lines.iter().filter(|line| line.serial < oldest && !shared.contains(&line.serial)))
    }

    /// Gives a line's folder its final name. All lines then.
    fn complete(&self, serial: u64, id: LineId) -> Result<Vec<Found>, StoreError> {
        let (from, to) = (self.line(serial, id, PART), self.line(serial, id, ""));
        match self.disk.rename(&from, &to) {
            Err(StoreError::System(_, e)) if e.kind() == ErrorKind::NotFound && to.exists() => (),
            renamed => renamed?,
        }
        self.lines()
    }

    /// The job goes on from this line, which is complete then. Newer lines are of a run that is no more, and no restart finds them
    /// again. `None`: the job begins anew, and so are lines that were never complete.
    pub fn go_on_from(&self, line: Option<(u64, LineId)>) -> Result<(), StoreError> {
        let from = line.map(|(serial, id)| (serial, self.line(serial, id, PART), self.line(serial, id, "")));
        let mut renames = Vec::new();
        for found in self.lines()? {
            match &from {
                Some((_, part, whole)) if found.folder == *part => renames.push((found.folder, whole.clone())),
                Some((_, _, whole)) if found.folder == *whole => (),
                Some((serial, ..)) if found.serial < *serial => (),
                None if found.complete => (),
                _ => renames.push((found.folder.clone(), renamed(&found.folder, LEFT))),
            }
        }
        if renames.is_empty() {
            return Ok(());
        }
        renames.iter().try_for_each(|(from, to)| self.disk.rename(from, to))?;
        self.disk.sync_folder(&self.folder)
    }

    /// Removes lines. First they have their names no more: when that is on the disk, and what was renamed before, their files go.
    fn remove<'a>(&self, mut lines: impl Iterator<Item = &'a Found>) -> Result<(), StoreError> {
        lines.try_for_each(|line| self.disk.rename(&line.folder, &renamed(&line.folder, GONE)))?;
        self.disk.sync_folder(&self.folder)?;
        for entry in fs::read_dir(&self.folder).map_err(at(&self.folder))? {
            let entry = entry.map_err(at(&self.folder))?;
            if entry.file_name().to_str().is_some_and(|name| name.starts_with(GONE) || name.starts_with(LEFT)) {
                self.disk.remove_folder(&entry.path())?;
            }
        }
        Ok(())
    }

    /// Removes all that is there of lines, also of those that no restart finds any more.
    pub fn clear(&self) -> Result<usize, StoreError> {
        let lines = self.lines()?;
        self.remove(lines.iter())?;
        Ok(lines.len())
    }

    /// The lines, the newest first.
    pub fn lines(&self) -> Result<Vec<Found>, StoreError> {
        let mut all = Vec::new();
        let entries = match fs::read_dir(&self.folder) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(all),
            entries => entries.map_err(at(&self.folder))?,
        };
        for entry in entries {
            let folder = entry.map_err(at(&self.folder))?.path();
            let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let (name, complete) = name.strip_suffix(PART).map_or((name, true), |name| (name, false));
            let serial = name.strip_prefix("line-").and_then(|rest| rest.split('-').next()?.parse().ok());
            all.extend(serial.map(|serial| Found { serial, folder: folder.clone(), complete }));
        }
        all.sort_by(|a, b| (b.serial, b.complete, &b.folder).cmp(&(a.serial, a.complete, &a.folder)));
        Ok(all)
    }
}

/// The oldest of the complete lines that are kept, of all in their order.
fn oldest_kept(lines: &[Found]) -> u64 {
    let mut complete = lines.iter().filter(|line| line.complete);
    complete.nth(KEPT - 1).map_or(0, |line| line.serial)
}

/// An image that is written, with lines of the log when that takes long.
struct Told<'a, 'd> {
    output: &'a mut Output<'d>,
    progress: Progress,
}

impl Write for Told<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.output.write(bytes)?;
        if let Some(text) = self.progress.written(written, Instant::now()) {
            base::log!(Info, "{text}");
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}
