//! From a manifest to the commands of its jobs: what is started where, with which variables, on which cores.
//!
//! Invariants: each job is started by `mpi-connect run`, which knows the launchers' ways, so this only adds how many ranks there
//! are and that they are not bound; no variable of another launcher's rank reaches a job.

use super::choice;
use super::cores::{self, Cores};
use super::manifest::{Job, Manifest, OnDeath, Problem, Restart};
use super::place::Place;
use super::slurm::{self, Share};
use super::there::There;
use crate::launcher::{self, FindError, Kind};
use base::settings::{LAUNCH, PARENT, PREFIX};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::{env, fs};
use trust::KeyFile;

/// A job as it is started.
#[derive(Debug, Clone, PartialEq)]
pub struct Planned {
    pub name: String,
    pub ranks: usize,
    pub directory: PathBuf,
    /// It is started on another host.
    pub there: Option<There>,
    /// Its launcher passes SIGUSR1 and SIGUSR2 on to ranks wherever they are.
    pub forwards: bool,
    /// What stands before the launcher, and this command before its own words.
    before: Vec<String>,
    /// The launcher with all its words, where the program goes at [`None`].
    launcher: Vec<Option<String>>,
    program: Vec<String>,
    /// Further programs, for launchers that take several: the words before each, and its own.
    more: Vec<(Vec<String>, Vec<String>)>,
    /// Variables of the launcher.
    pub env: Vec<(String, String)>,
    pub unset: Vec<String>,
    pub cores: Option<BTreeSet<usize>>,
    pub after: Vec<String>,
    pub on_death: OnDeath,
    pub restart: Option<Restart>,
    pub restarts: u32,
}

impl Planned {
    /// Its command line, with these words before the program.
    pub fn words(&self, wrapper: &[String]) -> Vec<String> {
        if let Some(there) = &self.there {
            return there.words.clone();
        }
        let mut words = self.before.clone();
        for word in &self.launcher {
            match word {
                Some(word) => words.push(word.clone()),
                None => words.extend(wrapper.iter().chain(&self.program).cloned()),
            }
        }
        for (before, program) in &self.more {
            words.extend(before.iter().chain(wrapper).chain(program).cloned());
        }
        words
    }

    /// The file of its program, as far as it can be told.
    pub fn program_file(&self) -> Option<PathBuf> {
        if self.there.is_some() {
            return None;
        }
        let path = self.env.iter().find(|(name, _)| name == "PATH").map(|(_, value)| OsString::from(value));
        find(self.program.first()?, &self.directory, &path.unwrap_or_else(launcher::path)).ok()
    }

    /// As a shell reads it.
    pub fn line(&self, quote: impl Fn(&str) -> String) -> String {
        let mut words = vec!["cd".into(), quote(&self.directory.to_string_lossy()), "&&".into()];
        if !self.env.is_empty() || !self.unset.is_empty() {
            words.push("env".into());
            words.extend(self.unset.iter().flat_map(|name| ["-u".into(), quote(name)]));
            words.extend(self.env.iter().map(|(name, value)| quote(&format!("{name}={value}"))));
        }
        words.extend(self.words(&[]).iter().map(|word| quote(word)));
        if let Some(there) = &self.there {
            let said = there.manifest.lines().map(|line| format!("#     {line}\n")).collect::<String>();
            return format!("# on {}, by this manifest:\n{said}{}", there.host, words[3..].join(" "));
        }
        words.join(" ")
    }
}

