//! MPI_Comm_spawn under another MPI: parents and children join, whatever may go wrong is an error of MPI_Comm_spawn, and nothing is
//! left of children whose parents are gone.

use crate::fortran;
use crate::launch::{table, table_of};
use c_tests::python;
use c_tests::{Done, Job, Launch, Library, MPIS, Mpi, Scene, compile, wait_until};
use std::fs;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(90);

/// Starts parents whose children run under these MPIs.
fn parents(scene: &Scene, mpi: &Mpi, ranks: usize, [child, grandchild]: [&Mpi; 2], case: &str, children: usize) -> Job {
    let jobs = [("child", child), ("grandchild", grandchild)];
    let tables = jobs.map(|(name, mpi)| table(scene, mpi, name, 1, "spawning", &[], "")).concat();
    fs::write(scene.path("spawn.toml"), tables).expect("a manifest");
    scene.meet(mpi, child);
    scene.start(Launch::new(mpi, ranks, "spawning", &["parent", case, &children.to_string()]))
}

/// Nothing of the scene is left, however deep.
fn leaves_nothing(scene: &Scene) {
    let left = || scene.processes("spawning").len() + scene.processes("launch-").len();
    let is_left = !wait_until(Duration::from_secs(20), || left() == 0);
    scene.require(!is_left, &format!("processes are left: {:?}", scene.processes("")));
}

fn passes(title: &str, sizes: [usize; 2], mpis: [&Mpi; 3], case: &str) -> Done {
    let [parent, child, grandchild] = mpis;
    let [ranks, children] = sizes;
    let scene = Scene::new(format!("{title}: {ranks} ranks of {} start {children} of {}", parent.name, child.name));
    let job = parents(&scene, parent, ranks, [child, grandchild], case, children);
    let [done] = scene.pass([job], LIMIT);
    leaves_nothing(&scene);
    scene.require(!scene.path("failures").exists(), &fs::read_to_string(scene.path("failures")).unwrap_or_default());
    done
}

/// In LAM's session all of it runs where one of them is LAM's.
#[test]
fn parents_and_children_meet_twice() {
    for (at, (parent, child)) in Mpi::wide().into_iter().enumerate() {
        let sizes = [[1, 3], [3, 1], [3, 2], [1, 1]][at % 4];
        passes("twice", sizes, [parent, child, child], "twice");
    }
}

/// The words of a launcher, without the number of ranks.
fn launcher(mpi: &Mpi) -> String {
    let words = mpi.launcher(&[], &[], 1);
    let environment = mpi.environment().into_iter().map(|(name, value)| format!("{name}='{value}'"));
    let own = words[..words.len() - 2].iter().map(|word| format!("'{word}'"));
    std::iter::once("env".to_owned()).chain(environment).chain(own).collect::<Vec<_>>().join(" ")
}

#[test]
fn a_launcher_is_enough() {
    for (parent, child) in Mpi::couples() {
        for (parent, child) in [(parent, child), (child, parent)] {
            let scene = Scene::new(format!("launcher: {} starts children of {}", parent.name, child.name));
            let program = compile(child, "spawning", Library::Preloaded).display().to_string();
            let words = ["parent", "launcher", "2", &launcher(child), &program];
            let job = Launch::new(parent, 2, "spawning", &words);
            scene.meet(parent, child);
            scene.pass([scene.start(job)], LIMIT);
            leaves_nothing(&scene);
        }
    }
}

/// Each process is a world of its own then, and the first of them is not the job.
#[test]
fn a_launcher_of_another_mpi_than_the_program_is_an_error() {
    let [Some(a), Some(b)] = ["mpich4", "openmpi4"].map(Mpi::by_name) else { return println!("SKIPPED: needs both") };
    for (parent, child) in [(a, b), (b, a)] {
        let scene = Scene::new(format!("the launcher of {} and a program of {}", child.name, parent.name));
        let program = compile(parent, "spawning", Library::Preloaded).display().to_string();
        let job = Launch::new(parent, 2, "spawning", &["parent", "stranger", "2", &launcher(child), &program]);
        scene.pass([scene.start(job)], LIMIT);
        leaves_nothing(&scene);
    }
}

/// Where the MPI's own spawn works, it does with the library too.
#[test]
fn without_keys_it_is_the_mpis_own() {
    for mpi in MPIS.iter() {
        let scene = Scene::new(format!("native: {}", mpi.name));
        let works = |library| {
            let program = compile(mpi, "spawning", library).display().to_string();
            let job = Launch::with(mpi, 2, "spawning", library, &["parent", "native", "1", "-", &program]);
            let [done] = scene.try_wait([scene.start(job)], Duration::from_secs(20)).ok()?;
            (done.status.success() && done.stdout.contains("failures 0")).then_some(())
        };
        let alone = works(Library::None).is_some();
        scene.kill("spawning");
        println!("-- {}: spawn by itself: {alone}", mpi.name);
        if alone {
            scene.require(works(Library::Preloaded).is_some(), "it works with the library too");
        }
    }
}

