//! Completion of requests of ours, alone or mixed with native ones: Wait and Test, Waitall and Testall.
//!
//! A mixed array is split by the values of its handles. Testall consumes no native request while one of ours is
//! pending: it looks at ours first, then asks the MPI below, and then completes both.

use crate::abi::{self, Abi, Status};
use crate::error::{self, Place, raise};
use crate::failure::{Class, Failure};
use crate::forward as pmpi;
use crate::outcomes;
use crate::process::node;
use crate::request::{self, End, Ended, Request};
use crate::token::Live;
use crate::wait::{look, wait};
use node::images::{Call, Next};
use node::{Core, Node, outcomes_matter};
use std::ffi::{c_int, c_void};

type Answer = Option<c_int>;

#[cold]
pub(super) fn stale(call: &str) -> c_int {
    let text =
        format!("{call}: this request was completed or freed before, or never was one: use no copy of a request");
    raise(Place::world(), &Failure::new(Class::Request, text))
}

// ------------------------------------------------------------------------------------------------------- one request

/// Runs a call on the request at `at`, which the check has found to be a token.
pub(super) unsafe fn on_request(
    call: &str,
    at: usize,
    run: impl FnOnce(u64, &Request, &'static Node) -> c_int,
) -> Answer {
    // SAFETY: the program's request.
    let token = unsafe { abi::load_handle(at) };
    Some(match (node(), request::find(token)) {
        (Ok(node), Some(request)) => run(token, &request, node),
        (Ok(_), None) => stale(call),
        (Err(failure), _) => raise(Place::world(), &failure),
    })
}

/// Completes the shared request of sends that completed within their call, for which nothing has to be asked. False:
/// the request at `at` is another one.
#[inline(always)]
unsafe fn was_sent(at: usize, token: u64, status: usize) -> bool {
    let sent = request::is_sent(token);
    if sent {
        let abi = abi::get();
        // SAFETY: the program's request and status.
        unsafe {
            abi::store_handle(at, abi.request_null);
            abi.write_status(status, &abi.empty_status());
        }
    }
    sent
}

/// The result of a call on the request at `at`, which has ended.
#[inline(always)]
unsafe fn answer(call: &str, end: End, at: usize, status: usize) -> c_int {
    match end {
        End::Told | End::Not => 0,
        End::Stale => stale(call),
        End::Else(ended) => {
            // SAFETY: the program's request and status.
            unsafe { tell(abi::get(), at, status, &ended.status, ended.handle) };
            raise_of(&ended)
        }
    }
}

/// Gives the program the status and the handle of a request that has ended.
#[inline(always)]
unsafe fn tell(abi: &Abi, at: usize, place: usize, status: &Status, handle: u64) {
    // SAFETY: the program's request and status.
    unsafe {
        abi::store_handle(at, handle);
        abi.write_status(place, status);
    }
}

/// The result of a call on one request, after its failure was raised.
pub(super) fn raise_of(ended: &Ended) -> c_int {
    ended.failure().map_or(0, |(failure, place)| raise(place, failure))
}

pub unsafe fn Wait(at: usize, status: usize) -> Answer {
    // SAFETY: the program's request and status.
    unsafe {
        let token = abi::load_handle(at);
        if was_sent(at, token, status) {
            return Some(0);
        }
        let Some(node) = Node::running() else { return Some(no_node()) };
        let end = |core: &mut Core, live: &mut Live<Request>| {
            request::end(core, live, token, |found, handle| tell(abi::get(), at, status, found, handle)).over()
        };
        Some(answer(
            "MPI_Wait",
            wait(node, &|core| request::about(core, "MPI_Wait", [token]), |core| request::live(core, end)),
            at,
            status,
        ))
    }
}

pub unsafe fn Test(at: usize, flag: usize, status: usize) -> Answer {
    let flag = flag as *mut c_int;
    // SAFETY: the program's flag, request and status.
    unsafe {
        let token = abi::load_handle(at);
        if !outcomes_matter() && was_sent(at, token, status) {
            flag.write(1);
            return Some(0);
        }
        let Some(node) = Node::running() else { return Some(no_node()) };
        let end = |core: &mut Core, live: &mut Live<Request>| {
            request::end(core, live, token, |found, handle| tell(abi::get(), at, status, found, handle)).over()
        };
        let about = |core: &mut Core| request::about(core, "MPI_Test", [token]);
        let end = outcomes::look(node, Call::Test, &about, |core| request::live(core, end));
        flag.write(end.is_some().into());
        Some(end.map_or(0, |end| answer("MPI_Test", end, at, status)))
    }
}

/// The result of a call on a request in a forked child, which has no node.
#[cold]
fn no_node() -> c_int {
    node().map_or_else(|failure| raise(Place::world(), &failure), |_| 0)
}

// ------------------------------------------------------------------------------------------------------------ arrays

/// An array of requests, split into ours and native ones.
pub(super) struct Mixed {
    array: usize,
    pub(super) node: &'static Node,
    abi: &'static Abi,
    /// Our requests: index in the array, and token.
    pub(super) ours: Vec<(usize, u64)>,
    /// The native handles, as wide as the ABI has them, and their indices.
    pub(super) natives: Vec<u8>,
    pub(super) indices: Vec<usize>,
}

/// Runs a call on an array of requests in which the check has found a token.
pub(super) unsafe fn on_array(call: &str, count: usize, array: usize, run: impl FnOnce(Mixed) -> c_int) -> Answer {
    // SAFETY: the program's array of `count` requests.
    Some(match unsafe { Mixed::split(call, count, array) } {
        Ok(mixed) => run(mixed),
        Err(code) => code,
    })
}

/// The statuses of the native part, or MPI_STATUSES_IGNORE.
pub(super) struct NativeStatuses {
    bytes: Vec<u8>,
    ignored: bool,
}

impl NativeStatuses {
    pub(super) fn new(count: usize, statuses: usize) -> NativeStatuses {
        let abi = abi::get();
        let ignored = statuses == abi.statuses_ignore || statuses == 0;
        NativeStatuses { bytes: vec![0; if ignored { 0 } else { count * abi.family.status.size }], ignored }
    }

    pub(super) fn pointer(&mut self) -> *mut c_void {
        if self.ignored { abi::get().statuses_ignore as *mut c_void } else { self.bytes.as_mut_ptr().cast() }
    }

    /// Copies the status with index `from` to the program's array at index `to`.
    pub(super) unsafe fn copy(&self, from: usize, statuses: usize, to: usize) {
        if !self.ignored {
            let size = abi::get().family.status.size;
            let place = (statuses + to * size) as *mut u8;
            // SAFETY: `statuses` is the program's array, and long enough for its requests.
            unsafe { std::ptr::copy_nonoverlapping(self.bytes.as_ptr().add(from * size), place, size) };
        }
    }
}

/// Requests of ours, by index, that have ended, and for which something has to be done without the lock.
pub(super) type Unusual = Vec<(usize, Box<Ended>)>;

impl Mixed {
    unsafe fn split(call: &str, count: usize, array: usize) -> Result<Mixed, c_int> {
        let (width, count) = (abi::get().family.handle_bytes, count as c_int as usize);
        let node = node().map_err(|f| raise(Place::world(), &f))?;
        let ours = Vec::with_capacity(count);
        let mut mixed = Mixed { array, node, abi: abi::get(), ours, natives: Vec::new(), indices: Vec::new() };
        for i in 0..count {
            // SAFETY: the program's array of `count` requests.
            let handle = unsafe { abi::load_handle(array + i * width) };
            // SAFETY: looks at the value only.
            if unsafe { request::is_token(handle as usize) } {
                mixed.ours.push((i, handle));
            } else {
                mixed.natives.extend_from_slice(&handle.to_le_bytes()[..width]);
                mixed.indices.push(i);
            }
        }
        let live = mixed.with(|_, live| mixed.ours.iter().all(|(_, token)| live.has(*token)));
        if live { Ok(mixed) } else { Err(stale(call)) }
    }

    /// The requests at these indices, in this order.
    pub(super) fn only(&self, which: &[u32]) -> Mixed {
        let width = abi::get().family.handle_bytes;
        let which = which.iter().map(|i| *i as usize);
        let ours = which.clone().filter_map(|i| self.ours.iter().find(|(at, _)| *at == i).copied()).collect();
        let places: Vec<usize> = which.filter_map(|i| self.indices.iter().position(|at| *at == i)).collect();
        let handle = |place: &usize| self.natives[place * width..(place + 1) * width].iter().copied();
        let natives = places.iter().flat_map(handle).collect();
        let indices = places.iter().map(|place| self.indices[*place]).collect();
        Mixed { array: self.array, node: self.node, abi: self.abi, ours, natives, indices }
    }

    /// The `k`-th request of ours.
    fn our(&self, k: usize) -> Option<(usize, u64)> {
        self.ours.get(k).copied()
    }

    /// Runs `f` under the lock.
    pub(super) fn with<R>(&self, f: impl FnOnce(&mut Core, &mut Live<Request>) -> R) -> R {
        self.node.with(|core| request::live(core, f))
    }

    pub(super) fn native_count(&self) -> c_int {
        self.indices.len() as c_int
    }

    pub(super) fn all_complete(&self, core: &mut Core, live: &mut Live<Request>) -> bool {
        self.ours.iter().all(|(_, token)| live.get(*token).is_none_or(|request| request.is_complete(core)))
    }

    /// Ends our request at index `i` if it is complete. `status` says where its status goes.
    #[inline(always)]
    pub(super) fn end(
        &self,
        (core, live): (&mut Core, &mut Live<Request>),
        (i, token): (usize, u64),
        status: usize,
        error: Option<c_int>,
    ) -> End {
        request::end(core, live, token, |found, handle| self.tell(i, status, &Status { error, ..*found }, handle))
    }

    /// Gives the program the status and the handle of the request at index `i`.
    #[inline(always)]
    pub(super) fn tell(&self, i: usize, place: usize, status: &Status, handle: u64) {
        // SAFETY: the program's array and status.
        unsafe { tell(self.abi, self.array + i * self.abi.family.handle_bytes, place, status, handle) }
    }

    /// Ends our requests, which `ours` gives with their indices, one after the other from the `next`-th on, until one is not
    /// complete. True: all have ended.
    #[inline(always)]
    fn end_ours(
        &self,
        (core, live): (&mut Core, &mut Live<Request>),
        ours: impl Fn(usize) -> Option<(usize, u64)>,
        next: &mut usize,
        statuses: usize,
        unusual: &mut Unusual,
    ) -> bool {
        while let Some((i, token)) = ours(*next) {
            let status = self.abi.status_at(statuses, i);
            match self.end((core, live), (i, token), status, Some(0)) {
                End::Not => return false,
                End::Else(ended) => unusual.push((i, ended)),
                // Another thread has completed it, which MPI forbids. There is nothing left to do.
                End::Told | End::Stale => {}
            }
            *next += 1;
        }
        true
    }

    /// Waits until all of our requests have ended, of the array's `count` requests those that `ours` gives.
    #[inline(always)]
    fn wait_for(&self, count: usize, ours: impl Fn(usize) -> Option<(usize, u64)>, statuses: usize) -> Unusual {
        let (mut next, mut unusual) = (0, Unusual::new());
        // SAFETY: the program's array.
        let about = |core: &mut Core| unsafe { request::about_array(core, "MPI_Waitall", self.array, count) };
        wait(self.node, &about, |core| {
            let all = |core: &mut Core, live: &mut Live<Request>| {
                self.end_ours((core, live), &ours, &mut next, statuses, &mut unusual).then_some(())
            };
            request::live(core, all)
        });
        unusual
    }

    /// Writes the native handles back into the program's array, as the MPI below has left them.
    pub(super) unsafe fn store_natives(&self) {
        let width = abi::get().family.handle_bytes;
        for (k, i) in self.indices.iter().enumerate() {
            let place = (self.array + i * width) as *mut u8;
            // SAFETY: the program's array; `natives` holds as many handles as there are indices.
            unsafe { std::ptr::copy_nonoverlapping(self.natives.as_ptr().add(k * width), place, width) };
        }
    }

    /// Writes the statuses of the native part by their indices, and finishes the unusual requests of ours.
    unsafe fn conclude(&self, native: c_int, below: &NativeStatuses, statuses: usize, unusual: Unusual) -> c_int {
        // SAFETY: the program's arrays.
        unsafe {
            self.store_natives();
            for (k, i) in self.indices.iter().enumerate() {
                below.copy(k, statuses, *i);
            }
            self.array_answer(native, unusual, |_, i| abi::get().status_at(statuses, i))
        }
    }

    /// Finishes some of our requests, and returns the result of an array call: MPI_ERR_IN_STATUS if one of ours has
    /// failed. `status` gives the place of a status by order and index.
    pub(super) fn array_answer(&self, native: c_int, ended: Unusual, status: impl Fn(usize, usize) -> usize) -> c_int {
        let mut first = None;
        for (n, (i, ended)) in ended.into_iter().enumerate() {
            let error = Some(ended.failure.as_ref().map_or(0, error::code));
            self.tell(i, status(n, i), &Status { error, ..ended.status }, ended.handle);
            if ended.failure.is_some() {
                first.get_or_insert(ended);
            }
        }
        match first.as_ref().and_then(|ended| ended.failure()) {
            None => native,
            Some((failure, place)) => error::raise_as(place, abi::get().err_in_status, failure),
        }
    }
}

/// A Waitall of requests of ours alone, which needs no list of them. `None`: there are others among them, or one is not live.
unsafe fn wait_for_ours(count: usize, array: usize, statuses: usize) -> Answer {
    let (width, is_wide, count) = (abi::get().family.handle_bytes, abi::is_wide(), count as c_int as usize);
    // SAFETY: the program's array of `count` requests.
    let token = |i: usize| unsafe { abi::load_handle_of(is_wide, array + i * width) };
    if !request::are_tokens((0..count).map(token)) {
        return None;
    }
    let node = Node::running()?;
    let mixed = Mixed { array, node, abi: abi::get(), ours: Vec::new(), natives: Vec::new(), indices: Vec::new() };
    let all_live = mixed.with(|_, live| (0..count).all(|i| live.has(token(i))));
    all_live.then(|| {
        let unusual = mixed.wait_for(count, |i| (i < count).then(|| (i, token(i))), statuses);
        mixed.array_answer(0, unusual, |_, i| abi::get().status_at(statuses, i))
    })
}

pub unsafe fn Waitall(count: usize, array: usize, statuses: usize) -> Answer {
    // SAFETY: the program's arguments.
    if let Some(code) = unsafe { wait_for_ours(count, array, statuses) } {
        return Some(code);
    }
    let run = |mut mixed: Mixed| {
        let unusual = mixed.wait_for(count, |k| mixed.our(k), statuses);
        let mut below = NativeStatuses::new(mixed.indices.len(), statuses);
        let mut native = 0;
        // SAFETY: our copies of the native handles, and as many statuses; the program's arrays.
        unsafe {
            if mixed.native_count() > 0 {
                native = pmpi::waitall(mixed.native_count(), mixed.natives.as_mut_ptr().cast(), below.pointer());
            }
            mixed.conclude(native, &below, statuses, unusual)
        }
    };
    // SAFETY: the program's array.
    unsafe { on_array("MPI_Waitall", count, array, run) }
}

pub unsafe fn Testall(count: usize, array: usize, flag: usize, statuses: usize) -> Answer {
    let run = |mut mixed: Mixed| {
        let flag = flag as *mut c_int;
        let node = mixed.node;
        let complete = |core: &mut Core| request::live(core, |core, live| mixed.all_complete(core, live)).then_some(());
        // SAFETY: the program's array.
        let about = |core: &mut Core| unsafe { request::about_array(core, "MPI_Testall", array, count) };
        let (found, again) = match outcomes::next(node, Call::Testall) {
            Next::Free => (look(node, complete), false),
            Next::Nothing => (outcomes::look_for_nothing(node), false),
            Next::Found(_) => match outcomes::wait_again(node, &about, complete) {
                Some(()) => (Some(()), true),
                None => (look(node, complete), false),
            },
        };
        if found.is_none() {
            // SAFETY: the program's flag.
            unsafe { flag.write(0) };
            outcomes::note(node, Call::Testall, None);
            return 0;
        }
        let mut below = NativeStatuses::new(mixed.indices.len(), statuses);
        let (mut native, n) = (0, mixed.native_count());
        // SAFETY: our copies of the native handles, as many statuses, the program's flag.
        unsafe {
            flag.write(1);
            let natives = mixed.natives.as_mut_ptr().cast();
            if n > 0 && again {
                native = pmpi::waitall(n, natives, below.pointer());
            } else if n > 0 {
                native = pmpi::testall(n, natives, flag, below.pointer());
            }
        }
        // SAFETY: the flag has been written.
        if unsafe { flag.read() } == 0 {
            // SAFETY: the program's array.
            unsafe { mixed.store_natives() };
            outcomes::note(node, Call::Testall, None);
            return native;
        }
        outcomes::note(node, Call::Testall, Some(&[]));
        let mut unusual = Unusual::new();
        mixed.with(|core, live| mixed.end_ours((core, live), |k| mixed.our(k), &mut 0, statuses, &mut unusual));
        // SAFETY: the program's arrays.
        unsafe { mixed.conclude(native, &below, statuses, unusual) }
    };
    // SAFETY: the program's array.
    unsafe { on_array("MPI_Testall", count, array, run) }
}
