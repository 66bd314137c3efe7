//! What inter-communicators take, they give back: memory, descriptors, threads, communicators, files. Valgrind's word on
//! it.

use c_tests::rounds::{growth, rounds};
use c_tests::{Figure, Launch, Library, Mpi, Scene, compile, library, width};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(1200);

/// What an MPI itself leaves behind, in bytes a round, as its runs without the library show: LAM always; MPICH 4 in about
/// every second process, for each datatype that is committed (of its UCX).
const OWN: [(&str, i64); 2] = [("lam", 64), ("mpich4", 136)];

/// What may be there beyond what the MPI itself leaves behind, in KiB, whatever the number of rounds. Resident: pages of which
/// little is used. Allocated: tables that are filled up to their limits (names, proofs and waits of jobs), and memory that the engine
/// keeps for the next unexpected message (`MOST_BYTES` of engine/src/spare.rs): a message of 98 KiB that is late in one round is
/// enough for that, and whether one is depends on how busy the machine is.
const RESIDENT: i64 = 512;
const TABLES: i64 = 128;
const SPARE: i64 = 256;
const ALLOCATED: i64 = TABLES + SPARE;

/// malloc keeps no blocks for each thread's next calls: it counts these as allocated, up to 236 KiB a thread, and beside busy programs there are more.
const EXACT: [(&str, &str); 1] = [("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0")];

/// The rounds after which one looks, all of them, and every how many one side has a name of the round's own. One never looks
/// in a round with such a name, nor soon after: its connection ends a little later.
fn plan(rounds: u32) -> [String; 3] {
    let every = (rounds / 100).max(8);
    let even = |n: u32| (n - n % every).max(every);
    [even(rounds / 10), even(rounds), every].map(|n| n.to_string())
}

/// How much grows when the same calls are made in the MPI without the library.
fn of_the_mpi(mpi: &Mpi, rounds: u32) -> (i64, i64) {
    let scene = Scene::new(format!("{rounds} rounds of {} alone", mpi.name));
    let [first, all, _] = plan(rounds);
    let arguments = ["control", "-", "0", &first, &all, "0"];
    let launch = Launch::with(mpi, 1, "rounds", Library::None, &arguments).envs(&EXACT);
    let [done] = scene.pass([scene.start(launch)], LIMIT);
    growth(&scene, &done)
}

/// So many rounds in a couple, on so many ranks a side.
fn couple(figure: &mut Figure, a: &Mpi, b: &Mpi, rounds: u32, ranks: usize) {
    let scene = Scene::new(format!("{rounds} rounds on {ranks}: {}, {}", a.name, b.name));
    let [first, all, every] = plan(rounds);
    let start = |mpi, names: [&str; 3]| {
        let words = [&names[..], &[&first, &all, &every]].concat();
        scene.start(Launch::new(mpi, ranks, "rounds", &words).envs(&EXACT))
    };
    let done = scene.pass([start(a, ["air", "ocean", "0"]), start(b, ["ocean", "air", "1"])], LIMIT);
    let grown = done.each_ref().map(|d| growth(&scene, d));
    let before: Vec<_> = done.iter().map(|d| d.stdout.clone()).collect();
    drop(scene);
    for ((mpi, grown), printed) in [a, b].into_iter().zip(grown).zip(before) {
        let own = of_the_mpi(mpi, rounds);
        figure.line(format!(
            "{} on {ranks}, {first} to {all} rounds: {:+} KiB resident, {:+} allocated (without the library {:+}, {:+})",
            mpi.name, grown.0, grown.1, own.0, own.1
        ));
        let known =
            OWN.iter().find(|(name, _)| *name == mpi.name).map_or(0, |(_, bytes)| bytes * i64::from(rounds) / 1024);
        // On two ranks MPICH 4 was once seen with thrice as much; most runs have none of it.
        let known = if ranks > 1 { 3 * known } else { known };
        for (who, (resident, allocated)) in [("with", grown), ("without", own)] {
            assert!(
                resident <= known + RESIDENT && allocated <= known + ALLOCATED,
                "{}: {who} the library memory grew by {resident} KiB, {allocated} allocated\n{printed}",
                mpi.name
            );
        }
    }
}

