//! A tree of hashes over the contact records of a group, which are parted into ranges: who knows its root needs no record, asks
//! anybody for a range, and sees whether it is the right one.
//!
//! Its leaves are hashes of ranges, as they are on the wire. A node is the hash of the two below it; the last one of a level with an
//! odd number of nodes goes up as it is. Invariant: a range that was checked has a sound record for each of its ranks.

use crate::{Contact, Contacts};
use base::bytes::{Malformed, Put, Take};
use base::protocol::contact::{LEAF, MAX_BRANCH, MAX_ENTRIES, MAX_ENTRY, NODE, ROOT, entry, head};

pub use base::protocol::contact::{HASH, WHOLE_EACH as RANKS};

/// The most bytes of the records of one range.
pub const MAX_RANGE: usize = 515 << 10;
const _: () = assert!(RANKS as usize * (1 + head::BYTES + MAX_ENTRIES * (entry::BYTES + MAX_ENTRY)) <= MAX_RANGE);

/// Half of a cryptographic hash of these bytes. Who runs this code brings it, since this crate has none.
pub type Digest = fn(&[u8]) -> [u8; HASH];

/// Contact records, each with its rank.
pub type Ranked = Vec<(u32, Contact)>;

/// How many ranges a group of `size` ranks has.
pub fn ranges(size: u32) -> u32 {
    size.div_ceil(RANKS)
}

/// The rank above this one in the tree along which the ranks of a group ask for ranges: it lacks the last digit that is not 0, of
/// base 8. So nobody is asked by more than 7 ranks for each digit, and the way up is as long as the number. Ranks are counted from
/// the leader.
pub fn above(rank: u32) -> Option<u32> {
    let digit = rank.trailing_zeros() / DIGIT * DIGIT;
    (rank > 0).then(|| rank & !(((1 << DIGIT) - 1) << digit))
}

/// The ranks right below this one, in a group of `size`.
pub fn below(rank: u32, size: u32) -> impl Iterator<Item = u32> {
    let digits = if rank == 0 { u32::BITS } else { rank.trailing_zeros() } / DIGIT;
    let each = (0..digits).flat_map(|digit| (1..1 << DIGIT).map(move |value: u32| value << (digit * DIGIT)));
    each.filter_map(move |more| rank.checked_add(more).filter(|below| *below < size))
}

/// Bits of a digit.
const DIGIT: u32 = 3;

/// The tree over the records of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    size: u32,
    /// The leaves first, and the top alone in the last one.
    levels: Vec<Vec<[u8; HASH]>>,
}

impl Tree {
    /// Over these records, which are those of all ranks.
    pub fn over(contacts: &Contacts, digest: Digest) -> Tree {
        let size = contacts.len();
        let leaves = (0..ranges(size)).filter_map(|number| contacts.range(number));
        let mut levels: Vec<Vec<_>> = vec![leaves.map(|bytes| leaf(bytes, digest)).collect()];
        while let Some(last) = levels.last().filter(|last| last.len() > 1) {
            let above = last.chunks(2).map(|pair| match pair {
                [left, right] => node(left, right, digest),
                alone => alone[0],
            });
            let above = above.collect();
            levels.push(above);
        }
        Tree { size, levels }
    }

    /// The root, which stands for the number of ranks too. `None`: it is over no records.
    pub fn root(&self, digest: Digest) -> Option<[u8; HASH]> {
        Some(root(self.size, self.levels.last()?.first()?, digest))
    }

    /// The hashes that lead from a range to the top: at each level that of the node beside it, if there is one.
    pub fn branch(&self, number: u32) -> Vec<[u8; HASH]> {
        let beside = (0u32..).zip(&self.levels).map(|(height, level)| level.get(((number >> height) ^ 1) as usize));
        beside.flatten().copied().collect()
    }
}

/// The root of the tree over these records, and the record of the leader, in place of all. `None`: there is no such rank, or these
/// are not all records.
pub fn rooted(contacts: &Contacts, leader: u32, digest: Digest) -> Option<Contacts> {
    contacts.under(Tree::over(contacts, digest).root(digest)?, leader)
}

/// A range with its branch, as it travels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range<'a> {
    branch: Vec<[u8; HASH]>,
    records: &'a [u8],
}

