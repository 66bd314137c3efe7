//! The folder of a line, as it is found.
//!
//! Invariant: nothing is changed here, but that a line is removed.

use crate::disk::{Disk, Input};
use crate::error::StoreError;
use crate::image::{Head, Image};
use crate::layout::{ImageError, ReadError, Reader};
use crate::shared::sections;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};

/// The end of the name of a line's folder that is not complete on all sides, and of a file that is not whole.
pub(crate) const PART: &str = ".part";
/// The end of the name of a file with one image.
const WHOLE: &str = ".image";
/// The end of the name of a file with several images.
const SHARED: &str = ".images";
/// How the name of a line's folder begins that is about to be removed.
pub(crate) const GONE: &str = "gone-";

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

pub(crate) fn at(path: &Path) -> impl FnOnce(io::Error) -> StoreError + '_ {
    |e| StoreError::System(path.to_owned(), e)
}

/// The name of a file with the image of this process.
pub(crate) fn whole(rank: u32) -> String {
    format!("{rank:06}{WHOLE}")
}

/// Its name while it is written.
pub(crate) fn half(rank: u32) -> String {
    format!("{rank:06}{PART}")
}

/// The name of a file with the images of all processes on this host.
pub(crate) fn shared(host: &str) -> String {
    format!("{host}{SHARED}")
}

/// A line's folder with this before its name.
pub(crate) fn renamed(folder: &Path, before: &str) -> PathBuf {
    let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    folder.with_file_name(format!("{before}{name}"))
}

/// Where an image is.
struct Source {
    path: PathBuf,
    from: Box<dyn Read>,
    bytes: u64,
}

impl Found {
    /// The files whose names have this end, and what is before it.
    fn with(&self, end: &str) -> Result<Vec<(PathBuf, String)>, StoreError> {
        let mut all = Vec::new();
        for entry in fs::read_dir(&self.folder).map_err(at(&self.folder))? {
            let entry = entry.map_err(at(&self.folder))?;
            let name = entry.file_name();
            let name = name.to_str().and_then(|name| name.strip_suffix(end));
            all.extend(name.map(|name| (entry.path(), name.to_owned())));
        }
        all.sort_unstable();
        Ok(all)
    }

    /// The processes with a file of their own whose name has this end.
    fn own(&self, end: &str) -> Result<BTreeSet<u32>, StoreError> {
        Ok(self.with(end)?.iter().filter_map(|(_, name)| name.parse().ok()).collect())
    }

    /// The ranks with an image, and those whose image is being written, or whose writer died meanwhile.
    pub fn ranks(&self) -> Result<(BTreeSet<u32>, BTreeSet<u32>), StoreError> {
        let (mut ranks, mut halves) = (self.own(WHOLE)?, self.own(PART)?);
        for (path, _) in self.with(SHARED)? {
            let (all, half) = File::open(&path).and_then(|file| sections(&file)).map_err(at(&path))?;
            ranks.extend(all.iter().map(|section| section.rank));
            halves.extend(half);
        }
        halves.retain(|rank| !ranks.contains(rank));
        Ok((ranks, halves))
    }

    fn source(&self, rank: u32) -> Result<Option<Source>, StoreError> {
        let path = self.folder.join(whole(rank));
        match File::open(&path) {
            Err(e) if e.kind() == ErrorKind::NotFound => (),
            file => {
                let file = file.map_err(at(&path))?;
                let bytes = file.metadata().map_err(at(&path))?.len();
                return Ok(Some(Source { path, from: Box::new(BufReader::new(Input::new(file, 0))), bytes }));
            }
        }
        for (path, _) in self.with(SHARED)? {
            let file = File::open(&path).map_err(at(&path))?;
            let (all, _) = sections(&file).map_err(at(&path))?;
            if let Some(section) = all.iter().rfind(|section| section.rank == rank) {
                let from = section.open(file).map_err(at(&path))?;
                return Ok(Some(Source { path, from: Box::new(BufReader::new(from)), bytes: section.length }));
            }
        }
        Ok(None)
    }

    /// Reads the image of a process to its end. `None`: there is none.
    fn read<T>(
        &self,
        rank: u32,
        read: impl FnOnce(Head, Reader<'_>) -> Result<T, ReadError>,
    ) -> Result<Option<T>, StoreError> {
        let Some(Source { path, mut from, .. }) = self.source(rank)? else { return Ok(None) };
        let read = Reader::begin(&mut from).and_then(|(head, body)| read(head, body));
        let read = read.map_err(|e| StoreError::reading(&path, e))?;
        // Nothing is behind it.
        match from.read(&mut [0]) {
            Ok(0) => Ok(Some(read)),
            Ok(_) => Err(StoreError::Image(path, ImageError::Damaged)),
            Err(e) => Err(StoreError::System(path, e)),
        }
    }

    /// The image of a process. `None`: there is none.
    pub fn image(&self, rank: u32) -> Result<Option<Image>, StoreError> {
        self.read(rank, Image::read)
    }

    /// What the image of a process is of, if all of it is there and unchanged. It takes no memory for what the image has. `None`: there
    /// is none.
    pub fn check(&self, rank: u32) -> Result<Option<Head>, StoreError> {
        self.read(rank, |head, body| body.skip().map(|_| head))
    }

    /// What the image of a process is of, and its bytes. `None`: there is none.
    pub fn head(&self, rank: u32) -> Result<Option<(Head, u64)>, StoreError> {
        let Some(Source { path, mut from, bytes }) = self.source(rank)? else { return Ok(None) };
        let (head, _) = Reader::begin(&mut from).map_err(|e| StoreError::reading(&path, e))?;
        Ok(Some((head, bytes)))
    }

    /// Removes the line with all its images: first it has its name no more.
    pub fn remove(&self) -> Result<(), StoreError> {
        let (disk, gone) = (Disk::default(), renamed(&self.folder, GONE));
        disk.rename(&self.folder, &gone)?;
        disk.remove_folder(&gone)
    }
}
