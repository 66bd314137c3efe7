//! The shared names over a store in memory, whose transactions can be done twice, late, or not at all.

use super::rows;
use super::store::{Cell, Compare, Event, Op, Outcome, SharedError, SharedStore, SharedWatch, Txn};
use super::table::{Due, News, Table};
use super::task::{Next, Step, Task, What, place};
use super::worker::{Reply, Told, Worker};
use crate::fate::Fate;
use crate::record::{Kind, Record, sample};
use crate::server::owner::Owner;
use crate::wire::{Answer, Refusal, Token};
use std::collections::{BTreeMap, HashSet};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{channel, sync_channel};
use std::time::{Duration, Instant};

const LEASE: Duration = Duration::from_secs(10);
const OWNER: Owner = Owner::User(7);

/// Rows, and all changes of them.
#[derive(Default)]
struct Memory {
    rows: BTreeMap<Vec<u8>, (Vec<u8>, u64)>,
    revision: u64,
    changes: Vec<Event>,
}

impl Memory {
    fn modified(&self, key: &[u8]) -> u64 {
        self.rows.get(key).map_or(0, |(_, modified)| *modified)
    }

    fn cell(&self, key: &[u8]) -> Option<Cell> {
        self.rows.get(key).map(|(value, modified)| Cell { key: key.into(), value: value.clone(), modified: *modified })
    }

    fn change(&mut self, key: &[u8], value: Option<&Vec<u8>>, at: u64) {
        let before = self.rows.remove(key).map(|(value, _)| value);
        if let Some(value) = value {
            self.rows.insert(key.into(), (value.clone(), at));
        }
        self.changes.push(Event { key: key.into(), value: value.cloned(), before, modified: at });
        self.revision = at;
    }
}

impl SharedStore for Memory {
    fn transact(&mut self, txns: &[Txn], _: Duration) -> Result<(u64, Vec<Outcome>), SharedError> {
        let next = self.revision + 1;
        let held = |txn: &Txn| {
            txn.when.iter().all(|when| match when {
                Compare::Modified(key, at) => self.modified(key) == *at,
                Compare::Before(key, at) => self.modified(key) <= *at,
            })
        };
        let held: Vec<bool> = txns.iter().map(held).collect();
        let mut outcomes = Vec::new();
        for (txn, held) in txns.iter().zip(held) {
            let mut read = Vec::new();
            for op in if held { &txn.then } else { &txn.otherwise } {
                read.push(match op {
                    Op::Put(key, value) => {
                        self.change(key, Some(value), next);
                        Vec::new()
                    }
                    Op::Delete(key) => {
                        self.change(key, None, next);
                        Vec::new()
                    }
                    Op::Get(key) => self.cell(key).into_iter().collect(),
                    Op::Range(from, to, most) => {
                        let keys = self.rows.range(from.clone()..to.clone()).take(*most as usize).map(|(key, _)| key);
                        keys.filter_map(|key| self.cell(key)).collect()
                    }
                });
            }
            outcomes.push(Outcome { held, read });
        }
        Ok((self.revision, outcomes))
    }

    fn snapshot(&mut self) -> Result<(u64, Vec<Cell>), SharedError> {
        Ok((self.revision, self.rows.keys().filter_map(|key| self.cell(key)).collect()))
    }

    fn watcher(&self) -> Box<dyn SharedWatch> {
        unreachable!("these tests take the changes themselves")
    }
}

/// A server: what it has seen, and up to where.
struct Seen {
    table: Table,
    heard: usize,
    now: Instant,
}

impl Seen {
    fn new() -> Seen {
        Seen { table: Table::new(), heard: 0, now: Instant::now() }
    }

    /// Hears what has changed since the last call.
    fn hear(&mut self, store: &Memory) -> Vec<News> {
        let (mut news, mut at, mut nth) = (Vec::new(), 0, 0);
        for event in &store.changes[self.heard..] {
            if event.modified != at {
                (at, nth) = (event.modified, 0);
            }
            news.extend(self.table.hear(event, &mut nth, self.now).unwrap());
            // As the worker does when a revision is whole.
            let is_last = store.changes.iter().rfind(|e| e.modified == at).is_some_and(|e| std::ptr::eq(e, event));
            if is_last {
                self.table.revision = self.table.revision.max(at);
            }
        }
        self.heard = store.changes.len();
        news
    }

