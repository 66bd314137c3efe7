//! The other job is a process of its own: killed, stopped, replaced, forked.

mod common;
use base::protocol::greeting::FIRST_PROOF;
use common::*;
use node::{Contact, ContextId, Fault, Group, Mode, Node, Outcome, ProcId, RemoteGroup, Source, StartError, Tag};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use trust::GREETING;

const CHILD: &str = "NODE_TEST_CHILD";
const NOTICED: Duration = Duration::from_secs(5);
const THEIRS: u64 = 1 << 40;

fn hex(contact: &Contact) -> String {
    let mut bytes = Vec::new();
    contact.encode(&mut bytes);
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn unhex(line: &str) -> Contact {
    let digits: Vec<u8> = line.trim().bytes().map(|c| (c as char).to_digit(16).unwrap() as u8).collect();
    let bytes: Vec<u8> = digits.chunks(2).map(|d| d[0] << 4 | d[1]).collect();
    Contact::decode(&mut base::bytes::Take(&bytes)).unwrap()
}

/// What the other process does: echoes messages with tag 1.
#[test]
fn other_process() {
    if std::env::var(CHILD).is_err() {
        return;
    }
    let node = Node::get().unwrap();
    let id = ProcId { incarnation: THEIRS, rank: 0 };
    node.add_group(Group { incarnation: THEIRS, cookie: [1; 16], rank: 0, size: 1 });
    println!("\ncontact {}", hex(&node.contact()));
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    let (incarnation, contact) = line.split_once(' ').unwrap();
    let incarnation: u64 = incarnation.parse().unwrap();
    let there = RemoteGroup { incarnation, cookie: [incarnation as u8; 16], contacts: vec![unhex(contact)].into() };
    let inter = node.open(id, &there, ContextId::root(1));
    let mut space = vec![0; 10];
    if std::env::var(CHILD).as_deref() == Ok("forks") {
        let recv = node.irecv(inter, Source::Any, Tag::Is(1), common::space(&mut space));
        node.wait_until(&mut || false, |core| core.test(recv), None);
        // SAFETY: the child only sleeps and leaves.
        if unsafe { libc::fork() } == 0 {
            // SAFETY: always allowed.
            unsafe {
                libc::sleep(30);
                libc::_exit(0)
            }
        }
    }
    let what = std::env::var(CHILD).unwrap();
    if what.starts_with("bad") {
        // As in the library that programs use, where a panic ends the process, in whatever thread.
        std::panic::set_hook(Box::new(|info| {
            eprintln!("{info}");
            std::process::abort();
        }));
        // SAFETY: none: this is the program's error that is to be noticed.
        let bad = unsafe { node::Layout::contiguous(0x1000 as *mut u8, 1 << 20) };
        match what.as_str() {
            "bad send" => node.isend(inter, 0, 1, bad, Mode::Standard),
            _ => node.irecv(inter, Source::Any, Tag::Is(1), bad),
        };
        node.wait_until(&mut || false, |_| None::<()>, Some(Instant::now() + LONG));
    }
    if what == "poor" {
        // SAFETY: a plain call with a structure that outlives it.
        unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &libc::rlimit { rlim_cur: 256, rlim_max: 256 }) };
        println!("\nlimited");
    }
    loop {
        let recv = node.irecv(inter, Source::Any, Tag::Is(1), common::space(&mut space));
        let received = node.wait_until(&mut || false, |core| core.test(recv), None);
        let Some(Outcome::Received(e)) = received else { break };
        let files: Vec<_> = (0..64).map(|_| std::fs::File::open("/dev/null")).collect();
        assert!(files.iter().all(Result::is_ok), "the program can still open files");
        let send = node.isend(inter, 0, 1, view(&space[..e.size as usize]), Mode::Standard);
        node.wait_until(&mut || false, |core| core.test(send), None);
    }
    node.drain(Duration::from_secs(1));
}

