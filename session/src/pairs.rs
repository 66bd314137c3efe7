//! The table of pairs: they are made, found, and known by their contact records.
//!
//! Part of the session. Invariant: a pair's number equals the engine's number of its peer.

use crate::path::Path;
use crate::state::Session;
use crate::state::pair::{Link, Pair, PathRef};
use base::{Memory, ProcId, tight};
use engine::Gone;
use wire::Contact;
use wire::frame::MAX_PAYLOAD;
use wire::lane::Lane;

impl<L: Lane<M>, M: Memory> Session<L, M> {
    /// The number of the pair of these two processes.
    pub fn find_pair(&self, local: ProcId, remote: ProcId) -> Option<usize> {
        self.pairs.find(local, remote)
    }

    /// The pair of this number; in a free slot it is one whose process is gone.
    ///
    /// # Panics
    /// If the number is not below [`Session::pairs_made`].
    #[inline]
    pub fn pair(&self, i: usize) -> &Pair<L> {
        &self.pairs[i]
    }

    /// The user memory, and a pair's lane.
    #[inline]
    pub fn mem_and_lane(&mut self, i: usize) -> (&mut M, Option<&L>) {
        (&mut self.mem, self.pairs[i].lane().map(|up| &up.lane))
    }

    /// As [`Session::pair`].
    #[inline]
    pub fn pair_mut(&mut self, i: usize) -> &mut Pair<L> {
        &mut self.pairs[i]
    }

    /// All slots with their numbers, free ones too.
    pub fn pairs(&self) -> impl Iterator<Item = (usize, &Pair<L>)> {
        self.pairs.iter()
    }

    /// As [`Session::pairs`], without the numbers.
    pub fn pairs_mut(&mut self) -> impl Iterator<Item = &mut Pair<L>> {
        self.pairs.iter_mut()
    }

    /// The number of slots: all numbers of pairs are below it.
    #[inline]
    pub fn pairs_made(&self) -> usize {
        self.pairs.len()
    }

    /// How many pairs there are.
    pub fn pairs_in_use(&self) -> usize {
        self.pairs.in_use()
    }

    /// The number of the pair of these two processes, which is made if there is none.
    pub(crate) fn make_pair(&mut self, local: ProcId, remote: ProcId) -> usize {
        if let Some(i) = self.pairs.find(local, remote) {
            return i;
        }
        let between = self.groups.meet(local.incarnation, remote.incarnation);
        between.pairs += 1;
        let peer = self.engine.add_peer(between.number);
        let over = between.over.get(&remote.rank).copied();
        let i = peer.0 as usize;
        self.pairs.last_serial += 1;
        let mut pair = Pair::new(Path::with_limits(local, remote, self.limits.clone()), peer, self.pairs.last_serial);
        if let Some(gone) = over {
            pair.link = Link::Gone { how: gone, last: None };
            self.engine.on_gone(peer, gone);
            self.agenda.leaving.insert(i);
        }
        if self.groups.admit_pair(local.incarnation, PathRef { slot: i, serial: pair.serial }) {
            pair.caller = Some(Default::default());
            self.engine.only_control(peer);
        }
        if i == self.pairs.slots.len() {
            tight::push(&mut self.pairs.slots, pair);
        } else {
            self.pairs.slots[i] = pair;
        }
        self.pairs.by_ids.insert((local, remote), i);
        self.take_place(i);
        i
    }

    /// As [`Session::make_pair`], with the contact record of the other side.
    pub(crate) fn know(&mut self, local: ProcId, remote: ProcId, cookie: [u8; 16], contact: &Contact) -> usize {
        let mut i = self.make_pair(local, remote);
        let is_known = contact.process != [0; 16];
        if is_known && !self.recognise(i, contact.process) {
            base::log_seldom!(Info, "somebody came as {remote} who is another process: forgotten");
            self.forget_stranger(i);
            i = self.make_pair(local, remote);
        }
        let pair = &mut self.pairs[i];
        pair.who.cookie.get_or_insert(cookie);
        if is_known {
            pair.know_process(contact.process);
        }
        if pair.who.contact.is_none() {
            pair.who.contact = Some(contact.clone());
            if pair.lane().is_none() && pair.needs_lane() {
                self.look_soon(i);
            }
        }
        self.probe_host(i);
        i
    }

    /// Whether this process of another job is known, and is another one than in this contact record: two jobs claim to be the same
    /// group.
    pub fn contradicts(&self, local: ProcId, remote: ProcId, contact: &Contact) -> bool {
        let of_record =
            || Some(self.groups.between(local.incarnation, remote.incarnation)?.contact(remote.rank)?.process);
        let known = self.pairs.find(local, remote).and_then(|i| self.pairs[i].known_process()).or_else(of_record);
        known.is_some_and(|known| contact.process != [0; 16] && known != contact.process)
    }

