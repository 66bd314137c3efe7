//! Moves: a pair whose lane lives goes over to another transport, by a dial beside that lane.
//!
//! Part of the session. Invariants: the pair keeps its lane until the new one is there. A move that fails says nothing of
//! the other side's life. A transport that has failed is left alone for ever longer, so no pair goes to and fro. An order stands if
//! its move arrives, or has to wait for a process that does not answer; one that is refused is withdrawn.

use crate::dial::GIVE_WAY;
use crate::state::Session;
use crate::state::evidence::Refusal;
use crate::state::moves::Moving;
use crate::state::pair::{Dial, NewLane};
use crate::{Pair, Up};
use base::{Memory, ProcId, Time};
use std::fmt;
use std::time::Duration;
use wire::lane::Lane;
use wire::{Move, Scope, TransportId, Why};

/// How long a move that an operator has ordered may take, with all its tries.
const LIMIT: Duration = Duration::from_secs(10);

/// What becomes of a move that its process does not answer.
const UNANSWERED: &str = "it does not answer; the pair moves when it does";

/// What has become of a pair that was to move.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Became {
    /// It still moves, or reads the lane that it has left.
    Moving,
    /// It has moved, or lost its lane: then its next one is of the transport that it should use.
    Moved,
    /// It stays where it is, for this reason.
    Stays(String),
    /// It waits for its process, which does not answer, and moves when it does.
    Waits(&'static str),
}

/// What an order does to a pair at first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ordered {
    /// It moves.
    Moves,
    /// It is there already.
    There,
    /// It has no lane. The order counts when it gets one.
    NotConnected,
}

/// Why a pair cannot be moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CannotMove {
    /// Its process is gone.
    Gone,
    /// It has no contact record here: only the other side can dial.
    OnlyTheOtherSide,
    /// The transport does not reach its process, for this reason.
    Transport(&'static str),
    /// An operator has ordered this other one here.
    Ordered(&'static str),
    /// As far as this side has heard, the other side's operator has ordered this other one.
    OrderedThere(&'static str),
    /// It uses this one, which is better.
    Better(&'static str),
}

impl fmt::Display for CannotMove {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CannotMove::Gone => "its process is gone",
            CannotMove::OnlyTheOtherSide => "only the other side can dial",
            CannotMove::Transport(why) => why,
            CannotMove::Ordered(word) => return write!(f, "{word} is ordered"),
            CannotMove::OrderedThere(word) => return write!(f, "the other side has ordered {word}"),
            CannotMove::Better(word) => return write!(f, "{word} is better"),
        })
    }
}

impl<L: Lane<M>, M: Memory> Session<L, M> {
    /// An operator wants this transport for a pair from now on; `None`: the best one.
    pub fn move_to(&mut self, i: usize, transport: Option<TransportId>, now: Time) -> Result<Ordered, CannotMove> {
        if self.pairs[i].gone().is_some() {
            return Err(CannotMove::Gone);
        }
        if let Some(wanted) = transport {
            let about = self.own.transports.iter().map(|(about, _)| *about).find(|about| about.id == wanted);
            match about.map(|about| self.why_not(i, &about)) {
                None => return Err(CannotMove::Transport("it is not known here")),
                Some(Some(why)) => return Err(CannotMove::Transport(why)),
                Some(None) => (),
            }
        }
        let moves = &mut self.pairs[i].moves;
        let before = (moves.pinned, moves.pinned_here);
        moves.order(transport, true);
        let ordered = self.move_to_preferred(i, now);
        let moves = &mut self.pairs[i].moves;
        if let Some(moving) = &mut moves.underway {
            moving.instead = Some(before);
        }
        if ordered.is_err() {
            moves.order(before.0, before.1);
        }
        ordered
    }

    /// A pair moves to the transport that it should use, now that others are there than before: the one that an operator has
    /// ordered, or else the best.
    pub fn move_to_preferred(&mut self, i: usize, now: Time) -> Result<Ordered, CannotMove> {
        let pair = &mut self.pairs[i];
        pair.moves.end();
        let Some(used) = pair.lane().map(|up| up.transport) else { return Ok(Ordered::NotConnected) };
        let Some(to) = self.preferred(i).filter(|to| *to != used) else { return Ok(Ordered::There) };
        let pair = &mut self.pairs[i];
        if !pair.can_dial() || pair.caller.is_some() {
            return Err(CannotMove::OnlyTheOtherSide);
        }
        let why = if pair.moves.pinned == Some(to) { Why::Ordered } else { Why::Freed };
        self.begin_move(i, to, why, now);
        Ok(Ordered::Moves)
    }

