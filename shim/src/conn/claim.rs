//! What this process holds in the naming service: names of jobs, and of published ports.
//!
//! Invariant: a held name is renewed until it is dropped, and no forked child keeps it.

use super::fork;
use crate::abi;
use crate::error::{Class, Failure};
use base::settings;
use naming::{Claim, ClaimError, Naming, Record, RenewError};
use node::Node;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

/// The naming service that the environment names.
pub fn open_naming() -> Result<Box<dyn Naming>, Failure> {
    let bad = |e: naming::OpenError| Failure::new(Class::Name, e.to_string());
    naming::open(&naming::default_url().map_err(bad)?).map_err(bad)
}

/// What is to be said of any name of this process; the rest is empty.
pub fn record(name: &str) -> Result<Record, Failure> {
    let metadata =
        naming::metadata_from_env().map_err(|e| Failure::new(Class::Arg, format!("{}: {e}", settings::METADATA)))?;
    Ok(Record { mpi: abi::get().family.name.to_owned(), metadata, ..Record::new(name) })
}

/// A name that this process holds; dropping it gives the name back.
pub struct Held(Arc<Name>);

struct Name {
    name: String,
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
        base::log!(Info, "giving the name '{}' back", self.0.name);
    }
}

/// All that are held.
static HELD: Mutex<Vec<Weak<Name>>> = Mutex::new(Vec::new());

fn held() -> MutexGuard<'static, Vec<Weak<Name>>> {
    HELD.lock().unwrap_or_else(|e| e.into_inner())
}

/// Claims a name, and keeps it until the answer is dropped.
pub fn hold(node: &Node, naming: &dyn Naming, record: &Record) -> Result<Held, ClaimError> {
    let claim = naming.claim(record)?;
    if let Some(fd) = claim.fd() {
        fork::remember(fd);
    }
    let (claim, lost) = (Mutex::new(Some(claim)), AtomicBool::new(false));
    let name = Arc::new(Name { name: record.name.clone(), claim, lost });
    let mut held = held();
    held.retain(|other| other.strong_count() > 0);
    held.push(Arc::downgrade(&name));
    node.every(naming::RENEW_EVERY, renew);
    Ok(Held(name))
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
