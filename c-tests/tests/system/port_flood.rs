//! A port whose name is known to somebody who means no good: hundreds of connections that say what callers say, to a server
//! that may open few descriptors. It lives on, and serves those who mean well.

use base::ProcId;
use base::ident::random;
use c_tests::ports::short;
use c_tests::{Launch, Mpi, Scene, wait_until, width};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;
use trust::{Encrypt, KeyFile, Protocol, Ring, Trust};
use wire::hello::{HELLO_ACK_LEN, Hello};

const LIMIT: Duration = Duration::from_secs(90);
const SOON: Duration = Duration::from_secs(20);
/// What the server may open, and how many come.
const DESCRIPTORS: usize = 256;
const FLOOD: usize = 400;

/// One who has the key, says a good HELLO and no more; and how it was answered.
fn come(name: &str, ring: &Ring) -> (TcpStream, Option<u8>) {
    let (at, dest, cookie) = short(name);
    let source = ProcId { incarnation: u64::from_le_bytes(random()), rank: 0 };
    let trust = Arc::new(Trust::new(ring.clone(), Encrypt::Network));
    let process = trust.identity().process();
    let hello = Hello { source, dest, cookie, process, generation: 1, stripe: 0, received: 0, moves: None };
    let mut stream = TcpStream::connect(at).expect("the port is open");
    stream.set_read_timeout(Some(SOON)).expect("a limit");
    let mut ack = [0; HELLO_ACK_LEN];
    let proved = trust::dial(&mut stream, &trust, Protocol::Jobs, true);
    let said = proved.and_then(|_| stream.write_all(&hello.encode()));
    let answered = said.and_then(|()| stream.read_exact(&mut ack));
    (stream, answered.is_ok().then_some(ack[8]))
}

#[test]
fn a_flood_at_a_port_ends_nobody_and_keeps_nobody_out() {
    let all: Vec<_> = Mpi::ring().collect();
    // The library answers strangers alike under each.
    let ring = width::otherwise(all[..all.len().min(2)].to_vec(), all, "a flood at a port of each MPI, not of two");
    let title =
        |(server, client): &(&Mpi, &Mpi)| format!("flood at a port: server {}, clients {}", server.name, client.name);
    // Four at a time: for most of it they wait.
    for some in ring.chunks(4) {
        Scene::at_once(some, title, |scene, (server, client)| flood_at(scene, server, client));
    }
}

fn flood_at(scene: &Scene, server: &Mpi, client: &Mpi) {
    let path = scene.path("port");
    let place = path.to_str().expect("plain text");
    let limit = ["prlimit".to_owned(), format!("--nofile={DESCRIPTORS}:{DESCRIPTORS}")];
    let serving = scene.start(Launch::new(server, 1, "port_many", &["server", place, "6", "2"]).within(&limit));
    let name = || std::fs::read_to_string(&path).ok().filter(|name| name.starts_with("mpic:"));
    scene.require(wait_until(LIMIT, || name().is_some()), "the server tells its port");
    let name = name().expect("it was there");
    let ring = KeyFile::at(scene.key()).read().expect("the server has made it");
    let flood: Vec<_> = (0..FLOOD).map(|_| come(&name, &ring)).collect();
    let good = flood.iter().filter(|(_, status)| *status == Some(0)).count();
    let is_open = |stream: &TcpStream| {
        stream.set_nonblocking(true).is_ok()
            && matches!(stream.peek(&mut [0]), Err(e) if e.kind() == std::io::ErrorKind::WouldBlock)
    };
    let kept = flood.iter().filter(|(stream, _)| is_open(stream)).count();
    println!("{FLOOD} come, {good} are let in, {kept} are kept at a time");
    scene.require(kept > 0 && kept <= DESCRIPTORS / 2, "some are kept, and not too many");
    let clients = scene.start(Launch::new(client, 3, "port_many", &["client", place, "0", "2"]));
    let others = scene.start(Launch::new(client, 3, "port_many", &["client", place, "3", "2"]));
    scene.pass([serving, clients, others], LIMIT);
    // They were there all the time.
    drop(flood);
}
