//! Hold and resume: a process gives up all its lanes, says so, and comes back by itself, perhaps at another address.
//!
//! Part of the session. Invariants: from the end of [`Session::hold`]'s work to [`Session::resume`] no pair has a lane or a
//! dial. Operations wait meanwhile; none fails for it. What was known of the others before it counts less after it. A process that has said that it goes away is not taken for dead for
//! [`AWAY_LIMIT`], whatever its host says.

use crate::action::Action;
use crate::path::LastWord;
use crate::state::Session;
use crate::state::hold::Holding;
use crate::state::pair::{Link, Lost};
use base::bytes::Take;
use base::protocol::control::MOVED;
use base::{Memory, ProcId, Time};
use std::time::Duration;
use wire::Contact;
use wire::lane::Lane;

/// How long the other sides may take to hear of it. Then the lanes are closed: what is left counts as untold.
const TELL_LIMIT: Duration = Duration::from_secs(10);
/// How often a lane that may lose frames has its last word said again.
const SAY_AGAIN: Duration = Duration::from_millis(50);
/// How long a process may be away before it is judged as any other that has lost its lane.
const AWAY_LIMIT: Duration = Duration::from_secs(3600);
/// How long to rest between dials of a process that is away: less than a port waits for a caller.
pub(crate) const AWAY_REST: Duration = Duration::from_secs(2);

/// How far a hold is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// The process is connected as usual.
    No,
    /// The other sides are being told, and lanes closed.
    Closing,
    /// No lane is left.
    Held {
        /// How many processes have not heard of it: they may take this one for dead if it ends, or moves.
        untold: usize,
    },
}

impl<L: Lane<M>, M: Memory> Session<L, M> {
    /// Gives up all lanes and dials. The other sides are told that this process comes back by itself; those without a lane are
    /// dialled for it. Nothing happens if it is held already. [`Session::is_held`] says when it is done.
    pub fn hold(&mut self, now: Time) {
        if self.held.is_some() {
            return;
        }
        self.held = Some(Holding { until: now + TELL_LIMIT, again: now + SAY_AGAIN, closed: false });
        self.hosts.drop_probes();
        for i in 0..self.pairs.len() {
            let pair = &mut self.pairs[i];
            if pair.moves.underway.is_some() {
                pair.moves.end();
            }
            // Who is away itself learns nothing of it before it is back.
            let hears =
                !pair.is_away() && (pair.inters > 0 || pair.wanted || pair.lane().is_some() || pair.lost().is_some());
            pair.is_to_hear = pair.serial != 0 && pair.gone().is_none() && hears;
            pair.is_expected_back |= pair.is_to_hear;
            pair.path.leave_with(LastWord::Away);
            self.mark(i);
            self.look_soon(i);
        }
    }

    /// Goes on with a hold. Called at each tick.
    pub(crate) fn step_hold(&mut self, now: Time) {
        let Some(holding) = &mut self.held else { return };
        if holding.closed {
            return;
        }
        let (is_late, says_again) = (now >= holding.until, now >= holding.again);
        if says_again {
            holding.again = now + SAY_AGAIN;
        }
        if is_late || self.untold().next().is_none() && !self.is_parting() {
            return self.close_all(now);
        }
        if says_again {
            for i in self.agenda.lossy.keys().copied().collect::<Vec<_>>() {
                self.pairs[i].path.leave_with(LastWord::Away);
                self.mark(i);
            }
        }
    }

    /// The processes that have not heard yet that this one goes away.
    pub fn untold(&self) -> impl Iterator<Item = ProcId> {
        let untold = self.pairs.iter().filter(|(_, pair)| pair.can_hear() && pair.gone().is_none());
        untold.map(|(_, pair)| pair.remote())
    }

    /// Whether another process that goes away has not closed its lane yet: it waits for the word that it was heard.
    fn is_parting(&self) -> bool {
        self.pairs.iter().any(|(_, pair)| pair.is_away() && pair.lane().is_some() && pair.gone().is_none())
    }

    /// Closes what is left.
    fn close_all(&mut self, now: Time) {
        if let Some(holding) = &mut self.held {
            holding.closed = true;
        }
        // The others are refused once they say HELLO; an operator may be among them.
        for incoming in self.incoming.drain_known() {
            self.act(Action::Dismiss { incoming });
        }
        for i in 0..self.pairs.len() {
            self.end_dial(i);
            self.pairs[i].answered = None;
            if self.drop_lane(i)
                && let Link::Apart { lost } = &mut self.pairs[i].link
            {
                *lost = Some(Lost { since: now, hung_up: false });
            }
        }
    }

    /// How far the hold is.
    pub fn is_held(&self) -> Hold {
        match &self.held {
            None => Hold::No,
            Some(holding) if !holding.closed => Hold::Closing,
            Some(_) => Hold::Held { untold: self.untold().count() },
        }
    }

