//! An etcd of one or several nodes in a folder of its own; servers and holders as processes of their own, which can be killed and
//! stopped.
//!
//! The test program starts itself as these processes (`ROLE`); see `child`.

use etcd::{Etcd, Options};
use naming::server::{Server, SharedStore};
use naming::{Claim, Kind, Naming, Record, RenewError};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, OnceLock};
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};
use trust::{Encrypt, Key, Ring, Trust};

const ROLE: &str = "ETCD_TEST_ROLE";
const ARGUMENTS: &str = "ETCD_TEST_ARGUMENTS";
/// The key of this test, for its children.
const KEY: &str = "ETCD_TEST_KEY";
/// The longest wait of a test.
pub const LIMIT: Duration = Duration::from_secs(30);

/// What this process, its servers and its holders trust.
pub fn trust() -> Arc<Trust> {
    static TRUST: OnceLock<Arc<Trust>> = OnceLock::new();
    let make = || {
        let key = std::env::var(KEY).map_or_else(|_| Key::new(), |text| Key::parse(&text).unwrap());
        Arc::new(Trust::new(Ring::new(key, []), Encrypt::Network))
    };
    TRUST.get_or_init(make).clone()
}

/// A child process; without `ROLE`, this test does nothing.
#[test]
fn child() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let arguments = std::env::var(ARGUMENTS).unwrap();
    let arguments: Vec<&str> = arguments.split('|').collect();
    match (role.as_str(), &*arguments) {
        ("server", [address, lease, url] | [address, lease, url, _]) => {
            serve(address, lease, &Options { url: url.to_string(), ..Options::default() })
        }
        (role @ ("tls" | "named"), [address, lease, url, folder]) => {
            let file = |name: &str| Path::new(folder).join(name);
            let own = if role == "named" { "named" } else { "client" };
            let certificate = Some((file(&format!("{own}.pem")), file(&format!("{own}.key"))));
            let (ca, user) = (Some(file("ca.pem")), Some(file("user")));
            serve(address, lease, &Options { url: url.to_string(), ca, certificate, user });
        }
        ("untrusting", [address, lease, url, folder]) => {
            let file = |name: &str| Path::new(folder).join(name);
            let certificate = Some((file("client.pem"), file("client.key")));
            serve(address, lease, &Options { url: url.to_string(), certificate, ..Options::default() });
        }
        ("holder", [url, name]) => holder(url, name),
        ("wrong", [address, lease, url, wrong]) => {
            let options = Options { url: url.to_string(), ..Options::default() };
            serve_by(address, lease, crate::history::wrong(Etcd::open(&options).unwrap(), wrong));
        }
        ("history", [seconds, seed, longest, wrong]) => {
            say(&naming::now().to_string());
            let [seconds, seed, longest] = [seconds, seed, longest].map(|text| text.parse().unwrap());
            crate::history::run(seconds, seed, longest, wrong);
        }
        _ => panic!("{role} {arguments:?}"),
    }
}

fn serve(address: &str, lease: &str, options: &Options) {
    serve_by(address, lease, Etcd::open(options).unwrap());
}

