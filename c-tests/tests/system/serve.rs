//! Jobs that find each other through naming servers.

use crate::bad_input::{bad, died};
use c_tests::net::{ADDRESSES, TwoHosts, or_skip};
use c_tests::ports::{self, By};
use c_tests::{Done, Job, Launch, Library, Mpi, Scene, command, wait_until};
use nix::sys::signal::Signal;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);
const NAMES: [&str; 2] = ["urn:site:air", "urn:site:ocean"];

/// A server of the scene, and the address that it printed.
fn serve(scene: &Scene, lease: &str) -> (Job, String) {
    scene.serve(&["--listen", &Scene::lasting_address(), "--lease", lease], &[])
}

fn half<'a>(mpi: &'a Mpi, ranks: usize, side: usize, url: &str) -> Launch<'a> {
    let arguments = [NAMES[side], NAMES[1 - side], ["0", "1"][side]];
    Launch::new(mpi, ranks, "half", &arguments)
        .env("MPI_CONNECT_NAMING", url)
        .env("MPI_CONNECT_METADATA", "grid=t63,run=7")
}

fn wait_for_name(scene: &Scene, url: &str, name: &str) {
    let held = || {
        scene
            .names_at(url)
            .lines()
            .any(|l| l.starts_with(name) && l.contains(" live ") && l.contains("grid=t63, run=7"))
    };
    scene.require(wait_until(LIMIT, held), &format!("{name} is known at {url}:\n{}", scene.names_at(url)));
}

/// Told to end, it does, and all is well with it.
fn end(scene: &Scene, server: Job) -> Done {
    server.signal(Signal::SIGTERM);
    let [done] = scene.wait([server], LIMIT);
    scene.require(done.status.success(), &format!("the server ended with {}", done.status));
    done
}

/// Every name that was claimed there has been given back.
fn gave_back(scene: &Scene, url: &str) {
    let names = scene.names_at(url);
    scene.require(names == format!("no names in {url}\n"), &format!("names are left: {names}"));
}

#[test]
fn two_jobs_meet_by_a_server() {
    for (a, b) in Mpi::ring() {
        let scene = Scene::new(format!("{} and {} by a naming server", a.name, b.name));
        let (server, address) = serve(&scene, "15");
        let url = format!("tcp://{address}");
        let jobs = [scene.start(half(a, 2, 0, &url)), scene.start(half(b, 2, 1, &url))];
        for done in scene.pass(jobs, LIMIT) {
            scene.require(done.stderr.contains(&format!(" in {url}")), "the log says where the name is");
        }
        gave_back(&scene, &url);
        let done = end(&scene, server);
        for name in NAMES {
            scene.require(done.stderr.contains(&format!("'{name}' is claimed")), "the log of the server tells of it");
        }
        scene.require(!scene.path("names").exists(), "no folder is used");
    }
}

/// The first server is dead, or is killed or stopped between one job's coming and the other's.
#[test]
fn two_jobs_meet_by_the_second_server() {
    for (a, b) in Mpi::some_couples() {
        for what in ["dead", "killed", "stopped"] {
            let scene = Scene::new(format!("{} and {}; the first naming server is {what}", a.name, b.name));
            let (first, one) = serve(&scene, "3");
            let (second, other) = serve(&scene, "3");
            let url = format!("tcp://{one},{other}");
            let hit = || first.signal(if what == "stopped" { Signal::SIGSTOP } else { Signal::SIGKILL });
            if what == "dead" {
                hit();
            }
            let air = scene.start(half(a, 1, 0, &url));
            wait_for_name(&scene, &format!("tcp://{other}"), NAMES[0]);
            if what != "dead" {
                wait_for_name(&scene, &format!("tcp://{one}"), NAMES[0]);
                hit();
            }
            let ocean = scene.start(half(b, 1, 1, &url));
            scene.pass([air, ocean], LIMIT);
            gave_back(&scene, &format!("tcp://{other}"));
            end(&scene, second);
            first.signal(Signal::SIGKILL);
            scene.wait([first], LIMIT);
        }
    }
}

/// The only server is started anew, and knows nothing, while one job waits for the other.
#[test]
fn a_server_that_has_forgotten_learns_from_whoever_waits() {
    for (a, b) in Mpi::some_couples() {
        let scene = Scene::new(format!("{} and {}; the naming server is started anew", a.name, b.name));
        let (first, address) = serve(&scene, "3");
        let url = format!("tcp://{address}");
        let air = scene.start(half(a, 1, 0, &url));
        wait_for_name(&scene, &url, NAMES[0]);
        first.signal(Signal::SIGKILL);
        scene.wait([first], LIMIT);
        let again = scene.start(Launch::alone(&command(), &["serve", "--listen", &address, "--lease", "3"]));
        wait_for_name(&scene, &url, NAMES[0]);
        let ocean = scene.start(half(b, 1, 1, &url));
        scene.pass([air, ocean], LIMIT);
        gave_back(&scene, &url);
        end(&scene, again);
    }
}

