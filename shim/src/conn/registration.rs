//! Registrations: a handle of `MPI_Conn_register` stands for one.

use super::claim::Held;
use super::folder::HeldFolder;
use super::kept::Kept;
use crate::abi::Abi;
use crate::attr;
use crate::error::copy_errhandler;
use crate::failure::{Class, Failure};
use crate::forward::{self as pmpi, Handle};
use crate::inter::Process;
use base::ProcId;
use naming::Naming;
use node::{Contact, Contacts, Group, Node};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, OnceLock};

/// A registered name.
pub struct Registration {
    pub name: String,
    pub group: Group,
    /// What is kept of the user's communicator: joining runs on a copy, whatever the user does with theirs.
    pub kept: Kept,
    /// The user's communicator. Its error handler gets failures until the user frees it.
    user: Handle,
    user_stands: AtomicBool,
    /// On the leader only, which is rank 0.
    pub lead: Option<Lead>,
    /// By other job: the last number that the leaders gave to an inter-communicator.
    contexts: Mutex<BTreeMap<u64, u64>>,
}

/// What only the leader has.
pub struct Lead {
    pub naming: Box<dyn Naming>,
    /// The contact records of all members, and their process numbers.
    pub contacts: Contacts,
    pub members: HashSet<Process>,
    /// `None` once it has been released.
    held: Mutex<Option<Held>>,
    /// Held while a call looks for another job, since only one call may do that at a time.
    pub alone: Mutex<()>,
    /// Where its checkpoints are.
    pub images: HeldFolder,
}

impl Lead {
    pub fn new(naming: Box<dyn Naming>, contacts: Contacts, held: Held) -> Lead {
        let members = contacts.processes().collect();
        let (held, alone, images) = (Mutex::new(Some(held)), Mutex::default(), HeldFolder::default());
        Lead { naming, contacts, members, held, alone, images }
    }

    /// Gives the name back.
    pub fn release(&self) {
        self.held.lock().unwrap_or_else(|e| e.into_inner()).take();
    }

    /// Renews the name, which has to be there for whoever is to come.
    pub fn renew(&self) {
        if let Some(held) = &*self.held.lock().unwrap_or_else(|e| e.into_inner()) {
            held.renew();
        }
    }

    pub fn has_member(&self, contact: &Contact) -> bool {
        self.members.contains(&contact.process)
    }
}

impl Registration {
    /// What only the leader has, where this is the leader.
    pub fn lead(&self) -> Result<&Lead, Failure> {
        self.lead.as_ref().ok_or_else(|| Failure::new(Class::Intern, "this process is not the leader"))
    }

    pub fn new(name: String, group: Group, kept: Kept, user: Handle, lead: Option<Lead>) -> Registration {
        Registration { name, group, kept, user, user_stands: AtomicBool::new(true), lead, contexts: Mutex::default() }
    }

    pub fn me(&self) -> ProcId {
        ProcId { incarnation: self.group.incarnation, rank: self.group.rank }
    }

    /// The communicator on which failures are raised.
    pub fn comm(&self) -> Handle {
        if self.user_stands.load(Ordering::Relaxed) { self.user } else { self.kept.copy() }
    }

    /// The leaders have given this number to an inter-communicator with this job.
    pub fn note_context(&self, job: u64, number: u64) {
        let mut contexts = self.contexts.lock().unwrap_or_else(|e| e.into_inner());
        let last = contexts.entry(job).or_default();
        *last = number.max(*last);
    }

    /// By other job, the last numbers of these.
    pub fn contexts(&self) -> BTreeMap<u64, u64> {
        self.contexts.lock().unwrap_or_else(|e| e.into_inner()).clone()
    }

    /// Gives the user's error handler to a communicator.
    pub fn inherit_errhandler(&self, to: Handle) {
        copy_errhandler(self.comm(), to);
    }
}

// ------------------------------------------------------------------------------------------------------ the handles

#[derive(Default)]
struct Table {
    live: HashMap<c_int, Arc<Registration>>,
    last: c_int,
}

static TABLE: LazyLock<Mutex<Table>> = LazyLock::new(Mutex::default);

fn table() -> std::sync::MutexGuard<'static, Table> {
    TABLE.lock().unwrap_or_else(|e| e.into_inner())
}

/// A handle for a registration. No handle is given out twice, so that a removed one is recognised.
pub fn insert(registration: Registration) -> c_int {
    let user = registration.user;
    let handle = {
        let mut table = table();
        table.last += 1;
        let handle = table.last;
        table.live.insert(handle, Arc::new(registration));
        handle
    };
    watch(user);
    handle
}

pub fn find(handle: c_int) -> Result<Arc<Registration>, Failure> {
    let table = table();
    table.live.get(&handle).cloned().ok_or_else(|| {
        let what = if (1..=table.last).contains(&handle) {
            format!("handle {handle} has been removed by MPI_Conn_remove")
        } else {
            format!("handle {handle} was never given out: use what MPI_Conn_register gave")
        };
        Failure::new(Class::Arg, what)
    })
}

pub fn remove(handle: c_int) -> Option<Arc<Registration>> {
    table().live.remove(&handle)
}

/// Whether this process is a member of the group with this incarnation.
pub fn is_member(incarnation: u64) -> bool {
    table().live.values().any(|r| r.group.incarnation == incarnation)
}

/// The registration of the processes of `comm`, in its order of ranks, that makes checkpoints. All of these processes get the same
/// one.
pub fn that_makes_checkpoints(node: &Node, abi: &Abi, comm: Handle) -> Option<Arc<Registration>> {
    let mut all: Vec<_> = table().live.values().cloned().collect();
    all.sort_unstable_by_key(|registration| registration.group.incarnation);
    all.into_iter().find(|registration| {
        let mut result = 0;
        // SAFETY: live communicators, plain out-argument; the call is local.
        let code = unsafe { pmpi::comm_compare(comm, registration.kept.copy(), &mut result) };
        code == 0 && result == abi.congruent && node.with(|core| core.is_tracked(registration.me()))
    })
}

/// Takes out all registrations, in MPI_Finalize.
pub fn take_all() -> Vec<Arc<Registration>> {
    table().live.drain().map(|(_, r)| r).collect()
}

/// Watches whether the user frees the communicator. From then on, failures are raised on the library's own.
fn watch(user: Handle) {
    static KEYVAL: OnceLock<Option<c_int>> = OnceLock::new();
    unsafe extern "C" fn freed(comm: u64, _keyval: c_int, _value: *mut c_void, _extra: *mut c_void) -> c_int {
        let mask = crate::abi::get().mask;
        for registration in table().live.values().filter(|r| r.user == comm & mask) {
            if registration.user_stands.load(Ordering::Relaxed) {
                copy_errhandler(registration.user, registration.kept.copy());
                registration.user_stands.store(false, Ordering::Relaxed);
            }
        }
        0
    }
    let Some(keyval) = *KEYVAL.get_or_init(|| attr::comm_keyval(freed)) else { return };
    let (mut value, mut there) = (std::ptr::null_mut::<c_void>(), 0);
    // SAFETY: a live communicator, our keyval, plain out-arguments. Set once: setting again would call `freed`.
    unsafe {
        if pmpi::comm_get_attr(user, keyval, (&raw mut value).cast(), &mut there) == 0 && there == 0 {
            pmpi::comm_set_attr(user, keyval, std::ptr::null_mut());
        }
    }
}
