//! The live inter-communicators, by the handle of their carrier.
//!
//! The carrier is an intra-communicator of the MPI below over the local group: rank, size, group, names, attributes
//! and error handlers work on it natively. Invariant: a carrier is in the table from before the program gets it until
//! the program frees it; an [`Inter`] lives on while requests use it.
//!
//! Calls that send and receive know what they need of it from a copy that is read without a lock ([`known`]). An
//! operation must keep its inter-communicator; it does so by a spare reference, under the node's lock, so that nothing is
//! counted from one message to the next.

use crate::abi::{self, Abi};
use crate::conn::claim::Held;
use crate::counts::Counts;
use crate::error::{Place, copy_errhandler};
use crate::facts::{ByHandle, Facts};
use crate::forward::{self as pmpi, Handle};
use crate::group::NativeGroup;
use crate::locked::Locked;
use crate::process::node;
use node::{ContextId, Core, InterId, Node, Representation};
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicU16, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, OnceLock, RwLock, RwLockWriteGuard};

/// The job on the other side.
#[derive(Clone, Debug)]
pub struct Remote {
    pub name: String,
    /// The members' process numbers, in order of rank.
    pub members: Arc<[Process]>,
    /// How it lays out data, if otherwise than we do: then what comes from it is converted.
    pub foreign: Option<Representation>,
    /// The same as the MPI below has it, where they are of this very job.
    pub here: Option<Arc<NativeGroup>>,
}

impl Remote {
    pub fn size(&self) -> u32 {
        self.members.len() as u32
    }
}

/// What tells a process of any job from all others.
pub type Process = [u8; 16];

/// One inter-communicator.
pub struct Inter {
    pub carrier: Handle,
    pub id: InterId,
    /// Its name on both sides, and how many have been made from it.
    context: ContextId,
    children: AtomicU64,
    pub remote: Remote,
    /// The smaller of both sides' MPI_TAG_UB. Boxed: the program gets its address as an attribute.
    pub tag_ub: Box<c_int>,
    twin: OnceLock<Twin>,
    /// The thread that is freeing the carrier, if any.
    ending: AtomicUsize,
    /// The error handler that the carrier had when the program freed it.
    orphaned: OnceLock<Handle>,
    /// What tells others of this coupling, on the leader; shared with those that are made from it.
    coupling: OnceLock<Arc<Held>>,
    /// Partitioned operations that were made.
    pub partitioned: Counts,
    spare: Locked<Spare>,
}

/// Within one job: what the MPI below has made of the same processes, for the calls that are not ours.
struct Twin {
    comm: Handle,
    /// Of one that a nonblocking call has begun: its request, null once that is over.
    late: Option<Mutex<Handle>>,
}

/// References to an inter-communicator of operations that are over, for those to come.
#[derive(Default)]
struct Spare {
    references: Vec<Arc<Inter>>,
    /// There are none to come.
    removed: bool,
}

const MOST_SPARE: usize = 256;

