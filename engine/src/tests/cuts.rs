//! Two programs whose processes make cuts at moments of their own. From any two of them the programs go on in new engines, and
//! end as they would have ended.

use super::*;
use std::collections::{BTreeMap, BTreeSet};

/// A small generator of random numbers.
struct Rng(u64);

impl Rng {
    fn roll(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % below
    }
}

/// One step of a program.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// A send that may stay pending.
    Send { tag: i64, len: usize, sync: bool },
    /// A receive that stays pending.
    Post { tag: Tag },
    /// The oldest pending receive is completed.
    Wait,
}

/// A program's state, as a model writes it: its own numbers, not the library's.
#[derive(Clone, Debug, PartialEq, Eq)]
struct State {
    at: usize,
    sum: u64,
    /// Pending receives, in the order of the calls.
    posted: Vec<Tag>,
}

struct Program {
    steps: Vec<Step>,
    state: State,
    ops: VecDeque<OpId>,
    sends: Vec<OpId>,
}

const ROOM: usize = 64;

impl Program {
    fn new(steps: Vec<Step>) -> Program {
        let state = State { at: 0, sum: 1, posted: Vec::new() };
        Program { steps, state, ops: VecDeque::new(), sends: Vec::new() }
    }

    fn is_over(&self) -> bool {
        self.state.at == self.steps.len()
    }

    /// Goes on from a state of its own: it posts its receives again.
    fn from(steps: &[Step], state: &State, side: &mut Side) -> Program {
        let ops = state.posted.iter().map(|tag| side.recv(Source::Rank(0), *tag, ROOM)).collect();
        Program { steps: steps.to_vec(), state: state.clone(), ops, sends: Vec::new() }
    }

    /// Makes a step, if it can be made now.
    fn step(&mut self, side: &mut Side) {
        let Some(step) = self.steps.get(self.state.at) else { return };
        match *step {
            Step::Send { tag, len, sync } => {
                // What is sent depends on all that was received.
                let mut data = vec![0; len];
                let mut x = self.state.sum ^ (self.state.at as u64) << 32;
                for byte in &mut data {
                    x = x.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17);
                    *byte = x as u8;
                }
                self.sends.push(side.send(tag, &data, if sync { Mode::Synchronous } else { Mode::Standard }));
            }
            Step::Post { tag } => {
                self.ops.push_back(side.recv(Source::Rank(0), tag, ROOM));
                self.state.posted.push(tag);
            }
            Step::Wait => {
                let op = self.ops[0];
                let Some(outcome) = side.engine.outcome(op) else { return };
                side.engine.finish(op);
                let Outcome::Received(Envelope { tag, size, .. }) = outcome else { panic!("{outcome:?}") };
                for byte in &side.mem.0[&op.0][..size as usize] {
                    self.state.sum = self.state.sum.wrapping_mul(31).wrapping_add(u64::from(*byte));
                }
                self.state.sum = self.state.sum.wrapping_mul(31).wrapping_add(tag as u64);
                self.ops.pop_front();
                self.state.posted.remove(0);
            }
        }
        self.state.at += 1;
        // Completed sends are fetched now and then, as programs do.
        if self.state.at.is_multiple_of(3) {
            self.sends.retain(|op| side.engine.finish(*op).is_none());
        }
    }
}

/// Two programs that fit each other: as many receives with a tag as sends, in an order in which they end.
fn programs(rng: &mut Rng) -> [Vec<Step>; 2] {
    let mut steps = [Vec::new(), Vec::new()];
    let mut waiting = [0, 0];
    for _ in 0..20 + rng.roll(30) {
        let from = rng.roll(2) as usize;
        let (tag, len) = (rng.roll(3) as i64, [0, 5, 16, 17, 40, 60][rng.roll(6) as usize]);
        steps[from].push(Step::Send { tag, len, sync: rng.roll(4) == 0 });
        steps[1 - from].push(Step::Post { tag: Tag::Is(tag) });
        waiting[1 - from] += 1;
        for side in 0..2 {
            // Not always in the same step: messages wait, and so do receives.
            for _ in 0..rng.roll(waiting[side] + 1) {
                steps[side].push(Step::Wait);
                waiting[side] -= 1;
            }
        }
    }
    for side in 0..2 {
        (0..waiting[side]).for_each(|_| steps[side].push(Step::Wait));
    }
    steps
}

