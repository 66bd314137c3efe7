//! Who is started when, and what becomes of the others when a job ends. No I/O, no clock: it is told what has happened, and says
//! what is to be done.
//!
//! Invariants: after an order to end nothing is started; a job is started again only when all that go back with it have ended.

use super::manifest::{OnDeath, Restart};
use super::plan::Planned;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// For the jobs that it is to come after.
    Waits,
    Runs,
    /// Is being ended, to be started again.
    GoesBack,
    /// Has ended for that.
    IsBack,
    Over(u8),
}

/// What the end of a job asks for.
#[derive(Debug, PartialEq, Eq)]
pub enum Act {
    Nothing,
    /// These go back, once more, of so many times: what runs of them has to end.
    Back(Vec<usize>, u32, u32),
    /// All are to be ended.
    End,
}

struct Member {
    after: Vec<usize>,
    on_death: OnDeath,
    restart: Option<Restart>,
    restarts: u32,
    state: State,
    /// How often it has been started again.
    again: u32,
    has_come: bool,
}

pub struct Policy {
    members: Vec<Member>,
    ending: bool,
}

impl Policy {
    pub fn new(jobs: &[Planned]) -> Policy {
        let place = |name: &String| jobs.iter().position(|job| job.name == *name);
        let member = |job: &Planned| Member {
            after: job.after.iter().filter_map(place).collect(),
            on_death: job.on_death,
            restart: job.restart,
            restarts: job.restarts,
            state: State::Waits,
            again: 0,
            has_come: false,
        };
        Policy { members: jobs.iter().map(member).collect(), ending: false }
    }

    pub fn state(&self, at: usize) -> State {
        self.members[at].state
    }

    pub fn again(&self, at: usize) -> u32 {
        self.members[at].again
    }

    /// Those that nothing keeps any more. They count as running from now on.
    pub fn startable(&mut self) -> Vec<usize> {
        if self.ending {
            return Vec::new();
        }
        let is_there = |at: &usize| {
            let other = &self.members[*at];
            other.has_come || other.state == State::Over(0)
        };
        let back = |member: &Member| member.state == State::IsBack;
        // One line is for all that go back to it.
        let is_held = |member: &Member| {
            member.restart == Some(Restart::Checkpoint)
                && self.members.iter().any(|m| m.restart == member.restart && m.state == State::GoesBack)
        };
        let ready: Vec<usize> = (0..self.members.len())
            .filter(|at| {
                let member = &self.members[*at];
                (member.state == State::Waits && member.after.iter().all(is_there))
                    || (back(member) && !is_held(member))
            })
            .collect();
        for at in &ready {
            self.members[*at].state = State::Runs;
        }
        ready
    }

    /// A job has registered a name.
    pub fn came(&mut self, at: usize) {
        self.members[at].has_come = true;
    }

    /// No job is started any more.
    pub fn end(&mut self) {
        self.ending = true;
    }

    /// A job has ended. The second value: whether that is a failure that stays.
    pub fn ended(&mut self, at: usize, code: u8) -> (Act, bool) {
        let state = self.members[at].state;
        self.members[at].state = State::Over(code);
        if self.ending {
            return (Act::Nothing, code != 0);
        }
        if state == State::GoesBack {
            self.members[at].state = State::IsBack;
            return (Act::Nothing, false);
        }
        if code == 0 {
            return (Act::Nothing, false);
        }
        let member = &self.members[at];
        let Some(restart) = member.restart.filter(|_| member.again < member.restarts) else {
            if member.on_death == OnDeath::Keep {
                return (Act::Nothing, true);
            }
            self.ending = true;
            return (Act::End, true);
        };
        let most = member.restarts;
        let goes = |(i, m): (usize, &Member)| match restart {
            Restart::Alone => i == at,
            // What has ended well by then goes back too: the line is of all.
            Restart::Checkpoint => m.restart == Some(restart) && m.state != State::Waits,
        };
        let group: Vec<usize> =
            self.members.iter().enumerate().filter(|(i, m)| goes((*i, m))).map(|(i, _)| i).collect();
        let again = member.again + 1;
        for i in &group {
            let member = &mut self.members[*i];
            member.again = again;
            member.state = if member.state == State::Runs { State::GoesBack } else { State::IsBack };
        }
        (Act::Back(group, again, most), false)
    }

