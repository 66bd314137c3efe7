//! The receiving half: cuts the stream into frames.
//!
//! Used by [`super::StreamLane`]. Invariant: no byte is interpreted before the header in front of it was found good,
//! and no more than one bounded payload is ever held. Bulk is copied once if it comes in one read with other frames; else the
//! kernel writes it to user memory, and so the rest of a long message where the sink has taken a part of it.

use super::bytes::{ByteStream, stop_if_bad_memory};
use std::io::{self, ErrorKind, IoSliceMut};
use wire::frame::{HEADER, Header, Kind, MAX_PAYLOAD};
use wire::lane::{Death, Sink, copy_in};

/// The bytes of the buffer at first and at most; it doubles when it is full: most lanes bring little, and are made and gone quickly. The
/// longest eager message comes into it as a whole, with its headers and with short ones around it.
const FIRST: usize = 4 << 10;
const BUFFER: usize = 264 << 10;
/// One read takes no more than this, or what is left of a frame and so much beyond it: what is copied from the buffer right after the kernel
/// has written it is in the processor's cache.
const AT_ONCE: usize = 72 << 10;
const BEYOND: usize = 8 << 10;
/// User memory is filled by the kernel if this many bytes of it can be had at a time, and else from the buffer.
const WORTH: usize = 16 << 10;
/// The sink is told of a part of messages from this length on, and then of so many more bytes at a time.
const LONG: usize = 32 << 10;
const PART: usize = 16 << 10;
/// After data that went where they belong, and after what is to be answered, no more is read before the next frame's length is known: its data may go there too.
const AFTER_LONG: usize = 2 << 10;

/// What comes next in the stream.
enum State {
    Header,
    /// The payload of this frame, which is delivered when it is whole, and of how many bytes the sink was told.
    Frame(Header, usize),
    /// The payload of this bulk, or of this frame whose parts go where they belong, behind the bytes that have been delivered.
    Bulk(Header, usize),
}

pub(super) struct Reader {
    buf: Vec<u8>,
    start: usize,
    end: usize,
    /// The bytes so far of a payload that is larger than the buffer.
    large: Vec<u8>,
    /// The longest payload of a frame that is not bulk.
    pub most: usize,
    /// The sink is told of parts of messages from this length on.
    pub long: usize,
    state: State,
    /// Since the last frame that went through the buffer as a whole, data have gone where they belong, or there was an answer: long data may come.
    after_long: bool,
    /// The stripes that LOST has named, as bits.
    pub heard: u16,
}

impl Default for Reader {
    fn default() -> Reader {
        Reader {
            buf: Vec::new(),
            start: 0,
            end: 0,
            large: Vec::new(),
            most: MAX_PAYLOAD,
            long: LONG,
            state: State::Header,
            after_long: false,
            heard: 0,
        }
    }
}

/// The result of a read.
enum Got {
    Bytes(usize),
    /// No bytes are there.
    Nothing,
    /// The stream has ended.
    End(Death),
}

impl Got {
    fn of(r: io::Result<usize>) -> Got {
        match r {
            Ok(0) => Got::End(Death::Closed),
            Ok(n) => Got::Bytes(n),
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Got::Nothing,
            Err(e) => {
                stop_if_bad_memory(&e, "receive");
                Got::End(Death::from_io(e))
            }
        }
    }
}

