//! Several nodes in one process, each a job of one rank (or a few jobs of one), over real loopback TCP or shared memory.
#![allow(dead_code)]

pub mod operators;
pub mod raw;

use node::{
    Allowed, Config, Contact, ContextId, Envelope, Group, InterId, Layout, Mode, Node, OpId, Outcome, ProcId,
    RemoteGroup, Source, Tag, Trusts,
};
use std::cell::Cell;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use trust::{Encrypt, Identity, Key, Protocol, Ring, Trust};

pub const LONG: Duration = Duration::from_secs(60);

static NEXT: AtomicU64 = AtomicU64::new(1);

/// A job of one rank.
pub struct Job {
    pub node: Arc<Node>,
    pub group: Group,
}

pub const TCP: &str = "tcp";
/// With TCP beside it, which tells of deaths.
pub const SHM: &str = "shm,tcp";

thread_local! {
    static LANES: Cell<&'static str> = const { Cell::new(SHM) };
}

/// What the jobs that this test starts from now on talk over, as in `MPI_CONNECT_LANES`.
pub fn over(lanes: &'static str) {
    LANES.set(lanes);
}

pub fn lanes() -> &'static str {
    LANES.get()
}

/// Where a node listens.
pub fn addresses(node: &Node) -> Vec<SocketAddr> {
    node::ip_addresses(&node.contact())
}

/// The same process, said to listen elsewhere.
pub fn place(contact: &mut Contact, addresses: &[SocketAddr]) {
    *contact = node::at_addresses(contact.process, contact.host, addresses);
}

/// The same with the first member of a group.
pub fn place_first(group: &mut RemoteGroup, addresses: &[SocketAddr]) {
    let mut all: Vec<Contact> = group.contacts.iter().collect();
    place(&mut all[0], addresses);
    group.contacts = all.into();
}

/// The key of all nodes of this test.
fn key() -> Key {
    Key::from_bytes([7; 32])
}

fn ring() -> Ring {
    Ring::new(key(), [])
}

/// The value of MPI_CONNECT_KEY for another program of this test. The file is left behind: all tests have the same.
pub fn key_setting() -> String {
    let path = std::env::temp_dir().join(format!("mpi-connect-node-tests-{}.key", nix::unistd::geteuid()));
    let beside = path.with_extension(format!("{}-{:?}", std::process::id(), std::thread::current().id()));
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside).unwrap();
    file.write_all(key().text().as_bytes()).unwrap();
    std::fs::rename(beside, &path).unwrap();
    format!("file:{}", path.display())
}

/// What a process that is played by hand trusts and proves; the number chooses its identity.
pub fn member(number: u8) -> Arc<Trust> {
    let identity = Identity::from_secret([number; 32]);
    Arc::new(Trust::new(ring(), Encrypt::Network).with_identity(identity))
}

/// A connection of that process: both sides have proved themselves, and what follows is plain.
pub fn proved(at: SocketAddr, member: &Arc<Trust>) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect(at)?;
    let channel = trust::dial(&mut stream, member, Protocol::Jobs, true)?;
    assert!(!channel.is_encrypted());
    Ok(stream)
}

pub fn config() -> Config {
    let mut config = Config { trusts: Trusts::Keys(ring(), Encrypt::Network), ..Config::default() };
    config.transports.allowed = Allowed::parse(lanes()).expect("words of transports");
    // What these tests forge comes from there.
    config.transports.tcp.iface = Some("loopback".into());
    config
}

/// As `config` has it, but for encryption.
pub fn always_encrypted() -> Trusts {
    Trusts::Keys(ring(), Encrypt::Always)
}

