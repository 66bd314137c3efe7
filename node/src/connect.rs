//! How pairs get their lanes (`arrivals`: from those who come), and how it is found out that there will be none any more.
//!
//! Part of the core. Invariant: a pair is given up only on a sign from somebody who can know: its host's kernel refuses
//! at its port (see `reach`), another process answers there, or it says itself that it is not there. Silence is suspect,
//! never dead: whoever is needed is dialled for as long as somebody waits.

use crate::carrier::Carrier;
use crate::core::Core;
use crate::life::Life;
use crate::near::GIVE_WAY;
use crate::pair::{Dial, Lane};
use crate::reach::Sign;
use crate::watch::Owner;
use base::ProcId;
use engine::Gone;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use transports::frame::older;
use transports::lane::Lane as _;
use transports::stream::StripedLane;
use transports::tcp::{Hello, Outcome, Race, Refusal};

/// So long an address must refuse before a process that was never met is given up.
const REFUSE_LIMIT: Duration = Duration::from_secs(2);
/// Whoever came to us, and cannot be gone to, may come again for so long when its lane is lost: at a port, and where it holds
/// the place of another.
pub(crate) const RETURN_LIMIT: Duration = Duration::from_secs(5);
/// So long one may be refused, perhaps by a firewall, who had come to us and has lost the connection: longer than a kernel
/// takes to tell the other side that it is lost, whereupon that comes again.
const COME_BACK_LIMIT: Duration = Duration::from_secs(20);
/// And so long it may be silent, when it closed the connection itself.
const SILENCE_LIMIT: Duration = Duration::from_secs(60);
/// Whoever spoke nonsense on so many lanes, one after the other, and nothing else got through, would go on for ever.
const MAX_NONSENSE: u8 = 3;
/// After nonsense, the next lane may wait so long.
const NONSENSE_RESTS: Duration = Duration::from_millis(100);
/// How often time is looked at while something is being connected.
pub const TICK: Duration = Duration::from_millis(5);

impl Core {
    // ---- those we go to

    fn start_dial(&mut self, i: usize, now: Instant) {
        let pair = &mut self.pairs[i];
        let (Some(_), Some(cookie)) = (&pair.contact, pair.cookie) else { return };
        let mut generation = pair.path.offered_generation();
        if !older(pair.seen_generation, generation) {
            generation = pair.seen_generation.wrapping_add(1);
        }
        let hello = Hello {
            source: pair.local,
            dest: pair.remote,
            cookie,
            process: self.contact.process,
            generation,
            stripe: 0,
            received: pair.path.received(),
        };
        match self.start_near(i, &hello, now) {
            Ok(()) => (),
            Err(why) if self.lanes.tcp => self.start_race(i, hello, why, now),
            Err(why) => self.dial_failed(i, Sign::None, false, &format!("no shared memory: {why}"), now),
        }
    }

    /// Dials by TCP; `why`: and not by shared memory.
    pub(crate) fn start_race(&mut self, i: usize, hello: Hello, why: String, now: Instant) {
        let addresses = self.ways(i, now);
        let pair = &mut self.pairs[i];
        base::log!(Debug, "dialling {} at {}", pair.remote, base::log::list(&addresses, "no address"));
        pair.dial = Dial::Racing(Box::new(Race::new(hello, pair.process, &addresses)), why);
        self.step_race(i, now);
    }

    pub(crate) fn step_dial(&mut self, i: usize, now: Instant) {
        match self.pairs[i].dial {
            Dial::Near(_) => self.step_near(i, now),
            Dial::Racing(..) => self.step_race(i, now),
            Dial::Idle | Dial::Resting(_) => self.step_stripes(i, now),
        }
    }

    fn step_race(&mut self, i: usize, now: Instant) {
        let Dial::Racing(race, why) = &mut self.pairs[i].dial else { return };
        let watch = &self.watch;
        match race.step(now, |fd| watch.unset(fd)) {
            Outcome::NotYet => {
                for (fd, write) in race.fds() {
                    self.watch.set(fd, Owner::Dial(i as u32), write);
                }
                let failed = std::mem::take(&mut race.failed);
                let decided = failed.iter().any(|(a, why)| self.is_last_word(i, *a, why));
                if let Dial::Racing(race, _) = &mut self.pairs[i].dial {
                    race.failed = failed;
                    if decided {
                        self.race_lost(i, now);
                    }
                }
            }
            Outcome::Won { address, socket, ack } => {
                let how = format!("dialled; no shared memory: {why}");
                self.pairs[i].process.get_or_insert(ack.process);
                self.prove(i, address);
                self.watch.unset(&socket);
                let pair = &self.pairs[i];
                let lane = Carrier::Tcp(StripedLane::new(socket, pair.local, pair.remote, ack.generation));
                self.attach(i, lane, ack.generation, ack.received, &how);
                self.dial_stripes(i, address, now);
            }
            Outcome::Lost => self.race_lost(i, now),
        }
    }

