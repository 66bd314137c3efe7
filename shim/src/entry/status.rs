//! The calls of MPI_Request_get_status for many requests, ours mixed with native ones. They leave the requests as they
//! are.

use crate::abi;
use crate::entry::complete::{NativeStatuses, on_array};
use crate::forward as pmpi;
use crate::request::{self, Completion};
use crate::wait::look;
use node::Core;
use std::ffi::{c_int, c_void};

type Answer = Option<c_int>;

/// The result of one of our requests, if it is complete. The request stays.
fn outcome(core: &mut Core, token: u64) -> Option<Completion> {
    request::live(core, |core, live| live.get(token)?.look(core))
}

pub unsafe fn Request_get_status_all(count: usize, array: usize, flag: usize, statuses: usize) -> Answer {
    let flag = flag as *mut c_int;
    // SAFETY: the program's arrays and flag; our copies of the native handles, and as many statuses.
    unsafe {
        on_array("MPI_Request_get_status_all", count, array, |mixed| {
            flag.write(0);
            let all =
                look(mixed.node, |core| mixed.ours.iter().map(|(_, t)| outcome(core, *t)).collect::<Option<Vec<_>>>());
            let Some(all) = all else { return 0 };
            let mut below = NativeStatuses::new(mixed.indices.len(), statuses);
            let (n, natives) = (mixed.native_count(), mixed.natives.as_ptr().cast());
            let code = if n > 0 { pmpi::request_get_status_all(n, natives, flag, below.pointer()) } else { 0 };
            if code != 0 || (n > 0 && flag.read() == 0) {
                return code;
            }
            flag.write(1);
            for (k, i) in mixed.indices.iter().enumerate() {
                below.copy(k, statuses, *i);
            }
            for ((i, _), completion) in mixed.ours.iter().zip(all) {
                abi::get().write_status(abi::get().status_at(statuses, *i), &completion.status);
            }
            0
        })
    }
}

pub unsafe fn Request_get_status_any(count: usize, array: usize, index: usize, flag: usize, status: usize) -> Answer {
    let (index, flag) = (index as *mut c_int, flag as *mut c_int);
    // SAFETY: the program's arguments; our copies of the native handles.
    unsafe {
        on_array("MPI_Request_get_status_any", count, array, |mut mixed| {
            let abi = abi::get();
            let active = mixed.has_active();
            let hit = look(mixed.node, |core| mixed.ours.iter().find_map(|(i, t)| Some((*i, outcome(core, *t)?))));
            if let Some((i, completion)) = hit {
                flag.write(1);
                index.write(i as c_int);
                abi.write_status(status, &completion.status);
                return 0;
            }
            let (n, natives) = (mixed.native_count(), mixed.natives.as_ptr().cast());
            let mut code = 0;
            index.write(abi.undefined);
            flag.write(1);
            if n > 0 {
                code = pmpi::request_get_status_any(n, natives, index, flag, status as *mut c_void);
            } else if !active {
                abi.write_status(status, &abi.empty_status());
            }
            match usize::try_from(index.read()).ok().and_then(|k| mixed.indices.get(k)) {
                Some(i) => index.write(*i as c_int),
                // None of the native requests is active, but one of ours is.
                None if active => flag.write(0),
                None => {}
            }
            code
        })
    }
}

pub unsafe fn Request_get_status_some(
    count: usize,
    array: usize,
    outcount: usize,
    indices: usize,
    statuses: usize,
) -> Answer {
    let (outcount, indices) = (outcount as *mut c_int, indices as *mut c_int);
    // SAFETY: the program's arrays, as long as that of the requests; our copies of the native handles, and as many
    // statuses.
    unsafe {
        on_array("MPI_Request_get_status_some", count, array, |mut mixed| {
            let active = mixed.has_active();
            let ours: Vec<(usize, Completion)> = look(mixed.node, |core| {
                let done = mixed.ours.iter().filter_map(|(i, t)| Some((*i, outcome(core, *t)?)));
                Some(done.collect::<Vec<_>>()).filter(|done| !done.is_empty())
            })
            .unwrap_or_default();
            let mut below = NativeStatuses::new(mixed.indices.len(), statuses);
            let (n, natives) = (mixed.native_count(), mixed.natives.as_ptr().cast());
            let mut hits = vec![0 as c_int; mixed.indices.len()];
            let (mut found, mut code) = (abi::get().undefined, 0);
            if n > 0 {
                code = pmpi::request_get_status_some(n, natives, &mut found, hits.as_mut_ptr(), below.pointer());
            }
            if found == abi::get().undefined && !active {
                outcount.write(found);
                return code;
            }
            let natives = hits.iter().take(usize::try_from(found).unwrap_or(0)).enumerate();
            for (from, k) in natives.clone() {
                indices.add(from).write(mixed.indices[*k as usize] as c_int);
                below.copy(from, statuses, from);
            }
            let first = natives.len();
            for (k, (i, completion)) in ours.iter().enumerate() {
                indices.add(first + k).write(*i as c_int);
                abi::get().write_status(abi::get().status_at(statuses, first + k), &completion.status);
            }
            outcount.write((first + ours.len()) as c_int);
            code
        })
    }
}
