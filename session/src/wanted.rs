//! Whoever is waited for: connected so that its death is noticed, also if it could not come by itself.
//!
//! Part of the session. Invariant: whoever is dialled for this is one from whom something is expected.

use crate::state::Session;
use crate::state::inters::InterId;
use crate::state::pair::Pair;
use base::{Memory, Time};
use engine::Source;
use std::collections::BTreeSet;
use std::time::Duration;
use wire::lane::Lane;

/// How often those are looked for whom somebody expects, without waiting. Whoever is expected at two looks is dialled.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Probes for different sources that are remembered between two looks.
const MOST_PROBED: usize = 16;

impl<L: Lane<M>, M: Memory> Session<L, M> {
    /// Somebody waits for this pair.
    pub fn want(&mut self, i: usize) {
        let pair = &mut self.pairs[i];
        if !pair.wanted && pair.gone().is_none() {
            pair.wanted = true;
            self.look_soon(i);
        }
    }

    /// Connects the processes that somebody waits for: their death would not be noticed otherwise, and some could not come
    /// by themselves.
    pub fn watch_awaited(&mut self) {
        let awaited: Vec<_> = self.engine.watching().collect();
        awaited.into_iter().for_each(|peer| self.want(peer.0 as usize));
    }

    /// Connects the processes from which something is expected though nobody waits: whoever has begun a receive and computes,
    /// or asks again and again, may expect it from one that cannot dial. Whether it was time to look: then the driver says how
    /// long that took, by [`Session::look_took`].
    pub fn watch_lingering(&mut self, now: Time) -> bool {
        if self.wanted.next_look.is_some_and(|t| now < t) {
            return false;
        }
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
        true
    }

    /// How long the last look took: the next comes after fifty times as long, at least.
    pub fn look_took(&mut self, took: Duration) {
        self.wanted.rest = took * 50;
    }

    /// A probe has looked in vain. No operation stands for it.
    pub fn note_probe(&mut self, inter: InterId, source: Source) {
        let probed = &mut self.wanted.probed;
        if probed.len() < MOST_PROBED && !probed.contains(&(inter, source)) {
            probed.push((inter, source));
        }
    }

    /// When the next look is due, if somebody is expected.
    pub fn lingers(&self) -> Option<Duration> {
        (!self.wanted.expected.is_empty() || !self.expected().is_empty()).then_some(LOOK_EVERY)
    }

    /// Pairs without a lane from which something is expected, and which nobody dials.
    fn expected(&self) -> BTreeSet<usize> {
        // Mostly there is none, and then nobody need be looked for among the operations.
        if !self.pairs.iter().any(|(_, pair)| pair.is_left_alone()) {
            return BTreeSet::new();
        }
        let watched = self.engine.watching().map(|peer| peer.0 as usize);
        watched.filter(|&i| self.pairs[i].is_left_alone()).collect()
    }

    /// For Finalize: whether somebody is owed something who could never be reached, and has not come yet; the log says it
    /// once.
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
}
