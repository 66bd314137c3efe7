//! What is expected of leaders: who may agree with whom, what must end when, and that nothing is left over.

use super::{AWAY, Call, Door, End, FIRST, Kind, LATE, Leaders, State, id_of};
use crate::network::Network;
use crate::proc::{Proc, cookie};
use base::ProcId;
use session::Called;
use session::leaders::{Agreement, contacts};

impl Leaders {
    /// The other side of an agreement, if it was planned so.
    pub(super) fn partner(&self, what: usize, agreement: &Agreement) -> Option<usize> {
        let (call, remote) = (&self.calls[what], &agreement.remote);
        let is_it = |other: &Call| {
            let fits = match (call.kind, other.kind) {
                (Kind::Join, Kind::Join) => true,
                (Kind::Accept(a), Kind::Connect(b)) | (Kind::Connect(a), Kind::Accept(b)) => a == b,
                _ => false,
            };
            fits && other.me.incarnation == remote.incarnation && other.me != call.me
        };
        self.calls.iter().position(is_it)
    }

    /// Checks an agreement against the plan: who the other side is, and that nobody else has the same.
    pub(super) fn check(&self, what: usize, agreement: &Agreement) -> Result<(), String> {
        let (call, remote) = (&self.calls[what], &agreement.remote);
        let wrong = |how: &str| Err(format!("leaders: {:?} agreed with {remote:?}: {how}", call.me));
        let Some(other) = self.partner(what, agreement) else { return wrong("nobody of its own") };
        let group = &self.calls[other].group;
        let Ok(members) = contacts(&remote.records, remote.size) else { return wrong("no records") };
        let members: Vec<usize> = members.iter().map(|contact| id_of(&contact)).collect();
        if members != *group || remote.cookie != cookie(remote.incarnation) {
            return wrong("other processes");
        }
        let twice = self.calls.iter().any(|c| {
            c.me == call.me && matches!(&c.state, State::Ended(End::Agreed(a)) if a.context == agreement.context)
        });
        let taken = call.kind != Kind::Join
            && !self.forgotten.contains(&remote.incarnation)
            && self.calls.iter().any(|c| {
                matches!(&c.state, State::Ended(End::Agreed(a)) if c.at == call.at && a.remote.incarnation == remote.incarnation)
            });
        if twice || taken { wrong("again") } else { Ok(()) }
    }

    /// Whether the other side of an agreement has it too; `None`: it may still come to it.
    pub(super) fn is_mutual(&self, what: usize) -> Option<bool> {
        let call = &self.calls[what];
        let State::Ended(End::Agreed(agreement)) = &call.state else { return Some(false) };
        let mut all = true;
        for other in self.calls.iter().filter(|c| c.me.incarnation == agreement.remote.incarnation) {
            match &other.state {
                State::Ended(End::Agreed(a))
                    if a.context == agreement.context && a.remote.incarnation == call.me.incarnation =>
                {
                    return Some(true);
                }
                State::Ended(_) => {}
                _ => all = false,
            }
        }
        all.then_some(false)
    }

    /// Looks at what depends on time: calls that hang, and callers that are away.
    pub fn look(&mut self, procs: &[Proc], net: &Network, dead: Option<usize>) -> Result<(), String> {
        let clock = net.clock.get();
        if dead.is_some() {
            self.bereft.get_or_insert(clock);
        }
        for call in self.calls.iter().filter(|call| dead != Some(call.at)) {
            if let State::Waiting { until: Some(until), .. } = call.state
                && clock > until + LATE
            {
                return Err(format!("leaders: the {:?} of {:?} hangs", call.kind, call.me));
            }
        }
        for proc in procs.iter().filter(|proc| dead != Some(proc.id)) {
            // Of a port, its name tells who it is.
            let is_port = |id: ProcId| self.ports.iter().any(|port| port.id == id);
            let (ports, others): (Vec<_>, Vec<_>) = proc
                .session
                .pairs()
                .filter(|(_, pair)| pair.is_stranger())
                .partition(|(_, pair)| is_port(pair.remote()));
            // One that has dialled us for a pair that is over here is listed too.
            let strangers = others.len();
            if !(strangers..=strangers + ports.len()).contains(&proc.session.strangers()) {
                return Err(format!("leaders: of {strangers} strangers {} are listed", proc.session.strangers()));
            }
        }
        for port in self.ports.iter().filter(|port| port.door == Door::Open && dead != Some(port.at)) {
            for call in &self.calls {
                let Kind::Connect(_) = call.kind else { continue };
                let session = &procs[port.at].session;
                let pair = session.find_pair(port.id, call.me).map(|i| session.pair(i));
                let key = (port.at, call.me.incarnation);
                let Some(pair) = pair.filter(|pair| pair.lane().is_none()) else {
                    self.away.remove(&key);
                    if pair.is_some() {
                        self.came.insert(key);
                    } else {
                        self.came.remove(&key);
                    }
                    continue;
                };
                let took = clock - *self.away.entry(key).or_insert(clock);
                if took >= AWAY {
                    self.forgotten.insert(call.me.incarnation);
                }
                // One that has asked to be dialled may be dialled again.
                if took >= LATE && self.came.contains(&key) && pair.gone().is_none() && !call.posted {
                    return Err(format!("leaders: {:?} does not come again, and is kept", call.me));
                }
            }
        }
        Ok(())
    }

