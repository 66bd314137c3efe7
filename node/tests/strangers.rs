//! Strangers with a good cookie: they take nobody's place, they cost little, and whoever means well gets in all the same.

mod common;
use common::*;
use node::{ContextId, Core, Outcome, PathRef, ProcId};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use wire::frame::{Header, Kind};
use wire::hello::{HELLO_ACK_LEN, Hello};

const NOTICED: Duration = Duration::from_secs(10);
const COOKIE: [u8; 16] = [0xc0; 16];
const GOOD: u8 = 0;
const NO_SUCH_PROCESS: u8 = 2;
const LATER: u8 = 5;
const CHECKPOINT: u8 = base::protocol::control::CHECKPOINT;
/// As docs/limits.md has them.
const MAX_CALLERS: usize = 256;
const MAX_EARLY: usize = 64;

/// For what is waited for: beside other tests, a flood takes its share of the processors too.
const LIMIT: Duration = Duration::from_secs(30);

/// These measure the memory of the process: one at a time.
static TURN: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Somebody with a socket and a cookie.
struct Forger {
    stream: TcpStream,
    source: ProcId,
    dest: ProcId,
    sent: u64,
}

impl Forger {
    fn come(at: SocketAddr, source: ProcId, dest: ProcId, cookie: [u8; 16], process: u8) -> (Option<u8>, Forger) {
        let member = member(process);
        let process = member.identity().process();
        let hello = Hello { source, dest, cookie, process, generation: 1, stripe: 0, received: 0, moves: None };
        let mut stream = match proved(at, &member) {
            Ok(stream) => stream,
            // It was shown out to make room for others.
            Err(_) => return (None, Forger { stream: TcpStream::connect(at).unwrap(), source, dest, sent: 0 }),
        };
        stream.set_read_timeout(Some(NOTICED)).unwrap();
        stream.set_write_timeout(Some(NOTICED)).unwrap();
        stream.write_all(&hello.encode()).unwrap();
        let mut ack = [0; HELLO_ACK_LEN];
        let status = stream.read_exact(&mut ack).is_ok().then_some(ack[8]);
        (status, Forger { stream, source, dest, sent: 0 })
    }

    /// One message; whether it could be written.
    fn say(&mut self, body: &[u8]) -> bool {
        self.sent += 1;
        let header = Header {
            len: body.len() as u32,
            kind: Kind::Msg,
            ack_now: false,
            generation: 1,
            source: self.source,
            dest: self.dest,
            a: self.sent,
            b: 0,
        };
        self.stream.write_all(&[&header.encode()[..], body].concat()).is_ok()
    }

    /// CONTROL of so many bytes.
    fn control(&mut self, bytes: usize) -> bool {
        let mut body = vec![7; bytes + 1];
        body[1..].fill(1);
        self.say(&body)
    }
}

fn stranger() -> ProcId {
    static NEXT: AtomicU64 = AtomicU64::new(1 << 50);
    ProcId { incarnation: NEXT.fetch_add(1, Ordering::Relaxed), rank: 0 }
}

fn port_of(job: &Job) -> ProcId {
    let port = stranger();
    job.node.add_port(port, COOKIE);
    port
}

fn until<T>(job: &Job, done: impl FnMut(&mut Core) -> Option<T>) -> Option<T> {
    job.node.wait_until(&mut || false, done, Some(Instant::now() + LIMIT))
}

fn heard(job: &Job, path: PathRef) -> Option<Vec<u8>> {
    until(job, |core| core.recv_control(path))
}

fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with("VmRSS")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() << 10
}

