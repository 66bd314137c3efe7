//! What a process does for the lines of its job: it keeps its cuts until a line has one of them, and the messages that
//! come meanwhile until all that were sent before the other jobs' cuts are there.
//!
//! Invariant: a cut that may still be in a line is kept whole, with all messages that have come since.

use crate::image::OfPair;
use crate::line::{Done, Job, LineId, Planned, Report, Row, Rows};
use crate::outcomes::{Call, Chosen, Recorder, Replay};
use crate::rows::OtherRows;
use base::ProcId;
use engine::{CutOf, Kept};
use std::collections::{BTreeMap, BTreeSet};

/// Cuts that are kept before the first line: a job that makes no checkpoints may be joined with this one.
const MOST_CUTS: usize = 8;
/// Bytes of messages that are kept for cuts. Beyond that, cuts that are in no line yet are given up, the oldest first: a job that makes no
/// checkpoint is not to cost its partner all memory.
const MOST_LOGGED: usize = 2 << 30;
/// What a message counts for besides its data.
const MESSAGE: usize = 128;
/// The most cuts that are kept once there was a line: the leader that plans says which are of no use, and may have died.
const MOST_WAITING: usize = 64;
/// Lines that are not whole here. Each leader that plans has few, and there is one of these for all jobs that are joined.
const MOST_OPEN: usize = 16;
/// Other jobs that are remembered, and leaders that have planned lines of this one.
const MOST_JOBS: usize = 256;
/// Bytes of a line: with hundreds of jobs.
const MOST_LINE: usize = 64 << 10;
/// Messages that all lines that are not whole may lack, or find in the log: as many as there is room for.
const MOST_LATE: u64 = 4 << 20;
/// Messages that are looked for on account of one cut, whatever lines it is in, where each line counts for some. One leader plans
/// one line with it, and two that do not know of each other yet one each.
const MOST_LOOKED: u64 = 2 * MOST_LATE;
const LOOK: u64 = 256 << 10;

/// A cut of this process.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot<T> {
    /// By process of another job.
    pub of: BTreeMap<ProcId, CutOf>,
    /// The jobs that the own one is joined with.
    pub joined: BTreeSet<Job>,
    /// What the program finds after it.
    pub outcomes: Recorder,
    /// Whatever else the image is to have.
    pub rest: T,
}

/// An image of this process in a line, from which nothing lacks.
#[derive(Clone, Debug, PartialEq)]
pub struct Whole<T> {
    /// The line.
    pub line: Planned,
    /// The serial number of the cut.
    pub serial: u64,
    /// The messages, by process of another job.
    pub of: BTreeMap<ProcId, OfPair>,
    /// See [`Snapshot::outcomes`].
    pub outcomes: Recorder,
    /// See [`Snapshot::rest`].
    pub rest: T,
}

/// How much a process keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Cuts.
    pub cuts: usize,
    /// Messages that have come since.
    pub logged: usize,
    /// Other jobs' cuts whose rows are kept.
    pub rows: usize,
    /// Lines that are not whole here.
    pub lines: usize,
}

/// A line that is not whole here.
#[derive(Clone, Debug)]
struct Open {
    line: Planned,
    serial: u64,
    /// Messages that are still to come, once all rows are there.
    missing: Option<BTreeSet<(ProcId, u64)>>,
    /// How many were late then.
    late: u64,
    /// All processes have heard of it.
    heard: bool,
}

/// A process of a job.
#[derive(Clone, Debug)]
pub struct Member<T> {
    own: ProcId,
    cuts: BTreeMap<u64, Snapshot<T>>,
    log: BTreeMap<ProcId, BTreeMap<u64, Kept>>,
    /// The bytes of the messages in `log`.
    logged: usize,
    most_logged: usize,
    rows: OtherRows,
    /// The oldest cuts that may still be in a line.
    seen: BTreeMap<Job, u64>,
    open: Vec<Open>,
    /// How many messages were looked for on account of each cut.
    looked: BTreeMap<u64, u64>,
    /// The newest line that was begun, so that none is begun twice.
    begun: BTreeMap<Job, u64>,
    /// Lines that will not be whole here, since a later one was before.
    given_up: Vec<LineId>,
}

