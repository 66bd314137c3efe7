//! What a run has brought, as a table and as a page: every number is counted, none is written by hand.

use super::act::Counts;
use super::kind::Kind;
use super::{Outcome, Run, Settings};
use crate::{MPIS, ports};
use std::collections::BTreeMap;
use std::time::Duration;

fn counts(run: &Run) -> Counts {
    run.reports.iter().fold(Counts::default(), |mut sum, report| {
        sum.add(&report.counts);
        sum
    })
}

fn seconds(time: Duration) -> String {
    format!("{:.2}", time.as_secs_f64())
}

const HEAD: [&str; 11] = [
    "fault",
    "faults",
    "longest, s",
    "until then: median, s",
    "95 %, s",
    "longest, s",
    "told errors",
    "lost",
    "doubled",
    "out of order",
    "hangs",
];

fn row(title: &str, outcomes: &[&Outcome]) -> Vec<String> {
    let mut times: Vec<Duration> = outcomes.iter().filter_map(|outcome| outcome.went_on).collect();
    times.sort();
    let at = |share: usize| times.get((times.len().saturating_sub(1)) * share / 100).copied().unwrap_or_default();
    let longest = outcomes.iter().map(|outcome| outcome.length).max().unwrap_or_default();
    let length = if longest.is_zero() { "at once".into() } else { format!("{:.1}", longest.as_secs_f64()) };
    let sum = |of: fn(&Counts) -> u64| outcomes.iter().map(|outcome| of(&outcome.counts)).sum::<u64>().to_string();
    vec![
        title.into(),
        outcomes.len().to_string(),
        length,
        seconds(at(50)),
        seconds(at(95)),
        seconds(at(100)),
        sum(|counts| counts.told),
        sum(|counts| counts.lost + counts.damaged),
        sum(|counts| counts.doubled),
        sum(|counts| counts.disorder),
        (outcomes.len() - times.len()).to_string(),
    ]
}

/// A row for each kind of fault, with a head and a sum.
pub fn table(run: &Run) -> Vec<Vec<String>> {
    let all: Vec<&Outcome> = run.reports.iter().flat_map(|report| &report.outcomes).collect();
    let mut rows = vec![HEAD.map(String::from).to_vec()];
    for kind in Kind::ALL {
        let of_kind: Vec<_> = all.iter().copied().filter(|outcome| outcome.kind == kind).collect();
        rows.push(row(kind.title(), &of_kind));
    }
    rows.push(row("together", &all));
    rows
}

/// The lines below the table.
pub fn sums(run: &Run) -> Vec<String> {
    let counts = counts(run);
    let gib = counts.bytes as f64 / (1u64 << 30) as f64;
    vec![
        format!("messages received: {}, {gib:.1} GiB, in {} rounds of the ranks", counts.messages, counts.rounds),
        format!("times that a rank joined the other job: {}", counts.joins),
        format!("lost: {}", counts.lost),
        format!("doubled: {}", counts.doubled),
        format!("out of order: {}", counts.disorder),
        format!("damaged: {}", counts.damaged),
        format!("errors of a kind that is not documented: {}", counts.strange),
        format!("acts that failed, or hung: {} of {}", run.failures.len(), run.acts),
    ]
}

fn markdown(rows: &[Vec<String>]) -> String {
    let line = |row: &Vec<String>| format!("| {} |\n", row.join(" | "));
    let (head, rest) = rows.split_first().expect("a table has a head");
    let rule = format!("|---|{}\n", "--:|".repeat(head.len() - 1));
    line(head) + &rule + &rest.iter().map(line).collect::<String>()
}

/// What calls were told, the most frequent first.
fn told(run: &Run) -> String {
    let mut all: BTreeMap<&str, u64> = BTreeMap::new();
    for (text, count) in run.reports.iter().flat_map(|report| &report.told) {
        *all.entry(text).or_default() += count;
    }
    let mut all: Vec<_> = all.into_iter().collect();
    all.sort_by_key(|(text, count)| (std::cmp::Reverse(*count), *text));
    if all.is_empty() {
        return "Nothing.".into();
    }
    let line = |(text, count): &(&str, u64)| format!("- {count} times: `{}`", text.replace('`', "'"));
    all.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// The MPIs that may be drawn, as they call themselves.
pub fn versions() -> String {
    MPIS.iter().filter(|mpi| mpi.name != "lam").map(|mpi| ports::version(mpi)).collect::<Vec<_>>().join(", ")
}

/// The page, as this run has it.
pub fn page(run: &Run, settings: &Settings, machine: &str, versions: &str) -> String {
    // The first line tells which and why; the rest is for the screen.
    let first = |why: &String| why.lines().next().unwrap_or_default().chars().take(300).collect::<String>();
    let failures = match run.failures.as_slice() {
        [] => String::new(),
        some => format!("\n\n**What failed:**\n\n    {}\n", some.iter().map(first).collect::<Vec<_>>().join("\n    ")),
    };
    let sums: String = sums(run).iter().map(|line| format!("- {line}\n")).collect();
    include_str!("page.md")
        .replace("{{table}}", markdown(&table(run)).trim_end())
        .replace("{{sums}}", &(sums.trim_end().to_owned() + &failures))
        .replace("{{told}}", &told(run))
        .replace("{{faults}}", &settings.faults.to_string())
        .replace("{{seed}}", &settings.seed.to_string())
        .replace("{{acts}}", &run.acts.to_string())
        .replace("{{at_once}}", &settings.at_once.to_string())
        .replace("{{minutes}}", &format!("{:.0}", run.took.as_secs_f64() / 60.0))
        .replace("{{machine}}", machine)
        .replace("{{versions}}", versions)
}