impl<'a> Range<'a> {
    /// The range of this number. `None`: there is no such range, or these are not all records.
    pub fn of(contacts: &'a Contacts, tree: &Tree, number: u32) -> Option<Range<'a>> {
        Some(Range { branch: tree.branch(number), records: contacts.range(number)? })
    }

    /// Appends it to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.put_u8(self.branch.len() as u8);
        out.extend_from_slice(self.branch.as_flattened());
        out.extend_from_slice(self.records);
    }

    /// Reads what [`Range::encode`] has written. The records are not read yet.
    pub fn decode(bytes: &'a [u8]) -> Result<Range<'a>, Malformed> {
        let mut rest = Take(bytes);
        let count = rest.u8()?;
        if count > MAX_BRANCH {
            return Err(Malformed);
        }
        let branch = (0..count).map(|_| rest.array()).collect::<Result<_, _>>()?;
        let records = rest.rest();
        if records.len() > MAX_RANGE { Err(Malformed) } else { Ok(Range { branch, records }) }
    }

    /// The records as they stand among those of the group.
    pub fn records(&self) -> &'a [u8] {
        self.records
    }

    /// The records, by rank, if this is the range of this number of the group of `size` ranks with this root. `Err`: it is not.
    pub fn check(&self, top: &[u8; HASH], size: u32, number: u32, digest: Digest) -> Result<Ranked, Malformed> {
        let (mut at, mut count) = (number, ranges(size));
        if at >= count {
            return Err(Malformed);
        }
        let mut hash = leaf(self.records, digest);
        let mut branch = self.branch.iter();
        while count > 1 {
            if (at ^ 1) < count {
                let beside = branch.next().ok_or(Malformed)?;
                hash = if at & 1 == 0 { node(&hash, beside, digest) } else { node(beside, &hash, digest) };
            }
            (at, count) = (at / 2, count.div_ceil(2));
        }
        if branch.next().is_some() || root(size, &hash, digest) != *top {
            return Err(Malformed);
        }
        let first = number * RANKS;
        let records = Contacts::decode(self.records, RANKS.min(size - first))?;
        Ok((first..).zip(records.iter()).collect())
    }
}

// What stands before the content keeps leaves, nodes and roots apart.

fn leaf(records: &[u8], digest: Digest) -> [u8; HASH] {
    digest(&[&[LEAF], records].concat())
}

fn node(left: &[u8; HASH], right: &[u8; HASH], digest: Digest) -> [u8; HASH] {
    digest(&[&[NODE][..], left, right].concat())
}

