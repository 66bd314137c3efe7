//! Figures for people: what went between two jobs over which transport.
//!
//! Part of the session. What a pair has carried is attributed to a transport when its lane is dropped or left; until then it is
//! the transport in use. Invariant: messages pay for nothing here.

use crate::state::Session;
use crate::state::figures::{MOST_SUMS, Sum};
use base::Memory;
use engine::{Flow, Traffic};
use std::collections::BTreeMap;
use wire::TransportId;
use wire::lane::Lane;

fn since(all: Flow, before: Flow) -> Flow {
    let messages = all.messages.saturating_sub(before.messages);
    Flow { messages, bytes: all.bytes.saturating_sub(before.bytes) }
}

fn add(to: &mut Traffic, more: Traffic) {
    for (to, more) in [(&mut to.sent, more.sent), (&mut to.received, more.received)] {
        to.messages = to.messages.saturating_add(more.messages);
        to.bytes = to.bytes.saturating_add(more.bytes);
    }
}

impl<L: Lane<M>, M: Memory> Session<L, M> {
    /// A pair loses or leaves a lane of this transport: what it has carried since the last call was carried by that.
    pub(crate) fn attribute(&mut self, i: usize, transport: TransportId) {
        let more = self.not_attributed(i);
        let pair = &mut self.pairs[i];
        let jobs = (pair.local().incarnation, pair.remote().incarnation);
        let key = (jobs.0, jobs.1, transport);
        pair.attributed = self.engine.traffic(pair.peer);
        if self.tally.len() >= MOST_SUMS {
            self.forget_sums();
        }
        // Groups that were connected are known as such, also if nothing went between them.
        let is_new = || !self.tally.keys().any(|(ours, theirs, _)| (*ours, *theirs) == jobs);
        let counts = more != Traffic::default() || is_new();
        if counts && (self.tally.len() < MOST_SUMS || self.tally.contains_key(&key)) {
            add(self.tally.entry(key).or_default(), more);
        }
    }

    fn not_attributed(&self, i: usize) -> Traffic {
        let (pair, all) = (&self.pairs[i], self.engine.traffic(self.pairs[i].peer));
        let before = pair.attributed;
        Traffic { sent: since(all.sent, before.sent), received: since(all.received, before.received) }
    }

    /// What went between the groups of this process and those of other jobs, by our incarnation, theirs, and the transport.
    pub fn sums(&self) -> BTreeMap<(u64, u64, TransportId), Sum> {
        let mut sums: BTreeMap<_, Sum> =
            self.tally.iter().map(|(key, traffic)| (*key, Sum { pairs: 0, traffic: *traffic })).collect();
        for (i, pair) in self.pairs.iter().filter(|(_, pair)| pair.serial != 0) {
            let Some(up) = pair.lane() else { continue };
            let key = (pair.local().incarnation, pair.remote().incarnation, up.transport);
            let sum = sums.entry(key).or_default();
            sum.pairs += 1;
            add(&mut sum.traffic, self.not_attributed(i));
        }
        sums
    }

    /// Forgets what was carried between groups that are not known any more.
    fn forget_sums(&mut self) {
        let known: Vec<u64> =
            self.tally.keys().map(|(ours, ..)| *ours).filter(|ours| self.knows_group(*ours)).collect();
        self.tally.retain(|(ours, ..), _| known.contains(ours));
    }

    /// Why the transports that are better than the one of a pair's lane do not carry it, or that an operator has ordered this one;
    /// empty if there is no better one or no lane. Of the one that the pair should use it is what the last try came to.
    pub fn why_not_better(&self, i: usize) -> String {
        let pair = &self.pairs[i];
        let Some(up) = pair.lane() else { return String::new() };
        let ordered = match pair.moves.pinned {
            Some(pinned) if pinned == up.transport => return "ordered".into(),
            Some(pinned) => format!("; {} is ordered", self.word(pinned)),
            None => String::new(),
        };
        let should = self.preferred(i).filter(|best| *best != up.transport);
        let tried = should.zip(pair.moves.trouble.as_deref());
        let tried = tried.map_or(String::new(), |(best, why)| format!("; no {}: {why}", self.title(best)));
        (ordered + &tried + &self.without(i, up.transport)).trim_start_matches("; ").to_owned()
    }

    /// Whether this slot has a pair.
    pub fn is_pair(&self, i: usize) -> bool {
        self.pairs[i].serial != 0
    }

    /// The word for a transport, as in `MPI_CONNECT_LANES`.
    pub fn word(&self, transport: TransportId) -> &'static str {
        self.own.transports.iter().find(|(about, _)| about.id == transport).map_or("", |(about, _)| about.word)
    }

    /// A transport, for people.
    pub(crate) fn title(&self, transport: TransportId) -> &'static str {
        self.own.transports.iter().find(|(about, _)| about.id == transport).map_or("", |(about, _)| about.title)
    }

    /// This process in a group that it has registered, also after its removal while a pair has it.
    pub fn own_group(&self, incarnation: u64) -> Option<crate::Group> {
        self.groups.get(incarnation).map(|known| known.group)
    }
}
