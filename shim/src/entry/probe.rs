//! Probes on an inter-communicator between jobs, and the messages that matched probes take.

use crate::abi::{self, Status};
use crate::datatype::layout_from;
use crate::entry::p2p::{check_pattern, conclude, finish, hand_out, on};
use crate::error::raise;
use crate::failure::{Class, Failure};
use crate::inter::Inter;
use crate::message::{self, Matched};
use crate::outcomes;
use crate::process::node;
use crate::request::{Completion, Peer, Request, Work, fault_failure, nothing_done};
use crate::wait::{look, wait};
use node::images::{Call, Next};
use node::{About, Core, Envelope, Fault, MessageId, Node, Probe, Source, Tag, outcomes_matter};
use std::ffi::c_int;
use std::sync::Arc;
use std::time::{Duration, Instant};

type Answer = Option<c_int>;

/// After this time, a probe has the processes connected that it waits for.
const WATCH_AFTER: Duration = Duration::from_millis(50);

fn envelope_status(e: &Envelope) -> Status {
    Status { source: e.source as c_int, tag: e.tag as c_int, bytes: e.size, ..abi::get().empty_status() }
}

/// Waits for a message. `take` is called under the same lock under which the message is found.
fn await_message<T>(
    call: &'static str,
    inter: &Inter,
    (source, tag): (Source, Tag),
    take: impl Fn(&mut Core, Envelope) -> T,
) -> Result<T, Failure> {
    let mut watched = false;
    let since = Instant::now();
    let about = |_: &mut Core| Some(About::probe(call, inter.id, source, tag));
    wait(node()?, &about, |core| match core.probe(inter.id, source, tag) {
        Probe::Found(e) => Some(Ok(take(core, e))),
        Probe::None => {
            // A probe is no operation, so the engine does not know which processes it waits for.
            if !watched && since.elapsed() > WATCH_AFTER {
                core.watch_source(inter.id, source);
                watched = true;
            }
            None
        }
        Probe::Failed(fault) => Some(Err(fault_failure(call, inter, Peer::From(source), fault))),
    })
}

/// As [`await_message`]. Which source it is from is noted, if there is a choice.
fn await_noted<T>(
    call: &'static str,
    kind: Call,
    inter: &Inter,
    pattern: (Source, Tag),
    take: impl Fn(&mut Core, Envelope) -> T,
) -> Result<T, Failure> {
    let (source, _) = pattern;
    if source != Source::Any || !outcomes_matter() {
        return await_message(call, inter, pattern, take);
    }
    let take = |core: &mut Core, e: Envelope| (e.source, take(core, e));
    let node = node()?;
    let again = await_again(node, call, kind, inter, pattern, &take)?;
    let (source, taken) = again.map_or_else(|| await_message(call, inter, pattern, take), Ok)?;
    outcomes::note(node, kind, Some(&[source]));
    Ok(taken)
}

/// Waits for the message that such a call has found before a restart. `None`: it is to find what there is.
fn await_again<T>(
    node: &Node,
    call: &'static str,
    kind: Call,
    inter: &Inter,
    (source, tag): (Source, Tag),
    take: &impl Fn(&mut Core, Envelope) -> T,
) -> Result<Option<T>, Failure> {
    let Next::Found(from) = outcomes::next(node, kind) else { return Ok(None) };
    let source = from.first().map_or(source, |rank| Source::Rank(*rank));
    let about = |_: &mut Core| Some(About::probe(call, inter.id, source, tag));
    let found = outcomes::wait_again(node, &about, |core| match core.probe(inter.id, source, tag) {
        Probe::Found(e) => Some(Ok(take(core, e))),
        Probe::None => {
            core.watch_source(inter.id, source);
            None
        }
        Probe::Failed(fault) => Some(Err(fault_failure(call, inter, Peer::From(source), fault))),
    });
    found.transpose()
}

