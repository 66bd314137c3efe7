//! What this process holds in the naming service: names of jobs, and of published ports.
//!
//! Invariant: a held name is renewed until it is dropped, and no forked child keeps it.

use super::fork;
use crate::abi;
use crate::failure::{Class, Failure};
use base::settings;
use naming::{Claim, ClaimError, Naming, Record, RenewError};
use node::Node;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

/// The naming service that the environment names, for the names of this process's run.
pub fn open_naming() -> Result<Box<dyn Naming>, Failure> {
    open_naming_of(&naming::default_run().map_err(bad)?)
}

/// The same for another run, or with "" for none.
pub fn open_naming_of(run: &str) -> Result<Box<dyn Naming>, Failure> {
    naming::open_run(&naming::default_url().map_err(bad)?, run).map_err(bad)
}

fn bad(e: naming::OpenError) -> Failure {
    Failure::new(Class::Name, e.to_string())
}

/// What is to be said of any name of this process; the rest is empty.
pub fn record(name: &str) -> Result<Record, Failure> {
    let metadata =
        naming::metadata_from_env().map_err(|e| Failure::new(Class::Arg, format!("{}: {e}", settings::METADATA)))?;
    Ok(Record { mpi: abi::get().family.which.to_string(), metadata, ..Record::new(name) })
}

/// Couplings that are told of at a time. In a folder each costs a descriptor, until it is freed.
const MAX_COUPLINGS: usize = 32;

/// A name that this process holds; dropping it gives the name back.
pub struct Held(Arc<Name>);

struct Name {
    name: String,
    is_coupling: bool,
    /// `None` once it has been given back.
    claim: Mutex<Option<Claim>>,
    /// It is another's: that is said once.
    lost: AtomicBool,
}

impl Name {
    fn claim(&self) -> MutexGuard<'_, Option<Claim>> {
        self.claim.lock().unwrap_or_else(|e| e.into_inner())
    }
}

/// By whoever drops it, never by the thread that renews: it may take a while.
impl Drop for Held {
    fn drop(&mut self) {
        let Some(claim) = self.0.claim().take() else { return };
        if let Some(fd) = claim.fd() {
            fork::forget(fd);
        }
        if self.0.is_coupling {
            base::log!(Debug, "a coupling of '{}' is over", self.0.name);
        } else {
            base::log!(Info, "giving the name '{}' back", self.0.name);
        }
    }
}

/// All that are held.
static HELD: Mutex<Vec<Weak<Name>>> = Mutex::new(Vec::new());

fn held() -> MutexGuard<'static, Vec<Weak<Name>>> {
    HELD.lock().unwrap_or_else(|e| e.into_inner())
}

/// Claims a name, and keeps it until the answer is dropped.
pub fn hold(node: &Node, naming: &dyn Naming, record: &Record) -> Result<Held, ClaimError> {
    Ok(keep(node, naming.claim(record)?, record))
}

/// Tells whoever looks at the names that this job, as `name`, is joined with another; `id` is the same on both sides.
/// Never an error: jobs are joined whether anybody can see it or not.
pub fn note_coupling(node: &Node, naming: &dyn Naming, name: &str, other: &str, id: u64, size: u32) -> Option<Held> {
    if !may_tell(&held()) {
        base::log!(Info, "'mpi-connect names' will not show this coupling: it shows {MAX_COUPLINGS} of a process");
        return None;
    }
    let noted = record(name).and_then(|record| {
        let record = Record { coupled: Some(other.to_owned()), incarnation: id, size, ..record };
        let claim = naming.note(&record).map_err(|e| Failure::new(Class::Name, e.to_string()))?;
        Ok(keep(node, claim, &record))
    });
    noted.inspect_err(|e| base::log!(Info, "'mpi-connect names' will not show this coupling: {}", e.text)).ok()
}

/// Whether one more coupling is told of.
fn may_tell(held: &[Weak<Name>]) -> bool {
    held.iter().filter_map(Weak::upgrade).filter(|name| name.is_coupling).count() < MAX_COUPLINGS
}

/// Finalize: what is still held.
pub fn give_back_all() {
    let live: Vec<_> = held().iter().filter_map(Weak::upgrade).collect();
    live.into_iter().map(Held).for_each(drop);
}

fn keep(node: &Node, claim: Claim, record: &Record) -> Held {
    if let Some(fd) = claim.fd() {
        fork::remember(fd);
    }
    let (claim, lost) = (Mutex::new(Some(claim)), AtomicBool::new(false));
    let name = Arc::new(Name { name: record.name.clone(), is_coupling: record.coupled.is_some(), claim, lost });
    let mut held = held();
    held.retain(|other| other.strong_count() > 0);
    held.push(Arc::downgrade(&name));
    node.every(naming::RENEW_EVERY, renew);
    Held(name)
}

/// Keeps the leases. Called by the node's thread.
fn renew() {
    let live: Vec<_> = held().iter().filter_map(Weak::upgrade).collect();
    for name in live.iter().filter(|name| !name.lost.load(Ordering::Relaxed)) {
        if let Some(Err(e)) = name.claim().as_ref().map(Claim::renew) {
            base::log!(Error, "the lease of '{}' could not be renewed: {e}", name.name);
            name.lost.store(matches!(e, RenewError::Lost(_)), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn couplings_take_few_descriptors() {
        let name = |is_coupling| {
            let (claim, lost) = (Mutex::new(None), AtomicBool::new(false));
            Arc::new(Name { name: "air".into(), is_coupling, claim, lost })
        };
        let mut names: Vec<_> = (0..MAX_COUPLINGS - 1).map(|_| name(true)).chain([name(false)]).collect();
        let may = |names: &[Arc<Name>]| may_tell(&names.iter().map(Arc::downgrade).collect::<Vec<_>>());
        assert!(may(&names), "another name is no coupling");
        names.push(name(true));
        assert!(!may(&names));
        let weak: Vec<_> = names.iter().map(Arc::downgrade).collect();
        assert!(!may_tell(&weak));
        names.pop();
        assert!(may_tell(&weak), "one was freed");
    }
}
