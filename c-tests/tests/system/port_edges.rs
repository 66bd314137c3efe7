//! The edges of what MPI promises of ports and published names, between jobs of programs that know MPI alone.

use c_tests::{Figure, Launch, Mpi, Scene};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(45);

/// Both jobs go through these sections of a program. Gives how many values were checked.
fn sides(program: &str, sections: &[&str], pair: (&Mpi, &Mpi)) -> u64 {
    sides_with(program, sections, pair, &[])
}

fn sides_with(program: &str, sections: &[&str], (server, client): (&Mpi, &Mpi), settings: &[(&str, &str)]) -> u64 {
    let scene = Scene::new(format!("{}: server {}, client {}", sections.join(" "), server.name, client.name));
    let start = |mpi, role| {
        let launch = Launch::new(mpi, 2, program, &[&[role], sections].concat());
        scene.start(launch.envs(settings))
    };
    let done = scene.pass([start(server, "server"), start(client, "client")], LIMIT);
    done.iter().map(|d| d.checks()).sum()
}

/// The same over every MPI, once on either side.
fn ring(program: &str, sections: &[&str]) {
    for pair in Mpi::ring() {
        sides(program, sections, pair);
    }
}

/// The same over every MPI, on one side.
fn couples(program: &str, sections: &[&str]) {
    for pair in Mpi::some_couples() {
        sides(program, sections, pair);
    }
}

/// Who comes first waits, whoever it is: connect before accept too.
#[test]
fn either_comes_first() {
    couples("port_edges", &["early"]);
}

/// A server that waits for seconds goes on waiting.
#[test]
fn accept_when_the_peer_is_late_ompi_1905() {
    for pair in Mpi::some_couples() {
        sides("port_edges", &["late"], pair);
    }
}

#[test]
fn over_any_communicator_from_any_root() {
    ring("port_edges", &["turns", "within"]);
}

#[test]
fn several_ports_in_one_process() {
    couples("port_edges", &["several", "crossed"]);
}

#[test]
fn names_as_programs_read_them() {
    couples("port_edges", &["as-read"]);
}

#[test]
fn names_that_lead_nowhere() {
    ring("port_edges", &["altered", "closed", "not-opened"]);
}

#[test]
fn closed_while_clients_wait() {
    couples("port_edges", &["closed-on"]);
}

/// A client that gave up does not spoil the next one's turn; an accept with a limit says that it was too short.
#[test]
fn given_up_and_tried_again() {
    for pair in Mpi::some_couples() {
        sides("port_edges", &["given-up"], pair);
    }
}

/// The limit of the environment holds for both sides.
#[test]
fn too_late_by_the_environment() {
    for pair in Mpi::some_couples() {
        sides_with("port_edges", &["impatient"], pair, &[("MPI_CONNECT_TIMEOUT", "1")]);
    }
}

/// Published, looked up, taken back; and nothing is behind the name that was looked up.
#[test]
fn published_names_garbage_at_the_end_mpich_5058() {
    ring("port_uses", &["names"]);
}

#[test]
fn infos() {
    couples("port_uses", &["infos"]);
}

#[test]
fn broadcasts_and_barriers() {
    let mut figure =
        Figure::new("26-port-collectives", "MPI_Bcast and MPI_Barrier between jobs: values checked, all right");
    for pair in Mpi::ring() {
        let checks = sides("port_uses", &["broadcasts", "barrier", "collectives"], pair);
        figure.line(format!("{} {}: {checks}", pair.0.sign, pair.1.sign));
    }
}

#[test]
fn parting_waits_for_what_is_under_way() {
    couples("port_uses", &["pending", "children"]);
}

/// Shadows are used again: nothing of one inter-communicator is on another.
#[test]
fn port_after_port_begins_afresh() {
    ring("port_uses", &["afresh"]);
}

#[test]
fn joined_over_a_socket() {
    ring("port_uses", &["join", "join-bad"]);
}
