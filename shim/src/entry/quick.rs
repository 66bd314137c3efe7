//! The fast path of sends and receives: the arguments are correct, the data is contiguous, and the other job has our
//! representation. Nothing is allocated, no reference is counted, and no lock but the node's is taken.
//!
//! Each function here returns `None` if the call is not of that kind, before it has changed anything. Then the general
//! path in `p2p` does the call, and reports faults.

use crate::abi::{self, Abi};
use crate::datatype::plain;
use crate::detached;
use crate::error::{Place, raise};
use crate::inter::{self, Inter, InterRef, InterView};
use crate::request::{self, Peer, completion};
use crate::wait::wait;
use node::{About, Core, Envelope, InterId, Layout, Mode, Node, OpId, Outcome, Source, Tag, user_tag};
use std::ffi::c_int;
use std::mem::ManuallyDrop;
use std::sync::Arc;

type Answer = Option<c_int>;

/// A buffer as the program gives it: address, count, datatype.
pub(super) type Buffer = (usize, i64, usize);

/// The arguments of a send or receive, and the name of the call.
pub(super) struct Message {
    pub call: &'static str,
    pub buf: usize,
    pub count: i64,
    pub datatype: usize,
    pub peer: usize,
    pub tag: usize,
}

/// A contiguous buffer of the program.
#[derive(Clone, Copy)]
struct Run {
    at: usize,
    bytes: usize,
}

impl Run {
    #[inline(always)]
    fn of(abi: &Abi, (buf, count, datatype): Buffer) -> Option<Run> {
        Some(Run { at: buf, bytes: plain(abi, buf, count, datatype)? })
    }

    /// Whether a message of this length may be announced where a shorter one would go eager: then both are tried under one lock.
    #[inline(always)]
    fn is_long(self) -> bool {
        self.bytes as u64 >= node::READ_FROM
    }

    /// Sends it in standard mode, if it is a long one that can leave at once.
    #[inline(always)]
    fn is_sent_long(self, core: &mut Core, inter: InterId, to: To) -> bool {
        self.is_long() && core.send_long_now(inter, to.rank, to.tag, &self.layout())
    }

    /// The layout of the buffer, in which there is nothing to be dropped.
    #[inline(always)]
    fn layout(self) -> ManuallyDrop<Layout> {
        // SAFETY: the program promises its buffer by making the call.
        ManuallyDrop::new(unsafe { Layout::contiguous(self.at as *mut u8, self.bytes) })
    }
}

/// The destination of a send.
#[derive(Clone, Copy)]
struct To {
    rank: u32,
    tag: i64,
}

/// The source and tag of a receive.
#[derive(Clone, Copy)]
struct From {
    source: Source,
    tag: Tag,
}

/// A receive. It is handed on by reference, since it is more than registers hold.
struct Receive {
    place: InterRef,
    inter: InterId,
    from: From,
    room: Run,
    call: &'static str,
}

impl Receive {
    #[inline(always)]
    fn of(
        known: &InterView,
        abi: &Abi,
        room: Buffer,
        source: usize,
        tag: usize,
        call: &'static str,
    ) -> Option<Receive> {
        let (room, from) = (Run::of(abi, room)?, from(known, abi, source, tag)?);
        Some(Receive { place: known.place, inter: known.id, from, room, call })
    }

    /// The layout of its buffer, in which there is nothing to be dropped.
    #[inline(always)]
    fn layout(&self) -> Layout {
        ManuallyDrop::into_inner(self.room.layout())
    }

    #[inline(always)]
    fn begin(&self, core: &mut Core) -> OpId {
        core.irecv(self.inter, self.from.source, self.from.tag, self.layout())
    }
}

/// What a call needs beside its arguments.
type Ready = (&'static Node, &'static Abi, InterView);

#[inline(always)]
fn ready(comm: usize) -> Option<Ready> {
    detached::sweep();
    let abi = abi::known()?;
    let known = inter::known(abi, comm)?;
    Some((Node::running()?, abi, known))
}

#[inline(always)]
fn to(known: &InterView, rank: usize, tag: usize) -> Option<To> {
    Some(To { rank: check_rank(known, rank)?, tag: check_tag(known, tag)? })
}

#[inline(always)]
fn from(known: &InterView, abi: &Abi, source: usize, tag: usize) -> Option<From> {
    let is_any = source as c_int == abi.any_source;
    let source = if is_any { Source::Any } else { Source::Rank(check_rank(known, source)?) };
    let tag = if tag as c_int == abi.any_tag { Tag::Any } else { Tag::Is(check_tag(known, tag)?) };
    (!known.foreign).then_some(From { source, tag })
}

