//! What the threads that serve operators share: who is led, which commands were given, and what became of them.
//!
//! Invariants: a command that changes something is done once, whoever repeats it; of a job's leader, one such command is under way
//! at a time; every table is bounded.

use files::{Folders, Shelf};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use transports::control::ControlStream;
use wire::Contact;
use wire::control::{Answer, Id, Report, Request, What};

/// Connections that are served at a time, and those that wait for their turn. Whoever comes beyond is sent away.
pub(crate) const MOST_SERVED: usize = 16;
const MOST_WAITING: usize = 64;
/// Commands that wait for their turn at a leader. Whoever gives one beyond is told that others are under way, so that threads are
/// left to those that only look.
const MOST_TURNS: usize = 8;
/// Commands whose outcomes are remembered.
const MOST_GIVEN: usize = 64;
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
    /// What is open to other jobs.
    pub(crate) folders: Folders,
    /// The files that other jobs fetch and put here.
    pub(crate) shelf: Shelf,
}

#[derive(Default)]
struct State {
    serving: usize,
    waiting: VecDeque<ControlStream>,
    /// The jobs that this process leads, by incarnation.
    led: BTreeMap<u64, Led>,
    /// Commands that were given to a leader here, and the answer once there is one.
    given: VecDeque<(Id, Option<Answer>)>,
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
    /// The number of the last command that changes something, and whether it is under way.
    serial: u64,
    changing: bool,
    /// Those that wait for their turn, in the order in which they came.
    turns: VecDeque<Id>,
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
}

