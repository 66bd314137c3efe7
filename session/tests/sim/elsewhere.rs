//! Snapshots that another process of the system reads, from a file.

use crate::world::{Fault, World};
use std::process::Command;
use std::{env, fs};

const SEEDS: u64 = 100;
/// For the process that reads: the folder of the snapshots.
const READS: &str = "MPI_CONNECT_SIM_READS";

/// The run of a seed, in which one process goes on with a snapshot: its own, or the one that is given. Returns its own
/// snapshot, and the outcome.
fn run(seed: u64, given: Option<&[u8]>) -> (Vec<u8>, String) {
    let mut world = World::new(seed, Fault::None);
    let (at, own) = world.frozen();
    world.go_on(at, given.unwrap_or(&own)).expect("a snapshot");
    (own, format!("{:?}", world.run()))
}

/// What was written here goes on in a process with other addresses and other random numbers, to the same outcome.
#[test]
fn another_process_reads_a_snapshot() {
    if let Ok(folder) = env::var(READS) {
        for seed in 0..SEEDS {
            let given = fs::read(format!("{folder}/{seed}")).expect("a snapshot");
            let (own, outcome) = run(seed, Some(&given));
            assert!(own == given, "seed {seed}: the same state gives other bytes here");
            fs::write(format!("{folder}/{seed}.outcome"), outcome).expect("an outcome");
        }
        return;
    }
    let folder = env::temp_dir().join(format!("mpi_connect-sim-{}", std::process::id()));
    fs::create_dir(&folder).expect("a folder");
    let outcomes: Vec<String> = (0..SEEDS)
        .map(|seed| {
            let (own, outcome) = run(seed, None);
            fs::write(folder.join(seed.to_string()), own).expect("a file");
            outcome
        })
        .collect();
    let mut reader = Command::new(env::current_exe().expect("this program"));
    let reader = reader.args(["elsewhere::another_process_reads_a_snapshot", "--exact"]).env(READS, &folder);
    let read = reader.output().expect("another process");
    assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stdout));
    for (seed, outcome) in outcomes.iter().enumerate() {
        assert!(outcome.starts_with("Ok"), "seed {seed}: {outcome}");
        let there = fs::read_to_string(folder.join(format!("{seed}.outcome"))).expect("an outcome");
        assert_eq!(&there, outcome, "seed {seed}");
    }
    fs::remove_dir_all(&folder).expect("the folder goes");
}
