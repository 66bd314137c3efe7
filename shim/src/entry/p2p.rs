//! Point-to-point calls on an inter-communicator between jobs.

use crate::abi::{self, Status};
use crate::datatype::layout;
use crate::entry::node;
use crate::error::{Class, Failure, raise};
use crate::inter::{self, Inter};
use crate::message::{self, Matched};
use crate::request::{self, Completion, Peer, Request, Work, fault_failure, nothing_done};
use crate::wait::{look, wait};
use node::{Core, Envelope, Fault, MessageId, Mode, Probe, Source, Tag};
use std::ffi::c_int;
use std::sync::Arc;
use std::time::{Duration, Instant};

type Answer = Option<c_int>;

/// How long a probe waits before it makes sure that whoever it waits for is connected.
const WATCH_AFTER: Duration = Duration::from_millis(50);

/// Runs a call on the inter-communicator, if it is one, and hands its failure to the error handler.
fn on(comm: usize, call: impl FnOnce(&Arc<Inter>) -> Result<(), Failure>) -> Answer {
    let inter = inter::find(comm as u64)?;
    Some(match call(&inter) {
        Ok(()) => 0,
        Err(failure) => raise(inter.errors(), &failure),
    })
}

fn check_tag(call: &str, inter: &Inter, tag: c_int) -> Result<c_int, Failure> {
    if (0..=*inter.tag_ub).contains(&tag) {
        Ok(tag)
    } else {
        Err(Failure::new(Class::Tag, format!("{call}: tag {tag} is not from 0 to {}", inter.tag_ub)))
    }
}

fn check_rank(call: &str, inter: &Inter, rank: c_int) -> Result<u32, Failure> {
    u32::try_from(rank).ok().filter(|r| *r < inter.remote.size).ok_or_else(|| {
        Failure::new(
            Class::Rank,
            format!("{call}: rank {rank} is not in job '{}', which has {} ranks", inter.remote.name, inter.remote.size),
        )
    })
}

/// The source and tag of a receive or probe; `None` for MPI_PROC_NULL.
fn check_pattern(call: &str, inter: &Inter, source: c_int, tag: c_int) -> Result<Option<(Source, Tag)>, Failure> {
    let abi = abi::get();
    let tag = if tag == abi.any_tag { Tag::Any } else { Tag::Is(check_tag(call, inter, tag)?) };
    if source == abi.proc_null {
        return Ok(None);
    }
    let source = if source == abi.any_source { Source::Any } else { Source::Rank(check_rank(call, inter, source)?) };
    Ok(Some((source, tag)))
}

/// What a send or receive is about: the message and the call's name.
struct Message {
    call: &'static str,
    buf: usize,
    count: i64,
    datatype: usize,
    peer: usize,
    tag: usize,
}

fn start_send(inter: &Arc<Inter>, m: &Message, mode: Mode) -> Result<Request, Failure> {
    let abi = abi::get();
    // SAFETY: the program's buffer, as it promises by the call.
    let data = unsafe { layout(m.call, m.buf, m.count, m.datatype) }?;
    let tag = check_tag(m.call, inter, m.tag as c_int)?;
    let dest = m.peer as c_int;
    let (work, to) = if dest == abi.proc_null {
        (Work::Nothing, Peer::Nobody)
    } else {
        let dest = check_rank(m.call, inter, dest)?;
        (Work::Op(node()?.isend(inter.id, dest, tag, data, mode)), Peer::To(dest))
    };
    Ok(Request { inter: inter.clone(), work, call: m.call, to })
}

fn start_recv(inter: &Arc<Inter>, m: &Message) -> Result<Request, Failure> {
    // SAFETY: the program's buffer, as it promises by the call.
    let data = unsafe { layout(m.call, m.buf, m.count, m.datatype) }?;
    let (work, to) = match check_pattern(m.call, inter, m.peer as c_int, m.tag as c_int)? {
        None => (Work::Nothing, Peer::Nobody),
        Some((source, tag)) => (Work::Op(node()?.irecv(inter.id, source, tag, data)), Peer::From(source)),
    };
    Ok(Request { inter: inter.clone(), work, call: m.call, to })
}

