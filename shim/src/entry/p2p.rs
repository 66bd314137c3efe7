//! Point-to-point calls on an inter-communicator between jobs.

use crate::abi;
use crate::buffer;
use crate::datatype::{layout, layout_from};
use crate::detached;
use crate::entry::quick::{self, Message};
use crate::error::raise;
use crate::failure::{Class, Failure};
use crate::inter::{self, Inter};
use crate::process::node;
use crate::request::{self, Completion, Plan, Request, SendMode, Work};
use crate::wait::wait;
use node::{Mode, Source, Tag};
use std::ffi::c_int;
use std::sync::Arc;

type Answer = Option<c_int>;

/// Runs a call if the communicator is one of ours, and raises its failure.
pub(super) fn on(comm: usize, call: impl FnOnce(&Arc<Inter>) -> Result<(), Failure>) -> Answer {
    let inter = inter::find(comm as u64)?;
    detached::sweep();
    Some(match call(&inter) {
        Ok(()) => 0,
        Err(failure) => raise(inter.errors(), &failure),
    })
}

pub(super) fn check_tag(call: &str, inter: &Inter, tag: c_int) -> Result<c_int, Failure> {
    if (0..=*inter.tag_ub).contains(&tag) {
        Ok(tag)
    } else {
        Err(Failure::new(Class::Tag, format!("{call}: tag {tag} is not from 0 to {}", inter.tag_ub)))
    }
}

pub(super) fn check_rank(call: &str, inter: &Inter, rank: c_int) -> Result<u32, Failure> {
    u32::try_from(rank).ok().filter(|r| *r < inter.remote.size()).ok_or_else(|| {
        Failure::new(
            Class::Rank,
            format!(
                "{call}: there is no rank {rank} in job '{}', whose ranks here are 0 to {}",
                inter.remote.name,
                inter.remote.size() - 1
            ),
        )
    })
}

/// The source and tag of a receive or probe; `None` for MPI_PROC_NULL.
pub(super) fn check_pattern(
    call: &str,
    inter: &Inter,
    source: c_int,
    tag: c_int,
) -> Result<Option<(Source, Tag)>, Failure> {
    let abi = abi::get();
    let tag = if tag == abi.any_tag { Tag::Any } else { Tag::Is(check_tag(call, inter, tag)?.into()) };
    if source == abi.proc_null {
        return Ok(None);
    }
    let source = if source == abi.any_source { Source::Any } else { Source::Rank(check_rank(call, inter, source)?) };
    Ok(Some((source, tag)))
}

pub(super) fn plan_send(inter: &Inter, m: &Message, mode: SendMode) -> Result<Plan, Failure> {
    // SAFETY: the program's buffer, as it promises by the call.
    let data = unsafe { layout(m.call, m.buf, m.count, m.datatype) }?;
    let tag = check_tag(m.call, inter, m.tag as c_int)?.into();
    let dest = m.peer as c_int;
    if dest == abi::get().proc_null {
        return Ok(Plan::Nothing);
    }
    Ok(Plan::Send { dest: check_rank(m.call, inter, dest)?, tag, data, mode })
}

pub(super) fn plan_recv(inter: &Inter, m: &Message) -> Result<Plan, Failure> {
    // SAFETY: the program's buffer, as it promises by the call.
    let data = unsafe { layout_from(inter.remote.foreign, m.call, m.buf, m.count, m.datatype) }?;
    Ok(match check_pattern(m.call, inter, m.peer as c_int, m.tag as c_int)? {
        None => Plan::Nothing,
        Some((source, tag)) => Plan::Recv { source, tag, data },
    })
}

/// Starts a planned send or receive.
pub(super) fn begin(inter: &Arc<Inter>, call: &'static str, plan: &Plan) -> Result<Work, Failure> {
    Ok(match plan {
        Plan::Nothing => Work::Nothing,
        Plan::Send { dest, tag, data, mode } => {
            let mode = match mode {
                SendMode::Standard => Mode::Standard,
                SendMode::Synchronous => Mode::Synchronous,
                SendMode::Partitioned(count) => Mode::Partitioned(*count),
                SendMode::Buffered => {
                    buffer::send(inter, call, *dest, *tag, data, node()?)?;
                    return Ok(Work::Copied);
                }
            };
            let node = node()?;
            if mode == Mode::Standard && node.send_now(inter.id, *dest, *tag, data) {
                return Ok(Work::Copied);
            }
            Work::Op(node.isend(inter.id, *dest, *tag, data.clone(), mode))
        }
        Plan::Recv { source, tag, data } => Work::Op(node()?.irecv(inter.id, *source, *tag, data.clone())),
    })
}

