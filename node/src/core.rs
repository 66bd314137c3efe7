//! All state of one process's end: groups, pairs and inter-communicators.
//!
//! Used under the node's lock. Invariant: `pairs` is indexed by the engine's peer numbers; a user buffer is in the
//! table exactly as long as its operation is not over.

use crate::arrivals::Knock;
use crate::config::{Config, StartError};
use crate::life::Vigil;
use crate::local::Local;
use crate::memory::{Buffers, Counted};
use crate::operations::Judging;
use crate::pair::Pair;
use crate::ports::Extra;
use crate::pull::Pull;
use crate::reach::Reach;
use crate::waits;
use crate::watch::{Owner, Watch};
use crate::{Group, InterId, PathRef, RemoteGroup};
use base::ProcId;
use base::ident::random;
use engine::{ContextId, Ctx, Engine, Gone, OpId, PeerId, Source};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;
use transports::frame::MAX_PAYLOAD;
use transports::lane::Lanes;
use transports::tcp::{Contact, Listeners, PortRange, choose, own_contact};

pub struct Core {
    pub(crate) engine: Engine,
    pub(crate) mem: Buffers,
    pub(crate) watch: Arc<Watch>,
    pub(crate) listeners: Option<Listeners>,
    pub(crate) ports: Option<PortRange>,
    pub(crate) extra: Vec<Extra>,
    pub(crate) lanes: Lanes,
    /// Connections of a lane that we dial.
    pub(crate) tcp_sockets: u16,
    /// What there is for others on this host, if shared memory may be used.
    pub(crate) local: Option<Local>,
    pub(crate) contact: Contact,
    pub(crate) groups: HashMap<u64, Known>,
    pub(crate) pairs: Vec<Pair>,
    pub(crate) by_ids: HashMap<(ProcId, ProcId), usize>,
    /// By (our incarnation, theirs).
    pub(crate) between: HashMap<(u64, u64), Between>,
    next_number: u64,
    next_serial: u64,
    /// Pairs whose other side nobody has told us of.
    pub(crate) strangers: Vec<usize>,
    pub(crate) halfway: HashMap<u32, Knock>,
    pub(crate) next_halfway: u32,
    /// The listeners rest until then: out of descriptors.
    pub(crate) accept_again: Option<Instant>,
    /// By slot; with the serial number of the tenant.
    inters: Vec<Option<Inter>>,
    next_inter: u32,
    /// Processes of this job on this host.
    pub(crate) local_processes: usize,
    /// Whether waiting may take a processor for itself.
    pub(crate) may_spin: bool,
    pub(crate) forgotten: Vec<OpId>,
    pub(crate) waits: waits::Table,
    /// Receives whose outcome is not simply the engine's, from jobs with another representation and such with types.
    pub(crate) judging: Counted<Judging>,
    /// What is being read from others' memory, and memory for that: for data, and for what one call reads.
    pub(crate) pulls: VecDeque<Pull>,
    pub(crate) pull_buffer: Vec<u8>,
    pub(crate) pull_window: Vec<(u64, u64)>,
    /// Pairs from whose lane something came lately.
    pub(crate) busy: Vec<usize>,
    /// How many sleep on the watch.
    pub(crate) sleepers: usize,
    /// Pairs that have something to write; and memory for as many.
    pub(crate) dirty: Vec<usize>,
    pub(crate) no_longer_dirty: Vec<usize>,
    /// Pairs that are being connected: to be looked at as time passes.
    pub(crate) timed: BTreeSet<usize>,
    /// Pairs that no inter-communicator uses any more, to be seen off.
    pub(crate) leaving: BTreeSet<usize>,
    pub(crate) next_tick: Instant,
    /// Calls since the last round.
    pub(crate) without_round: u32,
    pub(crate) reach: Reach,
    pub(crate) vigil: Vigil,
    /// Only CONTROL and the last words go out any more.
    pub(crate) closing: bool,
    pub(crate) events: Vec<crate::watch::Happened>,
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
}

