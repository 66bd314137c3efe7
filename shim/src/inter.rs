//! The live inter-communicators, by the handle of their shadow.
//!
//! The shadow is an intra-communicator of the MPI below over the local group. Rank, size, group, names, attributes and
//! error handlers work on it natively. Invariants: a shadow is in the table from before the program gets it until the
//! program frees it; an [`Inter`] lives on while requests use it.
//!
//! Calls that send and receive read what they need of an inter-communicator from a cache without a lock ([`known`]). An
//! operation holds a reference to its inter-communicator. It takes a spare one under the node's lock, so that no
//! reference is counted for each message.

use crate::abi::{self, Abi};
use crate::conn::claim::Held;
use crate::counts::Counts;
use crate::error::{Place, copy_errhandler};
use crate::failure::{Class, Failure};
use crate::forward::{self as pmpi, Handle};
use crate::group::NativeGroup;
use crate::handle_cache::{ByHandle, HandleCache};
use crate::locked::Locked;
use crate::process::node;
use crate::shadow::{self, Shadow};
use crate::wait::wait_until;
use node::{Contacts, ContextId, Core, InterId, Node, Representation};
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, OnceLock, RwLock, RwLockWriteGuard};

/// The job on the other side.
#[derive(Clone, Debug)]
pub struct Remote {
    pub name: String,
    pub members: Members,
    /// The other job's representation, if it is not ours: then data that comes from it is converted.
    pub foreign: Option<Representation>,
    /// The members as a group of the MPI below, if they belong to this very job.
    pub here: Option<Arc<NativeGroup>>,
}

impl Remote {
    pub fn size(&self) -> u32 {
        self.members.size()
    }
}

/// A process number: 16 bytes of a hash.
pub type Process = [u8; 16];

/// The members of the other side, by rank. Their contact records are those that the session has.
#[derive(Clone, Debug)]
pub struct Members {
    contacts: Contacts,
    /// Which ranks of the group these are; `None`: all, in order.
    ranks: Option<Arc<[u32]>>,
}

impl Members {
    pub fn all(contacts: Contacts) -> Members {
        Members { contacts, ranks: None }
    }

    fn size(&self) -> u32 {
        self.ranks.as_ref().map_or(self.contacts.len(), |ranks| ranks.len() as u32)
    }

    /// Those of these ranks.
    pub fn part(&self, ranks: &[u32]) -> Members {
        let of = |rank: &u32| self.ranks.as_ref().map_or(*rank, |ranks| ranks[*rank as usize]);
        Members { contacts: self.contacts.clone(), ranks: Some(ranks.iter().map(of).collect()) }
    }

    /// Their process numbers, in order of rank, if these are all the records of the group that they are of. `None`: they are not.
    fn processes(&self, contacts: &Contacts) -> Option<Vec<Process>> {
        if contacts.root().is_some() {
            return None;
        }
        let all: Vec<Process> = contacts.processes().collect();
        match &self.ranks {
            None => Some(all),
            Some(ranks) => ranks.iter().map(|rank| all.get(*rank as usize).copied()).collect(),
        }
    }
}

/// One inter-communicator.
pub struct Inter {
    pub shadow: Handle,
    pub id: InterId,
    /// The context, the same on both sides.
    context: ContextId,
    /// How many inter-communicators were made from this one.
    children: AtomicU64,
    /// The program has given it a name, which the shadow has.
    named: AtomicBool,
    /// Something of the program's has been put on the shadow.
    altered: AtomicBool,
    /// The shadow, if it may serve another inter-communicator afterwards.
    lent: Mutex<Option<Shadow>>,
    pub remote: Remote,
    /// The smaller of both sides' MPI_TAG_UB. Boxed: the program gets its address as an attribute.
    pub tag_ub: Box<c_int>,
    twin: OnceLock<Twin>,
    /// The thread that is freeing the shadow; 0: none.
    ending: AtomicUsize,
    /// The error handler that the shadow had when the program freed it.
    orphaned: OnceLock<Handle>,
    /// The coupling's record in the naming service, on the leader. It is shared with the inter-communicators made from
    /// this one.
    coupling: OnceLock<Arc<Held>>,
    /// The counts of its partitioned operations.
    pub partitioned: Counts,
    spare: Locked<Spare>,
}

