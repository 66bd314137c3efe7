//! The HELLOs of incoming connections, and which of them get a lane.
//!
//! Part of the session. Invariants: no connection gets a pair without the cookie of its group. A lane that works is not
//! given up for a connection that claims what cannot be.

use crate::action::Action;
use crate::action::IncomingId;
use crate::state::Session;
use crate::state::groups::Registered;
use crate::state::incoming::{Answered, Parked, State};
use crate::state::pair::{Agreed, Identity};
use crate::traffic::BUDGET;
use crate::{Received, Up};
use base::{Memory, ProcId, Time};
use engine::Gone;
use std::time::Duration;
use wire::frame::older;
use wire::lane::Lane;
use wire::{Contact, Hello, HelloAck, Status, Why};

/// How long a HELLO of ours makes theirs give way, where ours goes first.
const OWN_DIAL_STANDS: Duration = Duration::from_secs(2);
/// How long a lane may take to answer before an incoming connection gets its place.
const ANSWER_LIMIT: Duration = Duration::from_secs(1);

impl<L: Lane<M>, M: Memory> Session<L, M> {
    /// Reports the HELLO of an incoming connection. The answer is one of [`Action::Answer`], [`Action::Join`],
    /// [`Action::Refuse`], [`Action::Dismiss`], or [`Action::Pause`] if the pair's lane, or who knows its process, is asked first.
    pub fn hello(&mut self, incoming: IncomingId, hello: &Hello, now: Time) {
        if hello.stripe == 0 { self.answer(incoming, hello, false, now) } else { self.answer_stream(incoming, hello) }
    }

    fn ack(&self, status: Status, generation: u16) -> HelloAck {
        HelloAck { status, generation, process: self.own.process, received: 0 }
    }

    /// Answers a HELLO for a lane. `mute`: the lane that its pair has was asked and did not answer.
    fn answer(&mut self, incoming: IncomingId, hello: &Hello, mute: bool, now: Time) {
        if self.await_record(incoming, hello) {
            return;
        }
        let verdict = self.verdict(hello, now);
        if !mute && verdict.as_ref().is_ok_and(|(i, _)| self.ask_first(*i, incoming, hello, now)) {
            return;
        }
        match verdict {
            Ok((i, ack)) => {
                let (serial, generation, received) = (self.pairs[i].serial, ack.generation, hello.received);
                self.pairs[i].answered = Some(incoming);
                let instead_of = self.pairs[i].lane().map(|up| up.generation);
                if let Some(v) = self.incoming.get_mut(incoming) {
                    v.state = State::Answered(Answered {
                        pair: i,
                        serial,
                        generation,
                        received,
                        instead_of,
                        moves: hello.moves,
                    });
                }
                self.act(Action::Answer { incoming, pair: i, ack });
            }
            Err(refusal) => {
                self.incoming.take(incoming);
                self.act(match refusal {
                    Some(ack) => Action::Refuse { incoming, ack },
                    None => Action::Dismiss { incoming },
                });
            }
        }
    }

    /// Reports that the lane of an answered connection can be made. Returns what [`Session::attach`] needs of it. `None`:
    /// the lane is not needed any more.
    pub fn incoming_ready(&mut self, incoming: IncomingId) -> Option<Agreed> {
        let State::Answered(a) = self.incoming.take(incoming)?.state else { return None };
        let pair = &self.pairs[a.pair];
        // The pair may have ended or got another lane since, or its process is known to be dead.
        let lane = pair.lane().map(|up| up.generation);
        let is_dead = pair.gone() == Some(engine::Gone::Dead);
        let is_same = self.has_serial(a.pair, a.serial) && !is_dead && (lane.is_none() || lane == a.instead_of);
        let fits = is_same && pair.path.could_attach(a.generation, a.received);
        fits.then_some(Agreed { pair: a.pair, generation: a.generation, received: a.received, moves: a.moves })
    }

    /// Whether an incoming connection for this pair was answered, and its last word is awaited.
    pub(crate) fn is_coming(&self, i: usize) -> bool {
        self.pairs[i].answered.is_some_and(|incoming| self.incoming.is_answered(incoming))
    }

    /// Which pair gets a lane, and the answer to the HELLO. `Err`: the answer that refuses it, or `None` to close
    /// without one.
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
            // The pair keeps its lane, if it has one: the claim shows that this is not its other side.
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

