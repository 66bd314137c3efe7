//! Requests on inter-communicators between jobs, as the program holds them: tokens.

use crate::abi::{self, Status};
use crate::error::{Class, Failure};
use crate::inter::Inter;
use crate::token::{self, Tokens, has_prefix};
use node::{Core, Fault, OpId, Outcome};
use std::ffi::c_int;
use std::sync::{Arc, LazyLock};

/// What a request waits for.
#[derive(Clone)]
pub enum Work {
    Op(OpId),
    /// Over before it began: MPI_PROC_NULL.
    Nothing,
}

/// One request. It keeps its inter-communicator alive.
#[derive(Clone)]
pub struct Request {
    pub inter: Arc<Inter>,
    pub work: Work,
    pub call: &'static str,
    pub to: Peer,
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

impl Request {
    /// Takes the outcome, if there is one. Called once: the operation is forgotten.
    pub fn take(&self, core: &mut Core) -> Option<Completion> {
        match self.work {
            Work::Nothing => Some(nothing_done()),
            Work::Op(op) => core.test(op).map(|outcome| self.completion(outcome)),
        }
    }

    pub fn is_complete(&self, core: &Core) -> bool {
        match self.work {
            Work::Nothing => true,
            Work::Op(op) => core.peek(op).is_some(),
        }
    }

    pub fn completion(&self, outcome: Outcome) -> Completion {
        let abi = abi::get();
        let received = |e: node::Envelope| Status { source: e.source as i32, tag: e.tag, bytes: e.size, error: None };
        let (status, failure) = match outcome {
            Outcome::Sent => (abi.empty_status(), None),
            Outcome::Received(e) => (received(e), None),
            Outcome::Truncated(e) => {
                let text = format!(
                    "{}: the message from rank {} with tag {} is longer than the {} bytes of the buffer",
                    self.call, e.source, e.tag, e.size
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
        Fault::PeerFinished => Failure::new(Class::PeerGone, format!("{call}: {who} has finalized")),
        Fault::Revoked => Failure::new(Class::Comm, format!("{call}: {who} has freed the inter-communicator")),
    }
}

static LIVE: LazyLock<Tokens<Request>> = LazyLock::new(Tokens::new);

/// A handle for the program; fails when 2^24 requests are active.
pub fn insert(request: Request) -> Option<u64> {
    LIVE.insert(abi::get().family.request_token, integer_at(), request)
}

pub fn find(token: u64) -> Option<Request> {
    LIVE.with(token, |r| r.clone())
}

pub fn remove(token: u64) {
    LIVE.remove(token, integer_at());
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

/// Where the INTEGER of Fortran is kept, if it is kept with the object.
fn integer_at() -> Option<usize> {
    abi::get().family.integers.map(|integers| integers.request)
}

/// As an INTEGER of Fortran, for an MPI that asks.
pub fn to_int(token: u64) -> Option<c_int> {
    token::to_int(token, abi::asks_for_integers()?.request_token, abi::INTEGER_REQUEST)
}

pub fn from_int(int: c_int) -> Option<u64> {
    token::from_int(int, abi::asks_for_integers()?.request_token, abi::INTEGER_REQUEST)
}
