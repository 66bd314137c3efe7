//! A file that is sent, by either side: what it was when it was opened, and its chunks as long as it stays so.

use crate::error::{Error, Kind};
use crate::message::{begin_chunk, chunks, end_chunk, length};
use crate::part::changed;
use crate::share::Share;
use base::protocol::files::CHUNK_BYTES;
use nix::fcntl::{OFlag, PosixFadviseAdvice, posix_fadvise};
use std::fs::{File, Metadata};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

/// So many chunks before one is read, the disk is told of it: what the kernel reads ahead by itself keeps no fast disk busy.
const AHEAD: usize = 8;

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

    /// The chunks of a share, each to be read when it comes.
    pub(crate) fn chunks(&self, share: Share) -> impl Iterator<Item = u64> {
        let all = chunks(self.about.size);
        let mut ahead = share.chunks(all);
        ahead.by_ref().take(AHEAD).for_each(|index| self.announce(index));
        share.chunks(all).inspect(move |_| ahead.next().into_iter().for_each(|index| self.announce(index)))
    }

    /// Has the disk begin to read a chunk.
    fn announce(&self, index: u64) {
        // It is advice.
        let at = (index * CHUNK_BYTES) as i64;
        let _ = posix_fadvise(&self.file, at, CHUNK_BYTES as i64, PosixFadviseAdvice::POSIX_FADV_WILLNEED);
    }

    /// Writes the message of a chunk into `out`. The chunk is one that the file has.
    pub(crate) fn read(&self, index: u64, kind: u8, out: &mut Vec<u8>) -> Result<(), Error> {
        let data = begin_chunk(out, length(index, self.about.size));
        let changed = || Error::here(Kind::Changed, "the file has changed since its transfer began");
        match self.file.read_exact_at(data, index * CHUNK_BYTES) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::part::tests::Scratch;

    #[test]
    fn a_share_is_read_in_its_order() {
        let scratch = Scratch::new();
        let path = scratch.path("sparse");
        File::create(&path).unwrap().set_len(20 * CHUNK_BYTES + 1).unwrap();
        let source = Source::open(&path).unwrap();
        for share in
            [Share::ALL, Share { first: 3, step: 2 }, Share { first: 20, step: 9 }, Share { first: 21, step: 1 }]
        {
            assert_eq!(source.chunks(share).collect::<Vec<_>>(), share.chunks(21).collect::<Vec<_>>());
        }
        let mut message = Vec::new();
        source.read(20, 0, &mut message).unwrap();
        assert_eq!(crate::message::Chunk::decode(&message[4..], 0).unwrap().data, [0]);
    }
}
