//! Who is measured, and one launch of each. For main and for the rows that are not alike for all (setup, IMB).
//!
//! Invariant: a launch ends within its limit, and nothing of it is left then.

use crate::settings::Effort;
use c_tests::{Done, Job, Launch, Library, Mpi, Scene, root, target, try_build};
use serde_json::Value;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Of one launch. The longest take some 30 s on a quiet machine.
const LIMIT: Duration = Duration::from_secs(240);

#[derive(Clone)]
pub struct Contestant {
    pub name: String,
    pub what: String,
    kind: Kind,
    environment: Vec<(&'static str, &'static str)>,
}

#[derive(Clone)]
enum Kind {
    Joined([&'static Mpi; 2]),
    Native(&'static Mpi),
    Pvm,
    Limit(&'static str),
    Tls,
}

/// What a program says of one value; without samples the unit is the reason.
pub struct Line {
    pub row: String,
    pub size: u64,
    pub unit: String,
    pub samples: Vec<f64>,
    /// How far the two cores were from each other before each sample and after the last, in ns a cache line; empty if that is not known.
    pub apart: Vec<f64>,
}

/// What the library goes by in all rows.
pub const SHM: &str = "ours";
pub const SHM_AGAIN: &str = "ours again";
pub const TCP: &str = "ours, TCP";
pub const TCP_AGAIN: &str = "ours, TCP, again";
pub const ENCRYPTED: &str = "ours, TCP, encrypted";
pub const ENCRYPTED_AGAIN: &str = "ours, TCP, encrypted, again";
pub const TLS: &str = "rustls";

/// What an MPI needs to be at its best within a host, beyond what it does by itself.
fn best(mpi: &Mpi) -> Vec<(&'static str, &'static str)> {
    match mpi.name {
        // It would go through its daemon's sockets or block on semaphores; this one polls.
        "lam" => vec![("LAM_MPI_SSI_rpi", "usysv")],
        "impi" | "impi-abi" => vec![("I_MPI_FABRICS", "shm")],
        "openmpi4" => vec![("OMPI_MCA_pml", "ob1"), ("OMPI_MCA_btl", "self,vader")],
        "openmpi5" => vec![("OMPI_MCA_pml", "ob1"), ("OMPI_MCA_btl", "self,sm")],
        _ => Vec::new(),
    }
}

impl Contestant {
    /// Two jobs that the library joins.
    pub fn ours(name: &str, pair: [&'static Mpi; 2], lanes: &'static str) -> Contestant {
        Contestant {
            name: name.into(),
            what: format!("this library, {} with {}, MPI_CONNECT_LANES={lanes}", pair[0].name, pair[1].name),
            kind: Kind::Joined(pair),
            // What the ranks tell would be carried to the screen beside the measurement.
            environment: vec![("MPI_CONNECT_LANES", lanes), ("MPI_CONNECT_LOG", "off")],
        }
    }

    /// The same over TCP, encrypted within the host too.
    pub fn encrypted(name: &str, pair: [&'static Mpi; 2]) -> Contestant {
        let mut all = Contestant::ours(name, pair, "tcp");
        all.what += ", MPI_CONNECT_ENCRYPT=always";
        all.environment.push(("MPI_CONNECT_ENCRYPT", "always"));
        all
    }

    pub fn native(mpi: &'static Mpi) -> Contestant {
        let environment = best(mpi);
        let said: Vec<_> = environment.iter().map(|(n, v)| format!(", {n}={v}")).collect();
        let what = format!("{} within one job{}", mpi.name, said.concat());
        Contestant { name: mpi.name.into(), what, kind: Kind::Native(mpi), environment }
    }

    /// Open MPI over loopback; None: another MPI.
    pub fn native_tcp(mpi: &'static Mpi) -> Option<Contestant> {
        mpi.name.starts_with("openmpi").then(|| Contestant {
            name: format!("{}, TCP", mpi.name),
            what: format!("{} within one job, --mca pml ob1 --mca btl tcp,self", mpi.name),
            kind: Kind::Native(mpi),
            environment: vec![
                ("OMPI_MCA_pml", "ob1"),
                ("OMPI_MCA_btl", "tcp,self"),
                ("OMPI_MCA_btl_tcp_if_include", "lo"),
            ],
        })
    }

    pub fn pvm() -> Contestant {
        let what = "two tasks of PVM, direct route, data in place".into();
        Contestant { name: "pvm".into(), what, kind: Kind::Pvm, environment: Vec::new() }
    }

    /// What encrypted TCP is compared with.
    pub fn tls() -> Contestant {
        let what = "rustls over loopback, TLS 1.3 with AES-256-GCM by aws-lc, nonblocking calls in a loop".into();
        Contestant { name: TLS.into(), what, kind: Kind::Tls, environment: Vec::new() }
    }

    /// What the machine gives without any MPI.
    pub fn limits() -> Vec<Contestant> {
        let all = [
            ("line", "a cache line that two processes share, polled"),
            ("memcpy", "memcpy by one process"),
            (
                "ring",
                "a ring in shared memory: one process copies a message into it part by part, the other one out of it; an answer goes where the message was",
            ),
            ("readv", "process_vm_readv, the other told by a cache line"),
            ("polling", "TCP over loopback, nonblocking calls in a loop"),
            ("blocking", "TCP over loopback, blocking calls"),
        ];
        let limit = |(name, what): (&'static str, &str)| Contestant {
            name: name.into(),
            what: what.into(),
            kind: Kind::Limit(name),
            environment: Vec::new(),
        };
        all.into_iter().map(limit).collect()
    }

    pub fn has_mpi(&self) -> bool {
        matches!(self.kind, Kind::Joined(_) | Kind::Native(_))
    }

    pub fn is_tls(&self) -> bool {
        matches!(self.kind, Kind::Tls)
    }

    pub fn is_native(&self) -> bool {
        matches!(self.kind, Kind::Native(_))
    }

    /// Compiles what it runs.
    pub fn build(&self) -> Result<(), String> {
        match self.kind {
            Kind::Joined(pair) => pair.iter().try_for_each(|mpi| program(mpi, "mpi", true).map(drop)),
            Kind::Native(mpi) => program(mpi, "mpi", false).map(drop),
            Kind::Pvm => plain("pvm", &["-lpvm3"]).map(drop),
            Kind::Limit(_) => plain("limits", &[]).map(drop),
            Kind::Tls => tls().map(drop),
        }
    }

    /// One launch: what it measured of these sections. PVM and the limits know the ping-pong alone.
    pub fn run(&self, scene: &Scene, sections: &[&str], effort: Effort) -> Result<Vec<Line>, String> {
        new_line(scene)?;
        let effort = effort.words();
        let effort = effort.each_ref().map(String::as_str);
        let start = |launch| self.start(scene, launch);
        let done = match self.kind {
            Kind::Joined(_) => self.join(scene, ("mpi", [1, 1]), &[&effort[..], sections].concat(), LIMIT)?.into(),
            Kind::Native(mpi) => {
                let words = [&["native", "-", "-"], &effort[..], sections].concat();
                let program = program(mpi, "mpi", false)?;
                Vec::from(wait(scene, [start(Launch::of(mpi, 2, program, Library::None, &words))], LIMIT)?)
            }
            Kind::Pvm => {
                // Its daemon leaves files where this says.
                let files = scene.folder.display().to_string();
                let launch = Launch::alone(&plain("pvm", &["-lpvm3"])?, &effort);
                let launch = launch.env("PVM_TMP", &files).env("PVM_ROOT", "/usr/lib/pvm3");
                Vec::from(wait(scene, [start(launch)], LIMIT)?)
            }
            Kind::Limit(which) => {
                let words = [&[which], &effort[..]].concat();
                Vec::from(wait(scene, [start(Launch::alone(&plain("limits", &[])?, &words))], LIMIT)?)
            }
            Kind::Tls => Vec::from(wait(scene, [start(Launch::alone(&tls()?, &effort))], LIMIT)?),
        };
        lines(&done)
    }

    /// One launch of bench/c/several.c: this kind, with so many ranks on each side.
    pub fn several(
        &self,
        scene: &Scene,
        (kind, ranks): (&str, [usize; 2]),
        effort: Effort,
    ) -> Result<Vec<Line>, String> {
        new_line(scene)?;
        let words = [&effort.words()[..], &[kind.to_owned()], &ranks.map(|n| n.to_string())].concat();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let done = match self.kind {
            Kind::Joined(_) => self.join(scene, ("several", ranks), &words, LIMIT)?.into(),
            Kind::Native(mpi) => {
                let words = [&["native", "-", "-"], &words[..]].concat();
                let program = program(mpi, "several", false)?;
                let launch = Launch::of(mpi, ranks.iter().sum(), program, Library::None, &words);
                Vec::from(wait(scene, [self.start(scene, launch)], LIMIT)?)
            }
            _ => return Err("it has no ranks".into()),
        };
        lines(&done)
    }

    /// One launch of two jobs that the library joins, of so many ranks: `PROGRAM joined OWN OTHER WORDS...`.
    pub fn join(
        &self,
        scene: &Scene,
        (name, ranks): (&str, [usize; 2]),
        words: &[&str],
        limit: Duration,
    ) -> Result<[Done; 2], String> {
        // Names of an earlier launch may still be there, of jobs that were killed.
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let Kind::Joined(pair) = self.kind else { return Err("it joins nothing".into()) };
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let names = ["air", "ocean"].map(|n| format!("{n}{count}"));
        let programs = [program(pair[0], name, true)?, program(pair[1], name, true)?];
        let start = |k: usize| {
            let words = [&["joined", &names[k], &names[1 - k]], words].concat();
            self.start(scene, Launch::of(pair[k], ranks[k], programs[k].clone(), Library::Preloaded, &words))
        };
        wait(scene, [start(0), start(1)], limit)
    }

    fn start(&self, scene: &Scene, launch: Launch<'_>) -> Job {
        let launch = launch.env("BENCH_LINE", &scene.path(LINE).display().to_string());
        scene.start(self.environment.iter().fold(launch, |launch, (name, value)| launch.env(name, value)))
    }
}

/// `bench/c/NAME.c` for one MPI.
pub fn program(mpi: &Mpi, name: &str, joined: bool) -> Result<PathBuf, String> {
    // Exported: setup.c counts calls by standing in front of the C library.
    let mut flags = vec![
        "-O2".to_owned(),
        "-pthread".into(),
        "-rdynamic".into(),
        format!("-I{}", root().join("include").display()),
    ];
    if !joined {
        flags.push("-DBENCH_NATIVE".into());
    }
    let output = target().join("bench/programs").join(mpi.name);
    let output = output.join(if joined { name.to_owned() } else { format!("{name}-native") });
    let source = root().join("bench/c").join(format!("{name}.c"));
    let built = try_build(mpi.compiler(), &source, &output, &flags, &[]);
    built.map_err(|said| format!("{name}.c for {}:\n{said}", mpi.name))
}

/// One that is no MPI's.
fn plain(name: &str, libraries: &[&str]) -> Result<PathBuf, String> {
    let output = target().join("bench/programs").join(name);
    let source = root().join("bench/c").join(format!("{name}.c"));
    let compiler = [vec!["gcc".into()], libraries.iter().map(|l| l.to_string()).collect()];
    try_build(compiler, &source, &output, &["-O2".into()], &[]).map_err(|said| format!("{name}.c:\n{said}"))
}

/// The other program of this crate, as well optimised as the library is.
fn tls() -> Result<PathBuf, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let words = ["build", "-q", "--release", "-p", env!("CARGO_PKG_NAME"), "--bin", "tls"];
    let built = std::process::Command::new(cargo).current_dir(root()).args(words).output();
    let built = built.map_err(|e| format!("cargo: {e}"))?;
    if !built.status.success() {
        return Err(String::from_utf8_lossy(&built.stderr).into_owned());
    }
    Ok(c_tests::release().join("tls"))
}

/// The file by which both sides of a launch measure how far apart their cores are.
const LINE: &str = "line";

/// A new one, for the next launch.
fn new_line(scene: &Scene) -> Result<(), String> {
    let path = scene.path(LINE);
    // Of another user's job, too.
    let file = std::fs::File::create(&path).and_then(|file| {
        file.set_len(4096)?;
        file.set_permissions(Permissions::from_mode(0o666))
    });
    file.map_err(|e| format!("{}: {e}", path.display()))
}

/// How far the two cores are from each other at this moment, for programs that do not say it, in ns.
pub fn cores_apart(scene: &Scene) -> Result<f64, String> {
    let limits = Contestant::limits().into_iter().find(|c| c.name == "line").expect("one of them");
    let lines = limits.run(scene, &[], Effort { samples: 3, slice_ms: 1, most: 8 })?;
    lines.first().and_then(|line| line.apart.last().copied()).ok_or("the bare line says nothing".into())
}

/// Waits for all jobs of a launch; whatever goes wrong, nothing of it is left.
pub fn wait<const N: usize>(scene: &Scene, jobs: [Job; N], limit: Duration) -> Result<[Done; N], String> {
    let done = scene.try_wait(jobs, limit).inspect_err(|_| scene.kill(""))?;
    match done.iter().find(|d| !d.status.success()) {
        None => Ok(done),
        Some(bad) => {
            scene.kill("");
            let said: Vec<_> = bad.stderr.lines().rev().take(6).collect();
            let said: Vec<_> = said.into_iter().rev().collect();
            Err(format!("{} ended with {}: {}", bad.title, bad.status, said.join("\n    ")))
        }
    }
}

/// What the programs print for us.
pub fn lines(done: &[Done]) -> Result<Vec<Line>, String> {
    let parse = |text: &str| -> Option<Line> {
        let value: Value = serde_json::from_str(text).ok()?;
        let samples: Option<Vec<f64>> = value["samples"].as_array()?.iter().map(Value::as_f64).collect();
        let text = |name: &str| Some(value[name].as_str()?.to_owned());
        let apart = value["apart"].as_array().into_iter().flatten().filter_map(Value::as_f64).collect();
        Some(Line { row: text("row")?, size: value["size"].as_u64()?, unit: text("unit")?, samples: samples?, apart })
    };
    let texts = done.iter().flat_map(|d| d.lines("BENCH"));
    let lines = texts.map(|t| parse(t).ok_or_else(|| format!("not understood: {t}"))).collect::<Result<Vec<_>, _>>()?;
    // LAM's launcher reports success whatever its ranks return.
    let said = || done.iter().map(|d| format!("{}: {}", d.title, d.stderr.trim())).collect::<Vec<_>>().join("; ");
    if lines.is_empty() { Err(format!("nothing was measured: {}", said())) } else { Ok(lines) }
}
