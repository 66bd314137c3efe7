//! How many connections of each kind a relay has at a time.

use nix::sys::resource::{Resource, getrlimit};

/// The most processes that wait.
pub(crate) const MAX_WAITING: usize = 8192;
/// The most calls that wait to be taken, here or at the next relay.
pub(crate) const MAX_CALLS: usize = 1024;
/// The most pairs of connections that are joined.
pub(crate) const MAX_JOINED: usize = 4096;
/// The most connections that have not proved the key.
pub(crate) const MAX_STRANGERS: usize = 256;
/// Descriptors that are kept for listeners, threads, standard streams and pipes.
const SPARE_DESCRIPTORS: usize = 64;
/// Of the descriptors that are left beside strangers, those that wait and those that are joined get two of so many parts each, and
/// calls the rest.
const PARTS: usize = 5;

/// How many there may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Room {
    pub(crate) waiting: usize,
    pub(crate) calls: usize,
    pub(crate) joined: usize,
}

impl Room {
    /// As many as this process may have descriptors for.
    pub(crate) fn of_process() -> Room {
        Room::of(
            getrlimit(Resource::RLIMIT_NOFILE).map_or(1024, |(soft, _)| usize::try_from(soft).unwrap_or(usize::MAX)),
        )
    }

    fn of(descriptors: usize) -> Room {
        let each = descriptors.saturating_sub(SPARE_DESCRIPTORS + MAX_STRANGERS).max(2 * PARTS) / PARTS;
        // A call that is passed on has a connection to the next relay too.
        let (waiting, joined, calls) = (2 * each, each, each / 2);
        Room { waiting: waiting.min(MAX_WAITING), calls: calls.min(MAX_CALLS), joined: joined.min(MAX_JOINED) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_connections_together_have_descriptors() {
        assert_eq!(Room::of(1 << 20), Room { waiting: MAX_WAITING, calls: MAX_CALLS, joined: MAX_JOINED });
        for descriptors in [1024, 4096, 20_000] {
            let Room { waiting, calls, joined } = Room::of(descriptors);
            let all = MAX_STRANGERS + waiting + 2 * calls + 2 * joined;
            assert!(all < descriptors && waiting.min(calls).min(joined) > 50, "{descriptors}: {all}");
        }
        let small = Room::of(10);
        assert!(small.waiting.min(small.calls).min(small.joined) > 0);
    }
}
