//! One process as its checkpoints see it: an engine, user memory, channels, and whoever writes its files.

use crate::disk::Work;
use crate::net::{Bulk, Net};
use crate::plant::Plant;
use base::memory::VecMemory;
use base::{Memory, ProcId};
use checkpoint::{Around, Chosen, Image, Job, LineId, Message, Process, Store};
use engine::{
    Config, ContextId, Ctx, CutOf, Engine, Kept, Limits, Mode, OpId, Output, PeerId, Resume, Source, Tag, Wildcards,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

/// What was seen.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    pub cuts: u64,
    pub late: u64,
    pub wanted: u64,
    pub early: u64,
    pub again: u64,
    pub calls: u64,
    pub choices: u64,
    pub limited: u64,
}

pub struct Side {
    pub own: ProcId,
    pub engine: Engine,
    pub mem: VecMemory,
    peers: BTreeMap<ProcId, PeerId>,
    /// The other processes by their number in the engine, and their places among all.
    names: Vec<(ProcId, usize)>,
    groups: BTreeMap<Job, u64>,
    joined: BTreeSet<Job>,
    pub works: VecDeque<Work>,
    forgotten: Vec<OpId>,
    pub seen: Seen,
    plant: Plant,
    /// Set by a planted fault.
    ends_replay: Option<ProcId>,
}

impl Side {
    pub fn new(own: ProcId, config: Config, plant: Plant) -> Side {
        let mut engine = Engine::new(config);
        engine.track();
        Side {
            own,
            engine,
            mem: VecMemory::default(),
            peers: BTreeMap::new(),
            names: Vec::new(),
            groups: BTreeMap::new(),
            joined: BTreeSet::new(),
            works: VecDeque::new(),
            forgotten: Vec::new(),
            seen: Seen::default(),
            plant,
            ends_replay: None,
        }
    }

    /// The connection with another process, which has this place among all.
    pub fn peer(&mut self, remote: ProcId, place: usize) -> PeerId {
        if let Some(peer) = self.peers.get(&remote) {
            return *peer;
        }
        let next = self.groups.len() as u64 + 1;
        let group = *self.groups.entry(remote.incarnation).or_insert(next);
        let peer = self.engine.add_peer(group);
        self.peers.insert(remote, peer);
        self.names.push((remote, place));
        peer
    }

    /// Opens an inter-communicator with these processes, and their places.
    pub fn open(&mut self, context: ContextId, rank: u32, members: &[(ProcId, usize)]) -> Ctx {
        let peers = members.iter().map(|(member, place)| self.peer(*member, *place)).collect();
        self.joined.extend(members.iter().map(|(member, _)| member.incarnation));
        self.engine.open(context, rank, peers)
    }

    pub fn send(&mut self, ctx: Ctx, to: u32, tag: i64, data: Vec<u8>, mode: Mode) -> OpId {
        let (op, size) = (self.engine.next_op(), data.len() as u64);
        self.mem.0.insert(op.0, data);
        self.engine.send(&self.mem, op, ctx, to, tag, size, mode);
        op
    }

    pub fn receive(&mut self, ctx: Ctx, source: Source, tag: Tag, room: usize) -> OpId {
        let op = self.engine.next_op();
        self.mem.0.insert(op.0, vec![0; room]);
        self.engine.recv(&mut self.mem, op, ctx, source, tag, room as u64);
        op
    }

    /// Takes messages that have come. What the engine puts out then is with [`Side::put_out`].
    pub fn take(&mut self, peer: PeerId, bytes: &[u8]) -> Result<(), String> {
        self.engine.on_message(&mut self.mem, peer, bytes).map_err(|_| "malformed".to_owned())
    }

    pub fn take_bulk(&mut self, peer: PeerId, (op, offset, data): &Bulk) {
        let len = data.len() as u64;
        if self.engine.bulk_wanted(peer, *op, *offset, len) {
            self.mem.write(*op, *offset, data);
            self.engine.on_bulk(peer, *op, *offset, len);
        }
    }

    /// Carries out all that the engine has put out.
    pub fn put_out(&mut self, process: &mut Process<Ctx>, net: &mut Net, place: usize) {
        if let Some(leader) = self.ends_replay.take() {
            let own = self.own;
            process.told(self, own, leader, &Message::AllReplayed.encode());
        }
        while let Some(output) = self.engine.next_output() {
            match output {
                Output::Message { peer, bytes } | Output::Credit { peer, bytes } => {
                    net.send(place, self.names[peer.0 as usize].1, bytes);
                }
                Output::Bulk { peer, receiver_op, op, offset, len } => {
                    let mut data = Vec::with_capacity(len as usize);
                    self.mem.read(op.0, offset, len as usize, &mut data);
                    net.send_bulk(place, self.names[peer.0 as usize].1, (receiver_op, offset, data));
                }
                Output::Logged { peer, kept } => self.log(process, peer, *kept),
                Output::Whole { peer, op } => {
                    if let Some(kept) = self.engine.whole(&self.mem, op) {
                        self.log(process, peer, kept);
                    }
                }
                Output::Chosen { peer, context, ordinal, source, number, .. } => {
                    let job = self.names[peer.0 as usize].0.incarnation;
                    self.seen.choices += u64::from(process.is_replaying());
                    let own = self.own;
                    process.chose(self, own, job, Chosen { context, ordinal, source, number });
                }
                Output::Control { peer, bytes } => {
                    let (own, remote) = (self.own, self.names[peer.0 as usize].0);
                    let bytes = self.plant.heard(bytes);
                    process.told(self, own, remote, &bytes);
                }
                other => panic!("{other:?}"),
            }
        }
        self.sweep();
    }

