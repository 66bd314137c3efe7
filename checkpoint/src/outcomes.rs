//! Outcomes that could have been others, between a cut and the end of its line: what a test or a probe has found, and which
//! message a receive from any source has got. A restarted program gets the same ones again, so it sends the same messages.
//!
//! Each process notes them from its cut on. When it hears of the line, all cuts of the line have been made, so whatever the
//! messages that came too early depend on is noted by then: that part *must* be done again. What a process notes after that
//! belongs to the record too, until all processes have heard of the line: others' parts may depend on it. At a restart
//! everything is done again, in each process, until all have done again what they must. One that is past its own record chooses
//! freely meanwhile, so what another one has noted behind its part may not fit any more: it is given up then.
//!
//! Invariant: what must be done again depends on nothing that is in no record.

use crate::line::Job;
use engine::{ContextId, Limits, Wildcards};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A kind of calls whose outcome could be another one. Those of one kind are done again in the order in which they were done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Call {
    /// `MPI_Test`.
    Test,
    /// `MPI_Testall`.
    Testall,
    /// `MPI_Testany`: the index.
    Testany,
    /// `MPI_Testsome`: the indices.
    Testsome,
    /// `MPI_Waitany`: the index.
    Waitany,
    /// `MPI_Waitsome`: the indices.
    Waitsome,
    /// `MPI_Request_get_status`.
    Status,
    /// `MPI_Parrived`.
    Parrived,
    /// `MPI_Probe` of any source: the source.
    Probe,
    /// `MPI_Iprobe`: the source.
    Iprobe,
    /// `MPI_Mprobe` of any source: the source.
    Mprobe,
    /// `MPI_Improbe`: the source.
    Improbe,
}

/// Outcomes of calls of one kind, one after the other.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Step {
    /// So often nothing was found.
    nothing: u64,
    /// Then this. `None` at the end of a record only.
    found: Option<Vec<u32>>,
}

impl Step {
    fn calls(&self) -> u64 {
        self.nothing.saturating_add(self.found.is_some().into())
    }
}

/// A receive from any source, and the message that it has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chosen {
    /// The inter-communicator.
    pub context: ContextId,
    /// The receive's number among those from any source.
    pub ordinal: u64,
    /// The rank of the sender.
    pub source: u32,
    /// The number of the message.
    pub number: u64,
}

/// The record of one process, in its image. Jobs are known by their place in [`crate::Image::remotes`]; receives are counted
/// from the cut on, those first that were pending then.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcomes {
    calls: BTreeMap<Call, Vec<Step>>,
    chosen: Vec<(u32, Chosen)>,
    /// How many calls of each kind, and how many receives, must be done again.
    must: (BTreeMap<Call, u64>, u64),
}

/// Notes the outcomes after one cut.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recorder {
    calls: BTreeMap<Call, Vec<Step>>,
    chosen: Vec<(Job, Chosen)>,
    /// The receives from any source that were pending at the cut, and how many had been posted.
    at_cut: BTreeMap<(Job, ContextId), (Vec<u64>, u64)>,
    /// Set when the process hears of the line.
    must: Option<(BTreeMap<Call, u64>, u64)>,
    /// Set at the end.
    is_over: bool,
}

impl Recorder {
    /// A recorder from the cut on, at which these receives from any source were pending or over.
    pub fn new(wildcards: Vec<(Job, Wildcards)>) -> Recorder {
        let mut recorder = Recorder::default();
        for (job, Wildcards { context, pending, chosen, posted, .. }) in wildcards {
            let chosen =
                chosen.into_iter().map(|(ordinal, source, number)| Chosen { context, ordinal, source, number });
            recorder.chosen.extend(chosen.map(|chosen| (job, chosen)));
            recorder.at_cut.insert((job, context), (pending, posted));
        }
        recorder
    }

    /// Whether outcomes are still noted.
    pub fn is_open(&self) -> bool {
        !self.is_over
    }

    /// A call has found this, or nothing.
    pub fn note(&mut self, call: Call, found: Option<&[u32]>) {
        if !self.is_open() {
            return;
        }
        let steps = self.calls.entry(call).or_default();
        if steps.last().is_none_or(|last| last.found.is_some()) {
            steps.push(Step::default());
        }
        if let Some(last) = steps.last_mut() {
            match found {
                Some(found) => last.found = Some(found.to_vec()),
                None => last.nothing += 1,
            }
        }
    }

    /// A receive from any source has got a message of a process of this job.
    pub fn chose(&mut self, job: Job, chosen: Chosen) {
        if self.is_open() {
            self.chosen.push((job, chosen));
        }
    }

    /// The process has heard of the line.
    pub fn mark(&mut self) {
        let calls = self.calls.iter().map(|(call, steps)| (*call, steps.iter().map(Step::calls).sum())).collect();
        let chosen = self.chosen.len() as u64;
        self.must.get_or_insert((calls, chosen));
    }

