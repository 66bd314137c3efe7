//! Compiles plate.c and runs it, as a user would.

use crate::plate::{HEIGHT, WIDTH};
use c_tests::{Marked, Mpi, root, user, wait_until};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(120);
/// The variable by which the processes of the demo are known.
const MARK: &str = "PLATE_DEMO";
/// The names of the halves.
const HALVES: [&str; 2] = ["left", "right"];

/// How far a plate is solved.
#[derive(Clone, Copy)]
pub struct Steps(pub u32);

impl Steps {
    /// The steps between two checkpoints, of the left half and of the right one.
    pub fn between_checkpoints(self) -> [u32; 2] {
        [self.0 / 20, self.0 * 3 / 40]
    }

    /// Both halves are killed when the left one has said that it is there.
    fn middle(self) -> u32 {
        self.0 / 2
    }
}

/// What one program gave.
pub struct Part {
    /// Temperatures, row by row.
    pub values: Vec<f64>,
    /// The MPI that it had, by its own word.
    pub mpi: String,
}

/// The plate solved by one program. It knows nothing of other jobs.
pub fn whole(mpi: &Mpi, steps: Steps, folder: &Path) -> Result<Part, String> {
    let program = compile(mpi, steps, folder, false)?;
    let out = folder.join("whole.bin");
    let place = Place::new(folder)?;
    wait(&mut [place.start(mpi, &program, "whole", &out, &[])?])?;
    read(&out, WIDTH)
}

/// The two halves, solved by two programs.
pub fn halves(mpis: [&Mpi; 2], steps: Steps, folder: &Path) -> Result<[Part; 2], String> {
    let place = Place::new(folder)?;
    wait(&mut place.start_halves(mpis, steps, folder, false)?)?;
    read_halves(folder)
}

/// The same with checkpoints. Both are killed in the middle, and each goes on under the other's MPI.
pub fn killed_halves(mpis: [&Mpi; 2], steps: Steps, folder: &Path) -> Result<[Part; 2], String> {
    let place = Place::new(folder)?;
    let mut halves = place.start_halves(mpis, steps, folder, true)?;
    let is_there = |line: &str| {
        let mut words = line.split_whitespace();
        words.next() == Some("step") && words.next().and_then(|step| step.parse().ok()) >= Some(steps.middle())
    };
    let is_over = |run: &mut Run| run.child.try_wait().is_ok_and(|status| status.is_some());
    let is_due = |halves: &[Run; 2]| halves[0].said(is_there) && place.has_checkpoints();
    wait_until(LIMIT, || is_due(&halves) || halves.iter_mut().any(is_over));
    if !is_due(&halves) {
        return Err(format!("the halves did not come to step {} and to a checkpoint of both", steps.middle()));
    }
    let killed = place.marked.processes("").len();
    if !place.marked.kill("") {
        return Err("the halves do not die".into());
    }
    drop(halves);
    println!("Both are killed (SIGKILL): {killed} processes. Their checkpoints:");
    let command = beside("mpi-connect")?;
    println!("  $ {} checkpoint ls {}", command.display(), place.checkpoints.display());
    let listed = Command::new(command).arg("checkpoint").arg("ls").arg(&place.checkpoints).status();
    if !listed.is_ok_and(|status| status.success()) {
        return Err("the checkpoints are not all whole".into());
    }
    let [left, right] = mpis;
    println!("Each goes on under the other's MPI: left half under {}; right half under {}", right.name, left.name);
    let mut halves = place.start_halves([right, left], steps, folder, true)?;
    wait(&mut halves)?;
    if !halves.iter().all(|half| half.said(|line| line.contains("goes on from"))) {
        return Err("the halves have begun anew".into());
    }
    read_halves(folder)
}

/// What has been built with this program lies beside it.
fn beside(name: &str) -> Result<PathBuf, String> {
    // A test names the folder; its own program lies elsewhere.
    let path = match std::env::var_os("MPI_CONNECT_TEST_BUILDS") {
        Some(_) => c_tests::release().join(name),
        None => std::env::current_exe().map_err(|e| e.to_string())?.with_file_name(name),
    };
    if path.exists() { Ok(path) } else { Err(format!("{} is not there: run `make demo`", path.display())) }
}

