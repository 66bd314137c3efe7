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
    Ok(Record {
        name: name.to_owned(),
        incarnation: 0,
        cookie: [0; 16],
        size: 1,
        leader: Vec::new(),
        mpi: abi::get().family.name.to_owned(),
        host: naming::host(),
        boot: naming::boot_id(),
        pid: std::process::id(),
        since: naming::now(),
        port: None,
        metadata,
    })
}

/// A name that this process holds; dropping it gives the name back.
pub struct Held {
    /// Locked, since a claim is one thread's at a time.
    claim: Mutex<Claim>,
    name: String,
    /// It is another's: that is said once.
    lost: AtomicBool,
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(fd) = self.claim.get_mut().unwrap_or_else(|e| e.into_inner()).fd() {
            fork::forget(fd);
        }
        base::log!(Info, "giving the name '{}' back", self.name);
    }
}

/// All that are held.
static HELD: Mutex<Vec<Weak<Held>>> = Mutex::new(Vec::new());

fn held() -> MutexGuard<'static, Vec<Weak<Held>>> {
    HELD.lock().unwrap_or_else(|e| e.into_inner())
}

/// Claims a name, and keeps it until the answer is dropped.
pub fn hold(node: &Node, naming: &dyn Naming, record: &Record) -> Result<Arc<Held>, ClaimError> {
    let claim = naming.claim(record)?;
    if let Some(fd) = claim.fd() {
        fork::remember(fd);
    }
    let new = Arc::new(Held { claim: Mutex::new(claim), name: record.name.clone(), lost: AtomicBool::new(false) });
    let mut held = held();
    held.retain(|other| other.strong_count() > 0);
    held.push(Arc::downgrade(&new));
    node.every(naming::RENEW_EVERY, renew);
    Ok(new)
}

/// Keeps the leases. Called by the node's thread.
fn renew() {
    let live: Vec<_> = held().iter().filter_map(Weak::upgrade).collect();
    for held in live.iter().filter(|held| !held.lost.load(Ordering::Relaxed)) {
        if let Err(e) = held.claim.lock().unwrap_or_else(|e| e.into_inner()).renew() {
            base::log!(Error, "the lease of '{}' could not be renewed: {e}", held.name);
            held.lost.store(matches!(e, RenewError::Lost(_)), Ordering::Relaxed);
        }
    }
}
