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
use std::sync::{Arc, OnceLock};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};
use trust::{Dialling, Encrypt, GREETING, Key, Progress, Protocol, Ring, Trust};

const ROLE: &str = "NAMING_TEST_ROLE";
const ARGUMENTS: &str = "NAMING_TEST_ARGUMENTS";
/// The key of this test, for its children.
const KEY: &str = "NAMING_TEST_KEY";
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
            let server = Server::listen(&[address.to_string()], lease, trust()).unwrap();
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
    let claim = open(url).claim(&record(name)).unwrap();
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
    let store = open(url);
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
    let store = open(url);
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
            .env(KEY, &*trust().ring().own().text())
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
    /// What it tells.
    pub told: Receiver<String>,
    stop: UnixStream,
    thread: Option<JoinHandle<()>>,
}

impl Local {
    pub fn start(lease: Duration, clients: usize) -> Local {
        Local::run(Server::listen(&["127.0.0.1:0".into()], lease, trust()).unwrap().at_most(clients))
    }

    /// One that trusts others.
    pub fn trusting(trust: &Arc<Trust>) -> Local {
        Local::run(Server::listen(&["127.0.0.1:0".into()], LIMIT * 3, trust.clone()).unwrap())
    }

    fn run(server: Server) -> Local {
        let (tell, told) = channel();
        let server = server.telling(move |text| drop(tell.send(text.to_owned())));
        let url = server.urls()[0].0.clone();
        let (stop, stopped) = UnixStream::pair().unwrap();
        let thread = Some(spawn(move || server.run(&stopped).unwrap()));
        Local { url, told, stop, thread }
    }

    /// Waits until it has told this.
    #[track_caller]
    pub fn tells(&self, part: &str) -> String {
        let begun = Instant::now();
        loop {
            let line = self.told.recv_timeout(LIMIT.saturating_sub(begun.elapsed())).expect(part);
            if line.contains(part) {
                return line;
            }
        }
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
    open_as(url, &trust())
}

pub fn open_as(url: &str, trust: &Arc<Trust>) -> Box<dyn Naming> {
    naming::open_trusting(url, "", || Ok(trust.clone())).unwrap()
}

/// What this process and its children trust: one key, and an identity of each process.
pub fn trust() -> Arc<Trust> {
    static TRUST: OnceLock<Arc<Trust>> = OnceLock::new();
    let make = || {
        let key = std::env::var(KEY).map_or_else(|_| Key::new(), |text| Key::parse(&text).unwrap());
        of_keys(&key, &[])
    };
    TRUST.get_or_init(make).clone()
}

/// A process with these keys.
pub fn of_keys(own: &Key, others: &[Key]) -> Arc<Trust> {
    with_keys(own, others, Encrypt::Network)
}

pub fn with_keys(own: &Key, others: &[Key], encrypt: Encrypt) -> Arc<Trust> {
    Arc::new(Trust::new(Ring::new(own.clone(), others.iter().cloned()), encrypt))
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

/// The first words of a client: its greeting and the proof behind it.
pub fn hello() -> Vec<u8> {
    Dialling::begin(&trust(), Protocol::Naming, true).1
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
        Raw::connect(to).proved()
    }

    /// The same client, once both sides have proved the key. Nothing is encrypted between the two.
    pub fn proved(mut self) -> Raw {
        let (mut dialling, first) = Dialling::begin(&trust(), Protocol::Naming, true);
        self.0.write_all(&first).unwrap();
        loop {
            let mut heard = vec![0; dialling.wants()];
            self.0.read_exact(&mut heard).unwrap();
            match dialling.hear(&heard).unwrap() {
                Progress::More => {}
                Progress::Say(bytes) => self.0.write_all(&bytes).unwrap(),
                Progress::Done(bytes) => {
                    self.0.write_all(&bytes).unwrap();
                    assert!(!dialling.finish().unwrap().is_encrypted());
                    return self;
                }
            }
        }
    }

    /// The status of the answer to a greeting; `None` if there is none.
    pub fn status(&mut self) -> Option<u16> {
        let mut bytes = [0; GREETING];
        self.0.read_exact(&mut bytes).ok()?;
        let mut take = Take(&bytes);
        assert_eq!((take.array(), take.u16()), (Ok(*b"MPICNSRV"), Ok(5)));
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