/// A cut of one side: what the program has written, and the library's part.
struct Cut {
    state: State,
    of: CutOf,
    log: BTreeMap<u64, Kept>,
}

/// Two sides that go on by chance.
struct Run {
    sides: [Side; 2],
    programs: [Program; 2],
    cuts: [Option<Cut>; 2],
}

impl Run {
    fn new(steps: [Vec<Step>; 2]) -> Run {
        let (mut a, mut b) = pair(small());
        a.engine.track();
        b.engine.track();
        Run { sides: [a, b], programs: steps.map(Program::new), cuts: [None, None] }
    }

    /// Writes what is to be logged, as a caller does before the program goes on.
    fn log(&mut self, at: usize) {
        let side = &mut self.sides[at];
        while let Some(output) = side.engine.next_output() {
            let kept = match output {
                Output::Logged { kept, .. } => *kept,
                Output::Whole { op, .. } => side.engine.whole(&side.mem, op).expect("its buffer is there"),
                other => {
                    side.wire.push_back(other);
                    continue;
                }
            };
            let cut = self.cuts[at].as_mut().expect("it logs after a cut only");
            cut.log.insert(kept.number, kept);
        }
    }

    fn turn(&mut self, rng: &mut Rng) {
        let at = rng.roll(2) as usize;
        if rng.roll(3) == 0 {
            self.programs[at].step(&mut self.sides[at]);
        } else {
            let [a, b] = &mut self.sides;
            if at == 0 {
                a.take(b)
            } else {
                b.take(a)
            };
        }
        self.log(0);
        self.log(1);
    }

    fn cut(&mut self, at: usize) {
        let side = &mut self.sides[at];
        let of = side.engine.cut(&side.mem).remove(&side.peer).expect("the peer is known");
        side.engine.log(true);
        self.cuts[at] = Some(Cut { state: self.programs[at].state.clone(), of, log: BTreeMap::new() });
    }

    /// The lines of both directions, by receiver, if nothing is missing any more.
    fn lines(&self) -> Option<[Line; 2]> {
        let [a, b] = &self.cuts;
        let (a, b) = (a.as_ref()?, b.as_ref()?);
        let line = |from: &Cut, to: &Cut| {
            let leaving: BTreeSet<u64> = from.of.leaving.iter().map(|leaving| leaving.number).collect();
            to.of.line(&to.log, from.of.sent, &leaving)
        };
        let lines = [line(b, a), line(a, b)];
        lines.iter().all(|line| line.missing.is_empty()).then_some(lines)
    }

    fn ends(&mut self, rng: &mut Rng) -> [u64; 2] {
        for _ in 0..200_000 {
            if self.programs.iter().all(Program::is_over) {
                return [0, 1].map(|at| self.programs[at].state.sum);
            }
            self.turn(rng);
        }
        panic!("it does not end: {:?}", [0, 1].map(|at| self.programs[at].state.clone()));
    }

    /// New processes go on from the cuts.
    fn again(&self, lines: &[Line; 2]) -> Run {
        let mut run = Run::new([0, 1].map(|at| self.programs[at].steps.clone()));
        let cuts = [0, 1].map(|at| self.cuts[at].as_ref().expect("both are there"));
        for at in 0..2 {
            let (own, other, line) = (cuts[at], cuts[1 - at], &lines[at]);
            let again = (lines[1 - at].lacking.clone(), lines[1 - at].wanted.len() as u64);
            let (sent, arrived) = ((own.of.sent, other.of.arrived), (own.of.arrived, other.of.sent));
            let side = &mut run.sides[at];
            side.engine.resume(side.peer, Resume { sent, again, arrived, line: line.clone() });
            for leaving in own.of.leaving.iter().filter(|leaving| lines[1 - at].wanted.contains(&leaving.number)) {
                let op = side.engine.next_op();
                side.mem.0.insert(op.0, leaving.data.clone());
                side.engine.send_again(&side.mem, op, side.ctx, 0, leaving);
            }
        }
        let [a, b] = &mut run.sides;
        settle(a, b);
        for ((side, program), cut) in run.sides.iter_mut().zip(&mut run.programs).zip(cuts) {
            assert!(side.engine.is_resumed(side.peer));
            *program = Program::from(&program.steps, &cut.state, side);
        }
        run
    }
}

