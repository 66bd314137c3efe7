//! Several servers, some of which are dead, killed, stopped or restarted.

use crate::kit::{Process, Remote, claim, is_there, open, record, url_of, wait_for, wait_until};
use naming::{ClaimError, Kind, LookupError, StoreError};
use nix::sys::signal::Signal;
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

const LEASE: Duration = Duration::from_secs(2);

#[track_caller]
fn assert_held(url: &str, name: &str) {
    assert!(matches!(open(url).claim(&record(name)), Err(ClaimError::Held { .. })));
}

/// Every look-up during several leases finds the name.
#[track_caller]
fn assert_stays(url: &str, name: &str) {
    let begun = Instant::now();
    while begun.elapsed() < 2 * LEASE {
        assert!(is_there(url, name), "after {:?}", begun.elapsed());
        std::thread::sleep(Duration::from_millis(20)); // what is tested is that it stays
    }
}

#[test]
fn a_server_that_has_forgotten_learns_again() {
    let mut server = Remote::start(LEASE);
    let held = claim(&server.url, "ocean");
    server.restart();
    wait_until("the next renewal", || open(&server.url).lookup(Kind::Job, "ocean").is_ok_and(|r| r.is_some()));
    assert_held(&server.url, "ocean");
    held.renew().unwrap();
    drop(held);
    assert!(!is_there(&server.url, "ocean"));
}

#[test]
fn without_any_server_there_is_a_clear_error() {
    let mut server = Remote::start(LEASE);
    server.kill();
    let store = open(&format!("{},127.0.0.1:1", server.url));
    let begun = Instant::now();
    for error in [
        store.claim(&record("ocean")).err().unwrap().to_string(),
        store.lookup(Kind::Job, "ocean").unwrap_err().to_string(),
        store.list().unwrap_err().to_string(),
        store.check().unwrap_err().to_string(),
        store.make_ready().unwrap_err().to_string(),
    ] {
        assert!(error.contains("no naming server answers") && error.contains(server.address()), "{error}");
        assert!(error.contains("127.0.0.1:1: ") && error.contains("refused"), "{error}");
    }
    assert!(begun.elapsed() < Duration::from_secs(10), "seconds at most");
    assert!(matches!(store.lookup(Kind::Job, "x"), Err(LookupError::Store(StoreError::Unreachable(_)))));
}

#[test]
fn the_first_server_may_be_dead_from_the_beginning() {
    let (mut first, second) = (Remote::start(LEASE), Remote::start(LEASE));
    let url = url_of(&[&first, &second]);
    first.kill();
    let held = claim(&url, "ocean");
    assert!(is_there(&url, "ocean") && is_there(&second.url, "ocean"));
    assert_held(&url, "ocean");
    assert!(open(&url).check().unwrap().iter().any(|note| note.contains(first.address())));
    first.restart();
    wait_until("the first knows it too", || {
        open(&first.url).lookup(Kind::Job, "ocean").is_ok_and(|found| found.is_some())
    });
    drop(held);
    assert!(!is_there(&first.url, "ocean") && !is_there(&second.url, "ocean"));
}

#[test]
fn the_first_server_is_killed_in_mid_use() {
    let (mut first, second) = (Remote::start(LEASE), Remote::start(LEASE));
    let url = url_of(&[&first, &second]);
    let held = claim(&url, "ocean");
    assert!(is_there(&first.url, "ocean") && is_there(&second.url, "ocean"), "both know it");
    first.kill();
    assert_stays(&url, "ocean");
    assert_held(&url, "ocean");
    assert_eq!(open(&url).list().unwrap().len(), 1);
    let another = claim(&url, "air");
    first.restart();
    wait_until("the first knows both", || open(&first.url).list().is_ok_and(|all| all.len() == 2));
    drop((held, another));
    assert!(open(&url).list().unwrap().is_empty());
}

#[test]
fn the_first_server_is_stopped_in_mid_use() {
    let (first, second) = (Remote::start(LEASE), Remote::start(LEASE));
    let url = url_of(&[&first, &second]);
    let held = claim(&url, "ocean");
    first.signal(Signal::SIGSTOP);
    assert_stays(&url, "ocean");
    assert_held(&url, "ocean");
    let another = claim(&url, "air");
    // The first server was stopped: its leases last longer, so it neither gives the name to another nor forgets it.
    first.signal(Signal::SIGCONT);
    wait_until("the first knows both", || open(&first.url).list().is_ok_and(|all| all.len() == 2));
    assert_stays(&first.url, "ocean");
    held.renew().unwrap();
    drop((held, another));
    wait_until("nothing is left", || open(&url).list().unwrap().is_empty());
}

