//! `mpi-connect ctl NAME lanes`: the figures as a table and as JSON.

use super::figures::{Rate, Sample, bytes, count, share, time};
use super::words::{Kind, brief, ranks_in_words, together, word};
use crate::names::columns;
use crate::shown::printable;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use wire::control::{Flow, Holding, Pair, Report, Wait};

/// `42 1.2 MiB`, or in a second.
fn flow(all: Flow, rate: Option<Rate>) -> String {
    match rate {
        Some(rate) => format!("{}/s {}/s", count(rate.messages), bytes(rate.bytes)),
        None => format!("{} {}", count(all.messages as f64), bytes(all.bytes as f64)),
    }
}

/// A rank of another job, in words.
fn peer(names: &BTreeMap<u64, String>, (incarnation, rank): (u64, u32)) -> String {
    format!("{} {rank}", names.get(&incarnation).map_or("?".into(), |name| printable(name)))
}

/// Receives that wait for this peer; `+n`: from anyone.
pub fn posted(pair: &Pair) -> String {
    if pair.from_any > 0 { format!("{}+{}", pair.posted, pair.from_any) } else { pair.posted.to_string() }
}

/// What a call waits for, in a sentence.
pub fn waits(rank: u32, wait: &Wait) -> String {
    format!("rank {rank} waits in {} for {}: {}", printable(&wait.call), time(wait.since), printable(&wait.what))
}

/// What is told of the processes that are held and of those that have not reported, with equal ones together.
pub fn notes(sample: &Sample) -> Vec<String> {
    let line = |((word, why), ranks): &Kind<'_>| {
        let hint = if *word == "not answering" { " (stopped, or its host is not reachable)" } else { "" };
        let why = if why.is_empty() { String::new() } else { format!(": {}", printable(why)) };
        format!("{} of '{}': {word}{hint}{why}", ranks_in_words(ranks), printable(&sample.job))
    };
    let told = [
        (Holding::Closing, "is being held: connections are still open, or its function for a hold runs"),
        (Holding::Held, "held, until it has come back"),
    ];
    let held = told.into_iter().filter_map(|(hold, what)| {
        let ranks: Vec<u32> = sample.reports().filter(|(_, one)| one.hold == hold).map(|(rank, _)| rank).collect();
        (!ranks.is_empty()).then(|| format!("{} of '{}': {what}", ranks_in_words(&ranks), printable(&sample.job)))
    });
    held.chain(together(sample.others()).iter().map(line)).collect()
}

/// For people. With a sample before, what goes in a second instead of what has gone in all.
pub fn table(sample: &Sample, before: Option<&Sample>) -> String {
    let names = sample.names();
    let head = ["RANK", "PEER", "OVER", "SENT", "RECEIVED", "UNEXPECTED", "POSTED", "ROUND TRIP", "WAITED", "WHY"];
    let mut rows = vec![head.map(String::from)];
    for (rank, report) in sample.reports() {
        let since = sample.since(before, rank);
        for pair in &report.pairs {
            let rates = since.as_ref().map(|since| since.of(pair));
            let waited = since.as_ref().map_or_else(|| share(pair.waited, report.at), |since| since.waited(Some(pair)));
            rows.push([
                rank.to_string(),
                peer(&names, (pair.incarnation, pair.rank)),
                if pair.transport.is_empty() { "-".into() } else { printable(&pair.transport) },
                flow(pair.sent, rates.map(|[sent, _]| sent)),
                flow(pair.received, rates.map(|[_, received]| received)),
                pair.unexpected.to_string(),
                posted(pair),
                pair.round_trip.map_or("-".into(), |us| time(us.into())),
                format!("{:.0} %", 100.0 * waited),
                brief(&pair.why),
            ]);
        }
    }
    let mut out = match rows.len() {
        1 => format!("'{}' has no connection to another job\n", printable(&sample.job)),
        _ => columns(&rows),
    };
    for (rank, report) in sample.reports() {
        report.waits.iter().for_each(|wait| out += &format!("{}\n", waits(rank, wait)));
        if report.left_off > 0 {
            out += &format!("rank {rank}: {} more pairs, with less traffic, are left off\n", report.left_off);
        }
    }
    notes(sample).iter().for_each(|line| out += &format!("{line}\n"));
    out
}

/// For scripts: one object. Times are in microseconds.
pub fn json(sample: &Sample, before: Option<&Sample>) -> Value {
    let names = sample.names();
    let mut processes: Vec<Value> =
        sample.reports().map(|(rank, report)| process(sample, before, &names, rank, report)).collect();
    for (rank, what) in sample.others() {
        let (state, why) = word(what);
        processes.push(json!({ "rank": rank, "state": state, "why": why }));
    }
    processes.sort_by_key(|process| process["rank"].as_u64());
    json!({ "job": sample.job, "processes": processes })
}

