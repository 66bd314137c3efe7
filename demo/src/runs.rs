//! Compiles plate.c and runs it, as a user would.

use crate::plate::{HEIGHT, WIDTH};
use c_tests::{Mpi, root};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(120);

/// What one program gave.
pub struct Part {
    /// Temperatures, row by row.
    pub values: Vec<f64>,
    /// The MPI that it had, by its own word.
    pub mpi: String,
}

/// The plate solved by one program. It knows nothing of other jobs.
pub fn whole(mpi: &Mpi, folder: &Path) -> Result<Part, String> {
    let program = compile(mpi, folder, false)?;
    let out = folder.join("whole.bin");
    let run = Run::start(mpi, &program, "whole", &out, None)?;
    wait([run])?;
    read(&out, WIDTH)
}

/// The two halves, solved by two programs.
pub fn halves(left: &Mpi, right: &Mpi, folder: &Path) -> Result<[Part; 2], String> {
    // A folder of names for this run alone: two demos at once do not meet.
    let naming = format!("file:{}", folder.join(format!("names-{}", std::process::id())).display());
    let outs = ["left.bin", "right.bin"].map(|n| folder.join(n));
    let programs = [compile(left, folder, true)?, compile(right, folder, true)?];
    let a = Run::start(left, &programs[0], "left", &outs[0], Some(&naming))?;
    let b = Run::start(right, &programs[1], "right", &outs[1], Some(&naming))?;
    let result = wait([a, b]);
    let _ = std::fs::remove_dir_all(naming.trim_start_matches("file:"));
    result?;
    Ok([read(&outs[0], WIDTH / 2)?, read(&outs[1], WIDTH / 2)?])
}

/// What has been built with this program lies beside it.
fn beside(name: &str) -> Result<PathBuf, String> {
    let path = std::env::current_exe().map_err(|e| e.to_string())?.with_file_name(name);
    if path.exists() { Ok(path) } else { Err(format!("{} is not there: run `make demo`", path.display())) }
}

fn compile(mpi: &Mpi, folder: &Path, coupled: bool) -> Result<PathBuf, String> {
    let program = folder.join(format!("plate-{}{}", mpi.name, if coupled { "-coupled" } else { "" }));
    let [words, last] = mpi.compiler();
    let mut compiler = Command::new(&words[0]);
    compiler.args(&words[1..]);
    // Contraction would let the compiler round differently in different loops.
    compiler.args(["-std=gnu11", "-O2", "-ffp-contract=off", "-Wall", "-Wextra", "-o"]).arg(&program);
    compiler.arg(root().join("demo/plate.c"));
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

/// One program under its launcher; killed when dropped before its end.
struct Run {
    title: String,
    child: Child,
}

impl Run {
    /// With `naming`, through `mpi-connect run`.
    fn start(mpi: &Mpi, program: &Path, part: &str, out: &Path, naming: Option<&str>) -> Result<Run, String> {
        // What an earlier run left would be taken for this one's.
        let _ = std::fs::remove_file(out);
        let mut run = Vec::new();
        if let Some(naming) = naming {
            run.push(beside("mpi-connect")?.display().to_string());
            run.extend(["run", "--naming", naming, "--"].map(String::from));
        }
        let mut words = mpi.launcher(&run, &[], 2);
        words.extend([&program.display().to_string(), part, &out.display().to_string()].map(String::from));
        println!("  $ {}", words.join(" "));
        let mut launcher = mpi.command(&words);
        launcher.stdin(std::process::Stdio::null());
        let child = launcher.spawn().map_err(|e| format!("{}: {e}", words[0]))?;
        Ok(Run { title: part.to_owned(), child })
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            // The launcher ends its ranks when it is asked to end, not when it is killed.
            let _ = Command::new("kill").arg(self.child.id().to_string()).status();
            let _ = self.child.wait();
        }
    }
}

fn wait<const N: usize>(mut runs: [Run; N]) -> Result<(), String> {
    let end = Instant::now() + LIMIT;
    loop {
        let mut left = 0;
        for run in &mut runs {
            match run.child.try_wait().map_err(|e| e.to_string())? {
                None => left += 1,
                Some(status) if status.success() => (),
                Some(status) => return Err(format!("{} ended with {status}", run.title)),
            }
        }
        if left == 0 {
            return Ok(());
        }
        if Instant::now() > end {
            return Err(format!("not done within {LIMIT:?}"));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
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
