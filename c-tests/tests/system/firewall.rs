//! Firewalls between the jobs: only one side may dial, or only some ports are open. Each forbids by silence, by a reset, and
//! by ICMP.

use c_tests::net::{ADDRESSES, TwoHosts, Verdict, or_skip};
use c_tests::{Done, Figure, Job, Launch, Mpi, Scene, wait_until};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(120);

/// Two pairs of MPIs at most.
fn pairs() -> impl Iterator<Item = (&'static Mpi, &'static Mpi)> {
    Mpi::couples().step_by(2)
}

/// Three ranks on host 0, two on host 1, which go through these sections; the ranks of host `sender` speak first.
fn start(scene: &Scene, hosts: &TwoHosts, (a, b): (&Mpi, &Mpi), sender: usize, sections: &[&str]) -> [Job; 2] {
    let start = |host: usize, mpi, ranks, names: [&str; 2]| {
        let (side, sender) = (host.to_string(), sender.to_string());
        let arguments = [&[names[0], names[1], &side, &sender], sections].concat();
        let launch = Launch::new(mpi, ranks, "reach", &arguments).env("MPI_CONNECT_IFACE", "live0");
        scene.start(launch.within(&hosts.on(host)))
    };
    [start(0, a, 3, ["air", "ocean"]), start(1, b, 2, ["ocean", "air"])]
}

/// What the listening job says about how long it took.
fn took(done: &Done) -> String {
    done.lines("TOOK").map(|l| l.trim_end_matches(" ms")).collect::<Vec<_>>().join(", ")
}

const FIRST: [&str; 6] = ["asks-late", "waits", "any", "tests", "iprobes", "computes"];

/// Hosts of which the first lets nobody in, and who talk there.
struct OneWay {
    verdict: Verdict,
    pair: (&'static Mpi, &'static Mpi),
    hosts: TwoHosts,
}

impl OneWay {
    fn title(&self) -> String {
        format!("{:?}, {} and {}", self.verdict, self.pair.0.name, self.pair.1.name)
    }
}

/// One for each verdict, with the pairs in turn; none where such hosts cannot be made.
fn one_ways(verdicts: &[Verdict]) -> Option<Vec<OneWay>> {
    let pairs: Vec<_> = pairs().collect();
    let all = verdicts.iter().zip(pairs.into_iter().cycle());
    all.map(|(&verdict, pair)| Some(OneWay { verdict, pair, hosts: or_skip(TwoHosts::one_way(0, verdict))? })).collect()
}

/// Host 0 lets nobody in, so the jobs meet by what it dials itself. Whoever speaks first, and however the other listens.
fn one_way(sender: usize) {
    let who = ["the side that may dial", "the side that may not dial"][sender];
    let mut figure = Figure::new(
        &format!("71-one-way-{sender}"),
        format!("one side may dial, {who} speaks first; how long the other takes, in ms"),
    );
    let title = |way: &OneWay| format!("{who} speaks first, {}", way.title());
    let play = |scene: &Scene, way: &OneWay| scene.pass(start(scene, &way.hosts, way.pair, sender, &FIRST), LIMIT);
    // Two at a time: for most of it they wait.
    for two in Verdict::ALL.chunks(2) {
        let Some(ways) = one_ways(two) else {
            return figure.line("SKIPPED: no network namespaces, or no firewall in them");
        };
        for (way, done) in ways.iter().zip(Scene::at_once(&ways, title, play)) {
            figure.line(format!("{:?}: {}", way.verdict, took(&done[1 - sender])));
        }
    }
}

#[test]
fn the_side_that_may_not_dial_speaks_first() {
    one_way(1);
}

#[test]
fn the_side_that_may_dial_speaks_first() {
    one_way(0);
}

/// Whoever may not dial sends, and is done: the message is there for the one who asks for it later.
#[test]
fn finalize_right_after_a_send_by_the_side_that_may_not_dial() {
    let Some(ways) = one_ways(&[Verdict::Drop, Verdict::Reset]) else { return };
    let play = |scene: &Scene, way: &OneWay| {
        scene.pass(start(scene, &way.hosts, way.pair, 1, &["finalized"]), LIMIT);
    };
    Scene::at_once(&ways, |way| format!("finalize after a send, {}", way.title()), play);
}

/// The ports that both jobs listened on, of all ranks.
fn ports(done: &[Done; 2]) -> Vec<u16> {
    done.iter().flat_map(|d| d.lines("PORT").map(|p| p.parse().expect("a port")).collect::<Vec<_>>()).collect()
}

/// A firewall that lets a few ports through, both ways.
fn through(range: &str, verdict: Verdict) -> Result<TwoHosts, String> {
    let hosts = TwoHosts::linked()?;
    (0..2).try_for_each(|host| hosts.firewall(host, &format!("tcp dport {range}"), verdict))?;
    Ok(hosts)
}

fn in_range(range: &str, verdict: Verdict, (a, b): (&Mpi, &Mpi), ranks: [usize; 2]) {
    let Some(hosts) = or_skip(through(range, verdict)) else { return };
    let scene = Scene::new(format!("ports {range}, {verdict:?}, {} and {}", a.name, b.name));
    let start = |host: usize, mpi, names: [&str; 2]| {
        let side = host.to_string();
        let launch = Launch::new(mpi, ranks[host], "reach", &[names[0], names[1], &side, "1", "waits", "any"]);
        let launch = launch.env("MPI_CONNECT_IFACE", "live0").env("MPI_CONNECT_PORTRANGE", range);
        scene.start(launch.within(&hosts.on(host)))
    };
    let done = scene.pass([start(0, a, ["air", "ocean"]), start(1, b, ["ocean", "air"])], LIMIT);
    let (low, high) = range.split_once('-').unwrap_or((range, range));
    let range: std::ops::RangeInclusive<u16> = low.parse().expect("a port")..=high.parse().expect("a port");
    let ports = ports(&done);
    scene.require(ports.len() == ranks[0] + ranks[1], &format!("{ports:?} for {ranks:?} ranks"));
    scene.require(ports.iter().all(|p| range.contains(p)), &format!("{ports:?} are not all in {range:?}"));
}