struct Other {
    child: Child,
    remote: RemoteGroup,
    /// What it prints, a line at a time.
    lines: std::sync::mpsc::Receiver<String>,
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Other {
    fn start(to: &Job, what: &str) -> Other {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "other_process", "--nocapture"])
            .env(CHILD, what)
            .env("MPI_CONNECT_KEY", key_setting())
            .env("MPI_CONNECT_LANES", if lanes() == SHM { "shm,tcp" } else { "tcp" })
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (say, said) = std::sync::mpsc::channel();
        let (errors, also) = (BufReader::new(child.stderr.take().unwrap()).lines(), say.clone());
        std::thread::spawn(move || errors.map_while(Result::ok).try_for_each(|l| also.send(l)));
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let contact = lines.find_map(|l| l.strip_prefix("contact ").map(unhex)).unwrap();
        std::thread::spawn(move || lines.try_for_each(|l| say.send(l)));
        writeln!(child.stdin.as_mut().unwrap(), "{} {}", to.group.incarnation, hex(&to.node.contact())).unwrap();
        let remote = RemoteGroup { incarnation: THEIRS, cookie: [1; 16], contacts: vec![contact].into() };
        Other { child, remote, lines: said }
    }

    /// Until it has printed a line with this in it.
    fn until_it_says(&self, what: &str) {
        let deadline = Instant::now() + LONG;
        while let Ok(line) = self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            if line.contains(what) {
                return;
            }
        }
        panic!("it has not said '{what}'");
    }

    fn signal(&self, name: &str) {
        let status = Command::new("kill").args([name, &self.child.id().to_string()]).status().unwrap();
        assert!(status.success());
    }

    /// Stops it. The first thread of a process takes the signal when it gets a processor; the others run until then.
    fn stop(&self) {
        self.signal("-STOP");
        let tasks = format!("/proc/{}/task", self.child.id());
        let start = Instant::now();
        let is_stopped = |task: std::fs::DirEntry| {
            std::fs::read_to_string(task.path().join("stat")).is_ok_and(|stat| stat.contains(") T "))
        };
        while !std::fs::read_dir(&tasks).unwrap().all(|task| is_stopped(task.unwrap())) {
            assert!(start.elapsed() < LONG, "it does not stop");
            std::thread::yield_now();
        }
    }
}

fn echo(job: &Job, inter: node::InterId) {
    let mut space = vec![0; 3];
    let send = job.send(inter, 1, b"abc");
    let recv = job.recv(inter, 1, &mut space);
    assert_eq!(job.wait(recv), got(3, 1));
    job.wait(send);
    assert_eq!(space, b"abc");
}

fn killed() {
    let job = Job::new();
    let mut other = Other::start(&job, "echoes");
    let inter = job.node.open(job.id(), &other.remote, ContextId::root(1));
    echo(&job, inter);
    let mut space = vec![0; 3];
    let recv = job.recv(inter, 2, &mut space);
    other.child.kill().unwrap();
    let start = Instant::now();
    assert_eq!(job.wait_for(recv, NOTICED), Some(Outcome::Failed(Fault::PeerDead)));
    println!("SIGKILL noticed after {:?}", start.elapsed());
}

fn killed_while_a_child_of_it_lives() {
    let job = Job::new();
    let mut other = Other::start(&job, "forks");
    let inter = job.node.open(job.id(), &other.remote, ContextId::root(1));
    let send = job.send(inter, 1, b"abc");
    job.wait(send);
    echo(&job, inter);
    let mut space = vec![0; 3];
    let recv = job.recv(inter, 2, &mut space);
    other.child.kill().unwrap();
    assert_eq!(job.wait_for(recv, NOTICED), Some(Outcome::Failed(Fault::PeerDead)));
}

#[test]
fn killed_and_replaced_at_its_port() {
    over(TCP);
    let job = Job::new();
    let mut other = Other::start(&job, "echoes");
    let inter = job.node.open(job.id(), &other.remote, ContextId::root(1));
    let port = node::ip_addresses(&other.remote.contacts.get(0).unwrap())[0].port();
    other.child.kill().unwrap();
    other.child.wait().unwrap();
    let _heir = Job::with({
        let mut config = config();
        config.transports.tcp.ports = Some(transports::registry::PortRange(port, port));
        config
    });
    let mut space = vec![0; 3];
    let recv = job.recv(inter, 1, &mut space);
    let start = Instant::now();
    assert_eq!(job.wait_for(recv, NOTICED), Some(Outcome::Failed(Fault::PeerDead)));
    println!("replaced: noticed after {:?}", start.elapsed());
}

fn stopped_is_not_dead() {
    let job = Job::new();
    let other = Other::start(&job, "echoes");
    let inter = job.node.open(job.id(), &other.remote, ContextId::root(1));
    echo(&job, inter);
    other.stop();
    let id = ProcId { incarnation: THEIRS, rank: 0 };
    let mut space = vec![0; 3];
    let recv = job.recv(inter, 1, &mut space);
    assert_eq!(job.wait_for(recv, Duration::from_millis(500)), None);
    // Even if its connection breaks meanwhile.
    assert!(job.node.inspect(|core| core.cut(job.id(), id)));
    assert_eq!(job.wait_for(recv, Duration::from_secs(13)), None);
    other.signal("-CONT");
    let send = job.send(inter, 1, b"abc");
    assert_eq!(job.wait(recv), got(3, 1));
    job.wait(send);
    assert_eq!(job.node.drain(LONG), 0);
}

