//! The processes of each of two hosts share a router: one connection between the hosts, and all messages come. A job without routers is met
//! over TCP, and an operator moves jobs to routers and away from them while messages flow.

use crate::control::operator;
use c_tests::faults::Counts;
use c_tests::net::{ADDRESSES, TwoHosts, or_skip};
use c_tests::{Done, Figure, Job, Launch, Mpi, Scene, wait_until};
use serde_json::Value;
use std::net::Ipv4Addr;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(90);
const RANKS: usize = 3;

/// The connections that stand between this host and an address, as the kernel lists them.
fn connections(hosts: &TwoHosts, host: usize, to: &str) -> usize {
    let to: Ipv4Addr = to.parse().expect("an address");
    let to = format!("{:08X}:", u32::from_ne_bytes(to.octets()));
    let table = hosts.within(host, || std::fs::read_to_string("/proc/thread-self/net/tcp").expect("the kernel's list"));
    let is_one = |line: &str| {
        let fields: Vec<_> = line.split_whitespace().collect();
        fields.get(2).is_some_and(|there| there.starts_with(&to)) && fields.get(3) == Some(&"01")
    };
    table.lines().filter(|line| is_one(line)).count()
}

/// Starts "air" on one host and "ocean" on the other, with these settings, and waits until all ranks exchange messages.
fn started(scene: &Scene, hosts: &TwoHosts, mpis: [&Mpi; 2], settings: [&[(&str, &str)]; 2]) -> [Job; 2] {
    let start = |host: usize, names: [&str; 2]| {
        let launch = Launch::new(mpis[host], RANKS, "traffic", &[names[0], names[1], ["0", "1"][host], "7"]);
        scene.start(launch.envs(settings[host]).within(&hosts.on(host)))
    };
    let jobs = [start(0, ["air", "ocean"]), start(1, ["ocean", "air"])];
    goes_on(scene, 20);
    jobs
}

/// What each rank of both jobs has counted.
fn counts(scene: &Scene) -> Option<Vec<Counts>> {
    let all = (0..2).flat_map(|side| (0..RANKS).map(move |rank| format!("count-{side}-{rank}")));
    all.map(|name| Counts::read(&scene.path(&name)).map(|read| read.1)).collect()
}

/// Waits for so many rounds more of each rank.
fn goes_on(scene: &Scene, rounds: u64) {
    let before: Vec<u64> = counts(scene).map_or_else(Vec::new, |all| all.iter().map(|c| c.rounds).collect());
    let is_beyond = |(i, c): (usize, &Counts)| c.rounds > before.get(i).unwrap_or(&0) + rounds;
    let goes = wait_until(LIMIT, || counts(scene).is_some_and(|all| all.iter().enumerate().all(is_beyond)));
    scene.require(goes, "all ranks exchange messages");
}

/// Ends the jobs: nothing was lost.
fn ended(scene: &Scene, jobs: [Job; 2]) -> [Done; 2] {
    std::fs::write(scene.path("enough"), "").expect("a sign");
    let done = scene.pass(jobs, LIMIT);
    let all = counts(scene).expect("all have counted");
    let wrong = |c: &Counts| c.lost + c.doubled + c.disorder + c.damaged + c.told;
    scene.require(all.iter().all(|c| wrong(c) == 0 && c.messages > 0), &format!("{all:?}"));
    done
}

#[test]
fn jobs_on_two_hosts_share_one_connection() {
    let mut figure = Figure::new("78-routers", "connections between two hosts with 3 ranks each, all joined with all");
    for (a, b) in Mpi::couples().step_by(2) {
        let title = format!("routers, {} and {}", a.name, b.name);
        let Some(hosts) = or_skip(TwoHosts::linked()) else { return figure.line("SKIPPED: no network namespaces") };
        let scene = Scene::new(title.clone());
        let both: &[_] = &[("MPI_CONNECT_ROUTE", "node"), ("MPI_CONNECT_LANES", "shm,router,relay")];
        let jobs = started(&scene, &hosts, [a, b], [both, both]);
        let between = connections(&hosts, 0, ADDRESSES[1]);
        let done = ended(&scene, jobs);
        // Where both routers dialled at the same moment, there may be two.
        scene.require((1..=2).contains(&between), &format!("{between} connections between the hosts"));
        let by_router = |done: &Done| done.stderr.contains(" over router, ") && !done.stderr.contains(" over tcp, ");
        scene.require(done.iter().all(by_router), "the lanes go through routers");
        figure.line(format!("{title}: {between}"));
    }
}

#[test]
fn a_job_without_routers_is_met_over_tcp() {
    for (n, (a, b)) in Mpi::couples().step_by(2).enumerate() {
        let Some(hosts) = or_skip(TwoHosts::linked()) else { return };
        let scene = Scene::new(format!("{} and {}, one with a router", a.name, b.name));
        let mut settings: [&[_]; 2] = [&[("MPI_CONNECT_ROUTE", "node")], &[]];
        settings.rotate_left(n % 2);
        let jobs = started(&scene, &hosts, [a, b], settings);
        let done = ended(&scene, jobs);
        let by_tcp = |done: &Done| done.stderr.contains(" over tcp, ") && !done.stderr.contains(" over router, ");
        scene.require(done.iter().all(by_tcp), "the lanes go over TCP");
    }
}

#[test]
fn an_operator_moves_jobs_to_routers_and_away_under_load() {
    for (a, b) in Mpi::couples().step_by(2) {
        let Some(hosts) = or_skip(TwoHosts::linked()) else { return };
        let scene = Scene::new(format!("{} and {} move to routers and away", a.name, b.name));
        let both: &[_] = &[("MPI_CONNECT_ROUTE", "node")];
        let jobs = started(&scene, &hosts, [a, b], [both, both]);
        let order = |words: &[&str]| {
            let mut operator = operator(&scene, None, &[&["ctl", "air"], words].concat());
            hosts.within(0, move || operator.output()).expect("mpi-connect")
        };
        // The jobs part and join again meanwhile: an order holds for pairs that there are.
        let is_over = |word: &str| {
            let all: Value = serde_json::from_slice(&order(&["lanes", "--json"]).stdout).expect("JSON");
            let processes = all["processes"].as_array().into_iter().flatten();
            let pairs: Vec<_> = processes.flat_map(|one| one["pairs"].as_array().into_iter().flatten()).collect();
            !pairs.is_empty() && pairs.iter().any(|pair| pair["transport"] == word)
        };
        for word in ["tcp", "router", "tcp", "router"] {
            let moved =
                wait_until(LIMIT, || order(&["switch", word, "--timeout", "30"]).status.success() && is_over(word));
            scene.require(moved, &format!("over {word}"));
            goes_on(&scene, 10);
        }
        ended(&scene, jobs);
    }
}
