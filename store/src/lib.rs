//! The file in which a naming server keeps its names beyond its own death: `mpi-connect serve --store FILE`. The command alone
//! uses this crate, so the library that programs preload has no database in it.
//!
//! Invariant: a file that is not this user's, that others may read, that another server has open, or that is not whole is never
//! changed. A file that is there is whole: a new one gets its name when it is.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod backend;
mod error;
mod file;

pub use backend::{Step, Watch};
pub use error::OpenError;

use backend::Backend;
use naming::server::{Ledger, LedgerError, Row};
use nix::sys::signal::{SigSet, Signal};
use redb::{Builder, Database, ReadableDatabase, ReadableTable, TableDefinition, TableError};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The one table. By its name a file is known as ours.
const ROWS: TableDefinition<&[u8], &[u8]> = TableDefinition::new("mpi-connect names");
/// Memory for pages that were read, in bytes. The names themselves are in the server's memory.
const CACHE: usize = 16 << 20;

/// The file, open and locked.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    /// Its lock stands until this is dropped, whatever becomes of the database.
    file: File,
    watch: Option<Arc<dyn Watch>>,
    /// None after a write has failed: it is opened anew for the next.
    database: Option<Database>,
}

impl Store {
    /// Opens the file, or makes it.
    pub fn open(path: &Path) -> Result<Store, OpenError> {
        Store::open_watched(path, None)
    }

    /// For tests: as [`Store::open`], with somebody who is asked before each change of the file.
    pub fn open_watched(path: &Path, watch: Option<Arc<dyn Watch>>) -> Result<Store, OpenError> {
        // A limit on the size of files is an error as a full disk is, and does not end the process.
        let _ = SigSet::from(Signal::SIGXFSZ).thread_block();
        let path = std::path::absolute(path).map_err(|e| OpenError::Io("finding", path.into(), e))?;
        let file = match file::existing(&path)? {
            Some(file) => file,
            None => match create(&path, &watch)? {
                Some(file) => file,
                // Another server was faster.
                None => file::existing(&path)?.ok_or_else(|| OpenError::Busy(path.clone()))?,
            },
        };
        let database = Some(database(&path, &file, &watch)?);
        Ok(Store { path, file, watch, database })
    }

    fn commit(database: &Database, rows: &[Row]) -> Result<(), redb::Error> {
        let mut transaction = database.begin_write()?;
        // Clients choose what is written. With one phase, bytes that they choose could pass for a commit after a crash.
        transaction.set_two_phase_commit(true);
        {
            let mut table = transaction.open_table(ROWS)?;
            for (key, value) in rows {
                match value {
                    Some(value) => drop(table.insert(key.as_slice(), value.as_slice())?),
                    None => drop(table.remove(key.as_slice())?),
                }
            }
        }
        Ok(transaction.commit()?)
    }
}

/// Makes a file, whole, beside its place, and gives it its name. `None` if the name is taken by then.
fn create(path: &Path, watch: &Option<Arc<dyn Watch>>) -> Result<Option<File>, OpenError> {
    let beside = file::beside(path);
    let file = file::new(&beside)?;
    let failed = |e| error::opening(&beside, e);
    let backend = Backend::new(&file, watch).map_err(|e| OpenError::Io("opening", beside.clone(), e))?;
    let new = Builder::new().set_cache_size(CACHE).create_with_backend(backend).map_err(|e| failed(e.into()))?;
    Store::commit(&new, &[]).map_err(failed)?;
    drop(new);
    let named = file::name(&beside, path);
    let _ = fs::remove_file(&beside);
    Ok(named?.then_some(file))
}

fn database(path: &Path, file: &File, watch: &Option<Arc<dyn Watch>>) -> Result<Database, OpenError> {
    let failed = |e| error::opening(path, e);
    let backend = Backend::new(file, watch).map_err(|e| OpenError::Io("opening", path.into(), e))?;
    // The whole file is read: a byte that the disk has lost is found now, not when its name is looked up.
    let mut builder = Builder::new();
    builder.set_cache_size(CACHE).set_check_integrity_on_open(true);
    let database = builder.create_with_backend(backend).map_err(|e| failed(e.into()))?;
    let transaction = database.begin_read().map_err(|e| failed(e.into()))?;
    match transaction.open_table(ROWS) {
        Ok(_) => {}
        Err(TableError::TableDoesNotExist(_)) => return Err(OpenError::NoStore(path.into())),
        Err(e) => return Err(failed(e.into())),
    }
    drop(transaction);
    Ok(database)
}

impl Ledger for Store {
    fn read(&mut self, row: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), LedgerError> {
        let Some(database) = &self.database else { return Err(LedgerError::Failed("it is not open".into())) };
        let mut all = || -> Result<(), redb::Error> {
            for entry in database.begin_read()?.open_table(ROWS)?.iter()? {
                let (key, value) = entry?;
                row(key.value(), value.value());
            }
            Ok(())
        };
        all().map_err(|e| error::using(&self.path, e))
    }

    fn write(&mut self, rows: &[Row]) -> Result<(), LedgerError> {
        let database = match self.database.take() {
            Some(database) => database,
            None => database(&self.path, &self.file, &self.watch).map_err(LedgerError::from)?,
        };
        Store::commit(&database, rows).map_err(|e| error::using(&self.path, e))?;
        self.database = Some(database);
        Ok(())
    }
}
