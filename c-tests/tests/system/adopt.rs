//! Inter-communicators within one job, carried by the library.

use c_tests::{Figure, Launch, Library, MPIS, Scene, library, python, width};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);
const SUITE_LIMIT: Duration = Duration::from_secs(400);

#[test]
fn within_one_job() {
    let mut figure = Figure::new("85-adopt", "inter-communicators within one job: values checked, all right");
    for mpi in MPIS.iter() {
        let ranks = 5;
        let scene = Scene::new(format!("adopted: {}", mpi.name));
        let launch = || Launch::with(mpi, ranks, "adopt", Library::None, &[]);
        let [native] = scene.pass([scene.start(launch())], LIMIT);
        let adopting =
            launch().preloading(vec![library()]).env("MPI_CONNECT_ADOPT", "1").env("MPI_CONNECT_LOG", "info");
        let [adopted] = scene.pass([scene.start(adopting)], LIMIT);
        scene.require(native.checks() == adopted.checks(), "the same was checked");
        let taken = adopted.stderr.matches("adopted an inter-communicator").count();
        scene.require(taken == 2 * ranks + 2, &format!("{taken} were adopted"));
        figure.line(format!("{}: {}", mpi.name, adopted.checks()));
    }
}

/// Tests of mpi4py that fail on inter-communicators that are ours, and the clause of MPI that lets them. Each stays here
/// only as long as it fails.
const MAY_FAIL: [(&str, &str, &str); 1] = [(
    "openmpi5",
    "test_ulfm.TestULFMInter.testRevoke",
    "MPIX_Comm_revoke is no call of MPI; ours are not revoked by what it does to the MPI's own",
)];

/// mpi4py's own tests, in the modules that make inter-communicators.
#[test]
fn tests_of_mpi4py() {
    let mut figure = Figure::new("86-adopt-mpi4py", "mpi4py's tests of inter-communicators, 4 ranks, these being ours");
    let names = ["openmpi5", "mpich5"];
    for &name in width::otherwise(&names[..1], &names[..], "mpi4py's tests of inter-communicators under MPICH 5 too") {
        let Some(&mpi) = MPIS.iter().find(|m| m.name == name) else { continue };
        let scene = Scene::new(format!("mpi4py's tests of inter-communicators, {name}"));
        let modules = python::tests_that_mention(&["Create_intercomm"]);
        scene.require(modules.len() >= 5, "the modules that make inter-communicators");
        let options: Vec<_> = modules.iter().flat_map(|module| ["-i", module.as_str()]).collect();
        let adopting = |launch: Launch<'static>| launch.preloading(vec![library()]).env("MPI_CONNECT_ADOPT", "1");
        let (done, outcomes) = python::run_mpi4py_tests(mpi, 4, &scene, "adopted", &options, adopting, SUITE_LIMIT);
        let listed: Vec<_> = MAY_FAIL.iter().filter(|(mpi, ..)| *mpi == name).map(|(_, test, _)| *test).collect();
        for (rank, outcomes) in outcomes.iter().enumerate() {
            let failed: Vec<_> =
                outcomes.iter().filter(|(_, how)| !["ok", "skipped"].contains(&how.as_str())).collect();
            let named: Vec<_> = failed.iter().map(|(test, _)| test.as_str()).collect();
            scene.require(named == listed, &format!("rank {rank}: these fail: {failed:#?}, listed are {listed:?}"));
        }
        let count = |how: &str| outcomes[0].values().filter(|o| o.as_str() == how).count();
        scene.require(count("ok") > 150, "most tests were run");
        figure.line(format!(
            "{name}: {} tests in {}, {} ok, {} skipped by the suite itself, {} listed ({:.0} s)",
            outcomes[0].len(),
            modules.join(" "),
            count("ok"),
            count("skipped"),
            listed.len(),
            done.took.as_secs_f64()
        ));
    }
    MAY_FAIL.iter().for_each(|(mpi, test, why)| figure.line(format!("listed: {mpi}, {test}: {why}")));
}
