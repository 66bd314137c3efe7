//! An open device and its objects, each ended when it is dropped, in the right order.
//!
//! Used by the files beside it. Invariants: an object keeps what it was made from; memory that is registered
//! stays mapped until it is registered no more.

use super::plugin::Plugin;
use base::rdma::{Done, Handle, LAST_RECEIVE, Limits, Port, Region, Route, SEND, Wanted, Work};
use nix::sys::mman::{MapFlags, MmapAdvise, ProtFlags, madvise, mmap_anonymous, munmap};
use std::collections::BTreeSet;
use std::ffi::{c_int, c_void};
use std::io;
use std::mem::MaybeUninit;
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, BorrowedFd, RawFd};
use std::ptr::{NonNull, null_mut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a queue pair that has failed may take to say that it takes no more receives, and how many looks it has at least.
const LAST_LIMIT: Duration = Duration::from_millis(50);
const LAST_LOOKS: u32 = 1000;

fn check(returned: c_int) -> io::Result<()> {
    if returned == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(-returned)) }
}

/// The name of a port's device.
pub(super) fn name(port: &Port) -> String {
    port.device.iter().take_while(|c| **c != 0).map(|c| *c as u8 as char).collect()
}

/// An open device, with its protection domain.
pub(super) struct Device {
    plugin: Plugin,
    device: Handle,
    domain: Handle,
    pub limits: Limits,
    events: Mutex<Events>,
}

/// What the device has told of its queue pairs.
#[derive(Default)]
struct Events {
    /// The addresses of those that take no more receives, and are not ended yet.
    last: BTreeSet<usize>,
    /// It does not tell that: known of a device once it has not.
    is_mute: bool,
    /// It does.
    tells: bool,
}

// SAFETY: libibverbs' objects may be used by any thread.
unsafe impl Send for Device {}
// SAFETY: as above.
unsafe impl Sync for Device {}

impl Device {
    pub(super) fn open(plugin: &Plugin, port: &Port) -> io::Result<Arc<Device>> {
        let (mut limits, mut device) = (Limits::default(), null_mut());
        // SAFETY: the name ends with a zero, and both can be written.
        check(unsafe { (plugin.open)(port.device.as_ptr(), &raw mut limits, &raw mut device) })?;
        let mut this = Device { plugin: plugin.clone(), device, domain: null_mut(), limits, events: Mutex::default() };
        // SAFETY: the device is open.
        check(unsafe { (plugin.domain)(device, &raw mut this.domain) })?;
        Ok(Arc::new(this))
    }

    /// A shared receive queue, to be ended by [`Device::drop_shared`].
    pub(super) fn shared(&self, receives: u32) -> io::Result<Handle> {
        let mut shared = null_mut();
        // SAFETY: the domain stands.
        check(unsafe { (self.plugin.shared)(self.domain, receives, &raw mut shared) })?;
        Ok(shared)
    }

    /// Ends a shared receive queue, which no queue pair uses any more.
    pub(super) fn drop_shared(&self, shared: Handle) {
        // SAFETY: whoever made it does this once.
        unsafe { (self.plugin.drop_shared)(shared) };
    }

    /// Posts a slot to be filled.
    pub(super) fn receive(
        &self,
        shared: Handle,
        id: u32,
        slot: *mut u8,
        len: usize,
        region: &Region,
    ) -> io::Result<()> {
        // SAFETY: the queue stands, and the slot is registered.
        check(unsafe { (self.plugin.receive)(shared, id.into(), slot as u64, len as u32, region.local) })
    }

    /// Takes the asynchronous events of the device.
    pub(super) fn take_events(&self) {
        let mut events = self.events();
        let mut of = null_mut();
        loop {
            // SAFETY: the device is open.
            match unsafe { (self.plugin.trouble)(self.device, &raw mut of) } {
                ..0 => return,
                LAST_RECEIVE => {
                    events.tells = true;
                    events.last.insert(of.addr());
                }
                event => base::log!(Debug, "an RDMA device reports its event {event}"),
            }
        }
    }

    fn events(&self) -> MutexGuard<'_, Events> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers memory of the program, for the other side to read, or with no access to be sent from.
    pub(super) fn lend(self: &Arc<Device>, bytes: &[u8], access: c_int) -> io::Result<Lent> {
        let region = self.register(bytes.as_ptr() as u64, bytes.len(), access)?;
        Ok(Lent { device: self.clone(), region })
    }

    pub(super) fn register(&self, address: u64, len: usize, access: c_int) -> io::Result<Region> {
        let mut region = Region { handle: null_mut(), local: 0, remote: 0 };
        // SAFETY: the kernel checks the addresses.
        check(unsafe { (self.plugin.register)(self.domain, address, len as u64, access, &raw mut region) })?;
        Ok(region)
    }

