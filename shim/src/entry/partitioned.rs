//! Partitioned communication on an inter-communicator: persistent requests whose buffer is divided into partitions.
//! Those of a send leave as the program marks them as ready. Both sides may divide the same message differently.

use crate::abi;
use crate::datatype::{layout, layout_from};
use crate::entry::complete::stale;
use crate::entry::p2p::{check_rank, check_tag, hand_out, on};
use crate::error::raise;
use crate::failure::{Class, Failure};
use crate::inter::Inter;
use crate::outcomes;
use crate::process::node;
use crate::request::{self, Partitions, Plan, Request, SendMode, Work, fault_failure};
use node::images::Call;
use node::{Core, OpId, Outcome, Source, Tag, outcomes_matter};
use std::ffi::c_int;

type Answer = Option<c_int>;

/// The arguments of an operation, after the checks.
struct Made {
    call: &'static str,
    sends: bool,
    buf: usize,
    partitions: usize,
    count: usize,
    datatype: usize,
    peer: usize,
    tag: usize,
}

fn plan(inter: &Inter, m: &Made) -> Result<(Plan, Partitions), Failure> {
    let call = m.call;
    let cut = m.partitions as c_int;
    let count = u32::try_from(cut).map_err(|_| Failure::new(Class::Arg, format!("{call}: {cut} partitions")))?;
    let each = m.count as i64;
    let all = if each < 0 { Some(each) } else { each.checked_mul(count.into()) };
    let all =
        all.ok_or_else(|| Failure::new(Class::Count, format!("{call}: {count} partitions of {each} elements")))?;
    // SAFETY: the program's buffer, as it promises by the call.
    let data = unsafe {
        if m.sends {
            layout(call, m.buf, all, m.datatype)?
        } else {
            layout_from(inter.remote.foreign, call, m.buf, all, m.datatype)?
        }
    };
    let partitions = Partitions { count, bytes: data.bytes().checked_div(count.into()).unwrap_or(0), sends: m.sends };
    let tag = check_tag(call, inter, m.tag as c_int)?;
    if m.peer as c_int == abi::get().proc_null {
        return Ok((Plan::Nothing, partitions));
    }
    let peer = check_rank(call, inter, m.peer as c_int)?;
    let tag = inter.partitioned.next(m.sends, peer, tag);
    let plan = if m.sends {
        Plan::Send { dest: peer, tag, data, mode: SendMode::Partitioned(count) }
    } else {
        Plan::Recv { source: Source::Rank(peer), tag: Tag::Is(tag), data }
    };
    Ok((plan, partitions))
}

fn make(comm: usize, at: usize, m: &Made) -> Answer {
    on(comm, |inter| {
        let (plan, partitions) = plan(inter, m)?;
        hand_out(Request::planned(inter, m.call, plan, Some(partitions)), at)
    })
}

macro_rules! inits {
    ($($name:ident $sends:literal;)*) => { $(
        #[allow(clippy::too_many_arguments)]
        pub unsafe fn $name(
            buf: usize, partitions: usize, count: usize, datatype: usize, peer: usize, tag: usize, comm: usize,
            _info: usize, request: usize,
        ) -> Answer {
            let call = concat!("MPI_", stringify!($name));
            make(comm, request, &Made { call, sends: $sends, buf, partitions, count, datatype, peer, tag })
        }
    )* };
}

inits! {
    Psend_init true;
    Precv_init false;
}

/// Runs a call on a partitioned request of one direction.
fn on_partitions(
    call: &str,
    token: usize,
    sends: bool,
    run: impl FnOnce(&Request, Partitions) -> Result<(), Failure>,
) -> Answer {
    let Some(request) = request::find(token as u64) else { return Some(stale(call)) };
    let done = match request.partitions() {
        Some(partitions) if partitions.sends == sends => run(&request, partitions),
        _ => {
            let what = if sends { "send" } else { "receive" };
            Err(Failure::new(Class::Request, format!("{call}: this is no request of a partitioned {what}")))
        }
    };
    Some(done.map_or_else(|failure| raise(request.errors(), &failure), |()| 0))
}

