//! What the threads that serve operators share: who is led, which commands were given, and what became of them.
//!
//! Invariants: a command that changes something is done once, whoever repeats it; of a job's leader, one such command is under way
//! at a time; every table is bounded, and one asker has a part of it.

use super::budget::{Budget, Room};
use super::turns::Turns;
use super::visit::{Place, Visit};
use super::visitors::{Ticket, Visitors};
use files::{Folders, Shelf};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use transports::control::{Asker, ControlStream};
use wire::Contact;
use wire::control::{Answer, Id, JobSecret, Report, Request, What};

/// How long a command that changes something may be under way while another asker waits for its turn. Where more wait, they share it,
/// down to [`LEAST_CHANGING`]: a command goes on where it has come, so this ends only the wait for outcomes.
const MOST_CHANGING: Duration = Duration::from_secs(5);
const LEAST_CHANGING: Duration = Duration::from_secs(1);
/// Commands whose outcomes are remembered, and the bytes of these.
const MOST_GIVEN: usize = 64;
const MOST_GIVEN_BYTES: usize = 64 << 20;
/// Processes to which commands are brought later, and the commands for one of them.
const MOST_LATE: usize = 64;
const MOST_LATE_EACH: usize = 16;
/// The longest that a thread sleeps before it looks whether it is to end.
pub(crate) const SLICE: Duration = Duration::from_millis(50);

/// What the threads share.
#[derive(Default)]
pub(crate) struct Desk {
    state: Mutex<State>,
    changed: Condvar,
    stop: AtomicBool,
    threads: Mutex<Vec<JoinHandle<()>>>,
    budget: Arc<Budget>,
    /// What is open to other jobs.
    pub(crate) folders: Folders,
    /// The files that other jobs fetch and put here.
    pub(crate) shelf: Shelf,
}

#[derive(Default)]
struct State {
    visitors: Visitors<ControlStream>,
    /// The jobs that this process leads, by incarnation.
    led: BTreeMap<u64, Led>,
    /// The secrets of jobs that are led elsewhere, by incarnation.
    secrets: BTreeMap<u64, JobSecret>,
    /// Commands that were given to a leader here, and the answer with its length once there is one.
    given: VecDeque<(Id, Option<(Answer, usize)>)>,
    /// Commands that were passed on to this process in a group, and what became of them.
    obeyed: VecDeque<((Id, u64), Option<What>)>,
    /// The last command that changed something, by group.
    serials: BTreeMap<u64, u64>,
    late: BTreeMap<(u64, u32), Late>,
    /// Whether a thread brings the late ones.
    brings: bool,
    sums: BTreeMap<u64, BTreeMap<u32, Report>>,
}

struct Led {
    name: String,
    members: Arc<[Contact]>,
    secret: JobSecret,
    /// The number of the last command that changes something.
    serial: u64,
    /// The members that have said that they leave.
    left: BTreeSet<u32>,
    /// Who has given it, in which visit and when, while it is under way.
    changing: Option<(Asker, Ticket, Instant)>,
    turns: Turns,
}

/// How long one may be under way while so many others wait.
fn may_last(others: u32) -> Option<Duration> {
    Some(MOST_CHANGING.checked_div(others)?.max(LEAST_CHANGING))
}

impl State {
    fn has_to_yield(&self, ticket: Ticket) -> bool {
        let others_wait = |led: &Led| {
            led.changing.is_some_and(|(asker, changing, since)| {
                changing == ticket
                    && may_last(led.turns.others_than(&asker)).is_some_and(|most| since.elapsed() >= most)
            })
        };
        self.visitors.has_to_yield(ticket, Instant::now()) || self.led.values().any(others_wait)
    }
}

/// Commands for a process that has not answered.
#[derive(Clone)]
pub(crate) struct Late {
    pub(crate) contact: Contact,
    pub(crate) since: Instant,
    /// In the order in which they were given. None is replaced by one behind it.
    pub(crate) requests: VecDeque<Request>,
}

/// What a leader does with a command.
pub(crate) enum Given {
    /// It was given before, and this became of it.
    Before(Answer),
    /// It is the next, with this number.
    Next(u64),
    /// Another one is under way for too long.
    Busy,
}

