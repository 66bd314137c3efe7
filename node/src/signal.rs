//! `MPI_CONNECT_HOLD_ON`: a signal has this process give up its connections to other jobs, and the next one has it come back.
//!
//! Called once, from MPI_Init. Invariant: the handler does only what signal-safety(7) allows, and keeps `errno`; a handler that was
//! there before, as MPICH's for SIGUSR1, is called too.

use crate::state::Core;
use crate::sys::forked;
use crate::watch::Watch;
use base::settings::{self, HOLD_ON};
use nix::errno::Errno;
use nix::libc::{c_void, siginfo_t};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

/// How many signals have come that were not looked at.
static CAME: AtomicU32 = AtomicU32::new(0);

/// What the background thread of this process's node sleeps on.
static WATCH: OnceLock<Arc<Watch>> = OnceLock::new();

/// The signal that is obeyed.
static OBEYED: OnceLock<Signal> = OnceLock::new();

/// The handler that was there before.
static BEFORE: OnceLock<SigHandler> = OnceLock::new();

extern "C" fn came(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let errno = Errno::last_raw();
    CAME.fetch_add(1, Ordering::Relaxed);
    if let Some(watch) = WATCH.get()
        && !forked()
    {
        watch.wake();
    }
    match BEFORE.get() {
        Some(SigHandler::Handler(before)) => before(signal),
        Some(SigHandler::SigAction(before)) => before(signal, info, context),
        _ => (),
    }
    Errno::set_raw(errno);
}

/// The node of this process has begun, and sleeps on this.
pub(crate) fn wakes(watch: &Arc<Watch>) {
    let _ = WATCH.set(watch.clone());
}

/// Obeys the signal that `MPI_CONNECT_HOLD_ON` names, if any, from now on.
pub fn hold_on_signal() {
    let Some(signal) = settings::hold_on().and_then(|name| name.parse::<Signal>().ok()) else { return };
    let ours = SigAction::new(SigHandler::SigAction(came), SaFlags::SA_RESTART | SaFlags::SA_SIGINFO, SigSet::empty());
    // SAFETY: the handler calls nothing that is not allowed in one.
    match unsafe { sigaction(signal, &ours) } {
        Ok(before) => _ = (BEFORE.set(before.handler()), OBEYED.set(signal)),
        Err(e) => base::log!(Error, "{HOLD_ON}: {e}"),
    }
}

/// Whether signals have come that nobody has obeyed yet.
pub(crate) fn has_come() -> bool {
    CAME.load(Ordering::Relaxed) > 0
}

/// Does what the signals that have come ask for. Called by the background thread.
pub(crate) fn obey(core: &mut Core) {
    // Without a write as long as nothing has come.
    if has_come() && CAME.swap(0, Ordering::Relaxed) % 2 == 1 {
        match core.is_to_be_held() {
            false => core.hold_now(),
            true => core.resume_now(),
        }
    }
}

/// The same before any other order to hold or resume, with a signal that no thread has handled yet: what came first is done first.
pub(crate) fn obey_pending(core: &mut Core) {
    handle_pending();
    obey(core);
}

/// Handles a signal that the kernel has for this process and that no thread has handled yet: the one that will may have to wait for a
/// processor. In a thread that blocks signals; in others none is left to be handled.
fn handle_pending() {
    let Some(signal) = OBEYED.get() else { return };
    let (mut set, mut info, mut context) = (SigSet::empty(), MaybeUninit::zeroed(), MaybeUninit::zeroed());
    set.add(*signal);
    let at_once = nix::libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: plain arguments, which the call and the handler may read and write.
    if unsafe { nix::libc::sigtimedwait(set.as_ref(), info.as_mut_ptr(), &at_once) } == *signal as c_int {
        came(
            *signal as c_int,
            info.as_mut_ptr(),
            MaybeUninit::<nix::libc::ucontext_t>::as_mut_ptr(&mut context).cast(),
        );
    }
}
