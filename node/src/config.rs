//! What the environment asks for. Read once, when the node starts.

use base::settings;
use std::fmt;
use std::time::Duration;
use transports::tcp::PortRange;

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
    pub(crate) fn system(what: &str, e: impl fmt::Display) -> StartError {
        StartError::System(format!("{what}: {e}"))
    }
}

#[derive(Debug, Clone)]
pub struct Config {
    /// `MPI_CONNECT_IFACE`
    pub iface: Option<String>,
    /// `MPI_CONNECT_PORTRANGE`
    pub ports: Option<PortRange>,
    /// `MPI_CONNECT_TIMEOUT`: how long the first connection to a process is tried.
    pub timeout: Duration,
    /// Whether a thread moves transfers outside of calls.
    pub background: bool,
}

impl Default for Config {
    fn default() -> Config {
        let timeout = Duration::from_secs(settings::DEFAULT_TIMEOUT);
        Config { iface: None, ports: None, timeout, background: true }
    }
}

impl Config {
    pub fn from_env() -> Result<Config, StartError> {
        let get = |name: &str| std::env::var(name).ok().filter(|v| !v.trim().is_empty());
        let setting = |name: &str, e: String| StartError::Setting(format!("{name}: {e}"));
        let ports = match get(settings::PORTRANGE) {
            None => None,
            Some(v) => Some(
                PortRange::parse(&v).ok_or_else(|| setting(settings::PORTRANGE, format!("'{v}' is not FIRST-LAST")))?,
            ),
        };
        let timeout = settings::timeout().map_err(|e| setting(settings::TIMEOUT, e))?;
        Ok(Config { iface: get(settings::IFACE), ports, timeout, background: true })
    }
}