    /// Whether nothing that another address could say would change what comes of it.
    fn is_last_word(&self, i: usize, address: SocketAddr, why: &Refusal) -> bool {
        matches!(why, Refusal::Better(_)) || self.worth(i, address, why) == Sign::Sure
    }

    fn race_lost(&mut self, i: usize, now: Instant) {
        let Dial::Racing(race, _) = &mut self.pairs[i].dial else { return };
        let said = race.describe();
        let failed = std::mem::take(&mut race.failed);
        self.end_dial(i);
        base::log!(Debug, "{}: {said}", self.pairs[i].remote);
        let left = failed.iter().any(|(_, why)| matches!(why, Refusal::NoMember));
        let other = failed.iter().find_map(|(_, why)| if let Refusal::OtherVersion(v) = why { Some(*v) } else { None });
        self.pairs[i].other_version = other;
        let least = match self.has_hung_up(i) {
            _ if self.pairs[i].lane.is_some() => Sign::None,
            _ if self.is_nowhere(i, &failed) => Sign::Sure,
            true => Sign::Faint,
            false => Sign::None,
        };
        let sign = failed.iter().map(|(a, why)| self.worth(i, *a, why)).fold(least, Sign::max);
        let theirs = failed.iter().find_map(|(_, why)| match why {
            Refusal::Better(generation) => Some(*generation),
            _ => None,
        });
        match theirs {
            Some(generation) => self.yield_to(i, generation, now),
            None => self.dial_failed(i, sign, left, &said, now),
        }
    }

    /// The other side's dial goes before ours; it has used generations up to this.
    pub(crate) fn yield_to(&mut self, i: usize, generation: u16, now: Instant) {
        let pair = &mut self.pairs[i];
        pair.tries = pair.tries.saturating_add(1);
        pair.seen_generation = generation;
        pair.refused = None;
        pair.dial = Dial::Resting(now + pair.rest().max(GIVE_WAY));
    }

    /// A dial has come to nothing. `sign`: what says that the process is not there; `left`: it itself does.
    pub(crate) fn dial_failed(&mut self, i: usize, sign: Sign, left: bool, why: &str, now: Instant) {
        let pair = &mut self.pairs[i];
        pair.tries = pair.tries.saturating_add(1);
        pair.trouble = why.into();
        let mut rest = pair.rest();
        // While a lane is there, only what is certain says that its other end is not.
        if sign == Sign::None || pair.lane.is_some() && sign != Sign::Sure {
            pair.refused = None;
        } else {
            let since = now.duration_since(*pair.refused.get_or_insert(now));
            let enough = match sign {
                Sign::Sure => pair.was_up || since >= REFUSE_LIMIT,
                Sign::Weak => since >= COME_BACK_LIMIT,
                Sign::Faint | Sign::None => since >= SILENCE_LIMIT,
            };
            if enough {
                let gone = if left { Gone::Finished } else { Gone::Dead };
                return self.bury(i, gone, why);
            }
            rest = rest.min(Duration::from_millis(250));
        }
        // Said less and less often.
        if pair.tries >= 8 && pair.tries.is_power_of_two() {
            base::log!(Info, "{} cannot be reached yet: {why}", pair.remote);
        }
        pair.dial = Dial::Resting(now + rest);
    }

    // ---- lanes

