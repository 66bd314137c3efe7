//! By which way the data of a large message comes from a process on this host: the receiver reads the sender's memory, or the sender
//! copies through the lane while the receiver copies out of it. Which is faster depends on the processors, on how near they are
//! to each other, and on the size; so both are tried, for each pair and size, and again now and then.
//!
//! Invariant: only speed depends on what is chosen here.

use base::protocol::message::{READ_FROM, READ_SIZES, READ_UP_TO};
use engine::OpId;
use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

/// A way for the data of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// The sender copies it through the lane.
    Push,
    /// The receiver reads it.
    Pull,
}

impl Way {
    fn other(self) -> Way {
        match self {
            Way::Push => Way::Pull,
            Way::Pull => Way::Push,
        }
    }
}

/// So many messages in a row go a way that is tried: the first are slower, since what they touch was last used by the other way.
const RUN: u32 = 4;
/// So often each way is tried before one is preferred.
const TRIES: u32 = RUN;
/// A message that is read in this part of the time that the lane takes is here sooner than if it came eager, without our answer to its announcement.
const SOONER: f32 = 0.75;
/// A way is left only for one that takes this part of its time: to go over costs some time itself.
const LEAVE: f32 = 0.9;
/// The measured times that are kept of each way.
const LAST: usize = 8;
/// Of so many runs of messages one goes the other way, to see whether it is faster now; and of so many where that was more than [`MUCH`]
/// times slower.
const AGAIN: u32 = 64;
const SELDOM: u32 = 1024;
/// Of so many announced ones one is read to see whether that is faster now, if such messages go eager: then few are announced.
const FEW: u32 = 8;
const MUCH: f32 = 2.0;
/// A size of which nothing is known goes by one that is at most this many powers of two away: sizes between may have gone by that one
/// too, and then there are no times of theirs.
const KIN: usize = 3;
/// Sizes from this power of two on are told apart, up to the last one.
const FIRST: u32 = 14;
const CLASSES: usize = 12;
/// The most transfers that are timed at once.
const TIMED: usize = 8;

/// What was measured of one way: how often, and the nanoseconds of a KiB of the last messages. The second least of these counts: others may have
/// waited for something else, and one may have been lucky.
#[derive(Clone, Copy)]
struct Measured {
    times: u32,
    last: [f32; LAST],
    cost: f32,
}

impl Default for Measured {
    fn default() -> Self {
        Measured { times: 0, last: [f32::INFINITY; LAST], cost: f32::INFINITY }
    }
}

impl Measured {
    fn note(&mut self, cost: f32) {
        self.last[self.times as usize % LAST] = cost;
        self.times = self.times.wrapping_add(1).max(1);
        let mut least = [f32::INFINITY; 2];
        for &cost in &self.last {
            least = [least[0].min(cost), least[1].min(least[0].max(cost))];
        }
        self.cost = least[1];
    }
}

/// One size.
#[derive(Clone, Copy, Default)]
struct Size {
    push: Measured,
    pull: Measured,
    messages: u32,
    /// The faster way, once both were tried.
    better: Option<Way>,
    /// Messages of this size are here sooner by reading than eager.
    sooner: bool,
}

impl Size {
    /// A way was measured.
    fn note(&mut self, way: Way, cost: f32) {
        match way {
            Way::Push => self.push.note(cost),
            Way::Pull => self.pull.note(cost),
        }
        if self.push.times < TRIES || self.pull.times < TRIES {
            return;
        }
        let [push, pull] = [self.push.cost, self.pull.cost];
        self.better = Some(match self.better {
            Some(Way::Push) if pull < push * LEAVE => Way::Pull,
            Some(Way::Pull) if push < pull * LEAVE => Way::Push,
            Some(way) => way,
            None if pull < push => Way::Pull,
            None => Way::Push,
        });
        self.sooner = pull < push * if self.sooner { SOONER / LEAVE } else { SOONER };
    }

    /// The way that is more than [`MUCH`] times faster.
    fn far_better(&self) -> Option<Way> {
        let [push, pull] = [self.push.cost, self.pull.cost];
        self.better.filter(|_| push.max(pull) > MUCH * push.min(pull))
    }

    /// The number of the present run.
    fn run(&self) -> u32 {
        self.messages / RUN
    }

    /// Whether this is one run of so many.
    fn is_turn(&self, many: u32) -> bool {
        self.run() > 0 && self.run().is_multiple_of(many)
    }

