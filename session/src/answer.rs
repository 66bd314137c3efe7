//! Those who come: their HELLOs, and which of them gets a lane.
//!
//! Part of the session. Invariant: nobody takes a pair's place who does not know its group's cookie, and a lane that works is
//! not given up for one that claims what cannot be.

use crate::action::Action;
use crate::action::VisitorId;
use crate::state::Session;
use crate::state::groups::Registered;
use crate::state::pair::Identity;
use crate::state::visitors::{Answered, Parked, State};
use base::{Memory, ProcId, Time};
use engine::Gone;
use std::time::Duration;
use wire::frame::older;
use wire::lane::Lane;
use wire::{Hello, HelloAck, Status};

/// A HELLO of ours that is older does not stand in the way of theirs.
const OWN_DIAL_STANDS: Duration = Duration::from_secs(2);
/// A lane is given so long to answer before another that has come gets its place.
const ANSWER_LIMIT: Duration = Duration::from_secs(1);

impl<L: Lane<M>, M: Memory> Session<L, M> {
    /// A visitor has said its HELLO.
    pub fn hello(&mut self, visitor: VisitorId, hello: &Hello, now: Time) {
        if hello.stripe == 0 { self.answer(visitor, hello, false, now) } else { self.answer_stream(visitor, hello) }
    }

    fn ack(&self, status: Status, generation: u16) -> HelloAck {
        HelloAck { status, generation, process: self.own.process, received: 0, proof: Vec::new() }
    }

    /// `mute`: the lane that its pair has was asked, and says nothing.
    fn answer(&mut self, visitor: VisitorId, hello: &Hello, mute: bool, now: Time) {
        let verdict = self.verdict(hello, now);
        if !mute && verdict.as_ref().is_ok_and(|(i, _)| self.ask_first(*i, visitor, hello, now)) {
            return;
        }
        match verdict {
            Ok((i, ack)) => {
                let (serial, generation, received) = (self.pairs[i].serial, ack.generation, hello.received);
                self.pairs[i].answered = Some(visitor);
                let instead_of = self.pairs[i].lane().map(|up| up.generation);
                if let Some(v) = self.visitors.get_mut(visitor) {
                    v.state = State::Answered(Answered { pair: i, serial, generation, received, instead_of });
                }
                self.act(Action::Answer { visitor, pair: i, ack });
            }
            Err(refusal) => {
                self.visitors.take(visitor);
                self.act(match refusal {
                    Some(ack) => Action::Refuse { visitor, ack },
                    None => Action::Dismiss { visitor },
                });
            }
        }
    }

    /// A visitor that was answered has its end of the lane: for which pair ours is to be made, and given to
    /// [`Session::attach`], with which generation and count of bodies that the other side has. `None`: for none any more.
    pub fn visitor_ready(&mut self, visitor: VisitorId) -> Option<(usize, u16, u64)> {
        let State::Answered(a) = self.visitors.take(visitor)?.state else { return None };
        let pair = &self.pairs[a.pair];
        // Much may have happened since.
        let lane = pair.lane().map(|up| up.generation);
        let is_same = pair.serial == a.serial && (lane.is_none() || lane == a.instead_of);
        let fits = is_same && pair.path.could_attach(a.generation, a.received);
        fits.then_some((a.pair, a.generation, a.received))
    }

    /// Whether one has come for this pair, was answered, and has yet to say the last word.
    pub(crate) fn is_coming(&self, i: usize) -> bool {
        self.pairs[i].answered.is_some_and(|visitor| self.visitors.is_answered(visitor))
    }

    /// Which pair gets a lane, and the answer to its HELLO; or the answer that refuses it, if it deserves one.
    fn verdict(&mut self, hello: &Hello, now: Time) -> Result<(usize, HelloAck), Option<HelloAck>> {
        let i = match self.judge(hello, now) {
            Ok(i) => i,
            Err((status, generation)) => {
                base::log!(Debug, "{} dialled {}: {status}", hello.source, hello.dest);
                return Err(Some(self.ack(status, generation)));
            }
        };
        let path = &self.pairs[i].path;
        let own = path.offered_generation();
        if !path.could_attach(own, hello.received) {
            // Its lane, if it has one, stays: whoever this is has not shown to know better.
            base::log_seldom!(Info, "{} claims to have received what was never sent: refused", hello.source);
            if self.pairs.strangers.contains(&i) && self.pairs[i].lane().is_none() {
                self.forget_stranger(i);
            }
            return Err(None);
        }
        let generation = if older(hello.generation, own) { own } else { hello.generation };
        let received = path.received();
        Ok((i, HelloAck { received, ..self.ack(Status::Good, generation) }))
    }

    /// Which pair may have a lane, or what to say instead.
    fn judge(&mut self, hello: &Hello, now: Time) -> Result<usize, (Status, u16)> {
        let removed = self.admit(hello)?.removed;
        let none = Err((Status::NoSuchProcess, 0));
        let i = match self.find_pair(hello.dest, hello.source) {
            Some(i) => i,
            None if removed || !self.may_be(hello.dest, hello.source) => return none,
            None => self.make_stranger(hello, now)?,
        };
        let pair = &mut self.pairs[i];
        if pair.process().is_some_and(|process| process != hello.process) {
            // Of two that claim to be the same, their contact record decides, when it is there.
            return if pair.known_process().is_none() { Err((Status::Later, 0)) } else { none };
        }
        if matches!(pair.who.identity, Identity::Unknown) {
            pair.who.identity = Identity::Claimed { process: hello.process, came: now };
        }
        // One that has finalized may still come for our last acknowledgement.
        if pair.gone() == Some(Gone::Dead) {
            return none;
        }
        let better = Err((Status::BetterConnection, pair.path.offered_generation().wrapping_sub(1)));
        if let Some(up) = pair.lane()
            // Where no kernel can say that the other side has it still, the lane is asked first.
            && (!older(up.generation, hello.generation) || up.lane.is_open() == Some(true))
        {
            return better;
        }
        if pair.local() < pair.remote() && pair.has_greeted(OWN_DIAL_STANDS, now) {
            return better;
        }
        Ok(i)
    }

