//! What no waiting will mend between two leaders.

use crate::state::Session;
use crate::state::pair::PathRef;
use base::Memory;
use wire::hello::VERSION;
use wire::lane::Lane;
use wire::{About, Scope};

/// Why two leaders will never talk, as they are set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Obstacle {
    /// The versions of the protocol that they speak.
    Version { theirs: u16, ours: u16 },
    /// The transports that it uses and those that we do, as `MPI_CONNECT_LANES` names them: they have none in common.
    NoneInCommon { theirs: String, ours: String },
    /// We use what reaches this host alone (its name in `MPI_CONNECT_LANES`, and its title), and it has none of it; or it is
    /// dead.
    OffersNone { ours: String, title: &'static str },
    /// It is on another host, and what we use reaches this one alone.
    OtherHost { ours: String },
}

impl<L: Lane<M>, M: Memory> Session<L, M> {
    pub fn path_obstacle(&self, path: PathRef) -> Option<Obstacle> {
        let pair = &self.pairs[self.of_path(path)?];
        let contact = pair.who.contact.as_ref()?;
        if let Some(theirs) = pair.evidence.other_version {
            return Some(Obstacle::Version { theirs, ours: VERSION });
        }
        if pair.evidence.met {
            return None;
        }
        let words = |is_one: &dyn Fn(&About) -> bool| {
            let all = self.own.transports.iter().map(|(about, _)| about).filter(|about| is_one(about));
            all.map(|about| about.word).collect::<Vec<_>>().join(",")
        };
        let open: Vec<&About> =
            self.own.transports.iter().filter(|(_, opened)| opened.is_ok()).map(|(about, _)| about).collect();
        let ours = || words(&|about| open.contains(&about));
        // Whoever uses what reaches other hosts tells where.
        let offers = |about: &About| {
            contact.entry(about.id).is_some_and(|entry| about.scope == Scope::Host || !entry.is_empty())
        };
        let near = open.iter().find(|about| about.scope == Scope::Host);
        if let Some(near) = near.filter(|_| open.iter().all(|about| about.scope == Scope::Host)) {
            if self.is_on_host(contact) == Some(false) {
                return Some(Obstacle::OtherHost { ours: ours() });
            }
            if pair.evidence.not_on_host {
                return Some(Obstacle::OffersNone { ours: ours(), title: near.title });
            }
        }
        if contact.entries().next().is_some() && !open.iter().any(|about| offers(about)) {
            return Some(Obstacle::NoneInCommon { theirs: words(&offers), ours: ours() });
        }
        None
    }
}
