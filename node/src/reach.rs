//! Where a process can be reached: at which addresses it is dialled, what a refusal there is worth, and who is dialled
//! because somebody waits for it.
//!
//! Part of the core, beside `connect`. Invariant: a refusal says that a process is gone only at an address at which a dial
//! of ours has got through to its host: elsewhere it may be a firewall's, or another host's.

use crate::core::Core;
use crate::pair::{Dial, Pair};
use crate::watch::Owner;
use crate::{InterId, PathRef};
use base::ProcId;
use engine::Source;
use std::collections::{BTreeSet, HashSet};
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};
use transports::lane::Lanes;
use transports::tcp::{Contact, Own, Refusal, Socket, VERSION, is_connected, own, start_connect, ways};

/// How long a host is asked whether we get through to it.
const TOUCH_LIMIT: Duration = Duration::from_secs(5);
/// So long what this machine has is not asked again.
const SAME_OWN: Duration = Duration::from_secs(1);
/// How often those are looked for whom somebody expects, without waiting. Whoever is expected at two looks is dialled.
const LOOK_EVERY: Duration = Duration::from_millis(50);
const LEISURE: u32 = 50;

/// Probes for different sources that are remembered between two looks.
const MOST_PROBED: usize = 16;

/// What a failed dial says about whether the process is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Sign {
    None,
    /// It had come to us, has closed the connection, and does not come again, though it would if it lived.
    Faint,
    /// It has come from there, and is refused there: it is gone, or a firewall lets nobody in.
    Weak,
    Sure,
}

/// What is known of hosts and of those who are expected.
#[derive(Default)]
pub(crate) struct Reach {
    /// (host number, address) at which a dial of ours has got through to that host.
    proven: HashSet<([u8; 16], IpAddr)>,
    /// Those that were asked about it, and the dials.
    touched: HashSet<([u8; 16], IpAddr)>,
    touches: Vec<Touch>,
    own: Vec<Own>,
    own_since: Option<Instant>,
    /// What probes have looked for in vain since the last look.
    probed: Vec<(InterId, Source)>,
    /// Pairs that were expected at the last look, and when the next is due.
    expected: BTreeSet<usize>,
    next_look: Option<Instant>,
    /// Those for whom Finalize waits longer are told of once.
    pub told: bool,
}

/// (host number, address) at which one gets through, from the host of this number.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Proofs {
    pub from: [u8; 16],
    pub places: Vec<([u8; 16], IpAddr)>,
}

/// Why two leaders will never talk, as they are set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Obstacle {
    /// The versions of the protocol that they speak.
    Version { theirs: u16, ours: u16 },
    /// It uses nothing but shared memory, which we do not.
    OnlyShared,
    /// It has no shared memory for others, and we use nothing else: or it is dead.
    NothingShared,
    /// It is on another host, and we use shared memory alone.
    OtherHost,
}

struct Touch {
    pair: usize,
    serial: u64,
    address: SocketAddr,
    socket: Socket,
    since: Instant,
}

impl Core {
    /// At which addresses to dial a pair's process, the best first.
    pub(crate) fn ways(&mut self, i: usize, now: Instant) -> Vec<SocketAddr> {
        let Some(contact) = &self.pairs[i].contact else { return Vec::new() };
        let reach = &mut self.reach;
        if contact.host != self.contact.host && reach.own_since.is_none_or(|t| now.duration_since(t) >= SAME_OWN) {
            // Without it, nothing is left out.
            reach.own = own().unwrap_or_default();
            reach.own_since = Some(now);
        }
        let worked = self.pairs[i].worked;
        let mut ways = ways(contact, self.contact.host, &reach.own, worked);
        // Where one process of a host could be reached, others can.
        if contact.host != self.contact.host {
            let key = |a: &SocketAddr| (Some(*a) != worked, !reach.proven.contains(&(contact.host, a.ip())));
            ways.sort_by_key(key);
        }
        ways
    }

    // ---- what a refusal is worth

    /// A dial of ours has got through.
    pub(crate) fn prove(&mut self, i: usize, address: SocketAddr) {
        let pair = &mut self.pairs[i];
        pair.worked = Some(address);
        if let Some(contact) = &pair.contact
            && contact.host != [0; 16]
        {
            self.reach.proven.insert((contact.host, address.ip()));
        }
    }

    pub(crate) fn proofs(&self, contacts: &[Contact]) -> Proofs {
        let places = self.reach.proven.iter().filter(|(host, _)| contacts.iter().any(|c| c.host == *host));
        Proofs { from: self.contact.host, places: places.copied().collect() }
    }

    /// Takes over what was proven from this very host.
    pub(crate) fn learn(&mut self, proofs: Proofs) {
        if proofs.from == self.contact.host && proofs.from != [0; 16] {
            self.reach.proven.extend(proofs.places);
        }
    }