    /// All processes have heard of the line: the record ends. `rest` is what this process has still to do again of an older
    /// record, which it will do whatever comes.
    pub fn close(&mut self, rest: Option<&Replay>) {
        if !self.is_open() {
            return;
        }
        self.mark();
        if let (Some(rest), Some(must)) = (rest, &mut self.must) {
            for (call, steps) in &rest.calls {
                let all = self.calls.entry(*call).or_default();
                let before: u64 = all.iter().map(Step::calls).sum();
                for step in steps {
                    match all.last_mut().filter(|last| last.found.is_none()) {
                        Some(last) => *last = Step { nothing: last.nothing + step.nothing, found: step.found.clone() },
                        None => all.push(step.clone()),
                    }
                }
                let left = rest.calls_left.get(call).copied().unwrap_or(0);
                if left > 0 {
                    must.0.insert(*call, before + left);
                }
            }
            let left: Vec<_> =
                rest.chosen.iter().filter(|(job, chosen)| !self.chosen.contains(&(*job, *chosen))).copied().collect();
            if !rest.chosen_left.is_empty() {
                must.1 = (self.chosen.len() + left.len()) as u64;
            }
            self.chosen.extend(left);
        }
        self.is_over = true;
    }

    /// The number of a receive from the cut on. `None`: it was over at the cut.
    fn counted_from_cut(&self, at: (Job, ContextId), ordinal: u64) -> Option<u64> {
        let Some((pending, posted)) = self.at_cut.get(&at) else { return Some(ordinal) };
        match ordinal.checked_sub(*posted) {
            Some(later) => Some(later + pending.len() as u64),
            None => pending.iter().position(|known| *known == ordinal).map(|at| at as u64),
        }
    }

    /// The record. `place_of` gives the place of a job in the image.
    pub fn outcomes(&self, place_of: impl Fn(Job) -> Option<u32>) -> Outcomes {
        let (mut must, mut chosen) = (self.must.clone().unwrap_or_default(), Vec::new());
        let mut must_choose = 0;
        for (at, (job, of)) in self.chosen.iter().enumerate() {
            let ordinal = self.counted_from_cut((*job, of.context), of.ordinal);
            if let (Some(place), Some(ordinal)) = (place_of(*job), ordinal) {
                must_choose += u64::from((at as u64) < must.1);
                chosen.push((place, Chosen { ordinal, ..*of }));
            }
        }
        must.1 = must_choose;
        Outcomes { calls: self.calls.clone(), chosen, must }
    }
}

impl Outcomes {
    /// What receives from any source may get in an inter-communicator with the job at this place.
    pub fn limits(&self, place: u32, context: ContextId) -> Limits {
        let its = self.chosen.iter().filter(|(of, chosen)| *of == place && chosen.context == context);
        Limits { chosen: its.map(|(_, chosen)| (chosen.ordinal, (chosen.source, chosen.number))).collect() }
    }
}

/// What a process has to do again after a restart.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Replay {
    calls: BTreeMap<Call, VecDeque<Step>>,
    /// Calls that must be done again.
    calls_left: BTreeMap<Call, u64>,
    chosen: Vec<(Job, Chosen)>,
    /// Receives that must get their message again.
    chosen_left: BTreeSet<(Job, ContextId, u64)>,
}

/// What a call is to find.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Whatever there is.
    Free,
    /// Nothing.
    Nothing,
    /// This, as soon as it is there.
    Found(Vec<u32>),
}

impl Replay {
    /// What is to be done again of a record. `job_at` gives the job at a place in the image.
    pub fn new(outcomes: Outcomes, job_at: impl Fn(u32) -> Option<Job>) -> Replay {
        let Outcomes { calls, chosen, must, .. } = outcomes;
        let chosen: Vec<_> = chosen.into_iter().filter_map(|(place, of)| Some((job_at(place)?, of))).collect();
        let chosen_left = chosen.iter().take(must.1 as usize).map(|(job, of)| (*job, of.context, of.ordinal)).collect();
        let has = |call: &Call| calls.get(call).map_or(0, |steps| steps.iter().map(Step::calls).sum::<u64>());
        let calls_left =
            must.0.into_iter().map(|(call, left)| (call, left.min(has(&call)))).filter(|(_, left)| *left > 0);
        let calls_left = calls_left.collect();
        let calls = calls.into_iter().map(|(call, steps)| (call, steps.into())).collect();
        Replay { calls, calls_left, chosen, chosen_left }
    }

    /// What the next call of this kind is to find.
    pub fn next(&self, call: Call) -> Next {
        match self.calls.get(&call).and_then(VecDeque::front) {
            None => Next::Free,
            Some(Step { nothing: 1.., .. }) => Next::Nothing,
            Some(Step { found, .. }) => found.clone().map_or(Next::Free, Next::Found),
        }
    }

