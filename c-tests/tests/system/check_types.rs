//! `MPI_CONNECT_CHECK=types`: what was sent as other types than it is received is told, by every kind of message.

use c_tests::{Figure, Launch, Library, Mpi, Scene, WAYS, compile_fortran};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(90);

fn run(scene: &Scene, (a, b): (&Mpi, &Mpi), checks: [&str; 2], sections: &[&str]) -> [c_tests::Done; 2] {
    let start = |mpi, names: [&str; 3], check: &str| {
        let launch = Launch::new(mpi, 1, "check_types", &[&names[..], sections].concat());
        let launch = launch.env("MPI_CONNECT_LOG", "");
        scene.start(if check.is_empty() { launch } else { launch.env("MPI_CONNECT_CHECK", check) })
    };
    let jobs = [start(a, ["air", "ocean", "0"], checks[0]), start(b, ["ocean", "air", "1"], checks[1])];
    scene.pass(jobs, LIMIT)
}

const SECTIONS: [&str; 4] = ["differ", "derived", "agree", "of-fortran"];

#[test]
fn other_types_are_an_error_with_both_signatures() {
    // Each MPI on either side over either lane, beside others each time.
    for (lanes, places) in [("", 1), ("tcp", 3)] {
        for (a, b) in Mpi::ring_of(places) {
            let scene = Scene::new(format!("types checked: {}, with {}, lanes '{lanes}'", a.name, b.name));
            let start = |mpi, names: [&str; 3]| {
                let launch = Launch::new(mpi, 1, "check_types", &[&names[..], &SECTIONS].concat());
                scene.start(launch.envs(&[("MPI_CONNECT_CHECK", "types"), ("MPI_CONNECT_LANES", lanes)]))
            };
            let jobs = [start(a, ["air", "ocean", "0"]), start(b, ["ocean", "air", "1"])];
            let [teller, told] = scene.pass(jobs, LIMIT);
            let one_side = [&teller, &told].iter().any(|d| d.stderr.contains("a message came with"));
            scene.require(!one_side, "both have it on");
            let text = told.lines("TEXT").next().unwrap_or_default().to_owned();
            let right = "MPI_Irecv: the message from rank 0 of job 'air' with tag 5 has other types than the receive: \
                         MPI_DOUBLE x 4 sent, MPI_INT x 8 received";
            scene.require(text == right, &format!("the text is: {text}"));
        }
    }
}

/// A Fortran program and one in C: INTEGER, REAL and DOUBLE PRECISION are int, float and double, and nothing else.
#[test]
fn types_of_fortran_against_those_of_c() {
    for (a, b) in Mpi::ring() {
        for way in WAYS.iter().filter(|way| way.is_in(a)) {
            let scene = Scene::new(format!("types checked: {} {}, with C {}", way.name, a.name, b.name));
            let program =
                compile_fortran(a, way, "signatures", Library::Linked).unwrap_or_else(|said| panic!("{said}"));
            let checks = ("MPI_CONNECT_CHECK", "types");
            let fortran = Launch::of(a, 1, program, Library::Linked, &["air", "ocean"]).envs(&[checks]);
            let c = Launch::new(b, 1, "check_types", &["ocean", "air", "1", "to-fortran"]).envs(&[checks]);
            let done = scene.pass([scene.start(fortran), scene.start(c)], LIMIT);
            scene.require(done.iter().all(|d| d.checks() > 9), "both check something");
        }
    }
}

/// Long names, and types that are long to tell: as much of all of it is told as an error's text has room for, and
/// something of both types always.
#[test]
fn long_names_leave_room_for_the_types() {
    for (a, b) in Mpi::some_couples() {
        let scene = Scene::new(format!("types of jobs with long names: {}, with {}", a.name, b.name));
        let names = ["a", "o"].map(|letter| letter.repeat(200));
        let start = |mpi, names: [&str; 3]| {
            let launch = Launch::new(mpi, 1, "check_types", &[&names[..], &["long"]].concat());
            scene.start(launch.env("MPI_CONNECT_CHECK", "types"))
        };
        let jobs = [start(a, [&names[0], &names[1], "0"]), start(b, [&names[1], &names[0], "1"])];
        scene.pass(jobs, LIMIT);
    }
}

#[test]
fn nothing_is_checked_unless_both_have_it_on() {
    let (a, b) = Mpi::couples().next().expect("two MPIs");
    for checks in [["", ""], ["types", ""], ["", "types"]] {
        let scene = Scene::new(format!("types not checked: {checks:?}"));
        let done = run(&scene, (a, b), checks, &["off"]);
        // Whoever has it on where the other one has not would think that it is checked.
        let told = "compared where both jobs have MPI_CONNECT_CHECK=types, and ";
        let count = |text: &str| done.iter().map(|d| d.stderr.matches(text).count()).collect::<Vec<_>>();
        let right = match checks {
            ["", ""] => vec![0, 0],
            _ => vec![1, 1],
        };
        scene.require(count(told) == right, &format!("told {:?}, not {right:?}", count(told)));
    }
}

#[test]
fn what_it_costs() {
    let mut figure = Figure::new("19-check-types", "MPI_CONNECT_CHECK=types: half round trips, us, off and on");
    let (a, b) = Mpi::couples().next().expect("two MPIs");
    let mut rows = vec![["bytes", "off", "on"].map(String::from).to_vec()];
    let half = |check: &str| -> Vec<(String, f64)> {
        let scene = Scene::new(format!("types: speed, '{check}'"));
        let [done, _] = run(&scene, (a, b), [check, check], &["speed"]);
        let fields = done.lines("HALF").filter_map(|line| line.split_once(' '));
        fields.map(|(bytes, us)| (bytes.to_owned(), us.parse().expect("a time"))).collect()
    };
    let (off, on) = (half(""), half("types"));
    assert_eq!((off.len(), on.len()), (2, 2));
    for ((bytes, off), (_, on)) in off.iter().zip(&on) {
        rows.push(vec![bytes.clone(), format!("{off:.2}"), format!("{on:.2}")]);
    }
    figure.table(&rows);
    figure.line(format!("{} with {}, the median of 15 batches", a.name, b.name));
}