    /// Whether it is being asked if we get through to the host behind this path.
    pub fn is_asking(&self, path: PathRef) -> bool {
        self.reach.touches.iter().any(|touch| touch.pair == path.slot && touch.serial == path.serial)
    }

    /// Whether a dial of ours would get, or has got, through to the pair's host at this address.
    fn is_proven(&self, i: usize, ip: IpAddr) -> bool {
        let pair = &self.pairs[i];
        let Some(contact) = &pair.contact else { return false };
        pair.worked.is_some_and(|w| w.ip() == ip)
            || contact.host != [0; 16]
                && (contact.host == self.contact.host || self.reach.proven.contains(&(contact.host, ip)))
    }

    /// What the failure of a dial there says about the pair's process.
    pub(crate) fn worth(&self, i: usize, address: SocketAddr, why: &Refusal) -> Sign {
        let came_from = self.pairs[i].seen_at.is_some_and(|seen| seen.ip() == address.ip());
        let proven = self.is_proven(i, address.ip());
        match why {
            // Its own word, wherever it comes from.
            Refusal::NoMember | Refusal::BadCookie => Sign::Sure,
            Refusal::Refused if proven => Sign::Sure,
            Refusal::Refused if came_from => Sign::Weak,
            // No firewall answers so.
            Refusal::NoSuchProcess | Refusal::OtherVersion(_) if proven || came_from => Sign::Sure,
            _ => Sign::None,
        }
    }

    /// Whether the process, or its kernel, has closed the connection that it had dialled, and could not be dialled before.
    pub(crate) fn has_hung_up(&self, i: usize) -> bool {
        let pair = &self.pairs[i];
        pair.closed && pair.seen_at.is_some_and(|seen| !self.is_proven(i, seen.ip()))
    }

    /// Whether a port is open at none of the addresses that its name tells. It was open before its name could be known.
    pub(crate) fn is_nowhere(&self, i: usize, failed: &[(SocketAddr, Refusal)]) -> bool {
        use Refusal::{Foreign, NoSuchProcess, OtherVersion, Refused};
        let says_so = |why: &Refusal| matches!(why, Refused | NoSuchProcess | OtherVersion(_) | Foreign);
        self.pairs[i].believes_refusals && !failed.is_empty() && failed.iter().all(|(_, why)| says_so(why))
    }

    /// A process of another host has come to us: does a dial of ours get through to it too? It is asked once for each
    /// host, while the process lives, since afterwards nobody could tell.
    pub(crate) fn touch(&mut self, i: usize) {
        let pair = &self.pairs[i];
        let (Some(contact), Some(seen), true) = (&pair.contact, pair.seen_at, pair.lane.is_some()) else { return };
        let ip = seen.ip();
        let key = (contact.host, ip);
        let asked = contact.host != [0; 16] && self.reach.touched.contains(&key);
        if asked || self.is_proven(i, ip) {
            return;
        }
        let Some(address) = contact.addresses.iter().find(|a| a.ip() == ip) else { return };
        let mut address = *address;
        if let (SocketAddr::V6(to), SocketAddr::V6(from)) = (&mut address, seen) {
            to.set_scope_id(from.scope_id());
        }
        self.reach.touched.insert(key);
        // That it fails says nothing.
        if let Ok(socket) = start_connect(address) {
            self.watch.set(&socket, Owner::Touch, true);
            let serial = self.pairs[i].serial;
            self.reach.touches.push(Touch { pair: i, serial, address, socket, since: Instant::now() });
        }
    }

    pub(crate) fn step_touches(&mut self, now: Instant) {
        for touch in std::mem::take(&mut self.reach.touches) {
            match is_connected(&touch.socket) {
                Err(e) if e.kind() == ErrorKind::WouldBlock && now.duration_since(touch.since) < TOUCH_LIMIT => {
                    self.reach.touches.push(touch);
                    continue;
                }
                Ok(()) if self.pairs[touch.pair].serial == touch.serial => self.prove(touch.pair, touch.address),
                _ => (),
            }
            self.watch.unset(&touch.socket);
        }
    }

    pub(crate) fn is_touching(&self) -> bool {
        !self.reach.touches.is_empty()
    }

    pub(crate) fn drop_touches(&mut self) {
        self.reach.touches.drain(..).for_each(|touch| self.watch.unset(&touch.socket));
    }

    // ---- whoever is waited for

    /// Connects the processes that somebody waits for: their death would not be noticed otherwise, and some could not come
    /// by themselves.
    pub(crate) fn watch_awaited(&mut self) {
        for peer in self.engine.watching() {
            self.want(peer.0 as usize);
        }
    }

