//! Waitany, Testany, Waitsome and Testsome with requests of ours, alone or mixed with native ones. Inactive requests
//! are treated as null.

use crate::abi;
use crate::entry::complete::{Mixed, NativeStatuses, Unusual, on_array, raise_of};
use crate::forward as pmpi;
use crate::request::{self, End, Ended};
use crate::wait::{look, wait_asking};
use node::Core;
use std::cell::RefCell;
use std::ffi::{c_int, c_void};

type Answer = Option<c_int>;

impl Mixed {
    /// Drops inactive requests, which these calls treat as null. False: none of our requests is active.
    pub(super) fn has_active(&mut self) -> bool {
        let mut ours = std::mem::take(&mut self.ours);
        self.with(|_, live| ours.retain(|(_, token)| live.get(*token).is_some_and(|request| !request.is_inactive())));
        self.ours = ours;
        !self.ours.is_empty()
    }

    fn take_any(&self, core: &mut Core, status: usize) -> Option<Hit> {
        request::live(core, |core, live| {
            self.ours.iter().find_map(|&(i, token)| match self.end((core, live), (i, token), status, None) {
                End::Not | End::Stale => None,
                End::Told => Some(Hit::Ours(i, None)),
                End::Else(ended) => Some(Hit::Ours(i, Some(ended))),
            })
        })
    }

    /// Ends all of our requests that are complete. The caller writes their statuses.
    fn take_some(&self, core: &mut Core) -> Unusual {
        request::live(core, |core, live| {
            let take = |&(i, token): &(usize, u64)| Some((i, request::end_apart(core, live, token)?));
            self.ours.iter().filter_map(take).collect()
        })
    }
}

/// A completed request: its index in the array, which the MPI below may not give if it fails.
enum Hit {
    /// One of ours, and what is left to do for it without the lock.
    Ours(usize, Option<Box<Ended>>),
    Native {
        code: c_int,
        index: Option<usize>,
    },
}

/// Asks the MPI below whether one of its requests is complete. `None`: none is complete, or none is active.
fn any_of_natives(mixed: &mut Mixed, status: usize) -> Option<Hit> {
    let (mut flag, mut index) = (0, abi::get().undefined);
    if mixed.native_count() == 0 {
        return None;
    }
    let natives = mixed.natives.as_mut_ptr().cast();
    // SAFETY: our copies of the native handles, the program's status.
    let code = unsafe { pmpi::testany(mixed.native_count(), natives, &mut index, &mut flag, status as *mut c_void) };
    let index = usize::try_from(index).ok().and_then(|k| mixed.indices.get(k)).copied();
    (code != 0 || (flag != 0 && index.is_some())).then_some(Hit::Native { code, index })
}

unsafe fn end_any(mixed: &Mixed, hit: Hit, index: usize, status: usize) -> c_int {
    let index = index as *mut c_int;
    // SAFETY: the program's array, index and status.
    unsafe {
        mixed.store_natives();
        match hit {
            Hit::Native { code, index: i } => {
                index.write(i.map_or(abi::get().undefined, |i| i as c_int));
                code
            }
            Hit::Ours(i, ended) => {
                index.write(i as c_int);
                ended.map_or(0, |ended| {
                    mixed.tell(i, status, &ended.status, ended.handle);
                    raise_of(&ended)
                })
            }
        }
    }
}

/// Has the MPI below do the call, since none of our requests is active.
unsafe fn only_natives_any(mut mixed: Mixed, index: usize, flag: Option<usize>, status: usize) -> c_int {
    let at = index as *mut c_int;
    let abi = abi::get();
    // SAFETY: our copies of the native handles; the program's arguments.
    unsafe {
        let (n, natives) = (mixed.native_count(), mixed.natives.as_mut_ptr().cast());
        let code = match flag {
            _ if n == 0 => {
                at.write(abi.undefined);
                abi.write_status(status, &abi.empty_status());
                if let Some(flag) = flag {
                    (flag as *mut c_int).write(1);
                }
                0
            }
            Some(flag) => pmpi::testany(n, natives, at, flag as *mut c_int, status as *mut c_void),
            None => pmpi::waitany(n, natives, at, status as *mut c_void),
        };
        mixed.store_natives();
        if let Some(i) = usize::try_from(at.read()).ok().and_then(|k| mixed.indices.get(k)) {
            at.write(*i as c_int);
        }
        code
    }
}