/// A stopped server handles its requests when it goes on. A release wins over a renewal that was sent before it.
#[test]
fn a_name_that_was_released_while_a_server_was_stopped_does_not_stay() {
    let (first, second) = (Remote::start(LEASE), Remote::start(LEASE));
    let url = url_of(&[&first, &second]);
    for _ in 0..3 {
        let held = claim(&url, "ocean");
        first.signal(Signal::SIGSTOP);
        assert!(is_there(&url, "ocean"), "the second answers");
        drop(held);
        first.signal(Signal::SIGCONT);
        wait_until("the end of the lease", || !is_there(&url, "ocean"));
    }
}

/// The first server accepts no connection, as behind a firewall that drops packets. It is waited for only now and then.
#[test]
fn a_server_that_cannot_be_connected_costs_little() {
    let second = Remote::start(LEASE);
    let full = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = full.local_addr().unwrap();
    let shortly = Duration::from_millis(100);
    let _queue: Vec<_> = std::iter::from_fn(|| TcpStream::connect_timeout(&address, shortly).ok()).collect();
    let url = format!("tcp://{address},{}", second.address());
    let begun = Instant::now();
    let held = claim(&url, "ocean");
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(10), "{took:?}");
    let mut asked = 0;
    let begun = Instant::now();
    while begun.elapsed() < 2 * LEASE {
        assert!(is_there(&url, "ocean"));
        asked += 1;
    }
    println!("a claim took {took:?}; {asked} look-ups in {:?}", begun.elapsed());
    assert!(asked > 20);
    held.renew().unwrap();
}

#[test]
fn one_of_two_claimers_wins() {
    let (mut first, second) = (Remote::start(LEASE), Remote::start(LEASE));
    let url = url_of(&[&first, &second]);
    let mut racers = [Process::start("racer", &[&url]), Process::start("racer", &[&url])];
    assert!(racers.iter().all(|r| r.hear() == "ready"));
    let mut wins = [0; 2];
    for round in 0..60 {
        if round == 40 {
            first.kill();
        }
        racers.iter_mut().for_each(|r| r.tell(&format!("claim name {round}")));
        let outcomes = [racers[0].hear(), racers[1].hear()];
        let won: Vec<usize> = (0..2).filter(|i| outcomes[*i] == "won").collect();
        assert_eq!(won.len(), 1, "round {round}: {outcomes:?}");
        assert!(outcomes[1 - won[0]].contains("held by a live job"), "{outcomes:?}");
        wins[won[0]] += 1;
        for racer in &mut racers {
            racer.tell("end");
            assert_eq!(racer.hear(), "done");
        }
    }
    println!("wins: {wins:?}");
    wait_for("nothing is left", || open(&url).list().unwrap().is_empty().then_some(()));
}

/// Two jobs each reach one server, and then both reach both: the job that the first server knows keeps the name.
#[test]
fn after_a_split_the_first_server_decides() {
    let (first, mut second) = (Remote::start(LEASE), Remote::start(LEASE));
    let url = url_of(&[&first, &second]);
    second.kill();
    let keeps = Process::start("holder", &[&url, "ocean"]);
    assert_eq!(keeps.hear(), "held");
    // It would go on to the second server, and might be there before the other.
    keeps.signal(Signal::SIGSTOP);
    first.signal(Signal::SIGSTOP);
    second.restart();
    let loses = Process::start("holder", &[&url, "ocean"]);
    assert_eq!(loses.hear(), "held");
    first.signal(Signal::SIGCONT);
    keeps.signal(Signal::SIGCONT);
    assert_eq!(loses.hear(), "lost");
    wait_until("the second learns of the first's", || {
        open(&second.url).lookup(Kind::Job, "ocean").unwrap().is_some_and(|r| r.pid == keeps.id())
    });
    assert!(keeps.heard().is_empty(), "it has not lost it");
}
