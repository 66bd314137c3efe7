//! A file of which only some is there yet: its content has a name of its own beside the file's, and gets the file's name when
//! all of it is on the disk.
//!
//! The name follows from the file's and from a token that was drawn for this one transfer, so several processes, of one host or of
//! several that share the disk, write into the same content.

use crate::error::{Error, Kind};
use base::protocol::files::CHUNK_BYTES;
use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, OFlag, fallocate, openat, renameat};
use nix::sys::stat::Mode;
use nix::unistd::{UnlinkatFlags, unlinkat};
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Where a file of this path goes: into a folder of this side, or to a file.
pub fn target(local: &Path, path: &[u8]) -> PathBuf {
    match Path::new(OsStr::from_bytes(path)).file_name() {
        Some(name) if local.is_dir() => local.join(name),
        _ => local.to_owned(),
    }
}

/// What a transfer is known by: random.
pub type Token = [u8; 16];

/// The most bytes that the name of the content takes of the file's.
const NAMED: usize = 200;
/// After this many bytes the disk is told to begin with them.
const BEGUN: u64 = 32 << 20;

/// When a file was changed last: nanoseconds since 1970.
pub(crate) fn changed(about: &Metadata) -> i64 {
    about.mtime().saturating_mul(1_000_000_000).saturating_add(about.mtime_nsec())
}

/// A file of which only some is there yet.
#[derive(Debug)]
pub struct Part {
    folder: OwnedFd,
    name: OsString,
    beside: OsString,
    file: File,
    size: u64,
    /// Bytes that were written here since the disk was told to begin.
    written: u64,
}

/// The name of the content.
fn beside(name: &OsStr, token: &Token) -> OsString {
    let mut beside = b".".to_vec();
    beside.extend(&name.as_bytes()[..name.len().min(NAMED)]);
    let digits: String = token.iter().map(|byte| format!("{byte:02x}")).collect();
    beside.extend(format!(".{digits}.part").into_bytes());
    OsString::from_vec(beside)
}

impl Part {
    /// The content of a file of this name in this folder. If there is none yet, `new` lets it be made, with room on the disk for
    /// all of it.
    pub fn open(folder: OwnedFd, name: OsString, token: &Token, size: u64, mode: u32, new: bool) -> io::Result<Part> {
        let beside = beside(&name, token);
        let flags = OFlag::O_RDWR | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
        let own = Mode::from_bits_truncate(mode & 0o777) | Mode::S_IRUSR | Mode::S_IWUSR;
        let as_folder = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        if openat(&folder, &*name, as_folder, Mode::empty()).is_ok() {
            return Err(Errno::EISDIR.into());
        }
        let made = match openat(&folder, &*beside, flags, Mode::empty()) {
            Err(Errno::ENOENT) if new => openat(&folder, &*beside, flags | OFlag::O_CREAT | OFlag::O_EXCL, own),
            found => found,
        };
        let part = Part { file: made?.into(), folder, name, beside, size, written: 0 };
        if !part.file.metadata()?.is_file() {
            return Err(Errno::EINVAL.into());
        }
        if new && part.file.metadata()?.len() != size {
            part.reserve(size).inspect_err(|_| part.remove())?;
        }
        Ok(part)
    }

    /// As [`Part::open`], for a file of this side, wherever it is.
    pub fn beside(path: &Path, token: &Token, size: u64, mode: u32, new: bool) -> Result<Part, Error> {
        let error = |e: io::Error| Error::of(&e, format!("'{}'", path.display()));
        let Some(name) = path.file_name() else {
            return Err(Error::here(Kind::NotAFile, format!("'{}' names no file", path.display())));
        };
        let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let folder = File::open(folder).map_err(error)?;
        Part::open(folder.into(), name.to_owned(), token, size, mode, new).map_err(error)
    }