    /// Which pair may have a lane. `Err`: the status and the generation of the refusal.
    fn judge(&mut self, hello: &Hello, now: Time) -> Result<usize, (Status, u16)> {
        if self.held.as_ref().is_some_and(|holding| holding.closed || hello.moves.is_some()) {
            return Err((Status::Later, 0));
        }
        let removed = self.admit(hello)?.removed;
        let none = Err((Status::NoSuchProcess, 0));
        if self.held.is_some() && !self.find_pair(hello.dest, hello.source).is_some_and(|i| self.pairs[i].is_to_hear) {
            // It has heard that this process goes away, or need not hear it.
            return Err((Status::Later, 0));
        }
        let i = match self.find_pair(hello.dest, hello.source) {
            Some(i) => i,
            // One of our own group asks for records.
            None if hello.source.incarnation == hello.dest.incarnation
                && self.groups.has_directory(hello.dest.incarnation) =>
            {
                let i = self.make_stranger(hello, now)?;
                self.engine.only_control(self.pairs[i].peer);
                i
            }
            None if !self.may_be(hello.dest, hello.source) => return none,
            None => match self.contact_of(hello.dest, hello.source) {
                Some((contact, is_joined)) if contact.process == hello.process && (is_joined || !removed) => {
                    self.meet_member(hello.dest, hello.source).ok_or((Status::NoSuchProcess, 0))?
                }
                // It has waited for its record in vain.
                None if self.groups.is_rooted(hello.dest.incarnation, hello.source.incarnation) => return none,
                None if !removed => self.make_stranger(hello, now)?,
                _ => return none,
            },
        };
        if self.lacks_record(i) {
            return Err((Status::Later, 0));
        }
        let pair = &mut self.pairs[i];
        if pair.process().is_some_and(|process| process != hello.process) {
            // Of two processes that claim to be the same, the contact record decides, once it is there.
            return if pair.known_process().is_none() { Err((Status::Later, 0)) } else { none };
        }
        if matches!(pair.who.identity, Identity::Unknown) && pair.gone().is_none() {
            pair.who.identity = Identity::Claimed { process: hello.process, came: now };
        }
        // A process that has finalized may still dial for our last acknowledgement.
        if pair.gone() == Some(Gone::Dead) {
            return none;
        }
        let better = Err((Status::BetterConnection, pair.path.offered_generation().wrapping_sub(1)));
        if let Some(moves) = hello.moves {
            let is_left = |up: &Up<L>| up.generation == moves.leaves && older(up.generation, hello.generation);
            // Whose order stands does not dial for what is better.
            let stays = moves.why == Why::Better && pair.moves.pinned_here;
            if pair.gone().is_some() || pair.caller.is_some() || stays || !pair.lane().is_some_and(is_left) {
                return better;
            }
        } else if let Some(up) = pair.lane()
            // A lane of which no kernel says whether it is open is asked first.
            && (!older(up.generation, hello.generation) || up.lane.is_open() == Some(true))
        {
            return better;
        }
        if pair.local() < pair.remote() && pair.has_greeted(OWN_DIAL_STANDS, now) {
            return better;
        }
        Ok(i)
    }

    /// The group of ours that a HELLO is for, if its cookie is right. `Err`: the status and the generation of the refusal.
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

    /// Whether a remote process of this name can exist, as far as its group is known, and its pair has not ended already.
    fn may_be(&self, local: ProcId, remote: ProcId) -> bool {
        let between = self.groups.between(local.incarnation, remote.incarnation);
        between.is_none_or(|b| !b.over.contains_key(&remote.rank) && b.size().is_none_or(|size| remote.rank < size))
    }

    /// The contact record of a member of a group that is known, and whether an inter-communicator with it is open.
    fn contact_of(&self, local: ProcId, remote: ProcId) -> Option<(Contact, bool)> {
        let between = self.groups.between(local.incarnation, remote.incarnation)?;
        Some((between.contact(remote.rank)?, between.inters > 0))
    }

    // ---- one more stripe of a lane

    fn answer_stream(&mut self, incoming: IncomingId, hello: &Hello) {
        self.incoming.take(incoming);
        match self.judge_stream(hello) {
            Ok(pair) => {
                let ack = self.ack(Status::Good, hello.generation);
                self.act(Action::Join { incoming, pair, number: hello.stripe, ack });
            }
            Err((status, generation)) => {
                base::log!(Info, "a further connection of {} was refused: {status}", hello.source);
                let ack = self.ack(status, generation);
                self.act(Action::Refuse { incoming, ack });
            }
        }
    }

    /// The pair whose lane gets the stripe. `Err`: the status and the generation of the refusal.
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

    // ---- incoming connections that wait

