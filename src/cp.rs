//! `mpi-connect cp`: fetches a file from the folders that a running job has opened to others, or puts one there.
//!
//! The leader of the job serves it. A thread moves the file; the main one shows how far it is, and ends it at a signal.
//! Invariant: no half of a file has its name on either side, and none is left behind.

use crate::ctl::{Client as Found, CtlError, Job};
use crate::key::KeyOption;
use crate::signals::{self, Over};
use base::protocol::files::MAX_PATH;
use files::{Client, Error, Part, Share, Side, Source, Token, Way};
use nix::sys::signal::Signal;
use std::fmt;
use std::io::{IsTerminal, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use std::{ffi::OsString, io};
use transports::registry::host;
use trust::Trust;
use wire::Contact;
use wire::control::Addressee;

/// How often it is shown how far it is.
const EVERY: Duration = Duration::from_millis(200);
/// How long nothing may move.
const LIMIT: f64 = 60.0;
/// The width of the bar.
const WIDTH: usize = 24;

#[derive(clap::Args)]
#[command(override_usage = "mpi-connect cp [OPTIONS] NAME:PATH LOCAL\n       mpi-connect cp [OPTIONS] LOCAL NAME:PATH")]
pub struct Args {
    /// What is copied: NAME:PATH, a file of the job of this name ([NAME]:PATH if it has a colon), or a file here
    from: OsString,
    /// Where it goes: a file or a folder here, or NAME:PATH
    to: OsString,
    /// Show how far it is, also where stderr is no terminal
    #[arg(long)]
    progress: bool,
    /// Where the job's name is, instead of MPI_CONNECT_NAMING or the user's private folder
    #[arg(long, value_name = "URL")]
    naming: Option<String>,
    #[command(flatten)]
    key: KeyOption,
    /// The run of the job, instead of MPI_CONNECT_RUN
    #[arg(long, value_name = "NAME")]
    run: Option<String>,
    /// How long nothing may move before it is given up
    #[arg(long, value_name = "SECONDS", default_value_t = LIMIT, value_parser = crate::ctl::seconds)]
    timeout: f64,
}

/// Why a file is not copied.
#[derive(Debug)]
pub enum CpError {
    /// Not one of the two is of a job.
    Usage(&'static str),
    Job(CtlError),
    File(String, Error),
    Interrupted(Signal),
    System(io::Error),
}

impl CpError {
    pub fn exit_code(&self) -> u8 {
        match self {
            CpError::Usage(_) => 2,
            CpError::Job(e) => e.exit_code(),
            CpError::Interrupted(signal) => signals::status(*signal),
            _ => 1,
        }
    }
}

impl fmt::Display for CpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CpError::Usage(why) => f.write_str(why),
            CpError::Job(e) => e.fmt(f),
            CpError::File(job, e) if e.side == Side::There => write!(f, "job '{job}': {e}"),
            CpError::File(_, e) => e.fmt(f),
            CpError::Interrupted(signal) => write!(f, "ended by {signal}; nothing of the file is left"),
            CpError::System(e) => e.fmt(f),
        }
    }
}

/// What is to be done, and with which job.
#[derive(Debug, PartialEq)]
enum What {
    Get { path: Vec<u8>, local: PathBuf },
    Put { local: PathBuf, path: Vec<u8> },
}

/// The job and the path of an argument that names both; `None`: it is a file here, as one that begins with `./` always is.
/// In brackets a name may have colons and slashes.
fn of_job(text: &OsString) -> Option<(String, Vec<u8>)> {
    let bytes = text.as_bytes();
    let bracketed = bytes.strip_prefix(b"[").and_then(|rest| parted(rest, b"]:"));
    let (name, path) = bracketed.or_else(|| parted(bytes, b":").filter(|(name, _)| !name.contains(&b'/')))?;
    let name = std::str::from_utf8(name).ok().filter(|name| !name.is_empty())?;
    Some((name.to_owned(), path.to_vec()))
}

/// What is before the first such mark, and what is behind it.
fn parted<'a>(bytes: &'a [u8], mark: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    let at = bytes.windows(mark.len()).position(|piece| piece == mark)?;
    Some((&bytes[..at], &bytes[at + mark.len()..]))
}

