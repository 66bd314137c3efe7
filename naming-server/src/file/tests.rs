//! The file store in one process, with all that can be in a claim's way.

use super::*;
use crate::RenewError;
use crate::record::sample;
use nix::sys::stat::Mode;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::time::SystemTime;

/// A fresh folder, removed at the end.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new() -> Folder {
        let dir = std::env::temp_dir().join(format!("naming-{:016x}", u64::from_le_bytes(base::ident::random())));
        fs::create_dir(&dir).unwrap();
        Folder(dir)
    }
    fn store(&self) -> FileStore {
        FileStore::new(self.0.clone())
    }
    fn files(&self) -> Vec<String> {
        let all = fs::read_dir(&self.0).unwrap();
        all.map(|f| f.unwrap().file_name().into_string().unwrap()).collect()
    }
    /// A record whose owner was killed.
    fn left_over(&self, rec: &Record) -> PathBuf {
        let path = self.0.join(names::file_name(&rec.key()));
        fs::write(&path, rec.encode().unwrap()).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn age(path: &Path, seconds: u64) {
    let then = SystemTime::now() - Duration::from_secs(seconds);
    File::options().write(true).open(path).unwrap().set_modified(then).unwrap();
}

fn claim_error(store: &FileStore, name: &str) -> String {
    match store.claim(&sample(name)) {
        Ok(_) => panic!("'{name}' was claimed"),
        Err(e) => e.to_string(),
    }
}

#[test]
fn a_name_is_held_until_released() {
    let dir = Folder::new();
    let (store, rec) = (dir.store(), sample("ocean"));
    let claim = store.claim(&rec).unwrap();
    assert_eq!(store.lookup(Kind::Job, "ocean").unwrap(), Some(rec.clone()));
    assert_eq!(store.lookup(Kind::Job, "atmosphere").unwrap(), None);
    assert!(store.is_alive(&rec).unwrap());
    assert!(!store.is_alive(&sample("ocean")).unwrap(), "another incarnation");
    assert_eq!(store.list().unwrap(), [(rec.clone(), State::Live)]);
    match store.claim(&sample("ocean")) {
        Err(ClaimError::Held { by }) => assert_eq!(*by, rec),
        other => panic!("{:?}", other.err()),
    }
    claim.renew().unwrap();
    assert!(claim.fd().unwrap() > 2);
    assert_eq!(dir.files(), ["ocean.job"]);
    assert_eq!(fs::metadata(dir.0.join("ocean.job")).unwrap().permissions().mode() & 0o777, 0o600);
    claim.release();
    assert!(dir.files().is_empty());
    assert_eq!(store.lookup(Kind::Job, "ocean").unwrap(), None);
    assert!(!store.is_alive(&rec).unwrap());
    drop(store.claim(&rec).unwrap());
    assert!(dir.files().is_empty());
}

#[test]
fn many_names_and_odd_ones() {
    let dir = Folder::new();
    let store = dir.store();
    let names = ["b", "a", "../up", ".", "..", "a/b", "sea ice", "海洋", &"é".repeat(127), &"x".repeat(255), "a.job"];
    let claims: Vec<_> = names.iter().map(|n| store.claim(&sample(n)).unwrap()).collect();
    for n in names {
        assert_eq!(store.lookup(Kind::Job, n).unwrap().unwrap().name, n);
    }
    assert_eq!(store.list().unwrap().len(), names.len());
    drop(claims);
    assert!(store.list().unwrap().is_empty());
    assert!(matches!(store.claim(&sample("")), Err(ClaimError::Name(_))));
    assert!(matches!(store.lookup(Kind::Job, "a\0b"), Err(LookupError::Name(_))));
}

#[test]
fn jobs_and_ports_have_their_names_for_themselves() {
    let dir = Folder::new();
    let (store, job) = (dir.store(), sample("ocean"));
    let port = Record { port: Some("port 1".into()), leader: vec![], cookie: [0; 16], ..sample("ocean") };
    let held = [store.claim(&job).unwrap(), store.claim(&port).unwrap()];
    let mut files = dir.files();
    files.sort();
    assert_eq!(files, ["ocean.job", "ocean.port"]);
    assert_eq!(store.lookup(Kind::Job, "ocean").unwrap(), Some(job.clone()));
    assert_eq!(store.lookup(Kind::Port, "ocean").unwrap(), Some(port.clone()));
    assert_eq!(store.list().unwrap(), [(job.clone(), State::Live), (port.clone(), State::Live)]);
    assert!(claim_error(&store, "ocean").contains("registered already, by this very process"));
    assert!(store.claim(&port).err().unwrap().to_string().contains("published already"));
    let [_, published] = held;
    published.release();
    assert_eq!(store.lookup(Kind::Port, "ocean").unwrap(), None);
    assert!(!store.is_alive(&port).unwrap());
}

#[test]
fn runs_have_their_names_for_themselves() {
    let dir = Folder::new();
    let of = |run: &str| dir.store().of_run(run);
    let runs = ["", "case7", "case8", &"x".repeat(255)];
    let claims: Vec<_> = runs.iter().map(|run| of(run).claim(&sample("ocean")).unwrap()).collect();
    for run in runs {
        let found = of(run).lookup(Kind::Job, "ocean").unwrap().unwrap();
        assert!(found.run == run && of(run).is_alive(&found).unwrap());
    }
    assert_eq!(of("case9").lookup(Kind::Job, "ocean").unwrap(), None);
    assert_eq!(of("case9").list().unwrap().len(), runs.len(), "a list has them all");
    let said = claim_error(&of("case7"), "ocean");
    assert!(said.contains("the name 'ocean' of run 'case7' is registered already, by this very process"), "{said}");
    assert_eq!(of("case7").describe(), format!("file:{}, run 'case7'", dir.0.display()));
    drop(claims);
    assert!(dir.files().is_empty());
}

#[test]
fn couplings_are_listed_while_they_are_held() {
    let dir = Folder::new();
    let store = dir.store();
    let half = |name: &str, other: &str, id| Record { coupled: Some(other.into()), incarnation: id, ..sample(name) };
    let held = [("air", "ocean", 1), ("ocean", "air", 1), ("air", "ocean", 2)].map(|(a, b, id)| {
        let half = half(a, b, id);
        assert_eq!(half.kind(), Kind::Coupling);
        store.note(&half).unwrap()
    });
    let _job = store.claim(&sample("air")).unwrap();
    let listed =
        || store.list().unwrap().into_iter().map(|(r, _)| (r.kind(), r.name, r.incarnation)).collect::<Vec<_>>();
    assert_eq!(listed().len(), 4);
    assert_eq!(listed()[1..3], [(Kind::Coupling, "air".into(), 1), (Kind::Coupling, "air".into(), 2)]);
    assert_eq!(store.lookup(Kind::Coupling, "air").unwrap(), None, "nobody is found by one");
    drop(held);
    assert_eq!(listed().len(), 1);
    // A coupling of a killed job is not listed, and the next claim removes it.
    dir.left_over(&half("air", "ocean", 3));
    assert_eq!(listed().len(), 1);
    drop(store.claim(&sample("ice")).unwrap());
    assert_eq!(dir.files(), ["air.job"]);
}

#[test]
fn leftovers_are_not_handed_out_and_not_in_the_way() {
    let dir = Folder::new();
    let (store, old) = (dir.store(), sample("ocean"));
    dir.left_over(&old);
    assert_eq!(store.lookup(Kind::Job, "ocean").unwrap(), None);
    assert!(!store.is_alive(&old).unwrap());
    assert_eq!(store.list().unwrap(), [(old, State::LeftOver)]);
    let new = sample("ocean");
    let _claim = store.claim(&new).unwrap();
    assert_eq!(store.lookup(Kind::Job, "ocean").unwrap(), Some(new));
}

#[test]
fn a_looker_does_not_pass_for_an_owner() {
    let dir = Folder::new();
    let path = dir.left_over(&sample("ocean"));
    let looker = File::open(&path).unwrap();
    looker.lock_shared().unwrap();
    let wait = std::thread::spawn(move || {
        sleep(Duration::from_millis(50));
        looker.unlock().unwrap();
    });
    dir.store().claim(&sample("ocean")).unwrap();
    wait.join().unwrap();
}

#[test]
fn a_cleaner_does_not_pass_for_an_owner() {
    let dir = Folder::new();
    let path = dir.left_over(&sample("ocean"));
    let cleaner = File::options().write(true).open(&path).unwrap();
    cleaner.set_len(0).unwrap();
    cleaner.lock().unwrap();
    assert_eq!(dir.store().lookup(Kind::Job, "ocean").unwrap(), None);
    assert!(matches!(dir.store().claim(&sample("ocean")), Err(ClaimError::Store(StoreError::Busy(_)))));
    cleaner.unlock().unwrap();
    dir.store().claim(&sample("ocean")).unwrap();
}

#[test]
fn a_cleaner_leaves_the_record_that_came_after() {
    let dir = Folder::new();
    let path = dir.left_over(&sample("ocean"));
    let judged = File::options().read(true).write(true).open(&path).unwrap();
    let new = sample("ocean");
    let _claim = dir.store().claim(&new).unwrap();
    assert_eq!(judged.metadata().unwrap().len(), 0, "cut before it was locked");
    assert!(entry::clean(&judged, &path).unwrap());
    assert_eq!(dir.store().lookup(Kind::Job, "ocean").unwrap(), Some(new));
}

#[test]
fn garbage_is_ignored_and_replaced() {
    for bytes in [vec![], vec![0], b"MPICNAME".to_vec(), vec![7; 100_000], b"hello".to_vec()] {
        let dir = Folder::new();
        fs::write(dir.0.join("ocean.job"), &bytes).unwrap();
        assert_eq!(dir.store().lookup(Kind::Job, "ocean").unwrap(), None);
        assert!(dir.store().list().unwrap().is_empty());
        dir.store().claim(&sample("ocean")).unwrap();
    }
}

#[test]
fn another_version_is_named_then_given_up() {
    let dir = Folder::new();
    let path = dir.left_over(&sample("ocean"));
    let mut bytes = fs::read(&path).unwrap();
    bytes[8] = 9;
    fs::write(&path, &bytes).unwrap();
    assert!(claim_error(&dir.store(), "ocean").contains("version 9"));
    assert!(dir.store().lookup(Kind::Job, "ocean").is_err());
    let listed = dir.store().list().unwrap();
    assert!(listed.len() == 1 && listed[0].0.name == "ocean" && listed[0].1 == State::OtherVersion(9), "{listed:?}");
    age(&path, 61);
    dir.store().claim(&sample("ocean")).unwrap();
}

#[test]
fn what_is_no_file_never_blocks() {
    let dir = Folder::new();
    let store = dir.store();
    nix::unistd::mkfifo(&dir.0.join("pipe.job"), Mode::S_IRWXU).unwrap();
    fs::create_dir(dir.0.join("folder.job")).unwrap();
    symlink("/etc/passwd", dir.0.join("link.job")).unwrap();
    symlink("nowhere", dir.0.join("dangling.job")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(dir.0.join("socket.job")).unwrap();
    for (name, what) in
        [("pipe", "a pipe"), ("folder", "a folder"), ("link", "link"), ("dangling", "link"), ("socket", "a socket")]
    {
        assert!(claim_error(&store, name).contains(what), "{name}");
        assert!(store.lookup(Kind::Job, name).unwrap_err().to_string().contains(what), "{name}");
    }
    assert!(store.list().unwrap().is_empty());
    assert_eq!(dir.files().len(), 5, "nothing is left: {:?}", dir.files());
}

#[test]
fn folders_are_made_with_parents_or_refused() {
    let dir = Folder::new();
    let deep = FileStore::new(dir.0.join("a/b/c"));
    assert_eq!(deep.lookup(Kind::Job, "ocean").unwrap(), None);
    assert!(deep.list().unwrap().is_empty());
    assert!(!dir.0.join("a").exists(), "looking makes nothing");
    let _claim = deep.claim(&sample("ocean")).unwrap();
    assert_eq!(fs::metadata(dir.0.join("a/b/c")).unwrap().permissions().mode() & 0o777, 0o700);

    fs::write(dir.0.join("file"), "").unwrap();
    for path in ["file", "file/below"] {
        let store = FileStore::new(dir.0.join(path));
        assert!(claim_error(&store, "ocean").contains("not a folder"), "{path}");
        assert!(store.lookup(Kind::Job, "ocean").unwrap_err().to_string().contains("not a folder"), "{path}");
        assert!(store.list().is_err() && store.check().is_err());
    }
    assert!(claim_error(&FileStore::new("/proc/none/such".into()), "ocean").contains("creating the folder"));
    assert!(claim_error(&FileStore::new("/proc/self".into()), "ocean").contains("creating a file in"));
}

#[test]
fn the_private_folder_has_to_be_private() {
    let dir = Folder::new();
    let private = |p: &str| FileStore { dir: dir.0.join(p), run: String::new(), private: true, boot: [0; 16] };
    private("new").check().unwrap();
    assert_eq!(fs::metadata(dir.0.join("new")).unwrap().permissions().mode() & 0o777, 0o700);
    symlink(dir.0.join("new"), dir.0.join("link")).unwrap();
    assert!(matches!(private("link").check(), Err(StoreError::Symlink(_))));
    assert!(private("link").lookup(Kind::Job, "ocean").is_err());
    for mode in [0o777, 0o720, 0o702] {
        fs::set_permissions(dir.0.join("new"), fs::Permissions::from_mode(mode)).unwrap();
        assert!(matches!(private("new").check(), Err(StoreError::Writable(_, m)) if m == mode));
        assert!(private("new").list().is_err());
    }
    if nix::unistd::geteuid().is_root() {
        nix::unistd::chown(&dir.0.join("new"), Some(65534.into()), None).unwrap();
        assert!(matches!(private("new").check(), Err(StoreError::Foreign(_, 65534))));
    }
}

#[test]
fn another_users_record_is_refused() {
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    let dir = Folder::new();
    let path = dir.left_over(&sample("ocean"));
    nix::unistd::chown(&path, Some(65534.into()), None).unwrap();
    assert!(claim_error(&dir.store(), "ocean").contains("another user"));
    assert!(dir.store().lookup(Kind::Job, "ocean").is_err());
    let listed = dir.store().list().unwrap();
    assert!(listed.len() == 1 && listed[0].0.name == "ocean" && listed[0].1 == State::OtherUser(65534), "{listed:?}");
}

#[test]
fn check_leaves_nothing_and_says_who_can_write() {
    let dir = Folder::new();
    fs::set_permissions(&dir.0, fs::Permissions::from_mode(0o755)).unwrap();
    assert!(dir.store().check().unwrap().is_empty());
    fs::set_permissions(&dir.0, fs::Permissions::from_mode(0o777)).unwrap();
    assert_eq!(dir.store().check().unwrap().len(), 1);
    assert!(dir.files().is_empty());
}

#[test]
fn other_hosts_go_by_the_lease() {
    let dir = Folder::new();
    let there = dir.store().on([9; 16]);
    let rec = sample("ocean");
    // A record without a lock, as it is on a host that does not see the locks of other hosts.
    let path = dir.left_over(&rec);
    assert_eq!(there.lookup(Kind::Job, "ocean").unwrap(), Some(rec.clone()));
    assert!(there.is_alive(&rec).unwrap());
    assert!(matches!(there.claim(&sample("ocean")), Err(ClaimError::Held { .. })));
    age(&path, 50);
    assert_eq!(there.list().unwrap()[0].1, State::Live);
    age(&path, 70);
    assert_eq!(there.lookup(Kind::Job, "ocean").unwrap(), None);
    assert_eq!(there.list().unwrap()[0].1, State::LeftOver);
    let new = Record { boot: [9; 16], ..sample("ocean") };
    let _claim = there.claim(&new).unwrap();
    assert_eq!(there.lookup(Kind::Job, "ocean").unwrap(), Some(new.clone()));
    assert_eq!(dir.store().lookup(Kind::Job, "ocean").unwrap(), Some(new));
}

#[test]
fn renewing_keeps_the_lease_and_tells_of_its_loss() {
    let dir = Folder::new();
    let (here, there, rec) = (dir.store(), dir.store().on([9; 16]), sample("ocean"));
    let claim = here.claim(&rec).unwrap();
    let path = dir.0.join("ocean.job");
    age(&path, 1000);
    claim.renew().unwrap();
    assert!(fs::metadata(&path).unwrap().modified().unwrap().elapsed().unwrap() < Duration::from_secs(5));
    assert!(there.is_alive(&rec).unwrap());

    // Another host removes a claim that it takes for dead.
    fs::remove_file(&path).unwrap();
    assert!(matches!(claim.renew(), Err(RenewError::Lost(_))));
    let next = Record { boot: [9; 16], ..sample("ocean") };
    let _theirs = there.claim(&next).unwrap();
    assert!(matches!(claim.renew(), Err(RenewError::Lost(_))));
    claim.release();
    assert_eq!(there.lookup(Kind::Job, "ocean").unwrap(), Some(next), "the old owner's release touches nothing");
}

#[test]
fn temporary_files_of_killed_claimers_are_swept() {
    let dir = Folder::new();
    let file = |n: &str| {
        let path = dir.0.join(n);
        fs::write(&path, "x").unwrap();
        path
    };
    age(&file(".tmp-old"), 100);
    age(&file("other"), 100);
    file(".tmp-young");
    let locked = file(".tmp-locked");
    age(&locked, 100);
    let hold = File::open(&locked).unwrap();
    hold.lock().unwrap();
    let _claim = dir.store().claim(&sample("ocean")).unwrap();
    let mut left = dir.files();
    left.sort();
    assert_eq!(left, [".tmp-locked", ".tmp-young", "ocean.job", "other"]);
}

/// A launch has a run of its own, which is never used again.
#[test]
fn names_of_runs_whose_processes_are_dead_stay_for_a_day() {
    let dir = Folder::new();
    let record = |run: &str, name: &str| Record { run: run.into(), ..sample(name) };
    for (name, run, hours) in [("young", "a-run", 23), ("old", "a-run", 25), ("of none", "", 25)] {
        age(&dir.left_over(&record(run, name)), hours * 3600);
    }
    let lives = dir.store().of_run("a-run").claim(&record("a-run", "lives")).unwrap();
    age(&dir.0.join(names::file_name(&record("a-run", "lives").key())), 25 * 3600);
    let _next = dir.store().claim(&sample("ocean")).unwrap();
    let mut left: Vec<String> = dir.store().list().unwrap().into_iter().map(|(record, _)| record.name).collect();
    left.sort();
    assert_eq!(left, ["lives", "ocean", "of none", "young"]);
    drop(lives);
}

/// Another user who may write to the folder exchanges files while they are opened.
#[test]
fn a_file_that_another_user_slips_in_is_not_opened() {
    if !nix::unistd::geteuid().is_root() {
        return println!("NOT TESTED: only root can be two users");
    }
    const OTHER: u32 = 65534;
    let dir = Folder::new();
    let path = dir.left_over(&sample("ocean"));
    let over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            let beside = dir.0.join("beside");
            let mut owners = [0, OTHER].into_iter().cycle();
            while !over.load(std::sync::atomic::Ordering::Relaxed) {
                fs::write(&beside, "").unwrap();
                std::os::unix::fs::chown(&beside, owners.next(), None).unwrap();
                fs::rename(&beside, &path).unwrap();
            }
        });
        let slipped_in = (0..20_000).filter(|_| {
            let file = entry::open(&path, false).ok().flatten();
            file.is_some_and(|file| file.metadata().unwrap().uid() == OTHER)
        });
        let slipped_in = slipped_in.count();
        over.store(true, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(slipped_in, 0);
    });
}
