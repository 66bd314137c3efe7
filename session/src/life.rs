//! Signs of life: a silent lane is asked for one, a dark or mute lane is dialled beside, and a lane that answers keeps its place.
//!
//! Part of the session. Invariants: a lane on which bytes move is left alone, and silence alone ends no lane. Lanes
//! without a kernel between the two sides are not looked at. Lanes are looked at now and then, so messages cost nothing
//! more.

use crate::state::Session;
use crate::state::life::SILENCE;
use crate::state::pair::Pair;
use base::{Memory, Time};
use std::collections::BTreeSet;
use std::time::Duration;
use wire::lane::Lane;

/// The time between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// The most lanes that are asked at one look, so that thousands of silent lanes make no storm.
const MOST_QUESTIONS: usize = 16;

impl<L: Lane<M>, M: Memory> Session<L, M> {
    /// Looks at the lanes of all pairs from which something is awaited, be it the answer to an offer, or which have not acknowledged all that was
    /// sent. The next look is due after `rest`, at least. Returns whether a look was due.
    pub(crate) fn look_after_lanes(&mut self, now: Time, rest: Duration) -> bool {
        if self.watch.next.is_some_and(|t| now < t) {
            return false;
        }
        self.watch.look += 1;
        let concerns = |(_, pair): &(usize, &Pair<L>)| {
            let awaits = || pair.talk.as_ref().is_some_and(|talk| talk.negotiation.is_open());
            pair.lane().is_some() && (!pair.path.all_acknowledged() || awaits())
        };
        let mut concerned: BTreeSet<usize> = self.pairs.iter().filter(concerns).map(|(i, _)| i).collect();
        concerned.extend(self.engine.watching().map(|peer| peer.0 as usize));
        let mut questions = MOST_QUESTIONS;
        for i in concerned {
            if self.is_silent(i, now) && questions > 0 {
                questions -= 1;
                self.ask(i, now);
            }
        }
        self.watch.next = Some(now + LOOK_EVERY.max(rest));
        true
    }

    /// Looks at one lane. Returns whether it should be asked for a sign of life.
    fn is_silent(&mut self, i: usize, now: Time) -> bool {
        let look = self.watch.look;
        let pair = &mut self.pairs[i];
        let (remote, is_asking) = (pair.remote(), pair.path.is_asking());
        let Some(up) = pair.lane_mut() else { return false };
        let Some(kernel) = up.lane.in_kernel() else { return false };
        let acked = up.lane.written().wrapping_sub(kernel.bytes);
        let (life, brought) = (&mut up.life, up.brought);
        if life.look + 1 != look {
            // It was not looked at last time, so nothing is known of the time between.
            (life.heard, life.moved) = (now, now);
        }
        life.look = look;
        if life.brought != brought {
            (life.brought, life.heard) = (brought, now);
        }
        if life.acked != acked || !kernel.flying {
            (life.acked, life.moved) = (acked, now);
        }
        let silent = now.since(life.heard) >= SILENCE && !is_asking;
        let is_mute = is_asking && life.is_mute(now);
        let no_way = now.since(life.moved) >= SILENCE;
        let is_dark = no_way || is_mute;
        let was_dark = std::mem::replace(&mut life.dark, is_dark);
        if is_dark && !was_dark {
            let why = if no_way { "the way to it is dark" } else { "it does not answer" };
            base::log!(Info, "{remote}: {why}: a new connection is tried beside the old one");
        }
        if is_dark {
            self.look_soon(i);
        }
        silent
    }

    /// Asks the other side of a pair for a sign of life, unless a question is open.
    pub(crate) fn ask(&mut self, i: usize, now: Time) {
        let pair = &mut self.pairs[i];
        if pair.path.is_asking() {
            return;
        }
        let Some(up) = pair.lane_mut() else { return };
        up.life.asked = Some(now);
        pair.path.ask();
        self.mark(i);
    }

    /// Whether the pair's lane is dark: something is awaited from it, and what was sent does not reach the other side's
    /// kernel, or no answer comes for long. A process that is merely stopped has a kernel that acknowledges, so it is
    /// dialled rarely.
    pub(crate) fn is_dark(&self, i: usize) -> bool {
        self.pairs[i].lane().is_some_and(|up| up.life.dark && up.life.look + 1 >= self.watch.look)
    }
}
