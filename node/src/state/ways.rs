//! By which way the data of a large message comes from a process on this host: the sender copies through the lane while the receiver copies
//! out of it, the receiver reads the sender's memory, or it reads one half while the sender writes the other to its memory. Which is fastest
//! depends on the processors, on how near they are to each other, and on the size; so all are tried, for each pair and size, and
//! again now and then.
//!
//! Invariant: only speed depends on what is chosen here.

use base::protocol::message::{READ_FROM, READ_SIZES, READ_UP_TO};
use engine::OpId;
use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

/// A shorter message is read alone: its half would be less than what asking for it costs.
pub(crate) const HALVED_FROM: u64 = 2 * READ_FROM;

/// A way for the data of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// The sender copies it through the lane.
    Push,
    /// The receiver reads it.
    Pull,
    /// The receiver reads one half, and the sender writes the other.
    Both,
}

impl Way {
    const ALL: [Way; 3] = [Way::Push, Way::Pull, Way::Both];

    fn others(self) -> [Way; 2] {
        match self {
            Way::Push => [Way::Pull, Way::Both],
            Way::Pull => [Way::Push, Way::Both],
            Way::Both => [Way::Push, Way::Pull],
        }
    }
}

/// So many messages in a row go a way that is tried: the first are slower, since what they touch was last used by the other way.
const RUN: u32 = 4;
/// So often each way is tried before one is preferred.
const TRIES: u32 = RUN;
/// A message that is read in this part of the time that the lane takes is here sooner than if it came eager, without our answer to its announcement.
/// That answer is a larger part of the time of those that are less than twice as long as the shortest.
const SOONER: f32 = 0.75;
const SHORT_SOONER: f32 = 0.55;
/// Once reading counts as sooner, it counts so until it takes so many times these parts: each change is told to the sender.
const STILL: f32 = 1.18;
/// A way is left only for one that takes this part of its time: to go over costs some time itself. A larger part is enough right after the other way was
/// looked at: then both times are of the same moment, where else this way may have become slower as all have.
const LEAVE: f32 = 0.85;
const LEAVE_AFTER_LOOK: f32 = 0.94;
/// The measured times that are kept of each way.
const LAST: usize = 8;
/// By so much the cost of a way rises at most with one message of up to [`SHORT`] bytes, and with any. A host takes its
/// processors away for many messages in a row: what was measured meanwhile of one way would be compared with quiet times of the others.
const RISE: f32 = 0.01;
const LONG_RISE: f32 = 0.03;
const SHORT: f32 = 65536.0;
/// Of so many runs of messages one goes another way, to see whether it is faster now; and of so many where that was more than [`MUCH`]
/// times slower. The two others take turns.
const AGAIN: u32 = 64;
const SELDOM: u32 = 1024;
/// Of so many announced ones one is read to see whether that is faster now, if such messages go eager: then few are announced.
const FEW: u32 = 8;
const MUCH: f32 = 2.0;
/// A size of which nothing is known goes by one that is at most this many powers of two away: sizes between may have gone by that one
/// too, and then there are no times of theirs.
const KIN: usize = 3;
/// From this size on it may go by a shorter one that is one power more away, and by one of at least [`LONG_KIN`] bytes however little that gains: a
/// program sends few of them, which would all be trials. Shorter ones go through the lane in another way.
const LONG: u64 = 16 << 20;
const LONG_KIN: u64 = 4 << 20;
/// In one of so many runs of a size that goes by another one, which gains little, a way is tried that was not.
const SOON: u32 = 8;
/// Sizes from this power of two on are told apart, up to the last one. The first are those that are shorter than [`READ_FROM`].
const FIRST: u32 = READ_FROM.ilog2() - 1;
const CLASSES: usize = 13;
/// The most transfers that are timed at once.
const TIMED: usize = 8;

