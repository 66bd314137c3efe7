//! Messages for the person that runs the server: claims, releases and refusals. The server alone calls this.
//!
//! Invariant: no client can flood them: the number of messages per minute is bounded, for claims and releases and for refusals.
//! Messages that are left out are counted.

use crate::fate::Fate;
use crate::record::{Kind, Record};
use std::time::{Duration, Instant};

const MINUTE: Duration = Duration::from_secs(60);
const MAX_REFUSALS: u32 = 60;
/// Of claims, releases and leases that are over.
const MAX_NEWS: u32 = 600;

/// Gets each line.
pub(super) type Out = Box<dyn Fn(&str) + Send>;

/// Writes the messages.
pub(super) struct Teller {
    /// Without it, the messages go to the log, at `info`.
    pub out: Option<Out>,
    refusals: Counted,
    news: Counted,
}

/// The messages of one kind in a minute.
struct Counted {
    what: &'static str,
    most: u32,
    /// The begin of the minute, and the number of messages since.
    minute: Option<(Instant, u32)>,
}

impl Counted {
    fn new(what: &'static str, most: u32) -> Counted {
        Counted { what, most, minute: None }
    }

    /// `Ok` if one more message may be written; the first that may not gives a text to be written instead.
    fn has_room(&mut self, now: Instant) -> Result<(), Option<String>> {
        let (_, count) = self.minute.get_or_insert((now, 0));
        *count = count.saturating_add(1);
        match *count {
            n if n <= self.most => Ok(()),
            n if n == self.most + 1 => {
                Err(Some(format!("more than {} {} within a minute: the others are only counted", self.most, self.what)))
            }
            _ => Err(None),
        }
    }

    /// Once the minute is over, a text about the messages that were left out, if any.
    fn over(&mut self, now: Instant) -> Option<String> {
        let (_, count) = self.minute.take_if(|(since, _)| now >= *since + MINUTE)?;
        let left_out = count.checked_sub(self.most).filter(|n| *n > 0)?;
        Some(format!("{left_out} more {} within a minute are left out here", self.what))
    }
}

impl Default for Teller {
    fn default() -> Teller {
        let (refusals, news) = (Counted::new("refusals", MAX_REFUSALS), Counted::new("claims and releases", MAX_NEWS));
        Teller { out: None, refusals, news }
    }
}

impl Teller {
    fn tell(&self, text: &str) {
        match &self.out {
            Some(out) => out(text),
            None => base::log!(Info, "{text}"),
        }
    }

    /// To be called often: writes how many messages were left out in a minute that is over.
    pub(super) fn go_on(&mut self, now: Instant) {
        for text in [self.refusals.over(now), self.news.over(now)].into_iter().flatten() {
            self.tell(&text);
        }
    }

    pub(super) fn news(&mut self, fate: Fate, record: &Record, now: Instant) {
        self.go_on(now);
        if let Err(cut) = self.news.has_room(now) {
            return cut.into_iter().for_each(|text| self.tell(&text));
        }
        let name = full_name(record);
        self.tell(&match fate {
            Fate::Claimed => format!("{name} is claimed by process {} on {}{}", record.pid, record.host, what(record)),
            Fate::Released => format!("{name} is released by process {} on {}", record.pid, record.host),
            Fate::Over => format!(
                "the lease of {name} is over: process {} on {} has died, or does not reach this server",
                record.pid, record.host
            ),
        });
    }

    /// What happens to the ledger, which is seldom.
    pub(super) fn kept(&self, text: &str) {
        self.tell(text);
    }

    pub(super) fn refused(&mut self, text: &str, now: Instant) {
        self.go_on(now);
        match self.refusals.has_room(now) {
            Ok(()) => self.tell(text),
            Err(cut) => cut.into_iter().for_each(|text| self.tell(&text)),
        }
    }
}

/// The name with its run, and what it is, for a coupling.
pub(super) fn full_name(record: &Record) -> String {
    let run = if record.run.is_empty() { String::new() } else { format!(" of run '{}'", record.run) };
    match &record.coupled {
        Some(other) => format!("the coupling of '{}' with '{other}'{run}", record.name),
        None => format!("'{}'{run}", record.name),
    }
}

fn what(record: &Record) -> String {
    match (record.kind(), record.size) {
        (Kind::Job, 1) => format!(": 1 rank of {}", record.mpi),
        (Kind::Job, n) => format!(": {n} ranks of {}", record.mpi),
        (Kind::Port, _) => ", as a published port".into(),
        (Kind::Coupling, _) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn what_is_told_is_bounded() {
        let ((out, told), start) = (channel(), Instant::now());
        let mut teller =
            Teller { out: Some(Box::new(move |text| out.send(text.to_owned()).unwrap())), ..Teller::default() };
        (0..1000).for_each(|_| teller.refused("no", start));
        let all: Vec<_> = told.try_iter().collect();
        assert_eq!(all.len(), MAX_REFUSALS as usize + 1);
        assert_eq!(all[60], "more than 60 refusals within a minute: the others are only counted");
        (0..1000).for_each(|_| teller.news(Fate::Claimed, &Record::new("air"), start));
        assert_eq!(told.try_iter().count(), MAX_NEWS as usize + 1);
        teller.go_on(start);
        teller.refused("no", start + MINUTE);
        let left = |count, what| format!("{count} more {what} within a minute are left out here");
        let now: Vec<_> = told.try_iter().collect();
        assert_eq!(now, [left(940, "refusals"), left(400, "claims and releases"), "no".into()]);
        teller.go_on(start + 3 * MINUTE);
        assert_eq!(told.try_iter().count(), 0);
    }
}
