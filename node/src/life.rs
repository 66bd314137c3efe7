//! Whether lanes are alive: whoever waits asks for a sign of life, dials beside a lane whose way is dark, and lets nobody
//! take the place of one that answers.
//!
//! Part of the core. Invariant: a lane that moves is left alone, and silence alone ends none. Of lanes of shared memory the
//! kernel tells. Looked at now and then only: what is sent and received pays nothing.

use crate::arrivals::Knock;
use crate::core::Core;
use crate::pair::Pair;
use crate::watch::Owner;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use transports::tcp::{Hello, HelloAck, Status};

/// How often lanes are looked at. Among very many operations it takes its time, and is done less often.
const LOOK_EVERY: Duration = Duration::from_millis(500);
const LEISURE: u32 = 50;
/// Who waits asks for a sign of life after so long a silence. What the other side's kernel has not acknowledged for so long
/// is under way on a link that is dark.
const SILENCE: Duration = Duration::from_secs(2);
/// So many are asked at one look: thousands that wait make no storm.
const MOST_QUESTIONS: usize = 16;
/// A lane is given so long to answer before another that has come gets its place.
const ANSWER_LIMIT: Duration = Duration::from_secs(1);

/// How alive a lane over TCP looks.
pub struct Life {
    /// The look at which it was looked at last.
    look: u64,
    /// How often something had come, and since when nothing more has.
    brought: u32,
    heard: Instant,
    /// How much the other side's kernel had, and since when it has taken nothing of what is under way.
    acked: u64,
    moved: Instant,
    /// When it was asked the question that is open.
    asked: Option<Instant>,
    dark: bool,
}

impl Life {
    pub fn new(now: Instant) -> Life {
        Life { look: 0, brought: 0, heard: now, acked: 0, moved: now, asked: None, dark: false }
    }
}

/// One who has come for a pair that has a lane, while that is asked.
struct Parked {
    pair: usize,
    serial: u64,
    generation: u16,
    hello: Hello,
}

/// What is known from one look to the next.
#[derive(Default)]
pub(crate) struct Vigil {
    look: u64,
    next: Option<Instant>,
    /// By the numbers of the halfway ones.
    parked: BTreeMap<u32, Parked>,
}

impl Core {
    // ---- silence

    /// Looks at the lanes of all from whom something is awaited, or who have not acknowledged what they were sent.
    pub(crate) fn look_after_lanes(&mut self, now: Instant) {
        if self.vigil.next.is_some_and(|t| now < t) {
            return;
        }
        self.vigil.look += 1;
        let owes = |(_, pair): &(usize, &Pair)| pair.lane.is_some() && !pair.path.all_acknowledged();
        let mut concerned: BTreeSet<usize> = self.pairs.iter().enumerate().filter(owes).map(|(i, _)| i).collect();
        concerned.extend(self.engine.watching().map(|peer| peer.0 as usize));
        let mut questions = MOST_QUESTIONS;
        for i in concerned {
            if self.is_silent(i, now) && questions > 0 {
                questions -= 1;
                self.ask(i, now);
            }
        }
        self.vigil.next = Some(now + LOOK_EVERY.max(now.elapsed() * LEISURE));
    }

    /// Looks at one lane; whether it should be asked for a sign of life.
    fn is_silent(&mut self, i: usize, now: Instant) -> bool {
        let look = self.vigil.look;
        let Pair { lane: Some(lane), path, remote, .. } = &mut self.pairs[i] else { return false };
        let Some((waiting, flying)) = lane.lane.in_kernel() else { return false };
        let acked = lane.lane.written().wrapping_sub(waiting);
        let life = &mut lane.life;
        if life.look + 1 != look {
            // Nobody has cared for a while.
            (life.heard, life.moved) = (now, now);
        }
        life.look = look;
        if life.brought != lane.brought {
            (life.brought, life.heard) = (lane.brought, now);
        }
        if life.acked != acked || !flying {
            (life.acked, life.moved) = (acked, now);
        }
        let silent = now.duration_since(life.heard) >= SILENCE && !path.is_asking();
        let was_dark = std::mem::replace(&mut life.dark, now.duration_since(life.moved) >= SILENCE);
        if life.dark && !was_dark {
            base::log!(Info, "the way to {remote} is dark: a new connection is tried beside the old one");
        }
        if life.dark {
            self.look_soon(i);
        }
        silent
    }

