//! Two leaders negotiate over the path between them until they agree, or one gives up.
//!
//! Invariant: all messages that have come are read before anything is decided, since the next one may withdraw an offer.

use super::negotiation::{Looking, Negotiation, Party, Standing};
use super::records::contacts;
use crate::state::Session;
use crate::state::pair::PathRef;
use crate::state::talk::{Talk, Turn};
use base::protocol::control::ACCEPT;
use base::{Memory, Time};
use engine::ContextId;
use std::time::Duration;
use wire::lane::Lane;

/// How long our side waits for the answer to a withdrawal. For the same time a leader's name may lead nowhere before it
/// counts as gone, since a leader that has just agreed may remove its name at once.
const WITHDRAWAL: Duration = Duration::from_secs(2);

impl<L: Lane<M>, M: Memory> Session<L, M> {
    /// Offers an inter-communicator to the leader behind a path. The offer is withdrawn at `limit`; `None`: never.
    /// `decider`: our incarnation is the smaller one. [`Session::talk`] says what comes of it.
    pub fn offer(&mut self, path: PathRef, decider: bool, party: &Party, limit: Option<Time>) {
        let Some(i) = self.of_path(path) else { return };
        if self.pairs[i].talk.is_none() {
            self.pairs[i].talk = Some(Box::new(Talk::new(Negotiation::new(decider))));
        }
        // Nonsense among these messages makes the offer end at the next turn.
        let heard = self.hear(i);
        let Some(talk) = &mut self.pairs[i].talk else { return };
        (talk.limit, talk.withdrawn, talk.missing) = (limit, !heard, None);
        talk.negotiation.offer(party);
    }

    /// One step of the negotiation with the leader behind a path: reads what has come, decides, and answers. After `Gone`,
    /// `TimedOut` or `Nonsense` our offer is forgotten.
    pub fn talk(&mut self, path: PathRef, now: Time) -> Turn {
        let turn = self.step_talk(path, now);
        if let Some(i) = self.of_path(path) {
            self.refuse_orphans(i);
            self.settle();
            if matches!(turn, Turn::Gone | Turn::TimedOut | Turn::Nonsense) {
                self.break_off(path);
            }
        }
        turn
    }

    /// Whether a leader that says which registered job it is has proved to be the first of the records that it offers: so the key of
    /// a job's leader vouches for its members.
    pub(super) fn speaks_for_itself(&self, i: usize, party: &Party) -> bool {
        if party.registered.is_none() {
            return true;
        }
        let members = contacts(&party.records, party.size).ok();
        let first = members.and_then(|members| members.get(0)).map(|leader| leader.process);
        first.is_some() && first == self.pairs[i].process()
    }

    fn step_talk(&mut self, path: PathRef, now: Time) -> Turn {
        let Some(i) = self.of_path(path) else { return Turn::Gone };
        if !self.hear(i) {
            return Turn::Nonsense;
        }
        let Some(talk) = &mut self.pairs[i].talk else { return Turn::Gone };
        talk.negotiation.decide();
        self.speak(i);
        let is_gone = self.path_gone(path).is_some();
        let Some(talk) = &mut self.pairs[i].talk else { return Turn::Gone };
        match talk.negotiation.standing() {
            Standing::Agreed(agreement) => {
                let is_its_own = self.speaks_for_itself(i, &agreement.remote);
                return if is_its_own { Turn::Agreed(agreement) } else { Turn::Nonsense };
            }
            Standing::Withdrawn => return talk.why_withdrawn(),
            Standing::Waiting => {}
        }
        let is_over = talk.limit.is_some_and(|limit| now >= limit);
        if talk.withdrawn {
            return if is_gone || is_over { talk.why_withdrawn() } else { Turn::Waiting };
        }
        if is_gone {
            return Turn::Gone;
        }
        let is_lost = talk.missing.is_some_and(|until| now > until);
        if !is_lost && !is_over {
            return Turn::Waiting;
        }
        // A leader whose name leads nowhere may live all the same: it is not to accept what nobody waits for.
        talk.negotiation.withdraw();
        (talk.withdrawn, talk.limit) = (true, Some(now + WITHDRAWAL));
        talk.missing = talk.missing.filter(|_| is_lost);
        self.speak(i);
        Turn::Waiting
    }

    /// Refuses what the other leader has agreed to for offers that our side had given up.
    fn refuse_orphans(&mut self, i: usize) {
        let pair = &mut self.pairs[i];
        let (ours, theirs) = (pair.local().incarnation, pair.remote().incarnation);
        let orphans = pair.talk.as_mut().map_or_else(Vec::new, |talk| talk.negotiation.take_orphans());
        if let Some(between) = self.groups.between(ours, theirs) {
            orphans.into_iter().for_each(|context| self.engine.refuse(between.number, ContextId::root(context)));
        }
    }

    /// If the message that has just come agrees to an offer that our side has given up, and no call reads the messages of
    /// that leader: refuses it now, so that the other side does not use it in vain until the next call.
    pub(crate) fn refuse_late(&mut self, i: usize) {
        let pair = &self.pairs[i];
        let has_agreed = pair.inbox.messages.back().is_some_and(|bytes| bytes.first() == Some(&ACCEPT));
        let is_given_up = pair.caller.is_none() && pair.talk.as_ref().is_some_and(|talk| !talk.negotiation.is_open());
        // Nonsense among the messages that are read here concerns no offer of ours.
        if has_agreed && is_given_up && self.hear(i) {
            self.refuse_orphans(i);
        }
    }

    /// Reads the messages of a leader. `false`: one violates the protocol.
    pub(crate) fn hear(&mut self, i: usize) -> bool {
        while let Some(bytes) = self.take_control(i) {
            let Some(talk) = &mut self.pairs[i].talk else { return true };
            if talk.negotiation.on_message(&bytes).is_err() {
                return false;
            }
        }
        true
    }

    /// Sends what the negotiation has to say.
    pub(crate) fn speak(&mut self, i: usize) {
        let peer = self.pairs[i].peer;
        while let Some(bytes) = self.pairs[i].talk.as_mut().and_then(|talk| talk.negotiation.next_output()) {
            self.engine.control(peer, &bytes);
        }
        self.settle();
    }

    /// Reports whether the name of the leader behind a path still leads to it. If it does not for 2 s, our offer is withdrawn, and
    /// [`Session::talk`] says `Gone`.
    pub fn is_found(&mut self, path: PathRef, found: bool, now: Time) {
        if let Some(talk) = self.of_path(path).and_then(|i| self.pairs[i].talk.as_mut()).filter(|talk| !talk.withdrawn)
        {
            talk.missing = if found { None } else { talk.missing.or(Some(now + WITHDRAWAL)) };
        }
    }

    /// Whether our offer was withdrawn, so that only the answer to the withdrawal is awaited; also if there is no talk.
    pub fn is_withdrawn(&self, path: PathRef) -> bool {
        let talk = self.of_path(path).and_then(|i| self.pairs[i].talk.as_ref());
        talk.is_none_or(|talk| talk.withdrawn)
    }

    /// The job that the other leader looks for now, if it is not ours.
    pub fn looking(&self, path: PathRef) -> Option<&Looking> {
        self.pairs[self.of_path(path)?].talk.as_ref()?.negotiation.looking()
    }

    /// Takes our offer back and forgets it, whatever the other leader may still answer.
    pub fn break_off(&mut self, path: PathRef) {
        let Some(i) = self.of_path(path) else { return };
        if let Some(talk) = &mut self.pairs[i].talk {
            talk.negotiation.withdraw();
            talk.negotiation.abandon();
        }
        self.speak(i);
    }
}
