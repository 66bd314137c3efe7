//! The air/ocean pair: both ways round, several sizes, every value checked.

use c_tests::everyone::{SHAPE, everyone};
use c_tests::{Figure, Launch, Library, MPIS, Mpi, Scene, width};
use std::time::Duration;

const SECTIONS: &[&str] = &[
    "queries",
    "send",
    "ssend",
    "sendrecv",
    "wait",
    "waitall",
    "waitany",
    "waitsome",
    "test",
    "testall",
    "testany",
    "testsome",
    "test-keeps",
    "probe",
    "matched",
    "order",
    "tags",
    "proc-null",
    "types",
    "contiguous",
    "vectors",
    "sizes",
    "beside",
    "arguments",
    "truncation",
    "refused",
    "names",
    "again",
    "rejoin",
    "attributes",
    "freed",
];
const LIMIT: Duration = Duration::from_secs(60);

type Pair = (&'static Mpi, &'static Mpi);

fn halves<'a>(a: &'a Mpi, b: &'a Mpi, shape: (usize, usize), library: Library, sections: &[&str]) -> [Launch<'a>; 2] {
    let air: Vec<_> = ["air", "ocean", "0"].iter().chain(sections).copied().collect();
    let ocean: Vec<_> = ["ocean", "air", "1"].iter().chain(sections).copied().collect();
    [Launch::with(a, shape.0, "pair", library, &air), Launch::with(b, shape.1, "pair", library, &ocean)]
}

