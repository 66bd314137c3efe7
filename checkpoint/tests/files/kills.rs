//! A job is killed at every step of what it does with its files, one after the other: the last complete line is whole, and nothing
//! half-written is taken for whole.
//!
//! The test program starts itself as the job (`ROLE`); see `job`.

use crate::kit::{FORMS, Folder, Form, LINES, checkpoints, usable};
use checkpoint::{Step, Store, Watch};
use nix::sys::signal::{Signal, raise};
use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const ROLE: &str = "CHECKPOINT_TEST_JOB";
const NEVER: u64 = u64::MAX;

/// Ends the process at a step.
#[derive(Debug)]
struct Reaper {
    steps: AtomicU64,
    last: u64,
}

impl Watch for Reaper {
    fn before(&self, _: Step) -> io::Result<()> {
        if self.steps.fetch_add(1, Ordering::Relaxed) == self.last {
            raise(Signal::SIGKILL).unwrap();
        }
        Ok(())
    }
}

/// The job: it goes on from what it finds, to the last line and one more. Without `ROLE`, this test does nothing.
#[test]
fn job() {
    let Ok(arguments) = std::env::var(ROLE) else { return };
    let [folder, last, form] = arguments.split('|').collect::<Vec<_>>()[..] else { panic!("{arguments}") };
    let reaper = Arc::new(Reaper { steps: AtomicU64::new(0), last: last.parse().unwrap() });
    let form: usize = form.parse().unwrap();
    let store = FORMS[form].of(Store::new(Path::new(folder), crate::kit::JOB).watched(reaper.clone()));
    let mut held = None;
    let say = |serial| {
        println!("SAYS {serial}");
        io::stdout().flush().unwrap();
    };
    store.hold(&mut held).unwrap();
    let from = usable(&store, 0).unwrap().first().copied();
    let line = |serial| {
        let found = store.lines().unwrap().into_iter().find(|line| line.serial == serial).unwrap();
        found.image(0).unwrap().unwrap().head.line
    };
    store.go_on_from(from.map(|serial| (serial, line(serial)))).unwrap();
    let next = from.unwrap_or(0) + 1;
    checkpoints(&store, &mut held, next..=LINES.max(next), say).unwrap();
    println!("DONE {}", reaper.steps.load(Ordering::Relaxed));
}

/// The newest line that the job has told to be complete, and the number of its steps if it came to its end.
fn run(folder: &Path, last: u64, form: Form) -> (u64, Option<u64>) {
    let form = FORMS.iter().position(|one| *one == form).unwrap();
    let done = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "kills::job", "--nocapture", "--test-threads=1"])
        .env(ROLE, format!("{}|{last}|{form}", folder.display()))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&done.stdout);
    let of = |word: &str| text.lines().rev().find_map(|line| line.split_once(word)?.1.trim().parse().ok());
    assert!(done.status.success() || last != NEVER, "{text}{}", String::from_utf8_lossy(&done.stderr));
    assert_eq!(done.status.success(), of("DONE ").is_some(), "{text}{}", String::from_utf8_lossy(&done.stderr));
    (of("SAYS ").unwrap_or(0), of("DONE "))
}

/// A job that goes on comes to its end, and leaves nothing but two lines.
fn go_on(folder: &Folder, told: u64, form: Form, what: &str) {
    let (now, steps) = run(&folder.named(), NEVER, form);
    assert!(now >= LINES.max(told) && steps.is_some(), "{what}: {now}");
    let found = usable(&folder.store(), now).unwrap();
    assert_eq!(found, [now, now - 1], "{what}");
    let names = fs::read_dir(folder.store().folder()).unwrap().map(|entry| entry.unwrap().file_name());
    let names: BTreeSet<String> = names.map(|name| name.to_str().unwrap().to_owned()).collect();
    let lines = names.iter().filter(|name| name.starts_with("line-") && !name.ends_with(".part")).count();
    assert_eq!((names.len(), lines, names.contains("lock")), (3, 2, true), "{what}: {names:?}");
    for line in folder.store().lines().unwrap() {
        assert_eq!(fs::read_dir(&line.folder).unwrap().count(), form.files(), "{what}: {line:?}");
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

fn at_every_step(form: Form) {
    let (mut last, mut kills) = (0, 0);
    let steps = (0..)
        .find(|step| {
            let folder = Folder::in_memory();
            let (told, done) = run(&folder.named(), *step, form);
            let what = format!("{form:?}, killed at step {step}");
            assert!(told >= last, "{what}: at a later step, as much was told");
            last = told;
            usable(&folder.store(), told).unwrap_or_else(|e| panic!("{what}: {e}"));
            // What a job does that goes on can be interrupted too.
            if step % 13 == 0 && done.is_none() && folder.named().exists() {
                let mut again = 0;
                loop {
                    let other = Folder::in_memory();
                    copy(&folder.named(), &other.named());
                    let (now, done) = run(&other.named(), again, form);
                    let what = format!("{what}, and at step {again} of the restart");
                    usable(&other.store(), now.max(told)).unwrap_or_else(|e| panic!("{what}: {e}"));
                    kills += 1;
                    if done.is_some() {
                        break;
                    }
                    go_on(&other, now.max(told), form, &what);
                    again += if step % 39 == 0 { 3 } else { 11 };
                }
            }
            go_on(&folder, told, form, &what);
            done.is_some()
        })
        .unwrap();
    println!("{form:?}: killed at each of {steps} steps of {last} checkpoints, and {kills} times in jobs that went on");
    assert!(steps > 80 && last == LINES, "{steps} {last}");
}

#[test]
fn at_every_step_of_files_for_each_process() {
    at_every_step(Form::Plain);
}

#[test]
fn at_every_step_of_files_for_each_host() {
    at_every_step(Form::PerNode);
}