    /// Makes a connection wait while the pair's lane is asked for a sign of life. `false`: it need not wait.
    fn ask_first(&mut self, i: usize, incoming: IncomingId, hello: &Hello, now: Time) -> bool {
        let pair = &self.pairs[i];
        let Some(up) = pair.lane().filter(|up| up.lane.is_open().is_none() && hello.moves.is_none()) else {
            return false;
        };
        #[cfg(feature = "plant")]
        if self.plant == crate::Plant::Unasked {
            return false;
        }
        let generation = Some(up.generation);
        if !self.park(i, incoming, hello, generation) {
            return false;
        }
        base::log!(Debug, "{} has come again: its lane is asked first", hello.source);
        self.ask(i, now);
        true
    }

    /// Makes a connection wait whose process is of a large group, if its contact record is not known: that is asked for. `false`: it
    /// need not wait.
    fn await_record(&mut self, incoming: IncomingId, hello: &Hello) -> bool {
        let (ours, theirs) = (hello.dest, hello.source);
        if self.held.is_some() || !self.groups.is_rooted(ours.incarnation, theirs.incarnation) {
            return false;
        }
        let removed = self.groups.is_removed(ours.incarnation);
        let is_joined = self.groups.between(ours.incarnation, theirs.incarnation).is_some_and(|b| b.inters > 0);
        let may_come = self.admit(hello).is_ok() && self.may_be(ours, theirs) && (is_joined || !removed);
        let i = match self.find_pair(ours, theirs) {
            None if may_come => self.meet_member(ours, theirs),
            found => found.filter(|_| may_come),
        };
        let Some(i) = i.filter(|i| self.lacks_record(*i)) else { return false };
        self.ask_for(i);
        self.park(i, incoming, hello, None)
    }

    fn park(&mut self, i: usize, incoming: IncomingId, hello: &Hello, generation: Option<u16>) -> bool {
        let parked = Parked { pair: i, serial: self.pairs[i].serial, generation, hello: hello.clone() };
        let Some(v) = self.incoming.get_mut(incoming) else { return false };
        v.state = State::Parked(parked);
        self.act(Action::Pause { incoming });
        true
    }

    /// Answers the waiting connections whose lane has answered, has died, or had its time, and those whose contact record is here.
    pub(crate) fn step_parked(&mut self, now: Time) {
        for (incoming, parked) in self.incoming.parked() {
            if parked.generation.is_none() {
                if !self.has_serial(parked.pair, parked.serial) || !self.lacks_record(parked.pair) {
                    self.act(Action::Ask { incoming, mute: false });
                }
                continue;
            }
            // The answer may have come and not be read yet.
            let mut read = 0;
            while self.has_its_lane(&parked) && read < BUDGET {
                match self.receive(parked.pair) {
                    Received { dead: true, .. } => self.lane_died(parked.pair, now),
                    Received { bytes: 0, .. } => break,
                    Received { bytes, .. } => read += bytes,
                }
            }
            let pair = &self.pairs[parked.pair];
            let up = pair.lane().filter(|_| self.has_its_lane(&parked));
            let Some(up) = up else {
                self.act(Action::Ask { incoming, mute: false });
                continue;
            };
            if !pair.path.is_asking() {
                let remote = pair.remote();
                base::log_seldom!(Info, "{remote} answers on the lane it has: one who came in its name is refused");
                let generation = pair.path.offered_generation().wrapping_sub(1);
                let ack = self.ack(Status::BetterConnection, generation);
                self.incoming.take(incoming);
                self.act(Action::Refuse { incoming, ack });
            } else if up.life.asked.is_none_or(|t| now.since(t) >= ANSWER_LIMIT) {
                self.act(Action::Ask { incoming, mute: true });
            }
        }
    }

    fn has_its_lane(&self, parked: &Parked) -> bool {
        let pair = &self.pairs[parked.pair];
        let is_its = |up: &Up<L>| Some(up.generation) == parked.generation;
        self.has_serial(parked.pair, parked.serial) && pair.lane().is_some_and(is_its)
    }

    /// Reports that a connection which has waited is still open: the answer to [`Action::Ask`], with its `mute`.
    pub fn incoming_stands(&mut self, incoming: IncomingId, mute: bool, now: Time) {
        let Some(v) = self.incoming.get_mut(incoming) else { return };
        let State::Parked(parked) = &v.state else { return };
        let hello = parked.hello.clone();
        v.state = State::Silent;
        self.answer(incoming, &hello, mute, now);
    }
}
