//! Lanes of several TCP connections.

use crate::common::*;
use node::{Config, ContextId, InterId, Outcome, RemoteGroup};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use trust::Trust;
use wire::hello::{HELLO_ACK_LEN, Hello};

const STRIPES: u16 = 4;

fn of(sockets: u16) -> Config {
    let mut config = Config::default();
    config.transports.allowed = node::Allowed::parse(TCP).expect("a transport");
    config.transports.tcp.sockets = sockets;
    config
}

fn striped() -> Config {
    of(STRIPES)
}

/// Waits until both ends have so many connections.
fn has_stripes(a: &Job, b: &Job, n: usize) {
    for (job, other) in [(a, b), (b, a)] {
        let there = |core: &mut node::Core| (core.streams(job.id(), other.id()) == n).then_some(());
        let deadline = Some(Instant::now() + LONG);
        assert!(job.node.wait_until(&mut || false, there, deadline).is_some(), "{n} connections in time");
    }
}

/// One message from `a`, so that `a` has dialled.
fn meet(a: &Job, to_b: InterId, b: &Job, to_a: InterId) {
    let mut space = [0; 3];
    let send = a.send(to_b, 9, b"abc");
    let recv = b.recv(to_a, 9, &mut space);
    assert_eq!(b.wait(recv), got(3, 9));
    assert_eq!(a.wait(send), Outcome::Sent);
}

#[test]
fn large_and_small_both_ways() {
    // The one that dials counts.
    for other in [1, 4, 9] {
        let (a, b) = (Job::with(striped()), Job::with(of(other)));
        let (to_b, to_a) = couple(&a, &b);
        meet(&a, to_b, &b, to_a);
        has_stripes(&a, &b, STRIPES.into());
        let sizes = [20_000_000, 5, 100_000, 3_000_000, 0, 20_000, 1 << 20];
        let data: Vec<Vec<u8>> = (0..).zip(sizes).map(|(i, size)| pattern(size, i)).collect();
        let jobs = swap([(a, to_b), (b, to_a)], &data);
        has_stripes(&jobs[0], &jobs[1], STRIPES.into());
        assert_eq!(jobs.iter().map(|j| j.node.drain(LONG)).sum::<usize>(), 0);
    }
}

#[test]
fn what_was_on_a_lost_connection_comes_over_the_others() {
    for seed in 0..6 {
        let (a, b) = (Job::with(striped()), Job::with(striped()));
        let (to_b, to_a) = couple(&a, &b);
        meet(&a, to_b, &b, to_a);
        has_stripes(&a, &b, STRIPES.into());
        let (ends, nodes) = ((a.id(), b.id()), (a.node.clone(), b.node.clone()));
        let cutter = std::thread::spawn(move || {
            let mut rng = Rng(seed);
            for number in 1..STRIPES {
                std::thread::sleep(Duration::from_micros(500 + rng.roll(5_000)));
                let cut = match rng.roll(2) {
                    0 => nodes.0.inspect(|core| core.cut_stream(ends.0, ends.1, number)),
                    _ => nodes.1.inspect(|core| core.cut_stream(ends.1, ends.0, number)),
                };
                assert!(cut, "connection {number} was there");
            }
        });
        let data: Vec<Vec<u8>> = (0..4).map(|i| pattern(10_000_000, i)).collect();
        let jobs = swap([(a, to_b), (b, to_a)], &data);
        cutter.join().unwrap();
        // It is still the same lane, and works.
        has_stripes(&jobs[0], &jobs[1], 1);
        meet(&jobs[0], to_b, &jobs[1], to_a);
        assert_eq!(jobs.iter().map(|j| j.node.drain(LONG)).sum::<usize>(), 0);
    }
}

#[test]
fn the_end_of_the_first_is_the_end_of_all() {
    let (a, b) = (Job::with(striped()), Job::with(striped()));
    let (to_b, to_a) = couple(&a, &b);
    meet(&a, to_b, &b, to_a);
    has_stripes(&a, &b, STRIPES.into());
    assert!(a.node.inspect(|core| core.cut_stream(a.id(), b.id(), 0)));
    // Another lane takes its place_first, with as many.
    let data: Vec<Vec<u8>> = (0..4).map(|i| pattern(1_000_000, i)).collect();
    let jobs = swap([(a, to_b), (b, to_a)], &data);
    has_stripes(&jobs[0], &jobs[1], STRIPES.into());
}

/// A process that is not one, which asks to be let in.
fn ask(b: &Job, process: &Arc<Trust>, hello: &Hello) -> (u8, TcpStream) {
    let mut stream = proved(addresses(&b.node)[0], process).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream.write_all(&hello.encode()).unwrap();
    let mut ack = [0; HELLO_ACK_LEN];
    stream.read_exact(&mut ack).unwrap();
    (ack[8], stream)
}

