//! An operator's command, done by this process.

use crate::state::Core;
use crate::switching::{Moved, named};
use base::ProcId;
use session::{Became, Hold};
use std::collections::BTreeSet;
use wire::control::{Command, What};

/// A command that has begun here.
pub(crate) enum Begun {
    /// These pairs move.
    Moves(Moved),
    /// A transport is in use again, and these pairs move to it.
    Uses(Moved),
    /// The process gives up its connections. So many holds had been done before.
    Hold(u64),
    /// The process comes back.
    Resume,
    /// This transport is taken out of use, and these pairs leave it.
    StopUsing(String, Vec<(ProcId, ProcId)>),
}

impl Core {
    /// Begins a command for this process in a group. `Ok`: it is over. Otherwise [`Core::go_on`] says when it is.
    pub(crate) fn obey(&mut self, incarnation: u64, command: &Command) -> Result<What, Begun> {
        if command.changes() {
            base::log!(Info, "an operator's command: {}", describe(command));
        }
        match command {
            Command::Lanes => Ok(What::Report(Box::new(self.report(incarnation)))),
            Command::Switch { transport, peer, rank, peer_rank } => {
                let is_meant = |local: ProcId, remote: ProcId| {
                    local.incarnation == incarnation
                        && rank.is_none_or(|rank| rank == local.rank)
                        && peer_rank.is_none_or(|rank| rank == remote.rank)
                        && (peer.is_none() || *peer == base::ident::name_of_job(remote.incarnation))
                };
                match self.switch(is_meant, transport) {
                    Ok(moved) if moved == Moved::default() => {
                        Ok(What::NoPair(self.connected_instead(incarnation, peer.as_deref())))
                    }
                    Ok(moved) => Err(Begun::Moves(moved)),
                    Err(e) => Ok(What::Refused(e.to_string())),
                }
            }
            Command::Hold => {
                self.hold();
                Err(Begun::Hold(self.callbacks.done))
            }
            Command::Resume => {
                self.resume();
                if self.is_resuming() { Err(Begun::Resume) } else { Ok(What::Done(String::new())) }
            }
            Command::GiveUp(job) => Ok(match self.give_up(job) {
                0 => What::NoPair(match self.connected_instead(incarnation, Some(job)) {
                    which if which.is_empty() => "it waits for none of its processes".into(),
                    which => which,
                }),
                1 => What::Done("1 of its processes is waited for no longer".into()),
                n => What::Done(format!("{n} of its processes are waited for no longer")),
            }),
            Command::StopUsing(transport) => match self.stop_using(transport) {
                Ok(Some(pairs)) => Err(Begun::StopUsing(transport.clone(), pairs)),
                Ok(None) => Ok(What::Done("it was not in use".into())),
                Err(e) => Ok(What::Refused(e.to_string())),
            },
            Command::Use(transport) => match self.use_again(transport) {
                Ok(moved) => Err(Begun::Uses(moved)),
                Err(e) => Ok(What::Refused(e.to_string())),
            },
            Command::Sum(..) | Command::Left(..) => Ok(What::Refused("it is for the leader".into())),
            Command::Files => Ok(What::Refused("it is for a connection of its own".into())),
        }
    }

    /// What has become of a command that has begun here; `None`: it is not over.
    pub(crate) fn go_on(&self, begun: &Begun) -> Option<What> {
        match begun {
            Begun::Moves(moved) => self.all_moved(moved),
            // It is in use, also if a pair stays where it is.
            Begun::Uses(moved) => Some(match self.all_moved(moved)? {
                What::NoPair(_) => What::Done(String::new()),
                What::Refused(why) | What::UnderWay(why) => What::Done(why),
                what => what,
            }),
            Begun::Hold(before) => match self.is_held() {
                Hold::Closing => None,
                Hold::Held { untold: 0 } => Some(What::Done(String::new())),
                Hold::Held { untold } => Some(What::Done(format!(
                    "{} could not be told, and may take this one for dead if it ends or moves",
                    self.untold_in_words(untold)
                ))),
                Hold::No if self.callbacks.done > *before => {
                    Some(What::Done("it was held, and has come back since".into()))
                }
                Hold::No => Some(What::Overtaken),
            },
            Begun::Resume if self.is_resuming() => None,
            Begun::Resume if self.is_to_be_held() => Some(What::Overtaken),
            Begun::Resume => Some(What::Done(String::new())),
            Begun::StopUsing(transport, _) if self.uses(transport) => None,
            Begun::StopUsing(_, pairs) => {
                let cut = self.without_lane(pairs);
                let left = match pairs.len() {
                    0 => "no pair used it".into(),
                    1 => "1 pair has left it".into(),
                    n => format!("{n} pairs have left it"),
                };
                Some(What::Done(match cut.len() {
                    0 => left,
                    n => format!(
                        "{left}, without a new connection: {}",
                        named(cut.iter().map(ProcId::to_string), n, ", ")
                    ),
                }))
            }
        }
    }

