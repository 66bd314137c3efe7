//! What the library keeps of a communicator over which jobs are joined: a copy of it, over which the processes decide,
//! and shadows for inter-communicators.
//!
//! It goes when the program frees its communicator, or in MPI_Finalize. Invariant: all processes count the joins over a
//! communicator alike, so the numbers of joins, and of the shadows that they make, mean the same everywhere.

use super::collective::{Team, copy, decode, encode, failed, native, of_all, or_free, rank_and_size};
use super::directory;
use super::expected::Expected;
use super::tree::Talk;
use crate::abi::{self, Abi};
use crate::attr;
use crate::failure::{Class, Failure};
use crate::forward::{self as pmpi, Handle, library};
use crate::life::{self, Part};
use crate::progress;
use crate::shadow::{Pool, Shadow};
use base::Family;
use base::bytes::{Put, Take};
use base::ident::random;
use node::{Node, public_number};
use std::collections::HashMap;
use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, OnceLock, PoisonError};

/// A communicator over which jobs are joined.
pub struct Kept {
    /// The copy. The leader of a join may be another process.
    pub team: Team,
    /// How many joins have begun.
    joins: AtomicU32,
    /// What the numbers of groups are made from, the same on all processes.
    secret: Vec<u8>,
    pool: Arc<Pool>,
    by: By,
}

/// By which call of the MPI below our communicators are made: of those that processes name, the last one here is taken.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    /// MPI_Comm_idup.
    Idup,
    /// MPI_Comm_create for the copy of the program's communicator, whose duplicate would run its callbacks or have its hints, and then
    /// MPI_Comm_idup.
    CreateFirst,
    /// MPI_Comm_create. In MPICH 5 a process may stand still in MPI_Comm_idup if several of its threads call it at a time, each with a
    /// communicator of its own; a program of MPI alone did so once in some thousand starts.
    Create,
}

impl By {
    fn own(abi: &Abi) -> By {
        if may_hang_in_idup(abi) {
            By::Create
        } else if !attr::may_be_copied() && (abi.family.which == Family::OpenMpi || takes_hints()) {
            By::Idup
        } else {
            By::CreateFirst
        }
    }
}

/// Whether this is MPICH, or may be, and several threads may call it.
fn may_hang_in_idup(abi: &Abi) -> bool {
    let mut level = 0;
    let is_mpich = || matches!(abi.family.which, Family::Mpich | Family::Standard);
    // SAFETY: a plain out-argument.
    is_mpich() && unsafe { pmpi::query_thread(&mut level) } == 0 && level == abi.thread_multiple
}

/// No number of a shadow, in what the leader tells: there is none, or it has to be made first.
const NONE: u32 = u32::MAX;
const MAKE: u32 = u32::MAX - 1;

/// The tags of joins, of which each has its own. MPI promises this many. Other decisions have tag 0.
const FIRST_TAG: u32 = 1;
const TAGS: u32 = 32_000;

impl Kept {
    /// Keeps a copy of a communicator, and a shadow. Collective over it; `call` is the program's. While the MPI below makes the shadow,
    /// `meanwhile` is done with the copy.
    pub fn new<T>(
        abi: &Abi,
        node: Option<&Node>,
        call: &'static str,
        comm: Handle,
        meanwhile: impl FnOnce(&Team) -> T,
    ) -> Result<(Kept, T), Failure> {
        let (team, by) = copy_of(abi, node, call, comm)?;
        let talk = Talk { abi, node, team: &team, tag: 0, call: None };
        let pool = Arc::new(Pool::default());
        let (first, done) = one_more(&talk, by, || {
            let secret = talk.down(team.is_led_here().then(|| random::<32>().to_vec()))?;
            Ok((secret, meanwhile(&team)))
        });
        // If the MPI below makes no more communicators, the joins say so.
        if let Ok(first) = first {
            drop(pool.shadow(0, first));
        }
        let (secret, done) = or_free(abi, team.comm, done)?;
        Ok((Kept { team, joins: AtomicU32::new(0), secret, pool, by }, done))
    }

