//! Jobs that are told nothing of the network: they listen where other hosts may reach them, what goes to other hosts cannot be
//! read there, and a stranger who reaches them learns nothing.

use c_tests::net::{ADDRESS_TO_THIRD, ADDRESSES, TwoHosts, or_skip};
use c_tests::{Job, Launch, Mpi, Scene, wait_until};
use std::collections::BTreeSet;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;
use trust::{Encrypt, KeyFile, Protocol, Refused, Trust};

const LIMIT: Duration = Duration::from_secs(90);
/// What the section `text` of the program `reach` sends.
const TEXT: &str = "anybody could read this. anybody could";

/// Both jobs on these hosts, with these settings, through these sections of the program `reach`.
fn start(
    scene: &Scene,
    hosts: &TwoHosts,
    on: [usize; 2],
    (a, b): (&Mpi, &Mpi),
    settings: &[(&str, &str)],
    sections: &[&str],
) -> [Job; 2] {
    let start = |side: usize, mpi, ranks, names: [&str; 2]| {
        let arguments = [&[names[0], names[1], ["0", "1"][side], "0"], sections].concat();
        let launch = Launch::new(mpi, ranks, "reach", &arguments).envs(settings);
        scene.start(launch.within(&hosts.on(on[side])))
    };
    [start(0, a, 1, ["air", "ocean"]), start(1, b, 2, ["ocean", "air"])]
}

/// Where a job says that its ranks listen.
fn listening(said: &str) -> BTreeSet<SocketAddr> {
    let lines = said.lines().filter_map(|line| line.split_once("listening on "));
    lines.flat_map(|(_, all)| all.split(", ").filter_map(|a| a.trim().parse().ok())).collect()
}

/// Two hosts of which the first has guests, an interface that nothing goes over, and a link to a third host.
fn three_hosts() -> Result<TwoHosts, String> {
    let hosts = TwoHosts::linked()?;
    hosts.third()?;
    hosts.guests(0, "172.17.0.1/16")?;
    hosts.stray(0, "plug0", "10.67.0.1/24")?;
    hosts.ip(0, "link set plug0-end down")?;
    hosts.ip(0, "addr add fe80::1/64 dev live0 nodad")?;
    Ok(hosts)
}

/// Says these bytes to a process from a host of its own, and returns all that it answers.
fn say(hosts: &TwoHosts, to: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    hosts.within(2, || {
        let mut stream = TcpStream::connect(to).expect("it can be reached");
        stream.set_read_timeout(Some(LIMIT)).expect("a limit");
        stream.write_all(bytes).expect("it listens");
        let mut answer = Vec::new();
        match stream.read_to_end(&mut answer) {
            Err(e) if e.kind() != ErrorKind::ConnectionReset => panic!("no end of the connection: {e}"),
            _ => answer,
        }
    })
}

/// Tries a key of its own.
fn try_key(hosts: &TwoHosts, to: SocketAddr, key: KeyFile) -> (io::Error, Vec<u8>) {
    let trust = Arc::new(Trust::from_file(key, Encrypt::Network).expect("a key"));
    hosts.within(2, || {
        let mut stream = TcpStream::connect(to).expect("it can be reached");
        stream.set_read_timeout(Some(LIMIT)).expect("a limit");
        let refused = trust::dial(&mut stream, &trust, Protocol::Jobs, false).err().expect("refused");
        // It might have had another key to try.
        stream.shutdown(Shutdown::Write).expect("it listens");
        let mut more = Vec::new();
        let _ = stream.read_to_end(&mut more);
        (refused, more)
    })
}

