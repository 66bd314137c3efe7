//! Completion of requests of ours, alone or mixed with native ones: Wait and Test of one and of all.
//!
//! A mixed array is split by looking at the values. Nothing native is consumed by a Test while one of ours is
//! pending: ours are looked at first, then the MPI below is asked, then both are committed.

use crate::abi;
use crate::entry::node;
use crate::error::{self, Class, Failure, Place, raise};
use crate::forward as pmpi;
use crate::request::{self, Completion, Request};
use crate::wait::{look, wait};
use node::{Core, Node};
use std::ffi::{c_int, c_void};

type Answer = Option<c_int>;

pub(super) fn stale(call: &str) -> c_int {
    raise(Place::world(), &Failure::new(Class::Request, format!("{call}: this request has completed or never was")))
}

// ------------------------------------------------------------------------------------------------------- one request

/// Runs a call on the request at `at`, which the check found to be a token.
pub(super) unsafe fn on_request(
    call: &str,
    at: usize,
    run: impl FnOnce(u64, &Request, &'static Node) -> c_int,
) -> Answer {
    // SAFETY: the program's request.
    let token = unsafe { abi::load_handle(at) };
    let Some(request) = request::find(token) else { return Some(stale(call)) };
    Some(match node() {
        Ok(node) => run(token, &request, node),
        Err(failure) => raise(request.inter.errors(), &failure),
    })
}

/// Ends one request: token, handle, status, failure.
unsafe fn conclude(token: u64, request: &Request, at: usize, status: usize, completion: Completion) -> c_int {
    let after = request::retire(token, request);
    // SAFETY: the program's request and status.
    unsafe {
        abi::store_handle(at, after);
        abi::get().write_status(status, &completion.status);
    }
    match completion.failure {
        None => 0,
        Some(failure) => raise(request.inter.errors(), &failure),
    }
}

pub unsafe fn Wait(at: usize, status: usize) -> Answer {
    let run = |token, request: &Request, node| {
        let completion = wait(node, |core| request.take(core));
        // SAFETY: the program's request and status.
        unsafe { conclude(token, request, at, status, completion) }
    };
    // SAFETY: the program's request.
    unsafe { on_request("MPI_Wait", at, run) }
}

pub unsafe fn Test(at: usize, flag: usize, status: usize) -> Answer {
    let run = |token, request: &Request, node| {
        let completion = look(node, |core| request.take(core));
        // SAFETY: the program's flag, request and status.
        unsafe {
            (flag as *mut c_int).write(completion.is_some().into());
            completion.map_or(0, |completion| conclude(token, request, at, status, completion))
        }
    };
    // SAFETY: the program's request.
    unsafe { on_request("MPI_Test", at, run) }
}

// ------------------------------------------------------------------------------------------------------------ arrays

/// An array of requests, split.
pub(super) struct Mixed {
    array: usize,
    pub(super) node: &'static Node,
    /// Index in the array, token, request.
    pub(super) ours: Vec<(usize, u64, Request)>,
    /// The native handles, as wide as the ABI has them, and their indices.
    pub(super) natives: Vec<u8>,
    pub(super) indices: Vec<usize>,
}

/// Runs a call on an array of requests, in which the check found a token.
pub(super) unsafe fn on_array(call: &str, count: usize, array: usize, run: impl FnOnce(Mixed) -> c_int) -> Answer {
    // SAFETY: the program's array of `count` requests.
    Some(match unsafe { Mixed::split(call, count, array) } {
        Ok(mixed) => run(mixed),
        Err(code) => code,
    })
}

/// Statuses of the native part, or the ignoring value.
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

    /// Copies the `from`-th to the program's `to`-th.
    pub(super) unsafe fn copy(&self, from: usize, statuses: usize, to: usize) {
        if !self.ignored {
            let size = abi::get().family.status.size;
            let place = (statuses + to * size) as *mut u8;
            // SAFETY: `statuses` is the program's array, and long enough for its requests.
            unsafe { std::ptr::copy_nonoverlapping(self.bytes.as_ptr().add(from * size), place, size) };
        }
    }
}

impl Mixed {
    unsafe fn split(call: &str, count: usize, array: usize) -> Result<Mixed, c_int> {
        let width = abi::get().family.handle_bytes;
        let node = node().map_err(|f| raise(Place::world(), &f))?;
        let mut mixed = Mixed { array, node, ours: Vec::new(), natives: Vec::new(), indices: Vec::new() };
        for i in 0..count as c_int as usize {
            // SAFETY: the program's array of `count` requests.
            let handle = unsafe { abi::load_handle(array + i * width) };
            // SAFETY: looks at the value only.
            if unsafe { request::is_token(handle as usize) } {
                mixed.ours.push((i, handle, request::find(handle).ok_or_else(|| stale(call))?));
            } else {
                mixed.natives.extend_from_slice(&handle.to_le_bytes()[..width]);
                mixed.indices.push(i);
            }
        }
        Ok(mixed)
    }

