//! `mpi-connect launch`: starts all jobs of a manifest, watches over them, and ends them together.
//!
//! Each job is started by `mpi-connect run`, so nothing here knows how a launcher is told of the library. `manifest`, `cores`, `plan` and
//! `policy` decide and touch nothing; `supervise` is the loop that does. Only `main` calls this, and `run`, which reads lists of cores.
//!
//! Invariant: whenever the launch ends, and however, no process of its jobs is left; `keeper` sees to it where this process cannot.

mod choice;
pub mod cores;
mod job;
mod keeper;
mod manifest;
mod marked;
mod names;
mod orders;
mod output;
mod place;
mod plan;
mod policy;
mod rank;
mod sbatch;
mod slurm;
mod spawn;
mod state;
mod supervise;
mod there;

pub use choice::{Args as ChoiceArgs, choose};
pub use keeper::{Args as KeeperArgs, keep};
pub use rank::{Args as RankArgs, JobArgs, job as become_job, rank};
pub use spawn::Args as SpawnedArgs;

use crate::key::KeyOption;
use crate::launcher;
use crate::program::obstacle;
use crate::run::quote;
use manifest::{Manifest, Problem};
use naming::OpenError;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::SigSet;
use orders::Orders;
use output::Format;
use place::Place;
use plan::Planned;
use state::{Launch, Own};
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, fmt, fs, io};
use supervise::Whole;

/// How long a launch that was told to end waits for whoever reads its last words.
const LAST_WORDS: Duration = Duration::from_secs(2);

#[derive(clap::Args, Default)]
pub struct Args {
    /// The jobs, in TOML; with --status and --stop the manifest or the run that is meant, if several are running
    #[arg(value_name = "MANIFEST", required_unless_present_any = ["status", "stop", "there"])]
    manifest: Option<String>,
    /// The run that all jobs belong to, instead of the manifest's
    #[arg(long, value_name = "NAME", conflicts_with_all = ["status", "stop"])]
    run: Option<String>,
    /// Show the commands instead of running them
    #[arg(long, conflicts_with_all = ["status", "stop", "json"])]
    dry_run: bool,
    /// Write one JSON object a line: what happens, and what the jobs print
    #[arg(long)]
    json: bool,
    /// Show the launches that are running, and the state of their jobs
    #[arg(long, conflicts_with = "stop")]
    status: bool,
    /// The end of a connection on the host of a job: its manifest comes by standard input, and orders after it
    #[arg(long, hide = true, conflicts_with_all = ["manifest", "status", "stop", "dry_run", "sbatch", "run"])]
    there: bool,
    /// Write a script for sbatch that runs the launch in an allocation of its own
    #[arg(long, conflicts_with_all = ["status", "stop", "dry_run", "json"])]
    sbatch: bool,
    /// End a launch that is running, and wait for its end
    #[arg(long)]
    stop: bool,
}

#[derive(Debug)]
pub enum LaunchError {
    Read(PathBuf, io::Error),
    /// The manifest, and all that is wrong.
    Manifest(String, Vec<Problem>),
    Naming(OpenError),
    /// What could not be made.
    System(&'static str, io::Error),
    NotRunning(Option<String>),
    Several(Vec<String>),
    /// Those that run are for others to stop.
    OfOthers(Vec<String>),
    /// The process of a launch that does not answer.
    Silent(u64),
    Stop(io::Error),
}

impl fmt::Display for LaunchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LaunchError::Read(path, e) => write!(f, "reading {}: {e}", path.display()),
            LaunchError::Manifest(file, problems) => {
                for Problem { line, what } in problems {
                    match line {
                        0 => writeln!(f, "{file}: {what}")?,
                        _ => writeln!(f, "{file}:{line}: {what}")?,
                    }
                }
                let number =
                    if problems.len() == 1 { "one problem".into() } else { format!("{} problems", problems.len()) };
                write!(f, "mpi-connect: nothing is started: {number} in {file}")
            }
            LaunchError::Naming(e) => e.fmt(f),
            LaunchError::System(what, e) => write!(f, "{what}: {e}"),
            LaunchError::NotRunning(None) => f.write_str("no launch of this user is running on this host"),
            LaunchError::NotRunning(Some(of)) => write!(f, "no launch of {of} is running on this host"),
            LaunchError::Several(runs) => {
                write!(
                    f,
                    "several launches are running; name the run or the process that is meant: {}",
                    runs.join(", ")
                )
            }
            LaunchError::OfOthers(launches) => {
                let all = launches.join(", ");
                write!(
                    f,
                    "only jobs of MPI_Comm_spawn, or of launches on other hosts, run here, and end with those; name the process \
                     that is to be stopped: {all}"
                )
            }
            LaunchError::Silent(pid) => {
                write!(f, "the launch of process {pid} does not answer: it may be stopped, which kill -CONT {pid} ends")
            }
            LaunchError::Stop(e) => write!(f, "stopping the launch: {e}"),
        }
    }
}

