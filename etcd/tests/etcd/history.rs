//! Three servers before three nodes, each in a network of its own, while they are killed, stopped, cut off, and their clocks set: many
//! clients claim, renew, release and look names up, and a checker judges what they were told.
//!
//! The run is a process of its own, which has the networks: see `run`. `MPI_CONNECT_TEST_SEED` repeats it as far as faults and clients
//! are chosen; `MPI_CONNECT_TEST_SECONDS` is how long faults are made.

use crate::checker::{Op, What, double_holders, is_linearizable};
use crate::kit::{Cluster, Folder, Process, Site, record, say, trust, wait_until};
use crate::nets::{Nets, hub};
use etcd::Etcd;
use naming::server::{Cell, Compare, Op as Step, Outcome, SharedError, SharedStore, SharedWatch, Txn};
use naming::{Probe, Said};
use nix::sys::signal::Signal;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

const LEASE: Duration = Duration::from_millis(1500);
const PATIENCE: Duration = Duration::from_millis(1400);
const CLIENTS: u64 = 8;
/// The names that clients use at a time, and after how many operations others take their place.
const NAMES: u64 = 4;
const GENERATION: u64 = 240;

/// Random numbers from a seed: xorshift.
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n
    }
}

/// An etcd with an error, which the checker has to find.
struct Wrong {
    etcd: Etcd,
    kind: String,
    seen: HashMap<Vec<u8>, (Instant, Outcome)>,
}

pub fn wrong(etcd: Etcd, kind: &str) -> impl SharedStore + 'static {
    Wrong { etcd, kind: kind.into(), seen: HashMap::new() }
}

impl SharedStore for Wrong {
    fn transact(&mut self, txns: &[Txn], patience: Duration) -> Result<(u64, Vec<Outcome>), SharedError> {
        let mut txns = txns.to_vec();
        if self.kind == "blind" {
            // A claim that does not compare the revision of what it replaces.
            txns.iter_mut().for_each(|txn| {
                txn.when.retain(|when| !matches!(when, Compare::Modified(key, _) if key.starts_with(b"n/")))
            });
        }
        let (revision, mut outcomes) = self.etcd.transact(&txns, patience)?;
        if self.kind == "stale" {
            // A look-up that is answered from what was read a moment ago.
            for (txn, outcome) in txns.iter().zip(&mut outcomes) {
                let [Step::Get(key)] = &txn.then[..] else { continue };
                if !txn.when.is_empty() {
                    continue;
                }
                match self.seen.get(key) {
                    Some((at, old)) if at.elapsed() < Duration::from_millis(100) => outcome.clone_from(old),
                    _ => drop(self.seen.insert(key.clone(), (Instant::now(), outcome.clone()))),
                }
            }
        }
        Ok((revision, outcomes))
    }

    fn snapshot(&mut self) -> Result<(u64, Vec<Cell>), SharedError> {
        self.etcd.snapshot()
    }

    fn watcher(&self) -> Box<dyn SharedWatch> {
        self.etcd.watcher()
    }
}

/// A server in its network.
struct Server {
    process: Process,
    site: Site,
    clock: PathBuf,
    etcd: String,
    wrong: String,
}

impl Server {
    fn start(site: Site, etcd: &str, wrong: &str, clock: PathBuf) -> Server {
        let process = Server::process(&site, etcd, wrong, &clock);
        Server { process, site, clock, etcd: etcd.into(), wrong: wrong.into() }
    }

    fn process(site: &Site, etcd: &str, wrong: &str, clock: &Path) -> Process {
        let mut command = Command::new(&site.before[0]);
        command.args(&site.before[1..]).arg(std::env::current_exe().unwrap()).env(CLOCK, clock);
        let (address, lease) = (format!("{}:7431", site.host), LEASE.as_millis().to_string());
        Process::by(command, "wrong", &[&address, &lease, etcd, wrong])
    }

    /// Whether it listens now.
    fn is_up(&self) -> bool {
        self.process.hear().starts_with("tcp://")
    }

    /// Starts it again, until it reaches the store.
    fn restart(&mut self) {
        self.process.kill();
        let begun = Instant::now();
        loop {
            self.process = Server::process(&self.site, &self.etcd, &self.wrong, &self.clock);
            if self.is_up() {
                return;
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "a server does not start");
            sleep(Duration::from_millis(200));
        }
    }

    fn set_clock(&self, seconds: i64) {
        std::fs::write(&self.clock, seconds.to_string()).unwrap();
    }
}

/// The file with how much a clock is off.
const CLOCK: &str = "ETCD_TEST_CLOCK";