fn process(
    sample: &Sample,
    before: Option<&Sample>,
    names: &BTreeMap<u64, String>,
    rank: u32,
    report: &Report,
) -> Value {
    let since = sample.since(before, rank);
    let flow = |flow: Flow| json!({ "messages": flow.messages, "bytes": flow.bytes });
    let rate = |rate: Rate| json!({ "messages": rate.messages, "bytes": rate.bytes });
    let name = |incarnation: u64| names.get(&incarnation).cloned().unwrap_or_default();
    let pairs = report.pairs.iter().map(|pair| {
        let mut one = json!({
            "job": name(pair.incarnation),
            "rank": pair.rank,
            "transport": pair.transport,
            "why": pair.why,
            "sent": flow(pair.sent),
            "received": flow(pair.received),
            "unexpected": pair.unexpected,
            "posted": pair.posted,
            "posted_from_any": pair.from_any,
            "round_trip": pair.round_trip,
            "waited": pair.waited,
        });
        if let Some(since) = &since {
            let [sent, received] = since.of(pair);
            one["rate"] = json!({ "sent": rate(sent), "received": rate(received), "waited": since.waited(Some(pair)) });
        }
        one
    });
    let waits = report.waits.iter().map(|wait| {
        let of = wait.peers.iter().map(|(incarnation, rank)| json!({ "job": name(*incarnation), "rank": rank }));
        json!({ "call": wait.call, "since": wait.since, "what": wait.what, "for": of.collect::<Vec<_>>() })
    });
    let jobs = report.jobs.iter().map(|job| {
        let carried = job.carried.iter().map(|carried| {
            json!({
                "transport": carried.transport,
                "pairs": carried.pairs,
                "sent": flow(carried.sent),
                "received": flow(carried.received),
            })
        });
        json!({ "job": name(job.incarnation), "waited": job.waited, "carried": carried.collect::<Vec<_>>() })
    });
    let mut one = json!({
        "rank": rank,
        "state": match report.hold {
            Holding::No => "running",
            Holding::Closing => "closing",
            Holding::Held => "held",
        },
        "host": report.host,
        "pid": report.pid,
        "age": report.at,
        "waited": report.waited,
        "waits": waits.collect::<Vec<_>>(),
        "jobs": jobs.collect::<Vec<_>>(),
        "pairs": pairs.collect::<Vec<_>>(),
        "left_off": report.left_off,
    });
    if let Some(since) = &since {
        one["rate"] = json!({ "waited": since.waited(None) });
    }
    one
}

#[cfg(test)]
mod tests {
    use super::super::figures::tests::sample;
    use super::*;
    use wire::control::What;

    #[test]
    fn a_table_of_what_was_and_of_what_goes() {
        assert_eq!(
            table(&sample(10), None),
            "RANK  PEER     OVER  SENT        RECEIVED   UNEXPECTED  POSTED  ROUND TRIP  WAITED  WHY\n\
             0     ocean 0  shm   10k 10 MiB  100 800 B  0           1       -           25 %\n\
             0     ocean 1  tcp   10k 10 MiB  100 800 B  1           1       90 µs       25 %    no shared memory: other host\n\
             rank 0 waits in MPI_Recv for 3.2 s: for a message from rank 1 of 'ocean' with tag 7\n\
             rank 1 of 'air': not answering (stopped, or its host is not reachable)\n\
             rank 2 of 'air': dead: nobody listens at its address\n"
        );
        let text = table(&sample(12), Some(&sample(10)));
        assert!(text.contains("1.0k/s 1.0 MiB/s") && text.contains("10/s 80 B/s"), "{text}");
        assert_eq!(table(&Sample::new("air", Vec::new()), None), "'air' has no connection to another job\n");
    }

    #[test]
    fn json_has_every_figure_and_rates_if_there_are_any() {
        let all = json(&sample(10), None);
        assert_eq!(all["job"], "air");
        let pair = &all["processes"][0]["pairs"][1];
        assert_eq!(
            (&pair["job"], &pair["transport"], &pair["round_trip"]),
            (&"ocean".into(), &"tcp".into(), &90.into())
        );
        assert_eq!((&pair["sent"]["messages"], pair.get("rate")), (&10_000.into(), None));
        assert_eq!(all["processes"][0]["waits"][0]["for"][0], json!({ "job": "ocean", "rank": 1 }));
        assert_eq!(all["processes"][1], json!({ "rank": 1, "state": "not answering", "why": "" }));
        let later = json(&sample(12), Some(&sample(10)));
        assert_eq!(later["processes"][0]["pairs"][1]["rate"]["sent"]["messages"], 1000.0);
        assert_eq!(later["processes"][0]["rate"]["waited"], 0.5);
    }

    #[test]
    fn a_held_process_is_told_as_that() {
        let mut all = sample(10);
        if let What::Report(report) = &mut all.outcomes[0].what {
            report.hold = Holding::Held;
        }
        assert_eq!(json(&all, None)["processes"][0]["state"], "held");
        assert!(
            table(&all, None).contains("\nrank 0 of 'air': held, until it has come back\n"),
            "{}",
            table(&all, None)
        );
    }

    #[test]
    fn a_long_reason_makes_no_long_line_and_json_has_all_of_it() {
        let (mut all, long) = (sample(10), "tried in vain ".repeat(20));
        if let What::Report(report) = &mut all.outcomes[0].what {
            report.pairs[0].why = long.clone();
        }
        let text = table(&all, None);
        assert!(text.lines().all(|line| line.chars().count() < 160) && text.contains(" …\n"), "{text}");
        assert_eq!(json(&all, None)["processes"][0]["pairs"][0]["why"], long.as_str());
    }

    #[test]
    fn text_of_others_is_plain() {
        let mut all = sample(10);
        if let What::Report(report) = &mut all.outcomes[0].what {
            report.pairs[0].why = "\u{1b}[2J".into();
            report.jobs[0].name = "o\ncean".into();
        }
        assert!(table(&all, None).chars().all(|c| !c.is_control() || c == '\n'));
        assert!(table(&all, None).contains("o?cean"));
    }
}
