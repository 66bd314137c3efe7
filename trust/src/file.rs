//! The key file: where it lies, how it is made, read, and exchanged.
//!
//! Invariants: a key file is whole or not there, whoever makes it at the same time; it is used only if no other user can
//! read or change it; an exchange leaves it to the user that it belongs to.

use crate::key::Key;
use crate::ring::Ring;
use nix::unistd::{AccessFlags, Uid, User, access, geteuid};
use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// The most bytes of a key file, and the most keys in it.
const MOST_BYTES: u64 = 64 << 10;
const MOST_KEYS: usize = 16;
/// The most links that lead to each other, as the kernel has it.
const MOST_LINKS: usize = 40;
/// What is being done when a file cannot be made.
const MAKING: &str = "making";
/// How every key file begins.
const TITLE: &str = "# A key of MPI_Connect: whoever holds it may join. Keep it secret (mode 0600).\n";

/// Where the keys of this user are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyFile {
    path: PathBuf,
    /// A setting names it.
    named: bool,
}

/// Why there is no key. Each text says what a user can do about it.
#[derive(Debug)]
pub enum FileError {
    /// The setting is not `file:PATH`.
    Setting(String),
    /// `MPI_CONNECT_ENCRYPT` is none of its words.
    Encrypt(String),
    /// There is no home directory in which the key could lie.
    NoHome,
    /// The system refused an operation on this file.
    Io(&'static str, PathBuf, io::Error),
    /// The folder in which it would be made is not there: its path is mistyped.
    Folder(PathBuf),
    /// Other users can read or change it.
    Open(PathBuf, u32),
    /// It belongs to another user.
    Owner(PathBuf, u32),
    /// This line of it is no key.
    Line(PathBuf, usize),
    /// It has no key, or too many.
    Number(PathBuf),
    /// It is no regular file.
    Kind(PathBuf),
    /// Root is to exchange it, and this link on the way was made by another user.
    Link(PathBuf, PathBuf),
}

impl FileError {
    /// Whether a setting is wrong, and not the file.
    pub fn is_setting(&self) -> bool {
        matches!(self, FileError::Setting(_) | FileError::Encrypt(_) | FileError::Folder(_))
    }

    /// The setting that names what is wrong.
    pub fn name(&self) -> &'static str {
        if let FileError::Encrypt(_) = self { base::settings::ENCRYPT } else { base::settings::KEY }
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FileError::Setting(value) => write!(f, "'{value}' is not file:PATH"),
            FileError::Encrypt(word) => {
                write!(f, "'{word}' is no word of MPI_CONNECT_ENCRYPT: one of always, network, never is expected")
            }
            FileError::NoHome => f.write_str(
                "there is no home directory for the key: set MPI_CONNECT_KEY=file:PATH, on all hosts of the job",
            ),
            FileError::Io(doing, path, e) => {
                write!(f, "{doing} the key file {}: {e}{}", path.display(), base::mend(e))?;
                let place = if *doing == MAKING { "; another place is set by MPI_CONNECT_KEY=file:PATH" } else { "" };
                f.write_str(place)
            }
            FileError::Folder(folder) => write!(f, "the key: there is no folder {}", folder.display()),
            FileError::Open(path, mode) => write!(
                f,
                "the key file {path} has mode {mode:03o}, so others can use it: chmod 600 {path}, and make a new key by \
                 `mpi-connect key new` if they may have",
                path = path.display()
            ),
            FileError::Owner(path, uid) => {
                write!(f, "the key file {} belongs to the user with number {uid}: name one of your own", path.display())
            }
            FileError::Line(path, line) => {
                write!(f, "line {line} of the key file {} is no key: 64 hexadecimal digits", path.display())
            }
            FileError::Number(path) => {
                write!(
                    f,
                    "the key file {} has to have 1 to {MOST_KEYS} keys: copy it again from where it is whole, or remove it, and \
                     the next who needs a key makes one",
                    path.display()
                )
            }
            FileError::Link(path, link) => write!(
                f,
                "{} leads over {}, a link of another user, so it may be any file: name the key file itself",
                path.display(),
                link.display()
            ),
            FileError::Kind(path) => write!(f, "the key file {} is a folder, or no regular file", path.display()),
        }
    }
}

