//! MPI_Comm_accept and MPI_Comm_connect. They are collective over one communicator, whose root connects to the other
//! side. Either all processes get an inter-communicator or all get an error.

use super::dial_requests::{self, DialRequests, LOOK};
use super::info::Info;
use super::name::{self, Address};
use super::open::{self, Port, at, find, own_name, text};
use super::publish;
use crate::abi::{self, Abi};
use crate::conn::bounds::{largest_tag, timeout};
use crate::conn::collective::{Team, encoded_contact, rank_and_size};
use crate::conn::directory;
use crate::conn::joined;
use crate::conn::kept::{self, Join};
use crate::conn::registration::{self, Registration};
use crate::conn::talk::{self, Round};
use crate::conn::waiting::in_words;
use crate::error::copy_errhandler;
use crate::failure::{Class, Failure};
use crate::forward::Handle;
use crate::inter::{Inter, Process};
use crate::process::node;
use crate::wait::wait_until;
use crate::{datatype, progress};
use base::ident;
use base::log::Patience;
use base::settings;
use base::{Family, ProcId};
use node::leaders::{Agreement, Looking, Party, Registered};
use node::{ContextId, Core, Directory, Group, Node, Waits};
use std::collections::HashSet;
use std::ffi::c_int;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How often somebody is watched who is to come.
const WATCH: Duration = Duration::from_millis(20);

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Accept,
    Connect,
}

/// A job that was started to come.
pub struct Awaited {
    /// Says whether it may still come.
    pub look: Box<dyn Fn() -> Result<(), Failure>>,
    /// The number of its processes.
    pub size: u32,
}

impl Awaited {
    /// Refuses a job of another size: a program of another MPI than its launcher's makes a world of each process.
    fn is_whole(&self, size: u32) -> Result<(), Failure> {
        let text = || {
            format!(
                "{} processes were started, and the job that has come has {size}: its launcher is of another MPI than its program",
                self.size
            )
        };
        if size == self.size { Ok(()) } else { Err(Failure::new(Class::Spawn, text())) }
    }
}

/// What the root has to do, as its arguments say.
pub enum Plan {
    /// The port belongs to the MPI below, so it does the call.
    Native,
    Accept(Arc<Port>, Option<Duration>, Option<Awaited>),
    Connect(String, Address, Duration),
}

/// The whole call. `None`: the MPI below has to do it. `port` and `info` are significant on the root alone. `place`
/// says whether the program gave a place for the result.
///
/// # Safety
/// `port` is the program's string, on the root.
pub unsafe fn meet(
    side: Side,
    port: usize,
    info: Handle,
    root: c_int,
    comm: Handle,
    place: Result<(), Failure>,
) -> Result<Option<Inter>, Failure> {
    let (_, size) = rank_and_size(comm)?;
    let Some(leader) = u32::try_from(root).ok().filter(|root| *root < size) else {
        return Err(Failure::new(
            Class::Root,
            format!("root {root} is not in the communicator, which has {size} ranks"),
        ));
    };
    let call = if matches!(side, Side::Accept) { "MPI_Comm_accept" } else { "MPI_Comm_connect" };
    // SAFETY: the caller's promise.
    meet_by(call, leader, comm, place, || unsafe { plan(side, port, info) })
}

/// As [`meet`], with another way to what the root has to do, which is asked there alone.
pub fn meet_by(
    call: &'static str,
    leader: u32,
    comm: Handle,
    place: Result<(), Failure>,
    plan: impl Fn() -> Result<Plan, Failure>,
) -> Result<Option<Inter>, Failure> {
    let abi = abi::get();
    let node = progress::build().and_then(|()| node());
    let kept = kept::of(abi, node.as_ref().ok().copied(), call, comm)?;
    let made = together(abi, node, kept.begin(call, leader), comm, place, plan)?;
    if let Some(inter) = &made {
        copy_errhandler(comm, inter.shadow);
    }
    Ok(made)
}

unsafe fn plan(side: Side, port: usize, info: Handle) -> Result<Plan, Failure> {
    // SAFETY: the caller's promise.
    let text = unsafe { text(port) }?;
    let text = publish::whole(&text);
    if text.is_empty() {
        return Err(Failure::new(Class::Port, "the name of the port is empty"));
    }
    if !name::is_ours(&text) {
        return native(side, &text);
    }
    let said = Info::of(info).timeout()?;
    Ok(match side {
        // An accept waits for ever, unless the program or the user has set a limit.
        Side::Accept if said.is_none() && !settings::is_timeout_set() => Plan::Accept(find(&text)?, None, None),
        Side::Accept => Plan::Accept(find(&text)?, Some(said.map_or_else(timeout, Ok)?), None),
        Side::Connect => to_port(text, said.map_or_else(timeout, Ok)?)?,
    })
}

