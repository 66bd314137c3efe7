//! Obstacles: the settings of two leaders that keep them from ever being connected.

use crate::state::Session;
use crate::state::pair::PathRef;
use base::Memory;
use wire::hello::VERSION;
use wire::lane::Lane;
use wire::{About, Scope};

/// Why two leaders can never be connected as they are set. Transports are named as in `MPI_CONNECT_LANES`, with commas
/// between.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Obstacle {
    /// They speak different versions of the protocol.
    Version {
        /// The version of the other leader.
        theirs: u16,
        /// Our version.
        ours: u16,
    },
    /// One does not trust the other: mostly their keys differ.
    Untrusted {
        /// The reason, and what a user can do about it.
        why: String,
    },
    /// They have no transport in common.
    NoneInCommon {
        /// The transports of the other leader.
        theirs: String,
        /// Our transports.
        ours: String,
    },
    /// Ours reach this host alone, and the other leader, which is on this host, offers none of them; or it is dead.
    OffersNone {
        /// Our transports.
        ours: String,
        /// The title of the first of them, for people.
        title: &'static str,
    },
    /// Ours reach this host alone, and the other leader is on another one.
    OtherHost {
        /// Our transports.
        ours: String,
    },
}

impl<L: Lane<M>, M: Memory> Session<L, M> {
    /// The obstacle between this process and the leader behind a path, if one is known.
    pub fn path_obstacle(&self, path: PathRef) -> Option<Obstacle> {
        let pair = &self.pairs[self.of_path(path)?];
        let contact = pair.who.contact.as_ref()?;
        if let Some(theirs) = pair.evidence.other_version {
            return Some(Obstacle::Version { theirs, ours: VERSION });
        }
        if pair.evidence.met {
            return None;
        }
        if let Some(why) = &pair.evidence.untrusted {
            return Some(Obstacle::Untrusted { why: why.clone() });
        }
        let words = |is_one: &dyn Fn(&About) -> bool| {
            let all = self.own.transports.iter().map(|(about, _)| about).filter(|about| is_one(about));
            all.map(|about| about.word).collect::<Vec<_>>().join(",")
        };
        let open: Vec<&About> =
            self.own.transports.iter().filter(|(_, opened)| opened.is_ok()).map(|(about, _)| about).collect();
        let ours = || words(&|about| open.contains(&about));
        // An entry of a transport that reaches other hosts holds addresses, unless the process does not listen.
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
