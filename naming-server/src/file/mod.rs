//! `file:DIR`: names are files in a folder that both jobs see, held by file locks. Opened by [`crate::open`].
//!
//! Invariant: see `entry`; and a record is complete and locked before it gets its name.

mod entry;
mod folder;
mod holding;
pub(crate) mod names;
mod sweep;
#[cfg(test)]
pub(crate) mod tests;
mod watch;

use crate::error::{ClaimError, LookupError, StoreError};
use crate::record::{Record, check_name};
use crate::{Claim, Key, Kind, Naming, State, Watch, private};
use entry::Seen;
use folder::{Clock, Temporary};
use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};

/// How long a claim is tried again while other processes clean up or claim the name at the same time.
const CLAIM_LIMIT: Duration = Duration::from_secs(2);

/// A store of names in a folder.
pub struct FileStore {
    dir: PathBuf,
    run: String,
    /// This is the private folder, to which no other user may be able to write.
    private: bool,
    /// The boot id of this host.
    boot: [u8; 16],
}

impl FileStore {
    /// The store in this folder, for names of no run. This touches nothing; the first claim makes the folder.
    pub fn new(dir: PathBuf) -> FileStore {
        FileStore { private: private::is(&dir), dir, run: String::new(), boot: crate::boot_id() }
    }

    /// The same store, for the names of a run that has been checked; empty for none.
    pub(crate) fn of_run(mut self, run: &str) -> FileStore {
        self.run = run.into();
        self
    }

    /// As if this process ran on another host.
    #[cfg(test)]
    fn on(mut self, boot: [u8; 16]) -> FileStore {
        self.boot = boot;
        self
    }

    fn path(&self, key: &Key) -> PathBuf {
        self.dir.join(names::file_name(key))
    }

    fn seen(&self, path: &Path, clock: &Clock<'_>) -> Result<Option<Seen>, StoreError> {
        entry::seen(path, &self.boot, clock)
    }

    /// A complete and locked record, in a temporary file.
    fn prepare(&self, bytes: &[u8], durable: bool) -> Result<Temporary, StoreError> {
        let mut tmp = Temporary::create(&self.dir)?;
        lock(&tmp.file, &self.dir)?;
        // Other hosts read the record from the disk or the file server, so it must be there before it has its name.
        tmp.file
            .write_all(bytes)
            .and_then(|()| if durable { tmp.file.sync_data() } else { Ok(()) })
            .map_err(|e| StoreError::Io("writing a record to", self.dir.clone(), e))?;
        Ok(tmp)
    }

    /// Deals with the record that has the name already. Returns its live holder; or `None` once the name is free.
    fn contend(&self, path: &Path, until: Instant) -> Result<Option<Record>, StoreError> {
        while Instant::now() < until {
            let Some(file) = entry::open(path, true)? else { return Ok(None) };
            match entry::look(&file, path, &self.boot, &Clock::new(&self.dir))? {
                Seen::Live(rec) => return Ok(Some(rec)),
                Seen::LeftOver(_) if entry::clean(&file, path)? => return Ok(None),
                Seen::LeftOver(_) | Seen::Cleaning => sleep(entry::NAP),
            }
        }
        Err(StoreError::Busy(path.into()))
    }
}

impl FileStore {
    /// Claims a name. A record that is not `durable` may not be on the disk yet when it gets its name.
    fn take(&self, rec: &Record, durable: bool) -> Result<Claim, ClaimError> {
        check_name(&rec.name).map_err(ClaimError::Name)?;
        let rec = Record { run: self.run.clone(), ..rec.clone() };
        let bytes = rec.encode().map_err(ClaimError::Record)?;
        let folder = folder::ready(&self.dir, self.private)?;
        if folder::others_write(&folder) {
            base::log!(Info, "other users can write to {}", self.dir.display());
        }
        let tmp = self.prepare(&bytes, durable)?;
        if durable {
            sweep::sweep(&self.dir, &self.boot, &Clock::new(&self.dir));
        }
        let path = self.path(&rec.key());
        let until = Instant::now() + CLAIM_LIMIT;
        while !link(&tmp, &path)? {
            match self.contend(&path, until)? {
                Some(by) if by.key() != rec.key() => {
                    return Err(StoreError::Collision(path, by.name).into());
                }
                Some(by) => return Err(ClaimError::Held { by: Box::new(by) }),
                None if Instant::now() >= until => return Err(StoreError::Busy(path).into()),
                None => {}
            }
        }
        let file = tmp.into_file().map_err(|e| StoreError::Io("keeping open", path.clone(), e))?;
        if rec.kind() != Kind::Coupling {
            base::log!(Info, "'{}' is ours: {}", rec.name, path.display());
        }
        Ok(Claim::new(Box::new(holding::FileHolding::new(file, path))))
    }
}

impl Naming for FileStore {
    fn claim(&self, rec: &Record) -> Result<Claim, ClaimError> {
        self.take(rec, true)
    }

    fn note(&self, rec: &Record) -> Result<Claim, ClaimError> {
        self.take(rec, false)
    }

    fn lookup(&self, kind: Kind, name: &str) -> Result<Option<Record>, LookupError> {
        check_name(name).map_err(LookupError::Name)?;
        self.lookup_key(&Key::of(&self.run, kind, name))
    }

