//! A file that is sent, by either side: what it was when it was opened, and its chunks as long as it stays so.

use crate::error::{Error, Kind};
use crate::message::{begin_chunk, end_chunk, length};
use crate::part::changed;
use nix::fcntl::{OFlag, PosixFadviseAdvice, posix_fadvise};
use std::fs::{File, Metadata};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

/// What a file was when it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct About {
    /// Its size.
    pub size: u64,
    /// Its permissions.
    pub mode: u32,
    /// When it was changed last: nanoseconds since 1970.
    pub changed: i64,
    /// Its inode.
    pub inode: u64,
}

impl About {
    fn new(about: &Metadata) -> About {
        About { size: about.len(), mode: about.mode() & 0o777, changed: changed(about), inode: about.ino() }
    }

    /// Whether the content is still the same, as far as the system tells.
    pub fn is_same(&self, other: &About) -> bool {
        (self.size, self.changed, self.inode) == (other.size, other.changed, other.inode)
    }
}

/// A file that is sent.
#[derive(Debug)]
pub struct Source {
    file: File,
    about: About,
}

impl Source {
    /// An open file.
    pub(crate) fn new(file: File) -> Result<Source, Error> {
        let about = About::new(&file.metadata().map_err(|e| Error::of(&e, "the file"))?);
        // It is advice.
        let _ = posix_fadvise(&file, 0, 0, PosixFadviseAdvice::POSIX_FADV_SEQUENTIAL);
        Ok(Source { file, about })
    }

    /// A file of this side, wherever it is.
    pub fn open(path: &Path) -> Result<Source, Error> {
        let error = |e: std::io::Error| Error::of(&e, format!("'{}'", path.display()));
        let file = File::options()
            .read(true)
            .custom_flags((OFlag::O_NONBLOCK | OFlag::O_NOCTTY).bits())
            .open(path)
            .map_err(error)?;
        if !file.metadata().map_err(error)?.is_file() {
            return Err(Error::here(Kind::NotAFile, format!("'{}' is no file", path.display())));
        }
        Source::new(file)
    }

    /// What it was when it was opened.
    pub fn about(&self) -> &About {
        &self.about
    }

    /// Writes the message of a chunk into `out`. The chunk is one that the file has.
    pub(crate) fn read(&self, index: u64, kind: u8, out: &mut Vec<u8>) -> Result<(), Error> {
        let data = begin_chunk(out, length(index, self.about.size));
        let changed = || Error::here(Kind::Changed, "the file has changed since its transfer began");
        match self.file.read_exact_at(data, index * base::protocol::files::CHUNK_BYTES) {
            Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => return Err(changed()),
            read => read.map_err(|e| Error::of(&e, "the file cannot be read"))?,
        }
        self.still_same()?;
        end_chunk(out, kind, index);
        Ok(())
    }

    /// Whether it is as it was.
    pub(crate) fn still_same(&self) -> Result<(), Error> {
        let now = self.file.metadata().map_err(|e| Error::of(&e, "the file"))?;
        if self.about.is_same(&About::new(&now)) {
            Ok(())
        } else {
            Err(Error::here(Kind::Changed, "the file has changed since its transfer began"))
        }
    }
}