    fn log(&mut self, process: &mut Process<Ctx>, peer: PeerId, kept: Kept) {
        let (own, remote) = (self.own, self.names[peer.0 as usize].0);
        process.log(self, own, remote, kept);
    }

    /// The outcome of this operation is not asked for.
    pub fn forget(&mut self, op: OpId) {
        self.engine.forget(op);
        self.forgotten.push(op);
    }

    fn sweep(&mut self) {
        let (engine, mem) = (&self.engine, &mut self.mem);
        self.forgotten.retain(|op| {
            let pending = engine.pending(*op);
            if !pending {
                mem.0.remove(&op.0);
            }
            pending
        });
    }

    /// What its operations wait for.
    pub fn waits(&self) -> String {
        let all = self.engine.going_on().into_iter().filter_map(|op| Some((op, self.engine.awaited(op)?)));
        format!("{:?} of {:?}", all.collect::<Vec<_>>(), self.names)
    }

    /// Whether messages of images are still to come.
    pub fn awaits_images(&self) -> bool {
        self.peers.values().any(|peer| !self.engine.is_resumed(*peer))
    }

    /// The job of a group of the engine.
    fn job_of(&self, group: u64) -> Option<Job> {
        self.groups.iter().find(|(_, known)| **known == group).map(|(job, _)| *job)
    }
}

impl Around for Side {
    type Inter = Ctx;

    fn tell(&mut self, _: ProcId, to: ProcId, bytes: &[u8]) {
        if self.plant == Plant::ReplayEndsEarly && Message::decode(bytes) == Some(Message::Replayed) {
            self.ends_replay = Some(to);
        }
        if let Some(peer) = self.peers.get(&to) {
            self.engine.control(*peer, bytes);
        }
    }

    fn processes_of(&self, _: ProcId, job: Job) -> Vec<ProcId> {
        self.peers.keys().filter(|peer| peer.incarnation == job).copied().collect()
    }

    fn joined(&self, _: ProcId) -> BTreeSet<Job> {
        self.joined.clone()
    }

    fn size_of(&self, _: ProcId, job: Job) -> Option<u32> {
        self.peers.keys().filter(|peer| peer.incarnation == job).map(|peer| peer.rank + 1).max()
    }

    fn cut(&mut self, _: ProcId) -> BTreeMap<ProcId, CutOf> {
        self.seen.cuts += 1;
        let cut = self.engine.cut(&self.mem);
        cut.into_iter().map(|(peer, of)| (self.names[peer.0 as usize].0, of)).collect()
    }

    fn wildcards(&self, _: ProcId) -> Vec<(Job, Wildcards)> {
        self.engine.wildcards().into_iter().filter_map(|of| Some((self.job_of(of.group)?, of))).collect()
    }

    fn watch(&mut self, messages: bool, _: bool) {
        self.engine.log(messages);
    }

    fn resume(&mut self, _: ProcId, peer: ProcId, mut resume: Resume) {
        self.seen.late += resume.line.kept.len() as u64;
        self.seen.wanted += resume.line.wanted.len() as u64;
        self.seen.early += resume.sent.1.saturating_sub(resume.sent.0);
        self.seen.again += resume.again.0.len() as u64;
        match self.plant {
            Plant::LateLost => drop(resume.line.kept.pop()),
            Plant::EarlyDoubled if resume.sent.0 < resume.sent.1 => drop(resume.again.0.insert(resume.sent.0 + 1)),
            _ => (),
        }
        self.engine.resume(self.peers[&peer], resume);
    }

    fn send_again(&mut self, inter: Ctx, dest: u32, kept: &Kept) {
        if self.plant == Plant::ImageLost {
            return;
        }
        let op = self.engine.next_op();
        self.mem.0.insert(op.0, kept.data.clone());
        self.engine.send_again(&self.mem, op, inter, dest, kept);
        self.forget(op);
    }

    fn limit(&mut self, inter: Ctx, limits: Limits) {
        self.seen.limited += limits.chosen.len() as u64;
        let limits = if self.plant == Plant::NotLimited { Limits::default() } else { limits };
        self.engine.limit(inter, limits);
    }

    fn unlimit(&mut self) {
        let all: Vec<_> = self.engine.opened_all().collect();
        all.into_iter().for_each(|ctx| self.engine.unlimit(&mut self.mem, ctx));
    }

    fn write(&mut self, _: ProcId, _: &Store, image: Image) {
        self.works.push_back(Work::Write(Rc::new(image)));
    }

    fn commit(&mut self, _: ProcId, _: &Store, serial: u64, id: LineId) {
        self.works.push_back(Work::Commit(serial, id));
    }
}