impl LaunchError {
    /// Problems of a manifest begin with its name, as a compiler's do.
    pub fn text(&self) -> String {
        if matches!(self, LaunchError::Manifest(..)) { self.to_string() } else { format!("mpi-connect: {self}") }
    }

    pub fn exit_code(&self) -> u8 {
        match self {
            LaunchError::Read(..)
            | LaunchError::Manifest(..)
            | LaunchError::Naming(_)
            | LaunchError::Several(_)
            | LaunchError::OfOthers(_) => 2,
            LaunchError::System(..) | LaunchError::NotRunning(_) | LaunchError::Silent(_) | LaunchError::Stop(_) => 1,
        }
    }
}

/// The exit status.
pub fn launch(args: &Args) -> Result<u8, LaunchError> {
    if args.status {
        return status(args);
    }
    if args.stop {
        return stop(args);
    }
    let path = PathBuf::from(args.manifest.as_deref().unwrap_or("what the other host says"));
    let file = path.display().to_string();
    let orders = if args.there {
        Some(there::far().map_err(|e| LaunchError::System("reading what is to be started", e))?)
    } else {
        None
    };
    let read = |e| LaunchError::Read(PathBuf::from(&file), e);
    let text = orders.as_ref().map_or_else(|| fs::read_to_string(&path), there::manifest).map_err(read)?;
    // Its paths are absolute.
    let path = if args.there { Path::new("/").join(path) } else { fs::canonicalize(&path).map_err(read)? };
    let manifest = manifest::read(&text).map_err(|problems| LaunchError::Manifest(file.clone(), problems))?;
    let orders = orders.map(Orders::Launch);
    go(args, &manifest, (&path, &file), orders.as_ref())
}

/// Starts a job for a process that has asked for it by MPI_Comm_spawn, and watches over it. The exit status.
pub fn spawned(args: &SpawnedArgs) -> u8 {
    if !args.supervise {
        return u8::from(spawn::apart().is_err());
    }
    let Ok(from) = there::far() else { return 1 };
    let request = orders::request(&from).map_err(|e| format!("reading what is to be started: {e}"));
    let parent = Orders::Parent(from);
    let started = request.and_then(|request| {
        let here = env::current_dir().map_err(|e| format!("the current directory: {e}"))?;
        let command = env::current_exe().map_err(|e| format!("finding this command: {e}"))?.display().to_string();
        let (manifest, path) = spawn::manifest(&request, &command, &here)?;
        let file = request.manifest.unwrap_or_default();
        go(&Args::default(), &manifest, (&path, &file), Some(&parent)).map_err(|e| match &e {
            LaunchError::Manifest(file, problems) => spawn::said(file, problems),
            e => e.to_string(),
        })
    });
    started.unwrap_or_else(|why| {
        parent.report(&format!("the job was not started: {why}"));
        1
    })
}

/// Starts what a manifest says, and returns when all is over: with the exit status. `file`: what people call the manifest.
fn go(
    args: &Args,
    manifest: &Manifest,
    (path, file): (&Path, &str),
    orders: Option<&Orders>,
) -> Result<u8, LaunchError> {
    let problem = |problems| LaunchError::Manifest(file.to_owned(), problems);
    let id = format!("{:016x}", u64::from_le_bytes(base::ident::random()));
    let folder = path.parent().unwrap_or(Path::new("/"));
    let key = manifest.key.as_deref().map(|key| absolute(key, folder));
    let keys = KeyOption::of(key.clone());
    let url = manifest.naming.as_deref().map(|url| absolute(url, folder));
    let url = url.map_or_else(naming::default_url, Ok).map_err(LaunchError::Naming)?;
    let naming = keys.open(&url).map_err(LaunchError::Naming)?.url();
    let command = env::current_exe().map_err(|e| LaunchError::System("finding this command", e))?.display().to_string();
    let private = keys.open(&naming::private_url()).map_err(LaunchError::Naming)?.url();
    if args.sbatch {
        return write_script(args, manifest, path, (&command, naming == private)).map_err(problem);
    }
    let is_spawned = orders.is_some_and(Orders::is_parent);
    let run = run_of(args, manifest, path, (&id, is_spawned)).map_err(problem)?;
    let place = Place {
        folder,
        command: command.clone(),
        naming: naming.clone(),
        private,
        key,
        run: run.clone(),
        cores: cores::allowed().map_err(|e| LaunchError::System("asking for the cores", e.into()))?,
        allocation: slurm::Allocation::of(|name| env::var(name).ok()).filter(|_| !args.there),
        variables: env::vars_os().filter_map(|(name, _)| name.into_string().ok()).collect(),
        recognise: |word, path| launcher::find_in(word, path).map(|program| launcher::recognise(&program)),
    };
    let jobs = plan::plan(manifest, &place).map_err(problem)?;
    if args.dry_run {
        let lines = jobs.iter().map(|job| format!("# {}\n{}\n", job.name, job.line(quote)));
        crate::output::write(&lines.collect::<String>());
        return Ok(0);
    }
    if place.allocation.is_none() && manifest.jobs.iter().any(|job| job.slurm.is_some()) {
        output::say("this is no allocation of Slurm: what the manifest says of slurm does not count");
    }
    warn(&jobs);
    let format = match args.json || args.there {
        true => Format::Json,
        false if is_spawned => Format::Bare,
        false => Format::Text,
    };
    let grace = Duration::from_secs_f64(manifest.grace);
    let whole = Whole {
        id: &id,
        command: &command,
        manifest: match orders {
            Some(Orders::Launch(_)) => "a job of another host's launch".into(),
            Some(Orders::Parent(_)) => "a job of MPI_Comm_spawn".into(),
            None => path.display().to_string(),
        },
        run: &run,
        naming: &naming,
        grace,
        format,
        orders,
    };
    begin(&whole, &jobs, &keys).inspect_err(|_| output::end(Some(LAST_WORDS)))
}