pub unsafe fn Waitany(count: usize, array: usize, index: usize, status: usize) -> Answer {
    let run = |mut mixed: Mixed| {
        if !mixed.has_active() {
            // SAFETY: the program's arguments.
            return unsafe { only_natives_any(mixed, index, None, status) };
        }
        let node = mixed.node;
        let state = RefCell::new((mixed, None));
        let mut ask = || {
            let (mixed, native) = &mut *state.borrow_mut();
            if native.is_none() {
                *native = any_of_natives(mixed, status);
            }
        };
        ask();
        // SAFETY: the program's array.
        let about = |core: &mut Core| unsafe { request::about_array(core, "MPI_Waitany", array, count) };
        let hit = wait_asking(node, &mut ask, &about, |core| {
            let (mixed, native) = &mut *state.borrow_mut();
            native.take().or_else(|| mixed.take_any(core, status))
        });
        // SAFETY: the program's arguments.
        unsafe { end_any(&state.borrow().0, hit, index, status) }
    };
    // SAFETY: the program's array.
    unsafe { on_array("MPI_Waitany", count, array, run) }
}

pub unsafe fn Testany(count: usize, array: usize, index: usize, flag: usize, status: usize) -> Answer {
    let run = |mut mixed: Mixed| {
        if !mixed.has_active() {
            // SAFETY: the program's arguments.
            return unsafe { only_natives_any(mixed, index, Some(flag), status) };
        }
        let hit = look(mixed.node, |core| mixed.take_any(core, status)).or_else(|| any_of_natives(&mut mixed, status));
        // SAFETY: the program's arguments.
        unsafe {
            (flag as *mut c_int).write(hit.is_some().into());
            match hit {
                Some(hit) => end_any(&mixed, hit, index, status),
                None => {
                    (index as *mut c_int).write(abi::get().undefined);
                    0
                }
            }
        }
    };
    // SAFETY: the program's array.
    unsafe { on_array("MPI_Testany", count, array, run) }
}

/// What a Waitsome or Testsome has found.
#[derive(Default)]
struct Found {
    ours: Unusual,
    native: c_int,
    /// Positions in the native part, in the order of their statuses.
    hits: Vec<usize>,
}

fn some_of_natives(mixed: &mut Mixed, below: &mut NativeStatuses, found: &mut Found) {
    if mixed.native_count() == 0 {
        return;
    }
    let mut outcount = 0;
    let mut indices = vec![0 as c_int; mixed.indices.len()];
    let natives = mixed.natives.as_mut_ptr().cast();
    // SAFETY: our copies of the native handles, as many indices and statuses.
    found.native =
        unsafe { pmpi::testsome(mixed.native_count(), natives, &mut outcount, indices.as_mut_ptr(), below.pointer()) };
    let n = usize::try_from(outcount).unwrap_or(0);
    found.hits = indices.into_iter().take(n).filter_map(|k| usize::try_from(k).ok()).collect();
}

unsafe fn end_some(
    mixed: &Mixed,
    below: &NativeStatuses,
    found: Found,
    outcount: usize,
    indices: usize,
    statuses: usize,
) -> c_int {
    let indices = indices as *mut c_int;
    let first = found.ours.len();
    // SAFETY: the program's arrays, as long as that of the requests.
    unsafe {
        mixed.store_natives();
        for (n, (i, _)) in found.ours.iter().enumerate() {
            indices.add(n).write(*i as c_int);
        }
        for (from, k) in found.hits.iter().enumerate() {
            indices.add(first + from).write(mixed.indices[*k] as c_int);
            below.copy(from, statuses, first + from);
        }
        (outcount as *mut c_int).write((first + found.hits.len()) as c_int);
        mixed.array_answer(found.native, found.ours, |n, _| abi::get().status_at(statuses, n))
    }
}