/// What was measured of one way: how often, and the nanoseconds of a KiB of the last messages. The second least of these counts: others may have
/// waited for something else, and one may have been lucky. It counts at once where that is less than before, and what is more counts slowly.
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
    /// `rise`: the part by which the cost may rise.
    fn note(&mut self, cost: f32, rise: f32) {
        self.last[self.times as usize % LAST] = cost;
        self.times = self.times.wrapping_add(1).max(1);
        let mut least = [f32::INFINITY; 2];
        for &cost in &self.last {
            least = [least[0].min(cost), least[1].min(least[0].max(cost))];
        }
        self.cost = least[1].min(self.cost * (1.0 + rise));
    }
}

/// One size.
#[derive(Clone, Copy, Default)]
struct Size {
    /// By [`Way`].
    measured: [Measured; Way::ALL.len()],
    messages: u32,
    /// The run in which each way was last taken to see how fast it is, and the way that is taken so now.
    seen: [u32; Way::ALL.len()],
    looks_at: Option<Way>,
    /// The fastest way, once all were tried.
    better: Option<Way>,
    /// Messages of this size are here sooner by reading than eager.
    sooner: bool,
}

impl Size {
    /// A way was measured with a message of so many bytes, for this many messages.
    fn note(&mut self, way: Way, cost: f32, bytes: u64, messages: u32) {
        self.measured[way as usize].note(cost, rise(bytes) * messages as f32);
        if self.untried().is_some() {
            return;
        }
        let least = Way::ALL.into_iter().min_by(|a, b| self.cost(*a).total_cmp(&self.cost(*b)));
        let leaves = |better: Way| {
            let part = if better == way { LEAVE } else { LEAVE_AFTER_LOOK };
            least.is_some_and(|least| self.cost(least) < self.cost(better) * part)
        };
        self.better = self.better.filter(|better| !leaves(*better)).or(least);
        let [push, read] = self.costs();
        let part = if bytes < HALVED_FROM { SHORT_SOONER } else { SOONER };
        self.sooner = read < push * if self.sooner { part * STILL } else { part };
    }

    fn cost(&self, way: Way) -> f32 {
        self.measured[way as usize].cost
    }

    /// What the lane costs, and what reading does, alone or not.
    fn costs(&self) -> [f32; 2] {
        [self.cost(Way::Push), self.cost(Way::Pull).min(self.cost(Way::Both))]
    }

    fn untried(&self) -> Option<Way> {
        Way::ALL.into_iter().find(|way| self.measured[*way as usize].times < TRIES)
    }

    /// The fastest way, where reading is more than [`MUCH`] times faster or slower than the lane.
    fn far_better(&self) -> Option<Way> {
        let [push, read] = self.costs();
        self.better.filter(|_| push.max(read) > MUCH * push.min(read))
    }

    /// All that others are told of: sizes of its kin, too.
    fn told(&self) -> (Option<Way>, bool, Option<Way>) {
        (self.better, self.sooner, self.far_better())
    }

    /// The number of the present run.
    fn run(&self) -> u32 {
        self.messages / RUN
    }

    /// Whether this is one run of so many.
    fn is_turn(&self, many: u32) -> bool {
        self.run() > 0 && self.run().is_multiple_of(many)
    }

    /// `kin`: see [`kin`]. The other ways are tried later then. `is_short`: such a message may go eager.
    fn choose(&mut self, kin: Option<Kin>, is_short: bool) -> Way {
        let Some(better) = self.better else {
            let first = kin.map_or(Way::Push, |kin| kin.way);
            self.messages += u32::from(kin.is_some());
            let is_tried = self.measured[first as usize].times >= TRIES;
            let is_too_early = kin.is_some_and(|kin| !self.is_turn(kin.tries_in));
            return if is_tried && !is_too_early { self.untried().unwrap_or(first) } else { first };
        };
        self.messages += 1;
        if self.messages.is_multiple_of(RUN) {
            self.looks_at = self.due(better, is_short);
        }
        self.looks_at.unwrap_or(better)
    }

    /// The way of the next message, of this length, and for how many messages it is timed: see [`Size::timed_for`].
    fn next(&mut self, kin: Option<Kin>, bytes: u64) -> (Way, u32) {
        let is_short = bytes <= READ_UP_TO;
        (self.choose(kin, is_short), self.timed_for(is_short))
    }

