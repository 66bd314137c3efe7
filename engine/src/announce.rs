//! Which messages are announced though they could go eager: those that the receiver reads from our memory sooner than they come through
//! the lane, as it has told with its last DONE. Now and then some are announced so that it finds out.
//!
//! Part of the engine, for the sending side. Invariant: only speed depends on it, and for how long a send waits.

use base::protocol::message::{CAME_EARLY, READ_FROM, READ_SIZES, READ_UP_TO};

/// Of so many messages of a size, and after an eighth, a quarter and half of them ...
const EVERY: u32 = 2048;
/// ... so many are announced. The receiver tries all ways with most of them, and with the last ones it tells what it has found.
const TRIED: u32 = 14;

/// So many more of the announced messages came before their receives than not: then their sender is ahead. One alone may have met a receiver
/// that was interrupted.
const AHEAD: u32 = 4;

/// What is known of one receiver.
#[derive(Clone, Debug, Default)]
pub(crate) struct Announce {
    /// The sizes that it reads sooner: one bit each.
    sooner: u8,
    /// How many more messages came before their receives than not, of the last ones.
    early: u32,
    /// How many messages of each size have gone.
    sent: [u32; READ_SIZES],
}

/// Of which size such a message is. `None`: shorter ones always go eager, and longer ones never.
#[inline]
fn size_of(bytes: u64) -> Option<usize> {
    (READ_FROM..=READ_UP_TO).contains(&bytes).then(|| (bytes / READ_FROM).ilog2() as usize)
}

/// Whether a message of which so many have gone is one of those by which the receiver finds out.
#[inline]
fn is_tried(sent: u32) -> bool {
    let every = if sent < EVERY { (sent + 1).next_power_of_two().clamp(EVERY / 4, EVERY) / 2 } else { EVERY };
    sent % every < TRIED
}

impl Announce {
    /// Whether the next message of this length is announced.
    #[inline]
    pub fn is_due(&self, bytes: u64) -> bool {
        size_of(bytes).is_some_and(|size| self.sooner >> size & 1 == 1 || is_tried(self.sent[size]))
    }

    /// A message of this length goes.
    #[inline]
    pub fn count(&mut self, bytes: u64) {
        if let Some(size) = size_of(bytes) {
            self.sent[size] = self.sent[size].wrapping_add(1);
        }
    }

    /// The receiver has told which sizes it reads sooner, or that a message came before its receive. Who sends ahead, as several of these show, is
    /// not to wait, and tries no more for now.
    pub fn heard(&mut self, sooner: u8) {
        if sooner != CAME_EARLY {
            (self.sooner, self.early) = (sooner, self.early.saturating_sub(1));
            return;
        }
        self.early += 1;
        if self.early >= AHEAD {
            (self.sooner, self.early) = (0, 0);
            for sent in self.sent.iter_mut().filter(|sent| is_tried(**sent)) {
                *sent = sent.wrapping_add(TRIED);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_longer_message_is_none_of_these_sizes() {
        let mut announce = Announce::default();
        (0..EVERY).for_each(|_| announce.count(READ_UP_TO + 1));
        assert_eq!(announce.sent, [0; READ_SIZES]);
    }

    #[test]
    fn some_are_tried_and_those_that_are_read_sooner_are_announced() {
        let mut announce = Announce::default();
        let mut among = |sooner: u8, bytes: u64| {
            announce.heard(sooner);
            let due = |_: &u32| {
                announce.count(bytes);
                announce.is_due(bytes)
            };
            (0..EVERY).filter(due).count() as u32
        };
        assert_eq!(among(0b111, READ_FROM - 1), 0);
        assert_eq!([among(0, READ_FROM), among(0, 4 * READ_FROM)], [4 * TRIED; 2], "more often at first");
        assert_eq!(
            [among(0b010, READ_FROM), among(0b010, 4 * READ_FROM - 1), among(0b100, 4 * READ_FROM)],
            [TRIED, EVERY, EVERY]
        );
        let last = 1 << (READ_SIZES - 1);
        assert_eq!(
            [among(last, READ_UP_TO), among(last, READ_UP_TO / 2), among(last, READ_UP_TO + 1)],
            [EVERY, 4 * TRIED, 0]
        );
        let mut ahead = Announce::default();
        assert!(ahead.is_due(READ_FROM));
        ahead.heard(0b111);
        for _ in 0..100 {
            ahead.heard(CAME_EARLY);
            assert!(ahead.is_due(READ_FROM), "one of many");
            ahead.heard(0b111);
        }
        (0..AHEAD).for_each(|_| ahead.heard(CAME_EARLY));
        assert!(!ahead.is_due(READ_FROM));
    }
}
