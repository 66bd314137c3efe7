//! Names with a ledger in memory that can be full: what is told, what is written, what a restart brings back.

use super::*;
use crate::record::{Key, Kind, Record, sample};
use crate::server::ledger::Row;
use crate::server::names::Taken;
use crate::server::owner::Owner;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

const LEASE: Duration = Duration::from_secs(15);
const SECOND: Duration = Duration::from_secs(1);

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

#[derive(Default)]
struct Disk {
    rows: Rows,
    error: Option<LedgerError>,
    writes: usize,
}

#[derive(Clone, Default)]
struct Memory(Arc<Mutex<Disk>>);

impl Ledger for Memory {
    fn read(&mut self, row: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), LedgerError> {
        self.0.lock().unwrap().rows.iter().for_each(|(key, value)| row(key, value));
        Ok(())
    }
    fn write(&mut self, rows: &[Row]) -> Result<(), LedgerError> {
        let mut disk = self.0.lock().unwrap();
        disk.writes += 1;
        if let Some(e) = &disk.error {
            return Err(e.clone());
        }
        for (key, value) in rows.iter().cloned() {
            match value {
                Some(value) => drop(disk.rows.insert(key, value)),
                None => drop(disk.rows.remove(&key)),
            }
        }
        Ok(())
    }
}

