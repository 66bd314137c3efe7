//! Every environment variable that the library or the command reads, with its meaning and its default. `mpi-connect
//! doctor` shows this table.
//!
//! Invariant: no `MPI_CONNECT_*` variable is read anywhere that is not listed here.

use crate::spelling;
use std::path::PathBuf;
use std::time::Duration;

/// How the names of all settings begin. A variable with this prefix that is not in [`ALL`] is a mistake.
pub const PREFIX: &str = "MPI_CONNECT_";

/// One environment variable, as [`ALL`] describes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setting {
    /// The name of the variable, with its prefix.
    pub name: &'static str,
    /// What it sets, for users.
    pub meaning: &'static str,
    /// Which values are accepted.
    pub value: Value,
    /// What holds while it is not set: in words, or the value itself.
    pub default: &'static str,
}

/// The values that a setting accepts. An empty value, or one of blanks, counts as not set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value {
    /// Any text. The code that uses the setting checks it.
    Free,
    /// One of these words.
    Word(&'static [&'static str]),
    /// One or more of these words, with commas between them.
    Words(&'static [&'static str]),
    /// A number from the first to the last, inclusive.
    Number(u32, u32),
    /// A number of seconds, which may have a fraction.
    Seconds,
    /// A port, or two ports `FIRST-LAST`, the lower one first.
    Range,
    /// A naming service. Only the scheme is checked here.
    Url,
    /// A file.
    File,
    /// `key=value`, with commas or semicolons between the pairs.
    Pairs,
    /// Folders, each with `:ro` or `:rw` behind it, with commas or semicolons between.
    Folders,
}

/// Where jobs find each other: a folder, or naming servers.
pub const NAMING: &str = "MPI_CONNECT_NAMING";
/// The run that a job belongs to. Names of one run are hidden from other runs.
pub const RUN: &str = "MPI_CONNECT_RUN";
/// Pairs `key=value` that are published with the names of this job.
pub const METADATA: &str = "MPI_CONNECT_METADATA";
/// The limit in seconds for joining, and for `MPI_Finalize` to reach other processes.
pub const TIMEOUT: &str = "MPI_CONNECT_TIMEOUT";
/// The network interfaces, addresses or prefixes to listen on.
pub const IFACE: &str = "MPI_CONNECT_IFACE";
/// The file of the key: who holds it may join.
pub const KEY: &str = "MPI_CONNECT_KEY";
/// When connections are encrypted.
pub const ENCRYPT: &str = "MPI_CONNECT_ENCRYPT";
/// The TCP ports to listen on.
pub const PORTRANGE: &str = "MPI_CONNECT_PORTRANGE";
/// The relays at which this process waits, and through which it reaches others that do.
pub const RELAY: &str = "MPI_CONNECT_RELAY";
/// Whether the processes of a node share one router.
pub const ROUTE: &str = "MPI_CONNECT_ROUTE";
/// The transports that may carry messages.
pub const LANES: &str = "MPI_CONNECT_LANES";
/// The messages after which a process polls the shared memory of a peer instead of waiting for its doorbell.
pub const FAST_AFTER: &str = "MPI_CONNECT_TUNE_SHM_FAST_AFTER";
/// The number of peers whose shared memory a process polls.
pub const FAST_MAX: &str = "MPI_CONNECT_TUNE_SHM_FAST_MAX";
/// The TCP connections per peer that this process dials.
pub const TCP_SOCKETS: &str = "MPI_CONNECT_TUNE_TCP_SOCKETS";
/// The most ranks of a job whose contact records are told whole.
pub const RECORDS: &str = "MPI_CONNECT_TUNE_RECORDS";
/// The same where it is not set: 23 KiB, a small part of what each rank sends and gets to join.
const DEFAULT_RECORDS: u32 = 1024;
/// The file of the plug-in for RDMA devices.
pub const VERBS: &str = "MPI_CONNECT_VERBS";
/// The RDMA reads of one lane at a time.
pub const VERBS_READS: &str = "MPI_CONNECT_TUNE_VERBS_READS";
/// The command that MPI_Comm_spawn runs.
pub const COMMAND: &str = "MPI_CONNECT_COMMAND";
/// The port of the parents of a job that MPI_Comm_spawn has started.
pub const PARENT: &str = "MPI_CONNECT_PARENT";
/// The level of the log: see [`crate::log::Level`].
pub const LOG: &str = "MPI_CONNECT_LOG";
/// Whether inter-communicators within one job are carried by this library too.
pub const ADOPT: &str = "MPI_CONNECT_ADOPT";
/// The signal that has a process give up its connections, and come back.
pub const HOLD_ON: &str = "MPI_CONNECT_HOLD_ON";
/// The signals that it may name: those that are left to programs.
const SIGNALS: [&str; 2] = ["SIGUSR1", "SIGUSR2"];
/// Whether the leader prints in `MPI_Finalize` what went between its job and others.
pub const SUMMARY: &str = "MPI_CONNECT_SUMMARY";
/// Whether the types of messages are compared.
pub const CHECK: &str = "MPI_CONNECT_CHECK";
/// How images of checkpoints are written.
pub const CHECKPOINT: &str = "MPI_CONNECT_CHECKPOINT";
/// The words of [`CHECKPOINT`].
const IMAGES: [&str; 2] = ["lz4", "per-node"];
/// The folders that are open to other jobs.
pub const FILES: &str = "MPI_CONNECT_FILES";
/// Whether MPI's own ports are left to the MPI below.
pub const PORTS: &str = "MPI_CONNECT_PORTS";
/// The library that `mpi-connect run` preloads.
pub const LIB: &str = "MPI_CONNECT_LIB";

