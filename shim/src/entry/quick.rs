//! The short way of sends and receives: the arguments are in order, the data is one run of bytes, and the other job lays it
//! out as we do. Nothing is allocated or counted, and no lock is taken but the node's.
//!
//! Every function here answers `None` when the call is not of that kind, before anything has happened: then the general
//! way in `p2p` does it, which also tells what is wrong.

use crate::abi::{self, Abi};
use crate::datatype::plain;
use crate::entry::p2p::{self, Message};
use crate::error::raise;
use crate::inter::{self, Inter, Known};
use crate::left;
use crate::request::{self, Peer, Request, Work, completion};
use crate::wait::wait;
use node::{Core, Envelope, Layout, Mode, Node, OpId, Outcome, Source, Tag, user_tag};
use std::ffi::c_int;
use std::sync::Arc;

type Answer = Option<c_int>;

/// A buffer as the program gives it: where, how many, of which type.
pub(super) type Buffer = (usize, i64, usize);

/// What a call needs of the rest.
struct Ready {
    known: Known,
    abi: &'static Abi,
    node: &'static Node,
}

#[inline(always)]
fn ready(comm: usize) -> Option<Ready> {
    left::sweep();
    Some(Ready { known: inter::known(comm)?, abi: abi::known()?, node: Node::running()? })
}

impl Ready {
    #[inline(always)]
    fn tag(&self, tag: usize) -> Option<i64> {
        let tag = tag as c_int;
        (0..=self.known.tag_ub).contains(&tag).then_some(tag.into())
    }

    /// Neither MPI_PROC_NULL nor a rank that is not there.
    #[inline(always)]
    fn rank(&self, rank: usize) -> Option<u32> {
        Some(rank as u32).filter(|rank| *rank < self.known.remote_size)
    }

    /// Which messages a receive takes.
    #[inline(always)]
    fn pattern(&self, source: usize, tag: usize) -> Option<(Source, Tag)> {
        let is_any = source as c_int == self.abi.any_source;
        let source = if is_any { Source::Any } else { Source::Rank(self.rank(source)?) };
        let tag = if tag as c_int == self.abi.any_tag { Tag::Any } else { Tag::Is(self.tag(tag)?) };
        (!self.known.foreign).then_some((source, tag))
    }

    /// Begins an operation and waits for it: the outcome, and the inter-communicator if it may end with it or there is
    /// something to tell of it.
    #[inline(always)]
    fn perform(&self, begin: impl FnOnce(&mut Core) -> OpId) -> Option<(Outcome, Option<Arc<Inter>>)> {
        let (op, inter) = match self.node.with(|core| {
            let inter = self.known.hold(core)?;
            let op = begin(core);
            // A message that is there already needs no more than this lock.
            Some(match core.test(op) {
                Some(outcome) => Err((outcome, let_go(inter, outcome, core))),
                None => Ok((op, inter)),
            })
        })? {
            Ok(under_way) => under_way,
            Err(done) => return Some(done),
        };
        let mut inter = Some(inter);
        Some(wait(self.node, |core| {
            let outcome = core.test(op)?;
            Some((outcome, inter.take().and_then(|inter| let_go(inter, outcome, core))))
        }))
    }

    /// Begins an operation that the program gets a request for.
    #[inline(always)]
    fn hand_out(&self, call: &'static str, to: Peer, at: usize, begin: impl FnOnce(&mut Core) -> OpId) -> Answer {
        let token = self.node.with(|core| {
            request::live(core, |core, live| {
                let token = request::insert(live, Request::of(self.known.hold(core)?, Work::Nothing, call, to))?;
                let op = begin(core);
                if let Some(request) = live.get(token) {
                    request.work = Work::Op(op);
                }
                Some(token)
            })
        })?;
        // SAFETY: the program's request.
        unsafe { abi::store_handle(at, token) };
        Some(0)
    }

    /// A receive to its end.
    #[inline(always)]
    fn receive(&self, call: &str, (source, tag): (Source, Tag), room: Run, status: usize) -> Answer {
        let (outcome, inter) = self.perform(|core| core.irecv(self.known.id, source, tag, room.layout()))?;
        let Outcome::Received(Envelope { source, tag, size }) = outcome else {
            return Some(tell(call, Peer::From(source), outcome, inter, status));
        };
        // SAFETY: the program's status.
        unsafe { self.abi.write_received(status, source as c_int, user_tag(tag) as c_int, size) };
        Some(0)
    }
}