/// Waits for one request that the program never sees.
fn finish(request: &Request) -> Result<Completion, Failure> {
    if let Work::Nothing = request.work {
        return Ok(nothing_done());
    }
    Ok(wait(node()?, |core| request.take(core)))
}

/// The end of a blocking call: the status is written also when there is a failure, as for truncation.
fn conclude(completion: Completion, status: Option<usize>) -> Result<(), Failure> {
    if let Some(at) = status {
        // SAFETY: the program's status.
        unsafe { abi::get().write_status(at, &completion.status) };
    }
    completion.failure.map_or(Ok(()), Err)
}

/// Gives a started request to the program.
fn hand_out(request: Request, at: usize) -> Result<(), Failure> {
    let token = request::insert(request).ok_or_else(|| Failure::new(Class::Other, "too many active requests"))?;
    // SAFETY: the program's request.
    unsafe { abi::store_handle(at, token) };
    Ok(())
}

/// The calls come in twos: counts of MPI_X are ints, those of MPI_X_c are MPI_Counts.
macro_rules! sends {
    ($($blocking:ident $nonblocking:ident $mode:ident $count:ty;)*) => { $(
        pub unsafe fn $blocking(buf: usize, count: usize, datatype: usize, dest: usize, tag: usize, comm: usize) -> Answer {
            let call = concat!("MPI_", stringify!($blocking));
            let m = Message { call, buf, count: (count as $count).into(), datatype, peer: dest, tag };
            on(comm, |inter| conclude(finish(&start_send(inter, &m, Mode::$mode)?)?, None))
        }

        pub unsafe fn $nonblocking(
            buf: usize, count: usize, datatype: usize, dest: usize, tag: usize, comm: usize, request: usize,
        ) -> Answer {
            let call = concat!("MPI_", stringify!($nonblocking));
            let m = Message { call, buf, count: (count as $count).into(), datatype, peer: dest, tag };
            on(comm, |inter| hand_out(start_send(inter, &m, Mode::$mode)?, request))
        }
    )* };
}

sends! {
    Send Isend Standard c_int;
    Send_c Isend_c Standard i64;
    Ssend Issend Synchronous c_int;
    Ssend_c Issend_c Synchronous i64;
}

macro_rules! receives {
    ($($blocking:ident $nonblocking:ident $both:ident $count:ty;)*) => { $(
        pub unsafe fn $blocking(
            buf: usize, count: usize, datatype: usize, source: usize, tag: usize, comm: usize, status: usize,
        ) -> Answer {
            let call = concat!("MPI_", stringify!($blocking));
            let m = Message { call, buf, count: (count as $count).into(), datatype, peer: source, tag };
            on(comm, |inter| conclude(finish(&start_recv(inter, &m)?)?, Some(status)))
        }

        pub unsafe fn $nonblocking(
            buf: usize, count: usize, datatype: usize, source: usize, tag: usize, comm: usize, request: usize,
        ) -> Answer {
            let call = concat!("MPI_", stringify!($nonblocking));
            let m = Message { call, buf, count: (count as $count).into(), datatype, peer: source, tag };
            on(comm, |inter| hand_out(start_recv(inter, &m)?, request))
        }

        #[allow(clippy::too_many_arguments)]
        pub unsafe fn $both(
            sendbuf: usize, sendcount: usize, sendtype: usize, dest: usize, sendtag: usize, recvbuf: usize,
            recvcount: usize, recvtype: usize, source: usize, recvtag: usize, comm: usize, status: usize,
        ) -> Answer {
            let call = concat!("MPI_", stringify!($both));
            let (sendcount, recvcount) = ((sendcount as $count).into(), (recvcount as $count).into());
            let out = Message { call, buf: sendbuf, count: sendcount, datatype: sendtype, peer: dest, tag: sendtag };
            let back = Message { call, buf: recvbuf, count: recvcount, datatype: recvtype, peer: source, tag: recvtag };
            on(comm, |inter| exchange(inter, &out, &back, status))
        }
    )* };
}

receives! {
    Recv Irecv Sendrecv c_int;
    Recv_c Irecv_c Sendrecv_c i64;
}

