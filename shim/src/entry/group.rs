//! The group calls, for groups with members in other jobs. Calls on native groups alone do not come here.

use crate::abi;
use crate::error::{Place, raise};
use crate::failure::{Class, Failure};
use crate::forward::Handle;
use crate::group::algebra::{self, Likeness, Wrong};
use crate::group::{self, Both, Group, Member, Named, Nameless, NotMade};
use std::ffi::c_int;
use std::sync::Arc;

type Answer = Option<c_int>;

/// Why a call fails.
enum Fault {
    Ours(Class, String),
    /// The MPI below has failed with this code, and has called the error handler.
    Native(c_int),
}

impl From<Nameless> for Fault {
    fn from(why: Nameless) -> Fault {
        match why {
            Nameless::Null => Fault::Ours(Class::Group, "a group is MPI_GROUP_NULL".into()),
            Nameless::Freed => Fault::Ours(Class::Group, "this group has been freed".into()),
            Nameless::Native(code) => Fault::Native(code),
        }
    }
}

impl From<NotMade> for Fault {
    fn from(why: NotMade) -> Fault {
        match why {
            NotMade::TooMany => Fault::Ours(Class::Other, "too many groups".into()),
            NotMade::Native(code) => Fault::Native(code),
        }
    }
}

impl From<Wrong> for Fault {
    fn from(wrong: Wrong) -> Fault {
        match wrong {
            Wrong::NoRank(rank) => Fault::Ours(Class::Rank, format!("the group has no rank {rank}")),
            Wrong::Twice(rank) => Fault::Ours(Class::Rank, format!("rank {rank} is named twice")),
            Wrong::Overlap(rank) => Fault::Ours(Class::Arg, format!("rank {rank} is in more than one range")),
            Wrong::Endless([first, last, stride]) => {
                Fault::Ours(Class::Arg, format!("no steps of {stride} lead from rank {first} to {last}"))
            }
            Wrong::Beyond([first, last, stride]) => {
                Fault::Ours(Class::Arg, format!("the range {first} to {last} by {stride} leaves the group"))
            }
        }
    }
}

fn answer(call: &str, work: impl FnOnce() -> Result<(), Fault>) -> Answer {
    Some(match work() {
        Ok(()) => 0,
        Err(Fault::Ours(class, text)) => raise(Place::world(), &Failure::new(class, format!("{call}: {text}"))),
        Err(Fault::Native(code)) => code,
    })
}

/// The group of ours that a call on a single group names.
fn ours(group: usize) -> Result<Arc<Group>, Fault> {
    Ok(group::find(group as Handle).ok_or(Nameless::Freed)?)
}

fn both(group1: usize, group2: usize) -> Result<Both, Fault> {
    Both::of(&Named::of(group1)?, &Named::of(group2)?).map_err(Fault::Native)
}

/// The `count` elements of an array.
unsafe fn array<'a, T>(at: usize, count: usize) -> Result<&'a [T], Fault> {
    match usize::try_from(count as c_int) {
        Err(_) => Err(Fault::Ours(Class::Arg, "the count is negative".into())),
        Ok(0) => Ok(&[]),
        Ok(_) if at == 0 => Err(Fault::Ours(Class::Arg, "the array is a null pointer".into())),
        // SAFETY: the caller's array.
        Ok(count) => Ok(unsafe { std::slice::from_raw_parts(at as *const T, count) }),
    }
}

// ----------------------------------------------------------------------------------------------------------- questions

pub unsafe fn Group_size(group: usize, size: usize) -> Answer {
    answer("MPI_Group_size", || {
        let count = ours(group)?.members.len() as c_int;
        // SAFETY: the program's int.
        unsafe { (size as *mut c_int).write(count) };
        Ok(())
    })
}

pub unsafe fn Group_rank(group: usize, rank: usize) -> Answer {
    answer("MPI_Group_rank", || {
        let found = ours(group)?.own_rank().map_err(Fault::Native)?;
        // SAFETY: the program's int.
        unsafe { (rank as *mut c_int).write(found.unwrap_or(abi::get().undefined)) };
        Ok(())
    })
}

pub unsafe fn Group_compare(group1: usize, group2: usize, result: usize) -> Answer {
    answer("MPI_Group_compare", || {
        let abi = abi::get();
        let both = both(group1, group2)?;
        let likeness = match algebra::compare(&both.members[0], &both.members[1]) {
            Likeness::Ident => abi.ident,
            Likeness::Similar => abi.similar,
            Likeness::Unequal => abi.unequal,
        };
        // SAFETY: the program's int.
        unsafe { (result as *mut c_int).write(likeness) };
        Ok(())
    })
}

