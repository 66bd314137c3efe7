//! Nothing waits in silence: whoever waits says what for, and where it looks; what cannot come right is told at once. And
//! how lines of the log begin.

use base::Family;
use c_tests::{Done, Job, Launch, Mpi, Scene, command, wait_until};
use nix::sys::signal::Signal;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

/// By default: the tests' own setting is taken back.
pub const BY_DEFAULT: (&str, &str) = ("MPI_CONNECT_LOG", "");

fn bad<'a>(mpi: &'a Mpi, ranks: usize, arguments: &[&str], settings: &[(&str, &str)]) -> Launch<'a> {
    Launch::new(mpi, ranks, "bad", arguments).envs(settings)
}

#[track_caller]
fn couples() -> Vec<(&'static Mpi, &'static Mpi)> {
    Mpi::some_couples().collect()
}

/// What is said in lines of ours that begin with this name and rank.
pub fn said<'a>(done: &'a str, who: &str) -> Vec<&'a str> {
    let begin = format!("[{who}@");
    let ours = done.lines().filter_map(|line| line.split_once(&begin));
    ours.filter_map(|(_, rest)| rest.split_once("] ").map(|(_, text)| text)).collect()
}

/// The text with 5 s for each longer time that somebody waits: a busy machine may hear of it later.
fn at_5_s(text: &str) -> String {
    let parts = text.split(" for ").map(|part| {
        let digits = part.len() - part.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        match (part[..digits].parse::<u32>(), &part[digits..]) {
            (Ok(5..), rest) if rest.starts_with(" s") => format!("5{rest}"),
            _ => part.to_owned(),
        }
    });
    parts.collect::<Vec<_>>().join(" for ")
}

fn require_said(scene: &Scene, done: &str, who: &str, text: &str) {
    let done = &at_5_s(done);
    scene.require(said(done, who).iter().any(|line| line.starts_with(text)), &format!("'{text}' by {who} in:\n{done}"));
}

/// Two jobs that look at each other and differ in a name: both are told. The limit leaves room for a job that starts slowly.
#[test]
fn a_name_that_differs_is_told_on_both_sides_at_once() {
    Scene::at_once(
        &couples(),
        |(a, b)| format!("'ocaen' instead of 'ocean', {} and {}", a.name, b.name),
        |scene, (a, b)| {
            let settings = [BY_DEFAULT, ("MPI_CONNECT_TIMEOUT", "12")];
            let jobs = [
                scene.start(bad(a, 2, &["orphan", "air", "ocaen", "12"], &settings)),
                scene.start(bad(b, 1, &["orphan", "ocean", "air", "12"], &settings)),
            ];
            let [air, ocean] = scene.pass(jobs, LIMIT);
            let told = "'ocean' waits for 'air'; this job waits for 'ocaen'; did you mean 'ocean'?";
            require_said(scene, &air.stderr, "air 0", told);
            require_said(scene, &ocean.stderr, "ocean 0", "'air' waits for 'ocaen'; this job is 'ocean'");
            // Once, by rank 0 alone, and nothing else of ours by default but what is told after 5 s.
            let at_once =
                |done: &str, who| said(&at_5_s(done), who).iter().filter(|line| !line.contains(" for 5 s: ")).count();
            let all =
                [at_once(&air.stderr, "air 0"), said(&air.stderr, "air 1").len(), at_once(&ocean.stderr, "ocean 0")];
            scene.require(all == [1, 0, 1], &format!("{all:?} lines:\n{}{}", air.stderr, ocean.stderr));
        },
    );
}

