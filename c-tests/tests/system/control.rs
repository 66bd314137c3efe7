//! An operator looks at running jobs of two MPIs and gives them commands, while messages flow and other processes compute.

use c_tests::{Job, Launch, Mpi, Scene, command, user, wait_until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub const LIMIT: Duration = Duration::from_secs(60);

/// Two jobs, of three ranks and of two, that are joined and exchange messages. They have given their names back.
pub fn joined(scene: &Scene, a: &Mpi, b: &Mpi, settings: &[(&str, &str)]) -> [Job; 2] {
    joined_but(scene, a, b, settings, &[])
}

/// The same, but that a rank of the first job finalizes at once, if one is given.
fn joined_but(scene: &Scene, a: &Mpi, b: &Mpi, settings: &[(&str, &str)], leaves: &[&str]) -> [Job; 2] {
    let place = |name: &str| scene.path(name).to_str().expect("plain text").to_owned();
    let start = |mpi, ranks, mine: &str, theirs: &str| {
        let signs = [place(&format!("{mine}-busy")), place("end")];
        let all = [&[mine, theirs, &signs[0], &signs[1]][..], if mine == "air" { leaves } else { &[] }].concat();
        let launch = Launch::new(mpi, ranks, "controlled", &all);
        scene.start(launch.envs(settings))
    };
    let jobs = [start(a, 3, "air", "ocean"), start(b, 2, "ocean", "air")];
    let busy = || ["air-busy", "ocean-busy"].iter().all(|sign| scene.path(sign).exists());
    scene.require(wait_until(LIMIT, busy), "messages flow");
    jobs
}

/// `mpi-connect` with these words, of which the second is a job's name, as the jobs' user and with their key or another one.
pub fn operator(scene: &Scene, key: Option<&str>, words: &[&str]) -> Command {
    let mut all = user::prefix();
    all.push(command().display().to_string());
    all.extend([words[0], words[1], "--naming", &scene.naming()].map(String::from));
    all.extend(words[2..].iter().map(|word| word.to_string()));
    let key = key.map_or_else(|| format!("file:{}", scene.key().display()), str::to_owned);
    let mut operator = Command::new(&all[0]);
    operator.args(&all[1..]).env("MPI_CONNECT_KEY", key);
    operator
}

/// `mpi-connect ctl` with these words.
pub fn ctl(scene: &Scene, key: Option<&str>, words: &[&str]) -> Output {
    operator(scene, key, &[&["ctl"], words].concat()).output().expect("mpi-connect")
}

/// How a process ends, if it does in time.
fn ended(child: &mut Child) -> Option<ExitStatus> {
    let mut status = None;
    wait_until(LIMIT, || {
        status = child.try_wait().expect("a child");
        status.is_some()
    });
    status
}

/// The lanes of a job, each process of which is to answer. Where there is far more to do than processors, the kernel lets one that has
/// slept wait for seconds, since it shares them out among sessions and not among threads (autogroup).
pub fn json(scene: &Scene, name: &str) -> (Value, i32) {
    json_within(scene, name, "30")
}

/// The same of those that answer in so many seconds.
fn json_within(scene: &Scene, name: &str, limit: &str) -> (Value, i32) {
    let done = ctl(scene, None, &[name, "lanes", "--timeout", limit, "--json"]);
    let text = String::from_utf8_lossy(&done.stdout);
    let value = serde_json::from_str(&text);
    let value = value.unwrap_or_else(|e| panic!("{e}: {text}{}", String::from_utf8_lossy(&done.stderr)));
    (value, done.status.code().unwrap_or(-1))
}

pub fn messages(all: &Value) -> u64 {
    let pairs = all["processes"][0]["pairs"].as_array().into_iter().flatten();
    pairs.filter_map(|pair| pair["sent"]["messages"].as_u64()).sum()
}

fn stopped(all: &Value) -> usize {
    let processes = all["processes"].as_array().into_iter().flatten();
    processes.filter(|process| process["state"] == "not answering").count()
}

#[test]
fn an_operator_sees_every_process_and_commands_reach_those_that_compute() {
    for (a, b) in Mpi::some_couples() {
        let scene = Scene::new(format!("an operator of {} and {}", a.name, b.name));
        let jobs = joined(&scene, a, b, &[("MPI_CONNECT_SUMMARY", "1")]);
        let (all, code) = json(&scene, "air");
        let processes = all["processes"].as_array().expect("processes");
        scene.require(code == 0 && processes.len() == 3, &format!("each of three answers: {all:#}"));
        scene.require(processes.iter().all(|one| one["state"] == "running"), &format!("also who computes: {all:#}"));
        let pair = &processes[0]["pairs"][0];
        scene.require(pair["job"] == "ocean" && pair["transport"] == "shm", &format!("who, and over what: {all:#}"));
        let before = messages(&all);
        scene.require(
            before > 100 && wait_until(LIMIT, || messages(&json(&scene, "air").0) > before),
            "messages are counted while they flow",
        );
        // Who has another key is refused, and told why.
        let other = format!("file:{}", scene.path("other-key").display());
        let done = ctl(&scene, Some(&other), &["air", "lanes"]);
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        scene.require(done.status.code() == Some(1) && said.contains("its key is"), &said);
        let done = ctl(&scene, None, &["ice", "lanes"]);
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        scene.require(done.status.code() == Some(1) && said.contains("no job 'ice'"), &said);
        // Which ranks there are is told to who names another one.
        for (words, ranks) in [
            (&["air", "switch", "tcp", "--rank", "-1"][..], "'air' has no rank -1: its ranks are 0 to 2"),
            (
                &["air", "switch", "tcp", "--peer", "ocean", "--peer-rank", "7"][..],
                "'ocean' has no rank 7: its ranks are 0 to 1",
            ),
        ] {
            let done = ctl(&scene, None, words);
            let said = String::from_utf8_lossy(&done.stderr).into_owned();
            scene.require(done.status.code() == Some(2) && said.contains(ranks), &said);
        }
        // So is a wrong command line, for scripts too.
        let done = ctl(&scene, None, &["air", "switch", "ethernet", "--json"]);
        let said: Option<Value> = serde_json::from_slice(&done.stdout).ok();
        let why = said.and_then(|said| said["error"].as_str().map(str::to_owned)).unwrap_or_default();
        scene.require(done.status.code() == Some(2) && why.contains("ethernet"), &format!("{done:?}"));
        fs::write(scene.path("end"), "").expect("a sign");
        let [air, ocean] = scene.pass(jobs, LIMIT);
        for (done, text) in
            [(&air, "summary: 'air' to 'ocean' over shm: "), (&ocean, "summary: 'ocean' to 'air' over shm: ")]
        {
            let told = done.stderr.lines().filter(|line| line.contains(text)).count();
            scene.require(told == 1, &format!("the summary comes once, not {told} times:\n{}", done.stderr));
            let counts = |line: &str| -> Vec<u64> {
                let words = line.split_whitespace().collect::<Vec<_>>();
                let counts = words.windows(2).filter(|two| two[1].starts_with("message"));
                counts.map(|two| two[0].parse().unwrap_or(0)).collect()
            };
            let line = done.stderr.lines().find(|line| line.contains(text)).unwrap_or_default();
            let both = counts(line).len() == 2 && counts(line).iter().all(|n| *n > 100);
            scene.require(both, &format!("both ways are counted: {line}"));
            scene.require(!done.stderr.contains("said nothing"), &format!("all ranks are in it:\n{}", done.stderr));
        }
    }
}

/// The command on a terminal, by `script`, and what is written there.
fn on_terminal(command: &Command) -> (Child, Arc<Mutex<Vec<u8>>>) {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words = words.map(|word| format!("'{}'", word.display())).collect::<Vec<_>>().join(" ");
    let mut screen = Command::new("script");
    // The terminal has no size yet.
    screen.args(["-qec", &format!("stty rows 40 cols 132; exec {words}"), "/dev/null"]).env("TERM", "xterm");
    screen.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let mut screen = screen.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("script");
    let mut drawn = screen.stdout.take().expect("piped");
    let shown = Arc::new(Mutex::new(Vec::new()));
    let drawing = shown.clone();
    std::thread::spawn(move || {
        let mut piece = [0; 4096];
        while let Ok(n @ 1..) = drawn.read(&mut piece) {
            drawing.lock().expect("no panic").extend(&piece[..n]);
        }
    });
    (screen, shown)
}

/// The only child of a process.
fn child_of(process: u32) -> Pid {
    let children = fs::read_to_string(format!("/proc/{process}/task/{process}/children")).expect("it lives");
    Pid::from_raw(children.trim().parse().expect("one number"))
}

/// `lanes --watch` writes look after look until nobody reads; `top` draws on a terminal until a key ends it, and once as text.
#[test]
fn an_operator_watches() {
    for (a, b) in Mpi::some_couples() {
        let scene = Scene::new(format!("an operator watches {} and {}", a.name, b.name));
        let jobs = joined(&scene, a, b, &[]);
        let mut watching = operator(&scene, None, &["ctl", "air", "lanes", "--watch", "--every", "0.2", "--json"]);
        let mut watching = watching.stdout(Stdio::piped()).spawn().expect("mpi-connect");
        // Where the processors are busy, a look may come before the next message.
        let lines = BufReader::new(watching.stdout.take().expect("piped")).lines().take(100);
        let mut looks: Vec<u64> = Vec::new();
        for line in lines {
            looks.push(messages(&serde_json::from_str(&line.expect("text")).expect("JSON")));
            looks.dedup();
            if looks.len() == 3 {
                break;
            }
        }
        scene.require(looks.len() == 3 && looks.is_sorted(), &format!("messages flow from look to look: {looks:?}"));
        scene.require(ended(&mut watching).is_some(), "it ends when nobody reads any more");

        let all = ["top", "air", "--every", "0.2", "--timeout", "600"];
        let top = |words: &[&str]| operator(&scene, None, &[&all, words].concat());
        let said = String::from_utf8(top(&["--once"]).output().expect("mpi-connect").stdout).expect("text");
        scene.require(said.contains("ocean 0") && said.contains("shm"), &said);
        let (mut screen, shown) = on_terminal(&top(&[]));
        let seen = || String::from_utf8_lossy(&shown.lock().expect("no panic")).into_owned();
        scene.require(wait_until(LIMIT, || seen().contains("ocean")), &seen());
        // A leader that does not answer keeps nobody at the screen, though the look may take ten minutes.
        let leader = Pid::from_raw(json(&scene, "air").0["processes"][0]["pid"].as_i64().expect("a pid") as i32);
        kill(leader, Signal::SIGSTOP).expect("it is there");
        // Only what changes is drawn, so the words are apart.
        let is_told = wait_until(LIMIT, || seen().contains("stopped"));
        scene.require(is_told, &format!("that it does not answer is told meanwhile: {}", seen()));
        screen.stdin.take().expect("piped").write_all(b"q").expect("a key");
        let over = ended(&mut screen);
        kill(leader, Signal::SIGCONT).expect("it is there");
        scene.require(over.is_some(), "a key ends it");
        scene.require(over.is_some_and(|status| status.success()), &format!("{over:?}"));
        let (mut screen, shown) = on_terminal(&top(&[]));
        let seen = || String::from_utf8_lossy(&shown.lock().expect("no panic")).into_owned();
        scene.require(wait_until(LIMIT, || seen().contains("ocean")), &seen());
        kill(child_of(screen.id()), Signal::SIGTERM).expect("it is there");
        let over = ended(&mut screen).and_then(|status| status.code());
        scene.require(over == Some(128 + Signal::SIGTERM as i32), &format!("a signal ends it: {over:?}: {}", seen()));
        // One who watches until the end learns that it is one.
        let to_the_end = |name: &str| {
            let mut watching = operator(&scene, None, &["ctl", name, "lanes", "--watch", "--every", "0.2"]);
            let mut watching = watching.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("mpi-connect");
            let mut looks = BufReader::new(watching.stdout.take().expect("piped"));
            let mut first = String::new();
            looks.read_line(&mut first).expect("text");
            scene.require(first.starts_with("RANK"), &first);
            std::thread::spawn(move || looks.read_to_end(&mut Vec::new()));
            watching
        };
        let mut watching = ["air", "ocean"].map(to_the_end);
        fs::write(scene.path("end"), "").expect("a sign");
        scene.pass(jobs, LIMIT);
        for watching in &mut watching {
            let (over, mut said) = (ended(watching), String::new());
            watching.stderr.take().expect("piped").read_to_string(&mut said).expect("text");
            let is_told = said.trim_end().ends_with("has ended") && over.is_some_and(|status| status.success());
            scene.require(is_told, &format!("{over:?}: {said}"));
        }
    }
}

/// Who watches this job, and has had the first look.
fn watch(scene: &Scene, name: &str) -> Child {
    let mut watching = operator(scene, None, &["ctl", name, "lanes", "--watch", "--every", "0.2"]);
    let mut watching = watching.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("mpi-connect");
    let mut looks = BufReader::new(watching.stdout.take().expect("piped"));
    looks.read_line(&mut String::new()).expect("text");
    std::thread::spawn(move || looks.read_to_end(&mut Vec::new()));
    watching
}

fn is_told_lost(scene: &Scene, mut watching: Child) {
    let (over, mut said) = (ended(&mut watching), String::new());
    watching.stderr.take().expect("piped").read_to_string(&mut said).expect("text");
    let is_lost = over.and_then(|status| status.code()) == Some(1) && !said.trim_end().ends_with("has ended");
    scene.require(is_lost, &said);
}

/// Who watches a job that is killed is told that it is lost, and so is who watches one that an error of MPI ends then.
#[test]
fn a_job_that_is_killed_has_not_ended() {
    for (a, b) in Mpi::some_couples() {
        let scene = Scene::new(format!("{} is killed beside {} and watched", a.name, b.name));
        let jobs = joined(&scene, a, b, &[]);
        let watching = ["air", "ocean"].map(|name| watch(&scene, name));
        for process in json(&scene, "air").0["processes"].as_array().expect("processes") {
            let pid = process["pid"].as_i64().expect("a pid") as i32;
            kill(Pid::from_raw(pid), Signal::SIGKILL).expect("it is there");
        }
        watching.into_iter().for_each(|watching| is_told_lost(&scene, watching));
        drop(jobs);
    }
}

/// So is who watches one that has its name alone, and aborts: it gives the name back before.
#[test]
fn a_job_that_is_aborted_before_it_is_joined_has_not_ended() {
    for (mpi, _) in Mpi::some_couples() {
        let scene = Scene::new(format!("{} aborts alone and is watched", mpi.name));
        let sign = scene.path("abort");
        let job = scene.start(Launch::new(mpi, 2, "controlled", &["air", sign.to_str().expect("plain text")]));
        let answers = || ctl(&scene, None, &["air", "lanes"]).status.success();
        scene.require(wait_until(LIMIT, answers), "it has its name");
        let watching = watch(&scene, "air");
        fs::write(&sign, "").expect("a sign");
        is_told_lost(&scene, watching);
        drop(job);
    }
}

/// A rank that finalizes before the others has left, and is not dead.
#[test]
fn a_rank_that_has_finalized_has_left() {
    for (a, b) in Mpi::some_couples() {
        let scene = Scene::new(format!("a rank of {} beside {} finalizes", a.name, b.name));
        let jobs = joined_but(&scene, a, b, &[], &["2"]);
        let state = || json(&scene, "air").0["processes"][2]["state"].as_str().unwrap_or_default().to_owned();
        scene.require(wait_until(LIMIT, || state() == "left"), &format!("{:#}", json(&scene, "air").0));
        let (all, code) = json(&scene, "air");
        scene.require(code == 0, &format!("nothing is amiss: {all:#}"));
        let held = ctl(&scene, None, &["air", "hold"]);
        let said = String::from_utf8_lossy(&held.stdout).into_owned();
        let is_told = said.contains("ranks 0-1: done") && said.contains("rank 2: left: it has called MPI_Finalize");
        scene.require(held.status.success() && is_told, &said);
        ctl(&scene, None, &["air", "resume"]);
        fs::write(scene.path("end"), "").expect("a sign");
        scene.pass(jobs, LIMIT);
    }
}

/// The summary counts what MPI_Finalize delivers.
#[test]
fn last_words_are_counted() {
    for (a, b) in Mpi::some_couples() {
        let scene = Scene::new(format!("last words of {} to {}", a.name, b.name));
        let place = |name: &str| scene.path(name).to_str().expect("plain text").to_owned();
        let start = |mpi, names: [&str; 2], how| {
            let words = [names[0], names[1], how, &place("stopped"), &place("finalizing")];
            scene.start(Launch::new(mpi, 2, "last_words", &words).env("MPI_CONNECT_SUMMARY", "1"))
        };
        let jobs = [start(a, ["air", "ocean"], "says"), start(b, ["ocean", "air"], "hears")];
        let finalizes = || scene.path("finalizing.0").exists() && scene.path("finalizing.1").exists();
        scene.require(wait_until(LIMIT, finalizes), "both have said their words");
        let pid = fs::read_to_string(scene.path("stopped")).expect("a sign").trim().parse().expect("a pid");
        kill(Pid::from_raw(pid), Signal::SIGCONT).expect("it is there");
        let [air, _] = scene.pass(jobs, LIMIT);
        let lines = air.stderr.lines().filter(|line| line.contains("summary: 'air' to 'ocean' over "));
        let count = |line: &str| line.split(": ").nth(2).and_then(|said| said.split(' ').next()?.parse::<u64>().ok());
        let sent: u64 = lines.filter_map(count).sum();
        scene.require(sent == 2, &format!("two messages, not {sent}:\n{}", air.stderr));
    }
}

/// A process that is stopped is told as that, keeps nobody else from answering, and answers when it goes on.
#[test]
fn a_stopped_process_is_told() {
    for (a, b) in Mpi::some_couples() {
        let scene = Scene::new(format!("a stopped process of {} and {}", a.name, b.name));
        let jobs = joined(&scene, a, b, &[]);
        let (all, _) = json(&scene, "air");
        let pid = all["processes"][2]["pid"].as_i64().expect("a pid") as i32;
        kill(Pid::from_raw(pid), Signal::SIGSTOP).expect("it is there");
        let (all, code) = json_within(&scene, "air", "5");
        let told = stopped(&all) == 1 && all["processes"][2]["state"] == "not answering" && code == 3;
        kill(Pid::from_raw(pid), Signal::SIGCONT).expect("it is there");
        scene.require(told, &format!("{code}: {all:#}"));
        scene.require(wait_until(LIMIT, || stopped(&json(&scene, "air").0) == 0), "it answers again");
        fs::write(scene.path("end"), "").expect("a sign");
        scene.pass(jobs, LIMIT);
    }
}
