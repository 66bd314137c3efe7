//! Many clients at once, and slow ones.

use crate::kit::{
    LIMIT, Local, Raw, Remote, claim, claim_body, claim_of, hello, is_there, lookup_body, open, record, wait_until,
};
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

const LEASE: Duration = Duration::from_secs(60);

#[test]
fn two_hundred_clients_at_once() {
    let server = Local::start(LEASE, 1000);
    let mut clients: Vec<Raw> = (0..200).map(|_| Raw::greeted(server.address())).collect();
    let begun = Instant::now();
    for (i, client) in clients.iter_mut().enumerate() {
        client.send(&claim_body([i as u8 + 1; 16], &format!("name {i}")));
    }
    for client in &mut clients {
        assert_eq!(client.answer().unwrap()[0], 0, "granted");
    }
    for (i, client) in clients.iter_mut().enumerate() {
        client.send(&lookup_body(&format!("name {}", (i + 1) % 200)));
    }
    for client in &mut clients {
        let answer = client.answer().unwrap();
        assert_eq!(answer[..2], [3, 1], "found");
    }
    println!("200 claims and look-ups: {:?}", begun.elapsed());
    assert_eq!(open(&server.url).list().unwrap().len(), 200);
}

/// A client that sends many requests without waiting is answered in order, and other clients have their turns.
#[test]
fn whoever_asks_a_lot_at_once_keeps_nobody_waiting() {
    let server = Local::start(LEASE, 100);
    let _held = claim(&server.url, "ocean");
    let mut busy = Raw::greeted(server.address());
    for round in 0..5 {
        for i in 0..1000 {
            busy.send(&lookup_body(if i % 2 == 0 { "ocean" } else { "nobody" }));
        }
        assert!(is_there(&server.url, "ocean"));
        for i in 0..1000 {
            let answer = busy.answer().unwrap();
            assert_eq!(answer[..2], [3, u8::from(i % 2 == 0)], "answer {i} of round {round}");
        }
    }
}

/// A client that sends a byte now and then, or never reads, costs at most one connection for a while.
#[test]
fn whoever_is_slow_keeps_nobody_out() {
    let server = Local::start(LEASE, 20);
    let mut slow: Vec<Raw> = (0..60).map(|_| Raw::connect(server.address())).collect();
    let mut hello = hello().into_iter();
    let held = claim(&server.url, "ocean");
    let begun = Instant::now();
    let mut asked = 0;
    let mut bytes = 0;
    while begun.elapsed() < Duration::from_secs(2) {
        // Too few for a whole greeting.
        if begun.elapsed() > bytes * Duration::from_millis(100) {
            let byte = [hello.next().unwrap()];
            slow.iter_mut().for_each(|s| drop(s.0.write(&byte)));
            bytes += 1;
        }
        assert!(is_there(&server.url, "ocean"));
        asked += 1;
    }
    println!("{asked} look-ups beside 60 slow clients");
    // A byte now and then is no message.
    let over = Instant::now();
    for s in &mut slow {
        assert!(s.is_closed());
    }
    assert!(over.elapsed() < LIMIT);
    drop(held);
}

/// A client that asks and never reads is dropped when its answers cannot be written. Other clients do not notice.
#[test]
fn whoever_never_reads_is_left() {
    let server = Local::start(LEASE, 100);
    let mut big = Raw::greeted(server.address());
    let held: Vec<_> = (0..100).map(|i| claim(&server.url, &format!("{i} {}", "x".repeat(240)))).collect();
    big.0.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
    let list = [&[2, 0, 0, 0, 0, 0, 0, 0][..], &[4, 0]].concat();
    let begun = Instant::now();
    // Until no more bytes can be written.
    while big.0.write_all(&list.repeat(100)).is_ok() {
        assert!(begun.elapsed() < LIMIT);
    }
    assert!(is_there(&server.url, &format!("0 {}", "x".repeat(240))));
    wait_until("the server leaves it", || {
        big.0.write(&list).is_err_and(|e| e.kind() != std::io::ErrorKind::WouldBlock)
    });
    drop(held);
}