fn what(from: &OsString, to: &OsString) -> Result<(String, What), CpError> {
    match (of_job(from), of_job(to)) {
        (Some((job, path)), None) if !path.is_empty() => Ok((job, What::Get { path, local: to.into() })),
        (None, Some((job, path))) => {
            let local = PathBuf::from(from);
            // Into a folder there, a file keeps its name.
            let name = local.file_name().unwrap_or_default().as_bytes();
            let path = if path.is_empty() || path.ends_with(b"/") { [&path[..], name].concat() } else { path };
            Ok((job, What::Put { local, path }))
        }
        (Some(_), Some(_)) => Err(CpError::Usage("one of the two has to be a file here: ./NAME:PATH is one")),
        _ => Err(CpError::Usage("one of the two has to be a file of a job: NAME:PATH")),
    }
}

/// The leader of a job.
#[derive(Clone)]
struct Leader {
    name: String,
    contact: Contact,
    trust: Arc<Trust>,
    over: Over,
}

impl Way for Leader {
    fn job(&self) -> &str {
        &self.name
    }
    fn contact(&self) -> Option<Contact> {
        Some(self.contact.clone())
    }
    fn addressee(&self) -> Addressee {
        Addressee::Named(self.name.clone())
    }
    fn trust(&self) -> Arc<Trust> {
        self.trust.clone()
    }
    fn host(&self) -> [u8; 16] {
        host()
    }
    fn is_over(&self) -> bool {
        self.over.get().is_some()
    }
}

pub fn cp(args: &Args) -> Result<(), CpError> {
    let (name, what) = what(&args.from, &args.to)?;
    let (What::Get { path, .. } | What::Put { path, .. }) = &what;
    if path.len() > MAX_PATH {
        return Err(CpError::Usage("the path is longer than 4096 bytes"));
    }
    let job = Job::named(&name, args.naming.clone(), args.key.clone(), args.run.clone()).map_err(CpError::Job)?;
    let found = Found::new(&job).map_err(CpError::Job)?;
    // So that nothing of the file is left.
    let over = signals::tell().map_err(CpError::System)?;
    let leader = Leader {
        name: name.clone(),
        contact: found.contact().clone(),
        trust: found.trust().clone(),
        over: over.clone(),
    };
    let (moved, size) = (AtomicU64::new(0), AtomicU64::new(0));
    let limit = Duration::from_secs_f64(args.timeout);
    let shows = args.progress || io::stderr().is_terminal();
    let begun = Instant::now();
    let done = std::thread::scope(|scope| {
        let mover = scope.spawn(|| {
            let client = Client::new(&leader, limit, &moved);
            match &what {
                What::Get { path, local } => get(&client, path, local, &size),
                What::Put { local, path } => put(&client, &leader, local, path, &size),
            }
        });
        let mut next = Instant::now() + EVERY;
        while !mover.is_finished() {
            std::thread::park_timeout(Duration::from_millis(10));
            if shows && Instant::now() >= next {
                show(&args.from, moved.load(Ordering::Relaxed), size.load(Ordering::Relaxed), begun, "");
                next += EVERY;
            }
        }
        mover.join()
    });
    let done = done.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    if shows {
        show(&args.from, moved.load(Ordering::Relaxed), size.load(Ordering::Relaxed), begun, "\n");
    }
    match done {
        Ok(()) => Ok(()),
        Err(e) => Err(over.get().map_or_else(|| CpError::File(name, e), |signal| CpError::Interrupted(*signal))),
    }
}

fn get(client: &Client<'_>, path: &[u8], local: &Path, size: &AtomicU64) -> Result<(), Error> {
    let about = files::look(client, path)?;
    size.store(about.size, Ordering::Relaxed);
    let local = files::target(local, path)?;
    let token: Token = base::ident::random();
    let part = Arc::new(Part::beside(&local, &token, about.size, about.mode, true)?);
    let fetched = files::get(client, path, &about, Share::ALL, &part).map_err(|(_, e)| e);
    let finish = || part.finish().map_err(|e| Error::of(&e, format!("'{}'", local.display())));
    fetched.and_then(|()| client.go_on()).and_then(|()| finish()).inspect_err(|_| part.remove())
}

fn put(client: &Client<'_>, leader: &Leader, local: &Path, path: &[u8], size: &AtomicU64) -> Result<(), Error> {
    let source = Source::open(local)?;
    size.store(source.about().size, Ordering::Relaxed);
    let token: Token = base::ident::random();
    files::begin(client, path, &token, source.about())?;
    let put = files::put(client, path, &token, &source, Share::ALL)
        .and_then(|()| files::finish(client, path, &token, &source));
    put.inspect_err(|_| {
        // Also after a signal: it is a moment, and the other side would keep it for a while.
        let last = Leader { over: Arc::default(), ..leader.clone() };
        let moved = AtomicU64::new(0);
        let _ = files::abandon(&Client::new(&last, Duration::from_secs(2), &moved), path, &token);
    })
}

