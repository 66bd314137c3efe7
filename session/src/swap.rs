//! Swaps: a lane gives way to another while it lives, and what it still carries is read to its end.
//!
//! Part of the session. Invariant: a lane that is being left is kept until both sides have left it and have read all of
//! it, and no longer than the pair has another.

use crate::action::Action;
use crate::state::Session;
use crate::state::life::Life;
use crate::state::pair::NewLane;
use crate::state::pair::{Link, Up};
use crate::traffic::BUDGET;
use base::{Memory, Time};
use wire::lane::{Event, Lane};

impl<L: Lane<M>, M: Memory> Session<L, M> {
    /// Moves a pair to another lane. The one that it has, if it has not been lost meanwhile, gets SWITCH as its last frame
    /// and is read to its end. `false`: the process is gone, or the generation is an old one; the new lane is handed back by
    /// [`Action::Unused`], and nothing has changed.
    pub fn swap(&mut self, i: usize, new: NewLane<L>, now: Time) -> bool {
        let NewLane { lane, generation, transport, .. } = new;
        let caps = lane.caps();
        let pair = &mut self.pairs[i];
        let peer = pair.peer;
        if matches!(pair.link, Link::Gone { .. }) || pair.path.switch(generation, caps).is_err() {
            self.act(Action::Unused { lane });
            return false;
        }
        let up = Up { lane, generation, transport, brought: 0, waiting: 0, life: Life::new(now) };
        if let Link::Up(old) = std::mem::replace(&mut pair.link, Link::Up(up)) {
            // The new lane has the whole time for the answer to an open question.
            if let Link::Up(up) = &mut pair.link {
                up.life.asked = old.life.asked.map(|_| now);
            }
            let before = old.transport;
            pair.leaving.push(old);
            self.act(Action::Left { pair: i });
            self.attribute(i, before);
        }
        self.agenda.left.insert(i);
        self.adopt_caps(i, caps);
        self.engine.on_lane_lost(peer);
        self.mark(i);
        self.act(Action::Attached { pair: i });
        self.leave_if_held(i);
        true
    }

    /// Reads the lanes that are being left. Returns how many bytes came.
    #[cold]
    pub(crate) fn receive_leaving(&mut self, i: usize, budget: usize) -> usize {
        let mut bytes = 0;
        let mut at = 0;
        while at < self.pairs[i].leaving.len() {
            let (read, dead) = self.read_leaving(i, at, budget);
            bytes += read;
            if dead {
                self.end_leaving(i, at);
            } else {
                at += 1;
            }
        }
        bytes
    }

    /// Reads one of them. Returns how many bytes came, and whether it is dead.
    fn read_leaving(&mut self, i: usize, at: usize, budget: usize) -> (usize, bool) {
        let pair = &mut self.pairs[i];
        let mut up = pair.leaving.swap_remove(at);
        let bytes = self.read_lane(i, &mut up, budget);
        up.brought += u32::from(bytes > 0);
        let dead = up.lane.event() == Some(Event::Dead);
        let leaving = &mut self.pairs[i].leaving;
        leaving.push(up);
        let last = leaving.len() - 1;
        leaving.swap(at, last);
        (bytes, dead)
    }

    /// Hands lanes that are being left their last frames, and closes those that both sides have left.
    #[cold]
    pub(crate) fn write_leaving(&mut self, i: usize) {
        let pair = &mut self.pairs[i];
        for up in &mut pair.leaving {
            pair.path.pump(up.generation, &mut up.lane, &self.mem);
            up.lane.flush(&self.mem);
        }
        loop {
            let pair = &mut self.pairs[i];
            let leaving = &pair.leaving;
            #[cfg(feature = "plant")]
            let unread = self.plant == crate::Plant::ClosedUnread;
            #[cfg(not(feature = "plant"))]
            let unread = false;
            let is_read =
                |generation| unread || leaving.iter().all(|up| up.generation != generation || up.lane.is_read());
            let Some(generation) = pair.path.retired(is_read) else { return };
            if let Some(at) = pair.leaving.iter().position(|up| up.generation == generation) {
                let lane = pair.leaving.remove(at).lane;
                self.act(Action::Dropped { pair: i, lane, left: true });
            }
        }
    }

    /// Gives up lanes that are being left and have long brought nothing. What they may have lost is sent again.
    pub(crate) fn step_leaving(&mut self, now: Time) {
        for i in self.agenda.left.iter().copied().collect::<Vec<_>>() {
            // No event says that the other side has read the rest, and none has to come of what it wrote last.
            self.receive_leaving(i, BUDGET);
            self.write_leaving(i);
            let mut at = 0;
            while let Some(up) = self.pairs[i].leaving.get_mut(at) {
                if up.life.is_still(up.brought, now) {
                    self.end_leaving(i, at);
                } else {
                    at += 1;
                }
            }
            if self.pairs[i].leaving.is_empty() {
                self.agenda.left.remove(&i);
            }
        }
    }

    /// A lane that is being left is gone.
    fn end_leaving(&mut self, i: usize, at: usize) {
        let pair = &mut self.pairs[i];
        let mut up = pair.leaving.remove(at);
        let unread = up.lane.unread();
        #[cfg(feature = "plant")]
        let unread = if self.plant == crate::Plant::LeftNothingBack { Default::default() } else { unread };
        pair.path.take_back(unread);
        pair.path.lane_lost(up.generation);
        self.mark(i);
        self.act(Action::Dropped { pair: i, lane: up.lane, left: true });
    }

    /// All lanes that are being left are gone.
    pub(crate) fn end_all_leaving(&mut self, i: usize) {
        while !self.pairs[i].leaving.is_empty() {
            self.end_leaving(i, 0);
        }
    }
}
