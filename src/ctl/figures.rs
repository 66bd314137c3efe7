//! The figures of a job at one moment, and what changed between two of them.
//!
//! Invariant: a rate is of one process's own clock, so the clocks of hosts are never compared.

use std::collections::BTreeMap;
use std::time::Duration;
use wire::control::{Flow, Outcome, Pair, Report, What};

/// What all processes of a job have reported.
pub struct Sample {
    pub job: String,
    pub outcomes: Vec<Outcome>,
}

/// What goes in one direction in a second.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Rate {
    pub messages: f64,
    pub bytes: f64,
}

/// What changed at a process since the sample before.
pub struct Since<'a> {
    now: &'a Report,
    before: &'a Report,
    seconds: f64,
}

impl Sample {
    /// The pairs of each process in the order of jobs and ranks, wherever the process has them.
    pub fn new(job: &str, mut outcomes: Vec<Outcome>) -> Sample {
        for outcome in &mut outcomes {
            if let What::Report(report) = &mut outcome.what {
                report.pairs.sort_by_key(|pair| (pair.incarnation, pair.rank));
            }
        }
        Sample { job: job.into(), outcomes }
    }

    /// The processes that have reported.
    pub fn reports(&self) -> impl Iterator<Item = (u32, &Report)> {
        self.outcomes.iter().filter_map(|outcome| match &outcome.what {
            What::Report(report) => Some((outcome.rank, &**report)),
            _ => None,
        })
    }

    /// Those that have not, and why.
    pub fn others(&self) -> impl Iterator<Item = (u32, &What)> {
        let silent = self.outcomes.iter().filter(|outcome| !matches!(outcome.what, What::Report(_)));
        silent.map(|outcome| (outcome.rank, &outcome.what))
    }

    /// The names of the other jobs, by incarnation.
    pub fn names(&self) -> BTreeMap<u64, String> {
        let jobs = self.reports().flat_map(|(_, report)| &report.jobs);
        let mut names: BTreeMap<u64, String> = BTreeMap::new();
        for job in jobs {
            let name = if job.name.is_empty() { format!("{:016x}", job.incarnation) } else { job.name.clone() };
            names.insert(job.incarnation, name);
        }
        names
    }

    /// What changed at this process since that sample. `None`: it was not there, or another one was.
    pub fn since<'a>(&'a self, before: Option<&'a Sample>, rank: u32) -> Option<Since<'a>> {
        let find = |sample: &'a Sample| sample.reports().find(|(one, _)| *one == rank).map(|(_, report)| report);
        let (now, before) = (find(self)?, find(before?)?);
        let is_same = now.pid == before.pid && now.host == before.host;
        let seconds = now.at.checked_sub(before.at).filter(|us| *us > 0 && is_same)? as f64 / 1e6;
        Some(Since { now, before, seconds })
    }
}

/// The part of a time that calls have waited.
pub fn share(waited: u64, of: u64) -> f64 {
    if of == 0 { 0.0 } else { (waited as f64 / of as f64).min(1.0) }
}

impl Since<'_> {
    fn rate(&self, now: Flow, before: Flow) -> Rate {
        let each = |now: u64, before: u64| now.saturating_sub(before) as f64 / self.seconds;
        Rate { messages: each(now.messages, before.messages), bytes: each(now.bytes, before.bytes) }
    }

    /// From this process, and to it.
    pub fn of(&self, pair: &Pair) -> [Rate; 2] {
        let same = |one: &&Pair| (one.incarnation, one.rank) == (pair.incarnation, pair.rank);
        let before = self.before.pairs.iter().find(same).cloned().unwrap_or_default();
        [self.rate(pair.sent, before.sent), self.rate(pair.received, before.received)]
    }

    /// The part of the time that calls have waited: for this pair, or in all.
    pub fn waited(&self, pair: Option<&Pair>) -> f64 {
        let at = self.now.at - self.before.at;
        let Some(pair) = pair else { return share(self.now.waited.saturating_sub(self.before.waited), at) };
        let same = |one: &&Pair| (one.incarnation, one.rank) == (pair.incarnation, pair.rank);
        let before = self.before.pairs.iter().find(same).map_or(0, |pair| pair.waited);
        share(pair.waited.saturating_sub(before), at)
    }
}

/// `1.2 MiB`, in four characters and a unit.
pub fn bytes(n: f64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let mut at = 0;
    let mut n = n;
    while n >= 1000.0 && at + 1 < units.len() {
        (n, at) = (n / 1024.0, at + 1);
    }
    if at == 0 { format!("{n:.0} B") } else { format!("{} {}", short(n), units[at]) }
}