    /// With which jobs this process is connected in a group, if this one is not among them, or if there is none.
    fn connected_instead(&self, incarnation: u64, job: Option<&str>) -> String {
        let pairs = self
            .session
            .pairs()
            .filter(|(i, pair)| self.session.is_pair(*i) && pair.local().incarnation == incarnation);
        let jobs = pairs.filter_map(|(_, pair)| base::ident::name_of_job(pair.remote().incarnation));
        let jobs: BTreeSet<String> = jobs.collect();
        match job {
            _ if jobs.is_empty() => "it is not connected with another job".into(),
            Some(job) if !jobs.contains(job) => {
                let number = jobs.len();
                format!(
                    "it is not connected with '{job}', but with {}",
                    named(jobs.iter().map(|job| format!("'{job}'")), number, ", ")
                )
            }
            _ => String::new(),
        }
    }

    /// The processes that do not know that this one is held.
    fn untold_in_words(&self, all: usize) -> String {
        named(self.session.untold().map(|of| of.to_string()), all, ", ")
    }

    fn all_moved(&self, moved: &Moved) -> Option<What> {
        let (mut stay, mut wait): (Vec<String>, Vec<String>) = Default::default();
        for pair in &moved.begun {
            match self.moved(*pair) {
                Became::Moving => return None,
                Became::Moved => (),
                Became::Stays(why) => stay.push(format!("{}: {why}", pair.1)),
                Became::Waits(why) => wait.push(format!("{}: {why}", pair.1)),
            }
        }
        let arrived = moved.begun.len() - stay.len() - wait.len();
        stay.extend(moved.refused.iter().map(|(remote, why)| format!("{remote}: {why}")));
        let there: usize = moved.there.values().sum();
        let all = arrived + there + moved.unconnected + stay.len() + wait.len();
        if all == 0 {
            return Some(What::NoPair(String::new()));
        }
        let few = |these: Vec<String>, forms: [&str; 2]| {
            let number = these.len();
            let verb = forms[usize::from(number > 1)];
            format!("{} {verb}: {}", pairs(number, all), named(these.into_iter(), number, "; "))
        };
        let waiting = (!wait.is_empty()).then(|| few(wait, ["still moves", "still move"]));
        if !stay.is_empty() {
            let all = std::iter::once(few(stay, ["stays where it is", "stay where they are"])).chain(waiting);
            return Some(What::Refused(all.collect::<Vec<_>>().join("; ")));
        }
        if let Some(waiting) = waiting {
            return Some(What::UnderWay(waiting));
        }
        let mut parts = Vec::new();
        if arrived > 0 {
            parts.push(format!("{} moved", pairs(arrived, all)));
        }
        for (title, number) in &moved.there {
            let which = if *number == all { String::new() } else { format!("{} ", pairs(*number, all)) };
            parts.push(format!("{which}already on {title}"));
        }
        if moved.unconnected > 0 {
            parts.push(format!("{} not connected yet", pairs(moved.unconnected, all)));
        }
        Some(What::Done(parts.join(", ")))
    }
}

/// `1 of 3 pairs`.
fn pairs(some: usize, all: usize) -> String {
    format!("{some} of {all} {}", if all == 1 { "pair" } else { "pairs" })
}

/// A command in words, for the log.
fn describe(command: &Command) -> String {
    match command {
        Command::Lanes => "lanes".into(),
        Command::Switch { transport, peer, .. } => {
            format!("switch to {transport}{}", peer.as_ref().map_or(String::new(), |peer| format!(", for '{peer}'")))
        }
        Command::Hold => "hold".into(),
        Command::Resume => "resume".into(),
        Command::StopUsing(transport) => format!("stop using {transport}"),
        Command::Use(transport) => format!("use {transport}"),
        Command::GiveUp(job) => format!("give up '{job}'"),
        Command::Files => "files".into(),
        Command::Sum(rank, _) => format!("figures of rank {rank}"),
        Command::Left(rank, _) => format!("rank {rank} leaves"),
    }
}
