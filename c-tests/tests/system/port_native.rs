//! What is the MPI's own stays so: port names that are not the library's, and all of it with `MPI_CONNECT_PORTS=native`.

use c_tests::ports::{self, By};
use c_tests::{Launch, Library, MPIS, Mpi, Scene, compile};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(30);

/// What the program says, with these settings.
fn says(mpi: &Mpi, library: Library, arguments: &[&str], settings: &[(&str, &str)]) -> Vec<String> {
    let scene = Scene::new(format!("ports of {} itself, {library:?} {settings:?}", mpi.name));
    let program = compile(mpi, "port_native", Library::None);
    let launch = Launch::of(mpi, 1, program, library, arguments).envs(settings);
    let [done] = scene.wait([scene.start(launch)], LIMIT);
    done.stdout.lines().filter(|l| !l.starts_with("DONE")).map(str::to_owned).collect()
}

/// With the setting, every call ends as it does without the library, and a port has the MPI's own name.
#[test]
fn ports_left_to_the_mpi() {
    for &mpi in MPIS.iter() {
        let without = says(mpi, Library::None, &[], &[]);
        let with = says(mpi, Library::Preloaded, &[], &[("MPI_CONNECT_PORTS", "native")]);
        assert_eq!(without, with, "{}", mpi.name);
        assert!(!without.is_empty() && !without.iter().any(|l| l.contains("the library's")), "{without:?}");
    }
}

/// A name that may be the MPI's own is for the MPI below to understand. One that only another MPI gives out is not: that is
/// told as such, see `mistakes`.
#[test]
fn names_of_others_are_passed_on() {
    for &mpi in MPIS.iter() {
        if mpi.name == "openmpi5" {
            println!("SKIPPED: a name of nobody to openmpi5: its own MPI_Comm_connect waits for ever");
            continue;
        }
        let connects = |lines: Vec<String>| lines.into_iter().find(|l| l.contains("MPI_Comm_connect"));
        if mpi.name == "lam" {
            // Its own MPI_Comm_connect may wait for ever for a name that it has never given out: it does not get it.
            let with = connects(says(mpi, Library::Preloaded, &["nobody"], &[]));
            assert!(with.as_ref().is_some_and(|said| !said.ends_with("class 0")), "it ends, with an error: {with:?}");
            continue;
        }
        let name = [if mpi.name == "openmpi4" { "nobody" } else { "tag#0$connentry#00$" }];
        let without = connects(says(mpi, Library::None, &name, &[]));
        let with = connects(says(mpi, Library::Preloaded, &name, &[]));
        // Some MPIs end the job instead of saying something.
        println!("{}: {without:?}", mpi.name);
        assert_eq!(without, with, "{}", mpi.name);
    }
}

/// The one MPI here whose own ports join two launches: a server that leaves its ports to the MPI, and a client that is only
/// given a name of the MPI's.
#[test]
fn a_port_of_the_mpi_works_through_the_library() {
    let Some(&mpi) = MPIS.iter().find(|m| m.name == "mpich5-abi") else {
        println!("SKIPPED: a port of the MPI's own: mpich5-abi was not asked for");
        return;
    };
    let scene = Scene::new("a port of mpich5-abi itself");
    let [server, client] = ports::pair(&scene, mpi, mpi, By::File, Library::Preloaded);
    let jobs = [scene.start(server.env("MPI_CONNECT_PORTS", "native")), scene.start(client)];
    let done = scene.pass(jobs, LIMIT);
    scene.require(done.iter().all(|d| d.checks() > 0), "both check something");
}
