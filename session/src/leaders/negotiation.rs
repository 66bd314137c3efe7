//! How two leaders agree on an inter-communicator: the CONTROL messages of the protocol, as a state machine.
//!
//! One [`Negotiation`] per pair of incarnations, kept by the leader for as long as its name stands; or one for each time
//! that somebody comes to a port. Like the rest of this room it does no I/O and knows no clock: the caller carries the
//! messages and decides when to give up.
//! Invariant: the k-th offer of one side that was not withdrawn meets the k-th of the other, and gets one context.

use base::bytes::{Malformed, Put, Take};
use base::protocol::control::{ACCEPT, LOOKING, OFFER, PART, WITHDRAW, WITHDRAWN};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

pub use base::protocol::control::{MAX_NAME, MAX_RECORDS};

/// The largest group that is joined: each of its ranks costs a process of ours some 1.6 KiB.
pub const MAX_RANKS: u32 = 1 << 18;
const PART_BYTES: usize = 256 << 10;
/// Offers that another leader may have open here; it needs one, and a few that it is about to withdraw.
const MAX_OPEN: usize = 16;

/// One side of an inter-communicator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Party {
    /// The group that is to be joined: its incarnation, and what a process shows that comes to it.
    pub incarnation: u64,
    pub cookie: [u8; 16],
    pub size: u32,
    pub tag_ub: u32,
    /// How it lays out data, as a number: opaque here.
    pub representation: u32,
    /// The job's name, and the name that it looks for.
    pub name: String,
    pub wanted: String,
    /// The contact records of its members, in order of rank.
    pub records: Vec<u8>,
}

impl Party {
    /// What is said of it whoever is told: all but whom it looks for and its records.
    pub fn write_head(&self, out: &mut Vec<u8>) {
        out.put_u64(self.incarnation);
        out.extend_from_slice(&self.cookie);
        out.put_u32(self.size);
        out.put_u32(self.tag_ub);
        out.put_u32(self.representation);
        out.put_bytes(self.name.as_bytes());
    }

    /// The rest is empty.
    pub fn read_head(from: &mut Take<'_>) -> Result<Party, Malformed> {
        Ok(Party {
            incarnation: from.u64()?,
            cookie: from.array()?,
            size: from.u32()?,
            tag_ub: from.u32()?,
            representation: from.u32()?,
            name: text(from.bytes(MAX_NAME)?)?,
            wanted: String::new(),
            records: Vec::new(),
        })
    }
}

/// Both sides want the same inter-communicator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Agreement {
    pub context: u64,
    pub remote: Party,
}

/// Whom another leader looks for instead of us, as it has told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Looking {
    pub wanted: String,
    /// Somebody has registered that name.
    pub is_there: bool,
}

/// What a leader says to one who waits for it while it looks for somebody else: no offer, only for people.
pub fn looking(wanted: &str, is_there: bool) -> Vec<u8> {
    let mut m = vec![LOOKING, u8::from(is_there)];
    m.put_bytes(wanted.as_bytes());
    m
}

/// Who makes an offer in these messages of one leader, which nobody has read yet, and has not withdrawn it: without its
/// records.
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

/// How many bytes of records an offer of a leader still lacks after this message, of which it lacked `before`. `None`:
/// there is no offer.
pub fn still_missing(before: Option<usize>, message: &[u8]) -> Option<usize> {
    let mut t = Take(message);
    match (t.u8(), t.u64()) {
        (Ok(OFFER), Ok(_)) => {
            read_offer(&mut t).ok()?;
            let whole = t.u32().ok()? as usize;
            whole.checked_sub(t.rest().len())
        }
        (Ok(PART), Ok(_)) => before?.checked_sub(t.rest().len()),
        (Ok(WITHDRAW), Ok(_)) => None,
        _ => before,
    }
}

/// An OFFER behind its number, but for the records.
fn read_offer(t: &mut Take<'_>) -> Result<Party, Malformed> {
    let head = Party::read_head(t)?;
    Ok(Party { wanted: text(t.bytes(MAX_NAME)?)?, ..head })
}

/// Where our offer stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    Waiting,
    Agreed(Agreement),
    /// It was withdrawn, and the other side will not use it.
    Withdrawn,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Theirs {
    offer: u64,
    party: Party,
    /// Bytes of records that PART messages still have to bring.
    missing: usize,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
enum Mine {
    None,
    Open(u64),
    Withdrawing(u64),
    Withdrawn,
    Agreed(Agreement),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Negotiation {
    decider: bool,
    next_offer: u64,
    next_context: u64,
    mine: Mine,
    theirs: VecDeque<Theirs>,
    /// How many offers the other side may have open here.
    most_open: usize,
    outbox: VecDeque<Vec<u8>>,
    /// Contexts that the other side opened for offers which we had given up.
    orphans: Vec<u64>,
    /// What the other side has said last of whom it looks for, unless it has made an offer since.
    looking: Option<Looking>,
}

impl Negotiation {
    /// `decider`: whether ours is the smaller incarnation.
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

    /// With whoever comes to a port of ours: a stranger, who has one offer to make.
    pub fn with_stranger() -> Negotiation {
        Negotiation { most_open: 1, ..Negotiation::new(true) }
    }

    /// Offers. One offer at a time: the local side's calls are collective, one after another.
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

    /// Gives up. `standing` tells when the other side knows, or that it had agreed before.
    pub fn withdraw(&mut self) {
        if let Mine::Open(offer) = self.mine {
            let mut m = vec![WITHDRAW];
            m.put_u64(offer);
            self.outbox.push_back(m);
            // The decider has not accepted, so nobody has.
            self.mine = if self.decider { Mine::Withdrawn } else { Mine::Withdrawing(offer) };
        }
    }

    /// What the other side offers, if it waits for an offer of ours.
    pub fn offered(&self) -> Option<&Party> {
        self.theirs.front().filter(|o| o.missing == 0).map(|o| &o.party)
    }

    /// Whom the other side looks for at present, if it is not us.
    pub fn looking(&self) -> Option<&Looking> {
        self.looking.as_ref()
    }

    /// Bytes of records that the other side has sent, and that nobody has accepted yet.
    pub fn held(&self) -> usize {
        self.theirs.iter().map(|o| o.party.records.len()).sum()
    }

    /// Where our offer stands; an answer other than `Waiting` ends it.
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

    /// Stops waiting for an answer to a withdrawal.
    pub fn abandon(&mut self) {
        self.mine = Mine::None;
    }

    pub fn next_output(&mut self) -> Option<Vec<u8>> {
        self.outbox.pop_front()
    }

    /// Contexts to be refused, so that whoever sends there learns that nobody is there.
    pub fn take_orphans(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.orphans)
    }

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

    /// Lets the decider accept, if both sides have offered. To be called when all that has come was read: an offer that
    /// is withdrawn by the next message must not be accepted.
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

/// A name, which gets into lines on terminals.
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

    /// Whoever looks for somebody else says so; its offer ends that.
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
        big.put_bytes(b"x");
        big.put_bytes(b"y");
        big.put_u32(u32::MAX);
        assert_eq!(a.on_message(&big), Err(Malformed));
    }
}
