//! The power fails: of what no step has brought to the disk it has any part, in any order. What was told to be complete is there.
//!
//! The model: a file has what it had at its last sync, and any sectors of what was written since. A folder has the names of its last
//! sync, and any of the changes since; if one is lost, so are later ones of the same file or folder. Sync of a file does
//! not bring its name to the disk.

use crate::kit::{FORMS, Folder, Form, LINES, below, checkpoints, usable};
use checkpoint::{Step, Watch};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex};

/// What a disk may write without being torn.
const SECTOR: usize = 512;

#[derive(Clone, Debug, PartialEq)]
enum Event {
    Step(Step),
    /// This line was told to be complete.
    Told(u64),
}

#[derive(Debug, Default)]
struct Log(Mutex<Vec<Event>>);

impl Watch for Log {
    fn before(&self, step: Step) -> io::Result<()> {
        self.0.lock().unwrap().push(Event::Step(step));
        Ok(())
    }
}

type Id = usize;

/// A change of a folder's names: what has another name now, `None` for none.
#[derive(Clone, Debug)]
struct Change {
    id: Id,
    from: Option<OsString>,
    to: Option<OsString>,
}

impl Change {
    fn apply(&self, names: &mut BTreeMap<OsString, Id>) {
        if let Some(from) = self.from.as_ref().filter(|from| names.get(*from) == Some(&self.id)) {
            names.remove(from);
        }
        if let Some(to) = &self.to {
            names.insert(to.clone(), self.id);
        }
    }
}

#[derive(Clone, Debug)]
enum Node {
    File { disk: Vec<u8>, live: Vec<u8>, writes: Vec<(usize, Vec<u8>)> },
    Folder { disk: BTreeMap<OsString, Id>, live: BTreeMap<OsString, Id>, changes: Vec<Change> },
}

/// A file system; the first node is its root, which lies at a path.
struct Model {
    root: PathBuf,
    nodes: Vec<Node>,
}

impl Model {
    fn new(root: &Path) -> Model {
        Model { root: root.into(), nodes: vec![Model::folder()] }
    }

    fn folder() -> Node {
        Node::Folder { disk: BTreeMap::new(), live: BTreeMap::new(), changes: Vec::new() }
    }

    fn find(&self, path: &Path) -> Option<Id> {
        let below = path.strip_prefix(&self.root).unwrap_or_else(|_| panic!("{}", path.display()));
        below.components().try_fold(0, |at, part| match (&self.nodes[at], part) {
            (Node::Folder { live, .. }, Component::Normal(name)) => live.get(name).copied(),
            other => panic!("{other:?}"),
        })
    }

    fn change(&mut self, path: &Path, change: Change) {
        let above = self.find(path.parent().unwrap()).unwrap();
        let Node::Folder { live, changes, .. } = &mut self.nodes[above] else { panic!("{}", path.display()) };
        change.apply(live);
        changes.push(change);
    }