fn serve_by(address: &str, lease: &str, store: impl SharedStore + 'static) {
    let lease = Duration::from_millis(lease.parse().unwrap());
    let server = Server::listen(&[address.to_string()], lease, trust()).unwrap();
    let server = server.telling(|text| eprintln!("server: {text}"));
    match server.sharing(store) {
        Ok(server) => {
            say(&server.urls()[0].0);
            server.run(&naming::server::told_to_end().unwrap()).unwrap();
        }
        Err(e) => say(&format!("error: {e}")),
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

/// A child, and the lines that it writes.
pub struct Process {
    child: Child,
    said: Receiver<String>,
}

impl Process {
    pub fn start(role: &str, arguments: &[&str]) -> Process {
        Process::by(Command::new(std::env::current_exe().unwrap()), role, arguments)
    }

    /// Started by this command, which is given the program's arguments.
    pub fn by(mut command: Command, role: &str, arguments: &[&str]) -> Process {
        let mut child = command
            .args(["--exact", "kit::child", "--nocapture", "--test-threads=1"])
            .env(ROLE, role)
            .env(KEY, &*trust().ring().own().text())
            .env(ARGUMENTS, arguments.join("|"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (give, said) = channel();
        let output = BufReader::new(child.stdout.take().unwrap());
        spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                // The child's test harness may have begun the line.
                if let Some((_, text)) = line.split_once("SAYS ") {
                    let _ = give.send(text.to_owned());
                }
            }
        });
        Process { child, said }
    }

    #[track_caller]
    pub fn hear(&self) -> String {
        self.hear_within(LIMIT)
    }

    #[track_caller]
    pub fn hear_within(&self, limit: Duration) -> String {
        self.said.recv_timeout(limit).expect("a line in time")
    }

    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
    }

    /// Waits until it has ended by itself, and has tidied up.
    pub fn end(&mut self) {
        wait_until("its end", || self.child.try_wait().unwrap().is_some());
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

/// A server before an etcd.
pub struct Remote {
    process: Process,
    /// `tcp://HOST:PORT`
    pub url: String,
    etcd: String,
    lease: Duration,
}

impl Remote {
    pub fn start(etcd: &str, lease: Duration) -> Remote {
        Remote::at("127.0.0.1:0", etcd, lease)
    }

    fn at(address: &str, etcd: &str, lease: Duration) -> Remote {
        let process = Process::start("server", &[address, &lease.as_millis().to_string(), etcd]);
        let url = process.hear();
        assert!(url.starts_with("tcp://"), "{url}");
        Remote { process, url, etcd: etcd.into(), lease }
    }

    pub fn kill(&mut self) {
        self.process.kill();
    }

    pub fn signal(&self, signal: Signal) {
        self.process.signal(signal);
    }

    pub fn restart(&mut self) {
        self.kill();
        *self = Remote::at(self.url.strip_prefix("tcp://").unwrap(), &self.etcd, self.lease);
    }
}

/// The URL of all of them.
pub fn url_of(servers: &[&Remote]) -> String {
    let places: Vec<_> = servers.iter().map(|s| s.url.strip_prefix("tcp://").unwrap()).collect();
    format!("tcp://{}", places.join(","))
}

/// A folder that is removed at the end.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new() -> Folder {
        let name = format!("mpi-connect-etcd-{:016x}", u64::from_le_bytes(base::ident::random()));
        // In memory where that can be: an etcd waits for the disk at each entry, and a busy disk may make it wait for longer than
        // an election lasts.
        let places = ["/dev/shm", env!("CARGO_TARGET_TMPDIR")].map(|place| Path::new(place).join(&name));
        let folder = places.into_iter().find(|folder| std::fs::create_dir(folder).is_ok());
        Folder(folder.expect("a folder for an etcd"))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A node of an etcd.
pub struct Node {
    arguments: Vec<String>,
    log: PathBuf,
    child: Option<Child>,
    /// Where clients find it, and what starts it.
    pub place: String,
    before: Vec<String>,
}

impl Node {
    pub fn start(&mut self) {
        let log = File::options().create(true).append(true).open(&self.log).unwrap();
        let mut words = self.before.iter().chain([&self.arguments[0]]);
        let mut command = Command::new(words.next().unwrap());
        command.args(words).args(&self.arguments[1..]).stdin(Stdio::null());
        // Settings of the host are for other nodes.
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("ETCD_")) {
            command.env_remove(name);
        }
        self.child = Some(command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap());
    }

    /// From its next start on, it speaks TLS, with these settings.
    pub fn secure(&mut self, more: &[String]) {
        for at in ["--listen-client-urls", "--advertise-client-urls"] {
            let at = self.arguments.iter().position(|word| word == at).unwrap() + 1;
            self.arguments[at] = self.arguments[at].replace("http://", "https://");
        }
        self.arguments.extend_from_slice(more);
    }

    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    pub fn signal(&self, signal: Signal) {
        if let Some(child) = &self.child {
            kill(Pid::from_raw(child.id() as i32), signal).unwrap();
        }
    }
}

/// An etcd.
pub struct Cluster {
    pub nodes: Vec<Node>,
    folder: Folder,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.nodes.iter_mut().for_each(Node::kill);
    }
}

/// Where a node listens, and what its command begins with.
pub struct Site {
    pub host: String,
    pub before: Vec<String>,
}

impl Cluster {
    /// With so many nodes on this host; `None`, and a line that says so, where there is no etcd.
    pub fn start(nodes: usize) -> Option<Cluster> {
        let here = || Site { host: "127.0.0.1".into(), before: Vec::new() };
        Cluster::at((0..nodes).map(|_| here()).collect())
    }

