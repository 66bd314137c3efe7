//! Groups with members in other jobs. The program has tokens for them, since the MPI below knows no such members.
//!
//! Used by the group calls, and by the calls that make or take a group. Invariant: a group of ours has a foreign
//! member; a group without one is a group of the MPI below. Native members are kept as ranks in a native group of the
//! library's own, so that the program may free its groups.

pub mod algebra;
mod native;

pub use native::{Code, NativeGroup};

use crate::abi;
use crate::forward::{self as pmpi, Handle};
use crate::inter::Process;
use crate::token::{self, Backing, Tokens};
use native::done;
use std::ffi::c_int;
use std::sync::{Arc, LazyLock};

/// A process of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Member {
    /// A process of this job, by its rank in the native group.
    Native(c_int),
    Foreign(Process),
}

/// A group: its members in order, and a native group that contains the native ones.
pub struct Group {
    natives: NativeGroup,
    pub members: Vec<Member>,
}

impl Group {
    /// The remote group of an inter-communicator.
    pub fn remote(processes: &[Process]) -> Group {
        let members = processes.iter().map(|process| Member::Foreign(*process)).collect();
        Group { natives: NativeGroup::new(abi::get().group_empty), members }
    }

    pub fn natives(&self) -> Handle {
        self.natives.handle()
    }

    /// The rank of this process, if it is a member. It is a native one: no process is in the remote group of its own
    /// inter-communicators.
    pub fn own_rank(&self) -> Result<Option<c_int>, Code> {
        let mut rank = 0;
        // SAFETY: a live group, our own.
        done(unsafe { pmpi::group_rank(self.natives.handle(), &mut rank) })?;
        Ok(self.members.iter().position(|m| *m == Member::Native(rank)).map(|at| at as c_int))
    }
}

/// A group as a call names it.
pub enum Named {
    Ours(Arc<Group>),
    /// A group of the MPI below, and its size.
    Native(Handle, c_int),
}

/// Why a handle names no group.
pub enum Nameless {
    Null,
    Freed,
    Native(Code),
}

impl Named {
    pub fn of(group: usize) -> Result<Named, Nameless> {
        let abi = abi::get();
        let group = group as Handle & abi.mask;
        // SAFETY: looks at the value only.
        if unsafe { is_token(group as usize) } {
            return find(group).map(Named::Ours).ok_or(Nameless::Freed);
        }
        if group == abi.group_null {
            return Err(Nameless::Null);
        }
        let mut size = 0;
        // SAFETY: the program's group, which the MPI below checks.
        done(unsafe { pmpi::group_size(group, &mut size) }).map_err(Nameless::Native)?;
        Ok(Named::Native(group, size))
    }

    fn natives(&self) -> Handle {
        match self {
            Named::Ours(group) => group.natives(),
            Named::Native(group, _) => *group,
        }
    }

    /// The members, if the native ones have these ranks.
    fn members(&self, ranks: &[c_int]) -> Vec<Member> {
        match self {
            Named::Ours(group) => group.members.iter().map(|m| m.native_by(ranks)).collect(),
            Named::Native(..) => ranks.iter().map(|rank| Member::Native(*rank)).collect(),
        }
    }

    fn native_count(&self) -> c_int {
        match self {
            Named::Ours(group) => group.members.iter().filter(|m| matches!(m, Member::Native(_))).count() as c_int,
            Named::Native(_, size) => *size,
        }
    }
}

impl Member {
    fn native_by(self, ranks: &[c_int]) -> Member {
        match self {
            Member::Native(rank) => Member::Native(ranks[rank as usize]),
            foreign => foreign,
        }
    }
}

/// Two groups whose members can be compared, since the native ones of both are ranks in the same native group.
pub struct Both {
    natives: NativeGroup,
    pub members: [Vec<Member>; 2],
}

impl Both {
    pub fn of(a: &Named, b: &Named) -> Result<Both, Code> {
        // SAFETY: live groups of the MPI's.
        let natives = NativeGroup::made_by(|new| unsafe { pmpi::group_union(a.natives(), b.natives(), new) })?;
        let within = |group: &Named| -> Result<Vec<Member>, Code> {
            Ok(group.members(&natives.ranks_of(group.natives(), group.native_count())?))
        };
        Ok(Both { members: [within(a)?, within(b)?], natives })
    }

    pub fn natives(&self) -> Handle {
        self.natives.handle()
    }
}

/// Why no new group was made.
pub enum NotMade {
    TooMany,
    Native(Code),
}

/// A new group for the program, which is a native one if no member is foreign. Native members are ranks in `natives`.
pub fn make(natives: Handle, members: &[Member]) -> Result<Handle, NotMade> {
    let mut ranks = Vec::new();
    let renumbered: Vec<Member> = members
        .iter()
        .map(|member| match member {
            Member::Native(rank) => {
                ranks.push(*rank);
                Member::Native(ranks.len() as c_int - 1)
            }
            foreign => *foreign,
        })
        .collect();
    let natives = NativeGroup::incl(natives, &ranks).map_err(NotMade::Native)?;
    if ranks.len() == members.len() {
        return Ok(natives.into_handle());
    }
    insert(Group { natives, members: renumbered }).ok_or(NotMade::TooMany)
}

static LIVE: LazyLock<Tokens<Arc<Group>>> = LazyLock::new(|| Tokens::new(abi::get().family.group_token, backing()));

pub fn insert(group: Group) -> Option<u64> {
    LIVE.insert(true, Arc::new(group))
}

pub fn find(token: u64) -> Option<Arc<Group>> {
    LIVE.with(token, |g| g.clone())
}

pub fn remove(token: u64) -> Option<Arc<Group>> {
    LIVE.remove(token)
}

/// # Safety
/// None needed; the mark functions share one form.
#[inline(always)]
pub unsafe fn is_token(value: usize) -> bool {
    token::GROUP.is_on(value)
}

/// # Safety
/// `at` is null or the address of a group.
#[inline(always)]
pub unsafe fn is_token_at(at: usize) -> bool {
    // SAFETY: the caller's promise.
    unsafe { token::GROUP.is_at(at) }
}

/// Where Fortran layers look for the INTEGER of a group.
fn backing() -> Backing {
    token::backing(|integers| integers.group, abi::INTEGER_GROUP)
}

/// A token as an INTEGER of Fortran, for an MPI whose Fortran layer asks for it by a call.
pub fn to_int(token: u64) -> Option<c_int> {
    token::to_int(token, &token::GROUP)
}

pub fn from_int(int: c_int) -> Option<u64> {
    token::from_int(int, &token::GROUP)
}