    fn unregister(&self, region: &Region) -> io::Result<()> {
        // SAFETY: whoever registers does this once.
        check(unsafe { (self.plugin.unregister)(region.handle) })
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: all that was made from them is gone; each is ended once, in this order.
        unsafe {
            if !self.domain.is_null() {
                (self.plugin.drop_domain)(self.domain);
            }
            (self.plugin.close)(self.device);
        }
    }
}

/// Memory of the program that is registered, until this is dropped.
pub(super) struct Lent {
    device: Arc<Device>,
    pub region: Region,
}

// SAFETY: as for the device.
unsafe impl Send for Lent {}

impl Drop for Lent {
    fn drop(&mut self) {
        let _ = self.device.unregister(&self.region);
    }
}

/// Memory of our own that the device may write. A child of fork does not get it, so that its pages are never copied away
/// from under the device.
pub(super) struct Memory {
    device: Arc<Device>,
    at: NonNull<c_void>,
    len: usize,
    pub region: Region,
}

// SAFETY: it is plain memory.
unsafe impl Send for Memory {}

impl Memory {
    pub(super) fn new(device: &Arc<Device>, len: usize, access: c_int) -> io::Result<Memory> {
        let size = NonZeroUsize::new(len).ok_or(io::ErrorKind::InvalidInput)?;
        // SAFETY: a new mapping.
        let at =
            unsafe { mmap_anonymous(None, size, ProtFlags::PROT_READ | ProtFlags::PROT_WRITE, MapFlags::MAP_PRIVATE) }?;
        // SAFETY: the mapping that was just made.
        let kept = unsafe { madvise(at, len, MmapAdvise::MADV_DONTFORK) };
        let made = kept.map_err(io::Error::from).and_then(|()| device.register(at.as_ptr() as u64, len, access));
        match made {
            Ok(region) => Ok(Memory { device: device.clone(), at, len, region }),
            Err(e) => {
                // SAFETY: as above; nobody uses it.
                let _ = unsafe { munmap(at, len) };
                Err(e)
            }
        }
    }

    /// The memory from this byte on.
    pub(super) fn at(&self, offset: usize) -> *mut u8 {
        debug_assert!(offset < self.len);
        self.at.as_ptr().cast::<u8>().wrapping_add(offset)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // What stays registered may be written to yet, so it stays mapped.
        if self.device.unregister(&self.region).is_ok() {
            // SAFETY: it was mapped with this length, and is registered no more.
            let _ = unsafe { munmap(self.at, self.len) };
        }
    }
}

/// A queue pair, with its completion queues and the descriptor that tells of completions.
pub(super) struct QueuePair {
    pub device: Arc<Device>,
    channel: Handle,
    fd: RawFd,
    sends: Handle,
    receives: Handle,
    pair: base::rdma::Pair,
}

// SAFETY: as for the device.
unsafe impl Send for QueuePair {}

/// How much a queue pair has room for.
pub(super) struct Sizes {
    /// Sends and reads under way.
    pub work: u32,
    /// Messages that came and were not taken.
    pub receives: u32,
    /// Bytes of inline sends.
    pub inline: u32,
}

/// Completions that are taken at a time.
pub(super) const AT_ONCE: usize = 16;

/// Memory for them, which costs nothing while there are none.
pub(super) struct Completions([MaybeUninit<Done>; AT_ONCE]);

impl Completions {
    pub(super) fn new() -> Completions {
        Completions([const { MaybeUninit::uninit() }; AT_ONCE])
    }
}

/// One of the completion queues.
#[derive(Clone, Copy)]
pub(super) enum Which {
    /// Of sends and reads.
    Sends,
    Receives,
}

impl QueuePair {
    /// At a port of the device; messages to it fill the slots of this shared receive queue.
    pub(super) fn new(device: &Arc<Device>, shared: Handle, port: u8, sizes: Sizes) -> io::Result<QueuePair> {
        let Sizes { work, receives, inline } = sizes;
        let none = base::rdma::Pair { handle: null_mut(), number: 0, inline: 0 };
        let nothing = null_mut();
        let device = device.clone();
        let mut this = QueuePair { device, channel: nothing, fd: -1, sends: nothing, receives: nothing, pair: none };
        let (handle, domain) = (this.device.device, this.device.domain);
        let table = this.device.plugin.clone();
        // SAFETY: each object is made from those that stand, and what is written can be.
        unsafe {
            check((table.channel)(handle, &raw mut this.fd, &raw mut this.channel))?;
            check((table.queue)(handle, work as c_int, this.channel, &raw mut this.sends))?;
            check((table.queue)(handle, receives as c_int, this.channel, &raw mut this.receives))?;
            let wanted = Wanted { sends: this.sends, receives: this.receives, shared, work, inline };
            check((table.pair)(domain, &raw const wanted, &raw mut this.pair))?;
            check((table.begin)(this.pair.handle, port))?;
        }
        Ok(this)
    }

