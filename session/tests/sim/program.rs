//! Random programs, and the oracle that judges what became of them.
//!
//! A program is a list of messages for each ordered pair of processes and context, and for each receiver as many
//! receives. The oracle knows nothing of the engine: it looks at who received what in which order.

use engine::{Envelope, Mode, Outcome, Source, Tag, partitioned_tag};
use transports::sim::Rng;

pub const CONTEXTS: usize = 2;

#[derive(Clone, Debug)]
pub struct Planned {
    pub ctx: usize,
    pub from: usize,
    pub to: usize,
    pub tag: i64,
    pub size: u64,
    pub mode: Mode,
}

#[derive(Clone, Debug)]
pub struct Wanted {
    pub ctx: usize,
    pub source: Source,
    pub tag: Tag,
    pub capacity: u64,
    /// Probe until something is there, then receive exactly that.
    pub probe: bool,
}

pub struct Program {
    pub messages: Vec<Planned>,
    /// Per process: indexes of its sends, in order.
    pub sends: Vec<Vec<usize>>,
    /// Per process.
    pub receives: Vec<Vec<Wanted>>,
    /// Per process and context: receives may take each other's messages, so some may be left over.
    pub loose: Vec<[bool; CONTEXTS]>,
}

/// A receive as it happened.
#[derive(Clone, Debug)]
pub struct Record {
    pub ctx: usize,
    pub source: Source,
    pub tag: Tag,
    pub capacity: u64,
    pub message: Option<usize>,
    /// The moment when it got its message or was cancelled.
    pub ended: u64,
}

/// What a buffer holds where its partition is not ready.
pub const UNREADY: u8 = 0xaa;

/// The byte at `at` of message `id`: the first eight give its number.
pub fn content(id: usize, at: u64) -> u8 {
    if at < 8 { (id as u64).to_le_bytes()[at as usize] } else { (id as u64 * 37 + at * 11 + (at >> 8)) as u8 }
}

impl Program {
    /// `rank` gives the rank of each process in its group, `group` which of the two groups it is in.
    pub fn random(rng: &mut Rng, group: &[usize], rank: &[u32], largest: u64) -> Program {
        let n = group.len();
        let most = if rng.percent(10) { 60 } else { 14 };
        let mut messages = Vec::new();
        for from in 0..n {
            for to in 0..n {
                if group[from] == group[to] {
                    continue;
                }
                for ctx in 0..CONTEXTS {
                    let mut small = std::collections::BTreeSet::new();
                    for _ in 0..rng.below(most) {
                        let tag = rng.below(3) as i64;
                        let size = match rng.below(4) {
                            0 => rng.below(8),
                            1 => 8 + rng.below(60),
                            2 => 8 + rng.below(400),
                            _ => 8 + rng.below(largest),
                        };
                        let (tag, size, mode) = match rng.below(10) {
                            0..3 => (tag, size, Mode::Synchronous),
                            3 => {
                                let parts = 1 + rng.below(12);
                                let size = size / parts * parts;
                                // An empty one leaves when all is ready: it has no order with others under way.
                                let count = if size == 0 { 1 + messages.len() as u32 } else { 0 };
                                (partitioned_tag(tag as u32, count), size, Mode::Partitioned(parts as u32))
                            }
                            _ => (tag, size, Mode::Standard),
                        };
                        // Too small to carry its number: then it must be the only one that looks so.
                        if size >= 8 || small.insert((tag, size)) {
                            messages.push(Planned { ctx, from, to, tag, size, mode });
                        }
                    }
                }
            }
        }
        let mut sends = vec![Vec::new(); n];
        for (id, m) in messages.iter().enumerate() {
            sends[m.from].push(id);
        }
        for list in &mut sends {
            shuffle(rng, list);
        }
        let mut receives = vec![Vec::new(); n];
        let mut loose = vec![[false; CONTEXTS]; n];
        for to in 0..n {
            for (ctx, free) in loose[to].iter_mut().enumerate() {
                let style = rng.below(4);
                let wide: Vec<bool> = (0..16).map(|_| rng.percent(50)).collect();
                *free = style == 3;
                for m in messages.iter().filter(|m| m.to == to && m.ctx == ctx) {
                    let exact = (Source::Rank(rank[m.from]), Tag::Is(m.tag));
                    // The patterns of one style never overlap, so that any order of matching serves all.
                    let (source, tag) = match style {
                        // No pattern takes a partitioned one.
                        _ if m.tag < 0 => exact,
                        0 => (Source::Any, Tag::Any),
                        1 if wide[rank[m.from] as usize] => (exact.0, Tag::Any),
                        2 if wide[m.tag as usize] => (Source::Any, exact.1),
                        3 => (
                            if rng.percent(50) { Source::Any } else { exact.0 },
                            if rng.percent(50) { Tag::Any } else { exact.1 },
                        ),
                        _ => exact,
                    };
                    let capacity = if rng.percent(10) { 8 + rng.below(64) } else { largest + 8 };
                    receives[to].push(Wanted { ctx, source, tag, capacity, probe: m.tag >= 0 && rng.percent(15) });
                }
            }
            shuffle(rng, &mut receives[to]);
        }
        Program { messages, sends, receives, loose }
    }

