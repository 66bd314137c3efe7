//! Completion: the Wait and Test families over requests of ours, alone or mixed with native ones.
//!
//! A mixed array is split by looking at the values. Nothing native is consumed by a Test while one of ours is
//! pending: ours are looked at first, then the MPI below is asked, then both are committed.

use crate::abi;
use crate::entry::p2p::node;
use crate::error::{self, Class, Failure, raise};
use crate::forward as pmpi;
use crate::request::{self, Completion, Request};
use crate::wait::{poke, wait, wait_poking};
use node::Node;
use std::cell::RefCell;
use std::ffi::{c_int, c_void};

type Answer = Option<c_int>;

fn stale(call: &str) -> Failure {
    Failure::new(Class::Request, format!("{call}: this request has completed or never was"))
}

fn raise_on_world(failure: &Failure) -> c_int {
    raise(abi::get().comm_world, failure)
}

// ------------------------------------------------------------------------------------------------------- one request

unsafe fn single(call: &'static str, at: usize) -> Result<(u64, Request, &'static Node), c_int> {
    // SAFETY: the check found a token there.
    let token = unsafe { abi::load_handle(at) };
    let request = request::find(token).ok_or_else(|| raise_on_world(&stale(call)))?;
    let node = node().map_err(|f| raise_on_world(&f))?;
    Ok((token, request, node))
}

/// Ends one request: token, handle, status, failure.
unsafe fn conclude(token: u64, request: &Request, at: usize, status: usize, completion: Completion) -> c_int {
    request::remove(token);
    // SAFETY: the program's request and status.
    unsafe {
        abi::store_handle(at, abi::get().request_null);
        abi::get().write_status(status, &completion.status);
    }
    match completion.failure {
        None => 0,
        Some(failure) => raise(request.inter.comm(), &failure),
    }
}

pub unsafe fn Wait(at: usize, status: usize) -> Answer {
    // SAFETY: the program's request.
    let (token, request, node) = match unsafe { single("MPI_Wait", at) } {
        Ok(found) => found,
        Err(code) => return Some(code),
    };
    let completion = wait(node, request.inter.comm(), |core| request.take(core));
    // SAFETY: the program's request and status.
    Some(unsafe { conclude(token, &request, at, status, completion) })
}

pub unsafe fn Test(at: usize, flag: usize, status: usize) -> Answer {
    // SAFETY: the program's request.
    let (token, request, node) = match unsafe { single("MPI_Test", at) } {
        Ok(found) => found,
        Err(code) => return Some(code),
    };
    node.progress();
    let completion = node.with(|core| request.take(core));
    // SAFETY: the program's flag.
    unsafe { (flag as *mut c_int).write(completion.is_some().into()) };
    Some(match completion {
        // SAFETY: the program's request and status.
        Some(completion) => unsafe { conclude(token, &request, at, status, completion) },
        None => {
            poke(request.inter.comm());
            0
        }
    })
}

// ------------------------------------------------------------------------------------------------------------ arrays

/// An array of requests, split.
struct Mixed {
    array: usize,
    node: &'static Node,
    /// Index in the array, token, request.
    ours: Vec<(usize, u64, Request)>,
    /// The native handles, as wide as the ABI has them, and their indices.
    natives: Vec<u8>,
    indices: Vec<usize>,
}

/// Statuses of the native part, or the ignoring value.
struct NativeStatuses {
    bytes: Vec<u8>,
    ignored: bool,
}

impl NativeStatuses {
    fn new(count: usize, statuses: usize) -> NativeStatuses {
        let abi = abi::get();
        let ignored = statuses == abi.statuses_ignore || statuses == 0;
        NativeStatuses { bytes: vec![0; if ignored { 0 } else { count * abi.family.status.size }], ignored }
    }

    fn pointer(&mut self) -> *mut c_void {
        if self.ignored { abi::get().statuses_ignore as *mut c_void } else { self.bytes.as_mut_ptr().cast() }
    }

    /// Copies the `from`-th to the program's `to`-th.
    unsafe fn copy(&self, from: usize, statuses: usize, to: usize) {
        if !self.ignored {
            let size = abi::get().family.status.size;
            // SAFETY: `statuses` is the program's array, and long enough for its requests.
            unsafe {
                std::ptr::copy_nonoverlapping(
                    self.bytes.as_ptr().add(from * size),
                    (statuses + to * size) as *mut u8,
                    size,
                )
            };
        }
    }
}

