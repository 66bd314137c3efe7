//! Requests on inter-communicators between jobs. The program has tokens for them. They are protected by the node's
//! lock, which each thread that begins or ends an operation has anyway.

use crate::abi::{self, Status};
use crate::error::Place;
use crate::failure::{Class, Failure};
use crate::flush::Flush;
use crate::inter::{Inter, InterRef};
use crate::locked::Locked;
use crate::process::node;
use crate::token::{self, Backing, Live};
use node::{About, Core, Envelope, Fault, Layout, Mode, Node, OpId, Outcome, Wrong, user_tag, with_tag};
use std::ffi::c_int;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

/// What a request waits for.
#[derive(Clone)]
pub enum Work {
    /// An operation of the engine.
    Op(OpId),
    /// Nothing: a send or receive with MPI_PROC_NULL.
    Nothing,
    /// Nothing: the message has left, or the library has copied it.
    Copied,
    /// The messages in an attached buffer.
    Flush(Arc<Flush>),
    /// Nothing: a persistent request that is not started, or has completed.
    Inactive,
}

/// A request. It keeps its inter-communicator alive.
#[derive(Clone)]
pub struct Request {
    /// `None`: the request that is shared by all sends that completed within their call.
    inter: Option<Arc<Inter>>,
    pub work: Work,
    pub call: &'static str,
    pub to: Peer,
    more: Option<Arc<More>>,
}

/// The parts that few requests have.
#[derive(Default)]
struct More {
    /// The send of an Isendrecv.
    beside: Option<Request>,
    /// The send or receive that a persistent request starts.
    plan: Option<Plan>,
    partitions: Option<Partitions>,
}

/// The partitions of a partitioned request.
#[derive(Clone, Copy)]
pub struct Partitions {
    pub count: u32,
    /// The packed bytes of one partition.
    pub bytes: u64,
    pub sends: bool,
}

/// A send or receive whose arguments have been checked.
pub enum Plan {
    Send {
        dest: u32,
        tag: i64,
        data: Layout,
        mode: SendMode,
    },
    Recv {
        source: node::Source,
        tag: node::Tag,
        data: Layout,
    },
    /// A send or receive with MPI_PROC_NULL.
    Nothing,
}

/// MPI's send modes. Ready mode is served as standard mode.
#[derive(Clone, Copy)]
pub enum SendMode {
    Standard,
    Synchronous,
    Buffered,
    /// With this number of partitions.
    Partitioned(u32),
}

impl SendMode {
    /// The engine's mode. `None`: such a send needs more than one call of the node.
    pub fn simple(self) -> Option<Mode> {
        match self {
            SendMode::Standard => Some(Mode::Standard),
            SendMode::Synchronous => Some(Mode::Synchronous),
            SendMode::Buffered | SendMode::Partitioned(_) => None,
        }
    }
}

/// The other end of an operation, for the text of failures.
#[derive(Clone, Copy)]
pub enum Peer {
    To(u32),
    From(node::Source),
    Nobody,
}

/// The result of an operation for the program: a status, and perhaps a failure.
pub struct Completion {
    pub status: Status,
    pub failure: Option<Failure>,
}

impl Plan {
    pub fn peer(&self) -> Peer {
        match self {
            Plan::Send { dest, .. } => Peer::To(*dest),
            Plan::Recv { source, .. } => Peer::From(*source),
            Plan::Nothing => Peer::Nobody,
        }
    }
}

impl Request {
    pub fn new(inter: &Arc<Inter>, work: Work, call: &'static str, to: Peer) -> Request {
        Request::of(inter.clone(), work, call, to)
    }

    pub fn of(inter: Arc<Inter>, work: Work, call: &'static str, to: Peer) -> Request {
        Request { inter: Some(inter), work, call, to, more: None }
    }

    /// The same request, which also completes the send of an Isendrecv.
    pub fn with_beside(self, beside: Request) -> Request {
        Request { more: Some(Arc::new(More { beside: Some(beside), ..More::default() })), ..self }
    }

    /// A persistent request, which starts this plan.
    pub fn planned(inter: &Arc<Inter>, call: &'static str, plan: Plan, partitions: Option<Partitions>) -> Request {
        let to = plan.peer();
        let more = More { plan: Some(plan), partitions, ..More::default() };
        Request { more: Some(Arc::new(more)), ..Request::new(inter, Work::Inactive, call, to) }
    }

