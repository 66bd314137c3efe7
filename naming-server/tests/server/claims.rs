//! One server: claims, their end, and the death of holders.

use crate::kit::{Local, Process, claim, is_there, open, record, trust, wait_for, wait_until};
use naming::server::Server;
use naming::{ClaimError, Kind, LookupError, Record, State};
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use std::fs;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_secs(1);

#[test]
fn a_name_is_held_until_released() {
    let server = Local::start(LONG, 100);
    let store = open(&server.url);
    assert_eq!(store.lookup(Kind::Job, "urn:site:ocean").unwrap(), None);
    let job = record("urn:site:ocean");
    let held = store.claim(&job).unwrap();
    assert!(held.fd().is_none());
    assert_eq!(store.lookup(Kind::Job, "urn:site:ocean").unwrap(), Some(job.clone()), "whole, with its secrets");
    assert_eq!(store.lookup(Kind::Port, "urn:site:ocean").unwrap(), None);
    assert!(store.is_alive(&job).unwrap() && !store.is_alive(&record("urn:site:ocean")).unwrap());
    match store.claim(&record("urn:site:ocean")) {
        Err(ClaimError::Held { by }) => {
            assert_eq!((by.incarnation, by.pid, by.cookie, by.leader.len()), (job.incarnation, job.pid, [0; 16], 0))
        }
        other => panic!("{:?}", other.err()),
    }
    let port = Record { port: Some("a port".into()), leader: vec![], cookie: [0; 16], ..record("urn:site:ocean") };
    let published = store.claim(&port).unwrap();
    assert_eq!(store.lookup(Kind::Port, "urn:site:ocean").unwrap(), Some(port.clone()));
    let shown = Record { cookie: [0; 16], leader: vec![], ..job };
    let port = Record { port: Some(String::new()), ..port };
    assert_eq!(store.list().unwrap(), [(shown, State::Live), (port, State::Live)], "without secrets");
    held.release();
    assert_eq!(store.lookup(Kind::Job, "urn:site:ocean").unwrap(), None);
    drop(published);
    assert!(store.list().unwrap().is_empty());
    assert!(store.check().unwrap().is_empty() && store.list().unwrap().is_empty());
    assert!(matches!(store.claim(&record("")), Err(ClaimError::Name(_))));
    assert!(matches!(store.lookup(Kind::Job, "a\nb"), Err(LookupError::Name(_))));
}

#[test]
fn servers_are_found_by_name_and_by_ipv6() {
    let server = Local::start(LONG, 100);
    let url = format!("tcp://localhost:{}", server.address().port());
    drop(claim(&url, "ocean"));
    assert!(open("tcp://no.such.host.invalid").lookup(Kind::Job, "ocean").is_err());
    match Server::listen(&["[::1]:0".into()], LONG, trust()) {
        Ok(server) => assert!(server.urls()[0].0.starts_with("tcp://[::1]:")),
        Err(e) => println!("SKIPPED: no IPv6 here: {e}"),
    }
}

#[test]
fn nobody_is_told_that_a_server_was_asked_whether_it_is_there() {
    let server = Local::start(LONG, 100);
    let (store, other) = (open(&server.url), open(&server.url));
    let mut watch = other.watch();
    store.make_ready().unwrap();
    let held = store.claim(&record("ocean")).unwrap();
    let changes: Vec<_> = watch.next(Duration::ZERO).into_iter().map(|change| change.record.name).collect();
    assert_eq!(changes, ["ocean"]);
    held.release();
}

/// More names than one answer holds are listed.
#[test]
fn long_lists_come_in_pages() {
    let server = Local::start(LONG, 100);
    let store = open(&server.url);
    let long = |i: usize| Record { metadata: vec![("k".into(), "v".repeat(1024))], ..record(&format!("{i:03}")) };
    let held: Vec<_> = (0..300).map(|i| store.claim(&long(i)).unwrap()).collect();
    let names: Vec<_> = store.list().unwrap().into_iter().map(|(r, _)| r.name).collect();
    assert!(names.iter().map(String::as_str).eq((0..300).map(|i| format!("{i:03}")).collect::<Vec<_>>().iter()));
    drop(held);
}

#[test]
fn a_killed_holders_name_is_gone_after_the_lease() {
    let server = Local::start(SHORT, 100);
    let mut holder = Process::start("holder", &[&server.url, "ocean"]);
    assert_eq!(holder.hear(), "held");
    assert!(is_there(&server.url, "ocean"));
    holder.kill();
    wait_until("the end of the lease", || !is_there(&server.url, "ocean"));
    // It is listed until the sweep that tells of its end.
    wait_until("the end in the list", || open(&server.url).list().unwrap().is_empty());
}

/// A claim of a killed job's name waits for the end of the lease. A claim of a live job's name fails at once.
#[test]
fn a_killed_holder_is_followed() {
    let server = Local::start(SHORT, 100);
    let mut holder = Process::start("holder", &[&server.url, "ocean"]);
    assert_eq!(holder.hear(), "held");
    assert!(matches!(open(&server.url).claim(&record("ocean")), Err(ClaimError::Held { .. })));
    holder.kill();
    // The server learns of the death a moment later.
    wait_for("the name", || open(&server.url).claim(&record("ocean")).ok());
}

