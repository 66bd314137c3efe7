//! One act: a pair of jobs under traffic, and one fault after the other. After each, the traffic of all ranks has to go on.

use super::kind::{Fault, Kind, Script, Service};
use super::random::Random;
use super::relay::{Blow, PORTS, Relay, rule};
use crate::net::TwoHosts;
use crate::{Job, Launch, Mpi, Scene, command, user, wait_until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Of each job.
const RANKS: usize = 2;
/// Traffic that does not go on by then never does. Joining alone may take `MPI_CONNECT_TIMEOUT`, here 30 s, once or twice.
pub const LIMIT: Duration = Duration::from_secs(120);
const JOINING: &str = "30";
/// How long a relay looks for a connection, or data, to be hit.
const AIM: Duration = Duration::from_secs(30);
/// The lease of a name at the server, in seconds.
const LEASE: &str = "3";

/// What one fault has brought.
#[derive(Debug, Clone)]
pub struct Outcome {
    pub kind: Kind,
    pub length: Duration,
    /// From the end of the fault until every rank had received all of a round that began after it; none if that never came.
    pub went_on: Option<Duration>,
    /// What the ranks have counted from the begin of the fault until then.
    pub counts: Counts,
}

/// Traffic that takes longer to go on is told while the run goes on.
const SLOW: Duration = Duration::from_secs(10);

/// What one act has brought, as far as it came.
#[derive(Debug, Default)]
pub struct Report {
    pub outcomes: Vec<Outcome>,
    pub counts: Counts,
    /// The errors that calls were told: call, kind and text, without numbers.
    pub told: BTreeMap<String, u64>,
}

/// What all ranks have counted: the words of `struct counts` in `c-tests/c/traffic.c`, but for the first.
#[derive(Debug, Default, Clone, Copy)]
pub struct Counts {
    pub rounds: u64,
    pub messages: u64,
    pub bytes: u64,
    pub joins: u64,
    pub told: u64,
    pub strange: u64,
    pub lost: u64,
    pub doubled: u64,
    pub disorder: u64,
    pub damaged: u64,
}

impl Report {
    /// Notes a fault that is over; `counts` are those of all since the begin.
    fn note(&mut self, fault: &Fault, went_on: Option<Duration>, counts: Counts) {
        let since = counts.without(&self.counts);
        self.counts = counts;
        self.outcomes.push(Outcome { kind: fault.kind, length: fault.length, went_on, counts: since });
    }
}

impl Counts {
    /// What a rank has written into this file so far, with its process; nothing before it has begun.
    pub fn read(path: &Path) -> Option<(i32, Counts)> {
        let bytes = std::fs::read(path).ok()?;
        let mut words = bytes.chunks_exact(8).map(|w| u64::from_ne_bytes(w.try_into().expect("eight bytes")));
        let pid = words.next().filter(|pid| *pid != 0)?;
        let mut word = || words.next();
        let counts = Counts {
            rounds: word()?,
            messages: word()?,
            bytes: word()?,
            joins: word()?,
            told: word()?,
            strange: word()?,
            lost: word()?,
            doubled: word()?,
            disorder: word()?,
            damaged: word()?,
        };
        Some((pid as i32, counts))
    }

    pub fn add(&mut self, other: &Counts) {
        self.rounds += other.rounds;
        self.messages += other.messages;
        self.bytes += other.bytes;
        self.joins += other.joins;
        self.told += other.told;
        self.strange += other.strange;
        self.lost += other.lost;
        self.doubled += other.doubled;
        self.disorder += other.disorder;
        self.damaged += other.damaged;
    }

    /// What came beyond those. What was lost may have come too late.
    fn without(&self, before: &Counts) -> Counts {
        Counts {
            rounds: self.rounds.saturating_sub(before.rounds),
            messages: self.messages.saturating_sub(before.messages),
            bytes: self.bytes.saturating_sub(before.bytes),
            joins: self.joins.saturating_sub(before.joins),
            told: self.told.saturating_sub(before.told),
            strange: self.strange.saturating_sub(before.strange),
            lost: self.lost.saturating_sub(before.lost),
            doubled: self.doubled.saturating_sub(before.doubled),
            disorder: self.disorder.saturating_sub(before.disorder),
            damaged: self.damaged.saturating_sub(before.damaged),
        }
    }

    fn is_bad(&self) -> bool {
        self.strange + self.lost + self.doubled + self.disorder + self.damaged > 0
    }
}

/// A file system of its own, which can be full.
struct Small(PathBuf);

impl Small {
    fn new(path: PathBuf) -> Small {
        std::fs::create_dir(&path).expect("a folder of the scene");
        let done = Command::new("mount").args(["-t", "tmpfs", "-o", "size=8m,mode=1777", "tmpfs"]).arg(&path).status();
        assert!(done.expect("mount").success(), "{} is not mounted", path.display());
        Small(path)
    }

    /// Fills it, and what is given back meanwhile too, for so long.
    fn fill(&self, length: Duration) {
        let ballast = self.0.join("ballast");
        let end = Instant::now() + length;
        let mut file = OpenOptions::new().create(true).append(true).open(&ballast).expect("a file of ours");
        let piece = vec![1; 64 << 10];
        while Instant::now() < end {
            // Down to the last byte.
            let mut size = piece.len();
            while size > 0 {
                match file.write(&piece[..size]) {
                    Ok(n) if n > 0 => {}
                    _ => size /= 2,
                }
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        std::fs::remove_file(&ballast).expect("a file of ours");
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        // What still has files open there ends with the scene.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

struct Act<'a> {
    scene: &'a Scene,
    hosts: TwoHosts,
    relay: Relay,
    small: Small,
    /// The server, and where it listens.
    server: Option<(Job, String)>,
    jobs: Vec<Job>,
}

/// Plays it; `Err` says why it failed, with as much of the report as there is.
pub fn play(scene: &Scene, script: &Script, pair: [&'static Mpi; 2]) -> (Report, Result<(), String>) {
    let mut report = Report::default();
    let mut act = match Act::begin(scene, script, pair) {
        Ok(act) => act,
        Err(why) => return (report, Err(why)),
    };
    let mut result = Ok(());
    for (n, fault) in script.faults.iter().enumerate() {
        std::thread::sleep(fault.after);
        match act.suffer(fault) {
            Ok(went_on) => {
                if went_on > SLOW {
                    println!("SLOW: act {}, fault {}, {fault:?}: {went_on:?}", script.number, n + 1);
                }
                report.note(fault, Some(went_on), act.sum());
            }
            Err(why) => {
                report.note(fault, None, act.sum());
                result = Err(format!("fault {} of {}, {fault:?}: {why}", n + 1, script.faults.len()));
                break;
            }
        }
    }
    for line in act.jobs.iter().flat_map(|job| job.printed().lines().map(str::to_owned).collect::<Vec<_>>()) {
        if let Some(told) = line.strip_prefix("TOLD ") {
            let told = told.replace(&*scene.folder.to_string_lossy(), "");
            *report.told.entry(without_numbers(&told)).or_default() += 1;
        }
    }
    if result.is_ok() && report.counts.is_bad() {
        result = Err(format!("{:?}", report.counts));
    }
    let result = result.and_then(|()| act.end());
    (report, result)
}

/// Numbers differ from run to run: equal errors look equal without them.
fn without_numbers(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        let c = if c.is_ascii_digit() { '#' } else { c };
        if c != '#' || !out.ends_with('#') {
            out.push(c);
        }
    }
    out
}

impl<'a> Act<'a> {
    fn begin(scene: &'a Scene, script: &Script, pair: [&'static Mpi; 2]) -> Result<Act<'a>, String> {
        let hosts = TwoHosts::apart()?;
        hosts.nft(0, &rule())?;
        let relay = Relay::new(&hosts.namespace(0));
        let small = Small::new(scene.path("small"));
        let server = (script.service == Service::Server).then(|| {
            let store = small.0.join("store").display().to_string();
            scene.serve(&["--listen", &Scene::lasting_address(), "--lease", LEASE, "--store", &store], &hosts.on(0))
        });
        let naming = match &server {
            Some((_, address)) => format!("tcp://{address}"),
            None => format!("file:{}", small.0.join("names").display()),
        };
        let mut act = Act { scene, hosts, relay, small, server, jobs: Vec::new() };
        for (side, mpi) in pair.into_iter().enumerate() {
            let names = ["air", "ocean"];
            let seed = script.seed.to_string();
            let arguments = [names[side], names[1 - side], ["0", "1"][side], &seed];
            let launch = Launch::new(mpi, RANKS, "traffic", &arguments)
                .env("MPI_CONNECT_NAMING", &naming)
                .env("MPI_CONNECT_LANES", "tcp")
                .env("MPI_CONNECT_IFACE", "127.0.0.1")
                .env("MPI_CONNECT_PORTRANGE", &format!("{}-{}", PORTS[0], PORTS[1]))
                .env("MPI_CONNECT_TIMEOUT", JOINING)
                .env("MPI_CONNECT_ENCRYPT", if script.encrypted { "always" } else { "network" });
            act.jobs.push(scene.start(launch.within(&act.hosts.on(0))));
        }
        act.moves_on(&[], LIMIT).map(|_| act)
    }

    /// What each rank has counted, with its process; nothing before all have begun.
    fn counts(&self) -> Option<Vec<(i32, Counts)>> {
        let all = (0..2).flat_map(|side| (0..RANKS).map(move |rank| format!("count-{side}-{rank}")));
        all.map(|name| Counts::read(&self.scene.path(&name))).collect()
    }

    /// Waits until every rank is two rounds further than it was, so that one of them began after that; how long it took.
    fn moves_on(&mut self, before: &[(i32, Counts)], limit: Duration) -> Result<Duration, String> {
        let since = Instant::now();
        let mut ended = None;
        let moved = wait_until(limit, || {
            ended = self.jobs.iter_mut().find_map(|job| {
                let status = job.poll()?;
                Some(format!("{} ended with {status}", job.title))
            });
            let counts = self.counts();
            let further = counts.iter().flatten().enumerate();
            let all = counts.is_some()
                && further.into_iter().all(|(i, (_, now))| now.rounds >= before.get(i).map_or(0, |b| b.1.rounds) + 2);
            all || ended.is_some()
        });
        match ended {
            Some(ended) => Err(ended),
            None if moved => Ok(since.elapsed()),
            None => {
                let (was, is) = (before.iter().map(|b| b.1), self.counts());
                Err(format!("no traffic for {limit:?}; rounds were {:?}, now {is:?}", was.collect::<Vec<_>>()))
            }
        }
    }

    /// All ranks together.
    fn sum(&self) -> Counts {
        self.counts().unwrap_or_default().iter().fold(Counts::default(), |mut sum, (_, counts)| {
            sum.add(counts);
            sum
        })
    }

    /// One fault; how long it took until traffic went on.
    fn suffer(&mut self, fault: &Fault) -> Result<Duration, String> {
        let ranks = self.counts().ok_or("nobody counts")?;
        self.strike(fault, &ranks.iter().map(|rank| rank.0).collect::<Vec<_>>())?;
        let at_end = self.counts().ok_or("nobody counts")?;
        self.moves_on(&at_end, LIMIT)
    }

    /// The fault itself, from begin to end.
    fn strike(&mut self, fault: &Fault, ranks: &[i32]) -> Result<(), String> {
        let mut random = Random::new(fault.seed);
        let mut hit = |act: &Act<'_>, blow| {
            // Between two inter-communicators there may be no connection.
            let found = wait_until(AIM, || act.relay.tell(blow, random.next(), AIM) > 0);
            found.then_some(()).ok_or(format!("{blow:?}: no connection was hit"))
        };
        match fault.kind {
            Kind::Cut => hit(self, Blow::Cut)?,
            Kind::Reset => hit(self, Blow::Reset)?,
            Kind::HalfClosed => hit(self, Blow::HalfClose)?,
            Kind::Reordered => hit(self, Blow::Disorder)?,
            Kind::Stalled => {
                hit(self, Blow::Stall)?;
                std::thread::sleep(fault.length);
                self.relay.tell(Blow::Go, 0, AIM);
            }
            Kind::Stopped => {
                let chosen = some(ranks, &mut random);
                let all = |signal| chosen.iter().for_each(|pid| signal_rank(*pid, signal));
                all(Signal::SIGSTOP);
                std::thread::sleep(fault.length);
                all(Signal::SIGCONT);
            }
            Kind::ServerKilled => self.kill_server(fault.length)?,
            Kind::FolderDeleted => {
                let names = self.small.0.join("names");
                // Deleted before, it is not there until somebody needs it.
                let gone = wait_until(LIMIT, || std::fs::remove_dir_all(&names).is_ok());
                gone.then_some(()).ok_or(format!("{} is not deleted", names.display()))?;
            }
            Kind::DiskFull => self.small.fill(fault.length),
            Kind::NoDescriptors => {
                let chosen = some(ranks, &mut random);
                let limits = chosen.iter().map(|pid| descriptors(*pid, "3")).collect::<Result<Vec<_>, _>>()?;
                // Then they need new ones.
                if random.below(2) == 0 {
                    self.relay.tell(Blow::Reset, random.next(), AIM);
                }
                std::thread::sleep(fault.length);
                for (pid, limit) in chosen.iter().zip(limits) {
                    descriptors(*pid, &limit)?;
                }
            }
        }
        Ok(())
    }

    fn kill_server(&mut self, length: Duration) -> Result<(), String> {
        let (server, address) = self.server.take().ok_or("there is no server")?;
        server.signal(Signal::SIGKILL);
        self.scene.try_wait([server], AIM)?;
        std::thread::sleep(length);
        let store = self.small.0.join("store").display().to_string();
        let arguments = ["serve", "--listen", &address, "--lease", LEASE, "--store", &store];
        let again = self.scene.start(Launch::alone(&command(), &arguments).within(&self.hosts.on(0)));
        self.server = Some((again, address));
        Ok(())
    }

    /// Told that it is enough, both jobs end well.
    fn end(mut self) -> Result<(), String> {
        std::fs::write(self.scene.path("enough"), "").map_err(|e| e.to_string())?;
        let ended = wait_until(LIMIT, || self.jobs.iter_mut().all(|job| job.poll().is_some()));
        if !ended {
            return Err("a job does not end".into());
        }
        for job in self.jobs.drain(..) {
            let done = job.done();
            let good = done.lines("DONE").any(|line| line.ends_with(" failures 0"));
            if !done.status.success() || !good {
                return Err(format!("{} ended with {}:\n{}", done.title, done.status, done.stdout));
            }
        }
        Ok(())
    }
}

/// One of the ranks, or all of one job.
fn some<'r>(ranks: &'r [i32], random: &mut Random) -> &'r [i32] {
    let one = random.below(ranks.len() as u64) as usize;
    if random.below(2) == 0 { &ranks[one..=one] } else { &ranks[one / RANKS * RANKS..][..RANKS] }
}