impl Reader {
    /// Reads about `budget` bytes and delivers them. Returns the number of bytes, and why the lane is dead, if it is.
    pub(super) fn poll(
        &mut self,
        stream: &mut impl ByteStream,
        sink: &mut dyn Sink,
        budget: usize,
    ) -> (usize, Option<Death>) {
        if self.buf.is_empty() {
            self.buf.resize(FIRST, 0);
        }
        let mut total = 0;
        loop {
            if let Err(death) = self.digest(sink) {
                return (total, Some(death));
            }
            // No descriptor would tell of what the stream itself holds, which is less than a record.
            if !stream.has_input() {
                if total > 0 && sink.has_answer() {
                    self.after_long = true;
                    return (total, None);
                }
                if total >= budget {
                    return (total, None);
                }
            }
            let (got, room) = match self.state {
                State::Bulk(header, at) if self.start == self.end => self.direct(stream, sink, header, at),
                _ => self.fill(stream),
            };
            match got {
                Got::Bytes(n) => {
                    total += n;
                    // A short read into the buffer alone means that nothing more is there, so another call is spared.
                    if n < room && matches!(self.state, State::Header | State::Frame(..)) && !stream.has_input() {
                        return (total, self.digest(sink).err());
                    }
                }
                Got::Nothing => return (total, None),
                Got::End(death) => return (total, Some(death)),
            }
        }
    }

    /// Whether no part of a frame has come that is not delivered.
    pub(super) fn is_between_frames(&self) -> bool {
        self.start == self.end && matches!(self.state, State::Header)
    }

    /// How many bytes one read into the buffer takes.
    fn room(&self) -> usize {
        let wanted = match &self.state {
            State::Frame(header, _) => (header.len as usize).saturating_sub(self.end - self.start) + BEYOND,
            State::Header if self.after_long => AFTER_LONG,
            _ => AT_ONCE,
        };
        wanted.min(self.buf.len() - self.end)
    }