#[derive(Clone)]
enum Ask {
    Claim(u8, &'static str),
    Renew(u8, u64, Box<Record>),
    Release(u8, &'static str),
}

struct Stage {
    memory: Memory,
    names: Names,
    keeper: Keeper,
    now: Instant,
}

fn key(name: &str) -> Key {
    Key::of("", Kind::Job, name)
}

impl Stage {
    fn new() -> Stage {
        let (memory, now) = (Memory::default(), Instant::now());
        Stage::on(memory, now)
    }
    fn on(memory: Memory, now: Instant) -> Stage {
        let names = names::restore(LEASE, &mut memory.clone(), now).unwrap();
        Stage { keeper: Keeper::new(Box::new(memory.clone()), now), memory, names, now }
    }
    /// It dies without a word, and another begins after this time.
    fn restart(self, after: Duration) -> Stage {
        Stage::on(self.memory, self.now + after)
    }
    fn ask(&mut self, asked: &[Ask]) -> Vec<Answer> {
        let now = self.now;
        let mut teller = Teller::default();
        let take = |names: &mut Names, claim, record: &Record| {
            let (bytes, shown) = (record.encode().unwrap(), record.without_secrets().unwrap());
            match names.take(claim, record, (bytes, shown), 1, Owner::User(7), now) {
                Taken::Granted(number) => Answer::Granted { lease: 15, number, common: false },
                Taken::Held { doubtful, .. } => Answer::Held { record: vec![], doubtful },
                Taken::Superseded => Answer::Refused(Refusal::Superseded),
                Taken::Ended => Answer::Refused(Refusal::Ended),
                Taken::Full => Answer::Refused(Refusal::Full),
            }
        };
        let run = |names: &mut Names, ask: &Ask| match ask {
            Ask::Claim(token, name) => take(names, ([*token; 16], 0), &sample(name)),
            Ask::Renew(token, number, record) => take(names, ([*token; 16], *number), record),
            Ask::Release(token, name) => {
                names.release([*token; 16], &key(name), now);
                Answer::Released
            }
        };
        self.names.sweep(now);
        self.keeper.settle(&mut self.names, (&mut teller, &None), asked, run, now)
    }
    fn writes(&self) -> usize {
        self.memory.0.lock().unwrap().writes
    }
    fn break_disk(&self, error: Option<LedgerError>) {
        self.memory.0.lock().unwrap().error = error;
    }
    fn has(&self, name: &str) -> bool {
        self.names.lookup(&key(name), self.now).is_some()
    }
    fn record(&self, name: &str) -> Box<Record> {
        Box::new(Record::decode(self.names.lookup(&key(name), self.now).unwrap().0).unwrap())
    }
}

fn number(answer: &Answer) -> u64 {
    match answer {
        Answer::Granted { number, .. } => *number,
        other => panic!("{other:?}"),
    }
}

#[test]
fn one_write_serves_all_that_wait() {
    let mut s = Stage::new();
    let answers =
        s.ask(&[Ask::Claim(1, "air"), Ask::Claim(2, "ocean"), Ask::Claim(3, "air"), Ask::Release(2, "ocean")]);
    assert!(number(&answers[0]) < number(&answers[1]));
    assert!(matches!(answers[2..], [Answer::Held { .. }, Answer::Released]));
    assert_eq!(s.writes(), 1);
    let air = s.record("air");
    s.ask(&[Ask::Claim(4, "air")]);
    assert_eq!(s.writes(), 1, "nothing has changed");
    for _ in 0..10 {
        s.ask(&[Ask::Renew(1, 0, air.clone())]);
    }
    assert_eq!(s.writes(), 1, "renewals wait for nothing");
    s.now += LEASE / PART;
    s.ask(&[]);
    assert_eq!(s.writes(), 2);
    let s = s.restart(100 * LEASE);
    assert_eq!((s.record("air"), s.has("ocean")), (air, false));
}

#[test]
fn leases_go_on_with_what_they_had_left() {
    let mut s = Stage::new();
    s.ask(&[Ask::Claim(1, "dead"), Ask::Claim(2, "alive")]);
    let alive = s.record("alive");
    for _ in 0..10 {
        s.now += SECOND;
        s.ask(&[Ask::Renew(2, 0, alive.clone())]);
    }
    let mut s = s.restart(1000 * LEASE);
    assert!(s.has("dead") && s.has("alive"));
    let answers = s.ask(&[Ask::Claim(3, "dead")]);
    assert!(matches!(answers[..], [Answer::Held { doubtful: true, .. }]), "its connection has ended");
    s.now += 5 * SECOND + LEASE / PART;
    s.ask(&[Ask::Renew(2, 0, alive.clone())]);
    assert!(!s.has("dead") && s.has("alive"));
    number(&s.ask(&[Ask::Claim(3, "dead")])[0]);
    let s = s.restart(Duration::ZERO);
    assert!(s.has("dead") && s.has("alive"));
}

#[test]
fn a_full_disk_refuses_what_is_new_and_keeps_the_rest() {
    let mut s = Stage::new();
    let first = number(&s.ask(&[Ask::Claim(1, "air")])[0]);
    s.names.news();
    let air = s.record("air");
    s.break_disk(Some(LedgerError::Full("no room".into())));
    let (mut asked, full) =
        (vec![Ask::Claim(2, "ocean"), Ask::Release(1, "air"), Ask::Claim(3, "ocean")], Refusal::DiskFull);
    asked.push(Ask::Renew(1, first, air.clone()));
    for _ in 0..3 {
        let answers = s.ask(&asked);
        assert!(answers[..3].iter().all(|a| *a == Answer::Refused(full)), "{answers:?}");
        assert_eq!(number(&answers[3]), first);
        assert!(s.has("air") && !s.has("ocean") && s.names.news().is_empty());
        s.now += REST / 2;
    }
    assert!(s.writes() < 4, "it is left alone for a moment");
    let mut s = s.restart(SECOND);
    assert!(s.has("air") && !s.has("ocean"));
    s.break_disk(Some(LedgerError::Failed("broken".into())));
    assert_eq!(s.ask(&[Ask::Claim(2, "ocean")]), [Answer::Refused(Refusal::Disk)]);
    s.break_disk(None);
    s.now += REST;
    assert!(number(&s.ask(&[Ask::Claim(2, "ocean")])[0]) > first);
    assert_eq!(s.ask(&[Ask::Release(1, "air"), Ask::Renew(1, first, air.clone())])[1], Answer::Refused(Refusal::Ended));
    let mut s = s.restart(SECOND);
    assert!(s.has("ocean") && !s.has("air"));
    assert_eq!(s.ask(&[Ask::Renew(1, first, air)]), [Answer::Refused(Refusal::Ended)], "a release is kept too");
}

#[test]
fn numbers_grow_across_restarts_and_refuse_the_past() {
    let mut s = Stage::new();
    let mut last = number(&s.ask(&[Ask::Claim(1, "ocean")])[0]);
    let (first, ocean) = (last, s.record("ocean"));
    for token in 2..10 {
        s.now += LEASE;
        s = s.restart(SECOND);
        s.now += LEASE;
        let new = number(&s.ask(&[Ask::Claim(token, "ocean")])[0]);
        assert!(new > last);
        last = new;
        s = s.restart(SECOND);
        assert!(matches!(s.ask(&[Ask::Renew(1, first, ocean.clone())])[..], [Answer::Held { .. }]));
    }
    s.ask(&[Ask::Release(9, "ocean")]);
    let mut s = s.restart(SECOND);
    assert_eq!(s.ask(&[Ask::Renew(1, first, ocean)]), [Answer::Refused(Refusal::Superseded)]);
}

/// The last write failed and yet may be in the ledger: it is mended before anything else.
#[test]
fn what_was_refused_is_taken_out_again() {
    let mut s = Stage::new();
    s.ask(&[Ask::Claim(1, "air")]);
    s.break_disk(Some(LedgerError::Failed("broken".into())));
    s.ask(&[Ask::Claim(2, "ocean")]);
    s.break_disk(None);
    let half = Memory::default();
    half.0.lock().unwrap().rows = s.memory.0.lock().unwrap().rows.clone();
    let mut other = Stage::on(half.clone(), s.now);
    other.ask(&[Ask::Claim(2, "ocean")]);
    s.memory.0.lock().unwrap().rows = half.0.lock().unwrap().rows.clone();
    s.now += REST;
    s.ask(&[]);
    let s = s.restart(SECOND);
    assert!(s.has("air") && !s.has("ocean"));
}

#[test]
fn rows_that_no_version_writes_are_told_apart() {
    let mut s = Stage::new();
    s.ask(&[Ask::Claim(1, "air"), Ask::Claim(2, "ocean"), Ask::Release(2, "ocean")]);
    let whole = s.memory.0.lock().unwrap().rows.clone();
    let with = |change: &dyn Fn(&mut Rows)| {
        let memory = Memory::default();
        let mut rows = whole.clone();
        change(&mut rows);
        memory.0.lock().unwrap().rows = rows;
        names::restore(LEASE, &mut memory.clone(), s.now).err()
    };
    assert!(with(&|_| ()).is_none());
    assert!(with(&|rows| rows.clear()).is_none(), "a new one");
    assert_eq!(with(&|rows| rows.get_mut(&[0][..]).unwrap()[0] = 9), Some(LedgerError::Version(9)));
    let is_damaged = |e| matches!(e, Some(LedgerError::Damaged(_)));
    for key in whole.keys().filter(|key| key[0] < 3) {
        assert!(is_damaged(with(&|rows| drop(rows.remove(key)))), "{key:?}");
        assert!(is_damaged(with(&|rows| rows.get_mut(key).unwrap().truncate(1))), "{key:?}");
    }
    assert!(is_damaged(with(&|rows| drop(rows.insert(vec![9], vec![])))));
}
