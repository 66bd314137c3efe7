//! MPI's own calls for connecting jobs. This library serves them from the first call on, unless
//! `MPI_CONNECT_PORTS=native` is set or MPI_Init did not come through it. A call with a port of the MPI below goes to
//! the MPI below.

use crate::conn::check_intra;
use crate::conn::collective::rank_and_size;
use crate::error::{Place, raise};
use crate::failure::{Class, Failure};
use crate::forward::{CalledAs, Handle};
use crate::inter;
use crate::port::{self, Side, publish, text};
use crate::{abi, error, life};
use base::settings;
use std::ffi::{c_char, c_int};
use std::sync::LazyLock;

/// Whether these calls go to the MPI below.
fn are_native() -> bool {
    static NATIVE: LazyLock<bool> = LazyLock::new(settings::native_ports);
    *NATIVE || !life::passed() || abi::known().is_none()
}

/// The code of a call that belongs to no communicator.
fn code(call: &str, done: Result<(), Failure>) -> c_int {
    match done {
        Ok(()) => 0,
        Err(failure) => raise(Place::world(), &failure.of(call)),
    }
}

fn no_place(what: &str) -> Failure {
    Failure::new(Class::Arg, format!("the place for {what} is a null pointer"))
}

/// Gives the program a port name, if it fits MPI_MAX_PORT_NAME.
unsafe fn hand_out_name(name: &str, at: usize) -> Result<(), Failure> {
    if at == 0 {
        return Err(no_place("the name of the port"));
    }
    debug_assert!(name.len() < abi::get().max_port_name as usize);
    // SAFETY: the program's MPI_MAX_PORT_NAME bytes.
    unsafe {
        let at = at as *mut c_char;
        std::ptr::copy_nonoverlapping(name.as_ptr().cast(), at, name.len());
        at.add(name.len()).write(0);
    }
    Ok(())
}

pub fn Open_port(called_as: CalledAs, info: usize, port_name: usize) -> c_int {
    if are_native() {
        return forward!(called_as, info, port_name);
    }
    let opened = if port_name == 0 { Err(no_place("the name of the port")) } else { port::open(info as Handle) };
    // SAFETY: the program's place.
    code("MPI_Open_port", opened.and_then(|name| unsafe { hand_out_name(&name, port_name) }))
}

pub fn Close_port(called_as: CalledAs, port_name: usize) -> c_int {
    if are_native() {
        return forward!(called_as, port_name);
    }
    // SAFETY: the program's string.
    let name = unsafe { text(port_name) };
    match name {
        Ok(name) if !port::name::is_ours(&name) => forward!(called_as, port_name),
        name => code("MPI_Close_port", name.and_then(|name| port::close(&name))),
    }
}

pub fn Publish_name(called_as: CalledAs, service_name: usize, info: usize, port_name: usize) -> c_int {
    if are_native() {
        return forward!(called_as, service_name, info, port_name);
    }
    // SAFETY: the program's strings.
    let names = unsafe { text(service_name).and_then(|service| Ok((service, text(port_name)?))) };
    code("MPI_Publish_name", names.and_then(|(service, port)| publish::publish(&service, info as Handle, &port)))
}

pub fn Unpublish_name(called_as: CalledAs, service_name: usize, info: usize, port_name: usize) -> c_int {
    if are_native() {
        return forward!(called_as, service_name, info, port_name);
    }
    // SAFETY: the program's strings.
    let names = unsafe { text(service_name).and_then(|service| Ok((service, text(port_name)?))) };
    code("MPI_Unpublish_name", names.and_then(|(service, port)| publish::unpublish(&service, &port)))
}

pub fn Lookup_name(called_as: CalledAs, service_name: usize, info: usize, port_name: usize) -> c_int {
    if are_native() {
        return forward!(called_as, service_name, info, port_name);
    }
    // SAFETY: the program's string, and its place.
    let done = unsafe {
        text(service_name)
            .and_then(|service| publish::lookup(&service))
            .and_then(|name| hand_out_name(&name, port_name))
    };
    code("MPI_Lookup_name", done)
}

pub fn Comm_accept(
    called_as: CalledAs,
    port_name: usize,
    info: usize,
    root: usize,
    comm: usize,
    newcomm: usize,
) -> c_int {
    meet(called_as, Side::Accept, "MPI_Comm_accept", [port_name, info, root, comm, newcomm])
}

pub fn Comm_connect(
    called_as: CalledAs,
    port_name: usize,
    info: usize,
    root: usize,
    comm: usize,
    newcomm: usize,
) -> c_int {
    meet(called_as, Side::Connect, "MPI_Comm_connect", [port_name, info, root, comm, newcomm])
}

fn meet(called_as: CalledAs, side: Side, call: &str, [port_name, info, root, comm, newcomm]: [usize; 5]) -> c_int {
    if let Some(inter) = inter::find(comm as u64) {
        return raise(inter.errors(), &super::instead::unavailable(call));
    }
    if are_native() {
        if side == Side::Connect {
            // SAFETY: the program's name of a port, which counts on the root.
            unsafe { warn_of_ours(port_name, root as c_int, comm as Handle) };
        }
        return forward!(called_as, port_name, info, root, comm, newcomm);
    }
    let handle = comm as Handle & abi::get().mask;
    if let Err(code) = check_intra(abi::get(), call, handle) {
        return code;
    }
    let place = if newcomm == 0 { Err(no_place("the result")) } else { Ok(()) };
    // SAFETY: the program's name of a port, which counts on the root.
    let made = match unsafe { port::meet(side, port_name, info as Handle, root as c_int, handle, place) } {
        Ok(None) => return forward!(called_as, port_name, info, root, comm, newcomm),
        Ok(Some(inter)) => Ok(inter),
        Err(failure) => Err(failure),
    };
    hand_over(call, Place::Comm(handle), made, newcomm)
}

/// Prints a notice if the MPI below is about to be asked for a port that only this library can find, since its error
/// will not say why it fails.
unsafe fn warn_of_ours(port_name: usize, root: c_int, comm: Handle) {
    if !settings::native_ports() || abi::known().is_none() {
        return;
    }
    let is_root = rank_and_size(comm & abi::get().mask).is_ok_and(|(rank, _)| i64::from(rank) == i64::from(root));
    // SAFETY: the caller's promise.
    let name = if is_root { unsafe { text(port_name) } } else { return };
    if let Ok(name) = name.map(|name| publish::whole(&name))
        && port::name::is_ours(&name)
    {
        base::log!(
            Notice,
            "MPI_Comm_connect: port {} was opened by this library, and MPI_CONNECT_PORTS=native leaves ports to the MPI below, \
             which cannot find it: start this job without MPI_CONNECT_PORTS",
            port::name::sign(&name)
        );
    }
}

pub fn Comm_join(called_as: CalledAs, fd: usize, intercomm: usize) -> c_int {
    if are_native() {
        return forward!(called_as, fd, intercomm);
    }
    let made = if intercomm == 0 { Err(no_place("the result")) } else { port::join::join(fd as c_int) };
    hand_over("MPI_Comm_join", Place::Comm(abi::get().comm_self), made, intercomm)
}

fn hand_over(call: &str, place: Place, made: Result<inter::Inter, Failure>, at: usize) -> c_int {
    match made {
        Ok(inter) => {
            // SAFETY: the program's place for a communicator.
            unsafe { super::joined::hand_out(inter, at) };
            0
        }
        Err(failure) => error::raise(place, &failure.of(call)),
    }
}