    fn lookup_key(&self, key: &Key) -> Result<Option<Record>, LookupError> {
        if folder::seen(&self.dir, self.private)?.is_none() {
            return Ok(None);
        }
        let path = self.path(key);
        match self.seen(&path, &Clock::new(&self.dir))? {
            Some(Seen::Live(rec)) if rec.key() == *key => Ok(Some(rec)),
            Some(Seen::LeftOver(_)) => {
                base::log!(Debug, "{} was left by a dead job", path.display());
                Ok(None)
            }
            _ => Ok(None),
        }
    }

    fn list(&self) -> Result<Vec<(Record, State)>, StoreError> {
        if folder::seen(&self.dir, self.private)?.is_none() {
            return Ok(Vec::new());
        }
        let clock = Clock::new(&self.dir);
        let mut out = Vec::new();
        for file in fs::read_dir(&self.dir).map_err(|e| StoreError::Io("listing", self.dir.clone(), e))?.flatten() {
            let file_name = file.file_name();
            let Some(file_name) = file_name.to_str().filter(|n| names::is_record(n)) else { continue };
            let found = match self.seen(&file.path(), &clock) {
                Ok(Some(Seen::Live(rec))) => (rec, State::Live),
                Ok(Some(Seen::LeftOver(Some(rec)))) if rec.kind() != Kind::Coupling => (rec, State::LeftOver),
                Ok(_) => continue,
                Err(StoreError::Version(_, version)) => {
                    out.push((unread(&file.path(), file_name), State::OtherVersion(version)));
                    continue;
                }
                Err(StoreError::Foreign(_, user)) => {
                    out.push((unread(&file.path(), file_name), State::OtherUser(user)));
                    continue;
                }
                Err(e) => {
                    base::log!(Info, "passed over: {e}");
                    continue;
                }
            };
            // A copy of a record under another file name is no claim.
            if names::file_name(&found.0.key()) == file_name {
                out.push(found);
            }
        }
        out.sort_by_cached_key(|(record, _)| record.key());
        Ok(out)
    }

    fn watch(&self) -> Box<dyn Watch + '_> {
        Box::new(watch::FolderWatch::new(&self.dir, &self.boot))
    }

    fn is_alive(&self, rec: &Record) -> Result<bool, LookupError> {
        Ok(self.lookup(rec.kind(), &rec.name)?.is_some_and(|r| r.incarnation == rec.incarnation))
    }

    fn make_ready(&self) -> Result<(), StoreError> {
        folder::ready(&self.dir, self.private).map(drop)
    }

    fn check(&self) -> Result<Vec<String>, StoreError> {
        let folder = folder::ready(&self.dir, self.private)?;
        let tmp = self.prepare(b"check", true)?;
        let other = self.dir.join(names::temporary());
        let linked = link(&tmp, &other);
        let _ = fs::remove_file(&other);
        linked?;
        let again = File::open(&tmp.path).map_err(|e| StoreError::Io("opening", tmp.path.clone(), e))?;
        if again.try_lock_shared().is_ok() {
            return Err(StoreError::NoLocks(self.dir.clone(), io::Error::other("a lock did not keep another out")));
        }
        let mut notes = Vec::new();
        if folder::others_write(&folder) {
            notes.push("other users can write to this folder and so remove names".into());
        }
        Ok(notes)
    }

    fn run(&self) -> &str {
        &self.run
    }

    fn url(&self) -> String {
        format!("file:{}", self.dir.display())
    }
}

/// What is known of a record that is not read: its file's name and age.
fn unread(path: &Path, file_name: &str) -> Record {
    let Key { run, name, kind, id } = names::key(file_name);
    let since = fs::metadata(path).ok().and_then(|m| m.modified().ok()?.duration_since(SystemTime::UNIX_EPOCH).ok());
    Record {
        run,
        incarnation: id,
        size: 0,
        host: String::new(),
        pid: 0,
        since: since.map_or(0, |s| s.as_secs()),
        port: (kind == Kind::Port).then(String::new),
        coupled: (kind == Kind::Coupling).then(String::new),
        ..Record::new(&name)
    }
}

fn lock(file: &File, dir: &Path) -> Result<(), StoreError> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::Error(e)) => Err(StoreError::NoLocks(dir.into(), e)),
        Err(TryLockError::WouldBlock) => Err(StoreError::Busy(dir.into())),
    }
}

/// Gives the file its name. Returns false if the name is taken.
fn link(tmp: &Temporary, path: &Path) -> Result<bool, StoreError> {
    match fs::hard_link(&tmp.path, path) {
        Ok(()) => Ok(true),
        // If the file server's first answer is lost, the second is "exists", about our own link.
        Err(e) if e.kind() == ErrorKind::AlreadyExists => {
            Ok(tmp.file.metadata().is_ok_and(|m| m.nlink() == 2) && entry::is_at(&tmp.file, path))
        }
        Err(e) if e.kind() == ErrorKind::PermissionDenied && e.raw_os_error() != Some(nix::libc::EPERM) => {
            Err(StoreError::Io("creating", path.into(), e))
        }
        Err(e)
            if matches!(e.kind(), ErrorKind::PermissionDenied | ErrorKind::Unsupported)
                || e.raw_os_error() == Some(nix::libc::EOPNOTSUPP) =>
        {
            Err(StoreError::NoLinks(path.parent().unwrap_or(path).into(), e))
        }
        Err(e) => Err(StoreError::Io("creating", path.into(), e)),
    }
}