    /// Takes room on the disk for the whole file.
    fn reserve(&self, size: u64) -> io::Result<()> {
        self.file.set_len(size)?;
        match fallocate(self.file.as_fd(), FallocateFlags::empty(), 0, size.try_into().map_err(|_| Errno::EFBIG)?) {
            // Some file systems cannot; an empty file needs none.
            Ok(()) | Err(Errno::EOPNOTSUPP | Errno::EINVAL | Errno::ENOSYS) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    /// The size of the whole file.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Writes one chunk.
    pub fn write(&mut self, index: u64, data: &[u8]) -> io::Result<()> {
        self.file.write_all_at(data, index * CHUNK_BYTES)?;
        self.written += data.len() as u64;
        if self.written >= BEGUN {
            // Else much of it would wait for the end, and the disk for work.
            base::file::begin_to_write(&self.file, 0, 0);
            self.written = 0;
        }
        Ok(())
    }

    /// Waits until what was written is on the disk.
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// Gives it the file's name, once all of it is on the disk.
    pub fn finish(&self) -> io::Result<()> {
        if self.file.metadata()?.len() != self.size {
            return Err(Errno::EIO.into());
        }
        self.file.sync_all()?;
        renameat(&self.folder, &*self.beside, &self.folder, &*self.name)?;
        // Not every file system can write a folder by itself.
        let _ = File::from(self.folder.try_clone()?).sync_all();
        Ok(())
    }

    /// Removes what is there of it.
    pub fn remove(&self) {
        // Whoever has removed it before has done what is wanted.
        let _ = unlinkat(&self.folder, &*self.beside, UnlinkatFlags::NoRemoveDir);
    }

    /// When something was written into it last; nothing when it is there no more under the name of its content.
    pub(crate) fn changed(&self) -> Option<i64> {
        let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let file = File::from(openat(&self.folder, &*self.beside, flags, Mode::empty()).ok()?);
        file.metadata().ok().map(|about| changed(&about))
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A folder that is removed in the end.
    pub struct Scratch(PathBuf);

    impl Scratch {
        pub fn new() -> Scratch {
            let token: [u8; 8] = base::ident::random();
            let path = std::env::temp_dir().join(format!("mpi-connect-files-{:016x}", u64::from_le_bytes(token)));
            std::fs::create_dir(&path).unwrap();
            Scratch(path)
        }

        pub fn path(&self, name: &str) -> PathBuf {
            self.0.join(name)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn folder(path: &Path) -> OwnedFd {
        File::open(path).unwrap().into()
    }

    fn names(scratch: &Scratch) -> Vec<String> {
        let entries = std::fs::read_dir(&scratch.0).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn a_file_has_its_name_when_it_is_whole() {
        let scratch = Scratch::new();
        let open = |new| Part::open(folder(&scratch.0), "out".into(), &[7; 16], 4, 0o640, new);
        assert_eq!(open(false).unwrap_err().raw_os_error(), Some(Errno::ENOENT as i32));
        let (mut first, mut second) = (open(true).unwrap(), open(false).unwrap());
        assert_eq!(names(&scratch), [".out.07070707070707070707070707070707.part"]);
        first.write(0, b"ab").unwrap();
        second.file.write_all_at(b"cd", 2).unwrap();
        second.write(0, b"a").unwrap();
        assert!(first.changed().is_some());
        first.finish().unwrap();
        assert_eq!(
            (names(&scratch), std::fs::read(scratch.path("out")).unwrap()),
            (vec!["out".into()], b"abcd".to_vec())
        );
        assert!(first.changed().is_none());
        first.remove();
        assert_eq!(names(&scratch), ["out"]);
    }

    #[test]
    fn a_link_in_the_place_of_the_content_is_not_followed() {
        let scratch = Scratch::new();
        std::fs::write(scratch.path("other"), "other").unwrap();
        std::os::unix::fs::symlink("other", scratch.path(".out.00000000000000000000000000000000.part")).unwrap();
        let opened = Part::open(folder(&scratch.0), "out".into(), &[0; 16], 4, 0o600, true);
        assert_eq!(opened.unwrap_err().raw_os_error(), Some(Errno::ELOOP as i32));
        std::fs::create_dir(scratch.path("folder")).unwrap();
        let opened = Part::open(folder(&scratch.0), "folder".into(), &[0; 16], 4, 0o600, true);
        assert_eq!(opened.unwrap_err().raw_os_error(), Some(Errno::EISDIR as i32));
        let long = "n".repeat(255);
        Part::open(folder(&scratch.0), long.into(), &[1; 16], 0, 0o600, true).unwrap().finish().unwrap();
    }
}
