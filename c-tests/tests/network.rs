//! Each job on a network of its own, with interfaces that lead nowhere beside the one that works.

use c_tests::net::{TwoHosts, or_skip};
use c_tests::{Figure, Launch, Mpi, Scene};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(90);

/// Whichever interface is listed first, the one that works is found.
#[test]
fn wrong_interfaces_ompi_6240() {
    let mut figure = Figure::new("70-network", "each job in its own network namespace, 1 interface of 3 works");
    let Some(hosts) = or_skip(TwoHosts::misled()) else {
        figure.line("SKIPPED: no network namespaces here");
        return;
    };
    for (a, b) in Mpi::couples() {
        for interface in ["all", "live0", "10.77.31.0/24"] {
            let scene = Scene::new(format!("{} and {} by interface {interface}", a.name, b.name));
            let start = |host, mpi, ranks, names: [&str; 2]| {
                let side = if host == 0 { "0" } else { "1" };
                let arguments = [names[0], names[1], side, "queries", "send", "waitany", "sizes"];
                let launch = Launch::new(mpi, ranks, "pair", &arguments).env("MPI_CONNECT_IFACE", interface);
                scene.start(launch.within(&hosts.on(host)))
            };
            let jobs = [start(0, a, 2, ["air", "ocean"]), start(1, b, 2, ["ocean", "air"])];
            let [done, _] = scene.pass(jobs, LIMIT);
            figure.line(format!("{} - {}, {interface}: {:.1} s", a.name, b.name, done.took.as_secs_f64()));
        }
    }
}

/// Unasked, nothing leaves the host: across two hosts that means a clear error, not a hang.
#[test]
fn loopback_only_unless_asked() {
    let Some(hosts) = or_skip(TwoHosts::misled()) else { return };
    let start = |scene: &Scene, (a, b): &(&'static Mpi, &'static Mpi)| {
        let start = |host: usize, mpi, names: [&str; 2]| {
            let launch = Launch::new(mpi, 1, "bad", &["orphan", names[0], names[1], "3"]);
            scene.start(launch.env("MPI_CONNECT_TIMEOUT", "3").within(&hosts.on(host)))
        };
        [start(0, a, ["air", "ocean"]), start(1, b, ["ocean", "air"])]
    };
    Scene::at_once(Mpi::couples(), |(a, b)| format!("loopback only, {} and {}", a.name, b.name), start, LIMIT);
}
