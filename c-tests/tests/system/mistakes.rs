//! Twenty mistakes that users make, each as they make it, with MPI's default error handler: the text names what is wrong
//! and what to do about it, nothing waits beyond its limit, and nobody is told the same twice.

use crate::loading::{compile_static, mpi_library, wrong_order};
use c_tests::{Done, Figure, Job, Launch, Library, Mpi, Scene, compile, compile_with, user, wait_until};
use nix::sys::signal::Signal;
use std::os::unix::fs::PermissionsExt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Nothing here takes longer, whatever waits for whom.
const LIMIT: Duration = Duration::from_secs(60);
/// So many are made beside each other: most of them wait.
const BESIDE: usize = 3;
/// By default: the tests' own setting is taken back.
const BY_DEFAULT: (&str, &str) = ("MPI_CONNECT_LOG", "");
const SOON: (&str, &str) = ("MPI_CONNECT_TIMEOUT", "3");
/// Late enough for both jobs to wait at a time, also where one starts slowly.
const LATER: (&str, &str) = ("MPI_CONNECT_TIMEOUT", "10");

type Pair = (&'static Mpi, &'static Mpi);

struct Mistake {
    title: &'static str,
    /// Makes it. All that was said, by those whose texts are looked at.
    make: fn(&Scene, Pair) -> Vec<Done>,
    /// Whose text has all these words, in one line of ours.
    told: &'static [(usize, &'static [&'static str])],
}

const HELD: &[&str] = &["the name 'air' is held by a live job: 1 rank of", "take another name", "MPI_CONNECT_RUN=NAME"];

const ALL: [Mistake; 20] = [
    Mistake {
        title: "wrong name",
        make: |scene, pair| both(scene, pair, [&["air", "ocaen"], &["ocean", "air"]], &[LATER]),
        told: &[
            (0, &["'ocean' waits for 'air'; this job waits for 'ocaen'", "did you mean 'ocean'?"]),
            (1, &["'air' waits for 'ocaen'; this job is 'ocean'"]),
        ],
    },
    Mistake { title: "name twice", make: name_twice, told: &[(0, HELD)] },
    Mistake {
        title: "other job never starts",
        make: |scene, (a, _)| one(scene, job(a, &["air", "ocean"]).envs(&[SOON])),
        told: &[(
            0,
            &[
                "job 'ocean' did not come",
                "nobody has registered that name in file:",
                "start that job",
                "MPI_CONNECT_TIMEOUT",
            ],
        )],
    },
    Mistake {
        title: "run forgotten",
        make: run_forgotten,
        told: &[
            (0, &["is another MPI's own: its server runs without this library", "start it by 'mpi-connect run'"]),
            (1, &["MPI_Comm_accept waits for", "a client needs this library too: start it by 'mpi-connect run'"]),
        ],
    },
    Mistake {
        title: "wrong link order",
        make: |scene, (a, _)| {
            let own = mpi_library(a, &compile(a, "mistakes", Library::Preloaded));
            let own = own.to_str().expect("a path of plain text");
            let program = compile_with(a, "mistakes", Library::Linked, &wrong_order(own));
            one(scene, Launch::of(a, 1, program, Library::Linked, &["air", "ocean"]).envs(&[BY_DEFAULT]))
        },
        told: &[(
            0,
            &["did not pass through libmpi_connect.so", "link -lmpi_connect before the MPI", "'mpi-connect run'"],
        )],
    },
    Mistake {
        title: "static MPI",
        make: |scene, _| {
            let mpi = Mpi::by_name("mpich4").expect("an MPI of the table");
            let program = compile_static(mpi, "mistakes", Library::Linked).expect("it has an archive");
            one(scene, Launch::of(mpi, 1, program, Library::Linked, &["air", "ocean"]).envs(&[BY_DEFAULT]))
        },
        told: &[(0, &["MPI is linked statically into this program", "link with the MPI's shared library"])],
    },
    Mistake {
        title: "refused call",
        make: |scene, pair| both(scene, pair, [&["air", "ocean", "refused"], &["ocean", "air", "waits"]], &[]),
        told: &[(
            0,
            &[
                "MPI_Allreduce is not available on an inter-communicator between jobs",
                "MPI_Sendrecv",
                "docs/coverage.md",
            ],
        )],
    },
    Mistake {
        title: "truncation",
        make: |scene, pair| both(scene, pair, [&["air", "ocean", "short"], &["ocean", "air", "long"]], &[]),
        told: &[(
            0,
            &["MPI_Recv: the message from rank 0 of job 'ocean' with tag 5 has 16 bytes, and the buffer only 4"],
        )],
    },
    Mistake {
        title: "wrong rank",
        make: |scene, pair| both(scene, pair, [&["air", "ocean", "rank"], &["ocean", "air", "waits"]], &[]),
        told: &[(0, &["MPI_Send: there is no rank 77 in job 'ocean', whose ranks here are 0 to 0"])],
    },
    Mistake {
        title: "wrong type",
        make: |scene, pair| {
            let check = [("MPI_CONNECT_CHECK", "types")];
            both(scene, pair, [&["air", "ocean", "integers"], &["ocean", "air", "doubles"]], &check)
        },
        told: &[(0, &["has other types than the receive: MPI_DOUBLE x 4 sent, MPI_INT x 8 received"])],
    },
    Mistake {
        title: "before MPI_Init",
        make: |scene, (a, _)| one(scene, job(a, &["air", "ocean", "early"])),
        told: &[(0, &["MPI_Conn_register was called before MPI_Init", "call that first"])],
    },
    Mistake {
        title: "bad handle",
        make: |scene, (a, _)| one(scene, job(a, &["air", "ocean", "handle"])),
        told: &[(0, &["handle 12345678 was never given out", "use what MPI_Conn_register gave"])],
    },
    Mistake {
        title: "killed peer",
        make: |scene, pair| both(scene, pair, [&["air", "ocean", "waits"], &["ocean", "air", "dies"]], &[]),
        told: &[(0, &["MPI_Recv: rank 0 of job 'ocean' has died", "what its job printed says why"])],
    },
    Mistake {
        title: "server down",
        make: |scene, (a, _)| one(scene, job(a, &["air", "ocean"]).env("MPI_CONNECT_NAMING", "tcp://127.0.0.1:1")),
        told: &[(0, &["no naming server answers: 127.0.0.1:1: ", "it is started by 'mpi-connect serve'"])],
    },
    Mistake {
        title: "read-only folder",
        make: |scene, (a, _)| {
            let folder = scene.path("read-only");
            std::fs::create_dir(&folder).expect("a folder");
            user::give(&folder);
            std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o555)).expect("a folder of ours");
            one(scene, job(a, &["air", "ocean"]).env("MPI_CONNECT_NAMING", &format!("file:{}", folder.display())))
        },
        told: &[(
            0,
            &[
                "/read-only: Permission denied",
                "choose another folder with MPI_CONNECT_NAMING=file:DIR that you may write to",
            ],
        )],
    },
    Mistake {
        title: "other user",
        make: other_user,
        told: &[(
            0,
            &["Permission denied", "choose another folder with MPI_CONNECT_NAMING=file:DIR that you may write to"],
        )],
    },
    Mistake {
        title: "other version",
        make: other_version,
        told: &[(0, &["is of version 99, written by a newer MPI_Connect", "both jobs need the same release"])],
    },
    Mistake {
        title: "unknown setting",
        make: |scene, pair| both(scene, pair, [&["air", "ocean"], &["ocean", "air"]], &[("MPI_CONNECT_TIMEOT", "9")]),
        told: &[(0, &["MPI_CONNECT_TIMEOT means nothing", "MPI_CONNECT_TIMEOUT was perhaps meant"])],
    },
    Mistake { title: "same names at once", make: same_names_at_once, told: &[(0, HELD)] },
    Mistake {
        title: "wrong interface",
        make: |scene, (a, _)| one(scene, job(a, &["air", "ocean"]).env("MPI_CONNECT_IFACE", "eth99")),
        told: &[(0, &["MPI_CONNECT_IFACE: 'eth99' matches no interface or address that is up here; there are lo"])],
    },
];

