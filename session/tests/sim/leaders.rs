//! Leaders that negotiate: they join by name, connect to ports and accept there, several at once, as the shim drives the
//! session. What they agree on is opened, used once and closed.
//!
//! The naming service is simulated: it knows who lives, and keeps dial requests.

#[path = "verdict.rs"]
mod verdict;

use crate::network::{FAR, Network};
use crate::proc::{Proc, cookie};
use base::ProcId;
use engine::{ContextId, Fault, Mode, OpId, Outcome, Source, Tag};
use session::leaders::{Agreement, Party, Turn, Turns, contacts};
use session::{Group, InterId, PathRef, RemoteGroup};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use transports::sim::Rng;
use wire::{Contact, Contacts};

/// The limit of a call that must not need it, in milliseconds.
const PATIENT: u64 = 60_000;
/// A call may end this long after its limit: the answer to a withdrawal takes 2 s, and the clock leaps by up to 1 s.
const LATE: u64 = 12_000;
/// A port forgets a caller that was away for this long. (The session's limit is 5 s, and the clock leaps.)
const AWAY: u64 = 4_000;
/// How often the naming service is asked.
const ASK: u64 = 500;
/// How often a port looks for dial requests.
const LOOK: u64 = 700;
/// The size of the one message that goes each way, and of the buffers for it.
const SIZE: u64 = 8;
const CAPACITY: u64 = 64;
const TAG: i64 = 7;
/// The incarnation of the first group that calls a port or accepts there.
const FIRST: u64 = 120;

#[derive(Clone, Copy, PartialEq, Debug)]
enum Kind {
    Join,
    /// At this port.
    Accept(usize),
    Connect(usize),
}

/// How a call has ended.
#[derive(Clone, PartialEq, Debug)]
enum End {
    Agreed(Agreement),
    TimedOut,
    Gone,
    /// The port was closed meanwhile.
    Closed,
}

enum State {
    Planned,
    Waiting {
        path: Option<PathRef>,
        /// The end of its limit, by the clock of the run.
        until: Option<u64>,
        /// When the naming service is asked next.
        ask: u64,
    },
    Ended(End),
}

/// One side of a negotiation.
struct Call {
    at: usize,
    kind: Kind,
    /// Its leader.
    me: ProcId,
    /// The processes of its group, by rank.
    group: Vec<usize>,
    limit: Option<u64>,
    state: State,
    /// It has posted a dial request.
    posted: bool,
}

#[derive(PartialEq, Clone, Copy)]
enum Door {
    Planned,
    Open,
    Closed,
}

struct Port {
    at: usize,
    id: ProcId,
    door: Door,
    turns: Turns<PathRef>,
    look: u64,
}

/// What one process does with an agreement: it sends a message to each remote rank, and receives one from each.
struct Exchange {
    at: usize,
    me: ProcId,
    call: usize,
    inter: Option<InterId>,
    /// Whether it is a receive, and the rank.
    ops: Vec<(OpId, bool, u32)>,
    is_over: bool,
}

/// What has happened, for the figures.
#[derive(Default)]
pub struct Count {
    pub joined: u64,
    pub met_at_port: u64,
    pub timed_out: u64,
    pub gone: u64,
    pub orphans: u64,
    pub called_back: u64,
}

/// All that the leaders of a run do. It is one thing, as the judgement of one side needs the other.
#[derive(Default)]
pub struct Leaders {
    calls: Vec<Call>,
    ports: Vec<Port>,
    exchanges: Vec<Exchange>,
    /// Since when a caller of a port has no lane there.
    away: BTreeMap<(usize, u64), u64>,
    /// Since when somebody is dead.
    bereft: Option<u64>,
    /// Callers that have a pair at a port, and had a lane there.
    came: BTreeSet<(usize, u64)>,
    /// Callers that a port may have forgotten.
    forgotten: BTreeSet<u64>,
    pub count: Count,
}

fn leader(incarnation: u64) -> ProcId {
    ProcId { incarnation, rank: 0 }
}

fn id_of(contact: &Contact) -> usize {
    contact.entry(FAR.id).map_or(usize::MAX, |entry| usize::from(entry[1]))
}

fn content(from: ProcId, context: u64) -> [u8; 8] {
    (from.incarnation << 32 | context << 8 | u64::from(from.rank)).to_le_bytes()
}

