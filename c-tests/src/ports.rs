//! Two jobs that meet at a port of MPI's own: what became of them, with the library and without. For the tests of ports
//! and for the page about them.
//!
//! Invariant: nothing is said of a pair of jobs that they did not do or print themselves.

use crate::{Job, Launch, Library, Mpi, Scene, compile};
use base::ProcId;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

/// Ranks of the server's job, ranks of the client's, rounds.
pub const SERVERS: usize = 2;
pub const CLIENTS: usize = 3;
pub const ROUNDS: usize = 3;

/// What the short name of a port tells: where it is, its incarnation and its cookie.
pub fn short(name: &str) -> (SocketAddr, ProcId, [u8; 16]) {
    let digits = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let text = name.trim().strip_prefix("mpic:").expect("a name of ours");
    let (mut bits, mut held, mut bytes) = (0u32, 0, Vec::new());
    for c in text.bytes() {
        bits = bits << 6 | digits.iter().position(|d| *d == c).expect("a digit") as u32;
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held) as u8);
        }
    }
    let token: &[u8; 14] = bytes.first_chunk().expect("a token");
    let ip: [u8; 4] = bytes[14..18].try_into().expect("an address");
    let port = u16::from_le_bytes([bytes[18], bytes[19]]);
    let mut cookie = [0; 16];
    cookie[..14].copy_from_slice(token);
    (
        (Ipv4Addr::from(ip), port).into(),
        ProcId { incarnation: trust::public_number("mpi-connect port", token), rank: 0 },
        cookie,
    )
}

/// How the client learns the port's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// From a text file.
    File,
    /// By MPI_Publish_name and MPI_Lookup_name.
    Name,
}

/// The server's job and the client's, both of a program that knows MPI alone: the same executable, preloaded or not.
pub fn pair<'a>(scene: &Scene, server: &'a Mpi, client: &'a Mpi, by: By, library: Library) -> [Launch<'a>; 2] {
    let place = match by {
        By::File => format!("file:{}", scene.path("port").display()),
        By::Name => format!("name:port of {}", scene.folder.display()),
    };
    let launch = |mpi, ranks, role: &str, others: usize| {
        let (rounds, others) = (ROUNDS.to_string(), others.to_string());
        let arguments = [role, place.as_str(), rounds.as_str(), others.as_str()];
        Launch::of(mpi, ranks, compile(mpi, "ports", Library::None), library, &arguments)
    };
    [launch(server, SERVERS, "server", CLIENTS), launch(client, CLIENTS, "client", SERVERS)]
}