/// A job that was killed stands in nobody's way for longer than its lease.
#[test]
fn a_killed_job_is_followed() {
    for (a, b) in Mpi::some_couples() {
        let scene = Scene::new(format!("{} is killed, and comes again for {}", a.name, b.name));
        let (server, address) = serve(&scene, "2");
        let url = format!("tcp://{address}");
        let killed = scene.start(half(a, 1, 0, &url));
        wait_for_name(&scene, &url, NAMES[0]);
        scene.kill("half");
        scene.wait([killed], LIMIT);
        let jobs = [scene.start(half(a, 1, 0, &url)), scene.start(half(b, 1, 1, &url))];
        scene.pass(jobs, LIMIT);
        gave_back(&scene, &url);
        end(&scene, server);
    }
}

/// A job that ends by its own error, or by MPI_Abort, gives its names back before: they do not stay until the lease is over.
#[test]
fn a_job_that_aborts_gives_its_names_back() {
    for (a, b) in Mpi::ring() {
        for case in ["fatal-send", "abort"] {
            let scene = Scene::new(format!("{case}, {}, with {}, by a naming server", a.name, b.name));
            let (server, address) = serve(&scene, "60");
            let url = format!("tcp://{address}");
            let start =
                |mpi, arguments: [&str; 3]| scene.start(bad(mpi, 1, &arguments).env("MPI_CONNECT_NAMING", &url));
            let jobs = [start(a, [case, NAMES[0], NAMES[1]]), start(b, ["left-alone", NAMES[1], NAMES[0]])];
            let [doomed, other] = scene.wait(jobs, LIMIT);
            died(&scene, &doomed);
            scene.require(other.status.success(), "the other job was not told, or died of it");
            gave_back(&scene, &url);
            end(&scene, server);
        }
    }
}

/// On two hosts that share no folder, one of which runs the server. A first server that drops what comes is passed over.
#[test]
fn jobs_on_two_hosts_meet_by_a_server() {
    let Some(hosts) = or_skip(TwoHosts::linked()) else { return };
    for (a, b) in Mpi::some_couples() {
        let scene = Scene::new(format!("{} and {} on two hosts by a naming server", a.name, b.name));
        let (server, address) = scene.serve(&["--listen", &format!("{}:0", ADDRESSES[0])], &hosts.on(0));
        // Nobody has the first address, on a network that both have.
        let silent = ADDRESSES[0].rsplit_once('.').expect("four numbers").0.to_owned() + ".77";
        let url = format!("tcp://{silent},{address}");
        let start = |mpi, ranks, side| {
            let launch = half(mpi, ranks, side, &url).env("MPI_CONNECT_IFACE", "all");
            scene.start(launch.within(&hosts.on(side)))
        };
        scene.pass([start(a, 1, 0), start(b, 1, 1)], LIMIT);
        let done = end(&scene, server);
        scene.require(done.stderr.contains("serves who has the key "), "a server says whom it serves");
        for name in NAMES {
            scene.require(done.stderr.contains(&format!("'{name}' is released")), "each name is given back");
        }
    }
}

/// MPI's own ports, published by several ranks and looked up by several.
#[test]
fn published_ports_are_found() {
    for (a, b) in Mpi::some_couples() {
        let scene = Scene::new(format!("ports of {} published for {} by two naming servers", a.name, b.name));
        let (first, one) = serve(&scene, "3");
        let (second, other) = serve(&scene, "3");
        let url = format!("tcp://{one},{other}");
        let pair = ports::pair(&scene, a, b, By::Name, Library::Preloaded);
        let jobs = pair.map(|launch| scene.start(launch.env("MPI_CONNECT_NAMING", &url)));
        scene.pass(jobs, LIMIT);
        for server in [first, second] {
            let done = end(&scene, server);
            scene.require(done.stderr.contains("' is released"), "each server knew the names");
        }
    }
}

/// A bad value is told of by the call that uses it.
#[test]
fn bad_metadata_is_an_error() {
    for (a, _) in Mpi::some_couples() {
        let scene = Scene::new(format!("{} with bad metadata", a.name));
        let launch = Launch::new(a, 1, "half", &[NAMES[0], NAMES[1], "0"]).env("MPI_CONNECT_METADATA", "grid");
        let [done] = scene.wait([scene.start(launch)], LIMIT);
        let said = format!("{}{}", done.stdout, done.stderr);
        scene.require(said.contains("MPI_CONNECT_METADATA: 'grid' is not of the form key=value"), &said);
    }
}

/// Without any server, the call that needs one fails, and says why.
#[test]
fn without_a_server_there_is_an_error() {
    for (a, _) in Mpi::some_couples() {
        let scene = Scene::new(format!("{} without a naming server", a.name));
        let [done] = scene.wait([scene.start(half(a, 1, 0, "tcp://127.0.0.1:1"))], LIMIT);
        let said = format!("{}{}", done.stdout, done.stderr);
        scene.require(said.contains("no naming server answers: 127.0.0.1:1: "), &said);
    }
}