/// To connect to a port of ours with this name.
pub fn to_port(name: String, timeout: Duration) -> Result<Plan, Failure> {
    let bad = |e| Failure::new(Class::Port, format!("'{}': {e}", name::sign(&name)));
    let address = Address::parse(&name).map_err(bad)?;
    Ok(Plan::Connect(name, address, timeout))
}

/// The plan for a port name that is not ours: the port was opened without this library.
fn native(side: Side, port: &str) -> Result<Plan, Failure> {
    let sign = name::sign(port);
    // Only port names of the MPICH family begin so.
    let of_mpich = port.starts_with("tag#");
    let family = abi::get().family.which;
    let foreign = match family {
        Family::Mpich => !of_mpich,
        Family::OpenMpi | Family::Lam => of_mpich,
        Family::Standard => false,
    };
    match side {
        Side::Connect if foreign => {
            let text = format!(
                "port {sign} is another MPI's own: its server runs without this library; start it by 'mpi-connect run'"
            );
            return Err(Failure::new(Class::Port, text));
        }
        Side::Connect if family == Family::Lam && !is_of_lam(port) => {
            // LAM would wait for an answer that never comes.
            return Err(Failure::new(
                Class::Port,
                format!("'{sign}' is no name of a port, neither of this library nor of LAM"),
            ));
        }
        Side::Connect => base::log!(
            Notice,
            "MPI_Comm_connect to port {sign} is left to the MPI below, since the name is none of this library's: if it is that \
             of a port, its server runs without this library; if this fails, start the server by 'mpi-connect run'"
        ),
        Side::Accept => (),
    }
    Ok(Plan::Native)
}

/// Whether this is a port name of LAM, such as `n0:i11:323`.
fn is_of_lam(port: &str) -> bool {
    let parts: Vec<_> = port.split(':').collect();
    let is_number = |text: Option<&str>| text.is_some_and(|text| text.parse::<u32>().is_ok());
    matches!(parts[..], [node, index, number] if is_number(node.strip_prefix('n'))
        && is_number(index.strip_prefix('i')) && is_number(Some(number)))
}

/// The collective steps. Between them no process returns early while others go on.
fn together(
    abi: &Abi,
    node: Result<&'static Node, Failure>,
    joining: Join<'_>,
    comm: Handle,
    place: Result<(), Failure>,
    plan: impl Fn() -> Result<Plan, Failure>,
) -> Result<Option<Inter>, Failure> {
    let waits_in = node.as_ref().ok().copied();
    let Team { rank, size, .. } = joining.team;
    let (incarnation, cookie) = joining.group();
    let group = Group { incarnation, cookie, rank, size };
    let planned = joining.team.is_led_here().then(plan);
    let own = place.and(node).map(|node| {
        // Only its leader can say which job it is.
        let is_led = joining.team.leader == 0;
        let registration = registration::that_makes_checkpoints(node, abi, comm).filter(|_| is_led);
        let own = Own { node, group, registration };
        ident::name_job(incarnation, &own.name());
        node.add_open_group(group);
        own
    });
    let made = join(abi, waits_in, joining, own.as_ref(), planned);
    // All processes that may connect are known now, or none is to connect.
    if let Some(node) = waits_in {
        node.remove_group(incarnation);
    }
    made
}

/// This side: the group that was drawn for this one inter-communicator, and the registration of the same processes.
struct Own {
    node: &'static Node,
    group: Group,
    registration: Option<Arc<Registration>>,
}

impl Own {
    fn name(&self) -> String {
        self.registration.as_ref().map_or_else(own_name, |registration| registration.name.clone())
    }

    fn registered(&self) -> Option<Registered> {
        let Group { incarnation, cookie, .. } = self.registration.as_ref()?.group;
        Some(Registered { incarnation, cookie })
    }

