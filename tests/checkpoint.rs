//! `mpi-connect checkpoint`: what it says of folders that are whole, damaged, half-written, or of others.

use checkpoint::{Head, Image, LineId, Outcomes, Remote, Store};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        let name = format!("checkpoint-{:016x}", u64::from_le_bytes(base::ident::random()));
        let folder = std::env::temp_dir().join(name);
        fs::create_dir(&folder).unwrap();
        Folder(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const RANKS: u32 = 3;

fn id(count: u64) -> LineId {
    LineId { by: 0xabc, count }
}

fn image(job: &str, serial: u64, rank: u32) -> Image {
    let (label, jobs) = (format!("step-{serial}"), ["air".to_owned(), "ocean".to_owned()].into());
    let head = Head { job: job.into(), rank, size: RANKS, serial, label, line: id(serial), jobs };
    // Something that is not in the head.
    let remote = Remote { name: "ocean".repeat(1000), size: 1, contexts: 0, of: Vec::new() };
    Image { head, remotes: vec![remote], inters: Vec::new(), outcomes: Outcomes::default() }
}

/// Writes lines, of which each has so many ranks, and is complete if it has all.
fn write(folder: &Path, job: &str, lines: &[(u64, u32)]) -> Store {
    let store = Store::new(folder, job);
    let mut held = None;
    store.open(&mut held).unwrap();
    for (serial, ranks) in lines {
        (0..*ranks).for_each(|rank| store.write(&image(job, *serial, rank)).unwrap());
        if *ranks == RANKS {
            store.commit(*serial, id(*serial)).unwrap();
        }
    }
    store
}

/// What the command prints and what it says on stderr, and whether its status is 0.
fn run(words: &[&str], folder: &Path) -> (String, String, bool) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mpi-connect"));
    let done = command.env_remove("MPI_CONNECT_LOG").arg("checkpoint").args(words).arg(folder).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (text(done.stdout), text(done.stderr), done.status.success())
}

/// The state of the line of this number, and the lines below it.
fn state(said: &str, job: &str, number: u64) -> (String, Vec<String>) {
    let mut lines = said.lines().skip_while(|line| {
        let mut words = line.split_whitespace();
        (words.next(), words.next()) != (Some(job), Some(&number.to_string()))
    });
    let line = lines.next().unwrap_or_else(|| panic!("no line {number} of {job}: {said}"));
    let state = line.split_whitespace().nth(5).unwrap().to_owned();
    (state, lines.take_while(|line| line.starts_with("    ")).map(|line| line.trim().to_owned()).collect())
}

#[test]
fn what_is_whole_and_what_is_not_yet() {
    let folder = Folder::new();
    assert_eq!(run(&["ls"], &folder.0), ("no checkpoints\n".into(), String::new(), true));
    write(&folder.0, "air", &[(1, 3), (2, 3), (3, 2)]);
    let ocean = write(&folder.0, "ocean", &[(1, 3)]);
    (0..RANKS).for_each(|rank| ocean.write(&image("ocean", 2, rank)).unwrap());
    let unfinished = ocean.lines().unwrap()[0].folder.clone();
    fs::rename(unfinished.join("000001.image"), unfinished.join("000001.part")).unwrap();
    for words in [["ls"], ["verify"]] {
        let (said, complaint, good) = run(&words, &folder.0);
        assert!(good && complaint.is_empty(), "{said}{complaint}");
        assert_eq!(state(&said, "air", 2), ("complete".into(), vec![]));
        let missing = vec!["1 of 3 ranks are missing, the first is 2".to_owned()];
        assert_eq!(state(&said, "air", 3), ("unfinished".into(), missing));
        let half = "rank 1 is half-written: its process writes still, or died meanwhile".to_owned();
        assert_eq!(state(&said, "ocean", 2), ("unfinished".into(), vec![half]));
        assert!(said.contains("step-2") && said.contains("ocean"), "{said}");
    }
    fs::rename(unfinished.join("000001.part"), unfinished.join("000001.image")).unwrap();
    let (said, _, good) = run(&["verify"], &folder.0);
    assert_eq!((state(&said, "ocean", 2), good), (("written".into(), vec![]), true));
}