/// Why a command is not kept for a process that does not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotKept {
    /// Too many processes do not answer.
    Processes,
    /// Too many commands wait for this one.
    Commands,
    /// No thread could be started that brings it.
    NoThread,
    /// This process ends, so nothing is brought any more.
    Ending,
}

impl fmt::Display for NotKept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("it does not answer, and ")?;
        match self {
            NotKept::Processes => write!(f, "commands are kept for {MOST_LATE} others already")?,
            NotKept::Commands => write!(f, "{MOST_LATE_EACH} commands wait for it already")?,
            NotKept::NoThread => f.write_str("no thread could be started that brings the command later")?,
            NotKept::Ending => return f.write_str("the process that would bring the command later is in MPI_Finalize"),
        }
        f.write_str(": give the command again when it goes on")
    }
}

/// What a process does with a command.
pub(crate) enum Passed {
    /// It was passed on to it before, and this became of it.
    Before(What),
    /// It is to be done.
    Next,
}

impl Place for Desk {
    fn is_closing(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn has_to_yield(&self, ticket: Ticket) -> bool {
        self.lock().has_to_yield(ticket)
    }

    fn room(&self, asker: Asker, length: usize) -> Option<Room> {
        self.budget.take(asker, length)
    }
}

impl Desk {
    /// These folders are open to other jobs.
    pub(crate) fn new(folders: Folders) -> Desk {
        Desk { folders, ..Desk::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until something has changed. Returns whether it is worth while to look again.
    fn wait<'a>(&self, state: MutexGuard<'a, State>, until: Instant) -> Option<MutexGuard<'a, State>> {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || self.is_closing() {
            return None;
        }
        let (state, _) = self.changed.wait_timeout(state, left.min(SLICE)).unwrap_or_else(PoisonError::into_inner);
        Some(state)
    }

    /// The same in a visit, as long as it is not over.
    fn wait_in<'a>(&self, state: MutexGuard<'a, State>, visit: &Visit<'_>) -> Option<MutexGuard<'a, State>> {
        if visit.has_ended() || state.has_to_yield(visit.ticket()) {
            return None;
        }
        self.wait(state, visit.until())
    }

