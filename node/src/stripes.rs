//! How a TCP lane gets more than one connection, for links on which one cannot be as fast as the link, and loses them.
//!
//! Part of the core, beside `connect`. Invariant: only the side that dialled a lane dials more for it, each number once;
//! the other takes them for the very lane that is up. A lane is whole without them, so none of them is tried again.

use crate::core::Core;
use crate::pair::Lane;
use crate::watch::Owner;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::Instant;
use transports::stream::MAX_STRIPES;
use transports::tcp::{Halfway, Hello, HelloAck, Outcome, Race, Socket, Status};

impl Core {
    // ---- those we go to

    /// A lane that we have dialled is up: it gets its other connections, from where it has answered.
    pub(crate) fn dial_stripes(&mut self, i: usize, address: SocketAddr, now: Instant) {
        let pair = &mut self.pairs[i];
        let (Some(lane), Some(cookie)) = (&mut pair.lane, pair.cookie) else { return };
        if std::mem::replace(&mut lane.taken, u16::MAX) != 1 {
            return;
        }
        for stripe in 1..self.tcp_sockets {
            let hello = Hello {
                source: pair.local,
                dest: pair.remote,
                cookie,
                process: self.contact.process,
                generation: lane.generation,
                stripe,
                received: 0,
            };
            lane.dialling.push((stripe, Race::new(hello, pair.process, &[address])));
        }
        if !lane.dialling.is_empty() {
            self.timed.insert(i);
            self.step_stripes(i, now);
        }
    }

    pub(crate) fn step_stripes(&mut self, i: usize, now: Instant) {
        let Some(Lane { dialling, .. }) = &mut self.pairs[i].lane else { return };
        for (number, mut race) in std::mem::take(dialling) {
            let watch = &self.watch;
            match race.step(now, |fd| watch.unset(fd)) {
                Outcome::NotYet => {
                    race.fds().for_each(|(fd, write)| watch.set(fd, Owner::Dial(i as u32), write));
                    if let Some(lane) = &mut self.pairs[i].lane {
                        lane.dialling.push((number, race));
                    }
                }
                Outcome::Won { socket, .. } => self.add_stripe(i, number, socket),
                Outcome::Lost => {
                    for (address, why) in &race.failed {
                        base::log!(Info, "no further connection to {} at {address}: {why}", self.pairs[i].remote);
                    }
                }
            }
        }
    }

    // ---- those who come

    pub(crate) fn answer_stripe(&mut self, halfway: Halfway, hello: &Hello) {
        let mut ack =
            HelloAck { status: Status::Good, generation: hello.generation, process: self.contact.process, received: 0 };
        match self.judge_stripe(hello) {
            Ok(i) => {
                if let Some(socket) = halfway.answer(&ack) {
                    self.pairs[i].lane.iter_mut().for_each(|lane| lane.taken |= 1 << hello.stripe);
                    self.add_stripe(i, hello.stripe, socket);
                }
            }
            Err((status, generation)) => {
                base::log!(Info, "a further connection of {} was refused: {status}", hello.source);
                (ack.status, ack.generation) = (status, generation);
                halfway.answer(&ack);
            }
        }
    }

    /// For which pair's lane it may be, or what to say instead.
    fn judge_stripe(&self, hello: &Hello) -> Result<usize, (Status, u16)> {
        self.admit(hello)?;
        let Some(i) = self.find_pair(hello.dest, hello.source) else { return Err((Status::NoSuchProcess, 0)) };
        let pair = &self.pairs[i];
        if pair.who() != Some(hello.process) {
            return Err((Status::NoSuchProcess, 0));
        }
        let fits = pair.lane.as_ref().is_some_and(|lane| {
            lane.generation == hello.generation
                && lane.lane.shm().is_none()
                && hello.stripe < MAX_STRIPES
                && lane.taken & 1 << hello.stripe == 0
        });
        if fits { Ok(i) } else { Err((Status::BetterConnection, pair.path.offered_generation().wrapping_sub(1))) }
    }

    // ---- both

    fn add_stripe(&mut self, i: usize, number: u16, socket: Socket) {
        let pair = &mut self.pairs[i];
        let Some(lane) = pair.lane.as_mut().and_then(|lane| lane.lane.striped()) else { return };
        self.watch.set(&socket, Owner::Lane(i as u32), false);
        match lane.add(number, socket) {
            Ok(()) => {
                base::log!(Debug, "connection {number} to {} is there", pair.remote);
                self.mark(i);
            }
            Err(socket) => self.watch.unset(socket.as_fd()),
        }
    }

    /// A connection of a lane that has others has ended: what was on it is asked for again, over those.
    pub(crate) fn stripe_lost(&mut self, i: usize) {
        let pair = &mut self.pairs[i];
        base::log!(Info, "one of the connections to {} is lost", pair.remote);
        if let Some(Lane { lane, writing, .. }) = &mut pair.lane
            && let Some(lane) = lane.striped()
        {
            lane.drop_lost(|socket| self.watch.unset(&*socket));
            *writing &= lane.numbers();
        }
        self.engine.on_lane_lost(pair.peer);
        // Also if there is nothing to ask: the other side is to be told.
        self.mark(i);
    }

    /// For tests: cuts one of the connections of the lane between two processes, if it is there.
    #[doc(hidden)]
    pub fn cut_stripe(&mut self, local: base::ProcId, remote: base::ProcId, number: u16) -> bool {
        let i = self.find_pair(local, remote);
        let lane = i.and_then(|i| self.pairs[i].lane.as_mut()).and_then(|lane| lane.lane.striped());
        let mut streams = lane.into_iter().flat_map(|lane| lane.streams());
        streams.find(|(n, _)| *n == number).inspect(|(_, socket)| socket.cut()).is_some()
    }

    /// For tests: how many connections the lane between two processes has.
    #[doc(hidden)]
    pub fn stripes(&mut self, local: base::ProcId, remote: base::ProcId) -> usize {
        let i = self.find_pair(local, remote);
        let lane = i.and_then(|i| self.pairs[i].lane.as_mut()).and_then(|lane| lane.lane.striped());
        lane.map_or(0, |lane| lane.streams().count())
    }
}
