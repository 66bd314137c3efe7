//! Compiles plate.c and runs it, as a user would.

use crate::{HEIGHT, WIDTH};
use c_tests::{Mpi, command, library, root};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(120);

/// Temperatures of the plate solved by one program. It knows nothing of other jobs.
pub fn whole(mpi: &Mpi, folder: &Path) -> Result<Vec<f64>, String> {
    let program = compile(mpi, folder, false)?;
    let out = folder.join("whole.bin");
    let run = Run::start(mpi, &program, "whole", &out, None)?;
    wait([run])?;
    read(&out, WIDTH)
}

/// Temperatures of the two halves, solved by two programs.
pub fn halves(left: &Mpi, right: &Mpi, folder: &Path) -> Result<(Vec<f64>, Vec<f64>), String> {
    // A folder of names for this run alone: two demos at once do not meet.
    let naming = format!("file:{}", folder.join(format!("names-{}", std::process::id())).display());
    let outs = ["left.bin", "right.bin"].map(|n| folder.join(n));
    let programs = [compile(left, folder, true)?, compile(right, folder, true)?];
    let a = Run::start(left, &programs[0], "left", &outs[0], Some(&naming))?;
    let b = Run::start(right, &programs[1], "right", &outs[1], Some(&naming))?;
    let result = wait([a, b]);
    let _ = std::fs::remove_dir_all(naming.trim_start_matches("file:"));
    result?;
    Ok((read(&outs[0], WIDTH / 2)?, read(&outs[1], WIDTH / 2)?))
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
        let library = library();
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
            run.push(command().display().to_string());
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

fn read(path: &Path, columns: usize) -> Result<Vec<f64>, String> {
    let bytes = std::fs::read(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let values: Vec<f64> =
        bytes.chunks_exact(8).map(|b| f64::from_ne_bytes(b.try_into().expect("eight bytes"))).collect();
    if bytes.len() == columns * HEIGHT * 8 {
        Ok(values)
    } else {
        Err(format!("{}: {} bytes, not {}", path.display(), bytes.len(), columns * HEIGHT * 8))
    }
}