    /// Whether nothing runs and nothing will.
    pub fn is_over(&self) -> bool {
        self.members.iter().all(|member| match member.state {
            State::Runs | State::GoesBack => false,
            State::IsBack => self.ending,
            State::Waits | State::Over(_) => true,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(all: &[(&[usize], OnDeath, Option<Restart>)]) -> Policy {
        let member = |(after, on_death, restart): &(&[usize], OnDeath, Option<Restart>)| Member {
            after: after.to_vec(),
            on_death: *on_death,
            restart: *restart,
            restarts: 1,
            state: State::Waits,
            again: 0,
            has_come: false,
        };
        Policy { members: all.iter().map(member).collect(), ending: false }
    }

    #[test]
    fn a_death_ends_all_or_not() {
        let mut it = policy(&[(&[], OnDeath::End, None), (&[], OnDeath::Keep, None)]);
        assert_eq!(it.startable(), [0, 1]);
        assert_eq!(it.ended(1, 7), (Act::Nothing, true));
        assert!(!it.is_over());
        assert_eq!(it.ended(0, 9), (Act::End, true));
        assert!(it.is_over() && it.ending);
    }

    #[test]
    fn who_comes_after_another_waits_for_it() {
        let mut it = policy(&[(&[1], OnDeath::End, None), (&[], OnDeath::Keep, None), (&[1], OnDeath::End, None)]);
        assert_eq!(it.startable(), [1]);
        assert_eq!(it.startable(), [0; 0]);
        it.came(1);
        assert_eq!(it.startable(), [0, 2]);
        let mut it = policy(&[(&[1], OnDeath::End, None), (&[], OnDeath::Keep, None)]);
        it.startable();
        it.ended(1, 0);
        assert_eq!(it.startable(), [0], "one that has ended well was there");
        let mut it = policy(&[(&[1], OnDeath::End, None), (&[], OnDeath::Keep, None)]);
        it.startable();
        it.ended(1, 1);
        assert!(it.startable().is_empty() && it.is_over());
    }

    #[test]
    fn all_with_checkpoints_go_back_together() {
        let back = Some(Restart::Checkpoint);
        let mut it = policy(&[
            (&[], OnDeath::End, back),
            (&[], OnDeath::End, back),
            (&[], OnDeath::End, back),
            (&[], OnDeath::End, None),
        ]);
        it.startable();
        it.ended(2, 0);
        assert_eq!(it.ended(0, 137), (Act::Back(vec![0, 1, 2], 1, 1), false));
        assert_eq!(it.startable(), [0; 0], "one has not ended yet");
        assert_eq!(it.ended(1, 143), (Act::Nothing, false));
        assert_eq!(it.startable(), [0, 1, 2]);
        assert_eq!(it.ended(1, 5), (Act::End, true), "once only");
    }

    #[test]
    fn one_goes_back_alone() {
        let mut it = policy(&[(&[], OnDeath::End, Some(Restart::Alone)), (&[], OnDeath::End, None)]);
        it.startable();
        assert_eq!(it.ended(0, 1), (Act::Back(vec![0], 1, 1), false));
        assert_eq!((it.startable(), it.again(0)), (vec![0], 1));
    }

    #[test]
    fn nothing_is_started_at_the_end() {
        let mut it = policy(&[(&[], OnDeath::End, Some(Restart::Alone)), (&[0], OnDeath::End, None)]);
        it.startable();
        it.end();
        assert_eq!(it.ended(0, 143), (Act::Nothing, true));
        assert!(it.startable().is_empty() && it.is_over());
    }
}
