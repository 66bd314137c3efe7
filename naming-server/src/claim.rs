//! The proof that this process holds a name. Made by the stores, kept by the leader of a job.
//!
//! Invariant: only the process that made the claim can end it. A forked child neither releases the name nor closes
//! a descriptor by dropping its copy.

use crate::error::RenewError;
use std::os::fd::RawFd;

/// What a store does for a claim that stands.
pub(crate) trait Holding: Send {
    fn renew(&self) -> Result<(), RenewError>;
    fn fd(&self) -> Option<RawFd>;
    /// Gives the name back. Called once, in the process that claimed.
    fn release(&mut self);
    /// Forgets the claim without a trace, in a forked child: its descriptor is closed already, or the child's end
    /// will close it.
    fn abandon(&mut self);
}

/// A held name. Dropping it releases the name, and so does the death of the process, however it dies: at once in a folder,
/// at the end of its lease at a server.
pub struct Claim {
    holding: Box<dyn Holding>,
    owner: u32,
}

impl Claim {
    pub(crate) fn new(holding: Box<dyn Holding>) -> Claim {
        Claim { holding, owner: std::process::id() }
    }

    /// Gives the name back at once.
    pub fn release(self) {}

    /// Says that the holder lives; needed every [`crate::RENEW_EVERY`]. Never waits for long: where that needs others, a
    /// thread of the store's own says it, and this tells how it stands. An error of kind [`RenewError::Lost`] is
    /// final: the name belongs to nobody, or to somebody else.
    pub fn renew(&self) -> Result<(), RenewError> {
        self.holding.renew()
    }

    /// The descriptor whose life is the life of the claim, where there is one. A child that was forked holds it too and
    /// would keep the name alive after its parent's death: close it in the child (a plain `close`, from a
    /// `pthread_atfork` child handler), and never touch the claim there again; to drop the child's copy does nothing.
    pub fn fd(&self) -> Option<RawFd> {
        self.holding.fd()
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if std::process::id() == self.owner { self.holding.release() } else { self.holding.abandon() }
    }
}