fn job<'a>(mpi: &'a Mpi, arguments: &[&str]) -> Launch<'a> {
    Launch::new(mpi, 1, "mistakes", arguments).envs(&[BY_DEFAULT])
}

fn one(scene: &Scene, launch: Launch<'_>) -> Vec<Done> {
    scene.wait([scene.start(launch)], LIMIT).into()
}

/// Two jobs, with the same settings.
fn both(scene: &Scene, (a, b): Pair, arguments: [&[&str]; 2], settings: &[(&str, &str)]) -> Vec<Done> {
    let jobs = [(a, arguments[0]), (b, arguments[1])].map(|(mpi, words)| scene.start(job(mpi, words).envs(settings)));
    scene.wait(jobs, LIMIT).into()
}

fn hold(scene: &Scene, mpi: &Mpi, name: &str) -> Job {
    let holder = scene.start(Launch::new(mpi, 1, "bad", &["hold", name]));
    scene.wait_for_name(name);
    holder
}

fn let_go(scene: &Scene) {
    std::fs::write(scene.path("let-go"), "").expect("a sign");
}

fn name_twice(scene: &Scene, (a, b): Pair) -> Vec<Done> {
    let holder = hold(scene, b, "air");
    let told = one(scene, job(a, &["air", "ocean"]));
    let_go(scene);
    scene.pass([holder], LIMIT);
    told
}

