//! The face of one process's end: every call takes the lock, does one thing, lets go.
//!
//! In a forked child `progress`, `forget`, `close`, `remove_group`, `cancel` and `drain` do nothing and every other
//! call stops the child with a message: go through [`Node::get`] at each entry, which answers
//! [`StartError::Forked`] there and costs one load.

use crate::state::Core;
use crate::state::waits::About;
use crate::sys::{forked, watch_forks};
use crate::thread::Background;
use crate::watch::Watch;
use crate::{Config, Contact, Group, InterId, Layout, PathRef, Proofs, RemoteGroup, StartError};
use base::ProcId;
use engine::{ContextId, Gone, MessageId, Mode, OpId, Outcome, Probe, Source, Tag};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use crate::shared::Shared;

static NODE: OnceLock<Node> = OnceLock::new();
/// Held by whoever starts it.
static START: Mutex<()> = Mutex::new(());

pub struct Node {
    pub(crate) shared: Arc<Shared>,
    background: Mutex<Option<Background>>,
    timeout: Duration,
}

impl Node {
    /// The node of this process, started at the first call as the environment says. If that fails, the next call tries it again.
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
        Ok(NODE.get_or_init(|| node))
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

    /// A node of its own: processes have one, tests several.
    pub fn start(config: Config) -> Result<Node, StartError> {
        watch_forks();
        let watch = Arc::new(Watch::new().map_err(|e| StartError::system("epoll", e))?);
        let (background, timeout) = (config.background, config.timeout);
        let shared = Arc::new(Shared {
            core: Mutex::new(Core::new(&config, watch.clone())?),
            watch,
            waiting: AtomicUsize::new(0),
            rounds: AtomicU64::new(0),
            polling: AtomicBool::new(false),
            found: AtomicU64::new(0),
            followers: AtomicUsize::new(0),
            news: Condvar::new(),
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
        Ok(Node { shared, background: Mutex::new(background), timeout })
    }

    /// How many processes of this job share this host.
    pub fn set_local_processes(&self, n: usize) {
        self.with(|core| {
            core.pace.local_processes = n;
            core.judge_spinning();
        });
    }

    /// Has the background thread call `chore` about this often, without the lock. The first one given stays.
    pub fn every(&self, interval: Duration, chore: fn()) {
        self.shared.chore.get_or_init(|| (interval, chore));
    }

    /// Several steps under one lock.
    #[inline(always)]
    pub fn with<T>(&self, f: impl FnOnce(&mut Core) -> T) -> T {
        let mut core = self.shared.lock();
        let out = f(&mut core);
        if core.session.has_actions() {
            core.act();
        }
        self.shared.rouse(&core);
        out
    }

    pub fn contact(&self) -> Contact {
        self.with(|core| core.registry.contact())
    }

    pub fn add_group(&self, group: Group) {
        self.with(|core| core.session.add_group(group));
    }

    /// Has the process listen at this address and this TCP port too, for a port; `None`: at any. Where it does, until
    /// [`Node::stop_listening`].
    pub fn listen_at(&self, ip: Option<IpAddr>, port: Option<u16>) -> io::Result<Vec<SocketAddr>> {
        self.with(|core| core.listen_at(ip, port))
    }

    pub fn stop_listening(&self, addresses: &[SocketAddr]) {
        self.with(|core| core.stop_listening(addresses));
    }

    /// What this process knows of these hosts: at which addresses of theirs one gets through from its own.
    pub fn proofs(&self, contacts: &[Contact]) -> Proofs {
        self.with(|core| core.session.proofs(contacts))
    }

    /// What another process of this job knows.
    pub fn learn(&self, proofs: Proofs) {
        self.with(|core| core.session.learn(proofs));
    }

    /// A port: a place to which leaders may come who are not expected, for [`Core::next_caller`]. Removed as groups are.
    pub fn add_port(&self, port: ProcId, cookie: [u8; 16]) {
        self.with(|core| core.session.add_port(port, cookie));
    }

    /// Nobody new may connect to this group; those who have go on.
    pub fn remove_group(&self, incarnation: u64) {
        if !forked() {
            self.with(|core| core.session.remove_group(incarnation));
        }
    }

    // ---- leaders

    /// The path to a leader; the same one again if there is one, also when the other leader came first.
    pub fn open_control(&self, local: ProcId, remote: ProcId, cookie: [u8; 16], contact: &Contact) -> PathRef {
        self.with(|core| core.session.open_control(local, remote, cookie, contact))
    }

    /// The path to whoever has a port open. That port was open before its name could be known, so nobody there means gone.
    pub fn open_control_to_port(&self, local: ProcId, port: ProcId, cookie: [u8; 16], contact: &Contact) -> PathRef {
        self.with(|core| {
            let path = core.session.open_control(local, port, cookie, contact);
            core.session.believe_refusals(path);
            path
        })
    }

    /// At most 1 MiB less one byte.
    pub fn send_control(&self, path: PathRef, bytes: &[u8]) {
        self.with(|core| core.session.send_control(path, bytes));
    }

    pub fn recv_control(&self, path: PathRef) -> Option<Vec<u8>> {
        self.with(|core| core.session.recv_control(path))
    }

    /// That leader agreed to a context which nobody here will open: whoever sends to it is told.
    pub fn refuse(&self, path: PathRef, context: ContextId) {
        self.with(|core| core.session.refuse(path, context));
    }

    /// Why that leader is not connected, and where it could come to; `None`: it is.
    pub fn path_trouble(&self, path: PathRef) -> Option<(String, Vec<SocketAddr>)> {
        self.with(|core| core.path_trouble(path))
    }

    /// Whether that leader has died or finalized.
    pub fn path_gone(&self, path: PathRef) -> Option<Gone> {
        self.with(|core| core.session.path_gone(path))
    }

    // ---- inter-communicators and operations

    /// Opens an inter-communicator with an agreed context; pairs connect when they have something to say.
    pub fn open(&self, local: ProcId, remote: &RemoteGroup, context: ContextId) -> InterId {
        self.with(|core| core.session.open(local, remote, context))
    }

    /// Opens one made from `parent`: `rank` is ours in its local group, `members` are its remote ones by their ranks in
    /// the parent.
    pub fn open_child(&self, parent: InterId, context: ContextId, rank: u32, members: &[u32]) -> InterId {
        self.with(|core| core.session.open_child(parent, context, rank, members))
    }

    /// One was made from `parent` without this process: whoever sends to it there is told.
    pub fn refuse_child(&self, parent: InterId, context: ContextId) {
        self.with(|core| core.session.refuse_child(parent, context));
    }

    pub fn close(&self, inter: InterId) {
        if !forked() {
            self.with(|core| core.session.close(inter));
        }
    }

    pub fn isend(&self, inter: InterId, dest: u32, tag: i64, data: Layout, mode: Mode) -> OpId {
        self.with(|core| core.isend_signed(inter, dest, tag, data, mode))
    }

    /// A send in standard mode that is complete with the call, if it can be: see [`Core::send_now`].
    #[must_use]
    pub fn send_now(&self, inter: InterId, dest: u32, tag: i64, data: &Layout) -> bool {
        data.types().is_none() && self.with(|core| core.send_now(inter, dest, tag, data))
    }

    pub fn irecv(&self, inter: InterId, source: Source, tag: Tag, data: Layout) -> OpId {
        self.with(|core| core.irecv(inter, source, tag, data))
    }

    pub fn irecv_claimed(&self, message: MessageId, data: Layout) -> OpId {
        self.with(|core| core.irecv_claimed(message, data))
    }

    pub fn probe(&self, inter: InterId, source: Source, tag: Tag) -> Probe {
        self.with(|core| core.probe(inter, source, tag))
    }

    /// The outcome, once; then the operation is over and its number forgotten.
    pub fn test(&self, op: OpId) -> Option<Outcome> {
        self.with(|core| core.test(op))
    }

    /// The outcome, left in place.
    pub fn peek(&self, op: OpId) -> Option<Outcome> {
        self.with(|core| core.peek(op))
    }

    /// Nobody will ask for the outcome; the operation goes on, so its buffer must stand.
    pub fn forget(&self, op: OpId) {
        if !forked() {
            self.with(|core| core.forget(op));
        }
    }

    /// Takes back a receive that has no message yet: true if so; then its outcome says it.
    pub fn cancel(&self, op: OpId) -> bool {
        !forked() && self.with(|core| core.cancel(op))
    }

    // ---- progress

    /// Asks `done` once, after some progress; `poke` is as for [`Node::wait_until`].
    pub fn look<T>(&self, poke: &mut dyn FnMut() -> bool, done: impl FnOnce(&mut Core) -> Option<T>) -> Option<T> {
        crate::wait::look(&self.shared, poke, done)
    }

    /// Makes progress until `done` has an answer; `None` when the deadline has passed. `poke` is called now and then,
    /// without the lock, and says whether it found work.
    pub fn wait_until<T>(
        &self,
        poke: &mut dyn FnMut() -> bool,
        done: impl FnMut(&mut Core) -> Option<T>,
        deadline: Option<Instant>,
    ) -> Option<T> {
        crate::wait::wait_until(&self.shared, poke, &|_| None, done, deadline)
    }

    /// The same without a deadline; `about` says what is waited for, if that takes long: then it is told of, to other
    /// processes that ask and on stderr.
    pub fn wait_about<T>(
        &self,
        poke: &mut dyn FnMut() -> bool,
        about: &dyn Fn(&mut Core) -> Option<About>,
        done: impl FnMut(&mut Core) -> Option<T>,
    ) -> T {
        match crate::wait::wait_until(&self.shared, poke, about, done, None) {
            Some(value) => value,
            None => unreachable!("a wait without a deadline ends with a value"),
        }
    }

    /// For Finalize: lets operations end that can, asked for or not, says BYE to all who were ever connected, waits until their
    /// libraries have it, and stops the thread. Gives up on what makes no progress for `limit`; but those who could never
    /// be reached, and may come yet, are waited for as long as the configuration says. The number of processes that may
    /// lack something.
    pub fn drain(&self, limit: Duration) -> usize {
        if forked() {
            return 0;
        }
        let last = Instant::now() + self.timeout;
        self.with(Core::forget_all);
        self.settle_down(limit, last, |core| {
            core.sweep();
            core.forgotten()
        });
        self.with(|core| core.session.say_goodbye());
        let left = self.settle_down(limit, last, |core| core.session.unacknowledged());
        if left > 0 {
            base::log!(Info, "{left} processes have not taken all that was sent to them");
        }
        let thread = self.background.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(thread);
        self.with(Core::shut);
        left
    }

    /// Waits until `left` is 0, or nothing has moved for `limit`; until `end`, if it is for somebody who was never reached.
    fn settle_down(&self, limit: Duration, end: Instant, left: impl Fn(&mut Core) -> usize) -> usize {
        let mut last = (usize::MAX, usize::MAX, (u64::MAX, u64::MAX, 0));
        loop {
            let deadline = Instant::now() + limit;
            let moved = self.wait_until(
                &mut || false,
                |core| {
                    let now = (left(core), core.session.unacknowledged_bytes(), core.session.moved());
                    (now.0 == 0 || now != last).then_some(now)
                },
                Some(deadline),
            );
            match moved {
                Some((0, ..)) => return 0,
                Some(now) => last = now,
                None if Instant::now() < end && self.with(|core| core.session.tell_unreached()) => (),
                None => return last.0,
            }
        }
    }

    /// For tests: the state, under the lock.
    #[doc(hidden)]
    pub fn inspect<T>(&self, f: impl FnOnce(&mut Core) -> T) -> T {
        self.with(f)
    }

    /// For tests: as if the process had been killed.
    #[doc(hidden)]
    pub fn kill(&self) {
        let thread = self.background.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(thread);
        self.with(Core::shut);
    }
}