/// As [`look_for_message`]. What it finds is noted.
fn look_noted<T>(
    call: &'static str,
    kind: Call,
    inter: &Inter,
    pattern: (Source, Tag),
    take: impl Fn(&mut Core, Envelope) -> T,
) -> Result<Option<T>, Failure> {
    if !outcomes_matter() {
        return look_for_message(call, inter, pattern, take);
    }
    let take = |core: &mut Core, e: Envelope| (e.source, take(core, e));
    let node = node()?;
    let found = match await_again(node, call, kind, inter, pattern, &take)? {
        None if outcomes::next(node, kind) == Next::Nothing => outcomes::look_for_nothing(node),
        None => look_for_message(call, inter, pattern, take)?,
        found => found,
    };
    outcomes::note(node, kind, found.as_ref().map(|(source, _)| std::slice::from_ref(source)));
    Ok(found.map(|(_, taken)| taken))
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
        // A job that has finalized sends nothing, so the answer is that there is no message; this is no failure.
        Probe::None | Probe::Failed(Fault::PeerFinished) => None,
        Probe::Failed(fault) => Some(Err(fault_failure(call, inter, Peer::From(source), fault))),
    })
    .transpose()
}

/// Writes the flag and the status of a nonblocking probe.
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
        let found = await_noted(call, Call::Probe, inter, pattern, |_, e| e)?;
        conclude(Completion { status: envelope_status(&found), failure: None }, Some(status))
    })
}

pub unsafe fn Iprobe(source: usize, tag: usize, comm: usize, flag: usize, status: usize) -> Answer {
    let call = "MPI_Iprobe";
    on(comm, |inter| {
        let found = match check_pattern(call, inter, source as c_int, tag as c_int)? {
            None => Some(nothing_done().status),
            Some(pattern) => look_noted(call, Call::Iprobe, inter, pattern, |_, e| envelope_status(&e))?,
        };
        conclude_look(found, flag, status);
        Ok(())
    })
}

// ------------------------------------------------------------------------------------------------- matched messages

/// A message that was found, and its number if it was taken out of matching.
type Taken = (Envelope, Option<MessageId>);

fn take_message(inter: &Inter, tag: Tag) -> impl Fn(&mut Core, Envelope) -> Taken {
    move |core, e| (e, core.claim(inter.id, Source::Rank(e.source), tag))
}

/// Gives a matched message to the program, and returns its status.
fn hand_out_message(call: &str, inter: &Arc<Inter>, (e, id): Taken, at: usize) -> Result<Status, Failure> {
    let id = id.ok_or_else(|| Failure::new(Class::Intern, format!("{call}: the message that was found is gone")))?;
    let token = message::insert(Matched { inter: inter.clone(), id, source: e.source })
        .ok_or_else(|| Failure::new(Class::Other, format!("{call}: too many matched messages")))?;
    // SAFETY: the program's message.
    unsafe { abi::store_handle(at, token) };
    Ok(envelope_status(&e))
}

/// Gives the program MPI_MESSAGE_NO_PROC, for a matched probe of MPI_PROC_NULL. The MPI below serves its receive.
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
                let taken = await_noted(call, Call::Mprobe, inter, pattern, take_message(inter, pattern.1))?;
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
            Some(pattern) => look_noted(call, Call::Improbe, inter, pattern, take_message(inter, pattern.1))?
                .map(|taken| hand_out_message(call, inter, taken, message))
                .transpose()?,
        };
        conclude_look(found, flag, status);
        Ok(())
    })
}

/// Starts the receive of a matched message, and runs the rest of the call on it. The program's handle becomes null,
/// unless the buffer is faulty.
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
        let data = unsafe { layout_from(message::foreign(token), call, buf, count, datatype) }?;
        let received = || Failure::new(Class::Request, format!("{call}: this message has been received"));
        let Matched { inter, id, source } = message::remove(token).ok_or_else(received)?;
        // SAFETY: the program's handle.
        unsafe { abi::store_handle(at, abi::get().message_null) };
        let op = node()?.irecv_claimed(id, data);
        rest(Request::new(&inter, Work::Op(op), call, Peer::From(Source::Rank(source))))
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
