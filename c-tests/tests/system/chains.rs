//! Several jobs, of which each is joined with its neighbours, by many inter-communicators of all kinds: killed at any moment, they go
//! on from their checkpoints, each time under other MPIs. Also one job that is joined with no other.

use crate::restart::{LIMIT, kills, make_folder, results};
use c_tests::faults::Random;
use c_tests::{Figure, Job, Launch, MPIS, Mpi, Scene, wait_until, width};
use std::fs;
use std::time::Duration;

/// A job: its name, its ranks, how many steps lie between two checkpoints, and its neighbours.
type Model = (&'static str, usize, &'static str, &'static [&'static str]);

const CHAIN: [Model; 3] =
    [("air", 2, "5", &["ocean"]), ("ocean", 3, "7", &["air", "ice"]), ("ice", 2, "11", &["ocean"])];
const ALONE: [Model; 1] = [("alone", 2, "5", &[])];
const STEPS: &str = "60";
/// How long a job may wait for others that start at the same time, three of them on a busy machine. One that waits for a job that was killed waits as long.
const TIMEOUT: &str = "15";

fn start<const N: usize>(scene: &Scene, models: [Model; N], mpis: &mut impl Iterator<Item = &'static Mpi>) -> [Job; N] {
    let folder = scene.path("checkpoints").display().to_string();
    models.map(|(name, ranks, every, neighbours)| {
        let words: Vec<&str> = [name, &folder, STEPS, every].iter().chain(neighbours).copied().collect();
        let mpi = mpis.next().expect("there is always one more");
        scene.start(Launch::new(mpi, ranks, "chain", &words).env("MPI_CONNECT_TIMEOUT", TIMEOUT))
    })
}