/// After 5 s: what is awaited, where it looks, which names are there. Not if quiet is asked for.
#[test]
fn who_waits_for_long_says_so() {
    Scene::at_once(
        &couples(),
        |(a, b)| format!("waiting for 5 s, {} and {}", a.name, b.name),
        |scene, (a, b)| {
            let limit = ("MPI_CONNECT_TIMEOUT", "10");
            let quiet = ("MPI_CONNECT_LOG", "quiet");
            let holder = scene.start(bad(b, 1, &["hold", "ocean"], &[]));
            scene.wait_for_name("ocean");
            let jobs = [
                scene.start(bad(a, 2, &["orphan", "air", "ocaen", "10"], &[BY_DEFAULT, limit])),
                scene.start(bad(b, 1, &["orphan", "ice", "ocean", "10"], &[BY_DEFAULT, limit])),
                scene.start(bad(b, 1, &["orphan", "land", "ocaen", "10"], &[quiet, limit])),
            ];
            let [air, ice, land] = scene.wait(jobs, LIMIT);
            for done in [&air, &ice, &land] {
                scene.require(done.status.success(), &format!("{} ended with {}", done.title, done.status));
            }
            let told = format!(
                "'air' waits for 'ocaen' for 5 s: nobody has registered that name in {}; names there: ",
                scene.naming()
            );
            require_said(scene, &air.stderr, "air 0", &told);
            scene.require(air.stderr.contains("; did you mean 'ocean'?"), &air.stderr);
            let told = "'ice' waits for 'ocean' for 5 s: it is registered and can be reached, but did not join 'ice'";
            require_said(scene, &ice.stderr, "ice 0", told);
            let loud = [said(&air.stderr, "air 1"), said(&land.stderr, "land 0")].concat();
            scene.require(loud.is_empty(), &loud.join("\n"));
            std::fs::write(scene.path("let-go"), "").expect("a sign");
            scene.pass([holder], LIMIT);
        },
    );
}

/// A collective call that only one rank makes: it says that it waits for the others.
#[test]
fn other_ranks_that_do_not_call() {
    Scene::at_once(
        &couples(),
        |(a, _)| format!("only one rank registers, {}", a.name),
        |scene, (a, _)| {
            let job = scene.start(bad(a, 2, &["late", "air"], &[BY_DEFAULT]));
            let told =
                "MPI_Conn_register waits for 5 s for other ranks of this job: all ranks of its communicator have to";
            let says = || at_5_s(&job.complained()).contains(told);
            scene.require(wait_until(LIMIT, says), &job.complained());
            std::fs::write(scene.path("let-go"), "").expect("a sign");
            scene.pass([job], LIMIT);
        },
    );
}

/// The same in a later call, of the leader or of another rank.
#[test]
fn other_ranks_that_do_not_join() {
    Scene::at_once(
        &couples(),
        |(a, _)| format!("only one rank joins, {}", a.name),
        |scene, (a, _)| {
            let limit = ("MPI_CONNECT_TIMEOUT", "1");
            let jobs = ["0", "1"]
                .map(|late| scene.start(bad(a, 2, &["later", &format!("air-{late}"), late], &[BY_DEFAULT, limit])));
            let told = "MPI_Conn_intercomm_create waits for 5 s for other ranks of this job: all ranks";
            for job in &jobs {
                let says = || at_5_s(&job.complained()).contains(told);
                scene.require(wait_until(LIMIT, says), &job.complained());
            }
            std::fs::write(scene.path("let-go"), "").expect("a sign");
            scene.pass(jobs, LIMIT);
        },
    );
}

/// No lane in common: both are told, and neither waits.
#[test]
fn lanes_without_one_in_common_are_told_on_both_sides() {
    Scene::at_once(
        &couples(),
        |(a, b)| format!("shm against tcp, {} and {}", a.name, b.name),
        |scene, (a, b)| {
            let limit = ("MPI_CONNECT_TIMEOUT", "60");
            let jobs = [
                scene.start(bad(a, 1, &["orphan", "air", "ocean", "10"], &[("MPI_CONNECT_LANES", "shm"), limit])),
                scene.start(bad(b, 1, &["lanes", "ocean", "air"], &[("MPI_CONNECT_LANES", "tcp"), limit])),
            ];
            let [air, ocean] = scene.pass(jobs, LIMIT);
            let told = "MPI_Conn_intercomm_create: 'ocean' can never be reached: it has MPI_CONNECT_LANES=tcp, and this job \
                    MPI_CONNECT_LANES=shm: they have none in common";
            scene.require(air.stderr.contains(told), &air.stderr);
            let told = "MPI_Conn_intercomm_create: 'air' can never be reached: it has MPI_CONNECT_LANES=shm, and this job \
                    MPI_CONNECT_LANES=tcp: they have none in common";
            scene.require(ocean.stderr.contains(told), &ocean.stderr);
        },
    );
}

