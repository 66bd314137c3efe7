//! Lines of the log about images that take long to be written.

use base::log::Patience;
use std::fmt::Write;
use std::time::Instant;

/// An image that is being written.
pub(crate) struct Progress {
    what: String,
    /// About how many bytes it will have.
    about: u64,
    written: u64,
    begun: Instant,
    patience: Patience,
    is_told: bool,
}

impl Progress {
    pub(crate) fn new(what: String, about: u64, now: Instant) -> Progress {
        Progress { what, about, written: 0, begun: now, patience: Patience::new(now), is_told: false }
    }

    /// So many bytes more were written; then what is to be told now.
    pub(crate) fn written(&mut self, bytes: usize, now: Instant) -> Option<String> {
        self.written += bytes as u64;
        let seconds = self.patience.is_over(now)?;
        self.is_told = true;
        let part = if self.about > self.written { format!(" of {}", size(self.about)) } else { String::new() };
        Some(format!("{}: {}{part} written in {seconds} s", self.what, size(self.written)))
    }

    /// All is on the disk; then what is to be told, if it took long.
    pub(crate) fn done(&mut self, now: Instant) -> Option<String> {
        (self.is_told || self.patience.is_over(now).is_some()).then(|| {
            let seconds = now.duration_since(self.begun).as_secs_f64();
            let rate = size((self.written as f64 / seconds.max(1e-3)) as u64);
            format!("{}: {} are on the disk after {seconds:.0} s, {rate} in a second", self.what, size(self.written))
        })
    }
}

/// `17 bytes`, `3.2 GB`.
fn size(bytes: u64) -> String {
    let mut text = String::new();
    let (mut value, mut units) = (bytes as f64, ["kB", "MB", "GB", "TB"].iter());
    let mut unit = "bytes";
    while value >= 1000.0 {
        let Some(next) = units.next() else { break };
        (value, unit) = (value / 1000.0, next);
    }
    let _ = if unit == "bytes" { write!(text, "{bytes} {unit}") } else { write!(text, "{value:.1} {unit}") };
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn what_takes_long_is_told_at_times() {
        let begun = Instant::now();
        let at = |s| begun + Duration::from_secs(s);
        let mut short = Progress::new("an image".into(), 2_000_000, begun);
        assert_eq!((short.written(2_000_000, at(4)), short.done(at(4))), (None, None));
        let mut long = Progress::new("checkpoint 7 of 'air', rank 3".into(), 4_000_000_000, begun);
        assert_eq!(long.written(999, at(1)), None);
        let said = "checkpoint 7 of 'air', rank 3: 1.5 GB of 4.0 GB written in 5 s";
        assert_eq!(long.written(1_500_000_000, at(5)).as_deref(), Some(said));
        assert_eq!(long.written(2_000_000_000, at(30)), None);
        let said = "checkpoint 7 of 'air', rank 3: 4.5 GB written in 65 s";
        assert_eq!(long.written(1_000_000_000, at(65)).as_deref(), Some(said));
        let said = "checkpoint 7 of 'air', rank 3: 4.5 GB are on the disk after 90 s, 50.0 MB in a second";
        assert_eq!(long.done(at(90)).as_deref(), Some(said));
        // Little was written, and the disk took long with it.
        let mut slow = Progress::new("an image".into(), 0, begun);
        assert_eq!(slow.written(17, at(0)), None);
        assert_eq!(
            slow.done(at(10)).as_deref(),
            Some("an image: 17 bytes are on the disk after 10 s, 1 bytes in a second")
        );
    }
}
