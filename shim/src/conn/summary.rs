//! What members tell their leader in MPI_Finalize: that they leave and, with `MPI_CONNECT_SUMMARY=1`, their figures. The leader of
//! each registered job then prints what went to and from each other job over which transport, and how long its processes waited.
//!
//! The figures are told twice: before MPI_Finalize delivers what it has to, which may take long or be in vain, and after it. They
//! go by connections of their own, not by a collective of the MPI below: in MPI_Finalize nobody knows whether all processes take
//! part. Invariant: nobody waits longer than [`LIMIT`] for somebody who says nothing.

use base::ProcId;
use base::settings;
use node::figures::{Carried, Flow, Report};
use node::{Contact, Node};
use std::collections::BTreeMap;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long the leader waits for the next process, and a process for the leader.
const LIMIT: Duration = Duration::from_secs(10);
/// How long a process waits for the leader that prints nothing.
const LIMIT_LEFT: Duration = Duration::from_millis(500);
/// Members of larger jobs leave without a word if nothing is printed.
const MOST_LEAVING: u32 = 1024;

/// This process in a job that was registered.
struct Member {
    name: String,
    me: ProcId,
    size: u32,
    leader: Contact,
}

static MEMBERS: Mutex<Vec<Member>> = Mutex::new(Vec::new());

fn is_on() -> bool {
    static ON: LazyLock<bool> = LazyLock::new(settings::summary);
    *ON
}

/// A job was registered.
pub fn note(node: &Node, name: &str, me: ProcId, size: u32, leader: &Contact) {
    let mut members = members();
    if !is_on() {
        // Nothing is told of those that are over.
        members.retain(|member| node.knows_group(member.me.incarnation));
    }
    members.push(Member { name: name.to_owned(), me, size, leader: leader.clone() });
}

fn members() -> MutexGuard<'static, Vec<Member>> {
    MEMBERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Before MPI_Finalize delivers anything: tells the leaders of all jobs that this process was a member of its figures so far.
pub fn begin(node: &Node) {
    for member in members().iter().filter(|member| is_on() && member.me.rank != 0) {
        node.tell_figures(member.me, &member.leader, Instant::now() + LIMIT);
    }
}

/// Now that all is delivered: tells these leaders that this process leaves, and prints the summaries of the jobs that it has led.
pub fn end(node: &Node) {
    let members = std::mem::take(&mut *members());
    let (led, followed): (Vec<_>, Vec<_>) = members.into_iter().partition(|member| member.me.rank == 0);
    let limit = if is_on() { LIMIT } else { LIMIT_LEFT };
    // First, since a leader of one job may wait for this process as the leader of another.
    for member in followed.iter().filter(|member| is_on() || member.size <= MOST_LEAVING) {
        if !node.tell_left(member.me, &member.leader, is_on(), Instant::now() + limit) && is_on() {
            base::log!(Info, "rank 0 of '{}' has not taken this process's part of the summary", member.name);
        }
    }
    for Member { name, me, size, .. } in led.into_iter().filter(|_| is_on()) {
        let mut all = vec![(0, node.report(me.incarnation))];
        if size > 1 {
            all.extend(node.told_by_members(me.incarnation, size, LIMIT));
        }
        base::log::say(&text(&name, size, &all));
    }
}

/// What went between two jobs, and how long one has waited for the other.
#[derive(Default)]
struct Sum {
    name: String,
    carried: BTreeMap<String, (Flow, Flow)>,
    waited: u64,
    /// The rank that has waited longest, and how long.
    longest: (u32, u64),
}

fn add(to: &mut Flow, more: Flow) {
    to.messages = to.messages.saturating_add(more.messages);
    to.bytes = to.bytes.saturating_add(more.bytes);
}

fn text(name: &str, size: u32, all: &[(u32, Report)]) -> String {
    let mut sums: BTreeMap<u64, Sum> = BTreeMap::new();
    for (rank, report) in all {
        for job in &report.jobs {
            let sum = sums.entry(job.incarnation).or_default();
            sum.name.clone_from(&job.name);
            sum.waited += job.waited;
            if sum.longest.1 < job.waited {
                sum.longest = (*rank, job.waited);
            }
            for Carried { transport, sent, received, .. } in &job.carried {
                let (to, from) = sum.carried.entry(transport.clone()).or_default();
                add(to, *sent);
                add(from, *received);
            }
        }
    }
    let mut lines = Vec::new();
    for sum in sums.values() {
        if sum.carried.is_empty() {
            lines.push(format!("summary: '{name}' was not connected to '{}'", sum.name));
        }
        for (transport, (sent, received)) in &sum.carried {
            lines.push(format!(
                "summary: '{name}' to '{other}' over {transport}: {}; back: {}",
                flow(*sent),
                flow(*received),
                other = sum.name
            ));
        }
        if sum.waited > 0 {
            let (rank, longest) = sum.longest;
            lines.push(format!(
                "summary: '{name}' waited {} for '{}', over all ranks; rank {rank} the longest, {}",
                seconds(sum.waited),
                sum.name,
                seconds(longest)
            ));
        }
    }
    if sums.is_empty() {
        lines.push(format!("summary: '{name}' was connected to no other job"));
    }
    let silent = size as usize - all.len().min(size as usize);
    if silent > 0 {
        lines.push(format!("summary: {silent} of the {size} ranks of '{name}' said nothing, and are not in it"));
    }
    lines.join("\n")
}

fn flow(flow: Flow) -> String {
    let plural = if flow.messages == 1 { "" } else { "s" };
    format!("{} message{plural}, {} bytes", flow.messages, flow.bytes)
}

fn seconds(us: u64) -> String {
    format!("{:.1} s", us as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;
    use node::figures::Job;

    fn report(transport: &str, messages: u64, waited: u64) -> Report {
        let (sent, received) = (Flow { messages, bytes: 8 * messages }, Flow { messages: 1, bytes: 2 });
        let carried = vec![Carried { transport: transport.into(), pairs: 0, sent, received }];
        Report { jobs: vec![Job { incarnation: 5, waited, name: "ocean".into(), carried }], ..Report::default() }
    }

    #[test]
    fn sums_are_by_job_and_transport() {
        let all = [(0, report("shm", 3, 1_000_000)), (1, report("tcp", 1, 2_500_000)), (2, report("shm", 4, 0))];
        assert_eq!(
            text("air", 4, &all),
            "summary: 'air' to 'ocean' over shm: 7 messages, 56 bytes; back: 2 messages, 4 bytes\n\
             summary: 'air' to 'ocean' over tcp: 1 message, 8 bytes; back: 1 message, 2 bytes\n\
             summary: 'air' waited 3.5 s for 'ocean', over all ranks; rank 1 the longest, 2.5 s\n\
             summary: 1 of the 4 ranks of 'air' said nothing, and are not in it"
        );
        assert_eq!(text("air", 1, &[(0, Report::default())]), "summary: 'air' was connected to no other job");
    }
}
