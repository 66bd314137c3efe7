//! Where jobs find each other: a name leads to a [`Record`] of the job that holds it, or to a port that was published.
//!
//! The leader of a job and the command may call this room. [`Naming`] is the interface; a URL chooses what stands
//! behind it: `file:DIR`, a folder that both jobs see, or
//! `tcp://HOST:PORT`, a server ([`server`]) that both reach. Invariants, whichever store it is: a name has at most
//! one live holder, and what a killed job left behind never stands in the way of the next and is never handed out.
#![forbid(unsafe_code)]

mod claim;
mod error;
mod file;
mod here;
mod metadata;
mod private;
pub mod quiet;
mod record;
pub mod server;
mod tcp;
mod url;
mod wire;

pub use claim::Claim;
pub use error::{AddressError, ClaimError, LookupError, OpenError, RenewError, ServeError, StoreError};
pub use file::FileStore;
pub use here::{boot_id, host, now};
pub use metadata::{MAX_PAIRS, MetadataError, check as check_metadata, from_env as metadata_from_env};
pub use record::{
    Key, Kind, MAX_LEADER, MAX_PORT, MAX_RECORD, NameError, Record, RecordError, VERSION, check_name, run_of,
};
pub use url::{default_run, default_url, open, open_run};
pub use wire::DEFAULT_PORT;

use std::time::Duration;

/// How often the holder of a claim has to call [`Claim::renew`].
pub const RENEW_EVERY: Duration = Duration::from_secs(10);
/// A claim in a folder, of another host, that has not been renewed for so long is dead.
pub const LEASE: Duration = Duration::from_secs(60);

/// What is known of the job behind a listed record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Its claim stands.
    Live,
    /// It died without releasing the name: the next claim will take it.
    LeftOver,
    /// The record is of this version, written by another release: no more than its name is known.
    OtherVersion(u16),
    /// The record is this user's, and so is not read.
    OtherUser(u32),
}

/// A name that came or went.
#[derive(Debug, Clone)]
pub struct Change {
    pub came: bool,
    /// When, in seconds since 1970.
    pub at: u64,
    /// Where it was gone before it could be read, only what its file's name tells, with a number for this coming.
    pub record: Record,
}

/// What a store has noticed. It may miss what it cannot see, such as deaths, and changes to a folder by other hosts: those
/// show in the list.
pub trait Watch {
    /// What has come and gone since the last call, in order; waits at most so long for something.
    fn next(&mut self, patience: Duration) -> Vec<Change>;
}

/// One place where names are kept. Claims and look-ups are of one run, or of none.
pub trait Naming: Send + Sync {
    /// Takes `rec.name`, among the names of this run and the record's kind, for as long as the claim, or this process, lives.
    fn claim(&self, rec: &Record) -> Result<Claim, ClaimError>;
    /// The same for what is told besides, which nobody looks up: it never waits for a server, and may come true later, or
    /// never.
    fn note(&self, rec: &Record) -> Result<Claim, ClaimError>;
    /// The record of the live holder of `name`, among the names of this run and kind.
    fn lookup(&self, kind: Kind, name: &str) -> Result<Option<Record>, LookupError>;
    /// Every record that can be read, of all runs and kinds, by run and name. The cookie, the contact record and what a port's name leads to
    /// may be left empty: they are for those who look a name up.
    fn list(&self) -> Result<Vec<(Record, State)>, StoreError>;
    /// What comes and goes from now on, also between two looks at the list.
    fn watch(&self) -> Box<dyn Watch + '_>;
    /// Whether the very claim that `rec` came from still stands. A job may release a name and live on, so this
    /// tells of the death of a job only while that job keeps its name.
    fn is_alive(&self, rec: &Record) -> Result<bool, LookupError>;
    /// Tries everything that a claim needs, and leaves no name behind. What is allowed but deserves a look is
    /// returned as sentences.
    fn check(&self) -> Result<Vec<String>, StoreError>;
    /// The run; empty if it is none.
    fn run(&self) -> &str;
    /// As it is given in a setting, with an absolute folder.
    fn url(&self) -> String;
    /// The URL and the run, for messages.
    fn describe(&self) -> String {
        match self.run() {
            "" => self.url(),
            run => format!("{}, run '{run}'", self.url()),
        }
    }
}