    /// The processes of the pairs on this transport that have, as far as they have told, no other one that is used here.
    pub fn reached_only_by(&self, transport: TransportId) -> Vec<ProcId> {
        let uses = |pair: &Pair<L>| pair.gone().is_none() && pair.lane().is_some_and(|up| up.transport == transport);
        let has = |pair: &Pair<L>, other| pair.who.contact.as_ref().is_none_or(|c| c.entry(other).is_some());
        let only = |i: usize, pair: &Pair<L>| !self.usable(i).any(|other| other != transport && has(pair, other));
        self.pairs().filter(|(i, pair)| uses(pair) && only(*i, pair)).map(|(_, pair)| pair.remote()).collect()
    }

    /// Whether a pair uses this transport, now that it may be used, or is on its way to another; otherwise why it does not.
    pub fn uses(&self, i: usize, transport: TransportId) -> Result<Ordered, CannotMove> {
        let pair = &self.pairs[i];
        let Some(used) = pair.lane().map(|up| up.transport) else { return Ok(Ordered::NotConnected) };
        if self.is_moving(i) {
            return Ok(Ordered::Moves);
        }
        if used == transport {
            return Ok(Ordered::There);
        }
        let about = self.own.transports.iter().map(|(about, _)| about).find(|about| about.id == transport);
        if let Some(why) = about.and_then(|about| self.why_not(i, about)) {
            return Err(CannotMove::Transport(why));
        }
        Err(match pair.moves.pinned {
            Some(pinned) if pinned == used && pair.moves.pinned_here => CannotMove::Ordered(self.word(used)),
            Some(pinned) if pinned == used => CannotMove::OrderedThere(self.word(used)),
            _ if self.preferred(i) == Some(transport) => CannotMove::OnlyTheOtherSide,
            _ => CannotMove::Better(self.word(used)),
        })
    }

    /// The transport that this pair should use: the one that an operator wants, or else the best that may reach the process.
    pub(crate) fn preferred(&self, i: usize) -> Option<TransportId> {
        self.usable(i).next()
    }

    /// The transports that may reach the process of a pair, in the order in which they are tried.
    pub(crate) fn usable(&self, i: usize) -> impl Iterator<Item = TransportId> {
        let pinned = self.pairs[i].moves.pinned;
        let all = || self.own.transports.iter().map(|(about, _)| about);
        let first = all().filter(move |about| Some(about.id) == pinned);
        let rest = all().filter(move |about| Some(about.id) != pinned);
        first.chain(rest).filter(move |about| self.why_not(i, about).is_none()).map(|about| about.id)
    }

    fn begin_move(&mut self, i: usize, to: TransportId, why: Why, now: Time) {
        self.end_dial(i);
        // What the lane brings tells a process that does not answer from a transport that does not get through to it.
        self.ask(i, now);
        let moves = &mut self.pairs[i].moves;
        moves.unanswered = None;
        moves.underway = Some(Moving { to, why, until: now + LIMIT, instead: None });
        self.look_soon(i);
    }

    /// Ends the move of a pair that has had its time.
    pub(crate) fn limit_move(&mut self, i: usize, now: Time) {
        if self.pairs[i].moves.underway.is_some_and(|moving| now >= moving.until) {
            self.end_move(i, Some(Refusal::TimedOut), now);
        }
    }

    /// Dials for the move of a pair, which has a lane.
    pub(crate) fn step_move(&mut self, i: usize, now: Time) {
        let pair = &self.pairs[i];
        let (Some(moving), Some(up)) = (pair.moves.underway, pair.lane()) else { return };
        if up.transport == moving.to {
            // The other side has moved it.
            return self.end_move(i, None, now);
        }
        let leaves = Move { leaves: up.generation, why: moving.why };
        if let Dial::Idle | Dial::Resting(_) = pair.dial
            && let Some(hello) = self.next_hello(i, Some(leaves))
        {
            self.race_for(i, hello, vec![moving.to], String::new());
        }
    }

