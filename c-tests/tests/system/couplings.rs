//! `mpi-connect names` shows who is joined with whom, from the joining to the end of either side.

use c_tests::{Job, Launch, Mpi, Scene, wait_until};
use nix::sys::signal::Signal;
use std::fs;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

/// What there is at a server or, as its user sees it, in the folder of the scene.
fn listed(scene: &Scene, url: &str) -> String {
    scene.names_at(url)
}

fn is_listed(scene: &Scene, url: &str) -> bool {
    listed(scene, url).lines().any(|l| l.starts_with("air - ocean  coupling  live   2 - 1  "))
}

/// Two jobs that are joined, without names.
fn joined(scene: &Scene, a: &Mpi, b: &Mpi, url: &str) -> [Job; 2] {
    let place = |name: &str| scene.path(name).to_str().expect("plain text").to_owned();
    let start = |mpi, ranks, mine: &str, theirs: &str| {
        let own = [format!("{mine}-joined"), "free".into(), format!("{mine}-freed"), "end".into()].map(|n| place(&n));
        let arguments = [&[mine, theirs][..], &own.each_ref().map(String::as_str)].concat();
        scene.start(Launch::new(mpi, ranks, "coupled", &arguments).env("MPI_CONNECT_NAMING", url))
    };
    let jobs = [start(a, 2, "air", "ocean"), start(b, 1, "ocean", "air")];
    let all = || ["air-joined", "ocean-joined"].iter().all(|sign| scene.path(sign).exists());
    scene.require(wait_until(LIMIT, all), "both have joined, and given their names back");
    // At a server the next renewal tells of it.
    scene.require(
        wait_until(LIMIT, || is_listed(scene, url)),
        &format!("the coupling is listed:\n{}", listed(scene, url)),
    );
    scene.require(listed(scene, url).lines().count() == 2, &format!("nothing else is:\n{}", listed(scene, url)));
    jobs
}

fn until_freed(scene: &Scene, a: &Mpi, b: &Mpi, url: &str) {
    let jobs = joined(scene, a, b, url);
    fs::write(scene.path("free"), "").expect("a sign");
    let freed = || ["air-freed", "ocean-freed"].iter().all(|sign| scene.path(sign).exists());
    scene.require(wait_until(LIMIT, freed), "both have freed it");
    scene.require(!is_listed(scene, url), &format!("it is over, and not listed:\n{}", listed(scene, url)));
    fs::write(scene.path("end"), "").expect("a sign");
    scene.pass(jobs, LIMIT);
    scene.require(listed(scene, url) == format!("no names in {url}\n"), &listed(scene, url));
}

#[test]
fn a_coupling_is_listed_until_it_is_freed() {
    for (a, b) in Mpi::some_couples() {
        let scene = Scene::new(format!("{} and {} are seen joined in a folder", a.name, b.name));
        until_freed(&scene, a, b, &scene.naming());
    }
}

#[test]
fn a_coupling_is_listed_by_a_server() {
    for (a, b) in Mpi::some_couples() {
        let scene = Scene::new(format!("{} and {} are seen joined at a server", a.name, b.name));
        let (server, address) = scene.serve(&["--listen", "127.0.0.1:0", "--lease", "3"], &[]);
        until_freed(&scene, a, b, &format!("tcp://{address}"));
        server.signal(Signal::SIGTERM);
        scene.wait([server], LIMIT);
    }
}

#[test]
fn a_coupling_ends_with_its_jobs() {
    for (a, b) in Mpi::some_couples() {
        let scene = Scene::new(format!("{} and {} are seen joined until they are killed", a.name, b.name));
        let url = scene.naming();
        let jobs = joined(&scene, a, b, &url);
        scene.kill("coupled");
        scene.wait(jobs, LIMIT);
        scene
            .require(wait_until(LIMIT, || !is_listed(&scene, &url)), &format!("it is gone:\n{}", listed(&scene, &url)));
    }
}

/// Told once, by rank 0 alone.
#[test]
fn settings_that_mean_nothing_are_told_by_the_library() {
    for (a, b) in Mpi::some_couples() {
        let scene = Scene::new(format!("{} with settings that mean nothing", a.name));
        let start = |mpi, mine, theirs, side| {
            let launch = Launch::new(mpi, 2, "half", &[mine, theirs, side]);
            scene.start(launch.env("MPI_CONNECT_TIMEOT", "5").env("MPI_CONNECT_ADOPT", "yes"))
        };
        for done in scene.pass([start(a, "air", "ocean", "0"), start(b, "ocean", "air", "1")], LIMIT) {
            let text = "] MPI_CONNECT_ADOPT=yes means nothing: one of 0, 1 is expected; MPI_CONNECT_TIMEOT means nothing; \
                        MPI_CONNECT_TIMEOUT was perhaps meant";
            let told = done.stderr.lines().filter(|l| l.starts_with('[') && l.contains(text)).count();
            scene.require(told == 1, &format!("told {told} times:\n{}", done.stderr));
        }
    }
}
