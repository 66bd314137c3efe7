//! Processes that calls wait for: they are connected, so that their death is noticed and those that cannot dial can send.
//!
//! Part of the session. Invariant: only processes from which something is expected are dialled for this.

use crate::state::Session;
use crate::state::inters::InterId;
use crate::state::pair::Pair;
use base::{Memory, Time};
use engine::{Members, Source};
use std::collections::BTreeSet;
use std::time::Duration;
use wire::lane::Lane;

/// How often expected processes are looked for while no call blocks. A process that is expected at two looks is dialled.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Members of a large group that get their pairs at each look while a receive from any source waits.
const WATCHED_EACH: u32 = 64;
/// The most sources of probes that are remembered between two looks.
const MOST_PROBED: usize = 16;

impl<L: Lane<M>, M: Memory> Session<L, M> {
    /// A call waits for the process of this pair: it is dialled, unless it is connected or gone.
    pub fn want(&mut self, i: usize) {
        let pair = &mut self.pairs[i];
        if !pair.wanted && pair.gone().is_none() {
            pair.wanted = true;
            self.look_soon(i);
        }
    }

    /// Connects all processes that operations wait for. Otherwise their death would not be noticed, and some could not
    /// dial us.
    pub fn watch_awaited(&mut self) {
        self.meet_awaited();
        let awaited: Vec<_> = self.engine.watching().collect();
        awaited.into_iter().for_each(|peer| self.want(peer.0 as usize));
    }

    /// Where a receive from any source waits in a large group, some more of its members get their pairs.
    fn meet_awaited(&mut self) {
        if !self.has_unwatched() {
            return;
        }
        let awaiting = self.engine.awaiting_any();
        let probed = self.wanted.probed.iter().filter(|(_, source)| *source == Source::Any).map(|(inter, _)| *inter);
        let slots = 0..self.inters.slots.len();
        let is_posted = |slot: &usize| self.inters.slots[*slot].as_ref().is_some_and(|of| awaiting.contains(&of.ctx));
        let posted: Vec<usize> = slots.filter(is_posted).chain(probed.map(|inter| inter.slot as usize)).collect();
        posted.into_iter().for_each(|slot| self.meet_more(slot));
    }

    /// Whether in a large group there are members that a receive from any source would watch, and that it does not yet.
    fn has_unwatched(&self) -> bool {
        self.inters
            .slots
            .iter()
            .flatten()
            .any(|inter| !inter.is_whole && inter.watched < Members::watched_of(inter.size))
    }

    /// Some more members of a large group get their pairs, since a message of any of them is waited for: one may have died, or may not
    /// be able to dial.
    fn meet_more(&mut self, slot: usize) {
        let Some(inter) = self.inters.slots[slot].as_mut().filter(|inter| !inter.is_whole) else { return };
        let next = inter.watched..Members::watched_of(inter.size).min(inter.watched + WATCHED_EACH);
        inter.watched = next.end;
        let (local, members) = (inter.local, next.filter_map(|rank| inter.member(rank)).collect::<Vec<_>>());
        for member in members {
            self.meet_member(local, member);
        }
    }

    /// Connects the processes that could send the message of a probe. For a receive the engine knows them; a probe is no operation.
    pub fn watch_source(&mut self, inter: InterId, source: Source) {
        self.ctx_with(inter, source);
        if source == Source::Any && self.inters.get(inter).is_some() {
            self.meet_more(inter.slot as usize);
        }
        for i in self.sources(inter, source) {
            self.want(i);
        }
    }