    /// Opens the inter-communicator of an agreement. If both sides make checkpoints, it is one of their registrations, as if it had been
    /// made by name, so that it is in their images.
    fn open(
        &self,
        (shadow, tag_ub): (Handle, c_int),
        mut agreement: Agreement,
        directory: Option<&Directory>,
    ) -> Result<Inter, Failure> {
        let node = self.node;
        let (Some(registration), Some(Registered { incarnation, cookie })) =
            (&self.registration, agreement.remote.registered)
        else {
            let me = ProcId { incarnation: self.group.incarnation, rank: self.group.rank };
            return joined::open(node, me, (shadow, tag_ub), &agreement, directory);
        };
        let context = ContextId::of_port([self.group.incarnation, agreement.remote.incarnation]);
        (agreement.remote.incarnation, agreement.remote.cookie) = (incarnation, cookie);
        let other = joined::other(tag_ub, &agreement)?;
        // The other leader vouches for its members; one that is known already is not to be another process.
        let contacts = other.group.contacts.iter();
        let is_another = |core: &mut Core| {
            let mut all = (0u32..).zip(contacts).map(|(rank, contact)| (ProcId { incarnation, rank }, contact));
            all.any(|(member, contact)| core.contradicts(registration.me(), member, &contact))
        };
        let is_led = other.group.contacts.get(0).is_some_and(|leader| joined::is_led_by(incarnation, &cookie, &leader));
        if !is_led || node.with(is_another) {
            return Err(joined::not_itself(&agreement.remote.name));
        }
        if registration.lead.is_some()
            && let Some(leader) = other.group.contacts.get(0)
        {
            // The leaders tell each other of checkpoints.
            node.open_control(registration.me(), ProcId { incarnation, rank: 0 }, cookie, &leader);
        }
        Ok(joined::open_with(node, registration.me(), shadow, other, context, directory))
    }
}

/// `planned`: on the root alone.
fn join(
    abi: &Abi,
    waits_in: Option<&Node>,
    joining: Join<'_>,
    own: Result<&Own, &Failure>,
    planned: Option<Result<Plan, Failure>>,
) -> Result<Option<Inter>, Failure> {
    let (own, tag_ub) = (own.map_err(Failure::clone), largest_tag(abi));
    // The contact records come when the groups are there: no process of the other side connects before all are ready.
    let record = own.clone().map(|own| encoded_contact(own.node));
    let team = joining.team;
    let decided = |records: Result<Vec<u8>, Failure>| {
        // What is wrong with the root's arguments concerns all alike.
        let plan = planned.ok_or_else(|| Failure::new(Class::Intern, "this process is not the root"))??;
        let (records, own) = (records?, own.clone()?);
        let Own { node, group, .. } = own;
        let contacts = joined::gathered(&records, group.size)?;
        let ours: HashSet<Process> = contacts.processes().collect();
        let registered = own.registered().map(|registered| registered.incarnation);
        let groups: Vec<u64> = registered.into_iter().chain([group.incarnation]).collect();
        let offered = directory::offer(node, &groups, &contacts, group.rank);
        let mut offer = Party {
            incarnation: group.incarnation,
            cookie: group.cookie,
            size: group.size,
            tag_ub: tag_ub as u32,
            representation: datatype::representation().number(),
            registered: own.registered(),
            name: own.name(),
            wanted: String::new(),
            records: offered.bytes().to_vec(),
        };
        let agreement = match plan {
            Plan::Native => return Ok(Vec::new()),
            Plan::Accept(port, timeout, awaited) => accept(node, &port, &offer, (timeout, awaited), &ours)?,
            Plan::Connect(name, port, timeout) => {
                offer.wanted = name;
                let me = ProcId { incarnation: group.incarnation, rank: group.rank };
                connect(node, me, &port, &offer, timeout, &ours)?
            }
        };
        Ok(joined::tell(node, &agreement, group.size))
    };
    let (told, shadow) = joining.decide(abi, waits_in, record, decided)?;
    if told.is_empty() {
        return Ok(None);
    }
    let own = own?;
    let told = joined::hear(own.node, &told)?;
    let directory = directory::place(abi, own.node, &team, told.sides())?;
    let inter = own.open((shadow.handle, tag_ub), told.agreement, directory.as_ref())?.with_shadow(shadow);
    base::log!(Info, "joined with {}, size {}", inter.remote.name, inter.remote.size());
    Ok(Some(inter))
}

