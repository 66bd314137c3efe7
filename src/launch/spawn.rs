//! `mpi-connect launch-spawned`: a job that a process asks for by MPI_Comm_spawn, as a manifest of one job.
//!
//! The library runs this with a socket as standard input, which has the request and stays with the parent. What is started is
//! apart from that process: a process group of its own, none of its descriptors, and nobody's child to be waited for.

use super::choice;
use super::manifest::{self, Job, Manifest, OnDeath, Problem};
use base::settings::PARENT;
use base::spawn::{Program, Request};
use nix::unistd::close;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

#[derive(clap::Args)]
pub struct Args {
    /// Stay, and watch over the job
    #[arg(long)]
    pub supervise: bool,
}

/// The name of a job that no manifest has.
const NAME: &str = "spawned";

/// Starts this command anew, and does not wait for it.
pub fn apart() -> io::Result<()> {
    let entries = fs::read_dir("/proc/self/fd")?;
    let open: Vec<i32> = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
    for number in open.into_iter().filter(|number| *number > 2) {
        // That of the folder itself is closed already.
        let _ = close(number);
    }
    let mut command = Command::new(env::current_exe()?);
    command.args(["launch-spawned", "--supervise"]).process_group(0).spawn().map(drop)
}

/// The manifest of a request, and the path from whose folder its paths count. `here`: where the parent is.
pub fn manifest(request: &Request, command: &str, here: &Path) -> Result<(Manifest, PathBuf), String> {
    let (manifest, path) = match (&request.manifest, &request.launcher) {
        (Some(_), Some(_)) => {
            return Err("mpi_connect_launcher and mpi_connect_manifest: one of them is expected".into());
        }
        (Some(file), None) => {
            let path = here.join(file);
            let text =
                fs::read_to_string(&path).map_err(|e| format!("mpi_connect_manifest: {}: {e}", path.display()))?;
            (manifest::read(&text).map_err(|problems| said(&path.display().to_string(), &problems))?, path)
        }
        (None, _) if request.job.is_some() => {
            return Err("mpi_connect_job: mpi_connect_manifest is needed with it".into());
        }
        (None, launcher) => {
            let launcher = launcher.as_deref().unwrap_or_default();
            let text = format!(
                "[job.{NAME}]\nlauncher = {}\nranks = 1\nprogram = [\"-\"]\n",
                serde_json::Value::from(launcher)
            );
            (manifest::read(&text).map_err(|problems| said("", &problems))?, here.join(NAME))
        }
    };
    let names = || manifest.jobs.iter().map(|job| format!("'{}'", job.name)).collect::<Vec<_>>().join(", ");
    let job = match &request.job {
        Some(name) => manifest.jobs.iter().find(|job| job.name == *name),
        None if manifest.jobs.len() == 1 => manifest.jobs.first(),
        None => return Err(format!("mpi_connect_job is needed: {} has the jobs {}", path.display(), names())),
    };
    let missing = || format!("mpi_connect_job: {} has no such job; it has {}", path.display(), names());
    let mut job = job.cloned().ok_or_else(missing)?;
    // What is between jobs of a manifest does not concern one alone.
    (job.after, job.restart, job.on_death) = (Vec::new(), None, OnDeath::End);
    job.env.insert(PARENT.into(), request.port.clone());
    job.host = request.host.clone().filter(|host| *host != naming::host() && host != "localhost").or(job.host);
    if job.host.is_some() && matches!(job.cores, Some(super::cores::Cores::Some(_))) {
        return Err("cores: on another host a list is needed, such as \"0-3\"".into());
    }
    put_programs(&mut job, &request.programs, path.parent().unwrap_or(here), here, command)?;
    Ok((Manifest { jobs: vec![job], ..manifest }, path))
}

