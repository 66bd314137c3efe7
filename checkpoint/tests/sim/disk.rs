//! A model of the disk under the images of one job, with the steps of `checkpoint::Store` in their order.
//!
//! A process that is killed leaves what it has done. A machine that goes down keeps what was synced: of what a file got since, any
//! part; of the changes in a folder since, any; and what depends on a change that is lost is lost with it.

use crate::rng::Rng;
use checkpoint::{Image, LineId};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// Complete lines that are kept.
const KEPT: usize = 2;

/// How the name of a line's folder ends, or begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    Part,
    Complete,
    Gone,
}

/// The name of a line's folder.
pub type Name = (u64, LineId, End);

#[derive(Clone, Debug, Default)]
enum Data {
    #[default]
    Nothing,
    Half,
    Whole(Rc<Image>),
}

#[derive(Clone, Debug, Default)]
struct File {
    synced: Data,
    now: Data,
}

/// The names in a folder, and what they stand for.
#[derive(Clone, Debug)]
struct Folder<N> {
    synced: BTreeMap<N, usize>,
    now: BTreeMap<N, usize>,
    /// A name that is no more, and one that is new, of the same file.
    changes: Vec<(Option<N>, Option<N>, usize)>,
}

impl<N: Ord + Clone> Folder<N> {
    fn new() -> Folder<N> {
        Folder { synced: BTreeMap::new(), now: BTreeMap::new(), changes: Vec::new() }
    }

    fn change(&mut self, from: Option<N>, to: Option<N>, what: usize) {
        Folder::apply(&mut self.now, &from, &to, what);
        self.changes.push((from, to, what));
    }

    fn apply(names: &mut BTreeMap<N, usize>, from: &Option<N>, to: &Option<N>, what: usize) {
        if let Some(from) = from
            && names.get(from) == Some(&what)
        {
            names.remove(from);
        }
        if let Some(to) = to {
            names.insert(to.clone(), what);
        }
    }

    fn sync(&mut self) {
        self.synced.clone_from(&self.now);
        self.changes.clear();
    }

    fn crash(&mut self, rng: &mut Rng) {
        let mut names = std::mem::take(&mut self.synced);
        let mut lost = BTreeSet::new();
        for (from, to, what) in std::mem::take(&mut self.changes) {
            if lost.contains(&what) || rng.one_in(2) {
                lost.insert(what);
            } else {
                Folder::apply(&mut names, &from, &to, what);
            }
        }
        self.now.clone_from(&names);
        self.synced = names;
    }
}

/// A file's name: the rank, and whether it is whole.
type FileName = (u32, bool);

/// What is to be done.
#[derive(Clone, Debug)]
pub enum Work {
    Write(Rc<Image>),
    Commit(u64, LineId),
}

/// Work that is being done.
#[derive(Clone, Debug)]
pub struct Doing {
    pub work: Work,
    at: usize,
    file: usize,
    /// Lines that are removed, at the end of naming another one.
    old: Vec<Name>,
    /// There is no room for it.
    pub full: bool,
}

impl Doing {
    pub fn new(work: Work, full: bool) -> Doing {
        Doing { work, at: 0, file: 0, old: Vec::new(), full }
    }
}

pub struct Disk {
    root: Folder<Name>,
    folders: Vec<Folder<FileName>>,
    files: Vec<File>,
    /// Nothing that is asked to be synced is: a planted fault.
    pub lies: bool,
}

impl Disk {
    pub fn new(lies: bool) -> Disk {
        Disk { root: Folder::new(), folders: Vec::new(), files: Vec::new(), lies }
    }

    /// Makes the next step. The result, when it was the last one.
    pub fn step(&mut self, doing: &mut Doing) -> Option<Result<(), String>> {
        let step = doing.at;
        doing.at += 1;
        match doing.work.clone() {
            Work::Write(image) => self.write(doing, step, &image),
            Work::Commit(serial, id) => self.commit(doing, step, serial, id),
        }
    }

