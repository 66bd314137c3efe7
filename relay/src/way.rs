//! Two connections that are joined: what one side says goes to the other as it is.
//!
//! Little is copied through a buffer. Behind a buffer that was filled comes bulk, which goes through a pipe: its pages are
//! passed on, and this process copies none of them. Where a turn has brought bulk, the next one begins with the pipe.
//!
//! Invariants: no call blocks; of what one side has sent and the other has not taken, at most one buffer and one pipe are kept;
//! what was read before an end is written before it is passed on; a direction of which nothing is kept has no pipe.

use nix::fcntl::{FcntlArg, OFlag, SpliceFFlags, fcntl, splice};
use nix::unistd::pipe2;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Bytes of a buffer.
pub(crate) const BUFFER: usize = 32 << 10;
/// Bytes of a pipe, where the kernel gives as many: with fewer, more calls are made for the same bytes.
pub(crate) const MAX_KEPT: usize = 1 << 20;
/// The most reads of one direction before others have their turn.
const TURN: usize = 8;

/// What a thread has for the directions that it carries.
pub(crate) struct Spare {
    buffer: Vec<u8>,
    /// Empty pipes.
    pipes: Vec<Pipe>,
}

impl Spare {
    pub(crate) fn new() -> Spare {
        Spare { buffer: vec![0; BUFFER], pipes: Vec::new() }
    }

    /// An empty pipe. Without one, bulk goes through the buffer.
    fn pipe(&mut self) -> Option<Pipe> {
        self.pipes.pop().or_else(|| Pipe::new().ok())
    }
}

struct Pipe {
    out: OwnedFd,
    into: OwnedFd,
    /// How many bytes are in it.
    held: usize,
}

impl Pipe {
    fn new() -> nix::Result<Pipe> {
        let (out, into) = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)?;
        // With less room, more calls are made.
        let _ = fcntl(&into, FcntlArg::F_SETPIPE_SZ(MAX_KEPT as i32));
        Ok(Pipe { out, into, held: 0 })
    }

    /// Takes what has come. `None`: nothing now.
    fn fill(&mut self, from: &TcpStream) -> io::Result<Option<usize>> {
        let read = moved(|| splice(from, None, &self.into, None, MAX_KEPT, flags()))?;
        self.held += read.unwrap_or(0);
        Ok(read)
    }

    /// Gives what is in it. It is empty afterwards, or the socket takes no more now.
    fn drain(&mut self, to: &TcpStream) -> io::Result<()> {
        while self.held > 0 {
            match moved(|| splice(&self.out, None, to, None, self.held, flags()))? {
                None => break,
                Some(0) => return Err(ErrorKind::WriteZero.into()),
                Some(n) => self.held -= n,
            }
        }
        Ok(())
    }
}

fn flags() -> SpliceFFlags {
    SpliceFFlags::SPLICE_F_MOVE | SpliceFFlags::SPLICE_F_NONBLOCK
}

/// How many bytes have moved. `None`: none can now.
fn moved(mut attempt: impl FnMut() -> nix::Result<usize>) -> io::Result<Option<usize>> {
    loop {
        match attempt() {
            Ok(n) => return Ok(Some(n)),
            Err(nix::Error::EAGAIN) => return Ok(None),
            Err(nix::Error::EINTR) => (),
            Err(e) => return Err(e.into()),
        }
    }
}

/// One direction.
#[derive(Default)]
struct Flow {
    /// What was read and is not written; what is in the pipe comes behind it.
    kept: Vec<u8>,
    written: usize,
    pipe: Option<Pipe>,
    /// How many bytes the last turn has brought that has brought any.
    came: usize,
    /// Nothing more is read.
    ended: bool,
    /// The end was passed on.
    shut: bool,
}

impl Flow {
    fn is_waiting(&self) -> bool {
        self.written < self.kept.len() || self.pipe.as_ref().is_some_and(|pipe| pipe.held > 0)
    }

    /// Writes what is kept, as far as the socket takes it.
    fn write_kept(&mut self, to: &TcpStream) -> io::Result<()> {
        if self.written < self.kept.len() {
            self.written += write(to, &self.kept[self.written..])?;
            if self.written < self.kept.len() {
                return Ok(());
            }
            (self.kept, self.written) = (Vec::new(), 0);
        }
        self.pipe.as_mut().map_or(Ok(()), |pipe| pipe.drain(to))
    }
}

/// Two connections.
pub(crate) type Ends = [TcpStream; 2];

/// Both of them. Direction n goes from end n to the other one.
pub(crate) struct Way {
    ends: Arc<Ends>,
    flows: [Flow; 2],
}

