//! Coupled jobs that are killed at any moment go on from their checkpoints, each time under other MPIs, and compute what they
//! compute without that.

use c_tests::faults::Random;
use c_tests::{Done, Figure, Job, Launch, MPIS, Mpi, Scene, wait_until, width};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

pub(super) const LIMIT: Duration = Duration::from_secs(120);
/// How long a job may wait for one that was killed: then both are started again.
const TIMEOUT: &str = "5";
const STEPS: &str = "150";

/// The results that a run printed, of each job by rank.
pub(crate) fn results(done: &[Done]) -> Vec<String> {
    let lines = |done: &Done| done.lines("RESULT").map(str::to_owned).collect::<BTreeSet<_>>();
    done.iter().flat_map(lines).collect()
}

/// The folder for checkpoints, in which any user may write.
pub(crate) fn make_folder(scene: &Scene) {
    let folder = scene.path("checkpoints");
    fs::create_dir(&folder).expect("a folder of ours");
    fs::set_permissions(folder, fs::Permissions::from_mode(0o777)).expect("a folder of ours");
}

/// A program, and the number of ranks of both jobs.
#[derive(Clone, Copy)]
pub(super) struct Model {
    pub(super) program: &'static str,
    pub(super) ranks: [usize; 2],
    /// Half of the runs are with this word, which an MPI without matched probes does not know.
    pub(super) word: Option<&'static str>,
}

/// The two jobs as they are started.
pub(super) fn launches<'m>(
    scene: &Scene,
    model: Model,
    word: Option<&str>,
    air: &'m Mpi,
    ocean: &'m Mpi,
) -> [Launch<'m>; 2] {
    let folder = scene.path("checkpoints").display().to_string();
    let launch = |mpi, ranks, names: [&str; 2], every| {
        let words: Vec<&str> = [names[0], names[1], &folder, STEPS, every].into_iter().chain(word).collect();
        Launch::new(mpi, ranks, model.program, &words).env("MPI_CONNECT_TIMEOUT", TIMEOUT)
    };
    let [of_air, of_ocean] = model.ranks;
    [launch(air, of_air, ["air", "ocean"], "5"), launch(ocean, of_ocean, ["ocean", "air"], "7")]
}

pub(super) fn start(
    scene: &Scene,
    model: Model,
    word: Option<&str>,
    air: &'static Mpi,
    ocean: &'static Mpi,
) -> [Job; 2] {
    // Neither waits while the other one's program is compiled.
    launches(scene, model, word, air, ocean).map(|launch| scene.start(launch))
}

/// The results of a run without a kill.
pub(super) fn undisturbed(model: Model, a: &'static Mpi, b: &'static Mpi) -> Vec<String> {
    let scene = Scene::new(format!("without a kill: {}, {}", a.name, b.name));
    make_folder(&scene);
    let want = results(&scene.pass(start(&scene, model, None, a, b), LIMIT));
    scene.require(want.len() == model.ranks.iter().sum::<usize>(), &format!("{want:?}"));
    want
}

pub(super) fn are_over(jobs: &mut [Job; 2]) -> bool {
    jobs.iter_mut().all(|job| job.poll().is_some())
}

/// How often jobs are killed; `MPI_CONNECT_TEST_KILLS` sets it.
pub(super) fn kills(otherwise: impl FnOnce() -> u32) -> u32 {
    let set = std::env::var("MPI_CONNECT_TEST_KILLS").ok().and_then(|kills| kills.parse().ok());
    set.unwrap_or_else(otherwise)
}

#[test]
fn killed_jobs_go_on_under_other_mpis() {
    let figure = Figure::new("45-restart", "jobs killed and restarted under other MPIs: the same results, bit for bit");
    kill_and_restart(Model { program: "restarted", ranks: [2, 1], word: None }, figure);
}

#[test]
fn killed_jobs_find_again_what_they_had_found() {
    let figure = Figure::new(
        "46-choosing",
        "the same of a model whose messages depend on tests, probes and receives from any source",
    );
    kill_and_restart(Model { program: "choosing", ranks: [2, 3], word: Some("matched") }, figure);
}

fn kill_and_restart(model: Model, mut figure: Figure) {
    let kills = kills(|| width::otherwise(8, 1000, "1,000 kills of jobs with checkpoints, not 8"));
    let seed = std::env::var("MPI_CONNECT_TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let (mut rng, mut killed, mut runs, mut seen) = (Random::new(seed), 0, 0, BTreeSet::new());
    let mut turns = (1..).flat_map(Mpi::ring_of);
    let mut next = || turns.next().expect("there is always one more");
    let (a, b) = next();
    let want = undisturbed(model, a, b);
    while killed < kills {
        let scene = Scene::new(format!("killed and restarted, run {runs}"));
        make_folder(&scene);
        let mut starts = 0;
        let word = model.word.filter(|_| runs % 2 == 1 && MPIS.iter().any(|mpi| mpi.has_matched_probes()));
        let done = loop {
            let (a, b) = next();
            if word.is_some() && !(a.has_matched_probes() && b.has_matched_probes()) {
                continue;
            }
            seen.extend([a.name, b.name]);
            starts += 1;
            let mut jobs = start(&scene, model, word, a, b);
            // Some run to their end; the others are killed after a moment that begins with the first step.
            let last = rng.below(5) == 0 || killed >= kills;
            let begun = |jobs: &mut [Job; 2]| jobs[1].printed().contains("FROM") || are_over(jobs);
            scene.require(wait_until(LIMIT, || begun(&mut jobs)), "a job begins, or ends");
            let moment = Instant::now() + Duration::from_millis(rng.below(400));
            if last || wait_until(moment.saturating_duration_since(Instant::now()), || are_over(&mut jobs)) {
                break scene.pass(jobs, LIMIT);
            }
            killed += 1;
            match rng.below(3) {
                0 => scene.kill("air\0ocean"),
                1 => scene.kill("ocean\0air"),
                _ => scene.kill("checkpoints"),
            }
            // The other one ends by itself, or waits for nothing.
            scene.require(wait_until(LIMIT, || are_over(&mut jobs)), "a job ends whose other one was killed");
        };
        let got = results(&done);
        scene.require(got == want, &format!("after {starts} starts: {got:?}, not {want:?}"));
        runs += 1;
    }
    figure.line(format!("{killed} kills in {runs} runs, under {}: {runs} of {runs} the same", seen.len()));
}
