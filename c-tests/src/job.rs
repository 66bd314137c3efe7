//! One job: a launcher and its ranks.

use crate::places::{command, library};
use crate::{Library, Mpi, compile, user};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// What to start, and how.
#[derive(Clone)]
pub struct Launch<'a> {
    pub title: String,
    /// None: no MPI program.
    mpi: Option<&'a Mpi>,
    ranks: usize,
    library: Library,
    program: PathBuf,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    prefix: Vec<String>,
    preload: Option<Vec<PathBuf>>,
    stranger: bool,
}

impl<'a> Launch<'a> {
    /// The program `c-tests/c/PROGRAM.c` on so many ranks, preloaded by `mpi-connect run` unless said otherwise.
    pub fn new(mpi: &'a Mpi, ranks: usize, program: &str, arguments: &[&str]) -> Launch<'a> {
        Launch::with(mpi, ranks, program, Library::Preloaded, arguments)
    }

    pub fn with(mpi: &'a Mpi, ranks: usize, program: &str, library: Library, arguments: &[&str]) -> Launch<'a> {
        Launch::of(mpi, ranks, compile(mpi, program, library), library, arguments)
    }

    /// A program that is compiled already.
    pub fn of(mpi: &'a Mpi, ranks: usize, program: PathBuf, library: Library, arguments: &[&str]) -> Launch<'a> {
        Launch {
            title: format!("{}-{}", mpi.name, arguments.first().unwrap_or(&"job")).replace('/', "_"),
            mpi: Some(mpi),
            ranks,
            library,
            ..Launch::alone(&program, arguments)
        }
    }

    /// A program that is no MPI's, on its own.
    pub fn alone(program: &Path, arguments: &[&str]) -> Launch<'a> {
        Launch {
            title: program.file_name().map_or("job".into(), |name| name.to_string_lossy().into_owned()),
            mpi: None,
            ranks: 1,
            library: Library::Linked,
            program: program.to_owned(),
            arguments: arguments.iter().map(|s| s.to_string()).collect(),
            environment: Vec::new(),
            prefix: Vec::new(),
            preload: None,
            stranger: false,
        }
    }

    /// A command of several words that this MPI's launcher does not start: within the MPI's session, with what its ranks need
    /// in their environment.
    pub fn unlaunched(mpi: &Mpi, words: &[&str]) -> Launch<'a> {
        let session = mpi.session();
        let all: Vec<_> = session.iter().map(String::as_str).chain(words.iter().copied()).collect();
        Launch::alone(all[0].as_ref(), &all[1..]).envs(&mpi.environment())
    }

    pub fn envs<V: AsRef<str>>(self, settings: &[(&str, V)]) -> Self {
        settings.iter().fold(self, |launch, (name, value)| launch.env(name, value.as_ref()))
    }

    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// A command that runs all of it, such as `ip netns exec NAME`.
    pub fn within(mut self, prefix: &[String]) -> Self {
        self.prefix = prefix.to_vec();
        self
    }

    /// Exactly these libraries are preloaded into the ranks, by the MPI's launcher alone.
    pub fn preloading(mut self, libraries: Vec<PathBuf>) -> Self {
        self.preload = Some(libraries);
        self
    }

    /// A third user's, neither root's nor that of the other jobs.
    pub fn by_stranger(mut self) -> Self {
        self.stranger = true;
        self
    }

    /// The name of its MPI.
    pub(crate) fn mpi(&self) -> Option<&'static str> {
        self.mpi.map(|mpi| mpi.name)
    }

    fn command(&self, naming: &str) -> Command {
        let mut run = Vec::new();
        if self.library == Library::Preloaded && self.preload.is_none() {
            library();
            run.push(command().display().to_string());
            run.extend(["run", "--naming", naming, "--"].map(String::from));
        }
        let mut options = Vec::new();
        if let (Some(libraries), Some(mpi)) = (&self.preload, self.mpi) {
            let list: Vec<_> = libraries.iter().map(|p| p.display().to_string()).collect();
            if !list.is_empty() {
                options = (mpi.rank_variable)("LD_PRELOAD", &list.join(":"));
            }
        }
        let mut words = self.prefix.clone();
        words.extend(if self.stranger { user::prefix_of_stranger() } else { user::prefix() });
        words.extend(self.mpi.map_or(Vec::new(), |mpi| mpi.launcher(&run, &options, self.ranks)));
        words.push(self.program.display().to_string());
        words.extend(self.arguments.iter().cloned());
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        command
    }