/// The MPI's own inter-communicator of the same processes, if both sides are of one job: for the calls that this
/// library does not serve.
struct Twin {
    comm: Handle,
    /// The request of a nonblocking call that makes the twin, and the null request once it has completed.
    late: Option<Mutex<Handle>>,
}

/// References to an inter-communicator that completed operations have given back, for the next ones.
#[derive(Default)]
struct Spare {
    /// How many: each is counted in the `Arc`, and nobody has it.
    references: usize,
    /// The inter-communicator was removed, so no operation will come.
    removed: bool,
}

/// The most spare references that an inter-communicator keeps: requests of the general path give back more than they take.
const MOST_SPARE: usize = 256;

impl Inter {
    pub fn new(shadow: Handle, id: InterId, context: ContextId, remote: Remote, tag_ub: c_int) -> Inter {
        Inter {
            shadow,
            id,
            context,
            children: AtomicU64::new(0),
            named: AtomicBool::new(false),
            altered: AtomicBool::new(false),
            lent: Mutex::default(),
            remote,
            tag_ub: Box::new(tag_ub),
            twin: OnceLock::new(),
            ending: AtomicUsize::new(0),
            orphaned: OnceLock::new(),
            coupling: OnceLock::new(),
            partitioned: Counts::default(),
            spare: Locked::new(Spare::default()),
        }
    }

    /// The words of this inter-communicator in the cache: see [`known`].
    fn words(self: &Arc<Inter>) -> [u64; 4] {
        let foreign = if self.remote.foreign.is_some() { FOREIGN } else { 0 };
        let calls_itself = if abi::get().family.calls_itself { CALLS_ITSELF } else { 0 };
        [
            self.id.to_bits(),
            u64::from(*self.tag_ub as u32) | u64::from(self.remote.size()) << 32,
            foreign | calls_itself,
            Arc::as_ptr(self) as u64,
        ]
    }

    /// The process numbers of the members of the other side, in order of rank. Of a large job they are asked for, once.
    pub fn remote_processes(&self) -> Result<Vec<Process>, Failure> {
        let members = &self.remote.members;
        if let Some(processes) = members.processes(&members.contacts) {
            return Ok(processes);
        }
        let all = wait_until(node()?, None, |core| core.all_records(self.id));
        let all = all.and_then(Result::ok).and_then(|all| members.processes(&all));
        all.ok_or_else(|| {
            let text = format!("nobody is left who knows all processes of '{}'", self.remote.name);
            Failure::new(Class::PeerGone, text)
        })
    }

    /// Gives back the reference of an operation that has completed. A reference that is returned may be the last one,
    /// so the caller has to drop it without the lock.
    #[inline(always)]
    #[must_use]
    pub fn let_go(self: Arc<Inter>, core: &mut Core) -> Option<Arc<Inter>> {
        let is_kept = self.spare.with(core, |_, spare| {
            let keeps = !spare.removed && spare.references < MOST_SPARE;
            spare.references += usize::from(keeps);
            keeps
        });
        if is_kept {
            // It is counted as a spare one, and stays.
            std::mem::forget(self);
            return None;
        }
        Some(self)
    }

    /// Keeps the coupling's record until this inter-communicator, and all that were made from it, are freed.
    pub fn set_coupling(&self, told: Arc<Held>) {
        let _ = self.coupling.set(told);
    }

    /// Sets the MPI's own inter-communicator of the same processes, which is freed with this one.
    pub fn set_twin(&self, comm: Handle) {
        let _ = self.twin.set(Twin { comm, late: None });
    }

    /// As [`Inter::set_twin`], for a twin that exists when this request of the MPI below has completed.
    pub fn set_late_twin(&self, comm: Handle, request: Handle) {
        let _ = self.twin.set(Twin { comm, late: Some(Mutex::new(request)) });
    }