    pub fn inter(&self) -> Option<&Arc<Inter>> {
        self.inter.as_ref()
    }

    /// Where the failures of this request are raised.
    pub fn errors(&self) -> Place {
        self.inter.as_ref().map_or_else(Place::world, |inter| inter.errors())
    }

    /// The send that goes with the receive of an Isendrecv.
    pub fn beside(&self) -> Option<&Request> {
        self.more.as_ref()?.beside.as_ref()
    }

    /// What a persistent request starts.
    pub fn plan(&self) -> Option<&Plan> {
        self.more.as_ref()?.plan.as_ref()
    }

    pub fn partitions(&self) -> Option<Partitions> {
        self.more.as_ref()?.partitions
    }

    pub fn op(&self) -> Option<OpId> {
        if let Work::Op(op) = self.work { Some(op) } else { None }
    }

    /// A description of what it waits for, in a call of this name.
    pub fn about(&self, call: &'static str) -> About {
        About::ops(call, self.ops().collect())
    }

    fn ops(&self) -> impl Iterator<Item = OpId> + '_ {
        std::iter::once(self).chain(self.beside()).filter_map(Request::op)
    }

    pub fn is_of(&self, inter: &Arc<Inter>) -> bool {
        self.inter.as_ref().is_some_and(|own| Arc::ptr_eq(own, inter))
    }

    /// The result, if the request is complete. The operation is forgotten with that, so this returns a result only
    /// once.
    pub fn take(&self, core: &mut Core) -> Option<Completion> {
        // The usual requests, in one step.
        match (&self.work, &self.more) {
            (Work::Op(op), None) => return Some(self.completion(core.test(*op)?)),
            (Work::Copied, None) => return Some(empty()),
            _ => {}
        }
        let completion = self.look(core)?;
        for request in std::iter::once(self).chain(self.beside()) {
            if let Work::Op(op) = request.work {
                core.test(op);
            }
        }
        Some(completion)
    }

    /// The result, if the request is complete. The operation stays.
    pub fn look(&self, core: &mut Core) -> Option<Completion> {
        let beside = match self.beside() {
            Some(beside) => Some(beside.look(core)?),
            None => None,
        };
        let mut completion = match &self.work {
            Work::Op(op) => self.completion(core.peek(*op)?),
            Work::Flush(flush) if !flush.is_over(core) => return None,
            Work::Nothing => nothing_done(),
            Work::Copied | Work::Flush(_) | Work::Inactive => empty(),
        };
        if let Some(failure) = beside.and_then(|b| b.failure) {
            completion.failure.get_or_insert(failure);
        }
        Some(completion)
    }

    pub fn is_complete(&self, core: &Core) -> bool {
        let own = match &self.work {
            Work::Op(op) => core.has_outcome(*op),
            Work::Flush(flush) => flush.is_over(core),
            _ => true,
        };
        own && self.beside().is_none_or(|beside| beside.is_complete(core))
    }

    /// Whether this is a persistent request that is not started. Wait and Test calls treat it as a null request.
    pub fn is_inactive(&self) -> bool {
        matches!(self.work, Work::Inactive)
    }

    fn completion(&self, outcome: Outcome) -> Completion {
        completion(self.call, self.inter.as_deref(), self.to, outcome)
    }
}

/// The result for the program of an operation with this outcome.
pub fn completion(call: &str, inter: Option<&Inter>, to: Peer, outcome: Outcome) -> Completion {
    match usual(&outcome) {
        Some(status) => Completion { status, failure: None },
        None => unusual(call, inter, to, outcome),
    }
}

/// The status of a usual outcome, which has no failure.
#[inline(always)]
fn usual(outcome: &Outcome) -> Option<Status> {
    match outcome {
        Outcome::Sent => Some(abi::get().empty_status()),
        Outcome::Received(e) => Some(received(e)),
        _ => None,
    }
}

#[inline(always)]
fn received(e: &Envelope) -> Status {
    Status { source: e.source as c_int, tag: user_tag(e.tag) as c_int, bytes: e.size, cancelled: false, error: None }
}