/// Two come in the other leader's name before it does, and one of them even leaves in its name.
fn forged_hellos_do_not_keep_a_job_from_joining() {
    for says_bye in [false, true] {
        let (a, b) = (Job::new(), Job::new());
        let at = addresses(&b.node)[0];
        let (first, mut forger) = Forger::come(at, a.id(), b.id(), b.group.cookie, 0xf1);
        assert_eq!(first, Some(GOOD));
        assert!(forger.control(10));
        if says_bye {
            assert!(forger.say(&[8]));
        }
        let (second, _other) = Forger::come(at, a.id(), b.id(), b.group.cookie, 0xf2);
        assert_eq!(second, Some(LATER), "nobody knows yet which of them it is");
        let there = a.node.open_control(a.id(), b.id(), b.group.cookie, &b.node.contact());
        a.node.send_control(there, b"offer");
        // It finds that it cannot get in yet, and does not give up.
        let waits = |core: &mut Core| {
            core.path_trouble(there).is_some_and(|(said, _)| said.contains("without a place")).then_some(())
        };
        assert!(until(&a, waits).is_some());
        let back = b.node.open_control(b.id(), a.id(), a.group.cookie, &a.node.contact());
        assert_eq!(heard(&b, back), Some(b"offer".to_vec()), "and nothing that was forged");
        b.node.send_control(back, b"answer");
        assert_eq!(heard(&a, there), Some(b"answer".to_vec()));
        let (to_b, to_a) = couple(&a, &b);
        let mut space = [0; 4];
        let recv = b.recv(to_a, 1, &mut space);
        let send = a.send(to_b, 1, b"data");
        assert_eq!((b.wait(recv), a.wait(send)), (got(4, 1), Outcome::Sent));
        // From now on nobody else is taken for it.
        let (late, _) = Forger::come(at, a.id(), b.id(), b.group.cookie, 0xf1);
        assert_eq!(late, Some(NO_SUCH_PROCESS));
    }
}

fn nobody_comes_for_a_rank_that_cannot_be() {
    let (a, b) = (Job::new(), Job::new());
    let _to_a = b.node.open(b.id(), &a.as_remote(), ContextId::root(1));
    let at = addresses(&b.node)[0];
    for rank in [1, 7, u32::MAX] {
        let invented = ProcId { rank, ..a.id() };
        let (status, _) = Forger::come(at, invented, b.id(), b.group.cookie, 0xf1);
        assert_eq!(status, Some(NO_SUCH_PROCESS));
    }
    assert_eq!(b.node.inspect(|core| (core.pairs_in_use(), core.strangers())), (1, 0));
}

/// All ranks of a job that nobody knows.
fn those_who_come_early_are_bounded() {
    let (a, b) = (Job::new(), Job::new());
    let at = addresses(&b.node)[0];
    let unknown = stranger();
    let mut came: Vec<_> = (0..MAX_EARLY as u32)
        .map(|rank| {
            let (status, mut forger) = Forger::come(at, ProcId { rank, ..unknown }, b.id(), b.group.cookie, 1);
            assert_eq!(status, Some(GOOD));
            assert!(forger.control(1));
            forger
        })
        .collect();
    until(&b, |core| (core.bytes_read() >= MAX_EARLY as u64).then_some(())).expect("they are read");
    let end = Instant::now() + NOTICED;
    let mut rank = MAX_EARLY as u32;
    // Those who have spoken are not sent away for one more.
    loop {
        let (status, mut forger) = Forger::come(at, ProcId { rank, ..unknown }, b.id(), b.group.cookie, 1);
        rank += 1;
        if status == Some(LATER) {
            break;
        }
        assert!(Instant::now() < end, "all have said something");
        assert!(forger.control(1));
        came.push(forger);
    }
    assert_eq!(b.node.inspect(|core| core.strangers()), MAX_EARLY);
    // Who is known is none of them.
    let back = b.node.open_control(b.id(), a.id(), a.group.cookie, &a.node.contact());
    let there = a.node.open_control(a.id(), b.id(), b.group.cookie, &b.node.contact());
    a.node.send_control(there, b"offer");
    assert_eq!(heard(&b, back), Some(b"offer".to_vec()));
}