impl Inter {
    pub fn new(carrier: Handle, id: InterId, context: ContextId, remote: Remote, tag_ub: c_int) -> Inter {
        Inter {
            carrier,
            id,
            context,
            children: AtomicU64::new(0),
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

    /// What [`known`] tells of it.
    fn words(&self) -> [u64; 4] {
        let foreign = if self.remote.foreign.is_some() { FOREIGN } else { 0 };
        let calls_itself = if abi::get().family.calls_itself { CALLS_ITSELF } else { 0 };
        [
            self.id.to_bits(),
            u64::from(*self.tag_ub as u32) | u64::from(self.remote.size()) << 32,
            foreign | calls_itself,
            std::ptr::from_ref(self) as u64,
        ]
    }

    /// An operation is over that had this reference. One that is given back may be the last: it is dropped without the
    /// lock.
    #[inline(always)]
    #[must_use]
    pub fn let_go(self: Arc<Inter>, core: &mut Core) -> Option<Arc<Inter>> {
        // SAFETY: the reference is in here itself, or given back.
        let spare = unsafe { &(*Arc::as_ptr(&self)).spare };
        spare.with(core, |_, spare| {
            if spare.removed || spare.references.len() == MOST_SPARE {
                return Some(self);
            }
            spare.references.push(self);
            None
        })
    }

    /// Others are told of this coupling until it, and what was made from it, is freed.
    pub fn set_coupling(&self, told: Arc<Held>) {
        let _ = self.coupling.set(told);
    }

    /// Gives it the MPI's own inter-communicator of the same processes, which ends with it.
    pub fn set_twin(&self, comm: Handle) {
        let _ = self.twin.set(Twin { comm, late: None });
    }

    /// The same for one that is there when this request of the MPI below is over.
    pub fn set_late_twin(&self, comm: Handle, request: Handle) {
        let _ = self.twin.set(Twin { comm, late: Some(Mutex::new(request)) });
    }

    /// Whether the twin came by a nonblocking call: alike on all processes, at any time.
    pub fn is_twin_late(&self) -> bool {
        self.twin.get().is_some_and(|twin| twin.late.is_some())
    }

    /// This thread is about to free the carrier, or has not done so after all. The program's callbacks in it may still use
    /// the inter-communicator; other threads may already be given the handle anew, for a communicator of the MPI's.
    pub fn set_ending(&self, ending: bool) {
        let _live = live();
        if ending {
            KNOWN.forget(self.carrier)
        } else {
            KNOWN.put(self.carrier, self.words())
        }
        self.ending.store(if ending { this_thread() } else { 0 }, Ordering::Relaxed);
    }

    /// The twin, for a call of the program's that goes to it: with the error handler that is set now.
    pub fn twin_for_call(&self) -> Option<Handle> {
        let twin = self.twin()?;
        copy_errhandler(self.carrier, twin);
        Some(twin)
    }

    /// Waits for one that is under way: all processes of both sides have begun to make it, or will.
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

    /// The name of the next one that is made from this. Taken at once in every collective call that makes one, so that
    /// all processes count alike.
    pub fn next_child(&self) -> ContextId {
        self.context.child(self.children.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// One made from this: `rank` is ours in its local group, `members` are its remote ones by their ranks in this.
    pub fn derive(&self, node: &Node, carrier: Handle, context: ContextId, rank: u32, members: &[u32]) -> Inter {
        let id = node.open_child(self.id, context, rank, members);
        let remote = Remote {
            name: self.remote.name.clone(),
            members: members.iter().map(|rank| self.remote.members[*rank as usize]).collect(),
            foreign: self.remote.foreign,
            here: self.remote.here.as_ref().map(|here| Arc::new(here.part(members))),
        };
        let child = Inter::new(carrier, id, context, remote, *self.tag_ub);
        if let Some(told) = self.coupling.get() {
            child.set_coupling(told.clone());
        }
        child
    }

    /// Where failures of its operations are raised, also after it was freed.
    pub fn errors(&self) -> Place {
        self.orphaned.get().map_or(Place::Comm(self.carrier), |handler| Place::Handler(*handler))
    }

    /// The program has freed it: from now on requests raise their failures by the error handler that it had.
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

/// Those of them that nobody is freeing.
static KNOWN: Facts<4> = Facts::new();

/// In the third word: what comes from there is converted; the MPI below calls itself by public names.
const FOREIGN: u64 = 1;
const CALLS_ITSELF: u64 = 2;

/// How many have been removed. Changed under the node's lock.
static REMOVED: AtomicUsize = AtomicUsize::new(0);

/// What the calls that send and receive need of an inter-communicator.
#[derive(Clone, Copy)]
pub struct Known {
    pub id: InterId,
    pub remote_size: u32,
    pub tag_ub: c_int,
    /// What comes from there is converted.
    pub foreign: bool,
    pub place: Whereabouts,
}

/// The inter-communicator itself, for whoever finds under the node's lock that it is still there.
#[derive(Clone, Copy)]
pub struct Whereabouts {
    at: *const Inter,
    removed: usize,
}

/// `None`: none of ours, or to be looked for by [`find`].
#[inline(always)]
pub fn known(abi: &Abi, comm: usize) -> Option<Known> {
    let removed = REMOVED.load(Ordering::Acquire);
    let [id, numbers, flags, at] = KNOWN.get(comm as u64 & abi.mask)?;
    if flags & CALLS_ITSELF != 0 && is_below() {
        return None;
    }
    Some(Known {
        id: InterId::from_bits(id),
        remote_size: (numbers >> 32) as u32,
        tag_ub: numbers as c_int,
        foreign: flags & FOREIGN != 0,
        place: Whereabouts { at: at as *const Inter, removed },
    })
}

/// Only one family asks, and no other is to pay for the thread's own.
#[inline(never)]
fn is_below() -> bool {
    BELOW.get()
}

impl Whereabouts {
    /// Whether it is still there. While the lock is held it stays so.
    #[inline(always)]
    pub fn is_there(self, _core: &Core) -> bool {
        REMOVED.load(Ordering::Relaxed) == self.removed
    }

    /// A reference for an operation that is under way. `None`: it has gone.
    #[inline(always)]
    pub fn hold(self, core: &mut Core) -> Option<Arc<Inter>> {
        if !self.is_there(core) {
            return None;
        }
        // SAFETY: it was in the table when `removed` was read, and has not been removed since: that is told under the
        // node's lock, which we have, by somebody who has a reference until then.
        let inter = unsafe { &*self.at };
        let spare = inter.spare.with(core, |_, spare| spare.references.pop());
        // SAFETY: as above; it lies in an `Arc`, as all do that are known.
        Some(spare.unwrap_or_else(|| unsafe { one_more(self.at) }))
    }
}

/// # Safety
/// One that is alive, in an `Arc`.
#[cold]
unsafe fn one_more(inter: *const Inter) -> Arc<Inter> {
    // SAFETY: the caller's promise.
    unsafe {
        Arc::increment_strong_count(inter);
        Arc::from_raw(inter)
    }
}

/// How many live carriers have this hash: zero says "not ours" in a few instructions. The entries look here themselves.
pub static FILTER: [AtomicU16; 1 << (u32::BITS - SHIFT)] = [const { AtomicU16::new(0) }; 1 << (u32::BITS - SHIFT)];

/// A factor for the low half of a handle, in which handles differ whatever the ABI's width, and how far the product is
/// shifted then.
pub const SPREAD: i32 = 0x9e37_79b9_u32 as i32;
pub const SHIFT: u32 = 20;

#[inline(always)]
fn hash(handle: Handle) -> usize {
    ((handle as u32).wrapping_mul(SPREAD as u32) >> SHIFT) as usize
}

/// False: certainly none of ours. Called for native communicators of any program, before anything else.
///
/// # Safety
/// None needed; the mark functions share one form.
#[inline(always)]
pub unsafe fn maybe(comm: usize) -> bool {
    FILTER[hash(comm as u64)].load(Ordering::Relaxed) != 0
}

/// The same for a handle in memory.
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
    let found = LIVE.read().unwrap_or_else(|e| e.into_inner()).get(&handle).cloned()?;
    let ending = found.ending.load(Ordering::Relaxed);
    (ending == 0 || ending == this_thread()).then_some(found)
}

/// A number that no other live thread has.
fn this_thread() -> usize {
    BELOW.with(|own| std::ptr::from_ref(own) as usize)
}

thread_local! {
    static BELOW: Cell<bool> = const { Cell::new(false) };
}

/// Runs calls of our own on carriers, in which an MPI that calls itself by public names means the carriers. There,
/// callbacks of the program in the middle of them do not reach the inter-communicators.
pub fn below<T>(calls: impl FnOnce() -> T) -> T {
    let before = BELOW.replace(abi::get().family.calls_itself);
    let out = calls();
    BELOW.set(before);
    out
}

pub fn insert(inter: Inter) {
    let handle = inter.carrier;
    let inter = Arc::new(inter);
    let mut live = live();
    KNOWN.put(handle, inter.words());
    // The MPI below may give a freed handle out again before `remove` has been called for its last owner.
    let before = live.insert(handle, inter);
    drop(live);
    if before.is_none() {
        FILTER[hash(handle)].fetch_add(1, Ordering::Relaxed);
    }
}

/// Waits for all twins that are under way: MPI_Finalize wants nothing pending.
pub fn settle_twins() {
    let all: Vec<_> = LIVE.read().unwrap_or_else(|e| e.into_inner()).values().cloned().collect();
    for inter in &all {
        inter.twin();
    }
}

/// Takes this very inter-communicator out, and not a later one with the same handle.
pub fn remove(inter: &Arc<Inter>) {
    let mut live = live();
    if live.get(&inter.carrier).is_some_and(|found| Arc::ptr_eq(found, inter)) {
        live.remove(&inter.carrier);
        KNOWN.forget(inter.carrier);
        FILTER[hash(inter.carrier)].fetch_sub(1, Ordering::Relaxed);
    }
    drop(live);
    // In a forked child nobody has the lock, and nothing begins any more.
    if let Ok(node) = node() {
        let unused = node.with(|core| {
            REMOVED.fetch_add(1, Ordering::Release);
            inter.spare.with(core, |_, spare| std::mem::replace(spare, Spare { removed: true, ..Spare::default() }))
        });
        drop(unused);
    }
}