#[cold]
fn unusual(call: &str, inter: Option<&Inter>, to: Peer, outcome: Outcome) -> Completion {
    let bad = |(source, tag, size), class, what: &str| {
        let e = Envelope { source, tag, size };
        let text = format!("{call}: the message from {}{} {what}", member(inter, source), with_tag(tag));
        Completion { status: received(&e), failure: Some(Failure::new(class, text)) }
    };
    let longer = |whole, size| format!("has {whole} bytes, and the buffer only {size}");
    match outcome {
        Outcome::Sent | Outcome::Received(_) => empty(),
        Outcome::Cancelled => Completion { status: Status { cancelled: true, ..empty().status }, failure: None },
        Outcome::Truncated { source, tag, size, whole } => {
            bad((source, tag, size), Class::Truncate, &longer(whole, size))
        }
        Outcome::Wrong { source, tag, size, why } => {
            let Some(Wrong { sent, received, whole, differ }) = Wrong::by_number(why) else {
                return bad((source, tag, size), Class::Type, "has other types than the receive");
            };
            // Long lists of types are abbreviated, so two different ones may look alike.
            let later = if differ && sent == received { " (they differ in what is not shown)" } else { "" };
            let say = |sent: &str, received: &str| match whole {
                Some(whole) if !differ => {
                    (Class::Truncate, format!("{} ({sent} sent, {received} received)", longer(whole, size)))
                }
                _ => {
                    (Class::Type, format!("has other types than the receive{later}: {sent} sent, {received} received"))
                }
            };
            // Both lists are cut so that the text fits MPI_MAX_ERROR_STRING.
            let around = bad((source, tag, size), Class::Type, &say("", "").1).failure.map_or(0, |f| f.text.len());
            let room = (abi::get().max_error_string as usize - 1).saturating_sub(around);
            let (class, what) = say(&beginning(&sent, room, &received), &beginning(&received, room, &sent));
            bad((source, tag, size), class, &what)
        }
        Outcome::OutOfRange(e) => {
            bad((e.source, e.tag, e.size), Class::Truncate, "has numbers that their type cannot hold here")
        }
        Outcome::Failed(fault) => {
            Completion { status: empty().status, failure: inter.map(|inter| fault_failure(call, inter, to, fault)) }
        }
    }
}

/// The beginning of a text that shares `room` bytes with another text. Each gets half of the room, and what the other
/// does not need.
fn beginning(text: &str, room: usize, other: &str) -> String {
    let most = (room / 2).max(room.saturating_sub(other.len()));
    if text.len() <= most {
        return text.to_owned();
    }
    let end = (0..=most.saturating_sub(3)).rev().find(|at| text.is_char_boundary(*at));
    format!("{}...", &text[..end.unwrap_or(0)])
}

/// The most bytes of a job's name in the text of a failure, since some MPIs have room for only 255 bytes.
const NAME: usize = 48;

/// The name of a process of the other job, for the text of failures.
fn member(inter: Option<&Inter>, rank: u32) -> String {
    match inter {
        Some(inter) => format!("rank {rank} of job '{}'", beginning(&inter.remote.name, NAME, "")),
        None => format!("rank {rank}"),
    }
}

/// The result of an operation that has no status.
fn empty() -> Completion {
    Completion { status: abi::get().empty_status(), failure: None }
}

/// The result of an operation with MPI_PROC_NULL.
pub fn nothing_done() -> Completion {
    let abi = abi::get();
    Completion { status: Status { source: abi.proc_null, ..abi.empty_status() }, failure: None }
}

/// The failure of an operation whose other side is gone.
pub fn fault_failure(call: &str, inter: &Inter, to: Peer, fault: Fault) -> Failure {
    let job = beginning(&inter.remote.name, NAME, "");
    let who = match to {
        Peer::To(r) | Peer::From(node::Source::Rank(r)) => member(Some(inter), r),
        Peer::From(node::Source::Any) => format!("a rank of job '{job}'"),
        Peer::Nobody => format!("job '{job}'"),
    };
    match fault {
        Fault::PeerDead => {
            Failure::new(Class::PeerGone, format!("{call}: {who} has died: what its job printed says why"))
        }
        Fault::PeerFinished => Failure::new(
            Class::PeerGone,
            format!(
                "{call}: {who} has finalized, or has freed all that it shared with this job: it sends and receives no more"
            ),
        ),
        Fault::Revoked => Failure::new(
            Class::Comm,
            format!("{call}: {who} has freed the inter-communicator: it sends and receives no more on it"),
        ),
    }
}

