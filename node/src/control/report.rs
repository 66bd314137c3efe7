//! What this process tells of itself: its pairs and what they carry, its queues, and what it waits for.
//!
//! Computed under the lock when somebody asks. Invariant: nothing is counted for it while messages move.

use crate::state::Core;
use crate::state::waits::{Entered, Waited};
use base::protocol::operator::{MAX_JOBS, MAX_LINES, MAX_WAITS};
use engine::Gone;
use session::{Hold, Sum};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use transports::registry::AnyLane;
use wire::control::{Carried, Flow, Holding, Job, Pair, Report, Wait};
use wire::lane::Lane;

fn flow(of: engine::Flow) -> Flow {
    Flow { messages: of.messages, bytes: of.bytes }
}

fn micros(time: Duration) -> u64 {
    time.as_micros().try_into().unwrap_or(u64::MAX)
}

impl Core {
    /// The figures of this process in the group of this incarnation.
    pub(crate) fn report(&mut self, incarnation: u64) -> Report {
        let now = Instant::now();
        let waited = self.waited(now);
        let mut pairs = self.report_pairs(incarnation, &waited);
        pairs.sort_by_key(|pair| {
            (std::cmp::Reverse(pair.sent.bytes + pair.received.bytes), pair.incarnation, pair.rank)
        });
        let left_off = pairs.len().saturating_sub(MAX_LINES) as u32;
        pairs.truncate(MAX_LINES);
        Report {
            pid: std::process::id(),
            host: base::ident::host().into(),
            at: micros(now - self.start),
            waited: micros(waited.all),
            hold: match self.is_held() {
                Hold::No => Holding::No,
                Hold::Closing => Holding::Closing,
                Hold::Held { .. } => Holding::Held,
            },
            waits: self.report_waits(now),
            jobs: self.report_jobs(incarnation, &waited),
            pairs,
            left_off,
        }
    }

    fn report_pairs(&mut self, incarnation: u64, waited: &Waited) -> Vec<Pair> {
        let lanes = self.session.pairs_mut().map(|pair| pair.lane_mut().and_then(|up| round_trip(&mut up.lane)));
        let round_trips: Vec<Option<Duration>> = lanes.collect();
        let session = &self.session;
        let queues = session.engine.queues();
        self.pairs_of(incarnation)
            .map(|(i, pair)| {
                let (peer, remote) = (pair.peer(), pair.remote());
                let traffic = session.engine.traffic(peer);
                let (unexpected, posted) = queues.of.get(&peer).copied().unwrap_or_default();
                let up = pair.lane();
                let trouble = || self.describe_trouble(i).unwrap_or_default();
                Pair {
                    incarnation: remote.incarnation,
                    rank: remote.rank,
                    unexpected,
                    posted,
                    from_any: queues.from_any.get(&peer).copied().unwrap_or_default(),
                    round_trip: round_trips[i].map(|t| micros(t).min(u32::MAX as u64 - 1) as u32),
                    waited: micros(waited.peers.get(&remote).copied().unwrap_or_default()),
                    sent: flow(traffic.sent),
                    received: flow(traffic.received),
                    transport: up.map_or("", |up| session.word(up.transport)).into(),
                    why: match pair.gone() {
                        Some(Gone::Dead) => "it has died".into(),
                        Some(Gone::Finished) => "it has left".into(),
                        None if up.is_some() => session.why_not_better(i),
                        None => trouble(),
                    },
                }
            })
            .collect()
    }

    /// The pairs of the group of this incarnation.
    fn pairs_of(&self, incarnation: u64) -> impl Iterator<Item = (usize, &session::Pair<AnyLane>)> {
        let session = &self.session;
        session.pairs().filter(move |(i, pair)| session.is_pair(*i) && pair.local().incarnation == incarnation)
    }

    fn report_waits(&self, now: Instant) -> Vec<Wait> {
        let mut waits: Vec<_> = self.waits.entered.values().collect();
        waits.sort_by_key(|wait| wait.since);
        let wait = |Entered { about, since, .. }: &&Entered| {
            let peers = self.awaited_by(about);
            let peers = peers.iter().map(|peer| self.session.pair(peer.0 as usize).remote());
            Wait {
                since: micros(now - *since),
                call: about.call.into(),
                what: self.say_things(about),
                peers: peers.map(|of| (of.incarnation, of.rank)).take(MAX_WAITS).collect(),
            }
        };
        waits.iter().take(MAX_WAITS).map(wait).collect()
    }

    fn report_jobs(&self, incarnation: u64, waited: &Waited) -> Vec<Job> {
        let mut jobs: BTreeMap<u64, Job> = BTreeMap::new();
        let job = |theirs| Job {
            incarnation: theirs,
            waited: micros(waited.jobs.get(&theirs).copied().unwrap_or_default()),
            name: base::ident::name_of_job(theirs).unwrap_or_default(),
            carried: Vec::new(),
        };
        // Those too with which nothing is connected.
        for (_, pair) in self.pairs_of(incarnation) {
            let theirs = pair.remote().incarnation;
            jobs.entry(theirs).or_insert_with(|| job(theirs));
        }
        let sums = self.session.sums();
        for ((_, theirs, transport), Sum { pairs, traffic }) in
            sums.iter().filter(|((ours, ..), _)| *ours == incarnation)
        {
            jobs.entry(*theirs).or_insert_with(|| job(*theirs)).carried.push(Carried {
                transport: self.session.word(*transport).into(),
                pairs: *pairs,
                sent: flow(traffic.sent),
                received: flow(traffic.received),
            });
        }
        jobs.into_values().take(MAX_JOBS).collect()
    }
}

fn round_trip(lane: &mut AnyLane) -> Option<Duration> {
    Lane::<crate::memory::Buffers>::round_trip(lane)
}