#[inline(always)]
fn check_tag(known: &InterView, tag: usize) -> Option<i64> {
    let tag = tag as c_int;
    (0..=known.tag_ub).contains(&tag).then_some(tag.into())
}

/// A rank of the remote group. `None`: MPI_PROC_NULL, or no such rank.
#[inline(always)]
fn check_rank(known: &InterView, rank: usize) -> Option<u32> {
    Some(rank as u32).filter(|rank| *rank < known.remote_size)
}

// ------------------------------------------------------------------------------------- the calls, once for each entry

#[inline(always)]
pub(super) fn send(
    comm: usize,
    data: Buffer,
    rank: usize,
    tag: usize,
    (call, mode): (&'static str, Option<Mode>),
) -> Answer {
    let (mode, (node, abi, known)) = (mode?, ready(comm)?);
    let (data, to) = (Run::of(abi, data)?, to(&known, rank, tag)?);
    if mode == Mode::Standard && !data.is_long() && send_now(node, known.id, to, data) {
        return Some(0);
    }
    send_waiting(node, known.place, known.id, to, data, (call, mode))
}

#[inline(always)]
pub(super) fn isend(
    comm: usize,
    data: Buffer,
    rank: usize,
    tag: usize,
    (call, mode): (&'static str, Option<Mode>),
    at: usize,
) -> Answer {
    let (mode, (node, abi, known)) = (mode?, ready(comm)?);
    let (data, to) = (Run::of(abi, data)?, to(&known, rank, tag)?);
    let token = match request::sent(node).filter(|_| mode == Mode::Standard) {
        Some(token) if !data.is_long() && send_now(node, known.id, to, data) => token,
        sent => begin_send(node, known.place, known.id, to, data, (call, mode), sent)?,
    };
    // SAFETY: the program's request.
    unsafe { abi::store_handle(at, token) };
    Some(0)
}

#[inline(always)]
pub(super) fn recv(comm: usize, room: Buffer, source: usize, tag: usize, call: &'static str, status: usize) -> Answer {
    let (node, abi, known) = ready(comm)?;
    receive(node, &Receive::of(&known, abi, room, source, tag, call)?, status)
}

#[inline(always)]
pub(super) fn irecv(comm: usize, room: Buffer, source: usize, tag: usize, call: &'static str, at: usize) -> Answer {
    let (node, abi, known) = ready(comm)?;
    let token = begin_receive(node, &Receive::of(&known, abi, room, source, tag, call)?)?;
    // SAFETY: the program's request.
    unsafe { abi::store_handle(at, token) };
    Some(0)
}

/// A send that completes at once, and then a receive. If the fast path cannot do the receive, `receive_else` does it.
pub(super) fn exchange(
    comm: usize,
    out: &Message,
    back: &Message,
    status: usize,
    receive_else: impl FnOnce() -> Answer,
) -> Answer {
    let (node, abi, known) = ready(comm)?;
    let data = Run::of(abi, (out.buf, out.count, out.datatype))?;
    let to = to(&known, out.peer, out.tag)?;
    let room = (back.buf, back.count, back.datatype);
    let back = Receive::of(&known, abi, room, back.peer, back.tag, back.call)?;
    if !send_now(node, known.id, to, data) {
        return None;
    }
    // The message has left, so only the receive may take the general path from here on.
    receive(node, &back, status).or_else(receive_else)
}

// ------------------------------------------------------------------------------------------- the node's part, once for all

#[inline(always)]
fn send_now(node: &Node, inter: InterId, to: To, data: Run) -> bool {
    node.send_now(inter, to.rank, to.tag, &data.layout())
}

/// A blocking send that may have to wait.
#[inline(never)]
fn send_waiting(
    node: &Node,
    place: InterRef,
    inter: InterId,
    to: To,
    data: Run,
    (call, mode): (&'static str, Mode),
) -> Answer {
    let mut left = None;
    let begun = node.with(|core| {
        if mode == Mode::Standard && data.is_sent_long(core, inter, to) {
            return Some(());
        }
        let held = place.hold(core)?;
        let op = core.isend(inter, to.rank, to.tag, ManuallyDrop::into_inner(data.layout()), mode);
        left = Some((op, core.test(op), held));
        Some(())
    });
    begun?;
    Some(left.map_or(0, |left| finish(node, left, (call, Peer::To(to.rank), 0))))
}

/// `sent`: the token of a send that completes at once, if it may.
#[inline(never)]
fn begin_send(
    node: &Node,
    place: InterRef,
    inter: InterId,
    to: To,
    data: Run,
    (call, mode): (&'static str, Mode),
    sent: Option<u64>,
) -> Option<u64> {
    node.with(|core| {
        if sent.is_some() && data.is_sent_long(core, inter, to) {
            return sent;
        }
        request::begin(core, place, call, Peer::To(to.rank), |core| {
            core.isend(inter, to.rank, to.tag, ManuallyDrop::into_inner(data.layout()), mode)
        })
    })
}

#[inline(always)]
fn receive(node: &Node, receive: &Receive, status: usize) -> Answer {
    let Receive { place, inter, from: From { source, tag }, .. } = *receive;
    let got = |envelope| write(&envelope, status);
    match node.recv_now(|core| place.is_there(core), (inter, source, tag), || receive.layout(), got) {
        Ok(()) => Some(0),
        Err(Some(outcome)) => Some(tell_now(node, place, (receive.call, source), outcome, status)),
        Err(None) => receive_waiting(node, receive, status),
    }
}

/// A blocking receive that has to wait.
#[inline(never)]
fn receive_waiting(node: &Node, receive: &Receive, status: usize) -> Answer {
    let place = receive.place;
    let mut left = None;
    let begun = node.with(|core| {
        if !place.is_there(core) {
            return false;
        }
        let op = receive.begin(core);
        // If the message is there already, the receive ends here, unless a round is due: until one is made, no receive is quick.
        let outcome = if core.owes_round() { None } else { core.test(op) };
        match outcome {
            Some(Outcome::Received(e)) => write(&e, status),
            outcome => left = place.hold(core).map(|inter| (op, outcome, inter)),
        }
        true
    });
    if !begun {
        return None;
    }
    Some(left.map_or(0, |left| finish(node, left, (receive.call, Peer::From(receive.from.source), status))))
}

#[inline(always)]
fn begin_receive(node: &Node, receive: &Receive) -> Option<u64> {
    let mut core = node.lock();
    let Some(inter) = request::room(&mut core, receive.place) else {
        node.unlock(core);
        return None;
    };
    let op = receive.begin(&mut core);
    let token = request::put(&mut core, inter, op, receive.call, Peer::From(receive.from.source));
    node.unlock(core);
    Some(token)
}

/// Waits for the end of an operation, unless its outcome is given, and returns the call's result.
#[inline(never)]
fn finish(
    node: &Node,
    (op, outcome, inter): (OpId, Option<Outcome>, Arc<Inter>),
    (call, to, status): (&'static str, Peer, usize),
) -> c_int {
    let mut inter = Some(inter);
    let mut last = None;
    let mut end = |core: &mut Core, outcome: &Outcome| {
        if is_usual(outcome) {
            last = inter.take().and_then(|inter| inter.let_go(core));
        }
    };
    let outcome = match outcome {
        Some(outcome) => {
            node.with(|core| end(core, &outcome));
            outcome
        }
        None => wait(node, &|_| Some(About::op(call, op)), |core| {
            let outcome = core.test(op)?;
            end(core, &outcome);
            Some(outcome)
        }),
    };
    drop(last);
    match (inter, outcome) {
        (Some(inter), _) => return tell(call, to, outcome, Some(&inter), status),
        (None, Outcome::Received(e)) => write(&e, status),
        _ => {}
    }
    0
}

#[inline(always)]
fn is_usual(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Sent | Outcome::Received(_))
}

#[inline(always)]
fn write(e: &Envelope, status: usize) {
    // SAFETY: the program's status.
    unsafe { abi::get().write_received(status, e.source as c_int, user_tag(e.tag) as c_int, e.size) };
}

/// As [`tell`], for a receive that had no operation.
#[cold]
fn tell_now(
    node: &Node,
    place: InterRef,
    (call, source): (&'static str, Source),
    outcome: Outcome,
    status: usize,
) -> c_int {
    // None: another thread has just freed it.
    let inter = node.with(|core| place.hold(core));
    tell(call, Peer::From(source), outcome, inter.as_deref(), status)
}

/// The result of a call with an unusual outcome. The status is written even if there is a failure.
#[cold]
fn tell(call: &str, to: Peer, outcome: Outcome, inter: Option<&Inter>, status: usize) -> c_int {
    let done = completion(call, inter, to, outcome);
    // SAFETY: the program's status, or none.
    unsafe { abi::get().write_status(status, &done.status) };
    done.failure.map_or(0, |failure| raise(inter.map_or_else(Place::world, Inter::errors), &failure))
}
