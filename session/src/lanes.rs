//! Lanes of pairs: they are attached, dropped, and lost.
//!
//! Part of the session. Invariant: before its path hears of the loss, a lane gives back the bodies that the other side
//! may not have read.

use crate::action::Action;
use crate::hold::AWAY_REST;
use crate::state::Session;
use crate::state::life::Life;
use crate::state::pair::NewLane;
use crate::state::pair::{Dial, Link, Lost, Up};
use crate::strangers::RETURN_LIMIT;
use base::protocol::control::MAX_CALLER_FRAME;
use base::{Memory, Time};
use engine::Gone;
use std::time::Duration;
use wire::Scope;
use wire::lane::{Caps, Death, Lane};

/// A process is given up after malformed input on this many lanes in a row, if nothing else got through: more would follow.
const MAX_NONSENSE: u8 = 3;
/// How long to rest before the next dial after malformed input.
const NONSENSE_RESTS: Duration = Duration::from_millis(100);
/// How long to rest before the next dial after a handshake that claimed what cannot be.
const WRONG_RESTS: Duration = Duration::from_millis(250);
/// A message in more pieces of memory goes through the lane, also where the other side could read our memory.
const MOST_SEGMENTS: usize = 64;

impl<L: Lane<M>, M: Memory> Session<L, M> {
    /// Gives a pair a new lane in place of the one it had, or has it move to the new one from the one that it has. A lane whose handshake claims what cannot be is handed back by
    /// [`Action::Unused`], and the pair keeps what it has.
    pub fn attach(&mut self, i: usize, new: NewLane<L>, now: Time) {
        if let Some(moves) = new.moves {
            return self.arrive(i, new, moves, now);
        }
        let NewLane { mut lane, generation, received, transport, at, dialled, moves: _ } = new;
        let how = match (&self.pairs[i].dial, dialled) {
            (Dial::Underway(race), true) => format!("dialled{}", race.without),
            (_, true) => "dialled".into(),
            (_, false) => format!("answered{}", self.without(i, transport)),
        };
        let missed = self.missed(i, transport, dialled);
        self.end_dial(i);
        let pair = &mut self.pairs[i];
        // This is judged before the old lane is dropped.
        if !pair.path.could_attach(generation, received) {
            base::log!(Info, "{} answered what cannot be: connection closed", pair.remote());
            pair.dial = Dial::Resting(now + WRONG_RESTS);
            self.agenda.timed.insert(i);
            return self.act(Action::Unused { lane });
        }
        self.drop_lane(i);
        let scope = self.scope(transport);
        let title = self.title(transport);
        let pair = &mut self.pairs[i];
        let caps = lane.caps();
        pair.path.attach(generation, caps, received).expect("it could");
        let over = at.as_ref().map_or(title.into(), |at| format!("{title}, {at}"));
        let (local, remote) = (pair.local(), pair.remote());
        base::log!(Info, "{local} is connected to {remote} over {over} ({how}; generation {generation})");
        if scope != Some(Scope::Host) {
            // Who passes on has an address that says nothing of the process.
            pair.evidence.seen_at = at.filter(|_| scope == Some(Scope::Anywhere));
        }
        if pair.caller.is_some() {
            lane.limit_frames(MAX_CALLER_FRAME);
        }
        let up = Up { lane, generation, transport, brought: 0, waiting: 0, life: Life::new(now) };
        match &mut pair.link {
            Link::Gone { last, .. } => *last = Some(up),
            link => *link = Link::Up(up),
        }
        (pair.evidence.refused, pair.evidence.away, pair.evidence.is_old) = (None, false, false);
        pair.evidence.met_on_host |= scope == Some(Scope::Host);
        let again = std::mem::replace(&mut pair.evidence.met, true);
        let peer = pair.peer;
        self.adopt_caps(i, caps);
        self.pairs[i].moves.end();
        if !dialled {
            self.pairs[i].moves.other_has_chosen(transport);
        }
        self.note_way(i, scope, now);
        self.probe_host(i);
        self.mark(i);
        self.agenda.timed.remove(&i);
        self.judge_lane(i, now);
        if let Some(why) = missed {
            self.note_missed(i, why);
        }
        self.act(Action::Attached { pair: i });
        self.leave_if_held(i);
        self.tell_contact(i);
        if again {
            // The engine asks once per new lane, so that what is missing comes once.
            self.engine.on_lane_lost(peer);
        }
    }

    /// Tells the engine and the agenda what a new lane can do.
    pub(crate) fn adopt_caps(&mut self, i: usize, caps: Caps) {
        let peer = self.pairs[i].peer;
        self.engine.set_max_segments(peer, if caps.exposed { MOST_SEGMENTS } else { 0 });
        self.engine.set_pull(peer, caps.get);
        self.engine.set_eager_max(peer, caps.eager, caps.eager_alone);
        self.engine.set_begins(peer, caps.begins);
        if !caps.reliable {
            self.agenda.lossy.entry(i).or_default();
        }
    }

