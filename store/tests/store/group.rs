//! How many clients one write serves, and what claims cost.

use crate::kit::{Client, Folder, LONG, NEVER, Remote, Said, record, token};
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

/// Claims of many clients at a time do not queue up, each behind a sync of its own.
#[test]
fn claims_at_the_same_time_share_their_syncs() {
    const EACH: usize = 40;
    let folder = Folder::new();
    for clients in [1, 8, 64] {
        let server = Remote::start(&folder.file(), LONG, NEVER);
        let together = Barrier::new(clients);
        let address = &server.address;
        let begun = Instant::now();
        thread::scope(|scope| {
            for one in 0..clients {
                let together = &together;
                scope.spawn(move || {
                    let mut client = Client::connect(address).unwrap();
                    together.wait();
                    for i in 0..EACH {
                        let name = format!("{one} of {clients} has {i}");
                        let (token, record) = (token(), record(&name));
                        assert!(matches!(client.claim(token, &record), Some(Said::Granted(_))));
                        assert_eq!(client.release(token, &name), Some(Said::Released));
                    }
                });
            }
        });
        let (took, changes) = (begun.elapsed(), clients * EACH * 2);
        let said = server.end();
        let syncs: usize = said.split(' ').nth(2).unwrap().parse().unwrap();
        println!("{clients} clients: {changes} changes in {took:?}, with {syncs} syncs");
        assert!(clients < 8 || syncs < changes * 3 / 4, "{clients} clients: {syncs} syncs of {changes} changes");
    }
}

/// Many names come back in a moment.
#[test]
fn many_names_are_there_at_once() {
    const NAMES: usize = 5_000;
    let folder = Folder::new();
    let mut server = Remote::start(&folder.file(), LONG, NEVER);
    let address = &server.address;
    thread::scope(|scope| {
        for one in 0..50 {
            scope.spawn(move || {
                let mut client = Client::connect(address).unwrap();
                for i in (one..NAMES).step_by(50) {
                    assert!(matches!(client.claim(token(), &record(&format!("name {i}"))), Some(Said::Granted(_))));
                }
            });
        }
    });
    server.kill();
    let begun = Instant::now();
    let server = Remote::start(&folder.file(), LONG, NEVER);
    let mut client = Client::connect(&server.address).unwrap();
    assert!((0..NAMES).all(|i| client.lookup(&format!("name {i}")).unwrap().is_some()));
    let size = std::fs::metadata(folder.file()).unwrap().len() >> 10;
    println!("{NAMES} names, {size} KiB: back and looked up in {:?}", begun.elapsed());
    server.end();
}
