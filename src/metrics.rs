//! `mpi-connect serve --metrics`: what the server counts, over HTTP, on a thread of its own.
//!
//! Invariant: one reader at a time, for a bounded time and with bounded memory; no reader delays the server.

use naming::server::Metrics;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// Where it listens if the option has no address.
pub const DEFAULT: &str = "127.0.0.1:7432";
/// The most bytes of a request.
const MAX_REQUEST: usize = 4096;
/// How long one reader may take in all.
const PATIENCE: Duration = Duration::from_secs(2);
/// The pause when no reader can be let in.
const NAP: Duration = Duration::from_millis(100);

/// Answers readers from now on. Returns where.
pub fn serve(address: &str, metrics: Arc<Metrics>) -> io::Result<SocketAddr> {
    let places: Vec<SocketAddr> = address.to_socket_addrs()?.collect();
    let listener = TcpListener::bind(&*places)?;
    let at = listener.local_addr()?;
    thread::Builder::new().name("metrics".into()).spawn(move || {
        for reader in listener.incoming() {
            match reader {
                // One that hangs up, or is too slow, gets nothing.
                Ok(reader) => drop(answer(reader, &metrics)),
                Err(_) => thread::sleep(NAP),
            }
        }
    })?;
    Ok(at)
}

fn answer(mut reader: TcpStream, metrics: &Metrics) -> io::Result<()> {
    let end = Instant::now() + PATIENCE;
    reader.set_write_timeout(Some(PATIENCE))?;
    let mut request = Vec::new();
    while !request.windows(4).any(|four| four == b"\r\n\r\n") {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() || request.len() >= MAX_REQUEST {
            return Err(ErrorKind::TimedOut.into());
        }
        reader.set_read_timeout(Some(left))?;
        let mut room = [0; 512];
        let n = reader.read(&mut room)?;
        if n == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        request.extend_from_slice(&room[..n]);
    }
    let line = request.split(|b| *b == b'\r').next().unwrap_or_default();
    let (status, body) = match line.split(|b| *b == b' ').collect::<Vec<_>>()[..] {
        [b"GET", b"/metrics", _] => ("200 OK", metrics.text()),
        [b"GET", ..] => ("404 Not Found", "the metrics are at /metrics\n".into()),
        _ => ("405 Method Not Allowed", "only GET is answered\n".into()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    reader.write_all(&[head.as_bytes(), body.as_bytes()].concat())
}
