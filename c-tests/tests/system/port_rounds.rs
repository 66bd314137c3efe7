//! What jobs take when they meet at a port they give back when they part: memory, descriptors, threads, communicators.

use c_tests::rounds::{growth, rounds};
use c_tests::{Figure, Launch, Mpi, Scene, width};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(600);

/// What may be there beyond, in KiB, whatever the number of rounds: pages of which little is used, blocks that malloc keeps
/// for the next call, and the names of the last 1,024 jobs (`MOST_NAMES`), some 110 bytes each.
const RESIDENT: i64 = 384;
const ALLOCATED: i64 = 224;
/// The first proof of each connection is remembered, up to 16,384 (`MOST_PROOFS`): the bytes of one, in tables that double, and of all. In a round
/// rank 0 takes a connection of each rank of the other side.
const PROOF: i64 = 200;
const PROOFS: i64 = 1536 << 10;
/// What an MPI leaves behind by itself, in bytes a round, on so many ranks: the same calls without the library show it. LAM
/// always; MPICH 4 on several ranks in about every second run, messages of its own that are never matched.
fn own(mpi: &Mpi, ranks: usize) -> i64 {
    match mpi.name {
        "lam" => 64,
        "mpich4" if ranks > 1 => 256,
        _ => 0,
    }
}

fn couple(figure: &mut Figure, server: &Mpi, client: &Mpi, rounds: u32, ranks: usize) {
    let scene = Scene::new(format!("{rounds} rounds at a port on {ranks}: {}, {}", server.name, client.name));
    let (path, first, all) = (scene.path("port"), (rounds / 10).to_string(), rounds.to_string());
    let path = path.to_str().expect("plain text");
    let start = |mpi, role| {
        let launch = Launch::new(mpi, ranks, "port_rounds", &[role, path, &first, &all]);
        // The UCX of MPICH 5 notes each memory that is unmapped, whoever does that, and forgets it only when it communicates.
        scene.start(launch.env("UCX_MEM_EVENTS", "no"))
    };
    let done = scene.pass([start(server, "server"), start(client, "client")], LIMIT);
    for (mpi, done) in [server, client].into_iter().zip(&done) {
        let (resident, allocated) = growth(&scene, done);
        let proofs = (PROOF * i64::from(rounds) * ranks as i64).min(PROOFS);
        let own = (own(mpi, ranks) * i64::from(rounds) + proofs) / 1024;
        let took = done.lines("TOOK").next().unwrap_or("?");
        figure.line(format!(
            "{} on {ranks}, {first} to {all} rounds: {resident:+} KiB resident, {allocated:+} allocated; {took} us a round",
            mpi.name
        ));
        scene.require(
            resident <= own + RESIDENT && allocated <= own + ALLOCATED,
            &format!("{}: memory grew by {resident} KiB, {allocated} allocated", mpi.name),
        );
    }
}

/// Nothing freezes, and nothing is left, however often two jobs meet.
#[test]
fn freezes_in_connect_disconnect_loops_ompi_13076() {
    let title =
        "connect and disconnect: memory after N/10 and N rounds; no more descriptors; equal: threads, communicators";
    let mut figure = Figure::new("29-port-rounds", title);
    let many = width::otherwise(400, 10_000, "10,000 rounds at a port of each couple, not 400");
    let on_two = width::otherwise(100, 1_000, "1,000 rounds at a port on two ranks, not 100");
    for (server, client) in Mpi::some_couples() {
        couple(&mut figure, server, client, rounds(many), 1);
    }
    for (server, client) in Mpi::couples().take(1) {
        couple(&mut figure, server, client, rounds(on_two), 2);
    }
}