impl<T> Member<T> {
    /// The process of this number.
    pub fn new(own: ProcId) -> Member<T> {
        Member {
            own,
            cuts: BTreeMap::new(),
            log: BTreeMap::new(),
            logged: 0,
            most_logged: MOST_LOGGED,
            rows: OtherRows::default(),
            seen: BTreeMap::new(),
            open: Vec::new(),
            looked: BTreeMap::new(),
            begun: BTreeMap::new(),
            given_up: Vec::new(),
        }
    }

    /// Makes a cut.
    pub fn cut(&mut self, serial: u64, snapshot: Snapshot<T>) {
        self.cuts.insert(serial, snapshot);
        let most = if self.begun.is_empty() { MOST_CUTS } else { MOST_WAITING };
        if self.cuts.len() > most
            && let Some(serial) = self.oldest_in_no_line()
        {
            self.cuts.remove(&serial);
            self.tidy();
        }
    }

    /// Whether messages that come are to be logged.
    pub fn is_logging(&self) -> bool {
        !self.cuts.is_empty()
    }

    /// What it keeps.
    pub fn held(&self) -> Held {
        let logged = self.log.values().map(BTreeMap::len).sum();
        Held { cuts: self.cuts.len(), logged, rows: self.rows.len(), lines: self.open.len() }
    }

    /// Forgets a cut that is to be in no line, and older ones.
    pub fn drop_cut(&mut self, serial: u64) {
        self.cuts.retain(|other, _| *other > serial);
        self.tidy();
    }

    /// A message has come. Returns whether a line lacked it.
    pub fn log(&mut self, from: ProcId, kept: Kept) -> bool {
        let mut lacked = false;
        if self.is_logging() {
            for open in &mut self.open {
                if let Some(missing) = &mut open.missing {
                    lacked |= missing.remove(&(from, kept.number));
                }
            }
            self.logged += room_of(&kept);
            let twice = self.log.entry(from).or_default().insert(kept.number, kept);
            self.logged -= twice.map_or(0, |kept| room_of(&kept));
            if self.logged > self.most_logged {
                self.give_up_some();
            }
        }
        lacked
    }

    fn oldest_in_no_line(&self) -> Option<u64> {
        let is_open = |serial: &u64| self.open.iter().any(|open| open.serial == *serial);
        self.cuts.keys().copied().find(|serial| !is_open(serial))
    }

    /// Gives up cuts that are in no line, until what is kept for the others is not too much.
    #[cold]
    fn give_up_some(&mut self) {
        while self.logged > self.most_logged {
            let Some(serial) = self.oldest_in_no_line() else { return };
            base::log_seldom!(
                Notice,
                "checkpoint {serial} is given up: {} MiB of messages have come since, and a joined job has made no checkpoint for its line",
                self.logged >> 20
            );
            self.cuts.remove(&serial);
            self.tidy();
        }
    }

    /// A part of the rows of another job's cut has come.
    pub fn rows(&mut self, job: Job, serial: u64, rows: Rows, is_last: bool) {
        let in_line = |serial: u64| self.open.iter().any(|open| open.line.cuts.get(&job) == Some(&serial));
        if !self.rows.add((job, serial), rows, is_last, self.cuts.is_empty(), in_line) {
            // Its lines will not be whole here.
            self.give_up(|open| open.line.cuts.get(&job) == Some(&serial));
        }
        self.drop_rows();
        self.look();
    }

    /// Gives up lines.
    fn give_up(&mut self, which: impl Fn(&Open) -> bool) {
        self.given_up.extend(self.open.iter().filter(|open| which(open)).map(|open| open.line.id));
        self.open.retain(|open| !which(open));
    }

