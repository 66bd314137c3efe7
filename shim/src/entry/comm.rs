//! Calls about an inter-communicator itself.

use crate::error::{errhandler, raise};
use crate::failure::{Class, Failure};
use crate::forward::{self as pmpi, CalledAs, Handle};
use crate::group::algebra::{self, Likeness};
use crate::group::{Code, NativeGroup};
use crate::inter::Inter;
use crate::process::node;
use crate::spawn::tie;
use crate::wait::wait;
use crate::{abi, attr, buffer, detached, group, inter, request};
use std::ffi::{c_int, c_void};
use std::sync::Arc;

type Answer = Option<c_int>;

pub unsafe fn Comm_test_inter(comm: usize, flag: usize) -> Answer {
    inter::find(comm as u64)?;
    // SAFETY: the program's flag.
    unsafe { (flag as *mut c_int).write(1) };
    Some(0)
}

pub unsafe fn Comm_remote_size(comm: usize, size: usize) -> Answer {
    let inter = inter::find(comm as u64)?;
    // SAFETY: the program's int.
    unsafe { (size as *mut c_int).write(inter.remote.size() as c_int) };
    Some(0)
}

pub unsafe fn Comm_remote_group(comm: usize, at: usize) -> Answer {
    let inter = inter::find(comm as u64)?;
    if let Some(here) = &inter.remote.here {
        let all: Vec<_> = (0..inter.remote.size()).collect();
        // SAFETY: the program's group, of the MPI below.
        unsafe { abi::store_handle(at, here.part(&all).into_handle()) };
        return Some(0);
    }
    let processes = match inter.remote_processes() {
        Ok(processes) => processes,
        Err(failure) => return Some(raise(inter.errors(), &failure.of("MPI_Comm_remote_group"))),
    };
    let Some(token) = group::insert(group::Group::remote(&processes)) else {
        return Some(raise(inter.errors(), &Failure::new(Class::Other, "MPI_Comm_remote_group: too many groups")));
    };
    // SAFETY: the program's group.
    unsafe { abi::store_handle(at, token) };
    Some(0)
}

pub unsafe fn Comm_compare(comm1: usize, comm2: usize, result: usize) -> Answer {
    let abi = abi::get();
    let null = |comm: usize| comm as u64 & abi.mask == abi.comm_null;
    let answer = match (inter::find(comm1 as u64), inter::find(comm2 as u64)) {
        (None, None) => return None,
        (Some(inter), None) | (None, Some(inter)) if null(comm1) || null(comm2) => {
            let failure = Failure::new(Class::Comm, "MPI_Comm_compare: one of them is MPI_COMM_NULL");
            return Some(raise(inter.errors(), &failure));
        }
        (Some(a), Some(b)) => compare(&a, &b),
        (Some(ours), None) => compare_with_native(&ours, comm2 as u64 & abi.mask),
        (None, Some(ours)) => compare_with_native(&ours, comm1 as u64 & abi.mask),
    };
    Some(match answer {
        Ok(answer) => {
            // SAFETY: the program's int.
            unsafe { (result as *mut c_int).write(answer) };
            0
        }
        Err(code) => code,
    })
}

fn compare(a: &Inter, b: &Inter) -> Result<c_int, Code> {
    let abi = abi::get();
    if a.shadow == b.shadow {
        return Ok(abi.ident);
    }
    let mut local = abi.unequal;
    // SAFETY: two live native communicators, plain out-argument.
    let code = unsafe { pmpi::comm_compare(a.shadow, b.shadow, &mut local) };
    if code != 0 {
        return Err(code);
    }
    let of = |inter: &Inter| {
        inter.remote_processes().map_err(|failure| raise(inter.errors(), &failure.of("MPI_Comm_compare")))
    };
    Ok(match algebra::compare(&of(a)?, &of(b)?) {
        Likeness::Unequal => abi.unequal,
        Likeness::Similar if local == abi.congruent => abi.similar,
        _ => local,
    })
}

/// Compares one of ours with a communicator of the MPI below. Only an adopted one has processes that the other may have
/// too.
fn compare_with_native(ours: &Inter, other: Handle) -> Result<c_int, Code> {
    let abi = abi::get();
    let mut is_inter = 0;
    // SAFETY: a live communicator, plain out-argument.
    unsafe { pmpi::comm_test_inter(other, &mut is_inter) };
    let Some(here) = ours.remote.here.as_ref().filter(|_| is_inter != 0) else { return Ok(abi.unequal) };
    let local = NativeGroup::of(ours.shadow)?.compare(&NativeGroup::of(other)?)?;
    let remote = here.compare(&NativeGroup::remote_of(other)?)?;
    Ok(match [local, remote] {
        both if both.contains(&abi.unequal) => abi.unequal,
        both if both.contains(&abi.similar) => abi.similar,
        _ => abi.congruent,
    })
}