/// What `mpi-connect launch` knows the processes of its jobs by.
pub const LAUNCH: &str = "MPI_CONNECT_LAUNCH";

/// The limit in seconds while [`TIMEOUT`] is not set.
pub const DEFAULT_TIMEOUT: u64 = 600;

const LOG_WORDS: &[&str] = &["quiet", "off", "error", "info", "debug", "0", "1", "2"];

/// Every setting, in the order in which users see them.
pub const ALL: &[Setting] = &[
    Setting {
        name: NAMING,
        value: Value::Url,
        meaning: "where jobs find each other: file:DIR, a folder that both see, or tcp://HOST:PORT, servers that both reach",
        default: "file: the user's private folder",
    },
    Setting {
        name: RUN,
        value: Value::Free,
        meaning: "the run that this job belongs to: its names are apart from those of other runs",
        default: "none",
    },
    Setting {
        name: METADATA,
        value: Value::Pairs,
        meaning: "key=value, with commas between: told to whoever looks at this job's names",
        default: "nothing",
    },
    Setting {
        name: TIMEOUT,
        value: Value::Seconds,
        meaning: "seconds that joining may wait for the other job, and MPI_Finalize for who cannot be reached; data waits \
                  have no limit",
        default: "600",
    },
    Setting {
        name: IFACE,
        value: Value::Free,
        meaning: "where to listen: interfaces, addresses or prefixes (10.1.0.0/16), with commas between; loopback; all; \
                  default; !NAME: not there",
        default: "default: loopback, and what leads to other hosts",
    },
    Setting {
        name: KEY,
        value: Value::File,
        meaning: "the key, as file:PATH: jobs and naming servers that have the same key trust each other; made on first use",
        default: "file: .config/mpi-connect/key in the home directory",
    },
    Setting {
        name: ENCRYPT,
        value: Value::Word(&["always", "network", "never"]),
        meaning: "when TCP connections are encrypted: always, network (between hosts), never; both sides prove the key in any case",
        default: "network",
    },
    Setting {
        name: PORTRANGE,
        value: Value::Range,
        meaning: "ports to listen on: FIRST-LAST, one for each process on a host",
        default: "any free port",
    },
    Setting {
        name: RELAY,
        value: Value::Free,
        meaning: "relays that lead to jobs which cannot be reached otherwise: HOST:PORT of `mpi-connect relay`, several with \
                  commas between",
        default: "none",
    },
    Setting {
        name: ROUTE,
        value: Value::Word(&["node"]),
        meaning: "node: the processes of a host share one router, which has one connection to that of each other host",
        default: "each process has its own connections",
    },
    Setting {
        name: LANES,
        value: Value::Words(&["shm", "verbs", "router", "tcp", "relay"]),
        meaning: "what may carry messages, with commas between: shm (memory shared on one host), verbs (RDMA devices), router \
                  (see MPI_CONNECT_ROUTE), tcp, relay",
        default: "shm,verbs,router,tcp,relay",
    },
    Setting {
        name: VERBS,
        value: Value::Free,
        meaning: "the plug-in for RDMA devices, which is loaded only where there is one",
        default: "libmpi_connect_verbs.so beside the library",
    },
    Setting {
        name: VERBS_READS,
        value: Value::Number(0, 16),
        meaning: "RDMA reads of one connection at a time, as far as the devices have them; 0: large messages are written instead",
        default: "16",
    },
    Setting {
        name: FAST_AFTER,
        value: Value::Number(0, u32::MAX),
        meaning: "messages after which a process looks at another's shared memory by itself, without being told",
        default: "16",
    },
    Setting {
        name: FAST_MAX,
        value: Value::Number(0, u32::MAX),
        meaning: "how many it looks at by itself at most",
        default: "16",
    },
    Setting {
        name: TCP_SOCKETS,
        value: Value::Number(1, 16),
        meaning: "TCP connections to each process that is dialled, 1 to 16: more for links with a long way and much room",
        default: "1",
    },
    Setting {
        name: RECORDS,
        value: Value::Number(0, u32::MAX),
        meaning: "ranks of this job up to which all its contact records are told when it is joined; those of a larger one are asked for",
        default: "1024",
    },
    Setting {
        name: LOG,
        value: Value::Word(LOG_WORDS),
        meaning: "what to tell on stderr: quiet or off, error, info, debug",
        default: "errors, and who waits for long and for what",
    },
    Setting {
        name: CHECK,
        value: Value::Word(&["types"]),
        meaning: "types: the types of each message travel with it, and a receive with other types is an error; checked where \
                  both jobs have it set",
        default: "nothing is checked",
    },
    Setting {
        name: HOLD_ON,
        value: Value::Word(&SIGNALS),
        meaning: "a signal at which a process gives up its connections to other jobs (hold), and at the next one comes back",
        default: "none",
    },
    Setting {
        name: SUMMARY,
        value: Value::Word(&["0", "1"]),
        meaning: "1: in MPI_Finalize rank 0 prints what went to and from each other job over what, and how long its job waited",
        default: "0",
    },
    Setting {
        name: ADOPT,
        value: Value::Word(&["0", "1"]),
        meaning: "1: what MPI_Intercomm_create makes within one job is carried by this library too",
        default: "0",
    },
    Setting {
        name: CHECKPOINT,
        value: Value::Words(&IMAGES),
        meaning: "how images of checkpoints are written, with commas between: lz4, packed; per-node, one file for all processes of a \
                  job on one host",
        default: "one file for each process, not packed",
    },
    Setting {
        name: FILES,
        value: Value::Folders,
        meaning: "folders in which other jobs may read files (DIR:ro), or write them too (DIR:rw), with commas between",
        default: "none",
    },
    Setting {
        name: PORTS,
        value: Value::Word(&["native"]),
        meaning: "native: MPI_Open_port, MPI_Comm_accept and their kin are left to the program's MPI",
        default: "this library's",
    },
    Setting {
        name: LIB,
        value: Value::Free,
        meaning: "the libmpi_connect.so that 'mpi-connect run' preloads",
        default: "found from where mpi-connect itself lies",
    },
    Setting {
        name: COMMAND,
        value: Value::Free,
        meaning: "the mpi-connect that MPI_Comm_spawn runs, where it is asked for another MPI",
        default: "found from where the library itself lies",
    },
    Setting {
        name: PARENT,
        value: Value::Free,
        meaning: "the port of the parents, in a job of MPI_Comm_spawn; set by that alone",
        default: "none",
    },
    Setting {
        name: LAUNCH,
        value: Value::Free,
        meaning: "what 'mpi-connect launch' knows the processes of its jobs by; set by it alone",
        default: "none",
    },
];

