//! A server with a file in a process of its own, which dies at a step that is chosen; a client whose every answer is known.
//!
//! The test program starts itself as the server (`ROLE`); see `server`.

use base::bytes::{Put, Take};
use naming::Record;
use naming::server::{Ledger, LedgerError, Row, Server};
use nix::sys::signal::{Signal, raise};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use store::{OpenError, Step, Store, Watch};
use trust::{Dialling, Encrypt, Key, Progress, Protocol, Ring, Trust};

const ROLE: &str = "STORE_TEST_SERVER";
/// The key of this test, for its servers.
const KEY: &str = "STORE_TEST_KEY";
/// The longest wait of a test.
pub const LIMIT: Duration = Duration::from_secs(20);
pub const LONG: Duration = Duration::from_secs(600);
/// No step.
pub const NEVER: u64 = u64::MAX;

/// What this process and its servers trust.
pub fn trust() -> Arc<Trust> {
    static TRUST: OnceLock<Arc<Trust>> = OnceLock::new();
    let make = || {
        let key = std::env::var(KEY).map_or_else(|_| Key::new(), |text| Key::parse(&text).unwrap());
        Arc::new(Trust::new(Ring::new(key, []), Encrypt::Network))
    };
    TRUST.get_or_init(make).clone()
}

/// Ends the process at a step; with a file of this name, no room is left.
#[derive(Debug)]
struct Reaper {
    steps: AtomicU64,
    syncs: AtomicU64,
    last: u64,
    full: PathBuf,
}

impl Reaper {
    fn step(&self) {
        if self.steps.fetch_add(1, Ordering::Relaxed) == self.last {
            raise(Signal::SIGKILL).unwrap();
        }
    }
}

impl Watch for Reaper {
    fn before(&self, step: Step) -> io::Result<()> {
        self.step();
        self.syncs.fetch_add((step == Step::Sync).into(), Ordering::Relaxed);
        if step != Step::Sync && self.full.exists() {
            return Err(io::Error::from_raw_os_error(nix::errno::Errno::ENOSPC as i32));
        }
        Ok(())
    }
}

/// The step behind a commit, before the answers go out.
struct Told(Store, Arc<Reaper>);

impl Ledger for Told {
    fn read(&mut self, row: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), LedgerError> {
        self.0.read(row)
    }
    fn write(&mut self, rows: &[Row]) -> Result<(), LedgerError> {
        self.1.step();
        let written = self.0.write(rows);
        self.1.step();
        written
    }
}

/// The server; without `ROLE`, this test does nothing.
#[test]
fn server() {
    let Ok(arguments) = std::env::var(ROLE) else { return };
    let [file, lease, last, address] = arguments.split('|').collect::<Vec<_>>()[..] else { panic!("{arguments}") };
    let reaper = Arc::new(Reaper {
        steps: AtomicU64::new(0),
        syncs: AtomicU64::new(0),
        last: last.parse().unwrap(),
        full: format!("{file}.full").into(),
    });
    let lease = Duration::from_millis(lease.parse().unwrap());
    let server = Server::listen(&[address.into()], lease, trust()).unwrap();
    let kept = match Store::open_watched(Path::new(file), Some(reaper.clone())) {
        Ok(store) => server.keeping(Told(store, reaper.clone())).map_err(|e| e.to_string()),
        Err(e) => Err(e.to_string()),
    };
    match kept {
        Ok(server) => {
            println!("SAYS {}", server.urls()[0].0.strip_prefix("tcp://").unwrap());
            server.run(&io::stdin()).unwrap();
            println!(
                "SAYS {} steps, {} syncs",
                reaper.steps.load(Ordering::Relaxed),
                reaper.syncs.load(Ordering::Relaxed)
            );
        }
        Err(e) => println!("SAYS error {e}"),
    }
}

pub struct Remote {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
    /// `host:port`; empty if it died before.
    pub address: String,
}

impl Remote {
    pub fn start(file: &Path, lease: Duration, last: u64) -> Remote {
        Remote::at("127.0.0.1:0", file, lease, last)
    }

    pub fn at(address: &str, file: &Path, lease: Duration, last: u64) -> Remote {
        Remote::started(Command::new(std::env::current_exe().unwrap()), address, file, lease, last)
    }

    /// Started by this command, which is given the program's arguments.
    pub fn by(command: Command, file: &Path, lease: Duration, last: u64) -> Remote {
        Remote::started(command, "127.0.0.1:0", file, lease, last)
    }

