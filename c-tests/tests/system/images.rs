//! What goes wrong with the files of checkpoints, in whole jobs: a clear error, and the last complete checkpoint stays.

use c_tests::{Done, Job, Launch, MPIS, Mpi, Scene, command, compile_tool, library, wait_until};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

/// A scene with a folder for checkpoints, in which any user may write.
struct Stage<'a> {
    scene: &'a Scene,
}

impl Stage<'_> {
    fn folder(&self) -> PathBuf {
        self.scene.path("checkpoints")
    }

    fn may_write(&self, may: bool) {
        let mode = if may { 0o777 } else { 0o555 };
        fs::set_permissions(self.folder(), fs::Permissions::from_mode(mode)).expect("a folder of ours");
    }

    fn make_folder(&self) {
        fs::create_dir(self.folder()).expect("a folder of ours");
        self.may_write(true);
    }

    /// One that finds nothing that an earlier job of its name was to do.
    fn launch<'m>(&self, mpi: &'m Mpi, ranks: usize, name: &str, with: &str) -> Launch<'m> {
        (1..10).for_each(|number| drop(fs::remove_file(self.scene.path(&format!("do-{name}-{number}")))));
        Launch::new(mpi, ranks, "images", &[name, with, &self.folder().display().to_string()])
    }

    /// A job without another one.
    fn alone(&self, mpi: &Mpi, ranks: usize) -> Job {
        self.scene.start(self.launch(mpi, ranks, "air", "-"))
    }

    /// Has a job do its next thing, and gives what it says.
    fn order(&self, job: &Job, name: &str, number: u32, what: &str) -> String {
        let (draft, sign) = (self.scene.path("draft"), self.scene.path(&format!("do-{name}-{number}")));
        fs::write(&draft, what).and_then(|()| fs::rename(&draft, sign)).expect("a sign");
        if what == "checkpoint" { self.said(job, &format!("CHECKPOINT-{number}")) } else { String::new() }
    }

    /// What a job says of a call.
    fn said(&self, job: &Job, call: &str) -> String {
        let mut said = None;
        let says = || {
            let printed = job.printed();
            // The line is whole.
            let line = printed.split_inclusive('\n').find(|line| line.starts_with(call) && line.ends_with('\n'));
            said = line.map(|line| line[call.len()..].trim().to_owned());
            said.is_some()
        };
        self.scene.require(wait_until(LIMIT, says), &format!("{} says how {call} went", job.title));
        said.expect("it has said so")
    }

    fn require_all(&self, said: &str, words: &[&str]) {
        words.iter().for_each(|word| self.scene.require(said.contains(word), &format!("no \"{word}\" in: {said}")));
    }

    /// A job that is to end by itself, and what it says of a call.
    fn ends(&self, job: Job, call: &str) -> (String, Done) {
        let said = self.said(&job, call);
        let [done] = self.scene.wait([job], LIMIT);
        (said, done)
    }

    fn verify(&self) -> String {
        let done = Command::new(command()).args(["checkpoint", "verify"]).arg(self.folder()).output();
        String::from_utf8_lossy(&done.expect("mpi-connect").stdout).into_owned()
    }

    /// Waits until the checkpoint of this label is complete.
    fn require_complete(&self, job: &str, label: &str) {
        let is_complete = |line: &str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            words.first() == Some(&job) && words.get(2) == Some(&label) && words.get(5) == Some(&"complete")
        };
        let found = wait_until(LIMIT, || self.verify().lines().any(is_complete));
        self.scene.require(found, &format!("{label} of {job} is complete, and not:\n{}", self.verify()));
    }

    /// The images of the newest line.
    fn newest(&self) -> Vec<PathBuf> {
        let entries = |folder: PathBuf| {
            let all = fs::read_dir(folder).expect("a folder of the job").map(|entry| entry.expect("an entry").path());
            let mut all: Vec<PathBuf> = all.collect();
            all.sort();
            all
        };
        let is_line = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("line-"));
        let newest = entries(self.folder().join("air")).into_iter().rfind(is_line);
        entries(newest.expect("a line of the job"))
    }
}

