//! How two processes begin where their images were: each tells what it wants of the other, takes messages from there on, and
//! says so.
//!
//! Invariant: no message is sent to a process before it has said that it takes messages. It would be counted twice.

use crate::around::{Around, Opened};
use crate::image::OfPair;
use crate::line::Job;
use crate::message::Message;
use crate::parts;
use base::ProcId;
use base::shares::Shares;
use engine::{Kept, Resume};
use std::collections::{BTreeMap, BTreeSet};

/// Numbers of messages that other processes want before this one knows what its image has for them: some 100 MiB.
const MOST_NUMBERS: usize = 8 << 20;
/// What a process counts for besides.
const PROCESS: usize = 16;

/// What another process wants.
#[derive(Clone, Debug, Default)]
struct Wanted {
    from_image: BTreeSet<u64>,
    once_more: BTreeSet<u64>,
    /// It has told all.
    is_all: bool,
    /// It has told more than there is room for.
    too_much: bool,
    /// Of the room for numbers.
    room: usize,
}

/// The restart of one process, with all others.
#[derive(Clone, Debug)]
pub(crate) struct Resuming<I> {
    wanted: BTreeMap<ProcId, Wanted>,
    shares: Shares<Job>,
    /// The messages of this process's image.
    of: BTreeMap<ProcId, OfPair>,
    /// The inter-communicators, by the other job: two of different jobs may have the same context.
    opened: BTreeMap<Job, Vec<Opened<I>>>,
    /// Messages of the own image for processes that have not said that they take messages.
    leaving: BTreeMap<ProcId, Vec<Kept>>,
}

impl<I: Copy> Resuming<I> {
    pub fn new() -> Resuming<I> {
        Resuming {
            wanted: BTreeMap::new(),
            shares: Shares::default(),
            of: BTreeMap::new(),
            opened: BTreeMap::new(),
            leaving: BTreeMap::new(),
        }
    }

    /// Tells the processes of another job what is wanted of them.
    pub fn begin(
        &mut self,
        around: &mut impl Around<Inter = I>,
        own: ProcId,
        job: Job,
        of: Vec<(u32, OfPair)>,
        opened: Vec<Opened<I>>,
    ) {
        self.opened.insert(job, opened);
        for (rank, of) in of {
            let peer = ProcId { incarnation: job, rank };
            let wanted: Vec<u64> = of.line.wanted.iter().copied().collect();
            let once_more: Vec<u64> = of.line.lacking.iter().copied().collect();
            for message in parts::of_again(&wanted, &once_more) {
                around.tell(own, peer, &message.encode());
            }
            self.of.insert(peer, of);
            self.resume(around, own, peer);
        }
    }

    /// Another process has told a part of what it wants.
    pub fn wants(
        &mut self,
        around: &mut impl Around<Inter = I>,
        (own, peer): (ProcId, ProcId),
        from_image: BTreeSet<u64>,
        once_more: BTreeSet<u64>,
        is_all: bool,
    ) {
        if self.opened.contains_key(&peer.incarnation) && !self.of.contains_key(&peer) {
            // Nothing is to be resumed with it, or it was.
            return;
        }
        let room = PROCESS + from_image.len() + once_more.len();
        let fits = self.shares.take(MOST_NUMBERS, peer.incarnation, room);
        if !fits {
            base::log_seldom!(Error, "{peer} wants more messages after its restart than there is room for");
            if !self.wanted.contains_key(&peer) {
                return;
            }
        }
        let wanted = self.wanted.entry(peer).or_default();
        wanted.too_much |= !fits;
        if fits {
            wanted.from_image.extend(from_image);
            wanted.once_more.extend(once_more);
            wanted.room += room;
        }
        wanted.is_all |= is_all;
        self.resume(around, own, peer);
    }

    /// Begins where the images were, with one process, if both sides know what the other wants.
    fn resume(&mut self, around: &mut impl Around<Inter = I>, own: ProcId, peer: ProcId) {
        let is_told = self.wanted.get(&peer).is_some_and(|wanted| wanted.is_all && !wanted.too_much);
        let Some(of) = is_told.then(|| self.of.remove(&peer)).flatten() else { return };
        let Wanted { mut from_image, mut once_more, room, .. } = self.wanted.remove(&peer).unwrap_or_default();
        self.shares.give_back(peer.incarnation, room);
        // It has no reason to want others.
        let early = of.sent.0 + 1..=of.sent.1;
        once_more.retain(|number| early.contains(number));
        let ours: BTreeSet<u64> = of.leaving.iter().map(|kept| kept.number).collect();
        from_image.retain(|number| ours.contains(number));
        base::log!(
            Debug,
            "{own} goes on with {peer}: has {} messages of it, awaits {} and sends {}; of those to come, {} and {} are sent once more",
            of.line.kept.len(),
            of.line.wanted.len(),
            from_image.len(),
            of.line.lacking.len(),
            once_more.len()
        );
        let again = (once_more, from_image.len() as u64);
        let mut leaving = of.leaving;
        leaving.retain(|kept| from_image.contains(&kept.number));
        self.leaving.insert(peer, leaving);
        around.resume(own, peer, Resume { sent: of.sent, again, arrived: of.arrived, line: of.line });
        around.tell(own, peer, &Message::Resumed.encode());
    }

    /// The other process takes messages: those of the own image are sent.
    pub fn send_image(&mut self, around: &mut impl Around<Inter = I>, peer: ProcId) {
        let opened = self.opened.get(&peer.incarnation).map_or(&[][..], Vec::as_slice);
        for kept in self.leaving.remove(&peer).unwrap_or_default() {
            let inter = opened.iter().find(|(context, ..)| *context == kept.context);
            let to = inter.and_then(|(_, inter, ranks)| Some((*inter, ranks.iter().position(|r| *r == peer.rank)?)));
            if let Some((inter, dest)) = to {
                around.send_again(inter, dest as u32, &kept);
            }
        }
    }

    /// The processes that have not told all that they want, or that they take messages.
    pub fn untold(&self) -> BTreeSet<ProcId> {
        self.of.keys().chain(self.leaving.keys()).copied().collect()
    }
}