    /// Whether it is a third user's.
    pub(crate) fn is_strangers(&self) -> bool {
        self.stranger
    }

    pub(crate) fn spawn(
        self,
        (naming, key): (&str, &Path),
        mark: (&str, &str),
        temporary: &Path,
        [out, err]: [PathBuf; 2],
    ) -> Job {
        // One of its own goes before the scene's, for `mpi-connect run` too.
        let own =
            self.environment.iter().rev().find(|(name, _)| name == "MPI_CONNECT_NAMING").map(|(_, url)| url.clone());
        let naming = own.as_deref().unwrap_or(naming);
        let mut command = self.command(naming);
        for (name, _) in std::env::vars_os() {
            // By cargo's LD_LIBRARY_PATH another build of the library would be found first.
            let loads = name == "LD_PRELOAD" || name == "LD_LIBRARY_PATH";
            if loads || name.to_str().is_some_and(|n| n.starts_with("MPI_CONNECT_")) {
                command.env_remove(name);
            }
        }
        command.envs(user::environment()).env(mark.0, mark.1);
        command.env("MPI_CONNECT_KEY", format!("file:{}", key.display()));
        command.envs(self.mpi.map_or(Vec::new(), Mpi::environment));
        if self.mpi.is_some_and(Mpi::keeps_files) {
            command.env("TMPDIR", temporary);
        }
        if self.library != Library::None {
            command.env("MPI_CONNECT_LOG", "info").env("MPI_CONNECT_NAMING", naming);
        }
        command.envs(self.environment.iter().map(|(n, v)| (n, v)));
        command
            .stdin(Stdio::null())
            .stdout(File::create(&out).expect("a file for the output"))
            .stderr(File::create(&err).expect("a file for the output"))
            .process_group(0);
        let child = command.spawn().unwrap_or_else(|e| panic!("{command:?}: {e}"));
        Job { title: self.title, child, out, err, started: Instant::now(), ended: None }
    }
}

/// A job that was started. Its processes end with the scene at the latest.
pub struct Job {
    pub title: String,
    child: Child,
    out: PathBuf,
    err: PathBuf,
    started: Instant,
    ended: Option<(ExitStatus, Duration)>,
}

impl Job {
    /// How it ended, if it has.
    pub fn poll(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none()
            && let Some(status) = self.child.try_wait().expect("a child of ours")
        {
            self.ended = Some((status, self.started.elapsed()));
        }
        self.ended.map(|(status, _)| status)
    }

    /// Sends a signal to the one process that was started: for programs without a launcher.
    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).expect("a process of ours");
    }

    /// What it has printed so far.
    pub fn printed(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.out).unwrap_or_default()).into_owned()
    }

    /// What it and its launcher have said on stderr so far.
    pub fn complained(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.err).unwrap_or_default()).into_owned()
    }

    pub(crate) fn done(mut self) -> Done {
        let status = self.child.wait().expect("a child of ours");
        let took = self.ended.map_or_else(|| self.started.elapsed(), |(_, t)| t);
        Done { stdout: self.printed(), stderr: self.complained(), title: self.title, status, took }
    }
}

/// A job that has ended.
pub struct Done {
    pub title: String,
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
    pub took: Duration,
}

impl Done {
    /// The lines that begin with `word`, without it.
    pub fn lines<'a>(&'a self, word: &'a str) -> impl Iterator<Item = &'a str> {
        self.stdout.lines().filter_map(move |l| l.strip_prefix(word)?.strip_prefix(' '))
    }

    /// How many values the programs checked.
    pub fn checks(&self) -> u64 {
        self.lines("DONE").filter_map(|l| l.split_whitespace().nth(2)?.parse::<u64>().ok()).sum()
    }
}