    /// Reads into the buffer. The second value is how many bytes there was room for.
    fn fill(&mut self, stream: &mut impl ByteStream) -> (Got, usize) {
        if self.start > 0 {
            self.buf.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        self.grow_if_full();
        let room = self.room();
        let got = Got::of(stream.read_vectored(&mut [IoSliceMut::new(&mut self.buf[self.end..][..room])]));
        if let Got::Bytes(n) = got {
            self.end += n;
            self.grow_if_full();
        }
        (got, room)
    }

    fn grow_if_full(&mut self) {
        if self.end == self.buf.len() {
            self.buf.resize((2 * self.buf.len()).min(BUFFER), 0);
        }
    }

    /// Delivers the frames in the buffer.
    fn digest(&mut self, sink: &mut dyn Sink) -> Result<(), Death> {
        loop {
            let there = &self.buf[self.start..self.end];
            match &mut self.state {
                State::Header => {
                    let Some((head, rest)) = there.split_first_chunk::<HEADER>() else {
                        return Ok(());
                    };
                    let header = Header::decode(head).map_err(|_| Death::Malformed)?;
                    self.start += HEADER;
                    match header.kind {
                        Kind::Bulk => self.state = State::Bulk(header, 0),
                        Kind::Lost => self.heard |= 1 << header.a,
                        _ => match rest.get(..header.len as usize).filter(|payload| payload.len() <= BUFFER) {
                            // Most frames are there as a whole.
                            Some(payload) => {
                                sink.on_frame(&header, payload).map_err(|_| Death::Malformed)?;
                                self.start += payload.len();
                                self.after_long = false;
                            }
                            None => self.state = State::Frame(header, 0),
                        },
                    }
                }
                State::Frame(header, told) => {
                    let header = *header;
                    let len = header.len as usize;
                    if len > BUFFER {
                        if len > self.most {
                            return Err(Death::Malformed);
                        }
                        // Pages are touched only as the bytes come, so that a header alone costs no memory.
                        self.large.reserve_exact(len - self.large.len());
                        let n = there.len().min(len - self.large.len());
                        self.large.extend_from_slice(&there[..n]);
                        self.start += n;
                        if self.large.len() < len {
                            return Ok(());
                        }
                        sink.on_frame(&header, &std::mem::take(&mut self.large)).map_err(|_| Death::Malformed)?;
                    } else {
                        let Some(payload) = there.get(..len) else {
                            let is_due = *told == 0 || there.len() >= *told + PART;
                            if header.kind != Kind::Msg || len < self.long || !is_due {
                                return Ok(());
                            }
                            *told = there.len();
                            sink.on_part(&header, header.a, there, len as u64);
                            if sink.wants_rest(&header, there.len()) {
                                self.state = State::Bulk(header, there.len());
                                (self.start, self.end) = (0, 0);
                            }
                            return Ok(());
                        };
                        sink.on_frame(&header, payload).map_err(|_| Death::Malformed)?;
                        self.start += len;
                        self.after_long = false;
                    }
                    self.state = State::Header;
                }
                State::Bulk(header, at) => {
                    let part = &there[..there.len().min(header.len as usize - *at)];
                    if part.is_empty() {
                        return Ok(());
                    }
                    match header.kind {
                        Kind::Bulk => sink.on_bulk_bytes(header, *at, part),
                        _ => copy_in(part, *at, |at, copy| sink.on_rest(header, at, copy)),
                    }
                    self.start += part.len();
                    *at += part.len();
                    if *at == header.len as usize {
                        let header = *header;
                        self.end_bulk(sink, &header)?;
                    }
                }
            }
            if self.start == self.end {
                (self.start, self.end) = (0, 0);
            }
        }
    }

    /// Reads from the stream into user memory, and what follows the frame into the buffer, which is empty.
    fn direct(&mut self, stream: &mut impl ByteStream, sink: &mut dyn Sink, header: Header, at: usize) -> (Got, usize) {
        (self.start, self.end) = (0, 0);
        let left = header.len as usize - at;
        let buf = &mut self.buf;
        let mut got = None;
        let mut in_buffer = 0;
        let mut read = |to: &mut [IoSliceMut<'_>]| {
            let mut all: Vec<IoSliceMut<'_>> = Vec::with_capacity(to.len() + 1);
            let mut there = 0;
            for piece in to {
                let n = piece.len().min(left - there);
                there += n;
                all.push(IoSliceMut::new(&mut piece[..n]));
            }
            if there < left && there < WORTH {
                // Too finely strided: through the buffer.
                return Err(ErrorKind::Unsupported.into());
            }
            // Only if the frame ends within these pieces, a header comes next.
            if there == left {
                let beyond = buf.len().min(AFTER_LONG);
                all.push(IoSliceMut::new(&mut buf[..beyond]));
            }
            let result = stream.read_vectored(&mut all);
            let in_place = result.as_ref().map_or(0, |n| (*n).min(there));
            in_buffer = result.as_ref().map_or(0, |n| n - in_place);
            let failed = match &result {
                Ok(0) => Some(ErrorKind::UnexpectedEof),
                Ok(_) => None,
                Err(e) => Some(e.kind()),
            };
            got = Some((Got::of(result), in_place, all.iter().map(|piece| piece.len()).sum()));
            failed.map_or(Ok(in_place), |kind| Err(kind.into()))
        };
        // Bulk that is unwanted or too finely strided is read into the buffer, where `digest` deals with it.
        let _ = match header.kind {
            Kind::Bulk => sink.on_bulk(&header, at, &mut read),
            _ => sink.on_rest(&header, at, &mut read),
        };
        let Some((got, in_place, room)) = got else {
            return self.fill(stream);
        };
        self.end = in_buffer;
        self.state = State::Bulk(header, at + in_place);
        if at + in_place == header.len as usize {
            match self.end_bulk(sink, &header) {
                Ok(()) => {}
                Err(death) => return (Got::End(death), room),
            }
        }
        (got, room)
    }

    /// All of a frame has gone where it belongs.
    fn end_bulk(&mut self, sink: &mut dyn Sink, header: &Header) -> Result<(), Death> {
        self.state = State::Header;
        self.after_long |= header.len as usize >= WORTH;
        if header.kind == Kind::Bulk {
            return Ok(());
        }
        match sink.on_placed(header) {
            Ok(true) => Ok(()),
            Ok(false) => Err(Death::Unplaced),
            Err(base::bytes::Malformed) => Err(Death::Malformed),
        }
    }
}
