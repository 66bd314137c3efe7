//! What the environment asks for. Read once, when the node starts.

use base::settings;
use std::fmt;
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
    /// Whether a thread moves transfers outside of calls.
    pub background: bool,
}

impl Default for Config {
    fn default() -> Config {
        Config { iface: None, ports: None, background: true }
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
        Ok(Config { iface: get(settings::IFACE), ports, background: true })
    }
}
