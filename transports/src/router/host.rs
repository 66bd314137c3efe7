//! The router of the process that has the local name, and its thread.
//!
//! Invariants: the thread holds the router while it passes on what has come, and never while it sleeps; it is nudged when time limits run that
//! it does not know of.

use super::bell::bell;
use super::local::Listener;
use super::switch::{AT_ONCE, NUDGE, Switch, TICK};
use crate::ip::{Kept, Listeners, PortRange};
use base::looks::Looks;
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollEvent, EpollTimeout};
use nix::sys::eventfd::EventFd;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::JoinHandle;
use std::time::Duration;
use trust::Trust;

/// Where a router is to listen that finds no listeners.
#[derive(Debug, Clone)]
pub(super) struct Listening {
    pub at: Vec<SocketAddr>,
    pub ports: Option<PortRange>,
}

/// A router that runs in this process. Dropping it ends it.
pub(super) struct Host {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    switch: Mutex<Switch>,
    epoll: Arc<Epoll>,
    nudge: EventFd,
    is_over: AtomicBool,
    /// The thread looks at time limits, or has been nudged to. Changed under the lock.
    looks_at_time: AtomicBool,
}

impl Host {
    /// Takes the local name and begins. `AddrInUse` if another process has it.
    pub fn start(name: &str, trust: &Arc<Trust>, listening: &Listening, listeners: &[Kept]) -> io::Result<Host> {
        let local = Listener::open(name)?;
        let mut all = listeners.iter().map(Kept::again).collect::<io::Result<Vec<_>>>()?;
        if all.is_empty() {
            match Listeners::open(&listening.at, listening.ports) {
                Ok(opened) => all = opened.into_all(),
                Err(e) => base::log!(Error, "the router of this host cannot be reached from others: {e}"),
            }
        }
        let nudge = bell()?;
        let mut switch = Switch::new(trust.clone(), local, &nudge)?;
        all.into_iter().try_for_each(|listener| switch.adopt(listener))?;
        let epoll = switch.epoll();
        let (is_over, looks_at_time) = (AtomicBool::new(false), AtomicBool::new(false));
        let shared = Arc::new(Shared { switch: Mutex::new(switch), epoll, nudge, is_over, looks_at_time });
        let builder = std::thread::Builder::new().name("mpi_connect_rt".into());
        let of_thread = shared.clone();
        let thread = base::thread::begin(builder, move || of_thread.serve())?;
        Ok(Host { shared, thread: Some(thread) })
    }

    pub fn is_running(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// Turns the router: what this leads to is written before it is over.
    pub fn turn<T>(&self, turn: impl FnOnce(&mut Switch) -> T) -> T {
        let mut switch = self.shared.lock();
        let out = turn(&mut switch);
        switch.flush();
        if switch.is_timed() && !self.shared.looks_at_time.swap(true, Ordering::Relaxed) {
            let _ = self.shared.nudge.write(1);
        }
        out
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        let _ = self.shared.nudge.write(1);
        // A panic in it has been reported.
        self.thread.take().into_iter().for_each(|thread| drop(thread.join()));
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Switch> {
        self.switch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_if_free(&self) -> Option<MutexGuard<'_, Switch>> {
        match self.switch.try_lock() {
            Ok(switch) => Some(switch),
            Err(TryLockError::Poisoned(e)) => Some(e.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Serves until it is told to stop.
    fn serve(&self) {
        let mut events = [EpollEvent::empty(); AT_ONCE];
        let mut looks = Looks::default();
        while !self.is_over.load(Ordering::Relaxed) {
            let sleep = match self.looks_at_time.load(Ordering::Relaxed) {
                _ if looks.go_on() => EpollTimeout::ZERO,
                true => TICK.into(),
                false => EpollTimeout::NONE,
            };
            let n = match self.epoll.wait(&mut events, sleep) {
                Ok(n) => n,
                Err(Errno::EINTR) => 0,
                Err(e) => return base::log!(Error, "the router of this host ends: {e}"),
            };
            // Who only looks does not make the process wait that has the router: what was told is told again.
            let Some(mut switch) = (if looks.go_on() { self.lock_if_free() } else { Some(self.lock()) }) else {
                looks.give_way();
                continue;
            };
            for event in &events[..n] {
                match event.data() {
                    NUDGE => drop(self.nudge.read()),
                    _ => switch.on_event(event),
                }
            }
            let found = looks.go_on() && switch.look();
            looks.looked(found || n > 0);
            if !looks.go_on() {
                switch.end_looks();
            }
            switch.flush();
            if switch.is_timed() {
                switch.look_at_time();
                switch.flush();
            }
            self.looks_at_time.store(switch.is_timed(), Ordering::Relaxed);
            let rests = std::mem::take(&mut switch.has_no_descriptors);
            drop(switch);
            if rests {
                std::thread::sleep(Duration::from_millis(TICK.into()));
            } else if looks.go_on() {
                looks.give_way();
            }
        }
    }
}