fn root(size: u32, top: &[u8; HASH], digest: Digest) -> [u8; HASH] {
    digest(&[&[ROOT][..], &size.to_le_bytes(), top].concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TransportId;

    /// Good enough to tell other bytes: FNV-1a.
    fn digest(bytes: &[u8]) -> [u8; HASH] {
        let next = |hash: u128, byte: &u8| (hash ^ u128::from(*byte)).wrapping_mul(0x0100_0000_0000_0000_0000_013b);
        bytes.iter().fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d, next).to_le_bytes()
    }

    fn group(size: u32) -> Contacts {
        let contact = |rank: u32| {
            let mut process = [1; 16];
            process[..4].copy_from_slice(&rank.wrapping_mul(0x9e37_79b9).to_le_bytes());
            Contact::new(process, [(rank / 64) as u8; 16], [(TransportId::registered(2), &rank.to_le_bytes()[..])])
        };
        (0..size).map(contact).collect::<Vec<_>>().into()
    }

    fn encoded(contacts: &Contacts, tree: &Tree, number: u32) -> Vec<u8> {
        let mut bytes = Vec::new();
        Range::of(contacts, tree, number).expect("a range").encode(&mut bytes);
        bytes
    }

    #[test]
    fn each_range_leads_to_the_root_and_to_no_other() {
        for size in (1..=4).chain([31, 32, 33, 64, 65, 95, 97, 160, 161, 500, 1024, 1025]) {
            let contacts = group(size);
            let tree = Tree::over(&contacts, digest);
            let root = tree.root(digest).expect("it has ranks");
            assert_eq!(Range::of(&contacts, &tree, ranges(size)), None);
            for number in 0..ranges(size) {
                let bytes = encoded(&contacts, &tree, number);
                let range = Range::decode(&bytes).expect("what was written");
                let records = range.check(&root, size, number, digest).expect("it is of the group");
                let all: Vec<_> = (0..size).zip(contacts.iter()).skip((number * RANKS) as usize).collect();
                assert_eq!(records, all[..all.len().min(RANKS as usize)]);
                assert!(range.branch.len() <= size.ilog2() as usize + 1);
                // Of another place, of a group of another size, of another group.
                for other in (0..ranges(size) + 2).filter(|other| *other != number) {
                    assert!(range.check(&root, size, other, digest).is_err(), "{number} as {other} of {size}");
                }
                for other in [size - 1, size + 1, 2 * size, size + RANKS] {
                    assert!(range.check(&root, other, number, digest).is_err(), "{number} of {size} as of {other}");
                }
                assert!(range.check(&digest(&root), size, number, digest).is_err());
            }
        }
    }

    #[test]
    fn a_root_stands_for_all_but_the_leader() {
        let whole = group(70);
        let all: Vec<Contact> = whole.iter().collect();
        let made = rooted(&whole, 33, digest).expect("a member");
        let read = Contacts::decode(made.bytes(), 70).expect("what was written");
        assert_eq!((&read, read.leader(), read.len()), (&made, Some(33), 70));
        assert_eq!(read.root().copied(), Tree::over(&whole, digest).root(digest));
        assert_eq!(read.iter().collect::<Vec<_>>(), all[33..34]);
        assert_eq!((read.get(33).as_ref(), read.get(32)), (Some(&all[33]), None));
        assert!(read.range(0).is_none() && rooted(&read, 33, digest).is_none() && rooted(&whole, 70, digest).is_none());
        let bytes = made.bytes();
        assert!((0..bytes.len()).all(|n| Contacts::decode(&bytes[..n], 70).is_err()));
        assert!(Contacts::decode(bytes, 33).is_err(), "the leader is a member");
        assert!(Contacts::decode(&[bytes, &[0]].concat(), 70).is_err());
    }

    #[test]
    fn no_byte_can_be_another() {
        let contacts = group(200);
        let tree = Tree::over(&contacts, digest);
        let root = tree.root(digest).expect("it has ranks");
        for number in [0, 3, 6] {
            let bytes = encoded(&contacts, &tree, number);
            let is_good =
                |bytes: &[u8]| Range::decode(bytes).is_ok_and(|range| range.check(&root, 200, number, digest).is_ok());
            assert!(is_good(&bytes));
            for at in 0..bytes.len() {
                let mut bent = bytes.clone();
                bent[at] ^= 1;
                assert!(!is_good(&bent) && !is_good(&bytes[..at]), "byte {at}");
            }
            assert!(!is_good(&[&bytes[..], &[0]].concat()));
        }
    }

    #[test]
    fn each_rank_is_below_one_other() {
        for size in (1..70).chain([255, 256, 257, 300, 4097]) {
            assert_eq!(above(0), None);
            for rank in 1..size {
                let above = above(rank).expect("only the leader has none");
                assert_eq!(below(above, size).filter(|below| *below == rank).count(), 1, "{rank} of {size}");
            }
            assert_eq!((0..size).map(|rank| below(rank, size).count() as u32).sum::<u32>(), size - 1);
        }
        let way = std::iter::successors(Some(0xf_ffff), |rank| above(*rank));
        assert_eq!(way.count(), 8);
        assert_eq!(below(0, 1 << 20).count(), 45);
        assert_eq!(above(u32::MAX), Some(u32::MAX - 7));
    }

    #[test]
    fn a_node_is_no_leaf() {
        // Records that read as the two hashes below a node are no range at its place.
        let contacts = group(4 * RANKS);
        let tree = Tree::over(&contacts, digest);
        let root = tree.root(digest).expect("it has ranks");
        let two = tree.levels[0][..2].as_flattened();
        let range = Range { branch: vec![tree.levels[1][1]], records: two };
        assert!(range.check(&root, 2 * RANKS, 0, digest).is_err() && range.check(&root, 4 * RANKS, 0, digest).is_err());
    }

    #[test]
    fn long_branches_and_long_ranges_are_refused() {
        let branch = |count: u8| [&[count][..], &vec![0; usize::from(count) * HASH]].concat();
        assert!(Range::decode(&branch(MAX_BRANCH)).is_ok() && Range::decode(&branch(MAX_BRANCH + 1)).is_err());
        assert!(Range::decode(&[]).is_err() && Range::decode(&[1]).is_err());
        assert!(Range::decode(&vec![0; 1 + MAX_RANGE]).is_ok() && Range::decode(&vec![0; 2 + MAX_RANGE]).is_err());
    }
}