static LIVE: LazyLock<Locked<Live<Request>>> =
    LazyLock::new(|| Locked::new(Live::new(abi::get().family.request_token, backing())));

/// Runs `f` with the table of all requests, under the node's lock.
#[inline(always)]
pub fn live<R>(core: &mut Core, f: impl FnOnce(&mut Core, &mut Live<Request>) -> R) -> R {
    LIVE.with(core, f)
}

/// A handle for the program. `None`: too many requests are active, 2^24, under Open MPI 2^22, and under LAM 2^17.
#[inline]
pub fn insert(live: &mut Live<Request>, request: Request) -> Option<u64> {
    let stays = request.plan().is_some();
    live.insert(stays, request)
}

/// A request for an operation that `begin` starts. `None`: the inter-communicator was removed, or there is no room for
/// one more request; then nothing was started.
#[inline(always)]
pub fn begin(
    core: &mut Core,
    place: InterRef,
    call: &'static str,
    to: Peer,
    begin: impl FnOnce(&mut Core) -> OpId,
) -> Option<u64> {
    let inter = room(core, place)?;
    // Nothing fails from here on, so the operation may start.
    let op = begin(core);
    Some(put(core, inter, op, call, to))
}

/// Room for one more request, and what it holds of its inter-communicator: see [`begin`].
#[inline(always)]
pub fn room(core: &mut Core, place: InterRef) -> Option<Arc<Inter>> {
    if !LIVE.with(core, |_, live| live.has_room()) {
        return None;
    }
    place.hold(core)
}

/// A request for an operation, for which there is [`room`].
#[inline(always)]
pub fn put(core: &mut Core, inter: Arc<Inter>, op: OpId, call: &'static str, to: Peer) -> u64 {
    LIVE.with(core, |_, live| live.put(false, Request { inter: Some(inter), work: Work::Op(op), call, to, more: None }))
}

/// The token that is shared by all sends that completed within their call. `None`: the Fortran layer of the MPI below
/// keeps data of its own for each request, so there is no shared one.
#[inline]
pub fn sent(node: &Node) -> Option<u64> {
    let token = SENT.load(Ordering::Relaxed);
    if token != 0 { Some(token) } else { make_sent(node) }
}

/// The shared token. 0: it was not made yet.
static SENT: AtomicU64 = AtomicU64::new(0);

#[cold]
fn make_sent(node: &Node) -> Option<u64> {
    if matches!(backing(), Backing::Theirs(_)) {
        return None;
    }
    let shared = Request { inter: None, work: Work::Copied, call: "MPI_Isend", to: Peer::Nobody, more: None };
    node.with(|core| {
        live(core, |_, live| {
            if SENT.load(Ordering::Relaxed) == 0 {
                SENT.store(insert(live, shared)?, Ordering::Relaxed);
            }
            Some(SENT.load(Ordering::Relaxed))
        })
    })
}

#[inline]
pub fn is_sent(token: u64) -> bool {
    token == SENT.load(Ordering::Relaxed)
}

/// A copy of a request, for callers that do not have the node's lock.
pub fn find(token: u64) -> Option<Request> {
    node().ok()?.with(|core| live(core, |_, live| live.get(token).cloned()))
}

/// Takes a request out of the table. The shared one stays there, and a copy is returned.
pub fn remove(live: &mut Live<Request>, token: u64) -> Option<Request> {
    if is_sent(token) { live.get(token).cloned() } else { live.remove(token) }
}

/// The result of [`end`].
pub enum End {
    /// The request is not complete.
    Not,
    /// There is no such request.
    Stale,
    /// The request has ended, and the program has its status and handle.
    Told,
    /// The request has ended, and the rest has to be done without the lock.
    Else(Box<Ended>),
}

