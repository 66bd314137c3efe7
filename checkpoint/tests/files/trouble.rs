//! What goes wrong with files: it is told, the last complete line stays, and the next checkpoint is good once it can be.

use crate::kit::{Folder, Form, JOB, LINES, RANKS, checkpoints, id, image, usable};
use checkpoint::{Step, Store, StoreError, Watch};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const ROLE: &str = "CHECKPOINT_TEST_DISK";

/// One step fails, as on a disk that is just full.
#[derive(Debug)]
struct Failing {
    steps: AtomicU64,
    at: u64,
}

impl Watch for Failing {
    fn before(&self, _: Step) -> io::Result<()> {
        if self.steps.fetch_add(1, Ordering::Relaxed) == self.at {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(())
    }
}

fn each_step_may_fail(form: Form) {
    let mut told = 0;
    let steps = (0..)
        .find(|at| {
            let folder = Folder::in_memory();
            let watch = Arc::new(Failing { steps: AtomicU64::new(0), at: *at });
            let store = form.of(folder.store().watched(watch.clone()));
            let (mut held, mut complete, mut errors) = (None, 0, Vec::new());
            for serial in 1..=LINES {
                match checkpoints(&store, &mut held, [serial], |serial| complete = serial) {
                    Ok(()) => (),
                    Err(e) => errors.push(e.to_string()),
                }
                // Two lines have to be there, but for the one that failed.
                let must = if errors.is_empty() { complete } else { complete.min(1) };
                let found = usable(&store, must).unwrap_or_else(|e| panic!("step {at} failed, line {serial}: {e}"));
                assert!(found.first().is_none_or(|newest| *newest >= complete), "step {at} failed: {found:?}");
            }
            assert!(errors.len() <= 1 && errors.iter().all(|e| e.contains("make room there")), "step {at}: {errors:?}");
            told += errors.len();
            if watch.steps.load(Ordering::Relaxed) <= *at {
                return true;
            }
            // What the fault has left behind goes with the lines after it.
            let last = LINES + 2;
            checkpoints(&store, &mut held, LINES + 1..=last, |_| ()).unwrap();
            assert_eq!(usable(&store, last).unwrap(), [last, last - 1], "step {at} failed");
            assert_eq!(fs::read_dir(store.folder()).unwrap().count(), 3, "step {at} failed: something is left");
            false
        })
        .unwrap();
    println!("{form:?}: each of {steps} steps failed once, {told} of them are told");
    // But for two: who has the lock is said in it for people.
    assert!(steps > 100 && told as u64 == steps - 2, "{told} of {steps}");
}

#[test]
fn each_step_may_fail_with_files_for_each_process() {
    each_step_may_fail(Form::Plain);
}

#[test]
fn each_step_may_fail_with_files_for_each_host() {
    each_step_may_fail(Form::PerNode);
}

/// Runs `what` in a process for which a small file system of its own is mounted at the folder.
fn on_a_small_disk(what: &str) {
    let folder = Folder::new();
    let mount = format!("mount -t tmpfs -o size=400k,mode=700 none {} && exec \"$0\" \"$@\"", folder.0.display());
    if !Command::new("unshare").args(["-rm", "sh", "-c", &mount, "true"]).status().is_ok_and(|s| s.success()) {
        println!("NOT CHECKED, since this user may mount nothing: {what}");
        return;
    }
    let done = Command::new("unshare")
        .args(["-rm", "sh", "-c", &mount])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "trouble::on_disk", "--nocapture", "--test-threads=1"])
        .env(ROLE, format!("{what}|{}", folder.0.display()))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success() && said.contains("WAS DONE"), "{said}{}", String::from_utf8_lossy(&done.stderr));
}

