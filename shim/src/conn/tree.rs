//! What the processes of a team say to each other: up to the leader, and from it down to all, along a binomial tree of
//! messages of the MPI below.
//!
//! A process that waits here soon gives its processor up, since those that it waits for may need it: a blocking
//! collective call of the MPI spins, and where ranks share processors each of its steps then takes a time slice.

use super::expected::say;
use super::team::{Team, native};
use crate::abi::Abi;
use crate::failure::{Class, Failure};
use crate::forward::{self as pmpi, Handle};
use crate::progress;
use crate::wait::sleep_until;
use base::bytes::{Put, Take};
use base::log::Patience;
use node::Node;
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::time::{Duration, Instant};

/// What one message holds, of each process up to the leader, and of the leader to each. What is longer needs a second
/// one. A contact record, and the records of a small job, are not.
const FROM_EACH: usize = 256;
const TO_EACH: usize = 2048;
/// A message begins with how many bytes follow, in it and in the second one.
const LENGTH: usize = size_of::<u64>();
/// The most bytes that follow: the contact records of all processes, and little else. One message of MPI can have them.
const MAX_REST: u64 = 1 << 30;

/// How the processes of a team say something to each other.
pub struct Talk<'a> {
    pub abi: &'a Abi,
    /// `None` in a process where the library could not be started.
    pub node: Option<&'a Node>,
    pub team: &'a Team,
    /// Of messages that are on their way over a communicator at once, each talk has its own.
    pub tag: c_int,
    /// The program's call, where notices are to say that other ranks have not made it.
    pub call: Option<&'static str>,
}

