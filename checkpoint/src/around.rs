//! What is around the checkpoints of a process: its messages, and whoever writes its files.

use crate::image::{Image, Inter};
use crate::line::{Job, LineId, Rows};
use crate::message::pack;
use crate::store::Store;
use base::ProcId;
use base::hash::fnv128;
use engine::{ContextId, CutOf, Kept, Limits, Resume, Wildcards};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// What [`crate::Process`] asks of its surroundings. `own` is always a process of a job of this one.
pub trait Around {
    /// How an open inter-communicator is known.
    type Inter: Copy;

    /// Tells another process something. Nothing is told if the two have no connection.
    fn tell(&mut self, own: ProcId, to: ProcId, bytes: &[u8]);
    /// The processes of another job that can be told something.
    fn processes_of(&self, own: ProcId, job: Job) -> Vec<ProcId>;
    /// The jobs that the own one is joined with.
    fn joined(&self, own: ProcId) -> BTreeSet<Job>;
    /// The number of ranks of another job, once that is known.
    fn size_of(&self, own: ProcId, job: Job) -> Option<u32>;
    /// The cut of this moment, by process of another job.
    fn cut(&mut self, own: ProcId) -> BTreeMap<ProcId, CutOf>;
    /// The receives from any source, by the job of their senders. After [`Around::cut`], it is of the same moment.
    fn wildcards(&self, own: ProcId) -> Vec<(Job, Wildcards)>;
    /// Whether messages that come are to be logged, and whether outcomes are noted or found again.
    fn watch(&mut self, messages: bool, outcomes: bool);
    /// Has the messages with another process begin where a cut was.
    fn resume(&mut self, own: ProcId, peer: ProcId, resume: Resume);
    /// Sends a message of the own image to this rank of an inter-communicator.
    fn send_again(&mut self, inter: Self::Inter, dest: u32, kept: &Kept);
    /// What receives from any source may get in an inter-communicator.
    fn limit(&mut self, inter: Self::Inter, limits: Limits);
    /// Receives from any source get whatever fits.
    fn unlimit(&mut self);
    /// Has an image written: [`crate::Process::image_written`] says when that is done.
    fn write(&mut self, own: ProcId, store: &Store, image: Image);
    /// Has a line named complete: [`crate::Process::line_complete`] says when that is done.
    fn commit(&mut self, own: ProcId, store: &Store, serial: u64, id: LineId);
}

/// The rows of a job's cut: for each process of another job, those of the own processes by rank.
pub type AllRows = BTreeMap<ProcId, Rows>;

/// Another job at a cut of the own one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct With {
    /// The number of ranks.
    pub size: u32,
    /// The inter-communicators that are open with it, of all processes of the own job.
    pub contexts: BTreeSet<ContextId>,
}

impl With {
    /// With what another process of the own job has.
    pub fn add(&mut self, other: With) {
        self.size = self.size.max(other.size);
        self.contexts.extend(other.contexts);
    }

    /// The same on both sides if both have the same inter-communicators.
    pub(crate) fn digest(&self) -> u64 {
        fnv128(&pack(&self.contexts)) as u64
    }
}

/// What an image has besides messages.
#[derive(Debug, Clone, PartialEq)]
pub struct Besides {
    /// What the program calls the cut.
    pub label: String,
    /// The other jobs: incarnation, name, and number of ranks.
    pub jobs: Vec<(Job, String, u32)>,
    /// By job: the last number that the leaders gave to an inter-communicator.
    pub contexts: BTreeMap<Job, u64>,
    /// The open inter-communicators, in the order of their making.
    pub inters: Vec<Inter>,
}

/// An inter-communicator of a restart, with its remote group by rank in the other job.
pub type Opened<I> = (ContextId, I, Vec<u32>);

/// The same, with the place of that job in the image before it.
pub type Place<I> = (u32, ContextId, I, Vec<u32>);