    pub(crate) fn attach(&mut self, i: usize, mut lane: Carrier, generation: u16, received: u64, how: &str) {
        self.end_dial(i);
        let pair = &mut self.pairs[i];
        // Judged before the old lane goes.
        if !pair.path.could_attach(generation, received) {
            base::log!(Info, "{} answered what cannot be: connection closed", pair.remote);
            pair.dial = Dial::Resting(Instant::now() + Duration::from_millis(250));
            self.timed.insert(i);
            return;
        }
        self.drop_lane(i);
        let pair = &mut self.pairs[i];
        pair.path.attach(generation, lane.caps(), received).expect("it could");
        let (local, remote) = (pair.local, pair.remote);
        let over = match &mut lane {
            Carrier::Shm(_) => "shared memory".into(),
            Carrier::Tcp(lane) => {
                pair.seen_at = lane.stream().peer();
                pair.seen_at.map_or("tcp".into(), |at| format!("tcp, {at}"))
            }
        };
        base::log!(Info, "{local} is connected to {remote} over {over} ({how}; generation {generation})");
        lane.signs(|_, fd| self.watch.set(fd, Owner::Lane(i as u32), false));
        let shared = lane.shm().is_some();
        let life = Life::new(Instant::now());
        pair.lane = Some(Lane { lane, generation, brought: 0, writing: 0, taken: 1, dialling: Vec::new(), life });
        (pair.lost, pair.closed, pair.refused) = (None, false, None);
        pair.was_shared |= shared;
        let again = std::mem::replace(&mut pair.was_up, true);
        let peer = pair.peer;
        self.judge_pulls(i);
        self.judge_spinning();
        self.touch(i);
        self.mark(i);
        self.timed.remove(&i);
        if shared {
            self.shm_attached(i);
        }
        if again {
            // Once per new lane, so that what is missing comes once.
            self.engine.on_lane_lost(peer);
        }
    }

    /// Forgets a dial that is under way.
    pub(crate) fn end_dial(&mut self, i: usize) {
        self.end_near(i);
        if let Dial::Racing(race, _) = std::mem::replace(&mut self.pairs[i].dial, Dial::Idle) {
            race.fds().for_each(|(fd, _)| self.watch.unset(fd));
        }
    }

    /// Takes the lane from a pair, if it has one.
    pub(crate) fn drop_lane(&mut self, i: usize) -> bool {
        let pair = &mut self.pairs[i];
        let Some(mut lane) = pair.lane.take() else { return false };
        self.busy.retain(|b| *b != i);
        lane.lane.signs(|_, fd| self.watch.unset(fd));
        lane.dialling.iter().flat_map(|(_, race)| race.fds()).for_each(|(fd, _)| self.watch.unset(fd));
        pair.path.take_back(lane.lane.unread());
        pair.path.lane_lost(lane.generation);
        if let Some(shm) = lane.lane.shm() {
            // Also where a forked child holds it open.
            shm.cut();
            self.shm_dropped(i);
            self.end_pulls(i);
        }
        true
    }

    /// A lane has died; `nonsense`: since what came made no sense.
    pub(crate) fn lane_lost(&mut self, i: usize, nonsense: bool, why: &str, now: Instant) {
        let got_through = self.pairs[i].path.got_through();
        if !self.drop_lane(i) {
            return;
        }
        let pair = &mut self.pairs[i];
        if pair.gone.is_some() {
            return;
        }
        if nonsense {
            if got_through > std::mem::replace(&mut pair.got_through, got_through) {
                pair.nonsense = 0;
            }
            pair.nonsense += 1;
            if pair.nonsense >= MAX_NONSENSE {
                let why =
                    format!("it spoke nonsense on {MAX_NONSENSE} connections one after the other, and nothing else");
                return self.bury(i, Gone::Dead, &why);
            }
        }
        base::log!(Info, "the lane to {} is lost: {why}", pair.remote);
        pair.lost = Some(now);
        // Lanes that die before they have brought anything must not follow each other at full speed.
        let next = match pair.tries {
            _ if pair.is_caller => Dial::Resting(now + RETURN_LIMIT),
            _ if nonsense => Dial::Resting(now + NONSENSE_RESTS),
            0 => Dial::Idle,
            _ => Dial::Resting(now + pair.rest()),
        };
        pair.tries = pair.tries.saturating_add(1);
        // One that is dialled beside it goes on.
        if pair.is_caller || matches!(pair.dial, Dial::Idle | Dial::Resting(_)) {
            self.end_dial(i);
            self.pairs[i].dial = next;
        }
        self.look_soon(i);
    }

    /// The process is dead, or has nothing to do with us any more.
    pub(crate) fn bury(&mut self, i: usize, gone: Gone, why: &str) {
        self.drop_lane(i);
        self.end_dial(i);
        let pair = &mut self.pairs[i];
        let ended = if gone == Gone::Dead { "is dead" } else { "has left" };
        base::log!(Info, "{} {ended}: {why}", pair.remote);
        pair.gone = Some(gone);
        let peer = pair.peer;
        self.engine.on_gone(peer, gone);
        self.timed.remove(&i);
        self.leaving.insert(i);
    }

