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
mod quiet;
mod record;
pub mod server;
mod tcp;
mod url;
mod wire;

pub use claim::Claim;
pub use error::{
    AddressError, ClaimError, LookupError, NameError, OpenError, RecordError, RenewError, ServeError, StoreError,
};
pub use file::FileStore;
pub use here::{boot_id, host, now};
pub use metadata::{MAX_PAIRS, MetadataError, check as check_metadata, from_env as metadata_from_env};
pub use record::{Kind, MAX_LEADER, MAX_PORT, MAX_RECORD, Record, check_name};
pub use url::{default_url, open};
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
}

/// One place where names are kept.
pub trait Naming: Send + Sync {
    /// Takes `rec.name`, among the names of the record's kind, for as long as the claim, or this process, lives.
    fn claim(&self, rec: &Record) -> Result<Claim, ClaimError>;
    /// The record of the live holder of `name`, among the names of this kind.
    fn lookup(&self, kind: Kind, name: &str) -> Result<Option<Record>, LookupError>;
    /// Every record that can be read, of both kinds, by name. The cookie, the contact record and what a port's name leads to
    /// may be left empty: they are for those who look a name up.
    fn list(&self) -> Result<Vec<(Record, State)>, StoreError>;
    /// Whether the very claim that `rec` came from still stands. A job may release a name and live on, so this
    /// tells of the death of a job only while that job keeps its name.
    fn is_alive(&self, rec: &Record) -> Result<bool, LookupError>;
    /// Tries everything that a claim needs, and leaves no name behind. What is allowed but deserves a look is
    /// returned as sentences.
    fn check(&self) -> Result<Vec<String>, StoreError>;
    /// The URL, for messages.
    fn describe(&self) -> String;
}