/// Both halves of a Sendrecv.
fn exchange(inter: &Arc<Inter>, out: &Message, back: &Message, status: usize) -> Result<(), Failure> {
    let receive = start_recv(inter, back)?;
    let send = match start_send(inter, out, Mode::Standard) {
        Ok(send) => send,
        Err(failure) => {
            abandon(&receive)?;
            return Err(failure);
        }
    };
    let sent = finish(&send)?;
    if sent.failure.is_some() {
        abandon(&receive)?;
        return conclude(sent, None);
    }
    conclude(finish(&receive)?, Some(status))
}

/// Ends a receive whose call fails for another reason: afterwards nothing writes to the program's buffer.
fn abandon(receive: &Request) -> Result<(), Failure> {
    match receive.work {
        Work::Op(op) if node()?.cancel(op) => Ok(()),
        _ => finish(receive).map(drop),
    }
}

fn envelope_status(e: &Envelope) -> Status {
    Status { source: e.source as c_int, tag: e.tag, bytes: e.size, error: None }
}

/// Waits for a message. `take` is called in the same step in which it is found.
fn await_message<T>(
    call: &str,
    inter: &Inter,
    (source, tag): (Source, Tag),
    take: impl Fn(&mut Core, Envelope) -> T,
) -> Result<T, Failure> {
    let mut watched = false;
    let since = Instant::now();
    wait(node()?, |core| match core.probe(inter.id, source, tag) {
        Probe::Found(e) => Some(Ok(take(core, e))),
        Probe::None => {
            // No operation stands for a probe, so whoever is waited for must be watched by name.
            if !watched && since.elapsed() > WATCH_AFTER {
                core.watch_source(inter.id, source);
                watched = true;
            }
            None
        }
        Probe::Failed(fault) => Some(Err(fault_failure(call, inter, Peer::From(source), fault))),
    })
}

/// Looks once for a message.
fn look_for_message<T>(
    call: &str,
    inter: &Inter,
    (source, tag): (Source, Tag),
    take: impl FnOnce(&mut Core, Envelope) -> T,
) -> Result<Option<T>, Failure> {
    look(node()?, |core| match core.probe(inter.id, source, tag) {
        Probe::Found(e) => Some(Ok(take(core, e))),
        // A job that has finalized sends nothing: that is an answer, not a failure.
        Probe::None | Probe::Failed(Fault::PeerFinished) => None,
        Probe::Failed(fault) => Some(Err(fault_failure(call, inter, Peer::From(source), fault))),
    })
    .transpose()
}

/// Writes the answer of a nonblocking probe.
fn conclude_look(found: Option<Status>, flag: usize, status: usize) {
    // SAFETY: the program's flag and status.
    unsafe {
        (flag as *mut c_int).write(found.is_some().into());
        if let Some(found) = &found {
            abi::get().write_status(status, found);
        }
    }
}

pub unsafe fn Probe(source: usize, tag: usize, comm: usize, status: usize) -> Answer {
    let call = "MPI_Probe";
    on(comm, |inter| {
        let Some(pattern) = check_pattern(call, inter, source as c_int, tag as c_int)? else {
            return conclude(nothing_done(), Some(status));
        };
        let found = await_message(call, inter, pattern, |_, e| e)?;
        conclude(Completion { status: envelope_status(&found), failure: None }, Some(status))
    })
}

pub unsafe fn Iprobe(source: usize, tag: usize, comm: usize, flag: usize, status: usize) -> Answer {
    let call = "MPI_Iprobe";
    on(comm, |inter| {
        let found = match check_pattern(call, inter, source as c_int, tag as c_int)? {
            None => Some(nothing_done().status),
            Some(pattern) => look_for_message(call, inter, pattern, |_, e| envelope_status(&e))?,
        };
        conclude_look(found, flag, status);
        Ok(())
    })
}

// ------------------------------------------------------------------------------------------------- matched messages

/// A message taken out of matching, for the program.
type Taken = (Envelope, Option<MessageId>);

fn take_message(inter: &Inter, (source, tag): (Source, Tag)) -> impl Fn(&mut Core, Envelope) -> Taken {
    move |core, e| (e, core.claim(inter.id, source, tag))
}

