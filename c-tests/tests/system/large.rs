//! Jobs whose ranks ask for contact records, as those of more than 1,024 ranks do: here of any size, by a setting.

use c_tests::{Figure, Launch, Mpi, Scene};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(120);
/// More than the groups that a process remembers when it has left them.
const ROUNDS: &str = "6";

#[test]
fn records_are_asked_for() {
    let mut figure = Figure::new("22-large", "jobs whose ranks ask for contact records: values checked, all right");
    for (a, b) in Mpi::couples() {
        // Both sides ask; one side asks, in a tree of two levels where the processor allows that.
        for (first, second, most) in [(6, 4, "0"), (3, 18, "3")] {
            let scene = Scene::new(format!("large: {} {first}, {} {second}, {most} told", a.name, b.name));
            let port = scene.path("port").display().to_string();
            let start = |mpi, n, name, other| {
                let launch = Launch::new(mpi, n, "large", &[name, other, &port, ROUNDS]);
                scene.start(launch.env("MPI_CONNECT_TUNE_RECORDS", most))
            };
            let done = scene.pass([start(a, first, "air", "ocean"), start(b, second, "ocean", "air")], LIMIT);
            let checks: u64 = done.iter().map(|d| d.checks()).sum();
            figure.line(format!("{} {} {first} + {second}: {checks}", a.sign, b.sign));
        }
    }
}
