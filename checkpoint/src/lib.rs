//! Checkpoints of joined jobs: which cuts belong together, and the files that have them.
//!
//! A *cut* is the state of one job at its call of `MPI_Conn_checkpoint`; a *line* is one cut of each job of those that
//! are joined. `member` is what a process does for the lines of its job, with `rows` of the others' cuts, and `leader` how the leaders agree on lines, with what they have told each other (`board`);
//! `process` has both for each job of a process, carries their messages (`message`) through what is `around` it, and does
//! restarts (`resuming`, `outcomes`). All that is without I/O, clock and threads: it is stepped by events. `restart`
//! chooses a line. `image` is what the file of one process has, `layout` its bytes, and `store` the folder with the files
//! of a job, which `disk` changes. Used by the node, which carries messages and writes files, and by the command, which
//! lists them.
//!
//! Invariant: a line is used at a restart only if each process of each of its jobs has written its image of it.

#![warn(missing_docs)]
#![forbid(unsafe_code)]

mod around;
mod board;
mod disk;
mod error;
mod found;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod image;
mod layout;
mod leader;
mod line;
mod lock;
mod member;
mod message;
mod outcomes;
mod packing;
mod parts;
mod process;
mod progress;
mod restart;
mod resuming;
mod rows;
mod shared;
mod store;
mod tracked;

pub use around::{AllRows, Around, Besides, Opened, Place, With};
pub use board::Board;
pub use disk::{Step, Watch};
pub use error::StoreError;
pub use found::Found;
pub use image::{Head, Image, Inter, OfPair, Remote};
pub use layout::ImageError;
pub use leader::Leader;
pub use line::{Done, Job, LineId, Planned, Report, Row, Rows};
pub use lock::Lock;
pub use member::{Held, Member, Snapshot, Whole};
pub use message::{Message, pack, unpack};
pub use outcomes::{Call, Chosen, Next, Outcomes, Recorder, Replay};
pub use packing::Packing;
pub use process::Process;
pub use restart::{Choice, Known, Old, choose};
pub use store::{Store, jobs};
pub use tracked::Made;
