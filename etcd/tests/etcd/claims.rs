//! Two servers before one node: what is claimed at one is claimed at all.

use crate::kit::{Cluster, Process, Remote, claim, is_there, open, open_run, record, url_of, wait_for, wait_until};
use naming::{ClaimError, Fate, Kind};
use std::time::{Duration, Instant};

const LEASE: Duration = Duration::from_secs(3);

fn two() -> Option<(Cluster, Remote, Remote)> {
    two_with(LEASE)
}

fn two_with(lease: Duration) -> Option<(Cluster, Remote, Remote)> {
    let cluster = Cluster::start(1)?.run();
    let (one, two) = (Remote::start(&cluster.url(), lease), Remote::start(&cluster.url(), lease));
    Some((cluster, one, two))
}

#[track_caller]
fn assert_held(url: &str, name: &str) {
    assert!(matches!(open(url).claim(&record(name)), Err(ClaimError::Held { .. })));
}

#[test]
fn what_one_server_grants_all_know() {
    let Some((_cluster, one, two)) = two() else { return };
    for (first, second) in [(&one, &two), (&two, &one)] {
        let ocean = record("ocean");
        let held = open(&first.url).claim(&ocean).unwrap();
        assert_held(&second.url, "ocean");
        let (found, fence) = open(&second.url).lookup_fenced(Kind::Job, "ocean").unwrap().unwrap();
        assert_eq!((found, fence), (ocean.clone(), held.fence()));
        let listed = open(&second.url).list().unwrap();
        assert_eq!((listed.len(), listed[0].0.incarnation, listed[0].0.cookie), (1, ocean.incarnation, [0; 16]));
        drop(held);
        assert!(!is_there(&second.url, "ocean") && open(&second.url).list().unwrap().is_empty());
    }
    let both = url_of(&[&one, &two]);
    let first = claim(&both, "ocean").fence().unwrap();
    let again = claim(&both, "ocean").fence().unwrap();
    let air = claim(&both, "air").fence().unwrap();
    assert!(first < again && again < air, "{first} {again} {air}");
}

/// Pages, the order of keys, runs, and the kinds. One process renews all these names, so the lease is long: on a host that is busy, a
/// round of renewals takes more than a short one.
#[test]
fn many_names_are_listed_by_each_server() {
    let Some((_cluster, one, two)) = two_with(Duration::from_secs(120)) else { return };
    let store = open(&one.url);
    let large = |name: &str| naming::Record { metadata: vec![("note".into(), "x".repeat(900))], ..record(name) };
    let held: Vec<_> = (0..150).map(|i| store.claim(&large(&format!("job {i}"))).unwrap()).collect();
    let other = open_run(&two.url, "case7").claim(&record("job 0")).unwrap();
    let listed = open(&two.url).list().unwrap();
    assert_eq!(listed.len(), 151);
    assert!(listed.iter().any(|(r, _)| r.run == "case7") && listed.is_sorted_by_key(|(r, _)| r.key()));
    drop(held);
    let left = open(&two.url).list().unwrap();
    assert_eq!(left.len(), 1, "free names are passed over");
    drop(other);
}

/// A dead holder's name goes when its lease is over, not before; a claim waits for that.
#[test]
fn a_killed_holder_loses_its_name_when_its_lease_is_over() {
    let Some((_cluster, one, two)) = two() else { return };
    let mut holder = Process::start("holder", &[&one.url, "ocean"]);
    assert_eq!(holder.hear(), "held");
    let begun = Instant::now();
    while begun.elapsed() < 2 * LEASE {
        assert!(is_there(&two.url, "ocean"), "it is renewed: {:?}", begun.elapsed());
        std::thread::sleep(Duration::from_millis(20)); // what is tested is that it stays
    }
    holder.kill();
    let killed = Instant::now();
    assert!(is_there(&two.url, "ocean"));
    // The server that had its connection knows that it has ended.
    let taken = claim(&one.url, "ocean");
    let took = killed.elapsed();
    assert!(took > LEASE / 2 && took < 2 * LEASE, "{took:?}");
    assert!(is_there(&two.url, "ocean"));
    drop(taken);
}

#[test]
fn a_watch_tells_of_what_other_servers_do_and_goes_on_at_another() {
    let Some((_cluster, mut one, two)) = two() else { return };
    let both = url_of(&[&one, &two]);
    let (store, at_two) = (open(&both), open(&two.url));
    let mut watch = store.watch();
    let mut heard = Vec::new();
    let mut more = |heard: &mut Vec<(bool, String)>, until: usize| {
        wait_until("changes", || {
            heard.extend(
                watch.next(Duration::from_millis(20)).into_iter().map(|c| (c.fate == Fate::Claimed, c.record.name)),
            );
            heard.len() >= until
        });
    };
    drop(at_two.claim(&record("a")).unwrap());
    more(&mut heard, 2);
    // While the first is dead, and before the watch has asked the second, names come and go.
    one.kill();
    drop(at_two.claim(&record("b")).unwrap());
    let c = at_two.claim(&record("c")).unwrap();
    more(&mut heard, 5);
    one.restart();
    drop(c);
    more(&mut heard, 6);
    let said: Vec<_> = heard.iter().map(|(came, name)| (*came, name.as_str())).collect();
    assert_eq!(said, [(true, "a"), (false, "a"), (true, "b"), (false, "b"), (true, "c"), (false, "c")]);
}

/// Of many that claim at once, at both servers, one wins each name.
#[test]
fn one_of_many_claimers_wins() {
    let Some((_cluster, one, two)) = two() else { return };
    let (urls, begun) = ([one.url.clone(), two.url.clone()], Instant::now());
    for round in 0..10 {
        let claimers: Vec<_> = (0..8)
            .map(|i| {
                let url = urls[i % 2].clone();
                std::thread::spawn(move || open(&url).claim(&record(&format!("name {round}"))).ok())
            })
            .collect();
        let won: Vec<_> = claimers.into_iter().filter_map(|c| c.join().unwrap()).collect();
        assert_eq!(won.len(), 1, "round {round}");
    }
    println!("80 claims of 10 names at 2 servers: {:?}", begun.elapsed());
}

#[test]
fn a_released_claim_does_not_come_back() {
    let Some((_cluster, one, two)) = two() else { return };
    let held = claim(&one.url, "ocean");
    one.signal(nix::sys::signal::Signal::SIGSTOP);
    // The renewals of the stopped server's client wait there; the release too.
    let releasing = std::thread::spawn(move || drop(held));
    one.signal(nix::sys::signal::Signal::SIGCONT);
    releasing.join().unwrap();
    wait_for("its end", || (!is_there(&two.url, "ocean")).then_some(()));
    drop(claim(&two.url, "ocean"));
}