#[test]
fn a_forked_child_is_told() {
    Node::get().unwrap();
    // SAFETY: the child makes one call that touches no lock, then leaves without running anything else.
    match unsafe { libc::fork() } {
        0 => {
            let told = matches!(Node::get(), Err(StartError::Forked));
            // SAFETY: always allowed.
            unsafe { libc::_exit(if told { 0 } else { 1 }) }
        }
        child => {
            let mut status = -1;
            // SAFETY: `status` outlives the call.
            assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
            assert_eq!(status, 0);
        }
    }
    assert!(Node::get().is_ok());
}

fn stopped_before_it_was_met() {
    let job = Job::new();
    let other = Other::start(&job, "echoes");
    other.stop();
    let inter = job.node.open(job.id(), &other.remote, ContextId::root(1));
    let mut space = vec![0; 3];
    let recv = job.recv(inter, 1, &mut space);
    let send = job.send(inter, 1, b"abc");
    // Longer than one dial lasts.
    assert_eq!(job.wait_for(recv, Duration::from_secs(13)), None);
    other.signal("-CONT");
    assert_eq!(job.wait(recv), got(3, 1));
    job.wait(send);
}

fn a_buffer_that_is_no_memory_ends_the_process() {
    for what in ["send", "receive"] {
        let job = Job::new();
        let mut other = Other::start(&job, &format!("bad {what}"));
        let inter = job.node.open(job.id(), &other.remote, ContextId::root(1));
        let data = pattern(1 << 20, 1);
        let mut space = vec![0; 1 << 20];
        let (send, recv) = (job.send(inter, 1, &data), job.recv(inter, 1, &mut space));
        if what == "send" && lanes() != SHM {
            other.until_it_says("the buffer of a send is not in this program's memory");
        }
        // Otherwise it ends so too, or by touching that memory itself, as in any MPI.
        let signal = other.child.wait().unwrap().signal();
        assert!(matches!(signal, Some(libc::SIGABRT | libc::SIGSEGV)), "{what}: {signal:?}");
        let dead = Some(Outcome::Failed(Fault::PeerDead));
        assert_eq!((job.wait_for(send, NOTICED), job.wait_for(recv, NOTICED)), (dead, dead), "{what}");
    }
}

fn strangers_do_not_take_all_descriptors() {
    let job = Job::new();
    let other = Other::start(&job, "poor");
    other.until_it_says("limited");
    let at = node::ip_addresses(&other.remote.contacts.get(0).unwrap())[0];
    let _strangers: Vec<_> = (0..400).map(|_| TcpStream::connect(at).unwrap()).collect();
    // It comes after them, and the other program still opens files.
    let inter = job.node.open(job.id(), &other.remote, ContextId::root(1));
    echo(&job, inter);
}

#[test]
fn a_forked_child_holds_nothing_open() {
    let job = Job::new();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let contact = node::at_addresses([9; 16], [0; 16], &[silent.local_addr().unwrap()]);
    let nobody = ProcId { incarnation: 0, rank: 0 };
    job.node.open_control(job.id(), nobody, [0; 16], &contact);
    let (mut dialled, _) = silent.accept().unwrap();
    dialled.read_exact(&mut [0; GREETING + FIRST_PROOF]).unwrap();
    let mut half = TcpStream::connect(addresses(&job.node)[0]).unwrap();
    half.write_all(b"MPICONN1").unwrap();
    job.node.wait_until(&mut || false, |_| None::<()>, Some(Instant::now() + Duration::from_millis(100)));
    // SAFETY: the child only sleeps and leaves.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: always allowed.
        unsafe {
            libc::sleep(30);
            libc::_exit(0)
        }
    }
    job.node.kill();
    for stream in [&mut dialled, &mut half] {
        stream.set_read_timeout(Some(NOTICED)).unwrap();
        let end = stream.read(&mut [0; 1]);
        let closed = matches!(&end, Ok(0)) || end.as_ref().is_err_and(|e| e.kind() == ErrorKind::ConnectionReset);
        assert!(closed, "{end:?}");
    }
    // SAFETY: our own child.
    unsafe {
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, std::ptr::null_mut(), 0);
    }
}

over_both!(
    killed,
    killed_while_a_child_of_it_lives,
    stopped_is_not_dead,
    stopped_before_it_was_met,
    a_buffer_that_is_no_memory_ends_the_process,
    strangers_do_not_take_all_descriptors,
);
