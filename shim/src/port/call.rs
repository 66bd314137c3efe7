//! Where a firewall lets connections pass in one direction only, whoever cannot reach a port asks to be dialled from there:
//! by a note in the naming service, if both use the same. Connecting itself never needs it, so no failure here is told to
//! the program.
//!
//! Whoever may write there may leave any number of notes that lead nowhere: few are dialled at a time, each in its turn.

use super::{Address, Port, at};
use crate::conn::claim::{self, Held, open_naming_of};
use crate::error::Failure;
use base::ProcId;
use base::bytes::Take;
use naming::{Kind, Naming, Record, State, StoreError};
use node::{Called, Contact, Node, PathRef};
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// How often somebody who accepts looks for notes; and after the naming service has failed.
pub const LOOK: Duration = Duration::from_millis(700);
const LOOK_AGAIN: Duration = Duration::from_secs(10);

/// So many are dialled at a time, with so many addresses together, of which each may take a descriptor and one more.
const MOST_CALLED: usize = 8;
const MOST_PLACES: usize = 32;
/// Where others wait for their turn, one that does not answer, or has not made its whole offer, has had its own after so long.
const TURN: Duration = Duration::from_secs(5);
const OFFER_TURN: Duration = Duration::from_secs(10);

const RANK: &str = "rank";

fn prefix(port: &Address) -> String {
    format!("call:{:016x}:", port.incarnation())
}

/// Whether others than those on this host could come to a process.
fn is_far(contact: &Contact) -> bool {
    contact.addresses.iter().any(|a| !a.ip().is_loopback())
}

/// Notes are of no run: whoever has a port's name, from wherever, may come.
fn open_notes() -> Result<Box<dyn Naming>, Failure> {
    open_naming_of("")
}

/// Asks to be dialled; the note stands until the answer is dropped.
pub fn post(node: &Node, me: ProcId, cookie: [u8; 16], port: &Address) -> Option<Held> {
    let contact = node.contact();
    if !is_far(&contact) {
        return None;
    }
    let posted = (|| {
        let name = format!("{}{:016x}", prefix(port), me.incarnation);
        let mut record = Record { incarnation: me.incarnation, cookie, ..claim::record(&name)? };
        // For people: what is called.
        record.port = Some(name.clone());
        record.metadata = vec![(RANK.into(), me.rank.to_string())];
        contact.encode(&mut record.leader);
        claim::hold(node, &*open_notes()?, &record).map_err(|e| Failure::new(crate::error::Class::Name, e.to_string()))
    })();
    match &posted {
        Ok(_) => base::log!(Info, "the port does not answer; asked to be dialled from there"),
        Err(e) => base::log!(Info, "the port does not answer, and cannot be asked to dial: {}", e.text),
    }
    posted.ok()
}

/// The notes for one port.
pub struct Calls<'a> {
    port: &'a Port,
    naming: Option<Box<dyn Naming>>,
    next: Instant,
}

/// The notes that stand, by their numbers, and the dials `D` that they have led to.
pub struct Turns<D> {
    /// The one whose turn is next first.
    waiting: VecDeque<u64>,
    called: Vec<Call<D>>,
    /// Those that lead nowhere, or to somebody who came through.
    done: HashSet<u64>,
}

struct Call<D> {
    note: u64,
    dial: D,
    places: usize,
    since: Instant,
}

/// A port's.
pub type Calling = Mutex<Turns<PathRef>>;

impl<D> Default for Turns<D> {
    fn default() -> Turns<D> {
        Turns { waiting: VecDeque::new(), called: Vec::new(), done: HashSet::new() }
    }
}