    /// For how many messages the one that was chosen for last is timed. 0: it is not. To ask the clock and to take down what it says is a part of
    /// the time of short ones, so of a run of these that goes the fastest way only one is timed; another one than of the run before, since the
    /// messages of a program may differ in each of its steps, and there may be as many in one.
    fn timed_for(&self, is_short: bool) -> u32 {
        match is_short && self.better.is_some() && self.looks_at.is_none() {
            false => 1,
            true if self.messages % RUN == self.run() % RUN => RUN,
            true => 0,
        }
    }

    /// Another way, if one is to be looked at in this run: of several the one that was not for longest.
    fn due(&mut self, better: Way, is_short: bool) -> Option<Way> {
        // Of those that could go eager, and do, few are announced.
        let is_rare = is_short && better == Way::Push;
        let is_due = |other: &Way| {
            let again = match other {
                other if self.cost(*other) > MUCH * self.cost(better) => SELDOM,
                _ if is_rare => FEW,
                _ => AGAIN,
            };
            // More often in the beginning: the first messages through the lane wait for its memory.
            let is_early = (*other == Way::Push || is_rare) && self.run() < again && self.run().is_power_of_two();
            self.is_turn(again) || is_early
        };
        let way = better.others().into_iter().filter(is_due).min_by_key(|other| self.seen[*other as usize])?;
        self.seen[way as usize] = self.run();
        Some(way)
    }
}

/// A transfer whose end is awaited.
struct Timed {
    op: OpId,
    pair: usize,
    size: u64,
    way: Way,
    /// See [`Size::timed_for`].
    messages: u32,
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

/// The part by which the cost of a way may rise with one message of this size: longer ones take longer, and are fewer.
fn rise(size: u64) -> f32 {
    (RISE * size as f32 / SHORT).clamp(RISE, LONG_RISE)
}

/// The way by which a size goes of which nothing is known, and in one of how many runs another one is tried.
#[derive(Clone, Copy)]
struct Kin {
    way: Way,
    tries_in: u32,
}

/// What is better for sizes like this one, of which nothing is known: far better, but for the longest. The shortest go by none: see
/// [`SHORT_SOONER`].
fn kin(sizes: &[Size; CLASSES], class: usize) -> Option<Kin> {
    if sizes[class].better.is_some() || class <= self::class(READ_FROM) {
        return None;
    }
    let is_long = class >= self::class(LONG);
    let reach = if is_long { KIN + 1 } else { KIN };
    let mut kin = (1..=reach).flat_map(|n| [class.checked_sub(n), Some(class + n)]).flatten();
    kin.find_map(|kin| {
        let size = sizes.get(kin)?;
        let far = size.far_better().map(|way| Kin { way, tries_in: AGAIN });
        let any = size.better.filter(|_| is_long && kin >= self::class(LONG_KIN));
        far.or(any.map(|way| Kin { way, tries_in: SOON }))
    })
}

impl Ways {
    /// The way for this message, which begins now.
    pub(crate) fn begin(&mut self, pair: usize, op: OpId, size: u64) -> Way {
        let (way, messages) = self.choose(pair, size);
        if messages > 0 {
            if self.timed.len() == TIMED {
                // Nobody has asked for its outcome.
                self.timed.pop_front();
            }
            self.timed.push_back(Timed { op, pair, size, way, messages, since: Instant::now() });
        }
        way
    }

    /// Whether the next message of this length is timed, if it is to be read. Nothing has changed.
    pub(crate) fn reading_next(&self, pair: usize, size: u64) -> Option<bool> {
        let sizes = self.pairs.get(&pair)?;
        let mut size_alone = sizes[class(size)];
        let (way, messages) = size_alone.next(kin(sizes, class(size)), size);
        (way == Way::Pull).then_some(messages > 0)
    }