    /// Whether the twin is made by a nonblocking call. The answer is the same on all processes, at any time.
    pub fn is_twin_late(&self) -> bool {
        self.twin.get().is_some_and(|twin| twin.late.is_some())
    }

    /// Says that this thread is about to free the shadow, or that freeing has failed. The program's delete callbacks in
    /// this thread may still use the inter-communicator. Other threads may already get the same handle for a
    /// communicator of the MPI below.
    pub fn set_ending(self: &Arc<Inter>, ending: bool) {
        let _live = live();
        if ending {
            KNOWN.forget(self.shadow)
        } else {
            KNOWN.put(self.shadow, self.words())
        }
        self.ending.store(if ending { this_thread() } else { 0 }, Ordering::Relaxed);
    }

    /// The twin for a call of the program. It gets the error handler that the shadow has now.
    pub fn twin_for_call(&self) -> Option<Handle> {
        let twin = self.twin()?;
        copy_errhandler(self.shadow, twin);
        Some(twin)
    }

    /// The twin. If it is being made, this waits: all processes of both sides have begun to make it, or will begin.
    pub fn twin(&self) -> Option<Handle> {
        let twin = self.twin.get()?;
        if let Some(late) = &twin.late {
            let mut request = late.lock().unwrap_or_else(|e| e.into_inner());
            let abi = abi::get();
            if *request & abi.mask != abi.request_null {
                // SAFETY: our own request, ended once; the status is ignored.
                unsafe { pmpi::wait(&mut *request, abi.status_ignore as *mut c_void) };
                *request = abi.request_null;
            }
        }
        Some(twin.comm)
    }

