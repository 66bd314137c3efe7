//! Names without a store: claims, leases, releases, quotas; batches and numbers.

use super::entry::OVERHEAD;
use super::numbers::MAX_GONE;
use super::*;
use crate::record::sample;

const LEASE: Duration = Duration::from_secs(15);

struct Stage {
    names: Names,
    now: Instant,
}

impl Stage {
    fn new() -> Stage {
        Stage { names: Names::new(LEASE), now: Instant::now() }
    }
    /// The outcome of a claim, in a word.
    fn take(&mut self, token: u8, name: &str) -> &'static str {
        let bytes = sample(name).encode().unwrap();
        self.take_bytes(0, [token; 16], name, bytes, token.into())
    }
    fn take_bytes(&mut self, user: u32, token: Token, name: &str, bytes: Vec<u8>, by: By) -> &'static str {
        match self.names.take((token, 0), &sample(name), (bytes.clone(), bytes), by, Owner::User(user), self.now) {
            Taken::Granted(_) => "granted",
            Taken::Held { doubtful: true, .. } => "doubtful",
            Taken::Held { .. } => "held",
            Taken::Ended => "ended",
            Taken::Full => "full",
            Taken::Superseded => "superseded",
        }
    }
    /// The outcome of a renewal, and the number.
    fn renew(&mut self, token: u8, number: u64, name: &str) -> (&'static str, u64) {
        let bytes = sample(name).encode().unwrap();
        let taken =
            self.names.take(([token; 16], number), &sample(name), (bytes.clone(), bytes), 1, Owner::User(0), self.now);
        match taken {
            Taken::Granted(number) => ("granted", number),
            Taken::Held { .. } => ("held", 0),
            Taken::Superseded => ("superseded", 0),
            _ => ("else", 0),
        }
    }
    fn listed(&self) -> Vec<String> {
        self.names.list(None).map(|r| Record::decode(r).unwrap().name).collect()
    }
    /// Claims names with records of this size until there is no room for this user. Returns their number.
    fn fill(&mut self, user: u32, size: usize) -> usize {
        let mut n = 0u32;
        loop {
            let token = (u128::from(user) << 64 | u128::from(n)).to_le_bytes();
            match self.take_bytes(user, token, &format!("{user}-{n}"), vec![0; size], 0) {
                "granted" => n += 1,
                "full" => return n as usize,
                other => panic!("{other}"),
            }
        }
    }
}

#[test]
fn one_holder_until_release_or_the_end_of_the_lease() {
    let mut s = Stage::new();
    assert_eq!(s.take(1, "ocean"), "granted");
    assert_eq!(s.take(1, "ocean"), "granted", "again is the same");
    assert_eq!(s.take(2, "ocean"), "held");
    assert!(!s.names.release([2; 16], &sample("ocean").key(), s.now), "only the holder releases");
    assert_eq!(s.listed(), ["ocean"]);
    assert!(s.names.release([1; 16], &sample("ocean").key(), s.now));
    assert!(s.listed().is_empty() && s.names.of.is_empty());
    assert_eq!(s.take(3, "ocean"), "granted");
    s.now += LEASE - Duration::from_millis(1);
    assert_eq!(s.take(4, "ocean"), "held");
    s.now += Duration::from_millis(1);
    assert!(s.names.lookup(&sample("ocean").key(), s.now).is_none(), "before any sweep");
    assert_eq!(s.take(4, "ocean"), "granted");
    assert_eq!(s.take(3, "ocean"), "held", "the old holder learns of it");
}

#[test]
fn renewals_go_on_and_teach_a_server_that_knows_nothing() {
    let mut s = Stage::new();
    for _ in 0..10 {
        assert_eq!(s.take(1, "ocean"), "granted");
        s.now += LEASE / 3;
    }
    s.names = Names::new(LEASE);
    assert_eq!(s.take(1, "ocean"), "granted");
    assert_eq!(s.listed(), ["ocean"]);
}

#[test]
fn what_was_released_does_not_come_back() {
    let mut s = Stage::new();
    s.names.release([1; 16], &sample("ocean").key(), s.now);
    assert_eq!(s.take(1, "ocean"), "ended", "a claim that was overtaken by its release");
    s.now += LEASE + SWEEP;
    s.names.sweep(s.now);
    assert!(s.names.ended.is_empty() && s.names.ended_order.is_empty());
    for i in 0..MAX_ENDED as u128 + 10 {
        s.names.release(i.to_le_bytes(), &sample("ocean").key(), s.now);
    }
    assert_eq!(s.names.ended.len(), MAX_ENDED);
}

#[test]
fn doubt_ends_with_the_next_renewal() {
    let mut s = Stage::new();
    s.take(1, "ocean");
    s.names.doubt(2);
    assert_eq!(s.take(2, "ocean"), "held");
    s.names.doubt(1);
    assert_eq!(s.take(2, "ocean"), "doubtful");
    assert_eq!(s.listed(), ["ocean"], "it is only doubt");
    s.take(1, "ocean");
    assert_eq!(s.take(2, "ocean"), "held");
}