    pub fn at(sites: Vec<Site>) -> Option<Cluster> {
        let Some(program) = ["/usr/bin/etcd", "/usr/local/bin/etcd"].into_iter().find(|p| Path::new(p).exists()) else {
            println!("NOT CHECKED, since there is no etcd here (Debian's package is etcd-server)");
            return None;
        };
        let folder = Folder::new();
        let ports: Vec<[u16; 2]> = sites.iter().map(|_| [free_port(), free_port()]).collect();
        let peers: Vec<String> =
            (0..sites.len()).map(|i| format!("n{i}=http://{}:{}", sites[i].host, ports[i][1])).collect();
        let node = |(i, site): (usize, &Site)| {
            let place = format!("{}:{}", site.host, ports[i][0]);
            let (client, peer) = (format!("http://{place}"), format!("http://{}:{}", site.host, ports[i][1]));
            let data = folder.0.join(format!("n{i}"));
            let words = [
                program,
                "--name",
                &format!("n{i}"),
                "--data-dir",
                &data.display().to_string(),
                "--listen-client-urls",
                &client,
                "--advertise-client-urls",
                &client,
                "--listen-peer-urls",
                &peer,
                "--initial-advertise-peer-urls",
                &peer,
                "--initial-cluster",
                &peers.join(","),
                "--heartbeat-interval",
                "60",
                "--election-timeout",
                "600",
                "--logger",
                "zap",
            ];
            Node {
                arguments: words.map(str::to_owned).to_vec(),
                log: data.with_extension("log"),
                child: None,
                place,
                before: site.before.clone(),
            }
        };
        let nodes = sites.iter().enumerate().map(node).collect();
        Some(Cluster { nodes, folder })
    }

    /// Starts all nodes, and waits until they answer.
    pub fn run(mut self) -> Cluster {
        self.nodes.iter_mut().for_each(Node::start);
        for (i, node) in self.nodes.iter().enumerate() {
            let answers = in_time(|| TcpStream::connect(&node.place).ok());
            assert!(answers.is_some(), "the etcd at {} does not answer:\n{}", node.place, self.last_words(i));
        }
        self
    }

    pub fn url(&self) -> String {
        let places: Vec<_> = self.nodes.iter().map(|node| node.place.clone()).collect();
        format!("etcd://{}", places.join(","))
    }

    /// Where its data is.
    pub fn folder(&self) -> &Path {
        &self.folder.0
    }

    /// What a node has said last, for a test that fails.
    pub fn last_words(&self, node: usize) -> String {
        let mut text = String::new();
        let _ = File::open(&self.nodes[node].log).and_then(|mut log| log.read_to_string(&mut text));
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(8)..].join("\n")
    }
}

/// Tells a node without TLS. Returns what it answers.
pub fn post(place: &str, path: &str, body: &str) -> String {
    let answer = ask(place, path, body).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
    answer
}

/// Whether this node answers as the cluster does: it knows who leads, and has all that most have. One that only listens may have begun anew.
pub fn is_member(place: &str) -> bool {
    ask(place, "/v3/kv/range", r#"{"key":"AA=="}"#).is_ok_and(|answer| answer.starts_with("HTTP/1.1 200"))
}

fn ask(place: &str, path: &str, body: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(place)?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    let length = body.len();
    let head =
        format!("POST {path} HTTP/1.1\r\nHost: {place}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
    stream.write_all((head + body).as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
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
    open_run(url, "")
}

pub fn open_run(url: &str, run: &str) -> Box<dyn Naming> {
    naming::open_trusting(url, run, || Ok(trust())).unwrap()
}

#[track_caller]
pub fn claim(url: &str, name: &str) -> Claim {
    open(url).claim(&record(name)).unwrap_or_else(|e| panic!("{e}"))
}

#[track_caller]
pub fn is_there(url: &str, name: &str) -> bool {
    open(url).lookup(Kind::Job, name).unwrap_or_else(|e| panic!("{e}")).is_some()
}

/// What `f` gives, if it does within the limit.
fn in_time<T>(mut f: impl FnMut() -> Option<T>) -> Option<T> {
    let begun = Instant::now();
    loop {
        let found = f();
        if found.is_some() || begun.elapsed() >= LIMIT {
            return found;
        }
        sleep(Duration::from_millis(5));
    }
}

#[track_caller]
pub fn wait_for<T>(what: &str, f: impl FnMut() -> Option<T>) -> T {
    let Some(found) = in_time(f) else { panic!("waited for too long: {what}") };
    found
}

#[track_caller]
pub fn wait_until(what: &str, mut f: impl FnMut() -> bool) {
    wait_for(what, || f().then_some(()));
}