    // ---- leaders

    /// The path to another leader, which is dialled now. If there is a path already it is that one, whichever side has
    /// dialled.
    pub fn open_control(&mut self, local: ProcId, remote: ProcId, cookie: [u8; 16], contact: &Contact) -> PathRef {
        let i = self.know(local, remote, cookie, contact);
        self.pairs[i].wanted = true;
        self.look_soon(i);
        PathRef { slot: i, serial: self.pairs[i].serial }
    }

    /// The number of the pair behind a path; `None`: it has ended.
    pub(crate) fn of_path(&self, path: PathRef) -> Option<usize> {
        self.has_serial(path.slot, path.serial).then_some(path.slot)
    }

    /// Whether a slot has the pair of this serial number still.
    pub(crate) fn has_serial(&self, i: usize, serial: u64) -> bool {
        #[cfg(feature = "plant")]
        if self.plant == crate::Plant::AnySerial {
            return true;
        }
        self.pairs[i].serial == serial
    }

    /// The number of the pair behind a path; `None`: it has ended.
    pub fn pair_of(&self, path: PathRef) -> Option<usize> {
        self.of_path(path)
    }

    /// Whether the path has a lane.
    pub fn is_connected(&self, path: PathRef) -> bool {
        self.of_path(path).is_some_and(|i| self.pairs[i].lane().is_some())
    }

    /// Sends a CONTROL message to the leader behind a path. If its pair has ended, nothing is sent.
    ///
    /// # Panics
    /// If it is not shorter than 1 MiB.
    pub fn send_control(&mut self, path: PathRef, bytes: &[u8]) {
        assert!(bytes.len() < MAX_PAYLOAD, "a control message fits one frame");
        let Some(i) = self.of_path(path) else { return };
        self.engine.control(self.pairs[i].peer, bytes);
        self.settle();
    }

    /// The next CONTROL message of the leader behind a path, if one has come.
    pub fn recv_control(&mut self, path: PathRef) -> Option<Vec<u8>> {
        self.take_control(self.of_path(path)?)
    }

    pub(crate) fn take_control(&mut self, i: usize) -> Option<Vec<u8>> {
        let pair = &mut self.pairs[i];
        let bytes = pair.inbox.take()?;
        if pair.gone().is_some() {
            self.agenda.leaving.insert(i);
        }
        Some(bytes)
    }

    /// Whether the leader behind a path is gone and all its messages were read; `Finished` too if its pair has ended.
    pub fn path_gone(&self, path: PathRef) -> Option<Gone> {
        let Some(i) = self.of_path(path) else { return Some(Gone::Finished) };
        let pair = &self.pairs[i];
        if pair.inbox.messages.is_empty() { pair.gone() } else { None }
    }

    /// The paths to our leader `local` with CONTROL messages that were not read yet, and these messages.
    pub fn unheard(&self, local: ProcId) -> impl Iterator<Item = (PathRef, impl Iterator<Item = &[u8]>)> {
        let speaks = move |(_, pair): &(usize, &Pair<L>)| {
            pair.local() == local && pair.gone().is_none() && !pair.inbox.messages.is_empty()
        };
        let heard = |(slot, pair): (usize, &Pair<L>)| PathRef { slot, serial: pair.serial };
        self.pairs
            .iter()
            .filter(speaks)
            .map(move |one| (heard(one), self.pairs[one.0].inbox.messages.iter().map(Vec::as_slice)))
    }

    /// Gives up the caller behind a path, since it has violated the protocol.
    pub(crate) fn send_away(&mut self, path: PathRef) {
        if let Some(i) = self.of_path(path) {
            self.give_up(i, Gone::Dead, "it does not keep to the protocol");
        }
    }

    /// Gives up the leader behind a path, since there is an [`crate::Obstacle`] between the two.
    pub fn abandon(&mut self, path: PathRef) {
        if let Some(i) = self.of_path(path) {
            self.give_up(i, Gone::Dead, "nothing can carry messages between the two");
        }
    }

    /// Takes a refusal at each address of the leader behind a path as a proof that it is gone, until it has had a lane:
    /// for a port, which was open before its name could be known.
    pub fn believe_refusals(&mut self, path: PathRef) {
        if let Some(i) = self.of_path(path) {
            self.pairs[i].evidence.at_port = true;
        }
    }
}