/// An open inter-communicator.
struct Inter {
    serial: u32,
    ctx: Ctx,
    /// The pairs of the remote group, by rank.
    members: Arc<[usize]>,
}

/// A registered group of ours; kept after it was removed, for those who came before.
pub(crate) struct Known {
    pub group: Group,
    pub removed: bool,
    /// Of a port: those who have come and whom nobody has asked for yet, in order.
    pub callers: Option<VecDeque<PathRef>>,
    /// How many pairs have it as their local side.
    pub pairs: usize,
}

/// What the pairs of two incarnations share.
pub(crate) struct Between {
    /// The engine's number for all peers reached through these.
    pub number: u64,
    pub pairs: usize,
    /// How many ranks the remote group has, once that is known.
    pub size: Option<u32>,
    /// Remote ranks whose pair has ended while our group stands: they may still be named.
    pub over: BTreeMap<u32, Gone>,
}

impl Core {
    pub(crate) fn new(config: &Config, watch: Arc<Watch>) -> Result<Core, StartError> {
        let listeners = if config.lanes.tcp {
            let addresses =
                choose(config.iface.as_deref()).map_err(|e| StartError::Setting(format!("MPI_CONNECT_IFACE: {e}")))?;
            Listeners::open(&addresses, config.ports).map_err(|e| StartError::System(e.to_string()))?
        } else {
            Listeners::none()
        };
        for (i, fd) in listeners.fds() {
            watch.set(fd, Owner::Listener(i as u32), false);
        }
        let contact = own_contact(random(), &listeners);
        base::log!(
            Info,
            "listening on {}",
            base::log::list(&contact.addresses, "no address: tcp is not allowed by MPI_CONNECT_LANES")
        );
        let local = Local::open(config, &contact.process, &watch);
        Ok(Core {
            engine: Engine::new(engine::Config::default()),
            mem: Buffers::default(),
            watch,
            listeners: Some(listeners),
            ports: config.ports,
            extra: Vec::new(),
            lanes: config.lanes,
            tcp_sockets: config.tcp_sockets,
            local,
            contact,
            groups: HashMap::new(),
            pairs: Vec::new(),
            by_ids: HashMap::new(),
            between: HashMap::new(),
            next_number: 0,
            next_serial: 1,
            strangers: Vec::new(),
            halfway: HashMap::new(),
            next_halfway: 0,
            accept_again: None,
            inters: Vec::new(),
            next_inter: 0,
            local_processes: 1,
            may_spin: false,
            forgotten: Vec::new(),
            waits: waits::Table::new(config.notice),
            judging: Counted::default(),
            pulls: VecDeque::new(),
            pull_buffer: Vec::new(),
            pull_window: Vec::new(),
            busy: Vec::new(),
            sleepers: 0,
            dirty: Vec::new(),
            no_longer_dirty: Vec::new(),
            timed: BTreeSet::new(),
            leaving: BTreeSet::new(),
            next_tick: Instant::now(),
            without_round: 0,
            reach: Reach::default(),
            vigil: Vigil::default(),
            closing: false,
            events: Vec::new(),
            bytes_in: 0,
            bytes_out: 0,
        })
    }

    // ---- groups, pairs, inter-communicators

    pub(crate) fn add_group(&mut self, group: Group) {
        self.groups.insert(group.incarnation, Known { group, removed: false, callers: None, pairs: 0 });
    }

    /// Whether the other side can be talked to now.
    pub fn is_connected(&self, path: PathRef) -> bool {
        self.of_path(path).is_some_and(|i| self.pairs[i].lane.is_some())
    }

    pub(crate) fn find_pair(&self, local: ProcId, remote: ProcId) -> Option<usize> {
        self.by_ids.get(&(local, remote)).copied()
    }