/// They fill a group, say one thing each and hang up. One of them has only lost its connection, and comes again.
fn those_who_hang_up_give_way() {
    let b = Job::new();
    let at = addresses(&b.node)[0];
    let unknown = stranger();
    let come = |rank| Forger::come(at, ProcId { rank, ..unknown }, b.id(), b.group.cookie, 1);
    let heard = |count: usize| {
        let all = |core: &mut Core| (core.strangers_control() == count).then_some(());
        until(&b, all).expect("they are heard");
    };
    let mut came: Vec<_> = (0..MAX_EARLY as u32).map(|rank| come(rank).1).collect();
    assert!(came.iter_mut().all(|forger| forger.control(1)));
    heard(MAX_EARLY);
    drop(came);
    let all_closed = |core: &mut Core| {
        let paths: Vec<_> = core.unheard(b.id()).map(|(path, _)| path).collect();
        paths.iter().all(|path| !core.is_connected(*path)).then_some(())
    };
    until(&b, all_closed).expect("it is noticed");
    let (status, returned) = come(0);
    assert_eq!(status, Some(GOOD));
    // Not at once: any of the others may come again, too.
    assert_eq!(come(MAX_EARLY as u32).0, Some(LATER));
    let end = Instant::now() + NOTICED;
    let newcomers: Vec<_> = (MAX_EARLY as u32..2 * MAX_EARLY as u32 - 1)
        .map(|rank| {
            loop {
                let (status, mut forger) = come(rank);
                if status == Some(GOOD) {
                    assert!(forger.control(1));
                    break forger;
                }
                assert!(Instant::now() < end, "those who have hung up keep it out");
                std::thread::sleep(Duration::from_millis(50));
            }
        })
        .collect();
    // What the others had said has gone with them, and nobody else has to give way.
    heard(MAX_EARLY);
    assert_eq!(come(2 * MAX_EARLY as u32).0, Some(LATER));
    let is_open = |forger: &Forger| {
        forger.stream.set_nonblocking(true).unwrap();
        matches!((&forger.stream).read(&mut [0; 1]), Err(e) if e.kind() == ErrorKind::WouldBlock)
    };
    assert!(is_open(&returned) && newcomers.iter().all(is_open));
}

/// Sets this when it is dropped.
struct Ending<'a>(&'a AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Some hundreds come and go on coming; whoever says at once what it wants gets in between them.
fn a_flood_of_callers_keeps_nobody_out() {
    let server = Job::new();
    let port = port_of(&server);
    let at = addresses(&server.node)[0];
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Also when this fails: the scope waits for the flood to end.
        let _ending = Ending(&stop);
        for _ in 0..2 {
            scope.spawn(|| {
                let mut kept = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    let (status, forger) = Forger::come(at, stranger(), port, COOKIE, 1);
                    assert!(matches!(status, Some(GOOD | LATER) | None), "{status:?}");
                    kept.push(forger);
                    if kept.len() > 400 {
                        kept.clear();
                    }
                }
            });
        }
        let full = |core: &mut Core| (core.strangers() >= MAX_CALLERS).then_some(());
        until(&server, full).expect("the flood has come");
        for n in 100..110u8 {
            let client = Job::new();
            let path = client.node.open_control_to_port(client.id(), port, COOKIE, &server.node.contact());
            client.node.send_control(path, &[n]);
            let end = Instant::now() + LIMIT;
            let mut callers = Vec::new();
            let found = server.node.wait_until(
                &mut || false,
                |core| {
                    callers.extend(std::iter::from_fn(|| core.next_caller(port)));
                    callers.iter().copied().find(|caller| core.recv_control(*caller) == Some(vec![n]))
                },
                Some(end),
            );
            let caller = found.expect("whoever means well is heard");
            server.node.send_control(caller, &[n, n]);
            assert_eq!(heard(&client, path), Some(vec![n, n]));
            assert!(server.node.inspect(|core| core.pairs_in_use()) <= MAX_CALLERS + 1);
            server.node.with(|core| core.abandon(caller));
        }
    });
}

