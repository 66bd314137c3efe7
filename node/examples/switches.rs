//! Two nodes move from one transport to another, again and again, while messages of all kinds flow both ways; then their lanes
//! break in several ways, and a transport is taken out of use and back. What comes is checked, and the pauses are measured.
//!
//!     cargo run --release -p mpi-connect-node --example switches -- [moves [word ...]]
//!
//! Words of transports: `shm tcp` unless told. A pause is the longest round trip of 8 bytes from the order to its end, less the
//! median round trip. Moves are made twice: while nothing else flows, and under load. Beside the pauses stand the same figure for as
//! long a time in which nothing moves, and the longest hand-over of a word between two plain threads in such a time: that is what
//! the load and the scheduler take. TCP is encrypted, so that bytes that nobody has sent are found, unless verbs take part, which
//! are not used then. For verbs, `MPI_CONNECT_VERBS` names the plug-in.

#[path = "../tests/common/mod.rs"]
#[allow(unused_macros, unused_imports)]
mod common;

use common::*;
use nix::sys::socket::{MsgFlags, Shutdown, SockaddrStorage, getpeername, send, shutdown};
use nix::unistd::write;
use node::InterId;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::os::fd::{BorrowedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

/// A lane that says nothing for some 10 s is given up; so that never happens to one that stands, in nanoseconds.
const MUTE: u64 = 8_000_000_000;

/// What the threads that exchange messages tell.
#[derive(Default)]
struct Told {
    stop: AtomicBool,
    /// The longest round trip since somebody looked, and the last one, in nanoseconds.
    longest: AtomicU64,
    last: AtomicU64,
    trips: AtomicU64,
    bulk: AtomicU64,
}

/// Small messages there and back, numbered.
fn ping(job: &Job, inter: InterId, told: &Told) {
    for n in 0u64.. {
        let (begun, stop) = (Instant::now(), told.stop.load(Ordering::Relaxed));
        let word = if stop { u64::MAX } else { n };
        let (out, mut back) = (word.to_le_bytes(), [0; 8]);
        let recv = job.recv(inter, 1, &mut back);
        let send = job.send(inter, 1, &out);
        assert_eq!(job.wait(recv), got(8, 1));
        assert_eq!(job.wait(send), node::Outcome::Sent);
        assert_eq!(back, out, "in order, once");
        if stop {
            return;
        }
        let took = begun.elapsed().as_nanos() as u64;
        told.longest.fetch_max(took, Ordering::Relaxed);
        told.last.store(took, Ordering::Relaxed);
        told.trips.fetch_add(1, Ordering::Relaxed);
    }
}

fn echo(job: &Job, inter: InterId) {
    loop {
        let mut space = [0; 8];
        let recv = job.recv(inter, 1, &mut space);
        assert_eq!(job.wait(recv), got(8, 1));
        let send = job.send(inter, 1, &space);
        assert_eq!(job.wait(send), node::Outcome::Sent);
        if space == u64::MAX.to_le_bytes() {
            return;
        }
    }
}

/// Messages of many sizes, one way; an empty one ends it.
fn pour(job: &Job, inter: InterId, seed: u64, told: &Told) {
    let mut rng = Rng(seed);
    for n in 0.. {
        let most = if rng.roll(8) == 0 { 4 << 20 } else { 20_000 };
        let len = if told.stop.load(Ordering::Relaxed) { 0 } else { 1 + rng.roll(most) as usize };
        let data = pattern(len, n);
        assert_eq!(job.wait(job.send(inter, 2, &data)), node::Outcome::Sent);
        told.bulk.fetch_add(len as u64, Ordering::Relaxed);
        if len == 0 {
            return;
        }
    }
}

fn drink(job: &Job, inter: InterId) {
    let mut space = vec![0; 4 << 20];
    for n in 0.. {
        let node::Outcome::Received(got) = job.wait(job.recv(inter, 2, &mut space)) else {
            panic!("it is not received")
        };
        let len = got.size as usize;
        let wrong = || (0..len).filter(|i| space[*i] != at(*i as u64, n));
        assert!(
            (0..len).step_by(61).all(|i| space[i] == at(i as u64, n)),
            "message {n} of {len} bytes: {} are wrong, from {:?} to {:?}",
            wrong().count(),
            wrong().next(),
            wrong().next_back()
        );
        if len == 0 {
            return;
        }
    }
}

/// The longest time that two threads without the library take to hand a word there and back, until `is_over`.
fn plain_hand_over(is_over: impl FnOnce()) -> u64 {
    let stop = &AtomicBool::new(false);
    let (there, comes) = mpsc::channel();
    let (back, returns) = mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(move || comes.iter().all(|word: u64| back.send(word).is_ok()));
        let asks = scope.spawn(move || {
            let mut longest = 0;
            while !stop.load(Ordering::Relaxed) {
                let begun = Instant::now();
                there.send(longest).expect("it is there");
                assert_eq!(returns.recv(), Ok(longest));
                longest = longest.max(begun.elapsed().as_nanos() as u64);
            }
            longest
        });
        is_over();
        stop.store(true, Ordering::Relaxed);
        asks.join().expect("a thread")
    })
}