fn compile(mpi: &Mpi, steps: Steps, folder: &Path, coupled: bool) -> Result<PathBuf, String> {
    let program = folder.join(format!("plate-{}{}", mpi.name, if coupled { "-coupled" } else { "" }));
    let [words, last] = mpi.compiler();
    let mut compiler = Command::new(&words[0]);
    compiler.args(&words[1..]);
    // Contraction would let the compiler round differently in different loops.
    compiler.args(["-std=gnu11", "-O2", "-ffp-contract=off", "-Wall", "-Wextra", "-o"]).arg(&program);
    compiler.arg(format!("-DSTEPS={}", steps.0)).arg(root().join("demo/plate.c"));
    if coupled {
        let library = beside("libmpi_connect.so")?;
        let lib = library.parent().expect("a folder").display();
        compiler.arg("-DCOUPLED").arg(format!("-I{}", root().join("include").display()));
        compiler.args([format!("-L{lib}"), format!("-Wl,-rpath,{lib}"), "-lmpi_connect".into()]);
    }
    let status =
        compiler.args(last).arg("-lm").status().map_err(|e| format!("{}: {e}: run `scripts/provision`", words[0]))?;
    if status.success() { Ok(program) } else { Err(format!("{} failed", words[0])) }
}

/// Where the programs meet, and how their processes are known.
struct Place {
    marked: Marked,
    folder: PathBuf,
    checkpoints: PathBuf,
    naming: String,
}

impl Place {
    /// For this run alone: two demos at once do not meet.
    fn new(folder: &Path) -> Result<Place, String> {
        let folder = folder.join(format!("run-{}", std::process::id()));
        let [checkpoints, temporary] = ["checkpoints", "tmp"].map(|name| folder.join(name));
        let _ = std::fs::remove_dir_all(&folder);
        for made in [&folder, &checkpoints, &temporary] {
            std::fs::create_dir(made).map_err(|e| format!("{}: {e}", made.display()))?;
            user::give(made);
        }
        let naming = format!("file:{}", folder.join("names").display());
        Ok(Place { marked: Marked::new(MARK, folder.display().to_string()), folder, checkpoints, naming })
    }

    fn start_halves(
        &self,
        mpis: [&Mpi; 2],
        steps: Steps,
        folder: &Path,
        checkpoints: bool,
    ) -> Result<[Run; 2], String> {
        let programs = [compile(mpis[0], steps, folder, true)?, compile(mpis[1], steps, folder, true)?];
        let start = |half: usize| {
            let out = folder.join(HALVES[half]).with_extension("bin");
            let folder = self.checkpoints.display().to_string();
            let every = steps.between_checkpoints()[half].to_string();
            let words = if checkpoints { &[folder.as_str(), every.as_str()][..] } else { &[] };
            self.start(mpis[half], &programs[half], HALVES[half], &out, words)
        };
        Ok([start(0)?, start(1)?])
    }

    /// Whether both halves have a complete line.
    fn has_checkpoints(&self) -> bool {
        HALVES.iter().all(|half| {
            let lines = std::fs::read_dir(self.checkpoints.join(half)).into_iter().flatten();
            let mut names = lines.filter_map(|line| line.ok()?.file_name().into_string().ok());
            names.any(|name| name.starts_with("line-") && !name.ends_with(".part"))
        })
    }

