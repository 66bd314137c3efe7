//! What the figures were measured on, and whether it was quiet.

use std::fmt;
use std::process::Command;

pub struct Machine {
    pub processor: String,
    pub cores: usize,
    pub kernel: String,
    pub date: String,
    /// Processes that wanted to run in the minute before.
    pub load: f64,
}

fn said(program: &str, words: &[&str]) -> String {
    let done = Command::new(program).args(words).output();
    done.map_or_else(|_| "?".into(), |d| String::from_utf8_lossy(&d.stdout).trim().to_owned())
}

impl Machine {
    pub fn look() -> Machine {
        let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = info.lines().find_map(|l| l.strip_prefix("model name")?.split_once(": "));
        let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
        Machine {
            processor: model.map_or("?".into(), |(_, name)| name.to_owned()),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            kernel: said("uname", &["-sr"]),
            date: said("date", &["+%Y-%m-%d"]),
            load: load.split_whitespace().next().and_then(|l| l.parse().ok()).unwrap_or(f64::NAN),
        }
    }

    pub fn is_quiet(&self) -> bool {
        self.load < 0.5
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {} cores, {}, {}", self.processor, self.cores, self.kernel, self.date)?;
        if self.is_quiet() {
            return Ok(());
        }
        write!(f, "; NOT QUIET: load {} at the start", self.load)
    }
}
