//! What `transports` reads of memory that another process writes: a lane over shared memory, and the tail of its handshake.

use crate::Target;
use crate::input::{Script, put_bytes};
use crate::wire::{FROM, TO};
use base::bytes::Malformed;
use base::memory::VecMemory;
use base::protocol::frame as kinds;
use base::protocol::shared::{
    ACK_NOW, DIRECT, FAR, FIELDS, INDEX, LANE_END, LAP, OTHER_DIRECT, OTHER_INDEX, OTHER_RETURNED, QUESTION, RETURNED,
    ROOM, SEQUENCE, SLOT, SLOTS, SLOTS_AT, START, TAG, UNIT,
};
use std::cell::RefCell;
use std::io::{self, IoSliceMut};
use transports::fuzzing::shared::{CLEARED, Written, tail_again, tails};
use wire::frame::{Header, Kind, MAX_PAYLOAD};
use wire::lane::{Death, Event, Lane, Payload, Sink, Unread};

fn tail(input: &[u8]) {
    if let Some(again) = tail_again(input) {
        let good = base::protocol::shared::READS | base::protocol::shared::FENCES;
        let flags = u16::from_le_bytes([input[2], input[3]]) & good;
        assert_eq!(again[..2], input[..2]);
        assert_eq!(again[2..4], flags.to_le_bytes());
        assert_eq!(again[4..], input[4..]);
    }
}

/// The tail that follows HELLO and HELLO-ACK.
pub const SHARED_TAIL: Target = Target { run: tail, seeds: tails, longest: 32, memory: 256 };

/// Where things lie for a lane that we have dialled: our direction comes first.
const OUT: usize = SLOTS_AT;
const IN: usize = SLOTS_AT + SLOTS as usize * SLOT;
const OUT_DATA: usize = SLOTS_AT + 2 * SLOTS as usize * SLOT;
const IN_DATA: usize = OUT_DATA + ROOM;

/// Checks what a lane delivers.
struct Checks {
    frames: usize,
    bytes: usize,
    objects_to: u8,
}

impl Checks {
    fn takes(&mut self, header: &Header, payload: &[u8]) {
        assert!(header.is_sound() && payload.len() == header.len as usize && payload.len() <= MAX_PAYLOAD);
        assert_eq!((header.source, header.dest, header.generation), (TO, FROM, 1), "a lane says whose it is");
        // Reads all of it: it has to be mapped.
        self.bytes = self.bytes.wrapping_add(payload.iter().map(|b| usize::from(*b)).sum());
        self.frames += 1;
    }
}

impl Sink for Checks {
    fn on_frame(&mut self, header: &Header, payload: &[u8]) -> Result<(), Malformed> {
        assert!(!matches!(header.kind, Kind::Bulk | Kind::Lost));
        self.takes(header, payload);
        if header.kind as u8 == self.objects_to { Err(Malformed) } else { Ok(()) }
    }

    fn on_bulk(
        &mut self,
        _: &Header,
        _: usize,
        _: &mut dyn FnMut(&mut [IoSliceMut<'_>]) -> io::Result<usize>,
    ) -> Option<io::Result<usize>> {
        panic!("its bytes are in memory")
    }

    fn on_bulk_bytes(&mut self, header: &Header, at: usize, bytes: &[u8]) {
        assert!(header.kind == Kind::Bulk && at == 0);
        self.takes(header, bytes);
    }
}

thread_local! {
    /// Mapped once.
    static LANE: RefCell<Option<Written>> = const { RefCell::new(None) };
}

/// The other side of a lane.
struct Other<'a> {
    written: &'a mut Written,
    /// Words that it has set beyond what is cleared anyway.
    set: Vec<usize>,
    /// The number of the slot that it writes next.
    next: u64,
}

impl Other<'_> {
    fn set(&mut self, at: usize, value: u64) {
        let place = at % (LANE_END / 8) * 8;
        let cleared = place < IN_DATA.min(OUT_DATA + CLEARED) || (IN_DATA..IN_DATA + CLEARED).contains(&place);
        if !cleared {
            self.set.push(at);
        }
        self.written.set_word(at, value);
    }

