//! One connection of an operator while it is served: how long that lasts, and what it may take.
//!
//! Its thread has it. Invariant: once [`Visit::is_over`], nothing more is waited for.

use super::budget::Room;
use super::visitors::Ticket;
use std::cell::RefCell;
use std::time::Instant;
use transports::control::{Asker, ControlStream};

/// Where visits are made: the desk.
pub(super) trait Place {
    /// Whether the threads are to end.
    fn is_closing(&self) -> bool;
    /// Whether a visit is to end for the sake of others.
    fn has_to_yield(&self, ticket: Ticket) -> bool;
    /// Room for a message of this length.
    fn room(&self, asker: Asker, length: usize) -> Option<Room>;
}

/// One connection that is served, for its thread.
pub(crate) struct Visit<'a> {
    desk: &'a dyn Place,
    stream: Option<&'a ControlStream>,
    asker: Asker,
    ticket: Ticket,
    until: Instant,
    /// What was read for it.
    rooms: RefCell<Vec<Room>>,
}

impl<'a> Visit<'a> {
    /// The visit of this ticket, until then.
    pub(super) fn new(desk: &'a dyn Place, stream: &'a ControlStream, ticket: Ticket, until: Instant) -> Visit<'a> {
        Visit { stream: Some(stream), ..Visit::of(desk, stream.asker(), ticket, until) }
    }

    /// The same of this asker, without a connection.
    pub(super) fn of(desk: &'a dyn Place, asker: Asker, ticket: Ticket, until: Instant) -> Visit<'a> {
        Visit { desk, stream: None, asker, ticket, until, rooms: RefCell::default() }
    }

    pub(super) fn ticket(&self) -> Ticket {
        self.ticket
    }

    pub(crate) fn until(&self) -> Instant {
        self.until
    }

    pub(crate) fn asker(&self) -> Asker {
        self.asker
    }

    /// Whether nothing more is to be done for it: its time is over, whoever asks has left, or others are to have its place.
    pub(crate) fn is_over(&self) -> bool {
        self.has_ended() || self.desk.has_to_yield(self.ticket)
    }

    pub(super) fn has_ended(&self) -> bool {
        Instant::now() >= self.until || self.desk.is_closing() || self.stream.is_some_and(ControlStream::is_closed)
    }

    /// Whether there is room for so many bytes that were announced. They count until the visit is over.
    pub(crate) fn has_room(&self, length: usize) -> bool {
        let room = self.desk.room(self.asker, length);
        room.map(|room| self.rooms.borrow_mut().push(room)).is_some()
    }
}