fn accept(
    node: &Node,
    port: &Port,
    offer: &Party,
    (timeout, awaited): (Option<Duration>, Option<Awaited>),
    ours: &HashSet<Process>,
) -> Result<Agreement, Failure> {
    let deadline = timeout.map(|timeout| Instant::now() + timeout);
    base::log!(Info, "waiting for somebody to connect to port {}", name::sign(&port.name));
    let _told = Waits::begin(node, "MPI_Comm_accept", "for somebody to connect to its port".to_owned());
    let mut calls = DialRequests::new(node, port);
    let mut patience = Patience::new(Instant::now());
    loop {
        let look = Instant::now() + if awaited.is_some() { WATCH } else { LOOK };
        let slice = deadline.map_or(look, |deadline| deadline.min(look));
        let closed =
            || Failure::new(Class::Port, format!("'{}' was closed while this call waited", name::sign(&port.name)));
        let come = wait_until(node, Some(slice), |core| {
            if port.closed.load(Ordering::Relaxed) {
                Some(Err(closed()))
            } else {
                core.accept(at(&port.address), offer).map(Ok)
            }
        });
        let Some(agreement) = come.transpose()? else {
            if let Some(awaited) = &awaited {
                (awaited.look)()?;
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                let waited = timeout.unwrap_or_default().as_secs_f32();
                let text = format!("waited {waited} s, and nobody connected to port {}", name::sign(&port.name));
                return Err(Failure::new(Class::Timeout, text));
            }
            calls.answer(node);
            if let Some(seconds) = patience.is_over(Instant::now()) {
                let (port, places) = (name::sign(&port.name), open::places(&port.address));
                base::log!(
                    Notice,
                    "MPI_Comm_accept waits for {seconds} s for somebody to connect to port {port} at {places}; \
                     a client needs this library too: start it by 'mpi-connect run'"
                );
            }
            continue;
        };
        match joined::check(&agreement.remote, ours) {
            Ok(_) => {
                return awaited.map_or(Ok(()), |awaited| awaited.is_whole(agreement.remote.size)).map(|()| agreement);
            }
            // That caller finds the same failure, and the next caller may be a better one.
            Err(e) => base::log!(Info, "somebody connected in vain: {}", e.text),
        }
    }
}

fn connect(
    node: &Node,
    me: ProcId,
    port: &Address,
    offer: &Party,
    timeout: Duration,
    ours: &HashSet<Process>,
) -> Result<Agreement, Failure> {
    ident::name_port(port.incarnation(), &name::sign(&offer.wanted));
    let path = node.open_control_to_port(me, at(port), port.cookie(), &port.contact());
    let (name, places) = (name::sign(&offer.wanted), open::places(port));
    base::log!(Info, "connecting to port {name} at {places}");
    let _told = Waits::begin(node, "MPI_Comm_connect", "for its call to be accepted".to_owned());
    let fail = |what: String| Err(Failure::new(Class::Port, what));
    let mut patience = Patience::new(Instant::now());
    let why = || match node.path_trouble(path) {
        None => "it is open, but nobody has accepted".to_owned(),
        Some((tried, _)) => format!("it cannot be reached: {tried}"),
    };
    let meanwhile = |_: Option<&Looking>| {
        if let Some(obstacle) = node.with(|core| core.path_obstacle(path)) {
            node.with(|core| core.abandon(path));
            let text = format!("port {name} can never be reached: {}", in_words(obstacle));
            return Err(Failure::new(Class::Port, text));
        }
        if let Some(seconds) = patience.is_over(Instant::now()) {
            base::log!(Notice, "MPI_Comm_connect waits for {seconds} s for port {name} at {places}: {}", why());
        }
        Ok(())
    };
    let mut call = None;
    let ask_to_be_dialled = || {
        if !node.with(|core| core.is_connected(path)) {
            call.get_or_insert_with(|| dial_requests::post(node, me, offer.cookie, port));
        }
        true
    };
    let deadline = Some(Instant::now() + timeout);
    match talk::agree(node, path, "whoever accepts", false, offer, deadline, ask_to_be_dialled, meanwhile)? {
        Round::Agreed(agreement) => {
            let members = joined::check(&agreement.remote, ours)?;
            // So the core knows to which process the path leads.
            node.with(|core| core.introduce(path, &members));
            Ok(agreement)
        }
        Round::Gone => fail(format!("nobody has port {name} open any more (asked at {places})")),
        Round::TimedOut => fail(format!("waited {} s for port {name}: {}", timeout.as_secs_f32(), why())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_of_lam() {
        assert!(is_of_lam("n0:i11:323") && is_of_lam("n12:i1:7"));
        assert!(
            ["", "nonsense", "n0:i11", "n0:i11:", "n:i11:3", "0:11:323", "n0:i11:3:4"].iter().all(|p| !is_of_lam(p))
        );
    }
}
