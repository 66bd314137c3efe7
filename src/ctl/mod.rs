//! `mpi-connect ctl`: an operator's commands to a running job, and what became of them.
//!
//! `client` finds the job and speaks with its leader; `figures` makes rates of two samples; `lanes` shows them as a table or as
//! JSON; `top` is the screen, and `columns` what fits on it; `ending` tells how a job that is watched has ended; `words` says what
//! became of a command. Invariant: a command that changes something has one number, however often it has to be sent.

mod client;
mod columns;
mod ending;
mod figures;
mod lanes;
pub mod top;
mod words;

use crate::output;
use crate::shown::printable;
use clap::Subcommand;
pub use client::{Client, CtlError, Job, seconds};
use ending::Ending;
use figures::Sample;
use serde_json::json;
use std::time::Duration;
use transports::registry::ALL;
use wire::control::{Command, Outcome, What};
use words::{ranks_in_words, together, word};

#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    job: Job,
    /// Write JSON; with --watch, one object on each line
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    what: Told,
}

#[derive(Subcommand)]
enum Told {
    /// Show each pair of processes: its transport and why, what it carries, and who waits for whom
    Lanes {
        /// Go on, with rates, until interrupted, or until the job ends
        #[arg(long)]
        watch: bool,
        /// The time between two looks, with --watch
        #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = seconds, requires = "watch")]
        every: f64,
    },
    /// Move pairs to another transport, while messages flow
    Switch {
        /// One of those of MPI_CONNECT_LANES, or best: the library chooses again
        #[arg(value_parser = transport_or_best)]
        transport: String,
        /// Only pairs with this other job
        #[arg(long, value_name = "NAME")]
        peer: Option<String>,
        /// Only pairs of this rank of the job
        #[arg(long, value_name = "N", allow_negative_numbers = true)]
        rank: Option<i64>,
        /// Only pairs with this rank of the other job
        #[arg(long, value_name = "N", requires = "peer", allow_negative_numbers = true)]
        peer_rank: Option<i64>,
    },
    /// Close all connections to other jobs; sends and receives wait
    Hold,
    /// Connect again, after hold
    Resume,
    /// Wait no longer for another job that is held: its processes that are gone count as dead
    GiveUp {
        /// The name of the other job
        peer: String,
    },
    /// Leave a transport, and unload it
    StopUsing {
        #[arg(value_parser = transport)]
        transport: String,
    },
    /// Use a transport again, or one that has come since the job began
    Use {
        #[arg(value_parser = transport)]
        transport: String,
    },
}

impl Told {
    /// The command to the job.
    fn command(&self, client: &Client) -> Result<Command, CtlError> {
        Ok(match self {
            Told::Lanes { .. } => Command::Lanes,
            Told::Switch { transport, peer, rank, peer_rank } => Command::Switch {
                transport: transport.clone(),
                peer: peer.clone(),
                rank: rank.map(|rank| client.rank(rank)).transpose()?,
                peer_rank: match (peer, peer_rank) {
                    (Some(peer), Some(rank)) => Some(client.rank_of(peer, *rank)?),
                    _ => None,
                },
            },
            Told::Hold => Command::Hold,
            Told::Resume => Command::Resume,
            Told::GiveUp { peer } => Command::GiveUp(peer.clone()),
            Told::StopUsing { transport } => Command::StopUsing(transport.clone()),
            Told::Use { transport } => Command::Use(transport.clone()),
        })
    }
}

fn transport(text: &str) -> Result<String, String> {
    let words: Vec<_> = ALL.iter().map(|about| about.word).collect();
    let is_one = words.contains(&text);
    is_one.then(|| text.to_owned()).ok_or_else(|| format!("one of {} is expected", words.join(", ")))
}

fn transport_or_best(text: &str) -> Result<String, String> {
    if text == "best" { Ok(text.into()) } else { transport(text).map_err(|e| e.replace("one of ", "one of best, ")) }
}

/// What has become of a command in all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Each process has done it.
    All,
    /// Some have, and others have not answered, have died, or have refused.
    Some,
    /// None has, or none had anything to do.
    None,
}

impl Verdict {
    fn of(outcomes: &[Outcome]) -> Verdict {
        let done = outcomes.iter().filter(|o| matches!(o.what, What::Done(_) | What::Report(_))).count();
        // A process that has left, or without such a pair, has nothing to do; if none has one, the pairs were not those that were
        // meant.
        let idle = outcomes.iter().filter(|o| matches!(o.what, What::NoPair(_) | What::Left(_))).count();
        match done {
            0 => Verdict::None,
            n if n + idle == outcomes.len() => Verdict::All,
            _ => Verdict::Some,
        }
    }

    pub fn exit_code(self) -> u8 {
        match self {
            Verdict::All => 0,
            Verdict::None => 1,
            Verdict::Some => 3,
        }
    }
}

/// A wrong command line, for scripts, if these arguments are of `ctl` and ask for JSON.
pub fn refuse(mut args: impl Iterator<Item = String>, e: &clap::Error) {
    let is_asked = args.next().is_some_and(|word| word == "ctl") && args.any(|word| word == "--json");
    if is_asked && e.use_stderr() {
        let text = e.to_string();
        let mut lines = text.lines();
        let first = lines.next().unwrap_or_default().trim_start_matches("error: ");
        let tip = lines.find_map(|line| line.trim().strip_prefix("tip: "));
        let why = tip.map_or(first.into(), |tip| format!("{first}: {tip}"));
        output::write(&format!("{}\n", json!({ "error": why })));
    }
}