#[test]
fn a_server_that_stood_still_blames_nobody() {
    let mut s = Stage::new();
    s.take(1, "ocean");
    s.now += LEASE * 3;
    s.names.excuse(LEASE * 3);
    assert_eq!(s.take(2, "ocean"), "held");
}

/// A follower takes for given back what goes from the list and is not told of within the next second.
#[test]
fn what_goes_from_the_list_was_told_of() {
    let mut s = Stage::new();
    s.names.sweep(s.now);
    s.take(1, "ocean");
    s.names.news();
    s.now += LEASE;
    while s.listed() == ["ocean"] {
        assert!(s.names.news().is_empty());
        s.names.sweep(s.now);
        s.now += SWEEP / 2;
    }
    assert_eq!(s.names.news().iter().map(|(fate, _)| *fate).collect::<Vec<_>>(), [Fate::Over]);
}

#[test]
fn sweeping_drops_what_is_over_and_nothing_else() {
    let mut s = Stage::new();
    s.take(1, "air");
    s.now += LEASE / 2;
    s.take(2, "ocean");
    s.now += LEASE / 2;
    s.names.sweep(s.now);
    assert_eq!(s.listed(), ["ocean"]);
    s.now += LEASE;
    s.names.sweep(s.now);
    s.take(3, "ocean");
    s.names.release([3; 16], &sample("ocean").key(), s.now);
    let name = |shown: &[u8]| Record::decode(shown).unwrap().name;
    let news: Vec<_> = s.names.news().iter().map(|(fate, shown)| (*fate, name(shown))).collect();
    let [air, ocean] = ["air", "ocean"].map(String::from);
    assert_eq!(
        news,
        [
            (Fate::Claimed, air.clone()),
            (Fate::Claimed, ocean.clone()),
            (Fate::Over, air),
            (Fate::Over, ocean.clone()),
            (Fate::Claimed, ocean.clone()),
            (Fate::Released, ocean)
        ],
        "each is told of once, renewals are not"
    );
    assert!(s.names.of.is_empty());
}

#[test]
fn whoever_takes_all_there_is_leaves_room_for_others() {
    for size in [4_000, 40_000] {
        let mut s = Stage::new();
        let had: Vec<_> = (1..=8).map(|user| s.fill(user, size)).collect();
        let whole = MAX_BYTES / (2 * size + OVERHEAD + 6);
        assert!(had[0].abs_diff(whole / 2) < whole / 50, "{had:?} of {whole}");
        assert!(had.windows(2).all(|w| w[1] > 0 && w[1].abs_diff(w[0] / 2) <= w[0] / 50 + 2), "{had:?}");
        assert_eq!(s.take(1, "ocean"), "granted", "another has room");
        assert_eq!(s.take_bytes(1, (1u128 << 64).to_le_bytes(), "1-0", vec![0; size], 0), "granted", "renewed");
        s.now += LEASE;
        s.names.sweep(s.now);
        assert!(s.names.of.is_empty(), "all is given back");
    }
}

#[test]
fn a_claim_that_another_has_followed_is_never_renewed() {
    let mut s = Stage::new();
    let (_, first) = s.renew(1, 0, "ocean");
    let (_, air) = s.renew(9, 0, "air");
    assert!(first > 1 << 40 && air > first, "numbers only grow");
    s.now += LEASE;
    assert_eq!(s.renew(1, first, "ocean"), ("granted", first), "nobody had it meanwhile");
    s.now += LEASE;
    s.names.sweep(s.now);
    let (word, again) = s.renew(1, first, "ocean");
    assert!(word == "granted" && again > air, "and it was swept, so it is a claim of its own");
    s.now += LEASE;
    let (_, second) = s.renew(2, 0, "ocean");
    assert!(second > again);
    assert_eq!(s.renew(1, again, "ocean"), ("held", 0));
    s.names.release([2; 16], &sample("ocean").key(), s.now);
    assert_eq!(s.renew(1, again, "ocean"), ("superseded", 0));
    assert_eq!(s.renew(3, u64::MAX, "ocean").0, "granted", "a number of another server");
    assert_eq!(s.renew(1, 0, "sea").0, "granted", "of no server");
}

#[test]
fn names_that_are_gone_are_forgotten_in_order() {
    let mut s = Stage::new();
    let (_, first) = s.renew(1, 0, "ocean");
    s.names.release([1; 16], &sample("ocean").key(), s.now);
    for i in 0..MAX_GONE as u128 {
        assert!(s.names.numbers.floor == 0);
        let number = s.names.numbers.next();
        s.names.numbers.remember(i, number);
    }
    assert_eq!(s.names.numbers.floor, first, "the oldest");
    assert_eq!(s.renew(2, first, "ocean").0, "granted", "it may have been the last");
    assert_eq!(s.renew(3, first - 1, "air").0, "superseded", "to be on the safe side");
}
