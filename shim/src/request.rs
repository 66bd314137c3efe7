//! Requests on inter-communicators between jobs, as the program holds them: tokens.

use crate::abi::{self, Status};
use crate::error::{Class, Failure};
use crate::flush::Flush;
use crate::inter::Inter;
use crate::token::{self, Behind, Tokens, has_prefix};
use node::{Core, Fault, Layout, OpId, Outcome, partitioned_tag, user_tag};
use std::collections::HashMap;
use std::ffi::c_int;
use std::sync::{Arc, LazyLock, Mutex};

/// What a request waits for.
#[derive(Clone)]
pub enum Work {
    Op(OpId),
    /// Over before it began: MPI_PROC_NULL.
    Nothing,
    /// Over for the program, since the library has a copy: buffered sends.
    Copied,
    /// Of what is in an attached buffer.
    Flush(Arc<Flush>),
    /// A persistent request that is not started, or has been completed.
    Inactive,
}

/// One request. It keeps its inter-communicator alive.
#[derive(Clone)]
pub struct Request {
    pub inter: Arc<Inter>,
    pub work: Work,
    pub call: &'static str,
    pub to: Peer,
    /// The send that goes with the receive of an Isendrecv.
    pub beside: Option<Box<Request>>,
    /// What a persistent request starts.
    pub plan: Option<Arc<Plan>>,
    pub partitions: Option<Partitions>,
}

/// How a partitioned request is cut.
#[derive(Clone, Copy)]
pub struct Partitions {
    pub count: u32,
    /// Packed bytes of one.
    pub bytes: u64,
    pub sends: bool,
}

/// How many partitioned operations of an inter-communicator were made, by whether they send, peer and tag. The k-th of one
/// side belongs to the k-th of the other: each has a tag of its own.
#[derive(Default)]
pub struct Counts(Mutex<HashMap<(bool, u32, c_int), u32>>);

impl Counts {
    /// The tag of the next one.
    pub fn next(&self, sends: bool, peer: u32, tag: c_int) -> i64 {
        let mut counts = self.0.lock().unwrap_or_else(|e| e.into_inner());
        let count = counts.entry((sends, peer, tag)).or_default();
        let own = partitioned_tag(tag as u32, *count);
        *count = count.wrapping_add(1);
        own
    }
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
        Request { inter: inter.clone(), work, call, to, beside: None, plan: None, partitions: None }
    }

    /// Takes the outcome, if there is one. Called once: the operation is forgotten.
    pub fn take(&self, core: &mut Core) -> Option<Completion> {
        let completion = self.look(core)?;
        for request in std::iter::once(self).chain(self.beside.as_deref()) {
            if let Work::Op(op) = request.work {
                core.test(op);
            }
        }
        Some(completion)
    }

    /// The outcome, left in place.
    pub fn look(&self, core: &mut Core) -> Option<Completion> {
        let beside = match &self.beside {
            Some(beside) => Some(beside.look(core)?),
            None => None,
        };
        let done = |status| Completion { status, failure: None };
        let mut completion = match &self.work {
            Work::Op(op) => self.completion(core.peek(*op)?),
            Work::Flush(flush) if !flush.is_over(core) => return None,
            Work::Nothing => nothing_done(),
            Work::Copied | Work::Flush(_) | Work::Inactive => done(abi::get().empty_status()),
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
        own && self.beside.as_ref().is_none_or(|beside| beside.is_complete(core))
    }

    /// A persistent request that is not started: to the Wait and Test calls as good as none.
    pub fn is_inactive(&self) -> bool {
        matches!(self.work, Work::Inactive)
    }

    fn completion(&self, outcome: Outcome) -> Completion {
        let abi = abi::get();
        let received = |e: node::Envelope| Status {
            source: e.source as i32,
            tag: user_tag(e.tag) as c_int,
            bytes: e.size,
            ..abi.empty_status()
        };
        let (status, failure) = match outcome {
            Outcome::Sent => (abi.empty_status(), None),
            Outcome::Cancelled => (Status { cancelled: true, ..abi.empty_status() }, None),
            Outcome::Received(e) => (received(e), None),
            Outcome::Truncated(e) => {
                let text = format!(
                    "{}: the message from rank {} with tag {} is longer than the {} bytes of the buffer",
                    self.call,
                    e.source,
                    user_tag(e.tag),
                    e.size
                );
                (received(e), Some(Failure::new(Class::Truncate, text)))
            }
            Outcome::OutOfRange(e) => {
                let text = format!(
                    "{}: the message from rank {} with tag {} has numbers that their type cannot hold here",
                    self.call, e.source, e.tag
                );
                (received(e), Some(Failure::new(Class::Truncate, text)))
            }
            Outcome::Failed(fault) => (abi.empty_status(), Some(fault_failure(self.call, &self.inter, self.to, fault))),
        };
        Completion { status, failure }
    }
}

