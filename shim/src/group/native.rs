//! Groups of the MPI below that belong to the library, and are freed when dropped.

use crate::abi;
use crate::forward::{self as pmpi, Handle};
use std::ffi::c_int;

/// The error code of a call that failed in the MPI below, which has called the error handler.
pub type Code = c_int;

pub fn done(code: Code) -> Result<(), Code> {
    if code == 0 { Ok(()) } else { Err(code) }
}

/// A group of the MPI below that belongs to the library.
#[derive(Debug)]
pub struct NativeGroup(Handle);

impl NativeGroup {
    /// Takes over a reference to a group.
    pub fn new(group: Handle) -> NativeGroup {
        NativeGroup(group)
    }

    /// The group that a call of the MPI below makes.
    pub fn made_by(call: impl FnOnce(&mut Handle) -> Code) -> Result<NativeGroup, Code> {
        let mut group = 0;
        done(call(&mut group))?;
        Ok(NativeGroup(group & abi::get().mask))
    }

    /// The group of a communicator; of an inter-communicator the local one.
    pub fn of(comm: Handle) -> Result<NativeGroup, Code> {
        // SAFETY: a live communicator.
        NativeGroup::made_by(|new| unsafe { pmpi::comm_group(comm, new) })
    }

    /// The remote group of an inter-communicator of the MPI below.
    pub fn remote_of(comm: Handle) -> Result<NativeGroup, Code> {
        // SAFETY: a live inter-communicator.
        NativeGroup::made_by(|new| unsafe { pmpi::comm_remote_group(comm, new) })
    }

    /// The members with these ranks in a group, in this order. The ranks have to differ.
    pub fn incl(group: Handle, ranks: &[c_int]) -> Result<NativeGroup, Code> {
        // SAFETY: a live group and ranks in it.
        NativeGroup::made_by(|new| unsafe { pmpi::group_incl(group, ranks.len() as c_int, ranks.as_ptr(), new) })
    }

    pub fn handle(&self) -> Handle {
        self.0
    }

    /// The handle, for the program, which has to free it.
    pub fn into_handle(self) -> Handle {
        std::mem::ManuallyDrop::new(self).0
    }

    /// The ranks in this group of the first `count` members of another group.
    pub fn ranks_of(&self, other: Handle, count: c_int) -> Result<Vec<c_int>, Code> {
        let theirs: Vec<c_int> = (0..count).collect();
        let mut here = theirs.clone();
        // SAFETY: live groups; ranks of the other, and room for as many.
        done(unsafe { pmpi::group_translate_ranks(other, count, theirs.as_ptr(), self.0, here.as_mut_ptr()) })?;
        Ok(here)
    }

    /// The result of MPI_Group_compare.
    pub fn compare(&self, other: &NativeGroup) -> Result<c_int, Code> {
        let mut answer = 0;
        // SAFETY: two live groups, plain out-argument.
        done(unsafe { pmpi::group_compare(self.0, other.0, &mut answer) })?;
        Ok(answer)
    }

    /// The members with these ranks, in this order. MPI_GROUP_NULL: the MPI below has failed.
    pub fn part(&self, ranks: &[u32]) -> NativeGroup {
        let ranks: Vec<c_int> = ranks.iter().map(|rank| *rank as c_int).collect();
        NativeGroup::incl(self.0, &ranks).unwrap_or(NativeGroup(abi::get().group_null))
    }
}

impl Drop for NativeGroup {
    fn drop(&mut self) {
        let abi = abi::get();
        // MPI_GROUP_EMPTY is predefined and must not be freed.
        if self.0 != abi.group_empty && self.0 != abi.group_null {
            // SAFETY: our own reference, given up once.
            unsafe { pmpi::group_free(&mut self.0) };
        }
    }
}