    /// A call has found this, or nothing.
    pub fn note(&mut self, call: Call, found: Option<&[u32]>) {
        self.cuts.values_mut().for_each(|cut| cut.outcomes.note(call, found));
    }

    /// A receive from any source has got a message of this job.
    pub fn chose(&mut self, job: Job, chosen: Chosen) {
        self.cuts.values_mut().for_each(|cut| cut.outcomes.chose(job, chosen));
    }

    /// Whether outcomes are to be noted.
    pub fn is_noting(&self) -> bool {
        self.cuts.values().any(|cut| cut.outcomes.is_open())
    }

    /// Ends the record of outcomes after a cut, if all processes have heard of the cut's line.
    pub fn close(&mut self, rest: Option<&Replay>) {
        let heard = |serial: &u64| self.open.iter().any(|open| open.serial == *serial && open.heard);
        let all = self.cuts.iter_mut().filter(|(serial, _)| heard(serial));
        all.for_each(|(_, cut)| cut.outcomes.close(rest));
    }

    /// A leader has told of lines. Returns those of which this process has heard for the first time, and which of them it cannot
    /// write.
    pub fn lines(&mut self, report: Report) -> Vec<(LineId, Done)> {
        let Report { lines, heard, failed, seen } = report;
        let mut first = Vec::new();
        for line in lines {
            if self.begun.len() >= MOST_JOBS && !self.begun.contains_key(&line.id.by) {
                self.begun.pop_first();
            }
            let begun = self.begun.entry(line.id.by).or_default();
            if line.id.count <= *begun {
                continue;
            }
            *begun = line.id.count;
            let Some(serial) = line.cuts.get(&self.own.incarnation).copied() else { continue };
            // A line without a job that had been joined already would lack its messages.
            let has = |job: &Job| line.cuts.get(job).is_some_and(|cut| !self.rows.has_dropped(*job, *cut));
            let is_twin = |open: &Open| (open.serial, open.line.id.by) == (serial, line.id.by);
            let may_begin = self.open.len() < MOST_OPEN && line.cost() <= MOST_LINE && !self.open.iter().any(is_twin);
            match self.cuts.get_mut(&serial).filter(|cut| may_begin && cut.joined.iter().all(has)) {
                Some(cut) => {
                    cut.outcomes.mark();
                    first.push((line.id, Done::Heard));
                    self.open.push(Open { line, serial, missing: None, late: 0, heard: false });
                }
                None => first.push((line.id, Done::Failed)),
            }
        }
        self.open.retain(|open| !failed.contains(&open.line.id));
        self.open.iter_mut().for_each(|open| open.heard |= heard.contains(&open.line.id));
        let oldest = seen.get(&self.own.incarnation).copied().unwrap_or(0);
        let open = &self.open;
        self.cuts.retain(|serial, _| *serial >= oldest || open.iter().any(|open| open.serial == *serial));
        for (job, serial) in seen {
            let oldest = self.seen.entry(job).or_default();
            *oldest = serial.max(*oldest);
        }
        if self.seen.len() > MOST_JOBS {
            let cuts = &self.cuts;
            self.seen.retain(|job, _| self.rows.has_of(*job) || cuts.values().any(|cut| cut.joined.contains(job)));
        }
        self.drop_rows();
        self.tidy();
        self.look();
        first
    }

    /// Drops rows of cuts that are in no line. Those of a cut may come after a report that has no need of them, from elsewhere.
    fn drop_rows(&mut self) {
        let (open, seen) = (&self.open, &self.seen);
        let is_in_line = |job: Job, serial: u64| open.iter().any(|open| open.line.cuts.get(&job) == Some(&serial));
        self.rows
            .retain(|job, serial| seen.get(&job).is_none_or(|oldest| serial >= *oldest) || is_in_line(job, serial));
    }

