//! The interface of the driver: each call takes the lock, does one thing, and gives the lock back.
//!
//! In a forked child, `forget`, `close`, `remove_group`, `cancel` and `drain` do nothing, and every other call stops
//! the child with a message. So each entry of the shim asks [`Node::get`] first: in a child it returns
//! [`StartError::Forked`], and it costs one load.

use crate::callbacks;
use crate::checkpoints;
use crate::control::{self, Desk};
use crate::lock::{Guard, Lock};
use crate::signal;
use crate::state::Core;
use crate::state::callbacks::OnHold;
use crate::state::waits::About;
use crate::sys::{forked, watch_forks};
use crate::thread::Background;
use crate::wait::Phase;
use crate::waits::PUBLISH_AFTER;
use crate::watch::Watch;
use crate::{Config, Contact, Contacts, Group, InterId, Layout, PathRef, Proofs, RemoteGroup, StartError};
use base::ProcId;
use engine::{ContextId, Envelope, Gone, MessageId, Mode, OpId, Outcome, Source, Tag};
use session::{Hold, SentNow};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use wire::control::{Command, JobSecret, Report};

use crate::shared::Shared;

static NODE: OnceLock<Node> = OnceLock::new();
/// Held while the node is being started.
static START: Mutex<()> = Mutex::new(());
/// What was registered before the node started.
static EARLY: Mutex<Vec<OnHold>> = Mutex::new(Vec::new());

/// The driver of one process: its session, its lanes, the lock and the background thread.
pub struct Node {
    pub(crate) shared: Arc<Shared>,
    background: Mutex<Option<Background>>,
    operators: Arc<Desk>,
    timeout: Duration,
}

