//! One side of a port is killed before, while and after the two meet: the other is told, comes to its end, and the port
//! serves the next.

use c_tests::{Figure, Job, Launch, Mpi, Scene, wait_until};
use std::time::{Duration, SystemTime};

const LIMIT: Duration = Duration::from_secs(60);

fn start(scene: &Scene, mpi: &Mpi, role: &str, case: &str) -> Job {
    scene.start(Launch::new(mpi, 1, "port_kill", &[role, case]))
}

/// Kills who has said that it is ready for it, and tells the others when that was.
fn kill(scene: &Scene, role: &str) {
    let ready = wait_until(LIMIT, || scene.path("kill-me").exists());
    scene.require(ready, "nobody is ready to be killed");
    if role == "client" {
        // It said so before a call in which it is to be found waiting: there is no other sign of that.
        std::thread::sleep(Duration::from_millis(200));
    }
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
    scene.kill(&format!("port_kill-preloaded\0{role}\0"));
    let draft = scene.path("killed-draft");
    std::fs::write(&draft, format!("{:.3}\n", now.as_secs_f64())).expect("the scene's folder");
    std::fs::rename(&draft, scene.path("killed")).expect("the scene's folder");
}

/// Runs one case for each MPI as the one that is killed. The figures are milliseconds until the other was told.
fn killed(case: &str, role: &str, next: bool, figure: &mut Figure) {
    let other = if role == "server" { "client" } else { "server" };
    for (a, b) in Mpi::some_couples() {
        let scene = Scene::new(format!("{case}: killed {}, the other {}", a.name, b.name));
        let _victim = start(&scene, a, role, case);
        let survivor = start(&scene, b, other, case);
        let next = next.then(|| start(&scene, a, "next", case));
        kill(&scene, role);
        let done = match next {
            Some(next) => scene.pass([survivor, next], LIMIT).into_iter().next().expect("two"),
            None => scene.pass([survivor], LIMIT).into_iter().next().expect("one"),
        };
        scene.require(done.stdout.lines().any(|l| l == "END"), "Finalize comes back");
        let told: Vec<_> = done.lines("TOLD").collect();
        figure.line(format!("{case}: killed {}, the other {}: {}", a.sign, b.sign, told.join(", ")));
    }
}

fn figure(name: &str) -> Figure {
    Figure::new(name, "one side of a port killed: ms until the other's call says so (limit 5000)")
}

#[test]
fn server_killed_before_the_client_connects() {
    killed("server-before", "server", false, &mut figure("27-port-kill-a"));
}

#[test]
fn server_killed_while_the_client_waits_in_connect() {
    killed("server-meanwhile", "server", false, &mut figure("27-port-kill-b"));
}

#[test]
fn client_killed_while_it_waits_in_connect() {
    killed("client-meanwhile", "client", true, &mut figure("27-port-kill-c"));
}

#[test]
fn client_killed_and_the_next_is_served() {
    killed("client-while-accepting", "client", true, &mut figure("27-port-kill-d"));
}

#[test]
fn server_killed_after_they_met() {
    killed("server-after", "server", false, &mut figure("27-port-kill-e"));
}

#[test]
fn client_killed_after_they_met() {
    killed("client-after", "client", false, &mut figure("27-port-kill-f"));
}

/// Whoever waits in MPI_Comm_disconnect for one who dies comes back.
#[test]
fn disconnect_comes_back_ompi_4542_1779() {
    killed("server-parting", "server", false, &mut figure("27-port-kill-g"));
}

#[test]
fn server_dies_client_does_not_hang_in_finalize_mpich_2205() {
    killed("server-dies-client-finalizes", "server", false, &mut figure("27-port-kill-h"));
}

/// No leftovers: a name that a killed job has published is nobody's at once.
#[test]
fn names_of_a_killed_job_are_gone_adios2_1910() {
    killed("published", "server", false, &mut figure("27-port-kill-i"));
}
