//! A process dies at a chosen step of writing its image, of completing a line, of removing an old one; the jobs go on under other MPIs, and
//! compute what they compute without that.

use super::restart::{LIMIT, Model, are_over, launches, make_folder, results, start, undisturbed};
use c_tests::{Figure, Launch, Mpi, Scene, command, compile_tool, library, wait_until, width};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

const MODEL: Model = Model { program: "restarted", ranks: [2, 1], word: None };

/// The steps in which a process of a job dies: of the leader, which completes lines and removes old ones, and of another process.
/// After the last ones all repeats.
const STEPS_OF_LEADER: usize = 60;
const STEPS_OF_MEMBER: usize = 25;

/// A process dies in the middle of writing its image, of completing a line, of removing an old one: at each step of that, all of
/// which `disk.c` counts.
#[test]
fn killed_at_each_step_of_writing() {
    let mut figure = Figure::new("45-restart-steps", "jobs killed at steps of writing their images, and restarted");
    let (few, all) = ((3, 1), (STEPS_OF_LEADER, STEPS_OF_MEMBER));
    let (of_leader, of_member) = width::otherwise(few, all, "a kill at each step of writing images, not at 4");
    let spread = |count: usize, all: usize, who| (0..count).map(move |i| (who, (2 * i + 1) * all / (2 * count)));
    // Air has two processes, and ocean one.
    let cases = spread(of_leader, STEPS_OF_LEADER, "leader").chain(spread(of_member, STEPS_OF_MEMBER, "member"));
    let mut turns = (1..).flat_map(Mpi::ring_of);
    let mut next = || turns.next().expect("there is always one more");
    let (a, b) = next();
    let want = undisturbed(MODEL, a, b);
    let mut died = Vec::new();
    for (at, (who, step)) in cases.enumerate() {
        let job = if who == "leader" && at % 2 == 1 { "ocean" } else { "air" };
        let (a, b) = next();
        let scene = Scene::new(format!("{who} of {job} dies at step {step}: {}, {}", a.name, b.name));
        make_folder(&scene);
        let file = |what: &str| scene.path("checkpoints").join(format!("{what}-{job}"));
        fs::write(file("kill"), format!("{step} {who}")).expect("a file of ours");
        fs::set_permissions(file("kill"), fs::Permissions::from_mode(0o666)).expect("a file of ours");
        let [air, ocean] = launches(&scene, MODEL, None, a, b);
        let below =
            |mpi, launch: Launch<'static>| launch.preloading(vec![compile_tool(mpi, "disk", "disk"), library()]);
        let mut jobs = [scene.start(below(a, air)), scene.start(below(b, ocean))];
        let is_dead = || file("died").exists();
        scene.require(wait_until(LIMIT, || is_dead() || are_over(&mut jobs)), "the step comes, or all ends");
        scene.require(is_dead(), "the job has as many steps");
        scene.kill(if job == "air" { "air\0ocean" } else { "ocean\0air" });
        scene.require(wait_until(LIMIT, || are_over(&mut jobs)), "a job ends whose other one was killed");
        let mut verify = Command::new(command());
        let said = verify.args(["checkpoint", "verify"]).arg(scene.path("checkpoints")).output().expect("mpi-connect");
        scene.require(said.status.success(), &format!("nothing is damaged: {}", String::from_utf8_lossy(&said.stdout)));
        let (a, b) = next();
        let got = results(&scene.pass(start(&scene, MODEL, None, a, b), LIMIT));
        let told = fs::read_to_string(file("died")).expect("what the step was");
        scene.require(got == want, &format!("{told}: {got:?}, not {want:?}"));
        let told = told.replace(&format!("{}/", scene.path("checkpoints").display()), "");
        died.push(format!("{job}, {}", told.trim()));
    }
    figure.line(format!("{0} of {0} the same results, each under other MPIs", died.len()));
    died.iter().for_each(|line| figure.line(line));
}
