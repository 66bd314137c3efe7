//! The names that this process holds in the naming service: those of jobs, of published ports and of couplings.
//!
//! Invariant: a held name is renewed until it is dropped, and a forked child does not keep it. Where its record in a folder was
//! removed, it is claimed again, unless another process has the name by now.

use super::fork;
use crate::abi;
use crate::failure::{Class, Failure};
use base::ident::random;
use base::settings;
use naming::{Claim, ClaimError, Kind, Naming, Record, RenewError};
use node::Node;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak, mpsc};
use std::time::Duration;

/// The naming service that the environment names, for the names of this process's run.
pub fn open_naming() -> Result<Box<dyn Naming>, Failure> {
    open_naming_of(&naming::default_run().map_err(bad)?)
}

/// As [`open_naming`], for the names of another run, or with "" for those without one.
pub fn open_naming_of(run: &str) -> Result<Box<dyn Naming>, Failure> {
    naming::open_run(&naming::default_url().map_err(bad)?, run).map_err(bad)
}

fn bad(e: naming::OpenError) -> Failure {
    Failure::new(Class::Name, e.to_string())
}

/// A record for a name of this process, with what is the same for all its names; the rest is empty.
pub fn record(name: &str) -> Result<Record, Failure> {
    let metadata =
        naming::metadata_from_env().map_err(|e| Failure::new(Class::Arg, format!("{}: {e}", settings::METADATA)))?;
    Ok(Record { mpi: abi::get().family.which.to_string(), metadata, ..Record::new(name) })
}

/// The most couplings of this process that are recorded at a time. In a folder, each needs a descriptor until it is
/// freed.
const MAX_COUPLINGS: usize = 32;

/// How long the end of a job is held up for its names at most.
const BEFORE_END: Duration = Duration::from_secs(1);

/// A name that this process holds; dropping it gives the name back.
pub struct Held(Arc<Name>);

struct Name {
    name: String,
    is_coupling: bool,
    /// What was claimed, and where, so that it can be claimed again.
    record: Record,
    url: String,
    run: String,
    /// `None` once it has been given back.
    claim: Mutex<Option<Claim>>,
    /// Another process has taken the name; this is reported once.
    lost: AtomicBool,
}

impl Name {
    fn claim(&self) -> MutexGuard<'_, Option<Claim>> {
        self.claim.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Renews the lease.
    fn renew(&self) {
        if self.lost.load(Ordering::Relaxed) {
            return;
        }
        let mut claim = self.claim();
        let Some(old) = &*claim else { return };
        let Err(e) = old.renew() else { return };
        let again = match (&e, old.fd()) {
            // Whoever emptied the folder meant no name that is in use.
            (RenewError::Lost(_), Some(fd)) => self.claim_again().map(|new| (fd, new)),
            (RenewError::Lost(_), None) => Err(true),
            (RenewError::Io(..), _) => Err(false),
        };
        match again {
            Ok((fd, new)) => {
                base::log!(Info, "the record of '{}' in {} was removed; there is a new one", self.name, self.url);
                fork::forget(fd);
                new.fd().into_iter().for_each(fork::remember);
                *claim = Some(new);
            }
            Err(lost) => {
                base::log!(Error, "the lease of '{}' could not be renewed: {e}", self.name);
                self.lost.store(lost, Ordering::Relaxed);
            }
        }
    }

    /// Claims the name again in its folder; if not, whether another process has it.
    fn claim_again(&self) -> Result<Claim, bool> {
        let naming = naming::open_run(&self.url, &self.run).map_err(|_| false)?;
        let claimed = if self.is_coupling { naming.note(&self.record) } else { naming.claim(&self.record) };
        claimed.map_err(|e| {
            base::log!(Info, "claiming '{}' again: {e}", self.name);
            matches!(e, ClaimError::Held { .. })
        })
    }
}

impl Held {
    /// Renews it now, before the time at which that is done anyway.
    pub fn renew(&self) {
        self.0.renew();
    }
}

/// Gives the name back in the thread that drops it, never in the one that renews the leases: that may take a while.
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

/// All names that this process holds.
static HELD: Mutex<Vec<Weak<Name>>> = Mutex::new(Vec::new());

fn held() -> MutexGuard<'static, Vec<Weak<Name>>> {
    HELD.lock().unwrap_or_else(|e| e.into_inner())
}

/// Claims a name, and renews it until the result is dropped.
pub fn hold(node: &Node, naming: &dyn Naming, record: &Record) -> Result<Held, ClaimError> {
    Ok(keep(node, naming, naming.claim(record)?, record))
}