    /// The dial of a move has failed.
    pub(crate) fn move_failed(&mut self, i: usize, theirs: Option<u16>, failed: &[Refusal], now: Time) {
        let pair = &mut self.pairs[i];
        pair.dial = Dial::Idle;
        let is_ordered = pair.moves.underway.is_some_and(|moving| moving.why != Why::Better);
        if is_ordered && matches!(failed.last(), Some(Refusal::TimedOut | Refusal::Later)) {
            // The other side may only be slow. The limit of the move ends this.
            self.ask(i, now);
            let pair = &mut self.pairs[i];
            pair.dial = Dial::Resting(now + GIVE_WAY);
            return self.look_soon(i);
        }
        match theirs {
            // The other side dials too, or has another lane than we by now.
            Some(generation) => {
                pair.evidence.seen_generation = generation;
                pair.dial = Dial::Resting(now + GIVE_WAY);
                self.look_soon(i);
            }
            None => {
                let why = failed.last().cloned();
                self.end_move(i, Some(why.unwrap_or(Refusal::System("it has told no address".into()))), now);
            }
        }
    }

    /// A move is over. `trouble`: it has failed.
    fn end_move(&mut self, i: usize, trouble: Option<Refusal>, now: Time) {
        self.end_dial(i);
        let pair = &mut self.pairs[i];
        let moving = pair.moves.underway;
        pair.moves.end();
        let (Some(moving), Some(why)) = (moving, trouble) else { return };
        let is_unanswered = why == Refusal::TimedOut && pair.path.is_asking();
        let why = if is_unanswered { UNANSWERED.into() } else { why.to_string() };
        base::log!(Debug, "{} stays on its lane, transport {:?} failed: {why}", pair.remote(), moving.to);
        pair.moves.again.failed(now);
        pair.moves.trouble = Some(why.into_boxed_str());
        if is_unanswered {
            pair.moves.unanswered = Some(moving.why);
        } else if let Some((transport, here)) = moving.instead {
            pair.moves.order(transport, here);
        }
        // It is tried again, if the pair should still use another one.
        self.agenda.worse.insert(i);
    }

    /// A new lane takes the place of one that lives.
    pub(crate) fn arrive(&mut self, i: usize, new: NewLane<L>, moves: Move, now: Time) {
        self.end_dial(i);
        let (generation, transport, dialled) = (new.generation, new.transport, new.dialled);
        let at = new.at.clone();
        self.pairs[i].moves.end();
        if !self.swap(i, new, now) {
            return;
        }
        let scope = self.scope(transport);
        let title = self.title(transport);
        let pair = &mut self.pairs[i];
        if !dialled {
            match moves.why {
                Why::Better => pair.moves.other_has_chosen(transport),
                Why::Ordered => pair.moves.order(Some(transport), false),
                Why::Freed => pair.moves.order(None, false),
            }
        }
        let over = at.as_ref().map_or(title.into(), |at| format!("{title}, {at}"));
        let how = if dialled { "dialled" } else { "answered" };
        base::log!(Info, "{} moves to {over} ({how}; generation {generation})", pair.remote());
        if scope != Some(Scope::Host) {
            pair.evidence.seen_at = at.filter(|_| scope == Some(Scope::Anywhere));
        }
        pair.evidence.met_on_host |= scope == Some(Scope::Host);
        pair.evidence.refused = None;
        self.note_way(i, scope, now);
        self.probe_host(i);
        self.judge_lane(i, now);
    }

    /// Notes whether the lane that a pair has got is of the transport that it should use. If an operator has ordered another one, it
    /// moves at once: the order may have come while there was no lane, and the other side does not know it.
    pub(crate) fn judge_lane(&mut self, i: usize, now: Time) {
        let preferred = self.preferred(i);
        let pair = &mut self.pairs[i];
        let Some(up) = pair.lane() else { return };
        if preferred.is_none_or(|best| best == up.transport) || !pair.can_dial() || pair.caller.is_some() {
            pair.moves.arrived(now);
            self.agenda.worse.remove(&i);
        } else {
            pair.moves.again.left(now);
            let ordered = preferred.filter(|to| pair.moves.is_ordered_here(*to));
            self.agenda.worse.insert(i);
            if let Some(to) = ordered.filter(|_| self.held.is_none()) {
                self.begin_move(i, to, Why::Ordered, now);
            }
        }
    }

