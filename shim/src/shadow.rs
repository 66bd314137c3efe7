//! Shadows that come back: the shadow of an inter-communicator that the program has freed serves the next one that is made
//! over the same communicator, since the MPI below needs many messages to make a communicator.
//!
//! Invariant: a shadow in a pool is as it was made: nothing of the program hangs on it, and errors on it only return.

use crate::exports::object::Object;
use crate::forward::{self as pmpi, Handle};
use crate::{abi, progress};
use std::ffi::CStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A shadow of a pool. When it is dropped, it goes back there.
pub struct Shadow {
    pub handle: Handle,
    /// The same number on all processes.
    pub number: u32,
    pool: Option<Arc<Pool>>,
}

impl Shadow {
    /// It does not go back: the MPI below frees it.
    pub fn forget(mut self) {
        self.pool = None;
    }
}

impl Drop for Shadow {
    fn drop(&mut self) {
        if let Some(pool) = &self.pool {
            pool.put(self.number, self.handle);
        }
    }
}

/// The shadows over one communicator that no inter-communicator has.
#[derive(Default)]
pub struct Pool(Mutex<Spare>);

#[derive(Default)]
struct Spare {
    shadows: Vec<(u32, Handle)>,
    is_over: bool,
}

/// The most shadows that a pool keeps.
const MOST: usize = 4;

impl Pool {
    /// Takes all out.
    pub fn take(self: &Arc<Pool>) -> Vec<Shadow> {
        let shadows = std::mem::take(&mut self.spare().shadows);
        shadows.into_iter().map(|(number, handle)| self.shadow(number, handle)).collect()
    }

    /// A new shadow, for this pool.
    pub fn shadow(self: &Arc<Pool>, number: u32, handle: Handle) -> Shadow {
        Shadow { handle, number, pool: Some(self.clone()) }
    }

    fn put(&self, number: u32, handle: Handle) {
        let mut spare = self.spare();
        // SAFETY: our own communicator, which nothing else uses.
        let keeps = !spare.is_over && spare.shadows.len() < MOST && unsafe { progress::errors_return(handle) } == 0;
        if keeps {
            spare.shadows.push((number, handle));
        } else {
            drop(spare);
            free(handle);
        }
    }

    /// Frees all. Shadows that come later are freed too.
    pub fn end(&self) {
        let shadows = {
            let mut spare = self.spare();
            spare.is_over = true;
            std::mem::take(&mut spare.shadows)
        };
        shadows.into_iter().for_each(|(_, handle)| free(handle));
    }

    fn spare(&self) -> MutexGuard<'_, Spare> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn free(mut handle: Handle) {
    // SAFETY: our own communicator, freed once.
    unsafe { pmpi::comm_free(&mut handle) };
}

/// Whether the entries see all attributes that are set. The Fortran bindings of most MPIs set theirs by no function that
/// the entries know.
pub fn sees_attributes() -> bool {
    const OF_FORTRAN: &CStr = c"mpi_comm_set_attr_";
    abi::get().family.calls_itself || !Object::loaded().iter().any(|object| object.has(OF_FORTRAN))
}
