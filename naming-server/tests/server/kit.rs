//! Servers and holders as processes of their own, which can be killed, stopped and restarted; and a client that sends any bytes.
//!
//! The test program starts itself as these processes (`ROLE`); see `child`.

use base::bytes::{Put, Take};
use naming::server::Server;
use naming::{Claim, Kind, Naming, Record, RenewError};
use nix::sys::signal::{Signal, kill};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrIn, bind, connect, socket};
use nix::unistd::{ForkResult, Pid, fork};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

const ROLE: &str = "NAMING_TEST_ROLE";
const ARGUMENTS: &str = "NAMING_TEST_ARGUMENTS";
/// The longest wait of a test.
pub const LIMIT: Duration = Duration::from_secs(20);

/// A child process; without `ROLE`, this test does nothing.
#[test]
fn child() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let arguments = std::env::var(ARGUMENTS).unwrap();
    let arguments: Vec<&str> = arguments.split('|').collect();
    match (role.as_str(), &*arguments) {
        ("server", [address, lease]) => {
            let lease = Duration::from_millis(lease.parse().unwrap());
            let server = Server::listen(&[address.to_string()], lease).unwrap();
            say(&server.urls()[0].0);
            server.run(&naming::server::told_to_end().unwrap()).unwrap();
        }
        ("holder", [url, name]) => holder(url, name),
        ("forks", [url, name]) => forks(url, name),
        ("racer", [url]) => racer(url),
        ("claimer", [url]) => crate::storm::claimer(url),
        ("threads", [url]) => {
            crate::claims::threads(url);
            say("good");
        }
        _ => panic!("{role} {arguments:?}"),
    }
}

pub fn say(line: &str) {
    println!("SAYS {line}");
}

fn holder(url: &str, name: &str) {
    let claim = naming::open(url).unwrap().claim(&record(name)).unwrap();
    say("held");
    loop {
        if let Err(RenewError::Lost(_)) = claim.renew() {
            say("lost");
            return;
        }
        sleep(Duration::from_millis(10));
    }
}

/// Holds a name, and has a child that drops its copy and lives on.
fn forks(url: &str, name: &str) {
    let store = naming::open(url).unwrap();
    let claim = store.claim(&record(name)).unwrap();
    // SAFETY: the child only makes calls that take no lock: it drops a claim, makes a look-up that fails, writes, and sleeps.
    if let ForkResult::Child = unsafe { fork() }.unwrap() {
        drop(claim);
        assert!(store.lookup(Kind::Job, name).is_err(), "the connection is the parent's");
        say(&std::process::id().to_string());
    }
    sleep(LIMIT * 3);
}

/// Claims each name that it reads, writes the outcome, and gives the name back when it reads the next line.
fn racer(url: &str) {
    let store = naming::open(url).unwrap();
    say("ready");
    let mut held = None;
    for line in io::stdin().lines() {
        match line.unwrap().split_once(' ') {
            Some(("claim", name)) => {
                let claimed = store.claim(&record(name));
                say(&claimed.as_ref().map_or_else(|e| e.to_string(), |_| "won".into()));
                held = claimed.ok();
            }
            _ => {
                drop(held.take());
                say("done");
            }
        }
    }
}

/// A child, and the lines that it writes.
pub struct Process {
    child: Child,
    input: ChildStdin,
    said: Receiver<String>,
}

impl Process {
    pub fn start(role: &str, arguments: &[&str]) -> Process {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "kit::child", "--nocapture", "--test-threads=1"])
            .env(ROLE, role)
            .env(ARGUMENTS, arguments.join("|"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (give, said) = channel();
        let (input, output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                // The child's test harness may have begun the line.
                if let Some((_, said)) = line.split_once("SAYS ") {
                    let _ = give.send(said.to_owned());
                }
            }
        });
        Process { child, input, said }
    }

    pub fn hear(&self) -> String {
        self.said.recv_timeout(LIMIT).expect("a line in time")
    }

    /// The lines that it has written meanwhile.
    pub fn heard(&self) -> Vec<String> {
        self.said.try_iter().collect()
    }

    /// All lines that it wrote until it was killed.
    pub fn last_words(&mut self) -> Vec<String> {
        self.kill();
        self.said.iter().collect()
    }

    pub fn tell(&mut self, line: &str) {
        writeln!(self.input, "{line}").unwrap();
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
    }

    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A server in a process of its own.
pub struct Remote {
    process: Process,
    pub url: String,
    lease: Duration,
}

impl Remote {
    pub fn start(lease: Duration) -> Remote {
        Remote::at("127.0.0.1:0", lease)
    }

    fn at(address: &str, lease: Duration) -> Remote {
        let process = Process::start("server", &[address, &lease.as_millis().to_string()]);
        let url = process.hear();
        Remote { process, url, lease }
    }

    /// `host:port`
    pub fn address(&self) -> &str {
        self.url.strip_prefix("tcp://").unwrap()
    }

    pub fn kill(&mut self) {
        self.process.kill();
    }

    pub fn id(&self) -> u32 {
        self.process.id()
    }

    pub fn signal(&self, signal: Signal) {
        self.process.signal(signal);
    }

    /// Starts it at the same address, with no names in memory.
    pub fn restart(&mut self) {
        self.kill();
        *self = Remote::at(self.address(), self.lease);
    }
}

/// The URL of several servers.
pub fn url_of(servers: &[&Remote]) -> String {
    let all: Vec<_> = servers.iter().map(|s| s.address()).collect();
    format!("tcp://{}", all.join(","))
}

