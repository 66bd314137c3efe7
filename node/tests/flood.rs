//! Connections of people without the key, by the thousand, against a pair that talks: none gets in, nothing piles up, and the
//! pair goes on. At full width (`MPI_CONNECT_TEST_WIDTH=all`) they are 100,000.

mod common;
use base::protocol::greeting::{FIRST_PROOF, head};
use common::*;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrIn, bind, connect, socket};
use node::Outcome;
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use trust::{Dialling, Encrypt, GREETING, Key, Progress, Protocol, Ring, Trust};
use wire::hello::{HELLO_ACK_LEN, Hello};

/// So many of them stand open at a time, on their own side.
const OPEN: usize = 200;
const CALM: usize = 2_000;

/// These count the descriptors of the process: one at a time.
static TURN: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn connections() -> u32 {
    if std::env::var("MPI_CONNECT_TEST_WIDTH").is_ok_and(|width| width == "all") { 100_000 } else { 10_000 }
}

/// A connection from a loopback address of its own: one address has too few ports for all of them.
fn come(at: SocketAddr, number: u32) -> Option<TcpStream> {
    let SocketAddr::V4(at) = at else { panic!("an address of IPv4") };
    let from = SockaddrIn::new(127, 9, (number >> 8) as u8, number as u8, 0);
    let one = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None).ok()?;
    bind(one.as_raw_fd(), &from).ok()?;
    connect(one.as_raw_fd(), &SockaddrIn::from(at)).ok()?;
    Some(one.into())
}

fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with("VmRSS")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() << 10
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// What the hostile say, one after the other.
fn sayings(b: &Job) -> Vec<Vec<u8>> {
    let stranger = Arc::new(Trust::new(Ring::new(Key::new(), []), Encrypt::Network));
    let wrong_key = Dialling::begin(&stranger, Protocol::Jobs, true).1;
    // Of a member, heard on the way.
    let replayed = Dialling::begin(&member(9), Protocol::Jobs, true).1;
    let mut forged = replayed.clone();
    forged[GREETING..].fill(7);
    let mut old = replayed.clone();
    old[head::VERSION] = 1;
    let hello = Hello {
        source: common::raw::HIGH,
        dest: b.id(),
        cookie: b.group.cookie,
        process: [9; 16],
        generation: 1,
        stripe: 0,
        received: 0,
        moves: None,
    };
    let stolen = [replayed.clone(), vec![0; 16], hello.encode()].concat();
    vec![
        Vec::new(),
        replayed[..20].to_vec(),
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n".to_vec(),
        vec![0xff; GREETING + FIRST_PROOF],
        wrong_key,
        forged,
        old,
        // With the stolen cookie, too.
        hello.encode(),
        stolen,
        replayed,
    ]
}

/// Round trips of 8 bytes, in microseconds, sorted.
fn round_trips(
    a: &Job,
    b: &Job,
    (to_b, to_a): (node::InterId, node::InterId),
    until: impl Fn(usize) -> bool,
) -> Vec<u64> {
    let mut times = Vec::new();
    while !until(times.len()) {
        let (mut there, mut back) = ([0; 8], [0; 8]);
        let begun = Instant::now();
        let recv = b.recv(to_a, 1, &mut there);
        let send = a.send(to_b, 1, b"request!");
        assert_eq!((b.wait(recv), a.wait(send)), (got(8, 1), Outcome::Sent));
        let recv = a.recv(to_b, 2, &mut back);
        let send = b.send(to_a, 2, b"response");
        assert_eq!((a.wait(recv), b.wait(send)), (got(8, 2), Outcome::Sent));
        times.push(begun.elapsed().as_micros() as u64);
    }
    times.sort_unstable();
    times
}