/// Accept and connect say what they wait for; names that lead nowhere lead to the right ones; and no line has the name of a
/// port, which is its secret.
#[test]
fn ports_at_which_somebody_waits() {
    Scene::at_once(
        &couples(),
        |(a, b)| format!("waiting at ports, server {}, client {}", a.name, b.name),
        |scene, (a, b)| {
            // Whose MPI the standard ABI's is cannot be told, so neither whose names are foreign.
            let foreign = match b.family {
                Family::Mpich => "2187460609.0:1234567890",
                Family::Standard => "-",
                Family::OpenMpi | Family::Lam => "tag#0$description#host$port#1$",
            };
            let jobs = [
                scene.start(Launch::new(a, 2, "waits", &["server", "10"])),
                scene.start(Launch::new(b, 2, "waits", &["client", "10", foreign])),
            ];
            let [server, client] = scene.pass(jobs, LIMIT);
            let told = "MPI_Comm_accept waits for 5 s for somebody to connect to port mpic:";
            require_said(scene, &server.stderr, "mpi_connect 0", told);
            scene.require(
                server.stderr.contains("; a client needs this library too: start it by 'mpi-connect run'"),
                &server.stderr,
            );
            let told = "MPI_Comm_connect waits for 5 s for port mpic:";
            require_said(scene, &client.stderr, "mpi_connect 0", told);
            scene.require(client.stderr.contains(": it is open, but nobody has accepted"), &client.stderr);
            let name = std::fs::read_to_string(scene.path("port")).expect("the server has written it");
            let (sign, rest) = name.split_at("mpic:".len() + 6);
            for done in [&server, &client] {
                scene.require(done.stderr.contains(&format!("{sign}…")), &done.stderr);
                scene.require(!done.stderr.contains(rest), "the name of a port is in the log");
            }
        },
    );
}

/// A naming server goes away while a job waits for a name there: it waits on, says so, and goes on when a server is back.
#[test]
fn a_naming_server_that_is_away_is_waited_for() {
    Scene::at_once(
        &couples(),
        |(a, b)| format!("the naming server goes away, {} and {}", a.name, b.name),
        |scene, (a, b)| {
            let (server, address) = scene.serve(&["--listen", &Scene::lasting_address(), "--lease", "2"], &[]);
            let url = format!("tcp://{address}");
            let half = |mpi, arguments: &[&str]| {
                let settings = [BY_DEFAULT, ("MPI_CONNECT_NAMING", &url), ("MPI_CONNECT_TIMEOUT", "50")];
                Launch::new(mpi, 1, "half", arguments).envs(&settings)
            };
            let air = scene.start(half(a, &["air", "ocean", "0"]));
            let known = || scene.names_at(&url).contains("air ");
            scene.require(wait_until(LIMIT, known), "air is known");
            server.signal(Signal::SIGTERM);
            scene.wait([server], LIMIT);
            let told = || {
                let said = at_5_s(&air.complained());
                said.contains("'air' waits for 'ocean' for 5 s: since ")
                    && said.contains(" s no naming server answers: ")
            };
            scene.require(
                wait_until(Duration::from_secs(20), told),
                &format!("air does not say why:\n{}", air.complained()),
            );
            let again = scene.start(Launch::alone(&command(), &["serve", "--listen", &address, "--lease", "2"]));
            let ocean = scene.start(half(b, &["ocean", "air", "1"]));
            scene.pass([air, ocean], LIMIT);
            again.signal(Signal::SIGTERM);
            scene.wait([again], LIMIT);
        },
    );
}