/// Kills jobs, now one and now all, until each has been started often enough; the last start of a run is left alone.
fn kill_and_restart<const N: usize>(models: [Model; N], kills: u32, mut figure: Figure) {
    let mut rng =
        Random::new(std::env::var("MPI_CONNECT_TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1));
    let (mut killed, mut runs, mut all_starts, mut gone_on) = (0, 0, 0, 0);
    let mut mpis = MPIS.iter().copied().cycle();
    let scene = Scene::new(format!("{N} jobs, without a kill"));
    make_folder(&scene);
    let want = results(&scene.pass(start(&scene, models, &mut mpis), LIMIT));
    scene.require(want.len() == models.iter().map(|(_, ranks, ..)| ranks).sum::<usize>(), &format!("{want:?}"));
    drop(scene);
    while killed < kills {
        let scene = Scene::new(format!("{N} jobs, killed and restarted, run {runs}"));
        make_folder(&scene);
        let folder = scene.path("checkpoints").display().to_string();
        let (mut starts, mut last) = (0, [0; N]);
        let done = loop {
            let mut jobs = start(&scene, models, &mut mpis);
            starts += 1;
            let numbers = |job: &Job, word: &str| -> Vec<u32> {
                let printed = job.printed();
                printed.lines().filter_map(|line| line.strip_prefix(word)?.parse().ok()).collect()
            };
            let from = |job: &Job| numbers(job, "FROM ");
            // A job is killed after some steps, in the middle of one; the first of all after more, so that there are checkpoints.
            let (least, some) = (if starts == 1 { 20 } else { 5 }, rng.below(25) as usize);
            let over = |jobs: &mut [Job; N]| jobs.iter_mut().all(|job| job.poll().is_some());
            let is_there = |jobs: &mut [Job; N]| numbers(&jobs[0], "STEP ").len() > least + some || over(jobs);
            scene.require(wait_until(LIMIT, || is_there(&mut jobs)), "a job makes some steps, or ends");
            let moment = Duration::from_millis(rng.below(30));
            // None goes back to an older line than before.
            let firsts: Vec<Option<u32>> = jobs.iter().map(|job| from(job).first().copied()).collect();
            let is_newer = firsts.iter().zip(&last).all(|(first, last)| first.is_none_or(|first| first >= *last));
            gone_on += u32::from(firsts.iter().all(|first| *first > Some(0)));
            all_starts += 1;
            scene.require(is_newer, &format!("jobs go on from {firsts:?}, and went on from {last:?} before"));
            if starts > 3 || killed >= kills || wait_until(moment, || over(&mut jobs)) {
                break scene.pass(jobs, LIMIT);
            }
            killed += 1;
            match models.get(rng.below(N as u64 + 1) as usize) {
                Some((name, ..)) => scene.kill(&format!("{name}\0{folder}")),
                None => scene.kill(&folder),
            }
            // The others end by themselves.
            scene.require(wait_until(LIMIT, || over(&mut jobs)), "a job ends whose other one was killed");
            jobs.iter().zip(&mut last).for_each(|(job, last)| *last = from(job).last().copied().unwrap_or(*last));
        };
        let got = results(&done);
        scene.require(got == want, &format!("after {starts} starts: {got:?}, not {want:?}"));
        runs += 1;
    }
    figure.line(format!(
        "{killed} kills in {runs} runs: {runs} of {runs} the same; {gone_on} of {all_starts} starts were from a checkpoint"
    ));
    assert!(gone_on > 0, "no start was from a checkpoint");
}

#[test]
fn chains_of_jobs_go_on_under_other_mpis() {
    let kills = kills(|| width::otherwise(4, 200, "200 kills of chains of three jobs, not 4"));
    let figure =
        Figure::new("47-chain", "three jobs in a chain, killed and restarted under other MPIs: the same results");
    kill_and_restart(CHAIN, kills, figure);
}

#[test]
fn a_job_alone_goes_on_under_other_mpis() {
    let kills = width::otherwise(3, 50, "50 kills of a job that is joined with no other, not 3");
    let figure = Figure::new("47-alone", "a job that is joined with no other, killed and restarted: the same results");
    kill_and_restart(ALONE, kills, figure);
}

#[test]
fn names_and_couplings_are_given_back() {
    give_back("by names", false);
}

#[test]
fn what_a_port_has_made_is_given_back() {
    give_back("at a port", true);
}

fn give_back(how: &str, at_a_port: bool) {
    for (a, b) in Mpi::some_couples() {
        let scene =
            Scene::new(format!("{} and {}, joined {how}, are restarted under each other's MPI", a.name, b.name));
        make_folder(&scene);
        let place = |name: &str| scene.path(name).display().to_string();
        let start = |mpi, mine: &str, theirs: &str| {
            let words =
                [mine.to_owned(), theirs.into(), place("checkpoints"), place(&format!("{mine}-here")), place("end")];
            let words = words.into_iter().chain(at_a_port.then(|| place("port"))).collect::<Vec<_>>();
            scene.start(Launch::new(mpi, 2, "again", &words.iter().map(String::as_str).collect::<Vec<_>>()))
        };
        let both = |[air, ocean]: [&'static Mpi; 2]| [start(air, "air", "ocean"), start(ocean, "ocean", "air")];
        scene.pass(both([a, b]), LIMIT);
        let jobs = both([b, a]);
        let all = || ["air-here", "ocean-here"].iter().all(|sign| scene.path(sign).exists());
        scene.require(wait_until(LIMIT, all), "both have gone on");
        let names = scene.names();
        let is_listed = names.lines().any(|line| line.starts_with("air - ocean  coupling  live   2 - 2  "));
        scene.require(is_listed, &format!("the coupling is listed again:\n{names}"));
        fs::write(scene.path("end"), "").expect("a sign");
        scene.pass(jobs, LIMIT);
    }
}

#[test]
fn a_line_has_no_cuts_between_which_an_inter_communicator_was_made() {
    for (a, b) in Mpi::some_couples() {
        let scene = Scene::new(format!("{} and {} grow together between two cuts", a.name, b.name));
        make_folder(&scene);
        let folder = scene.path("checkpoints").display().to_string();
        let start = |mpi, words: [&str; 4]| scene.start(Launch::new(mpi, 2, "grown", &words));
        for [air, ocean] in [[a, b], [b, a]] {
            let air = start(air, ["air", "ocean", &folder, "yes"]);
            scene.pass([air, start(ocean, ["ocean", "air", &folder, "no"])], LIMIT);
        }
    }
}