    fn started(mut command: Command, address: &str, file: &Path, lease: Duration, last: u64) -> Remote {
        let mut child = command
            .args(["--exact", "kit::server", "--nocapture", "--test-threads=1"])
            .env(KEY, &*trust().ring().own().text())
            .env(ROLE, format!("{}|{}|{last}|{address}", file.display(), lease.as_millis()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let address = said(&mut output).unwrap_or_default();
        Remote { child, output, address }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn has_died(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Ends it well. Returns what it says then.
    pub fn end(mut self) -> String {
        drop(self.child.stdin.take());
        let last = said(&mut self.output).unwrap();
        assert!(self.child.wait().unwrap().success());
        last
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        self.kill();
    }
}

fn said(output: &mut impl BufRead) -> Option<String> {
    let mut lines = output.lines().map_while(Result::ok);
    lines.find_map(|line| line.split_once("SAYS ").map(|(_, said)| said.to_owned()))
}

/// Opens a store of nobody else's. A test that starts a process has its locks for a moment, so it is tried again.
pub fn open(file: &Path, watch: Option<Arc<dyn Watch>>) -> Result<Store, OpenError> {
    let begun = Instant::now();
    loop {
        match Store::open_watched(file, watch.clone()) {
            Err(OpenError::Busy(_)) if begun.elapsed() < LIMIT => std::thread::yield_now(),
            other => return other,
        }
    }
}

/// A folder that is removed at the end.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new() -> Folder {
        let name = format!("store-{:016x}", u64::from_le_bytes(base::ident::random()));
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir(&folder).unwrap();
        Folder(folder)
    }
    pub fn file(&self) -> PathBuf {
        self.0.join("names")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub type Token = [u8; 16];

/// What a server has answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said {
    Granted(u64),
    /// By whom: the incarnation; and whether it is in doubt.
    Held(u64, bool),
    Released,
    Found(Option<Box<Record>>),
    Refused(u8),
}

/// A connection to a server. `None` if the server did not answer.
pub struct Client(TcpStream);

impl Client {
    pub fn connect(address: &str) -> Option<Client> {
        let mut stream = TcpStream::connect(address).ok()?;
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        stream.set_nodelay(true).unwrap();
        let (mut dialling, first) = Dialling::begin(&trust(), Protocol::Naming, true);
        stream.write_all(&first).ok()?;
        loop {
            let mut heard = vec![0; dialling.wants()];
            stream.read_exact(&mut heard).ok()?;
            match dialling.hear(&heard).expect("the server has the same key") {
                Progress::More => {}
                Progress::Say(bytes) => stream.write_all(&bytes).ok()?,
                Progress::Done(bytes) => {
                    stream.write_all(&bytes).ok()?;
                    return Some(Client(stream));
                }
            }
        }
    }

    pub fn send(&mut self, body: &[u8]) -> Option<()> {
        let mut out = Vec::new();
        out.put_u32(body.len() as u32);
        out.put_u32(0);
        out.extend_from_slice(body);
        self.0.write_all(&out).ok()
    }

    pub fn hear(&mut self) -> Option<Said> {
        let mut header = [0; 8];
        self.0.read_exact(&mut header).ok()?;
        let mut body = vec![0; Take(&header).u32().unwrap() as usize];
        self.0.read_exact(&mut body).ok()?;
        let rest = &body[1..];
        Some(match body[0] {
            0 => Said::Granted(postcard::from_bytes::<(u32, u64)>(rest).unwrap().1),
            1 => {
                let (record, doubtful) = postcard::from_bytes::<(Vec<u8>, bool)>(rest).unwrap();
                Said::Held(read(&record).incarnation, doubtful)
            }
            2 => Said::Released,
            3 => {
                let found = postcard::from_bytes::<Option<Vec<u8>>>(rest).unwrap();
                Said::Found(found.map(|record| Box::new(read(&record))))
            }
            5 => Said::Refused(rest[0]),
            other => panic!("{other}"),
        })
    }

    fn ask(&mut self, body: &[u8]) -> Option<Said> {
        self.send(body)?;
        self.hear()
    }

    pub fn claim(&mut self, token: Token, record: &Record) -> Option<Said> {
        self.ask(&claim_body(token, record))
    }
    pub fn renew(&mut self, token: Token, number: u64, record: &Record) -> Option<Said> {
        self.ask(&postcard::to_extend(&(1u8, token, number, written(record)), Vec::new()).unwrap())
    }
    pub fn release(&mut self, token: Token, name: &str) -> Option<Said> {
        self.ask(&postcard::to_extend(&(2u8, token, "", name, 0u8, 0u64), Vec::new()).unwrap())
    }
    pub fn lookup(&mut self, name: &str) -> Option<Option<Record>> {
        match self.ask(&postcard::to_extend(&(3u8, "", name, 0u8, 0u64), Vec::new()).unwrap())? {
            Said::Found(found) => Some(found.map(|record| *record)),
            other => panic!("{other:?}"),
        }
    }
}

pub fn claim_body(token: Token, record: &Record) -> Vec<u8> {
    postcard::to_extend(&(0u8, token, written(record)), Vec::new()).unwrap()
}

fn written(record: &Record) -> Vec<u8> {
    let mut written = b"MPICNAME".to_vec();
    written.put_u16(4);
    postcard::to_extend(record, written).unwrap()
}

fn read(bytes: &[u8]) -> Record {
    postcard::from_bytes(&bytes[10..]).unwrap()
}

pub fn token() -> Token {
    base::ident::random()
}

pub fn record(name: &str) -> Record {
    Record {
        incarnation: u64::from_le_bytes(base::ident::random()),
        cookie: base::ident::random(),
        leader: vec![5; 100],
        mpi: "none".into(),
        metadata: vec![("grid".into(), format!("t{}", below(1000)))],
        ..Record::new(name)
    }
}

pub fn below(n: u64) -> u64 {
    u64::from_le_bytes(base::ident::random()) % n
}

#[track_caller]
pub fn wait_until(what: &str, mut f: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !f() {
        assert!(begun.elapsed() < LIMIT, "waited for too long: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
