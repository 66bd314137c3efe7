//! Requests on inter-communicators between jobs, as the program holds them: tokens. They live under the node's lock,
//! which whoever begins or ends an operation has anyway.

use crate::abi::{self, Status};
use crate::error::Place;
use crate::failure::{Class, Failure};
use crate::flush::Flush;
use crate::inter::{Inter, Whereabouts};
use crate::locked::Locked;
use crate::process::node;
use crate::token::{self, Behind, Live};
use node::{About, Core, Fault, Layout, Mode, Node, OpId, Outcome, Wrong, user_tag, with_tag};
use std::ffi::c_int;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

/// What a request waits for.
#[derive(Clone)]
pub enum Work {
    Op(OpId),
    /// Over before it began: MPI_PROC_NULL.
    Nothing,
    /// Over for the program: the message has left, or the library has a copy.
    Copied,
    /// Of what is in an attached buffer.
    Flush(Arc<Flush>),
    /// A persistent request that is not started, or has been completed.
    Inactive,
}

/// One request. It keeps its inter-communicator alive.
#[derive(Clone)]
pub struct Request {
    /// `None`: of the one that all sends share which were over at once.
    inter: Option<Arc<Inter>>,
    pub work: Work,
    pub call: &'static str,
    pub to: Peer,
    more: Option<Arc<More>>,
}

/// What few requests have.
#[derive(Default)]
struct More {
    beside: Option<Request>,
    plan: Option<Plan>,
    partitions: Option<Partitions>,
}

/// How a partitioned request is cut.
#[derive(Clone, Copy)]
pub struct Partitions {
    pub count: u32,
    /// Packed bytes of one.
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
    /// With MPI_PROC_NULL.
    Nothing,
}

/// MPI's modes of sending; ready mode is standard mode.
#[derive(Clone, Copy)]
pub enum SendMode {
    Standard,
    Synchronous,
    Buffered,
    /// In so many partitions.
    Partitioned(u32),
}

impl SendMode {
    /// As the node knows it, if a send is no more than that.
    pub fn simple(self) -> Option<Mode> {
        match self {
            SendMode::Standard => Some(Mode::Standard),
            SendMode::Synchronous => Some(Mode::Synchronous),
            SendMode::Buffered | SendMode::Partitioned(_) => None,
        }
    }
}

/// The other end, for messages to the user.
#[derive(Clone, Copy)]
pub enum Peer {
    To(u32),
    From(node::Source),
    Nobody,
}

/// What completion means to the program: a status, and perhaps a failure.
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

    /// One that also ends the send of an Isendrecv.
    pub fn with_beside(self, beside: Request) -> Request {
        Request { more: Some(Arc::new(More { beside: Some(beside), ..More::default() })), ..self }
    }

    /// A persistent one, which starts this.
    pub fn planned(inter: &Arc<Inter>, call: &'static str, plan: Plan, partitions: Option<Partitions>) -> Request {
        let to = plan.peer();
        let more = More { plan: Some(plan), partitions, ..More::default() };
        Request { more: Some(Arc::new(more)), ..Request::new(inter, Work::Inactive, call, to) }
    }

    pub fn inter(&self) -> Option<&Arc<Inter>> {
        self.inter.as_ref()
    }

    /// Where its failures are raised.
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

    /// What it waits for, in a call of this name.
    pub fn about(&self, call: &'static str) -> About {
        About::ops(call, self.ops().collect())
    }

    fn ops(&self) -> impl Iterator<Item = OpId> + '_ {
        std::iter::once(self).chain(self.beside()).filter_map(Request::op)
    }

    pub fn is_of(&self, inter: &Arc<Inter>) -> bool {
        self.inter.as_ref().is_some_and(|own| Arc::ptr_eq(own, inter))
    }

    /// Takes the outcome, if there is one. Called once: the operation is forgotten.
    pub fn take(&self, core: &mut Core) -> Option<Completion> {
        // The usual ones, in one step.
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

    /// The outcome, left in place.
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

    /// A persistent request that is not started: to the Wait and Test calls as good as none.
    pub fn is_inactive(&self) -> bool {
        matches!(self.work, Work::Inactive)
    }

    fn completion(&self, outcome: Outcome) -> Completion {
        completion(self.call, self.inter.as_deref(), self.to, outcome)
    }
}

