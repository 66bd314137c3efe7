//! What a server counts, for whoever watches many of them. It writes, and any thread may read.
//!
//! Invariant: counting waits for nothing; without a reader nothing is counted.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Numbers of a server, all from its start on.
#[derive(Debug, Default)]
pub struct Metrics {
    pub(super) claims: AtomicU64,
    pub(super) renewals: AtomicU64,
    pub(super) releases: AtomicU64,
    pub(super) over: AtomicU64,
    pub(super) refusals: AtomicU64,
    pub(super) connections: AtomicU64,
    pub(super) watchers: AtomicU64,
    /// By kind of record: jobs, ports, halves of couplings.
    pub(super) names: [AtomicU64; 3],
    commits: AtomicU64,
    commit_nanoseconds: AtomicU64,
    pub(super) failures: AtomicU64,
}

/// One more.
pub(super) fn count(number: &AtomicU64) {
    number.fetch_add(1, Ordering::Relaxed);
}

impl Metrics {
    /// A write to the ledger took so long.
    pub(super) fn committed(&self, took: Duration) {
        count(&self.commits);
        self.commit_nanoseconds.fetch_add(took.as_nanos() as u64, Ordering::Relaxed);
    }

    /// All of it, in the text form of Prometheus.
    pub fn text(&self) -> String {
        let mut out = String::new();
        let get = |number: &AtomicU64| number.load(Ordering::Relaxed);
        let mut head = |name: &str, kind: &str, help: &str, rows: &[(&str, String)]| {
            let _ = writeln!(out, "# HELP mpi_connect_{name} {help}\n# TYPE mpi_connect_{name} {kind}");
            for (label, value) in rows {
                let _ = writeln!(out, "mpi_connect_{name}{label} {value}");
            }
        };
        for (name, number, help) in [
            ("claims_total", &self.claims, "Names that were claimed."),
            ("renewals_total", &self.renewals, "Claims that were renewed."),
            ("releases_total", &self.releases, "Names that were given back."),
            ("leases_over_total", &self.over, "Names whose lease ended without a renewal."),
            ("refusals_total", &self.refusals, "Claims, renewals and releases that were refused."),
            ("commit_failures_total", &self.failures, "Writes to the store that failed."),
        ] {
            head(name, "counter", help, &[("", get(number).to_string())]);
        }
        for (name, number, help) in [
            ("connections", &self.connections, "Clients that are connected."),
            ("watchers", &self.watchers, "Clients that have asked for changes."),
        ] {
            head(name, "gauge", help, &[("", get(number).to_string())]);
        }
        let kinds = ["{kind=\"job\"}", "{kind=\"port\"}", "{kind=\"coupling\"}"];
        let names: Vec<_> = kinds.into_iter().zip(self.names.iter().map(|n| get(n).to_string())).collect();
        head("names", "gauge", "Names that are held, by kind.", &names);
        let seconds = Duration::from_nanos(get(&self.commit_nanoseconds)).as_secs_f64().to_string();
        let rows = [("_sum", seconds), ("_count", get(&self.commits).to_string())];
        head("commit_seconds", "summary", "Writes to the store.", &rows);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_has_a_head_and_a_value_for_each() {
        let metrics = Metrics::default();
        count(&metrics.claims);
        metrics.names[1].store(7, Ordering::Relaxed);
        metrics.committed(Duration::from_millis(1500));
        let text = metrics.text();
        let expected = "\
            # HELP mpi_connect_names Names that are held, by kind.\n\
            # TYPE mpi_connect_names gauge\n\
            mpi_connect_names{kind=\"job\"} 0\n\
            mpi_connect_names{kind=\"port\"} 7\n\
            mpi_connect_names{kind=\"coupling\"} 0\n\
            # HELP mpi_connect_commit_seconds Writes to the store.\n\
            # TYPE mpi_connect_commit_seconds summary\n\
            mpi_connect_commit_seconds_sum 1.5\n\
            mpi_connect_commit_seconds_count 1\n";
        assert!(text.ends_with(expected), "{text}");
        assert!(text.contains("\n# TYPE mpi_connect_claims_total counter\nmpi_connect_claims_total 1\n"), "{text}");
        let heads = text.lines().filter(|line| line.starts_with("# TYPE")).count();
        assert_eq!((heads, text.lines().count()), (10, 33), "{text}");
    }
}
