//! The server is killed at any moment under load, over and over. What clients were told holds, before and after.

use crate::history::{Did, Event, Holder, check};
use crate::kit::{Client, Folder, LONG, NEVER, Remote, Said, below, record, token};
use naming::Record;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const CLIENTS: usize = 4;
const NAMES: [&str; 6] = ["air", "ocean", "ice", "land", "wave", "river"];

#[derive(Default)]
struct World {
    /// All records that were ever sent, by incarnation.
    records: BTreeMap<u64, Record>,
    events: BTreeMap<&'static str, Vec<Event>>,
}

struct Shared {
    begun: Instant,
    world: Mutex<World>,
    /// The largest number that somebody was told.
    number: AtomicU64,
}

impl Shared {
    fn now(&self) -> u64 {
        self.begun.elapsed().as_nanos() as u64
    }
    fn note(&self, name: &'static str, begun: u64, did: Did) {
        let event = Event { begun, ended: self.now(), did };
        self.world.lock().unwrap().events.entry(name).or_default().push(event);
    }
}

/// Claims, gives back and looks up, until the server is dead. Returns what it holds.
fn client(shared: &Shared, address: &str, mut held: BTreeMap<&'static str, ([u8; 16], u64)>) -> Requests {
    let mut count = 0;
    let Some(mut client) = Client::connect(address) else { return (held, count) };
    loop {
        let name = NAMES[below(NAMES.len() as u64) as usize];
        let (begun, known) = (shared.now(), shared.number.load(Ordering::SeqCst));
        match (held.get(name).copied(), below(3)) {
            (_, 0) => {
                let Some(found) = client.lookup(name) else { return (held, count) };
                if let Some(found) = &found {
                    let world = shared.world.lock().unwrap();
                    assert_eq!(world.records.get(&found.incarnation), Some(found), "whole, as it was claimed");
                }
                shared.note(name, begun, Did::Lookup(found.map(|r| r.incarnation)));
            }
            (Some((token, me)), _) => {
                let said = client.release(token, name);
                assert!(matches!(said, None | Some(Said::Released)), "{said:?}");
                shared.note(name, begun, Did::Release(me, said.is_some()));
                held.remove(name);
                if said.is_none() {
                    return (held, count);
                }
            }
            (None, _) => {
                let (token, record) = (token(), record(name));
                let me = record.incarnation;
                shared.world.lock().unwrap().records.insert(me, record.clone());
                let said = client.claim(token, &record);
                match said {
                    Some(Said::Granted(number)) => {
                        assert!(number > known, "a later claim has a larger number");
                        shared.number.fetch_max(number, Ordering::SeqCst);
                        shared.note(name, begun, Did::Claim(me, Some(Ok(()))));
                        held.insert(name, (token, me));
                    }
                    Some(Said::Held(by, _)) => shared.note(name, begun, Did::Claim(me, Some(Err(by)))),
                    None => {
                        shared.note(name, begun, Did::Claim(me, None));
                        // It may have it, so it gives it back later.
                        held.insert(name, (token, me));
                        return (held, count);
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
        count += 1;
    }
}

type Requests = (BTreeMap<&'static str, ([u8; 16], u64)>, usize);

#[test]
fn killed_two_hundred_times() {
    let folder = Folder::new();
    let shared = Shared { begun: Instant::now(), world: Mutex::default(), number: AtomicU64::new(0) };
    let mut held: Vec<_> = (0..CLIENTS).map(|_| BTreeMap::new()).collect();
    let mut holders: BTreeMap<&str, BTreeSet<Holder>> = NAMES.map(|name| (name, BTreeSet::from([None]))).into();
    let (mut requests, mut unanswered, mut deaths) = (0, 0, 0);
    // On a slow disk a server answers little before it dies.
    while deaths < 200 || (requests <= 2000 && deaths < 1000) {
        let round = deaths;
        deaths += 1;
        let mut server = Remote::start(&folder.file(), LONG, NEVER);
        assert!(server.address.contains(':') && !server.address.contains(' '), "{}", server.address);
        // What is there now was there when it died.
        let mut probe = Client::connect(&server.address).unwrap();
        for name in NAMES {
            let begun = shared.now();
            let found = probe.lookup(name).unwrap();
            shared.note(name, begun, Did::Lookup(found.map(|r| r.incarnation)));
        }
        let address = server.address.clone();
        let all = thread::scope(|scope| {
            let threads: Vec<_> = held.drain(..).map(|held| scope.spawn(|| client(&shared, &address, held))).collect();
            thread::sleep(Duration::from_micros(1000 + below(40_000))); // it dies at any moment
            server.kill();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
        });
        for (now, count) in all {
            held.push(now);
            requests += count;
        }
        // Nothing is under way: what is open has happened by now, or never will.
        let mut world = shared.world.lock().unwrap();
        for name in NAMES {
            let events = world.events.remove(name).unwrap_or_default();
            unanswered +=
                events.iter().filter(|e| matches!(e.did, Did::Claim(_, None) | Did::Release(_, false))).count();
            let after = check(&events, &holders[name]);
            assert!(!after.is_empty(), "round {round}, {name} begun with {:?}: {events:#?}", holders[name]);
            holders.insert(name, after);
        }
    }
    println!("{requests} requests, {unanswered} changes unanswered, {deaths} deaths: every answer fits one order");
    assert!(requests > 2000 && unanswered > 100, "the test has to test something: {requests}, {unanswered}");
}
