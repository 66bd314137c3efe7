//! Coupled jobs as steps of Slurm. The command lines are those of docs/slurm.md, which the test reads.

use c_tests::width::otherwise;
use c_tests::{Launch, Library, Mpi, Scene, command, compile, root, user};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(120);

/// The block of docs/slurm.md under this heading, for the programs of the test.
fn commands(heading: &str) -> String {
    let page = std::fs::read_to_string(root().join("docs/slurm.md")).expect("docs/slurm.md");
    let (_, section) = page.split_once(&format!("## {heading}\n")).expect("the heading");
    let block = section.lines().skip_while(|l| !l.starts_with("    ")).take_while(|l| l.starts_with("    "));
    let program = |name| {
        let mpi = Mpi::by_name(name).expect("an MPI of Debian's");
        compile(mpi, "pair", Library::Preloaded).display().to_string()
    };
    let [air, ocean] = ["openmpi4", "mpich4"].map(program);
    block
        .map(|line| {
            line.trim()
                .replace("mpi-connect ", &format!("{} ", command().display()))
                .replace("./air", &format!("{air} air ocean 0 queries send types"))
                .replace("./ocean", &format!("{ocean} ocean air 1 queries send types"))
        })
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn steps_as_the_page_says() {
    if !otherwise(false, true, "two steps of one Slurm allocation, and a heterogeneous job, under two MPIs") {
        return;
    }
    assert!(user::is_other(), "a Slurm of our own needs root");
    for (heading, allocation) in [
        ("Two MPIs in one allocation", &["salloc", "-N", "2", "-n", "4"][..]),
        ("A heterogeneous job", &["salloc", "-n", "2", ":", "-n", "2"]),
    ] {
        let scene = Scene::new(format!("Slurm: {heading}"));
        let text = commands(heading);
        let words = [&allocation[1..], &["bash", "-ec", text.as_str()]].concat();
        let job = Launch::alone(allocation[0].as_ref(), &words)
            .within(&[root().join("c-tests/slurm-node").display().to_string()]);
        let [done] = scene.pass([scene.start(job)], LIMIT);
        let ended = done.lines("DONE").count();
        scene.require(ended == 2, &format!("{ended} halves have ended, of two; printed:\n{}", done.stdout));
    }
}
