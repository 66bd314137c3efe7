//! Every variable of the environment that means something to the library or the command, with its meaning and its
//! default. Both read this table; `mpi-connect doctor` shows it.
//!
//! Invariant: no `MPI_CONNECT_*` variable is read anywhere that is not listed here.

use std::time::Duration;

/// What they all begin with; anything else that does is a mistake.
pub const PREFIX: &str = "MPI_CONNECT_";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setting {
    pub name: &'static str,
    pub meaning: &'static str,
    /// In words, or the value itself.
    pub default: &'static str,
}

pub const NAMING: &str = "MPI_CONNECT_NAMING";
pub const METADATA: &str = "MPI_CONNECT_METADATA";
pub const TIMEOUT: &str = "MPI_CONNECT_TIMEOUT";
pub const IFACE: &str = "MPI_CONNECT_IFACE";
pub const PORTRANGE: &str = "MPI_CONNECT_PORTRANGE";
pub const LANES: &str = "MPI_CONNECT_LANES";
pub const FAST_AFTER: &str = "MPI_CONNECT_TUNE_SHM_FAST_AFTER";
pub const FAST_MAX: &str = "MPI_CONNECT_TUNE_SHM_FAST_MAX";
pub const TCP_SOCKETS: &str = "MPI_CONNECT_TUNE_TCP_SOCKETS";
pub const LOG: &str = "MPI_CONNECT_LOG";
pub const ADOPT: &str = "MPI_CONNECT_ADOPT";
pub const PORTS: &str = "MPI_CONNECT_PORTS";
pub const LIB: &str = "MPI_CONNECT_LIB";

/// Seconds, while [`TIMEOUT`] is not set.
pub const DEFAULT_TIMEOUT: u64 = 600;

pub const ALL: &[Setting] = &[
    Setting {
        name: NAMING,
        meaning: "where jobs find each other: file:DIR, a folder that both see, or tcp://HOST:PORT, servers that both reach",
        default: "file: the user's private folder",
    },
    Setting {
        name: METADATA,
        meaning: "key=value, with commas between: told to whoever looks at this job's names",
        default: "nothing",
    },
    Setting {
        name: TIMEOUT,
        meaning: "seconds that joining may wait for the other job, and MPI_Finalize for who cannot be reached; data waits \
                  have no limit",
        default: "600",
    },
    Setting {
        name: IFACE,
        meaning: "where to listen: interfaces, addresses or prefixes (10.1.0.0/16), with commas between; loopback; all; !NAME: \
                  not there",
        default: "loopback",
    },
    Setting {
        name: PORTRANGE,
        meaning: "ports to listen on: FIRST-LAST, one for each process on a host",
        default: "any free port",
    },
    Setting {
        name: LANES,
        meaning: "what may carry messages, with commas between: shm (memory shared on one host), tcp",
        default: "shm,tcp",
    },
    Setting {
        name: FAST_AFTER,
        meaning: "messages after which a process looks at another's shared memory by itself, without being told",
        default: "16",
    },
    Setting { name: FAST_MAX, meaning: "how many it looks at by itself at most", default: "16" },
    Setting {
        name: TCP_SOCKETS,
        meaning: "TCP connections to each process that is dialled, 1 to 16: more for links with a long way and much room",
        default: "1",
    },
    Setting { name: LOG, meaning: "what to tell on stderr: off, error, info, debug", default: "off" },
    Setting {
        name: ADOPT,
        meaning: "1: what MPI_Intercomm_create makes within one job is carried by this library too",
        default: "0",
    },
    Setting {
        name: PORTS,
        meaning: "native: MPI_Open_port, MPI_Comm_accept and their kin are left to the program's MPI",
        default: "this library's",
    },
    Setting {
        name: LIB,
        meaning: "the libmpi_connect.so that 'mpi-connect run' preloads",
        default: "found from where mpi-connect itself lies",
    },
];

/// How long joining may wait for the other job, as [`TIMEOUT`] says.
pub fn timeout() -> Result<Duration, String> {
    match std::env::var(TIMEOUT) {
        Ok(v) if !v.trim().is_empty() => {
            let seconds = v.trim().parse().ok().and_then(|s| Duration::try_from_secs_f64(s).ok());
            seconds.ok_or_else(|| format!("'{v}' is no number of seconds"))
        }
        _ => Ok(Duration::from_secs(DEFAULT_TIMEOUT)),
    }
}

/// Whether [`TIMEOUT`] says anything.
pub fn is_timeout_set() -> bool {
    std::env::var(TIMEOUT).is_ok_and(|v| !v.trim().is_empty())
}

/// Whether MPI's own ports are left to the MPI below, as [`PORTS`] says.
pub fn native_ports() -> bool {
    let value = std::env::var(PORTS).unwrap_or_default();
    if !["", "native"].contains(&value.trim()) {
        crate::log!(Error, "{PORTS}: '{value}' is not 'native', and has no effect");
    }
    value.trim() == "native"
}

/// Whether inter-communicators within one job are ours too, as [`ADOPT`] says.
pub fn adopt() -> bool {
    let value = std::env::var(ADOPT).unwrap_or_default();
    if !["", "0", "1"].contains(&value.trim()) {
        crate::log!(Error, "{ADOPT}: '{value}' is neither 0 nor 1, so nothing is adopted");
    }
    value.trim() == "1"
}

/// Whether this variable has our prefix and no meaning.
pub fn is_unknown(name: &str) -> bool {
    name.starts_with(PREFIX) && ALL.iter().all(|s| s.name != name)
}

/// The setting that was probably meant by a wrong name.
pub fn nearest(name: &str) -> Option<&'static Setting> {
    let (distance, s) = ALL.iter().map(|s| (edits(name, s.name), s)).min_by_key(|(d, _)| *d)?;
    (distance <= 3).then_some(s)
}

/// How many letters have to change, come or go to make `b` of `a`.
fn edits(a: &str, b: &str) -> usize {
    let b = b.as_bytes();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let changed = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinct_and_prefixed() {
        for (i, s) in ALL.iter().enumerate() {
            assert!(s.name.starts_with(PREFIX) && !is_unknown(s.name));
            assert!(ALL[..i].iter().all(|t| t.name != s.name));
        }
        assert!(is_unknown("MPI_CONNECT_TIMEOT") && !is_unknown("PATH"));
    }

    #[test]
    fn typos_lead_to_what_was_meant() {
        for (wrong, right) in [
            ("MPI_CONNECT_TIMEOT", TIMEOUT),
            ("MPI_CONNECT_IFACES", IFACE),
            ("MPI_CONNECT_PORT_RANGE", PORTRANGE),
            ("MPI_CONNECT_NAME", NAMING),
        ] {
            assert_eq!(nearest(wrong).unwrap().name, right);
        }
        assert_eq!(nearest("MPI_CONNECT_SOMETHING_ELSE"), None);
    }
}
