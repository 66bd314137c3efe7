//! Checkpoints in Fortran and in Python: two jobs are killed between checkpoints of their own, and go on each under the other
//! one's MPI.

use crate::fortran::{program, table};
use crate::restart::{make_folder, results};
use c_tests::{Figure, Job, Launch, Library, MPIS, Mpi, Scene, WAYS, compile_with, python, wait_until, width};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);
const STEPS: &str = "30";
/// Where the first job stands still.
const STOP: &str = "18";

/// Starts a job of so many ranks with these arguments.
type Start<'a> = &'a dyn Fn(&Scene, usize, &[&str]) -> Launch<'static>;

/// Two jobs of different sizes, which make checkpoints at different steps.
fn start(scene: &Scene, [air, ocean]: [Start; 2], stop: Option<&str>) -> [Job; 2] {
    let folder = scene.path("checkpoints").display().to_string();
    let words = |mine, theirs, every| vec![mine, theirs, folder.as_str(), STEPS, every];
    let mut of_air = words("air", "ocean", "5");
    of_air.extend(stop);
    [air(scene, 2, &of_air), ocean(scene, 1, &words("ocean", "air", "7"))].map(|launch| scene.start(launch))
}

/// What is computed without a kill.
fn undisturbed(title: &str, jobs: [Start; 2]) -> Vec<String> {
    let scene = Scene::new(format!("{title}, without a kill"));
    make_folder(&scene);
    let results = results(&scene.pass(start(&scene, jobs, None), LIMIT));
    scene.require(results.len() == 3, &format!("{results:?}"));
    results
}

/// Kills two jobs in the middle, and starts them again otherwise. How many values they checked.
fn go_on(title: &str, first: [Start; 2], then: [Start; 2], want: &[String]) -> String {
    let scene = Scene::new(title);
    make_folder(&scene);
    let mut jobs = start(&scene, first, Some(STOP));
    // A line that is known to be complete has its final name.
    let is_complete = |name: &str| name.starts_with("line-") && !name.ends_with(".part");
    let has_line = |job: &str| {
        let lines = std::fs::read_dir(scene.path("checkpoints").join(job)).into_iter().flatten();
        lines.flatten().any(|line| is_complete(&line.file_name().to_string_lossy()))
    };
    // The lines of two ranks may come glued together.
    let stands = |job: &Job| job.printed().matches("STANDS").count() == 2;
    let ready = || stands(&jobs[0]) && has_line("air") && has_line("ocean");
    scene.require(wait_until(LIMIT, ready), "the first job stands still, and there is a complete line");
    scene.kill("checkpoints");
    let over = || jobs.iter_mut().all(|job| job.poll().is_some());
    scene.require(wait_until(LIMIT, over), "the jobs are over");
    let done = scene.pass(start(&scene, then, None), LIMIT);
    let from: Vec<_> = done.iter().map(|done| done.lines("FROM").collect::<String>()).collect();
    scene.require(from.iter().all(|from| !["", "0"].contains(&from.as_str())), &format!("from a label: {from:?}"));
    let got = results(&done);
    scene.require(got == want, &format!("from {from:?}: {got:?}, not {want:?}"));
    done.iter().map(|done| done.checks()).sum::<u64>().to_string()
}

/// Each way of Fortran beside mpif.h under another MPI; then both change their MPIs.
#[test]
fn fortran_goes_on_from_checkpoints() {
    let title = "Fortran killed between checkpoints, restarted under the other job's MPI: values checked, same results";
    let mpif = &WAYS[0];
    let by_name = |name| Mpi::by_name(name).expect("an MPI of the table");
    let of = |mpi: &'static Mpi, way| {
        let program = program(mpi, way, "restarted", Library::Linked).expect("Debian's MPIs have all of Fortran");
        move |_: &Scene, ranks, words: &[&str]| Launch::of(mpi, ranks, program.clone(), Library::Linked, words)
    };
    let (mpich, openmpi) = (by_name("mpich4"), by_name("openmpi4"));
    let want = undisturbed("Fortran", [&of(mpich, mpif), &of(openmpi, mpif)]);
    table("47-restart-fortran", title, "restarted", Library::Linked, |mpi, way, program| {
        let other = if mpi.name.starts_with("openmpi") { mpich } else { openmpi };
        let here = |_: &Scene, ranks, words: &[&str]| Launch::of(mpi, ranks, program.clone(), Library::Linked, words);
        let title = format!("{} {} with Fortran of {}, killed", way.name, mpi.name, other.name);
        go_on(&title, [&here, &of(other, mpif)], [&of(other, way), &here], &want)
    });
}

/// The calls that every Fortran has, with INTEGERs, also under the MPIs whose Fortran no compiler here can reach.
#[test]
fn integers_go_on_from_checkpoints() {
    let title = "the calls of Fortran, by C, restarted under the other job's MPI: values checked, same results";
    let mut figure = Figure::new("48-restart-integers", title);
    let of = |mpi: &'static Mpi| {
        let program = compile_with(mpi, "restarted", Library::Preloaded, &["-DBY_FORTRAN"]);
        move |_: &Scene, ranks, words: &[&str]| Launch::of(mpi, ranks, program.clone(), Library::Preloaded, words)
    };
    let mut want = None;
    for (a, b) in Mpi::couples() {
        let title = format!("INTEGERs: {} with {}", a.name, b.name);
        let (air, ocean) = (of(a), of(b));
        let want = want.get_or_insert_with(|| undisturbed(&title, [&air, &ocean]));
        let checks = go_on(&format!("{title}, killed"), [&air, &ocean], [&ocean, &air], want);
        figure.line(format!("{} {}: {checks}", a.sign, b.sign));
    }
}

/// Python beside Python.
#[test]
fn python_goes_on_from_checkpoints() {
    let mut figure = Figure::new(
        "49-restart-python",
        "Python killed between checkpoints, restarted under the other job's MPI: values checked, same results",
    );
    let of = |mpi: &'static Mpi| {
        move |scene: &Scene, ranks, words: &[&str]| {
            let launch = python::launch(mpi, ranks, "restarted.py", Library::Preloaded, words, scene);
            launch.expect("mpi4py works with it")
        }
    };
    let able: Vec<&Mpi> = MPIS.iter().copied().filter(|mpi| python::works_with(mpi).is_ok()).collect();
    let most = width::otherwise(1, able.len(), "restarts of Python under each MPI");
    let mut want = None;
    for (at, air) in able.iter().enumerate().take(most) {
        let ocean = able[(at + 1) % able.len()];
        let title = format!("Python: {} with {}", air.name, ocean.name);
        let want = want.get_or_insert_with(|| undisturbed(&title, [&of(air), &of(ocean)]));
        let checks = go_on(&format!("{title}, killed"), [&of(air), &of(ocean)], [&of(ocean), &of(air)], want);
        figure.line(format!("{} {}: {checks}", air.sign, ocean.sign));
    }
}
