//! Errors, one enum for each operation. Their texts also say what can be done about them.

use crate::record::{Kind, NameError, Record, RecordError, VERSION};
use std::fmt::{Display, Formatter, Result};
use std::io::{self, ErrorKind::*};
use std::path::PathBuf;
use std::time::Duration;
use trust::FileError;

/// Why a URL opens no store.
#[derive(Debug)]
pub enum OpenError {
    /// The variable `MPI_CONNECT_NAMING` is not UTF-8.
    NotUtf8,
    /// This URL is of no kind that is known.
    Unknown(String),
    /// This URL is of a store that only servers use.
    NotYet(String),
    /// This URL is `file://HOST/…`: a folder has no host.
    Host(String),
    /// This URL is `tcp://…`, and one of its servers has an impossible address.
    Address(String, AddressError),
    /// The URL is `file:`, without a folder.
    NoFolder,
    /// The value of `MPI_CONNECT_RUN` is no name.
    Run(NameError),
    /// This URL is `tcp://…`, and there is no key for its servers.
    Key(String, FileError),
    /// This URL has a relative folder, and the working directory is not known.
    Relative(String, io::Error),
}

impl OpenError {
    /// Whether a setting, or an option that stands for it, is wrong.
    pub fn is_setting(&self) -> bool {
        match self {
            OpenError::Key(_, e) => e.is_setting(),
            OpenError::Relative(..) => false,
            _ => true,
        }
    }
}

impl Display for OpenError {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            OpenError::NotUtf8 => f.write_str("MPI_CONNECT_NAMING is not valid UTF-8"),
            OpenError::Unknown(url) => write!(f, "'{url}' is no naming URL; write file:DIR or tcp://HOST:PORT"),
            OpenError::NotYet(url) => {
                write!(
                    f,
                    "'{url}': programs do not speak with etcd themselves; available are file:DIR and tcp://HOST:PORT, of \
                     servers that 'mpi-connect serve --store {url}' starts"
                )
            }
            OpenError::Host(url) => {
                write!(f, "'{url}' names a host; a folder that every host sees is written file:/DIR")
            }
            OpenError::Address(url, e) => write!(f, "'{url}': {e}; write tcp://HOST:PORT,HOST:PORT"),
            OpenError::Key(url, e) => write!(f, "'{url}': {e}"),
            OpenError::Run(e) => write!(f, "MPI_CONNECT_RUN: {e}"),
            OpenError::NoFolder => f.write_str("'file:' names no folder; write file:DIR"),
            OpenError::Relative(url, e) => write!(f, "'{url}' is relative, and the working directory is unknown: {e}"),
        }
    }
}

/// Why a text is not the address of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AddressError {
    /// No host is named.
    NoHost,
    /// This number of servers is too large.
    TooMany(usize),
    /// This is no name or address of a host.
    Host(String),
    /// This is no port.
    Port(String),
    /// This is a port without a host.
    OnlyPort(String),
    /// This is an IPv6 address without brackets.
    Brackets(String),
}

impl Display for AddressError {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            AddressError::NoHost => f.write_str("no host is named"),
            AddressError::TooMany(n) => write!(f, "{n} servers are too many"),
            AddressError::Host(host) => write!(f, "{host:?} is no host"),
            AddressError::Port(port) => write!(f, "{port:?} is no port"),
            AddressError::OnlyPort(port) => write!(f, "a port, {port}, has its host in front"),
            AddressError::Brackets(host) => write!(f, "an IPv6 address has brackets: [{host}]"),
        }
    }
}

/// Why a server cannot start, or ends.
#[derive(Debug)]
pub enum ServeError {
    /// An address to listen at is impossible.
    Address(AddressError),
    /// Listening at this address failed.
    Listen(String, io::Error),
    /// This lease is too short or too long.
    Lease(Duration),
    /// Waiting for clients failed.
    Poll(io::Error),
}

impl Display for ServeError {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            ServeError::Address(e) => write!(f, "{e}; write HOST:PORT"),
            ServeError::Listen(address, e) => write!(f, "listening at {address}: {e}"),
            ServeError::Lease(lease) => {
                write!(f, "a lease of {} s cannot be: it lasts between half a second and a day", lease.as_secs_f64())
            }
            ServeError::Poll(e) => write!(f, "waiting for clients: {e}"),
        }
    }
}