#[test]
fn renewals_outlast_the_lease() {
    let server = Local::start(SHORT, 100);
    let _held = claim(&server.url, "ocean");
    let begun = std::time::Instant::now();
    while begun.elapsed() < 3 * SHORT {
        assert!(is_there(&server.url, "ocean"));
        std::thread::sleep(Duration::from_millis(20)); // what is tested is that it stays
    }
}

#[test]
fn a_stopped_holder_loses_its_name_and_learns_it() {
    let server = Local::start(SHORT, 100);
    let holder = Process::start("holder", &[&server.url, "ocean"]);
    assert_eq!(holder.hear(), "held");
    holder.signal(Signal::SIGSTOP);
    let held = wait_for("the end of its lease", || open(&server.url).claim(&record("ocean")).ok());
    holder.signal(Signal::SIGCONT);
    assert_eq!(holder.hear(), "lost");
    assert!(is_there(&server.url, "ocean"));
    drop(held);
}

/// The name was another's while it was stopped, and is free again: that claim is over all the same.
#[test]
fn a_stopped_holder_does_not_take_up_a_claim_that_another_has_followed() {
    let server = Local::start(SHORT, 100);
    let holder = Process::start("holder", &[&server.url, "ocean"]);
    assert_eq!(holder.hear(), "held");
    holder.signal(Signal::SIGSTOP);
    drop(wait_for("the end of its lease", || open(&server.url).claim(&record("ocean")).ok()));
    holder.signal(Signal::SIGCONT);
    assert_eq!(holder.hear(), "lost");
    assert!(!is_there(&server.url, "ocean"));
}

/// A forked child neither gives the name back nor keeps it.
#[test]
fn a_forked_child_has_no_part_in_a_claim() {
    let server = Local::start(SHORT, 100);
    let mut holder = Process::start("forks", &[&server.url, "ocean"]);
    let child: i32 = holder.hear().parse().unwrap();
    assert!(child != holder.id() as i32 && is_there(&server.url, "ocean"));
    let begun = std::time::Instant::now();
    while begun.elapsed() < 2 * SHORT {
        assert!(is_there(&server.url, "ocean"), "the parent renews");
        std::thread::sleep(Duration::from_millis(20)); // what is tested is that it stays
    }
    holder.kill();
    wait_until("the end of the lease", || !is_there(&server.url, "ocean"));
    nix::sys::signal::kill(Pid::from_raw(child), Signal::SIGKILL).unwrap();
}

/// The signals that the thread of this name blocks; `None` if there is none.
fn blocked(thread: &str) -> Option<u64> {
    let tasks = fs::read_dir("/proc/self/task").unwrap().flatten();
    let statuses = tasks.filter_map(|t| fs::read_to_string(t.path().join("status")).ok());
    let found = |s: &String| s.lines().next().is_some_and(|l| l == format!("Name:\t{thread}"));
    let status = statuses.into_iter().find(found)?;
    let mask = status.lines().find_map(|l| l.strip_prefix("SigBlk:")).unwrap().trim().to_owned();
    Some(u64::from_str_radix(&mask, 16).unwrap())
}

/// This runs in a process of its own, since other tests here hold names too.
#[test]
fn the_thread_takes_no_signals_and_ends_with_the_last_claim() {
    let server = Local::start(LONG, 100);
    let mut watched = Process::start("threads", &[&server.url]);
    assert_eq!(watched.hear(), "good");
    watched.kill();
}

pub fn threads(url: &str) {
    const THREAD: &str = "mpi_connect nam";
    assert_eq!(blocked(THREAD), None);
    let held = [claim(url, "air"), claim(url, "ocean")];
    // The thread sets its name when it begins.
    let mask = wait_for("the thread", || blocked(THREAD));
    let all = (1..32).filter(|s| ![Signal::SIGKILL as i32, Signal::SIGSTOP as i32].contains(s));
    assert!(all.into_iter().all(|s| mask & (1 << (s - 1)) != 0), "{mask:x}");
    let [one, other] = held;
    drop(one);
    assert!(blocked(THREAD).is_some());
    drop(other);
    wait_until("the end of the thread", || blocked(THREAD).is_none());
    // Nothing is left of it, however often it is done.
    let count = |what: &str| fs::read_dir(format!("/proc/self/{what}")).unwrap().count();
    let before = [count("task"), count("fd")];
    let begun = std::time::Instant::now();
    for _ in 0..500 {
        drop(claim(url, "air"));
    }
    println!("a claim and its release: {:?}", begun.elapsed() / 500);
    wait_until("threads and descriptors as before", || [count("task"), count("fd")] == before);
}

/// A fencing token is given where one server decides, and grows from holder to holder.
#[test]
fn a_claim_has_a_fencing_token_where_one_server_decides() {
    let (one, two) = (Local::start(LONG, 100), Local::start(LONG, 100));
    let fence = |url: &str| {
        let held = claim(url, "ocean");
        let (_, looked_up) = open(url).lookup_fenced(Kind::Job, "ocean").unwrap().unwrap();
        assert_eq!(held.fence(), looked_up);
        looked_up
    };
    let first = fence(&one.url).unwrap();
    assert!(fence(&one.url).unwrap() > first);
    assert_eq!(fence(&format!("{},{}", one.url, two.address())), None);
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("fence-{}", std::process::id()));
    assert_eq!(fence(&format!("file:{}", folder.display())), None);
    fs::remove_dir_all(folder).unwrap();
}