impl<D: Copy> Turns<D> {
    /// These notes stand now. The dials that are to be called off.
    fn look(&mut self, notes: &[u64], now: Instant, state: impl Fn(D) -> Called) -> Vec<D> {
        let stand: HashSet<u64> = notes.iter().copied().collect();
        self.waiting.retain(|note| stand.contains(note));
        self.done.retain(|note| stand.contains(note));
        let known: HashSet<u64> = self.waiting.iter().chain(self.called.iter().map(|c| &c.note)).copied().collect();
        let is_new = |note: &&u64| !known.contains(note) && !self.done.contains(note);
        let new: Vec<u64> = notes.iter().filter(is_new).copied().collect();
        self.waiting.extend(new);
        let mut off = Vec::new();
        for call in std::mem::take(&mut self.called) {
            let (stands, took) = (stand.contains(&call.note), now.saturating_duration_since(call.since));
            // While nobody else waits there is no hurry.
            let may_go = !self.waiting.is_empty() || !stands;
            let is_over = match state(call.dial) {
                Called::Gone => true,
                Called::Offers => {
                    self.done.extend(stands.then_some(call.note));
                    continue;
                }
                Called::InVain => may_go,
                Called::Dialled => may_go && took >= TURN || !stands,
                Called::Connected => may_go && took >= OFFER_TURN,
            };
            if !is_over {
                self.called.push(call);
                continue;
            }
            if state(call.dial) != Called::Gone {
                off.push(call.dial);
            }
            self.waiting.extend(stands.then_some(call.note));
        }
        off
    }

    /// Whose turn it is, if there is place for one more.
    fn next(&mut self) -> Option<u64> {
        if self.called.len() < MOST_CALLED { self.waiting.pop_front() } else { None }
    }

    /// Whether so many addresses may be dialled too. One alone may have any number.
    fn has_room(&self, places: usize) -> bool {
        self.called.is_empty() || self.called.iter().map(|call| call.places).sum::<usize>() + places <= MOST_PLACES
    }
}

impl Calls<'_> {
    pub fn new<'a>(node: &Node, port: &'a Port) -> Calls<'a> {
        let naming = if is_far(&node.contact()) { open_notes().ok() } else { None };
        Calls { port, naming, next: Instant::now() }
    }

    /// Dials those who have asked for it, as many as may be dialled at a time.
    pub fn answer(&mut self, node: &Node) {
        let now = Instant::now();
        let Some(naming) = self.naming.as_deref().filter(|_| now >= self.next) else { return };
        // Another thread that accepts at this port looks already.
        let Ok(mut turns) = self.port.calling.try_lock() else { return };
        if let Err(e) = self.look(node, naming, &mut turns, now) {
            base::log!(Debug, "nobody can ask this port to dial: {e}");
            self.next = now + LOOK_AGAIN;
        }
    }

    fn look(
        &self,
        node: &Node,
        naming: &dyn Naming,
        turns: &mut Turns<PathRef>,
        now: Instant,
    ) -> Result<(), StoreError> {
        let all = naming.list()?;
        let prefix = prefix(&self.port.address);
        let is_call = |(record, state): &&(Record, State)| {
            *state == State::Live && record.kind() == Kind::Port && record.name.starts_with(&prefix)
        };
        let names: HashMap<u64, &str> =
            all.iter().filter(is_call).map(|(record, _)| (record.incarnation, record.name.as_str())).collect();
        let notes: Vec<u64> = all.iter().filter(is_call).map(|(record, _)| record.incarnation).collect();
        node.with(|core| {
            let off = turns.look(&notes, now, |path| core.called(path));
            off.into_iter().for_each(|path| core.call_off(path));
        });
        // Each costs a question to the naming service, also where nothing comes of it.
        for _ in 0..MOST_CALLED {
            let Some(note) = turns.next() else { break };
            // A list tells nothing that leads to a process.
            let record = names.get(&note).and_then(|name| naming.lookup(Kind::Port, name).ok().flatten());
            match record.as_ref().and_then(whose) {
                Some((_, contact)) if !turns.has_room(contact.addresses.len()) => {
                    turns.waiting.push_front(note);
                    break;
                }
                Some((caller, contact)) => {
                    base::log!(Info, "{caller} cannot reach this port, and is dialled from here");
                    let cookie = record.map(|record| record.cookie).unwrap_or_default();
                    let dial = node.open_control(at(&self.port.address), caller, cookie, &contact);
                    turns.called.push(Call { note, dial, places: contact.addresses.len(), since: now });
                }
                None => {
                    turns.done.insert(note);
                }
            }
        }
        Ok(())
    }
}