    /// `kin`: what is far better for a size like this one. The other way is tried later then. `is_short`: such a message may go eager.
    fn choose(&mut self, kin: Option<Way>, is_short: bool) -> Way {
        let Some(better) = self.better else {
            let first = kin.unwrap_or(Way::Push);
            let times = if first == Way::Push { self.push.times } else { self.pull.times };
            self.messages += u32::from(kin.is_some());
            let is_too_early = kin.is_some() && !self.is_turn(AGAIN);
            return if times < TRIES || is_too_early { first } else { first.other() };
        };
        let other = better.other();
        self.messages += 1;
        let again = match other {
            _ if self.far_better().is_some() => SELDOM,
            Way::Pull if is_short => FEW,
            _ => AGAIN,
        };
        // More often in the beginning: the first messages through the lane wait for its memory. Of those that could go eager few are announced.
        let is_early = (other == Way::Push || is_short) && self.run() < again && self.run().is_power_of_two();
        if self.is_turn(again) || is_early { other } else { better }
    }
}

/// A transfer whose end is awaited.
struct Timed {
    op: OpId,
    pair: usize,
    size: u64,
    way: Way,
    since: Instant,
}

/// What is known of all pairs.
#[derive(Default)]
pub(crate) struct Ways {
    pairs: BTreeMap<usize, [Size; CLASSES]>,
    timed: VecDeque<Timed>,
}

fn class(size: u64) -> usize {
    (size.max(1).ilog2().saturating_sub(FIRST) as usize).min(CLASSES - 1)
}

/// What is far better for sizes like this one, of which nothing is known.
fn kin(sizes: &[Size; CLASSES], class: usize) -> Option<Way> {
    let mut kin = (1..=KIN).flat_map(|n| [class.checked_sub(n), Some(class + n)]).flatten();
    if sizes[class].better.is_some() { None } else { kin.find_map(|kin| sizes.get(kin)?.far_better()) }
}

impl Ways {
    /// The way for this message, which begins now.
    pub(crate) fn begin(&mut self, pair: usize, op: OpId, size: u64) -> Way {
        let (sizes, class) = (self.pairs.entry(pair).or_default(), class(size));
        let kin = kin(sizes, class);
        let way = sizes[class].choose(kin, size <= READ_UP_TO);
        if self.timed.len() == TIMED {
            // Nobody has asked for its outcome.
            self.timed.pop_front();
        }
        self.timed.push_back(Timed { op, pair, size, way, since: Instant::now() });
        way
    }

    /// The sizes of messages that are here sooner by reading than eager, for [`engine::Engine::set_read_sooner`].
    pub(crate) fn sooner(&self, pair: usize) -> u8 {
        let Some(sizes) = self.pairs.get(&pair) else { return 0 };
        let sooner = |n: &usize| {
            let class = class(READ_FROM << n);
            let size = &sizes[class];
            match size.better {
                Some(_) => size.sooner,
                None => size.pull.times > 0 && kin(sizes, class) == Some(Way::Pull),
            }
        };
        (0..READ_SIZES).filter(sooner).fold(0, |bits, n| bits | 1 << n)
    }

    /// Whether no operation is timed.
    #[inline(always)]
    pub(crate) fn is_idle(&self) -> bool {
        self.timed.is_empty()
    }

    /// An operation is over. Returns its pair, if the operation was timed.
    #[inline(always)]
    pub(crate) fn end(&mut self, op: OpId) -> Option<usize> {
        if self.timed.is_empty() { None } else { self.end_timed(op) }
    }

    fn end_timed(&mut self, op: OpId) -> Option<usize> {
        let at = self.timed.iter().position(|timed| timed.op == op)?;
        let Timed { pair, size, way, since, .. } = self.timed.remove(at)?;
        self.note(pair, size, way, since.elapsed());
        Some(pair)
    }

    fn note(&mut self, pair: usize, size: u64, way: Way, took: Duration) {
        let Some(sizes) = self.pairs.get_mut(&pair) else { return };
        let known = &mut sizes[class(size)];
        let before = known.better;
        let cost = took.as_nanos() as f32 * 1024.0 / size.max(1) as f32;
        known.note(way, cost);
        if let Some(better) = known.better.filter(|better| before != Some(*better)) {
            let kib = 1 << (class(size) as u32 + FIRST - 10);
            let [push, pull] = [known.push, known.pull].map(|measured| 1024.0 / measured.cost);
            base::log!(
                Info,
                "pair {pair}: messages from {kib} KiB on {}: {push:.1} GB/s through the lane, {pull:.1} by reading",
                if better == Way::Push { "go through the lane" } else { "are read from the sender's memory" }
            );
        }
    }