impl std::error::Error for FileError {}

/// Why a text is none of a key file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Wrong {
    /// This line of it is no key; the first is 1.
    Line(usize),
    /// It has no key, or too many.
    Number,
}

/// The keys in the text of a key file, the own one first.
pub(crate) fn parse(text: &str) -> Result<Ring, Wrong> {
    let mut keys = Vec::new();
    for (n, line) in text.lines().enumerate() {
        let line = line.trim();
        if !line.is_empty() && !line.starts_with('#') {
            keys.push(Key::parse(line).map_err(|_| Wrong::Line(n + 1))?);
        }
    }
    if keys.is_empty() || keys.len() > MOST_KEYS {
        return Err(Wrong::Number);
    }
    let mut keys = keys.into_iter();
    let own = keys.next().expect("there is one");
    Ok(Ring::new(own, keys))
}

impl KeyFile {
    /// The file that `MPI_CONNECT_KEY` names. If the setting is `None`, `.config/mpi-connect/key` in the user's home directory,
    /// or, for a user who has none to write to, `key` in the user's private folder of this host.
    pub fn find(setting: Option<&str>) -> Result<KeyFile, FileError> {
        if let Some(value) = setting.map(str::trim).filter(|value| !value.is_empty()) {
            let path = value.strip_prefix("file:").filter(|path| !path.is_empty());
            let path = path.ok_or_else(|| FileError::Setting(value.into()))?;
            let whole = std::path::absolute(path).map_err(|e| FileError::Io("finding", path.into(), e))?;
            return Ok(KeyFile { path: whole, named: true });
        }
        let of_environment = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
        let of_system = || User::from_uid(geteuid()).ok().flatten().map(|user| user.dir);
        let home = of_environment.or_else(of_system).ok_or(FileError::NoHome)?;
        let path = home.join(".config/mpi-connect/key");
        // A read-only home may have a key that was made elsewhere.
        if path.exists() || access(&home, AccessFlags::W_OK).is_ok() {
            return Ok(KeyFile::at(path));
        }
        private_folder().map(|folder| KeyFile::at(folder.join("key")))
    }