impl Leaders {
    /// `ids`: the processes of two jobs. `mortal`: somebody is going to die.
    pub fn random(rng: &mut Rng, ids: &[ProcId], net: &mut Network, mortal: bool) -> Leaders {
        let mut all = Leaders::default();
        let job = |g: u64| (0..ids.len()).filter(|p| ids[*p].incarnation == 100 + g).collect::<Vec<_>>();
        let hurry = |rng: &mut Rng| Some([20, 200, 1000, 3000][rng.below(4) as usize] + rng.below(100));
        let patient = rng.percent(60);
        let rounds = rng.below(3);
        for g in 0..2 {
            let rounds = if patient || rng.percent(50) { rounds } else { rng.below(3) };
            for _ in 0..rounds {
                let limit = if patient { Some(PATIENT) } else { hurry(rng) };
                all.plan(job(g)[0], Kind::Join, leader(100 + g), job(g), limit);
            }
        }
        let mut next = FIRST;
        for g in 0..2 {
            if rng.percent(40) {
                continue;
            }
            let (at, port) = (job(g)[0], all.ports.len());
            let id = leader(110 + g);
            net.owners.insert(id, at);
            all.ports.push(Port { at, id, door: Door::Planned, turns: Turns::default(), look: 0 });
            let patient = rng.percent(60);
            let callers = 1 + rng.below(3);
            let accepts = if patient { callers } else { rng.below(callers + 2) };
            for i in 0..callers + accepts {
                let others = job(1 - g);
                let connects = i < callers;
                let at = if connects { others[rng.below(others.len() as u64) as usize] } else { at };
                let kind = if connects { Kind::Connect(port) } else { Kind::Accept(port) };
                let limit = match kind {
                    _ if patient && (connects || mortal) => Some(PATIENT),
                    Kind::Accept(_) if patient || !mortal && rng.percent(30) => None,
                    _ => hurry(rng),
                };
                net.owners.insert(leader(next), at);
                all.plan(at, kind, leader(next), vec![at], limit);
                next += 1;
            }
        }
        all
    }

    fn plan(&mut self, at: usize, kind: Kind, me: ProcId, group: Vec<usize>, limit: Option<u64>) {
        self.calls.push(Call { at, kind, me, group, limit, state: State::Planned, posted: false });
    }

    /// The names of this process beside that in its job.
    pub fn names(&self, process: usize) -> Vec<ProcId> {
        let ports = self.ports.iter().filter(|port| port.at == process).map(|port| port.id);
        let calls = self.calls.iter().filter(|call| call.at == process && call.kind != Kind::Join);
        ports.chain(calls.map(|call| call.me)).collect()
    }

    /// Whether all calls have ended, and what was agreed on was used.
    pub fn is_over(&self) -> bool {
        self.calls.iter().all(|call| matches!(call.state, State::Ended(_)))
            && self.exchanges.iter().all(|exchange| exchange.is_over)
            && self.ports.iter().all(|port| port.door == Door::Closed)
    }

    /// Whether leaders have nothing to do in this run.
    pub fn is_idle(&self) -> bool {
        self.calls.is_empty()
    }

    /// A process goes on with something of its own. `false`: it has nothing to do.
    pub fn step(
        &mut self,
        rng: &mut Rng,
        at: usize,
        procs: &mut [Proc],
        net: &Network,
        dead: Option<usize>,
    ) -> Result<bool, String> {
        let what = rng.below((self.calls.len() + self.exchanges.len() + self.ports.len()) as u64) as usize;
        let proc = &mut procs[at];
        if let Some(call) = self.calls.get(what) {
            let is_mine = call.at == at;
            match call.state {
                State::Planned if is_mine && self.may_begin(what) => self.begin(what, proc, net),
                State::Waiting { path: None, .. } if is_mine => self.accept(what, proc, net)?,
                State::Waiting { .. } if is_mine => self.talk(what, proc, net, dead)?,
                _ => return Ok(false),
            }
            return Ok(true);
        }
        let what = what - self.calls.len();
        if let Some(exchange) = self.exchanges.get(what) {
            let goes_on = exchange.at == at && !exchange.is_over;
            if goes_on {
                self.exchange(what, proc, net, dead)?;
            }
            return Ok(goes_on);
        }
        let what = what - self.exchanges.len();
        let goes_on = self.ports[what].at == at && self.ports[what].door != Door::Closed;
        if goes_on {
            self.serve(what, proc, net, dead);
        }
        Ok(goes_on)
    }

