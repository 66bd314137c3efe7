//! Programs in Python, on either side.

use c_tests::python::{self, launch};
use c_tests::{Done, Figure, Launch, Library, MPIS, Mpi, Scene, wait_until};
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(90);

fn half<'a>(
    mpi: &'a Mpi,
    scene: &Scene,
    names: [&str; 2],
    side: &str,
    other: &str,
) -> Result<Launch<'a>, &'static str> {
    launch(mpi, 2, "half.py", Library::Preloaded, &[names[0], names[1], side, other], scene)
}

fn run(scene: &Scene, air: Launch<'_>, ocean: Launch<'_>) -> String {
    let done = scene.pass([scene.start(air), scene.start(ocean)], LIMIT);
    scene.require(done.iter().all(|d| d.checks() > 0), "both check something");
    done.iter().map(Done::checks).sum::<u64>().to_string()
}

/// Every MPI that mpi4py works with, beside itself and its neighbour, which may be any: Python with Python, and with C
/// both ways round.
#[test]
fn python_with_python_and_with_c() {
    let mut figure = Figure::new("80-python", "Python halves (mpi4py 4.1): values checked, all right");
    let mut rows = vec![["", "beside", "Python-Python", "Python-C", "C-Python"].map(String::from).to_vec()];
    let mut empty = Vec::new();
    let (air, ocean) = (["air", "ocean"], ["ocean", "air"]);
    for (a, neighbour) in Mpi::ring() {
        for b in [a, neighbour] {
            let c = |names: [&str; 2], side| Launch::new(b, 2, "half", &[names[0], names[1], side]);
            let scene = || Scene::new(format!("Python: {} beside {}", a.name, b.name));
            let first = scene();
            if let Err(reason) = half(a, &first, air, "0", "c") {
                empty.push(format!("{}: {reason}", a.sign));
                break;
            }
            let cells = [
                half(b, &first, ocean, "1", "python")
                    .map(|second| run(&first, half(a, &first, air, "0", "python").expect("seen above"), second)),
                Ok(run(&first, half(a, &first, air, "0", "c").expect("seen above"), c(ocean, "1"))),
                Ok(run(&first, c(air, "0"), half(a, &first, ocean, "1", "c").expect("seen above"))),
            ];
            let cells = cells.map(|cell| cell.unwrap_or("-".into()));
            rows.push([a.sign, b.sign].map(String::from).into_iter().chain(cells).collect());
        }
    }
    figure.table(&rows);
    empty.iter().for_each(|line| figure.line(line));
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
