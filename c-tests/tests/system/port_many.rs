//! Many clients on one port, one after another and all at once, each with an inter-communicator of its own.

use c_tests::{Figure, Launch, Mpi, Scene};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(90);

/// The server accepts `jobs` times `ranks` clients in each turn, and lets none go before all have come.
fn clients(figure: &mut Figure, server: &Mpi, client: &Mpi, jobs: usize, ranks: usize, turns: usize) {
    let all = (jobs * ranks).to_string();
    let scene =
        Scene::new(format!("{all} clients at once, {turns} turns: server {}, clients {}", server.name, client.name));
    let (path, turns) = (scene.path("port"), turns.to_string());
    let path = path.to_str().expect("plain text");
    let mut running = vec![scene.start(Launch::new(server, 1, "port_many", &["server", path, &all, &turns]))];
    for job in 0..jobs {
        let first = (job * ranks).to_string();
        running.push(scene.start(Launch::new(client, ranks, "port_many", &["client", path, &first, &turns])));
    }
    let mut took = String::new();
    // The server is the first of them.
    for job in running {
        let [done] = scene.pass([job], LIMIT);
        took = done.lines("TOOK").next().map_or(took, str::to_owned);
    }
    figure.line(format!("server {}, {all} clients of {}, {turns} turns: {took} s", server.sign, client.sign));
}

#[test]
fn sixty_four_clients_at_once() {
    let mut figure = Figure::new("28-port-many", "clients at once on one port, all kept until the last has come");
    for (server, client) in Mpi::some_couples() {
        clients(&mut figure, server, client, 4, 16, 1);
    }
}

#[test]
fn clients_again_and_again() {
    let mut figure = Figure::new("28-port-turns", "clients on one port, again and again");
    for (server, client) in Mpi::ring() {
        clients(&mut figure, server, client, 2, 2, 10);
    }
}

/// Several threads of one process in the same port at once, on either side.
#[test]
fn threads_at_one_port() {
    let able = |mpi: &Mpi| mpi.name != "lam";
    for (server, client) in Mpi::ring() {
        if !able(server) || !able(client) {
            println!("SKIPPED: threads of {} with {}: LAM has no MPI_THREAD_MULTIPLE", server.name, client.name);
            continue;
        }
        let scene = Scene::new(format!("threads at one port: server {}, client {}", server.name, client.name));
        let path = scene.path("port");
        let start =
            |mpi, role| scene.start(Launch::new(mpi, 1, "port_threads", &[role, path.to_str().expect("plain text")]));
        scene.pass([start(server, "server"), start(client, "client")], LIMIT);
    }
}
