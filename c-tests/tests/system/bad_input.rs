//! Wrong arguments, absent peers, unusable folders, ends that come too soon: each is told clearly.

use c_tests::{Done, Figure, Launch, Library, MPIS, Mpi, Scene};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

pub fn bad<'a>(mpi: &'a Mpi, ranks: usize, arguments: &[&str]) -> Launch<'a> {
    Launch::new(mpi, ranks, "bad", arguments)
}

/// Runs one job that must end well.
fn alone(scene: &Scene, launch: Launch<'_>) -> Done {
    let [done] = scene.pass([scene.start(launch)], LIMIT);
    done
}

/// Runs one job that must die of its error, and gives what it said.
fn dies(scene: &Scene, launch: Launch<'_>) -> Done {
    let [done] = scene.wait([scene.start(launch)], LIMIT);
    died(scene, &done);
    done
}

/// LAM's launcher reports success of a single process that its MPI ended, or that had finalized.
pub fn died(scene: &Scene, done: &Done) {
    let told = !done.status.success() || done.title.starts_with("lam-");
    scene.require(told, "the job ended well in spite of its error");
    scene.require(!done.stdout.contains("SURVIVED"), "the call came back");
}

#[test]
fn wrong_arguments() {
    for &mpi in MPIS.iter() {
        for ranks in [1, 2] {
            alone(&Scene::new(format!("wrong arguments, {} {ranks}", mpi.name)), bad(mpi, ranks, &["arguments"]));
        }
    }
}

#[test]
fn name_held_by_a_live_job() {
    for (a, b) in Mpi::ring() {
        let scene = Scene::new(format!("a name held by a live job, {} and {}", a.name, b.name));
        let holder = scene.start(bad(a, 1, &["hold", "air"]));
        scene.wait_for_name("air");
        let second = scene.start(bad(b, 2, &["taken", "air"]));
        scene.pass([holder, second], LIMIT);
        // Given back, it is free.
        alone(&scene, bad(b, 1, &["hold", "air"]));
    }
}

#[test]
fn peer_that_never_comes() {
    let mut figure = Figure::new("20-never", "a peer that never comes, limit 2 s: told after");
    let title = |mpi: &&Mpi| format!("a peer that never comes, {}", mpi.name);
    let play = |scene: &Scene, mpi: &&'static Mpi| {
        let folder = scene.path("names").display().to_string();
        let launch = bad(mpi, 2, &["never", "godot", &folder, "2"]).env("MPI_CONNECT_TIMEOUT", "2");
        scene.pass([scene.start(launch)], LIMIT)
    };
    for (mpi, [done]) in MPIS.iter().zip(Scene::at_once(&MPIS, title, play)) {
        figure.line(format!("{}: {}", mpi.name, done.lines("FIGURE never").next().expect("a time")));
    }
}

#[test]
fn unusable_naming_folder() {
    for &mpi in MPIS.iter() {
        let scene = Scene::new(format!("an unusable naming folder, {}", mpi.name));
        let file = scene.path("a-file");
        std::fs::write(&file, "not a folder").expect("a file");
        for path in [file.display().to_string(), format!("{}/below", file.display()), "/proc/nowhere".into()] {
            // `run` would name another folder: this one is for the job to find out.
            let launch = Launch::with(mpi, 2, "bad", Library::Linked, &["nowhere", &path]);
            alone(&scene, launch.env("MPI_CONNECT_NAMING", &format!("file:{path}")));
        }
    }
}

/// What cannot be started now may be another time.
#[test]
fn no_descriptors_for_a_moment() {
    for &mpi in MPIS.iter() {
        alone(&Scene::new(format!("no descriptors for a moment, {}", mpi.name)), bad(mpi, 1, &["no-descriptors"]));
    }
}

#[test]
fn naming_that_is_no_url() {
    for &mpi in MPIS.iter() {
        let scene = Scene::new(format!("naming that is no URL, {}", mpi.name));
        for url in ["carrier-pigeon://coop", "file:"] {
            let said = if url == "file:" { "file:" } else { url };
            let launch = Launch::with(mpi, 1, "bad", Library::Linked, &["nowhere", said]);
            alone(&scene, launch.env("MPI_CONNECT_NAMING", url));
        }
    }
}