/// Why a store cannot be used.
#[derive(Debug)]
pub enum StoreError {
    /// A system call failed: what was tried, on this path.
    Io(&'static str, PathBuf, io::Error),
    /// This is no folder.
    NotAFolder(PathBuf),
    /// The private folder is a symbolic link.
    Symlink(PathBuf),
    /// A folder or record belongs to the user with this number.
    Foreign(PathBuf, u32),
    /// This mode of the private folder lets other users write to it.
    Writable(PathBuf, u32),
    /// Something that is no regular file lies where a record belongs: what it is.
    Blocked(PathBuf, &'static str),
    /// A record is of this version, which cannot be read here.
    Version(PathBuf, u16),
    /// The file system has no hard links.
    NoLinks(PathBuf, io::Error),
    /// The file system has no file locks.
    NoLocks(PathBuf, io::Error),
    /// Other processes kept the record locked, or were faster again and again.
    Busy(PathBuf),
    /// The file name belongs to another name, which is this one.
    Collision(PathBuf, String),
    /// No naming server answers: their addresses, each with the reason.
    Unreachable(Vec<(String, String)>),
    /// Naming servers answer, but do not reach the store that they share: their addresses, each with the reason.
    StoreAway(Vec<(String, String)>),
    /// No naming server can be used, and not for want of an answer: some refuse the key of this process, or were refused by it.
    /// Their addresses, each with the reason.
    Untrusted(Vec<(String, String)>),
    /// The naming server at this address does not do what it was asked: what it does instead.
    Refused(String, &'static str),
    /// The thread that renews claims could not be started.
    Thread(io::Error),
}

impl Display for StoreError {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        const ELSEWHERE: &str = "choose another folder with MPI_CONNECT_NAMING=file:DIR";
        match self {
            StoreError::Io(what, path, e) => {
                write!(f, "{what} {}: {e}", path.display())?;
                // These errors another folder may not have.
                match e.kind() {
                    PermissionDenied | ReadOnlyFilesystem => write!(f, "; {ELSEWHERE} that you may write to"),
                    StorageFull | QuotaExceeded => write!(f, "; make room there, or {ELSEWHERE}"),
                    _ => Ok(()),
                }
            }
            StoreError::NotAFolder(p) => write!(f, "{} is not a folder; {ELSEWHERE}", p.display()),
            StoreError::Symlink(p) => {
                write!(f, "{} is a symbolic link, which is not trusted here; remove it, or {ELSEWHERE}", p.display())
            }
            StoreError::Foreign(p, uid) => {
                let mine = "jobs of several users meet at a server, which 'mpi-connect serve' starts";
                write!(f, "{} belongs to another user (uid {uid}); {ELSEWHERE} of your own, or {mine}", p.display())
            }
            StoreError::Writable(p, mode) => {
                write!(f, "other users can write to {} (mode {mode:o}); chmod 700 it", p.display())
            }
            StoreError::Blocked(p, what) => {
                write!(f, "{what} lies at {}, where a name's record belongs; remove it", p.display())
            }
            StoreError::Version(p, v) => write!(
                f,
                "{} is of version {v}, written by {} MPI_Connect; both jobs need the same release, or folders of their own \
                 (MPI_CONNECT_NAMING=file:DIR)",
                p.display(),
                if *v < VERSION { "an older" } else { "a newer" }
            ),
            StoreError::NoLinks(p, e) => {
                write!(f, "the file system of {} has no hard links ({e}); {ELSEWHERE}", p.display())
            }
            StoreError::NoLocks(p, e) => {
                write!(f, "the file system of {} has no file locks ({e}); {ELSEWHERE}", p.display())
            }
            StoreError::Busy(p) => write!(f, "{} stayed busy; try again", p.display()),
            StoreError::Collision(p, other) => {
                write!(
                    f,
                    "{} is taken by the name '{other}': the two names differ too little; take another name",
                    p.display()
                )
            }
            StoreError::Unreachable(servers) => {
                f.write_str("no naming server answers")?;
                reasons(f, servers)?;
                f.write_str(" (it is started by 'mpi-connect serve')")
            }
            StoreError::StoreAway(servers) => {
                f.write_str("no naming server reaches the store that they share")?;
                reasons(f, servers)
            }
            StoreError::Untrusted(servers) => {
                f.write_str("no naming server can be used")?;
                reasons(f, servers)
            }
            StoreError::Refused(server, why) => write!(f, "the naming server {server} {why}"),
            StoreError::Thread(e) => write!(f, "starting the thread that renews names: {e}"),
        }
    }
}

/// Each server with its reason.
fn reasons(f: &mut Formatter<'_>, servers: &[(String, String)]) -> Result {
    for (i, (server, why)) in servers.iter().enumerate() {
        write!(f, "{} {server}: {why}", if i == 0 { ":" } else { ";" })?;
    }
    Ok(())
}

/// Why a name could not be taken.
#[derive(Debug)]
pub enum ClaimError {
    /// No job or port may have this name.
    Name(NameError),
    /// The record cannot be written.
    Record(RecordError),
    /// A live process has the name.
    Held {
        /// The record of the holder; secrets may be left out.
        by: Box<Record>,
    },
    /// The store cannot be used.
    Store(StoreError),
}

impl Display for ClaimError {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            ClaimError::Name(e) => e.fmt(f),
            ClaimError::Record(e) => e.fmt(f),
            ClaimError::Held { by } if by.pid == std::process::id() && by.boot == crate::boot_id() => {
                let (name, run) = (&by.name, of_run(by));
                match by.kind() {
                    Kind::Port => write!(
                        f,
                        "the name '{name}'{run} is published already, by this very process: MPI_Unpublish_name gives it back"
                    ),
                    _ => write!(
                        f,
                        "the name '{name}'{run} is registered already, by this very process: use the handle that \
                         MPI_Conn_register gave, or give it back by MPI_Conn_remove"
                    ),
                }
            }
            ClaimError::Held { by } if by.kind() == Kind::Port => {
                write!(
                    f,
                    "the name '{}'{} is published already, by process {} on {}",
                    by.name,
                    of_run(by),
                    by.pid,
                    by.host
                )?;
                f.write_str(FREE)
            }
            ClaimError::Held { by } => {
                let ranks = if by.size == 1 { "rank" } else { "ranks" };
                let (name, run, size, mpi, pid, host) = (&by.name, of_run(by), by.size, &by.mpi, by.pid, &by.host);
                write!(
                    f,
                    "the name '{name}'{run} is held by a live job: {size} {ranks} of {mpi}, process {pid} on {host}"
                )?;
                f.write_str(FREE)
            }
            ClaimError::Store(e) => e.fmt(f),
        }
    }
}

