//! What no waiting mends between two leaders is known at once.

mod common;
use common::*;
use node::{Allowed, Obstacle, PathRef, ProcId};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::{Duration, Instant};
use wire::hello::{HELLO_LEN, HelloAck, Status, VERSION};

const AT_ONCE: Duration = Duration::from_secs(20);
const OTHER: ProcId = ProcId { incarnation: 1 << 60, rank: 0 };

fn obstacle(job: &Job, path: PathRef, within: Duration) -> Option<Obstacle> {
    job.node.wait_until(&mut || false, |core| core.path_obstacle(path), Some(Instant::now() + within))
}

/// It says which version it speaks, in place of a generation.
#[test]
fn another_version_is_known_by_its_number() {
    over(TCP);
    let job = Job::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addresses = vec![listener.local_addr().unwrap()];
    let answers = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.read_exact(&mut [0; HELLO_LEN]).unwrap();
        assert_eq!(HelloAck::other_version().generation, VERSION);
        let ack =
            HelloAck { status: Status::OtherVersion, generation: 77, process: [0; 16], received: 0, proof: Vec::new() };
        stream.write_all(&ack.encode()).unwrap();
    });
    let contact = node::at_addresses([9; 16], [9; 16], &addresses);
    let path = job.node.open_control(job.id(), OTHER, [0; 16], &contact);
    assert_eq!(obstacle(&job, path, AT_ONCE), Some(Obstacle::Version { theirs: 77, ours: VERSION }));
    answers.join().unwrap();
}

#[test]
fn lanes_with_none_in_common_are_known_on_both_sides() {
    let with = |allowed| {
        over(allowed);
        Job::new()
    };
    let (shared, tcp) = (with(Allowed::only(0)), with(TCP));
    let to = |from: &Job, to: &Job| from.node.open_control(from.id(), to.id(), to.group.cookie, &to.node.contact());
    let none = |theirs: &str, ours: &str| Obstacle::NoneInCommon { theirs: theirs.into(), ours: ours.into() };
    let path = to(&tcp, &shared);
    assert_eq!(obstacle(&tcp, path, AT_ONCE), Some(none("shm", "tcp")));
    let path = to(&shared, &tcp);
    assert_eq!(obstacle(&shared, path, AT_ONCE), Some(none("tcp", "shm")));
    let mut far = tcp.node.contact();
    far.host = [9; 16];
    let path = shared.node.open_control(shared.id(), OTHER, [0; 16], &far);
    assert_eq!(obstacle(&shared, path, AT_ONCE), Some(Obstacle::OtherHost { ours: "shm".into() }));
    // Given up, it is waited for by nobody: the end takes no time limit.
    shared.node.with(|core| core.abandon(path));
    assert!(shared.node.with(|core| core.path_gone(path)).is_some());
}

/// Those who have one in common find no obstacle.
#[test]
fn where_there_is_a_way_there_is_no_obstacle() {
    let one = Job::new();
    over(TCP);
    let other = Job::new();
    let path = one.node.open_control(one.id(), other.id(), other.group.cookie, &other.node.contact());
    let connected = one.node.wait_until(
        &mut || false,
        |core| core.is_connected(path).then_some(()),
        Some(Instant::now() + AT_ONCE),
    );
    assert!(connected.is_some());
    assert_eq!(obstacle(&one, path, Duration::ZERO), None);
}
