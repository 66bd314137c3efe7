//! Programs that know nothing of other jobs, and tools above and below the library.

use c_tests::{
    Done, Figure, Launch, Library, MPIS, Mpi, Scene, WAYS, compile, compile_fortran, compile_tool, library, width,
};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);
/// Instructions that the library may add to a native call while no inter-communicator exists, and with ten.
const ADDED: i64 = 5;
const ADDED_JOINED: i64 = 15;
/// With ten, for a look at 64 requests.
fn looking() -> i64 {
    // One for each of the blocks of 32 bytes, and as many around them; or three for each of sixteen bytes, the loop, and the way to it.
    if std::is_x86_feature_detected!("avx2") { 32 - ADDED_JOINED } else { 160 }
}

#[test]
fn native_program_prints_the_same() {
    let mut figure = Figure::new("60-native", "a native program with and without the library: same output");
    for &mpi in MPIS.iter() {
        for ranks in width::otherwise(vec![4], vec![2, 4], "native programs on 2 ranks") {
            let scene = Scene::new(format!("native program, {} {ranks}", mpi.name));
            let program = compile(mpi, "native", Library::None);
            let launch = |library| Launch::of(mpi, ranks, program.clone(), library, &[]);
            let without = scene.start(launch(Library::None));
            let [without] = scene.pass([without], LIMIT);
            // Once by `run`, which may log; once by the launcher alone, which must say nothing at all.
            let by_run = scene.start(launch(Library::Preloaded));
            let [by_run] = scene.pass([by_run], LIMIT);
            let alone = scene.start(launch(Library::None).preloading(vec![library()]));
            let [alone] = scene.pass([alone], LIMIT);
            for with in [&by_run, &alone] {
                scene.require(
                    with.stdout == without.stdout,
                    &format!("output differs; without:\n{}\nwith:\n{}", without.stdout, with.stdout),
                );
            }
            scene.require(alone.stderr == without.stderr, "the library prints to stderr unasked");
            figure.line(format!("{} {ranks} ranks: {} lines", mpi.name, without.stdout.lines().count()));
        }
    }
}

/// What a tool counted, by (tool, rank) and call: on the world, and on others.
type Counts = BTreeMap<(String, String), BTreeMap<String, (u64, u64)>>;

fn counts(done: &Done) -> Counts {
    let mut all = Counts::new();
    for line in done.stderr.lines().filter_map(|l| l.strip_prefix("COUNT ")) {
        let mut words = line.split_whitespace().map(str::to_owned);
        let key = (words.next().expect("a tool"), words.next().expect("a rank"));
        let calls = words.map(|w| {
            let (name, n) = w.split_once('=').expect("name=world+other");
            let (world, other) = n.split_once('+').expect("world+other");
            (name.to_owned(), (world.parse().expect("a number"), other.parse().expect("a number")))
        });
        all.insert(key, calls.collect());
    }
    all
}

/// Whether the MPI calls itself by MPI names, so that a tool sees more than the program's calls: as many with the
/// library as without, but how many once joined is the MPI's affair.
fn calls_itself(mpi: &Mpi) -> bool {
    mpi.name == "lam"
}

/// Times that the program makes a call in one round of `native()` of counted.c, by rank.
fn native_round(call: &str, rank: &str) -> u64 {
    const N: u64 = 25;
    match call {
        "Send" | "Probe" => N * u64::from(rank == "0"),
        "Ssend" => N * u64::from(rank == "1"),
        "Wait" => N / 2 * 2,
        "Waitall" => N.div_ceil(2),
        _ => N,
    }
}

/// Times that the program makes a call in one round of `ours()`, on the inter-communicator.
fn our_round(call: &str, rank: &str) -> u64 {
    match call {
        "Sendrecv" | "Iprobe" | "Comm_rank" => 25,
        "Send" | "Recv" => 25 * u64::from(rank == "0"),
        _ => 0,
    }
}