    /// A word of a slot: what it says may be wrong.
    fn describe(&mut self, s: &mut Script<'_>, lap: u64) -> u64 {
        let (tag, flags, len) = (s.byte(), s.byte(), s.number());
        let tag = match tag {
            n @ 0..=15 => [
                kinds::MSG,
                kinds::ACK,
                kinds::BULK,
                kinds::SWITCH,
                kinds::PING,
                kinds::PONG,
                SEQUENCE,
                QUESTION,
                kinds::LOST,
                0,
                kinds::MSG | ACK_NOW,
                kinds::BULK,
                kinds::MSG,
                kinds::MSG,
                SEQUENCE,
                kinds::ACK,
            ][usize::from(n)],
            other => other,
        };
        let start = if flags & 8 != 0 { u64::from(s.short()) } else { 0 };
        // In either of the two rooms.
        let start = (start + u64::from(flags >> 4 & 1) * (ROOM / UNIT) as u64) & 0xffff;
        len & ((1 << FIELDS) - 1)
            | u64::from(flags & 3) << FIELDS
            | u64::from(flags >> 2 & 1) << FAR
            | u64::from(tag) << TAG
            | start << START
            | (lap & 0xffff) << LAP
    }

    /// Publishes a frame in the next slot.
    fn publish(&mut self, s: &mut Script<'_>) {
        let slot = (IN + (self.next % SLOTS) as usize * SLOT) / 8;
        let word = self.describe(s, self.next / SLOTS + 1);
        let fields = (word >> FIELDS & 3) as usize;
        for field in 1..=fields {
            let value = s.number();
            self.set(slot + field, value);
        }
        self.set(slot, word);
        self.next += 1;
    }
}

fn lane(input: &[u8]) {
    LANE.with_borrow_mut(|kept| {
        let mut written = match kept.take() {
            Some(before) => before.renewed(FROM, TO),
            None => Written::new(FROM, TO).expect("a lane"),
        };
        let set = play(input, &mut written);
        set.into_iter().for_each(|at| written.set_word(at, 0));
        *kept = Some(written);
    });
}