/// A setting that is wrong on one rank alone: all are told the same, and none waits for the others.
#[test]
fn naming_that_one_rank_cannot_read() {
    for &mpi in MPIS.iter() {
        for rank in ["0", "1", "2"] {
            let scene = Scene::new(format!("naming that is no URL on rank {rank} alone, {}", mpi.name));
            alone(&scene, bad(mpi, 3, &["half-set", rank, "MPI_CONNECT_NAMING", "carrier-pigeon://coop"]));
        }
    }
}

#[test]
fn interface_that_one_rank_has_not() {
    for &mpi in MPIS.iter() {
        let scene = Scene::new(format!("no such interface on rank 1 alone, {}", mpi.name));
        let done = alone(&scene, bad(mpi, 3, &["half-set", "1", "MPI_CONNECT_IFACE", "eth99"]));
        scene.require(!done.stdout.contains("ANSWER 0"), "registered without an interface");
    }
}

#[test]
fn calls_before_init_and_after_finalize() {
    for &mpi in MPIS.iter() {
        for when in ["before-init", "after-finalize"] {
            let scene = Scene::new(format!("{when}, {}", mpi.name));
            let done = dies(&scene, bad(mpi, 1, &[when]));
            let said = format!("{}{}", done.stderr, done.stdout);
            scene.require(said.contains("MPI_Conn_register"), &format!("stderr does not name the call:\n{said}"));
            let when = if when == "before-init" { "before" } else { "after" };
            scene.require(said.to_lowercase().contains(when), &format!("stderr does not say when:\n{said}"));
        }
    }
}

#[test]
fn errors_are_fatal_by_default() {
    for &mpi in MPIS.iter() {
        dies(&Scene::new(format!("fatal by default, {}", mpi.name)), bad(mpi, 2, &["fatal"]));
    }
}

/// Errors that end a job, and what is said of them.
const FATAL: [(&str, &str); 3] = [
    ("fatal-send", "MPI_Send: there is no rank 77 in job 'THEIRS', whose ranks here are 0 to 0"),
    (
        "fatal-truncate",
        "MPI_Recv: the message from rank 0 of job 'THEIRS' with tag 0 has 4 bytes, and the buffer only 0",
    ),
    (
        "fatal-refused",
        "MPI_Allreduce is not available on an inter-communicator between jobs; do it in each job, let ranks 0 swap results by \
         MPI_Sendrecv, and spread them. What works: docs/coverage.md",
    ),
];

/// Our text is there once; the MPI prints what it prints around it, and the other job is told.
#[test]
fn fatal_errors_are_told_once() {
    for (a, b) in Mpi::ring() {
        let scene = Scene::new(format!("fatal on an inter-communicator, {}, with {}", a.name, b.name));
        let start = |(case, text): &(&'static str, &str)| {
            let [mine, theirs] = ["air", "ocean"].map(|name| format!("{name}-{case}"));
            let doomed = scene.start(bad(a, 1, &[case, &mine, &theirs]).env("MPI_CONNECT_LOG", ""));
            let told = format!("[{mine} 0@{}] {}\n", base::ident::host(), text.replace("THEIRS", &theirs));
            (told, [doomed, scene.start(bad(b, 1, &["left-alone", &theirs, &mine]))])
        };
        for (told, jobs) in FATAL.iter().map(start).collect::<Vec<_>>() {
            let [doomed, other] = scene.wait(jobs, LIMIT);
            died(&scene, &doomed);
            scene.require(other.status.success(), "the other job was not told, or died of it");
            let said = format!("{}{}", doomed.stdout, doomed.stderr);
            let text = told.split_once("] ").map_or("", |(_, text)| text.trim_end());
            let times = [said.matches(&told).count(), said.matches(text).count()];
            scene.require(times == [1, 1], &format!("{times:?} times '{told}' in:\n{said}"));
        }
    }
}

/// Their headers have no MPI_ERRORS_ABORT.
const WITHOUT_ABORT: [&str; 2] = ["openmpi4", "lam"];

