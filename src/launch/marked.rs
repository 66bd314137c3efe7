//! The processes of a launch, known by a variable in their environment: launchers, their daemons, ranks, and what these have started,
//! however deep.
//!
//! Invariant: no process without the mark is ever sent a signal.

use base::settings::LAUNCH;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::time::{Duration, Instant};

/// The value of the variable for a job: after that of the job that this launch itself is of, if it is one's, so that those find
/// what is within too. No part has a slash.
pub fn mark(id: &str, job: &str) -> String {
    within(&std::env::var(LAUNCH).unwrap_or_default(), id, job)
}

fn within(outer: &str, id: &str, job: &str) -> String {
    if outer.is_empty() { format!("{id}/{job}") } else { format!("{outer}/{id}/{job}") }
}

/// Whether a mark is one of a job, or of the whole launch if the name is empty.
fn is_of(mark: &str, id: &str, job: &str) -> bool {
    let parts: Vec<&str> = mark.split('/').collect();
    parts.chunks_exact(2).any(|pair| pair[0] == id && (job.is_empty() || pair[1] == job))
}

/// Whether a process is one of a job, or of the whole launch if the name is empty. Of other users nothing can be read, nor of what
/// has ended and is not waited for.
pub fn has(pid: i32, id: &str, job: &str) -> bool {
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let value =
        environment.split(|byte| *byte == 0).find_map(|set| set.strip_prefix(LAUNCH.as_bytes())?.strip_prefix(b"="));
    value.and_then(|value| std::str::from_utf8(value).ok()).is_some_and(|mark| is_of(mark, id, job))
}

/// Those of a job, or of the whole launch if the name is empty.
pub fn processes(id: &str, job: &str) -> Vec<Pid> {
    let own = std::process::id() as i32;
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let numbers = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    numbers.filter(|pid| *pid != own && has(*pid, id, job)).map(Pid::from_raw).collect()
}

/// Sends them all a signal, and says how many there were.
pub fn signal(id: &str, job: &str, signal: Signal) -> usize {
    let all = processes(id, job);
    for pid in &all {
        // It may have ended by itself meanwhile.
        let _ = kill(*pid, signal);
    }
    all.len()
}

/// Kills them until none is left, for a while at most.
pub fn kill_all(id: &str, job: &str) {
    let until = Instant::now() + Duration::from_secs(5);
    while signal(id, job, Signal::SIGKILL) > 0 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// When a process began, in the kernel's ticks: with its number it tells the process from a later one.
pub fn began(pid: Pid) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may have anything in it.
    stat.rsplit_once(") ")?.1.split(' ').nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn only_marked_ones_are_found_and_killed() {
        let id = format!("{:016x}", u64::from_le_bytes(base::ident::random()));
        let start = |mark: &str| Command::new("sleep").arg("60").env(LAUNCH, mark).spawn().unwrap();
        let inner = within(&within("", &id, "ocean"), "another", "air");
        let mut all = [within("", &id, "air"), within("", &id, "air2"), inner].map(|mark| start(&mark));
        let pids = |job: &str| {
            let mut found: Vec<_> = processes(&id, job).into_iter().map(Pid::as_raw).collect();
            found.sort();
            found
        };
        // The mark is there once the program is.
        let until = Instant::now() + Duration::from_secs(10);
        while pids("").len() < 3 && Instant::now() < until {
            std::thread::yield_now();
        }
        assert_eq!(pids("air"), [all[0].id() as i32]);
        assert!(began(Pid::from_raw(all[0].id() as i32)).is_some());
        kill_all(&id, "air");
        assert!(!all[0].wait().unwrap().success());
        assert_eq!(pids("").len(), 2);
        kill_all(&id, "");
        all[1..].iter_mut().for_each(|child| assert!(!child.wait().unwrap().success()));
    }
}
