//! Tails, and a lane whose other side writes what it likes, for `fuzz/`.
//!
//! Invariant: a lane's memory is as new for each input, though it is mapped once.

use super::hello::{Parts, Tail, Theirs};
use super::lane::{MEMORY, ShmLane};
use super::rights::Connection;
use super::{doorbells, peek};
use crate::memory::Segment;
use crate::memory::SegmentView;
use base::ProcId;
use base::protocol::shared::{LANE_END, ROOM, SLOT, SLOTS, SLOTS_AT};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;

/// The tail that these bytes are, encoded again. `None`: they are none of this layout.
pub fn tail_again(bytes: &[u8]) -> Option<Vec<u8>> {
    let tail = Tail::decode(bytes).ok().flatten()?;
    let mut out = Vec::new();
    tail.encode(&mut out);
    Some(out)
}

/// Tails as they are sent.
pub fn tails() -> Vec<Vec<u8>> {
    let tail = |bit, reads, fences| {
        let mut out = Vec::new();
        Tail { bit, token: peek::Token { address: 6, value: 7 }, reads, fences }.encode(&mut out);
        out
    };
    vec![tail(5, false, true), tail(63, true, false)]
}

/// The bytes behind the begin of each payload ring that are as new for each input.
pub const CLEARED: usize = 8 << 10;

/// One end of a lane, and all that the other end can write to.
pub struct Written {
    /// Our end.
    pub lane: ShmLane,
    /// The same memory, as the other side has it mapped.
    memory: Segment,
    /// Our doorbells and the other side's, as it has them mapped.
    bells: Segment,
    _end: OwnedFd,
}

impl Written {
    /// A lane that this side has dialled.
    pub fn new(local: ProcId, remote: ProcId) -> io::Result<Written> {
        let (memory, fd) = Segment::create(MEMORY)?;
        let (bells, bells_fd) = Segment::create(doorbells::BYTES)?;
        let (connection, end) = Connection::pair()?;
        // Whom it wakes is not looked at.
        let eventfd = OwnedFd::from(std::fs::File::options().write(true).open("/dev/null")?);
        let theirs = Theirs {
            doorbells: Segment::adopt(bells_fd, doorbells::BYTES)?.into(),
            eventfd,
            bit: 3,
            remote: None,
            fences: false,
        };
        let parts = Parts { connection, memory: Segment::adopt(fd, MEMORY)?, theirs, dialled: true, read_by: false };
        Ok(Written { lane: ShmLane::new(parts, local, remote, 1), memory, bells, _end: end })
    }

    /// The same with a new lane over memory that is as new, as far as slots, words and the begin of the payload rings go.
    pub fn renewed(self, local: ProcId, remote: ProcId) -> Written {
        let Written { lane, memory, bells, _end } = self;
        let data = SLOTS_AT + 2 * SLOTS as usize * SLOT;
        for (at, len) in [(0, 1024), (SLOTS_AT, data - SLOTS_AT), (data, CLEARED), (data + ROOM, CLEARED)] {
            // SAFETY: both ends are this thread's, which does nothing else meanwhile.
            unsafe { memory.write(at, len, |bytes| bytes.fill(0)) };
        }
        // SAFETY: as above.
        unsafe { bells.write(0, 512, |bytes| bytes.fill(0)) };
        Written { lane: ShmLane::new(lane.into_parts(), local, remote, 1), memory, bells, _end }
    }

    /// The other side writes a word. Its place is taken modulo the memory of the lane.
    pub fn set_word(&self, at: usize, value: u64) {
        self.memory.store(at % (LANE_END / 8) * 8, value, Ordering::Release);
    }

    /// The other side reads a word, as [`Written::set_word`] writes it.
    pub fn word(&self, at: usize) -> u64 {
        self.memory.load(at % (LANE_END / 8) * 8, Ordering::Acquire)
    }

    /// The other side writes a word of the doorbells.
    pub fn set_bell(&self, at: usize, value: u64) {
        self.bells.store(at % (doorbells::BYTES / 8) * 8, value, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::memory::VecMemory;
    use base::protocol::frame::MSG;
    use base::protocol::shared::{FAR, LAP, TAG};
    use wire::frame::{Header, Kind, MAX_PAYLOAD};
    use wire::lane::{Lane, Payload, Sent, Unread};

    const ENDS: [ProcId; 2] = [ProcId { incarnation: 1, rank: 0 }, ProcId { incarnation: 2, rank: 0 }];

    /// A lane on which we have sent message 1, and then `acks` acknowledgements.
    fn sent(acks: usize) -> Written {
        let mut written = Written::new(ENDS[0], ENDS[1]).unwrap();
        let header =
            |kind, len, a| Header { len, kind, ack_now: false, generation: 1, source: ENDS[0], dest: ENDS[1], a, b: 0 };
        let mem = VecMemory::default();
        let all = [(header(Kind::Msg, 3, 1), &b"abc"[..])].into_iter();
        for (header, bytes) in all.chain(std::iter::repeat_n((header(Kind::Ack, 0, 0), &[][..]), acks)) {
            assert_eq!(written.lane.try_send(&mem, &header, Payload::Bytes(bytes)), Sent::Taken);
        }
        written
    }

    /// The other side writes to a slot of ours.
    fn rewrite(written: &Written, slot: usize, word: u64) {
        written.set_word((SLOTS_AT + slot * SLOT) / 8, word | u64::from(MSG) << TAG | 1 << LAP);
    }

    fn unread(written: &mut Written) -> Unread {
        Lane::<VecMemory>::unread(&mut written.lane)
    }

    #[test]
    fn what_was_not_read_comes_back() {
        // Before the message comes its sequence.
        assert_eq!(unread(&mut sent(2)), Unread { first: 1, bodies: vec![b"abc".to_vec()] });
    }

    /// A process that makes messages of our acknowledgements gets none of them again, and no more memory is taken than the
    /// lane has.
    #[test]
    fn what_was_never_sent_does_not_come_back() {
        for (slots, word) in
            [(2..4, 3), (1..2, 0), (1..200, 1 << 20 | FAR_BODY), (1..2, (MAX_PAYLOAD as u64 + 1) | FAR_BODY)]
        {
            let mut written = sent(198);
            slots.for_each(|slot| rewrite(&written, slot, word));
            assert_eq!(unread(&mut written), Unread::default(), "{word:x}");
        }
    }

    const FAR_BODY: u64 = 1 << FAR;
}
