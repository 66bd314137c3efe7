//! Those who come: their connections, their HELLOs, and which of them gets a lane.
//!
//! Part of the core. Invariant: nobody takes a pair's place who does not know its group's cookie, and a lane that works is
//! not given up for one that claims what cannot be.

use crate::carrier::Carrier;
use crate::core::{Core, Known};
use crate::near::Answered;
use crate::strangers::{MAX_CALLER_FRAME, most_descriptors};
use crate::watch::{Owner, Watch};
use base::ProcId;
use engine::Gone;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};
use transports::frame::older;
use transports::shm::{Guest, ShmLane};
use transports::stream::StripedLane;
use transports::tcp::{Arrived, Halfway, Hello, HelloAck, Status};

/// Connections without a good HELLO that are borne at a time, and the part of the program's descriptors that they may
/// take.
const MAX_HALFWAY: usize = 64;
const HALFWAY_PART: usize = 8;
/// A HELLO of ours that is older does not stand in the way of theirs.
const OWN_DIAL_STANDS: Duration = Duration::from_secs(2);

/// One who has come and has no lane yet.
pub(crate) enum Knock {
    Tcp(Halfway),
    Near(Guest, Option<Answered>),
}

impl AsFd for Knock {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Knock::Tcp(halfway) => halfway.as_fd(),
            Knock::Near(guest, _) => guest.as_fd(),
        }
    }
}

impl Knock {
    /// Whether the other side has given up.
    pub(crate) fn has_hung_up(&self) -> bool {
        match self {
            Knock::Tcp(halfway) => halfway.has_hung_up(),
            Knock::Near(guest, _) => guest.has_hung_up(),
        }
    }

    pub(crate) fn expired(&self, now: Instant) -> bool {
        match self {
            Knock::Tcp(halfway) => halfway.expired(now),
            Knock::Near(guest, _) => guest.expired(now),
        }
    }
}

impl Core {
    pub(crate) fn on_listener(&mut self, i: usize, now: Instant) {
        for _ in 0..64 {
            let Some(listeners) = &self.listeners else { return };
            match listeners.accept(i).and_then(|stream| Halfway::new(stream, now)) {
                Ok(halfway) => self.greet_later(Knock::Tcp(halfway), now),
                Err(e) if e.kind() == ErrorKind::WouldBlock => return,
                Err(e) if self.out_of_descriptors(&e, now) => return,
                // That one connection was broken, or its place is free now.
                Err(_) => (),
            }
        }
    }