/// MPI_TAG_UB is the smaller one of both sides'. All other attributes are the shadow's own.
unsafe fn get_attr(comm: usize, keyval: usize, value: usize, flag: usize) -> Answer {
    let inter = inter::find(comm as u64)?;
    if keyval as c_int != abi::get().tag_ub {
        return None;
    }
    // SAFETY: the program's pointer and flag; the int lives as long as the inter-communicator.
    unsafe {
        (value as *mut *const c_void).write((&raw const *inter.tag_ub).cast());
        (flag as *mut c_int).write(1);
    }
    Some(0)
}

pub unsafe fn Comm_get_attr(comm: usize, keyval: usize, value: usize, flag: usize) -> Answer {
    // SAFETY: the caller's arguments.
    unsafe { get_attr(comm, keyval, value, flag) }
}

pub unsafe fn Attr_get(comm: usize, keyval: usize, value: usize, flag: usize) -> Answer {
    // SAFETY: the caller's arguments.
    unsafe { get_attr(comm, keyval, value, flag) }
}

/// The name is the shadow's.
pub unsafe fn Comm_set_name(comm: usize, _name: usize) -> Answer {
    inter::find(comm as u64)?.set_named();
    None
}

/// So are attributes and hints.
pub fn Comm_set_attr(called_as: CalledAs, comm: usize, keyval: usize, value: usize) -> c_int {
    attr::note_set();
    if let Some(inter) = inter::find(comm as u64) {
        inter.set_altered();
    }
    forward!(called_as, comm, keyval, value)
}

pub fn Attr_put(called_as: CalledAs, comm: usize, keyval: usize, value: usize) -> c_int {
    Comm_set_attr(called_as, comm, keyval, value)
}

pub unsafe fn Comm_set_info(comm: usize, _info: usize) -> Answer {
    inter::find(comm as u64)?.set_altered();
    None
}

pub unsafe fn Comm_free(at: usize) -> Answer {
    // SAFETY: the program's handle, which the check found ours or of the same hash.
    let inter = inter::find(unsafe { abi::load_handle(at) })?;
    // SAFETY: as above.
    Some(unsafe { free(&inter, at) })
}

/// Waits for all pending operations, and frees the inter-communicator.
pub unsafe fn Comm_disconnect(at: usize) -> Answer {
    // SAFETY: the program's handle, which the check found ours or of the same hash.
    let inter = inter::find(unsafe { abi::load_handle(at) })?;
    match node() {
        Ok(node) => {
            let about = |core: &mut node::Core| Some(request::about_inter(&inter, core, "MPI_Comm_disconnect"));
            wait(node, &about, |core| {
                (request::all_complete(&inter, core) && detached::all_complete(&inter, core)).then_some(())
            })
        }
        Err(failure) => return Some(raise(inter.errors(), &failure)),
    }
    // SAFETY: as above.
    let code = unsafe { free(&inter, at) };
    if code == 0 {
        tie::disconnected(inter.id);
    }
    Some(code)
}

unsafe fn free(inter: &Arc<Inter>, at: usize) -> c_int {
    let handler = errhandler(inter.shadow);
    let mut shadow = inter.shadow;
    let abi = abi::get();
    inter.set_ending(true);
    let returned = inter.returned_shadow();
    let code = if returned.is_some() {
        shadow = abi.comm_null;
        0
    } else {
        // The program's delete callbacks run during this call. They may use the inter-communicator, and one of them may
        // fail. SAFETY: a live native communicator, freed once.
        unsafe { pmpi::comm_free(&mut shadow) }
    };
    // LAM frees the communicator even if a callback fails.
    let freed = code == 0 || shadow & abi.mask == abi.comm_null;
    match handler {
        Some(handler) if freed => inter.orphan(handler),
        Some(mut handler) => {
            // SAFETY: our own reference, given up once.
            unsafe { pmpi::errhandler_free(&mut handler) };
        }
        None => {}
    }
    if freed {
        if let Some(mut twin) = inter.twin() {
            // SAFETY: the MPI's own, which ends with ours.
            unsafe { pmpi::comm_free(&mut twin) };
        }
        // Requests may hold the inter-communicator beyond this.
        inter::remove(inter);
        // From here on, another inter-communicator may have it.
        drop(returned);
        buffer::detach(Some(inter.id));
        detached::sweep();
    } else {
        inter.set_ending(false);
    }
    // SAFETY: the program's handle.
    unsafe { abi::store_handle(at, shadow) };
    code
}