/// What is awaited of an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Interest {
    pub(crate) read: bool,
    pub(crate) write: bool,
}

impl Way {
    pub(crate) fn new(ends: Arc<Ends>) -> Way {
        Way { ends, flows: Default::default() }
    }

    pub(crate) fn end(&self, n: usize) -> &TcpStream {
        &self.ends[n]
    }

    pub(crate) fn interest(&self, n: usize) -> Interest {
        let (out, back) = (&self.flows[n], &self.flows[1 - n]);
        Interest { read: !out.ended && !out.is_waiting(), write: back.is_waiting() }
    }

    /// Whether both directions have ended.
    pub(crate) fn is_over(&self) -> bool {
        self.flows.iter().all(|flow| flow.shut)
    }

    /// An end is ready. Returns whether anything has moved.
    pub(crate) fn ready(&mut self, n: usize, read: bool, write: bool, spare: &mut Spare) -> bool {
        let back = write && self.pump(1 - n, spare);
        let out = read && self.pump(n, spare);
        back || out
    }

    fn pump(&mut self, n: usize, spare: &mut Spare) -> bool {
        let mut moved = false;
        let before = std::mem::take(&mut self.flows[n].came);
        if before > BUFFER && self.flows[n].pipe.is_none() {
            self.flows[n].pipe = spare.pipe();
        }
        for _ in 0..TURN {
            match self.pump_once(n, spare) {
                Ok(true) => moved = true,
                Ok(false) => break,
                // Who is written to has gone: it says so by its own direction too.
                Err(_) => {
                    self.flows[n] = Flow { ended: true, shut: true, ..Flow::default() };
                    break;
                }
            }
        }
        let flow = &mut self.flows[n];
        if flow.came == 0 {
            flow.came = before;
        }
        spare.pipes.extend(flow.pipe.take_if(|pipe| pipe.held == 0));
        moved
    }

    /// Whether to go on. An error is one of writing.
    fn pump_once(&mut self, n: usize, spare: &mut Spare) -> io::Result<bool> {
        let [from, to] = [&self.ends[n], &self.ends[1 - n]];
        let flow = &mut self.flows[n];
        if flow.is_waiting() {
            flow.write_kept(to)?;
            if flow.is_waiting() {
                return Ok(false);
            }
        }
        if flow.ended {
            if !std::mem::replace(&mut flow.shut, true) {
                // An error means that it has gone already.
                let _ = to.shutdown(Shutdown::Write);
            }
            return Ok(false);
        }
        if let Some(pipe) = &mut flow.pipe {
            return Ok(match pipe.fill(from) {
                Ok(None) => false,
                Ok(Some(n @ 1..)) => {
                    flow.came += n;
                    pipe.drain(to)?;
                    pipe.held == 0
                }
                // As an end: what came before it was passed on.
                Ok(Some(0)) | Err(_) => {
                    flow.ended = true;
                    true
                }
            });
        }
        let buffer = &mut spare.buffer[..];
        let mut from = from;
        let read = match from.read(buffer) {
            Ok(n) => n,
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => return Ok(false),
            // As an end: what came before it was passed on.
            Err(_) => 0,
        };
        if read == 0 {
            flow.ended = true;
            return Ok(true);
        }
        flow.came += read;
        let written = write(to, &buffer[..read])?;
        if written < read {
            flow.kept = buffer[written..read].to_vec();
            return Ok(false);
        }
        // A buffer that was not filled has emptied the socket.
        let is_bulk = read == buffer.len();
        if is_bulk {
            flow.pipe = spare.pipe();
        }
        Ok(is_bulk)
    }
}