/// In each way of Fortran, with its own words for what is left out; MPI_Conn_notify beside it.
#[test]
fn fortran_spawns_and_is_told() {
    let title = "Fortran that spawns C under another MPI, and is told of names, 2 ranks: values checked, all right";
    fortran::table("18-fortran-spawn", title, "spawning", Library::Linked, |mpi, way, program| {
        let other = Mpi::by_name(if mpi.name.starts_with("openmpi") { "mpich4" } else { "openmpi4" });
        let other = other.expect("an MPI of the table");
        let scene = Scene::new(format!("{} {} spawns {}", way.name, mpi.name, other.name));
        let manifest = scene.path("spawn.toml");
        let jobs = [("child", &[][..]), ("plain", &["child", "plain"][..])];
        let tables = jobs.map(|(name, words)| table(&scene, other, name, 1, "spawning", words, "")).concat();
        fs::write(&manifest, tables).expect("a manifest");
        let manifest = manifest.display().to_string();
        let [done] = scene.pass([scene.start(Launch::of(mpi, 2, program, Library::Linked, &[&manifest]))], LIMIT);
        leaves_nothing(&scene);
        done.checks().to_string()
    });
}

#[test]
fn python_spawns_python_and_is_told() {
    let able: Vec<&Mpi> = MPIS.iter().copied().filter(|mpi| python::works_with(mpi).is_ok()).collect();
    for (at, parent) in able.iter().enumerate() {
        let child = able[(at + 1) % able.len()];
        let scene = Scene::new(format!("Python: {} spawns {}", parent.name, child.name));
        let manifest = scene.path("spawn.toml");
        let mut words: Vec<String> = python::words("spawning.py").into();
        words.push("child".into());
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let environment: Vec<_> =
            python::environment(child, &scene).into_iter().map(|(n, v)| (n.to_owned(), v)).collect();
        fs::write(&manifest, table_of(&scene, child, "python", 1, &words, &environment, "")).expect("a manifest");
        let manifest = manifest.display().to_string();
        let parents = python::launch(parent, 2, "spawning.py", Library::Preloaded, &["parent", &manifest], &scene);
        scene.pass([scene.start(parents.expect("mpi4py works with it"))], LIMIT);
        leaves_nothing(&scene);
    }
}

#[test]
fn a_child_is_a_parent_itself() {
    for (parent, child) in Mpi::some_couples() {
        passes("again", [1, 2], [parent, child, parent], "again");
    }
}

#[test]
fn several_commands_make_one_job() {
    for (parent, child) in Mpi::couples() {
        passes("multiple", [2, 2], [parent, child, child], "multiple");
        passes("multiple", [1, 1], [child, parent, parent], "multiple");
    }
}

#[test]
fn what_cannot_be_started_is_an_error() {
    for (parent, child) in Mpi::some_couples() {
        passes("missing", [3, 2], [parent, child, child], "missing");
    }
}

#[test]
fn who_never_calls_mpi_init_is_an_error() {
    for (parent, child) in Mpi::couples() {
        passes("silent", [2, 1], [parent, child, child], "silent");
    }
}

/// Its processes are ended, since nobody waits for them any more.
#[test]
fn who_comes_to_mpi_init_too_late_is_ended() {
    for (parent, child) in Mpi::some_couples() {
        passes("late", [1, 2], [parent, child, child], "late");
    }
}

#[test]
fn a_child_that_aborts_is_gone_for_its_parents() {
    for (parent, child) in Mpi::some_couples() {
        passes("aborts", [2, 2], [parent, child, child], "aborts");
    }
}

#[test]
fn children_end_with_their_parents() {
    for (parent, child) in Mpi::couples() {
        for (parent, child) in [(parent, child), (child, parent)] {
            let scene = Scene::new(format!("killed: {}, and its children of {} end", parent.name, child.name));
            let job = parents(&scene, parent, 2, [child, child], "killed", 2);
            let ready = || (0..2).all(|rank| scene.path(&format!("kill-me-{rank}")).exists());
            scene.require(wait_until(LIMIT, ready), "parents and children have met");
            scene.kill("spawning-preloaded\0parent\0");
            leaves_nothing(&scene);
            scene.wait([job], LIMIT);
            scene.require(!scene.path("failures").exists(), "checks have failed");
        }
    }
}

/// The parents are gone when the children go on.
fn go_on(case: &str, child_case: &str) {
    for (parent, child) in Mpi::some_couples() {
        let scene = Scene::new(format!("{case}: children of {} outlive parents of {}", child.name, parent.name));
        let job = parents(&scene, parent, 1, [child, child], case, 2);
        // Its launcher may wait for the children, who have its output.
        scene.require(wait_until(LIMIT, || scene.path("finalized").exists()), "the parents come to their end");
        fs::write(scene.path("parents-are-gone"), "").expect("the scene's folder");
        let done = scene.path(&format!("{child_case}-is-done"));
        scene.require(wait_until(LIMIT, || done.exists()), "the children come to their end");
        scene.require(fs::read_to_string(done).is_ok_and(|text| text == "well\n"), "it is a good one");
        leaves_nothing(&scene);
        scene.pass([job], LIMIT);
    }
}

#[test]
fn children_that_have_parted_go_on_alone() {
    go_on("outlived", "outlives");
}

#[test]
fn children_of_parents_that_finalize_go_on_alone() {
    go_on("finalizes", "alone");
}
