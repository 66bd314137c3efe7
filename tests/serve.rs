//! The naming server as a user runs it, and what shows its names.

mod kit;

use kit::{PROGRAM, command, ended, open};
use naming::{Claim, Record};
use serde_json::Value;
use std::env;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(20);

/// Its output, if it ends well.
fn good(args: &[&str]) -> String {
    kit::good(command(args))
}

/// A command that goes on, and its lines.
struct Running {
    child: Child,
    lines: Receiver<String>,
}

impl Running {
    fn start(args: &[&str]) -> Running {
        let mut child = command(args).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let (give, lines) = channel();
        let output = BufReader::new(child.stdout.take().unwrap());
        spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| give.send(line)));
        Running { child, lines }
    }

    fn line(&self) -> String {
        self.lines.recv_timeout(LIMIT).expect("a line in time")
    }

    /// How it ends after this signal.
    fn end(&mut self, signal: &str) -> ExitStatus {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(begun.elapsed() < LIMIT, "it does not end");
            sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A server, and the URL that it prints.
fn serve(more: &[&str]) -> (Running, String) {
    let server = Running::start(&[&["serve", "--listen", "127.0.0.1:0"], more].concat());
    let line = server.line();
    let url = line.strip_prefix("MPI_CONNECT_NAMING=").expect("a line for the shell").to_owned();
    assert!(url.starts_with("tcp://127.0.0.1:"), "{url}");
    (server, url)
}

fn record(name: &str, metadata: &[(&str, &str)]) -> Record {
    Record {
        incarnation: u64::from_le_bytes(base::ident::random()),
        cookie: [1; 16],
        size: 3,
        mpi: "Some MPI".into(),
        metadata: metadata.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect(),
        ..Record::new(name)
    }
}

fn port(name: &str) -> Record {
    Record { port: Some("secret of a port".into()), cookie: [0; 16], ..record(name, &[]) }
}

fn claim(url: &str, record: &Record) -> Claim {
    open(url, "").claim(record).unwrap()
}

/// Watches a folder, then a server, where one name is already: `what` is called with the URL and the watcher.
fn while_watched(what: impl Fn(&str, &Running)) {
    let dir = env::temp_dir().join(format!("watch-{:016x}", u64::from_le_bytes(base::ident::random())));
    let (_server, tcp) = serve(&[]);
    for url in [format!("file:{}", dir.display()), tcp] {
        let _there = claim(&url, &record("there", &[]));
        let watch = Running::start(&["names", "--naming", &url, "--watch"]);
        assert!(watch.line().starts_with("NAME ") && watch.line().starts_with("there"), "{url}");
        what(&url, &watch);
    }
    std::fs::remove_dir_all(&dir).unwrap();
}

/// Names that come and go again at once are told of, with times, in the order in which they came.
#[test]
fn watching_misses_nobody() {
    while_watched(|url, watch| {
        for i in 0..20 {
            drop(claim(url, &record(&format!("name {i}"), &[])));
        }
        for i in 0..20 {
            for sign in ['+', '-'] {
                let line = watch.line();
                let (time, rest) = line.split_once(' ').unwrap();
                assert!(time.len() == 20 && time.ends_with('Z'), "{line}");
                assert!(rest.starts_with(&format!("{sign} name {i}  job  ")), "{url}: {line}, not {sign} name {i}");
            }
        }
    });
}

/// So are couplings, which two jobs tell of.
#[test]
fn watching_misses_no_coupling() {
    while_watched(|url, watch| {
        let store = open(url, "");
        for id in 1..=10 {
            let half = |name: &str, other: &str| {
                let half = Record { coupled: Some(other.into()), incarnation: id, ..record(name, &[]) };
                store.note(&half).unwrap()
            };
            drop((half("ocean", "air"), half("air", "ocean")));
        }
        for id in 1..=10 {
            for sign in ['+', '-'] {
                let line = watch.line();
                assert!(line.contains(&format!("Z {sign} air - ocean  coupling  ")), "{url}, {id}: {line}, not {sign}");
            }
        }
    });
}

/// Nobody reads what it tells: it serves on, and ends when it is told to.
#[test]
fn who_does_not_read_stops_nobody() {
    let (unread, write) = std::io::pipe().unwrap();
    let mut server = command(&["serve", "--listen", "127.0.0.1:0"]);
    server.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(write);
    let mut server = Running { child: server.spawn().unwrap(), lines: channel().1 };
    let mut line = String::new();
    BufReader::new(server.child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let url = line.trim().strip_prefix("MPI_CONNECT_NAMING=").unwrap();
    // A pipe holds 64 KiB; each of these claims is told in some 1 KiB.
    let long = Record { mpi: "M".repeat(1000), ..record("air", &[]) };
    let store = open(url, "");
    for _ in 0..200 {
        drop(store.claim(&long).unwrap());
    }
    let _held = store.claim(&record("ice", &[])).unwrap();
    assert!(good(&["names", "--naming", url]).contains("ice"));
    assert!(server.end("-TERM").success());
    drop(unread);
}

/// It tells who comes, goes and is refused, with times; or, asked so, nothing.
#[test]
fn it_tells_who_comes_and_goes() {
    for quiet in [false, true] {
        let mut server = command(&["serve", "--listen", "127.0.0.1:0", "--lease", "0.5"]);
        server.args(quiet.then_some("-q")).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut server = Running { child: server.spawn().unwrap(), lines: channel().1 };
        let mut line = String::new();
        BufReader::new(server.child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let url = line.trim().strip_prefix("MPI_CONNECT_NAMING=").unwrap();
        let store = open(url, "case7");
        let held = store.claim(&record("air", &[])).unwrap();
        assert!(store.claim(&record("air", &[])).is_err());
        drop(held);
        // Nobody renews in a copy that was forgotten.
        drop(claim(url, &port("door")));
        let mut stranger = std::net::TcpStream::connect(url.strip_prefix("tcp://").unwrap()).unwrap();
        std::io::Write::write_all(&mut stranger, &[b"GET / HTTP/1.1\r\n\r\n".as_slice(), &[b' '; 64]].concat())
            .unwrap();
        let _ = std::io::Read::read(&mut stranger, &mut [0; 1]);
        assert!(server.end("-TERM").success());
        let said = std::io::read_to_string(server.child.stderr.take().unwrap()).unwrap();
        if quiet {
            assert_eq!(said, "");
            continue;
        }
        let me = format!("process {} on {}", std::process::id(), naming::host());
        let expected = [
            format!("'air' of run 'case7' is claimed by {me}: 3 ranks of Some MPI"),
            format!("'air' of run 'case7' is refused to {me}: {me} has it"),
            format!("'air' of run 'case7' is released by {me}"),
            format!("'door' is claimed by {me}, as a published port"),
            format!("'door' is released by {me}"),
            "a client at 127.0.0.1:PORT is refused: what it says is not of this protocol".into(),
        ];
        let port = stranger.local_addr().unwrap().port().to_string();
        let (first, said) = said.split_once('\n').unwrap();
        assert!(first.contains("Z serves who has the key "), "{first}");
        let got: Vec<_> = said.lines().map(|l| l.split_once("Z ").expect("a time").1.replace(&port, "PORT")).collect();
        assert_eq!(got, expected, "{said}");
    }
}

#[test]
fn it_serves_until_it_is_told_to_end() {
    for signal in ["-TERM", "-INT"] {
        let (mut server, url) = serve(&[]);
        assert_eq!(good(&["names", "--naming", &url]), format!("no names in {url}\n"));
        let held = claim(&url, &record("urn:site:ocean", &[("grid", "t63")]));
        let out = good(&["names", "--naming", &url]);
        let lines: Vec<&str> = out.lines().collect();
        assert!(lines.len() == 2 && lines[0].starts_with("NAME            KIND  STATE"), "{out}");
        assert!(lines[1].starts_with("urn:site:ocean  job   live   3      Some MPI"), "{out}");
        assert!(lines[1].ends_with("  grid=t63"), "{out}");
        drop(held);
        assert_eq!(server.end(signal).code(), Some(0));
        assert!(server.lines.recv_timeout(LIMIT).is_err(), "one line is all it prints");
    }
}

#[test]
fn wrong_command_lines() {
    for args in [
        ["--lease", "0"],
        ["--lease", "-1"],
        ["--lease", "soon"],
        ["--lease", "1e300"],
        ["--listen", "a:b"],
        ["--listen", "::1"],
        ["--listen", "7431"],
        ["--metrics", "a"],
    ] {
        let (code, said) = ended(command(&["serve", args[0], args[1]]));
        assert_eq!(code, 2, "{args:?}: {said}");
    }
    for (args, exit, says) in [
        (&["--store", "etcd://"][..], 2, "etcd://HOST:PORT"),
        (&["--store", "etcd://a", "--store-ca", "/nowhere"], 2, "etcds://"),
        (&["--store", "names", "--store-user", "/nowhere"], 2, "--store-user is for --store etcd://"),
        (&["--store", "etcds://a", "--store-cert", "/nowhere"], 2, "--store-key"),
        (&["--store", "etcds://a", "--store-ca", "/nowhere"], 1, "reading /nowhere"),
        (&["--store", "etcd://127.0.0.1:1"], 1, "etcd://127.0.0.1:1 cannot be used: it is not reached"),
    ] {
        let (code, said) = ended(command(&[&["serve", "--listen", "127.0.0.1:0"], args].concat()));
        assert!(code == exit && said.contains(says), "{args:?}: {code} {said}");
    }
    let (_server, url) = serve(&[]);
    let taken = url.strip_prefix("tcp://").unwrap();
    let (code, said) = ended(command(&["serve", "--listen", taken]));
    assert!(code == 1 && said.contains(&format!("listening at {taken}: ")), "{code} {said}");
}

#[test]
fn several_addresses() {
    let server = Running::start(&["serve", "--listen", "127.0.0.1:0", "--listen", "127.0.0.2:0", "--lease", "1.5"]);
    let urls = [server.line(), server.line()].map(|l| l.strip_prefix("MPI_CONNECT_NAMING=").unwrap().to_owned());
    let _held = claim(&urls[0], &record("ocean", &[]));
    assert!(good(&["names", "--naming", &urls[1]]).contains("ocean"), "one server");
    let both = format!("{},{}", urls[0], urls[1].strip_prefix("tcp://").unwrap());
    let _twice = claim(&both, &record("air", &[]));
    assert_eq!(good(&["names", "--naming", &both, "air"]).lines().count(), 2, "shown once");
}

#[test]
fn names_are_picked() {
    let (_server, url) = serve(&[]);
    let _held = [
        claim(&url, &record("urn:site:ocean", &[("grid", "t63"), ("run", "7")])),
        claim(&url, &record("urn:site:air", &[("grid", "t63"), ("run", "8")])),
        claim(&url, &record("urn:other:ocean", &[])),
        claim(&url, &port("urn:site:ocean")),
    ];
    let picked = |args: &[&str]| {
        let out = good(&[&["names", "--naming", &url, "--json"], args].concat());
        let all: Value = serde_json::from_str(&out).unwrap();
        assert!(!out.contains("secret"), "{out}");
        let word = |v: &Value| format!("{} {}", v["name"].as_str().unwrap(), v["kind"].as_str().unwrap());
        all.as_array().unwrap().iter().map(word).collect::<Vec<_>>()
    };
    assert_eq!(picked(&[]), ["urn:other:ocean job", "urn:site:air job", "urn:site:ocean job", "urn:site:ocean port"]);
    assert_eq!(picked(&["urn:site:*"]).len(), 3);
    assert_eq!(picked(&["urn:site"]).len(), 3);
    assert_eq!(picked(&["*:ocean"]).len(), 3);
    assert_eq!(picked(&["*:air"]), ["urn:site:air job"]);
    assert_eq!(picked(&["--where", "grid=t63"]).len(), 2);
    assert_eq!(picked(&["--where", "grid=t63", "--where", "run=7"]), ["urn:site:ocean job"]);
    assert_eq!(picked(&["--where", "run=7", "*air"]), [] as [&str; 0]);
    assert_eq!(good(&["names", "--naming", &url, "nobody"]), format!("no such names in {url}\n"));
    assert_eq!(ended(command(&["names", "--naming", &url, "--where", "grid"])).0, 2);
}

/// In a server or in a folder.
#[test]
fn comings_and_goings_are_told() {
    let (_server, tcp) = serve(&[]);
    let dir = env::temp_dir().join(format!("serve-{:016x}", u64::from_le_bytes(base::ident::random())));
    for url in [tcp, format!("file:{}", dir.display())] {
        let air = claim(&url, &record("air", &[]));
        let watch = Running::start(&["names", "--naming", &url, "--watch"]);
        let json = Running::start(&["names", "--naming", &url, "--watch", "--json", "--where", "grid=t63"]);
        assert!(watch.line().starts_with("NAME ") && watch.line().starts_with("air   job   live"), "{url}");
        let ocean = claim(&url, &record("ocean", &[("grid", "t63")]));
        let line = watch.line();
        assert!(
            line.contains("Z + ocean  job  3 ranks of Some MPI  process ") && line.ends_with("  grid=t63"),
            "{line}"
        );
        let told: Value = serde_json::from_str(&json.line()).unwrap();
        // It may have begun to look after the name came.
        assert!(
            told["name"] == "ocean"
                && ["there", "joined"].contains(&told["event"].as_str().unwrap())
                && told["metadata"]["grid"] == "t63",
            "{told}"
        );
        drop(air);
        assert!(watch.line().contains("Z - air  job  left  "), "{url}");
        drop(ocean);
        assert!(watch.line().contains("Z - ocean  job  "), "{url}");
        let told: Value = serde_json::from_str(&json.line()).unwrap();
        assert!(told["name"] == "ocean" && told["event"] == "left" && told["state"] == "gone", "{told}");
    }
    let _ = std::fs::remove_dir_all(dir);
}

/// Stays with a name until it is killed, if it is told to.
#[test]
fn a_holder() {
    if let Ok(url) = env::var(HOLD) {
        let _name = claim(&url, &record("ocean", &[]));
        let _ = std::io::stdin().read(&mut [0]);
    }
}

const HOLD: &str = "SERVE_TEST_HOLD";

/// Two jobs that end in order are gone by the time that the watcher looks: their coupling has left all the same.
#[test]
fn a_coupling_of_jobs_that_have_ended_has_left() {
    let mut child = Command::new("true").spawn().unwrap();
    let pid = child.id();
    child.wait().unwrap();
    while_watched(|url, watch| {
        for incarnation in 1..=2 {
            let half = |name: &str, other: &str| {
                let coupled = Some(other.into());
                open(url, "")
                    .note(&Record { coupled, incarnation, pid, host: naming::host(), ..record(name, &[]) })
                    .unwrap()
            };
            let both = (half("ocean", "air"), half("air", "ocean"));
            assert!(watch.line().contains("Z + air - ocean  coupling  "), "{url}");
            drop(both);
            let line = watch.line();
            assert!(line.contains("Z - air - ocean  coupling  left  "), "{url}, {incarnation}: {line}");
        }
    });
}

/// Whose holder is killed has died; it has not left.
#[test]
fn deaths_are_told() {
    let (_server, tcp) = serve(&["--lease", "1"]);
    let dir = env::temp_dir().join(format!("died-{:016x}", u64::from_le_bytes(base::ident::random())));
    for url in [tcp, format!("file:{}", dir.display())] {
        let watch = Running::start(&["names", "--naming", &url, "--watch", "--json"]);
        let mut holder = Command::new(env::current_exe().unwrap());
        holder.args(["--exact", "a_holder"]).env(HOLD, &url).stdin(Stdio::piped()).stdout(Stdio::null());
        let mut holder = holder.spawn().unwrap();
        let event = || serde_json::from_str::<Value>(&watch.line()).unwrap()["event"].clone();
        let first = event();
        assert!(first == "joined" || first == "there", "{url}: {first}");
        holder.kill().unwrap();
        holder.wait().unwrap();
        assert_eq!(event(), "died", "{url}");
    }
    let _ = std::fs::remove_dir_all(dir);
}

/// A server that is away for a while is no reason to end, nor are its names gone.
#[test]
fn watching_outlasts_the_server() {
    let (mut server, url) = serve(&[]);
    let address = url.strip_prefix("tcp://").unwrap();
    let held = claim(&url, &record("ocean", &[]));
    let watch = Running::start(&["names", "--naming", &url, "--watch"]);
    assert!(watch.line().starts_with("NAME ") && watch.line().starts_with("ocean"));
    server.end("-KILL");
    let again = Running::start(&["serve", "--listen", address]);
    again.line();
    let air = claim(&url, &record("air", &[]));
    // It may have looked before the name was renewed: then that went and came.
    let line = loop {
        let line = watch.line();
        if !line.contains("ocean") {
            break line;
        }
    };
    assert!(line.contains("Z + air  job  "), "{line}");
    drop((held, air));
}

#[test]
fn doctor_understands_servers() {
    let (mut server, url) = serve(&[]);
    let doctor = |url: &str| {
        let mut c = command(&["doctor", "-v"]);
        // Stands in for the library.
        c.env("MPI_CONNECT_LIB", "/nowhere.so").env("MPI_CONNECT_NAMING", url);
        let said = ended(c).1;
        (said.contains(" ! naming: "), said)
    };
    let (broken, said) = doctor(&url);
    assert!(!broken && said.contains(&url) && said.contains("names can be claimed\n"), "{said}");
    assert!(said.contains("0 live names"), "{said}");
    let (broken, said) = doctor(&format!("tcp://127.0.0.1:1,{}", url.strip_prefix("tcp://").unwrap()));
    assert!(!broken && said.contains(" ? naming: the naming server 127.0.0.1:1 is of no use: "), "{said}");
    server.end("-TERM");
    let (broken, said) = doctor(&url);
    assert!(broken && said.contains("to mend it: start 'mpi-connect serve' there"), "{said}");
}

#[test]
fn run_hands_on_the_url() {
    let mut c = command(&["run", "--print", "--naming", "tcp://node1,[::1]:9", "--", "sh"]);
    c.env("MPI_CONNECT_LIB", PROGRAM);
    let (_, said) = ended(c);
    assert!(said.contains("MPI_CONNECT_NAMING=tcp://node1:7431,[::1]:9"), "{said}");
}

/// A server that was killed has its names back, whoever asks; a second one is told of the first; without it there is no file.
#[test]
fn names_outlive_the_server() {
    let dir = env::temp_dir().join(format!("serve-{:016x}", u64::from_le_bytes(base::ident::random())));
    std::fs::create_dir(&dir).unwrap();
    let file = dir.join("names").display().to_string();
    let (mut server, url) = serve(&["--store", &file, "--quiet"]);
    let held = claim(&url, &record("ocean", &[("grid", "t63")]));
    let address = url.strip_prefix("tcp://").unwrap();
    let (code, said) = ended(command(&["serve", "--listen", "127.0.0.1:0", "--store", &file]));
    assert_eq!((code, said.contains(&format!("another server has {file} open; 'fuser -v"))), (1, true), "{said}");
    server.end("-KILL");
    let server = Running::start(&["serve", "--listen", address, "--store", &file]);
    server.line();
    assert!(good(&["names", "--naming", &url]).contains("grid=t63"), "before its holder has renewed it");
    drop(held);
    assert!(!good(&["names", "--naming", &url]).contains("ocean"));
    drop(server);
    let (_server, url) = serve(&[]);
    drop(claim(&url, &record("ocean", &[])));
    assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 1);
    std::fs::write(&file, "notes").unwrap();
    let (code, said) = ended(command(&["serve", "--store", &file]));
    assert_eq!((code, said.contains("is no store of names")), (1, true), "{said}");
    std::fs::remove_dir_all(&dir).unwrap();
}

/// A key, a folder of its own, and a server with that key whose log is read.
struct Keyed {
    dir: std::path::PathBuf,
    server: Running,
    url: String,
    log: Receiver<String>,
    manager: std::os::unix::net::UnixDatagram,
}

impl Keyed {
    fn start() -> Keyed {
        let dir = env::temp_dir().join(format!("keyed-{:016x}", u64::from_le_bytes(base::ident::random())));
        std::fs::create_dir(&dir).unwrap();
        let manager = std::os::unix::net::UnixDatagram::bind(dir.join("manager")).unwrap();
        manager.set_read_timeout(Some(LIMIT)).unwrap();
        let mut serve = command(&["serve", "--listen", "127.0.0.1:0", "--key", &setting(&dir, "key")]);
        serve.env("NOTIFY_SOCKET", dir.join("manager"));
        serve.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = serve.spawn().unwrap();
        let (out, err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let [lines, log] = [Box::new(out) as Box<dyn std::io::Read + Send>, Box::new(err)].map(|from| {
            let (give, lines) = channel();
            spawn(move || BufReader::new(from).lines().map_while(Result::ok).try_for_each(|line| give.send(line)));
            lines
        });
        let server = Running { child, lines };
        let url = server.line().strip_prefix("MPI_CONNECT_NAMING=").unwrap().to_owned();
        let keyed = Keyed { dir, server, url, log, manager };
        assert_eq!(keyed.notified(), "READY=1");
        keyed
    }

    fn notified(&self) -> String {
        let mut room = [0; 100];
        let n = self.manager.recv(&mut room).unwrap();
        String::from_utf8(room[..n].to_vec()).unwrap()
    }

    fn reload(&self) {
        let id = self.server.child.id().to_string();
        assert!(Command::new("kill").args(["-HUP", &id]).status().unwrap().success());
        let said = self.notified();
        assert!(said.starts_with("RELOADING=1\nMONOTONIC_USEC="), "{said}");
        assert_eq!(self.notified(), "READY=1");
    }

    /// Waits until it has told this.
    fn tells(&self, part: &str) -> String {
        loop {
            let line = self.log.recv_timeout(LIMIT).expect(part);
            if line.contains(part) {
                return line;
            }
        }
    }

    fn key(&self, args: &[&str]) -> String {
        good(&[&["key"], args, &["--key", &setting(&self.dir, "key")]].concat())
    }

    /// The names that are shown to who has this key, or what is said instead.
    fn names(&self, key: &str) -> (i32, String) {
        ended(command(&["names", "--naming", &self.url, "--key", &setting(&self.dir, key)]))
    }
}

impl Drop for Keyed {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

fn setting(dir: &std::path::Path, key: &str) -> String {
    format!("file:{}", dir.join(key).display())
}

/// The identifier of the own key, as it is shown.
fn identifier(shown: &str) -> String {
    shown.lines().find_map(|line| line.strip_prefix("key: ")).expect("a key").to_owned()
}

/// A server has the new key after SIGHUP, the one before too, and none that was replaced.
#[test]
fn keys_are_exchanged_while_it_serves() {
    let keyed = Keyed::start();
    let first = identifier(&keyed.key(&["show"]));
    assert!(keyed.tells("serves who has the key").contains(&first));
    std::fs::copy(keyed.dir.join("key"), keyed.dir.join("old")).unwrap();
    assert_eq!(keyed.names("old").0, 0);
    // Another one, which nobody has made yet.
    let (code, said) = keyed.names("other");
    assert!(code == 1 && said.contains("other: No such file") && !keyed.dir.join("other").exists(), "{code} {said}");
    let other = identifier(&good(&["key", "new", "--key", &setting(&keyed.dir, "other")]));
    let (code, said) = keyed.names("other");
    assert!(code == 1 && said.contains(&first) && said.contains(&other), "{code} {said}");
    let told = keyed.tells("is refused");
    assert!(told.contains(&first) && told.contains(&other), "{told}");
    let second = keyed.key(&["new"]);
    assert!(second.contains(&format!("accepted too: {first}")), "{second}");
    keyed.reload();
    let told = keyed.tells("were read again");
    assert!(told.contains(&identifier(&second)) && told.contains(&first), "{told}");
    assert_eq!((keyed.names("old").0, keyed.names("key").0), (0, 0));
    let third = keyed.key(&["new", "--replace"]);
    assert!(!third.contains("accepted too"), "{third}");
    keyed.reload();
    assert!(!keyed.tells("were read again").contains(&identifier(&second)));
    let (code, said) = keyed.names("old");
    assert!(code == 1 && said.contains(&identifier(&third)) && said.contains(&first), "{said}");
    assert_eq!(keyed.names("key").0, 0);
    // What cannot be used leaves everything as it was.
    let mode =
        |mode| std::fs::set_permissions(keyed.dir.join("key"), std::os::unix::fs::PermissionsExt::from_mode(mode));
    mode(0o644).unwrap();
    keyed.reload();
    assert!(keyed.tells("the keys stay as they are").contains("chmod 600"));
    mode(0o600).unwrap();
    assert_eq!(keyed.names("key").0, 0);
}

/// What is read at this address.
fn http(at: &str, request: &str) -> String {
    let mut stream = std::net::TcpStream::connect(at).unwrap();
    // It may be refused before all is there.
    let _ = std::io::Write::write_all(&mut stream, format!("{request}\r\nHost: {at}\r\n\r\n").as_bytes());
    std::io::read_to_string(stream).unwrap_or_default()
}

/// A service: its manager is told when clients can connect, and what it counts can be read.
#[test]
fn it_is_a_service() {
    let dir = env::temp_dir().join(format!("serve-{:016x}", u64::from_le_bytes(base::ident::random())));
    std::fs::create_dir(&dir).unwrap();
    let manager = std::os::unix::net::UnixDatagram::bind(dir.join("manager")).unwrap();
    manager.set_read_timeout(Some(LIMIT)).unwrap();
    let said = || {
        let mut room = [0; 100];
        let n = manager.recv(&mut room).unwrap();
        String::from_utf8(room[..n].to_vec()).unwrap()
    };
    let file = dir.join("names").display().to_string();
    let mut server =
        command(&["serve", "--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0", "--store", &file, "--lease", "1"]);
    server.env("NOTIFY_SOCKET", dir.join("manager"));
    server.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut server = Running { child: server.spawn().unwrap(), lines: channel().1 };
    let (mut line, mut output) = (String::new(), BufReader::new(server.child.stdout.take().unwrap()));
    let mut log = BufReader::new(server.child.stderr.take().unwrap()).lines().map_while(Result::ok);
    assert_eq!(said(), "READY=1");
    output.read_line(&mut line).unwrap();
    let url = line.trim().strip_prefix("MPI_CONNECT_NAMING=").unwrap();
    let at = log.find_map(|line| line.split_once("metrics are at http://").map(|(_, at)| at.to_owned())).unwrap();
    let at = at.strip_suffix("/metrics").unwrap();
    let held = [claim(url, &record("air", &[])), claim(url, &port("door")), claim(url, &record("ocean", &[]))];
    assert!(open(url, "").claim(&record("air", &[])).is_err());
    let [_, _, ocean] = held;
    drop(ocean);
    let begun = Instant::now();
    loop {
        let read = http(at, "GET /metrics HTTP/1.1");
        let (head, body) = read.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.contains("text/plain; version=0.0.4"), "{head}");
        let number = |name: &str| {
            let line = body.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            line.unwrap_or_else(|| panic!("{name}: {body}")).parse::<f64>().unwrap()
        };
        let counts =
            ["claims_total", "releases_total", "refusals_total", "names{kind=\"job\"}", "names{kind=\"port\"}"];
        let is_all = counts.map(|name| number(&format!("mpi_connect_{name}"))) == [3.0, 1.0, 1.0, 1.0, 1.0];
        let others = ["renewals_total", "connections", "commit_seconds_sum", "commit_seconds_count"];
        if is_all && others.iter().all(|name| number(&format!("mpi_connect_{name}")) > 0.0) {
            break;
        }
        assert!(begun.elapsed() < LIMIT, "{body}");
        sleep(Duration::from_millis(20));
    }
    assert!(http(at, "GET / HTTP/1.1").starts_with("HTTP/1.1 404 "));
    assert!(http(at, "POST /metrics HTTP/1.1").starts_with("HTTP/1.1 405 "));
    assert_eq!(http(at, &"x".repeat(10_000)), "", "too much");
    let (code, told) = ended(command(&["serve", "--listen", "127.0.0.1:0", "--metrics", at]));
    assert!(code == 1 && told.contains("readers of metrics"), "{told}");
    assert!(server.end("-TERM").success());
    assert_eq!(said(), "STOPPING=1");
    std::fs::remove_dir_all(&dir).unwrap();
}
