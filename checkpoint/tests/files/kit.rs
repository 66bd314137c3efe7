//! A job of two processes that makes checkpoints, its folder, and what has to be in it at any moment.

use checkpoint::{Head, Image, Inter, LineId, Lock, OfPair, Outcomes, Packing, Remote, Store, StoreError};
use engine::{ContextId, Kept};
use std::path::{Path, PathBuf};

pub const JOB: &str = "air";
pub const RANKS: u32 = 2;
/// The lines that the job writes. The third has images of several chunks.
pub const LINES: u64 = 5;

/// How a job writes its images: a file for each process, or one for each host; packed or not.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Form {
    Plain,
    PerNode,
    PackedPerNode,
}

pub const FORMS: [Form; 3] = [Form::Plain, Form::PerNode, Form::PackedPerNode];

impl Form {
    pub fn of(self, store: Store) -> Store {
        match self {
            Form::Plain => store,
            Form::PerNode => store.per_node(),
            Form::PackedPerNode => store.per_node().packed(Packing::Lz4),
        }
    }

    /// The files of a line that is complete.
    pub fn files(self) -> usize {
        if self == Form::Plain { RANKS as usize } else { 1 }
    }
}

/// A folder that is removed at the end.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new() -> Folder {
        Folder::below(Path::new(env!("CARGO_TARGET_TMPDIR")))
    }

    /// One of which nothing comes to a disk, where there is such a place: for what is not about disks.
    pub fn in_memory() -> Folder {
        let memory = Path::new("/dev/shm");
        if memory.is_dir() { Folder::below(memory) } else { Folder::new() }
    }

    fn below(place: &Path) -> Folder {
        let folder = place.join(format!("checkpoints-{:016x}", u64::from_le_bytes(base::ident::random())));
        std::fs::create_dir(&folder).unwrap();
        Folder(folder)
    }

    /// The folder that the program names. The job makes it.
    pub fn named(&self) -> PathBuf {
        self.0.join("named")
    }

    pub fn store(&self) -> Store {
        Store::new(&self.named(), JOB)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub fn below(n: u64) -> u64 {
    u64::from_le_bytes(base::ident::random()) % n
}

/// The line of this number in this run of the job.
pub fn id(serial: u64) -> LineId {
    LineId { by: std::process::id().into(), count: serial }
}

/// The image of a process in a line: the same in each run, but for the line's own number.
pub fn image(serial: u64, line: LineId, rank: u32) -> Image {
    let jobs = [JOB.to_owned(), "ocean".to_owned()].into();
    let head = Head { job: JOB.into(), rank, size: RANKS, serial, label: format!("step-{serial}"), line, jobs };
    let some: Vec<u8> = (0..250).map(|i| ((i * (serial + u64::from(rank))) >> 3) as u8).collect();
    let data = some.repeat(if serial == 3 { 5000 } else { 12 });
    let kept = Kept { number: 1, context: ContextId::root(1), source: 0, tag: 5, note: Vec::new(), data };
    let of = OfPair { sent: (1, 0), leaving: vec![kept], ..OfPair::default() };
    let remotes = vec![Remote { name: "ocean".into(), size: 1, contexts: 0, of: vec![(0, of)] }];
    let inters =
        vec![Inter { remote: 0, context: ContextId::root(1), children: 0, rank, members: vec![0], name: Vec::new() }];
    Image { head, remotes, inters, outcomes: Outcomes::default() }
}

/// Makes these checkpoints, and says of each when it is complete.
pub fn checkpoints(
    store: &Store,
    held: &mut Option<Lock>,
    serials: impl IntoIterator<Item = u64>,
    mut say: impl FnMut(u64),
) -> Result<(), StoreError> {
    for serial in serials {
        store.open(held)?;
        for rank in 0..RANKS {
            store.write(&image(serial, id(serial), rank))?;
        }
        store.commit(serial, id(serial))?;
        say(serial);
    }
    Ok(())
}

/// The lines of which each process has an image, the newest first: all that a restart can use. `Err`: what is not as it has to be, if
/// the line `told` is known to be complete, and nothing was killed and gone on with.
pub fn usable(store: &Store, told: u64) -> Result<Vec<u64>, String> {
    let lines = store.lines().map_err(|e| e.to_string())?;
    let mut usable = Vec::new();
    for line in &lines {
        let (ranks, _) = line.ranks().map_err(|e| e.to_string())?;
        for rank in &ranks {
            match line.image(*rank) {
                Ok(Some(found)) if found == image(line.serial, found.head.line, *rank) => {
                    let head = line.check(*rank).map_err(|e| e.to_string())?;
                    assert_eq!(head, Some(found.head), "what is read whole passes its checksums");
                }
                Ok(other) => return Err(format!("line {}, rank {rank}: {:?}", line.serial, other.map(|i| i.head))),
                Err(e) => return Err(e.to_string()),
            }
        }
        match ranks.len() as u32 {
            RANKS => usable.push(line.serial),
            n if line.complete => return Err(format!("line {} is complete with {n} images", line.serial)),
            _ => (),
        }
    }
    if usable.first().copied().unwrap_or(0) < told {
        return Err(format!("{told} was complete, and there are {usable:?}"));
    }
    if usable.len() < told.min(2) as usize {
        return Err(format!("{told} was complete, and of the two newest lines there are {usable:?}"));
    }
    Ok(usable)
}