/// A server in this process, for this number of clients.
pub struct Local {
    pub url: String,
    stop: UnixStream,
    thread: Option<JoinHandle<()>>,
}

impl Local {
    pub fn start(lease: Duration, clients: usize) -> Local {
        let server = Server::listen(&["127.0.0.1:0".into()], lease).unwrap().at_most(clients);
        let url = server.urls()[0].0.clone();
        let (stop, told) = UnixStream::pair().unwrap();
        let thread = Some(spawn(move || server.run(&told).unwrap()));
        Local { url, stop, thread }
    }

    pub fn address(&self) -> SocketAddr {
        self.url.strip_prefix("tcp://").unwrap().parse().unwrap()
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        self.stop.write_all(b"end").unwrap();
        self.thread.take().unwrap().join().unwrap();
    }
}

pub fn record(name: &str) -> Record {
    Record {
        incarnation: u64::from_le_bytes(base::ident::random()),
        cookie: base::ident::random(),
        leader: vec![5; 100],
        mpi: "none".into(),
        metadata: vec![("grid".into(), "t63".into())],
        ..Record::new(name)
    }
}

pub fn open(url: &str) -> Box<dyn Naming> {
    naming::open(url).unwrap()
}

pub fn claim(url: &str, name: &str) -> Claim {
    open(url).claim(&record(name)).unwrap()
}

pub fn is_there(url: &str, name: &str) -> bool {
    open(url).lookup(Kind::Job, name).unwrap().is_some()
}

#[track_caller]
pub fn wait_for<T>(what: &str, mut f: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(t) = f() {
            return t;
        }
        assert!(begun.elapsed() < LIMIT, "waited for too long: {what}");
        sleep(Duration::from_millis(5));
    }
}

#[track_caller]
pub fn wait_until(what: &str, mut f: impl FnMut() -> bool) {
    wait_for(what, || f().then_some(()));
}

/// A client that sends any bytes, right or wrong.
pub struct Raw(pub TcpStream);

pub const HELLO: usize = 32;

pub fn hello() -> Vec<u8> {
    let mut out = b"MPICNSRV".to_vec();
    out.put_u16(4);
    out.resize(HELLO, 0);
    out
}

impl Raw {
    pub fn connect(to: SocketAddr) -> Raw {
        let stream = TcpStream::connect(to).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        stream.set_nodelay(true).unwrap();
        Raw(stream)
    }

    /// Connects from this address.
    pub fn connect_from(from: Ipv4Addr, to: SocketAddrV4) -> Raw {
        let fd = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None).unwrap();
        bind(fd.as_raw_fd(), &SockaddrIn::from(SocketAddrV4::new(from, 0))).unwrap();
        connect(fd.as_raw_fd(), &SockaddrIn::from(to)).unwrap();
        Raw(TcpStream::from(fd))
    }

    pub fn greeted(to: SocketAddr) -> Raw {
        let mut raw = Raw::connect(to);
        raw.0.write_all(&hello()).unwrap();
        assert_eq!(raw.welcome(), Some(0));
        raw
    }

    /// The status of the answer to a hello; `None` if there is none.
    pub fn welcome(&mut self) -> Option<u16> {
        let mut bytes = [0; HELLO];
        self.0.read_exact(&mut bytes).ok()?;
        let mut take = Take(&bytes);
        assert_eq!(take.array(), Ok(*b"MPICNSRV"));
        assert_eq!(take.u16(), Ok(4));
        take.u16().ok()
    }

    pub fn send(&mut self, body: &[u8]) {
        let mut out = Vec::new();
        out.put_u32(body.len() as u32);
        out.put_u32(0);
        out.extend_from_slice(body);
        self.0.write_all(&out).unwrap();
    }

    /// The body of an answer; `None` if the server has closed.
    pub fn answer(&mut self) -> Option<Vec<u8>> {
        let mut header = [0; 8];
        self.0.read_exact(&mut header).ok()?;
        let mut body = vec![0; Take(&header).u32().unwrap() as usize];
        self.0.read_exact(&mut body).ok()?;
        Some(body)
    }

    pub fn ask(&mut self, body: &[u8]) -> Vec<u8> {
        self.send(body);
        self.answer().expect("an answer")
    }

    /// Whether nothing has come.
    pub fn is_silent(&mut self) -> bool {
        self.0.set_nonblocking(true).unwrap();
        let peeked = self.0.peek(&mut [0]);
        self.0.set_nonblocking(false).unwrap();
        peeked.is_err_and(|e| e.kind() == io::ErrorKind::WouldBlock)
    }

    /// Whether the server has closed, or does so in time.
    pub fn is_closed(&mut self) -> bool {
        match self.0.read(&mut [0]) {
            Ok(n) => n == 0,
            Err(e) => e.kind() == io::ErrorKind::ConnectionReset,
        }
    }
}

/// A claim, as it is on the wire.
pub fn claim_body(token: [u8; 16], name: &str) -> Vec<u8> {
    claim_of(token, &record(name))
}

pub fn claim_of(token: [u8; 16], record: &Record) -> Vec<u8> {
    let mut written = b"MPICNAME".to_vec();
    written.put_u16(4);
    let written = postcard::to_extend(record, written).unwrap();
    postcard::to_extend(&(0u8, token, written), Vec::new()).unwrap()
}

/// A look-up of a job, as it is on the wire.
pub fn lookup_body(name: &str) -> Vec<u8> {
    postcard::to_extend(&(3u8, "", name, 0u8, 0u64), Vec::new()).unwrap()
}