/// A tool on either side, or on both, sees each native call once, and our calls still work.
#[test]
fn tools_above_and_below() {
    let mut figure = Figure::new("61-tools", "a PMPI tool above and below the library: calls seen, each once");
    for &mpi in MPIS.iter() {
        let above = compile_tool(mpi, "pmpi_count", "above");
        let below = compile_tool(mpi, "pmpi_count", "below");
        let ours = library();
        for (label, stack) in [
            ("above", vec![above.clone(), ours.clone()]),
            ("below", vec![ours.clone(), below.clone()]),
            ("above and below", vec![above.clone(), ours.clone(), below.clone()]),
        ] {
            if calls_itself(mpi) {
                let scene = Scene::new(format!("tools {label}, {}, with the library and without", mpi.name));
                let alone = counts(&under_tools(&scene, mpi, mpi, "counted", std::slice::from_ref(&above), false));
                let with = counts(&under_tools(&scene, mpi, mpi, "counted", &stack, false));
                scene.require(with.len() == 2 * (stack.len() - 1), &format!("tools heard: {:?}", with.keys()));
                for ((tool, rank), seen) in &with {
                    let alone = &alone[&("above".to_owned(), rank.clone())];
                    scene.require(seen == alone, &format!("{tool}, rank {rank}: {seen:?}, not {alone:?}"));
                }
                figure.line(format!("{}, tool {label}: as without the library", mpi.name));
                continue;
            }
            for joined in [false, true] {
                let other = MPIS.iter().find(|m| m.name != mpi.name).unwrap_or(&mpi);
                let scene = Scene::new(format!("tools {label}, {}, joined {joined}", mpi.name));
                let done = under_tools(&scene, mpi, other, "counted", &stack, joined);
                let counts = counts(&done);
                scene.require(counts.len() == 2 * (stack.len() - 1), &format!("tools heard: {:?}", counts.keys()));
                let mut seen = 0;
                for ((tool, rank), calls) in &counts {
                    for (call, &(world, others)) in calls {
                        let once = u64::from(matches!(call.as_str(), "Comm_rank" | "Comm_size")); // in main
                        let want = native_round(call, rank) * if joined { 3 } else { 1 } + once;
                        scene.require(
                            world == want,
                            &format!("{tool}, rank {rank}: {world} MPI_{call} on the world, not {want}"),
                        );
                        // Below, the library's own work on communicators of its own is its own affair.
                        let want = if joined { our_round(call, rank) * 2 } else { 0 };
                        scene.require(
                            tool == "below" || others == want,
                            &format!("{tool}, rank {rank}: {others} MPI_{call} on ours, not {want}"),
                        );
                        seen += world + others;
                    }
                }
                figure.line(format!(
                    "{}, tool {label}{}: {seen}",
                    mpi.name,
                    if joined { ", with an inter-communicator" } else { "" }
                ));
            }
        }
    }
}

/// Runs `program` under `mpi` with these libraries preloaded, alone or joined with one under `other`.
fn under_tools(scene: &Scene, mpi: &Mpi, other: &Mpi, program: &str, stack: &[PathBuf], joined: bool) -> Done {
    let arguments: &[&str] = if joined { &["air", "ocean"] } else { &[] };
    let path = compile(mpi, program, Library::Preloaded);
    let launch = Launch::of(mpi, 2, path, Library::Preloaded, arguments).preloading(stack.to_vec());
    let watched = scene.start(launch);
    if joined {
        let peer = scene.start(Launch::new(other, 2, program, &["ocean", "air"]));
        let [done, _] = scene.pass([watched, peer], LIMIT);
        done
    } else {
        let [done] = scene.pass([watched], LIMIT);
        done
    }
}

/// A tool asks the MPI by PMPI names while it holds its own lock, in a wrapper of a call that is not in our table.
#[test]
fn tool_that_asks_under_its_lock() {
    const N: u64 = 25;
    for (mpi, other) in Mpi::couples() {
        let tool = |title| compile_tool(mpi, "pmpi_lock", title);
        for stack in [vec![library(), tool("below")], vec![tool("above"), library()]] {
            for joined in [false, true] {
                let tools: Vec<_> = stack.iter().filter_map(|p| p.file_stem()?.to_str()).collect();
                let scene = Scene::new(format!("locking tool, {} {tools:?}, joined {joined}", mpi.name));
                let done = under_tools(&scene, mpi, other, "locked", &stack, joined);
                let counts = counts(&done);
                scene.require(counts.len() == 2, &format!("tools heard: {:?}", counts.keys()));
                for ((tool, rank), calls) in &counts {
                    for (call, &(world, others)) in calls {
                        let ours = if joined && call == "Send" && tool == "above" { N } else { 0 };
                        scene.require(
                            (world, others) == (N, ours) || calls_itself(mpi),
                            &format!("{tool}, rank {rank}: {world}+{others} MPI_{call}, not {N}+{ours}"),
                        );
                    }
                }
            }
        }
    }
}

