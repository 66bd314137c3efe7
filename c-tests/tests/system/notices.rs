//! MPI_Conn_notify: who is told of names, of all MPIs, with a folder and with a server.

use c_tests::{Launch, Mpi, Scene, wait_until};
use std::fs;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(90);

/// The job that is told has two ranks; others come, leave and die. `naming`: where, if not in the scene's folder.
fn told(scene: &Scene, watcher: Launch<'static>, other: &'static Mpi, naming: Option<&str>) {
    let at = |launch: Launch<'static>| match naming {
        Some(url) => launch.env("MPI_CONNECT_NAMING", url),
        None => launch,
    };
    let watcher = scene.start(at(watcher));
    let all = |sign: &str| (0..2).all(|rank| scene.path(&format!("{sign}-{rank}")).exists());
    scene.require(wait_until(LIMIT, || all("watches")), "the job watches");
    let come = |name: &str| scene.start(at(Launch::new(other, 1, "notices", &["come", name])));
    let (leaves, _dies) = (come("ice-a"), come("ice-b"));
    scene.require(wait_until(LIMIT, || all("has-seen")), "it was told who has come");
    scene.kill("notices-preloaded\0come\0ice-b");
    fs::write(scene.path("leave-ice-a"), "").expect("the scene's folder");
    let wind = come("wind");
    scene.pass([leaves, watcher], LIMIT);
    fs::write(scene.path("leave-wind"), "").expect("the scene's folder");
    scene.pass([wind], LIMIT);
}

#[test]
fn who_joins_leaves_and_dies_is_told() {
    for (a, b) in Mpi::couples() {
        let scene = Scene::new(format!("notices: {} is told of jobs of {}", a.name, b.name));
        told(&scene, Launch::new(a, 2, "notices", &["watch"]), b, None);
    }
}

#[test]
fn a_server_tells_too() {
    for (a, b) in Mpi::some_couples() {
        let scene = Scene::new(format!("notices by a server: {} is told of jobs of {}", a.name, b.name));
        let (_server, address) = scene.serve(&["--listen", "127.0.0.1:0"], &[]);
        told(&scene, Launch::new(a, 2, "notices", &["watch"]), b, Some(&format!("tcp://{address}")));
    }
}