    /// Connects the processes from which something is expected though nobody waits: who has begun a receive and computes,
    /// or asks again and again, may expect it from one who cannot dial.
    pub(crate) fn watch_lingering(&mut self, now: Instant) {
        if self.reach.next_look.is_some_and(|t| now < t) {
            return;
        }
        let mut expected = self.expected();
        // Among very many operations it takes its time, and is done less often.
        self.reach.next_look = Some(now + LOOK_EVERY.max(now.elapsed() * LEISURE));
        for (inter, source) in std::mem::take(&mut self.reach.probed) {
            expected.extend(self.sources(inter, source).into_iter().filter(|&i| self.pairs[i].is_left_alone()));
        }
        for i in expected.intersection(&self.reach.expected).copied().collect::<Vec<_>>() {
            self.want(i);
        }
        self.reach.expected = expected;
        self.look_after_lanes(now);
    }

    /// A probe has looked in vain. No operation stands for it.
    pub(crate) fn note_probe(&mut self, inter: InterId, source: Source) {
        let probed = &mut self.reach.probed;
        if probed.len() < MOST_PROBED && !probed.contains(&(inter, source)) {
            probed.push((inter, source));
        }
    }

    /// When the next look is due, if somebody is expected.
    pub(crate) fn lingers(&self) -> Option<Duration> {
        (!self.reach.expected.is_empty() || !self.expected().is_empty()).then_some(LOOK_EVERY)
    }

    /// Pairs without a lane from which something is expected, and which nobody dials.
    fn expected(&self) -> BTreeSet<usize> {
        // Mostly there is none, and then nobody need be looked for among the operations.
        if !self.pairs.iter().any(Pair::is_left_alone) {
            return BTreeSet::new();
        }
        self.engine.watching().map(|peer| peer.0 as usize).filter(|&i| self.pairs[i].is_left_alone()).collect()
    }

    /// Whether somebody is owed something who could never be reached, and has not come yet; the log says it once.
    pub(crate) fn tell_unreached(&mut self) -> bool {
        let pairs = self.pairs.iter().enumerate();
        let left: Vec<_> = pairs.filter(|(_, p)| p.gone.is_none() && !p.was_up && p.owes()).map(|(i, _)| i).collect();
        if let Some(&i) = left.first()
            && !std::mem::replace(&mut self.reach.told, true)
        {
            let (who, why) = (self.pairs[i].remote, self.describe_trouble(i).unwrap_or_default());
            base::log!(Info, "{} processes have not come for what was sent to them; {who}: {why}", left.len());
        }
        !left.is_empty()
    }

    // ---- in words

    /// How it stands with the dials to a process that is not connected.
    pub(crate) fn describe_trouble(&self, i: usize) -> Option<String> {
        let pair = &self.pairs[i];
        if pair.lane.is_some() {
            return None;
        }
        let mut said = match &pair.dial {
            Dial::Racing(race, _) => race.describe(),
            _ => pair.trouble.clone(),
        };
        if let Some(contact) = &pair.contact
            && contact.host != self.contact.host
            && contact.addresses.iter().all(|a| a.ip().is_loopback())
        {
            said += if contact.host == [0; 16] {
                // A port's name does not tell whose it is.
                " (it listens on loopback alone; if that is another host: see its MPI_CONNECT_IFACE)"
            } else {
                " (it listens on loopback alone, on another host: see its MPI_CONNECT_IFACE)"
            };
        }
        Some(said)
    }

    /// Why a leader is not connected, and where it could have come to; `None`: it is.
    pub fn path_trouble(&self, path: PathRef) -> Option<(String, Vec<SocketAddr>)> {
        let i = self.of_path(path)?;
        Some((self.describe_trouble(i)?, self.contact.addresses.clone()))
    }

    /// What no waiting will mend between us and a leader.
    pub fn path_obstacle(&self, path: PathRef) -> Option<Obstacle> {
        let pair = &self.pairs[self.of_path(path)?];
        let contact = pair.contact.as_ref()?;
        let (ours, theirs) = (self.contact.host, contact.host);
        if let Some(theirs) = pair.other_version {
            return Some(Obstacle::Version { theirs, ours: VERSION });
        }
        let far = ours != [0; 16] && theirs != [0; 16] && ours != theirs;
        match self.lanes {
            // One who uses TCP listens somewhere.
            Lanes { shm: false, .. } if contact.addresses.is_empty() && !pair.was_up => Some(Obstacle::OnlyShared),
            Lanes { tcp: false, .. } if far => Some(Obstacle::OtherHost),
            Lanes { tcp: false, .. } if pair.has_no_door && !pair.was_up => Some(Obstacle::NothingShared),
            _ => None,
        }
    }

    /// Leaders that have said something to this one, the first of its group, for which nobody has asked yet.
    pub fn unheard(&self, local: ProcId) -> impl Iterator<Item = (PathRef, impl Iterator<Item = &[u8]>)> {
        let speaks =
            move |(_, pair): &(usize, &Pair)| pair.local == local && pair.gone.is_none() && !pair.controls.is_empty();
        self.pairs
            .iter()
            .enumerate()
            .filter(speaks)
            .map(|(slot, pair)| (PathRef { slot, serial: pair.serial }, pair.controls.iter().map(Vec::as_slice)))
    }
}