    fn write(&mut self, doing: &mut Doing, step: usize, image: &Rc<Image>) -> Option<Result<(), String>> {
        let head = &image.head;
        let (line, rank) = ((head.serial, head.line, End::Part), head.rank);
        let Some(folder) = self.root.now.get(&line).copied() else {
            if step > 0 {
                return Some(Err("the line's folder is gone".into()));
            }
            self.folders.push(Folder::new());
            self.root.change(None, Some(line), self.folders.len() - 1);
            return None;
        };
        match step {
            0 => (),
            1 => {
                self.files.push(File::default());
                doing.file = self.files.len() - 1;
                self.folders[folder].change(None, Some((rank, false)), doing.file);
            }
            2 => self.files[doing.file].now = Data::Half,
            3 if doing.full => return Some(Err("no room".into())),
            3 => self.files[doing.file].now = Data::Whole(image.clone()),
            4 if self.lies => (),
            4 => self.files[doing.file].synced = self.files[doing.file].now.clone(),
            5 => self.folders[folder].change(Some((rank, false)), Some((rank, true)), doing.file),
            6 => self.folders[folder].sync(),
            _ => {
                self.root.sync();
                return Some(Ok(()));
            }
        }
        None
    }

    fn commit(&mut self, doing: &mut Doing, step: usize, serial: u64, id: LineId) -> Option<Result<(), String>> {
        let (part, complete) = ((serial, id, End::Part), (serial, id, End::Complete));
        match step {
            0 => match self.root.now.get(&part).copied() {
                Some(folder) => self.root.change(Some(part), Some(complete), folder),
                None if self.root.now.contains_key(&complete) => (),
                None => return Some(Err("no such line".into())),
            },
            1 => {
                self.root.sync();
                let lines = self.lines();
                let oldest = lines.iter().filter(|line| line.2 == End::Complete).nth(KEPT - 1).map(|line| line.0);
                doing.old = lines.into_iter().filter(|line| Some(line.0) < oldest).collect();
            }
            _ => {
                let Some(name @ (serial, id, end)) = doing.old.last().copied() else { return Some(Ok(())) };
                let folder = self.root.now[&name];
                if end != End::Gone {
                    self.root.change(Some(name), Some((serial, id, End::Gone)), folder);
                    *doing.old.last_mut().expect("seen above") = (serial, id, End::Gone);
                } else if let Some((file, what)) = self.folders[folder].now.first_key_value() {
                    let (file, what) = (*file, *what);
                    self.folders[folder].change(Some(file), None, what);
                } else {
                    self.root.change(Some(name), None, folder);
                    doing.old.pop();
                }
            }
        }
        None
    }

    /// The machine goes down.
    pub fn crash(&mut self, rng: &mut Rng) {
        self.root.crash(rng);
        self.folders.iter_mut().for_each(|folder| folder.crash(rng));
        for file in &mut self.files {
            let any = [file.synced.clone(), Data::Nothing, Data::Half, file.now.clone()];
            if !matches!((&file.synced, &file.now), (Data::Whole(_), Data::Whole(_))) {
                file.now = any[rng.index(4)].clone();
            }
            file.synced = file.now.clone();
        }
    }

    /// The lines, the newest first.
    pub fn lines(&self) -> Vec<Name> {
        let mut all: Vec<Name> = self.root.now.keys().filter(|name| name.2 != End::Gone).copied().collect();
        all.sort_by_key(|(serial, id, end)| std::cmp::Reverse((*serial, *end == End::Complete, *id)));
        all
    }

    /// The image of a process in a line. `None`: there is none, or it is damaged.
    pub fn image(&self, line: &Name, rank: u32) -> Option<Rc<Image>> {
        let folder = &self.folders[*self.root.now.get(line)?];
        match &self.files[*folder.now.get(&(rank, true))?].now {
            Data::Whole(image) => Some(image.clone()),
            _ => None,
        }
    }
}