    /// The file at this path.
    pub fn at(path: impl Into<PathBuf>) -> KeyFile {
        KeyFile { path: path.into(), named: false }
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The folder in which it lies, if that is not there.
    pub fn missing_folder(&self) -> Option<&Path> {
        self.path.parent().filter(|folder| !folder.is_dir())
    }

    /// The keys in it, the own one first.
    pub fn read(&self) -> Result<Ring, FileError> {
        let path = &self.path;
        let failed = |e| FileError::Io("reading", path.clone(), e);
        let file = OpenOptions::new().read(true).custom_flags(nix::libc::O_NONBLOCK).open(path).map_err(failed)?;
        let about = file.metadata().map_err(failed)?;
        if !about.is_file() {
            return Err(FileError::Kind(path.clone()));
        }
        // Root reads what it names: it manages the keys of services, which have users of their own.
        let owner = Uid::from_raw(about.uid());
        if owner != geteuid() && !owner.is_root() && !geteuid().is_root() {
            return Err(FileError::Owner(path.clone(), about.uid()));
        }
        if about.mode() & 0o077 != 0 {
            return Err(FileError::Open(path.clone(), about.mode() & 0o777));
        }
        // It grows to its size at once: a copy that is left behind by growth is not erased.
        let mut text = Zeroizing::new(String::with_capacity(about.len().min(MOST_BYTES) as usize + 1));
        file.take(MOST_BYTES).read_to_string(&mut text).map_err(failed)?;
        parse(&text).map_err(|wrong| match wrong {
            Wrong::Line(line) => FileError::Line(path.clone(), line),
            Wrong::Number => FileError::Number(path.clone()),
        })
    }

    /// The keys in it. A file that is not there is made, with a new key; of several processes that make it at the same time,
    /// one does, and all read that.
    pub fn read_or_make(&self) -> Result<Ring, FileError> {
        match self.read() {
            Err(FileError::Io(_, _, e)) if e.kind() == ErrorKind::NotFound => {
                self.make(&Ring::new(Key::new(), []), false)?;
                let ring = self.read()?;
                if self.named {
                    // Perhaps another file was meant.
                    let (path, key) = (self.path.display(), ring.own().id());
                    base::log::say(&format!("there was no key at {path}: a new one was made, {key}"));
                }
                Ok(ring)
            }
            read => read,
        }
    }

    /// Writes a new key as the first. Of those before it, the newest stays accepted if `keep` is set. Returns the keys.
    pub fn renew(&self, keep: bool) -> Result<Ring, FileError> {
        let before = match self.read() {
            Ok(ring) => Some(ring),
            Err(FileError::Io(_, _, e)) if e.kind() == ErrorKind::NotFound => None,
            Err(FileError::Line(..) | FileError::Number(_)) if !keep => None,
            Err(e) => return Err(e),
        };
        let others = before.filter(|_| keep).map(|ring| ring.own().clone());
        self.make(&Ring::new(Key::new(), others), true)?;
        self.read()
    }

    /// Writes a whole file beside its place and gives it its name. `replace`: instead of one that is there.
    fn make(&self, ring: &Ring, replace: bool) -> Result<(), FileError> {
        // What a link leads to is exchanged, not the link: others may use it too.
        let target = fs::canonicalize(&self.path).ok().filter(|_| replace);
        if replace
            && geteuid().is_root()
            && let Some(link) = link_of_another(&self.path, MOST_LINKS)
        {
            return Err(FileError::Link(self.path.clone(), link));
        }
        let path = target.as_ref().unwrap_or(&self.path);
        let failed = |e| FileError::Io(MAKING, path.clone(), e);
        let folder = path.parent().ok_or_else(|| failed(ErrorKind::InvalidInput.into()))?;
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
        let beside = folder.join(format!(".key-{:016x}", u64::from_le_bytes(base::ident::random())));
        let named = || -> io::Result<()> {
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
            file.write_all(TITLE.as_bytes())?;
            for (n, key) in std::iter::once(ring.own()).chain(ring.others()).enumerate() {
                if n == 1 {
                    file.write_all(b"# Accepted too, while some still have it:\n")?;
                }
                file.write_all(key.text().as_bytes())?;
                file.write_all(b"\n")?;
            }
            if replace
                && let Ok(before) = fs::metadata(path)
                && before.uid() != geteuid().as_raw()
            {
                fchown(&file, Some(before.uid()), Some(before.gid()))?;
            }
            file.sync_all()?;
            if replace {
                return fs::rename(&beside, path);
            }
            match fs::hard_link(&beside, path) {
                // Another process was faster: its key counts.
                Err(e) if e.kind() == ErrorKind::AlreadyExists => Ok(()),
                linked => linked,
            }
        };
        let done = named();
        let _ = fs::remove_file(&beside);
        done.map_err(failed)?;
        // The name of a file lasts once its folder is written; some file systems have no way to.
        let _ = File::open(folder).and_then(|folder| folder.sync_all());
        Ok(())
    }
}

/// The first link on the way of this path that is not root's.
fn link_of_another(path: &Path, most: usize) -> Option<PathBuf> {
    let mut at = PathBuf::new();
    for part in path.components() {
        at.push(part);
        let about = fs::symlink_metadata(&at).ok()?;
        if about.is_symlink() {
            if most == 0 || about.uid() != 0 {
                return Some(at);
            }
            let target = fs::read_link(&at).ok()?;
            at.pop();
            at.push(target);
            if let Some(link) = link_of_another(&at, most - 1) {
                return Some(link);
            }
        }
    }
    None
}

/// The folder of this user on this host, where names lie too. It is used if nobody else can have put anything there.
fn private_folder() -> Result<PathBuf, FileError> {
    let folder = base::file::private_folder();
    let failed = |e| FileError::Io("making a folder for", folder.clone(), e);
    match DirBuilder::new().mode(0o700).create(&folder) {
        Err(e) if e.kind() != ErrorKind::AlreadyExists => return Err(failed(e)),
        _ => (),
    }
    let about = fs::symlink_metadata(&folder).map_err(failed)?;
    if about.uid() != geteuid().as_raw() {
        return Err(FileError::Owner(folder, about.uid()));
    }
    if !about.is_dir() || about.mode() & 0o022 != 0 {
        return Err(FileError::Open(folder, about.mode() & 0o777));
    }
    Ok(folder)
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