#[test]
fn each_fault_has_its_words() {
    let folder = Folder::new();
    let store = write(&folder.0, "air", &[(1, 3), (2, 3)]);
    let line = store.lines().unwrap()[0].folder.clone();
    let file = line.join("000001.image");
    let good = fs::read(&file).unwrap();
    let changed = |at: usize| {
        let mut bytes = good.clone();
        bytes[at] ^= 1;
        bytes
    };
    let other = image("air", 1, 1).encode().unwrap();
    let of_rank_2 = image("air", 2, 2).encode().unwrap();
    // What a file has, what is said of it, and whether `ls` notices, which reads no more than the head.
    let faults: [(Vec<u8>, String, bool); 9] = [
        (changed(8), " of the format, this release reads ".into(), true),
        (changed(0), "no image of this library".into(), true),
        (changed(16), "damaged: a checksum differs".into(), true),
        (changed(good.len() - 2000), "damaged: a checksum differs".into(), false),
        (good[..20].to_vec(), "cut off after 20 bytes".into(), true),
        (good[..good.len() - 7].to_vec(), format!("cut off after {} bytes", good.len() - 7), false),
        (Vec::new(), "cut off after 0 bytes".into(), true),
        (other, "rank 1: an image of something else".into(), true),
        (of_rank_2, "rank 1: an image of something else".into(), true),
    ];
    for (bytes, what, is_seen) in faults {
        fs::write(&file, bytes).unwrap();
        let (said, _, good) = run(&["verify"], &folder.0);
        let (state_of, told) = state(&said, "air", 2);
        assert_eq!((state_of.as_str(), good), ("damaged", false), "{what}: {said}");
        assert!(told.len() == 1 && told[0].contains(&what), "{what}: {said}");
        assert_eq!(state(&said, "air", 1).0, "complete", "{what}: the other line is whole");
        assert_eq!(run(&["ls"], &folder.0).2, !is_seen, "{what}");
        // Nothing of it is removed, and nothing that is whole.
        let (said, ..) = run(&["rm"], &folder.0);
        assert_eq!(said, "0 removed\n", "{what}");
    }
    fs::remove_file(&file).unwrap();
    let (said, _, good) = run(&["ls"], &folder.0);
    let missing = vec!["1 of 3 ranks are missing, the first is 1".to_owned()];
    assert_eq!((state(&said, "air", 2), good), (("damaged".into(), missing), false));
}

#[test]
fn what_is_old_is_removed_and_all_only_when_no_job_writes() {
    let folder = Folder::new();
    write(&folder.0, "ocean", &[(1, 3), (2, 3), (3, 1)]);
    let air = write(&folder.0, "air", &[(1, 3), (2, 3)]);
    let mut held = None;
    air.open(&mut held).unwrap();
    assert_eq!(run(&["rm"], &folder.0), ("2 removed\n".into(), String::new(), true));
    let (said, ..) = run(&["ls"], &folder.0);
    assert_eq!(["air", "ocean"].map(|job| state(&said, job, 2).0), ["complete", "complete"]);
    assert_eq!(state(&said, "ocean", 3).0, "unfinished");
    let (said, complaint, good) = run(&["rm", "--all"], &folder.0);
    assert!(!good && said.is_empty(), "{said}");
    let who = format!("process {} on ", std::process::id());
    assert!(complaint.contains("another job of this name lives") && complaint.contains(&who), "{complaint}");
    drop(held);
    assert_eq!(run(&["rm", "--all"], &folder.0), ("3 removed\n".into(), String::new(), true));
    assert_eq!(run(&["ls"], &folder.0).0, "no checkpoints\n");
    let (said, complaint, good) = run(&["ls"], &folder.0.join("nowhere"));
    assert!(!good && said.is_empty() && complaint.contains("nowhere: No such file or directory"), "{complaint}");
}

/// What one job has lost, the other keeps the line before it for.
#[test]
fn the_newest_line_that_all_have_stays() {
    let folder = Folder::new();
    write(&folder.0, "air", &[(1, 3), (2, 3)]);
    let ocean = write(&folder.0, "ocean", &[(1, 3), (2, 3)]);
    fs::write(ocean.lines().unwrap()[0].folder.join("000000.image"), "x").unwrap();
    assert_eq!(run(&["rm"], &folder.0).0, "0 removed\n");
    ocean.lines().unwrap()[0].remove().unwrap();
    assert_eq!(run(&["rm"], &folder.0).0, "0 removed\n");
    // Where nothing is of the other job, it may have all.
    fs::remove_dir_all(folder.0.join("ocean")).unwrap();
    assert_eq!(run(&["rm"], &folder.0).0, "1 removed\n");
}

#[test]
fn all_goes_also_what_no_restart_finds() {
    let folder = Folder::new();
    let air = write(&folder.0, "air", &[(1, 3), (2, 3)]);
    air.go_on_from(Some((1, id(1)))).unwrap();
    assert_eq!(fs::read_dir(folder.0.join("air")).unwrap().count(), 3, "two lines, and the lock");
    assert_eq!(run(&["rm", "--all"], &folder.0).0, "1 removed\n");
    assert_eq!(fs::read_dir(folder.0.join("air")).unwrap().count(), 1);
}

/// A checkpoint of a job that is joined with no other one any more: that may have nothing newer than what both made.
#[test]
fn lines_with_others_outlive_those_of_a_job_alone() {
    let folder = Folder::new();
    let air = write(&folder.0, "air", &[(1, 3), (2, 3), (3, 3)]);
    for serial in 4..8 {
        for rank in 0..RANKS {
            let mut image = image("air", serial, rank);
            image.head.jobs = ["air".to_owned()].into();
            air.write(&image).unwrap();
        }
        air.commit_alone(serial, id(serial)).unwrap();
    }
    let left: Vec<u64> = air.lines().unwrap().iter().map(|line| line.serial).collect();
    assert_eq!(left, [7, 6, 3, 2]);
    write(&folder.0, "air", &[(8, 3), (9, 3)]);
    assert_eq!(air.lines().unwrap().len(), 2);
}

#[test]
fn whoever_reads_the_list_may_stop() {
    let folder = Folder::new();
    write(&folder.0, "air", &[(1, 3)]);
    let mut command = Command::new(env!("CARGO_BIN_EXE_mpi-connect"));
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let done = command.args(["checkpoint", "ls"]).arg(&folder.0).stdout(writer).output().unwrap();
    assert!(done.status.success() && done.stderr.is_empty(), "{done:?}");
}