/// Two jobs are joined, and the one has no room for a while.
fn full(stage: &Stage<'_>, [a, b]: [&'static Mpi; 2]) {
    let air = stage.launch(a, 2, "air", "ocean").preloading(vec![compile_tool(a, "disk", "disk"), library()]);
    let jobs @ [air, ocean] = &[air, stage.launch(b, 1, "ocean", "air")].map(|launch| stage.scene.start(launch));
    let both = |number: u32| {
        ["air", "ocean"].map(|name| stage.order(if name == "air" { air } else { ocean }, name, number, "checkpoint"))
    };
    assert_eq!(both(1), ["good", "good"]);
    ["air", "ocean"].iter().for_each(|job| stage.require_complete(job, "step-1"));
    let full = stage.folder().join("full-air");
    fs::write(&full, "").expect("a sign");
    assert_eq!(both(2), ["good", "good"]);
    let is_told = || air.complained().contains("cannot be written");
    stage.scene.require(wait_until(LIMIT, is_told), "the job notices");
    let [of_air, of_ocean] = both(3);
    let words = ["an earlier checkpoint could not be written", "No space left on device", "make room there"];
    stage.require_all(&of_air, &words);
    assert_eq!(of_ocean, "good");
    stage.require_complete("air", "step-1");
    fs::remove_file(full).expect("a sign");
    // What each process has to tell of its own is told once.
    let mut number = 4;
    while both(number)[0] != "good" {
        number += 1;
        stage.scene.require(number < 7, "there is room again");
    }
    // With the cut that the other job has made meanwhile.
    stage.require_complete("air", &format!("step-{number}"));
    stage.require_complete("ocean", "step-3");
    ["air", "ocean"].iter().zip(jobs).for_each(|(name, job)| drop(stage.order(job, name, number + 1, "end")));
}

/// The folder is moved away, and comes back.
fn gone(stage: &Stage<'_>, [a, _]: [&'static Mpi; 2]) {
    let job = stage.alone(a, 2);
    assert_eq!(stage.order(&job, "air", 1, "checkpoint"), "good");
    let away = stage.scene.path("away");
    fs::rename(stage.folder(), &away).expect("a folder of ours");
    let said = stage.order(&job, "air", 2, "checkpoint");
    stage.require_all(&said, &["the folder for checkpoints cannot be used", "checkpoints is gone"]);
    stage.scene.require(!stage.folder().exists(), "it is not made again");
    fs::rename(&away, stage.folder()).expect("a folder of ours");
    assert_eq!(stage.order(&job, "air", 3, "checkpoint"), "good");
    stage.require_complete("air", "step-1");
    stage.require_complete("air", "step-3");
    stage.order(&job, "air", 4, "end");
    stage.scene.pass([job], LIMIT);
}

fn read_only(stage: &Stage<'_>, [a, _]: [&'static Mpi; 2]) {
    stage.may_write(false);
    let job = stage.alone(a, 2);
    let said = stage.order(&job, "air", 1, "checkpoint");
    stage.require_all(&said, &["the folder for checkpoints cannot be used", "Permission denied"]);
    stage.may_write(true);
    assert_eq!(stage.order(&job, "air", 2, "checkpoint"), "good");
    stage.order(&job, "air", 3, "end");
    stage.scene.pass([job], LIMIT);
    stage.require_complete("air", "step-2");
}

fn other_ranks(stage: &Stage<'_>, [a, b]: [&'static Mpi; 2]) {
    let job = stage.alone(a, 2);
    assert_eq!(stage.order(&job, "air", 1, "checkpoint"), "good");
    stage.order(&job, "air", 2, "end");
    stage.scene.pass([job], LIMIT);
    let (said, _) = stage.ends(stage.alone(b, 3), "RESTART");
    stage.require_all(&said, &["is of 2 ranks, and this job has 3: restart it with as many"]);
    stage.require_complete("air", "step-1");
}