    /// Ends all threads.
    pub(crate) fn close(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.lock().visitors.send_away();
        self.changed.notify_all();
        let threads = std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            // It ends by itself; a panic in it has been reported.
            let _ = thread.join();
        }
    }

    /// Keeps a thread, to be joined at the end.
    pub(crate) fn keep(&self, thread: JoinHandle<()>) {
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        threads.retain(|thread| !thread.is_finished());
        threads.push(thread);
    }

    // ---- connections

    /// Takes a connection. It is returned if a thread is to begin with it.
    pub(crate) fn arrive(&self, stream: ControlStream) -> Option<(Ticket, ControlStream)> {
        let mut state = self.lock();
        if self.is_closing() {
            return None;
        }
        state.visitors.arrive(stream.asker(), stream, Instant::now())
    }

    /// The request of this visit has come.
    pub(crate) fn has_asked(&self, ticket: Ticket) {
        self.lock().visitors.has_asked(ticket);
    }

    /// The next connection for a thread that has served one. `None`: the thread ends.
    pub(crate) fn next(&self, over: Ticket) -> Option<(Ticket, ControlStream)> {
        self.lock().visitors.next(over, Instant::now())
    }

    // ---- leaders

    /// The jobs whose commands this process takes.
    pub(crate) fn jobs(&self) -> Vec<u64> {
        let state = self.lock();
        state.led.keys().chain(state.secrets.keys()).copied().collect()
    }

    /// Forgets jobs.
    pub(crate) fn forget(&self, jobs: &[u64]) {
        let mut state = self.lock();
        for job in jobs {
            state.led.remove(job);
            state.secrets.remove(job);
            state.serials.remove(job);
        }
    }

    /// This process leads one more job.
    pub(crate) fn lead(&self, incarnation: u64, name: &str, members: Vec<Contact>, secret: JobSecret) {
        let (name, members) = (name.to_owned(), members.into());
        let (left, turns) = (BTreeSet::new(), Turns::default());
        let led = Led { name, members, secret, serial: 0, left, changing: None, turns };
        self.lock().led.insert(incarnation, led);
    }

    /// This process is a member of one more job, whose leader has told this secret.
    pub(crate) fn follow(&self, incarnation: u64, secret: JobSecret) {
        self.lock().secrets.insert(incarnation, secret);
    }

    /// The jobs of this name that are led here, with their members and secrets.
    pub(crate) fn led_as(&self, name: &str) -> Vec<(u64, Arc<[Contact]>, JobSecret)> {
        let state = self.lock();
        let of_name = state.led.iter().filter(|(_, led)| led.name == name);
        of_name.map(|(incarnation, led)| (*incarnation, led.members.clone(), led.secret)).collect()
    }

    /// Whether who says this secret is of this job, which is led elsewhere: a leader takes no command from its members.
    pub(crate) fn is_of_job(&self, incarnation: u64, secret: &JobSecret) -> bool {
        self.lock().secrets.get(&incarnation) == Some(secret)
    }

    /// A command that changes something has come to the leader of this job.
    pub(crate) fn give(&self, incarnation: u64, id: Id, visit: &Visit<'_>) -> Given {
        let mut state = self.lock();
        let mut waits = false;
        loop {
            let before = state.given.iter().find(|(one, _)| *one == id).map(|(_, answer)| answer.clone());
            let Some(led) = state.led.get_mut(&incarnation) else { return Given::Busy };
            match before {
                Some(Some((answer, _))) => return Given::Before(answer),
                Some(None) => (),
                None => {
                    if !led.turns.has(id) {
                        // One that has waited was displaced.
                        if waits || !led.turns.join(id, visit.asker(), visit.ticket()) {
                            return Given::Busy;
                        }
                        waits = true;
                        // Who was displaced is told.
                        self.changed.notify_all();
                    }
                    if led.changing.is_none() && led.turns.is_first(id) {
                        break;
                    }
                }
            }
            match self.wait_in(state, visit) {
                Some(again) => state = again,
                None => {
                    if let Some(led) = self.lock().led.get_mut(&incarnation) {
                        led.turns.leave(id, visit.ticket());
                    }
                    self.changed.notify_all();
                    return Given::Busy;
                }
            }
        }
        if state.given.len() == MOST_GIVEN {
            state.given.pop_front();
        }
        state.given.push_back((id, None));
        let Some(led) = state.led.get_mut(&incarnation) else { return Given::Busy };
        led.turns.next();
        led.changing = Some((visit.asker(), visit.ticket(), Instant::now()));
        led.serial += 1;
        Given::Next(led.serial)
    }

    /// That command is over, and this is its answer.
    pub(crate) fn given(&self, incarnation: u64, id: Id, answer: &Answer) {
        let mut state = self.lock();
        if let Some((_, given)) = state.given.iter_mut().find(|(one, _)| *one == id) {
            *given = Some((answer.clone(), answer.encode().len()));
        }
        let bytes = |state: &State| state.given.iter().flat_map(|(_, given)| given).map(|(_, len)| len).sum::<usize>();
        while bytes(&state) > MOST_GIVEN_BYTES
            && let Some(at) = state.given.iter().position(|(_, given)| given.is_some())
        {
            state.given.remove(at);
        }
        if let Some(led) = state.led.get_mut(&incarnation) {
            led.changing = None;
        }
        self.changed.notify_all();
    }

    // ---- this process

    /// A command that changes something has come to this process in a group.
    pub(crate) fn pass(&self, incarnation: u64, id: Id, serial: u64, visit: &Visit<'_>) -> Passed {
        let mut state = self.lock();
        let key = (id, incarnation);
        while let Some((_, what)) = state.obeyed.iter().find(|(one, _)| *one == key) {
            match what {
                Some(what) => return Passed::Before(what.clone()),
                None => match self.wait_in(state, visit) {
                    Some(again) => state = again,
                    None => return Passed::Before(What::UnderWay(String::new())),
                },
            }
        }
        let last = state.serials.entry(incarnation).or_default();
        if serial <= *last {
            return Passed::Before(What::Overtaken);
        }
        *last = serial;
        if state.obeyed.len() == MOST_GIVEN {
            state.obeyed.pop_front();
        }
        state.obeyed.push_back((key, None));
        Passed::Next
    }

    /// This became of that command.
    pub(crate) fn passed(&self, incarnation: u64, id: Id, what: &What) {
        let mut state = self.lock();
        if let Some((_, passed)) = state.obeyed.iter_mut().find(|(one, _)| *one == (id, incarnation)) {
            *passed = Some(what.clone());
        }
        self.changed.notify_all();
    }

    // ---- processes that did not answer

    /// Brings this request to a process when it answers again, instead of those that it replaces. Returns whether a thread is to
    /// begin with that.
    pub(crate) fn bring_later(&self, to: (u64, u32), contact: &Contact, request: Request) -> Result<bool, NotKept> {
        let mut state = self.lock();
        if self.is_closing() {
            return Err(NotKept::Ending);
        }
        if state.late.len() >= MOST_LATE && !state.late.contains_key(&to) {
            return Err(NotKept::Processes);
        }
        let new = || Late { contact: contact.clone(), since: Instant::now(), requests: VecDeque::new() };
        let late = state.late.entry(to).or_insert_with(new);
        late.requests.retain(|earlier| !request.command.replaces(&earlier.command));
        if late.requests.len() >= MOST_LATE_EACH {
            return Err(NotKept::Commands);
        }
        late.requests.push_back(request);
        Ok(!std::mem::replace(&mut state.brings, true))
    }

    /// Whether requests wait for this process: a further one comes behind them.
    pub(crate) fn is_late(&self, to: (u64, u32)) -> bool {
        self.lock().late.contains_key(&to)
    }

    /// The processes for which requests wait. `None`: there are none, and the thread that has asked ends.
    pub(crate) fn late(&self) -> Option<Vec<((u64, u32), Late)>> {
        let mut state = self.lock();
        if state.late.is_empty() || self.is_closing() {
            state.brings = false;
            return None;
        }
        Some(state.late.iter().map(|(to, late)| (*to, late.clone())).collect())
    }

    /// A process has got this request.
    pub(crate) fn brought(&self, to: (u64, u32), id: Id) {
        let mut state = self.lock();
        let Some(late) = state.late.get_mut(&to) else { return };
        late.requests.retain(|request| request.id != id);
        if late.requests.is_empty() {
            state.late.remove(&to);
        }
    }

    /// Nothing is brought to this process any more.
    pub(crate) fn give_up(&self, to: (u64, u32)) {
        self.lock().late.remove(&to);
    }

    // ---- members that finalize

    /// A process that finalizes tells its figures as a member of a job that is led here, or that it leaves (`leaves`). Whether it
    /// is led here, and the process that one.
    pub(crate) fn hear(&self, job: (u64, u32), report: Option<&Report>, leaves: bool, process: [u8; 16]) -> bool {
        let (incarnation, rank) = job;
        let mut state = self.lock();
        let Some(led) = state.led.get_mut(&incarnation) else { return false };
        if led.members.get(rank as usize).is_none_or(|member| member.process != process) {
            return false;
        }
        if leaves {
            led.left.insert(rank);
        }
        if let Some(report) = report {
            state.sums.entry(incarnation).or_default().insert(rank, report.clone());
        }
        self.changed.notify_all();
        true
    }

    /// The members of a job that is led here which have said that they leave.
    pub(crate) fn left(&self, incarnation: u64) -> BTreeSet<u32> {
        self.lock().led.get(&incarnation).map(|led| led.left.clone()).unwrap_or_default()
    }

    /// See [`crate::Node::told_by_members`].
    pub(crate) fn sums(&self, incarnation: u64, size: u32, limit: Duration) -> Vec<(u32, Report)> {
        let mut state = self.lock();
        let (mut heard, mut until) = (0, Instant::now() + limit);
        while let Some(led) = state.led.get(&incarnation) {
            let left = led.left.len();
            let now = left + state.sums.get(&incarnation).map_or(0, BTreeMap::len);
            if now > heard {
                (heard, until) = (now, Instant::now() + limit);
            }
            if left + 1 >= size as usize {
                break;
            }
            match self.wait(state, until) {
                Some(again) => state = again,
                None => {
                    state = self.lock();
                    break;
                }
            }
        }
        state.sums.remove(&incarnation).unwrap_or_default().into_iter().collect()
    }
}

#[cfg(test)]
#[path = "desk_tests.rs"]
mod tests;