impl Talk<'_> {
    /// The distance of this process from the leader, in the order of the tree.
    fn place(&self) -> u32 {
        let Team { rank, size, leader, .. } = *self.team;
        (rank + size - leader) % size
    }

    /// The rank at this distance from the leader.
    fn rank_at(&self, place: u32) -> c_int {
        let Team { size, leader, .. } = *self.team;
        ((place + leader) % size) as c_int
    }

    /// What all processes hand in, in order of rank, on the leader; nothing elsewhere.
    pub fn up(&self, own: Vec<u8>) -> Result<Vec<Vec<u8>>, Failure> {
        let (place, size) = (self.place(), self.team.size);
        if size == 1 {
            return Ok(vec![own]);
        }
        let from: Vec<(c_int, usize)> = children(place, size)
            .map(|child| (self.rank_at(child), LENGTH + below(child, size) as usize * (size_of::<u32>() + FROM_EACH)))
            .collect();
        let mut all = Vec::new();
        all.put_bytes(&own);
        if place == 0 && self.call.is_some() {
            self.send(&[self.rank_at(1)], Vec::new(), LENGTH)?;
        }
        for part in self.receive(&from, self.call.filter(|_| place == 0))? {
            all.extend_from_slice(&part);
        }
        if let Some(parent) = parent(place) {
            let first = LENGTH + below(place, size) as usize * (size_of::<u32>() + FROM_EACH);
            self.send(&[self.rank_at(parent)], all, first)?;
            // If it is the leader that is late, one of the others says so.
            if place == 1 && self.call.is_some() {
                self.receive(&[(self.rank_at(0), LENGTH)], self.call)?;
            }
            return Ok(Vec::new());
        }
        let mut all = Take(&all);
        let mut handed_in = (0..size)
            .map(|_| all.bytes(MAX_REST as usize).map(<[u8]>::to_vec))
            .collect::<Result<Vec<_>, _>>()
            .map_err(|_| damaged())?;
        handed_in.rotate_right(self.team.leader as usize);
        Ok(handed_in)
    }

    /// What the leader tells, on all processes. `told` is given on the leader only.
    pub fn down(&self, told: Option<Vec<u8>>) -> Result<Vec<u8>, Failure> {
        let (place, size) = (self.place(), self.team.size);
        let told = match (parent(place), told) {
            (None, told) => told.unwrap_or_default(),
            (Some(parent), _) => self.receive(&[(self.rank_at(parent), TO_EACH)], None)?.pop().unwrap_or_default(),
        };
        let to: Vec<_> = children(place, size).map(|child| self.rank_at(child)).collect();
        if to.is_empty() { Ok(told) } else { self.send(&to, told, TO_EACH) }
    }

    /// What the process above this one says, and its rank, in the tree along which contact records are asked for. All send their own.
    pub fn hear_above(&self, own: Vec<u8>) -> Result<Option<(u32, Vec<u8>)>, Failure> {
        let (place, size) = (self.place(), self.team.size);
        let below: Vec<_> = node::below(place, size).map(|below| self.rank_at(below)).collect();
        if !below.is_empty() {
            self.send(&below, own, TO_EACH)?;
        }
        let Some(above) = node::above(place).map(|above| self.rank_at(above)) else { return Ok(None) };
        let said = self.receive(&[(above, TO_EACH)], None)?.pop();
        Ok(said.map(|said| (above as u32, said)))
    }

    /// Sends bytes to each of these ranks, in a message of at most `first` bytes and perhaps a second one.
    fn send(&self, to: &[c_int], bytes: Vec<u8>, first: usize) -> Result<Vec<u8>, Failure> {
        if bytes.len() as u64 > MAX_REST {
            return Err(Failure::new(Class::Other, "the job has too many processes"));
        }
        let mut message = (bytes.len() as u64).to_le_bytes().to_vec();
        message.extend_from_slice(&bytes);
        let (head, rest) = message.split_at(message.len().min(first));
        let parts = [head, rest];
        let parts = || parts.into_iter().filter(|part| !part.is_empty());
        let mut requests = vec![self.abi.request_null; to.len() * parts().count()];
        let each = to.iter().flat_map(|to| parts().map(|part| (*to, part)));
        let begun = requests.iter_mut().zip(each).map(|(request, (to, part))| {
            let (at, length) = (part.as_ptr().cast(), part.len() as c_int);
            // SAFETY: the bytes stay until `complete` returns, when no request is left.
            unsafe { pmpi::isend(at, length, self.abi.byte, to, self.tag, self.team.comm, request) }
        });
        let begun = first_error(begun);
        self.complete("MPI_Isend", begun, &mut requests, None)?;
        Ok(bytes)
    }

    /// Receives bytes from each of these ranks, whose first message has at most so many. `call`: see [`Self::complete`].
    fn receive(&self, from: &[(c_int, usize)], call: Option<&'static str>) -> Result<Vec<Vec<u8>>, Failure> {
        let mut heads: Vec<Vec<u8>> = from.iter().map(|(_, room)| vec![0; *room]).collect();
        self.receive_parts(from.iter().map(|(from, _)| *from).zip(&mut heads), call)?;
        let mut rests = Vec::with_capacity(from.len());
        for ((_, room), head) in from.iter().zip(&mut heads) {
            let length = head.first_chunk().map_or(0, |length| u64::from_le_bytes(*length));
            if length > MAX_REST {
                return Err(damaged());
            }
            let whole = LENGTH + length as usize;
            head.truncate(whole);
            rests.push(vec![0; whole.saturating_sub(*room)]);
        }
        let longer = from.iter().map(|(from, _)| *from).zip(&mut rests).filter(|(_, rest)| !rest.is_empty());
        self.receive_parts(longer, call)?;
        for (head, rest) in heads.iter_mut().zip(rests) {
            head.drain(..LENGTH);
            head.extend_from_slice(&rest);
        }
        Ok(heads)
    }

    fn receive_parts<'b>(
        &self,
        parts: impl Iterator<Item = (c_int, &'b mut Vec<u8>)>,
        call: Option<&'static str>,
    ) -> Result<(), Failure> {
        let mut requests = Vec::new();
        let mut begun = 0;
        for (from, part) in parts {
            let mut request = self.abi.request_null;
            let (at, room) = (part.as_mut_ptr().cast(), part.len() as c_int);
            // SAFETY: the room stays until `complete` returns, when no request is left.
            let code = unsafe { pmpi::irecv(at, room, self.abi.byte, from, self.tag, self.team.comm, &mut request) };
            if begun == 0 {
                begun = code;
            }
            requests.push(request);
        }
        self.complete("MPI_Irecv", begun, &mut requests, call)
    }

    /// Completes all of these requests of the MPI below. `begun` is what the calls that made them returned; `call` is the one
    /// of which a notice says that other ranks have not made it.
    pub fn complete(
        &self,
        what: &str,
        begun: c_int,
        requests: &mut [Handle],
        call: Option<&'static str>,
    ) -> Result<(), Failure> {
        let abi = self.abi;
        let code = Cell::new(progress::outcome(begun));
        let left = Cell::new(true);
        let mut ask = || {
            let mut pending = false;
            for request in requests.iter_mut().filter(|request| **request & abi.mask != abi.request_null) {
                let mut flag = 0;
                // SAFETY: our own request; the status is ignored.
                let tested =
                    progress::outcome(unsafe { pmpi::test(request, &mut flag, abi.status_ignore as *mut c_void) });
                if flag != 0 || tested != 0 {
                    *request = abi.request_null;
                    if code.get() == 0 {
                        code.set(tested);
                    }
                } else {
                    pending = true;
                }
            }
            left.set(pending);
        };
        let begun = Instant::now();
        let mut patience = Patience::new(begun);
        let mut ask = || {
            if let Some(call) = call
                && let Some(seconds) = patience.is_over(Instant::now())
            {
                say(call, seconds);
            }
            ask();
        };
        loop {
            ask();
            if !left.get() {
                return native(what, code.get());
            }
            match (begun.elapsed(), self.node) {
                (waited, _) if waited < AWAKE => std::thread::yield_now(),
                (waited, node) if waited < SOON || node.is_none() => {
                    std::thread::sleep((waited / SHARE).clamp(SHORTEST, LONGEST));
                }
                (_, Some(node)) => {
                    sleep_until(node, &mut ask, None, |_| (!left.get()).then_some(()));
                }
                (_, None) => {}
            }
        }
    }
}