impl Mixed {
    unsafe fn split(call: &'static str, count: usize, array: usize) -> Result<Mixed, c_int> {
        let width = abi::get().family.handle_bytes;
        let node = node().map_err(|f| raise_on_world(&f))?;
        let mut mixed = Mixed { array, node, ours: Vec::new(), natives: Vec::new(), indices: Vec::new() };
        for i in 0..count as c_int as usize {
            // SAFETY: the program's array of `count` requests.
            let handle = unsafe { abi::load_handle(array + i * width) };
            // SAFETY: looks at the value only.
            if unsafe { request::is_token(handle as usize) } {
                let request = request::find(handle).ok_or_else(|| raise_on_world(&stale(call)))?;
                mixed.ours.push((i, handle, request));
            } else {
                mixed.natives.extend_from_slice(&handle.to_le_bytes()[..width]);
                mixed.indices.push(i);
            }
        }
        Ok(mixed)
    }

    fn native_count(&self) -> c_int {
        self.indices.len() as c_int
    }

    fn comm(&self) -> u64 {
        self.ours[0].2.inter.comm()
    }

    fn all_ours_complete(&self, core: &node::Core) -> bool {
        self.ours.iter().all(|(_, _, r)| r.is_complete(core))
    }

    /// Puts the native handles back, as the MPI below left them.
    unsafe fn store_natives(&self) {
        let width = abi::get().family.handle_bytes;
        for (k, i) in self.indices.iter().enumerate() {
            // SAFETY: the program's array; `natives` holds as many handles as there are indices.
            unsafe {
                std::ptr::copy_nonoverlapping(
                    self.natives.as_ptr().add(k * width),
                    (self.array + i * width) as *mut u8,
                    width,
                )
            };
        }
    }

    /// Ends the request at position `k` of ours; its failure, if any.
    unsafe fn end(&self, k: usize, status: usize, mut completion: Completion, in_array: bool) -> Option<Failure> {
        let (i, token, _) = &self.ours[k];
        request::remove(*token);
        let abi = abi::get();
        if in_array {
            completion.status.error = Some(completion.failure.as_ref().map_or(0, error::code));
        }
        // SAFETY: the program's array and status.
        unsafe {
            abi::store_handle(self.array + i * abi.family.handle_bytes, abi.request_null);
            abi.write_status(status, &completion.status);
        }
        completion.failure
    }

    /// Ends all of ours, each with the status of its index. The first failure and where it belongs.
    unsafe fn end_all(&self, statuses: usize, completions: Vec<Completion>) -> Option<(u64, Failure)> {
        let mut first = None;
        for (k, completion) in completions.into_iter().enumerate() {
            let status = abi::get().status_at(statuses, self.ours[k].0);
            // SAFETY: the program's arrays.
            if let Some(failure) = unsafe { self.end(k, status, completion, true) } {
                first.get_or_insert((self.ours[k].2.inter.comm(), failure));
            }
        }
        first
    }
}

/// The answer of an array call: MPI_ERR_IN_STATUS when one of ours failed.
fn array_answer(native: c_int, failed: Option<(u64, Failure)>) -> c_int {
    match failed {
        None => native,
        Some((comm, failure)) => error::raise_as(comm, abi::get().err_in_status, &failure),
    }
}

fn take_all(mixed: &Mixed, core: &mut node::Core) -> Option<Vec<Completion>> {
    if !mixed.all_ours_complete(core) {
        return None;
    }
    mixed.ours.iter().map(|(_, _, r)| r.take(core)).collect()
}

pub unsafe fn Waitall(count: usize, array: usize, statuses: usize) -> Answer {
    // SAFETY: the program's array.
    let mut mixed = match unsafe { Mixed::split("MPI_Waitall", count, array) } {
        Ok(mixed) => mixed,
        Err(code) => return Some(code),
    };
    let completions = wait(mixed.node, mixed.comm(), |core| take_all(&mixed, core));
    let mut below = NativeStatuses::new(mixed.indices.len(), statuses);
    // SAFETY: our copies of the native handles, and as many statuses.
    let native = unsafe { pmpi::waitall(mixed.native_count(), mixed.natives.as_mut_ptr().cast(), below.pointer()) };
    // SAFETY: the program's arrays.
    unsafe {
        mixed.store_natives();
        for (k, i) in mixed.indices.iter().enumerate() {
            below.copy(k, statuses, *i);
        }
        Some(array_answer(native, mixed.end_all(statuses, completions)))
    }
}