/// A client whose connection gave way to another, or ended with its server, goes on with a new one.
#[test]
fn whoever_gave_way_comes_again() {
    let server = Local::start(LEASE, 10);
    let held = claim(&server.url, "ocean");
    for _ in 0..5 {
        let _others: Vec<Raw> = (0..30).map(|_| Raw::greeted(server.address())).collect();
        assert!(is_there(&server.url, "ocean"));
    }
    held.release();
    assert!(!is_there(&server.url, "ocean"));
}

/// A client claims all that it can get: the server's memory is bounded, and another user can still claim.
#[test]
fn whoever_claims_all_it_can_leaves_room_for_others() {
    let server = Remote::start(LEASE);
    let address = server.address().parse().unwrap();
    let mut greedy = Raw::greeted(address);
    let large_claim = large_claim();
    let mut names = 0u32;
    // With the largest records.
    while greedy.ask(&large_claim(names))[0] == 0 {
        names += 1;
        assert!(names < 4000, "it takes more than there is");
    }
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.id())).unwrap();
    let resident = |field| {
        let line = status.lines().find(|line| line.starts_with(field)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() >> 10
    };
    let (now, most) = (resident("VmRSS"), resident("VmHWM"));
    println!("one user claims {names} names of the largest records: the server has {now} MiB, {most} at most");
    assert!((600..2000).contains(&names) && most < 128, "{names} names, {most} MiB");
    // Its claims are renewed, and it gets no more.
    assert_eq!(greedy.ask(&large_claim(0))[0], 0);
    assert_eq!(greedy.ask(&large_claim(names))[..2], [5, 2]);
    if !nix::unistd::geteuid().is_root() {
        println!("NOT CHECKED, since only root can be another user: that others still register");
        return;
    }
    let other = std::thread::spawn(move || {
        // The user is that of this thread only.
        nix::unistd::setfsuid(nix::unistd::Uid::from_raw(65_534));
        let mut other = Raw::greeted(address);
        (0..100).all(|n| other.ask(&claim_body([n + 100; 16], &format!("other {n}")))[0] == 0)
    });
    assert!(other.join().unwrap(), "another user registers");
}

/// Many connections of one user, each from another address, do not push out those of another user.
#[test]
fn whoever_comes_from_everywhere_gives_way_first() {
    if !nix::unistd::geteuid().is_root() {
        println!("NOT CHECKED, since only root can be another user: that its connection stays");
        return;
    }
    let server = Local::start(LEASE, 20);
    let address @ SocketAddr::V4(v4) = server.address() else { panic!("127.0.0.1") };
    let other = std::thread::spawn(move || {
        // The user is that of this thread only.
        nix::unistd::setfsuid(nix::unistd::Uid::from_raw(65_534));
        Raw::greeted(address)
    });
    let mut other = other.join().unwrap();
    let many = (1..=60).map(|n| Raw::connect_from(Ipv4Addr::new(127, 1, 0, n), v4).proved());
    let _many: Vec<Raw> = many.collect();
    assert!(!is_there(&server.url, "nobody"), "all are let in before");
    assert_eq!(other.ask(&lookup_body("nobody"))[..2], [3, 0]);
}

/// A claim of the largest record, with its token and its name to be filled in.
fn large_claim() -> impl Fn(u32) -> Vec<u8> {
    const NAME: &str = "name 00000000";
    let metadata = (0..32).map(|key| (key.to_string(), "x".repeat(1024))).collect();
    let body = claim_of([9; 16], &naming::Record { metadata, leader: vec![5; 4096], ..record(NAME) });
    let at = body.windows(NAME.len()).position(|w| w == NAME.as_bytes()).unwrap();
    move |n| {
        let mut body = body.clone();
        body[1..5].copy_from_slice(&n.to_le_bytes());
        body[at..at + NAME.len()].copy_from_slice(format!("name {n:08}").as_bytes());
        body
    }
}