    /// Such a message was read, and took so long, if it was timed. Returns whether [`Ways::sooner`] may say something else of the pair now.
    pub(crate) fn was_read(&mut self, pair: usize, size: u64, took: Option<Duration>) -> bool {
        let (_, messages) = self.choose(pair, size);
        took.is_some_and(|took| self.note(pair, size, Way::Pull, took, messages))
    }

    /// See [`Size::next`].
    fn choose(&mut self, pair: usize, size: u64) -> (Way, u32) {
        let (sizes, class) = (self.pairs.entry(pair).or_default(), class(size));
        let kin = kin(sizes, class);
        sizes[class].next(kin, size)
    }

    /// An operation goes by reading alone, whichever way was chosen: its data cannot be written. A size of which that is so counts as tried.
    /// Returns its pair, if [`Ways::sooner`] may say something else of it now.
    pub(crate) fn reads_alone(&mut self, op: OpId) -> Option<usize> {
        let timed = self.timed.iter_mut().find(|timed| timed.op == op)?;
        timed.way = Way::Pull;
        let (pair, size) = (timed.pair, timed.size);
        self.note_cost(pair, size, Way::Both, f32::INFINITY, 1).then_some(pair)
    }

    /// The sizes of messages that are here sooner by reading than eager, for [`engine::Engine::set_read_sooner`].
    pub(crate) fn sooner(&self, pair: usize) -> u8 {
        let Some(sizes) = self.pairs.get(&pair) else { return 0 };
        let sooner = |n: &usize| {
            let class = class(READ_FROM << n);
            let size = &sizes[class];
            match size.better {
                Some(_) => size.sooner,
                None => {
                    size.measured.iter().any(|way| way.times > 0)
                        && kin(sizes, class).is_some_and(|kin| kin.way != Way::Push)
                }
            }
        };
        (0..READ_SIZES).filter(sooner).fold(0, |bits, n| bits | 1 << n)
    }

    /// Whether no operation is timed.
    #[inline(always)]
    pub(crate) fn is_idle(&self) -> bool {
        self.timed.is_empty()
    }

    /// An operation is over. Returns its pair, if [`Ways::sooner`] may say something else of it now.
    #[inline(always)]
    pub(crate) fn end(&mut self, op: OpId) -> Option<usize> {
        if self.timed.is_empty() { None } else { self.end_timed(op) }
    }

    fn end_timed(&mut self, op: OpId) -> Option<usize> {
        let at = self.timed.iter().position(|timed| timed.op == op)?;
        let Timed { pair, size, way, messages, since, .. } = self.timed.remove(at)?;
        self.note(pair, size, way, since.elapsed(), messages).then_some(pair)
    }

    /// A message took so long. Returns whether that changes what is known.
    fn note(&mut self, pair: usize, size: u64, way: Way, took: Duration, messages: u32) -> bool {
        self.note_cost(pair, size, way, took.as_nanos() as f32 * 1024.0 / size.max(1) as f32, messages)
    }