    pub fn copy(&self) -> Handle {
        self.team.comm
    }

    /// Begins a join. Each process begins the joins over one communicator in the same order.
    pub fn begin(&self, call: &'static str, leader: u32) -> Join<'_> {
        let number = 1 + self.joins.fetch_add(1, Ordering::Relaxed) % (MAKE - 1);
        // Nothing else is to take the spare shadows meanwhile.
        Join { kept: self, call, number, team: Team { leader, ..self.team }, spare: self.pool.take() }
    }

    /// Frees the copy, unless it is needed in MPI_Finalize, and the shadows that no inter-communicator has.
    pub fn end(&self) -> c_int {
        self.pool.end();
        if directory::keeps(&self.team) {
            return 0;
        }
        // SAFETY: our own communicator, freed once, by all of its members.
        unsafe { pmpi::comm_free(&mut { self.team.comm }) }
    }
}

/// A copy of the program's communicator, when all of its processes have come. `call` is the program's. Where many processes share
/// few processors, a blocking call of an MPI that polls takes them from each other; so all is asked for without blocking where it may: see
/// [`By`].
fn copy_of(abi: &Abi, node: Option<&Node>, call: &'static str, comm: Handle) -> Result<(Team, By), Failure> {
    if !has(c"PMPI_Iallreduce") {
        let _expected = Expected::begin(call, comm);
        return Ok((copy(abi, comm, 0)?, By::CreateFirst));
    }
    let (rank, size) = rank_and_size(comm)?;
    let team = Team { comm, rank, size, leader: 0 };
    let talk = Talk { abi, node, team: &team, tag: 0, call: None };
    let (own, mut last, mut request) = (By::own(abi) as c_int, 0, abi.request_null);
    let (from, to) = ((&raw const own).cast(), (&raw mut last).cast());
    // SAFETY: one int in, one out, which stay until the request is complete.
    let begun = unsafe { pmpi::iallreduce(from, to, 1, abi.int, abi.max, comm, &mut request) };
    // If one of these ranks is the one that is late, the other one says so.
    talk.complete("MPI_Iallreduce", begun, &mut [request], (rank < 2).then_some(call))?;
    let by = [By::Idup, By::CreateFirst].into_iter().find(|by| *by as c_int == last).unwrap_or(By::Create);
    if by != By::Idup {
        return Ok((copy(abi, comm, 0)?, by));
    }
    let new = duplicate(&talk, || ()).0?;
    // SAFETY: our own communicator.
    native("MPI_Comm_set_errhandler", unsafe { progress::errors_return(new) })?;
    Ok((Team { comm: new, ..team }, by))
}

/// Another communicator of the processes of one of ours, which has no attributes. `meanwhile` is done while the MPI below makes it, or
/// before.
fn one_more<T>(talk: &Talk<'_>, by: By, meanwhile: impl FnOnce() -> T) -> (Result<Handle, Failure>, T) {
    if by != By::Create {
        return duplicate(talk, meanwhile);
    }
    let done = meanwhile();
    (copy(talk.abi, talk.team.comm, 0).map(|team| team.comm), done)
}

/// Whether the MPI below has a function of this name.
fn has(name: &CStr) -> bool {
    library().is_some_and(|mpi| mpi.symbol(name).is_some())
}

/// Whether the MPI below lets a nonblocking duplicate have no hints.
fn takes_hints() -> bool {
    static THERE: LazyLock<bool> = LazyLock::new(|| has(c"PMPI_Comm_idup_with_info"));
    *THERE
}

/// A duplicate of a communicator that has no attributes. `meanwhile` is done while the MPI below makes it. That of Open MPI has no
/// hints, and so has one that is asked for with none.
fn duplicate<T>(talk: &Talk<'_>, meanwhile: impl FnOnce() -> T) -> (Result<Handle, Failure>, T) {
    let (mut new, mut request) = (talk.abi.comm_null, talk.abi.request_null);
    // SAFETY: a live communicator; the places stay until the request is complete.
    let begun = unsafe {
        match takes_hints() {
            true => pmpi::comm_idup_with_info(talk.team.comm, talk.abi.info_null, &mut new, &mut request),
            false => pmpi::comm_idup(talk.team.comm, &mut new, &mut request),
        }
    };
    let done = meanwhile();
    let made = talk.complete("MPI_Comm_idup", begun, &mut [request], None).and_then(|()| match new & talk.abi.mask {
        new if new == talk.abi.comm_null => Err(failed("MPI_Comm_idup", 0)),
        new => Ok(new),
    });
    (made, done)
}

/// A join, on one process.
pub struct Join<'a> {
    kept: &'a Kept,
    call: &'static str,
    number: u32,
    pub team: Team,
    spare: Vec<Shadow>,
}

