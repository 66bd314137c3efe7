//! The edges of what MPI promises: what a program may do with communicators, requests and datatypes that few do.

use c_tests::{Done, Figure, Job, Launch, Mpi, Scene};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

/// What cannot be asked of an MPI, and why.
const SKIPPED: [(&str, &str, &str); 4] = [
    ("lam", "bad-request", "a request that is no handle is a bad pointer, or null, which is MPI_REQUEST_NULL"),
    ("openmpi5", "bad-request", "its MPI_Testany crashes on a request that is no handle"),
    ("lam", "handler-kept", "there is no MPI_THREAD_MULTIPLE"),
    ("lam", "free-while-waiting", "there is no MPI_THREAD_MULTIPLE"),
];

type Couple = (&'static Mpi, &'static Mpi);

/// The couples of which this can be asked.
fn couples(case: &str) -> impl Iterator<Item = Couple> {
    let skipped = move |mpi: &Mpi| SKIPPED.iter().find(|(name, what, _)| *name == mpi.name && *what == case);
    let asked = move |(a, b): &Couple| match skipped(a).or_else(|| skipped(b)) {
        Some((name, _, why)) => {
            println!("SKIPPED: {case} of {} with {}: {name}: {why}", a.name, b.name);
            false
        }
        None => true,
    };
    Mpi::couples().filter(asked)
}

fn title(case: &str, (a, b): &Couple) -> String {
    format!("{case}: {}, with {}", a.name, b.name)
}

fn start(scene: &Scene, case: &str, ranks: usize, (a, b): Couple, settings: &[(&str, &str)]) -> [Job; 2] {
    let start = |mpi, names: [&str; 2], side| {
        let launch = Launch::new(mpi, ranks, "edges", &[case, names[0], names[1], side]);
        scene.start(launch.envs(settings))
    };
    [start(a, ["air", "ocean"], "0"), start(b, ["ocean", "air"], "1")]
}

/// One case of `edges` between so many ranks of each MPI.
fn edge(case: &str, ranks: usize) {
    for couple in couples(case) {
        let scene = Scene::new(title(case, &couple));
        scene.pass(start(&scene, case, ranks, couple, &[]), LIMIT);
    }
}

/// Two seconds at the longest do the jobs wait for each other.
const PATIENCE: [(&str, &str); 1] = [("MPI_CONNECT_TIMEOUT", "2")];

/// A case in which the jobs do nothing for most of the time.
fn patience(case: &str, ranks: usize) -> Vec<[Done; 2]> {
    let play = |scene: &Scene, couple: &_| scene.pass(start(scene, case, ranks, *couple, &PATIENCE), LIMIT);
    Scene::at_once(&couples(case).collect::<Vec<_>>(), |couple| title(case, couple), play)
}

/// An attribute's delete callback, run by MPI_Comm_free, still has a whole inter-communicator; it may refuse.
#[test]
fn free_runs_callbacks() {
    edge("free-callback", 2);
}

#[test]
fn free_while_another_thread_waits() {
    edge("free-while-waiting", 1);
}

#[test]
fn uncommitted_datatypes() {
    edge("uncommitted", 1);
}

#[test]
fn handler_kept_while_threads_send() {
    edge("handler-kept", 1);
}

#[test]
fn requests_of_ours_in_calls_that_are_not_open() {
    edge("requests", 1);
}

#[test]
fn requests_fail_after_free() {
    edge("fails-after-free", 1);
}

#[test]
fn bad_request_beside_ours() {
    edge("bad-request", 1);
}

#[test]
fn null_results() {
    edge("nulls", 1);
}

#[test]
fn largest_tag() {
    edge("largest-tag", 2);
}

/// Too late once is not too late for ever.
#[test]
fn retry_in_turn() {
    patience("retry", 2);
}

#[test]
fn retry_while_the_other_gives_up() {
    patience("retry-at-once", 1);
}

/// A job that was stopped beyond the other's patience, and goes on.
#[test]
fn retry_with_a_stopped_job() {
    let mut figure = Figure::new("21-stopped", "the other job stopped, limit 2 s; when it goes on they join");
    for (case, length) in [("retry-stopped", "3 s"), ("retry-stopped-long", "14 s")] {
        for done in patience(case, 1).iter().flatten() {
            let joined = done.lines("JOINED").next().expect("both sides join");
            figure.line(format!("{} for {length}: {joined}", done.title));
        }
    }
}