    fn txn(&self, task: &Task) -> Txn {
        match task.step(&self.table, LEASE.as_millis() as u32) {
            Step::Run(txn, _) => txn,
            Step::Answer(answer) => panic!("{answer:?}"),
        }
    }

    fn ask(&mut self, store: &mut Memory, what: What) -> Answer {
        let mut task = Task::new(1, what);
        for _ in 0..100 {
            let (txn, then) = match task.step(&self.table, LEASE.as_millis() as u32) {
                Step::Answer(answer) => return answer,
                Step::Run(txn, then) => (txn, then),
            };
            let (revision, mut outcomes) = store.transact(&[txn], LEASE).unwrap();
            match task.done(then, revision, outcomes.remove(0), &mut self.table, self.now).unwrap() {
                Next::Answer(answer) => return answer,
                Next::Done => return Answer::Released,
                Next::Again(again) => task = again,
            }
        }
        panic!("it never ends")
    }

    fn due(&mut self, store: &mut Memory) -> Vec<Due> {
        let (due, _) = self.table.due(self.now, LEASE);
        due.iter().for_each(|one| drop(self.ask(store, What::Due(one.clone()))));
        due
    }
}

fn take(token: u8, number: u64, record: &Record) -> What {
    let (token, place, record): (Token, _, _) = ([token; 16], place(&record.key()), record.encode().unwrap());
    What::Take { token, number, place, record, owner: OWNER }
}

fn release(token: u8, record: &Record) -> What {
    What::Release { token: [token; 16], place: place(&record.key()) }
}

fn lookup(record: &Record) -> What {
    What::Lookup { place: place(&record.key()) }
}