/// For so long a process that waits keeps its processor.
const AWAKE: Duration = Duration::from_micros(20);
/// For so long it asks the MPI below again and again, with pauses that are a share of the time so far. Then it sleeps as all
/// calls do that wait for another job. A pause and no yield: a yield gives a whole time slice away. The share is small, since a
/// collective call of the MPI is many steps, one behind the other, and each process's pause in each of them adds to the time so far.
const SOON: Duration = Duration::from_millis(20);
const SHARE: u32 = 32;
const SHORTEST: Duration = Duration::from_micros(10);
const LONGEST: Duration = Duration::from_millis(1);

fn first_error(codes: impl Iterator<Item = c_int>) -> c_int {
    codes.fold(0, |first, code| if first == 0 { code } else { first })
}

fn damaged() -> Failure {
    Failure::new(Class::Intern, "what the processes of this job tell each other is damaged")
}

/// The place above this one in the tree; the leader's, 0, has none.
fn parent(place: u32) -> Option<u32> {
    (place > 0).then(|| place & (place - 1))
}

/// The places right below this one.
fn children(place: u32, size: u32) -> impl Iterator<Item = u32> {
    let most = if place == 0 { u32::BITS } else { place.trailing_zeros() };
    (0..most).map_while(move |bit| place.checked_add(1 << bit).filter(|child| *child < size))
}

/// How many places there are from this one, which is not the leader's, downwards. They follow one another.
fn below(place: u32, size: u32) -> u32 {
    (place & place.wrapping_neg()).min(size - place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_has_one_way_to_the_leader() {
        for size in 1..70 {
            for place in 1..size {
                let parent = parent(place).expect("only the leader has none");
                assert!(children(parent, size).any(|child| child == place), "{place} of {size}");
            }
            assert_eq!((0..size).map(|place| children(place, size).count() as u32).sum::<u32>(), size - 1);
        }
    }

    #[test]
    fn places_below_follow_one_another() {
        fn all(place: u32, size: u32) -> Vec<u32> {
            std::iter::once(place).chain(children(place, size).flat_map(|child| all(child, size))).collect()
        }
        for size in 1..70 {
            assert_eq!(all(0, size), (0..size).collect::<Vec<_>>());
            for place in 1..size {
                assert_eq!(all(place, size), (place..place + below(place, size)).collect::<Vec<_>>());
            }
        }
    }
}