/// Gives a matched message to the program; the status is that of a probe.
fn hand_out_message(call: &str, inter: &Arc<Inter>, (e, id): Taken, at: usize) -> Result<Status, Failure> {
    let id = id.ok_or_else(|| Failure::new(Class::Intern, format!("{call}: the message that was found is gone")))?;
    let token = message::insert(Matched { inter: inter.clone(), id, source: e.source })
        .ok_or_else(|| Failure::new(Class::Other, format!("{call}: too many matched messages")))?;
    // SAFETY: the program's message.
    unsafe { abi::store_handle(at, token) };
    Ok(envelope_status(&e))
}

/// What a matched probe of MPI_PROC_NULL gives: the MPI below serves its receive.
fn no_proc_message(at: usize) -> Status {
    // SAFETY: the program's message.
    unsafe { abi::store_handle(at, abi::get().message_no_proc) };
    nothing_done().status
}

pub unsafe fn Mprobe(source: usize, tag: usize, comm: usize, message: usize, status: usize) -> Answer {
    let call = "MPI_Mprobe";
    on(comm, |inter| {
        let found = match check_pattern(call, inter, source as c_int, tag as c_int)? {
            None => no_proc_message(message),
            Some(pattern) => {
                let taken = await_message(call, inter, pattern, take_message(inter, pattern))?;
                hand_out_message(call, inter, taken, message)?
            }
        };
        conclude(Completion { status: found, failure: None }, Some(status))
    })
}

pub unsafe fn Improbe(source: usize, tag: usize, comm: usize, flag: usize, message: usize, status: usize) -> Answer {
    let call = "MPI_Improbe";
    on(comm, |inter| {
        let found = match check_pattern(call, inter, source as c_int, tag as c_int)? {
            None => Some(no_proc_message(message)),
            Some(pattern) => look_for_message(call, inter, pattern, take_message(inter, pattern))?
                .map(|taken| hand_out_message(call, inter, taken, message))
                .transpose()?,
        };
        conclude_look(found, flag, status);
        Ok(())
    })
}

/// Starts the receive of a matched message and runs the rest of the call on it. The program's handle is spent, unless
/// the buffer is no good.
unsafe fn on_message(
    call: &'static str,
    buf: usize,
    count: i64,
    datatype: usize,
    at: usize,
    rest: impl FnOnce(Request) -> Result<(), Failure>,
) -> Answer {
    // SAFETY: the mark found a message there.
    let token = unsafe { abi::load_handle(at) };
    let errors = message::errors(token);
    let start = || {
        // SAFETY: the program's buffer, as it promises by the call.
        let data = unsafe { layout(call, buf, count, datatype) }?;
        let received = || Failure::new(Class::Request, format!("{call}: this message has been received"));
        let Matched { inter, id, source } = message::remove(token).ok_or_else(received)?;
        // SAFETY: the program's handle.
        unsafe { abi::store_handle(at, abi::get().message_null) };
        let op = node()?.irecv_claimed(id, data);
        rest(Request { inter, work: Work::Op(op), call, to: Peer::From(Source::Rank(source)) })
    };
    Some(start().map_or_else(|failure| raise(errors, &failure), |()| 0))
}

macro_rules! matched_receives {
    ($($blocking:ident $nonblocking:ident $count:ty;)*) => { $(
        pub unsafe fn $blocking(buf: usize, count: usize, datatype: usize, message: usize, status: usize) -> Answer {
            let (call, count) = (concat!("MPI_", stringify!($blocking)), (count as $count).into());
            // SAFETY: the caller's arguments.
            unsafe { on_message(call, buf, count, datatype, message, |r| conclude(finish(&r)?, Some(status))) }
        }

        pub unsafe fn $nonblocking(buf: usize, count: usize, datatype: usize, message: usize, request: usize) -> Answer {
            let (call, count) = (concat!("MPI_", stringify!($nonblocking)), (count as $count).into());
            // SAFETY: the caller's arguments.
            unsafe { on_message(call, buf, count, datatype, message, |r| hand_out(r, request)) }
        }
    )* };
}

matched_receives! {
    Mrecv Imrecv c_int;
    Mrecv_c Imrecv_c i64;
}