    /// Takes the lane from a pair, and those that are being left. Returns whether it had one.
    pub(crate) fn drop_lane(&mut self, i: usize) -> bool {
        self.end_all_leaving(i);
        let pair = &mut self.pairs[i];
        let Some(mut up) = pair.take_lane() else { return false };
        // The other side has had it, too: a lane may end before it has, and with it all that was said there.
        pair.is_expected_back &= up.brought == 0 || self.held.is_some();
        self.attribute(i, up.transport);
        let pair = &mut self.pairs[i];
        let caps = up.lane.caps();
        let unread = up.lane.unread();
        #[cfg(feature = "plant")]
        let unread = if self.plant == crate::Plant::NothingBack { Default::default() } else { unread };
        pair.path.take_back(unread);
        pair.path.lane_lost(up.generation);
        if !caps.needs_retention {
            // A forked child may hold it open, so closing it here would not end it.
            up.lane.cut();
        }
        let peer = pair.peer;
        if caps.get || caps.exposed {
            self.engine.set_max_segments(peer, 0);
            self.engine.set_pull(peer, false);
        }
        self.engine.set_eager_max(peer, 0, 0);
        self.engine.set_begins(peer, false);
        self.act(Action::Dropped { pair: i, lane: up.lane, left: false });
        true
    }

    /// Reports that a pair's lane is dead, see [`crate::Received::dead`]. The pair dials again if it can.
    pub fn lane_died(&mut self, i: usize, now: Time) {
        let Some(up) = self.pairs[i].lane() else { return };
        let death = up.lane.death();
        let why = death.map_or_else(|| self.given_up(i).into(), Death::to_string);
        let (nonsense, hung_up) = (matches!(death, Some(Death::Malformed)), matches!(death, Some(Death::Closed)));
        self.lane_lost(i, nonsense, hung_up, &why, now);
    }

    /// Why a pair has no use any more for a lane that is alive.
    fn given_up(&self, i: usize) -> &'static str {
        match () {
            () if self.held.is_some() => "this process is held, and the other side knows",
            () if self.pairs[i].is_away() => "the other side is held",
            () => "its transport is taken out of use",
        }
    }

    /// A pair has lost its lane. `nonsense`: to malformed input. `hung_up`: the other side has closed it.
    fn lane_lost(&mut self, i: usize, nonsense: bool, hung_up: bool, why: &str, now: Time) {
        let got_through = self.pairs[i].path.got_through();
        self.drop_lane(i);
        let pair = &mut self.pairs[i];
        let Link::Apart { lost } = &mut pair.link else { return };
        if nonsense {
            if got_through > std::mem::replace(&mut pair.evidence.got_through, got_through) {
                pair.evidence.nonsense = 0;
            }
            pair.evidence.nonsense += 1;
            if pair.evidence.nonsense >= MAX_NONSENSE {
                let why =
                    format!("it spoke nonsense on {MAX_NONSENSE} connections one after the other, and nothing else");
                return self.give_up(i, Gone::Dead, &why);
            }
        }
        *lost = Some(Lost { since: now, hung_up });
        pair.moves.end();
        base::log!(Info, "the lane to {} is lost: {why}", pair.remote());
        // After lanes that died without input, the next one has to wait.
        let next = match pair.evidence.tries {
            _ if pair.caller.is_some() => Dial::Resting(now + RETURN_LIMIT),
            _ if nonsense => Dial::Resting(now + NONSENSE_RESTS),
            // It comes back by itself.
            _ if pair.evidence.away => Dial::Resting(now + AWAY_REST),
            0 => Dial::Idle,
            _ => Dial::Resting(now + pair.rest()),
        };
        pair.evidence.tries = pair.evidence.tries.saturating_add(1);
        // A dial that had begun beside the lane goes on.
        if pair.caller.is_some() || matches!(pair.dial, Dial::Idle | Dial::Resting(_)) {
            self.end_dial(i);
            self.pairs[i].dial = next;
        }
        self.look_soon(i);
    }

    /// Gives a caller that has lost its lane its time to come again.
    pub(crate) fn await_caller(&mut self, i: usize, now: Time) {
        let pair = &mut self.pairs[i];
        if pair.caller.is_some() {
            pair.dial = Dial::Resting(now + RETURN_LIMIT);
        }
    }

    /// A stripe of a lane is lost: the engine asks again for the bulk that was on it, over the other stripes.
    pub(crate) fn bulk_lost(&mut self, i: usize) {
        let pair = &self.pairs[i];
        base::log!(Info, "one of the connections to {} is lost", pair.remote());
        self.engine.on_lane_lost(pair.peer);
        // Also with nothing to ask for: the other side is to be told.
        self.mark(i);
    }
}
