//! The folder with the images of a job: one folder for each line, one file in it for each process.
//!
//! A process writes its file aside, and renames it when it is on the disk. When the line is complete on all sides, the leader renames
//! the line's folder. Invariants: what has its final name is whole; the two newest complete lines are never removed.

use crate::image::{Head, Image, ImageError};
use crate::line::LineId;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::{error, fmt};

/// The end of the name of a line's folder that is not complete on all sides.
const PART: &str = ".part";
/// Complete lines that are kept.
const KEPT: usize = 2;
/// The longest name of a job that is a folder's name as it is.
const MAX_PLAIN: usize = 200;

/// The images of one job.
#[derive(Clone, Debug)]
pub struct Store {
    folder: PathBuf,
}

/// A line's folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The number of the cut.
    pub serial: u64,
    /// The folder.
    pub folder: PathBuf,
    /// It is known to be complete on all sides.
    pub complete: bool,
}

/// What could not be done, and where.
#[derive(Debug)]
pub enum StoreError {
    /// The system refuses.
    System(PathBuf, io::Error),
    /// The file is no image.
    Image(PathBuf, ImageError),
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreError::System(path, e) => write!(f, "{}: {e}", path.display()),
            StoreError::Image(path, e) => write!(f, "{}: {e}", path.display()),
        }
    }
}

impl error::Error for StoreError {}

fn at(path: &Path) -> impl FnOnce(io::Error) -> StoreError + '_ {
    |e| StoreError::System(path.to_owned(), e)
}

/// Has what was done in a folder written to the disk.
fn sync(folder: &Path) -> Result<(), StoreError> {
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(at(folder))
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
        let store = Store { folder };
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
        Store { folder: directory.join(escaped(job)) }
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Makes the folder, and shows that files can be made in it.
    pub fn open(&self) -> Result<(), StoreError> {
        fs::create_dir_all(&self.folder).map_err(at(&self.folder))?;
        let probe = self.folder.join(format!(".writable-{}", std::process::id()));
        File::create(&probe).map_err(at(&probe))?;
        fs::remove_file(&probe).map_err(at(&probe))
    }

    fn line(&self, serial: u64, id: LineId, end: &str) -> PathBuf {
        self.folder.join(format!("line-{serial:08}-{id}{end}"))
    }

    /// Writes the image of a process. It is on the disk when this returns.
    pub fn write(&self, image: &Image) -> Result<(), StoreError> {
        let Head { serial, line, rank, .. } = image.head;
        let folder = self.line(serial, line, PART);
        fs::create_dir_all(&folder).map_err(at(&folder))?;
        let (aside, file) = (folder.join(format!("{rank:06}{PART}")), folder.join(format!("{rank:06}.image")));
        let bytes = image.encode();
        let write = || {
            let mut file = File::create(&aside)?;
            file.write_all(&bytes)?;
            file.sync_all()
        };
        write().map_err(at(&aside))?;
        fs::rename(&aside, &file).map_err(at(&file))?;
        sync(&folder)?;
        sync(&self.folder)
    }

    /// A line is complete on all sides: its folder gets its final name, and older ones go.
    pub fn commit(&self, serial: u64, id: LineId) -> Result<(), StoreError> {
        let (from, to) = (self.line(serial, id, PART), self.line(serial, id, ""));
        match fs::rename(&from, &to) {
            Err(e) if e.kind() == io::ErrorKind::NotFound && to.exists() => (),
            renamed => renamed.map_err(at(&from))?,
        }
        sync(&self.folder)?;
        let lines = self.lines()?;
        let complete: Vec<u64> = lines.iter().filter(|line| line.complete).map(|line| line.serial).collect();
        let Some(oldest) = complete.get(KEPT - 1).copied() else { return Ok(()) };
        for line in lines.iter().filter(|line| line.serial < oldest) {
            remove(&line.folder)?;
        }
        Ok(())
    }

    /// The lines, the newest first.
    pub fn lines(&self) -> Result<Vec<Found>, StoreError> {
        let mut all = Vec::new();
        let entries = match fs::read_dir(&self.folder) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(all),
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

/// Removes a line: first it has its name no more.
fn remove(folder: &Path) -> Result<(), StoreError> {
    let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let aside = folder.with_file_name(format!("gone-{name}"));
    fs::rename(folder, &aside).map_err(at(folder))?;
    fs::remove_dir_all(&aside).map_err(at(&aside))
}

impl Found {
    fn file(&self, rank: u32) -> PathBuf {
        self.folder.join(format!("{rank:06}.image"))
    }

    /// The ranks with an image.
    pub fn ranks(&self) -> Result<Vec<u32>, StoreError> {
        let mut all = Vec::new();
        for entry in fs::read_dir(&self.folder).map_err(at(&self.folder))? {
            let name = entry.map_err(at(&self.folder))?.file_name();
            all.extend(name.to_str().and_then(|name| name.strip_suffix(".image")?.parse::<u32>().ok()));
        }
        all.sort_unstable();
        Ok(all)
    }

    /// The image of a process. `None`: there is none.
    pub fn image(&self, rank: u32) -> Result<Option<Image>, StoreError> {
        let file = self.file(rank);
        match fs::read(&file) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            bytes => {
                let bytes = bytes.map_err(at(&file))?;
                Image::decode(&bytes).map(Some).map_err(|e| StoreError::Image(file, e))
            }
        }
    }

    /// What the image of a process is of, and its bytes. `None`: there is none.
    pub fn head(&self, rank: u32) -> Result<Option<(Head, u64)>, StoreError> {
        let path = self.file(rank);
        let file = match File::open(&path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file.map_err(at(&path))?,
        };
        let bytes = file.metadata().map_err(at(&path))?.len();
        let mut begin = Vec::new();
        file.take(Head::BYTES as u64).read_to_end(&mut begin).map_err(at(&path))?;
        let head = Head::decode(&begin).map_err(|e| StoreError::Image(path, e))?;
        Ok(Some((head, bytes)))
    }

    /// Removes the line with all its images.
    pub fn remove(&self) -> Result<(), StoreError> {
        remove(&self.folder)
    }
}
