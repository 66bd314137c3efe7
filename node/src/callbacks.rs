//! Functions of a program or a tool that are called around a hold: when nothing is left that leads to other jobs, and before the
//! process connects again.
//!
//! Part of the core; a thread of its own calls them. Invariants: none is called under the lock; whoever is told that the process
//! is held is told that it comes back, before it does; the last order to hold or to resume counts.

use crate::shared::Shared;
use crate::state::Core;
use crate::state::callbacks::{BeginCaller, Calls, OnHold, Stage};
use crate::thread::begin;
use nix::sys::signal::SigSet;
use session::Hold;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

thread_local! {
    /// Whether this thread is the one that calls the functions.
    static CALLS: Cell<bool> = const { Cell::new(false) };
}

/// Whether this is called by one of the functions: it cannot wait for the others.
pub(crate) fn is_in_callback() -> bool {
    CALLS.get()
}

/// How the thread that calls functions is begun.
pub(crate) fn caller(shared: &Arc<Shared>) -> BeginCaller {
    let weak = Arc::downgrade(shared);
    Box::new(move || {
        let (to, from) = channel();
        let weak = weak.clone();
        let run = move || {
            let from: Receiver<Calls> = from;
            CALLS.set(true);
            for calls in from {
                // What the lock's holder has begun to close is closed by then.
                weak.upgrade().into_iter().for_each(|shared| drop(shared.lock()));
                for (function, mask) in calls {
                    let _ = mask.thread_set_mask();
                    function();
                    let _ = SigSet::all().thread_set_mask();
                }
                if let Some(shared) = weak.upgrade() {
                    shared.with(|core| {
                        core.go_on_with_hold();
                        shared.tell(core);
                    });
                }
            }
        };
        Ok((to, begin("mpi_connect hld", run)?))
    })
}

impl Core {
    /// From the next hold on these functions are called.
    pub fn on_hold(&mut self, pair: OnHold) {
        self.callbacks.all.push(pair);
    }

    /// Gives up all connections, without a look at signals.
    pub(crate) fn hold_now(&mut self) {
        match &mut self.callbacks.stage {
            Stage::Holding { resumes } => *resumes = false,
            Stage::Resuming { holds } => *holds = true,
            Stage::Idle | Stage::Held => {
                let now = self.now();
                self.session.hold(now);
            }
        }
    }

    /// Comes back, without a look at signals.
    pub(crate) fn resume_now(&mut self) {
        match &mut self.callbacks.stage {
            Stage::Idle => self.come_back(),
            Stage::Holding { resumes } => *resumes = true,
            Stage::Resuming { holds } => *holds = false,
            Stage::Held => {
                let all = std::mem::take(&mut self.callbacks.taking_part);
                let calls = all.into_iter().rev().filter_map(|pair| Some((pair.resuming?, pair.mask)));
                self.call(Stage::Resuming { holds: false }, calls.collect());
            }
        }
    }

    /// The process is held just now: the functions are called.
    pub(crate) fn is_held_now(&mut self) {
        let all = self.callbacks.all.clone();
        if self.callbacks.stage == Stage::Idle && all.is_empty() {
            self.callbacks.done += 1;
        }
        if self.callbacks.stage == Stage::Idle && !all.is_empty() {
            self.callbacks.taking_part.clone_from(&all);
            let calls = all.into_iter().filter_map(|pair| Some((pair.held?, pair.mask)));
            self.call(Stage::Holding { resumes: false }, calls.collect());
        }
    }

    fn call(&mut self, stage: Stage, calls: Calls) {
        let all = &mut self.callbacks;
        all.stage = stage;
        if !calls.is_empty()
            && all.caller.is_none()
            && let Some(begin) = &all.begin_caller
        {
            match begin() {
                Ok(caller) => all.caller = Some(caller),
                Err(e) => base::log!(Error, "no thread that calls what MPI_Conn_on_hold has registered: {e}"),
            }
        }
        match &all.caller {
            Some((to, _)) if !calls.is_empty() && to.send(calls).is_ok() => (),
            _ => self.go_on_with_hold(),
        }
    }

    /// The functions have been called.
    fn go_on_with_hold(&mut self) {
        match std::mem::take(&mut self.callbacks.stage) {
            Stage::Idle => (),
            Stage::Held => self.callbacks.stage = Stage::Held,
            Stage::Holding { resumes } => {
                self.callbacks.stage = Stage::Held;
                self.callbacks.done += 1;
                if resumes {
                    self.resume_now();
                }
            }
            Stage::Resuming { holds } => {
                self.come_back();
                if holds {
                    self.hold_now();
                }
            }
        }
    }

    /// How far a hold is: it is done when the functions have been called.
    pub fn is_held(&self) -> Hold {
        match self.callbacks.stage {
            Stage::Holding { .. } | Stage::Resuming { holds: true } => Hold::Closing,
            Stage::Idle | Stage::Held | Stage::Resuming { holds: false } => match self.session.is_held() {
                Hold::Held { .. } if files::connections() > 0 => Hold::Closing,
                held => held,
            },
        }
    }

    /// Whether the last order was to hold.
    pub(crate) fn is_to_be_held(&self) -> bool {
        match self.callbacks.stage {
            Stage::Idle | Stage::Held => self.session.is_held() != Hold::No,
            Stage::Holding { resumes } => !resumes,
            Stage::Resuming { holds } => holds,
        }
    }

    /// Whether the process comes back when functions have been called.
    pub(crate) fn is_resuming(&self) -> bool {
        matches!(self.callbacks.stage, Stage::Holding { resumes: true } | Stage::Resuming { holds: false })
    }

    /// Ends the thread, when it has called all.
    pub(crate) fn end_caller(&mut self) -> Option<std::thread::JoinHandle<()>> {
        self.callbacks.begin_caller = None;
        self.callbacks.caller.take().map(|(_, thread)| thread)
    }
}
