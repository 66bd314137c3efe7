//! One job while it runs: its launcher, the pipes of its ranks, and which processes these are.
//!
//! Invariant: a rank is sent a signal only while its number still means the process that has told it.

use super::marked;
use super::output::{Format, Lines, Stream};
use super::plan::Planned;
use super::rank::RANKS;
use super::there::Near;
use base::settings::LAUNCH;
use nix::fcntl::OFlag;
use nix::sys::signal::{Signal, kill};
use nix::sys::stat::Mode;
use nix::unistd::{Pid, mkfifo};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How long a launcher takes, at most, to end after a rank that has failed. What has ended before has not failed.
const SOON: Duration = Duration::from_secs(5);

/// What a job prints to.
struct Source {
    /// None: nobody writes to it any more.
    pipe: Option<File>,
    rank: Option<usize>,
    stream: Stream,
    lines: Lines,
}

pub struct Running {
    pub process: u32,
    child: Child,
    folder: PathBuf,
    sources: Vec<Source>,
    /// The pipe on which ranks tell who they are, and what is kept of it.
    teller: File,
    told: Lines,
    /// By rank: the process, and when it began.
    ranks: BTreeMap<usize, (Pid, u64)>,
    /// The connection to the host where it runs, if that is another one.
    near: Option<Near>,
    /// When a rank's output first ended.
    first_end: Option<Instant>,
}

/// What the start of a job needs besides its plan.
pub struct Start<'a> {
    pub id: &'a str,
    pub command: &'a str,
    /// A folder for the job, which is not there yet.
    pub folder: PathBuf,
}

impl Running {
    pub fn start(job: &Planned, start: &Start<'_>) -> io::Result<Running> {
        let folder = start.folder.clone();
        fs::create_dir(&folder)?;
        let _ = pipe(&folder.join(RANKS))?;
        // With an end for writing: the ranks come and go, and this is not to end with the first.
        let teller = options().write(true).open(folder.join(RANKS))?;
        let mut sources = Vec::new();
        let ranks_here = if job.there.is_some() { 0 } else { job.ranks };
        for rank in 0..ranks_here {
            for (end, stream) in [("out", Stream::Out), ("err", Stream::Err)] {
                let pipe = Some(pipe(&folder.join(format!("{rank}.{end}")))?);
                sources.push(Source { pipe, rank: Some(rank), stream, lines: Lines::default() });
            }
        }
        let cores = job.cores.as_ref().map_or_else(|| "all".into(), super::cores::text);
        let wrapper = [start.command.to_owned(), "launch-rank".into(), folder.display().to_string(), cores];
        let mut command = Command::new(start.command);
        for name in &job.unset {
            command.env_remove(name);
        }
        command
            .args(["launch-job", "--"])
            .args(job.words(&wrapper))
            .envs(job.env.iter().map(|(name, value)| (name, value)))
            .env(LAUNCH, marked::mark(start.id, &job.name))
            .current_dir(&job.directory)
            // A signal of the terminal is passed on by us alone.
            .process_group(0)
            .stdin(if job.there.is_some() { Stdio::piped() } else { Stdio::null() })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let near = match (&job.there, child.stdin.take()) {
            // It may have ended at once: then that is seen.
            (Some(there), Some(stdin)) => Near::begin(stdin, there).ok(),
            _ => None,
        };
        let own = [child.stdout.take().map(OwnedFd::from), child.stderr.take().map(OwnedFd::from)];
        for (pipe, stream) in own.into_iter().zip([Stream::Out, Stream::Err]) {
            let pipe = pipe.map(File::from);
            if let Some(pipe) = &pipe {
                nix::fcntl::fcntl(pipe, nix::fcntl::FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
            }
            let is_events = near.is_some() && stream == Stream::Out;
            let lines = if is_events { Lines::of_events() } else { Lines::default() };
            sources.push(Source { pipe, rank: None, stream, lines });
        }
        Ok(Running {
            process: child.id(),
            child,
            folder,
            sources,
            teller,
            told: Lines::default(),
            ranks: BTreeMap::new(),
            near,
            first_end: None,
        })
    }

    /// What is to be waited for.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.sources.iter().filter_map(|source| source.pipe.as_ref()).map(AsFd::as_fd).chain([self.teller.as_fd()])
    }

