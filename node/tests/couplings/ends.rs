//! Deaths are noticed in time by whoever waits, and only deaths.

use crate::common::*;
use node::{Config, ContextId, Fault, Mode, Outcome, Source, Tag};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

const NOTICED: Duration = Duration::from_secs(5);

fn killed_while_connected() {
    let (a, b) = (Job::new(), Job::new());
    let (to_b, to_a) = couple(&a, &b);
    let mut space = vec![0; 3];
    let send = a.send(to_b, 1, b"abc");
    let recv = b.recv(to_a, 1, &mut space);
    b.wait(recv);
    a.wait(send);
    let pending = b.recv(to_a, 2, &mut space);
    a.node.kill();
    let start = Instant::now();
    assert_eq!(b.wait_for(pending, NOTICED), Some(Outcome::Failed(Fault::PeerDead)));
    println!("connected, the one who answered: {:?}", start.elapsed());
    // The one who had dialled.
    let (a, b) = (Job::new(), Job::new());
    let (to_b, to_a) = couple(&a, &b);
    let send = a.send(to_b, 1, b"abc");
    let recv = b.recv(to_a, 1, &mut space);
    b.wait(recv);
    a.wait(send);
    let pending = a.node.irecv(to_b, Source::Any, Tag::Any, crate::common::space(&mut space));
    b.node.kill();
    let start = Instant::now();
    assert_eq!(a.wait_for(pending, NOTICED), Some(Outcome::Failed(Fault::PeerDead)));
    println!("connected, the one who dialled: {:?}", start.elapsed());
}

fn killed_before_anyone_connected() {
    let (a, b) = (Job::new(), Job::new());
    let to_b = a.open(&b, 1);
    let mut space = vec![0; 3];
    b.node.kill();
    let start = Instant::now();
    let recv = a.recv(to_b, 1, &mut space);
    assert_eq!(a.wait_for(recv, NOTICED), Some(Outcome::Failed(Fault::PeerDead)));
    println!("never connected: {:?}", start.elapsed());
}

fn killed_while_someone_waits_unconnected() {
    let (a, b) = (Job::new(), Job::new());
    let to_b = a.open(&b, 1);
    let mut space = vec![0; 3];
    let recv = a.recv(to_b, 1, &mut space);
    assert_eq!(a.wait_for(recv, Duration::from_millis(300)), None);
    b.node.kill();
    let start = Instant::now();
    assert_eq!(a.wait_for(recv, NOTICED), Some(Outcome::Failed(Fault::PeerDead)));
    println!("waited for: {:?}", start.elapsed());
}

fn killed_in_mid_transfer() {
    // Both move only when told to.
    let still = Config { background: false, ..config() };
    let (a, b) = (Job::with(still.clone()), Job::with(still));
    let (to_b, to_a) = couple(&a, &b);
    let data = pattern(64 << 20, 1);
    let mut space = vec![0; 64 << 20];
    let send = a.send(to_b, 1, &data);
    let recv = b.recv(to_a, 1, &mut space);
    while b.node.inspect(|core| core.bytes_read()) < 1 << 20 {
        for job in [&a, &b] {
            job.node.look(&mut || false, |_| None::<()>);
        }
    }
    assert_eq!(b.node.peek(recv), None);
    a.node.kill();
    let _ = send;
    let start = Instant::now();
    assert_eq!(b.wait_for(recv, NOTICED), Some(Outcome::Failed(Fault::PeerDead)));
    println!("in mid-transfer: {:?}", start.elapsed());
}

fn what_came_before_a_death_is_received() {
    let (a, b) = (Job::new(), Job::new());
    let (to_b, to_a) = couple(&a, &b);
    let send = a.send(to_b, 1, b"abc");
    a.wait(send);
    // Time to connect and arrive, since nobody in b is in a call.
    std::thread::sleep(Duration::from_millis(300));
    a.node.kill();
    std::thread::sleep(Duration::from_millis(300));
    let mut space = vec![0; 3];
    let recv = b.recv(to_a, 1, &mut space);
    assert_eq!(b.wait(recv), got(3, 1));
    let recv = b.recv(to_a, 1, &mut space);
    assert_eq!(b.wait_for(recv, NOTICED), Some(Outcome::Failed(Fault::PeerDead)));
}