    /// The lines that will not be whole here, once each.
    pub fn given_up(&mut self) -> Vec<LineId> {
        std::mem::take(&mut self.given_up)
    }

    /// Finds what is missing in lines whose rows have all come.
    fn look(&mut self) {
        let (cuts, rows, log) = (&self.cuts, &self.rows, &self.log);
        let mut too_many = Vec::new();
        let mut all_late: u64 = self.open.iter().map(|open| open.late).sum();
        for open in self.open.iter_mut().filter(|open| open.missing.is_none()) {
            let Some(cut) = cuts.get(&open.serial) else { continue };
            if cut.joined.iter().any(|job| rows.whole(*job, open.line.cuts[job]).is_none()) {
                continue;
            }
            let looked = self.looked.entry(open.serial).or_default();
            *looked += LOOK;
            let room = (MOST_LATE - all_late).min(MOST_LOOKED.saturating_sub(*looked));
            let late = if room > 0 { late(cut, &open.line, rows) } else { u64::MAX };
            if late > room {
                too_many.push(open.line.id);
                continue;
            }
            (*looked, open.late, all_late) = (*looked + late, late, all_late + late);
            let pairs = of_pairs(cut, &open.line, rows, log);
            let missing = pairs.iter().flat_map(|(peer, of)| of.line.missing.iter().map(|number| (*peer, *number)));
            open.missing = Some(missing.collect());
        }
        if !too_many.is_empty() {
            base::log_seldom!(Error, "a checkpoint lacks more messages than there is room for, and is given up");
            self.give_up(|open| too_many.contains(&open.line.id));
        }
    }

    /// The next line from which nothing lacks here. Older cuts are dropped with it.
    pub fn next_whole(&mut self) -> Option<Whole<T>>
    where
        T: Clone,
    {
        let is_closed = |serial: u64| self.cuts.get(&serial).is_none_or(|cut| !cut.outcomes.is_open());
        let is_whole = |open: &Open| open.missing.as_ref().is_some_and(BTreeSet::is_empty) && is_closed(open.serial);
        let at = self.open.iter().position(is_whole)?;
        let Open { line, serial, .. } = self.open.remove(at);
        let cut = self.cuts.get(&serial)?;
        if late(cut, &line, &self.rows) > MOST_LATE {
            self.given_up.push(line.id);
            return self.next_whole();
        }
        let of = of_pairs(cut, &line, &self.rows, &self.log);
        let (outcomes, rest) = (cut.outcomes.clone(), cut.rest.clone());
        let passed = |open: &Open| open.serial < serial;
        self.given_up.extend(self.open.iter().filter(|open| passed(open)).map(|open| open.line.id));
        self.open.retain(|open| !passed(open));
        let open = &self.open;
        self.cuts.retain(|other, _| *other > serial || open.iter().any(|open| open.serial == *other));
        self.tidy();
        self.drop_rows();
        Some(Whole { line, serial, of, outcomes, rest })
    }

    /// Drops logged messages that no cut is without.
    fn tidy(&mut self) {
        self.looked.retain(|serial, _| self.cuts.contains_key(serial));
        if self.cuts.is_empty() {
            self.logged = 0;
            return self.log.clear();
        }
        for (peer, log) in &mut self.log {
            let needs = |number: &u64| {
                self.cuts.values().any(|cut| match cut.of.get(peer) {
                    Some(of) => *number > of.arrived || of.lacking.contains(number),
                    None => true,
                })
            };
            log.retain(|number, kept| {
                let needed = needs(number);
                self.logged -= if needed { 0 } else { room_of(kept) };
                needed
            });
        }
    }
}

/// What a message takes of the room for those that are kept.
fn room_of(kept: &Kept) -> usize {
    MESSAGE + kept.note.len() + kept.data.len()
}

