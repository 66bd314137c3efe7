//! The processes of each of two hosts share a router: one connection between the hosts, and all messages come.

use c_tests::faults::Counts;
use c_tests::net::{ADDRESSES, TwoHosts, or_skip};
use c_tests::{Figure, Launch, Mpi, Scene, wait_until};
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

#[test]
fn jobs_on_two_hosts_share_one_connection() {
    let mut figure = Figure::new("78-routers", "connections between two hosts with 3 ranks each, all joined with all");
    for (a, b) in Mpi::couples().step_by(2) {
        let title = format!("routers, {} and {}", a.name, b.name);
        let Some(hosts) = or_skip(TwoHosts::linked()) else { return figure.line("SKIPPED: no network namespaces") };
        let scene = Scene::new(title.clone());
        let start = |host: usize, mpi, names: [&str; 2]| {
            let launch = Launch::new(mpi, RANKS, "traffic", &[names[0], names[1], ["0", "1"][host], "7"]);
            let launch = launch.env("MPI_CONNECT_ROUTE", "node").env("MPI_CONNECT_LANES", "shm,router,relay");
            scene.start(launch.within(&hosts.on(host)))
        };
        let jobs = [start(0, a, ["air", "ocean"]), start(1, b, ["ocean", "air"])];
        let counts = || -> Option<Vec<Counts>> {
            let all = (0..2).flat_map(|side| (0..RANKS).map(move |rank| format!("count-{side}-{rank}")));
            all.map(|name| Counts::read(&scene.path(&name)).map(|read| read.1)).collect()
        };
        let goes = wait_until(LIMIT, || counts().is_some_and(|all| all.iter().all(|c| c.rounds > 20)));
        scene.require(goes, "all ranks exchange messages");
        let between = connections(&hosts, 0, ADDRESSES[1]);
        std::fs::write(scene.path("enough"), "").expect("a sign");
        let done = scene.pass(jobs, LIMIT);
        // Where both routers dialled at the same moment, there may be two.
        scene.require((1..=2).contains(&between), &format!("{between} connections between the hosts"));
        let by_router = |stderr: &str| stderr.contains(" over router, ") && !stderr.contains(" over tcp, ");
        scene.require(done.iter().all(|done| by_router(&done.stderr)), "the lanes go through routers");
        let all = counts().expect("all have counted");
        let wrong = |c: &Counts| c.lost + c.doubled + c.disorder + c.damaged + c.told;
        scene.require(all.iter().all(|c| wrong(c) == 0 && c.messages > 0), &format!("{all:?}"));
        figure.line(format!("{title}: {between}"));
    }
}
