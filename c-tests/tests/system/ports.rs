//! Two jobs of programs that know MPI alone meet at MPI's own ports: every MPI as server, every MPI as client.

use c_tests::ports::{self, By, CLIENTS, ROUNDS, SERVERS};
use c_tests::{Figure, Launch, Library, MPIS, Mpi, Scene, compile, everyone, library, user, wait_until};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

fn meet(server: &Mpi, client: &Mpi, by: By) -> u64 {
    let scene = Scene::new(format!("ports by {by:?}: server {}, client {}", server.name, client.name));
    let jobs = ports::pair(&scene, server, client, by, Library::Preloaded).map(|launch| scene.start(launch));
    scene.pass(jobs, LIMIT).iter().map(|d| d.checks()).sum()
}

/// The port's name goes through a text file; no daemon, no server of names.
#[test]
fn port_in_a_text_file_ompi_6878() {
    let title = format!(
        "MPI_Open_port, MPI_Comm_accept, MPI_Comm_connect: server on {SERVERS} ranks (left), client on {CLIENTS} (right), \
         {ROUNDS} rounds: values checked, all right"
    );
    let mut figure = Figure::new("25-ports", title);
    for (server, client) in Mpi::wide() {
        figure.line(format!("{} {}: {}", server.sign, client.sign, meet(server, client, By::File)));
    }
}

/// Each server has one port, and takes its clients as they come.
#[test]
fn every_server_with_every_client() {
    let [servers, clients] = everyone::SHAPE;
    let title = format!(
        "ports, every pair of MPIs: servers on {servers} ranks (rows), clients on {clients} (columns): values checked, all right"
    );
    everyone::everyone("ports", &mut Figure::new("25-ports-everyone", title));
}

#[test]
fn published_and_looked_up() {
    let mut figure = Figure::new("25-ports-names", "The same by MPI_Publish_name and MPI_Lookup_name");
    for (server, client) in Mpi::ring_of(2) {
        figure.line(format!("{} {}: {}", server.sign, client.sign, meet(server, client, By::Name)));
    }
}

/// Two mpiruns on one node, as `two_mpiruns_one_node_ompi_6916`, by MPI's own calls.
#[test]
fn two_mpiruns_one_node_by_ports_ompi_6916() {
    for &mpi in MPIS.iter() {
        meet(mpi, mpi, By::Name);
    }
}

/// The second server with the same name is told so, and the first one goes on as if there had been none.
#[test]
fn a_server_started_twice() {
    for (a, b) in Mpi::couples() {
        let scene = Scene::new(format!("the server twice: {}, {}", a.name, b.name));
        let launches = || ports::pair(&scene, a, b, By::Name, Library::Preloaded);
        let [server, client] = launches();
        let first = scene.start(server);
        let published = || first.printed().matches("STEP 0 MPI_Comm_accept").count() > 0;
        scene.require(wait_until(LIMIT, published), "the first server accepts");
        let [second, _] = launches();
        let [second] = scene.wait([scene.start(second)], LIMIT);
        let failures = std::fs::read_to_string(scene.path("failures")).unwrap_or_default();
        let told = failures.lines().any(|l| l.contains("MPI_Publish_name") && l.contains("published already"));
        // LAM's launcher reports success whatever its ranks return.
        scene.require(
            told && second.lines("DONE").count() == 0,
            &format!("the second says: {failures}{}", second.stdout),
        );
        scene.pass([first, scene.start(client)], LIMIT);
    }
}

/// Two users on one host publish the same name at the same time, each in the private folder that is the default: neither
/// sees the other's.
#[test]
fn two_users_with_one_name_mpich_7750() {
    let Some(&mpi) = MPIS.iter().find(|m| m.name.starts_with("mpich")) else {
        println!("SKIPPED: two users: no MPICH was asked for");
        return;
    };
    if !user::is_other() {
        println!("SKIPPED: two users: needs root");
        return;
    }
    let scene = Scene::new("one name of two users");
    let default = |launch: Launch<'static>| launch.preloading(vec![library()]);
    let pair = || ports::pair(&scene, mpi, mpi, By::Name, Library::None).map(default);
    let ([server, client], [their_server, their_client]) = (pair(), pair());
    let jobs = [
        server,
        their_server.by_stranger().env("HOME", "/nonexistent"),
        client,
        their_client.by_stranger().env("HOME", "/nonexistent"),
    ];
    scene.pass(jobs.map(|launch| scene.start(launch)), LIMIT);
}

/// Started by nobody: each process on its own is a job too.
#[test]
fn without_mpirun_ompi_2375() {
    for (server, client) in Mpi::ring_of(3) {
        let scene = Scene::new(format!("without mpirun: server {}, client {}", server.name, client.name));
        let place = format!("file:{}", scene.path("port").display());
        let start = |mpi: &Mpi, role| {
            let program = compile(mpi, "ports", Library::None).display().to_string();
            let launch = Launch::unlaunched(mpi, &[&program, role, &place, "3", "1"]);
            scene.start(launch.env("LD_PRELOAD", &library().display().to_string()))
        };
        scene.pass([start(server, "server"), start(client, "client")], LIMIT);
    }
}

/// What a job leaves published and open when it ends is gone with it: a name leads nowhere, a port to nobody.
#[test]
fn left_behind_by_a_job_that_ended_ompi_2389() {
    for (a, b) in Mpi::couples() {
        let scene = Scene::new(format!("left behind: by {}, seen by {}", a.name, b.name));
        scene.pass([scene.start(Launch::new(a, 1, "port_kill", &["server", "left-behind"]))], LIMIT);
        scene.pass([scene.start(Launch::new(b, 1, "port_kill", &["client", "left-behind"]))], LIMIT);
    }
}