pub(super) fn request(inter: &Arc<Inter>, call: &'static str, plan: &Plan) -> Result<Request, Failure> {
    Ok(Request::new(inter, begin(inter, call, plan)?, call, plan.peer()))
}

/// Waits for a request that the program never sees.
pub(super) fn finish(request: &Request) -> Result<Completion, Failure> {
    Ok(wait(node()?, &|_| Some(request.about(request.call)), |core| request.take(core)))
}

/// The end of a blocking call. The status is written even if there is a failure such as truncation.
pub(super) fn conclude(completion: Completion, status: Option<usize>) -> Result<(), Failure> {
    if let Some(at) = status {
        // SAFETY: the program's status.
        unsafe { abi::get().write_status(at, &completion.status) };
    }
    completion.failure.map_or(Ok(()), Err)
}

/// Gives a started request to the program.
pub(super) fn hand_out(request: Request, at: usize) -> Result<(), Failure> {
    let token = node()?.with(|core| request::live(core, |_, live| request::insert(live, request)));
    let token = token.ok_or_else(|| Failure::new(Class::Other, "too many active requests"))?;
    // SAFETY: the program's request.
    unsafe { abi::store_handle(at, token) };
    Ok(())
}

// The general way of each kind of call.

#[inline(never)]
fn send(comm: usize, m: &Message, mode: SendMode) -> Answer {
    on(comm, |inter| conclude(finish(&request(inter, m.call, &plan_send(inter, m, mode)?)?)?, None))
}

#[inline(never)]
fn start_send(comm: usize, m: &Message, mode: SendMode, at: usize) -> Answer {
    on(comm, |inter| hand_out(request(inter, m.call, &plan_send(inter, m, mode)?)?, at))
}

#[inline(never)]
pub(super) fn receive(comm: usize, m: &Message, status: usize) -> Answer {
    on(comm, |inter| conclude(finish(&request(inter, m.call, &plan_recv(inter, m)?)?)?, Some(status)))
}

#[inline(never)]
fn start_receive(comm: usize, m: &Message, at: usize) -> Answer {
    on(comm, |inter| hand_out(request(inter, m.call, &plan_recv(inter, m)?)?, at))
}

/// Defines the calls in pairs: the counts of MPI_X are ints, and those of MPI_X_c are MPI_Counts.
macro_rules! sends {
    ($($blocking:ident $nonblocking:ident $mode:ident $count:ty;)*) => { $(
        #[inline(always)]
        pub unsafe fn $blocking(buf: usize, count: usize, datatype: usize, dest: usize, tag: usize, comm: usize) -> Answer {
            let (call, mode) = (concat!("MPI_", stringify!($blocking)), SendMode::$mode);
            let count = (count as $count).into();
            quick::send(comm, (buf, count, datatype), dest, tag, (call, mode.simple()))
                .or_else(|| send(comm, &Message { call, buf, count, datatype, peer: dest, tag }, mode))
        }

        #[inline(always)]
        pub unsafe fn $nonblocking(
            buf: usize, count: usize, datatype: usize, dest: usize, tag: usize, comm: usize, request: usize,
        ) -> Answer {
            let (call, mode) = (concat!("MPI_", stringify!($nonblocking)), SendMode::$mode);
            let count = (count as $count).into();
            quick::isend(comm, (buf, count, datatype), dest, tag, (call, mode.simple()), request)
                .or_else(|| start_send(comm, &Message { call, buf, count, datatype, peer: dest, tag }, mode, request))
        }
    )* };
}

sends! {
    Send Isend Standard c_int;
    Send_c Isend_c Standard i64;
    Ssend Issend Synchronous c_int;
    Ssend_c Issend_c Synchronous i64;
    Rsend Irsend Standard c_int;
    Rsend_c Irsend_c Standard i64;
    Bsend Ibsend Buffered c_int;
    Bsend_c Ibsend_c Buffered i64;
}

macro_rules! receives {
    ($($blocking:ident $nonblocking:ident $count:ty;)*) => { $(
        #[inline(always)]
        pub unsafe fn $blocking(
            buf: usize, count: usize, datatype: usize, source: usize, tag: usize, comm: usize, status: usize,
        ) -> Answer {
            let (call, count) = (concat!("MPI_", stringify!($blocking)), (count as $count).into());
            quick::recv(comm, (buf, count, datatype), source, tag, call, status)
                .or_else(|| receive(comm, &Message { call, buf, count, datatype, peer: source, tag }, status))
        }

        #[inline(always)]
        pub unsafe fn $nonblocking(
            buf: usize, count: usize, datatype: usize, source: usize, tag: usize, comm: usize, request: usize,
        ) -> Answer {
            let (call, count) = (concat!("MPI_", stringify!($nonblocking)), (count as $count).into());
            quick::irecv(comm, (buf, count, datatype), source, tag, call, request)
                .or_else(|| start_receive(comm, &Message { call, buf, count, datatype, peer: source, tag }, request))
        }
    )* };
}

