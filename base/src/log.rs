//! `MPI_CONNECT_LOG`: what the library says on stderr. A line begins with `[air 0@host]`: the name that this job has
//! registered, the rank in it, and the host.
//!
//! Invariant: by default only notices (a wait that takes long, and what it waits for) and errors are written. Each is
//! one write of whole lines, so that the lines of several ranks do not mix.

use crate::ident::host;
use std::borrow::Cow;
use std::fmt::Arguments;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How much is said. Each level includes the ones before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Level {
    /// `off`, `quiet`: only the text of an error that ends the job.
    Off,
    /// `error`: also errors that do not end the job.
    Error,
    /// The default: also waits that take long, with what they wait for.
    Notice,
    /// `info`: also every choice, such as the transport of a connection.
    Info,
    /// `debug`: also every step.
    Debug,
}

/// The level that the environment asks for, read once per process.
pub fn level() -> Level {
    static LEVEL: OnceLock<Level> = OnceLock::new();
    *LEVEL.get_or_init(|| level_of(std::env::var(crate::settings::LOG).unwrap_or_default().trim()))
}

fn level_of(value: &str) -> Level {
    match value {
        "off" | "quiet" | "0" => Level::Off,
        "error" => Level::Error,
        "info" | "1" => Level::Info,
        "debug" | "2" => Level::Debug,
        _ => Level::Notice,
    }
}

/// The name and the rank that lines begin with, once this process has registered.
static REGISTERED: Mutex<Option<(String, u32)>> = Mutex::new(None);

/// Gives the lines of this process the job name and the rank that it has registered.
pub fn registered(name: &str, rank: u32) {
    *REGISTERED.lock().unwrap_or_else(PoisonError::into_inner) = Some((name.to_owned(), rank));
}

/// The sender of a line: `air 0@host`. Before a registration, the launcher's rank stands in place of the name, or
/// else the process id.
pub fn who() -> String {
    match &*REGISTERED.lock().unwrap_or_else(PoisonError::into_inner) {
        Some((name, rank)) => format!("{name} {rank}@{}", host()),
        None => match launched_rank() {
            Some(rank) => format!("mpi_connect {rank}@{}", host()),
            None => format!("mpi_connect process {}@{}", std::process::id(), host()),
        },
    }
}

/// The rank of this process in its job, as the launcher tells it in the environment.
pub fn launched_rank() -> Option<u32> {
    let told = ["OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "LAMRANK"];
    told.iter().find_map(|v| std::env::var(v).ok()?.parse().ok())
}

/// The text with `[name rank@host] ` in front of each line, and a line end behind each.
pub(crate) fn lines(text: &str) -> String {
    let who = who();
    text.lines().fold(String::new(), |all, line| all + &format!("[{who}] {line}\n"))
}

/// Writes a text to stderr at every level: the text of an error that ends the job.
pub fn say(text: &str) {
    use std::io::Write;
    // A closed stderr is no reason to stop a job.
    let _ = std::io::stderr().write_all(lines(text).as_bytes());
}

/// Writes one line to stderr at this level. The macro [`crate::log!`] calls it after it has compared the levels.
pub fn write(level: Level, args: Arguments<'_>) {
    let text: Cow<'_, str> = args.as_str().map_or_else(|| args.to_string().into(), Cow::Borrowed);
    match word(level) {
        "" => say(&text),
        word => say(&format!("{} {word}: {text}", time(SystemTime::now()))),
    }
}

/// The level as a line shows it. Notices show neither level nor time.
fn word(level: Level) -> &'static str {
    match level {
        Level::Off | Level::Notice => "",
        Level::Error => "error",
        Level::Info => "info",
        Level::Debug => "debug",
    }
}

/// The time of day, the same on all hosts: UTC.
fn time(now: SystemTime) -> String {
    let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (s, ms) = (since.as_secs() % 86400, since.subsec_millis());
    format!("{:02}:{:02}:{:02}.{ms:03}Z", s / 3600, s / 60 % 60, s % 60)
}

/// `log!(Info, "…")` writes a line if the level is at least `Info`. Its arguments are evaluated only then.
#[macro_export]
macro_rules! log {
    ($level:ident, $($arg:tt)*) => {
        if $crate::log::level() >= $crate::log::Level::$level {
            $crate::log::write($crate::log::Level::$level, format_args!($($arg)*));
        }
    };
}

