//! The identity of processes: an incarnation and a rank, never an address and never a handle of the MPI below.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Mutex, OnceLock, PoisonError};

/// A process as other processes know it: the incarnation of its group, and its rank in that group.
///
/// An incarnation is a random 64-bit number, drawn when a job registers its name. So nothing that a killed job left
/// behind (a name, a frame on the wire) can be mistaken for the job that follows it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ProcId {
    /// The group that the process is registered with. Random, and never used for another group.
    pub incarnation: u64,
    /// The rank of the process in that group, from 0.
    pub rank: u32,
}

impl fmt::Debug for ProcId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}#{}", self.incarnation, self.rank)
    }
}

/// For messages: the rank and the name of its job, if [`name_job`] or [`name_port`] has given one.
impl fmt::Display for ProcId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
        match names.called.get(&self.incarnation) {
            Some(Called::Job(name)) => write!(f, "rank {} of '{name}'", self.rank),
            Some(Called::Port(port)) => write!(f, "port {port}"),
            None => write!(f, "rank {} of a job not known by name", self.rank),
        }
    }
}

enum Called {
    Job(String),
    Port(String),
}

/// The names of groups, by incarnation.
struct Names {
    called: BTreeMap<u64, Called>,
    /// The incarnations, the one that was first named longest ago first.
    order: VecDeque<u64>,
}

/// The names of the groups that this process has met.
static NAMES: Mutex<Names> = Mutex::new(Names { called: BTreeMap::new(), order: VecDeque::new() });

/// The names that are kept. Beyond that, the oldest is forgotten.
const MOST_NAMES: usize = 1024;

/// Gives the group of this incarnation the name of its job, for messages. A later name replaces an earlier one.
pub fn name_job(incarnation: u64, name: &str) {
    call(incarnation, Called::Job(name.to_owned()));
}

/// Calls this incarnation a port with this sign, for messages: the short text by which users know the port.
pub fn name_port(incarnation: u64, sign: &str) {
    call(incarnation, Called::Port(sign.to_owned()));
}

/// The name that [`name_job`] has given the group of this incarnation, if it is remembered.
pub fn name_of_job(incarnation: u64) -> Option<String> {
    let names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    match names.called.get(&incarnation) {
        Some(Called::Job(name)) => Some(name.clone()),
        _ => None,
    }
}

fn call(incarnation: u64, called: Called) {
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    if names.called.insert(incarnation, called).is_some() {
        return;
    }
    names.order.push_back(incarnation);
    if names.order.len() > MOST_NAMES
        && let Some(oldest) = names.order.pop_front()
    {
        names.called.remove(&oldest);
    }
}

/// The host's name, for messages; `unknown` if the kernel does not tell it. Control characters are replaced by `?`,
/// since no record may have them.
pub fn host() -> &'static str {
    static HOST: OnceLock<String> = OnceLock::new();
    HOST.get_or_init(|| {
        let read = std::fs::read_to_string("/proc/sys/kernel/hostname");
        read.map_or_else(|_| "unknown".into(), |name| name.trim().replace(char::is_control, "?"))
    })
}

/// `N` bytes from the kernel's random source. It needs no file descriptor.
///
/// # Panics
/// If the kernel has no such call. An interrupted call is repeated.
pub fn random<const N: usize>() -> [u8; N] {
    let mut out = [0; N];
    let mut have = 0;
    while have < N {
        let rest = &mut out[have..];
        // SAFETY: the kernel writes at most as many bytes as the rest has.
        let n = unsafe { libc::getrandom(rest.as_mut_ptr().cast(), rest.len(), 0) };
        match usize::try_from(n) {
            Ok(n) => have += n,
            Err(_) => {
                let e = std::io::Error::last_os_error();
                assert!(e.kind() == std::io::ErrorKind::Interrupted, "mpi_connect: no random numbers: {e}");
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_for_incarnations() {
        let id = |incarnation| ProcId { incarnation, rank: 3 };
        assert_eq!(id(1).to_string(), "rank 3 of a job not known by name");
        name_job(1, "air");
        name_port(2, "Ab12Cd");
        assert_eq!((id(1).to_string(), id(2).to_string()), ("rank 3 of 'air'".into(), "port Ab12Cd".into()));
        for i in 0..MOST_NAMES as u64 {
            name_job(100 + i, "ice");
        }
        assert_eq!(id(1).to_string(), "rank 3 of a job not known by name");
        assert_eq!(id(100).to_string(), "rank 3 of 'ice'");
    }

    #[test]
    fn all_bytes_are_drawn() {
        let (a, b): ([u8; 700], [u8; 700]) = (random(), random());
        assert!(a.chunks(20).zip(b.chunks(20)).all(|(a, b)| a != b));
    }
}
