//! Jobs on hosts that cannot reach each other meet through a relay on a gateway, or through two in a row.

use c_tests::faults::Counts;
use c_tests::net::{BETWEEN_GATEWAYS, GATEWAYS, TwoHosts, or_skip};
use c_tests::{Done, Figure, Job, Launch, Mpi, Scene, wait_until};
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::process::Command;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(90);
const PORT: u16 = 7433;
/// Ranks of each job in traffic.
const RANKS: usize = 2;

/// The gateways and what runs on them.
struct Stage {
    scene: Scene,
    hosts: TwoHosts,
    two: bool,
    /// Of the relays that each job is told.
    ports: Vec<u16>,
}

impl Stage {
    fn new(title: String, two: bool) -> Option<Stage> {
        let hosts = or_skip(TwoHosts::behind_gateways(two))?;
        Some(Stage { scene: Scene::new(title), hosts, two, ports: vec![PORT] })
    }

    /// One gateway, on which a relay may be at each of these ports.
    fn with_choice(title: String, ports: &[u16]) -> Option<Stage> {
        Some(Stage { ports: ports.to_vec(), ..Stage::new(title, false)? })
    }

    fn relay_at(&self, port: u16) -> Job {
        self.scene.relay(&["--listen", &format!("0.0.0.0:{port}")], &self.hosts.on(2))
    }

    /// The relay on the gateway of this host.
    fn relay(&self, host: usize) -> Job {
        let next = format!("{}:{PORT}", BETWEEN_GATEWAYS[1 - host]);
        let arguments = if self.two { &["--next", next.as_str()][..] } else { &[] };
        self.scene.relay(arguments, &self.hosts.on(2 + if self.two { host } else { 0 }))
    }

    fn relays(&self) -> Vec<Job> {
        (0..if self.two { 2 } else { 1 }).map(|host| self.relay(host)).collect()
    }

    fn start(&self, host: usize, launch: Launch<'_>) -> Job {
        let relays: Vec<_> = self.ports.iter().map(|port| format!("{}:{port}", GATEWAYS[host])).collect();
        self.scene.start(launch.env("MPI_CONNECT_RELAY", &relays.join(";")).within(&self.hosts.on(host)))
    }

    /// A job that goes through these sections of the program `reach`.
    fn reach(&self, host: usize, mpi: &Mpi, ranks: usize, sections: &[&str]) -> Job {
        let names = ["air", "ocean"];
        let arguments = [&[names[host], names[1 - host], ["0", "1"][host], "0"], sections].concat();
        self.start(host, Launch::new(mpi, ranks, "reach", &arguments))
    }

    /// A job with traffic that ends when somebody says so.
    fn traffic(&self, host: usize, mpi: &Mpi, timeout: &str) -> Job {
        let names = ["air", "ocean"];
        let arguments = [names[host], names[1 - host], ["0", "1"][host], "7"];
        let launch = Launch::new(mpi, RANKS, "traffic", &arguments);
        self.start(host, launch.env("MPI_CONNECT_TIMEOUT", timeout))
    }

    /// What each rank has counted; nothing before all have begun.
    fn counts(&self) -> Option<Vec<Counts>> {
        let all = (0..2).flat_map(|side| (0..RANKS).map(move |rank| format!("count-{side}-{rank}")));
        all.map(|name| Counts::read(&self.scene.path(&name)).map(|read| read.1)).collect()
    }

    /// Waits until every rank is this many rounds further than now, so that new ones began since; how long it took.
    fn moves_on(&self, rounds: u64, what: &str) -> Duration {
        let (since, before) = (Instant::now(), self.counts());
        let of = |counts: &Option<Vec<Counts>>, i: usize| counts.as_ref().map_or(0, |all| all[i].rounds);
        let further = |now: &Option<Vec<Counts>>| (0..2 * RANKS).all(|i| of(now, i) >= of(&before, i) + rounds);
        let moved = wait_until(LIMIT, || Some(self.counts()).filter(Option::is_some).is_some_and(|now| further(&now)));
        self.scene.require(moved, &format!("traffic goes on {what}"));
        since.elapsed()
    }