/// How many bytes the socket takes now.
fn write(mut to: &TcpStream, bytes: &[u8]) -> io::Result<usize> {
    let mut written = 0;
    while written < bytes.len() {
        match to.write(&bytes[written..]) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(n) => written += n,
            Err(e) if e.kind() == ErrorKind::WouldBlock => break,
            Err(e) if e.kind() == ErrorKind::Interrupted => (),
            Err(e) => return Err(e),
        }
    }
    Ok(written)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::time::{Duration, Instant};

    fn joined() -> (TcpStream, Way, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let connect = || {
            let outside = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let inside = listener.accept().unwrap().0;
            inside.set_nonblocking(true).unwrap();
            (outside, inside)
        };
        let ((a, one), (b, other)) = (connect(), connect());
        a.set_nonblocking(true).unwrap();
        b.set_nonblocking(true).unwrap();
        (a, Way::new(Arc::new([one, other])), b)
    }

    /// Moves all that moves until `is_done`.
    fn until(way: &mut Way, mut is_done: impl FnMut(&mut Way) -> bool) {
        let (mut spare, start) = (Spare::new(), Instant::now());
        while !is_done(way) {
            for n in 0..2 {
                let Interest { read, write } = way.interest(n);
                way.ready(n, read, write, &mut spare);
            }
            assert!(start.elapsed() < Duration::from_secs(20));
        }
    }

    #[test]
    fn what_nobody_takes_is_kept_within_the_limit_and_comes_before_the_end() {
        let (mut a, mut way, mut b) = joined();
        let (mut sent, mut next) = (0_usize, 0_u8);
        // Until nothing moves: the buffers on the way are full.
        let mut full = 0;
        let mut spare = Spare::new();
        while full < 100 {
            let bytes: Vec<u8> = (0..4096).map(|n| next.wrapping_add(n as u8)).collect();
            let moved = way.ready(0, way.interest(0).read, false, &mut spare) | way.ready(1, false, true, &mut spare);
            match a.write(&bytes) {
                Ok(n) => (sent, next, full) = (sent + n, next.wrapping_add(n as u8), 0),
                Err(_) if moved => full = 0,
                Err(_) => full += 1,
            }
            let held = way.flows[0].pipe.as_ref().map_or(0, |pipe| pipe.held);
            assert!(way.flows[0].kept.len() <= BUFFER && held <= MAX_KEPT);
        }
        assert_eq!(way.interest(0), Interest { read: false, write: false });
        assert_eq!(way.interest(1), Interest { read: true, write: true });
        drop(a);
        let (mut came, mut at_end) = (0_usize, false);
        let mut room = vec![0; 65536];
        // What was sent, from any of its bytes on.
        let all: Vec<u8> = (0..room.len() + 256).map(|n| n as u8).collect();
        until(&mut way, |_| {
            while let Ok(n) = b.read(&mut room) {
                assert!(room[..n] == all[came % 256..][..n], "other bytes behind the first {came}");
                came += n;
                at_end = n == 0;
                if at_end {
                    break;
                }
            }
            at_end
        });
        assert_eq!(came, sent);
        drop(b);
        until(&mut way, |way| way.is_over());
    }

    #[test]
    fn a_turn_behind_bulk_begins_with_a_pipe_and_few_bytes_end_that() {
        let (mut a, mut way, mut b) = joined();
        b.set_nonblocking(false).unwrap();
        let (mut spare, mut next) = (Spare::new(), 0_u8);
        let mut turn = |bytes: usize| {
            let sent: Vec<u8> = (0..bytes).map(|n| next.wrapping_add(n as u8)).collect();
            next = next.wrapping_add(1);
            a.write_all(&sent).unwrap();
            let start = Instant::now();
            while way.end(0).peek(&mut vec![0; bytes]).unwrap_or(0) < bytes {
                assert!(start.elapsed() < Duration::from_secs(20));
            }
            way.ready(0, true, false, &mut spare);
            let mut came = vec![0; bytes];
            b.read_exact(&mut came).unwrap();
            assert!(came == sent && way.flows[0].pipe.is_none());
            (way.flows[0].came, spare.pipes.len())
        };
        assert_eq!(turn(BUFFER - 1), (BUFFER - 1, 0));
        assert_eq!(turn(BUFFER + 1), (BUFFER + 1, 1));
        // The pipe is used again, and a direction of which nothing is kept has none.
        assert_eq!(turn(10), (10, 1));
        assert_eq!(turn(10), (10, 1));
        assert_eq!(turn(2 * BUFFER), (2 * BUFFER, 1));
    }

    #[test]
    fn both_directions_go_at_once_and_end_apart() {
        let (mut a, mut way, mut b) = joined();
        a.write_all(b"ping").unwrap();
        b.write_all(b"pong").unwrap();
        a.shutdown(Shutdown::Write).unwrap();
        let (mut at_a, mut at_b) = (Vec::new(), Vec::new());
        let mut room = [0; 16];
        until(&mut way, |_| {
            if let Ok(n) = a.read(&mut room) {
                at_a.extend_from_slice(&room[..n]);
            }
            if let Ok(n) = b.read(&mut room) {
                at_b.extend_from_slice(&room[..n]);
            }
            at_a == b"pong" && at_b == b"ping"
        });
        assert!(!way.is_over());
        b.write_all(b"more").unwrap();
        until(&mut way, |_| a.read(&mut room).is_ok_and(|n| &room[..n] == b"more"));
        drop(b);
        until(&mut way, |way| way.is_over());
    }
}
