//! Waitany, Testany, Waitsome and Testsome with requests of ours, alone or mixed with native ones. Inactive requests
//! are treated as null.

use crate::abi;
use crate::entry::complete::{Mixed, NativeStatuses, Unusual, on_array, raise_of};
use crate::forward as pmpi;
use crate::outcomes;
use crate::request::{self, End, Ended};
use crate::wait::{look, wait_asking};
use node::Core;
use node::images::{Call, Next};
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

impl Hit {
    /// The indices of what was found.
    fn indices(&self) -> impl Iterator<Item = usize> {
        match self {
            Hit::Ours(index, _) => Some(*index),
            Hit::Native { index, .. } => *index,
        }
        .into_iter()
    }
}

/// Waits for the request that such a call has found before a restart. `None`: it is to find what there is.
unsafe fn any_again(
    mixed: &Mixed,
    call: Call,
    (name, array, count): (&'static str, usize, usize),
    status: usize,
) -> Option<(Mixed, Hit)> {
    let Next::Found(which) = outcomes::next(mixed.node, call) else { return None };
    let node = mixed.node;
    let mut one = mixed.only(&which);
    if one.native_count() > 0 {
        let (mut index, natives) = (0, one.natives.as_mut_ptr().cast());
        // SAFETY: our copy of the native handle, the program's status.
        let code = unsafe { pmpi::waitany(1, natives, &mut index, status as *mut c_void) };
        let index = one.indices.first().copied();
        return Some((one, Hit::Native { code, index }));
    }
    if one.ours.is_empty() {
        node.with(|core| core.stop_replay(&format!("{name} has other requests")));
        return None;
    }
    // SAFETY: the program's array.
    let about = |core: &mut Core| unsafe { request::about_array(core, name, array, count) };
    let hit = outcomes::wait_again(node, &about, |core| one.take_any(core, status))?;
    Some((one, hit))
}

pub unsafe fn Waitany(count: usize, array: usize, index: usize, status: usize) -> Answer {
    let run = |mut mixed: Mixed| {
        if !mixed.has_active() {
            // SAFETY: the program's arguments.
            return unsafe { only_natives_any(mixed, index, None, status) };
        }
        let node = mixed.node;
        // SAFETY: the program's arguments.
        if let Some((one, hit)) = unsafe { any_again(&mixed, Call::Waitany, ("MPI_Waitany", array, count), status) } {
            outcomes::note_indices(node, Call::Waitany, hit.indices());
            // SAFETY: the program's arguments.
            return unsafe { end_any(&one, hit, index, status) };
        }
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
        outcomes::note_indices(node, Call::Waitany, hit.indices());
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
        let node = mixed.node;
        // SAFETY: the program's arguments.
        let again = unsafe { any_again(&mixed, Call::Testany, ("MPI_Testany", array, count), status) };
        let (mixed, hit) = match again {
            Some((one, hit)) => (one, Some(hit)),
            None if outcomes::next(node, Call::Testany) == Next::Nothing => (mixed, outcomes::look_for_nothing(node)),
            None => {
                let hit = look(node, |core| mixed.take_any(core, status));
                let hit = hit.or_else(|| any_of_natives(&mut mixed, status));
                (mixed, hit)
            }
        };
        match &hit {
            Some(hit) => outcomes::note_indices(node, Call::Testany, hit.indices()),
            None => outcomes::note(node, Call::Testany, None),
        }
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

impl Found {
    /// Notes what was found: indices of ours, then of native ones.
    fn note(&self, mixed: &Mixed, call: Call) {
        if self.ours.is_empty() && self.hits.is_empty() {
            return outcomes::note(mixed.node, call, None);
        }
        let ours = self.ours.iter().map(|(index, _)| *index);
        outcomes::note_indices(mixed.node, call, ours.chain(self.hits.iter().map(|hit| mixed.indices[*hit])));
    }
}

/// Waits for the requests that such a call has found before a restart. `None`: it is to find what there is.
unsafe fn some_again(
    mixed: &Mixed,
    call: Call,
    (name, array, count): (&'static str, usize, usize),
    statuses: usize,
) -> Option<(Mixed, NativeStatuses, Found)> {
    let Next::Found(which) = outcomes::next(mixed.node, call) else { return None };
    let node = mixed.node;
    let mut some = mixed.only(&which);
    if some.ours.len() + some.indices.len() != which.len() {
        node.with(|core| core.stop_replay(&format!("{name} has other requests")));
        return None;
    }
    // SAFETY: the program's array.
    let about = |core: &mut Core| unsafe { request::about_array(core, name, array, count) };
    let complete = |core: &mut Core| request::live(core, |core, live| some.all_complete(core, live)).then_some(());
    outcomes::wait_again(node, &about, complete)?;
    let mut below = NativeStatuses::new(some.indices.len(), statuses);
    let mut found = Found { ours: node.with(|core| some.take_some(core)), ..Found::default() };
    let n = some.native_count();
    if n > 0 {
        // SAFETY: our copies of the native handles, as many statuses.
        found.native = unsafe { pmpi::waitall(n, some.natives.as_mut_ptr().cast(), below.pointer()) };
        found.hits = (0..some.indices.len()).collect();
    }
    Some((some, below, found))
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
        // SAFETY: the program's arguments.
        let again = unsafe { some_again(&mixed, Call::Waitsome, ("MPI_Waitsome", array, count), statuses) };
        if let Some((some, below, found)) = again {
            found.note(&some, Call::Waitsome);
            // SAFETY: the program's arrays.
            return unsafe { end_some(&some, &below, found, outcount, indices, statuses) };
        }
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
        found.note(&mixed, Call::Waitsome);
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
        let node = mixed.node;
        // SAFETY: the program's arguments.
        let again = unsafe { some_again(&mixed, Call::Testsome, ("MPI_Testsome", array, count), statuses) };
        let (mixed, below, found) = match again {
            Some(again) => again,
            None => {
                let mut below = NativeStatuses::new(mixed.indices.len(), statuses);
                let mut found = Found::default();
                if outcomes::next(node, Call::Testsome) == Next::Nothing {
                    outcomes::look_for_nothing::<()>(node);
                } else {
                    let some = |core: &mut Core| Some(mixed.take_some(core)).filter(|some| !some.is_empty());
                    found.ours = look(node, some).unwrap_or_default();
                    some_of_natives(&mut mixed, &mut below, &mut found);
                }
                (mixed, below, found)
            }
        };
        found.note(&mixed, Call::Testsome);
        // SAFETY: the program's arrays.
        unsafe { end_some(&mixed, &below, found, outcount, indices, statuses) }
    };
    // SAFETY: the program's array.
    unsafe { on_array("MPI_Testsome", count, array, run) }
}
