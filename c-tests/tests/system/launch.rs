//! `mpi-connect launch`: jobs of one manifest under several MPIs, their output, signals, deaths and restarts, and the ends of a launch.

use crate::restart::{make_folder, results};
use c_tests::{Done, Job, Launch, Library, MPIS, Mpi, Scene, command, compile, user, wait_until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

/// So many MPIs, from this place of those under test on.
fn mpis<const N: usize>(from: usize) -> [&'static Mpi; N] {
    let mut all = MPIS.iter().copied().cycle().skip(from);
    std::array::from_fn(|_| all.next().expect("at least one"))
}

/// A job of a manifest, with keys of its own behind.
pub fn table(scene: &Scene, mpi: &Mpi, name: &str, ranks: usize, program: &str, words: &[&str], keys: &str) -> String {
    let program = compile(mpi, program, Library::Preloaded).display().to_string();
    let words: Vec<&str> = [program.as_str()].iter().chain(words).copied().collect();
    table_of(scene, mpi, name, ranks, &words, &[], keys)
}

/// The same with any program, and with variables of its own.
pub fn table_of(
    scene: &Scene,
    mpi: &Mpi,
    name: &str,
    ranks: usize,
    words: &[&str],
    variables: &[(String, String)],
    keys: &str,
) -> String {
    let mut launcher = mpi.launcher(&[], &[], ranks);
    // The number of ranks is added by the command.
    launcher.truncate(launcher.len() - 2);
    let program: Vec<_> = words.iter().map(|word| format!("{word:?}")).collect();
    // Two launchers of Open MPI's that begin at once get in each other's way.
    let temporary = scene.path("tmp").join(name);
    fs::create_dir_all(&temporary).expect("a folder of ours");
    fs::set_permissions(&temporary, fs::Permissions::from_mode(0o1777)).expect("a folder of ours");
    let mut env = vec![format!("LAUNCHED = \"as {name}\"")];
    env.extend(mpi.environment().iter().map(|(name, value)| format!("{name} = {value:?}")));
    env.extend(variables.iter().map(|(name, value)| format!("{name} = {value:?}")));
    if mpi.keeps_files() {
        env.push(format!("TMPDIR = {:?}", temporary.display().to_string()));
    }
    format!(
        "[job.{name}]\nlauncher = {:?}\nranks = {ranks}\nprogram = [{}]\nenv = {{ {} }}\n{keys}\n",
        launcher.join(" "),
        program.join(", "),
        env.join(", ")
    )
}

/// Starts a launch of these tables.
fn launch(scene: &Scene, run: &str, tables: &[String], words: &[&str]) -> Job {
    let manifest = scene.path(&format!("{run}.toml"));
    fs::write(&manifest, format!("run = {run:?}\n{}", tables.concat())).expect("a manifest");
    let manifest = manifest.display().to_string();
    let all: Vec<&str> = ["launch", &manifest].into_iter().chain(words.iter().copied()).collect();
    scene.start(Launch::alone(&command(), &all))
}

/// A run of its own, since all launches of a user are seen by `--status`.
fn run(title: &str) -> String {
    format!("{title}-{}", std::process::id())
}

fn number(job: &Job, line: &str) -> usize {
    job.printed().lines().filter(|l| l.ends_with(line)).count()
}

/// Two jobs that stay until they are told to go, with two ranks each.
fn two<'m>(scene: &Scene, [a, b]: [&'m Mpi; 2], keys: [&str; 2]) -> [String; 2] {
    let folder = scene.folder.display().to_string();
    [("air", a, keys[0]), ("ocean", b, keys[1])]
        .map(|(name, mpi, keys)| table(scene, mpi, name, 2, "launched", &[name, &folder], keys))
}

/// Waits until all four ranks of [`two`] are there, and both jobs were seen to be.
fn are_here(scene: &Scene, job: &Job) {
    let all = || number(job, "HERE as air") == 2 && number(job, "HERE as ocean") == 2;
    scene.require(wait_until(LIMIT, || all() && job.complained().contains("; all are there")), "all ranks are there");
}

/// No process is left of the launch, its keeper included.
fn leaves_nothing(scene: &Scene) {
    let left = wait_until(Duration::from_secs(20), || scene.processes("").is_empty());
    scene.require(left, &format!("processes are left: {:?}", scene.processes("")));
}

fn ends(scene: &Scene, job: Job) -> Done {
    let [done] = scene.wait([job], LIMIT);
    leaves_nothing(scene);
    done
}

