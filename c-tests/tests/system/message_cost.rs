//! How many instructions a small message takes at either side: a guard, which a slower path trips at once and a busy machine never.

use crate::native::counting;
use c_tests::{Figure, Launch, Library, MPIS, Mpi, Scene, compile, library};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

/// The most instructions of one message of 8 bytes over shared memory, in the calling thread: a blocking send; MPI_Isend and its part of
/// a Waitall; a blocking receive of a message that has come before; the same after 256 such receives without a wait; MPI_Irecv
/// and its part of a Waitall, with all that it takes to read the message. At most a tenth more than was counted; of the last, another thread
/// sometimes reads a part.
const MOST: [(&str, i64); 5] = [("Send", 530), ("Isend", 690), ("Recv", 505), ("Recv_on", 505), ("Irecv", 1040)];
/// How many messages a dump of twice as many has more.
const N: i64 = 256;
/// Launches at most. On a busy machine each dump of a launch can have a part of the slower way (see [`Least`]).
const LAUNCHES: usize = 3;
/// The steps by which instructions are told, in the order of a message, each with what its functions are called: what is inlined
/// counts where it is. The first that has a function counts it.
const STEPS: [(&str, &[&str]); 6] = [
    // The arguments, and which inter-communicator it is.
    ("entry", &["entry::table::"]),
    // The lock; the request and the operation, or the message with its data in a slot; a receive that looks for its message.
    ("begin", &["entry::quick::", "::send_now"]),
    // A slot of the ring, the lane and the path.
    ("look", &["node::round::", "node::polled::", "session::", "transports::", "wire::"]),
    // The receive that it is for, its data, the credit.
    ("match, copy", &["engine::", "node::", "alloc::collections"]),
    ("complete", &["entry::complete::"]),
    ("others", &[]),
];

/// Instructions by step.
type Steps = [i64; STEPS.len()];
/// Those of a message, for each call.
type Budget = BTreeMap<String, Steps>;

fn step(function: &str) -> usize {
    STEPS.iter().position(|(_, named)| named.iter().any(|name| function.contains(name))).unwrap_or(STEPS.len() - 1)
}

/// What the first thread did, by callgrind's dumps of N messages of a call and of 2N. Of the dumps of a call the least counts: in the others the
/// library's own thread had run meanwhile, after which a caller takes the lock by the slower way for a while.
type Least = BTreeMap<(String, bool), Steps>;

/// Reads the dumps of a launch. A function has its name where a dump of any thread first has it, and its number alone from there on.
fn read(out: &Path, least: &mut Least) {
    let mut names = BTreeMap::new();
    for part in 1.. {
        for thread in 1.. {
            let Ok(text) = std::fs::read_to_string(format!("{}.{part}-{thread:02}", out.display())) else {
                if thread == 1 {
                    return;
                }
                break;
            };
            let trigger = text.lines().find_map(|line| line.strip_prefix("desc: Trigger: Client Request: "));
            let [call, times, _] = trigger.expect("a label").split(' ').collect::<Vec<_>>()[..] else {
                panic!("{trigger:?}: a call, how often, and beside what")
            };
            let sums = sums(&text, &mut names);
            if thread == 1 {
                let known = least.entry((call.to_owned(), times == "twice")).or_insert(sums);
                if sums.iter().sum::<i64>() < known.iter().sum() {
                    *known = sums;
                }
            }
        }
    }
}

/// What N messages of each call took.
fn budget(least: &Least) -> Budget {
    let once = |call: &String| least[&(call.clone(), false)];
    let twice = least.iter().filter(|((_, is_twice), _)| *is_twice);
    twice.map(|((call, _), sums)| (call.clone(), difference(*sums, once(call)))).collect()
}

/// Instructions of one message. Rounded: the odd instruction is the dump's own.
fn each(sum: i64) -> i64 {
    (sum + N / 2) / N
}

fn difference(more: Steps, less: Steps) -> Steps {
    std::array::from_fn(|i| more[i] - less[i])
}

/// The instructions of a dump, by step: each function's own.
fn sums(text: &str, names: &mut BTreeMap<String, String>) -> Steps {
    let (mut sums, mut at, mut is_call) = ([0; STEPS.len()], STEPS.len() - 1, false);
    for line in text.lines() {
        let function = line.strip_prefix("fn=").or_else(|| line.strip_prefix("cfn="));
        if let Some((number, name)) = function.map(|said| said.split_once(' ').unwrap_or((said, ""))) {
            if !name.is_empty() {
                names.insert(number.to_owned(), name.to_owned());
            }
            if line.starts_with("fn=") {
                at = step(names.get(number).map_or("", String::as_str));
            }
        } else if line.starts_with("calls=") {
            // The line behind it has what was called.
            is_call = true;
        } else if line.starts_with(|first: char| first.is_ascii_digit() || "+-*".contains(first)) {
            let own = line.split(' ').nth(1).and_then(|count| count.parse::<i64>().ok()).unwrap_or(0);
            if !std::mem::take(&mut is_call) {
                sums[at] += own;
            }
        }
    }
    sums
}

#[test]
fn a_small_message_takes_few_instructions() {
    let title = "instructions of a message of 8 bytes over shared memory, by the steps that take them";
    let mut figure = Figure::new("63-message-instructions", title);
    // The library's own are the same under each MPI; but LAM makes calls by public names, which would be counted too.
    let mpi: &Mpi = MPIS.iter().find(|mpi| mpi.name != "lam").unwrap_or(&MPIS[0]);
    let all = |budget: &Budget, call| each(budget[call].iter().sum());
    let (mut least, mut launch) = (Least::new(), 0);
    let budget = loop {
        launch += 1;
        measure(mpi, launch, &mut least);
        let budget = budget(&least);
        if launch == LAUNCHES || MOST.iter().all(|(call, most)| all(&budget, *call) <= *most) {
            break budget;
        }
    };
    let head = [""].into_iter().chain(STEPS.map(|(step, _)| step)).chain(["all", "at most"]);
    let mut rows = vec![head.map(String::from).collect::<Vec<_>>()];
    let mut beyond = Vec::new();
    for (call, most) in MOST {
        let all = all(&budget, call);
        let numbers = budget[call].map(each).into_iter().chain([all, most]);
        rows.push(std::iter::once(format!("MPI_{call}")).chain(numbers.map(|n| n.to_string())).collect());
        if all > most {
            beyond.push(format!("MPI_{call}: {all} instead of {most}"));
        }
    }
    figure.table(&rows);
    assert!(beyond.is_empty(), "{beyond:#?}");
}

/// One launch beside its partner.
fn measure(mpi: &Mpi, launch: usize, least: &mut Least) {
    let scene = Scene::new(format!("instructions of messages, {}, launch {launch}", mpi.name));
    let partner = scene.start(Launch::new(mpi, 1, "message_cost", &["partner"]));
    let out = scene.path("counted");
    let program = compile(mpi, "message_cost", Library::Preloaded);
    let done = counting(&scene, mpi, &program, &out, Some(library())).wait_with_output().expect("valgrind");
    scene.require(done.status.success(), &String::from_utf8_lossy(&done.stderr));
    scene.pass([partner], LIMIT);
    read(&out, least);
}