    /// The group that a visitor asks for, if it is ours and it knows the cookie; or what to say instead.
    fn admit(&self, hello: &Hello) -> Result<&Registered, (Status, u16)> {
        let none = Err((Status::NoSuchProcess, 0));
        let Some(known) = self.groups.get(hello.dest.incarnation) else { return none };
        if known.group.rank != hello.dest.rank {
            return none;
        }
        let differs = known.group.cookie.iter().zip(&hello.cookie).fold(0, |d, (a, b)| d | (a ^ b));
        #[cfg(feature = "plant")]
        let differs = if self.plant == crate::Plant::AnyCookie { 0 } else { differs };
        if differs != 0 {
            base::log_seldom!(Info, "a connection with a wrong cookie was refused");
            return Err((Status::BadCookie, 0));
        }
        Ok(known)
    }

    /// Whether there can be such a process, as far as its group is known, and its pair has not ended.
    fn may_be(&self, local: ProcId, remote: ProcId) -> bool {
        let between = self.groups.between(local.incarnation, remote.incarnation);
        between.is_none_or(|b| !b.over.contains_key(&remote.rank) && b.size.is_none_or(|size| remote.rank < size))
    }

    // ---- one more stream of a lane

    fn answer_stream(&mut self, visitor: VisitorId, hello: &Hello) {
        self.visitors.take(visitor);
        match self.judge_stream(hello) {
            Ok(pair) => {
                let ack = self.ack(Status::Good, hello.generation);
                self.act(Action::Join { visitor, pair, number: hello.stripe, ack });
            }
            Err((status, generation)) => {
                base::log!(Info, "a further connection of {} was refused: {status}", hello.source);
                let ack = self.ack(status, generation);
                self.act(Action::Refuse { visitor, ack });
            }
        }
    }

    /// For which pair's lane it may be, or what to say instead.
    fn judge_stream(&self, hello: &Hello) -> Result<usize, (Status, u16)> {
        self.admit(hello)?;
        let none = Err((Status::NoSuchProcess, 0));
        let Some(i) = self.find_pair(hello.dest, hello.source) else { return none };
        let pair = &self.pairs[i];
        if pair.process() != Some(hello.process) {
            return none;
        }
        let takes = |up: &crate::Up<L>| up.generation == hello.generation && up.lane.takes_stream(hello.stripe);
        if pair.lane().is_some_and(takes) {
            Ok(i)
        } else {
            Err((Status::BetterConnection, pair.path.offered_generation().wrapping_sub(1)))
        }
    }

    // ---- those who come for a pair that has a lane

    /// Whether one that may have a lane must wait, since the one that is there is asked first.
    fn ask_first(&mut self, i: usize, visitor: VisitorId, hello: &Hello, now: Time) -> bool {
        let pair = &self.pairs[i];
        let Some(up) = pair.lane().filter(|up| up.lane.is_open().is_none()) else { return false };
        #[cfg(feature = "plant")]
        if self.plant == crate::Plant::Unasked {
            return false;
        }
        let parked = Parked { pair: i, serial: pair.serial, generation: up.generation, hello: hello.clone() };
        let Some(v) = self.visitors.get_mut(visitor) else { return false };
        v.state = State::Parked(parked);
        base::log!(Debug, "{} has come again: its lane is asked first", hello.source);
        self.act(Action::Pause { visitor });
        self.ask(i, now);
        true
    }

    /// Takes those that wait for a lane's answer as far as they go.
    pub(crate) fn step_parked(&mut self, now: Time) {
        for (visitor, parked) in self.visitors.parked() {
            // What has come, and was not looked at, counts.
            if self.has_its_lane(&parked) && self.receive(parked.pair).dead {
                self.lane_died(parked.pair, now);
            }
            let pair = &self.pairs[parked.pair];
            let up = pair.lane().filter(|_| self.has_its_lane(&parked));
            let Some(up) = up else {
                self.act(Action::Ask { visitor, mute: false });
                continue;
            };
            if !pair.path.is_asking() {
                let remote = pair.remote();
                base::log_seldom!(Info, "{remote} answers on the lane it has: one who came in its name is refused");
                let generation = pair.path.offered_generation().wrapping_sub(1);
                let ack = self.ack(Status::BetterConnection, generation);
                self.visitors.take(visitor);
                self.act(Action::Refuse { visitor, ack });
            } else if up.life.asked.is_none_or(|t| now.since(t) >= ANSWER_LIMIT) {
                self.act(Action::Ask { visitor, mute: true });
            }
        }
    }

    fn has_its_lane(&self, parked: &Parked) -> bool {
        let pair = &self.pairs[parked.pair];
        pair.serial == parked.serial && pair.lane().is_some_and(|up| up.generation == parked.generation)
    }

    /// A visitor that has waited has not hung up: it is answered. `mute`: as [`Action::Ask`] said.
    pub fn visitor_stands(&mut self, visitor: VisitorId, mute: bool, now: Time) {
        let Some(v) = self.visitors.get_mut(visitor) else { return };
        let State::Parked(parked) = &v.state else { return };
        let hello = parked.hello.clone();
        v.state = State::Silent;
        self.answer(visitor, &hello, mute, now);
    }
}
