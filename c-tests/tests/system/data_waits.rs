//! Who waits for data for more than a minute says what it waits for, and whether the other side is alive and what that waits
//! for: by default settings, and at the real time.

use crate::waiting::{BY_DEFAULT, said};
use c_tests::{Job, Launch, Mpi, Scene, wait_until, width};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::time::Duration;

/// A notice comes after a minute; all of them wait beside each other.
const NOTICE: Duration = Duration::from_secs(60);
/// For starting them all, and for what comes after.
const LIMIT: Duration = Duration::from_secs(60);

/// What the two jobs of a pair do, and what each says; `MINE` and `THEIRS` are names, `N s` is a time.
struct Case {
    name: &'static str,
    does: [&'static str; 2],
    says: [Option<&'static str>; 2],
}

const CASES: [Case; 3] = [
    Case {
        name: "deadlock",
        does: ["receive", "ssend"],
        says: [
            Some(
                "MPI_Recv has waited N s for a message from rank 0 of 'THEIRS' with tag 5; rank 0 of 'THEIRS' is alive, and waits \
                 itself: MPI_Ssend has waited N s for rank 0 of 'MINE' to receive what was sent with tag 6",
            ),
            Some(
                "MPI_Ssend has waited N s for rank 0 of 'THEIRS' to receive what was sent with tag 6; rank 0 of 'THEIRS' is alive, \
                 and waits itself: MPI_Recv has waited N s for a message from rank 0 of 'MINE' with tag 5",
            ),
        ],
    },
    Case {
        name: "stopped",
        does: ["wait", "stopped"],
        says: [
            Some(
                "MPI_Wait has waited N s for a message from rank 0 of 'THEIRS' with any tag; rank 0 of 'THEIRS' is connected, but \
                 has not answered for N s: it may be stopped, or its host not reachable",
            ),
            None,
        ],
    },
    Case {
        name: "busy",
        does: ["probe", "busy"],
        says: [
            Some(
                "MPI_Probe has waited N s for a message from rank 0 of 'THEIRS' with tag 3; rank 0 of 'THEIRS' is alive, and is in \
                 no call that waits for another job",
            ),
            None,
        ],
    },
];

struct Pair {
    case: &'static Case,
    names: [String; 2],
    mpis: [&'static Mpi; 2],
    jobs: [Job; 2],
}

impl Pair {
    fn start(scene: &Scene, case: &'static Case, mpis: [&'static Mpi; 2]) -> Pair {
        let names = [0, 1].map(|i| format!("{}-{}-{}-{i}", case.name, mpis[0].sign, mpis[1].sign));
        let start = |mine: usize| {
            let arguments = [&names[mine], &names[1 - mine], case.does[mine]];
            scene.start(Launch::new(mpis[mine], 1, "data_waits", &arguments).envs(&[BY_DEFAULT]))
        };
        Pair { case, mpis, jobs: [start(0), start(1)], names }
    }

    /// What is to be said by one side, and what was.
    fn lines(&self, mine: usize) -> (Vec<String>, Vec<String>) {
        let (name, other) = (&self.names[mine], &self.names[1 - mine]);
        let right = self.case.says[mine].map(|text| text.replace("MINE", name).replace("THEIRS", other));
        let told = self.jobs[mine].complained();
        // On a busy machine the other job may have registered late, which is said too.
        let of_data =
            said(&told, &format!("{name} 0")).into_iter().filter(|said| !said.contains("nobody has registered"));
        (right.into_iter().collect(), of_data.map(without_times).collect())
    }

    /// Something has been said by all who are to say it.
    fn has_spoken(&self) -> bool {
        [0, 1].iter().all(|mine| {
            let (right, told) = self.lines(*mine);
            told.len() >= right.len()
        })
    }
}

/// `60 s` becomes `N s`.
fn without_times(text: &str) -> String {
    let words: Vec<_> = text.split(' ').collect();
    let has_unit = |i: usize| words.get(i + 1).is_some_and(|next| next.trim_end_matches([';', ':']) == "s");
    words
        .iter()
        .enumerate()
        .map(|(i, word)| if word.parse::<u64>().is_ok() && has_unit(i) { "N" } else { word })
        .collect::<Vec<_>>()
        .join(" ")
}

#[test]
fn who_waits_for_data_for_a_minute_says_so() {
    // Each MPI in a deadlock, and in one of the others.
    let few = Mpi::couples().enumerate().flat_map(|(i, pair)| [(0, pair), (1 + i % 2, pair)]).collect::<Vec<_>>();
    let all = (0..CASES.len()).flat_map(|case| Mpi::ring().map(move |pair| (case, pair))).collect();
    let chosen = width::otherwise(few, all, "each kind of a long wait with each MPI on either side");
    let scene = Scene::new(format!("{} pairs wait for data for a minute", chosen.len()));
    let pairs: Vec<_> = chosen.iter().map(|(case, (a, b))| Pair::start(&scene, &CASES[*case], [a, b])).collect();
    wait_until(NOTICE + LIMIT, || pairs.iter().all(Pair::has_spoken));
    for pair in &pairs {
        for mine in [0, 1] {
            let (right, told) = pair.lines(mine);
            let what = format!("{} under {}: {told:#?}\nnot {right:#?}", pair.names[mine], pair.mpis[mine].name);
            scene.require(told == right, &what);
        }
    }
    // Those who can, end well; a deadlock ends with the scene.
    for pair in pairs.iter().filter(|pair| pair.case.name != "deadlock") {
        let name = &pair.names[1];
        std::fs::write(scene.path(&format!("go-{name}")), "").expect("a sign");
        if pair.case.name == "stopped" {
            for pid in scene.processes(name) {
                kill(Pid::from_raw(pid), Signal::SIGCONT).expect("a process of ours");
            }
        }
    }
    for pair in pairs.into_iter().filter(|pair| pair.case.name != "deadlock") {
        scene.pass(pair.jobs, LIMIT);
    }
}
