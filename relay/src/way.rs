//! Two connections that are joined: what one side says goes to the other as it is.
//!
//! Invariants: no call blocks; of what one side has sent and the other has not taken, at most one buffer is kept; what was read
//! before an end is written before it is passed on.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};

/// Bytes of a buffer: the most that are read at once, and that are kept in each direction.
pub(crate) const MAX_KEPT: usize = 256 << 10;
/// The most reads of one direction before others have their turn.
const TURN: usize = 8;

/// One direction.
#[derive(Default)]
struct Flow {
    /// What was read and is not written.
    kept: Vec<u8>,
    written: usize,
    /// Nothing more is read.
    ended: bool,
    /// The end was passed on.
    shut: bool,
}

impl Flow {
    fn is_waiting(&self) -> bool {
        self.written < self.kept.len()
    }
}

/// Both of them. Direction n goes from end n to the other one.
pub(crate) struct Way {
    ends: [TcpStream; 2],
    flows: [Flow; 2],
}

/// What is awaited of an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Interest {
    pub(crate) read: bool,
    pub(crate) write: bool,
}

impl Way {
    pub(crate) fn new(ends: [TcpStream; 2]) -> Way {
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
    pub(crate) fn ready(&mut self, n: usize, read: bool, write: bool, buffer: &mut [u8]) -> bool {
        let back = write && self.pump(1 - n, buffer);
        let out = read && self.pump(n, buffer);
        back || out
    }

    fn pump(&mut self, n: usize, buffer: &mut [u8]) -> bool {
        let mut moved = false;
        for _ in 0..TURN {
            match self.pump_once(n, buffer) {
                Ok(true) => moved = true,
                Ok(false) => break,
                // Who is written to has gone: it says so by its own direction too.
                Err(_) => {
                    let flow = &mut self.flows[n];
                    *flow = Flow { ended: true, shut: true, ..Flow::default() };
                    break;
                }
            }
        }
        moved
    }

    /// Whether to go on. An error is one of writing.
    fn pump_once(&mut self, n: usize, buffer: &mut [u8]) -> io::Result<bool> {
        let [from, to] = [&self.ends[n], &self.ends[1 - n]];
        let flow = &mut self.flows[n];
        if flow.is_waiting() {
            flow.written += write(to, &flow.kept[flow.written..])?;
            if flow.is_waiting() {
                return Ok(false);
            }
            (flow.kept, flow.written) = (Vec::new(), 0);
        }
        if flow.ended {
            if !std::mem::replace(&mut flow.shut, true) {
                // An error means that it has gone already.
                let _ = to.shutdown(Shutdown::Write);
            }
            return Ok(false);
        }
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
        let written = write(to, &buffer[..read])?;
        if written < read {
            flow.kept = buffer[written..read].to_vec();
            return Ok(false);
        }
        // A buffer that was not filled has emptied the socket.
        Ok(read == buffer.len())
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
        (a, Way::new([one, other]), b)
    }

    /// Moves all that moves until `is_done`.
    fn until(way: &mut Way, mut is_done: impl FnMut(&mut Way) -> bool) {
        let (mut buffer, start) = (vec![0; MAX_KEPT], Instant::now());
        while !is_done(way) {
            for n in 0..2 {
                let Interest { read, write } = way.interest(n);
                way.ready(n, read, write, &mut buffer);
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
        let mut buffer = vec![0; MAX_KEPT];
        while full < 100 {
            let bytes: Vec<u8> = (0..4096).map(|n| next.wrapping_add(n as u8)).collect();
            let moved = way.ready(0, way.interest(0).read, false, &mut buffer) | way.ready(1, false, true, &mut buffer);
            match a.write(&bytes) {
                Ok(n) => (sent, next, full) = (sent + n, next.wrapping_add(n as u8), 0),
                Err(_) if moved => full = 0,
                Err(_) => full += 1,
            }
            assert!(way.flows[0].kept.len() <= MAX_KEPT);
        }
        assert_eq!(way.interest(0), Interest { read: false, write: false });
        assert_eq!(way.interest(1), Interest { read: true, write: true });
        drop(a);
        let (mut came, mut last, mut at_end) = (0_usize, 0_u8, false);
        let mut room = vec![0; 65536];
        until(&mut way, |_| {
            while let Ok(n) = b.read(&mut room) {
                for byte in &room[..n] {
                    assert_eq!(*byte, last);
                    last = last.wrapping_add(1);
                }
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