/// The job is started again while it lives: with its name, and where that is not seen.
fn lives(stage: &Stage<'_>, [a, b]: [&'static Mpi; 2]) {
    let job = stage.alone(a, 1);
    assert_eq!(stage.order(&job, "air", 1, "checkpoint"), "good");
    let (said, _) = stage.ends(stage.alone(b, 1), "REGISTER");
    stage.require_all(&said, &["'air'", "held"]);
    let apart = stage.launch(b, 1, "air", "-").env("MPI_CONNECT_RUN", "apart");
    let (said, _) = stage.ends(stage.scene.start(apart), "RESTART");
    stage.require_all(&said, &["another job of this name lives and uses them", "process ", "has locked"]);
    // Under another name it may use the same folder.
    let other = stage.scene.start(stage.launch(b, 1, "ocean", "-"));
    assert_eq!(stage.order(&other, "ocean", 1, "checkpoint"), "good");
    assert_eq!(stage.order(&job, "air", 2, "checkpoint"), "good");
    ["air", "ocean"].iter().for_each(|job| stage.require_complete(job, "step-1"));
    stage.order(&job, "air", 3, "end");
    stage.order(&other, "ocean", 2, "end");
    stage.scene.pass([job, other], LIMIT);
    // Once it has ended, the other run goes on from there.
    let apart = stage.launch(b, 1, "air", "-").env("MPI_CONNECT_RUN", "apart");
    let job = stage.scene.start(apart);
    assert_eq!([stage.said(&job, "RESTART"), stage.said(&job, "LABEL")], ["good", "step-2"]);
    stage.order(&job, "air", 1, "end");
    stage.scene.pass([job], LIMIT);
}

/// Of the newest line, images are damaged, cut off, of another version; then of all lines.
fn damaged(stage: &Stage<'_>, [a, b]: [&'static Mpi; 2]) {
    let job = stage.alone(a, 2);
    (1..=2).for_each(|number| assert_eq!(stage.order(&job, "air", number, "checkpoint"), "good"));
    stage.order(&job, "air", 3, "end");
    stage.scene.pass([job], LIMIT);
    let faults: [(fn(&mut Vec<u8>), &str); 3] = [
        (|bytes| *bytes.last_mut().expect("bytes") ^= 1, "damaged: a checksum differs"),
        (|bytes| bytes.truncate(50), "cut off after 50 bytes"),
        (|bytes| bytes[8] ^= 0x40, " of the format, this release reads "),
    ];
    let first = stage.newest();
    let good: Vec<Vec<u8>> = first.iter().map(|file| fs::read(file).expect("an image")).collect();
    let spoil = |files: &[PathBuf], fault: fn(&mut Vec<u8>)| {
        for file in files {
            let mut bytes = fs::read(file).expect("an image");
            fault(&mut bytes);
            fs::write(file, bytes).expect("an image");
        }
    };
    for (fault, what) in faults {
        first.iter().zip(&good).for_each(|(file, bytes)| fs::write(file, bytes).expect("an image"));
        // The file of one process, or of the other one.
        spoil(&first[..1], fault);
        stage.require_all(&stage.verify(), &[what, "damaged"]);
    }
    let again = stage.alone(b, 2);
    assert_eq!([stage.said(&again, "RESTART"), stage.said(&again, "LABEL")], ["good", "step-1"]);
    stage.order(&again, "air", 1, "end");
    let [done] = stage.scene.pass([again], LIMIT);
    stage.require_all(&done.stderr, &["not used: ", " of the format, this release reads "]);
    // Now of the only line that is left: on all processes, so that none has anything that it could use.
    let last = stage.newest();
    assert_ne!(last, first, "the line that was left behind is found no more");
    spoil(&last, faults[0].0);
    let (said, _) = stage.ends(stage.alone(a, 2), "RESTART");
    stage.require_all(&said, &["checkpoint 1 was complete, and images of some ranks are missing or damaged"]);
    stage.scene.require(last.iter().all(|file| file.exists()), "nothing is removed");
}

#[test]
fn what_goes_wrong_is_told() {
    type Play = fn(&Stage<'_>, [&'static Mpi; 2]);
    let all: [(&str, Play); 6] = [
        ("no room", full),
        ("the folder is gone", gone),
        ("the folder is read-only", read_only),
        ("another number of ranks", other_ranks),
        ("the old job lives", lives),
        ("images are damaged", damaged),
    ];
    let mpi = |at: usize| MPIS[at % MPIS.len()];
    let all: Vec<_> =
        all.iter().enumerate().map(|(at, (title, play))| (*title, play, [mpi(at), mpi(at + 1)])).collect();
    let title = |(title, _, [a, b]): &(&str, &Play, [&'static Mpi; 2])| format!("{title}: {}, {}", a.name, b.name);
    Scene::at_once(&all, title, |scene, (_, play, mpis)| {
        let stage = Stage { scene };
        stage.make_folder();
        play(&stage, *mpis);
    });
}