/// Records in the naming service, for people, that this job, as `name`, is joined with another one; `id` is the same on
/// both sides. A failure of this is no error: the jobs are joined anyway.
pub fn note_coupling(node: &Node, naming: &dyn Naming, name: &str, other: &str, id: u64, size: u32) -> Option<Held> {
    if !may_tell(&held()) {
        base::log!(Info, "'mpi-connect names' will not show this coupling: it shows {MAX_COUPLINGS} of a process");
        return None;
    }
    let noted = record(name).and_then(|record| {
        // Operators find the leader by it, also when the job has given its name back.
        let mut leader = Vec::new();
        node.contact().encode(&mut leader);
        let record = Record { coupled: Some(other.to_owned()), incarnation: id, size, leader, ..record };
        let claim = naming.note(&record).map_err(|e| Failure::new(Class::Name, e.to_string()))?;
        Ok(keep(node, naming, claim, &record))
    });
    noted.inspect_err(|e| base::log!(Info, "'mpi-connect names' will not show this coupling: {}", e.text)).ok()
}

/// Whether one more coupling may be recorded.
fn may_tell(held: &[Weak<Name>]) -> bool {
    held.iter().filter_map(Weak::upgrade).filter(|name| name.is_coupling).count() < MAX_COUPLINGS
}

/// Gives back all names of jobs that are still held, in MPI_Finalize: others may have them.
pub fn give_back_names() {
    give_back(|name| !name.is_coupling);
}

/// Gives back all that is still held, at the end of MPI_Finalize.
pub fn give_back_all() {
    give_back(|_| true);
}

fn give_back(which: impl Fn(&Name) -> bool) {
    let live: Vec<_> = held().iter().filter_map(Weak::upgrade).filter(|name| which(name)).collect();
    live.into_iter().map(Held).for_each(drop);
}

/// Gives the names back before the MPI below ends the job, so that others can have them. Couplings stay, and a job leaves a sign: they end
/// by the death, which tells it from an end as it should be. A naming server that does not answer holds that up for no longer than [`BEFORE_END`].
pub fn give_back_before_end() {
    if Node::running().is_none() || held().iter().all(|name| name.strong_count() == 0) {
        return;
    }
    let (done, given_back) = mpsc::channel();
    let work = move || {
        leave_sign();
        give_back_names();
        // Nobody may wait for it any more.
        let _ = done.send(());
    };
    if naming::quiet::spawn("mpi_connect end", work).is_ok() {
        let _ = given_back.recv_timeout(BEFORE_END);
    }
}

/// Records a coupling of the job with itself. It has one half, so nobody is shown it; who watches the job or its name sees that it was
/// never given back.
fn leave_sign() {
    let live: Vec<_> = held().iter().filter_map(Weak::upgrade).collect();
    let Some(job) = live.iter().find(|name| name.record.kind() == Kind::Job) else { return };
    let record =
        Record { coupled: Some(job.name.clone()), incarnation: u64::from_le_bytes(random()), ..job.record.clone() };
    let naming = naming::open_run(&job.url, &job.run).map_err(|e| e.to_string());
    match naming.and_then(|naming| naming.note(&record).map_err(|e| e.to_string())) {
        Ok(sign) => std::mem::forget(sign),
        Err(e) => base::log!(Info, "who watches '{}' will not see that it is lost: {e}", job.name),
    }
}

fn keep(node: &Node, naming: &dyn Naming, claim: Claim, record: &Record) -> Held {
    if let Some(fd) = claim.fd() {
        fork::remember(fd);
    }
    let (claim, lost) = (Mutex::new(Some(claim)), AtomicBool::new(false));
    let name = Arc::new(Name {
        name: record.name.clone(),
        is_coupling: record.coupled.is_some(),
        record: record.clone(),
        url: naming.url(),
        run: naming.run().to_owned(),
        claim,
        lost,
    });
    let mut held = held();
    held.retain(|other| other.strong_count() > 0);
    held.push(Arc::downgrade(&name));
    node.every(naming::RENEW_EVERY, renew);
    Held(name)
}

/// Renews the leases. Called by the node's background thread.
fn renew() {
    let live: Vec<_> = held().iter().filter_map(Weak::upgrade).collect();
    live.iter().for_each(|name| name.renew());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn couplings_take_few_descriptors() {
        let name = |is_coupling| {
            let (claim, lost) = (Mutex::new(None), AtomicBool::new(false));
            let (record, url, run) = (Record::new("air"), String::new(), String::new());
            Arc::new(Name { name: "air".into(), is_coupling, record, url, run, claim, lost })
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