/// A number of seconds; `None` if the text is none, or negative. More than a century counts as a century, which
/// clocks can still add.
pub fn seconds(text: &str) -> Option<Duration> {
    const CENTURY: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
    let seconds = text.trim().parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok().map(|time| time.min(CENTURY))
}

/// How long joining may wait for the other job: [`TIMEOUT`], or [`DEFAULT_TIMEOUT`]. An error is a message for the
/// user: the value is no number of seconds.
pub fn timeout() -> Result<Duration, String> {
    match std::env::var(TIMEOUT) {
        Ok(v) if !v.trim().is_empty() => seconds(&v).ok_or_else(|| format!("'{v}' is no number of seconds")),
        _ => Ok(Duration::from_secs(DEFAULT_TIMEOUT)),
    }
}

/// The most ranks of a job whose contact records are told whole: [`RECORDS`].
pub fn most_told() -> u32 {
    std::env::var(RECORDS).ok().and_then(|v| v.trim().parse().ok()).unwrap_or(DEFAULT_RECORDS)
}

/// Whether [`TIMEOUT`] has a value.
pub fn is_timeout_set() -> bool {
    std::env::var(TIMEOUT).is_ok_and(|v| !v.trim().is_empty())
}

/// Whether MPI's own ports are left to the MPI below: see [`PORTS`].
pub fn native_ports() -> bool {
    std::env::var(PORTS).is_ok_and(|v| v.trim() == "native")
}

