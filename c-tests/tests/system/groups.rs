//! Groups with processes of several jobs: MPI's whole algebra, against a model.

use c_tests::{Figure, Launch, Mpi, Scene};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

/// Operations in each of the random programs.
fn rounds() -> String {
    std::env::var("MPI_CONNECT_TEST_ROUNDS").unwrap_or("150".into())
}

fn seed() -> String {
    std::env::var("MPI_CONNECT_TEST_SEED").unwrap_or("1".into())
}

/// Two jobs; then three, each joined to both others.
#[test]
fn algebra() {
    let mut figure = Figure::new("22-groups", "groups over two and three jobs: values checked, all right");
    let (seed, rounds) = (seed(), rounds());
    for (a, b) in Mpi::couples() {
        let scene = Scene::new(format!("groups: {} 3, {} 2", a.name, b.name));
        let start = |mpi, n, words: &[&str]| {
            let words = [&[words[0], &seed, &rounds], &words[1..]].concat();
            scene.start(Launch::new(mpi, n, "groups", &words))
        };
        let done = scene.pass([start(a, 3, &["air", "ocean"]), start(b, 2, &["ocean", "air"])], LIMIT);
        let mut checks: u64 = done.iter().map(|d| d.checks()).sum();
        let jobs = [(b, 3, ["air", "ice", "ocean"]), (a, 2, ["ice", "air", "ocean"]), (a, 1, ["ocean", "air", "ice"])];
        let done = scene.pass(jobs.map(|(mpi, n, words)| start(mpi, n, &words)), LIMIT);
        checks += done.iter().map(|d| d.checks()).sum::<u64>();
        figure.line(format!("{} {}: {checks}", a.sign, b.sign));
    }
}