impl Node {
    /// The node of this process. The first call starts it as the environment says; if that fails, the next call tries
    /// again. [`StartError::Forked`]: this is a forked child.
    pub fn get() -> Result<&'static Node, StartError> {
        if forked() {
            return Err(StartError::Forked);
        }
        if let Some(node) = NODE.get() {
            return Ok(node);
        }
        let _alone = START.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(node) = NODE.get() {
            return Ok(node);
        }
        let node = Node::start(Config::from_env()?)?;
        signal::wakes(&node.shared.watch);
        let mut early = EARLY.lock().unwrap_or_else(PoisonError::into_inner);
        early.drain(..).for_each(|pair| node.with(|core| core.on_hold(pair)));
        Ok(NODE.get_or_init(|| node))
    }

    /// From the next hold of this process on these functions are called. The node need not have been started.
    pub fn on_hold(pair: OnHold) {
        let mut early = EARLY.lock().unwrap_or_else(PoisonError::into_inner);
        match Node::running() {
            Some(node) => node.with(|core| core.on_hold(pair)),
            None => early.push(pair),
        }
    }

    /// The node of this process, if it has been started.
    #[inline]
    pub fn started() -> Option<&'static Node> {
        NODE.get()
    }

    /// The node of this process, if it has been started and this is no forked child.
    #[inline]
    pub fn running() -> Option<&'static Node> {
        if forked() { None } else { Node::started() }
    }

    /// Starts a further node. A process has one, from [`Node::get`]; tests start several.
    pub fn start(config: Config) -> Result<Node, StartError> {
        watch_forks();
        let watch = Arc::new(Watch::new().map_err(|e| StartError::system("epoll", e))?);
        let (background, timeout) = (config.background, config.timeout);
        let shared = Arc::new(Shared {
            core: Lock::new(Core::new(&config, watch.clone())?),
            watch,
            waiting: AtomicUsize::new(0),
            calls: AtomicU64::new(0),
            rounds: AtomicU64::new(0),
            polling: AtomicBool::new(false),
            found: AtomicU64::new(0),
            followers: AtomicUsize::new(0),
            news: (Mutex::new(()), Condvar::new()),
            sleeps_long: AtomicBool::new(false),
            naps_long: AtomicBool::new(false),
            thread: OnceLock::new(),
            stop: AtomicBool::new(false),
            chore: OnceLock::new(),
        });
        let background = match background {
            true => Some(Background::start(shared.clone()).map_err(|e| StartError::system("no thread", e))?),
            false => None,
        };
        let operators = control::open(&shared, files::Folders::new(config.folders));
        let writer = checkpoints::writer(&shared);
        shared.lock().checkpoints.begin_writer = Some(writer);
        let caller = callbacks::caller(&shared);
        shared.lock().callbacks.begin_caller = Some(caller);
        Ok(Node { shared, background: Mutex::new(background), operators, timeout })
    }

    /// Has the background thread call `chore` about once in each `interval`, without the lock. Only the first call of
    /// this has an effect.
    pub fn every(&self, interval: Duration, chore: fn()) {
        self.shared.chore.get_or_init(|| (interval, chore));
    }

    /// Runs `f` under the lock, for several steps that belong together.
    #[inline(always)]
    pub fn with<T>(&self, f: impl FnOnce(&mut Core) -> T) -> T {
        self.shared.with(f)
    }

    /// The lock. What follows may be inlined where no closure would be; [`Node::unlock`] carries out what it leads to.
    #[inline(always)]
    pub fn lock(&self) -> Guard<'_, Core> {
        self.shared.lock()
    }

    /// Gives the lock back.
    #[inline(always)]
    pub fn unlock(&self, mut core: Guard<'_, Core>) {
        self.shared.carry_out(&mut core);
        core.unlock();
    }

    /// The contact record of this process: the other job's processes dial by it.
    pub fn contact(&self) -> Contact {
        self.with(|core| core.registry.contact())
    }

    /// Makes a group known to which this process belongs. From now on its cookie is accepted in a HELLO.
    pub fn add_group(&self, group: Group) {
        self.with(|core| core.session.add_group(group));
    }

    /// As [`Node::add_group`], for a group that meets another one at a port or over a socket of the program: who knows its
    /// cookie may connect to it, without the user's key.
    pub fn add_open_group(&self, group: Group) {
        self.with(|core| {
            core.pass(group.incarnation, &group.cookie);
            core.session.add_group(group);
        });
    }

    /// Listens at this IP address and TCP port too, for an MPI port. `None` is each address at which the process
    /// listens already, or any free TCP port. Returns the addresses at which it listens now, until
    /// [`Node::stop_listening`] was called as often as this. The error is the system's, or `Unsupported` if no open
    /// transport has such addresses.
    pub fn listen_at(&self, ip: Option<IpAddr>, port: Option<u16>) -> io::Result<Vec<SocketAddr>> {
        self.with(|core| core.listen_at(ip, port))
    }

    /// Gives up addresses that [`Node::listen_at`] has returned. Each is closed when its last user has given it up.
    pub fn stop_listening(&self, addresses: &[SocketAddr]) {
        self.with(|core| core.stop_listening(addresses));
    }

    /// At which addresses the hosts of these contact records are known to be reachable from this host.
    pub fn proofs(&self, contacts: &Contacts) -> Proofs {
        self.with(|core| core.session.proofs(contacts))
    }

    /// Takes over the [`Node::proofs`] of another process of this job. They are ignored if that process is on another
    /// host.
    pub fn learn(&self, proofs: Proofs) {
        self.with(|core| core.session.learn(proofs));
    }

    /// Opens an MPI port: leaders of any job with this cookie may connect to it, without the user's key, and [`Core::next_caller`] returns
    /// them. A port is removed by [`Node::remove_group`].
    pub fn add_port(&self, port: ProcId, cookie: [u8; 16]) {
        self.with(|core| {
            core.pass(port.incarnation, &cookie);
            core.session.add_port(port, cookie);
        });
    }

    /// Removes a group or a port: no new process may connect to it, and existing connections go on.
    pub fn remove_group(&self, incarnation: u64) {
        if !forked() {
            self.with(|core| core.session.remove_group(incarnation));
        }
    }

    /// Whether a group is registered, or was, and a pair has it still.
    pub fn knows_group(&self, incarnation: u64) -> bool {
        self.with(|core| core.session.own_group(incarnation).is_some())
    }

    // ---- operators

    /// This process leads a registered job: an operator's commands to the job of this name come here, and are passed on to the
    /// members, given by rank. The secret is told to the members alone.
    pub fn lead(&self, incarnation: u64, name: &str, members: Vec<Contact>, secret: JobSecret) {
        self.forget_jobs();
        self.operators.lead(incarnation, name, members, secret);
    }

    /// This process is a member of a registered job, but not its leader: it does what comes with this secret.
    pub fn follow(&self, incarnation: u64, secret: JobSecret) {
        self.forget_jobs();
        self.operators.follow(incarnation, secret);
    }

    /// The operators' part forgets jobs that were removed.
    fn forget_jobs(&self) {
        let jobs = self.operators.jobs();
        let is_gone =
            |core: &mut Core| jobs.into_iter().filter(|job| !core.session.knows_group(*job)).collect::<Vec<_>>();
        self.operators.forget(&self.with(is_gone));
    }

    /// The figures of this process in a group of its own, as an operator gets them.
    pub fn report(&self, incarnation: u64) -> Report {
        self.with(|core| core.report(incarnation))
    }

    /// Tells the leader of a group, before `until`, this process's figures in it. Whether the leader has got them.
    pub fn tell_figures(&self, group: ProcId, leader: &Contact, until: Instant) -> bool {
        let report = Box::new(self.report(group.incarnation));
        self.tell_leader(group, leader, Command::Sum(group.rank, report), until)
    }

    /// Tells the leader of a group, before `until`, that this process leaves it, and perhaps its last figures in it. Whether the
    /// leader has got that.
    pub fn tell_left(&self, group: ProcId, leader: &Contact, has_figures: bool, until: Instant) -> bool {
        let report = has_figures.then(|| Box::new(self.report(group.incarnation)));
        self.tell_leader(group, leader, Command::Left(group.rank, report), until)
    }

    fn tell_leader(&self, group: ProcId, leader: &Contact, command: Command, until: Instant) -> bool {
        !forked() && control::tell_leader(&self.shared, group.incarnation, leader, command, until)
    }

    /// The figures that the other members of a group have told their leader. Waits until all `size - 1` have left, or nothing was
    /// told for `limit`.
    pub fn told_by_members(&self, incarnation: u64, size: u32, limit: Duration) -> Vec<(u32, Report)> {
        if forked() { Vec::new() } else { self.operators.sums(incarnation, size, limit) }
    }

    // ---- the paths between leaders

    /// The path from process `local` to the leader of another job, which is dialled if need be. If there is a path
    /// already, it is returned, also if the other side has made it.
    pub fn open_control(&self, local: ProcId, remote: ProcId, cookie: [u8; 16], contact: &Contact) -> PathRef {
        self.with(|core| core.session.open_control(local, remote, cookie, contact))
    }

    /// The path to the process that has opened a port. The port was open before its name could be known, so a refused
    /// connection means that the process is gone.
    pub fn open_control_to_port(&self, local: ProcId, port: ProcId, cookie: [u8; 16], contact: &Contact) -> PathRef {
        self.with(|core| {
            core.pass_to(port.incarnation, &cookie);
            let path = core.session.open_control(local, port, cookie, contact);
            core.session.believe_refusals(path);
            path
        })
    }

    /// Sends a CONTROL message to a leader. It must be shorter than 1 MiB, or this panics. On a path that is gone,
    /// nothing happens.
    pub fn send_control(&self, path: PathRef, bytes: &[u8]) {
        self.with(|core| core.session.send_control(path, bytes));
    }

    /// The next CONTROL message from a leader. `None`: there is none yet.
    pub fn recv_control(&self, path: PathRef) -> Option<Vec<u8>> {
        self.with(|core| core.session.recv_control(path))
    }

    /// Says that no process here will open this context, to which that leader has agreed. Sends to it fail at their
    /// sender.
    pub fn refuse(&self, path: PathRef, context: ContextId) {
        self.with(|core| core.session.refuse(path, context));
    }

    /// Why that leader is not connected, in words, and the addresses of this process to which it could connect. `None`:
    /// it is connected.
    pub fn path_trouble(&self, path: PathRef) -> Option<(String, Vec<SocketAddr>)> {
        self.with(|core| core.path_trouble(path))
    }

    /// Whether that leader has died or finalized. `None` also while CONTROL messages of it are still to be received.
    pub fn path_gone(&self, path: PathRef) -> Option<Gone> {
        self.with(|core| core.session.path_gone(path))
    }

    // ---- inter-communicators and operations

    /// Opens an inter-communicator with the context that the leaders agreed on. Two processes are connected when the
    /// first message is sent or awaited between them.
    pub fn open(&self, local: ProcId, remote: &RemoteGroup, context: ContextId) -> InterId {
        self.with(|core| {
            // Both groups have met in the same way.
            if core.trust.has_pass(local.incarnation) {
                core.pass_to(remote.incarnation, &remote.cookie);
            }
            core.session.open(local, remote, context)
        })
    }

    /// Opens an inter-communicator that was made from `parent`, by `MPI_Comm_dup` or `MPI_Comm_split` for example.
    /// `rank` is the rank of this process in its local group, and `members` are the ranks of its remote group in the
    /// parent's.
    pub fn open_child(&self, parent: InterId, context: ContextId, rank: u32, members: &[u32]) -> InterId {
        self.with(|core| core.session.open_child(parent, context, rank, members))
    }

    /// Says that an inter-communicator was made from `parent` without this process. Sends to this process in it fail at
    /// their sender.
    pub fn refuse_child(&self, parent: InterId, context: ContextId) {
        self.with(|core| core.session.refuse_child(parent, context));
    }

    /// Closes an inter-communicator. Operations that are not matched fail with [`crate::Fault::Revoked`], here and at
    /// the other side; transfers that are under way go on to their end.
    pub fn close(&self, inter: InterId) {
        if !forked() {
            self.with(|core| core.session.close(inter));
        }
    }

    /// Starts a send. `dest` is a rank in the remote group. If `data` has types, they travel with the message.
    pub fn isend(&self, inter: InterId, dest: u32, tag: i64, data: Layout, mode: Mode) -> OpId {
        self.with(|core| core.isend_signed(inter, dest, tag, data, mode))
    }

    /// A send in standard mode that completes within the call: see [`Core::send_now`]. False also if `data` has types.
    #[inline(always)]
    #[must_use]
    pub fn send_now(&self, inter: InterId, dest: u32, tag: i64, data: &Layout) -> bool {
        if data.types().is_some() {
            return false;
        }
        let mut core = self.shared.lock();
        let sent = core.send_now(inter, dest, tag, data);
        if sent != SentNow::Taken {
            self.shared.carry_out(&mut core);
        }
        core.unlock();
        sent != SentNow::No
    }

    /// Starts a receive.
    pub fn irecv(&self, inter: InterId, source: Source, tag: Tag, data: Layout) -> OpId {
        self.with(|core| core.irecv(inter, source, tag, data))
    }

    /// A blocking receive whose message is here, or comes in a moment: it takes no operation. `is_there` says under the lock whether
    /// the inter-communicator still exists, and `got` is called when the whole message is there. The error is another
    /// outcome, or `None`: nothing has changed, use [`Core::irecv`]. The layout has neither types nor a conversion.
    #[inline(always)]
    pub fn recv_now(
        &self,
        is_there: impl FnOnce(&Core) -> bool,
        (inter, source, tag): (InterId, Source, Tag),
        data: impl Fn() -> Layout,
        got: impl FnOnce(Envelope),
    ) -> Result<(), Option<Outcome>> {
        crate::wait::recv_now(&self.shared, is_there, (inter, source, tag), data, got)
    }

    /// Starts the receive of a message that [`Core::claim`] took: `MPI_Imrecv`.
    pub fn irecv_claimed(&self, message: MessageId, data: Layout) -> OpId {
        self.with(|core| core.irecv_claimed(message, data))
    }

    /// The outcome of an operation that is complete, which is then forgotten with its number. `None`: it is pending.
    pub fn test(&self, op: OpId) -> Option<Outcome> {
        self.with(|core| core.test(op))
    }

    /// The outcome of an operation that is complete. The operation stays, as for `MPI_Request_get_status`.
    pub fn peek(&self, op: OpId) -> Option<Outcome> {
        self.with(|core| core.peek(op))
    }

    /// Says that the outcome will not be asked for, as `MPI_Request_free` does. The operation goes on, so its buffer
    /// must stay valid.
    pub fn forget(&self, op: OpId) {
        if !forked() {
            self.with(|core| core.forget(op));
        }
    }

    /// Cancels a receive that has not matched a message, and can be cancelled for that reason; its outcome is then
    /// [`Outcome::Cancelled`]. False: it has matched, or this is a send, and nothing has changed.
    pub fn cancel(&self, op: OpId) -> bool {
        !forked() && self.with(|core| core.cancel(op))
    }

    // ---- progress

    /// Makes some progress and calls `done` once: the shim's tests and probes. `poke` is as for [`Node::wait_until`].
    pub fn look<T>(&self, poke: &mut dyn FnMut() -> bool, done: impl FnOnce(&mut Core) -> Option<T>) -> Option<T> {
        crate::wait::look(&self.shared, poke, done)
    }

    /// Makes progress until `done` returns a value. `None`: the deadline has passed. `poke` lets the MPI below make
    /// progress: it is called now and then without the lock, and returns whether it found work.
    pub fn wait_until<T>(
        &self,
        poke: &mut dyn FnMut() -> bool,
        done: impl FnMut(&mut Core) -> Option<T>,
        deadline: Option<Instant>,
    ) -> Option<T> {
        crate::wait::wait_until(&self.shared, Phase::Spin, poke, &|_| None, done, deadline)
    }

    /// As [`Node::wait_until`], of what has not come soon, or will not: it sleeps from the beginning, and leaves the processor to
    /// those that may be waited for.
    pub fn sleep_until<T>(
        &self,
        poke: &mut dyn FnMut() -> bool,
        done: impl FnMut(&mut Core) -> Option<T>,
        deadline: Option<Instant>,
    ) -> Option<T> {
        crate::wait::wait_until(&self.shared, Phase::Sleep, poke, &|_| None, done, deadline)
    }

    /// As [`Node::wait_until`], without a deadline. `about` says what the call waits for. It is asked only if the wait
    /// gets long; then the wait is reported on stderr, and to other processes that ask.
    pub fn wait_about<T>(
        &self,
        poke: &mut dyn FnMut() -> bool,
        about: &dyn Fn(&mut Core) -> Option<About>,
        done: impl FnMut(&mut Core) -> Option<T>,
    ) -> T {
        match crate::wait::wait_until(&self.shared, Phase::Spin, poke, about, done, None) {
            Some(value) => value,
            None => unreachable!("a wait without a deadline ends with a value"),
        }
    }

    /// Ends all connections, for `MPI_Finalize`. Receives without a message are cancelled, and all other operations may
    /// end. Then BYE goes to every process that was ever connected, this waits for their acknowledgement, and the
    /// background thread is stopped. It gives up when nothing has moved for `limit`, but waits [`Config::timeout`] for
    /// processes that were never reached, and for those that are held as long as all do. Returns the number of processes that may lack something that was sent.
    pub fn drain(&self, limit: Duration) -> usize {
        let left = self.part(limit);
        self.shut();
        left
    }

    /// As [`Node::drain`], up to the end of all connections: see [`Node::shut`].
    pub fn part(&self, limit: Duration) -> usize {
        if forked() {
            return 0;
        }
        let last = self.end_operations(limit);
        self.with(|core| core.session.say_goodbye());
        let left = self.settle_down(limit, last, |core| core.session.unacknowledged());
        if left > 0 {
            base::log!(Info, "{left} processes have not taken all that was sent to them");
        }
        left
    }

    /// Ends all connections and threads.
    pub fn shut(&self) {
        if !forked() {
            self.end();
        }
    }

    /// As [`Node::drain`], up to the goodbyes: whatever was sent has been delivered then, or cannot be, and this process still answers
    /// others.
    pub fn deliver(&self, limit: Duration) {
        if !forked() {
            let last = self.end_operations(limit);
            self.settle_down(limit, last, |core| core.session.unacknowledged());
        }
    }

    /// Lets all operations end; until when processes that were never reached are waited for.
    fn end_operations(&self, limit: Duration) -> Instant {
        // What a held process has not sent is sent now.
        self.resume();
        let last = Instant::now() + self.timeout;
        self.with(Core::forget_all);
        self.settle_down(limit, last, |core| {
            core.sweep();
            core.forgotten()
        });
        last
    }

    /// Gives up all connections to other jobs, until [`Node::resume`], and waits until none is left and the functions of
    /// [`Core::on_hold`] have been called; in one of these it does not wait. Returns how many processes could not be told.
    pub fn hold(&self) -> usize {
        self.with(Core::hold);
        if callbacks::is_in_callback() {
            return 0;
        }
        let closed = |core: &mut Core| match core.is_held() {
            Hold::Closing => None,
            Hold::Held { untold } => Some(untold),
            // Another thread, or an operator, was faster.
            Hold::No => Some(0),
        };
        self.wait_until(&mut || false, closed, None).unwrap_or(0)
    }

    /// Ends a hold, when the functions of [`Core::on_hold`] have been called. In one of these it does not wait.
    pub fn resume(&self) {
        self.with(Core::resume);
        if !callbacks::is_in_callback() {
            self.wait_until(&mut || false, |core| (!core.is_resuming()).then_some(()), None);
        }
    }

    /// Ends the threads, then all connections.
    fn end(&self) {
        self.operators.close();
        for thread in [self.with(Core::end_writer), self.with(Core::end_caller)].into_iter().flatten() {
            let _ = thread.join();
        }
        let thread = self.background.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(thread);
        self.with(Core::shut);
    }

    /// Waits until `left` is 0, or nothing has moved for `limit`. If a process that was never reached is waited for,
    /// the wait goes on until `end`.
    fn settle_down(&self, limit: Duration, end: Instant, left: impl Fn(&mut Core) -> usize) -> usize {
        let mut last = (usize::MAX, usize::MAX, (u64::MAX, u64::MAX, 0));
        let (began, mut number) = (Instant::now(), None);
        let left = loop {
            let is_known = number.is_some();
            let deadline = Instant::now() + if is_known { limit } else { PUBLISH_AFTER };
            let moved = self.wait_until(
                &mut || false,
                |core| {
                    let now = (left(core), core.session.unacknowledged_bytes(), core.session.moved());
                    (now.0 == 0 || now != last).then_some(now)
                },
                Some(deadline),
            );
            if is_known || began.elapsed() >= PUBLISH_AFTER {
                number = Some(self.with(|core| core.count_end(number, began)));
            }
            match moved {
                Some((0, ..)) => break 0,
                Some(now) => last = now,
                None if !is_known => (),
                None if self.with(|core| core.session.tell_held(core.now())) => (),
                None if Instant::now() < end && self.with(|core| core.session.tell_unreached()) => (),
                None => break last.0,
            }
        };
        if let Some(number) = number {
            self.with(|core| core.waits.entered.remove(&number));
        }
        left
    }

    /// For tests: runs `f` under the lock.
    #[doc(hidden)]
    pub fn inspect<T>(&self, f: impl FnOnce(&mut Core) -> T) -> T {
        self.with(f)
    }

    /// For tests: closes all connections without BYE, as if the process had been killed.
    #[doc(hidden)]
    pub fn kill(&self) {
        self.end();
    }
}

/// Its threads end with it.
impl Drop for Node {
    fn drop(&mut self) {
        self.operators.close();
    }
}