pub unsafe fn Testall(count: usize, array: usize, flag: usize, statuses: usize) -> Answer {
    // SAFETY: the program's array.
    let mut mixed = match unsafe { Mixed::split("MPI_Testall", count, array) } {
        Ok(mixed) => mixed,
        Err(code) => return Some(code),
    };
    let flag = flag as *mut c_int;
    mixed.node.progress();
    if !mixed.node.with(|core| mixed.all_ours_complete(core)) {
        poke(mixed.comm());
        // SAFETY: the program's flag.
        unsafe { flag.write(0) };
        return Some(0);
    }
    let mut below = NativeStatuses::new(mixed.indices.len(), statuses);
    // SAFETY: our copies of the native handles, as many statuses, the program's flag.
    let native =
        unsafe { pmpi::testall(mixed.native_count(), mixed.natives.as_mut_ptr().cast(), flag, below.pointer()) };
    // SAFETY: the MPI below has written the flag; the program's arrays.
    unsafe {
        mixed.store_natives();
        if flag.read() == 0 {
            return Some(native);
        }
        for (k, i) in mixed.indices.iter().enumerate() {
            below.copy(k, statuses, *i);
        }
        // Another thread may have taken one of them, which MPI forbids: then there is nothing left to end.
        let completions = mixed.node.with(|core| take_all(&mixed, core)).unwrap_or_default();
        Some(array_answer(native, mixed.end_all(statuses, completions)))
    }
}

/// One completion out of many: position in ours, or an index of the native part.
enum Hit {
    Ours(usize, Completion),
    Native { code: c_int, index: usize },
}

fn any_of_ours(mixed: &Mixed, core: &mut node::Core) -> Option<Hit> {
    mixed.ours.iter().enumerate().find_map(|(k, (_, _, r))| r.take(core).map(|done| Hit::Ours(k, done)))
}

/// Asks the MPI below whether one of its requests is complete; an array without active ones gives nothing.
fn any_of_natives(mixed: &mut Mixed, status: usize) -> Option<Hit> {
    let (mut flag, mut index) = (0, abi::get().undefined);
    // SAFETY: our copies of the native handles, the program's status.
    let code = unsafe {
        pmpi::testany(
            mixed.native_count(),
            mixed.natives.as_mut_ptr().cast(),
            &mut index,
            &mut flag,
            status as *mut c_void,
        )
    };
    let hit = code != 0 || (flag != 0 && index != abi::get().undefined);
    (hit && index >= 0).then(|| Hit::Native { code, index: mixed.indices[index as usize] })
}

unsafe fn end_any(mixed: &Mixed, hit: Hit, index: usize, status: usize) -> c_int {
    // SAFETY: the program's array, index and status.
    unsafe {
        mixed.store_natives();
        match hit {
            Hit::Native { code, index: i } => {
                (index as *mut c_int).write(i as c_int);
                code
            }
            Hit::Ours(k, completion) => {
                (index as *mut c_int).write(mixed.ours[k].0 as c_int);
                match mixed.end(k, status, completion, false) {
                    None => 0,
                    Some(failure) => raise(mixed.ours[k].2.inter.comm(), &failure),
                }
            }
        }
    }
}

pub unsafe fn Waitany(count: usize, array: usize, index: usize, status: usize) -> Answer {
    // SAFETY: the program's array.
    let mixed = match unsafe { Mixed::split("MPI_Waitany", count, array) } {
        Ok(mixed) => mixed,
        Err(code) => return Some(code),
    };
    let node = mixed.node;
    let comm = mixed.comm();
    let state = RefCell::new((mixed, None));
    let ask = || {
        // Asking for requests that are null or inactive moves nothing in the MPI below.
        poke(comm);
        let (mixed, native) = &mut *state.borrow_mut();
        if native.is_none() {
            *native = any_of_natives(mixed, status);
        }
    };
    ask();
    let hit = wait_poking(node, &mut { ask }, |core| {
        let (mixed, native) = &mut *state.borrow_mut();
        native.take().or_else(|| any_of_ours(mixed, core))
    });
    // SAFETY: the program's arguments.
    Some(unsafe { end_any(&state.borrow().0, hit, index, status) })
}

pub unsafe fn Testany(count: usize, array: usize, index: usize, flag: usize, status: usize) -> Answer {
    // SAFETY: the program's array.
    let mut mixed = match unsafe { Mixed::split("MPI_Testany", count, array) } {
        Ok(mixed) => mixed,
        Err(code) => return Some(code),
    };
    mixed.node.progress();
    let hit = mixed.node.with(|core| any_of_ours(&mixed, core)).or_else(|| any_of_natives(&mut mixed, status));
    // SAFETY: the program's arguments.
    unsafe {
        (flag as *mut c_int).write(hit.is_some().into());
        Some(match hit {
            Some(hit) => end_any(&mixed, hit, index, status),
            None => {
                (index as *mut c_int).write(abi::get().undefined);
                0
            }
        })
    }
}