    /// Whether this process may be given up though it lives: a caller that does not come again; a port whose addresses all
    /// refuse; and, where a firewall refuses, one that has done with what was agreed on and so does not dial again.
    pub fn may_be_given_up(&self, pair: (ProcId, ProcId), net: &Network) -> bool {
        let is_port = |id: ProcId| self.ports.iter().any(|port| port.id == id);
        let is_told = net.firewall.is_some_and(|(.., told)| told);
        is_port(pair.0) && self.forgotten.contains(&pair.1.incarnation) || is_told && pair.0.incarnation >= FIRST
    }

    /// At the end: each agreement is one of both sides, or is refused where it was given up.
    pub fn judge(&mut self, dead: Option<usize>) -> Result<(), String> {
        for (what, call) in self.calls.iter().enumerate().filter(|(_, call)| dead != Some(call.at)) {
            let State::Ended(End::Agreed(agreement)) = &call.state else {
                if !matches!(call.state, State::Ended(_) | State::Planned) && call.limit.is_some() {
                    return Err(format!("leaders: the {:?} of {:?} does not end", call.kind, call.me));
                }
                continue;
            };
            let partner = self.partner(what, agreement).expect("checked before");
            if dead == Some(self.calls[partner].at) || self.is_mutual(what) == Some(true) {
                continue;
            }
            let decides = matches!(call.kind, Kind::Accept(_)) || call.me.incarnation == 100;
            if !decides {
                return Err(format!("leaders: {:?} agreed, and the other side did not", call.me));
            }
            self.count.orphans += 1;
        }
        Ok(())
    }

    /// A description of its state, for a run that hangs.
    pub fn describe(&self, clock: u64) -> String {
        let mut out = format!("at {clock}, forgotten {:?}, ports", self.forgotten);
        for port in &self.ports {
            let door = ["planned", "open", "closed"][port.door as usize];
            out += &format!(" {:?} of {}: {door}", port.id, port.at);
        }
        for call in &self.calls {
            let state = match &call.state {
                State::Planned => "planned".into(),
                State::Waiting { until, .. } => format!("waits until {until:?}"),
                State::Ended(End::Agreed(a)) => format!("agreed on {} with {}", a.context, a.remote.incarnation),
                State::Ended(end) => format!("{end:?}"),
            };
            out += &format!("\n  {}: {:?} of {:?}: {state}", call.at, call.kind, call.me);
        }
        for e in self.exchanges.iter().filter(|e| !e.is_over) {
            out += &format!("\n  {}: {:?} still uses what call {} agreed on: {:?}", e.at, e.me, e.call, e.ops);
        }
        out
    }

    /// Whether nothing is left in what is kept for a port.
    pub fn left_over(&mut self, procs: &mut [Proc], net: &Network) -> Option<String> {
        for port in &mut self.ports {
            let now = procs[port.at].now(net);
            port.turns.look(&[], now, |_| Called::Gone);
            if !port.turns.is_empty() {
                return Some("leaders: dial requests are left".into());
            }
        }
        let left = |p: &&Proc| p.session.strangers() > 0 || p.session.groups_known() > 0;
        procs.iter().find(left).map(|p| format!("leaders: {} has something left", p.id))
    }
}
