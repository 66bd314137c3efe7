//! How two leaders agree on an inter-communicator: the CONTROL messages of the protocol, as a state machine.
//!
//! The leader keeps one [`Negotiation`] for each pair of incarnations, as long as its name is registered, and one for each
//! caller of a port. The owner carries the messages and decides when to give up.
//! Invariant: the k-th offer of one side that was not withdrawn meets the k-th of the other, and gets one context.

use base::bytes::{Malformed, Put, Take};
use base::protocol::control::{ACCEPT, LOOKING, OFFER, PART, WITHDRAW, WITHDRAWN};
use base::protocol::frame::MAX_PAYLOAD;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

pub use base::protocol::control::{MAX_NAME, MAX_RECORDS};

/// The most ranks of a group that can be joined. Each rank costs each of our processes 1.6 KiB once something was exchanged with it.
pub const MAX_RANKS: u32 = 1 << 20;
/// The most bytes of contact records in one message.
const PART_BYTES: usize = 256 << 10;
/// The most offers that another leader may have open here: it needs one, and a few that it is about to withdraw.
const MAX_OPEN: usize = 16;
/// No count that is read from a snapshot reaches this, so there is always a next number.
const MOST: u64 = 1 << 62;

/// A group that is known by a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Registered {
    /// Its incarnation.
    pub incarnation: u64,
    /// Its cookie.
    pub cookie: [u8; 16],
}

/// What an offer says of its side of the inter-communicator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Party {
    /// The incarnation of its group.
    pub incarnation: u64,
    /// The cookie of its group.
    pub cookie: [u8; 16],
    /// The number of ranks.
    pub size: u32,
    /// The greatest tag that its MPI allows (`MPI_TAG_UB`).
    pub tag_ub: u32,
    /// How its machine lays out data, as a number that is opaque here.
    pub representation: u32,
    /// At a port: the group of the same processes that has a name and makes checkpoints.
    pub registered: Option<Registered>,
    /// The name of its job.
    pub name: String,
    /// The name that it looks for.
    pub wanted: String,
    /// The contact records of its members, in the order of ranks, as [`super::contacts`] reads them.
    pub records: Vec<u8>,
}

impl Party {
    /// Appends all but `wanted` and `records`: the part that OFFER begins with and that the shim tells its other ranks.
    pub fn write_head(&self, out: &mut Vec<u8>) {
        out.put_u64(self.incarnation);
        out.extend_from_slice(&self.cookie);
        out.put_u32(self.size);
        out.put_u32(self.tag_ub);
        out.put_u32(self.representation);
        let Registered { incarnation, cookie } =
            self.registered.unwrap_or(Registered { incarnation: 0, cookie: [0; 16] });
        out.put_u64(incarnation);
        out.extend_from_slice(&cookie);
        out.put_bytes(self.name.as_bytes());
    }

    /// Reads what [`Party::write_head`] has written; `wanted` and `records` are empty.
    pub fn read_head(from: &mut Take<'_>) -> Result<Party, Malformed> {
        let registered = |from: &mut Take<'_>| {
            let registered = Registered { incarnation: from.u64()?, cookie: from.array()? };
            match registered.incarnation {
                0 if registered.cookie != [0; 16] => Err(Malformed),
                0 => Ok(None),
                _ => Ok(Some(registered)),
            }
        };
        Ok(Party {
            incarnation: from.u64()?,
            cookie: from.array()?,
            size: from.u32()?,
            tag_ub: from.u32()?,
            representation: from.u32()?,
            registered: registered(from)?,
            name: text(from.bytes(MAX_NAME)?)?,
            wanted: String::new(),
            records: Vec::new(),
        })
    }
}

/// The outcome of a negotiation: both sides want the same inter-communicator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Agreement {
    /// The number of its context, the same on both sides.
    pub context: u64,
    /// The other side.
    pub remote: Party,
}

/// What another leader has told of the job that it looks for instead of ours.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Looking {
    /// The name that it looks for.
    pub wanted: String,
    /// The name is registered.
    pub is_there: bool,
}

