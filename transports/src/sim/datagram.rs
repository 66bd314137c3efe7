//! A pair of lanes that carry whole frames, each after a delay of its own: late, twice, out of order, or not at all.

use super::{Clock, Rng};
use base::Memory;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use wire::frame::{HEADER, Header, Kind};
use wire::lane::{Caps, Death, Event, Fill, Lane, Payload, Sent, Sink};

/// The faults of a pair of lanes.
#[derive(Clone, Copy, Debug)]
pub struct Faults {
    /// How many of 100 frames are lost.
    pub loss_percent: u64,
    /// How many of 100 frames arrive twice.
    pub double_percent: u64,
    /// The longest time that a frame is under way, in milliseconds.
    pub max_delay: u64,
}

/// The number of frames that were meddled with so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Injected {
    /// Frames that were lost.
    pub lost: u64,
    /// Frames that were sent twice.
    pub doubled: u64,
}

#[derive(Default)]
struct Half {
    /// The frames under way, by their time of arrival and then by a running number.
    frames: BTreeMap<(u64, u64), Vec<u8>>,
    count: u64,
    closed: bool,
}

/// One end of a pair of simulated lanes that lose, double and reorder frames.
pub struct DatagramLane {
    tx: Rc<RefCell<Half>>,
    rx: Rc<RefCell<Half>>,
    injected: Rc<RefCell<Injected>>,
    clock: Clock,
    rng: Rng,
    faults: Faults,
    capacity: usize,
    quiet: bool,
    refused: bool,
    dead: bool,
    told: bool,
}

/// Both ends of a pair of lanes. Each direction holds up to `capacity` frames; `injected` counts the faults.
pub fn pair(
    rng: &mut Rng,
    clock: &Clock,
    faults: Faults,
    capacity: usize,
    injected: &Rc<RefCell<Injected>>,
) -> (DatagramLane, DatagramLane) {
    let (x, y) = (Rc::<RefCell<Half>>::default(), Rc::<RefCell<Half>>::default());
    let mut end = |tx: &Rc<RefCell<Half>>, rx: &Rc<RefCell<Half>>| DatagramLane {
        tx: tx.clone(),
        rx: rx.clone(),
        injected: injected.clone(),
        clock: clock.clone(),
        rng: rng.fork(),
        faults,
        capacity,
        quiet: false,
        refused: false,
        dead: false,
        told: false,
    };
    (end(&x, &y), end(&y, &x))
}

/// Breaks a pair of lanes that are in use elsewhere.
pub struct Knife([Rc<RefCell<Half>>; 2]);

impl Knife {
    /// Ends the pair. Frames that are under way are lost.
    pub fn cut(&self) {
        for half in &self.0 {
            let mut half = half.borrow_mut();
            half.frames.clear();
            half.closed = true;
        }
    }
}

impl DatagramLane {
    /// What breaks this pair later.
    pub fn knife(&self) -> Knife {
        Knife([self.tx.clone(), self.rx.clone()])
    }

    fn carry(&mut self, frame: Vec<u8>) {
        let mut tx = self.tx.borrow_mut();
        let at = self.clock.get() + self.rng.below(self.faults.max_delay + 1);
        tx.count += 1;
        let key = (at, tx.count);
        tx.frames.insert(key, frame);
    }
}

impl Drop for DatagramLane {
    fn drop(&mut self) {
        self.tx.borrow_mut().closed = true;
        self.rx.borrow_mut().closed = true;
    }
}

impl DatagramLane {
    fn take(&mut self, header: &Header, add_body: impl FnOnce(&mut Vec<u8>)) -> Sent {
        let full = self.tx.borrow().frames.len() >= self.capacity;
        if self.dead || self.quiet || full {
            self.refused = true;
            return Sent::NoRoom;
        }
        let mut frame = header.encode().to_vec();
        add_body(&mut frame);
        if self.rng.percent(self.faults.loss_percent) {
            self.injected.borrow_mut().lost += 1;
            return Sent::Taken;
        }
        if self.rng.percent(self.faults.double_percent) {
            self.injected.borrow_mut().doubled += 1;
            self.carry(frame.clone());
        }
        self.carry(frame);
        Sent::Taken
    }
}