/// The advice about a name that is held.
const FREE: &str = "; take another name, keep the two apart by MPI_CONNECT_RUN=NAME, or wait until that process ends";

fn of_run(record: &Record) -> String {
    if record.run.is_empty() { String::new() } else { format!(" of run '{}'", record.run) }
}

/// Why a name could not be looked up. A name without a holder is no error.
#[derive(Debug)]
pub enum LookupError {
    /// No job or port may have this name.
    Name(NameError),
    /// The store cannot be used.
    Store(StoreError),
}

impl Display for LookupError {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            LookupError::Name(e) => e.fmt(f),
            LookupError::Store(e) => e.fmt(f),
        }
    }
}

/// Why a claim could not be renewed.
#[derive(Debug)]
pub enum RenewError {
    /// The claim is lost: its record at this place was removed, or replaced since this process was stopped for longer than
    /// the lease.
    Lost(String),
    /// A system call failed on this record.
    Io(PathBuf, io::Error),
}

impl Display for RenewError {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            RenewError::Lost(place) => {
                write!(f, "the claim on {place} is lost: its record was removed or replaced")
            }
            RenewError::Io(p, e) => write!(f, "renewing the claim on {}: {e}", p.display()),
        }
    }
}

macro_rules! std_error {
    ($($t:ty),*) => { $(impl std::error::Error for $t {})* };
}
std_error!(
    NameError,
    RecordError,
    OpenError,
    AddressError,
    ServeError,
    StoreError,
    ClaimError,
    LookupError,
    RenewError
);

impl From<StoreError> for ClaimError {
    fn from(e: StoreError) -> Self {
        ClaimError::Store(e)
    }
}
impl From<StoreError> for LookupError {
    fn from(e: StoreError) -> Self {
        LookupError::Store(e)
    }
}