/// What the command says to these words, as the user of the jobs.
fn says(words: &[&str]) -> (Option<i32>, String) {
    let mut all = user::prefix();
    all.push(command().display().to_string());
    all.extend(words.iter().map(|word| (*word).to_owned()));
    let done = Command::new(&all[0]).args(&all[1..]).output().expect("mpi-connect");
    let text = [done.stdout, done.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    (done.status.code(), text)
}

/// Lines as a job prints them by itself: without the launch's prefix.
fn bare(done: &Done) -> Done {
    let line = |line: &str| line.split_once("] ").map_or(line, |(_, line)| line).to_owned() + "\n";
    Done { title: done.title.clone(), stderr: String::new(), stdout: done.stdout.lines().map(line).collect(), ..*done }
}

/// The jobs of `chain.c`: each with its ranks, its steps between two checkpoints, and its neighbours.
const CHAIN: [(&str, usize, &str, &[&str]); 3] =
    [("air", 2, "5", &["ocean"]), ("ocean", 3, "7", &["air", "ice"]), ("ice", 2, "11", &["ocean"])];

fn chain(scene: &Scene, mpis: [&Mpi; 3], steps: &str) -> Vec<String> {
    let folder = scene.path("checkpoints").display().to_string();
    let one = |((name, ranks, every, neighbours), mpi): (&(&str, usize, &str, &[&str]), &Mpi)| {
        let words: Vec<&str> = [*name, &folder, steps, every].into_iter().chain(neighbours.iter().copied()).collect();
        table(scene, mpi, name, *ranks, "chain", &words, "restart = \"checkpoint\"")
    };
    CHAIN.iter().zip(mpis).map(one).collect()
}

#[test]
fn three_jobs_go_on_after_one_was_killed() {
    let steps = "40";
    let mpis = mpis::<3>(0);
    let title = format!("{}, {} and {}", mpis[0].name, mpis[1].name, mpis[2].name);
    let scene = Scene::new(format!("launch of {title}, not disturbed"));
    make_folder(&scene);
    let [done] = scene.wait([launch(&scene, &run("whole"), &chain(&scene, mpis, steps), &[])], 4 * LIMIT);
    leaves_nothing(&scene);
    let want = results(&[bare(&done)]);
    scene.require(done.status.success() && want.len() == 7, &format!("{}: {want:?}", done.status));
    for (name, ranks, ..) in CHAIN {
        let prefixes =
            (0..ranks).all(|rank| done.stdout.lines().any(|l| l.starts_with(&format!("[{name} {rank}] RESULT"))));
        scene.require(prefixes, "each line says whose it is");
    }
    scene.require(done.stderr.contains("air and ocean are joined"), "who is joined is told");
    drop(scene);
    let scene = Scene::new(format!("launch of {title}, one killed"));
    make_folder(&scene);
    let job = launch(&scene, &run("killed"), &chain(&scene, mpis, steps), &[]);
    // Where seven ranks that wait busily share two cores with other tests, a step takes seconds.
    let far = || job.printed().lines().filter(|line| line.starts_with("[air 0] STEP ")).count() > 20;
    scene.require(wait_until(4 * LIMIT, far), "the jobs make some steps");
    kill_a_rank(&scene, "chain-preloaded", "ocean");
    let [done] = scene.wait([job], 4 * LIMIT);
    leaves_nothing(&scene);
    let got = results(&[bare(&done)]);
    scene.require(done.status.success() && got == want, &format!("{}: {got:?}, not {want:?}", done.status));
    scene.require(done.stderr.contains("are to be started again, 1 of 3 times"), "it is told");
    let from = |line: &str| line.split_once("] FROM ").and_then(|(_, step)| step.parse::<u32>().ok());
    scene.require(done.stdout.lines().filter_map(from).any(|step| step > 0), "they go on from a checkpoint");
}

#[test]
fn signals_reach_all_ranks_and_sigterm_ends_all() {
    let mpis = mpis::<2>(1);
    let scene = Scene::new(format!("signals to a launch of {} and {}", mpis[0].name, mpis[1].name));
    let job = launch(&scene, &run("signals"), &two(&scene, mpis, ["", "after = [\"air\"]"]), &[]);
    are_here(&scene, &job);
    for (signal, line) in [(Signal::SIGUSR1, "SIGNAL 10"), (Signal::SIGUSR2, "SIGNAL 12")] {
        job.signal(signal);
        scene.require(wait_until(LIMIT, || number(&job, line) == 4), &format!("{signal} reaches all ranks"));
    }
    job.signal(Signal::SIGTERM);
    let done = ends(&scene, job);
    scene.require(done.status.code() == Some(143), &format!("{}", done.status));
    for name in ["air", "ocean"] {
        for rank in 0..2 {
            let line = |what: &str| format!("[{name} {rank}] {what}\n");
            let has = done.stdout.contains(&line("SIGNAL 15")) && done.stdout.contains(&line("GONE"));
            scene.require(
                has && done.stderr.contains(&line("to stderr")),
                "each rank gets it, and all it prints is there",
            );
        }
    }
}

#[test]
fn a_death_ends_all_or_is_kept() {
    let mpis = mpis::<2>(0);
    for (at, keys) in [["", ""], ["on-death = \"keep\"", ""]].into_iter().enumerate() {
        let title = ["ended", "kept"][at];
        let scene = Scene::new(format!("a job of {} dies, and that of {} is {title}", mpis[0].name, mpis[1].name));
        let job = launch(&scene, &run(title), &two(&scene, mpis, keys), &[]);
        are_here(&scene, &job);
        fs::write(scene.path("fail-air"), "").expect("a sign");
        if title == "kept" {
            let told = || job.complained().contains("mpi-connect: air has ended with status ");
            scene.require(wait_until(LIMIT, told), "the death is told");
            job.signal(Signal::SIGUSR1);
            let goes_on = || number(&job, "SIGNAL 10") == 2;
            scene.require(wait_until(LIMIT, goes_on), "the other job goes on");
            fs::write(scene.path("end"), "").expect("a sign");
        }
        let done = ends(&scene, job);
        // LAM's launcher has a status of its own for every failure.
        let status = if mpis[0].name == "lam" { 1 } else { 7 };
        scene.require(done.status.code() == Some(status), &format!("{}", done.status));
        let others = done.stdout.lines().filter(|line| line.starts_with("[ocean ") && line.ends_with("GONE")).count();
        scene.require(others == 2, "the other job ends in order");
    }
}

/// Kills one rank of a job: its process and no other.
fn kill_a_rank(scene: &Scene, program: &str, name: &str) {
    let is_rank = |pid: &i32| fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|file| file.ends_with(program));
    let rank = scene.processes(&format!("\0{name}\0")).into_iter().find(is_rank).expect("a rank");
    kill(Pid::from_raw(rank), Signal::SIGKILL).expect("a process of ours");
}