#[test]
fn errors_abort() {
    for &a in MPIS.iter().filter(|m| !WITHOUT_ABORT.contains(&m.name)) {
        let scene = Scene::new(format!("MPI_ERRORS_ABORT, {}", a.name));
        let doomed = scene.start(bad(a, 1, &["abort-send", "air", "ocean"]));
        let other = scene.start(bad(a, 1, &["left-alone", "ocean", "air"]));
        let [doomed, other] = scene.wait([doomed, other], LIMIT);
        died(&scene, &doomed);
        scene.require(other.status.success(), "the other job was not told, or died of it");
    }
}

#[test]
fn error_handler_is_inherited() {
    for (a, b) in Mpi::some_couples() {
        let scene = Scene::new(format!("inherited handlers, {} and {}", a.name, b.name));
        let jobs = [
            scene.start(bad(a, 1, &["inherits", "air", "ocean"])),
            scene.start(bad(b, 1, &["inherits", "ocean", "air"])),
        ];
        scene.pass(jobs, LIMIT);
    }
}

/// A job that finalizes with everything still open: all that it sent arrives.
#[test]
fn finalize_with_messages_and_handles_open() {
    for (a, b) in Mpi::ring() {
        let scene = Scene::new(format!("Finalize with messages open, {} to {}", a.name, b.name));
        let jobs =
            [scene.start(bad(a, 1, &["leaves", "air", "ocean"])), scene.start(bad(b, 1, &["stays", "ocean", "air"]))];
        scene.pass(jobs, LIMIT);
    }
}

/// What a killed job leaves in the naming folder neither blocks the next of that name nor misleads its peer.
#[test]
fn leftovers_of_a_killed_job() {
    for (a, b) in Mpi::some_couples() {
        let scene = Scene::new(format!("leftovers of a killed job, {} and {}", a.name, b.name));
        let mut killed = scene.start(bad(a, 2, &["hold", "air"]));
        scene.wait_for_name("air");
        scene.kill("hold");
        // The launcher is killed with its ranks.
        scene.require(killed.poll().is_none_or(|s| !s.success()), "the killed job ended well");
        // The peer comes first, so it finds what the dead one left.
        let ocean = scene.start(bad(b, 1, &["joins", "ocean", "air"]));
        scene.wait_for_name("ocean");
        let air = scene.start(bad(a, 1, &["joins", "air", "ocean"]));
        scene.pass([ocean, air], LIMIT);
    }
}

/// What an earlier launcher, killed, left in the machine's temporary folder under the same process number does not keep
/// a job of the tests from starting.
#[test]
fn leftovers_of_a_killed_launcher() {
    for mpi in MPIS.iter().filter(|mpi| mpi.name == "openmpi5") {
        let scene = Scene::new(format!("leftovers of a killed launcher, {}", mpi.name));
        // All the way to the launcher each command replaces the one before, so its process number is the shell's.
        let script = format!(
            "f=/tmp/ompi.$$; h=$(uname -n); echo $f > {0}/place; mkdir -p $f; touch $f/pmix.${{h%%.*}}.tool; \
             chown -R --reference={0} $f; exec \"$@\"",
            scene.folder.display()
        );
        let before = ["sh", "-c", &script, "sh"].map(String::from);
        let [done] = scene.wait([scene.start(bad(mpi, 1, &["arguments"]).within(&before))], LIMIT);
        let place = std::fs::read_to_string(scene.path("place")).expect("the shell has written it");
        // A launcher that took the folder for its own has removed it.
        let _ = std::fs::remove_dir_all(place.trim());
        scene.require(done.status.success(), "the launcher did not start");
    }
}

/// A peer that was killed after it had registered and before it joined is not waited for beyond the limit.
#[test]
fn peer_killed_before_it_joins() {
    let play = |scene: &Scene, (a, b): &(&'static Mpi, &'static Mpi)| {
        let _victim = scene.start(bad(b, 1, &["hold", "ocean"]));
        scene.wait_for_name("ocean");
        let launch = bad(a, 1, &["orphan", "air", "ocean", "3"]).env("MPI_CONNECT_TIMEOUT", "3");
        let survivor = scene.start(launch);
        scene.wait_for_name("air");
        scene.kill("hold");
        scene.pass([survivor], LIMIT);
    };
    let couples: Vec<_> = Mpi::some_couples().collect();
    Scene::at_once(&couples, |(a, _)| format!("killed before it joins, {}", a.name), play);
}
