//! Functions that a program or a tool has called around a hold, and how far that is.

use nix::sys::signal::SigSet;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::thread::JoinHandle;

/// A function of the program.
pub type Function = Arc<dyn Fn() + Send + Sync>;

/// A pair of functions: one is called when the process is held, the other before it comes back.
#[derive(Clone)]
pub struct OnHold {
    pub(crate) held: Option<Function>,
    pub(crate) resuming: Option<Function>,
    /// The signals that were blocked where the pair was registered: they are in the functions too.
    pub(crate) mask: SigSet,
}

impl OnHold {
    /// These two functions, with the signals blocked that the calling thread blocks.
    pub fn new(held: Option<Function>, resuming: Option<Function>) -> OnHold {
        OnHold { held, resuming, mask: SigSet::thread_get_mask().unwrap_or_else(|_| SigSet::all()) }
    }
}

/// How far it is.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// No function is called.
    #[default]
    Idle,
    /// Those for a held process are being called. Then it comes back, if so ordered meanwhile.
    Holding { resumes: bool },
    /// They have been called.
    Held,
    /// Those for a process that comes back are being called. Then it is held again, if so ordered meanwhile.
    Resuming { holds: bool },
}

/// Functions to be called, one after the other.
pub(crate) type Calls = Vec<(Function, SigSet)>;

/// Begins the thread that calls them.
pub(crate) type BeginCaller = Box<dyn Fn() -> std::io::Result<(Sender<Calls>, JoinHandle<()>)> + Send>;

/// All of them.
#[derive(Default)]
pub(crate) struct Callbacks {
    /// In the order in which they were registered.
    pub(crate) all: Vec<OnHold>,
    /// Those that take part in this hold.
    pub(crate) taking_part: Vec<OnHold>,
    pub(crate) stage: Stage,
    /// How many holds were done.
    pub(crate) done: u64,
    pub(crate) begin_caller: Option<BeginCaller>,
    pub(crate) caller: Option<(Sender<Calls>, JoinHandle<()>)>,
}
