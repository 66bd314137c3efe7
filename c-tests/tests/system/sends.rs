//! Every mode of sending, and all that may be done with a request.

use c_tests::{Figure, Launch, Mpi, Scene};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);
/// So often the two halves are started at most where a write is denied, until one was asked to write.
const ATTEMPTS: u32 = 6;

const SECTIONS: [&str; 8] =
    ["ready", "replace", "given-up", "given-up-and-freed", "looked-at", "cancelled", "persistent", "buffered"];

#[test]
fn modes_and_requests() {
    let mut figure =
        Figure::new("17-sends", "modes of sending and requests, 2 ranks a side: values checked, all right");
    for (a, b) in Mpi::some_couples() {
        let scene = Scene::new(format!("sends: {}, with {}", a.name, b.name));
        let start =
            |mpi, names: [&str; 3]| scene.start(Launch::new(mpi, 2, "sends", &[&names[..], &SECTIONS].concat()));
        let jobs = [start(a, ["air", "ocean", "0"]), start(b, ["ocean", "air", "1"])];
        for (mpi, done) in [a, b].iter().zip(scene.pass(jobs, LIMIT)) {
            figure.line(format!("{}: {}", mpi.name, done.checks()));
        }
    }
}

/// Both sides send before they receive what could go eager, though some of it is announced: nobody waits for ever.
#[test]
fn both_send_before_they_receive() {
    let mut figure = Figure::new("17-head-on", "both sides send before they receive: values checked, all right");
    for (a, b) in Mpi::some_couples() {
        for ranks in [1, 2] {
            let scene = Scene::new(format!("head on: {}, with {}, {ranks} ranks", a.name, b.name));
            let start = |mpi, names: [&str; 3]| {
                let arguments = [&names[..], &["one", "several"]].concat();
                scene.start(Launch::new(mpi, ranks, "head_on", &arguments))
            };
            let jobs = [start(a, ["air", "ocean", "0"]), start(b, ["ocean", "air", "1"])];
            for (mpi, done) in [a, b].iter().zip(scene.pass(jobs, LIMIT)) {
                figure.line(format!("{}, {ranks} ranks: {}", mpi.name, done.checks()));
            }
        }
    }
}

/// Where one process reads half of a message while the other writes the other half, the data is right, and nothing is written late; also where one
/// side is not allowed to write.
#[test]
fn long_messages_come_by_halves() {
    let mut figure = Figure::new("17-halves", "long messages to and fro: values checked, all right");
    for (a, b) in Mpi::some_couples() {
        for denied in [false, true] {
            for attempt in 1..=ATTEMPTS {
                let (scene, refused) = halves(a, b, denied, &mut figure);
                // Only a sender that is in a call and polls is asked, several times for one size: beside other tests that may take a while.
                if denied && !refused && attempt < ATTEMPTS {
                    continue;
                }
                scene.require(refused == denied, "its data was asked for, and it could write unless that was denied");
                break;
            }
        }
    }
}

/// Runs the two halves once. Returns also whether the kernel has refused a write.
fn halves(a: &'static Mpi, b: &'static Mpi, denied: bool, figure: &mut Figure) -> (Scene, bool) {
    let scene = Scene::new(format!("halves: {}, with {}, denied: {denied}", a.name, b.name));
    let start = |mpi, names: [&str; 3], denied: bool| {
        let launch = Launch::new(mpi, 1, "halves", &[&names[..], &["plain", "pieces"]].concat());
        let launch = launch.env("MPI_CONNECT_LANES", "shm").env("MPI_CONNECT_LOG", "debug");
        scene.start(if denied { launch.env("DENIED", "1") } else { launch })
    };
    let jobs = [start(a, ["air", "ocean", "0"], denied), start(b, ["ocean", "air", "1"], false)];
    // It takes half a minute and more beside other tests.
    let done = scene.pass(jobs, 2 * LIMIT);
    for (mpi, done) in [a, b].iter().zip(&done) {
        figure.line(format!("{}: {}", mpi.name, done.checks()));
    }
    let refused = done[0].stderr.contains("cannot write to the memory of");
    (scene, refused)
}
