//! MPI_Comm_spawn under another MPI: parents and children join, whatever may go wrong is an error of MPI_Comm_spawn, and nothing is
//! left of children whose parents are gone.

use crate::launch::table;
use c_tests::{Done, Job, Launch, Mpi, Scene, wait_until};
use std::fs;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(90);

/// Starts parents whose children run under these MPIs.
fn parents(scene: &Scene, mpi: &Mpi, ranks: usize, [child, grandchild]: [&Mpi; 2], case: &str, children: usize) -> Job {
    let jobs = [("child", child), ("grandchild", grandchild)];
    let tables = jobs.map(|(name, mpi)| table(scene, mpi, name, 1, "spawning", &[], "")).concat();
    fs::write(scene.path("spawn.toml"), tables).expect("a manifest");
    scene.meet(mpi, child);
    scene.start(Launch::new(mpi, ranks, "spawning", &["parent", case, &children.to_string()]))
}

/// Nothing of the scene is left, however deep.
fn leaves_nothing(scene: &Scene) {
    let left = || scene.processes("spawning").len() + scene.processes("launch-").len();
    let is_left = !wait_until(Duration::from_secs(20), || left() == 0);
    scene.require(!is_left, &format!("processes are left: {:?}", scene.processes("")));
}

fn passes(title: &str, sizes: [usize; 2], mpis: [&Mpi; 3], case: &str) -> Done {
    let [parent, child, grandchild] = mpis;
    let [ranks, children] = sizes;
    let scene = Scene::new(format!("{title}: {ranks} ranks of {} start {children} of {}", parent.name, child.name));
    let job = parents(&scene, parent, ranks, [child, grandchild], case, children);
    let [done] = scene.pass([job], LIMIT);
    leaves_nothing(&scene);
    scene.require(!scene.path("failures").exists(), &fs::read_to_string(scene.path("failures")).unwrap_or_default());
    done
}

/// In LAM's session all of it runs where one of them is LAM's.
#[test]
fn parents_and_children_meet_twice() {
    for (at, (parent, child)) in Mpi::wide().into_iter().enumerate() {
        let sizes = [[1, 3], [3, 1], [3, 2], [1, 1]][at % 4];
        passes("twice", sizes, [parent, child, child], "twice");
    }
}