/// How many messages had been sent and had not arrived at a cut, as the rows of the others have it.
fn late<T>(cut: &Snapshot<T>, line: &Planned, rows: &OtherRows) -> u64 {
    let of_job = |job: &Job| {
        let all = rows.get(*job, line.cuts[job]).into_iter().flatten();
        let late = all.map(|(rank, row)| {
            let own = cut.of.get(&ProcId { incarnation: *job, rank: *rank });
            row.sent.saturating_sub(own.map_or(0, |own| own.arrived))
        });
        late.fold(0, u64::saturating_add)
    };
    cut.joined.iter().map(of_job).fold(0, u64::saturating_add)
}

/// The messages of a cut in a line.
fn of_pairs<T>(
    cut: &Snapshot<T>,
    line: &Planned,
    rows: &OtherRows,
    log: &BTreeMap<ProcId, BTreeMap<u64, Kept>>,
) -> BTreeMap<ProcId, OfPair> {
    let nothing = (CutOf::default(), Row::default(), BTreeMap::new());
    let of_job = |job: &Job| rows.get(*job, line.cuts[job]);
    let theirs = cut.joined.iter().flat_map(|job| {
        let ranks = of_job(job).into_iter().flat_map(|rows| rows.keys());
        ranks.map(|rank| ProcId { incarnation: *job, rank: *rank })
    });
    let ours = cut.of.keys().filter(|peer| cut.joined.contains(&peer.incarnation)).copied();
    let peers: BTreeSet<ProcId> = theirs.chain(ours).collect();
    let of = peers.into_iter().map(|peer| {
        let own = cut.of.get(&peer).unwrap_or(&nothing.0);
        let row = of_job(&peer.incarnation).and_then(|rows| rows.get(&peer.rank)).unwrap_or(&nothing.1);
        let line = own.line(log.get(&peer).unwrap_or(&nothing.2), row.sent, &row.leaving);
        let (sent, arrived) = ((own.sent, row.arrived), (own.arrived, row.sent));
        (peer, OfPair { sent, arrived, line, leaving: own.leaving.clone() })
    });
    of.filter(|(_, of)| of.is_used()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OTHER: Job = 2;

    /// A process with a cut of each of these numbers, each with 1 message of the other job.
    fn with_cuts(serials: std::ops::Range<u64>) -> Member<()> {
        let mut member = Member::new(ProcId { incarnation: 1, rank: 0 });
        for serial in serials {
            let of = CutOf { arrived: 1, ..CutOf::default() };
            let of = [(ProcId { incarnation: OTHER, rank: 0 }, of)].into();
            member.cut(serial, Snapshot { of, joined: [OTHER].into(), outcomes: Recorder::default(), rest: () });
        }
        member
    }

    fn rows(sent: u64) -> Rows {
        [(0, Row { sent, ..Row::default() })].into()
    }

    /// A line of this cut and that of the other job.
    fn line(by: Job, count: u64, serial: u64, theirs: u64) -> Planned {
        Planned { id: LineId { by, count }, cuts: [(1, serial), (OTHER, theirs)].into(), names: BTreeSet::new() }
    }

    fn report(line: &Planned, heard: bool) -> Report {
        let heard = if heard { [line.id].into() } else { BTreeSet::new() };
        Report { lines: vec![line.clone()], heard, ..Report::default() }
    }

    #[test]
    fn rows_that_change_after_they_were_whole_are_not_walked() {
        for behind_our_back in [false, true] {
            let mut member = with_cuts(1..2);
            member.rows(OTHER, 1, rows(1), true);
            let line = line(OTHER, 1, 1, 1);
            assert_eq!(member.lines(report(&line, false)), [(line.id, Done::Heard)]);
            member.rows(OTHER, 1, rows(u64::MAX), true);
            if behind_our_back {
                member.rows = OtherRows::default();
                member.rows.add((OTHER, 1), rows(u64::MAX), true, false, |_| true);
            }
            assert_eq!(member.lines(report(&line, true)), []);
            member.close(None);
            assert_eq!(member.next_whole().is_some(), !behind_our_back);
            assert_eq!(member.given_up(), if behind_our_back { vec![line.id] } else { vec![] });
        }
    }

    #[test]
    fn all_open_lines_share_the_room_for_what_lacks() {
        let mut member = with_cuts(1..5);
        for serial in 1..5 {
            member.rows(OTHER, serial, rows(MOST_LATE / 4), true);
            member.lines(report(&line(OTHER, serial, serial, serial), false));
        }
        let missing = |member: &Member<()>| {
            member.open.iter().flat_map(|open| open.missing.as_ref().map(BTreeSet::len)).collect::<Vec<_>>()
        };
        assert_eq!(missing(&member), [MOST_LATE as usize / 4 - 1; 4]);
        member.cut(5, member.cuts[&4].clone());
        member.rows(OTHER, 5, rows(100), true);
        assert_eq!(member.lines(report(&line(OTHER, 5, 5, 5), false)).len(), 1);
        assert_eq!((member.held().lines, member.given_up().len()), (4, 1));
    }

    #[test]
    fn one_cut_is_looked_at_for_few_lines() {
        // A leader plans one line with a cut.
        let mut member = with_cuts(1..2);
        assert_eq!(member.lines(report(&line(OTHER, 1, 1, 1), false))[0].1, Done::Heard);
        assert_eq!(member.lines(report(&line(OTHER, 2, 1, 2), false))[0].1, Done::Failed);
        assert_eq!(member.lines(report(&line(3, 1, 1, 2), false))[0].1, Done::Heard);
        // One after the other: they are given up without a look, whether they lack much or little.
        for (lacks, looks) in [(MOST_LATE / 2, 3), (1, 32)] {
            let mut member = with_cuts(1..2);
            member.rows(OTHER, 1, rows(lacks + 1), true);
            let mut begun = 0;
            for count in 1..100 {
                let failed = [LineId { by: OTHER, count: count - 1 }].into();
                member.lines(Report { failed, ..Report::default() });
                member.lines(report(&line(OTHER, count, 1, 1), false));
                begun += member.held().lines;
            }
            assert!((looks - 1..=looks).contains(&begun), "{begun} of {looks}");
            assert!(member.looked[&1] < MOST_LOOKED + 100 * LOOK);
            assert_eq!(member.given_up().len(), 99 - begun);
            member.drop_cut(1);
            assert!(member.looked.is_empty());
        }
    }

    #[test]
    fn a_cut_for_which_too_much_is_kept_is_given_up() {
        let mut member = Member::new(ProcId { incarnation: 1, rank: 0 });
        let each = 100 + MESSAGE;
        member.most_logged = 10 * each;
        let from = ProcId { incarnation: 2, rank: 0 };
        let message = |number| Kept {
            number,
            context: engine::ContextId::root(1),
            source: 0,
            tag: 0,
            note: Vec::new(),
            data: vec![0; 100],
        };
        for serial in 1..4 {
            let arrived = 4 * (serial - 1);
            let of = CutOf { arrived, ..CutOf::default() };
            let snapshot =
                Snapshot { of: [(from, of)].into(), joined: [2].into(), outcomes: Recorder::default(), rest: () };
            member.cut(serial, snapshot);
            (arrived + 1..arrived + 5)
                .for_each(|number| assert!(!member.log(from, message(number)), "no line lacks it"));
        }
        assert_eq!(member.cuts.keys().copied().collect::<Vec<_>>(), [2, 3]);
        assert_eq!((member.held().logged, member.logged), (8, 8 * each));
        (13..20).for_each(|number| assert!(!member.log(from, message(number)), "no line lacks it"));
        assert!(!member.is_logging() || member.logged <= 10 * each);
        assert_eq!(member.logged, member.held().logged * each);
    }
}
