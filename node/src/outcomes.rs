//! Outcomes of calls that could have been others: they are noted for cuts, and found again after a restart.
//!
//! Part of the core. Invariant: a call asks what it is to find before it looks, and tells what it has found before it returns.

use crate::state::Core;
use crate::state::checkpoints::Place;
use base::ProcId;
use checkpoint::{Call, Chosen, Message, Next, Outcomes, Posted, Replay};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether some outcomes are noted, or are to be found again.
static MATTER: AtomicBool = AtomicBool::new(false);

/// Whether calls have to ask for outcomes, and to tell them. It changes only under the lock, or in calls for checkpoints.
#[inline]
pub fn outcomes_matter() -> bool {
    MATTER.load(Ordering::Relaxed)
}

impl Core {
    pub(crate) fn note_as_needed(&self) {
        let matter = self.checkpoints.jobs.values().any(|of| of.member.is_noting() || of.replay.is_some());
        MATTER.store(matter, Ordering::Relaxed);
    }

    /// What the next call of this kind is to find.
    pub fn next_outcome(&self, call: Call) -> Next {
        let replays = self.checkpoints.jobs.values().filter_map(|of| of.replay.as_ref());
        replays.map(|replay| replay.next(call)).find(|next| *next != Next::Free).unwrap_or(Next::Free)
    }

    /// Whether a restarted program still does again what it did before.
    pub fn is_replaying(&self) -> bool {
        self.checkpoints.jobs.values().any(|of| of.replay.is_some())
    }

    /// A call has found this, or nothing.
    pub fn note_outcome(&mut self, call: Call, found: Option<&[u32]>) {
        let (mut done, mut astray) = (Vec::new(), false);
        for tracked in self.checkpoints.jobs.values_mut() {
            tracked.member.note(call, found);
            let Some(replay) = &mut tracked.replay else { continue };
            if replay.next(call) != Next::Free {
                replay.done(call);
                done.push(tracked.own);
            } else {
                astray |= !replay.is_past_calls();
            }
        }
        done.into_iter().for_each(|own| self.tell_replayed(own));
        if astray {
            self.stop_replay(&format!("it calls MPI_{call:?} more often"));
        }
    }

    /// A receive from any source has got a message.
    pub(crate) fn note_choice(&mut self, own: ProcId, job: u64, chosen: Chosen) {
        let Some(tracked) = self.checkpoints.jobs.get_mut(&own.incarnation) else { return };
        tracked.member.chose(job, chosen);
        if let Some(replay) = &mut tracked.replay {
            replay.chose(job, &chosen);
            self.tell_replayed(own);
        }
    }

    /// Ends the records after cuts of whose line all processes have heard.
    pub(crate) fn close_records(&mut self, own: ProcId) {
        let Some(tracked) = self.checkpoints.jobs.get_mut(&own.incarnation) else { return };
        let session = &self.session;
        let end = || {
            let wildcards = session.wildcards(own.incarnation).into_iter();
            let posted: Posted = wildcards.map(|(job, of)| ((job, of.context), of.posted)).collect();
            (posted, session.came(own.incarnation))
        };
        tracked.member.close(end, tracked.replay.as_ref());
        self.note_as_needed();
    }

    /// After a restart, before the program goes on: it is to find again what it has found. `others` are the jobs by their
    /// place in the image.
    pub fn begin_replay(
        &mut self,
        own: ProcId,
        jobs: &BTreeSet<String>,
        outcomes: Outcomes,
        others: &[u64],
        places: &[Place],
    ) {
        for (place, context, inter, members) in places {
            self.session.limit(*inter, outcomes.limits(*place, *context, members));
        }
        let Some(tracked) = self.checkpoints.jobs.get_mut(&own.incarnation) else { return };
        tracked.replay = Some(Replay::new(outcomes, |at| others.get(at as usize).copied()));
        tracked.tells_replayed = others.iter().map(|job| ProcId { incarnation: *job, rank: 0 }).collect();
        if let Some(leader) = &mut tracked.leader {
            leader.restarts(jobs.clone());
        }
        self.note_as_needed();
        self.tell_replayed(own);
    }

    /// Tells other leaders that this process has done again what it must, once it has, or never will.
    fn tell_replayed(&mut self, own: ProcId) {
        let Some(tracked) = self.checkpoints.jobs.get_mut(&own.incarnation) else { return };
        if tracked.replay.as_ref().is_none_or(Replay::has_done_all) && !tracked.tells_replayed.is_empty() {
            for leader in std::mem::take(&mut tracked.tells_replayed) {
                self.session.tell_of_checkpoints(own, leader, &Message::Replayed.encode());
            }
            self.go_on_with(own.incarnation);
        }
    }

    /// All processes have done again what they must: from now on each finds what there is.
    pub(crate) fn end_replay(&mut self, own: ProcId) {
        let Some(tracked) = self.checkpoints.jobs.get_mut(&own.incarnation) else { return };
        if tracked.replay.take().is_some() {
            base::log!(Debug, "{own} has done again what it must");
            self.session.unlimit();
            self.note_as_needed();
        }
    }

    /// The program does something else than before its restart, so what it found then is of no use.
    pub fn stop_replay(&mut self, why: &str) {
        let replaying = self.checkpoints.jobs.values().filter(|of| of.replay.is_some()).map(|of| of.own);
        for own in replaying.collect::<Vec<_>>() {
            let must = self.checkpoints.jobs.get(&own.incarnation).and_then(|of| of.replay.as_ref());
            if must.is_some_and(|replay| !replay.has_done_all()) {
                base::log!(Error, "after the restart the program does not do again what it did: {why}");
            }
            self.end_replay(own);
            self.tell_replayed(own);
        }
    }
}