    /// The calls of one group come one after the other; those at ports need an open one.
    fn may_begin(&self, what: usize) -> bool {
        let Some(call) = self.calls.get(what) else { return true };
        match call.kind {
            Kind::Join => {
                self.calls[..what].iter().all(|before| before.me != call.me || matches!(before.state, State::Ended(_)))
            }
            Kind::Accept(port) | Kind::Connect(port) => self.ports[port].door != Door::Planned,
        }
    }

    fn party(&self, call: &Call, net: &Network) -> Party {
        let contacts: Vec<_> = call.group.iter().map(|p| net.contact(*p, net.lives[*p])).collect();
        let records = Contacts::from(contacts).bytes().to_vec();
        let incarnation = call.me.incarnation;
        let (size, name) = (call.group.len() as u32, format!("g{incarnation}"));
        let (cookie, wanted) = (cookie(incarnation), String::new());
        Party { incarnation, cookie, size, tag_ub: 1, representation: 1, registered: None, name, wanted, records }
    }

    fn begin(&mut self, what: usize, proc: &mut Proc, net: &Network) {
        let call = &self.calls[what];
        let (me, party, now) = (call.me, self.party(call, net), proc.now(net));
        let until = call.limit.map(|limit| now + Duration::from_millis(limit));
        let (remote, decider) = match call.kind {
            Kind::Join => (Some(leader(201 - me.incarnation)), me.incarnation == 100),
            Kind::Connect(port) => (Some(self.ports[port].id), false),
            Kind::Accept(_) => (None, true),
        };
        if call.kind != Kind::Join {
            proc.session.add_group(Group {
                incarnation: me.incarnation,
                cookie: cookie(me.incarnation),
                rank: 0,
                size: 1,
            });
        }
        let path = remote.map(|remote| {
            let other = net.owners[&remote];
            let contact = match call.kind {
                Kind::Join => net.contact(other, net.lives[other]),
                // The name of a port tells addresses alone.
                _ => Contact::new([0; 16], [0; 16], [(FAR.id, &net.place(other).address[..])]),
            };
            let path = proc.session.open_control(me, remote, cookie(remote.incarnation), &contact);
            if call.kind != Kind::Join {
                proc.session.believe_refusals(path);
            }
            proc.session.offer(path, decider, &party, until);
            path
        });
        let clock = net.clock.get();
        let until = call.limit.map(|limit| clock + limit);
        self.calls[what].state = State::Waiting { path, until, ask: clock + ASK };
    }

    fn talk(&mut self, what: usize, proc: &mut Proc, net: &Network, dead: Option<usize>) -> Result<(), String> {
        let (clock, now) = (net.clock.get(), proc.now(net));
        let call = &mut self.calls[what];
        let State::Waiting { path: Some(path), ask, .. } = &mut call.state else { return Ok(()) };
        let path = *path;
        let end = match proc.session.talk(path, now) {
            Turn::Waiting if clock < *ask => return Ok(()),
            Turn::Waiting => {
                *ask = clock + ASK;
                let found = if call.kind == Kind::Join {
                    dead.is_none_or(|dead| dead != net.owners[&leader(201 - call.me.incarnation)])
                } else {
                    call.posted |= !proc.session.is_connected(path);
                    true
                };
                proc.session.is_found(path, found, now);
                return Ok(());
            }
            Turn::Agreed(agreement) => End::Agreed(agreement),
            Turn::Gone => End::Gone,
            Turn::TimedOut => End::TimedOut,
            Turn::Nonsense => return Err(format!("leaders: nonsense for {:?}", call.me)),
        };
        self.end(what, end, proc, dead.is_some(), net)
    }