/// Whether the types of messages are compared: see [`CHECK`].
pub fn check_types() -> bool {
    std::env::var(CHECK).is_ok_and(|v| v.trim() == "types")
}

/// Whether inter-communicators within one job are carried by this library too: see [`ADOPT`].
pub fn adopt() -> bool {
    std::env::var(ADOPT).is_ok_and(|v| v.trim() == "1")
}

/// Whether images of checkpoints are packed, and whether they are one file for each host: see [`CHECKPOINT`].
pub fn images() -> (bool, bool) {
    let set = std::env::var(CHECKPOINT).unwrap_or_default();
    let has = |word: &str| set.split(',').any(|one| one.trim() == word);
    (has(IMAGES[0]), has(IMAGES[1]))
}

/// The signal that holds this process, and ends the hold: see [`HOLD_ON`].
pub fn hold_on() -> Option<String> {
    let name = std::env::var(HOLD_ON).ok()?.trim().to_owned();
    SIGNALS.contains(&&*name).then_some(name)
}

/// Whether the leader prints a summary: see [`SUMMARY`].
pub fn summary() -> bool {
    std::env::var(SUMMARY).is_ok_and(|v| v.trim() == "1")
}

/// One folder of [`FILES`], and whether it may be written.
fn folder(text: &str) -> Option<(PathBuf, bool)> {
    // Rights twice are a slip, and one of both would be more than was meant.
    let is_path = |path: &str| !path.is_empty() && ![":ro", ":rw"].iter().any(|rights| path.ends_with(rights));
    let (path, rights) = text.trim().rsplit_once(':').filter(|(path, _)| is_path(path))?;
    match rights {
        "ro" => Some((path.into(), false)),
        "rw" => Some((path.into(), true)),
        _ => None,
    }
}

/// The folders that are open to other jobs, each with whether it may be written: see [`FILES`]. What means nothing opens nothing.
pub fn files() -> Vec<(PathBuf, bool)> {
    let set = std::env::var(FILES).unwrap_or_default();
    set.split([',', ';']).filter_map(folder).collect()
}