#[test]
fn only_what_belongs_to_the_lane_is_let_in() {
    const BAD_COOKIE: u8 = 1;
    const NO_SUCH: u8 = 2;
    const BETTER: u8 = 4;
    over(TCP);
    let b = Job::new();
    let source = node::ProcId { incarnation: u64::MAX, rank: 0 };
    let (process, other) = (member(9), member(8));
    let good = Hello {
        source,
        dest: b.id(),
        cookie: b.group.cookie,
        process: process.identity().process(),
        generation: 3,
        stripe: 1,
        received: 0,
        moves: None,
    };
    // No pair; then no lane.
    assert_eq!(ask(&b, &process, &good).0, NO_SUCH);
    let contact = node::at_addresses(good.process, [9; 16], &["192.0.2.7:9".parse().unwrap()]);
    let there = RemoteGroup { incarnation: source.incarnation, cookie: [0; 16], contacts: vec![contact].into() };
    b.node.open(b.id(), &there, ContextId::root(1));
    assert_eq!(ask(&b, &process, &good).0, BETTER);
    let (status, _lane) = ask(&b, &process, &Hello { stripe: 0, ..good.clone() });
    assert_eq!(status, 0);
    let wrong = [
        (Hello { generation: 2, ..good.clone() }, BETTER),
        (Hello { generation: 4, ..good.clone() }, BETTER),
        (Hello { stripe: 16, ..good.clone() }, BETTER),
        (Hello { stripe: u16::MAX, ..good.clone() }, BETTER),
        (Hello { cookie: [8; 16], ..good.clone() }, BAD_COOKIE),
        (Hello { source: node::ProcId { incarnation: 5, rank: 5 }, ..good.clone() }, NO_SUCH),
    ];
    for (hello, expected) in wrong {
        assert_eq!(ask(&b, &process, &hello).0, expected, "{hello:?}");
    }
    let hello = Hello { process: other.identity().process(), ..good.clone() };
    assert_eq!(ask(&b, &other, &hello).0, NO_SUCH, "another process");
    assert_eq!(b.node.inspect(|core| core.streams(b.id(), source)), 1);
    let (status, stripe) = ask(&b, &process, &good);
    assert_eq!((status, b.node.inspect(|core| core.streams(b.id(), source))), (0, 2));
    // Each number once, also when it has ended.
    assert_eq!(ask(&b, &process, &good).0, BETTER);
    drop(stripe);
    let deadline = Some(Instant::now() + LONG);
    let ended = |core: &mut node::Core| (core.streams(b.id(), source) == 1).then_some(());
    assert!(b.node.wait_until(&mut || false, ended, deadline).is_some());
    assert_eq!(ask(&b, &process, &good).0, BETTER);
}

/// A long way: what it takes is on the way for a while, and nothing else of that connection meanwhile.
struct LongWay {
    address: SocketAddr,
    /// How often each connection had much to carry, in the direction from the one that dialled.
    turns: Arc<[AtomicU64; 16]>,
}

impl LongWay {
    const WINDOW: usize = 64 << 10;
    const DELAY: Duration = Duration::from_millis(10);

    fn to(target: SocketAddr) -> LongWay {
        let port = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = port.local_addr().unwrap();
        let turns = Arc::new([const { AtomicU64::new(0) }; 16]);
        let counters = turns.clone();
        std::thread::spawn(move || {
            for (n, from) in port.incoming().enumerate() {
                let from = from.unwrap();
                let to = TcpStream::connect(target).unwrap();
                let (from2, to2) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                let counters = counters.clone();
                std::thread::spawn(move || LongWay::carry(from, to, &counters[n % 16]));
                std::thread::spawn(move || LongWay::carry(to2, from2, &AtomicU64::new(0)));
            }
        });
        LongWay { address, turns }
    }

    fn carry(mut from: TcpStream, mut to: TcpStream, turns: &AtomicU64) {
        let mut window = vec![0; LongWay::WINDOW];
        while let Ok(n @ 1..) = from.read(&mut window) {
            if n > LongWay::WINDOW / 8 {
                turns.fetch_add(1, Ordering::Relaxed);
            }
            std::thread::sleep(LongWay::DELAY);
            if to.write_all(&window[..n]).is_err() {
                break;
            }
        }
        let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
    }

    /// The most turns that one connection took.
    fn longest(&self) -> u64 {
        self.turns.iter().map(|n| n.load(Ordering::Relaxed)).max().unwrap_or(0)
    }
}

#[test]
fn a_long_way_takes_fewer_turns_with_several() {
    const SIZE: usize = 8 << 20;
    let turns = [1, STRIPES].map(|sockets| {
        let (a, b) = (Job::with(of(sockets)), Job::with(striped()));
        let way = LongWay::to(addresses(&b.node)[0]);
        let mut there = b.as_remote();
        place_first(&mut there, &[way.address]);
        // Only one of them knows where the other is.
        let to_b = a.node.open(a.id(), &there, ContextId::root(1));
        let mut back = a.as_remote();
        place_first(&mut back, &["192.0.2.7:9".parse().unwrap()]);
        let to_a = b.node.open(b.id(), &back, ContextId::root(1));
        meet(&a, to_b, &b, to_a);
        has_stripes(&a, &b, sockets.into());
        let data = pattern(SIZE, 1);
        let mut space = vec![0; SIZE];
        let send = a.send(to_b, 1, &data);
        let recv = b.recv(to_a, 1, &mut space);
        assert_eq!(b.wait(recv), got(SIZE, 1));
        assert_eq!(a.wait(send), Outcome::Sent);
        assert!(space == data);
        way.longest()
    });
    println!("{} turns with one connection, {} with {STRIPES}", turns[0], turns[1]);
    assert!(turns[0] as usize >= SIZE / LongWay::WINDOW / 2, "{turns:?}");
    assert!(turns[1] * 2 < turns[0], "{turns:?}");
}