/// Returns the words that are to be cleared.
fn play(input: &[u8], written: &mut Written) -> Vec<usize> {
    let mut s = Script(input);
    let mut sink = Checks { frames: 0, bytes: 0, objects_to: s.byte() };
    let mem = VecMemory([(1, vec![5; 3000])].into());
    let mut other = Other { written, set: Vec::new(), next: 0 };
    let (mut sent, mut last, mut unread) = (0u64, 0, 0);
    while let Some(step) = s.step() {
        let (what, how) = (step >> 3, step & 7);
        match what {
            0..=7 => other.publish(&mut s),
            8 | 9 => {
                // Any word of the lane: of a slot of ours, of one of theirs, of the words before, of a room.
                let (n, value) = (usize::from(s.short()), s.number());
                let at = match how {
                    0 | 1 => OUT / 8 + n % (SLOTS as usize * SLOT / 8),
                    2 | 3 => IN / 8 + n % (SLOTS as usize * SLOT / 8),
                    4 => n % (SLOTS_AT / 8),
                    5 => OUT_DATA / 8 + n,
                    6 => IN_DATA / 8 + n,
                    _ => LANE_END / 8 - 1 - n % (UNIT / 8),
                };
                other.set(at, value);
            }
            10 => {
                // A word of our own slots as such a word is, perhaps of another frame.
                let n = u64::from(s.byte());
                let word = other.describe(&mut s, 1 + u64::from(how == 7));
                other.set((OUT + n as usize * SLOT) / 8, word);
            }
            11 | 12 => {
                let words = [INDEX, OTHER_INDEX, DIRECT, OTHER_DIRECT, RETURNED, OTHER_RETURNED, INDEX, OTHER_INDEX];
                let at = words[usize::from(how & 7)] / 8;
                let value = if how < 4 { s.number() } else { sent.min(u64::from(s.byte())) };
                other.set(at, value);
            }
            13 => {
                let (at, value) = (usize::from(s.byte()), s.number());
                other.written.set_bell(at, value);
            }
            14..=17 => {
                let _ = Lane::<VecMemory>::poll(&mut other.written.lane, &mut sink, 1 + usize::from(s.byte()) * 100);
            }
            18..=25 => {
                let lane = &mut other.written.lane;
                let len = match how {
                    7 => 2000,
                    n => usize::from(n) * 20 + 1,
                };
                let header = |kind, len: usize, a, b| Header {
                    len: len as u32,
                    kind,
                    ack_now: how == 3,
                    generation: 1,
                    source: FROM,
                    dest: TO,
                    a,
                    b,
                };
                let bytes = [6; 2001];
                let taken = match s.byte() % 8 {
                    0 => lane.try_send(&mem, &header(Kind::Ack, 0, 0, 4), Payload::Bytes(&[])),
                    1 => lane.try_send(&mem, &header(Kind::Ping, 0, 1, 4), Payload::Bytes(&[])),
                    2 => lane.try_send(&mem, &header(Kind::Bulk, len, 1, 0), Payload::User { buf: 1, offset: 0 }),
                    n => {
                        // After a gap the lane says which sequence comes.
                        last += 1 + u64::from(n == 3);
                        let header = header(Kind::Msg, len, last, 0);
                        if n == 4 {
                            Lane::<VecMemory>::try_send_with(lane, &header, &mut |_, to: &mut [u8]| to.fill(7))
                        } else {
                            lane.try_send(&mem, &header, Payload::Bytes(&bytes[..len]))
                        }
                    }
                };
                sent += u64::from(taken == wire::lane::Sent::Taken);
            }
            26 => drop(other.written.lane.flush(&mem)),
            // It copies all that is there, and comes at a lane's end.
            27 if unread < 4 => {
                unread += 1;
                let Unread { first, bodies } = Lane::<VecMemory>::unread(&mut other.written.lane);
                let bytes: usize = bodies.iter().map(Vec::len).sum();
                assert!(bytes <= 2 * ROOM + SLOTS as usize * SLOT, "more than the lane has room for");
                assert!(bodies.iter().all(|body| !body.is_empty() && body.len() <= MAX_PAYLOAD));
                assert!(bodies.is_empty() || first > 0 && first + bodies.len() as u64 - 1 <= last, "never sent");
            }
            28 => other.written.lane.set_direct(how & 1 == 1),
            29 if how & 1 == 1 => Lane::<VecMemory>::quiesce(&mut other.written.lane),
            29 => Lane::<VecMemory>::resume(&mut other.written.lane),
            _ => {
                let lane = &mut other.written.lane;
                let dead = Lane::<VecMemory>::death(lane).is_some();
                let event = Lane::<VecMemory>::event(lane);
                assert!(dead || event != Some(Event::Dead));
                let _ = (lane.is_stuck(), lane.has_input(), Lane::<VecMemory>::is_read(lane));
                let _ = (Lane::<VecMemory>::wants_write(lane), Lane::<VecMemory>::waiting(lane));
            }
        }
    }
    let lane = &other.written.lane;
    // Its other end is open to the last.
    assert!(matches!(Lane::<VecMemory>::death(lane), None | Some(Death::Malformed)));
    other.set
}

/// A lane over shared memory whose other side writes anything anywhere in it, at any time between our steps.
pub const SHARED_LANE: Target = Target {
    run: lane,
    seeds: || {
        let poll = [14 << 3, 20];
        let mut all = Vec::new();
        // Tag, flags, length, fields: each kind of frame.
        let frames: [&[u8]; 10] = [
            &[0, 0, 40],
            &[1, 1, 0, 9],
            &[2, 2, 30, 1, 0],
            &[2, 2 | 4 | 16, 200, 1, 0],
            &[0, 4 | 16, 200],
            &[0, 4, 200],
            &[3, 1, 0, 2],
            &[4, 2, 0, 1, 1],
            &[6, 1, 0, 7],
            &[7, 0, 0],
        ];
        for frame in frames {
            all.push([&[0, 0], frame, &[0], frames[0], &poll[..]].concat());
        }
        // Ours: all kinds, then what the other side has not read.
        let mut ours = vec![0];
        for n in 0..8 {
            ours.extend([18 << 3 | n, n, 26 << 3]);
        }
        all.push([&ours[..], &[27 << 3]].concat());
        all.push([&ours[..], &[10 << 3, 0, 0, 0, 30, 11 << 3 | 4, 3, 27 << 3]].concat());
        put_bytes(&mut all[0], &[]);
        all
    },
    longest: 1024,
    memory: 4 << 20,
};