/// A library that sets the clock of the programs that it is loaded into; what measures how time passes is left alone.
fn clock_library(folder: &Path) -> PathBuf {
    let (source, library) = (folder.join("clock.c"), folder.join("clock.so"));
    let text = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t id, struct timespec *t) {
    static int (*next)(clockid_t, struct timespec *);
    if (!next) next = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int result = next(id, t);
    const char *file = getenv("ETCD_TEST_CLOCK");
    if (result == 0 && id == CLOCK_REALTIME && file) {
        char text[32] = {0};
        int fd = open(file, O_RDONLY | O_CLOEXEC);
        if (fd >= 0) {
            if (read(fd, text, 31) > 0) t->tv_sec += atol(text);
            close(fd);
        }
    }
    return result;
}
"#;
    std::fs::write(&source, text).unwrap();
    let built =
        Command::new("cc").args(["-shared", "-fPIC", "-o"]).args([&library, &source]).arg("-ldl").status().unwrap();
    assert!(built.success());
    library
}

/// A claim that a client has, or may have.
struct Mine {
    record: naming::Record,
    token: [u8; 16],
    number: u64,
}

/// What the clients share.
struct Run {
    probes: Vec<Probe>,
    over: AtomicBool,
    operations: AtomicU64,
}

type History = Vec<(String, Op)>;

impl Run {
    /// Asks one server, and notes what was said. `None` if it was not asked.
    fn ask(
        &self,
        random: &mut Random,
        all: &mut History,
        name: &str,
        what: What,
        f: impl Fn(&Probe) -> Said,
    ) -> Option<Said> {
        let probe = &self.probes[random.below(self.probes.len() as u64) as usize];
        let asked = Instant::now();
        let said = f(probe);
        let answered = Instant::now();
        self.operations.fetch_add(1, Ordering::Relaxed);
        let said = match said {
            Said::Refused(_) => {
                sleep(Duration::from_millis(20));
                return None;
            }
            Said::Unknown(_) => None,
            said => Some(said),
        };
        all.push((name.into(), Op { what, asked, said: said.clone().map(|said| (answered, said)) }));
        said
    }

    fn name(&self, random: &mut Random) -> String {
        let generation = self.operations.load(Ordering::Relaxed) / GENERATION;
        format!("g{generation}-{}", random.below(NAMES))
    }

    fn client(&self, mut random: Random) -> History {
        let (mut all, mut mine) = (History::new(), None);
        while !self.over.load(Ordering::Relaxed) {
            sleep(Duration::from_millis(random.below(16)));
            let Some(held) = &mut mine else {
                let name = self.name(&mut random);
                if random.below(2) == 0 {
                    self.ask(&mut random, &mut all, &name, What::Lookup, |probe| probe.lookup(&name, PATIENCE));
                } else {
                    let record = record(&name);
                    let mut token = [0; 16];
                    token[..8].copy_from_slice(&record.incarnation.to_le_bytes());
                    mine = self.claim(&mut random, &mut all, Mine { record, token, number: 0 });
                }
                continue;
            };
            let (record, token, number) = (held.record.clone(), held.token, held.number);
            let (name, claim) = (record.name.clone(), record.incarnation);
            let what = random.below(100);
            match what {
                _ if number == 0 => mine = self.claim(&mut random, &mut all, Mine { record, token, number }),
                0..65 => {
                    // Sometimes it comes too late.
                    if what < 3 {
                        sleep(LEASE.mul_f32(1.3));
                    }
                    let renew = |probe: &Probe| probe.renew(token, number, &record, PATIENCE);
                    match self.ask(&mut random, &mut all, &name, What::Renew(claim, number), renew) {
                        Some(Said::Granted(_, number)) => held.number = number,
                        Some(_) => mine = None,
                        None => {}
                    }
                }
                65..82 => {
                    drop(self.ask(&mut random, &mut all, &name, What::Lookup, |probe| probe.lookup(&name, PATIENCE)))
                }
                82..95 => {
                    let release = |probe: &Probe| probe.release(token, &record, PATIENCE);
                    if self.ask(&mut random, &mut all, &name, What::Release(claim), release).is_some() {
                        mine = None;
                    }
                }
                // It dies.
                _ => mine = None,
            }
        }
        all
    }

    /// Claims once. Of a claim whose outcome is not known, the client mostly asks again.
    fn claim(&self, random: &mut Random, all: &mut History, mut mine: Mine) -> Option<Mine> {
        let (name, claim) = (mine.record.name.clone(), mine.record.incarnation);
        let (token, record) = (mine.token, mine.record.clone());
        match self.ask(random, all, &name, What::Claim(claim), |probe| probe.claim(token, &record, PATIENCE)) {
            Some(Said::Granted(_, number)) => mine.number = number,
            Some(_) => return None,
            None if random.below(4) == 0 => return None,
            None => {}
        }
        Some(mine)
    }
}