#[test]
fn hosts_meet_and_strangers_get_nothing() {
    for pair in Mpi::couples().step_by(2) {
        let Some(hosts) = or_skip(three_hosts()) else { return };
        let scene = Scene::new(format!("two hosts by default, {} and {}", pair.0.name, pair.1.name));
        let (_, readable) = hosts.overhear(1, TEXT, || {
            let jobs = start(&scene, &hosts, [0, 1], pair, &[], &["text", "lasts"]);
            let moving = || (0..2).all(|side| scene.path(&format!("moving-{side}")).exists());
            scene.require(wait_until(LIMIT, moving), "no traffic");

            let all = listening(&(jobs[0].complained() + &jobs[0].printed()));
            let ips: BTreeSet<IpAddr> = all.iter().map(SocketAddr::ip).collect();
            let expected =
                [ADDRESSES[0], ADDRESS_TO_THIRD, "127.0.0.1", "::1"].map(|ip| ip.parse().expect("an address"));
            scene.require(ips == BTreeSet::from(expected), &format!("listens at {ips:?}"));

            let to = all.into_iter().find(|a| a.ip() == expected[1]).expect("an address");
            for bytes in [&[0; 64][..], &[0xff; 4096], "GET / HTTP/1.1\r\n".repeat(10).as_bytes()] {
                let answer = say(&hosts, to, bytes);
                scene.require(answer.is_empty(), &format!("a stranger is told {answer:?}"));
            }
            let another = KeyFile::at(scene.path("a stranger's key"));
            another.read_or_make().expect("a key");
            let (refused, more) = try_key(&hosts, to, another);
            let why = refused.get_ref().and_then(|e| e.downcast_ref::<Refused>());
            let by_key = matches!(why, Some(Refused::OtherKey { .. }));
            scene.require(by_key && more.is_empty(), &format!("{refused}, and then {more:?}"));

            std::fs::write(scene.path("enough"), "").expect("a sign");
            scene.pass(jobs, LIMIT)
        });
        scene.require(readable.is_empty(), &format!("the text could be read on its way to {readable:?}"));
    }
}

/// The same text can be read where nothing is encrypted, so it would be heard: between hosts if both jobs say so, and within
/// a host, where it goes over loopback, or by the host's own address if there is no other.
#[test]
fn what_is_not_encrypted_is_heard() {
    let own: Ipv4Addr = ADDRESSES[0].parse().expect("an address");
    let never = &[("MPI_CONNECT_ENCRYPT", "never")][..];
    let tcp = &[("MPI_CONNECT_LANES", "tcp")][..];
    let by_own = &[("MPI_CONNECT_LANES", "tcp"), ("MPI_CONNECT_IFACE", "live0")][..];
    let always = &[("MPI_CONNECT_LANES", "tcp"), ("MPI_CONNECT_ENCRYPT", "always")][..];
    for (what, on, settings, expected) in [
        ("never encrypted", [0, 1], never, Some(ADDRESSES[1].parse().expect("an address"))),
        ("one host", [0, 0], tcp, Some(Ipv4Addr::LOCALHOST)),
        ("one host by its own address", [0, 0], by_own, Some(own)),
        ("one host, always encrypted", [0, 0], always, None),
    ] {
        let Some(hosts) = or_skip(TwoHosts::linked()) else { return };
        let pair = Mpi::couples().next().expect("a pair");
        let scene = Scene::new(format!("{what}, {} and {}", pair.0.name, pair.1.name));
        let play = || scene.pass(start(&scene, &hosts, on, pair, settings, &["text"]), LIMIT);
        let (_, readable) = hosts.overhear(on[1], TEXT, play);
        scene.require(readable == expected.into_iter().collect(), &format!("{what}: read on its way to {readable:?}"));
    }
}

/// A machine without a network: as ever, and nobody complains.
#[test]
fn without_a_network() {
    for pair in Mpi::couples().step_by(2) {
        let Some(hosts) = or_skip(TwoHosts::apart()) else { return };
        let scene = Scene::new(format!("loopback is all there is, {} and {}", pair.0.name, pair.1.name));
        // By default: the tests' own setting is taken back.
        let done = scene.pass(start(&scene, &hosts, [0, 0], pair, &[("MPI_CONNECT_LOG", "")], &["waits"]), LIMIT);
        let said: Vec<_> = done.iter().flat_map(|d| d.stderr.lines()).filter(|l| l.contains("error:")).collect();
        scene.require(said.is_empty(), &format!("{said:?}"));
    }
}