/// The process with a file system of its own; without `ROLE`, this test does nothing.
#[test]
fn on_disk() {
    let Ok(arguments) = std::env::var(ROLE) else { return };
    let (what, folder) = arguments.split_once('|').unwrap();
    let folder = Path::new(folder);
    let remount = |options: &str| {
        let done = Command::new("mount").args(["-o", &format!("remount,{options}")]).arg(folder).status().unwrap();
        assert!(done.success());
    };
    let store = Store::new(&folder.join("named"), JOB);
    let mut held = None;
    checkpoints(&store, &mut held, 1..=2, |_| ()).unwrap();
    match what {
        "full" => {
            // Each image of the third line takes 1.25 MB.
            let said = checkpoints(&store, &mut held, [3], |_| ()).unwrap_err().to_string();
            assert!(said.contains("No space left on device") && said.contains("make room there"), "{said}");
            assert_eq!(usable(&store, 2).unwrap(), [2, 1]);
            let line = store.lines().unwrap().into_iter().find(|line| line.serial == 3).unwrap();
            assert_eq!(line.ranks().unwrap(), Default::default(), "it takes no room");
            // Small ones fit still.
            checkpoints(&store, &mut held, [4], |_| ()).unwrap();
            assert_eq!(usable(&store, 4).unwrap(), [4, 2]);
            remount("size=20m");
            checkpoints(&store, &mut held, [5, 3 + 3], |_| ()).unwrap();
        }
        "read-only" => {
            // No file system becomes so while a file is open for writing.
            drop(held.take());
            remount("ro");
            let said = store.open(&mut held).unwrap_err().to_string();
            assert!(said.contains("Read-only file system"), "{said}");
            let said = store.write(&image(3, id(3), 0)).unwrap_err().to_string();
            assert!(said.contains("Read-only file system"), "{said}");
            // A job goes on from there nevertheless.
            let mut other = None;
            store.hold(&mut other).unwrap();
            assert_eq!(usable(&store, 2).unwrap(), [2, 1]);
            let line = store.lines().unwrap()[0].image(0).unwrap().unwrap().head.line;
            store.go_on_from(Some((2, line))).unwrap();
            drop(other);
            remount("rw,size=20m");
            checkpoints(&store, &mut held, 3..=4, |_| ()).unwrap();
            assert_eq!(usable(&store, 4).unwrap(), [4, 3]);
        }
        other => panic!("{other}"),
    }
    println!("WAS DONE");
}

#[test]
fn a_full_disk() {
    on_a_small_disk("full");
}

#[test]
fn a_read_only_folder() {
    on_a_small_disk("read-only");
}

#[test]
fn a_folder_that_is_gone_is_not_made_again() {
    let folder = Folder::in_memory();
    let (store, away) = (folder.store(), folder.0.join("away"));
    let mut held = None;
    checkpoints(&store, &mut held, 1..=2, |_| ()).unwrap();
    fs::rename(folder.named(), &away).unwrap();
    for _ in 0..2 {
        let said = store.open(&mut held).unwrap_err();
        assert!(matches!(&said, StoreError::Gone(path) if *path == folder.named()), "{said}");
        assert!(said.to_string().contains("is gone"), "{said}");
        assert!(matches!(store.write(&image(3, id(3), 0)), Err(StoreError::Gone(_))));
        assert!(!folder.named().exists());
    }
    // The user has made it again, or brought it back.
    fs::create_dir(folder.named()).unwrap();
    checkpoints(&store, &mut held, [4], |_| ()).unwrap();
    assert_eq!(usable(&store, 1).unwrap(), [4]);
    fs::remove_dir_all(folder.named()).unwrap();
    fs::rename(&away, folder.named()).unwrap();
    checkpoints(&store, &mut held, [5], |_| ()).unwrap();
    assert_eq!(usable(&store, 5).unwrap(), [5, 2]);
    // Without the job's own folder alone, that is made again: somebody has removed all of its checkpoints.
    fs::remove_dir_all(store.folder()).unwrap();
    checkpoints(&store, &mut held, [6], |_| ()).unwrap();
    assert_eq!(usable(&store, 1).unwrap(), [6]);
}

#[test]
fn two_jobs_in_one_folder() {
    let folder = Folder::in_memory();
    let (air, again) = (folder.store(), folder.store());
    let ocean = Store::new(&folder.named(), "ocean");
    let (mut of_air, mut of_again, mut of_ocean) = (None, None, None);
    checkpoints(&air, &mut of_air, 1..=2, |_| ()).unwrap();
    checkpoints(&ocean, &mut of_ocean, 1..=2, |_| ()).unwrap();
    for said in [again.open(&mut of_again).unwrap_err(), again.hold(&mut of_again).unwrap_err()] {
        assert!(matches!(said, StoreError::Busy(..)), "{said}");
        let who = format!("process {} on {}", std::process::id(), base::ident::host());
        assert!(
            said.to_string().contains("another job of this name lives") && said.to_string().contains(&who),
            "{said}"
        );
    }
    assert!(of_again.is_none());
    assert_eq!(usable(&air, 2).unwrap(), [2, 1]);
    // The same job may lock it as often as it likes, and in another folder too.
    air.open(&mut of_air).unwrap();
    air.hold(&mut of_air).unwrap();
    let elsewhere = Store::new(&folder.0.join("elsewhere"), JOB);
    elsewhere.open(&mut of_air).unwrap();
    again.open(&mut of_again).unwrap();
    assert!(matches!(air.open(&mut of_air), Err(StoreError::Busy(..))));
}