/// The programs of the call in place of the manifest's.
fn put_programs(job: &mut Job, programs: &[Program], folder: &Path, here: &Path, command: &str) -> Result<(), String> {
    // Without a word a job is where its parents are, or where the manifest says.
    let stated = job.directory.as_ref().map(|directory| folder.join(directory));
    let mut all = Vec::new();
    for program in programs {
        let directory = program.directory.as_ref().map(|directory| here.join(directory)).or_else(|| stated.clone());
        let directory = directory.unwrap_or_else(|| here.to_owned());
        let mut words = program.words.clone();
        if words[0].is_empty() {
            if job.at.begin == 0 || job.program == ["-"] {
                return Err("the program has no name".into());
            }
            let own = std::mem::take(&mut words);
            words.extend(job.program.iter().cloned().chain(own.into_iter().skip(1)));
        }
        words[0] = found(&words[0], program.path.as_deref(), &directory);
        let directory = Some(directory.display().to_string());
        all.push(choice::Program { ranks: program.ranks as usize, directory, words });
    }
    let Some((first, more)) = all.split_first() else { return Err("there is no program".into()) };
    job.directory = first.directory.clone();
    job.ranks = first.ranks;
    job.program = first.words.clone();
    job.more = more.to_vec();
    // The other end knows of no more than one.
    if job.host.is_some() && !more.is_empty() {
        job.ranks = all.iter().map(|program| program.ranks).sum();
        job.program = choice::words(command, &all);
        job.more = Vec::new();
    }
    Ok(())
}

/// A program in one of these folders, or as a launcher looks for it: a path with a `/` counts from the directory.
fn found(word: &str, path: Option<&str>, directory: &Path) -> String {
    if word.contains('/') {
        return directory.join(word).display().to_string();
    }
    let folders = path.unwrap_or_default().split(':').filter(|folder| !folder.is_empty());
    let mut places = folders.map(|folder| directory.join(folder).join(word));
    places.find(|place| place.is_file()).map_or_else(|| word.to_owned(), |place| place.display().to_string())
}

/// All that is wrong, on one line.
pub fn said(file: &str, problems: &[Problem]) -> String {
    let one = |problem: &Problem| {
        let what = problem.what.strip_prefix(&format!("job '{NAME}': ")).unwrap_or(&problem.what);
        match problem.line {
            _ if file.is_empty() => what.to_owned(),
            0 => format!("{file}: {what}"),
            line => format!("{file}:{line}: {what}"),
        }
    };
    problems.iter().map(one).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(word: &str, ranks: u32) -> Program {
        Program { words: vec![word.into()], ranks, ..Program::default() }
    }

    fn made(request: &Request) -> Result<Job, String> {
        manifest(request, "/bin/mpi-connect", Path::new("/home")).map(|(manifest, _)| manifest.jobs[0].clone())
    }

    #[test]
    fn a_launcher_is_enough() {
        let launcher = Some("mpirun.mpich -ppn 1".to_owned());
        let mut request =
            Request { port: "mpic:x".into(), launcher, programs: vec![program("./a", 2)], ..Request::default() };
        let job = made(&request).unwrap();
        assert_eq!(job.launcher, ["mpirun.mpich", "-ppn", "1"]);
        assert_eq!((job.ranks, job.program, job.directory), (2, vec!["/home/./a".to_owned()], Some("/home".into())));
        assert_eq!(job.env[PARENT], "mpic:x");
        request.programs.push(program("b", 3));
        request.programs[1].directory = Some("/tmp".into());
        assert_eq!(made(&request).unwrap().more[0].ranks, 3);
        request.host = Some("n1".into());
        let job = made(&request).unwrap();
        assert_eq!((job.ranks, job.more.len(), job.program[1].as_str()), (5, 0, "launch-choice"));
    }

    #[test]
    fn what_is_wrong_is_said() {
        let request = Request { launcher: Some("'".into()), programs: vec![program("a", 1)], ..Request::default() };
        assert_eq!(made(&request).unwrap_err(), "launcher: a quote is not closed: '");
        let both = Request { manifest: Some("x.toml".into()), ..request.clone() };
        assert!(made(&both).unwrap_err().contains("one of them is expected"));
        let none = Request { launcher: None, manifest: Some("/no/such.toml".into()), ..request };
        assert!(made(&none).unwrap_err().starts_with("mpi_connect_manifest: /no/such.toml: "));
    }
}
