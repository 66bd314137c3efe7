//! The state that decides how often lanes are read, and the MPI below is poked, while a thread waits.

use crate::crowd::Crowd;
use crate::watch::Happened;
use std::time::{Duration, Instant};

/// Sockets that are read without asking epoll first: asking costs as much as reading two of them.
const MOST_BUSY: usize = 2;

/// The time between two pokes of the MPI below while a thread does not sleep, at least. Pokes that move nothing there take no more than
/// one part in `POKE_SHARE` of the time: an MPI that asks the kernel each time would slow down the messages that are waited
/// for. But they are never further apart than `POKE_AT_LAST`.
const POKE_AFTER: Duration = Duration::from_micros(10);
const POKE_SHARE: u32 = 8;
const POKE_AT_LAST: Duration = Duration::from_micros(200);

pub(crate) struct Pace {
    /// Pairs whose sockets brought something last, the latest first.
    pub busy: Vec<usize>,
    /// How many threads sleep until a descriptor is ready.
    pub sleepers: usize,
    /// Calls since the last round.
    pub without_round: u32,
    /// Something else than plain messages has come, or was carried out: a time limit may have begun, and there may be something to follow up.
    pub stirred: bool,
    /// Whether a waiting thread may spin and yield.
    pub crowd: Crowd,
    /// Scratch memory for the events of a round.
    pub events: Vec<Happened>,
    /// When the MPI below was last poked by a thread that does not sleep, and how long after that it is due again.
    poked: Option<Instant>,
    poke_after: Duration,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace {
            busy: Vec::new(),
            sleepers: 0,
            without_round: 0,
            stirred: false,
            crowd: Crowd::default(),
            events: Vec::new(),
            poked: None,
            poke_after: POKE_AFTER,
        }
    }
}

impl Pace {
    /// Whether the MPI below was not poked for a while. A wait that began at `start` does not poke at once.
    pub(crate) fn poke_is_due(&self, start: Instant, now: Instant) -> bool {
        now - start >= POKE_AFTER
            && self.poked.is_none_or(|poked| now.saturating_duration_since(poked) >= self.poke_after)
    }

    /// The MPI below was poked from then to then. `moved`: something moved there.
    pub(crate) fn note_poke(&mut self, from: Instant, to: Instant, moved: bool) {
        self.poked = Some(to);
        self.poke_after = if moved { POKE_AFTER } else { ((to - from) * POKE_SHARE).clamp(POKE_AFTER, POKE_AT_LAST) };
    }

    /// A socket has brought something: it is the first of the busy ones.
    pub(crate) fn mark_busy(&mut self, i: usize) {
        if !self.busy.contains(&i) {
            self.busy.truncate(MOST_BUSY - 1);
            self.busy.insert(0, i);
        }
    }
}