    /// A call has found what it was to find.
    pub fn done(&mut self, call: Call) {
        let Some(steps) = self.calls.get_mut(&call) else { return };
        match steps.front_mut() {
            Some(step) if step.nothing > 0 => step.nothing -= 1,
            _ => drop(steps.pop_front()),
        }
        if steps.front().is_some_and(|step| step.calls() == 0) {
            steps.pop_front();
        }
        if steps.is_empty() {
            self.calls.remove(&call);
        }
        if let Some(left) = self.calls_left.get_mut(&call) {
            *left -= 1;
            if *left == 0 {
                self.calls_left.remove(&call);
            }
        }
    }

    /// A receive from any source has got its message.
    pub fn chose(&mut self, job: Job, chosen: &Chosen) {
        self.chosen_left.remove(&(job, chosen.context, chosen.ordinal));
    }

    /// Whether all calls are done again that must be. Before that, the program does nothing that is in no record.
    pub fn is_past_calls(&self) -> bool {
        self.calls_left.is_empty()
    }

    /// Whether all is done again that must be.
    pub fn has_done_all(&self) -> bool {
        self.calls_left.is_empty() && self.chosen_left.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOB: Job = 9;

    fn chosen(ordinal: u64, number: u64) -> Chosen {
        Chosen { context: ContextId::root(1), ordinal, source: 1, number }
    }

    fn wildcards(pending: &[u64], posted: u64) -> Vec<(Job, Wildcards)> {
        let (context, pending) = (ContextId::root(1), pending.to_vec());
        vec![(JOB, Wildcards { group: 0, context, pending, chosen: Vec::new(), posted })]
    }

    #[test]
    fn what_was_noted_is_found_again_in_its_order() {
        let mut recorder = Recorder::new(Vec::new());
        let found = |n: u32| Some(vec![n]);
        let all = [None, None, found(3), found(1), None, None];
        all.iter().for_each(|found| recorder.note(Call::Testany, found.as_deref()));
        recorder.note(Call::Iprobe, Some(&[7]));
        recorder.mark();
        recorder.note(Call::Iprobe, None);
        recorder.close(None);
        recorder.note(Call::Iprobe, Some(&[8]));
        let mut replay = Replay::new(recorder.outcomes(|_| Some(0)), |_| Some(JOB));
        for found in &all {
            let want = found.clone().map_or(Next::Nothing, Next::Found);
            assert_eq!(replay.next(Call::Testany), want);
            assert!(!replay.has_done_all());
            replay.done(Call::Testany);
        }
        assert_eq!(replay.next(Call::Testany), Next::Free);
        assert_eq!(replay.next(Call::Iprobe), Next::Found(vec![7]));
        replay.done(Call::Iprobe);
        assert!(replay.has_done_all(), "what was noted behind the mark need not be done again");
        assert_eq!(replay.next(Call::Iprobe), Next::Nothing);
        replay.done(Call::Iprobe);
        assert_eq!(replay.next(Call::Iprobe), Next::Free);
    }

    #[test]
    fn receives_are_counted_from_the_cut_on() {
        // Of four, the second and the last were pending at the cut; the third had ended.
        let mut recorder = Recorder::new(wildcards(&[1, 3], 4));
        recorder.chose(JOB, chosen(3, 50));
        recorder.mark();
        recorder.chose(JOB, chosen(5, 51));
        recorder.close(None);
        let outcomes = recorder.outcomes(|_| Some(2));
        let limits = outcomes.limits(2, ContextId::root(1));
        assert_eq!(limits.chosen, [(1, (1, 50)), (3, (1, 51))].into());
        assert_eq!(outcomes.limits(1, ContextId::root(1)), Limits::default());
        let mut replay = Replay::new(outcomes, |_| Some(JOB));
        assert!(!replay.has_done_all());
        replay.chose(JOB, &chosen(1, 50));
        assert!(replay.has_done_all());
    }

    #[test]
    fn what_is_left_of_an_older_record_goes_into_the_next_one() {
        let mut old = Recorder::new(Vec::new());
        old.note(Call::Test, None);
        old.note(Call::Test, Some(&[]));
        old.chose(JOB, chosen(0, 5));
        old.close(None);
        let mut replay = Replay::new(old.outcomes(|_| Some(0)), |_| Some(JOB));
        replay.done(Call::Test);
        // A cut, and its line, before the rest was done again.
        let mut recorder = Recorder::new(Vec::new());
        recorder.mark();
        recorder.close(Some(&replay));
        let outcomes = recorder.outcomes(|_| Some(0));
        assert_eq!(outcomes.limits(0, ContextId::root(1)).chosen, [(0, (1, 5))].into());
        let again = Replay::new(outcomes, |_| Some(JOB));
        assert_eq!(again, replay);
        assert!(!again.has_done_all());
    }
}
