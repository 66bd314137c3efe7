//! Firewalls between the jobs: only one side may dial, or only some ports are open. Each forbids by silence, by a reset, and
//! by ICMP.

use c_tests::net::{TwoHosts, Verdict, or_skip};
use c_tests::{Done, Figure, Job, Launch, Mpi, Scene};
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

/// What took longest, of both jobs.
fn took(done: &[Done; 2]) -> String {
    let times = |d: &Done| d.lines("TOOK").map(|l| l.trim_end_matches(" ms").replace(' ', ": ")).collect::<Vec<_>>();
    done[1].title.clone() + " " + &times(&done[1]).join(", ")
}

const FIRST: [&str; 6] = ["asks-late", "waits", "any", "tests", "iprobes", "computes"];

/// Host 0 lets nobody in, so the jobs meet by what it dials itself. Whoever speaks first, and however the other listens.
fn one_way(sender: usize) {
    let who = ["the side that may dial", "the side that may not dial"][sender];
    let mut figure = Figure::new(&format!("71-one-way-{sender}"), format!("one side may dial; {who} speaks first; ms"));
    for (verdict, pair) in Verdict::ALL.into_iter().zip(pairs().collect::<Vec<_>>().into_iter().cycle()) {
        let Some(hosts) = or_skip(TwoHosts::linked().and_then(|h| h.firewall(0, "", verdict).map(|()| h))) else {
            return figure.line("SKIPPED: no network namespaces, or no firewall in them");
        };
        let scene = Scene::new(format!("{who} speaks first, {verdict:?}, {} and {}", pair.0.name, pair.1.name));
        let done = scene.pass(start(&scene, &hosts, pair, sender, &FIRST), LIMIT);
        figure.line(format!("{verdict:?}: {}", took(&done)));
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
    for (verdict, pair) in
        [Verdict::Drop, Verdict::Reset].into_iter().zip(pairs().collect::<Vec<_>>().into_iter().cycle())
    {
        let Some(hosts) = or_skip(TwoHosts::linked().and_then(|h| h.firewall(0, "", verdict).map(|()| h))) else {
            return;
        };
        let scene = Scene::new(format!("finalize after a send, {verdict:?}, {} and {}", pair.0.name, pair.1.name));
        scene.pass(start(&scene, &hosts, pair, 1, &["finalized"]), LIMIT);
    }
}