/// The message by which a leader tells another that it looks for a job named `wanted`. It is no offer, and serves
/// messages to people alone.
pub fn looking(wanted: &str, is_there: bool) -> Vec<u8> {
    let mut m = vec![LOOKING, u8::from(is_there)];
    m.put_bytes(wanted.as_bytes());
    m
}

/// The offer that stands after these messages of one leader, without its records; `None` if there is none. For messages
/// that were not read yet: see [`crate::Session::unheard`].
pub fn who_offers<'a>(messages: impl IntoIterator<Item = &'a [u8]>) -> Option<Party> {
    let mut standing = None;
    for bytes in messages {
        let mut t = Take(bytes);
        match (t.u8(), t.u64()) {
            (Ok(OFFER), Ok(offer)) => standing = read_offer(&mut t).ok().map(|party| (offer, party)),
            (Ok(WITHDRAW), Ok(offer)) if standing.as_ref().is_some_and(|(open, _)| *open == offer) => standing = None,
            _ => (),
        }
    }
    standing.map(|(_, party)| party)
}

/// How many bytes of records are still to come for a leader's offer after this message; `before`: the same before it.
/// `None`: there is no offer.
pub fn still_missing(before: Option<usize>, message: &[u8]) -> Option<usize> {
    let mut t = Take(message);
    match (t.u8(), t.u64()) {
        (Ok(OFFER), Ok(_)) => {
            read_offer(&mut t).ok()?;
            let whole = t.u32().ok()? as usize;
            if whole > MAX_RECORDS { None } else { whole.checked_sub(t.rest().len()) }
        }
        (Ok(PART), Ok(_)) => before?.checked_sub(t.rest().len()),
        (Ok(WITHDRAW), Ok(_)) => None,
        _ => before,
    }
}

/// Reads an OFFER from behind its number up to its records.
fn read_offer(t: &mut Take<'_>) -> Result<Party, Malformed> {
    let head = Party::read_head(t)?;
    Ok(Party { wanted: text(t.bytes(MAX_NAME)?)?, ..head })
}

/// The state of our offer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is not decided.
    Waiting,
    /// Both sides agree.
    Agreed(Agreement),
    /// It was withdrawn, and the other side will not accept it.
    Withdrawn,
}

/// An offer of the other side.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Theirs {
    /// Its number.
    offer: u64,
    party: Party,
    /// How many bytes of records are still to come, by PART messages.
    missing: usize,
}

/// The state of our offer, with its number.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Mine {
    None,
    Open(u64),
    Withdrawing(u64),
    Withdrawn,
    Agreed(Agreement),
}

/// The state machine of offers between two leaders. One side, the decider, accepts.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Negotiation {
    /// Our side accepts.
    decider: bool,
    next_offer: u64,
    next_context: u64,
    mine: Mine,
    theirs: VecDeque<Theirs>,
    /// How many offers the other side may have open here.
    most_open: usize,
    /// Messages to be sent.
    outbox: VecDeque<Vec<u8>>,
    /// Contexts that the other side agreed to, for offers that our side had given up.
    orphans: Vec<u64>,
    /// What the other side said last of the job that it looks for, unless it has made an offer since.
    looking: Option<Looking>,
}

impl Negotiation {
    /// `decider`: our incarnation is the smaller one.
    pub fn new(decider: bool) -> Negotiation {
        Negotiation {
            decider,
            next_offer: 1,
            next_context: 1,
            mine: Mine::None,
            theirs: VecDeque::new(),
            most_open: MAX_OPEN,
            outbox: VecDeque::new(),
            orphans: Vec::new(),
            looking: None,
        }
    }

    /// The negotiation with a caller of a port of ours, which may make one offer.
    pub fn with_stranger() -> Negotiation {
        Negotiation { most_open: 1, ..Negotiation::new(true) }
    }

