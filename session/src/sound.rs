//! Whether what was read from a snapshot keeps the invariants that the session's code relies on.
//!
//! Part of the snapshot. Its checksum finds damage; this is for bytes that were made wrongly. Invariant: a session that
//! was read does not panic, and takes no memory for a number that stands in the bytes.

use crate::state::groups::Groups;
use crate::state::hosts::Hosts;
use crate::state::inters::Inters;
use crate::state::pair::Pair;
use crate::state::pairs::Pairs;
use base::protocol::control::MAX_RECORDS;
use engine::{Engine, Gone, PeerId};
use std::collections::{BTreeMap, BTreeSet};
use wire::Contact;

/// No count reaches this, so there is always a next number.
const MOST: u64 = 1 << 62;
/// The same for numbers of 32 bits.
const COUNTS_OF_32: u32 = 1 << 31;

/// Whether all these fit together.
pub(crate) fn is_sound<L>(engine: &Engine, pairs: &Pairs<L>, groups: &Groups, inters: &Inters, hosts: &Hosts) -> bool {
    engine.is_sound()
        && pairs_are_sound(engine, pairs)
        && groups_are_sound(engine, pairs, groups)
        && inters_are_sound(engine, pairs, groups, inters)
        && hosts.is_sound()
        && hosts.last_probe < COUNTS_OF_32
}

/// The pairs in use.
fn live<L>(pairs: &Pairs<L>) -> impl Iterator<Item = (usize, &Pair<L>)> {
    pairs.iter().filter(|(_, pair)| pair.serial != 0)
}

fn pairs_are_sound<L>(engine: &Engine, pairs: &Pairs<L>) -> bool {
    let used: Vec<bool> = pairs.iter().map(|(_, pair)| pair.serial != 0).collect();
    let (mut serials, mut strangers) = (BTreeSet::new(), BTreeSet::new());
    let fits = |(i, pair): (usize, &Pair<L>)| {
        pair.peer == PeerId(i as u32)
            && pair.gone() == engine.gone(pair.peer)
            && pair.path.is_sound()
            && match pair.serial {
                0 => pair.gone() == Some(Gone::Finished) && pair.path.all_acknowledged(),
                serial => serials.insert(serial) && serial <= pairs.last_serial && is_sound_pair(pair),
            }
    };
    let mut is_stranger = |i: &usize| {
        let pair = pairs.slots.get(*i);
        pair.is_some_and(|pair| pair.serial != 0 && pair.is_stranger()) && strangers.insert(*i)
    };
    engine.peers_in_use() == used
        && pairs.last_serial < MOST
        && pairs.iter().all(fits)
        && pairs.in_use() == serials.len()
        && pairs.strangers.iter().all(&mut is_stranger)
}

fn is_sound_pair<L>(pair: &Pair<L>) -> bool {
    let offer = pair.caller.as_ref().and_then(|caller| caller.offer_missing);
    pair.who.contact.as_ref().is_none_or(|contact| contact.is_sound())
        && pair.evidence.seen_at.as_ref().is_none_or(|place| place.is_sound())
        && offer.is_none_or(|missing| missing <= MAX_RECORDS)
        && pair.talk.as_ref().is_none_or(|talk| talk.negotiation.is_sound())
}

fn groups_are_sound<L>(engine: &Engine, pairs: &Pairs<L>, groups: &Groups) -> bool {
    let (mut of_group, mut between) = (BTreeMap::<u64, usize>::new(), BTreeMap::<(u64, u64), usize>::new());
    for (_, pair) in live(pairs) {
        let (ours, theirs) = (pair.local().incarnation, pair.remote().incarnation);
        *of_group.entry(ours).or_default() += 1;
        *between.entry((ours, theirs)).or_default() += 1;
    }
    let owns = groups.own.iter().all(|(incarnation, known)| {
        known.group.incarnation == *incarnation
            && known.pairs == of_group.get(incarnation).copied().unwrap_or(0)
            && known.callers.iter().flatten().all(|caller| caller.slot < pairs.len())
            && known.directory.as_ref().is_none_or(|(number, directory)| {
                *number <= groups.last_number && directory.parent.as_ref().is_none_or(|(_, contact)| contact.is_sound())
            })
    });
    let meets = groups
        .between
        .iter()
        .all(|(key, b)| b.number <= groups.last_number && b.pairs == between.get(key).copied().unwrap_or(0))
        && groups.between.iter().all(|((_, theirs), b)| {
            let is_its =
                |(rank, contact): (&u32, &Contact)| b.size().is_some_and(|size| *rank < size) && contact.is_sound();
            b.known.as_ref().is_none_or(|known| known.incarnation == *theirs) && b.moved.iter().all(is_its)
        });
    let numbers: BTreeSet<u64> = groups.between.values().map(|b| b.number).collect();
    let of_pair = |(_, pair): (usize, &Pair<L>)| {
        let between = groups.between(pair.local().incarnation, pair.remote().incarnation);
        between.is_some_and(|b| engine.group_of(pair.peer) == Some(b.number))
    };
    owns && meets
        && groups.last_number < MOST
        && numbers.len() == groups.between.len()
        && engine.groups().eq(numbers)
        && of_group.keys().all(|incarnation| groups.own.contains_key(incarnation))
        && live(pairs).all(of_pair)
}

fn inters_are_sound<L>(engine: &Engine, pairs: &Pairs<L>, groups: &Groups, inters: &Inters) -> bool {
    let mut parts = vec![0; pairs.len()];
    let mut between = BTreeMap::<(u64, u64), usize>::new();
    let mut of = Vec::new();
    for inter in inters.slots.iter().flatten() {
        let key = (inter.local.incarnation, inter.theirs);
        let Some((its, members)) = groups.between(key.0, key.1).zip(engine.members(inter.ctx)) else { return false };
        let in_group =
            |rank| inter.member(rank).is_some_and(|process| its.size().is_some_and(|size| process.rank < size));
        let sizes = inter.size == members.size()
            && inter.size <= its.size().unwrap_or(0)
            && inter.ranks.as_ref().is_none_or(|ranks| ranks.len() == inter.size as usize);
        if inter.serial > inters.last_serial || inter.watched > inter.size || !sizes || !(0..inter.size).all(in_group) {
            return false;
        }
        for (i, pair) in live(pairs).filter(|(_, pair)| pair.local() == inter.local) {
            let rank = inter.rank_of(pair.remote());
            if rank.is_some_and(|rank| members.get(rank) != Some(pair.peer)) {
                return false;
            }
            parts[i] += usize::from(rank.is_some());
        }
        let placed = members.iter().all(|(rank, peer)| {
            let pair = &pairs[peer.0 as usize];
            pair.local() == inter.local && inter.member(rank) == Some(pair.remote())
        });
        if !placed || inter.is_whole && members.iter().count() != inter.size as usize {
            return false;
        }
        *between.entry(key).or_default() += 1;
        of.push(inter.ctx);
    }
    of.sort_unstable();
    inters.last_serial < COUNTS_OF_32
        && engine.opened_all().eq(of)
        && pairs.iter().all(|(i, pair)| pair.inters == parts[i])
        && groups.between.iter().all(|(key, b)| b.inters == between.get(key).copied().unwrap_or(0))
}
