//! The server dies at every step of what it does with its file, one after the other: nothing that it told is lost.

use crate::kit::{Client, Folder, LONG, NEVER, Remote, Said, Token, record, token};
use naming::Record;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// What a client knows: the holder of each name, and of one name that it may be the one or the other.
#[derive(Default)]
struct Known {
    held: BTreeMap<String, Option<Record>>,
    open: Option<(String, Option<Record>)>,
    number: u64,
    acknowledged: usize,
}

impl Known {
    /// What a request has led to: this record at this name, if it was acknowledged.
    fn note(&mut self, name: &str, then: Option<Record>, said: &Option<Said>) -> Option<()> {
        match said {
            Some(Said::Granted(number)) => {
                assert!(*number > self.number, "numbers grow");
                self.number = *number;
                self.held.insert(name.into(), then);
            }
            Some(Said::Released) => drop(self.held.insert(name.into(), then)),
            Some(other) => panic!("{name}: {other:?}"),
            None => {
                self.open = Some((name.into(), then));
                return None;
            }
        }
        self.acknowledged += 1;
        Some(())
    }

    fn check(&self, client: &mut Client, at: &str) {
        for (name, record) in &self.held {
            let found = client.lookup(name).unwrap();
            let open = self.open.as_ref().filter(|(open, _)| open == name);
            assert!(found == *record || open.is_some_and(|(_, then)| found == *then), "{at}, {name}: {found:?}");
        }
        if let Some((name, then)) = self.open.as_ref().filter(|(name, _)| !self.held.contains_key(name)) {
            let found = client.lookup(name).unwrap();
            assert!(found.is_none() || found == *then, "{at}, {name}: {found:?}");
        }
        assert_eq!(client.lookup("refused").unwrap().map(|r| r.pid), None);
    }
}

/// Claims, releases and refusals, until the server dies.
fn go_on(client: &mut Client, known: &mut Known, mine: &mut BTreeMap<String, Token>) -> Option<()> {
    for name in ["air", "ocean", "ice", "land"] {
        let (token, record) = (token(), record(name));
        mine.insert(name.into(), token);
        let said = client.claim(token, &record);
        known.note(name, Some(record), &said)?;
    }
    assert!(matches!(client.claim(token(), &record("air"))?, Said::Held(..)));
    for name in ["ocean", "land"] {
        let said = client.release(mine[name], name);
        known.note(name, None, &said)?;
    }
    let (token, record) = (token(), record("ocean"));
    let said = client.claim(token, &record);
    known.note("ocean", Some(record), &said)
}

/// One run that is killed at this step. Returns how many requests were acknowledged, and whether it came to its end before.
fn killed_at(step: u64, file: &Path, folder: &Path) -> (usize, bool) {
    let (mut known, mut mine) = (Known::default(), BTreeMap::new());
    let mut server = Remote::start(file, LONG, step);
    let done = Client::connect(&server.address).and_then(|mut client| go_on(&mut client, &mut known, &mut mine));
    if done.is_none() {
        crate::kit::wait_until("its death", || server.has_died());
    }
    server.kill();
    let dirty = folder.join("dirty");
    if file.exists() {
        fs::copy(file, &dirty).unwrap();
    }
    let server = Remote::start(file, LONG, NEVER);
    let mut client = Client::connect(&server.address).unwrap_or_else(|| panic!("{step}: {}", server.address));
    known.check(&mut client, &format!("killed at {step}"));
    // Numbers go on.
    let mut last = known.number;
    for _ in 0..2 {
        match client.claim(token(), &record(&format!("later {last}"))) {
            Some(Said::Granted(number)) if number > last => last = number,
            other => panic!("{other:?}"),
        }
    }
    drop(server);
    // What a server does with the file of a killed one can be interrupted too.
    if step.is_multiple_of(9) && dirty.exists() {
        for again in 0.. {
            let other = folder.join("again");
            fs::copy(&dirty, &other).unwrap();
            let mut first = Remote::start(&other, LONG, again);
            let came_up = !first.address.is_empty();
            first.kill();
            let server = Remote::start(&other, LONG, NEVER);
            let mut client = Client::connect(&server.address).unwrap_or_else(|| panic!("{}", server.address));
            known.check(&mut client, &format!("killed at {step}, and at {again} of the restart"));
            if came_up {
                break;
            }
        }
    }
    (known.acknowledged, done.is_some())
}

#[test]
fn at_every_step() {
    let (mut last, mut steps) = (0, 0);
    loop {
        let folder = Folder::new();
        let (acknowledged, is_done) = killed_at(steps, &folder.file(), &folder.0);
        assert!(acknowledged >= last, "at a later step, as much was told");
        (last, steps) = (acknowledged, steps + 1);
        if is_done {
            break;
        }
    }
    println!("killed at each of {steps} steps of {last} commits");
    assert!(steps > 30 && last == 7, "{steps} {last}");
}