/// What is done to servers and nodes.
const FAULTS: [&str; 9] = [
    "a server killed",
    "a server stopped",
    "a server cut off",
    "a server that hears no node",
    "a node killed",
    "a node stopped",
    "a node cut off",
    "a node that hears one other only",
    "a server's clock set",
];

/// What is there to be hurt: servers at the first sites, nodes at the others.
struct All {
    servers: Vec<Server>,
    cluster: Cluster,
    nets: Nets,
}

impl All {
    /// Does it, for this time, and ends it.
    fn hurt(&mut self, fault: usize, random: &mut Random, time: Duration) {
        let (i, count) = (random.below(self.servers.len() as u64) as usize, self.servers.len());
        let site_of_node = count + i;
        match fault {
            0 => self.servers[i].process.kill(),
            1 => self.servers[i].process.signal(Signal::SIGSTOP),
            2 => self.nets.isolate(i),
            3 => self.nets.deafen(i, &(count..2 * count).collect::<Vec<_>>()),
            4 => self.cluster.nodes[i].kill(),
            5 => self.cluster.nodes[i].signal(Signal::SIGSTOP),
            6 => self.nets.isolate(site_of_node),
            7 => self.nets.deafen(site_of_node, &[count + (i + 1) % count]),
            _ => self.servers[i].set_clock([-86_400, -3600, 3600, 86_400][random.below(4) as usize]),
        }
        sleep(time);
        match fault {
            0 => self.servers[i].restart(),
            1 => self.servers[i].process.signal(Signal::SIGCONT),
            2 | 3 => self.nets.heal(i),
            4 => self.cluster.nodes[i].start(),
            5 => self.cluster.nodes[i].signal(Signal::SIGCONT),
            6 | 7 => self.nets.heal(site_of_node),
            _ => self.servers[i].set_clock(0),
        }
    }
}

/// The run: in a hub of its own. Says the figures, and `good` or what is wrong.
pub fn run(seconds: u64, seed: u64, longest: u64, wrong: &str) {
    let nets = Nets::make(6);
    let folder = Folder::new();
    let cluster = Cluster::at((3..6).map(|site| nets.site(site)).collect()).unwrap().run();
    let clock = |i: usize| folder.0.join(format!("clock{i}"));
    let servers: Vec<Server> = (0..3).map(|i| Server::start(nets.site(i), &cluster.url(), wrong, clock(i))).collect();
    assert!(servers.iter().all(Server::is_up), "all servers start");
    let probes: Vec<Probe> =
        (0..3).map(|i| Probe::at(&format!("{}:7431", nets.site(i).host), &trust()).unwrap()).collect();
    let run = Run { probes, over: AtomicBool::new(false), operations: AtomicU64::new(0) };
    let mut all = All { servers, cluster, nets };
    let mut counts = [0; FAULTS.len()];
    let begun = Instant::now();
    let history = scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|i| {
                let run = &run;
                scope.spawn(move || run.client(Random::new(seed * 100 + i + 1)))
            })
            .collect();
        let mut random = Random::new(seed);
        // Each kind once, in some order, before one comes again.
        let mut left: Vec<usize> = Vec::new();
        while begun.elapsed() < Duration::from_secs(seconds) {
            if wrong != "right" {
                sleep(Duration::from_millis(100));
                continue;
            }
            if left.is_empty() {
                left.extend(0..FAULTS.len());
            }
            let fault = left.swap_remove(random.below(left.len() as u64) as usize);
            let time = Duration::from_millis(longest / 4 + random.below(3 * longest / 4));
            all.hurt(fault, &mut random, time);
            counts[fault] += 1;
            sleep(Duration::from_millis(300 + random.below(700)));
        }
        // What comes after the last fault shows that all are well again.
        sleep(Duration::from_secs(1));
        run.over.store(true, Ordering::Relaxed);
        clients.into_iter().flat_map(|client| client.join().unwrap()).collect::<History>()
    });
    let mut by_name: BTreeMap<String, Vec<Op>> = BTreeMap::new();
    history.iter().for_each(|(name, op)| by_name.entry(name.clone()).or_default().push(op.clone()));
    wait_until("the end of all leases", || {
        let left: Vec<_> =
            by_name.keys().filter(|name| run.probes[0].lookup(name, PATIENCE) != Said::Found(None)).collect();
        left.is_empty()
    });
    let granted = |what: fn(&What) -> bool| {
        history
            .iter()
            .filter(|(_, op)| what(&op.what) && matches!(&op.said, Some((_, Said::Granted(..) | Said::Released))))
            .count()
    };
    say(&format!(
        "{} operations on {} names in {} s by {CLIENTS} clients: {} claims, {} of them granted; {} renewals, {} releases, {} \
         look-ups; {} of unknown outcome; at most {} on one name",
        history.len(),
        by_name.len(),
        begun.elapsed().as_secs(),
        history.iter().filter(|(_, op)| matches!(op.what, What::Claim(_))).count(),
        granted(|what| matches!(what, What::Claim(_))),
        granted(|what| matches!(what, What::Renew(..))),
        granted(|what| matches!(what, What::Release(_))),
        history.iter().filter(|(_, op)| op.what == What::Lookup && op.said.is_some()).count(),
        history.iter().filter(|(_, op)| op.said.is_none()).count(),
        by_name.values().map(Vec::len).max().unwrap_or(0),
    ));
    let faults: Vec<String> = FAULTS.iter().zip(counts).map(|(what, count)| format!("{what}: {count}")).collect();
    say(&format!("faults of up to {} s: {}", longest as f32 / 1000.0, faults.join(", ")));
    let doubles: usize = by_name.values().map(|ops| double_holders(ops, LEASE)).sum();
    let checking = Instant::now();
    let bad: Vec<&String> =
        by_name.iter().filter(|(_, ops)| !is_linearizable(ops, LEASE)).map(|(name, _)| name).collect();
    say(&format!(
        "two holders: {doubles}; names whose history is not linearizable: {} (checked in {} ms)",
        bad.len(),
        checking.elapsed().as_millis()
    ));
    if let Some(name) = bad.first() {
        let mut ops = by_name[*name].clone();
        ops.sort_by_key(|op| op.asked);
        for op in ops {
            let since = |at: Instant| at.saturating_duration_since(begun).as_millis();
            say(&format!(
                "{name}: {} {:?} -> {:?}",
                since(op.asked),
                op.what,
                op.said.map(|(at, said)| (since(at), said))
            ));
        }
    }
    say(if doubles == 0 && bad.is_empty() { "good" } else { "bad" });
}

