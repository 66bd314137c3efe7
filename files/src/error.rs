//! Why a file does not move.

use base::protocol::files as numbers;
use nix::errno::Errno;
use std::fmt;
use std::io;

/// The kind of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// There is no such file, or no folder for it.
    NoSuchFile,
    /// It is not open to others, or the system denies it.
    Denied,
    /// The folder is open for reading alone.
    ReadOnly,
    /// The disk or a quota is full.
    NoSpace,
    /// It has changed since it was opened.
    Changed,
    /// It is a folder or a device, or the path names no file.
    NotAFile,
    /// A chunk does not have its checksum.
    Damaged,
    /// The system fails to read or write.
    Io,
    /// Too many files move there at this moment.
    Busy,
    /// The other side does not understand what was said, or says what it must not.
    Malformed,
    /// The connection broke, or could not be made.
    Broken,
    /// The serving process is dead or has finalized.
    Gone,
    /// Nothing has moved for too long.
    TimedOut,
    /// The key is not the same, or the other release has no files.
    Refused,
}

/// Where it went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// In this process.
    Here,
    /// In the process that serves.
    There,
}

/// An error.
#[derive(Debug, Clone)]
pub struct Error {
    /// Its kind.
    pub kind: Kind,
    /// Where.
    pub side: Side,
    /// What is said of it.
    pub text: String,
}

impl Kind {
    /// Its number on the wire; `None`: it is no answer.
    pub(crate) fn number(self) -> Option<u8> {
        Some(match self {
            Kind::NoSuchFile => numbers::NO_SUCH_FILE,
            Kind::Denied => numbers::DENIED,
            Kind::ReadOnly => numbers::READ_ONLY,
            Kind::NoSpace => numbers::NO_SPACE,
            Kind::Changed => numbers::CHANGED,
            Kind::NotAFile => numbers::NOT_A_FILE,
            Kind::Damaged => numbers::DAMAGED,
            Kind::Io => numbers::IO,
            Kind::Busy => numbers::BUSY,
            Kind::Malformed => numbers::MALFORMED,
            Kind::Broken | Kind::Gone | Kind::TimedOut | Kind::Refused => return None,
        })
    }

    pub(crate) fn from_number(number: u8) -> Option<Kind> {
        Kind::SAID.into_iter().find(|kind| kind.number() == Some(number))
    }

    /// Those that one side says to the other.
    const SAID: [Kind; 10] = [
        Kind::NoSuchFile,
        Kind::Denied,
        Kind::ReadOnly,
        Kind::NoSpace,
        Kind::Changed,
        Kind::NotAFile,
        Kind::Damaged,
        Kind::Io,
        Kind::Busy,
        Kind::Malformed,
    ];

    /// Whether another connection, or the same a little later, may do better.
    pub(crate) fn may_pass(self) -> bool {
        matches!(self, Kind::Broken | Kind::Busy | Kind::Damaged)
    }
}

impl Error {
    /// An error of this side.
    pub fn here(kind: Kind, text: impl Into<String>) -> Error {
        Error { kind, side: Side::Here, text: text.into() }
    }

    /// An error of the other side, or of the way there.
    pub(crate) fn there(kind: Kind, text: impl Into<String>) -> Error {
        Error { kind, side: Side::There, text: text.into() }
    }

    /// What the system has said of a file here.
    pub fn of(e: &io::Error, what: impl fmt::Display) -> Error {
        let kind = match Errno::from_raw(e.raw_os_error().unwrap_or(0)) {
            // No call of the system has said that, but whoever looked at what is there.
            _ if e.raw_os_error().is_none() && e.kind() == io::ErrorKind::InvalidInput => Kind::NotAFile,
            Errno::ENOENT | Errno::ENOTDIR | Errno::ENXIO => Kind::NoSuchFile,
            Errno::EACCES | Errno::EPERM | Errno::EXDEV | Errno::ELOOP => Kind::Denied,
            Errno::EROFS => Kind::ReadOnly,
            Errno::ENOSPC | Errno::EDQUOT | Errno::EFBIG => Kind::NoSpace,
            Errno::EISDIR | Errno::ENAMETOOLONG => Kind::NotAFile,
            _ => Kind::Io,
        };
        Error::here(kind, format!("{what}: {e}"))
    }

    /// What the system has said of a path below a folder that is open to others.
    pub(crate) fn below(e: &io::Error, path: impl fmt::Display) -> Error {
        match e.raw_os_error().map(Errno::from_raw) {
            Some(Errno::EXDEV) => {
                Error::here(Kind::Denied, format!("'{path}': a link on the way leads out of the folder that is open"))
            }
            Some(Errno::ELOOP) => Error::here(Kind::Denied, format!("'{path}': a link on the way is not followed")),
            _ => Error::of(e, format!("'{path}'")),
        }
    }

    /// The connection broke.
    pub(crate) fn broken(e: &io::Error) -> Error {
        let kind = if e.kind() == io::ErrorKind::InvalidData { Kind::Damaged } else { Kind::Broken };
        Error::there(kind, format!("the connection broke: {e}"))
    }

    /// The other side says what it must not.
    pub(crate) fn unexpected() -> Error {
        Error::there(Kind::Malformed, "what was answered has no meaning here")
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_disk_refuses_is_no_matter_of_what_the_file_is() {
        let error = Error::of(&io::Error::from(Errno::EINVAL), "the file cannot be written");
        assert_eq!(
            (error.kind, &error.text[..]),
            (Kind::Io, "the file cannot be written: Invalid argument (os error 22)")
        );
        assert_eq!(Error::of(&Errno::EISDIR.into(), "'a'").kind, Kind::NotAFile);
        assert_eq!(Error::of(&Errno::EIO.into(), "'a'").kind, Kind::Io);
    }
}