/// What became of a pair of jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// All values right: how many.
    Passed(u64),
    /// Who ended badly, in which step, and what was said first.
    Failed { who: &'static str, step: String, said: String },
    /// Who did not end within the limit, each with the step in which its rank 0 was.
    Hung(Vec<(&'static str, String)>),
}

/// Runs a pair of which anything can be expected.
pub fn try_pair(server: &Mpi, client: &Mpi, by: By, library: Library, limit: Duration) -> Outcome {
    let scene = Scene::new(format!("ports, {library:?}: server {}, client {}", server.name, client.name));
    let mut jobs = pair(&scene, server, client, by, library).map(|launch| scene.start(launch));
    let mut end = Instant::now() + limit;
    loop {
        let states = jobs.each_mut().map(Job::poll);
        if states.iter().all(Option::is_some) || Instant::now() > end {
            break;
        }
        if states.iter().flatten().any(|s| !s.success()) {
            // The other may have something to say of it, but need not end.
            end = end.min(Instant::now() + Duration::from_secs(1));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    outcome(["server", "client"].into_iter().zip(&mut jobs))
}

fn outcome<'a>(jobs: impl Iterator<Item = (&'static str, &'a mut Job)>) -> Outcome {
    let (mut checks, mut hung) = (0, Vec::new());
    for (who, job) in jobs {
        let printed = job.printed();
        let done = printed.lines().find_map(|l| l.strip_prefix("DONE "));
        let step = last_step(&printed);
        match job.poll() {
            None => hung.push((who, step)),
            Some(status) => match done {
                Some(line) if status.success() && line.ends_with(" failures 0") => {
                    checks += line.split_whitespace().nth(2).and_then(|n| n.parse::<u64>().ok()).unwrap_or(0);
                }
                _ => {
                    // "FAIL server rank 0 ports.c:12 MPI_Call(...): text"
                    let failed = printed.lines().find_map(|l| l.strip_prefix("FAIL ")?.split(".c:").nth(1));
                    let call =
                        failed.and_then(|l| l.split_once(' ')?.1.split_once('(')).map(|(call, _)| call.to_owned());
                    let said = first_error(&printed, &job.complained());
                    let said = said.unwrap_or_else(|| format!("nothing; {status}"));
                    return Outcome::Failed { who, step: call.unwrap_or(step), said };
                }
            },
        }
    }
    if hung.is_empty() { Outcome::Passed(checks) } else { Outcome::Hung(hung) }
}

/// What rank 0 was about to do last.
fn last_step(printed: &str) -> String {
    printed.lines().rev().find_map(|l| l.strip_prefix("STEP 0 ")).unwrap_or("MPI_Init").to_owned()
}

/// What was said of the first thing that went wrong.
fn first_error(printed: &str, complained: &str) -> Option<String> {
    // Some say the reason itself some lines below the first.
    let mut after = printed.lines().skip_while(|l| !l.starts_with("FAIL "));
    let first = after.next().and_then(|l| l.split_once("): ")).map(|(_, text)| text.trim());
    let stack = after.take_while(|l| !["FAIL ", "STEP ", "DONE "].iter().any(|word| l.starts_with(word)));
    let reason = stack.filter(|l| !l.trim().is_empty()).last().map(str::trim);
    let text = first.map(|first| if first.ends_with(':') { reason.unwrap_or(first) } else { first });
    let told = ["error", "signal", "failed", "abort", "Assert", "not supported", "unreachable"];
    let complaint = || complained.lines().find(|l| told.iter().any(|word| l.contains(word))).map(str::trim);
    let any = || complained.lines().map(str::trim).find(|l| !l.is_empty());
    // Intel's says so before the call fails.
    let startup = printed.lines().find(|l| l.starts_with("MPI startup(): ")).map(str::trim);
    startup.or(text).or_else(complaint).or_else(any).map(str::to_owned)
}

/// What an MPI calls itself.
pub fn version(mpi: &Mpi) -> String {
    let scene = Scene::new(format!("version of {}", mpi.name));
    let launch = Launch::with(mpi, 1, "version", Library::None, &[]);
    let [done] = scene.pass([scene.start(launch)], Duration::from_secs(20));
    done.stdout.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What an MPI asks for, or offers, so that its own ports join two launches.
pub struct Help {
    pub mpi: &'static str,
    pub what: &'static str,
    /// What is started before the two, in a shell; `$helper` is ended after them.
    before: &'static str,
    options: &'static [&'static str],
    settings: &'static [(&'static str, &'static str)],
}

pub static HELP: [Help; 4] = [
    Help { mpi: "lam", what: "both within one session (one `lamboot`)", before: "", options: &[], settings: &[] },
    Help {
        mpi: "openmpi4",
        what: "both with one `ompi-server`",
        before: "ompi-server --no-daemonize -r uri & helper=$!; until [ -s uri ]; do sleep 0.05; done",
        options: &["--ompi-server", "file:uri"],
        settings: &[],
    },
    Help {
        mpi: "openmpi5",
        what: "both within one `prte`",
        before: "prte --report-uri uri & helper=$!; until [ -s uri ]; do sleep 0.05; done",
        options: &["--dvm", "file:uri"],
        settings: &[],
    },
    Help {
        mpi: "impi",
        what: "with `I_MPI_FABRICS=shm:ofi`",
        before: "",
        options: &[],
        settings: &[("I_MPI_FABRICS", "shm:ofi")],
    },
];

/// Runs a pair under one MPI without the library, with the help that it asks for: all in one shell.
pub fn try_helped(help: &Help, limit: Duration) -> Outcome {
    let mpi = Mpi::by_name(help.mpi).expect("an MPI of the table");
    let scene = Scene::new(format!("ports of {}, {}", help.mpi, help.what));
    let program = compile(mpi, "ports", Library::None);
    let command = |role, ranks, others| {
        let options: Vec<_> = help.options.iter().map(|o| o.to_string()).collect();
        let words = mpi.launcher(&[], &options, ranks).split_off(mpi.session().len());
        let place = scene.path("port");
        format!("{} {} {role} file:{} {ROUNDS} {others}", words.join(" "), program.display(), place.display())
    };
    let (server, client) = (command("server", SERVERS, CLIENTS), command("client", CLIENTS, SERVERS));
    let start = if help.before.is_empty() { String::new() } else { format!("{}; ", help.before) };
    let folder = scene.folder.display();
    let script = format!(
        "export PATH=$PATH:{}; cd {folder}; {start}{server} & s=$!; {client} & c=$!; wait $s $c; kill $helper; wait",
        mpi.folder().map_or(String::new(), |f| f.join("bin").display().to_string()),
    );
    let launch = Launch::unlaunched(mpi, &["/bin/bash", "-c", &script]);
    let mut job = scene.start(launch.envs(help.settings));
    let ended = crate::wait_until(limit, || job.poll().is_some());
    let printed = job.printed();
    let done = |who: &str| printed.lines().find(|l| l.starts_with(&format!("DONE {who} ")));
    let checks = |line: &str| line.split_whitespace().nth(3).and_then(|n| n.parse::<u64>().ok()).unwrap_or(0);
    let step = last_step(&printed);
    match ["server", "client"].map(done) {
        [Some(a), Some(b)] if a.ends_with(" failures 0") && b.ends_with(" failures 0") => {
            Outcome::Passed(checks(a) + checks(b))
        }
        [server, _] => {
            let who = if server.is_none() { "server" } else { "client" };
            if ended || printed.contains("FAIL ") {
                let said = first_error(&printed, &job.complained()).unwrap_or_else(|| "nothing".into());
                Outcome::Failed { who, step, said }
            } else {
                Outcome::Hung(vec![(who, step)])
            }
        }
    }
}
