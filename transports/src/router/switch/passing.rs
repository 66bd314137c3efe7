//! Channels, and what comes on them: each frame is passed to the connection that its channel leads to.
//!
//! A DATA is passed on as it comes, in as many pieces, so that no more than a head is ever held back.

use super::super::conn::{Conn, Id, Parked, To, Who};
use super::super::departed::Known;
use super::super::frame::{HEAD, Head, Kind, MOST_CHANNELS, Open, Why};
use super::super::line::Line;
use super::state::{LIMIT, MOST_PARKED, PATIENCE, Switch, Wanted};
use base::bytes::Malformed;
use std::io::{ErrorKind, IoSlice};
use std::net::SocketAddr;
use std::time::Instant;

impl Switch {
    // ---- channels

    /// Ends a channel that this connection knows, and tells it.
    pub(super) fn end(&mut self, id: Id, channel: u32, why: Why) {
        if let Some(conn) = self.conns.get_mut(&id)
            && conn.channels.remove(&channel).is_some()
        {
            conn.say(channel, Kind::Close, &why.encode());
            self.touched.push(id);
        }
    }

    fn open(&mut self, id: Id, channel: u32, mut open: Open) -> Result<(), Malformed> {
        let Some(conn) = self.conns.get_mut(&id) else { return Ok(()) };
        if !conn.may_open(channel) {
            return Err(Malformed);
        }
        let is_full = conn.channels.len() >= MOST_CHANNELS;
        let from_router = match conn.who() {
            Some(Who::Process(process)) if process == open.from => false,
            Some(Who::Router(_)) => true,
            _ => return Err(Malformed),
        };
        if from_router {
            open.router = conn.peer;
        }
        let until = Instant::now() + PATIENCE;
        let router = open.router;
        let to = open.to;
        conn.channels.insert(channel, To::Parked(Box::new(Parked { open, data: Vec::new(), until })));
        self.waiting.insert((id, channel));
        if is_full {
            self.end(id, channel, Why::Full);
        } else if let Some(&there) = self.processes.get(&to) {
            self.unpark(id, channel, there);
        } else if let Some(known) = self.departed.get(&to) {
            let why = if known == Known::Ended { Why::Dead } else { Why::Gone };
            self.end(id, channel, why);
        } else if let Some(address) = router.filter(|address| !from_router && !self.is_own(address)) {
            self.dial(id, channel, address);
        }
        Ok(())
    }

    /// Opens a channel over the connection to the router at this address, or waits for that.
    fn dial(&mut self, id: Id, channel: u32, address: SocketAddr) {
        match self.dials.get(&address) {
            // What ends goes from here too, so it stands or is being made.
            Some(&there) if self.conns.get(&there).is_some_and(|conn| conn.who().is_some()) => {
                self.unpark(id, channel, there);
            }
            Some(_) => (),
            None => {
                let conn = match Conn::dial(address) {
                    Ok(conn) => conn,
                    Err(e) => return self.end(id, channel, Why::of_dial(&e)),
                };
                // Before it is tried: it may fail at once, and then those that wait for it are told.
                self.dials.insert(address, self.last + 1);
                if self.insert(conn).is_none() {
                    self.dials.remove(&address);
                    return self.end(id, channel, Why::NoRouter);
                }
                // Whoever waits for a router waits as long as its connection may take.
                if let Some(To::Parked(parked)) =
                    self.conns.get_mut(&id).and_then(|conn| conn.channels.get_mut(&channel))
                {
                    parked.until = Instant::now() + LIMIT + PATIENCE;
                }
            }
        }
    }

    /// Opens the other half of a channel, over this connection.
    pub(super) fn unpark(&mut self, id: Id, channel: u32, there: Id) {
        let Some(other) = self.conns.get_mut(&there) else { return self.end(id, channel, Why::NotThere) };
        if other.channels.len() >= MOST_CHANNELS {
            return self.end(id, channel, Why::Full);
        }
        let number = other.next();
        let Some(conn) = self.conns.get_mut(&id) else { return };
        let Some(To::Parked(parked)) = conn.channels.insert(channel, To::Channel(there, number)) else { return };
        let Some(other) = self.conns.get_mut(&there) else { return };
        other.channels.insert(number, To::Channel(id, channel));
        other.say(number, Kind::Open, &parked.open.encode());
        if !parked.data.is_empty() {
            other.pass(number, &[IoSlice::new(&parked.data)]);
        }
        self.touched.push(there);
        self.judge_watch(id, there);
        self.judge_watch(there, id);
    }

    // ---- frames

    /// Reads a connection once, and passes on what has come.
    pub(super) fn read(&mut self, id: Id, mut wanted: Option<Wanted<'_, '_, '_>>) {
        if wanted.is_none()
            && let Some(line) = self.conns.get_mut(&id).and_then(Conn::lend)
        {
            return self.read_in_place(id, line);
        }
        let mut buffer = std::mem::take(&mut self.buffer);
        let read = match self.conns.get_mut(&id) {
            Some(conn) => conn.read(&mut buffer, wanted.as_mut().map(|wanted| (wanted.number, &mut *wanted.into))),
            None => Err(ErrorKind::WouldBlock.into()),
        };
        match read {
            Ok(n) => match self.pass_all(id, &buffer[..n], wanted) {
                Ok(passed) => {
                    if let Some(conn) = self.conns.get_mut(&id) {
                        conn.keep(&buffer[passed..n]);
                    }
                }
                Err(Malformed) => {
                    base::log_seldom!(Error, "what makes no sense was said to the router: the connection is closed");
                    self.drop_conn(id);
                }
            },
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => (),
            Err(_) => self.drop_conn(id),
        }
        self.buffer = buffer;
    }

