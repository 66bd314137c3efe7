//! The checkpoints of this process: its jobs, and the thread that writes their images.

use base::ProcId;
use checkpoint::{Image, Leader, LineId, Member, OfPair, Replay, Store};
use engine::{ContextId, Kept};
use session::InterId;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::thread::JoinHandle;

/// What an image has besides messages.
#[derive(Debug, Clone, PartialEq)]
pub struct Besides {
    /// What the program calls the cut.
    pub label: String,
    /// The other jobs: incarnation, name, and number of ranks.
    pub jobs: Vec<(u64, String, u32)>,
    /// The open inter-communicators, in the order of their making.
    pub inters: Vec<checkpoint::Inter>,
}

/// An inter-communicator of a restart, with its remote group by rank in the other job.
pub type Opened = (ContextId, InterId, Vec<u32>);

/// The same, with the place of that job in the image before it.
pub type Place = (u32, ContextId, InterId, Vec<u32>);

/// One job of this process that makes checkpoints.
pub(crate) struct Tracked {
    pub(crate) name: String,
    pub(crate) own: ProcId,
    pub(crate) size: u32,
    pub(crate) member: Member<Arc<Besides>>,
    /// On the leader.
    pub(crate) leader: Option<Leader>,
    /// Where images go, once there is a checkpoint.
    pub(crate) store: Option<Store>,
    /// The number of the last cut.
    pub(crate) serial: u64,
    /// Leaders that are told which lines are written here.
    pub(crate) reports_to: BTreeMap<LineId, ProcId>,
    /// What other processes want at a restart, and whether they have told all.
    pub(crate) wanted: BTreeMap<ProcId, Wanted>,
    /// The messages of this process at a restart.
    pub(crate) of: BTreeMap<ProcId, OfPair>,
    /// The inter-communicators of a restart, by the other job.
    pub(crate) opened: BTreeMap<u64, Vec<Opened>>,
    /// Messages of the own image for processes that have not said that they take messages.
    pub(crate) leaving: BTreeMap<ProcId, Vec<Kept>>,
    /// What the program is to find again after a restart.
    pub(crate) replay: Option<Replay>,
    /// Leaders that are told when it has done again what it must.
    pub(crate) tells_replayed: Vec<ProcId>,
    /// An image could not be written, for this reason.
    pub(crate) trouble: Option<String>,
}

/// What another process wants at a restart.
#[derive(Default)]
pub(crate) struct Wanted {
    pub(crate) from_image: BTreeSet<u64>,
    pub(crate) once_more: BTreeSet<u64>,
    pub(crate) is_all: bool,
}

/// What the thread for files is to do.
pub(crate) enum Work {
    Write { own: ProcId, store: Store, image: Box<Image> },
    Commit { own: ProcId, store: Store, serial: u64, id: LineId },
}

/// Begins the thread for files.
pub(crate) type BeginWriter = Box<dyn Fn() -> std::io::Result<(Sender<Work>, JoinHandle<()>)> + Send>;

/// All of them.
#[derive(Default)]
pub(crate) struct Checkpoints {
    /// By incarnation.
    pub(crate) jobs: BTreeMap<u64, Tracked>,
    pub(crate) begin_writer: Option<BeginWriter>,
    pub(crate) writer: Option<(Sender<Work>, JoinHandle<()>)>,
}