    /// Reads what has come by these descriptors, and puts it out.
    pub fn read(&mut self, ready: &BTreeSet<RawFd>, block: &mut [u8], name: &str, format: Format) {
        while let Ok(n @ 1..) = self.teller.read(block) {
            let ranks = &mut self.ranks;
            self.told.push(&block[..n], |line| {
                let text = String::from_utf8_lossy(line);
                let numbers: Vec<u64> = text.split(' ').filter_map(|word| word.parse().ok()).collect();
                if let [rank, pid, began] = numbers[..] {
                    ranks.insert(rank as usize, (Pid::from_raw(pid as i32), began));
                }
            });
        }
        let near = &mut self.near;
        for source in &mut self.sources {
            let Some(pipe) = source.pipe.as_mut().filter(|pipe| ready.contains(&pipe.as_raw_fd())) else { continue };
            // One block at a time: the next one has its turn.
            match pipe.read(block) {
                Ok(0) => {
                    // Nobody has opened it yet, or all have closed it.
                    if source.rank.is_none_or(|rank| self.ranks.contains_key(&rank)) {
                        source.pipe = None;
                        source.lines.end(|line| put(near, name, source.rank, source.stream, line, format));
                        if source.rank.is_some() {
                            self.first_end.get_or_insert_with(Instant::now);
                        }
                    }
                }
                Ok(n) => {
                    source.lines.push(&block[..n], |line| put(near, name, source.rank, source.stream, line, format))
                }
                Err(_) => {}
            }
        }
    }

    /// Everything that is in the pipes, when the launcher has ended.
    pub fn drain(&mut self, name: &str, format: Format) {
        let mut block = vec![0; 1 << 20];
        let near = &mut self.near;
        for source in &mut self.sources {
            if let Some(mut pipe) = source.pipe.take() {
                // Twice what a pipe holds, at most: what the job has left behind may write on for ever.
                for _ in 0..2 {
                    let Ok(n @ 1..) = pipe.read(&mut block) else { break };
                    source.lines.push(&block[..n], |line| put(near, name, source.rank, source.stream, line, format));
                }
            }
            source.lines.end(|line| put(near, name, source.rank, source.stream, line, format));
        }
        let _ = fs::remove_dir_all(&self.folder);
    }

    /// How the launcher ended, if it has; and when the job did, as far as can be seen.
    pub fn ended(&mut self) -> Option<(ExitStatus, Instant)> {
        let status = self.child.try_wait().ok()??;
        let first = self.first_end.filter(|end| end.elapsed() < SOON);
        Some((status, first.unwrap_or_else(Instant::now)))
    }

    /// The processes of the ranks that are known.
    pub fn processes(&self) -> impl Iterator<Item = u32> {
        self.ranks.values().map(|(rank, _)| rank.as_raw() as u32)
    }

    pub fn known_ranks(&self) -> usize {
        self.near.as_ref().map_or(self.ranks.len(), |near| near.begun)
    }

    pub fn is_elsewhere(&self) -> bool {
        self.near.is_some()
    }

    /// The exit status that was told from elsewhere: not that of the connection.
    pub fn told_status(&self) -> Option<u8> {
        self.near.as_ref()?.status
    }

    /// The exit status of the launch elsewhere, if all of it was ended: by whoever it is there, unless it was told so from here.
    pub fn stopped_status(&self) -> Option<u8> {
        self.near.as_ref()?.stopped
    }

    /// Sends a signal to the ranks that are known, and says to how many.
    pub fn signal_ranks(&self, signal: Signal) -> usize {
        if let Some(near) = &self.near {
            return if near.signal(signal) { near.begun } else { 0 };
        }
        let alive = self.ranks.values().filter(|(pid, began)| marked::began(*pid) == Some(*began));
        alive.filter(|(pid, _)| kill(*pid, signal).is_ok()).count()
    }

    /// One elsewhere is the other end's.
    pub fn signal_launcher(&self, signal: Signal) {
        if self.near.is_some() {
            return;
        }
        // Not waited for yet, so the number is its own.
        let _ = kill(Pid::from_raw(self.process as i32), signal);
    }
}

/// Puts out a line of a job; what comes from elsewhere is taken apart first.
fn put(near: &mut Option<Near>, job: &str, rank: Option<usize>, stream: Stream, line: &[u8], format: Format) {
    match near {
        Some(near) if stream == Stream::Out => {
            if let Some((rank, is_out, text)) = near.heard(line) {
                format.line(job, rank, if is_out { Stream::Out } else { Stream::Err }, text.as_bytes());
            }
        }
        _ => format.line(job, rank, stream, line),
    }
}

/// A new pipe with a name, whose end for reading is open.
fn pipe(path: &Path) -> io::Result<File> {
    mkfifo(path, Mode::S_IRUSR | Mode::S_IWUSR)?;
    options().open(path)
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(OFlag::O_NONBLOCK.bits());
    options
}

/// An exit status as a shell has it, with the signal that it stands for.
pub fn code(status: ExitStatus) -> (u8, Option<Signal>) {
    let signal = status.signal().and_then(|number| Signal::try_from(number).ok());
    match (status.code(), status.signal()) {
        (Some(code), _) => (code as u8, None),
        (None, number) => (128 + number.unwrap_or(0) as u8, signal),
    }
}