fn begin(whole: &Whole<'_>, jobs: &[Planned], keys: &KeyOption) -> Result<u8, LaunchError> {
    let system = |what| move |e| LaunchError::System(what, e);
    // Two pipes for each rank.
    let (_, most) =
        getrlimit(Resource::RLIMIT_NOFILE).map_err(|e| LaunchError::System("asking for limits", e.into()))?;
    let _ = setrlimit(Resource::RLIMIT_NOFILE, most, most);
    let signals = supervise::signals().map_err(system("waiting for signals"))?;
    output::begin().map_err(system("starting what writes"))?;
    let own = Own::make(whole.id, &whole.lasting()).map_err(system("making a folder for this launch"))?;
    let keeper = keeper::Keeper::start(whole.command, whole.id, &own.folder).map_err(system("starting the keeper"))?;
    let names = names::Names::watch(whole.naming, whole.run, keys).map_err(system("watching names"))?;
    if whole.format == Format::Text {
        output::say(&format!("run {}, names in {}", whole.run, whole.naming));
    }
    let (status, is_told) = supervise::supervise(whole, jobs, &signals, &names, own);
    keeper.done();
    // Nothing is left that a signal would have to reach: one more ends this command itself.
    let _ = SigSet::all().thread_unblock();
    output::end(is_told.then_some(LAST_WORDS));
    Ok(status)
}

/// A `file:` setting whose path counts from the manifest's folder.
fn absolute(setting: &str, folder: &Path) -> String {
    match setting.strip_prefix("file:") {
        Some(path) if !path.starts_with('/') && !path.is_empty() => format!("file:{}", folder.join(path).display()),
        _ => setting.to_owned(),
    }
}

/// Without a name each launch has a run of its own, so that it never meets what another one has left.
/// One of MPI_Comm_spawn is in the run of its parents, or in none as they are.
fn run_of(
    args: &Args,
    manifest: &Manifest,
    path: &Path,
    (id, is_spawned): (&str, bool),
) -> Result<String, Vec<Problem>> {
    let said = args.run.as_ref().or(manifest.run.as_ref());
    let run =
        said.map_or_else(naming::default_run, |run| naming::run_of(run).map(str::to_owned).map_err(OpenError::Run));
    match run {
        Ok(run) if !run.is_empty() || is_spawned => Ok(run),
        Err(OpenError::Run(e)) if said.is_some() => Err(vec![Problem { line: 0, what: format!("the run: {e}") }]),
        Err(e) => Err(vec![Problem { line: 0, what: e.to_string() }]),
        _ => Ok(format!("{}-{}", title(path), &id[..8])),
    }
}

/// A manifest's name, as far as every service takes it.
fn title(path: &Path) -> String {
    let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    stem.chars().filter(|c| c.is_ascii_alphanumeric() || "-_.".contains(*c)).take(64).collect()
}

/// For `sbatch`, to stdout.
fn write_script(
    args: &Args,
    manifest: &Manifest,
    path: &Path,
    (command, are_names_private): (&str, bool),
) -> Result<u8, Vec<Problem>> {
    let mut words = vec!["launch".to_owned()];
    if let Some(run) = &args.run {
        words.extend(["--run".into(), run.clone()]);
    }
    words.push(path.display().to_string());
    let script = sbatch::Script { title: &title(path), command, words: &words };
    let problem = |what: String| vec![Problem { line: 0, what }];
    let (text, are_several) = sbatch::script(manifest, &script).map_err(problem)?;
    if are_several && are_names_private {
        return Err(problem(plan::NO_COMMON_NAMES.into()));
    }
    crate::output::write(&text);
    Ok(0)
}