/// Who has written a note, and where it is.
fn whose(record: &Record) -> Option<(ProcId, Contact)> {
    let (_, rank) = record.metadata.iter().find(|(key, _)| key == RANK)?;
    let contact = Contact::decode(&mut Take(&record.leader)).ok()?;
    Some((ProcId { incarnation: record.incarnation, rank: rank.parse().ok()? }, contact))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// A port that dials, with what has become of each dial that stands.
    struct Desk {
        turns: Turns<u64>,
        dials: HashMap<u64, Called>,
        dialled: Vec<u64>,
        start: Instant,
    }

    impl Desk {
        fn new() -> Desk {
            Desk { turns: Turns::default(), dials: HashMap::new(), dialled: Vec::new(), start: Instant::now() }
        }

        /// One look; who is dialled at it.
        fn look(&mut self, at: Duration, notes: &[u64], places: usize) -> Vec<u64> {
            let now = self.start + at;
            for dial in self.turns.look(notes, now, |dial| self.dials[&dial]) {
                self.dials.remove(&dial);
            }
            let mut new = Vec::new();
            while self.turns.has_room(places)
                && let Some(note) = self.turns.next()
            {
                self.turns.called.push(Call { note, dial: note, places, since: now });
                self.dials.insert(note, Called::Dialled);
                new.push(note);
            }
            self.dialled.extend(&new);
            new
        }
    }

    #[test]
    fn few_are_dialled_at_a_time_and_each_in_its_turn() {
        let mut desk = Desk::new();
        let notes: Vec<u64> = (0..400).collect();
        let mut at = Duration::ZERO;
        while desk.dialled.len() < notes.len() {
            desk.look(at, &notes, 2);
            assert!(desk.dials.len() <= MOST_CALLED && at < 400 * TURN);
            at += SECOND;
        }
        desk.dialled.sort_unstable();
        assert_eq!(desk.dialled, notes, "nobody twice before all were dialled once");
        // One that answers has time for its offer, and one whose dial has failed gives its place at once.
        let called: Vec<u64> = desk.turns.called.iter().map(|call| call.note).collect();
        desk.dials.insert(called[0], Called::Connected);
        desk.dials.insert(called[1], Called::InVain);
        let new = desk.look(at, &notes, 2);
        assert!(!new.is_empty() && desk.dials.contains_key(&called[0]) && !desk.dials.contains_key(&called[1]));
        desk.look(at + OFFER_TURN, &notes, 2);
        assert!(!desk.dials.contains_key(&called[0]));
        // Who came through is not dialled again, while its note stands.
        let through = desk.turns.called[0].note;
        desk.dials.insert(through, Called::Offers);
        desk.look(at + OFFER_TURN, &notes, 2);
        assert_eq!(desk.look(at + 2 * OFFER_TURN, &[through], 2), []);
        assert_eq!(desk.turns.done, HashSet::from([through]));
        desk.look(at + 3 * OFFER_TURN, &[], 2);
        let turns = &desk.turns;
        assert!(turns.waiting.is_empty() && turns.called.is_empty() && turns.done.is_empty());
    }

    #[test]
    fn a_few_have_all_the_time() {
        let mut desk = Desk::new();
        assert_eq!(desk.look(Duration::ZERO, &[1, 2], 2), [1, 2]);
        desk.dials.insert(2, Called::InVain);
        assert_eq!(desk.look(100 * TURN, &[1, 2], 2), []);
        assert_eq!(desk.dials.len(), 2);
    }

    #[test]
    fn many_addresses_take_the_place_of_many() {
        let mut desk = Desk::new();
        assert_eq!(desk.look(Duration::ZERO, &[1, 2, 3], MOST_PLACES), [1]);
        let mut desk = Desk::new();
        assert_eq!(desk.look(Duration::ZERO, &[1, 2, 3], MOST_PLACES / 2), [1, 2]);
    }
}