impl<M: Memory> Lane<M> for DatagramLane {
    fn caps(&self) -> Caps {
        Caps::DATAGRAM
    }

    fn wants_write(&self) -> bool {
        false
    }

    fn try_send(&mut self, mem: &M, header: &Header, payload: Payload<'_>) -> Sent {
        self.take(header, |frame| match payload {
            Payload::Bytes(bytes) => frame.extend_from_slice(bytes),
            Payload::Joined(head, rest) => [head, rest].iter().for_each(|part| frame.extend_from_slice(part)),
            Payload::User { buf, offset } => {
                mem.with_slices(buf, offset, header.len as usize, usize::MAX, |pieces| {
                    pieces.iter().for_each(|p| frame.extend_from_slice(p));
                });
                frame.resize(HEADER + header.len as usize, 0);
            }
        })
    }

    fn try_send_with(&mut self, header: &Header, fill: &mut Fill<'_>) -> Sent {
        self.take(header, |frame| {
            frame.resize(HEADER + header.len as usize, 0);
            fill(0, &mut frame[HEADER..]);
        })
    }

    fn flush(&mut self, _mem: &M) -> bool {
        !self.dead
    }

    fn poll(&mut self, sink: &mut dyn Sink, budget: usize) -> usize {
        let mut total = 0;
        while total < budget && !self.dead {
            let frame = {
                let mut rx = self.rx.borrow_mut();
                let due = rx.frames.first_key_value().is_some_and(|(key, _)| key.0 <= self.clock.get());
                if !due {
                    self.dead |= rx.closed && rx.frames.is_empty();
                    break;
                }
                rx.frames.pop_first().expect("a frame is due").1
            };
            total += frame.len();
            self.dead |= deliver(sink, &frame).is_err();
        }
        total
    }

    fn event(&mut self) -> Option<Event> {
        if self.dead {
            return (!std::mem::replace(&mut self.told, true)).then_some(Event::Dead);
        }
        let room = self.tx.borrow().frames.len() < self.capacity;
        if self.refused && !self.quiet && room {
            self.refused = false;
            return Some(Event::Writable);
        }
        None
    }

    fn quiesce(&mut self) {
        self.quiet = true;
    }

    fn resume(&mut self) {
        self.quiet = false;
    }

    fn death(&self) -> Option<&Death> {
        static CLOSED: Death = Death::Closed;
        self.dead.then_some(&CLOSED)
    }

    fn cut(&mut self) {
        self.knife().cut();
    }

    /// A number of frames, since there are no bytes to count.
    fn written(&self) -> u64 {
        self.tx.borrow().count
    }
}

fn deliver(sink: &mut dyn Sink, frame: &[u8]) -> Result<(), base::bytes::Malformed> {
    let head = frame.first_chunk::<HEADER>().ok_or(base::bytes::Malformed)?;
    let header = Header::decode(head)?;
    let payload = &frame[HEADER..];
    if header.kind != Kind::Bulk {
        return sink.on_frame(&header, payload);
    }
    let mut at = 0;
    while at < payload.len() {
        let mut copy = |pieces: &mut [std::io::IoSliceMut<'_>]| {
            let mut left = &payload[at..];
            for piece in pieces {
                let n = piece.len().min(left.len());
                piece[..n].copy_from_slice(&left[..n]);
                left = &left[n..];
            }
            Ok(payload.len() - at - left.len())
        };
        match sink.on_bulk(&header, at, &mut copy) {
            Some(Ok(n)) if n > 0 => at += n,
            _ => break,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::{Factory, lanes};

    lanes!(faultless, Faultless(Rng::new(1)));

    /// Lanes without faults, which have to pass what all lanes pass.
    struct Faultless(Rng);

    impl Factory for Faultless {
        type Lane = DatagramLane;

        fn pair(&mut self) -> (DatagramLane, DatagramLane) {
            let faults = Faults { loss_percent: 0, double_percent: 0, max_delay: 0 };
            pair(&mut self.0, &Clock::default(), faults, 20, &Rc::default())
        }

        fn inject(&mut self, lane: &mut DatagramLane, bytes: &[u8]) -> bool {
            lane.carry(bytes.to_vec());
            true
        }
    }
}
