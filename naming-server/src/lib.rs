//! The naming service: a name leads to the [`Record`] of the job that holds it, or to a port that was published under it.
//!
//! The leader of a job and the command use this crate. [`Naming`] is the interface, and a URL chooses the store: `file:DIR`, a
//! folder that both jobs see, or `tcp://HOST:PORT`, a server ([`server`]) that both reach. Invariants of every store: a name
//! has at most one live holder; the record of a killed job does not keep its name from another job, and is never handed out.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod claim;
mod error;
mod fate;
mod file;
mod follow;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod here;
mod link;
mod metadata;
mod pattern;
mod private;
pub mod quiet;
mod record;
mod rows;
pub mod server;
mod tcp;
mod url;
mod wire;

pub use claim::Claim;
pub use error::{AddressError, ClaimError, LookupError, OpenError, RenewError, ServeError, StoreError};
pub use fate::Fate;
pub use file::FileStore;
pub use follow::{Follower, follow, live};
pub use here::{boot_id, host, now};
pub use metadata::{MAX_PAIRS, MetadataError, check as check_metadata, from_env as metadata_from_env};
pub use pattern::matches;
pub use record::{
    Key, Kind, MAX_LEADER, MAX_PORT, MAX_RECORD, NameError, Record, RecordError, VERSION, check_name, run_of,
};
pub use rows::{Row, rows};
pub use tcp::{Probe, Said};
pub use url::{check_url, default_run, default_url, open, open_run, open_trusting, private_url};
pub use wire::DEFAULT_PORT;

use std::time::Duration;

/// How often the holder of a claim has to call [`Claim::renew`], at least.
pub const RENEW_EVERY: Duration = Duration::from_secs(10);
/// How long a claim in a folder stands without being renewed, if its holder is on another host. On this host, the kernel tells
/// of the holder's death at once.
pub const LEASE: Duration = Duration::from_secs(60);

/// What is known of the holder of a listed record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Its claim stands.
    Live,
    /// It has died without giving the name back. The next claim will take it.
    LeftOver,
    /// The record is of this version, written by another release. Only its name is known.
    OtherVersion(u16),
    /// The record is of the user with this number, and is not read. Only its name is known.
    OtherUser(u32),
}

/// Something that has happened to a name.
#[derive(Debug, Clone)]
pub struct Change {
    /// What that is.
    pub fate: Fate,
    /// The time, in seconds since 1970.
    pub at: u64,
    /// Its record; secrets may be left out. If it was gone before it could be read, it holds what the file's name tells, and an
    /// incarnation that is drawn for it.
    pub record: Record,
}

/// The changes that a store notices. It does not notice deaths, or changes to a folder by other hosts; these show in
/// [`Naming::list`].
pub trait Watch {
    /// The changes since the last call, in order. Waits for one for at most `patience`.
    fn next(&mut self, patience: Duration) -> Vec<Change>;
}

/// A store of names. Claims and look-ups are of one run, or of none.
pub trait Naming: Send + Sync {
    /// Takes `rec.name`, among the names of this run and of the record's kind, until the claim is dropped or this process ends.
    /// [`ClaimError::Held`] if a live process has it.
    fn claim(&self, rec: &Record) -> Result<Claim, ClaimError>;
    /// As [`Naming::claim`], for a record that is only listed, such as a coupling. It never waits for a server, so the claim may
    /// be made later, or never.
    fn note(&self, rec: &Record) -> Result<Claim, ClaimError>;
    /// The record of the live holder of `name`, among the names of this run and kind; `None` if there is none.
    fn lookup(&self, kind: Kind, name: &str) -> Result<Option<Record>, LookupError>;
    /// The record of the live holder of this key, as [`Naming::list`] has shown it: of a coupling too.
    fn lookup_key(&self, key: &Key) -> Result<Option<Record>, LookupError>;
    /// As [`Naming::lookup`], with the fencing token of the claim: see [`Claim::fence`].
    fn lookup_fenced(&self, kind: Kind, name: &str) -> Result<Option<(Record, Option<u64>)>, LookupError> {
        Ok(self.lookup(kind, name)?.map(|record| (record, None)))
    }
    /// The records of all runs and kinds, sorted by run and name. The cookie, the contact record and a port's name may be left
    /// empty: only [`Naming::lookup`] gives them.
    fn list(&self) -> Result<Vec<(Record, State)>, StoreError>;
    /// Makes a folder that is not there yet, so that it can be watched, or asks whether a server is there. Nobody is told of it.
    fn make_ready(&self) -> Result<(), StoreError>;
    /// The changes from now on.
    fn watch(&self) -> Box<dyn Watch + '_>;
    /// Whether the claim that `rec` comes from still stands, by its incarnation. A job may give a name back and live on, so
    /// this tells of its death only as long as it keeps the name.
    fn is_alive(&self, rec: &Record) -> Result<bool, LookupError>;
    /// Tries everything that a claim needs, and leaves no name behind; a server tells those who watch of one. Returns warnings, for people.
    fn check(&self) -> Result<Vec<String>, StoreError>;
    /// The run; empty if there is none.
    fn run(&self) -> &str;
    /// The URL that opens this store; a folder in it is absolute.
    fn url(&self) -> String;
    /// The URL and the run, for messages.
    fn describe(&self) -> String {
        match self.run() {
            "" => self.url(),
            run => format!("{}, run '{run}'", self.url()),
        }
    }
}
