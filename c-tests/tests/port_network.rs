//! MPI's own ports between hosts: firewalls that let connections pass in one direction, interfaces that lead nowhere.

use c_tests::net::{ADDRESSES, TwoHosts, Verdict, or_skip};
use c_tests::ports::{self, By};
use c_tests::{Figure, Library, Mpi, Scene};
use nix::sys::signal::Signal;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(90);

/// The server on host 0, the client on host 1, each with these settings.
fn meet(scene: &Scene, hosts: &TwoHosts, (server, client): (&Mpi, &Mpi), settings: &[(&str, &str)]) -> f64 {
    let mut host = 0..2;
    let jobs = ports::pair(scene, server, client, By::File, Library::Preloaded).map(|launch| {
        let launch = settings.iter().fold(launch, |launch, (name, value)| launch.env(name, value));
        scene.start(launch.within(&hosts.on(host.next().expect("two"))))
    });
    scene.pass(jobs, LIMIT)[1].took.as_secs_f64()
}

/// The name of a port tells all addresses, and the one that works is found, whichever it is.
#[test]
fn several_addresses_in_a_port_name_ompi_6377() {
    let mut figure = Figure::new("29-port-network", "ports between hosts: seconds that the client takes");
    for pair in Mpi::couples().step_by(2) {
        let Some(hosts) = or_skip(TwoHosts::misled()) else {
            return figure.line("SKIPPED: no network namespaces here");
        };
        let scene = Scene::new(format!("several addresses, server {}, client {}", pair.0.name, pair.1.name));
        let took = meet(&scene, &hosts, pair, &[("MPI_CONNECT_IFACE", "all")]);
        figure.line(format!("{} {}, 1 interface of 3 works: {took:.1}", pair.0.sign, pair.1.sign));
    }
}

/// Whichever side lets nobody in, and however it says so.
#[test]
fn one_side_lets_nobody_in() {
    let mut figure = Figure::new("29-port-one-way", "ports, one side lets nobody in: seconds that the client takes");
    let mut pairs = Mpi::couples().step_by(2).collect::<Vec<_>>().into_iter().cycle();
    for (closed, who) in [(0, "the server"), (1, "the client")] {
        for (verdict, pair) in Verdict::ALL.into_iter().zip(&mut pairs) {
            let Some(hosts) = or_skip(TwoHosts::linked().and_then(|h| h.firewall(closed, "", verdict).map(|()| h)))
            else {
                return figure.line("SKIPPED: no network namespaces, or no firewall in them");
            };
            let scene = Scene::new(format!("{who} lets nobody in, {verdict:?}, {} and {}", pair.0.name, pair.1.name));
            let took = meet(&scene, &hosts, pair, &[("MPI_CONNECT_IFACE", "live0")]);
            figure.line(format!("{who} lets nobody in, {verdict:?}, {} {}: {took:.1}", pair.0.sign, pair.1.sign));
        }
    }
}

/// The same where names are kept by a server, on the client's host.
#[test]
fn one_side_lets_nobody_in_and_a_server_keeps_the_names() {
    for pair in Mpi::couples().step_by(2) {
        let Some(hosts) = or_skip(TwoHosts::linked().and_then(|h| h.firewall(0, "", Verdict::Drop).map(|()| h))) else {
            return;
        };
        let scene =
            Scene::new(format!("the server lets nobody in, names at a server, {}, {}", pair.0.name, pair.1.name));
        let (server, address) = scene.serve(&["--listen", &format!("{}:0", ADDRESSES[1])], &hosts.on(1));
        let url = format!("tcp://{address}");
        meet(&scene, &hosts, pair, &[("MPI_CONNECT_IFACE", "live0"), ("MPI_CONNECT_NAMING", &url)]);
        server.signal(Signal::SIGTERM);
        let [done] = scene.wait([server], LIMIT);
        scene.require(done.stderr.contains("'call:"), "the client asks to be dialled");
    }
}
