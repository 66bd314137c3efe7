//! The other job is a process of its own: killed, stopped, replaced, forked.

mod common;
use common::*;
use node::{Contact, Fault, Group, Mode, Node, Outcome, PortRange, ProcId, RemoteGroup, Source, StartError, Tag};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

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
    let there = RemoteGroup { incarnation, cookie: [incarnation as u8; 16], contacts: vec![unhex(contact)] };
    let inter = node.open(id, &there, 1);
    let mut space = vec![0; 10];
    if std::env::var(CHILD).as_deref() == Ok("forks") {
        let recv = node.irecv(inter, Source::Any, Tag::Is(1), common::space(&mut space));
        node.wait_until(&mut || (), |core| core.test(recv), None);
        // SAFETY: the child only sleeps and leaves.
        if unsafe { libc::fork() } == 0 {
            // SAFETY: always allowed.
            unsafe {
                libc::sleep(30);
                libc::_exit(0)
            }
        }
    }
    loop {
        let recv = node.irecv(inter, Source::Any, Tag::Is(1), common::space(&mut space));
        let Some(Outcome::Received(e)) = node.wait_until(&mut || (), |core| core.test(recv), None) else { break };
        let send = node.isend(inter, 0, 1, view(&space[..e.size as usize]), Mode::Standard);
        node.wait_until(&mut || (), |core| core.test(send), None);
    }
    node.drain(Duration::from_secs(1));
}

struct Other {
    child: Child,
    remote: RemoteGroup,
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
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let contact = lines.find_map(|l| l.strip_prefix("contact ").map(unhex)).unwrap();
        std::thread::spawn(move || lines.for_each(drop));
        writeln!(child.stdin.as_mut().unwrap(), "{} {}", to.group.incarnation, hex(&to.node.contact())).unwrap();
        let remote = RemoteGroup { incarnation: THEIRS, cookie: [1; 16], contacts: vec![contact] };
        Other { child, remote }
    }

    fn signal(&self, name: &str) {
        let status = Command::new("kill").args([name, &self.child.id().to_string()]).status().unwrap();
        assert!(status.success());
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

#[test]
fn killed() {
    let job = Job::new();
    let mut other = Other::start(&job, "echoes");
    let inter = job.node.open(job.id(), &other.remote, 1);
    echo(&job, inter);
    let mut space = vec![0; 3];
    let recv = job.recv(inter, 2, &mut space);
    other.child.kill().unwrap();
    let start = Instant::now();
    assert_eq!(job.wait_for(recv, NOTICED), Some(Outcome::Failed(Fault::PeerDead)));
    println!("SIGKILL noticed after {:?}", start.elapsed());
}

#[test]
fn killed_while_a_child_of_it_lives() {
    let job = Job::new();
    let mut other = Other::start(&job, "forks");
    let inter = job.node.open(job.id(), &other.remote, 1);
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
    let job = Job::new();
    let mut other = Other::start(&job, "echoes");
    let inter = job.node.open(job.id(), &other.remote, 1);
    let port = other.remote.contacts[0].addresses[0].port();
    other.child.kill().unwrap();
    other.child.wait().unwrap();
    let _heir = Job::with(node::Config { ports: Some(PortRange(port, port)), ..config() });
    let mut space = vec![0; 3];
    let recv = job.recv(inter, 1, &mut space);
    let start = Instant::now();
    assert_eq!(job.wait_for(recv, NOTICED), Some(Outcome::Failed(Fault::PeerDead)));
    println!("replaced: noticed after {:?}", start.elapsed());
}

#[test]
fn stopped_is_not_dead() {
    let job = Job::new();
    let other = Other::start(&job, "echoes");
    let inter = job.node.open(job.id(), &other.remote, 1);
    echo(&job, inter);
    other.signal("-STOP");
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