/// Has the MPI below do the call, since none of our requests is active.
unsafe fn only_natives_some(mut mixed: Mixed, wait: bool, outcount: usize, indices: usize, statuses: usize) -> c_int {
    let (outcount, indices, statuses) = (outcount as *mut c_int, indices as *mut c_int, statuses as *mut c_void);
    // SAFETY: our copies of the native handles; the program's arrays, which are longer than those.
    unsafe {
        let (n, natives) = (mixed.native_count(), mixed.natives.as_mut_ptr().cast());
        let code = match wait {
            _ if n == 0 => {
                outcount.write(abi::get().undefined);
                0
            }
            true => pmpi::waitsome(n, natives, outcount, indices, statuses),
            false => pmpi::testsome(n, natives, outcount, indices, statuses),
        };
        mixed.store_natives();
        for k in 0..usize::try_from(outcount.read()).unwrap_or(0) {
            let at = indices.add(k);
            if let Some(i) = usize::try_from(at.read()).ok().and_then(|k| mixed.indices.get(k)) {
                at.write(*i as c_int);
            }
        }
        code
    }
}

pub unsafe fn Waitsome(count: usize, array: usize, outcount: usize, indices: usize, statuses: usize) -> Answer {
    let run = |mut mixed: Mixed| {
        if !mixed.has_active() {
            // SAFETY: the program's arrays.
            return unsafe { only_natives_some(mixed, true, outcount, indices, statuses) };
        }
        let node = mixed.node;
        let below = NativeStatuses::new(mixed.indices.len(), statuses);
        let state = RefCell::new((mixed, below, Found::default()));
        let mut ask = || {
            let (mixed, below, found) = &mut *state.borrow_mut();
            if found.hits.is_empty() && found.native == 0 {
                some_of_natives(mixed, below, found);
            }
        };
        ask();
        // SAFETY: the program's array.
        let about = |core: &mut Core| unsafe { request::about_array(core, "MPI_Waitsome", array, count) };
        wait_asking(node, &mut ask, &about, |core| {
            let (mixed, _, found) = &mut *state.borrow_mut();
            found.ours = mixed.take_some(core);
            (!found.ours.is_empty() || !found.hits.is_empty() || found.native != 0).then_some(())
        });
        let (mixed, below, found) = state.into_inner();
        // SAFETY: the program's arrays.
        unsafe { end_some(&mixed, &below, found, outcount, indices, statuses) }
    };
    // SAFETY: the program's array.
    unsafe { on_array("MPI_Waitsome", count, array, run) }
}

pub unsafe fn Testsome(count: usize, array: usize, outcount: usize, indices: usize, statuses: usize) -> Answer {
    let run = |mut mixed: Mixed| {
        if !mixed.has_active() {
            // SAFETY: the program's arrays.
            return unsafe { only_natives_some(mixed, false, outcount, indices, statuses) };
        }
        let mut below = NativeStatuses::new(mixed.indices.len(), statuses);
        let ours = look(mixed.node, |core| Some(mixed.take_some(core)).filter(|some| !some.is_empty()));
        let ours = ours.unwrap_or_default();
        let mut found = Found { ours, ..Found::default() };
        some_of_natives(&mut mixed, &mut below, &mut found);
        // SAFETY: the program's arrays.
        unsafe { end_some(&mixed, &below, found, outcount, indices, statuses) }
    };
    // SAFETY: the program's array.
    unsafe { on_array("MPI_Testsome", count, array, run) }
}