    /// Connects the processes from which something is expected while no call blocks: a program that has begun a receive
    /// and computes, or that probes again and again, may expect it from a process that cannot dial. Returns whether a
    /// look was due; then the driver reports how long it took to [`Session::look_took`].
    pub fn watch_lingering(&mut self, now: Time) -> bool {
        if self.wanted.next_look.is_some_and(|t| now < t) {
            return false;
        }
        self.meet_awaited();
        let mut expected = self.expected();
        self.wanted.next_look = Some(now + LOOK_EVERY.max(self.wanted.rest));
        for (inter, source) in std::mem::take(&mut self.wanted.probed) {
            expected.extend(self.sources(inter, source).into_iter().filter(|&i| self.pairs[i].is_left_alone()));
        }
        for i in expected.intersection(&self.wanted.expected).copied().collect::<Vec<_>>() {
            self.want(i);
        }
        self.wanted.expected = expected;
        self.look_after_lanes(now, self.wanted.rest);
        self.try_better(now);
        true
    }

    /// Reports how long the last look took. The next one is due after fifty times as long, at least, if the look before took that long
    /// too: otherwise this process had no processor meanwhile.
    pub fn look_took(&mut self, took: Duration) {
        let before = std::mem::replace(&mut self.wanted.took, took);
        self.wanted.rest = took.min(before) * 50;
    }

    /// Reports that a probe has found nothing, since the engine has no operation for it.
    pub fn note_probe(&mut self, inter: InterId, source: Source) {
        self.ctx_with(inter, source);
        let probed = &mut self.wanted.probed;
        if probed.len() < MOST_PROBED && !probed.contains(&(inter, source)) {
            probed.push((inter, source));
        }
    }

    /// How soon [`Session::watch_lingering`] should be called again; `None`: no process is expected.
    pub fn lingers(&self) -> Option<Duration> {
        let awaits_others = || self.has_unwatched() && !self.engine.awaiting_any().is_empty();
        (!self.wanted.expected.is_empty() || !self.expected().is_empty() || awaits_others()).then_some(LOOK_EVERY)
    }

    /// Pairs without a lane from which something is expected, and which are not dialled.
    fn expected(&self) -> BTreeSet<usize> {
        // Mostly there is none, and then the operations need not be searched.
        if !self.pairs.iter().any(|(_, pair)| pair.is_left_alone()) {
            return BTreeSet::new();
        }
        let watched = self.engine.watching().map(|peer| peer.0 as usize);
        watched.filter(|&i| self.pairs[i].is_left_alone()).collect()
    }

    /// For MPI_Finalize: whether something is left to deliver to a process that never had a lane. The log says so once.
    pub fn tell_unreached(&mut self) -> bool {
        let unreached = |p: &Pair<L>| p.gone().is_none() && !p.evidence.met && p.owes();
        let left: Vec<_> = self.pairs.iter().filter(|(_, p)| unreached(p)).map(|(i, _)| i).collect();
        if let Some(&i) = left.first()
            && !std::mem::replace(&mut self.wanted.told, true)
        {
            let (remote, why) = (self.pairs[i].remote(), self.describe_trouble(i).unwrap_or_default());
            base::log!(Info, "{} processes have not come for what was sent to them; {remote}: {why}", left.len());
        }
        !left.is_empty()
    }

    /// For MPI_Finalize: whether something is left to deliver to, or to be taken by, a process that is held and comes back by itself. A
    /// notice says so once.
    pub fn tell_held(&mut self, now: Time) -> bool {
        let watched: BTreeSet<usize> = self.engine.watching().map(|peer| peer.0 as usize).collect();
        let waits = |i: &usize| {
            let pair = &self.pairs[*i];
            pair.gone().is_none() && (watched.contains(i) || pair.path.unacknowledged() > usize::from(pair.bye_said))
        };
        let mut left: Vec<usize> = (0..self.pairs.len()).filter(waits).collect();
        left.retain(|&i| self.is_away(i, now));
        if let Some(&i) = left.first()
            && !std::mem::replace(&mut self.wanted.told_held, true)
        {
            let remote = self.pairs[i].remote();
            base::log!(Notice, "MPI_Finalize waits for {remote}, which is held, to take what was sent to it");
        }
        !left.is_empty()
    }
}