    /// The pair has lost its lane: another one may be on another way.
    pub(crate) fn forget(&mut self, pair: usize) {
        self.pairs.remove(&pair);
        self.timed.retain(|timed| timed.pair != pair);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn send(ways: &mut Ways, costs: [u64; 2]) -> Way {
        let way = ways.begin(3, OpId(1), 1 << 20);
        ways.timed.clear();
        ways.note(3, 1 << 20, way, Duration::from_micros(costs[way as usize]));
        way
    }

    #[test]
    fn the_faster_way_is_found_and_found_again() {
        for (costs, better) in [([50, 90], Way::Push), ([90, 50], Way::Pull)] {
            let mut ways = Ways::default();
            let first: Vec<Way> = (0..2 * TRIES).map(|_| send(&mut ways, costs)).collect();
            assert!(first.contains(&Way::Push) && first.contains(&Way::Pull));
            let run = RUN as usize;
            let all = (0..1000 * run).filter(|_| send(&mut ways, costs) != better).count();
            let early = if better == Way::Pull { AGAIN.ilog2() as usize } else { 0 };
            assert_eq!(all, (1000 / AGAIN as usize + early) * run);
            // The machine moves: what was slower is faster now.
            let [push, pull] = costs;
            let turned = (0..20 * RUN * AGAIN).position(|_| (0..8).all(|_| send(&mut ways, [pull, push]) != better));
            assert!(turned.is_some());
        }
    }

    #[test]
    fn a_way_that_is_far_slower_is_tried_seldom() {
        let mut ways = Ways::default();
        let slow = (0..10_000 * RUN).filter(|_| send(&mut ways, [50, 500]) == Way::Pull).count();
        assert_eq!(slow, (TRIES + 9 * RUN) as usize);
        assert_eq!(ways.pairs.len(), 1);
        ways.forget(3);
        assert!(ways.pairs.is_empty());
    }

    #[test]
    fn a_size_goes_by_those_like_it() {
        let mut ways = Ways::default();
        (0..2 * TRIES).for_each(|_| _ = send(&mut ways, [50, 500]));
        let mut pulls = |size: u64, costs: [u64; 2]| {
            let mut send = || {
                let way = ways.begin(3, OpId(1), size);
                ways.note(3, size, way, Duration::from_micros(costs[way as usize]));
                way
            };
            let early = (0..RUN * AGAIN - 1).filter(|_| send() == Way::Pull).count();
            [early, (0..RUN * AGAIN * 4).filter(|_| send() == Way::Pull).count()]
        };
        assert!(pulls(64 << 20, [1, 10])[0] > 0, "those are not alike");
        assert_eq!(pulls(128 << 10, [6, 60])[0], 0);
        assert_eq!(pulls(4 << 20, [200, 2000])[0], 0);
        assert!(pulls(2 << 20, [200, 100])[1] > 100, "it is another way all the same");
    }

    #[test]
    fn what_is_read_sooner_than_it_comes_eager_is_told() {
        for (costs, sooner) in [([100, 74], 0b010), ([100, 76], 0), ([74, 100], 0)] {
            let mut ways = Ways::default();
            for sent in 0..2 * TRIES {
                assert_eq!(ways.sooner(3), 0, "{sent} of them tell too little");
                let way = ways.begin(3, OpId(1), 200 << 10);
                ways.note(3, 200 << 10, way, Duration::from_micros(costs[way as usize]));
            }
            assert_eq!(ways.sooner(3), sooner);
            ways.forget(3);
            assert_eq!(ways.sooner(3), 0);
        }
        // A size goes by those like it, once there is one.
        let mut ways = Ways::default();
        (0..2 * TRIES).for_each(|_| _ = send(&mut ways, [300, 100]));
        assert_eq!(ways.sooner(3), 0);
        assert_eq!(ways.begin(3, OpId(1), 200 << 10), Way::Pull);
        ways.note(3, 200 << 10, Way::Pull, Duration::from_micros(20));
        assert_eq!(ways.sooner(3), 0b010);
    }

    #[test]
    fn sizes_are_told_apart_and_outcomes_need_not_be_asked_for() {
        assert_eq!([0, 1 << 14, 1 << 15, (1 << 16) - 1, 1 << 40].map(class), [0, 0, 1, 1, CLASSES - 1]);
        let mut ways = Ways::default();
        (0..100).for_each(|n| _ = ways.begin(0, OpId(n), 1 << 20));
        assert_eq!(ways.timed.len(), TIMED);
        ways.end(OpId(99));
        ways.end(OpId(0));
        assert_eq!(ways.timed.len(), TIMED - 1);
    }
}