    /// The context of the next inter-communicator that is made from this one. Each collective call that makes one asks
    /// for it first, so that all processes count alike.
    pub fn next_child(&self) -> ContextId {
        self.context.child(self.children.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// How many were made from this one, of its context.
    pub fn lineage(&self) -> (ContextId, u64) {
        (self.context, self.children.load(Ordering::Relaxed))
    }

    /// The same, with as many made from it before.
    pub fn with_children(self, children: u64) -> Inter {
        self.children.store(children, Ordering::Relaxed);
        self
    }

    /// The program gives it a name.
    pub fn set_named(&self) {
        self.named.store(true, Ordering::Relaxed);
        self.set_altered();
    }

    /// Something that goes with the inter-communicator is put on the shadow: an attribute, a hint, a name.
    pub fn set_altered(&self) {
        self.altered.store(true, Ordering::Relaxed);
    }

    /// The same, whose shadow may serve another one afterwards.
    pub fn with_shadow(mut self, shadow: Shadow) -> Inter {
        self.lent = Mutex::new(Some(shadow));
        self
    }

    /// The shadow, if it may serve another one now that this one is freed. Otherwise it is to be freed.
    pub fn returned_shadow(&self) -> Option<Shadow> {
        let shadow = self.lent.lock().unwrap_or_else(|e| e.into_inner()).take()?;
        if self.altered.load(Ordering::Relaxed) || !shadow::sees_attributes() {
            shadow.forget();
            return None;
        }
        Some(shadow)
    }

    /// Whether the program has: a name that an MPI invents does not count.
    pub fn is_named(&self) -> bool {
        self.named.load(Ordering::Relaxed)
    }

    /// An inter-communicator made from this one. `rank` is the rank of this process in its local group, and `members`
    /// are the ranks of its remote group in this one's.
    pub fn derive(&self, node: &Node, shadow: Handle, context: ContextId, rank: u32, members: &[u32]) -> Inter {
        let id = node.open_child(self.id, context, rank, members);
        let remote = Remote {
            name: self.remote.name.clone(),
            members: self.remote.members.part(members),
            foreign: self.remote.foreign,
            here: self.remote.here.as_ref().map(|here| Arc::new(here.part(members))),
        };
        let child = Inter::new(shadow, id, context, remote, *self.tag_ub);
        if let Some(told) = self.coupling.get() {
            child.set_coupling(told.clone());
        }
        child
    }

    /// Where failures of its operations are raised. This works also after it was freed.
    pub fn errors(&self) -> Place {
        self.orphaned.get().map_or(Place::Comm(self.shadow), |handler| Place::Handler(*handler))
    }

    /// Says that the program has freed it. From now on, its requests raise failures by the error handler that it had.
    pub fn orphan(&self, handler: Handle) {
        let _ = self.orphaned.set(handler);
    }
}

impl Drop for Inter {
    fn drop(&mut self) {
        if let Ok(node) = Node::get() {
            node.close(self.id);
        }
        if let Some(handler) = self.orphaned.get_mut() {
            // SAFETY: our own reference, given up once.
            unsafe { pmpi::errhandler_free(handler) };
        }
    }
}

static LIVE: LazyLock<RwLock<ByHandle<Arc<Inter>>>> = LazyLock::new(Default::default);

fn live() -> RwLockWriteGuard<'static, ByHandle<Arc<Inter>>> {
    LIVE.write().unwrap_or_else(|e| e.into_inner())
}

/// A cache of the live inter-communicators that are not being freed.
static KNOWN: HandleCache<4> = HandleCache::new();

/// Flags in the third word: data of the other job is converted; the MPI below calls itself by public names.
const FOREIGN: u64 = 1;
const CALLS_ITSELF: u64 = 2;

/// How many inter-communicators were removed. Changed under the node's lock.
static REMOVED: AtomicUsize = AtomicUsize::new(0);

/// What the calls that send and receive need of an inter-communicator.
#[derive(Clone, Copy)]
pub struct InterView {
    pub id: InterId,
    pub remote_size: u32,
    pub tag_ub: c_int,
    /// Whether data of the other job is converted.
    pub foreign: bool,
    pub place: InterRef,
}

/// A pointer to the inter-communicator, which is valid if [`InterRef::is_there`] says so under the node's lock.
#[derive(Clone, Copy)]
pub struct InterRef {
    at: *const Inter,
    removed: usize,
}

/// Looks an inter-communicator up in the cache. `None`: it is none of ours, or [`find`] has to look for it.
#[inline(always)]
pub fn known(abi: &Abi, comm: usize) -> Option<InterView> {
    let removed = REMOVED.load(Ordering::Acquire);
    let [id, numbers, flags, at] = KNOWN.get(comm as u64 & abi.mask)?;
    if flags & CALLS_ITSELF != 0 && is_below() {
        return None;
    }
    Some(InterView {
        id: InterId::from_bits(id),
        remote_size: (numbers >> 32) as u32,
        tag_ub: numbers as c_int,
        foreign: flags & FOREIGN != 0,
        place: InterRef { at: at as *const Inter, removed },
    })
}

/// Not inlined: only LAM needs it, and no other MPI is to pay for the access to a thread-local variable.
#[inline(never)]
fn is_below() -> bool {
    BELOW.get()
}

impl InterRef {
    /// Whether no inter-communicator was removed since. This stays so while the lock is held.
    #[inline(always)]
    pub fn is_there(self, _core: &Core) -> bool {
        REMOVED.load(Ordering::Relaxed) == self.removed
    }