/// An operation is over: its reference is kept when there is something to tell.
#[inline(always)]
fn let_go(inter: Arc<Inter>, outcome: Outcome, core: &mut Core) -> Option<Arc<Inter>> {
    if matches!(outcome, Outcome::Sent | Outcome::Received(_)) { inter.let_go(core) } else { Some(inter) }
}

/// The answer of a call whose outcome is not the usual one. The status is written also when there is a failure.
#[cold]
fn tell(call: &str, to: Peer, outcome: Outcome, inter: Option<Arc<Inter>>, status: usize) -> c_int {
    let done = completion(call, inter.as_deref(), to, outcome);
    // SAFETY: the program's status, or none.
    unsafe { abi::get().write_status(status, &done.status) };
    match (done.failure, inter) {
        (Some(failure), Some(inter)) => raise(inter.errors(), &failure),
        _ => 0,
    }
}

/// One run of the program's memory.
#[derive(Clone, Copy)]
struct Run {
    at: usize,
    bytes: usize,
}

impl Run {
    #[inline(always)]
    fn of((buf, count, datatype): Buffer) -> Option<Run> {
        plain(buf, count, datatype).map(|bytes| Run { at: buf, bytes })
    }

    #[inline(always)]
    fn layout(self) -> Layout {
        // SAFETY: the program promises its buffer by making the call.
        unsafe { Layout::contiguous(self.at as *mut u8, self.bytes) }
    }
}

#[inline(always)]
pub(super) fn send(comm: usize, data: Buffer, dest: usize, tag: usize, (call, mode): (&str, Option<Mode>)) -> Answer {
    let (mode, ready, data) = (mode?, ready(comm)?, Run::of(data)?);
    let (tag, dest) = (ready.tag(tag)?, ready.rank(dest)?);
    if mode == Mode::Standard && ready.node.send_now(ready.known.id, dest, tag, &data.layout()) {
        return Some(0);
    }
    match ready.perform(|core| core.isend(ready.known.id, dest, tag, data.layout(), mode))? {
        (Outcome::Sent, _) => Some(0),
        (outcome, inter) => Some(tell(call, Peer::To(dest), outcome, inter, 0)),
    }
}

#[inline(always)]
pub(super) fn isend(
    comm: usize,
    data: Buffer,
    dest: usize,
    tag: usize,
    (call, mode): (&'static str, Option<Mode>),
    at: usize,
) -> Answer {
    let (mode, ready, data) = (mode?, ready(comm)?, Run::of(data)?);
    let (tag, dest) = (ready.tag(tag)?, ready.rank(dest)?);
    if mode == Mode::Standard
        && let Some(token) = request::sent(ready.node)
        && ready.node.send_now(ready.known.id, dest, tag, &data.layout())
    {
        // SAFETY: the program's request.
        unsafe { abi::store_handle(at, token) };
        return Some(0);
    }
    let begin = |core: &mut Core| core.isend(ready.known.id, dest, tag, data.layout(), mode);
    ready.hand_out(call, Peer::To(dest), at, begin)
}

#[inline(always)]
pub(super) fn recv(comm: usize, room: Buffer, source: usize, tag: usize, call: &str, status: usize) -> Answer {
    let (ready, room) = (ready(comm)?, Run::of(room)?);
    ready.receive(call, ready.pattern(source, tag)?, room, status)
}

#[inline(always)]
pub(super) fn irecv(comm: usize, room: Buffer, source: usize, tag: usize, call: &'static str, at: usize) -> Answer {
    let (ready, room) = (ready(comm)?, Run::of(room)?);
    let (source, tag) = ready.pattern(source, tag)?;
    let begin = |core: &mut Core| core.irecv(ready.known.id, source, tag, room.layout());
    ready.hand_out(call, Peer::From(source), at, begin)
}

/// A send that is over at once, and then a receive.
pub(super) fn exchange(comm: usize, out: &Message, back: &Message, status: usize) -> Answer {
    let ready = ready(comm)?;
    let data = Run::of((out.buf, out.count, out.datatype))?;
    let room = Run::of((back.buf, back.count, back.datatype))?;
    let (dest, tag) = (ready.rank(out.peer)?, ready.tag(out.tag)?);
    let pattern = ready.pattern(back.peer, back.tag)?;
    if !ready.node.send_now(ready.known.id, dest, tag, &data.layout()) {
        return None;
    }
    // The message has left: from here on only the receive may take another way.
    ready.receive(back.call, pattern, room, status).or_else(|| p2p::receive(comm, back, status))
}
