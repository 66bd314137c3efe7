//! Processes that are known by a variable in their environment, so that no other process can be meant: what was started with
//! it, however deep.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How long killed processes may take to be gone.
const LIMIT: Duration = Duration::from_secs(10);

/// All processes with this variable: launchers, their daemons, ranks.
pub struct Marked {
    /// The variable.
    pub variable: &'static str,
    /// Its value, which no others have.
    pub value: String,
    /// What killed processes cannot remove themselves. It is removed with this.
    leavings: RefCell<BTreeSet<PathBuf>>,
}

impl Marked {
    pub fn new(variable: &'static str, value: impl Into<String>) -> Marked {
        Marked { variable, value: value.into(), leavings: RefCell::default() }
    }

    /// Those that have `word` in their command line; all if it is empty.
    pub fn processes(&self, word: &str) -> Vec<i32> {
        let mark = format!("{}={}\0", self.variable, self.value);
        let entries = std::fs::read_dir("/proc").expect("/proc");
        entries
            .filter_map(|e| e.ok()?.file_name().to_str()?.parse::<i32>().ok())
            .filter(|pid| {
                let read = |what| std::fs::read(format!("/proc/{pid}/{what}")).unwrap_or_default();
                let has = |text: Vec<u8>, part: &[u8]| text.windows(part.len().max(1)).any(|w| w == part);
                // A zombie has neither environment nor command line.
                has(read("environ"), mark.as_bytes()) && (word.is_empty() || has(read("cmdline"), word.as_bytes()))
            })
            .collect()
    }

    /// Kills those that have `word` in their command line, and waits until they are gone. False: some do not die.
    pub fn kill(&self, word: &str) -> bool {
        // All of them: a launcher kills the others of a job in which one was killed.
        self.leavings.borrow_mut().extend(self.processes("").into_iter().flat_map(leavings));
        wait_until(LIMIT, || {
            let found = self.processes(word);
            for pid in &found {
                // It may have ended by itself meanwhile.
                let _ = kill(Pid::from_raw(*pid), Signal::SIGKILL);
            }
            found.is_empty()
        })
    }
}

impl Drop for Marked {
    fn drop(&mut self) {
        for path in self.leavings.take() {
            // Most have been removed by those who shared them.
            let _ = std::fs::remove_file(&path).or_else(|_| std::fs::remove_dir_all(&path));
        }
    }
}

/// What a process has outside its folders that nobody removes when it is killed: shared memory of the MPIs, and the session
/// of LAM's daemon.
fn leavings(pid: i32) -> Vec<PathBuf> {
    let read = |what| std::fs::read(format!("/proc/{pid}/{what}")).unwrap_or_default();
    let (maps, environment) = (read("maps"), read("environ"));
    let mapped = maps.split(|b| *b == b'\n').filter_map(|line| {
        let at = line.windows(9).position(|w| w == b"/dev/shm/")?;
        Some(OsStr::from_bytes(&line[at..]).into())
    });
    let session = environment.split(|b| *b == 0).filter_map(|line| line.strip_prefix(b"LAM_MPI_SESSION_PREFIX="));
    // As `lam-session` makes them, and no other folder.
    let session = session.filter(|path| path.starts_with(b"/tmp/lam."));
    mapped.chain(session.map(|path| OsStr::from_bytes(path).into())).collect()
}

/// Asks until there is an answer. Panics if there is none within the limit.
pub fn await_some<T>(limit: Duration, what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + limit;
    loop {
        if let Some(found) = ask() {
            return found;
        }
        assert!(Instant::now() < end, "waited {limit:?} in vain for {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Whether `condition` came true within the limit.
pub fn wait_until(limit: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + limit;
    loop {
        if condition() {
            return true;
        }
        if Instant::now() > end {
            return false;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}