    /// A reference for an operation. `None`: the inter-communicator may have been removed.
    #[inline(always)]
    pub fn hold(self, core: &mut Core) -> Option<Arc<Inter>> {
        if !self.is_there(core) {
            return None;
        }
        // SAFETY: it was in the table when `removed` was read, and was not removed since: `remove` counts under the
        // node's lock, which this thread has, and holds a reference until then.
        let inter = unsafe { &*self.at };
        let has_spare = inter.spare.with(core, |_, spare| {
            let has = spare.references > 0;
            spare.references -= usize::from(has);
            has
        });
        // SAFETY: as above; every inter-communicator in the cache lies in an `Arc`, which counts a spare reference as one.
        unsafe {
            if !has_spare {
                Arc::increment_strong_count(self.at);
            }
            Some(Arc::from_raw(self.at))
        }
    }
}

/// The number of live shadows by a hash of their handles. Zero says in a few instructions that a handle is not ours.
/// The generated entries read this table themselves.
pub static FILTER: [AtomicU16; 1 << (u32::BITS - SHIFT)] = [const { AtomicU16::new(0) }; 1 << (u32::BITS - SHIFT)];

/// The factor and the shift of that hash. It uses the low half of a handle, in which handles differ in every ABI.
pub const SPREAD: i32 = 0x9e37_79b9_u32 as i32;
pub const SHIFT: u32 = 20;

#[inline(always)]
fn hash(handle: Handle) -> usize {
    ((handle as u32).wrapping_mul(SPREAD as u32) >> SHIFT) as usize
}

/// Whether this may be a handle of ours; false is certain. Called first of all for every communicator of the program.
///
/// # Safety
/// None needed; the mark functions share one form.
#[inline(always)]
pub unsafe fn maybe(comm: usize) -> bool {
    FILTER[hash(comm as u64)].load(Ordering::Relaxed) != 0
}

/// As [`maybe`], for a handle in memory.
///
/// # Safety
/// `at` is null or the address of a handle.
#[inline(always)]
pub unsafe fn maybe_at(at: usize) -> bool {
    // SAFETY: the caller's promise.
    at != 0 && unsafe { maybe((at as *const u32).read() as usize) }
}

/// The inter-communicator with this handle.
pub fn find(comm: u64) -> Option<Arc<Inter>> {
    let handle = comm & abi::known()?.mask;
    if BELOW.get() {
        return None;
    }
    let live = LIVE.read().unwrap_or_else(|e| e.into_inner());
    let found = live.get(&handle)?;
    match found.ending.load(Ordering::Relaxed) {
        // Another one has taken its place since.
        0 => KNOWN.put_back(handle, || found.words()),
        ending if ending != this_thread() => return None,
        _ => {}
    }
    Some(found.clone())
}

/// A number that no other live thread has.
fn this_thread() -> usize {
    BELOW.with(|own| std::ptr::from_ref(own) as usize)
}

thread_local! {
    static BELOW: Cell<bool> = const { Cell::new(false) };
}

/// Runs the library's own calls on shadows. If the MPI below calls itself by public names (LAM), these names mean the
/// shadows meanwhile. Then callbacks of the program during these calls cannot use the inter-communicators.
pub fn below<T>(calls: impl FnOnce() -> T) -> T {
    let before = BELOW.replace(abi::get().family.calls_itself);
    let out = calls();
    BELOW.set(before);
    out
}

/// Puts an inter-communicator into the table.
pub fn insert(inter: Inter) {
    let handle = inter.shadow;
    let inter = Arc::new(inter);
    let mut live = live();
    KNOWN.put(handle, inter.words());
    // The MPI below may give out a freed handle again before `remove` was called for its last owner.
    let before = live.insert(handle, inter);
    drop(live);
    if before.is_none() {
        FILTER[hash(handle)].fetch_add(1, Ordering::Relaxed);
    }
}

/// All that are live.
pub fn all() -> Vec<Arc<Inter>> {
    LIVE.read().unwrap_or_else(|e| e.into_inner()).values().cloned().collect()
}

/// Waits for all twins that are being made: nothing may be pending in MPI_Finalize.
pub fn settle_twins() {
    for inter in &all() {
        inter.twin();
    }
}

/// Takes this inter-communicator out of the table, but not a later one with the same handle.
pub fn remove(inter: &Arc<Inter>) {
    let mut live = live();
    if live.get(&inter.shadow).is_some_and(|found| Arc::ptr_eq(found, inter)) {
        live.remove(&inter.shadow);
        KNOWN.forget(inter.shadow);
        FILTER[hash(inter.shadow)].fetch_sub(1, Ordering::Relaxed);
    }
    drop(live);
    // A forked child has no node, and starts no operations.
    if let Ok(node) = node() {
        let unused = node.with(|core| {
            REMOVED.fetch_add(1, Ordering::Release);
            inter
                .spare
                .with(core, |_, spare| std::mem::replace(spare, Spare { references: 0, removed: true }).references)
        });
        // SAFETY: it lies in an `Arc`, of which the caller has a reference; each spare one was counted, and nobody has it.
        (0..unused).for_each(|_| unsafe { Arc::decrement_strong_count(Arc::as_ptr(inter)) });
    }
}
