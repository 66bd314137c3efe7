//! One test's stage: a folder of its own, the jobs in it, and an end in which nothing is left of them.

use crate::places::{command, target};
use crate::times::{self, Played};
use crate::{Done, Job, Launch, Marked, Mpi, user, wait_until};
use std::cell::RefCell;
use std::fs::Permissions;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use trust::KeyFile;

/// Scenes are beside each other, as many as there are threads of tests and more in [`Scene::at_once`]; but one at a time takes
/// gigabytes.
static LARGE: Mutex<()> = Mutex::new(());

/// The variable by which processes of a scene are known.
const MARK: &str = "MPI_CONNECT_TEST_DIR";

/// The key of a scene's jobs and servers, and that of a third user's.
const KEY: &str = "key";
const KEY_OF_STRANGER: &str = "key of another";

/// The temporary folder of a scene's jobs.
const TEMPORARY: &str = "tmp";

/// When one job of several has failed, the others are given this long to notice.
const GRACE: Duration = Duration::from_secs(15);

pub struct Scene {
    /// Where jobs leave signs for each other. Its path is in the environment of every process of the scene.
    pub folder: PathBuf,
    title: String,
    outputs: RefCell<Vec<(String, PathBuf, PathBuf)>>,
    marked: Marked,
    mpis: RefCell<Vec<&'static str>>,
    pairs: RefCell<Vec<(&'static str, &'static str)>>,
    since: Instant,
    _large: Option<MutexGuard<'static, ()>>,
}

impl Scene {
    pub fn new(title: impl Into<String>) -> Scene {
        Scene::on_stage(title.into(), None)
    }