/// Variables of this project's own tests.
const OF_TESTS: [&str; 4] = ["MPI_CONNECT_TEST_", "MPI_CONNECT_SIM_", "MPI_CONNECT_MPIS", "MPI_CONNECT_WRITE_HEADERS"];

/// Messages about all settings of this process that are unknown or have a wrong value.
pub fn complaints() -> Vec<String> {
    let text = |v: std::ffi::OsString| v.to_string_lossy().into_owned();
    let mut all: Vec<_> = std::env::vars_os().map(|(name, value)| (text(name), text(value))).collect();
    all.sort();
    all.iter().filter_map(|(name, value)| complaint(name, value)).collect()
}

/// A message about one variable, if it is unknown or has a wrong value.
pub fn complaint(name: &str, value: &str) -> Option<String> {
    if is_unknown(name) {
        let meant = nearest(name).map(|s| format!("; {} was perhaps meant", s.name)).unwrap_or_default();
        return Some(format!("{name} means nothing{meant}"));
    }
    let setting = ALL.iter().find(|s| s.name == name)?;
    Some(format!("{name}={value} means nothing: {}", setting.value.fault(value)?))
}

impl Value {
    /// What is expected instead of this value, with a suggestion; `None` if the value is accepted.
    pub fn fault(&self, value: &str) -> Option<String> {
        let value = value.trim();
        if value.is_empty() {
            return None;
        }
        let of = |words: &[&str], word: &str| words.contains(&word);
        let meant = |words: &[&'static str], word: &str| {
            let nearest = spelling::nearest(word, words.iter().copied());
            nearest.map(|w| format!("; '{w}' was perhaps meant")).unwrap_or_default()
        };
        match *self {
            Value::Free => None,
            Value::Word(words) if of(words, value) => None,
            Value::Word([word]) => Some(format!("'{word}' is expected, or no value")),
            Value::Word(words) => Some(format!("one of {} is expected{}", words.join(", "), meant(words, value))),
            Value::Words(words) => {
                let wrong = value.split(',').map(str::trim).find(|word| !of(words, word))?;
                let expected = format!("{} are expected, one or several with commas between", words.join(", "));
                Some(format!("'{wrong}' is none of its words; {expected}{}", meant(words, wrong)))
            }
            Value::Number(from, to) => {
                let good = value.parse().is_ok_and(|n: u32| (from..=to).contains(&n));
                (!good).then(|| format!("a number from {from} to {to} is expected"))
            }
            Value::Seconds => seconds(value).is_none().then(|| "a number of seconds is expected".to_owned()),
            Value::Range => {
                let (low, high) = value.split_once('-').unwrap_or((value, value));
                let port = |text: &str| text.trim().parse::<u16>().ok().filter(|port| *port > 0);
                let good = matches!((port(low), port(high)), (Some(low), Some(high)) if low <= high);
                (!good).then(|| "two ports are expected, FIRST-LAST, the lower one first".to_owned())
            }
            Value::Url => {
                let good = ["file:", "tcp://"].iter().any(|scheme| value.starts_with(scheme));
                (!good).then(|| "file:DIR or tcp://HOST:PORT is expected".to_owned())
            }
            Value::File => {
                let good = value.strip_prefix("file:").is_some_and(|path| !path.is_empty());
                (!good).then(|| "file:PATH is expected".to_owned())
            }
            Value::Pairs => {
                let good = |pair: &str| pair.split_once('=').is_some_and(|(key, _)| !key.trim().is_empty());
                let wrong = value.split([',', ';']).map(str::trim).find(|pair| !good(pair))?;
                Some(format!("'{wrong}' is not of the form key=value"))
            }
            Value::Folders => {
                let wrong = value.split([',', ';']).map(str::trim).find(|one| folder(one).is_none())?;
                Some(format!("'{wrong}' is not of the form DIR:ro or DIR:rw"))
            }
        }
    }
}

/// Whether a variable has the prefix of settings, but is none.
pub fn is_unknown(name: &str) -> bool {
    name.starts_with(PREFIX) && ALL.iter().all(|s| s.name != name) && !OF_TESTS.iter().any(|t| name.starts_with(t))
}