/// `1.2 k`, for counts.
pub fn count(n: f64) -> String {
    let units = ["", "k", "M", "G", "T", "P", "E"];
    let mut at = 0;
    let mut n = n;
    while n >= 1000.0 && at + 1 < units.len() {
        (n, at) = (n / 1000.0, at + 1);
    }
    if at == 0 { format!("{n:.0}") } else { format!("{}{}", short(n), units[at]) }
}

fn short(n: f64) -> String {
    if n < 9.95 { format!("{n:.1}") } else { format!("{n:.0}") }
}

/// `90 µs`, `1.2 ms`, `3.0 s`, `5 min`.
pub fn time(us: u64) -> String {
    match Duration::from_micros(us) {
        t if us < 1000 => format!("{} µs", t.as_micros()),
        t if us < 1_000_000 => format!("{} ms", short(t.as_secs_f64() * 1e3)),
        t if us < 100_000_000 => format!("{} s", short(t.as_secs_f64())),
        t => format!("{} min", t.as_secs() / 60),
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use wire::control::{Carried, Job, Wait};

    fn flow(messages: u64, bytes: u64) -> Flow {
        Flow { messages, bytes }
    }

    /// A process of air, which is coupled with ocean; `seconds` after its begin.
    pub fn report(seconds: u64) -> Report {
        let pair = |rank, transport: &str, why: &str| Pair {
            incarnation: 5,
            rank,
            unexpected: rank,
            posted: 1,
            from_any: 0,
            round_trip: (transport == "tcp").then_some(90),
            waited: seconds * 250_000,
            sent: flow(1000 * seconds, seconds << 20),
            received: flow(10 * seconds, 80 * seconds),
            transport: transport.into(),
            why: why.into(),
        };
        Report {
            pid: 42,
            host: "node1".into(),
            at: seconds * 1_000_000,
            waited: seconds * 500_000,
            hold: wire::control::Holding::No,
            waits: vec![Wait {
                since: 3_200_000,
                call: "MPI_Recv".into(),
                what: "for a message from rank 1 of 'ocean' with tag 7".into(),
                peers: vec![(5, 1)],
            }],
            jobs: vec![Job {
                incarnation: 5,
                waited: seconds * 250_000,
                name: "ocean".into(),
                carried: vec![Carried { transport: "shm".into(), pairs: 1, sent: flow(1, 2), received: flow(3, 4) }],
            }],
            pairs: vec![pair(0, "shm", ""), pair(1, "tcp", "no shared memory: other host")],
            left_off: 0,
        }
    }

    /// Two processes, of which one does not answer.
    pub fn sample(seconds: u64) -> Sample {
        let outcome = |rank, what| Outcome { rank, what };
        let all = vec![
            outcome(0, What::Report(Box::new(report(seconds)))),
            outcome(1, What::NotAnswering),
            outcome(2, What::Dead("nobody listens at its address".into())),
        ];
        Sample::new("air", all)
    }

    #[test]
    fn rates_are_of_two_samples_of_the_same_process() {
        let (first, second) = (sample(10), sample(12));
        assert!(second.since(None, 0).is_none() && second.since(Some(&first), 1).is_none());
        let since = second.since(Some(&first), 0).unwrap();
        let pair = &second.reports().next().unwrap().1.pairs[1];
        let [sent, received] = since.of(pair);
        assert_eq!(
            (sent, received),
            (Rate { messages: 1000.0, bytes: 1048576.0 }, Rate { messages: 10.0, bytes: 80.0 })
        );
        assert_eq!((since.waited(Some(pair)), since.waited(None)), (0.25, 0.5));
        assert!(first.since(Some(&second), 0).is_none(), "time goes on");
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!([0.0, 999.0, 1000.0, 1536.0, 1e7].map(bytes), ["0 B", "999 B", "1.0 KiB", "1.5 KiB", "9.5 MiB"]);
        assert_eq!([7.0, 999.0, 1000.0, 12_345.0].map(count), ["7", "999", "1.0k", "12k"]);
        assert_eq!([90, 1200, 3_200_000, 500_000_000].map(time), ["90 µs", "1.2 ms", "3.2 s", "8 min"]);
        assert_eq!((share(1, 0), share(3, 2)), (0.0, 1.0));
    }
}
