//! The core: the session of one process, and the code that carries out the session's actions.
//!
//! Used under the node's lock. Invariants: a user buffer is in the session's table exactly as long as its operation is
//! pending; all actions of the session are carried out before the lock is given back.

use crate::config::{Config, StartError};
use crate::memory::Buffers;
use crate::state::Core;
use crate::state::callbacks::Callbacks;
use crate::state::checkpoints::Checkpoints;
use crate::state::handshakes::Handshakes;
use crate::state::operations::Operations;
use crate::state::operators::Operators;
use crate::state::pace::Pace;
use crate::state::polled::PolledLanes;
use crate::state::pulls::{Pull, Pulls, Put};
use crate::state::waits;
use crate::sys::most_descriptors;
use crate::watch::{Owner, Watch};
use base::Time;
use checkpoint::Chosen;
use engine::Engine;
use session::{Action, Agreed, NewLane, Own, Session};
use std::sync::Arc;
use std::time::Instant;
use transports::registry::{AnyLane, Registry};
use transports::transport::Env;

impl Core {
    pub(crate) fn new(config: &Config, watch: Arc<Watch>) -> Result<Core, StartError> {
        let trust = config.trusts.open()?;
        let process = trust.identity().process();
        let mut registry = Registry::open(&config.transports, &Env { trust: &trust, doorbell: watch.doorbell() })?;
        watch.set_listeners(&registry);
        let transports =
            registry.entries().map(|e| (e.about, e.opened.as_ref().map(drop).map_err(|why| *why))).collect();
        let (host, descriptors) = (registry.contact().host, most_descriptors());
        let own = Own { process, host, transports, descriptors, digest: trust::digest };
        Ok(Core {
            session: Session::new(own, Engine::new(engine::Config::default()), Buffers::default()),
            polled: PolledLanes::new(registry.polling.take()),
            registry,
            trust,
            handshakes: Handshakes::default(),
            pulls: Pulls::default(),
            operations: Operations::default(),
            operators: Operators::default(),
            checkpoints: Checkpoints::default(),
            callbacks: Callbacks::default(),
            waits: waits::Table::new(config.notice),
            pace: Pace::default(),
            watch,
            leaving: Vec::new(),
            start: Instant::now(),
        })
    }

    /// From now on this group of ours is reached by a key that is made of its cookie.
    pub(crate) fn pass(&self, incarnation: u64, cookie: &[u8; 16]) {
        self.trust.pass(incarnation, cookie, |group| self.session.knows_group(group));
    }

    /// From now on this group of another job is dialled with such a key.
    pub(crate) fn pass_to(&self, incarnation: u64, cookie: &[u8; 16]) {
        self.trust.pass_to(incarnation, cookie, |group| self.session.knows_group(group));
    }

    /// An instant in the session's time: nanoseconds since the node started.
    pub fn time(&self, now: Instant) -> Time {
        Time(now.saturating_duration_since(self.start).as_nanos() as u64)
    }

    pub(crate) fn now(&self) -> Time {
        self.time(Instant::now())
    }

    /// Carries out all actions of the session.
    #[inline(never)]
    pub(crate) fn act(&mut self) {
        while let Some(action) = self.session.next_action() {
            self.carry_out(action);
        }
    }