/// Starts a run, and shows its figures. `None` where there is nothing to run it with.
fn result(seconds: u64, seed: u64, longest: u64, wrong: &str) -> Option<(Vec<String>, String)> {
    // Says so if there is no etcd.
    drop(Cluster::start(1)?);
    let Some(mut command) = hub() else {
        println!("NOT CHECKED, since this user may make no network namespaces here: servers and nodes with faults");
        return None;
    };
    let folder = Folder::new();
    std::fs::write(folder.0.join("clock"), "3600").unwrap();
    command.env("LD_PRELOAD", clock_library(&folder.0)).env(CLOCK, folder.0.join("clock"));
    let arguments = [seconds.to_string(), seed.to_string(), longest.to_string(), wrong.to_owned()];
    let mut process = Process::by(command, "history", &arguments.each_ref().map(String::as_str));
    let here: u64 = process.hear().parse().unwrap();
    assert!(here.abs_diff(naming::now() + 3600) < 60, "clocks can be set");
    let mut said = Vec::new();
    loop {
        let line = process.hear_within(Duration::from_secs(seconds + 120));
        if line == "good" || line == "bad" {
            process.end();
            return Some((said, line));
        }
        println!("{line}");
        said.push(line);
    }
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

#[test]
fn a_history_with_faults_is_linearizable() {
    let is_wide = std::env::var("MPI_CONNECT_TEST_WIDTH").is_ok_and(|width| width == "all");
    let (seconds, longest) = if is_wide { (240, 20_000) } else { (5, 1000) };
    let seed = number("MPI_CONNECT_TEST_SEED", naming::now());
    println!("MPI_CONNECT_TEST_SEED={seed}");
    let Some((said, end)) = result(number("MPI_CONNECT_TEST_SECONDS", seconds), seed, longest, "right") else { return };
    assert_eq!(end, "good", "{said:?}");
}

/// The checker can fail: it finds a claim that compares nothing, and a look-up that is answered from memory.
#[test]
fn planted_errors_are_found() {
    for wrong in ["blind", "stale"] {
        // On a busy machine a short run has few operations, and perhaps none that the error shows in.
        let is_found = |seconds| result(seconds, 7, 0, wrong).map(|(_, end)| end == "bad");
        let found = [2, 8, 30].into_iter().map(is_found).find(|found| *found != Some(false));
        assert_ne!(found, None, "{wrong}");
    }
}