/// Starts what counts the instructions of each call, by callgrind's dumps of N and 2N of it.
pub fn counting(scene: &Scene, mpi: &Mpi, program: &Path, out: &Path, preload: Option<PathBuf>) -> Child {
    let mut words = mpi.session();
    // Not into what the session itself consists of.
    words.push("env".into());
    words.extend(preload.map(|path| format!("LD_PRELOAD={}", path.display())));
    words.extend(["valgrind", "--tool=callgrind", "--separate-threads=yes"].map(String::from));
    words.push(format!("--callgrind-out-file={}", out.display()));
    words.push(program.display().to_string());
    let mut command = mpi.command(&words);
    command
        .env("MPI_CONNECT_TEST_DIR", &scene.folder)
        .env("MPI_CONNECT_NAMING", scene.naming())
        .env("MPI_CONNECT_KEY", format!("file:{}", scene.key().display()))
        .env("MPI_CONNECT_TIMEOUT", "60");
    command.env_remove("LD_PRELOAD").stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("valgrind")
}

/// Instructions by call and by whether there are inter-communicators.
type Costs = BTreeMap<(String, String), i64>;

fn costs(scene: &Scene, out: &Path, counting: Child) -> Costs {
    const N: i64 = 2000;
    let done = counting.wait_with_output().expect("valgrind");
    scene.require(done.status.success(), &String::from_utf8_lossy(&done.stderr));
    let mut totals: BTreeMap<(String, String, bool), i64> = BTreeMap::new();
    for part in 1.. {
        // What the first thread did, and no other.
        let Ok(text) = std::fs::read_to_string(format!("{}.{part}-01", out.display())) else {
            break;
        };
        let field = |name: &str| text.lines().find_map(|l| l.strip_prefix(name)).map(str::trim);
        let trigger = field("desc: Trigger: Client Request:").expect("a label");
        let [call, times, joined] = trigger.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{trigger}: a call, how often, and beside what")
        };
        let total: i64 = field("totals:").and_then(|t| t.parse().ok()).expect("a total");
        totals.insert((call.into(), joined.into(), times == "twice"), total - of_the_allocator(&text));
    }
    let labels: Vec<_> = totals.keys().filter(|k| k.2).map(|k| (k.0.clone(), k.1.clone())).collect();
    let total = |(call, joined): &(String, String), twice| totals[&(call.clone(), joined.clone(), twice)];
    // Rounded: the odd instruction is the dump's own.
    labels.into_iter().map(|l| (l.clone(), (total(&l, true) - total(&l, false) + N / 2) / N)).collect()
}

/// What the calls of the allocator took, by a dump. How long one searches depends on what was freed before; and LAM has an
/// allocator of its own, which does not serve with the library (docs/design.md).
fn of_the_allocator(dump: &str) -> i64 {
    let is_one =
        |f: &str| matches!(f, "malloc" | "calloc" | "realloc" | "free") || f.starts_with("mpi_connect::heap::");
    let mut names = BTreeMap::new();
    // A name follows its number where the number is new.
    let mut name = |text: &str| {
        let (number, name) = text.split_once(')').expect("a number");
        names.entry(number.to_owned()).or_insert_with(|| name.trim().to_owned()).clone()
    };
    let (mut caller, mut callee, mut total) = (String::new(), String::new(), 0);
    let mut lines = dump.lines();
    while let Some(line) = lines.next() {
        match line.split_once('=') {
            Some(("fn", text)) => caller = name(text),
            Some(("cfn", text)) => callee = name(text),
            Some(("calls", _)) => {
                let cost = lines.next().and_then(|l| l.split(' ').nth(1)).and_then(|c| c.parse().ok());
                let cost: i64 = cost.expect("what the calls took");
                total += if is_one(&callee) && !is_one(&caller) { cost } else { 0 };
            }
            _ => {}
        }
    }
    total
}

/// How many of the library's entries a call passes: more than one where the MPI makes calls by public names.
fn passed(mpi: &Mpi, language: &str, call: &str) -> i64 {
    match (mpi.name, language, call) {
        // Its Fortran layer asks by a call which request an INTEGER means, and which INTEGER a request has.
        ("openmpi4", "mpif.h", "Isend" | "Wait") => 2,
        ("openmpi4", "mpif.h", "Waitall") => 1 + 64,
        // Its collectives are made of sends and receives; these look after what is pending, not always equally often.
        ("lam", _, "Isend") => 2,
        ("lam", _, "Waitall") => 3,
        ("lam", _, "Allreduce") => 7,
        _ => 1,
    }
}

/// How often a program is measured again because a native communicator shares a place of the filter with one of ours,
/// which takes each call to the table behind. Ten of its 4,096 places are taken, and a handle that is an address falls
/// on another one in each process: one process in 400.
const MOST_UNLUCKY: usize = 1;