    /// Why a pair that gets a lane of this transport has none of that which it should use; `None`: it is the same, or nobody has tried.
    pub(crate) fn missed(&self, i: usize, transport: TransportId, dialled: bool) -> Option<Refusal> {
        let best = self.preferred(i).filter(|best| *best != transport)?;
        match &self.pairs[i].dial {
            _ if !dialled => Some(Refusal::System("the other side has dialled another way".into())),
            Dial::Underway(race) => {
                race.before.iter().rfind(|(at, _)| at.transport == best).map(|(_, why)| why.clone())
            }
            _ => None,
        }
    }

    /// Notes why a pair that is to move has no lane of the transport that it should use.
    pub(crate) fn note_missed(&mut self, i: usize, why: Refusal) {
        let moves = &mut self.pairs[i].moves;
        if self.agenda.worse.contains(&i) && moves.underway.is_none() {
            moves.trouble = Some(why.to_string().into_boxed_str());
            if matches!(why, Refusal::TimedOut | Refusal::Later) {
                // It was slow to answer there, stopped or held, and answers now.
                moves.again.soon();
            }
        }
    }

    /// Tries again to move pairs to the transport that they should use. Called now and then.
    pub(crate) fn try_better(&mut self, now: Time) {
        for i in self.agenda.worse.clone() {
            let pair = &self.pairs[i];
            let is_up = pair.gone().is_none() && pair.lane().is_some();
            let rests = matches!(pair.dial, Dial::Idle) && pair.moves.again.is_due(now);
            // One that was not answered need not rest when it is.
            let answered = pair.moves.unanswered.filter(|_| !pair.path.is_asking());
            if !is_up {
                self.agenda.worse.remove(&i);
            } else if pair.moves.underway.is_none() && (answered.is_some() || rests) {
                let transport = pair.lane().map(|up| up.transport);
                match self.preferred(i) {
                    Some(best) if Some(best) != transport => {
                        let is_ordered = self.pairs[i].moves.is_ordered_here(best);
                        let why = answered.unwrap_or(if is_ordered { Why::Ordered } else { Why::Better });
                        if answered.is_some()
                            && let Some(up) = self.pairs[i].lane_mut()
                        {
                            // On that lane it has answered, and it would refuse one beside it.
                            up.life.dark = false;
                        }
                        self.begin_move(i, best, why, now);
                    }
                    _ => {
                        self.agenda.worse.remove(&i);
                    }
                }
            }
        }
    }

    /// What has become of a pair that was to move.
    pub fn became(&self, i: usize) -> Became {
        let moves = &self.pairs[i].moves;
        match &moves.trouble {
            _ if self.is_moving(i) => Became::Moving,
            None => Became::Moved,
            Some(_) if moves.unanswered.is_some() => Became::Waits(UNANSWERED),
            Some(why) => Became::Stays(why.to_string()),
        }
    }

    /// Whether a pair is being moved to another transport, or still reads a lane that it has left.
    pub fn is_moving(&self, i: usize) -> bool {
        let pair = &self.pairs[i];
        pair.moves.underway.is_some() || !pair.leaving.is_empty()
    }

    /// How many lanes of this transport there are, those that pairs have left too.
    pub fn lanes_of(&self, transport: TransportId) -> usize {
        let of = |up: &&Up<L>| up.transport == transport;
        self.pairs.iter().map(|(_, pair)| pair.lane().into_iter().chain(&pair.leaving).filter(of).count()).sum()
    }

    /// Reports that a transport can be used from now on, or, with a reason, that it cannot.
    pub fn set_transport(&mut self, transport: TransportId, state: Result<(), &'static str>) {
        if let Some((_, known)) = self.own.transports.iter_mut().find(|(about, _)| about.id == transport) {
            *known = state;
        }
    }
}
