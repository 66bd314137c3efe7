//! Leases over a restart: who lives keeps its name, who is dead loses it when its lease is over.

use crate::kit::{Client, Folder, NEVER, Remote, Said, record, token, trust, wait_until};
use std::time::{Duration, Instant};

const LEASE: Duration = Duration::from_secs(3);

#[test]
fn they_go_on_with_what_they_had_left() {
    let folder = Folder::new();
    let mut server = Remote::start(&folder.file(), LEASE, NEVER);
    let mut client = Client::connect(&server.address).unwrap();
    let (mine, dead, alive) = (token(), record("dead"), record("alive"));
    assert!(matches!(client.claim(token(), &dead), Some(Said::Granted(_))));
    let claimed = Instant::now();
    let Some(Said::Granted(number)) = client.claim(mine, &alive) else { panic!("not granted") };
    // A third of its lease, in which the other is renewed.
    while claimed.elapsed() < LEASE / 3 {
        assert_eq!(client.renew(mine, number, &alive), Some(Said::Granted(number)));
        std::thread::sleep(Duration::from_millis(20)); // what is tested is time
    }
    let ran = claimed.elapsed();
    server.kill();
    // Down for longer than a lease.
    std::thread::sleep(LEASE * 3 / 2);
    let server = Remote::start(&folder.file(), LEASE, NEVER);
    let restarted = Instant::now();
    let mut client = Client::connect(&server.address).unwrap();
    assert_eq!(client.lookup("alive").unwrap(), Some(alive.clone()), "whole, with its secrets");
    assert_eq!(client.lookup("dead").unwrap(), Some(dead.clone()));
    assert_eq!(client.claim(token(), &record("dead")), Some(Said::Held(dead.incarnation, true)), "in doubt");
    assert_eq!(client.renew(mine, number, &alive), Some(Said::Granted(number)), "the same claim goes on");
    wait_until("the end of its lease", || {
        assert_eq!(client.renew(mine, number, &alive), Some(Said::Granted(number)));
        client.lookup("dead").unwrap().is_none()
    });
    let left = restarted.elapsed();
    println!("a lease of {LEASE:?} ran {ran:?} before the restart and {left:?} after it");
    // The file is a sixth of a lease behind, at most, and a busy machine is late.
    assert!(left + ran > LEASE - Duration::from_millis(300), "not too early");
    assert!(left < LEASE, "what it had left, not a whole one");
    let Some(Said::Granted(next)) = client.claim(token(), &record("dead")) else { panic!("it is free") };
    assert!(next > number);
    server.end();
}

/// The library's own client: its thread finds the server again.
#[test]
fn a_live_holder_keeps_its_name_over_many_deaths() {
    let folder = Folder::new();
    let mut server = Remote::start(&folder.file(), LEASE, NEVER);
    let address = server.address.clone();
    let store = naming::open_trusting(&format!("tcp://{address}"), "", || Ok(trust())).unwrap();
    let held = store.claim(&record("ocean")).unwrap();
    for _ in 0..3 {
        server.kill();
        server = Remote::at(&address, &folder.file(), LEASE, NEVER);
        let begun = Instant::now();
        while begun.elapsed() < LEASE * 4 / 3 {
            let mut client = Client::connect(&address).unwrap();
            assert!(client.lookup("ocean").unwrap().is_some(), "after {:?}", begun.elapsed());
            std::thread::sleep(Duration::from_millis(20)); // what is tested is that it stays
        }
        assert!(held.renew().is_ok());
    }
    drop(held);
    let mut client = Client::connect(&address).unwrap();
    assert_eq!(client.lookup("ocean").unwrap(), None);
}