    fn make(&mut self, path: &Path, node: Node) {
        let id = self.nodes.len();
        self.nodes.push(node);
        self.change(path, Change { id, from: None, to: path.file_name().map(Into::into) });
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::MakeFolder(path) if self.find(path).is_none() => self.make(path, Model::folder()),
            Step::Create(path) if self.find(path).is_none() => {
                self.make(path, Node::File { disk: Vec::new(), live: Vec::new(), writes: Vec::new() })
            }
            Step::MakeFolder(_) | Step::Create(_) => (),
            Step::Length(path, length) => {
                let Some(Node::File { live, .. }) = self.find(path).map(|id| &mut self.nodes[id]) else { return };
                // What has another length is not what this test is about.
                live.truncate(*length as usize);
            }
            Step::Append(path, bytes) => {
                let id = self.find(path).unwrap();
                let Node::File { live, writes, .. } = &mut self.nodes[id] else { panic!("{}", path.display()) };
                writes.push((live.len(), bytes.clone()));
                live.extend_from_slice(bytes);
            }
            Step::SyncFile(path) => {
                // Where a planted fault has named it otherwise, there is none.
                let Some(Node::File { disk, live, writes }) = self.find(path).map(|id| &mut self.nodes[id]) else {
                    return;
                };
                disk.clone_from(live);
                writes.clear();
            }
            Step::SyncFolder(path) => {
                if let Some(Node::Folder { disk, live, changes }) = self.find(path).map(|id| &mut self.nodes[id]) {
                    disk.clone_from(live);
                    changes.clear();
                }
            }
            Step::Rename(from, to) => {
                let Some(id) = self.find(from) else { return };
                assert_eq!(from.parent(), to.parent());
                self.change(
                    from,
                    Change { id, from: from.file_name().map(Into::into), to: to.file_name().map(Into::into) },
                );
            }
            Step::RemoveFile(path) | Step::RemoveFolder(path) => {
                let Some(id) = self.find(path) else { return };
                self.change(path, Change { id, from: path.file_name().map(Into::into), to: None });
            }
        }
    }

    /// What is there when the power is back.
    fn survivors(&self, id: Id, to: &Path) {
        match &self.nodes[id] {
            Node::File { disk, writes, .. } => {
                let mut bytes = disk.clone();
                for (at, written) in writes {
                    for (i, sector) in written.chunks(SECTOR).enumerate().filter(|_| below(2) == 0) {
                        let (at, end) = (at + i * SECTOR, at + i * SECTOR + sector.len());
                        bytes.resize(bytes.len().max(end), 0);
                        bytes[at..end].copy_from_slice(sector);
                    }
                }
                fs::write(to, bytes).unwrap();
            }
            Node::Folder { disk, changes, .. } => {
                let (mut names, mut lost) = (disk.clone(), BTreeSet::new());
                for change in changes {
                    if lost.contains(&change.id) || below(2) == 0 {
                        lost.insert(change.id);
                    } else {
                        change.apply(&mut names);
                    }
                }
                if !to.exists() {
                    fs::create_dir(to).unwrap();
                }
                names.iter().for_each(|(name, id)| self.survivors(*id, &to.join(name)));
            }
        }
    }
}

/// All that a job does with its files.
fn log(form: Form) -> (PathBuf, Vec<Event>) {
    let (folder, log) = (Folder::in_memory(), Arc::new(Log::default()));
    let told = log.clone();
    let say = |serial| told.0.lock().unwrap().push(Event::Told(serial));
    let store = form.of(folder.store().watched(log.clone()));
    let mut held = None;
    checkpoints(&store, &mut held, 1..=LINES, say).unwrap();
    let events = std::mem::take(&mut *log.0.lock().unwrap());
    (folder.0.clone(), events)
}

/// Fails the power after each event, some times. Returns how often, or what was lost.
fn failures(root: &Path, events: &[Event], times: usize) -> Result<usize, String> {
    let (mut model, mut told, mut tried) = (Model::new(root), 0, 0);
    for (at, event) in events.iter().enumerate() {
        match event {
            Event::Told(serial) => told = *serial,
            Event::Step(step) => model.step(step),
        }
        for _ in 0..times {
            let folder = Folder::in_memory();
            model.survivors(0, &folder.0);
            let found = usable(&folder.store(), told);
            found.map_err(|e| format!("after {} of {} steps, {event:?}: {e}", at + 1, events.len()))?;
            tried += 1;
        }
    }
    Ok(tried)
}

#[test]
fn what_was_complete_is_there_after_a_power_failure() {
    for form in FORMS {
        let (root, events) = log(form);
        let tried = failures(&root, &events, 8).unwrap_or_else(|e| panic!("{form:?}: {e}"));
        println!("{form:?}: {tried} power failures in {} steps of {LINES} checkpoints", events.len());
        assert!(tried > 600, "{tried}");
    }
}

fn is_sync(event: &Event) -> bool {
    matches!(event, Event::Step(Step::SyncFile(_)))
}