/// Lines that a restart has left behind are found by none, and go with the next complete one.
#[test]
fn lines_that_a_restart_has_left_behind() {
    let folder = Folder::in_memory();
    let store = folder.store();
    let mut held = None;
    checkpoints(&store, &mut held, 1..=4, |_| ()).unwrap();
    for rank in 0..RANKS {
        store.write(&image(5, id(5), rank)).unwrap();
    }
    store.write(&image(6, id(6), 0)).unwrap();
    assert_eq!(usable(&store, 4).unwrap(), [5, 4, 3]);
    // Line 5 is whole on all sides then, and nobody had told.
    store.go_on_from(Some((5, id(5)))).unwrap();
    let named =
        |store: &Store| store.lines().unwrap().iter().map(|line| (line.serial, line.complete)).collect::<Vec<_>>();
    assert_eq!(named(&store), [(5, true), (4, true), (3, true)]);
    store.go_on_from(Some((3, id(3)))).unwrap();
    assert_eq!(named(&store), [(3, true)]);
    // Until then nothing is lost.
    let left: Vec<PathBuf> = fs::read_dir(store.folder()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(left.iter().filter(|path| path.to_string_lossy().contains("/left-line-")).count(), 3);
    let again = checkpoint::LineId { by: 77, count: 1 };
    for rank in 0..RANKS {
        store.write(&image(4, again, rank)).unwrap();
    }
    store.commit(4, again).unwrap();
    assert_eq!(named(&store), [(4, true), (3, true)]);
    assert_eq!(fs::read_dir(store.folder()).unwrap().count(), 3, "two lines and the lock");
    // A job that begins anew leaves what was never complete.
    store.write(&image(9, id(9), 0)).unwrap();
    store.go_on_from(None).unwrap();
    assert_eq!(named(&store), [(4, true), (3, true)]);
}

/// Processes of one host write to one file: one after the other, at the same time, and behind one that has died meanwhile.
#[test]
fn one_file_for_each_host() {
    let folder = Folder::in_memory();
    let store = Form::PerNode.of(folder.store());
    store.open(&mut None).unwrap();
    let image = |rank: u32| {
        let mut image = image(3, id(3), rank);
        image.head.size = 12;
        image
    };
    let line = || store.lines().unwrap().into_iter().next().unwrap();
    let file = |line: &checkpoint::Found| {
        let all: Vec<PathBuf> = fs::read_dir(&line.folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(all.len() == 1 && all[0].extension().is_some_and(|end| end == "images"), "{all:?}");
        all.into_iter().next().unwrap()
    };
    std::thread::scope(|threads| {
        (0..4).for_each(|at| {
            drop(threads.spawn({
                let (store, image) = (&store, &image);
                move || [at, at + 4].iter().for_each(|rank| store.write(&image(*rank)).unwrap())
            }))
        });
    });
    let path = file(&line());
    let whole = fs::read(&path).unwrap();
    assert_eq!(line().ranks().unwrap(), ((0..8).collect(), Default::default()));
    (0..8).for_each(|rank| assert_eq!(line().image(rank).unwrap(), Some(image(rank))));
    // One more begins, and dies after any number of bytes.
    store.write(&image(8)).unwrap();
    let more = fs::read(&path).unwrap();
    assert_eq!(more[..whole.len()], whole[..]);
    for cut in (whole.len() + 1..more.len()).step_by(34_567).chain(more.len() - 17..more.len()) {
        fs::write(&path, &more[..cut]).unwrap();
        let halves = if cut < whole.len() + 200 { Default::default() } else { [8].into() };
        assert_eq!(line().ranks().unwrap(), ((0..8).collect(), halves), "cut to {cut}");
        (0..8).for_each(|rank| assert!(line().image(rank).unwrap() == Some(image(rank)), "cut to {cut}, {rank}"));
        assert_eq!(line().image(8).unwrap(), None, "cut to {cut}");
        store.write(&image(9)).unwrap();
        assert_eq!(line().ranks().unwrap().0, (0..8).chain([9]).collect(), "cut to {cut}");
        assert!(line().image(9).unwrap() == Some(image(9)), "cut to {cut}");
    }
    // What is changed in one image spoils no other.
    fs::write(&path, &more).unwrap();
    for at in (0..whole.len()).step_by(277_777) {
        let mut changed = more.clone();
        changed[at] ^= 1;
        fs::write(&path, &changed).unwrap();
        let bad =
            (0..9).filter(|rank| !matches!(line().image(*rank), Ok(Some(found)) if found == image(*rank))).count();
        assert_eq!(bad, 1, "byte {at}");
    }
}
