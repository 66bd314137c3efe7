//! A pair of lanes over simulated shared memory: a frame that is taken is with the other side at once, and frames that the
//! other side has not read when the lane ends can be taken back.

use super::Rng;
use base::Memory;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use wire::frame::{Header, Kind};
use wire::lane::{Caps, Death, Event, Fill, Lane, Payload, Sent, Sink, Unread};

#[derive(Default)]
struct Half {
    frames: VecDeque<(Header, Vec<u8>)>,
    /// The sequence number of the next MSG.
    next: u64,
    /// Parts of the first frame that were shown.
    parts: u64,
    closed: bool,
}

/// Parts of a MSG that are shown before the whole.
fn parts(header: &Header) -> u64 {
    if header.kind == Kind::Msg && header.len >= 64 { header.a % 4 } else { 0 }
}

/// One end of a pair of simulated lanes that need no retention.
pub struct SharedLane {
    tx: Rc<RefCell<Half>>,
    rx: Rc<RefCell<Half>>,
    caps: Caps,
    capacity: usize,
    refused: bool,
    quiet: bool,
    dead: bool,
    told: bool,
    written: u64,
}

/// Both ends of a pair of lanes. Each direction holds up to `capacity` frames. Each side can read the other's memory if `get`
/// is set.
pub fn pair(capacity: usize, get: bool) -> (SharedLane, SharedLane) {
    let (x, y) = (Rc::<RefCell<Half>>::default(), Rc::<RefCell<Half>>::default());
    let caps = Caps { get, exposed: get, ..Caps::SHARED };
    let end = |tx: &Rc<RefCell<Half>>, rx: &Rc<RefCell<Half>>| SharedLane {
        tx: tx.clone(),
        rx: rx.clone(),
        caps,
        capacity,
        refused: false,
        quiet: false,
        dead: false,
        told: false,
        written: 0,
    };
    (end(&x, &y), end(&y, &x))
}

/// Ends a pair whose lanes are in use elsewhere.
pub struct Knife([Rc<RefCell<Half>>; 2]);

impl Knife {
    /// Ends the pair. Frames that were sent can still be read.
    pub fn cut(&mut self) {
        self.0.iter().for_each(|half| half.borrow_mut().closed = true);
    }
}

impl SharedLane {
    /// What ends this pair later.
    pub fn knife(&self, _: &mut Rng) -> Knife {
        Knife([self.tx.clone(), self.rx.clone()])
    }

    fn take(&mut self, header: &Header, body: Vec<u8>) -> Sent {
        let mut tx = self.tx.borrow_mut();
        if self.dead || self.quiet || tx.frames.len() >= self.capacity {
            self.refused = true;
            return Sent::NoRoom;
        }
        let mut header = *header;
        if header.kind == Kind::Msg {
            tx.next = header.a + 1;
            // As on the real one.
            header.b = 0;
        }
        self.written += body.len() as u64 + 1;
        tx.frames.push_back((header, body));
        Sent::Taken
    }
}

impl Drop for SharedLane {
    fn drop(&mut self) {
        self.tx.borrow_mut().closed = true;
        self.rx.borrow_mut().closed = true;
    }
}

impl<M: Memory> Lane<M> for SharedLane {
    fn caps(&self) -> Caps {
        self.caps
    }

    fn wants_write(&self) -> bool {
        false
    }

    fn try_send(&mut self, mem: &M, header: &Header, payload: Payload<'_>) -> Sent {
        let body = match payload {
            Payload::Bytes(bytes) => bytes.to_vec(),
            Payload::Joined(head, rest) => [head, rest].concat(),
            Payload::User { buf, offset } => {
                let mut body = vec![0; header.len as usize];
                mem.fill(buf, offset, &mut body);
                body
            }
        };
        self.take(header, body)
    }

    fn try_send_with(&mut self, header: &Header, fill: &mut Fill<'_>) -> Sent {
        if self.dead || self.quiet || self.tx.borrow().frames.len() >= self.capacity {
            self.refused = true;
            return Sent::NoRoom;
        }
        let mut body = vec![0; header.len as usize];
        fill(0, &mut body);
        self.take(header, body)
    }

    fn flush(&mut self, _mem: &M) -> bool {
        !self.dead
    }

    fn poll(&mut self, sink: &mut dyn Sink, budget: usize) -> usize {
        let mut read = 0;
        while read < budget && !self.dead {
            let mut rx = self.rx.borrow_mut();
            if let Some((header, body)) = rx.frames.front().filter(|(header, _)| rx.parts < parts(header)) {
                let shown = body.len() as u64 * (rx.parts + 1) / (parts(header) + 1);
                sink.on_part(header, header.a, &body[..shown as usize], body.len() as u64);
                rx.parts += 1;
                read += 1;
                if rx.parts == 2 {
                    // The rest comes with another call.
                    break;
                }
                continue;
            }
            rx.parts = 0;
            let next = rx.frames.pop_front();
            drop(rx);
            let Some((header, body)) = next else {
                self.dead = self.rx.borrow().closed;
                break;
            };
            read += body.len() + 1;
            if header.kind == Kind::Bulk {
                sink.on_bulk_bytes(&header, 0, &body);
            } else if sink.on_frame(&header, &body).is_err() {
                self.dead = true;
            }
        }
        read
    }

    fn event(&mut self) -> Option<Event> {
        if self.dead {
            return (!std::mem::replace(&mut self.told, true)).then_some(Event::Dead);
        }
        if self.refused && !self.quiet && self.tx.borrow().frames.len() < self.capacity {
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
        Knife([self.tx.clone(), self.rx.clone()]).cut();
    }

    fn written(&self) -> u64 {
        self.written
    }

    fn is_open(&self) -> Option<bool> {
        Some(!self.rx.borrow().closed)
    }

    fn is_read(&self) -> bool {
        self.tx.borrow().frames.is_empty()
    }

    fn waiting(&self) -> u16 {
        (self.tx.borrow().frames.len() >= self.capacity).into()
    }

    fn unread(&mut self) -> Unread {
        // The other side finds the end behind the frames that are there.
        let mut tx = self.tx.borrow_mut();
        let bodies: Vec<_> =
            tx.frames.iter().filter(|(header, _)| header.kind == Kind::Msg).map(|(_, body)| body.clone()).collect();
        let first = tx.next.saturating_sub(bodies.len() as u64);
        tx.closed = true;
        Unread { first, bodies }
    }
}
