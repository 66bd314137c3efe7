//! Ports: strangers come, are heard in order, and leave nothing behind.

use crate::common::*;
use node::{PathRef, ProcId};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const NOTICED: Duration = Duration::from_secs(5);
const COOKIE: [u8; 16] = [0xc0; 16];

/// A port of this job's process.
fn open(job: &Job) -> ProcId {
    static NEXT: AtomicU64 = AtomicU64::new(1_000_000);
    let port = ProcId { incarnation: NEXT.fetch_add(1, Ordering::Relaxed), rank: 0 };
    job.node.add_port(port, COOKIE);
    port
}

fn come(client: &Job, server: &Job, port: ProcId, word: &[u8]) -> PathRef {
    let path = client.node.open_control_to_port(client.id(), port, COOKIE, &server.node.contact());
    client.node.send_control(path, word);
    path
}

/// The next who comes, and its first word.
fn next(server: &Job, port: ProcId) -> (PathRef, Vec<u8>) {
    let end = Some(Instant::now() + LONG);
    let path = server.node.wait_until(&mut || false, |core| core.next_caller(port), end).expect("somebody comes");
    let word = server.node.wait_until(&mut || false, |core| core.recv_control(path), end).expect("it says something");
    (path, word)
}

/// Waits until the server knows nobody any more.
fn forgets_all(server: &Job, limit: Duration) {
    let nobody = |core: &mut node::Core| (core.pairs_in_use() == 0 && core.groups_known() == 0).then_some(());
    let done = server.node.wait_until(&mut || false, nobody, Some(Instant::now() + limit));
    let left = server.node.with(|core| (core.pairs_in_use(), core.groups_known()));
    assert!(done.is_some(), "pairs and groups that are left: {left:?}");
}

fn strangers_are_heard_in_order_and_answered() {
    let server = Job::new();
    let port = open(&server);
    let clients: Vec<_> = (0..5u8)
        .map(|n| {
            let client = Job::new();
            let path = come(&client, &server, port, &[n]);
            let (there, word) = next(&server, port);
            assert_eq!(word, [n]);
            server.node.send_control(there, &[n, n]);
            (client, path)
        })
        .collect();
    for (n, (client, path)) in (0..).zip(clients) {
        let heard = client.node.wait_until(&mut || false, |core| core.recv_control(path), Some(Instant::now() + LONG));
        assert_eq!(heard, Some(vec![n, n]));
        client.node.remove_group(client.group.incarnation);
        let left = client.node.wait_until(
            &mut || false,
            |core| (core.pairs_in_use() == 0).then_some(()),
            Some(Instant::now() + LONG),
        );
        assert!(left.is_some());
    }
    forgets_all(&server, NOTICED);
}

/// Nobody asks for them, and still nothing of them stays.
fn those_who_are_killed_are_forgotten() {
    let server = Job::new();
    let port = open(&server);
    // No kinds of messages that leaders know.
    for n in 100..120u8 {
        let client = Job::new();
        come(&client, &server, port, &[n]);
        let (_, word) = next(&server, port);
        assert_eq!(word, [n]);
        come(&client, &server, port, &[n]);
        client.node.kill();
    }
    forgets_all(&server, Duration::from_secs(30));
}

fn a_port_that_nobody_has_open_is_told_of() {
    let (server, client) = (Job::new(), Job::new());
    let gone = |path| {
        let gone = client.node.wait_until(&mut || false, |core| core.path_gone(path), Some(Instant::now() + NOTICED));
        assert!(gone.is_some());
    };
    // Never opened; closed; closed while one waits there.
    let port = ProcId { incarnation: 77, rank: 0 };
    gone(come(&client, &server, port, b"never"));
    let port = open(&server);
    server.node.remove_group(port.incarnation);
    gone(come(&client, &server, port, b"closed"));
    let port = open(&server);
    let path = come(&client, &server, port, b"waits");
    next(&server, port);
    server.node.remove_group(port.incarnation);
    gone(path);
}

/// Of the process no more is known than where it listens, as a short name tells.
fn a_refusal_is_believed() {
    over(TCP);
    let (server, client) = (Job::new(), Job::new());
    let port = open(&server);
    let addresses = addresses(&server.node);
    let contact = node::at_addresses([0; 16], [0; 16], &addresses);
    let path = client.node.open_control_to_port(client.id(), port, COOKIE, &contact);
    client.node.send_control(path, b"x");
    assert_eq!(next(&server, port).1, b"x");
    server.node.kill();
    let other = ProcId { incarnation: port.incarnation, rank: 0 };
    let late = Job::new();
    let path_of_late = late.node.open_control_to_port(late.id(), other, COOKIE, &contact);
    for (job, path) in [(&client, path), (&late, path_of_late)] {
        let gone = job.node.wait_until(&mut || false, |core| core.path_gone(path), Some(Instant::now() + NOTICED));
        assert!(gone.is_some());
    }
}

/// What was opened for ports is closed with the last of them, and told to others meanwhile.
#[test]
fn addresses_for_ports_end_with_them() {
    over(TCP);
    let job = Job::new();
    let before = addresses(&job.node);
    for port in [None, Some(0)] {
        let found = job.node.listen_at(None, port).unwrap();
        assert_eq!(found.len(), before.len());
        job.node.stop_listening(&found);
        assert_eq!(addresses(&job.node), before);
    }
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let ask = || job.node.listen_at(Some(free.ip()), Some(free.port())).unwrap();
    assert_eq!((ask(), ask()), (vec![free], vec![free]));
    let comes = || std::net::TcpStream::connect(free).is_ok();
    job.node.stop_listening(&[free]);
    assert!(comes() && addresses(&job.node).contains(&free));
    job.node.stop_listening(&[free]);
    assert!(!comes() && addresses(&job.node) == before);
}

#[test]
fn refusals() {
    a_refusal_is_believed();
}

over_both!(
    strangers_are_heard_in_order_and_answered,
    those_who_are_killed_are_forgotten,
    a_port_that_nobody_has_open_is_told_of,
);