/// What keeps the library out of a program: told before anything is started.
fn warn(jobs: &[Planned]) {
    for job in jobs {
        if let Some(program) = job.program_file()
            && let Some(obstacle) = obstacle(&program)
        {
            output::say(&format!("{}: {}: {obstacle}; {}", job.name, program.display(), obstacle.mend()));
        }
    }
}

fn status(args: &Args) -> Result<u8, LaunchError> {
    let all = state::running(args.manifest.as_deref());
    if args.json {
        let told: Vec<_> = all.iter().map(|launch| launch.told.clone()).collect();
        crate::output::write(&format!("{:#}\n", serde_json::Value::from(told)));
    } else {
        crate::output::write(&all.iter().map(table).collect::<String>());
    }
    if all.is_empty() && !args.json {
        return Err(LaunchError::NotRunning(args.manifest.clone()));
    }
    Ok(u8::from(all.is_empty()))
}

fn table(launch: &Launch) -> String {
    if launch.is_silent() {
        return format!("{} does not answer: it may be stopped (kill -CONT {})\n", launch.title(), launch.told["pid"]);
    }
    let mut rows = vec![["JOB", "STATE", "RANKS", "RESTARTS", "NAMES"].map(String::from)];
    for job in launch.told["jobs"].as_array().into_iter().flatten() {
        let names: Vec<&str> = job["names"].as_array().into_iter().flatten().filter_map(|name| name.as_str()).collect();
        let state = match job["status"].as_u64() {
            Some(status) => format!("{}, status {status}", job["state"].as_str().unwrap_or_default()),
            None => job["state"].as_str().unwrap_or_default().to_owned(),
        };
        let names = if names.is_empty() { "-".into() } else { names.join(", ") };
        rows.push([
            job["job"].as_str().unwrap_or_default().to_owned(),
            state,
            format!("{} of {}", job["ranks_begun"], job["ranks"]),
            job["restarts"].to_string(),
            names,
        ]);
    }
    launch.title() + "\n" + &crate::names::columns(&rows)
}

fn stop(args: &Args) -> Result<u8, LaunchError> {
    let one = meant(state::running(args.manifest.as_deref()), args.manifest.as_deref())?;
    one.stop().map_err(LaunchError::Stop)?;
    if !args.json {
        crate::output::write(&format!("{} has ended\n", one.run().unwrap_or_else(|| one.process())));
    }
    Ok(0)
}

/// The one of these launches that is to be stopped. Those that another one has started end with that, unless they are named.
fn meant(running: Vec<Launch>, named: Option<&str>) -> Result<Launch, LaunchError> {
    let of = |launch: &Launch| {
        let run = launch.run().map(|run| format!(" ({run})")).unwrap_or_default();
        format!("{}{run}", launch.told["pid"])
    };
    let (of_others, mut own): (Vec<_>, Vec<_>) =
        running.into_iter().partition(|launch| named.is_none() && launch.is_of_another());
    if own.len() > 1 {
        return Err(LaunchError::Several(own.iter().map(of).collect()));
    }
    match own.pop() {
        Some(one) if one.is_silent() => Err(LaunchError::Silent(one.told["pid"].as_u64().unwrap_or(0))),
        Some(one) => Ok(one),
        None if of_others.is_empty() => Err(LaunchError::NotRunning(named.map(String::from))),
        None => Err(LaunchError::OfOthers(of_others.iter().map(of).collect())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A spawned job ends with its parents: it has to be named, by its process if it is in no run.
    #[test]
    fn what_another_has_started_is_stopped_if_it_is_named() {
        let launch = |pid: u32, what: &str, run: &str| {
            let told = json!({ "pid": pid, what: true, "run": run, "manifest": "m" });
            Launch { socket: PathBuf::new(), told }
        };
        let said = |running, named| meant(running, named).map(|one| one.title()).map_err(|e| e.to_string());
        let spawned = || launch(7, "spawned", "");
        let own = || launch(8, "own", "case");
        assert_eq!(said(vec![spawned(), own()], None).unwrap(), "m (run case, process 8)");
        let refused = said(vec![spawned(), launch(9, "there", "case")], None).unwrap_err();
        assert!(refused.ends_with(" to be stopped: 7, 9 (run case)"), "{refused}");
        assert_eq!(said(vec![spawned()], Some("7")).unwrap(), "m (process 7)");
        assert_eq!(said(vec![], None).unwrap_err(), "no launch of this user is running on this host");
        let refused = said(vec![own(), launch(10, "own", "case")], None).unwrap_err();
        assert!(refused.ends_with(" meant: 8 (run case), 10 (run case)"), "{refused}");
    }
}
