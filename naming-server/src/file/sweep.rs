//! Removal of the files that killed processes have left in the folder. The file store alone calls this.

use super::entry::{self, Seen};
use super::folder::Clock;
use super::names;
use std::fs;
use std::path::Path;

/// Removes temporary files that are old and not locked, and couplings of dead processes.
pub(super) fn sweep(dir: &Path, boot: &[u8; 16], clock: &Clock<'_>) {
    let (Ok(files), Some(now)) = (fs::read_dir(dir), clock.now()) else { return };
    for file in files.flatten() {
        let name = file.file_name();
        if name.to_str().is_some_and(names::is_coupling) {
            sweep_coupling(&file.path(), boot, clock);
            continue;
        }
        if !name.to_str().is_some_and(names::is_temporary) {
            continue;
        }
        let path = file.path();
        let Ok(Some(file)) = entry::open(&path, true) else { continue };
        let age = file.metadata().and_then(|m| m.modified()).ok().and_then(|t| now.duration_since(t).ok());
        if age.is_some_and(|a| a > crate::LEASE) && file.try_lock().is_ok() {
            base::log!(Info, "removing {}, left by a killed process", path.display());
            let _ = fs::remove_file(&path);
        }
    }
}

/// Removes a coupling whose process is dead. No later claim would replace it.
fn sweep_coupling(path: &Path, boot: &[u8; 16], clock: &Clock<'_>) {
    let Ok(Some(file)) = entry::open(path, true) else { return };
    if matches!(entry::look(&file, path, boot, clock), Ok(Seen::LeftOver(_))) {
        let _ = entry::clean(&file, path);
    }
}
