//! Whether lanes are alive: whoever waits asks for a sign of life, dials beside a lane whose way is dark, and lets nobody
//! take the place of one that answers.
//!
//! Part of the session. Invariant: a lane that moves is left alone, and silence alone ends none. Of lanes of which a kernel
//! can tell, it does. Looked at now and then only: what is sent and received pays nothing.

use crate::state::Session;
use crate::state::life::SILENCE;
use crate::state::pair::Pair;
use base::{Memory, Time};
use std::collections::BTreeSet;
use std::time::Duration;
use wire::lane::Lane;

/// How often lanes are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// So many are asked at one look: thousands that wait make no storm.
const MOST_QUESTIONS: usize = 16;

impl<L: Lane<M>, M: Memory> Session<L, M> {
    /// Looks at the lanes of all from whom something is awaited, or who have not acknowledged what they were sent; not before
    /// `rest` has passed since. Whether it was time to look.
    pub(crate) fn look_after_lanes(&mut self, now: Time, rest: Duration) -> bool {
        if self.vigil.next.is_some_and(|t| now < t) {
            return false;
        }
        self.vigil.look += 1;
        let owes = |(_, pair): &(usize, &Pair<L>)| pair.lane().is_some() && !pair.path.all_acknowledged();
        let mut concerned: BTreeSet<usize> = self.pairs.iter().filter(owes).map(|(i, _)| i).collect();
        concerned.extend(self.engine.watching().map(|peer| peer.0 as usize));
        let mut questions = MOST_QUESTIONS;
        for i in concerned {
            if self.is_silent(i, now) && questions > 0 {
                questions -= 1;
                self.ask(i, now);
            }
        }
        self.vigil.next = Some(now + LOOK_EVERY.max(rest));
        true
    }

    /// Looks at one lane; whether it should be asked for a sign of life.
    fn is_silent(&mut self, i: usize, now: Time) -> bool {
        let look = self.vigil.look;
        let pair = &mut self.pairs[i];
        let (remote, is_asking) = (pair.remote(), pair.path.is_asking());
        let Some(up) = pair.lane_mut() else { return false };
        let Some(kernel) = up.lane.in_kernel() else { return false };
        let acked = up.lane.written().wrapping_sub(kernel.bytes);
        let (life, brought) = (&mut up.life, up.brought);
        if life.look + 1 != look {
            // Nobody has cared for a while.
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
        let is_dark = now.since(life.moved) >= SILENCE;
        let was_dark = std::mem::replace(&mut life.dark, is_dark);
        if is_dark && !was_dark {
            base::log!(Info, "the way to {remote} is dark: a new connection is tried beside the old one");
        }
        if is_dark {
            self.look_soon(i);
        }
        silent
    }

    /// Asks the other side for a sign of life, unless it has been asked.
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

    /// Whether somebody waits for a lane on which what was sent does not get to the other side's kernel. A process that is
    /// merely stopped has a kernel that takes it.
    pub(crate) fn is_dark(&self, i: usize) -> bool {
        self.pairs[i].lane().is_some_and(|up| up.life.dark && up.life.look + 1 >= self.vigil.look)
    }
}