#[test]
fn a_killed_rank_is_a_death_under_each_mpi() {
    let all: Vec<usize> = (0..MPIS.len()).collect();
    let title = |from: &usize| format!("a rank of {} is killed", MPIS[*from].name);
    let statuses = Scene::at_once(&all, title, |scene, from| {
        let job = launch(scene, &run(&format!("rank{from}")), &two(scene, mpis::<2>(*from), ["", ""]), &[]);
        are_here(scene, &job);
        kill_a_rank(scene, "launched-preloaded", "air");
        let done = ends(scene, job);
        let told = done.stderr.contains("mpi-connect: all jobs are ended: air has died\n");
        let others = done.stdout.lines().filter(|line| line.starts_with("[ocean ") && line.ends_with("GONE")).count();
        scene.require(told && others == 2, "it is told, and the other job ends in order");
        done.status.code()
    });
    assert!(statuses.iter().all(|code| *code != Some(0)), "{statuses:?}");
}

#[test]
fn a_launch_is_shown_and_stopped() {
    let mpis = mpis::<2>(2);
    let scene = Scene::new(format!("a launch of {} and {} is shown and stopped", mpis[0].name, mpis[1].name));
    let run = run("stopped");
    let job = launch(&scene, &run, &two(&scene, mpis, ["", ""]), &["--json"]);
    let here = || {
        number(&job, "") > 0
            && job.printed().matches("HERE as").count() == 4
            && job.printed().contains("\"awaited\":[]")
    };
    scene.require(wait_until(LIMIT, here), "all ranks are there");
    let (code, said) = says(&["launch", "--status", &run]);
    let rows = ["air    runs   2 of 2  0         air", "ocean  runs   2 of 2  0         ocean"];
    scene.require(code == Some(0) && rows.iter().all(|row| said.contains(row)), &said);
    let (code, said) = says(&["launch", "--stop", &scene.path(&format!("{run}.toml")).display().to_string()]);
    scene.require(code == Some(0) && said == format!("run {run} has ended\n"), &said);
    let done = ends(&scene, job);
    scene.require(done.stdout.contains(r#""event":"ended","status":143"#), "the events are told");
    scene.require(done.status.code() == Some(143), &format!("{}", done.status));
    let (code, said) = says(&["launch", "--status", &run]);
    scene.require(code == Some(1) && said.contains("is running on this host"), &said);
}

#[test]
fn who_is_deaf_is_killed_by_a_second_signal() {
    let mpis = mpis::<2>(3);
    let scene = Scene::new(format!("deaf ranks of {} and {}", mpis[0].name, mpis[1].name));
    fs::write(scene.path("deaf-ocean"), "").expect("a sign");
    let tables = two(&scene, mpis, ["", ""]);
    // Never killed for being late.
    let job = launch(&scene, &run("deaf"), &[vec!["grace = 1000\n".to_owned()], tables.to_vec()].concat(), &[]);
    are_here(&scene, &job);
    job.signal(Signal::SIGINT);
    let heard = || number(&job, "SIGNAL 2") == 4 && number(&job, "GONE") == 2;
    scene.require(wait_until(LIMIT, heard), "SIGINT reaches all ranks, and one job ends");
    job.signal(Signal::SIGINT);
    let done = ends(&scene, job);
    scene.require(done.status.code() == Some(130), &format!("{}", done.status));
}

/// Stands in for `ssh`: another environment, which has of this one only what marks the scene's processes.
fn ssh(scene: &Scene) -> String {
    let script = scene.path("ssh");
    let user = user::environment().into_iter().map(|(name, value)| format!("{name}={value} ")).collect::<String>();
    let own = format!("{user}MPI_CONNECT_TEST_DIR={}", scene.folder.display());
    let text = format!("#!/bin/sh\nshift\nexec env -i PATH=\"$PATH\" HOME=\"$HOME\" {own} sh -c \"$*\"\n");
    fs::write(&script, text).expect("a script");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("a file of ours");
    let (naming, key) = (scene.naming(), scene.key());
    format!("ssh = {:?}\nnaming = {naming:?}\nkey = \"file:{}\"\n", script.display().to_string(), key.display())
}

#[test]
fn a_job_on_another_host_is_reached_by_signals_and_ended() {
    let title = |signal: &Signal| format!("a job on another host, at {signal}");
    let all = [(Signal::SIGTERM, 0), (Signal::SIGKILL, 2)];
    Scene::at_once(
        &all,
        |(signal, _)| title(signal),
        |scene, (signal, from)| {
            let tables = two(scene, mpis::<2>(*from), ["", "host = \"elsewhere\""]);
            let job = launch(scene, &run(signal.as_str()), &[vec![ssh(scene)], tables.to_vec()].concat(), &[]);
            are_here(scene, &job);
            job.signal(Signal::SIGUSR1);
            scene.require(wait_until(LIMIT, || number(&job, "SIGNAL 10") == 4), "a signal reaches all ranks");
            job.signal(*signal);
            let done = ends(scene, job);
            let gone = done.stdout.lines().filter(|line| line.ends_with("] GONE")).count();
            let orderly = done.status.code() == Some(143) && gone == 4;
            scene.require(*signal == Signal::SIGKILL || orderly, &format!("{}, {gone} ended well", done.status));
        },
    );
}

#[test]
fn a_launch_that_is_killed_leaves_nothing() {
    let mpis = mpis::<2>(0);
    let scene = Scene::new(format!("a launch of {} and {} is killed", mpis[0].name, mpis[1].name));
    fs::write(scene.path("deaf-ocean"), "").expect("a sign");
    let job = launch(&scene, &run("orphans"), &two(&scene, mpis, ["", ""]), &[]);
    are_here(&scene, &job);
    job.signal(Signal::SIGKILL);
    ends(&scene, job);
}

#[test]
fn who_watches_names_is_told_who_joins_leaves_and_dies() {
    for how in ["killed", "aborted"] {
        watched(how);
    }
}

fn watched(how: &str) {
    let mpis = mpis::<2>(1);
    let scene = Scene::new(format!("names of {} and {} are watched, the first is {how}", mpis[0].name, mpis[1].name));
    let naming = scene.naming();
    let words = ["names", "--naming", &naming, "--watch", "--json"];
    let watch = scene.start(Launch::alone(&command(), &words));
    let job = launch(&scene, &run("watched"), &two(&scene, mpis, ["on-death = \"keep\"", ""]), &[]);
    are_here(&scene, &job);
    let told = |event: &str, name: &str| {
        let has = |line: &str| {
            [("event", event), ("name", name)]
                .iter()
                .all(|(key, value)| line.contains(&format!("\"{key}\":\"{value}\"")))
        };
        scene.require(wait_until(LIMIT, || watch.printed().lines().any(has)), &format!("{name} has {event}"));
    };
    told("joined", "air");
    told("joined", "ocean");
    if how == "killed" {
        // All of its ranks, and its launcher.
        scene.kill("\0air\0");
    } else {
        fs::write(scene.path("fail-air"), "").expect("a sign");
    }
    told("died", "air");
    fs::write(scene.path("end"), "").expect("a sign");
    told("left", "ocean");
    watch.signal(Signal::SIGTERM);
    let [done, _] = scene.wait([job, watch], LIMIT);
    scene.require(done.status.code() != Some(0), &format!("{}", done.status));
    leaves_nothing(&scene);
}
