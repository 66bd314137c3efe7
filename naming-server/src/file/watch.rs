//! Changes in a folder, as the kernel tells of them (inotify(7)). The file store alone makes a watch.
//!
//! Invariant: a name that is given back has the record with which it was claimed, so that the two can be matched.

use super::entry::{self, Seen};
use super::folder::Clock;
use super::names;
use crate::{Change, Fate, Kind, Record, Watch};
use base::ident::random;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use std::collections::HashMap;
use std::os::fd::AsFd;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A watch of a folder.
pub(super) struct FolderWatch<'a> {
    dir: &'a Path,
    /// The boot id of this host.
    boot: &'a [u8; 16],
    /// `None` while there is no folder, or if the kernel cannot watch it.
    events: Option<Inotify>,
    /// The records in the folder, by file name.
    there: HashMap<String, Record>,
}

impl FolderWatch<'_> {
    pub(super) fn new<'a>(dir: &'a Path, boot: &'a [u8; 16]) -> FolderWatch<'a> {
        let mut watch = FolderWatch { dir, boot, events: None, there: HashMap::new() };
        watch.begin();
        watch
    }

    fn begin(&mut self) {
        let flags = AddWatchFlags::IN_CREATE | AddWatchFlags::IN_DELETE | AddWatchFlags::IN_ONLYDIR;
        let events = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK);
        self.events = events.and_then(|events| events.add_watch(self.dir, flags).map(|_| events)).ok();
        if self.events.is_some() {
            let files = std::fs::read_dir(self.dir).into_iter().flatten().flatten();
            let files = files.filter_map(|file| file.file_name().into_string().ok()).filter(|f| names::is_record(f));
            self.there = files.map(|file| (file.clone(), self.record(&file))).collect();
        }
    }

    /// The record in this file; or a record of what its name tells, if it cannot be read any more.
    fn record(&self, file: &str) -> Record {
        match entry::seen(&self.dir.join(file), self.boot, &Clock::new(self.dir)) {
            Ok(Some(Seen::Live(record) | Seen::LeftOver(Some(record)))) => record,
            _ => {
                let key = names::key(file);
                let port = (key.kind == Kind::Port).then(String::new);
                let coupled = (key.kind == Kind::Coupling).then(String::new);
                let incarnation = if key.kind == Kind::Coupling { key.id } else { u64::from_le_bytes(random()) };
                let record = Record::new(&key.name);
                Record { run: key.run, incarnation, port, coupled, host: String::new(), pid: 0, size: 0, ..record }
            }
        }
    }
}

impl Watch for FolderWatch<'_> {
    fn next(&mut self, patience: Duration) -> Vec<Change> {
        let end = Instant::now() + patience;
        if self.events.is_none() {
            self.begin();
        }
        let Some(events) = &self.events else {
            sleep(patience);
            return Vec::new();
        };
        let limit = PollTimeout::try_from(end.saturating_duration_since(Instant::now())).unwrap_or(PollTimeout::ZERO);
        let _ = poll(&mut [PollFd::new(events.as_fd(), PollFlags::POLLIN)], limit);
        let at = crate::now();
        let (mut all, mut is_over) = (Vec::new(), false);
        for event in events.read_events().unwrap_or_default() {
            is_over |= event.mask.intersects(AddWatchFlags::IN_IGNORED | AddWatchFlags::IN_Q_OVERFLOW);
            let Some(file) = event.name.and_then(|name| name.into_string().ok()).filter(|f| names::is_record(f)) else {
                continue;
            };
            if event.mask.contains(AddWatchFlags::IN_CREATE) {
                let record = self.record(&file);
                self.there.insert(file, record.clone());
                all.push(Change { fate: Fate::Claimed, at, record });
            } else if let Some(record) = self.there.remove(&file) {
                all.push(Change { fate: Fate::Released, at, record });
            }
        }
        if is_over {
            self.events = None;
        }
        all
    }
}
