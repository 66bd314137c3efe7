//! An operator changes what carries the messages of two jobs while they flow; and processes give up their connections for a while.

use crate::control::{LIMIT, ctl, joined, json, messages};
use c_tests::{Launch, Mpi, Scene, wait_until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::fs;
use std::process::Output;
use std::time::Duration;

/// The transport of the pair of the two ranks 0, empty if they are not connected.
fn over(all: &Value) -> String {
    let pairs = all["processes"][0]["pairs"].as_array().cloned().unwrap_or_default();
    let first = pairs.iter().find(|pair| pair["rank"] == 0);
    first.and_then(|pair| pair["transport"].as_str()).unwrap_or_default().to_owned()
}

/// Gives a command to a job, each process of which is to answer.
fn asked(scene: &Scene, words: &[&str]) -> Output {
    ctl(scene, None, &[words, &["--timeout", "30"]].concat())
}

/// The same of a command that each process must do. Returns what they say.
fn order(scene: &Scene, words: &[&str]) -> Value {
    let done = asked(scene, &[words, &["--json"]].concat());
    let said = String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
    scene.require(done.status.success(), &format!("{words:?}: {said}"));
    serde_json::from_slice(&done.stdout).expect("JSON")
}

fn flows(scene: &Scene) {
    let before = messages(&json(scene, "air").0);
    scene.require(wait_until(LIMIT, || messages(&json(scene, "air").0) > before), "messages flow");
}

/// Shared memory of the library that the processes of a job have mapped.
fn mapped(scene: &Scene, name: &str) -> usize {
    let (all, _) = json(scene, name);
    let processes = all["processes"].as_array().cloned().unwrap_or_default();
    let maps = processes.iter().map(|one| fs::read_to_string(format!("/proc/{}/maps", one["pid"])).unwrap_or_default());
    maps.map(|maps| maps.lines().filter(|line| line.contains("memfd:mpi_connect")).count()).sum()
}

#[test]
fn an_operator_changes_what_carries_the_messages() {
    for (a, b) in Mpi::couples() {
        let scene = Scene::new(format!("{} and {} are switched", a.name, b.name));
        let jobs = joined(&scene, a, b, &[("MPI_CONNECT_HOLD_ON", "SIGUSR1")]);
        let is_over = |word: &str| {
            let (all, _) = json(&scene, "air");
            scene.require(over(&all) == word, &format!("over {word}: {all:#}"));
            flows(&scene);
        };
        for word in ["tcp", "shm", "tcp", "best"] {
            order(&scene, &["air", "switch", word]);
            is_over(if word == "best" { "shm" } else { word });
        }
        // Each side tells where it is already.
        for name in ["air", "ocean"] {
            let said = order(&scene, &[name, "switch", "best"]).to_string();
            scene.require(said.contains("already on shared memory") && !said.contains("moved"), &said);
        }
        order(&scene, &["ocean", "switch", "tcp", "--peer", "air", "--rank", "0", "--peer-rank", "0"]);
        is_over("tcp");
        // No job has this name, and none is held.
        for words in [&["ocean", "switch", "tcp", "--peer", "ice"][..], &["ocean", "give-up", "air"]] {
            let none = asked(&scene, words);
            let said = String::from_utf8_lossy(&none.stdout).into_owned();
            scene.require(none.status.code() == Some(1) && said.contains("ranks 0-1: no pair"), &said);
            let which = match words[1] {
                "switch" => "it is not connected with 'ice', but with 'air'",
                _ => "it waits for none of its processes",
            };
            scene.require(said.contains(which), &said);
        }
        let said = order(&scene, &["air", "stop-using", "shm"]).to_string();
        scene.require(said.contains("have left it") || said.contains("has left it"), &said);
        let said = order(&scene, &["air", "stop-using", "shm"]).to_string();
        scene.require(said.contains("it was not in use"), &said);
        let refused = asked(&scene, &["air", "switch", "shm"]);
        let said = String::from_utf8_lossy(&refused.stdout).into_owned();
        scene.require(said.contains("rank 0 of 'ocean': this side has taken it out of use"), &said);
        let refused = asked(&scene, &["ocean", "switch", "shm"]);
        let said = String::from_utf8_lossy(&refused.stdout).into_owned();
        scene.require(said.contains("rank 0 of 'air': the other side offers none"), &said);
        scene.require(mapped(&scene, "air") == 0, "no shared memory is left");
        is_over("tcp");
        order(&scene, &["ocean", "switch", "best"]);
        is_over("tcp");
        let done = asked(&scene, &["air", "stop-using", "tcp"]);
        let said = String::from_utf8_lossy(&done.stdout).into_owned();
        scene.require(done.status.code() == Some(1) && said.contains("no other transport"), &said);
        // Its operator has taken that back, which this side hears when the other one moves the pair.
        let said = order(&scene, &["air", "use", "shm"]).to_string();
        scene.require(said.contains("rank 0 of 'ocean': the other side has ordered tcp"), &said);
        scene.require(wait_until(LIMIT, || over(&json(&scene, "air").0) == "shm"), "who has no order uses the best");
        flows(&scene);
        order(&scene, &["air", "switch", "tcp"]);
        order(&scene, &["ocean", "stop-using", "shm"]);
        let said = order(&scene, &["ocean", "use", "shm"]).to_string();
        scene.require(said.contains("rank 0 of 'air': the other side has ordered tcp"), &said);
        order(&scene, &["air", "stop-using", "shm"]);
        let said = order(&scene, &["air", "use", "shm"]).to_string();
        scene.require(said.contains("rank 0 of 'ocean': tcp is ordered"), &said);
        is_over("tcp");
        let why = json(&scene, "air").0["processes"][0]["pairs"].to_string();
        scene.require(why.contains("\"why\":\"ordered\""), &format!("an order stands until another: {why}"));
        order(&scene, &["air", "switch", "best"]);
        is_over("shm");
        for name in ["air", "ocean"] {
            order(&scene, &[name, "hold"]);
            let before = json(&scene, "air").0;
            scene.require(over(&before).is_empty(), &format!("nothing is connected: {before:#}"));
            let other = if name == "air" { "ocean" } else { "air" };
            let job = &jobs[usize::from(name == "ocean")];
            let told = |word: &str| wait_until(LIMIT, || job.printed().trim_end().ends_with(&format!("TOLD {word}")));
            scene.require(told("held"), "the program is told that it is held");
            for (whose, state, told) in
                [(name, "held", "this process is held"), (other, "running", "it is held, and comes back by itself")]
            {
                let one = &json(&scene, whose).0["processes"][0];
                let is_told = one["state"] == state && one["pairs"][0]["why"] == told;
                scene.require(is_told, &format!("{whose}: {one:#}"));
            }
            scene.require(messages(&json(&scene, "air").0) == messages(&before), "nothing flows");
            order(&scene, &[name, "resume"]);
            scene.require(told("resuming"), "the program is told that it comes back");
            flows(&scene);
            // Another transport may be the first to get through.
            scene.require(
                wait_until(LIMIT, || over(&json(&scene, "air").0) == "shm"),
                "it is back on the best transport",
            );
        }
        // A tool that knows only signals does the same.
        let pid = json(&scene, "air").0["processes"][0]["pid"].as_i64().expect("a pid") as i32;
        let signal = || kill(Pid::from_raw(pid), Signal::SIGUSR1).expect("it is there");
        signal();
        scene.require(wait_until(LIMIT, || over(&json(&scene, "air").0).is_empty()), "it gives up its connections");
        signal();
        scene.require(wait_until(LIMIT, || over(&json(&scene, "air").0) == "shm"), "it comes back");
        flows(&scene);
        // What is ordered after a signal is done after it.
        for _ in 0..10 {
            signal();
            order(&scene, &["air", "resume"]);
        }
        scene.require(wait_until(LIMIT, || over(&json(&scene, "air").0) == "shm"), "it comes back for good");
        flows(&scene);
        fs::write(scene.path("end"), "").expect("a sign");
        scene.pass(jobs, LIMIT);
    }
}

/// A job that is in MPI_Finalize, and there waits for a held process to take its data, is found by its operator, who gives that process up
/// when it has died.
#[test]
fn a_job_that_waits_in_its_end_can_be_told_to_give_up() {
    for (a, b) in Mpi::couples() {
        let scene = Scene::new(format!("{} ends while {} is held", a.name, b.name));
        let signs = ["held", "end"].map(|name| scene.path(name).to_str().expect("plain text").to_owned());
        let start = |mpi, mine: &str, theirs: &str| {
            scene.start(Launch::new(mpi, 1, "ending", &[mine, theirs, &signs[0], &signs[1]]))
        };
        let [mut air, _ocean] = [start(a, "air", "ocean"), start(b, "ocean", "air")];
        let joined = || ["held.air", "held.ocean"].iter().all(|name| scene.path(name).exists());
        scene.require(wait_until(LIMIT, joined), "both are joined");
        let pid = json(&scene, "ocean").0["processes"][0]["pid"].as_i64().expect("a pid") as i32;
        order(&scene, &["ocean", "hold"]);
        fs::write(&signs[0], "").expect("a sign");
        let waits = || json(&scene, "air").0["processes"][0].to_string().contains("MPI_Finalize");
        scene.require(wait_until(LIMIT, waits), "it is seen in its end");
        kill(Pid::from_raw(pid), Signal::SIGKILL).expect("it is there");
        order(&scene, &["air", "give-up", "ocean"]);
        scene.require(wait_until(LIMIT, || air.poll().is_some()), "it ends");
    }
}

/// An order for a pair whose other process is stopped is told as one that stands, and is obeyed soon after that one goes on.
#[test]
fn an_order_waits_for_a_stopped_partner() {
    for (a, b) in Mpi::couples() {
        let scene = Scene::new(format!("{} is switched while {} is stopped", a.name, b.name));
        let jobs = joined(&scene, a, b, &[]);
        let pid = json(&scene, "ocean").0["processes"][0]["pid"].as_i64().expect("a pid") as i32;
        for (word, other) in [("tcp", "shm"), ("shm", "tcp")] {
            kill(Pid::from_raw(pid), Signal::SIGSTOP).expect("it is there");
            let done = ctl(&scene, None, &["air", "switch", word]);
            let why = json(&scene, "air").0;
            kill(Pid::from_raw(pid), Signal::SIGCONT).expect("it is there");
            let said = String::from_utf8_lossy(&done.stdout).into_owned();
            let waits = "it does not answer; the pair moves when it does";
            let is_told =
                said.contains(&format!("rank 0: under way: 1 of 2 pairs still moves: rank 0 of 'ocean': {waits}"));
            scene.require(is_told && done.status.code() != Some(0), &said);
            scene
                .require(over(&why) == other && why.to_string().contains(waits), &format!("lanes say it too: {why:#}"));
            let soon = Duration::from_secs(10);
            scene.require(wait_until(soon, || over(&json(&scene, "air").0) == word), "it moves when the other goes on");
            flows(&scene);
        }
        fs::write(scene.path("end"), "").expect("a sign");
        scene.pass(jobs, LIMIT);
    }
}

/// A process that is held does not hear that another one takes a transport out of use, and is refused by it afterwards.
#[test]
fn what_others_change_during_a_hold_kills_nobody() {
    for (a, b) in Mpi::couples() {
        let scene = Scene::new(format!("{} and {} change during a hold", a.name, b.name));
        let jobs = joined(&scene, a, b, &[]);
        for (held, other) in [("air", "ocean"), ("ocean", "air")] {
            for both in [false, true] {
                order(&scene, &[held, "hold"]);
                if both {
                    order(&scene, &[other, "hold"]);
                }
                order(&scene, &[other, "stop-using", "shm"]);
                order(&scene, &[held, "resume"]);
                if both {
                    order(&scene, &[other, "resume"]);
                }
                flows(&scene);
                let (all, _) = json(&scene, "air");
                scene.require(over(&all) == "tcp", &format!("over what is left: {all:#}"));
                order(&scene, &[other, "use", "shm"]);
                scene.require(wait_until(LIMIT, || over(&json(&scene, "air").0) == "shm"), "over the best again");
            }
        }
        fs::write(scene.path("end"), "").expect("a sign");
        scene.pass(jobs, LIMIT);
    }
}

#[test]
fn a_program_holds_itself() {
    for (a, b) in Mpi::couples() {
        for (how, lanes) in [("call", "tcp"), ("call", ""), ("signal", "")] {
            let scene = Scene::new(format!("{} and {} hold themselves by {how}, lanes '{lanes}'", a.name, b.name));
            let start = |mpi, names: [&str; 2], side| {
                let launch = Launch::new(mpi, 2, "held", &[names[0], names[1], side, how]);
                scene.start(
                    launch
                        .env("MPI_CONNECT_LOG", "debug")
                        .env("MPI_CONNECT_LANES", lanes)
                        .env("MPI_CONNECT_HOLD_ON", "SIGUSR1"),
                )
            };
            scene.pass([start(a, ["air", "ocean"], "0"), start(b, ["ocean", "air"], "1")], LIMIT);
        }
    }
}
