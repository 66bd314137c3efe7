//! The queues are compared with plain lists that are searched in order.

use super::*;
use crate::arrived::{Arrived, Body, Described};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

struct Rng(u64);

impl Rng {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((self.0 >> 33) ^ (self.0 >> 52)) % n
    }

    /// A source of few values that lie far apart. `wild` is the percentage of wildcards.
    fn source(&mut self, wild: u64) -> Source {
        if self.below(100) < wild { Source::Any } else { Source::Rank(self.below(4) as u32 * 1000) }
    }

    fn tag(&mut self, tags: u64) -> i64 {
        let tag = self.below(tags) as i64;
        if self.below(8) == 0 { -1 - (tag << 31) } else { tag << 12 }
    }

    fn pattern(&mut self, wild: u64, tags: u64) -> (Source, Tag) {
        let tag = if self.below(100) < wild { Tag::Any } else { Tag::Is(self.tag(tags)) };
        (self.source(wild), tag)
    }
}

fn thaw<T: Serialize + for<'a> Deserialize<'a>>(state: &T) -> T {
    postcard::from_bytes(&postcard::to_allocvec(state).unwrap()).unwrap()
}

/// Random numbers, the length that a queue grows to before it shrinks, the percentage of wildcards, and the number of
/// tags.
fn cases() -> impl Iterator<Item = (Rng, usize, u64, u64)> {
    (0..3000u64).map(|seed| {
        let mut rng = Rng(seed);
        let most = [3, 10, 40, 200][rng.below(4) as usize];
        (Rng(seed + 1_000_000), most, [0, 10, 50][rng.below(3) as usize], [1, 3, 50][rng.below(3) as usize])
    })
}

#[test]
fn a_message_meets_the_oldest_receive() {
    for (mut rng, most, wild, tags) in cases() {
        let mut posted = Posted::default();
        let mut plain: Vec<Receive> = Vec::new();
        let mut places = HashMap::new();
        let mut up = true;
        for op in 0..400 {
            up = if plain.len() >= most { false } else { up || plain.is_empty() };
            match rng.below(10) {
                0 if !plain.is_empty() => {
                    let Receive { op, .. } = plain.remove(rng.below(plain.len() as u64) as usize);
                    posted.remove(op, places.get(&op).copied().unwrap_or(u32::MAX));
                }
                n if (n < 7) == up => {
                    let (source, tag) = rng.pattern(wild, tags);
                    let receive = Receive { op, source, tag, capacity: op };
                    plain.push(receive);
                    posted.push(receive, |op, place| {
                        places.insert(op, place);
                    });
                }
                _ => {
                    let Source::Rank(source) = rng.source(0) else { unreachable!() };
                    let tag = rng.tag(tags);
                    let at = plain.iter().position(|r| fits(r.source, r.tag, source, tag));
                    let right = at.map(|at| plain.remove(at)).map(|r| (r.op, r.capacity));
                    assert_eq!(posted.take(source, tag), right);
                }
            }
            assert!(posted.iter().map(|r| r.op).eq(plain.iter().map(|r| r.op)));
            for rank in [0, 1000, 5000] {
                let any = plain.iter().any(|r| matches!(r.source, Source::Any) || r.source == Source::Rank(rank));
                assert_eq!(posted.any_from(rank), any);
            }
            if rng.below(50) == 0 {
                posted = thaw(&posted);
            }
        }
        while let Some(Receive { op, .. }) = plain.pop() {
            posted.remove(op, places.get(&op).copied().unwrap_or(u32::MAX));
        }
        assert!(posted.is_bare());
    }
}

#[test]
fn a_receive_meets_the_oldest_message() {
    for (mut rng, most, wild, tags) in cases() {
        let mut unexpected = Unexpected::default();
        let mut plain: Vec<(u64, u32, i64)> = Vec::new();
        let mut up = true;
        for op in 0..400 {
            up = if plain.len() >= most { false } else { up || plain.is_empty() };
            if (rng.below(10) < 7) == up {
                let (Source::Rank(source), tag) = (rng.source(0), rng.tag(tags)) else { unreachable!() };
                let body = Body::Rts { size: op, pieces: Described::default(), may_buffer: false };
                unexpected.push(Arrived { source, tag, op, body, ..Arrived::default() });
                plain.push((op, source, tag));
            } else {
                let (source, tag) = rng.pattern(wild, tags);
                let at = plain.iter().position(|(_, from, with)| fits(source, tag, *from, *with));
                let found = unexpected.find(source, tag);
                assert_eq!(found.map(|at| unexpected.get(at).op), at.map(|at| plain[at].0));
                if let (Some(at), Some(place)) = (at, found)
                    && rng.below(4) > 0
                {
                    assert_eq!(unexpected.remove(place).op, plain.remove(at).0);
                }
            }
            assert!(unexpected.iter().map(|m| m.op).eq(plain.iter().map(|m| m.0)));
            if rng.below(50) == 0 {
                unexpected = thaw(&unexpected);
            }
        }
        let same = unexpected.clone().into_messages().map(|m| m.op).eq(plain.iter().map(|m| m.0));
        assert!(same);
        for (_, source, tag) in plain.into_iter().rev() {
            let at = unexpected.find(Source::Rank(source), Tag::Is(tag)).expect("it is there");
            unexpected.remove(at);
        }
        assert!(unexpected.is_bare());
    }
}

#[test]
fn keys_of_every_kind_are_apart() {
    let mut keys = BTreeSet::new();
    let sources = [Source::Any, Source::Rank(0), Source::Rank(u32::MAX)];
    let tags = [Tag::Any, Tag::Is(0), Tag::Is(-1), Tag::Is(i64::MIN), Tag::Is(i64::MAX)];
    for source in sources {
        for tag in tags {
            let key = Key::of(source, tag);
            assert!(keys.insert((key.who, key.tag)));
            assert_eq!(key.class() & ANY_SOURCE != 0, source == Source::Any);
            assert_eq!(key.class() & ANY_TAG != 0, tag == Tag::Any);
        }
    }
}