impl Join<'_> {
    /// The incarnation and the cookie of a group for this join: the same on all processes, and known to nobody else.
    pub fn group(&self) -> (u64, [u8; 16]) {
        let number = |which: u8| {
            let mut seed = self.kept.secret.clone();
            seed.put_u32(self.number);
            seed.put_u8(which);
            public_number("mpi-connect group", &seed)
        };
        let mut cookie = [0; 16];
        cookie[..8].copy_from_slice(&number(1).to_le_bytes());
        cookie[8..].copy_from_slice(&number(2).to_le_bytes());
        (number(0), cookie)
    }

    /// A decision, as [`super::collective::decide`] makes one. With the verdict comes a shadow, the same on all processes.
    pub fn decide(
        mut self,
        abi: &Abi,
        node: Option<&Node>,
        own: Result<Vec<u8>, Failure>,
        decided: impl FnOnce(Result<Vec<u8>, Failure>) -> Result<Vec<u8>, Failure>,
    ) -> Result<(Vec<u8>, Shadow), Failure> {
        let (team, tag) = (self.team, FIRST_TAG + self.number % TAGS);
        let talk = Talk { abi, node, team: &team, tag: tag as c_int, call: Some(self.call) };
        let all = talk.up(self.handed_in(&own))?;
        // Before anything is said to the other job, there has to be a shadow.
        let makes = || chosen(&all) == NONE && of_all(&bodies(&all)).is_ok();
        let (own, told) = if team.is_led_here() && !makes() {
            (own, talk.down(Some(verdict(&all, decided)))?)
        } else {
            let told = talk.down(team.is_led_here().then(|| MAKE.to_le_bytes().to_vec()))?;
            if told != MAKE.to_le_bytes() {
                (own, told)
            } else {
                let made = one_more(&talk, self.kept.by, || ()).0;
                let made = made.map(|new| self.spare.push(self.kept.pool.shadow(self.number, new)));
                let own = own.and_then(|own| made.map(|()| own));
                let all = talk.up(self.handed_in(&own))?;
                let told = talk.down(team.is_led_here().then(|| verdict(&all, decided)))?;
                (own, told)
            }
        };
        own?;
        let mut told = Take(&told);
        let number = told.u32().unwrap_or(NONE);
        let told = decode(told.rest())?;
        let lost = || Failure::new(Class::Intern, "the leader has chosen a shadow that is not there");
        let at = self.spare.iter().position(|shadow| shadow.number == number).ok_or_else(lost)?;
        Ok((told, self.spare.swap_remove(at)))
    }

    /// What this process hands in: the numbers of its spare shadows, and what is its own.
    fn handed_in(&self, own: &Result<Vec<u8>, Failure>) -> Vec<u8> {
        let mut message = vec![];
        message.put_u8(self.spare.len() as u8);
        self.spare.iter().for_each(|shadow| message.put_u32(shadow.number));
        message.extend_from_slice(&encode(own.clone()));
        message
    }
}

