//! What no waiting mends between two leaders is known at once.

use crate::common::*;
use base::protocol::greeting::head;
use node::{Config, Obstacle, PathRef, ProcId, Trusts};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::{Duration, Instant};
use trust::{Encrypt, GREETING, Key, Refused, Ring};
use wire::hello::VERSION;

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
        let mut greeting = [0; GREETING];
        stream.read_exact(&mut greeting).unwrap();
        assert_eq!(greeting[head::VERSION], VERSION as u8);
        greeting[head::VERSION] = 77;
        stream.write_all(&greeting).unwrap();
    });
    let contact = node::at_addresses([9; 16], [9; 16], &addresses);
    let path = job.node.open_control(job.id(), OTHER, [0; 16], &contact);
    assert_eq!(obstacle(&job, path, AT_ONCE), Some(Obstacle::Version { theirs: 77, ours: VERSION }));
    answers.join().unwrap();
}

/// Both keys are named, and what a user can do.
#[test]
fn keys_that_differ_are_known_at_once() {
    for lanes in [TCP, SHM] {
        over(lanes);
        let (here, there) = (Key::new(), Key::new());
        let with = |key: &Key| {
            Job::with(Config { trusts: Trusts::Keys(Ring::new(key.clone(), []), Encrypt::Network), ..config() })
        };
        let (a, b) = (with(&here), with(&there));
        let path = a.node.open_control(a.id(), b.id(), b.group.cookie, &b.node.contact());
        let Some(Obstacle::Untrusted { why }) = obstacle(&a, path, AT_ONCE) else { panic!("no obstacle is known") };
        assert_eq!(why, Refused::OtherKey { ours: here.id(), theirs: there.id() }.to_string());
    }
}

#[test]
fn lanes_with_none_in_common_are_known_on_both_sides() {
    let with = |allowed| {
        over(allowed);
        Job::new()
    };
    let (shared, tcp) = (with("shm"), with(TCP));
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