    /// A pair has got a lane. If this process is held, it says there that it goes away: what it has said on a lane before may not be
    /// heard.
    pub(crate) fn leave_if_held(&mut self, i: usize) {
        if self.held.is_some() {
            self.pairs[i].path.leave_with(LastWord::Away);
        }
    }

    /// Whether a held process dials this pair: one that is to hear of it, and has no lane.
    pub(crate) fn tells(&self, i: usize) -> bool {
        let pair = &self.pairs[i];
        self.held.as_ref().is_some_and(|holding| !holding.closed) && pair.can_hear() && pair.lane().is_none()
    }

    /// Ends a hold: all that had a lane, or need one, are dialled.
    pub fn resume(&mut self, now: Time) {
        if self.held.is_none() {
            return;
        }
        self.close_all(now);
        self.held = None;
        for i in 0..self.pairs.len() {
            let pair = &mut self.pairs[i];
            if let Link::Apart { lost: lost @ Some(_) } = &mut pair.link {
                *lost = Some(Lost { since: now, hung_up: false });
            }
            pair.is_to_hear = false;
            (pair.evidence.tries, pair.evidence.refused, pair.evidence.is_old) = (0, None, true);
            self.await_caller(i, now);
            self.look_soon(i);
        }
    }

    /// The other side of a pair has heard that this process goes away: its lane may be closed.
    pub(crate) fn has_heard(&mut self, i: usize) {
        self.pairs[i].is_to_hear = false;
    }

    /// The other side of a pair goes away: nothing that its host says counts until it is back. It closes the lane.
    pub(crate) fn goes_away(&mut self, i: usize) {
        let pair = &mut self.pairs[i];
        if !pair.evidence.away {
            base::log!(Info, "{} is held, and comes back by itself", pair.remote());
        }
        pair.path.leave_with(LastWord::Heard);
        self.mark(i);
        let pair = &mut self.pairs[i];
        // A stranger keeps no place by that.
        (pair.evidence.away, pair.evidence.away_since) = (!pair.is_stranger(), None);
    }

    /// The other side of a pair was held, and is not waited for any more: it is judged as any other. Returns whether it was away.
    pub fn wait_no_longer(&mut self, i: usize) -> bool {
        let was_away = self.pairs[i].is_away() && self.pairs[i].lane().is_none();
        if was_away {
            self.pairs[i].evidence.away = false;
            self.look_soon(i);
        }
        was_away
    }

    /// Whether the other side has said that it is away, and its time is not over.
    pub(crate) fn is_away(&mut self, i: usize, now: Time) -> bool {
        #[cfg(feature = "plant")]
        if self.plant == crate::Plant::NeverAway {
            return false;
        }
        let evidence = &mut self.pairs[i].evidence;
        evidence.away && now.since(*evidence.away_since.get_or_insert(now)) < AWAY_LIMIT
    }

    // ---- contact records that change

    /// This process is on this host now.
    pub fn set_host(&mut self, host: [u8; 16]) {
        self.own.host = host;
    }

    /// This process is reached in another way from now on: all that it is connected with are told, the others when they
    /// are.
    pub fn set_contact(&mut self, contact: &Contact) {
        let mut told = vec![MOVED];
        contact.encode(&mut told);
        self.moved = Some(told);
        self.contact_serial += 1;
        for i in 0..self.pairs.len() {
            self.tell_contact(i);
        }
        self.settle();
    }

    /// Tells the other side of a pair how this process is reached, if it does not know.
    pub(crate) fn tell_contact(&mut self, i: usize) {
        let pair = &mut self.pairs[i];
        if let Some(told) = &self.moved
            && pair.lane().is_some()
            && pair.gone().is_none()
            && pair.caller.is_none()
            && !pair.bye_said
            && std::mem::replace(&mut pair.told_contact, self.contact_serial) != self.contact_serial
        {
            self.engine.control(pair.peer, told);
        }
    }

    /// Whether a CONTROL message tells a contact record of the other side, which is taken over.
    pub(crate) fn hear_contact(&mut self, i: usize, bytes: &[u8]) -> bool {
        let Some((&MOVED, rest)) = bytes.split_first() else { return false };
        let mut rest = Take(rest);
        let Ok(contact) = Contact::decode(&mut rest) else { return true };
        let pair = &mut self.pairs[i];
        // Nobody can send it elsewhere: only the process itself, whose lane this is.
        if rest.end().is_ok() && pair.known_process() == Some(contact.process) && pair.who.contact.is_some() {
            base::log!(Debug, "{} is reached in another way from now on", pair.remote());
            let evidence = &mut pair.evidence;
            (evidence.worked, evidence.refused, evidence.met_on_host) = (None, None, false);
            evidence.is_old = false;
            pair.who.contact = Some(contact);
            // It may have a better transport now.
            pair.moves.again.soon();
            self.agenda.worse.insert(i);
            self.look_soon(i);
        }
        true
    }
}
