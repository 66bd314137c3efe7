//! What the environment asks for. Read once, when the node starts.

use base::settings;
use std::fmt;
use std::io;
use std::time::Duration;
use transports::lane::Lanes;
use transports::stream::MAX_STRIPES;
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
    pub(crate) fn system(what: &str, e: impl Into<io::Error>) -> StartError {
        let e = e.into();
        StartError::System(format!("{what}: {e}{}", base::mend(&e)))
    }
}

#[derive(Debug, Clone)]
pub struct Config {
    /// `MPI_CONNECT_IFACE`
    pub iface: Option<String>,
    /// `MPI_CONNECT_PORTRANGE`
    pub ports: Option<PortRange>,
    /// `MPI_CONNECT_LANES`
    pub lanes: Lanes,
    /// `MPI_CONNECT_TUNE_SHM_FAST_AFTER`
    pub fast_after: u32,
    /// `MPI_CONNECT_TUNE_SHM_FAST_MAX`
    pub fast_max: u32,
    /// `MPI_CONNECT_TUNE_TCP_SOCKETS`
    pub tcp_sockets: u16,
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
            iface: None,
            ports: None,
            lanes: Lanes::ALL,
            fast_after: 16,
            fast_max: 16,
            tcp_sockets: 1,
            timeout: Duration::from_secs(settings::DEFAULT_TIMEOUT),
            notice: Duration::from_secs(60),
            background: true,
        }
    }
}

impl Config {
    pub fn from_env() -> Result<Config, StartError> {
        let get = |name: &str| std::env::var(name).ok().filter(|v| !v.trim().is_empty());
        let setting = |name: &str, e: String| StartError::Setting(format!("{name}: {e}"));
        let mut config = Config { iface: get(settings::IFACE), ..Config::default() };
        config.timeout = settings::timeout().map_err(|e| setting(settings::TIMEOUT, e))?;
        if let Some(v) = get(settings::PORTRANGE) {
            let ports = PortRange::parse(&v);
            config.ports = Some(ports.ok_or_else(|| setting(settings::PORTRANGE, format!("'{v}' is not FIRST-LAST")))?);
        }
        if let Some(v) = get(settings::LANES) {
            let lanes = Lanes::parse(&v);
            config.lanes = lanes.ok_or_else(|| setting(settings::LANES, format!("'{v}' is not shm, tcp, or both")))?;
        }
        for (name, to) in [(settings::FAST_AFTER, &mut config.fast_after), (settings::FAST_MAX, &mut config.fast_max)] {
            if let Some(v) = get(name) {
                *to = v
                    .trim()
                    .parse()
                    .map_err(|_| setting(name, format!("'{v}' is not a number from 0 to {}", u32::MAX)))?;
            }
        }
        if let Some(v) = get(settings::TCP_SOCKETS) {
            let sockets = v.trim().parse().ok().filter(|n| (1..=MAX_STRIPES).contains(n));
            let wrong = || setting(settings::TCP_SOCKETS, format!("'{v}' is not a number from 1 to {MAX_STRIPES}"));
            config.tcp_sockets = sockets.ok_or_else(wrong)?;
        }
        Ok(config)
    }
}