#[track_caller]
fn number(answer: Answer) -> u64 {
    match answer {
        Answer::Granted { number, common: true, .. } => number,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_claim_is_seen_by_a_server_that_has_heard_nothing() {
    let (mut store, mut one, mut two) = (Memory::default(), Seen::new(), Seen::new());
    let ocean = sample("ocean");
    let first = number(one.ask(&mut store, take(1, 0, &ocean)));
    let found = Answer::Found { record: Some(ocean.encode().unwrap()), number: first, common: true };
    assert_eq!(two.ask(&mut store, lookup(&ocean)), found);
    assert!(matches!(two.ask(&mut store, take(2, 0, &sample("ocean"))), Answer::Held { doubtful: false, .. }));
    assert_eq!(number(two.ask(&mut store, take(1, 0, &ocean))), first, "the same claim, asked again at another server");
    assert_eq!(number(two.ask(&mut store, take(1, first, &ocean))), first);
    let other = Record { size: 9, ..ocean.clone() };
    assert_eq!(number(two.ask(&mut store, take(1, first, &other))), first, "another record of the same claim");
    assert_eq!(one.ask(&mut store, release(1, &ocean)), Answer::Released);
    assert_eq!(one.ask(&mut store, release(1, &ocean)), Answer::Released, "twice");
    let ended = Answer::Refused(Refusal::Ended);
    assert_eq!(two.ask(&mut store, take(1, 0, &ocean)), ended);
    assert_eq!(one.ask(&mut store, take(1, first, &ocean)), ended);
    let second = number(one.ask(&mut store, take(2, 0, &ocean)));
    assert!(second > first, "{second} {first}");
}

/// A claim that nobody has heard of is released: it cannot be made later.
#[test]
fn a_release_wins_over_a_claim_on_its_way() {
    let (mut store, mut one, mut two) = (Memory::default(), Seen::new(), Seen::new());
    let ocean = sample("ocean");
    let late = one.txn(&Task::new(1, take(1, 0, &ocean)));
    assert_eq!(two.ask(&mut store, release(1, &ocean)), Answer::Released);
    assert!(!store.transact(&[late], LEASE).unwrap().1[0].held);
    assert_eq!(one.ask(&mut store, take(1, 0, &ocean)), Answer::Refused(Refusal::Ended));
}

/// What a node does late, when the name has come and gone, and even when its row is forgotten, does nothing.
#[test]
fn late_transactions_do_nothing() {
    let (mut store, one, mut two) = (Memory::default(), Seen::new(), Seen::new());
    let ocean = sample("ocean");
    let late = one.txn(&Task::new(1, take(1, 0, &ocean)));
    let first = number(two.ask(&mut store, take(1, 0, &ocean)));
    two.hear(&store);
    let renewal = two.txn(&Task::new(1, take(1, first, &ocean)));
    two.now += LEASE;
    assert!(matches!(two.due(&mut store)[..], [Due::Over { .. }]));
    two.hear(&store);
    for txn in [&late, &renewal] {
        assert!(!store.transact(std::slice::from_ref(txn), LEASE).unwrap().1[0].held);
    }
    // Two hours later nothing is left of it.
    two.now += Duration::from_secs(7200);
    assert!(matches!(two.due(&mut store)[..], [Due::Collect { .. }]));
    assert!(store.rows.keys().all(|key| key == rows::FLOOR));
    for txn in [&late, &renewal] {
        assert!(!store.transact(std::slice::from_ref(txn), LEASE).unwrap().1[0].held);
    }
    assert_eq!(two.ask(&mut store, lookup(&ocean)), Answer::Found { record: None, number: 0, common: true });
}

#[test]
fn who_was_followed_by_another_has_lost_the_name() {
    let (mut store, mut one) = (Memory::default(), Seen::new());
    let ocean = sample("ocean");
    let first = number(one.ask(&mut store, take(1, 0, &ocean)));
    let over = |one: &mut Seen, store: &mut Memory| {
        one.hear(store);
        one.now += LEASE;
        assert!(matches!(one.due(store)[..], [Due::Over { .. }]));
    };
    over(&mut one, &mut store);
    let again = number(one.ask(&mut store, take(1, first, &ocean)));
    assert!(again > first, "nobody had it meanwhile, but it was free");
    over(&mut one, &mut store);
    let second = number(one.ask(&mut store, take(2, 0, &ocean)));
    one.ask(&mut store, release(2, &ocean));
    let superseded = Answer::Refused(Refusal::Superseded);
    assert_eq!(one.ask(&mut store, take(1, again, &ocean)), superseded);
    // Also when the row is forgotten, by a server that has not heard of that.
    one.hear(&store);
    let mut two = Seen::new();
    two.hear(&store);
    one.now += Duration::from_secs(7200);
    assert!(one.due(&mut store).iter().any(|due| matches!(due, Due::Collect { .. })));
    assert_eq!(two.ask(&mut store, take(1, again, &ocean)), superseded);
    assert!(number(two.ask(&mut store, take(3, 0, &ocean))) > second);
}

#[test]
fn a_lease_counts_from_what_was_seen_and_not_while_the_store_was_away() {
    let (mut store, mut one) = (Memory::default(), Seen::new());
    let ocean = sample("ocean");
    let first = number(one.ask(&mut store, take(1, 0, &ocean)));
    one.hear(&store);
    one.now += LEASE - Duration::from_secs(1);
    one.ask(&mut store, take(1, first, &ocean));
    // Not heard yet: what is due by what was seen is compared, and is not done.
    one.now += Duration::from_secs(1);
    assert!(matches!(one.due(&mut store)[..], [Due::Over { .. }]));
    assert!(matches!(one.ask(&mut store, lookup(&ocean)), Answer::Found { record: Some(_), .. }));
    one.hear(&store);
    assert!(one.due(&mut store).is_empty());
    one.now += 2 * LEASE;
    one.table.excuse(2 * LEASE, one.now);
    assert!(one.due(&mut store).is_empty());
    one.now += LEASE;
    assert_eq!(one.due(&mut store).len(), 1);
    assert!(matches!(one.ask(&mut store, lookup(&ocean)), Answer::Found { record: None, .. }));
}

#[test]
fn a_holder_is_doubtful_when_its_client_has_gone_or_its_renewal_is_late() {
    let (mut store, mut one, mut two) = (Memory::default(), Seen::new(), Seen::new());
    let ocean = sample("ocean");
    let first = number(one.ask(&mut store, take(1, 0, &ocean)));
    let is_doubtful = |seen: &mut Seen, store: &mut Memory| {
        seen.hear(store);
        match seen.ask(store, take(2, 0, &ocean)) {
            Answer::Held { doubtful, .. } => doubtful,
            other => panic!("{other:?}"),
        }
    };
    assert!(!is_doubtful(&mut one, &mut store));
    one.table.doubt(9);
    assert!(!is_doubtful(&mut one, &mut store), "another client");
    one.table.doubt(1);
    assert!(is_doubtful(&mut one, &mut store) && !is_doubtful(&mut two, &mut store));
    one.ask(&mut store, take(1, first, &sample("ocean")));
    assert!(!is_doubtful(&mut one, &mut store) && !is_doubtful(&mut two, &mut store));
    two.now += LEASE / 2;
    assert!(is_doubtful(&mut two, &mut store));
}

#[test]
fn changes_have_the_same_numbers_at_every_server() {
    let (mut store, mut one, mut two) = (Memory::default(), Seen::new(), Seen::new());
    let (air, ocean) = (sample("air"), sample("ocean"));
    one.ask(&mut store, take(1, 0, &ocean));
    let mut heard = one.hear(&store);
    // Several in one revision.
    let txns: Vec<Txn> = [take(2, 0, &air), release(1, &ocean)].map(|what| one.txn(&Task::new(1, what))).into();
    assert!(store.transact(&txns, LEASE).unwrap().1.iter().all(|done| done.held));
    heard.extend(one.hear(&store));
    let told: Vec<_> = heard.iter().map(|(_, fate, shown)| (*fate, Record::decode(shown).unwrap().name)).collect();
    let said = |fate, name: &str| (fate, name.to_owned());
    assert_eq!(told, [said(Fate::Claimed, "ocean"), said(Fate::Claimed, "air"), said(Fate::Released, "ocean")]);
    assert!(heard.is_sorted_by(|a, b| a.0 < b.0));
    assert_eq!(two.hear(&store), heard);
    // A server that has missed changes, which the store does not know any more, tells of the difference.
    one.ask(&mut store, release(2, &air));
    one.ask(&mut store, take(3, 0, &ocean));
    one.ask(&mut store, take(4, 0, &sample("land")));
    let (at, cells) = store.snapshot().unwrap();
    let missed = two.table.fill(at, cells, two.now).unwrap();
    let told: Vec<_> = missed.iter().map(|(_, fate, shown)| (*fate, Record::decode(shown).unwrap().name)).collect();
    assert_eq!(told, [said(Fate::Released, "air"), said(Fate::Claimed, "land"), said(Fate::Claimed, "ocean")]);
    assert!(missed.iter().all(|(number, ..)| *number > heard.last().unwrap().0));
    assert_eq!(two.table.kinds, [2, 0, 0]);
}

#[test]
fn what_no_version_writes_is_an_error() {
    let (mut store, mut one) = (Memory::default(), Seen::new());
    let ocean = sample("ocean");
    store.change(&rows::name(&place(&ocean.key())), Some(&vec![9, 9]), 1);
    assert!(matches!(one.table.fill(1, store.snapshot().unwrap().1, one.now), Err(SharedError::Damaged(_))));
    assert!(one.table.hear(&store.changes[0], &mut 0, one.now).is_err());
    assert_eq!(ocean.kind(), Kind::Job);
}

/// A renewal that is still under way when its client's connection ends does not make the client alive.
#[test]
fn a_holder_that_dies_while_it_renews_is_doubtful() {
    let (mut store, mut one) = (Memory::default(), Seen::new());
    let ocean = sample("ocean");
    let first = number(one.ask(&mut store, take(1, 0, &ocean)));
    one.hear(&store);
    let (told, hears) = channel();
    let (says, replies) = channel();
    let (wake, _waking) = UnixStream::pair().unwrap();
    // All of it is there when the worker begins.
    told.send(Told::Asked(1, take(1, first, &ocean))).unwrap();
    told.send(Told::Gone(1)).unwrap();
    told.send(Told::Asked(2, take(2, 0, &sample("ocean")))).unwrap();
    let worker = Worker {
        store: Box::new(store),
        table: one.table,
        lease: LEASE,
        told: hears,
        replies: says,
        wake,
        common: Arc::default(),
        resume: sync_channel(1).0,
        gone: HashSet::new(),
    };
    let worker = std::thread::spawn(move || worker.run());
    let mut answers = replies.iter().filter_map(|reply| match reply {
        Reply::Answer(by, answer) => Some((by, answer)),
        _ => None,
    });
    assert!(matches!(answers.next(), Some((1, Answer::Granted { .. }))));
    let other = answers.next();
    assert!(matches!(other, Some((2, Answer::Held { doubtful: true, .. }))), "{other:?}");
    drop(told);
    worker.join().unwrap();
}
