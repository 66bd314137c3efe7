//! Programs in Python, on either side.

use c_tests::python::{self, launch};
use c_tests::{Done, Figure, Launch, Library, MPIS, Mpi, Scene, user, width};
use std::process::Command;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(90);
const SUITE_LIMIT: Duration = Duration::from_secs(600);

fn half<'a>(
    mpi: &'a Mpi,
    scene: &Scene,
    names: [&str; 2],
    side: &str,
    other: &str,
) -> Result<Launch<'a>, &'static str> {
    let folder = scene.path(&format!("checkpoints-{other}")).display().to_string();
    launch(mpi, 2, "half.py", Library::Preloaded, &[names[0], names[1], side, other, &folder], scene)
}

fn run(scene: &Scene, air: Launch<'_>, ocean: Launch<'_>) -> String {
    let open = scene.path("open");
    let _ = std::fs::create_dir(&open);
    std::fs::write(open.join("sent"), "sent").expect("a file of the scene");
    user::give(&open);
    let opened = format!("{}:rw", open.display());
    let start = |launch: Launch<'_>| scene.start(launch.env("MPI_CONNECT_FILES", &opened));
    let done = scene.pass([start(air), start(ocean)], LIMIT);
    scene.require(done.iter().all(|d| d.checks() > 0), "both check something");
    done.iter().map(Done::checks).sum::<u64>().to_string()
}

/// Every MPI that mpi4py works with, beside itself, its neighbour, which may be any, and the next that mpi4py works with:
/// Python with Python, and with C both ways round.
#[test]
fn python_with_python_and_with_c() {
    let mut figure = Figure::new("80-python", "Python halves (mpi4py 4.1): values checked, all right");
    let mut rows = vec![["", "beside", "Python-Python", "Python-C", "C-Python"].map(String::from).to_vec()];
    let (air, ocean) = (["air", "ocean"], ["ocean", "air"]);
    let able: Vec<&Mpi> = MPIS.iter().copied().filter(|m| python::works_with(m).is_ok()).collect();
    for (a, neighbour) in Mpi::ring().filter(|(a, _)| able.iter().any(|m| m.name == a.name)) {
        let next = able.iter().skip_while(|m| m.name != a.name).nth(1).unwrap_or(&able[0]);
        let mut beside = vec![a, neighbour, *next];
        beside.dedup_by_key(|m| m.name);
        for b in beside {
            let scene = Scene::new(format!("Python: {} beside {}", a.name, b.name));
            let python = |names, side, other| half(a, &scene, names, side, other).expect("mpi4py works with it");
            let c = |names: [&str; 2], side| Launch::new(b, 2, "half", &[names[0], names[1], side]);
            let cells = [
                half(b, &scene, ocean, "1", "python").map(|o| run(&scene, python(air, "0", "python"), o)),
                Ok(run(&scene, python(air, "0", "c"), c(ocean, "1"))),
                Ok(run(&scene, c(air, "0"), python(ocean, "1", "c"))),
            ];
            let cells = cells.map(|cell| cell.unwrap_or("-".into()));
            rows.push([a.sign, b.sign].map(String::from).into_iter().chain(cells).collect());
        }
    }
    figure.table(&rows);
    for mpi in MPIS.iter() {
        if let Err(reason) = python::works_with(mpi) {
            figure.line(format!("{}: {reason}", mpi.sign));
        }
    }
}

/// A job that does not come is an exception of its own class.
#[test]
fn waiting_in_vain_is_an_exception() {
    for mpi in MPIS.iter().filter(|m| python::works_with(m).is_ok()) {
        let scene = Scene::new(format!("Python, alone: {}", mpi.name));
        let launch = launch(mpi, 2, "lonely.py", Library::Preloaded, &[], &scene).expect("mpi4py works with it");
        let [done] = scene.pass([scene.start(launch.env("MPI_CONNECT_TIMEOUT", "1"))], LIMIT);
        scene.require(done.lines("TIMEOUT").count() == 2, &format!("it said: {}", done.stdout));
    }
}

/// Arguments of wrong types are told by name.
#[test]
fn wrong_types_are_type_errors() {
    for mpi in MPIS.iter().filter(|m| python::works_with(m).is_ok()) {
        let scene = Scene::new(format!("Python, wrong types: {}", mpi.name));
        let launch = launch(mpi, 2, "wrong.py", Library::Preloaded, &[], &scene).expect("mpi4py works with it");
        let [done] = scene.pass([scene.start(launch)], LIMIT);
        scene.require(done.lines("REFUSED").count() == 2, &format!("it said: {}", done.stdout));
    }
}

/// These take longer than all others together, and ended alike too when they were run; of ports much works only with the
/// library, as a test of its own shows.
const LEFT_OUT: [&str; 4] = ["test_io", "test_spawn", "test_util_dtlib", "test_dynproc"];

/// What the library has functions of its own for, beside ports: modules that mention one of these are run by `make test` too.
/// The others are of collective calls, one-sided ones, files and types, and take most of the time.
const OURS: [&str; 7] = ["Intercomm", "Isend", "Request", "Group", "Status", "Mprobe", "Psend"];

