//! A thread that carries what others say to each other goes on looking for more before it sleeps: to be woken for each message costs
//! more, for its processor and for whoever wakes it.
//!
//! Between two looks it gives the processor to whoever wants it. Invariants: it looks for [`LOOK`] at most if nothing comes; where others
//! keep the processor for long, it sleeps as soon as nothing is there, for [`REST`], since the kernel lets one that is woken go first.

use std::time::{Duration, Instant};

/// So long it is looked for more: as long as a call that waits spins.
const LOOK: Duration = Duration::from_micros(100);
/// Who waits for a message gives the processor back within some microseconds, and one that computes keeps it for milliseconds.
const LONG: Duration = Duration::from_micros(500);
/// So long nothing is looked for after that: then messages may be late by one such time in this.
const REST: Duration = Duration::from_millis(200);

/// Whether a thread looks or sleeps.
#[derive(Debug, Default)]
pub struct Looks {
    /// When something came last, while it is looked for more.
    since: Option<Instant>,
    rests_until: Option<Instant>,
}

impl Looks {
    /// Whether to look again, and not to sleep.
    pub fn go_on(&self) -> bool {
        self.since.is_some()
    }

    /// It has looked, or was woken.
    pub fn looked(&mut self, found: bool) {
        self.looked_at(found, Instant::now());
    }

    /// Gives the processor to whoever wants it.
    pub fn give_way(&mut self) {
        let from = Instant::now();
        std::thread::yield_now();
        self.gave_way(from, Instant::now());
    }

    fn looked_at(&mut self, found: bool, now: Instant) {
        if found && self.rests_until.is_none_or(|until| now >= until) {
            (self.since, self.rests_until) = (Some(now), None);
        } else {
            self.since = self.since.filter(|since| self.rests_until.is_none() && now < *since + LOOK);
        }
    }

    fn gave_way(&mut self, from: Instant, to: Instant) {
        if to >= from + LONG {
            self.rests_until = Some(to + REST);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_looks_on_for_a_while_behind_what_has_come() {
        let (mut looks, mut now) = (Looks::default(), Instant::now());
        looks.looked_at(false, now);
        assert!(!looks.go_on(), "nothing has come");
        for _ in 0..3 {
            looks.looked_at(true, now);
            now += LOOK / 2;
            looks.looked_at(false, now);
            assert!(looks.go_on());
        }
        now += LOOK / 2;
        looks.looked_at(false, now);
        assert!(!looks.go_on());
    }

    #[test]
    fn where_others_keep_the_processor_it_sleeps_and_tries_again_later() {
        let (mut looks, mut now) = (Looks::default(), Instant::now());
        looks.looked_at(true, now);
        looks.gave_way(now, now + LONG / 2);
        assert!(looks.go_on());
        looks.gave_way(now, now + LONG);
        now += LONG;
        assert!(looks.go_on(), "it looks once more before it sleeps");
        for _ in 0..3 {
            looks.looked_at(true, now);
            assert!(!looks.go_on());
            now += REST / 3;
        }
        looks.looked_at(true, now + REST);
        assert!(looks.go_on());
    }
}