    /// A half goes through `mpi-connect run`. `more`: what its program is told besides.
    fn start(&self, mpi: &Mpi, program: &Path, part: &str, out: &Path, more: &[&str]) -> Result<Run, String> {
        // What an earlier run left would be taken for this one's.
        let _ = std::fs::remove_file(out);
        let mut run = Vec::new();
        if HALVES.contains(&part) {
            run.push(beside("mpi-connect")?.display().to_string());
            run.extend(["run", "--naming", &self.naming, "--"].map(String::from));
        }
        let mut words = mpi.launcher(&run, &[], 2);
        words.extend([&program.display().to_string(), part, &out.display().to_string()].map(String::from));
        words.extend(more.iter().map(|word| word.to_string()));
        println!("  $ {}", words.join(" "));
        let mut launcher = mpi.command(&words);
        launcher.env(self.marked.variable, &self.marked.value);
        if mpi.keeps_files() {
            launcher.env("TMPDIR", self.folder.join("tmp"));
        }
        launcher.stdin(Stdio::null()).stdout(Stdio::piped());
        let child = launcher.spawn().map_err(|e| format!("{}: {e}", words[0]))?;
        Ok(Run::of(part, child))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// One program under its launcher; killed when dropped before its end.
struct Run {
    title: String,
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
    reader: Option<JoinHandle<()>>,
}

impl Run {
    /// What it prints is shown, and kept.
    fn of(title: &str, mut child: Child) -> Run {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let reader = child.stdout.take().map(|out| {
            let lines = lines.clone();
            std::thread::spawn(move || {
                for line in BufReader::new(out).lines().map_while(Result::ok) {
                    println!("{line}");
                    lines.lock().unwrap_or_else(PoisonError::into_inner).push(line);
                }
            })
        });
        Run { title: title.to_owned(), child, lines, reader }
    }

    /// Whether it has printed such a line.
    fn said(&self, is_meant: impl Fn(&str) -> bool) -> bool {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).iter().any(|line| is_meant(line))
    }

    /// Has all that it printed shown.
    fn end(&mut self) {
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            // The launcher ends its ranks when it is asked to end, not when it is killed.
            let _ = Command::new("kill").arg(self.child.id().to_string()).status();
            let _ = self.child.wait();
        }
        self.end();
    }
}

fn wait(runs: &mut [Run]) -> Result<(), String> {
    let end = Instant::now() + LIMIT;
    loop {
        let mut left = 0;
        for run in runs.iter_mut() {
            match run.child.try_wait().map_err(|e| e.to_string())? {
                None => left += 1,
                Some(status) if status.success() => (),
                Some(status) => return Err(format!("{} ended with {status}", run.title)),
            }
        }
        if left == 0 {
            runs.iter_mut().for_each(Run::end);
            return Ok(());
        }
        if Instant::now() > end {
            return Err(format!("not done within {LIMIT:?}"));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn read_halves(folder: &Path) -> Result<[Part; 2], String> {
    let half = |name: &str| read(&folder.join(name).with_extension("bin"), WIDTH / 2);
    Ok([half(HALVES[0])?, half(HALVES[1])?])
}

fn read(path: &Path, columns: usize) -> Result<Part, String> {
    let bytes = std::fs::read(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let size = columns * HEIGHT * 8;
    let Some((values, version)) = bytes.split_at_checked(size) else {
        return Err(format!("{}: {} bytes, not {size} and more", path.display(), bytes.len()));
    };
    let values = values.chunks_exact(8).map(|b| f64::from_ne_bytes(b.try_into().expect("eight bytes"))).collect();
    Ok(Part { values, mpi: title(&String::from_utf8_lossy(version)) })
}

/// The name and the number in what `MPI_Get_library_version` says.
fn title(version: &str) -> String {
    let first = version.split(['\n', ',']).next().unwrap_or_default();
    let words = first.split_whitespace().filter(|w| !["Version:", "Library"].contains(w));
    let words: Vec<_> = words.take_while(|w| *w != "for").map(|w| w.trim_end_matches("(R)")).collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::title;

    #[test]
    fn titles() {
        assert_eq!(title("Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4"), "Open MPI v4.1.4");
        assert_eq!(title("MPICH Version:      4.0.2\nMPICH Release date:\tThu Apr"), "MPICH 4.0.2");
        assert_eq!(title("Intel(R) MPI Library 2021.19 for Linux* OS\n"), "Intel MPI 2021.19");
        assert_eq!(title("LAM/MPI"), "LAM/MPI");
    }
}
