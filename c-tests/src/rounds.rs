//! What the tests of many rounds have in common: how many, and how much more memory is there after them.

use crate::{Done, Scene};

/// `MPI_CONNECT_TEST_ROUNDS` sets the number of rounds for all.
pub fn rounds(otherwise: u32) -> u32 {
    std::env::var("MPI_CONNECT_TEST_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(otherwise)
}

/// By how much the resident and the allocated memory grew between a tenth of the rounds and all of them, in KiB.
pub fn growth(scene: &Scene, done: &Done) -> (i64, i64) {
    let all = done.lines("GREW").filter_map(|line| {
        let (resident, allocated) = line.split_once(' ')?;
        Some((resident.parse::<i64>().ok()?, allocated.parse::<i64>().ok()?))
    });
    let worst = all.reduce(|a, b| (a.0.max(b.0), a.1.max(b.1)));
    scene.require(worst.is_some(), "the growth is told");
    worst.unwrap_or_default()
}
