//! What the environment asks for. Read once, when the node starts.

use base::settings;
use std::fmt;
use std::io;
use std::time::Duration;
use transports::registry::Settings;
use transports::transport::OpenError;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StartError {
    /// This process is a fork of one that used the library.
    Forked,
    /// No socket, no address, no thread: what the system said.
    System(String),
    /// An environment variable that makes no sense: which, and why.
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
            OpenError::System(why) => StartError::System(why),
            OpenError::Without(e) => StartError::System(e.to_string()),
        }
    }
}

#[derive(Debug, Clone)]
pub struct Config {
    /// Which transports, and what each is set to.
    pub transports: Settings,
    /// `MPI_CONNECT_TIMEOUT`: for so long the end waits for those who could never be reached.
    pub timeout: Duration,
    /// After so long a wait for data is told of.
    pub notice: Duration,
    /// Whether a thread moves transfers outside of calls.
    pub background: bool,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            transports: Settings::default(),
            timeout: Duration::from_secs(settings::DEFAULT_TIMEOUT),
            notice: Duration::from_secs(60),
            background: true,
        }
    }
}

impl Config {
    pub fn from_env() -> Result<Config, StartError> {
        let get = |name: &str| std::env::var(name).ok().filter(|v| !v.trim().is_empty());
        let timeout = settings::timeout().map_err(|e| StartError::setting((settings::TIMEOUT, e)))?;
        let transports = Settings::read(&get).map_err(StartError::setting)?;
        Ok(Config { transports, timeout, ..Config::default() })
    }
}
