//! The plate, killed in the middle and gone on from checkpoints, as `make demo CHECKPOINT=1` does it, in fewer steps.

use c_tests::{Figure, Mpi, release, width};
use std::process::Command;

/// Runs the demo as its own program does, and demands that it says so.
fn shows(left: &Mpi, right: &Mpi) -> String {
    let mut plate = Command::new(env!("CARGO_BIN_EXE_plate"));
    plate.args(["--checkpoint", "--steps=400", left.name, right.name]).env("MPI_CONNECT_TEST_BUILDS", release());
    let done = plate.output().expect("the demo");
    let said = String::from_utf8_lossy(&done.stdout);
    let complaint = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{}, {}: {said}{complaint}", left.name, right.name);
    let line = |words: &str| {
        let found = said.lines().find(|line| line.starts_with(words));
        found.unwrap_or_else(|| panic!("no line \"{words}\": {said}{complaint}")).to_owned()
    };
    assert_eq!(line("largest difference"), "largest difference from the reference: 0");
    let places = ["left", "right"].map(|half| line(&format!("{half} half: goes on from")));
    format!("{}, {}: {}; {}", left.name, right.name, places.join("; "), line("largest difference"))
}

#[test]
fn the_plate_is_the_same_after_both_halves_were_killed() {
    let mut figure = Figure::new("48-plate", "the plate, its halves killed and restarted under each other's MPI");
    let couples: Vec<_> = Mpi::couples().collect();
    let first = couples.iter().copied().take(1).collect();
    for (left, right) in width::otherwise(first, couples, "the plate with checkpoints under the other couples of MPIs")
    {
        figure.line(shows(left, right));
    }
}