    /// Whether a negotiation that was read from bytes is within its limits.
    pub(crate) fn is_sound(&self) -> bool {
        let named = |name: &str| name.len() <= MAX_NAME && !name.chars().any(char::is_control);
        let is_party = |party: &Party| named(&party.name) && named(&party.wanted) && party.records.len() <= MAX_RECORDS;
        let is_theirs = |o: &Theirs| is_party(&o.party) && o.missing <= MAX_RECORDS - o.party.records.len();
        let mine = if let Mine::Agreed(agreement) = &self.mine { is_party(&agreement.remote) } else { true };
        (self.next_offer < MOST && self.next_context < MOST)
            && mine
            && self.most_open <= MAX_OPEN
            && self.theirs.len() <= self.most_open
            && self.theirs.iter().all(is_theirs)
            && self.outbox.iter().all(|message| message.len() < MAX_PAYLOAD)
            && self.looking.as_ref().is_none_or(|looking| named(&looking.wanted))
    }

    /// The numbers of contexts that are given from now on are greater than this one.
    pub(crate) fn skip_contexts(&mut self, last: u64) {
        self.next_context = self.next_context.max(last.saturating_add(1).min(MOST - 1));
    }

    /// Makes our offer. There is one at a time, since the calls of one group are collective.
    pub fn offer(&mut self, party: &Party) {
        debug_assert!(matches!(self.mine, Mine::None));
        let offer = self.next_offer;
        self.next_offer += 1;
        let mut m = vec![OFFER];
        m.put_u64(offer);
        party.write_head(&mut m);
        m.put_bytes(party.wanted.as_bytes());
        m.put_u32(party.records.len() as u32);
        let (first, rest) = party.records.split_at(party.records.len().min(PART_BYTES));
        m.extend_from_slice(first);
        self.outbox.push_back(m);
        for part in rest.chunks(PART_BYTES) {
            let mut m = vec![PART];
            m.put_u64(offer);
            m.extend_from_slice(part);
            self.outbox.push_back(m);
        }
        self.mine = Mine::Open(offer);
    }

    /// Withdraws our offer. [`Negotiation::standing`] says when the other side knows, or that it had agreed before.
    pub fn withdraw(&mut self) {
        if let Mine::Open(offer) = self.mine {
            let mut m = vec![WITHDRAW];
            m.put_u64(offer);
            self.outbox.push_back(m);
            // Only the decider accepts, and it has not.
            self.mine = if self.decider { Mine::Withdrawn } else { Mine::Withdrawing(offer) };
        }
    }

    /// The oldest offer of the other side, if all its records have come.
    pub fn offered(&self) -> Option<&Party> {
        self.theirs.front().filter(|o| o.missing == 0).map(|o| &o.party)
    }

    /// The job that the other side looks for now, if it is not ours.
    pub fn looking(&self) -> Option<&Looking> {
        self.looking.as_ref()
    }

    /// Whether our side waits for an answer.
    pub fn is_open(&self) -> bool {
        matches!(self.mine, Mine::Open(_) | Mine::Withdrawing(_))
    }

    /// How many bytes of records are kept for offers of the other side.
    pub fn held(&self) -> usize {
        self.theirs.iter().map(|o| o.party.records.len()).sum()
    }

    /// The state of our offer. An answer other than `Waiting` ends it.
    pub fn standing(&mut self) -> Standing {
        match std::mem::replace(&mut self.mine, Mine::None) {
            Mine::Agreed(agreement) => Standing::Agreed(agreement),
            Mine::Withdrawn => Standing::Withdrawn,
            waiting => {
                self.mine = waiting;
                Standing::Waiting
            }
        }
    }

    /// Forgets our offer, without waiting for an answer to its withdrawal.
    pub fn abandon(&mut self) {
        self.mine = Mine::None;
    }

    /// The next message to be sent.
    pub fn next_output(&mut self) -> Option<Vec<u8>> {
        self.outbox.pop_front()
    }

