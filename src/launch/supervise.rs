//! The jobs from their start to the end of the last: what they print, who has joined, signals, deaths, orders.
//!
//! Invariants: all that happens is seen by one thread, one after the other; when it returns, no process of any job is left.

use super::job::{Running, Start, code};
use super::marked;
use super::names::{Holder, Names, Seen};
use super::orders::{Order, Orders};
use super::output::{self, Event, Format};
use super::plan::Planned;
use super::policy::{Act, Policy, State};
use super::state::Own;
use crate::run::quote;
use crate::signals::{self, ENDING, ignores};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::time::{Duration, Instant};

/// How long a second order to end is one to kill.
const AGAIN: Duration = Duration::from_secs(10);
/// The longest sleep: what no descriptor tells.
const LOOK: u16 = 100;
/// How long a job that goes back may take to end: nothing that it still does counts.
const BACK: Duration = Duration::from_secs(3);

/// The signals that are passed on, and end nothing.
const PASSED: [Signal; 2] = [Signal::SIGUSR1, Signal::SIGUSR2];

/// What the launch is.
pub struct Whole<'a> {
    pub id: &'a str,
    pub command: &'a str,
    pub manifest: String,
    pub run: &'a str,
    pub naming: &'a str,
    pub grace: Duration,
    pub format: Format,
    /// Where orders come from, if this is the end of a connection that has the job.
    pub orders: Option<&'a Orders>,
}

impl Whole<'_> {
    /// What `--status` tells all the time.
    pub fn lasting(&self) -> Value {
        let (there, spawned) = (self.orders.is_some(), self.orders.is_some_and(Orders::is_parent));
        json!({
            "manifest": self.manifest, "there": there && !spawned, "spawned": spawned, "run": self.run, "naming": self.naming,
            "pid": std::process::id(),
        })
    }
}

/// A job that is to end: from when on, and how long it may take.
struct Stopping {
    since: Instant,
    grace: Duration,
    launcher_told: bool,
    killed: bool,
}

struct Member<'a> {
    job: &'a Planned,
    running: Option<Running>,
    stopping: Option<Stopping>,
    /// The names that it holds, and whether it has held any since it was started.
    names: BTreeSet<String>,
    has_come: bool,
    /// The ranks of the last start that has ended: what these have done may be seen later.
    ended: Vec<u32>,
}

/// A signal, or whoever has reached the socket, has ended it.
struct Ordered {
    when: Instant,
    signal: Signal,
    by: &'static str,
}

struct Supervisor<'a> {
    whole: &'a Whole<'a>,
    own: Own,
    members: Vec<Member<'a>>,
    policy: Policy,
    starts: usize,
    /// What stays of deaths: when, whose, and how.
    failures: Vec<(Instant, usize, u8)>,
    ordered: Option<Ordered>,
    /// The connection from which orders came has ended.
    is_alone: bool,
    /// Its end is no order to end.
    is_released: bool,
    /// How many ranks were told to have begun.
    begun: usize,
}