    /// The same in the memory of a process: what is written on goes from there to the socket of another router.
    fn read_in_place(&mut self, id: Id, mut line: Box<Line>) {
        let mut is_sound = true;
        let was_of_own = self.conns.get(&id).is_some_and(|conn| conn.is_of_own);
        // As much as one read of a socket brings: the room has a begin and an end.
        for _ in 0..2 {
            let looked = line.look(|there| {
                match self.pass_all(id, there, None) {
                    Ok(passed) => self.conns.get_mut(&id).into_iter().for_each(|conn| conn.keep(&there[passed..])),
                    Err(Malformed) => is_sound = false,
                }
                there.len()
            });
            let looked = looked.map_err(|e| e.kind());
            let is_over = match looked {
                Ok(n) => n == 0,
                Err(ErrorKind::WouldBlock) => self.conns.get(&id).is_some_and(|conn| conn.has_hung_up),
                Err(_) => true,
            };
            is_sound &= !is_over;
            let is_between = self.conns.get(&id).is_some_and(|conn| conn.is_between());
            if looked.is_err() || !is_sound || !is_between {
                break;
            }
        }
        let Some(conn) = self.conns.get_mut(&id) else {
            // It was closed meanwhile.
            let epolls = self.own.iter().map(|own| &*own.epoll).chain([&*self.epoll]);
            return epolls.for_each(|epoll| line.unwatch(epoll));
        };
        conn.give_back(line);
        if conn.is_of_own != was_of_own {
            self.move_watch(id);
        }
        if !is_sound {
            self.drop_conn(id);
        }
    }

    /// Passes on all but the begin of a frame whose head, or short body, has not come whole. Returns how many bytes these are.
    fn pass_all(&mut self, id: Id, bytes: &[u8], mut wanted: Option<Wanted<'_, '_, '_>>) -> Result<usize, Malformed> {
        let mut at = 0;
        while let Some(conn) = self.conns.get_mut(&id) {
            let there = &bytes[at..];
            if let Some((channel, left)) = conn.body {
                let part = left.min(there.len());
                if part == 0 {
                    return Ok(at);
                }
                conn.body = (part < left).then_some((channel, left - part));
                let mut data = &there[..part];
                at += part;
                if let Some(wanted) = wanted.as_mut().filter(|wanted| (wanted.on, wanted.number) == (id, channel)) {
                    data = &data[wanted.into.put(data)..];
                }
                if !data.is_empty() {
                    self.pass_data(id, channel, &[IoSlice::new(data)]);
                }
                continue;
            }
            let Some((head, rest)) = there.split_first_chunk::<HEAD>() else { return Ok(at) };
            let head = Head::decode(head)?;
            if head.kind == Kind::Data {
                conn.body = Some((head.channel, head.len));
                at += HEAD;
                continue;
            }
            let Some(body) = rest.get(..head.len) else { return Ok(at) };
            at += HEAD + head.len;
            self.pass(id, head, body)?;
        }
        Ok(bytes.len())
    }

    /// Passes data on that has come for a channel of this connection.
    pub(in crate::router) fn pass_data(&mut self, id: Id, channel: u32, data: &[IoSlice<'_>]) {
        let Some(conn) = self.conns.get_mut(&id) else { return };
        // What comes for a channel that has ended is dropped.
        match conn.channels.get_mut(&channel) {
            Some(&mut To::Channel(other, number)) => {
                if let Some(conn) = self.conns.get_mut(&other) {
                    conn.pass(number, data);
                    self.touch(other);
                }
            }
            Some(To::Parked(parked)) => {
                if parked.data.len() + data.iter().map(|piece| piece.len()).sum::<usize>() > MOST_PARKED {
                    return self.end(id, channel, Why::Full);
                }
                data.iter().for_each(|piece| parked.data.extend_from_slice(piece));
            }
            None => (),
        }
    }

    /// Does what a frame says that is no DATA, or passes it on.
    pub(in crate::router) fn pass(&mut self, id: Id, head: Head, body: &[u8]) -> Result<(), Malformed> {
        if head.kind == Kind::Open {
            return self.open(id, head.channel, Open::decode(body)?);
        }
        if head.kind == Kind::Close {
            Why::decode(body)?;
        }
        let Some(conn) = self.conns.get_mut(&id) else { return Ok(()) };
        match conn.channels.get(&head.channel) {
            Some(&To::Channel(other, number)) => {
                if head.kind == Kind::Close {
                    conn.channels.remove(&head.channel);
                }
                let Some(other_conn) = self.conns.get_mut(&other) else { return Ok(()) };
                other_conn.say(number, head.kind, body);
                if head.kind == Kind::Close {
                    other_conn.channels.remove(&number);
                }
                self.touch(other);
            }
            Some(To::Parked(_)) if head.kind == Kind::Close => drop(conn.channels.remove(&head.channel)),
            Some(To::Parked(_)) => self.end(id, head.channel, Why::Full),
            None => (),
        }
        Ok(())
    }

    fn touch(&mut self, id: Id) {
        if self.touched.last() != Some(&id) {
            self.touched.push(id);
        }
    }
}
