//! What may be asked of requests and their statuses, and what becomes of those that fail.

use c_tests::{Figure, Launch, MPIS, Mpi, Scene};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);
/// A software device moves a tenth of what memory does.
const VAST: Duration = Duration::from_secs(400);

/// In the last one, one side leaves.
const SECTIONS: [&str; 8] = ["errors", "elements", "halves", "counted", "many", "flushed", "asked", "left"];

/// Sections about calls that an MPI does not have, with the reason.
const LACKING: [(&str, &[&str], &str); 8] = [
    ("lam", &["halves", "counted", "many", "flushed", "asked"], "MPI-1.2 and parts of 2"),
    ("openmpi4", &["halves", "counted", "many", "flushed", "asked"], "MPI-3.1"),
    ("openmpi5", &["counted", "many", "flushed", "asked"], "MPI-4.0 without large counts"),
    ("mpich4", &["many", "flushed", "asked"], "MPI-4.0"),
    ("impi", &["asked"], "an extension of MPICH 5"),
    ("impi-abi", &["asked"], "an extension of MPICH 5"),
    ("mpich5-abi", &["asked"], "not part of the standard ABI"),
    ("mpich5", &[], "lacks nothing"),
];

/// Each MPI beside itself or one with the same calls, since both sides run the same sections.
fn couples() -> Vec<(&'static Mpi, &'static Mpi)> {
    let lacks = |m: &Mpi| LACKING.iter().find(|(name, ..)| *name == m.name).expect("a row for each MPI").1;
    let mut alike: Vec<Vec<&Mpi>> = Vec::new();
    for mpi in MPIS.iter() {
        match alike.iter_mut().find(|group| lacks(group[0]) == lacks(mpi)) {
            Some(group) => group.push(mpi),
            None => alike.push(vec![mpi]),
        }
    }
    alike.iter().flat_map(|group| group.chunks(2).map(|pair| (pair[0], pair[pair.len() - 1]))).collect()
}

#[test]
fn asked_and_failed() {
    let mut figure = Figure::new("19-requests", "questions to requests, and failures, 2 ranks a side: values checked");
    for (a, b) in couples() {
        let scene = Scene::new(format!("requests: {}, with {}", a.name, b.name));
        let start =
            |mpi, names: [&str; 3]| scene.start(Launch::new(mpi, 2, "requests", &[&names[..], &SECTIONS].concat()));
        let jobs = [start(a, ["air", "ocean", "0"]), start(b, ["ocean", "air", "1"])];
        for (mpi, done) in [a, b].iter().zip(scene.pass(jobs, LIMIT)) {
            let (_, lacks, why) = LACKING.iter().find(|(name, ..)| *name == mpi.name).expect("a row for each MPI");
            let said: Vec<_> = done.lines("LACKING").collect();
            scene.require(said == *lacks, &format!("{} lacks {said:?}, not {lacks:?}", mpi.name));
            let without = if lacks.is_empty() { String::new() } else { format!(", not {}: {why}", lacks.join(", ")) };
            figure.line(format!("{}: {}{without}", mpi.name, done.checks()));
        }
    }
}

/// Between one couple of MPIs with large counts: it takes 2 GiB a side.
#[test]
fn over_two_to_the_31_elements() {
    let having = |m: &&&Mpi| LACKING.iter().any(|(name, lacks, _)| *name == m.name && !lacks.contains(&"counted"));
    let all: Vec<&Mpi> = MPIS.iter().filter(having).copied().collect();
    let (Some(a), Some(b)) = (all.first(), all.last()) else { return };
    let scene = Scene::large(format!("2^31 elements and more, from {} to {}", a.name, b.name));
    let jobs = [(a, ["air", "ocean", "0", "vast"]), (b, ["ocean", "air", "1", "vast"])];
    let done = scene.pass(jobs.map(|(mpi, words)| scene.start(Launch::new(mpi, 1, "requests", &words))), VAST);
    scene.require(done.iter().all(|d| d.lines("LACKING").next().is_none()), "both have the calls");
}