#[test]
fn nobody_without_the_key_gets_in_or_stops_those_who_have_it() {
    let _turn = turn();
    over(TCP);
    let (a, b) = (Job::new(), Job::new());
    let inters = couple(&a, &b);
    let calm = round_trips(&a, &b, inters, |n| n >= CALM);
    let (at, sayings) = (addresses(&b.node)[0], sayings(&b));
    let (memory, files) = (resident(), descriptors());
    let (came, over) = (AtomicU64::new(0), AtomicBool::new(false));
    let begun = Instant::now();
    let stormy = std::thread::scope(|threads| {
        threads.spawn(|| {
            let mut open = VecDeque::new();
            for number in 0..connections() {
                // One that is refused by a full backlog has come too.
                if let Some(mut stream) = come(at, number) {
                    let _ = stream.set_write_timeout(Some(Duration::from_secs(5)));
                    let _ = stream.write_all(&sayings[number as usize % sayings.len()]);
                    open.push_back(stream);
                    came.fetch_add(1, Ordering::Relaxed);
                }
                if open.len() > OPEN {
                    open.pop_front();
                }
            }
            over.store(true, Ordering::Release);
        });
        round_trips(&a, &b, inters, |n| n >= CALM && over.load(Ordering::Acquire))
    });
    let took = begun.elapsed();
    let came = came.load(Ordering::Relaxed);
    assert!(came * 10 >= u64::from(connections()) * 9, "only {came} came");
    assert_eq!(b.node.inspect(|core| (core.pairs_in_use(), core.strangers())), (1, 0), "somebody got in");
    assert_eq!(a.node.inspect(|core| core.lanes_had(a.id(), b.id())), 1, "the pair has kept its lane");
    let grown = resident().saturating_sub(memory) >> 10;
    assert!(grown < 8 << 10, "grown by {grown} KiB");
    let more = descriptors().saturating_sub(files);
    assert!(more <= OPEN + 64 + 16, "{more} more descriptors");
    let at = |times: &[u64], part: f64| times[(times.len() as f64 * part) as usize];
    println!(
        "{came} connections in {:.1} s; round trips calm: median {} us, 99 % {} us; meanwhile: {} and {} us ({}); grown by {grown} KiB",
        took.as_secs_f64(),
        at(&calm, 0.5),
        at(&calm, 0.99),
        at(&stormy, 0.5),
        at(&stormy, 0.99),
        stormy.len()
    );
}

/// On a slow link a handshake takes a while, and meanwhile many come that say nothing.
#[test]
fn those_who_say_nothing_take_no_place_of_one_who_has_the_key() {
    let _turn = turn();
    over(TCP);
    let b = Job::new();
    let at = addresses(&b.node)[0];
    let friend = member(9);
    let mut slow = TcpStream::connect(at).unwrap();
    slow.set_read_timeout(Some(LONG)).unwrap();
    let (mut dialling, greeting) = Dialling::begin(&friend, Protocol::Jobs, true);
    slow.write_all(&greeting).unwrap();
    let mut answer = vec![0; dialling.wants()];
    slow.read_exact(&mut answer).unwrap();
    assert_eq!(dialling.hear(&answer), Ok(Progress::More));
    let silent: Vec<_> = (0..OPEN as u32).map(|number| come(at, number).expect("it comes")).collect();
    // The first of them has given way to the last: all were accepted.
    silent[0].set_read_timeout(Some(LONG)).unwrap();
    assert!(matches!((&silent[0]).read(&mut [0; 1]), Ok(0)), "it is shown out");
    let mut proof = vec![0; dialling.wants()];
    slow.read_exact(&mut proof).unwrap();
    let Ok(Progress::Done(confirmation)) = dialling.hear(&proof) else { panic!("both have the key") };
    let hello = Hello {
        source: common::raw::HIGH,
        dest: b.id(),
        cookie: b.group.cookie,
        process: friend.identity().process(),
        generation: 1,
        stripe: 0,
        received: 0,
        moves: None,
    };
    slow.write_all(&[confirmation, hello.encode()].concat()).unwrap();
    let mut ack = [0; HELLO_ACK_LEN];
    slow.read_exact(&mut ack).expect("it has kept its place");
    assert_eq!(ack[8], 0, "and is let in");
}