    /// The contexts to be refused, so that a process that sends there gets an error.
    pub fn take_orphans(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.orphans)
    }

    /// Takes in a message of the other side. `Err`: it violates the protocol.
    pub fn on_message(&mut self, bytes: &[u8]) -> Result<(), Malformed> {
        let mut t = Take(bytes);
        match t.u8()? {
            OFFER => self.on_offer(t)?,
            PART => self.on_part(t)?,
            ACCEPT => {
                let (theirs, mine, context) = (t.u64()?, t.u64()?, t.u64()?);
                t.end()?;
                self.on_accept(theirs, mine, context)?;
            }
            WITHDRAW => {
                let offer = t.u64()?;
                t.end()?;
                if let Some(at) = self.theirs.iter().position(|o| o.offer == offer) {
                    self.theirs.remove(at);
                    let mut m = vec![WITHDRAWN];
                    m.put_u64(offer);
                    self.outbox.push_back(m);
                }
            }
            LOOKING => {
                let is_there = t.u8()? != 0;
                let wanted = text(t.bytes(MAX_NAME)?)?;
                t.end()?;
                self.looking = Some(Looking { wanted, is_there });
            }
            WITHDRAWN => {
                let offer = t.u64()?;
                t.end()?;
                if matches!(self.mine, Mine::Withdrawing(o) if o == offer) {
                    self.mine = Mine::Withdrawn;
                }
            }
            _ => return Err(Malformed),
        }
        Ok(())
    }

    fn on_offer(&mut self, mut t: Take<'_>) -> Result<(), Malformed> {
        let offer = t.u64()?;
        let mut party = read_offer(&mut t)?;
        let whole = t.u32()? as usize;
        party.records = t.rest().to_vec();
        if whole > MAX_RECORDS || self.theirs.len() == self.most_open {
            return Err(Malformed);
        }
        let missing = whole.checked_sub(party.records.len()).ok_or(Malformed)?;
        self.theirs.push_back(Theirs { offer, party, missing });
        self.looking = None;
        Ok(())
    }

    fn on_part(&mut self, mut t: Take<'_>) -> Result<(), Malformed> {
        let offer = t.u64()?;
        // An offer that was withdrawn meanwhile may still have parts on the way.
        if let Some(theirs) = self.theirs.iter_mut().find(|o| o.offer == offer) {
            theirs.missing = theirs.missing.checked_sub(t.0.len()).ok_or(Malformed)?;
            theirs.party.records.extend_from_slice(t.rest());
        }
        Ok(())
    }

    fn on_accept(&mut self, theirs: u64, mine: u64, context: u64) -> Result<(), Malformed> {
        let at = self.theirs.iter().position(|o| o.offer == theirs && o.missing == 0);
        let party = at.and_then(|at| self.theirs.remove(at)).ok_or(Malformed)?.party;
        match self.mine {
            Mine::Open(offer) | Mine::Withdrawing(offer) if offer == mine => {
                self.mine = Mine::Agreed(Agreement { context, remote: party });
            }
            _ => self.orphans.push(context),
        }
        Ok(())
    }

    /// Accepts, if our side is the decider and both sides have offered. Call it when all messages that have come were
    /// handed in: the next one may withdraw the offer.
    pub fn decide(&mut self) {
        let Mine::Open(mine) = self.mine else { return };
        if !self.decider || self.theirs.front().is_none_or(|o| o.missing > 0) {
            return;
        }
        let Some(theirs) = self.theirs.pop_front() else { return };
        let context = self.next_context;
        self.next_context += 1;
        let mut m = vec![ACCEPT];
        m.put_u64(mine);
        m.put_u64(theirs.offer);
        m.put_u64(context);
        self.outbox.push_back(m);
        self.mine = Mine::Agreed(Agreement { context, remote: theirs.party });
    }
}