    /// One that takes gigabytes.
    pub fn large(title: impl Into<String>) -> Scene {
        Scene::on_stage(title.into(), Some(LARGE.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// A scene for each of these, all at the same time: for jobs that do little but wait.
    pub fn at_once<T: Sync, R: Send>(
        all: &[T],
        title: impl Fn(&T) -> String + Sync,
        play: impl Fn(&Scene, &T) -> R + Sync,
    ) -> Vec<R> {
        // The figures know a test by its thread's name.
        let name = std::thread::current().name().unwrap_or_default().to_owned();
        let (title, play) = (&title, &play);
        std::thread::scope(|threads| {
            let spawn = |one| {
                let thread = std::thread::Builder::new().name(name.clone());
                thread.spawn_scoped(threads, move || play(&Scene::new(title(one)), one)).expect("a thread")
            };
            let playing: Vec<_> = all.iter().map(spawn).collect();
            playing.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
        })
    }

    fn on_stage(title: String, large: Option<MutexGuard<'static, ()>>) -> Scene {
        times::begin();
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = target().join(format!("c-tests/run/{}-{number}", std::process::id()));
        // A failed test of an earlier process of this number left its own here.
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).expect("a folder for the test");
        user::give(&folder);
        make_temporary(&folder.join(TEMPORARY));
        // Made here, for whoever comes first may be root, and the others could not read it then.
        for (key, give) in [(KEY, user::give as fn(&Path)), (KEY_OF_STRANGER, user::give_to_stranger)] {
            let key = folder.join(key);
            KeyFile::at(&key).read_or_make().expect("a key of the scene");
            give(&key);
        }
        let marked = Marked::new(MARK, folder.to_str().expect("a path of plain text"));
        Scene {
            folder,
            title,
            outputs: RefCell::default(),
            marked,
            mpis: RefCell::default(),
            pairs: RefCell::default(),
            since: Instant::now(),
            _large: large,
        }
    }

    /// The naming folder that the jobs share.
    pub fn naming(&self) -> String {
        format!("file:{}", self.folder.join("names").display())
    }

    /// The file of the key of its jobs and servers.
    pub fn key(&self) -> PathBuf {
        self.path(KEY)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Starts a job of the scene.
    pub fn start(&self, launch: Launch<'_>) -> Job {
        let number = self.outputs.borrow().len();
        let out = self.path(&format!("{number}-{}.out", launch.title));
        let err = self.path(&format!("{number}-{}.err", launch.title));
        self.outputs.borrow_mut().push((launch.title.clone(), out.clone(), err.clone()));
        self.mpis.borrow_mut().extend(launch.mpi());
        // Of its own: two of Open MPI's launchers that begin at once get in each other's way.
        let temporary = self.path(TEMPORARY).join(number.to_string());
        make_temporary(&temporary);
        let key = if launch.is_strangers() { self.path(KEY_OF_STRANGER) } else { self.key() };
        launch.spawn((&self.naming(), &key), (MARK, &self.marked.value), &temporary, [out, err])
    }

    /// A naming server with these arguments, run by the command `within`; with it, the address that it printed.
    pub fn serve(&self, arguments: &[&str], within: &[String]) -> (Job, String) {
        let server = self.start(Launch::alone(&command(), &[&["serve"], arguments].concat()).within(within));
        let mut address = None;
        let printed = || {
            let line = server.printed();
            address = line.trim().strip_prefix("MPI_CONNECT_NAMING=tcp://").map(str::to_owned);
            address.is_some() && line.ends_with('\n')
        };
        self.require(wait_until(Duration::from_secs(20), printed), "the server prints its URL");
        (server, address.expect("an address"))
    }

    /// A relay with these arguments, run by the command `within`, once processes can connect.
    pub fn relay(&self, arguments: &[&str], within: &[String]) -> Job {
        let relay = self.start(Launch::alone(&command(), &[&["relay"], arguments].concat()).within(within));
        let printed = || relay.printed().starts_with("MPI_CONNECT_RELAY=");
        self.require(wait_until(Duration::from_secs(20), printed), "the relay prints where it is");
        relay
    }

    /// An address of loopback for a server that is started more than once: its port is not among those that the kernel gives
    /// to others meanwhile.
    pub fn lasting_address() -> String {
        static NEXT: AtomicU16 = AtomicU16::new(0);
        // The tests of one machine run in several processes.
        let first = std::process::id() as u16;
        loop {
            let port = 10_240 + first.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % 20_000;
            let address = format!("127.0.0.1:{port}");
            if TcpListener::bind(&address).is_ok() {
                return address;
            }
        }
    }

    /// Waits until all have ended. At the time limit everything is killed and shown.
    pub fn wait<const N: usize>(&self, jobs: [Job; N], limit: Duration) -> [Done; N] {
        self.try_wait(jobs, limit).unwrap_or_else(|what| self.fail(&what))
    }

    /// The same, but who is late is told; then nothing is killed yet.
    pub fn try_wait<const N: usize>(&self, mut jobs: [Job; N], limit: Duration) -> Result<[Done; N], String> {
        let mut end = Instant::now() + limit;
        let mut failed = false;
        loop {
            let states: Vec<_> = jobs.iter_mut().map(Job::poll).collect();
            if states.iter().all(Option::is_some) {
                break;
            }
            if !failed && states.iter().flatten().any(|s| !s.success()) {
                failed = true;
                end = end.min(Instant::now() + GRACE);
            }
            if Instant::now() > end {
                let late: Vec<_> =
                    jobs.iter().zip(&states).filter(|(_, s)| s.is_none()).map(|(j, _)| j.title.as_str()).collect();
                let when = if failed { "though another job has failed".into() } else { format!("within {limit:?}") };
                return Err(format!("{} not done {when}", late.join(", ")));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(jobs.map(Job::done))
    }

    /// Waits and demands that every job ends well.
    pub fn pass<const N: usize>(&self, jobs: [Job; N], limit: Duration) -> [Done; N] {
        let done = self.wait(jobs, limit);
        for d in &done {
            self.require(d.status.success(), &format!("{} ended with {}", d.title, d.status));
            // LAM's launcher reports success whatever its ranks return.
            let failed = d.lines("DONE").any(|line| !line.ends_with(" failures 0"));
            self.require(!failed, &format!("checks of {} failed", d.title));
        }
        done
    }

    /// Notes that these two MPIs meet in this scene, where not only the first two jobs do.
    pub fn meet(&self, a: &Mpi, b: &Mpi) {
        self.pairs.borrow_mut().push((a.name, b.name));
    }

    fn pairs(&self) -> Vec<(&'static str, &'static str)> {
        let noted = self.pairs.take();
        let first_two = || self.mpis.borrow().windows(2).take(1).map(|two| (two[0], two[1])).collect();
        if noted.is_empty() { first_two() } else { noted }
    }

    /// Like `assert!`, but shows what the jobs printed.
    #[track_caller]
    pub fn require(&self, condition: bool, what: &str) {
        if !condition {
            self.fail(what);
        }
    }

    /// What `mpi-connect names` says of the scene's folder.
    pub fn names(&self) -> String {
        self.names_at(&self.naming())
    }

    /// The same of another place, asked with the scene's key.
    pub fn names_at(&self, url: &str) -> String {
        let mut words = user::prefix();
        words.push(command().display().to_string());
        words.extend(["names", "--naming", url].map(String::from));
        let key = ("MPI_CONNECT_KEY", format!("file:{}", self.key().display()));
        let done = Command::new(&words[0]).args(&words[1..]).env(key.0, key.1).output().expect("mpi-connect");
        String::from_utf8_lossy(&done.stdout).into_owned()
    }

    /// Waits until a live job holds `name`.
    #[track_caller]
    pub fn wait_for_name(&self, name: &str) {
        let held = || self.names().split_whitespace().any(|word| word == name);
        if !wait_until(Duration::from_secs(20), held) {
            self.fail(&format!("nobody holds the name {name}; `mpi-connect names` says:\n{}", self.names()));
        }
    }

    /// Kills every process of the scene whose command line has `word` in it, and waits until they are gone.
    #[track_caller]
    pub fn kill(&self, word: &str) {
        let gone = self.marked.kill(word);
        assert!(gone, "processes of {} do not die: {:?}", self.title, self.processes(word));
    }

    /// Everything that was started here and has `word` in its command line, however deep: launchers, their daemons, ranks.
    /// Known by the environment, so that no other process can be meant.
    pub fn processes(&self, word: &str) -> Vec<i32> {
        self.marked.processes(word)
    }

    #[track_caller]
    fn fail(&self, what: &str) -> ! {
        self.kill("");
        let mut text = format!("{}: {what}\n", self.title);
        for (title, out, err) in self.outputs.borrow().iter() {
            for (kind, path) in [("printed", out), ("stderr and log", err)] {
                text += &format!("---- {title}: {kind}\n{}", tail(&std::fs::read(path).unwrap_or_default()));
            }
        }
        panic!("{text}");
    }
}

/// Whoever runs a job may write here.
fn make_temporary(folder: &Path) {
    std::fs::create_dir(folder).expect("a folder for the jobs");
    std::fs::set_permissions(folder, Permissions::from_mode(0o1777)).expect("a folder of ours");
}

/// The last 60 lines.
fn tail(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let lines: Vec<_> = text.lines().collect();
    let from = lines.len().saturating_sub(60);
    let mut out = if from > 0 { format!("({from} lines before)\n") } else { String::new() };
    for line in &lines[from..] {
        out.push_str(line);
        out.push('\n');
    }
    out
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.kill("");
        let took = self.since.elapsed();
        println!("-- {:.1} s: {}", took.as_secs_f64(), self.title);
        times::add(Played { pairs: self.pairs(), mpis: self.mpis.take(), took });
        // What a failed test left is for reading.
        if !std::thread::panicking() {
            let _ = std::fs::remove_dir_all(&self.folder);
        }
    }
}