pub unsafe fn Group_translate_ranks(group1: usize, n: usize, ranks1: usize, group2: usize, ranks2: usize) -> Answer {
    answer("MPI_Group_translate_ranks", || {
        let abi = abi::get();
        let both = both(group1, group2)?;
        let [from, to] = &both.members;
        // SAFETY: the caller's array.
        let ranks = unsafe { array::<c_int>(ranks1, n) }?;
        if ranks2 == 0 && !ranks.is_empty() {
            return Err(Fault::Ours(Class::Arg, "the place for the ranks is a null pointer".into()));
        }
        let nobody = |rank: &c_int| *rank == abi.proc_null;
        let asked = ranks.iter().filter(|rank| !nobody(rank)).map(|rank| algebra::rank(*rank, from.len()));
        let asked: Vec<usize> = asked.collect::<Result<_, _>>()?;
        let mut found = algebra::translate(asked.into_iter().map(|rank| from[rank]), to);
        let there: Vec<c_int> = ranks
            .iter()
            .map(|rank| match rank {
                rank if nobody(rank) => abi.proc_null,
                _ => found.next().flatten().map_or(abi.undefined, |rank| rank as c_int),
            })
            .collect();
        // SAFETY: the program's array, of as many; it may be the first one.
        unsafe { std::ptr::copy_nonoverlapping(there.as_ptr(), ranks2 as *mut c_int, there.len()) };
        Ok(())
    })
}

// ---------------------------------------------------------------------------------------------------------- new groups

/// Gives the program a group of these members; native ones are ranks in `natives`.
unsafe fn give(natives: Handle, members: &[Member], at: usize) -> Result<(), Fault> {
    let made = group::make(natives, members)?;
    // SAFETY: the program's group.
    unsafe { abi::store_handle(at, made) };
    Ok(())
}

type Operation = fn(&[Member], &[Member]) -> Vec<Member>;

unsafe fn combine(call: &str, group1: usize, group2: usize, operation: Operation, at: usize) -> Answer {
    answer(call, || {
        let both = both(group1, group2)?;
        // SAFETY: the caller's place.
        unsafe { give(both.natives(), &operation(&both.members[0], &both.members[1]), at) }
    })
}

pub unsafe fn Group_union(group1: usize, group2: usize, newgroup: usize) -> Answer {
    // SAFETY: the caller's arguments.
    unsafe { combine("MPI_Group_union", group1, group2, algebra::union, newgroup) }
}

pub unsafe fn Group_intersection(group1: usize, group2: usize, newgroup: usize) -> Answer {
    // SAFETY: the caller's arguments.
    unsafe { combine("MPI_Group_intersection", group1, group2, algebra::intersection, newgroup) }
}

pub unsafe fn Group_difference(group1: usize, group2: usize, newgroup: usize) -> Answer {
    // SAFETY: the caller's arguments.
    unsafe { combine("MPI_Group_difference", group1, group2, algebra::difference, newgroup) }
}

type Choice = fn(&[Member], &[usize]) -> Vec<Member>;

unsafe fn choose<T: 'static>(
    call: &str,
    group: usize,
    (list, n): (usize, usize),
    read: fn(&[T], usize) -> Result<Vec<usize>, Wrong>,
    choice: Choice,
    at: usize,
) -> Answer {
    answer(call, || {
        let group = ours(group)?;
        // SAFETY: the caller's array.
        let ranks = read(unsafe { array(list, n) }?, group.members.len())?;
        // SAFETY: the caller's place.
        unsafe { give(group.natives(), &choice(&group.members, &ranks), at) }
    })
}

pub unsafe fn Group_incl(group: usize, n: usize, ranks: usize, newgroup: usize) -> Answer {
    // SAFETY: the caller's arguments.
    unsafe { choose("MPI_Group_incl", group, (ranks, n), algebra::ranks, algebra::incl, newgroup) }
}

pub unsafe fn Group_excl(group: usize, n: usize, ranks: usize, newgroup: usize) -> Answer {
    // SAFETY: the caller's arguments.
    unsafe { choose("MPI_Group_excl", group, (ranks, n), algebra::ranks, algebra::excl, newgroup) }
}

pub unsafe fn Group_range_incl(group: usize, n: usize, ranges: usize, newgroup: usize) -> Answer {
    // SAFETY: the caller's arguments.
    unsafe { choose("MPI_Group_range_incl", group, (ranges, n), algebra::ranges, algebra::incl, newgroup) }
}

pub unsafe fn Group_range_excl(group: usize, n: usize, ranges: usize, newgroup: usize) -> Answer {
    // SAFETY: the caller's arguments.
    unsafe { choose("MPI_Group_range_excl", group, (ranges, n), algebra::ranges, algebra::excl, newgroup) }
}

pub unsafe fn Group_free(at: usize) -> Answer {
    answer("MPI_Group_free", || {
        // SAFETY: the check found a token there.
        let token = unsafe { abi::load_handle(at) };
        group::remove(token).ok_or(Nameless::Freed)?;
        // SAFETY: the program's handle.
        unsafe { abi::store_handle(at, abi::get().group_null) };
        Ok(())
    })
}
