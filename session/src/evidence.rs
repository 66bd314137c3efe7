//! Evidence of death: what the failure of a dial proves, and when the proofs suffice.
//!
//! Part of the session. Invariants: a process is given up only if its host's kernel refuses at its address, another
//! process answers there, or it says itself that it has left. A process that lives may have closed the listener of one
//! transport, but not of all: so a refusal is certain only if every transport that was dialled is refused, and not after
//! a hold, during which the process may have opened others. A refusal counts only at an address at which a dial has
//! got through to its host before: elsewhere it may come from a firewall or another host. Who passes on what others say may tell
//! that a process has closed its connection; that counts as a refusal which may be a firewall's. If it says that the kernel of the process's host
//! knows that it has ended, that is certain. Silence proves nothing: a
//! process is dialled for as long as a call waits for it. The exceptions: a process that has lost its connection to us,
//! that no dial ever reached and that does not dial again (the limits are below), or that who passes on knows no more; a port that is refused at all its
//! addresses; and a process that keeps violating the protocol.

use crate::hold::AWAY_REST;
use crate::state::Session;
use crate::state::evidence::{Refusal, Verdict};
use crate::state::pair::Dial;
use base::{Memory, Time};
use engine::Gone;
use std::time::Duration;
use wire::lane::Lane;
use wire::{Place, Scope};

/// How long an address must refuse before a process that never had a lane is given up.
const REFUSE_LIMIT: Duration = Duration::from_secs(2);
/// How long dials may be refused, perhaps by a firewall, before a process that had dialled us is given up. A kernel
/// takes less to tell the other side that its connection is lost, and then that side dials again. The same holds for a
/// process that refuses by one transport and is silent by another, and for one that refuses after a hold of ours.
const COME_BACK_LIMIT: Duration = Duration::from_secs(20);
/// How long dials are refused before a process that was told of a hold of ours, and to which nothing else is to be said, is left without a
/// word: if it waited for us, it had dialled us meanwhile.
const EXPECTED_LIMIT: Duration = AWAY_REST.saturating_add(Duration::from_secs(1));
/// How long such a process may be silent, if it has closed the connection itself, or unknown to who passes on.
const SILENCE_LIMIT: Duration = Duration::from_secs(60);
/// The longest rest between dials while an address refuses.
const REFUSED_REST: Duration = Duration::from_millis(250);

impl<L: Lane<M>, M: Memory> Session<L, M> {
    /// What a failure at this place proves about the process of a pair, if all other transports fail alike.
    fn worth(&self, i: usize, place: &Place, why: &Refusal) -> Verdict {
        if why.is_its_own() {
            // The process says so itself, from whatever address.
            return Verdict::Certain;
        }
        let evidence = &self.pairs[i].evidence;
        if self.scope(place.transport) == Some(Scope::Host) {
            // Its host's kernel refuses: the process is gone, or does not use this transport.
            return if *why == Refusal::Refused { Verdict::Certain } else { Verdict::None };
        }
        if self.scope(place.transport) == Some(Scope::Passed) {
            // Its host's kernel has closed its connection to who passes on, as far as that one says.
            return match why {
                Refusal::Ended if self.may_count_as_ended(i) => Verdict::Certain,
                Refusal::Ended | Refusal::Refused => Verdict::Refused,
                // If it lives, it comes there, or to us.
                Refusal::Unknown(_) if self.pairs[i].lost().is_some_and(|lost| lost.hung_up) => Verdict::Absent,
                _ => Verdict::None,
            };
        }
        #[cfg(feature = "plant")]
        if self.plant == crate::Plant::AnyRefusal && *why == Refusal::Refused {
            return Verdict::Certain;
        }
        let came_from = evidence.seen_at.as_ref().is_some_and(|seen| seen.is_same_host(place));
        let proven = self.is_proven(i, place);
        match why {
            Refusal::Refused if proven => Verdict::Certain,
            Refusal::Refused if came_from => Verdict::Refused,
            // A firewall does not answer so. The version is told before a key is proved, so somebody on the way may have done it; a
            // process that was met has the right one.
            Refusal::OtherVersion(_) if evidence.met => {
                if came_from || proven {
                    Verdict::Refused
                } else {
                    Verdict::None
                }
            }
            Refusal::NoSuchProcess | Refusal::OtherVersion(_) if proven || came_from => Verdict::Certain,
            _ => Verdict::None,
        }
    }

    /// Whether it counts at once that the process has ended, as its host says to who passes on. Not while a lane stands, which may have brought more;
    /// nor after a hold: another process may have its place.
    fn may_count_as_ended(&self, i: usize) -> bool {
        let pair = &self.pairs[i];
        pair.lane().is_none() && !pair.evidence.is_old
    }

    /// Whether it is certain, whatever other transports say.
    pub(crate) fn is_decided(&self, i: usize, failed: &[(Place, Refusal)]) -> bool {
        let says_end = |why: &Refusal| why.is_its_own() || *why == Refusal::Ended;
        failed.iter().any(|(place, why)| says_end(why) && self.worth(i, place, why) == Verdict::Certain)
    }

    /// Whether this failure decides the race of its transport, whatever other places say.
    pub(crate) fn is_last_word(&self, i: usize, place: &Place, why: &Refusal) -> bool {
        matches!(why, Refusal::Better(_)) || self.worth(i, place, why) == Verdict::Certain
    }

