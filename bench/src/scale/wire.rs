//! A lane in the memory of one process, which costs some 200 bytes for both ends and counts what goes over it.

use base::Memory;
use base::bytes::Malformed;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use wire::frame::{HEADER, Header, Kind};
use wire::lane::{Caps, Death, Event, Fill, Lane, Payload, Sent, Sink};

/// What all lanes share: which ends have something to read, and the sums.
#[derive(Default)]
pub struct Post {
    /// A process and the number of its pair.
    pub ready: RefCell<VecDeque<(u32, u32)>>,
    pub frames: Cell<u64>,
    pub bytes: Cell<u64>,
}

#[derive(Default)]
struct Link {
    /// Who has each end: a process and the number of its pair.
    holders: [Cell<(u32, u32)>; 2],
    /// What was sent to each end and is not read.
    inboxes: [RefCell<Vec<u8>>; 2],
    is_closed: Cell<bool>,
}

/// One end.
pub struct Wire {
    post: Rc<Post>,
    link: Rc<Link>,
    side: u8,
    is_quiet: bool,
    written: u64,
    death: Option<Death>,
    is_told: bool,
}

/// Both ends of a new lane, for these processes and pairs.
pub fn lane(post: &Rc<Post>, holders: [(u32, u32); 2]) -> [Wire; 2] {
    let link = Rc::new(Link { holders: holders.map(Cell::new), ..Link::default() });
    let end = |side| Wire {
        post: post.clone(),
        link: link.clone(),
        side,
        is_quiet: false,
        written: 0,
        death: None,
        is_told: false,
    };
    [end(0), end(1)]
}

impl Wire {
    fn other(&self) -> usize {
        usize::from(1 - self.side)
    }

    fn wake(&self, side: usize) {
        self.post.ready.borrow_mut().push_back(self.link.holders[side].get());
    }

    fn send(&mut self, header: &Header, fill: impl FnOnce(&mut [u8])) -> Sent {
        if self.is_quiet || self.link.is_closed.get() {
            return Sent::NoRoom;
        }
        let mut inbox = self.link.inboxes[self.other()].borrow_mut();
        if inbox.is_empty() {
            self.wake(self.other());
        }
        inbox.extend_from_slice(&header.encode());
        let start = inbox.len();
        inbox.resize(start + header.len as usize, 0);
        fill(&mut inbox[start..]);
        let sent = (HEADER + header.len as usize) as u64;
        self.written += sent;
        self.post.frames.set(self.post.frames.get() + 1);
        self.post.bytes.set(self.post.bytes.get() + sent);
        Sent::Taken
    }

    fn deliver(bytes: &[u8], sink: &mut dyn Sink) -> Result<(), Malformed> {
        let mut rest = bytes;
        while let Some((head, more)) = rest.split_first_chunk::<HEADER>() {
            let header = Header::decode(head)?;
            let (payload, more) = more.split_at_checked(header.len as usize).ok_or(Malformed)?;
            match header.kind {
                Kind::Bulk => sink.on_bulk_bytes(&header, 0, payload),
                _ => sink.on_frame(&header, payload)?,
            }
            rest = more;
        }
        Ok(())
    }
}

impl<M: Memory> Lane<M> for Wire {
    fn caps(&self) -> Caps {
        Caps::STREAM
    }

    fn wants_write(&self) -> bool {
        false
    }

    fn try_send(&mut self, mem: &M, header: &Header, payload: Payload<'_>) -> Sent {
        self.send(header, |to| match payload {
            Payload::Bytes(bytes) => to.copy_from_slice(bytes),
            Payload::Joined(head, rest) => to.copy_from_slice(&[head, rest].concat()),
            Payload::User { buf, offset } => drop(mem.fill(buf, offset, to)),
        })
    }

    fn try_send_with(&mut self, header: &Header, fill: &mut Fill<'_>) -> Sent {
        self.send(header, |to| fill(0, to))
    }

    fn flush(&mut self, _: &M) -> bool {
        true
    }

    fn poll(&mut self, sink: &mut dyn Sink, _: usize) -> usize {
        let bytes = std::mem::take(&mut *self.link.inboxes[usize::from(self.side)].borrow_mut());
        if Wire::deliver(&bytes, sink).is_err() {
            self.death = Some(Death::Malformed);
        } else if self.link.is_closed.get() {
            self.death.get_or_insert(Death::Closed);
        }
        bytes.len()
    }

    fn event(&mut self) -> Option<Event> {
        let is_new = self.death.is_some() && !std::mem::replace(&mut self.is_told, self.death.is_some());
        is_new.then_some(Event::Dead)
    }

    fn quiesce(&mut self) {
        self.is_quiet = true;
    }

    fn resume(&mut self) {
        self.is_quiet = false;
    }

    fn death(&self) -> Option<&Death> {
        self.death.as_ref()
    }

    fn cut(&mut self) {
        if !self.link.is_closed.replace(true) {
            self.wake(self.other());
        }
    }

    fn written(&self) -> u64 {
        self.written
    }

    fn is_open(&self) -> Option<bool> {
        Some(!self.link.is_closed.get())
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        if !self.link.is_closed.replace(true) {
            self.wake(self.other());
        }
    }
}