    /// Kills the relays under load, one after the other, four times in all; `start` starts the n-th again. `without`: all
    /// traffic goes on before that. How long it took to go on each time, in ms.
    fn kill_in_turn(
        &self,
        [a, b]: [&Mpi; 2],
        mut relays: Vec<Job>,
        start: impl Fn(usize) -> Job,
        without: bool,
    ) -> Vec<String> {
        let jobs = [self.traffic(0, a, "60"), self.traffic(1, b, "60")];
        self.moves_on(3, "at first");
        let mut took = Vec::new();
        for turn in 0..4 {
            let n = turn % relays.len();
            relays[n].signal(Signal::SIGKILL);
            let gone = wait_until(LIMIT, || relays[n].poll().is_some());
            self.scene.require(gone, "a killed relay is gone");
            if !without {
                relays[n] = start(n);
            }
            took.push(self.moves_on(3, "after a relay was killed").as_millis().to_string());
            if without {
                relays[n] = start(n);
            }
        }
        let done = self.end_traffic(jobs);
        self.scene.require(done.iter().all(goes_by_relay), "the lanes go through the relay");
        relays.iter().for_each(|relay| relay.signal(Signal::SIGTERM));
        took
    }

    /// Ends the traffic; all that was sent has come, once, in order, as it was.
    fn end_traffic<const N: usize>(&self, jobs: [Job; N]) -> [Done; N] {
        std::fs::write(self.scene.path("enough"), "").expect("a sign");
        let done = self.scene.pass(jobs, LIMIT);
        let wrong = |c: &Counts| c.lost + c.doubled + c.disorder + c.damaged + c.told;
        let counts = self.counts().expect("all have counted");
        self.scene.require(counts.iter().all(|c| wrong(c) == 0 && c.messages > 0), &format!("{counts:?}"));
        done
    }
}

fn goes_by_relay(done: &Done) -> bool {
    done.stderr.contains(" over relay, ") && !done.stderr.contains(" over tcp, ")
}

fn couples() -> impl Iterator<Item = (&'static Mpi, &'static Mpi)> {
    Mpi::couples().step_by(2)
}

fn meet(two: bool) {
    let how = if two { "two relays in a row" } else { "one relay" };
    let mut figure = Figure::new(
        if two { "75-relays-two" } else { "75-relays-one" },
        format!("jobs on hosts that cannot reach each other, by {how}: how long each way to meet takes, in ms"),
    );
    for (a, b) in couples() {
        let title = format!("{how}, {} and {}", a.name, b.name);
        let Some(stage) = Stage::new(title.clone(), two) else { return figure.line("SKIPPED: no network namespaces") };
        let relays = stage.relays();
        let jobs = [stage.reach(0, a, 3, &["waits", "any", "tests"]), stage.reach(1, b, 2, &["waits", "any", "tests"])];
        let done = stage.scene.pass(jobs, LIMIT);
        stage.scene.require(done.iter().all(goes_by_relay), "the lanes go through the relay");
        let took: Vec<_> = done.iter().flat_map(|d| d.lines("TOOK")).map(|line| line.trim_end_matches(" ms")).collect();
        figure.line(format!("{title}: {}", took.join(", ")));
        relays.iter().for_each(|relay| relay.signal(Signal::SIGTERM));
    }
}

#[test]
fn jobs_meet_through_one_relay() {
    meet(false);
}

#[test]
fn jobs_meet_through_two_relays() {
    meet(true);
}

/// A relay is killed under load, and started again. Then the other one, if there are two.
fn killed(two: bool) {
    let mut figure = Figure::new(
        if two { "76-relays-killed-two" } else { "76-relays-killed-one" },
        "a relay is killed under load and started again: time until all traffic goes on, in ms",
    );
    for (a, b) in couples().take(1) {
        let title = format!("killed, {} relays, {} and {}", if two { 2 } else { 1 }, a.name, b.name);
        let Some(stage) = Stage::new(title.clone(), two) else { return figure.line("SKIPPED: no network namespaces") };
        let took = stage.kill_in_turn([a, b], stage.relays(), |n| stage.relay(n), false);
        figure.line(format!("{title}: {}", took.join(", ")));
    }
}

#[test]
fn a_relay_killed_under_load_loses_nothing() {
    killed(false);
}

#[test]
fn one_of_two_relays_killed_under_load_loses_nothing() {
    killed(true);
}

/// Each process knows two relays. One is killed under load, and all goes on by the other one before it is started again.
#[test]
fn all_goes_on_by_another_relay() {
    let mut figure = Figure::new(
        "77-relays-choice",
        "one of two relays is killed: time until all traffic goes on by the other, in ms",
    );
    let ports = [PORT, PORT + 1];
    for (a, b) in couples().take(1) {
        let title = format!("a choice of relays, {} and {}", a.name, b.name);
        let Some(stage) = Stage::with_choice(title.clone(), &ports) else {
            return figure.line("SKIPPED: no network namespaces");
        };
        let relays = ports.map(|port| stage.relay_at(port));
        let took = stage.kill_in_turn([a, b], relays.into(), |n| stage.relay_at(ports[n]), true);
        figure.line(format!("{title}: {}", took.join(", ")));
    }
}