    /// Asks the other side for a sign of life, unless it has been asked.
    fn ask(&mut self, i: usize, now: Instant) {
        let Pair { lane: Some(lane), path, .. } = &mut self.pairs[i] else { return };
        if !path.is_asking() {
            path.ask();
            lane.life.asked = Some(now);
            self.mark(i);
        }
    }

    /// Whether somebody waits for a lane on which what was sent does not get to the other side's kernel. A process that is
    /// merely stopped has a kernel that takes it.
    pub(crate) fn is_dark(&self, i: usize) -> bool {
        let lane = self.pairs[i].lane.as_ref();
        lane.is_some_and(|lane| lane.life.dark && lane.life.look + 1 >= self.vigil.look)
    }

    // ---- those who come for a pair that has a lane

    /// Whether one who may have a lane must wait, since the one that is there is asked first.
    pub(crate) fn ask_first(&mut self, i: usize, n: u32, hello: &Hello, now: Instant) -> bool {
        let (pair, Some(knock)) = (&self.pairs[i], self.halfway.get(&n)) else { return false };
        let Some(lane) = pair.lane.as_ref().filter(|lane| lane.lane.shm().is_none()) else { return false };
        let parked = Parked { pair: i, serial: pair.serial, generation: lane.generation, hello: hello.clone() };
        base::log!(Debug, "{} has come again: its lane is asked first", hello.source);
        // It has nothing to say before it is answered.
        self.watch.pause(knock);
        self.vigil.parked.insert(n, parked);
        self.ask(i, now);
        true
    }

    /// Takes those who wait for a lane's answer as far as they go.
    pub(crate) fn step_parked(&mut self, now: Instant) {
        for (n, parked) in std::mem::take(&mut self.vigil.parked) {
            if !self.halfway.contains_key(&n) {
                continue;
            }
            // What has come, and was not looked at, counts.
            if self.has_its_lane(&parked) {
                self.read(parked.pair);
            }
            if !self.has_its_lane(&parked) {
                self.go_on(n, &parked.hello, false, now);
                continue;
            }
            let Pair { lane: Some(lane), path, .. } = &self.pairs[parked.pair] else { continue };
            if !path.is_asking() {
                let who = path.remote();
                base::log_seldom!(Info, "{who} answers on the lane it has: one who came in its name is refused");
                let generation = path.offered_generation().wrapping_sub(1);
                self.refuse_parked(n, Status::BetterConnection, generation);
            } else if lane.life.asked.is_none_or(|t| now.duration_since(t) >= ANSWER_LIMIT) {
                self.go_on(n, &parked.hello, true, now);
            } else {
                self.vigil.parked.insert(n, parked);
            }
        }
    }

    fn has_its_lane(&self, parked: &Parked) -> bool {
        let pair = &self.pairs[parked.pair];
        let same = pair.lane.as_ref().is_some_and(|lane| lane.generation == parked.generation);
        same && pair.serial == parked.serial
    }

    /// Answers one who has waited; `mute`: the lane was asked, and says nothing.
    fn go_on(&mut self, n: u32, hello: &Hello, mute: bool, now: Instant) {
        let Some(knock) = self.halfway.get(&n) else { return };
        if knock.has_hung_up() {
            return self.drop_halfway(n);
        }
        self.watch.set(knock, Owner::Halfway(n), false);
        match knock {
            Knock::Tcp(_) => self.answer(n, hello, mute, now),
            Knock::Near(..) => self.greet_guest(n, hello, mute, now),
        }
    }

    fn refuse_parked(&mut self, n: u32, status: Status, generation: u16) {
        let ack = HelloAck { status, generation, process: self.contact.process, received: 0 };
        match self.take_halfway(n) {
            Some(Knock::Tcp(halfway)) => {
                halfway.answer(&ack);
            }
            Some(Knock::Near(guest, _)) => guest.refuse(&ack),
            None => (),
        }
    }

    pub(crate) fn drop_parked(&mut self) {
        self.vigil.parked.clear();
    }
}
