//! A member (it has the key) that lies: it hurts what others have with it, nothing else.

use c_tests::{Launch, Mpi, Scene};
use std::path::Path;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

/// A process says that it is another job, in the naming service and by coming as its leader. Who asks for it by its own name is told;
/// the two jobs join as if it were not there.
#[test]
fn nobody_passes_for_the_leader_of_another_job() {
    for (a, b) in Mpi::couples() {
        let scene = Scene::new(format!("a liar between {} and {}", a.name, b.name));
        let air = scene.start(Launch::new(a, 2, "lied", &["air", "ocean", "liar"]));
        let ocean = scene.start(Launch::new(b, 2, "lied", &["ocean", "air"]));
        let _liar = scene.start(Launch::alone(Path::new(env!("CARGO_BIN_EXE_liar")), &["liar", "ocean", "air"]));
        scene.pass([air, ocean], LIMIT);
    }
}

/// The same at a port, where the name of a job decides whose checkpoints are meant: its leader alone speaks for it.
#[test]
fn nobody_speaks_at_a_port_for_a_job_that_it_does_not_lead() {
    for (a, b) in Mpi::couples() {
        let scene = Scene::new(format!("a liar at a port of {}, before {}", a.name, b.name));
        let air = scene.start(Launch::new(a, 2, "lied_port", &["air", "accept"]));
        let ocean = scene.start(Launch::new(b, 2, "lied_port", &["ocean", "connect"]));
        let _liar = scene.start(Launch::alone(Path::new(env!("CARGO_BIN_EXE_liar")), &["port", "ocean"]));
        scene.pass([air, ocean], LIMIT);
    }
}