/// What a Waitsome or Testsome found.
#[derive(Default)]
struct Found {
    ours: Vec<(usize, Completion)>,
    native: c_int,
    /// Indices into the native part, in the order of their statuses.
    hits: Vec<c_int>,
}

fn some_of_ours(mixed: &Mixed, core: &mut node::Core) -> Vec<(usize, Completion)> {
    mixed.ours.iter().enumerate().filter_map(|(k, (_, _, r))| r.take(core).map(|done| (k, done))).collect()
}

fn some_of_natives(mixed: &mut Mixed, below: &mut NativeStatuses, found: &mut Found) {
    let mut outcount = 0;
    let mut indices = vec![0; mixed.indices.len()];
    // SAFETY: our copies of the native handles, as many indices and statuses.
    found.native = unsafe {
        pmpi::testsome(
            mixed.native_count(),
            mixed.natives.as_mut_ptr().cast(),
            &mut outcount,
            indices.as_mut_ptr(),
            below.pointer(),
        )
    };
    indices.truncate(usize::try_from(outcount).unwrap_or(0));
    found.hits = indices;
}

unsafe fn end_some(
    mixed: &Mixed,
    below: &NativeStatuses,
    found: Found,
    outcount: usize,
    indices: usize,
    statuses: usize,
) -> c_int {
    let abi = abi::get();
    let indices = indices as *mut c_int;
    let mut n = 0;
    let mut failed = None;
    // SAFETY: the program's arrays, as long as that of the requests.
    unsafe {
        mixed.store_natives();
        for (k, completion) in found.ours {
            indices.add(n).write(mixed.ours[k].0 as c_int);
            if let Some(failure) = mixed.end(k, abi.status_at(statuses, n), completion, true) {
                failed.get_or_insert((mixed.ours[k].2.inter.comm(), failure));
            }
            n += 1;
        }
        for (from, k) in found.hits.iter().enumerate() {
            indices.add(n).write(mixed.indices[*k as usize] as c_int);
            below.copy(from, statuses, n);
            n += 1;
        }
        (outcount as *mut c_int).write(n as c_int);
    }
    array_answer(found.native, failed)
}

pub unsafe fn Waitsome(count: usize, array: usize, outcount: usize, indices: usize, statuses: usize) -> Answer {
    // SAFETY: the program's array.
    let mixed = match unsafe { Mixed::split("MPI_Waitsome", count, array) } {
        Ok(mixed) => mixed,
        Err(code) => return Some(code),
    };
    let node = mixed.node;
    let comm = mixed.comm();
    let below = NativeStatuses::new(mixed.indices.len(), statuses);
    let state = RefCell::new((mixed, below, Found::default()));
    let ask = || {
        poke(comm);
        let (mixed, below, found) = &mut *state.borrow_mut();
        if found.hits.is_empty() && found.native == 0 {
            some_of_natives(mixed, below, found);
        }
    };
    ask();
    wait_poking(node, &mut { ask }, |core| {
        let (mixed, _, found) = &mut *state.borrow_mut();
        found.ours = some_of_ours(mixed, core);
        (!found.ours.is_empty() || !found.hits.is_empty() || found.native != 0).then_some(())
    });
    let (mixed, below, found) = state.into_inner();
    // SAFETY: the program's arrays.
    Some(unsafe { end_some(&mixed, &below, found, outcount, indices, statuses) })
}

pub unsafe fn Testsome(count: usize, array: usize, outcount: usize, indices: usize, statuses: usize) -> Answer {
    // SAFETY: the program's array.
    let mut mixed = match unsafe { Mixed::split("MPI_Testsome", count, array) } {
        Ok(mixed) => mixed,
        Err(code) => return Some(code),
    };
    let mut below = NativeStatuses::new(mixed.indices.len(), statuses);
    mixed.node.progress();
    let mut found = Found { ours: mixed.node.with(|core| some_of_ours(&mixed, core)), ..Found::default() };
    some_of_natives(&mut mixed, &mut below, &mut found);
    // SAFETY: the program's arrays.
    Some(unsafe { end_some(&mixed, &below, found, outcount, indices, statuses) })
}