    pub(super) fn native_count(&self) -> c_int {
        self.indices.len() as c_int
    }

    fn take_all(&self, core: &mut Core) -> Option<Vec<Completion>> {
        if self.ours.iter().all(|(_, _, r)| r.is_complete(core)) {
            self.ours.iter().map(|(_, _, r)| r.take(core)).collect()
        } else {
            None
        }
    }

    /// Puts the native handles back, as the MPI below left them.
    pub(super) unsafe fn store_natives(&self) {
        let width = abi::get().family.handle_bytes;
        for (k, i) in self.indices.iter().enumerate() {
            let place = (self.array + i * width) as *mut u8;
            // SAFETY: the program's array; `natives` holds as many handles as there are indices.
            unsafe { std::ptr::copy_nonoverlapping(self.natives.as_ptr().add(k * width), place, width) };
        }
    }

    /// Ends the request at position `k` of ours; its failure, if any.
    pub(super) unsafe fn end(
        &self,
        k: usize,
        status: usize,
        mut completion: Completion,
        in_array: bool,
    ) -> Option<Failure> {
        let (i, token, request) = &self.ours[k];
        let after = request::retire(*token, request);
        let abi = abi::get();
        if in_array {
            completion.status.error = Some(completion.failure.as_ref().map_or(0, error::code));
        }
        // SAFETY: the program's array and status.
        unsafe {
            abi::store_handle(self.array + i * abi.family.handle_bytes, after);
            abi.write_status(status, &completion.status);
        }
        completion.failure
    }

    /// Ends all of ours and all native ones, each with the status of its index.
    unsafe fn end_all(&self, native: c_int, below: &NativeStatuses, statuses: usize, done: Vec<Completion>) -> c_int {
        let mut failed = None;
        // SAFETY: the program's arrays.
        unsafe {
            self.store_natives();
            for (k, i) in self.indices.iter().enumerate() {
                below.copy(k, statuses, *i);
            }
            for (k, completion) in done.into_iter().enumerate() {
                let status = abi::get().status_at(statuses, self.ours[k].0);
                if let Some(failure) = self.end(k, status, completion, true) {
                    failed.get_or_insert((k, failure));
                }
            }
        }
        self.array_answer(native, failed)
    }

    /// The answer of an array call: MPI_ERR_IN_STATUS when one of ours failed.
    pub(super) fn array_answer(&self, native: c_int, failed: Option<(usize, Failure)>) -> c_int {
        match failed {
            None => native,
            Some((k, failure)) => error::raise_as(self.ours[k].2.inter.errors(), abi::get().err_in_status, &failure),
        }
    }
}

pub unsafe fn Waitall(count: usize, array: usize, statuses: usize) -> Answer {
    let run = |mut mixed: Mixed| {
        let done = wait(mixed.node, |core| mixed.take_all(core));
        let mut below = NativeStatuses::new(mixed.indices.len(), statuses);
        // SAFETY: our copies of the native handles, and as many statuses; the program's arrays.
        unsafe {
            let native = pmpi::waitall(mixed.native_count(), mixed.natives.as_mut_ptr().cast(), below.pointer());
            mixed.end_all(native, &below, statuses, done)
        }
    };
    // SAFETY: the program's array.
    unsafe { on_array("MPI_Waitall", count, array, run) }
}

pub unsafe fn Testall(count: usize, array: usize, flag: usize, statuses: usize) -> Answer {
    let run = |mut mixed: Mixed| {
        let flag = flag as *mut c_int;
        let complete = |core: &mut Core| mixed.ours.iter().all(|(_, _, r)| r.is_complete(core)).then_some(());
        if look(mixed.node, complete).is_none() {
            // SAFETY: the program's flag.
            unsafe { flag.write(0) };
            return 0;
        }
        let mut below = NativeStatuses::new(mixed.indices.len(), statuses);
        // SAFETY: our copies of the native handles, as many statuses, the program's flag.
        let native =
            unsafe { pmpi::testall(mixed.native_count(), mixed.natives.as_mut_ptr().cast(), flag, below.pointer()) };
        // SAFETY: the MPI below has written the flag.
        if unsafe { flag.read() } == 0 {
            // SAFETY: the program's array.
            unsafe { mixed.store_natives() };
            return native;
        }
        // Another thread may have taken one of them, which MPI forbids: then there is nothing left to end.
        let done = mixed.node.with(|core| mixed.take_all(core)).unwrap_or_default();
        // SAFETY: the program's arrays.
        unsafe { mixed.end_all(native, &below, statuses, done) }
    };
    // SAFETY: the program's array.
    unsafe { on_array("MPI_Testall", count, array, run) }
}
