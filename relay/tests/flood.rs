//! One member that takes all it can, and others that meet all the same. A process of its own, since descriptors are few here.

mod common;
use common::*;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use transports::registry::{Answer, Asked, Asking, Request, Standing};
use trust::Key;

/// Descriptors of this process, the relay's and the flood's among them.
const DESCRIPTORS: u64 = 1024;
/// More than the relay has places for with so few.
const FLOOD: usize = 330;
/// What the others wait at most.
const SOON: Duration = Duration::from_secs(2);

fn few_descriptors() {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, DESCRIPTORS, hard).unwrap();
}

/// What the relay answers to a process that asks this; `None`: it was sent away.
fn ask(at: SocketAddr, request: Request, key: &Key) -> Option<(Answer, Box<Standing>)> {
    let mut asking = Asking::begin(at, request, &trusting(key)).ok()?;
    let start = Instant::now();
    loop {
        match asking.step() {
            Asked::NotYet => assert!(start.elapsed() < LIMIT),
            Asked::Answered(answer, standing) => return Some((answer, standing)),
            Asked::Failed(_) => return None,
        }
        std::thread::yield_now();
    }
}

/// It waits under more numbers than there are places, and goes on coming under new ones.
#[test]
fn a_member_that_fills_all_places_keeps_nobody_out() {
    few_descriptors();
    let key = Key::new();
    let relay = Running::start(&key, "127.0.0.1:0", &[]);
    let (stop, came) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        let _ending = Ending(&stop);
        scope.spawn(|| {
            let mut held = VecDeque::new();
            while !stop.load(Ordering::Relaxed) {
                held.extend(ask(relay.at, Request::Wait, &key).map(|(_, standing)| standing));
                came.fetch_add(1, Ordering::Relaxed);
                if held.len() > FLOOD {
                    held.pop_front();
                }
            }
        });
        let start = Instant::now();
        while came.load(Ordering::Relaxed) < FLOOD {
            assert!(start.elapsed() < LIMIT, "the flood comes");
            std::thread::yield_now();
        }
        let mut longest = Duration::ZERO;
        for _ in 0..5 {
            let start = Instant::now();
            let [mut a, mut b] = [0; 2].map(|_| Process::waiting_at(&relay.at.to_string(), &key));
            assert!(meet(&mut a, &mut b).finish(1).is_ok());
            longest = longest.max(start.elapsed());
        }
        println!("beside {} processes of one member, two others met within {longest:?}", came.load(Ordering::Relaxed));
        assert!(longest < SOON, "{longest:?}");
    });
}

/// Its calls wait for a relay that says nothing; those of others are heard.
#[test]
fn calls_that_are_passed_on_are_counted() {
    few_descriptors();
    let key = Key::new();
    // Whoever connects here is never answered.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let next = silent.local_addr().unwrap().to_string();
    let relay = Running::start(&key, "127.0.0.1:0", &[next]);
    let stop = AtomicBool::new(false);
    let full = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let _ending = Ending(&stop);
        scope.spawn(|| {
            let mut calls: Vec<Asking> = Vec::new();
            while !stop.load(Ordering::Relaxed) {
                let call = Request::Call { name: base::ident::random(), passed: Vec::new() };
                if calls.len() < FLOOD / 2 {
                    calls.extend(Asking::begin(relay.at, call, &trusting(&key)).ok());
                }
                calls.retain_mut(|call| match call.step() {
                    Asked::NotYet => true,
                    Asked::Answered(answer, _) => {
                        full.fetch_add(usize::from(answer == Answer::Full), Ordering::Relaxed);
                        false
                    }
                    Asked::Failed(_) => false,
                });
            }
        });
        let start = Instant::now();
        while full.load(Ordering::Relaxed) == 0 {
            assert!(start.elapsed() < LIMIT, "calls that are passed on have a limit");
            std::thread::yield_now();
        }
        let start = Instant::now();
        let [mut a, mut b] = [0; 2].map(|_| Process::waiting_at(&relay.at.to_string(), &key));
        assert!(meet_anyhow(&mut a, &mut b).finish(1).is_ok());
        println!("beside calls of one member, two others met within {:?}", start.elapsed());
        assert!(start.elapsed() < SOON);
    });
}