/// All jobs, or everything that keeps them from being started.
pub fn plan(manifest: &Manifest, place: &Place<'_>) -> Result<Vec<Planned>, Vec<Problem>> {
    let mut problems = Vec::new();
    let (here, elsewhere): (Vec<&Job>, Vec<&Job>) = manifest.jobs.iter().partition(|job| job.host.is_none());
    let wanted: Vec<_> = here.iter().map(|job| (job.name.as_str(), job.cores.as_ref())).collect();
    let cores = cores::assign(&wanted, &place.cores).unwrap_or_else(|all| {
        problems.extend(all.into_iter().map(|(at, what)| Problem { line: here[at].at.of("cores"), what }));
        vec![None; wanted.len()]
    });
    let mut cores: BTreeMap<&str, _> = here.iter().map(|job| job.name.as_str()).zip(cores).collect();
    for job in &elsewhere {
        let others = elsewhere.iter().take_while(|other| other.name != job.name).filter(|other| other.host == job.host);
        problems.extend(
            others.filter_map(|other| shared(job, other)).map(|what| Problem { line: job.at.of("cores"), what }),
        );
    }
    let shares = place.allocation.as_ref().map(|allocation| slurm::divide(&manifest.jobs, allocation));
    let shares = shares.unwrap_or(Ok(vec![Share::default(); manifest.jobs.len()])).unwrap_or_else(|all| {
        let problem = |(at, what)| named(&manifest.jobs[at], ("slurm", what));
        problems.extend(all.into_iter().map(problem));
        vec![Share::default(); manifest.jobs.len()]
    });
    let first = elsewhere.first().copied().or_else(|| manifest.jobs.first().filter(|_| slurm::are_several(&shares)));
    if let Some(first) = first
        && place.naming == place.private
    {
        problems.push(Problem { line: first.at.of("host"), what: NO_COMMON_NAMES.into() });
    }
    if let Some(what) = place.key.as_deref().filter(|_| !here.is_empty()).and_then(key_folder) {
        problems.push(Problem { line: manifest.at.of("key"), what });
    }
    let ssh = elsewhere.first().map_or(Ok(Vec::new()), |first| ssh(manifest, first, place)).unwrap_or_else(|problem| {
        problems.push(problem);
        Vec::new()
    });
    let mut jobs = Vec::new();
    for (job, share) in manifest.jobs.iter().zip(&shares) {
        if let Some(host) = &job.host {
            jobs.push(planned_there(job, There::of(job, manifest, host, (&ssh, place))));
            continue;
        }
        match planned(job, cores.remove(job.name.as_str()).flatten(), share, place) {
            Ok(planned) => jobs.push(planned),
            Err(all) => problems.extend(all.into_iter().map(|wrong| named(job, wrong))),
        }
    }
    problems.sort();
    if problems.is_empty() { Ok(jobs) } else { Err(problems) }
}

pub const NO_COMMON_NAMES: &str =
    "jobs on several hosts need a place for names that all reach: naming = \"file:DIR\" or \"tcp://HOST:PORT\"";