    /// What the failures of all transports that were dialled prove together.
    pub(crate) fn weigh(&self, i: usize, failed: &[(Place, Refusal)]) -> Verdict {
        if self.is_decided(i, failed) {
            return Verdict::Certain;
        }
        let evidence = &self.pairs[i].evidence;
        let least = match self.has_hung_up(i) {
            _ if self.pairs[i].lane().is_some() => Verdict::None,
            _ if self.is_nowhere(i, failed) => Verdict::Certain,
            true => Verdict::Absent,
            false => Verdict::None,
        };
        if failed.iter().any(|(_, why)| *why == Refusal::Later) {
            // By this transport somebody answers.
            return least;
        }
        let says = |(place, why): &(Place, Refusal)| (place.transport, self.worth(i, place, why));
        let is_closed = |transport| failed.iter().map(says).any(|said| said == (transport, Verdict::Certain));
        // What others pass on is no way of its own: it says nothing against what the process's host says.
        let own = |place: &Place| self.scope(place.transport) != Some(Scope::Passed);
        let mut direct = failed.iter().filter(|(place, _)| own(place)).peekable();
        if !evidence.is_old && direct.peek().is_some() && direct.all(|(place, _)| is_closed(place.transport)) {
            return Verdict::Certain;
        }
        // Where it never had a lane, a refusal on this host only says that it does not use such a transport.
        let counts = |place: &Place| evidence.met_on_host || self.scope(place.transport) != Some(Scope::Host);
        let counted = failed.iter().filter(|(place, _)| counts(place));
        counted.map(|failed| says(failed).1.min(Verdict::Refused)).fold(least, Verdict::max)
    }

    /// Whether the other side has closed a connection that it had dialled, while no dial of ours ever got through to it.
    fn has_hung_up(&self, i: usize) -> bool {
        let pair = &self.pairs[i];
        let hung_up = pair.lost().is_some_and(|lost| lost.hung_up);
        hung_up && pair.evidence.seen_at.as_ref().is_some_and(|seen| !self.is_proven(i, seen))
    }

    /// Whether all addresses of a port say that it is not open there. It was open before its name could be known.
    fn is_nowhere(&self, i: usize, failed: &[(Place, Refusal)]) -> bool {
        use Refusal::{Foreign, NoSuchProcess, OtherVersion, Refused};
        let says_so = |why: &Refusal| matches!(why, Refused | NoSuchProcess | OtherVersion(_) | Foreign);
        let evidence = &self.pairs[i].evidence;
        let mut at_addresses =
            failed.iter().filter(|(place, _)| self.scope(place.transport) == Some(Scope::Anywhere)).peekable();
        evidence.at_port && !evidence.met && at_addresses.peek().is_some() && at_addresses.all(|(_, why)| says_so(why))
    }

    /// All transports have failed. `left`: the process itself says that it has left.
    pub(crate) fn dial_came_to_nothing(&mut self, i: usize, verdict: Verdict, left: bool, why: &str, now: Time) {
        if self.is_away(i, now) {
            // Perhaps nothing is there at present.
            let pair = &mut self.pairs[i];
            pair.evidence.trouble = why.into();
            pair.dial = Dial::Resting(now + AWAY_REST);
            return;
        }
        let pair = &mut self.pairs[i];
        let (has_lane, is_gone) = (pair.lane().is_some(), pair.gone().is_some());
        let mut rest = {
            pair.evidence.tries = pair.evidence.tries.saturating_add(1);
            pair.rest()
        };
        let evidence = &mut pair.evidence;
        evidence.trouble = why.into();
        // A pair with a lane is given up only if its process is certainly gone.
        if verdict == Verdict::None || has_lane && verdict != Verdict::Certain {
            evidence.refused = None;
        } else {
            let since = now.since(*evidence.refused.get_or_insert(now));
            // Who lives, and waits for this process, has dialled it meanwhile.
            let has_ended = is_gone && verdict == Verdict::Certain;
            pair.is_expected_back &= !has_ended && since < EXPECTED_LIMIT;
            let enough = match verdict {
                Verdict::Certain => evidence.met || since >= REFUSE_LIMIT,
                Verdict::Refused => since >= COME_BACK_LIMIT,
                Verdict::Absent | Verdict::None => since >= SILENCE_LIMIT,
            };
            #[cfg(feature = "plant")]
            let enough = enough && self.plant != crate::Plant::NoDeath;
            if enough && !is_gone {
                return self.give_up(i, if left { Gone::Finished } else { Gone::Dead }, why);
            }
            rest = rest.min(REFUSED_REST);
        }
        // The log says it less and less often.
        if evidence.tries >= 8 && evidence.tries.is_power_of_two() {
            base::log!(Info, "{} cannot be reached yet: {why}", pair.remote());
        }
        pair.dial = Dial::Resting(now + rest);
    }

    /// Gives up the process of a pair: it is dead, or has left.
    pub(crate) fn give_up(&mut self, i: usize, gone: Gone, why: &str) {
        self.drop_lane(i);
        self.end_dial(i);
        let pair = &mut self.pairs[i];
        let ended = if gone == Gone::Dead { "is dead" } else { "has left" };
        base::log!(Info, "{} {ended}: {why}", pair.remote());
        pair.set_gone(gone);
        // Nobody waits there.
        pair.is_expected_back = false;
        let peer = pair.peer;
        self.engine.on_gone(peer, gone);
        self.agenda.timed.remove(&i);
        self.agenda.leaving.insert(i);
    }
}