/// A name is still a killed job's until its lease is over, and meanwhile the server goes away: whoever waits for the name
/// says both, and has it once a server is back.
#[test]
fn a_naming_server_goes_away_while_a_lease_is_waited_for() {
    Scene::at_once(
        &Mpi::couples().take(2).collect::<Vec<_>>(),
        |(a, b)| format!("a lease, and the naming server goes away, {} and {}", a.name, b.name),
        |scene, (a, b)| {
            let (server, address) = scene.serve(&["--listen", &Scene::lasting_address(), "--lease", "15"], &[]);
            let url = format!("tcp://{address}");
            let hold = |mpi| bad(mpi, 1, &["hold", "air"], &[BY_DEFAULT, ("MPI_CONNECT_NAMING", &url)]);
            let _killed = scene.start(hold(a));
            scene.require(wait_until(LIMIT, || scene.path("held").exists()), "the first job has the name");
            scene.kill("hold");
            std::fs::remove_file(scene.path("held")).expect("a sign");
            std::fs::write(scene.path("let-go"), "").expect("a sign");
            let mut next = scene.start(hold(b));
            let says = |job: &Job, text: &str| at_5_s(&job.complained()).contains(text);
            let told =
                "waiting for 5 s for the name 'air': it is held by a process that seems dead, until its lease is over";
            scene.require(wait_until(LIMIT, || says(&next, told)), &next.complained());
            server.signal(Signal::SIGKILL);
            scene.wait([server], LIMIT);
            // It asks twenty times a second.
            scene.require(!wait_until(Duration::from_secs(1), || next.poll().is_some()), &next.complained());
            let again = scene.start(Launch::alone(&command(), &["serve", "--listen", &address, "--lease", "2"]));
            scene.pass([next], LIMIT);
            again.signal(Signal::SIGTERM);
            scene.wait([again], LIMIT);
        },
    );
}

/// With everything told: each line says who and when, people's words, and no secret number.
#[test]
fn lines_of_the_log() {
    Scene::at_once(
        &couples(),
        |(a, b)| format!("lines of the log, {} and {}", a.name, b.name),
        |scene, (a, b)| {
            let half = |mpi, arguments: &[&str]| {
                scene.start(Launch::new(mpi, 2, "half", arguments).env("MPI_CONNECT_LOG", "debug"))
            };
            let jobs = [half(a, &["air", "ocean", "0"]), half(b, &["ocean", "air", "1"])];
            for done in scene.pass(jobs, LIMIT) {
                check_lines(scene, &done);
            }
        },
    );
}

fn check_lines(scene: &Scene, done: &Done) {
    let names = ["mpi_connect ", "air ", "ocean "];
    // What a long wait says is for the user, and has no time. On a slow machine one may be long.
    let is_ours = |line: &&str| {
        names.iter().any(|name| line.contains(&format!("[{name}")))
            && !line.contains(": nobody has registered that name in ")
    };
    let ours: Vec<_> = done.stderr.lines().filter(is_ours).collect();
    scene.require(ours.iter().any(|line| line.contains(" is connected to rank ")), &done.stderr);
    for line in ours {
        let (_, text) = line.split_once("] ").expect("an end of the beginning");
        let time = text.split_once(' ').map(|(time, _)| time).unwrap_or_default();
        let is_time = time.len() == "07:13:45.123Z".len() && time.ends_with('Z') && time.matches(':').count() == 2;
        scene.require(is_time, &format!("no time: {line}"));
        let debug = ["Some(", "None", "Ok(", "Err(", "#", "Duration", "\\\""];
        scene.require(!debug.iter().any(|word| text.contains(word)), &format!("not for people: {line}"));
    }
}
