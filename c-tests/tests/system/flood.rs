//! A flood of messages that nobody has asked for: memory stays bounded on both sides, nothing is lost.

use c_tests::{Done, Figure, Launch, Mpi, Scene};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(120);
/// What either side may grow by, in KiB, beyond the program's own buffers.
const BOUND: u64 = 32 << 10;
/// What each request that the program itself keeps open may cost beside, in bytes.
const REQUEST: u64 = 640;
const MESSAGES: u64 = 100_000;

fn grown(done: &Done) -> u64 {
    let line = done.lines("FLOOD").next().expect("the program says how far it grew");
    let words: Vec<_> = line.split_whitespace().collect();
    words[words.len() - 2].parse().expect("a number")
}

#[test]
fn unexpected_flood_is_bounded() {
    let mut figure = Figure::new(
        "50-flood",
        "100,000 unexpected messages of 1 KiB: peak growth of memory (KiB; isend keeps 100,000 requests open)",
    );
    let mut rows = vec![["", "sender", "receiver", "seconds"].map(String::from).to_vec()];
    let mut over = Vec::new();
    for (a, b) in Mpi::some_couples() {
        for way in ["isend", "send"] {
            let scene = Scene::new(format!("flood by {way}, {} to {}", a.name, b.name));
            let jobs = [
                scene.start(Launch::new(a, 1, "flood", &["sender", way, "air", "ocean"])),
                scene.start(Launch::new(b, 1, "flood", &["receiver", way, "ocean", "air"])),
            ];
            let [sender, receiver] = scene.pass(jobs, LIMIT);
            let requests = if way == "isend" { MESSAGES * REQUEST / 1024 } else { 0 };
            for (done, bound) in [(&sender, BOUND + requests), (&receiver, BOUND)] {
                if grown(done) > bound {
                    over.push(format!("{}: {} KiB, bound {bound}", done.title, grown(done)));
                }
            }
            rows.push(vec![
                format!("{way}, {} to {}", a.name, b.name),
                grown(&sender).to_string(),
                grown(&receiver).to_string(),
                format!("{:.1}", receiver.took.as_secs_f64()),
            ]);
        }
    }
    figure.table(&rows);
    assert!(over.is_empty(), "memory grew: {over:?}");
}
