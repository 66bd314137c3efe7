//! What the figures were measured on, and whether it was quiet.

use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use std::fmt;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, spawn};

pub struct Machine {
    pub processor: String,
    pub cores: usize,
    pub kernel: String,
    pub date: String,
    /// Processes that wanted to run in the minute before.
    pub load: f64,
    /// See [`Busy`].
    pub busy: bool,
}

/// A thread that does nothing but compute, on the core of the second rank.
pub struct Busy {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Busy {
    const CORE: usize = 1;

    pub fn begin() -> Result<Busy, String> {
        let over = Arc::new(AtomicBool::new(false));
        let (told, mut cores) = (over.clone(), CpuSet::new());
        cores.set(Self::CORE).map_err(|e| format!("core {}: {e}", Self::CORE))?;
        let thread = spawn(move || {
            // Where there is no such core, it computes on any.
            let _ = sched_setaffinity(Pid::from_raw(0), &cores);
            while !told.load(Ordering::Relaxed) {}
        });
        Ok(Busy { over, thread: Some(thread) })
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn said(program: &str, words: &[&str]) -> String {
    let done = Command::new(program).args(words).output();
    done.map_or_else(|_| "?".into(), |d| String::from_utf8_lossy(&d.stdout).trim().to_owned())
}

impl Machine {
    pub fn look(busy: bool) -> Machine {
        let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = info.lines().find_map(|l| l.strip_prefix("model name")?.split_once(": "));
        let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
        Machine {
            processor: model.map_or("?".into(), |(_, name)| name.to_owned()),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            kernel: said("uname", &["-sr"]),
            date: said("date", &["+%Y-%m-%d"]),
            load: load.split_whitespace().next().and_then(|l| l.parse().ok()).unwrap_or(f64::NAN),
            busy,
        }
    }

    pub fn is_quiet(&self) -> bool {
        self.load < 0.5
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {} cores, {}, {}", self.processor, self.cores, self.kernel, self.date)?;
        if self.busy {
            write!(f, "; a program computes on core {} all the time", Busy::CORE)?;
        }
        if self.is_quiet() {
            return Ok(());
        }
        write!(f, "; NOT QUIET: load {} at the start", self.load)
    }
}
