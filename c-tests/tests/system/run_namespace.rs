//! Several ensembles with the same names at once: `MPI_CONNECT_RUN` keeps them apart.

use c_tests::{Launch, Mpi, Scene};
use nix::sys::signal::Signal;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(90);

/// Two members of an ensemble, each under two MPIs, start at the same time with the same names.
fn two_members(scene: &Scene, a: &Mpi, b: &Mpi, url: &str) {
    let start = |mpi, member: &str, side: &str| {
        let here = scene.path(&format!("{member}-is-here"));
        let here = here.to_str().expect("plain text").to_owned();
        let launch = Launch::new(mpi, 1, "member", &[member, side, &here]);
        scene.start(launch.env("MPI_CONNECT_NAMING", url).env("MPI_CONNECT_RUN", &format!("case{member}")))
    };
    let jobs = [start(a, "7", "0"), start(b, "8", "0"), start(b, "7", "1"), start(a, "8", "1")];
    scene.pass(jobs, LIMIT);
}

#[test]
fn members_of_an_ensemble_meet_their_own_in_one_folder() {
    for (a, b) in Mpi::some_couples() {
        let scene = Scene::new(format!("two runs of {} and {} in a folder", a.name, b.name));
        two_members(&scene, a, b, &scene.naming());
        let said = scene.names();
        scene.require(said.starts_with("no names in "), &format!("names are left: {said}"));
    }
}

#[test]
fn members_of_an_ensemble_meet_their_own_at_one_server() {
    for (a, b) in Mpi::some_couples() {
        let scene = Scene::new(format!("two runs of {} and {} at a naming server", a.name, b.name));
        let (server, address) = scene.serve(&["--listen", "127.0.0.1:0"], &[]);
        two_members(&scene, a, b, &format!("tcp://{address}"));
        server.signal(Signal::SIGTERM);
        scene.wait([server], LIMIT);
    }
}

/// What is wrong with a run's name is told by whoever is to use it; errors say in which run was looked.
#[test]
fn errors_name_the_run() {
    let Some((a, _)) = Mpi::couples().next() else { return };
    let scene = Scene::new(format!("{} in a run where nobody else is", a.name));
    let half = |run: &str| {
        let launch = Launch::new(a, 1, "half", &["air", "ocean", "0"]).env("MPI_CONNECT_TIMEOUT", "1");
        let [done] = scene.wait([scene.start(launch.env("MPI_CONNECT_RUN", run))], LIMIT);
        scene.require(!done.status.success(), "nobody can be met");
        format!("{}{}", done.stdout, done.stderr)
    };
    let said = half("case7");
    scene.require(
        said.contains("within 1 s (MPI_CONNECT_TIMEOUT): nobody has registered that name in file:")
            && said.contains(", run 'case7'"),
        &said,
    );
    let said = half(&"x".repeat(256));
    scene.require(said.contains("MPI_CONNECT_RUN): the name has 256 bytes; at most 255 are allowed"), &said);
}