impl fmt::Display for NotKept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("it does not answer, and ")?;
        match self {
            NotKept::Processes => write!(f, "commands are kept for {MOST_LATE} others already")?,
            NotKept::Commands => write!(f, "{MOST_LATE_EACH} commands wait for it already")?,
            NotKept::NoThread => f.write_str("no thread could be started that brings the command later")?,
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

    /// Whether the threads are to end.
    pub(crate) fn is_closing(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Ends all threads.
    pub(crate) fn close(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.lock().waiting.clear();
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
    pub(crate) fn arrive(&self, stream: ControlStream) -> Option<ControlStream> {
        let mut state = self.lock();
        if self.is_closing() {
            return None;
        }
        if state.serving < MOST_SERVED {
            state.serving += 1;
            return Some(stream);
        }
        if state.waiting.len() < MOST_WAITING {
            state.waiting.push_back(stream);
        }
        None
    }

    /// The next connection for a thread that has served one. `None`: the thread ends.
    pub(crate) fn next(&self) -> Option<ControlStream> {
        let mut state = self.lock();
        let next = state.waiting.pop_front();
        if next.is_none() {
            state.serving -= 1;
        }
        next
    }

    // ---- leaders

    /// The jobs that are led here.
    pub(crate) fn led(&self) -> Vec<u64> {
        self.lock().led.keys().copied().collect()
    }

    /// This process leads one more job; of those before, these are still known.
    pub(crate) fn lead(&self, incarnation: u64, name: &str, members: Vec<Contact>, known: &[u64]) {
        let mut state = self.lock();
        state.led.retain(|incarnation, _| known.contains(incarnation));
        let led =
            Led { name: name.to_owned(), members: members.into(), serial: 0, changing: false, turns: VecDeque::new() };
        state.led.insert(incarnation, led);
    }

    /// The jobs of this name that are led here, with their members.
    pub(crate) fn led_as(&self, name: &str) -> Vec<(u64, Arc<[Contact]>)> {
        let state = self.lock();
        state.led.iter().filter(|(_, led)| led.name == name).map(|(i, led)| (*i, led.members.clone())).collect()
    }

    /// A command that changes something has come to the leader of this job.
    pub(crate) fn give(&self, incarnation: u64, id: Id, until: Instant) -> Given {
        let mut state = self.lock();
        loop {
            let before = state.given.iter().find(|(one, _)| *one == id).map(|(_, answer)| answer.clone());
            let Some(led) = state.led.get_mut(&incarnation) else { return Given::Busy };
            match before {
                Some(Some(answer)) => return Given::Before(answer),
                Some(None) => (),
                None => {
                    if !led.turns.contains(&id) {
                        if led.turns.len() >= MOST_TURNS {
                            return Given::Busy;
                        }
                        led.turns.push_back(id);
                    }
                    if !led.changing && led.turns.front() == Some(&id) {
                        break;
                    }
                }
            }
            match self.wait(state, until) {
                Some(again) => state = again,
                None => {
                    if let Some(led) = self.lock().led.get_mut(&incarnation) {
                        led.turns.retain(|one| *one != id);
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
        led.turns.pop_front();
        led.changing = true;
        led.serial += 1;
        Given::Next(led.serial)
    }

    /// That command is over, and this is its answer.
    pub(crate) fn given(&self, incarnation: u64, id: Id, answer: &Answer) {
        let mut state = self.lock();
        if let Some((_, given)) = state.given.iter_mut().find(|(one, _)| *one == id) {
            *given = Some(answer.clone());
        }
        if let Some(led) = state.led.get_mut(&incarnation) {
            led.changing = false;
        }
        self.changed.notify_all();
    }

    // ---- this process

    /// A command that changes something has come to this process in a group.
    pub(crate) fn pass(&self, incarnation: u64, id: Id, serial: u64, until: Instant) -> Passed {
        let mut state = self.lock();
        let key = (id, incarnation);
        while let Some((_, what)) = state.obeyed.iter().find(|(one, _)| *one == key) {
            match what {
                Some(what) => return Passed::Before(what.clone()),
                None => match self.wait(state, until) {
                    Some(again) => state = again,
                    None => return Passed::Before(What::UnderWay),
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
        if state.late.len() >= MOST_LATE && !state.late.contains_key(&to) || self.is_closing() {
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

    // ---- sums

    /// A member of a job that is led here has told its figures. Whether it is led here.
    pub(crate) fn sum(&self, incarnation: u64, rank: u32, report: &Report) -> bool {
        let mut state = self.lock();
        let is_member = state.led.get(&incarnation).is_some_and(|led| (rank as usize) < led.members.len());
        if is_member {
            state.sums.entry(incarnation).or_default().insert(rank, report.clone());
            self.changed.notify_all();
        }
        is_member
    }

    /// See [`crate::Node::told_by_members`].
    pub(crate) fn sums(&self, incarnation: u64, size: u32, limit: Duration) -> Vec<(u32, Report)> {
        let mut state = self.lock();
        let (mut have, mut until) = (0, Instant::now() + limit);
        loop {
            let now = state.sums.get(&incarnation).map_or(0, BTreeMap::len);
            if now > have {
                (have, until) = (now, Instant::now() + limit);
            }
            if have + 1 >= size as usize || !state.led.contains_key(&incarnation) {
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
mod tests {
    use super::*;
    use wire::control::{Addressee, Command};

    const LONG: Duration = Duration::from_secs(30);

    fn desk() -> Desk {
        let desk = Desk::default();
        desk.lead(7, "air", vec![contact()], &[]);
        desk
    }

    fn contact() -> Contact {
        Contact::new([1; 16], [0; 16], [])
    }

    fn later(limit: Duration) -> Instant {
        Instant::now() + limit
    }

    #[test]
    fn a_repeated_command_has_the_first_outcome() {
        let desk = desk();
        assert!(matches!(desk.give(7, [1; 16], later(LONG)), Given::Next(1)));
        desk.given(7, [1; 16], &Answer::Malformed);
        assert!(matches!(desk.give(7, [1; 16], later(LONG)), Given::Before(Answer::Malformed)));
        assert!(matches!(desk.give(7, [2; 16], later(LONG)), Given::Next(2)));
    }

    #[test]
    fn two_operators_have_their_turns() {
        let desk = Arc::new(desk());
        assert!(matches!(desk.give(7, [1; 16], later(LONG)), Given::Next(1)));
        assert!(matches!(desk.give(7, [2; 16], Instant::now()), Given::Busy), "the first is under way");
        let (second, same) = (desk.clone(), desk.clone());
        let second = std::thread::spawn(move || matches!(second.give(7, [2; 16], later(LONG)), Given::Next(2)));
        let same =
            std::thread::spawn(move || matches!(same.give(7, [1; 16], later(LONG)), Given::Before(Answer::Busy)));
        desk.given(7, [1; 16], &Answer::Busy);
        assert!(second.join().unwrap() && same.join().unwrap());
    }

    #[test]
    fn an_older_command_is_overtaken_and_a_repeated_one_is_not_done_again() {
        let desk = desk();
        assert!(matches!(desk.pass(7, [2; 16], 2, later(LONG)), Passed::Next));
        desk.passed(7, [2; 16], &What::Done(String::new()));
        assert!(matches!(desk.pass(7, [1; 16], 1, later(LONG)), Passed::Before(What::Overtaken)));
        assert!(matches!(desk.pass(7, [2; 16], 2, later(LONG)), Passed::Before(What::Done(_))));
        assert!(matches!(desk.pass(8, [2; 16], 1, later(LONG)), Passed::Next), "another group");
        assert!(matches!(desk.pass(8, [2; 16], 1, Instant::now()), Passed::Before(What::UnderWay)), "under way");
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let desk = desk();
        for n in 0..200u8 {
            assert!(matches!(desk.give(7, [n; 16], later(LONG)), Given::Next(_)));
            desk.given(7, [n; 16], &Answer::Malformed);
            assert!(matches!(desk.pass(7, [n; 16], u64::from(n) + 1, later(LONG)), Passed::Next));
            let _ = desk.bring_later((7, n.into()), &contact(), request(n, Command::Hold));
            let _ = desk.bring_later((7, 0), &contact(), switch(n));
        }
        let state = desk.lock();
        assert_eq!((state.given.len(), state.obeyed.len(), state.late.len()), (MOST_GIVEN, MOST_GIVEN, MOST_LATE));
        assert_eq!(state.late[&(7, 0)].requests.len(), MOST_LATE_EACH);
    }

    fn request(n: u8, command: Command) -> Request {
        Request { id: [n; 16], serial: n.into(), limit: 1, to: Addressee::Member(7, 0), command, members: Vec::new() }
    }

    /// An order for one rank: another one does not replace it.
    fn switch(n: u8) -> Request {
        let command = Command::Switch { transport: "tcp".into(), peer: None, rank: Some(n.into()), peer_rank: None };
        request(n, command)
    }

    #[test]
    fn the_last_command_for_a_stopped_process_is_kept_or_refused() {
        let desk = desk();
        for n in 0..200u8 {
            let command = if n % 2 == 0 { Command::Hold } else { Command::Resume };
            assert_eq!(desk.bring_later((7, 1), &contact(), request(n, command)), Ok(n == 0), "{n}");
        }
        let kept = |desk: &Desk| desk.late().unwrap()[0].1.requests.iter().map(|one| one.id[0]).collect::<Vec<_>>();
        assert_eq!(kept(&desk), [199]);
        for n in 0..15 {
            assert_eq!(desk.bring_later((7, 1), &contact(), switch(n)), Ok(false));
        }
        assert_eq!(desk.bring_later((7, 1), &contact(), switch(15)), Err(NotKept::Commands));
        assert_eq!(
            desk.bring_later((7, 1), &contact(), request(16, Command::Hold)),
            Ok(false),
            "it replaces the resume"
        );
        assert_eq!(kept(&desk).len(), MOST_LATE_EACH);
        // One that is replaced on its way is not there any more when it arrives.
        desk.brought((7, 1), [199; 16]);
        assert_eq!((kept(&desk).len(), kept(&desk).last()), (MOST_LATE_EACH, Some(&16)));
        desk.brought((7, 1), [0; 16]);
        assert_eq!(kept(&desk)[0], 1);
    }

    #[test]
    fn operators_have_their_turns_in_order_and_few_wait() {
        let desk = Arc::new(desk());
        assert!(matches!(desk.give(7, [100; 16], later(LONG)), Given::Next(1)));
        let waiting = |desk: &Desk| desk.lock().led[&7].turns.len();
        let threads: Vec<_> = (0..MOST_TURNS)
            .map(|n| {
                let turn = desk.clone();
                let thread = std::thread::spawn(move || {
                    let Given::Next(serial) = turn.give(7, [n as u8; 16], later(LONG)) else {
                        panic!("its turn comes")
                    };
                    turn.given(7, [n as u8; 16], &Answer::Malformed);
                    serial
                });
                while waiting(&desk) <= n {
                    std::thread::yield_now();
                }
                thread
            })
            .collect();
        assert!(matches!(desk.give(7, [101; 16], later(LONG)), Given::Busy), "too many wait");
        desk.given(7, [100; 16], &Answer::Malformed);
        let serials: Vec<u64> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        assert_eq!(serials, (2..2 + MOST_TURNS as u64).collect::<Vec<_>>());
        assert!(matches!(desk.give(7, [102; 16], Instant::now()), Given::Next(_)));
        assert!(matches!(desk.give(7, [103; 16], Instant::now()), Given::Busy));
        assert_eq!(waiting(&desk), 0, "whoever goes away waits no more");
    }

    #[test]
    fn sums_are_those_of_members_and_nobody_waits_for_ever() {
        let desk = Desk::default();
        desk.lead(7, "air", vec![contact(), contact(), contact()], &[]);
        assert!(desk.sum(7, 1, &Report::default()) && !desk.sum(7, 3, &Report::default()));
        assert!(!desk.sum(8, 1, &Report::default()), "it is led elsewhere");
        assert_eq!(desk.sums(7, 3, Duration::from_millis(1)).len(), 1, "one has said nothing");
        assert_eq!(desk.sums(7, 1, LONG).len(), 0, "there is nobody else");
    }
}