    pub(crate) fn make_pair(&mut self, local: ProcId, remote: ProcId) -> usize {
        if let Some(i) = self.find_pair(local, remote) {
            return i;
        }
        let between = self.between.entry((local.incarnation, remote.incarnation)).or_insert_with(|| {
            self.next_number += 1;
            Between { number: self.next_number, pairs: 0, size: None, over: BTreeMap::new() }
        });
        between.pairs += 1;
        let peer = self.engine.add_peer(between.number);
        let mut pair = Pair::new(local, remote, peer, self.next_serial);
        self.next_serial += 1;
        let i = peer.0 as usize;
        if let Some(&gone) = between.over.get(&remote.rank) {
            pair.gone = Some(gone);
            self.engine.on_gone(peer, gone);
            self.leaving.insert(i);
        }
        if let Some(known) = self.groups.get_mut(&local.incarnation) {
            known.pairs += 1;
            if let Some(callers) = &mut known.callers {
                callers.push_back(PathRef { slot: i, serial: pair.serial });
                pair.is_caller = true;
                self.engine.only_control(peer);
            }
        }
        if i == self.pairs.len() {
            self.pairs.push(pair);
        } else {
            self.pairs[i] = pair;
        }
        self.by_ids.insert((local, remote), i);
        i
    }

    /// The pair of these two, of whom the other is known by this record.
    fn know(&mut self, local: ProcId, remote: ProcId, cookie: [u8; 16], contact: &Contact) -> usize {
        let mut i = self.make_pair(local, remote);
        if contact.process != [0; 16] && !self.recognise(i, contact.process) {
            base::log_seldom!(Info, "somebody came as {remote} who is another process: forgotten");
            self.forget_stranger(i);
            i = self.make_pair(local, remote);
        }
        let pair = &mut self.pairs[i];
        pair.cookie.get_or_insert(cookie);
        if contact.process != [0; 16] {
            pair.process.get_or_insert(contact.process);
        }
        if pair.contact.is_none() {
            pair.contact = Some(contact.clone());
            if pair.lane.is_none() && pair.needs_lane() {
                self.look_soon(i);
            }
        }
        self.touch(i);
        i
    }

    /// What depends on time is to be looked at for this pair, and now: it may have to be dialled.
    pub(crate) fn look_soon(&mut self, i: usize) {
        if self.timed.insert(i) {
            self.next_tick = Instant::now();
        }
    }

    pub(crate) fn open_control(
        &mut self,
        local: ProcId,
        remote: ProcId,
        cookie: [u8; 16],
        contact: &Contact,
    ) -> PathRef {
        let i = self.know(local, remote, cookie, contact);
        self.pairs[i].wanted = true;
        self.look_soon(i);
        PathRef { slot: i, serial: self.pairs[i].serial }
    }

    /// `None`: that pair has ended.
    pub(crate) fn of_path(&self, path: PathRef) -> Option<usize> {
        (self.pairs[path.slot].serial == path.serial).then_some(path.slot)
    }

    pub fn send_control(&mut self, path: PathRef, bytes: &[u8]) {
        assert!(bytes.len() < MAX_PAYLOAD, "a control message fits one frame");
        let Some(i) = self.of_path(path) else { return };
        self.engine.control(self.pairs[i].peer, bytes);
        self.settle();
    }

    pub fn recv_control(&mut self, path: PathRef) -> Option<Vec<u8>> {
        let i = self.of_path(path)?;
        let pair = &mut self.pairs[i];
        let bytes = pair.controls.pop_front()?;
        pair.control_bytes -= bytes.len();
        if pair.gone.is_some() {
            self.leaving.insert(i);
        }
        Some(bytes)
    }

    /// Whether that leader is gone and all that it said has been read.
    pub fn path_gone(&self, path: PathRef) -> Option<Gone> {
        let Some(i) = self.of_path(path) else { return Some(Gone::Finished) };
        let pair = &self.pairs[i];
        if pair.controls.is_empty() { pair.gone } else { None }
    }

    pub(crate) fn refuse(&mut self, path: PathRef, context: ContextId) {
        let Some(i) = self.of_path(path) else { return };
        self.refuse_among(i, context);
    }

