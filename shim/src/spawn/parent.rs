//! The parents of a job that MPI_Comm_spawn has started: joined in MPI_Init, found by MPI_Comm_get_parent.

use crate::conn::bounds::timeout;
use crate::failure::{Class, Failure};
use crate::forward::{self as pmpi, Handle};
use crate::inter::{self, Inter};
use crate::{abi, port};
use base::settings::PARENT;
use node::InterId;
use std::sync::{Mutex, PoisonError};

static PARENTS: Mutex<Option<(Handle, InterId)>> = Mutex::new(None);

/// Joins the parents, if there are any. Collective over MPI_COMM_WORLD.
pub fn join() -> Option<Result<Inter, Failure>> {
    let name = std::env::var(PARENT).ok().filter(|name| !name.trim().is_empty())?;
    // What this process starts has other parents, or none. SAFETY: a terminated name; MPI starts before the program's threads
    // read the environment, as for what the MPI itself sets.
    unsafe { libc::unsetenv(c"MPI_CONNECT_PARENT".as_ptr()) };
    let made = port::meet_by("MPI_Init", 0, abi::get().comm_world, Ok(()), || {
        port::to_port(port::publish::whole(&name), timeout()?)
    });
    let made = made.and_then(|inter| inter.ok_or_else(|| Failure::new(Class::Intern, "the port is the MPI's own")));
    Some(made.inspect(|inter| {
        // SAFETY: a live communicator, a terminated name.
        unsafe { pmpi::comm_set_name(inter.shadow, c"MPI_COMM_PARENT".as_ptr()) };
        inter.set_altered();
    }))
}

/// The inter-communicator is the program's now.
pub fn set(shadow: Handle, id: InterId) {
    *PARENTS.lock().unwrap_or_else(PoisonError::into_inner) = Some((shadow, id));
}

/// The inter-communicator with the parents, until it is freed.
pub fn get() -> Option<Handle> {
    let (shadow, id) = (*PARENTS.lock().unwrap_or_else(PoisonError::into_inner))?;
    inter::find(shadow).filter(|inter| inter.id == id).map(|_| shadow)
}