/// What is wrong with a job, and the key that says so.
type Wrong = (&'static str, String);

fn named(job: &Job, (key, what): Wrong) -> Problem {
    Problem { line: job.at.of(key), what: format!("job '{}': {what}", job.name) }
}

/// What reaches other hosts, found as a launcher is: it is not started in the manifest's folder.
fn ssh(manifest: &Manifest, first: &Job, place: &Place<'_>) -> Result<Vec<String>, Problem> {
    let mut words = manifest.ssh.clone();
    let Some(word) = words.first_mut() else { return Ok(words) };
    // Without the key, it is a job with a host that asks for it.
    let line = Some(manifest.at.of("ssh")).filter(|line| *line > 0).unwrap_or(first.at.of("host"));
    let problem = |e: FindError| Problem { line, what: format!("ssh: {e}") };
    let found = find(word, place.folder, &launcher::path()).map_err(problem)?;
    *word = std::path::absolute(&found).unwrap_or(found).to_string_lossy().into_owned();
    Ok(words)
}

/// A key's file may be made, and its folder is not.
fn key_folder(key: &str) -> Option<String> {
    let file = KeyFile::find(Some(key)).ok()?;
    file.missing_folder().map(|folder| format!("key: there is no folder {}", folder.display()))
}

fn planned(job: &Job, cores: Option<BTreeSet<usize>>, share: &Share, place: &Place<'_>) -> Result<Planned, Vec<Wrong>> {
    let mut problems = Vec::new();
    let path = job.env.get("PATH").map_or_else(launcher::path, OsString::from);
    let directory = place.folder.join(job.directory.as_deref().unwrap_or("."));
    let directory: PathBuf = directory.components().collect();
    if !directory.is_dir() {
        problems.push(("directory", format!("directory: there is no folder {}", directory.display())));
    } else {
        let words = std::iter::once(&job.program).chain(job.more.iter().map(|more| &more.words));
        let wrong = words.filter_map(|words| program(&words[0], &directory, &path).err());
        problems.extend(wrong.map(|what| ("program", what)));
    }
    let at = position(&job.launcher);
    let word = &job.launcher[at];
    // The program stands alone: there is no launcher.
    let kind = match word.as_str() {
        "{program}" => Ok(Kind::Plain),
        _ => (place.recognise)(&told(word, &directory), &path),
    };
    let kind = match kind {
        Ok(kind) => kind,
        Err(e) => {
            problems.push(("launcher", format!("launcher: {e}; {}", found(&path))));
            return Err(problems);
        }
    };
    let launcher = match words(job, at, kind, share) {
        Ok(words) => words,
        Err(wrong) => {
            problems.push(wrong);
            return Err(problems);
        }
    };
    if !problems.is_empty() {
        return Err(problems);
    }
    let mut before: Vec<String> = job.launcher[..at].to_vec();
    before.extend([place.command.clone(), "run".into(), "--naming".into(), place.naming.clone()]);
    if let Some(key) = &place.key {
        before.extend(["--key".into(), key.clone()]);
    }
    before.extend(["--run".into(), place.run.clone()]);
    if let Some(cores) = &cores {
        before.extend(["--cores".into(), cores::text(cores)]);
    }
    // Those of the library are passed on in any case.
    for name in job.env.keys().filter(|name| !name.starts_with(PREFIX)) {
        before.extend(["--env".into(), name.clone()]);
    }
    before.push("--".into());
    let all = || choice::Program { ranks: job.ranks, directory: job.directory.clone(), words: job.program.clone() };
    let several = Several::of(job, kind, word);
    let (program, more) = match several {
        Several::No => (job.program.clone(), Vec::new()),
        Several::InOne => {
            let all: Vec<_> = std::iter::once(all()).chain(job.more.iter().cloned()).collect();
            (choice::words(&place.command, &all), Vec::new())
        }
        Several::Contexts => (job.program.clone(), job.more.iter().map(context).collect()),
    };
    let is_srun = kind == Kind::Slurm;
    let is_set = |name: &str| job.env.contains_key(name) || place.variables.iter().any(|n| n == name);
    let mut env: Vec<(String, String)> = job.env.clone().into_iter().collect();
    // Intel's launcher binds unless it is told not to; nobody else reads this.
    if kind == Kind::Hydra && is_set("I_MPI_ROOT") && !is_set("I_MPI_PIN") {
        env.push(("I_MPI_PIN".to_owned(), "0".to_owned()));
    }
    Ok(Planned {
        name: job.name.clone(),
        ranks: all_ranks(job),
        directory,
        there: None,
        forwards: is_srun,
        before,
        launcher,
        program,
        more,
        env,
        unset: place
            .variables
            .iter()
            .filter(|name| is_foreign(name) || is_of_prte(name, &place.variables) || is_srun && is_said_again(name))
            .cloned()
            .collect(),
        cores,
        after: job.after.clone(),
        on_death: job.on_death,
        restart: job.restart,
        restarts: job.restarts,
    })
}

/// What its own host has to look at is not looked at here.
fn planned_there(job: &Job, there: There) -> Planned {
    Planned {
        name: job.name.clone(),
        ranks: job.ranks,
        directory: "/".into(),
        there: Some(there),
        forwards: false,
        before: Vec::new(),
        launcher: Vec::new(),
        program: job.program.clone(),
        more: Vec::new(),
        env: Vec::new(),
        unset: Vec::new(),
        cores: None,
        after: job.after.clone(),
        on_death: job.on_death,
        restart: job.restart,
        restarts: job.restarts,
    }
}

/// How a launcher has several programs.
#[derive(Clone, Copy, PartialEq)]
enum Several {
    /// There is only one.
    No,
    /// Each behind a `:`, with its number of ranks.
    Contexts,
    /// One that becomes each of them.
    InOne,
}

impl Several {
    fn of(job: &Job, kind: Kind, word: &str) -> Several {
        let is_filled = word == "{program}" || job.launcher.iter().any(|word| word == "{program}");
        match kind {
            _ if job.more.is_empty() => Several::No,
            Kind::Hydra | Kind::Orte | Kind::Prte if !is_filled => Several::Contexts,
            _ => Several::InOne,
        }
    }
}

fn all_ranks(job: &Job) -> usize {
    job.ranks + job.more.iter().map(|more| more.ranks).sum::<usize>()
}

fn context(program: &choice::Program) -> (Vec<String>, Vec<String>) {
    let mut before = [":".into(), "-np".into(), program.ranks.to_string()].to_vec();
    if let Some(directory) = &program.directory {
        before.extend(["-wdir".into(), directory.clone()]);
    }
    (before, program.words.clone())
}

/// The cores that two jobs on one host both ask for.
fn shared(job: &Job, other: &Job) -> Option<String> {
    let (Some(Cores::These(these)), Some(Cores::These(those))) = (&job.cores, &other.cores) else { return None };
    let both = these & those;
    (!both.is_empty()).then(|| format!("job '{}': job '{}' has cores {} too", job.name, other.name, cores::text(&both)))
}

/// Where the launcher is among its words: behind what only wraps it.
fn position(words: &[String]) -> usize {
    let is_launcher = |word: &String| {
        let name = Path::new(word).file_name().map(|name| name.to_string_lossy().into_owned());
        name.is_some_and(|name| launcher::is_launcher_name(&name))
    };
    words.iter().position(is_launcher).unwrap_or(0)
}

/// The launcher's words with the number of ranks in them, and [`None`] for the program.
fn words(job: &Job, at: usize, kind: Kind, share: &Share) -> Result<Vec<Option<String>>, Wrong> {
    let is_one = Several::of(job, kind, &job.launcher[at]) != Several::Contexts;
    let ranks = if is_one { all_ranks(job) } else { job.ranks }.to_string();
    let words = &job.launcher[at..];
    if words == ["{program}"] && all_ranks(job) != 1 {
        return Err(("ranks", format!("ranks = {ranks}: without a launcher one process is started, so ranks = 1")));
    }
    let has = |inner: &str| words.iter().any(|word| word.contains(inner));
    if has("{nodes}") && share.nodes.is_none() {
        let what = "launcher: {nodes} is filled in where the job has nodes of an allocation of Slurm";
        return Err(("launcher", what.into()));
    }
    if has("{program}") {
        if share.nodes.is_some() && !has("{nodes}") {
            return Err(("slurm", "slurm: the launcher has to say where the nodes go: {nodes}".into()));
        }
        let nodes = share.nodes.as_deref().unwrap_or_default().join(",");
        let fill = |word: &String| word.replace("{ranks}", &ranks).replace("{nodes}", &nodes);
        return Ok(words.iter().map(|word| (word != "{program}").then(|| fill(word))).collect());
    }
    if matches!(kind, Kind::Plain | Kind::Unknown) {
        let what = format!(
            "launcher: {} is no launcher that is known here; say where ranks and program go: \"{} -n {{ranks}} {{program}}\"",
            words[0],
            words.join(" ")
        );
        return Err(("launcher", what));
    }
    if let Some(said) = words.iter().find(|word| ["-n", "-np", "--np", "-c", "--ntasks"].contains(&word.as_str())) {
        // With LAM's and Open MPI's launchers -c is a number of ranks too; with srun it is one of cores.
        if said != "-c" || matches!(kind, Kind::Lam | Kind::Orte) {
            let what = format!("launcher: {said} stands there, and the number of ranks is added by itself: {ranks}");
            return Err(("launcher", what));
        }
    }
    let mut all = vec![words[0].clone()];
    // Launchers do not know of each other: each would bind its ranks to the first cores.
    if matches!(kind, Kind::Orte | Kind::Prte) && !words.iter().any(|word| word.contains("bind-to")) {
        all.extend(["--bind-to".into(), "none".into()]);
    }
    all.extend(nodes(job, kind, share, words).map_err(|what| ("slurm", what))?);
    all.extend_from_slice(&words[1..]);
    all.extend([if kind == Kind::Slurm { "-n" } else { "-np" }.into(), ranks]);
    Ok(all.into_iter().map(Some).chain([None]).collect())
}

/// The words by which a launcher is told of its part of an allocation. They come first, so what the manifest says counts.
fn nodes(job: &Job, kind: Kind, share: &Share, words: &[String]) -> Result<Vec<String>, String> {
    let mut all = Vec::new();
    if kind == Kind::Slurm {
        all.extend(share.component.map(|component| format!("--het-group={component}")));
        if let Some(nodes) = &share.nodes {
            all.extend([format!("--nodes={}", nodes.len()), format!("--nodelist={}", nodes.join(","))]);
        }
        // The second step would wait for the end of the first.
        let says = |word: &String| ["--overlap", "--exact", "--exclusive"].iter().any(|own| word.starts_with(own));
        if share.is_shared && !words.iter().any(says) {
            all.push("--overlap".into());
        }
        return Ok(all);
    }
    if share.component.is_some_and(|component| component > 0) {
        return Err("slurm: only srun reaches a component of a heterogeneous job that is not its first".into());
    }
    let Some(nodes) = &share.nodes else { return Ok(all) };
    let each = all_ranks(job).div_ceil(nodes.len());
    match kind {
        Kind::Orte | Kind::Prte => {
            let list: Vec<String> = nodes.iter().map(|node| format!("{node}:{each}")).collect();
            all.extend(["--host".into(), list.join(",")]);
        }
        Kind::Hydra => all.extend(["-hosts".into(), nodes.join(","), "-ppn".into(), each.to_string()]),
        _ => return Err("slurm: LAM's launcher goes where lamboot has said, so nodes cannot be given to it".into()),
    }
    Ok(all)
}

/// Whether there is such a program, as the launcher will look for it.
fn program(word: &str, directory: &Path, path: &OsStr) -> Result<(), String> {
    let here = directory.join(word);
    find(word, directory, path).map(|_| ()).map_err(|e| match e {
        // It is taken for a command line.
        FindError::Missing(_) if word.contains(char::is_whitespace) => {
            let quote = if super::manifest::words(word).is_none() { ", in which a quote is not closed" } else { "" };
            format!("program: there is no program {word:?}{quote}; arguments are texts of their own: [\"./air\", \"namelist\"]")
        }
        FindError::Missing(_) if word.contains('/') => format!("there is no program {word} in {}", directory.display()),
        // Launchers look in PATH only.
        FindError::Missing(_) if here.is_file() => {
            format!("program: '{word}' is not in PATH; write ./{word} for the one in its directory")
        }
        e => format!("program: {e}"),
    })
}

fn find(word: &str, directory: &Path, path: &OsStr) -> Result<PathBuf, FindError> {
    launcher::find_in(&told(word, directory), path)
}

/// A path counts from the directory, where the job is started; a name does not.
fn told(word: &str, directory: &Path) -> OsString {
    if word.contains('/') { directory.join(word).into_os_string() } else { word.into() }
}

/// What may be meant instead.
fn found(path: &OsStr) -> String {
    let names = env::split_paths(path).filter_map(|folder| fs::read_dir(folder).ok()).flatten().filter_map(|entry| {
        let name = entry.ok()?.file_name().into_string().ok()?;
        launcher::is_launcher_name(&name).then_some(name)
    });
    let names: BTreeSet<String> = names.collect();
    if names.is_empty() {
        return "there is no launcher in PATH".into();
    }
    format!("launchers in PATH: {}", names.into_iter().collect::<Vec<_>>().join(", "))
}

/// Whether a variable says to `srun` of a whole allocation what each job says for itself.
fn is_said_again(name: &str) -> bool {
    ["SLURM_NTASKS", "SLURM_NPROCS", "SLURM_NTASKS_PER_NODE", "SLURM_DISTRIBUTION"].contains(&name)
}

/// Whether mpirun of Open MPI 5 has set a variable for its ranks that says where that Open MPI is. Under it mpirun of Open MPI 4 does not know its own
/// options; that of Open MPI 5 finds itself.
fn is_of_prte(name: &str, variables: &[String]) -> bool {
    name == "OPAL_PREFIX" && variables.iter().any(|other| other == "PRTE_LAUNCHED")
}

/// Whether a variable makes a process a rank, or a step, of somebody else's: a launcher that inherits it takes itself for one. What
/// tells of an allocation stays, since launchers ask it for nodes.
fn is_foreign(name: &str) -> bool {
    const BEGIN: [&str; 14] = [
        "PMI_",
        "PMIX_",
        "PMI2_",
        "HYDI_",
        "HYDRA_",
        "MPI_LOCAL",
        "OMPI_COMM_WORLD_",
        "OMPI_MCA_ess",
        "OMPI_MCA_orte_ess_",
        "OMPI_MCA_pmix",
        "PRTE_MCA_ess",
        "SLURM_STEP",
        "SLURM_SRUN_",
        "SLURM_CPU_BIND",
    ];
    const WHOLE: [&str; 27] = [
        "OMPI_APP_CTX_NUM_PROCS",
        "OMPI_ARGV",
        "OMPI_COMMAND",
        "OMPI_FILE_LOCATION",
        "OMPI_FIRST_RANKS",
        "OMPI_NUM_APP_CTX",
        "OMPI_UNIVERSE_SIZE",
        "OMPI_MCA_initial_wdir",
        "OMPI_MCA_mpi_yield_when_idle",
        "OMPI_MCA_orte_app_num",
        "OMPI_MCA_orte_bound_at_launch",
        "OMPI_MCA_orte_hnp_uri",
        "OMPI_MCA_orte_jobfam_session_dir",
        "OMPI_MCA_orte_launch",
        "OMPI_MCA_orte_local_daemon_uri",
        "OMPI_MCA_orte_num_nodes",
        "OMPI_MCA_orte_precondition_transports",
        "OMPI_MCA_orte_tmpdir_base",
        "OMPI_MCA_orte_top_session_dir",
        "LAMRANK",
        "LAMWORLD",
        "LAMPARENT",
        "SLURM_GTIDS",
        "SLURM_LOCALID",
        "SLURM_NODEID",
        "SLURM_PROCID",
        "SLURM_TASK_PID",
    ];
    BEGIN.iter().any(|begin| name.starts_with(begin)) || WHOLE.contains(&name) || [LAUNCH, PARENT].contains(&name)
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