    /// What to do about an error of accept: whether to stop for a while.
    pub(crate) fn out_of_descriptors(&mut self, e: &io::Error, now: Instant) -> bool {
        if !matches!(e.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS)) {
            return false;
        }
        // Those who have said nothing give way to those who may have something to say.
        if self.drop_oldest_halfway() {
            return false;
        }
        base::log_seldom!(Error, "cannot accept a connection: {e}");
        self.doors(|watch, fd, _| watch.pause(fd));
        self.accept_again = Some(now + Duration::from_millis(200));
        true
    }

    /// Calls `f` for every socket that others come to.
    pub(crate) fn doors(&self, f: impl Fn(&Watch, BorrowedFd<'_>, Owner)) {
        for (i, fd) in self.listeners.iter().flat_map(|l| l.fds()) {
            f(&self.watch, fd, Owner::Listener(i as u32));
        }
        if let Some(door) = self.local.as_ref().and_then(|local| local.door.as_ref()) {
            f(&self.watch, door.as_fd(), Owner::Door);
        }
    }

    pub(crate) fn greet_later(&mut self, knock: Knock, now: Instant) {
        if self.halfway.len() >= most_halfway() {
            self.drop_oldest_halfway();
        }
        let n = self.next_halfway;
        self.next_halfway = n.wrapping_add(1);
        self.watch.set(&knock, Owner::Halfway(n), false);
        self.halfway.insert(n, knock);
        // The HELLO has often come along.
        self.on_halfway(n, now);
    }

    fn drop_oldest_halfway(&mut self) -> bool {
        let oldest = self.halfway.keys().min().copied();
        oldest.into_iter().for_each(|n| self.drop_halfway(n));
        oldest.is_some()
    }

    pub(crate) fn drop_halfway(&mut self, n: u32) {
        self.take_halfway(n);
    }

    pub(crate) fn take_halfway(&mut self, n: u32) -> Option<Knock> {
        let knock = self.halfway.remove(&n)?;
        self.watch.unset(&knock);
        Some(knock)
    }

    pub(crate) fn on_halfway(&mut self, n: u32, now: Instant) {
        let halfway = match self.halfway.get_mut(&n) {
            Some(Knock::Tcp(halfway)) => halfway,
            Some(Knock::Near(..)) => return self.on_guest(n, now),
            None => return,
        };
        match halfway.step() {
            Arrived::NotYet => (),
            Arrived::Foreign => {
                base::log_seldom!(Debug, "a connection that is not one of ours was closed");
                self.drop_halfway(n);
            }
            Arrived::Hello(hello) if hello.stripe == 0 => self.answer(n, &hello, false, now),
            Arrived::Hello(hello) => {
                let Some(Knock::Tcp(halfway)) = self.take_halfway(n) else { return };
                self.answer_stripe(halfway, &hello);
            }
        }
    }

    /// `mute`: the lane that its pair has was asked, and says nothing.
    pub(crate) fn answer(&mut self, n: u32, hello: &Hello, mute: bool, now: Instant) {
        let verdict = self.verdict(hello, now);
        if !mute && verdict.as_ref().is_ok_and(|(i, _)| self.ask_first(*i, n, hello, now)) {
            return;
        }
        let Some(Knock::Tcp(halfway)) = self.take_halfway(n) else { return };
        let (i, ack) = match verdict {
            Ok(good) => good,
            Err(refusal) => {
                if let Some(ack) = refusal {
                    halfway.answer(&ack);
                }
                return;
            }
        };
        if let Some(socket) = halfway.answer(&ack) {
            let path = &self.pairs[i].path;
            let mut lane = StripedLane::new(socket, path.local(), path.remote(), ack.generation);
            if self.pairs[i].is_caller {
                lane.limit_frames(MAX_CALLER_FRAME);
            }
            let lane = Carrier::Tcp(lane);
            let why = self.why_far(i).map_or("answered".into(), |why| format!("answered; no shared memory: {why}"));
            self.attach(i, lane, ack.generation, hello.received, &why);
        }
    }

    /// Which pair gets a lane, and the answer to its HELLO; or the answer that refuses it, if it deserves one.
    pub(crate) fn verdict(&mut self, hello: &Hello, now: Instant) -> Result<(usize, HelloAck), Option<HelloAck>> {
        let mut ack = HelloAck { status: Status::Good, generation: 0, process: self.contact.process, received: 0 };
        let i = match self.judge(hello, now) {
            Ok(i) => i,
            Err((status, generation)) => {
                base::log!(Debug, "{} dialled {}: {status}", hello.source, hello.dest);
                return Err(Some(HelloAck { status, generation, ..ack }));
            }
        };
        let path = &self.pairs[i].path;
        let own = path.offered_generation();
        if !path.could_attach(own, hello.received) {
            // Its lane, if it has one, stays: whoever this is has not shown to know better.
            base::log_seldom!(Info, "{} claims to have received what was never sent: refused", hello.source);
            if self.strangers.contains(&i) && self.pairs[i].lane.is_none() {
                self.forget_stranger(i);
            }
            return Err(None);
        }
        ack.generation = if older(hello.generation, own) { own } else { hello.generation };
        ack.received = path.received();
        Ok((i, ack))
    }

    /// Who may have a lane: the pair, or what to say instead.
    fn judge(&mut self, hello: &Hello, now: Instant) -> Result<usize, (Status, u16)> {
        let removed = self.admit(hello)?.removed;
        let none = Err((Status::NoSuchProcess, 0));
        let i = match self.find_pair(hello.dest, hello.source) {
            Some(i) => i,
            None if removed || self.is_over(hello.dest, hello.source) => return none,
            None if !self.has_rank(hello.dest, hello.source) => return none,
            None => self.make_stranger(hello)?,
        };
        let pair = &mut self.pairs[i];
        if pair.who().is_some_and(|who| who != hello.process) {
            // Of two who claim to be the same, their contact record decides, when it is there.
            return if pair.process.is_none() { Err((Status::Later, 0)) } else { none };
        }
        if pair.process.is_none() {
            pair.claimed = Some(hello.process);
        }
        // One that has finalized may still come for our last acknowledgement.
        if pair.gone == Some(Gone::Dead) {
            return none;
        }
        let better = Err((Status::BetterConnection, pair.path.offered_generation().wrapping_sub(1)));
        if let Some(lane) = &pair.lane
            // The kernel says of shared memory that the other side has it still; a lane over TCP is asked, see `life`.
            && (!older(lane.generation, hello.generation) || lane.lane.shm().is_some_and(ShmLane::is_open))
        {
            return better;
        }
        if pair.local < pair.remote && pair.dial.greeted_within(OWN_DIAL_STANDS, now) {
            return better;
        }
        Ok(i)
    }

    /// The group that one who comes asks for, if it is ours and it knows the cookie; or what to say instead.
    pub(crate) fn admit(&self, hello: &Hello) -> Result<&Known, (Status, u16)> {
        let none = Err((Status::NoSuchProcess, 0));
        let Some(known) = self.groups.get(&hello.dest.incarnation) else { return none };
        if known.group.rank != hello.dest.rank || self.closing && self.listeners.is_none() {
            return none;
        }
        let differs = known.group.cookie.iter().zip(&hello.cookie).fold(0, |d, (a, b)| d | (a ^ b));
        if differs != 0 {
            base::log_seldom!(Info, "a connection with a wrong cookie was refused");
            return Err((Status::BadCookie, 0));
        }
        Ok(known)
    }

    /// Whether that process can be, as far as its group is known.
    fn has_rank(&self, local: ProcId, remote: ProcId) -> bool {
        let between = self.between.get(&(local.incarnation, remote.incarnation));
        between.and_then(|b| b.size).is_none_or(|size| remote.rank < size)
    }

    /// Whether there was a pair and it has ended.
    fn is_over(&self, local: ProcId, remote: ProcId) -> bool {
        let between = self.between.get(&(local.incarnation, remote.incarnation));
        between.is_some_and(|b| b.over.contains_key(&remote.rank))
    }
}

fn most_halfway() -> usize {
    (most_descriptors() / HALFWAY_PART).clamp(1, MAX_HALFWAY)
}
