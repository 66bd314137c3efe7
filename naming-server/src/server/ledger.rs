//! Where a server keeps names beyond its death. `mpi-connect serve --store` brings one; without it there is none.

use std::error::Error;
use std::fmt::{Display, Formatter, Result as Formatted};

/// A row: its key, and its value; `None` removes it.
pub type Row = (Vec<u8>, Option<Vec<u8>>);

/// Keeps rows. Whatever happens to this process or its host, after a write all of its rows are there, or none of them was
/// changed; and once it has returned well, they are there.
pub trait Ledger: Send {
    /// Calls `row` with each key and value.
    fn read(&mut self, row: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), LedgerError>;
    /// Writes these rows. After an error none of them was changed, and it may be called again.
    fn write(&mut self, rows: &[Row]) -> Result<(), LedgerError>;
}

/// Why a ledger was not read or written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LedgerError {
    /// The disk, or what the user may have of it, is full.
    Full(String),
    /// What it has is not what was written: why this is known.
    Damaged(String),
    /// It was written by a release that has rows of this version.
    Version(u16),
    /// Anything else.
    Failed(String),
}

impl Display for LedgerError {
    fn fmt(&self, f: &mut Formatter<'_>) -> Formatted {
        match self {
            LedgerError::Full(why) | LedgerError::Failed(why) => f.write_str(why),
            LedgerError::Damaged(why) => write!(f, "it is damaged: {why}"),
            LedgerError::Version(v) => {
                write!(f, "it is of version {v}, which another release of MPI_Connect has written")
            }
        }
    }
}

impl Error for LedgerError {}
