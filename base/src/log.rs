//! `MPI_CONNECT_LOG`: nothing is printed unless it is set; `info` explains every choice, `debug` every step.

use std::sync::OnceLock;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Level {
    Off,
    Error,
    Info,
    Debug,
}

/// The level asked for, read once.
pub fn level() -> Level {
    static LEVEL: OnceLock<Level> = OnceLock::new();
    *LEVEL.get_or_init(|| match std::env::var("MPI_CONNECT_LOG").as_deref() {
        Ok("error") => Level::Error,
        Ok("info" | "1") => Level::Info,
        Ok("debug" | "2") => Level::Debug,
        _ => Level::Off,
    })
}

/// Writes one line to stderr. Called through [`crate::log!`], which looks at the level first.
pub fn write(level: Level, args: std::fmt::Arguments<'_>) {
    use std::io::Write;
    let line = format!("[mpi_connect {} {level:?}] {args}\n", std::process::id());
    // A log that cannot be written is no reason to stop a job.
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// `log!(Info, "…")`
#[macro_export]
macro_rules! log {
    ($level:ident, $($arg:tt)*) => {
        if $crate::log::level() >= $crate::log::Level::$level {
            $crate::log::write($crate::log::Level::$level, format_args!($($arg)*));
        }
    };
}