#[derive(Default)]
struct Pauses(Vec<u64>);

impl Pauses {
    fn say(&mut self, what: &str) {
        self.0.sort_unstable();
        let n = self.0.len();
        let at = |part: usize| self.0[(n * part / 1000).min(n - 1)] as f64 / 1e6;
        println!(
            "  {what}: {n} times; {:.2} ms (median), {:.2} (99 of 100), {:.2} (longest)",
            at(500),
            at(990),
            at(1000)
        );
    }
}

/// Waits until this holds, looking often.
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + LONG;
    while !holds() {
        assert!(Instant::now() < end, "{what} in time");
        std::thread::sleep(Duration::from_micros(100));
    }
}

/// How a lane breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Break {
    /// As by a network that goes.
    Cut,
    /// One side of a connection hears that the other sends no more.
    HalfClosed,
    /// Bytes that nobody has sent come over a connection.
    Corrupted,
    /// The kernel is told, by another hand, that the queue pair is in error.
    Killed,
}

/// The open descriptors of this process.
fn descriptors() -> impl Iterator<Item = RawFd> {
    let all = std::fs::read_dir("/proc/self/fd").unwrap();
    all.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

/// The connections of this process's lanes, over IP or between processes of one host.
fn connections(over_ip: bool) -> Vec<RawFd> {
    let is_one = |fd: &RawFd| match getpeername::<SockaddrStorage>(*fd) {
        Ok(peer) => peer.as_sockaddr_in().is_some() == over_ip,
        Err(_) => false,
    };
    descriptors().filter(is_one).collect()
}

/// Puts all queue pairs of this process in error, by the command of the kernel's interface of verbs that libibverbs gives as well.
/// Queue pairs have numbers among those of all objects; the kernel refuses the command for the others.
fn kill_queue_pairs() {
    /// Of `rdma/ib_user_verbs.h`: the number of the command, and `struct ib_uverbs_modify_qp`, in which the places of the
    /// object's number, of the mask and of the state are these.
    const MODIFY_QP: u32 = 26;
    const LENGTH: usize = 112;
    const HANDLE: usize = 64;
    const MASK: usize = 68;
    const STATE: usize = 96;
    /// Of `infiniband/verbs.h`: IBV_QP_STATE and IBV_QPS_ERR.
    const ONLY_STATE: u32 = 1;
    const ERROR: u8 = 6;
    let is_device = |fd: &RawFd| {
        std::fs::read_link(format!("/proc/self/fd/{fd}")).is_ok_and(|to| to.starts_with("/dev/infiniband"))
    };
    let mut command = vec![0; 8 + LENGTH];
    command[..4].copy_from_slice(&MODIFY_QP.to_ne_bytes());
    command[4..6].copy_from_slice(&((8 + LENGTH) as u16 / 4).to_ne_bytes());
    let body = 8;
    command[body + MASK..][..4].copy_from_slice(&ONLY_STATE.to_ne_bytes());
    command[body + STATE] = ERROR;
    let mut killed = 0;
    for fd in descriptors().filter(is_device) {
        // SAFETY: the descriptor was found open just now, and the transport keeps the device open while it is used.
        let fd = unsafe { BorrowedFd::borrow_raw(fd) };
        for handle in 0..64u32 {
            command[body + HANDLE..][..4].copy_from_slice(&handle.to_ne_bytes());
            killed += usize::from(write(fd, &command).is_ok());
        }
    }
    assert!(killed > 0, "a queue pair to put in error");
}

/// Descriptors, mappings, and pages of memory of this process.
fn level() -> [usize; 3] {
    let fds = descriptors().count();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap().lines().count();
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    [fds, maps, pages.split(' ').nth(1).unwrap().parse().unwrap()]
}

fn main() {
    let mut args = std::env::args().skip(1);
    let moves: usize = args.next().map_or(1000, |n| n.parse().expect("a number"));
    let words: Vec<String> = args.collect();
    let words: Vec<&str> = if words.is_empty() { vec!["shm", "tcp"] } else { words.iter().map(|w| &**w).collect() };
    over("shm,verbs,tcp");
    let with_verbs = words.contains(&"verbs");
    let settings = || {
        let mut config = config();
        config.transports.verbs.plugin = std::env::var("MPI_CONNECT_VERBS").ok();
        if !with_verbs {
            config.trusts = always_encrypted();
        }
        config
    };
    let (a, b) = (Arc::new(Job::with(settings())), Arc::new(Job::with(settings())));
    let small = couple(&a, &b);
    let large = (a.open(&b, 2), b.open(&a, 2));
    let told = Arc::new(Told::default());
    let mut threads = Vec::new();
    let mut run = |f: Box<dyn FnOnce() + Send>| threads.push(std::thread::spawn(f));
    let of = || (a.clone(), b.clone(), told.clone());
    let (x, _, t) = of();
    run(Box::new(move || ping(&x, small.0, &t)));
    let (_, y, _) = of();
    run(Box::new(move || echo(&y, small.1)));
    let settled = || [(&a, &b), (&b, &a)].iter().all(|(x, y)| x.node.inspect(|core| !core.is_moving(x.id(), y.id())));
    let trips = |more| {
        let before = told.trips.load(Ordering::Relaxed);
        until("messages flow", || told.trips.load(Ordering::Relaxed) >= before + more);
    };
    let usual = Cell::new(0);
    let lasted = Cell::new(Duration::ZERO);
    let mut rng = Rng(7);
    let mut pause = |act: &mut dyn FnMut(&mut Rng)| {
        trips(1);
        told.longest.store(0, Ordering::Relaxed);
        let begun = Instant::now();
        act(&mut rng);
        until("it is settled", settled);
        lasted.set(begun.elapsed());
        trips(2);
        let longest = told.longest.load(Ordering::Relaxed);
        assert!(longest < MUTE, "a round trip took {} s: a lane had fallen silent", longest / 1_000_000_000);
        longest.saturating_sub(usual.get())
    };
    let now = |word: &str| a.node.inspect(|core| core.switch(|_, _| true, word)).expect("a transport");
    let mut planned = |beside: &str| {
        now(words[0]);
        until("it is settled", settled);
        trips(200);
        let mut some: Vec<u64> = Vec::new();
        for _ in 0..200 {
            trips(1);
            some.push(told.last.load(Ordering::Relaxed));
        }
        some.sort_unstable();
        usual.set(some[100]);
        println!(
            "{moves} moves over {}, {beside}; the median round trip takes {:.1} us",
            words.join(", "),
            some[100] as f64 / 1e3
        );
        let mut pauses: BTreeMap<(&str, &str), Pauses> = BTreeMap::new();
        let [mut still, mut plain, mut whole] = [const { Pauses(Vec::new()) }; 3];
        let mut at = words[0];
        for n in 0..moves {
            let next =
                words[(words.iter().position(|w| *w == at).unwrap() + 1 + n / words.len() % (words.len() - 1).max(1))
                    % words.len()];
            let took = pause(&mut |rng| {
                let by = if rng.roll(2) == 0 { &a } else { &b };
                let moved = by.node.inspect(|core| core.switch(|_, _| true, next)).expect("a transport");
                assert_eq!((moved.begun.len(), moved.refused.len()), (1, 0), "{at} to {next}: {moved:?}");
            });
            pauses.entry((at, next)).or_default().0.push(took);
            at = next;
            let lasted = lasted.get();
            let as_long = || {
                let begun = Instant::now();
                until("time passes", || settled() && begun.elapsed() >= lasted);
            };
            still.0.push(pause(&mut |_| as_long()));
            plain.0.push(plain_hand_over(as_long));
            whole.0.push(lasted.as_nanos() as u64);
        }
        for ((from, to), of) in &mut pauses {
            of.say(&format!("{from} to {to}"));
        }
        still.say("no move, for as long");
        plain.say("a word between plain threads, for as long");
        whole.say("whole moves, from the order until the old lane is closed");
    };
    planned("small messages alone");
    for seed in [1, 2] {
        let (x, y, t) = of();
        let (from, to) = if seed == 1 { ((x, large.0), (y, large.1)) } else { ((y, large.1), (x, large.0)) };
        run(Box::new(move || pour(&from.0, from.1, seed, &t)));
        run(Box::new(move || drink(&to.0, to.1)));
    }
    planned("beside large messages");
    let breaks = moves / 10;
    let mut by_kind: BTreeMap<(&str, Break), Pauses> = BTreeMap::new();
    for n in 0..breaks {
        let word = words[n % words.len()];
        let kinds: &[Break] = match word {
            "tcp" if !with_verbs => &[Break::Cut, Break::HalfClosed, Break::Corrupted],
            "verbs" => &[Break::Cut, Break::HalfClosed, Break::Killed],
            _ => &[Break::Cut, Break::HalfClosed],
        };
        let kind = kinds[n / words.len() % kinds.len()];
        now(word);
        until("it is settled", settled);
        let took = pause(&mut |rng| {
            std::thread::sleep(Duration::from_micros(rng.roll(3000)));
            let had = a.node.inspect(|core| core.lanes_had(a.id(), b.id()));
            let fds = connections(word != "shm");
            let one = fds[rng.roll(fds.len() as u64) as usize];
            match kind {
                Break::Cut => drop(a.node.inspect(|core| core.cut(a.id(), b.id()))),
                Break::HalfClosed => shutdown(one, Shutdown::Write).expect("a connection"),
                Break::Killed => kill_queue_pairs(),
                Break::Corrupted => until("there is room", || send(one, &[0x5a; 100], MsgFlags::MSG_DONTWAIT).is_ok()),
            }
            until("another lane", || a.node.inspect(|core| core.lanes_had(a.id(), b.id())) > had);
        });
        by_kind.entry((word, kind)).or_default().0.push(took);
    }
    for ((word, kind), of) in &mut by_kind {
        of.say(&format!("{word}, {kind:?}"));
    }
    println!("  {breaks} lanes broken");
    let mut before = level();
    for n in 0..breaks {
        for (word, used) in [(words[0], false), (words[0], true)] {
            for job in [&a, &b] {
                job.node
                    .inspect(|core| if used { core.use_again(word).map(drop) } else { core.stop_using(word).map(drop) })
                    .expect("it is not the last");
            }
            until("all is closed", || used || [&a, &b].iter().all(|job| job.node.inspect(|core| !core.uses(word))));
            until("it is settled", settled);
            trips(1);
        }
        if n == breaks / 4 {
            before = level();
        }
    }
    let after = level();
    println!(
        "  {breaks} times {} taken out of use and back: descriptors, mappings, pages {before:?} after a quarter of them, {after:?} after all",
        words[0]
    );
    told.stop.store(true, Ordering::Relaxed);
    threads.into_iter().for_each(|thread| thread.join().expect("a thread"));
    println!(
        "  in all {} round trips and {:.1} GB in messages of up to 4 MiB, none lost, doubled or out of order",
        told.trips.load(Ordering::Relaxed),
        told.bulk.load(Ordering::Relaxed) as f64 / 1e9
    );
    assert_eq!(a.node.drain(LONG) + b.node.drain(LONG), 0);
}
