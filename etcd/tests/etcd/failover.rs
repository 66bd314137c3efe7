//! Servers and nodes that die, stop and come back: what a client notices of it.

use crate::kit::{Cluster, Process, Remote, claim, is_member, is_there, open, post, record, url_of, wait_until};
use naming::{Fate, Kind, LookupError, StoreError};
use nix::sys::signal::Signal;
use std::time::{Duration, Instant};

const LEASE: Duration = Duration::from_secs(4);
/// What a dead server may cost.
const COST: Duration = Duration::from_secs(2);

#[track_caller]
fn quick<T>(what: &str, f: impl FnOnce() -> T) -> T {
    let begun = Instant::now();
    let done = f();
    let took = begun.elapsed();
    println!("{what}: {} ms", took.as_millis());
    assert!(took < COST, "{what} took {took:?}");
    done
}

#[test]
fn a_dead_or_stopped_server_costs_less_than_two_seconds() {
    let Some(cluster) = Cluster::start(1) else { return };
    let cluster = cluster.run();
    let start = || Remote::start(&cluster.url(), LEASE);
    let (mut one, two, three) = (start(), start(), start());
    let url = url_of(&[&one, &two, &three]);
    let holder = Process::start("holder", &[&url, "ocean"]);
    assert_eq!(holder.hear(), "held");
    one.kill();
    drop(quick("a claim, the first of three servers killed", || claim(&url, "air")));
    assert!(quick("a look-up after that", || is_there(&url, "ocean")));
    one.restart();
    // A new process knows nothing of what this one has learnt.
    one.signal(Signal::SIGSTOP);
    drop(quick("a claim, the first of three servers stopped", || claim(&url, "land")));
    assert!(quick("a look-up after that", || is_there(&url, "ocean")));
    let begun = Instant::now();
    while begun.elapsed() < 2 * LEASE {
        assert!(is_there(&two.url, "ocean"), "it is renewed at another: {:?}", begun.elapsed());
        std::thread::sleep(Duration::from_millis(50)); // what is tested is that it stays
    }
    one.signal(Signal::SIGCONT);
    wait_until("the first is as the others", || open(&one.url).lookup(Kind::Job, "ocean").is_ok_and(|r| r.is_some()));
}

#[test]
fn without_the_store_servers_refuse_at_once_and_keep_what_is_there() {
    let Some(cluster) = Cluster::start(1) else { return };
    let mut cluster = cluster.run();
    let (one, two) = (Remote::start(&cluster.url(), LEASE), Remote::start(&cluster.url(), LEASE));
    let url = url_of(&[&one, &two]);
    let held = claim(&url, "ocean");
    let fence = held.fence();
    cluster.nodes[0].kill();
    let away = |e: LookupError| match e {
        LookupError::Store(e @ StoreError::StoreAway(_)) => e.to_string(),
        other => panic!("{other}"),
    };
    let why = away(quick("the first refusal", || open(&url).lookup(Kind::Job, "ocean").unwrap_err()));
    assert!(why.contains("does not reach the store that it shares"), "{why}");
    let begun = Instant::now();
    let mut refused = 0;
    // Longer than the lease: a time without the store does not count.
    while begun.elapsed() < LEASE + Duration::from_secs(1) {
        let asked = Instant::now();
        away(open(&url).lookup(Kind::Job, "ocean").unwrap_err());
        refused += 1;
        assert!(asked.elapsed() < Duration::from_millis(500), "{:?}", asked.elapsed());
        std::thread::sleep(Duration::from_millis(20)); // so many questions are enough
    }
    println!("{refused} refusals without the store");
    assert!(open(&url).claim(&record("air")).is_err());
    cluster.nodes[0].start();
    wait_until("the store again", || open(&url).lookup(Kind::Job, "ocean").is_ok());
    assert!(is_there(&url, "ocean"), "its lease is not over");
    assert_eq!(open(&url).lookup_fenced(Kind::Job, "ocean").unwrap().unwrap().1, fence);
    wait_until("a renewal", || held.renew().is_ok());
    drop(held);
    assert!(!is_there(&url, "ocean"));
}

/// A claim is tried again while the nodes choose a new leader.
#[test]
fn the_death_of_a_node_loses_nothing() {
    let Some(cluster) = Cluster::start(3) else { return };
    let mut cluster = cluster.run();
    let one = Remote::start(&cluster.url(), LEASE);
    let held = claim(&one.url, "ocean");
    for node in 0..3 {
        cluster.nodes[node].kill();
        let begun = Instant::now();
        drop(claim(&one.url, "air"));
        println!("a claim after the death of node {node}: {} ms", begun.elapsed().as_millis());
        wait_until("a look-up", || open(&one.url).lookup(Kind::Job, "ocean").is_ok_and(|r| r.is_some()));
        cluster.nodes[node].start();
        wait_until("its return", || is_member(&cluster.nodes[node].place));
    }
    held.renew().unwrap_or_else(|e| panic!("{e} {}", cluster.last_words(0)));
}

/// What a server has not seen, and the store does not know any more, is told as the difference.
#[test]
fn a_server_that_missed_compacted_changes_reads_everything_anew() {
    let Some(cluster) = Cluster::start(1) else { return };
    let cluster = cluster.run();
    let (one, two) = (Remote::start(&cluster.url(), LEASE), Remote::start(&cluster.url(), LEASE));
    let (store, at_two) = (open(&one.url), open(&two.url));
    let mut watch = store.watch();
    let stays = at_two.claim(&record("stays")).unwrap();
    let goes = at_two.claim(&record("goes")).unwrap();
    let mut heard = Vec::new();
    let mut more = |heard: &mut Vec<(bool, String)>, until: usize| {
        wait_until("changes", || {
            heard.extend(
                watch.next(Duration::from_millis(20)).into_iter().map(|c| (c.fate == Fate::Claimed, c.record.name)),
            );
            heard.len() >= until
        });
    };
    more(&mut heard, 2);
    one.signal(Signal::SIGSTOP);
    drop(goes);
    let comes = at_two.claim(&record("comes")).unwrap();
    // Its stream is over when it goes on, so it asks anew, for what is not known any more.
    let place = &cluster.nodes[0].place;
    let answer = post(place, "/v3/kv/range", r#"{"key":"AA=="}"#);
    let revision = answer.split("\"revision\":\"").nth(1).and_then(|text| text.split('"').next()).unwrap().to_owned();
    post(place, "/v3/kv/compaction", &format!(r#"{{"revision":"{revision}","physical":true}}"#));
    std::thread::sleep(Duration::from_secs(4)); // longer than any stream
    one.signal(Signal::SIGCONT);
    more(&mut heard, 4);
    let mut said: Vec<_> = heard.iter().map(|(came, name)| (name.as_str(), *came)).collect();
    said.sort_unstable();
    assert_eq!(said, [("comes", true), ("goes", false), ("goes", true), ("stays", true)]);
    assert!(is_there(&one.url, "stays") && is_there(&one.url, "comes") && !is_there(&one.url, "goes"));
    drop((stays, comes));
}