fn signal_rank(pid: i32, signal: Signal) {
    // One that has ended is noticed by whoever looks for its traffic.
    let _ = kill(Pid::from_raw(pid), signal);
}

/// Sets how many descriptors a process may have; how many it could have before.
fn descriptors(pid: i32, limit: &str) -> Result<String, String> {
    let run = |arguments: &[&str]| {
        // As the user of the jobs, who may do so even where root has lost that right.
        let words = [user::prefix(), ["prlimit", "--pid", &pid.to_string()].map(String::from).to_vec()].concat();
        let done = Command::new(&words[0]).args(&words[1..]).args(arguments).output();
        let done = done.map_err(|e| format!("prlimit: {e}"))?;
        if !done.status.success() {
            return Err(format!("prlimit: {}", String::from_utf8_lossy(&done.stderr).trim()));
        }
        Ok(String::from_utf8_lossy(&done.stdout).trim().to_owned())
    };
    let before = run(&["--nofile", "--noheadings", "--raw", "--output", "SOFT"])?;
    run(&[&format!("--nofile={limit}:")])?;
    Ok(before)
}

/// Whether this machine can do all of it: namespaces and file systems need rights.
pub fn possible() -> Result<(), String> {
    let hosts = TwoHosts::apart()?;
    hosts.nft(0, &rule())?;
    if !Path::new("/proc/self/ns/net").exists() || !nix::unistd::Uid::effective().is_root() {
        return Err("only root may mount: Operation not permitted".into());
    }
    Ok(())
}