    pub(super) fn number(&self) -> u32 {
        self.pair.number
    }

    /// The most bytes of an inline send.
    pub(super) fn inline(&self) -> usize {
        self.pair.inline as usize
    }

    pub(super) fn connect(&self, route: &Route) -> io::Result<()> {
        // SAFETY: the pair stands.
        check(unsafe { (self.device.plugin.connect)(self.pair.handle, route) })
    }

    /// Sends bytes that are taken at once.
    pub(super) fn send_inline(&self, id: u64, bytes: &[u8]) -> io::Result<()> {
        self.post(&Work {
            id,
            kind: SEND,
            inline: 1,
            address: bytes.as_ptr() as u64,
            len: bytes.len() as u32,
            key: 0,
            remote: 0,
            remote_key: 0,
        })
    }

    /// Posts work. What it names must be registered, and stay as it is until the work is done.
    pub(super) fn post(&self, work: &Work) -> io::Result<()> {
        // SAFETY: the pair stands; the device checks addresses by their keys.
        check(unsafe { (self.device.plugin.post)(self.pair.handle, work) })
    }

    /// Takes completions, some at a time.
    pub(super) fn poll<'a>(&self, which: Which, out: &'a mut Completions) -> io::Result<&'a [Done]> {
        let at = out.0.as_mut_ptr().cast::<Done>();
        // SAFETY: the queue stands, and `out` has this length.
        let n = unsafe { (self.device.plugin.poll)(self.queue(which), at, AT_ONCE as c_int) };
        let n = usize::try_from(n).map_err(|_| io::Error::other("the completion queue is broken"))?;
        // SAFETY: the plug-in has written this number of them.
        Ok(unsafe { std::slice::from_raw_parts(at, n.min(AT_ONCE)) })
    }

    /// The next completion makes the descriptor readable.
    pub(super) fn arm(&self, which: Which) -> io::Result<()> {
        // SAFETY: the queue stands.
        check(unsafe { (self.device.plugin.arm)(self.queue(which)) })
    }

    /// Takes what made the descriptor readable.
    pub(super) fn silence(&self) {
        // SAFETY: the channel stands. If there is more than one, the next call finds it.
        let _ = unsafe { (self.device.plugin.event)(self.channel) };
    }

    /// Ends it: all that is posted fails.
    pub(super) fn fail(&self) {
        // SAFETY: the pair stands. It may have failed already.
        unsafe { (self.device.plugin.fail)(self.pair.handle) };
    }

    /// Waits, after [`QueuePair::fail`], until it takes no more receives of the shared queue; all that it has taken has completed
    /// then. `None`: the device does not tell that. `Some(false)`: it has not, though it has told it of others.
    pub(super) fn has_taken_last(&self) -> Option<bool> {
        let (start, mut looks) = (Instant::now(), 0);
        loop {
            looks += 1;
            self.device.take_events();
            let mut events = self.device.events();
            if events.last.contains(&self.pair.handle.addr()) {
                return Some(true);
            }
            if events.is_mute {
                return None;
            }
            if looks >= LAST_LOOKS && start.elapsed() >= LAST_LIMIT {
                events.is_mute = !events.tells;
                return events.tells.then_some(false);
            }
            drop(events);
            std::thread::yield_now();
        }
    }

    fn queue(&self, which: Which) -> Handle {
        match which {
            Which::Sends => self.sends,
            Which::Receives => self.receives,
        }
    }
}

impl AsFd for QueuePair {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the channel has it as long as this lives.
        unsafe { BorrowedFd::borrow_raw(self.fd) }
    }
}

impl Drop for QueuePair {
    fn drop(&mut self) {
        let table = &self.device.plugin;
        // Its address may be another one's soon.
        self.device.take_events();
        self.device.events().last.remove(&self.pair.handle.addr());
        // SAFETY: each was made once and is ended once, in this order.
        unsafe {
            if !self.pair.handle.is_null() {
                (table.drop_pair)(self.pair.handle);
            }
            for queue in [self.receives, self.sends] {
                if !queue.is_null() {
                    (table.drop_queue)(queue);
                }
            }
            if !self.channel.is_null() {
                (table.drop_channel)(self.channel);
            }
        }
    }
}