impl End {
    /// For waits: `None` means that the request is not complete.
    #[inline(always)]
    pub fn over(self) -> Option<End> {
        if let End::Not = self { None } else { Some(self) }
    }
}

/// A request that has ended, as the program is to see it.
pub struct Ended {
    pub status: Status,
    /// The new value of the program's handle.
    pub handle: u64,
    pub failure: Option<Failure>,
    /// Perhaps the last reference: the inter-communicator may end when this is dropped.
    inter: Option<Arc<Inter>>,
}

impl Ended {
    /// The failure, if there is one, and where it is raised.
    pub fn failure(&self) -> Option<(&Failure, Place)> {
        Some((self.failure.as_ref()?, self.inter.as_ref().map_or_else(Place::world, |inter| inter.errors())))
    }
}

/// Ends a request if it is complete. A persistent request becomes inactive, and any other one is removed. `tell` gives
/// the program the status and the new value of its handle.
#[inline(always)]
pub fn end(core: &mut Core, live: &mut Live<Request>, token: u64, tell: impl FnOnce(&Status, u64)) -> End {
    let abi = abi::get();
    let (status, handle, inter) = if is_sent(token) {
        (abi.empty_status(), abi.request_null, None)
    } else {
        match end_received(core, live, token) {
            Some((envelope, inter)) => (received(&envelope), abi.request_null, inter),
            None => match end_else(core, live, token) {
                Ok(over) => over,
                Err(end) => return end,
            },
        }
    };
    tell(&status, handle);
    inter.map_or(End::Told, |inter| End::Else(left_over(status, handle, inter)))
}

/// A request that has ended without a failure: its status, the new value of its handle, and perhaps the last reference to
/// its inter-communicator.
type Over = (Status, u64, Option<Arc<Inter>>);

#[cold]
fn left_over(status: Status, handle: u64, inter: Arc<Inter>) -> Box<Ended> {
    Box::new(Ended { status, handle, failure: None, inter: Some(inter) })
}

/// Ends a receive that has its whole message and was begun by a call of its own: the usual request, in few steps. It leaves its
/// envelope, and perhaps the last reference to its inter-communicator. `None`: nothing has changed, [`end_else`] says more.
#[inline(always)]
fn end_received(core: &mut Core, live: &mut Live<Request>, token: u64) -> Option<(Envelope, Option<Arc<Inter>>)> {
    let at = live.find(token)?;
    let request = live.at(at)?;
    let (Work::Op(op), None) = (&request.work, &request.more) else { return None };
    let envelope = core.take_received(*op)?;
    let inter = request.inter.take().and_then(|inter| inter.let_go(core));
    live.forget(at, token);
    Some((envelope, inter))
}

/// Ends any request for [`end`].
#[inline(never)]
fn end_else(core: &mut Core, live: &mut Live<Request>, token: u64) -> Result<Over, End> {
    let Some(request) = live.get(token) else { return Err(End::Stale) };
    let Some(completion) = request.take(core) else { return Err(End::Not) };
    if completion.failure.is_some() {
        return Err(End::Else(end_with(completion, core, live, token)));
    }
    let (handle, inter) = retire(core, live, token);
    Ok((completion.status, handle, inter))
}

/// As [`end`], but the caller gives the program the status and the handle.
pub fn end_apart(core: &mut Core, live: &mut Live<Request>, token: u64) -> Option<Box<Ended>> {
    let completion = live.get(token)?.take(core)?;
    Some(end_with(completion, core, live, token))
}

#[inline(never)]
fn end_with(completion: Completion, core: &mut Core, live: &mut Live<Request>, token: u64) -> Box<Ended> {
    let Completion { status, failure } = completion;
    let kept = live.get(token).and_then(|request| request.inter.clone()).filter(|_| failure.is_some());
    let (handle, last) = retire(core, live, token);
    Box::new(Ended { status, handle, failure, inter: last.or(kept) })
}

/// Removes a request that has ended, or makes a persistent one inactive. Returns the new value of the program's handle,
/// and perhaps the last reference to the inter-communicator.
fn retire(core: &mut Core, live: &mut Live<Request>, token: u64) -> (u64, Option<Arc<Inter>>) {
    match live.get(token) {
        Some(request) if request.plan().is_some() => {
            request.work = Work::Inactive;
            return (token, None);
        }
        Some(request) if request.inter.is_some() => {}
        _ => return (abi::get().request_null, None),
    }
    let last = live.remove(token).and_then(|request| request.inter).and_then(|inter| inter.let_go(core));
    (abi::get().request_null, last)
}