/// Each says as much as it can, and nobody listens.
fn what_strangers_say_is_bounded() {
    let server = Job::new();
    let port = port_of(&server);
    let at = addresses(&server.node)[0];
    let before = resident();
    let mut all: Vec<_> = (0..40).map(|_| Forger::come(at, stranger(), port, COOKIE, 1).1).collect();
    for forger in &mut all {
        // Each sees its end when it has gone too far.
        (0..32).all(|_| forger.control(256 << 10));
    }
    until(&server, |core| (core.strangers() <= 24).then_some(())).expect("some have said too much");
    let kept = server.node.inspect(|core| core.strangers_control());
    let grown = resident().saturating_sub(before);
    let [kept, grown] = [kept, grown].map(|bytes| bytes >> 20);
    println!("40 strangers say 8 MiB each: {kept} MiB of it are kept, the process has grown by {grown} MiB");
    assert!((40..68).contains(&kept) && grown < 160, "kept {kept} MiB, grown by {grown} MiB");
    // A longer frame than an offer can have is not waited for.
    let (_, mut forger) = Forger::come(at, stranger(), port, COOKIE, 1);
    forger.control(400 << 10);
    let end = forger.stream.read(&mut [0; 1]);
    assert!(matches!(end, Ok(0) | Err(_)), "its lane is closed");
    // A message where no inter-communicator can be is not kept either.
    let (_, mut forger) = Forger::come(at, stranger(), port, COOKIE, 1);
    let eager = [vec![1, 0], vec![0; 8 + 4 + 16 + 8], vec![0; 1000]].concat();
    assert!(forger.say(&eager));
    let end = forger.stream.read(&mut [0; 1]);
    assert!(matches!(end, Ok(0) | Err(_)), "its lane is closed");
    // Nor is one answered who asks what this process waits for.
    let (_, mut forger) = Forger::come(at, stranger(), port, COOKIE, 1);
    assert!(forger.say(&[9]));
    let end = forger.stream.read(&mut [0; 1]);
    assert!(matches!(end, Ok(0)) || end.is_err_and(|e| e.kind() == ErrorKind::ConnectionReset), "its lane is closed");
}

/// Members of jobs that this one has never asked for tell of checkpoints, as much as they can.
fn what_strangers_tell_of_checkpoints_is_bounded() {
    let job = Job::new();
    job.node.with(|core| core.track(job.id(), "air", 1));
    let at = addresses(&job.node)[0];
    let before = resident();
    let mut all: Vec<_> = (0..16).map(|_| Forger::come(at, stranger(), job.id(), job.group.cookie, 1).1).collect();
    let mut said = 0;
    for forger in &mut all {
        for part in 0..16u64 {
            let numbers = (0..50_000).map(|n| (part * 50_000 + n) << 30).collect();
            let told = node::images::Message::Again(numbers, Default::default(), false).encode();
            // Each sees its end when it has gone too far.
            if !forger.say(&[&[7, CHECKPOINT][..], &told].concat()) {
                break;
            }
            said += told.len();
        }
    }
    let read = |core: &mut Core| (core.bytes_read() as usize >= said.min(80 << 20)).then_some(());
    until(&job, read).expect("it is read");
    // One asks over and over, and reads no answer.
    let known = node::images::Known { name: "x".repeat(100_000), size: 1, version: 1, ..Default::default() };
    job.node.with(|core| core.tell_known(job.id(), known, &[]));
    let (_, mut asking) = Forger::come(at, stranger(), job.id(), job.group.cookie, 1);
    let asks = node::images::Message::Board(Box::default()).encode();
    let heard = job.node.inspect(|core| core.bytes_read()) + 3000 * asks.len() as u64;
    for _ in 0..3000 {
        assert!(asking.say(&[&[7, CHECKPOINT][..], &asks].concat()));
    }
    until(&job, |core| (core.bytes_read() >= heard).then_some(())).expect("it is read");
    let grown = resident().saturating_sub(before) >> 20;
    println!("strangers tell {} MiB of checkpoints: the process has grown by {grown} MiB", said >> 20);
    assert!(grown < 160, "grown by {grown} MiB");
}