/// The completion of an operation with MPI_PROC_NULL.
pub fn nothing_done() -> Completion {
    let abi = abi::get();
    Completion { status: Status { source: abi.proc_null, ..abi.empty_status() }, failure: None }
}

/// What the user is told when the other side is gone.
pub fn fault_failure(call: &str, inter: &Inter, to: Peer, fault: Fault) -> Failure {
    let job = &inter.remote.name;
    let who = match to {
        Peer::To(r) | Peer::From(node::Source::Rank(r)) => format!("rank {r} of job '{job}'"),
        Peer::From(node::Source::Any) => format!("a rank of job '{job}'"),
        Peer::Nobody => format!("job '{job}'"),
    };
    match fault {
        Fault::PeerDead => Failure::new(Class::PeerGone, format!("{call}: {who} has died")),
        Fault::PeerFinished => Failure::new(
            Class::PeerGone,
            format!("{call}: {who} has finalized, or has freed all that it shared with this job"),
        ),
        Fault::Revoked => Failure::new(Class::Comm, format!("{call}: {who} has freed the inter-communicator")),
    }
}

static LIVE: LazyLock<Tokens<Request>> = LazyLock::new(Tokens::new);

/// A handle for the program; fails when too many requests are active: 2^24, and under LAM 2^17.
pub fn insert(request: Request) -> Option<u64> {
    let stays = request.plan.is_some();
    LIVE.insert(abi::get().family.request_token, behind(), stays, request)
}

pub fn find(token: u64) -> Option<Request> {
    LIVE.with(token, |r| r.clone())
}

pub fn remove(token: u64) -> Option<Request> {
    LIVE.remove(token, behind())
}

/// The request has completed: it is gone, unless it may be started again. What the program's handle is then.
pub fn retire(token: u64, request: &Request) -> u64 {
    if request.plan.is_some() {
        set_work(token, Work::Inactive);
        token
    } else {
        remove(token);
        abi::get().request_null
    }
}

/// Whether nothing is under way on an inter-communicator that the program has a request for. Under the node's lock.
pub fn all_complete(inter: &Arc<Inter>, core: &Core) -> bool {
    LIVE.all(|request| !Arc::ptr_eq(&request.inter, inter) || request.is_complete(core))
}

pub fn set_work(token: u64, work: Work) {
    LIVE.with(token, |request| request.work = work);
}

/// # Safety
/// None needed; the mark functions share one form.
#[inline(always)]
pub unsafe fn is_token(value: usize) -> bool {
    abi::known().is_some_and(|abi| has_prefix(value as u64, abi.family.request_token))
}

/// # Safety
/// `at` is null or the address of a request.
#[inline(always)]
pub unsafe fn is_token_at(at: usize) -> bool {
    // SAFETY: the caller's promise.
    at != 0 && abi::known().is_some() && unsafe { is_token(abi::load_handle(at) as usize) }
}

/// The first request of an array that is ours.
///
/// # Safety
/// `array` is null or the address of `count` requests.
#[inline(always)]
pub unsafe fn first_token(array: usize, count: i32) -> Option<usize> {
    let width = abi::known()?.family.handle_bytes;
    let count = if array == 0 { 0 } else { count.max(0) as usize };
    // SAFETY: the caller's promise.
    (0..count).map(|i| unsafe { abi::load_handle(array + i * width) } as usize).find(|h| unsafe { is_token(*h) })
}

/// Whether any request of an array is ours.
///
/// # Safety
/// As for [`first_token`].
#[inline(always)]
pub unsafe fn any_token(array: usize, count: i32) -> bool {
    // SAFETY: the caller's promise.
    unsafe { first_token(array, count) }.is_some()
}

/// Where Fortran layers look for the INTEGER.
fn behind() -> Behind {
    token::behind(|integers| integers.request, abi::INTEGER_REQUEST)
}

/// As an INTEGER of Fortran, for an MPI that asks.
pub fn to_int(token: u64) -> Option<c_int> {
    token::to_int(token, abi::asks_for_integers()?.request_token, abi::INTEGER_REQUEST)
}

pub fn from_int(int: c_int) -> Option<u64> {
    token::from_int(int, abi::asks_for_integers()?.request_token, abi::INTEGER_REQUEST)
}
