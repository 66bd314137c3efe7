//! Faults at random: pairs of jobs under full traffic whose connections, processes, naming service, disk and descriptors are
//! done every harm that a system may do them. Each message has to come once and in order, or an operation is told an error,
//! and nothing may hang.
//!
//! `make faults` runs many and writes `docs/reliability.md`; a test runs a few of each kind. A *script* says what is done to
//! one pair; it follows from a seed. An *act* does it.

mod act;
mod kind;
mod page;
mod random;
pub mod relay;

pub use act::{Counts, Outcome, Report, possible};
pub use kind::{Kind, Script, Service, scripts};
pub use page::{page, sums, table, versions};
pub use random::Random;

use crate::{MPIS, Mpi, Scene};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// What to run.
#[derive(Debug, Clone)]
pub struct Settings {
    pub faults: usize,
    pub seed: u64,
    /// The longest of them.
    pub longest: Duration,
    /// So many pairs beside each other: most of the time they wait.
    pub at_once: usize,
    /// One act alone, to repeat it.
    pub only: Option<usize>,
}

impl Settings {
    /// How to run one act of these again.
    fn again(&self, act: usize) -> String {
        let Settings { faults, seed, longest, .. } = self;
        format!("again with: make faults FAULTS={faults} SEED={seed} LONGEST={} ACT={act}", longest.as_secs())
    }
}

/// What a run has brought.
#[derive(Debug, Default)]
pub struct Run {
    pub reports: Vec<Report>,
    /// Why acts failed, each with how to run it again.
    pub failures: Vec<String>,
    pub acts: usize,
    pub took: Duration,
}

/// The two MPIs of an act. LAM's launcher is left out: its daemons talk by TCP ports of their own, which they take from those
/// that are relayed.
fn pair(script: &Script) -> [&'static Mpi; 2] {
    let able: Vec<_> = MPIS.iter().filter(|mpi| mpi.name != "lam").collect();
    let mut random = Random::new(script.seed);
    [(); 2].map(|()| *able[random.below(able.len() as u64) as usize])
}

/// Runs all of it. Nothing that fails ends it.
pub fn run(settings: &Settings) -> Run {
    let since = Instant::now();
    let mut scripts = scripts(settings.seed, settings.faults, settings.longest);
    if let Some(only) = settings.only {
        scripts.retain(|script| script.number == only);
    }
    let name = std::thread::current().name().unwrap_or_default().to_owned();
    let (next, run) = (AtomicUsize::new(0), Mutex::new(Run { acts: scripts.len(), ..Run::default() }));
    let work = || {
        while let Some(script) = scripts.get(next.fetch_add(1, Ordering::Relaxed)) {
            let (report, result) = play(script);
            let mut run = run.lock().expect("nobody panics with it");
            run.reports.push(report);
            if let Err(why) = result {
                let why = format!("act {}: {why}\n{}", script.number, settings.again(script.number));
                println!("FAILED: {why}");
                run.failures.push(why);
            }
        }
    };
    std::thread::scope(|threads| {
        for _ in 0..settings.at_once {
            // The figures know a test by its thread's name.
            let thread = std::thread::Builder::new().name(name.clone());
            thread.spawn_scoped(threads, work).expect("a thread");
        }
    });
    let mut run = run.into_inner().expect("nobody panics with it");
    run.took = since.elapsed();
    run
}

fn play(script: &Script) -> (Report, Result<(), String>) {
    let pair = pair(script);
    let by = match script.service {
        Service::Server => "by a server",
        Service::Folder => "by a folder",
    };
    let how = if script.encrypted { "encrypted" } else { "plain" };
    let what = format!("{} faults, {} and {}, {by}, {how}", script.faults.len(), pair[0].name, pair[1].name);
    let mut report = Report::default();
    // A scene that fails shows what its jobs have printed.
    let played = catch_unwind(AssertUnwindSafe(|| {
        let scene = Scene::new(format!("act {}: {what}", script.number));
        let (part, result) = act::play(&scene, script, pair);
        report = part;
        if let Err(why) = result {
            scene.require(false, &why);
        }
    }));
    let result = played.map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic").to_owned()
    });
    (report, result)
}
