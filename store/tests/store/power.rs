//! The power fails: of what was written since the last sync, the disk has any part, in any order.

use crate::kit::{Folder, below, open};
use naming::server::{Ledger, Row};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::sync::{Arc, Mutex};
use store::{Step, Watch};

/// What a disk may write without being torn.
const SECTOR: usize = 512;

#[derive(Debug, Default)]
struct Log(Mutex<Vec<Step>>);

impl Watch for Log {
    fn before(&self, step: Step) -> io::Result<()> {
        self.0.lock().unwrap().push(step);
        Ok(())
    }
}

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

fn apply(bytes: &mut Vec<u8>, step: &Step) {
    match step {
        Step::Length(length) => bytes.resize(*length as usize, 0),
        Step::Write(at, data) => {
            let (at, end) = (*at as usize, *at as usize + data.len());
            bytes.resize(bytes.len().max(end), 0);
            bytes[at..end].copy_from_slice(data);
        }
        Step::Sync => {}
    }
}

/// Some of the sectors of these steps, as they happened to reach the disk.
fn some_of(bytes: &mut Vec<u8>, steps: &[Step]) {
    for step in steps {
        match step {
            Step::Write(at, data) => {
                let chunks = data.chunks(SECTOR).enumerate();
                for (i, chunk) in chunks.filter(|_| below(2) == 0) {
                    apply(bytes, &Step::Write(at + (i * SECTOR) as u64, chunk.to_vec()));
                }
            }
            // File systems keep the order of lengths.
            other => apply(bytes, other),
        }
    }
}

#[test]
fn what_was_acknowledged_is_there_after_a_power_failure() {
    let folder = Folder::new();
    let log = Arc::new(Log::default());
    let mut store = open(&folder.file(), None).unwrap();
    drop(store);
    let mut bytes = fs::read(folder.file()).unwrap();
    store = open(&folder.file(), Some(log.clone())).unwrap();
    // After so many steps, these rows were acknowledged.
    let (mut rows, mut marks) = (Rows::new(), vec![(0, Rows::new())]);
    for i in 0..40u64 {
        let batch: Vec<Row> = (0..1 + below(5))
            .map(|_| {
                let key = format!("key {:02}", below(30)).into_bytes();
                let value = (below(3) > 0).then(|| vec![i as u8; below(3000) as usize]);
                (key, value)
            })
            .collect();
        store.write(&batch).unwrap();
        for (key, value) in batch {
            match value {
                Some(value) => drop(rows.insert(key, value)),
                None => drop(rows.remove(&key)),
            }
        }
        marks.push((log.0.lock().unwrap().len(), rows.clone()));
    }
    let steps = std::mem::take(&mut *log.0.lock().unwrap());
    drop(store);
    let cut = folder.0.join("cut");
    let (mut synced, mut tried) = (0, 0);
    for at in 0..=steps.len() {
        for _ in 0..2 {
            let mut disk = bytes.clone();
            some_of(&mut disk, &steps[synced..at]);
            fs::write(&cut, &disk).unwrap();
            fs::set_permissions(&cut, fs::Permissions::from_mode(0o600)).unwrap();
            let mut found = Rows::new();
            let mut store = open(&cut, None).unwrap_or_else(|e| panic!("after {at} of {} steps: {e}", steps.len()));
            store.read(&mut |key, value| drop(found.insert(key.to_vec(), value.to_vec()))).unwrap();
            let last = marks.iter().rposition(|(mark, _)| *mark <= at).unwrap();
            let may = &marks[last..marks.len().min(last + 2)];
            assert!(may.iter().any(|(_, rows)| *rows == found), "after {at} of {} steps", steps.len());
            tried += 1;
        }
        if steps.get(at) == Some(&Step::Sync) {
            for step in &steps[synced..at] {
                apply(&mut bytes, step);
            }
            synced = at;
        }
    }
    println!("{tried} power failures in {} steps of {} commits", steps.len(), marks.len() - 1);
}