/// Whether all requests on an inter-communicator are complete. Called under the node's lock.
pub fn all_complete(inter: &Arc<Inter>, core: &mut Core) -> bool {
    live(core, |core, live| live.all().all(|request| !request.is_of(inter) || request.is_complete(core)))
}

/// A description of what these requests wait for, in a call of this name. Called under the node's lock.
pub fn about(core: &mut Core, call: &'static str, tokens: impl IntoIterator<Item = u64>) -> Option<About> {
    live(core, |_, live| {
        let ops = tokens.into_iter().filter_map(|token| Some(live.get(token)?.ops().collect::<Vec<_>>()));
        Some(About::ops(call, ops.flatten().collect()))
    })
}

/// As [`about`], for the requests of ours in an array.
///
/// # Safety
/// `array` is the address of `count` requests.
pub unsafe fn about_array(core: &mut Core, call: &'static str, array: usize, count: usize) -> Option<About> {
    let width = abi::known()?.family.handle_bytes;
    // SAFETY: the caller's promise.
    let handles = (0..count as c_int as usize).map(|i| unsafe { abi::load_handle(array + i * width) });
    // SAFETY: none needed.
    about(core, call, handles.filter(|handle| unsafe { is_token(*handle as usize) }))
}

/// As [`about`], for all requests on an inter-communicator.
pub fn about_inter(inter: &Arc<Inter>, core: &mut Core, call: &'static str) -> About {
    let ops =
        live(core, |_, live| live.all().filter(|r| r.is_of(inter)).flat_map(|r| r.ops().collect::<Vec<_>>()).collect());
    About::ops(call, ops)
}

pub fn set_work(node: &Node, token: u64, work: Work) {
    node.with(|core| live(core, |_, live| live.get(token).map(|request| request.work = work)));
}

/// # Safety
/// None needed; the mark functions share one form.
pub unsafe fn is_token(value: usize) -> bool {
    token::REQUEST.is_on(value)
}

/// Whether all of these handles are ours.
pub fn are_tokens(handles: impl Iterator<Item = u64>) -> bool {
    token::REQUEST.are_on(handles)
}

/// # Safety
/// `at` is null or the address of a request.
pub unsafe fn is_token_at(at: usize) -> bool {
    // SAFETY: the caller's promise.
    unsafe { token::REQUEST.is_at(at) }
}

/// The first request of an array that is ours.
///
/// # Safety
/// `array` is null or the address of `count` requests.
pub unsafe fn first_token(array: usize, count: i32) -> Option<usize> {
    let width = abi::known()?.family.handle_bytes;
    let count = if array == 0 { 0 } else { count.max(0) as usize };
    // SAFETY: the caller's promise.
    (0..count).map(|i| unsafe { abi::load_handle(array + i * width) } as usize).find(|h| unsafe { is_token(*h) })
}

/// Where Fortran layers look for the INTEGER of a request.
fn backing() -> Backing {
    token::backing(|integers| integers.request, abi::INTEGER_REQUEST)
}

/// A token as an INTEGER of Fortran, for an MPI whose Fortran layer asks for it by a call.
pub fn to_int(token: u64) -> Option<c_int> {
    token::to_int(token, &token::REQUEST)
}

pub fn from_int(int: c_int) -> Option<u64> {
    token::from_int(int, &token::REQUEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_tag_of_the_program_is_told_without() {
        let text = |call, tag| {
            let longer = Outcome::Truncated { source: 0, tag, size: 4, whole: 16 };
            unusual(call, None, Peer::Nobody, longer).failure.map(|failure| failure.text).unwrap_or_default()
        };
        let end = "has 16 bytes, and the buffer only 4";
        assert_eq!(text("MPI_Bcast", -2), format!("MPI_Bcast: the message from rank 0 {end}"));
        assert_eq!(text("MPI_Recv", 5), format!("MPI_Recv: the message from rank 0 with tag 5 {end}"));
    }
}