pub fn ctl(args: &Args) -> Result<Verdict, CtlError> {
    let done = give(args);
    if let (Err(e), true) = (&done, args.json) {
        output::write(&format!("{}\n", json!({ "error": e.to_string() })));
    }
    done
}

fn give(args: &Args) -> Result<Verdict, CtlError> {
    if let Told::Lanes { watch: true, every } = args.what {
        return watch(args, Duration::from_secs_f64(every));
    }
    let client = Client::new(&args.job)?;
    match &args.what {
        Told::Lanes { .. } => {
            let sample = client.lanes()?;
            let text = match args.json {
                true => format!("{:#}\n", lanes::json(&sample, None)),
                false => lanes::table(&sample, None),
            };
            output::write(&text);
            Ok(Verdict::of(&sample.outcomes))
        }
        told => {
            let (repeated, outcomes) = client.give(told.command(&client)?)?;
            let verdict = Verdict::of(&outcomes);
            let text = if args.json { as_json(client.name(), repeated, &outcomes) } else { said(&outcomes) };
            output::write(&text);
            Ok(verdict)
        }
    }
}

/// Shows look after look, until nobody reads them or the job ends.
fn watch(args: &Args, every: Duration) -> Result<Verdict, CtlError> {
    let store = args.job.store()?;
    let mut ending = Ending::new(store.as_ref()).map_err(CtlError::Store)?;
    let client = Client::new(&args.job)?;
    let mut before: Option<Sample> = None;
    loop {
        let sample = match client.lanes() {
            Err(e) if before.is_some() && e.is_end() && ending.is_regular(client.record()) => {
                output::say(format_args!("'{}' has ended", client.name()));
                return Ok(Verdict::All);
            }
            sample => sample?,
        };
        let text = match args.json {
            true => format!("{}\n", lanes::json(&sample, before.as_ref())),
            false => lanes::table(&sample, before.as_ref()) + "\n",
        };
        if !output::write(&text) {
            return Ok(Verdict::of(&sample.outcomes));
        }
        before = Some(sample);
        std::thread::sleep(every);
        ending.look();
    }
}

/// The outcomes for people: equal ones together.
fn said(outcomes: &[Outcome]) -> String {
    let all = outcomes.iter().map(|outcome| (outcome.rank, &outcome.what));
    let line = |((word, why), ranks): &words::Kind<'_>| {
        let why = if why.is_empty() { String::new() } else { format!(": {}", printable(why)) };
        let later = match (*word, ranks.len()) {
            ("not answering", 1) => " (it is done there when it goes on)",
            ("not answering", _) => " (it is done there when they go on)",
            _ => "",
        };
        format!("{}: {word}{later}{why}\n", ranks_in_words(ranks))
    };
    together(all).iter().map(line).collect()
}

fn as_json(name: &str, repeated: bool, outcomes: &[Outcome]) -> String {
    let one = |outcome: &Outcome| {
        let (word, why) = word(&outcome.what);
        json!({ "rank": outcome.rank, "outcome": word, "why": why })
    };
    let all: Vec<_> = outcomes.iter().map(one).collect();
    format!("{:#}\n", json!({ "job": name, "repeated": repeated, "processes": all }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(rank: u32, what: What) -> Outcome {
        Outcome { rank, what }
    }

    #[test]
    fn equal_outcomes_are_told_together() {
        let all = [
            outcome(0, What::Done(String::new())),
            outcome(1, What::Done(String::new())),
            outcome(2, What::NotAnswering),
            outcome(3, What::Done(String::new())),
            outcome(4, What::Refused("no\u{1b}device".into())),
        ];
        assert_eq!(
            said(&all),
            "ranks 0-1, 3: done\nrank 2: not answering (it is done there when it goes on)\nrank 4: refused: no?device\n"
        );
        let silent = [2, 4].map(|rank| outcome(rank, What::NotAnswering));
        assert_eq!(said(&silent), "ranks 2, 4: not answering (it is done there when they go on)\n");
        assert_eq!(
            (Verdict::of(&all), Verdict::of(&all[..2]), Verdict::of(&all[2..3])),
            (Verdict::Some, Verdict::All, Verdict::None)
        );
        let none = [0, 1].map(|rank| outcome(rank, What::NoPair(String::new())));
        assert_eq!(Verdict::of(&none), Verdict::None, "another name was meant");
        let left = outcome(2, What::Left("it has called MPI_Finalize".into()));
        assert_eq!(Verdict::of(&[all[0].clone(), none[1].clone(), left]), Verdict::All);
        assert_eq!([Verdict::All, Verdict::None, Verdict::Some].map(Verdict::exit_code), [0, 1, 3]);
        let json: serde_json::Value = serde_json::from_str(&as_json("air", true, &all)).unwrap();
        assert_eq!((&json["processes"][2]["outcome"], &json["repeated"]), (&"not answering".into(), &true.into()));
    }

    #[test]
    fn transports_and_times_are_checked() {
        assert_eq!(transport("tcp").as_deref(), Ok("tcp"));
        assert!(transport("ethernet").unwrap_err().contains("shm, verbs, router, tcp"));
        assert!(seconds("0").is_err() && seconds("x").is_err() && seconds("0.5") == Ok(0.5));
    }
}
