//! Processes that share the router of their node, and routers that die under load: nothing is lost.

mod common;
use common::*;
use node::{Allowed, Config, Contact, ContextId, Group, Mode, Node, Outcome, ProcId, RemoteGroup, Source, Tag, Trusts};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};
use trust::{Encrypt, Key, Ring};

const CHILD: &str = "NODE_TEST_KEEPER";
const MEMBER: &str = "NODE_TEST_MEMBER";
const THEIRS: u64 = 1 << 40;

/// A node of which the processes have this key; those of other nodes have the other one.
fn of_node(own: &Key, other: &Key) -> Job {
    let mut config =
        Config { trusts: Trusts::Keys(Ring::new(own.clone(), [other.clone()]), Encrypt::Network), ..Config::default() };
    config.transports.allowed = Allowed::parse("router").expect("words of transports");
    config.transports.router.node = true;
    config.transports.router.iface = Some("loopback".into());
    Job::with(config)
}

/// A process of a node, which says when it is there.
#[test]
fn keeper() {
    if std::env::var(CHILD).is_err() {
        return;
    }
    let node = Node::get().unwrap();
    // A child that lives longer keeps nothing open.
    // SAFETY: the child only sleeps and leaves.
    if unsafe { libc::fork() } == 0 {
        // SAFETY: always allowed.
        unsafe {
            libc::sleep(20);
            libc::_exit(0)
        }
    }
    println!("\nthere, with {} sockets", sockets());
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    assert_eq!(node.drain(Duration::ZERO), 0);
}

/// A process of a job of its own, which sends back what it is sent.
#[test]
fn member() {
    if std::env::var(MEMBER).is_err() {
        return;
    }
    let node = Node::get().unwrap();
    node.add_group(Group { incarnation: THEIRS, cookie: [1; 16], rank: 0, size: 1 });
    println!("\nthere, {}", hex(&node.contact()));
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    let (incarnation, contact) = line.split_once(' ').unwrap();
    let there = remote(incarnation.parse().unwrap(), contact);
    let inter = node.open(ProcId { incarnation: THEIRS, rank: 0 }, &there, ContextId::root(1));
    let mut data = [0; 10];
    loop {
        let recv = node.irecv(inter, Source::Any, Tag::Is(1), space(&mut data));
        let received = node.wait_until(&mut || false, |core| core.test(recv), None);
        assert_eq!(received, Some(got(10, 1)));
        let send = node.isend(inter, 0, 1, view(&data), Mode::Standard);
        node.wait_until(&mut || false, |core| core.test(send), None);
    }
}

fn hex(contact: &Contact) -> String {
    let mut bytes = Vec::new();
    contact.encode(&mut bytes);
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// A job of one process with this contact record, in hexadecimal digits.
fn remote(incarnation: u64, contact: &str) -> RemoteGroup {
    let digits: Vec<u8> = contact.trim().bytes().map(|c| (c as char).to_digit(16).unwrap() as u8).collect();
    let bytes: Vec<u8> = digits.chunks(2).map(|d| d[0] << 4 | d[1]).collect();
    let contact = Contact::decode(&mut base::bytes::Take(&bytes)).unwrap();
    let cookie = if incarnation == THEIRS { [1; 16] } else { [incarnation as u8; 16] };
    RemoteGroup { incarnation, cookie, contacts: vec![contact].into() }
}

/// A process dies, and the router of its host says so: that counts at once.
#[test]
fn a_death_behind_a_router_counts_at_once() {
    let one_key = Key::new();
    for [own, other] in [[Key::new(), Key::new()], [one_key.clone(), one_key]] {
        // It has the router, and lives on.
        let _keeper = Keeper::start(&other, &own);
        let one = of_node(&own, &other);
        let mut member = Keeper::start_as("member", MEMBER, &other, &own);
        let theirs = remote(THEIRS, member.said.split_once(", ").unwrap().1);
        writeln!(member.child.stdin.as_mut().unwrap(), "{} {}", one.group.incarnation, hex(&one.node.contact()))
            .unwrap();
        let inter = one.node.open(one.id(), &theirs, ContextId::root(1));
        let (data, mut to) = ([7; 10], [0; 10]);
        let send = one.send(inter, 1, &data);
        assert_eq!(one.wait(one.recv(inter, 1, &mut to)), got(10, 1));
        assert_eq!(one.wait(send), Outcome::Sent);
        let recv = one.recv(inter, 1, &mut to);
        let since = Instant::now();
        drop(member);
        assert!(matches!(one.wait(recv), Outcome::Failed(_)));
        assert!(since.elapsed() < Duration::from_secs(15), "a refusal that may be a firewall's takes 20 s");
    }
}

/// The sockets of this process that do not listen.
fn sockets() -> usize {
    let all = std::fs::read_dir("/proc/self/fd").unwrap().map(|fd| fd.unwrap().path());
    let is_socket = |fd: &PathBuf| std::fs::read_link(fd).is_ok_and(|to| to.to_string_lossy().starts_with("socket:"));
    let listens = |fd: &PathBuf| {
        let number = fd.file_name().unwrap().to_str().unwrap().parse().unwrap();
        let (mut yes, mut len) = (0, size_of::<libc::c_int>() as libc::socklen_t);
        // SAFETY: both places outlive the call, and hold what it fills.
        let said = unsafe {
            libc::getsockopt(number, libc::SOL_SOCKET, libc::SO_ACCEPTCONN, (&raw mut yes).cast(), &raw mut len)
        };
        said == 0 && yes == 1
    };
    all.filter(|fd| is_socket(fd) && !listens(fd)).count()
}

#[test]
fn a_process_has_one_socket() {
    let key = Key::new();
    // The first has the router, and its sockets with it.
    let first = Keeper::start(&key, &key);
    let second = Keeper::start(&key, &key);
    assert_eq!(second.said, "there, with 1 sockets");
    drop(first);
}

struct Keeper {
    child: Child,
    /// What it has said when it was there.
    said: String,
    key: PathBuf,
}

impl Keeper {
    fn start(own: &Key, other: &Key) -> Keeper {
        Keeper::start_as("keeper", CHILD, own, other)
    }

    fn start_as(test: &str, sign: &str, own: &Key, other: &Key) -> Keeper {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("mpi-connect-router-test-{}-{number}.key", std::process::id());
        let key = std::env::temp_dir().join(name);
        let mut file =
            std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&key).unwrap();
        writeln!(file, "{}\n{}", own.text().as_str(), other.text().as_str()).unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture"])
            .env(sign, "1")
            .env("MPI_CONNECT_KEY", format!("file:{}", key.display()))
            .env("MPI_CONNECT_LANES", "router")
            .env("MPI_CONNECT_ROUTE", "node")
            .env("MPI_CONNECT_IFACE", "loopback")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (say, lines) = channel();
        let out = BufReader::new(child.stdout.take().unwrap()).lines();
        std::thread::spawn(move || out.map_while(Result::ok).try_for_each(|line| say.send(line)));
        let mut keeper = Keeper { child, said: String::new(), key };
        let until = Instant::now() + LONG;
        while let Ok(line) = lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
            if line.starts_with("there") {
                keeper.said = line;
                return keeper;
            }
        }
        panic!("it is not there");
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.key);
    }
}