    #[cold]
    fn carry_out(&mut self, action: Action<AnyLane>) {
        self.pace.stirred = true;
        match action {
            Action::Resolve { .. } | Action::Dial { .. } | Action::Abandon { .. } | Action::Probe { .. } => {
                self.connect(action);
            }
            Action::Answer { .. }
            | Action::Join { .. }
            | Action::Refuse { .. }
            | Action::Dismiss { .. }
            | Action::Pause { .. }
            | Action::Ask { .. } => self.receive_incoming(action),
            Action::Attached { pair } => {
                if self.polled_lane(pair).is_some() {
                    self.polled.add(pair);
                } else {
                    // A lane may have to say something first, and its connection may have brought the first words already.
                    self.read(pair);
                }
                self.watch_lane(pair);
            }
            Action::Left { pair } => {
                self.pace.busy.retain(|b| *b != pair);
                self.end_transfers(pair);
                // What it brings is told by the doorbell from now on.
                self.session
                    .pair_mut(pair)
                    .left_mut()
                    .filter_map(|lane| lane.polled())
                    .for_each(|lane| lane.set_direct(false));
                self.polled.leave(pair);
            }
            Action::Dropped { pair, mut lane, left } => {
                if !left {
                    self.pace.busy.retain(|b| *b != pair);
                    self.end_transfers(pair);
                    self.polled.leave(pair);
                }
                if lane.polled().is_some() {
                    self.polled.remove(pair);
                }
                let watch = &self.watch;
                lane.changed(&mut |fd| watch.unset(fd));
                lane.interests(&mut |_, fd, _| watch.unset(fd));
            }
            Action::Unused { lane } => drop(lane),
            Action::Died { pair } => {
                let now = self.now();
                self.session.lane_died(pair, now);
            }
            Action::Rearm { pair } => self.rearm(pair),
            Action::Get { peer, op, pieces, size } => self.begin_bulk(Pull { peer, op, pieces, size, done: 0 }),
            Action::Put { peer, op, receiver_op, offset, pieces } => {
                let size = pieces.iter().map(|(_, len)| len).sum();
                self.pulls.puts.push_back(Put { peer, op, receiver_op, offset, pieces, size, done: 0 });
            }
            Action::Note { op, note } => self.note(op, note),
            Action::Log { pair, kept } => {
                let pair = self.session.pair(pair);
                self.log_message(pair.local(), pair.remote(), *kept);
            }
            Action::Chosen { pair, context, ordinal, source, number } => {
                let pair = self.session.pair(pair);
                let (local, job) = (pair.local(), pair.remote().incarnation);
                self.note_choice(local, job, Chosen { context, ordinal, source, number });
            }
            Action::OfCheckpoints { local, remote, bytes, is_stranger } => {
                self.told_of_checkpoints(local, remote, &bytes, is_stranger);
            }
            Action::Asked { peer } => self.tell_waits(peer),
            Action::Told { peer, bytes } => self.told(peer, &bytes),
        }
    }

    /// A lane waits for other events than before: asks epoll for these.
    pub(crate) fn rearm(&mut self, pair: usize) {
        let Some(up) = self.session.pair_mut(pair).lane_mut() else { return };
        if up.lane.polled().is_some() {
            // No descriptor says that such a lane has room again: the lane itself shows it, or the receiver rings.
            return self.polled.set_stuck(pair, up.waiting != 0);
        }
        self.watch_lane(pair);
    }

    /// Watches a lane's descriptors for what it waits for now.
    pub(crate) fn watch_lane(&mut self, pair: usize) {
        let Some(up) = self.session.pair_mut(pair).lane_mut() else { return };
        let watch = &self.watch;
        up.lane.interests(&mut |_, fd, write| watch.set(fd, Owner::Lane(pair as u32), write));
    }

    /// Gives the session the lane that a handshake has made.
    pub(crate) fn attach(&mut self, agreed: Agreed, lane: AnyLane, dialled: bool) {
        let (transport, at) = (lane.about().id, lane.peer_place());
        let Agreed { pair, generation, received, moves } = agreed;
        let now = self.now();
        self.session.attach(pair, NewLane { lane, generation, received, transport, at, dialled, moves }, now);
    }

    /// Closes every descriptor.
    pub(crate) fn shut(&mut self) {
        self.session.shut();
        self.act();
        self.close_handshakes();
    }
}

/// A watched descriptor is in the table of those that forked children close. It has to leave the table before its
/// number is used again.
impl Drop for Core {
    fn drop(&mut self) {
        self.shut();
    }
}