    fn accept(&mut self, what: usize, proc: &mut Proc, net: &Network) -> Result<(), String> {
        let call = &self.calls[what];
        let (Kind::Accept(port), State::Waiting { until, .. }) = (call.kind, &call.state) else { return Ok(()) };
        let (port, party, now) = (&self.ports[port], self.party(call, net), proc.now(net));
        let end = if port.door == Door::Closed {
            End::Closed
        } else if let Some(agreement) = proc.session.accept(port.id, &party, now) {
            End::Agreed(agreement)
        } else if until.is_some_and(|until| net.clock.get() >= until) {
            End::TimedOut
        } else {
            return Ok(());
        };
        self.end(what, end, proc, true, net)
    }

    /// A call has ended. `may_miss`: it may have missed the other side, for some other reason.
    fn end(&mut self, what: usize, end: End, proc: &mut Proc, may_miss: bool, net: &Network) -> Result<(), String> {
        let call = &self.calls[what];
        let me = call.me;
        // The port alone could dial, and does not see that a lane is dark on which it awaits nothing.
        let is_dark = net.firewall.is_some() && net.dark.iter().chain(&net.cables).any(|cable| cable.is_dark);
        let is_hindered = may_miss || is_dark || self.forgotten.contains(&me.incarnation);
        match (&end, call.kind) {
            (End::Agreed(agreement), _) => {
                self.check(what, agreement)?;
                for (rank, member) in call.group.iter().enumerate() {
                    let me = ProcId { rank: rank as u32, ..me };
                    let at = *member;
                    self.exchanges.push(Exchange { at, me, call: what, inter: None, ops: Vec::new(), is_over: false });
                }
            }
            (End::TimedOut, _) if call.limit == Some(PATIENT) && !is_hindered => {
                return Err(format!("leaders: {me:?} waited in vain"));
            }
            (End::Gone, Kind::Join) if !is_hindered => return Err(format!("leaders: {me:?} gives up one that lives")),
            (End::Gone, Kind::Connect(port)) if !is_hindered => {
                let is_told = net.firewall.is_some_and(|(.., told)| told);
                if self.ports[port].door == Door::Open && !is_told {
                    return Err(format!("leaders: {me:?} gives up an open port"));
                }
            }
            _ => {}
        }
        if !matches!(end, End::Agreed(_)) && call.kind != Kind::Join {
            proc.session.remove_group(me.incarnation);
        }
        match (&end, call.kind) {
            (End::Agreed(_), Kind::Join) => self.count.joined += 1,
            (End::Agreed(_), _) => self.count.met_at_port += 1,
            (End::TimedOut, _) => self.count.timed_out += 1,
            (End::Gone | End::Closed, _) => self.count.gone += 1,
        }
        let call = &mut self.calls[what];
        call.state = State::Ended(end);
        Ok(())
    }