receives! {
    Recv Irecv c_int;
    Recv_c Irecv_c i64;
}

// ---------------------------------------------------------------------------------------- a send and a receive in one

/// Both halves of a call: the send, then the receive.
type Halves = (Plan, Plan);

/// Blocking: does both, with the status of the receive.
fn exchange(inter: &Arc<Inter>, call: &'static str, (out, back): Halves, status: usize) -> Result<(), Failure> {
    let receive = request(inter, call, &back)?;
    let sent = finish(&request(inter, call, &out)?)?;
    if sent.failure.is_some() {
        // If the send has failed, nothing may write to the program's buffer after the call.
        if let Work::Op(op) = receive.work {
            node()?.cancel(op);
        }
        finish(&receive)?;
        return conclude(sent, None);
    }
    conclude(finish(&receive)?, Some(status))
}

/// Nonblocking: starts both with one request, which has the status of the receive.
fn start_exchange(inter: &Arc<Inter>, call: &'static str, (out, back): Halves, at: usize) -> Result<(), Failure> {
    let receive = request(inter, call, &back)?;
    hand_out(receive.with_beside(request(inter, call, &out)?), at)
}

/// The halves of a call that receives into the buffer that it sends from (MPI_Sendrecv_replace). The send is of a copy.
fn replacing(inter: &Inter, out: &Message, back: &Message) -> Result<Halves, Failure> {
    let back = plan_recv(inter, back)?;
    let mut out = plan_send(inter, out, SendMode::Standard)?;
    if let Plan::Send { data, .. } = &mut out {
        *data = data.packed();
    }
    Ok((out, back))
}

fn halves(inter: &Inter, out: &Message, back: &Message) -> Result<Halves, Failure> {
    Ok((plan_send(inter, out, SendMode::Standard)?, plan_recv(inter, back)?))
}

fn sendrecv(comm: usize, out: &Message, back: &Message, status: usize) -> Answer {
    quick::exchange(comm, out, back, status, || receive(comm, back, status))
        .or_else(|| on(comm, |inter| exchange(inter, out.call, halves(inter, out, back)?, status)))
}

fn isendrecv(comm: usize, out: &Message, back: &Message, at: usize) -> Answer {
    on(comm, |inter| start_exchange(inter, out.call, halves(inter, out, back)?, at))
}

macro_rules! exchanges {
    ($($name:ident $run:ident $replace:ident $start:ident $count:ty;)*) => { $(
        #[allow(clippy::too_many_arguments)]
        pub unsafe fn $name(
            sendbuf: usize, sendcount: usize, sendtype: usize, dest: usize, sendtag: usize, recvbuf: usize,
            recvcount: usize, recvtype: usize, source: usize, recvtag: usize, comm: usize, at: usize,
        ) -> Answer {
            let call = concat!("MPI_", stringify!($name));
            let (sendcount, recvcount) = ((sendcount as $count).into(), (recvcount as $count).into());
            let out = Message { call, buf: sendbuf, count: sendcount, datatype: sendtype, peer: dest, tag: sendtag };
            let back = Message { call, buf: recvbuf, count: recvcount, datatype: recvtype, peer: source, tag: recvtag };
            $run(comm, &out, &back, at)
        }

        #[allow(clippy::too_many_arguments)]
        pub unsafe fn $replace(
            buf: usize, count: usize, datatype: usize, dest: usize, sendtag: usize, source: usize, recvtag: usize,
            comm: usize, at: usize,
        ) -> Answer {
            let (call, count) = (concat!("MPI_", stringify!($replace)), (count as $count).into());
            let out = Message { call, buf, count, datatype, peer: dest, tag: sendtag };
            let back = Message { peer: source, tag: recvtag, ..out };
            on(comm, |inter| $start(inter, call, replacing(inter, &out, &back)?, at))
        }
    )* };
}

exchanges! {
    Sendrecv sendrecv Sendrecv_replace exchange c_int;
    Sendrecv_c sendrecv Sendrecv_replace_c exchange i64;
    Isendrecv isendrecv Isendrecv_replace start_exchange c_int;
    Isendrecv_c isendrecv Isendrecv_replace_c start_exchange i64;
}
