//! What lies between simulated processes: hosts, firewalls that are open in one direction, strangers, and dials that are
//! refused, are never answered, or whose answer is lost.

use crate::lanes::{Knife, SimLane};
use base::ProcId;
use session::{AttemptId, IncomingId};
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use transports::sim::datagram::{self, Faults, Injected};
use transports::sim::{Clock, Rng, pipe, shared};
use transports::stream::StreamLane;
use wire::{About, Contact, Hello, HelloAck, Place, Scope, TransportId};

/// A transport for processes of one host, whose kernel knows both ends of a lane.
pub const NEAR: About =
    About { id: TransportId::registered(1), word: "near", title: "near", scope: Scope::Host, limit: 1000 };
/// A transport for processes of all hosts.
pub const FAR: About =
    About { id: TransportId::registered(2), word: "far", title: "far", scope: Scope::Anywhere, limit: 10_000 };

/// The number of no process.
pub const NOBODY: usize = usize::MAX;

/// How far a dial is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// Not through to the other host yet.
    Syn,
    /// The HELLO is under way.
    Hello,
    /// The other side has the HELLO and has not answered.
    Heard,
    /// The answer is under way.
    Answered,
    /// The dialling side has its lane; its last word is under way.
    Ready,
    /// The other side has closed it.
    Closed,
    /// Nothing more will come of it, and nobody is told.
    Lost,
}

/// One dial, from its beginning until both sides have their lanes.
pub struct Connection {
    /// [`NOBODY`]: a stranger.
    pub from: usize,
    pub attempt: AttemptId,
    pub to: usize,
    /// By the transport for one host: the first byte of the number of the process that it is for.
    pub near: Option<u8>,
    pub stage: Stage,
    pub hello: Hello,
    pub ack: Option<HelloAck>,
    pub incoming: Option<IncomingId>,
    /// It was accepted because the lane in use was asked and did not answer.
    pub mute: bool,
    /// It sends no HELLO.
    pub silent: bool,
    /// The ends of the lane that it becomes: the dialling side's first.
    pub ends: [Option<SimLane>; 2],
}

/// The newest lane between two processes, to be broken.
pub struct Cable {
    pub pair: (usize, usize),
    pub knife: Knife,
    pub is_dark: bool,
}

pub struct Network {
    pub rng: Rng,
    pub clock: Clock,
    pub injected: Rc<RefCell<Injected>>,
    /// The host of each process.
    pub hosts: Vec<u8>,
    /// The process that is held, of which nothing is there at present.
    pub absent: Option<usize>,
    /// The process that has taken the transport for one host out of use.
    pub closed: Option<usize>,
    /// From which host to which nothing gets through, and whether dials are refused rather than lost.
    pub firewall: Option<(u8, u8, bool)>,
    pub connections: Vec<Connection>,
    pub cables: Vec<Cable>,
    /// Those between the same processes before, as far as they are dark.
    pub dark: Vec<Cable>,
    /// Ends of lanes whose other end was never taken up and is not closed, with the process that holds each.
    pub half_open: Vec<(usize, SimLane)>,
    /// Incoming connections that have hung up, and at which process.
    pub hung_up: Vec<(usize, IncomingId)>,
    /// How large a remote group may be whose ranks have their pairs from the beginning.
    pub at_once: u32,
    /// How many descriptors each process may have open.
    pub descriptors: usize,
    /// How many dials may still go wrong.
    pub trouble: u64,
    /// Which process each name is of.
    pub owners: HashMap<ProcId, usize>,
    /// How often each process was frozen and thawed elsewhere.
    pub lives: Vec<u8>,
    /// Whether lanes that lose frames are used.
    pub lossy: bool,
}

impl Network {
    /// The record of a process: `life` counts its restarts.
    pub fn contact(&self, process: usize, life: u8) -> Contact {
        let (number, place) = (number(process, life), self.place(process));
        let near = (self.closed != Some(process)).then_some((NEAR.id, &[][..]));
        let entries = near.into_iter().chain([(FAR.id, &place.address[..])]);
        Contact::new(number, [self.hosts[process] + 1; 16], entries)
    }

    /// Where a process listens: the same after a restart.
    pub fn place(&self, process: usize) -> Place {
        let address = [self.hosts[process], process as u8];
        Place { transport: FAR.id, address: address.into(), host_part: 1, text: format!("p{process}").into() }
    }

    pub fn blocks(&self, from: usize, to: usize) -> Option<bool> {
        let (a, b, told) = self.firewall?;
        (self.hosts[from] == a && self.hosts[to] == b).then_some(told)
    }

    /// Both ends of a new lane.
    pub fn lane(&mut self, from: usize, to: usize, near: bool) -> [Option<SimLane>; 2] {
        let lossy = self.lossy && self.rng.percent(50);
        self.lane_that(from, to, near, lossy)
    }

    /// Both ends of a new lane, which loses frames if it is `lossy` and not `near`.
    pub fn lane_that(&mut self, from: usize, to: usize, near: bool, lossy: bool) -> [Option<SimLane>; 2] {
        let rng = &mut self.rng;
        let (mut a, b) = if near {
            let (a, b) = shared::pair(1 + rng.below(40) as usize, rng.percent(60));
            (SimLane::Shared(a), SimLane::Shared(b))
        } else if lossy {
            let faults =
                Faults { loss_percent: rng.below(25), double_percent: rng.below(25), max_delay: rng.below(30) };
            let capacity = 1 + rng.below(40) as usize;
            let (a, b) = datagram::pair(rng, &self.clock, faults, capacity, &self.injected);
            (SimLane::Datagram(a), SimLane::Datagram(b))
        } else {
            let capacity = 30 + rng.below(3000) as usize;
            let (a, b) = pipe::pair(rng, capacity);
            let long = [50, 1 << 20][rng.below(2) as usize];
            let [a, b] = [a, b].map(|end| {
                let mut lane = StreamLane::new(end);
                lane.set_long(long);
                SimLane::Stream(lane)
            });
            (a, b)
        };
        let knife = a.knife(rng);
        let pair = (from.min(to), from.max(to));
        let before = self.cables.extract_if(.., |cable| cable.pair == pair);
        self.dark.extend(before.filter(|cable| cable.is_dark));
        self.cables.push(Cable { pair, knife, is_dark: false });
        [Some(a), Some(b)]
    }

    /// How many connections that a process has accepted have no lane yet.
    pub fn incoming(&self, to: usize) -> usize {
        // Those of other hosts have theirs when they are answered.
        let waits = |c: &&Connection| c.incoming.is_some() && (c.near.is_some() || c.stage == Stage::Heard);
        self.connections.iter().filter(|c| c.to == to).filter(waits).count()
    }

    /// Whether this dial goes wrong now.
    pub fn goes_wrong(&mut self, percent: u64) -> bool {
        let wrong = self.trouble > 0 && self.rng.percent(percent);
        self.trouble -= u64::from(wrong);
        wrong
    }
}

/// The number of a process: another after each restart.
pub fn number(process: usize, life: u8) -> [u8; 16] {
    let mut number = [process as u8 + 1; 16];
    number[0] = life + 1;
    number
}

pub fn near_place(process: [u8; 16]) -> Place {
    Place { transport: NEAR.id, address: process.into(), host_part: 0, text: "near".into() }
}