/// The setting that was probably meant by a wrong name.
pub fn nearest(name: &str) -> Option<&'static Setting> {
    // The prefix, which all have in common, makes none of them likely.
    let own = |name: &'static str| &name[PREFIX.len()..];
    let short = name.strip_prefix(PREFIX).filter(|word| word.len() < 4);
    let meant = match short {
        Some(word) => spelling::nearest(word, ALL.iter().map(|s| own(s.name)))?,
        None => own(spelling::nearest(name, ALL.iter().map(|s| s.name))?),
    };
    ALL.iter().find(|s| own(s.name) == meant)
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
        assert_eq!((nearest("MPI_CONNECT_SOMETHING_ELSE"), nearest("MPI_CONNECT_FOO")), (None, None));
        assert_eq!(nearest("MPI_CONNECT_LGO").unwrap().name, LOG);
    }

    /// Every setting says what a value that means nothing should have been.
    #[test]
    fn values_are_judged() {
        for (name, bad, said) in [
            (NAMING, "files:/x", "file:DIR or tcp://HOST:PORT is expected"),
            (METADATA, "a=1,b", "'b' is not of the form key=value"),
            (TIMEOUT, "soon", "a number of seconds is expected"),
            (TIMEOUT, "-1", "a number of seconds is expected"),
            (KEY, "/a/key", "file:PATH is expected"),
            (ENCRYPT, "allways", "'always' was perhaps meant"),
            (PORTRANGE, "9-1", "FIRST-LAST, the lower one first"),
            (PORTRANGE, "0", "two ports are expected"),
            (LANES, "shmm,tcp", "'shmm' is none of its words; shm, verbs, router, tcp, relay are expected"),
            (LANES, "shmm", "'shm' was perhaps meant"),
            (LANES, "shm;tcp", "is none of its words"),
            (FAST_AFTER, "-1", "a number from 0 to 4294967295"),
            (FAST_MAX, "x", "a number from 0 to 4294967295"),
            (TCP_SOCKETS, "17", "a number from 1 to 16"),
            (LOG, "inof", "'info' was perhaps meant"),
            (ADOPT, "yes", "one of 0, 1 is expected"),
            (PORTS, "nativ", "'native' is expected"),
            (CHECK, "type", "'types' is expected"),
            (FILES, "/data:ro,/out", "'/out' is not of the form DIR:ro or DIR:rw"),
            (FILES, "/data:rx", "DIR:ro or DIR:rw"),
            (FILES, ":ro", "DIR:ro or DIR:rw"),
            (FILES, "/data:ro:rw", "DIR:ro or DIR:rw"),
        ] {
            let got = complaint(name, bad).unwrap_or_default();
            assert!(got.starts_with(&format!("{name}={bad} means nothing: ")) && got.contains(said), "{got}");
        }
        for (name, good) in [
            (NAMING, "tcp://a,b"),
            (METADATA, "a=1;b="),
            (TIMEOUT, "0.5"),
            (TIMEOUT, " "),
            (PORTRANGE, "4000-4010"),
            (PORTRANGE, "4000"),
            (KEY, "file:/a/key"),
            (ENCRYPT, "never"),
            (LANES, "tcp, shm"),
            (TCP_SOCKETS, "16"),
            (LOG, "quiet"),
            (FILES, "/a:b:ro, out:rw;in:rw"),
            (LIB, "/x"),
            ("MPI_CONNECT_TEST_SEED", "1"),
            ("MPI_CONNECT_MPIS", "/x"),
            ("PATH", "x"),
        ] {
            assert_eq!(complaint(name, good), None, "{name}={good}");
        }
        let said = complaint("MPI_CONNECT_TIMEOT", "5").unwrap();
        assert_eq!(said, "MPI_CONNECT_TIMEOT means nothing; MPI_CONNECT_TIMEOUT was perhaps meant");
    }
}