/// Marks runs of partitions as ready.
fn mark(call: &str, token: usize, runs: &[(u32, u32)]) -> Answer {
    on_partitions(call, token, true, |request, partitions| {
        if request.is_inactive() {
            return Err(Failure::new(Class::Request, format!("{call}: the request has not been started")));
        }
        if let Some(&(start, end)) = runs.iter().find(|(start, end)| start >= end || *end > partitions.count) {
            let (low, high) = (start as c_int, end.wrapping_sub(1) as c_int);
            let text = format!("{call}: {low} to {high} are no partitions of {}", partitions.count);
            return Err(Failure::new(Class::Arg, text));
        }
        match request.work {
            Work::Op(op) if !node()?.with(|core| core.ready(op, runs)) => {
                Err(Failure::new(Class::Arg, format!("{call}: a partition is marked for the second time")))
            }
            _ => Ok(()),
        }
    })
}

/// The run from one partition to another, both included. A number that is no partition gives an empty run.
fn run_of(low: usize, high: usize) -> (u32, u32) {
    (low as u32, (high as u32).wrapping_add(1))
}

pub unsafe fn Pready(partition: usize, request: usize) -> Answer {
    mark("MPI_Pready", request, &[run_of(partition, partition)])
}

pub unsafe fn Pready_range(low: usize, high: usize, request: usize) -> Answer {
    mark("MPI_Pready_range", request, &[run_of(low, high)])
}

pub unsafe fn Pready_list(length: usize, list: usize, request: usize) -> Answer {
    let call = "MPI_Pready_list";
    let length = length as c_int;
    if length < 0 || (length > 0 && list == 0) {
        let failure = || Failure::new(Class::Arg, format!("{call}: a list of {length} partitions at {list:#x}"));
        return on_partitions(call, request, true, |_, _| Err(failure()));
    }
    // SAFETY: the program's list.
    let mut runs: Vec<_> = (0..length as usize)
        .map(|i| unsafe { (list as *const c_int).add(i).read() } as usize)
        .map(|partition| run_of(partition, partition))
        .collect();
    runs.sort_unstable();
    mark(call, request, &runs)
}

pub unsafe fn Parrived(token: usize, partition: usize, flag: usize) -> Answer {
    let call = "MPI_Parrived";
    on_partitions(call, token, false, |request, partitions| {
        let partition = partition as c_int;
        let Some(k) = u32::try_from(partition).ok().filter(|k| *k < partitions.count) else {
            let text = format!("{call}: {partition} is no partition of {}", partitions.count);
            return Err(Failure::new(Class::Arg, text));
        };
        let found = match request.work {
            Work::Op(op) => {
                let node = node()?;
                let looked = |core: &mut Core| arrived(core, call, request, op, partitions.bytes, k);
                // First without a round, which is cheaper.
                let at_once = if outcomes_matter() { None } else { node.with(looked) };
                let about = |_: &mut Core| Some(request.about(call));
                at_once.or_else(|| outcomes::look(node, Call::Parrived, &about, looked))
            }
            // There is no operation to wait for.
            _ => Some(Ok(())),
        };
        // SAFETY: the program's flag.
        unsafe { (flag as *mut c_int).write(found.is_some().into()) };
        found.unwrap_or(Ok(()))
    })
}

/// Whether a partition has arrived. It is a failure to ask for one that will never come.
fn arrived(
    core: &mut Core,
    call: &str,
    request: &Request,
    op: OpId,
    bytes: u64,
    k: u32,
) -> Option<Result<(), Failure>> {
    if !core.has_arrived(op, bytes * u64::from(k), bytes) {
        return None;
    }
    Some(match core.peek(op) {
        Some(Outcome::Failed(fault)) => {
            request.inter().map_or(Ok(()), |inter| Err(fault_failure(call, inter, request.to, fault)))
        }
        _ => Ok(()),
    })
}