/// Limits a line that other processes can cause again and again: it is written at once, then at most once a minute,
/// with a count.
pub struct Seldom(Mutex<Option<(Instant, u64)>>);

const MINUTE: Duration = Duration::from_secs(60);

impl Seldom {
    /// Nothing has happened yet.
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Seldom {
        Seldom(Mutex::new(None))
    }

    /// Counts one more occurrence. `Some` if it is to be written now: 1 the first time, later how many there were
    /// since the last line.
    pub fn again(&self, now: Instant) -> Option<u64> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((told, untold)) = &mut *state else {
            *state = Some((now, 0));
            return Some(1);
        };
        *untold += 1;
        let is_due = now.duration_since(*told) >= MINUTE;
        is_due.then(|| state.replace((now, 0)).map_or(1, |(_, untold)| untold))
    }
}

/// `log_seldom!(Info, "…")` writes the line at once, then at most once a minute, with a count. Each place in the
/// source counts for itself.
#[macro_export]
macro_rules! log_seldom {
    ($level:ident, $($arg:tt)*) => {
        if $crate::log::level() >= $crate::log::Level::$level {
            static SELDOM: $crate::log::Seldom = $crate::log::Seldom::new();
            match SELDOM.again(std::time::Instant::now()) {
                Some(1) => $crate::log::write($crate::log::Level::$level, format_args!($($arg)*)),
                Some(n) => {
                    let text = format!($($arg)*);
                    $crate::log::write($crate::log::Level::$level, format_args!("{text} ({n} times since it was told last)"));
                }
                None => (),
            }
        }
    };
}

/// The items with commas between them, or `none` if there are no items.
pub fn list<T: std::fmt::Display>(all: impl IntoIterator<Item = T>, none: &str) -> String {
    let all: Vec<_> = all.into_iter().map(|one| one.to_string()).collect();
    if all.is_empty() { none.to_owned() } else { all.join(", ") }
}

/// Tells a waiting call when to write a notice: after 5 s, then every minute.
pub struct Patience {
    since: Instant,
    next: Instant,
}

/// How long a wait takes before its first notice.
pub(crate) const FIRST: Duration = Duration::from_secs(5);

impl Patience {
    /// A wait that begins now.
    pub fn new(now: Instant) -> Patience {
        Patience { since: now, next: now + FIRST }
    }

    /// Whether a notice is due now. `Some` has the seconds that the wait has taken so far.
    pub fn is_over(&mut self, now: Instant) -> Option<u64> {
        if now < self.next {
            return None;
        }
        self.next = now + MINUTE;
        Some(now.duration_since(self.since).as_secs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_and_their_order() {
        let words = ["off", "quiet", "error", "", "anything", "info", "1", "debug", "2"];
        let levels = words.map(level_of);
        assert!(levels.is_sorted());
        assert_eq!((level_of(""), level_of("quiet")), (Level::Notice, Level::Off));
        assert!(Level::Error < Level::Notice && Level::Notice < Level::Info);
    }

    /// The two states follow each other here, since they are the process's.
    #[test]
    fn lines_begin_with_who_says_it() {
        let before = lines("one\ntwo");
        assert_eq!(before.lines().count(), 2);
        assert!(before.lines().all(|l| l.starts_with("[mpi_connect ") && l.contains(&format!("@{}] ", host()))));
        registered("air", 3);
        assert_eq!(lines("it"), format!("[air 3@{}] it\n", host()));
        assert!(time(UNIX_EPOCH + Duration::from_millis(86_400_000 + 3_723_004)) == "01:02:03.004Z");
    }

    #[test]
    fn what_repeats_is_told_at_first_and_then_by_the_minute() {
        let seldom = Seldom::new();
        let start = Instant::now();
        let at = |s| seldom.again(start + Duration::from_secs(s));
        assert_eq!(
            [at(0), at(0), at(1), at(59), at(60), at(61), at(300)],
            [Some(1), None, None, None, Some(4), None, Some(2)]
        );
    }

    #[test]
    fn waiting_is_told_of_after_five_seconds_and_each_minute() {
        let start = Instant::now();
        let mut patience = Patience::new(start);
        let mut at = |s| patience.is_over(start + Duration::from_secs(s));
        assert_eq!(
            [at(0), at(4), at(5), at(6), at(64), at(65), at(124), at(126)],
            [None, None, Some(5), None, None, Some(65), None, Some(126)]
        );
    }
}
