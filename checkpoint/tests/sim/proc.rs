//! A process, and what the processes of a job share: their collective calls.

use crate::disk::Doing;
use crate::plan::{Plan, View};
use crate::plant::Plant;
use crate::program::{Native, Program};
use crate::side::Side;
use base::ProcId;
use checkpoint::{Image, Job, Known, LineId, Old, Process, Row};
use engine::{ContextId, Ctx};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// What a process has of a line, and the number of the cut.
pub type Mine = (Old, u64);

/// Where a process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It was started, and is known by its job's name.
    Begun,
    /// It awaits from where its job goes on.
    Choosing,
    /// It knows.
    Opening,
    /// It awaits the messages of the images.
    Resuming,
    /// It awaits the others of its job.
    Ready,
    Running,
    /// It is in the call for a checkpoint: before its cut, or behind it.
    Called,
    Cut,
    Over,
}

pub struct Proc {
    pub place: usize,
    pub job: usize,
    pub rank: u32,
    pub own: ProcId,
    pub is_alive: bool,
    pub phase: Phase,
    pub side: Side,
    pub process: Process<Ctx>,
    pub views: Vec<View>,
    pub ctxs: Vec<Ctx>,
    pub program: Option<Program>,
    /// Its images, the newest first, and whether their lines are known to be complete.
    pub images: Vec<(Rc<Image>, bool)>,
    pub doing: Option<Doing>,
    pub serial: u64,
}

impl Proc {
    pub fn new(plan: &Plan, place: usize, job: usize, own: ProcId, life: u64, plant: Plant) -> Proc {
        Proc {
            place,
            job,
            rank: own.rank,
            own,
            is_alive: true,
            phase: Phase::Begun,
            side: Side::new(own, plan.config(life), plant),
            process: Process::default(),
            views: plan.views(job, own.rank),
            ctxs: Vec::new(),
            program: None,
            images: Vec::new(),
            doing: None,
            serial: 0,
        }
    }

    /// The image of a line.
    pub fn image(&self, id: LineId) -> Option<&Rc<Image>> {
        self.images.iter().map(|(image, _)| image).find(|image| image.head.line == id)
    }
}

/// What a process tells its leader of its cut: the jobs joined with and the inter-communicators with each, and what their processes are
/// told.
pub type Told = (BTreeMap<Job, BTreeSet<ContextId>>, BTreeMap<ProcId, Row>);

/// A job in one of its lives.
pub struct Life {
    pub incarnation: Job,
    /// What each rank has to restart from.
    pub mine: Vec<Option<Vec<Mine>>>,
    pub known: Option<Known>,
    pub lines: Vec<Mine>,
    /// The leaders that were met, by name.
    pub reached: BTreeMap<String, Job>,
    /// What the leader has chosen, `None` in it: to begin anew; and whether all ranks may go on with it.
    pub chosen: Option<Option<LineId>>,
    pub has_met: bool,
    pub ready: u32,
    /// How often each rank has called for a checkpoint, and has made its cut.
    pub calls: Vec<u32>,
    pub cuts: Vec<u32>,
    /// Calls before which an image could not be written.
    pub troubled: BTreeSet<u32>,
    pub told: Vec<Option<Told>>,
    pub native: Native,
    /// Cuts of the job.
    pub made: u64,
}

impl Life {
    pub fn new(incarnation: Job, size: u32) -> Life {
        let n = size as usize;
        Life {
            incarnation,
            mine: vec![None; n],
            known: None,
            lines: Vec::new(),
            reached: BTreeMap::new(),
            chosen: None,
            has_met: false,
            ready: 0,
            calls: vec![0; n],
            cuts: vec![0; n],
            troubled: BTreeSet::new(),
            told: vec![None; n],
            native: Native::new(),
            made: 0,
        }
    }
}
