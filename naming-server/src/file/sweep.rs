//! Removal of the files that killed processes have left in the folder. The file store alone calls this.

use super::entry::{self, Seen};
use super::folder::Clock;
use super::names;
use std::fs::{self, Metadata};
use std::io;
use std::path::Path;
use std::time::Duration;

/// So long a dead process's name of a run stays for people to see: a run of a launch is never used again, and so is no name of it.
const SHOWN: Duration = Duration::from_secs(24 * 60 * 60);

/// Removes temporary files that are old and not locked, couplings of dead processes, and their names of runs.
pub(super) fn sweep(dir: &Path, boot: &[u8; 16], clock: &Clock<'_>) {
    let (Ok(files), Some(now)) = (fs::read_dir(dir), clock.now()) else { return };
    for file in files.flatten() {
        let name = file.file_name();
        let age = |meta: io::Result<Metadata>| {
            meta.and_then(|m| m.modified()).ok().and_then(|written| now.duration_since(written).ok())
        };
        let is_name = |name: &str| names::is_record(name) && !names::key(name).run.is_empty();
        if name.to_str().is_some_and(names::is_coupling)
            || name.to_str().is_some_and(is_name) && age(file.metadata()).is_some_and(|age| age > SHOWN)
        {
            sweep_record(&file.path(), boot, clock);
            continue;
        }
        if !name.to_str().is_some_and(names::is_temporary) {
            continue;
        }
        let path = file.path();
        let Ok(Some(file)) = entry::open(&path, true) else { continue };
        if age(file.metadata()).is_some_and(|age| age > crate::LEASE) && file.try_lock().is_ok() {
            base::log!(Info, "removing {}, left by a killed process", path.display());
            let _ = fs::remove_file(&path);
        }
    }
}

/// Removes a record whose process is dead. No later claim would replace it.
fn sweep_record(path: &Path, boot: &[u8; 16], clock: &Clock<'_>) {
    let Ok(Some(file)) = entry::open(path, true) else { return };
    if matches!(entry::look(&file, path, boot, clock), Ok(Seen::LeftOver(_))) {
        let _ = entry::clean(&file, path);
    }
}