    /// Which message came, judged by what is in the envelope and the buffer.
    pub fn identify(
        &self,
        to: usize,
        from: usize,
        ctx: usize,
        envelope: Envelope,
        data: &[u8],
    ) -> Result<usize, String> {
        let like = |m: &Planned| m.ctx == ctx && m.from == from && m.to == to && m.tag == envelope.tag;
        if envelope.size >= 8 {
            let id = u64::from_le_bytes(data[..8].try_into().expect("eight bytes")) as usize;
            return match self.messages.get(id) {
                Some(m) if like(m) => Ok(id),
                _ => Err(format!("match: what came as {envelope:?} is not message {id}")),
            };
        }
        self.messages
            .iter()
            .position(|m| like(m) && m.size == envelope.size)
            .ok_or(format!("match: nobody sent {envelope:?}"))
    }

    /// One receive against the message it got.
    pub fn check(&self, record: &Record, outcome: Outcome, data: &[u8], rank: u32) -> Result<(), String> {
        let id = record.message.expect("identified before");
        let m = &self.messages[id];
        let size = m.size.min(record.capacity);
        let (source, tag, whole) = (rank, m.tag, m.size);
        let right = if whole > record.capacity {
            Outcome::Truncated { source, tag, size, whole }
        } else {
            Outcome::Received(Envelope { source, tag, size })
        };
        if outcome != right {
            return Err(format!("outcome: {outcome:?} for {m:?}"));
        }
        if !fits(record, rank, m.tag) {
            return Err(format!("match: {record:?} took {m:?}"));
        }
        for (at, byte) in data.iter().enumerate() {
            let right = if (at as u64) < size { content(id, at as u64) } else { 0xee };
            if *byte != right {
                return Err(format!("bytes: {m:?} differs at {at}"));
            }
        }
        Ok(())
    }

    /// All receives of one process, in the order of posting (`all`: every message must have come): each message once,
    /// and none overtaken by another of the same sender that the same receive would have taken.
    pub fn judge(&self, to: usize, records: &[Record], rank: &[u32], order: &[usize], all: bool) -> Result<(), String> {
        let mut taken_by = vec![None; self.messages.len()];
        for (at, record) in records.iter().enumerate() {
            let Some(id) = record.message else { continue };
            if taken_by[id].replace(at).is_some() {
                return Err(format!("duplication: message {id} was received twice"));
            }
        }
        for (id, m) in self.messages.iter().enumerate().filter(|(_, m)| m.to == to) {
            let Some(by) = taken_by[id] else {
                if all {
                    return Err(format!("loss: message {id} {m:?}"));
                }
                continue;
            };
            // An earlier message of the same sender that this receive fits was taken by an earlier receive.
            for (other, o) in self.messages.iter().enumerate() {
                let same = o.to == to && o.from == m.from && o.ctx == m.ctx;
                if same
                    && order[other] < order[id]
                    && fits(&records[by], rank[m.from], o.tag)
                    && taken_by[other].is_some_and(|o| o > by)
                {
                    return Err(format!("order: {id} overtook {other}"));
                }
            }
            // A receive that was posted before, and got nothing up to now, would have taken it.
            let idle = |r: &Record| {
                r.message.is_none() && r.ended > records[by].ended && r.ctx == m.ctx && fits(r, rank[m.from], m.tag)
            };
            // (After a death it may have had a message whose data never came.)
            if all && records[..by].iter().any(idle) {
                return Err(format!("match: an earlier receive was passed over by {id}"));
            }
        }
        Ok(())
    }
}

fn fits(record: &Record, source: u32, tag: i64) -> bool {
    (record.source == Source::Any || record.source == Source::Rank(source))
        && (record.tag == Tag::Any && tag >= 0 || record.tag == Tag::Is(tag))
}

pub fn shuffle<T>(rng: &mut Rng, list: &mut [T]) {
    for i in (1..list.len()).rev() {
        list.swap(i, rng.below(i as u64 + 1) as usize);
    }
}
