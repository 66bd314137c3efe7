//! A file of which only some is there yet: its content has a name of its own beside the file's, and gets the file's name when
//! all of it is on the disk.
//!
//! The name follows from the file's and from a token that was drawn for this one transfer, so several processes, of one host or of
//! several that share the disk, write into the same content.

use crate::error::{Error, Kind};
use base::protocol::files::CHUNK_BYTES;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, FallocateFlags, OFlag, fallocate, openat, renameat};
use nix::sys::stat::{FileStat, Mode, SFlag, fstatat};
use nix::unistd::{UnlinkatFlags, unlinkat};
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Where a file of this path goes: into a folder of this side, or to a file's name. What is named as a folder has to be one.
pub fn target(local: &Path, path: &[u8]) -> Result<PathBuf, Error> {
    let named = local.as_os_str().as_bytes();
    match Path::new(OsStr::from_bytes(path)).file_name() {
        Some(name) if local.is_dir() => Ok(local.join(name)),
        _ if named.ends_with(b"/") || named.ends_with(b"/.") => {
            Err(Error::here(Kind::NoSuchFile, format!("'{}': there is no such folder", local.display())))
        }
        _ => Ok(local.to_owned()),
    }
}

/// What a transfer is known by: random.
pub type Token = [u8; 16];

/// The most bytes that the name of the content takes of the file's.
const NAMED: usize = 200;
/// What goes past the kernel's cache lies so in memory and in the file; no disk asks for more.
pub(crate) const ALIGN: usize = 4096;
/// After this many bytes in the kernel's cache the disk is told to begin with them.
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
    /// Bytes that were written into the kernel's cache since the disk was told to begin.
    written: AtomicU64,
    /// Whether bytes go past the kernel's cache: to copy them there takes longer than all else here.
    is_direct: AtomicBool,
}

/// Piece by piece, since most chunks are seen to have something in the first one.
fn is_zero(data: &[u8]) -> bool {
    data.chunks(256).all(|piece| piece.iter().fold(0, |all, byte| all | byte) == 0)
}

