//! Each job on a network of its own, with interfaces that lead nowhere beside the one that works.

use c_tests::net::{ADDRESSES, ADDRESSES_6, TwoHosts, or_skip};
use c_tests::{Figure, Job, Launch, Mpi, Scene, wait_until, width};
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(90);

/// Whichever interface is listed first, the one that works is found.
#[test]
fn wrong_interfaces_ompi_6240() {
    let mut figure = Figure::new("70-network", "each job in its own network namespace, 1 interface of 3 works");
    let Some(hosts) = or_skip(TwoHosts::misled()) else {
        figure.line("SKIPPED: no network namespaces here");
        return;
    };
    for (a, b) in Mpi::some_couples() {
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

/// When it is so set, nothing leaves the host: across two hosts that means a clear error, not a hang.
#[test]
fn loopback_only_when_asked() {
    let Some(hosts) = or_skip(TwoHosts::misled()) else { return };
    let play = |scene: &Scene, (a, b): &(&'static Mpi, &'static Mpi)| {
        let start = |host: usize, mpi, names: [&str; 2]| {
            let launch = Launch::new(mpi, 1, "bad", &["orphan", names[0], names[1], "8"]);
            let launch = launch.env("MPI_CONNECT_TIMEOUT", "8").env("MPI_CONNECT_IFACE", "loopback");
            scene.start(launch.within(&hosts.on(host)))
        };
        let done = scene.pass([start(0, a, ["air", "ocean"]), start(1, b, ["ocean", "air"])], LIMIT);
        let why = "it listens on loopback alone, on another host: see its MPI_CONNECT_IFACE";
        scene.require(done.iter().all(|d| d.stderr.contains(why)), "both are told why");
    };
    let couples: Vec<_> = Mpi::some_couples().collect();
    Scene::at_once(&couples, |(a, b)| format!("loopback only, {} and {}", a.name, b.name), play);
}

/// Jobs that go through `sections` of the program `reach`, on every address of their hosts unless told otherwise.
fn reach(scene: &Scene, hosts: &TwoHosts, (a, b): (&Mpi, &Mpi), interfaces: &str, sections: &[&str]) -> [Job; 2] {
    let start = |host: usize, mpi, ranks, names: [&str; 2]| {
        let arguments = [&[names[0], names[1], ["0", "1"][host], "0"], sections].concat();
        let launch = Launch::new(mpi, ranks, "reach", &arguments).env("MPI_CONNECT_IFACE", interfaces);
        scene.start(launch.within(&hosts.on(host)))
    };
    [start(0, a, 2, ["air", "ocean"]), start(1, b, 3, ["ocean", "air"])]
}

/// Two pairs of MPIs at most come together on hosts of this kind, and talk.
fn come_together(what: &str, made: Result<TwoHosts, String>, interfaces: &str) {
    let Some(hosts) = or_skip(made) else { return };
    for pair in Mpi::couples().step_by(2) {
        let scene = Scene::new(format!("{what}, {} and {}", pair.0.name, pair.1.name));
        let [done, _] = scene.pass(reach(&scene, &hosts, pair, interfaces, &["waits", "tests"]), LIMIT);
        println!("   {}", done.lines("TOOK").collect::<Vec<_>>().join(", "));
    }
}

/// A network without IPv4.
#[test]
fn ipv6_only_ompi_1585() {
    come_together("IPv6 only", TwoHosts::joined().and_then(|h| h.address_6().map(|()| h)), "all");
}

/// Nothing but link-local addresses, on links that have other numbers on either host, one of which leads nowhere.
#[test]
fn link_local_only_libfabric_5466() {
    let made = || {
        let hosts = TwoHosts::apart()?;
        for n in 0..3 {
            hosts.ip(0, &format!("link add pad{n} type bridge"))?;
        }
        hosts.join("live0")?;
        for host in 0..2 {
            hosts.stray(host, "dead0", &format!("fe80::dead:{}/64 nodad", host + 1))?;
            hosts.ip(host, &format!("addr add fe80::{}/64 dev live0 nodad", host + 1))?;
        }
        Ok(hosts)
    };
    come_together("link-local only", made(), "all");
    come_together("link-local only, by name", made(), "live0");
}

/// Both kinds of addresses, of which one kind's packets vanish.
#[test]
fn one_of_two_protocols_is_a_black_hole_ompi_6960() {
    for kind in ["ipv4", "ipv6"] {
        let made = || {
            let hosts = TwoHosts::linked()?;
            hosts.address_6()?;
            for host in 0..2 {
                let rule = format!("iifname \"live0\" meta nfproto {kind} meta l4proto tcp drop");
                let chain = format!("chain in {{\ntype filter hook input priority 0\n{rule}\n}}");
                hosts.nft(host, &format!("table inet hole {{\n{chain}\n}}\n"))?;
            }
            Ok(hosts)
        };
        come_together(&format!("{kind} vanishes"), made(), "all");
    }
}

/// Some pairs of which each takes a list of interfaces: LAM's mpirun takes no comma in a variable's value, and says so.
fn pairs_that_take_lists() -> impl Iterator<Item = (&'static Mpi, &'static Mpi)> {
    Mpi::couples().filter(|(a, b)| [a, b].iter().all(|mpi| mpi.name != "lam")).step_by(2)
}

/// `docker0` has the same address on both hosts, and behind it, at the very port, another job of ours listens.
#[test]
fn docker0_chosen_ompi_6377() {
    let Some(hosts) = or_skip(TwoHosts::misled()) else { return };
    for pair in pairs_that_take_lists() {
        let scene = Scene::new(format!("docker0 with another job behind it, {} and {}", pair.0.name, pair.1.name));
        let start = |host: usize, mpi, range: &str, names: [&str; 2]| {
            let launch = Launch::new(mpi, 1, "reach", &[names[0], names[1], ["0", "1"][host], "0", "waits", "tests"]);
            let launch = launch.env("MPI_CONNECT_IFACE", "all,!lo").env("MPI_CONNECT_PORTRANGE", range);
            scene.start(launch.within(&hosts.on(host)))
        };
        // Each host has one rank of either pair, and both use the same two ports there.
        let jobs = [
            start(0, pair.0, "7001", ["air", "ocean"]),
            start(0, pair.1, "7002", ["sea", "sky"]),
            start(1, pair.1, "7002", ["ocean", "air"]),
            start(1, pair.0, "7001", ["sky", "sea"]),
        ];
        scene.pass(jobs, LIMIT);
    }
}

/// An address with a network of its own, reached by a route.
#[test]
fn point_to_point() {
    let made = || {
        let hosts = TwoHosts::joined()?;
        for host in 0..2 {
            hosts.ip(host, &format!("addr add 10.99.0.{}/32 peer 10.99.0.{} dev live0", host + 1, 2 - host))?;
        }
        Ok(hosts)
    };
    come_together("point to point", made(), "live0");
}

/// A tunnel, whose interface has no hardware address, over a link that may not be used itself.
#[test]
fn over_a_tunnel() {
    let made = || {
        let hosts = TwoHosts::linked()?;
        for host in 0..2 {
            let (mine, other) = (ADDRESSES[host], ADDRESSES[1 - host]);
            hosts.ip(host, &format!("tunnel add tun7 mode ipip local {mine} remote {other}"))?;
            hosts.ip(host, &format!("addr add 10.99.1.{}/32 peer 10.99.1.{} dev tun7", host + 1, 2 - host))?;
            hosts.ip(host, "link set tun7 up")?;
        }
        Ok(hosts)
    };
    come_together("a tunnel", made(), "all,!live0");
}

/// Forty interfaces that lead nowhere, all listed before the one that works; those of either host seem to be neighbours of
/// the other's. The right one is known by the others' being of no use, or by the route that leads out.
#[test]
fn many_interfaces_ompi_4963() {
    for arp in [false, true] {
        let made = || {
            let hosts = TwoHosts::apart()?;
            (0..2).try_for_each(|host| hosts.strays(host, 40, arp))?;
            hosts.join("live0")?;
            hosts.address_6()?;
            if arp {
                (0..2).try_for_each(|host| {
                    hosts.ip(host, &format!("-6 route add default via {} dev live0", ADDRESSES_6[1 - host]))
                })?;
            }
            Ok(hosts)
        };
        come_together(
            &format!("forty useless interfaces{}", if arp { ", a default route" } else { "" }),
            made(),
            "all",
        );
    }
}

/// Interfaces that are down, have no carrier, or have an address that is not to be used any more.
#[test]
fn dead_interfaces() {
    let made = || {
        let hosts = TwoHosts::misled()?;
        for host in 0..2 {
            hosts.stray(host, "down0", &format!("10.66.0.{}/24", host + 1))?;
            hosts.ip(host, "link set down0 down")?;
            hosts.stray(host, "plug0", &format!("10.67.0.{}/24", host + 1))?;
            hosts.ip(host, "link set plug0-end down")?;
            hosts.ip(host, &format!("addr add fd77:99::{}/64 dev live0 nodad preferred_lft 0", host + 1))?;
        }
        Ok(hosts)
    };
    come_together("dead interfaces", made(), "all");
}

/// By name, address, prefix, list, and by what is left out; and an error that tells what there is.
#[test]
fn interfaces_are_chosen_ompi_6240() {
    for choice in
        ["live0", "10.77.31.1,10.77.31.2,lo", "10.77.0.0/16,docker0", "!docker0,!dead0", "all,!172.16.0.0/12,!eth7"]
    {
        let Some(hosts) = or_skip(TwoHosts::misled()) else { return };
        let Some(pair) = pairs_that_take_lists().next() else { return println!("SKIPPED: no pair takes lists") };
        let scene = Scene::new(format!("MPI_CONNECT_IFACE={choice}, {} and {}", pair.0.name, pair.1.name));
        let start = |host: usize, mpi, names: [&str; 2]| {
            // Each names its own address.
            let choice = choice.replace("10.77.31.1,10.77.31.2", ADDRESSES[host]);
            let launch = Launch::new(mpi, 1, "bad", &["joins", names[0], names[1]]).env("MPI_CONNECT_IFACE", &choice);
            scene.start(launch.within(&hosts.on(host)))
        };
        scene.pass([start(0, pair.0, ["air", "ocean"]), start(1, pair.1, ["ocean", "air"])], LIMIT);
    }
    let Some(hosts) = or_skip(TwoHosts::misled()) else { return };
    for (mpi, _) in Mpi::couples().step_by(2) {
        let scene = Scene::new(format!("no such interface, {}", mpi.name));
        let launch = Launch::new(mpi, 2, "bad", &["unreachable", "air", "'eth7'", "live0 (10.77.31.1"]);
        scene.pass([scene.start(launch.env("MPI_CONNECT_IFACE", "eth7").within(&hosts.on(0)))], LIMIT);
    }
}

/// A link that goes away for ten seconds in the middle of traffic, and comes back.
#[test]
fn a_link_that_comes_back() {
    let Some(hosts) = or_skip(TwoHosts::linked()) else { return };
    for pair in Mpi::couples().step_by(2) {
        let scene = Scene::new(format!("the link goes away for 10 s, {} and {}", pair.0.name, pair.1.name));
        let jobs = reach(&scene, &hosts, pair, "live0", &["lasts"]);
        let moving = || (0..2).all(|side| scene.path(&format!("moving-{side}")).exists());
        scene.require(wait_until(LIMIT, moving), "no traffic");
        hosts.ip(0, "link set live0 down").expect("a link");
        std::thread::sleep(Duration::from_secs(10));
        hosts.ip(0, "link set live0 up").expect("a link");
        let back = Instant::now();
        std::fs::write(scene.path("enough"), "").expect("a sign");
        let [done, _] = scene.pass(jobs, LIMIT);
        let rounds: Vec<_> = done.lines("ROUNDS").collect();
        println!("   {} rounds; over {:.1} s after the link was back", rounds.concat(), back.elapsed().as_secs_f64());
    }
}

/// However long a link was dark, so that TCP itself would look again much later: traffic goes on soon after it is back. With
/// small and large messages under way in both directions, and with one side that only waits.
#[test]
fn a_dark_link_is_used_soon_after_it_is_back() {
    const SOON: f64 = 5.0;
    let mut figure = Figure::new("73-dark", "a link is dark: s from its return until messages come again");
    let all = [8, 15, 60].into_iter().flat_map(|dark| [(dark, "lasts"), (dark, "listens")]).collect();
    let cases = width::otherwise(vec![(8, "lasts"), (15, "listens")], all, "links that are dark for longer");
    let pairs: Vec<_> = Mpi::couples().step_by(2).collect();
    for ((dark, section), pair) in cases.into_iter().zip(pairs.into_iter().cycle()) {
        let Some(hosts) = or_skip(TwoHosts::linked()) else {
            return figure.line("SKIPPED: no network namespaces here");
        };
        let scene = Scene::new(format!("dark for {dark} s, {section}, {} and {}", pair.0.name, pair.1.name));
        let jobs = reach(&scene, &hosts, pair, "live0", &[section]);
        let moving = || (0..2).all(|side| scene.path(&format!("moving-{side}")).exists());
        scene.require(wait_until(LIMIT, moving), "no traffic");
        hosts.nft(0, DARK).expect("a firewall");
        std::thread::sleep(Duration::from_secs(dark));
        hosts.open(0).expect("a firewall");
        std::fs::write(scene.path("enough"), "").expect("a sign");
        let [done, _] = scene.pass(jobs, LIMIT);
        let gap: f64 = done.lines("GAP").next().and_then(|gap| gap.parse().ok()).expect("a gap");
        let late = gap / 1e3 - dark as f64;
        figure.line(format!("dark for {dark} s, {section}: {late:.1}"));
        scene.require(late > -1.0, &format!("the link was not dark: {gap} ms"));
        scene.require(late < SOON, &format!("{late:.1} s after {dark} s of darkness"));
    }
}

/// Nothing comes or goes on the link.
const DARK: &str = "table inet dark {
     chain in { type filter hook input priority 0; iifname \"live0\" drop; }
     chain out { type filter hook output priority 0; oifname \"live0\" drop; }
 }
";