fn exchanged(a: &Key, b: &Key) {
    let (one, other) = (of_node(a, b), of_node(b, a));
    let (to_other, to_one) = couple(&one, &other);
    let jobs = swap([(one, to_other), (other, to_one)], &Rng(5).messages(200));
    for job in jobs {
        assert_eq!(job.node.drain(LONG), 0);
    }
}

#[test]
fn processes_of_one_node_meet_at_its_router() {
    let key = Key::new();
    exchanged(&key, &key);
}

#[test]
fn processes_of_two_nodes_meet_by_both_routers() {
    exchanged(&Key::new(), &Key::new());
}

/// More is under way than the trunk takes at once, again and again, while nothing else is to be done: who waits for room is woken.
#[test]
fn large_messages_come_one_by_one() {
    let key = Key::new();
    let (one, other) = (of_node(&key, &key), of_node(&key, &key));
    let (to_other, to_one) = couple(&one, &other);
    let data = pattern(4 << 20, 3);
    let echo = std::thread::spawn(move || {
        let mut space = vec![0; 4 << 20];
        for _ in 0..30 {
            assert_eq!(other.wait(other.recv(to_one, 1, &mut space)), got(4 << 20, 1));
            assert_eq!(other.wait(other.send(to_one, 1, &space)), node::Outcome::Sent);
        }
        other
    });
    let mut space = vec![0; 4 << 20];
    for round in 0..30 {
        let send = one.send(to_other, 1, &data);
        assert_eq!(one.wait(one.recv(to_other, 1, &mut space)), got(4 << 20, 1), "round {round}");
        assert_eq!(one.wait(send), node::Outcome::Sent);
        assert!(space == data);
    }
    echo.join().unwrap();
}

/// The process that has the router is killed while messages flow. Another one becomes the router, and all messages come.
fn killed(a: &Key, b: &Key, seed: u64) {
    // It comes first, so it is the router.
    let mut keeper = Keeper::start(a, b);
    let (one, other) = (of_node(a, b), of_node(b, a));
    let (to_other, to_one) = couple(&one, &other);
    let (nodes, ids) = ([one.node.clone(), other.node.clone()], [one.id(), other.id()]);
    let mut rng = Rng(seed);
    // All messages take more than twice as long.
    let after = Duration::from_millis(5 + rng.roll(60));
    let lanes = move || nodes[0].inspect(|core| core.lanes_had(ids[0], ids[1]));
    let (had, mut begun, mut is_over) = (lanes.clone(), None, false);
    let kill = move || {
        if begun.is_none() && had() > 0 {
            begun = Some(Instant::now());
        }
        if !is_over && begun.is_some_and(|begun| begun.elapsed() > after) {
            keeper.child.kill().unwrap();
            keeper.child.wait().unwrap();
            is_over = true;
            return 1;
        }
        std::thread::sleep(Duration::from_millis(1));
        0
    };
    let (jobs, kills) = swap_beside([(one, to_other), (other, to_one)], &Rng(seed).messages(600), kill);
    let lanes = lanes();
    println!("seed {seed}: killed after {after:?}, {lanes} lanes");
    assert_eq!(kills, 1, "all was over before");
    assert!(lanes > 1, "the lane has outlived the router");
    for job in jobs {
        assert_eq!(job.node.drain(LONG), 0);
    }
}

#[test]
fn a_router_is_killed_under_load_and_nothing_is_lost() {
    for seed in 1..4 {
        let key = Key::new();
        killed(&key, &key, seed);
    }
}

#[test]
fn a_router_of_two_is_killed_under_load_and_nothing_is_lost() {
    for seed in 4..7 {
        killed(&Key::new(), &Key::new(), seed);
    }
}