    // ---- time

    /// Takes everything that depends on time as far as it has come.
    pub(crate) fn tick(&mut self, now: Instant) {
        if now < self.next_tick {
            return;
        }
        self.next_tick = now + TICK;
        if self.accept_again.is_some_and(|t| now >= t) {
            self.accept_again = None;
            self.doors(|watch, fd, owner| watch.set(fd, owner, false));
        }
        let expired: Vec<u32> = self.halfway.iter().filter(|(_, h)| h.expired(now)).map(|(n, _)| *n).collect();
        for n in expired {
            self.drop_halfway(n);
        }
        self.step_touches(now);
        self.step_parked(now);
        for i in self.timed.clone() {
            self.tick_pair(i, now);
        }
    }

    fn tick_pair(&mut self, i: usize, now: Instant) {
        let pair = &self.pairs[i];
        let is_dark = self.is_dark(i);
        if pair.lane.as_ref().is_some_and(|lane| !lane.dialling.is_empty()) {
            self.step_stripes(i, now);
            if !is_dark {
                return;
            }
        }
        let pair = &self.pairs[i];
        if pair.lane.is_none() && pair.gone.is_none() && pair.is_caller && pair.lost.is_some() {
            if !matches!(pair.dial, Dial::Resting(until) if now < until) {
                self.bury(i, Gone::Dead, "it has not come again");
            }
            return;
        }
        let needs = if pair.lane.is_some() { is_dark && pair.gone.is_none() } else { pair.needs_lane() };
        if !needs || !pair.can_dial() {
            if pair.lane.is_some() {
                // It moves again.
                self.end_dial(i);
            }
            self.timed.remove(&i);
            return;
        }
        match pair.dial {
            Dial::Near(_) | Dial::Racing(..) => self.step_dial(i, now),
            Dial::Resting(until) if now < until => (),
            Dial::Resting(_) | Dial::Idle if self.is_coming(i) => (),
            Dial::Resting(_) | Dial::Idle => self.start_dial(i, now),
        }
    }

    /// Whether one has come, over shared memory, and has yet to say the last word.
    pub(crate) fn is_coming(&self, i: usize) -> bool {
        self.pairs[i].answered.is_some_and(|n| self.halfway.contains_key(&n))
    }

    /// Whether time must be looked at.
    pub(crate) fn is_timed(&self) -> bool {
        !self.timed.is_empty() || !self.halfway.is_empty() || self.accept_again.is_some() || self.is_touching()
    }

    // ---- the end

    /// Closes every socket.
    pub(crate) fn shut(&mut self) {
        for i in 0..self.pairs.len() {
            self.drop_lane(i);
            self.end_dial(i);
        }
        for n in self.halfway.keys().copied().collect::<Vec<_>>() {
            self.drop_halfway(n);
        }
        self.drop_touches();
        self.drop_parked();
        self.doors(|watch, fd, _| watch.unset(fd));
        self.listeners = None;
        if let Some(local) = &mut self.local {
            local.door = None;
        }
        self.accept_again = None;
        self.timed.clear();
        self.leaving.clear();
        self.dirty.clear();
    }

    /// For tests: pieces of bulk that were put out for a path and have not left.
    #[doc(hidden)]
    pub fn bulk_queued(&self, local: ProcId, remote: ProcId) -> usize {
        self.find_pair(local, remote).map_or(0, |i| self.pairs[i].path.bulk_queued())
    }

    /// For tests: how many lanes two processes have had, as far as this one knows.
    #[doc(hidden)]
    pub fn lanes_had(&self, local: ProcId, remote: ProcId) -> u16 {
        self.find_pair(local, remote).map_or(0, |i| self.pairs[i].path.offered_generation() - 1)
    }

    /// For tests: cuts the lane between two processes as a broken network would, if there is one.
    #[doc(hidden)]
    pub fn cut(&mut self, local: ProcId, remote: ProcId) -> bool {
        let Some(i) = self.find_pair(local, remote) else { return false };
        let Some(lane) = &mut self.pairs[i].lane else { return false };
        lane.lane.cut();
        true
    }
}