/// A server without the library and a client with it; and the reverse, whose client has its own MPI's word alone.
fn run_forgotten(scene: &Scene, _: Pair) -> Vec<Done> {
    // Most others cannot open a port here by themselves.
    let [a, b] = ["openmpi4", "mpich4"].map(|name| Mpi::by_name(name).expect("an MPI of the table"));
    let bare = |mpi, what| Launch::with(mpi, 1, "mistakes", Library::None, &["air", "ocean", what]);
    let forgotten = scene.start(bare(a, "serve"));
    let mut told = one(scene, job(b, &["air", "ocean", "visit"]));
    scene.kill("serve");
    let _ = scene.wait([forgotten], LIMIT);
    std::fs::remove_file(scene.path("port")).expect("a sign");
    let waits = scene.start(job(a, &["air", "ocean", "serve"]));
    let forgotten = scene.start(bare(b, "visit"));
    let says = || waits.complained().contains("MPI_Comm_accept waits for");
    scene.require(wait_until(LIMIT, says), "the server says nothing");
    scene.kill("mistakes");
    told.extend(scene.wait([waits], LIMIT));
    let _ = scene.wait([forgotten], LIMIT);
    told
}

/// The folder of names is another user's.
fn other_user(scene: &Scene, (a, _): Pair) -> Vec<Done> {
    scene.require(user::is_other(), "only root can start jobs of two users");
    let holder = hold(scene, a, "land");
    let mpich = Mpi::by_name("mpich4").expect("an MPI of the table");
    let told = one(scene, job(mpich, &["air", "ocean"]).by_stranger().env("HOME", "/nonexistent"));
    let_go(scene);
    scene.pass([holder], LIMIT);
    told
}

/// What another release has written, as far as ours can tell: a record with another version's number.
fn other_version(scene: &Scene, (a, b): Pair) -> Vec<Done> {
    let holder = hold(scene, b, "ocean");
    for entry in std::fs::read_dir(scene.path("names")).expect("the folder of names") {
        let path = entry.expect("a file").path();
        let Ok(mut bytes) = std::fs::read(&path) else { continue };
        if bytes.starts_with(b"MPICNAME") {
            bytes[8] = 99;
            std::fs::write(&path, &bytes).expect("the record");
        }
    }
    let told = one(scene, job(a, &["air", "ocean"]).envs(&[SOON]));
    holder.signal(Signal::SIGKILL);
    scene.kill("hold");
    let _ = scene.wait([holder], LIMIT);
    told
}

