//! Faults at random under full traffic, a few of each kind: `make faults` runs many. And what such runs have found, each by
//! itself.
//!
//! `MPI_CONNECT_TEST_SEED` and `MPI_CONNECT_TEST_ROUNDS` set the seed and the number of faults.

use c_tests::faults::{Counts, Settings, possible, run, sums, table};
use c_tests::{Figure, Launch, Mpi, Scene, net, wait_until, width};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|n| n.parse().ok()).unwrap_or(otherwise)
}

#[test]
fn faults_of_all_kinds() {
    let (few, longest) =
        width::otherwise((20, 3), (100, 20), "100 faults at random of up to 20 s, not 20 of up to 3 s");
    let settings = Settings {
        faults: number("MPI_CONNECT_TEST_ROUNDS", few) as usize,
        seed: number("MPI_CONNECT_TEST_SEED", 7),
        longest: Duration::from_secs(longest),
        at_once: 4,
        only: None,
    };
    let title = format!("{} faults at random under full traffic, SEED={}", settings.faults, settings.seed);
    let mut figure = Figure::new("46-faults", title);
    match possible() {
        Ok(()) => {}
        Err(why) if net::cannot(&why) => return figure.line(format!("SKIPPED: {why}")),
        Err(why) => panic!("{why}"),
    }
    let run = run(&settings);
    figure.table(&table(&run));
    sums(&run).iter().for_each(|line| figure.line(line));
    assert!(run.failures.is_empty(), "{}", run.failures.join("\n"));
}

/// The traffic notices what it is there to notice: one of each, done by a sender.
#[test]
fn what_is_wrong_is_seen() {
    let cases: [(&str, fn(&Counts) -> u64); 4] = [
        ("lost", |counts| counts.lost),
        ("doubled", |counts| counts.doubled),
        ("swapped", |counts| counts.disorder),
        ("damaged", |counts| counts.damaged),
    ];
    let couples: Vec<_> = Mpi::some_couples().collect();
    for ((plant, of), (a, b)) in cases.into_iter().zip(couples.iter().cycle()) {
        let scene = Scene::new(format!("{} sends to {}, and one message is {plant}", a.name, b.name));
        let sender = scene.start(Launch::new(a, 1, "traffic", &["air", "ocean", "0", "7", plant]));
        let receiver = scene.start(Launch::new(b, 1, "traffic", &["ocean", "air", "1", "7"]));
        let counts = || Counts::read(&scene.path("count-1-0")).map(|read| read.1).unwrap_or_default();
        let seen = wait_until(LIMIT, || counts().rounds > 2);
        scene.require(seen && of(&counts()) == 1, &format!("{:?}", counts()));
        std::fs::write(scene.path("enough"), "").expect("a sign");
        let [sent, got] = scene.wait([sender, receiver], LIMIT);
        let passes = |done: &c_tests::Done| done.lines("DONE").any(|line| line.ends_with(" failures 0"));
        scene.require(passes(&sent) && !passes(&got), "the receiver has failed, and only that");
    }
}

/// Somebody empties the naming folder while a job waits in it for another one, which then comes.
#[test]
fn a_deleted_folder_is_made_again() {
    for (a, b) in Mpi::some_couples() {
        let scene = Scene::new(format!("the folder in which {} waits for {} is deleted", a.name, b.name));
        let start = |mpi, side: usize| {
            let names = ["air", "ocean"];
            let arguments = [names[side], names[1 - side], ["0", "1"][side]];
            scene.start(Launch::new(mpi, 1, "half", &arguments).env("MPI_CONNECT_TIMEOUT", "20"))
        };
        let air = start(a, 0);
        scene.wait_for_name("air");
        std::fs::remove_dir_all(scene.path("names")).expect("a folder of the scene");
        scene.pass([air, start(b, 1)], LIMIT);
    }
}
