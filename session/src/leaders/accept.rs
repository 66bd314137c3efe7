//! A port agrees with its callers: the messages of all are read, and the first that is ready is answered.
//!
//! Invariant: the memory for what callers have said is bounded, and a caller that violates the protocol is sent away.

use super::negotiation::{Agreement, Negotiation, Party, Standing};
use super::records::contacts;
use crate::state::Session;
use crate::state::pair::PathRef;
use crate::state::talk::Talk;
use base::{Memory, ProcId, Time};
use std::time::Duration;
use wire::lane::Lane;

/// How long an offer may wait for the probe of its caller's host. If the caller dies later, only a host that was
/// reached before can prove it.
const KNOWING: Duration = Duration::from_millis(300);

/// The most bytes of contact records that are kept for all callers of a port together: one offer of the largest group,
/// and a little. Beyond it, a caller is sent away: the one with the most bytes, among those whose offer is not complete
/// if there are.
const MAX_CALLERS_RECORDS: usize = 65 << 20;

impl<L: Lane<M>, M: Memory> Session<L, M> {
    /// One step of MPI_Comm_accept: reads the messages of all callers of a port, and agrees with the first that is
    /// ready. `offer` is our side. `None`: no caller is ready.
    pub fn accept(&mut self, port: ProcId, offer: &Party, now: Time) -> Option<Agreement> {
        let callers = self.callers(port);
        for path in callers {
            self.hear_caller(path);
        }
        self.make_room(port);
        let ready = self.callers(port).into_iter().find(|path| self.is_ready(*path, now))?;
        self.groups.answered(port.incarnation, ready);
        let i = self.of_path(ready)?;
        let talk = self.pairs[i].talk.as_mut()?;
        talk.negotiation.offer(offer);
        talk.negotiation.decide();
        self.speak(i);
        match self.pairs[i].talk.as_mut()?.negotiation.standing() {
            Standing::Agreed(agreement) => Some(agreement),
            _ => None,
        }
    }

    fn hear_caller(&mut self, path: PathRef) {
        let Some(i) = self.of_path(path) else { return };
        if self.pairs[i].talk.is_none() {
            self.pairs[i].talk = Some(Box::new(Talk::new(Negotiation::with_stranger())));
        }
        if self.hear(i) {
            self.speak(i);
        } else {
            base::log_seldom!(Info, "somebody who came to a port spoke nonsense, and is sent away");
            self.send_away(path);
        }
    }

    fn make_room(&mut self, port: ProcId) {
        loop {
            let held: Vec<_> = self
                .callers(port)
                .into_iter()
                .filter_map(|path| {
                    let negotiation = &self.pairs[self.of_path(path)?].talk.as_ref()?.negotiation;
                    Some((negotiation.offered().is_none(), negotiation.held(), path))
                })
                .collect();
            if held.iter().map(|(_, bytes, _)| bytes).sum::<usize>() <= MAX_CALLERS_RECORDS {
                return;
            }
            let Some((_, _, path)) = held.into_iter().max_by_key(|(waits, bytes, _)| (*waits, *bytes)) else { return };
            base::log_seldom!(Info, "somebody who came to a port says more than there is room for, and is sent away");
            self.send_away(path);
        }
    }

    /// Whether a caller may be answered: it is connected, its offer is complete, and its host was probed or had time
    /// for it.
    fn is_ready(&mut self, path: PathRef, now: Time) -> bool {
        let Some(i) = self.of_path(path) else { return false };
        if self.path_gone(path).is_some() || !self.is_connected(path) {
            return false;
        }
        let came_as = self.pairs[i].remote().incarnation;
        let Some(talk) = &self.pairs[i].talk else { return false };
        let Some(party) = talk.negotiation.offered() else { return false };
        if party.incarnation != came_as || self.groups.get(party.incarnation).is_some() {
            base::log_seldom!(Info, "somebody who came to a port offers another group than its own, and is sent away");
            self.send_away(path);
            return false;
        }
        let known = match talk.known {
            Some(known) => known,
            None => {
                if !self.speaks_for_itself(i, party) {
                    base::log_seldom!(
                        Error,
                        "somebody who came to a port speaks for a job that it does not lead, and is sent away"
                    );
                    self.send_away(path);
                    return false;
                }
                let members = contacts(&party.records, party.size);
                self.pairs[i].talk.iter_mut().for_each(|talk| talk.known = Some(now));
                if let Ok(members) = members {
                    self.introduce(path, &members);
                }
                now
            }
        };
        !self.is_probing(path) || now.since(known) > KNOWING
    }
}