/// The signals, blocked from now on. Before any thread is started.
pub fn signals() -> io::Result<SignalFd> {
    let all = ENDING.into_iter().chain(PASSED).chain([Signal::SIGCHLD]);
    let all: SigSet = all.filter(|signal| !ignores(*signal)).collect();
    all.thread_block()?;
    Ok(SignalFd::with_flags(&all, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?)
}

/// Runs all jobs, and returns the exit status, and whether they were told to end.
pub fn supervise(whole: &Whole<'_>, jobs: &[Planned], signals: &SignalFd, names: &Names, own: Own) -> (u8, bool) {
    let members = jobs.iter().map(|job| Member {
        job,
        running: None,
        stopping: None,
        names: BTreeSet::new(),
        has_come: false,
        ended: Vec::new(),
    });
    let mut it = Supervisor {
        whole,
        own,
        members: members.collect(),
        policy: Policy::new(jobs),
        starts: 0,
        failures: Vec::new(),
        ordered: None,
        is_alone: false,
        is_released: false,
        begun: 0,
    };
    let mut block = vec![0; 64 << 10];
    it.start();
    while !it.policy.is_over() {
        let ready = it.wait(signals, names);
        while let Ok(Some(info)) = signals.read_signal() {
            if let Ok(signal) = Signal::try_from(info.ssi_signo as i32) {
                it.signalled(signal);
            }
        }
        for member in &mut it.members {
            if let Some(running) = &mut member.running {
                running.read(&ready, &mut block, &member.job.name, whole.format);
            }
        }
        it.obey(&ready);
        for seen in names.seen() {
            it.saw(&seen);
        }
        it.reap();
        if ready.contains(&it.own.listener.as_raw_fd()) {
            let status = it.status();
            if it.own.answer(&status) {
                it.stopped();
            }
        }
        it.press();
        it.start();
    }
    it.over()
}

impl Supervisor<'_> {
    fn event(&self, event: &Event<'_>) {
        self.whole.format.event(event);
    }

    /// The descriptors that have something to say, after a while at most.
    fn wait(&self, signals: &SignalFd, names: &Names) -> BTreeSet<RawFd> {
        let running = self.members.iter().filter_map(|member| member.running.as_ref());
        // What the jobs print waits in their pipes while nobody reads what was put out. All else goes on.
        let is_full = output::is_full();
        let pipes = running.filter(|_| !is_full).flat_map(Running::descriptors);
        let orders = self.whole.orders.iter().filter(|_| !self.is_alone).map(|orders| orders.as_fd());
        let all = [signals.as_fd(), names.as_fd(), self.own.listener.as_fd()].into_iter().chain(orders).chain(pipes);
        let mut all: Vec<PollFd<'_>> = all.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        // A signal has a descriptor here, and anything else is found by looking.
        let _ = poll(&mut all, PollTimeout::from(LOOK));
        all.iter().filter(|fd| fd.any() == Some(true)).map(|fd| fd.as_fd().as_raw_fd()).collect()
    }

    fn start(&mut self) {
        for at in self.policy.startable() {
            self.start_one(at);
        }
    }

    fn start_one(&mut self, at: usize) {
        let member = &mut self.members[at];
        self.starts += 1;
        let folder = self.own.folder.join(self.starts.to_string());
        let start = Start { id: self.whole.id, command: self.whole.command, folder };
        member.has_come = false;
        match Running::start(member.job, &start) {
            Ok(running) => {
                let event = Event::Started {
                    job: &member.job.name,
                    attempt: self.policy.again(at),
                    ranks: member.job.ranks,
                    cores: member.job.cores.as_ref().map(super::cores::text),
                    process: running.process,
                    command: &member.job.words(&[]).iter().map(|word| quote(word)).collect::<Vec<_>>().join(" "),
                };
                self.whole.format.event(&event);
                member.running = Some(running);
            }
            Err(e) => {
                self.went(at, 126, None, &format!("cannot be started: {e}"), Instant::now());
            }
        }
    }

    /// Looks whose launchers have ended.
    fn reap(&mut self) {
        for at in 0..self.members.len() {
            let member = &mut self.members[at];
            let Some((status, when)) = member.running.as_mut().and_then(Running::ended) else { continue };
            let Some(mut running) = member.running.take() else { continue };
            // What has come from elsewhere says more than how the connection ended.
            if running.is_elsewhere() {
                running.drain(&member.job.name, self.whole.format);
            }
            let (mut code, signal) = running.told_status().map_or_else(|| code(status), |told| (told, None));
            let stopped = running.stopped_status().filter(|_| member.stopping.is_none());
            if code == 0 {
                // A job that ends well by the order has not run to its end.
                code = stopped.unwrap_or(0);
            }
            if code != 0 || member.stopping.is_some() {
                marked::kill_all(self.whole.id, &member.job.name);
            }
            running.drain(&member.job.name, self.whole.format);
            member.stopping = None;
            member.names.clear();
            member.ended = running.processes().collect();
            let why = match (code, signal) {
                _ if stopped.is_some() => format!("was stopped on its host; its status is {code}"),
                (0, _) => "has ended".to_owned(),
                (_, Some(signal)) => format!("was ended by {signal}"),
                (code, None) => format!("has ended with status {code}"),
            };
            self.went(at, code, signal, &why, when);
        }
    }

    fn went(&mut self, at: usize, code: u8, signal: Option<Signal>, why: &str, when: Instant) {
        let name = &self.members[at].job.name;
        self.event(&Event::Exited { job: name, status: code, signal: signal.map(Signal::as_str), why });
        let (act, is_failure) = self.policy.ended(at, code);
        if is_failure {
            self.failures.push((when, at, code));
        }
        match act {
            Act::Back(group, attempt, most) => {
                let names: Vec<&str> = group.iter().map(|at| self.members[*at].job.name.as_str()).collect();
                self.event(&Event::Restarting { jobs: &names, attempt, most });
                for at in group {
                    self.stop(at, Signal::SIGTERM, self.whole.grace.min(BACK));
                }
            }
            Act::End => self.end(&format!("{} has died", self.members[at].job.name), Signal::SIGTERM),
            Act::Nothing => {}
        }
    }

    /// All are to end.
    fn end(&mut self, why: &str, signal: Signal) {
        self.policy.end();
        if self.members.iter().any(|member| member.running.is_some()) {
            self.event(&Event::Ending { why });
        }
        for at in 0..self.members.len() {
            self.stop(at, signal, self.whole.grace);
        }
    }

    fn stop(&mut self, at: usize, signal: Signal, grace: Duration) {
        let member = &mut self.members[at];
        let Some(running) = &member.running else { return };
        running.signal_ranks(signal);
        // Ranks that are elsewhere, or have not begun, are the launcher's.
        if running.known_ranks() < member.job.ranks {
            running.signal_launcher(Signal::SIGTERM);
        }
        // The other end counts by itself.
        let grace = if running.is_elsewhere() { grace + BACK } else { grace };
        member.stopping.get_or_insert(Stopping { since: Instant::now(), grace, launcher_told: false, killed: false });
    }

    /// Reminds who is to end, and kills who has not.
    fn press(&mut self) {
        for member in &mut self.members {
            let (Some(running), Some(stopping)) = (&member.running, &mut member.stopping) else { continue };
            let waited = stopping.since.elapsed();
            if waited >= stopping.grace {
                let processes = marked::signal(self.whole.id, &member.job.name, Signal::SIGKILL);
                if !std::mem::replace(&mut stopping.killed, true) {
                    self.whole.format.event(&Event::Killing { job: &member.job.name, processes });
                }
            } else if waited >= stopping.grace / 2 && !std::mem::replace(&mut stopping.launcher_told, true) {
                running.signal_launcher(Signal::SIGTERM);
            }
        }
    }

    /// Does what the other end of the connection says, and tells it how many ranks there are.
    fn obey(&mut self, ready: &BTreeSet<RawFd>) {
        let Some(from) = self.whole.orders else { return };
        let begun = self.members.iter().filter_map(|member| member.running.as_ref()).map(Running::known_ranks).sum();
        if std::mem::replace(&mut self.begun, begun) != begun {
            self.event(&Event::Begun { ranks: begun });
        }
        if self.is_alone || !ready.contains(&from.as_fd().as_raw_fd()) {
            return;
        }
        match from.next() {
            Order::Signals(signals) => signals.into_iter().for_each(|signal| self.signalled(signal)),
            Order::Release => self.is_released = true,
            Order::End if self.is_released => self.is_alone = true,
            Order::End => {
                self.is_alone = true;
                self.end("the connection has ended", Signal::SIGTERM);
                let now = self.members.iter_mut().filter_map(|member| member.stopping.as_mut());
                now.for_each(|stopping| stopping.grace = stopping.grace.min(stopping.since.elapsed() + BACK));
            }
        }
    }

    /// As by SIGTERM, but that one more such order kills nobody.
    fn stopped(&mut self) {
        let signal = Signal::SIGTERM;
        self.ordered.get_or_insert(Ordered { when: Instant::now(), signal, by: "launch --stop" });
        self.end("told to stop", signal);
    }

    fn signalled(&mut self, signal: Signal) {
        if signal == Signal::SIGCHLD {
            return;
        }
        if PASSED.contains(&signal) {
            let pass = |member: &Member<'_>| match &member.running {
                // Some ranks are not reached from here.
                Some(running) if member.job.forwards && running.known_ranks() < member.job.ranks => {
                    running.signal_launcher(signal);
                    member.job.ranks
                }
                Some(running) => running.signal_ranks(signal),
                None => 0,
            };
            let ranks = self.members.iter().map(pass).sum();
            self.event(&Event::Signal { name: signal.as_str(), ranks });
            return;
        }
        if self.ordered.as_ref().is_some_and(|first| first.when.elapsed() < AGAIN) {
            for member in &mut self.members {
                let (Some(running), Some(stopping)) = (&member.running, &mut member.stopping) else { continue };
                if running.is_elsewhere() {
                    running.signal_ranks(signal);
                    stopping.grace = stopping.since.elapsed() + BACK;
                } else {
                    stopping.grace = Duration::ZERO;
                }
            }
            return;
        }
        self.ordered = Some(Ordered { when: Instant::now(), signal, by: signal.as_str() });
        self.end(signal.as_str(), signal);
    }

    /// A name, or a coupling, has come or gone.
    fn saw(&mut self, seen: &Seen) {
        match seen {
            Seen::Job { came, by, mpi } => {
                let Some(at) = self.owner(by) else { return };
                let name = &by.name;
                if !came {
                    self.members[at].names.remove(name);
                    return;
                }
                if self.members[at].running.is_none() {
                    return;
                }
                self.members[at].names.insert(name.clone());
                self.members[at].has_come = true;
                self.policy.came(at);
                let job = &self.members[at].job.name;
                self.event(&Event::Registered { job, name, mpi, awaited: &self.awaited() });
            }
            Seen::Coupling { came: true, jobs } if jobs.iter().any(|by| self.owner(by).is_some()) => {
                let [a, b] = jobs;
                self.event(&Event::Joined { jobs: [&a.name, &b.name] });
            }
            Seen::Coupling { .. } => {}
        }
    }

    /// Whose a name is. Of a process of this host that is no rank, and of any on another host, the name tells: there may be no
    /// pipe from it, or a rank has started it. A run may have jobs that others have started, so a process of this host has to be marked.
    fn owner(&self, by: &Holder) -> Option<usize> {
        let has = |member: &Member<'_>, pid| {
            member
                .running
                .iter()
                .flat_map(Running::processes)
                .chain(member.ended.iter().copied())
                .any(|rank| rank == pid)
        };
        let holds = |member: &Member<'_>| member.names.contains(&by.name);
        let is_called = |member: &Member<'_>| {
            let may_be = |pid| {
                member.running.as_ref().is_some_and(Running::is_elsewhere)
                    || marked::has(pid as i32, self.whole.id, &member.job.name)
            };
            member.job.name == by.name && by.process.is_none_or(may_be)
        };
        let place = |is: &dyn Fn(&Member<'_>) -> bool| self.members.iter().position(is);
        let by_process = by.process.and_then(|pid| place(&|member| has(member, pid)));
        by_process.or_else(|| place(&holds)).or_else(|| place(&is_called))
    }

    /// The jobs that have registered no name since they were started.
    fn awaited(&self) -> Vec<&str> {
        let is_awaited = |at: usize| !matches!(self.policy.state(at), State::Over(_)) && !self.members[at].has_come;
        (0..self.members.len()).filter(|at| is_awaited(*at)).map(|at| self.members[at].job.name.as_str()).collect()
    }

    /// What `--status` tells.
    fn status(&self) -> Value {
        let job = |(at, member): (usize, &Member<'_>)| {
            let state = match (self.policy.state(at), &member.stopping) {
                (State::Waits, _) => "waits",
                (State::Runs, None) => "runs",
                (State::Runs, Some(_)) => "is ending",
                (State::GoesBack | State::IsBack, _) => "goes back",
                (State::Over(_), _) => "over",
            };
            let status = if let State::Over(code) = self.policy.state(at) { json!(code) } else { Value::Null };
            let running = member.running.as_ref();
            json!({
                "job": member.job.name, "state": state, "status": status, "ranks": member.job.ranks,
                "ranks_begun": running.map_or(0, Running::known_ranks), "pid": running.map(|running| running.process),
                "names": member.names, "restarts": self.policy.again(at),
            })
        };
        let mut told = self.whole.lasting();
        told["awaited"] = json!(self.awaited());
        told["jobs"] = self.members.iter().enumerate().map(job).collect();
        told
    }

    fn over(self) -> (u8, bool) {
        for (at, member) in self.members.iter().enumerate() {
            if self.policy.state(at) == State::Waits {
                self.event(&Event::NotStarted { job: &member.job.name });
            }
        }
        let first = self.failures.iter().min_by_key(|(when, ..)| *when);
        let (status, why) = match (&self.ordered, first) {
            (Some(Ordered { signal, by, .. }), _) => (signals::status(*signal), format!("ended by {by}")),
            (None, Some((_, at, code))) => {
                (*code, format!("the first to fail was {}, with status {code}", self.members[*at].job.name))
            }
            (None, None) if crate::output::is_lost() => {
                (1, "all jobs have ended well, and some of the output is lost".to_owned())
            }
            (None, None) => (0, "all jobs have ended well".to_owned()),
        };
        self.event(&Event::Ended { status, why: &why });
        if let Some(parent) = self.whole.orders {
            parent.report(&output::with_last(&format!(
                "the job has ended with status {status} before it called MPI_Init"
            )));
        }
        let is_told = self.ordered.is_some();
        self.own.end(status);
        (status, is_told)
    }
}