/// The numbers of a process's spare shadows, and what else it has handed in.
fn parts(message: &[u8]) -> (Vec<u32>, &[u8]) {
    let mut message = Take(message);
    let count = message.u8().unwrap_or_default();
    let numbers = (0..count).map_while(|_| message.u32().ok()).collect();
    (numbers, message.rest())
}

fn bodies(all: &[Vec<u8>]) -> Vec<&[u8]> {
    all.iter().map(|message| parts(message).1).collect()
}

/// The first shadow that all processes have.
fn chosen(all: &[Vec<u8>]) -> u32 {
    let mut numbers = all.iter().map(|message| parts(message).0);
    let first = numbers.next().unwrap_or_default();
    let common = numbers.fold(first, |mut common, of| {
        common.retain(|number| of.contains(number));
        common
    });
    common.into_iter().min().unwrap_or(NONE)
}

/// What the leader tells: the shadow, and the verdict.
fn verdict(all: &[Vec<u8>], decided: impl FnOnce(Result<Vec<u8>, Failure>) -> Result<Vec<u8>, Failure>) -> Vec<u8> {
    let mut told = chosen(all).to_le_bytes().to_vec();
    told.extend_from_slice(&encode(decided(of_all(&bodies(all)))));
    told
}

// ------------------------------------------------------------------------------- communicators of the program's

/// By the program's communicator.
static TABLE: LazyLock<Mutex<HashMap<Handle, Arc<Kept>>>> = LazyLock::new(Mutex::default);

fn table() -> MutexGuard<'static, HashMap<Handle, Arc<Kept>>> {
    TABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is kept of a communicator of the program's, until the program frees that. Collective over it.
pub fn of(abi: &Abi, node: Option<&Node>, call: &'static str, comm: Handle) -> Result<Arc<Kept>, Failure> {
    let found = table().get(&comm).cloned();
    if let Some(kept) = found {
        return Ok(kept);
    }
    let (kept, ()) = Kept::new(abi, node, call, comm, |_| ())?;
    let kept = Arc::new(kept);
    watch(comm)?;
    table().insert(comm, kept.clone());
    life::end_with(Part::Kept, end_all);
    Ok(kept)
}

/// Watches whether the program frees the communicator.
fn watch(comm: Handle) -> Result<(), Failure> {
    static KEYVAL: OnceLock<Option<c_int>> = OnceLock::new();
    unsafe extern "C" fn freed(comm: u64, _keyval: c_int, _value: *mut c_void, _extra: *mut c_void) -> c_int {
        let kept = table().remove(&(comm & abi::get().mask));
        kept.map(|kept| kept.end());
        0
    }
    let keyval = KEYVAL.get_or_init(|| attr::comm_keyval(freed)).ok_or_else(|| failed("MPI_Comm_create_keyval", 0))?;
    // SAFETY: a live communicator and our own keyval.
    native("MPI_Comm_set_attr", unsafe { pmpi::comm_set_attr(comm, keyval, std::ptr::null_mut()) })
}

/// Frees all, in MPI_Finalize.
fn end_all() {
    let all: Vec<_> = table().drain().map(|(_, kept)| kept).collect();
    all.iter().for_each(|kept| {
        kept.end();
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shadow_is_chosen_that_all_have() {
        let message = |numbers: &[u32], own: &[u8]| {
            let mut message = vec![numbers.len() as u8];
            numbers.iter().for_each(|number| message.put_u32(*number));
            message.extend_from_slice(&encode(Ok(own.to_vec())));
            message
        };
        let all = [message(&[0, 7, 3], b"a"), message(&[3, 7], b""), message(&[9, 7, 3], b"bc")];
        assert_eq!(chosen(&all), 3);
        assert_eq!(of_all(&bodies(&all)).expect("no failure"), b"abc");
        assert_eq!(chosen(&[message(&[0], b""), message(&[], b"")]), NONE);
        assert_eq!(chosen(&[message(&[], b"")]), NONE);
    }
}