/// A second pair starts while the first is coupled. In a run of its own it is coupled too.
fn same_names_at_once(scene: &Scene, (a, b): Pair) -> Vec<Done> {
    let first = [job(a, &["air", "ocean", "stays"]), job(b, &["ocean", "air", "stays"])].map(|l| scene.start(l));
    scene.require(wait_until(LIMIT, || scene.path("joined").exists()), "the first pair is coupled");
    let told = both(scene, (a, b), [&["air", "ocean"], &["ocean", "air"]], &[SOON]);
    let apart = [("MPI_CONNECT_RUN", "case8")];
    let done = both(scene, (a, b), [&["air", "ocean"], &["ocean", "air"]], &apart);
    scene.require(done.iter().all(|d| d.status.success()), "a run of its own is no use");
    let_go(scene);
    scene.pass(first, LIMIT);
    told
}

/// The lines of ours.
fn ours(done: &Done) -> Vec<&str> {
    let all = done.stderr.lines().chain(done.stdout.lines());
    let is_ours = |line: &str| {
        line.contains("mpi-connect: ") || (line.contains('[') && line.contains("] ") && line.contains('@'))
    };
    all.filter(|line| is_ours(line)).collect()
}

/// Without who says it: the text alone.
fn text(line: &str) -> &str {
    line.split_once("@").and_then(|(_, rest)| rest.split_once("] ")).map_or(line, |(_, text)| text)
}

/// Makes one, and gives the lines that tell of it.
fn play(mistake: &Mistake, pair: Pair) -> Vec<String> {
    let (a, b) = pair;
    let scene = Scene::new(format!("mistake: {}, {} and {}", mistake.title, a.name, b.name));
    let done = (mistake.make)(&scene, pair);
    let mut all = Vec::new();
    for (who, words) in mistake.told {
        let said = ours(&done[*who]);
        let found = said.iter().find(|line| words.iter().all(|word| line.contains(word)));
        let Some(found) = found else {
            let what = format!("{words:?} of {} in:\n{}{}", done[*who].title, done[*who].stderr, done[*who].stdout);
            scene.require(false, &what);
            continue;
        };
        // What the library says, the MPI below does not say again; `run` may have said it before.
        let times = done[*who].stderr.lines().chain(done[*who].stdout.lines());
        let times = times.filter(|line| line.contains(words[0]) && !line.starts_with("mpi-connect: ")).count();
        scene.require(times <= 1, &format!("told {times} times: {}", done[*who].stderr));
        all.push(text(found).replace(scene.folder.to_str().expect("plain text"), "/DIR"));
    }
    all
}

/// One after the other would take minutes, most of them waiting.
#[test]
fn twenty_mistakes() {
    let ring: Vec<Pair> = Mpi::ring().collect();
    let pairs: Vec<Pair> = ring.iter().copied().cycle().take(ALL.len()).collect();
    let (next, texts) = (AtomicUsize::new(0), Mutex::new(vec![Vec::new(); ALL.len()]));
    let work = || {
        loop {
            let i = next.fetch_add(1, Ordering::Relaxed);
            let Some(mistake) = ALL.get(i) else { return };
            let said = play(mistake, pairs[i]);
            texts.lock().unwrap_or_else(|e| e.into_inner())[i] = said;
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..BESIDE {
            let named = std::thread::Builder::new().name("mistakes::twenty_mistakes".into());
            named.spawn_scoped(scope, work).expect("a thread");
        }
    });
    let mut figure = Figure::new("66-mistakes", "twenty mistakes, and what each is told");
    for ((mistake, (a, b)), said) in ALL.iter().zip(&pairs).zip(texts.into_inner().expect("all have ended well")) {
        figure.line(format!("{} ({}, {})", mistake.title, a.name, b.name));
        said.iter().for_each(|line| figure.line(format!("    {line}")));
    }
}
