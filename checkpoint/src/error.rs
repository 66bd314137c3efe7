//! What can go wrong with the files of checkpoints.

use crate::layout::{ImageError, ReadError};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::{error, fmt};

/// What could not be done, and where.
#[derive(Debug)]
pub enum StoreError {
    /// The system refuses.
    System(PathBuf, io::Error),
    /// The file is no image.
    Image(PathBuf, ImageError),
    /// Another job of the same name has this lock: which process, if it is known.
    Busy(PathBuf, String),
    /// The folder was there, and is no more.
    Gone(PathBuf),
}

impl StoreError {
    /// What was wrong with this file when it was read.
    pub(crate) fn reading(path: &Path, e: ReadError) -> StoreError {
        match e {
            ReadError::System(e) => StoreError::System(path.into(), e),
            ReadError::Image(e) => StoreError::Image(path.into(), e),
        }
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreError::System(path, e) => {
                write!(f, "{}: {e}", path.display())?;
                match e.kind() {
                    ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
                        f.write_str("; make room there: three checkpoints have to fit")
                    }
                    _ => Ok(()),
                }
            }
            StoreError::Image(path, e) => write!(f, "{}: {e}", path.display()),
            StoreError::Busy(path, who) => write!(
                f,
                "another job of this name lives and uses them ({who} has locked {}): end it, or name another folder",
                path.display()
            ),
            StoreError::Gone(path) => {
                write!(f, "{} is gone; all processes of a job have to see it. Make it again", path.display())
            }
        }
    }
}

impl error::Error for StoreError {}