    fn note_cost(&mut self, pair: usize, size: u64, way: Way, cost: f32, messages: u32) -> bool {
        let Some(sizes) = self.pairs.get_mut(&pair) else { return false };
        let known = &mut sizes[class(size)];
        let before @ (was, ..) = known.told();
        known.note(way, cost, size, messages);
        if let Some(better) = known.better.filter(|better| was != Some(*better)) {
            let kib = 1 << (class(size) as u32 + FIRST - 10);
            let [push, pull, both] = known.measured.map(|measured| 1024.0 / measured.cost);
            let how = match better {
                Way::Push => "go through the lane",
                Way::Pull => "are read from the sender's memory",
                Way::Both => "are read by half while the sender writes the other half",
            };
            base::log!(
                Info,
                "pair {pair}: messages from {kib} KiB on {how}: {push:.1} GB/s through the lane, {pull:.1} by reading, {both:.1} by both"
            );
        }
        known.better.is_none() || before != known.told()
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

    /// The costs are in the order of [`Way`].
    fn send(ways: &mut Ways, costs: [u64; 3]) -> Way {
        send_long(ways, 1 << 20, costs)
    }

    fn send_long(ways: &mut Ways, size: u64, costs: [u64; 3]) -> Way {
        send_and_learn(ways, size, costs).0
    }

    /// And whether that changes what is known.
    fn send_and_learn(ways: &mut Ways, size: u64, costs: [u64; 3]) -> (Way, bool) {
        let way = ways.begin(3, OpId(1), size);
        let took = Duration::from_micros(costs[way as usize]);
        let timed = ways.timed.pop_back();
        (way, timed.is_some_and(|timed| ways.note(3, size, way, took, timed.messages)))
    }

    #[test]
    fn the_fastest_way_is_found_and_found_again() {
        for (costs, better) in
            [([50, 90, 80], Way::Push), ([90, 50, 80], Way::Pull), ([90, 80, 50], Way::Both), ([80, 90, 50], Way::Both)]
        {
            let mut ways = Ways::default();
            let first: Vec<Way> = (0..3 * TRIES).map(|_| send(&mut ways, costs)).collect();
            assert!(Way::ALL.iter().all(|way| first.contains(way)));
            let run = RUN as usize;
            let others: Vec<Way> =
                (0..1024 * run - 1).map(|_| send(&mut ways, costs)).filter(|way| *way != better).collect();
            // Early ones: the lane, whose memory was not there at first.
            let early = if better == Way::Push { 0 } else { AGAIN.ilog2() as usize };
            assert_eq!(others.len(), (1024 / AGAIN as usize - 1 + early) * run);
            assert!(better.others().iter().all(|way| others.contains(way)));
            // The machine moves: what was slow is fast now.
            for now in Way::ALL {
                let costs = Way::ALL.map(|way| if way == now { 40 } else { 100 });
                let turned = (0..40 * RUN * AGAIN).position(|_| (0..8).all(|_| send(&mut ways, costs) == now));
                assert!(turned.is_some(), "{better:?}, then {now:?}");
            }
        }
    }

    /// Of short messages that go the fastest way, one of a run is timed, and no more; and each of those by which another way is looked at.
    #[test]
    fn few_of_the_short_messages_are_timed() {
        for (size, few) in [(READ_FROM, true), (READ_UP_TO, true), (READ_UP_TO + 1, false)] {
            let mut ways = Ways::default();
            (0..3 * TRIES).for_each(|_| _ = send_long(&mut ways, size, [90, 50, 60]));
            let [mut timed, mut others] = [0; 2];
            for _ in 0..1000 * RUN {
                let is_other = ways.begin(3, OpId(1), size) != Way::Pull;
                let is_timed = ways.timed.pop_back().is_some();
                assert!(is_timed || !is_other && few, "{size}");
                timed += u32::from(is_timed && !is_other);
                others += u32::from(is_other);
            }
            let pulls = 1000 * RUN - others;
            assert_eq!(timed, if few { pulls / RUN } else { pulls }, "{size}");
        }
    }

    /// In a window of four each message waits for those before it, and one in four may be slow for another reason.
    #[test]
    fn a_program_with_as_many_messages_in_a_step_as_there_are_in_a_run_goes_the_fastest_way() {
        for (steps, shift) in [[1, 2, 3, 4], [3, 1, 1, 1]].into_iter().flat_map(|steps| (0..4).map(move |n| (steps, n)))
        {
            let mut ways = Ways::default();
            let pulled = (0..5000 * RUN as usize).filter(|n| {
                let step = steps[(n + shift) % 4];
                send_long(&mut ways, READ_FROM, [9, 7, 8].map(|cost| cost * step)) == Way::Pull
            });
            let pulled = pulled.count();
            assert!(pulled > 4700 * RUN as usize, "{steps:?}, {shift}: {pulled}");
        }
    }

    /// One that is read at once counts like any other: the same ways are taken in the same order.
    #[test]
    fn what_is_read_at_once_counts_like_any_other() {
        let costs = [[50, 90, 80], [90, 50, 80], [90, 80, 50]];
        for (costs, size) in costs.into_iter().flat_map(|costs| [(costs, 1 << 20), (costs, READ_UP_TO)]) {
            let (mut general, mut at_once) = (Ways::default(), Ways::default());
            let mut read = 0;
            for n in 0..20_000u64 {
                let was = at_once.pairs.get(&3).map(|sizes| sizes.map(|size| size.messages));
                let is_next = at_once.reading_next(3, size);
                assert_eq!(
                    at_once.pairs.get(&3).map(|sizes| sizes.map(|size| size.messages)),
                    was,
                    "nothing has changed"
                );
                let way = send_long(&mut general, size, costs);
                assert_eq!(is_next.is_some(), way == Way::Pull, "{n}");
                if let Some(is_timed) = is_next {
                    at_once.was_read(3, size, is_timed.then_some(Duration::from_micros(costs[1])));
                    read += 1;
                } else {
                    assert_eq!(send_long(&mut at_once, size, costs), way, "{n}");
                }
            }
            assert!(read > 100, "{read}");
        }
    }

    #[test]
    fn a_way_that_is_a_little_faster_is_no_reason_to_change() {
        let mut ways = Ways::default();
        (0..3 * TRIES).for_each(|_| _ = send(&mut ways, [90, 50, 60]));
        let both = (0..1000 * RUN).filter(|_| send(&mut ways, [90, 50, 48]) == Way::Both).count();
        assert!(both < 20 * RUN as usize, "{both}");
        let both = (0..1000 * RUN).filter(|_| send(&mut ways, [90, 50, 46]) == Way::Both).count();
        assert!(both > 800 * RUN as usize, "{both}");
    }

    /// Two ways that are nearly as fast do not take turns while both are slow.
    #[test]
    fn where_all_is_slow_for_long_the_way_changes_seldom() {
        let mut ways = Ways::default();
        let costs = [100, 50, 51];
        (0..100 * RUN).for_each(|_| _ = send(&mut ways, costs));
        let mut changes = 0;
        for _ in 0..20 {
            let slow: Vec<Way> = (0..50).map(|_| send(&mut ways, costs.map(|cost| 5 * cost))).collect();
            changes += slow.windows(2).filter(|pair| pair[0] != pair[1]).count();
            (0..100 * RUN).for_each(|_| _ = send(&mut ways, costs));
        }
        assert!(changes < 60, "{changes}");
    }

    /// A host that takes a processor away does so for many messages, and the way in use alone is measured then.
    #[test]
    fn a_while_in_which_all_is_slow_changes_nothing() {
        for (costs, better) in [([14, 7, 8], Way::Pull), ([15, 9, 7], Way::Both)] {
            let mut ways = Ways::default();
            let mut send = |costs: [u64; 3]| {
                let way = send_long(&mut ways, READ_FROM, costs);
                (way, ways.sooner(3))
            };
            (0..100 * RUN).for_each(|_| _ = send(costs));
            for _ in 0..20 {
                (0..3 * RUN).for_each(|_| assert_eq!(send(costs.map(|cost| 5 * cost)).1, 0b001, "{better:?}"));
                let others = (0..100 * RUN).filter(|_| send(costs).0 != better).count();
                assert!(others <= 4 * RUN as usize, "{better:?}: {others}");
            }
            // Where it stays slow, it is left.
            let mut slow = costs;
            slow[better as usize] *= 5;
            let left = (0..1000 * RUN).filter(|_| send(slow).0 != better).count();
            assert!(left > 900 * RUN as usize, "{better:?}: {left}");
        }
    }

    #[test]
    fn ways_that_are_far_slower_are_tried_seldom() {
        let mut ways = Ways::default();
        let slow = (0..10_000 * RUN).filter(|_| send(&mut ways, [50, 500, 400]) != Way::Push).count();
        assert_eq!(slow, (2 * TRIES + 9 * RUN) as usize);
        assert_eq!(ways.pairs.len(), 1);
        ways.forget(3);
        assert!(ways.pairs.is_empty());
    }

    /// One that is a little slower does not keep the other one, which is far slower, from being looked at.
    #[test]
    fn no_way_is_forgotten() {
        for size in [200 << 10, 1 << 20] {
            let mut ways = Ways::default();
            let costs = [50, 60, 200];
            let looks = (0..20_000 * RUN).filter(|_| send_long(&mut ways, size, costs) == Way::Both);
            assert!(looks.count() > (10 * RUN) as usize, "{size}");
        }
    }

    /// A size whose data cannot be written has its two ways.
    #[test]
    fn what_cannot_be_written_is_read_alone() {
        let mut ways = Ways::default();
        let mut send = || {
            if ways.begin(3, OpId(1), 1 << 20) == Way::Both {
                _ = ways.reads_alone(OpId(1));
            }
            let way = ways.timed.pop_back().expect("it is timed").way;
            ways.note(3, 1 << 20, way, Duration::from_micros([100, 60][way as usize]), 1);
            way
        };
        (0..3 * TRIES).for_each(|_| _ = send());
        let pushed = (0..100 * RUN).filter(|_| send() == Way::Push).count();
        assert!(pushed < 20 * RUN as usize, "{pushed}");
    }

    /// The shortest are given less credit for what our answer to an announcement costs.
    #[test]
    fn a_short_message_is_read_where_that_takes_half_of_the_time() {
        for (read, sooner) in [(50, [0b1, 0b10]), (60, [0, 0b10]), (80, [0, 0])] {
            let sizes = [READ_FROM, 2 * READ_FROM].map(|size| {
                let mut ways = Ways::default();
                (0..3 * TRIES).for_each(|_| _ = send_long(&mut ways, size, [100, read, 90]));
                ways.sooner(3)
            });
            assert_eq!(sizes, sooner, "{read}");
        }
    }

    /// Whoever tells what is sooner hears of all that changes it, also where the data cannot be written.
    #[test]
    fn what_changes_with_a_message_that_is_read_alone_is_told() {
        for size in [READ_FROM, 200 << 10] {
            let (mut ways, mut told) = (Ways::default(), 0);
            for _ in 0..100 * RUN {
                let mut is_new = ways.begin(3, OpId(1), size) == Way::Both && ways.reads_alone(OpId(1)).is_some();
                if let Some(Timed { way, messages, .. }) = ways.timed.pop_back() {
                    is_new |= ways.note(3, size, way, Duration::from_micros([100, 50][way as usize]), messages);
                }
                told = if is_new { ways.sooner(3) } else { told };
                assert_eq!(ways.sooner(3), told, "{size}");
            }
            assert_ne!(told, 0, "{size}");
        }
    }

    /// A size that is not known yet goes by one like it, and no longer where reading that one gets slower.
    #[test]
    fn what_is_learned_of_sizes_by_others_is_told() {
        let (mut ways, mut told) = (Ways::default(), 0);
        let mut seen = Vec::new();
        for n in 0..100 * RUN {
            // Of the longer size one message comes, early.
            let size = if n == 6 * TRIES { 128 << 10 } else { 64 << 10 };
            let read = 45 + u64::from(n) * 15 / u64::from(100 * RUN);
            if send_and_learn(&mut ways, size, [100, read, read]).1 {
                told = ways.sooner(3);
            }
            assert_eq!(ways.sooner(3), told, "message {n}");
            seen.push(told);
        }
        seen.dedup();
        assert_eq!(seen, [0, 0b100, 0b1100, 0b100]);
    }

    #[test]
    fn a_size_goes_by_those_like_it() {
        let mut ways = Ways::default();
        (0..3 * TRIES).for_each(|_| _ = send(&mut ways, [50, 500, 500]));
        let mut reads = |size: u64, costs: [u64; 3]| {
            let mut send = || send_long(&mut ways, size, costs);
            let early = (0..RUN * AGAIN - 1).filter(|_| send() != Way::Push).count();
            [early, (0..RUN * AGAIN * 4).filter(|_| send() != Way::Push).count()]
        };
        assert!(reads(64 << 20, [1, 10, 10])[0] > 0, "those are not alike");
        assert_eq!(reads(128 << 10, [6, 60, 60])[0], 0);
        assert_eq!(reads(4 << 20, [200, 2000, 2000])[0], 0);
        assert!(reads(2 << 20, [200, 100, 150])[1] > 100, "it is another way all the same");
    }

    #[test]
    fn the_longest_go_by_those_that_are_a_little_less_like_them() {
        for (size, are_alike) in [(8 << 20, true), (16 << 20, true), (64 << 20, false)] {
            let mut ways = Ways::default();
            (0..3 * TRIES).for_each(|_| _ = send(&mut ways, [50, 500, 500]));
            let pushed = (0..RUN * AGAIN - 1).all(|_| send_long(&mut ways, size, [800, 8000, 8000]) == Way::Push);
            assert_eq!(pushed, are_alike, "{size}");
        }
        // And by what is but a little faster, if that is as long as some of their bulk.
        for (kin, size, are_alike) in [(4, 8, false), (4, 16, true), (4, 64, true), (2, 16, false), (1, 16, false)]
            .map(|(kin, size, are)| (kin << 20, size << 20, are))
        {
            let mut ways = Ways::default();
            (0..3 * TRIES).for_each(|_| _ = send_long(&mut ways, kin, [350, 470, 220]));
            let first = (0..RUN * SOON - 1).all(|_| send_long(&mut ways, size, [1500, 2500, 1100]) == Way::Both);
            assert_eq!(first, are_alike, "{kin} {size}");
        }
        // What is faster for them is found soon all the same.
        let mut ways = Ways::default();
        (0..3 * TRIES).for_each(|_| _ = send_long(&mut ways, 4 << 20, [350, 470, 220]));
        let read = (0..100).filter(|_| send_long(&mut ways, LONG, [1500, 900, 1100]) == Way::Pull).count();
        assert!((25..50).contains(&read), "{read}");
    }

    #[test]
    fn what_is_read_sooner_than_it_comes_eager_is_told() {
        for (costs, sooner) in
            [([100, 74, 90], 0b1000), ([100, 90, 74], 0b1000), ([100, 76, 80], 0), ([74, 100, 100], 0)]
        {
            let mut ways = Ways::default();
            for sent in 0..3 * TRIES {
                assert_eq!(ways.sooner(3), 0, "{sent} of them tell too little");
                let way = ways.begin(3, OpId(1), 200 << 10);
                assert!(ways.note(3, 200 << 10, way, Duration::from_micros(costs[way as usize]), 1));
            }
            assert_eq!(ways.sooner(3), sooner);
            let way = ways.begin(3, OpId(1), 200 << 10);
            assert!(!ways.note(3, 200 << 10, way, Duration::from_micros(costs[way as usize]), 1), "nothing new");
            ways.forget(3);
            assert_eq!(ways.sooner(3), 0);
        }
        // A size goes by those like it, once there is one.
        let mut ways = Ways::default();
        (0..3 * TRIES).for_each(|_| _ = send(&mut ways, [300, 200, 100]));
        assert_eq!(ways.sooner(3), 0);
        assert_eq!(ways.begin(3, OpId(1), 200 << 10), Way::Both);
        ways.note(3, 200 << 10, Way::Both, Duration::from_micros(20), 1);
        assert_eq!(ways.sooner(3), 0b1000);
    }

    #[test]
    fn sizes_are_told_apart_and_outcomes_need_not_be_asked_for() {
        assert_eq!(
            [0, READ_FROM - 1, READ_FROM, 1 << 15, (1 << 16) - 1, 1 << 40].map(class),
            [0, 0, 1, 2, 2, CLASSES - 1]
        );
        let mut ways = Ways::default();
        (0..100).for_each(|n| _ = ways.begin(0, OpId(n), 1 << 20));
        assert_eq!(ways.timed.len(), TIMED);
        ways.end(OpId(99));
        ways.end(OpId(0));
        assert_eq!(ways.timed.len(), TIMED - 1);
    }
}