fn not_regular() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file")
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
        let kind = |about: FileStat| SFlag::from_bits_truncate(about.st_mode) & SFlag::S_IFMT;
        match fstatat(&folder, &*name, AtFlags::AT_SYMLINK_NOFOLLOW).map(kind) {
            Ok(SFlag::S_IFREG) | Err(_) => (),
            Ok(SFlag::S_IFDIR) => return Err(Errno::EISDIR.into()),
            // To take its name would end a device, a pipe or a link.
            Ok(_) => return Err(not_regular()),
        }
        let made = match openat(&folder, &*beside, flags, Mode::empty()) {
            Err(Errno::ENOENT) if new => openat(&folder, &*beside, flags | OFlag::O_CREAT | OFlag::O_EXCL, own),
            found => found,
        };
        let (written, is_direct) = (AtomicU64::new(0), AtomicBool::new(false));
        let part = Part { file: made?.into(), folder, name, beside, size, written, is_direct };
        if !part.file.metadata()?.is_file() {
            return Err(not_regular());
        }
        if new && part.file.metadata()?.len() != size {
            part.reserve(size).inspect_err(|_| part.remove())?;
        }
        if size >= CHUNK_BYTES && base::file::alignment(&part.file).is_some_and(|align| align <= ALIGN) {
            part.is_direct.store(base::file::set_direct(&part.file, true).is_ok(), Ordering::Relaxed);
        }
        Ok(part)
    }

    /// As [`Part::open`], for a file of this side, wherever it is, or a link there leads to.
    pub fn beside(path: &Path, token: &Token, size: u64, mode: u32, new: bool) -> Result<Part, Error> {
        let error = |e: io::Error| Error::of(&e, format!("'{}'", path.display()));
        let path = &path.canonicalize().unwrap_or_else(|_| path.to_owned());
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

    /// Writes one chunk. One thread does that.
    pub fn write(&self, index: u64, data: &[u8]) -> io::Result<()> {
        let at = index * CHUNK_BYTES;
        if is_zero(data) && self.leave_hole(at, data.len()) {
            return Ok(());
        }
        if self.is_direct.load(Ordering::Relaxed) {
            let is_aligned = [data.len(), data.as_ptr().addr()].iter().all(|n| n.is_multiple_of(ALIGN));
            if is_aligned {
                match self.file.write_all_at(data, at) {
                    // The file system wants it otherwise than it told.
                    Err(e) if e.raw_os_error() == Some(Errno::EINVAL as i32) => (),
                    done => return done,
                }
            }
            // The end of the file, as a rule.
            base::file::set_direct(&self.file, false)?;
            self.is_direct.store(false, Ordering::Relaxed);
        }
        self.file.write_all_at(data, at)?;
        let written = self.written.fetch_add(data.len() as u64, Ordering::Relaxed) + data.len() as u64;
        if written >= BEGUN {
            // Else much of it would wait for the end, and the disk for work.
            base::file::begin_to_write(&self.file, 0, 0);
            self.written.store(0, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Waits until what was written is on the disk.
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// Gives the room of a chunk of zeros back, so that a file with holes keeps them. Not every file system can.
    fn leave_hole(&self, at: u64, length: usize) -> bool {
        let flags = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
        fallocate(self.file.as_fd(), flags, at as i64, length as i64).is_ok()
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
        let (first, second) = (open(true).unwrap(), open(false).unwrap());
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

    /// Whether or not the file system takes what goes past the cache, and wherever the bytes lie.
    #[test]
    fn chunks_go_past_the_cache_or_through_it() {
        let scratch = Scratch::new();
        let chunk = CHUNK_BYTES as usize;
        let content: Vec<u8> = (0..3 * chunk + 5).map(|k| (k + k / 251) as u8).collect();
        let mut room = vec![0; chunk + 2 * ALIGN];
        for (turn, aside) in [0, 1].into_iter().enumerate() {
            let token = [turn as u8; 16];
            let part = Part::open(folder(&scratch.0), "out".into(), &token, content.len() as u64, 0o600, true).unwrap();
            let is_direct = || part.is_direct.load(Ordering::Relaxed);
            let takes_direct = is_direct();
            for (index, piece) in content.chunks(chunk).enumerate() {
                let at = room.as_ptr().align_offset(ALIGN) + aside;
                room[at..][..piece.len()].copy_from_slice(piece);
                part.write(index as u64, &room[at..][..piece.len()]).unwrap();
                assert_eq!(is_direct(), takes_direct && aside == 0 && piece.len() == chunk);
            }
            part.finish().unwrap();
            assert!(std::fs::read(scratch.path("out")).unwrap() == content);
        }
    }

    /// They hold zeros, also where something else was written before.
    #[test]
    fn chunks_of_zeros_take_no_room() {
        let scratch = Scratch::new();
        let chunk = CHUNK_BYTES as usize;
        let mut content = vec![0; 4 * chunk + 5000];
        content[chunk] = 1;
        content[3 * chunk - 1] = 1;
        let size = content.len() as u64;
        let part = Part::open(folder(&scratch.0), "out".into(), &[5; 16], size, 0o600, true).unwrap();
        let room = || part.file.metadata().unwrap().blocks() * 512;
        assert!(room() >= size, "there is room for all of it at first");
        part.write(0, &vec![7; chunk]).unwrap();
        for (index, piece) in content.chunks(chunk).enumerate() {
            part.write(index as u64, piece).unwrap();
        }
        part.finish().unwrap();
        assert!(std::fs::read(scratch.path("out")).unwrap() == content);
        // Two chunks have something in them; some blocks tell where.
        assert!(room() < 3 * CHUNK_BYTES, "{} bytes", room());
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
        for there in ["pipe", "link"] {
            let _ = nix::unistd::mkfifo(&scratch.path("pipe"), Mode::S_IRWXU);
            let _ = std::os::unix::fs::symlink("other", scratch.path("link"));
            let opened = Part::open(folder(&scratch.0), there.into(), &[2; 16], 4, 0o600, true);
            let error = Error::of(&opened.unwrap_err(), "it");
            assert_eq!((error.kind, &error.text[..]), (Kind::NotAFile, "it: it is no regular file"), "{there}");
        }
        let on_this_side = |name| Part::beside(&scratch.path(name), &[3; 16], 5, 0o600, true);
        assert_eq!(on_this_side("pipe").unwrap_err().kind, Kind::NotAFile);
        let part = on_this_side("link").unwrap();
        part.write(0, b"whole").unwrap();
        part.finish().unwrap();
        assert!(scratch.path("link").is_symlink() && std::fs::read(scratch.path("other")).unwrap() == b"whole");
        let long = "n".repeat(255);
        Part::open(folder(&scratch.0), long.into(), &[1; 16], 0, 0o600, true).unwrap().finish().unwrap();
    }

    #[test]
    fn what_is_named_as_a_folder_has_to_be_one() {
        let scratch = Scratch::new();
        let (here, file) = (scratch.path("here"), scratch.path("file"));
        std::fs::create_dir(&here).unwrap();
        std::fs::write(&file, "").unwrap();
        let target = |local: &Path, end: &str| {
            let local = format!("{}{end}", local.display());
            target(Path::new(&local), b"out/one").map_err(|e| (e.kind, e.text))
        };
        for end in ["", "/", "/."] {
            assert_eq!(target(&here, end), Ok(here.join("one")), "{end}");
        }
        for local in [scratch.path("none"), file] {
            assert_eq!(target(&local, ""), Ok(local.clone()));
            for end in ["/", "/."] {
                let why = format!("'{}{end}': there is no such folder", local.display());
                assert_eq!(target(&local, end), Err((Kind::NoSuchFile, why)));
            }
        }
    }
}
