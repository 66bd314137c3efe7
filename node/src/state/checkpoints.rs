//! The checkpoints of this process: what is to be done for them, and the thread that writes images.

use base::ProcId;
use checkpoint::{Image, LineId, Process, Store};
use session::InterId;
use std::sync::mpsc::Sender;
use std::thread::JoinHandle;

/// An inter-communicator of a restart: see [`checkpoint::Opened`].
pub type Opened = checkpoint::Opened<InterId>;

/// The same: see [`checkpoint::Place`].
pub type Place = checkpoint::Place<InterId>;

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
    pub(crate) all: Process<InterId>,
    pub(crate) begin_writer: Option<BeginWriter>,
    pub(crate) writer: Option<(Sender<Work>, JoinHandle<()>)>,
}
