//! Evidence of death: what the failure of a dial says, and when it is enough.
//!
//! Part of the session. Invariants: a process is given up only on a sign from somebody who can know: its host's kernel refuses
//! at its address, another process answers there, or it says itself that it is not there. A refusal counts only at an address
//! at which a dial of ours has got through to its host: elsewhere it may be a firewall's, or another host's. Silence is
//! suspect, never dead: whoever is needed is dialled for as long as somebody waits.

use crate::state::Session;
use crate::state::evidence::{Refusal, Sign};
use crate::state::pair::Dial;
use base::{Memory, Time};
use engine::Gone;
use std::time::Duration;
use wire::lane::Lane;
use wire::{Place, Scope};

/// So long an address must refuse before a process that was never met is given up.
const REFUSE_LIMIT: Duration = Duration::from_secs(2);
/// So long one may be refused, perhaps by a firewall, who had come to us and has lost the connection: longer than a kernel
/// takes to tell the other side that it is lost, whereupon that comes again.
const COME_BACK_LIMIT: Duration = Duration::from_secs(20);
/// And so long it may be silent, when it closed the connection itself.
const SILENCE_LIMIT: Duration = Duration::from_secs(60);
/// While an address refuses, it is asked at least this often.
const REFUSED_REST: Duration = Duration::from_millis(250);

impl<L: Lane<M>, M: Memory> Session<L, M> {
    /// What the failure of a dial there says about the pair's process. `last`: no other transport is left to be tried.
    pub(crate) fn worth(&self, i: usize, place: &Place, why: &Refusal, last: bool) -> Sign {
        let evidence = &self.pairs[i].evidence;
        if self.scope(place.transport) == Some(Scope::Host) {
            // Its host's kernel says that nobody is there: gone, or it only uses no such transport.
            return match why {
                Refusal::NoMember | Refusal::BadCookie => Sign::Certain,
                Refusal::Refused if last || evidence.met_on_host => Sign::Certain,
                _ => Sign::None,
            };
        }
        #[cfg(feature = "plant")]
        if self.plant == crate::Plant::AnyRefusal && *why == Refusal::Refused {
            return Sign::Certain;
        }
        let came_from = evidence.seen_at.as_ref().is_some_and(|seen| seen.is_same_host(place));
        let proven = self.is_proven(i, place);
        match why {
            // Its own word, wherever it comes from.
            Refusal::NoMember | Refusal::BadCookie => Sign::Certain,
            Refusal::Refused if proven => Sign::Certain,
            Refusal::Refused if came_from => Sign::Refused,
            // No firewall answers so.
            Refusal::NoSuchProcess | Refusal::OtherVersion(_) if proven || came_from => Sign::Certain,
            _ => Sign::None,
        }
    }

    /// Whether nothing that another address could say would change what comes of it.
    pub(crate) fn is_last_word(&self, i: usize, place: &Place, why: &Refusal) -> bool {
        matches!(why, Refusal::Better(_)) || self.worth(i, place, why, false) == Sign::Certain
    }

    /// What all failures of a race say together.
    pub(crate) fn weigh(&self, i: usize, failed: &[(Place, Refusal)], last: bool) -> Sign {
        let least = match self.has_hung_up(i) {
            _ if self.pairs[i].lane().is_some() || !last => Sign::None,
            _ if self.is_nowhere(i, failed) => Sign::Certain,
            true => Sign::Absent,
            false => Sign::None,
        };
        failed.iter().map(|(place, why)| self.worth(i, place, why, last)).fold(least, Sign::max)
    }

    /// Whether the process, or its kernel, has closed the connection that it had dialled, and could not be dialled before.
    fn has_hung_up(&self, i: usize) -> bool {
        let pair = &self.pairs[i];
        let hung_up = pair.lost().is_some_and(|lost| lost.hung_up);
        hung_up && pair.evidence.seen_at.as_ref().is_some_and(|seen| !self.is_proven(i, seen))
    }

    /// Whether a port is open at none of the addresses that its name tells. It was open before its name could be known.
    fn is_nowhere(&self, i: usize, failed: &[(Place, Refusal)]) -> bool {
        use Refusal::{Foreign, NoSuchProcess, OtherVersion, Refused};
        let says_so = |why: &Refusal| matches!(why, Refused | NoSuchProcess | OtherVersion(_) | Foreign);
        self.pairs[i].evidence.at_port && !failed.is_empty() && failed.iter().all(|(_, why)| says_so(why))
    }

    /// A dial has come to nothing. `left`: the process itself says that it is not there.
    pub(crate) fn dial_came_to_nothing(&mut self, i: usize, sign: Sign, left: bool, why: &str, now: Time) {
        let pair = &mut self.pairs[i];
        let has_lane = pair.lane().is_some();
        let mut rest = {
            pair.evidence.tries = pair.evidence.tries.saturating_add(1);
            pair.rest()
        };
        let evidence = &mut pair.evidence;
        evidence.trouble = why.into();
        // While a lane is there, only what is certain says that its other end is not.
        if sign == Sign::None || has_lane && sign != Sign::Certain {
            evidence.refused = None;
        } else {
            let since = now.since(*evidence.refused.get_or_insert(now));
            let enough = match sign {
                Sign::Certain => evidence.met || since >= REFUSE_LIMIT,
                Sign::Refused => since >= COME_BACK_LIMIT,
                Sign::Absent | Sign::None => since >= SILENCE_LIMIT,
            };
            #[cfg(feature = "plant")]
            let enough = enough && self.plant != crate::Plant::NoDeath;
            if enough {
                return self.give_up(i, if left { Gone::Finished } else { Gone::Dead }, why);
            }
            rest = rest.min(REFUSED_REST);
        }
        // Said less and less often.
        if evidence.tries >= 8 && evidence.tries.is_power_of_two() {
            base::log!(Info, "{} cannot be reached yet: {why}", pair.remote());
        }
        pair.dial = Dial::Resting(now + rest);
    }

    /// The process is dead, or has nothing to do with us any more.
    pub(crate) fn give_up(&mut self, i: usize, gone: Gone, why: &str) {
        self.drop_lane(i);
        self.end_dial(i);
        let pair = &mut self.pairs[i];
        let ended = if gone == Gone::Dead { "is dead" } else { "has left" };
        base::log!(Info, "{} {ended}: {why}", pair.remote());
        pair.set_gone(gone);
        let peer = pair.peer;
        self.engine.on_gone(peer, gone);
        self.agenda.timed.remove(&i);
        self.agenda.leaving.insert(i);
    }
}
