//! A name that this process holds. Claims are made by the stores, and kept by the leader of a job.
//!
//! Invariant: only the process that made the claim can end it. A forked child that drops its copy neither gives the name back
//! nor closes a descriptor.

use crate::error::RenewError;
use std::os::fd::RawFd;

/// What a store does for a claim.
pub(crate) trait Holding: Send {
    fn renew(&self) -> Result<(), RenewError>;
    fn fd(&self) -> Option<RawFd>;
    fn fence(&self) -> Option<u64> {
        None
    }
    /// Gives the name back. Called once, in the process that claimed.
    fn release(&mut self);
    /// Forgets the claim in a forked child and leaves its descriptor alone: the child may have closed it already.
    fn abandon(&mut self);
}

/// A name that this process holds. Dropping it gives the name back. So does the death of the process: at once in a folder, at the
/// end of the lease at a server.
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

    /// Renews the claim; to be called every [`crate::RENEW_EVERY`]. It does not wait for a server: a thread of the store's renews
    /// claims there, and this returns their state. [`RenewError::Lost`] is final: the name is free, or another process has it.
    pub fn renew(&self) -> Result<(), RenewError> {
        self.holding.renew()
    }

    /// The fencing token: a number that is larger for each later holder of the name, also after a claim was lost. Whoever keeps
    /// something for the holder of a name refuses a number that is smaller than the largest that it has seen: a holder that was
    /// stopped for longer than its lease does not know yet that another has the name. `None` where no one decides for all: in a
    /// folder, and at several servers without a common store.
    pub fn fence(&self) -> Option<u64> {
        self.holding.fence()
    }

    /// The descriptor of the locked file, for a claim in a folder. A forked child holds it too, and would keep the name after
    /// its parent's death: close it in the child (a plain `close`, from a `pthread_atfork` child handler), and do not use the
    /// claim there any more. Dropping the child's copy of the claim does nothing.
    pub fn fd(&self) -> Option<RawFd> {
        self.holding.fd()
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if std::process::id() == self.owner { self.holding.release() } else { self.holding.abandon() }
    }
}