/// They fill a port and say one byte each; only the first of them has an offer to make.
fn callers_without_an_offer_give_way() {
    let server = Job::new();
    let port = port_of(&server);
    let at = addresses(&server.node)[0];
    let mut all: Vec<_> = (0..MAX_CALLERS).map(|_| Forger::come(at, stranger(), port, COOKIE, 1).1).collect();
    // Number 0 of a group of one rank without names and records, whose other numbers are 0, too.
    let offer = [&[7, 1][..], &[0; 8 + 8 + 16 + 3 * 4 + 8 + 16 + 3 * 4]].concat();
    assert!(all[0].say(&offer) && all[1..].iter_mut().all(|forger| forger.control(1)));
    let spoken = |core: &mut Core| (core.strangers_control() >= MAX_CALLERS).then_some(());
    until(&server, spoken).expect("all are heard");
    // Before the newcomer dials: the forgers may be late already.
    let callers: Vec<_> = server.node.with(|core| std::iter::from_fn(|| core.next_caller(port)).collect());
    assert_eq!(callers.len(), MAX_CALLERS);
    let client = Job::new();
    let path = client.node.open_control_to_port(client.id(), port, COOKIE, &server.node.contact());
    client.node.send_control(path, b"offer");
    let mut newcomers = Vec::new();
    let found = server.node.wait_until(
        &mut || false,
        |core| {
            newcomers.extend(std::iter::from_fn(|| core.next_caller(port)));
            newcomers.iter().find_map(|caller| core.recv_control(*caller)).filter(|said| said == b"offer")
        },
        Some(Instant::now() + 4 * NOTICED),
    );
    assert!(found.is_some(), "they keep it out");
    let gone = server.node.with(|core| callers.iter().map(|c| core.path_gone(*c).is_some()).collect::<Vec<_>>());
    assert!(!gone[0] && gone[1], "the one with an offer stays");
}

/// Who is never talked to costs its contact record, which all inter-communicators share, and nothing else.
#[test]
fn the_size_of_a_group_costs_little() {
    let _turn = turn();
    over(TCP);
    let b = Job::new();
    let mut remote = Job::new().as_remote();
    let one = remote.contacts.get(0).unwrap();
    let all: Vec<_> = (0..200_000)
        .map(|i: u32| {
            let mut contact = one.clone();
            contact.process[..4].copy_from_slice(&i.to_le_bytes());
            place(&mut contact, &[]);
            contact
        })
        .collect();
    let count = all.len();
    remote.contacts = all.into();
    let before = resident();
    let inter = b.node.open(b.id(), &remote, ContextId::root(1));
    let each = resident().saturating_sub(before) / count;
    let record = remote.contacts.bytes().len() / count;
    println!("a member of a remote group costs {each} bytes, and a record of {record} bytes");
    b.node.close(inter);
    assert!(each < 4, "{each} bytes");
    assert!(record < 32, "{record} bytes");
}

/// The callers over TCP are those of other users, or hosts: over shared memory come the user's own processes alone.
#[test]
fn forgers() {
    let _turn = turn();
    over(TCP);
    forged_hellos_do_not_keep_a_job_from_joining();
    nobody_comes_for_a_rank_that_cannot_be();
    those_who_come_early_are_bounded();
    those_who_hang_up_give_way();
}

#[test]
fn floods() {
    let _turn = turn();
    over(TCP);
    a_flood_of_callers_keeps_nobody_out();
    what_strangers_say_is_bounded();
    what_strangers_tell_of_checkpoints_is_bounded();
    callers_without_an_offer_give_way();
}