/// A way without a relay opens under load: traffic moves there, and back when it closes again.
#[test]
fn a_direct_way_is_taken_when_it_opens() {
    for (a, b) in couples().take(1) {
        let Some(stage) = Stage::new(format!("a direct way, {} and {}", a.name, b.name), false) else { return };
        let forward = |on: u8| {
            let words = stage.hosts.on(2);
            let set = ["sysctl", "-q", "-w", &format!("net.ipv4.ip_forward={on}")];
            let done = Command::new(&words[0]).args(&words[1..]).args(set).status();
            stage.scene.require(done.is_ok_and(|status| status.success()), "the gateway forwards or not");
        };
        let relay = stage.relay(0);
        let jobs = [stage.traffic(0, a, "60"), stage.traffic(1, b, "60")];
        stage.moves_on(3, "at first");
        let lanes = |over: &str| jobs.iter().map(|job| job.complained().matches(over).count()).sum::<usize>();
        stage.scene.require(lanes(" over tcp, ") == 0, "no way is direct at first");
        forward(1);
        let direct = || lanes(" over tcp, ") >= 2 * RANKS * RANKS;
        stage.scene.require(wait_until(LIMIT, direct), "all lanes become direct");
        stage.moves_on(3, "on the direct way");
        let before = lanes(" over relay, ");
        forward(0);
        let back = || lanes(" over relay, ") >= before + 2 * RANKS * RANKS;
        stage.scene.require(wait_until(LIMIT, back), "all lanes go through the relay again");
        stage.moves_on(3, "through the relay again");
        stage.end_traffic(jobs);
        relay.signal(Signal::SIGTERM);
    }
}

/// The relay comes when the jobs wait already; until then they say what is wrong.
#[test]
fn a_relay_that_is_not_there_is_told_of_and_may_come_later() {
    for (a, b) in couples().take(1) {
        let Some(stage) = Stage::new(format!("a late relay, {} and {}", a.name, b.name), false) else { return };
        let jobs = [stage.reach(0, a, 1, &["waits"]), stage.reach(1, b, 1, &["waits"])];
        let said = |job: &Job| {
            job.complained().contains("cannot be used: Connection refused (os error 111). It is tried again")
        };
        stage.scene.require(wait_until(LIMIT, || jobs.iter().all(said)), "both tell what is wrong");
        let relay = stage.relay(0);
        let done = stage.scene.pass(jobs, LIMIT);
        stage.scene.require(done.iter().all(goes_by_relay), "the lanes go through the relay");
        relay.signal(Signal::SIGTERM);
    }
}

/// Ranks that are killed are dead to the other job, though only the relay can say so.
#[test]
fn a_job_that_dies_behind_a_relay_is_given_up() {
    for (a, b) in couples().take(1) {
        let Some(stage) = Stage::new(format!("death behind a relay, {} and {}", a.name, b.name), false) else { return };
        let relay = stage.relay(0);
        let [air, ocean] = [stage.traffic(0, a, "5"), stage.traffic(1, b, "5")];
        stage.moves_on(3, "at first");
        let since = Instant::now();
        for rank in 0..RANKS {
            let counted = Counts::read(&stage.scene.path(&format!("count-1-{rank}")));
            // The launcher may have ended the others by then.
            let killed = kill(Pid::from_raw(counted.expect("it has counted").0), Signal::SIGKILL);
            assert!(matches!(killed, Ok(()) | Err(Errno::ESRCH)), "{killed:?}");
        }
        let told = || stage.counts().is_some_and(|all| all[..RANKS].iter().all(|c| c.told > 0));
        stage.scene.require(wait_until(LIMIT, told), "both ranks of the other job are told");
        let took = since.elapsed();
        for sign in ["enough", "over-1"] {
            std::fs::write(stage.scene.path(sign), "").expect("a sign");
        }
        let [air, _] = stage.scene.wait([air, ocean], LIMIT);
        let first = air.lines("TOLD").next().is_some_and(|line| line.contains("PEER_GONE"));
        stage
            .scene
            .require(first && took >= Duration::from_secs(19), "it is told of a death, by whoever would know of more");
        relay.signal(Signal::SIGTERM);
    }
}
