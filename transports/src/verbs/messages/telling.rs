//! How the descriptor comes to tell of what comes next, so that whoever sleeps is woken.
//!
//! To arm the queues takes system calls. So a descriptor that is readable is left so for a while: it tells of all that
//! comes, and whoever waits for the next message finds that sooner.

use super::{Messages, Told};
use crate::verbs::device::Which;
use std::io;

/// Looks that find nothing before the queues are armed again.
const PATIENCE: u32 = 256;
/// The same while nothing was found since they were armed: then the descriptor tells of what was found when they were.
const FALSE_ALARMS: u32 = 4096;

impl Messages {
    /// Something was found of which the descriptor may have told.
    pub(super) fn has_seen(&mut self) {
        self.idle = 0;
        if self.told == Told::All {
            self.told = Told::Some;
        }
    }

    /// Whether the descriptor may be left as it is.
    pub(super) fn may_be_left(&self) -> bool {
        let rest = match self.told {
            Told::Nothing => 0,
            Told::Some => PATIENCE,
            Told::All => FALSE_ALARMS,
        };
        self.tells() && self.idle < rest
    }

    /// Makes sure that the descriptor tells of what comes next, after a look. Returns false if something is there already.
    pub(in crate::verbs) fn settle(&mut self) -> bool {
        loop {
            if self.failure.is_some() || self.has_some() {
                return false;
            }
            if self.may_be_left() {
                self.idle += 1;
                return true;
            }
            // Who waits may sleep for long: the other side shall not lack credit then.
            self.repost_spent();
            if let Err(e) = self.arm() {
                self.fail(e);
            }
            self.idle = 0;
            // What came before is not told of.
            self.pump();
        }
    }

    /// Whether the descriptor tells of all that comes from now on.
    pub(in crate::verbs) fn tells(&self) -> bool {
        self.told != Told::Nothing && (self.sends_armed || !self.awaits_sends())
    }

    /// Arms the queues anew; only that of the sends, if nothing else is missing.
    fn arm(&mut self) -> io::Result<()> {
        if self.told == Told::Nothing || self.tells() {
            self.link.pair.silence();
            self.sends_armed = false;
            self.link.pair.arm(Which::Receives)?;
            self.told = Told::All;
        }
        if self.awaits_sends() {
            self.link.pair.arm(Which::Sends)?;
            self.sends_armed = true;
        }
        Ok(())
    }

    /// Whether the completion of a send, a read or a write is of interest at once.
    pub(super) fn awaits_sends(&self) -> bool {
        self.stuck || !self.proved || self.reads.under_way() + self.writes.under_way() > 0
    }

    /// Takes what tells of nothing any more.
    pub(in crate::verbs) fn silence(&mut self) {
        self.told = Told::Nothing;
        self.link.pair.device.take_events();
    }
}