#[test]
fn nothing_is_left_of_many_rounds() {
    let title = "memory after N/10 and N rounds of create, use, free; no more descriptors; equal: threads, communicators, files";
    let mut figure = Figure::new("18-rounds", title);
    // The first couple goes all the way; so many rounds show the same of the others.
    let first = width::otherwise(1_000, 10_000, "10,000 rounds of the first couple, not 1,000");
    let others = width::otherwise(500, 1_500, "1,500 rounds of the others, not 500");
    let on_two = width::otherwise(400, 1_000, "1,000 rounds on two ranks, not 400");
    for (i, (a, b)) in Mpi::some_couples().enumerate() {
        couple(&mut figure, a, b, rounds(if i == 0 { first } else { others }), 1);
    }
    for (a, b) in Mpi::couples().take(1) {
        couple(&mut figure, a, b, rounds(on_two), 2);
    }
}

/// The frames of a report of valgrind's, innermost first, without those of allocators and of libc.
fn frames(report: &str) -> impl Iterator<Item = &str> {
    let frame = |l: &str| l.trim_start().starts_with("at ") || l.trim_start().starts_with("by ");
    let beneath = ["vgpreload", "libc.so", "(syscall-template.S", "(epoll_", "(eventfd", "nptl/", "sysdeps/"];
    report.lines().filter(move |l| frame(l) && !beneath.iter().any(|b| l.contains(b)))
}

/// Reports about what the library itself did: not what the MPI did for a call that passed through it.
fn ours(log: &str) -> Vec<String> {
    let plain: Vec<_> = log.lines().map(|l| l.splitn(3, "==").nth(2).unwrap_or(l).trim_end()).collect();
    let text = plain.join("\n");
    let reports = text.split("\n\n").map(str::trim);
    reports.filter(|r| frames(r).next().is_some_and(|f| f.contains("libmpi_connect.so"))).map(String::from).collect()
}

/// The process under valgrind is MPICH 4's: nothing of ours is used wrongly, lost, or left open but the two descriptors that
/// live as long as the process. Open MPI and LAM have too much to say of their own.
#[test]
fn valgrind_finds_nothing_of_ours() {
    let Some(mpi) = c_tests::MPIS.iter().find(|m| m.name == "mpich4") else {
        println!("-- no valgrind: mpich4 was not asked for");
        return;
    };
    let mut figure = Figure::new("19-valgrind", "memcheck over rounds of create, use, free");
    let scene = Scene::new("rounds under valgrind");
    // What each round leaves is seen after few of them.
    let [first, all, every] =
        width::otherwise([80, 160, 8].map(|n| n.to_string()), plan(rounds(800)), "800 rounds under valgrind, not 160");
    let program = compile(mpi, "rounds", Library::Preloaded).display().to_string();
    let log = format!("--log-file={}", scene.path("valgrind.%p").display());
    let words = [
        "--tool=memcheck",
        "--leak-check=full",
        // "Possibly lost" are tables that are held by a pointer into them, as Rust's are.
        "--show-leak-kinds=definite,indirect",
        "--track-fds=yes",
        "--num-callers=40",
        "--error-limit=no",
        &log,
        &program,
        "air",
        "ocean",
        "0",
        &first,
        &all,
        &every,
    ];
    let watched = Launch::of(mpi, 1, "/usr/bin/valgrind".into(), Library::None, &words)
        .preloading(vec![library()])
        .env("MPI_CONNECT_NAMING", &scene.naming());
    let peer = Launch::new(mpi, 1, "rounds", &["ocean", "air", "1", &first, &all, &every]);
    scene.pass([scene.start(watched), scene.start(peer)], LIMIT);
    let logs = std::fs::read_dir(&scene.folder).expect("the scene's folder").filter_map(|e| {
        let path = e.ok()?.path();
        path.file_name()?.to_str()?.starts_with("valgrind.").then(|| std::fs::read_to_string(path).expect("a log"))
    });
    let reports: Vec<_> = logs.flat_map(|log| ours(&log)).collect();
    let (open, wrong): (Vec<_>, Vec<_>) =
        reports.into_iter().partition(|r| r.lines().any(|l| l.trim_start().starts_with("Open ")));
    scene.require(wrong.is_empty(), &format!("valgrind says:\n{}", wrong.join("\n\n")));
    // That they are told shows that reports about the library are seen.
    scene.require(
        open.len() == 3,
        &format!("the node's epoll, its eventfd and its board should be open, and are:\n{}", open.join("\n\n")),
    );
    figure.line(format!("{}, {all} rounds: no error, no leak, no descriptor of ours", mpi.name));
}