/// Reads a name. Control characters are refused, since names are printed on terminals.
fn text(bytes: &[u8]) -> Result<String, Malformed> {
    let text = std::str::from_utf8(bytes).map_err(|_| Malformed)?;
    if text.chars().any(char::is_control) { Err(Malformed) } else { Ok(text.to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn party(name: &str, wanted: &str, bytes: usize) -> Party {
        let records = (0..bytes).map(|i| i as u8).collect();
        Party {
            incarnation: bytes as u64,
            cookie: [7; 16],
            size: 3,
            tag_ub: 1 << 20,
            representation: bytes as u32,
            registered: bytes.is_multiple_of(20).then_some(Registered { incarnation: 8, cookie: [9; 16] }),
            name: name.into(),
            wanted: wanted.into(),
            records,
        }
    }

    /// Carries messages both ways until nothing moves.
    fn carry(a: &mut Negotiation, b: &mut Negotiation) {
        a.decide();
        b.decide();
        loop {
            let (to_b, to_a) = (a.next_output(), b.next_output());
            if to_b.is_none() && to_a.is_none() {
                return;
            }
            if let Some(m) = to_b {
                b.on_message(&m).unwrap();
            }
            if let Some(m) = to_a {
                a.on_message(&m).unwrap();
            }
            a.decide();
            b.decide();
        }
    }

    fn pair() -> (Negotiation, Negotiation) {
        (Negotiation::new(true), Negotiation::new(false))
    }

    fn agreed(n: &mut Negotiation) -> Agreement {
        match n.standing() {
            Standing::Agreed(a) => a,
            other => panic!("not agreed: {other:?}"),
        }
    }

    #[test]
    fn a_party_that_is_not_registered_has_one_form() {
        let mut head = Vec::new();
        party("x", "y", 1).write_head(&mut head);
        assert!(Party::read_head(&mut Take(&head)).is_ok_and(|party| party.registered.is_none()));
        // A cookie of no registration.
        head[8 + 16 + 12 + 8] = 1;
        assert!(Party::read_head(&mut Take(&head)).is_err());
    }

    #[test]
    fn either_order_agrees_and_contexts_count_up() {
        let (mut a, mut b) = pair();
        for round in 1..4 {
            let (first, second) = if round % 2 == 0 { (&mut a, &mut b) } else { (&mut b, &mut a) };
            first.offer(&party("x", "y", 100));
            carry(first, second);
            assert_eq!(first.standing(), Standing::Waiting);
            second.offer(&party("y", "x", 700_000));
            carry(first, second);
            let (f, s) = (agreed(first), agreed(second));
            assert_eq!((f.context, s.context), (round, round));
            assert_eq!((f.remote, s.remote), (party("y", "x", 700_000), party("x", "y", 100)));
        }
    }

    #[test]
    fn a_withdrawn_offer_meets_nobody() {
        for decider_gives_up in [true, false] {
            let (mut a, mut b) = pair();
            let (one, other) = if decider_gives_up { (&mut a, &mut b) } else { (&mut b, &mut a) };
            one.offer(&party("x", "y", 10));
            carry(one, other);
            one.withdraw();
            carry(one, other);
            assert_eq!(one.standing(), Standing::Withdrawn);
            other.offer(&party("y", "x", 10));
            carry(one, other);
            assert_eq!(other.standing(), Standing::Waiting);
            one.offer(&party("x", "y", 20));
            carry(one, other);
            assert_eq!((agreed(one).context, agreed(other).remote.records.len()), (1, 20));
        }
    }

    #[test]
    fn an_accept_that_crosses_a_withdrawal_stands() {
        let (mut a, mut b) = pair();
        b.offer(&party("y", "x", 10));
        a.offer(&party("x", "y", 10));
        a.on_message(&b.next_output().unwrap()).unwrap();
        a.decide();
        b.withdraw();
        carry(&mut a, &mut b);
        assert_eq!(agreed(&mut a).context, agreed(&mut b).context);
    }

    #[test]
    fn an_accept_for_an_abandoned_offer_leaves_an_orphan() {
        let (mut a, mut b) = pair();
        b.offer(&party("y", "x", 10));
        a.offer(&party("x", "y", 10));
        a.on_message(&b.next_output().unwrap()).unwrap();
        a.decide();
        b.withdraw();
        b.abandon();
        carry(&mut a, &mut b);
        assert_eq!(b.take_orphans(), [1]);
        assert_eq!(b.standing(), Standing::Waiting);
    }

    #[test]
    fn an_offer_withdrawn_before_it_was_read_is_not_accepted() {
        let (mut a, mut b) = pair();
        b.offer(&party("y", "x", 10));
        b.withdraw();
        b.abandon();
        for m in std::iter::from_fn(|| b.next_output()) {
            a.on_message(&m).unwrap();
        }
        a.offer(&party("x", "y", 10));
        a.decide();
        assert_eq!(a.standing(), Standing::Waiting);
        b.offer(&party("y", "x", 20));
        carry(&mut a, &mut b);
        assert_eq!((agreed(&mut a).remote.records.len(), agreed(&mut b).context), (20, 1));
    }

    #[test]
    fn a_stranger_has_one_offer() {
        let mut port = Negotiation::with_stranger();
        let mut stranger = Negotiation::new(false);
        for _ in 0..2 {
            stranger.offer(&party("x", "y", 10));
            stranger.abandon();
        }
        let messages: Vec<_> = std::iter::from_fn(|| stranger.next_output()).collect();
        assert_eq!(port.on_message(&messages[0]), Ok(()));
        assert_eq!(port.offered(), Some(&party("x", "y", 10)));
        assert_eq!(port.on_message(&messages[1]), Err(Malformed));
    }

    /// A leader that looks for another job says so; its offer takes that back.
    #[test]
    fn a_leader_tells_whom_it_looks_for() {
        let (mut a, mut b) = pair();
        b.offer(&party("ocean", "air", 10));
        let said: Vec<_> = std::iter::from_fn(|| b.next_output()).collect();
        let waits = who_offers(said.iter().map(Vec::as_slice)).unwrap();
        assert_eq!((waits.name.as_str(), waits.wanted.as_str()), ("ocean", "air"));
        b.on_message(&looking("ocaen", false)).unwrap();
        assert_eq!(b.looking(), Some(&Looking { wanted: "ocaen".into(), is_there: false }));
        said.iter().for_each(|m| a.on_message(m).unwrap());
        a.offer(&party("air", "ocean", 10));
        carry(&mut a, &mut b);
        assert_eq!(b.looking(), None);
        agreed(&mut b);
        let mut withdrawn = said;
        withdrawn.push([&[WITHDRAW][..], &1u64.to_le_bytes()].concat());
        assert_eq!(who_offers(withdrawn.iter().map(Vec::as_slice)), None);
        for bad in
            [&[LOOKING][..], &[LOOKING, 1], &[LOOKING, 0, 1, 0, 0, 0, 255], &[&looking("x", true)[..], &[0]].concat()]
        {
            assert_eq!(b.on_message(bad), Err(Malformed));
        }
    }

    #[test]
    fn nonsense_is_refused() {
        let (mut a, _) = pair();
        for bad in [&[][..], &[9], &[OFFER], &[ACCEPT, 0], &[WITHDRAW, 1, 2]] {
            assert_eq!(a.on_message(bad), Err(Malformed));
        }
        let mut accept = vec![ACCEPT];
        for v in [7, 8, 9] {
            accept.put_u64(v);
        }
        assert_eq!(a.on_message(&accept), Err(Malformed));
        let mut big = vec![OFFER];
        big.put_u64(1);
        big.put_u64(1);
        big.extend_from_slice(&[0; 16]);
        big.put_u32(1);
        big.put_u32(1);
        big.put_u32(1);
        big.extend_from_slice(&[0; 24]);
        big.put_bytes(b"x");
        big.put_bytes(b"y");
        big.put_u32(u32::MAX);
        assert_eq!(a.on_message(&big), Err(Malformed));
        // Before anybody reads it, it counts for none: a snapshot holds what is still to come.
        assert_eq!(still_missing(None, &big), None);
    }
}