#[test]
fn any_two_cuts_are_a_line() {
    let (mut late, mut early, mut wanted, mut again) = (0, 0, 0, 0);
    for seed in 0..3000 {
        let mut rng = Rng(seed);
        let steps = programs(&mut rng);
        let mut run = Run::new(steps.clone());
        let first = rng.roll(2) as usize;
        let at = [rng.roll(200), rng.roll(200)];
        let mut lines = None;
        for n in 0.. {
            for side in [first, 1 - first] {
                if n == at[side] {
                    run.cut(side);
                }
            }
            // A line is whole as soon as nothing is missing.
            lines = lines.or_else(|| run.lines());
            if n > 200 && lines.is_some() {
                break;
            }
            run.turn(&mut rng);
        }
        let lines = lines.expect("all has come");
        let ends = run.ends(&mut rng);
        for (line, at) in lines.iter().zip(0..) {
            let (own, other) = (run.cuts[at].as_ref().expect("cut"), run.cuts[1 - at].as_ref().expect("cut"));
            late += line.kept.len();
            wanted += line.wanted.len();
            again += line.lacking.len();
            early += own.of.arrived.saturating_sub(other.of.sent) as usize;
        }
        // The restarted jobs make cuts too, and are restarted once more.
        let mut second = run.again(&lines);
        second.cut(0);
        second.cut(1);
        for n in 0..300 {
            if n == at[0] / 2 {
                second.cut(first);
            }
            second.turn(&mut rng);
        }
        assert_eq!(second.ends(&mut rng), ends, "seed {seed}");
        let [a, b] = &mut second.sides;
        settle(a, b);
        second.log(0);
        second.log(1);
        let lines = second.lines().expect("all has come");
        assert_eq!(second.again(&lines).ends(&mut rng), ends, "seed {seed}, restarted twice");
    }
    assert!([late, early, wanted, again].iter().all(|n| *n > 1000), "{late} {early} {wanted} {again}");
}

/// Messages that are sent again after a restart, and wait for credit, count as sent in a cut, and so do those behind them.
#[test]
fn what_is_sent_again_and_waits_is_in_a_cut() {
    for skipped in [0, 3] {
        let (mut a, _) = pair(small());
        a.engine.track();
        // Of eight that had come, those behind the first few are sent again. Credit is for four.
        let lacking: BTreeSet<u64> = (skipped + 1..=8).collect();
        let resume = Resume { sent: (0, 8), again: (lacking, 0), ..Resume::default() };
        a.engine.resume(a.peer, resume);
        for sent in 1..=10 {
            a.send(7, &[sent as u8], Mode::Standard);
            let cut = a.engine.cut(&a.mem).remove(&a.peer).expect("the peer is known");
            let waiting: Vec<u64> = cut.leaving.iter().map(|kept| kept.number).collect();
            assert_eq!(cut.sent, sent);
            assert_eq!(waiting, (skipped + 5..=sent).collect::<Vec<_>>());
            assert!(cut.leaving.iter().all(|kept| kept.data == [kept.number as u8]));
        }
    }
}

/// Messages that are sent again, and that no receive wants yet, keep no credit from the one that a receive waits for.
#[test]
fn a_receive_finds_what_is_sent_again_behind_others() {
    let (mut a, mut b) = pair(small());
    let lacking: BTreeSet<u64> = (1..=12).collect();
    a.engine.resume(a.peer, Resume { sent: (0, 12), again: (lacking.clone(), 0), ..Resume::default() });
    let line = Line { lacking, ..Line::default() };
    b.engine.resume(b.peer, Resume { arrived: (12, 0), line, ..Resume::default() });
    let receive = b.recv(Source::Rank(0), Tag::Is(7), 1);
    for _ in 1..12 {
        a.send(0, &[1], Mode::Standard);
    }
    a.send(7, &[7], Mode::Standard);
    settle(&mut a, &mut b);
    assert_eq!(b.engine.outcome(receive), got(7, 1));
}