/// The instructions that the library adds to one native call.
struct Added {
    native: i64,
    /// With no inter-communicator.
    none: i64,
    /// With ten.
    ten: i64,
    /// How many entries the call passes.
    entries: i64,
    /// The room for looking at an array.
    looking: i64,
}

impl Added {
    fn most(&self) -> i64 {
        ADDED * self.entries
    }
    fn most_joined(&self) -> i64 {
        ADDED_JOINED * self.entries + self.looking
    }
}

/// Counts each of these calls in a program with and without the library.
fn each_call(mpi: &'static Mpi, language: &str, program: &Path, calls: &[&str]) -> Vec<Added> {
    let scene = Scene::new(format!("instructions, {} {language}", mpi.name));
    let partner = scene.start(Launch::new(mpi, 1, "cost", &["partner"]));
    // At the same time, which instructions do not tell.
    let [with, without] = [Some(library()), None]
        .map(|preload| {
            let out = scene.path(if preload.is_some() { "with" } else { "without" });
            (counting(&scene, mpi, program, &out, preload), out)
        })
        .map(|(counting, out)| costs(&scene, &out, counting));
    scene.pass([partner], LIMIT);
    let count = |call: &&str| {
        let of = |costs: &Costs, joined: &str| costs[&(call.to_string(), joined.to_owned())];
        let [none, ten] = ["none", "ten"].map(|joined| of(&with, joined) - of(&without, joined));
        let entries = passed(mpi, language, call);
        // Of the 65 entries in Open MPI's Fortran one looks at the array.
        let looking = if *call == "Waitall" { looking() * entries.min(3) } else { 0 };
        Added { native: of(&without, "none"), none, ten, entries, looking }
    };
    calls.iter().map(count).collect()
}

/// What the library adds to a native call: a jump while no inter-communicator exists; with ten, a look at each argument
/// that might be ours.
#[test]
fn instructions_added_per_call() {
    const CALLS: [&str; 7] = ["Comm_rank", "Send", "Recv", "Isend", "Wait", "Waitall", "Allreduce"];
    let mut figure = Figure::new(
        "62-instructions",
        format!(
            "instructions of a native call / added with no inter-communicator (at most {ADDED} for each entry that it \
             passes) / with ten (at most {ADDED_JOINED}, and {} more for 64 requests)",
            looking()
        ),
    );
    let mut rows = vec![[""].iter().chain(&CALLS).map(|s| s.to_string()).collect::<Vec<_>>()];
    let mut beyond = Vec::new();
    // The second: where a call passes more entries than one.
    let (mut most, mut most_looking) = ([0, 0], [None::<i64>; 2]);
    for &mpi in MPIS.iter() {
        let c = [("C", compile(mpi, "cost", Library::Preloaded))];
        let way = &WAYS[0];
        let fortran = way.is_in(mpi).then(|| {
            (way.name, compile_fortran(mpi, way, "cost", Library::None).unwrap_or_else(|said| panic!("{said}")))
        });
        for (language, program) in c.into_iter().chain(fortran) {
            let mut unlucky = 0;
            let added = loop {
                let added = each_call(mpi, language, &program, &CALLS);
                let shares_a_place = |a: &Added| a.ten > a.most_joined() && a.none <= a.most();
                if unlucky == MOST_UNLUCKY || !added.iter().any(shares_a_place) {
                    break added;
                }
                unlucky += 1;
            };
            if unlucky > 0 {
                figure.line(format!("{} {language}: measured {} times", mpi.name, unlucky + 1));
            }
            let mut row = vec![format!("{} {language}", mpi.name)];
            for (call, cost) in CALLS.iter().zip(&added) {
                let Added { native, none, ten, entries, looking } = *cost;
                if looking == 0 {
                    let each = |added: i64| (added + entries - 1) / entries;
                    most = [most[0].max(each(none)), most[1].max(each(ten))];
                } else {
                    let at = usize::from(entries > 1);
                    most_looking[at] = most_looking[at].max(Some(ten));
                }
                if none > cost.most() || ten > cost.most_joined() {
                    beyond.push(format!("{} {language} MPI_{call}: {none:+}, {ten:+}", mpi.name));
                }
                row.push(format!("{native} {none:+} {ten:+}"));
            }
            rows.push(row);
        }
    }
    figure.table(&rows);
    let [none, ten] = most;
    let looking = most_looking.map(|most| most.map_or("-".into(), |most| format!("{most:+}")));
    figure.line(format!(
        "most for one entry: {none:+} with none, {ten:+} with ten; for 64 requests {}, where its MPI makes calls in it {}",
        looking[0], looking[1]
    ));
    assert!(beyond.is_empty(), "{beyond:#?}");
}
