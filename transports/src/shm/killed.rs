//! A test of two processes over a lane of shared memory, one of which is killed at a random time, again and again. The
//! survivor sees all that was published, whole and in order, then the end; and nothing is left of the other.

use super::accept::Accept;
use super::dial::Dial;
use super::{Doorbells, Listener, ShmLane};
use crate::sim::Rng;
use crate::transport::{Attempt, Incoming as _, NewLane, Said, Step, Watched};
use base::ProcId;
use base::bytes::Malformed;
use base::memory::VecMemory;
use nix::poll::{PollFd, PollFlags, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::mman::{MapFlags, ProtFlags, mmap};
use std::fs::File;
use std::io::{self, IoSliceMut};
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use trust::{Encrypt, Identity, Key, Ring, Trust};
use wire::frame::{Header, Kind, MAX_PAYLOAD};
use wire::lane::{Event, Lane, Sent, Sink};
use wire::{Hello, HelloAck, Status};

/// The most messages that are sent before the other side's doorbell is rung.
const TURN: u64 = 40;
const ROLE: &str = "SHM_TEST_ROLE";
const FOR: Duration = Duration::from_secs(12);
/// A limit for what takes a moment.
const LIMIT: Duration = Duration::from_secs(30);
const IDS: [ProcId; 2] = [ProcId { incarnation: 1, rank: 0 }, ProcId { incarnation: 2, rank: 0 }];

/// Memory of all three processes: how many messages each of the two has sent and received, and whether one was killed.
struct Page(&'static [AtomicU64; 8]);

const KILLED: usize = 0;
const SENT: [usize; 2] = [1, 2];
const GOT: [usize; 2] = [3, 4];

impl Page {
    fn map(path: &Path) -> Page {
        let file = File::options().read(true).write(true).create(true).truncate(false).open(path).unwrap();
        file.set_len(4096).unwrap();
        let (size, prot) = (NonZeroUsize::new(4096).unwrap(), ProtFlags::PROT_READ | ProtFlags::PROT_WRITE);
        // SAFETY: a new mapping of a file of that size, never unmapped, and only ever used as atomic words.
        Page(unsafe { mmap(None, size, prot, MapFlags::MAP_SHARED, &file, 0).unwrap().cast().as_ref() })
    }

    fn get(&self, at: usize) -> u64 {
        self.0[at].load(Ordering::SeqCst)
    }

    fn set(&self, at: usize, value: u64) {
        self.0[at].store(value, Ordering::SeqCst);
    }
}

/// The length of the `i`-th message of a side; now and then a long one.
fn length(side: usize, i: u64) -> usize {
    let x = mix(i * 2 + side as u64);
    let most = match x % 1000 {
        0 => MAX_PAYLOAD,
        1..20 => 100_000,
        20..200 => 5000,
        _ => 100,
    };
    1 + (x >> 20) as usize % most
}

fn mix(x: u64) -> u64 {
    let x = (x ^ x >> 31).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x ^ x >> 29
}

fn word(side: usize, i: u64, at: usize) -> [u8; 8] {
    mix(i ^ (side as u64) << 60 ^ (at as u64) << 40).to_le_bytes()
}

fn fill(side: usize, i: u64, from: usize, to: &mut [u8]) {
    let mut at = from;
    let (first, rest) = to.split_at_mut((from.wrapping_neg() % 8).min(to.len()));
    for part in std::iter::once(first).chain(rest.chunks_mut(8)) {
        part.copy_from_slice(&word(side, i, at / 8)[at % 8..][..part.len()]);
        at += part.len();
    }
}

fn is_right(side: usize, i: u64, bytes: &[u8]) -> bool {
    bytes.len() == length(side, i)
        && bytes.chunks(8).enumerate().all(|(at, part)| word(side, i, at)[..part.len()] == *part)
}

/// Checks the messages of the other side.
struct Check<'a> {
    page: &'a Page,
    side: usize,
    got: u64,
}

impl Sink for Check<'_> {
    fn on_frame(&mut self, header: &Header, payload: &[u8]) -> Result<(), Malformed> {
        self.got += 1;
        assert_eq!(header.a, self.got, "in order");
        assert!(is_right(1 - self.side, self.got, payload), "message {} is whole", self.got);
        self.page.set(GOT[self.side], self.got);
        Ok(())
    }

    fn on_bulk(
        &mut self,
        _: &Header,
        _: usize,
        _: &mut dyn FnMut(&mut [IoSliceMut<'_>]) -> io::Result<usize>,
    ) -> Option<io::Result<usize>> {
        None
    }
}

/// What both processes of a round know.
fn secret(half: u128) -> [u8; 32] {
    [half.to_be_bytes(); 2].concat().try_into().expect("32 bytes")
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Either of the two processes. The first listens, the second dials.
#[test]
fn one_of_two() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let words: Vec<&str> = role.split(' ').collect();
    let (side, half, path) =
        (words[0].parse::<usize>().unwrap(), u128::from_str_radix(words[1], 16).unwrap(), words[2]);
    let page = Page::map(Path::new(path));
    let listens = Identity::from_secret(secret(half));
    let to = listens.process();
    let identity = if side == 0 { listens } else { Identity::new() };
    let ring = Ring::new(Key::from_bytes(secret(half)), []);
    let trust = Arc::new(Trust::new(ring, Encrypt::Network).with_identity(identity));
    let eventfd = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK).unwrap();
    let own = Doorbells::new(eventfd.as_fd()).unwrap();
    let before = descriptors();
    let lane = if side == 0 { listen(&page, &own, &trust) } else { dial(&page, &own, &to, &trust) };
    if let Some(lane) = lane {
        talk(&page, side, &own, &eventfd, lane);
    }
    assert_eq!(descriptors(), before, "all descriptors are given back");
}

fn sleep_on(fds: &[BorrowedFd<'_>], millis: u16) -> bool {
    let mut fds: Vec<_> = fds.iter().map(|fd| PollFd::new(*fd, PollFlags::POLLIN)).collect();
    poll(&mut fds, millis).unwrap() > 0
}

/// The listening side's lane; `None` if the other process was killed before there was one.
fn listen(page: &Page, own: &Doorbells, trust: &Arc<Trust>) -> Option<ShmLane> {
    let listener = Listener::open(&trust.identity().process()).unwrap();
    let mut incoming: Option<Box<Accept>> = None;
    let start = Instant::now();
    loop {
        assert!(start.elapsed() < LIMIT, "nobody comes");
        let Some(g) = &mut incoming else {
            if !sleep_on(&[listener.as_fd()], 20) && page.get(KILLED) != 0 {
                return None;
            }
            incoming = listener.accept().ok().map(|connection| Box::new(Accept::new(connection, own, trust)));
            continue;
        };
        match g.step() {
            Said::Nothing => drop(sleep_on(&[g.fd()], 1000)),
            Said::Hello(hello) => {
                assert_eq!((hello.source, hello.dest), (IDS[1], IDS[0]));
                let process = trust.identity().process();
                let ack = HelloAck { status: Status::Good, generation: 1, process, received: 0 };
                if g.answer(&ack, 3).is_err() {
                    return None;
                }
            }
            Said::Ready => return incoming.take()?.finish(IDS[0], IDS[1], 1).ok().map(shared),
            Said::Control | Said::Foreign => return None,
        }
    }
}

fn shared(lane: NewLane) -> ShmLane {
    *lane.0.downcast().expect("it is of this folder")
}

fn dial(page: &Page, own: &Doorbells, to: &[u8; 16], trust: &Arc<Trust>) -> Option<ShmLane> {
    let (source, dest) = (IDS[1], IDS[0]);
    let process = trust.identity().process();
    let hello = Hello { source, dest, cookie: [3; 16], process, generation: 1, received: 0, stripe: 0, moves: None };
    let start = Instant::now();
    loop {
        assert!(start.elapsed() < LIMIT, "nobody answers");
        let mut attempt = Box::new(Dial::new(hello.clone(), *to, 5, own, trust).unwrap());
        loop {
            match attempt.step() {
                Step::NotYet => drop(attempt.fd().map(|(fd, _)| sleep_on(&[fd], 1000))),
                Step::Answered(ack) => {
                    assert_eq!(ack.status, Status::Good);
                    return attempt.finish(1).ok().map(shared);
                }
                Step::Failed(_) => break,
            }
        }
        if page.get(KILLED) != 0 {
            return None;
        }
        // It may not have opened its listener yet.
        std::thread::yield_now();
    }
}

/// Sends without end, and checks what comes, until the other process has ended.
fn talk(page: &Page, side: usize, own: &Doorbells, eventfd: &EventFd, mut lane: ShmLane) {
    let (mem, mut check) = (VecMemory::default(), Check { page, side, got: 0 });
    let mut rng = Rng::new(u64::from(std::process::id()));
    let mut sent = 0;
    let mut direct = false;
    loop {
        let mut full = false;
        for _ in 0..rng.below(TURN) {
            let len = length(side, sent + 1);
            let header = Header {
                len: len as u32,
                kind: Kind::Msg,
                ack_now: false,
                generation: 1,
                source: IDS[side],
                dest: IDS[1 - side],
                a: sent + 1,
                b: 0,
            };
            if Lane::<VecMemory>::try_send_with(&mut lane, &header, &mut |at, to| fill(side, sent + 1, at, to))
                != Sent::Taken
            {
                full = true;
                break;
            }
            sent += 1;
            page.set(SENT[side], sent);
        }
        lane.flush(&mem);
        let read = Lane::<VecMemory>::poll(&mut lane, &mut check, 1 + rng.below(200_000) as usize);
        if Lane::<VecMemory>::event(&mut lane) == Some(Event::Dead) {
            break;
        }
        if rng.below(1000) == 0 {
            direct = !direct;
            lane.set_direct(direct);
            if lane.has_input() {
                // A frame may have come without a bit.
                continue;
            }
        }
        if read == 0 && rng.below(4) == 0 {
            sleep(page, side, own, eventfd, &mut lane, |own, lane| {
                !(own.any() || direct && lane.has_input() || full && !lane.is_stuck())
            });
        }
    }
    assert!(page.get(KILLED) != 0, "the other lives");
    // The last message may have been published and not yet counted.
    let published = page.get(SENT[1 - side]);
    assert!((published..=published + 1).contains(&check.got), "{} of {published} have come", check.got);
    let unread = Lane::<VecMemory>::unread(&mut lane);
    let taken = page.get(GOT[1 - side]);
    assert!(
        (unread.first..=unread.first + 1).contains(&(taken + 1)),
        "{taken} were taken, unread from {}",
        unread.first
    );
    assert_eq!(unread.first + unread.bodies.len() as u64, sent + 1);
    for (i, body) in (unread.first..).zip(&unread.bodies) {
        assert!(is_right(side, i, body), "message {i} can be had again");
    }
}

/// Sleeps until something happens, or for a while. Fails if a message has come without waking us.
fn sleep(
    page: &Page,
    side: usize,
    own: &Doorbells,
    eventfd: &EventFd,
    lane: &mut ShmLane,
    nothing: impl Fn(&Doorbells, &ShmLane) -> bool,
) {
    own.arm();
    if nothing(own, lane) {
        let mut sign = None;
        // SAFETY: the lane keeps the descriptor open as long as it lives.
        lane.interests(&mut |_, fd, _| sign = Some(unsafe { BorrowedFd::borrow_raw(fd.as_raw_fd()) }));
        let fds = [eventfd.as_fd(), sign.unwrap()];
        let before = page.get(SENT[1 - side]);
        for _ in 0..10 {
            if sleep_on(&fds, 5) {
                break;
            }
            // More than two turns of sending: one of them has begun and ended while we slept.
            let much = page.get(SENT[1 - side]) > before + 2 * TURN;
            assert!(!much || sleep_on(&fds, 0), "it is not woken");
        }
    }
    let _ = eventfd.read();
    own.take(|_| ());
}

struct Two([Child; 2]);

impl Drop for Two {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[test]
fn nothing_is_lost_or_left_by_a_kill() {
    if std::env::var(ROLE).is_ok() {
        return;
    }
    let seed = std::env::var("MPI_CONNECT_TEST_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
    let mut rng = Rng::new(seed);
    let page_path = std::env::temp_dir().join(format!("shm_killed-{}", std::process::id()));
    let start = Instant::now();
    let (mut rounds, mut messages, mut early) = (0u32, 0, 0);
    while start.elapsed() < FOR {
        rounds += 1;
        let _ = std::fs::remove_file(&page_path);
        let page = Page::map(&page_path);
        let half = u128::from(std::process::id()) << 64 | u128::from(rounds);
        let name = format!("{:032x}", u128::from_be_bytes(Identity::from_secret(secret(half)).process()));
        let spawn = |side: usize| {
            Command::new(std::env::current_exe().unwrap())
                .args(["--exact", concat!(module_path!(), "::one_of_two").split_once("::").unwrap().1, "--nocapture"])
                .env(ROLE, format!("{side} {half:032x} {}", page_path.display()))
                .stdout(Stdio::null())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap()
        };
        let mut two = Two([spawn(0), spawn(1)]);
        let victim = rng.below(2) as usize;
        // Now and then in the middle of the handshake, or before.
        if rng.below(4) > 0 {
            let begun = Instant::now();
            while SENT.iter().any(|at| page.get(*at) == 0) {
                assert!(begun.elapsed() < LIMIT, "round {rounds}, seed {seed}: they do not begin");
                std::thread::yield_now();
            }
        }
        std::thread::sleep(Duration::from_micros(rng.below(60_000)));
        page.set(KILLED, 1);
        two.0[victim].kill().unwrap();
        two.0[victim].wait().unwrap();
        let survivor = &mut two.0[1 - victim];
        let killed = Instant::now();
        let status = loop {
            if let Some(status) = survivor.try_wait().unwrap() {
                break status;
            }
            assert!(killed.elapsed() < LIMIT, "round {rounds}, seed {seed}: the other does not notice");
            std::thread::sleep(Duration::from_millis(1));
        };
        let said = io::read_to_string(survivor.stderr.take().unwrap()).unwrap();
        assert!(status.success(), "round {rounds}, seed {seed}, {victim} was killed:\n{said}");
        let sockets = std::fs::read_to_string("/proc/net/unix").unwrap();
        assert!(!sockets.contains(&name), "no socket is left");
        early += u32::from(page.get(SENT[0]) == 0 || page.get(SENT[1]) == 0);
        messages += page.get(GOT[0]) + page.get(GOT[1]);
    }
    let _ = std::fs::remove_file(&page_path);
    println!("{rounds} kills, {early} before both had begun; {messages} messages");
    assert!(rounds >= 10 && messages > 1000);
}
