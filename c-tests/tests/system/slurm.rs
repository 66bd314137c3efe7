//! Coupled jobs as steps of Slurm: by the command lines of docs/slurm.md, which the test reads, and by `mpi-connect launch`.

use c_tests::width::otherwise;
use c_tests::{Done, Launch, Library, Mpi, Scene, command, compile, root, user};
use std::fs;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(120);

/// Each Slurm has the same ports, so one is there at a time.
fn one_at_a_time() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Words that run a command beside a Slurm of its own.
fn node() -> [String; 1] {
    assert!(user::is_other(), "a Slurm of our own needs root");
    [root().join("c-tests/slurm-node").display().to_string()]
}

/// The block of docs/slurm.md under this heading, for the programs of the test.
fn commands(heading: &str) -> String {
    let page = std::fs::read_to_string(root().join("docs/slurm.md")).expect("docs/slurm.md");
    let (_, section) = page.split_once(&format!("## {heading}\n")).expect("the heading");
    let block = section.lines().skip_while(|l| !l.starts_with("    ")).take_while(|l| l.starts_with("    "));
    let program = |name| {
        let mpi = Mpi::by_name(name).expect("an MPI of Debian's");
        compile(mpi, "pair", Library::Preloaded).display().to_string()
    };
    let [air, ocean] = ["openmpi4", "mpich4"].map(program);
    block
        .map(|line| {
            line.trim()
                .replace("mpi-connect ", &format!("{} ", command().display()))
                .replace("./air", &format!("{air} air ocean 0 queries send types"))
                .replace("./ocean", &format!("{ocean} ocean air 1 queries send types"))
        })
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn steps_as_the_page_says() {
    if !otherwise(false, true, "two steps of one Slurm allocation, and a heterogeneous job, under two MPIs") {
        return;
    }
    let _one = one_at_a_time();
    for (heading, allocation) in [
        ("Two MPIs in one allocation", &["salloc", "-N", "2", "-n", "4"][..]),
        ("A heterogeneous job", &["salloc", "-n", "2", ":", "-n", "2"]),
    ] {
        let scene = Scene::new(format!("Slurm: {heading}"));
        let text = commands(heading);
        let words = [&allocation[1..], &["bash", "-ec", text.as_str()]].concat();
        let job = Launch::alone(allocation[0].as_ref(), &words).within(&node());
        let [done] = scene.pass([scene.start(job)], LIMIT);
        let ended = done.lines("DONE").count();
        scene.require(ended == 2, &format!("{ended} halves have ended, of two; printed:\n{}", done.stdout));
    }
}

/// A manifest of two jobs of two ranks, Open MPI's and MPICH's, with these keys; and the command that launches it.
fn manifest(scene: &Scene, program: &str, words: [&str; 2], keys: [&str; 2]) -> String {
    let job = |at: usize| {
        let [name, mpi, pmi] = [["air", "openmpi4", "pmix"], ["ocean", "mpich4", "pmi2"]][at];
        let program = compile(Mpi::by_name(mpi).expect("an MPI of Debian's"), program, Library::Preloaded);
        let words: Vec<_> = words[at].split(' ').map(|word| format!("{word:?}")).collect();
        let program = format!("{:?}, {}", program.display().to_string(), words.join(", "));
        let slurm = if keys[at].is_empty() { String::new() } else { format!("slurm = {{ {} }}\n", keys[at]) };
        format!("[job.{name}]\nlauncher = 'srun --mpi={pmi}'\nranks = 2\nprogram = [{program}]\n{slurm}")
    };
    let path = scene.path("coupled.toml");
    fs::write(&path, format!("naming = {:?}\n{}{}", scene.naming(), job(0), job(1))).expect("a manifest");
    path.display().to_string()
}

/// Runs these lines of a shell beside a Slurm: `$launch` is the command, `$manifest` its file.
fn shell(scene: &Scene, manifest: &str, lines: &str) -> Done {
    let text = format!(
        "launch='{} launch' manifest='{manifest}' out='{}'\ncd '{}'\n{lines}",
        command().display(),
        scene.path("out").display(),
        scene.folder.display(),
    );
    // Made by the test, since a script's user may write there and nowhere else.
    fs::write(scene.path("out"), "").expect("a file of ours");
    user::give(&scene.path("out"));
    let job = Launch::alone("bash".as_ref(), &["-euc", &text]).within(&node());
    let [done] = scene.wait([scene.start(job)], LIMIT);
    done
}

const PAIR: [&str; 2] = ["air ocean 0 queries send types", "ocean air 1 queries send types"];

/// Both halves have ended well, and each line says whose it is.
fn both_are_done(scene: &Scene, done: &Done) {
    let has = |line: &str| done.stdout.lines().filter(|l| l.starts_with(line)).count() == 1;
    let told = done.stderr.contains("all jobs have ended well") || done.stdout.contains("all jobs have ended well");
    let all = has("[air 0] DONE") && has("[ocean 0] DONE") && told;
    scene.require(done.status.success() && all, &format!("{}; printed:\n{}", done.status, done.stdout));
}

#[test]
fn a_launch_divides_an_allocation() {
    if !otherwise(false, true, "launches inside an allocation of Slurm, by sbatch, and as a heterogeneous job") {
        return;
    }
    let _one = one_at_a_time();
    for (title, keys, allocation) in [
        ("nodes", ["nodes = 1", "nodes = 1"], "-N 2 --ntasks-per-node=2"),
        ("shared nodes", ["", ""], "-N 1 -n 4"),
        ("components", ["het-group = 1", "het-group = 0, nodes = 1"], "-n 2 : -n 2"),
    ] {
        let scene = Scene::new(format!("a launch in an allocation of Slurm: {title}"));
        let manifest = manifest(&scene, "pair", PAIR, keys);
        let lines =
            format!("salloc -Q {allocation} $launch --dry-run $manifest\nsalloc -Q {allocation} $launch $manifest");
        let done = shell(&scene, &manifest, &lines);
        both_are_done(&scene, &done);
        let says = |line: &str| done.stdout.contains(line);
        let right = match title {
            "nodes" => says("--nodelist=n0 --mpi=pmix") && says("--nodelist=n1 --mpi=pmi2"),
            "shared nodes" => says("srun --overlap --mpi=pmix") && says("srun --overlap --mpi=pmi2"),
            _ => says("--het-group=1 --mpi=pmix") && says("--het-group=0 --nodes=1 --nodelist=n"),
        };
        scene.require(right, "each job gets its part");
    }
}

#[test]
fn a_script_is_submitted() {
    if !otherwise(false, true, "scripts for sbatch that run a launch") {
        return;
    }
    let _one = one_at_a_time();
    for (title, keys, components) in [
        ("one allocation", ["nodes = 1", "nodes = 1"], 1),
        ("a heterogeneous job", ["partition = 'other'", "partition = 'all', nodes = 1"], 2),
    ] {
        let scene = Scene::new(format!("a script for sbatch: {title}"));
        let manifest = manifest(&scene, "pair", PAIR, keys);
        let lines = "$launch --sbatch $manifest | tee script\nsbatch --wait --output=$out <script || status=$?\ncat $out\nexit ${status:-0}";
        let done = shell(&scene, &manifest, lines);
        both_are_done(&scene, &done);
        let asked = done.stdout.lines().filter(|line| *line == "#SBATCH hetjob").count() + 1;
        scene.require(asked == components, &done.stdout);
    }
}

#[test]
fn signals_reach_a_launch_under_slurm() {
    if !otherwise(false, true, "signals to a launch under Slurm, and its exit status") {
        return;
    }
    let _one = one_at_a_time();
    let scene = Scene::new("signals to a launch under Slurm");
    let folder = scene.folder.display().to_string();
    let words = ["air", "ocean"].map(|name| format!("{name} {folder}"));
    let manifest = manifest(&scene, "launched", [&words[0], &words[1]], ["nodes = 1", "nodes = 1"]);
    let lines = "seen() { until [[ $(grep -c \"$1\" $out) == $2 ]]; do sleep 0.05; done }
        begin() { : >$out; id=$($launch --sbatch $manifest | sbatch --parsable --output=$out); seen '] HERE' 4; seen 'all are there' 1; }
        ended() { until [[ $(scontrol show job $id) =~ JobState=(FAILED|COMPLETED|CANCELLED) ]]; do sleep 0.05; done
            scontrol show job $id | grep -o 'ExitCode=[0-9:]*'; cat $out; }
        begin
        scancel --batch --signal=USR1 $id; seen 'SIGNAL 10' 4
        scancel --batch --signal=TERM $id; seen 'SIGNAL 15' 4; ended
        begin
        touch fail-air; ended; rm fail-air
        begin
        scancel $id; ended";
    let done = shell(&scene, &manifest, lines);
    scene.require(done.status.success(), &format!("{}", done.status));
    let ends: Vec<&str> = done.stdout.lines().filter(|line| line.starts_with("ExitCode=")).collect();
    // A bare scancel reaches the launch too.
    scene.require(ends == ["ExitCode=143:0", "ExitCode=7:0", "ExitCode=143:0"], &format!("{ends:?}"));
    let gone = done.stdout.matches("] GONE").count();
    scene.require(gone >= 6, &format!("{gone} ranks have ended in order"));
}