/// mpi4py's own tests end the same way with the library as without.
#[test]
fn tests_of_mpi4py_end_the_same() {
    let mut figure =
        Figure::new("82-mpi4py", "mpi4py's own tests, 2 ranks: how they end, with and without the library");
    let is_left_out = |module: &String| LEFT_OUT.contains(&module.as_str());
    let mut ours = python::tests_that_mention(&OURS);
    ours.retain(|module| !is_left_out(module));
    // These are patterns of which any part of a file's name is enough.
    let exactly: Vec<_> = ours.iter().map(|module| format!("^{module}[.]py$")).collect();
    let ours: Vec<_> = exactly.iter().flat_map(|pattern| ["-i", pattern.as_str()]).collect();
    let all: Vec<_> = LEFT_OUT.iter().flat_map(|module| ["-e", *module]).collect();
    let what = format!("all modules of mpi4py's tests, not those {} that mention {}", ours.len() / 2, OURS.join(", "));
    let (options, most) = width::otherwise((ours, 1000), (all, 1500), &what);
    let names = ["mpich5", "openmpi5"];
    for &name in width::otherwise(&names[..1], &names[..], "mpi4py's own tests under Open MPI too") {
        let Some(&mpi) = MPIS.iter().find(|m| m.name == name) else { continue };
        let scene = Scene::new(format!("mpi4py's own tests, {name}"));
        let run = |preload, title| {
            python::run_mpi4py_tests(mpi, 2, &scene, title, &options, |launch| launch.preloading(preload), SUITE_LIMIT)
        };
        let (_, without) = run(vec![], "without");
        let (done, with) = run(vec![c_tests::library()], "with");
        for (without, with) in without.iter().zip(&with) {
            let differing: Vec<_> =
                without.iter().filter(|(test, how)| with.get(*test) != Some(*how)).take(20).collect();
            scene.require(without == with, &format!("with the library these no longer end so: {differing:#?}"));
            scene.require(with.len() > most, "most tests were run");
        }
        let count = |how: &str| with[0].values().filter(|o| o.as_str() == how).count();
        let (all, ok, skipped) = (with[0].len(), count("ok"), count("skipped"));
        figure.line(format!(
            "{name}: {all} tests, {ok} ok, {skipped} skipped, {} not; the same on both ranks ({:.0} s)",
            all - ok - skipped,
            done.took.as_secs_f64()
        ));
    }
    figure.line(format!("left out: {}", LEFT_OUT.join(", ")));
}

/// What mpi4py's tests of ports leave out by themselves, by MPI and number of ranks.
const THEIR_SKIPS: [(&str, usize, &str); 1] = [("impi", 3, "testAcceptConnect")];

/// mpi4py's own tests of ports, unmodified: all of them run, and pass.
#[test]
fn tests_of_ports_of_mpi4py() {
    let mut figure = Figure::new("83-mpi4py-ports", "mpi4py's own test_dynproc, with the library: tests passed");
    for &mpi in MPIS.iter().filter(|m| python::works_with(m).is_ok()) {
        for ranks in [2, 3] {
            let scene = Scene::new(format!("mpi4py's test_dynproc, {} on {ranks}", mpi.name));
            let preload = |launch: Launch<'static>| {
                launch.preloading(vec![c_tests::library()]).env("MPI_CONNECT_NAMING", &scene.naming())
            };
            let (_, outcomes) =
                python::run_mpi4py_tests(mpi, ranks, &scene, "dynproc", &["-i", "test_dynproc"], preload, LIMIT);
            let mut skipped = Vec::new();
            for outcomes in &outcomes {
                scene.require(outcomes.len() == 4, &format!("all four run: {outcomes:?}"));
                for (test, how) in outcomes {
                    let known = THEIR_SKIPS
                        .iter()
                        .any(|(name, n, what)| *name == mpi.name && *n == ranks && test.ends_with(what));
                    let wanted = if known { "skipped" } else { "ok" };
                    scene.require(how == wanted, &format!("{test}: {how}, not {wanted}"));
                    if known && !skipped.contains(test) {
                        skipped.push(test.clone());
                    }
                }
            }
            let without = if skipped.is_empty() { String::new() } else { format!(", it skips {}", skipped.join(", ")) };
            figure.line(format!("{} on {ranks}: {} of 4{without}", mpi.name, 4 - skipped.len()));
        }
    }
}

/// mpi4py at both ends of a port, under two MPIs.
#[test]
fn python_at_ports() {
    let mut figure = Figure::new("84-python-ports", "mpi4py at ports: values checked, all right");
    let able: Vec<&Mpi> = MPIS.iter().copied().filter(|m| python::works_with(m).is_ok()).collect();
    for (i, server) in able.iter().enumerate() {
        let client = able[(i + 1) % able.len()];
        let scene = Scene::new(format!("Python at a port: server {}, client {}", server.name, client.name));
        let service = format!("port of {}", scene.folder.display());
        let launch = |mpi, role| launch(mpi, 2, "ports.py", Library::Preloaded, &[role, &service], &scene);
        let checks = run(
            &scene,
            launch(server, "server").expect("mpi4py works with it"),
            launch(client, "client").expect("mpi4py works with it"),
        );
        figure.line(format!("{} {}: {checks}", server.sign, client.sign));
    }
}

/// `pip install` from the tree gives the module; without the library its calls say what to do.
#[test]
fn pip_installs_from_the_tree() {
    let scene = Scene::new("pip install");
    // A copy, since building writes beside the sources.
    let (copy, target) = (scene.path("python"), scene.path("installed"));
    let copied = Command::new("cp").arg("-r").arg(c_tests::root().join("python")).arg(&copy).status().expect("cp");
    assert!(copied.success());
    let done = python::pip_install(&target).arg(&copy).output().expect("pip");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert!(target.join("mpi_connect/__init__.py").exists() && target.join("mpi_connect/py.typed").exists());
    let mut ran = 0;
    for &mpi in MPIS.iter() {
        let Ok(launch) = launch(mpi, 1, "alone.py", Library::None, &[target.to_str().expect("plain text")], &scene)
        else {
            continue;
        };
        let [done] = scene.pass([scene.start(launch)], LIMIT);
        scene.require(done.stdout.contains("mpi-connect run"), &format!("it said: {}", done.stdout));
        ran += 1;
    }
    scene.require(ran > 0, "some MPI works with mpi4py");
}