/// One line that says how far it is.
fn line(name: &OsString, moved: u64, size: u64, elapsed: Duration) -> String {
    let share = if size == 0 { 1.0 } else { moved.min(size) as f64 / size as f64 };
    let full = (share * WIDTH as f64) as usize;
    let speed = moved as f64 / elapsed.as_secs_f64().max(1e-3);
    let left = match speed {
        speed if speed > 0.0 && moved < size => {
            let seconds = ((size - moved) as f64 / speed) as u64;
            format!("{}:{:02} left", seconds / 60, seconds % 60)
        }
        _ => format!("{:.1} s", elapsed.as_secs_f64()),
    };
    format!(
        "{} [{}{}] {:3.0}% of {} {:.0} MB/s {left}",
        crate::shown::printable(&name.to_string_lossy()),
        "=".repeat(full),
        " ".repeat(WIDTH - full),
        share * 100.0,
        bytes(size),
        speed / 1e6,
    )
}

fn show(name: &OsString, moved: u64, size: u64, begun: Instant, end: &str) {
    // Whoever does not read it need not.
    let _ = write!(io::stderr(), "\r\x1b[K{}{end}", line(name, moved, size, begun.elapsed()));
}

/// A number of bytes, for people.
fn bytes(n: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let at = (n.max(1).ilog2() / 10).min(units.len() as u32 - 1);
    let scaled = n as f64 / 2f64.powi(10 * at as i32);
    if at == 0 { format!("{n} B") } else { format!("{scaled:.1} {}", units[at as usize]) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStringExt;

    #[test]
    fn one_of_the_two_is_of_a_job() {
        let what = |from: &str, to: &str| what(&from.into(), &to.into()).map_err(|e| e.exit_code());
        let get =
            |path: &str, local: &str| Ok(("air".to_owned(), What::Get { path: path.into(), local: local.into() }));
        let put =
            |local: &str, path: &str| Ok(("air".to_owned(), What::Put { local: local.into(), path: path.into() }));
        assert_eq!(what("air:out.nc", "."), get("out.nc", "."));
        assert_eq!(what("air:/data/a:b", "x/y:z"), get("/data/a:b", "x/y:z"));
        assert_eq!(what("in.nc", "air:in/new.nc"), put("in.nc", "in/new.nc"));
        assert_eq!(what("d/in.nc", "air:in/"), put("d/in.nc", "in/in.nc"));
        assert_eq!(what("d/in.nc", "air:"), put("d/in.nc", "in.nc"));
        assert_eq!(what("./a:b", "air:c"), put("./a:b", "c"));
        for (text, name, path) in [
            ("[air:1]:out.nc", "air:1", "out.nc"),
            ("[a/b:]:/x]:y", "a/b:", "/x]:y"),
            ("[[air]]:x", "[air]", "x"),
            ("[air:x", "[air", "x"),
            ("air:[b]:x", "air", "[b]:x"),
        ] {
            assert_eq!(of_job(&text.into()), Some((name.to_owned(), path.into())), "{text}");
        }
        assert_eq!((of_job(&"[]:x".into()), of_job(&"./[a]:x".into()), of_job(&"a/b:x".into())), (None, None, None));
        for (from, to) in [("a", "b"), ("air:a", "ice:b"), ("air:", "b"), (":a", "b")] {
            assert_eq!(what(from, to), Err(2), "{from} {to}");
        }
    }

    #[test]
    fn a_line_says_how_far_it_is() {
        let second = Duration::from_secs(1);
        let name = OsString::from_vec(b"air:a\n".to_vec());
        assert_eq!(line(&name, 0, 0, second).matches('\n').count(), 0);
        assert!(
            line(&name, 1 << 20, 2 << 20, second)
                .contains("[============            ]  50% of 2.0 MiB 1 MB/s 0:01 left")
        );
        assert!(line(&name, 2 << 20, 2 << 20, second).contains("100% of 2.0 MiB 2 MB/s 1.0 s"));
        assert_eq!((bytes(0), bytes(1023), bytes(1 << 32)), ("0 B".into(), "1023 B".into(), "4.0 GiB".into()));
    }
}