/// What the outcome of an operation means to the program.
pub fn completion(call: &str, inter: Option<&Inter>, to: Peer, outcome: Outcome) -> Completion {
    match usual(&outcome) {
        Some(status) => Completion { status, failure: None },
        None => unusual(call, inter, to, outcome),
    }
}

/// The status, when there is no more to tell.
#[inline(always)]
fn usual(outcome: &Outcome) -> Option<Status> {
    match outcome {
        Outcome::Sent => Some(abi::get().empty_status()),
        Outcome::Received(e) => Some(received(e)),
        _ => None,
    }
}

#[inline(always)]
fn received(e: &node::Envelope) -> Status {
    Status { source: e.source as c_int, tag: user_tag(e.tag) as c_int, bytes: e.size, cancelled: false, error: None }
}

#[cold]
fn unusual(call: &str, inter: Option<&Inter>, to: Peer, outcome: Outcome) -> Completion {
    let bad = |(source, tag, size), class, what: &str| {
        let e = node::Envelope { source, tag, size };
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
            // Of long lists only the beginning is shown.
            let later = if differ && sent == received { " (they differ in what is not shown)" } else { "" };
            let say = |sent: &str, received: &str| match whole {
                Some(whole) if !differ => {
                    (Class::Truncate, format!("{} ({sent} sent, {received} received)", longer(whole, size)))
                }
                _ => {
                    (Class::Type, format!("has other types than the receive{later}: {sent} sent, {received} received"))
                }
            };
            // As much of both as the MPI's error strings have room for.
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

/// As much of a text as there is room for beside another, which gives what it does not need.
fn beginning(text: &str, room: usize, other: &str) -> String {
    let most = (room / 2).max(room.saturating_sub(other.len()));
    if text.len() <= most {
        return text.to_owned();
    }
    let end = (0..=most.saturating_sub(3)).rev().find(|at| text.is_char_boundary(*at));
    format!("{}...", &text[..end.unwrap_or(0)])
}

/// Names in errors are no longer: those have room for 255 bytes in all.
const NAME: usize = 48;

/// A process of the other job, for messages to the user.
fn member(inter: Option<&Inter>, rank: u32) -> String {
    match inter {
        Some(inter) => format!("rank {rank} of job '{}'", beginning(&inter.remote.name, NAME, "")),
        None => format!("rank {rank}"),
    }
}

/// The completion of what has no status of its own.
fn empty() -> Completion {
    Completion { status: abi::get().empty_status(), failure: None }
}

/// The completion of an operation with MPI_PROC_NULL.
pub fn nothing_done() -> Completion {
    let abi = abi::get();
    Completion { status: Status { source: abi.proc_null, ..abi.empty_status() }, failure: None }
}

/// What the user is told when the other side is gone.
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
    LazyLock::new(|| Locked::new(Live::new(abi::get().family.request_token, behind())));

/// All requests, under the node's lock.
#[inline(always)]
pub fn live<R>(core: &mut Core, f: impl FnOnce(&mut Core, &mut Live<Request>) -> R) -> R {
    LIVE.with(core, f)
}

/// A handle for the program; fails when too many requests are active: 2^24, under Open MPI 2^22 and under LAM 2^17.
#[inline]
pub fn insert(live: &mut Live<Request>, request: Request) -> Option<u64> {
    let stays = request.plan().is_some();
    live.insert(stays, request)
}

/// A request for an operation that begins now. `None`: the inter-communicator has gone, or there is no room for one more;
/// then nothing has begun.
#[inline(always)]
pub fn begin(
    core: &mut Core,
    place: Whereabouts,
    call: &'static str,
    to: Peer,
    begin: impl FnOnce(&mut Core) -> OpId,
) -> Option<u64> {
    live(core, |core, live| {
        let inter = place.hold(core)?;
        // The number of the operation is known when there is a place for it.
        let token = live.insert(false, Request { inter: Some(inter), work: Work::Nothing, call, to, more: None })?;
        let work = Work::Op(begin(core));
        if let Some(request) = live.get(token) {
            request.work = work;
        }
        Some(token)
    })
}

/// The token that all sends share which were over when their call returned. There is none where a Fortran layer keeps
/// something of its own for each request.
#[inline]
pub fn sent(node: &Node) -> Option<u64> {
    let token = SENT.load(Ordering::Relaxed);
    if token != 0 { Some(token) } else { make_sent(node) }
}

/// 0: not made yet.
static SENT: AtomicU64 = AtomicU64::new(0);

#[cold]
fn make_sent(node: &Node) -> Option<u64> {
    if matches!(behind(), Behind::Theirs(_)) {
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

/// A copy, for those who have the node's lock for other things later.
pub fn find(token: u64) -> Option<Request> {
    node().ok()?.with(|core| live(core, |_, live| live.get(token).cloned()))
}

/// Takes a request out. That of all sends stays.
pub fn remove(live: &mut Live<Request>, token: u64) -> Option<Request> {
    if is_sent(token) { live.get(token).cloned() } else { live.remove(token) }
}

/// How the end of a request went.
pub enum End {
    /// It is not complete.
    Not,
    /// There is no such request.
    Stale,
    /// It is over, and the program has its status and handle.
    Told,
    /// It is over, and there is something to be done without the lock.
    Else(Box<Ended>),
}

impl End {
    /// For those who wait.
    #[inline(always)]
    pub fn over(self) -> Option<End> {
        if let End::Not = self { None } else { Some(self) }
    }
}

/// A request that is over: what the program is to see of it.
pub struct Ended {
    pub status: Status,
    /// What the program's handle is now.
    pub handle: u64,
    pub failure: Option<Failure>,
    /// The inter-communicator may end when this is dropped.
    inter: Option<Arc<Inter>>,
}

impl Ended {
    /// The failure, if there is one, and where it is raised.
    pub fn failure(&self) -> Option<(&Failure, Place)> {
        Some((self.failure.as_ref()?, self.inter.as_ref().map_or_else(Place::world, |inter| inter.errors())))
    }
}

/// Ends a request if it is complete: it is gone, unless it may be started again. `tell` gives the program the status and
/// what its handle is now.
#[inline(always)]
pub fn end(core: &mut Core, live: &mut Live<Request>, token: u64, tell: impl FnOnce(&Status, u64)) -> End {
    let Some(request) = live.get(token) else { return End::Stale };
    // The usual ones, in few steps.
    if let (Work::Op(op), None) = (&request.work, &request.more) {
        let Some(outcome) = core.test(*op) else { return End::Not };
        let Some(status) = usual(&outcome) else {
            let completion = request.completion(outcome);
            return End::Else(end_with(completion, core, live, token));
        };
        let inter = request.inter.take().and_then(|inter| inter.let_go(core));
        live.forget(token);
        let handle = abi::get().request_null;
        tell(&status, handle);
        return inter.map_or(End::Told, |inter| {
            End::Else(Box::new(Ended { status, handle, failure: None, inter: Some(inter) }))
        });
    }
    let Some(completion) = request.take(core) else { return End::Not };
    if completion.failure.is_some() {
        return End::Else(end_with(completion, core, live, token));
    }
    let (handle, inter) = retire(core, live, token);
    let status = completion.status;
    tell(&status, handle);
    inter.map_or(End::Told, |inter| End::Else(Box::new(Ended { status, handle, failure: None, inter: Some(inter) })))
}

/// The same, when the program is told by whoever gets this.
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

/// A request is over: what the program's handle is now, and perhaps the last reference to its inter-communicator.
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

/// Whether nothing is under way on an inter-communicator that the program has a request for. Under the node's lock.
pub fn all_complete(inter: &Arc<Inter>, core: &mut Core) -> bool {
    live(core, |core, live| live.all().all(|request| !request.is_of(inter) || request.is_complete(core)))
}

/// What these wait for, in a call of this name. Under the node's lock.
pub fn about(core: &mut Core, call: &'static str, tokens: impl IntoIterator<Item = u64>) -> Option<About> {
    live(core, |_, live| {
        let ops = tokens.into_iter().filter_map(|token| Some(live.get(token)?.ops().collect::<Vec<_>>()));
        Some(About::ops(call, ops.flatten().collect()))
    })
}

/// The same for an array of requests.
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

/// The same for all of an inter-communicator.
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

/// Where Fortran layers look for the INTEGER.
fn behind() -> Behind {
    token::behind(|integers| integers.request, abi::INTEGER_REQUEST)
}

/// As an INTEGER of Fortran, for an MPI that asks.
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
