//! The kinds of faults, and which of them an act has.

use super::random::Random;
use std::time::Duration;

/// By what the jobs of an act find each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Service {
    Folder,
    Server,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Cut,
    Reset,
    HalfClosed,
    Stalled,
    Reordered,
    Stopped,
    ServerKilled,
    FolderDeleted,
    DiskFull,
    NoDescriptors,
}

impl Kind {
    pub const ALL: [Kind; 10] = [
        Kind::Cut,
        Kind::Reset,
        Kind::HalfClosed,
        Kind::Stalled,
        Kind::Reordered,
        Kind::Stopped,
        Kind::ServerKilled,
        Kind::FolderDeleted,
        Kind::DiskFull,
        Kind::NoDescriptors,
    ];

    pub fn title(self) -> &'static str {
        match self {
            Kind::Cut => "connections cut",
            Kind::Reset => "connections reset",
            Kind::HalfClosed => "connections half-closed",
            Kind::Stalled => "connections stalled",
            Kind::Reordered => "reordered by a relay",
            Kind::Stopped => "processes stopped and continued",
            Kind::ServerKilled => "server killed and restarted",
            Kind::FolderDeleted => "naming folder deleted",
            Kind::DiskFull => "disk full",
            Kind::NoDescriptors => "descriptors exhausted",
        }
    }

    /// Whether it can be done to such an act.
    fn suits(self, service: Service, encrypted: bool) -> bool {
        match self {
            Kind::Reordered => encrypted,
            Kind::ServerKilled => service == Service::Server,
            Kind::FolderDeleted => service == Service::Folder,
            _ => true,
        }
    }

    /// How long one of them lasts, at most so long.
    fn length(self, random: &mut Random, longest: Duration) -> Duration {
        let most = longest.as_millis() as u64;
        let between = |random: &mut Random, least: u64, most: u64| least + random.below(most - least + 1);
        let ms = match self {
            Kind::Cut | Kind::Reset | Kind::HalfClosed | Kind::Reordered | Kind::FolderDeleted => 0,
            // Half of them as long as may be.
            Kind::Stalled if random.below(2) == 0 => most,
            Kind::Stalled | Kind::Stopped if random.below(8) == 0 => most,
            Kind::Stalled => between(random, 200, most),
            Kind::Stopped => between(random, 20, 5_000.min(most)),
            Kind::ServerKilled => between(random, 0, 4_000.min(most)),
            Kind::DiskFull | Kind::NoDescriptors => between(random, 100, 3_000.min(most)),
        };
        Duration::from_millis(ms)
    }
}

/// One fault that is to come.
#[derive(Debug, Clone)]
pub struct Fault {
    pub kind: Kind,
    /// How long traffic goes on undisturbed before it.
    pub after: Duration,
    pub length: Duration,
    /// What else is random in it.
    pub seed: u64,
}

/// What is done to one pair of jobs.
#[derive(Debug, Clone)]
pub struct Script {
    pub number: usize,
    pub seed: u64,
    pub service: Service,
    pub encrypted: bool,
    pub faults: Vec<Fault>,
}

/// So many faults are one act's, of all kinds that it can have.
pub const OF_ONE: usize = 25;

/// The scripts of all acts: the same for the same seed and number of faults.
pub fn scripts(seed: u64, faults: usize, longest: Duration) -> Vec<Script> {
    let acts = faults.div_ceil(OF_ONE).max(4.min(faults));
    let kinds_of = |act: usize| {
        let service = if act.is_multiple_of(2) { Service::Server } else { Service::Folder };
        (service, act % 4 < 2)
    };
    let mut left: Vec<usize> = (0..acts).map(|act| faults / acts + usize::from(act < faults % acts)).collect();
    let mut given: Vec<Vec<Kind>> = vec![Vec::new(); acts];
    let mut random = Random::new(seed);
    // As many of each kind; those that few acts can have choose first.
    let mut kinds = Kind::ALL;
    kinds.sort_by_key(|kind| (0..4).filter(|act| kind.suits(kinds_of(*act).0, kinds_of(*act).1)).count());
    for n in 0..faults {
        let kind = kinds[n * kinds.len() / faults];
        let able = |act: &usize| kind.suits(kinds_of(*act).0, kinds_of(*act).1) && left[*act] > 0;
        // The one with most room; where they are equal, any.
        let act = (0..acts).filter(able).max_by_key(|act| (left[*act], random.next()));
        let Some(act) = act.or_else(|| (0..acts).find(|act| left[*act] > 0)) else { break };
        let (service, encrypted) = kinds_of(act);
        left[act] -= 1;
        given[act].push(if kind.suits(service, encrypted) { kind } else { Kind::Cut });
    }
    let script = |(number, kinds): (usize, Vec<Kind>)| {
        let (service, encrypted) = kinds_of(number);
        let seed = seed.wrapping_mul(1_000_003).wrapping_add(number as u64);
        let mut random = Random::new(seed);
        let mut kinds = kinds;
        for i in (1..kinds.len()).rev() {
            kinds.swap(i, random.below(i as u64 + 1) as usize);
        }
        let fault = |kind: Kind| Fault {
            kind,
            after: Duration::from_millis(random.below(400)),
            length: kind.length(&mut random, longest),
            seed: random.next(),
        };
        Script { number, seed, service, encrypted, faults: kinds.into_iter().map(fault).collect() }
    };
    given.into_iter().enumerate().map(script).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn each_kind_has_its_share() {
        for faults in [20, 100, 1_000] {
            let mut counts: BTreeMap<Kind, usize> = BTreeMap::new();
            for script in scripts(7, faults, Duration::from_secs(20)) {
                for fault in script.faults {
                    assert!(fault.kind.suits(script.service, script.encrypted));
                    *counts.entry(fault.kind).or_default() += 1;
                }
            }
            assert_eq!(counts.values().sum::<usize>(), faults);
            assert!(counts.len() == 10 && counts.values().all(|n| *n == faults / 10), "{counts:?}");
        }
    }
}
