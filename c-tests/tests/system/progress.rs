//! Waiting for the other job must not starve one's own, nor the other way round. A fault here is a hang.

use c_tests::{Figure, Launch, Mpi, Scene};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

fn table(figure: &str, title: &str, roles: [&str; 2]) {
    let mut figure = Figure::new(figure, title);
    let mut rows: Vec<Vec<String>> = Vec::new();
    for (a, b) in Mpi::ring() {
        let scene = Scene::new(format!("progress of {}: {} beside {}", roles[0], a.name, b.name));
        let jobs = [
            scene.start(Launch::new(a, 2, "progress", &[roles[0], "air", "ocean"])),
            scene.start(Launch::new(b, 1, "progress", &[roles[1], "ocean", "air"])),
        ];
        let [done, _] = scene.pass(jobs, LIMIT);
        let calls: Vec<_> = done.lines("CALL").map(|l| l.split_once(" ms ").expect("a time")).collect();
        if rows.is_empty() {
            rows.push([String::new()].into_iter().chain(calls.iter().map(|c| c.0.to_owned())).collect());
        }
        let label = format!("{} (other: {})", a.name, b.name);
        rows.push([label].into_iter().chain(calls.iter().map(|c| c.1.to_owned())).collect());
    }
    figure.table(&rows);
}

#[test]
fn native_traffic_while_blocked_in_ours() {
    table(
        "30-native-progress",
        "rank 0 blocked in a call of ours, or in a loop of it: its native Ssend, Ibarrier and two 8 MiB rendezvous took (ms)",
        ["ours", "freer"],
    );
}

#[test]
fn our_traffic_while_blocked_in_native() {
    table(
        "31-our-progress",
        "rank 0 sits in a native Barrier: its transfer on the inter-communicator took (ms)",
        ["native", "taker"],
    );
}
