//! MPI's own ports between hosts: firewalls that let connections pass in one direction, interfaces that lead nowhere.

use c_tests::net::{ADDRESSES, TwoHosts, Verdict, or_skip};
use c_tests::ports::{self, By};
use c_tests::{Figure, Launch, Library, Mpi, Scene};
use nix::sys::signal::Signal;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(90);

/// The server on host 0, the client on host 1, each with these settings.
fn meet(scene: &Scene, hosts: &TwoHosts, (server, client): (&Mpi, &Mpi), settings: &[(&str, &str)]) -> f64 {
    let mut host = 0..2;
    let jobs = ports::pair(scene, server, client, By::File, Library::Preloaded)
        .map(|launch| scene.start(launch.envs(settings).within(&hosts.on(host.next().expect("two")))));
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

/// A contact record is longer than what a process tells its leader in one message.
#[test]
fn processes_with_many_addresses() {
    for pair in Mpi::couples().step_by(2) {
        let Some(hosts) = or_skip(TwoHosts::linked()) else { return };
        for (host, of) in (0..2).flat_map(|host| (0..30).map(move |of| (host, of))) {
            hosts.ip(host, &format!("addr add fd00::{host}:{of:x}/64 dev live0 nodad")).expect("an address");
        }
        let scene = Scene::new(format!("many addresses, server {}, client {}", pair.0.name, pair.1.name));
        meet(&scene, &hosts, pair, &[("MPI_CONNECT_IFACE", "live0")]);
    }
}

/// Where an MPI has room for one address in a port's name, it is the one by the default route, of several that look as good.
/// A client on the same host gets there too.
#[test]
fn one_address_by_the_default_route() {
    let Some((a, b)) = Mpi::couples().find(|(a, b)| [a.name, b.name].contains(&"lam")) else {
        return println!("SKIPPED: no MPI with short names of ports");
    };
    let (server, client) = if a.name == "lam" { (a, b) } else { (b, a) };
    for at in [1, 0] {
        let Some(hosts) = or_skip(TwoHosts::misled()) else { return };
        hosts.ip(0, &format!("route add default via {} dev live0", ADDRESSES[1])).expect("a route");
        let scene = Scene::new(format!("a short name, the client on host {at}, {} and {}", server.name, client.name));
        let mut host = [0, at].into_iter();
        let jobs = ports::pair(&scene, server, client, By::File, Library::Preloaded)
            .map(|launch| scene.start(launch.within(&hosts.on(host.next().expect("two")))));
        scene.pass(jobs, LIMIT);
    }
}

/// Whichever side lets nobody in, and however it says so.
#[test]
fn one_side_lets_nobody_in() {
    let mut figure = Figure::new("29-port-one-way", "ports, one side lets nobody in: seconds that the client takes");
    let mut pairs = Mpi::couples().step_by(2).collect::<Vec<_>>().into_iter().cycle();
    for (closed, who) in [(0, "the server"), (1, "the client")] {
        for (verdict, pair) in Verdict::ALL.into_iter().zip(&mut pairs) {
            let Some(hosts) = or_skip(TwoHosts::one_way(closed, verdict)) else {
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
        let Some(hosts) = or_skip(TwoHosts::one_way(0, Verdict::Drop)) else {
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

/// All of one job die as soon as they have met, on a host that lives on: all of the other are told, also a rank that has
/// never met anybody. With one address in the port's name, and with several.
#[test]
fn killed_on_another_host() {
    let mut figure = Figure::new("29-port-far", "a job on another host killed right after it has come: ms until told");
    let pairs = Mpi::couples().step_by(2).collect::<Vec<_>>();
    for (pair, iface) in pairs.into_iter().flat_map(|pair| [(pair, "live0"), (pair, "all")]) {
        for victim in ["server", "client"] {
            let Some(hosts) = or_skip(TwoHosts::misled()) else {
                return figure.line("SKIPPED: no network namespaces here");
            };
            let names = (pair.0.name, pair.1.name);
            let scene = Scene::new(format!("the {victim} killed, {iface}, server {}, client {}", names.0, names.1));
            let file = scene.path("port");
            let start = |host: usize, mpi, role| {
                let launch = Launch::new(mpi, 2, "port_far", &[role, file.to_str().expect("plain text"), victim]);
                scene.start(launch.env("MPI_CONNECT_IFACE", iface).within(&hosts.on(host)))
            };
            let jobs = [start(0, pair.0, "server"), start(1, pair.1, "client")];
            let [server, client] = scene.wait(jobs, LIMIT);
            let told = if victim == "server" { client } else { server };
            scene.require(told.status.success(), &format!("the other ended with {}", told.status));
            let took: Vec<_> = told.lines("TOLD").collect();
            scene.require(took.len() == 2, "both ranks are told");
            figure.line(format!("{victim} killed, {iface}, {} {}: {}", pair.0.sign, pair.1.sign, took.join(", ")));
        }
    }
}
