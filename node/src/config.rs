//! The configuration of a node. It is read from the environment once, when the node starts.

use base::settings;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use transports::registry::Settings;
use transports::transport::OpenError;
use trust::{Encrypt, Ring, Trust};

/// Why a node could not be started. [`fmt::Display`] gives the text for the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StartError {
    /// This process is a forked child of a process that used the library.
    Forked,
    /// A system call failed, or no transport could be opened. The text says which call, and the system's error.
    System(String),
    /// An environment variable has a value that cannot be used. The text says which variable, and why.
    Setting(String),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Forked => f.write_str("a forked child cannot use the connections of its parent"),
            StartError::System(e) | StartError::Setting(e) => f.write_str(e),
        }
    }
}

impl StartError {
    pub(crate) fn system(what: &str, e: impl Into<io::Error>) -> StartError {
        let e = e.into();
        StartError::System(format!("{what}: {e}{}", base::mend(&e)))
    }

    fn setting((name, why): (&str, String)) -> StartError {
        StartError::Setting(format!("{name}: {why}"))
    }
}

impl From<OpenError> for StartError {
    fn from(e: OpenError) -> StartError {
        match e {
            OpenError::Setting(name, why) => StartError::setting((name, why)),
            OpenError::System(why) | OpenError::NotHere(why) => StartError::System(why),
            OpenError::Without(e) => StartError::System(e.to_string()),
        }
    }
}

/// Whom a node trusts, and what it proves.
#[derive(Debug, Clone)]
pub enum Trusts {
    /// What the environment says, with the one identity of this process.
    OfProcess,
    /// Whoever holds one of these keys, with an identity of the node's own: for several nodes in one process.
    Keys(Ring, Encrypt),
}

impl Trusts {
    /// The keys and the identity. [`StartError::Setting`]: the key file cannot be used.
    pub(crate) fn open(&self) -> Result<Arc<Trust>, StartError> {
        match self {
            Trusts::OfProcess => Trust::of_process().map_err(|e| StartError::setting((e.name(), e.to_string()))),
            Trusts::Keys(ring, encrypt) => Ok(Arc::new(Trust::new(ring.clone(), *encrypt))),
        }
    }
}

/// The configuration of a node.
#[derive(Debug, Clone)]
pub struct Config {
    /// Whom it trusts.
    pub trusts: Trusts,
    /// Which transports are opened, and the settings of each.
    pub transports: Settings,
    /// How long [`crate::Node::drain`] waits for processes that were never reached: `MPI_CONNECT_TIMEOUT`.
    pub timeout: Duration,
    /// How long a call waits for data before the first notice of it on stderr.
    pub notice: Duration,
    /// The folders that are open to other jobs, each with whether it may be written: `MPI_CONNECT_FILES`.
    pub folders: Vec<(PathBuf, bool)>,
    /// Whether a background thread makes progress while the program is in no call.
    pub background: bool,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            trusts: Trusts::OfProcess,
            transports: Settings::default(),
            timeout: Duration::from_secs(settings::DEFAULT_TIMEOUT),
            notice: Duration::from_secs(60),
            folders: Vec::new(),
            background: true,
        }
    }
}

impl Config {
    /// Reads the environment. An unset or empty variable means its default. [`StartError::Setting`]: a variable has a
    /// value that cannot be used.
    pub fn from_env() -> Result<Config, StartError> {
        let get = |name: &str| std::env::var(name).ok().filter(|v| !v.trim().is_empty());
        let timeout = settings::timeout().map_err(|e| StartError::setting((settings::TIMEOUT, e)))?;
        let transports = Settings::read(&get).map_err(StartError::setting)?;
        Ok(Config { transports, timeout, folders: settings::files(), ..Config::default() })
    }
}
