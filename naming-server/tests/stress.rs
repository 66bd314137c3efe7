//! Many processes claim one name, and holders are killed at random times.
//!
//! The test program starts itself as processes that claim and look up (`ROLE`). They write their results with times of the
//! monotonic clock, and the parent checks them: no two holders at a time, no record of a process that was dead before the
//! look-up began, and the name is free at the end.

use naming::{ClaimError, FileStore, Kind, Naming, Record};
use nix::sys::signal::{Signal, kill};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::{ForkResult, Pid, close, fork};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

const ROLE: &str = "NAMING_TEST_ROLE";
const DIR: &str = "NAMING_TEST_DIR";
const NAME: &str = "the one";

fn now() -> u128 {
    Duration::from(clock_gettime(ClockId::CLOCK_MONOTONIC).unwrap()).as_nanos()
}

fn record() -> Record {
    Record {
        incarnation: u64::from_le_bytes(base::ident::random()),
        cookie: base::ident::random(),
        leader: vec![5; 1000],
        mpi: "none".into(),
        ..Record::new(NAME)
    }
}

fn random_below(n: u64) -> Duration {
    Duration::from_micros(u64::from_le_bytes(base::ident::random()) % n)
}

fn start(role: &str, dir: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture", "--test-threads=1"])
        .env(ROLE, role)
        .env(DIR, dir)
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// A child process; without `ROLE`, this test does nothing.
#[test]
fn child() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let dir = PathBuf::from(std::env::var(DIR).unwrap());
    let store = FileStore::new(dir.join("names"));
    let mut log = File::create(dir.join(format!("{role}.{}", std::process::id()))).unwrap();
    match role.as_str() {
        "claimer" => claimer(&store, &mut log),
        "looker" => looker(&store, &mut log),
        "forks" | "forks-and-closes" => forks(&store, &mut log, role == "forks-and-closes"),
        _ => panic!("{role}"),
    }
}

fn claimer(store: &FileStore, log: &mut File) {
    loop {
        match store.claim(&record()) {
            Ok(claim) => {
                writeln!(log, "from {}", now()).unwrap();
                sleep(random_below(3000));
                writeln!(log, "to {}", now()).unwrap();
                drop(claim);
            }
            Err(ClaimError::Held { .. }) => sleep(random_below(500)),
            // This is allowed if it is rare: the other processes were always faster.
            Err(e) if e.to_string().contains("stayed busy") => {}
            Err(e) => writeln!(log, "error {e}").unwrap(),
        }
    }
}

fn looker(store: &FileStore, log: &mut File) {
    loop {
        let before = now();
        match store.lookup(Kind::Job, NAME) {
            Ok(Some(rec)) => writeln!(log, "saw {} {before}", rec.pid).unwrap(),
            Ok(None) => {}
            Err(e) => writeln!(log, "error {e}").unwrap(),
        }
        sleep(random_below(300));
    }
}

/// Claims, forks, and sleeps until it is killed, as its child does. The child says when it has dropped its copy of the claim.
fn forks(store: &FileStore, log: &mut File, closes: bool) {
    let claim = store.claim(&record()).unwrap();
    // SAFETY: the child calls only what needs no lock that another thread may have held: close, write, sleep, exit.
    if let ForkResult::Child = unsafe { fork() }.unwrap() {
        if closes {
            close(claim.fd().unwrap()).unwrap();
        }
        drop(claim);
        writeln!(log, "{}", std::process::id()).unwrap();
        sleep(Duration::from_secs(60));
        std::process::exit(0);
    }
    loop {
        sleep(Duration::from_secs(60));
    }
}

struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        let dir = std::env::temp_dir().join(format!("naming-{:016x}", u64::from_le_bytes(base::ident::random())));
        fs::create_dir(&dir).unwrap();
        Folder(dir)
    }
    /// The lines that the children of this role wrote.
    fn lines(&self, role: &str) -> Vec<(u32, String)> {
        let mut out = Vec::new();
        for file in fs::read_dir(&self.0).unwrap().flatten() {
            let name = file.file_name().into_string().unwrap();
            if let Some(pid) = name.strip_prefix(&format!("{role}.")) {
                let pid = pid.parse().unwrap();
                // The last line may have been cut off by the kill.
                let text = fs::read_to_string(file.path()).unwrap();
                let whole = text.rfind('\n').map_or("", |i| &text[..i]);
                out.extend(whole.lines().map(|l| (pid, l.to_string())));
            }
        }
        out
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Kills and reaps a child. Returns a time when it was still alive, and one when it was dead.
fn end(mut c: Child) -> (u128, u128) {
    let alive = now();
    c.kill().unwrap();
    c.wait().unwrap();
    (alive, now())
}

#[test]
fn one_holder_at_a_time_whoever_is_killed() {
    let dir = Folder::new();
    let mut claimers: Vec<Child> = (0..6).map(|_| start("claimer", &dir.0)).collect();
    let lookers: Vec<Child> = (0..2).map(|_| start("looker", &dir.0)).collect();
    let mut ends = BTreeMap::new();
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(8) {
        sleep(random_below(60_000));
        let victim = claimers.swap_remove(begun.elapsed().subsec_micros() as usize % claimers.len());
        ends.insert(victim.id(), end(victim));
        claimers.push(start("claimer", &dir.0));
    }
    for c in claimers {
        ends.insert(c.id(), end(c));
    }
    for l in lookers {
        end(l);
    }

    let mut held = Vec::new();
    for (pid, line) in dir.lines("claimer") {
        let (word, time) = line.split_once(' ').unwrap();
        match word {
            "from" => held.push((time.parse::<u128>().unwrap(), ends[&pid].0, pid)),
            "to" => held.last_mut().unwrap().1 = time.parse().unwrap(),
            _ => panic!("{pid}: {line}"),
        }
    }
    held.sort();
    for pair in held.windows(2) {
        assert!(pair[0].1 <= pair[1].0, "two holders: {pair:?}");
    }
    let holders: std::collections::BTreeSet<u32> = held.iter().map(|h| h.2).collect();
    let mut seen = 0;
    for (_, line) in dir.lines("looker") {
        let words: Vec<&str> = line.split(' ').collect();
        assert_eq!(words[0], "saw", "{line}");
        let (pid, before): (u32, u128) = (words[1].parse().unwrap(), words[2].parse().unwrap());
        assert!(before <= ends[&pid].1, "a dead job's record was handed out: {line}, dead at {}", ends[&pid].1);
        seen += 1;
    }
    println!("{} claims by {} processes, {} killed, {seen} sightings", held.len(), holders.len(), ends.len());
    assert!(held.len() > 50 && holders.len() > 5 && seen > 50, "the test has to test something");
    let store = FileStore::new(dir.0.join("names"));
    drop(store.claim(&record()).unwrap());
    assert!(store.list().unwrap().is_empty());
}

#[test]
fn a_killed_holder_is_followed_at_once() {
    let dir = Folder::new();
    let store = FileStore::new(dir.0.join("names"));
    for _ in 0..20 {
        let holder = start("forks-and-closes", &dir.0);
        let rec = wait_for(|| store.lookup(Kind::Job, NAME).unwrap());
        assert_eq!(rec.pid, holder.id());
        assert!(store.is_alive(&rec).unwrap());
        let child = forked_child(&dir, holder.id());
        end(holder);
        assert_eq!(store.lookup(Kind::Job, NAME).unwrap(), None);
        assert!(!store.is_alive(&rec).unwrap());
        drop(store.claim(&record()).unwrap());
        kill(child, Signal::SIGKILL).unwrap();
    }
}

#[test]
fn a_forked_child_that_does_not_close_keeps_the_name() {
    let dir = Folder::new();
    let store = FileStore::new(dir.0.join("names"));
    let holder = start("forks", &dir.0);
    wait_for(|| store.lookup(Kind::Job, NAME).unwrap());
    let child = forked_child(&dir, holder.id());
    end(holder);
    assert!(matches!(store.claim(&record()), Err(ClaimError::Held { .. })), "dropping its copy released nothing");
    kill(child, Signal::SIGKILL).unwrap();
    wait_for(|| store.claim(&record()).ok());
}

fn forked_child(dir: &Folder, parent: u32) -> Pid {
    let role = |r| dir.lines(r).into_iter().find(|(pid, _)| *pid == parent);
    let (_, line) = wait_for(|| role("forks").or_else(|| role("forks-and-closes")));
    Pid::from_raw(line.parse().unwrap())
}

fn wait_for<T>(mut f: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(t) = f() {
            return t;
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "waited for too long");
        sleep(Duration::from_millis(1));
    }
}