/// The steps of a program that names a file before it is on the disk.
fn named_before_sync(mut events: Vec<Event>) -> Vec<Event> {
    for at in 1..events.len() {
        if let [Event::Step(Step::SyncFile(_)), Event::Step(Step::Rename(_, to))] = &events[at - 1..=at] {
            // It is known by its new name then.
            events[at - 1] = Event::Step(Step::SyncFile(to.clone()));
            events.swap(at - 1, at);
        }
    }
    events
}

/// The steps of a program that writes no file aside.
fn not_aside(events: Vec<Event>) -> Vec<Event> {
    let is_half = |path: &Path| path.extension().is_some_and(|end| end == "part") && !path.ends_with("x.part");
    let named = |path: &Path| {
        let is_file = path.file_name().is_some_and(|name| !name.to_string_lossy().starts_with("line-"));
        if is_half(path) && is_file { path.with_extension("image") } else { path.to_owned() }
    };
    let step = |step| match step {
        Step::Create(path) => Some(Step::Create(named(&path))),
        Step::Append(path, bytes) => Some(Step::Append(named(&path), bytes)),
        Step::SyncFile(path) => Some(Step::SyncFile(named(&path))),
        Step::Rename(from, to) => (named(&from) == from).then_some(Step::Rename(from, to)),
        other => Some(other),
    };
    let event = |event| match event {
        Event::Step(one) => step(one).map(Event::Step),
        told => Some(told),
    };
    events.into_iter().filter_map(event).collect()
}

/// The steps of a program that has these not done.
fn without(mut events: Vec<Event>, is_left_out: impl Fn(&Step) -> bool) -> Vec<Event> {
    events.retain(|event| !matches!(event, Event::Step(step) if is_left_out(step)));
    events
}

/// The steps of a program that removes old lines before the new one has its name on the disk.
fn removed_before_sync(mut events: Vec<Event>) -> Vec<Event> {
    // From the last line on, so that moved steps are not met again.
    for at in (1..events.len()).rev() {
        let is_commit = matches!(&events[at], Event::Step(Step::SyncFolder(path)) if path.ends_with("air"));
        let removals = events[at + 1..]
            .iter()
            .take_while(|event| matches!(event, Event::Step(Step::RemoveFile(_) | Step::RemoveFolder(_))));
        let count = removals.count();
        if is_commit && count > 1 {
            events[at..=at + count].rotate_left(1);
        }
    }
    events
}

#[test]
fn planted_faults_are_found() {
    let (root, events) = log(Form::Plain);
    assert!(events.iter().filter(|event| is_sync(event)).count() == 2 * LINES as usize);
    let planted: [(&str, Vec<Event>); 6] = [
        ("a name before the sync", named_before_sync(events.clone())),
        ("no sync of files", without(events.clone(), |step| matches!(step, Step::SyncFile(_)))),
        ("no sync of folders", without(events.clone(), |step| matches!(step, Step::SyncFolder(_)))),
        (
            "no sync of the folder above",
            without(events.clone(), |step| matches!(step, Step::SyncFolder(of) if *of == root)),
        ),
        ("nothing written aside", not_aside(events.clone())),
        ("removed before the sync", removed_before_sync(events.clone())),
    ];
    // What a host's file has is whole only by its order.
    let (root_of_host, of_host) = log(Form::PerNode);
    let in_host = |what, steps| (what, &root_of_host, steps);
    let planted = planted.into_iter().map(|(what, steps)| (what, &root, steps)).chain([
        in_host("no sync of a host's file", without(of_host.clone(), |step| matches!(step, Step::SyncFile(_)))),
        in_host(
            "a host's file, no sync of folders",
            without(of_host.clone(), |step| matches!(step, Step::SyncFolder(_))),
        ),
    ]);
    for (what, root, steps) in planted {
        assert!(steps != events && steps != of_host, "{what}: is not planted");
        let found = (0..20).find_map(|_| failures(root, &steps, 8).err());
        println!("{what}: {}", found.unwrap_or_else(|| panic!("{what}: not found")));
    }
}