    fn exchange(&mut self, what: usize, proc: &mut Proc, net: &Network, dead: Option<usize>) -> Result<(), String> {
        let exchange = &self.exchanges[what];
        let (me, call) = (exchange.me, exchange.call);
        let State::Ended(End::Agreed(agreement)) = &self.calls[call].state else { unreachable!("it has agreed") };
        let (context, remote) = (agreement.context, &agreement.remote);
        let others = contacts(&remote.records, remote.size).map_err(|_| "leaders: no records")?;
        let others: Vec<usize> = others.iter().map(|contact| id_of(&contact)).collect();
        let Some(inter) = exchange.inter else {
            let incarnation = remote.incarnation;
            // Who was restored meanwhile has another record.
            let contacts: Vec<_> = others.iter().map(|p| net.contact(*p, net.lives[*p])).collect();
            let remote = RemoteGroup { incarnation, cookie: remote.cookie, contacts: contacts.into() };
            let inter = proc.session.open(me, &remote, ContextId::root(context));
            if self.calls[call].kind != Kind::Join {
                proc.session.remove_group(me.incarnation);
            }
            let ctx = proc.session.ctx(inter);
            let mut ops = Vec::new();
            for rank in 0..others.len() as u32 {
                let session = &mut proc.session;
                let op = session.engine.next_op();
                session.mem.0.insert(op.0, vec![0; CAPACITY as usize]);
                let source = Source::Rank(rank);
                session.ctx_with(inter, source);
                session.engine.recv(&mut session.mem, op, ctx, source, Tag::Is(TAG), CAPACITY);
                ops.push((op, true, rank));
                let op = session.engine.next_op();
                session.mem.0.insert(op.0, content(me, context).to_vec());
                session.engine.send(&session.mem, op, ctx, rank, TAG, SIZE, Mode::Synchronous);
                ops.push((op, false, rank));
            }
            proc.session.settle();
            let exchange = &mut self.exchanges[what];
            (exchange.inter, exchange.ops) = (Some(inter), ops);
            return Ok(());
        };
        let mutual = self.is_mutual(call);
        let (remote, exchange) = (remote.incarnation, &mut self.exchanges[what]);
        let (mut wrong, mut is_refused) = (None, false);
        exchange.ops.retain(|(op, receives, rank)| {
            let Some(outcome) = proc.session.engine.finish(*op) else { return true };
            let data = proc.session.mem.0.remove(&op.0).expect("its buffer is there");
            let from = content(ProcId { incarnation: remote, rank: *rank }, context);
            is_refused |= matches!(outcome, Outcome::Failed(_));
            let fine = match outcome {
                Outcome::Sent => !receives,
                Outcome::Received(envelope) => envelope.size == SIZE && data.starts_with(&from),
                // An agreement that the other side does not have is refused there.
                Outcome::Failed(Fault::Revoked | Fault::PeerFinished) => mutual != Some(true) || dead.is_some(),
                Outcome::Failed(Fault::PeerDead) => dead.is_some(),
                _ => false,
            };
            if !fine {
                wrong.get_or_insert(format!("leaders: {me:?} uses {context} with {remote}: {outcome:?}, {mutual:?}"));
            }
            false
        });
        // Of an agreement that the other side has given up, its leader alone can tell, if it can be reached.
        if is_refused && mutual != Some(true) || mutual == Some(false) && net.firewall.is_some() {
            for (op, ..) in exchange.ops.drain(..) {
                proc.session.engine.cancel_recv(op);
                proc.session.engine.forget(op);
            }
        }
        if exchange.ops.is_empty() {
            exchange.is_over = true;
            proc.session.close(inter);
        }
        wrong.map_or(Ok(()), Err)
    }

    /// Opens a port, closes it when nobody will call any more, or dials those that ask for it.
    fn serve(&mut self, what: usize, proc: &mut Proc, net: &Network, dead: Option<usize>) {
        let port = &mut self.ports[what];
        let mine = |call: &&Call| call.kind == Kind::Connect(what);
        let lives = |call: &&Call| dead != Some(call.at);
        let accepts = self
            .calls
            .iter()
            .any(|call| call.kind == Kind::Accept(what) && matches!(call.state, State::Waiting { .. }));
        // It stays open until dead callers are given up.
        let lingers = self.bereft.is_some_and(|since| net.clock.get() < since + 2 * LATE);
        match port.door {
            Door::Planned => {
                proc.session.add_port(port.id, cookie(port.id.incarnation));
                port.door = Door::Open;
            }
            Door::Open
                if !lingers
                    && self.calls.iter().filter(mine).filter(lives).all(|c| matches!(c.state, State::Ended(_))) =>
            {
                proc.session.remove_group(port.id.incarnation);
                port.door = Door::Closed;
            }
            Door::Open if accepts && net.clock.get() >= port.look => {
                port.look = net.clock.get() + LOOK;
                let now = proc.now(net);
                let asks = |call: &&Call| call.posted && matches!(call.state, State::Waiting { .. });
                let notes: Vec<(u64, usize)> =
                    self.calls.iter().filter(mine).filter(asks).map(|c| (c.me.incarnation, c.at)).collect();
                let numbers: Vec<u64> = notes.iter().map(|(note, _)| *note).collect();
                let mut dialled = BTreeMap::new();
                for path in port.turns.look(&numbers, now, |path| proc.session.called(path)) {
                    if let Some(pair) = proc.session.pair_of(path) {
                        self.forgotten.insert(proc.session.pair(pair).remote().incarnation);
                    }
                    proc.session.call_off(path);
                }
                while let Some(note) = port.turns.next_note() {
                    let (_, caller) = notes.iter().find(|(n, _)| *n == note).expect("a note that stands");
                    let contact = net.contact(*caller, net.lives[*caller]);
                    let path = proc.session.open_control(port.id, leader(note), cookie(note), &contact);
                    port.turns.dialled(note, path, 1, now);
                    dialled.insert(note, path);
                    self.count.called_back += 1;
                }
            }
            _ => {}
        }
    }
}
