//! All that changes files of checkpoints, one step for each call of the system.
//!
//! Invariant: nothing else in this crate changes a file, so a test that ends the process before each step, or loses what no step
//! has brought to the disk, misses none.

use crate::error::StoreError;
use base::file::begin_to_write;
use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use std::fmt::Debug;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A change that is about to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A folder is made.
    MakeFolder(PathBuf),
    /// A file is made, or opened.
    Create(PathBuf),
    /// A file gets this length.
    Length(PathBuf, u64),
    /// A file gets these bytes at its end.
    Append(PathBuf, Vec<u8>),
    /// What a file has goes to the disk.
    SyncFile(PathBuf),
    /// A file or a folder gets another name in its folder.
    Rename(PathBuf, PathBuf),
    /// The names in a folder go to the disk.
    SyncFolder(PathBuf),
    /// A file is removed.
    RemoveFile(PathBuf),
    /// An empty folder is removed.
    RemoveFolder(PathBuf),
}

/// Is asked before each step, for tests: may end the process, keep the step, or have it fail.
pub trait Watch: Debug + Send + Sync {
    /// An error is what the step returns, without being done.
    fn before(&self, step: Step) -> io::Result<()>;
}

/// The disk, as this crate uses it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Disk {
    pub(crate) watch: Option<Arc<dyn Watch>>,
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> StoreError + '_ {
    |e| StoreError::System(path.to_owned(), e)
}

/// Nothing is left to be done where there is nothing.
fn or_gone(done: Result<(), StoreError>) -> Result<(), StoreError> {
    match done {
        Err(StoreError::System(_, e)) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

impl Disk {
    fn step<T>(
        &self,
        path: &Path,
        step: impl FnOnce() -> Step,
        done: impl FnOnce() -> io::Result<T>,
    ) -> Result<T, StoreError> {
        self.watch.as_ref().map_or(Ok(()), |watch| watch.before(step())).and_then(|()| done()).map_err(at(path))
    }

    /// Makes a folder, and has its name written to the disk. Another process may be faster, and does the same.
    pub(crate) fn make_folder(&self, path: &Path) -> Result<(), StoreError> {
        match self.step(path, || Step::MakeFolder(path.into()), || fs::create_dir(path)) {
            Ok(()) => self.sync_folder(path.parent().unwrap_or(Path::new("/"))),
            Err(StoreError::System(_, e)) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Err(e) => Err(e),
        }
    }

    /// Makes a folder and those above it.
    pub(crate) fn make_folders(&self, path: &Path) -> Result<(), StoreError> {
        if path.is_dir() {
            return Ok(());
        }
        if let Some(above) = path.parent() {
            self.make_folders(above)?;
        }
        self.make_folder(path)
    }

    /// A new file, or one that was left there and is empty now.
    pub(crate) fn create(&self, path: &Path) -> Result<Output<'_>, StoreError> {
        let file = self.step(path, || Step::Create(path.into()), || File::create(path))?;
        Ok(Output { disk: self, path: path.into(), file, written: 0, given: 0 })
    }

    /// A file for writing, made if there is none, and else as it is.
    pub(crate) fn open(&self, path: &Path) -> Result<Output<'_>, StoreError> {
        let open = || OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
        let file = self.step(path, || Step::Create(path.into()), open)?;
        Ok(Output { disk: self, path: path.into(), file, written: 0, given: 0 })
    }

    pub(crate) fn rename(&self, from: &Path, to: &Path) -> Result<(), StoreError> {
        self.step(from, || Step::Rename(from.into(), to.into()), || fs::rename(from, to))
    }

    pub(crate) fn sync_folder(&self, path: &Path) -> Result<(), StoreError> {
        self.step(path, || Step::SyncFolder(path.into()), || File::open(path)?.sync_all())
    }

    pub(crate) fn remove_file(&self, path: &Path) -> Result<(), StoreError> {
        or_gone(self.step(path, || Step::RemoveFile(path.into()), || fs::remove_file(path)))
    }

    /// Removes a folder with the files in it.
    pub(crate) fn remove_folder(&self, path: &Path) -> Result<(), StoreError> {
        let names = || fs::read_dir(path)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>();
        match names() {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
            names => names.map_err(at(path))?.iter().try_for_each(|file| self.remove_file(file))?,
        }
        or_gone(self.step(path, || Step::RemoveFolder(path.into()), || fs::remove_dir(path)))
    }
}

/// So many bytes at a time are on their way between memory and the disk while others are made or used.
const AHEAD: u64 = 8 << 20;

/// So many bytes a disk is asked for at a time: of more, the kernel may forget what does not fit one request.
const ASKED: u64 = 128 << 10;

/// A file that is written. The disk is at work meanwhile, and not only when the file is synced.
pub(crate) struct Output<'a> {
    disk: &'a Disk,
    path: PathBuf,
    pub(crate) file: File,
    written: u64,
    /// The disk has been given the bytes before.
    given: u64,
}

impl Output<'_> {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Where the next byte is written.
    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    /// What is written next goes here.
    pub(crate) fn go_to(&mut self, at: u64) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(at))?;
        (self.written, self.given) = (at, at);
        Ok(())
    }

    pub(crate) fn set_length(&self, length: u64) -> Result<(), StoreError> {
        self.disk.step(&self.path, || Step::Length(self.path.clone(), length), || self.file.set_len(length))
    }

    pub(crate) fn sync(&self) -> Result<(), StoreError> {
        self.disk.step(&self.path, || Step::SyncFile(self.path.clone()), || self.file.sync_all())
    }
}

impl Write for Output<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(watch) = &self.disk.watch {
            watch.before(Step::Append(self.path.clone(), bytes.to_vec()))?;
        }
        let written = self.file.write(bytes)?;
        self.written += written as u64;
        if self.written - self.given >= AHEAD {
            begin_to_write(&self.file, self.given, self.written - self.given);
            self.given = self.written;
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A file that is read from its beginning to its end. The disk is at work while what was read is used.
pub(crate) struct Input {
    file: File,
    read: u64,
    /// The disk has been asked for the bytes before.
    asked: u64,
}

impl Input {
    /// A file that is read from here on.
    pub(crate) fn new(file: File, from: u64) -> Input {
        Input { file, read: from, asked: from }
    }
}

impl Read for Input {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let got = self.file.read(to)?;
        self.read += got as u64;
        self.asked = self.asked.max(self.read);
        while self.asked < self.read + AHEAD {
            // Advice: a file system without it reads when it must.
            let (from, length) = (self.asked as i64, ASKED as i64);
            let _ = posix_fadvise(&self.file, from, length, PosixFadviseAdvice::POSIX_FADV_WILLNEED);
            self.asked += ASKED;
        }
        Ok(got)
    }
}
