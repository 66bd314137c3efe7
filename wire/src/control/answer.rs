//! What became of a command: see [`super`].

use super::{Report, flag, list, put_list, put_text, text, whole};
use base::bytes::{Malformed, Put, Take};
use base::protocol::operator::{self as numbers, MAX_ANSWER, MAX_WORDS};

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// What became of the command at each process.
    Outcomes {
        /// It had been given before, and this is what became of it then.
        repeated: bool,
        /// By rank.
        outcomes: Vec<Outcome>,
    },
    /// The process leads no job of that name, or is not the process that was addressed.
    NoSuchJob,
    /// Another command that changes something is under way.
    Busy,
    /// The request cannot be read.
    Malformed,
}

/// What became of a command at one process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Its rank in the group.
    pub rank: u32,
    /// What became of the command.
    pub what: What,
}

/// What became of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// It is done; the text says how, or is empty.
    Done(String),
    /// The figures.
    Report(Box<Report>),
    /// It is not done, for this reason.
    Refused(String),
    /// The process has not answered in time.
    NotAnswering,
    /// There is no such process any more, for this reason.
    Dead(String),
    /// It has left the job as it should, in this way.
    Left(String),
    /// A later command came first.
    Overtaken,
    /// It has begun, and goes on; the text says what it waits for, or is empty.
    UnderWay(String),
    /// The process has no pair of those that were meant; the text says which it has, or is empty.
    NoPair(String),
}

impl Answer {
    /// The body of the answer. If it is too long, the lists of pairs are left off, the longest first.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Answer::Outcomes { repeated, outcomes } => {
                out.put_u8(numbers::OUTCOMES);
                out.put_u8((*repeated).into());
                put_list(&mut out, outcomes, usize::MAX, |out, outcome| outcome.encode(out));
                if out.len() > MAX_ANSWER {
                    return self.shorter().encode();
                }
            }
            Answer::NoSuchJob => out.put_u8(numbers::NO_SUCH_JOB),
            Answer::Busy => out.put_u8(numbers::BUSY),
            Answer::Malformed => out.put_u8(numbers::MALFORMED),
        }
        out
    }

    /// With half of the pairs in each report or, where no report has any, with half of the jobs and no texts.
    fn shorter(&self) -> Answer {
        let Answer::Outcomes { repeated, outcomes } = self else { return self.clone() };
        let mut outcomes = outcomes.clone();
        let mut reports: Vec<&mut Report> = outcomes
            .iter_mut()
            .filter_map(|outcome| match &mut outcome.what {
                What::Report(report) => Some(&mut **report),
                _ => None,
            })
            .collect();
        let have_pairs = reports.iter().any(|report| !report.pairs.is_empty());
        for report in &mut reports {
            let most = report.pairs.len() / 2;
            report.left_off += (report.pairs.len() - most) as u32;
            report.pairs.truncate(most);
            if !have_pairs {
                report.waits.clear();
                report.jobs.truncate(report.jobs.len() / 2);
            }
        }
        if !have_pairs && reports.iter().all(|report| report.jobs.is_empty()) {
            // No job has so many processes; an answer has room for a million.
            outcomes.truncate(outcomes.len() / 2);
        }
        Answer::Outcomes { repeated: *repeated, outcomes }
    }

    /// The answer of this body.
    pub fn decode(body: &[u8]) -> Result<Answer, Malformed> {
        whole(body, |from| {
            Ok(match from.u8()? {
                numbers::OUTCOMES => {
                    Answer::Outcomes { repeated: flag(from)?, outcomes: list(from, MAX_ANSWER, Outcome::decode)? }
                }
                numbers::NO_SUCH_JOB => Answer::NoSuchJob,
                numbers::BUSY => Answer::Busy,
                numbers::MALFORMED => Answer::Malformed,
                _ => return Err(Malformed),
            })
        })
    }
}

/// What has become of it, as a number, and the words that are told of it.
fn put_words(out: &mut Vec<u8>, number: u8, words: &str) {
    out.put_u8(number);
    put_text(out, words, MAX_WORDS);
}

impl Outcome {
    fn encode(&self, out: &mut Vec<u8>) {
        out.put_u32(self.rank);
        match &self.what {
            What::Done(how) => put_words(out, numbers::DONE, how),
            What::Report(report) => {
                out.put_u8(numbers::REPORT);
                report.encode(out);
            }
            What::Refused(why) => put_words(out, numbers::REFUSED, why),
            What::NotAnswering => out.put_u8(numbers::NOT_ANSWERING),
            What::Dead(why) => put_words(out, numbers::DEAD, why),
            What::Left(how) => put_words(out, numbers::LEFT_JOB, how),
            What::Overtaken => out.put_u8(numbers::OVERTAKEN),
            What::UnderWay(how) => put_words(out, numbers::UNDER_WAY, how),
            What::NoPair(which) => put_words(out, numbers::NO_PAIR, which),
        }
    }

    fn decode(from: &mut Take<'_>) -> Result<Outcome, Malformed> {
        let rank = from.u32()?;
        let what = match from.u8()? {
            numbers::DONE => What::Done(text(from, MAX_WORDS)?),
            numbers::REPORT => What::Report(Box::new(Report::decode(from)?)),
            numbers::REFUSED => What::Refused(text(from, MAX_WORDS)?),
            numbers::NOT_ANSWERING => What::NotAnswering,
            numbers::DEAD => What::Dead(text(from, MAX_WORDS)?),
            numbers::LEFT_JOB => What::Left(text(from, MAX_WORDS)?),
            numbers::OVERTAKEN => What::Overtaken,
            numbers::UNDER_WAY => What::UnderWay(text(from, MAX_WORDS)?),
            numbers::NO_PAIR => What::NoPair(text(from, MAX_WORDS)?),
            _ => return Err(Malformed),
        };
        Ok(Outcome { rank, what })
    }
}
