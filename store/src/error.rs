//! Why a store cannot be opened or written. The texts also say what can be done about it.

use naming::server::LedgerError;
use redb::Error as Redb;
use std::fmt::{Display, Formatter, Result as Formatted};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// Why a store cannot be opened.
#[derive(Debug)]
pub enum OpenError {
    /// A system call failed: what was tried, on this path.
    Io(&'static str, PathBuf, io::Error),
    /// This is what lies there instead of a file.
    NoFile(PathBuf, &'static str),
    /// It belongs to the user with this number.
    Foreign(PathBuf, u32),
    /// This mode lets other users read or write it.
    Readable(PathBuf, u32),
    /// Another server has it open.
    Busy(PathBuf),
    /// It is no store of names.
    NoStore(PathBuf),
    /// It is not what was written: why this is known.
    Damaged(PathBuf, String),
}

impl Display for OpenError {
    fn fmt(&self, f: &mut Formatter<'_>) -> Formatted {
        match self {
            OpenError::Io(what, path, e) => write!(f, "{what} {}: {e}", path.display()),
            OpenError::NoFile(path, what) => {
                write!(f, "{what} lies at {}, where the store belongs; remove it, or name another file", path.display())
            }
            OpenError::Foreign(path, user) => {
                write!(f, "{} belongs to another user (uid {user}); name a file of your own", path.display())
            }
            OpenError::Readable(path, mode) => write!(
                f,
                "other users can open {} (mode {mode:o}), which has what lets a process into a job; chmod 600 it",
                path.display()
            ),
            OpenError::Busy(path) => {
                let path = path.display();
                write!(f, "another server has {path} open; 'fuser -v {path}' shows its process")
            }
            OpenError::NoStore(path) => write!(
                f,
                "{} is no store of names, and is left as it is; name another file, which is made then",
                path.display()
            ),
            OpenError::Damaged(path, why) => write!(
                f,
                "{} is damaged, and is left as it is: {why}; put a copy in its place, or move it away and begin without names",
                path.display()
            ),
        }
    }
}

impl std::error::Error for OpenError {}

impl From<OpenError> for LedgerError {
    fn from(e: OpenError) -> LedgerError {
        match &e {
            OpenError::Io(_, _, why) if is_full(why) => LedgerError::Full(full(e)),
            OpenError::Damaged(_, why) => LedgerError::Damaged(why.clone()),
            _ => LedgerError::Failed(e.to_string()),
        }
    }
}

fn full(why: impl Display) -> String {
    format!("{why}; make room there")
}

fn is_full(e: &io::Error) -> bool {
    matches!(e.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge)
}

/// An error of the database while it is opened.
pub(super) fn opening(path: &Path, e: Redb) -> OpenError {
    match e {
        // The database says so where its first bytes are missing.
        Redb::Io(e) if e.kind() == ErrorKind::InvalidData => OpenError::NoStore(path.into()),
        Redb::Io(e) if e.kind() == ErrorKind::UnexpectedEof => OpenError::Damaged(path.into(), "it was cut".into()),
        Redb::Io(e) => OpenError::Io("opening", path.into(), e),
        Redb::UpgradeRequired(_) | Redb::TableTypeMismatch { .. } => OpenError::NoStore(path.into()),
        e => OpenError::Damaged(path.into(), e.to_string()),
    }
}

/// An error of the database while it is used.
pub(super) fn using(path: &Path, e: Redb) -> LedgerError {
    match e {
        Redb::Io(e) if is_full(&e) => LedgerError::Full(full(format!("writing {}: {e}", path.display()))),
        Redb::Corrupted(why) => LedgerError::Damaged(why),
        e => LedgerError::Failed(format!("writing {}: {e}", path.display())),
    }
}
