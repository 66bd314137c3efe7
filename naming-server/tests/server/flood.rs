//! Connections of people without the key, by the thousand, whatever they say: none gets in, nothing piles up, and a member's
//! requests are answered as before. At full width (`MPI_CONNECT_TEST_WIDTH=all`) they are 100,000.

use crate::kit::{Local, Raw, claim, claim_body, hello, is_there, lookup_body, of_keys};
use base::protocol::greeting::head;
use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use trust::{Dialling, GREETING, Key, Protocol};

const LEASE: Duration = Duration::from_secs(60);
/// So many of them stand open at a time, on their own side.
const OPEN: usize = 200;
const CALM: usize = 2_000;
/// What a server may grow by: its buffers, and the places of those that have not proved the key.
const GROWN: usize = 16 << 20;

fn connections() -> u32 {
    if std::env::var("MPI_CONNECT_TEST_WIDTH").is_ok_and(|width| width == "all") { 100_000 } else { 5_000 }
}

/// Each tries to take a name, too, right behind what it says first.
fn sayings() -> Vec<Vec<u8>> {
    let heard = hello();
    let wrong_key = Dialling::begin(&of_keys(&Key::new(), &[]), Protocol::Naming, true).1;
    let (mut forged, mut old) = (heard.clone(), heard.clone());
    forged[GREETING..].fill(7);
    old[head::VERSION] = 1;
    let claim = claim_body([7; 16], "thief");
    let request = [&(claim.len() as u32).to_be_bytes()[..], &[0; 4], &claim].concat();
    let first =
        [heard.clone(), wrong_key, forged, old, b"GET /metrics HTTP/1.1\r\n\r\n".to_vec(), vec![0xff; 200], Vec::new()];
    let mut all: Vec<Vec<u8>> = first.into_iter().map(|first| [&first[..], &request].concat()).collect();
    all.extend([Vec::new(), heard[..GREETING / 2].to_vec()]);
    all
}

fn resident() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

/// Times of answers, in microseconds, sorted.
fn answers(client: &mut Raw, until: impl Fn(usize) -> bool) -> Vec<u64> {
    let mut times = Vec::new();
    while !until(times.len()) {
        let begun = Instant::now();
        assert_eq!(client.ask(&lookup_body("ocean"))[..2], [3, 1], "after {} answers", times.len());
        times.push(begun.elapsed().as_micros() as u64);
    }
    times.sort_unstable();
    times
}

/// All that a stranger has been told by now: a greeting with a proof at most.
fn told(mut stranger: Raw) -> usize {
    stranger.0.set_nonblocking(true).unwrap();
    let (mut bytes, mut all) = ([0; 4096], 0);
    loop {
        match stranger.0.read(&mut bytes) {
            Ok(0) => return all,
            Ok(n) => all += n,
            Err(e) if [ErrorKind::WouldBlock, ErrorKind::ConnectionReset].contains(&e.kind()) => return all,
            Err(e) => panic!("{e}"),
        }
    }
}

#[test]
fn nobody_without_the_key_gets_in_or_stops_those_who_have_it() {
    let server = Local::start(LEASE, 100);
    let SocketAddr::V4(address) = server.address() else { panic!("127.0.0.1") };
    let mut member = Raw::greeted(server.address());
    let held = claim(&server.url, "ocean");
    let calm = answers(&mut member, |n| n >= CALM);
    let (sayings, memory, over) = (sayings(), resident(), AtomicBool::new(false));
    let begun = Instant::now();
    let stormy = std::thread::scope(|threads| {
        threads.spawn(|| {
            let mut open = VecDeque::new();
            for number in 0..connections() {
                let from = u32::from(Ipv4Addr::new(127, 7, 0, 1)) + number % 60_000;
                let mut stranger = Raw::connect_from(from.into(), address);
                let _ = stranger.0.write_all(&sayings[number as usize % sayings.len()]);
                open.push_back(stranger);
                if open.len() > OPEN {
                    assert!(open.pop_front().map_or(0, told) <= GREETING + 100);
                }
            }
            over.store(true, Ordering::Release);
        });
        answers(&mut member, |n| n >= CALM && over.load(Ordering::Acquire))
    });
    let took = begun.elapsed().as_secs_f64();
    let grown = resident().saturating_sub(memory);
    let lines = server.told.try_iter().count();
    assert!(!is_there(&server.url, "thief"), "somebody got in");
    assert!(is_there(&server.url, "ocean"));
    assert!(grown < GROWN, "grown by {} KiB", grown >> 10);
    let at = |times: &[u64], part: f64| times[(times.len() as f64 * part) as usize];
    println!(
        "{} connections in {took:.1} s; answers calm: median {} us, 99 % {} us; meanwhile: {} and {} us ({}); grown by {} KiB; {lines} lines told",
        connections(),
        at(&calm, 0.5),
        at(&calm, 0.99),
        at(&stormy, 0.5),
        at(&stormy, 0.99),
        stormy.len(),
        grown >> 10
    );
    drop(held);
}