/// One port is enough for one rank on each host.
#[test]
fn a_chosen_port_ompi_12339() {
    for pair in pairs() {
        in_range("8445", Verdict::Drop, pair, [1, 1]);
    }
}

/// As many ports as ranks: each process needs one, and no more.
#[test]
fn six_ports_ompi_7130() {
    for (pair, verdict) in pairs().zip([Verdict::Reset, Verdict::Drop].into_iter().cycle()) {
        in_range("8445-8450", verdict, pair, [3, 2]);
        in_range("8445-8447", verdict, pair, [3, 2]);
    }
}

/// Fewer ports than ranks on one host: an error that says so, on every rank, at once.
#[test]
fn too_few_ports_ompi_7246() {
    let Some(hosts) = or_skip(TwoHosts::linked()) else { return };
    for iface in ["live0", "all"] {
        // One after the other: they share the ports.
        for (a, _) in pairs() {
            let scene = Scene::new(format!("too few ports, {iface}, {}", a.name));
            let launch = Launch::new(a, 3, "bad", &["unreachable", "air", "8445-8446", "one of its own"]);
            let launch = launch.env("MPI_CONNECT_IFACE", iface).env("MPI_CONNECT_PORTRANGE", "8445-8446");
            scene.pass([scene.start(launch.within(&hosts.on(0)))], LIMIT);
        }
    }
}

/// Neither may dial the other: both are told what they have tried, and why it came to nothing.
#[test]
fn both_are_told_what_was_tried_ompi_12508() {
    let whys = [
        (Verdict::Drop, "no answer"),
        (Verdict::Reset, "refused"),
        (Verdict::Unreachable, "refused"),
        (Verdict::Prohibited, "No route to host"),
    ];
    let cases = whys.map(|(verdict, why)| Some((verdict, why, or_skip(through("1", verdict))?)));
    let cases: Vec<_> = cases.into_iter().flatten().collect();
    let (a, b) = pairs().next().expect("a pair");
    // One after the other: all of them starting at once may take longer than the jobs wait for each other.
    for (verdict, why, hosts) in &cases {
        let scene = Scene::new(format!("neither may dial, {verdict:?}, {} and {}", a.name, b.name));
        let start = |host: usize, mpi, names: [&str; 2], ports: [&str; 2]| {
            let tried = format!("{}:{} {why}", ADDRESSES[1 - host], ports[1]);
            let own = format!("nor did it come to {}:{}", ADDRESSES[host], ports[0]);
            let launch = Launch::new(mpi, 1, "bad", &["told", names[0], names[1], &tried, &own]);
            let launch = launch.env("MPI_CONNECT_IFACE", "live0").env("MPI_CONNECT_PORTRANGE", ports[0]);
            scene.start(launch.env("MPI_CONNECT_TIMEOUT", "8").within(&hosts.on(host)))
        };
        let jobs = [start(0, a, ["air", "ocean"], ["4001", "4002"]), start(1, b, ["ocean", "air"], ["4002", "4001"])];
        scene.pass(jobs, LIMIT);
    }
}

/// A killed job is noticed: at once by those who may dial it, and by the others since it does not come again.
#[test]
fn the_death_of_a_job_is_noticed() {
    let mut figure = Figure::new("72-one-way-kill", "one side may dial, a job is killed: s until the other is told");
    // Each with hosts of its own.
    let mut cases = Vec::new();
    for (verdict, victim) in [(Verdict::Drop, 1), (Verdict::Drop, 0), (Verdict::Reset, 0)] {
        let Some(hosts) = or_skip(TwoHosts::one_way(0, verdict)) else {
            return figure.line("SKIPPED: no network namespaces, or no firewall in them");
        };
        cases.push((verdict, victim, hosts));
    }
    let (a, b) = pairs().next().expect("a pair");
    let kill = |scene: &Scene, (_, victim, hosts): &(Verdict, usize, TwoHosts)| {
        let survivor = 1 - *victim;
        let start = |mpi, host: usize, words: &[&str]| {
            let launch = Launch::new(mpi, 1, "bad", words).env("MPI_CONNECT_IFACE", "live0");
            scene.start(launch.within(&hosts.on(host)))
        };
        let _victim = start(a, *victim, &["lingers", "air", "ocean"]);
        let job = start(b, survivor, &["left-alone", "ocean", "air"]);
        scene.require(wait_until(LIMIT, || scene.path("lingers").exists()), "not joined");
        scene.kill("lingers");
        let [done] = scene.pass([job], LIMIT);
        done
    };
    let title = |(verdict, victim, _): &(Verdict, usize, TwoHosts)| format!("job {victim} is killed, {verdict:?}");
    for ((verdict, victim, _), done) in cases.iter().zip(Scene::at_once(&cases, title, kill)) {
        let who = ["the only one that could dial", "one that may be dialled"][*victim];
        figure.line(format!("{who}, {verdict:?}: {}", done.lines("TOLD").next().unwrap_or("?")));
    }
}