fn finished_is_not_dead() {
    let (a, b) = (Job::new(), Job::new());
    let (to_b, to_a) = couple(&a, &b);
    let send = a.send(to_b, 1, b"abc");
    a.wait(send);
    assert_eq!(a.node.drain(LONG), 0);
    let mut space = vec![0; 3];
    let recv = b.recv(to_a, 1, &mut space);
    assert_eq!(b.wait(recv), got(3, 1));
    let recv = b.recv(to_a, 1, &mut space);
    assert_eq!(b.wait_for(recv, NOTICED), Some(Outcome::Failed(Fault::PeerFinished)));
    let send = b.node.isend(to_a, 0, 1, view(b"x"), Mode::Standard);
    assert_eq!(b.wait_for(send, NOTICED), Some(Outcome::Failed(Fault::PeerFinished)));
    let start = Instant::now();
    assert_eq!(b.node.drain(LONG), 0);
    assert!(start.elapsed() < Duration::from_secs(1));
}

fn a_cut_is_not_a_death() {
    let (a, b) = (Job::new(), Job::new());
    let (to_b, to_a) = couple(&a, &b);
    let mut space = vec![0; 3];
    let recv = b.recv(to_a, 1, &mut space);
    for _ in 0..5 {
        let cut = b.node.wait_until(
            &mut || false,
            |core| core.cut(b.id(), a.id()).then_some(()),
            Some(Instant::now() + NOTICED),
        );
        assert!(cut.is_some(), "there is a lane again");
        assert_eq!(b.wait_for(recv, Duration::from_millis(20)), None);
    }
    let send = a.send(to_b, 1, b"abc");
    assert_eq!(b.wait(recv), got(3, 1));
    a.wait(send);
}

fn closing_tells_the_other_side() {
    let (a, b) = (Job::new(), Job::new());
    let (to_b, to_a) = couple(&a, &b);
    let send = a.node.isend(to_b, 0, 1, view(b"abc"), Mode::Synchronous);
    assert_eq!(a.wait_for(send, Duration::from_millis(200)), None);
    b.node.close(to_a);
    assert_eq!(a.wait_for(send, NOTICED), Some(Outcome::Failed(Fault::Revoked)));
    let op = b.send(to_a, 1, b"abc");
    assert_eq!(b.wait(op), Outcome::Failed(Fault::Revoked));
}

/// A way to `to` that carries so many bytes a second.
fn slow_way(to: SocketAddr, rate: usize) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut near, mut far) = (listener.accept().unwrap().0, TcpStream::connect(to).unwrap());
        let (mut far_in, mut near_out) = (far.try_clone().unwrap(), near.try_clone().unwrap());
        std::thread::spawn(move || std::io::copy(&mut far_in, &mut near_out));
        let mut buf = vec![0; rate / 50];
        while let Ok(n @ 1..) = near.read(&mut buf) {
            if far.write_all(&buf[..n]).is_err() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    at
}

#[test]
fn the_end_waits_for_what_goes_slowly() {
    over(TCP);
    let (a, b) = (Job::new(), Job::new());
    let mut there = b.as_remote();
    place_first(&mut there, &[slow_way(addresses(&b.node)[0], 8 << 20)]);
    let mut back = a.as_remote();
    // So that only a dials.
    place_first(&mut back, &[]);
    let (to_b, to_a) =
        (a.node.open(a.id(), &there, ContextId::root(1)), b.node.open(b.id(), &back, ContextId::root(1)));
    let data = pattern(16 << 20, 1);
    let mut space = vec![0; 16 << 20];
    let recv = b.recv(to_a, 1, &mut space);
    let send = a.send(to_b, 1, &data);
    a.node.forget(send);
    // Four times this at least.
    assert_eq!(a.node.drain(Duration::from_millis(500)), 0);
    assert_eq!(b.wait(recv), got(16 << 20, 1));
    assert!(space == data);
}

over_both!(
    killed_while_connected,
    killed_before_anyone_connected,
    killed_while_someone_waits_unconnected,
    killed_in_mid_transfer,
    what_came_before_a_death_is_received,
    finished_is_not_dead,
    a_cut_is_not_a_death,
    closing_tells_the_other_side,
);