    /// Nobody here will open this context, counted among the pairs of pair `i`'s incarnations.
    fn refuse_among(&mut self, i: usize, context: ContextId) {
        let pair = &self.pairs[i];
        if let Some(between) = self.between.get(&(pair.local.incarnation, pair.remote.incarnation)) {
            self.engine.refuse(between.number, context);
            self.settle();
        }
    }

    pub(crate) fn open(&mut self, local: ProcId, remote: &RemoteGroup, context: ContextId) -> InterId {
        let members = (0u32..)
            .zip(&remote.contacts)
            .map(|(rank, contact)| {
                self.know(local, ProcId { incarnation: remote.incarnation, rank }, remote.cookie, contact)
            })
            .collect();
        if let Some(between) = self.between.get_mut(&(local.incarnation, remote.incarnation)) {
            between.size = u32::try_from(remote.contacts.len()).ok();
        }
        self.open_with(members, context, local.rank)
    }

    pub(crate) fn open_child(&mut self, parent: InterId, context: ContextId, rank: u32, members: &[u32]) -> InterId {
        let of_parent = &self.inter(parent).expect("an open parent").members;
        let members = members.iter().map(|&rank| of_parent[rank as usize]).collect();
        self.open_with(members, context, rank)
    }

    pub(crate) fn refuse_child(&mut self, parent: InterId, context: ContextId) {
        let member = self.inter(parent).expect("an open parent").members[0];
        self.refuse_among(member, context);
    }

    fn inter(&self, id: InterId) -> Option<&Inter> {
        self.inters.get(id.slot as usize)?.as_ref().filter(|inter| inter.serial == id.serial)
    }

    /// Opens one with these pairs as its remote group, in which we are `rank` in the local group.
    fn open_with(&mut self, members: Arc<[usize]>, context: ContextId, rank: u32) -> InterId {
        for &i in members.iter() {
            self.pairs[i].inters += 1;
        }
        let peers = members.iter().map(|&i| PeerId(i as u32)).collect();
        let ctx = self.engine.open(context, rank, peers);
        self.next_inter += 1;
        let serial = self.next_inter;
        let slot = self.inters.iter().position(Option::is_none).unwrap_or_else(|| {
            self.inters.push(None);
            self.inters.len() - 1
        });
        self.inters[slot] = Some(Inter { serial, ctx, members });
        self.judge_spinning();
        // Something may have arrived before.
        self.settle();
        InterId { slot: slot as u32, serial }
    }

    pub(crate) fn close(&mut self, inter: InterId) {
        if self.inter(inter).is_none() {
            return;
        }
        let Some(Inter { ctx, members, .. }) = self.inters[inter.slot as usize].take() else { return };
        self.engine.close(ctx);
        self.settle();
        for &i in members.iter() {
            self.pairs[i].inters -= 1;
            self.leaving.insert(i);
        }
        self.see_off_all();
    }

    /// A closed inter-communicator has a slot that the engine knows nothing of: it answers "revoked".
    pub(crate) fn ctx(&self, inter: InterId) -> Ctx {
        self.inter(inter).map_or(Ctx(u32::MAX), |inter| inter.ctx)
    }

    /// The pairs that a source means.
    pub(crate) fn sources(&self, inter: InterId, source: Source) -> Vec<usize> {
        let Some(Inter { members, .. }) = self.inter(inter) else { return Vec::new() };
        match source {
            Source::Any => members.to_vec(),
            Source::Rank(r) => members.get(r as usize).copied().into_iter().collect(),
        }
    }

    // ---- watching

    pub(crate) fn want(&mut self, i: usize) {
        let pair = &mut self.pairs[i];
        if !pair.wanted && pair.gone.is_none() {
            pair.wanted = true;
            self.look_soon(i);
        }
    }
}

/// What is watched is in the table of what children close: it must not stay there when the number is used again.
impl Drop for Core {
    fn drop(&mut self) {
        self.shut();
    }
}