/// Tests that are the same over TCP and over shared memory.
#[macro_export]
macro_rules! over_both {
    ($($name:ident),* $(,)?) => {
        mod tcp {
            $(#[test] fn $name() { $crate::common::over($crate::common::TCP); super::$name(); })*
        }
        mod shm {
            $(#[test] fn $name() { $crate::common::over($crate::common::SHM); super::$name(); })*
        }
    };
}

impl Job {
    pub fn new() -> Job {
        Job::with(config())
    }

    pub fn with(config: Config) -> Job {
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let node = Arc::new(Node::start(config).unwrap());
        let group = Group { incarnation: n, cookie: [n as u8; 16], rank: 0, size: 1 };
        node.add_group(group);
        Job { node, group }
    }

    pub fn id(&self) -> ProcId {
        ProcId { incarnation: self.group.incarnation, rank: self.group.rank }
    }

    /// What others know of it.
    pub fn as_remote(&self) -> RemoteGroup {
        RemoteGroup {
            incarnation: self.group.incarnation,
            cookie: self.group.cookie,
            contacts: vec![self.node.contact()].into(),
        }
    }

    pub fn open(&self, other: &Job, context: u64) -> InterId {
        self.node.open(self.id(), &other.as_remote(), ContextId::root(context))
    }

    pub fn send(&self, inter: InterId, tag: i64, data: &[u8]) -> OpId {
        self.node.isend(inter, 0, tag, view(data), Mode::Standard)
    }

    pub fn recv(&self, inter: InterId, tag: i64, data: &mut [u8]) -> OpId {
        self.node.irecv(inter, Source::Rank(0), Tag::Is(tag), space(data))
    }

    pub fn wait(&self, op: OpId) -> Outcome {
        self.wait_for(op, LONG).expect("the operation ends in time")
    }

    pub fn wait_for(&self, op: OpId, limit: Duration) -> Option<Outcome> {
        self.node.wait_until(&mut || false, |core| core.test(op), Some(Instant::now() + limit))
    }
}

/// Both ends of one inter-communicator.
pub fn couple(a: &Job, b: &Job) -> (InterId, InterId) {
    (a.open(b, 1), b.open(a, 1))
}

/// Both ends send all of `data` to each other at once, in order, and check what they get. The ends, when done.
pub fn swap(ends: [(Job, InterId); 2], data: &[Vec<u8>]) -> Vec<Job> {
    let threads = ends.map(|(job, inter)| {
        let data = data.to_vec();
        std::thread::spawn(move || {
            let mut spaces: Vec<Vec<u8>> = data.iter().map(|d| vec![0; d.len()]).collect();
            let sends: Vec<_> = data.iter().map(|d| job.send(inter, 1, d)).collect();
            let recvs: Vec<_> = spaces.iter_mut().map(|s| job.recv(inter, 1, s)).collect();
            for (i, op) in recvs.into_iter().enumerate() {
                assert_eq!(job.wait(op), got(data[i].len(), 1), "message {i}");
            }
            sends.into_iter().for_each(|op| assert_eq!(job.wait(op), Outcome::Sent));
            assert!(spaces == data);
            job
        })
    });
    threads.map(|t| t.join().unwrap()).into()
}

/// As `swap`, while a thread does this again and again. Also the sum of what it has returned.
pub fn swap_beside(
    ends: [(Job, InterId); 2],
    data: &[Vec<u8>],
    mut act: impl FnMut() -> usize + Send + 'static,
) -> (Vec<Job>, usize) {
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = stop.clone();
    let thread = std::thread::spawn(move || {
        let mut sum = 0;
        while !stopped.load(Ordering::Relaxed) {
            sum += act();
        }
        sum
    });
    let jobs = swap(ends, data);
    stop.store(true, Ordering::Relaxed);
    (jobs, thread.join().unwrap())
}

/// As `swap`, again and again while either side cuts the lane at random times, until that was often enough. Nothing is left to be sent.
pub fn swap_while_cut(mut ends: [(Job, InterId); 2], data: &[Vec<u8>], seed: u64) {
    let inters = ends.each_ref().map(|(_, inter)| *inter);
    let (ids, nodes) = (ends.each_ref().map(|(job, _)| job.id()), ends.each_ref().map(|(job, _)| job.node.clone()));
    let (mut all, end) = (0, Instant::now() + LONG);
    for round in 0.. {
        let (mut rng, nodes) = (Rng(seed + 1000 * round), nodes.clone());
        let (jobs, cuts) = swap_beside(ends, data, move || {
            std::thread::sleep(Duration::from_micros(500 + rng.roll(15_000)));
            let side = rng.roll(2) as usize;
            nodes[side].inspect(|core| core.cut(ids[side], ids[1 - side])).into()
        });
        all += cuts;
        if all > 3 {
            println!("seed {seed}: {all} cuts");
            assert_eq!(jobs.iter().map(|j| j.node.drain(LONG)).sum::<usize>(), 0);
            return;
        }
        assert!(Instant::now() < end, "{all} cuts in {round} rounds");
        let mut jobs = jobs.into_iter().zip(inters);
        ends = std::array::from_fn(|_| jobs.next().expect("two"));
    }
}

pub fn view(data: &[u8]) -> Layout {
    // SAFETY: tests wait for the operation before they drop or change the data; sends only read.
    unsafe { Layout::contiguous(data.as_ptr().cast_mut(), data.len()) }
}

pub fn space(data: &mut [u8]) -> Layout {
    // SAFETY: tests wait for the operation before they look at or drop the data.
    unsafe { Layout::contiguous(data.as_mut_ptr(), data.len()) }
}

pub fn got(size: usize, tag: i64) -> Outcome {
    Outcome::Received(Envelope { source: 0, tag, size: size as u64 })
}

/// Bytes that differ wherever one looks.
pub fn pattern(len: usize, seed: u64) -> Vec<u8> {
    (0..len as u64).map(|i| at(i, seed)).collect()
}

pub fn at(i: u64, seed: u64) -> u8 {
    ((i ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

/// A small generator, so that runs repeat.
pub struct Rng(pub u64);

impl Rng {
    /// So many messages: most of them short, some of many megabytes.
    pub fn messages(&mut self, count: u64) -> Vec<Vec<u8>> {
        let mut one = |n| {
            let most = if self.roll(20) == 0 { 8 << 20 } else { 30_000 };
            pattern(self.roll(most) as usize, n)
        };
        (0..count).map(&mut one).collect()
    }

    pub fn roll(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % below
    }
}
