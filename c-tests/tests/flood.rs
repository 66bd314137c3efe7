//! A flood of messages that nobody has asked for: memory stays bounded on both sides, nothing is lost.

use c_tests::{Done, Figure, Launch, Mpi, Scene};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(120);
/// What either side may grow by, beyond the program's own buffers and requests.
const BOUND_KIB: u64 = 32 << 10;

fn grown(done: &Done) -> u64 {
    let line = done.lines("FLOOD").next().expect("the program says how far it grew");
    let words: Vec<_> = line.split_whitespace().collect();
    words[words.len() - 2].parse().expect("a number")
}

#[test]
fn unexpected_flood_is_bounded() {
    let mut figure = Figure::new("50-flood", "100,000 unexpected messages of 1 KiB: peak growth of memory (KiB)");
    let mut rows = vec![["", "sender", "receiver", "seconds"].map(String::from).to_vec()];
    let mut worst = 0;
    for (a, b) in Mpi::mixed() {
        for way in ["isend", "send"] {
            let scene = Scene::new(format!("flood by {way}, {} to {}", a.name, b.name));
            let jobs = [
                scene.start(Launch::new(a, 1, "flood", &["sender", way, "air", "ocean"])),
                scene.start(Launch::new(b, 1, "flood", &["receiver", way, "ocean", "air"])),
            ];
            let [sender, receiver] = scene.pass(jobs, LIMIT);
            worst = worst.max(grown(&sender)).max(grown(&receiver));
            rows.push(vec![
                format!("{way}, {} to {}", a.name, b.name),
                grown(&sender).to_string(),
                grown(&receiver).to_string(),
                format!("{:.1}", receiver.took.as_secs_f64()),
            ]);
        }
    }
    figure.table(&rows);
    assert!(worst < BOUND_KIB, "memory grew by {worst} KiB, bound {BOUND_KIB}");
}