/// Runs both halves and gives the values checked in each section, both sides together.
fn run(scene: &Scene, halves: [Launch<'_>; 2]) -> Vec<(String, u64)> {
    let jobs = halves.map(|h| scene.start(h));
    let [air, ocean] = scene.pass(jobs, LIMIT);
    let checks = |line: &str| line.split_whitespace().nth(2).and_then(|n| n.parse::<u64>().ok()).expect("a number");
    air.lines("SECTION")
        .zip(ocean.lines("SECTION"))
        .map(|(a, o)| (a.split_whitespace().next().expect("a name").to_owned(), checks(a) + checks(o)))
        .collect()
}

/// Runs every section, and gives how many values were checked.
fn whole(a: &Mpi, b: &Mpi, shape: (usize, usize), library: Library) -> u64 {
    let scene = Scene::new(format!("air {} {}, ocean {} {}", a.name, shape.0, b.name, shape.1));
    let sections = run(&scene, halves(a, b, shape, library, SECTIONS));
    scene.require(sections.len() == SECTIONS.len(), "every section reports");
    sections.iter().map(|(_, n)| n).sum()
}

#[test]
fn every_mpi_with_every_mpi() {
    let [left, right] = SHAPE;
    let title = format!(
        "every pair of MPIs: air on {left} (rows) and ocean on {right} (columns) send, receive, probe: values checked, all right"
    );
    everyone("names", &mut Figure::new("10-everyone", title));
}

/// All that can be done, over pairs of MPIs.
fn sections(name: &str, title: &str, pairs: impl IntoIterator<Item = Pair>, shape: (usize, usize), library: Library) {
    let mut figure = Figure::new(name, format!("{title}: values checked, all right"));
    for (a, b) in pairs {
        figure.line(format!("{} {}: {}", a.sign, b.sign, whole(a, b, shape, library)));
    }
    figure.line(format!("sections: {}", SECTIONS.join(", ")));
}

/// Each MPI once, on the left or on the right; at full width on both. An odd number of places has all of them.
fn every_other(places: usize) -> Vec<Pair> {
    let all: Vec<Pair> = Mpi::ring_of(places).collect();
    let half = all.iter().copied().step_by(2).collect();
    width::otherwise(half, all, "each MPI on both sides, of air and ocean on 1 and 1, 3 and 1, and linked")
}

#[test]
fn air_on_two_ocean_on_one() {
    let title = "air (left, 2 ranks) and ocean (right, 1 rank)";
    sections("11-pairs", title, Mpi::wide(), (2, 1), Library::Preloaded);
}

#[test]
fn air_on_one_ocean_on_one() {
    sections("11-pairs-1-1", "air and ocean, 1 rank each", every_other(7), (1, 1), Library::Preloaded);
}

#[test]
fn air_on_two_ocean_on_three() {
    sections("11-pairs-2-3", "air (2 ranks) and ocean (3)", Mpi::ring_of(3), (2, 3), Library::Preloaded);
}

#[test]
fn air_on_three_ocean_on_one() {
    sections("11-pairs-3-1", "air (3 ranks) and ocean (1)", every_other(5), (3, 1), Library::Preloaded);
}

#[test]
fn air_and_ocean_linked() {
    sections("12-linked", "air (2 ranks) and ocean (1), linked", every_other(3), (2, 1), Library::Linked);
}

#[test]
fn over_two_gibibytes() {
    let mut figure = Figure::new("13-big", "one message of 2049 MiB, every byte checked");
    for (a, b) in Mpi::some_couples() {
        let scene = Scene::large(format!("2049 MiB from {} to {}", a.name, b.name));
        let jobs = halves(a, b, (1, 1), Library::Preloaded, &["big"]).map(|h| scene.start(h));
        // It takes half a minute and more beside other tests.
        let [air, _] = scene.pass(jobs, 2 * LIMIT);
        let rate = air.lines("FIGURE big").next().expect("the program says how fast").to_owned();
        figure.line(format!("{} to {}: {rate}", a.name, b.name));
    }
}

/// Two mpiruns on one node, each with its own session folders, shared memory and daemons: they join.
#[test]
fn two_mpiruns_one_node_ompi_6916() {
    for &mpi in MPIS.iter() {
        let scene = Scene::new(format!("two mpiruns of {} on one node", mpi.name));
        run(&scene, halves(mpi, mpi, (2, 2), Library::Preloaded, &["queries", "send"]));
    }
}

/// Either half may come first: the second is started only when the first is seen waiting.
#[test]
fn either_starts_first() {
    for first in 0..2 {
        for (a, b) in Mpi::some_couples() {
            let scene = Scene::new(format!("{} first", ["air", "ocean"][first]));
            let [air, ocean] = halves(a, b, (1, 2), Library::Preloaded, &["queries", "send"]);
            let jobs = if first == 0 {
                let air = scene.start(air);
                scene.wait_for_name("air");
                [air, scene.start(ocean)]
            } else {
                let ocean = scene.start(ocean);
                scene.wait_for_name("ocean");
                [scene.start(air), ocean]
            };
            scene.pass(jobs, LIMIT);
        }
    }
}

/// A peer that is two seconds late is no reason to give up.
#[test]
fn peer_two_seconds_late_ompi_1905() {
    for (a, b) in Mpi::some_couples() {
        let scene = Scene::new(format!("{} two seconds after {}", b.name, a.name));
        let [air, ocean] = halves(a, b, (1, 1), Library::Preloaded, &["queries", "send"]);
        let air = scene.start(air);
        scene.wait_for_name("air");
        std::thread::sleep(Duration::from_secs(2)); // what the test is about
        let ocean = scene.start(ocean);
        scene.pass([air, ocean], LIMIT);
    }
}

/// Three jobs, each joined to both others.
#[test]
fn three_jobs() {
    for (a, b) in Mpi::some_couples() {
        let scene = Scene::new(format!("air {} 2, ice {} 3, ocean {} 1", a.name, b.name, a.name));
        let jobs = [
            scene.start(Launch::new(a, 2, "three", &["air", "ice", "ocean"])),
            scene.start(Launch::new(b, 3, "three", &["ice", "air", "ocean"])),
            scene.start(Launch::new(a, 1, "three", &["ocean", "air", "ice"])),
        ];
        scene.pass(jobs, LIMIT);
    }
}

/// Connecting and parting, over and over, leaves nothing that runs out.
#[test]
fn many_connections_ompi_13076() {
    for (a, b) in Mpi::some_couples() {
        let scene = Scene::new("connect and part, over and over");
        let sections: Vec<_> = ["again", "rejoin", "freed"].repeat(10);
        run(&scene, halves(a, b, (2, 1), Library::Preloaded, &sections));
    }
}
